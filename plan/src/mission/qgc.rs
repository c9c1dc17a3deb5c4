//! QGroundControl's `.plan`: JSON [docs.qgroundcontrol.com, Plan File Format]. Read are the home position and mission
//! items; of complex items those that store their items (surveys, corridors), the others are noted. Geofence and rally
//! points are not used.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Item, MAX_ITEMS, Mission, command};
use crate::fault::ParseError;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Plan {
    file_type: String,
    version: u64,
    mission: PlanMission,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlanMission {
    planned_home_position: Option<[f64; 3]>,
    items: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SimpleItem {
    command: u16,
    frame: u8,
    params: [Option<f64>; 7],
    #[serde(default = "yes")]
    auto_continue: bool,
    do_jump_id: Option<u32>,
}

fn yes() -> bool {
    true
}

/// Reads one.
///
/// # Errors
/// The line of what is not JSON or not a plan; of items, which one.
pub fn parse(text: &str) -> Result<Mission, ParseError> {
    let plan: Plan = serde_json::from_str(text).map_err(|error| ParseError::line(error.line(), error.to_string()))?;
    if plan.file_type != "Plan" || plan.version != 1 {
        return Err(ParseError::file("is not a plan of version 1: fileType and version say so"));
    }
    let mut mission = Mission { home: plan.mission.planned_home_position, ..Mission::default() };
    if mission.home.is_some_and(|[lat, lon, alt]| crate::geodesy::Position::new(lat, lon, alt).is_none()) {
        return Err(ParseError::file("mission.plannedHomePosition is no place on Earth"));
    }
    for (n, value) in plan.mission.items.into_iter().enumerate() {
        read(value, &mut mission, 0).map_err(|reason| ParseError::file(format!("mission.items[{n}]: {reason}")))?;
    }
    if mission.items.is_empty() {
        return Err(ParseError::file("has no items"));
    }
    Ok(mission)
}

fn read(value: Value, mission: &mut Mission, depth: u32) -> Result<(), String> {
    if depth > 4 {
        return Err("items within items within items".into());
    }
    if value.get("type").and_then(Value::as_str) == Some("ComplexItem") {
        let kind = value.get("complexItemType").and_then(Value::as_str).unwrap_or("unknown").to_owned();
        let inner = value.get("TransectStyleComplexItem").and_then(|style| style.get("Items"));
        return match inner.and_then(Value::as_array) {
            Some(items) => items.iter().try_for_each(|item| read(item.clone(), mission, depth + 1)),
            None => {
                mission.notes.push(format!("left out: a complex item of kind {}", crate::fault::quote(&kind)));
                Ok(())
            }
        };
    }
    let item: SimpleItem = serde_json::from_value(value).map_err(|error| error.to_string())?;
    if mission.items.len() == MAX_ITEMS {
        return Err(format!("more than {MAX_ITEMS} items"));
    }
    let param = |n: usize| item.params[n].unwrap_or(0.0);
    let item = Item {
        number: item.do_jump_id.unwrap_or(mission.items.len() as u32 + 1),
        frame: item.frame,
        command: item.command,
        params: [param(0), param(1), param(2), param(3)],
        latitude_deg: param(4),
        longitude_deg: param(5),
        altitude_m: param(6),
        autocontinue: item.auto_continue,
    };
    item.check()?;
    mission.items.push(item);
    Ok(())
}

/// Writes a mission, its items numbered from 1 on, for a fixed-wing aircraft with ArduPilot (firmwareType 3,
/// vehicleType 1), cruising at `speed_mps`.
pub fn write(mission: &Mission, speed_mps: f64) -> String {
    let items: Vec<Value> = mission
        .renumbered()
        .iter()
        .map(|item| {
            let [a, b, c, d] = item.params;
            let altitude_mode = if item.frame == super::frame::GLOBAL { 2 } else { 1 };
            json!({
                "type": "SimpleItem",
                "command": item.command,
                "frame": item.frame,
                "params": [a, b, c, d, item.latitude_deg, item.longitude_deg, item.altitude_m],
                "autoContinue": item.autocontinue,
                "doJumpId": item.number,
                "Altitude": if item.command <= command::LAST_NAV { Value::from(item.altitude_m) } else { Value::Null },
                "AltitudeMode": altitude_mode,
                "AMSLAltAboveTerrain": Value::Null,
            })
        })
        .collect();
    let plan = json!({
        "fileType": "Plan",
        "version": 1,
        "groundStation": "QGroundControl",
        "geoFence": { "circles": [], "polygons": [], "version": 2 },
        "rallyPoints": { "points": [], "version": 2 },
        "mission": {
            "version": 2,
            "firmwareType": 3,
            "vehicleType": 1,
            "cruiseSpeed": speed_mps,
            "hoverSpeed": 5,
            "globalPlanAltitudeMode": 1,
            "plannedHomePosition": mission.home.unwrap_or_default(),
            "items": items,
        },
    });
    // A value made by us has no keys but strings: it cannot fail.
    let mut text = serde_json::to_string_pretty(&plan).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"{ "fileType": "Plan", "version": 1, "groundStation": "QGroundControl",
        "mission": { "version": 2, "plannedHomePosition": [47.4, 8.5, 480], "items": [
            { "type": "SimpleItem", "command": 22, "frame": 3, "params": [15, 0, 0, null, 47.4, 8.5, 50], "doJumpId": 1 },
            { "type": "ComplexItem", "complexItemType": "survey", "TransectStyleComplexItem": { "Items": [
                { "type": "SimpleItem", "command": 16, "frame": 3, "params": [0, 0, 0, null, 47.41, 8.5, 60], "doJumpId": 2 } ] } },
            { "type": "ComplexItem", "complexItemType": "fwLandingPattern" } ] } }"#;

    #[test]
    fn it_is_read_and_what_is_left_out_is_noted() {
        let mission = parse(SAMPLE).unwrap();
        assert_eq!(mission.home, Some([47.4, 8.5, 480.0]));
        assert_eq!(mission.items.iter().map(|item| item.command).collect::<Vec<_>>(), [22, 16]);
        assert_eq!(mission.items[1].latitude_deg, 47.41);
        assert!(mission.notes[0].contains("fwLandingPattern"));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut mission = parse(SAMPLE).unwrap();
        mission.notes.clear();
        assert_eq!(parse(&write(&mission, 18.0)).unwrap(), mission);
    }

    #[test]
    fn jumps_go_where_they_went_whatever_the_numbers() {
        let text = SAMPLE.replace("\"doJumpId\": 1", "\"doJumpId\": 40").replace(
            "{ \"type\": \"ComplexItem\", \"complexItemType\": \"fwLandingPattern\" }",
            r#"{ "type": "SimpleItem", "command": 177, "frame": 2, "params": [40, 3, 0, 0, 0, 0, 0], "doJumpId": 50 }"#,
        );
        let mission = parse(&text).unwrap();
        let again = super::super::wpl::parse(&super::super::wpl::write(&mission)).unwrap();
        assert_eq!(again.items.iter().map(|item| item.number).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!((mission.items[2].params[0], again.items[2].params[0]), (40.0, 1.0));
        assert_eq!(parse(&write(&mission, 18.0)).unwrap().items, again.items);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, wanted) in [
            ("{", "line 1: EOF"),
            ("{\n\"fileType\": 3}", "line 2: invalid type"),
            (&SAMPLE.replace("\"Plan\"", "\"Fence\""), "not a plan"),
            (&SAMPLE.replace("[15, 0, 0, null, 47.4, 8.5, 50]", "[15]"), "mission.items[0]: invalid length"),
            (&SAMPLE.replace("47.41", "147.41"), "mission.items[1]: 147.41, 8.5 is no place"),
            (&SAMPLE.replace("[47.4, 8.5, 480]", "[947.4, 8.5, 480]"), "plannedHomePosition"),
            (r#"{"fileType":"Plan","version":1,"mission":{"items":[]}}"#, "has no items"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
        // Depth beyond what serde_json follows is an error, not a fault of the stack.
        assert!(parse(&"[".repeat(100_000)).is_err());
    }
}
