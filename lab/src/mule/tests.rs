use super::figures::{Task, came_again};
use super::*;

/// Each of them, whatever the seed.
fn assert_holds(tasks: &[Task], seeds: std::ops::RangeInclusive<u64>) {
    for task in tasks {
        for seed in seeds.clone() {
            let figure = task.run(seed);
            println!("{}: {} ({})", task.name(), task.show(figure.value), task.show(figure.bound));
            assert!(figure.holds, "{figure:?}");
        }
    }
}

#[test]
fn a_radio_that_loses_much_brings_what_it_can() {
    let circling = |factor_percent, megabytes| Task::Circling { factor_percent, megabytes };
    assert_holds(&[circling(10, 1), circling(50, 1), circling(100, 4), circling(200, 1)], 2..=2);
    assert_holds(&[Task::Small], 1..=1);
}

#[test]
fn contacts_end_and_nothing_verified_is_sent_again() {
    assert_holds(&[Task::Contacts, Task::ContactsAgain], 1..=2);
}

#[test]
fn a_file_that_has_changed_a_little_sends_little() {
    assert_holds(&[Task::Rewritten], 1..=1);
}

#[test]
fn commands_beside_files_wait_for_little() {
    assert_holds(&[Task::Commands], 1..=1);
}

#[test]
fn a_power_cut_costs_what_was_not_synced() {
    let freight = Freight::of(1, 200_000_000);
    let radio = Radio::Contacts { mbps: 30, loss: 0.1, contact: 13, gap: 20 };
    let outcome = fly(&Flight { power_cuts: true, ..Flight::over(radio, 180, 1) }, &freight);
    println!("{outcome:?}");
    assert_eq!(outcome.files, 1, "{outcome:?}");
    // Half a second of 30 Mbit/s and what was under way, less what is lost, five times.
    let again = came_again(&outcome, &freight) * freight.least() as f64;
    assert!(again < 5.0 * 1_950_000.0 && outcome.verified_again == 0, "{again} {outcome:?}");
}

#[test]
fn the_same_seed_flies_the_same_flight() {
    let flight = Flight { commands: true, ..Flight::over(Radio::Circling { factor: 1.0 }, 20, 7) };
    let freight = Freight::of(30, 1_000_000);
    let outcome = fly(&flight, &freight);
    assert_eq!(outcome, fly(&flight, &freight));
    assert_ne!(outcome, fly(&Flight { seed: 8, ..flight }, &freight));
}
