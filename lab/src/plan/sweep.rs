//! Values of a plan that are varied: each combination is a plan of its own.

use serde::Deserialize;
use toml::{Table, Value};

/// One value that is varied.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepPlan {
    /// Where it is: keys joined by dots, elements of lists by their number from 0, such as `link.0.both.delay`.
    pub key: String,
    /// What it becomes, one after the other.
    pub values: Vec<Value>,
}

/// A combination of the varied values.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Variant {
    /// Key and value of each.
    pub settings: Vec<(String, Value)>,
}

impl Variant {
    /// All combinations, the last key varying fastest. One with no settings if nothing is varied.
    pub fn all(sweeps: &[SweepPlan]) -> Vec<Self> {
        sweeps.iter().fold(vec![Self::default()], |variants, sweep| {
            let with = |variant: &Self, value: &Value| {
                let mut settings = variant.settings.clone();
                settings.push((sweep.key.clone(), value.clone()));
                Self { settings }
            };
            variants.iter().flat_map(|variant| sweep.values.iter().map(move |value| with(variant, value))).collect()
        })
    }

    /// For people and reports: `link.0.both.delay = 20 ms`.
    pub fn describe(&self) -> String {
        self.described().collect::<Vec<_>>().join(", ")
    }

    fn described(&self) -> impl Iterator<Item = String> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.settings.iter().map(move |(key, value)| format!("{key} = {}", text(value)))
    }

    /// Whether it has a value, given as [`Variant::describe`] has it.
    pub fn has(&self, setting: &str) -> bool {
        self.described().any(|described| described == setting)
    }

    /// Puts the values into a plan's table.
    ///
    /// # Errors
    /// If a key is not in the plan.
    pub(super) fn apply(&self, table: &mut Table) -> Result<(), String> {
        for (key, value) in &self.settings {
            let mut parts = key.split('.');
            let first = parts.next().unwrap_or_default();
            let mut at = table.get_mut(first);
            for part in parts {
                at = at.and_then(|value| match value {
                    Value::Table(table) => table.get_mut(part),
                    Value::Array(list) => part.parse::<usize>().ok().and_then(|index| list.get_mut(index)),
                    _ => None,
                });
            }
            *at.ok_or_else(|| format!("the plan has no '{key}' that could be varied"))? = value.clone();
        }
        Ok(())
    }
}
