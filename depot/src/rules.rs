//! How files of a spool are carried, by where they are in it.

use std::fmt;
use std::str::FromStr;

use crate::intake::PutOptions;

/// Of what no rule is for, and where a rule says nothing: as files that are put by name.
pub const PRIORITY: u8 = 3;
/// Longest time that can be said, in seconds: 100 years.
const LONGEST_S: u64 = 100 * 366 * 86_400;

/// How files of a spool whose path fits are carried: `PATTERN[,OPTION]...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// `*` is any part of a name, `?` any character, `**` any number of folders. Without a `/` it is about the name alone, in whatever
    /// folder; with a `/` at its end about all below that folder.
    pub pattern: String,
    /// 0 is served first, 7 last.
    pub priority: u8,
    /// By when a file should be delivered, in seconds after it was taken; 0 if nothing is said.
    pub within_s: u64,
    /// When nobody wants it any more, likewise.
    pub expires_s: u64,
    /// The shore that it is for; empty for any.
    pub destination: String,
}

/// Why a text is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseRuleError {
    /// No path in a spool is like this.
    #[error("'{0}' is no pattern of a path below the spool: write for example '*.log', 'ctd/**/*.cnv' or 'images/'")]
    Pattern(String),
    /// A priority that there is not.
    #[error("priority={0}: from 0, served first, to 7")]
    Priority(String),
    /// A time that is none.
    #[error("{0}={1}: {2}")]
    Time(&'static str, String, SpanError),
    /// A destination that is too long.
    #[error("destination={0}: 1 to 255 bytes")]
    Destination(String),
    /// An option that there is not.
    #[error("'{0}' is no option of a rule: there are priority=0..7, within=TIME, expires=TIME and destination=NAME")]
    Option(String),
    /// A rule that changes nothing.
    #[error("'{0}' says nothing of how its files are carried: write for example '*.log,priority=6'")]
    Nothing(String),
}

/// Why a text is no span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SpanError {
    /// It is not a number and a unit.
    #[error("no time: write for example 90min, 6h or 2d")]
    Unit,
    /// It is none, or too long.
    #[error("out of bounds: up to 100 years")]
    Bounds,
}

/// Reads a span of time, such as `90min`, in seconds.
///
/// # Errors
/// If it is none.
pub fn span(text: &str) -> Result<u64, SpanError> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "s" => 1,
        "min" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(SpanError::Unit),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    seconds.filter(|s| (1..=LONGEST_S).contains(s)).ok_or(SpanError::Bounds)
}

impl Rule {
    /// Whether it is for this path below the spool.
    pub fn is_for(&self, path: &str) -> bool {
        let whole = if self.pattern.ends_with('/') { format!("{}**/*", self.pattern) } else { self.pattern.clone() };
        let names = |text: &str| text.split('/').map(|name| name.chars().collect()).collect::<Vec<Vec<char>>>();
        match whole.contains('/') {
            true => fits(&names(&whole), &names(path), &|one: &Vec<char>| one[..] == ['*', '*'], &|pattern, name| {
                fits(pattern, name, &|c| *c == '*', &|p, c| *p == '?' || p == c)
            }),
            false => {
                let name: Vec<_> = path.rsplit('/').next().unwrap_or_default().chars().collect();
                fits(&whole.chars().collect::<Vec<_>>(), &name, &|c| *c == '*', &|p, c| *p == '?' || p == c)
            }
        }
    }

    fn options(&self, now_s: u64) -> PutOptions {
        let at = |span_s: u64| if span_s == 0 { 0 } else { now_s.saturating_add(span_s) };
        PutOptions {
            priority: self.priority,
            deadline_s: at(self.within_s),
            expires_s: at(self.expires_s),
            destination: self.destination.clone(),
        }
    }
}

/// How a file that is taken now is carried: as the first rule says that is for it.
pub(crate) fn options(rules: &[Rule], path: &str, now_s: u64) -> PutOptions {
    let rule = rules.iter().find(|rule| rule.is_for(path));
    rule.map_or_else(|| PutOptions { priority: PRIORITY, ..PutOptions::default() }, |rule| rule.options(now_s))
}

/// Whether a sequence is as a pattern says, in which some stand for any number. It takes as long as both lengths multiplied.
fn fits<P, T>(pattern: &[P], text: &[T], is_any: &dyn Fn(&P) -> bool, is_one: &dyn Fn(&P, &T) -> bool) -> bool {
    // Whether the pattern so far fits the first so many of the text.
    let mut so_far = vec![false; text.len() + 1];
    so_far[0] = true;
    for part in pattern {
        if is_any(part) {
            let first = so_far.iter().position(|fits| *fits).unwrap_or(so_far.len());
            so_far[first..].fill(true);
        } else {
            for at in (0..text.len()).rev() {
                so_far[at + 1] = so_far[at] && is_one(part, &text[at]);
            }
            so_far[0] = false;
        }
    }
    so_far[text.len()]
}

impl FromStr for Rule {
    type Err = ParseRuleError;

    fn from_str(text: &str) -> Result<Self, ParseRuleError> {
        let (pattern, options) = text.split_once(',').ok_or_else(|| ParseRuleError::Nothing(text.to_owned()))?;
        let names = pattern.strip_suffix('/').unwrap_or(pattern).split('/');
        if names.into_iter().any(|name| matches!(name, "" | "." | "..")) {
            return Err(ParseRuleError::Pattern(pattern.to_owned()));
        }
        let mut rule = Self {
            pattern: pattern.to_owned(),
            priority: PRIORITY,
            within_s: 0,
            expires_s: 0,
            destination: String::new(),
        };
        for option in options.split(',') {
            let time =
                |what, value: &str| span(value).map_err(|error| ParseRuleError::Time(what, value.to_owned(), error));
            match option.split_once('=') {
                Some(("priority", value)) => {
                    let priority = value.parse().ok().filter(|priority| *priority <= 7);
                    rule.priority = priority.ok_or_else(|| ParseRuleError::Priority(value.to_owned()))?;
                }
                Some(("within", value)) => rule.within_s = time("within", value)?,
                Some(("expires", value)) => rule.expires_s = time("expires", value)?,
                Some(("destination", value)) if (1..=255).contains(&value.len()) => {
                    value.clone_into(&mut rule.destination)
                }
                Some(("destination", value)) => return Err(ParseRuleError::Destination(value.to_owned())),
                _ => return Err(ParseRuleError::Option(option.to_owned())),
            }
        }
        Ok(rule)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pattern, priority, within_s, expires_s, destination } = self;
        write!(f, "{pattern},priority={priority}")?;
        for (what, seconds) in [("within", within_s), ("expires", expires_s)] {
            if *seconds > 0 {
                write!(f, ",{what}={seconds}s")?;
            }
        }
        if destination.is_empty() { Ok(()) } else { write!(f, ",destination={destination}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_about_names_and_folders() {
        for (pattern, fit, other) in [
            ("*.log", &["a.log", "x/y/b.log", ".log"][..], &["a.log.gz", "log"][..]),
            ("cast-??.cnv", &["cast-01.cnv", "ctd/cast-ab.cnv"], &["cast-1.cnv", "cast-001.cnv"]),
            ("urgent/", &["urgent/a", "urgent/b/c"], &["urgent", "x/urgent/a"]),
            ("ctd/*.cnv", &["ctd/a.cnv"], &["ctd/x/a.cnv", "a.cnv"]),
            ("ctd/**/*.cnv", &["ctd/a.cnv", "ctd/x/y/a.cnv"], &["x/ctd/a.cnv"]),
            ("**/raw/*", &["raw/a", "x/y/raw/b"], &["raw/x/a"]),
            ("*", &["a", "x/y"], &[]),
        ] {
            let rule: Rule = format!("{pattern},priority=0").parse().unwrap();
            fit.iter().for_each(|path| assert!(rule.is_for(path), "{pattern} {path}"));
            other.iter().for_each(|path| assert!(!rule.is_for(path), "{pattern} {path}"));
        }
        // Which a search that tries all ways would not end with.
        let many: Rule = format!("{}b,priority=0", "*a".repeat(60)).parse().unwrap();
        assert!(!many.is_for(&"a".repeat(250)));
    }

    #[test]
    fn rules_are_read_and_written_and_the_first_counts() {
        let rules: Vec<Rule> = ["a/,priority=0,within=6h", "*.log,priority=7,expires=2d,destination=office"]
            .map(|text| text.parse().unwrap())
            .into();
        rules.iter().for_each(|rule| assert_eq!(rule.to_string().parse().as_ref(), Ok(rule)));
        let of = |path| {
            let PutOptions { priority, deadline_s, expires_s, destination } = options(&rules, path, 1_000);
            (priority, deadline_s, expires_s, destination)
        };
        assert_eq!(of("a/x.log"), (0, 22_600, 0, String::new()));
        assert_eq!(of("x.log"), (7, 0, 173_800, "office".to_owned()));
        assert_eq!(of("other"), (3, 0, 0, String::new()));
        for wrong in [
            "",
            "*.log",
            ",priority=1",
            "/a,priority=1",
            "../a,priority=1",
            "a//b,priority=1",
            "a,priority=8",
            "a,within=6",
            "a,expires=0h",
            "a,urgent",
            "a,colour=red",
            "a,destination=",
            "a,priority=-1",
            "a,",
        ] {
            assert!(wrong.parse::<Rule>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_units_and_bounds() {
        assert_eq!(span("90min"), Ok(5_400));
        assert_eq!(span("2d"), Ok(172_800));
        for wrong in ["", "5", "h", "1y", "0s", "-1h", "99999999999999999999d", "40000d"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
    }
}
