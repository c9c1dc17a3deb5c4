//! What the paper prints beside what comes out: each equation, table and figure with numbers in it.
//!
//! *Printed* is a constant from the paper; all else here is computed when it is asked for.

use serde::Serialize;

use super::channel::Channel;
use super::inertia::{Airframe, Moments};
use super::{Probability, completion, links, reliability};

/// The paper's experiment: losses of 28.4 per cent, 120 packets, half a second apart, k = 1.122.
const LOSS: Probability = Probability(0.284);
const PACKETS: f64 = 120.0;
const INTERVAL_S: f64 = 0.5;
const FACTOR: f64 = 1.122;
/// Its example of an equation: k = 1.5, no more than 1.1 of the ideal time.
const EXAMPLE_FACTOR: f64 = 1.5;
const EXAMPLE_MOST: f64 = 1.1;

/// What belongs together: an equation with its figure, a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// Its name in the paper, and what it is about.
    pub title: &'static str,
    /// What the corrected values are by.
    pub correction: &'static str,
    /// Its numbers.
    pub rows: Vec<Row>,
}

/// A number of the paper.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Which one.
    pub what: String,
    /// In the paper.
    pub printed: String,
    /// By the paper's own formula, from its own inputs.
    pub recomputed: String,
    /// By the right one.
    pub corrected: String,
    /// What to think of it.
    pub verdict: String,
}

/// All of it, in the paper's order.
pub fn groups() -> Vec<Group> {
    vec![
        arrival(),
        greatest_losses(),
        ratios(),
        harmonics(),
        numbers_of_links(),
        loss_at_distance(),
        moments(),
        averages(),
        completion_times(),
    ]
}

fn arrival() -> Group {
    let rows = [(1, "0.900"), (2, "0.990"), (3, "0.999")].map(|(n, printed)| {
        let arrives = reliability::all_alike_lost(Probability(0.1), n).complement();
        row(format!("f = 10 %, n = {n}"), printed, format!("{arrives:.3}"), None)
    });
    Group { title: "Equation 2, figure 3: a packet arrives", correction: "", rows: rows.into() }
}

fn greatest_losses() -> Group {
    let percent = |loss: Option<Probability>, places| shown(loss.map(|loss| loss.get() * 100.0), places, " %");
    let rows = [(1, 0.09, "9 %"), (2, 0.29, "29 %"), (3, 0.44, "44 %")].map(|(n, bound, printed)| {
        let lost = reliability::all_alike_lost(Probability(bound), n);
        let there = shown(completion::ratio_paper(lost, EXAMPLE_FACTOR), 3, "");
        let factor = shown(completion::factor_paper(lost, EXAMPLE_MOST), 2, "");
        Row {
            what: format!("greatest f, n = {n}"),
            printed: printed.into(),
            recomputed: percent(completion::greatest_loss_paper(n, EXAMPLE_FACTOR, EXAMPLE_MOST), 2),
            corrected: percent(completion::greatest_loss(n, EXAMPLE_FACTOR, EXAMPLE_MOST), 2),
            verdict: format!("wrong: at {printed} it is {there}; needs k = {factor}"),
        }
    });
    Group {
        title: "Equation 7, figure 4: losses with which it takes at most 1.1 times as long, k = 1.5",
        correction: "timeouts that double: 1 + k q / (1 − 2q)",
        rows: rows.into(),
    }
}

fn ratios() -> Group {
    let rows = [(1, 1.554, "1.5540"), (2, 1.0954, "1.0954")].map(|(n, value, printed)| {
        let lost = reliability::all_alike_lost(LOSS, n);
        Row {
            what: format!("ratio, n = {n}"),
            printed: printed.into(),
            recomputed: shown(completion::ratio_paper(lost, FACTOR), 4, ""),
            corrected: shown(completion::ratio(lost, FACTOR), 4, ""),
            verdict: format!("wrong: needs k = {}", shown(completion::factor_paper(lost, value), 3, "")),
        }
    });
    Group {
        title: "Section 5.3: completion time over ideal time, f = 28.4 %, k = 1.122",
        correction: "timeouts that double: 1 + k q / (1 − 2q)",
        rows: rows.into(),
    }
}

fn harmonics() -> Group {
    let rows = (1..=5).map(|n| {
        let (paper, exact, near) = (links::harmonic_paper(n), links::harmonic(n), links::harmonic_near(n));
        let off = |value: f64| format!("{:+.1} %", (value / exact - 1.0) * 100.0);
        Row {
            what: format!("n = {n}"),
            printed: "ln n".into(),
            recomputed: format!("{paper:.3}"),
            corrected: format!("{exact:.3}"),
            verdict: format!("{}; ln n + γ + 1/2n = {near:.3} is {}", off(paper), off(near)),
        }
    });
    Group {
        title: "Equation 9: mean lifetime of n links, in lifetimes of one",
        correction: "the harmonic number H_n itself",
        rows: rows.collect(),
    }
}

fn numbers_of_links() -> Group {
    let rows = [(2.0, 0.6, 4), (2.0, 0.8, 5), (1.0, 0.8, 3)].map(|(failures, wanted, printed)| {
        let whole = |links: Option<u32>| links.map_or("-".into(), |links| links.to_string());
        let exact = links::for_lifetime(failures, wanted);
        let spare = exact.map_or(0, |exact| printed - exact as i32);
        Row {
            what: format!("λ = {failures}, α = {wanted}"),
            printed: printed.to_string(),
            recomputed: whole(links::for_lifetime_paper(failures, wanted)),
            corrected: whole(exact),
            verdict: format!("as its formula, {spare} too many"),
        }
    });
    Group {
        title: "Equation 10, figure 7: links for a mean lifetime",
        correction: "the least n with H_n ≥ λα",
        rows: rows.into(),
    }
}

fn loss_at_distance() -> Group {
    let channel = Channel::default();
    let (wanted, strongest) = (Probability(0.29), channel.power_dbm);
    let there = channel.reception().ok();
    let needed = channel.snr_for_db(wanted);
    let spare = there.and_then(|there| Some(there.snr_db - needed?));
    let rows = vec![
        Row {
            what: "packet loss at 80 m".into(),
            printed: "29 %".into(),
            recomputed: "not given".into(),
            corrected: shown(there.map(|there| there.packet_loss.get() * 100.0), 1, " %"),
            verdict: "cannot be recomputed: κ1, κ2, power and noise are not given".into(),
        },
        Row {
            what: "signal over noise at 80 m".into(),
            printed: "-".into(),
            recomputed: "not given".into(),
            corrected: shown(there.map(|there| there.snr_db), 1, " dB"),
            verdict: format!("29 % needs {}", shown(needed, 1, " dB")),
        },
        Row {
            what: "distance of 29 %".into(),
            printed: "80 m".into(),
            recomputed: "not given".into(),
            corrected: shown(channel.range_m(wanted), 0, " m"),
            verdict: format!("it would be 80 m with {} less than {strongest} dBm", shown(spare, 1, " dB")),
        },
    ];
    Group {
        title: "Equations 11 to 14, figure 8: packet loss over distance",
        correction: "the defaults of `aquila plan links` for what is not given",
        rows,
    }
}

fn moments() -> Group {
    type Axis = fn(&Moments) -> f64;
    let axes: [(&str, Axis, [&str; 4]); 3] = [
        ("I_xx", |moments| moments.xx, ["0.0057", "0.0058", "0.0058", "0.0078"]),
        ("I_yy", |moments| moments.yy, ["0.0057", "0.0078", "0.0078", "0.0078"]),
        ("I_zz", |moments| moments.zz, ["0.0095", "0.0135", "0.0135", "0.0176"]),
    ];
    let airframe = Airframe::default();
    let mut rows = Vec::new();
    for (axis, value, all_printed) in axes {
        for (n, printed) in (1..).zip(all_printed) {
            let text = |moments: Option<Moments>| shown(moments.as_ref().map(value), 4, "");
            let (recomputed, corrected) = (text(airframe.moments_paper(n)), text(airframe.moments(n)));
            let mut row = row(format!("{axis}, n = {n}"), printed, recomputed, Some(corrected));
            if row.corrected != row.printed {
                row.verdict = "as its formula, which counts modems twice".into();
            }
            rows.push(row);
        }
    }
    Group {
        title: "Equation 16, table 1: moments of inertia, kg m²",
        correction: "I_zz that agrees with I_xx and I_yy. Motors of 30 g, which are not given",
        rows,
    }
}

fn averages() -> Group {
    let rows = [("MPTCP", 0.9204, "110.44"), ("ConClone", 0.5681, "68.17")].map(|(name, average, printed)| {
        let recomputed = format!("{:.3}", average * PACKETS);
        let mut row = row(format!("{name}, s"), printed, recomputed, None);
        row.verdict = "right, cut off".into();
        row
    });
    Group { title: "Table 2 times 120: completion times that were measured", correction: "", rows: rows.into() }
}

fn completion_times() -> Group {
    let ideal = PACKETS * INTERVAL_S;
    let both = [(1, "MPTCP", "86.702", 110.44), (2, "ConClone", "65.906", 68.17)];
    let rows = both.map(|(n, name, printed, measured)| {
        let lost = reliability::all_alike_lost(LOSS, n);
        let seconds = |ratio: Option<f64>| shown(ratio.map(|ratio| ratio * ideal), 3, "");
        let factor = shown(completion::factor_paper(lost, measured / ideal), 2, "");
        Row {
            what: format!("{name}, s"),
            printed: printed.into(),
            recomputed: seconds(completion::ratio_paper(lost, FACTOR)),
            corrected: seconds(completion::ratio(lost, FACTOR)),
            verdict: format!("as its formula; the {measured} s measured need k = {factor}"),
        }
    });
    Group {
        title: "Table 3: completion times by theory, f = 28.4 %, k = 1.122",
        correction: "timeouts that double: 1 + k q / (1 − 2q)",
        rows: rows.into(),
    }
}

/// A row whose verdict is whether the printed value comes out.
fn row(what: String, printed: &str, recomputed: String, corrected: Option<String>) -> Row {
    let verdict = if recomputed == printed { "right" } else { "wrong" };
    let corrected = corrected.unwrap_or_else(|| recomputed.clone());
    Row { what, printed: printed.into(), recomputed, corrected, verdict: verdict.into() }
}

fn shown(value: Option<f64>, places: usize, unit: &str) -> String {
    value.map_or("-".into(), |value| format!("{value:.places$}{unit}"))
}
