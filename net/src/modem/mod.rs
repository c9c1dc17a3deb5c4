//! The modem that the link goes through: which cell it is in and how well it hears it, looked at each second.
//!
//! Whatever the modem does, the link goes on: it is asked beside the node's loop, with a time limit, and what it says only
//! makes the controller more or less careful.

mod at;
mod mmcli;
mod script;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use aquila_proto::cc::Radio;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

pub use at::parse_answer;
pub use mmcli::parse_json;
pub use script::{Script, ScriptError};

/// How a modem is asked: `mmcli:NUMBER`, through ModemManager, `at:DEVICE`, by AT commands, or `file:PATH`, a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModemSpec {
    /// ModemManager's modem of this number or path, or `any`.
    ModemManager(String),
    /// A serial line that takes AT commands.
    At(PathBuf),
    /// A file that says what a modem would, by time.
    File(PathBuf),
}

/// Why a text does not say how to ask a modem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no modem: write mmcli:0 for the modem that `mmcli -L` numbers so (or mmcli:any), at:/dev/ttyUSB2 for one that takes AT \
     commands there, or file:PATH for a script"
)]
pub struct ParseModemError(String);

impl FromStr for ModemSpec {
    type Err = ParseModemError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_index = |index: &str| index == "any" || !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit());
        match text.split_once(':') {
            Some(("mmcli", index)) if is_index(index) => Ok(Self::ModemManager(index.to_owned())),
            Some(("at", path)) if path.starts_with('/') => Ok(Self::At(path.into())),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            _ => Err(ParseModemError(text.to_owned())),
        }
    }
}

impl fmt::Display for ModemSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ModemManager(index) => write!(f, "mmcli:{index}"),
            Self::At(path) => write!(f, "at:{}", path.display()),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// For one of them; one that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(3);
/// News that wait for the node; more are dropped, the next second brings others.
const WAITING: usize = 4;

/// Starts to look at a modem; must be called within a tokio runtime. It ends when the receiver is dropped.
pub fn watch(spec: &ModemSpec) -> mpsc::Receiver<Radio> {
    let (news, receiver) = mpsc::channel(WAITING);
    match spec {
        ModemSpec::ModemManager(index) => drop(tokio::spawn(watch_modem_manager(index.clone(), news))),
        ModemSpec::At(path) => drop(tokio::spawn(watch_at(path.clone(), news))),
        ModemSpec::File(path) => drop(tokio::spawn(watch_file(path.clone(), news))),
    }
    receiver
}

/// Hands on what a look brought; logs when looks begin to fail and when they succeed again. `false`: nobody listens.
#[derive(Debug)]
struct Watch {
    name: String,
    news: mpsc::Sender<Radio>,
    is_failing: bool,
    known: Radio,
}

impl Watch {
    fn new(spec: &ModemSpec, news: mpsc::Sender<Radio>) -> Self {
        Self { name: spec.to_string(), news, is_failing: false, known: Radio::default() }
    }

    fn report(&mut self, look: Result<Radio, String>) -> bool {
        match look {
            Ok(radio) => {
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!(modem = self.name, "the modem answers again");
                }
                let before = self.known;
                self.known = before.updated(&radio);
                if self.known.cell != before.cell {
                    let Radio { cell, rsrp_dbm, rsrq_db, sinr_db, .. } = self.known;
                    tracing::info!(modem = self.name, cell, rsrp_dbm, rsrq_db, sinr_db, "another cell");
                }
                let _ = self.news.try_send(radio);
            }
            Err(error) if !self.is_failing => {
                self.is_failing = true;
                let hint = "the link works without; trying on";
                tracing::warn!(modem = self.name, error, "the modem does not say how it hears the network: {hint}");
            }
            Err(error) => tracing::debug!(modem = self.name, error, "the modem still does not answer"),
        }
        !self.news.is_closed()
    }
}

async fn watch_modem_manager(index: String, news: mpsc::Sender<Radio>) {
    let mut watch = Watch::new(&ModemSpec::ModemManager(index.clone()), news);
    let mut is_set_up = false;
    let mut next = Instant::now();
    loop {
        let look = mmcli::look(mmcli::PROGRAM, &index, &mut is_set_up, PATIENCE).await;
        if !watch.report(look) {
            return;
        }
        next = (next + INTERVAL).max(Instant::now());
        sleep_until(next).await;
    }
}

async fn watch_at(path: PathBuf, news: mpsc::Sender<Radio>) {
    let mut watch = Watch::new(&ModemSpec::At(path.clone()), news);
    let mut port = None;
    let mut next = Instant::now();
    loop {
        let look = at::look(&path, &mut port, PATIENCE).await;
        if !watch.report(look) {
            return;
        }
        next = (next + INTERVAL).max(Instant::now());
        sleep_until(next).await;
    }
}

async fn watch_file(path: PathBuf, news: mpsc::Sender<Radio>) {
    let mut watch = Watch::new(&ModemSpec::File(path.clone()), news);
    let script = loop {
        match script::read(&path) {
            Ok(script) => break script,
            Err(error) => {
                if !watch.report(Err(error)) {
                    return;
                }
                sleep(INTERVAL).await;
            }
        }
    };
    let began = Instant::now();
    let mut steps = script.steps().iter().peekable();
    let mut known = Radio::default();
    loop {
        // As a modem that is asked, it tells again what has not changed: what is not told again is forgotten.
        let step = steps.peek().map_or(INTERVAL, |(at, _)| at.saturating_sub(began.elapsed()));
        tokio::select! {
            () = sleep(step.min(INTERVAL)) => {}
            () = watch.news.closed() => return,
        }
        let step = steps.next_if(|(at, _)| *at <= began.elapsed());
        known = step.map_or(known, |(_, radio)| known.updated(radio));
        if !watch.report(Ok(known)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[test]
    fn a_spec_is_read_as_it_is_written() {
        for text in ["mmcli:0", "mmcli:any", "at:/dev/ttyUSB2", "file:flight.modem"] {
            let spec: ModemSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
        }
        for wrong in ["", "mmcli:", "mmcli:-L", "mmcli:0 -v", "at:ttyUSB2", "file:", "/dev/ttyUSB2"] {
            assert!(wrong.parse::<ModemSpec>().is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_script_is_played_and_a_missing_one_holds_nobody_up() {
        let path = std::env::temp_dir().join(format!("aquila-modem-{}", std::process::id()));
        std::fs::write(&path, "# time, then what is known\n0 cell=1 rsrp=-90\n0.05 cell=2 sinr=-1.5\n").unwrap();
        let mut news = watch(&ModemSpec::File(path.clone()));
        assert_eq!(news.recv().await, Some(Radio { cell: Some(1), rsrp_dbm: Some(-90.0), ..Radio::default() }));
        let both = Radio { cell: Some(2), rsrp_dbm: Some(-90.0), sinr_db: Some(-1.5), ..Radio::default() };
        assert_eq!(news.recv().await, Some(both), "what was known still is");
        std::fs::remove_file(&path).unwrap();
        drop(watch(&ModemSpec::File(path)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_script_says_once_is_told_each_second() {
        let path = std::env::temp_dir().join(format!("aquila-modem-again-{}", std::process::id()));
        std::fs::write(&path, "0 cell=1 rsrp=-90\n2.5 rsrp=-121\n1e18 cell=2\n").unwrap();
        let mut news = watch(&ModemSpec::File(path.clone()));
        let began = Instant::now();
        let cell = Some(1);
        for (ms, cell, rsrp) in [
            (0, cell, -90.0),
            (1000, cell, -90.0),
            (2000, cell, -90.0),
            (2500, cell, -121.0),
            (3500, cell, -121.0),
            (4500, cell, -121.0),
        ] {
            let told = timeout(INTERVAL * 2, news.recv()).await.expect("it goes on telling");
            assert_eq!(told, Some(Radio { cell, rsrp_dbm: Some(rsrp), ..Radio::default() }), "{ms}");
            let late = began.elapsed().saturating_sub(Duration::from_millis(ms));
            assert!(late < Duration::from_millis(20), "{ms}: {late:?}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[tokio::test]
    async fn what_is_no_modem_is_asked_in_vain_and_holds_nobody_up() {
        let mut port = None;
        assert!(at::look("/dev/null".as_ref(), &mut port, Duration::from_millis(200)).await.is_err());
        assert!(at::look("/nowhere/at/all".as_ref(), &mut port, PATIENCE).await.is_err());
        let mut is_set_up = true;
        let look = mmcli::look(mmcli::PROGRAM, "4711", &mut is_set_up, PATIENCE).await;
        assert!(look.is_err(), "{look:?}");
    }
}
