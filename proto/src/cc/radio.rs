//! What is known beside the packets: the radio's state, and how high the aircraft flies.

/// What is known of the radio and of the flight; what is not known is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Radio {
    /// Height above home, metres (GLOBAL_POSITION_INT.relative_alt).
    pub altitude_m: Option<f32>,
    /// The serving cell; any number that is another in another cell.
    pub cell: Option<u64>,
    /// Reference signal received power, dBm (3GPP TS 36.214 §5.1.1).
    pub rsrp_dbm: Option<f32>,
    /// Reference signal received quality, dB (§5.1.3).
    pub rsrq_db: Option<f32>,
    /// Signal to interference and noise, dB.
    pub sinr_db: Option<f32>,
}

impl Radio {
    /// What `news` knows, and otherwise what was known.
    #[must_use]
    pub fn updated(&self, news: &Self) -> Self {
        Self {
            altitude_m: news.altitude_m.or(self.altitude_m),
            cell: news.cell.or(self.cell),
            rsrp_dbm: news.rsrp_dbm.or(self.rsrp_dbm),
            rsrq_db: news.rsrq_db.or(self.rsrq_db),
            sinr_db: news.sinr_db.or(self.sinr_db),
        }
    }
}
