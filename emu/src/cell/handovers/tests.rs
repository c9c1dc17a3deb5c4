//! Outages from a list, seen through a path.

use super::*;
use crate::path::tests::{epoch, ms};
use crate::trace::List;
use crate::{Path, PathConfig};

/// 12 Mbit/s and 30 ms.
fn play(start: Instant, handovers: &[Handover], outage: Outage) -> Path<u32> {
    let config = PathConfig { rate_bps: Some(12_000_000), delay: ms(30), ..PathConfig::default() };
    let mut path = Path::new(config, 0);
    let source = Box::new(List::new(handovers.to_vec()));
    path.play_handovers(start, start, Handovers { source, outage });
    path
}

fn handover(at: u64, lasts: u64, shift_ms: i64) -> Handover {
    Handover { at: ms(at), lasts: ms(lasts), delay_shift: Some(shift_ms * 1_000_000) }
}

fn drain(path: &mut Path<u32>, start: Instant) -> Vec<(u32, u64)> {
    let mut out = Vec::new();
    while let Some(at) = path.next_delivery() {
        out.extend(path.pop(at).map(|n| (n, (at - start).as_millis() as u64)));
    }
    out
}

#[test]
fn a_handover_holds_and_shifts_the_delay() {
    let start = epoch();
    let mut path = play(start, &[handover(10, 20, 60), handover(100, 5, -10)], Outage::Hold);
    path.push(start + ms(9), 1500, 1).unwrap(); // sent at 10, before it begins
    path.push(start + ms(10), 1500, 2).unwrap(); // waits to 30, sent at 31
    path.push(start + ms(104), 1500, 3).unwrap(); // sent at 106
    path.push(start + ms(104), 1500, 4).unwrap();
    // Shifted to 90 ms and then to 20; nothing overtakes.
    assert_eq!(drain(&mut path, start), [(1, 40), (2, 121), (3, 126), (4, 127)]);
    assert_eq!(path.delay(), ms(20));
}

#[test]
fn overlapping_handovers_follow_one_another() {
    let start = epoch();
    let mut path = play(start, &[handover(10, 20, 0), handover(15, 20, 0), handover(50, 0, 0)], Outage::Hold);
    path.push(start + ms(12), 1500, 1).unwrap();
    assert_eq!(drain(&mut path, start), [(1, 81)]);
    assert_eq!(path.outage(), None);
}

#[test]
fn a_drop_loses_what_comes() {
    let start = epoch();
    let mut path = play(start, &[Handover { at: ms(10), lasts: ms(20), delay_shift: None }], Outage::Drop);
    assert!(path.push(start + ms(10), 1500, 1).is_err());
    assert!(path.push(start + ms(30), 1500, 2).is_ok());
    assert_eq!(drain(&mut path, start), [(2, 61)]);
}
