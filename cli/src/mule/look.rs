//! `aquila mule ls` and `aquila mule status`.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use aquila_depot::{Filter, Row, State, View};
use aquila_net::mule::{LIVE, MuleSnapshot, bytes};
use aquila_net::status::Shown;
use aquila_proto::transfer::Kind;
use serde_json::json;

use super::args::{LsArgs, StatusArgs, StoreArgs};
use super::folder;
use crate::Failure;
use crate::config::Bounds;
use crate::plan::table::Table;

/// What a running store wrote is believed for so long, in seconds.
const FRESH_S: u64 = 5;
/// Objects that are shown with a bar.
const SHOWN: usize = 12;
/// Of a bar.
const WIDTH: usize = 24;

/// A store that is looked at.
struct Opened {
    view: View,
    folder: PathBuf,
    bounds: Bounds,
}

fn open(at: StoreArgs) -> Result<Opened, Failure> {
    let (folder, file) = folder(at).map_err(Failure::Config)?;
    let view = View::open(&folder).with_context(|| format!("cannot open the store in {}", folder.display()));
    Ok(Opened { view: view.map_err(Failure::Runtime)?, folder, bounds: file.mule.bounds() })
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// What a row is called.
fn title(row: &Row) -> String {
    match row.kind {
        Kind::File => row.path.clone(),
        Kind::Pack => "(small files)".into(),
        Kind::Bundle => "(bundle)".into(),
    }
}

fn done(row: &Row) -> f64 {
    match (row.state, row.chunks) {
        (State::Partial, 0) => 0.0,
        (State::Partial, chunks) => (chunks - row.missing.min(chunks)) as f64 / chunks as f64,
        _ => 1.0,
    }
}

/// Lists what is in the store.
pub fn list(args: LsArgs, out: &mut Vec<u8>) -> Result<(), Failure> {
    let Opened { view, .. } = open(args.at)?;
    let mut table = Table::new(&["object", "state", "there", "bytes", "on the way", "priority", "changed", "file"]);
    let mut json = Vec::new();
    for row in view.list(Filter { state: args.state, is_ours: None }) {
        let row = row.map_err(|error| Failure::Runtime(error.into()))?;
        if args.json {
            let line = describe(&row);
            writeln!(json, "{line}").map_err(|error| Failure::Runtime(error.into()))?;
            continue;
        }
        let file = if row.reason.is_empty() { title(&row) } else { format!("{} ({})", title(&row), row.reason) };
        table.push(vec![
            format!("{:.8}", row.object),
            row.state.name().to_owned(),
            format!("{:.0} %", 100.0 * done(&row)),
            bytes(row.size),
            bytes(row.wire_len),
            row.priority.to_string(),
            ago(now_s().saturating_sub(row.changed_s)),
            file,
        ]);
    }
    let written = if args.json { out.write_all(&json) } else { table.write(out) };
    written.map_err(|error| Failure::Runtime(error.into()))
}

fn describe(row: &Row) -> serde_json::Value {
    let kind = match row.kind {
        Kind::File => "file",
        Kind::Pack => "pack",
        Kind::Bundle => "bundle",
    };
    json!({
        "object": row.object.to_string(), "state": row.state.name(), "ours": row.is_ours, "kind": kind,
        "path": row.path, "number": row.number, "priority": row.priority, "bytes": row.size, "wire_bytes": row.wire_len,
        "chunks": row.chunks, "missing": row.missing, "created_s": row.created_s, "deadline_s": row.deadline_s,
        "expires_s": row.expires_s, "changed_s": row.changed_s, "destination": row.destination, "reason": row.reason,
    })
}

fn ago(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7_200 => format!("{} min ago", seconds / 60),
        7_200..172_800 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// Shows how the transfers go.
pub fn status(args: &StatusArgs, out: &mut Vec<u8>) -> Result<(), Failure> {
    let at = || StoreArgs { config: args.at.config.clone(), store: args.at.store.clone() };
    if !args.watch {
        return show(at(), args.json, out);
    }
    loop {
        let mut page = Vec::new();
        show(at(), false, &mut page)?;
        let mut terminal = io::stdout().lock();
        let shown = terminal.write_all(b"\x1b[H\x1b[2J").and_then(|()| terminal.write_all(&page));
        if shown.and_then(|()| terminal.flush()).is_err() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn show(at: StoreArgs, json: bool, out: &mut Vec<u8>) -> Result<(), Failure> {
    let Opened { view, folder, bounds } = open(at)?;
    let running = live(&folder);
    let snapshot = match running.clone() {
        Some(snapshot) => snapshot,
        None => at_rest(&view, bounds).map_err(Failure::Runtime)?,
    };
    if json {
        let mut value = serde_json::to_value(&snapshot).map_err(|error| Failure::Runtime(error.into()))?;
        value["running"] = running.is_some().into();
        return writeln!(out, "{value}").map_err(|error| Failure::Runtime(error.into()));
    }
    let bars = bars(&view, &snapshot).map_err(Failure::Runtime)?;
    let mut write = || {
        out.write_all(snapshot.summary().as_bytes())?;
        if running.is_none() {
            writeln!(out, "\nnot running: start it with `aquila mule node`, `carry` or `shore`")?;
        }
        for (title, done, size, how) in &bars {
            let full = (done * WIDTH as f64).round() as usize;
            let bar: String = (0..WIDTH).map(|place| if place < full { '#' } else { '.' }).collect();
            writeln!(out, "[{bar}] {:>3.0} %  {:>9}  {how}  {title}", 100.0 * done, bytes(*size))?;
        }
        Ok::<_, io::Error>(())
    };
    write().map_err(|error| Failure::Runtime(error.into()))
}

/// What a running store says, if there is one.
fn live(folder: &Path) -> Option<MuleSnapshot> {
    let snapshot: MuleSnapshot = serde_json::from_slice(&std::fs::read(folder.join(LIVE)).ok()?).ok()?;
    (now_s().saturating_sub(snapshot.at_s) <= FRESH_S).then_some(snapshot)
}

fn at_rest(view: &View, bounds: Bounds) -> anyhow::Result<MuleSnapshot> {
    Ok(MuleSnapshot::new(&view.summary()?, &view.health(bounds.quota, bounds.min_free)?))
}

/// Title, share, bytes, and whether it comes or goes, of what is under way.
type Bar = (String, f64, u64, &'static str);

fn bars(view: &View, snapshot: &MuleSnapshot) -> anyhow::Result<Vec<Bar>> {
    let mut bars = Vec::new();
    for row in view.list(Filter { state: Some(State::Partial), is_ours: Some(false) }).take(SHOWN) {
        let row = row?;
        bars.push((title(&row), done(&row), row.size, "coming"));
    }
    // In the order in which they are sent.
    let giving = snapshot.contacts.iter().filter(|contact| contact.up).flat_map(|contact| &contact.giving);
    let giving: Vec<_> = giving.filter(|object| object.done > 0.0).take(SHOWN).collect();
    let mut rows = BTreeMap::new();
    for row in view.list(Filter::default()) {
        if rows.len() == giving.len() {
            break;
        }
        let row = row?;
        let name = row.object.to_string();
        if giving.iter().any(|object| object.object == name) {
            rows.insert(name, row);
        }
    }
    for object in giving {
        if let Some(row) = rows.get(&object.object) {
            bars.push((title(row), object.done, row.size, "going"));
        }
    }
    Ok(bars)
}
