//! Prometheus's text format: tables of metrics.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Name, help and value of a metric; no value if it is not known.
pub(crate) type Column<T> = (&'static str, &'static str, fn(&T) -> Option<f64>);

// Prometheus's own numbers are of this type.
pub(crate) fn count(n: u64) -> Option<f64> {
    Some(n as f64)
}

pub(crate) fn flag(set: bool) -> f64 {
    f64::from(u8::from(set))
}

pub(crate) fn seconds(ms: Option<f64>) -> Option<f64> {
    ms.map(|ms| ms / 1e3)
}

/// The text so far. Writing to a string cannot fail.
pub(crate) struct Page(String);

impl Page {
    pub fn new() -> Self {
        Self(String::with_capacity(16 << 10))
    }

    pub fn into_text(self) -> String {
        self.0
    }

    /// Each column as a metric, with a sample for each row under its labels.
    pub fn table<T>(&mut self, columns: &[Column<T>], rows: &[(Vec<(&str, String)>, &T)]) {
        for (name, help, value) in columns {
            self.describe(name, help);
            for (labels, row) in rows {
                if let Some(value) = value(row) {
                    self.sample(name, labels, value);
                }
            }
        }
    }

    pub fn by_reason(&mut self, name: &str, labels: &[(&str, String)], counts: &BTreeMap<String, u64>) {
        for (reason, n) in counts {
            let labels: Vec<_> = labels.iter().cloned().chain([("reason", reason.clone())]).collect();
            self.sample(name, &labels, *n as f64);
        }
    }

    pub fn describe(&mut self, name: &str, help: &str) {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub fn sample(&mut self, name: &str, labels: &[(&str, impl AsRef<str>)], value: f64) {
        self.0.push_str(name);
        for (place, (label, text)) in labels.iter().enumerate() {
            self.0.push(if place == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{label}=\"{}\"", escape(text.as_ref()));
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }
}

/// A label's value with what the format reserves behind backslashes.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
