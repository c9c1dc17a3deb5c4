//! Which codec an RTP stream carries, and what each of its packets means for the decoder.

use std::fmt;
use std::str::FromStr;

use super::nal::{self, PacketKind};
use super::rtp::RtpPacket;

/// What a video flow carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Codec {
    /// Found out from the stream; until then every packet is [`PacketKind::Unknown`].
    #[default]
    Auto,
    /// H.264 in RTP (RFC 6184).
    H264,
    /// H.265 in RTP (RFC 7798).
    H265,
    /// Not looked into: every frame matters, and none is known to be a recovery point.
    Opaque,
}

/// Not the name of a codec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a codec: use auto, h264, h265 or opaque")]
pub struct ParseCodecError(pub String);

/// Tells what the RTP packets of one flow mean for the decoder.
///
/// With [`Codec::Auto`] it recognises H.264 or H.265 by a parameter set, or by [`AGREEING_PACKETS`] packets in a row that
/// can be one of them and not the other. Only dynamic payload types (RFC 3551 §6) are looked at. It starts anew when the
/// SSRC or payload type changes, or when [`AGREEING_PACKETS`] packets in a row cannot be the codec it had found.
#[derive(Debug, Clone)]
pub struct Classifier {
    configured: Codec,
    found: Codec,
    stream: Option<(u32, u8)>,
    /// Packets in a row that spoke for H.264 only, for H.265 only, and against what was found.
    h264_run: u32,
    h265_run: u32,
    against_run: u32,
    /// Highest temporal sub-layer of H.265, from the last VPS or SPS.
    highest_layer: Option<u8>,
    /// Only a parameter set says what it is.
    by_sets_only: bool,
}

impl Codec {
    /// The name used in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::H264 => "h264",
            Self::H265 => "h265",
            Self::Opaque => "opaque",
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Codec {
    type Err = ParseCodecError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        [Self::Auto, Self::H264, Self::H265, Self::Opaque]
            .into_iter()
            .find(|codec| codec.name() == name)
            .ok_or_else(|| ParseCodecError(name.to_owned()))
    }
}

impl Classifier {
    /// A classifier for one flow.
    pub fn new(codec: Codec) -> Self {
        Self {
            configured: codec,
            found: Codec::Auto,
            stream: None,
            h264_run: 0,
            h265_run: 0,
            against_run: 0,
            highest_layer: None,
            by_sets_only: false,
        }
    }

    /// One that goes by parameter sets only: beside a picture there is sound, some of which looks like slices or parameter sets of H.264 by
    /// the headers (Opus of low rates begins with 0x48, or 0x41).
    pub(super) fn by_sets_only(self) -> Self {
        Self { by_sets_only: true, ..self }
    }

    /// The codec as configured or found so far; [`Codec::Auto`] while it is not known.
    pub fn codec(&self) -> Codec {
        match self.configured {
            Codec::Auto => self.found,
            configured => configured,
        }
    }

    /// Nothing was found yet, and the last packets spoke for one of those that are known; not so many that a parameter set should have been
    /// among them.
    pub(super) fn is_undecided(&self) -> bool {
        self.codec() == Codec::Auto && (1..MANY_PACKETS).contains(&self.h264_run.max(self.h265_run))
    }

    /// Takes the next packet of the flow and tells what it is.
    pub fn handle_packet(&mut self, packet: &RtpPacket<'_>) -> PacketKind {
        if self.configured == Codec::Opaque {
            return PacketKind::Unknown;
        }
        let stream = (packet.ssrc, packet.payload_type);
        if self.stream != Some(stream) {
            *self = Self { stream: Some(stream), by_sets_only: self.by_sets_only, ..Self::new(self.configured) };
        }
        if self.configured == Codec::Auto && DYNAMIC_TYPES.contains(&packet.payload_type) {
            self.detect(packet.payload);
        }
        match self.codec() {
            Codec::H264 => nal::h264_kind(packet.payload),
            Codec::H265 => {
                nal::h265_whole_nals(packet.payload, |unit| {
                    self.highest_layer = h265_highest_layer(unit).or(self.highest_layer);
                });
                nal::h265_kind(packet.payload, self.highest_layer)
            }
            Codec::Auto | Codec::Opaque => PacketKind::Unknown,
        }
    }

    fn detect(&mut self, payload: &[u8]) {
        let (h264, h265) = (can_be_h264(payload), can_be_h265(payload));
        let fits = match self.found {
            Codec::H264 => h264,
            Codec::H265 => h265,
            _ => return self.search(payload, h264, h265),
        };
        self.against_run = if fits { 0 } else { self.against_run + 1 };
        if self.against_run == AGREEING_PACKETS {
            *self = Self { stream: self.stream, by_sets_only: self.by_sets_only, ..Self::new(self.configured) };
        }
    }

    fn search(&mut self, payload: &[u8], h264: bool, h265: bool) {
        self.h264_run = if h264 && !h265 { self.h264_run.saturating_add(1) } else { 0 };
        self.h265_run = if h265 && !h264 { self.h265_run.saturating_add(1) } else { 0 };
        let (mut sps_264, mut sets_265) = (false, false);
        if h264 {
            nal::h264_whole_nals(payload, |unit| sps_264 |= is_h264_sps(unit));
        }
        if h265 {
            nal::h265_whole_nals(payload, |unit| sets_265 |= h265_highest_layer(unit).is_some());
        }
        self.found = match (sps_264, sets_265) {
            (true, false) => Codec::H264,
            (false, true) => Codec::H265,
            _ if self.by_sets_only => Codec::Auto,
            _ if self.h264_run == AGREEING_PACKETS => Codec::H264,
            _ if self.h265_run == AGREEING_PACKETS => Codec::H265,
            _ => Codec::Auto,
        };
    }
}

/// Packets in a row that settle the codec of a stream without parameter sets: less than half a second at 1 Mbit/s, and
/// random payloads agree with one codec this often with a probability below 1e-12.
const AGREEING_PACKETS: u32 = 32;

/// A picture has had a parameter set among so many: a second of 5 Mbit/s.
const MANY_PACKETS: u32 = 512;

/// RFC 3551 §6.
const DYNAMIC_TYPES: std::ops::RangeInclusive<u8> = 96..=127;

/// `profile_idc` values of H.264 Annex A, G and H.
const H264_PROFILES: [u8; 13] = [44, 66, 77, 83, 86, 88, 100, 110, 118, 122, 128, 138, 244];

/// Whether the headers allow H.264: the kinds that cameras send in non-interleaved mode (RFC 6184 §6.3).
fn can_be_h264(payload: &[u8]) -> bool {
    let Some(&header) = payload.first() else { return false };
    if header & nal::H264_FORBIDDEN != 0 {
        return false;
    }
    match header & 0x1f {
        // A reference picture's or parameter set's reference bits are not zero, a delimiter's are (H.264 §7.4.1).
        1 => true,
        5 | 7 | 8 => header & 0x60 != 0,
        6 | 9..=12 => header & 0x60 == 0,
        nal::H264_STAP_A => nal::h264_kind(payload) != PacketKind::Unknown,
        nal::H264_FU_A => payload.get(1).is_some_and(|fu| {
            let (start, end, reserved) = (fu & 0x80 != 0, fu & 0x40 != 0, fu & 0x20 != 0);
            !(reserved || start && end) && matches!(fu & 0x1f, 1 | 5..=8)
        }),
        _ => false,
    }
}

/// Whether the headers allow H.265 in one layer.
fn can_be_h265(payload: &[u8]) -> bool {
    let &[first, second, ref rest @ ..] = payload else { return false };
    let (layer, temporal) = (((first & 1) << 5) | (second >> 3), second & 0x07);
    if first & nal::H265_FORBIDDEN != 0 || layer != 0 || temporal == 0 {
        return false;
    }
    match nal::h265_type(first) {
        0..=9 | 16..=21 => true,
        32..=34 => temporal == 1,
        35..=40 => true,
        nal::H265_AP => nal::h265_kind(payload, None) != PacketKind::Unknown,
        nal::H265_FU => rest.first().is_some_and(|fu| {
            let (start, end) = (fu & 0x80 != 0, fu & 0x40 != 0);
            !(start && end) && matches!(fu & 0x3f, 0..=9 | 16..=21 | 32..=34 | 39 | 40)
        }),
        _ => false,
    }
}

/// Whether a NAL unit is a plausible H.264 sequence parameter set (H.264 §7.3.2.1.1).
fn is_h264_sps(unit: &[u8]) -> bool {
    let &[header, profile, constraints, level, ..] = unit else { return false };
    header & 0x1f == nal::H264_SPS
        && header & 0x60 != 0
        && H264_PROFILES.contains(&profile)
        && constraints & 0x03 == 0
        && (9..=62).contains(&level)
}

/// The highest temporal sub-layer that an H.265 VPS or SPS allows (H.265 §7.3.2.1, §7.3.2.2), 0 to 6; `None` for other
/// units and implausible ones.
fn h265_highest_layer(unit: &[u8]) -> Option<u8> {
    let &[first, second, ref rest @ ..] = unit else { return None };
    if first & 1 != 0 || second != 1 {
        return None;
    }
    let layers = match (nal::h265_type(first), rest) {
        // id 4, base layer 2, max layers 6, max sub-layers 3 and nesting 1 bits, then 16 bits of ones.
        (nal::H265_VPS, [_, second, 0xff, 0xff, ..]) => (second >> 1) & 0x07,
        // id 4, max sub-layers 3 and nesting 1 bits, then the profile space, which is zero.
        (nal::H265_SPS, [first, profile, _, _, ..]) if profile & 0xc0 == 0 && profile & 0x1f != 0 => {
            (first >> 1) & 0x07
        }
        _ => return None,
    };
    (layers < 7).then_some(layers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPS_264: [u8; 6] = [0x67, 0x64, 0x00, 0x28, 0xac, 0xd9];
    const VPS_265: [u8; 8] = [0x40, 0x01, 0x0c, 0x01, 0xff, 0xff, 0x01, 0x60];
    const SPS_265: [u8; 8] = [0x42, 0x01, 0x01, 0x01, 0x60, 0x00, 0x00, 0x03];
    /// The same with two temporal sub-layers.
    const SPS_265_TWO: [u8; 8] = [0x42, 0x01, 0x03, 0x01, 0x60, 0x00, 0x00, 0x03];

    fn packet(payload: &[u8]) -> RtpPacket<'_> {
        RtpPacket { marker: false, payload_type: 96, sequence: 0, timestamp: 0, ssrc: 1, payload }
    }

    #[test]
    fn parameter_sets_settle_the_codec_at_once() {
        for (payload, codec) in [
            (&SPS_264[..], Codec::H264),
            (&[0x78, 0, 6, 0x67, 0x42, 0xc0, 0x1e, 1, 2, 0, 1, 0x68], Codec::H264),
            (&VPS_265, Codec::H265),
            (&SPS_265, Codec::H265),
            (&[0x60, 1, 0, 8, 0x40, 1, 0x0c, 1, 0xff, 0xff, 1, 0x60, 0, 2, 0x44, 1], Codec::H265),
        ] {
            let mut classifier = Classifier::new(Codec::Auto);
            assert_eq!(classifier.handle_packet(&packet(payload)), PacketKind::Recovery, "{payload:x?}");
            assert_eq!(classifier.codec(), codec);
        }
    }

    #[test]
    fn slices_settle_the_codec_after_a_run() {
        for (payload, codec, kind) in [
            (&[0x7c, 0x05, 0x77][..], Codec::H264, PacketKind::Recovery),
            (&[0x41, 0x9a, 0x77], Codec::H264, PacketKind::Reference),
            (&[0x62, 0x01, 0x13, 0x77], Codec::H265, PacketKind::Recovery),
            (&[0x00, 0x01, 0xd0, 0x77], Codec::H265, PacketKind::Reference),
        ] {
            let mut classifier = Classifier::new(Codec::Auto);
            for _ in 1..AGREEING_PACKETS {
                assert_eq!(classifier.handle_packet(&packet(payload)), PacketKind::Unknown);
            }
            assert_eq!(classifier.handle_packet(&packet(payload)), kind, "{payload:x?}");
            assert_eq!(classifier.codec(), codec);
        }
    }

    #[test]
    fn static_payload_types_and_opaque_flows_are_not_looked_at() {
        let mut classifier = Classifier::new(Codec::Auto);
        let audio = RtpPacket { payload_type: 8, ..packet(&SPS_264) };
        assert_eq!(classifier.handle_packet(&audio), PacketKind::Unknown);
        let mut classifier = Classifier::new(Codec::Opaque);
        assert_eq!(classifier.handle_packet(&packet(&SPS_264)), PacketKind::Unknown);
        let mut classifier = Classifier::new(Codec::H264);
        assert_eq!(classifier.handle_packet(&audio), PacketKind::Recovery);
    }

    #[test]
    fn another_stream_or_codec_starts_the_search_anew() {
        let mut classifier = Classifier::new(Codec::Auto);
        classifier.handle_packet(&packet(&SPS_264));
        for _ in 0..AGREEING_PACKETS {
            classifier.handle_packet(&packet(&[0x62, 0x01, 0x13]));
        }
        assert_eq!(classifier.codec(), Codec::Auto);
        classifier.handle_packet(&packet(&SPS_265));
        assert_eq!(classifier.codec(), Codec::H265);
        classifier.handle_packet(&RtpPacket { ssrc: 2, ..packet(&[0x41, 0x9a]) });
        assert_eq!(classifier.codec(), Codec::Auto);
    }

    #[test]
    fn sub_layers_of_h265_come_from_its_parameter_sets() {
        let mut classifier = Classifier::new(Codec::H265);
        let (low, high) = (packet(&[0x00, 0x01, 0xd0]), packet(&[0x00, 0x02, 0xd0]));
        assert_eq!(classifier.handle_packet(&low), PacketKind::Reference);
        classifier.handle_packet(&packet(&SPS_265));
        assert_eq!(classifier.handle_packet(&low), PacketKind::Disposable);
        classifier.handle_packet(&packet(&SPS_265_TWO));
        assert_eq!(classifier.handle_packet(&low), PacketKind::Reference);
        assert_eq!(classifier.handle_packet(&high), PacketKind::Disposable);
    }

    #[test]
    fn names_round_trip() {
        for codec in [Codec::Auto, Codec::H264, Codec::H265, Codec::Opaque] {
            assert_eq!(codec.to_string().parse(), Ok(codec));
        }
        let error = "vp8".parse::<Codec>().unwrap_err().to_string();
        assert!(error.contains("vp8") && error.contains("h264"), "{error}");
    }
}
