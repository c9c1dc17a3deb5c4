//! Encoders follow their targets, and what they make is decoded.

use std::sync::LazyLock;

use aquila_proto::Bitrate;

use super::*;
use crate::camera::psnr_luma_db;
use crate::quality::content::Flight;

const SIZE: (usize, usize) = (320, 180);
const RATE: u32 = 30;

fn order(kbps: u64) -> Order {
    Order { target: Bitrate::kbps(kbps), size: SIZE, recovery: false }
}

/// Engines that are installed; the others are named.
fn engines() -> impl Iterator<Item = Engine> {
    Engine::ALL.into_iter().filter(|engine| {
        let available = engine.is_available();
        if let Err(missing) = &available {
            eprintln!("skipped: {missing}");
        }
        available.is_ok()
    })
}

/// The country takes longer to make than the pictures.
static FLIGHT: LazyLock<Flight> = LazyLock::new(|| Flight::new(1, SIZE.0, SIZE.1));

/// Encodes so many pictures of the flight, each as `order` says.
fn film(engine: Engine, count: u32, mut order: impl FnMut(u32) -> Order) -> Vec<Option<Unit>> {
    let mut encoder = Encoder::new(engine, RATE);
    (0..count).map(|number| encoder.encode(&FLIGHT.render(number), &order(number)).unwrap()).collect()
}

fn kbps(units: &[Option<Unit>]) -> f64 {
    let bits: usize = units.iter().flatten().map(|unit| unit.annex_b.len() * 8).sum();
    bits as f64 * f64::from(RATE) / units.len() as f64 / 1_000.0
}

fn whole(units: &[Option<Unit>]) -> Vec<(u32, &Unit)> {
    (0..).zip(units).filter_map(|(number, unit)| Some((number, unit.as_ref()?))).collect()
}

#[test]
fn every_engine_follows_its_target() {
    for engine in engines() {
        let units = film(engine, 180, |number| order(if (60..120).contains(&number) { 150 } else { 450 }));
        // The second half of each two seconds: x264 needs a second to follow a step up.
        for (second, target) in [(1, 450.0), (3, 150.0), (5, 450.0)] {
            let share = kbps(&units[second * 30..][..30]) / target;
            assert!((0.75..1.25).contains(&share), "{}: {share:.2} of {target} kbit/s", engine.name());
        }
    }
}

#[test]
fn what_is_made_is_decoded_picture_by_picture() {
    for engine in engines() {
        let units = film(engine, 40, |_| order(600));
        let mut seen = Vec::new();
        engine
            .decode(&whole(&units), |number, picture| {
                let psnr = psnr_luma_db(&FLIGHT.render(number), &picture).unwrap();
                assert!(psnr > 26.0, "{} picture {number}: {psnr:.1} dB", engine.name());
                seen.push(number);
                Ok::<_, CodecError>(())
            })
            .unwrap();
        assert_eq!(seen, whole(&units).iter().map(|(number, _)| *number).collect::<Vec<_>>());
    }
}

#[test]
fn recovery_points_come_when_they_are_wanted() {
    for engine in engines() {
        let units = film(engine, 70, |number| Order { recovery: number == 7, ..order(600) });
        let recoveries: Vec<u32> =
            whole(&units).iter().filter(|(_, unit)| unit.is_recovery).map(|(number, _)| *number).collect();
        assert_eq!(recoveries, [0, 7], "{}", engine.name());
        // A decoder can begin there.
        let mut count = 0;
        let late: Vec<_> = whole(&units).into_iter().filter(|(number, _)| *number >= 7).collect();
        engine
            .decode(&late, |_, _| {
                count += 1;
                Ok::<_, CodecError>(())
            })
            .unwrap();
        assert_eq!(count, late.len());
    }
}

#[test]
fn another_size_begins_the_stream_anew() {
    for engine in engines() {
        let size = |number: u32| if number < 5 { SIZE } else { (160, 90) };
        let units = film(engine, 10, |number| Order { size: size(number), ..order(450) });
        assert!(units[5].as_ref().is_some_and(|unit| unit.is_recovery));
        engine
            .decode(&whole(&units), |number, picture| {
                assert_eq!((picture.width(), picture.height()), size(number));
                Ok::<_, CodecError>(())
            })
            .unwrap();
    }
}

#[test]
fn the_same_pictures_and_orders_give_the_same_bytes() {
    for engine in engines() {
        let film = || film(engine, 15, |number| order(250 + u64::from(number / 5) * 120));
        assert!(film() == film(), "{}", engine.name());
    }
}
