//! How a bearer is described: from where, to where, and what it may be used for.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use aquila_proto::Usage;

use crate::modem::{ModemSpec, ParseModemError};

/// From where a bearer's packets leave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Source {
    /// As the routes say.
    #[default]
    Any,
    /// Through this network interface only, whatever the routes say. It may come and go.
    Interface(String),
    /// From this address of ours.
    Address(IpAddr),
}

/// A bearer of the side that connects: `[SOURCE][@HOST:PORT][,OPTION]...`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BearerSpec {
    /// From where.
    pub source: Source,
    /// To where, if not to where the others go: host and port.
    pub remote: Option<String>,
    /// What it may be used for.
    pub usage: Usage,
    /// What people call it; what it was described by if nothing is said.
    pub name: Option<String>,
    /// The modem that it goes through.
    pub modem: Option<ModemSpec>,
}

/// Why a text describes no bearer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseBearerError {
    /// An interface name that Linux cannot have.
    #[error(
        "'{0}' is neither an address nor an interface name (1 to 15 characters, see `ip link`): write wwan0, 192.0.2.7, or \
         @HOST:PORT for another way to the other side"
    )]
    Source(String),
    /// No port.
    #[error("@{0} needs a host and a port: write @HOST:PORT")]
    Remote(String),
    /// An option that there is not.
    #[error("'{0}' is no option of a bearer: there are normal, backup, metered, name=NAME and modem=MODEM")]
    Option(String),
    /// A name that is too long or unreadable.
    #[error("'{0}' is no name: 1 to 32 letters, digits, '.', '-' and '_'")]
    Name(String),
    /// What is no modem.
    #[error(transparent)]
    Modem(#[from] ParseModemError),
}

/// Longest name of an interface (IFNAMSIZ less its end), and of a bearer.
const MAX_INTERFACE: usize = 15;
const MAX_NAME: usize = 32;

/// Whether Linux can have an interface of this name.
pub fn is_interface_name(name: &str) -> bool {
    let bad = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    (1..=MAX_INTERFACE).contains(&name.len()) && name != "." && name != ".." && !name.contains(bad)
}

impl BearerSpec {
    /// One that leaves through an interface.
    pub fn through(interface: &str) -> Self {
        Self { source: Source::Interface(interface.to_owned()), ..Self::default() }
    }

    /// What people call it.
    pub fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| match (&self.source, &self.remote) {
            (Source::Interface(name), _) => name.clone(),
            (Source::Address(address), _) => address.to_string(),
            (Source::Any, Some(remote)) => remote.clone(),
            (Source::Any, None) => "any".to_owned(),
        })
    }
}

impl FromStr for BearerSpec {
    type Err = ParseBearerError;

    fn from_str(text: &str) -> Result<Self, ParseBearerError> {
        let mut parts = text.split(',').map(str::trim);
        let way = parts.next().unwrap_or_default();
        let (source, remote) = way.split_once('@').map_or((way, None), |(source, remote)| (source, Some(remote)));
        let source = match source {
            "" if remote.is_some() => Source::Any,
            "any" => Source::Any,
            _ => match source.parse() {
                Ok(address) => Source::Address(address),
                Err(_) if is_interface_name(source) => Source::Interface(source.to_owned()),
                Err(_) => return Err(ParseBearerError::Source(source.to_owned())),
            },
        };
        let mut spec = Self { source, ..Self::default() };
        if let Some(remote) = remote {
            let port = remote.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
            if !port.is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port > 0)) {
                return Err(ParseBearerError::Remote(remote.to_owned()));
            }
            spec.remote = Some(remote.to_owned());
        }
        for option in parts {
            let usage = Usage::ALL.into_iter().find(|usage| usage.name() == option);
            match (usage, option.split_once('=')) {
                (Some(usage), _) => spec.usage = usage,
                (None, Some(("name", name))) => {
                    let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
                    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(good) {
                        return Err(ParseBearerError::Name(name.to_owned()));
                    }
                    spec.name = Some(name.to_owned());
                }
                (None, Some(("modem", modem))) => spec.modem = Some(modem.parse()?),
                _ => return Err(ParseBearerError::Option(option.to_owned())),
            }
        }
        Ok(spec)
    }
}

impl fmt::Display for BearerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Any => f.write_str(if self.remote.is_some() { "" } else { "any" })?,
            Source::Interface(name) => f.write_str(name)?,
            Source::Address(address) => write!(f, "{address}")?,
        }
        if let Some(remote) = &self.remote {
            write!(f, "@{remote}")?;
        }
        if self.usage != Usage::Normal {
            write!(f, ",{}", self.usage.name())?;
        }
        if let Some(name) = &self.name {
            write!(f, ",name={name}")?;
        }
        match &self.modem {
            Some(modem) => write!(f, ",modem={modem}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_describes_a_bearer_is_shown_as_it_is_read() {
        for text in [
            "wwan0",
            "any",
            "192.0.2.7",
            "2001:db8::7,backup",
            "@relay.example:9400",
            "eth0@10.0.0.1:9400,metered,name=satellite,modem=mmcli:0",
            "wlan0,name=wifi",
        ] {
            let spec: BearerSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
        }
        let spec: BearerSpec = "wwan0, metered , name=sim-2".parse().unwrap();
        assert_eq!((spec.usage, spec.name().as_str()), (Usage::Metered, "sim-2"));
        assert_eq!("@[::1]:9".parse::<BearerSpec>().unwrap().name(), "[::1]:9");
        assert_eq!(BearerSpec::through("eth0").name(), "eth0");
    }

    #[test]
    fn what_is_none_is_refused_with_what_would_be_right() {
        for (text, hint) in [
            ("", "ip link"),
            ("sixteen_letters_", "1 to 15"),
            ("ww/an", "ip link"),
            ("300.1.1.1x:y", "ip link"),
            ("eth0@", "@HOST:PORT"),
            ("eth0@host", "@HOST:PORT"),
            ("eth0@host:0", "@HOST:PORT"),
            ("eth0@:9400", "@HOST:PORT"),
            ("eth0,cheap", "backup"),
            ("eth0,name=", "letters"),
            ("eth0,name=a b", "letters"),
            ("eth0,modem=bell", "mmcli"),
        ] {
            let error = text.parse::<BearerSpec>().unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
