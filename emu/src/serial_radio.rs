//! A pair of serial telemetry radios: what a host writes to one comes out of the other, some time later and not quite the same.
//!
//! In the order in which bytes meet it, as in a SiK radio:
//!
//! 1. the **line** between host and radio, 10 bits a byte at the baud rate; what the host writes faster waits in the host's driver,
//!    up to [`SerialRadioConfig::driver`] bytes;
//! 2. the radio's **transmit buffer**; what finds it full is lost, byte by byte;
//! 3. the **air**: one channel for both directions, half duplex. A frame is what the buffer holds, up to a longest, once that is
//!    there or the first byte has waited a little; it takes its overhead and its bytes at the air rate. Who did not send last is
//!    served first. Turning the channel around takes time, and a duty cycle makes the sender rest after each frame;
//! 4. **loss** of whole frames, **bit errors** in what arrives, both drawn by the frame's number;
//! 5. the other radio's line to its host, at the baud rate.
//!
//! If asked to, a radio puts a RADIO_STATUS between what it hands to its host, wherever that stands, as SiK does.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::cell::bit_errors::{BitErrorCell, BitErrors};
use crate::luck::{Luck, Purpose, Threshold};
use crate::profile::Direction;

/// What a pair of radios is like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SerialRadioConfig {
    /// Bits per second on the lines to the hosts, ten for a byte.
    pub baud: u32,
    /// Bits per second on the air, eight for a byte.
    pub air_bps: u64,
    /// Bytes on the air around each frame: preamble, header, check.
    pub overhead: usize,
    /// Longest frame in bytes.
    pub frame: usize,
    /// A frame that is not full leaves when its first byte has waited this long.
    pub gather: Duration,
    /// Between frames of different directions.
    pub turn_around: Duration,
    /// Share of the time that a radio may send, above 0 to 1.
    pub duty_cycle: f64,
    /// Share of frames lost, independently.
    pub loss: f64,
    /// Share of bits flipped in the bytes that arrive, independently.
    pub bit_errors: f64,
    /// Bytes that a radio's transmit buffer holds.
    pub buffer: usize,
    /// Bytes that the host's driver takes beyond.
    pub driver: usize,
    /// Propagation.
    pub delay: Duration,
    /// A RADIO_STATUS goes to each host this often.
    pub status: Option<Duration>,
}

impl Default for SerialRadioConfig {
    /// A SiK radio as it is delivered: 57,600 baud, 64 kbit/s on the air, no duty cycle, no errors.
    fn default() -> Self {
        Self {
            baud: 57_600,
            air_bps: 64_000,
            overhead: 12,
            frame: 252,
            gather: Duration::from_millis(5),
            turn_around: Duration::from_millis(2),
            duty_cycle: 1.0,
            loss: 0.0,
            bit_errors: 0.0,
            buffer: 2048,
            driver: 4096,
            delay: Duration::ZERO,
            status: None,
        }
    }
}

/// Counters of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RadioTally {
    /// Bytes that the host wrote.
    pub bytes_in: u64,
    /// Bytes lost since the transmit buffer was full.
    pub overflowed: u64,
    /// Frames sent on the air.
    pub frames: u64,
    /// Of them lost.
    pub lost: u64,
    /// Bits flipped.
    pub flipped: u64,
    /// Bytes handed to the other host, reports of its radio's own not counted.
    pub bytes_out: u64,
    /// Time on the air.
    pub air_time: Duration,
}

/// Two radios and the air between.
#[derive(Debug)]
pub struct SerialRadio {
    config: SerialRadioConfig,
    ends: [End; 2],
    sending: Option<Sending>,
    /// When the channel became free, and who had it.
    last: Option<(usize, Instant)>,
    loss: Threshold,
    luck: [Luck; 2],
    bits: [BitErrorCell; 2],
    latest: Option<Instant>,
}

#[derive(Debug, Default)]
struct End {
    /// What the host has written, and when each byte is in the radio.
    line: VecDeque<(Instant, u8)>,
    line_free: Option<Instant>,
    /// The transmit buffer: since when each byte is there.
    buffer: VecDeque<(Instant, u8)>,
    rests_until: Option<Instant>,
    /// For the host, and when each byte has come.
    out: VecDeque<(Instant, u8)>,
    out_free: Option<Instant>,
    status_due: Option<Instant>,
    status_seq: u8,
    tally: RadioTally,
}

#[derive(Debug)]
struct Sending {
    from: usize,
    until: Instant,
    frame: Vec<u8>,
}

impl SerialRadio {
    /// A pair on which all luck follows from `seed`.
    pub fn new(config: SerialRadioConfig, seed: u64) -> Self {
        let rate = BitErrors { rate: config.bit_errors, spared_bytes: 0 };
        let bits = |seed| BitErrorCell::for_purpose(rate, seed, Purpose::RadioBits);
        Self {
            config,
            ends: Default::default(),
            sending: None,
            last: None,
            loss: Threshold::new(config.loss),
            luck: [Luck::new(seed, Purpose::RadioLoss), Luck::new(!seed, Purpose::RadioLoss)],
            bits: [bits(seed), bits(!seed)],
            latest: None,
        }
    }

    /// The host that sends in this direction writes; gives how many bytes its driver takes now.
    pub fn write(&mut self, now: Instant, direction: Direction, bytes: &[u8]) -> usize {
        let now = self.advance(now);
        let byte = self.byte_time();
        let end = &mut self.ends[direction as usize];
        let taken = bytes.len().min(self.config.driver.saturating_sub(end.line.len()));
        for &value in &bytes[..taken] {
            let at = end.line_free.map_or(now, |free| free.max(now)) + byte;
            end.line.push_back((at, value));
            end.line_free = Some(at);
        }
        end.tally.bytes_in += taken as u64;
        self.advance(now);
        taken
    }

    /// What has come for the host that this direction leads to is appended to `out`.
    pub fn read(&mut self, now: Instant, direction: Direction, out: &mut Vec<u8>) {
        let now = self.advance(now);
        let end = &mut self.ends[1 - direction as usize];
        while let Some((_, byte)) = end.out.pop_front_if(|(at, _)| *at <= now) {
            out.push(byte);
        }
    }

    /// When to read next, if nothing is written until then. Then the first byte of what was handed over is there; more follow at the
    /// baud rate.
    pub fn next_deadline(&self) -> Option<Instant> {
        let ends = self.ends.iter().enumerate();
        let due = ends.flat_map(|(at, end)| {
            let out = end.out.front().map(|(at, _)| *at);
            let line = end.line.front().map(|(at, _)| *at);
            [out, line, end.status_due, self.begins(at)]
        });
        due.flatten().chain(self.sending.as_ref().map(|sending| sending.until)).min()
    }

    /// Free share of the transmit buffer of the radio that sends in this direction, in percent.
    pub fn free_percent(&self, direction: Direction) -> u8 {
        self.free(direction as usize)
    }

    /// Counters of a direction.
    pub fn tally(&self, direction: Direction) -> RadioTally {
        self.ends[direction as usize].tally
    }

    /// From now on so many bits are wrong, and frames are lost.
    pub fn set_errors(&mut self, now: Instant, bit_errors: f64, loss: f64) {
        self.advance(now);
        (self.config.bit_errors, self.config.loss) = (bit_errors, loss);
        self.loss = Threshold::new(loss);
        self.bits.iter_mut().for_each(|cell| cell.set(BitErrors { rate: bit_errors, spared_bytes: 0 }));
    }

    fn free(&self, end: usize) -> u8 {
        let used = self.ends[end].buffer.len().min(self.config.buffer) * 100;
        100 - used.checked_div(self.config.buffer).unwrap_or(100) as u8
    }

    fn byte_time(&self) -> Duration {
        Duration::from_secs(10) / self.config.baud.max(1)
    }

    fn advance(&mut self, now: Instant) -> Instant {
        let now = self.latest.map_or(now, |latest| latest.max(now));
        self.latest = Some(now);
        if self.config.status.is_some() {
            for end in &mut self.ends {
                end.status_due = end.status_due.or(self.config.status.map(|every| now + every));
            }
        }
        // One thing after the other, in the order of time.
        loop {
            let line =
                (0..2).filter_map(|at| Some((self.ends[at].line.front()?.0, Step::Line(at)))).min_by_key(|(at, _)| *at);
            let done = self.sending.as_ref().map(|sending| (sending.until, Step::Done));
            let begins = (0..2).filter_map(|at| Some((self.begins(at)?, Step::Begin(at)))).min_by_key(|(at, _)| *at);
            let status =
                (0..2).filter_map(|at| Some((self.ends[at].status_due?, Step::Status(at)))).min_by_key(|(at, _)| *at);
            let next = [line, done, begins, status].into_iter().flatten().min_by_key(|(at, _)| *at);
            let Some((at, step)) = next.filter(|(at, _)| *at <= now) else { return now };
            match step {
                Step::Line(end) => self.take_in(at, end),
                Step::Done => self.arrive(),
                Step::Begin(end) => self.begin(at, end),
                Step::Status(end) => self.report(at, end),
            }
        }
    }

    fn take_in(&mut self, at: Instant, end: usize) {
        let end = &mut self.ends[end];
        let Some((_, byte)) = end.line.pop_front() else { return };
        match end.buffer.len() < self.config.buffer {
            true => end.buffer.push_back((at, byte)),
            false => end.tally.overflowed += 1,
        }
    }

    /// When a radio's next frame begins, if the channel is not taken.
    fn begins(&self, end: usize) -> Option<Instant> {
        if self.sending.is_some() {
            return None;
        }
        let ready = self.ready(end)?;
        let Some((who, at)) = self.last else { return Some(ready) };
        if who != end {
            return Some(ready.max(at + self.config.turn_around));
        }
        // The other side has its turn if it waits.
        let other_waits = self.ready(1 - end).is_some_and(|other| other <= at.max(ready));
        (!other_waits).then_some(ready.max(at))
    }

    /// When a radio has a frame to send, and may.
    fn ready(&self, end: usize) -> Option<Instant> {
        let (first, _) = self.ends[end].buffer.front()?;
        let full = self.ends[end].buffer.get(self.config.frame.saturating_sub(1)).map(|(at, _)| *at);
        let ready = full.map_or(*first + self.config.gather, |full| full.min(*first + self.config.gather));
        Some(self.ends[end].rests_until.map_or(ready, |rests| rests.max(ready)))
    }

    fn begin(&mut self, at: Instant, from: usize) {
        let end = &mut self.ends[from];
        let len = end.buffer.len().min(self.config.frame);
        let frame: Vec<u8> = end.buffer.drain(..len).map(|(_, byte)| byte).collect();
        let bits = (len + self.config.overhead) as u64 * 8;
        let takes = Duration::from_nanos(bits * 1_000_000_000 / self.config.air_bps.max(1));
        let until = at + takes;
        let duty = self.config.duty_cycle.clamp(0.001, 1.0);
        end.rests_until = Some(until + takes.mul_f64(1.0 / duty - 1.0));
        end.tally.frames += 1;
        end.tally.air_time += takes;
        self.sending = Some(Sending { from, until, frame });
    }

    fn arrive(&mut self) {
        let Some(Sending { from, until, mut frame }) = self.sending.take() else { return };
        self.last = Some((from, until));
        let number = self.ends[from].tally.frames - 1;
        if self.loss.hits(self.luck[from].word(number)) {
            self.ends[from].tally.lost += 1;
            return;
        }
        let len = frame.len();
        let flips = self.bits[from].hit(number, len, &mut frame);
        self.ends[from].tally.flipped += u64::from(flips.payload);
        self.ends[from].tally.bytes_out += len as u64;
        self.hand_over(1 - from, until + self.config.delay, &frame);
    }

    fn hand_over(&mut self, to: usize, at: Instant, bytes: &[u8]) {
        let byte = self.byte_time();
        let end = &mut self.ends[to];
        for &value in bytes {
            let there = end.out_free.map_or(at, |free| free.max(at)) + byte;
            end.out.push_back((there, value));
            end.out_free = Some(there);
        }
    }

    fn report(&mut self, at: Instant, end: usize) {
        let txbuf = self.free(end);
        let report = radio_status(self.ends[end].status_seq, txbuf);
        self.ends[end].status_seq = self.ends[end].status_seq.wrapping_add(1);
        self.ends[end].status_due = self.config.status.map(|every| at + every);
        self.hand_over(end, at, &report);
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Line(usize),
    Done,
    Begin(usize),
    Status(usize),
}

/// RADIO_STATUS in MAVLink 1, as a SiK radio sends it (system 51, component 68).
fn radio_status(seq: u8, txbuf: u8) -> Vec<u8> {
    const ID: u8 = 109;
    const EXTRA: u8 = 185;
    let payload = [0, 0, 0, 0, 180, 175, txbuf, 40, 42];
    let mut frame = vec![0xfe, payload.len() as u8, seq, 51, 68, ID];
    frame.extend_from_slice(&payload);
    // CRC-16/MCRF4XX over all but the first byte, and one byte of the message's own.
    let crc = frame[1..].iter().chain([&EXTRA]).fold(0xffff_u16, |crc, byte| {
        let mut low = byte ^ crc as u8;
        low ^= low << 4;
        (crc >> 8) ^ (u16::from(low) << 8) ^ (u16::from(low) << 3) ^ (u16::from(low) >> 4)
    });
    frame.extend_from_slice(&crc.to_le_bytes());
    frame
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn run(radio: &mut SerialRadio, direction: Direction, from: Instant, time: Duration) -> Vec<(Duration, u8)> {
        let mut got = Vec::new();
        let mut now = from;
        while let Some(due) = radio.next_deadline().filter(|due| *due <= from + time) {
            now = now.max(due);
            let mut out = Vec::new();
            radio.read(now, direction, &mut out);
            got.extend(out.into_iter().map(|byte| (now - from, byte)));
        }
        got
    }

    #[test]
    fn bytes_take_the_line_the_air_and_the_other_line() {
        let start = Instant::now();
        let config = SerialRadioConfig { baud: 10_000, air_bps: 8_000, overhead: 10, ..SerialRadioConfig::default() };
        let mut radio = SerialRadio::new(config, 1);
        assert_eq!(radio.write(start, Direction::Up, b"0123456789"), 10);
        let got = run(&mut radio, Direction::Up, start, 1000 * MS);
        assert_eq!(got.iter().map(|(_, byte)| *byte).collect::<Vec<_>>(), b"0123456789");
        // The first is in the radio after 1 ms, and leaves 5 ms later with what is there: 6 bytes and 10 around them, 1 ms each.
        assert_eq!((got[0].0, got[5].0), (MS + 5 * MS + 16 * MS + MS, 28 * MS));
        // The other four follow at once: 14 ms.
        assert_eq!(got[6].0, 22 * MS + 14 * MS + MS);
        assert_eq!(radio.tally(Direction::Up).frames, 2);
    }

    #[test]
    fn both_directions_share_the_air_and_a_full_buffer_loses() {
        let start = Instant::now();
        let config = SerialRadioConfig { baud: 115_200, air_bps: 32_000, buffer: 500, ..SerialRadioConfig::default() };
        let mut radio = SerialRadio::new(config, 2);
        let mut now = start;
        let (mut sent, mut got) = ([0; 2], [0; 2]);
        while now < start + Duration::from_secs(20) {
            for direction in [Direction::Up, Direction::Down] {
                sent[direction as usize] += radio.write(now, direction, &[0x55; 40]);
                let mut out = Vec::new();
                radio.read(now, direction, &mut out);
                got[direction as usize] += out.len();
            }
            now += 10 * MS;
        }
        let (up, down) = (radio.tally(Direction::Up), radio.tally(Direction::Down));
        assert!(up.overflowed > 30_000 && down.overflowed > 30_000, "{up:?} {down:?}");
        assert!(up.frames.abs_diff(down.frames) < 5, "{up:?} {down:?}");
        // 32 kbit/s, of which 12 of 264 bytes are overhead and the channel turns around twice for two frames.
        let rate = (got[0] + got[1]) as f64 * 8.0 / 20.0;
        assert!((27_000.0..31_000.0).contains(&rate), "{rate}");
        assert!(radio.free_percent(Direction::Up) < 60);
    }

    #[test]
    fn frames_are_lost_and_bits_flipped_as_often_as_asked_for() {
        let start = Instant::now();
        let config = SerialRadioConfig {
            baud: 921_600,
            air_bps: 500_000,
            loss: 0.1,
            bit_errors: 1e-3,
            status: Some(1000 * MS),
            ..SerialRadioConfig::default()
        };
        let mut radio = SerialRadio::new(config, 3);
        let mut out = Vec::new();
        for n in 0..20_000_u32 {
            let now = start + n * MS;
            radio.write(now, Direction::Up, &[0; 40]);
            radio.read(now, Direction::Up, &mut out);
        }
        let tally = radio.tally(Direction::Up);
        let (lost, flipped) =
            (tally.lost as f64 / tally.frames as f64, tally.flipped as f64 / (tally.bytes_out * 8) as f64);
        assert!((0.08..0.12).contains(&lost), "{tally:?}");
        assert!((9e-4..1.1e-3).contains(&flipped), "{tally:?}");
        let reports = out.windows(6).filter(|w| w[0] == 0xfe && w[1] == 9 && w[3..] == [51, 68, 109]).count();
        assert_eq!(reports, 19);
    }

    #[test]
    fn a_report_looks_as_a_sik_radio_sends_it() {
        assert_eq!(radio_status(7, 100).len(), 17);
        assert_eq!(radio_status(7, 100)[..6], [0xfe, 9, 7, 51, 68, 109]);
    }
}
