"""The real program over a pair of serial radios, each on a pseudo-terminal."""

import signal
import time

from lib.probe import Probe
from lib.programs import Radios
from lib.rig import Rig
from lib.runner import check, test, wait_until


class ByRadio(Rig):
    """Both sides have a radio; `network`: and the network as well."""

    def __init__(self, bench, network=False, **radios):
        self.network = network
        self.radios = bench.add(Radios(bench, **radios))
        super().__init__(bench, link={"delay": 20} if network else None)

    def start(self, side, log=None):
        self.options[side] = ["--radio", f"{self.radios.links[side]}:57600,name=radio"]
        return super().start(side, log)

    def remote(self):
        return super().remote() if self.network else None

    def radio(self, side):
        """What a side's status page says of its radio."""
        return next(bearer for bearer in getattr(self, side).status()["bearers"] if bearer["aerotp"])


def judge(probe, since, worst):
    for name, way in probe.ways.items():
        check(not way.lost(since), f"commands lost {name}: {way.lost(since)}")
        check(not way.twice(), f"commands came twice {name}: {way.twice()}")
        latest = max(way.latencies(since))
        check(latest < worst, f"a command took {latest:.2f} s {name}")


@test("a serial radio alone with bit errors and noise and a restart", seconds=60)
def radio_alone(bench):
    rig = ByRadio(bench, bit_errors=1e-5)
    probe = Probe.of(bench, rig, 0.4)
    probe.wait_flowing()
    quiet = time.monotonic()
    time.sleep(8)
    judge(probe, quiet, 1.5)
    state = rig.radio("ground")
    check(state["aerotp"]["rssi"] == [180, 175], f"the radio's own reports: {state}")

    rig.radios.tell("errors 0.05 0")
    time.sleep(3)
    rig.radios.tell("errors 1e-5 0")
    noisy = time.monotonic()
    wait_until("commands after the noise", lambda: all(way.first_arrival(noisy) for way in probe.ways.values()), 15)

    rig.air.end(signal.SIGKILL)
    killed = time.monotonic()
    rig.air = rig.start("air", "air again")
    wait_until("commands after the restart", lambda: all(way.first_arrival(killed + 1) for way in probe.ways.values()), 20)
    time.sleep(3)
    calm = time.monotonic()
    time.sleep(4)
    probe.end()
    judge(probe, calm, 1.5)
    return probe.describe()


@test("a serial radio beside a network that goes and comes", seconds=60)
def radio_beside(bench):
    rig = ByRadio(bench, network=True)
    probe = Probe.of(bench, rig, 0.4)
    probe.wait_flowing()
    wait_until("both bearers up", lambda: all(bearer["state"] == "up" for bearer in rig.ground.status()["bearers"]), 10)
    time.sleep(1)
    began = time.monotonic()
    rig.relay.tell("outage begin")
    time.sleep(5)
    rig.relay.tell("outage end")
    time.sleep(3)
    probe.end()
    judge(probe, began - 1, 1.0)
    return probe.describe()
