use std::time::Duration;

use super::association::{SendClock, phase};
use super::*;
use crate::aerotp::extension::{HELLO_LEN, Hello, HelloKind};
use crate::aerotp::header::{Flags, Port, Seq, TransferMode};

/// What one end has sealed.
#[derive(Clone)]
struct Segment {
    header: Header,
    extension: Vec<u8>,
    sealed: Vec<u8>,
    association: u64,
    number: u64,
}

fn identity(seed: u8) -> Arc<Identity> {
    Arc::new(Identity::from_seed([seed; 32]))
}

/// One end of life `life`. Randomness differs from life to life.
fn end(initiates: bool, life: u64, accepted: Option<u64>) -> Security {
    let (us, peer) = if initiates { (1, 2) } else { (2, 1) };
    let config = SecurityConfig { identity: identity(us), peer: identity(peer).public(), initiates, life, accepted };
    Security::new(config, SeededBytes::new(&[life as u8; 32], if initiates { "a" } else { "b" })).unwrap()
}

fn seal(end: &mut Security, now: Instant, text: &[u8]) -> Segment {
    let mut header = Header::new(Port(5), Port(6), TransferMode::Reliable, Seq(7), Flags::PUSH);
    let mut sealed = text.to_vec();
    let (extension, association, number) = {
        let done = end.seal(now, &mut header, &mut sealed).unwrap();
        (done.extension.to_vec(), done.association, done.number)
    };
    Segment { header, extension, sealed, association, number }
}

/// The plaintext, and what else is told, as text to compare.
fn open(end: &mut Security, now: Instant, segment: &Segment) -> Result<Told, OpenError> {
    let mut sealed = segment.sealed.clone();
    let opened = end.open(now, &segment.header, &segment.extension, &mut sealed)?;
    assert_eq!((opened.number, opened.association), (segment.number, segment.association));
    Ok(Told { text: opened.plaintext.to_vec(), early: opened.early, repeated: opened.repeated, news: opened.news })
}

#[derive(Debug, PartialEq)]
struct Told {
    text: Vec<u8>,
    early: bool,
    repeated: bool,
    news: Option<News>,
}

impl Told {
    fn restarted(&self) -> Option<bool> {
        self.news.map(|News::Associated { restarted, .. }| restarted)
    }
}

/// Ends in their first lives, whose handshake is done.
fn pair(now: Instant) -> (Security, Security) {
    let (mut a, mut b) = (end(true, 1, None), end(false, 1, None));
    a.begin(now);
    shake(&mut a, &mut b, now);
    (a, b)
}

/// Lets a pending handshake finish.
fn shake(a: &mut Security, b: &mut Security, now: Instant) {
    let first = seal(a, now, b"");
    drop(open(b, now, &first));
    let second = seal(b, now, b"");
    open(a, now, &second).unwrap();
    let third = seal(a, now, b"");
    open(b, now, &third).unwrap();
    assert!(a.overhead() == TAG_LEN && b.overhead() == TAG_LEN);
}

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
pub(super) fn start() -> Instant {
    Instant::now()
}

#[test]
fn first_flight_reply_and_confirmation() {
    let now = start();
    let (mut a, mut b) = (end(true, 3, None), end(false, 9, None));
    assert!(!a.can_seal() && !b.can_seal());
    a.begin(now);
    assert!(a.wants_to_send());
    assert_eq!(a.overhead(), 76);

    let first = seal(&mut a, now, b"hello");
    assert_eq!((first.header.phase, first.extension.len(), first.sealed.len()), (0, 60, 5 + 16));
    let told = open(&mut b, now, &first).unwrap();
    let counter = 3 << 20;
    let news = News::Associated { counter, peer_life: 3, restarted: false };
    assert_eq!(told, Told { text: b"hello".into(), early: true, repeated: false, news: Some(news) });
    assert_eq!(b.snapshot(), Some(counter));
    assert_eq!(b.snapshot(), None);
    assert!(b.wants_to_send() && b.can_seal() && !b.is_established());

    let reply = seal(&mut b, now, b"hi");
    assert_eq!((reply.header.phase, reply.extension.len()), (phase(counter), 60));
    let told = open(&mut a, now, &reply).unwrap();
    let news = News::Associated { counter, peer_life: 9, restarted: false };
    assert_eq!(told, Told { text: b"hi".into(), early: false, repeated: false, news: Some(news) });
    assert!(a.is_established() && a.wants_to_send());
    assert_eq!(a.overhead(), 16);

    let second = seal(&mut a, now, b"well");
    assert!(open(&mut b, now, &second).is_ok_and(|told| !told.early && told.news.is_none()));
    assert!(b.is_established());
    assert_eq!((b.overhead(), a.overhead()), (16, 16));
    assert!(open(&mut b, now, &second).unwrap().repeated);
}

#[test]
fn the_connection_builds_from_any_early_segment_and_all_of_them_open() {
    let now = start();
    let (mut a, mut b) = (end(true, 1, None), end(false, 1, None));
    a.begin(now);
    let flight: Vec<Segment> = (0..5_u8).map(|n| seal(&mut a, now, &[n])).collect();
    for n in [3, 0, 4, 2] {
        let told = open(&mut b, now, &flight[n]).unwrap();
        assert_eq!((told.text, told.early, told.news.is_some()), (vec![n as u8], true, n == 3));
    }
    shake(&mut a, &mut b, now);
    // What was sealed early and is late, or sent again as it was, still opens: its first message is known.
    assert!(!open(&mut b, now, &flight[1]).unwrap().repeated);
    assert!(open(&mut b, now, &flight[0]).unwrap().repeated);
    assert_eq!(b.counters().associations, 1);
}

#[test]
fn any_changed_bit_of_what_is_authenticated_is_refused() {
    let now = start();
    let (mut a, mut b) = pair(now);
    a.handle_timeout(now + 61 * MINUTE);
    let good = seal(&mut a, now, b"payload");
    assert_eq!(good.extension.len(), 60, "a rekey has begun");
    let mut refused = 0;
    for bit in 0..good.sealed.len() * 8 {
        let mut bad = good.clone();
        bad.sealed[bit / 8] ^= 1 << (bit % 8);
        refused += u32::from(open(&mut b, now, &bad) == Err(OpenError::Forged));
    }
    for bit in 32..good.extension.len() * 8 {
        let mut bad = good.clone();
        bad.extension[bit / 8] ^= 1 << (bit % 8);
        refused += u32::from(open(&mut b, now, &bad) == Err(OpenError::Forged));
    }
    assert_eq!(refused, 23 * 8 + 56 * 8);
    let plain = good.header;
    let changed = [
        Header { source: Port(4), ..plain },
        Header { destination: Port(4), ..plain },
        Header { seq: Seq(8), ..plain },
        Header { timestamp: plain.timestamp + 1, ..plain },
        Header { mode: TransferMode::UnreliableDatagram, ..plain },
        Header { flags: Flags::FIN, ..plain },
    ];
    for header in changed {
        assert_eq!(open(&mut b, now, &Segment { header, ..good.clone() }), Err(OpenError::Forged), "{header:?}");
    }
    for wrong in [Header { phase: plain.phase % 7 + 1, ..plain }, Header { phase: 0, ..plain }] {
        assert!(open(&mut b, now, &Segment { header: wrong, ..good.clone() }).is_err());
    }
    for wrong in [Header { payload_len: 1, ..plain }, Header { extension_words: 14, ..plain }] {
        assert_eq!(open(&mut b, now, &Segment { header: wrong, ..good.clone() }), Err(OpenError::Malformed));
    }
    // What a hop or another copy may change.
    let header = Header { ecn: crate::aerotp::Ecn::Stop, parity_words: 9, has_crc: true, ..plain };
    assert_eq!(open(&mut b, now, &Segment { header, ..good }).unwrap().text, b"payload");
}

#[test]
fn a_replayed_first_message_is_refused_also_after_a_restart() {
    let now = start();
    let (mut a, mut b) = (end(true, 1, None), end(false, 1, None));
    a.begin(now);
    let old = seal(&mut a, now, b"arm");
    a.begin(now + 5 * SECOND);
    let newer = seal(&mut a, now, b"disarm");
    open(&mut b, now, &newer).unwrap();
    assert_eq!(open(&mut b, now, &old), Err(OpenError::NoKey), "a lower counter");
    assert_eq!(b.counters().replayed_hellos, 1);

    // The same association, and it is known that the segment was there before.
    assert!(open(&mut b, now, &newer).unwrap().repeated);
    let accepted = b.snapshot();
    let mut restarted = end(false, 2, accepted);
    assert_eq!(open(&mut restarted, now, &old), Err(OpenError::NoKey));
    assert!(!restarted.can_seal() && !restarted.wants_to_send());
    // Refused once, it costs no arithmetic.
    for _ in 0..1000 {
        assert_eq!(open(&mut restarted, now, &old), Err(OpenError::NoKey));
    }
    assert_eq!((restarted.counters().replayed_hellos, restarted.counters().limited_hellos), (1001, 0));

    // The newest is answered, since its sender may still wait; but what came with it is not opened, and once it has another peer's
    // attempt nothing comes of it at all.
    for _ in 0..1000 {
        assert_eq!(open(&mut restarted, now, &newer), Err(OpenError::NoKey));
    }
    assert!(restarted.can_seal() && restarted.snapshot().is_none());
    assert_eq!((restarted.counters().associations, restarted.counters().limited_hellos), (1, 0));
    a.begin(now + 30 * SECOND);
    shake(&mut a, &mut restarted, now);
    let mut third = end(false, 3, restarted.snapshot());
    open(&mut third, now, &newer).unwrap_err();
    assert!(!third.can_seal(), "it is the newest no more");
}

#[test]
fn an_attempt_that_a_former_life_took_is_finished_by_the_next() {
    let now = start();
    for heard_before in [false, true] {
        let (mut a, mut b) = (end(true, 1, None), end(false, 1, None));
        a.begin(now);
        if heard_before {
            shake(&mut a, &mut b, now);
            a.begin(now + 2 * SECOND);
        }
        let early = seal(&mut a, now, b"arm");
        let _ = open(&mut b, now, &early);
        let mut b2 = end(false, 2, b.snapshot());
        assert_eq!(open(&mut b2, now, &early), Err(OpenError::NoKey), "the former life has armed");
        assert!(b2.wants_to_send());
        let second = seal(&mut b2, now, b"who?");
        assert_eq!(open(&mut a, now, &second).unwrap().restarted(), Some(true), "what was under way is void");
        let third = seal(&mut a, now, b"I");
        assert_eq!(open(&mut b2, now, &third).unwrap().text, b"I");
        assert!(a.is_established() && b2.is_established());
        assert!(open(&mut b2, now, &early).is_err());
    }
}

#[test]
fn a_restarted_responder_is_heard_from_after_the_next_attempt() {
    let now = start();
    let (mut a, mut b) = pair(now);
    let mut b2 = end(false, 2, b.snapshot());
    let lost = seal(&mut a, now, b"x");
    assert_eq!(open(&mut b2, now, &lost), Err(OpenError::NoKey));
    a.begin(now + 10 * SECOND);
    // Sealed with the old key, which the new life does not have, but the message beside it is enough.
    let unread = seal(&mut a, now, b"y");
    assert_eq!(open(&mut b2, now, &unread), Err(OpenError::NoKey));
    assert!(b2.wants_to_send());
    assert!(b2.take_news().is_some());
    let second = seal(&mut b2, now, b"z");
    let told = open(&mut a, now, &second).unwrap();
    assert_eq!(told.restarted(), Some(true));
    assert!(!a.still_holds(now, unread.association, unread.number));
    let late = seal(&mut b, now, b"of the former life");
    assert!(open(&mut a, now, &late).is_err());
    let third = seal(&mut a, now, b"w");
    assert!(open(&mut b2, now, &third).is_ok());
}

#[test]
fn a_restarted_initiator_is_a_new_peer() {
    let now = start();
    let (mut a, mut b) = pair(now);
    let late = seal(&mut a, now, b"late");
    let mut a2 = end(true, 2, None);
    a2.begin(now);
    let first = seal(&mut a2, now, b"new");
    assert_eq!(open(&mut b, now, &first).unwrap().restarted(), Some(true));
    assert!(open(&mut b, now, &late).is_err(), "connections of the former life are void");
    shake(&mut a2, &mut b, now);
    // And both at once.
    let (mut a3, mut b2) = (end(true, 3, None), end(false, 2, b.snapshot()));
    a3.begin(now);
    shake(&mut a3, &mut b2, now);
    assert!(a3.is_established() && b2.is_established());
}

#[test]
fn an_attempt_that_is_not_answered_is_made_anew() {
    let now = start();
    let (mut a, mut b) = (end(true, 1, None), end(false, 1, None));
    a.begin(now);
    let lost = seal(&mut a, now, b"");
    let deadline = a.next_deadline().unwrap();
    assert_eq!(deadline, now + 16 * SECOND);
    assert!(a.still_holds(now, lost.association, lost.number));
    a.handle_timeout(deadline);
    assert!(!a.still_holds(deadline, lost.association, lost.number));
    assert_eq!(a.next_deadline(), Some(deadline + 32 * SECOND));
    shake(&mut a, &mut b, deadline);
    assert!(open(&mut b, deadline, &lost).is_err());
}

#[test]
fn keys_are_replaced_without_a_gap_and_the_phase_wraps() {
    let mut now = start();
    let (mut a, mut b) = pair(now);
    let mut phases = vec![seal(&mut a, now, b"").header.phase];
    for round in 0..15_u32 {
        now = a.next_deadline().unwrap();
        let before = (seal(&mut a, now, b"a before"), seal(&mut b, now, b"b before"));
        a.handle_timeout(now);
        // Until the second message has come, the old keys carry on in both directions.
        let with_first = seal(&mut a, now, b"1");
        assert_eq!((with_first.association, with_first.extension.len()), (before.0.association, 60));
        open(&mut b, now, &with_first).unwrap();
        let lost = seal(&mut b, now, b"lost");
        assert_ne!(lost.association, before.1.association, "the responder uses the new ones at once");
        let old = seal(&mut a, now, b"2");
        assert!(open(&mut b, now, &old).is_ok());
        assert_eq!(b.overhead(), 76, "nothing was heard in the new ones yet");
        let with_second = seal(&mut b, now, b"3");
        assert!(open(&mut a, now, &with_second).is_ok());
        assert!(open(&mut a, now, &before.1).is_ok() && open(&mut b, now, &before.0).is_ok(), "late ones");
        assert!(a.still_holds(now, before.0.association, before.0.number));
        shake_rest(&mut a, &mut b, now);
        assert_eq!(u64::from(round) + 2, a.counters().associations);
        phases.push(seal(&mut a, now, b"").header.phase);
    }
    assert!(phases.windows(2).all(|two| two[1] == two[0] % 7 + 1), "{phases:?}");
}

fn shake_rest(a: &mut Security, b: &mut Security, now: Instant) {
    let third = seal(a, now, b"");
    open(b, now, &third).unwrap();
    assert_eq!(b.overhead(), TAG_LEN);
}

#[test]
fn lost_second_messages_are_made_up_for_by_the_next() {
    let now = start();
    let (mut a, mut b) = (end(true, 1, None), end(false, 1, None));
    a.begin(now);
    let first = seal(&mut a, now, b"");
    open(&mut b, now, &first).unwrap();
    for _ in 0..20 {
        assert_eq!(seal(&mut b, now, b"lost").extension.len(), 60);
        let early = seal(&mut a, now, b"early");
        assert!(open(&mut b, now, &early).unwrap().early);
    }
    shake(&mut a, &mut b, now);
}

#[test]
fn two_newer_associations_make_one_void_and_so_does_half_an_hour() {
    let mut now = start();
    let (mut a, mut b) = pair(now);
    let (from_a, from_b) = (seal(&mut a, now, b""), seal(&mut b, now, b""));
    let holds = |end: &Security, now, segment: &Segment| end.still_holds(now, segment.association, segment.number);
    assert!(holds(&a, now + 29 * MINUTE, &from_a) && !holds(&a, now + 31 * MINUTE, &from_a));
    for expected in [true, false] {
        now += 2 * SECOND;
        a.attempt_anew(now);
        assert!(holds(&a, now, &from_a));
        shake(&mut a, &mut b, now);
        assert_eq!((holds(&a, now, &from_a), holds(&b, now, &from_b)), (expected, expected));
        assert_eq!(open(&mut b, now, &from_a).is_ok(), expected);
        assert_eq!(open(&mut a, now, &from_b).is_ok(), expected);
    }
}

#[test]
fn abandoned_attempts_do_not_push_out_what_is_in_use() {
    let mut now = start();
    let (mut a, mut b) = pair(now);
    for _ in 0..10 {
        // First messages arrive, second ones do not.
        now += 2 * MINUTE;
        a.begin(now);
        let first = seal(&mut a, now, b"with the old key");
        assert!(open(&mut b, now, &first).is_ok());
    }
    assert_eq!(b.counters().associations, 11);
    shake(&mut a, &mut b, now);
}

#[test]
fn silence_of_an_hour_is_bridged_by_the_receivers_clock() {
    let mut now = start();
    let (mut a, mut b) = pair(now);
    for silence in [1, 34, 72, 200, 1000] {
        now += silence * MINUTE;
        let segment = seal(&mut a, now, b"");
        // The receiver's clock differs by as much as half an hour.
        assert!(open(&mut b, now + 30 * MINUTE, &segment).is_ok(), "{silence} min");
        now += 31 * MINUTE;
    }
    // Sealed now and delivered too late: it is taken for a later one, and cannot be opened.
    let in_time = seal(&mut a, now, b"");
    assert!(open(&mut b, now, &in_time).is_ok());
    let segment = seal(&mut a, now, b"");
    assert_eq!(open(&mut b, now + 40 * MINUTE, &segment), Err(OpenError::Forged));
}

#[test]
fn ten_million_segments_in_a_microsecond_have_numbers_of_their_own() {
    let now = start();
    let mut clock = SendClock::new(now);
    let later = now + Duration::from_micros(5);
    let mut last = 0;
    for _ in 0..10_000_000 {
        let next = clock.next(later);
        assert!(next > last);
        last = next;
    }
    assert_eq!(last, 10_000_004);
    assert_eq!(clock.next(now + 20 * SECOND), 20_000_000);
    assert_eq!(clock.next(now), 20_000_001, "a clock that goes back");
}

#[test]
fn hellos_at_full_rate_cost_20_exchanges_a_second() {
    let now = start();
    let (mut a, mut b) = (end(true, 1, None), end(false, 1, None));
    a.begin(now);
    let genuine = seal(&mut a, now, b"");
    // Somebody who can compute the filter's bytes sends messages that Noise refuses.
    let mut time = now;
    for n in 0..3000_u32 {
        let mut message = [0; HELLO_LEN];
        message[..4].copy_from_slice(&n.to_be_bytes());
        message[31] = 9;
        let filter = a.filter.sign(HelloKind::First, &message, None);
        let extension = Hello { kind: HelloKind::First, filter, message: &message }.encode().to_vec();
        time += Duration::from_millis(1);
        assert_eq!(open(&mut b, time, &Segment { extension, ..genuine.clone() }), Err(OpenError::NoKey));
    }
    let counters = b.counters();
    assert_eq!(counters.forged_hellos + counters.limited_hellos, 3000);
    assert!((95..=100).contains(&counters.forged_hellos), "40 + 3 s * 20: {counters:?}");
    // Those of the association that is there are not held up by them.
    let (mut a1, mut b1) = pair(now);
    while b1.bucket.take(now) {}
    a1.handle_timeout(now + 61 * MINUTE);
    let rekey = seal(&mut a1, now, b"");
    assert!(open(&mut b1, now, &rekey).is_ok());
    assert_eq!((b1.counters().associations, b1.counters().limited_hellos), (2, 0));
    // Without the filter's key hardly any comes so far, and the genuine one passes.
    for n in 0..3000_u32 {
        let mut extension = genuine.extension.clone();
        extension[10..14].copy_from_slice(&n.to_be_bytes());
        assert_eq!(open(&mut b, time, &Segment { extension, ..genuine.clone() }), Err(OpenError::NoKey));
    }
    assert_eq!(b.counters().limited_hellos, counters.limited_hellos);
    assert!(open(&mut b, time + SECOND, &genuine).is_ok());
}

#[test]
fn forged_second_messages_do_not_disturb_the_genuine_one() {
    let now = start();
    let (mut a, mut b) = (end(true, 1, None), end(false, 1, None));
    a.begin(now);
    let first = seal(&mut a, now, b"");
    open(&mut b, now, &first).unwrap();
    let genuine = seal(&mut b, now, b"hi");
    let hello = Hello::find(&genuine.extension).unwrap().unwrap();
    for byte in [0, 33, 50] {
        let mut message = *hello.message;
        message[byte] ^= 1;
        let filter = a.filter.sign(HelloKind::Second, &message, Some(a.attempt.as_ref().unwrap().message()));
        let extension = Hello { kind: HelloKind::Second, filter, message: &message }.encode().to_vec();
        assert_eq!(open(&mut a, now, &Segment { extension, ..genuine.clone() }), Err(OpenError::NoKey));
    }
    assert_eq!(a.counters().forged_hellos, 3);
    assert_eq!(open(&mut a, now, &genuine).unwrap().text, b"hi");
}

#[test]
fn strangers_learn_and_change_nothing() {
    let now = start();
    let (_, mut b) = pair(now);
    // Who has another key, and believes b to be its peer.
    let config =
        SecurityConfig { identity: identity(3), peer: identity(2).public(), initiates: true, life: 9, accepted: None };
    let mut stranger = Security::new(config, SeededBytes::new(&[9; 32], "stranger")).unwrap();
    stranger.begin(now);
    let segment = seal(&mut stranger, now, b"let me in");
    assert_eq!(open(&mut b, now, &segment), Err(OpenError::NoKey));
    assert_eq!(b.counters().associations, 1);
    // Its own segments come back to it.
    assert_eq!(open(&mut stranger, now, &segment), Err(OpenError::NoKey));
    let (mut a, mut b) = pair(now);
    let mine = seal(&mut a, now, b"mirror");
    assert_eq!(open(&mut a, now, &mine), Err(OpenError::Forged));
    assert!(!open(&mut b, now, &mine).unwrap().repeated);
}

#[test]
fn configurations_that_cannot_be() {
    let config =
        SecurityConfig { identity: identity(1), peer: identity(1).public(), initiates: true, life: 0, accepted: None };
    let error = |config| Security::new(config, SeededBytes::new(&[0; 32], "")).err();
    assert_eq!(error(config.clone()), Some(SecurityError::Ourselves));
    let peer = identity(2).public();
    assert_eq!(error(SecurityConfig { peer, life: 1 << 44, ..config.clone() }), Some(SecurityError::Life));
    assert_eq!(error(SecurityConfig { peer: PublicKey([0; 32]), ..config.clone() }), Some(SecurityError::Public));
    assert_eq!(error(SecurityConfig { peer, ..config }), None);
}

#[test]
fn attempts_are_spaced_and_the_responder_makes_none() {
    let now = start();
    let (mut a, mut b) = (end(true, 1, None), end(false, 1, None));
    b.begin(now);
    assert!(!b.can_seal() && b.next_deadline().is_none());
    let mut begun = Vec::new();
    for tenth in 0..3000_u32 {
        let time = now + Duration::from_millis(100) * tenth;
        let before = a.attempts;
        a.begin(time);
        if a.attempts > before {
            begun.push(tenth / 10);
        }
    }
    assert_eq!(begun, [0, 2, 6, 14, 30, 62, 126, 190, 254]);
    let mut header = Header::new(Port(0), Port(0), TransferMode::Reliable, Seq(0), Flags::NONE);
    assert_eq!(b.seal(now, &mut header, &mut vec![1]).err(), Some(SealError::NoKey));
    let mut long = vec![0; 65536 - 76];
    assert_eq!(a.seal(now, &mut header, &mut long).err(), Some(SealError::TooLong));
    assert_eq!(long.len(), 65536 - 76);
    long.pop();
    assert!(a.seal(now, &mut header, &mut long).is_ok());
}
