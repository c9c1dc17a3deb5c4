//! Recordings that a run is compared with: nothing makes a reader panic, and what one accepts can be compared.

use aquila_lab::score::{Choice, ScoreError, read, score as compare};

use crate::input::Scratch;

/// The input is a file: a trace, a report's links, or what iperf of either version writes.
pub fn score(data: &[u8]) {
    Scratch::with(data, |path| {
        let choice = Choice::default();
        match read(path, &choice) {
            Ok(rates) => {
                assert!(rates.seconds.iter().flatten().all(|rate| *rate >= 0.0));
                for test in &rates.tests {
                    assert!(test.from_s >= 0.0 && test.to_s > test.from_s && test.mean_bps >= 0.0);
                }
                match compare(path, path, &choice) {
                    Ok(score) => {
                        assert_eq!((score.per_second.mae_bps, score.per_second.ks), (0.0, 0.0));
                        assert!(score.per_test.is_none_or(|figures| figures.bias_bps == 0.0));
                    }
                    Err(error) => assert!(matches!(error, ScoreError::Apart(..))),
                }
            }
            Err(ScoreError::File { line, message, .. }) => {
                let lines = data.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
                assert!(line <= lines && !message.is_empty());
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
}
