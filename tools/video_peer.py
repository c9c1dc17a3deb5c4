#!/usr/bin/python3
"""One end of a peer that carries video, for tools/video_peers: a camera that sends, or a screen that receives.

    video_peer.py send TRANSPORT --frames FILE --count N --kbps RATE --to ADDRESS --port PORT --log PREFIX
    video_peer.py receive TRANSPORT --to ADDRESS --port PORT --log PREFIX

Transports: rtp, fec (RTP with 10 % of ULPFEC), gcc (RTP as WebRTC has it: Google's congestion control by transport-wide feedback, lost packets sent
again, key frames on request), srt, srt-short, srt-adaptive (SRT with 120 and 60 ms of latency, and with a controller like belacoder's), tcp (RTP by
RFC 4571). FILE holds raw pictures, 1280x720, I420.
The encoder is that of video_encoder.py: x264 superfast, zerolatency, buffer of 200 ms; with a recovery point every two seconds, but for those whose
receiver can ask for one (gcc, and ours by --control).

The sender writes PREFIX.csv (number, CLOCK_MONOTONIC in ns when the picture was taken, bytes, 1 for a recovery point, hash; a picture that was left
out has no bytes; not quite in order), PREFIX.encoded (number, CLOCK_MONOTONIC in ns when it was encoded) and PREFIX.h264, the receiver PREFIX.csv
(hash, CLOCK_MONOTONIC in ns when all of the frame was there). The hash is over the coded slices: what is not whole has another one, and so has not
arrived.
"""

import argparse
import hashlib
import json
import os
import socket
import sys
import threading
import time

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstApp", "1.0")
gi.require_version("GstRtp", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import Gst, GstApp, GstRtp, GstVideo  # noqa: E402, F401

SIZE = (1280, 720)
RATE = 30
VBV_MS = 200
JITTER_MS = 100
FEC_PERCENT = 10
VIDEO = "media=video,clock-rate=90000,encoding-name=H264"
RTP_CAPS = f"application/x-rtp,{VIDEO}"
# RFC 4571: each packet after its length.
RTP_STREAM_CAPS = f"application/x-rtp-stream,{VIDEO}"
TWCC = "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01"
GCC_CAPS = f"{RTP_CAPS},payload=96,extmap-1=(string){TWCC},rtcp-fb-nack=(boolean)true,rtcp-fb-nack-pli=(boolean)true,rtcp-fb-transport-cc=(boolean)true"
# Of those who find the rate themselves.
LEAST_KBPS, MOST_KBPS = 150, 10_000
# Pictures between recovery points: two seconds, or never where they are asked for.
KEY_INT, KEY_INT_ASKED = 60, 1_000_000
AU_CAPS = "video/x-h264,stream-format=byte-stream,alignment=au"
# Its own default; so short that its pictures are shown in time where 100 ms over one way are allowed; and what belacoder's users have.
SRT_LATENCY_MS = {"srt": 120, "srt-short": 60, "srt-adaptive": 2000}

# Where no profile is named, elements that take RTP alone have the encoder keep to the constrained baseline (RFC 6184, section 8.1).
PACKETS = "rtph264pay name=pay pt=96 mtu=1200 aggregate-mode=zero-latency ! application/x-rtp,profile-level-id=(string)64001f"
SENDERS = {
    "rtp": "udpsink host={to} port={port} sync=false",
    "fec": "rtpulpfecenc pt=122 percentage={fec} ! udpsink host={to} port={port} sync=false",
    # Media goes to {port}, the sender's reports to the next, the receiver's come back to the one after.
    "gcc": "rtprtxsend name=again max-size-time=1000"
    " ! rtpgccbwe name=gcc min-bitrate={least} max-bitrate={most} estimated-bitrate={start} ! session.send_rtp_sink"
    " rtpsession name=session rtp-profile=avpf session.send_rtp_src ! udpsink host={to} port={port} sync=false async=false"
    " session.send_rtcp_src ! udpsink host={to} port={reports} sync=false async=false"
    " udpsrc port={feedback} caps=application/x-rtcp ! session.recv_rtcp_sink",
    "srt": "srtsink name=srt uri=srt://{to}:{port}?mode=caller latency={latency} sync=false",
    "tcp": "rtpstreampay ! fdsink name=tcp sync=false",
}
SENDERS |= {name: SENDERS["srt"] for name in SRT_LATENCY_MS}
RECEIVERS = {
    "rtp": "udpsrc port={port} buffer-size=2000000 caps={caps} ! rtpjitterbuffer latency={jitter} ! rtph264depay",
    "fec": "udpsrc port={port} buffer-size=2000000 caps={caps} ! rtpstorage name=storage size-time=220000000"
    " ! rtpssrcdemux ! {caps} ! rtpjitterbuffer name=jitter do-lost=true latency={jitter} ! rtpulpfecdec name=fec pt=122"
    " ! rtph264depay",
    "gcc": "rtpsession name=session rtp-profile=avpf udpsrc port={port} buffer-size=2000000 caps={caps} ! session.recv_rtp_sink"
    " udpsrc port={reports} caps=application/x-rtcp ! session.recv_rtcp_sink"
    " session.send_rtcp_src ! udpsink host={to} port={feedback} sync=false async=false"
    " session.recv_rtp_src ! rtprtxreceive name=again ! rtpssrcdemux ! rtpjitterbuffer do-lost=true do-retransmission=true"
    " latency={jitter} ! rtpptdemux ! rtph264depay request-keyframe=true",
    "srt": "srtsrc uri=srt://:{port}?mode=listener latency={latency} ! {caps} ! rtph264depay",
    "tcp": "tcpserversrc host=0.0.0.0 port={port} ! {stream} ! rtpstreamdepay ! rtph264depay",
}
RECEIVERS |= {name: RECEIVERS["srt"] for name in SRT_LATENCY_MS}


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def slices_hash(unit):
    """Of the coded slices, whatever else a container puts beside them."""
    digest, at = hashlib.sha256(), unit.find(b"\0\0\1")
    while at >= 0:
        begin = at + 3
        at = unit.find(b"\0\0\1", begin)
        nal = (unit[begin:at] if at >= 0 else unit[begin:]).rstrip(b"\0")
        if nal and nal[0] & 0x1F in (1, 5):
            digest.update(nal)
    return digest.hexdigest()[:24]


class Belacoder:
    """After belacoder's published control law, from memory: the rate falls fast when the send buffer or the round trip grow, and rises slowly."""

    STEP_S = 0.02
    LEAST_KBPS = 300

    def __init__(self, kbps):
        self.kbps, self.rtt, self.rtt_min, self.rtt_jitter = kbps, 0.0, 1e9, 0.0
        self.buffer, self.jitter = 0.0, 0.0
        self.next_up = self.next_down = 0.0

    def update(self, now, rtt, buffered):
        self.buffer = 0.99 * self.buffer + 0.01 * buffered
        self.jitter = max(0.99 * self.jitter, buffered - self.buffer)
        self.rtt = rtt if self.rtt == 0 else 0.99 * self.rtt + 0.01 * rtt
        self.rtt_min = min(self.rtt_min * 1.001, rtt)
        self.rtt_jitter = max(0.99 * self.rtt_jitter, rtt - self.rtt)
        if buffered > (self.buffer + self.jitter) * 4 or rtt > SRT_LATENCY_MS["srt-adaptive"] / 3:
            self.kbps = self.LEAST_KBPS
            self.next_down = now + 0.2
        elif now > self.next_down and (buffered > self.buffer + 3 * self.jitter + 2 or rtt > self.rtt + 4 * self.rtt_jitter + 15):
            self.kbps -= 100 + self.kbps // 10
            self.next_down = now + 0.25
        elif now > self.next_up and rtt < self.rtt_min + max(1.0, self.rtt_jitter * 2) + 10 and buffered < self.buffer + 2:
            self.kbps += 30 + self.kbps // 30
            self.next_up = now + 0.5
        self.kbps = max(self.LEAST_KBPS, min(MOST_KBPS, self.kbps))
        return self.kbps


def follow_srt(pipeline, encoder, kbps):
    control, srt = Belacoder(kbps), pipeline.get_by_name("srt")
    while True:
        time.sleep(Belacoder.STEP_S)
        stats = srt.get_property("stats")
        ok, rtt = stats.get_double("rtt-ms")
        if ok:
            # What waits in the send buffer GStreamer does not tell.
            encoder.set_property("bitrate", int(control.update(time.monotonic(), rtt, 0)))


def again():
    """Which payload type brings what was lost."""
    return Gst.Structure.new_from_string("application/x-rtp-pt-map,96=(uint)97")


def follow_gcc(pipeline, encoder):
    """The whole of the estimate, as webrtcsink gives it to its encoder."""
    extension = GstRtp.RTPHeaderExtension.create_from_uri(TWCC)
    extension.set_id(1)
    pipeline.get_by_name("pay").emit("add-extension", extension)
    pipeline.get_by_name("again").set_property("payload-type-map", again())
    pipeline.get_by_name("gcc").connect(
        "notify::estimated-bitrate",
        lambda gcc, _: encoder.set_property("bitrate", gcc.get_property("estimated-bitrate") // 1000),
    )


def follow_file(path, encoder, hold):
    """What `--encoder 'exec:cat > FIFO'` writes: a line of JSON for each rate, each recovery point, and when to leave pictures out."""
    with open(path, encoding="ascii") as lines:
        for wanted in map(json.loads, lines):
            if "bitrate_bps" in wanted:
                encoder.set_property("bitrate", min(MOST_KBPS, max(20, wanted["bitrate_bps"] // 1000)))
            if "hold" in wanted:
                (hold.set if wanted["hold"] else hold.clear)()
            if "recovery_point" in wanted:
                encoder.send_event(GstVideo.video_event_new_upstream_force_key_unit(Gst.CLOCK_TIME_NONE, True, 0))


def send(args):
    text = SENDERS[args.transport].format(
        to=args.to,
        port=args.port,
        reports=args.port + 1,
        feedback=args.port + 2,
        fec=FEC_PERCENT,
        latency=SRT_LATENCY_MS.get(args.transport),
        least=LEAST_KBPS * 1000,
        most=MOST_KBPS * 1000,
        start=args.kbps * 1000,
    )
    caps = f"video/x-raw,format=I420,width={SIZE[0]},height={SIZE[1]},framerate={RATE}/1"
    key_int = KEY_INT_ASKED if args.control or args.transport == "gcc" else KEY_INT
    pipeline = Gst.parse_launch(
        f"appsrc name=in format=time is-live=true caps={caps} ! x264enc name=encoder tune=zerolatency speed-preset=superfast"
        f" vbv-buf-capacity={VBV_MS} key-int-max={key_int} threads=1 sliced-threads=false byte-stream=true bitrate={args.kbps}"
        f" ! {AU_CAPS} ! identity name=tap ! {PACKETS} ! {text}"
    )
    encoder, source, tap = (pipeline.get_by_name(name) for name in ("encoder", "in", "tap"))
    size, hold = SIZE[0] * SIZE[1] * 3 // 2, threading.Event()
    taken, first, log, stream = [], [], open(args.log + ".csv", "w", encoding="ascii"), open(args.log + ".h264", "wb")
    encoded = open(args.log + ".encoded", "w", encoding="ascii")

    def on_unit(_, info):
        at, buffer = now_ns(), info.get_buffer()
        # The encoder shifts all times alike, and leaves no picture out.
        first.append(buffer.pts)
        unit, number = buffer.extract_dup(0, buffer.get_size()), round((buffer.pts - first[0]) * RATE / Gst.SECOND)
        recovery = int(not buffer.has_flags(Gst.BufferFlags.DELTA_UNIT))
        log.write(f"{number},{taken[number]},{len(unit)},{recovery},{slices_hash(unit)}\n")
        encoded.write(f"{number},{at}\n")
        stream.write(unit)
        return Gst.PadProbeReturn.OK

    tap.get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, on_unit)
    if args.transport == "gcc":
        follow_gcc(pipeline, encoder)
    if args.transport == "tcp":
        # tcpclientsink has no way to turn Nagle's algorithm off.
        stream_to = socket.create_connection((args.to, args.port))
        stream_to.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pipeline.get_by_name("tcp").set_property("fd", stream_to.fileno())
    pipeline.set_state(Gst.State.PLAYING)
    if args.transport == "srt-adaptive":
        threading.Thread(target=follow_srt, args=(pipeline, encoder, args.kbps), daemon=True).start()
    if args.control:
        threading.Thread(target=follow_file, args=(args.control, encoder, hold), daemon=True).start()
    start = int(os.environ.get("AQUILA_START_NS", now_ns())) + int(args.delay * 1e9)
    with open(args.frames, "rb") as frames:
        for number in range(args.count):
            due = start + number * 1_000_000_000 // RATE
            time.sleep(max(0, due - now_ns()) / 1e9)
            picture = frames.read(size)
            if len(picture) < size:
                break
            taken.append(due)
            # Its number counts from the first that was encoded.
            if hold.is_set() and first:
                log.write(f"{number},{due},0,0,-\n")
                continue
            buffer = Gst.Buffer.new_wrapped(picture)
            buffer.pts = buffer.dts = number * Gst.SECOND // RATE
            buffer.duration = Gst.SECOND // RATE
            # A sender that blocks, as TCP does, holds the camera up; its queue is the encoder's input.
            source.push_buffer(buffer)
    time.sleep(args.linger)
    pipeline.set_state(Gst.State.NULL)
    log.close()
    encoded.close()
    stream.close()


def receive(args):
    text = RECEIVERS[args.transport].format(
        to=args.to,
        port=args.port,
        reports=args.port + 1,
        feedback=args.port + 2,
        caps=GCC_CAPS if args.transport == "gcc" else f"{RTP_CAPS},payload=96",
        stream=f"{RTP_STREAM_CAPS},payload=96",
        jitter=JITTER_MS,
        latency=SRT_LATENCY_MS.get(args.transport),
    )
    pipeline = Gst.parse_launch(f"{text} ! {AU_CAPS} ! appsink name=out sync=false max-buffers=0")
    storage, fec = pipeline.get_by_name("storage"), pipeline.get_by_name("fec")
    if fec:
        fec.set_property("storage", storage.get_property("internal-storage"))
        # Where it knows no clock for packets of parity the buffer drops them, and waits for each as for a lost one.
        pipeline.get_by_name("jitter").connect("request-pt-map", lambda _, pt: Gst.Caps.from_string(f"{RTP_CAPS},payload={pt}"))
    if args.transport == "gcc":
        pipeline.get_by_name("again").set_property("payload-type-map", again())
        # What may be asked for is in the caps: without them no request for a packet or a recovery point would leave.
        pipeline.get_by_name("session").connect("request-pt-map", lambda *_: Gst.Caps.from_string(GCC_CAPS))
    pipeline.set_state(Gst.State.PLAYING)
    sink = pipeline.get_by_name("out")
    with open(args.log + ".csv", "w", encoding="ascii", buffering=1) as log:
        while True:
            sample = sink.try_pull_sample(Gst.SECOND)
            if sample is not None:
                at, buffer = now_ns(), sample.get_buffer()
                log.write(f"{slices_hash(buffer.extract_dup(0, buffer.get_size()))},{at}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("role", choices=("send", "receive"))
    parser.add_argument("transport", choices=sorted(SENDERS))
    parser.add_argument("--frames")
    parser.add_argument("--count", type=int, default=750)
    parser.add_argument("--kbps", type=int, default=2000)
    parser.add_argument("--to", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=5600)
    parser.add_argument("--log", required=True)
    parser.add_argument("--control", help="a FIFO from which to take the rate, line by line")
    parser.add_argument("--delay", type=float, default=3.0, help="seconds from the start to the first picture")
    parser.add_argument("--linger", type=float, default=3.0, help="seconds after the last one")
    args = parser.parse_args()
    Gst.init(None)
    send(args) if args.role == "send" else receive(args)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(0)
