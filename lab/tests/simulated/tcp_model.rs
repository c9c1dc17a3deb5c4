//! The model of TCP against what is known of TCP: handshakes and timers to the millisecond, throughput against
//! formulas, and that a byte stream stays one whatever the link does.

use std::path::Path as FilePath;
use std::time::{Duration, Instant};

use aquila_emu::{Jitter, JitterShape, Loss, Path, PathConfig, Payload, Queue};
use aquila_lab::metrics::{Metrics, quantile};
use aquila_lab::plan::{Plan, parse};
use aquila_lab::record::Run;
use aquila_lab::run::run;
use aquila_lab::run::tcp::congestion::Algorithm;
use aquila_lab::run::tcp::connection::Connection;
use aquila_lab::run::tcp::cubic::Cubic;
use aquila_lab::run::tcp::reno::Reno;
use aquila_lab::run::tcp::segment::{MSS, Segment};
use aquila_lab::run::tcp::ticks::Ticks;
use proptest::prelude::*;

use crate::ms;

const RTT: Duration = ms(60);

#[derive(Debug)]
struct Carried(Segment);

impl Payload for Carried {}

/// Both ends of a connection and the two directions between them.
struct Ends {
    start: Instant,
    now: Instant,
    ends: [Connection; 2],
    paths: [Path<Carried>; 2],
    read: [u64; 2],
    is_accepted: bool,
}

impl Ends {
    fn new(paths: [PathConfig; 2], seed: u64, algorithm: fn() -> Box<dyn Algorithm>) -> Self {
        let start = Instant::now();
        let ticks = Ticks::since(start);
        let client = Connection::connect(start, algorithm(), ticks);
        let syn = Connection::connect(start, algorithm(), ticks).poll_transmit(start).unwrap();
        let server = Connection::accept(start, &syn, algorithm(), ticks);
        let paths = [Path::new(paths[0], seed), Path::new(paths[1], !seed)];
        let mut ends = Self { start, now: start, ends: [client, server], paths, read: [0; 2], is_accepted: false };
        ends.transmit(0);
        ends
    }

    /// Until this time, with at least so many bytes waiting to be sent by the client.
    fn run(&mut self, until: Duration, backlog: u64) {
        while let Some(next) = self.next().filter(|next| *next <= self.start + until) {
            self.now = self.now.max(next);
            self.step(backlog);
        }
        self.now = self.start + until;
    }

    fn next(&self) -> Option<Instant> {
        let of_paths = self.paths.iter().filter_map(Path::next_delivery);
        let ends = &self.ends[..if self.is_accepted { 2 } else { 1 }];
        of_paths.chain(ends.iter().filter_map(Connection::next_deadline)).min()
    }

    fn step(&mut self, backlog: u64) {
        let now = self.now;
        for node in 0..2 {
            while let Some(Carried(segment)) = self.paths[1 - node].pop(now) {
                // The server's end exists from the start; its answer goes when the SYN has come.
                self.is_accepted |= node == 1;
                self.ends[node].handle_segment(now, &segment);
                self.transmit(node);
            }
            if node == 0 || self.is_accepted {
                self.ends[node].handle_timeout(now);
            }
            self.read[node] += self.ends[node].read();
        }
        let more = backlog.saturating_sub(self.ends[0].buffered());
        self.ends[0].write(now, more);
        self.transmit(0);
        self.transmit(1);
    }

    fn transmit(&mut self, node: usize) {
        while (node == 0 || self.is_accepted)
            && let Some(segment) = self.ends[node].poll_transmit(self.now)
        {
            assert!(segment.bytes() <= 1500);
            let _ = self.paths[node].push(self.now, segment.bytes(), Carried(segment));
        }
    }
}

fn cubic() -> Box<dyn Algorithm> {
    Box::<Cubic>::default()
}

fn reno() -> Box<dyn Algorithm> {
    Box::new(Reno)
}

/// One direction: Mbit/s, loss, and a queue of 60 kB.
fn path(mbps: u64, loss: f64) -> PathConfig {
    PathConfig {
        rate_bps: Some(mbps * 1_000_000),
        delay: RTT / 2,
        queue: Queue::bytes(60_000),
        loss: Loss::Independent(loss),
        ..PathConfig::default()
    }
}

/// Mbit/s of payload over two minutes, the mean of four seeds.
fn throughput(mbps: u64, loss: f64, algorithm: fn() -> Box<dyn Algorithm>) -> f64 {
    let of_seed = |seed| {
        let mut ends = Ends::new([path(mbps, loss), path(mbps, 0.0)], seed, algorithm);
        ends.run(ms(120_000), 200_000);
        ends.read[1] as f64 * 8.0 / 120e6
    };
    (1..=4).map(of_seed).sum::<f64>() / 4.0
}

#[test]
fn a_clean_link_is_filled() {
    let capacity = 4.0 * MSS as f64 / 1500.0;
    for algorithm in [cubic, reno] {
        let share = throughput(4, 0.0, algorithm) / capacity;
        assert!((0.98..=1.0).contains(&share), "{:?}: {share}", algorithm());
    }
}

/// Padhye et al. 1998, eq. 32, with an acknowledgement for each segment that is counted (b = 1), Mbit/s.
fn padhye(loss: f64) -> f64 {
    let (rtt, timeout) = (RTT.as_secs_f64(), (RTT + ms(200)).as_secs_f64());
    let wait = timeout * (3.0 * (3.0 * loss / 8.0).sqrt()).min(1.0) * loss * (1.0 + 32.0 * loss * loss);
    MSS as f64 * 8.0 / (rtt * (2.0 * loss / 3.0).sqrt() + wait) / 1e6
}

/// Timeouts are rarer with SACK, RACK and probes than the formula's Reno has them, so the band is above it at high
/// loss. CUBIC is Reno at such windows (RFC 9438 §4.3), but for 0.7 instead of 0.5 after a loss with a slower growth to
/// match.
#[test]
fn loss_costs_what_the_formula_says() {
    for (loss, band) in [(0.01, 0.7..1.3), (0.05, 0.8..1.6), (0.1, 0.9..2.2)] {
        for algorithm in [reno, cubic] {
            let share = throughput(50, loss, algorithm) / padhye(loss);
            eprintln!("{:?} at {loss}: {:.2} Mbit/s, {share:.2} of the formula", algorithm(), padhye(loss) * share);
            assert!(band.contains(&share), "{:?} at {loss}: {share}", algorithm());
        }
    }
}

const PLAN: &str = r#"
title = "commands on a byte stream"
lasts = "60 s"

[[link]]
name = "lte"
both = { rate = "4 Mbit/s", delay = "30 ms", queue = { bytes = "60 kB" }, loss = 0.0 }

[[contender]]
kind = "tcp"

[[traffic]]
commands = { every = "100 ms" }
"#;

fn plan(text: &str) -> Plan {
    parse(FilePath::new("test.toml"), text).unwrap().remove(0).1
}

fn run_of(plan: &Plan, seed: u64) -> Run {
    run(plan, plan.contenders[0].get_ref(), seed).unwrap()
}

/// Latencies of the commands of a direction, sorted, of several seeds; all arrive, once, and in order.
fn latencies(plan: &Plan, direction: usize, seeds: u64) -> Vec<Duration> {
    let mut all = Vec::new();
    for seed in 1..=seeds {
        let run = run_of(plan, seed);
        let messages = &run.flow("commands", direction).unwrap().messages;
        let arrived: Vec<Duration> = messages.iter().filter_map(|message| message.arrived).collect();
        assert!(arrived.is_sorted(), "in order");
        assert!(messages.iter().take(arrived.len()).all(|message| message.times == 1), "none left out, none twice");
        all.extend(messages.iter().filter_map(|message| Some(message.arrived? - message.sent)));
    }
    all.sort_unstable();
    all
}

#[test]
fn commands_on_a_clean_link_take_propagation_and_serialisation() {
    let all = latencies(&plan(PLAN), 0, 1);
    // 97 bytes at 4 Mbit/s.
    assert_eq!(quantile(&all, 0.5), RTT / 2 + Duration::from_micros(194));
    // The first waits for the handshake.
    assert!(*all.last().unwrap() <= RTT / 2 * 3 + ms(1));
}

/// One loss costs a round trip and a half after the next message; the last of several an RTO of 260 ms; each more
/// doubles.
#[test]
fn a_lossy_link_shows_the_back_off() {
    let at = |loss: &str| latencies(&plan(&PLAN.replace("loss = 0.0", &format!("loss = {loss}"))), 0, 20);
    let [one, ten, many] = ["0.01", "0.1", "0.284"].map(at);
    for all in [&one, &ten, &many] {
        let of = |share| quantile(all, share).as_secs_f64() * 1e3;
        eprintln!("p50 {:.0} p95 {:.0} p99 {:.0} max {:.0} ms", of(0.5), of(0.95), of(0.99), of(1.0));
    }
    assert!(quantile(&one, 0.95) < ms(31) && quantile(&one, 0.999) > ms(150));
    assert!(quantile(&ten, 0.5) < ms(31) && quantile(&ten, 0.95) > ms(150) && quantile(&ten, 0.95) < ms(600));
    assert!(quantile(&many, 0.5) > ms(150) && quantile(&many, 0.95) > ms(2000));
}

/// As in the kernel's trace: each new segment puts the timeout off until the window of ten is full, then it comes after
/// some 1040 ms, 560 ms and 1100 ms, and one segment takes the ten along. What was written meanwhile follows.
#[test]
fn after_an_outage_the_next_repetition_is_waited_for() {
    let text = format!("{PLAN}[[action]]\nat = \"10 s\"\noutage = {{ lasts = \"1.9 s\" }}\n");
    let run = run_of(&plan(&text), 1);
    let messages = &run.flow("commands", 0).unwrap().messages;
    let first = messages.iter().find(|message| message.sent >= Duration::from_secs(10)).unwrap();
    let arrived = first.arrived.unwrap();
    assert!((ms(2500)..ms(2800)).contains(&(arrived - first.sent)), "{:?}", arrived - first.sent);
    let held = messages.iter().filter(|message| message.arrived == Some(arrived)).count();
    assert_eq!(held, 10);
    let next = messages.iter().filter_map(|message| message.arrived).find(|other| *other > arrived).unwrap();
    assert!((RTT..RTT + ms(3)).contains(&(next - arrived)), "{:?}", next - arrived);
}

/// Time of the first command that came out, in each direction.
fn first_arrivals(text: &str) -> [Duration; 2] {
    let run = run_of(&plan(text), 1);
    [0, 1].map(|direction| run.flow("commands", direction).unwrap().messages.iter().find_map(|m| m.arrived).unwrap())
}

fn assert_about(actual: [Duration; 2], expected: [u64; 2], more: u64) {
    for (actual, expected) in actual.into_iter().zip(expected) {
        assert!(actual >= ms(expected) && actual < ms(expected + more), "{actual:?}, not {expected} ms");
    }
}

#[test]
fn handshakes_take_their_round_trips() {
    let often = PLAN.replace("100 ms", "1 ms").replace("60 s", "5 s");
    // Serialisation: 3 ms for a full segment, of which there may be some. The client sends after one round trip, the
    // server when it hears of it.
    assert_about(first_arrivals(&often), [90, 120], 8);
    let tls = often.replace("kind = \"tcp\"", "kind = \"tls\"");
    assert_about(first_arrivals(&tls), [150, 180], 10);
    // The SYN of 0 s and that of 1 s are lost; the timers are up to 32 ms late.
    let late = format!("{often}[[action]]\nat = \"0 s\"\noutage = {{ lasts = \"1.5 s\" }}\n");
    assert_about(first_arrivals(&late), [2090, 2120], 8 + 2 * 36);
}

/// When the first command comes out after the link's return with a new address, and the notes of losses.
fn after_new_address(contender: &str, reconnect: &str) -> ([f64; 2], Vec<String>) {
    let text = PLAN.replace("kind = \"tcp\"", &format!("kind = \"{contender}\"\nreconnect = \"{reconnect}\""));
    let text = text.replace("100 ms", "10 ms");
    let action = "[[action]]\nat = \"10 s\"\noutage = { lasts = \"1 s\", new_address = true, reconnect = true }\n";
    let plan = plan(&format!("{text}{action}"));
    let run = run_of(&plan, 1);
    let notes = run.events.iter().map(|event| event.text.clone()).filter(|text| text.starts_with("lost")).collect();
    let metrics = Metrics::of(&plan, &[run]);
    let of = |name: &str| metrics.get(&format!("{contender}.commands.{name}.recovery_ms.max")).unwrap();
    for name in ["up", "down"] {
        assert_eq!(metrics.get(&format!("{contender}.commands.{name}.twice")), Some(0.0));
    }
    ([of("up"), of("down")], notes)
}

#[test]
fn a_new_address_takes_a_new_connection() {
    let (at, notes) = after_new_address("tcp", "fresh");
    assert!((90.0..92.0).contains(&at[0]) && (120.0..123.0).contains(&at[1]), "{at:?}");
    // What was written during the outage is lost with the old connection.
    assert_eq!(notes, ["lost with connection 1: 100 messages up, 100 down"]);
    let (at, notes) = after_new_address("tcp", "keep");
    // The ground station goes on writing to nobody until it is asked for another connection; its next command is the
    // first.
    assert!((5090.0..5092.0).contains(&at[0]) && (5120.0..5133.0).contains(&at[1]), "{at:?}");
    assert_eq!(notes, ["lost with connection 1: 601 messages up, 610 down"]);
    for reconnect in ["fresh", "resume"] {
        let (at, _) = after_new_address("tls", reconnect);
        assert!((150.0..158.0).contains(&at[0]) && (180.0..190.0).contains(&at[1]), "{reconnect}: {at:?}");
    }
}

/// More than the link carries, for long: what waits is bounded, the rest is refused and said.
#[test]
fn what_waits_is_bounded() {
    let text = PLAN.replace("4 Mbit/s", "500 kbit/s").replace("60 s", "20 s");
    let text = text.replace("commands = { every = \"100 ms\" }", "parameters = { every = \"50 us\" }");
    let run = run_of(&plan(&text), 1);
    assert!(run.events.iter().any(|event| event.text.starts_with("no room for messages")));
    let messages = &run.flow("parameters", 0).unwrap().messages;
    let came = messages.iter().filter(|message| message.arrived.is_some()).count() as f64;
    assert!(came * 37.0 * 8.0 > 0.9 * 500e3 * 20.0, "{came}");
}

#[test]
fn the_same_seed_gives_the_same_log() {
    for kind in ["tcp", "tcp-reno", "tls"] {
        let text = PLAN.replace("loss = 0.0", "loss = 0.1, jitter = { up_to = \"9 ms\", reorder = true }");
        let text = format!("{text}[[traffic]]\nfrom = \"air\"\nvideo = {{ rate = \"5 Mbit/s\" }}\n");
        let plan = plan(&text.replace("kind = \"tcp\"", &format!("kind = \"{kind}\"")));
        let log = |seed| run_of(&plan, seed).log_hash;
        assert_eq!(log(1), log(1), "{kind}");
        assert_ne!(log(1), log(2), "{kind}");
    }
}

/// Raw datagrams beside a stream that backs off: the stream's messages wait behind a queue that video keeps full.
#[test]
fn video_beside_it_does_not_give_way() {
    let text = format!("{PLAN}[[traffic]]\nfrom = \"air\"\nvideo = {{ rate = \"5 Mbit/s\" }}\n");
    let all = latencies(&plan(&text), 0, 1);
    assert!(quantile(&all, 0.5) > ms(100), "{:?}", quantile(&all, 0.5));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the link does, all that was written comes out, and nothing else.
    #[test]
    fn all_bytes_arrive(
        seed in any::<u64>(),
        loss in [0.0..0.3, 0.0..0.3],
        jitter in 0..40u64,
        queue in 3_000..60_000usize,
        writes in prop::collection::vec((0..400u64, 1..20_000u64), 1..60),
    ) {
        let config = |loss| PathConfig {
            jitter: Jitter { shape: JitterShape::Uniform { max: ms(jitter) }, reorder: true },
            queue: Queue::bytes(queue),
            ..path(2, loss)
        };
        let mut ends = Ends::new(loss.map(config), seed, if seed % 2 == 0 { cubic } else { reno });
        let (mut at, mut written) = (Duration::ZERO, 0);
        for (wait, bytes) in writes {
            at += ms(wait);
            ends.run(at, 0);
            for node in 0..2 {
                ends.ends[node].write(ends.now, bytes);
                ends.transmit(node);
            }
            written += bytes;
        }
        for _ in 0..200 {
            at += Duration::from_secs(60);
            ends.run(at, 0);
            prop_assert!(ends.read.iter().all(|read| *read <= written));
        }
        prop_assert_eq!(ends.read, [written; 2]);
        for end in &ends.ends {
            prop_assert_eq!(end.buffered(), 0);
            prop_assert_eq!(end.next_deadline(), None, "nothing under way, nothing to wait for");
        }
    }
}
