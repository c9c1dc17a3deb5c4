//! Pictures for peers that run live, and what became of them (tools/video_peers uses both):
//!
//!     cargo run --release -p aquila-lab --example peer_pictures -- film SEED COUNT FILE
//!     cargo run --release -p aquila-lab --example peer_pictures -- oracle FILE FIRST MBIT_S[,MBIT_S...]|none
//!     cargo run --release -p aquila-lab --example peer_pictures -- judge FILE FIRST ONE_WAY_MS SENT RECEIVED.csv
//!
//! `film` writes raw pictures of the flight. `oracle` is told what the link carries, or that in each half second from the first picture on.
//! It and `judge` print a line of JSON about those from number FIRST on. SENT.csv, SENT.h264 and
//! RECEIVED.csv are what tools/video_peer.py writes. VMAF is measured if there is an ffmpeg that can.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use aquila_lab::quality::codec::{Engine, Unit};
use aquila_lab::quality::content::{Content, Store};
use aquila_lab::quality::judge::{Setting, judge};
use aquila_lab::quality::oracle::{Capacity, UNLIMITED, oracle};
use aquila_lab::quality::{Encoded, Fate, View, Vmaf, alignment, decodable, shown, timing};
use aquila_proto::Bitrate;
use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["film", seed, count, file] => film(seed.parse()?, count.parse()?, Path::new(file)),
        ["oracle", file, first, capacity] => ceiling(Path::new(file), first.parse()?, capacity),
        ["judge", file, first, one_way, sent, received] => {
            let one_way = Duration::from_secs_f64(one_way.parse::<f64>()? / 1e3);
            peer(Path::new(file), first.parse()?, one_way, sent, Path::new(received))
        }
        _ => {
            Err("film SEED COUNT FILE, oracle FILE FIRST MBIT_S, or judge FILE FIRST ONE_WAY_MS SENT RECEIVED.csv"
                .into())
        }
    }
}

fn film(seed: u64, count: u32, file: &Path) -> Result<(), Box<dyn Error>> {
    let store = Store::fill(&Content::Flight, seed, Content::SIZE, count, &std::env::temp_dir(), &|_| {})?;
    let mut file = BufWriter::new(File::create(file)?);
    for number in 0..count {
        let picture = store.picture(number)?;
        [picture.y(), picture.u(), picture.v()].into_iter().try_for_each(|plane| file.write_all(plane))?;
    }
    Ok(file.flush()?)
}

fn ceiling(file: &Path, first: u32, capacity: &str) -> Result<(), Box<dyn Error>> {
    let store = Store::open(file, Content::SIZE)?;
    let vmaf = Vmaf::find(None, 5).ok();
    let range = first..store.count();
    let setting = Setting { store: &store, engine: Engine::X264, range, vmaf: vmaf.as_ref(), progress: &|_| {} };
    let steps = match capacity {
        "none" => vec![UNLIMITED],
        steps => steps
            .split(',')
            .map(|mbps| Ok(Bitrate((mbps.parse::<f64>()? * 1e6) as u64)))
            .collect::<Result<_, Box<dyn Error>>>()?,
    };
    let capacity = Capacity { steps, least: Bitrate::kbps(150), most: Bitrate::mbps(10) };
    let best = oracle(&setting, Content::SIZE, &capacity, Duration::ZERO)?;
    println!("{}", json!({ "quality": best.quality, "rate_mbps": best.rate.as_mbps() }));
    Ok(())
}

fn peer(file: &Path, first: u32, one_way: Duration, sent: &str, received: &Path) -> Result<(), Box<dyn Error>> {
    let store = Store::open(file, Content::SIZE)?;
    let (fates, units) = fates(sent, received, one_way)?;
    let times = decodable(&fates)?;
    let end = store.count().min(fates.len() as u32);
    if first >= end {
        return Err("nothing was sent".into());
    }
    let whole: Vec<(u32, &Unit)> = (0..)
        .zip(&units)
        .zip(&times)
        .filter_map(|((number, unit), time)| Some((number, unit.as_ref().filter(|_| time.is_some())?)))
        .collect();
    let views = [View::ByIndex, View::Live(Duration::from_millis(300)), View::Over(Duration::from_millis(100))]
        .map(|view| shown(&fates, &times, view));
    let vmaf = Vmaf::find(None, 5).ok();
    let setting =
        Setting { store: &store, engine: Engine::X264, range: first..end, vmaf: vmaf.as_ref(), progress: &|_| {} };
    let quality = judge(&setting, &whole, &views)?;
    let interval = Duration::from_secs(1) / Content::RATE;
    let timing = timing(&fates, &times, first as usize..end as usize, interval);
    let bytes: usize = units[first as usize..end as usize].iter().flatten().map(|unit| unit.annex_b.len()).sum();
    let latency_ms = [0.5, 0.95, 0.99].map(|share| timing.latency_ms(share));
    println!(
        "{}",
        json!({
            "by_index": quality[0],
            "live_300": quality[1],
            "live_over_100": quality[2],
            "delivered": timing.delivered_share(),
            "frozen_s": timing.frozen.as_secs_f64(),
            "latency_ms": latency_ms,
            "rate_mbps": bytes as f64 * 8.0 / (f64::from(end - first) * interval.as_secs_f64()) / 1e6,
        })
    );
    Ok(())
}

/// Times count from the first picture's.
type Sent = (Vec<Fate>, Vec<Option<Unit>>);

fn fates(sent: &str, received: &Path, propagation: Duration) -> Result<Sent, Box<dyn Error>> {
    let received = std::fs::read_to_string(received)?;
    // The last line may have been cut off.
    let came = received.lines().filter_map(|line| line.split_once(','));
    let came: Vec<(&str, u64)> = came.filter_map(|(hash, at)| Some((hash, at.parse().ok()?))).collect();
    let stream = std::fs::read(format!("{sent}.h264"))?;
    let (mut pictures, mut at) = (Vec::new(), 0);
    let log = std::fs::read_to_string(format!("{sent}.csv"))?;
    for line in log.lines() {
        let [number, taken, bytes, recovery, hash] = line.split(',').collect::<Vec<_>>()[..] else { break };
        let (number, taken, bytes): (usize, u64, usize) = (number.parse()?, taken.parse()?, bytes.parse()?);
        let annex_b = stream.get(at..at + bytes).ok_or("the stream is cut off")?.to_vec();
        at += bytes;
        pictures.push((number, (hash, taken), Unit { annex_b, is_recovery: recovery == "1", size: Content::SIZE }));
    }
    // Those that were left out may be written before the one that was being encoded.
    pictures.sort_by_key(|(number, ..)| *number);
    let filmed: Vec<_> = pictures.iter().map(|(_, filmed, _)| *filmed).collect();
    let start = filmed.first().ok_or("nothing was sent")?.1;
    let since = |ns: u64| Duration::from_nanos(ns - start);
    let (mut fates, mut units): Sent = Default::default();
    for ((number, (_, taken), unit), arrived) in pictures.into_iter().zip(alignment::arrivals(&filmed, &came)) {
        if number != fates.len() {
            return Err(format!("picture {} is missing in {sent}.csv", fates.len()).into());
        }
        let unit = Some(unit).filter(|unit| !unit.annex_b.is_empty());
        fates.push(Fate {
            filmed: since(taken),
            encoded: unit.as_ref().map(|unit| Encoded { is_recovery: unit.is_recovery }),
            arrived: arrived.map(since),
            propagation,
        });
        units.push(unit);
    }
    Ok((fates, units))
}
