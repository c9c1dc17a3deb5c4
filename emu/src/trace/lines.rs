//! Lines of bounded length, from any reader.

use std::io::BufRead;

use super::{TraceError, TraceFault};

/// Longest line, in bytes, without its end. A row of numbers is far shorter.
pub(crate) const MAX_LINE: usize = 4096;

/// Reads lines; never more than one of them in memory.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, line: Vec::new(), number: 0 }
    }

    /// Reads the next line, without `\n` or `\r\n`. False at the end.
    pub(crate) fn advance(&mut self) -> Result<bool, TraceError> {
        self.line.clear();
        let number = self.number + 1;
        let error = |fault| TraceError::at(number, fault);
        loop {
            let available = match self.reader.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(failure) => return Err(error(TraceFault::Io(failure.to_string()))),
            };
            if available.is_empty() {
                if self.line.is_empty() {
                    return Ok(false);
                }
                break;
            }
            let end = available.iter().take(MAX_LINE + 2).position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(available.len().min(MAX_LINE + 2));
            if self.line.len() + taken > MAX_LINE + 1 {
                return Err(error(TraceFault::LineTooLong));
            }
            self.line.extend_from_slice(&available[..taken]);
            self.reader.consume(taken + usize::from(end.is_some()));
            if end.is_some() {
                break;
            }
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        if self.line.len() > MAX_LINE {
            return Err(error(TraceFault::LineTooLong));
        }
        self.number = number;
        Ok(true)
    }

    /// The line read last.
    pub(crate) fn line(&self) -> &[u8] {
        &self.line
    }

    /// Its number, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn error(&self, fault: TraceFault) -> TraceError {
        TraceError::at(self.number, fault)
    }

    pub(crate) fn reader_mut(&mut self) -> &mut R {
        &mut self.reader
    }

    /// The reader has been put back to its beginning.
    pub(crate) fn restart(&mut self) {
        self.number = 0;
    }
}

/// A piece of a line for an error, short and printable.
pub(crate) fn quote(bytes: &[u8]) -> String {
    const LONGEST: usize = 24;
    let text = String::from_utf8_lossy(bytes);
    let mut short: String = text.chars().take(LONGEST).map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<Vec<u8>>, TraceError> {
        // A buffer of three bytes: lines span several fills.
        let mut lines = Lines::new(std::io::BufReader::with_capacity(3, bytes));
        let mut all = Vec::new();
        while lines.advance()? {
            all.push(lines.line().to_vec());
        }
        Ok(all)
    }

    #[test]
    fn ends_of_lines() {
        assert_eq!(read(b"a\nbcdef\r\n\nx").unwrap(), [&b"a"[..], b"bcdef", b"", b"x"]);
        assert_eq!(read(b"a\n").unwrap(), [b"a"]);
        assert!(read(b"").unwrap().is_empty());
    }

    #[test]
    fn the_longest_line_and_one_byte_more() {
        let mut bytes = vec![b'1'; MAX_LINE];
        assert_eq!(read(&bytes).unwrap()[0].len(), MAX_LINE);
        bytes.extend_from_slice(b"\r\n2");
        assert_eq!(read(&bytes).unwrap().len(), 2);
        let error = read(&vec![b'1'; MAX_LINE + 1]).unwrap_err();
        assert_eq!(error, TraceError::at(1, TraceFault::LineTooLong));
    }

    #[test]
    fn a_line_without_end_is_refused_after_a_few_kilobytes() {
        #[derive(Debug)]
        struct Endless(usize);
        impl std::io::Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                self.0 += buffer.len();
                assert!(self.0 < 100_000, "reads on and on");
                buffer.fill(b'7');
                Ok(buffer.len())
            }
        }
        let mut lines = Lines::new(std::io::BufReader::new(Endless(0)));
        assert_eq!(lines.advance(), Err(TraceError::at(1, TraceFault::LineTooLong)));
    }

    #[test]
    fn quotes_are_short_and_printable() {
        assert_eq!(quote(b"-5"), "-5");
        assert_eq!(quote(b"\x1b[2J\x00"), "?[2J?");
        assert_eq!(quote(&[b'9'; 100]).chars().count(), 25);
    }
}
