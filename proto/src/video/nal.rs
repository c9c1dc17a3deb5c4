//! What an RTP payload of H.264 (RFC 6184) or H.265 (RFC 7798) holds, read from NAL unit headers, and of SEI units from their messages.

/// What a packet means for the decoder, weakest first; a frame is what its strongest packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum PacketKind {
    /// No picture data: delimiters, SEI, filler, RTCP.
    #[default]
    Neutral,
    /// A slice that no other picture refers to.
    Disposable,
    /// A slice that later pictures may refer to.
    Reference,
    /// Not recognised; may be anything.
    Unknown,
    /// A slice of an IDR or IRAP picture, a parameter set, or a recovery point message: decoding can start here, though where an encoder refreshes its
    /// picture bit by bit it is whole only some pictures later.
    Recovery,
}

/// Kind of an H.264 RTP payload (RFC 6184 §5.2 to §5.8). Interleaved and unassigned types count as
/// [`PacketKind::Reference`]; a payload that cannot be H.264 is [`PacketKind::Unknown`].
pub(super) fn h264_kind(payload: &[u8]) -> PacketKind {
    let Some(&header) = payload.first() else { return PacketKind::Unknown };
    if header & H264_FORBIDDEN != 0 {
        return PacketKind::Unknown;
    }
    match header & 0x1f {
        0 => PacketKind::Unknown,
        H264_STAP_A => strongest(aggregated(&payload[1..], h264_unit_kind)),
        // The FU indicator has the reference bits, the FU header the type of the NAL unit that was cut.
        H264_FU_A | H264_FU_B => match payload.get(1) {
            Some(fu) => h264_nal_kind((header & 0xe0) | (fu & 0x1f)),
            None => PacketKind::Unknown,
        },
        _ => h264_unit_kind(payload).unwrap_or(PacketKind::Unknown),
    }
}

/// Kind of a whole NAL unit; `None` for an empty one.
fn h264_unit_kind(unit: &[u8]) -> Option<PacketKind> {
    let (&header, rest) = unit.split_first()?;
    let is_refresh = header & 0x1f == H264_SEI && has_recovery_point(rest);
    Some(if is_refresh { PacketKind::Recovery } else { h264_nal_kind(header) })
}

/// Kind of an H.265 RTP payload (RFC 7798 §4.4). `highest_layer` is the highest temporal sub-layer that the stream may
/// use, from its parameter sets; without it no slice is disposable, since a sub-layer non-reference picture may still
/// be referred to from a higher sub-layer (H.265 §7.4.2.2).
pub(super) fn h265_kind(payload: &[u8], highest_layer: Option<u8>) -> PacketKind {
    let &[first, second, ref rest @ ..] = payload else { return PacketKind::Unknown };
    if first & H265_FORBIDDEN != 0 || second & 0x07 == 0 {
        return PacketKind::Unknown;
    }
    let kind = |nal_type, second: u8| h265_nal_kind(nal_type, (second & 0x07).saturating_sub(1), highest_layer);
    let unit_kind = |nal_type, second: u8, rest: &[u8]| match nal_type {
        H265_PREFIX_SEI if has_recovery_point(rest) => PacketKind::Recovery,
        _ => kind(nal_type, second),
    };
    match h265_type(first) {
        H265_AP => strongest(aggregated(rest, |nal| match nal {
            [first, second, rest @ ..] => Some(unit_kind(h265_type(*first), *second, rest)),
            _ => None,
        })),
        H265_FU => match rest.first() {
            Some(fu) => kind(fu & 0x3f, second),
            None => PacketKind::Unknown,
        },
        nal_type => unit_kind(nal_type, second, rest),
    }
}

/// Whether there is a recovery point among the messages of an SEI unit, given without its header (H.264 §7.3.2.3 and §D.1, H.265 §7.3.2.4 and
/// §D.2: payload type 6 of both). After as many other pictures as the message says the picture is whole: an encoder sends one where it begins to refresh its
/// picture bit by bit, or with an intra picture that is no IDR. What is cut short has none, nor is one looked for in a unit of several packets.
fn has_recovery_point(messages: &[u8]) -> bool {
    let mut bytes = without_emulation_prevention(messages);
    loop {
        let kind = sei_number(&mut bytes);
        let (Some(kind), Some(size)) = (kind, sei_number(&mut bytes)) else { return false };
        let whole = size == 0 || bytes.nth(size - 1).is_some();
        if kind == SEI_RECOVERY_POINT || !whole {
            return whole && kind == SEI_RECOVERY_POINT && size > 0;
        }
    }
}

/// As type and size of an SEI message are written: bytes of 255 that are followed by another, all added up.
fn sei_number(bytes: &mut impl Iterator<Item = u8>) -> Option<usize> {
    let mut number = 0;
    loop {
        let byte = bytes.next()?;
        number += usize::from(byte);
        if byte != 0xff {
            return Some(number);
        }
    }
}

/// Bytes of a NAL unit without those threes that stand behind two zeros (H.264 §7.4.1, H.265 §7.4.2).
fn without_emulation_prevention(unit: &[u8]) -> impl Iterator<Item = u8> {
    let mut zeros = 0;
    unit.iter().copied().filter(move |byte| {
        let is_prevention = zeros >= 2 && *byte == 3;
        zeros = if *byte == 0 { zeros + 1 } else { 0 };
        !is_prevention
    })
}

/// Calls `see` with each NAL unit of an H.264 payload that is whole in it: a single NAL unit or each part of a STAP-A.
pub(super) fn h264_whole_nals(payload: &[u8], mut see: impl FnMut(&[u8])) {
    match payload.first().map(|header| header & 0x1f) {
        Some(1..H264_STAP_A) => see(payload),
        Some(H264_STAP_A) => Aggregated(&payload[1..]).map_while(Result::ok).for_each(see),
        _ => {}
    }
}

/// Calls `see` with each NAL unit of an H.265 payload that is whole in it: a single NAL unit or each part of an AP.
pub(super) fn h265_whole_nals(payload: &[u8], mut see: impl FnMut(&[u8])) {
    match payload {
        [first, _, ..] if h265_type(*first) < H265_AP => see(payload),
        [first, _, rest @ ..] if h265_type(*first) == H265_AP => {
            Aggregated(rest).map_while(Result::ok).for_each(see);
        }
        _ => {}
    }
}

/// NAL unit type of an H.265 header's first byte.
pub(super) const fn h265_type(first: u8) -> u8 {
    (first >> 1) & 0x3f
}

pub(super) const H264_FORBIDDEN: u8 = 0x80;
const H264_SEI: u8 = 6;
pub(super) const H264_SPS: u8 = 7;
pub(super) const H264_STAP_A: u8 = 24;
pub(super) const H264_FU_A: u8 = 28;
const H264_FU_B: u8 = 29;
pub(super) const H265_FORBIDDEN: u8 = 0x80;
pub(super) const H265_VPS: u8 = 32;
pub(super) const H265_SPS: u8 = 33;
const H265_PREFIX_SEI: u8 = 39;
pub(super) const H265_AP: u8 = 48;
pub(super) const H265_FU: u8 = 49;
/// H.264 §D.1, H.265 §D.2.
const SEI_RECOVERY_POINT: usize = 6;

/// H.264 Table 7-1, from the NAL unit header.
const fn h264_nal_kind(header: u8) -> PacketKind {
    match header & 0x1f {
        1..=4 | 19..=21 if header & 0x60 == 0 => PacketKind::Disposable,
        5 | H264_SPS | 8 | 13 => PacketKind::Recovery,
        H264_SEI | 9..=12 | 14 => PacketKind::Neutral,
        0 | 30.. => PacketKind::Unknown,
        _ => PacketKind::Reference,
    }
}

/// H.265 Table 7-1.
fn h265_nal_kind(nal_type: u8, layer: u8, highest_layer: Option<u8>) -> PacketKind {
    match nal_type {
        // Even types up to 14 are sub-layer non-reference pictures.
        0..=15 if nal_type.is_multiple_of(2) && highest_layer == Some(layer) => PacketKind::Disposable,
        0..=15 => PacketKind::Reference,
        16..=23 | 32..=34 => PacketKind::Recovery,
        35..=40 => PacketKind::Neutral,
        24..=31 => PacketKind::Reference,
        _ => PacketKind::Unknown,
    }
}

/// Strongest kind in an aggregation packet; one that is cut short or empty is unknown as a whole.
fn strongest(kinds: impl Iterator<Item = Option<PacketKind>>) -> PacketKind {
    kinds
        .map(|kind| kind.unwrap_or(PacketKind::Unknown))
        .reduce(
            |a, b| if a == PacketKind::Unknown || b == PacketKind::Unknown { PacketKind::Unknown } else { a.max(b) },
        )
        .unwrap_or(PacketKind::Unknown)
}

fn aggregated<'a>(
    units: &'a [u8],
    kind: impl Fn(&[u8]) -> Option<PacketKind> + 'a,
) -> impl Iterator<Item = Option<PacketKind>> + 'a {
    Aggregated(units).map(move |unit| unit.ok().and_then(&kind))
}

/// The units of a STAP-A or AP, each behind a 16-bit length; an error, once, where a length does not fit.
struct Aggregated<'a>(&'a [u8]);

impl<'a> Iterator for Aggregated<'a> {
    type Item = Result<&'a [u8], ()>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = std::mem::take(&mut self.0);
        let [high, low, rest @ ..] = bytes else { return (!bytes.is_empty()).then_some(Err(())) };
        match rest.split_at_checked(usize::from(u16::from_be_bytes([*high, *low]))) {
            Some((unit, rest)) if !unit.is_empty() => {
                self.0 = rest;
                Some(Ok(unit))
            }
            _ => Some(Err(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PacketKind::*;
    use super::*;

    #[test]
    fn h264_single_units() {
        for (header, kind) in [
            (0x65, Recovery),
            (0x67, Recovery),
            (0x68, Recovery),
            (0x41, Reference),
            (0x21, Reference),
            (0x01, Disposable),
            (0x02, Disposable),
            (0x06, Neutral),
            (0x09, Neutral),
            (0x0c, Neutral),
            (0x00, Unknown),
            (0xe5, Unknown), // forbidden bit
            (0x1f, Unknown),
        ] {
            assert_eq!(h264_kind(&[header, 0]), kind, "{header:#x}");
        }
        assert_eq!(h264_kind(&[]), Unknown);
    }

    #[test]
    fn a_refresh_that_begins_is_a_recovery_point() {
        // As x264 says that its picture will be whole after 78 others.
        let x264 = [0x06, 0x06, 3, 0x02, 0x7c, 0x40, 0x80];
        // Others in front of it, of 4 and of 256 bytes, the first with an emulation prevention byte that does not count.
        let behind_others = [&[0x06, 5, 4, 0, 0, 3, 1, 9, 5, 0xff, 1][..], &[7; 256], &x264[1..]].concat();
        for unit in [&x264[..], &behind_others] {
            assert_eq!(h264_kind(unit), Recovery, "{unit:x?}");
            let length = (unit.len() as u16).to_be_bytes();
            assert_eq!(h264_kind(&[&[0x18], &length[..], unit, &[0, 1, 0x41]].concat()), Recovery);
            // Cut short, or of another type.
            for end in 1..unit.len() - 1 {
                assert_eq!(h264_kind(&unit[..end]), Neutral, "{:x?}", &unit[..end]);
            }
        }
        assert_eq!(h264_kind(&[0x06, 5, 3, 6, 1, 0x84, 0x80]), Neutral, "in something else");
        assert_eq!(h264_kind(&[0x41, 6, 1, 0x84]), Reference);
        let x265 = [39 << 1, 1, 6, 2, 0x84, 0x80, 0x80];
        assert_eq!(h265_kind(&x265, Some(0)), Recovery);
        assert_eq!(h265_kind(&[&[0x60, 1, 0, 7], &x265[..]].concat(), Some(0)), Recovery);
        assert_eq!(h265_kind(&[40 << 1, 1, 6, 2, 0x84, 0x80, 0x80], Some(0)), Neutral, "behind the picture");
        assert_eq!(h265_kind(&x265[..4], Some(0)), Neutral);
    }

    #[test]
    fn h264_fragments_take_type_and_importance_from_two_bytes() {
        assert_eq!(h264_kind(&[0x7c, 0x85, 1]), Recovery); // start of an IDR slice
        assert_eq!(h264_kind(&[0x7c, 0x05, 1]), Recovery); // its middle
        assert_eq!(h264_kind(&[0x5c, 0x41, 1]), Reference);
        assert_eq!(h264_kind(&[0x1c, 0x41, 1]), Disposable);
        assert_eq!(h264_kind(&[0x7c]), Unknown);
    }

    #[test]
    fn h264_aggregates_are_their_strongest_unit() {
        assert_eq!(h264_kind(&[0x78, 0, 2, 0x09, 0xf0, 0, 2, 0x67, 0x64, 0, 1, 0x68]), Recovery);
        assert_eq!(h264_kind(&[0x18, 0, 1, 0x06, 0, 1, 0x01]), Disposable);
        assert_eq!(h264_kind(&[0x78, 0, 2, 0x67, 0x64, 0, 3, 0x68]), Unknown); // lying length
        assert_eq!(h264_kind(&[0x78, 0, 0]), Unknown);
        assert_eq!(h264_kind(&[0x78]), Unknown);
    }

    #[test]
    fn h265_units() {
        for (nal_type, kind) in [
            (0, Disposable),
            (1, Reference),
            (2, Disposable),
            (9, Reference),
            (16, Recovery),
            (19, Recovery),
            (20, Recovery),
            (21, Recovery),
            (32, Recovery),
            (34, Recovery),
            (35, Neutral),
            (39, Neutral),
            (50, Unknown),
        ] {
            assert_eq!(h265_kind(&[nal_type << 1, 1, 0], Some(0)), kind, "type {nal_type}");
        }
        assert_eq!(h265_kind(&[0x02, 0], Some(0)), Unknown, "temporal id plus one is never zero");
        assert_eq!(h265_kind(&[0x02], Some(0)), Unknown);
    }

    #[test]
    fn h265_is_disposable_only_on_the_highest_sub_layer() {
        assert_eq!(h265_kind(&[0, 1, 0], Some(1)), Reference);
        assert_eq!(h265_kind(&[0, 2, 0], Some(1)), Disposable);
        assert_eq!(h265_kind(&[0, 1, 0], None), Reference);
    }

    #[test]
    fn h265_fragments_and_aggregates() {
        assert_eq!(h265_kind(&[0x62, 1, 0x80 | 19, 0], Some(0)), Recovery);
        assert_eq!(h265_kind(&[0x62, 1, 0x41, 0], Some(0)), Reference);
        assert_eq!(h265_kind(&[0x62, 1, 0, 0], Some(0)), Disposable);
        assert_eq!(h265_kind(&[0x62, 1], Some(0)), Unknown);
        assert_eq!(h265_kind(&[0x60, 1, 0, 2, 0x40, 1, 0, 2, 0x42, 1], None), Recovery);
        assert_eq!(h265_kind(&[0x60, 1, 0, 2, 0x40], None), Unknown);
    }
}
