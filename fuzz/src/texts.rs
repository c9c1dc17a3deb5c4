//! What people write: keys, endpoints, configuration files.

use std::path::{Path, PathBuf};

use aquila_depot::Rule;
use aquila_net::mavlink::EndpointSpec;
use aquila_net::modem::{ModemSpec, Script, parse_answer, parse_json};
use aquila_net::mule::{Beacon, CastSpec, HearSpec, PeerSpec, RouteSpec};
use aquila_net::video::VideoSpec;
use aquila_proto::Side;
use aquila_proto::identity::PublicKey;
use aquila_proto::mavlink::treatment::message_named;
use aquila_proto::video::Codec;

use crate::input::Scratch;

/// The configuration of `aquila`, which is a part of the program and in no library.
#[path = "../../cli/src/config/mod.rs"]
#[allow(dead_code, unused_imports, missing_docs, reason = "the program uses more of it than the fuzzer")]
mod program;

use program::{Environment, Mtu, Remote, Settings};

/// Any text as each of the things that are written on a command line. What is read is shown as it is read again.
pub fn texts(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    if let Ok(key) = text.parse::<PublicKey>() {
        assert_eq!(key.to_string().parse(), Ok(key));
        assert_eq!(PublicKey::from_spki_der(&key.spki_der()), Some(key));
    }
    let _ = PublicKey::from_spki_der(data);
    if let Ok(spec) = text.parse::<EndpointSpec>() {
        assert_eq!(spec.to_string().parse(), Ok(spec));
    }
    if let Ok(spec) = text.parse::<VideoSpec>() {
        assert_eq!(spec.to_string().parse(), Ok(spec.clone()));
        let _ = spec.for_output();
    }
    if let Ok(spec) = text.parse::<PeerSpec>() {
        assert_eq!(spec.to_string().parse(), Ok(spec));
    }
    if let Ok(spec) = text.parse::<CastSpec>() {
        assert_eq!(spec.to_string().parse(), Ok(spec));
    }
    if let Ok(spec) = text.parse::<HearSpec>() {
        assert_eq!(spec.to_string().parse(), Ok(spec));
    }
    if let Ok(route) = text.parse::<RouteSpec>() {
        assert_eq!(route.to_string(), text);
    }
    if let Ok(rule) = text.parse::<Rule>() {
        assert_eq!(rule.to_string().parse().as_ref(), Ok(&rule));
        let _ = rule.is_for(text);
    }
    if let Some(beacon) = Beacon::parse(data) {
        assert_eq!(beacon.to_bytes(), data);
    }
    if let Ok(spec) = text.parse::<ModemSpec>() {
        assert_eq!(spec.to_string().parse(), Ok(spec));
    }
    let script = text.parse::<Script>().unwrap_or_default();
    assert!(script.steps().is_sorted_by_key(|(at, _)| *at));
    for radio in [parse_answer(text), parse_json(text)] {
        let numbers = [radio.rsrp_dbm, radio.rsrq_db, radio.sinr_db];
        assert!(numbers.into_iter().flatten().all(|number| (-200.0..=250.0).contains(&number)));
    }
    if let Ok(codec) = text.parse::<Codec>() {
        assert_eq!(codec.to_string(), text);
    }
    if let Ok(remote) = text.parse::<Remote>() {
        assert_eq!(remote.to_string().parse(), Ok(remote));
    }
    if let Ok(mtu) = text.parse::<Mtu>() {
        assert!((1200..=1472).contains(&mtu.get()));
    }
    let _ = message_named(text);
}

/// Any bytes as a configuration file, for both sides. A mistake is named with a line that the file has.
pub fn config(data: &[u8]) {
    Scratch::with(data, |path| load(data, path));
}

fn load(data: &[u8], path: &Path) {
    let environment = Environment { state: Some(PathBuf::from("/nowhere")), ..Environment::default() };
    match program::load(path) {
        Ok(file) => {
            for side in [Side::Air, Side::Ground] {
                match Settings::resolve(file.clone(), side, &environment) {
                    Ok(settings) => assert!((1200..=1472).contains(&settings.link.mtu)),
                    Err(invalid) => assert!(!invalid.to_string().is_empty()),
                }
            }
        }
        Err(program::LoadError::Parse { line, column, .. }) => {
            let lines = data.iter().filter(|byte| **byte == b'\n').count() + 1;
            assert!((1..=lines).contains(&line) && column >= 1);
        }
        Err(program::LoadError::Read { error, .. }) => {
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
            assert!(std::str::from_utf8(data).is_err());
        }
    }
}
