//! A report's `links.csv`: what a direction of a link delivered.

use std::io::{BufRead, Read};
use std::path::Path;

use super::input::Seconds;
use super::{Choice, Rates, ScoreError};

/// Longest line, bytes.
const MAX_LINE: u64 = 4096;
const COLUMNS: usize = 14;

/// Reads the first series that fits.
pub fn read(path: &Path, mut reader: impl BufRead, choice: &Choice) -> Result<Rates, ScoreError> {
    let wrong = |line: u64, message: String| ScoreError::File { path: path.to_owned(), line, message };
    let mut chosen: Option<String> = None;
    let (mut seconds, mut at) = (Seconds::default(), 0.0);
    let mut line = String::new();
    for number in 1.. {
        line.clear();
        let read = reader.by_ref().take(MAX_LINE).read_line(&mut line);
        let bytes = read.map_err(|error| wrong(number, format!("cannot be read: {error}")))?;
        if bytes == 0 {
            break;
        }
        if bytes as u64 == MAX_LINE {
            return Err(wrong(number, format!("the line is longer than {MAX_LINE} bytes")));
        }
        if number == 1 {
            continue;
        }
        let fields: Vec<&str> = line.trim_end().split(',').collect();
        if fields.len() != COLUMNS {
            return Err(wrong(number, format!("{} fields, but there are {COLUMNS} columns", fields.len())));
        }
        let fits = |wanted: &Option<String>, field: usize| wanted.as_ref().is_none_or(|wanted| wanted == fields[field]);
        if !fits(&choice.contender, 1) || !fits(&choice.link, 3) || !fits(&choice.direction, 4) {
            continue;
        }
        let series = fields[..5].join(",");
        if *chosen.get_or_insert_with(|| series.clone()) != series {
            continue;
        }
        let value = |field: usize, name: &str| match fields[field].parse::<f64>() {
            Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
            _ => Err(wrong(number, format!("{name}: '{}' is not a number of at least 0", fields[field]))),
        };
        let (end, bytes) = (value(5, "time_s")?, value(8, "delivered_bytes")?);
        if end <= at {
            return Err(wrong(number, "time goes back".into()));
        }
        if !seconds.add(at, end, bytes * 8.0) {
            return Err(wrong(number, "it is longer than 1,000,000 s".into()));
        }
        at = end;
    }
    let series = chosen.ok_or_else(|| wrong(0, "no series is of that contender, link and direction".into()))?;
    let names: Vec<&str> = series.split(',').collect();
    let what = format!(
        "delivered to {} over link {} {}, variant {}, seed {}",
        names[1], names[3], names[4], names[0], names[2]
    );
    Ok(Rates { what, seconds: seconds.finish(), tests: Vec::new() })
}
