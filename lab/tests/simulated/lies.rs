//! A ground whose reports on what arrives are wrong, and which is well otherwise: the aircraft's end flies on with it, and says so.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aquila_emu::{Path, PathConfig, Queue};
use aquila_lab::frames;
use aquila_proto::identity::Identity;
use aquila_proto::mavlink::Frame;
use aquila_proto::quic::{BearerEvent, MemoryTickets, QuicBearer, QuicConfig};
use aquila_proto::seeded::SeededBytes;
use aquila_proto::session::{self, ReportFault};
use aquila_proto::video::FragmentHeader;
use aquila_proto::wire::datagram::{DatagramHeader, Heartbeat, unwrap_seq};
use aquila_proto::wire::feedback::{Arrival, Feedback};
use aquila_proto::wire::history::History;
use aquila_proto::wire::message::{MessageHeader, take_copy};
use aquila_proto::wire::{flow, varint::take_varint};
use aquila_proto::{BearerId, Event, FrameTurn, Output, Session, SessionConfig, Side};
use bytes::BytesMut;

use crate::ms;

const SINCE_1970: Duration = Duration::from_secs(1_790_000_000);
const PROPAGATION: Duration = ms(20);
const RATE_BPS: u64 = 4_000_000;
const LASTS: Duration = Duration::from_secs(30);
/// Until then nothing counts.
const BEGINS: Duration = Duration::from_secs(5);
const FRAME: Duration = Duration::from_micros(33_333);
const COMMAND: Duration = ms(100);
const REPORT: Duration = ms(10);
/// A clock is set by half an hour.
const SET_AT: Duration = Duration::from_secs(10);
const HALF_HOUR_US: u32 = 1_800_000_000;

/// What is wrong with the reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lie {
    Nothing,
    /// Their clock runs backwards.
    Backwards,
    /// It is another one each time.
    Leaps,
    /// What has not left has arrived.
    NeverSent,
    /// All arrives later than its report leaves.
    Ahead,
    /// All but a tenth of it does.
    MostlyAhead,
    /// Some of it has arrived before it left.
    Early,
    /// Their clock is set, once, by half an hour.
    SetForward,
    SetBack,
    /// Their clock is half as quick again as any is, or a tenth as quick.
    Quick,
    Slow,
    /// Nothing arrives.
    Lost,
    /// There are none.
    Absent,
    /// They are right, and so is none of the histories beside them: all has arrived, and what has not left.
    History,
    /// Likewise, but they tell of nothing that has not left: what is under way has arrived.
    UnderWay,
    /// All arrives as if nothing ever waited.
    Unqueued,
}

/// What came of it, from [`BEGINS`] on.
#[derive(Debug)]
struct Outcome {
    /// Sent, and arrived.
    commands: (usize, usize),
    /// From sending to arrival.
    p95: Duration,
    /// What left from the beginning on, as a share of the link.
    offered: f64,
    /// Of video that arrived in whole frames, as a share of the link.
    use_of_link: f64,
    /// Longest time without a whole frame.
    longest_gap: Duration,
    faults: u64,
    told: Vec<(ReportFault, u64)>,
    states: usize,
}

struct Flight {
    lie: Lie,
    began: Instant,
    now: Instant,
    air: Session,
    deadline: Instant,
    ground: QuicBearer,
    /// Air to ground, and back.
    paths: [Path<Vec<u8>>; 2],
    seq: u16,
    /// Of what arrived: sequence number, when, and when if one believes the ground.
    arrivals: BTreeMap<u64, (Duration, Duration)>,
    heard: Option<(u32, Duration)>,
    /// When each command left, and those that have arrived.
    commands: Vec<Duration>,
    latencies: BTreeMap<u32, Duration>,
    /// Of a frame: the fragments that are there, how many there are, and their bytes.
    frames: BTreeMap<u32, (BTreeSet<u32>, Option<u32>, usize)>,
    whole: Vec<(Duration, usize)>,
    told: Vec<(ReportFault, u64)>,
    states: usize,
    bytes: usize,
    /// Packets on their way to the ground.
    under_way: usize,
    random: u32,
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("a valid address")
}

fn quic(side: Side) -> QuicConfig {
    let (air, ground) = (Identity::from_seed([1; 32]), Identity::from_seed([2; 32]));
    let (identity, peer) = match side {
        Side::Air => (air, ground.public()),
        Side::Ground => (ground, air.public()),
    };
    QuicConfig {
        bearer: BearerId::FIRST,
        identity: Arc::new(identity),
        peer,
        mtu: 1200,
        tickets: Arc::new(MemoryTickets::default()),
        resumption: None,
        listen: side == Side::Ground,
    }
}

impl Flight {
    fn new(lie: Lie) -> Self {
        let now = Instant::now();
        let air = SessionConfig::new(Side::Air, quic(Side::Air), now, SINCE_1970, [7; 32]);
        let mut random = SeededBytes::new(&[8; 32], "a ground that lies");
        let mut ground = QuicBearer::new(quic(Side::Ground), &mut random).expect("a valid configuration");
        ground.set_wall_clock(SINCE_1970);
        let queue = Queue::bytes(150_000);
        let path = PathConfig { rate_bps: Some(RATE_BPS), delay: PROPAGATION, queue, ..PathConfig::default() };
        let mut flight = Self {
            lie,
            began: now,
            now,
            air: Session::new(air).expect("a valid configuration"),
            deadline: now,
            ground,
            paths: [Path::new(path, 1), Path::new(path, 2)],
            seq: 0,
            arrivals: BTreeMap::new(),
            heard: None,
            commands: Vec::new(),
            latencies: BTreeMap::new(),
            frames: BTreeMap::new(),
            whole: Vec::new(),
            told: Vec::new(),
            states: 0,
            bytes: 0,
            under_way: 0,
            random: 1,
        };
        flight.air.connect(now, BearerId::FIRST, address("203.0.113.1:9400")).expect("a valid address");
        flight.drain();
        flight
    }

    fn elapsed(&self) -> Duration {
        self.now - self.began
    }

    fn us(&self, elapsed: Duration) -> u64 {
        (SINCE_1970 + elapsed).as_micros() as u64
    }

    /// Flies for [`LASTS`].
    fn fly(mut self) -> Outcome {
        let (mut frame_due, mut command_due, mut report_due, mut heartbeat_due) = (ms(500), ms(500), ms(500), ms(300));
        let (mut waited, mut index, mut rtp_seq) = (Duration::ZERO, 0, 0u16);
        while self.elapsed() < LASTS {
            let own = [frame_due + waited, command_due, report_due, heartbeat_due].map(|due| self.began + due);
            let others = [self.ground.poll_timeout(), self.paths[0].next_delivery(), self.paths[1].next_delivery()];
            let due = own.into_iter().chain(others.into_iter().flatten()).chain([self.deadline]).min();
            self.now = self.now.max(due.expect("something is due always"));
            self.deliver();
            let elapsed = self.elapsed();
            if command_due <= elapsed {
                self.air.send_mavlink(self.now, &frames::command(Side::Air, self.commands.len() as u32));
                self.commands.push(elapsed);
                self.drain();
                command_due += COMMAND;
            }
            if frame_due + waited <= elapsed {
                match self.air.next_frame(self.now, 0, waited) {
                    FrameTurn::Wait(more) => waited += more,
                    FrameTurn::LeaveOut => (waited, frame_due) = (Duration::ZERO, frame_due + FRAME),
                    FrameTurn::Encode(rate) => {
                        let mut left = (rate.asked.0 as f64 * FRAME.as_secs_f64() / 8.0) as usize;
                        while left > 0 {
                            let len = left.clamp(frames::RTP_MIN, 1100);
                            left = left.saturating_sub(len);
                            self.air.send_video(self.now, 0, &frames::rtp(rtp_seq, index, len, left == 0));
                            self.drain();
                            rtp_seq = rtp_seq.wrapping_add(1);
                        }
                        (waited, frame_due, index) = (Duration::ZERO, frame_due + FRAME, index + 1);
                    }
                }
            }
            if report_due <= elapsed {
                self.report();
                report_due += REPORT;
            }
            if heartbeat_due <= elapsed {
                self.heartbeat();
                heartbeat_due += ms(100);
            }
            self.send();
        }
        self.outcome()
    }

    /// All that is due.
    fn deliver(&mut self) {
        if self.deadline <= self.now {
            self.air.handle_timeout(self.now);
            self.drain();
        }
        self.ground.set_wall_clock(SINCE_1970 + self.elapsed());
        if self.ground.poll_timeout().is_some_and(|due| due <= self.now) {
            self.ground.handle_timeout(self.now);
        }
        while let Some(packet) = self.paths[0].pop(self.now) {
            self.under_way -= 1;
            self.ground.handle_datagram(
                self.now,
                address("198.51.100.7:40001"),
                None,
                None,
                BytesMut::from(&packet[..]),
            );
        }
        while let Some(packet) = self.paths[1].pop(self.now) {
            let arrival = session::Arrival::new(self.now, address("203.0.113.1:9400"));
            self.air.handle_datagram(self.now, arrival, BytesMut::from(&packet[..]));
            self.drain();
        }
        while let Some(event) = self.ground.poll_event() {
            match event {
                BearerEvent::Datagram { bytes, .. } => self.on_datagram(&bytes),
                BearerEvent::Message { bytes, .. } => {
                    let mut rest = &bytes[..];
                    if take_varint(&mut rest) == Some(flow::MESSAGE)
                        && let Some((_, frames)) = MessageHeader::parse(rest)
                    {
                        self.on_command(frames);
                    }
                }
                _ => {}
            }
        }
    }

    /// What the ground wants to send.
    fn send(&mut self) {
        let mut buffer = Vec::new();
        while self.ground.poll_transmit(self.now, &mut buffer).is_some() {
            let _ = self.paths[1].push(self.now, buffer.len() + 28, buffer.clone());
        }
    }

    /// What the aircraft's end wants done.
    fn drain(&mut self) {
        loop {
            match self.air.poll_output(self.now) {
                Output::Transmit(_, _, packet) => {
                    self.bytes += packet.len() + 28;
                    let pushed = self.paths[0].push(self.now, packet.len() + 28, packet.to_vec());
                    self.under_way += usize::from(pushed.is_ok());
                }
                Output::Line(..) => unreachable!("there is no radio"),
                Output::Timeout(at) => return self.deadline = at,
                Output::Event(Event::ReportFaults { fault, count, .. }) => self.told.push((fault, count)),
                Output::Event(Event::State { .. }) => self.states += 1,
                Output::Event(_) => {}
            }
        }
    }

    fn on_datagram(&mut self, bytes: &[u8]) {
        let Some((header, mut body)) = DatagramHeader::parse(bytes) else { return };
        if matches!(header.flow, flow::FEEDBACK | flow::HISTORY | flow::RECEIPT | flow::COPIES) {
            return;
        }
        let elapsed = self.elapsed();
        let newest = self.arrivals.last_key_value().map_or(0, |(newest, _)| *newest);
        let unqueued =
            || header.sent_us.map(|us| Duration::from_micros(us.wrapping_sub(self.us(Duration::ZERO) as u32).into()));
        let told = unqueued().filter(|_| self.lie == Lie::Unqueued).map_or(elapsed, |sent| sent + PROPAGATION);
        self.arrivals.insert(unwrap_seq(newest, header.seq), (elapsed, told));
        match header.flow {
            flow::HEARTBEAT => self.heard = header.sent_us.map(|sent_us| (sent_us, elapsed)),
            flow::MESSAGE => {
                while let Some((_, frames)) = take_copy(&mut body) {
                    self.on_command(frames);
                }
            }
            flow::VIDEO => self.on_fragment(body),
            _ => {}
        }
    }

    fn on_command(&mut self, frames: &[u8]) {
        let Ok((frame, _)) = Frame::parse(frames) else { return };
        if let Some(index) = frames::command_index(&frame) {
            let took = self.elapsed() - self.commands[index as usize];
            self.latencies.entry(index).or_insert(took);
        }
    }

    fn on_fragment(&mut self, body: &[u8]) {
        let (header, bytes) = FragmentHeader::parse(body).expect("a fragment of ours");
        let (there, count, size) = self.frames.entry(header.frame).or_default();
        if there.insert(header.index) {
            *size += bytes.len();
        }
        if header.flags.last {
            *count = Some(header.index + 1);
        }
        if *count == Some(there.len() as u32) {
            let size = *size;
            self.whole.push((self.elapsed(), size));
        }
    }

    fn random(&mut self) -> u32 {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.random
    }

    /// What arrived in the last 40 ms, as the lie has it.
    fn report(&mut self) {
        let elapsed = self.elapsed();
        let (now_us, leap) = (self.us(elapsed) as u32, self.random());
        let recent = self.arrivals.iter().rev().take_while(|(_, (at, _))| elapsed - *at < 4 * REPORT);
        let Some((first, _)) = recent.last() else { return };
        let (first, last) = (*first, self.arrivals.last_key_value().map_or(0, |(last, _)| *last));
        let clock = |at: Duration| match self.lie {
            Lie::Backwards => (self.us(LASTS) - at.as_micros() as u64) as u32,
            Lie::Leaps => (self.us(at) as u32).wrapping_add(leap),
            Lie::MostlyAhead if at.subsec_micros().is_multiple_of(10) => self.us(at) as u32,
            Lie::Ahead | Lie::MostlyAhead => (self.us(at) as u32).wrapping_add(5_000_000),
            Lie::Early if at.subsec_micros().is_multiple_of(5) => (self.us(at) as u32).wrapping_sub(HALF_HOUR_US),
            Lie::SetForward if at > SET_AT => (self.us(at) as u32).wrapping_add(HALF_HOUR_US),
            Lie::SetBack if at > SET_AT => (self.us(at) as u32).wrapping_sub(HALF_HOUR_US),
            Lie::Quick => self.us(at * 3 / 2) as u32,
            Lie::Slow => self.us(at / 10) as u32,
            _ => self.us(at) as u32,
        };
        let sent_us = match self.lie {
            Lie::Backwards | Lie::Leaps | Lie::Quick | Lie::Slow | Lie::SetForward | Lie::SetBack => clock(elapsed),
            _ => now_us,
        };
        let arrival = |seq| self.arrivals.get(&seq).map(|(_, at)| Arrival { at_us: clock(*at), ecn: 0 });
        let mut arrivals: Vec<_> = (first..=last).map(arrival).collect();
        match self.lie {
            Lie::Absent => return,
            Lie::Lost => arrivals.fill(None),
            Lie::NeverSent => arrivals.extend([Some(Arrival { at_us: now_us, ecn: 0 }); 200]),
            _ => {}
        }
        let mut report = Vec::new();
        Feedback { sent_us, first_seq: first as u16, arrivals }.put(&mut report);
        self.ground.send_datagram(report.into());
        // Some packets have no number.
        let ahead = match self.lie {
            Lie::History => Some(1000),
            Lie::UnderWay => Some(self.under_way as u16 / 2),
            _ => None,
        };
        if let Some(ahead) = ahead {
            let (mut history, bits) = (Vec::new(), vec![0xff; History::MAX_BYTES]);
            History { end: (last as u16 + 1).wrapping_add(ahead), bits }.put(&mut history);
            self.ground.send_datagram(history.into());
        }
    }

    fn heartbeat(&mut self) {
        let (elapsed, mut datagram) = (self.elapsed(), Vec::new());
        self.seq = self.seq.wrapping_add(1);
        let sent_us = Some(self.us(elapsed) as u32);
        DatagramHeader { flow: flow::HEARTBEAT, seq: self.seq, sent_us }.put(&mut datagram);
        let echo = self.heard.map(|(sent_us, at)| (sent_us, (elapsed - at).as_micros() as u64));
        Heartbeat { echo, ..Heartbeat::default() }.put(&mut datagram);
        self.ground.send_datagram(datagram.into());
    }

    fn outcome(mut self) -> Outcome {
        // The last ones may be under way.
        let counts = |at: &Duration| (BEGINS..LASTS - Duration::from_secs(1)).contains(at);
        let sent = self.commands.iter().filter(|at| counts(at)).count();
        let arrived = self.latencies.iter().filter(|(index, _)| counts(&self.commands[**index as usize]));
        let mut latencies: Vec<_> = arrived.map(|(_, took)| *took).collect();
        latencies.sort_unstable();
        let whole: Vec<_> = self.whole.iter().filter(|(at, _)| *at >= BEGINS).copied().collect();
        let bytes: usize = whole.iter().map(|(_, size)| size).sum();
        let times = [BEGINS].into_iter().chain(whole.iter().map(|(at, _)| *at)).chain([LASTS]);
        let times: Vec<_> = times.collect();
        let share = |bytes: usize, time: Duration| 8.0 * bytes as f64 / time.as_secs_f64() / RATE_BPS as f64;
        Outcome {
            commands: (sent, latencies.len()),
            p95: latencies[latencies.len() * 95 / 100],
            offered: share(self.bytes, LASTS),
            use_of_link: share(bytes, LASTS - BEGINS),
            longest_gap: times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).max().unwrap_or_default(),
            faults: self.air.stats(self.now).counters.report_faults,
            told: self.told,
            states: self.states,
        }
    }
}

/// Commands wait for nothing, the link is not flooded, and it is told once a minute. Where the reports are of use all the same there is a picture.
#[test]
fn somebody_whose_reports_lie_is_flown_on_with() {
    // What is at fault, least use of the link, and the longest time without a picture.
    let lies = [
        (Lie::Nothing, None, Some((0.8, ms(100)))),
        (Lie::Ahead, Some(ReportFault::Ahead), Some((0.8, ms(100)))),
        (Lie::MostlyAhead, Some(ReportFault::Ahead), None),
        (Lie::Early, Some(ReportFault::Early), Some((0.65, ms(100)))),
        (Lie::Backwards, Some(ReportFault::ClockWentBack), None),
        (Lie::Leaps, Some(ReportFault::ClockLeapt), None),
        (Lie::SetForward, Some(ReportFault::ClockLeapt), Some((0.75, ms(500)))),
        (Lie::SetBack, Some(ReportFault::ClockWentBack), Some((0.65, ms(4_000)))),
        (Lie::NeverSent, Some(ReportFault::NeverSent), None),
        (Lie::Absent, Some(ReportFault::Missing), None),
        (Lie::Quick, Some(ReportFault::ClockLeapt), None),
        (Lie::Slow, Some(ReportFault::ClockFellBehind), None),
        (Lie::Lost, Some(ReportFault::Missing), None),
        (Lie::History, Some(ReportFault::NeverSent), Some((0.8, ms(100)))),
        (Lie::UnderWay, None, Some((0.1, ms(100)))),
        (Lie::Unqueued, None, Some((0.5, ms(100)))),
    ];
    for (lie, fault, picture) in lies {
        let outcome = Flight::new(lie).fly();
        println!("{lie:?}: {outcome:?}");
        let Outcome { commands, p95, offered, use_of_link, longest_gap, faults, told, states } = outcome;
        assert_eq!(commands, (240, 240), "{lie:?}: sent and arrived");
        assert!(p95 <= PROPAGATION + ms(10), "{lie:?}: {p95:?}");
        // Where nothing seems to wait, only what has been lost for two seconds tells of it.
        let most = if lie == Lie::Unqueued { 1.5 } else { 1.0 };
        assert!(offered < most, "{lie:?}: {offered}");
        assert_eq!(states, 1, "{lie:?}: the link is up, and stays so");
        let is_shown = picture.is_none_or(|(least, longest)| use_of_link > least && longest_gap < longest);
        assert!(is_shown, "{lie:?}: {use_of_link} {longest_gap:?}");
        match fault {
            None => assert_eq!((faults, told.len()), (0, 0)),
            Some(fault) => {
                assert!(faults > 0 && told.len() == 1, "{lie:?}: {faults}, {told:?}");
                let first = told[0].0;
                assert!(first == fault || lie == Lie::Leaps && first == ReportFault::ClockWentBack, "{told:?}");
            }
        }
    }
}
