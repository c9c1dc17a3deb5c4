"""Several bearers of the real program: interfaces that go, come and vanish."""

import json
import signal
import time

from lib.places import Namespace, ip
from lib.probe import Probe
from lib.rig import Rig
from lib.runner import check, test, wait_until
from tests.network import judge


class Joined(Namespace):
    """A namespace that is joined to ours by two veths."""

    def __init__(self):
        super().__init__("10.77.0.1/24", "10.77.0.2/24")
        self.other_near, self.other_far = f"{self.near}b", f"{self.far}b"
        self.add_other()

    def add_other(self):
        ip("link", "add", self.other_near, "type", "veth", "peer", "name", self.other_far, "netns", self.name)
        ip("addr", "add", "10.78.0.1/24", "dev", self.other_near)
        ip("link", "set", self.other_near, "up")
        ip("addr", "add", "10.78.0.2/24", "dev", self.other_far, place=self)
        ip("link", "set", self.other_far, "up", place=self)

    def remove_other(self):
        ip("link", "del", self.other_near)


class TwoBearers(Rig):
    """The air side goes by both."""

    def start(self, side, log=None):
        if side == "air":
            other = f"{self.namespace.other_far}@10.78.0.1:{self.ports['link']},name=other"
            self.options["air"] = ["--bearer", f"{self.namespace.far},name=one", "--bearer", other]
        return super().start(side, log)

    def bearers(self):
        """What the ground side's status page says of each."""
        return {bearer["name"]: bearer for bearer in self.ground.status()["bearers"]}

    def wait_states(self, **wanted):
        def there():
            bearers = self.bearers()
            return all(name in bearers and bearers[name]["state"] in states.split("|") for name, states in wanted.items())

        wait_until(f"bearers {wanted}", there, 10)


@test("two bearers, of which one goes down, and one vanishes", needs=["namespaces"], seconds=60)
def two_bearers(bench):
    space = bench.add(Joined())
    rig = TwoBearers(bench, namespace=space)
    probe = Probe.of(bench, rig)
    probe.wait_flowing()
    rig.wait_states(one="up", other="up")
    time.sleep(1)
    worst = {}

    def during(name, seconds=2.0):
        since = time.monotonic()
        time.sleep(seconds)
        worst[name] = max(latency for way in probe.ways.values() for latency in way.latencies(since - 0.5))

    during("both there")
    ip("link", "set", space.far, "down", place=space)
    during("one down")
    rig.wait_states(one="lost|down", other="up")
    ip("link", "set", space.far, "up", place=space)
    rig.wait_states(one="up", other="up")
    space.remove_other()
    during("other vanished")
    rig.wait_states(one="up", other="lost|down")
    space.add_other()
    rig.wait_states(one="up", other="up")
    during("both back", 1.0)
    probe.end()
    judge(probe)
    bearers = rig.bearers()
    check(all(bearer["control_won"] > 0 for bearer in bearers.values()), f"each has won: {bearers}")
    # A copy is under way on the other bearer when one goes: nobody waits for anything.
    check(max(worst.values()) < 0.1, f"worst commands {worst}")
    text = ", ".join(f"{name} {value * 1e3:.0f} ms" for name, value in worst.items())
    won = ", ".join(f"{name} {bearer['control_won']}" for name, bearer in bearers.items())
    return f"worst commands: {text}; first copies up by {won}; none lost, none twice"


@test("bearers are added and taken away with SIGHUP", needs=["namespaces"], seconds=60)
def reload(bench):
    space = bench.add(Joined())
    rig = Rig(bench, namespace=space, wait=False)
    rig.air.stop()
    config = bench.path("air.toml")

    def write(bearers):
        with open(config, "w") as file:
            file.write(f"[link]\nbearers = {json.dumps(bearers)}\n")

    one, other = space.far, f"{space.other_far}@10.78.0.1:{rig.ports['link']}"
    write([one])
    rig.options["air"] = ["--config", config]
    rig.air = rig.start("air")
    rig.wait_up()
    probe = Probe.of(bench, rig)
    probe.wait_flowing()
    for bearers, said in [([one, other], "bearer added"), ([other], "bearer removed")]:
        write(bearers)
        rig.air.process.send_signal(signal.SIGHUP)
        rig.air.wait_log(said, 5)
        time.sleep(2)
    # What was stored of a bearer of its number serves one that comes while the program runs.
    write([one, other])
    rig.air.process.send_signal(signal.SIGHUP)
    rig.air.wait_log(rf"connected.* resumed=true bearer=.?{space.far}", 5)
    write(["no/interface"])
    rig.air.process.send_signal(signal.SIGHUP)
    rig.air.wait_log("the bearers stay as they are", 5)
    time.sleep(1)
    probe.end()
    judge(probe)
    longest = max(latency for way in probe.ways.values() for latency in way.latencies())
    check(longest < 0.2, f"longest command {longest * 1e3:.0f} ms")
    return f"one bearer, two, the other: longest command {longest * 1e3:.0f} ms; none lost, none twice"
