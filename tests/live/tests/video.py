"""ffmpeg and GStreamer send 1080p30; every packet comes out as it went in."""

import os
import select
import socket
import subprocess
import time

from lib import mav, places, programs
from lib.programs import Program
from lib.rig import Rig
from lib.runner import Skip, check, test

CLIPS = os.path.join(programs.TARGET, "live", "clips")
SECONDS = 8
ENCODERS = {
    "h264": ["libx264", "-preset", "ultrafast", "-tune", "zerolatency"],
    "h265": ["libx265", "-preset", "ultrafast", "-x265-params", "log-level=error:keyint=30:bframes=0", "-tag:v", "hvc1"],
}


def clip(codec):
    """A file of 1080p30 at 8 Mbit/s, made once: encoding it live would measure this machine."""
    path = os.path.join(CLIPS, f"{codec}.mp4")
    if not os.path.exists(path):
        os.makedirs(CLIPS, exist_ok=True)
        source = f"testsrc2=size=1920x1080:rate=30:duration={SECONDS},noise=alls=12:allf=t"
        rate = ["-b:v", "8M", "-maxrate", "8M", "-bufsize", "2M", "-g", "30", "-bf", "0", "-pix_fmt", "yuv420p"]
        command = ["ffmpeg", "-loglevel", "error", "-y", "-f", "lavfi", "-i", source, "-c:v", *ENCODERS[codec], *rate]
        made = subprocess.run([*command, path + ".new.mp4"], capture_output=True, text=True)
        if made.returncode != 0:
            raise Skip(f"ffmpeg cannot encode {codec}: {made.stderr.strip()[-200:]}")
        os.rename(path + ".new.mp4", path)
    return path


def ffmpeg(codec, port, *options):
    source = ["ffmpeg", "-loglevel", "warning", "-re", "-i", clip(codec), *options, "-an", "-c", "copy"]
    return [*source, "-f", "rtp", f"rtp://127.0.0.1:{port}"]


def gstreamer(codec, port):
    parse, pay = ("h264parse", "rtph264pay") if codec == "h264" else ("h265parse", "rtph265pay")
    for element in ("qtdemux", parse, pay, "udpsink"):
        if subprocess.run(["gst-inspect-1.0", "--exists", element]).returncode != 0:
            raise Skip(f"no GStreamer element {element}: gstreamer1.0-plugins-good and -bad have them")
    elements = [f"filesrc location={clip(codec)}", "qtdemux", f"{parse} config-interval=-1", f"{pay} mtu=1400"]
    elements.append(f"udpsink host=127.0.0.1 port={port} sync=true")
    return ["gst-launch-1.0", "-q", *" ! ".join(elements).split()]


class Tap:
    """Stands between the camera and the air side, and at the ground side's output; notes every packet."""

    def __init__(self, rig):
        self.camera, self.output = self.listener(places.free_port()), self.listener(rig.ports["viewer"])
        # RTCP goes to the next port; nobody minds it, but it must not be refused.
        self.companion = self.listener(self.port + 1)
        self.to_air = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.to_air.connect(("127.0.0.1", rig.ports["camera"]))
        self.sent, self.received = [], []

    @staticmethod
    def listener(port):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        mav.widen(sock)
        sock.bind(("127.0.0.1", port))
        sock.setblocking(False)
        return sock

    @property
    def port(self):
        return self.camera.getsockname()[1]

    def run(self, process, timeout):
        """Until the camera has ended and nothing has come for a second."""
        end = time.monotonic() + timeout
        quiet_since = time.monotonic()
        while time.monotonic() < end:
            ready, _, _ = select.select([self.camera, self.output], [], [], 0.1)
            if ready:
                quiet_since = time.monotonic()
            elif process.poll() is not None and time.monotonic() - quiet_since > 1:
                return
            for sock in ready:
                for packet in self.packets(sock):
                    if sock is self.camera:
                        self.to_air.send(packet)
                    (self.sent if sock is self.camera else self.received).append((time.monotonic(), packet))

    @staticmethod
    def packets(sock):
        while True:
            try:
                yield sock.recv(65536)
            except BlockingIOError:
                return

    def forget(self):
        self.sent, self.received = [], []

    def stop(self):
        for sock in (self.camera, self.output, self.companion, self.to_air):
            sock.close()


def compare(tap, rig):
    """Every packet identical and in order; otherwise says what is different."""
    sent, received = [packet for _, packet in tap.sent], [packet for _, packet in tap.received]
    if sent == received:
        return
    began = tap.sent[0][0]
    arrived, known = set(received), set(sent)
    missing = [(at - began, packet) for at, packet in tap.sent if packet not in arrived]
    text = [f"{len(sent)} packets went in, {len(received)} came out"]
    if missing:
        stamps = {packet[4:8] for _, packet in missing}
        times = [at for at, _ in missing]
        text.append(f"{len(missing)} packets of {len(stamps)} frames missing, sent {times[0]:.2f} to {times[-1]:.2f} s")
    text.append(f"{sum(packet not in known for packet in received)} altered")
    place = {packet: n for n, packet in enumerate(sent)}
    order = [place[packet] for packet in received if packet in place]
    text.append(f"{sum(a >= b for a, b in zip(order, order[1:]))} out of order")
    video, there = rig.air.status()["video"], rig.ground.status()["video"]
    text.append(f"air: frames_in {video['frames_in']} sent {video['frames_sent']} dropped {video['frames_dropped']} {video['inputs'][0]}")
    text.append(f"ground: shown {there['frames_shown']} lost {there['frames_lost']} {there['outputs']}")
    check(False, "; ".join(text))


def stream(bench, camera, codec):
    """On a clean link: 20 Mbit/s for 8 Mbit/s of video, 10 ms, no loss."""
    source = clip(codec)
    rig = Rig(bench, link={"up_rate": "20M", "down_rate": "20M", "delay": 10, "queue": 250000})
    tap = Tap(rig)
    bench.add(tap)
    # How long the first frames take until the link has been found is for the lab (`aquila lab run start`), and differs with the machine.
    first = bench.add(Program(bench, "first", ffmpeg(codec, tap.port, "-t", "2")))
    tap.run(first.process, 12)
    first.ended_by_us = True
    check(tap.received, "nothing came out in two seconds")
    found = rig.air.status()["video"]["inputs"][0]["codec"]
    check(found == codec, f"the status page calls it {found}")
    tap.forget()
    sender = bench.add(Program(bench, "camera", camera(codec, tap.port)))
    tap.run(sender.process, SECONDS + 12)
    sender.ended_by_us = True
    check(sender.process.poll() == 0, f"the camera ended with {sender.process.poll()}: {sender.text()[-300:]}")
    span = tap.sent[-1][0] - tap.sent[0][0]
    rate = sum(len(packet) for _, packet in tap.sent) * 8 / span / 1e6
    frames = len({packet[4:8] for _, packet in tap.sent})
    check(len(tap.sent) > 1000 and 6 < rate < 11, f"{len(tap.sent)} packets, {rate:.1f} Mbit/s of {source}")
    compare(tap, rig)
    latencies = sorted(b - a for (a, _), (b, _) in zip(tap.sent, tap.received))
    median, most = latencies[len(latencies) // 2] * 1e3, latencies[-1] * 1e3
    return f"{len(tap.sent)} packets of {frames} frames at {rate:.1f} Mbit/s identical and in order, median {median:.0f} max {most:.0f} ms"


@test("ffmpeg h264 1080p30 at 8 Mbit/s", needs=["ffmpeg"])
def ffmpeg_h264(bench):
    return stream(bench, ffmpeg, "h264")


@test("ffmpeg h265 1080p30 at 8 Mbit/s", needs=["ffmpeg"])
def ffmpeg_h265(bench):
    return stream(bench, ffmpeg, "h265")


@test("gstreamer h264 1080p30 at 8 Mbit/s", needs=["ffmpeg", "gst-launch-1.0"])
def gstreamer_h264(bench):
    return stream(bench, gstreamer, "h264")


@test("gstreamer h265 1080p30 at 8 Mbit/s", needs=["ffmpeg", "gst-launch-1.0"])
def gstreamer_h265(bench):
    return stream(bench, gstreamer, "h265")
