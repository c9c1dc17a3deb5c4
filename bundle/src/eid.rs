//! Which endpoints a route is for.

use std::fmt;
use std::str::FromStr;

use crate::Eid;

/// A set of endpoints: one, all that begin alike, or all.
///
/// Written as `dtn://shore/in`, `ipn:5.1`; `dtn://shore/*`, `ipn:5.*`; `dtn:*`, `ipn:*`, `*`. A star stands at the end
/// only, and behind a whole part of the name, so that `ipn:5*` is not mistaken for a way to write node 5.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// Without the star.
    text: String,
    star: bool,
}

/// Why a text is no pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Longer than any name we take.
    #[error("a pattern of more than {max} characters", max = Pattern::MAX_LEN)]
    TooLong,
    /// Without a star, and not the name of an endpoint.
    #[error("neither the name of an endpoint (dtn://node/service, ipn:node.service) nor one with a star at its end")]
    NotAnEndpoint,
    /// A star anywhere else.
    #[error("a star stands at the end, behind `/`, `.` or `:`")]
    Star,
}

impl Pattern {
    /// Longest pattern, in bytes.
    pub const MAX_LEN: usize = 255;

    /// All endpoints.
    pub fn any() -> Self {
        Self { text: String::new(), star: true }
    }

    /// Is this endpoint one of them? `ipn` names are compared as they are written with node and service, however they
    /// were encoded.
    pub fn matches(&self, eid: &Eid) -> bool {
        let name = eid.to_string();
        if self.star { name.starts_with(&self.text) } else { name == self.text }
    }

    /// How much of a name is fixed: of several patterns that match, the greatest is the closest.
    pub fn closeness(&self) -> usize {
        self.text.len() * 2 + usize::from(!self.star)
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        if text.len() > Self::MAX_LEN {
            return Err(PatternError::TooLong);
        }
        let Some(prefix) = text.strip_suffix('*') else {
            // As it is written by everybody, so that comparing texts is enough.
            let eid: Eid = text.parse().map_err(|_| PatternError::NotAnEndpoint)?;
            return Ok(Self { text: eid.to_string(), star: false });
        };
        let whole = prefix.is_empty() || prefix.ends_with(['/', '.', ':']);
        if !whole || prefix.contains('*') {
            return Err(PatternError::Star);
        }
        if !(prefix.is_empty() || prefix.starts_with("dtn:") || prefix.starts_with("ipn:")) {
            return Err(PatternError::NotAnEndpoint);
        }
        Ok(Self { text: prefix.into(), star: true })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.text, if self.star { "*" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, eid: &str) -> bool {
        pattern.parse::<Pattern>().expect(pattern).matches(&eid.parse().expect(eid))
    }

    #[test]
    fn one_all_that_begin_alike_or_all() {
        assert!(matches("*", "dtn://a/b") && matches("*", "ipn:1.2") && matches("*", "dtn:none"));
        assert!(matches("dtn://shore/in", "dtn://shore/in") && !matches("dtn://shore/in", "dtn://shore/in2"));
        assert!(matches("dtn://shore/*", "dtn://shore/a/b") && matches("dtn://shore/*", "dtn://shore/"));
        assert!(!matches("dtn://shore/*", "dtn://shore2/a"));
        assert!(matches("ipn:5.*", "ipn:5.1") && matches("ipn:5.*", "ipn:5.0"));
        assert!(!matches("ipn:5.*", "ipn:51.1") && !matches("ipn:*", "dtn://a/"));
    }

    #[test]
    fn the_closest_is_greatest() {
        let closeness = |text: &str| text.parse::<Pattern>().expect(text).closeness();
        assert!(closeness("*") < closeness("dtn:*") && closeness("dtn:*") < closeness("dtn://shore/*"));
        assert!(closeness("dtn://shore/*") < closeness("dtn://shore/"));
    }

    #[test]
    fn what_is_no_pattern() {
        assert_eq!("ipn:5*".parse::<Pattern>(), Err(PatternError::Star));
        assert_eq!("dtn://*/x*".parse::<Pattern>(), Err(PatternError::Star));
        assert_eq!("http://*".parse::<Pattern>(), Err(PatternError::NotAnEndpoint));
        assert_eq!("shore".parse::<Pattern>(), Err(PatternError::NotAnEndpoint));
        assert_eq!("".parse::<Pattern>(), Err(PatternError::NotAnEndpoint));
        assert_eq!("a".repeat(300).parse::<Pattern>(), Err(PatternError::TooLong));
        for text in ["*", "dtn:*", "ipn:5.*", "ipn:5.1", "dtn://a/", "dtn://a/b"] {
            assert_eq!(text.parse::<Pattern>().expect(text).to_string(), text);
        }
    }
}
