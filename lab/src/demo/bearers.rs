//! Several bearers: what each does, what copies cost, and what happens when one is cut.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aquila_net::node::NodeEvent;
use aquila_net::status::StatusSnapshot;
use aquila_proto::Side;
use serde::Serialize;
use tokio::sync::{mpsc, watch};

use super::commands::CommandLog;
use super::links::Links;
use super::ms;
use super::picture::PictureLog;
use super::relay::{LinkView, SharedView};

/// The cut begins after this share of the flight, and lasts for this share of it, in hundredths.
const CUT_AFTER: u32 = 40;
const CUT_FOR: u32 = 20;
/// It waits this share at most until all links are there: the point is to show what the loss of one does.
const WAIT: u32 = 10;
/// The cutter looks at the clock this often.
const LOOK: Duration = Duration::from_millis(10);
/// A command is to take no longer than 1.25 round trips and this.
const ALLOWANCE: Duration = Duration::from_millis(20);

/// The first picture is to be there this soon.
const PICTURE_WITHIN: Duration = Duration::from_millis(250);

/// What people call the bearer of this number.
pub fn name(number: usize) -> String {
    format!("lte-{}", char::from(b'a' + number as u8))
}

/// Something that happened to a node or a link.
#[derive(Debug)]
pub enum Happening {
    /// A node says so.
    Node(Side, NodeEvent),
    /// This bearer is cut, on purpose.
    Cut(String),
    /// It is there again.
    Returned(String),
}

/// One of several bearers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BearerReport {
    /// Its name.
    pub name: String,
    /// `up`, `stalled`, `lost` or `down`, as the aircraft has it.
    pub state: String,
    /// Its link is cut on purpose now.
    pub cut: bool,
    /// Round-trip time, smoothed.
    pub rtt_ms: Option<f64>,
    /// Share of the packets that the aircraft sent of late and that were lost, 0 to 1.
    pub loss: Option<f64>,
    /// What of the aircraft's takes it besides commands: `telemetry`, `video`.
    pub carries: Vec<&'static str>,
    /// Control messages that came by it first, from the aircraft and to it.
    pub control_first_up: u64,
    /// To the aircraft.
    pub control_first_down: u64,
    /// Bytes of UDP payload that the aircraft sent on it and got by it.
    pub bytes_up: u64,
    /// Got.
    pub bytes_down: u64,
}

/// What copies of control messages cost, both sides together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplicationReport {
    /// Copies sent beyond the first of each message.
    pub copies: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their share of all bytes that both sides sent, 0 to 1.
    pub share: Option<f64>,
    /// Copies that came after another had been delivered.
    pub duplicates: u64,
    /// Times that telemetry or video took another bearer.
    pub reroutes: u64,
}

/// How commands and pictures fared while a bearer was cut.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CutReport {
    /// The bearer; it carried video until then.
    pub bearer: String,
    /// When, since the start.
    pub at_s: f64,
    /// How long; `null` if it did not end.
    pub lasted_s: Option<f64>,
    /// Commands of both directions sent during the cut, or less than a round trip before it.
    pub commands: usize,
    /// The longest that one took, counted from when another link could take it.
    pub worst_command_ms: Option<f64>,
    /// What it should take at most: 1.25 round trips of the nearest other link, and 20 ms.
    pub bound_ms: f64,
    /// How many took longer.
    pub commands_beyond: usize,
    /// From the cut to the first picture shown that was filmed after it, which has come another way.
    pub first_picture_ms: Option<f64>,
    /// What that should be at most.
    pub picture_bound_ms: f64,
}

/// Number of the bearer that carries the aircraft's video.
pub fn video_carrier(air: &StatusSnapshot) -> Option<usize> {
    air.bearers.iter().position(|bearer| bearer.carries_video)
}

/// Each bearer.
pub fn report(links: &Links, air: &StatusSnapshot, ground: &StatusSnapshot) -> Vec<BearerReport> {
    let bearers = air.bearers.iter().map(|bearer| {
        let there = ground.bearers.iter().find(|there| there.number == bearer.number);
        let link = (0..).zip(links.views()).find(|(number, _)| name(*number) == bearer.name);
        let carries = [("telemetry", bearer.carries_telemetry), ("video", bearer.carries_video)];
        BearerReport {
            name: bearer.name.clone(),
            state: bearer.state.clone(),
            cut: link.is_some_and(|(_, view)| view.is_cut()),
            rtt_ms: bearer.rtt_ms.map(|rtt| (rtt * 100.0).round() / 100.0),
            loss: bearer.loss,
            carries: carries.into_iter().filter(|(_, carries)| *carries).map(|(class, _)| class).collect(),
            control_first_up: there.map_or(0, |there| there.control_won),
            control_first_down: bearer.control_won,
            bytes_up: bearer.bytes_out,
            bytes_down: bearer.bytes_in,
        }
    });
    bearers.collect()
}

impl ReplicationReport {
    /// As the two sides say.
    pub fn new(air: &StatusSnapshot, ground: &StatusSnapshot) -> Self {
        let both = [air, ground];
        let sum = |of: fn(&StatusSnapshot) -> u64| both.into_iter().map(of).sum::<u64>();
        let bytes = sum(|side| side.replication.redundant_bytes);
        let all = sum(|side| side.bearers.iter().map(|bearer| bearer.bytes_out).sum());
        Self {
            copies: sum(|side| side.replication.copies),
            bytes,
            share: (all > 0).then(|| (bytes as f64 / all as f64 * 1e4).round() / 1e4),
            duplicates: sum(|side| side.replication.duplicates),
            reroutes: sum(|side| side.replication.reroutes),
        }
    }
}

impl CutReport {
    /// Of the cut, if there was one.
    pub fn new(started: Instant, links: &Links, commands: &CommandLog, pictures: &PictureLog) -> Option<Self> {
        let cuts = links.views().iter().enumerate().filter_map(|(number, view)| Some((number, *view.cuts.first()?)));
        let (number, (begin, end)) = cuts.min_by_key(|(_, (begin, _))| *begin)?;
        let (cut, others) = (Links::from(links.views()[number].clone()), links.without(number));
        let until = end.unwrap_or_else(Instant::now);
        let mut report = Self {
            bearer: name(number),
            at_s: (ms(begin - started) / 10.0).round() / 100.0,
            lasted_s: end.map(|end| (ms(end - begin) / 10.0).round() / 100.0),
            commands: 0,
            worst_command_ms: None,
            bound_ms: ms(bound(&others, begin)),
            commands_beyond: 0,
            first_picture_ms: pictures.first_shown(begin).map(|shown| ms(shown - begin)),
            picture_bound_ms: ms(PICTURE_WITHIN),
        };
        for side in [Side::Air, Side::Ground] {
            // Those that were on their way are lost on the bearer that was cut, too.
            for (sent, arrived) in commands.sent_within(side, begin - cut.round_trip(begin), until) {
                report.commands += 1;
                let Some(arrived) = arrived else {
                    // Lost, which is later than any.
                    report.commands_beyond += 1;
                    continue;
                };
                let left = others.earliest(side, sent) - others.propagation(side, sent);
                let took = arrived.saturating_duration_since(left);
                report.commands_beyond += usize::from(took > bound(&others, left));
                let worst = report.worst_command_ms.get_or_insert(0.0);
                *worst = worst.max(ms(took));
            }
        }
        Some(report)
    }
}

/// The longest that a command is to take.
fn bound(links: &Links, at: Instant) -> Duration {
    links.round_trip(at) * 5 / 4 + ALLOWANCE
}

/// Cuts the bearer that carries video, and mends it.
pub struct Cutter {
    /// When the flight began.
    pub started: Instant,
    /// How long it will be.
    pub flight: Duration,
    /// Each bearer's link, in the order of the aircraft's bearers.
    pub views: Vec<SharedView>,
    /// Which bearer carries what.
    pub air: watch::Receiver<StatusSnapshot>,
    /// Where to tell of it.
    pub tell: mpsc::Sender<Happening>,
    /// Set at the end of the flight.
    pub stop: Arc<AtomicBool>,
}

impl Cutter {
    /// Runs until the end of the flight; blocks its thread.
    pub fn run(self) {
        let share = |hundredths: u32| self.flight * hundredths / 100;
        let due = self.started + share(CUT_AFTER);
        let latest = due + share(WAIT);
        self.wait(|now| now >= latest || now >= due && self.all_there());
        let carrier = video_carrier(&self.air.borrow()).unwrap_or(0);
        let Some(link) = self.views.get(carrier).filter(|_| !self.is_over()) else { return };
        let begin = Instant::now();
        lock(link).cuts.push((begin, None));
        let _ = self.tell.try_send(Happening::Cut(name(carrier)));
        self.wait(|now| now >= begin + share(CUT_FOR));
        if self.is_over() {
            // The flight ended in the cut.
            return;
        }
        if let Some((_, end)) = lock(link).cuts.last_mut() {
            *end = Some(Instant::now());
        }
        let _ = self.tell.try_send(Happening::Returned(name(carrier)));
        // A part that ends before the flight counts as broken.
        self.wait(|_| false);
    }

    /// Waits for this or for the end of the flight.
    fn wait(&self, come: impl Fn(Instant) -> bool) {
        while !self.is_over() && !come(Instant::now()) {
            std::thread::sleep(LOOK);
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn all_there(&self) -> bool {
        !self.views.iter().any(|view| lock(view).is_out())
    }
}

fn lock(view: &SharedView) -> MutexGuard<'_, LinkView> {
    view.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_judged_by_what_the_other_link_can_do() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let view =
            |ms| LinkView { delays: [(); 2].map(|()| vec![(start, Duration::from_millis(ms))]), ..LinkView::default() };
        let (mut near, far) = (view(30), view(50));
        let log = CommandLog::default();
        for (sent, arrived) in [(900, 930), (980, 1_032), (1_100, 1_250), (2_100, 2_900)] {
            let number = log.on_sent(Side::Ground, at(sent));
            log.on_arrived(Side::Ground, number, at(arrived));
        }
        log.on_sent(Side::Air, at(1_500));
        let pictures = PictureLog::default();
        let report =
            |near: &LinkView| CutReport::new(start, &Links::new(vec![near.clone(), far.clone()]), &log, &pictures);
        assert_eq!(report(&near), None);
        near.cuts = vec![(at(1_000), Some(at(2_000)))];
        let report = report(&near).unwrap();
        assert_eq!((report.bearer.as_str(), report.at_s, report.lasted_s), ("lte-a", 1.0, Some(1.0)));
        assert_eq!((report.commands, report.commands_beyond), (3, 2), "one late, one lost");
        assert_eq!((report.worst_command_ms, report.bound_ms), (Some(150.0), 145.0));
        assert_eq!(report.first_picture_ms, None);
    }
}
