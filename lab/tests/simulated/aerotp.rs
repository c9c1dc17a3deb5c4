//! The bounds that AeroTP's experiments have to keep, with few runs each. `aquila lab aerotp` has the rest.

use aquila_lab::aerotp::ours::Ours;
use aquila_lab::aerotp::peers::Congestion;
use aquila_lab::aerotp::suite::{self, Point, summed_up};
use aquila_lab::aerotp::{Channel, Scheme, Task, limits, run};
use aquila_proto::aerotp::TransferMode;

fn point(scheme: Scheme, task: &Task, runs: u64) -> Point {
    let outcomes: Vec<_> = (1..=runs).map(|seed| run(scheme, task, seed)).collect();
    let point = summed_up(&task.channel, &outcomes);
    println!(
        "{:.3} ±{:.3} Mbit/s, sent p50 {:.1} p95 {:.1} ms, lost {:.2e}, overhead {:.3}",
        point.goodput.mean,
        point.goodput.sd,
        point.since_sent.p50,
        point.since_sent.p95,
        point.lost,
        point.overhead.map_or(f64::NAN, |overhead| overhead.mean)
    );
    point
}

fn airborne(ours: Ours, bit_errors: f64, runs: u64) -> Point {
    point(Scheme::Ours(ours), &Task::new(Channel::airborne(bit_errors)), runs)
}

/// The first packet takes 6.2 ms, and what is lost costs a packet's time of the source and not a timeout.
#[test]
fn the_first_data_comes_with_the_first_packet() {
    let messages = Scheme::Ours(Ours { stream: false, ..Ours::ADAPTIVE });
    let task = |loss| Task { bytes: 14_720, ..Task::new(Channel::setting_up(loss)) };
    assert!(point(messages, &task(0.0), 10).first.mean <= 6.25);
    assert!(point(messages, &task(0.2), 400).first.mean <= 7.2);
    let tcp = point(Scheme::Tcp(Congestion::NewReno), &task(0.0), 10);
    assert!((16.0..17.0).contains(&tcp.first.mean), "{}", tcp.first.mean);
}

#[test]
fn repetition_is_near_the_ideal() {
    for (bit_errors, share) in [(1e-5, 0.94), (3.5e-5, 0.94), (1e-4, 0.94)] {
        let ideal = limits::of(&Channel::airborne(bit_errors)).arq / 1e6;
        let plain = airborne(Ours::PLAIN, bit_errors, 6);
        assert!(plain.goodput.mean >= share * ideal, "{bit_errors}: {} of {ideal}", plain.goodput.mean);
        assert_eq!(plain.complete, plain.runs);
    }
}

#[test]
fn damaged_copies_are_worth_as_much_again() {
    let combining = airborne(Ours::COMBINING, 1e-4, 6);
    assert!(combining.goodput.mean >= 2.5, "{}", combining.goodput.mean);
    assert!(combining.overhead.unwrap().mean <= 1.0);
    let fitted = airborne(Ours::FITTED, 1e-4, 6);
    assert!(fitted.goodput.mean >= 2.9, "{}", fitted.goodput.mean);
}

#[test]
fn with_parity_the_source_is_the_limit() {
    let stream = airborne(Ours::ADAPTIVE, 1e-4, 6);
    assert!(stream.goodput.mean >= 4.35, "{}", stream.goodput.mean);
    let messages = airborne(Ours { stream: false, ..Ours::ADAPTIVE }, 1e-4, 6);
    assert!(messages.goodput.mean >= 4.35, "{}", messages.goodput.mean);
    assert!(messages.since_sent.p95 <= 35.0, "{}", messages.since_sent.p95);
    let near = airborne(Ours::NEAR, 1e-4, 6);
    assert!(near.goodput.mean >= 4.35 && near.complete == near.runs, "{}", near.goodput.mean);
}

/// In front of our header there are 28 bytes that no code of ours protects: 2.2 % of the packets are lost by them. Repairs bring
/// them back; on a serial line there is hardly anything to bring back.
#[test]
fn quasi_reliable_mode_loses_nothing() {
    let sixteen = airborne(Ours::quasi(16), 1e-4, 6);
    assert!((0.01..0.035).contains(&sixteen.lost), "{}", sixteen.lost);
    let unreliable = airborne(Ours::UNRELIABLE, 1e-4, 6);
    assert!((0.6..0.8).contains(&unreliable.lost), "{}", unreliable.lost);
    let too_much = airborne(Ours::quasi(256), 0.0, 1);
    assert!((1.3..1.4).contains(&too_much.goodput.mean), "the parity fills the line: {}", too_much.goodput.mean);
    for bit_errors in [0.0, 1e-5, 1e-4] {
        let repaired = airborne(Ours::QUASI, bit_errors, 6);
        assert!(repaired.lost <= 2.0 / 4000.0, "{}", repaired.lost);
    }
    for long in suite::long(20_000, 1, &|_, _| {}) {
        println!("{long:?}");
        assert!(long.lost <= if long.name.starts_with("UDP") { 5 } else { 0 });
        assert!(long.protection <= if long.name.starts_with("UDP") { 0.16 } else { 0.07 });
    }
}

#[test]
fn the_models_of_tcp_collapse_as_they_should() {
    let tcp = |bit_errors| {
        let task = Task::new(Channel::airborne(bit_errors));
        point(Scheme::Tcp(Congestion::NewReno), &task, 4).goodput.mean
    };
    assert!(tcp(0.0) > 4.3 && (0.2..2.0).contains(&tcp(1e-5)) && tcp(1e-4) < 0.01);
}

#[test]
fn equal_seeds_give_equal_runs() {
    let task = Task::new(Channel::airborne(3.5e-5));
    for mode in [TransferMode::Reliable, TransferMode::NearReliable, TransferMode::QuasiReliable] {
        let scheme = Scheme::Ours(Ours { mode, ..Ours::FITTED });
        assert_eq!(run(scheme, &task, 3), run(scheme, &task, 3));
        assert_ne!(run(scheme, &task, 3), run(scheme, &task, 4));
    }
}
