//! A controller that lets all pass over a link of 3 Mbit/s, but for what a test has it say.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use aquila_proto::cc::{Controller, Load, Radio, Reports};
use aquila_proto::{Bitrate, ByteCount};

/// What a test wants of it.
pub trait Script: Debug + Send {
    /// See [`Controller::on_radio`].
    fn on_radio(&mut self, _radio: &Radio) {}

    /// See [`Controller::may_encode`].
    fn may_encode(&self, _load: Load) -> bool {
        true
    }

    /// See [`Controller::patience`].
    fn patience(&self) -> Duration {
        Duration::ZERO
    }
}

/// The controller.
#[derive(Debug)]
pub struct Scripted<S>(pub S);

impl<S: Script> Controller for Scripted<S> {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn on_reports(&mut self, _: Instant, _: Reports<'_>) {}

    fn on_radio(&mut self, _: Instant, radio: &Radio) {
        self.0.on_radio(radio);
    }

    fn on_path_change(&mut self, _: Instant) {}

    fn window(&self, _: Instant) -> ByteCount {
        ByteCount(1 << 20)
    }

    fn pacing_rate(&self, _: Instant) -> Bitrate {
        Bitrate::mbps(100)
    }

    fn target_rate(&self) -> Bitrate {
        Bitrate::mbps(2)
    }

    fn may_encode(&self, _: Instant, load: Load) -> bool {
        self.0.may_encode(load)
    }

    fn patience(&self) -> Duration {
        self.0.patience()
    }

    fn capacity(&self) -> Bitrate {
        Bitrate::mbps(3)
    }

    fn queue_delay(&self) -> Duration {
        Duration::ZERO
    }
}
