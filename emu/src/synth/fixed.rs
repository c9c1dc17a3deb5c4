//! Powers and logarithms to base 2 in fixed point, the same on every machine. `_q32` is in units of 2⁻³².

/// 2^(2^-k) in units of 2⁻⁶², for k from 1 to 32: each the root of the one before.
const ROOTS: [u64; 32] = {
    let mut roots = [0; 32];
    let mut power = 2u128 << 62;
    let mut k = 0;
    while k < 32 {
        power = (power << 62).isqrt();
        roots[k] = power as u64;
        k += 1;
    }
    roots
};

/// 2 to the power of `x`, times `scale`; to nine digits. Saturates.
pub(super) fn scaled_exp2(x_q32: i64, scale: u64) -> u64 {
    let (whole, fraction) = (x_q32 >> 32, x_q32 as u32);
    let mut power = 1u128 << 62;
    for (k, root) in ROOTS.iter().enumerate() {
        if fraction >> (31 - k) & 1 == 1 {
            power = (power * u128::from(*root)) >> 62;
        }
    }
    // Below 2⁶³ times 2⁶⁴.
    let scaled = power * u128::from(scale);
    match whole {
        62.. => u64::MAX * u64::from(scale > 0),
        -126..62 => u64::try_from(scaled >> (62 - whole)).unwrap_or(u64::MAX),
        _ => 0,
    }
}

/// The logarithm to base 2; of 0 as of 1.
pub(super) fn log2_q32(x: u64) -> i64 {
    let x = x.max(1);
    let whole = x.ilog2();
    let mut mantissa = (u128::from(x) << 62) >> whole;
    let mut fraction = 0i64;
    for _ in 0..32 {
        mantissa = (mantissa * mantissa) >> 62;
        fraction <<= 1;
        if mantissa >= 2 << 62 {
            mantissa >>= 1;
            fraction |= 1;
        }
    }
    (i64::from(whole) << 32) | fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: i64 = 1 << 32;

    #[test]
    fn powers_of_two() {
        assert_eq!(scaled_exp2(0, 7), 7);
        assert_eq!(scaled_exp2(3 * ONE, 7), 56);
        assert_eq!(scaled_exp2(-2 * ONE, 100), 25);
        assert_eq!(scaled_exp2(ONE / 2, 1_000_000_000), 1_414_213_562);
        assert_eq!(scaled_exp2(-ONE / 2, 1_000_000_000), 707_106_781);
        assert_eq!(scaled_exp2(i64::MIN, u64::MAX), 0);
        assert_eq!(scaled_exp2(i64::MAX, 1), u64::MAX);
        assert_eq!(scaled_exp2(i64::MAX, 0), 0);
        assert_eq!(scaled_exp2(ONE, u64::MAX), u64::MAX);
        assert_eq!(scaled_exp2(-130 * ONE, u64::MAX), 0);
    }

    #[test]
    fn logarithms() {
        assert_eq!((log2_q32(0), log2_q32(1), log2_q32(1024)), (0, 0, 10 * ONE));
        assert_eq!(log2_q32(3), (1.584_962_500_721_156 * ONE as f64) as i64);
        for x in [5, 999, 1_800_000, 4_500_000_000, u64::MAX] {
            let back = scaled_exp2(log2_q32(x) - 20 * ONE, 1 << 20);
            assert!(back.abs_diff(x) <= x / 100_000_000 + 1, "{x}: {back}");
        }
    }
}
