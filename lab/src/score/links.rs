//! A report's `links.csv`: what a direction of a link delivered.

use std::io::BufRead;
use std::path::Path;

use super::input::{self, Seconds};
use super::{Choice, Rates, ScoreError};

const COLUMNS: usize = 14;

/// Reads the first series that fits.
pub fn read(path: &Path, reader: impl BufRead, choice: &Choice) -> Result<Rates, ScoreError> {
    let mut chosen: Option<String> = None;
    let (mut seconds, mut at, mut is_header) = (Seconds::default(), 0.0, true);
    input::each_line(path, reader, |line| {
        if std::mem::take(&mut is_header) {
            return Ok(());
        }
        let fields: Vec<&str> = line.split(',').collect();
        if fields.len() != COLUMNS {
            return Err(format!("{} fields, but there are {COLUMNS} columns", fields.len()));
        }
        let fits = |wanted: &Option<String>, field: usize| wanted.as_ref().is_none_or(|wanted| wanted == fields[field]);
        if !fits(&choice.contender, 1) || !fits(&choice.link, 3) || !fits(&choice.direction, 4) {
            return Ok(());
        }
        let series = fields[..5].join(",");
        if *chosen.get_or_insert_with(|| series.clone()) != series {
            return Ok(());
        }
        let (end, bytes) = (input::number("time_s", fields[5])?, input::number("delivered_bytes", fields[8])?);
        if end <= at {
            return Err("time goes back".into());
        }
        if !seconds.add(at, end, bytes * 8.0) {
            return Err("it is longer than 1,000,000 s".into());
        }
        at = end;
        Ok(())
    })?;
    let wrong = |message: &str| ScoreError::File { path: path.to_owned(), line: 0, message: message.to_owned() };
    let series = chosen.ok_or_else(|| wrong("no series is of that contender, link and direction"))?;
    let names: Vec<&str> = series.split(',').collect();
    let what = format!(
        "delivered to {} over link {} {}, variant {}, seed {}",
        names[1], names[3], names[4], names[0], names[2]
    );
    Ok(Rates { what, seconds: seconds.finish(), tests: Vec::new() })
}
