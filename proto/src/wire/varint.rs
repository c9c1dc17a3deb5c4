//! QUIC variable-length integers (RFC 9000 §16).

use bytes::BufMut;

/// Largest value a varint can carry: 2^62 - 1.
pub const MAX_VARINT: u64 = (1 << 62) - 1;

/// Bytes that `value` takes: 1, 2, 4 or 8. Values above [`MAX_VARINT`] are counted as the maximum.
pub const fn varint_len(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// Writes `value`, at most [`MAX_VARINT`]; larger values are written as the maximum.
pub fn put_varint(out: &mut impl BufMut, value: u64) {
    match value {
        0..=0x3f => out.put_u8(value as u8),
        0x40..=0x3fff => out.put_u16(0x4000 | value as u16),
        0x4000..=0x3fff_ffff => out.put_u32(0x8000_0000 | value as u32),
        _ => out.put_u64(0xc000_0000_0000_0000 | value.min(MAX_VARINT)),
    }
}

/// Takes a varint from the front of `bytes`; `None`, taking nothing, if they end too early.
pub fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let first = *bytes.first()?;
    let len = 1usize << (first >> 6);
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken[1..].iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_take_the_length_rfc_9000_gives_them() {
        for (value, len) in [
            (0, 1),
            (63, 1),
            (64, 2),
            (16_383, 2),
            (16_384, 4),
            (1_073_741_823, 4),
            (1_073_741_824, 8),
            (MAX_VARINT, 8),
        ] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!((out.len(), varint_len(value)), (len, len), "{value}");
            let mut rest = out.as_slice();
            assert_eq!(take_varint(&mut rest), Some(value));
            assert!(rest.is_empty());
            let mut short = &out[..len - 1];
            assert_eq!(take_varint(&mut short), None);
        }
    }

    #[test]
    fn rfc_9000_appendix_a1_vectors() {
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ] {
            let mut rest = bytes;
            assert_eq!(take_varint(&mut rest), Some(value));
        }
    }
}
