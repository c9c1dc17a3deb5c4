//! Decoding H.265, by the program `ffmpeg`.

use std::io::{BufReader, Write};
use std::process::{Command, Stdio};

use super::{CodecError, Unit};
use crate::camera::Yuv;
use crate::quality::content::read_picture;
use crate::quality::programs;

const NAME: &str = "ffmpeg";

/// Decodes access units of one size.
pub(super) fn decode<E: From<CodecError>>(
    units: &[(u32, &Unit)],
    use_picture: &mut impl FnMut(u32, Yuv) -> Result<(), E>,
) -> Result<(), E> {
    let Some((_, Unit { size, .. })) = units.first() else { return Ok(()) };
    let pipe = |error| CodecError::Pipe { name: NAME, error };
    let mut child = Command::new(programs::ffmpeg().map_err(CodecError::from)?)
        .args(["-v", "error", "-nostdin", "-threads", "1", "-f", "hevc", "-i", "pipe:0"])
        .args(["-fps_mode", "passthrough", "-pix_fmt", "yuv420p", "-f", "rawvideo", "pipe:1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(pipe)?;
    let mut input = child.stdin.take().expect("it is piped");
    let mut output = BufReader::with_capacity(1 << 20, child.stdout.take().expect("it is piped"));
    let result = std::thread::scope(|scope| {
        // If it does not take all, it gives fewer pictures, which is noticed.
        scope.spawn(move || units.iter().try_for_each(|(_, unit)| input.write_all(&unit.annex_b)));
        let mut picture = Yuv::new(size.0, size.1);
        let mut got = 0;
        let done = loop {
            match read_picture(&mut output, &mut picture) {
                Ok(true) if got < units.len() => {
                    if let Err(error) = use_picture(units[got].0, picture.clone()) {
                        break Err(error);
                    }
                    got += 1;
                }
                Ok(true) => got += 1,
                Ok(false) if got == units.len() => break Ok(()),
                Ok(false) => break Err(CodecError::Count { given: units.len(), got }.into()),
                Err(error) => break Err(pipe(error).into()),
            }
        };
        // Lets a writer that still waits go.
        let _ = child.kill();
        done
    });
    let _ = child.wait();
    result
}
