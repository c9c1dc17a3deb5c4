//! A modem that takes AT commands on a serial line (3GPP TS 27.007, and Quectel's own).

use std::path::Path;
use std::time::Duration;

use aquila_proto::cc::Radio;
use serial2_tokio::SerialPort;
use tokio::time::{Instant, timeout_at};

const BAUD: u32 = 115_200;
/// Of an answer, more than any is long.
const MAX_ANSWER: usize = 4096;
/// Cell numbers are wanted with the registration; then the two standard questions, and Quectel's, which knows most.
const QUESTIONS: [&str; 4] = ["AT+CEREG=2", "AT+CEREG?", "AT+CESQ", "AT+QENG=\"servingcell\""];

/// Asks all questions once, in `patience` altogether.
pub(super) async fn look(path: &Path, port: &mut Option<SerialPort>, patience: Duration) -> Result<Radio, String> {
    let until = Instant::now() + patience;
    let mut known = Radio::default();
    let mut answered = false;
    for question in QUESTIONS {
        let answer = match ask(path, port, question, until).await {
            Ok(answer) => answer,
            Err(error) => {
                *port = None;
                return Err(error);
            }
        };
        answered |= !answer.is_empty();
        // Later ones know better.
        known = known.updated(&parse_answer(&answer));
    }
    if !answered {
        return Err("it answers with nothing".to_owned());
    }
    Ok(known)
}

async fn ask(path: &Path, port: &mut Option<SerialPort>, question: &str, until: Instant) -> Result<String, String> {
    if port.is_none() {
        let opened = SerialPort::open(path, BAUD).map_err(|error| {
            let hint = match error.kind() {
                std::io::ErrorKind::NotFound => " (is it plugged in? See `ls /dev/ttyUSB*`)",
                std::io::ErrorKind::PermissionDenied => " (add this user to the group dialout)",
                _ => "",
            };
            format!("{error}{hint}")
        })?;
        let _ = opened.discard_buffers();
        *port = Some(opened);
    }
    let Some(port) = port else { return Err("it is closed".to_owned()) };
    let line = format!("{question}\r");
    let written = timeout_at(until, port.write_all(line.as_bytes())).await;
    written.map_err(|_| "it does not read".to_owned())?.map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    let mut buffer = [0; 512];
    while !is_over(&answer) && answer.len() < MAX_ANSWER {
        match timeout_at(until, port.read(&mut buffer)).await {
            Err(_) => return Err("it does not answer (another program may use the line: ModemManager does)".to_owned()),
            Ok(Err(error)) => return Err(error.to_string()),
            Ok(Ok(0)) => return Err("the line is closed".to_owned()),
            Ok(Ok(len)) => answer.extend_from_slice(&buffer[..len]),
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Whether the result code is there.
fn is_over(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    text.lines().any(|line| matches!(line.trim(), "OK" | "ERROR") || line.starts_with("+CME ERROR"))
}

/// What the answer to `AT+QENG="servingcell"`, `AT+CESQ`, `AT+CEREG?`, `AT+C5GREG?` or `AT+CREG?` says; nothing of what is not
/// understood.
pub fn parse_answer(text: &str) -> Radio {
    text.lines().fold(Radio::default(), |known, line| {
        let Some((head, rest)) = line.trim().split_once(':') else { return known };
        let quoted: Vec<&str> = rest.split(',').map(str::trim).collect();
        let fields: Vec<&str> = quoted.iter().map(|field| field.trim_matches('"')).collect();
        let radio = match head {
            "+QENG" => serving_cell(&fields),
            "+CESQ" => quality(&fields),
            "+CEREG" | "+C5GREG" | "+CREG" | "+CGREG" => registration(&quoted),
            _ => return known,
        };
        known.updated(&radio)
    })
}

/// `+QENG: "servingcell",state,"LTE",duplex,mcc,mnc,cell,pcid,earfcn,band,ul,dl,tac,rsrp,rsrq,rssi,sinr,...`, and for 5G
/// `"NR5G-SA",duplex,mcc,mnc,cell,pcid,tac,arfcn,band,width,rsrp,rsrq,sinr,...`; with both at a time each on a line without
/// the first two fields, `"LTE",...` and `"NR5G-NSA",mcc,mnc,pcid,rsrp,sinr,rsrq,...`.
fn serving_cell(fields: &[&str]) -> Radio {
    let kind = fields.iter().position(|field| matches!(*field, "LTE" | "NR5G-SA" | "NR5G-NSA"));
    let Some((kind, rest)) = kind.and_then(|at| Some((fields[at], fields.get(at + 1..)?))) else {
        return Radio::default();
    };
    // Places of rsrp, rsrq, sinr.
    let places = match kind {
        "LTE" => [10, 11, 13],
        "NR5G-SA" => [9, 10, 11],
        _ => [3, 5, 4],
    };
    let [rsrp_dbm, rsrq_db, sinr] = places.map(|at| rest.get(at).and_then(|field| decibels(field)));
    // The LTE-only modems give fifths of a dB from -20 dB on, the newer ones dB. Below 30 fifths there is no service.
    let sinr_db = sinr.map(|sinr| if kind == "LTE" && sinr > 30.0 { sinr / 5.0 - 20.0 } else { sinr });
    let cell = match kind {
        "NR5G-NSA" => None,
        _ => cell(rest.get(1), rest.get(2), rest.get(3)),
    };
    Radio { altitude_m: None, cell, rsrp_dbm, rsrq_db, sinr_db }
}

/// `+CESQ: rxlev,ber,rscp,ecno,rsrq,rsrp`: steps of 0.5 dB from -20 dB on, and of 1 dB from -141 dBm on (3GPP TS 27.007 §8.69).
fn quality(fields: &[&str]) -> Radio {
    let step = |at: usize, most: f32| {
        let step = fields.get(at)?.parse::<u8>().ok().map(f32::from)?;
        (step <= most).then_some(step)
    };
    Radio {
        rsrq_db: step(4, 34.0).map(|step| step * 0.5 - 20.0),
        rsrp_dbm: step(5, 97.0).map(|step| step - 141.0),
        ..Radio::default()
    }
}

/// `+CEREG: 2,stat,"tac","cell",act` (§10.1.22), and what a modem says unasked when the cell is another one: `+CEREG: stat,"tac","cell",act`.
/// The fields are as they came, with their quotes.
fn registration(quoted: &[&str]) -> Radio {
    // Some modems leave the quotes out; stat has one or two digits, and tac four or more.
    let is_unasked = quoted.get(1).is_some_and(|field| field.starts_with('"') || field.len() > 2);
    let cell = quoted.get(if is_unasked { 2 } else { 3 }).map(|cell| cell.trim_matches('"'));
    let cell = cell.and_then(|cell| u64::from_str_radix(cell, 16).ok()).filter(|cell| *cell != 0);
    Radio { cell: cell.map(|cell| cell & 0xff_ffff_ffff), ..Radio::default() }
}

fn cell(mcc: Option<&&str>, mnc: Option<&&str>, cell: Option<&&str>) -> Option<u64> {
    let _ = (mcc?, mnc?);
    // The same number as in the registration, so that an answer to either is not another cell.
    u64::from_str_radix(cell?, 16).ok().filter(|cell| *cell != 0).map(|cell| cell & 0xff_ffff_ffff)
}

fn decibels(field: &str) -> Option<f32> {
    let number = field.parse::<i32>().ok()?;
    (-200..=250).contains(&number).then_some(number as f32)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn a_serving_cell_of_each_kind() {
        let lte = "\r\n+QENG: \"servingcell\",\"NOCONN\",\"LTE\",\"FDD\",262,01,1A2B3C4,123,1300,3,5,5,ABCD,-95,-10,-65,155,30\r\n\r\nOK\r\n";
        let radio = parse_answer(lte);
        let expected = Radio {
            altitude_m: None,
            cell: Some(0x1a2_b3c4),
            rsrp_dbm: Some(-95.0),
            rsrq_db: Some(-10.0),
            sinr_db: Some(11.0),
        };
        assert_eq!(radio, expected);
        assert_eq!(parse_answer(&lte.replace(",155,", ",12,")).sinr_db, Some(12.0), "newer modems give dB");
        let sa = "+QENG: \"servingcell\",\"CONNECT\",\"NR5G-SA\",\"TDD\",262,02,1000F4001,77,A1B2C3,627264,78,12,-88,-11,17,1,-";
        let radio = parse_answer(sa);
        assert_eq!((radio.cell, radio.rsrp_dbm, radio.sinr_db), (Some(0x1_000f_4001), Some(-88.0), Some(17.0)));
        let nsa = "+QENG: \"servingcell\",\"NOCONN\"\r\n+QENG: \"LTE\",\"FDD\",262,01,1A2B3C4,123,1300,3,5,5,ABCD,-95,-10,-65,15,30\r\n\
                   +QENG: \"NR5G-NSA\",262,01,500,-101,9,-12,627264,78";
        let radio = parse_answer(nsa);
        assert_eq!(
            (radio.cell, radio.rsrp_dbm, radio.rsrq_db, radio.sinr_db),
            (Some(0x1a2_b3c4), Some(-101.0), Some(-12.0), Some(9.0))
        );
    }

    #[test]
    fn the_standard_questions() {
        let radio = parse_answer("AT+CESQ\r\r\n+CESQ: 99,99,255,255,20,46\r\n\r\nOK\r\n");
        assert_eq!((radio.rsrq_db, radio.rsrp_dbm), (Some(-10.0), Some(-95.0)));
        assert_eq!(parse_answer("+CESQ: 99,99,255,255,255,255"), Radio::default());
        assert_eq!(parse_answer("+CEREG: 2,1,\"ABCD\",\"01A2B3C4\",7").cell, Some(0x1a2_b3c4));
        assert_eq!(parse_answer("+CEREG: 0,1"), Radio::default());
    }

    #[test]
    fn a_registration_that_is_told_unasked_names_the_same_cell_as_the_answer() {
        for (asked, unasked) in [
            ("+CEREG: 2,1,\"ABCD\",\"01A2B3C4\",7", "+CEREG: 1,\"ABCD\",\"01A2B3C4\",7"),
            ("+C5GREG: 2,5,\"00ABCD\",\"01A2B3C4\",11", "+C5GREG: 5,\"00ABCD\",\"01A2B3C4\",11,1,01"),
            ("+CREG: 2,1,00C3,1A2B3C4", "+CREG: 1,00C3,1A2B3C4"),
        ] {
            assert_eq!(parse_answer(asked).cell, Some(0x1a2_b3c4), "{asked}");
            assert_eq!(parse_answer(unasked).cell, Some(0x1a2_b3c4), "{unasked}");
            assert_eq!(
                parse_answer(&format!("{asked}\r\n{unasked}\r\nOK\r\n")).cell,
                Some(0x1a2_b3c4),
                "both, {asked}"
            );
        }
        // No cell, whatever stands behind.
        assert_eq!(parse_answer("+CEREG: 4,\"\",\"\",7"), Radio::default());
        assert_eq!(parse_answer("+CEREG: 2"), Radio::default());
    }

    /// A modem at the other end of a pseudo-terminal, which repeats what it is asked and answers with what `answer` has for that; it is unplugged when
    /// there is nothing.
    fn modem(answer: impl Fn(&str) -> Option<&'static str> + Send + 'static) -> std::path::PathBuf {
        let pair = nix::pty::openpty(None, None).unwrap();
        let path = nix::unistd::ttyname(&pair.slave).unwrap();
        let (slave, mut master) = (pair.slave, std::fs::File::from(pair.master));
        std::thread::spawn(move || {
            // It is there, whether somebody has opened it or not.
            let _slave = slave;
            let (mut line, mut byte) = (String::new(), [0]);
            while master.read_exact(&mut byte).is_ok() {
                line.push(byte[0].into());
                if byte == *b"\r" {
                    let Some(answer) = answer(line.trim_end()) else { return };
                    // In two pieces.
                    let said = format!("{line}\r\n{answer}\r\n");
                    let (one, other) = said.split_at(said.len() / 2);
                    for piece in [one, other] {
                        master.write_all(piece.as_bytes()).unwrap();
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    line.clear();
                }
            }
        });
        path
    }

    #[tokio::test]
    async fn a_modem_is_asked_all_questions_and_what_one_refuses_another_may_know() {
        let path = modem(|question| {
            Some(match question {
                "AT+CEREG=2" => "OK",
                "AT+CEREG?" => "+CEREG: 2,1,\"ABCD\",\"01A2B3C4\",7\r\n\r\nOK",
                "AT+CESQ" => "+CESQ: 99,99,255,255,20,46\r\n\r\nOK",
                "AT+QENG=\"servingcell\"" => "+CME ERROR: 58",
                _ => panic!("{question}"),
            })
        });
        let mut port = None;
        let known = Radio { cell: Some(0x1a2_b3c4), rsrp_dbm: Some(-95.0), rsrq_db: Some(-10.0), ..Radio::default() };
        for _ in 0..2 {
            assert_eq!(look(&path, &mut port, Duration::from_secs(20)).await, Ok(known));
            assert!(port.is_some(), "it stays open");
        }
    }

    #[tokio::test]
    async fn a_modem_that_is_unplugged_is_opened_anew() {
        let path = modem(|question| (question != "AT+CESQ").then_some("OK"));
        let mut port = None;
        let error = look(&path, &mut port, Duration::from_secs(20)).await.unwrap_err();
        assert!(port.is_none(), "{error}");
        // One that says nothing is waited for so long.
        let path = modem(|question| Some(if question == "AT+CESQ" { "\r\n" } else { "OK" }));
        let error = look(&path, &mut port, Duration::from_millis(300)).await.unwrap_err();
        assert!(error.contains("does not answer") && port.is_none(), "{error}");
    }

    #[test]
    fn what_is_not_understood_is_nothing() {
        for text in [
            "",
            "OK",
            "+QENG: \"servingcell\",\"SEARCH\"",
            "+QENG: LTE",
            "+CESQ",
            "+CESQ: ,,,,-1,300",
            ":::",
            "+CREG: 2,1,x,zz",
        ] {
            assert_eq!(parse_answer(text), Radio::default(), "{text}");
        }
        assert!(is_over(b"\r\nERROR\r\n") && is_over(b"+CME ERROR: 3\r\n") && !is_over(b"+CESQ: 99"));
    }
}
