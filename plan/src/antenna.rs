//! Antennas: gain by direction, dBi.
//!
//! A direction is given in the antenna's own frame: elevation above its horizon, and bearing clockwise from the bow or
//! nose. The node's antenna stands upright; the aircraft's is fixed to the airframe and rolls with it.

use serde::{Deserialize, Serialize};

use crate::fault::{ParseError, number, quote};

/// What kind of antenna.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Antenna {
    /// Alike in all bearings, and a lobe around the horizon: gain × cosⁿ(elevation), n such that it is half as strong
    /// half a beam width away (Balanis, Antenna Theory, §2.4: cosⁿ as an approximation of a main lobe). Side lobes are
    /// a floor.
    Omni {
        /// At its best, dBi.
        gain_dbi: f64,
        /// Between the directions at which it is 3 dB weaker, degrees.
        beamwidth_deg: f64,
        /// Never weaker than so far below its best, dB.
        #[serde(default = "floor")]
        floor_db: f64,
    },
    /// Half a wavelength, upright: cos(π/2 · sin el) / cos el (Balanis, §4.6), 2.15 dBi at its best.
    Dipole {
        /// Never weaker than so far below its best, dB.
        #[serde(default = "floor")]
        floor_db: f64,
    },
    /// A lobe in one direction: gain × cosⁿ(angle from there), n as for [`Antenna::Omni`].
    Patch {
        /// At its best, dBi.
        gain_dbi: f64,
        /// Between the directions at which it is 3 dB weaker, degrees.
        beamwidth_deg: f64,
        /// Where it looks, clockwise from bow or nose, degrees.
        bearing_deg: f64,
        /// Where it looks, above the horizon, degrees.
        elevation_deg: f64,
        /// Never weaker than so far below its best, dB.
        #[serde(default = "floor")]
        floor_db: f64,
    },
    /// From a data sheet: a CSV of elevation and gain.
    Table {
        /// Its name.
        file: String,
        /// What is in it; read when the scenario is.
        #[serde(skip)]
        pattern: Pattern,
    },
}

/// Gain by elevation.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Pattern(Vec<(f64, f64)>);

fn floor() -> f64 {
    20.0
}

/// More rows of a pattern than this are refused.
const MAX_ROWS: usize = 4_000;

impl Antenna {
    /// Gain in a direction, dBi.
    pub fn gain_dbi(&self, elevation_deg: f64, bearing_deg: f64) -> f64 {
        match self {
            Self::Omni { gain_dbi, beamwidth_deg, floor_db } => {
                gain_dbi - lobe_db(elevation_deg.to_radians().cos(), *beamwidth_deg).min(*floor_db)
            }
            Self::Dipole { floor_db } => {
                let (sin, cos) = elevation_deg.to_radians().sin_cos();
                let field = if cos > 1e-6 { ((std::f64::consts::FRAC_PI_2 * sin).cos() / cos).abs() } else { 0.0 };
                2.15 - (-20.0 * field.max(1e-9).log10()).min(*floor_db)
            }
            Self::Patch { gain_dbi, beamwidth_deg, bearing_deg: look, elevation_deg: up, floor_db } => {
                let (sin, cos) = elevation_deg.to_radians().sin_cos();
                let (sin_up, cos_up) = up.to_radians().sin_cos();
                let beside = (bearing_deg - look).to_radians().cos();
                gain_dbi - lobe_db(sin * sin_up + cos * cos_up * beside, *beamwidth_deg).min(*floor_db)
            }
            Self::Table { pattern, .. } => pattern.gain_dbi(elevation_deg),
        }
    }

    /// At its best, dBi.
    pub fn peak_dbi(&self) -> f64 {
        match self {
            Self::Omni { gain_dbi, .. } | Self::Patch { gain_dbi, .. } => *gain_dbi,
            Self::Dipole { .. } => 2.15,
            Self::Table { pattern, .. } => pattern.0.iter().map(|row| row.1).reduce(f64::max).unwrap_or(0.0),
        }
    }

    /// What is wrong with its numbers, if something is.
    pub(crate) fn fault(&self) -> Option<String> {
        let (gain, width, floor) = match self {
            Self::Omni { gain_dbi, beamwidth_deg, floor_db } => (*gain_dbi, *beamwidth_deg, *floor_db),
            Self::Dipole { floor_db } => (0.0, 90.0, *floor_db),
            Self::Patch { gain_dbi, beamwidth_deg, floor_db, bearing_deg, elevation_deg } => {
                if !(-360.0..=360.0).contains(bearing_deg) || !(-90.0..=90.0).contains(elevation_deg) {
                    return Some("bearing_deg is from -360 to 360, elevation_deg from -90 to 90".into());
                }
                (*gain_dbi, *beamwidth_deg, *floor_db)
            }
            Self::Table { .. } => (0.0, 90.0, 20.0),
        };
        let of = |name: &str, value: f64, from: f64, to: f64| {
            (!(from..=to).contains(&value)).then(|| format!("{name} is {value}; it must be from {from} to {to}"))
        };
        of("gain_dbi", gain, -20.0, 60.0)
            .or_else(|| of("beamwidth_deg", width, 1.0, 170.0))
            .or_else(|| of("floor_db", floor, 0.0, 60.0))
    }
}

impl Pattern {
    /// Reads a CSV with the columns `elevation_deg` and `gain_dbi`; lines with `#` are comments. Elevations grow, from
    /// -90 to 90; a pattern that begins at 0 or above counts for below the horizon as well.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let (line, header) = lines.next().ok_or_else(|| ParseError::file("is empty"))?;
        if header.split(',').map(str::trim).ne(["elevation_deg", "gain_dbi"]) {
            return Err(ParseError::line(line, format!("{}: the header is elevation_deg,gain_dbi", quote(header))));
        }
        let mut rows: Vec<(f64, f64)> = Vec::new();
        for (line, text) in lines {
            let pair = text.split_once(',').and_then(|(elevation, gain)| Some((number(elevation)?, number(gain)?)));
            let (elevation, gain) =
                pair.ok_or_else(|| ParseError::line(line, format!("{}: two numbers", quote(text))))?;
            if !(-90.0..=90.0).contains(&elevation) || !(-100.0..=60.0).contains(&gain) {
                return Err(ParseError::line(line, "elevation is from -90 to 90 degrees, gain from -100 to 60 dBi"));
            }
            if rows.last().is_some_and(|last| last.0 >= elevation) {
                return Err(ParseError::line(line, "elevations have to grow"));
            }
            if rows.len() == MAX_ROWS {
                return Err(ParseError::line(line, format!("more than {MAX_ROWS} rows")));
            }
            rows.push((elevation, gain));
        }
        if rows.is_empty() {
            return Err(ParseError::file("has no rows"));
        }
        Ok(Self(rows))
    }

    /// Between rows in proportion, beyond them as the last one.
    fn gain_dbi(&self, elevation_deg: f64) -> f64 {
        let Self(rows) = self;
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return 0.0 };
        let at = if first.0 >= 0.0 { elevation_deg.abs() } else { elevation_deg };
        let above = rows.partition_point(|row| row.0 < at);
        match (above.checked_sub(1).and_then(|below| rows.get(below)), rows.get(above)) {
            (Some(below), Some(above)) => below.1 + (above.1 - below.1) * (at - below.0) / (above.0 - below.0),
            (None, _) => first.1,
            (_, None) => last.1,
        }
    }
}

/// How far below its best a cosⁿ lobe is, dB.
fn lobe_db(cos: f64, beamwidth_deg: f64) -> f64 {
    let half = (beamwidth_deg / 2.0).to_radians().cos();
    let n = 0.5f64.log10() / half.log10();
    -10.0 * n * cos.max(1e-12).log10()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_lobe_is_half_as_strong_at_half_its_width() {
        let omni = Antenna::Omni { gain_dbi: 6.0, beamwidth_deg: 30.0, floor_db: 20.0 };
        assert!((omni.gain_dbi(0.0, 77.0) - 6.0).abs() < 1e-12);
        assert!((omni.gain_dbi(15.0, 0.0) - 2.9897).abs() < 1e-3);
        assert_eq!(omni.gain_dbi(90.0, 0.0), -14.0);
        let patch = Antenna::Patch {
            gain_dbi: 9.0,
            beamwidth_deg: 60.0,
            bearing_deg: 90.0,
            elevation_deg: 30.0,
            floor_db: 25.0,
        };
        assert!((patch.gain_dbi(30.0, 90.0) - 9.0).abs() < 1e-9);
        assert!((patch.gain_dbi(60.0, 90.0) - 5.9897).abs() < 1e-3);
        assert_eq!(patch.gain_dbi(-30.0, 270.0), -16.0);
    }

    #[test]
    fn a_dipole_is_78_degrees_wide() {
        // Balanis, §4.6: the half-wave dipole's half-power beam width is 78 degrees.
        let dipole = Antenna::Dipole { floor_db: 20.0 };
        assert!((dipole.gain_dbi(39.0, 0.0) - (2.15 - 3.0)).abs() < 0.03);
        assert_eq!(dipole.gain_dbi(-90.0, 0.0), 2.15 - 20.0);
        assert_eq!(dipole.peak_dbi(), dipole.gain_dbi(0.0, 0.0));
    }

    #[test]
    fn a_pattern_is_read_and_mirrored() {
        let pattern = Pattern::parse("# l-com\nelevation_deg,gain_dbi\n0,6\n30,0\n90,-10\n").unwrap();
        let antenna = Antenna::Table { file: "x".into(), pattern };
        assert_eq!(antenna.gain_dbi(15.0, 0.0), 3.0);
        assert_eq!(antenna.gain_dbi(-60.0, 0.0), -5.0);
        assert_eq!(antenna.peak_dbi(), 6.0);
        for (text, place) in [
            ("", "is empty"),
            ("a,b\n", "line 1"),
            ("elevation_deg,gain_dbi\n", "no rows"),
            ("elevation_deg,gain_dbi\n0,1\n0,2\n", "line 3: elevations have to grow"),
            ("elevation_deg,gain_dbi\n0,nan\n", "line 2"),
            ("elevation_deg,gain_dbi\n91,0\n", "line 2: elevation is from"),
        ] {
            let error = Pattern::parse(text).unwrap_err().to_string();
            assert!(error.contains(place), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn gains_are_finite_and_never_above_the_best(elevation in -90.0..90.0f64, bearing in -720.0..720.0f64) {
            for antenna in [
                Antenna::Omni { gain_dbi: 6.0, beamwidth_deg: 25.0, floor_db: 20.0 },
                Antenna::Dipole { floor_db: 30.0 },
                Antenna::Patch { gain_dbi: 9.0, beamwidth_deg: 60.0, bearing_deg: 10.0, elevation_deg: 5.0, floor_db: 20.0 },
            ] {
                let gain = antenna.gain_dbi(elevation, bearing);
                prop_assert!(gain.is_finite() && gain <= antenna.peak_dbi() + 1e-9);
            }
        }
    }
}
