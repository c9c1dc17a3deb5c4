//! ArduPilot's DataFlash logs (.bin), which describe themselves: each record is A3 95, a type and its fields, and
//! records of type FMT say name, length, format characters and labels of a type [ArduPilot,
//! `AP_Logger/LogStructure.h`].
//!
//! Read are positions (POS, else GPS) and attitudes (ATT), by their labels. Bytes that are no record are passed over to
//! the next A3 95 of a known type and counted, since logs have gaps where the writer fell behind; more than half of the
//! file is an error.

use super::{Attitude, Collector, FlightLog};
use crate::fault::ParseError;
use crate::geodesy::Position;

/// How each record begins.
const MAGIC: [u8; 2] = [0xa3, 0x95];
/// How a log begins: with the format of formats.
pub const HEAD: [u8; 3] = [0xa3, 0x95, FMT];
/// The type of formats.
const FMT: u8 = 128;
/// Its length: header, type, length, name of 4, format of 16, labels of 64.
const FMT_LENGTH: usize = 3 + 2 + 4 + 16 + 64;

/// What a type looks like.
#[derive(Debug, Clone, Default)]
struct Format {
    length: usize,
    name: [u8; 4],
    fields: Vec<Field>,
}

#[derive(Debug, Clone)]
struct Field {
    label: String,
    kind: u8,
    offset: usize,
}

/// Reads one.
///
/// # Errors
/// The first format that makes no sense, or that there are no positions.
pub fn parse(bytes: &[u8]) -> Result<FlightLog, ParseError> {
    let mut formats: Vec<Option<Format>> = vec![None; 256];
    let (mut pos, mut gps) = (Collector::default(), Collector::default());
    let (mut at, mut skipped) = (0, 0usize);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let kind = (rest.len() > 2 && rest[..2] == MAGIC).then(|| rest[2]);
        let length = match kind {
            Some(FMT) => FMT_LENGTH,
            Some(kind) => formats[usize::from(kind)].as_ref().map_or(0, |format| format.length),
            None => 0,
        };
        if length == 0 || length > rest.len() {
            let next = rest[1..].windows(2).position(|pair| pair == MAGIC).map_or(rest.len(), |next| next + 1);
            skipped += next;
            at += next;
            continue;
        }
        let record = &rest[..length];
        match kind {
            Some(FMT) => {
                let (number, format) = format(record).map_err(|reason| ParseError::byte(at, reason))?;
                formats[usize::from(number)] = Some(format);
            }
            Some(kind) => {
                if let Some(format) = &formats[usize::from(kind)] {
                    take(format, record, &mut pos, &mut gps).map_err(|reason| ParseError::byte(at, reason))?;
                }
            }
            None => {}
        }
        at += length;
    }
    if skipped > bytes.len() / 2 {
        return Err(ParseError::file(format!("{skipped} of {} bytes are no records of a DataFlash log", bytes.len())));
    }
    let mut notes = Vec::new();
    if skipped > 0 {
        notes.push(format!("{skipped} bytes that are no records were passed over"));
    }
    if pos.fixes.is_empty() {
        pos.fixes = std::mem::take(&mut gps.fixes);
        pos.backwards = gps.backwards;
    }
    pos.finish(notes)
}

fn format(record: &[u8]) -> Result<(u8, Format), String> {
    let (number, length) = (record[3], usize::from(record[4]));
    let name = [record[5], record[6], record[7], record[8]];
    let kinds = ascii(&record[9..25]);
    // Of others the length is enough.
    let is_read = [&b"POS\0"[..], b"GPS\0", b"ATT\0"].contains(&&name[..]);
    let mut offset = 3;
    let mut fields = Vec::new();
    for (n, kind) in kinds.bytes().enumerate().filter(|_| is_read) {
        let width = width(kind)
            .ok_or_else(|| format!("{} has a field of the unknown kind '{}'", ascii(&name), kind as char))?;
        let label = ascii(&record[25..]).split(',').nth(n).unwrap_or_default().to_owned();
        fields.push(Field { label, kind, offset });
        offset += width;
    }
    if is_read && length != offset {
        return Err(format!("{} is said to have {length} bytes, its fields have {offset}", ascii(&name)));
    }
    // Without a header it would be no record, and its reading would not end.
    if length < 3 {
        return Err(format!("type {number} ({}) is said to have {length} bytes", ascii(&name)));
    }
    Ok((number, Format { length, name, fields }))
}

/// Up to the first zero; what is not ASCII is left out.
fn ascii(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes[..end].iter().filter(|byte| byte.is_ascii_graphic()).map(|byte| *byte as char).collect()
}

/// Bytes of a kind of field.
fn width(kind: u8) -> Option<usize> {
    Some(match kind {
        b'b' | b'B' | b'M' => 1,
        b'h' | b'H' | b'c' | b'C' | b'g' => 2,
        b'i' | b'I' | b'e' | b'E' | b'L' | b'f' | b'n' => 4,
        b'q' | b'Q' | b'd' => 8,
        b'N' => 16,
        b'a' | b'Z' => 64,
        _ => return None,
    })
}

fn take(format: &Format, record: &[u8], pos: &mut Collector, gps: &mut Collector) -> Result<(), String> {
    let name = ascii(&format.name);
    let value = |label: &str| {
        let field = format.fields.iter().find(|field| field.label == label)?;
        number(field.kind, record.get(field.offset..)?)
    };
    let Some(at_s) = value("TimeUS").map(|us| us / 1e6) else { return Ok(()) };
    match name.as_str() {
        "POS" | "GPS" => {
            // Without a fix latitude and longitude are 0.
            let place = (value("Lat"), value("Lng"), value("Alt"));
            let (Some(latitude), Some(longitude), Some(altitude)) = place else { return Ok(()) };
            let Some(position) = Position::new(latitude, longitude, altitude) else { return Ok(()) };
            // A second receiver writes records of the same name, with another number.
            let is_first = value("I").is_none_or(|instance| instance == 0.0);
            if (latitude, longitude) != (0.0, 0.0) && is_first {
                return if name == "POS" { pos.fix(at_s, position) } else { gps.fix(at_s, position) };
            }
        }
        "ATT" => {
            let angles = (value("Roll"), value("Pitch"), value("Yaw"));
            let (Some(roll), Some(pitch), Some(yaw)) = angles else { return Ok(()) };
            let wrap = crate::geodesy::wrap_180;
            pos.attitude(Attitude { at_s, roll_deg: wrap(roll), pitch_deg: wrap(pitch), yaw_deg: wrap(yaw) });
        }
        _ => {}
    }
    Ok(())
}

/// A field as a number, in its unit; `None` of text, and of what is not finite.
fn number(kind: u8, bytes: &[u8]) -> Option<f64> {
    let two = || bytes.first_chunk::<2>().map(|bytes| u16::from_le_bytes(*bytes));
    let four = || bytes.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
    let eight = || bytes.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
    let value = match kind {
        b'b' => f64::from(*bytes.first()? as i8),
        b'B' | b'M' => f64::from(*bytes.first()?),
        b'h' => f64::from(two()? as i16),
        b'H' => f64::from(two()?),
        b'c' => f64::from(two()? as i16) / 100.0,
        b'C' => f64::from(two()?) / 100.0,
        b'i' => f64::from(four()? as i32),
        b'I' => f64::from(four()?),
        b'e' => f64::from(four()? as i32) / 100.0,
        b'E' => f64::from(four()?) / 100.0,
        b'L' => f64::from(four()? as i32) / 1e7,
        b'f' => f64::from(f32::from_bits(four()?)),
        b'd' => f64::from_bits(eight()?),
        b'q' => eight()? as i64 as f64,
        b'Q' => eight()? as f64,
        _ => return None,
    };
    value.is_finite().then_some(value)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fmt(number: u8, length: u8, name: &str, kinds: &str, labels: &str) -> Vec<u8> {
        let mut record = vec![0xa3, 0x95, FMT, number, length];
        for (text, size) in [(name, 4), (kinds, 16), (labels, 64)] {
            let mut field = text.as_bytes().to_vec();
            field.resize(size, 0);
            record.extend(field);
        }
        record
    }

    /// Seconds of a straight flight.
    pub fn sample(seconds: u32) -> Vec<u8> {
        let mut log = fmt(128, 89, "FMT", "BBnNZ", "Type,Length,Name,Format,Columns");
        log.extend(fmt(1, 3 + 8 + 4 + 4 + 4, "POS", "QLLf", "TimeUS,Lat,Lng,Alt"));
        log.extend(fmt(2, 3 + 8 + 2 + 2 + 2, "ATT", "QccC", "TimeUS,Roll,Pitch,Yaw"));
        for second in 0..seconds {
            let at = (5_000_000 + u64::from(second) * 1_000_000).to_le_bytes();
            log.extend([0xa3, 0x95, 1]);
            log.extend(at);
            log.extend((634_400_000i32 + second as i32 * 1_000).to_le_bytes());
            log.extend(103_500_000i32.to_le_bytes());
            log.extend(210.5f32.to_le_bytes());
            log.extend([0xa3, 0x95, 2]);
            log.extend(at);
            for angle in [-1_250i16, 300, 9_000] {
                log.extend(angle.to_le_bytes());
            }
        }
        log
    }

    #[test]
    fn it_is_read_by_its_own_description() {
        let log = parse(&sample(4)).unwrap();
        assert_eq!((log.fixes.len(), log.start_s), (4, 5.0));
        assert_eq!(log.fixes[3].position, Position::new(63.4403, 10.35, 210.5).unwrap());
        assert_eq!(log.attitudes[3], Attitude { at_s: 3.0, roll_deg: -12.5, pitch_deg: 3.0, yaw_deg: 90.0 });
        assert_eq!(super::super::parse(&sample(4)).unwrap(), log);
    }

    #[test]
    fn gaps_are_passed_over_and_nonsense_is_refused() {
        let mut bytes = sample(4);
        bytes.splice(300..300, [0x00, 0xa3, 0x95, 0x77, 0xa3]);
        let log = parse(&bytes).unwrap();
        assert!(log.fixes.len() >= 3 && log.notes[0].contains("passed over"), "{:?}", log.notes);
        let wrong = [fmt(128, 89, "FMT", "BBnNZ", "x"), fmt(1, 12, "POS", "QLLf", "TimeUS,Lat,Lng,Alt")].concat();
        let error = parse(&wrong).unwrap_err().to_string();
        assert!(error.contains("byte 89") && error.contains("12 bytes, its fields have 23"), "{error}");
        let error = parse(&fmt(1, 4, "ATT", "?", "A")).unwrap_err().to_string();
        assert!(error.contains("unknown kind '?'"), "{error}");
        assert!(parse(&fmt(1, 2, "X", "B", "A")).unwrap_err().to_string().contains("said to have 2 bytes"));
        // What is not read may look as it likes.
        let odd = [fmt(9, 5, "NEW", "??", "A,B"), sample(3), vec![0xa3, 0x95, 9, 1, 2]].concat();
        assert_eq!(parse(&odd).unwrap().fixes, parse(&sample(3)).unwrap().fixes);
        assert!(parse(&[sample(2), vec![0xff; 1_000]].concat()).unwrap_err().to_string().contains("no records"));
        assert!(parse(&sample(0)).unwrap_err().to_string().contains("no positions"));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(at in 0usize..400, byte: u8, cut in 0usize..400) {
            let mut bytes = sample(3);
            let length = bytes.len();
            bytes[at % length] = byte;
            bytes.truncate(length - cut % length);
            let _ = parse(&bytes);
        }
    }
}
