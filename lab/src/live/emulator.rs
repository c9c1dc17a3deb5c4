//! The thread between the TUN devices.
//!
//! It reads what programs send, lets the link's cells decide, and writes what is due to the other end. Each packet has
//! its own time of arrival, and changes take effect at the nanosecond they were meant for, however late the thread is:
//! before a path hears of a time, all changes that were due until then have been made.
//!
//! While packets come in faster than it reads them, it goes on without sleeping and looks after due packets between
//! batches; otherwise it sleeps in `ppoll`, which counts nanoseconds, with a timer slack of 1 ns. It does not spin:
//! waking up in time is a matter of tens of microseconds, and the programs under test need the processor.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

use aquila_emu::{Direction, Packet, Path, PathStats};
use hdrhistogram::Histogram;
use nix::errno::Errno;
use nix::sys::eventfd::EventFd;
use nix::sys::prctl;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{read, write};

use super::cells::Cells;
use super::health::{Priority, Refused, histogram};
use super::packet::{IpPacket, Pool};
use super::records::{Added, INTERVAL, Interval, Recorder};
use super::sys;
use super::wait::Wait;
use super::world::LinkId;

pub(super) const DIRECTIONS: [Direction; 2] = [Direction::Up, Direction::Down];
/// Packets read from one device, or written in one direction, before the others have their turn: about 0.1 ms.
pub(super) const BATCH: usize = 32;
/// Buffers made at the start.
const READY_BUFFERS: usize = 2048;
/// What the kernel's own packets may add to the largest MTU of a link; more cannot come.
const SPARE: usize = 4;

pub(super) type Change = Box<dyn FnOnce(Instant, &mut Path<IpPacket>, &mut Path<IpPacket>) + Send>;

/// What the thread is told.
pub(super) enum Order {
    /// To be done at that time.
    Change {
        link: usize,
        at: Instant,
        change: Change,
    },
    /// These cells instead of the others from that time on.
    Replace {
        link: usize,
        at: Instant,
        cells: Cells,
    },
    /// How is it?
    Look(Sender<Look>),
    /// Forget what was late so far.
    Reset,
    Stop,
}

/// The thread's own view of its work since it began or was told to forget.
#[derive(Debug, Clone)]
pub(super) struct Look {
    pub(super) since: Instant,
    pub(super) lateness: Histogram<u64>,
    pub(super) late_change: Duration,
    pub(super) overruns: u64,
    pub(super) refused: Refused,
    pub(super) lost_records: u64,
    pub(super) cpu: Duration,
    pub(super) priority: Priority,
    pub(super) fault: Option<String>,
    pub(super) stats: Vec<[PathStats; 2]>,
}

/// A link as the thread gets it: the device at its node `a`, then that at its node `b`.
pub(super) struct Line {
    pub(super) cells: Cells,
    pub(super) tuns: [File; 2],
}

pub(super) struct Setup {
    pub(super) lines: Vec<Line>,
    pub(super) orders: Receiver<Order>,
    pub(super) wake: Arc<EventFd>,
    pub(super) recorder: Option<Recorder>,
    pub(super) largest_mtu: usize,
    pub(super) buffer_budget: usize,
    pub(super) realtime: bool,
}

/// Runs until told to stop.
pub(super) fn run(setup: Setup) {
    let Setup { lines, orders, wake, recorder, largest_mtu, buffer_budget, realtime } = setup;
    let priority = if realtime { prioritise() } else { Priority::Normal };
    let _ = prctl::set_timerslack(1);
    let (cells, tuns): (Vec<Cells>, Vec<[File; 2]>) = lines.into_iter().map(|line| (line.cells, line.tuns)).unzip();
    let tuns: Vec<File> = tuns.into_iter().flatten().collect();
    let now = Instant::now();
    let mut emulator = Emulator {
        tuns: &tuns,
        links: cells.into_iter().map(|cells| Link::new(cells, now)).collect(),
        pool: Pool::new(largest_mtu + SPARE, buffer_budget, READY_BUFFERS),
        scratch: vec![0; largest_mtu + SPARE],
        changes: BinaryHeap::new(),
        sequence: 0,
        recorder,
        next_tick: now + INTERVAL,
        tally: Tally::new(now),
        priority,
    };
    let mut wait = Wait::new(&tuns, &wake);
    loop {
        let mut busy = false;
        for (port, readable) in wait.readable.iter_mut().enumerate().filter(|(_, readable)| **readable) {
            *readable = emulator.take_in(port);
            busy |= *readable;
        }
        emulator.hand_out();
        emulator.catch_up();
        let until = (!busy).then(|| emulator.next_deadline());
        if !wait.wait(until) {
            continue;
        }
        let _ = wake.read();
        loop {
            match orders.try_recv() {
                Ok(Order::Stop) | Err(TryRecvError::Disconnected) => return emulator.finish(),
                Ok(order) => emulator.obey(order),
                Err(TryRecvError::Empty) => break,
            }
        }
    }
}

/// As far up as the kernel lets us.
pub(super) fn prioritise() -> Priority {
    if sys::schedule_fifo().is_ok() {
        return Priority::RealTime;
    }
    for nice in [-20, -15, -10, -5, -1] {
        if sys::renice(nice).is_ok() {
            return Priority::Nice(nice);
        }
    }
    Priority::Normal
}

struct Emulator<'a> {
    /// Both ends of the first link, then of the second, and so on.
    tuns: &'a [File],
    links: Vec<Link>,
    pool: Pool,
    /// For packets that are read although there is no buffer for them.
    scratch: Vec<u8>,
    changes: BinaryHeap<Reverse<Due>>,
    sequence: u64,
    recorder: Option<Recorder>,
    next_tick: Instant,
    tally: Tally,
    priority: Priority,
}

struct Link {
    cells: Cells,
    /// At the last tick, and the packets that were refused since.
    before: [PathStats; 2],
    refused: [u64; 2],
    ticked: Instant,
}

impl Link {
    fn new(mut cells: Cells, now: Instant) -> Self {
        cells.record_drops(now);
        let before = DIRECTIONS.map(|direction| cells.stats(direction));
        Self { cells, before, refused: [0; 2], ticked: now }
    }
}

struct Due {
    at: Instant,
    /// When the thread was told.
    told: Instant,
    /// Changes of one time happen in the order in which they were given.
    sequence: u64,
    link: usize,
    what: What,
}

enum What {
    Change(Change),
    Replace(Cells),
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.sequence == other.sequence
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

struct Tally {
    since: Instant,
    lateness: Histogram<u64>,
    late_change: Duration,
    overruns: u64,
    refused: Refused,
    cpu_before: Duration,
    lost_before: u64,
}

impl Tally {
    fn new(now: Instant) -> Self {
        Self {
            since: now,
            lateness: histogram(),
            late_change: Duration::ZERO,
            overruns: 0,
            refused: Refused::default(),
            cpu_before: cpu(),
            lost_before: 0,
        }
    }
}

impl Emulator<'_> {
    /// Reads a batch of packets from a device. Whether there may be more.
    fn take_in(&mut self, port: usize) -> bool {
        let (link, direction) = (port / 2, DIRECTIONS[port % 2]);
        for _ in 0..BATCH {
            let Some(mut buffer) = self.pool.take() else {
                match read(&self.tuns[port], &mut self.scratch) {
                    Ok(_) => self.tally.overruns += 1,
                    Err(_) => return false,
                }
                continue;
            };
            let Ok(len) = read(&self.tuns[port], &mut buffer) else {
                // Nothing there, or the interface is down or going: ask again when poll says so.
                self.pool.give(buffer);
                return false;
            };
            let now = Instant::now();
            self.change_until(now);
            let payload = IpPacket::new(buffer, len);
            let packet = Packet::new(len, payload);
            let ecn = packet.payload.ecn();
            self.links[link].cells.push(direction, now, packet.with_ecn(ecn));
        }
        true
    }

    /// Writes what is due.
    fn hand_out(&mut self) {
        for link in 0..self.links.len() {
            for direction in DIRECTIONS {
                self.hand_out_one(link, direction);
            }
            let now = Instant::now();
            self.change_until(now);
            self.reclaim(link, now);
        }
    }

    /// Tells of the packets that were dropped, and takes their buffers back.
    fn reclaim(&mut self, link: usize, now: Instant) {
        let Self { links, pool, recorder, .. } = self;
        links[link].cells.take_drops(now, |direction, event| {
            if let Some(recorder) = recorder {
                recorder.dropped((LinkId::new(link), direction), &event);
            }
            pool.give(event.payload.into_buffer());
        });
    }

    fn hand_out_one(&mut self, link: usize, direction: Direction) {
        let to = &self.tuns[2 * link + 1 - direction as usize];
        let mut now = Instant::now();
        self.change_until(now);
        for _ in 0..BATCH {
            let Some(mut delivered) = self.links[link].cells.pop(direction, now) else { break };
            delivered.packet.payload.mark(delivered.packet.ecn);
            let result = write(to, delivered.packet.payload.bytes());
            now = Instant::now();
            self.change_until(now);
            let late = now.saturating_duration_since(delivered.due);
            self.tally.lateness.saturating_record(late.as_nanos() as u64);
            let errno = result.err();
            if let Some(errno) = errno {
                self.tally.refused.add(errno);
                self.links[link].refused[direction as usize] += 1;
            }
            if let Some(recorder) = &mut self.recorder {
                let way = (LinkId::new(link), direction);
                recorder.delivered(way, now, &delivered, errno.map(|errno| errno as i32));
            }
            self.pool.give(delivered.packet.payload.into_buffer());
        }
    }

    /// Changes and rows that are due.
    fn catch_up(&mut self) {
        let now = Instant::now();
        self.change_until(now);
        if self.next_tick <= now {
            self.tick(now);
        }
    }

    fn change_until(&mut self, now: Instant) {
        while let Some(Reverse(due)) = self.changes.peek()
            && due.at <= now
            && let Some(Reverse(due)) = self.changes.pop()
        {
            let late = now.saturating_duration_since(due.at.max(due.told));
            self.tally.late_change = self.tally.late_change.max(late);
            match due.what {
                What::Change(change) => {
                    self.links[due.link].cells.change(due.at, |up, down| change(due.at, up, down));
                }
                What::Replace(cells) => self.replace(due.link, due.at, cells),
            }
        }
    }

    /// What is inside the old cells is lost, and so are its buffers.
    fn replace(&mut self, link: usize, at: Instant, cells: Cells) {
        self.reclaim(link, at);
        let link = &mut self.links[link];
        let inside: u64 = DIRECTIONS.iter().map(|direction| link.cells.stats(*direction).queued.packets).sum();
        self.pool.forget(inside as usize);
        link.cells = cells;
        link.cells.record_drops(at);
        link.before = DIRECTIONS.map(|direction| link.cells.stats(direction));
    }

    fn tick(&mut self, now: Instant) {
        let behind = now.duration_since(self.next_tick).as_nanos() / INTERVAL.as_nanos();
        let end = self.next_tick + INTERVAL * u32::try_from(behind).unwrap_or(u32::MAX);
        self.next_tick = end + INTERVAL;
        let Some(recorder) = &mut self.recorder else { return };
        for (number, link) in self.links.iter_mut().enumerate() {
            for direction in DIRECTIONS {
                let stats = link.cells.stats(direction);
                let Added { offered, delivered, dropped, marked } =
                    Added::between(&link.before[direction as usize], &stats);
                link.before[direction as usize] = stats;
                recorder.interval(Interval {
                    link: LinkId::new(number),
                    direction,
                    begin: link.ticked,
                    end,
                    offered,
                    delivered,
                    dropped,
                    marked,
                    refused: std::mem::take(&mut link.refused[direction as usize]),
                    queue_bytes: stats.queue_bytes,
                    queue_packets: stats.queue_packets,
                    queue_delay: link.cells.queue_delay(direction, end),
                });
            }
            link.ticked = end;
        }
        recorder.flush();
    }

    fn next_deadline(&self) -> Instant {
        let deliveries = self.links.iter().filter_map(|link| link.cells.next_deadline()).min();
        let change = self.changes.peek().map(|Reverse(due)| due.at);
        [deliveries, change].into_iter().flatten().fold(self.next_tick, Instant::min)
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Change { link, at, change } => self.plan(link, at, What::Change(change)),
            Order::Replace { link, at, cells } => self.plan(link, at, What::Replace(cells)),
            // Whoever asked may have gone.
            Order::Look(answer) => drop(answer.send(self.look())),
            Order::Reset => {
                self.tally = Tally { lost_before: self.lost_records(), ..Tally::new(Instant::now()) };
            }
            Order::Stop => {}
        }
    }

    fn plan(&mut self, link: usize, at: Instant, what: What) {
        self.sequence += 1;
        self.changes.push(Reverse(Due { at, told: Instant::now(), sequence: self.sequence, link, what }));
    }

    fn look(&self) -> Look {
        Look {
            since: self.tally.since,
            lateness: self.tally.lateness.clone(),
            late_change: self.tally.late_change,
            overruns: self.tally.overruns,
            refused: self.tally.refused,
            lost_records: self.lost_records() - self.tally.lost_before,
            cpu: cpu().saturating_sub(self.tally.cpu_before),
            priority: self.priority,
            fault: self.links.iter().find_map(|link| link.cells.fault()),
            stats: self.links.iter().map(|link| DIRECTIONS.map(|direction| link.cells.stats(direction))).collect(),
        }
    }

    fn lost_records(&self) -> u64 {
        self.recorder.as_ref().map_or(0, Recorder::lost)
    }

    /// The last row, which is shorter than the others.
    fn finish(mut self) {
        let now = Instant::now();
        self.next_tick = now;
        self.tick(now);
    }
}

/// Processor time that the calling thread has used.
pub(super) fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

impl Refused {
    fn add(&mut self, errno: Errno) {
        match errno {
            Errno::EINVAL => self.not_ip += 1,
            Errno::EIO => self.down += 1,
            _ => self.other += 1,
        }
    }
}
