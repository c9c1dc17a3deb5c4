"""Addresses and interfaces that come and go, restarts, a serial line that is unplugged."""

import signal
import time

from lib import mav
from lib.places import Namespace, ip
from lib.probe import Probe
from lib.rig import Rig
from lib.runner import check, test, wait_until


def joined(bench):
    """The air side in a namespace of its own, joined to ours by a veth; commands flow."""
    space = bench.add(Namespace("10.77.0.1/24", "10.77.0.2/24"))
    rig = Rig(bench, namespace=space)
    probe = Probe.of(bench, rig)
    probe.wait_flowing()
    time.sleep(2)
    return space, rig, probe


def recovery(probe, since, timeout=15):
    """Time from `since` to the first command that was sent and arrived after it, each way."""

    def both():
        return all(way.first_arrival(since) for way in probe.ways.values())

    wait_until("commands both ways again", both, timeout)
    return {name: way.first_arrival(since) - since for name, way in probe.ways.items()}


def judge(probe, since=0.0):
    """Nothing twice, and nothing lost since a time, or since commands began to flow."""
    since = max(since, probe.flowing_since)
    for name, way in probe.ways.items():
        twice, lost = way.twice(), way.lost(since)
        check(not twice, f"{name}: {len(twice)} commands delivered twice")
        check(not lost, f"{name}: commands {lost} of {len(way.sent)} lost")


def milliseconds(times):
    return ", ".join(f"{name} {value * 1e3:.0f} ms" for name, value in times.items())


@test("air side changes its address", needs=["namespaces"])
def address_change(bench):
    space, rig, probe = joined(bench)
    results = []
    for n in range(3, 6):
        changed = time.monotonic()
        ip("addr", "del", f"10.77.0.{n - 1}/24", "dev", space.far, place=space)
        ip("addr", "add", f"10.77.0.{n}/24", "dev", space.far, place=space)
        took = time.monotonic() - changed
        results.append((recovery(probe, changed + took), took))
        rig.ground.wait_log(rf"the other side's address changed.*to=10\.77\.0\.{n}", 5)
        time.sleep(2)
    probe.end()
    judge(probe)
    worst = max(max(times.values()) for times, _ in results)
    delayed = sum(latency > 0.15 for way in probe.ways.values() for latency in way.latencies())
    longest = max(latency for way in probe.ways.values() for latency in way.latencies())
    # The old connection moves, and a resumed one takes its place; nothing waits for a full handshake.
    connected = [line for line in rig.air.text().splitlines() if ": connected remote" in line]
    check(all("resumed=true" in line for line in connected[1:]), f"a full handshake was made: {connected}")
    check(worst < 0.5, f"{worst * 1e3:.0f} ms to the first command after a change")
    text = "; ".join(milliseconds(times) for times, _ in results)
    return f"3 changes, first commands after {text}; {delayed} commands later than 150 ms, longest {longest * 1e3:.0f} ms; none lost, none twice"


@test("address is gone for two seconds", needs=["namespaces"])
def address_gone(bench):
    space, rig, probe = joined(bench)
    ip("addr", "del", "10.77.0.2/24", "dev", space.far, place=space)
    time.sleep(2)
    back = time.monotonic()
    ip("addr", "add", "10.77.0.9/24", "dev", space.far, place=space)
    times = recovery(probe, back)
    probe.end()
    judge(probe)
    check(max(times.values()) < 0.5, f"{milliseconds(times)} after the new address")
    return f"first commands {milliseconds(times)} after the new address; none lost, none twice"


@test("interface goes down and comes up", needs=["namespaces"])
def interface_down(bench):
    space, rig, probe = joined(bench)
    results = []
    for seconds in (2, 8):
        ip("link", "set", space.far, "down", place=space)
        time.sleep(seconds)
        up = time.monotonic()
        ip("link", "set", space.far, "up", place=space)
        times = recovery(probe, up)
        results.append(f"after {seconds} s down: {milliseconds(times)}")
        check(max(times.values()) < 0.5, f"after {seconds} s down: first commands {milliseconds(times)} after the interface came up")
        time.sleep(2)
    probe.end()
    judge(probe)
    return f"{'; '.join(results)}; none lost, none twice"


@test("silent outage of three seconds", seconds=60)
def silent_outage(bench):
    rig = Rig(bench, link={"delay": 20, "up_rate": "4M", "down_rate": "4M"})
    probe = Probe.of(bench, rig)
    probe.wait_flowing()
    time.sleep(1)
    results = []
    for _ in range(2):
        rig.relay.tell("outage begin")
        time.sleep(3)
        end = time.monotonic()
        rig.relay.tell("outage end")
        times = recovery(probe, end)
        results.append(milliseconds(times))
        check(max(times.values()) < 0.75, f"first commands {milliseconds(times)} after the outage")
        time.sleep(1)
    probe.end()
    judge(probe)
    return f"first commands {'; '.join(results)} after the outage; none lost, none twice"


@test("NAT rebinds without a word")
def rebinding(bench):
    rig = Rig(bench, link={"delay": 20, "up_rate": "4M", "down_rate": "4M"})
    probe = Probe.of(bench, rig)
    probe.wait_flowing()
    time.sleep(1)
    results = []
    for _ in range(3):
        changed = time.monotonic()
        rig.relay.tell("address")
        results.append(recovery(probe, changed))
        time.sleep(1.5)
    probe.end()
    judge(probe)
    longest = max(latency for way in probe.ways.values() for latency in way.latencies())
    check(longest < 0.6, f"a command took {longest * 1e3:.0f} ms")
    return f"3 changes, longest command {longest * 1e3:.0f} ms; none lost, none twice"


def restarts(bench, side):
    """Kills a side without warning, three times, and starts it again."""
    rig = Rig(bench, link={"delay": 20, "up_rate": "4M", "down_rate": "4M"})
    probe = Probe.of(bench, rig)
    probe.wait_flowing()
    results, resumed = [], []
    for n in range(3):
        time.sleep(3)
        old = getattr(rig, side)
        before = 0 if side == "air" else len(rig.air.text())
        killed = time.monotonic()
        old.end(signal.SIGKILL)
        new = rig.start(side, log=f"{side}-{n + 2}")
        setattr(rig, side, new)
        line = rig.air.wait_log(r"connected .*resumed=(true|false)", 20, after=before)
        resumed.append(line.group(1))
        started = time.monotonic()
        recovery(probe, started, 10)
        results.append({name: way.first_arrival(started) - killed for name, way in probe.ways.items()})
        # From here on nothing may be lost.
        clean = time.monotonic()
    time.sleep(1.5)
    probe.end()
    judge(probe, since=clean + 0.5)
    for name, way in probe.ways.items():
        lost = way.lost()
        # What the killed program had taken and not yet delivered is gone with it, and so is what nobody listened to.
        check(len(lost) < 100, f"{name}: {len(lost)} of {len(way.sent)} commands lost")
    text = "; ".join(milliseconds(times) for times in results)
    check(resumed == ["true"] * 3, f"resumed by 0-RTT: {resumed}; commands again {text} after the kill")
    check(max(max(times.values()) for times in results) < 5, f"commands again {text} after the kill")
    return f"resumed 3 of 3, commands again {text} after the kill, none twice"


@test("air side is killed and started again")
def restart_air(bench):
    return restarts(bench, "air")


@test("ground side is killed and started again")
def restart_ground(bench):
    return restarts(bench, "ground")


@test("both sides restarted in an orderly way")
def restart_orderly(bench):
    rig = Rig(bench, link={"delay": 20})
    probe = Probe.of(bench, rig)
    probe.wait_flowing()
    time.sleep(1)
    took = []
    for side in ("air", "ground"):
        code, _ = getattr(rig, side).end()
        check(code == 0, f"{side} ended with {code}")
        before = 0 if side == "air" else len(rig.air.text())
        began = time.monotonic()
        setattr(rig, side, rig.start(side, log=f"{side}-2"))
        line = rig.air.wait_log(r"connected .*resumed=(true|false)", 20, after=before)
        took.append(f"{side} {time.monotonic() - began:.1f} s")
        check(line.group(1) == "true", f"not resumed after the restart of the {side} side")
        probe.wait_flowing()
    probe.end()
    for name, way in probe.ways.items():
        check(not way.twice(), f"{name}: {len(way.twice())} commands delivered twice")
    return f"connected again after {', '.join(took)}, resumed, none twice"


@test("serial line is unplugged and plugged in")
def serial(bench):
    line = mav.PtyPort(bench.path("ttyAutopilot"))
    rig = Rig(bench, link={"delay": 20}, air=["--mavlink", f"serial:{line.path}:57600"])
    probe = Probe(bench, line, mav.UdpPort(rig.ports["ground mavlink"]))
    probe.wait_flowing()
    check(line.speed() == 57600, f"the line's speed is {line.speed()}")
    results = []
    for seconds in (0.5, 4):
        time.sleep(1.5)
        line.unplug()
        time.sleep(seconds)
        check(rig.air.is_up(), "the link went down with the serial line")
        plugged = time.monotonic()
        line.plug()
        results.append(recovery(probe, plugged))
    clean = time.monotonic() + 0.5
    time.sleep(2)
    probe.end()
    judge(probe, since=clean)
    for way in probe.ways.values():
        check(not way.twice(), f"{len(way.twice())} commands delivered twice")
    worst = max(max(times.values()) for times in results)
    text = "; ".join(milliseconds(times) for times in results)
    check(worst < 3, f"first commands {text} after plugging in")
    return f"first commands {text} after plugging in, none twice"
