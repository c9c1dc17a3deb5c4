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

/// The cosine of an angle in units of 2⁻³² turns; to nine digits.
pub(super) fn cos_q32(turn: u32) -> i64 {
    /// 2π in units of 2⁻⁶⁰.
    const TURN_Q60: i128 = 7_244_019_458_077_122_842;
    // To the first quarter; there, the series.
    let half = if turn > 1 << 31 { turn.wrapping_neg() } else { turn };
    let (quarter, sign) = if half > 1 << 30 { ((1 << 31) - half, -1) } else { (half, 1) };
    let angle = (i128::from(quarter) * TURN_Q60) >> 32;
    let square = (angle * angle) >> 60;
    let (mut term, mut sum) = (1i128 << 60, 1i128 << 60);
    for n in 1..10 {
        term = -((term * square) >> 60) / (2 * n * (2 * n - 1));
        sum += term;
    }
    sign * (sum >> 28) as i64
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
    fn cosines() {
        for (turn, expected) in [(0, ONE), (1 << 30, 0), (1 << 31, -ONE), (3 << 30, 0), (1 << 29, 3_037_000_500)] {
            assert!(cos_q32(turn).abs_diff(expected) <= 2, "{turn}: {}", cos_q32(turn));
        }
        for turn in (0..1000).map(|n| n * 4_294_967) {
            let expected = (f64::from(turn) / ONE as f64 * std::f64::consts::TAU).cos();
            assert!((cos_q32(turn) as f64 / ONE as f64 - expected).abs() < 1e-9, "{turn}");
        }
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
