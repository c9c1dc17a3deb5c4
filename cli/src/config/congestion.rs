//! Congestion control in the file: which controller, and a table for each with what it can be told. What a key means is said at
//! the field of the same name in `aquila_proto::cc`, and in `packaging/aquila.toml`.

use std::str::FromStr;
use std::time::Duration;

use aquila_proto::cc::{BorrowedConfig, CongestionConfig, DedicatedConfig, Fpv2Config, PaperConfig, ScreamConfig};
use aquila_proto::{Bitrate, ByteCount};
use serde::Deserialize;

use super::units::{Bytes, Count, Ratio, Speed, Text, Time};

/// `[congestion]`. The fields are its keys and sections.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Congestion {
    pub controller: Option<Text<ControllerName>>,
    pub fpv2: Fpv2,
    pub paper: Paper,
    pub scream: Scream,
    pub bbr: Borrowed,
    pub cubic: Borrowed,
    pub dedicated: Dedicated,
}

/// The name of a controller that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerName(&'static str);

impl FromStr for ControllerName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = CongestionConfig::NAMES.into_iter().find(|name| *name == text);
        let all = CongestionConfig::NAMES.join(", ");
        known.map(Self).ok_or_else(|| format!("'{text}' is no controller: there are {all}"))
    }
}

impl Congestion {
    /// What it means.
    pub fn resolve(&self) -> CongestionConfig {
        let named = self.controller.as_ref().and_then(|Text(name)| CongestionConfig::by_name(name.0));
        match named.unwrap_or_default() {
            CongestionConfig::Fpv2(defaults) => CongestionConfig::Fpv2(self.fpv2.over(defaults)),
            CongestionConfig::Paper(defaults) => CongestionConfig::Paper(self.paper.over(defaults)),
            CongestionConfig::PaperLiteral(defaults) => CongestionConfig::PaperLiteral(self.paper.over(defaults)),
            CongestionConfig::Scream(defaults) => CongestionConfig::Scream(self.scream.over(defaults)),
            CongestionConfig::Bbr(defaults) => CongestionConfig::Bbr(self.bbr.over(defaults)),
            CongestionConfig::Cubic(defaults) => CongestionConfig::Cubic(self.cubic.over(defaults)),
            CongestionConfig::Dedicated(defaults) => CongestionConfig::Dedicated(self.dedicated.over(defaults)),
        }
    }
}

/// A value as a controller wants it.
trait Value<T> {
    fn value(self) -> T;
}

impl<const MIN: u64, const MAX: u64> Value<Duration> for Time<MIN, MAX> {
    fn value(self) -> Duration {
        self.get()
    }
}

impl<const MIN: u64, const MAX: u64> Value<ByteCount> for Bytes<MIN, MAX> {
    fn value(self) -> ByteCount {
        self.get()
    }
}

impl<const MIN: u64, const MAX: u64> Value<usize> for Count<MIN, MAX> {
    fn value(self) -> usize {
        self.get()
    }
}

impl<const MIN: u64, const MAX: u64> Value<f64> for Ratio<MIN, MAX> {
    fn value(self) -> f64 {
        self.get()
    }
}

impl<const MIN: u64, const MAX: u64> Value<Bitrate> for Speed<MIN, MAX> {
    fn value(self) -> Bitrate {
        self.get()
    }
}

impl Value<bool> for bool {
    fn value(self) -> bool {
        self
    }
}

/// A section of optional keys over a controller's parameters of the same names.
macro_rules! section {
    ($name:ident over $target:ident { $($key:ident: $kind:ty,)* }) => {
        #[derive(Debug, Clone, PartialEq, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $(pub $key: Option<$kind>,)*
        }

        impl $name {
            fn over(&self, mut parameters: $target) -> $target {
                $(
                    if let Some(given) = self.$key {
                        parameters.$key = given.value();
                    }
                )*
                parameters
            }
        }
    };
}

section!(Fpv2 over Fpv2Config {
    initial: Speed<50_000, 100_000_000>,
    utilisation: Ratio<100, 1_000>,
    horizon: Time<10, 1_000>,
    pacing_gain: Ratio<1_000, 10_000>,
    pacing_gain_varying: Ratio<1_000, 10_000>,
    slack: Time<5, 1_000>,
    reserve: Speed<0, 10_000_000>,
    skip_above: Time<5, 1_000>,
});

section!(Paper over PaperConfig {
    w: Time<100, 600_000>,
    d_base: Time<1, 5_000>,
    kappa: Ratio<0, 10_000>,
    beta: Ratio<0, 1_000>,
    gamma: Ratio<10, 2_000>,
    r_safe: Speed<0, 10_000_000>,
    initial_window: Count<2, 1_000>,
    rtt_gain: Ratio<1, 1_000>,
    min_window: Count<1, 1_000>,
    max_window: Bytes<12_400, 67_108_864>,
    mss: Bytes<500, 9_000>,
    initial_rtt: Time<1, 10_000>,
});

section!(Scream over ScreamConfig {
    qdelay_target_lo: Time<5, 1_000>,
    min_ref_wnd: Bytes<1_200, 1_000_000>,
    bytes_in_flight_head_room: Ratio<1_000, 10_000>,
    beta_loss: Ratio<100, 1_000>,
    beta_ecn: Ratio<100, 1_000>,
    is_l4s: bool,
    l4s_avg_g_up: Ratio<1, 1_000>,
    l4s_avg_g_down: Ratio<1, 1_000>,
    mss: Bytes<500, 9_000>,
    post_congestion_delay_rtt: Ratio<1_000, 10_000_000>,
    mul_increase_factor: Ratio<0, 1_000>,
    virtual_rtt: Time<1, 1_000>,
    qdelay_avg_g: Ratio<1, 1_000>,
    qdelay_dev_norm: Time<1, 1_000>,
    qdelay_dev_avg_g: Ratio<1, 1_000>,
    min_queue_delay_dev_scale: Ratio<0, 1_000>,
    ref_wnd_overhead_min: Ratio<1_000, 10_000>,
    ref_wnd_overhead_max: Ratio<1_000, 10_000>,
    rate_pace_min: Speed<10_000, 10_000_000>,
    packet_pacing_headroom: Ratio<1_000, 10_000>,
    max_relaxed_pacing_factor: Ratio<1_000, 10_000>,
    relaxed_pacing_limit_low: Ratio<0, 999>,
    rate_adjust_gain: Ratio<0, 1_000>,
    packet_overhead: Bytes<0, 200>,
});

section!(Borrowed over BorrowedConfig {
    initial_window: Bytes<2_400, 10_000_000>,
    gamma: Ratio<10, 2_000>,
});

section!(Dedicated over DedicatedConfig {
    initial: Speed<50_000, 100_000_000>,
    queue: Time<1, 1_000>,
    pacing_gain: Ratio<1_000, 10_000>,
    probe_every: Time<1, 1_000>,
});
