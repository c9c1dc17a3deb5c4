//! A pair of serial radios in real time, each on a pseudo-terminal that a program opens as it would a radio's device.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aquila_emu::{Direction, SerialRadio, SerialRadioConfig};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::openpty;
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};

/// At least this long between two looks at the radios, and at most.
const LOOK: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_millis(20);

/// The radios and their terminals.
#[derive(Debug)]
pub struct RadioPair {
    radio: SerialRadio,
    hosts: [Host; 2],
    bytes: Vec<u8>,
}

impl RadioPair {
    /// Two radios whose luck follows from `seed`.
    ///
    /// # Errors
    /// If there is no pseudo-terminal to be had.
    pub fn open(config: SerialRadioConfig, seed: u64) -> io::Result<Self> {
        Ok(Self { radio: SerialRadio::new(config, seed), hosts: [Host::open()?, Host::open()?], bytes: Vec::new() })
    }

    /// The devices: the one that sends up, and the one that sends down.
    pub fn devices(&self) -> [&Path; 2] {
        [0, 1].map(|at| self.hosts[at].device.as_path())
    }

    /// The radios, to look at and to change.
    pub fn radio(&mut self) -> &mut SerialRadio {
        &mut self.radio
    }

    /// Carries what there is, then waits until there is more, 20 ms at most.
    ///
    /// # Errors
    /// If the terminals cannot be waited for.
    pub fn turn(&mut self) -> io::Result<()> {
        let now = Instant::now();
        for (host, direction) in self.hosts.iter_mut().zip([Direction::Up, Direction::Down]) {
            host.fill();
            let taken = self.radio.write(now, direction, &host.written);
            host.written.drain(..taken);
            let other = if direction == Direction::Up { Direction::Down } else { Direction::Up };
            self.bytes.clear();
            self.radio.read(now, other, &mut self.bytes);
            host.hand_over(&self.bytes);
        }
        let due = self.radio.next_deadline().map(|due| due.saturating_duration_since(Instant::now()));
        self.wait(due.unwrap_or(*LOOK.end()).clamp(*LOOK.start(), *LOOK.end()))
    }

    fn wait(&self, time: Duration) -> io::Result<()> {
        let idle = self.hosts.iter().filter(|host| host.written.is_empty());
        let mut watched: Vec<PollFd<'_>> =
            idle.map(|host| PollFd::new(host.master.as_fd(), PollFlags::POLLIN)).collect();
        match poll(&mut watched, PollTimeout::try_from(time).unwrap_or(PollTimeout::ZERO)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// One host's end: a pseudo-terminal of which the host has the other side.
#[derive(Debug)]
struct Host {
    device: PathBuf,
    master: File,
    /// Kept open, so that the host may come and go.
    _slave: OwnedFd,
    written: Vec<u8>,
}

impl Host {
    fn open() -> io::Result<Self> {
        let pair = openpty(None, None)?;
        let mut mode = tcgetattr(&pair.slave)?;
        cfmakeraw(&mut mode);
        tcsetattr(&pair.slave, SetArg::TCSANOW, &mode)?;
        let device = fs::read_link(format!("/proc/self/fd/{}", pair.slave.as_raw_fd()))?;
        let flags = OFlag::from_bits_truncate(fcntl(&pair.master, FcntlArg::F_GETFL)?);
        fcntl(&pair.master, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        Ok(Self { device, master: pair.master.into(), _slave: pair.slave, written: Vec::new() })
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

    /// A host that does not read loses what does not fit the terminal.
    fn hand_over(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            let _ = self.master.write(bytes);
        }
    }
}
