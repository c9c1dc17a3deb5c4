use super::*;
use crate::path::tests::{epoch, ms};

fn all() -> impl Iterator<Item = Profile> {
    Profile::names().map(|name| Profile::by_name(name).unwrap())
}

#[test]
fn every_name_has_its_profile() {
    assert_eq!(Profile::names().collect::<Vec<_>>(), ["handover", "lte-city", "lte-rural", "clean"]);
    assert!(Profile::names().zip(all()).all(|(name, profile)| profile.name == name));
    assert!(Profile::by_name("nonsense").is_none());
}

#[test]
fn steps_are_in_order_and_within_the_cycle() {
    for profile in all() {
        assert!(profile.steps.is_sorted_by_key(|step| step.at), "{}", profile.name);
        assert!(profile.steps.iter().all(|step| step.at < profile.cycle), "{}", profile.name);
    }
}

#[test]
fn a_cycle_ends_as_it_began() {
    for profile in all() {
        let start = epoch();
        let mut up = Path::<()>::new(profile.up, 0);
        let mut down = Path::<()>::new(profile.down, 0);
        for step in &profile.steps {
            step.change.apply(start + step.at, &mut up, &mut down);
        }
        assert_eq!((up.outage(), down.outage()), (None, None), "{}", profile.name);
        assert_eq!((up.delay(), down.delay()), (profile.up.delay, profile.down.delay), "{}", profile.name);
        let mut resumed = profile.steps.iter().filter(|step| step.at.is_zero());
        let set_again = resumed.any(|step| step.change == Change::Rate(Direction::Up, profile.up.rate_bps));
        assert!(set_again || up.rate() == profile.up.rate_bps, "{}", profile.name);
        assert_eq!(down.rate(), profile.down.rate_bps, "{}", profile.name);
    }
}

#[test]
fn the_demos_profile_has_one_outage_and_one_address_change() {
    let profile = Profile::by_name("handover").unwrap();
    assert_eq!(profile.cycle, ms(20_000));
    assert_eq!(profile.outages(), [(ms(8_000), ms(1_200))]);
    assert_eq!(profile.address_changes().collect::<Vec<_>>(), [ms(14_000)]);
    assert_eq!(profile.uplink_range_bps(), (Some(2_000_000), Some(4_000_000)));
    assert_eq!(
        profile.describe(),
        "A cellular link that shows every trouble once: 2 Mbit/s to 4 Mbit/s up, 30 ms one way, outage of 1.2 s at 8.0 s, new \
         address at 14.0 s, every 20 s"
    );
}

#[test]
fn a_schedule_repeats_without_drift() {
    let start = epoch();
    let profile = Profile::by_name("handover").unwrap();
    let mut schedule = Schedule::new(&profile, start);
    let mut outages = Vec::new();
    // Polled seldom: changes still carry the time at which they were due.
    for t in (0..=60_000).step_by(777) {
        while let Some((due, change)) = schedule.poll_change(start + ms(t)) {
            if matches!(change, Change::OutageBegin(_)) {
                outages.push(due - start);
            }
        }
    }
    assert_eq!(outages, [ms(8_000), ms(28_000), ms(48_000)]);
}

#[test]
fn a_change_is_due_exactly_at_its_time() {
    let start = epoch();
    let step = Step { at: ms(5), change: Change::AddressChange };
    let profile = Profile { steps: vec![step], cycle: ms(10), ..Profile::by_name("clean").unwrap() };
    let mut schedule = Schedule::new(&profile, start);
    assert_eq!(schedule.next_change(), Some(start + ms(5)));
    assert_eq!(schedule.poll_change(start + ms(5) - Duration::from_nanos(1)), None);
    assert_eq!(schedule.poll_change(start + ms(5)), Some((start + ms(5), Change::AddressChange)));
    assert_eq!(schedule.poll_change(start + ms(5)), None);
    assert_eq!(schedule.next_change(), Some(start + ms(15)));
}

#[test]
fn without_steps_nothing_is_ever_due() {
    let start = epoch();
    let mut schedule = Schedule::new(&Profile::by_name("clean").unwrap(), start);
    assert_eq!(schedule.next_change(), None);
    assert_eq!(schedule.poll_change(start + ms(1_000_000)), None);
}
