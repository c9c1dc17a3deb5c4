"""MAVProxy connects, arms and takes off."""

import os
import subprocess
import sys
import time

from lib.mav import GroundStation
from lib.programs import Program
from lib.rig import Rig
from lib.runner import check, test, wait_until

HEIGHT = 20


@test("mavproxy arms and takes off", seconds=90)
def mavproxy(bench):
    rig = Rig(bench, link={"delay": 30, "up_rate": "4M", "down_rate": "4M"}, aircraft=True)
    # Watches beside MAVProxy, at the same endpoint.
    watcher = GroundStation(bench, rig.ports["ground mavlink"], system=250)
    watcher.wait_aircraft()
    program = os.path.join(os.path.dirname(sys.executable), "mavproxy.py")
    master = f"udpout:127.0.0.1:{rig.ports['ground mavlink']}"
    options = [f"--master={master}", "--state-basedir", bench.directory, "--nowait", "--default-modules=mode,arm,cmdlong,param,link"]
    proxy = bench.add(Program(bench, "mavproxy", [sys.executable, program, *options], stdin=subprocess.PIPE))
    proxy.wait_log(r"Detected vehicle|online system", 30)
    proxy.wait_log(r"Received 1348 parameters|Saved 1348 parameters", 40)

    def say(line):
        proxy.process.stdin.write(line.encode() + b"\n")
        proxy.process.stdin.flush()

    def heartbeat(holds):
        message = watcher.receive("HEARTBEAT", 0.5)
        return message and message.get_srcSystem() == 1 and holds(message)

    GUIDED, ARMED = 4, 128
    say("mode GUIDED")
    wait_until("mode GUIDED", lambda: heartbeat(lambda message: message.custom_mode == GUIDED), 10)
    say("arm throttle")
    wait_until("armed", lambda: heartbeat(lambda message: message.base_mode & ARMED), 10)
    say(f"takeoff {HEIGHT}")
    began, highest = time.monotonic(), 0.0

    def risen():
        nonlocal highest
        message = watcher.receive("GLOBAL_POSITION_INT", 0.5)
        highest = max(highest, message.relative_alt / 1e3 if message else 0.0)
        return highest > HEIGHT * 0.75

    wait_until(f"{HEIGHT * 0.75} m above home", risen, 30)
    check(not proxy.has_crashed(), "mavproxy ended")
    return f"{highest:.1f} m above home {time.monotonic() - began:.1f} s after takeoff"
