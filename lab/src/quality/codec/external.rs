//! libx264 and libx265, in a process of their own: they are under the GPL, and this program is not.
//!
//! Debian's GStreamer drives them, because unlike the program `ffmpeg` it can change the rate and ask for a recovery point between two pictures.
//! The script that does so (`tools/video_encoder.py`, which describes the dialogue) is part of this program.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use aquila_net::encoder::Rekeying;
use aquila_proto::Bitrate;

use super::{CodecError, Engine, OneSize};
use crate::camera::{EncodedFrame, Yuv};
use crate::quality::programs::{self, Missing};

/// What the process runs.
const SCRIPT: &str = include_str!("../../../../tools/video_encoder.py");
/// Debian's own Python first: its bindings to GStreamer are not seen by others.
const PYTHONS: [&str; 2] = ["/usr/bin/python3", "python3"];
/// How to get what is needed.
const INSTALL: &str =
    "apt-get install python3-gi gir1.2-gst-plugins-base-1.0 gstreamer1.0-plugins-ugly gstreamer1.0-plugins-bad";
/// The least that is asked for, in kbit/s; below, rate control has nothing to work with.
const MIN_KBPS: u64 = 20;

/// An encoder in a process of its own, which ends with this.
pub(super) struct External {
    name: &'static str,
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Of libx265, which GStreamer opens anew for each target.
    rekeying: Option<Rekeying>,
}

/// Whether the bindings and the elements are there.
pub(super) fn is_available(engine: Engine) -> Result<(), Missing> {
    python(engine).map(drop)
}

fn python(engine: Engine) -> Result<&'static str, Missing> {
    let element = if engine.is_h265() { "x265enc" } else { "x264enc" };
    let probe = format!(
        "import gi\nfor name in 'Gst', 'GstApp', 'GstVideo': gi.require_version(name, '1.0')\n\
         from gi.repository import Gst\nGst.init(None)\n\
         assert all(Gst.ElementFactory.find(name) for name in ('{element}', 'appsrc'))"
    );
    let works = |python: &&str| programs::succeeds(Command::new(python).args(["-c", &probe]));
    PYTHONS.into_iter().find(works).ok_or_else(|| Missing::new(engine.name(), INSTALL))
}

impl External {
    pub(super) fn new(
        engine: Engine,
        (width, height): (usize, usize),
        target: Bitrate,
        frames_per_second: u32,
    ) -> Result<Self, CodecError> {
        let name = engine.name();
        let pipe = |error| CodecError::Pipe { name, error };
        let numbers = [width, height, frames_per_second as usize].map(|number| number.to_string());
        let mut process = Command::new(python(engine)?)
            .args(["-c", SCRIPT, name])
            .args(numbers)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(pipe)?;
        let input = process.stdin.take();
        let output = BufReader::with_capacity(1 << 16, process.stdout.take().expect("it is piped"));
        let rekeying = engine.is_h265().then(|| Rekeying::new(Bitrate::kbps(kbps(target))));
        let mut external = Self { name, process, input, output, rekeying };
        let mut line = String::new();
        let read = external.output.read_line(&mut line);
        match read {
            Ok(_) if line == "ready\n" => Ok(external),
            Ok(_) => Err(external.complaint(io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(external.complaint(error)),
        }
    }

    /// One picture in, one access unit out.
    fn talk(&mut self, picture: &Yuv, kbps: u64, recovery: bool) -> io::Result<Option<EncodedFrame>> {
        let input = self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut head = [0; 5];
        head[..4].copy_from_slice(&u32::try_from(kbps).unwrap_or(u32::MAX).to_be_bytes());
        head[4] = recovery.into();
        for part in [&head, picture.y(), picture.u(), picture.v()] {
            input.write_all(part)?;
        }
        input.flush()?;
        let mut head = [0; 5];
        self.output.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut annex_b = vec![0; length as usize];
        self.output.read_exact(&mut annex_b)?;
        Ok((length > 0).then_some(EncodedFrame { annex_b, is_idr: head[0] != 0 }))
    }

    /// What the process said last, if it has ended, or what went wrong with talking to it.
    fn complaint(&mut self, error: io::Error) -> CodecError {
        self.input = None;
        let mut said = String::new();
        if let Some(mut from) = self.process.stderr.take() {
            // It ends by itself when its input does.
            let _ = from.read_to_string(&mut said);
        }
        match said.lines().last() {
            Some(line) => CodecError::Child { name: self.name, message: line.to_owned() },
            None => CodecError::Pipe { name: self.name, error },
        }
    }
}

impl OneSize for External {
    fn encode(&mut self, picture: &Yuv, target: Bitrate, recovery: bool) -> Result<Option<EncodedFrame>, CodecError> {
        let target = kbps(target);
        let target = self.rekeying.as_mut().map_or(target, |rekeying| {
            let told = rekeying.told(Bitrate::kbps(target), recovery);
            (told.0 + 500) / 1_000
        });
        self.talk(picture, target, recovery).map_err(|error| self.complaint(error))
    }
}

impl Drop for External {
    fn drop(&mut self) {
        self.input = None;
        // It may hang in the encoder; whatever it still does, nobody wants it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn kbps(target: Bitrate) -> u64 {
    (target.0 / 1_000).clamp(MIN_KBPS, 100_000)
}
