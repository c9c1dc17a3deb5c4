//! ModemManager, through its command-line program `mmcli`.

use std::process::Stdio;
use std::time::Duration;

use aquila_proto::cc::Radio;
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

/// The program's name.
pub(super) const PROGRAM: &str = "mmcli";

/// Asks `program` once. `is_set_up`: the modem has been told to measure each second, and to say where it is.
pub(super) async fn look(
    program: &str,
    index: &str,
    is_set_up: &mut bool,
    patience: Duration,
) -> Result<Radio, String> {
    if !*is_set_up {
        ask(program, index, "--signal-setup=1", patience).await?;
        // Many are set up so from the beginning, and some refuse: then there is no cell.
        let _ = ask(program, index, "--location-enable-3gpp", patience).await;
    }
    let signal = ask(program, index, "--signal-get", patience).await;
    // After the modem was unplugged it has to be told again.
    *is_set_up = signal.is_ok();
    let place = ask(program, index, "--location-get", patience).await.unwrap_or_default();
    Ok(parse_json(&signal?).updated(&parse_json(&place)))
}

async fn ask(program: &str, index: &str, what: &str, patience: Duration) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(["-J", "-m", index, what]).stdin(Stdio::null()).kill_on_drop(true);
    match timeout(patience, command.output()).await {
        Err(_) => Err(format!("mmcli {what} takes longer than {} s", patience.as_secs())),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            Err("there is no program mmcli: install ModemManager, or use at:DEVICE".to_owned())
        }
        Ok(Err(error)) => Err(format!("mmcli cannot be run: {error}")),
        Ok(Ok(output)) if !output.status.success() => {
            Err(String::from_utf8_lossy(&output.stderr).trim().lines().next().unwrap_or("mmcli failed").to_owned())
        }
        Ok(Ok(output)) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
    }
}

/// What `mmcli -J --signal-get` or `--location-get` says; nothing of what is not understood.
pub fn parse_json(text: &str) -> Radio {
    let Ok(json) = serde_json::from_str::<Value>(text) else { return Radio::default() };
    let (signal, place) = (&json["modem"]["signal"], &json["modem"]["location"]["3gpp"]);
    // In 5G NSA both are there: the data goes over 5G.
    let number = |name: &str| ["5g", "lte"].iter().find_map(|kind| decibels(&signal[*kind][name]));
    Radio {
        altitude_m: None,
        cell: cell(place),
        rsrp_dbm: number("rsrp"),
        rsrq_db: number("rsrq"),
        sinr_db: number("snr"),
    }
}

/// Numbers are texts, and `--` if they are not known.
fn decibels(value: &Value) -> Option<f32> {
    let number = value.as_str()?.trim().parse::<f32>().ok()?;
    (-200.0..=100.0).contains(&number).then_some(number)
}

/// Operator and cell; hexadecimal cell id.
fn cell(place: &Value) -> Option<u64> {
    let cid = u64::from_str_radix(place["cid"].as_str()?, 16).ok().filter(|cid| *cid != 0)?;
    let part = |name: &str| place[name].as_str().and_then(|text| text.parse::<u64>().ok()).unwrap_or_default() & 0xfff;
    Some(part("mcc") << 52 | part("mnc") << 40 | cid & 0xff_ffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_and_place_as_mmcli_1_20_gives_them() {
        let signal = r#"{"modem":{"signal":{"5g":{"error-rate":"--","rsrp":"--","rsrq":"--","snr":"--"},
            "cdma1x":{"ecio":"--","error-rate":"--","rssi":"--"},"gsm":{"error-rate":"--","rssi":"--"},
            "lte":{"error-rate":"--","rsrp":"-95.00","rsrq":"-10.50","rssi":"-65.00","snr":"12.20"},
            "refresh":{"rate":"1"},"threshold":{"error-rate":"no","rssi":"0"},"umts":{"ecio":"--","rscp":"--"}}}}"#;
        let place = r#"{"modem":{"location":{"3gpp":{"cid":"01A2B3C4","lac":"0000","mcc":"262","mnc":"01","tac":"00ABCD"},
            "cdma-bs":{"latitude":"--","longitude":"--"},"gps":{"altitude":"--","nmea":[]}}}}"#;
        let radio = parse_json(signal);
        let expected = Radio { rsrp_dbm: Some(-95.0), rsrq_db: Some(-10.5), sinr_db: Some(12.2), ..Radio::default() };
        assert_eq!(radio, expected);
        let there = parse_json(place).cell.unwrap();
        assert_ne!(Some(there), parse_json(&place.replace("B3C4", "B3C5")).cell);
        let nr = signal.replacen(r#""rsrp":"--""#, r#""rsrp":"-80.0""#, 1);
        assert_eq!(parse_json(&nr).rsrp_dbm, Some(-80.0), "5G goes first");
    }

    #[tokio::test]
    async fn a_modem_is_set_up_once_and_again_after_it_was_gone() {
        let folder = std::env::temp_dir().join(format!("aquila-mmcli-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [program, asked, gone] = ["mmcli", "asked", "gone"].map(|name| folder.join(name));
        let script = format!(
            r#"#!/bin/sh
echo "$*" >> {asked}
if [ -e {gone} ]; then echo "error: couldn't find modem" >&2; exit 1; fi
case "$4" in
--signal-get) echo '{{"modem":{{"signal":{{"lte":{{"rsrp":"-95.00","rsrq":"-10.50","snr":"12.20"}}}}}}}}';;
--location-get) echo '{{"modem":{{"location":{{"3gpp":{{"cid":"01A2B3C4","mcc":"262","mnc":"01"}}}}}}}}';;
--location-enable-3gpp) exit 1;;
esac
"#,
            asked = asked.display(),
            gone = gone.display()
        );
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        // It can be run once no process that was started meanwhile by another test has it open for writing.
        let is_busy = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ExecutableFileBusy;
        while std::process::Command::new(&program).status().as_ref().is_err_and(is_busy) {}
        std::fs::remove_file(&asked).unwrap();
        let (program, patience, mut is_set_up) = (program.to_str().unwrap(), Duration::from_secs(20), false);
        let questions = || {
            let text = std::fs::read_to_string(&asked).unwrap_or_default();
            let _ = std::fs::remove_file(&asked);
            text.lines().map(|line| line.rsplit_once(' ').unwrap().1.to_owned()).collect::<Vec<_>>()
        };
        let look = look(program, "3", &mut is_set_up, patience).await.unwrap();
        assert_eq!((look.rsrp_dbm, look.rsrq_db, look.sinr_db), (Some(-95.0), Some(-10.5), Some(12.2)));
        assert!(look.cell.is_some() && is_set_up, "though it refuses to say where it is in time");
        let [set_up, place] = ["--signal-setup=1", "--location-enable-3gpp"];
        assert_eq!(questions(), [set_up, place, "--signal-get", "--location-get"]);
        super::look(program, "3", &mut is_set_up, patience).await.unwrap();
        assert_eq!(questions(), ["--signal-get", "--location-get"]);
        std::fs::write(&gone, "").unwrap();
        let error = super::look(program, "3", &mut is_set_up, patience).await.unwrap_err();
        assert!(error.contains("couldn't find modem") && !is_set_up, "{error}");
        std::fs::remove_file(&gone).unwrap();
        questions();
        super::look(program, "3", &mut is_set_up, patience).await.unwrap();
        assert_eq!(questions()[..2], [set_up, place]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_not_known_or_understood_is_nothing() {
        for text in
            ["", "null", "[]", "{\"modem\":7}", r#"{"modem":{"signal":{"lte":{"rsrp":-90,"snr":"NaN","rsrq":"inf"}}}}"#]
        {
            assert_eq!(parse_json(text), Radio::default(), "{text}");
        }
        assert_eq!(parse_json(r#"{"modem":{"location":{"3gpp":{"cid":"--","mcc":"262"}}}}"#).cell, None);
    }
}
