//! A node that takes bundles into a folder, and hands on bundles of a folder: for trying, and for the tests with other
//! nodes.
//!
//!     cargo run -p aquila-bundle --example bundle_node -- receive --node dtn://mule/ --listen 127.0.0.1:4556 --folder in
//!     cargo run -p aquila-bundle --example bundle_node -- send --node dtn://mule/ --to 127.0.0.1:4557 in/*
//!
//! It prints a line for each bundle. There is no store behind it but the folder; a file is synced before its bundle is
//! acknowledged.

use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aquila_bundle::agent::{Agent, AgentConfig, Arrival, Offer, Outcome, Request, Route, Verdict, bind, now_ms};
use aquila_bundle::{
    Added, Collector, CollectorLimits, Draft, Eid, Folder, Limits, NodeId, Part, PartOf, Pattern, carry, parts, read,
};
use clap::{Parser, ValueEnum};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Parser)]
enum Command {
    /// Takes bundles into a folder, each into a file of its own.
    Receive {
        /// Our name.
        #[arg(long)]
        node: NodeId,
        /// Where others connect.
        #[arg(long)]
        listen: String,
        /// Where bundles are kept.
        #[arg(long)]
        folder: PathBuf,
        /// Ends after so many bundles.
        #[arg(long)]
        count: Option<usize>,
        /// Refuses all bundles.
        #[arg(long)]
        refuse: Option<Refuse>,
        /// Bytes of a bundle that are taken.
        #[arg(long)]
        transfer: Option<u64>,
    },
    /// Hands on bundles, as a node that carried them.
    Send {
        /// Our name.
        #[arg(long)]
        node: NodeId,
        /// The next node.
        #[arg(long)]
        to: String,
        /// The next node takes more than it says, as dtn7 0.21 does.
        #[arg(long)]
        ignore_transfer_mru: bool,
        /// Files with a bundle each.
        files: Vec<PathBuf>,
    },
    /// Makes a bundle with the content of a file.
    Make {
        #[arg(long)]
        source: Eid,
        #[arg(long)]
        destination: Eid,
        /// Seconds.
        #[arg(long, default_value_t = 3600)]
        lifetime: u64,
        payload: PathBuf,
        bundle: PathBuf,
    },
    /// Says what a bundle is, and writes its payload to a file.
    Show { bundle: PathBuf, payload: Option<PathBuf> },
    /// Cuts a file into bundles of at most 1 MiB.
    Pack {
        #[arg(long)]
        source: Eid,
        #[arg(long)]
        destination: Eid,
        file: PathBuf,
        folder: PathBuf,
    },
    /// Puts files together again from the bundles in a folder.
    Unpack { bundles: PathBuf, folder: PathBuf },
}

#[derive(Clone, Copy, ValueEnum)]
enum Refuse {
    /// For now.
    Later,
    /// For ever.
    Never,
}

fn main() -> Result<()> {
    match Command::parse() {
        Command::Receive { node, listen, folder, count, refuse, transfer } => {
            let mut config = AgentConfig::new(node);
            config.session.transfer = transfer.unwrap_or(config.session.transfer);
            runtime()?.block_on(receive(config, &listen, &folder, count.unwrap_or(usize::MAX), refuse))
        }
        Command::Send { node, to, ignore_transfer_mru, files } => {
            let mut config = AgentConfig::new(node);
            config.routes.push(Route { pattern: Pattern::any(), address: to, ignore_transfer_mru });
            runtime()?.block_on(send(config, files))
        }
        Command::Make { source, destination, lifetime, payload, bundle } => {
            let draft = Draft::new(source, destination, now_ms(), Duration::from_secs(lifetime));
            Ok(std::fs::write(bundle, draft.build(&std::fs::read(payload)?)?)?)
        }
        Command::Show { bundle, payload } => {
            let bytes = std::fs::read(bundle)?;
            let summary = read(&bytes, &Limits::default(), now_ms())?;
            println!("{summary:#?}");
            if let Some(payload) = payload {
                std::fs::write(payload, &bytes[summary.payload])?;
            }
            Ok(())
        }
        Command::Pack { source, destination, file, folder } => pack(&source, &destination, &file, &folder),
        Command::Unpack { bundles, folder } => unpack(&bundles, &folder),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

async fn receive(config: AgentConfig, listen: &str, folder: &Path, count: usize, refuse: Option<Refuse>) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let listener = bind(listen).await?;
    say(&format!("listening {}", listener.local_addr()?));
    let (agent, mut requests) = Agent::start(config, Some(listener))?;
    let mut stored = 0;
    while stored < count {
        let Some(request) = requests.recv().await else { break };
        if let Request::Store { arrival, answer } = request {
            let verdict = match refuse {
                None => store(folder, &arrival)?,
                Some(Refuse::Later) => Verdict::Later,
                Some(Refuse::Never) => Verdict::Refused,
            };
            if verdict == Verdict::Stored {
                stored += 1;
            }
            let summary = &arrival.summary;
            say(&format!(
                "{} {} bytes, {} of payload, {} to {}, from {}, age {:?}, hops {:?}",
                format!("{verdict:?}").to_lowercase(),
                summary.len,
                summary.payload.len(),
                summary.source,
                summary.destination,
                arrival.from,
                summary.age,
                summary.hops.map(|hops| hops.count),
            ));
            let _ = answer.send(verdict);
        }
    }
    agent.close().await;
    Ok(())
}

/// A bundle that is there already is not written again: it is the same.
fn store(folder: &Path, arrival: &Arrival) -> Result<Verdict> {
    let path = folder.join(format!("{}.bundle", arrival.summary.id));
    if !path.exists() {
        let partial = folder.join("partial");
        let mut file = std::fs::File::create(&partial)?;
        file.write_all(&arrival.bundle)?;
        file.sync_all()?;
        std::fs::rename(&partial, &path)?;
        std::fs::File::open(folder)?.sync_all()?;
    }
    Ok(Verdict::Stored)
}

async fn send(config: AgentConfig, files: Vec<PathBuf>) -> Result<()> {
    let (node, limits) = (config.session.node.clone(), config.limits);
    let (agent, mut requests) = Agent::start(config, None)?;
    let mut queue: VecDeque<usize> = (0..files.len()).collect();
    let mut left = files.len();
    let mut failed = 0;
    while left > 0 {
        let Some(request) = requests.recv().await else { break };
        match request {
            Request::Next { answer, .. } => {
                let offer = loop {
                    let Some(at) = queue.pop_front() else { break None };
                    let bytes = std::fs::read(&files[at])?.into();
                    let dwell = std::fs::metadata(&files[at])?.modified()?.elapsed().unwrap_or_default();
                    match carry(&bytes, &limits, &node, dwell, now_ms()) {
                        Ok(carried) => break Some(Offer::carried(at as u64, carried, None)),
                        Err(dropped) => {
                            say(&format!("dropped {}: {dropped}", files[at].display()));
                            (left, failed) = (left - 1, failed + 1);
                        }
                    }
                };
                if let Err(Some(offer)) = answer.send(offer) {
                    queue.push_front(offer.token as usize);
                }
            }
            Request::Done { token, outcome, .. } => {
                let file = files[token as usize].display();
                match outcome {
                    Outcome::Delivered => say(&format!("delivered {file}")),
                    Outcome::Later(reason) => {
                        say(&format!("later {file}: {reason}"));
                        queue.push_back(token as usize);
                        continue;
                    }
                    outcome => {
                        say(&format!("failed {file}: {outcome:?}"));
                        failed += 1;
                    }
                }
                left -= 1;
            }
            Request::Store { answer, .. } => drop(answer),
        }
    }
    agent.close().await;
    if failed > 0 { Err(format!("{failed} were not delivered").into()) } else { Ok(()) }
}

fn pack(source: &Eid, destination: &Eid, file: &Path, folder: &Path) -> Result<()> {
    let content = std::fs::read(file)?;
    let hash = *blake3::hash(&content).as_bytes();
    let path = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // A program with a store has a manifest, whose hash is the name.
    let of = PartOf { object: hash, total: content.len() as u64, hash, path };
    let mut draft = Draft::new(source.clone(), destination.clone(), now_ms(), Duration::from_secs(3600));
    for range in parts(of.total) {
        let data = &content[range.start as usize..range.end as usize];
        let payload = Part { of: of.clone(), offset: range.start, data }.encode()?;
        std::fs::write(folder.join(format!("{:06}.bundle", draft.sequence)), draft.build(&payload)?)?;
        draft.sequence += 1;
    }
    say(&format!("{} bundles", draft.sequence));
    Ok(())
}

fn unpack(bundles: &Path, folder: &Path) -> Result<()> {
    let mut collector = Collector::new(CollectorLimits::default(), Folder::new(folder));
    for entry in std::fs::read_dir(bundles)? {
        let bytes = std::fs::read(entry?.path())?;
        let summary = read(&bytes, &Limits::default(), now_ms())?;
        if let Added::Whole(whole) = collector.add(&Part::decode(&bytes[summary.payload])?)? {
            let name = whole.of.path.rsplit('/').next().unwrap_or("unnamed");
            std::fs::rename(whole.object, folder.join(name))?;
            say(&format!("whole {name}, {} bytes", whole.of.total));
        }
    }
    Ok(())
}
