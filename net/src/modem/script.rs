//! A modem that says what is written down for it, for trials and the lab: a line for each change, with the time in seconds and
//! what is known from then on, which is told each second.
//!
//! ```text
//! # comment
//! 0     cell=17 rsrp=-92 rsrq=-10 sinr=14
//! 12.5  cell=18
//! 30    sinr=-2
//! ```

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use aquila_proto::cc::Radio;

/// Lines that say something; more are refused.
const MAX_STEPS: usize = 100_000;
/// Room for so many lines of 80 characters.
const MAX_BYTES: u64 = 80 * MAX_STEPS as u64;

/// What is known, by time since the start.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Script {
    steps: Vec<(Duration, Radio)>,
}

/// What is wrong with a script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}; write for example: 12.5 cell=18 rsrp=-92 rsrq=-10 sinr=14")]
pub struct ScriptError {
    line: usize,
    what: String,
}

impl Script {
    /// In order of time.
    pub fn steps(&self) -> &[(Duration, Radio)] {
        &self.steps
    }
}

/// Reads a script from a file, and from nothing else: a FIFO that nobody writes to, or a device, would hold up the whole link.
pub(super) fn read(path: &Path) -> Result<Script, String> {
    let say = |error: std::io::Error| error.to_string();
    if !fs::metadata(path).map_err(say)?.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text)).map_err(say)?;
    if read as u64 > MAX_BYTES {
        return Err(format!("it is longer than {MAX_BYTES} bytes"));
    }
    text.parse::<Script>().map_err(|error| error.to_string())
}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut steps: Vec<(Duration, Radio)> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let wrong = |what: String| ScriptError { line: index + 1, what };
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(time) = words.next() else { continue };
            let seconds = time.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            let at = seconds.ok_or_else(|| wrong(format!("'{time}' is no time in seconds")))?;
            if steps.last().is_some_and(|(last, _)| at < *last) || steps.len() == MAX_STEPS {
                return Err(wrong("times must grow, and be at most 100,000".to_owned()));
            }
            let mut radio = Radio::default();
            for word in words {
                set(&mut radio, word).ok_or_else(|| wrong(format!("'{word}' is not understood")))?;
            }
            steps.push((at, radio));
        }
        Ok(Self { steps })
    }
}

fn set(radio: &mut Radio, word: &str) -> Option<()> {
    let (name, value) = word.split_once('=')?;
    let number = || value.parse::<f32>().ok().filter(|number| number.is_finite());
    match name {
        "cell" => radio.cell = Some(value.parse().ok()?),
        "rsrp" => radio.rsrp_dbm = Some(number()?),
        "rsrq" => radio.rsrq_db = Some(number()?),
        "sinr" => radio.sinr_db = Some(number()?),
        "altitude" => radio.altitude_m = Some(number()?),
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_script_is_read_by_time() {
        let script: Script =
            "# comment\n\n0 cell=17 rsrp=-92.5 # here\n12.5 altitude=40 rsrq=-10 sinr=3\n12.5\n".parse().unwrap();
        let [first, second, third] = script.steps() else { panic!("{script:?}") };
        assert_eq!(first.1, Radio { cell: Some(17), rsrp_dbm: Some(-92.5), ..Radio::default() });
        assert_eq!((second.0, second.1.altitude_m), (Duration::from_millis(12_500), Some(40.0)));
        assert_eq!(third.1, Radio::default());
    }

    #[test]
    fn what_is_no_file_or_too_long_is_refused_and_not_waited_for() {
        let path = std::env::temp_dir().join(format!("aquila-modem-script-{}", std::process::id()));
        let read_in_time = |path: &Path| {
            let ((done, answer), path) = (mpsc::channel(), path.to_owned());
            std::thread::spawn(move || done.send(read(&path)));
            answer.recv_timeout(Duration::from_secs(10)).expect("it does not wait")
        };
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let refused = read_in_time(&path);
        fs::remove_file(&path).unwrap();
        assert!(refused.unwrap_err().contains("no regular file"));
        let line = "0 cell=1".to_owned() + &" ".repeat(MAX_BYTES as usize);
        fs::write(&path, &line[..MAX_BYTES as usize]).unwrap();
        assert_eq!(read_in_time(&path).unwrap().steps().len(), 1);
        fs::write(&path, &line[..MAX_BYTES as usize + 1]).unwrap();
        let refused = read_in_time(&path);
        fs::remove_file(&path).unwrap();
        assert!(refused.unwrap_err().contains("longer than 8000000 bytes"));
        assert!(read_in_time(&path).is_err(), "it is gone");
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, line) in [
            ("x", 1),
            ("0\n-1 cell=1", 2),
            ("1\n0", 2),
            ("0 cell", 1),
            ("0 cell=-1", 1),
            ("0 rsrp=inf", 1),
            ("\n0 x=1", 2),
        ] {
            assert_eq!(text.parse::<Script>().unwrap_err().line, line, "{text}");
        }
        assert!("NaN".parse::<Script>().is_err() && "1e300".parse::<Script>().is_err());
    }
}
