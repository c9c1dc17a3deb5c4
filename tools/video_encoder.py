#!/usr/bin/python3
"""Encodes raw pictures one by one, for `aquila lab video`: libx264 or libx265 through GStreamer, in a process of its own.

    video_encoder.py x264|x264-long-buffer|x264-refresh|x265|x265-ultrafast WIDTH HEIGHT FRAMES_PER_SECOND

On standard input, for each picture: the target in kbit/s (32 bits, big-endian), 1 if it has to be a recovery point (8 bits), and the
picture in I420 without padding. On standard output, first the line `ready`, then for each picture: 1 if it is a recovery point (8 bits), the
length (32 bits, big-endian; 0 if the encoder left it out), and the access unit with start codes. Strictly one after the other. What goes wrong is
said in a line on standard error.

The settings are those of a camera that is flown by: no look-ahead, no B frames, a buffer of 200 ms, recovery points on request only, and one
thread, so that the same pictures and targets give the same bytes. libx264 takes another target from the next picture on; libx265 is opened
again for that, with a new recovery point, as GStreamer's element does. x264-refresh is libx264 with its intra refresh: asked for a recovery point, it
refreshes its picture column by column, which is not said in the answer, but in the access unit (tools/refresh_bench). x264-long-buffer has a buffer
of a second, and x265-ultrafast another preset.
"""

import struct
import sys

try:
    import gi

    gi.require_version("Gst", "1.0")
    gi.require_version("GstApp", "1.0")
    gi.require_version("GstVideo", "1.0")
    from gi.repository import Gst, GstApp, GstVideo  # noqa: F401: importing GstApp gives elements their methods
except (ImportError, ValueError) as error:
    sys.exit(f"no GStreamer for Python: {error}")

VBV_MS = 200
# Pictures until a recovery point comes that nobody has asked for: hours.
NEVER = 1_000_000
# One access unit for each picture must come within this, or the encoder hangs.
PATIENCE_S = 20

ENCODERS = {
    "x264": f"x264enc name=encoder tune=zerolatency speed-preset=superfast vbv-buf-capacity={VBV_MS} key-int-max={NEVER}"
    " threads=1 sliced-threads=false sync-lookahead=0 rc-lookahead=0 bframes=0 byte-stream=true bitrate={kbps}"
    " ! video/x-h264,stream-format=byte-stream,alignment=au",
    "x265": f"x265enc name=encoder tune=zerolatency speed-preset=superfast key-int-max={NEVER} bitrate={{kbps}}"
    " option-string=\"repeat-headers=1:pools=none:frame-threads=1:wpp=0:bframes=0:rc-lookahead=0:log-level=none"
    ":vbv-maxrate={kbps}:vbv-bufsize={vbv_kbit}\""
    " ! video/x-h265,stream-format=byte-stream,alignment=au",
}
ENCODERS["x264-refresh"] = ENCODERS["x264"].replace("x264enc", "x264enc intra-refresh=true")
ENCODERS["x264-long-buffer"] = ENCODERS["x264"].replace(f"vbv-buf-capacity={VBV_MS}", "vbv-buf-capacity=1000")
ENCODERS["x265-ultrafast"] = ENCODERS["x265"].replace("superfast", "ultrafast")


def read_exactly(size):
    data = sys.stdin.buffer.read(size)
    return data if data is not None and len(data) == size else None


class Encoder:
    def __init__(self, codec, width, height, rate, kbps):
        self.codec, self.rate, self.number = codec, rate, 0
        self.caps = f"video/x-raw,format=I420,width={width},height={height},framerate={rate}/1"
        self.pipeline = None
        self.open(kbps)

    def open(self, kbps):
        self.kbps = kbps
        if self.pipeline:
            self.pipeline.set_state(Gst.State.NULL)
        text = ENCODERS[self.codec].format(kbps=kbps, vbv_kbit=kbps * VBV_MS // 1000)
        self.pipeline = Gst.parse_launch(
            f"appsrc name=in format=time is-live=false caps={self.caps} ! {text} ! appsink name=out sync=false max-buffers=0"
        )
        self.encoder = self.pipeline.get_by_name("encoder")
        self.source = self.pipeline.get_by_name("in")
        self.sink = self.pipeline.get_by_name("out")
        if self.pipeline.set_state(Gst.State.PLAYING) == Gst.StateChangeReturn.FAILURE:
            raise RuntimeError("the pipeline cannot be started")

    def set_rate(self, kbps):
        if kbps == self.kbps:
            return
        if self.codec.startswith("x265"):
            # Told another rate, the element opens libx265 again, but its buffer's size stays what it was at first.
            return self.open(kbps)
        self.kbps = kbps
        self.encoder.set_property("bitrate", kbps)

    def force(self):
        event = GstVideo.video_event_new_upstream_force_key_unit(Gst.CLOCK_TIME_NONE, True, self.number)
        self.encoder.send_event(event)

    def encode(self, picture):
        buffer = Gst.Buffer.new_wrapped(picture)
        buffer.pts = buffer.dts = self.number * Gst.SECOND // self.rate
        buffer.duration = Gst.SECOND // self.rate
        self.number += 1
        if self.source.push_buffer(buffer) != Gst.FlowReturn.OK:
            raise RuntimeError(self.complaint())
        sample = self.sink.try_pull_sample(PATIENCE_S * Gst.SECOND)
        if sample is None:
            raise RuntimeError(self.complaint())
        unit = sample.get_buffer()
        recovery = not unit.has_flags(Gst.BufferFlags.DELTA_UNIT)
        return recovery, unit.extract_dup(0, unit.get_size())

    def complaint(self):
        message = self.pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
        return message.parse_error()[0].message if message else "the encoder gives nothing"


def main():
    codec, width, height, rate = sys.argv[1], *map(int, sys.argv[2:5])
    Gst.init(None)
    for element in (codec.split("-")[0] + "enc", "appsrc"):
        if Gst.ElementFactory.find(element) is None:
            sys.exit(f"no {element}")
    out = sys.stdout.buffer
    out.write(b"ready\n")
    out.flush()
    encoder = None
    while (head := read_exactly(5)) is not None:
        kbps, force = struct.unpack(">IB", head)
        picture = read_exactly(width * height * 3 // 2)
        if picture is None:
            sys.exit("half a picture")
        if encoder is None:
            encoder = Encoder(codec, width, height, rate, kbps)
        encoder.set_rate(kbps)
        if force:
            encoder.force()
        recovery, unit = encoder.encode(picture)
        out.write(struct.pack(">BI", recovery, len(unit)))
        out.write(unit)
        out.flush()


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, BrokenPipeError) as error:
        sys.exit(f"{error}")
