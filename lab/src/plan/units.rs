//! Values with units, as strings.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use aquila_proto::Bitrate;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A time such as `"30 ms"`, up to a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time(Duration);

/// A bit rate such as `"4 Mbit/s"`, up to 100 Gbit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

/// A size such as `"60 kB"`, up to 1 GB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(usize);

/// How much faster than true a clock runs, such as `"200 ppm"` or `"-200 ppm"`, up to 1000 ppm either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Drift(i64);

/// A number from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Share(f64);

impl Time {
    /// The time.
    pub const fn get(self) -> Duration {
        self.0
    }
}

impl Rate {
    /// Bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// The same as the product has it.
    pub const fn bitrate(self) -> Bitrate {
        Bitrate(self.0)
    }
}

impl Size {
    /// Bytes.
    pub const fn bytes(self) -> usize {
        self.0
    }
}

impl Drift {
    /// Nanoseconds in a second.
    pub const fn ppb(self) -> i64 {
        self.0
    }
}

impl Share {
    /// 0 to 1.
    pub const fn get(self) -> f64 {
        self.0
    }
}

/// The number in front of a unit, and the unit.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c))).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// `number` times a unit in whole steps of the smallest, without a detour over floating point: "1.5" of 1000 is 1500.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || !(whole.bytes().chain(fraction.bytes())).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut value = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()?.checked_mul(unit)? };
    let mut place = unit;
    for digit in fraction.bytes().map(|b| u64::from(b - b'0')) {
        // What is finer than the smallest step must be nothing.
        if !place.is_multiple_of(10) && digit != 0 {
            return None;
        }
        place /= 10;
        value = value.checked_add(digit * place)?;
    }
    Some(value)
}

fn bounded(text: &str, value: Option<u64>, max: u64, example: &str) -> Result<u64, String> {
    match value {
        Some(value) if value <= max => Ok(value),
        Some(_) => Err(format!("'{text}' is too large")),
        None => Err(format!("'{text}' cannot be read: write for example {example}")),
    }
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = split(text);
        let nanos = match unit {
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => {
                return Err(format!(
                    "'{text}' has no unit of time: write for example \"30 ms\", \"1.5 s\" or \"5 min\""
                ));
            }
        };
        let nanos = bounded(text, scaled(number, nanos), 86_400_000_000_000, "\"30 ms\" or \"1.5 s\"")?;
        Ok(Self(Duration::from_nanos(nanos)))
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = split(text);
        let bits = match unit {
            "bit/s" => 1,
            "kbit/s" => 1_000,
            "Mbit/s" => 1_000_000,
            "Gbit/s" => 1_000_000_000,
            _ => return Err(format!("'{text}' has no unit of rate: write for example \"300 kbit/s\" or \"4 Mbit/s\"")),
        };
        bounded(text, scaled(number, bits), 100_000_000_000, "\"300 kbit/s\" or \"4 Mbit/s\"").map(Self)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = split(text);
        let bytes = match unit {
            "B" => 1,
            "kB" => 1_000,
            "MB" => 1_000_000,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            _ => return Err(format!("'{text}' has no unit of size: write for example \"1200 B\" or \"60 kB\"")),
        };
        let bytes = bounded(text, scaled(number, bytes), 1_000_000_000, "\"1200 B\" or \"60 kB\"")?;
        Ok(Self(bytes as usize))
    }
}

impl FromStr for Drift {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = split(text);
        if unit != "ppm" {
            return Err(format!("'{text}' is no drift: write for example \"200 ppm\" or \"-200 ppm\""));
        }
        let (sign, number) = number.strip_prefix('-').map_or((1, number), |number| (-1, number));
        let ppb = bounded(text, scaled(number, 1_000), 1_000_000, "\"200 ppm\" or \"-200 ppm\"")?;
        Ok(Self(sign * ppb as i64))
    }
}

macro_rules! from_text {
    ($type:ty, $expecting:literal) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }
                    fn visit_str<E: Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
    };
}

from_text!(Time, "a time such as \"30 ms\"");
from_text!(Rate, "a rate such as \"4 Mbit/s\"");
from_text!(Drift, "a drift such as \"200 ppm\"");
from_text!(Size, "a size such as \"60 kB\"");

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        match (0.0..=1.0).contains(&value) {
            true => Ok(Self(value)),
            false => Err(D::Error::custom(format!("{value} is not a share: it must be from 0 to 1 (1 % is 0.01)"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_exact() {
        assert_eq!("1.5 s".parse(), Ok(Time(Duration::from_millis(1_500))));
        assert_eq!("30ms".parse(), Ok(Time(Duration::from_millis(30))));
        assert_eq!("2.456 ms".parse(), Ok(Time(Duration::from_nanos(2_456_000))));
        assert_eq!("4 Mbit/s".parse(), Ok(Rate(4_000_000)));
        assert_eq!("0.1 Mbit/s".parse(), Ok(Rate(100_000)));
        assert_eq!(".5 kB".parse(), Ok(Size(500)));
        assert_eq!("0 bit/s".parse(), Ok(Rate(0)));
        assert_eq!("200 ppm".parse(), Ok(Drift(200_000)));
        assert_eq!("-0.5 ppm".parse(), Ok(Drift(-500)));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_reason() {
        for text in
            ["", "30", "ms", "-3 ms", "1e3 s", "1.2.3 s", "+4 s", "NaN s", "25 h", "4 Mbit", "99999999999999999999 s"]
        {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
        for text in ["4 MB", "4 mbit/s", "101 Gbit/s", "0.5 bit/s", "inf Mbit/s"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        for text in ["200", "ppm", "--2 ppm", "1001 ppm", "-1001 ppm", "1 ppb", "0.0001 ppm"] {
            assert!(text.parse::<Drift>().is_err(), "{text}");
        }
        assert!("2 GB".parse::<Size>().is_err() && "0.3 B".parse::<Size>().is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[-+.0-9 a-zA-Z/µ]{0,30}") {
            let _ = text.parse::<Time>();
            let _ = text.parse::<Rate>();
            let _ = text.parse::<Size>();
            let _ = text.parse::<Drift>();
        }
    }
}
