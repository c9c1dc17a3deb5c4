use super::super::reno::Reno;
use super::super::segment::{Kind, Sacks};
use super::*;

const RTT: Duration = Duration::from_millis(60);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn part(from: u64, to: u64) -> Span {
    Span { from: from * MSS, to: to * MSS }
}

/// An acknowledgement without data, in whole segments, that answers what left at `echo`.
fn ack(to: u64, sack: Option<Span>, echo: Instant) -> Segment {
    let sacks = Sacks { blocks: [sack, None, None], duplicate: false };
    Segment { kind: Kind::Established, data: part(0, 0), ack: to * MSS, sacks, sent: echo, echo: Some(echo) }
}

fn drain(sender: &mut Sender, now: Instant) -> Vec<Span> {
    std::iter::from_fn(|| sender.poll_transmit(now, MSS)).collect()
}

/// Fourteen segments are written, ten leave, and none is heard of until the timeout: the sender, the time of the first
/// repetition, and when all began.
fn until_timeout() -> (Sender, Instant, Instant) {
    let start = Instant::now();
    let mut sender = Sender::new(Box::new(Reno), Ticks::since(start));
    sender.on_established(RTT, 0);
    sender.write(start, 14 * MSS);
    assert_eq!(drain(&mut sender, start).len(), 10);
    let probe = sender.next_deadline().unwrap();
    assert!((ms(128)..ms(140)).contains(&(probe - start)), "2 round trips and 8 ms, to the tick");
    sender.handle_timeout(probe);
    assert_eq!(drain(&mut sender, probe), [part(10, 11)], "a probe of new data");
    let timeout = sender.next_deadline().unwrap();
    sender.handle_timeout(timeout);
    assert_eq!(drain(&mut sender, timeout), [part(0, 1)]);
    (sender, timeout, start)
}

#[test]
fn after_a_timeout_new_data_shows_whether_all_was_lost() {
    let (mut sender, timeout, _) = until_timeout();
    sender.on_ack(timeout + RTT, &ack(1, None, timeout));
    // RFC 5682 §3.1: neither the second segment nor any other is repeated now.
    assert_eq!(drain(&mut sender, timeout + RTT), [part(11, 12), part(12, 13)]);
    sender.on_ack(timeout + 2 * RTT, &ack(1, Some(part(11, 12)), timeout));
    assert_eq!(drain(&mut sender, timeout + 2 * RTT)[0], part(1, 2), "now it is known");
}

#[test]
fn without_new_data_repetition_goes_on() {
    let start = Instant::now();
    let mut sender = Sender::new(Box::new(Reno), Ticks::since(start));
    sender.on_established(RTT, 0);
    sender.write(start, 4 * MSS);
    drain(&mut sender, start);
    let mut now = start;
    while drain(&mut sender, now) != [part(0, 1)] || now == start {
        now = sender.next_deadline().unwrap();
        sender.handle_timeout(now);
    }
    sender.on_ack(now + RTT, &ack(1, None, now));
    assert_eq!(drain(&mut sender, now + RTT), [part(1, 2), part(2, 3)]);
}

#[test]
fn a_needless_timeout_is_undone() {
    // The acknowledgement of all ten had been held up: its time stamp is from before the repetition.
    let (mut sender, timeout, start) = until_timeout();
    assert_eq!(sender.window(), 1);
    sender.on_ack(timeout + ms(5), &ack(10, None, start));
    assert!(sender.window() >= 10, "{}", sender.window());
    // It was lost and a later one names what was sent once.
    let (mut sender, timeout, _) = until_timeout();
    sender.on_ack(timeout + ms(5), &ack(0, Some(part(3, 4)), timeout));
    assert!(sender.window() >= 10, "{}", sender.window());
}

#[test]
fn d_sacks_of_all_repetitions_undo() {
    let (mut sender, timeout, start) = until_timeout();
    let mut echo = ack(1, None, timeout);
    sender.on_ack(timeout + RTT, &echo);
    assert!(sender.window() < 10 && start < timeout);
    echo = ack(13, None, timeout);
    echo.sacks = Sacks { blocks: [Some(part(0, 1)), None, None], duplicate: true };
    drain(&mut sender, timeout + RTT);
    sender.on_ack(timeout + 2 * RTT, &echo);
    assert!(sender.window() >= 10, "{}", sender.window());
}
