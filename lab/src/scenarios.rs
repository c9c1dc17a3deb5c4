//! The plans that come with the program.

use std::path::Path;

use crate::plan::{Plan, PlanError, Variant, load, parse};

/// Name and text of each.
const SHIPPED: [(&str, &str); 46] = [
    ("figure5", include_str!("../scenarios/figure5.toml")),
    ("figure6", include_str!("../scenarios/figure6.toml")),
    ("figure7", include_str!("../scenarios/figure7.toml")),
    ("mule", include_str!("../scenarios/mule.toml")),
    ("bearers", include_str!("../scenarios/bearers.toml")),
    ("bearer-cameras", include_str!("../scenarios/bearer-cameras.toml")),
    ("bearer-cut", include_str!("../scenarios/bearer-cut.toml")),
    ("bearer-collapse", include_str!("../scenarios/bearer-collapse.toml")),
    ("bearers-dying", include_str!("../scenarios/bearers-dying.toml")),
    ("bearers-satellite", include_str!("../scenarios/bearers-satellite.toml")),
    ("s2", include_str!("../scenarios/s2.toml")),
    ("s3", include_str!("../scenarios/s3.toml")),
    ("s4", include_str!("../scenarios/s4.toml")),
    ("steps", include_str!("../scenarios/steps.toml")),
    ("trickle", include_str!("../scenarios/trickle.toml")),
    ("blackouts", include_str!("../scenarios/blackouts.toml")),
    ("shifts", include_str!("../scenarios/shifts.toml")),
    ("longer-path", include_str!("../scenarios/longer-path.toml")),
    ("varying", include_str!("../scenarios/varying.toml")),
    ("modem", include_str!("../scenarios/modem.toml")),
    ("floor", include_str!("../scenarios/floor.toml")),
    ("seldom", include_str!("../scenarios/seldom.toml")),
    ("telemetry", include_str!("../scenarios/telemetry.toml")),
    ("slow-encoder", include_str!("../scenarios/slow-encoder.toml")),
    ("unknown-encoder", include_str!("../scenarios/unknown-encoder.toml")),
    ("start", include_str!("../scenarios/start.toml")),
    ("full-rate", include_str!("../scenarios/full-rate.toml")),
    ("loss", include_str!("../scenarios/loss.toml")),
    ("loss-on-air", include_str!("../scenarios/loss-on-air.toml")),
    ("marks", include_str!("../scenarios/marks.toml")),
    ("way-back", include_str!("../scenarios/way-back.toml")),
    ("thinned", include_str!("../scenarios/thinned.toml")),
    ("beside-ours", include_str!("../scenarios/beside-ours.toml")),
    ("beside-ours-slow", include_str!("../scenarios/beside-ours-slow.toml")),
    ("converge", include_str!("../scenarios/converge.toml")),
    ("beside-cubic", include_str!("../scenarios/beside-cubic.toml")),
    ("quality-s2", include_str!("../scenarios/quality-s2.toml")),
    ("quality-s3", include_str!("../scenarios/quality-s3.toml")),
    ("quality-s4", include_str!("../scenarios/quality-s4.toml")),
    ("handovers", include_str!("../scenarios/handovers.toml")),
    ("conclone", include_str!("../scenarios/conclone.toml")),
    ("conclone-forward", include_str!("../scenarios/conclone-forward.toml")),
    ("conclone-one-path", include_str!("../scenarios/conclone-one-path.toml")),
    ("conclone-open", include_str!("../scenarios/conclone-open.toml")),
    ("conclone-long", include_str!("../scenarios/conclone-long.toml")),
    ("conclone-short", include_str!("../scenarios/conclone-short.toml")),
];

/// Those that `aquila lab check` leaves out: `conclone-short` stands for them.
const UNCHECKED: [&str; 5] = ["conclone", "conclone-forward", "conclone-one-path", "conclone-open", "conclone-long"];

/// Names of the shipped plans.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// Names of those that are run to see whether all is well.
pub fn checked() -> impl Iterator<Item = &'static str> {
    names().filter(|name| !UNCHECKED.contains(name))
}

/// The text of a shipped plan, to begin one's own with.
pub fn text(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// A shipped plan by its name, or the one in a file.
///
/// # Errors
/// [`PlanError`].
pub fn open(plan: &str) -> Result<Vec<(Variant, Plan)>, PlanError> {
    match text(plan) {
        Some(text) => parse(Path::new(plan), text),
        None => load(Path::new(plan)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_plan_can_be_read() {
        for name in names() {
            let plans = open(name).unwrap_or_else(|error| panic!("{error}"));
            assert!(!plans[0].1.checks.is_empty(), "{name} checks nothing");
        }
        assert!(open("no-such-plan").is_err());
        assert!(UNCHECKED.iter().all(|name| text(name).is_some()));
    }

    #[test]
    fn every_plan_in_the_folder_is_shipped() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        for file in std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
            let name = file.file_stem().unwrap().to_str().unwrap();
            // One is no use without a trace that is not ours.
            let is_plan = file.extension().is_some_and(|extension| extension == "toml") && name != "quality-s1";
            assert!(!is_plan || text(name).is_some(), "{name}");
        }
    }
}
