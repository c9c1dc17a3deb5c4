//! What a radio said of its link, second by second: a CSV.
//!
//! The header names the columns, of which `time_s` is needed, and `snr_db`, or `signal_dbm` with `noise_dbm`.
//! `rate_mbps` (what the radio sends at, TX) and `ccq` or `ccq_percent` are used if they are there; others are not.
//! Lines with `#` are comments. An empty field is a value that is not known.

use crate::fault::{ParseError, number, quote};

/// A line of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// On the log's own clock, s.
    pub at_s: f64,
    /// Signal over noise, dB.
    pub snr_db: Option<f64>,
    /// What it sends at, bit/s.
    pub tx_bps: Option<f64>,
    /// 0 to 1.
    pub ccq: Option<f64>,
}

/// More rows than this are refused: a day of them, ten times a second.
const MAX_ROWS: usize = 864_000;
const KNOWN: [&str; 8] =
    ["time_s", "snr_db", "signal_dbm", "noise_dbm", "rate_mbps", "rate_kbps", "ccq", "ccq_percent"];

/// Reads one.
///
/// # Errors
/// The first line that is wrong.
pub fn parse(text: &str) -> Result<Vec<Sample>, ParseError> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let (line, header) = lines.next().ok_or_else(|| ParseError::file("is empty"))?;
    let names: Vec<String> = header.split(',').map(|name| name.trim().to_ascii_lowercase()).take(65).collect();
    if names.len() > 64 {
        return Err(ParseError::line(line, "more than 64 columns"));
    }
    let places = KNOWN.map(|known| names.iter().position(|name| name == known));
    let [time, snr, signal, noise, ..] = places;
    if time.is_none() {
        return Err(ParseError::line(line, format!("{}: there is no column time_s", quote(header))));
    }
    if snr.is_none() && (signal.is_none() || noise.is_none()) {
        return Err(ParseError::line(line, "needs the column snr_db, or signal_dbm and noise_dbm"));
    }
    let mut samples: Vec<Sample> = Vec::new();
    for (line, text) in lines {
        let sample = row(text, names.len(), &places).map_err(|reason| ParseError::line(line, reason))?;
        if samples.last().is_some_and(|last| last.at_s >= sample.at_s) {
            return Err(ParseError::line(line, "times have to grow"));
        }
        if samples.len() == MAX_ROWS {
            return Err(ParseError::line(line, format!("more than {MAX_ROWS} rows")));
        }
        samples.push(sample);
    }
    if samples.is_empty() {
        return Err(ParseError::file("has no rows"));
    }
    Ok(samples)
}

fn row(text: &str, columns: usize, places: &[Option<usize>; 8]) -> Result<Sample, String> {
    let fields: Vec<&str> = text.split(',').take(columns + 1).collect();
    if fields.len() != columns {
        return Err(format!("{} fields; the header has {columns}", text.split(',').count()));
    }
    let mut values = [None; 8];
    for ((value, place), name) in values.iter_mut().zip(places).zip(KNOWN) {
        let Some(field) = place.and_then(|place| fields.get(place)).filter(|field| !field.trim().is_empty()) else {
            continue;
        };
        let read = number(field).filter(|read| read.abs() <= 1e10);
        *value = Some(read.ok_or_else(|| format!("{name} is {}, not a number", quote(field)))?);
    }
    let [time, snr, signal, noise, mbps, kbps, ccq, percent] = values;
    Ok(Sample {
        at_s: time.ok_or("time_s is empty")?,
        snr_db: snr.or_else(|| Some(signal? - noise?)),
        tx_bps: mbps.map(|rate| rate * 1e6).or(kbps.map(|rate| rate * 1e3)),
        ccq: ccq.or(percent.map(|percent| percent / 100.0)).map(|ccq| ccq.clamp(0.0, 1.0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read() {
        let samples = parse("# airOS\ntime_s,snr_db,rate_mbps,ccq_percent,x\n0,21.5,65,92,a\n1,,6.5,,\n").unwrap();
        assert_eq!(samples[0], Sample { at_s: 0.0, snr_db: Some(21.5), tx_bps: Some(65e6), ccq: Some(0.92) });
        assert_eq!(samples[1], Sample { at_s: 1.0, snr_db: None, tx_bps: Some(6.5e6), ccq: None });
        let samples = parse("time_s,signal_dbm,noise_dbm\n0,-70,-95\n").unwrap();
        assert_eq!(samples[0].snr_db, Some(25.0));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, wanted) in [
            ("", "is empty"),
            ("t\n", "line 1: 't': there is no column time_s"),
            ("time_s\n", "line 1: needs the column snr_db"),
            ("time_s,snr_db\n", "no rows"),
            ("time_s,snr_db\n1\n", "line 2: 1 fields; the header has 2"),
            ("time_s,snr_db\n1,x\n", "line 2: snr_db is 'x'"),
            ("time_s,snr_db\n,1\n", "line 2: time_s is empty"),
            ("time_s,snr_db\n1,1\n1,1\n", "line 3: times have to grow"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
