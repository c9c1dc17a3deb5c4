//! `aquila mule put`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow, bail};
use aquila_depot::{Depot, DepotError, Put, PutOptions, Source};
use aquila_net::mule::bytes;

use super::args::PutArgs;
use super::load;
use crate::config::{Environment, key_file, store_folder};
use crate::{Failure, keys};

/// Files that are put before they are promised.
const BATCH: usize = 1_024;
/// How often a file is put whose chunks another process gives up meanwhile.
const ATTEMPTS: u32 = 5;

/// Puts files into the queue. Those that cannot be are named, and the others put.
pub fn run(args: PutArgs, out: &mut Vec<u8>) -> Result<(), Failure> {
    let (mut depot, sources, options) = prepare(&args).map_err(Failure::Config)?;
    let (mut failed, mut is_full) = (0, false);
    for batch in sources.chunks(BATCH) {
        let results = put(&mut depot, batch, &options).map_err(Failure::Runtime)?;
        for (source, result) in batch.iter().zip(results) {
            match result {
                Ok(put) => say(&args, source, &put, out).map_err(|error| Failure::Runtime(error.into()))?,
                Err(error) => {
                    failed += 1;
                    is_full |= error.is_full();
                    eprintln!("aquila: {}", complaint(source, &error));
                }
            }
        }
    }
    match failed {
        0 => Ok(()),
        failed => {
            let not_put = format!("{failed} of {} files were not put", sources.len());
            let full = if is_full { how_full(&mut depot, &args) } else { String::new() };
            Err(Failure::Runtime(anyhow!("{not_put}{full}")))
        }
    }
}

/// What is wrong with a file: some of what can be does not name it.
fn complaint(source: &Source, error: &DepotError) -> String {
    match error {
        DepotError::Io { .. } | DepotError::Changing(_) | DepotError::NotAFile(_) => error.to_string(),
        _ => format!("{}: {error}", source.file.display()),
    }
}

/// What a store holds that has no room, and what would make some.
fn how_full(depot: &mut Depot, args: &PutArgs) -> String {
    let Ok(health) = depot.health() else { return String::new() };
    let quota =
        if health.quota == u64::MAX { "no quota".into() } else { format!("a quota of {}", bytes(health.quota)) };
    let config = args.at.config.as_ref().map_or_else(String::new, |file| format!(" in {}", file.display()));
    format!(
        "; the store holds {} with {quota}, and the disk has {} free: there is room when files are delivered, or with \
         another quota or min_free{config}",
        bytes(health.used),
        bytes(health.disk_free)
    )
}

/// Puts files, and promises them.
fn put(depot: &mut Depot, batch: &[Source], options: &PutOptions) -> anyhow::Result<Vec<Result<Put, DepotError>>> {
    let mut results = depot.put_many(batch, options);
    for attempt in 1.. {
        let promised = depot.commit().context("nothing of it is promised")?;
        let is_lost = |result: &Result<Put, _>| result.as_ref().is_ok_and(|put| promised.lost.contains(&put.object));
        let lost: Vec<_> = (0..batch.len()).filter(|at| is_lost(&results[*at])).collect();
        if lost.is_empty() {
            break;
        }
        if attempt == ATTEMPTS {
            bail!("other processes give up chunks of {} files faster than these are put: try again", lost.len());
        }
        // Another process has given chunks up meanwhile that these share with what was there.
        let again: Vec<_> = lost.iter().map(|at| batch[*at].clone()).collect();
        for (at, result) in lost.into_iter().zip(depot.put_many(&again, options)) {
            results[at] = result;
        }
    }
    Ok(results)
}

fn say(args: &PutArgs, source: &Source, put: &Put, out: &mut Vec<u8>) -> std::io::Result<()> {
    let object = put.object.to_string();
    if args.json {
        let line = serde_json::json!({
            "path": source.path, "bytes": put.size, "object": object, "number": put.number, "new": put.is_new,
        });
        return writeln!(out, "{line}");
    }
    let how = if put.is_new { "queued" } else { "there already" };
    writeln!(out, "{}  {:>10}  {how}  {}", &object[..8], bytes(put.size), source.path)
}

fn prepare(args: &PutArgs) -> anyhow::Result<(Depot, Vec<Source>, PutOptions)> {
    let mut file = load(&args.at)?;
    file.mule.store = args.at.store.clone().or(file.mule.store);
    let environment = Environment::read();
    let folder = store_folder(&file, &environment)?;
    let state = file.link.state.clone().or_else(|| environment.state.clone());
    let key = args.key.clone().or(file.identity.key.clone()).map_or_else(|| key_file(state), Ok)?;
    let identity = keys::load(&key)?;
    let mut sources = Vec::new();
    for given in &args.files {
        let name = given.canonicalize().with_context(|| given.display().to_string())?;
        let name = name.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        let name = name.ok_or_else(|| anyhow!("{}: the name is not UTF-8", given.display()))?;
        let path = if args.under.is_empty() { name } else { format!("{}/{name}", args.under.trim_end_matches('/')) };
        collect(given, &path, &mut sources)?;
    }
    if sources.is_empty() {
        return Err(anyhow!("there are no files in that"));
    }
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let options = PutOptions {
        priority: args.priority,
        deadline_s: args.within.map_or(0, |within| now_s + within),
        expires_s: args.expires.map_or(0, |expires| now_s + expires),
        destination: args.destination.clone(),
    };
    let depot = Depot::open(&folder, file.mule.bounds().config(Arc::new(identity)));
    let depot = depot.with_context(|| format!("cannot open the store in {}", folder.display()))?;
    Ok((depot, sources, options))
}

/// A file, or all files in a folder; links in it are not followed.
fn collect(file: &Path, path: &str, sources: &mut Vec<Source>) -> anyhow::Result<()> {
    let context = || file.display().to_string();
    if !file.is_dir() {
        sources.push(Source { file: file.to_owned(), path: path.to_owned() });
        return Ok(());
    }
    let entries =
        std::fs::read_dir(file).with_context(context)?.collect::<Result<Vec<_>, _>>().with_context(context)?;
    let mut entries: Vec<(PathBuf, std::fs::FileType)> = entries
        .into_iter()
        .map(|entry| Ok((entry.path(), entry.file_type()?)))
        .collect::<Result<_, std::io::Error>>()
        .with_context(context)?;
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (entry, kind) in entries {
        let Some(name) = entry.file_name().and_then(|name| name.to_str()) else {
            return Err(anyhow!("{}: the name is not UTF-8", entry.display()));
        };
        if kind.is_dir() || kind.is_file() {
            collect(&entry, &format!("{path}/{name}"), sources)?;
        }
    }
    Ok(())
}
