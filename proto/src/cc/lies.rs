//! Feedback that lies: whatever the other side reports, nothing panics, and what a controller answers stays within bounds.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{CongestionConfig, Controller, EncoderRange, Load, Radio, Reports, SentPacket};
use crate::feedback::{Kept, Leaving, SentLog};
use crate::wire::feedback::{Arrival, Feedback};
use crate::{Bitrate, ByteCount};

/// One thing that happens.
#[derive(Debug, Clone)]
enum Step {
    /// So many datagrams leave.
    Send {
        count: u8,
        bytes: u16,
        leads: bool,
    },
    /// Time passes, microseconds.
    Wait(u32),
    /// A report: the reporter's clock, how far from the newest it begins, and arrivals.
    Report {
        clock_us: u32,
        back: u16,
        arrivals: Vec<Option<(u32, u8)>>,
    },
    /// A report of what has arrived as it should, at a clock that runs as ours.
    Honest {
        count: u8,
    },
    Rtt(u32),
    Radio(Radio),
    NewPath,
}

fn step() -> impl Strategy<Value = Step> {
    let arrivals = prop::collection::vec(prop::option::of((any::<u32>(), 0..4u8)), 0..64);
    let decibels = || prop::option::of(prop::num::f32::ANY);
    prop_oneof![
        6 => (1..40u8, 1..1500u16, any::<bool>()).prop_map(|(count, bytes, leads)| Step::Send { count, bytes, leads }),
        4 => (1..400_000u32).prop_map(Step::Wait),
        3 => (any::<u32>(), any::<u16>(), arrivals)
            .prop_map(|(clock_us, back, arrivals)| Step::Report { clock_us, back, arrivals }),
        3 => (1..60u8).prop_map(|count| Step::Honest { count }),
        // A session takes none that is longer.
        1 => (0..60_000_000u32).prop_map(Step::Rtt),
        1 => (decibels(), prop::option::of(any::<u64>()), decibels(), decibels(), decibels()).prop_map(
            |(altitude_m, cell, rsrp_dbm, rsrq_db, sinr_db)| {
                Step::Radio(Radio { altitude_m, cell, rsrp_dbm, rsrq_db, sinr_db })
            }
        ),
        1 => Just(Step::NewPath),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_reported_rates_stay_in_bounds(steps in prop::collection::vec(step(), 1..120)) {
        // Those of QUIC need a connection: `quic::lent` tries them.
        for name in CongestionConfig::NAMES.into_iter().filter(|name| !["bbr", "cubic"].contains(name)) {
            try_lies(name, &steps)?;
            // Without another path, which makes a controller forget what it was told.
            let same_path: Vec<_> = steps.iter().filter(|step| !matches!(step, Step::NewPath)).cloned().collect();
            let mut flight = try_lies(name, &same_path)?;
            for _ in 0..1_200 {
                flight.honest_round_trip();
            }
            let rate = flight.controller.target_rate();
            // By the printed units a window never grows.
            let enough = if name == "paper-literal" { Bitrate::kbps(100) } else { Bitrate::kbps(1000) };
            prop_assert!(rate >= enough, "{name}, a minute later: {rate:?}");
        }
    }
}

/// A controller and what is known of what it sent.
struct Flight {
    controller: Box<dyn Controller>,
    log: SentLog,
    start: Instant,
    now: Instant,
}

impl Flight {
    fn now_us(&self) -> u64 {
        1_700_000_000_000_000 + (self.now - self.start).as_micros() as u64
    }

    fn send(&mut self, bytes: ByteCount, leads: bool, kept: Option<Kept>) {
        let at_us = self.now_us();
        self.controller.on_sent(self.now, SentPacket { sent_us: at_us, bytes, urgent: true });
        self.log.on_sent(Leaving { at_us, bytes, kept, leads, urgent: true });
    }

    fn report(&mut self, feedback: &Feedback) {
        let now_us = self.now_us();
        self.log.on_feedback(feedback, now_us);
        if self.log.take_other_clock() {
            self.controller.on_path_change(self.now);
        }
        let load = Load { in_flight: self.log.in_flight(), queued: ByteCount::ZERO, ..Load::default() };
        let reports = Reports { now_us, packets: self.log.reports(), held: self.log.held(), load };
        self.controller.on_reports(self.now, reports);
    }

    /// Of 50 ms, on a path of 20 Mbit/s: as much as the window lets, all of it reported.
    fn honest_round_trip(&mut self) {
        let packets = (self.controller.window(self.now).0 / 1240).clamp(1, 40);
        (0..packets).for_each(|n| self.send(ByteCount(1240), n == 0, None));
        let first_us = self.now_us() + 25_000;
        self.now += Duration::from_millis(50);
        let arrival = |n: u64| Some(Arrival { at_us: (first_us + 500 * n) as u32, ecn: 0 });
        let first_seq = self.log.next_seq().wrapping_sub(packets as u16);
        let arrivals = (0..packets).map(arrival).collect();
        self.report(&Feedback { sent_us: (first_us + 20_000) as u32, first_seq, arrivals });
        self.controller.poll(self.now, Load { in_flight: self.log.in_flight(), ..Load::default() });
    }
}

fn try_lies(name: &str, steps: &[Step]) -> Result<Flight, TestCaseError> {
    let range = EncoderRange::default();
    let controller = CongestionConfig::by_name(name).expect("a name of the list").build(range, |_| unreachable!());
    let start = crate::video::test_epoch();
    let mut flight = Flight { controller, log: SentLog::default(), start, now: start };
    let mut unreported = 0u64;
    for step in steps {
        let now_us = flight.now_us();
        let Flight { controller, log, now, .. } = &mut flight;
        match step {
            Step::Wait(us) => *now += Duration::from_micros(u64::from(*us)),
            Step::Send { count, bytes, leads } => {
                let bytes = ByteCount(u64::from(*bytes));
                (0..*count).for_each(|n| flight.send(bytes, *leads, Some(Kept::Batch(n.into()))));
            }
            Step::Rtt(us) => controller.on_rtt(*now, Duration::from_micros(u64::from(*us))),
            Step::Radio(radio) => controller.on_radio(*now, radio),
            Step::NewPath => {
                log.reset();
                controller.on_path_change(*now);
            }
            Step::Report { .. } | Step::Honest { .. } => {
                let feedback = match step {
                    Step::Report { clock_us, back, arrivals } => {
                        let arrival = |(at_us, ecn): &(u32, u8)| Arrival { at_us: *at_us, ecn: *ecn };
                        Feedback {
                            sent_us: *clock_us,
                            first_seq: log.next_seq().wrapping_sub(*back),
                            arrivals: arrivals.iter().map(|seen| seen.as_ref().map(arrival)).collect(),
                        }
                    }
                    _ => {
                        let Step::Honest { count } = step else { unreachable!() };
                        let at_us = (now_us + 30_000) as u32;
                        let count = u16::from(*count).min(log.next_datagram() as u16);
                        let arrivals = vec![Some(Arrival { at_us, ecn: 0 }); count.into()];
                        Feedback { sent_us: at_us, first_seq: log.next_seq().wrapping_sub(count), arrivals }
                    }
                };
                flight.report(&feedback);
                unreported += flight.log.take_fates().len() as u64;
            }
        }
        let Flight { controller, log, now, .. } = &mut flight;
        let load = Load { in_flight: log.in_flight(), queued: ByteCount(unreported % 9000), ..Load::default() };
        controller.poll(*now, load);
        check(name, controller.as_ref(), range, *now, load)?;
        // More than what was sent is not in flight.
        prop_assert!(log.in_flight() <= ByteCount(2049 * 1500), "{:?}", log.in_flight());
    }
    Ok(flight)
}

fn check(
    name: &str,
    controller: &dyn Controller,
    range: EncoderRange,
    now: Instant,
    load: Load,
) -> Result<(), TestCaseError> {
    let (window, pacing, capacity) = (controller.window(now), controller.pacing_rate(now), controller.capacity());
    prop_assert!(window <= ByteCount(64 << 20), "{name}: window {window:?}");
    prop_assert!(pacing > Bitrate::ZERO && pacing <= Bitrate::mbps(100_000), "{name}: pacing {pacing:?}");
    prop_assert!(capacity <= Bitrate::mbps(100_000), "{name}: capacity {capacity:?}");
    for rate in [controller.target_rate(), controller.lasting_rate()] {
        let rate = range.clamp(rate);
        prop_assert!(rate >= range.least && rate <= range.most, "{name}: {rate:?}");
    }
    let _ = (controller.may_encode(now, load), controller.queue_delay());
    prop_assert!(controller.next_deadline().is_none_or(|at| at < now + Duration::from_secs(60)), "{name}");
    Ok(())
}
