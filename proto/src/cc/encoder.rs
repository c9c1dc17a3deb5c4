//! What an encoder can make.

use std::time::Duration;

use crate::Bitrate;

/// The rates that an encoder makes, R_min and R_max of [AQUILA eq. 7], and how it follows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EncoderRange {
    /// Below this it makes more than it is asked for; frames are left out instead.
    pub least: Bitrate,
    /// More is of no use.
    pub most: Bitrate,
    /// How the next frame follows another rate.
    pub response: Response,
    /// It makes a recovery point with each other rate that it is told. That is as large as several frames: what it is told is to last, not to
    /// work off a queue ([`Controller::lasting_rate`](super::Controller::lasting_rate)).
    pub rekeys: bool,
    /// If it does not ask before each frame: between two rates that it is told; and for as long frames had better not be encoded before it
    /// is told to pause.
    pub told_every: Duration,
}

/// How the next frame follows another rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Response {
    /// Share of a change that it is taken to follow, above 0, where more is wanted.
    pub rise: f64,
    /// Where less is, of what is beyond `slight`.
    pub fall: f64,
    /// A fall to no less than this share of what it makes is taken to be followed whole.
    pub slight: f64,
    /// No frame is wanted to have less than this share of the rate that lasts. An encoder that comes up slowly pays for one small frame with
    /// several, and works off more of a queue than there is.
    pub dip: f64,
}

impl Response {
    /// All of it, or it is not known.
    pub const AT_ONCE: Self = Self::both(1.0);

    /// The same both ways, however small a frame becomes.
    pub const fn both(share: f64) -> Self {
        Self { rise: share, fall: share, slight: 1.0, dip: 0.0 }
    }
}

impl Default for EncoderRange {
    /// 200 kbit/s to 20 Mbit/s, at once, told ten times a second.
    fn default() -> Self {
        let (least, most) = (Bitrate::kbps(200), Bitrate::mbps(20));
        Self { least, most, response: Response::AT_ONCE, rekeys: false, told_every: Duration::from_millis(100) }
    }
}

/// What to ask of an encoder that follows with a lag, so that the next frame has the size that is wanted.
#[derive(Debug, Clone, Copy)]
pub struct EncoderLag {
    range: EncoderRange,
    /// What it makes now, bit/s, if it has been asked for anything.
    makes: Option<f64>,
}

impl EncoderLag {
    /// Of an encoder that has not been asked for anything.
    pub fn new(range: EncoderRange) -> Self {
        Self { range, makes: None }
    }

    /// The rate to ask for if the next frame should have `wanted`. It counts as asked.
    pub fn ask(&mut self, wanted: Bitrate) -> Bitrate {
        let asked = self.answer(wanted);
        self.on_frame(asked);
        asked
    }

    /// The same, of which it is not known whether a frame will be made for it.
    pub fn answer(&self, wanted: Bitrate) -> Bitrate {
        let wanted = self.range.clamp(wanted);
        let (from, share) = self.followed(wanted);
        self.range.clamp(Bitrate((from + (wanted.0 as f64 - from) / share).max(0.0) as u64))
    }

    /// A frame was made, for this rate.
    pub fn on_frame(&mut self, asked: Bitrate) {
        let (from, share) = self.followed(asked);
        self.makes = Some(from + (asked.0 as f64 - from) * share);
    }

    /// From which rate on it follows one with the next frame by a share, and which; until there whole.
    fn followed(&self, rate: Bitrate) -> (f64, f64) {
        let Response { rise, fall, slight, .. } = self.range.response;
        let rate = rate.0 as f64;
        let makes = self.makes.unwrap_or(rate);
        let (from, share) = if rate > makes { (makes, rise) } else { (rate.max(makes * slight), fall) };
        (from, share.clamp(0.1, 1.0))
    }
}

impl EncoderRange {
    /// Of what the link takes with the next frame, and what it takes lastingly: what the next frame should have.
    pub fn wanted(&self, target: Bitrate, lasting: Bitrate) -> Bitrate {
        if self.rekeys { lasting } else { target.max(lasting * self.response.dip) }
    }

    /// The nearest rate that it can make.
    pub fn clamp(&self, rate: Bitrate) -> Bitrate {
        rate.min(self.most).max(self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lagging_encoder_is_asked_for_more_than_is_wanted_and_then_makes_it() {
        let range = EncoderRange { most: Bitrate::mbps(10), response: Response::both(0.5), ..EncoderRange::default() };
        let mut lag = EncoderLag::new(range);
        assert_eq!(lag.ask(Bitrate::mbps(4)), Bitrate::mbps(4), "nothing is known of it");
        assert_eq!(lag.ask(Bitrate::mbps(5)), Bitrate::mbps(6), "half of the way from 4 to 6");
        assert_eq!(lag.ask(Bitrate::mbps(5)), Bitrate::mbps(5));
        assert_eq!(lag.ask(Bitrate::mbps(2)), Bitrate::kbps(200), "no less than it can make, so it makes 2.6");
        assert_eq!(lag.ask(Bitrate::mbps(2)), Bitrate::kbps(1400));
        let mut exact = EncoderLag::new(EncoderRange { response: Response::AT_ONCE, ..range });
        assert_eq!([4, 9, 1].map(|mbps| exact.ask(Bitrate::mbps(mbps))), [4, 9, 1].map(Bitrate::mbps));
    }

    #[test]
    fn one_that_falls_slowly_only_where_it_has_far_to_fall_is_asked_for_less_only_there() {
        let response = Response { fall: 0.5, slight: 0.75, ..Response::AT_ONCE };
        let mut lag = EncoderLag::new(EncoderRange { most: Bitrate::mbps(10), response, ..EncoderRange::default() });
        let asked = [8, 7, 8, 6, 8, 5, 5].map(|mbps| lag.ask(Bitrate::mbps(mbps)));
        assert_eq!(asked, [8, 7, 8, 6, 8, 4, 5].map(Bitrate::mbps), "of 8 to 5 the part below 6 is followed by half");
    }

    #[test]
    fn a_queue_is_worked_off_by_no_deeper_a_dip_than_it_can_come_back_from() {
        let wanted = |range: EncoderRange, target| range.wanted(Bitrate::mbps(target), Bitrate::mbps(8));
        let range = EncoderRange { response: Response { dip: 0.25, ..Response::AT_ONCE }, ..EncoderRange::default() };
        assert_eq!([0, 1, 3, 9].map(|mbps| wanted(range, mbps)), [2, 2, 3, 9].map(Bitrate::mbps));
        assert_eq!(wanted(EncoderRange::default(), 0), Bitrate(0), "one that follows at once");
        assert_eq!(
            wanted(EncoderRange { rekeys: true, ..range }, 1),
            Bitrate::mbps(8),
            "each change is a recovery point"
        );
    }

    #[test]
    fn what_is_told_counts_once_a_frame_was_made_for_it() {
        let response = Response { rise: 0.5, ..Response::AT_ONCE };
        let mut lag = EncoderLag::new(EncoderRange { most: Bitrate::mbps(10), response, ..EncoderRange::default() });
        assert_eq!(lag.answer(Bitrate::mbps(4)), Bitrate::mbps(4), "nothing is known of it");
        lag.on_frame(Bitrate::mbps(4));
        let told = [5, 6, 5].map(|mbps| lag.answer(Bitrate::mbps(mbps)));
        assert_eq!(told, [6, 8, 6].map(Bitrate::mbps), "from where it was, however often it is told");
        lag.on_frame(told[2]);
        assert_eq!([5, 3].map(|mbps| lag.answer(Bitrate::mbps(mbps))), [5, 3].map(Bitrate::mbps), "it makes 5 now");
    }

    #[test]
    fn one_that_is_slow_up_only_is_asked_for_more_on_the_way_up_only() {
        let response = Response { rise: 0.5, ..Response::AT_ONCE };
        let mut lag = EncoderLag::new(EncoderRange { most: Bitrate::mbps(10), response, ..EncoderRange::default() });
        let asked = [4, 5, 3, 3, 4].map(|mbps| lag.ask(Bitrate::mbps(mbps)));
        assert_eq!(asked, [4, 6, 3, 3, 5].map(Bitrate::mbps));
    }
}
