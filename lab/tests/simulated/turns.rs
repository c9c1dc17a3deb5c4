//! A picture asks for its turn before it is encoded, and may have to wait for it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aquila_emu::{PathConfig, Queue};
use aquila_lab::frames;
use aquila_lab::pair::{Pair, PairConfig};
use aquila_proto::cc::Load;
use aquila_proto::{Bitrate, FrameTurn, Side};

use crate::scripted::{Script, Scripted};

const DELAY: Duration = Duration::from_millis(1);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Takes no picture that has not waited for this long.
#[derive(Debug)]
struct Reluctant {
    until: Duration,
    patience: Duration,
}

impl Script for Reluctant {
    fn may_encode(&self, load: Load) -> bool {
        assert!(load.waited.is_zero() || load.until_frame.is_zero(), "it is there");
        load.waited >= self.until
    }

    fn patience(&self) -> Duration {
        self.patience
    }
}

/// Of a camera at 1000 / `interval_ms` pictures a second, how long each waited until it was encoded; none if it was left out.
fn turns(interval_ms: u64, until_ms: u64, patience_ms: u64) -> Vec<Option<u64>> {
    let path =
        PathConfig { rate_bps: Some(20_000_000), delay: DELAY, queue: Queue::packets(256), ..PathConfig::default() };
    let mut pair = Pair::new(PairConfig::new(path, 1));
    pair.connect();
    pair.run_until(ms(500));
    // Something has to be known of the camera before pictures wait.
    for frame in 0..10 {
        pair.send_video(&frames::rtp(frame, u32::from(frame), 900, true));
        pair.run_until(ms(500 + interval_ms * u64::from(frame + 1)));
    }
    let (until, patience) = (ms(until_ms), ms(patience_ms));
    pair.session(Side::Air).set_controller(|| Box::new(Scripted(Reluctant { until, patience })));
    let mut out = Vec::new();
    for frame in 10..30u16 {
        let mut waited = ms(0);
        out.push(loop {
            let now = pair.now();
            match pair.session(Side::Air).next_frame(now, 0, waited) {
                FrameTurn::Encode(rate) => {
                    assert!(rate.asked > Bitrate::kbps(500), "{rate:?}");
                    pair.send_video(&frames::rtp(frame, u32::from(frame), 900, true));
                    break Some(waited.as_millis() as u64);
                }
                FrameTurn::Wait(time) => {
                    assert!(time > ms(0));
                    waited += time;
                    let until = pair.elapsed() + time;
                    pair.run_until(until);
                }
                FrameTurn::LeaveOut => break None,
            }
        });
        pair.run_until(ms(500 + interval_ms * u64::from(frame + 1)));
        if out.last().is_some_and(Option::is_some) {
            let (now, there) = (pair.now(), pair.session(Side::Ground));
            let age = there.stats(now).picture_age.expect("a picture is shown");
            // Over propagation, whether it waited before it was encoded or not; told in whole milliseconds.
            assert!(age.abs_diff(ms(interval_ms) - DELAY) <= ms(1), "{age:?}, {:?}", out.last());
        }
    }
    out
}

#[test]
fn a_picture_waits_until_the_link_takes_it() {
    assert_eq!(turns(33, 0, 25), vec![Some(0); 20]);
    assert_eq!(turns(33, 6, 25), vec![Some(6); 20]);
    // Nobody has patience for more than three quarters of the time until the next.
    assert_eq!(turns(33, 24, 200), vec![Some(24); 20]);
    assert_eq!(turns(33, 26, 200), vec![None; 20]);
    assert_eq!(turns(16, 12, 25), vec![Some(12); 20]);
    assert_eq!(turns(16, 14, 25), vec![None; 20]);
}

#[test]
fn without_patience_it_is_left_out_at_once() {
    assert_eq!(turns(33, 0, 0), vec![Some(0); 20]);
    assert_eq!(turns(33, 1, 0), vec![None; 20]);
}

/// Notes what it is told of the time until a frame comes.
#[derive(Debug)]
struct Noting(Arc<Mutex<Duration>>);

impl Script for Noting {
    fn may_encode(&self, load: Load) -> bool {
        *self.0.lock().unwrap() = load.until_frame;
        true
    }
}

/// Two cameras, of which the first asks and takes 20 ms to encode; the other one's frames come meanwhile.
#[test]
fn what_an_encoder_takes_is_known_to_the_controller_and_is_part_of_the_pictures_age() {
    let path =
        PathConfig { rate_bps: Some(20_000_000), delay: DELAY, queue: Queue::packets(256), ..PathConfig::default() };
    let mut pair = Pair::new(PairConfig { cameras: 2, ..PairConfig::new(path, 1) });
    pair.connect();
    let until_frame = Arc::new(Mutex::new(Duration::MAX));
    let noting = until_frame.clone();
    pair.session(Side::Air).set_controller(move || Box::new(Scripted(Noting(noting.clone()))));
    let mut told = Vec::new();
    for frame in 0..90u16 {
        let filmed = ms(500 + 33 * u64::from(frame));
        pair.run_until(filmed);
        let now = pair.now();
        let turn = pair.session(Side::Air).next_frame(now, 0, Duration::ZERO);
        assert!(matches!(turn, FrameTurn::Encode(_)), "{turn:?}");
        told.push(*until_frame.lock().unwrap());
        pair.run_until(filmed + ms(10));
        let now = pair.now();
        pair.session(Side::Air).send_video(now, 1, &frames::rtp(frame, u32::from(frame), 900, true));
        pair.settle(Side::Air);
        pair.run_until(filmed + ms(20));
        pair.send_video(&frames::rtp(frame, u32::from(frame), 900, true));
        pair.run_until(filmed + ms(33));
        let (now, there) = (pair.now(), pair.session(Side::Ground));
        let age = there.stats(now).picture_age.expect("a picture is shown");
        // Told in whole milliseconds.
        assert!(age.abs_diff(ms(33) - DELAY) <= ms(2), "{age:?}");
    }
    assert!(told[0].is_zero() && told.is_sorted() && told[89] > ms(19) && told[89] <= ms(20), "{told:?}");
}
