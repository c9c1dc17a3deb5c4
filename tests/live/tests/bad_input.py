"""Bad input on real sockets: the link is unaffected, memory bounded, the log clear and short."""

import datetime
import glob
import os
import random
import socket
import subprocess
import time

from lib import mav, places
from lib.probe import Probe
from lib.programs import Side
from lib.rig import Rig, make_key
from lib.runner import Skip, check, test

MEGABYTE = 1 << 20
# Either side may grow by this much under attack.
GROWTH = 24 * MEGABYTE
RANDOM = random.Random(1)


class Watch:
    """Commands flow, and both sides' memory is known; `judge` says whether anything changed for the worse."""

    def __init__(self, bench, rig, probe=None):
        self.rig, self.probe = rig, probe or Probe.of(bench, rig)
        self.probe.wait_flowing()
        time.sleep(1)
        self.before = {side.side: side.memory()[0] for side in (rig.air, rig.ground)}
        self.connected = {side.side: connections(side) for side in (rig.air, rig.ground)}
        self.logged = {side.side: len(side.text().splitlines()) for side in (rig.air, rig.ground)}

    def judge(self, lines=20):
        self.probe.end()
        grown = {}
        for side in (self.rig.air, self.rig.ground):
            check(side.process.poll() is None, f"the {side.side} side ended: {side.text()[-500:]}")
            check(side.is_up(), f"the link is down on the {side.side} side")
            check(connections(side) == self.connected[side.side], f"the {side.side} side connected again")
            check("panicked" not in side.text(), f"the {side.side} side panicked")
            grown[side.side] = side.memory()[1] - self.before[side.side]
            check(grown[side.side] < GROWTH, f"the {side.side} side grew by {grown[side.side] / MEGABYTE:.0f} MB")
            logged = len(side.text().splitlines()) - self.logged[side.side]
            check(logged <= lines, f"the {side.side} side logged {logged} lines: {side.text()[-400:]}")
        for name, way in self.probe.ways.items():
            check(not way.twice(), f"{name}: {len(way.twice())} commands twice")
            lost = way.lost(self.probe.flowing_since)
            check(not lost, f"{name}: commands {lost} lost")
            # The machine is shared: this only says that the link was not out.
            worst = max(way.latencies(self.probe.flowing_since))
            check(worst < 1, f"{name}: a command took {worst * 1e3:.0f} ms")
        return f"{self.probe.describe()}, grew by {', '.join(f'{n / MEGABYTE:.1f} MB ({s})' for s, n in grown.items())}"


def connections(side):
    return side.text().count(": connected remote")


def noise(length):
    return RANDOM.randbytes(length)


def datagrams(real):
    """Noise and mutilated packets of the link's own kind, for ever."""
    while True:
        yield noise(RANDOM.randrange(0, 1473))
        # A long header of QUIC version 1, an Initial, a version that nobody has, a short header.
        head = RANDOM.choice([b"\xc0\0\0\0\1", b"\xc3\0\0\0\1", b"\xc0\x1a\x2a\x3a\x4a", b"\x40", b"\xd0\0\0\0\1"])
        body = bytes([8]) + noise(8) + bytes([8]) + noise(8) + noise(RANDOM.randrange(0, 1200))
        yield (head + body).ljust(1200, b"\0")
        if real:
            packet = bytearray(RANDOM.choice(real))
            for _ in range(RANDOM.randrange(1, 6)):
                packet[RANDOM.randrange(len(packet))] ^= 1 << RANDOM.randrange(8)
            yield bytes(packet[: RANDOM.randrange(1, len(packet) + 1)] if RANDOM.random() < 0.3 else packet)
            yield RANDOM.choice(real)


def record(rig, bench, seconds=2):
    """Real packets of the link, both ways, through a relay of our own in front of the ground side."""
    front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    front.bind(("127.0.0.1", rig.ports["relay"]))
    front.settimeout(0.05)
    back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    back.connect(("127.0.0.1", rig.ports["link"]))
    back.settimeout(0.05)
    key = make_key(bench, "ground")[1]
    options = ["--key", rig.keys["air"][0], "--peer", key, "--state", bench.path("recorded-state")]
    options += ["--connect", f"127.0.0.1:{rig.ports['relay']}", "--mavlink", "udpin:127.0.0.1:0"]
    options += ["--video-in", f"rtp://127.0.0.1:{places.free_port()}"]
    recorded = Side(bench, "air", options, log="recorded")
    packets, air = [], None
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for sock in (front, back):
            try:
                packet, source = sock.recvfrom(2048)
            except OSError:
                continue
            packets.append(packet)
            if sock is front:
                air = source
                back.send(packet)
            elif air:
                front.sendto(packet, air)
    recorded.end()
    front.close(), back.close()
    return packets


@test("noise on the link's port")
def noise_on_link(bench):
    recorder = Rig(bench, wait=False)
    recorder.air.end()
    real = record(recorder, bench)
    recorder.ground.end()
    check(len(real) > 20, f"{len(real)} packets recorded")
    rig = Rig(bench)
    watch = Watch(bench, rig)
    # Where the air side is, as the ground side sees it: noise goes there as well.
    air = rig.ground.status()["peer"]["address"].rsplit(":", 1)
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    targets = [("127.0.0.1", rig.ports["link"]), (air[0], int(air[1]))]
    sent, end = 0, time.monotonic() + 8
    for packet in datagrams(real):
        for target in targets:
            try:
                sock.sendto(packet, target)
            except OSError:
                pass
            sent += 1
        if sent % 64 == 0:
            time.sleep(0.01)
        if time.monotonic() > end:
            break
    sock.close()
    result = watch.judge()
    security = rig.ground.status()["security"]
    check(security["unknown_peers"] + security["malformed"] + security["handshakes_refused"] > 0, f"nothing counted: {security}")
    return f"{sent} datagrams, {len(real)} of them real once; {result}; counted {security}"


@test("flood of handshakes from unknown keys")
def unknown_keys(bench):
    rig = Rig(bench)
    watch = Watch(bench, rig)
    strangers = []
    for n in range(4):
        key = make_key(bench, f"stranger{n}")[0]
        options = ["--key", key, "--peer", rig.keys["ground"][1], "--state", bench.path(f"stranger{n}-state")]
        options += ["--connect", f"127.0.0.1:{rig.ports['link']}", "--mavlink", "udpin:127.0.0.1:0"]
        options += ["--video-in", f"rtp://127.0.0.1:{places.free_port()}"]
        strangers.append(bench.add(Side(bench, "air", options, log=f"stranger{n}")))
    # First packets of handshakes, as fast as they come, each from a new port.
    initial = first_packet(bench, rig)
    end, sent = time.monotonic() + 8, 0
    while time.monotonic() < end:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for packet in initial:
                sock.sendto(packet, ("127.0.0.1", rig.ports["link"]))
                sent += 1
        time.sleep(0.001)
    result = watch.judge()
    security = rig.ground.status()["security"]
    warnings = [line for line in rig.ground.text().splitlines() if "unknown peer" in line]
    check(1 <= len(warnings) <= 2, f"{len(warnings)} warnings of unknown peers in 10 s: {warnings[:4]}")
    check(security["unknown_peers"] + security["handshakes_refused"] > 0, f"nothing counted: {security}")
    for stranger in strangers:
        check("resumed=" not in stranger.text(), "a stranger was let in")
    return f"4 strangers and {sent} first packets; {result}; counted {security}"


def first_packet(bench, rig):
    """What the air side sends first, to nobody."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(3)
        options = ["--key", make_key(bench, "stranger")[0], "--peer", rig.keys["ground"][1], "--state", bench.path("first-state")]
        options += ["--connect", f"127.0.0.1:{sock.getsockname()[1]}", "--mavlink", "udpin:127.0.0.1:0", "--video-in"]
        program = Side(bench, "air", [*options, f"rtp://127.0.0.1:{places.free_port()}"], log="first")
        packets = [sock.recv(2048)]
        program.end()
    return packets


def wrong_key(bench, side):
    """One side expects another key than the other has; later the right key is given."""
    rig = Rig(bench, wait=False)
    stranger = make_key(bench, "stranger")[1]
    rig.air.end()
    if side == "ground":
        rig.ground.end()
    other = "ground" if side == "air" else "air"
    right = rig.keys[other]
    rig.keys[other] = (right[0], stranger)
    wrong = rig.start(side, log=f"{side}-with-wrong-key")
    rig.keys[other] = right
    if side == "ground":
        rig.air = rig.start("air", log="air-2")
        mistaken, peer = wrong, rig.air
    else:
        mistaken, peer = wrong, rig.ground
    time.sleep(10)
    texts = {"mistaken": mistaken.text(), "peer": peer.text()}
    for name, program in (("mistaken", mistaken), ("peer", peer)):
        check(program.process.poll() is None, f"the {name} side ended")
        check(not program.is_up(), f"the link is up on the {name} side")
    lines = [line for line in texts["mistaken"].splitlines() if any(word in line for word in (" WARN ", " ERROR "))]
    about = [line for line in lines if "key" in line or "unknown peer" in line]
    check(about, f"the side with the wrong key does not say so: {texts['mistaken'][-600:]}")
    check(len(about) <= 2, f"{len(about)} lines about it in 10 s: {about[:4]}")
    for name, text in texts.items():
        loud = [line for line in text.splitlines() if " WARN " in line or " ERROR " in line]
        check(len(loud) <= 3, f"the {name} side warned {len(loud)} times in 10 s: {loud[:5]}")
    return f"says '{about[0].split('WARN')[-1].split('ERROR')[-1].strip()}'"


@test("nobody answers")
def nobody(bench):
    rig = Rig(bench, wait=False)
    rig.ground.end()
    rig.air.end()
    air = rig.start("air", log="air-alone")
    time.sleep(12)
    warnings = [line for line in air.text().splitlines() if " WARN " in line or " ERROR " in line]
    check(warnings, f"the air side does not say that nobody answers: {air.text()[-300:]}")
    check(len(warnings) <= 3, f"{len(warnings)} warnings in 12 s: {warnings[:4]}")
    return warnings[0].split("WARN")[-1].strip()


@test("air side expects another key")
def wrong_key_air(bench):
    return wrong_key(bench, "air")


@test("ground side expects another key")
def wrong_key_ground(bench):
    return wrong_key(bench, "ground")


def mutilated(frame):
    """Frames that lie about their length, are cut short, or have a wrong checksum."""
    yield frame[: RANDOM.randrange(1, len(frame))]
    yield frame[:1] + bytes([RANDOM.randrange(256)]) + frame[2:]
    yield frame[:-1] + bytes([frame[-1] ^ 1])
    yield frame[:2] + bytes([RANDOM.randrange(256)]) + frame[3:]
    yield b"\xfd\xff\xff\xff" * 8
    yield noise(RANDOM.randrange(1, 600))


@test("noise on MAVLink by UDP, TCP and serial")
def noise_on_mavlink(bench):
    tcp = {side: places.free_port(socket.SOCK_STREAM) for side in ("air", "ground")}
    line = mav.PtyPort(bench.path("ttyAutopilot"))
    rig = Rig(
        bench,
        air=["--mavlink", f"tcpin:127.0.0.1:{tcp['air']}", "--mavlink", f"serial:{line.path}:57600"],
        ground=["--mavlink", f"tcpin:127.0.0.1:{tcp['ground']}"],
    )
    watch = Watch(bench, rig)
    # Another aircraft, on the serial line, whose frames come between noise.
    packer = mav.Packer(3, 1)
    observer = mav.UdpPort(rig.ports["ground mavlink"])
    observer.send(mav.Packer(253, 190).heartbeat(autopilot=False))
    doors = [mav.UdpPort(rig.ports[f"{side} mavlink"]) for side in ("air", "ground")]
    doors += [mav.TcpPort(port) for port in tcp.values()]
    wanted, seen, sent = set(), set(), 0
    end = time.monotonic() + 8
    while time.monotonic() < end:
        sample = mav.Packer(RANDOM.randrange(1, 256), 1).command(1, (9, 9))
        for bad in mutilated(sample):
            for door in doors:
                door.send(bad)
                sent += len(bad)
        # On the line noise comes before a good frame, none of it the begin of a frame that would swallow it.
        text = packer.frame(mav.dialect.MAVLink_statustext_message(6, f"serial {len(wanted)}".encode()))
        wanted.add(text)
        line.send(noise(50).replace(b"\xfd", b"").replace(b"\xfe", b"") + text)
        line.receive()
        for door in (*doors, observer):
            frames = door.receive()
            if door is observer:
                seen.update(frames)
        time.sleep(0.02)
    time.sleep(1)
    seen.update(observer.receive())
    missing = wanted - seen
    for door in (*doors, observer):
        door.close()
    check(not missing, f"{len(missing)} of {len(wanted)} good frames between noise did not come out")
    garbage = {side.side: sum(e["garbage_bytes"] for e in side.status()["mavlink"]["endpoints"]) for side in (rig.air, rig.ground)}
    check(all(garbage.values()), f"garbage not counted: {garbage}")
    result = watch.judge(lines=60)
    line.close()
    return f"{sent / MEGABYTE:.1f} MB, {len(wanted)} good frames between noise came out; {result}; counted {garbage}"


@test("client that stops reading")
def stops_reading(bench):
    port = places.free_port(socket.SOCK_STREAM)
    rig = Rig(bench, aircraft=True, ground=["--mavlink", f"tcpin:127.0.0.1:{port}"])
    watch = Watch(bench, rig)
    deaf = []
    for _ in range(5):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", port))
        sock.send(mav.Packer(200, 1).heartbeat(autopilot=False))
        deaf.append(sock)
    sender = mav.UdpPort(rig.ports["air mavlink"])
    packer = mav.Packer(1, 1)
    end, sent = time.monotonic() + 8, 0
    while time.monotonic() < end:
        for _ in range(20):
            sender.send(packer.frame(mav.dialect.MAVLink_statustext_message(6, f"filler {sent}".encode().ljust(50, b"."))))
            sent += 1
        sender.receive()
        time.sleep(0.01)
    result = watch.judge()
    endpoints = rig.ground.status()["mavlink"]["endpoints"]
    for sock in deaf:
        sock.close()
    sender.close()
    return f"5 deaf clients, {sent} messages; {result}; dropped {sum(e['dropped'] for e in endpoints)} on their lines"


@test("full disk", needs=["root"])
def full_disk(bench):
    disks = {}
    for side in ("air", "ground"):
        disks[side] = bench.add(Disk(bench.path(f"{side}-disk"), "64k")).path
        fill(disks[side])
    rig = Rig(bench, state=disks)
    watch = Watch(bench, rig)
    for side in (rig.air, rig.ground):
        side.wait_log(r"WARN.*(cannot store|no state is kept)", 5)
    time.sleep(3)
    result = watch.judge()
    # And once more, after a restart: no 0-RTT, but a link.
    rig.air.end()
    rig.air = rig.start("air", log="air-2")
    rig.wait_up()
    return result


class Disk:
    """A small file system of its own below the test's directory."""

    def __init__(self, path, size):
        self.path = path
        os.mkdir(path)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], capture_output=True, text=True)
        if mounted.returncode != 0:
            raise Skip(f"cannot mount a tmpfs: {mounted.stderr.splitlines()[0]}")

    def stop(self):
        subprocess.run(["umount", "-l", self.path], capture_output=True)


def fill(directory):
    """Until nothing more fits."""
    file = os.open(os.path.join(directory, "ballast"), os.O_WRONLY | os.O_CREAT)
    try:
        while os.write(file, bytes(4096)):
            pass
    except OSError:
        os.close(file)


@test("disk fills up while running", needs=["root"])
def disk_fills_up(bench):
    disk = bench.add(Disk(bench.path("ground-disk"), "256k")).path
    rig = Rig(bench, state={"ground": disk})
    watch = Watch(bench, rig)
    fill(disk)
    time.sleep(4)
    result = watch.judge()
    rig.air.end()
    rig.air = rig.start("air", log="air-2")
    rig.wait_up()
    return result


@test("clock jumps by an hour and a day")
def clock(bench):
    library = next(iter(glob.glob("/usr/lib/*/faketime/libfaketime.so.1")), None)
    if not library:
        raise Skip("no libfaketime")
    offset = bench.path("offset")
    with open(offset, "w") as file:
        file.write("+0")
    env = {"LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": offset, "FAKETIME_NO_CACHE": "1", "DONT_FAKE_MONOTONIC": "1"}
    os.environ.update(env)
    try:
        rig = Rig(bench)
    finally:
        for name in env:
            del os.environ[name]
    watch = Watch(bench, rig)
    hours = []
    for jump in ("+3600", "-3600", "-86400", "+0"):
        with open(offset, "w") as file:
            file.write(jump)
        time.sleep(1)
        # Somebody new is logged, with the time.
        client = mav.UdpPort(rig.ports["ground mavlink"])
        client.send(mav.Packer(201, 1).heartbeat(autopilot=False))
        time.sleep(0.5)
        client.close()
        logged = datetime.datetime.fromisoformat(rig.ground.text().splitlines()[-1].split("Z")[0])
        hours.append(round((logged - datetime.datetime.utcnow()).total_seconds() / 3600))
    check(hours == [1, -1, -24, 0], f"the clock did not jump: by {hours} hours")
    return watch.judge()
