//! A closed loop of commands: the next one is sent some time after the one before was delivered, as in ConClone's
//! experiment [CONCLONE 5.1]. That it was delivered the receiving application says beside the link: whoever carries it
//! pays nothing for it.

use std::time::Duration;

use crate::plan::{Pace, Plan};
use crate::record::{Flow, Message};

/// When a closed loop sends. All times are since the start of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedLoop {
    pause: Duration,
    count: u32,
    /// The next one is sent if one was not delivered within this time.
    give_up: Option<Duration>,
    sent: u32,
    /// The one that is under way: its number in the flow, and when it is given up.
    awaited: Option<(u32, Option<Duration>)>,
    /// When the next one is due, if none is under way.
    due: Duration,
}

impl ClosedLoop {
    /// `count` commands, the first at `first`.
    pub fn new(pause: Duration, count: u32, give_up: Option<Duration>, first: Duration) -> Self {
        Self { pause, count, give_up, sent: 0, awaited: None, due: first }
    }

    /// When the next one is sent; `None`: not before the one under way is delivered, or never again.
    pub fn next(&self) -> Option<Duration> {
        let due = match self.awaited {
            Some((_, given_up)) => given_up,
            None => Some(self.due),
        };
        due.filter(|_| self.sent < self.count)
    }

    /// Number `number` of the flow was sent.
    pub fn on_sent(&mut self, number: u32, at: Duration) {
        self.sent += 1;
        self.awaited = Some((number, self.give_up.map(|give_up| at + give_up)));
    }

    /// It was delivered; what was delivered before, or was given up, changes nothing.
    pub fn on_delivered(&mut self, number: u32, at: Duration) {
        if self.awaited.is_some_and(|(awaited, _)| awaited == number) {
            self.awaited = None;
            self.due = at + self.pause;
        }
    }

    /// Whether all were sent, and the last was delivered or given up.
    pub fn is_done(&self, now: Duration) -> bool {
        let is_over = |(_, given_up): (u32, Option<Duration>)| given_up.is_some_and(|at| at <= now);
        self.sent >= self.count && self.awaited.is_none_or(is_over)
    }
}

/// A closed loop as a plan has it, to judge what came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loop {
    /// How many commands there are.
    pub count: u32,
    pause: Duration,
    give_up: Option<Duration>,
}

/// How long all commands of a loop took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// So long, the pause before the first included, as the paper counts; up to the end of the run if it was censored.
    pub time: Duration,
    /// The run was over before all were through: it would have taken longer.
    pub is_censored: bool,
}

impl Loop {
    /// Of a flow that a contender carries, if it is one.
    pub fn of(plan: &Plan, contender: &str, flow: &str) -> Option<Self> {
        let commands = plan.traffic_of(flow).filter(|_| !plan.is_data(flow))?.0.commands?;
        let Ok(Pace::After { pause, count }) = commands.pace() else { return None };
        Some(Self { count, pause, give_up: plan.give_up(contender) })
    }

    /// How long it took in a run of that length.
    pub fn completion(&self, flow: &Flow, lasts: Duration) -> Completion {
        let end = |message: &Message| message.arrived.or_else(|| Some(message.sent + self.give_up?));
        let last = flow.messages.iter().filter_map(end).max();
        let are_through = flow.messages.len() >= self.count as usize && flow.messages.last().and_then(end).is_some();
        let end = last.filter(|last| are_through && *last <= lasts);
        let begin = flow.messages.first().map_or(Duration::ZERO, |first| first.sent);
        Completion { time: (end.unwrap_or(lasts) + self.pause).saturating_sub(begin), is_censored: end.is_none() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_next_one_is_sent_a_pause_after_the_one_before_was_delivered() {
        let mut commands = ClosedLoop::new(ms(500), 2, None, ms(30));
        assert_eq!(commands.next(), Some(ms(30)));
        commands.on_sent(0, ms(30));
        assert_eq!(commands.next(), None);
        commands.on_delivered(7, ms(40)); // Another one.
        assert_eq!(commands.next(), None);
        commands.on_delivered(0, ms(50));
        commands.on_delivered(0, ms(90)); // A copy.
        assert_eq!(commands.next(), Some(ms(550)));
        commands.on_sent(1, ms(550));
        assert!(!commands.is_done(ms(100_000)));
        commands.on_delivered(1, ms(600));
        assert_eq!((commands.next(), commands.is_done(ms(600))), (None, true));
    }

    #[test]
    fn one_that_is_given_up_is_no_longer_waited_for() {
        let mut commands = ClosedLoop::new(ms(500), 2, Some(ms(1_000)), ms(0));
        commands.on_sent(0, ms(0));
        assert_eq!(commands.next(), Some(ms(1_000)));
        commands.on_sent(1, ms(1_000));
        commands.on_delivered(0, ms(1_010)); // Too late: the loop has gone on.
        assert_eq!(commands.next(), None);
        assert!(!commands.is_done(ms(1_999)) && commands.is_done(ms(2_000)));
    }

    #[test]
    fn what_all_took_counts_from_the_pause_before_the_first_and_is_a_bound_where_the_run_was_over() {
        let completion = |give_up, arrivals: &[Option<u64>]| {
            let mut flow = Flow { name: "c".into(), direction: 1, messages: Vec::new(), skipped: Vec::new() };
            for (number, arrived) in arrivals.iter().enumerate() {
                flow.on_sent(ms(3_000 + 520 * number as u64), 45);
                arrived.inspect(|at| flow.on_arrived(number as u32, ms(*at)));
            }
            let completion = Loop { count: 2, pause: ms(500), give_up }.completion(&flow, ms(9_000));
            (completion.time.as_millis(), completion.is_censored)
        };
        assert_eq!(completion(None, &[Some(3_020), Some(3_600)]), (1_100, false));
        assert_eq!(completion(None, &[Some(3_020), None]), (6_500, true));
        assert_eq!(completion(None, &[Some(3_020)]), (6_500, true));
        assert_eq!(completion(Some(ms(1_000)), &[None, None]), (2_020, false));
    }
}
