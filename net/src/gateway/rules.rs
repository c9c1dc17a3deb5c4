//! What may go through, and how: forwards, rules and what is allowed.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use aquila_proto::aerotp::TransferMode;
use aquila_proto::gateway::{Fill, Target, is_within};

use crate::radio::{mode_name, mode_of};

/// What is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

/// How something travels: `MODE[,deadline=500ms][,fill=zeros]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Treatment {
    /// AeroTP's transfer mode.
    pub mode: TransferMode,
    /// How long what is missing is waited for (quasi-reliable).
    pub deadline: Duration,
    /// What becomes of it (quasi-reliable).
    pub fill: Fill,
}

/// Which mode a port has: `tcp/22=near-reliable`, `udp/*=unreliable-datagram`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Ports of the target.
    pub ports: RangeInclusive<u16>,
    /// How it travels.
    pub treatment: Treatment,
}

/// Something here that is carried to a target at the far side: `tcp/2222:192.0.2.5:22[=MODE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Where it is listened here.
    pub listen: SocketAddr,
    /// Where the far side sends it. A name is looked up there, for each connection; of UDP there are none.
    pub target: Target,
    /// How it travels, if no rule is to say so.
    pub treatment: Option<Treatment>,
}

/// What the other side may reach from here: `tcp/127.0.0.1:22`, `udp/10.0.0.0/8:1024-2048`, `tcp/[::1]:*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allow {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Network.
    pub network: IpAddr,
    /// Bits of it that count.
    pub bits: u8,
    /// Ports.
    pub ports: RangeInclusive<u16>,
}

/// Why a text is none of these, and what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}': {what}")]
pub struct ParseRuleError {
    text: String,
    what: &'static str,
}

impl ParseRuleError {
    pub(super) fn new(text: &str, what: &'static str) -> Self {
        Self { text: text.to_owned(), what }
    }
}

const RULE: &str = "write PROTOCOL/PORTS=MODE, such as tcp/22=near-reliable, udp/14550-14560=unreliable-datagram or \
                    tcp/*=quasi-reliable,deadline=500ms";
const FORWARD: &str = "write PROTOCOL/[ADDRESS:]PORT:TARGET:PORT[=MODE], such as tcp/2222:127.0.0.1:22 or \
                       udp/14550:192.0.2.5:14550=unreliable-connection; IPv6 addresses are in brackets, and names, such as \
                       tcp/2222:localhost:22, are for tcp";
const ALLOW: &str =
    "write PROTOCOL/ADDRESS[/BITS]:PORTS, such as tcp/127.0.0.1:22, udp/10.0.0.0/8:14550-14560 or tcp/[::1]:*";
const MODE: &str = "modes are near-reliable and quasi-reliable[,deadline=500ms][,fill=zeros] for tcp, unreliable-datagram and \
                    unreliable-connection for udp; reliable is what --intercept carries";

impl Treatment {
    fn parse(protocol: Protocol, text: &str) -> Option<Self> {
        let mut words = text.split(',');
        let mode = mode_of(words.next()?)?;
        let fits = match mode {
            TransferMode::NearReliable | TransferMode::QuasiReliable => protocol == Protocol::Tcp,
            TransferMode::UnreliableConnection | TransferMode::UnreliableDatagram => protocol == Protocol::Udp,
            TransferMode::Reliable => false,
        };
        let mut treatment = Self { mode, ..Self::default_of(protocol) };
        for word in words.by_ref() {
            match word.split_once('=')? {
                ("deadline", value) => {
                    let ms: u64 = value.strip_suffix("ms")?.parse().ok()?;
                    treatment.deadline = Some(ms).filter(|ms| *ms <= 60_000).map(Duration::from_millis)?;
                }
                ("fill", "zeros") => treatment.fill = Fill::Zeros,
                ("fill", "nothing") => treatment.fill = Fill::Nothing,
                _ => return None,
            }
            if mode != TransferMode::QuasiReliable {
                return None;
            }
        }
        fits.then_some(treatment)
    }

    /// Unless a rule says otherwise.
    pub fn default_of(protocol: Protocol) -> Self {
        let mode = match protocol {
            Protocol::Tcp => TransferMode::NearReliable,
            Protocol::Udp => TransferMode::UnreliableDatagram,
        };
        Self { mode, deadline: Duration::from_millis(500), fill: Fill::Nothing }
    }
}

impl Forward {
    /// How it travels: as it says itself, or the first rule that fits, or the default.
    pub fn treatment(&self, rules: &[Rule]) -> Treatment {
        let fits = |rule: &&Rule| rule.protocol == self.protocol && rule.ports.contains(&self.target.port());
        let rule = || rules.iter().find(fits).map(|rule| rule.treatment);
        self.treatment.or_else(rule).unwrap_or_else(|| Treatment::default_of(self.protocol))
    }
}

impl Allow {
    /// What is allowed if nothing is said: this machine's own loopback.
    pub fn loopback() -> Vec<Self> {
        let all = |protocol, network, bits| Self { protocol, network, bits, ports: 1..=u16::MAX };
        let v4 = IpAddr::from([127, 0, 0, 0]);
        let v6 = IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]);
        [Protocol::Tcp, Protocol::Udp]
            .into_iter()
            .flat_map(|protocol| [all(protocol, v4, 8), all(protocol, v6, 128)])
            .collect()
    }

    /// Whether this is allowed by it.
    pub fn allows(&self, protocol: Protocol, target: SocketAddr) -> bool {
        self.protocol == protocol
            && is_within(self.network, self.bits, target.ip())
            && self.ports.contains(&target.port())
    }
}

impl FromStr for Rule {
    type Err = ParseRuleError;

    fn from_str(text: &str) -> Result<Self, ParseRuleError> {
        let wrong = |what| ParseRuleError { text: text.to_owned(), what };
        let (protocol, rest) = protocol(text).ok_or_else(|| wrong(RULE))?;
        let (of, mode) = rest.split_once('=').ok_or_else(|| wrong(RULE))?;
        let ports = ports(of).ok_or_else(|| wrong(RULE))?;
        let treatment = Treatment::parse(protocol, mode).ok_or_else(|| wrong(MODE))?;
        Ok(Self { protocol, ports, treatment })
    }
}

impl FromStr for Forward {
    type Err = ParseRuleError;

    fn from_str(text: &str) -> Result<Self, ParseRuleError> {
        let wrong = |what| ParseRuleError { text: text.to_owned(), what };
        let (protocol, rest) = protocol(text).ok_or_else(|| wrong(FORWARD))?;
        let (ways, mode) = rest.split_once('=').map_or((rest, None), |(ways, mode)| (ways, Some(mode)));
        let (listen, target) = ways_of(ways).ok_or_else(|| wrong(FORWARD))?;
        if protocol == Protocol::Udp && matches!(target, Target::Name(..)) {
            return Err(wrong(FORWARD));
        }
        let treatment = mode.map(|mode| Treatment::parse(protocol, mode).ok_or_else(|| wrong(MODE))).transpose()?;
        Ok(Self { protocol, listen, target, treatment })
    }
}

impl FromStr for Allow {
    type Err = ParseRuleError;

    fn from_str(text: &str) -> Result<Self, ParseRuleError> {
        let parse = || {
            let (protocol, rest) = protocol(text)?;
            let (network, of) = rest.rsplit_once(':')?;
            let (network, bits) = network_of(network)?;
            Some(Self { protocol, network, bits, ports: ports(of)? })
        };
        parse().ok_or_else(|| ParseRuleError { text: text.to_owned(), what: ALLOW })
    }
}

fn protocol(text: &str) -> Option<(Protocol, &str)> {
    match text.split_once('/')? {
        ("tcp", rest) => Some((Protocol::Tcp, rest)),
        ("udp", rest) => Some((Protocol::Udp, rest)),
        _ => None,
    }
}

/// `ADDRESS[/BITS]`, where an IPv6 address is in brackets.
pub(super) fn network_of(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, bits) = text.split_once('/').map_or((text, None), |(ip, bits)| (ip, Some(bits)));
    let ip: IpAddr = ip.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(most), |bits| bits.parse().ok()).filter(|bits| *bits <= most)?;
    Some((ip, bits))
}

pub(super) fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    let range = match text.split_once('-') {
        _ if text == "*" => 1..=u16::MAX,
        Some((first, last)) => first.parse().ok()?..=last.parse().ok()?,
        None => text.parse().ok().map(|port| port..=port)?,
    };
    Some(range).filter(|range| *range.start() > 0 && !range.is_empty())
}

/// `[ADDRESS:]PORT:TARGET:PORT`, where an IPv6 address is in brackets.
fn ways_of(text: &str) -> Option<(SocketAddr, Target)> {
    let (rest, port) = text.rsplit_once(':')?;
    let start = if rest.ends_with(']') { rest.rfind('[')? } else { rest.rfind(':')? + 1 };
    let target: Target = format!("{}:{port}", &rest[start..]).parse().ok()?;
    let listen = rest[..start].strip_suffix(':')?;
    let listen = match listen.parse::<u16>() {
        Ok(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        Err(_) => listen.parse().ok()?,
    };
    (target.port() > 0).then_some((listen, target))
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

impl fmt::Display for Treatment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(mode_name(self.mode))?;
        if self.mode == TransferMode::QuasiReliable {
            write!(f, ",deadline={}ms", self.deadline.as_millis())?;
            f.write_str(if self.fill == Fill::Zeros { ",fill=zeros" } else { "" })?;
        }
        Ok(())
    }
}

pub(super) struct Ports<'a>(pub &'a RangeInclusive<u16>);

impl fmt::Display for Ports<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (*self.0.start(), *self.0.end()) {
            (1, u16::MAX) => f.write_str("*"),
            (first, last) if first == last => write!(f, "{first}"),
            (first, last) => write!(f, "{first}-{last}"),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}={}", self.protocol, Ports(&self.ports), self.treatment)
    }
}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.protocol, self.listen, self.target)?;
        self.treatment.map_or(Ok(()), |treatment| write!(f, "={treatment}"))
    }
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.network {
            IpAddr::V4(ip) => write!(f, "{}/{ip}/{}:{}", self.protocol, self.bits, Ports(&self.ports)),
            IpAddr::V6(ip) => write!(f, "{}/[{ip}]/{}:{}", self.protocol, self.bits, Ports(&self.ports)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        for text in
            ["tcp/22=near-reliable", "udp/14550-14560=unreliable-connection", "tcp/*=quasi-reliable,deadline=500ms"]
        {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
        }
        for text in [
            "tcp/127.0.0.1:2222:192.0.2.5:22",
            "tcp/0.0.0.0:80:[2001:db8::1]:8080=quasi-reliable,deadline=20ms,fill=zeros",
            "udp/[::1]:1:127.0.0.1:1=unreliable-datagram",
            "tcp/127.0.0.1:2222:localhost:22",
            "tcp/[::1]:2222:camera-2.local:80=quasi-reliable,deadline=20ms",
        ] {
            assert_eq!(text.parse::<Forward>().unwrap().to_string(), text);
        }
        let short: Forward = "tcp/2222:192.0.2.5:22=near-reliable".parse().unwrap();
        assert_eq!(short.listen, "127.0.0.1:2222".parse().unwrap());
        for text in ["tcp/10.0.0.0/8:*", "udp/[2001:db8::]/32:5-7"] {
            assert_eq!(text.parse::<Allow>().unwrap().to_string(), text);
        }
        assert_eq!("tcp/[::1]:22".parse::<Allow>().unwrap().to_string(), "tcp/[::1]/128:22");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for text in
            ["tcp/22", "22=near-reliable", "tcp/0=near-reliable", "tcp/9-8=near-reliable", "icmp/1=near-reliable"]
        {
            assert!(text.parse::<Rule>().unwrap_err().to_string().contains("PROTOCOL/PORTS=MODE"), "{text}");
        }
        for text in
            ["udp/1=near-reliable", "tcp/1=reliable", "tcp/1=near-reliable,deadline=5ms", "tcp/1=quasi-reliable,x=1"]
        {
            assert!(text.parse::<Rule>().unwrap_err().to_string().contains("modes are"), "{text}");
        }
        for text in [
            "tcp/22",
            "udp/22:host:22",
            "tcp/22:ho st:22",
            "tcp/22:127.0.0:1",
            "tcp/22:127.0.0.1:0",
            "tcp/22:::1:22",
            "tcp/x:127.0.0.1:1",
        ] {
            assert!(text.parse::<Forward>().unwrap_err().to_string().contains("TARGET:PORT"), "{text}");
        }
        for text in ["tcp/127.0.0.1", "tcp/127.0.0.1/33:1", "tcp/host:1"] {
            assert!(text.parse::<Allow>().unwrap_err().to_string().contains("ADDRESS[/BITS]:PORTS"), "{text}");
        }
    }

    #[test]
    fn the_first_rule_that_fits_counts_and_loopback_is_all_that_is_allowed_by_itself() {
        let rules: Vec<Rule> =
            ["tcp/22=near-reliable", "tcp/*=quasi-reliable"].iter().map(|text| text.parse().unwrap()).collect();
        let mode = |text: &str| text.parse::<Forward>().unwrap().treatment(&rules).mode;
        assert_eq!(mode("tcp/1:127.0.0.1:22"), TransferMode::NearReliable);
        assert_eq!(mode("tcp/1:127.0.0.1:23"), TransferMode::QuasiReliable);
        assert_eq!(mode("tcp/1:127.0.0.1:23=near-reliable"), TransferMode::NearReliable);
        assert_eq!(mode("udp/1:127.0.0.1:23"), TransferMode::UnreliableDatagram);
        let loopback = Allow::loopback();
        let allowed = |target: &str| loopback.iter().any(|rule| rule.allows(Protocol::Tcp, target.parse().unwrap()));
        for (target, is_allowed) in [
            ("127.0.0.1:22", true),
            ("127.9.9.9:1", true),
            ("[::1]:22", true),
            ("[::ffff:127.0.0.1]:22", true),
            ("128.0.0.1:22", false),
            ("[::2]:22", false),
            ("0.0.0.0:22", false),
        ] {
            assert_eq!(allowed(target), is_allowed, "{target}");
        }
        let some: Allow = "tcp/10.1.0.0/16:5-7".parse().unwrap();
        assert!(some.allows(Protocol::Tcp, "10.1.255.1:5".parse().unwrap()));
        assert!(!some.allows(Protocol::Tcp, "10.2.0.1:5".parse().unwrap()));
        assert!(!some.allows(Protocol::Tcp, "10.1.0.1:8".parse().unwrap()));
        assert!(!some.allows(Protocol::Udp, "10.1.0.1:5".parse().unwrap()));
    }
}
