//! What is taken of applications' connections by the TUN device, and that device, as they are written.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use aquila_proto::gateway::Intercept;

use super::rules::{ParseRuleError, Ports, network_of, ports};

/// Connections that are taken where applications open them, and passed through: `tcp/10.20.0.5:22`, `tcp/10.20.0.0/24:*`,
/// `tcp/10.20.0.5:22>127.0.0.1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterceptSpec(pub Intercept);

/// The TUN device: `NAME[,ADDRESS/BITS]...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunSpec {
    /// Name of the interface.
    pub name: String,
    /// This machine's address at it, and bits of its network; the next address is the gateway's own.
    pub v4: Option<(Ipv4Addr, u8)>,
    /// The same of IPv6.
    pub v6: Option<(Ipv6Addr, u8)>,
}

const INTERCEPT: &str = "write tcp/ADDRESS[/BITS]:PORTS[>ADDRESS], such as tcp/10.20.0.5:22, tcp/10.20.0.0/24:* or \
                         tcp/10.20.0.5:22>127.0.0.1; addresses are numbers, IPv6 in brackets";
const TUN: &str = "write NAME[,ADDRESS/BITS]..., such as aquila0 or aquila0,198.18.72.1/30,fd61:7175:696c::1/126; of each \
                   network the address after this is the gateway's own";
/// The kernel's bound (IFNAMSIZ, less the zero at the end).
const LONGEST_NAME: usize = 15;
/// Of networks for tests between machines, which are nobody's (RFC 2544, RFC 6890), and local ones (RFC 4193).
const V4: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 18, 72, 1), 30);
const V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0xfd61, 0x7175, 0x696c, 0, 0, 0, 0, 1), 126);

impl Default for TunSpec {
    fn default() -> Self {
        Self { name: "aquila0".to_owned(), v4: Some(V4), v6: Some(V6) }
    }
}

impl TunSpec {
    /// The address after this one: the gateway's own.
    pub(super) fn own<A: Following>(address: A) -> A {
        address.following()
    }
}

/// Addresses have a next one.
pub(super) trait Following {
    fn following(self) -> Self;
}

impl Following for Ipv4Addr {
    fn following(self) -> Self {
        Self::from_bits(self.to_bits().wrapping_add(1))
    }
}

impl Following for Ipv6Addr {
    fn following(self) -> Self {
        Self::from_bits(self.to_bits().wrapping_add(1))
    }
}

impl FromStr for InterceptSpec {
    type Err = ParseRuleError;

    fn from_str(text: &str) -> Result<Self, ParseRuleError> {
        let parse = || {
            let rest = text.strip_prefix("tcp/")?;
            let rest = rest.strip_suffix("=reliable").unwrap_or(rest);
            let (rest, to) = rest.split_once('>').map_or((rest, None), |(rest, to)| (rest, Some(to)));
            let (network, of) = rest.rsplit_once(':')?;
            let (network, bits) = network_of(network)?;
            let to = match to {
                Some(to) => Some(to.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok()?),
                None => None,
            };
            // A loopback address or anybody's cannot be routed to a device.
            let routable = !network.is_loopback() && !network.is_unspecified() && !network.is_multicast() && bits > 0;
            routable.then_some(Self(Intercept { network, bits, ports: ports(of)?, to }))
        };
        parse().ok_or_else(|| ParseRuleError::new(text, INTERCEPT))
    }
}

impl FromStr for TunSpec {
    type Err = ParseRuleError;

    fn from_str(text: &str) -> Result<Self, ParseRuleError> {
        let parse = || {
            let mut words = text.split(',');
            let name = words.next()?;
            let good = |byte: u8| byte.is_ascii_graphic() && !b"/:%".contains(&byte);
            let is_name =
                (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(good) && ![".", ".."].contains(&name);
            let mut spec = Self { name: name.to_owned(), v4: None, v6: None };
            for word in words {
                let (address, bits) = word.split_once('/')?;
                // Two addresses of it at least, and something of it fixed.
                match (address.trim_start_matches('[').trim_end_matches(']').parse().ok()?, bits.parse().ok()?) {
                    (IpAddr::V4(ip), bits @ 8..=31) if spec.v4.is_none() => spec.v4 = Some((ip, bits)),
                    (IpAddr::V6(ip), bits @ 8..=127) if spec.v6.is_none() => spec.v6 = Some((ip, bits)),
                    _ => return None,
                }
            }
            if spec.v4.is_none() && spec.v6.is_none() {
                (spec.v4, spec.v6) = (Some(V4), Some(V6));
            }
            is_name.then_some(spec)
        };
        parse().ok_or_else(|| ParseRuleError::new(text, TUN))
    }
}

impl fmt::Display for InterceptSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Intercept { network, bits, ports, to } = &self.0;
        match network {
            IpAddr::V4(ip) => write!(f, "tcp/{ip}/{bits}:{}", Ports(ports))?,
            IpAddr::V6(ip) => write!(f, "tcp/[{ip}]/{bits}:{}", Ports(ports))?,
        }
        to.map_or(Ok(()), |to| write!(f, ">{to}"))
    }
}

impl fmt::Display for TunSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.v4.map_or(Ok(()), |(ip, bits)| write!(f, ",{ip}/{bits}"))?;
        self.v6.map_or(Ok(()), |(ip, bits)| write!(f, ",{ip}/{bits}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        for text in
            ["tcp/10.20.0.5/32:22", "tcp/10.20.0.0/24:*", "tcp/[fd20::5]/128:1-9>::1", "tcp/1.2.3.4/32:5>127.0.0.1"]
        {
            assert_eq!(text.parse::<InterceptSpec>().unwrap().to_string(), text);
        }
        let short: InterceptSpec = "tcp/10.20.0.5:22=reliable".parse().unwrap();
        assert_eq!(short.to_string(), "tcp/10.20.0.5/32:22");
        for text in ["aquila0,198.18.72.1/30,fd61:7175:696c::1/126", "x,10.0.0.9/31", "x,fd00::1/64"] {
            assert_eq!(text.parse::<TunSpec>().unwrap().to_string(), text);
        }
        assert_eq!("aquila0".parse::<TunSpec>().unwrap(), TunSpec::default());
    }

    #[test]
    fn what_is_wrong_is_said() {
        for text in [
            "10.20.0.5:22",
            "udp/10.20.0.5:22",
            "tcp/10.20.0.5",
            "tcp/10.20.0.5/33:22",
            "tcp/0.0.0.0/0:22",
            "tcp/127.0.0.1:22",
            "tcp/host:22",
            "tcp/10.20.0.5:22>host",
            "tcp/10.20.0.5:22=near-reliable",
            "tcp/10.20.0.5:22:127.0.0.1:22",
        ] {
            assert!(text.parse::<InterceptSpec>().unwrap_err().to_string().contains("tcp/ADDRESS"), "{text}");
        }
        for text in
            ["", "a name", "sixteen_letters_", "x,10.0.0.1", "x,10.0.0.1/32", "x,10.0.0.1/30,10.0.0.5/30", "..", "a/b"]
        {
            assert!(text.parse::<TunSpec>().unwrap_err().to_string().contains("NAME"), "{text}");
        }
    }

    #[test]
    fn a_connection_is_taken_by_network_and_port() {
        let spec = |text: &str| text.parse::<InterceptSpec>().unwrap().0;
        let target = |text: &str, address: &str| {
            spec(text).target(address.parse().unwrap()).map(|target| target.to_string()).unwrap_or_default()
        };
        assert_eq!(target("tcp/10.20.0.0/24:20-30", "10.20.0.77:22"), "10.20.0.77:22");
        assert_eq!(target("tcp/10.20.0.0/24:20-30", "10.20.1.77:22"), "");
        assert_eq!(target("tcp/10.20.0.0/24:20-30", "10.20.0.77:31"), "");
        assert_eq!(target("tcp/10.20.0.5:*>127.0.0.1", "10.20.0.5:80"), "127.0.0.1:80");
        assert_eq!(target("tcp/[fd20::]/16:*", "[fd20:1::7]:80"), "[fd20:1::7]:80");
    }
}
