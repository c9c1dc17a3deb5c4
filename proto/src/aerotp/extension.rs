//! Extension words: what must be readable before a segment can be opened, in clear and authenticated.
//!
//! Each extension is a word of type 8, length in further words 8 and 16 bits of its own, then those words. Unknown types
//! are skipped.

/// Bytes of either Noise message: ephemeral key 32, encrypted counter 8, tag 16.
pub(super) const HELLO_LEN: usize = 56;

/// Bytes of an extension with a hello; 15 words, as many as a header can announce.
pub(super) const HELLO_EXTENSION: usize = 4 + HELLO_LEN;

/// Which Noise message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HelloKind {
    /// Of the initiator.
    First = 1,
    /// Of the responder.
    Second = 2,
}

/// A Noise message in an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hello<'a> {
    pub kind: HelloKind,
    /// First two bytes of a MAC, by which most forgeries are seen without arithmetic on the curve.
    pub filter: [u8; 2],
    pub message: &'a [u8; HELLO_LEN],
}

/// The extension words do not add up, or a hello has another length.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl<'a> Hello<'a> {
    /// The extension.
    pub(super) fn encode(&self) -> [u8; HELLO_EXTENSION] {
        let mut out = [0; HELLO_EXTENSION];
        out[0] = self.kind as u8;
        out[1] = (HELLO_LEN / 4) as u8;
        out[2..4].copy_from_slice(&self.filter);
        out[4..].copy_from_slice(self.message);
        out
    }

    /// The first hello among extension words, if there is one.
    pub(super) fn find(mut words: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let mut found = None;
        while !words.is_empty() {
            let (&[kind, length, a, b], rest) = words.split_first_chunk().ok_or(Malformed)?;
            let (body, rest) = rest.split_at_checked(usize::from(length) * 4).ok_or(Malformed)?;
            words = rest;
            let kind = match kind {
                1 => HelloKind::First,
                2 => HelloKind::Second,
                _ => continue,
            };
            let message = body.try_into().map_err(|_| Malformed)?;
            found = found.or(Some(Hello { kind, filter: [a, b], message }));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_truncation_and_unknown_types() {
        let message = std::array::from_fn(|i| i as u8);
        let hello = Hello { kind: HelloKind::Second, filter: [7, 9], message: &message };
        let bytes = hello.encode();
        assert_eq!(Hello::find(&bytes), Ok(Some(hello)));
        assert_eq!(Hello::find(&[]), Ok(None));
        for len in 1..bytes.len() {
            assert_eq!(Hello::find(&bytes[..len]), Err(Malformed), "{len} bytes");
        }
        let unknown = [9, 1, 0, 0, 1, 2, 3, 4];
        assert_eq!(Hello::find(&unknown), Ok(None));
        assert_eq!(Hello::find(&[unknown.as_slice(), &bytes].concat()), Ok(Some(hello)));
        assert_eq!(Hello::find(&[1, 0, 0, 0]), Err(Malformed), "a hello without message");
        assert_eq!(Hello::find(&[9, 1, 0, 0]), Err(Malformed), "longer than there is");
    }
}
