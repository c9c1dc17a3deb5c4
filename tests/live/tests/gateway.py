"""`aquila gateway`: real sockets on both sides of a radio that loses and damages packets, and gateways that are killed."""

import contextlib
import fcntl
import glob
import os
import random
import signal
import socket
import struct
import termios
import threading
import time

from lib import places
from lib.programs import AQUILA, Program, Radios
from lib.probe import Probe
from lib.rig import Rig, make_key
from lib.runner import Failed, check, test, wait_until

# So often a gateway is killed; more of them for a longer run.
KILLS = int(os.environ.get("AQUILA_GATEWAY_KILLS", "12"))


class Air:
    """A radio between two UDP ports."""

    def __init__(self, lost=0.05, wrong=0.1):
        self.lost, self.wrong, self.random = lost, wrong, random.Random(1)
        self.sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
        for each in self.sockets:
            each.bind(("127.0.0.1", 0))
            each.settimeout(0.2)
        self.ends = [places.free_port(socket.SOCK_DGRAM) for _ in range(2)]
        self.over = False
        # Of each end, the packets that came from it, and when the last one did.
        self.came, self.last = [0, 0], [None, None]
        self.threads = [threading.Thread(target=self.carry, args=(end,), daemon=True) for end in range(2)]
        for thread in self.threads:
            thread.start()

    def carry(self, end):
        while not self.over:
            try:
                packet = bytearray(self.sockets[end].recv(4096))
            except (TimeoutError, OSError):
                continue
            self.came[end], self.last[end] = self.came[end] + 1, time.monotonic()
            if self.random.random() < self.lost:
                continue
            if self.random.random() < self.wrong:
                packet[self.random.randrange(len(packet))] ^= 1 << self.random.randrange(8)
            with contextlib.suppress(OSError):  # What cannot be sent is lost, as on any radio.
                self.sockets[1 - end].sendto(packet, ("127.0.0.1", self.ends[1 - end]))

    def spec(self, end):
        return f"udp:127.0.0.1:{self.ends[end]}>127.0.0.1:{self.sockets[end].getsockname()[1]},rate=5M"

    def stands(self, end):
        """What came from an end, for a complaint."""
        ago = "none" if self.last[end] is None else f"the last {time.monotonic() - self.last[end]:.1f} s ago"
        return f"{self.came[end]} packets sent, {ago}{'' if self.threads[end].is_alive() else ', no longer carried'}"

    def stop(self):
        self.over = True


class Target:
    """Keeps what each connection brought, and how that ended; what it answers may find nobody any more."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.connections = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            got = {"bytes": bytearray(), "end": None}
            self.connections.append(got)
            threading.Thread(target=self.read, args=(connection, got), daemon=True).start()

    @staticmethod
    def read(connection, got):
        try:
            while block := connection.recv(65536):
                got["bytes"] += block
            got["end"] = "closed"
            # Whoever has sent it may be gone: the gateway says so with a reset a round trip after the end.
            connection.sendall(got["bytes"][:1000])
        except OSError:
            got["end"] = got["end"] or "reset"
        connection.close()

    def stop(self):
        self.listener.close()


class Gateways:
    """Both gateways; `radios`: by what, in place of UDP, the specification of each side's."""

    def __init__(self, bench, forwards, radios=None, **air):
        self.bench, self.radios = bench, radios
        self.air = None if radios else bench.add(Air(**air))
        self.keys = {side: make_key(bench, side) for side in ("air", "ground")}
        self.forwards = forwards
        self.starts = 0
        self.programs = {}

    def start(self, side, forwards=()):
        end = ("air", "ground").index(side)
        other = ("ground", "air")[end]
        self.starts += 1
        radio = self.radios[side] if self.radios else self.air.spec(end)
        command = [AQUILA, "gateway", "--side", side, "--key", self.keys[side][0], "--peer", self.keys[other][1]]
        command += ["--state", self.bench.path(f"state-{side}"), "--radio", radio, "--log", "info"]
        command += [word for forward in forwards for word in ("--forward", forward)]
        program = self.bench.add(Program(self.bench, f"gateway-{side}-{self.starts}", command))
        self.programs[side] = program
        program.wait_log("gateway started", 20)
        return program

    def custody(self, side):
        return custody(self.bench.path(f"state-{side}"))

    def kill(self, side):
        self.programs[side].end(signal.SIGKILL)

    def stands(self):
        """How both sides stand, for a complaint."""
        for program in self.programs.values():
            if program.process.poll() is None:
                program.process.send_signal(signal.SIGUSR1)  # It reports its flows.
        time.sleep(0.5)
        said = []
        for end, side in enumerate(("air", "ground")):
            sent = self.air.stands(end) if self.air else ""
            said.append(stands(self.programs[side], self.bench.path(f"state-{side}"), sent))
        return "\n".join(said)


def custody(state):
    """Logs of the connections in custody; that of a connection before may be on its way out."""
    return set(glob.glob(f"{state}/gateway/*/custody/*.log"))


def have_end(logs):
    """Whether the end of one of these connections is in custody."""
    for log in logs:
        try:
            with open(log, "rb") as file:
                records = file.read()
        except FileNotFoundError:
            continue
        while len(records) >= 17:
            if records[0] == 3:
                return True
            records = records[17 + int.from_bytes(records[9:13], "big") :]
    return False


def stands(program, state, sent=""):
    """Whether a program runs, what it `sent`, what it has in custody, and the end of its log, for a complaint."""
    code = program.process.poll()
    logs = [f"{os.path.basename(log)}{' with its end' if have_end([log]) else ''}" for log in sorted(custody(state))]
    lines = "".join(f"\n    {line}" for line in program.text().splitlines()[-6:])
    runs = "runs" if code is None else f"ended with {code}"
    return f"{program.name} {runs}; {sent}{'; ' if sent else ''}in custody: {', '.join(logs) or 'nothing'}; its log ends:{lines}"


def all_of(connection):
    """What comes until the other side closes."""
    got = b""
    while block := connection.recv(65536):
        got += block
    return got


def echoed(echo, port, patience):
    """Of 20 datagrams to a forward that leads to `echo`, how many come back."""
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.connect(("127.0.0.1", port))
    client.settimeout(patience)
    echo.settimeout(max(patience, 1))
    heard = 0
    for number in range(20):
        client.send(bytes([number]) * 200)
        try:
            data, source = echo.recvfrom(2000)
            echo.sendto(data, source)
            heard += client.recv(2000) == data
        except TimeoutError:
            pass
    return heard


def unacknowledged(connection):
    return struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, b"\0" * 4))[0]


@test("a gateway carries a file and datagrams through a bad radio", seconds=90)
def carries(bench):
    target = bench.add(Target())
    echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    echo.bind(("127.0.0.1", 0))
    port, udp = places.free_port(socket.SOCK_STREAM), places.free_port(socket.SOCK_DGRAM)
    gateways = Gateways(bench, None)
    gateways.start("ground", [f"tcp/{port}:127.0.0.1:{target.port}", f"udp/{udp}:127.0.0.1:{echo.getsockname()[1]}"])
    gateways.start("air")
    sent = random.Random(2).randbytes(3_000_000)
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(60)
        answer = all_of(connection)
    took = time.monotonic() - began
    check(target.connections[0]["bytes"] == sent, f"{len(target.connections[0]['bytes'])} bytes arrived, or others")
    check(answer == sent[:1000], "the answer")
    heard = echoed(echo, udp, 0.5)
    check(heard >= 10, f"{heard} of 20 datagrams came back")
    return f"3 MB in {took:.1f} s, {3_000_000 * 8 / took / 1e6:.2f} of 5 Mbit/s"


@test("a gateway carries a shell's lines and a file by a serial radio", seconds=90)
def by_serial(bench):
    """57,600 baud, both sides on one channel, a bit in 100,000 flipped: lines are echoed while a file goes the same way."""
    radios = bench.add(Radios(bench, bit_errors=1e-5))
    target = bench.add(Target())
    shell = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=echo_lines, args=(shell,), daemon=True).start()
    ports = [places.free_port(socket.SOCK_STREAM) for _ in range(2)]
    gateways = Gateways(bench, None, radios={side: f"{link}:57600" for side, link in radios.links.items()})
    gateways.start("air")
    gateways.start("ground", [f"tcp/{ports[0]}:127.0.0.1:{target.port}", f"tcp/{ports[1]}:127.0.0.1:{shell.getsockname()[1]}"])
    typing = socket.create_connection(("127.0.0.1", ports[1]))
    typing.settimeout(20)
    first = one_line(typing, 0)
    sent = random.Random(7).randbytes(60_000)
    began = time.monotonic()
    connection = socket.create_connection(("127.0.0.1", ports[0]))
    threading.Thread(target=send_all, args=(connection, sent), daemon=True).start()
    beside = sorted(one_line(typing, number) for number in range(1, 13))
    connection.settimeout(60)
    answer = all_of(connection)
    took = time.monotonic() - began
    check(target.connections[0]["bytes"] == sent, f"{len(target.connections[0]['bytes'])} bytes arrived, or others")
    check(answer == sent[:1000], "the answer")
    rate = len(sent) * 8e-3 / took
    # One channel for both: each waits for a segment or two of 240 ms.
    check(beside[6] < 2, f"half of the lines within {beside[6]:.2f} s")
    return f"60 kB at {rate:.1f} kbit/s; lines echoed after {first:.2f} s, beside the file {beside[6]:.2f} s (median), {beside[-1]:.2f} s at worst"


def echo_lines(listener):
    connection, _ = listener.accept()
    while block := connection.recv(4096):
        connection.sendall(block)


def one_line(connection, number):
    """How long it takes until a line is echoed."""
    began = time.monotonic()
    connection.sendall(b"line %d\n" % number)
    got = b""
    while not got.endswith(b"\n"):
        block = connection.recv(4096)
        check(block, "the shell's connection ended")
        got += block
    check(got == b"line %d\n" % number, f"{got} came back")
    return time.monotonic() - began


@test("what a gateway acknowledged survives its being killed", seconds=60 + 6 * KILLS)
def killed(bench):
    target = bench.add(Target())
    port = places.free_port(socket.SOCK_STREAM)
    forwards = [f"tcp/{port}:127.0.0.1:{target.port}"]
    gateways = Gateways(bench, forwards, lost=0.02, wrong=0.02)
    gateways.start("air")
    luck = random.Random(3)
    gateways.start("ground", forwards)
    whole = partial = 0
    waits = []
    for number in range(KILLS):
        sent = luck.randbytes(300_000)
        before, former = len(target.connections), gateways.custody("ground")
        connection = socket.create_connection(("127.0.0.1", port))
        is_whole = number % 3 != 2
        if is_whole:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            wait_until("all is acknowledged", lambda: unacknowledged(connection) == 0, 10)
            # The kernel acknowledges before the gateway has read: what is promised begins when that has stored the end.
            wait_until("all is stored", lambda: have_end(gateways.custody("ground") - former) or ends(target, before, sent), 10)
        else:
            threading.Thread(target=push, args=(connection, sent), daemon=True).start()
        time.sleep(luck.random() * (0.5 if is_whole else 0.05))
        gateways.kill("ground")
        gateways.start("ground", forwards)
        if is_whole:
            again = time.monotonic()
            wait_for_end(number, target, before, sent, gateways.stands)
            waits.append(time.monotonic() - again)
            whole += 1
        else:
            time.sleep(1.5)
            for got in target.connections[before:]:
                check(sent.startswith(bytes(got["bytes"])), f"{number}: other bytes than were sent")
                check(got["end"] != "closed" or len(got["bytes"]) == len(sent), f"{number}: a cut that looks like an end")
            partial += 1
        connection.close()
    return f"{whole} whole, at most {max(waits):.1f} s after the start, {partial} cut off"


@test("a far gateway that is killed costs a reset and what was under way is said", seconds=60)
def far_killed(bench):
    target = bench.add(Target())
    port = places.free_port(socket.SOCK_STREAM)
    forwards = [f"tcp/{port}:127.0.0.1:{target.port}"]
    gateways = Gateways(bench, forwards, lost=0.02, wrong=0.02)
    gateways.start("air")
    ground = gateways.start("ground", forwards)
    sent = random.Random(4).randbytes(2_000_000)
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(sent)
    time.sleep(1)
    gateways.kill("air")
    gateways.start("air")
    connection.settimeout(30)
    try:
        ended = connection.recv(1)
    except ConnectionResetError:
        ended = "reset"
    check(ended == "reset", f"the application's connection ended with {ended!r}")
    line = ground.wait_log(r"flow reset: its last bytes.* undelivered=(\d+)", 10)
    undelivered, got = int(line.group(1)), len(target.connections[0]["bytes"])
    check(sent.startswith(bytes(target.connections[0]["bytes"])), "other bytes than were sent")
    check(undelivered + got >= 2_000_000, f"{got} delivered, {undelivered} said not to be")
    return f"{got} of 2000000 bytes delivered, {undelivered} said not to be"


@test("a gateway goes by the link, and commands do not wait for it", seconds=75)
def by_link(bench):
    """8 Mbit/s, 20 ms and one packet in fifty lost each way: a file goes up and one comes down while twenty commands a second do."""
    target = bench.add(Target())
    echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    echo.bind(("127.0.0.1", 0))
    port, refused, udp = (places.free_port(kind) for kind in (socket.SOCK_STREAM, socket.SOCK_STREAM, socket.SOCK_DGRAM))
    to_echo = f"127.0.0.1:{echo.getsockname()[1]}"
    ground = ["--forward", f"tcp/{port}:localhost:{target.port}", "--forward", f"tcp/{refused}:127.0.0.1:1", "--forward", f"udp/{udp}:{to_echo}"]
    air = ["--allow", f"tcp/127.0.0.1:{target.port}", "--allow", f"udp/{to_echo}"]
    link = {"delay": 20, "up_rate": "8M", "down_rate": "8M", "loss": 2}
    rig = Rig(bench, link=link, air=air, ground=ground)
    probe = Probe.of(bench, rig, 0.05)
    probe.wait_flowing()
    time.sleep(8)
    alone_until = time.monotonic()

    sent = random.Random(5).randbytes(8_000_000)
    began = time.monotonic()
    connection = socket.create_connection(("127.0.0.1", port))
    threading.Thread(target=send_all, args=(connection, sent), daemon=True).start()
    wait_until("the flow to be shown", lambda: rig.ground.status()["gateway"]["flows"], 10)
    flow = rig.ground.status()["gateway"]["flows"][0]
    check((flow["opened"], flow["mode"]) == ("here", "near-reliable"), f"the flow's status: {flow}")
    check("aquila_gateway_flows{" in rig.ground.fetch("/metrics")[1], "the gateway in the link's metrics")
    heard = echoed(echo, udp, 1)
    check(heard >= 15, f"{heard} of 20 datagrams came back")
    connection.settimeout(40)
    answer = all_of(connection)
    busy_until = time.monotonic()
    took = busy_until - began
    check(target.connections[0]["bytes"] == sent, f"{len(target.connections[0]['bytes'])} bytes arrived, or others")
    check(answer == sent[:1000], "the answer")
    rate = len(sent) * 8e-6 / took

    blocked = socket.create_connection(("127.0.0.1", refused))
    blocked.settimeout(10)
    try:
        ended = blocked.recv(1)
    except ConnectionResetError:
        ended = "reset"
    check(ended == "reset", f"what is not allowed ended with {ended!r}")
    rig.air.wait_log("wants what is not allowed", 5)

    probe.end()
    ms = probe.beside((probe.flowing_since, alone_until), (began, busy_until), percent=95)
    check(all(busy < idle + 50 for idle, busy in ms.values()), f"95 of 100 commands within, alone and beside it: {ms}")
    text = ", ".join(f"{name} {idle:.1f} and {busy:.1f} ms" for name, (idle, busy) in ms.items())
    return f"8 MB at {rate:.1f} of 8 Mbit/s; 95 of 100 commands alone and beside it within: {text}"


@test("what the link's gateway acknowledged survives kills and an outage", seconds=90)
def by_link_killed(bench):
    target = bench.add(Target())
    port = places.free_port(socket.SOCK_STREAM)
    ground = ["--forward", f"tcp/{port}:127.0.0.1:{target.port}"]
    rig = Rig(bench, link={"delay": 20, "up_rate": "8M", "down_rate": "8M"}, air=["--allow", f"tcp/127.0.0.1:{target.port}"], ground=ground)
    luck = random.Random(6)
    for number in range(4):
        sent = luck.randbytes(400_000)
        before, former = len(target.connections), custody(rig.state["ground"])
        if number == 2:
            rig.relay.tell("outage begin")
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            stored = lambda: have_end(custody(rig.state["ground"]) - former) or ends(target, before, sent)
            wait_until("all is stored", stored, 20)
        time.sleep(luck.random() * 0.4)
        rig.ground.end(signal.SIGKILL)
        rig.ground = rig.start("ground")
        if number == 2:
            time.sleep(3)
            rig.relay.tell("outage end")
        wait_for_end(number, target, before, sent, lambda: stands(rig.ground, rig.state["ground"]))
    return "4 of 4 whole, one of them through an outage"


@test("a gateway on one side of the link only says so", seconds=30)
def by_link_alone(bench):
    port = places.free_port(socket.SOCK_STREAM)
    rig = Rig(bench, ground=["--forward", f"tcp/{port}:127.0.0.1:22"])
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(b"hello")
    rig.ground.wait_log("is one configured there", 15)
    check(rig.ground.status()["gateway"]["flows"][0]["state"] == "opening", "the flow waits")


def send_all(connection, sent):
    connection.sendall(sent)
    connection.shutdown(socket.SHUT_WR)


def push(connection, sent):
    try:
        connection.sendall(sent)
    except OSError:
        pass


def wait_for_end(number, target, first, sent, how):
    """Waits until a connection since the `first` brought just this, and ended well. If none does, `how()` says more."""
    try:
        wait_until(f"the end of {number}", lambda: ends(target, first, sent), 30)
    except Failed as error:
        raise Failed(f"{error}; {came(target, first, sent)}\n{how()}") from error


def came(target, first, sent):
    """What connections since the `first` brought of what was sent, for a complaint."""
    said = []
    for got in target.connections[first:]:
        alike = next((at for at, (a, b) in enumerate(zip(got["bytes"], sent)) if a != b), None)
        differs = "" if alike is None else f", other ones from {alike} on"
        said.append(f"{len(got['bytes'])} of {len(sent)} bytes{differs}, then {got['end'] or 'nothing'}")
    return "; ".join(said) or "no connection came"


def ends(target, first, sent):
    """Whether a connection since the `first` brought just this, and ended well."""
    return any(got["end"] == "closed" and got["bytes"] == sent for got in target.connections[first:])
