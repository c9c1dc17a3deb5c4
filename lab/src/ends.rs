//! The two ends of a link in virtual time: sessions as they fly, with what is on their disks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aquila_proto::cc::{CongestionConfig, EncoderRange};
use aquila_proto::identity::Identity;
use aquila_proto::quic::{MemoryTickets, QuicConfig, TicketStore};
use aquila_proto::video::SendQueueConfig;
use aquila_proto::{Session, SessionConfig, Side};

/// What an end is, through all its lives.
#[derive(Debug, Clone, Copy)]
pub struct EndConfig {
    /// Which of the two.
    pub side: Side,
    /// UDP payload in bytes.
    pub mtu: u16,
    /// Flows of video, at least one.
    pub cameras: usize,
    /// Everything random, of both ends.
    pub seed: u64,
    /// Rates of the encoders.
    pub encoder: EncoderRange,
    /// Congestion control.
    pub congestion: CongestionConfig,
}

/// One end: a process that can die and be started anew.
#[derive(Debug)]
pub struct End {
    /// As it runs.
    pub session: Session,
    /// When it wants to be called.
    pub deadline: Instant,
    /// What it would find if it were started anew.
    pub stored: Stored,
    /// How often it was started.
    pub life: u32,
}

/// What is on an end's disk.
#[derive(Debug)]
pub struct Stored {
    /// Sessions that may be resumed.
    pub tickets: Arc<dyn TicketStore>,
    /// Which messages it has had.
    pub replay: Option<Vec<u8>>,
    /// What the other side will know it by.
    pub resumption: Option<Vec<u8>>,
}

impl Default for Stored {
    /// Nothing yet.
    fn default() -> Self {
        Self::with_tickets(Arc::new(MemoryTickets::default()))
    }
}

impl Stored {
    /// Nothing yet, and these tickets.
    pub fn with_tickets(tickets: Arc<dyn TicketStore>) -> Self {
        Self { tickets, replay: None, resumption: None }
    }
}

/// What the clocks of both ends show at the start.
const SINCE_1970: Duration = Duration::from_secs(1_790_000_000);

impl End {
    /// Starts an end for the `life`th time, `elapsed` after the start by its own clock.
    ///
    /// # Errors
    /// If the configuration is none.
    pub fn new(
        config: EndConfig,
        life: u32,
        stored: Stored,
        now: Instant,
        elapsed: Duration,
    ) -> Result<Self, rustls::Error> {
        let EndConfig { side, mtu, cameras, seed, encoder, congestion } = config;
        let (air, ground) = (Identity::from_seed([1; 32]), Identity::from_seed([2; 32]));
        let (identity, peer) = match side {
            Side::Air => (air, ground.public()),
            Side::Ground => (ground, air.public()),
        };
        let quic = QuicConfig {
            identity: Arc::new(identity),
            peer,
            mtu,
            tickets: stored.tickets.clone(),
            resumption: stored.resumption.clone(),
            listen: side == Side::Ground,
        };
        let mut bytes = [side as u8 + 1; 32];
        bytes[..8].copy_from_slice(&seed.to_be_bytes());
        bytes[8..12].copy_from_slice(&life.to_be_bytes());
        let mut session = SessionConfig::new(side, quic, now, SINCE_1970 + elapsed, bytes);
        session.epoch = 1000 + u64::from(life);
        session.replay.clone_from(&stored.replay);
        session.congestion = congestion;
        session.encoder = encoder;
        session.video = vec![SendQueueConfig::default(); cameras.max(1)];
        Ok(Self { session: Session::new(session)?, deadline: now, stored, life })
    }

    /// Stores what the session wants stored. Call after it was drained.
    pub fn store(&mut self) {
        if let Some(replay) = self.session.replay_snapshot() {
            self.stored.replay = Some(replay);
        }
        if let Some(resumption) = self.session.resumption_snapshot() {
            self.stored.resumption = Some(resumption);
        }
    }

    /// Takes what is on its disk, for its next life. The tickets are both's: the present life may still use them.
    pub fn take_stored(&mut self) -> Stored {
        Stored {
            tickets: self.stored.tickets.clone(),
            replay: self.stored.replay.take(),
            resumption: self.stored.resumption.take(),
        }
    }
}
