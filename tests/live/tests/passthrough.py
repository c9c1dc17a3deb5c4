"""`aquila gateway --intercept`: acknowledgements of kernels' TCP passed through a radio that loses, damages and delays packets."""

import fcntl
import heapq
import http.client
import json
import random
import signal
import socket
import struct
import termios
import threading
import time

from lib import places
from lib.programs import AQUILA, Program
from lib.rig import make_key
from lib.runner import check, test, wait_until

SERVICE = "10.20.0.5"
SERVICE_V6 = "fd20::5"


class Air:
    """A radio between two namespaces, in ours."""

    def __init__(self, ends, lost=0.05, wrong=0.1, delay=0.02, rate="5M"):
        self.lost, self.wrong, self.delay, self.rate, self.random = lost, wrong, delay, rate, random.Random(1)
        self.sockets = []
        for ours, _ in ends:
            each = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            each.bind((ours, 0))
            each.settimeout(0.2)
            self.sockets.append(each)
        # A program that connects has any port.
        self.far = [(theirs, 5000) for _, theirs in ends]
        self.cut = self.over = False
        self.bytes = 0
        for end in range(2):
            queue, ready = [], threading.Condition()
            threading.Thread(target=self.take, args=(end, queue, ready), daemon=True).start()
            threading.Thread(target=self.give, args=(end, queue, ready), daemon=True).start()

    def take(self, end, queue, ready):
        while not self.over:
            try:
                packet, self.far[end] = self.sockets[end].recvfrom(4096)
                packet = bytearray(packet)
            except (TimeoutError, OSError):
                continue
            self.bytes += len(packet)
            if self.cut or self.random.random() < self.lost:
                continue
            if self.random.random() < self.wrong:
                packet[self.random.randrange(len(packet))] ^= 1 << self.random.randrange(8)
            with ready:
                heapq.heappush(queue, (time.monotonic() + self.delay, packet))
                ready.notify()

    def give(self, end, queue, ready):
        while not self.over:
            with ready:
                if not queue:
                    ready.wait(0.2)
                    continue
                wait = queue[0][0] - time.monotonic()
                packet = heapq.heappop(queue)[1] if wait <= 0 else None
            if packet is None:
                time.sleep(wait)
            elif not self.cut:
                self.sockets[1 - end].sendto(packet, self.far[1 - end])

    def address(self, end):
        ours, port = self.sockets[end].getsockname()
        return f"{ours}:{port}"

    def spec(self, end):
        return f"udp:{self.far[end][0]}:5000>{self.address(end)},rate={self.rate}"

    def stop(self):
        self.over = True


class Server:
    """Keeps what each connection brings, echoes lines, and says how it ended."""

    def __init__(self, place, family, address):
        with place.inside():
            self.listener = socket.create_server((address, 5001), family=family)
        self.connections = []
        self.reading = threading.Event()
        self.reading.set()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            got = {"socket": connection, "bytes": bytearray(), "end": None}
            self.connections.append(got)
            threading.Thread(target=self.read, args=(connection, got), daemon=True).start()

    def read(self, connection, got):
        try:
            while True:
                self.reading.wait()
                block = connection.recv(65536)
                if not block:
                    break
                got["bytes"] += block
                if block.endswith(b"\n") and len(block) < 100:
                    connection.sendall(block)
            connection.sendall(b"all")
            got["end"] = "closed"
        except OSError as error:
            got["end"] = type(error).__name__
        connection.close()

    def stop(self):
        self.listener.close()


class Bench2:
    """Two machines with a gateway each: a client at one, servers at the other, of which one is on loopback only. `by_link`: the gateways are
    those of `aquila air` and `aquila ground`."""

    def __init__(self, bench, by_link=False, **air):
        self.bench, self.by_link = bench, by_link
        ends = [("10.77.1.1", "10.77.1.2"), ("10.77.2.1", "10.77.2.2")]
        self.places = [bench.add(places.Namespace(f"{ours}/24", f"{theirs}/24")) for ours, theirs in ends]
        self.air = bench.add(Air(ends, **air))
        self.keys = {side: make_key(bench, side) for side in ("air", "ground")}
        self.starts = 0
        self.programs = {}
        places.ip("addr", "add", f"{SERVICE_V6}/128", "dev", "lo", place=self.places[0])
        self.v4 = bench.add(Server(self.places[0], socket.AF_INET, "127.0.0.1"))
        self.v6 = bench.add(Server(self.places[0], socket.AF_INET6, SERVICE_V6))
        self.start("air")
        self.start("ground")

    def start(self, side):
        end = ("air", "ground").index(side)
        other = ("ground", "air")[end]
        self.starts += 1
        if self.by_link:
            way = ["--connect", self.air.address(end)] if side == "air" else ["--listen", "0.0.0.0:5000"]
            command = [AQUILA, side, *way, "--mavlink", "udpin:127.0.0.1:14550"]
        else:
            command = [AQUILA, "gateway", "--side", side, "--radio", self.air.spec(end)]
        command += ["--key", self.keys[side][0], "--peer", self.keys[other][1], "--state", self.bench.path(f"state-{side}")]
        command += ["--log", "info", "--status", "127.0.0.1:9420"]
        if side == "air":
            command += ["--tun", "aquila0", "--allow", "tcp/127.0.0.0/8:5001-5002", "--allow", f"tcp/[{SERVICE_V6}]:*"]
        else:
            command += ["--intercept", f"tcp/{SERVICE}:*>127.0.0.1", "--intercept", f"tcp/[{SERVICE_V6}]:5001"]
        program = self.bench.add(Program(self.bench, f"gateway-{side}-{self.starts}", command, self.places[end]))
        self.programs[side] = program
        program.wait_log("connections are carried" if self.by_link else "gateway started", 20)
        return program

    def status(self, side, path="/status"):
        place = self.places[("air", "ground").index(side)]
        with place.inside():
            connection = http.client.HTTPConnection("127.0.0.1", 9420, timeout=3)
            connection.connect()
        connection.request("GET", path)
        return connection.getresponse().read().decode()

    def connect(self, address=SERVICE, port=5001):
        with self.places[1].inside():
            connection = socket.create_connection((address, port), timeout=15)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def unacknowledged(connection):
    return struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, b"\0" * 4))[0]


def ends_with(connection):
    try:
        return connection.recv(10)
    except OSError as error:
        return type(error).__name__


@test("acknowledgements pass through: a shell and a file by a bad radio, IPv4 and IPv6", needs=["namespaces"], seconds=60)
def file_and_shell(bench):
    return shell_and_file(Bench2(bench))


@test("acknowledgements pass through the link: a shell and a file, IPv4 and IPv6", needs=["namespaces"], seconds=60)
def by_link(bench):
    return shell_and_file(Bench2(bench, by_link=True, lost=0.01, wrong=0.0))


def shell_and_file(both):
    report = []
    for address, server in ((SERVICE, both.v4), (SERVICE_V6, both.v6)):
        connection = both.connect(address)
        took = []
        for number in range(30):
            began = time.monotonic()
            connection.sendall(b"line %d\n" % number)
            check(connection.recv(100) == b"line %d\n" % number, "the echo")
            took.append(time.monotonic() - began)
        took.sort()
        # Without newlines, as the server echoes what looks like a line.
        sent = random.Random(2).randbytes(3_000_000 if address == SERVICE else 300_000).replace(b"\n", b" ")
        began = time.monotonic()
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(40)
        answer = ends_with(connection)
        took_file = time.monotonic() - began
        check(answer == b"all" and ends_with(connection) == b"", f"the end, after {answer!r}")
        got = server.connections[0]["bytes"]
        check(got.endswith(sent) and server.connections[0]["end"] == "closed", f"{len(got)} bytes arrived, or others")
        kbit = len(sent) * 8 / took_file / 1e3
        report.append(f"echo {took[15] * 1e3:.0f} ms, at worst {took[-1] * 1e3:.0f}; {len(sent)} bytes at {kbit:.0f} kbit/s")
    return "; ".join(report)


@test("acknowledgements pass through: nothing counts as sent while the radio is cut", needs=["namespaces"], seconds=60)
def cut(bench):
    both = Bench2(bench, lost=0.0, wrong=0.0)
    connection = both.connect()
    connection.sendall(b"hello\n")
    check(connection.recv(100) == b"hello\n", "the echo")
    wait_until("all is acknowledged", lambda: unacknowledged(connection) == 0, 5)
    known = lambda: [flow["acknowledged_bytes"] for flow in json.loads(both.status("air"))["flows"]] == [6]
    wait_until("the other side knows that its echo has arrived", known, 5)
    both.air.cut = True
    connection.sendall(b"x" * 5000)
    time.sleep(3)
    check(unacknowledged(connection) == 5000, f"{unacknowledged(connection)} of 5000 bytes are unacknowledged")
    for side, opened, sent, acknowledged in (("ground", "here", 5006, 6), ("air", "there", 6, 6)):
        flow = json.loads(both.status(side))["flows"][0]
        seen = (flow["opened"], flow["mode"], flow["state"], flow["sent_bytes"], flow["acknowledged_bytes"])
        check(seen == (opened, "reliable", "open", sent, acknowledged), f"the status of {side} is {flow}")
    metrics = both.status("ground", "/metrics")
    check("\naquila_gateway_unacknowledged_bytes 5000\n" in metrics, metrics)
    both.air.cut = False
    wait_until("all is acknowledged", lambda: unacknowledged(connection) == 0, 10)
    check(both.v4.connections[0]["bytes"] == b"hello\n" + b"x" * 5000, "other bytes than were sent")
    # A server that does not read makes the client wait: what counts as sent is in the server's kernel.
    both.v4.reading.clear()
    connection.settimeout(1.5)
    sent = 0
    try:
        while sent < 30_000_000:
            sent += connection.send(b"y" * 65536)
    except TimeoutError:
        pass
    held = unacknowledged(connection)
    check(sent < 25_000_000, "the server's silence does not reach the client")
    both.v4.reading.set()
    return f"{sent} bytes taken of a client whose server does not read, {held} of them unacknowledged"


@test("acknowledgements pass through: what is refused, and what ends with a gateway", needs=["namespaces"], seconds=60)
def resets(bench):
    both = Bench2(bench, lost=0.02, wrong=0.02)
    for port, why in ((5002, "nobody listens"), (5003, "not allowed"), (22, "not allowed")):
        try:
            both.connect(port=port)
            check(False, f"port {port} was connected to")
        except ConnectionRefusedError:
            pass
    for side in ("ground", "air"):
        idle, busy = both.connect(), both.connect()
        busy.sendall(b"x" * 100_000)
        wait_until("some has arrived", lambda: len(both.v4.connections[-1]["bytes"]) > 10_000, 10)
        both.programs[side].end(signal.SIGKILL)
        both.start(side)
        # The one that is idle says nothing that would bring it out.
        for connection in (idle, busy):
            connection.settimeout(20)
            ended = ends_with(connection)
            check(ended == "ConnectionResetError", f"after {side} was killed the client sees {ended!r}")
        ends = lambda: all(each["end"] in ("ConnectionResetError", "BrokenPipeError") for each in both.v4.connections)
        wait_until(f"the servers see it after {side} was killed", ends, 20)
    return "refused, not allowed, and both gateways killed"
