"""`aquila mule`: files from where they are made to the shore, by whoever passes."""

import json
import os
import random
import signal
import socket
import struct
import subprocess
import threading
import time

from lib import places
from lib.probe import Probe
from lib.programs import AQUILA, Program, Relay
from lib.rig import Rig, make_key
from lib.runner import check, test, wait_until


class Store:
    """`aquila mule node`, `carry` or `shore`, and what it is made of."""

    def __init__(self, bench, role, name, options=(), place=places.HERE):
        self.bench, self.role, self.name, self.options, self.place = bench, role, name, list(options), place
        self.key, self.public = make_key(bench, name)
        self.state, self.folder = bench.path(f"{name}-state"), bench.path(f"{name}-files")
        self.starts = 0

    def start(self):
        self.starts += 1
        command = [AQUILA, "mule", self.role, "--key", self.key, "--state", self.state, "--store", self.folder, *self.options]
        self.program = self.bench.add(Program(self.bench, f"{self.name}-{self.starts}", command, self.place))
        self.program.wait_log("store started")
        return self

    def put(self, *files, more=()):
        command = [AQUILA, "mule", "put", "--key", self.key, "--store", self.folder, *more, *files]
        return subprocess.run(command, capture_output=True, text=True)

    def status(self):
        return status(self.folder)

    def contact(self, name, taken=0):
        """How the link to a store is once so many bytes of it were told; that is done each second."""
        def told():
            found = [contact for contact in self.status()["contacts"] if contact["store"] == name]
            return found and found[0]["up"] and found[0]["bytes_taken"] >= taken and found[0]
        wait_until(f"{self.name} to tell of {name}", told, 5)
        return told()

    def objects(self, state=None):
        more = ["--state", state] if state else []
        shown = subprocess.run([AQUILA, "mule", "ls", "--json", "--store", self.folder, *more], capture_output=True, text=True)
        check(shown.returncode == 0, f"ls: {shown.stderr}")
        return [json.loads(line) for line in shown.stdout.splitlines()]


def status(store):
    shown = subprocess.run([AQUILA, "mule", "status", "--json", "--store", store], capture_output=True, text=True)
    return json.loads(shown.stdout)


def write(path, size, seed):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(random.Random(seed).randbytes(size))
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


def same(folder, wanted):
    """Whether all these files are there, byte for byte."""
    paths = {path: os.path.join(folder, path) for path in wanted}
    return all(os.path.exists(there) and read(there) == wanted[path] for path, there in paths.items())


class Chain:
    """A ship, an aircraft and an office on loopback."""

    def __init__(self, bench, ship=(), relay=None):
        ports = [places.free_port() for _ in range(2)]
        keys = {name: make_key(bench, name)[1] for name in ("ship", "air", "office")}
        self.spool, self.out = bench.path("spool"), bench.path("out")
        self.ship = Store(bench, "node", "ship", [
            "--spool", self.spool, "--peer", f"{keys['air']},listen=127.0.0.1:{ports[0]},radio", "--delivered-by", keys["office"], *ship,
        ])
        self.office = Store(bench, "shore", "office", [
            "--deliver", self.out, "--peer", f"{keys['air']},listen=127.0.0.1:{ports[1]}", "--source", keys["ship"],
        ])
        to_ship = f"127.0.0.1:{ports[0]}"
        if relay:
            port = places.free_port()
            bench.add(Relay(bench, port, to_ship, **relay))
            to_ship = f"127.0.0.1:{port}"
        self.air = Store(bench, "carry", "air", [
            "--peer", f"{keys['ship']}@{to_ship},radio,name=ship", "--peer", f"{keys['office']}@127.0.0.1:{ports[1]},shore,name=office",
        ])


@test("files come ashore by an aircraft, and the ship hears of it", seconds=60)
def chain(bench):
    chain = Chain(bench)
    files = {f"casts/cast {n}.cnv": (4_000 + n, n) for n in range(40)} | {"logs/engine.log": (3_000_000, 99)}
    wanted = {path: random.Random(seed).randbytes(size) for path, (size, seed) in files.items()}
    for store in (chain.ship, chain.office, chain.air):
        store.start()
    for path, (size, seed) in files.items():
        write(os.path.join(chain.spool, path), size, seed)
    wait_until("all files ashore", lambda: same(chain.out, wanted), 20)
    left = lambda: [file for _, _, files in os.walk(chain.spool) for file in files]
    wait_until("the spool to be empty", lambda: not left(), 20)
    wait_until("the ship to be done", lambda: {each["state"] for each in chain.ship.objects()} == {"released"}, 10)
    ship = chain.air.contact("ship", taken=3_000_000)
    check(chain.air.status()["running"], "the aircraft's store runs")
    check(ship["bytes_again"] < 100_000, f"taken once: {ship}")
    # Another version of a log sends what changed.
    before = ship["bytes_taken"]
    changed = bytearray(wanted["logs/engine.log"])
    changed[1_000_000:1_000_010] = b"0123456789"
    with open(os.path.join(chain.spool, "logs/.new"), "wb") as file:
        file.write(changed)
    os.rename(os.path.join(chain.spool, "logs/.new"), os.path.join(chain.spool, "logs/engine.log"))
    wait_until("the new version ashore", lambda: read(os.path.join(chain.out, "logs/engine.log")) == changed, 20)
    time.sleep(3.2)
    sent = chain.air.contact("ship")["bytes_taken"] - before
    check(0 < sent < 600_000, f"10 bytes changed, {sent} bytes sent")
    for store in (chain.air, chain.ship, chain.office):
        code, took = store.program.end()
        check(code == 0 and took < 3, f"{store.name} ended with {code} after {took:.1f} s")
    shown = subprocess.run([AQUILA, "mule", "status", "--store", chain.ship.folder], capture_output=True, text=True)
    check("not running" in shown.stdout and "released" in shown.stdout, shown.stdout)


@test("stores that are killed again and again lose nothing and take nothing twice", seconds=90)
def killed(bench):
    chain = Chain(bench, relay={"loss": 20, "delay": 5, "up_rate": "30M", "down_rate": "30M"})
    chain.ship.start()
    chain.office.start()
    wanted = {f"f{n}": random.Random(n).randbytes(1_500_000) for n in range(12)}
    files = [write(bench.path(f"in/{path}"), 1_500_000, int(path[1:])) for path in wanted]
    put = chain.ship.put(*files)
    check(put.returncode == 0 and put.stdout.count("queued") == 12, put.stdout + put.stderr)
    chance, kills, custody = random.Random(7), 0, 0
    chain.air.start()
    while not same(chain.out, wanted) and kills < 12:
        time.sleep(chance.uniform(0.3, 1.2))
        victim = chance.choice([chain.air, chain.air, chain.ship, chain.office])
        victim.program.end(signal.SIGKILL)
        there = len(chain.air.objects("custody")) + len(chain.air.objects("delivered")) + len(chain.air.objects("released"))
        check(there >= custody, f"{custody} were promised, and {there} are there")
        custody = there
        victim.start()
        kills += 1
    check(kills >= 4, f"killed {kills} times only")
    wait_until("all files ashore", lambda: same(chain.out, wanted), 40)
    wait_until("the ship to hear of it", lambda: {each["state"] for each in chain.ship.objects()} == {"released"}, 20)


@test("an aircraft finds a ship that says where it is", seconds=40)
def found(bench):
    sea = bench.add(places.Namespace("10.77.0.1/24", "10.77.0.2/24"))
    air, ship = make_key(bench, "air")[1], make_key(bench, "ship")[1]
    node = Store(bench, "node", "ship", [
        "--peer", f"{air},listen=0.0.0.0:0,radio", "--announce", sea.far, "--delete", "after-custody",
    ], sea)
    carrier = Store(bench, "carry", "air", ["--peer", f"{ship},radio", "--look", sea.near]).start()
    put = node.put(write(bench.path("data.bin"), 400_000, 1))
    check(put.returncode == 0, put.stderr)
    node.start()
    wait_until("the file in the air", lambda: [each["path"] for each in carrier.objects("custody")] == ["data.bin"], 20)
    wait_until("the ship's room given back", lambda: [each["state"] for each in node.objects()] == ["released"], 10)
    # It comes back elsewhere.
    node.program.end()
    node.put(write(bench.path("more.bin"), 400_000, 2))
    node.start()
    wait_until("the other file", lambda: len(carrier.objects("custody")) == 2, 25)


GROUPS = ["239.255.94.11", "239.255.94.21", "239.255.94.22"]


class Air:
    """Hears a group on an interface, and says it again in one group for each receiver, of which each loses another fifth."""

    def __init__(self, address, port, loss):
        self.port, self.loss, self.chance = port, loss, random.Random(4)
        self.ears = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.ears.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.ears.bind((GROUPS[0], port))
        join = struct.pack("4s4s", socket.inet_aton(GROUPS[0]), socket.inet_aton(address))
        self.ears.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, join)
        self.mouth = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.mouth.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
        self.ears.settimeout(0.2)
        self.ends = False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ends:
            try:
                datagram = self.ears.recv(2_000)
            except TimeoutError:
                continue
            for group in GROUPS[1:]:
                if self.chance.random() >= self.loss:
                    self.mouth.sendto(datagram, (group, self.port))

    def stop(self):
        self.ends = True
        self.thread.join()


@test("a ship that hears nobody casts its files to two receivers and none with another key", seconds=90)
def cast(bench):
    sea = bench.add(places.Namespace("10.78.0.1/24", "10.78.0.2/24"))
    port = places.free_port()
    bench.add(Air("10.78.0.1", port, 0.2))
    ship_key = make_key(bench, "ship")[1]
    fleet, other = bench.path("fleet.key"), bench.path("other.key")
    for path in (fleet, other):
        made = subprocess.run([AQUILA, "keys", "shared", "--out", path], capture_output=True, text=True)
        check(made.returncode == 0 and os.stat(path).st_mode & 0o777 == 0o600, made.stderr)
    again = subprocess.run([AQUILA, "keys", "shared", "--out", fleet], capture_output=True, text=True)
    check(again.returncode != 0 and "exists already" in again.stderr, again.stderr)
    spool = bench.path("spool")
    ship = Store(bench, "node", "ship", [
        "--spool", spool, "--cast", f"udp:{GROUPS[0]}:{port}@{sea.far},rate=6M,key={fleet},overhead=40%,rounds=2,name=fleet",
    ], sea)

    def listener(name, group, key):
        return Store(bench, "shore", name, [
            "--deliver", bench.path(f"{name}-out"), "--source", ship_key, "--hear", f"udp:{group}:{port}@{sea.near},key={key},name=fleet",
        ])

    ears = [listener("east", GROUPS[1], fleet).start(), listener("west", GROUPS[2], fleet).start()]
    stranger = listener("stranger", GROUPS[2], other).start()
    files = {"chart.tif": (1_500_000, 1), "weather/now.grib": (400_000, 2), "notice.txt": (300, 3)}
    wanted = {path: random.Random(seed).randbytes(size) for path, (size, seed) in files.items()}
    for path, (size, seed) in files.items():
        write(os.path.join(spool, path), size, seed)
    ship.start()
    for ear in ears:
        wait_until(f"all files at {ear.name}", lambda: same(bench.path(f"{ear.name}-out"), wanted), 40)
    # Nobody's custody was told: the ship keeps all.
    check({each["state"] for each in ship.objects()} == {"queued"}, f"{ship.objects()}")
    check(same(spool, wanted), "the spool is left alone")
    stranger.program.wait_log("not sealed with our key")
    check(not stranger.objects(), "nothing of it is read")

    def told(store, is_there):
        wait_until(f"{store.name} to tell", lambda: any(is_there(each) for each in store.status()["casts"]), 5)

    told(ears[0], lambda cast: cast["objects"] == 3 and cast["wrong_key"] == 0 and cast["held_bytes"] == 0)
    told(stranger, lambda cast: cast["wrong_key"] > 100 and cast["datagrams"] == 0)
    wait_until("two rounds of three objects", lambda: any(each["objects"] == 6 for each in ship.status()["casts"]), 20)
    # Another start does not begin anew, but what comes later is cast.
    code, took = ship.program.end()
    check(code == 0 and took < 3, f"ended with {code} after {took:.1f} s")
    ship.start()
    more = {"later.bin": random.Random(9).randbytes(100_000)}
    write(os.path.join(spool, "later.bin"), 100_000, 9)
    wait_until("the later file", lambda: all(same(bench.path(f"{ear.name}-out"), more) for ear in ears), 20)
    time.sleep(1.2)
    told(ship, lambda cast: cast["objects"] <= 2)
    for store in [*ears, stranger, ship]:
        code, took = store.program.end()
        check(code == 0 and took < 3, f"{store.name} ended with {code} after {took:.1f} s")


@test("files go beside commands and video", needs=["ffmpeg"], seconds=60)
def beside(bench):
    out, spool = bench.path("out"), bench.path("spool")
    for side, line in (("air", f'spool = "{spool}"'), ("ground", f'deliver = "{out}"')):
        with open(bench.path(f"{side}.toml"), "w") as file:
            file.write(f"[mule]\n{line}\n")
    os.makedirs(spool)
    sides = {side: ["--config", bench.path(f"{side}.toml")] for side in ("air", "ground")}
    rig = Rig(bench, link={"delay": 20, "up_rate": "8M", "down_rate": "8M"}, aircraft=True, **sides)
    wanted = {"survey.tif": random.Random(3).randbytes(2_000_000)}
    write(os.path.join(spool, "survey.tif"), 2_000_000, 3)
    wait_until("the file on the ground", lambda: same(out, wanted), 40)
    wait_until("the spool to be empty", lambda: not os.listdir(spool), 15)
    check(rig.air.is_up() and rig.ground.is_up(), "the link is up")
    code, took = rig.air.end()
    check(code == 0 and took < 3, f"ended with {code} after {took:.1f} s")


@test("commands do not wait for files", seconds=60)
def commands_beside(bench):
    """Twenty commands a second each way over 8 Mbit/s, for ten seconds each: with nothing beside them, and with a file that fills the way."""
    out, spool = bench.path("out"), bench.path("spool")
    for side, line in (("air", f'spool = "{spool}"'), ("ground", f'deliver = "{out}"')):
        with open(bench.path(f"{side}.toml"), "w") as file:
            file.write(f"[mule]\n{line}\n")
    os.makedirs(spool)
    sides = {side: ["--config", bench.path(f"{side}.toml")] for side in ("air", "ground")}
    rig = Rig(bench, link={"delay": 20, "up_rate": "8M", "down_rate": "8M"}, **sides)
    probe = Probe.of(bench, rig, 0.05)
    probe.wait_flowing()
    time.sleep(10)
    alone_until = time.monotonic()
    given = lambda: status(rig.state["air"] + "/files")["contacts"][0]["bytes_given"]
    write(os.path.join(spool, "survey.tif"), 60_000_000, 3)
    wait_until("the file to be on its way", lambda: given() > 100_000, 10)
    began, before = time.monotonic(), given()
    time.sleep(10)
    busy_until, rate = time.monotonic(), 8e-6 * (given() - before) / (time.monotonic() - began)
    probe.end()
    ms = probe.beside((probe.flowing_since, alone_until), (began, busy_until), percent=99)
    check(rate > 1, f"the file was not under way all the time: {rate:.1f} Mbit/s of 8")
    # Queue, a packet and a half, and what a busy machine adds.
    check(all(busy < idle + 50 for idle, busy in ms.values()), f"99 of 100 commands within, alone and beside the file: {ms}")
    text = ", ".join(f"{name} {idle:.1f} and {busy:.1f} ms" for name, (idle, busy) in ms.items())
    return f"file {rate:.1f} Mbit/s; 99 of 100 commands alone and beside it within: {text}"


@test("what cannot be put, opened or met is said", seconds=20)
def refused(bench):
    key, public = make_key(bench, "ship")
    folder = bench.path("store")

    def run(*arguments):
        done = subprocess.run([AQUILA, "mule", *arguments], capture_output=True, text=True, timeout=10)
        return done.returncode, done.stdout + done.stderr

    at = ["--key", key, "--store", folder]
    for arguments, code, says in [
        (["put", *at, bench.path("nothing")], 2, "nothing"),
        (["put", *at, "--under", "../..", write(bench.path("x"), 10, 1)], 1, "no path below a folder"),
        (["put", *at, "--within", "soon", bench.path("x")], 2, "6h"),
        (["ls", "--store", bench.path("no store")], 1, "cannot open the store"),
        (["status", "--store", bench.path("no store")], 1, "cannot open the store"),
        (["node", *at], 2, "--peer"),
        (["node", *at, "--peer", f"{public}@ship:9410"], 2, "our own"),
        (["node", *at, "--peer", "aq1:00@ship:9410"], 2, "64 hexadecimal digits"),
        (["shore", *at, "--peer", f"{public}@ship:9410"], 2, "--deliver"),
    ]:
        got, text = run(*arguments)
        check(got == code and says in text, f"{arguments}: {got}, {text}")
    check(not os.path.exists(bench.path("no store")), "nothing is made where one only looks")
    # A second daemon is told.
    other = make_key(bench, "air")[1]
    peer = ["--state", bench.path("state"), "--peer", f"{other},listen=127.0.0.1:{places.free_port()}"]
    first = bench.add(Program(bench, "first", [AQUILA, "mule", "node", *at, *peer]))
    first.wait_log("store started")
    got, text = run("node", *at, *peer)
    check(got == 1 and "in use" in text, text)
    first.end()
