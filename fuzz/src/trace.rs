//! Traces of links: nothing makes a parser panic, and what one accepts can be played, written and read again.

use std::io::Cursor;
use std::time::{Duration, Instant};

use aquila_emu::trace::{AnyTrace, Source, TraceInfo, csv, mahimahi, write};
use aquila_emu::{CcqMode, Path, PathConfig};

/// Calls before a link that hardly carries anything is left alone.
const CALLS: usize = 500;

/// The input is a file.
pub fn trace(data: &[u8]) {
    // Whatever the format is taken for.
    let _ = (mahimahi::scan(data), csv::scan(data));
    let open = || AnyTrace::open(Cursor::new(data.to_vec()));
    let Ok(checked) = open() else { return };
    assert!(!checked.info().duration.is_zero() && checked.info().items > 0);
    play(open().expect("it was accepted"));
    let before = checked.info().clone();
    let mut text = Vec::new();
    let after = match checked {
        AnyTrace::Mahimahi(mut trace) => {
            write::mahimahi(&mut text, &[], items(&mut trace)).expect("memory takes it");
            mahimahi::scan(text.as_slice())
        }
        AnyTrace::Csv(mut trace) => {
            write::csv(&mut text, &[], items(&mut trace)).expect("memory takes it");
            csv::scan(text.as_slice())
        }
    };
    // Comments and columns that mean nothing are not kept; shares may be off by their last place.
    let figures = |info: &TraceInfo| (info.duration, info.items, info.per_second_bps, info.longest_outage, info.delay);
    assert_eq!(figures(&after.expect("what was written can be read")), figures(&before));
}

fn items<I>(trace: &mut impl Source<I>) -> Vec<I> {
    std::iter::from_fn(|| trace.next_item().expect("it was checked")).collect()
}

fn play(trace: AnyTrace<Cursor<Vec<u8>>>) {
    let start = Instant::now();
    let mut path: Path<u32> = Path::new(PathConfig::default(), 1);
    trace.play(&mut path, start, start, CcqMode::MacArq { retries: 3 });
    for n in 0..20 {
        let _ = path.push(start + Duration::from_millis(u64::from(n)), 1400, n);
    }
    for _ in 0..CALLS {
        let Some(at) = path.next_delivery() else { break };
        while path.pop(at).is_some() {}
    }
    assert_eq!(path.trace_fault(), None);
    let stats = path.stats();
    let (inside, gone) = (stats.queued.packets, stats.dropped.total().packets);
    assert_eq!(stats.input.packets, stats.output.packets + gone + inside);
}
