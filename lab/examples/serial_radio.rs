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
use std::io::{BufRead, Write};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use aquila_emu::{Direction, SerialRadio, SerialRadioConfig};
use aquila_lab::serial_pty::RadioPair;

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let Options { config, seed, links } = Options::parse(std::env::args().skip(1))?;
    let mut pair = RadioPair::open(config, seed)?;
    for (link, device) in links.iter().zip(pair.devices()) {
        let _ = fs::remove_file(link);
        symlink(device, link)?;
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
    loop {
        while let Ok(command) = commands.try_recv() {
            println!("{}", obey(pair.radio(), &command));
            std::io::stdout().flush()?;
        }
        pair.turn()?;
    }
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
