//! Messages, links and events as CSV. Times are seconds since the start of the run; columns `variant` count from 1.

use std::fmt::Display;
use std::io::{self, Write};
use std::time::Duration;

use crate::judge::Judgement;
use crate::metrics::DIRECTION_NAMES;
use crate::record::Run;

/// Every message: `arrived_s` is empty if it never did.
pub fn messages(to: &mut impl Write, judgement: &Judgement) -> io::Result<()> {
    writeln!(to, "variant,contender,seed,flow,direction,number,sent_s,arrived_s,bytes")?;
    for (variant, run) in runs(judgement) {
        for flow in &run.flows {
            let direction = DIRECTION_NAMES[flow.direction];
            for (number, message) in flow.messages.iter().enumerate() {
                writeln!(
                    to,
                    "{variant},{},{},{},{direction},{number},{},{},{}",
                    field(&run.contender),
                    run.seed,
                    field(&flow.name),
                    Seconds(message.sent),
                    message.arrived.map(|arrived| Seconds(arrived).to_string()).unwrap_or_default(),
                    message.bytes
                )?;
            }
        }
    }
    to.flush()
}

/// Every direction of every link, ten times a second; bytes are those of the tenth of a second that ends at `time_s`.
pub fn links(to: &mut impl Write, judgement: &Judgement) -> io::Result<()> {
    writeln!(
        to,
        "variant,contender,seed,link,direction,time_s,capacity_bps,offered_bytes,delivered_bytes,lost_bytes,\
         dropped_bytes,outage_bytes,queue_ms,is_out"
    )?;
    for (variant, run) in runs(judgement) {
        for series in &run.links {
            let direction = DIRECTION_NAMES[series.direction];
            for sample in &series.samples {
                writeln!(
                    to,
                    "{variant},{},{},{},{direction},{:.1},{},{},{},{},{},{},{},{}",
                    field(&run.contender),
                    run.seed,
                    field(&series.link),
                    sample.at_s,
                    sample.capacity_bps.map(|capacity| format!("{capacity:.0}")).unwrap_or_default(),
                    sample.offered,
                    sample.delivered,
                    sample.lost,
                    sample.dropped,
                    sample.outage,
                    (sample.queue_ms * 1e3).round() / 1e3,
                    u8::from(sample.is_out)
                )?;
            }
        }
    }
    to.flush()
}

/// Everything that happened.
pub fn events(to: &mut impl Write, judgement: &Judgement) -> io::Result<()> {
    writeln!(to, "variant,contender,seed,time_s,place,event")?;
    for (variant, run) in runs(judgement) {
        for event in &run.events {
            let (contender, place, text) = (field(&run.contender), field(&event.place), field(&event.text));
            writeln!(to, "{variant},{contender},{},{:.6},{place},{text}", run.seed, event.at_s)?;
        }
    }
    to.flush()
}

/// All runs, each with the number of its variant.
fn runs(judgement: &Judgement) -> impl Iterator<Item = (usize, &Run)> {
    let variants = judgement.variants.iter().enumerate();
    variants.flat_map(|(number, variant)| variant.runs.iter().map(move |run| (number + 1, run)))
}

/// Seconds to the microsecond, rounded down, without a detour over floating point.
struct Seconds(Duration);

impl Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0.as_secs(), self.0.subsec_micros())
    }
}

/// A field as RFC 4180 wants it.
fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"").replace(['\n', '\r'], " ")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(field("plain"), "plain");
        assert_eq!(field("a, \"b\"\nc"), "\"a, \"\"b\"\" c\"");
        assert_eq!(Seconds(Duration::from_nanos(1_500_000_999)).to_string(), "1.500000");
    }
}
