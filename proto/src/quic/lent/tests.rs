use bytes::BytesMut;
use proptest::prelude::*;

use super::super::bearer::{QuicBearer, QuicConfig};
use super::super::tickets::MemoryTickets;
use super::*;
use crate::BearerId;
use crate::cc::testing::{Feed, check, recover, step};
use crate::cc::{BorrowedConfig, CongestionConfig};
use crate::identity::Identity;
use crate::seeded::SeededBytes;

fn start() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
    Instant::now()
}

fn bearer(own: u8, peer: u8, listen: bool) -> QuicBearer {
    let config = QuicConfig {
        bearer: BearerId::FIRST,
        identity: Arc::new(Identity::from_seed([own; 32])),
        peer: Identity::from_seed([peer; 32]).public(),
        mtu: 1200,
        tickets: Arc::new(MemoryTickets::default()),
        resumption: None,
        listen,
    };
    QuicBearer::new(config, &mut SeededBytes::new(&[own; 32], "test")).unwrap()
}

/// A slot that a real connection has filled: estimators cannot be made.
fn filled() -> RttSlot {
    let (mut now, mut client, mut server) = (start(), bearer(1, 2, false), bearer(2, 1, true));
    let _ = client.lend(Borrowed { kind: BorrowedKind::Cubic, config: BorrowedConfig::of(BorrowedKind::Cubic) }, now);
    let (here, there) = ("198.51.100.7:1".parse().unwrap(), "203.0.113.1:1".parse().unwrap());
    client.connect(now, there).unwrap();
    let mut out = Vec::new();
    for _ in 0..20 {
        now += Duration::from_millis(10);
        client.handle_timeout(now);
        while client.poll_transmit(now, &mut out).is_some() {
            server.handle_datagram(now, here, None, None, BytesMut::from(&out[..]));
        }
        server.handle_timeout(now);
        while server.poll_transmit(now, &mut out).is_some() {
            client.handle_datagram(now, there, None, None, BytesMut::from(&out[..]));
        }
    }
    client.rtt_slot().unwrap()
}

fn lent(kind: BorrowedKind, slot: &RttSlot) -> Lent {
    Lent::new(Borrowed { kind, config: BorrowedConfig::of(kind) }, 1200, start(), slot.clone())
}

/// As many as the window holds, which holds back the rest.
fn busy_round(feed: &mut Feed, lent: &mut Lent) {
    let window = lent.window(feed.now);
    lent.poll(feed.now, Load { in_flight: window, queued: ByteCount(10_000), ..Load::default() });
    feed.window_acked(lent);
}

#[test]
fn a_connection_fills_the_slot() {
    let rtt = filled().look().unwrap();
    assert!(rtt.get() < Duration::from_millis(30), "{:?}", rtt.get());
}

#[test]
fn cubic_doubles_its_window_in_a_round_trip_until_a_loss_leaves_seven_tenths() {
    let (mut feed, mut cubic) = (Feed::new(Duration::from_millis(50)), lent(BorrowedKind::Cubic, &filled()));
    let before = cubic.window(feed.now).0;
    busy_round(&mut feed, &mut cubic);
    busy_round(&mut feed, &mut cubic);
    let grown = cubic.window(feed.now).0;
    assert!(grown > before * 3, "{before} {grown}");
    feed.lost = true;
    feed.acked(&mut cubic, 2);
    let left = cubic.window(feed.now).0 as f64 / grown as f64;
    assert!((0.69..0.75).contains(&left), "{left}");
}

#[test]
fn a_window_that_holds_nothing_back_does_not_grow() {
    let (mut feed, mut cubic) = (Feed::new(Duration::from_millis(50)), lent(BorrowedKind::Cubic, &filled()));
    let before = cubic.window(feed.now);
    for _ in 0..20 {
        feed.acked(&mut cubic, 3);
    }
    assert_eq!(cubic.window(feed.now), before);
}

#[test]
fn bbr_measures_what_arrives_and_asks_for_its_share_of_its_pacing_rate() {
    let (mut feed, mut bbr) = (Feed::new(Duration::from_millis(50)), lent(BorrowedKind::Bbr, &filled()));
    assert!(bbr.own_rate().is_none());
    for _ in 0..6 {
        busy_round(&mut feed, &mut bbr);
    }
    assert!(bbr.capacity() > Bitrate::mbps(4), "{:?}", bbr.capacity());
    let share = bbr.target_rate().0 as f64 / bbr.own_rate().unwrap();
    assert!((share - 0.75).abs() < 0.01, "{share}");
    assert!(bbr.target_rate().0 as f64 <= 0.75 * 2.77 * bbr.capacity().0 as f64 + 1.0, "also in Startup");
}

#[test]
fn what_was_never_sent_is_not_acknowledged() {
    let (mut feed, mut cubic) = (Feed::new(Duration::from_millis(50)), lent(BorrowedKind::Cubic, &filled()));
    feed.acked(&mut cubic, 5);
    assert!(cubic.sent.is_empty(), "all are known");
    assert!(cubic.take(1_000_000_000, ByteCount(1240)).is_none(), "and none is known twice");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_reported_bounds_hold_and_a_good_path_is_used_again(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let slot = filled();
        for name in ["bbr", "cubic"] {
            let lend = |borrowed| Box::new(Lent::new(borrowed, 1200, start(), slot.clone())) as Box<dyn Controller>;
            let mut controller = CongestionConfig::by_name(name).unwrap().build(Default::default(), lend);
            let (mut now, mut clock_us) = (start(), 1_000_000_000);
            for step in &steps {
                check(&mut *controller, &mut now, &mut clock_us, step)?;
            }
            let (window, rate) = recover(&mut *controller, now);
            prop_assert!(window >= ByteCount(2400), "{name}: {window:?}");
            prop_assert!(rate >= Bitrate::kbps(100), "{name}: {rate:?}");
        }
    }
}
