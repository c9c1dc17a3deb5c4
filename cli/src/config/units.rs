//! Values with units and bounds, written the same way in the file and on the command line.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use aquila_bundle::{Eid, NodeId};
use aquila_proto::quic::MIN_MTU;
use aquila_proto::{Bitrate, ByteCount};
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A value that the file has as a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text<T>(pub T);

/// A time such as `"300ms"`, `"1.5s"` or `"5min"`, from `MIN` to `MAX` milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time<const MIN: u64, const MAX: u64>(Duration);

/// A size such as `"2MiB"` or `"64kB"`, from `MIN` to `MAX` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes<const MIN: u64, const MAX: u64>(ByteCount);

/// A number from `MIN` to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count<const MIN: u64, const MAX: u64>(u64);

/// A number from `MIN` to `MAX` thousandths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio<const MIN: u64, const MAX: u64>(f64);

/// A bit rate such as `"15kbit/s"` or `"1.5Mbit/s"`, from `MIN` to `MAX` bits a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speed<const MIN: u64, const MAX: u64>(Bitrate);

/// A chance, above 0 and below 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chance(f64);

/// Bytes of UDP payload in a packet of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mtu(u16);

/// A name that somebody has among those who send bundles (RFC 9171).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleName<T>(pub T);

/// Of which there are two kinds.
pub trait IsBundleName: FromStr {
    /// What it is not, and what it may be.
    const LIKE: &'static str;
}

impl IsBundleName for NodeId {
    const LIKE: &'static str = "is no name of a node: write for example dtn://ship/ or ipn:5.0";
}

impl IsBundleName for Eid {
    const LIKE: &'static str = "is no name of an endpoint: write for example dtn://shore/files or ipn:5.1";
}

impl<T: IsBundleName> FromStr for BundleName<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| format!("'{text}' {}", T::LIKE))
    }
}

/// The other side as a host and a port, [`DEFAULT_PORT`] if none is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Name, IPv4 or IPv6 address, without brackets.
    pub host: String,
    /// UDP port.
    pub port: u16,
}

/// The link's UDP port unless something else is said.
pub const DEFAULT_PORT: u16 = 9400;

impl<const MIN: u64, const MAX: u64> Time<MIN, MAX> {
    /// The time.
    pub const fn get(self) -> Duration {
        self.0
    }
}

impl<const MIN: u64, const MAX: u64> Bytes<MIN, MAX> {
    /// The size.
    pub const fn get(self) -> ByteCount {
        self.0
    }
}

impl<const MIN: u64, const MAX: u64> Count<MIN, MAX> {
    /// The number.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl<const MIN: u64, const MAX: u64> Ratio<MIN, MAX> {
    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl Chance {
    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl<const MIN: u64, const MAX: u64> Speed<MIN, MAX> {
    /// The rate.
    pub const fn get(self) -> Bitrate {
        self.0
    }
}

impl Mtu {
    /// The smallest that QUIC allows, which passes every network that is fit for it.
    pub const DEFAULT: Self = Self(MIN_MTU);

    /// The number of bytes.
    pub const fn get(self) -> u16 {
        self.0
    }

    fn new(bytes: u64) -> Result<Self, String> {
        match u16::try_from(bytes) {
            Ok(mtu) if (MIN_MTU..=MAX_MTU).contains(&mtu) => Ok(Self(mtu)),
            _ if bytes < u64::from(MIN_MTU) => Err(format!(
                "{bytes} is too small: QUIC needs packets of at least {MIN_MTU} bytes of UDP payload (RFC 9000 section \
                 14), that is an interface MTU of 1228 over IPv4 and 1248 over IPv6. Overlays leave more than that: \
                 WireGuard with its usual MTU of 1420 leaves 1392 and 1372, and with an MTU of 1280, as Tailscale has, \
                 1252 and 1232"
            )),
            _ => Err(format!(
                "{bytes} is too large: Ethernet carries {MAX_MTU} bytes of UDP payload over IPv4 (1452 over IPv6), and \
                 nothing is ever cut into IP fragments. WireGuard with its usual MTU of 1420 leaves 1392 (1372), and with \
                 an MTU of 1280, as Tailscale has, 1252 (1232). {MIN_MTU} always works"
            )),
        }
    }
}

/// What Ethernet carries over IPv4: 1500 less 20 and 8 bytes.
const MAX_MTU: u16 = 1472;

impl<const MIN: u64, const MAX: u64> FromStr for Time<MIN, MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = split_unit(text);
        let seconds = match unit {
            "ms" => 1e-3,
            "s" => 1.0,
            "min" => 60.0,
            _ => return Err(format!("'{text}' is not a time: write for example \"300ms\", \"1.5s\" or \"5min\"")),
        };
        let time = number.parse().ok().and_then(|n: f64| Duration::try_from_secs_f64(n * seconds).ok());
        let time = time.ok_or_else(|| format!("'{text}' is not a time: '{number}' is not a number"))?;
        let (min, max) = (Duration::from_millis(MIN), Duration::from_millis(MAX));
        match (min..=max).contains(&time) {
            true => Ok(Self(time)),
            false => Err(format!("'{text}' is out of bounds: from {min:?} to {max:?}")),
        }
    }
}

impl<const MIN: u64, const MAX: u64> FromStr for Bytes<MIN, MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = split_unit(text);
        let factor = match unit {
            "B" => 1,
            "kB" => 1000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return Err(format!("'{text}' is not a size: write for example \"64kB\" or \"2MiB\"")),
        };
        let bytes = number.parse().ok().and_then(|n: u64| n.checked_mul(factor));
        let bytes = bytes.ok_or_else(|| format!("'{text}' is not a size: '{number}' is not a whole number"))?;
        match (MIN..=MAX).contains(&bytes) {
            true => Ok(Self(ByteCount(bytes))),
            false => Err(format!("'{text}' is out of bounds: from {MIN} to {MAX} bytes")),
        }
    }
}

impl<const MIN: u64, const MAX: u64> FromStr for Speed<MIN, MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = split_unit(text);
        let factor = match unit {
            "bit/s" => 1.0,
            "kbit/s" => 1e3,
            "Mbit/s" => 1e6,
            _ => return Err(format!("'{text}' is not a bit rate: write for example \"15kbit/s\" or \"1.5Mbit/s\"")),
        };
        let bits = number.parse().ok().map(|n: f64| n * factor).filter(|bits| bits.is_finite());
        let bits = bits.ok_or_else(|| format!("'{text}' is not a bit rate: '{number}' is not a number"))?;
        match (MIN as f64..=MAX as f64).contains(&bits) {
            true => Ok(Self(Bitrate(bits as u64))),
            false => Err(format!("'{text}' is out of bounds: from {MIN} to {MAX} bit/s")),
        }
    }
}

impl FromStr for Mtu {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("'{text}' is not a number of bytes")).and_then(Self::new)
    }
}

impl FromStr for Remote {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is not a host: write for example ground.example.org, 203.0.113.7:{DEFAULT_PORT} or \
                 [2001:db8::7]:{DEFAULT_PORT}"
            )
        };
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
                (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or_else(wrong)?) })
            }
            None => match text.split_once(':') {
                // More than one colon: an IPv6 address without port.
                Some((_, rest)) if rest.contains(':') => (text, None),
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let is_ipv6 = host.parse::<std::net::Ipv6Addr>().is_ok();
        let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        if !is_ipv6 && (host.is_empty() || !host.chars().all(named)) {
            return Err(wrong());
        }
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?,
            None => DEFAULT_PORT,
        };
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Splits at the end of the number, spaces between allowed.
fn split_unit(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parse<T>(PhantomData<T>);

        impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Parse<T> {
            type Value = Text<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text in quotes")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<T>, E> {
                text.parse().map(Text).map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Parse(PhantomData))
    }
}

macro_rules! deserialize_from_text {
    ($name:ident) => {
        impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for $name<MIN, MAX> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Text::deserialize(deserializer).map(|Text(value)| value)
            }
        }
    };
}

deserialize_from_text!(Time);
deserialize_from_text!(Bytes);
deserialize_from_text!(Speed);

impl<'de> Deserialize<'de> for Chance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let chance = f64::deserialize(deserializer)?;
        match chance > 0.0 && chance < 1.0 {
            true => Ok(Self(chance)),
            false => Err(D::Error::custom(format!(
                "{chance} is no chance: write a number above 0 and below 1, such as 1e-6"
            ))),
        }
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Ratio<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        let (min, max) = (MIN as f64 / 1e3, MAX as f64 / 1e3);
        match (min..=max).contains(&number) {
            true => Ok(Self(number)),
            false => Err(D::Error::custom(format!("{number} is out of bounds: from {min} to {max}"))),
        }
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Count<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(deserializer)?;
        match (MIN..=MAX).contains(&number) {
            true => Ok(Self(number)),
            false => Err(D::Error::custom(format!("{number} is out of bounds: from {MIN} to {MAX}"))),
        }
    }
}

impl<'de> Deserialize<'de> for Mtu {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(u64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_bounds() {
        type Age = Time<10, 60_000>;
        for (text, ms) in [("10ms", 10), ("300 ms", 300), ("1.5s", 1500), ("1min", 60_000)] {
            assert_eq!(text.parse::<Age>().unwrap().get(), Duration::from_millis(ms), "{text}");
        }
        for (text, hint) in [
            ("300", "\"300ms\""),
            ("9ms", "from 10ms to 60s"),
            ("2min", "from 10ms to 60s"),
            ("-1s", "\"300ms\""),
            ("1.2.3s", "not a number"),
            ("", "\"300ms\""),
            ("1e300s", "\"300ms\""),
        ] {
            let error = text.parse::<Age>().unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
        let huge = format!("{}s", "9".repeat(400));
        assert!(huge.parse::<Age>().is_err());
    }

    #[test]
    fn sizes_have_units_and_bounds() {
        type Size = Bytes<1000, 4_194_304>;
        for (text, bytes) in [("1kB", 1000), ("1024 B", 1024), ("64KiB", 65_536), ("4MiB", 4 << 20)] {
            assert_eq!(text.parse::<Size>().unwrap().get(), ByteCount(bytes), "{text}");
        }
        for text in ["999B", "5MiB", "1", "1.5kB", "kB", "99999999999999999999MB", "18446744073709551615MB"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_mtu_is_explained() {
        assert_eq!("1200".parse::<Mtu>().unwrap(), Mtu::DEFAULT);
        assert_eq!("1472".parse::<Mtu>().unwrap().get(), 1472);
        for text in ["1199", "0", "1473", "70000"] {
            let error = text.parse::<Mtu>().unwrap_err();
            for number in ["1200", "1420", "1392", "1280", "1252"] {
                assert!(error.contains(number), "{text}: {error}");
            }
        }
    }

    #[test]
    fn remotes_have_a_host_and_perhaps_a_port() {
        for (text, shown) in [
            ("ground.example.org", "ground.example.org:9400"),
            ("203.0.113.7:1234", "203.0.113.7:1234"),
            ("[2001:db8::7]:1", "[2001:db8::7]:1"),
            ("[2001:db8::7]", "[2001:db8::7]:9400"),
            ("2001:db8::7", "[2001:db8::7]:9400"),
        ] {
            let remote: Remote = text.parse().unwrap();
            assert_eq!(remote.to_string(), shown);
            assert_eq!(shown.parse(), Ok(remote));
        }
        for text in ["", ":9400", "host:", "host:0", "host:65536", "[::1", "[::1]9400", "a b", "udp://host:1", "1:2:3"]
        {
            assert!(text.parse::<Remote>().unwrap_err().contains("ground.example.org"), "{text}");
        }
    }
}
