//! A number in the picture that survives compression.
//!
//! Each bit is a black or white cell of one macroblock, aligned to the macroblocks of the encoder, so that even the coarsest quantiser
//! keeps it: a flat block costs a few bits only. 24 bits of number are followed by 8 of checksum, most significant first, in two rows.

use super::picture::Yuv;

/// Luma pixels across a cell: a macroblock of H.264.
const CELL: usize = 16;
/// Where the first cell stands.
const LEFT: usize = CELL;
const TOP: usize = CELL;
const COLUMNS: usize = 16;
const ROWS: usize = 2;
/// Bits of the number; larger ones wrap.
const NUMBER_BITS: u32 = 24;
const BLACK: u8 = 16;
const WHITE: u8 = 235;
/// A cell must be this far from the middle to be read.
const CONTRAST: u32 = 40;

/// Smallest picture that holds the cells.
pub(super) const MIN_WIDTH: usize = LEFT + COLUMNS * CELL;
pub(super) const MIN_HEIGHT: usize = TOP + ROWS * CELL;

/// Writes the number, modulo 2²⁴. The picture is at least `MIN_WIDTH` by `MIN_HEIGHT`.
pub(super) fn write_frame_number(picture: &mut Yuv, number: u32) {
    let number = number % (1 << NUMBER_BITS);
    let word = number << 8 | u32::from(checksum(number));
    let width = picture.width();
    let (y, u, v) = picture.planes_mut();
    for (row, column) in cells() {
        let bit = word >> (31 - (row * COLUMNS + column)) & 1;
        let value = if bit == 1 { WHITE } else { BLACK };
        let (left, top) = (LEFT + column * CELL, TOP + row * CELL);
        for line in top..top + CELL {
            y[line * width + left..][..CELL].fill(value);
        }
        for line in top / 2..(top + CELL) / 2 {
            let start = line * width / 2 + left / 2;
            u[start..start + CELL / 2].fill(128);
            v[start..start + CELL / 2].fill(128);
        }
    }
}

/// Reads the number that a [`Scene`](super::Scene) has written into its picture (modulo 2²⁴), from the picture or from what a decoder has
/// made of it. `None`: there is none, or it cannot be read with certainty.
pub fn read_frame_number(picture: &Yuv) -> Option<u32> {
    if picture.width() < MIN_WIDTH || picture.height() < MIN_HEIGHT {
        return None;
    }
    let mut word = 0;
    for (row, column) in cells() {
        let mean = middle_of(picture, LEFT + column * CELL, TOP + row * CELL);
        if mean.abs_diff(128) < CONTRAST {
            return None;
        }
        word = word << 1 | u32::from(mean > 128);
    }
    let number = word >> 8;
    (checksum(number) == word as u8).then_some(number)
}

/// Row by row, as the bits are read.
fn cells() -> impl Iterator<Item = (usize, usize)> {
    (0..ROWS).flat_map(|row| (0..COLUMNS).map(move |column| (row, column)))
}

/// Mean luma of the cell's inner half, which its neighbours do not smear into.
fn middle_of(picture: &Yuv, left: usize, top: usize) -> u32 {
    const MARGIN: usize = CELL / 4;
    const INNER: usize = CELL - 2 * MARGIN;
    let lines = top + MARGIN..top + CELL - MARGIN;
    let sum: u32 = lines
        .map(|line| {
            let start = line * picture.width() + left + MARGIN;
            picture.y()[start..start + INNER].iter().map(|y| u32::from(*y)).sum::<u32>()
        })
        .sum();
    sum / (INNER * INNER) as u32
}

/// CRC-8 (polynomial 0x07) over the three bytes, begun with all ones so that a black picture is not number zero.
fn checksum(number: u32) -> u8 {
    let mut crc = 0xFF;
    for byte in &number.to_be_bytes()[1..] {
        crc ^= byte;
        for _ in 0..8 {
            crc = if crc & 0x80 == 0 { crc << 1 } else { crc << 1 ^ 0x07 };
        }
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back() {
        let mut picture = Yuv::new(640, 360);
        for number in [0, 1, 2, 255, 256, 65_535, 1 << 23, (1 << 24) - 1] {
            write_frame_number(&mut picture, number);
            assert_eq!(read_frame_number(&picture), Some(number));
        }
        write_frame_number(&mut picture, (1 << 24) + 5);
        assert_eq!(read_frame_number(&picture), Some(5));
    }

    #[test]
    fn pictures_without_a_number_are_refused() {
        assert_eq!(read_frame_number(&Yuv::new(640, 360)), None);
        assert_eq!(read_frame_number(&Yuv::new(64, 64)), None);
        let mut grey = Yuv::new(640, 360);
        grey.planes_mut().0.fill(128);
        assert_eq!(read_frame_number(&grey), None);
        let mut white = Yuv::new(640, 360);
        white.planes_mut().0.fill(235);
        assert_eq!(read_frame_number(&white), None);
    }

    #[test]
    fn one_wrong_cell_is_noticed() {
        let mut picture = Yuv::new(MIN_WIDTH, MIN_HEIGHT);
        for (row, column) in cells() {
            write_frame_number(&mut picture, 1_234_567);
            let width = picture.width();
            for line in 0..CELL {
                let start = (TOP + row * CELL + line) * width + LEFT + column * CELL;
                picture.planes_mut().0[start..start + CELL].iter_mut().for_each(|y| *y = 251 - *y);
            }
            assert_eq!(read_frame_number(&picture), None);
        }
    }
}
