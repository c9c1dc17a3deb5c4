//! The vehicle's parameters: a set of the size and the names of a real one.
//!
//! The tables are text, one family a line: a prefix (`-` for none), in which `{a..b}` stands for each number of a range and `{x,y}` for
//! each of a list (an empty one too), then `suffix=default` entries. The letter after a default is its MAVLink type: `b` INT8, `h`
//! INT16, `i` INT32; a default with a decimal point is REAL32.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mavlink::dialects::ardupilotmega::{MavMessage, MavParamType, PARAM_VALUE_DATA};

use super::Kind;

/// Parameters of ArduCopter 4.7-dev as counted in a download of the real firmware.
pub const PARAM_COUNT: usize = 1348;

/// Parameters sent at a time to who asked for all of them, and how often: 0.67 s for all, where ArduCopter was measured to take 0.7 s.
const BURST: usize = 20;
const BURST_EVERY: Duration = Duration::from_millis(10);

/// `param_index` of a value that is sent because it was set, as ArduPilot does.
const NO_INDEX: u16 = u16::MAX;

#[derive(Debug)]
struct Param {
    name: String,
    value: f32,
    kind: MavParamType,
}

/// All parameters, and the download that is going on.
#[derive(Debug)]
pub(super) struct Params {
    all: Vec<Param>,
    index: BTreeMap<String, usize>,
    download: Option<Download>,
}

#[derive(Debug)]
struct Download {
    next: usize,
    due: Instant,
}

impl Params {
    pub(super) fn new(kind: Kind) -> Self {
        let own = match kind {
            Kind::Copter => include_str!("copter.txt"),
            Kind::Plane => include_str!("plane.txt"),
        };
        let tables = [include_str!("common.txt"), own, include_str!("osd.txt")];
        let all: Vec<Param> = tables.iter().flat_map(|table| parse(table)).take(PARAM_COUNT).collect();
        let index = all.iter().enumerate().map(|(n, param)| (param.name.clone(), n)).collect();
        Self { all, index, download: None }
    }

    /// The value; zero when there is no such parameter.
    pub(super) fn value(&self, name: &str) -> f32 {
        self.index.get(name).map_or(0.0, |n| self.all[*n].value)
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.index.contains_key(name)
    }

    /// The value as a time; zero when it is negative.
    pub(super) fn seconds(&self, name: &str) -> Duration {
        Duration::try_from_secs_f32(self.value(name)).unwrap_or_default()
    }

    /// Sets a value, rounded to what its type can hold. `false`: no such parameter, or not a number.
    pub(super) fn set(&mut self, name: &str, value: f32) -> bool {
        let Some(n) = self.index.get(name).filter(|_| value.is_finite()) else { return false };
        let param = &mut self.all[*n];
        param.value = match param.kind {
            MavParamType::MAV_PARAM_TYPE_INT8 => value.round().clamp(i8::MIN.into(), i8::MAX.into()),
            MavParamType::MAV_PARAM_TYPE_INT16 => value.round().clamp(i16::MIN.into(), i16::MAX.into()),
            MavParamType::MAV_PARAM_TYPE_INT32 => value.round(),
            _ => value,
        };
        true
    }

    /// PARAM_VALUE as it answers a PARAM_SET.
    pub(super) fn message_after_set(&self, name: &str) -> Option<MavMessage> {
        self.index.get(name).map(|n| self.message(*n, NO_INDEX))
    }

    /// PARAM_VALUE as it answers a PARAM_REQUEST_READ: by index unless that is -1, otherwise by name.
    pub(super) fn message_for(&self, index: i16, name: &str) -> Option<MavMessage> {
        let n = match usize::try_from(index) {
            Ok(n) => n,
            Err(_) => *self.index.get(name)?,
        };
        (n < self.all.len()).then(|| self.message(n, n as u16))
    }

    /// Starts to send all of them, from the first, also when it was doing so already.
    pub(super) fn start_download(&mut self, now: Instant) {
        self.download = Some(Download { next: 0, due: now });
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.download.as_ref().map(|download| download.due)
    }

    /// Values that are due at `now`. `slowdown` is added between two bursts.
    pub(super) fn poll(&mut self, now: Instant, slowdown: Duration) -> Vec<MavMessage> {
        let Some(download) = self.download.as_mut().filter(|download| download.due <= now) else { return Vec::new() };
        let first = download.next;
        let last = (first + BURST).min(self.all.len());
        download.next = last;
        download.due = now + BURST_EVERY + slowdown;
        if last == self.all.len() {
            self.download = None;
        }
        (first..last).map(|n| self.message(n, n as u16)).collect()
    }

    fn message(&self, n: usize, index: u16) -> MavMessage {
        let param = &self.all[n];
        MavMessage::PARAM_VALUE(PARAM_VALUE_DATA {
            param_value: param.value,
            param_count: self.all.len() as u16,
            param_index: index,
            param_id: param.name.as_str().into(),
            param_type: param.kind,
        })
    }
}

/// All parameters of a table. The tables are part of the program and checked by the tests.
fn parse(table: &str) -> impl Iterator<Item = Param> {
    let lines = table.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.flat_map(|line| {
        let (prefix, entries) = line.split_once(' ').unwrap_or((line, ""));
        expand(prefix)
            .into_iter()
            .flat_map(move |prefix| entries.split_whitespace().filter_map(move |entry| param(&prefix, entry)))
    })
}

/// `RC{1..2}_` as `RC1_` and `RC2_`.
fn expand(prefix: &str) -> Vec<String> {
    let Some((head, choices, tail)) = split_braces(prefix) else {
        return vec![if prefix == "-" { String::new() } else { prefix.to_owned() }];
    };
    let join = |choice: &str| format!("{head}{choice}{tail}");
    match choices.split_once("..") {
        Some((first, last)) => {
            let number = |text: &str| text.parse::<u8>().unwrap_or_default();
            (number(first)..=number(last)).map(|n| join(&n.to_string())).collect()
        }
        None => choices.split(',').map(join).collect(),
    }
}

fn split_braces(text: &str) -> Option<(&str, &str, &str)> {
    let (head, rest) = text.split_once('{')?;
    let (choices, tail) = rest.split_once('}')?;
    Some((head, choices, tail))
}

fn param(prefix: &str, entry: &str) -> Option<Param> {
    let (suffix, default) = entry.split_once('=')?;
    let (digits, kind) = match default.chars().last()? {
        'b' => (&default[..default.len() - 1], MavParamType::MAV_PARAM_TYPE_INT8),
        'h' => (&default[..default.len() - 1], MavParamType::MAV_PARAM_TYPE_INT16),
        'i' => (&default[..default.len() - 1], MavParamType::MAV_PARAM_TYPE_INT32),
        _ => (default, MavParamType::MAV_PARAM_TYPE_REAL32),
    };
    Some(Param { name: format!("{prefix}{suffix}"), value: digits.parse().ok()?, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_have_exactly_as_many_as_the_real_one() {
        for kind in [Kind::Copter, Kind::Plane] {
            let params = Params::new(kind);
            assert_eq!(params.all.len(), PARAM_COUNT);
            assert_eq!(params.index.len(), PARAM_COUNT, "a name occurs twice");
            assert!(params.all.iter().all(|param| (1..=16).contains(&param.name.len())));
        }
    }

    #[test]
    fn every_entry_of_the_tables_is_understood() {
        for table in
            [include_str!("common.txt"), include_str!("copter.txt"), include_str!("plane.txt"), include_str!("osd.txt")]
        {
            let entries = |line: &str| expand(line.split(' ').next().unwrap()).len() * line.split(' ').skip(1).count();
            let written: usize = table.lines().filter(|line| !line.starts_with('#')).map(entries).sum();
            assert_eq!(parse(table).count(), written);
        }
    }

    #[test]
    fn ranges_and_lists_expand() {
        assert_eq!(expand("RC{9..10}_"), ["RC9_", "RC10_"]);
        assert_eq!(expand("ARSPD{,2}_"), ["ARSPD_", "ARSPD2_"]);
        assert_eq!(expand("-"), [""]);
    }

    #[test]
    fn values_are_kept_as_their_type_can_hold_them() {
        let mut params = Params::new(Kind::Copter);
        assert!(params.set("RTL_ALT", 2_000.4));
        assert_eq!(params.value("RTL_ALT"), 2_000.0);
        assert!(params.set("FS_GCS_ENABLE", 1e9));
        assert_eq!(params.value("FS_GCS_ENABLE"), 127.0);
        assert!(!params.set("NO_SUCH", 1.0));
        assert!(!params.set("RTL_ALT", f32::NAN));
    }

    #[test]
    fn a_download_takes_as_long_as_on_the_real_one() {
        let mut params = Params::new(Kind::Copter);
        let start = Instant::now();
        params.start_download(start);
        let mut names = Vec::new();
        let mut last = start;
        while let Some(due) = params.next_due() {
            last = due;
            names.extend(params.poll(due, Duration::ZERO));
        }
        assert_eq!(names.len(), PARAM_COUNT);
        assert_eq!(last - start, Duration::from_millis(670));
    }
}
