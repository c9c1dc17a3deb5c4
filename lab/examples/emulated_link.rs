//! An emulated link in real time: a UDP relay between the air side and the ground side.
//!
//! ```text
//! cargo run --release -p aquila-lab --example emulated_link -- --listen 127.0.0.1:9401 --to 127.0.0.1:9400 \
//!     --up-rate 4M --down-rate 4M --delay 30 --loss 2 --queue 60000
//! aquila air --connect 127.0.0.1:9401 ...
//! ```
//!
//! What comes to `--listen` goes up to `--to`, and the answers go down to whoever was heard last. It prints where it
//! listens, then takes one command a line on standard input and answers each with a line, `ok` if there is nothing to say:
//!
//! | command | what happens |
//! |---|---|
//! | `outage begin [hold]` | nothing gets through; with `hold` it waits in the queues, as in an LTE handover |
//! | `outage end` | |
//! | `address` | the air side's address changes as the ground sees it; what is under way to the old one is lost |
//! | `rate up\|down 2M\|none` | bits per second |
//! | `delay 30` | milliseconds, each way |
//! | `loss 2` | per cent, each way |
//! | `stats` | a line of JSON: packets and bytes in and out, and packets lost by reason, each way |

use std::error::Error;
use std::io::BufRead;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use aquila_emu::{Change, Direction, Link, Loss, Outage, PathConfig, PathStats, Profile, Queue};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

/// Bytes that IPv4 and UDP put around a payload.
const IP_UDP: usize = 28;
/// No datagram on the link is larger.
const BUFFER: usize = 65_536;
/// Packets read at once before those that are due are sent.
const BURST: usize = 64;
const DIRECTIONS: [Direction; 2] = [Direction::Up, Direction::Down];

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let options = Options::parse(std::env::args().skip(1))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (lines, commands) = mpsc::channel(16);
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if lines.blocking_send(line).is_err() {
                    break;
                }
            }
        });
        Relay::new(options).await?.run(commands).await
    })
}

/// What the command line says.
struct Options {
    listen: SocketAddr,
    to: SocketAddr,
    profile: Profile,
    seed: u64,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let (mut listen, mut to, mut seed) = (None, None, 1);
        let (mut up, mut down) = (PathConfig::default(), PathConfig::default());
        while let Some(option) = args.next() {
            let value = args.next().ok_or_else(|| format!("{option} needs a value"))?;
            match option.as_str() {
                "--listen" => listen = Some(value.parse()?),
                "--to" => to = Some(value.parse()?),
                "--seed" => seed = value.parse()?,
                "--up-rate" => up.rate_bps = rate(&value)?,
                "--down-rate" => down.rate_bps = rate(&value)?,
                "--delay" => (up.delay, down.delay) = (millis(&value)?, millis(&value)?),
                "--loss" => {
                    up.loss = Loss::Independent(percent(&value)?);
                    down.loss = up.loss;
                }
                "--queue" => {
                    up.queue = Queue::bytes(value.parse()?);
                    down.queue = up.queue;
                }
                _ => return Err(format!("there is no option {option}").into()),
            }
        }
        Ok(Self {
            listen: listen.ok_or("--listen ADDRESS:PORT is missing")?,
            to: to.ok_or("--to ADDRESS:PORT is missing")?,
            profile: Profile {
                name: "relay",
                summary: "as the command line says",
                up,
                down,
                cycle: Duration::ZERO,
                steps: Vec::new(),
            },
            seed,
        })
    }
}

struct Relay {
    /// Plays the ground side towards the air side.
    towards_air: UdpSocket,
    /// Plays the air side towards the ground side; replaced when its address changes.
    towards_ground: UdpSocket,
    ground: SocketAddr,
    air: Option<SocketAddr>,
    link: Link<Vec<u8>>,
}

impl Relay {
    async fn new(options: Options) -> Result<Self, Failure> {
        Ok(Self {
            towards_air: UdpSocket::bind(options.listen).await?,
            towards_ground: any_port(options.to).await?,
            ground: options.to,
            air: None,
            link: Link::new(&options.profile, options.seed, Instant::now()),
        })
    }

    /// Relays until standard input ends.
    async fn run(mut self, mut commands: mpsc::Receiver<String>) -> Result<(), Failure> {
        println!("listening on {}", self.towards_air.local_addr()?);
        let mut buffer = vec![0; BUFFER];
        loop {
            let idle = Instant::now() + Duration::from_secs(1);
            let deadline = self.link.next_deadline().unwrap_or(idle);
            // An error of a socket is about something sent earlier: nobody listens there now.
            tokio::select! {
                command = commands.recv() => {
                    let Some(command) = command else { return Ok(()) };
                    match self.obey(&command).await {
                        Ok(answer) => println!("{answer}"),
                        Err(error) => println!("error: {error}"),
                    }
                }
                _ = self.towards_air.readable() => self.take_up(&mut buffer),
                _ = self.towards_ground.readable() => self.take_down(&mut buffer),
                () = tokio::time::sleep_until(deadline.into()) => {}
            }
            self.hand_out().await;
        }
    }

    fn take_up(&mut self, buffer: &mut [u8]) {
        for _ in 0..BURST {
            let Ok((len, from)) = self.towards_air.try_recv_from(buffer) else { break };
            self.air = Some(from);
            // A full queue or bad luck: what a link does.
            let _ = self.link.up.push(Instant::now(), len + IP_UDP, buffer[..len].to_vec());
        }
    }

    fn take_down(&mut self, buffer: &mut [u8]) {
        for _ in 0..BURST {
            let Ok((len, _)) = self.towards_ground.try_recv_from(buffer) else { break };
            let _ = self.link.down.push(Instant::now(), len + IP_UDP, buffer[..len].to_vec());
        }
    }

    async fn hand_out(&mut self) {
        let now = Instant::now();
        while let Some(packet) = self.link.up.pop(now) {
            let _ = self.towards_ground.send_to(&packet, self.ground).await;
        }
        while let Some(packet) = self.link.down.pop(now) {
            if let Some(air) = self.air {
                let _ = self.towards_air.send_to(&packet, air).await;
            }
        }
    }

    async fn obey(&mut self, command: &str) -> Result<String, Failure> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let changes = match words[..] {
            ["outage", "begin"] => vec![Change::OutageBegin(Outage::Drop)],
            ["outage", "begin", "hold"] => vec![Change::OutageBegin(Outage::Hold)],
            ["outage", "end"] => vec![Change::OutageEnd],
            ["address"] => {
                self.towards_ground = any_port(self.ground).await?;
                Vec::new()
            }
            ["rate", "up", value] => vec![Change::Rate(Direction::Up, rate(value)?)],
            ["rate", "down", value] => vec![Change::Rate(Direction::Down, rate(value)?)],
            ["delay", value] => {
                let delay = millis(value)?;
                DIRECTIONS.map(|direction| Change::Delay(direction, delay)).to_vec()
            }
            ["loss", value] => {
                let loss = percent(value)?;
                DIRECTIONS.map(|direction| Change::Loss(direction, loss)).to_vec()
            }
            ["stats"] => {
                let (up, down) = (describe(self.link.up.stats()), describe(self.link.down.stats()));
                return Ok(format!(r#"{{"up": {up}, "down": {down}}}"#));
            }
            _ => return Err(format!("what is '{command}'?").into()),
        };
        for change in changes {
            change.apply(Instant::now(), &mut self.link.up, &mut self.link.down);
        }
        Ok("ok".to_owned())
    }
}

async fn any_port(towards: SocketAddr) -> std::io::Result<UdpSocket> {
    let any = if towards.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    UdpSocket::bind(any).await
}

fn describe(stats: PathStats) -> String {
    let PathStats { input, output, dropped, .. } = stats;
    format!(
        r#"{{"packets_in": {}, "bytes_in": {}, "packets_out": {}, "bytes_out": {}, "loss": {}, "queue_full": {}, "outage": {}}}"#,
        input.packets,
        input.bytes,
        output.packets,
        output.bytes,
        dropped.loss.packets,
        dropped.queue_full.packets,
        dropped.outage.packets,
    )
}

/// Bits per second: `2500000`, `2.5M`, `500k`, `none`.
fn rate(text: &str) -> Result<Option<u64>, Failure> {
    if text == "none" {
        return Ok(None);
    }
    let (digits, unit) = match text.strip_suffix('M') {
        Some(digits) => (digits, 1e6),
        None => text.strip_suffix('k').map_or((text, 1.0), |digits| (digits, 1e3)),
    };
    Ok(Some((digits.parse::<f64>()? * unit) as u64))
}

fn millis(text: &str) -> Result<Duration, Failure> {
    Ok(Duration::try_from_secs_f64(text.parse::<f64>()? / 1e3)?)
}

fn percent(text: &str) -> Result<f64, Failure> {
    Ok(text.parse::<f64>()? / 100.0)
}
