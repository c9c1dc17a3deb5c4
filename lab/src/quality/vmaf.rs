//! VMAF, by an ffmpeg that has it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde::Deserialize;
use thiserror::Error;

use super::programs::{Missing, output_of};
use crate::camera::Yuv;

/// An ffmpeg with libvmaf.
#[derive(Debug, Clone)]
pub struct Vmaf {
    ffmpeg: PathBuf,
    /// Every so manieth picture is judged.
    every: u32,
}

/// Why there is no score.
#[derive(Debug, Error)]
pub enum VmafError {
    /// ffmpeg cannot be started or does not take the pictures.
    #[error("ffmpeg with libvmaf: {0}")]
    Pipe(#[from] io::Error),
    /// It gave no scores.
    #[error("libvmaf gave no scores: {0}")]
    NoScores(String),
}

/// A sequence that is being judged.
#[derive(Debug)]
pub(super) struct Judging {
    child: Child,
    input: Option<ChildStdin>,
    log: PathBuf,
}

impl Vmaf {
    /// Looks for one: `given`, then the one in PATH, then the one of the Python package imageio-ffmpeg. Every `every`th picture is judged.
    ///
    /// # Errors
    /// How to get it.
    pub fn find(given: Option<&Path>, every: u32) -> Result<Self, Missing> {
        let has_it = |ffmpeg: &PathBuf| {
            output_of(Command::new(ffmpeg).args(["-v", "error", "-filters"]))
                .is_some_and(|text| text.contains("libvmaf"))
        };
        let packaged = ["python3", "/usr/bin/python3"].map(|python| {
            let ask = "import imageio_ffmpeg; print(imageio_ffmpeg.get_ffmpeg_exe())";
            move || output_of(Command::new(python).args(["-c", ask])).map(PathBuf::from)
        });
        let named = given.unwrap_or(Path::new("ffmpeg")).to_owned();
        let packaged = packaged.iter().filter(|_| given.is_none()).filter_map(|ask| ask());
        match std::iter::once(named).chain(packaged).find(has_it) {
            Some(ffmpeg) => Ok(Self { ffmpeg, every: every.max(1) }),
            None => Err(Missing::new("an ffmpeg with libvmaf", "pip install imageio-ffmpeg")),
        }
    }

    /// Begins with a sequence of pictures of one size.
    pub(super) fn begin(&self, (width, height): (usize, usize), rate: u32) -> io::Result<Judging> {
        static RUNNING: AtomicU32 = AtomicU32::new(0);
        let number = RUNNING.fetch_add(1, Ordering::Relaxed);
        let log = std::env::temp_dir().join(format!("aquila-vmaf-{}-{number}.json", std::process::id()));
        // Both pictures come as one, the seen one below the filmed one, so that they cannot get out of step.
        let filter = format!(
            "split[a][b];[a]crop={width}:{height}:0:0[filmed];[b]crop={width}:{height}:0:{height}[seen];\
             [seen][filmed]libvmaf=n_subsample={}:n_threads=1:log_fmt=json:log_path={}",
            self.every,
            log.display()
        );
        let mut child = Command::new(&self.ffmpeg)
            .args(["-v", "error", "-nostdin", "-f", "rawvideo", "-pix_fmt", "yuv420p"])
            .args(["-s", &format!("{width}x{}", height * 2), "-r", &rate.to_string(), "-i", "pipe:0"])
            .args(["-lavfi", &filter, "-f", "null", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let input = child.stdin.take();
        Ok(Judging { child, input, log })
    }
}

impl Judging {
    /// The next picture as it was filmed, and what is seen in its place.
    pub(super) fn push(&mut self, filmed: &Yuv, seen: &Yuv) -> Result<(), VmafError> {
        let input = self.input.as_mut().ok_or(io::Error::from(io::ErrorKind::BrokenPipe))?;
        for plane in [Yuv::y, Yuv::u, Yuv::v] {
            input.write_all(plane(filmed))?;
            input.write_all(plane(seen))?;
        }
        Ok(())
    }

    /// The mean over the pictures judged.
    pub(super) fn finish(mut self) -> Result<f64, VmafError> {
        drop(self.input.take());
        let status = self.child.wait()?;
        let text =
            std::fs::read_to_string(&self.log).map_err(|error| VmafError::NoScores(format!("{error}, {status}")))?;
        let log: Log = serde_json::from_str(&text).map_err(|error| VmafError::NoScores(error.to_string()))?;
        if log.frames.is_empty() {
            return Err(VmafError::NoScores("no picture was judged".into()));
        }
        let sum: f64 = log.frames.iter().map(|frame| frame.metrics.vmaf).sum();
        Ok(sum / log.frames.len() as f64)
    }
}

impl Drop for Judging {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}

/// What libvmaf writes.
#[derive(Debug, Deserialize)]
struct Log {
    frames: Vec<LogFrame>,
}

#[derive(Debug, Deserialize)]
struct LogFrame {
    metrics: LogMetrics,
}

#[derive(Debug, Deserialize)]
struct LogMetrics {
    vmaf: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::content::Flight;
    use crate::quality::scaled;

    #[test]
    fn the_same_scores_high_and_a_blurred_one_low() {
        let vmaf = match Vmaf::find(None, 1) {
            Ok(vmaf) => vmaf,
            Err(missing) => {
                eprintln!("skipped: {missing}");
                return;
            }
        };
        let size = (320, 180);
        let flight = Flight::new(1, size.0, size.1);
        let score = |seen: &dyn Fn(&Yuv) -> Yuv| {
            let mut judging = vmaf.begin(size, 30).unwrap();
            for number in 0..6 {
                let filmed = flight.render(number);
                judging.push(&filmed, &seen(&filmed)).unwrap();
            }
            judging.finish().unwrap()
        };
        let (same, blurred) = (score(&Yuv::clone), score(&|filmed| scaled(&scaled(filmed, 64, 36), size.0, size.1)));
        assert!(same > 90.0 && blurred < 50.0, "{same} and {blurred}");
    }
}
