//! Video files, read through the program `ffmpeg`.

use std::io::{self, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use thiserror::Error;

use crate::camera::Yuv;
use crate::quality::programs::{self, Missing};

/// Why a clip cannot be used.
#[derive(Debug, Error)]
pub enum ClipError {
    /// There is no ffmpeg.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// There is no such file, or it is not to be read.
    #[error("{path}: {message}")]
    Unreadable {
        /// The file.
        path: String,
        /// What ffmpeg says.
        message: String,
    },
    /// It was read, but could not be used further.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Hands the first `count` pictures to `use_picture`, scaled to `size` and taken or repeated to make `rate` a second. There may be fewer, but one
/// at least.
pub(super) fn read(
    path: &Path,
    size: (usize, usize),
    rate: u32,
    count: u32,
    mut use_picture: impl FnMut(&Yuv) -> io::Result<()>,
) -> Result<(), ClipError> {
    let unreadable = |message: String| ClipError::Unreadable { path: path.display().to_string(), message };
    if !path.is_file() {
        return Err(unreadable("no such file; or say \"flight\"".into()));
    }
    let filter = format!("fps={rate},scale={}:{}:flags=bicubic+accurate_rnd+bitexact,format=yuv420p", size.0, size.1);
    let mut child = Command::new(programs::ffmpeg()?)
        .args(["-v", "error", "-nostdin", "-threads", "1", "-i"])
        .arg(path)
        .args(["-an", "-vf", &filter, "-frames:v", &count.to_string(), "-f", "rawvideo", "pipe:1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut from = BufReader::with_capacity(1 << 20, child.stdout.take().expect("it is piped"));
    let mut picture = Yuv::new(size.0, size.1);
    let mut read = 0;
    while read < count && read_picture(&mut from, &mut picture)? {
        use_picture(&picture)?;
        read += 1;
    }
    drop(from);
    let output = child.wait_with_output()?;
    if read == 0 {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(unreadable(said.lines().last().unwrap_or("no picture in it").to_owned()));
    }
    Ok(())
}

/// `false`: there are no more.
pub(in crate::quality) fn read_picture(from: &mut impl Read, picture: &mut Yuv) -> io::Result<bool> {
    let (y, u, v) = picture.planes_mut();
    for plane in [y, u, v] {
        match from.read_exact(plane) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            done => done?,
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clip_is_read_scaled_and_at_its_rate() {
        if let Err(missing) = programs::ffmpeg() {
            eprintln!("skipped: {missing}");
            return;
        }
        let path = std::env::temp_dir().join(format!("aquila-clip-{}.y4m", std::process::id()));
        let mut y4m = b"YUV4MPEG2 W64 H48 F15:1 Ip A1:1 C420jpeg\n".to_vec();
        for luma in [40, 200] {
            y4m.extend(b"FRAME\n");
            y4m.extend(std::iter::repeat_n(luma, 64 * 48));
            y4m.extend(std::iter::repeat_n(128, 64 * 48 / 2));
        }
        std::fs::write(&path, y4m).unwrap();
        let mut middles = Vec::new();
        read(&path, (128, 96), 30, 10, |picture| {
            assert_eq!((picture.width(), picture.height()), (128, 96));
            middles.push(picture.y()[48 * 128 + 64]);
            Ok(())
        })
        .unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(middles.len(), 4, "each picture twice");
        assert!(middles[0].abs_diff(40) <= 2 && middles[2].abs_diff(200) <= 2, "{middles:?}");
    }

    #[test]
    fn what_is_no_clip_is_refused_with_a_reason() {
        let error = read(Path::new("/nowhere.mp4"), (64, 48), 30, 1, |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("/nowhere.mp4"), "{error}");
    }
}
