"""Numbered commands both ways, ten a second, and what becomes of them."""

import select
import threading
import time
from collections import defaultdict

from lib import mav, places, runner

INTERVAL = 0.1
AIRCRAFT, OPERATOR = (2, 1), (254, 1)


class Way:
    """One direction."""

    def __init__(self):
        self.sent = {}
        self.arrived = defaultdict(list)

    def lost(self, since=0.0, until=None):
        """Numbers of those sent within a time that did not arrive."""
        until = time.monotonic() - 1 if until is None else until
        return [n for n, at in self.sent.items() if since <= at <= until and n not in self.arrived]

    def twice(self):
        return [n for n, times in self.arrived.items() if len(times) > 1]

    def latencies(self, since=0.0):
        return [times[0] - self.sent[n] for n, times in self.arrived.items() if self.sent[n] >= since]

    def first_arrival(self, after):
        """When the first came after a time, or None."""
        return min((times[0] for times in list(self.arrived.values()) if times[0] >= after), default=None)


class Probe(threading.Thread):
    """Talks to a MAVLink endpoint of either side, each given as a port or anything with `send`, `receive`, `fileno`."""

    def __init__(self, bench, air, ground, interval=INTERVAL):
        super().__init__(daemon=True)
        self.interval = interval
        self.ends = {"air": air, "ground": ground}
        self.ways = {"up": Way(), "down": Way()}
        self.ending = threading.Event()
        # Nobody knows the way to a system that has not been heard of.
        self.flowing_since = 0.0
        bench.add(self)
        self.start()

    @classmethod
    def of(cls, bench, rig, interval=INTERVAL):
        air = mav.UdpPort(rig.ports["air mavlink"], rig.place("air"))
        return cls(bench, air, mav.UdpPort(rig.ports["ground mavlink"]), interval)

    def run(self):
        packers = {"air": mav.Packer(*AIRCRAFT), "ground": mav.Packer(*OPERATOR)}
        number, next_at, beat_at = 0, time.monotonic(), 0.0
        while not self.ending.is_set():
            now = time.monotonic()
            if now >= beat_at:
                beat_at = now + 1
                self.ends["air"].send(packers["air"].heartbeat(autopilot=True))
                self.ends["ground"].send(packers["ground"].heartbeat(autopilot=False))
            if now >= next_at:
                next_at += self.interval
                for end, way, target in (("air", "up", OPERATOR), ("ground", "down", AIRCRAFT)):
                    frame = packers[end].command(number, target)
                    self.ways[way].sent[number] = time.monotonic()
                    self.ends[end].send(frame)
                number += 1
            files = [end for end in self.ends.values() if end.fileno() >= 0]
            ready, _, _ = select.select(files, [], [], max(0.0, min(next_at - time.monotonic(), self.interval)))
            now = time.monotonic()
            for end, way in (("ground", "up"), ("air", "down")):
                if self.ends[end] in ready:
                    for frame in self.ends[end].receive():
                        n = mav.command_number(frame)
                        if n is not None:
                            self.ways[way].arrived[n].append(now)

    def wait_flowing(self, timeout=10):
        """Until commands arrive both ways; returns when the last sign of it came."""
        since = time.monotonic()
        both = lambda: all(way.first_arrival(since) for way in self.ways.values())
        runner.wait_until("commands both ways", both, timeout)
        last = max(way.first_arrival(since) for way in self.ways.values())
        self.flowing_since = self.flowing_since or last
        return last

    def end(self, settle=1.5):
        """Stops sending once those under way have had time to arrive."""
        time.sleep(settle)
        self.stop()

    def stop(self):
        self.ending.set()
        self.join(2)
        for end in self.ends.values():
            end.close()

    def beside(self, *spans, percent):
        """Within how many ms so many of a hundred commands came that were sent in each span of time, each way. None may be lost or come
        twice."""
        ms = {}
        for name, way in self.ways.items():
            lost, twice = way.lost(self.flowing_since), way.twice()
            runner.check(not lost and not twice, f"{name}: lost {lost}, twice {twice}")
            took = [[way.arrived[n][0] - at for n, at in way.sent.items() if since < at < until and n in way.arrived] for since, until in spans]
            ms[name] = [1e3 * sorted(each)[len(each) * percent // 100] for each in took]
        return ms

    def describe(self):
        """One line for people."""
        text = []
        for name, way in self.ways.items():
            ms = sorted(latency * 1e3 for latency in way.latencies())
            if ms:
                text.append(f"{name} median {ms[len(ms) // 2]:.1f} max {ms[-1]:.0f} ms")
        return ", ".join(text)
