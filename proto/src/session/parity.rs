//! Repairs of video: which bearer they take, and what comes of them.
//!
//! A repair goes through the gate like video, by another bearer than its frame did if one may carry video and has room: what
//! one loses, the other does not. On the bearer of the video itself it leaves behind its frame and before the next one, since
//! the rate asked of the encoder has room for it; unless a frame has waited for a third of what it may. Then the camera makes
//! more than it is asked for, and pictures go before their repairs.

use std::time::Instant;

use super::bearer::{Beside, PACKET_OVERHEAD};
use super::{Counters, Session, SessionConfig};
use crate::feedback::Kept;
use crate::video::{FragmentHeader, FragmentInfo, Protector, Reassembler, Repair, Restorer, SendQueue, VideoParity};
use crate::wire::flow;
use crate::wire::repair::VideoRepair;
use crate::{Bitrate, Class};

/// From this revision on, a peer understands numbered fragments and repairs.
const REPAIRS: u64 = 4;

/// What is known of repairs, of all flows.
#[derive(Debug)]
pub(super) struct Repairs {
    parity: VideoParity,
    /// The other side understands them.
    understood: bool,
    out: Vec<Protector>,
    restorers: Vec<Option<Box<Restorer>>>,
    coded: Vec<u8>,
}

impl Repairs {
    pub fn new(config: &SessionConfig) -> Self {
        let protector = |video: &crate::video::SendQueueConfig| Protector::new(config.video_parity, video.max_age);
        Self {
            parity: config.video_parity,
            understood: false,
            out: config.video.iter().map(protector).collect(),
            restorers: (0..flow::MAX_VIDEO_FLOWS).map(|_| None).collect(),
            coded: Vec::new(),
        }
    }

    /// Fragments that leave are numbered, and repaired.
    pub fn is_active(&self) -> bool {
        self.understood && self.parity.is_on()
    }

    /// The other side speaks this revision.
    pub fn on_revision(&mut self, revision: u64, queues: &mut [SendQueue]) {
        self.understood = revision >= REPAIRS;
        let numbered = self.is_active();
        for (queue, protector) in queues.iter_mut().zip(&self.out) {
            queue.set_numbers(numbered.then(|| protector.next()));
        }
    }

    /// The other side's process is another one: it counts fragments anew.
    pub fn on_new_peer(&mut self) {
        self.restorers.iter_mut().flatten().for_each(|restorer| restorer.restart());
    }

    /// A fragment leaves. Gives what its fate is asked for by, if it may be repaired when it is lost.
    pub fn on_fragment(
        &mut self,
        now: Instant,
        flow: usize,
        info: &FragmentInfo,
        sent_us: u32,
        fragment: &[u8],
    ) -> Option<Kept> {
        info.header.number?;
        let number = self.out[flow].on_fragment(now, info, sent_us, fragment);
        self.parity.repeat.then_some(Kept::Fragment(flow as u8, number))
    }
}

impl Session {
    /// Hands over a repair of video.
    pub(super) fn feed_repair(&mut self, now: Instant) -> bool {
        let Some(flow) = self.repairs.out.iter_mut().position(|protector| protector.is_due(now)) else { return false };
        let Some(index) = self.way_of_repair(now) else { return false };
        let mut coded = std::mem::take(&mut self.repairs.coded);
        let sent = match self.repairs.out[flow].pop_repair(now, &mut coded) {
            Some(repair) => self.send_repair(now, index, flow, repair, &coded),
            None => false,
        };
        self.repairs.coded = coded;
        sent
    }

    fn send_repair(&mut self, now: Instant, index: usize, flow: usize, repair: Repair, coded: &[u8]) -> bool {
        let Repair { header, settled, round } = repair;
        let beside = self.way_of(Class::Video) != Some(index);
        let bearer = &mut self.bearers[index];
        let max = bearer.max_body();
        let mut datagram = bearer.start_datagram(now, flow::VIDEO_REPAIR, VideoRepair::MAX_LEN + coded.len());
        let header_len = datagram.len();
        VideoRepair { video: flow as u64, settled, header }.put(&mut datagram);
        datagram.extend_from_slice(coded);
        if datagram.len() - header_len > max {
            // Its fragments were made for larger packets than this bearer has.
            self.counters.repairs_dropped += 1;
            return true;
        }
        self.counters.repairs += 1;
        self.counters.repairs_beside += u64::from(beside);
        self.counters.repair_bytes += (datagram.len() - header_len) as u64;
        let first = std::mem::take(&mut bearer.outbound.unpaced);
        bearer.pace(now, first + datagram.len() + PACKET_OVERHEAD);
        let kept = round.filter(|_| !bearer.carrier.is_radio()).map(|round| Kept::Repair(flow as u8, round));
        bearer.finish_datagram(now, datagram, Beside { kept, class: Class::Video, ..Beside::default() });
        true
    }

    /// The bearer that the next repair takes, if it has room.
    fn way_of_repair(&mut self, now: Instant) -> Option<usize> {
        let way = self.way_of(Class::Video)?;
        let others = (0..self.bearers.len()).filter(|index| *index != way && self.may_repair(*index));
        let open = others.filter(|index| self.is_open(now, *index));
        if let Some(other) = open.min_by_key(|index| self.bearers[*index].candidate().expected()) {
            return Some(other);
        }
        let room = self.fragment_room(way);
        let waits = self.video_out.iter().any(|queue| queue.has_fragment(room));
        (self.may_repair_behind(now, way, waits) && self.is_open(now, way)).then_some(way)
    }

    /// Whether a repair may leave on the bearer that the video takes; `waits`: so does more of it.
    fn may_repair_behind(&self, now: Instant, way: usize, waits: bool) -> bool {
        let alone = !(0..self.bearers.len()).any(|index| index != way && self.may_repair(index));
        let is_late = |queue: &SendQueue| queue.oldest_age(now).is_some_and(|age| age * 3 > queue.max_age());
        // Beside another bearer, whose gate is closed, only what would be left unused is.
        !waits || alone && !self.video_out.iter().any(is_late)
    }

    /// When a gate has to be tried again for a repair; `way`: the bearer of the video, of which more waits.
    pub(super) fn repair_due(&self, now: Instant, way: usize, waits: bool) -> Option<Instant> {
        if !self.repairs.out.iter().any(Protector::has_repairs) {
            return None;
        }
        let others = (0..self.bearers.len()).filter(|index| *index != way && self.may_repair(*index));
        let behind = self.may_repair_behind(now, way, waits).then_some(way);
        others.chain(behind).filter_map(|index| self.gate_opens(now, index)).min()
    }

    /// Whether a bearer may carry repairs: what video may take.
    pub(super) fn may_repair(&self, index: usize) -> bool {
        self.may_carry(index) && self.suits_video(&self.bearers[index])
    }

    /// What is left of a rate for the pictures if their parity goes by the same bearer ([AQUILA eq. 7] has no parity).
    pub(super) fn beside_parity(&self, rate: Bitrate) -> Bitrate {
        let way = self.way_of(Class::Video);
        let elsewhere = || (0..self.bearers.len()).any(|index| Some(index) != way && self.may_repair(index));
        match self.repairs.is_active() && self.repairs.parity.share > 0.0 && !elsewhere() {
            true => Bitrate((rate.0 as f64 / (1.0 + self.repairs.parity.share)) as u64),
            false => rate,
        }
    }

    /// What became of a fragment or a repair.
    pub(super) fn on_video_fate(&mut self, now: Instant, index: usize, kept: Kept, received: bool) {
        let rtt = self.bearers[index].rtt();
        let protector = |session: &Self, flow: u8| usize::from(flow) < session.repairs.out.len();
        match kept {
            Kept::Fragment(flow, number) if !received && protector(self, flow) => {
                self.repairs.out[usize::from(flow)].on_lost(now, rtt, number);
            }
            Kept::Repair(flow, round) if protector(self, flow) => {
                self.repairs.out[usize::from(flow)].on_fate(now, round, received);
            }
            _ => {}
        }
    }

    /// A fragment of video came, and has been given to reassembly: what else is known by it now.
    pub(super) fn restore_by_fragment(&mut self, now: Instant, way: usize, flow: usize, sent_us: u32, body: &[u8]) {
        let Ok((FragmentHeader { number: Some(number), .. }, _)) = FragmentHeader::parse(body) else { return };
        let restorer = self.repairs.restorers[flow].get_or_insert_default();
        restorer.handle_fragment(number, sent_us, body);
        self.take_restored(now, way, flow);
    }

    /// A repair of video came.
    pub(super) fn on_repair(&mut self, now: Instant, way: usize, body: &[u8]) {
        let parsed = VideoRepair::parse(body).filter(|(repair, _)| repair.video < flow::MAX_VIDEO_FLOWS);
        let Some((VideoRepair { video, settled, header }, coded)) = parsed else {
            self.counters.malformed += 1;
            return;
        };
        self.counters.repairs_received += 1;
        let flow = video as usize;
        let Some(restorer) = self.repairs.restorers[flow].as_mut() else { return };
        restorer.handle_repair(header, coded);
        self.take_restored(now, way, flow);
        if let Some(reassembler) = &mut self.video_in[flow] {
            reassembler.set_settled(settled);
        }
    }

    /// Gives what has been restored to reassembly, as if it had come on this bearer.
    fn take_restored(&mut self, now: Instant, way: usize, flow: usize) {
        let Some(restorer) = self.repairs.restorers[flow].as_mut() else { return };
        let mut restored = Vec::new();
        while let Some((sent_us, fragment)) = restorer.poll() {
            restored.push((sent_us, fragment.to_vec()));
        }
        for (sent_us, fragment) in restored {
            let age = self.frame_age(now, way, sent_us);
            let config = &self.config.reassembly;
            let reassembler = self.video_in[flow].get_or_insert_with(|| Reassembler::new(config.clone()));
            reassembler.push(now, age, &fragment);
        }
    }

    /// The session's counters with those that are kept here.
    pub(super) fn counters_with_repairs(&self) -> Counters {
        let out = || self.repairs.out.iter().map(Protector::counters);
        let restored = self.repairs.restorers.iter().flatten().map(|restorer| restorer.restored()).sum();
        let dropped: u64 = out().map(|counters| counters.dropped).sum();
        Counters {
            repairs_dropped: self.counters.repairs_dropped + dropped,
            fragments_repeated: out().map(|counters| counters.repeated).sum(),
            fragments_restored: restored,
            ..self.counters.clone()
        }
    }
}
