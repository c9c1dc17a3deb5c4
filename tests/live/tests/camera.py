"""A pipeline of GStreamer's films in the air side's process (`--camera`), and what comes out at the ground is decoded."""

import json
import os
import re
import socket
import subprocess
import time

from lib import mav
from lib.programs import PROGRAMS
from lib.rig import Rig
from lib.runner import Skip, check, test, wait_until

AQUILA = os.path.join(PROGRAMS, "aquila-camera")
SOURCE = "videotestsrc is-live=true pattern=zone-plate kx2=20 ky2=20 kt=1"
FILM = f"{SOURCE} ! video/x-raw,width=1280,height=720,framerate=30/1 ! x264enc speed-preset=ultrafast key-int-max=60"


class Viewer:
    """Takes H.264 in RTP (RFC 6184) at the ground side's output."""

    def __init__(self, port):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        mav.widen(self.socket)
        self.socket.bind(("127.0.0.1", port))
        self.socket.settimeout(0.1)

    def watch(self, seconds):
        """What comes in this time: packets."""
        packets, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                packets.append(self.socket.recv(65536))
            except TimeoutError:
                pass
        return packets

    def stop(self):
        self.socket.close()


def annex_b(packets):
    """The units in these packets, each behind a start code, from the first parameter set to the end of the last picture."""
    units = []
    ends = [n for n, packet in enumerate(packets) if packet[1] & 0x80]
    for packet in packets[: ends[-1] + 1] if ends else []:
        payload = packet[12 + 4 * (packet[0] & 0x0F) :]
        kind = payload[0] & 0x1F
        if kind == 24:
            rest = payload[1:]
            while len(rest) > 2:
                length = int.from_bytes(rest[:2], "big")
                units.append(rest[2 : 2 + length])
                rest = rest[2 + length :]
        elif kind == 28:
            if payload[1] & 0x80:
                units.append(bytes([payload[0] & 0xE0 | payload[1] & 0x1F]))
            if units:
                units[-1] += payload[2:]
        else:
            units.append(payload)
    first = next((n for n, unit in enumerate(units) if unit[0] & 0x1F == 7), len(units))
    return b"".join(b"\0\0\0\1" + unit for unit in units[first:])


def decoded(bench, name, packets):
    """Width, height, and how many pictures ffmpeg makes of them; it must complain of none."""
    path = bench.path(f"{name}.h264")
    with open(path, "wb") as file:
        file.write(annex_b(packets))
    shown = "stream=width,height,nb_read_frames"
    command = ["ffprobe", "-v", "warning", "-count_frames", "-show_entries", shown, "-of", "json", path]
    made = subprocess.run(command, capture_output=True, text=True)
    streams = json.loads(made.stdout or "{}").get("streams")
    check(made.returncode == 0 and streams, f"ffprobe on {name}: {made.stderr.strip()[-300:]}")
    check(not made.stderr.strip(), f"ffprobe complains of {name}: {made.stderr.strip()[-300:]}")
    return streams[0]["width"], streams[0]["height"], int(streams[0]["nb_read_frames"])


def rate(packets, seconds):
    return sum(len(packet) for packet in packets) * 8 / seconds / 1e6


@test("a camera in the air side's process", needs=["ffmpeg", "gst-launch-1.0"], seconds=90)
def camera(bench):
    if not os.path.exists(AQUILA):
        raise Skip("no program with GStreamer in it: needs libgstreamer1.0-dev and libgstreamer-plugins-base1.0-dev")
    if subprocess.run(["gst-inspect-1.0", "--exists", "x264enc"]).returncode != 0:
        raise Skip("no GStreamer element x264enc: gstreamer1.0-plugins-ugly has it")
    config = bench.path("camera.toml")
    with open(config, "w") as file:
        file.write('[video]\nsizes = ["auto"]\n')
    link = {"up_rate": "3M", "down_rate": "3M", "delay": 20, "queue": 150000}
    rig = Rig(bench, link=link, air=["--config", config, "--camera", FILM], programs={"air": AQUILA})
    viewer = bench.add(Viewer(rig.ports["viewer"]))
    viewer.watch(3)
    seconds = 6
    large = viewer.watch(seconds)
    width, height, count = decoded(bench, "large", large)
    check((width, height) == (1280, 720), f"{width}x{height} at 3 Mbit/s")
    carried = rate(large, seconds)
    check(1.0 < carried < 3.0, f"{carried:.2f} Mbit/s through 3")

    # Less than 720p is worth: a smaller picture, which begins with parameter sets and a recovery point.
    before = len(rig.air.text())
    rig.relay.tell("rate up 600k")
    rig.air.wait_log("the camera's size.*640x360", timeout=10, after=before)
    # What was larger is still under way.
    viewer.watch(1)
    small = viewer.watch(seconds)
    sizes = decoded(bench, "small", small)
    check(sizes[:2] == (640, 360), f"{sizes[0]}x{sizes[1]} at 600 kbit/s")
    less = rate(small, seconds)
    check(0.1 < less < 0.6, f"{less:.2f} Mbit/s through 0.6")
    frames = rig.ground.status()["video"]
    age = frames["picture_age_ms"]
    check(age is not None and age < 300, f"the picture is {age} ms old")
    code, took = rig.air.end()
    check(code == 0 and took < 3, f"the air side ended with {code} after {took:.1f} s")
    return f"{count} pictures of 720p at {carried:.1f} of 3 Mbit/s, {sizes[2]} of 360p at {less:.2f} of 0.6, all decoded"
