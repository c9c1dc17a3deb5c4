//! How much the live emulator carries on one processor, and how well it keeps its times, beside a bare TUN forwarder in
//! the same run.
//!
//! ```text
//! cargo bench -p aquila-lab --bench live [-- SECONDS REPEATS]
//! ```
//!
//! A thread at one node sends UDP packets of 1500 bytes, one at the other receives them; a third one is between the
//! devices. `of one CPU` is that thread's processor time over the time that passed, and `ns each` its processor time a
//! packet that it read.

use std::net::UdpSocket;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use aquila_emu::{Path, PathConfig, Queue};
use aquila_lab::live::{Addresses, Cells, End, Entered, LinkId, LinkSpec, NodeId, Sandbox, World};
use nix::sys::socket::{setsockopt, sockopt};

const BYTES: usize = 1500;
const HEADERS: usize = 28;

fn main() {
    let sandbox = match Sandbox::enter() {
        Ok(Entered::Inside(sandbox)) => sandbox,
        Ok(Entered::Outside(code)) => exit(code),
        Err(error) => {
            println!("not measured: {error}");
            return;
        }
    };
    let mut numbers = std::env::args().filter_map(|argument| argument.parse::<u64>().ok());
    let lasts = Duration::from_secs(numbers.next().unwrap_or(3));
    let repeats = numbers.next().unwrap_or(3);
    throughput(&sandbox, lasts, repeats);
    precision(&sandbox, lasts);
    trace(&sandbox, 10 * lasts);
}

struct Bench {
    world: World,
    link: LinkId,
    a: NodeId,
    b: NodeId,
}

impl Bench {
    fn new(sandbox: &Sandbox, path: PathConfig, bare: bool) -> Self {
        let mut builder = sandbox.world();
        let (a, b) = (builder.node("a"), builder.node("b"));
        let cells = Cells::duplex(Path::new(path, 1), Path::new(path, 2));
        let link =
            builder.link(LinkSpec { name: "link".into(), a, b, mtu: 1500, addresses: Addresses::numbered(0), cells });
        let world = if bare { builder.build_bare() } else { builder.build() }.expect("a world");
        Self { world, link, a, b }
    }

    fn socket(&self, node: NodeId, end: End, port: u16) -> UdpSocket {
        let address = self.world.addresses(self.link, end).v4;
        self.world.run_in(node, move || UdpSocket::bind((address, port))).expect("a socket")
    }

    fn receiver(&self, each: impl FnMut(&[u8]) + Send + 'static) -> (Arc<AtomicBool>, JoinHandle<()>) {
        let socket = self.socket(self.b, End::B, 7000);
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &(8 << 20));
        let stop = Arc::new(AtomicBool::new(false));
        let (told, mut each) = (Arc::clone(&stop), each);
        let receive = move || {
            let mut buffer = [0; 2048];
            while !told.load(Ordering::Relaxed) {
                if let Ok(len) = socket.recv(&mut buffer) {
                    each(&buffer[..len]);
                }
            }
        };
        (stop, self.world.thread_in(self.b, "receive", receive).expect("a thread"))
    }

    /// Sends until `until`, each packet with the time since `epoch`; without a rate as fast as it can. How many.
    fn send(&self, epoch: Instant, until: Instant, mbit: Option<f64>, burst: Duration) -> JoinHandle<u64> {
        let socket = self.socket(self.a, End::A, 0);
        let to = (self.world.addresses(self.link, End::B).v4, 7000);
        let send = move || {
            let mut packet = [0; BYTES - HEADERS];
            let (begin, mut sent) = (Instant::now(), 0);
            while Instant::now() < until {
                let due = mbit
                    .map_or(sent + 64, |mbit| (begin.elapsed().as_secs_f64() * mbit * 1e6 / 8.0 / BYTES as f64) as u64);
                while sent < due {
                    let nanos = epoch.elapsed().as_nanos() as u64;
                    packet[..8].copy_from_slice(&nanos.to_be_bytes());
                    sent += u64::from(socket.send_to(&packet, to).is_ok());
                }
                if mbit.is_some() {
                    sleep(burst);
                }
            }
            sent
        };
        self.world.thread_in(self.a, "send", send).expect("a thread")
    }
}

fn throughput(sandbox: &Sandbox, lasts: Duration, repeats: u64) {
    println!("throughput, {lasts:?} each");
    let limited = |mbit: u64| PathConfig {
        rate_bps: Some(mbit * 1_000_000),
        delay: Duration::from_millis(10),
        queue: Queue::time(Duration::from_millis(200)),
        ..PathConfig::default()
    };
    for _ in 0..repeats {
        flood(sandbox, "bare forwarder, 550 offered", None, Some(550.0), lasts);
        flood(sandbox, "500 Mbit/s, 550 offered", Some(limited(500)), Some(550.0), lasts);
        flood(sandbox, "bare forwarder, flooded", None, None, lasts);
        flood(sandbox, "no bottleneck, flooded", Some(PathConfig::default()), None, lasts);
        flood(sandbox, "500 Mbit/s, flooded", Some(limited(500)), None, lasts);
        flood(sandbox, "2000 Mbit/s, flooded", Some(limited(2000)), None, lasts);
    }
}

fn flood(sandbox: &Sandbox, name: &str, path: Option<PathConfig>, mbit: Option<f64>, lasts: Duration) {
    let bench = Bench::new(sandbox, path.unwrap_or_default(), path.is_none());
    let received = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&received);
    let (stop, receiver) = bench.receiver(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let begin = Instant::now();
    let settled = begin + Duration::from_millis(200);
    let sender = bench.send(begin, settled + lasts, mbit, Duration::from_millis(1));
    sleep(settled - Instant::now());
    bench.world.reset_health().expect("an emulator");
    let counts = || bench.world.stats().expect("an emulator")[0][0];
    let used = || bench.world.processor_time().expect("an emulator");
    let (cpu, offered, before, then) = (used(), counts(), received.load(Ordering::Relaxed), Instant::now());
    sleep(lasts);
    let (cpu, now, got) = (used() - cpu, counts(), received.load(Ordering::Relaxed) - before);
    let passed = then.elapsed();
    let health = bench.world.health().expect("an emulator");
    let (read, out) = (now.input.packets - offered.input.packets, now.output.packets - offered.output.packets);
    let rate = |packets: u64| packets as f64 * BYTES as f64 * 8.0 / passed.as_secs_f64() / 1e6;
    let share = cpu.as_secs_f64() / passed.as_secs_f64() * 100.0;
    let each = cpu.as_nanos() as f64 / read.max(1) as f64;
    print!("{name:28} {:5.0} Mbit/s read, {:5.0} written, {:5.0} received", rate(read), rate(out), rate(got));
    println!(", {share:3.0} % of one CPU, {each:5.0} ns each, {} missed", health.overruns);
    if path.is_some() {
        println!("    {health}");
    }
    sender.join().expect("no panic");
    stop.store(true, Ordering::Relaxed);
    receiver.join().expect("no panic");
}

/// From one program to the other, on a link of 30 ms that carries 12 Mbit/s: how much more than 30 ms it takes.
fn precision(sandbox: &Sandbox, lasts: Duration) {
    let path = PathConfig { delay: Duration::from_millis(30), ..PathConfig::default() };
    let bench = Bench::new(sandbox, path, false);
    let epoch = Instant::now();
    let (stop, receiver) = {
        let mut errors: Vec<f64> = Vec::new();
        let (sender, results) = std::sync::mpsc::channel();
        let (stop, receiver) = bench.receiver(move |packet| {
            let sent = u64::from_be_bytes(packet[..8].try_into().expect("8 bytes"));
            let _ = sender.send(epoch.elapsed().as_nanos() as f64 / 1e3 - sent as f64 / 1e3 - 30_000.0);
        });
        let collect = std::thread::spawn(move || {
            errors.extend(results);
            errors.sort_by(f64::total_cmp);
            let at = |share: f64| errors[((errors.len() - 1) as f64 * share) as usize];
            println!(
                "program to program, beyond 30 ms: median {:.0} us, p99 {:.0}, p99.9 {:.0}, max {:.0}, of {}",
                at(0.5),
                at(0.99),
                at(0.999),
                at(1.0),
                errors.len()
            );
        });
        (stop, (receiver, collect))
    };
    bench.world.reset_health().expect("an emulator");
    bench.send(epoch, epoch + lasts, Some(12.0), Duration::from_micros(500)).join().expect("no panic");
    sleep(Duration::from_millis(100));
    println!("    {}", bench.world.health().expect("an emulator"));
    stop.store(true, Ordering::Relaxed);
    receiver.0.join().expect("no panic");
    receiver.1.join().expect("no panic");
}

/// Second by second against a rate that changes every second, 0 to 30 Mbit/s, under overload: that of the data-mule
/// measurement in shape.
fn trace(sandbox: &Sandbox, lasts: Duration) {
    let rates: Vec<f64> = (0..lasts.as_secs())
        .map(|second| (15.0 + 15.0 * (second as f64 / 40.0 * std::f64::consts::TAU).cos()).max(0.5))
        .collect();
    let delay = Duration::from_millis(3);
    let first = PathConfig { rate_bps: Some(30_000_000), delay, queue: Queue::packets(256), ..PathConfig::default() };
    let bench = Bench::new(sandbox, first, false);
    let start = Instant::now() + Duration::from_millis(300);
    for (second, rate) in rates.iter().enumerate() {
        let bits = (rate * 1e6) as u64;
        let at = start + Duration::from_secs(second as u64);
        bench.world.change(bench.link, at, move |now, up, _| up.set_rate(now, Some(bits))).expect("an emulator");
    }
    let bins: Arc<Vec<AtomicU64>> = Arc::new((0..rates.len()).map(|_| AtomicU64::new(0)).collect());
    let counted = Arc::clone(&bins);
    let (stop, receiver) = bench.receiver(move |packet| {
        let since = Instant::now().checked_duration_since(start + delay);
        if let Some(bin) = since.and_then(|since| counted.get(since.as_secs() as usize)) {
            bin.fetch_add((packet.len() + HEADERS) as u64, Ordering::Relaxed);
        }
    });
    bench
        .send(start, start + lasts + Duration::from_millis(50), Some(60.0), Duration::from_millis(1))
        .join()
        .expect("no panic");
    let health = bench.world.health().expect("an emulator");
    stop.store(true, Ordering::Relaxed);
    receiver.join().expect("no panic");
    let errors: Vec<f64> =
        rates.iter().zip(&*bins).map(|(rate, bytes)| bytes.load(Ordering::Relaxed) as f64 * 8.0 / 1e6 - rate).collect();
    let total: f64 = rates.iter().sum();
    let mae: f64 = errors.iter().map(|error| error.abs()).sum();
    let worst = errors.iter().map(|error| error.abs()).fold(0.0, f64::max);
    println!(
        "trace, {} s: MAE {:.3} % of the mean, bias {:+.3} %, worst second {worst:.3} Mbit/s off",
        rates.len(),
        mae / total * 100.0,
        errors.iter().sum::<f64>() / total * 100.0
    );
    println!("    {health}");
}
