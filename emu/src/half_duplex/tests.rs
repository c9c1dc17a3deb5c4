//! Turns on a shared channel, by hand.

use super::*;
use crate::path::tests::{epoch, ms};
use crate::{Loss, Outage, Queue};
use Direction::{Down, Up};

/// 12 Mbit/s up, 24 Mbit/s down: 1500 bytes take 1 ms and 0.5 ms. 10 ms of propagation.
fn link(turn_around_us: u64) -> HalfDuplex<u32> {
    let up = PathConfig { rate_bps: Some(12_000_000), delay: ms(10), ..PathConfig::default() };
    let down = PathConfig { rate_bps: Some(24_000_000), ..up };
    HalfDuplex::new(up, down, us(turn_around_us), 1)
}

fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

fn push(link: &mut HalfDuplex<u32>, direction: Direction, at: Instant, n: u32) {
    link.push(direction, at, Packet::new(1500, n)).unwrap();
}

/// Everything that comes out, with the microsecond at which its last bit was sent.
fn drain(link: &mut HalfDuplex<u32>, start: Instant) -> Vec<(u32, u64)> {
    let mut out = Vec::new();
    while let Some(at) = link.next_deadline() {
        for direction in [Up, Down] {
            while let Some(delivered) = link.pop(direction, at) {
                assert_eq!(delivered.due, at, "announced");
                out.push((delivered.packet.payload, (at - start - ms(10)).as_micros() as u64));
            }
        }
    }
    out
}

#[test]
fn one_sends_at_a_time_in_order_of_arrival() {
    let start = epoch();
    let mut link = link(0);
    push(&mut link, Up, start, 1);
    push(&mut link, Down, start + us(100), 2);
    push(&mut link, Up, start + us(200), 3);
    push(&mut link, Down, start + us(300), 4);
    assert_eq!(drain(&mut link, start), [(1, 1_000), (2, 1_500), (3, 2_500), (4, 3_000)]);
}

#[test]
fn turning_around_takes_time_and_staying_does_not() {
    let start = epoch();
    let mut link = link(200);
    push(&mut link, Up, start, 1);
    push(&mut link, Up, start, 2);
    push(&mut link, Down, start + us(1), 3);
    push(&mut link, Up, start + us(100), 4);
    // 3 begins at 2.2, ends at 2.7; 4 begins at 2.9.
    assert_eq!(drain(&mut link, start), [(1, 1_000), (2, 2_000), (3, 2_700), (4, 3_900)]);
}

#[test]
fn a_free_channel_is_ready_after_the_turn_around_time() {
    let start = epoch();
    let mut link = link(200);
    push(&mut link, Up, start, 1);
    // 0.1 ms after the end it must wait 0.1 ms more; long after it need not.
    push(&mut link, Down, start + us(1_100), 2);
    push(&mut link, Up, start + us(5_000), 3);
    assert_eq!(drain(&mut link, start), [(1, 1_000), (2, 1_700), (3, 6_000)]);
}

#[test]
fn what_is_chosen_while_turning_is_not_revised() {
    let start = epoch();
    let mut link = link(200);
    push(&mut link, Up, start, 1);
    push(&mut link, Down, start + us(1_050), 2);
    // Could begin at once, but 2 was first.
    push(&mut link, Up, start + us(1_100), 3);
    assert_eq!(drain(&mut link, start), [(1, 1_000), (2, 1_700), (3, 2_900)]);
}

#[test]
fn of_two_at_the_same_instant_the_one_that_did_not_send_last_goes_first() {
    let start = epoch();
    let mut link = link(0);
    push(&mut link, Up, start, 1);
    push(&mut link, Up, start + us(10), 2);
    push(&mut link, Down, start + us(10), 3);
    assert_eq!(drain(&mut link, start), [(1, 1_000), (3, 1_500), (2, 2_500)]);
}

#[test]
fn a_busy_channel_fills_both_queues() {
    let start = epoch();
    let config = PathConfig { rate_bps: Some(12_000_000), queue: Queue::packets(1), ..PathConfig::default() };
    let mut link = HalfDuplex::new(config, config, Duration::ZERO, 1);
    push(&mut link, Up, start, 1); // finds the channel free
    push(&mut link, Down, start, 2);
    push(&mut link, Up, start, 3);
    assert_eq!(link.push(Down, start, Packet::new(1500, 4)), Err(DropReason::QueueFull));
    assert_eq!(link.push(Up, start, Packet::new(1500, 5)), Err(DropReason::QueueFull));
    // At the end of 1 the next begins, whose room is free at that instant.
    push(&mut link, Down, start + ms(1), 6);
}

#[test]
fn changes_take_effect_in_mid_packet() {
    let start = epoch();
    let mut link = link(0);
    push(&mut link, Up, start, 1);
    push(&mut link, Down, start, 2);
    let at = start + us(500);
    link.change(at, |up, _| up.set_rate(at, Some(6_000_000)));
    assert_eq!(drain(&mut link, start), [(1, 1_500), (2, 2_000)]);
}

#[test]
fn outages_take_the_channel_or_waste_it() {
    let start = epoch();
    let mut held = link(0);
    push(&mut held, Up, start, 1);
    push(&mut held, Down, start, 2);
    held.change(start, |up, _| up.begin_outage(start, Outage::Hold));
    assert_eq!(held.next_deadline(), None);
    let at = start + ms(50);
    held.change(at, |up, _| up.end_outage(at));
    assert_eq!(drain(&mut held, start), [(1, 51_000), (2, 51_500)]);

    let mut wasted = link(0);
    push(&mut wasted, Up, start, 1);
    push(&mut wasted, Down, start, 2);
    wasted.change(start, |up, _| up.begin_outage(start, Outage::Drop));
    assert_eq!(drain(&mut wasted, start), [(2, 1_500)]);
    assert_eq!(wasted.path(Up).stats().dropped.outage.packets, 1);
}

#[test]
fn loss_in_front_of_the_queue_takes_no_time_and_loss_on_the_air_does() {
    let start = epoch();
    let config = PathConfig { rate_bps: Some(12_000_000), delay: ms(10), ..PathConfig::default() };
    for (config_up, expected) in [
        (PathConfig { loss: Loss::Independent(1.0), ..config }, 1_000),
        (PathConfig { air_loss: Loss::Independent(1.0), ..config }, 2_000),
    ] {
        let mut link = HalfDuplex::new(config_up, config, Duration::ZERO, 1);
        let _ = link.push(Up, start, Packet::new(1500, 1));
        push(&mut link, Down, start, 2);
        assert_eq!(drain(&mut link, start), [(2, expected)]);
    }
}

#[test]
fn without_a_rate_nobody_waits() {
    let start = epoch();
    let config = PathConfig { delay: ms(10), ..PathConfig::default() };
    let mut link = HalfDuplex::new(config, config, Duration::ZERO, 1);
    for n in 0..6 {
        push(&mut link, if n % 2 == 0 { Up } else { Down }, start, n);
    }
    let mut out = drain(&mut link, start);
    out.sort_unstable();
    assert_eq!(out, [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0)]);
}

#[test]
fn how_often_it_is_polled_changes_nothing() {
    let start = epoch();
    let run = |poll_every: u64| {
        let mut link = link(70);
        let mut out = Vec::new();
        for t in 0..20_000u64 {
            if t % 137 == 0 {
                let _ = link.push(Up, start + us(t), Packet::new(300 + t as usize % 1200, t as u32));
            }
            if t % 211 == 0 {
                let _ = link.push(Down, start + us(t), Packet::new(100 + t as usize % 900, t as u32));
            }
            if t % poll_every == 0 {
                for direction in [Up, Down] {
                    while let Some(delivered) = link.pop(direction, start + us(t)) {
                        out.push((direction as u8, delivered.number, delivered.due - start));
                    }
                }
            }
        }
        while let Some(at) = link.next_deadline() {
            for direction in [Up, Down] {
                out.extend(link.pop(direction, at).map(|d| (direction as u8, d.number, d.due - start)));
            }
        }
        out.sort_unstable();
        out
    };
    assert_eq!(run(1), run(4_999));
}
