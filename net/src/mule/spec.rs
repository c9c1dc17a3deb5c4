//! How another store is described: `KEY[@HOST:PORT][,OPTION]...`.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use aquila_proto::identity::{KeyError, PublicKey};

use super::{Partner, Reach};

/// What a store does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Has files of its own, and gives them away.
    Node,
    /// Takes what nodes have, and gives it to shores, and to other carriers.
    Carrier,
    /// Files end here.
    Shore,
}

impl Role {
    const ALL: [Self; 3] = [Self::Node, Self::Carrier, Self::Shore];

    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Carrier => "carrier",
            Self::Shore => "shore",
        }
    }

    /// Who is met if nothing is said.
    const fn counterpart(self) -> Self {
        match self {
            Self::Node | Self::Shore => Self::Carrier,
            Self::Carrier => Self::Node,
        }
    }

    /// Whether it gives what it has to another.
    pub fn gives_to(self, other: Self) -> bool {
        other > self || self == Self::Carrier && other == Self::Carrier
    }
}

/// Another store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerSpec {
    /// Who it is.
    pub key: PublicKey,
    /// How it is reached.
    pub reach: Reach,
    /// What it does; what fits our own role if nothing is said.
    pub role: Option<Role>,
    /// What people call it; its fingerprint if nothing is said.
    pub name: Option<String>,
    /// The way there is a lossy radio that belongs to nobody else.
    pub radio: bool,
    /// Bytes that a contact is expected to carry.
    pub contact: Option<u64>,
}

/// Why a text describes no store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParsePeerError {
    /// Its key.
    #[error("'{0}': {1}")]
    Key(String, KeyText),
    /// An address without a port, or none at all.
    #[error("@{0} needs a host and a port: write KEY@HOST:PORT")]
    Remote(String),
    /// An address to listen at that is none.
    #[error(
        "listen={0} is no address with a port: write listen=0.0.0.0:9410, or listen=0.0.0.0:0 with [mule] announce"
    )]
    Listen(String),
    /// Two ways to it.
    #[error("'{0}': either @HOST:PORT or listen=ADDRESS:PORT, not both")]
    TwoWays(String),
    /// An amount that is none.
    #[error("contact={0} is no amount: write what a contact carries, such as contact=120MB")]
    Contact(String),
    /// A name that is too long or unreadable.
    #[error("'{0}' is no name: 1 to 32 letters, digits, '.', '-' and '_'")]
    Name(String),
    /// An option that there is not.
    #[error(
        "'{0}' is no option of a peer: there are listen=ADDRESS:PORT, node, carrier, shore, radio, name=NAME and contact=BYTES"
    )]
    Option(String),
}

/// What is wrong with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyText(String);

impl fmt::Display for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<KeyError> for KeyText {
    fn from(error: KeyError) -> Self {
        Self(error.to_string())
    }
}

impl PeerSpec {
    /// As a partner of a store that has this role.
    pub fn partner(&self, ours: Role) -> Partner {
        let role = self.role.unwrap_or(ours.counterpart());
        Partner {
            key: self.key,
            name: self.name.clone().unwrap_or_else(|| self.key.fingerprint()),
            gives_to: ours.gives_to(role),
            takes_from: role.gives_to(ours),
            expected: self.contact,
        }
    }
}

fn is_remote(text: &str) -> bool {
    let port = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0);
    text.rsplit_once(':').is_some_and(port)
}

fn is_name(text: &str) -> bool {
    (1..=32).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

fn amount(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "" | "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

impl FromStr for PeerSpec {
    type Err = ParsePeerError;

    fn from_str(text: &str) -> Result<Self, ParsePeerError> {
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let (key, remote) = first.split_once('@').map_or((first, None), |(key, remote)| (key, Some(remote)));
        let key = key.parse().map_err(|error: KeyError| ParsePeerError::Key(key.to_owned(), error.into()))?;
        if let Some(remote) = remote.filter(|remote| !is_remote(remote)) {
            return Err(ParsePeerError::Remote(remote.to_owned()));
        }
        let mut spec = Self { key, reach: Reach::Discover, role: None, name: None, radio: false, contact: None };
        let mut listen = None;
        for option in parts {
            match option.split_once('=') {
                None if option == "radio" => spec.radio = true,
                None => match Role::ALL.into_iter().find(|role| role.name() == option) {
                    Some(role) => spec.role = Some(role),
                    None => return Err(ParsePeerError::Option(option.to_owned())),
                },
                Some(("listen", address)) => {
                    let address = address.parse().map_err(|_| ParsePeerError::Listen(address.to_owned()))?;
                    listen = Some(address);
                }
                Some(("name", name)) if is_name(name) => spec.name = Some(name.to_owned()),
                Some(("name", name)) => return Err(ParsePeerError::Name(name.to_owned())),
                Some(("contact", bytes)) => match amount(bytes) {
                    Some(bytes) => spec.contact = Some(bytes),
                    None => return Err(ParsePeerError::Contact(bytes.to_owned())),
                },
                Some(_) => return Err(ParsePeerError::Option(option.to_owned())),
            }
        }
        spec.reach = match (remote, listen) {
            (Some(_), Some(_)) => return Err(ParsePeerError::TwoWays(text.to_owned())),
            (Some(remote), None) => Reach::At(remote.to_owned()),
            (None, Some(address)) => Reach::Listen(address),
            (None, None) => Reach::Discover,
        };
        Ok(spec)
    }
}

impl fmt::Display for PeerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, reach, role, name, radio, contact } = self;
        write!(f, "{key}")?;
        let address: Option<&SocketAddr> = match reach {
            Reach::At(remote) => {
                write!(f, "@{remote}")?;
                None
            }
            Reach::Listen(address) => Some(address),
            Reach::Discover => None,
        };
        address.map_or(Ok(()), |address| write!(f, ",listen={address}"))?;
        role.map_or(Ok(()), |role| write!(f, ",{}", role.name()))?;
        name.as_ref().map_or(Ok(()), |name| write!(f, ",name={name}"))?;
        if *radio {
            f.write_str(",radio")?;
        }
        contact.map_or(Ok(()), |bytes| write!(f, ",contact={bytes}B"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "aq1:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

    #[test]
    fn peers_are_read_and_written() {
        for rest in [
            "",
            "@ship.example:9410,radio",
            ",listen=0.0.0.0:0,carrier",
            "@[::1]:9410,shore,name=office,contact=120000000B",
        ] {
            let text = format!("{KEY}{rest}");
            assert_eq!(text.parse::<PeerSpec>().unwrap().to_string().len(), text.len(), "{text}");
            assert_eq!(text.parse::<PeerSpec>().unwrap().to_string().parse(), text.parse::<PeerSpec>());
        }
        let spec: PeerSpec = format!("{KEY},contact=12MB").parse().unwrap();
        assert_eq!(spec.contact, Some(12_000_000));
        assert_eq!(spec.reach, Reach::Discover);
        for wrong in [
            "",
            "aq1:00",
            &format!("{KEY}@ship"),
            &format!("{KEY}@:9410"),
            &format!("{KEY}@ship:0"),
            &format!("{KEY}@ship:9410,listen=0.0.0.0:9410"),
            &format!("{KEY},listen=here"),
            &format!("{KEY},name="),
            &format!("{KEY},contact=much"),
            &format!("{KEY},contact=99999999999GB"),
            &format!("{KEY},"),
            &format!("{KEY},mule"),
        ] {
            assert!(wrong.parse::<PeerSpec>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn files_go_from_nodes_to_shores() {
        let peer: PeerSpec = KEY.parse().unwrap();
        let goes = |ours, role| {
            let partner = PeerSpec { role, ..peer.clone() }.partner(ours);
            (partner.gives_to, partner.takes_from)
        };
        assert_eq!(goes(Role::Node, None), (true, false));
        assert_eq!(goes(Role::Carrier, None), (false, true));
        assert_eq!(goes(Role::Carrier, Some(Role::Shore)), (true, false));
        assert_eq!(goes(Role::Carrier, Some(Role::Carrier)), (true, true));
        assert_eq!(goes(Role::Shore, None), (false, true));
        assert_eq!(goes(Role::Node, Some(Role::Node)), (false, false));
        assert_eq!(goes(Role::Node, Some(Role::Shore)), (true, false));
    }
}
