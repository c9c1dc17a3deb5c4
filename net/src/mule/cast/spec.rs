//! How a cast is described: `udp:ADDRESS:PORT[@INTERFACE],key=FILE[,OPTION]...`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use aquila_proto::Bitrate;
use aquila_proto::transfer::cast::DATAGRAM;

/// Where, and by which key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Air {
    /// Group or host, and port.
    pub address: SocketAddr,
    /// The network interface; what the system thinks best if nothing is said.
    pub interface: Option<String>,
    /// File of the key that all members share.
    pub key: PathBuf,
    /// What people call it; the address if nothing is said.
    pub name: Option<String>,
}

/// A cast that is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct CastSpec {
    /// To whom.
    pub air: Air,
    /// What is sent in a second, headers of UDP and IPv4 included.
    pub rate: Bitrate,
    /// Symbols beyond those of a block that leave in a round, in per cent of them.
    pub overhead: u32,
    /// Rounds of each object; 0 for no end.
    pub rounds: u32,
    /// Hops of a multicast.
    pub ttl: u32,
    /// Bytes of a datagram, UDP payload.
    pub size: usize,
}

/// A cast that is heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HearSpec {
    /// Where.
    pub air: Air,
}

/// Why a text describes no cast.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseCastError {
    /// Not of that form.
    #[error(
        "'{0}' is no cast: write udp:ADDRESS:PORT, and @INTERFACE for a group, such as udp:239.255.94.11:9411@wlan0"
    )]
    Address(String),
    /// Nobody says how fast.
    #[error(
        "'{0}' needs rate=RATE, such as rate=2M: nobody answers, so that nothing would tell that it is too much. Never more than is free on \
         a network that others use as well"
    )]
    Rate(String),
    /// No key.
    #[error("'{0}' needs key=FILE: the key that all members share, made once by `aquila keys shared --out FILE`")]
    Key(String),
    /// An option that there is not.
    #[error(
        "'{0}' is no option of a cast: there are key=, name=, and for those that send rate=, overhead=, rounds=, ttl= and size="
    )]
    Option(String),
    /// A value that its option cannot have.
    #[error("{0}")]
    Value(String),
}

/// Rates that a cast may have.
const RATES: std::ops::RangeInclusive<f64> = 1_200.0..=1e9;
const OVERHEAD: u32 = 30;
const ROUNDS: u32 = 3;

impl Air {
    /// What people call it.
    pub fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.address.to_string())
    }

    fn parse(text: &str) -> Result<(SocketAddr, Option<String>), ParseCastError> {
        let form = || ParseCastError::Address(text.to_owned());
        let rest = text.strip_prefix("udp:").ok_or_else(form)?;
        let (address, interface) = rest.split_once('@').map_or((rest, None), |(a, i)| (a, Some(i.to_owned())));
        let address: SocketAddr = address.parse().map_err(|_| form())?;
        // Names of interfaces as the kernel has them.
        let is_name = |name: &str| (1..=15).contains(&name.len()) && !name.contains(['/', ' ', ',', '\0']);
        let is_good = address.port() > 0 && interface.as_deref().is_none_or(is_name);
        if is_good { Ok((address, interface)) } else { Err(form()) }
    }

    fn set(&mut self, option: &str, key: &str, value: &str) -> Result<(), ParseCastError> {
        match key {
            "key" if !value.is_empty() => self.key = value.into(),
            "name" => {
                let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
                if value.is_empty() || value.len() > 32 || !value.chars().all(good) {
                    let what = "1 to 32 letters, digits, '.', '-' and '_'";
                    return Err(ParseCastError::Value(format!("{option}: {what}")));
                }
                self.name = Some(value.to_owned());
            }
            _ => return Err(ParseCastError::Option(option.to_owned())),
        }
        Ok(())
    }
}

/// An option as it is written, its key and its value.
type Pair<'a> = (&'a str, &'a str, &'a str);

/// The address, and options.
fn split(text: &str) -> Result<(Air, Vec<Pair<'_>>), ParseCastError> {
    let mut parts = text.split(',').map(str::trim);
    let (address, interface) = Air::parse(parts.next().unwrap_or_default())?;
    let mut options = Vec::new();
    for option in parts {
        let Some((key, value)) = option.split_once('=') else {
            return Err(ParseCastError::Option(option.to_owned()));
        };
        options.push((option, key, value));
    }
    Ok((Air { address, interface, key: PathBuf::new(), name: None }, options))
}

impl FromStr for CastSpec {
    type Err = ParseCastError;

    fn from_str(text: &str) -> Result<Self, ParseCastError> {
        let (air, options) = split(text)?;
        let (rate, size) = (Bitrate::ZERO, *DATAGRAM.end());
        let mut spec = Self { air, rate, overhead: OVERHEAD, rounds: ROUNDS, ttl: 1, size };
        for (option, key, value) in options {
            let wrong = |what: &str| ParseCastError::Value(format!("{option}: {what}"));
            match key {
                "rate" => {
                    let what = "write bit/s, such as 64k or 2M; 1200 to 1000M";
                    spec.rate = bits(value).ok_or_else(|| wrong(what))?;
                }
                "overhead" => {
                    let percent = value.strip_suffix('%').and_then(|text| text.parse().ok());
                    let percent = percent.filter(|percent| *percent <= 1_000);
                    spec.overhead = percent.ok_or_else(|| wrong("write per cent, 0% to 1000%"))?;
                }
                "rounds" => spec.rounds = value.parse().map_err(|_| wrong("write a number; 0 for no end"))?,
                "ttl" => {
                    let ttl = value.parse().ok().filter(|ttl| (1..=255).contains(ttl));
                    spec.ttl = ttl.ok_or_else(|| wrong("write hops, 1 to 255"))?;
                }
                "size" => {
                    let size = value.parse().ok().filter(|size| DATAGRAM.contains(size));
                    spec.size = size.ok_or_else(|| wrong("write bytes of a datagram, 512 to 1472"))?;
                }
                _ => spec.air.set(option, key, value)?,
            }
        }
        if spec.rate == Bitrate::ZERO {
            return Err(ParseCastError::Rate(text.to_owned()));
        }
        if spec.air.key.as_os_str().is_empty() {
            return Err(ParseCastError::Key(text.to_owned()));
        }
        Ok(spec)
    }
}

impl FromStr for HearSpec {
    type Err = ParseCastError;

    fn from_str(text: &str) -> Result<Self, ParseCastError> {
        let (mut air, options) = split(text)?;
        options.into_iter().try_for_each(|(option, key, value)| air.set(option, key, value))?;
        if air.key.as_os_str().is_empty() {
            return Err(ParseCastError::Key(text.to_owned()));
        }
        Ok(Self { air })
    }
}

impl fmt::Display for Air {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "udp:{}", self.address)?;
        self.interface.as_ref().map_or(Ok(()), |name| write!(f, "@{name}"))?;
        write!(f, ",key={}", self.key.display())?;
        self.name.as_ref().map_or(Ok(()), |name| write!(f, ",name={name}"))
    }
}

impl fmt::Display for CastSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { air, rate, overhead, rounds, ttl, size } = self;
        write!(f, "{air},rate={},overhead={overhead}%,rounds={rounds},ttl={ttl},size={size}", rate.0)
    }
}

impl fmt::Display for HearSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.air.fmt(f)
    }
}

/// A rate in bit/s, with k or M for thousands and millions.
fn bits(text: &str) -> Option<Bitrate> {
    let (number, factor) = match text.strip_suffix('k') {
        Some(number) => (number, 1e3),
        None => text.strip_suffix('M').map_or((text, 1.0), |number| (number, 1e6)),
    };
    let bits = number.parse::<f64>().ok()? * factor;
    RATES.contains(&bits).then_some(Bitrate(bits as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_are_read_and_written() {
        let text = "udp:239.255.94.11:9411@wlan0,rate=1.5M,key=/etc/aquila/fleet,overhead=50%,rounds=0,ttl=3,size=1200,name=fleet";
        let spec: CastSpec = text.parse().unwrap();
        assert_eq!((spec.rate, spec.overhead, spec.rounds, spec.ttl, spec.size), (Bitrate(1_500_000), 50, 0, 3, 1_200));
        assert_eq!(spec.air.interface.as_deref(), Some("wlan0"));
        assert_eq!(spec.to_string().parse(), Ok(spec));
        let spec: CastSpec = "udp:[ff15::1]:9411@eth0,rate=64k,key=k".parse().unwrap();
        assert_eq!((spec.overhead, spec.rounds, spec.ttl, spec.size), (30, 3, 1, 1_472));
        assert_eq!(spec.to_string().parse(), Ok(spec));
        let spec: HearSpec = "udp:0.0.0.0:9411,key=k,name=n".parse().unwrap();
        assert_eq!(spec.to_string(), "udp:0.0.0.0:9411,key=k,name=n");
        for (wrong, says) in [
            ("", "no cast"),
            ("239.255.94.11:9411,key=k,rate=1M", "no cast"),
            ("udp:239.255.94.11,key=k,rate=1M", "no cast"),
            ("udp:239.255.94.11:0,key=k,rate=1M", "no cast"),
            ("udp:239.255.94.11:1@,key=k,rate=1M", "no cast"),
            ("udp:239.255.94.11:1,key=k", "needs rate"),
            ("udp:239.255.94.11:1,rate=1M", "aquila keys shared"),
            ("udp:239.255.94.11:1,rate=1,key=k", "64k"),
            ("udp:239.255.94.11:1,rate=NaN,key=k", "64k"),
            ("udp:239.255.94.11:1,rate=1M,key=k,overhead=0.3", "per cent"),
            ("udp:239.255.94.11:1,rate=1M,key=k,ttl=0", "hops"),
            ("udp:239.255.94.11:1,rate=1M,key=k,size=100", "512"),
            ("udp:239.255.94.11:1,rate=1M,key=k,loud", "no option"),
            ("udp:239.255.94.11:1,rate=1M,key=k,name=a b", "letters"),
        ] {
            let error = wrong.parse::<CastSpec>().unwrap_err().to_string();
            assert!(error.contains(says), "{wrong}: {error}");
        }
        assert!("udp:239.255.94.11:1,rate=1M,key=k".parse::<HearSpec>().is_err());
    }
}
