use super::*;
use crate::cc::testing::Feed;

/// By default.
const MSS: u64 = 1240;

fn paper() -> Paper {
    Paper::new(PaperConfig::default(), Units::Packets)
}

#[test]
fn the_window_grows_by_a_packet_in_a_round_trip_while_the_queue_is_below_its_target() {
    let mut paper = paper();
    let mut feed = Feed::new(Duration::from_millis(50));
    let before = paper.window(feed.now).0;
    feed.window_acked(&mut paper);
    let grown = paper.window(feed.now).0 - before;
    assert!((MSS * 9 / 10..=MSS).contains(&grown), "{grown}");
}

#[test]
fn by_the_printed_units_it_grows_by_less_than_a_byte_for_each_packet() {
    let mut literal = Paper::new(PaperConfig::default(), Units::Bytes);
    let mut feed = Feed::new(Duration::from_millis(50));
    let before = literal.window(feed.now).0;
    feed.window_acked(&mut literal);
    assert!(literal.window(feed.now).0 - before <= 1);
    assert_eq!(literal.name(), "paper-literal");
}

#[test]
fn a_queue_above_one_and_a_half_round_trips_takes_its_share_of_the_excess_once_in_a_round_trip() {
    let mut paper = paper();
    let mut feed = Feed::new(Duration::from_millis(100));
    feed.window_acked(&mut paper);
    feed.rtt = Duration::from_millis(245);
    for _ in 0..20 {
        feed.window_acked(&mut paper);
    }
    let allowed = paper.window(feed.now).0;
    assert!(paper.queue_delay() > Duration::from_millis(120), "{:?}", paper.queue_delay());
    assert!(allowed > 20 * MSS, "145 ms are allowed at 100 ms: it has grown to {allowed}");
    feed.rtt = Duration::from_millis(700);
    for _ in 0..25 {
        feed.window_acked(&mut paper);
    }
    let left = paper.window(feed.now).0;
    assert!(left < allowed / 4, "{left} of {allowed}");
    let before = left;
    feed.acked(&mut paper, 1);
    feed.acked(&mut paper, 1);
    assert!(paper.window(feed.now).0 * 2 > before, "not with each packet");
}

#[test]
fn a_queue_that_has_stood_for_the_whole_window_is_no_queue_any_more() {
    let mut paper = paper();
    let mut feed = Feed::new(Duration::from_millis(100));
    feed.window_acked(&mut paper);
    feed.rtt = Duration::from_millis(240);
    feed.run(&mut paper, Duration::from_secs(40));
    assert!(paper.queue_delay() < Duration::from_millis(5), "the fault of equation 5, kept: {:?}", paper.queue_delay());
}

#[test]
fn the_encoder_gets_its_share_of_what_commands_leave() {
    let mut paper = paper();
    let mut feed = Feed::new(Duration::from_millis(100));
    feed.acked(&mut paper, 1);
    let rate = 8.0 * paper.cwnd / 0.1;
    let expected = 0.9 * (rate - 15_000.0);
    assert!((paper.target_rate().0 as f64 - expected).abs() < 2.0, "{}", paper.target_rate().0);
}

#[test]
fn the_window_stays_within_the_bounds_that_are_filled_in() {
    let config =
        PaperConfig { initial_window: 2, min_window: 4, max_window: ByteCount(20_000), ..PaperConfig::default() };
    let mut paper = Paper::new(config, Units::Packets);
    let mut feed = Feed::new(Duration::from_millis(50));
    assert_eq!(paper.window(feed.now).0, 4 * MSS);
    for _ in 0..100 {
        feed.window_acked(&mut paper);
    }
    assert_eq!(paper.window(feed.now).0, 20_000);
    feed.rtt = Duration::from_millis(900);
    for _ in 0..100 {
        feed.window_acked(&mut paper);
    }
    assert!(paper.window(feed.now).0 >= 4 * MSS);
    // Bounds that exclude each other are no reason to fall.
    let config = PaperConfig { min_window: 1_000, max_window: ByteCount(12_400), ..PaperConfig::default() };
    assert_eq!(Paper::new(config, Units::Packets).window(feed.now).0, 1_000 * MSS);
}
