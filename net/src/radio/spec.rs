//! How a radio is described: its line, what its air carries, and how it is used.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use aquila_proto::aerotp::{Framing, LEAST_SEGMENT, MAX_SEGMENT, Modes, Protection, RadioConfig, TransferMode};
use aquila_proto::{Bitrate, ByteCount, Usage};

/// What the bytes for a radio go through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineSpec {
    /// A serial device at this rate.
    Serial {
        /// Such as /dev/ttyUSB0.
        device: PathBuf,
        /// Bits per second on the line, 10 for a byte.
        baud: u32,
    },
    /// UDP packets without checksum, over a radio that looks like a network.
    Udp {
        /// Where they come in.
        local: SocketAddr,
        /// Where they go.
        remote: SocketAddr,
    },
}

/// A radio: `DEVICE:BAUD[,OPTION]...` or `udp:LOCAL:PORT>REMOTE:PORT,rate=RATE[,OPTION]...`.
#[derive(Debug, Clone, PartialEq)]
pub struct RadioSpec {
    /// Its line.
    pub line: LineSpec,
    /// What its air carries, if that is not what the line does.
    pub rate: Option<Bitrate>,
    /// Both sides share one channel, which takes this long to turn around; `None` if each has one of its own.
    pub turn_around: Option<Duration>,
    /// Strength of the code in each segment.
    pub protection: Protection,
    /// Longest segment in bytes, if that is not to follow from the rate.
    pub max_segment: Option<usize>,
    /// How each class travels.
    pub modes: Modes,
    /// What it may be used for.
    pub usage: Usage,
    /// What people call it.
    pub name: Option<String>,
}

/// Why a text describes no radio.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseRadioError {
    /// Neither a serial device nor UDP.
    #[error("'{0}' is no radio: write DEVICE:BAUD, such as /dev/ttyUSB0:57600, or udp:LOCAL:PORT>REMOTE:PORT,rate=5M")]
    Line(String),
    /// UDP without a rate.
    #[error(
        "'{0}' needs rate=RATE, such as rate=5M: AeroTP sends at the rate of a radio that is ours alone, and gives way to nobody. \
         Over a network that others use as well, such as LTE or the Internet, it would do harm: use a bearer (--bearer), which \
         has congestion control"
    )]
    Shared(String),
    /// An option that there is not.
    #[error(
        "'{0}' is no option of a radio: there are rate=, turn=, parity=, segment=, control=, transactions=, states=, video=, bulk=, \
         name=, normal, backup and metered"
    )]
    Option(String),
    /// A value that its option cannot have.
    #[error("{0}")]
    Value(String),
}

/// Rates below this are none that a session can be flown over.
const SLOWEST: Bitrate = Bitrate(1_200);
/// A radio that turns around more slowly than this is not waited for.
const SLOWEST_TURN: Duration = Duration::from_secs(1);

/// Names of the transfer modes.
const MODES: [(&str, TransferMode); 5] = [
    ("reliable", TransferMode::Reliable),
    ("near-reliable", TransferMode::NearReliable),
    ("quasi-reliable", TransferMode::QuasiReliable),
    ("unreliable-connection", TransferMode::UnreliableConnection),
    ("unreliable-datagram", TransferMode::UnreliableDatagram),
];

/// Name of a transfer mode, in configuration and logs.
pub fn mode_name(mode: TransferMode) -> &'static str {
    MODES.iter().find(|(_, own)| *own == mode).map_or("", |(name, _)| name)
}

/// The transfer mode of this name.
pub fn mode_of(name: &str) -> Option<TransferMode> {
    MODES.iter().find(|(own, _)| *own == name).map(|(_, mode)| *mode)
}

impl RadioSpec {
    /// One with the defaults of its line.
    pub fn new(line: LineSpec) -> Self {
        let turn_around = match line {
            LineSpec::Serial { .. } => RadioConfig::serial(SLOWEST).turn_around,
            LineSpec::Udp { .. } => None,
        };
        Self {
            line,
            rate: None,
            turn_around,
            protection: Protection::default(),
            max_segment: None,
            modes: Modes::default(),
            usage: Usage::Normal,
            name: None,
        }
    }

    /// What people call it.
    pub fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| match &self.line {
            LineSpec::Serial { device, .. } => {
                device.file_name().map_or("radio".into(), |name| name.to_string_lossy().into_owned())
            }
            LineSpec::Udp { remote, .. } => remote.to_string(),
        })
    }

    /// What its air carries.
    pub fn rate(&self) -> Bitrate {
        self.rate.unwrap_or(match self.line {
            // 10 bits on the line are 8 on the air.
            LineSpec::Serial { baud, .. } => Bitrate(u64::from(baud) * 8 / 10),
            LineSpec::Udp { .. } => Bitrate::ZERO,
        })
    }

    /// What the session is told of it; `life` grows with each start of the process.
    pub fn config(&self, life: u64) -> RadioConfig {
        let rate = self.rate();
        let base = match self.line {
            LineSpec::Serial { .. } => RadioConfig::serial(rate),
            LineSpec::Udp { remote, .. } => {
                let around = if remote.is_ipv4() { 28 } else { 48 };
                RadioConfig { framing: Framing::Packets(ByteCount(around)), ..RadioConfig::packets(rate) }
            }
        };
        RadioConfig {
            turn_around: self.turn_around,
            protection: self.protection,
            max_segment: self.max_segment.unwrap_or(base.max_segment),
            modes: self.modes,
            life,
            ..base
        }
    }

    fn set(&mut self, option: &str) -> Result<(), ParseRadioError> {
        let usage = Usage::ALL.into_iter().find(|usage| usage.name() == option);
        let (key, value) = match (usage, option.split_once('=')) {
            (Some(usage), _) => {
                self.usage = usage;
                return Ok(());
            }
            (None, Some(pair)) => pair,
            (None, None) => return Err(ParseRadioError::Option(option.to_owned())),
        };
        let wrong = |what: &str| ParseRadioError::Value(format!("{option}: {what}"));
        match key {
            "rate" => {
                let rate = rate(value).filter(|rate| *rate >= SLOWEST);
                self.rate = Some(rate.ok_or_else(|| wrong("write bit/s, such as 46080, 64k or 5M; 1200 at least"))?);
            }
            "turn" => {
                self.turn_around = match value {
                    "none" => None,
                    _ => {
                        let ms = value.strip_suffix("ms").unwrap_or(value).parse().ok().map(Duration::from_millis);
                        let ms = ms.filter(|turn| *turn <= SLOWEST_TURN);
                        Some(ms.ok_or_else(|| {
                            wrong("write milliseconds, such as 5ms, or none for a radio with two channels")
                        })?)
                    }
                };
            }
            "parity" => {
                self.protection = match (value, value.parse()) {
                    ("auto", _) => Protection::default(),
                    ("off", _) => Protection::Off,
                    (_, Ok(words)) if words <= MOST_PARITY => Protection::Fixed(words),
                    _ => return Err(wrong("write auto, off, or words of 4 bytes, 255 at most")),
                };
            }
            "segment" => {
                let bytes = value.parse().ok().filter(|bytes| (LEAST_SEGMENT..=MAX_SEGMENT.min(4000)).contains(bytes));
                self.max_segment = Some(bytes.ok_or_else(|| wrong("write bytes, 480 to 4000"))?);
            }
            "name" => {
                let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
                if value.is_empty() || value.len() > 32 || !value.chars().all(good) {
                    return Err(wrong("1 to 32 letters, digits, '.', '-' and '_'"));
                }
                self.name = Some(value.to_owned());
            }
            "control" | "transactions" | "states" | "video" | "bulk" => {
                let mode = mode_of(value);
                let repeats = matches!(mode, Some(TransferMode::Reliable | TransferMode::NearReliable));
                if key == "control" && !repeats {
                    return Err(wrong("commands have to arrive: reliable or near-reliable"));
                }
                let mode = mode.ok_or_else(|| {
                    wrong("there are reliable, near-reliable, quasi-reliable, unreliable-connection and unreliable-datagram")
                })?;
                *self.mode_mut(key) = mode;
            }
            _ => return Err(ParseRadioError::Option(option.to_owned())),
        }
        Ok(())
    }

    fn mode_mut(&mut self, class: &str) -> &mut TransferMode {
        match class {
            "control" => &mut self.modes.control,
            "transactions" => &mut self.modes.transactions,
            "states" => &mut self.modes.states,
            "video" => &mut self.modes.video,
            _ => &mut self.modes.bulk,
        }
    }
}

/// Words that a configuration may ask for.
const MOST_PARITY: u16 = 255;

impl FromStr for RadioSpec {
    type Err = ParseRadioError;

    fn from_str(text: &str) -> Result<Self, ParseRadioError> {
        let mut parts = text.split(',').map(str::trim);
        let line = parts.next().unwrap_or_default();
        let no_radio = || ParseRadioError::Line(line.to_owned());
        let line_spec = match line.strip_prefix("udp:") {
            Some(ends) => {
                let (local, remote) = ends.split_once('>').ok_or_else(no_radio)?;
                let address = |text: &str| text.parse().map_err(|_| no_radio());
                LineSpec::Udp { local: address(local)?, remote: address(remote)? }
            }
            None => {
                let (device, baud) = line.rsplit_once(':').ok_or_else(no_radio)?;
                let baud = baud.parse().ok().filter(|baud| (1_200..=12_000_000).contains(baud)).ok_or_else(no_radio)?;
                if !device.starts_with('/') {
                    return Err(no_radio());
                }
                LineSpec::Serial { device: device.into(), baud }
            }
        };
        let mut spec = Self::new(line_spec);
        parts.try_for_each(|option| spec.set(option))?;
        if matches!(spec.line, LineSpec::Udp { .. }) && spec.rate.is_none() {
            return Err(ParseRadioError::Shared(line.to_owned()));
        }
        Ok(spec)
    }
}

impl fmt::Display for RadioSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.line {
            LineSpec::Serial { device, baud } => write!(f, "{}:{baud}", device.display())?,
            LineSpec::Udp { local, remote } => write!(f, "udp:{local}>{remote}")?,
        }
        let default = Self::new(self.line.clone());
        if let Some(rate) = self.rate {
            write!(f, ",rate={}", rate.0)?;
        }
        if self.turn_around != default.turn_around {
            match self.turn_around {
                Some(turn) => write!(f, ",turn={}ms", turn.as_millis())?,
                None => f.write_str(",turn=none")?,
            }
        }
        match self.protection {
            Protection::Off => f.write_str(",parity=off")?,
            Protection::Fixed(words) => write!(f, ",parity={words}")?,
            Protection::Adaptive { .. } => {}
        }
        if let Some(bytes) = self.max_segment {
            write!(f, ",segment={bytes}")?;
        }
        let modes = |modes: &Modes| {
            [
                ("control", modes.control),
                ("transactions", modes.transactions),
                ("states", modes.states),
                ("video", modes.video),
                ("bulk", modes.bulk),
            ]
        };
        for ((class, mode), (_, usual)) in modes(&self.modes).into_iter().zip(modes(&default.modes)) {
            if mode != usual {
                write!(f, ",{class}={}", mode_name(mode))?;
            }
        }
        if self.usage != Usage::Normal {
            write!(f, ",{}", self.usage.name())?;
        }
        match &self.name {
            Some(name) => write!(f, ",name={name}"),
            None => Ok(()),
        }
    }
}

/// A rate in bit/s, with k or M for thousands and millions.
fn rate(text: &str) -> Option<Bitrate> {
    let (number, unit) = match text.chars().last()? {
        'k' => (&text[..text.len() - 1], 1e3),
        'M' => (&text[..text.len() - 1], 1e6),
        _ => (text, 1.0),
    };
    let number: f64 = number.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0)?;
    let bits = number * unit;
    (bits <= 1e9).then_some(Bitrate(bits as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_describes_a_radio_is_shown_as_it_is_read() {
        for text in [
            "/dev/ttyUSB0:57600",
            "/dev/serial/by-id/usb-FTDI_x-if00-port0:57600,rate=64000,turn=12ms,parity=8,segment=500",
            "/dev/ttyS0:115200,turn=none,parity=off,bulk=reliable,backup,name=rfd900",
            "udp:0.0.0.0:9500>192.0.2.7:9500,rate=5000000",
            "udp:[::]:9500>[2001:db8::7]:9500,rate=5000000,states=quasi-reliable",
        ] {
            let spec: RadioSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
        }
        let spec: RadioSpec = "/dev/ttyUSB0:57600, rate=1.5M , metered".parse().unwrap();
        assert_eq!((spec.rate(), spec.usage, spec.name().as_str()), (Bitrate(1_500_000), Usage::Metered, "ttyUSB0"));
        assert_eq!("/dev/ttyUSB0:57600".parse::<RadioSpec>().unwrap().rate(), Bitrate(46_080));
    }

    #[test]
    fn what_is_none_is_refused_with_what_would_be_right() {
        for (text, hint) in [
            ("", "DEVICE:BAUD"),
            ("/dev/ttyUSB0", "DEVICE:BAUD"),
            ("ttyUSB0:57600", "DEVICE:BAUD"),
            ("/dev/ttyUSB0:fast", "DEVICE:BAUD"),
            ("/dev/ttyUSB0:300", "DEVICE:BAUD"),
            ("udp:0.0.0.0:1", "DEVICE:BAUD"),
            ("udp:0.0.0.0:1>somewhere:2,rate=1M", "DEVICE:BAUD"),
            ("udp:0.0.0.0:1>10.0.0.1:2", "congestion control"),
            ("/dev/ttyUSB0:57600,rate=0", "bit/s"),
            ("/dev/ttyUSB0:57600,rate=NaN", "bit/s"),
            ("/dev/ttyUSB0:57600,turn=2000", "milliseconds"),
            ("/dev/ttyUSB0:57600,parity=999", "auto"),
            ("/dev/ttyUSB0:57600,segment=10", "480"),
            ("/dev/ttyUSB0:57600,control=unreliable-datagram", "arrive"),
            ("/dev/ttyUSB0:57600,video=maybe", "quasi-reliable"),
            ("/dev/ttyUSB0:57600,colour=red", "turn="),
            ("/dev/ttyUSB0:57600,cheap", "backup"),
            ("/dev/ttyUSB0:57600,name=a b", "letters"),
        ] {
            let error = text.parse::<RadioSpec>().unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
