//! Repairs of fragments, without a network.

use super::super::fragment::FragmentFlags;
use super::*;
use crate::units::ByteCount;
use crate::video::test_epoch;

const AGE: Duration = Duration::from_millis(300);
const RTT: Duration = Duration::from_millis(30);

/// A protector and a restorer, and when it is.
struct Pair {
    now: Instant,
    protector: Protector,
    restorer: Restorer,
    frame: u32,
    sent: Vec<Vec<u8>>,
}

fn pair(share: f64, frames: u32, repeat: bool) -> Pair {
    let protector = Protector::new(VideoParity { share, frames, repeat }, AGE);
    Pair { now: test_epoch(), protector, restorer: Restorer::default(), frame: 0, sent: Vec::new() }
}

impl Pair {
    /// A frame of so many fragments leaves, 33 ms after the one before; those at `lost` do not come. Gives its first number.
    fn frame(&mut self, fragments: u32, lost: &[u32]) -> u32 {
        self.now += Duration::from_millis(33);
        self.frame += 1;
        let first = u32::from(self.protector.next());
        for index in 0..fragments {
            let flags = FragmentFlags { last: index + 1 == fragments, ..FragmentFlags::default() };
            let number = Some(self.protector.next());
            let header = FragmentHeader { flags, frame: self.frame, index, waited_ms: None, number };
            let mut fragment = Vec::new();
            header.put(&mut fragment);
            fragment.extend(std::iter::repeat_n(index as u8, 20 + index as usize));
            let info = FragmentInfo { header, size: ByteCount::from(fragment.len()), arrived: self.now };
            let sent_us = first + index;
            self.protector.on_fragment(self.now, &info, sent_us, &fragment);
            if !lost.contains(&index) {
                self.restorer.handle_fragment(sent_us as u16, sent_us, &fragment);
            }
            self.sent.push(fragment);
        }
        first
    }

    fn repairs(&mut self) -> Vec<(Repair, Vec<u8>)> {
        let mut coded = Vec::new();
        std::iter::from_fn(|| self.protector.pop_repair(self.now, &mut coded).map(|repair| (repair, coded.clone())))
            .collect()
    }

    /// Repairs arrive; gives the numbers of what they bring back, which is what left.
    fn arrive(&mut self, repairs: &[(Repair, Vec<u8>)]) -> Vec<u32> {
        let mut numbers = Vec::new();
        for (repair, coded) in repairs {
            self.restorer.handle_repair(repair.header, coded);
            while let Some((sent_us, fragment)) = self.restorer.poll() {
                assert_eq!(fragment, self.sent[sent_us as usize]);
                numbers.push(sent_us);
            }
        }
        numbers
    }
}

#[test]
fn parity_brings_back_as_many_as_there_are_repairs_also_of_frames_before() {
    let mut pair = pair(0.5, 3, false);
    pair.frame(8, &[]);
    assert_eq!(pair.repairs().len(), 4);
    let first = pair.frame(8, &[0, 1, 2, 6, 7]);
    let repairs = pair.repairs();
    assert_eq!(pair.arrive(&repairs), [0; 0], "four for five");
    pair.frame(8, &[3]);
    let repairs = pair.repairs();
    assert_eq!(pair.arrive(&repairs[..1]), [0; 0]);
    let mut back = pair.arrive(&repairs[1..]);
    back.sort_unstable();
    assert_eq!(back, [0, 1, 2, 6, 7, 11].map(|n| first + n));
    assert_eq!(pair.restorer.restored(), 6);
}

#[test]
fn fractions_of_repairs_are_owed_not_lost() {
    let mut pair = pair(0.25, 4, false);
    let counts: Vec<usize> = (0..8).map(|_| (pair.frame(1, &[]), pair.repairs().len()).1).collect();
    assert_eq!(counts, [1, 0, 0, 0, 1, 0, 0, 0]);
    let mut none = super::tests::pair(0.0, 4, true);
    none.frame(8, &[]);
    assert_eq!(none.repairs(), []);
}

#[test]
fn the_last_repair_of_a_frame_says_what_none_will_cover() {
    let mut pair = pair(0.5, 2, false);
    let first = pair.frame(4, &[]);
    assert_eq!(pair.repairs().iter().map(|(repair, _)| u32::from(repair.settled)).collect::<Vec<_>>(), [first, first]);
    let second = pair.frame(4, &[]);
    let settled = |pair: &mut Pair| pair.repairs().iter().map(|(r, _)| u32::from(r.settled)).collect::<Vec<_>>();
    assert_eq!(settled(&mut pair), [first, second]);
    let third = pair.frame(4, &[]);
    assert_eq!(settled(&mut pair), [second, third]);
}

#[test]
fn parity_that_finds_no_room_in_time_is_dropped() {
    let mut pair = pair(0.5, 4, false);
    pair.frame(8, &[]);
    pair.now += AGE;
    assert!(!pair.protector.is_due(pair.now));
    assert_eq!((pair.repairs(), pair.protector.counters().dropped), (vec![], 4));
}

#[test]
fn what_is_lost_is_repeated_once_then_twice_then_three_times() {
    let mut pair = pair(0.0, 4, true);
    let first = pair.frame(8, &[2, 5]);
    pair.protector.on_lost(pair.now, RTT, first + 2);
    pair.protector.on_lost(pair.now, RTT, first + 5);
    for turn in 1..=3 {
        let repairs = pair.repairs();
        assert_eq!(repairs.len(), [2, 4, 6][turn - 1]);
        for (repair, _) in &repairs {
            assert_eq!((repair.header.first, repair.header.count), (first + 2, 4));
            pair.protector.on_fate(pair.now, repair.round.unwrap(), false);
        }
    }
    assert_eq!(pair.repairs(), [], "there is no fourth");
    pair.protector.on_lost(pair.now, RTT, first + 6);
    let repairs = pair.repairs();
    assert_eq!(repairs.len(), 1);
    pair.protector.on_fate(pair.now, repairs[0].0.round.unwrap(), true);
    assert_eq!(pair.repairs(), [], "it has arrived");
}

#[test]
fn what_could_not_arrive_in_time_is_not_repeated() {
    let mut pair = pair(0.0, 4, true);
    let first = pair.frame(8, &[2]);
    pair.protector.on_lost(pair.now, AGE / 2, first + 2);
    assert_eq!(pair.repairs(), [], "three round trips do not fit");
    pair.now += AGE - RTT / 2;
    pair.protector.on_lost(pair.now, RTT, first + 2);
    pair.protector.on_lost(pair.now, RTT, first.wrapping_sub(9));
    assert_eq!(pair.repairs(), [], "half of one does not");
}

#[test]
fn forged_repairs_and_numbers_do_no_harm() {
    let mut restorer = Restorer::default();
    let header = RepairHeader { first: 7, count: 256, key: 1 };
    restorer.handle_repair(header, &[1; 400]);
    for n in 0..2_000u32 {
        restorer.handle_fragment((n.wrapping_mul(0x9e37) >> 3) as u16, n, &[n as u8; 30]);
        restorer
            .handle_repair(RepairHeader { first: n << 5, count: 1 + n as u16 % 256, key: n as u16 }, &[n as u8; 400]);
        while let Some((_, fragment)) = restorer.poll() {
            assert!(FragmentHeader::parse(fragment).is_ok());
        }
        assert!(restorer.decoder.bytes() <= LIMITS.bytes);
    }
}

#[test]
fn a_sender_that_counts_anew_is_followed() {
    let mut pair = pair(1.0, 1, false);
    pair.restorer.handle_fragment(20_000, 1, &[0; 9]);
    pair.frame(3, &[1]);
    let repairs = pair.repairs();
    assert_eq!(pair.arrive(&repairs), [1]);
}
