//! How video endpoints are written in configuration and on the command line.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use aquila_proto::video::Codec;

/// Most video flows of a session; flow numbers stay below.
pub const MAX_FLOWS: u8 = 16;

/// Number of a camera on the link, below [`MAX_FLOWS`]; the same on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Flow(u8);

/// Where video comes in or goes out: `rtp://ADDRESS:PORT[?codec=NAME][&flow=NUMBER]`, the scheme optional.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VideoSpec {
    /// As an input, the address to listen on; as an output, the viewer. Multicast groups are allowed for both.
    pub address: SocketAddr,
    /// What the input carries; outputs carry what comes.
    pub codec: Codec,
    /// Which camera this is. Without it, an input is numbered by its place in the list, and an output shows flow 0.
    pub flow: Option<Flow>,
}

/// Why a text is not a video endpoint; each says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseVideoError {
    /// A scheme other than `rtp`.
    #[error("video is RTP over UDP: write rtp://ADDRESS:PORT instead of '{0}'")]
    Scheme(String),
    /// No port.
    #[error("'{0}' has no port: write for example rtp://0.0.0.0:5600 to listen, or rtp://127.0.0.1:5600 to send")]
    NoPort(String),
    /// Not an address.
    #[error(
        "'{0}' is not an IP address and a port: write for example 192.168.1.20:5600 or [fd00::20]:5600 (names other than \
         localhost are not looked up)"
    )]
    Address(String),
    /// Port 0.
    #[error("port 0 is nobody's: cameras and ground stations agree on 5600")]
    PortZero,
    /// An option that there is not.
    #[error("'{0}' is not a video option: there are codec=auto|h264|h265|opaque and flow=0..15")]
    Option(String),
    /// A codec that there is not.
    #[error(transparent)]
    Codec(#[from] aquila_proto::video::ParseCodecError),
    /// A flow that there is not.
    #[error("'{0}' is not a flow: cameras are numbered from 0 to 15")]
    Flow(String),
    /// An output to every address, as if to listen.
    #[error(
        "'{0}' is an address to listen on, not one to send to: write the viewer's address, for example 127.0.0.1:{1}"
    )]
    Unspecified(IpAddr, u16),
}

impl Flow {
    /// The flow of this number; `None` from [`MAX_FLOWS`] on.
    pub const fn new(number: u8) -> Option<Self> {
        if number < MAX_FLOWS { Some(Self(number)) } else { None }
    }

    /// Its number, below [`MAX_FLOWS`].
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl VideoSpec {
    /// The same, checked to be a viewer that can be sent to.
    pub fn for_output(self) -> Result<Self, ParseVideoError> {
        match self.address.ip().is_unspecified() {
            true => Err(ParseVideoError::Unspecified(self.address.ip(), self.address.port())),
            false => Ok(self),
        }
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for VideoSpec {
    type Err = ParseVideoError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rest = match text.split_once("://") {
            Some(("rtp", rest)) => rest,
            Some(_) => return Err(ParseVideoError::Scheme(text.to_owned())),
            None => text,
        };
        let (address, options) = rest.split_once('?').unwrap_or((rest, ""));
        let mut spec = Self { address: parse_address(address)?, codec: Codec::Auto, flow: None };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("codec", name)) => spec.codec = name.parse()?,
                Some(("flow", number)) => {
                    let flow = number.parse().ok().and_then(Flow::new);
                    spec.flow = Some(flow.ok_or_else(|| ParseVideoError::Flow(number.to_owned()))?);
                }
                _ => return Err(ParseVideoError::Option(option.to_owned())),
            }
        }
        Ok(spec)
    }
}

impl fmt::Display for VideoSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rtp://{}", self.address)?;
        let mut separator = '?';
        if self.codec != Codec::Auto {
            write!(f, "{separator}codec={}", self.codec)?;
            separator = '&';
        }
        if let Some(flow) = self.flow {
            write!(f, "{separator}flow={flow}")?;
        }
        Ok(())
    }
}

fn parse_address(text: &str) -> Result<SocketAddr, ParseVideoError> {
    let address = match text.rsplit_once(':') {
        Some(("" | "*", port)) => port.parse().map(|port| (Ipv4Addr::UNSPECIFIED, port).into()).ok(),
        Some(("localhost", port)) => port.parse().map(|port| (Ipv4Addr::LOCALHOST, port).into()).ok(),
        Some(_) if text.ends_with(']') || text.parse::<IpAddr>().is_ok() => {
            return Err(ParseVideoError::NoPort(text.to_owned()));
        }
        Some(_) => text.parse::<SocketAddr>().ok(),
        None => return Err(ParseVideoError::NoPort(text.to_owned())),
    };
    let address = address.ok_or_else(|| ParseVideoError::Address(text.to_owned()))?;
    if address.port() == 0 { Err(ParseVideoError::PortZero) } else { Ok(address) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_round_trip() {
        for (text, canonical) in [
            ("rtp://0.0.0.0:5600", "rtp://0.0.0.0:5600"),
            ("rtp://:5600", "rtp://0.0.0.0:5600"),
            ("localhost:5600", "rtp://127.0.0.1:5600"),
            ("127.0.0.1:5600?codec=h265", "rtp://127.0.0.1:5600?codec=h265"),
            ("rtp://[::1]:5600?flow=3", "rtp://[::1]:5600?flow=3"),
            ("rtp://239.1.2.3:5600?flow=0&codec=opaque", "rtp://239.1.2.3:5600?codec=opaque&flow=0"),
            ("rtp://:5600?codec=auto", "rtp://0.0.0.0:5600"),
        ] {
            let spec: VideoSpec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(spec.to_string(), canonical);
            assert_eq!(canonical.parse(), Ok(spec));
        }
    }

    #[test]
    fn errors_say_what_to_write() {
        for (text, teaches) in [
            ("rtsp://cam/stream", "rtp://ADDRESS:PORT"),
            ("rtp://127.0.0.1", "rtp://127.0.0.1:5600"),
            ("::1", "no port"),
            ("[::1]", "no port"),
            ("camera.local:5600", "192.168.1.20:5600"),
            ("127.0.0.1:70000", "192.168.1.20:5600"),
            (":0", "5600"),
            ("", "no port"),
            (":5600?bitrate=3", "codec=auto|h264|h265|opaque"),
            (":5600?codec=vp8", "h264"),
            (":5600?flow=16", "0 to 15"),
        ] {
            let error = text.parse::<VideoSpec>().unwrap_err().to_string();
            assert!(error.contains(teaches), "'{text}': {error}");
        }
        let everywhere: VideoSpec = ":5601".parse().unwrap();
        let error = everywhere.for_output().unwrap_err().to_string();
        assert!(error.contains("127.0.0.1:5601"), "{error}");
    }
}
