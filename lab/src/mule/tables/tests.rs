use super::sectors::{SECTORS, dip};
use super::*;

fn cell(experiment: usize, factor: u32) -> Cell {
    Cell { experiment, reading: LossReading::OneLessCcq, factor, megabytes: 1, seed: 1 }
}

fn carried(mbps: f64, share: f64) -> Carried {
    Carried { files: 9, bytes: 9_000_000, seconds: 60, share, paper_set_s: None, mbps, best_mbps: 2.0 * mbps }
}

#[test]
fn the_planner_flies_the_papers_trajectories_for_half_an_hour() {
    let scenario = scenario(LossReading::OneLessCcq, LASTS_S).unwrap();
    let skies = [1, 2, 3].map(|experiment| sky(&scenario, experiment, 1, 1).unwrap());
    for sky in &skies {
        assert_eq!((sky.seconds.len(), sky.bearings_deg.len(), sky.delay), (1_800, 1_800, Duration::from_millis(1)));
        // 1 - 0.92 at the least, and no more than the channel of 10 MHz has.
        assert!(sky.seconds.iter().all(|second| (0.08..=1.0).contains(&second.loss)));
        assert!(sky.seconds.iter().all(|second| second.rate.0 <= 32_500_000));
    }
    // Around the ship it is seen at all bearings; 800 m off it is at some only.
    let seen = |sky: &Sky| sectors::of([(sky, &[][..])].into_iter()).iter().filter(|one| one.seconds > 0).count();
    assert_eq!(seen(&skies[0]), SECTORS);
    assert!(seen(&skies[2]) < SECTORS / 2);
    assert!(sky(&scenario, 0, 1, 1).is_err() && sky(&scenario, 4, 1, 1).is_err());
    assert_eq!(sky(&scenario, 2, 1, 1).unwrap(), skies[1]);
    assert_ne!(sky(&scenario, 2, 1, 2).unwrap(), skies[1]);
}

#[test]
fn twice_the_errors_cost_loss_in_one_reading_and_time_in_the_other() {
    let of = |reading, factor| sky(&scenario(reading, 300).unwrap(), 1, factor, 1).unwrap();
    let (one, two) = (of(LossReading::OneLessCcq, 1), of(LossReading::OneLessCcq, 2));
    for (one, two) in one.seconds.iter().zip(&two.seconds) {
        assert!((two.loss - (2.0 * one.loss).min(1.0)).abs() < 1e-9 && one.rate == two.rate, "{one:?} {two:?}");
    }
    let (one, two) = (of(LossReading::MacArq, 1), of(LossReading::MacArq, 2));
    assert!(two.capacity() < one.capacity() && two.capacity() > 0.7 * one.capacity());
    let mean = |sky: &Sky| sky.seconds.iter().map(|second| second.loss).sum::<f64>() / 300.0;
    assert!(mean(&one) < 0.001, "{}", mean(&one));
}

#[test]
fn the_best_seconds() {
    // 0, 1, 5, 3 and 0 MB.
    let log = [0, 1, 6, 9, 9].map(|megabytes| megabytes * 1_000_000);
    let is = |log: &[u64], window_s, mbps: f64| {
        let found = best_mbps(log, window_s);
        assert!((found - mbps).abs() < 1e-9, "{found} {mbps}");
    };
    is(&log, 1, 40.0);
    is(&log, 2, 32.0);
    // The first second counts, and a window longer than the flight is the flight.
    is(&[7_000_000, 7_000_000], 1, 56.0);
    is(&log, 100, 14.4);
    is(&log, 0, 40.0);
    is(&[], 10, 0.0);
}

#[test]
fn what_was_carried_is_counted_in_whole_files() {
    let of = Cell { megabytes: 40, ..cell(1, 1) };
    let second = Second { rate: Bitrate::mbps(400), loss: 0.0, away: false };
    let sky = Sky { seconds: vec![second; 21], bearings_deg: vec![0.0; 21], delay: Duration::ZERO };
    // 41 MB each second of 50: the 14th file is there after 14 s, the 20th after 20 s.
    let log: Vec<(u64, u64)> = (1..=21).map(|n| (n * 41_000_000, n * 41 / 40)).collect();
    let all = Carried::new(&of, &log[..14], &sky, 14);
    assert_eq!((all.files, all.bytes, all.seconds, all.paper_set_s), (14, 574_000_000, 14, Some(14)));
    assert!((all.share - 0.8).abs() < 1e-12 && (all.mbps - 328.0).abs() < 1e-9 && (all.best_mbps - 328.0).abs() < 1e-9);
    let backlog = Carried::new(&of, &log, &sky, 100);
    assert_eq!((backlog.files, backlog.seconds, backlog.paper_set_s), (21, 21, Some(14)));
    assert!((backlog.share - 0.8).abs() < 1e-12);
    // Too slow: the whole flight counts, though a log may end early.
    let short = Carried::new(&of, &log[..7], &sky, 14);
    assert_eq!((short.files, short.seconds, short.paper_set_s), (7, 21, None));
    assert!((short.mbps - 41.0 * 7.0 * 8.0 / 21.0).abs() < 1e-9);
    assert_eq!(Carried::new(&of, &[], &sky, 14).files, 0);
    assert_eq!((of.paper_set(), cell(1, 1).paper_set()), (14, 560));
    assert_eq!([1, 2, 3].map(|n| cell(n, 2).printed().files), [352, 179, 180]);
    assert_eq!(Cell { factor: 2, ..of }.printed(), Printed { files: 9, mbps: 1.36 });
}

#[test]
fn seconds_are_put_together_by_bearing() {
    let second = |mbps| Second { rate: Bitrate::mbps(mbps), loss: 0.5, away: false };
    let sky = Sky {
        seconds: vec![second(8), second(16), second(4), second(4)],
        bearings_deg: vec![10.0, 29.9, -0.1, -180.0],
        delay: Duration::ZERO,
    };
    let of = sectors::of([(&sky, &[1_000_000, 1_500_000, 1_500_000][..]), (&sky, &[][..])].into_iter());
    assert_eq!(of.iter().map(|one| one.seconds).collect::<Vec<_>>(), [4, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2]);
    // Half of 12 Mbit/s, and 1.5 MB in the two seconds in which there was something to bring.
    assert!((of[0].capacity_mbps - 6.0).abs() < 1e-9 && (of[0].aquila_mbps - 6.0).abs() < 1e-9, "{:?}", of[0]);
    assert!((dip(&of) - 2.0 / 6.0).abs() < 1e-9);
    assert_eq!(dip(&[]), 1.0);
}

/// Rows of files of 1 MB: Aquila's rates in each experiment, with errors as they are and twice as many, and CUBIC's.
fn rows(aquila: [[f64; 3]; 2], cubic: [f64; 2], shares: [f64; 2]) -> Vec<Row> {
    let row = |factor: u32, experiment: usize| {
        let (cell, doubled) = (cell(experiment, factor), factor as usize - 1);
        let ours = carried(aquila[doubled][experiment - 1], shares[doubled]);
        let cubic = carried(cubic[doubled], 0.1);
        Row { cell, paper: cell.printed(), capacity: 1e9, capacity_mbps: 1.0, aquila: ours, cubic }
    };
    [1, 2].into_iter().flat_map(|factor| [1, 2, 3].map(|experiment| row(factor, experiment))).collect()
}

#[test]
fn a_finding_that_is_not_so_is_told() {
    let none = || [Vec::new(), Vec::new(), Vec::new()];
    let failing = |rows: &[Row], sectors| {
        let all = findings::of(rows, &sectors);
        all.into_iter().filter(|finding| !finding.holds).map(|finding| finding.name).collect::<Vec<_>>()
    };
    let (ours, cubic, shares) = ([[20.0, 16.0, 14.0], [16.0, 13.0, 11.0]], [3.0, 0.3], [0.94, 0.94]);
    let good = rows(ours, cubic, shares);
    assert_eq!(failing(&good, none()), Vec::<&str>::new());
    assert_eq!(findings::of(&good, &none()).len(), 6);
    assert!(failing(&rows([[20.0, 20.0, 14.0], ours[1]], cubic, shares), none())[0].contains("from 300 m"));
    assert!(failing(&rows([ours[0], [16.0, 13.0, 15.9]], cubic, shares), none())[0].contains("800 m off"));
    assert!(failing(&rows(ours, [3.0, 2.0], shares), none())[0].contains("left of CUBIC"));
    assert!(failing(&rows(ours, [9.0, 0.3], shares), none())[0].contains("over CUBIC's"));
    assert!(failing(&rows(ours, cubic, [0.98, 0.94]), none())[0].contains("over that without"));
    assert!(failing(&rows(ours, cubic, [0.89, 0.89]), none())[0].contains("files of 1 MB"));
    // Nobody has carried anything.
    assert!(failing(&rows([[0.0; 3]; 2], [0.0; 2], [0.0; 2]), none()).len() >= 5);

    let sector = |capacity_mbps| vec![Sector { seconds: 1, capacity_mbps, aquila_mbps: 1.0 }];
    let dips =
        |one: f64, two: f64| [[sector(10.0), sector(one)].concat(), [sector(10.0), sector(two)].concat(), sector(1.0)];
    assert_eq!(failing(&good, dips(8.0, 2.0)), Vec::<&str>::new());
    assert!(failing(&good, dips(8.0, 6.0))[0].contains("dips with the bearing"));
    assert!(failing(&good, dips(2.0, 2.0))[0].contains("from higher up"));
}

#[test]
fn a_short_flight_twice() {
    let scenario = scenario(LossReading::OneLessCcq, 60).unwrap();
    let (cell, sky) = (cell(2, 2), sky(&scenario, 2, 2, 1).unwrap());
    // More than fits, and what is through before the end.
    let freight = Freight::of(sky.capacity() as usize / 1_000_000 + 2, 1_000_000);
    let (row, log) = run_cell(&cell, &sky, &freight);
    println!("{row:?}");
    assert_eq!(log.len(), 60);
    assert!(log.is_sorted() && log[59] == row.aquila.bytes && row.aquila.bytes >= row.aquila.files * 1_000_000);
    assert!((0.80..0.96).contains(&row.aquila.share), "{row:?}");
    assert!(row.cubic.bytes > 0 && row.cubic.bytes < row.aquila.bytes / 2, "{row:?}");
    assert!(row.aquila.best_mbps > row.aquila.mbps && row.aquila.best_mbps < 32.5);
    assert_eq!(run_cell(&cell, &sky, &freight), (row, log));
    let (row, log) = run_cell(&cell, &sky, &Freight::of(10, 1_000_000));
    assert!(row.aquila.files == 10 && row.aquila.seconds < 60 && log.len() as u64 == row.aquila.seconds, "{row:?}");
    assert!((0.70..0.96).contains(&row.aquila.share), "{row:?}");
}
