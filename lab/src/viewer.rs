//! What a viewer of a flow of video sees: a frame can be shown if it is there and all that it refers to were.

use std::ops::Range;
use std::time::Duration;

use crate::record::{Flow, Message};

/// The age of the picture is looked at this often.
const LOOK: Duration = Duration::from_millis(10);

/// A viewer of one flow in one run.
#[derive(Debug)]
pub struct Viewer {
    judged: Range<Duration>,
    /// Frames that were due in the judged time.
    pub due: usize,
    /// Of those, the ones that were not encoded.
    pub skipped: usize,
    /// Latency over propagation of those that were shown.
    pub shown: Vec<Duration>,
    /// (when, captured, propagation) of each picture that replaced an older one, in order of time.
    pictures: Vec<(Duration, Duration, Duration)>,
}

impl Viewer {
    /// The viewer of a flow. What was captured in `judged` counts.
    pub fn new(flow: &Flow, judged: &Range<Duration>) -> Self {
        let skipped = flow.skipped.iter().filter(|at| judged.contains(*at)).count();
        let sent = flow.messages.iter().filter(|frame| judged.contains(&frame.sent)).count();
        let mut viewer =
            Self { judged: judged.clone(), due: sent + skipped, skipped, shown: Vec::new(), pictures: Vec::new() };
        let mut broken = true;
        for frame in &flow.messages {
            let Message { sent, arrived, recovery, propagation, .. } = *frame;
            broken = arrived.is_none() || (broken && !recovery);
            let (Some(arrived), false) = (arrived, broken) else { continue };
            if judged.contains(&sent) {
                viewer.shown.push((arrived - sent).saturating_sub(propagation));
            }
            viewer.pictures.push((arrived, sent, propagation));
        }
        viewer.pictures.sort_unstable();
        let mut newest: Option<Duration> = None;
        viewer.pictures.retain(|(_, captured, _)| {
            let is_newer = newest.is_none_or(|newest| newest < *captured);
            newest = newest.max(Some(*captured));
            is_newer
        });
        viewer
    }

    /// Age of the picture on the screen over its propagation, every [`LOOK`].
    pub fn ages(&self) -> Vec<Duration> {
        let mut ages = Vec::new();
        let (mut next, mut shown) = (0, None);
        let mut at = self.judged.start;
        while at < self.judged.end {
            while let Some((_, captured, propagation)) = self.pictures.get(next).filter(|(arrived, ..)| *arrived <= at)
            {
                shown = Some(*captured + *propagation);
                next += 1;
            }
            // Before the first picture there is none to be old.
            ages.extend(shown.map(|shown| at.saturating_sub(shown)));
            at += LOOK;
        }
        ages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn frame(sent: u64, arrived: Option<u64>, recovery: bool) -> Message {
        let (bytes, times) = (1000, u32::from(arrived.is_some()));
        Message { sent: ms(sent), bytes, arrived: arrived.map(ms), times, recovery, propagation: ms(20) }
    }

    #[test]
    fn frames_behind_a_lost_one_are_not_shown_until_a_recovery_point_and_the_picture_ages_meanwhile() {
        let messages = vec![
            frame(0, Some(30), true),
            frame(33, None, false),
            frame(66, Some(100), false),
            frame(100, Some(140), true),
        ];
        let flow = Flow { name: "video".into(), direction: 0, messages, skipped: vec![ms(133)] };
        let viewer = Viewer::new(&flow, &(ms(0)..ms(200)));
        assert_eq!((viewer.due, viewer.skipped, viewer.shown.clone()), (5, 1, vec![ms(10), ms(20)]));
        let ages = viewer.ages();
        // The first picture at 30 ms; 110 ms later it is 140 - 0 - 20 old, and replaced.
        assert_eq!(ages.len(), 17);
        assert_eq!((ages[0], ages[10], ages[11], ages[16]), (ms(10), ms(110), ms(20), ms(70)));
    }
}
