//! Configuration: one TOML file for either side, overridden by the command line, checked once.
//!
//! [`File`] is what is written, all of it optional; [`Settings`] is what it means for one side, complete and checked.
//! `packaging/aquila.toml` lists every key with its default.

mod congestion;
mod file;
mod gateway;
mod mule;
mod settings;
mod units;

use std::io;
use std::path::{Path, PathBuf};

pub use congestion::ControllerName;
pub use file::File;
pub use gateway::{Carried, GatewaySettings, GatewaySide};
pub use mule::{Bounds, DeleteWhen, MuleProgram, MuleSettings, store_folder};
pub use settings::{Environment, Invalid, Role, Settings, VideoSettings, bearers, key_file};
pub use units::{BundleName, Mtu, Remote, Text};

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// It is not TOML, has a key that there is not, or a value that a key cannot have.
    #[error("{}:{line}:{column}: {message}\n    {excerpt}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong, and what would be right.
        message: String,
        /// The line, but for a password.
        excerpt: String,
    },
}

/// Reads the configuration file at `path`.
pub fn load(path: &Path) -> Result<File, LoadError> {
    let text = std::fs::read_to_string(path).map_err(|error| LoadError::Read { path: path.to_owned(), error })?;
    parse(path, &text)
}

fn parse(path: &Path, text: &str) -> Result<File, LoadError> {
    toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        let before = &text[..text.floor_char_boundary(start)];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let excerpt = text.lines().nth(line - 1).unwrap_or_default().trim_end();
        let excerpt =
            excerpt.split_once("majestic:").map_or(excerpt.to_owned(), |(before, _)| format!("{before}majestic:..."));
        LoadError::Parse { path: path.to_owned(), line, column, message: error.message().to_owned(), excerpt }
    })
}

#[cfg(test)]
mod tests;
