//! All emulated links together: what physics allows over the best of them.

use std::time::{Duration, Instant};

use aquila_emu::{Change, Profile};
use aquila_proto::Side;

use super::relay::LinkView;

/// Each further link takes this much longer one way than the one before.
const FURTHER: Duration = Duration::from_millis(20);

/// Begin of an interruption, and its end if it has ended.
type Interruption = (Instant, Option<Instant>);

/// What has happened to each link, and when there was none at all.
#[derive(Debug, Clone, Default)]
pub struct Links {
    views: Vec<LinkView>,
    /// The times at which no link was there, as the outages of one link.
    none_there: LinkView,
}

impl From<LinkView> for Links {
    fn from(view: LinkView) -> Self {
        Self::new(vec![view])
    }
}

impl Links {
    /// Of these links.
    pub fn new(views: Vec<LinkView>) -> Self {
        let outages = match &views[..] {
            [only] => only.outages.clone(),
            _ => {
                views.iter().map(LinkView::interruptions).reduce(|all, other| common(&all, &other)).unwrap_or_default()
            }
        };
        Self { views, none_there: LinkView { outages, ..LinkView::default() } }
    }

    /// Each link.
    pub fn views(&self) -> &[LinkView] {
        &self.views
    }

    /// The times at which no link was there.
    pub fn none_there(&self) -> &LinkView {
        &self.none_there
    }

    /// Without the one of this number.
    pub fn without(&self, number: usize) -> Self {
        let others = self.views.iter().enumerate().filter(|(other, _)| *other != number);
        Self::new(others.map(|(_, view)| view.clone()).collect())
    }

    /// Shortest propagation delay of what a side sent and could leave at `at`.
    pub fn propagation(&self, from: Side, at: Instant) -> Duration {
        self.views.iter().map(|view| view.propagation(from, at)).min().unwrap_or_default()
    }

    /// Shortest way there and back, without anything in a queue.
    pub fn round_trip(&self, at: Instant) -> Duration {
        let round_trip = |view: &LinkView| view.propagation(Side::Air, at) + view.propagation(Side::Ground, at);
        self.views.iter().map(round_trip).min().unwrap_or_default()
    }

    /// When something sent at `sent` could arrive at the earliest, by whichever link.
    pub fn earliest(&self, from: Side, sent: Instant) -> Instant {
        let known = self.views.iter().filter_map(|view| view.earliest(from, sent)).min();
        known.unwrap_or_else(|| sent + self.propagation(from, sent))
    }

    /// The time that something sent at `sent` and arrived at `arrived` took beyond what the links themselves take.
    pub fn over_propagation(&self, from: Side, sent: Instant, arrived: Instant) -> Duration {
        arrived.saturating_duration_since(self.earliest(from, sent))
    }
}

/// The link of a further bearer: the same troubles, but a longer way.
pub fn further(mut profile: Profile, number: u32) -> Profile {
    let more = FURTHER * number;
    profile.up.delay += more;
    profile.down.delay += more;
    for step in &mut profile.steps {
        if let Change::Delay(_, delay) = &mut step.change {
            *delay += more;
        }
    }
    profile
}

/// When both of two links were interrupted. Both lists are in order of time and without overlaps; so is the result.
fn common(one: &[Interruption], other: &[Interruption]) -> Vec<Interruption> {
    let earlier_end = |a: Option<Instant>, b: Option<Instant>| match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    let pairs = one.iter().flat_map(|a| other.iter().map(move |b| (a, b)));
    let both = pairs.map(|(a, b)| (a.0.max(b.0), earlier_end(a.1, b.1)));
    let mut both: Vec<_> = both.filter(|(begin, end)| end.is_none_or(|end| *begin < end)).collect();
    both.sort();
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    #[test]
    fn propagation_is_what_it_was_when_the_packet_left() {
        let start = Instant::now();
        let at = |time| start + ms(time);
        let up = vec![(at(0), ms(30)), (at(1_000), ms(90))];
        let links = Links::from(LinkView {
            outages: vec![(at(900), Some(at(1_100)))],
            delays: [up, vec![(at(0), ms(20))]],
            ..LinkView::default()
        });
        assert_eq!(links.over_propagation(Side::Air, at(500), at(535)), ms(5));
        assert_eq!(links.over_propagation(Side::Air, at(950), at(1_200)), ms(10), "it could leave at 1,100");
        assert_eq!(links.over_propagation(Side::Ground, at(1_500), at(1_521)), ms(1));
        assert_eq!(links.over_propagation(Side::Ground, at(1_500), at(1_510)), ms(0));
    }

    #[test]
    fn the_best_link_that_is_there_says_what_is_possible() {
        let start = Instant::now();
        let at = |time| start + ms(time);
        let view = |delay, outages, cuts| LinkView {
            outages,
            cuts,
            delays: [(); 2].map(|()| vec![(start, ms(delay))]),
            ..LinkView::default()
        };
        let near = view(30, vec![(at(500), Some(at(700)))], vec![(at(1_000), Some(at(2_000)))]);
        let far = view(50, vec![(at(600), Some(at(900))), (at(2_500), None)], vec![]);
        let links = Links::new(vec![near, far]);
        assert_eq!(links.earliest(Side::Air, at(100)), at(130));
        assert_eq!(links.earliest(Side::Air, at(550)), at(600), "by the far one");
        assert_eq!(links.earliest(Side::Air, at(650)), at(730), "both are out until 700");
        assert_eq!(links.earliest(Side::Ground, at(980)), at(1_030), "what the cut meets on the way is lost");
        assert_eq!(links.earliest(Side::Ground, at(2_600)), at(2_630));
        assert_eq!(links.none_there().outages, [(at(600), Some(at(700)))]);
        assert_eq!(links.without(0).earliest(Side::Air, at(650)), at(950));
        assert_eq!((links.round_trip(start), links.without(0).round_trip(start)), (ms(60), ms(100)));
        assert!(links.without(0).none_there().is_out() && !links.none_there().is_out());
    }

    #[test]
    fn a_further_link_takes_longer_all_the_time() {
        let near = Profile::by_name("handover").unwrap();
        let far = further(near.clone(), 2);
        assert_eq!(far.up.delay, near.up.delay + ms(40));
        let delays = |profile: &Profile| -> Vec<_> {
            let delay = |step: &aquila_emu::Step| match step.change {
                Change::Delay(_, delay) => Some(delay),
                _ => None,
            };
            profile.steps.iter().filter_map(delay).collect()
        };
        let longer: Vec<_> = delays(&near).into_iter().map(|delay| delay + ms(40)).collect();
        assert_eq!(delays(&far), longer);
        assert_eq!(far.outages(), near.outages());
        assert_eq!(further(near.clone(), 0), near);
    }
}
