use super::*;
use crate::cc::testing::{Feed, PACKET};

const MS: Duration = Duration::from_millis(1);

fn scream() -> Scream {
    let range = EncoderRange::default();
    Scream::new(ScreamConfig::default(), range)
}

/// One that has found a window of at least `bytes`.
fn grown(feed: &mut Feed, bytes: u64) -> Scream {
    let mut scream = scream();
    while scream.window(feed.now).0 < bytes {
        feed.window_acked(&mut scream);
    }
    scream
}

#[test]
fn the_window_grows_by_a_packet_in_a_round_trip_and_two_percent_of_it() {
    let mut feed = Feed::new(50 * MS);
    let mut scream = scream();
    feed.window_acked(&mut scream);
    let before = scream.ref_wnd;
    feed.acked(&mut scream, (before as u64).div_ceil(PACKET));
    let expected = PACKET as f64 + 0.02 * before;
    let increment = scream.ref_wnd - before;
    assert!((0.9 * expected..1.5 * expected).contains(&increment), "{increment}, not {expected}");
    feed.run(&mut scream, Duration::from_secs(10));
    assert!(scream.target_rate() > Bitrate::mbps(3), "{:?}", scream.target_rate());
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut feed = Feed::new(50 * MS);
    let mut scream = grown(&mut feed, 30_000);
    for _ in 0..500 {
        feed.acked(&mut scream, 4);
    }
    let used = 4.0 * PACKET as f64;
    let before = scream.ref_wnd;
    feed.acked(&mut scream, 4);
    assert!(scream.ref_wnd <= before.max(PACKET as f64 + 1.5 * used), "{}", scream.ref_wnd);
}

#[test]
fn a_loss_leaves_seven_tenths_and_a_mark_eight_once_in_a_round_trip() {
    for (lost, left) in [(true, 0.7), (false, 0.8)] {
        let mut feed = Feed::new(50 * MS);
        let mut scream = grown(&mut feed, 60_000);
        (feed.lost, feed.marked) = (lost, !lost);
        let before = scream.ref_wnd;
        feed.acked(&mut scream, 1 + u64::from(lost));
        let share = scream.ref_wnd / before;
        assert!((left - 0.001..left + 0.05).contains(&share), "{share}, not {left}");
    }
}

#[test]
fn a_queue_above_half_its_target_shrinks_the_window_and_one_below_does_not() {
    let mut feed = Feed::new(50 * MS);
    let mut scream = grown(&mut feed, 60_000);
    feed.rtt = 75 * MS;
    let before = scream.ref_wnd;
    for _ in 0..20 {
        feed.window_acked(&mut scream);
    }
    assert!(scream.ref_wnd > before, "25 ms is no congestion");
    feed.rtt = 120 * MS;
    let before = scream.ref_wnd;
    for _ in 0..20 {
        feed.window_acked(&mut scream);
    }
    assert!(scream.ref_wnd < 0.5 * before, "{} of {before}", scream.ref_wnd);
    assert!((scream.queue_delay().as_secs_f64() - 0.07).abs() < 1e-3);
}

#[test]
fn a_back_off_is_divided_by_the_round_trip_once() {
    let mut feed = Feed::new(200 * MS);
    let mut scream = grown(&mut feed, 120_000);
    feed.rtt = 400 * MS;
    for _ in 0..12 {
        feed.acked(&mut scream, 1);
    }
    let (before, rtt) = (scream.ref_wnd, scream.rtt());
    feed.acked(&mut scream, 1);
    let share = 1.0 - scream.ref_wnd / before;
    let once = 0.5 / (rtt / 0.025);
    assert!((0.5 * once..1.2 * once).contains(&share), "{share}, not {once}");
}

#[test]
fn the_rate_is_the_window_in_a_round_trip_of_any_length_less_what_waits_at_the_sender() {
    let mut feed = Feed::new(600 * MS);
    let mut scream = grown(&mut feed, 60_000);
    let plain = 8.0 * scream.ref_wnd / scream.rtt();
    let share = scream.target_rate().0 as f64 / plain;
    assert!((0.75..0.84).contains(&share), "{share}: not capped at 200 ms");
    for n in 0..100 {
        scream.poll(feed.now + n * 40 * MS, Load { queued: ByteCount(50_000), ..Load::default() });
    }
    assert!((scream.rate_adjust_factor - 0.5).abs() < 1e-9);
    assert!(scream.target_rate().0 as f64 / plain < 0.6);
}

#[test]
fn a_base_that_rose_for_good_is_learned_and_the_rate_is_halved_meanwhile() {
    let mut feed = Feed::new(50 * MS);
    let mut scream = grown(&mut feed, 60_000);
    feed.rtt = 110 * MS;
    let mut halved = false;
    for _ in 0..1000 {
        feed.window_acked(&mut scream);
        halved |= scream.delay.caution() < 1.0;
    }
    assert!(halved);
    assert!(scream.queue_delay() < 5 * MS, "{:?}", scream.queue_delay());
}
