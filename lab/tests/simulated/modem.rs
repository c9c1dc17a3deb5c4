//! What MAVLink says of the radio reaches the controller, until somebody asks the modem itself, and counts for a while.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aquila_emu::{PathConfig, Queue};
use aquila_lab::pair::{Pair, PairConfig};
use aquila_proto::Side;
use aquila_proto::cc::Radio;
use aquila_proto::mavlink::{Address, Frame, MessageId, Version};

use crate::scripted::{Script, Scripted};

/// Writes down what it is told.
#[derive(Debug)]
struct Listener(Arc<Mutex<Vec<Radio>>>);

impl Script for Listener {
    fn on_radio(&mut self, radio: &Radio) {
        self.0.lock().unwrap().push(*radio);
    }
}

fn cellular_status(lac: u16, quality: u8) -> Frame {
    cellular_status_by(1, lac, quality)
}

/// CELLULAR_STATUS of a component: mcc, mnc, lac, status, failure_reason, type, quality.
fn cellular_status_by(component: u8, lac: u16, quality: u8) -> Frame {
    let mut payload = [262u16.to_le_bytes(), 1u16.to_le_bytes(), lac.to_le_bytes()].concat();
    payload.extend([3, 0, 4, quality]);
    Frame::build(Version::V2, 0, Address::new(1, component), MessageId(334), &payload).unwrap()
}

/// GLOBAL_POSITION_INT: relative_alt is at byte 16, in mm.
fn position(millimetres: i32) -> Frame {
    let mut payload = [0; 28];
    payload[16..20].copy_from_slice(&millimetres.to_le_bytes());
    Frame::build(Version::V2, 0, Address::new(1, 1), MessageId(33), &payload).unwrap()
}

/// The air side's controller writes down what it is told.
fn listened_to() -> (Pair, Arc<Mutex<Vec<Radio>>>) {
    let path = PathConfig {
        rate_bps: Some(20_000_000),
        delay: Duration::from_millis(5),
        queue: Queue::packets(256),
        ..PathConfig::default()
    };
    let mut pair = Pair::new(PairConfig::new(path, 1));
    pair.connect();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener = heard.clone();
    pair.session(Side::Air).set_controller(move || Box::new(Scripted(Listener(listener.clone()))));
    (pair, heard)
}

fn run_for(pair: &mut Pair, time: Duration) {
    let until = pair.elapsed() + time;
    pair.run_until(until);
}

#[test]
fn of_the_radio_the_modem_itself_knows_better_than_mavlink() {
    let (mut pair, heard) = listened_to();
    let say = |pair: &mut Pair, frames: &[Frame]| {
        frames.iter().for_each(|frame| pair.send_frame(Side::Air, frame));
        run_for(pair, Duration::from_millis(500));
        std::mem::take(&mut *heard.lock().unwrap())
    };
    let told = say(&mut pair, &[cellular_status(7, 50), position(80_000)]);
    assert!(told.iter().any(|radio| radio.cell.is_some() && radio.rsrp_dbm == Some(-110.0)), "{told:?}");
    assert!(told.iter().any(|radio| radio.altitude_m == Some(80.0)), "{told:?}");
    let own = Radio { cell: Some(3), sinr_db: Some(9.0), ..Radio::default() };
    let now = pair.now();
    pair.session(Side::Air).set_radio(now, None, &own);
    let told = say(&mut pair, &[cellular_status(8, 10), position(90_000)]);
    assert_eq!(told[0], own);
    let rest = &told[1..];
    assert!(!rest.is_empty() && rest.iter().all(|radio| radio.cell.is_none() && radio.rsrp_dbm.is_none()), "{told:?}");
    assert!(rest.iter().any(|radio| radio.altitude_m == Some(90.0)), "{told:?}");
}

#[test]
fn what_was_told_of_the_radio_and_the_height_is_not_shown_when_it_is_old() {
    let (mut pair, _) = listened_to();
    pair.send_frame(Side::Air, &cellular_status(7, 50));
    run_for(&mut pair, Duration::from_secs(6));
    pair.send_frame(Side::Air, &position(80_000));
    run_for(&mut pair, Duration::from_secs(3));
    let Radio { cell, rsrp_dbm, altitude_m, .. } = pair.stats(Side::Air).radio;
    assert!(cell.is_some() && rsrp_dbm == Some(-110.0) && altitude_m == Some(80.0));
    run_for(&mut pair, Duration::from_secs(2));
    assert_eq!(pair.stats(Side::Air).radio, Radio { altitude_m, ..Radio::default() });
    run_for(&mut pair, Duration::from_secs(5));
    assert_eq!(pair.stats(Side::Air).radio, Radio::default());
}

#[test]
fn of_two_companions_one_is_listened_to_as_long_as_it_tells() {
    let (mut pair, heard) = listened_to();
    // Five times by turns, then the second alone: until the first has been silent for 10 s, nothing of the second counts.
    for second in 0..40 {
        if second < 5 {
            pair.send_frame(Side::Air, &cellular_status_by(191, 7, 50));
        }
        pair.send_frame(Side::Air, &cellular_status_by(192, 8, 40));
        run_for(&mut pair, Duration::from_secs(1));
    }
    // The first comes back.
    pair.send_frame(Side::Air, &cellular_status_by(191, 7, 50));
    let told = std::mem::take(&mut *heard.lock().unwrap());
    let cells: Vec<u64> = told.iter().filter_map(|radio| radio.cell).map(|cell| cell & 0xffff).collect();
    let (first, second) = cells.split_at(5);
    assert!(first.iter().all(|cell| *cell == 7) && second.iter().all(|cell| *cell == 8), "{cells:?}");
    assert_eq!(second.len(), 40 - 14, "{cells:?}");
}
