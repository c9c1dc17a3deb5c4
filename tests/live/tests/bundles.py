"""Bundles: our node against dtn7, a foreign one, over TCPCLv4 on loopback.

dtn7 is looked for in $DTN7/bin and on the path. `.ci/run live` installs it; by hand:

    cargo install --locked dtn7 --version 0.21.0 --root /opt/dtn7 && DTN7=/opt/dtn7 tests/live/run -k bundles
"""

import glob
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

from lib import places
from lib.programs import PROGRAMS, Program
from lib.rig import make_key
from lib.runner import Skip, check, test, wait_until
from tests.mule import Store

NODE = os.path.join(PROGRAMS, "bundle_node")
INSTALL = "cargo install --locked dtn7 --version 0.21.0"


def dtn7(program):
    folder = os.environ.get("DTN7")
    path = shutil.which(program, path=os.path.join(folder, "bin") if folder else None) or shutil.which(program)
    if not path:
        raise Skip(f"no {program}: {INSTALL}")
    return path


def port():
    return places.free_port(socket.SOCK_STREAM)


class Dtnd(Program):
    """A node of dtn7 with TCPCLv4, that keeps its bundles on disk if `disk`. It knows the nodes of `peers` (name: port)."""

    def __init__(self, bench, name, peers=(), ports=None, disk=False):
        self.bench, self.node, self.peers, self.disk = bench, name, dict(peers), disk
        self.cl, self.web = ports or (port(), port())
        folder = bench.path(f"dtnd-{name}")
        os.makedirs(folder, exist_ok=True)
        static = [word for peer, at in self.peers.items() for word in ("-s", f"tcp://127.0.0.1:{at}/{peer}")]
        command = [dtn7("dtnd"), "-n", name, "-W", folder, "-w", self.web, "-i", "0", "--disable_nd", "-r", "epidemic"]
        command += ["-e", "in", "-j", "1s", "-D", "sled" if disk else "mem", "-C", f"tcp:port={self.cl}:bind=127.0.0.1"]
        super().__init__(bench, f"dtnd-{name}", [*command, *static])
        wait_until(f"dtnd {name} listens", self.is_up, 10)

    def is_up(self):
        try:
            return all(not socket.create_connection(("127.0.0.1", at), 1).close() for at in (self.cl, self.web))
        except OSError:
            return False

    def again(self):
        """Another process of the same node."""
        return self.bench.add(Dtnd(self.bench, self.node, self.peers, (self.cl, self.web), self.disk))

    def send(self, file, to):
        command = [dtn7("dtnsend"), "-p", self.web, "-s", f"dtn://{self.node}/in", "-r", to, file]
        subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=20)

    def receive(self):
        """SHA-256 of all payloads that wait for the application."""
        got = []
        file = self.bench.path("received")
        while True:
            if os.path.exists(file):
                os.remove(file)
            command = [dtn7("dtnrecv"), "-p", self.web, "-e", "in", "-o", file]
            subprocess.run([str(word) for word in command], capture_output=True, timeout=20)
            if not os.path.exists(file):
                return got
            got.append(digest(file))


def digest(file):
    with open(file, "rb") as content:
        return hashlib.sha256(content.read()).hexdigest()


def payloads(bench, sizes):
    """Files of these sizes."""
    files = []
    for at, size in enumerate(sizes):
        files.append(bench.path(f"payload-{at}"))
        with open(files[-1], "wb") as file:
            file.write(os.urandom(size))
    return files


def listen(bench, folder, at, *options, log="receive"):
    command = [NODE, "receive", "--node", "dtn://mule/", "--listen", f"127.0.0.1:{at}", "--folder", bench.path(folder)]
    program = bench.add(Program(bench, log, [*command, *options]))
    program.wait_log("listening")
    return program


def hand_on(bench, at, *options, files, log="send"):
    command = [NODE, "send", "--node", "dtn://mule/", "--to", f"127.0.0.1:{at}", *options, *files]
    return bench.add(Program(bench, log, command))


def done(program, timeout=30):
    """Waits for its end, and returns its exit code."""
    program.ended_by_us = True
    return program.process.wait(timeout)


def bundles(bench, folder="bundles"):
    return sorted(glob.glob(bench.path(f"{folder}/*.bundle")))


class Slow:
    """A connection passed on at so many bytes a second."""

    def __init__(self, to, rate):
        self.to, self.rate = to, rate
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.passed = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.to), 1)
            except OSError:
                if self.listener.fileno() < 0:
                    return
                near.close()
                continue
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=pair, daemon=True).start()

    def carry(self, one, other):
        try:
            while block := one.recv(16384):
                self.passed += len(block)
                other.sendall(block)
                time.sleep(len(block) / self.rate)
        except OSError:
            pass
        for each in (one, other):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def stop(self):
        self.listener.close()


@test("bundles from one dtn7 to another, carried by us", seconds=90)
def carried(bench):
    """1 kB, 100 kB, 1 MB and twenty in a row: the payloads are the same, and a hop was counted."""
    files = payloads(bench, [1000, 100_000, 1_000_000] + [3000] * 20)
    at = port()
    receive = listen(bench, "bundles", at, "--count", len(files))
    one = bench.add(Dtnd(bench, "one", {"mule": at}))
    for file in files:
        one.send(file, "dtn://two/in")
    check(done(receive) == 0, "we did not take them all")
    check(len(bundles(bench)) == len(files), "a bundle is missing")
    two = bench.add(Dtnd(bench, "two"))
    send = hand_on(bench, two.cl, "--ignore-transfer-mru", files=bundles(bench))
    check(done(send) == 0, f"not all were delivered: {send.text()}")
    check_received(two, files)
    show = subprocess.run([NODE, "show", bundles(bench)[0]], check=True, capture_output=True, text=True).stdout
    check("count: 1" in show, "dtn7 counts itself as a hop")
    return f"{len(files)} bundles"


def all_of(node):
    """What the application got so far."""
    node.got = getattr(node, "got", []) + node.receive()
    return node.got


def check_received(node, files):
    """The application gets these, soon: dtn7 acknowledges a bundle before it hands it on."""
    got = wait_until("all payloads", lambda: len(all_of(node)) >= len(files) and node.got, 20)
    check(sorted(got) == sorted(map(digest, files)), "another payload")


@test("bundles larger than dtn7 says it takes are not sent to it", seconds=30)
def too_large(bench):
    files = payloads(bench, [1000, 100_000])
    for file in files:
        make(file, "dtn://two/in")
    two = bench.add(Dtnd(bench, "two"))
    send = hand_on(bench, two.cl, files=[f"{file}.bundle" for file in files])
    check(done(send) != 0 and "TooLarge(64000)" in send.text(), "not said")
    check_received(two, files[:1])


def make(file, to):
    command = [NODE, "make", "--source", "dtn://mule/out", "--destination", to, file, f"{file}.bundle"]
    subprocess.run(command, check=True)


@test("bundles of ours reach an application of dtn7", seconds=60)
def ours(bench):
    """Also a file that was cut into bundles, and put together again from what dtn7 passed on."""
    files = payloads(bench, [1, 50_000])
    for file in files:
        make(file, "dtn://two/in")
    big = bench.path("big")
    with open(big, "wb") as file:
        file.write(os.urandom(2_500_000))
    os.makedirs(bench.path("parts"))
    pack = [NODE, "pack", "--source", "dtn://mule/out", "--destination", "dtn://ashore/in", big, bench.path("parts")]
    subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
    at = port()
    ashore = listen(bench, "ashore", at, "--count", 3)
    two = bench.add(Dtnd(bench, "two", {"ashore": at}))
    sent = [f"{file}.bundle" for file in files] + bundles(bench, "parts")
    send = hand_on(bench, two.cl, "--ignore-transfer-mru", files=sent)
    check(done(send) == 0, f"not all were delivered: {send.text()}")
    check_received(two, files)
    wait_until("three bundles passed on", lambda: len(bundles(bench, "ashore")) >= 3, 20)
    done(ashore)
    os.makedirs(bench.path("out"))
    unpack = [NODE, "unpack", bench.path("ashore"), bench.path("out")]
    out = subprocess.run(unpack, check=True, capture_output=True, text=True).stdout
    check("whole big" in out and digest(bench.path("out/big")) == digest(big), f"another file: {out}")


@test("bundles go on when our node is killed in the middle", seconds=120)
def killed(bench):
    files = payloads(bench, [400_000] * 12)
    at = port()
    slow = bench.add(Slow(at, 1_500_000))
    receive = listen(bench, "bundles", at)
    one = bench.add(Dtnd(bench, "one", {"mule": slow.port}))
    for file in files:
        one.send(file, "dtn://two/in")
    kills = 0
    for share in (0.2, 0.5):
        wait_until("a part has passed", lambda: slow.passed > share * 4_800_000, 30)
        receive.end(signal.SIGKILL)
        kills += 1
        receive = listen(bench, "bundles", at, log=f"receive-{kills}")
    wait_until("all bundles", lambda: len(bundles(bench)) == len(files), 60)
    receive.end()
    got = []
    for bundle in bundles(bench):
        subprocess.run([NODE, "show", bundle, f"{bundle}.payload"], check=True, stdout=subprocess.DEVNULL)
        got.append(digest(f"{bundle}.payload"))
    check(sorted(got) == sorted(map(digest, files)), "another payload")
    return f"{kills} kills, {slow.passed / 1e6:.1f} MB for 4.8 MB"


@test("bundles go on when dtn7 is killed in the middle", seconds=120)
def their_node_killed(bench):
    files = payloads(bench, [400_000] * 12)
    for file in files:
        make(file, "dtn://two/in")
    two = bench.add(Dtnd(bench, "two", disk=True))
    slow = bench.add(Slow(two.cl, 1_500_000))
    send = hand_on(bench, slow.port, "--ignore-transfer-mru", files=[f"{file}.bundle" for file in files])
    wait_until("a part has passed", lambda: slow.passed > 2_000_000, 30)
    two.end(signal.SIGKILL)
    two = two.again()
    check(done(send, 60) == 0, f"not all were delivered: {send.text()}")
    before, later, _ = send.text().partition("later ")
    check(later, "nothing was under way when dtn7 was killed")
    told = before.count("delivered ")
    # dtn7 acknowledges before it stores, and does not hand to applications what it had before it was started: what it had
    # acknowledged may not come any more. Not more than that.
    wait_until(f"all but the {told} it acknowledged before the kill", lambda: len(all_of(two)) >= len(files) - told, 20)
    lost = set(map(digest, files)) - set(two.got)
    check(len(lost) <= told, f"{len(lost)} did not come, and only {told} were acknowledged before the kill")
    return f"of {told} that dtn7 had acknowledged it did not hand on {len(lost)} after it was killed; all others came"


@test("bundles that we refuse stay with dtn7", seconds=60)
def refused(bench):
    file = payloads(bench, [20_000])[0]
    at = port()
    receive = listen(bench, "bundles", at, "--refuse", "later")
    one = bench.add(Dtnd(bench, "one", {"mule": at}))
    one.send(file, "dtn://two/in")
    receive.wait_log("later 20", 20)
    receive.end()
    receive = listen(bench, "bundles", at, "--transfer", "10000", log="small")
    time.sleep(2.5)
    check(not bundles(bench) and "stored" not in receive.text(), "taken though it is too large")
    receive.end()
    receive = listen(bench, "bundles", at, "--count", "1", log="takes")
    check(done(receive) == 0 and len(bundles(bench)) == 1, "it did not come")


@test("bundles: dtn7's go from a ship to a shore as files do, and arrive at another dtn7", seconds=60)
def carried_by_mule(bench):
    away = Dtnd(bench, "lab")
    bench.add(away)
    ports = [places.free_port() for _ in range(2)]
    keys = {name: make_key(bench, name)[1] for name in ("ship", "air", "office")}
    at = port()
    ship = Store(bench, "node", "ship", [
        "--peer", f"{keys['air']},listen=127.0.0.1:{ports[0]},radio", "--delivered-by", keys["office"],
        "--bundles-node", "dtn://ship/", "--bundles-listen", f"127.0.0.1:{at}",
    ]).start()
    Store(bench, "shore", "office", [
        "--deliver", bench.path("out"), "--peer", f"{keys['air']},listen=127.0.0.1:{ports[1]}", "--source", keys["ship"],
        "--bundles-node", "dtn://office/", "--bundles-to", f"dtn://lab/*=127.0.0.1:{away.cl}",
    ]).start()
    sea = bench.add(Dtnd(bench, "buoy", {"ship": at}))
    files = payloads(bench, [1_000, 100_000, 1_000_000])
    for file in files:
        sea.send(file, "dtn://lab/in")
    wait_until("bundles on the ship", lambda: len(ship.objects("queued")) == len(files), 20)
    Store(bench, "carry", "air", [
        "--peer", f"{keys['ship']}@127.0.0.1:{ports[0]},radio,name=ship", "--peer", f"{keys['office']}@127.0.0.1:{ports[1]},shore,name=office",
    ]).start()
    got = []
    wait_until("the payloads at the other dtn7", lambda: got.extend(away.receive()) or len(got) >= len(files), 30, every=0.5)
    check(sorted(got) == sorted(digest(file) for file in files), f"{len(got)} payloads, not the same")
    wait_until("the ship to hear of it", lambda: {each["state"] for each in ship.objects()} == {"released"}, 10)


@test("bundles: files leave a shore as bundles, and are put together by who gets them", seconds=60)
def files_leave(bench):
    """A large file, small ones in a pack, and an empty one; the shore is killed in the middle, and then nothing is missing."""
    ports = [places.free_port() for _ in range(2)]
    keys = {name: make_key(bench, name)[1] for name in ("ship", "office")}
    at = port()
    ship = Store(bench, "node", "ship", [
        "--peer", f"{keys['office']},listen=127.0.0.1:{ports[0]},shore,radio",
    ]).start()
    office = Store(bench, "shore", "office", [
        "--peer", f"{keys['ship']}@127.0.0.1:{ports[0]},radio", "--bundles-node", "dtn://office/",
        "--bundles-files", "dtn://archive/in", "--bundles-to", f"dtn://archive/*=127.0.0.1:{at}",
    ])
    wanted = {"large.tif": os.urandom(7_000_000), "empty": b""} | {f"casts/{n}": os.urandom(2_000 + n) for n in range(20)}
    for path, content in wanted.items():
        file = bench.path(f"in/{path}")
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "wb") as opened:
            opened.write(content)
    put = ship.put(bench.path("in"))
    check(put.returncode == 0, put.stderr)
    slow = Slow(at, 2_000_000)
    office.options[-1] = f"dtn://archive/*=127.0.0.1:{slow.port}"
    archive = listen(bench, "bundles", at)
    office.start()
    wait_until("some bundles at the archive", lambda: len(bundles(bench)) >= 2, 20)
    office.program.end(signal.SIGKILL)
    check({each["state"] for each in ship.objects()} != {"released"}, "nothing is given up that has not arrived")
    office.start()
    wait_until("the ship to hear of it", lambda: {each["state"] for each in ship.objects()} == {"released"}, 30)
    archive.end()
    names = [os.path.basename(name) for name in bundles(bench)]
    check(len(names) == len(set(names)), "the same names the second time")
    os.makedirs(bench.path("out"))
    subprocess.run([NODE, "unpack", bench.path("bundles"), bench.path("out")], check=True, capture_output=True)
    for path, content in wanted.items():
        with open(bench.path(f"out/{os.path.basename(path)}"), "rb") as file:
            check(file.read() == content, f"{path} is another")
    check(len(bundles(bench)) == 7 + 1 + 20, f"{len(bundles(bench))} bundles: a file that was cut twice would have more")
