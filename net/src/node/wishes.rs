//! What the link wants of the camera: the newest of it, however slowly that is heard.

use aquila_proto::Bitrate;

use crate::video::MAX_FLOWS;

/// What the link wants of the camera now. It goes through a [`watch`](tokio::sync::watch) channel: who is slow to listen misses what was
/// overtaken meanwhile, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CameraWishes {
    /// To make this much, over all flows; `None` until that is known.
    pub rate: Option<CameraRate>,
    /// To encode nothing while it is set, see [`Event::Hold`](aquila_proto::Event::Hold).
    pub hold: bool,
    /// Recovery points that were asked for so far, by flow.
    recovery_points: [u32; MAX_FLOWS as usize],
}

/// What the camera should make; see [`Event::TargetRate`](aquila_proto::Event::TargetRate).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CameraRate {
    /// What to tell an encoder that is told often.
    pub asked: Bitrate,
    /// What its pictures' size is to be for.
    pub lasting: Bitrate,
    /// What to tell one that is told seldom.
    pub seldom: Bitrate,
}

impl From<CameraRate> for CameraWishes {
    /// That rate, and nothing else.
    fn from(rate: CameraRate) -> Self {
        Self { rate: Some(rate), ..Self::default() }
    }
}

impl CameraWishes {
    /// Asks for a recovery point of this flow.
    pub fn ask_recovery_point(&mut self, flow: u8) {
        if let Some(count) = self.recovery_points.get_mut(usize::from(flow)) {
            *count = count.wrapping_add(1);
        }
    }

    /// Flows that were asked for a recovery point since these were heard.
    pub fn recovery_points_since(&self, heard: &Self) -> impl Iterator<Item = u8> {
        let counts = self.recovery_points.into_iter().zip(heard.recovery_points);
        (0..).zip(counts).filter(|(_, (now, then))| now != then).map(|(flow, _)| flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_point_is_asked_for_until_it_is_heard_of() {
        let mut wishes = CameraWishes::default();
        let heard = wishes;
        for flow in [3, 0, 3, MAX_FLOWS] {
            wishes.ask_recovery_point(flow);
        }
        assert_eq!(wishes.recovery_points_since(&heard).collect::<Vec<_>>(), [0, 3]);
        let heard = wishes;
        assert_eq!(wishes.recovery_points_since(&heard).count(), 0);
        wishes.ask_recovery_point(0);
        assert_eq!(wishes.recovery_points_since(&heard).collect::<Vec<_>>(), [0]);
    }
}
