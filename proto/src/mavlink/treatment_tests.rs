use super::*;
use crate::mavlink::testkit::{known, v2};

fn of(name: &str) -> (Class, Delivery) {
    let treatment = Policy::new().treatment(messages::lookup_name(name).unwrap().id);
    (treatment.class, treatment.delivery)
}

#[test]
fn lists_are_disjoint_known_and_sorted_enough_to_read() {
    let mut seen = std::collections::BTreeSet::new();
    for name in COMMANDS.iter().chain(SETPOINTS).chain(STATES) {
        assert!(messages::lookup_name(name).is_some(), "{name}");
        assert!(seen.insert(name), "{name} twice");
    }
}

#[test]
fn the_messages_people_fly_with() {
    use {Class::*, Delivery::*};
    for name in ["COMMAND_LONG", "COMMAND_INT", "COMMAND_ACK", "SET_MODE", "PARAM_SET", "MISSION_SET_CURRENT"] {
        assert_eq!(of(name), (Control, Reliable), "{name}");
    }
    for name in ["MANUAL_CONTROL", "RC_CHANNELS_OVERRIDE", "SET_ATTITUDE_TARGET", "HEARTBEAT", "TIMESYNC", "PING"] {
        assert_eq!(of(name), (Control, Setpoint), "{name}");
    }
    for name in ["ATTITUDE", "GLOBAL_POSITION_INT", "VFR_HUD", "SYS_STATUS", "BATTERY_STATUS", "RADIO_STATUS"] {
        assert_eq!(of(name), (Telemetry, State), "{name}");
    }
    for name in
        ["PARAM_VALUE", "MISSION_ITEM_INT", "FILE_TRANSFER_PROTOCOL", "STATUSTEXT", "LOG_DATA", "EVENT", "TUNNEL"]
    {
        assert_eq!(of(name), (Telemetry, Reliable), "{name}");
    }
}

#[test]
fn no_transaction_may_be_replaced() {
    for info in messages::all() {
        let transaction = ["MISSION_", "PARAM_", "LOG_", "FENCE_", "RALLY_", "FILE_TRANSFER", "GPS_RTCM", "SERIAL_"]
            .iter()
            .any(|prefix| info.name.starts_with(prefix));
        if transaction && !["MISSION_CURRENT", "FENCE_STATUS"].contains(&info.name) {
            assert_eq!(of(info.name).1, Delivery::Reliable, "{}", info.name);
        }
    }
}

#[test]
fn unknown_ids_are_not_lost_by_replacement() {
    assert_eq!(Policy::new().treatment(MessageId(54_321)), OTHERS);
}

#[test]
fn configuration_wins_by_id_and_by_name() {
    let bulk = Treatment { class: Class::Bulk, delivery: Delivery::Reliable };
    let mut policy = Policy::new();
    policy.set_named("log_data", bulk).unwrap();
    policy.set_named("54321", STATE).unwrap();
    policy.set_named("0", OTHERS).unwrap();
    assert_eq!(policy.treatment(MessageId(120)), bulk);
    assert_eq!(policy.treatment(MessageId(54_321)), STATE);
    assert_eq!(policy.treatment(MessageId(0)), OTHERS);
    assert_eq!(policy.set_named("LOG_DATUM", bulk), Err(UnknownMessage("LOG_DATUM".into())));
    assert!(policy.set_named("16777216", bulk).is_err());
    assert!(policy.set_named("16777215", bulk).is_ok());
}

#[test]
fn keys_tell_senders_instances_and_targets_apart() {
    let battery = |id: u8| {
        let mut payload = [1; 36];
        payload[32] = id;
        StateKey::of(&v2(1, 1, 147, &payload))
    };
    assert_eq!(battery(1), battery(1));
    assert_ne!(battery(0), battery(1));
    let stick = |target: u8| StateKey::of(&v2(255, 190, 69, &[5, 0, 5, 0, 5, 0, 5, 0, 5, 0, target]));
    assert_ne!(stick(1), stick(2));
    assert_ne!(StateKey::of(&v2(1, 1, 0, &[1; 9])), StateKey::of(&v2(1, 100, 0, &[1; 9])));
    assert_ne!(StateKey::of(&v2(1, 1, 0, &[1; 9])), StateKey::of(&v2(1, 1, 24, &[1; 30])));
    // A truncated v2 payload and its v1 twin have one key.
    assert_eq!(StateKey::of(&known("PING", 2)), StateKey::of(&known("PING", 1)));
}
