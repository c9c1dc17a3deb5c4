//! `QGC WPL 110`: text, a line for each item, 12 columns between tabs [mavlink.io, File Formats, Mission Plain-Text File Format]:
//! index, current, frame, command, four parameters, latitude, longitude, altitude, autocontinue. Item 0 is home.

use std::fmt::Write;

use super::{Item, MAX_ITEMS, Mission, frame};
use crate::fault::{ParseError, number, quote};

const HEADER: &str = "QGC WPL 110";

/// Reads one. Columns may be apart by blanks, as other programs write them.
///
/// # Errors
/// The first line that is wrong.
pub fn parse(text: &str) -> Result<Mission, ParseError> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let (line, header) = lines.next().ok_or_else(|| ParseError::file("is empty"))?;
    if header.trim() != HEADER {
        return Err(ParseError::line(line, format!("begins with {}, not with '{HEADER}'", quote(header))));
    }
    let mut mission = Mission::default();
    for (line, text) in lines {
        let item = item(text).map_err(|reason| ParseError::line(line, reason))?;
        if mission.items.len() == MAX_ITEMS {
            return Err(ParseError::line(line, format!("more than {MAX_ITEMS} items")));
        }
        let expected = mission.items.len() as u32 + u32::from(mission.home.is_some());
        if item.number != expected {
            return Err(ParseError::line(line, format!("is item {}; {expected} should follow", item.number)));
        }
        match item.number {
            0 => mission.home = Some([item.latitude_deg, item.longitude_deg, item.altitude_m]),
            _ => mission.items.push(item),
        }
    }
    match mission.home {
        Some(_) => Ok(mission),
        None => Err(ParseError::file("has no items")),
    }
}

fn item(line: &str) -> Result<Item, String> {
    let fields: Vec<&str> = line.split_whitespace().take(13).collect();
    let Ok(fields): Result<[&str; 12], _> = fields.try_into() else {
        return Err(format!("{} columns; there are 12", line.split_whitespace().count()));
    };
    let whole = |n: usize, name: &str, most: u64| {
        let value = fields[n].parse::<u64>().ok().filter(|value| *value <= most);
        value.ok_or_else(|| format!("{name} is {}; a whole number from 0 to {most}", quote(fields[n])))
    };
    // Mission Planner writes NaN where a parameter is not given.
    let real = |n: usize, name: &str| match fields[n].eq_ignore_ascii_case("nan") {
        true => Ok(0.0),
        false => number(fields[n]).ok_or_else(|| format!("{name} is {}, not a number", quote(fields[n]))),
    };
    let item = Item {
        number: whole(0, "the index", MAX_ITEMS as u64)? as u32,
        frame: whole(2, "the frame", 255)? as u8,
        command: whole(3, "the command", 65_535)? as u16,
        params: [real(4, "parameter 1")?, real(5, "parameter 2")?, real(6, "parameter 3")?, real(7, "parameter 4")?],
        latitude_deg: real(8, "the latitude")?,
        longitude_deg: real(9, "the longitude")?,
        altitude_m: real(10, "the altitude")?,
        autocontinue: whole(11, "autocontinue", 1)? == 1,
    };
    whole(1, "current", 1)?;
    item.check()?;
    Ok(item)
}

/// Writes a mission. What [`parse`] reads of it is the same again, but for notes and numbers.
pub fn write(mission: &Mission) -> String {
    let mut text = format!("{HEADER}\n");
    let home = mission.home.unwrap_or_default();
    let _ = writeln!(text, "0\t1\t{}\t16\t0\t0\t0\t0\t{}\t{}\t{}\t1", frame::GLOBAL, home[0], home[1], home[2]);
    for item in mission.renumbered() {
        let ([a, b, c, d], number) = (item.params, item.number);
        let _ = writeln!(
            text,
            "{number}\t0\t{}\t{}\t{a}\t{b}\t{c}\t{d}\t{}\t{}\t{}\t{}",
            item.frame,
            item.command,
            item.latitude_deg,
            item.longitude_deg,
            item.altitude_m,
            u8::from(item.autocontinue)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mission::command;

    const SAMPLE: &str = "QGC WPL 110\r\n\
        0\t1\t0\t16\t0\t0\t0\t0\t63.44\t10.35\t2.5\t1\r\n\
        1\t0\t3\t22\t15\tnan\t0\t0\t0\t0\t100\t1\r\n\
        2 0 3 18 2 0 -400 1 63.4412345678901 10.36 300 1\n";

    #[test]
    fn it_is_read() {
        let mission = parse(SAMPLE).unwrap();
        assert_eq!(mission.home, Some([63.44, 10.35, 2.5]));
        assert_eq!(mission.items.len(), 2);
        let loiter = mission.items[1];
        assert_eq!((loiter.command, loiter.frame, loiter.number), (command::LOITER_TURNS, frame::RELATIVE, 2));
        assert_eq!((loiter.params, loiter.latitude_deg), ([2.0, 0.0, -400.0, 1.0], 63.441_234_567_890_1));
        assert!(!mission.items[0].has_place() && loiter.has_place());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let home = "QGC WPL 110\n0\t1\t0\t16\t0\t0\t0\t0\t63\t10\t2\t1\n";
        for (text, wanted) in [
            (String::new(), "is empty"),
            ("QGC WPL 100\n".into(), "line 1: begins with 'QGC WPL 100'"),
            ("QGC WPL 110\n".into(), "has no items"),
            (format!("{home}1\t0\t3\n"), "line 3: 3 columns"),
            (format!("{home}2\t0\t3\t16\t0\t0\t0\t0\t63\t10\t2\t1\n"), "line 3: is item 2; 1 should follow"),
            (format!("{home}1\t0\t3\t16\t0\tx\t0\t0\t63\t10\t2\t1\n"), "parameter 2 is 'x'"),
            (format!("{home}1\t0\t3\t16\t0\t0\t0\t0\t91\t10\t2\t1\n"), "no place on Earth"),
            (format!("{home}1\t0\t3\t16\t0\t0\t0\t0\t63\t10\tinf\t1\n"), "altitude is 'inf'"),
            (format!("{home}1\t0\t3\t-16\t0\t0\t0\t0\t63\t10\t2\t1\n"), "the command is '-16'"),
        ] {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn jumps_to_nowhere_stay_as_they_are() {
        for target in ["0", "-3", "1.5", "2.75", "4", "1e4"] {
            let text = format!("{SAMPLE}3\t0\t2\t177\t{target}\t1\t0\t0\t0\t0\t0\t1\n");
            let mission = parse(&text).unwrap();
            assert_eq!(parse(&write(&mission)).unwrap(), mission, "{target}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            items in prop::collection::vec(
                (0u8..12, 0u16..300, prop::array::uniform4(-1e4..1e4f64), -90.0..90.0f64, -180.0..180.0f64, -99.0..9e3f64, any::<bool>()),
                0..20,
            ),
        ) {
            let items = (1..).zip(items).map(|(number, (frame, command, params, latitude_deg, longitude_deg, altitude_m, autocontinue))| {
                Item { number, frame, command, params, latitude_deg, longitude_deg, altitude_m, autocontinue }
            });
            let mission = Mission { home: Some([1.5, 2.25, 3.125]), items: items.collect(), notes: Vec::new() };
            prop_assert_eq!(parse(&write(&mission)).unwrap(), mission);
        }

        #[test]
        fn nothing_makes_it_panic(text in "(QGC WPL 110\n)?([0-9a-z.\t \n-]{0,80})") {
            let _ = parse(&text);
        }
    }
}
