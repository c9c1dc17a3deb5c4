//! Why a file was refused, and where.

use std::fmt;

/// Where in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A line, from 1.
    Line(u64),
    /// A byte, from 0: of binary files.
    Byte(u64),
}

/// A file that was refused. Its name is known to who has opened it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}{reason}")]
pub struct ParseError {
    /// Where.
    pub place: Place,
    /// Why.
    pub reason: String,
}

impl ParseError {
    /// Of a line, from 1.
    pub fn line(number: usize, reason: impl Into<String>) -> Self {
        Self { place: Place::Line(number as u64), reason: reason.into() }
    }

    /// Of a byte, from 0.
    pub fn byte(offset: usize, reason: impl Into<String>) -> Self {
        Self { place: Place::Byte(offset as u64), reason: reason.into() }
    }

    /// Of the file as a whole.
    pub fn file(reason: impl Into<String>) -> Self {
        Self { place: Place::File, reason: reason.into() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => Ok(()),
            Self::Line(number) => write!(f, "line {number}: "),
            Self::Byte(offset) => write!(f, "byte {offset} (0x{offset:x}): "),
        }
    }
}

/// Text of a file as it may stand in a message: 40 characters at most, no control characters.
pub(crate) fn quote(text: &str) -> String {
    let mut short: String = text.chars().filter(|c| !c.is_control()).take(40).collect();
    if text.chars().nth(40).is_some() {
        short.push('…');
    }
    format!("'{short}'")
}

/// Text of bytes.
///
/// # Errors
/// The line of the first byte that is not UTF-8.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, ParseError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        ParseError::line(before + 1, "is not text (UTF-8)")
    })
}

/// A finite number.
pub(crate) fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_said() {
        assert_eq!(ParseError::line(3, "no").to_string(), "line 3: no");
        assert_eq!(ParseError::byte(255, "no").to_string(), "byte 255 (0xff): no");
        assert_eq!(ParseError::file("no").to_string(), "no");
        assert_eq!(text(b"a\nb\xff").unwrap_err().place, Place::Line(2));
        assert_eq!(quote(&"x".repeat(60)).chars().count(), 43);
        assert_eq!(number(" 1e3 "), Some(1e3));
        assert_eq!(number("nan"), None);
    }
}
