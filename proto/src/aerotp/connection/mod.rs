//! One connection: its state, and when it has something to say [AeroTP figure 6, table II].
//!
//! CLOSED and LISTEN are not here: a connection that is closed is not there, and who listens is known to the
//! [endpoint](super::Endpoint). Data may ride on the first segment, and the connection is built from any early one: all of
//! them carry ASYN until the other side is heard, the lower half of a first sequence number is zero, and both directions
//! begin at the same number.

mod receiver;
mod repairs;
mod sender;
mod timer;

use std::time::{Duration, Instant};

use bytes::Bytes;

pub use receiver::Piece;
pub(super) use receiver::{Receiver, Repair, Verdict};
pub(super) use repairs::{AROUND as AROUND_REPAIR, COVERED};
use repairs::{Coder, Mender};
pub(super) use sender::{Kept, Progress, Sender};
pub(super) use timer::Timer;

use super::guard::Place;
use super::rtt::Rtt;
use super::{Port, Seq, TransferMode};
use aquila_fec::rlc::RepairHeader;

/// A MACK leaves when this many segments have come (reliable, near-reliable).
const ACK_EVERY: usize = 4;
const CUSTODY_ACK_EVERY: usize = 32;
/// Or when the first has waited this long, and a quarter of a round trip; or this long in near-reliable mode.
const ACK_DELAY: Duration = Duration::from_millis(10);
const CUSTODY_ACK_DELAY: Duration = Duration::from_millis(100);
/// Chance below which all of as many repetitions are lost that closing waits for.
const CLOSE_FAILS: f64 = 1e-6;
/// Repetitions that closing waits for at least and at most.
const CLOSE_REPEATS: std::ops::RangeInclusive<u32> = 4..=60;

/// Names a connection of an endpoint; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub(super) u64);

/// What a connection is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionConfig {
    /// How it deals with loss. Both ends have to have the same.
    pub mode: TransferMode,
    /// Connections with a lower number are served first.
    pub priority: u8,
    /// Messages may share segments, and longer ones are cut: a stream. Else each message has a segment of its own, and has
    /// to fit it.
    pub stream: bool,
    /// Given out in order. Else as they come.
    pub ordered: bool,
    /// How long what has overtaken waits, in modes that repair nothing by repetition. In quasi-reliable mode what was lost may
    /// come back that much later.
    pub hold: Duration,
    /// Each segment leaves on all lines there are.
    pub everywhere: bool,
}

impl ConnectionConfig {
    /// A stream of bytes in order.
    pub const fn stream(mode: TransferMode) -> Self {
        let hold = Duration::from_millis(if matches!(mode, TransferMode::QuasiReliable) { 250 } else { 20 });
        Self { mode, priority: 4, stream: true, ordered: true, hold, everywhere: false }
    }

    /// Messages that are independent of each other.
    pub const fn messages(mode: TransferMode) -> Self {
        Self { mode, priority: 4, stream: false, ordered: false, hold: Duration::ZERO, everywhere: false }
    }

    /// Served in this order.
    #[must_use]
    pub const fn with_priority(self, priority: u8) -> Self {
        Self { priority, ..self }
    }

    /// Whether what is lost is sent again.
    pub(super) fn repeats(&self) -> bool {
        matches!(self.mode, TransferMode::Reliable | TransferMode::NearReliable)
    }
}

/// Where a connection is [AeroTP table II].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// ASYN has been sent, with or without data, and nothing was heard yet.
    AsynSent,
    /// Data goes both ways.
    Established,
    /// We have closed, and wait for AFINACK.
    AfinSent,
    /// The other side has closed; what it still repeats is answered until the time-out.
    AfinReceived,
}

/// Why a connection is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// Both sides have all there was.
    #[error("closed")]
    Done,
    /// We closed, and the other side did not confirm in time that it has everything.
    #[error("closed without the other side's word that it has everything")]
    Unconfirmed,
    /// The other side does not know the connection, or gave it up (ARST).
    #[error("the other side reset the connection")]
    Reset,
    /// The other side has restarted.
    #[error("the other side has restarted")]
    PeerRestarted,
}

/// What closing is about.
#[derive(Debug, Clone, Copy)]
struct Closing {
    /// When AFIN leaves, for the first time or again.
    due: Option<Instant>,
    /// When it is given up, if nothing is heard.
    until: Option<Instant>,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub id: ConnectionId,
    pub config: ConnectionConfig,
    pub local: Port,
    pub remote: Port,
    pub state: State,
    pub sender: Sender,
    pub receiver: Receiver,
    /// In quasi-reliable mode, when there is something to repair.
    pub coder: Option<Box<Coder>>,
    mender: Option<Box<Mender>>,
    /// We opened it.
    pub initiated: bool,
    /// Something of the other side's has come.
    pub heard: bool,
    /// Timestamp that is to be echoed, and when it came.
    echo: Option<(u32, Instant)>,
    ack_due: Option<Instant>,
    /// It is an answer to ASYN.
    ack_syn: bool,
    asyn_due: Option<Instant>,
    asyn_wait: Duration,
    closing: Option<Closing>,
    /// The other side has said that it ends here.
    peer_end: Option<Seq>,
    /// AFINACK is to be sent.
    afin_ack: bool,
    listen_until: Option<Instant>,
    /// The other side is to be asked whether it takes more.
    pub probe: bool,
    /// Newest segment of it, for the guard against old ones.
    pub newest: Place,
    newest_mack: Place,
}

/// What becomes of the order of segments on their way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disorder {
    /// So many may overtake another on a line before it counts as lost.
    pub segments: u64,
    /// A gap is told of, or given up, after so long at the earliest.
    pub patience: Duration,
    /// Ways that segments may take.
    pub lines: usize,
}

impl Connection {
    /// `first`: the first sequence number of both directions, its lower half zero.
    pub fn new(
        now: Instant,
        id: ConnectionId,
        config: ConnectionConfig,
        (local, remote): (Port, Port),
        first: Seq,
        initiated: bool,
        disorder: Disorder,
    ) -> Self {
        // Extended numbers begin above zero, so that older ones have one as well.
        let first = u64::from(first.0) | 1 << 32;
        let (reordering, patience) = match config.mode {
            TransferMode::NearReliable => (None, disorder.patience),
            _ => (Some(disorder.segments), Duration::ZERO),
        };
        // What was overtaken is none that comes too late.
        let repair = if config.repeats() { Repair::Again } else { Repair::Never(config.hold.max(disorder.patience)) };
        Self {
            id,
            config,
            local,
            remote,
            state: if initiated { State::AsynSent } else { State::Established },
            sender: Sender::new(first, config.stream, reordering, disorder.lines),
            receiver: Receiver::new(first, repair, config.ordered, patience),
            coder: None,
            mender: None,
            initiated,
            heard: !initiated,
            echo: None,
            ack_due: (!initiated).then_some(now),
            ack_syn: !initiated,
            asyn_due: initiated.then_some(now),
            asyn_wait: Duration::ZERO,
            closing: None,
            peer_end: None,
            afin_ack: false,
            listen_until: None,
            probe: false,
            newest: (0, 0),
            newest_mack: (0, 0),
        }
    }

    /// Segments carry ASYN until the other side is heard.
    pub fn carries_asyn(&self) -> bool {
        !self.heard
    }

    /// More may be sent.
    pub fn is_open(&self) -> bool {
        self.closing.is_none() && self.peer_end.is_none()
    }

    /// An authentic segment of the other side's has come.
    pub fn on_word(&mut self, place: Place) {
        self.heard = true;
        self.newest = self.newest.max(place);
        self.asyn_due = None;
        if self.state == State::AsynSent {
            self.state = if self.closing.is_some() { State::AfinSent } else { State::Established };
        }
    }

    /// Data has come; `syn`: the other side does not hear us yet.
    pub fn on_data(&mut self, now: Instant, arrival: Data, times: &Times) -> Verdict {
        let Data { seq, timestamp, push, syn, bytes } = arrival;
        let gaps = self.receiver.has_gap();
        if self.config.mode == TransferMode::QuasiReliable {
            self.mender.get_or_insert_with(|| Box::new(Mender::new())).on_segment(seq.0, push, &bytes);
        }
        let verdict = self.receiver.on_segment(now, seq, push, bytes);
        if self.config.repeats() {
            self.echo = self.echo.or(Some((timestamp, now)));
            self.plan_ack(now, times, !gaps && self.receiver.has_gap());
        }
        if syn && self.ack_due.is_none() {
            self.ack_due = Some(now + self.ack_delay(times));
        }
        self.on_maybe_complete(now);
        verdict
    }

    /// A repair segment has come, or a segment with which an earlier one tells more: what comes back is counted.
    pub fn mend(&mut self, now: Instant, repair: Option<(RepairHeader, &[u8])>) -> u64 {
        let Some(mender) = &mut self.mender else { return 0 };
        if let Some((header, coded)) = repair {
            mender.on_repair(header, coded);
        }
        let mut count = 0;
        while let Some((number, push, payload)) = mender.poll() {
            self.receiver.on_recovered(now, Seq(number), push, Bytes::copy_from_slice(payload));
            count += 1;
        }
        count
    }

    /// A new segment of a quasi-reliable connection leaves.
    pub fn cover(&mut self, now: Instant, line: usize, push: bool, payload: &[u8], share: f64) {
        let first = self.sender.next();
        let coder = self.coder.get_or_insert_with(|| Box::new(Coder::new(first)));
        coder.on_segment(now, line, push, payload, share);
    }

    /// A repair segment is due.
    pub fn repair_due(&self) -> bool {
        self.coder.as_ref().is_some_and(|coder| coder.is_due())
    }

    fn plan_ack(&mut self, now: Instant, times: &Times, new_gap: bool) {
        let every = if self.config.mode == TransferMode::NearReliable { CUSTODY_ACK_EVERY } else { ACK_EVERY };
        let delay = self.ack_delay(times);
        let at_once = new_gap || self.receiver.fresh() >= every;
        let due = if at_once { now } else { now + delay };
        self.ack_due = Some(self.ack_due.map_or(due, |planned| planned.min(due)));
    }

    /// The application takes what has come.
    pub fn read(&mut self, now: Instant) -> Option<Piece> {
        let piece = self.receiver.read();
        if self.config.repeats() && self.receiver.has_reopened() {
            self.ack_due = Some(now);
        }
        piece
    }

    /// A segment has come damaged; its header is intact.
    pub fn on_damaged(&mut self, now: Instant, seq: Seq) {
        if self.config.repeats() && self.receiver.on_damaged(seq) {
            self.ack_due = Some(now);
        }
    }

    /// ASYN without data has come, or one again.
    pub fn on_asyn(&mut self, now: Instant) {
        self.ack_due = Some(now);
        self.ack_syn = true;
    }

    /// The other side asks whether more is taken.
    pub fn on_probe(&mut self, now: Instant) {
        if self.config.repeats() {
            self.ack_due = Some(now);
        }
    }

    /// A MACK that is not older than one before: its options count. Its ACK numbers always do.
    pub fn is_newest_mack(&mut self, place: Place) -> bool {
        let newest = place > self.newest_mack;
        self.newest_mack = self.newest_mack.max(place);
        newest
    }

    /// The other side says that it sends nothing from `end` on.
    pub fn on_afin(&mut self, now: Instant, end: Seq) {
        self.peer_end = Some(end);
        self.afin_ack |= self.state == State::AfinReceived;
        self.on_maybe_complete(now);
        if !self.afin_ack {
            // It repeats what is missing if it hears of it.
            self.ack_due = Some(now);
        }
    }

    /// Where the other side said that it ends.
    pub fn peer_end(&self) -> Option<Seq> {
        self.peer_end
    }

    /// Everything that the other side sent is there, and it has closed: it is told so, and that is the end if we have nothing
    /// more to send either.
    fn on_maybe_complete(&mut self, now: Instant) {
        let complete = match self.config.repeats() {
            true => self.peer_end.is_some_and(|end| self.receiver.has_all_before(end)),
            false => self.peer_end.is_some(),
        };
        if complete && self.state != State::AfinReceived && self.sender.is_done() {
            self.state = State::AfinReceived;
            self.afin_ack = true;
            self.listen_until = None;
            self.ack_due = Some(now);
        }
    }

    /// ACK numbers of a MACK.
    pub fn on_acks(&mut self, now: Instant, rtt: &Rtt, before: Seq, others: impl Iterator<Item = Seq>) -> Progress {
        let progress = self.sender.on_acks(now, rtt, before, others);
        if progress.segments > 0
            && let Some(closing) = &mut self.closing
        {
            closing.until = None;
        }
        self.on_maybe_complete(now);
        progress
    }

    /// We have nothing more to send.
    pub fn close(&mut self, now: Instant) {
        if self.closing.is_none() && self.state != State::AfinReceived {
            if let Some(coder) = self.coder.as_mut().filter(|_| !self.sender.has_new()) {
                coder.on_quiet();
            }
            self.closing = Some(Closing { due: Some(now), until: None });
            if self.state == State::Established {
                self.state = State::AfinSent;
            }
        }
    }

    /// AFIN is due: all new segments have left. It says how many there were.
    pub fn afin_due(&self, now: Instant) -> bool {
        self.afin_at(now).is_some_and(|due| due <= now)
    }

    fn afin_at(&self, now: Instant) -> Option<Instant> {
        let closing = self.closing.filter(|_| !self.sender.has_new() && self.sender.waiting_bytes() == 0)?;
        closing.due.map(|due| if self.heard || self.initiated { due } else { now })
    }

    pub fn on_afin_sent(&mut self, now: Instant, rtt: &Rtt, loss: f64) {
        let again = rtt.timeout(Duration::ZERO);
        let held = self.held_word();
        if let Some(closing) = &mut self.closing {
            closing.due = Some(now + again);
            closing.until = closing.until.or(Some(now + close_time(rtt, loss, held)));
        }
    }

    /// How long word of what was sent last may be held back; what was lost with it is not repeated sooner.
    fn held_word(&self) -> Duration {
        match self.config.mode {
            TransferMode::NearReliable => CUSTODY_ACK_DELAY,
            _ => Duration::ZERO,
        }
    }

    /// A MACK is due.
    pub fn ack_due(&self, now: Instant) -> bool {
        self.ack_due.is_some_and(|due| due <= now)
    }

    /// What a MACK that leaves now is: flags ASYN and AFIN of it.
    pub fn on_ack_sent(&mut self, now: Instant, rtt: &Rtt, loss: f64) -> (bool, bool) {
        self.ack_due = None;
        let syn = std::mem::take(&mut self.ack_syn);
        let fin = std::mem::take(&mut self.afin_ack);
        let held = self.held_word();
        if fin {
            // Twice as long as the other side goes on asking.
            self.listen_until = self.listen_until.or(Some(now + 2 * close_time(rtt, loss, held)));
        }
        (syn, fin)
    }

    /// The timestamp to echo, and how long it was held.
    pub fn take_echo(&mut self, now: Instant) -> Option<(u32, Duration)> {
        let (timestamp, at) = self.echo.take()?;
        Some((timestamp, now.saturating_duration_since(at)))
    }

    /// ASYN is due without data to carry it.
    pub fn asyn_due(&self, now: Instant) -> bool {
        self.asyn_due.is_some_and(|due| due <= now)
    }

    /// A segment with ASYN has left: the next one that carries no data leaves later, each time twice as much.
    pub fn on_asyn_sent(&mut self, now: Instant, rtt: &Rtt) {
        let least = Duration::from_millis(20).max(rtt.smoothed());
        self.asyn_wait = (self.asyn_wait * 2).clamp(least, Duration::from_secs(2).max(least));
        self.asyn_due = Some(now + self.asyn_wait);
    }

    /// When to do what.
    pub fn deadline(&mut self, now: Instant, timer: Timer, times: &Times) -> Option<Instant> {
        match timer {
            Timer::Acknowledge => self.ack_due,
            Timer::TellHoles => match self.config.mode {
                TransferMode::NearReliable => self.receiver.holes_due(),
                _ => None,
            },
            Timer::Repeat => {
                let timeout = self.timeout(times);
                match self.config.mode {
                    TransferMode::NearReliable => self.sender.next_reminder(timeout),
                    _ => self.sender.next_deadline(timeout),
                }
            }
            Timer::Probe => self.sender.next_probe(self.timeout(times)).filter(|_| !self.probe),
            Timer::Release => self.receiver.next_deadline(),
            Timer::Cover => self.coder.as_ref().and_then(|coder| coder.quiet_at()),
            Timer::Asyn => self.asyn_due.filter(|_| !self.sender.has_new()),
            Timer::Afin => self.afin_at(now),
            Timer::Close => self.closing.and_then(|closing| closing.until),
            Timer::Listen => self.listen_until,
        }
    }

    /// How long an acknowledgement waits for others. A message of its own is acknowledged soon, since it may be all there is; a
    /// stream's MACK, which on a slow line takes long, at most a quarter of the time.
    fn ack_delay(&self, times: &Times) -> Duration {
        let soon = ACK_DELAY.min(times.rtt.smoothed() / 4);
        match self.config.mode {
            TransferMode::NearReliable => CUSTODY_ACK_DELAY.max(times.mack * 4),
            _ if self.config.stream => soon.max(times.mack * 4),
            _ => soon,
        }
    }

    /// Without word for this long a transmission is lost. Of a stream the word of two MACKs may be lost.
    fn timeout(&self, times: &Times) -> Duration {
        let held = self.ack_delay(times);
        times.rtt.timeout(if self.config.stream { held * 3 } else { held })
    }

    /// A time has come; gives the end of the connection if it is one.
    pub fn on_timer(&mut self, now: Instant, timer: Timer, times: &Times) -> Option<Closed> {
        match timer {
            // They are served with the next transmission.
            Timer::Acknowledge | Timer::Asyn | Timer::Afin => None,
            Timer::TellHoles => {
                self.ack_due = Some(now);
                None
            }
            Timer::Repeat => {
                match self.config.mode {
                    TransferMode::NearReliable => self.sender.remind(),
                    _ => self.sender.on_timeout(now, self.timeout(times)),
                }
                None
            }
            Timer::Probe => {
                self.probe = true;
                None
            }
            Timer::Release => {
                self.receiver.on_timeout(now);
                None
            }
            Timer::Cover => {
                if let Some(coder) = &mut self.coder {
                    coder.on_quiet();
                }
                None
            }
            Timer::Close => Some(if self.config.repeats() { Closed::Unconfirmed } else { Closed::Done }),
            Timer::Listen => Some(Closed::Done),
        }
    }

    /// AFINACK has come.
    pub fn on_afin_ack(&mut self) -> Option<Closed> {
        self.closing?;
        Some(if self.sender.is_done() { Closed::Done } else { Closed::Unconfirmed })
    }
}

/// How long things take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub rtt: Rtt,
    /// A MACK on the slowest line.
    pub mack: Duration,
}

/// Data that has come.
#[derive(Debug)]
pub(super) struct Data {
    pub seq: Seq,
    pub timestamp: u32,
    pub push: bool,
    pub syn: bool,
    pub bytes: Bytes,
}

/// How long closing goes on when nothing is heard: for as many repetitions that all of them are hardly lost.
fn close_time(rtt: &Rtt, loss: f64, held: Duration) -> Duration {
    let loss = loss.clamp(1e-3, 0.95);
    let repeats = (CLOSE_FAILS.ln() / loss.ln()).ceil() as u32;
    rtt.timeout(held) * repeats.clamp(*CLOSE_REPEATS.start(), *CLOSE_REPEATS.end())
}
