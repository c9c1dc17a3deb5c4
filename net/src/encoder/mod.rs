//! Encoders that do what the link asks of them.

mod command;
mod ladder;
mod majestic;
mod model;
mod rekeying;
mod steps;
mod v4l2;

use std::fmt;
use std::net::Ipv6Addr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub use ladder::{Ladder, LadderError, Rung, Size, Sizes};
pub use majestic::{Login, STEPS as MAJESTIC_STEPS};
pub use model::{EncoderKind, EncoderModel, ParseKindError};
pub use rekeying::Rekeying;
pub use steps::{StepConfig, Steps};

use crate::node::CameraWishes;

/// An encoder, and what is known of it.
#[derive(Debug, Clone)]
pub struct EncoderSetup {
    /// How it is reached.
    pub spec: EncoderSpec,
    /// How it follows a change of rate. Of a V4L2 device only whether it makes a recovery point of each is of use, and majestic is told so few that
    /// nothing is.
    pub kind: EncoderKind,
    /// Sizes that a command's pictures may have.
    pub sizes: Sizes,
}

impl From<EncoderSpec> for EncoderSetup {
    /// Of which nothing is known.
    fn from(spec: EncoderSpec) -> Self {
        Self { spec, kind: EncoderKind::default(), sizes: Sizes::Same }
    }
}

/// How an encoder is reached: `exec:COMMAND`, a line for the shell, `majestic:[USER:PASSWORD@]HOST[:PORT]`, or `v4l2:DEVICE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EncoderSpec {
    /// A program of the user's, which is told what to do on its standard input.
    Command(String),
    /// OpenIPC's majestic at this host, with its port if that is not 80, and as whom to speak to it.
    Majestic(String, Option<Login>),
    /// The controls of a camera of the kernel's that encodes, at this device.
    V4l2(PathBuf),
}

/// Why a text does not say how to reach an encoder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseEncoderError {
    /// None that we know: what stands in front of the first colon. Behind it there may be a password.
    #[error(
        "'{0}' is no encoder: write majestic:HOST for a camera with OpenIPC, v4l2:/dev/videoN for a camera of the kernel's that encodes, or exec:COMMAND for a program that is told what \
         to do on its standard input"
    )]
    Unknown(String),
    /// Not a host. Which is not said: it may be a login whose host was forgotten.
    #[error(
        "that is no host: write for example majestic:192.168.1.10, majestic:192.168.1.10:8080, or majestic:root:PASSWORD@192.168.1.10"
    )]
    Host,
    /// Not a user and a password.
    #[error(
        "in front of the host is USER:PASSWORD, for example majestic:root:PASSWORD@192.168.1.10; root is who may set a bit rate"
    )]
    Login,
    /// `exec:` and nothing.
    #[error("exec: needs a command behind it, as a line for the shell")]
    NoCommand,
}

impl FromStr for EncoderSpec {
    type Err = ParseEncoderError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some(("exec", command)) if command.trim().is_empty() => Err(ParseEncoderError::NoCommand),
            Some(("exec", command)) => Ok(Self::Command(command.trim().to_owned())),
            Some(("v4l2", path)) if path.starts_with('/') => Ok(Self::V4l2(path.into())),
            Some(("majestic", text)) => {
                // A password may have any of it, a host none.
                let (login, host) = text.rsplit_once('@').map_or((None, text), |(login, host)| (Some(login), host));
                let login = login.map(|login| Login::read(login).ok_or(ParseEncoderError::Login)).transpose()?;
                if is_host(host) { Ok(Self::Majestic(host.to_owned(), login)) } else { Err(ParseEncoderError::Host) }
            }
            other => Err(ParseEncoderError::Unknown(other.map_or(text, |(kind, _)| kind).to_owned())),
        }
    }
}

/// A name or an address, that of IPv6 in brackets, with a port or none.
fn is_host(text: &str) -> bool {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (text, None),
    };
    let is_name = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)),
    };
    is_name && port.is_none_or(|port| port.parse::<NonZeroU16>().is_ok())
}

/// As it is written, but for a password.
impl fmt::Display for EncoderSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => write!(f, "exec:{command}"),
            Self::Majestic(host, None) => write!(f, "majestic:{host}"),
            Self::Majestic(host, Some(login)) => write!(f, "majestic:{login}@{host}"),
            Self::V4l2(path) => write!(f, "v4l2:{}", path.display()),
        }
    }
}

/// An encoder that is served.
#[derive(Debug)]
pub struct Served {
    /// What is wanted of it goes there; it ends when this is dropped.
    pub wishes: watch::Sender<CameraWishes>,
    task: JoinHandle<()>,
}

/// Longest that an encoder's end is waited for: a program is asked to end, and killed after a second.
const GRACE: Duration = Duration::from_millis(1500);

impl Served {
    /// Ends it, and waits for a moment until it has.
    pub async fn end(self) {
        drop(self.wishes);
        let _ = timeout(GRACE, self.task).await;
    }
}

/// Starts to serve an encoder; must be called within a tokio runtime.
pub fn serve(EncoderSetup { spec, kind, sizes }: &EncoderSetup) -> Served {
    let (wishes, camera) = watch::channel(CameraWishes::default());
    let task = match spec {
        EncoderSpec::Command(command) => {
            let wanted = command::Wanted::new(*kind, sizes.ladder(*kind == EncoderKind::X265));
            tokio::spawn(command::serve(command.clone(), wanted, camera))
        }
        EncoderSpec::V4l2(path) => tokio::spawn(v4l2::serve(path.clone(), *kind, camera)),
        EncoderSpec::Majestic(host, login) => tokio::spawn(majestic::serve(host.clone(), login.clone(), camera)),
    };
    Served { wishes, task }
}

/// For ever if there is no time.
async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_is_read_as_it_is_written() {
        let spec: EncoderSpec = "exec: cat > /tmp/x:y".parse().unwrap();
        assert_eq!(spec, EncoderSpec::Command("cat > /tmp/x:y".into()));
        assert_eq!(spec.to_string().parse(), Ok(spec));
        let spec: EncoderSpec = "majestic:[fd00::1]:8080".parse().unwrap();
        assert_eq!(spec, EncoderSpec::Majestic("[fd00::1]:8080".into(), None));
        let spec: EncoderSpec = "majestic:root:a:b@c@camera:8080".parse().unwrap();
        assert_eq!(spec, EncoderSpec::Majestic("camera:8080".into(), Login::read("root:a:b@c")));
        assert_eq!(spec.to_string(), "majestic:root:...@camera:8080");
        assert!(!format!("{spec:?}").contains("a:b@c"), "a password is in no log");
        assert_eq!("v4l2:/dev/video11".parse(), Ok(EncoderSpec::V4l2("/dev/video11".into())));
        for wrong in [
            "majestic:",
            "majestic:a b",
            "majestic:a/b?c",
            "majestic::80",
            "majestic:root@camera",
            "majestic::secret@camera",
            "majestic:ro\not:secret@camera",
            "majestic:root:secret@",
            "majestic:root:secret",
            "majestic:camera:0",
            "majestic:[fd00::x]",
            "majestic://root:secret@camera",
            "Majestic:root:secret@camera",
            "",
            "cat",
            "exec",
            "exec:",
            "exec:  ",
            "http://x",
        ] {
            let error = wrong.parse::<EncoderSpec>().expect_err(wrong).to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
