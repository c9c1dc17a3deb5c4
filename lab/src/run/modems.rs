//! Modems go on telling what a plan has them tell once: a session forgets what is not told again.

use std::time::{Duration, Instant};

use aquila_proto::cc::Radio;

/// A node asks its modem this often.
const INTERVAL: Duration = Duration::from_secs(1);

/// What the modem of each link tells.
#[derive(Debug)]
pub struct Modems {
    told: Vec<Radio>,
    /// `None` until one has told anything.
    next: Option<Instant>,
}

impl Modems {
    pub fn new(links: usize) -> Self {
        Self { told: vec![Radio::default(); links], next: None }
    }

    /// From now on this is told of links, and what was told of them before where this says nothing.
    pub fn on_radio(&mut self, now: Instant, links: &[usize], radio: &Radio) {
        links.iter().for_each(|link| self.told[*link] = self.told[*link].updated(radio));
        self.next.get_or_insert(now + INTERVAL);
    }

    /// When they tell again.
    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    /// What they tell again now, by link.
    pub fn poll(&mut self, now: Instant) -> Vec<(usize, Radio)> {
        if self.next.is_none_or(|next| now < next) {
            return Vec::new();
        }
        self.next = Some(now + INTERVAL);
        self.told.iter().copied().enumerate().filter(|(_, radio)| *radio != Radio::default()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use aquila_emu::Ecn;

    use super::super::World;
    use super::super::contender::{Contender, Outgoing, Output, Wire};
    use super::*;
    use crate::testing::plan;

    type Told = Vec<(Instant, Option<usize>, Radio)>;

    /// Writes down what it is told of its radio.
    struct Listener(Rc<RefCell<Told>>);

    impl Contender for Listener {
        fn start(&mut self, _: Instant) {}
        fn send(&mut self, _: Instant, _: Outgoing) {}
        fn receive(&mut self, _: Instant, _: usize, _: Ecn, _: Wire) {}
        fn handle_timeout(&mut self, _: Instant) {}
        fn next_deadline(&self) -> Option<Instant> {
            None
        }
        fn poll(&mut self, _: Instant) -> Option<Output> {
            None
        }
        fn on_new_address(&mut self, _: Instant) {}
        fn on_link_up(&mut self, _: Instant, _: &[usize]) {}
        fn on_radio(&mut self, now: Instant, link: Option<usize>, radio: &Radio) {
            self.0.borrow_mut().push((now, link, *radio));
        }
        fn reconnect(&mut self, _: Instant) {}
    }

    #[test]
    fn what_a_plan_says_once_a_contender_is_told_until_the_run_ends() {
        let plan = plan(
            r#"
            title = "a weak signal"
            lasts = "30 s"
            [[link]]
            name = "lte"
            both = { rate = "4 Mbit/s", delay = "30 ms", queue = { bytes = "60 kB" } }
            [[contender]]
            kind = "aquila"
            [[traffic]]
            commands = { every = "100 ms" }
            [[action]]
            at = "2.5 s"
            modem = { rsrp = -125 }
            "#,
        );
        let (told, start) = (Rc::default(), Instant::now());
        let world = World::new(&plan, plan.contenders[0].get_ref(), 1, start, None).unwrap();
        world.run(Box::new(Listener(Rc::clone(&told))), "listener").unwrap();
        let weak = Radio { rsrp_dbm: Some(-125.0), ..Radio::default() };
        let at = |n: u32| start + Duration::from_millis(2_500) + INTERVAL * n;
        let expected: Vec<_> = (0..28).map(|n| (at(n), (n > 0).then_some(0), weak)).collect();
        assert_eq!(*told.borrow(), expected);
    }

    #[test]
    fn what_was_told_once_is_told_each_second() {
        let (mut modems, start) = (Modems::new(2), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!((modems.next(), modems.poll(at(0))), (None, vec![]));
        let [cell, weak] =
            [Radio { cell: Some(7), ..Radio::default() }, Radio { rsrp_dbm: Some(-121.0), ..Radio::default() }];
        modems.on_radio(at(500), &[1], &cell);
        modems.on_radio(at(900), &[0, 1], &weak);
        assert_eq!((modems.next(), modems.poll(at(1_499))), (Some(at(1_500)), vec![]));
        for ms in [1_500, 2_500, 60_000] {
            assert_eq!(modems.poll(at(ms)), [(0, weak), (1, cell.updated(&weak))], "{ms}");
        }
    }
}
