//! What a link is like.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use toml::Spanned;

use super::{Rate, Share, Size, Time};

/// A link between the two nodes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkPlan {
    /// Its name; also that of the network interface, live.
    pub name: Spanned<String>,
    /// From the first node to the second.
    pub up: Option<PathPlan>,
    /// From the second to the first.
    pub down: Option<PathPlan>,
    /// Both, in place of `up` and `down`.
    pub both: Option<PathPlan>,
    /// Both directions share one channel and take turns, with this time in between.
    pub half_duplex: Option<Time>,
    /// Largest IP packet in bytes, live.
    #[serde(default = "ethernet")]
    pub mtu: u16,
}

/// One direction.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathPlan {
    /// Constant rate; without it and without a trace there is no limit.
    pub rate: Option<Rate>,
    /// A trace, in mahimahi's format or as CSV; the file is looked for beside the plan.
    pub trace: Option<Spanned<PathBuf>>,
    /// A made-up trace, another one with each seed.
    pub synth: Option<SynthPlan>,
    /// Where in the trace to begin.
    pub trace_from: Option<Time>,
    /// What loss a trace with a CCQ column means.
    pub ccq: Option<CcqPlan>,
    /// Propagation delay.
    #[serde(default)]
    pub delay: Time,
    /// Random addition to it: uniform from 0 to this, without reordering.
    pub jitter: Option<JitterPlan>,
    /// Packets arrive only once every so often: what is due in between arrives together at the next time.
    pub grants: Option<Time>,
    /// Of the packets of so long a time only the first arrives.
    pub thinned: Option<Time>,
    /// What may wait.
    pub queue: Option<QueuePlan>,
    /// Random loss in front of the queue, which costs the link nothing.
    pub loss: Option<LossPlan>,
    /// Random loss behind the bottleneck.
    pub air_loss: Option<LossPlan>,
    /// Share of the bits that are flipped.
    pub bit_errors: Option<Share>,
    /// Outages of this direction from a generator.
    pub handovers: Option<HandoverPlan>,
}

/// A made-up trace.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SynthPlan {
    /// Of this kind of link: `aquila lab trace synth --help` lists them.
    pub model: String,
    /// After this it begins again.
    #[serde(default = "an_hour")]
    pub length: Time,
}

/// What a column CCQ means: `{ loss = 1 }` or `{ mac-arq = 7 }`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum CcqPlan {
    /// loss = this factor × (1 − CCQ), as in the paper with 1.
    Loss(f64),
    /// The rate is multiplied by it, and lost is what fails after so many repetitions.
    MacArq(u8),
}

/// Jitter.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JitterPlan {
    /// Largest addition.
    pub up_to: Time,
    /// Whether packets may overtake each other.
    #[serde(default)]
    pub reorder: bool,
}

/// What may wait in front of the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueuePlan {
    /// At most this many bytes.
    pub bytes: Option<Size>,
    /// Or this many packets.
    pub packets: Option<usize>,
    /// Or what the link carries in this time.
    pub time: Option<Time>,
    /// CoDel (RFC 8289) instead of drop-tail.
    #[serde(default)]
    pub codel: bool,
    /// Packets that have waited longer than this are marked, if they are ECN-capable.
    pub mark_after: Option<Time>,
}

/// The bound of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Bytes.
    Bytes(usize),
    /// Packets.
    Packets(usize),
    /// Time.
    Time(Time),
}

/// Random loss: a share of the packets, or bursts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LossPlan {
    /// Independent.
    Independent(Share),
    /// Gilbert-Elliott.
    Bursts(BurstPlan),
}

impl<'de> Deserialize<'de> for LossPlan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = LossPlan;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a share such as 0.02, or { mean = 0.02, burst = 5 }")
            }
            fn visit_f64<E: Error>(self, share: f64) -> Result<LossPlan, E> {
                Share::deserialize(share.into_deserializer()).map(LossPlan::Independent)
            }
            fn visit_i64<E: Error>(self, share: i64) -> Result<LossPlan, E> {
                self.visit_f64(share as f64)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LossPlan, A::Error> {
                BurstPlan::deserialize(MapAccessDeserializer::new(map)).map(LossPlan::Bursts)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Loss in bursts.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BurstPlan {
    /// Share of the packets lost.
    pub mean: Share,
    /// Mean length of a burst in packets.
    pub burst: f64,
}

/// Handovers at random times.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoverPlan {
    /// How many a minute, on the average.
    pub per_minute: f64,
    /// How long each lasts.
    pub lasts: Time,
    /// From the end of each the delay differs from the plan's by up to this, to either side.
    pub delay_shift: Option<Time>,
}

/// What an outage does to packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutageKind {
    /// They are lost.
    #[default]
    Drop,
    /// They wait.
    Hold,
}

impl LinkPlan {
    /// The directions, from the first node and to it.
    pub fn paths(&self) -> [PathPlan; 2] {
        let of = |own: &Option<PathPlan>| own.clone().or_else(|| self.both.clone()).unwrap_or_default();
        [of(&self.up), of(&self.down)]
    }
}

impl QueuePlan {
    /// Its bound.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub fn bound(&self) -> Result<Bound, String> {
        match (self.bytes, self.packets, self.time) {
            (Some(bytes), None, None) => Ok(Bound::Bytes(bytes.bytes())),
            (None, Some(packets), None) => Ok(Bound::Packets(packets)),
            (None, None, Some(time)) => Ok(Bound::Time(time)),
            _ => Err("a queue is bounded by one of bytes, packets and time".into()),
        }
    }
}

fn an_hour() -> Time {
    "1 h".parse().expect("a time")
}

fn ethernet() -> u16 {
    1500
}
