//! Scenarios and the files that they name.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use aquila_plan::scenario::{EXAMPLE, Flight, Scenario, Way};
use aquila_plan::{log, mission};

use super::flight_args::{Place, PlanFitArgs, ScenarioArgs, Setting};

/// Larger files are refused, bytes: they are read as a whole.
const MAX_BYTES: u64 = 1 << 30;

/// Reads a file.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let file = std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut bytes = Vec::new();
    // One more than allowed tells a large file from one that fits; a pipe has no length.
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {}", path.display()))?;
    match bytes.len() as u64 > MAX_BYTES {
        true => Err(anyhow!("{}: is larger than {} MiB", path.display(), MAX_BYTES >> 20)),
        false => Ok(bytes),
    }
}

/// The scenario of a command line.
pub fn scenario(args: &ScenarioArgs) -> anyhow::Result<Scenario> {
    let mut set = args.set.clone();
    let mut also = |key: &str, value: toml::Value| set.push(Setting { key: key.into(), value });
    if let Some(seed) = args.seed {
        also("model.seed", toml::Value::Integer(i64::try_from(seed).unwrap_or(i64::MAX)));
    }
    if let Some(seeds) = args.seeds {
        also("model.seeds", toml::Value::Integer(seeds.into()));
    }
    from(args.file.as_deref(), args.example, args.node, args.heading, &set)
}

/// The scenario that a flight is fitted to.
pub fn scenario_of_fit(args: &PlanFitArgs) -> anyhow::Result<Scenario> {
    from(args.with.as_deref(), args.example, args.node, args.heading, &args.set)
}

fn from(
    file: Option<&Path>,
    example: bool,
    node: Option<Place>,
    heading: Option<f64>,
    set: &[Setting],
) -> anyhow::Result<Scenario> {
    if file.is_none() && !example && node.is_none() {
        return Err(anyhow!("where is the node? Give a scenario, --example, or --node LAT,LON"));
    }
    let mut settings = Vec::new();
    let mut also = |key: &str, value: f64| settings.push(Setting { key: key.into(), value: toml::Value::Float(value) });
    if let Some(Place(latitude, longitude)) = node {
        also("node.latitude_deg", latitude);
        also("node.longitude_deg", longitude);
    }
    if let Some(heading) = heading {
        also("node.heading_deg", heading);
    }
    settings.extend(set.iter().cloned());
    let name = file
        .map_or_else(|| if example { "the example" } else { "the options" }.into(), |file| file.display().to_string());
    let bytes = match file {
        Some(file) => read(file)?,
        None if example => EXAMPLE.into(),
        None => Vec::new(),
    };
    let folder = file.and_then(Path::parent).map_or_else(PathBuf::new, Path::to_owned);
    let load = |name: &str| read(&folder.join(name)).map_err(|error| format!("{:#}", error.root_cause()));
    let parse = |bytes: &[u8]| {
        Scenario::parse(bytes, &load).map_err(|error| match error.file.is_empty() {
            true => anyhow!("{name}: {error}"),
            false => anyhow!("{}: {}", folder.join(&error.file).display(), error.error),
        })
    };
    // Before anything is set, so that a mistake in the file is said with its line.
    let scenario = parse(&bytes)?;
    if settings.is_empty() {
        return Ok(scenario);
    }
    let table: toml::Table = toml::from_str(&String::from_utf8_lossy(&bytes)).unwrap_or_default();
    let with = |settings: &[Setting]| {
        let mut table = table.clone();
        settings.iter().try_for_each(|setting| apply(&mut table, setting))?;
        let text = toml::to_string(&table)?;
        Ok::<_, anyhow::Error>(Scenario::parse(text.as_bytes(), &load))
    };
    with(&settings)?.map_err(|error| {
        // Lines would be those of a text that nobody has seen. What was set is at fault: the first with which it is as it is with all.
        let is_the_same = |count: &usize| {
            with(&settings[..*count]).is_ok_and(|one| one.is_err_and(|one| one.error.reason == error.error.reason))
        };
        let count = (1..=settings.len()).find(is_the_same).unwrap_or(settings.len());
        let set = settings[..count].last().map_or_else(String::new, |one| format!("{} = {}: ", one.key, one.value));
        match error.file.is_empty() {
            true => anyhow!("{set}{}", error.error.reason),
            false => anyhow!("{set}{}: {}", folder.join(&error.file).display(), error.error),
        }
    })
}

/// Puts a value to its place.
fn apply(table: &mut toml::Table, setting: &Setting) -> anyhow::Result<()> {
    let mut keys: Vec<&str> = setting.key.split('.').collect();
    let Some(last) = keys.pop() else { return Ok(()) };
    let mut at = table;
    for key in keys {
        let inner = at.entry(key).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        at = inner.as_table_mut().ok_or_else(|| anyhow!("--set {}: {key} has no keys below it", setting.key))?;
    }
    at.insert(last.to_owned(), setting.value.clone());
    Ok(())
}

/// A mission or a log.
pub fn flight(path: &Path) -> anyhow::Result<Flight> {
    let bytes = read(path)?;
    let is_text =
        bytes.starts_with(b"QGC") || bytes.starts_with(b"\xef\xbb\xbf") || bytes.trim_ascii_start().starts_with(b"{");
    let way = match is_text {
        true => mission::parse(&bytes).map(Way::Mission),
        false => log::parse(&bytes).map(Way::Log),
    };
    let way = way.map_err(|error| anyhow!("{}: {error}", path.display()))?;
    let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
    Ok(Flight { name, way, horizon_s: 3_600.0 })
}

/// `circle.csv` with a number: `circle-2.csv`; without one as it is.
pub fn numbered(path: &Path, number: Option<usize>) -> PathBuf {
    let Some(number) = number else { return path.to_owned() };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}-{number}.{}", extension.to_string_lossy()),
        None => format!("{stem}-{number}"),
    };
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(key: &str, value: impl Into<toml::Value>) -> Setting {
        Setting { key: key.into(), value: value.into() }
    }

    #[test]
    fn what_was_set_wrongly_is_named_and_not_a_line_of_no_file() {
        let refused = |settings: &[Setting]| from(None, true, None, None, settings).unwrap_err().to_string();
        let error = refused(&[set("wind.speed_mps", 3.0), set("node.heading_dg", 40.0), set("radio.retries", 3)]);
        assert!(error.starts_with("node.heading_dg = 40.0: unknown field `heading_dg`"), "{error}");
        let error = refused(&[set("wind.speed_mps", "strong")]);
        assert!(error.starts_with("wind.speed_mps = \"strong\": invalid type"), "{error}");
        let error = refused(&[set("radio.eirp_dbm", 900.0)]);
        assert!(error.starts_with("radio.eirp_dbm = 900.0: radio: eirp_dbm is 900"), "{error}");
        assert!(!error.contains("line"), "{error}");
    }
}
