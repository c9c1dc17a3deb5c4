//! A real encoder in the place of the world's model of one.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use aquila_net::encoder::{EncoderKind, Ladder};
use aquila_proto::{Bitrate, FrameBitrate};

use crate::camera::nal_units;
use crate::plan::VideoTraffic;
use crate::quality::codec::{Encoder, Order, Unit};
use crate::quality::content::{Content, Store};
use crate::quality::judge::JudgeError;
use crate::run::camera::{Encoded, FrameEncoder};

/// What a camera has made.
#[derive(Debug, Default)]
pub struct Film {
    /// By number of the picture; `None`: left out.
    pub units: Vec<Option<Unit>>,
    /// What the encoder was told with each, likewise; `None`: it was not asked.
    pub orders: Vec<Option<Order>>,
    /// Why there is no more.
    pub fault: Option<JudgeError>,
}

/// Films what is in a store.
pub(super) struct Camera<'a> {
    pub(super) encoder: Encoder,
    pub(super) store: &'a Store,
    pub(super) video: VideoTraffic,
    /// While there are no steps.
    pub(super) size: (usize, usize),
    pub(super) steps: Option<Ladder>,
    /// When picture 0 is filmed, as far as the steps are concerned.
    pub(super) began: Instant,
    /// A recovery point is wanted of the next picture that is encoded.
    pub(super) recovery: bool,
    /// A recovery point leaves every so many pictures, where nobody can ask for one.
    pub(super) unasked: Option<u32>,
    /// Where it puts what it makes.
    pub(super) film: &'a Mutex<Film>,
    /// Is told the number of each picture.
    pub(super) progress: &'a (dyn Fn(u32) + Sync),
}

impl Camera<'_> {
    /// Whether this picture is one of those that are encoded; the size follows the rate that lasts.
    fn step(&mut self, number: u32, lasting: Bitrate) -> bool {
        let Some(steps) = &mut self.steps else { return true };
        let now = self.began + Duration::from_secs(1) * number / Content::RATE;
        steps.want(now, lasting);
        steps.poll(now);
        let Some(rung) = steps.now() else { return true };
        self.size = (rung.width.into(), rung.height.into());
        self.encoder.set_frame_rate(Content::RATE.min(rung.frames_per_second.into()));
        rung.takes(number.into(), Content::RATE)
    }

    fn shoot(&mut self, number: u32, order: &Order) -> Result<Option<Unit>, JudgeError> {
        let picture = self.store.picture(number)?;
        Ok(self.encoder.encode(&picture, order)?)
    }
}

impl FrameEncoder for Camera<'_> {
    fn encode(&mut self, number: u64, rate: FrameBitrate, recovery: bool) -> Option<Encoded> {
        let number = number as u32;
        self.recovery |= recovery || self.unasked.is_some_and(|every| number.is_multiple_of(every));
        let film = self.film;
        let mut film = film.lock().unwrap_or_else(PoisonError::into_inner);
        if film.fault.is_some() || number >= self.store.count() {
            return None;
        }
        (self.progress)(number);
        let least = self.video.least.map_or(Bitrate::ZERO, |least| least.bitrate());
        let range = |rate: Bitrate| rate.min(self.video.rate.bitrate()).max(least);
        let (target, lasting) = (range(rate.asked), range(rate.lasting));
        if !self.step(number, lasting) {
            return None;
        }
        let order = Order { target, size: self.size, recovery: std::mem::take(&mut self.recovery) };
        let made = self.shoot(number, &order);
        let unit = made.unwrap_or_else(|fault| {
            film.fault = Some(fault);
            None
        });
        // Those that it was not asked for were left out.
        film.units.resize_with(number as usize, || None);
        film.orders.resize(number as usize, None);
        film.orders.push(Some(order));
        let encoded = unit.as_ref().map(|unit| Encoded {
            bytes: rtp_bytes(&unit.annex_b, self.video.packet.bytes()),
            recovery: unit.is_recovery,
        });
        film.units.push(unit);
        encoded
    }

    fn kind(&self) -> Option<EncoderKind> {
        Some(self.encoder.kind())
    }
}

/// Bytes of an access unit in RTP packets of at most so many bytes (RFC 6184, RFC 7798): a header of 12 for each, and 2 (H.264) or 3 (H.265, taken for
/// both) for each piece of what does not fit into one.
fn rtp_bytes(annex_b: &[u8], packet: usize) -> usize {
    const HEADER: usize = 12;
    const PIECE: usize = 3;
    let room = packet.saturating_sub(HEADER).max(PIECE + 1);
    let of_unit = |nal: &[u8]| match nal.len() {
        len if len <= room => HEADER + len,
        len => len + len.div_ceil(room - PIECE) * (HEADER + PIECE),
    };
    nal_units(annex_b).map(of_unit).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::camera::{Packetizer, PacketizerConfig};

    #[test]
    fn sizes_are_those_of_real_packets() {
        let mut annex_b = vec![0, 0, 0, 1, 0x67, 1, 2, 3, 0, 0, 0, 1, 0x65];
        annex_b.extend(std::iter::repeat_n(7, 5_000));
        let packets = Packetizer::new(PacketizerConfig::default()).packetize(&annex_b, 0);
        let real: usize = packets.iter().map(Vec::len).sum();
        // One byte more for each piece.
        assert!((real..real + packets.len() + 2).contains(&rtp_bytes(&annex_b, 1_200)), "{real}");
    }
}
