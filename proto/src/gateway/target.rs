//! Whom a flow goes to: an address, or a name that the side looks up which connects to it.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// An address.
    Address(SocketAddr),
    /// A name and a port.
    Name(Name, u16),
}

/// The name of a host: letters, digits, `-`, `_` and `.`, of which the first is none of the three.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    length: u8,
    bytes: [u8; Self::LONGEST],
}

/// It is no name of a host, or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an address or name of a host of at most {} characters, with a port", Name::LONGEST)]
pub struct MalformedTarget;

impl Name {
    /// Longest name, in bytes: enough for those that are typed, and short in a frame.
    pub const LONGEST: usize = 63;

    /// The name of these bytes.
    pub fn new(name: &[u8]) -> Option<Self> {
        let good = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        let first = name.first().is_some_and(u8::is_ascii_alphanumeric);
        // What is all digits and dots is an address with a mistake in it.
        let is_number = name.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
        let mut bytes = [0; Self::LONGEST];
        let room = bytes.get_mut(..name.len()).filter(|_| first && !is_number && name.iter().all(good))?;
        room.copy_from_slice(name);
        Some(Self { length: name.len() as u8, bytes })
    }

    /// In letters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl Target {
    /// Its port.
    pub fn port(&self) -> u16 {
        match self {
            Self::Address(address) => address.port(),
            Self::Name(_, port) => *port,
        }
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        Self::Address(address)
    }
}

impl FromStr for Target {
    type Err = MalformedTarget;

    fn from_str(text: &str) -> Result<Self, MalformedTarget> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let (name, port) = text.rsplit_once(':').ok_or(MalformedTarget)?;
        let name = Name::new(name.as_bytes()).ok_or(MalformedTarget)?;
        Ok(Self::Name(name, port.parse().map_err(|_| MalformedTarget)?))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Name(name, port) => write!(f, "{}:{port}", name.as_str()),
        }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_come_back_and_nothing_else() {
        let longest = format!("{}:1", "a".repeat(Name::LONGEST));
        for text in ["10.0.0.1:22", "[::1]:22", "localhost:22", "camera-2.local:8080", "x_y.:1", &longest] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        let longer = format!("a{longest}");
        for text in
            ["", ":22", "localhost", "localhost:x", "a b:1", "-a:1", ".a:1", "10.0.0:1", "::1:22", "a/b:1", &longer]
        {
            assert_eq!(text.parse::<Target>(), Err(MalformedTarget), "{text}");
        }
    }
}
