//! Decimal numbers without floating point, so that `0.1` is what it says.

/// Reads a decimal number of at least 0 as a multiple of 10^-`places`: `12`, `12.5`, `.5`. Further digits are cut off.
/// No sign, no exponent, no spaces within. `None` if it is something else; `u64::MAX` stands for anything larger.
pub(crate) fn parse(text: &[u8], places: u32) -> Option<u64> {
    let text = text.trim_ascii();
    let (whole, fraction) = match text.iter().position(|byte| *byte == b'.') {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (text, &text[..0]),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    let mut value = 0u64;
    for byte in whole {
        value = value.saturating_mul(10).saturating_add(digit(byte)?);
    }
    for place in 0..fraction.len().max(places as usize) {
        let digit = fraction.get(place).map_or(Some(0), digit)?;
        if place < places as usize {
            value = value.saturating_mul(10).saturating_add(digit);
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        assert_eq!(parse(b"12.5", 6), Some(12_500_000));
        assert_eq!(parse(b"0.1", 9), Some(100_000_000));
        assert_eq!(parse(b".5", 1), Some(5));
        assert_eq!(parse(b"7.", 0), Some(7));
        assert_eq!(parse(b" 3 ", 0), Some(3));
        assert_eq!(parse(b"1.999999", 3), Some(1_999));
        assert_eq!(parse(b"00012", 0), Some(12));
    }

    #[test]
    fn what_is_no_plain_number_is_refused() {
        for text in ["", ".", " ", "-1", "+1", "1e3", "nan", "inf", "1,5", "0x10", "1 2", "1.2.3", "1.x", "٣"] {
            assert_eq!(parse(text.as_bytes(), 3), None, "{text}");
        }
    }

    #[test]
    fn what_is_too_large_saturates() {
        assert_eq!(parse(b"18446744073709551615", 0), Some(u64::MAX));
        assert_eq!(parse(b"99999999999999999999999999", 0), Some(u64::MAX));
        assert_eq!(parse(b"18446744073709551615", 3), Some(u64::MAX));
    }
}
