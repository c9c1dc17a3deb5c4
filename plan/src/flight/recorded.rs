//! A flight as it was logged, brought to whole seconds.

use super::airframe::GRAVITY;
use super::{FARTHEST_M, FlightError, Moment, Track};
use crate::geodesy::{Frame, Position, wrap_180, wrap_360};
use crate::log::{Attitude, FlightLog};

/// A gap in a log that is worth a note, s.
const GAP_S: f64 = 5.0;
/// An attitude that is older than this is not used, s.
const STALE_S: f64 = 2.0;

/// Between the positions of a log in proportion. Attitudes are the nearest; where there are none, heading is where it
/// flies to, and bank that of a coordinated turn.
///
/// # Errors
/// [`FlightError::Far`], or [`FlightError::Nowhere`] of a log that is shorter than a second.
pub fn track(log: &FlightLog, node: &Frame) -> Result<Track, FlightError> {
    let fixes = &log.fixes;
    let Some(seconds) = fixes.last().map(|last| last.at_s.floor() as usize).filter(|seconds| *seconds > 0) else {
        return Err(FlightError::Nowhere);
    };
    let mut positions = Vec::with_capacity(seconds + 1);
    let mut next = 0;
    for second in 0..=seconds {
        let at = second as f64;
        while fixes.get(next + 1).is_some_and(|fix| fix.at_s <= at) {
            next += 1;
        }
        let (one, other) = (fixes[next], fixes[(next + 1).min(fixes.len() - 1)]);
        let share =
            if other.at_s > one.at_s { ((at - one.at_s) / (other.at_s - one.at_s)).clamp(0.0, 1.0) } else { 0.0 };
        let between = |one: f64, other: f64| one + (other - one) * share;
        let (from, to) = (one.position, other.position);
        let longitude = from.longitude_deg + wrap_180(to.longitude_deg - from.longitude_deg) * share;
        let position = Position {
            latitude_deg: between(from.latitude_deg, to.latitude_deg),
            longitude_deg: wrap_180(longitude),
            altitude_m: between(from.altitude_m, to.altitude_m),
        };
        let away = node.to_local(position).length();
        if away > FARTHEST_M {
            return Err(FlightError::Far(away / 1e3));
        }
        positions.push(position);
    }
    let gaps = fixes.windows(2).filter(|pair| pair[1].at_s - pair[0].at_s > GAP_S).count();
    let mut notes = log.notes.clone();
    if gaps > 0 {
        notes.push(format!("{gaps} gaps of more than {GAP_S} s are flown over in straight lines"));
    }
    if log.attitudes.is_empty() {
        notes.push("no attitudes: heading and bank follow from the way".into());
    }
    Ok(Track { moments: moments(&positions, &log.attitudes), notes })
}

fn moments(positions: &[Position], attitudes: &[Attitude]) -> Vec<Moment> {
    let mut moments: Vec<Moment> = Vec::with_capacity(positions.len());
    let mut near = 0;
    for (second, position) in positions.iter().enumerate() {
        let here = Frame::new(*position);
        let (before, after) = (positions[second.saturating_sub(1)], positions[(second + 1).min(positions.len() - 1)]);
        let (from, to) = (here.to_local(before), here.to_local(after));
        let way = [to.east - from.east, to.north - from.north];
        let took = if second > 0 && second + 1 < positions.len() { 2.0 } else { 1.0 };
        let speed = way[0].hypot(way[1]) / took;
        let course = if speed > 0.5 {
            wrap_360(way[0].atan2(way[1]).to_degrees())
        } else {
            moments.last().map_or(0.0, |last| last.heading_deg)
        };
        let at = second as f64;
        while attitudes.get(near + 1).is_some_and(|next| (next.at_s - at).abs() <= (attitudes[near].at_s - at).abs()) {
            near += 1;
        }
        let turned = attitudes.get(near).filter(|attitude| (attitude.at_s - at).abs() <= STALE_S);
        let turn = moments.last().map_or(0.0, |last| wrap_180(course - last.heading_deg).to_radians());
        moments.push(Moment {
            position: *position,
            ground_speed_mps: speed,
            heading_deg: turned.map_or(course, |attitude| wrap_360(attitude.yaw_deg)),
            roll_deg: turned.map_or((speed * turn / GRAVITY).atan().to_degrees(), |attitude| attitude.roll_deg),
            pitch_deg: turned.map_or(0.0, |attitude| attitude.pitch_deg),
        });
    }
    moments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flight::airframe::{Airframe, Wind};
    use crate::flight::planned::Loiter;
    use crate::log::Fix;

    #[test]
    fn a_logged_circle_is_the_circle_that_was_flown() {
        let node = Frame::new(Position::new(63.44, 10.35, 0.0).unwrap());
        let loiter = Loiter {
            altitude_m: 200.0,
            radius_m: 200.0,
            offset_m: 0.0,
            bearing_deg: 0.0,
            clockwise: true,
            lasts_s: 60.0,
        };
        let flown = loiter.fly(&node, 0.0, &Airframe::default(), Wind::default()).unwrap();
        let fixes = (0..)
            .zip(&flown.moments)
            .map(|(second, moment)| Fix { at_s: f64::from(second), position: moment.position });
        let log = FlightLog { fixes: fixes.collect(), ..FlightLog::default() };
        let again = track(&log, &node).unwrap();
        assert_eq!(again.moments.len(), 60);
        for (one, other) in flown.moments.iter().zip(&again.moments).skip(3).take(50) {
            assert_eq!(one.position, other.position);
            assert!((one.roll_deg - other.roll_deg).abs() < 0.5, "{one:?} {other:?}");
            assert!(wrap_180(one.heading_deg - other.heading_deg).abs() < 3.0);
            assert!((other.ground_speed_mps - 18.0).abs() < 0.1);
        }
        let attitudes = vec![Attitude { at_s: 10.4, roll_deg: 12.0, pitch_deg: 1.0, yaw_deg: -90.0 }];
        let turned = track(&FlightLog { attitudes, ..log }, &node).unwrap();
        assert_eq!((turned.moments[10].roll_deg, turned.moments[10].heading_deg), (12.0, 270.0));
        assert!(turned.moments[20].roll_deg < 10.5);
    }

    #[test]
    fn logs_with_gaps_and_logs_without_a_second() {
        let node = Frame::new(Position::new(63.44, 10.35, 0.0).unwrap());
        let fix = |at_s, latitude| Fix { at_s, position: Position::new(latitude, 10.35, 100.0).unwrap() };
        let log = |fixes| FlightLog { fixes, ..FlightLog::default() };
        let gap = track(&log(vec![fix(0.0, 63.44), fix(10.0, 63.45)]), &node).unwrap();
        assert_eq!(gap.moments.len(), 11);
        assert!((gap.moments[5].position.latitude_deg - 63.445).abs() < 1e-9 && gap.notes[0].contains("1 gaps"));
        assert_eq!(track(&log(vec![fix(0.0, 63.44)]), &node), Err(FlightError::Nowhere));
        assert!(matches!(track(&log(vec![fix(0.0, 63.44), fix(2.0, 73.0)]), &node), Err(FlightError::Far(_))));
    }
}
