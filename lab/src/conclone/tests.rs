//! The paper's printed values where they are right, the corrected ones where they are not, and what holds for any number.

use std::time::Duration;

use proptest::prelude::*;

use super::analysis::{Inputs, analyse};
use super::channel::Channel;
use super::inertia::{Airframe, Moments};
use super::lifetime::Lifetime;
use super::*;

fn p(value: f64) -> Probability {
    Probability::new(value).unwrap()
}

fn near(value: f64, wanted: f64, within: f64) {
    assert!((value - wanted).abs() <= within, "{value} is not {wanted}");
}

#[test]
fn only_numbers_from_0_to_1_are_probabilities() {
    for value in [-0.1, 1.000_001, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(Probability::new(value), None, "{value}");
    }
    assert_eq!(Probability::new(-0.0).unwrap().to_string(), "0");
}

#[test]
fn equation_2_is_as_printed() {
    for (links, printed) in [(1, 0.900), (2, 0.990), (3, 0.999)] {
        near(reliability::all_alike_lost(p(0.1), links).complement().get(), printed, 1e-12);
    }
    assert_eq!(reliability::all_lost([]), Probability::ALWAYS);
    near(reliability::all_lost([p(0.284), p(0.1)]).get(), 0.0284, 1e-12);
    near(reliability::with_shared(p(0.01), p(0.5)).get(), 0.505, 1e-12);
}

#[test]
fn the_times_of_table_3_are_as_printed() {
    for (links, printed) in [(1, 86.702), (2, 65.906)] {
        let ratio = completion::ratio_paper(reliability::all_alike_lost(p(0.284), links), 1.122).unwrap();
        near(ratio * 60.0, printed, 5e-4);
    }
    near(0.9204 * 120.0, 110.448, 1e-9);
    near(0.5681 * 120.0, 68.172, 1e-9);
}

#[test]
fn the_ratios_of_the_text_are_not_as_printed() {
    for (links, recomputed, backed_off, printed, factor) in
        [(1, 1.4450, 1.7376, 1.5540, 1.397), (2, 1.0984, 1.1079, 1.0954, 1.087)]
    {
        let lost = reliability::all_alike_lost(p(0.284), links);
        near(completion::ratio_paper(lost, 1.122).unwrap(), recomputed, 5e-5);
        near(completion::ratio(lost, 1.122).unwrap(), backed_off, 5e-5);
        near(completion::factor_paper(lost, printed).unwrap(), factor, 5e-4);
    }
    // The measured 110.44 s and 68.17 s, which one k can not explain.
    near(completion::factor_paper(p(0.284), 110.44 / 60.0).unwrap(), 2.12, 5e-3);
    near(completion::factor_paper(p(0.284 * 0.284), 68.17 / 60.0).unwrap(), 1.55, 5e-3);
}

#[test]
fn the_losses_of_equation_7_are_smaller_than_printed() {
    for (links, recomputed, backed_off) in [(1, 6.25, 5.88), (2, 25.0, 24.25), (3, 39.7, 38.9)] {
        let paper = completion::greatest_loss_paper(links, 1.5, 1.1).unwrap();
        let right = completion::greatest_loss(links, 1.5, 1.1).unwrap();
        near(paper.get() * 100.0, recomputed, 0.05);
        near(right.get() * 100.0, backed_off, 0.05);
        near(completion::ratio_paper(reliability::all_alike_lost(paper, links), 1.5).unwrap(), 1.1, 1e-9);
        near(completion::ratio(reliability::all_alike_lost(right, links), 1.5).unwrap(), 1.1, 1e-9);
    }
}

#[test]
fn timeouts_that_double_have_no_mean_from_one_half_on() {
    assert!(completion::ratio(p(0.499), 1.0).is_some());
    assert_eq!(completion::ratio(p(0.5), 1.0), None);
    assert!(completion::ratio_paper(p(0.5), 1.0).is_some());
    assert_eq!(completion::ratio_paper(p(1.0), 1.0), None);
}

#[test]
fn harmonic_numbers_are_not_their_logarithm() {
    for (links, exact) in [(0, 0.0), (1, 1.0), (2, 1.5), (3, 11.0 / 6.0), (4, 25.0 / 12.0), (5, 137.0 / 60.0)] {
        near(links::harmonic(links), exact, 1e-12);
    }
    near(links::harmonic(100_000), (1..=100_000).map(|n| 1.0 / f64::from(n)).sum(), 1e-10);
    near(links::harmonic(257) - links::harmonic(256), 1.0 / 257.0, 1e-12);
    near(links::harmonic_near(1), 1.077, 5e-4);
    near(links::harmonic_near(5), 2.287, 5e-4);
    assert_eq!(links::harmonic_paper(1), 0.0);
}

#[test]
fn equation_10_gives_the_printed_numbers_which_are_too_many() {
    for (failures, wanted, printed, least) in [(2.0, 0.6, 4, 2), (2.0, 0.8, 5, 3), (1.0, 0.8, 3, 1)] {
        assert_eq!(links::for_lifetime_paper(failures, wanted), Some(printed));
        assert_eq!(links::for_lifetime(failures, wanted), Some(least));
    }
    assert_eq!(links::for_lifetime(1.0, 1.5), Some(2));
    assert_eq!(links::for_lifetime(1.0, 0.0), Some(0));
    assert_eq!(links::for_lifetime(1.0, 23.0), None);
    assert_eq!(links::for_lifetime(f64::NAN, 1.0), None);
    assert_eq!(links::for_lifetime_paper(1.0, -1.0), None);
}

#[test]
fn links_for_a_target_are_the_least() {
    assert_eq!(links::for_loss(p(0.1), p(0.001)), Some(3));
    assert_eq!(links::for_loss(p(0.1), p(0.000_999)), Some(4));
    assert_eq!(links::for_loss(p(0.284), p(1e-6)), Some(11));
    assert_eq!(links::for_loss(p(1.0), p(0.5)), None);
    assert_eq!(links::for_loss(p(0.5), p(0.0)), None);
    assert_eq!(links::for_loss(p(0.0), p(0.0)), Some(1));
    assert_eq!(links::for_loss(p(0.5), p(1.0)), Some(0));
}

#[test]
fn links_that_come_back_live_longer() {
    let lifetime = Lifetime { mean: 60.0, outage: 5.0, wanted: 0.0 };
    let (failures, repairs) = (1.0 / 60.0, 1.0 / 5.0);
    near(lifetime.until_none_with_repair(1).unwrap(), 60.0, 1e-9);
    // (3λ + μ) / (2λ²), the textbook's.
    let two = (3.0 * failures + repairs) / (2.0 * failures * failures);
    near(lifetime.until_none_with_repair(2).unwrap(), two, 1e-9);
    let never = Lifetime { outage: f64::INFINITY, ..lifetime };
    near(never.until_none_with_repair(3).unwrap(), never.until_none(3), 1e-9);
    // A mean is the integral of what survives.
    let sum: f64 = (0..200_000).map(|step| never.survival(3, f64::from(step) * 0.01).get() * 0.01).sum();
    near(sum, never.until_none(3), 0.01);
}

#[test]
fn all_of_table_1_comes_out_with_motors_of_30_g() {
    let airframe = Airframe::default();
    let printed = [[57, 57, 95], [58, 78, 135], [58, 78, 135], [78, 78, 176]];
    let consistent_z = [95, 115, 115, 136];
    let rounded = |value: f64| (value * 1e4).round() as i32;
    for (n, (printed, z)) in (1..).zip(printed.into_iter().zip(consistent_z)) {
        let Moments { xx, yy, zz } = airframe.moments_paper(n).unwrap();
        assert_eq!([xx, yy, zz].map(rounded), printed, "{n}");
        let right = airframe.moments(n).unwrap();
        assert_eq!([right.xx, right.yy, right.zz].map(rounded), [printed[0], printed[1], z], "{n}");
    }
    assert_eq!(airframe.moments(0), None);
}

#[test]
fn the_channel_is_its_own_inverse() {
    let channel = Channel { retries: 3, frames: 2, ..Channel::default() };
    let loss = p(0.29);
    let range = channel.range_m(loss).unwrap();
    let there = Channel { distance_m: range, ..channel }.reception().unwrap();
    near(there.packet_loss.get(), 0.29, 1e-9);
    near(there.snr_db, channel.snr_for_db(loss).unwrap(), 1e-9);
    // Free space at 1 m and 2437 MHz, and ten times as far.
    let at = |distance_m| Channel { distance_m, ..channel }.reception().unwrap().path_loss_db;
    near(at(1.0), 40.18, 0.01);
    near(at(10.0) - at(1.0), 20.3, 1e-9);
    near(channel.noise_dbm(), -93.96, 0.01);
}

#[test]
fn rounds_are_those_that_can_be_in_time() {
    let ms = Duration::from_millis;
    // A round each 47.5 ms.
    assert_eq!(copies::rounds(ms(30), ms(100)), 3);
    assert_eq!(copies::rounds(ms(30), ms(95)), 3);
    assert_eq!(copies::rounds(ms(30), Duration::from_micros(94_999)), 2);
    assert_eq!(copies::rounds(ms(200), ms(100)), 1);
    assert_eq!(copies::rounds(Duration::ZERO, Duration::MAX), u32::MAX);
    assert_eq!(copies::rounds(Duration::MAX, Duration::ZERO), 1);
}

#[test]
fn copies_are_the_fewest_that_meet_the_target() {
    let choose = |losses: &[f64], rtt_ms| {
        let losses: Vec<_> = losses.iter().map(|loss| p(*loss)).collect();
        let choice = copies::choose(&losses, Duration::from_millis(rtt_ms), Duration::from_millis(100), p(1e-6));
        (choice.links, choice.copies, choice.is_enough)
    };
    assert_eq!(choose(&[0.1, 0.1], 20), (2, 2, true), "0.1^6 is 1e-6, but 0.1^2 too many repetitions");
    assert_eq!(choose(&[0.04, 0.04], 20), (2, 1, true));
    assert_eq!(choose(&[0.284, 0.284], 20), (2, 3, true));
    assert_eq!(choose(&[0.284, 0.284], 60), (2, 3, true));
    assert_eq!(choose(&[0.3, 0.01, 0.01], 20), (2, 1, true), "the worst is left alone");
    assert_eq!(choose(&[0.5], 60), (1, copies::MAX_COPIES, false));
    assert_eq!(copies::choose(&[], Duration::ZERO, Duration::ZERO, p(1e-6)).failure, Probability::ALWAYS);
}

#[test]
fn what_is_shared_is_left_over_whatever_the_number_of_links() {
    let shared = Inputs { shared: p(1e-3), ..Inputs::default() };
    let analysis = analyse(&shared).unwrap();
    assert_eq!(analysis.links_for_target, None);
    assert!(analysis.rows.iter().all(|row| row.lost.get() >= 1e-3));
    let analysis = analyse(&Inputs { target: p(1e-2), ..shared }).unwrap();
    assert_eq!(analysis.links_for_target, Some(4));
    assert!(analysis.rows[3].lost.get() <= 1e-2 && analysis.rows[2].lost.get() > 1e-2);
}

#[test]
fn the_printed_numbers_are_judged() {
    let groups = paper::groups();
    let verdicts = |title: &str| -> Vec<&str> {
        let group = groups.iter().find(|group| group.title.contains(title)).unwrap();
        group.rows.iter().map(|row| row.verdict.as_str()).collect()
    };
    assert_eq!(verdicts("Equation 2"), ["right"; 3]);
    assert!(verdicts("Equation 7").iter().all(|verdict| verdict.starts_with("wrong")));
    assert!(verdicts("Section 5.3").iter().all(|verdict| verdict.starts_with("wrong")));
    assert_eq!(verdicts("table 1").iter().filter(|verdict| **verdict == "right").count(), 9);
    assert!(groups.iter().flat_map(|group| &group.rows).all(|row| !row.verdict.contains(" -")), "{groups:?}");
}

/// Any bits at all, and often what is usual.
fn anything() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), -2.0..2.0f64, 0.0..1e6f64, Just(f64::NAN), Just(f64::INFINITY), Just(0.0), Just(1.0)]
}

fn probability() -> impl Strategy<Value = Probability> {
    prop_oneof![0.0..=1.0f64, Just(0.0), Just(1.0), 0.0..1e-9f64].prop_map(p)
}

proptest! {
    #[test]
    fn no_number_makes_the_formulas_panic(a in anything(), b in anything(), f in probability(), n in any::<u32>()) {
        let finite = |value: Option<f64>| value.is_none_or(f64::is_finite);
        prop_assert!(finite(completion::ratio(f, a)) && finite(completion::ratio_paper(f, a)));
        prop_assert!(finite(completion::factor_paper(f, a)));
        completion::greatest_loss(n, a, b);
        completion::greatest_loss_paper(n, a, b);
        links::for_lifetime(a, b);
        links::for_lifetime_paper(a, b);
        links::for_loss(f, f);
        let lifetime = Lifetime { mean: a, outage: b, wanted: a };
        let _ = (lifetime.check(), lifetime.links(), lifetime.links_with_repair());
        lifetime.survival(n, b);
        lifetime.until_none_with_repair(n % 2_000);
    }

    #[test]
    fn no_channel_and_no_airframe_panics(numbers in prop::collection::vec(anything(), 12), n in any::<u32>()) {
        let channel = Channel {
            distance_m: numbers[0], height_m: numbers[1], frequency_mhz: numbers[2], power_dbm: numbers[3],
            margin_db: numbers[4], exponent: numbers[5], reference_m: numbers[6], bandwidth_mhz: numbers[7],
            noise_figure_db: numbers[8], bits_per_symbol: numbers[9], kappa1: numbers[10], kappa2: numbers[11],
            frame_bytes: numbers[0], retries: n, frames: n,
        };
        let _ = (channel.reception(), channel.range_m(p(0.3)));
        let airframe = Airframe {
            mass_kg: numbers[0], radius_m: numbers[1], arm_m: numbers[2], motor_kg: numbers[3], modem_kg: numbers[4],
        };
        let _ = (airframe.check(), airframe.moments(n), airframe.moments_paper(n));
        let inputs = Inputs {
            losses: vec![p(0.3); n as usize % 20], factor: numbers[0], most: numbers[1], channel, airframe,
            lifetime: Lifetime { mean: numbers[2], outage: numbers[3], wanted: numbers[4] },
            ..Inputs::default()
        };
        let _ = analyse(&inputs);
    }

    #[test]
    fn a_usual_channel_gets_worse_with_distance(distance in 0.1..1e5f64, further in 1.0..100.0f64, retries in 0u32..10) {
        let at = |distance_m| Channel { distance_m, retries, ..Channel::default() }.reception().unwrap();
        let (here, there) = (at(distance), at(distance * further));
        prop_assert!(here.packet_loss <= there.packet_loss && here.bit_error <= there.bit_error);
        prop_assert!(there.packet_loss <= there.frame_error);
    }

    #[test]
    fn more_links_and_more_copies_lose_less(
        losses in prop::collection::vec(probability(), 1..6), shared in probability(), rounds in 0u32..10
    ) {
        let lost = |n: usize| reliability::all_lost(losses[..n].iter().copied());
        for n in 1..losses.len() {
            prop_assert!(lost(n + 1) <= lost(n));
            let with = reliability::with_shared(lost(n), shared);
            prop_assert!(with >= lost(n) && with.get() + 1e-12 >= shared.get());
        }
        for copies in 1..copies::MAX_COPIES {
            prop_assert!(copies::failure(&losses, copies + 1, rounds) <= copies::failure(&losses, copies, rounds));
            prop_assert!(copies::failure(&losses, copies, rounds + 1) <= copies::failure(&losses, copies, rounds));
        }
    }

    #[test]
    fn more_loss_takes_longer(low in 0.0..0.5f64, high in 0.0..0.5f64, factor in 0.0..10.0f64) {
        let (low, high) = (p(low.min(high)), p(low.max(high)));
        let ratio = |lost| completion::ratio(lost, factor).unwrap();
        prop_assert!(1.0 <= ratio(low) && ratio(low) <= ratio(high));
        prop_assert!(completion::ratio_paper(high, factor).unwrap() <= ratio(high));
    }

    #[test]
    fn the_least_number_is_enough_and_one_less_is_not(product in 0.01..20.0f64) {
        let least = links::for_lifetime(1.0, product).unwrap();
        prop_assert!(links::harmonic(least) >= product * (1.0 - 1e-9));
        prop_assert!(links::harmonic(least - 1) < product);
        prop_assert!(links::for_lifetime_paper(1.0, product).unwrap() >= least);
    }
}
