//! A pair of serial telemetry radios in real time, each on a pseudo-terminal.
//!
//! ```text
//! cargo run --release -p aquila-lab --example serial_radio -- --air /tmp/air --ground /tmp/ground --bit-errors 1e-5
//! aquila air --radio /tmp/air:57600 ...
//! aquila ground --radio /tmp/ground:57600 ...
//! ```
//!
//! Options: `--baud`, `--air-rate` (bit/s), `--loss` and `--bit-errors` (shares), `--duty-cycle` (share), `--turn-around` (ms),
//! `--buffer` (bytes), `--no-status` (no RADIO_STATUS), `--seed`. It prints `ready` when both are there, then takes one command a line
//! on standard input and answers each: `errors BITS LOSS`, `stats`.

use std::error::Error;
use std::fs;
use std::io::{BufRead, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use aquila_emu::{Direction, SerialRadio, SerialRadioConfig};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::openpty;
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let Options { config, seed, links } = Options::parse(std::env::args().skip(1))?;
    let mut hosts = Vec::new();
    for link in &links {
        hosts.push(Host::open(link)?);
    }
    let (lines, commands) = mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                break;
            }
        }
    });
    println!("ready");
    std::io::stdout().flush()?;
    let mut radio = SerialRadio::new(config, seed);
    let mut bytes = Vec::new();
    loop {
        while let Ok(command) = commands.try_recv() {
            println!("{}", obey(&mut radio, &command));
            std::io::stdout().flush()?;
        }
        let now = Instant::now();
        for (host, direction) in hosts.iter_mut().zip([Direction::Up, Direction::Down]) {
            host.fill();
            let taken = radio.write(now, direction, &host.written);
            host.written.drain(..taken);
            let other = if direction == Direction::Up { Direction::Down } else { Direction::Up };
            bytes.clear();
            radio.read(now, other, &mut bytes);
            host.hand_over(&bytes);
        }
        let wait = radio
            .next_deadline()
            .map_or(Duration::from_millis(20), |due| due.saturating_duration_since(Instant::now()));
        wait_for(&hosts, wait.clamp(Duration::from_millis(1), Duration::from_millis(20)))?;
    }
}

/// One host's end: a pseudo-terminal of which the host has the other side.
struct Host {
    master: fs::File,
    /// Kept open, so that the host may come and go.
    _slave: OwnedFd,
    written: Vec<u8>,
    /// For a host that does not read.
    dropped: u64,
}

impl Host {
    fn open(link: &PathBuf) -> Result<Self, Failure> {
        let pair = openpty(None, None)?;
        let mut mode = tcgetattr(&pair.slave)?;
        cfmakeraw(&mut mode);
        tcsetattr(&pair.slave, SetArg::TCSANOW, &mode)?;
        let name = fs::read_link(format!("/proc/self/fd/{}", pair.slave.as_raw_fd()))?;
        let _ = fs::remove_file(link);
        symlink(name, link)?;
        let flags = OFlag::from_bits_truncate(fcntl(&pair.master, FcntlArg::F_GETFL)?);
        fcntl(&pair.master, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        Ok(Self { master: pair.master.into(), _slave: pair.slave, written: Vec::new(), dropped: 0 })
    }

    /// Takes what the host has written, if what it wrote before is with the radio.
    fn fill(&mut self) {
        let mut buffer = [0; 1024];
        if self.written.is_empty()
            && let Ok(len) = self.master.read(&mut buffer)
        {
            self.written.extend_from_slice(&buffer[..len]);
        }
    }

    fn hand_over(&mut self, bytes: &[u8]) {
        let taken = if bytes.is_empty() { 0 } else { self.master.write(bytes).unwrap_or(0) };
        self.dropped += (bytes.len() - taken) as u64;
    }
}

fn wait_for(hosts: &[Host], time: Duration) -> Result<(), Failure> {
    let mut watched: Vec<PollFd<'_>> = hosts
        .iter()
        .filter(|host| host.written.is_empty())
        .map(|host| PollFd::new(host.master.as_fd(), PollFlags::POLLIN))
        .collect();
    poll(&mut watched, PollTimeout::try_from(time)?)?;
    Ok(())
}

fn obey(radio: &mut SerialRadio, command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words[..] {
        ["errors", bits, loss] => match (bits.parse(), loss.parse()) {
            (Ok(bits), Ok(loss)) => {
                radio.set_errors(Instant::now(), bits, loss);
                "ok".to_owned()
            }
            _ => "error: errors BITS LOSS, both shares".to_owned(),
        },
        ["stats"] => {
            let [up, down] = [Direction::Up, Direction::Down].map(|direction| radio.tally(direction));
            format!("up {up:?} down {down:?}")
        }
        _ => "error: there are errors and stats".to_owned(),
    }
}

/// What the command line says.
struct Options {
    config: SerialRadioConfig,
    seed: u64,
    links: [PathBuf; 2],
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut config = SerialRadioConfig { status: Some(Duration::from_secs(1)), ..SerialRadioConfig::default() };
        let (mut seed, mut air, mut ground) = (1, None, None);
        while let Some(argument) = arguments.next() {
            if argument == "--no-status" {
                config.status = None;
                continue;
            }
            let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
            match argument.as_str() {
                "--air" => air = Some(PathBuf::from(value)),
                "--ground" => ground = Some(PathBuf::from(value)),
                "--baud" => config.baud = value.parse()?,
                "--air-rate" => config.air_bps = value.parse()?,
                "--loss" => config.loss = value.parse()?,
                "--bit-errors" => config.bit_errors = value.parse()?,
                "--duty-cycle" => config.duty_cycle = value.parse()?,
                "--turn-around" => config.turn_around = Duration::from_millis(value.parse()?),
                "--buffer" => config.buffer = value.parse()?,
                "--seed" => seed = value.parse()?,
                _ => {
                    return Err(
                        format!("{argument} is no option; the text at the top of this program names them").into()
                    );
                }
            }
        }
        let links = [air.ok_or("--air PATH is missing")?, ground.ok_or("--ground PATH is missing")?];
        Ok(Self { config, seed, links })
    }
}
