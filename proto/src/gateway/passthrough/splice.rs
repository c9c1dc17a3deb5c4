//! One TCP connection with an application's kernel, which the far side's kernel ends: here are its handshake, its resets and
//! what its packets mean.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::Former;
use super::intake::{Intake, Response};
use super::outlet::Outlet;
use super::packet::{Flags, Packet, headers};

/// SYN and SYN/ACK are repeated after this, then twice as long each time (RFC 6298 §2.1).
const AGAIN: Duration = Duration::from_secs(1);
/// A target that does not answer is given up, as by the other modes.
const CALL: Duration = Duration::from_secs(20);
/// A kernel that did not repeat its SYN for so long has given up itself: Linux does at its latest after 64 s, 127 s in all.
const ASKED: Duration = Duration::from_secs(130);
/// Windows are told in units of 32 bytes, so that a megabyte fits (RFC 7323 §2).
const SCALE: u8 = 5;
/// Segments of a kernel that says nothing (RFC 9293 §3.7.1), and the shortest that one may ask for.
const DEFAULT_MSS: u16 = 536;
const LEAST_MSS: u16 = 64;

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The kernel has sent SYN; the far side is asked.
    Asked { heard: Instant },
    /// It has been answered.
    Answered { again: Instant, tries: u32 },
    /// Whether the kernel may be called is being decided.
    Waiting,
    /// We have sent SYN, or will.
    Calling { since: Instant, again: Instant, tries: u32 },
    /// Bytes go both ways.
    Open,
}

/// What a packet or the time did to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// It goes on.
    None,
    /// The kernel has reset it, or is gone.
    Reset,
    /// It was called, and refused.
    Refused,
    /// It was called, and did not answer.
    Silent,
    /// The kernel begins anew with the same ports.
    Anew,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Splice {
    /// The kernel's address, and the one that we speak from.
    pub kernel: SocketAddr,
    pub own: SocketAddr,
    stage: Stage,
    /// Our SYN's number.
    syn: u32,
    /// The kernel's SYN's.
    kernel_syn: u32,
    /// Shifts of the kernel's windows and of ours.
    scales: [u8; 2],
    /// Longest segment that we may be sent, and that we send.
    mss: u16,
    pub intake: Intake,
    pub outlet: Outlet,
    ack_due: bool,
    probe: bool,
    answered: bool,
    /// An acknowledgement of nothing that we sent, from a connection that the kernel had before.
    stray: Option<u32>,
}

impl Splice {
    /// A kernel's SYN has come.
    pub fn asked(now: Instant, syn: &Packet<'_>, own_syn: u32, mss: u16) -> Self {
        let window = u64::from(syn.window);
        let mut splice = Self::new(now, [syn.from, syn.to], own_syn, mss, Stage::Asked { heard: now });
        splice.kernel_syn = syn.seq;
        splice.agree(now, syn, window, 0);
        splice
    }

    /// One that will be called from `own`; the far kernel takes `room` bytes.
    pub fn calling(now: Instant, kernel: SocketAddr, own: SocketAddr, own_syn: u32, mss: u16, room: u64) -> Self {
        let mut splice = Self::new(now, [kernel, own], own_syn, mss, Stage::Waiting);
        splice.intake = Intake::new(0, room);
        splice
    }

    fn new(now: Instant, [kernel, own]: [SocketAddr; 2], syn: u32, mss: u16, stage: Stage) -> Self {
        Self {
            kernel,
            own,
            stage,
            syn,
            kernel_syn: 0,
            scales: [0; 2],
            mss,
            intake: Intake::new(0, 0),
            outlet: Outlet::new(now, syn, DEFAULT_MSS.into(), 0),
            ack_due: false,
            probe: false,
            answered: false,
            stray: None,
        }
    }

    /// What SYN and SYN/ACK say of windows and lengths.
    fn agree(&mut self, now: Instant, syn: &Packet<'_>, window: u64, room: u64) {
        let theirs = syn.mss.unwrap_or(DEFAULT_MSS).max(LEAST_MSS);
        let mss = theirs.min(self.mss);
        self.scales = syn.scale.map_or([0; 2], |scale| [scale, SCALE]);
        self.intake = Intake::new(syn.seq, room);
        self.outlet = Outlet::new(now, self.syn, mss.into(), window);
    }

    /// The rules allow it.
    pub fn call(&mut self, now: Instant) {
        self.stage = Stage::Calling { since: now, again: now, tries: 0 };
    }

    /// The far kernel has answered; it takes `room` bytes.
    pub fn answer(&mut self, now: Instant, room: u64) {
        self.intake = Intake::new(self.kernel_syn, room);
        self.stage = Stage::Answered { again: now, tries: 0 };
    }

    pub fn is_asked(&self) -> bool {
        matches!(self.stage, Stage::Asked { .. })
    }

    /// Bytes may go both ways: the kernel of a target has answered, or that of an application was.
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// The kernel knows of the connection.
    pub fn is_known(&self) -> bool {
        matches!(self.stage, Stage::Open | Stage::Answered { .. })
    }

    /// What has to be kept to end it after a restart.
    pub fn former(&self) -> Former {
        Former { kernel: self.kernel, own: self.own, numbers: [self.kernel_syn, self.syn] }
    }

    /// The kernel is to hear what is acknowledged.
    pub fn acknowledge(&mut self) {
        self.ack_due = true;
    }

    /// The far side is to be asked whether it is alive.
    pub fn take_probe(&mut self) -> bool {
        std::mem::take(&mut self.probe)
    }

    /// The kernel has said anything since this was asked last.
    pub fn take_answered(&mut self) -> bool {
        std::mem::take(&mut self.answered)
    }

    /// A packet of the kernel's.
    pub fn on_packet(&mut self, now: Instant, packet: &Packet<'_>) -> Event {
        match self.stage {
            Stage::Waiting => Event::None,
            Stage::Calling { .. } => self.on_answer(now, packet),
            Stage::Asked { .. } | Stage::Answered { .. } | Stage::Open => self.on_segment(now, packet),
        }
    }

    /// In SYN-SENT (RFC 9293 §3.10.7.3).
    fn on_answer(&mut self, now: Instant, packet: &Packet<'_>) -> Event {
        let meant = packet.ack == Some(self.syn.wrapping_add(1));
        match packet.flags {
            Flags { rst: true, .. } => {
                if meant {
                    return Event::Refused;
                }
            }
            Flags { syn: true, .. } if meant => {
                // Windows of a segment with SYN are not shifted.
                let room = self.intake.room();
                self.agree(now, packet, packet.window.into(), room);
                self.kernel_syn = packet.seq;
                self.stage = Stage::Open;
                (self.ack_due, self.answered) = (true, true);
            }
            _ => self.stray = packet.ack.filter(|_| !meant),
        }
        Event::None
    }

    fn on_segment(&mut self, now: Instant, packet: &Packet<'_>) -> Event {
        let Flags { syn, rst, fin } = packet.flags;
        if syn {
            return self.on_syn(now, packet);
        }
        if rst {
            return match () {
                () if self.intake.is_exact(packet.seq) => Event::Reset,
                () => {
                    // RFC 5961 §3.2.
                    self.ack_due |= self.intake.is_in_window(packet.seq) && self.is_known();
                    Event::None
                }
            };
        }
        let Some(ack) = packet.ack else { return Event::None };
        if self.is_asked() {
            return Event::None;
        }
        if matches!(self.stage, Stage::Answered { .. }) && ack.wrapping_sub(self.syn) != 1 {
            // It has not seen our SYN (RFC 9293 §3.10.7.4, SYN-RECEIVED).
            self.stray = Some(ack);
            return Event::None;
        }
        let window = u64::from(packet.window) << self.scales[0];
        let bare = packet.payload.is_empty() && !fin;
        if !self.outlet.on_ack(now, ack, window, bare) {
            self.ack_due = true;
            return Event::None;
        }
        if matches!(self.stage, Stage::Answered { .. }) {
            self.stage = Stage::Open;
        }
        self.outlet.on_word(now);
        self.answered = true;
        match self.intake.on_segment(packet.seq, packet.payload, fin) {
            Response::None => {}
            Response::Ack => self.ack_due = true,
            Response::Probe => self.probe = true,
        }
        Event::None
    }

    fn on_syn(&mut self, now: Instant, packet: &Packet<'_>) -> Event {
        let same = packet.ack.is_none() && packet.seq == self.kernel_syn;
        match &mut self.stage {
            Stage::Asked { heard } if same => *heard = now,
            Stage::Answered { again, .. } if same => *again = now,
            Stage::Asked { .. } if packet.ack.is_none() => return Event::Anew,
            // RFC 5961 §4.2; a kernel that knows nothing of the connection answers with a reset, and begins again.
            _ => self.ack_due = true,
        }
        Event::None
    }

    /// When [`Splice::handle_timeout`] is to be called.
    pub fn deadline(&self) -> Option<Instant> {
        match self.stage {
            Stage::Asked { heard } => Some(heard + ASKED),
            Stage::Answered { again, .. } => Some(again),
            Stage::Waiting => None,
            Stage::Calling { since, again, .. } => Some(again.min(since + CALL)),
            Stage::Open => self.outlet.deadline(!self.intake.has_ended()),
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) -> Event {
        match self.stage {
            Stage::Asked { heard } if now.saturating_duration_since(heard) >= ASKED => Event::Reset,
            Stage::Answered { tries: 6.., again } if again <= now => Event::Reset,
            Stage::Calling { since, .. } if now.saturating_duration_since(since) >= CALL => Event::Silent,
            Stage::Open if !self.outlet.handle_timeout(now, !self.intake.has_ended()) => Event::Reset,
            _ => Event::None,
        }
    }

    /// The next packet for the kernel, put into `out`; whether there is one. `ahead`: bytes that have been passed on to the far
    /// side and have not left.
    pub fn poll(&mut self, now: Instant, ahead: usize, out: &mut Vec<u8>) -> bool {
        if let Some(ack) = self.stray.take() {
            self.write(out, ack, None, Flags { rst: true, ..Flags::default() }, 0, &[]);
            return true;
        }
        let syn = Flags { syn: true, ..Flags::default() };
        match &mut self.stage {
            Stage::Calling { again, tries, .. } if *again <= now => {
                (*again, *tries) = (now + AGAIN * 2u32.pow((*tries).min(6)), *tries + 1);
                self.write(out, self.syn, None, syn, u16::MAX, &[]);
                true
            }
            Stage::Answered { again, tries } if *again <= now => {
                (*again, *tries) = (now + AGAIN * 2u32.pow((*tries).min(6)), *tries + 1);
                // Windows of a segment with SYN are not shifted.
                let window = self.intake.window(ahead, 0);
                self.write(out, self.syn, Some(self.intake.ack()), syn, window, &[]);
                true
            }
            Stage::Open => self.poll_open(now, ahead, out),
            _ => false,
        }
    }

    fn poll_open(&mut self, now: Instant, ahead: usize, out: &mut Vec<u8>) -> bool {
        let (seq, bytes, fin) = match self.outlet.poll(now) {
            Some(send) => (send.seq, send.bytes, send.fin),
            None if self.ack_due || self.intake.has_room_to_tell(ahead, self.mss.into()) => {
                (self.outlet.seq(), Vec::new(), false)
            }
            None => return false,
        };
        self.ack_due = false;
        let window = self.intake.window(ahead, self.scales[1]);
        self.write(out, seq, Some(self.intake.ack()), Flags { fin, ..Flags::default() }, window, &bytes);
        true
    }

    /// The reset that ends it, if the kernel knows of it.
    pub fn reset(&self, out: &mut Vec<u8>) -> bool {
        let rst = Flags { rst: true, ..Flags::default() };
        match self.stage {
            Stage::Asked { .. } => self.write(out, 0, Some(self.kernel_syn.wrapping_add(1)), rst, 0, &[]),
            Stage::Answered { .. } | Stage::Open => {
                self.write(out, self.outlet.seq(), Some(self.intake.ack()), rst, 0, &[]);
            }
            // What the target answers later is refused then.
            Stage::Waiting | Stage::Calling { .. } => return false,
        }
        true
    }

    fn write(&self, out: &mut Vec<u8>, seq: u32, ack: Option<u32>, flags: Flags, window: u16, payload: &[u8]) {
        let with_scale = flags.syn && (ack.is_none() || self.scales[1] > 0);
        let packet = Packet {
            from: self.own,
            to: self.kernel,
            seq,
            ack,
            flags,
            window,
            mss: flags.syn.then_some(self.mss),
            scale: with_scale.then_some(SCALE),
            payload,
        };
        packet.write(out);
    }
}

/// The longest segment that a kernel is told to send: one that fits the device, and a message of the radio if that is shorter.
pub(super) fn clamped_mss(mtu: u16, v6: bool, message: usize) -> u16 {
    let fits = usize::from(mtu).saturating_sub(headers(v6));
    (fits.min(message).min(usize::from(u16::MAX)) as u16).max(LEAST_MSS)
}
