//! Puts the simulated aircraft on a UDP socket, in real time, for a ground station to connect to.
//!
//! `cargo run -p aquila-lab --example aircraft_udp -- [copter|plane] [listen] [send-to]`, by default
//! `copter 127.0.0.1:14560 127.0.0.1:14550`: it sends to QGroundControl's port, and then to whoever has spoken to it last.

use std::error::Error;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use aquila_lab::aircraft::{Aircraft, AircraftConfig, Kind};

/// A socket's timeout must not be zero.
const SHORTEST_WAIT: Duration = Duration::from_micros(100);

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |n: usize, default: &str| args.get(n).map_or(default, String::as_str).to_owned();
    let kind = match arg(0, "copter").as_str() {
        "copter" => Kind::Copter,
        "plane" => Kind::Plane,
        other => return Err(format!("neither copter nor plane: {other}").into()),
    };
    let socket = UdpSocket::bind(arg(1, "127.0.0.1:14560"))?;
    let mut peer: SocketAddr = arg(2, "127.0.0.1:14550").parse()?;
    eprintln!("{kind:?} on {}, sending to {peer}", socket.local_addr()?);

    let mut aircraft = Aircraft::new(AircraftConfig { kind, ..AircraftConfig::default() }, Instant::now());
    let mut buffer = [0; 65_536];
    loop {
        while let Some(frame) = aircraft.poll_frame(Instant::now()) {
            // Nobody may be listening yet.
            let _ = socket.send_to(&frame, peer);
        }
        let wait = aircraft.next_deadline().saturating_duration_since(Instant::now());
        socket.set_read_timeout(Some(wait.max(SHORTEST_WAIT)))?;
        match socket.recv_from(&mut buffer) {
            Ok((len, from)) => {
                peer = from;
                aircraft.handle_frame(Instant::now(), &buffer[..len]);
            }
            // A timeout, or the word that nobody listens.
            Err(e)
                if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ConnectionRefused) => {}
            Err(e) => return Err(e.into()),
        }
    }
}
