//! Programs that are not part of ours, and how to get them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Something is not installed; the text says how to get it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is missing: {how}")]
pub struct Missing {
    /// What.
    pub what: String,
    /// The line that installs it.
    pub how: String,
}

impl Missing {
    pub(super) fn new(what: &str, how: &str) -> Self {
        Self { what: what.into(), how: how.into() }
    }
}

/// Debian's ffmpeg, or any that is found by name.
pub(super) fn ffmpeg() -> Result<PathBuf, Missing> {
    let name = Path::new("ffmpeg");
    match succeeds(Command::new(name).arg("-version")) {
        true => Ok(name.into()),
        false => Err(Missing::new("ffmpeg", "apt-get install ffmpeg")),
    }
}

/// Whether a program can be started and ends well.
pub(super) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// What a program prints, if it ends well.
pub(super) fn output_of(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
