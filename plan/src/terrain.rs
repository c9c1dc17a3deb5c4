//! Ground that may be in the way, or too near: a grid of heights.
//!
//! The format is the ESRI ASCII grid: six lines of header (`ncols`, `nrows`, `xllcorner` or `xllcenter`, `yllcorner` or
//! `yllcenter`, `cellsize`, optionally `NODATA_value`), then rows of heights from north to south. Here coordinates and cell size
//! are degrees of longitude and latitude, heights metres above the sea, and what has no data is sea. Between cells
//! heights are interpolated; outside the grid there is sea.

use crate::fault::{ParseError, number, quote};
use crate::geodesy::{EARTH_RADIUS_M, Frame, Local, Position};
use crate::obstruction::knife_edge_db;

/// Cells of a grid; larger ones are refused (100 MB).
const MAX_CELLS: usize = 25_000_000;
/// Places on a path at which the ground is looked at, at most.
const MAX_STEPS: f64 = 500.0;

/// A grid.
#[derive(Debug, Clone, PartialEq)]
pub struct Terrain {
    columns: usize,
    rows: usize,
    /// Center of the south-western cell, degrees.
    west: f64,
    south: f64,
    cell_deg: f64,
    /// From north to south, each from west to east, m.
    heights: Vec<f32>,
}

impl Terrain {
    /// Reads one.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut lines = (1..).zip(text.lines()).peekable();
        let mut header = Header::default();
        while let Some((line, text)) = lines.next_if(|(_, line)| {
            line.trim().is_empty() || line.trim_start().starts_with(|c: char| c.is_ascii_alphabetic())
        }) {
            header.read(text).map_err(|reason| ParseError::line(line, reason))?;
        }
        let mut grid = header.grid().map_err(ParseError::file)?;
        let cells = grid.columns * grid.rows;
        let mut last = 0;
        for (line, text) in lines {
            last = line;
            for word in text.split_ascii_whitespace() {
                let height =
                    number(word).ok_or_else(|| ParseError::line(line, format!("{} is no height", quote(word))))?;
                let is_data = header.nodata != Some(height);
                if is_data && !(-12_000.0..=9_000.0).contains(&height) {
                    return Err(ParseError::line(
                        line,
                        format!("a height of {height} m; from -12,000 to 9000 are known"),
                    ));
                }
                if grid.heights.len() == cells {
                    return Err(ParseError::line(line, format!("more than {cells} heights")));
                }
                grid.heights.push(if is_data { height as f32 } else { 0.0 });
            }
        }
        match grid.heights.len() {
            found if found == cells => Ok(grid),
            found => Err(ParseError::line(last.max(1), format!("ends after {found} heights; there should be {cells}"))),
        }
    }

    /// Height of the ground at a place, m above the sea; 0 outside the grid.
    pub fn height_m(&self, latitude_deg: f64, longitude_deg: f64) -> f64 {
        let x = (longitude_deg - self.west) / self.cell_deg;
        let y = (self.rows - 1) as f64 - (latitude_deg - self.south) / self.cell_deg;
        let (right, bottom) = ((self.columns - 1) as f64, (self.rows - 1) as f64);
        if !(-0.5..=right + 0.5).contains(&x) || !(-0.5..=bottom + 0.5).contains(&y) {
            return 0.0;
        }
        let (x, y) = (x.clamp(0.0, right), y.clamp(0.0, bottom));
        let cell = |column: f64, row: f64| {
            f64::from(self.heights[row.min(bottom) as usize * self.columns + column.min(right) as usize])
        };
        let (column, row) = (x.floor(), y.floor());
        let (share_x, share_y) = (x - column, y - row);
        let north = cell(column, row) * (1.0 - share_x) + cell(column + 1.0, row) * share_x;
        let south = cell(column, row + 1.0) * (1.0 - share_x) + cell(column + 1.0, row + 1.0) * share_x;
        north * (1.0 - share_y) + south * share_y
    }

    /// Loss over the edge that is most in the way between the origin of a frame and a place, dB [ITU-R P.526-15 §4.1;
    /// of several edges the worst one only].
    /// Waves are bent as if the Earth's radius were `earth_factor` times what it is.
    pub fn loss_db(&self, frame: &Frame, there: Position, wavelength_m: f64, earth_factor: f64) -> f64 {
        let local = frame.to_local(there);
        let length = local.length();
        let cell_m = self.cell_deg * 111_000.0 * there.latitude_deg.to_radians().cos();
        let step = (cell_m / 8.0).max(length / MAX_STEPS).max(1.0);
        let mut worst = f64::NEG_INFINITY;
        let mut along = step;
        while along < length - step {
            let share = along / length;
            let on_line =
                frame.to_global(Local { east: local.east * share, north: local.north * share, up: local.up * share });
            // The line is straight and the Earth below it round. What the waves take is an arc above the line: with a factor
            // of 4/3 by a quarter of what the Earth rises to it.
            let bent = along * (length - along) / 2.0 * (1.0 / EARTH_RADIUS_M - 1.0 / (earth_factor * EARTH_RADIUS_M));
            let above = self.height_m(on_line.latitude_deg, on_line.longitude_deg) - on_line.altitude_m - bent;
            worst = f64::max(worst, above * (2.0 / wavelength_m * (1.0 / along + 1.0 / (length - along))).sqrt());
            along += step;
        }
        knife_edge_db(worst)
    }

    /// The highest ground within a distance of a place, m above the sea.
    pub fn highest_m(&self, around: Position, within_m: f64) -> f64 {
        let frame = Frame::new(around);
        let steps = 8;
        let mut highest = 0f64;
        for ring in 0..=steps {
            for spoke in 0..16 {
                let (sin, cos) = (f64::from(spoke) * std::f64::consts::TAU / 16.0).sin_cos();
                let radius = within_m * f64::from(ring) / f64::from(steps);
                let place = frame.place(radius * sin, radius * cos, around.altitude_m);
                highest = highest.max(self.height_m(place.latitude_deg, place.longitude_deg));
            }
        }
        highest
    }
}

#[derive(Debug, Default)]
struct Header {
    columns: Option<f64>,
    rows: Option<f64>,
    west: Option<(f64, bool)>,
    south: Option<(f64, bool)>,
    cell: Option<f64>,
    nodata: Option<f64>,
}

impl Header {
    fn read(&mut self, line: &str) -> Result<(), String> {
        let mut words = line.split_ascii_whitespace();
        let Some(key) = words.next() else { return Ok(()) };
        let value = words.next().and_then(number).ok_or_else(|| format!("{} needs a number", quote(key)))?;
        match key.to_ascii_lowercase().as_str() {
            "ncols" => self.columns = Some(value),
            "nrows" => self.rows = Some(value),
            "xllcorner" => self.west = Some((value, true)),
            "xllcenter" => self.west = Some((value, false)),
            "yllcorner" => self.south = Some((value, true)),
            "yllcenter" => self.south = Some((value, false)),
            "cellsize" => self.cell = Some(value),
            "nodata_value" => self.nodata = Some(value),
            _ => return Err(format!("{} is no key of an ESRI ASCII grid", quote(key))),
        }
        Ok(())
    }

    /// Without heights.
    fn grid(&self) -> Result<Terrain, String> {
        let (Some(columns), Some(rows), Some(west), Some(south), Some(cell)) =
            (self.columns, self.rows, self.west, self.south, self.cell)
        else {
            return Err("needs ncols, nrows, xllcorner, yllcorner and cellsize".into());
        };
        let is_count = |value: f64| (1.0..=MAX_CELLS as f64).contains(&value) && value.fract() == 0.0;
        if !is_count(columns) || !is_count(rows) || columns * rows > MAX_CELLS as f64 {
            return Err(format!("{columns} × {rows} cells; 1 to {MAX_CELLS} are known"));
        }
        if !(1e-6..=10.0).contains(&cell) {
            return Err(format!("cellsize is {cell}; degrees from 0.000001 to 10 are known: is the grid projected?"));
        }
        let center = |(value, is_corner): (f64, bool)| if is_corner { value + cell / 2.0 } else { value };
        let (west, south) = (center(west), center(south));
        if !(-180.0..=180.0).contains(&west) || !(-90.0..=90.0).contains(&south) {
            return Err("its corner is no place on Earth in degrees: is the grid projected?".into());
        }
        let (columns, rows) = (columns as usize, rows as usize);
        Ok(Terrain { columns, rows, west, south, cell_deg: cell, heights: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A ridge of 200 m from south to north, 0.01 degrees wide, at 10.03 degrees east.
    fn ridge() -> Terrain {
        let row = "0 0 0 200 0 0 0\n";
        let text = format!(
            "ncols 7\nnrows 5\nxllcenter 10.0\nyllcenter 62.98\ncellsize 0.01\nNODATA_value -9999\n{}",
            row.repeat(5)
        );
        Terrain::parse(&text).unwrap()
    }

    #[test]
    fn heights_are_where_they_are() {
        let text = "ncols 2\nnrows 2\nxllcorner 10\nyllcorner 60\ncellsize 1\nNODATA_value -1\n100 200\n-1 300\n";
        let grid = Terrain::parse(text).unwrap();
        assert_eq!(grid.height_m(61.5, 10.5), 100.0);
        assert_eq!(grid.height_m(60.5, 11.5), 300.0);
        assert_eq!(grid.height_m(60.5, 10.5), 0.0);
        assert_eq!(grid.height_m(61.0, 11.0), 150.0);
        assert_eq!(grid.height_m(70.0, 10.5), 0.0);
        assert_eq!(grid.highest_m(Position::new(60.5, 10.5, 0.0).unwrap(), 1_000.0).round(), 5.0);
    }

    #[test]
    fn a_ridge_is_in_the_way_of_what_flies_low() {
        let frame = Frame::new(Position::new(63.0, 10.0, 10.0).unwrap());
        let loss = |altitude| ridge().loss_db(&frame, Position::new(63.0, 10.06, altitude).unwrap(), 0.0535, 4.0 / 3.0);
        assert_eq!(loss(1_500.0), 0.0);
        // 200 m of rock over a line at 55 m, 1.5 km from either end: ν = 145 √(2/λ · 2/1513) = 32.
        assert!((loss(100.0) - (13.0 + 20.0 * 32f64.log10())).abs() < 1.5, "{}", loss(100.0));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let header = "ncols 2\nnrows 1\nxllcorner 10\nyllcorner 60\ncellsize 1\n";
        for (text, wanted) in [
            ("".into(), "needs ncols"),
            (format!("{header}1\n"), "line 6: ends after 1 heights"),
            (format!("{header}1 2 3\n"), "line 6: more than 2"),
            (format!("{header}1 x\n"), "line 6: 'x' is no height"),
            (format!("{header}1 1e9\n"), "line 6: a height of"),
            ("nfoo 3\n".into(), "line 1: 'nfoo' is no key"),
            ("ncols\n".into(), "line 1: 'ncols' needs a number"),
            (header.replace("ncols 2", "ncols 1e9"), "1 to 25000000"),
            (header.replace("xllcorner 10", "xllcorner 500000"), "projected"),
        ] {
            let error = Terrain::parse(&text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_place_has_a_height(latitude in -90.0..90.0f64, longitude in -180.0..180.0f64, altitude in 0.0..1e4f64) {
            let height = ridge().height_m(latitude, longitude);
            prop_assert!((0.0..=200.0).contains(&height));
            let frame = Frame::new(Position::new(63.0, 10.0, 10.0).unwrap());
            prop_assert!(ridge().loss_db(&frame, Position::new(latitude, longitude, altitude).unwrap(), 0.05, 4.0 / 3.0) >= 0.0);
        }
    }
}
