//! What an endpoint is called in configuration files and on the command line.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where MAVLink comes from and goes to, such as `serial:/dev/ttyAMA0:921600` or `udpin:0.0.0.0:14550`.
///
/// [`KINDS`] says what there is; [`FromStr`] and [`fmt::Display`] are inverse to each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum EndpointSpec {
    /// A serial line.
    Serial {
        /// The device, or a link to it.
        path: PathBuf,
        /// Bits per second, 1200 to 12,000,000; ignored by USB devices that are no real serial line.
        baud: u32,
    },
    /// Listen on UDP and answer whoever was heard.
    UdpIn(HostPort),
    /// Send to one UDP address.
    UdpOut(HostPort),
    /// Listen on TCP.
    TcpIn(HostPort),
    /// Connect to a TCP server.
    TcpOut(HostPort),
}

/// A host name or address, and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// Name, IPv4 or IPv6 address, without brackets.
    pub host: String,
    /// Port, not 0 unless a system-chosen one is meant (only sensible when listening in tests).
    pub port: u16,
}

/// One kind of endpoint, for parsing and for the help text.
#[derive(Debug)]
pub struct Kind {
    /// The word before the first colon.
    pub name: &'static str,
    /// How it is written.
    pub syntax: &'static str,
    /// One that works.
    pub example: &'static str,
    /// What it does, in a sentence.
    pub help: &'static str,
    parse: fn(&str) -> Result<EndpointSpec, String>,
}

/// Every kind of endpoint.
pub static KINDS: [Kind; 5] = [
    Kind {
        name: "serial",
        syntax: "serial:DEVICE[:BAUD]",
        example: "serial:/dev/ttyAMA0:921600",
        help: "serial line to an autopilot or radio (115200 baud unless said otherwise); may be unplugged and plugged in",
        parse: parse_serial,
    },
    Kind {
        name: "udpin",
        syntax: "udpin:ADDRESS:PORT",
        example: "udpin:0.0.0.0:14550",
        help: "listens on UDP and answers everybody heard in the last minute",
        parse: |rest| host_port(rest, "udpin:0.0.0.0:14550").map(EndpointSpec::UdpIn),
    },
    Kind {
        name: "udpout",
        syntax: "udpout:HOST:PORT",
        example: "udpout:127.0.0.1:14550",
        help: "sends to one UDP address from one socket, such as QGroundControl on this machine",
        parse: |rest| host_port(rest, "udpout:127.0.0.1:14550").map(EndpointSpec::UdpOut),
    },
    Kind {
        name: "tcpin",
        syntax: "tcpin:ADDRESS:PORT",
        example: "tcpin:0.0.0.0:5760",
        help: "TCP server for any number of ground stations and programs",
        parse: |rest| host_port(rest, "tcpin:0.0.0.0:5760").map(EndpointSpec::TcpIn),
    },
    Kind {
        name: "tcpout",
        syntax: "tcpout:HOST:PORT",
        example: "tcpout:autopilot.local:5760",
        help: "connects to a TCP server, again and again if need be",
        parse: |rest| host_port(rest, "tcpout:autopilot.local:5760").map(EndpointSpec::TcpOut),
    },
];

/// The kinds as a table for `--help`, one line each.
pub fn help() -> String {
    let width = KINDS.iter().map(|kind| kind.syntax.len()).max().unwrap_or(0);
    KINDS.iter().map(|kind| format!("{:width$}  {}, e.g. {}\n", kind.syntax, kind.help, kind.example)).collect()
}

/// Why a text is not an endpoint, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a MAVLink endpoint: {reason}")]
pub struct SpecError {
    /// What was written.
    pub text: String,
    /// What is wrong with it, with an example.
    pub reason: String,
}

impl FromStr for EndpointSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let error = |reason| SpecError { text: text.to_owned(), reason };
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        match KINDS.iter().find(|kind| kind.name == name) {
            Some(kind) => (kind.parse)(rest).map_err(error),
            None => Err(error(suggestion(text, name, rest))),
        }
    }
}

impl TryFrom<String> for EndpointSpec {
    type Error = SpecError;

    fn try_from(text: String) -> Result<Self, SpecError> {
        text.parse()
    }
}

impl From<EndpointSpec> for String {
    fn from(spec: EndpointSpec) -> Self {
        spec.to_string()
    }
}

impl EndpointSpec {
    /// The word for its kind, as in [`KINDS`].
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Serial { .. } => "serial",
            Self::UdpIn(_) => "udpin",
            Self::UdpOut(_) => "udpout",
            Self::TcpIn(_) => "tcpin",
            Self::TcpOut(_) => "tcpout",
        }
    }
}

impl fmt::Display for EndpointSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.kind())?;
        match self {
            Self::Serial { path, baud } => write!(f, "{}:{baud}", path.display()),
            Self::UdpIn(at) | Self::UdpOut(at) | Self::TcpIn(at) | Self::TcpOut(at) => at.fmt(f),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

fn parse_serial(rest: &str) -> Result<EndpointSpec, String> {
    // Names under /dev/serial/by-path contain colons: only a number at the very end is a baud rate.
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (path, baud) = match rest.rsplit_once(':') {
        Some((path, baud)) if all_digits(baud) => (path, baud.parse().unwrap_or(u32::MAX)),
        Some((path, "")) => (path, DEFAULT_BAUD),
        _ => (rest, DEFAULT_BAUD),
    };
    if path.is_empty() {
        return Err("the device is missing, write e.g. serial:/dev/ttyAMA0:921600".into());
    }
    if !(MIN_BAUD..=MAX_BAUD).contains(&baud) {
        return Err(format!("a baud rate is {MIN_BAUD} to {MAX_BAUD}; autopilots use 57600, 115200 or 921600"));
    }
    Ok(EndpointSpec::Serial { path: path.into(), baud })
}

fn host_port(rest: &str, example: &str) -> Result<HostPort, String> {
    let missing = |what: &str| format!("the {what} is missing, write e.g. {example}");
    let (host, port) = match rest.strip_prefix('[') {
        Some(bracketed) => {
            let (host, after) =
                bracketed.split_once(']').ok_or("the bracket `[` is not closed, write e.g. [::]:14550")?;
            let address = host.split('%').next().unwrap_or_default();
            if address.parse::<Ipv6Addr>().is_err() {
                return Err(format!("`{host}` is not an IPv6 address"));
            }
            (host, after.strip_prefix(':').ok_or_else(|| missing("port"))?)
        }
        None => {
            let (host, port) =
                rest.rsplit_once(':').ok_or_else(|| missing(if rest.is_empty() { "address" } else { "port" }))?;
            if host.contains(':') {
                return Err("an IPv6 address goes into brackets, write e.g. [::]:14550".into());
            }
            (host, port)
        }
    };
    if host.is_empty() {
        return Err(missing("address"));
    }
    if host.contains(|c: char| c.is_whitespace() || c == '/') {
        return Err(format!("`{host}` is not a host name or address"));
    }
    let port = match port {
        "" => return Err(missing("port")),
        digits => digits.parse().map_err(|_| format!("`{digits}` is not a port, which is a number from 1 to 65535"))?,
    };
    Ok(HostPort { host: host.to_owned(), port })
}

/// What somebody may have meant who wrote an unknown kind.
fn suggestion(text: &str, name: &str, rest: &str) -> String {
    if text.starts_with('/') || name.eq_ignore_ascii_case("com") {
        return format!("for a serial line write serial:{text}");
    }
    if let "udp" | "tcp" = name {
        let rest = if rest.is_empty() { "0.0.0.0:14550" } else { rest };
        return format!("to listen write {name}in:{rest}, to send to it write {name}out:{rest}");
    }
    if let Some(kind) = KINDS.iter().find(|kind| kind.name.eq_ignore_ascii_case(name)) {
        return format!("write it in lower case, {}:{rest}", kind.name);
    }
    let kinds: Vec<_> = KINDS.iter().map(|kind| kind.syntax).collect();
    format!("it begins with none of the known kinds, which are {}", kinds.join(", "))
}

const DEFAULT_BAUD: u32 = 115_200;
const MIN_BAUD: u32 = 1200;
const MAX_BAUD: u32 = 12_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(text: &str) -> String {
        text.parse::<EndpointSpec>().unwrap_err().reason
    }

    #[test]
    fn every_example_of_the_table_parses_to_its_kind_and_back() {
        for kind in &KINDS {
            let spec: EndpointSpec = kind.example.parse().unwrap();
            assert_eq!((spec.kind(), spec.to_string().as_str()), (kind.name, kind.example));
            assert!(kind.syntax.starts_with(kind.name));
            assert!(help().contains(kind.syntax) && help().contains(kind.help));
        }
    }

    #[test]
    fn addresses_of_every_family() {
        for text in ["udpin:[::]:14550", "tcpout:ground-station.example:5760", "udpout:[fe80::1%eth0]:14550"] {
            assert_eq!(text.parse::<EndpointSpec>().unwrap().to_string(), text);
        }
        let HostPort { host, port } = host_port("[::1]:1", "").unwrap();
        assert_eq!((host.as_str(), port), ("::1", 1));
    }

    #[test]
    fn devices_may_have_colons_and_no_baud_rate() {
        let by_path = "serial:/dev/serial/by-path/platform-fd500000.pcie-pci-0000:01:00.0-usb-0:1.3:1.0";
        let expected = EndpointSpec::Serial { path: by_path["serial:".len()..].into(), baud: 115_200 };
        assert_eq!(by_path.parse(), Ok(expected.clone()));
        assert_eq!(format!("{by_path}:115200").parse(), Ok(expected.clone()));
        assert_eq!(expected.to_string().parse(), Ok(expected));
        assert_eq!("serial:/dev/ttyACM0:".parse::<EndpointSpec>().unwrap().to_string(), "serial:/dev/ttyACM0:115200");
    }

    #[test]
    fn mistakes_are_answered_with_what_to_write() {
        for (text, hint) in [
            ("", "serial:DEVICE"),
            ("usb:0", "serial:DEVICE"),
            ("/dev/ttyAMA0:57600", "serial:/dev/ttyAMA0:57600"),
            ("udp:127.0.0.1:14550", "udpout:127.0.0.1:14550"),
            ("tcp", "tcpin:0.0.0.0:14550"),
            ("UDPIN:0.0.0.0:1", "udpin:0.0.0.0:1"),
            ("serial:", "serial:/dev/ttyAMA0:921600"),
            ("serial:/dev/ttyAMA0:1", "57600"),
            ("serial:/dev/ttyAMA0:99999999999", "57600"),
            ("udpin:", "address is missing"),
            ("udpin:14550", "port is missing"),
            ("udpin::14550", "address is missing"),
            ("udpin:0.0.0.0", "port is missing"),
            ("udpin:0.0.0.0:", "port is missing"),
            ("udpin:0.0.0.0:70000", "1 to 65535"),
            ("udpin:::14550", "brackets"),
            ("udpin:[::1:14550", "not closed"),
            ("udpin:[host]:14550", "not an IPv6"),
            ("udpin:[::1]", "port is missing"),
            ("tcpout:a b:1", "not a host name"),
        ] {
            assert!(reason(text).contains(hint), "{text}: {}", reason(text));
            assert!(text.parse::<EndpointSpec>().unwrap_err().to_string().contains(text));
        }
    }

    #[test]
    fn configuration_files_hold_them_as_text() {
        let spec: EndpointSpec = serde_json::from_str("\"udpin:0.0.0.0:14550\"").unwrap();
        assert_eq!(serde_json::to_string(&spec).unwrap(), "\"udpin:0.0.0.0:14550\"");
        let error = serde_json::from_str::<EndpointSpec>("\"udp:1\"").unwrap_err();
        assert!(error.to_string().contains("udpin"));
    }

    /// Random text never panics; what parses is printed as it parses again.
    #[test]
    fn nonsense_never_panics() {
        let pieces = ["serial", "udpin", "tcpout", ":", "::", "[", "]", "/", "0", "14550", "%", "é", " ", "-1"];
        let mut seed = 7u32;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..(seed >> 29) {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text.push_str(pieces[(seed >> 16) as usize % pieces.len()]);
            }
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if let Ok(spec) = text.parse::<EndpointSpec>() {
                assert_eq!(spec.to_string().parse(), Ok(spec));
            }
        }
    }
}
