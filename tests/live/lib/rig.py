"""Both sides of the link, with what a test wants between and beside them."""

import os
import shutil
import socket
import subprocess
import time

from lib import places, programs, runner
from lib.programs import AQUILA, Aircraft, Relay, Side


class Rig:
    """Starts the ground side, a relay if the link is to be emulated, and the air side; waits until the link is up.

    `link`: options of the relay, such as `{"loss": 2, "delay": 20}`; without it the sides talk directly.
    `aircraft`: whether the simulated aircraft is there.
    `namespace`: where the air side is.
    `air`, `ground`: further options of either side.
    `programs`: other builds of it, by side.
    """

    def __init__(self, bench, link=None, aircraft=False, namespace=None, air=(), ground=(), wait=True, state=None, programs=None):
        self.programs = programs or {}
        self.bench, self.options, self.namespace = bench, {"air": list(air), "ground": list(ground)}, namespace
        self.keys = {side: make_key(bench, side) for side in ("air", "ground")}
        self.state = {"air": bench.path("air-state"), "ground": bench.path("ground-state"), **(state or {})}
        self.ports = {
            name: places.free_port()
            for name in ("link", "relay", "air mavlink", "ground mavlink", "camera", "viewer")
        }
        self.ground = self.start("ground")
        self.relay = None
        if link is not None:
            self.relay = bench.add(Relay(bench, self.ports["relay"], f"127.0.0.1:{self.ports['link']}", **link))
        self.air = self.start("air")
        self.aircraft = bench.add(Aircraft(bench, self.ports["air mavlink"], self.place("air"))) if aircraft else None
        if wait:
            self.wait_up()

    def place(self, side):
        return self.namespace if side == "air" and self.namespace else places.HERE

    def remote(self):
        """Where the air side connects to."""
        if self.namespace:
            return f"10.77.0.1:{self.ports['link']}"
        return f"127.0.0.1:{self.ports['relay' if self.relay else 'link']}"

    def start(self, side, log=None):
        """Starts a side, also for the second time."""
        other = "ground" if side == "air" else "air"
        options = ["--key", self.keys[side][0], "--peer", self.keys[other][1], "--state", self.state[side]]
        if side == "air":
            remote = self.remote()
            options += ["--connect", remote] if remote else []
            options += ["--video-in", f"rtp://127.0.0.1:{self.ports['camera']}"]
        else:
            listen = "0.0.0.0" if self.namespace else "127.0.0.1"
            options += ["--listen", f"{listen}:{self.ports['link']}"]
            options += ["--video-out", f"rtp://127.0.0.1:{self.ports['viewer']}"]
        options += ["--mavlink", f"udpin:127.0.0.1:{self.ports[side + ' mavlink']}", *self.options[side]]
        program = self.bench.add(Side(self.bench, side, options, self.place(side), log, program=self.programs.get(side, AQUILA)))
        if side == "ground":
            program.wait_log("started")
        return program

    def wait_up(self, timeout=10):
        for side in (self.air, self.ground):
            try:
                runner.wait_until(f"link up on the {side.side} side", side.is_up, timeout)
            except runner.Failed as failure:
                tail = "\n".join(side.text().splitlines()[-8:])
                raise runner.Failed(f"{failure}; its log ends:\n{tail}") from None


def make_key(bench, name):
    """Path of a private key, and the public key."""
    path = bench.path(f"{name}.key")
    if not os.path.exists(path):
        subprocess.run([AQUILA, "keys", "generate", "--key", path], check=True, capture_output=True)
    shown = subprocess.run([AQUILA, "keys", "show", "--key", path, "--public"], check=True, capture_output=True, text=True)
    return path, shown.stdout.strip()
