"""The command line: status page, signals, exit codes, messages."""

import re
import signal
import socket
import subprocess
import time

from lib import places
from lib.mav import GroundStation
from lib.programs import AQUILA, Side
from lib.rig import Rig, make_key
from lib.runner import check, test


def aquila(*arguments, timeout=5):
    return subprocess.run([AQUILA, *map(str, arguments)], capture_output=True, text=True, timeout=timeout)


@test("status page and metrics")
def status(bench):
    rig = Rig(bench, link={"delay": 20}, aircraft=True)
    station = GroundStation(bench, rig.ports["ground mavlink"])
    station.wait_aircraft()
    time.sleep(3)
    sample = re.compile(r'^[a-z_]+(\{([a-z_]+="[^"]*",?)*\})? -?[0-9.e+-]+$')
    for side in (rig.air, rig.ground):
        code, text = side.fetch("/metrics")
        check(code == 200, f"/metrics answers {code}")
        lines = text.splitlines()
        bad = [line for line in lines if line and not line.startswith("# ") and not sample.match(line)]
        check(not bad, f"not Prometheus: {bad[:3]}")
        typed = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
        check(len(typed) > 20 and all(name.startswith("aquila_") for name in typed), f"{len(typed)} metrics")
        page = side.status()
        bearer = page["bearers"][0]
        check(page["side"] == side.side and bearer["state"] == "up", f"{page['side']} is {bearer['state']}")
        check(40 <= bearer["rtt_min_ms"] < 80, f"rtt_min_ms is {bearer['rtt_min_ms']} on a link of 2 x 20 ms")
        check(bearer["silence_ms"] < 1000, f"silence_ms is {bearer['silence_ms']}")
        check(set(page["classes"]) == {"control", "telemetry", "video", "bulk"}, f"classes {set(page['classes'])}")
        code, text = side.fetch("/")
        check(code == 200 and "html" in text.lower() or "up" in text, f"/ answers {code}")
        check(side.fetch("/nothing")[0] == 404, "a page that is not there is not 404")
    check(rig.ground.status()["classes"]["telemetry"]["delivered"] > 20, "no telemetry counted")
    return f"{len(typed)} metrics on each side"


@test("the status page does not leave the machine")
def status_local(bench):
    key, _ = make_key(bench, "ground")
    peer = make_key(bench, "air")[1]
    result = aquila("ground", "--key", key, "--peer", peer, "--listen", f"127.0.0.1:{places.free_port()}", "--status", "0.0.0.0:9420", "--state", bench.path("s"))
    check(result.returncode in (1, 2), f"exit code {result.returncode}")
    check("allow_remote" in result.stderr, f"does not say how to allow it: {result.stderr}")


@test("SIGTERM and Ctrl-C end both sides")
def signals(bench):
    took = []
    for how in (signal.SIGTERM, signal.SIGINT):
        rig = Rig(bench, link={"delay": 20})
        for side in (rig.air, rig.ground):
            code, seconds = side.end(how)
            check(code == 0, f"{side.side} ended with {code} by {how.name}")
            check(seconds < 2, f"{side.side} took {seconds:.1f} s to end by {how.name}")
            took.append(seconds)
        bench.stop()
    # And without the other side, when nothing has connected yet.
    rig = Rig(bench, wait=False)
    rig.ground.end()
    rig.air.wait_log("started")
    code, seconds = rig.air.end()
    check(code == 0 and seconds < 2, f"air alone ended with {code} after {seconds:.1f} s")
    return f"longest {max(took) * 1e3:.0f} ms"


@test("the other side is told of an end")
def goodbye(bench):
    rig = Rig(bench, link={"delay": 20})
    rig.air.end()
    began = time.monotonic()
    rig.ground.wait_log("link down", 1)
    return f"within {(time.monotonic() - began) * 1e3:.0f} ms"


def taken(bench, what, kind, option):
    """A port is in use: exit code 1, and the message names it."""
    with socket.socket(socket.AF_INET, kind) as sock:
        sock.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            sock.listen()
        address = "127.0.0.1:{}".format(sock.getsockname()[1])
        key, peer = make_key(bench, "ground")[0], make_key(bench, "air")[1]
        options = {
            "--listen": f"127.0.0.1:{places.free_port()}",
            "--mavlink": "udpin:127.0.0.1:0",
            "--video-in": f"rtp://127.0.0.1:{places.free_port()}",
            "--status": "127.0.0.1:0",
        }
        options[option[0]] = option[1].format(address)
        words = [word for pair in options.items() for word in pair]
        result = aquila("ground", "--key", key, "--peer", peer, "--state", bench.path("s"), *words)
    check(result.returncode == 1, f"{what}: exit code {result.returncode}: {result.stderr}")
    check(address in result.stderr, f"{what}: does not name {address}: {result.stderr}")
    check("in use" in result.stderr, f"{what}: does not say why: {result.stderr}")
    return result.stderr.strip().splitlines()[-1]


@test("ports in use")
def ports_in_use(bench):
    said = [
        taken(bench, "link", socket.SOCK_DGRAM, ("--listen", "{}")),
        taken(bench, "udpin", socket.SOCK_DGRAM, ("--mavlink", "udpin:{}")),
        taken(bench, "tcpin", socket.SOCK_STREAM, ("--mavlink", "tcpin:{}")),
        taken(bench, "camera", socket.SOCK_DGRAM, ("--video-in", "rtp://{}")),
        taken(bench, "status", socket.SOCK_STREAM, ("--status", "{}")),
    ]
    return said[0]


@test("configuration that is wrong")
def bad_config(bench):
    path = bench.path("aquila.toml")
    peer = make_key(bench, "air")[1]
    cases = {
        "unknown key": (f'[identity]\npeer = "{peer}"\n\n[link]\nmtuu = 1200\n', 5),
        "wrong type": (f'[identity]\npeer = "{peer}"\n[link]\nmtu = "much"\n', 4),
        "too small": (f'[identity]\npeer = "{peer}"\n[link]\nmtu = 1100\n', 4),
        "not a key": ('[identity]\npeer = "aq1:1234"\n', 2),
        "no such endpoint": (f'[identity]\npeer = "{peer}"\n[mavlink]\nendpoints = [\n  "smoke:signal",\n]\n', 4),
        "not TOML": ("[identity\n", 1),
    }
    for what, (text, line) in cases.items():
        with open(path, "w") as file:
            file.write(text)
        for command in (["ground", "--config", path], ["check", path]):
            result = aquila(*command)
            check(result.returncode == 2, f"{what}: `{command[0]}` exits with {result.returncode}: {result.stderr}")
            said = result.stderr + result.stdout
            check(f"aquila.toml:{line}" in said, f"{what}: `{command[0]}` does not name line {line}: {said}")
    result = aquila("ground", "--config", bench.path("nothing.toml"))
    check(result.returncode == 2 and "nothing.toml" in result.stderr, f"missing file: {result.returncode} {result.stderr}")
    result = aquila("ground", "--mtu", "1100", "--peer", peer)
    check(result.returncode == 2 and "1200" in result.stderr, f"--mtu 1100: {result.returncode} {result.stderr}")
    return f"{len(cases)} mistakes, each with its line"


@test("logs in a file are plain text")
def plain_logs(bench):
    rig = Rig(bench)
    for side in (rig.air, rig.ground):
        with open(side.log, "rb") as file:
            check(b"\x1b" not in file.read(), f"escape sequences for colours in the log of the {side.side} side, which is a file")


@test("two cables crossed: both sides are ground")
def same_side(bench):
    rig = Rig(bench, wait=False)
    rig.air.end()
    options = ["--key", rig.keys["air"][0], "--peer", rig.keys["ground"][1], "--state", bench.path("s")]
    options += ["--connect", f"127.0.0.1:{rig.ports['link']}", "--mavlink", "udpin:127.0.0.1:0"]
    twin = bench.add(Side(bench, "ground", options, log="twin"))
    twin.wait_log("the other side is ground too", 5)
    time.sleep(5)
    lines = twin.text().splitlines()
    check(len(lines) < 20, f"{len(lines)} lines in 5 s: {lines[-3:]}")
