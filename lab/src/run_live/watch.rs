//! What the emulator tells while a run goes on: the rows of the report, captures, and what somebody who looks on sees.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::log::{FlowNow, Log};
use crate::channels::{SERIES_STEP, index};
use crate::live::{Fate, LinkId, PacketBatch, PacketEntry, Record};
use crate::plan::Plan;
use crate::record::{LinkSample, LinkSeries};
use crate::report::pcapng::{Captured, Writer};

/// How often somebody who looks on is told.
const SHOW_EVERY: Duration = Duration::from_millis(250);

/// How a run stands.
#[derive(Debug, Clone)]
pub struct Now {
    /// Time since the start.
    pub elapsed: Duration,
    /// The newest tenth of a second of each direction of each link.
    pub links: Vec<(String, usize, Option<LinkSample>)>,
    /// The flows.
    pub flows: Vec<FlowNow>,
}

/// Who looks on.
pub type OnLooker<'a> = &'a (dyn Fn(&Now) + Sync);

/// Rows and captures of a run.
pub struct Watch<'a> {
    plan: &'a Plan,
    links: &'a [LinkId],
    start: Arc<Mutex<Option<Instant>>>,
    series: Vec<LinkSeries>,
    capture: Option<Capture>,
}

impl<'a> Watch<'a> {
    /// Nothing yet.
    pub fn new(plan: &'a Plan, links: &'a [LinkId], capture: Option<Capture>) -> Self {
        let of = |link: usize, direction: usize| LinkSeries {
            link: plan.links[link].get_ref().name.get_ref().clone(),
            direction,
            samples: Vec::new(),
            shares: Vec::new(),
        };
        let series = (0..links.len()).flat_map(|link| [of(link, 0), of(link, 1)]).collect();
        Self { plan, links, start: Arc::default(), series, capture }
    }

    /// Where the start of the run is to be put as soon as it is known.
    pub fn start(&self) -> Arc<Mutex<Option<Instant>>> {
        self.start.clone()
    }

    /// Reads until told to stop and nothing is left; gives the rows, and what went wrong with the capture.
    pub fn run(
        mut self,
        records: Option<Receiver<Record>>,
        log: &Log,
        onlooker: Option<OnLooker<'_>>,
        stop: &AtomicBool,
    ) -> (Vec<LinkSeries>, Option<String>) {
        let mut shown = Instant::now();
        while let Some(records) = &records {
            match records.recv_timeout(SHOW_EVERY / 5) {
                Ok(record) => self.take(record),
                Err(RecvTimeoutError::Timeout) if !stop.load(Ordering::Relaxed) => {}
                Err(_) => break,
            }
            let start = *self.start.lock().unwrap_or_else(PoisonError::into_inner);
            if let (Some(onlooker), Some(start)) = (onlooker, start)
                && shown.elapsed() >= SHOW_EVERY
            {
                shown = Instant::now();
                onlooker(&self.now(start, log));
            }
        }
        (self.series, self.capture.and_then(Capture::finish))
    }

    fn now(&self, start: Instant, log: &Log) -> Now {
        let links = self.series.iter().map(|row| (row.link.clone(), row.direction, row.samples.last().copied()));
        Now { elapsed: start.elapsed(), links: links.collect(), flows: log.now() }
    }

    fn take(&mut self, record: Record) {
        let Some(start) = *self.start.lock().unwrap_or_else(PoisonError::into_inner) else { return };
        let row = match record {
            Record::Interval(row) => row,
            Record::Packets(batch) => {
                if let Some(capture) = &mut self.capture {
                    capture.add(start, self.links, &batch);
                }
                return;
            }
        };
        let since = row.end.checked_duration_since(start);
        // Rows begin at any time: those count that lie in the run by more than half.
        let half = SERIES_STEP / 2;
        let within = since.filter(|at| *at > half && *at <= self.plan.duration() + half);
        let link = self.links.iter().position(|link| *link == row.link);
        let (Some(at), Some(link)) = (within, link) else { return };
        self.series[link * 2 + index(row.direction)].samples.push(LinkSample {
            at_s: at.as_secs_f64(),
            capacity_bps: None,
            offered: row.offered.bytes,
            delivered: row.delivered.bytes,
            carried: row.delivered.bytes + row.dropped.behind_bottleneck().bytes,
            lost: row.dropped.loss.bytes + row.dropped.behind_bottleneck().bytes,
            dropped: row.dropped.queue_full.bytes + row.dropped.aqm.bytes,
            outage: row.dropped.outage.bytes,
            queue_ms: row.queue_delay.as_secs_f64().min(1e6) * 1e3,
            is_out: row.dropped.outage.bytes > 0,
        });
    }
}

/// What each node sent and got, as files. Packets are in the order in which their fate was decided.
#[derive(Debug)]
pub struct Capture {
    nodes: [Writer<BufWriter<File>>; 2],
    links: usize,
    /// Packets that the emulator could not give out in time.
    missing: u64,
    error: Option<io::Error>,
}

impl Capture {
    /// Makes both files.
    ///
    /// # Errors
    /// What cannot be written.
    pub fn new(plan: &Plan, directory: &Path, contender: &str, seed: u64) -> Result<Self, String> {
        let names = plan.links.iter().map(|link| link.get_ref().name.get_ref().clone());
        let dropped = plan.links.iter().map(|link| format!("{} (dropped)", link.get_ref().name.get_ref()));
        let interfaces: Vec<String> = names.chain(dropped).collect();
        let open = |node: &String| {
            let path = directory.join(format!("{contender}-{seed}-{node}.pcapng"));
            let comment = format!("{}: {contender}, seed {seed}, node {node}, live", plan.title);
            std::fs::create_dir_all(directory)
                .and_then(|()| Writer::new(BufWriter::new(File::create(&path)?), &comment, &interfaces))
                .map_err(|error| format!("cannot write {}: {error}", path.display()))
        };
        let nodes = [open(&plan.nodes[0])?, open(&plan.nodes[1])?];
        Ok(Self { nodes, links: plan.links.len(), missing: 0, error: None })
    }

    fn add(&mut self, start: Instant, links: &[LinkId], batch: &PacketBatch) {
        self.missing += batch.lost;
        for entry in &batch.entries {
            let Some(link) = links.iter().position(|link| *link == entry.link) else { continue };
            if entry.sent >= start && self.error.is_none() {
                self.error = self.write(start, link, entry, batch.data(entry)).err();
            }
        }
    }

    fn write(&mut self, start: Instant, link: usize, entry: &PacketEntry, data: &[u8]) -> io::Result<()> {
        let from = index(entry.direction);
        let nanos = |at: Instant| u64::try_from(at.saturating_duration_since(start).as_nanos()).unwrap_or(u64::MAX);
        let length = entry.wire_bytes;
        let sent =
            Captured { interface: link as u32, nanos: nanos(entry.sent), length, data, is_inbound: false, comment: "" };
        self.nodes[from].packet(&sent)?;
        let (interface, comment) = match entry.fate {
            Fate::Delivered { flipped_bits: 0, .. } => (link, String::new()),
            Fate::Delivered { flipped_bits, .. } => (link, format!("bits flipped: {flipped_bits}")),
            Fate::Refused { errno } => (link, format!("not taken by the kernel: error {errno}")),
            Fate::Dropped(reason) => (self.links + link, format!("dropped: {reason}")),
        };
        let nanos = nanos(entry.at);
        let got = Captured { interface: interface as u32, nanos, length, data, is_inbound: true, comment: &comment };
        self.nodes[1 - from].packet(&got)
    }

    /// What is wrong with it, if anything is.
    fn finish(mut self) -> Option<String> {
        let flushed = self.nodes.iter_mut().try_for_each(Writer::flush);
        match self.error.map_or(flushed, Err) {
            Err(error) => Some(format!("cannot write the capture: {error}")),
            Ok(()) if self.missing > 0 => Some(format!("{} packets are missing in the capture", self.missing)),
            Ok(()) => None,
        }
    }
}
