//! Writers for the formats that [`super`] reads. What they write can be read again, if no sample is shorter
//! than a microsecond.

use std::io::{self, Write};
use std::time::Duration;

use crate::cell::samples::Sample;

/// Writes opportunities as a mahimahi trace, and says how many. Nothing is lost but fractions of a millisecond: times
/// are rounded up, since an opportunity must not come before its time.
///
/// `comments` are written in front, each on a line of its own behind `#`; the program mahimahi itself takes none, so
/// leave them empty for it.
///
/// # Errors
///
/// If the writer fails.
pub fn mahimahi(
    mut to: impl Write,
    comments: &[String],
    opportunities: impl IntoIterator<Item = Duration>,
) -> io::Result<u64> {
    write_comments(&mut to, comments)?;
    let mut count = 0;
    for at in opportunities {
        writeln!(to, "{}", at.as_nanos().div_ceil(1_000_000))?;
        count += 1;
    }
    to.flush()?;
    Ok(count)
}

/// Writes samples as CSV, with the columns that the first one has a value for, and says how many rows. Times are in
/// seconds to the nanosecond, from 0; rates in bit/s; delays in milliseconds to the nanosecond; shares to 10⁻⁹.
///
/// The length of the last row is the length of the one before it: if it is another one, that is lost. A value that a
/// later sample lacks is written as the one before it.
///
/// # Errors
///
/// If the writer fails.
pub fn csv(mut to: impl Write, comments: &[String], samples: impl IntoIterator<Item = Sample>) -> io::Result<u64> {
    write_comments(&mut to, comments)?;
    let mut samples = samples.into_iter();
    let Some(first) = samples.next() else { return Ok(0) };
    write!(to, "time_s")?;
    for (name, has) in [
        ("rate_bps", first.rate_bps.is_some()),
        ("delay_ms", first.delay.is_some()),
        ("loss", first.loss.is_some() && first.ccq.is_none()),
        ("ccq", first.ccq.is_some()),
    ] {
        if has {
            write!(to, ",{name}")?;
        }
    }
    writeln!(to)?;
    let (mut at, mut held, mut count) = (Duration::ZERO, first, 0);
    for sample in std::iter::once(first).chain(samples) {
        held = Sample {
            lasts: sample.lasts,
            rate_bps: sample.rate_bps.or(held.rate_bps),
            delay: sample.delay.or(held.delay),
            loss: sample.loss.or(held.loss),
            ccq: sample.ccq.or(held.ccq),
        };
        write!(to, "{}", fixed(at.as_nanos(), 9))?;
        if let Some(rate) = first.rate_bps.and(held.rate_bps) {
            write!(to, ",{rate}")?;
        }
        if let Some(delay) = first.delay.and(held.delay) {
            write!(to, ",{}", fixed(delay.as_nanos(), 6))?;
        }
        let (loss, ccq) = (first.loss.and(held.loss), first.ccq.and(held.ccq));
        if let Some(share) = ccq.or(loss) {
            write!(to, ",{}", fixed((share.clamp(0.0, 1.0) * 1e9).round() as u128, 9))?;
        }
        writeln!(to)?;
        at = at.saturating_add(sample.lasts);
        count += 1;
    }
    to.flush()?;
    Ok(count)
}

fn write_comments(to: &mut impl Write, comments: &[String]) -> io::Result<()> {
    // A line break in a comment would make data of its rest.
    comments.iter().flat_map(|comment| comment.lines()).try_for_each(|line| writeln!(to, "# {line}"))
}

/// A number in units of 10^-`places`, without needless zeros.
fn fixed(value: u128, places: u32) -> String {
    let one = 10u128.pow(places);
    let (whole, fraction) = (value / one, value % one);
    if fraction == 0 {
        return whole.to_string();
    }
    let text = format!("{whole}.{fraction:0width$}", width = places as usize);
    text.trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_needless_zeros() {
        assert_eq!(fixed(1_500_000_000, 9), "1.5");
        assert_eq!(fixed(2_000_000, 6), "2");
        assert_eq!(fixed(1, 9), "0.000000001");
        assert_eq!(fixed(0, 9), "0");
    }

    #[test]
    fn fractions_of_a_millisecond_are_rounded_up() {
        let mut text = Vec::new();
        let times = [0, 1_000_000, 1_000_001, 3_000_000].map(Duration::from_nanos);
        assert_eq!(mahimahi(&mut text, &["source: a\nb".to_owned()], times).unwrap(), 4);
        assert_eq!(text, b"# source: a\n# b\n0\n1\n2\n3\n");
    }

    #[test]
    fn columns_are_those_of_the_first_sample() {
        let sample = Sample {
            lasts: Duration::from_millis(500),
            rate_bps: Some(2_500_000),
            delay: Some(Duration::from_micros(12_500)),
            loss: None,
            ccq: Some(0.75),
        };
        let mut text = Vec::new();
        let second = Sample { rate_bps: None, ccq: Some(1.0), ..sample };
        assert_eq!(csv(&mut text, &[], [sample, second]).unwrap(), 2);
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "time_s,rate_bps,delay_ms,ccq\n0,2500000,12.5,0.75\n0.5,2500000,12.5,1\n"
        );
    }
}
