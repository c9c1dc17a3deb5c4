//! The two ends of a link in virtual time: sessions as they fly, with what is on their disks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aquila_proto::aerotp::RadioConfig;
use aquila_proto::cc::{CongestionConfig, EncoderRange};
use aquila_proto::identity::Identity;
use aquila_proto::quic::{MemoryTickets, QuicConfig, TicketStore};
use aquila_proto::session::BearerConfig;
use aquila_proto::video::{SendQueueConfig, VideoParity};
use aquila_proto::{BearerId, Session, SessionConfig, Side, Usage};

/// What an end is, through all its lives.
#[derive(Debug, Clone)]
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
    /// Bearers of the side that connects, at least one, and what each may be used for.
    pub bearers: Vec<Usage>,
    /// Radios, which both sides know of.
    pub radios: Vec<RadioConfig>,
    /// How video is repaired.
    pub parity: VideoParity,
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
    /// What the other side will know each bearer by.
    pub resumption: BTreeMap<BearerId, Vec<u8>>,
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
        Self { tickets, replay: None, resumption: BTreeMap::new() }
    }
}

/// A session's radios have the last numbers.
pub fn radio_id(number: usize) -> BearerId {
    BearerId::all().rev().nth(number).unwrap_or_default()
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
        let EndConfig { side, mtu, cameras, seed, encoder, congestion, bearers, radios, parity } = config;
        let (air, ground) = (Identity::from_seed([1; 32]), Identity::from_seed([2; 32]));
        let (identity, peer) = match side {
            Side::Air => (air, ground.public()),
            Side::Ground => (ground, air.public()),
        };
        let quic = QuicConfig {
            bearer: BearerId::FIRST,
            identity: Arc::new(identity),
            peer,
            mtu,
            tickets: stored.tickets.clone(),
            resumption: None,
            listen: side == Side::Ground,
        };
        let mut bytes = [side as u8 + 1; 32];
        bytes[..8].copy_from_slice(&seed.to_be_bytes());
        bytes[8..12].copy_from_slice(&life.to_be_bytes());
        let mut session = SessionConfig::new(side, quic, now, SINCE_1970 + elapsed, bytes);
        session.epoch = 1000 + u64::from(life);
        session.replay.clone_from(&stored.replay);
        let bearer = |(id, usage): (BearerId, Usage)| BearerConfig {
            name: format!("bearer-{id}"),
            usage,
            resumption: stored.resumption.get(&id).cloned(),
            radio: None,
        };
        session.bearers = BearerId::all().zip(bearers).map(bearer).collect();
        for (number, radio) in radios.into_iter().enumerate() {
            let id = radio_id(number);
            session.bearers.push(BearerConfig {
                name: format!("radio-{number}"),
                resumption: stored.resumption.get(&id).cloned(),
                radio: Some(RadioConfig { life: u64::from(life), ..radio }),
                ..BearerConfig::default()
            });
        }
        session.congestion = congestion;
        session.encoder = encoder;
        session.video_parity = parity;
        session.video = vec![SendQueueConfig::default(); cameras.max(1)];
        Ok(Self { session: Session::new(session)?, deadline: now, stored, life })
    }

    /// Stores what the session wants stored. Call after it was drained.
    pub fn store(&mut self) {
        if let Some(replay) = self.session.replay_snapshot() {
            self.stored.replay = Some(replay);
        }
        while let Some((bearer, resumption)) = self.session.resumption_snapshot() {
            self.stored.resumption.insert(bearer, resumption);
        }
    }

    /// Takes what is on its disk, for its next life. The tickets are both's: the present life may still use them.
    pub fn take_stored(&mut self) -> Stored {
        Stored {
            tickets: self.stored.tickets.clone(),
            replay: self.stored.replay.take(),
            resumption: std::mem::take(&mut self.stored.resumption),
        }
    }
}
