//! Commands that need no store that runs.

use std::path::PathBuf;

use clap::Parser;

use super::*;
use crate::args::{Cli, Command};
use crate::testing::TempDir;

/// A ship's key, configuration and store.
struct Ship(TempDir);

impl Ship {
    fn new(mule: &str) -> Self {
        let dir = TempDir::new("mule");
        keys::generate(&dir.join("ship.key")).unwrap();
        let config = format!("[mule]\nstore = '{}'\n{mule}\n", dir.join("store").display());
        std::fs::write(dir.join("ship.toml"), config).unwrap();
        Self(dir)
    }

    fn file(&self, name: &str, len: usize) -> PathBuf {
        let path = self.0.join(name);
        // Nothing that can be compressed.
        let mut state = len as u64;
        let mut byte = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        std::fs::write(&path, (0..len).map(|_| byte()).collect::<Vec<_>>()).unwrap();
        path
    }

    /// `aquila mule ...`, with the configuration.
    fn run(&self, line: &str) -> Result<String, String> {
        let config = self.0.join("ship.toml").display().to_string();
        let mut line: Vec<_> = ["aquila", "mule"].into_iter().chain(line.split_whitespace()).collect();
        line.extend(["--config", &config]);
        let Command::Mule(args) = Cli::try_parse_from(line).map_err(|error| error.to_string())?.command else {
            panic!("not mule")
        };
        let mut out = Vec::new();
        match run(args, &mut out) {
            Ok(()) => Ok(String::from_utf8(out).unwrap()),
            Err(Failure::Config(error) | Failure::Runtime(error)) => Err(format!("{error:#}")),
        }
    }

    fn put(&self, file: &std::path::Path) -> Result<String, String> {
        self.run(&format!("put --key {} {}", self.0.join("ship.key").display(), file.display()))
    }
}

#[test]
fn put_keeps_to_the_quota_of_the_configuration() {
    let ship = Ship::new("quota = '1MB'\nmin_free = '0B'");
    ship.put(&ship.file("small", 500_000)).unwrap();
    let error = ship.put(&ship.file("large", 900_000)).unwrap_err();
    assert!(error.contains("1 of 1 files were not put") && error.contains("quota of 1000.0 kB"), "{error}");
    assert!(error.contains("ship.toml"), "{error}");
    assert_eq!(ship.run("ls").unwrap().matches("queued").count(), 1);
}

#[test]
fn put_leaves_of_the_disk_what_the_configuration_says() {
    let ship = Ship::new("min_free = '1000000GB'");
    let error = ship.put(&ship.file("small", 1_000)).unwrap_err();
    assert!(error.contains("the disk has") && error.contains("min_free"), "{error}");
}

#[test]
fn status_at_rest_says_how_much_is_stored() {
    let ship = Ship::new("quota = '1MB'\nmin_free = '0B'");
    ship.put(&ship.file("data", 900_000)).unwrap();
    let text = ship.run("status").unwrap();
    assert!(!text.contains("stored 0 B") && !text.contains(", 0 B free"), "{text}");
    assert!(text.contains("stored 900.0 kB") && text.contains("not running"), "{text}");
    assert!(text.contains("FULL: the store's quota is used up"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&ship.run("status --json").unwrap()).unwrap();
    assert_eq!((json["used_bytes"].as_u64(), json["running"].as_bool()), (Some(900_000), Some(false)));
    assert!(json["free_bytes"].as_u64().unwrap() > 0 && json["full"].is_string(), "{json}");
}

#[test]
fn put_with_another_key_is_refused_by_name() {
    let ship = Ship::new("");
    let file = ship.file("data", 1_000);
    ship.put(&file).unwrap();
    let other = ship.0.join("other.key");
    keys::generate(&other).unwrap();
    let error = ship.run(&format!("put --key {} {}", other.display(), file.display())).unwrap_err();
    assert!(error.contains("belongs to the key"), "{error}");
}

#[test]
fn a_store_that_is_not_there_is_said_once() {
    let ship = Ship::new("");
    let store = ship.0.join("store").display().to_string();
    for command in ["ls", "status"] {
        assert_eq!(ship.run(command).unwrap_err(), format!("cannot open the store in {store}: there is none"));
    }
}

#[test]
fn names_of_bundles_that_are_none_are_said_with_an_example() {
    for (option, like) in [("bundles-node", "dtn://ship/"), ("bundles-files", "dtn://shore/files")] {
        let ship = Ship::new("");
        let error = ship.run(&format!("shore --{option} nonsense")).unwrap_err();
        assert!(error.contains("'nonsense' is no name of") && error.contains(like), "{error}");
        assert!(!error.contains("Parse error"), "{error}");
        let ship = Ship::new(&format!("{} = 'nonsense'", option.replace('-', "_")));
        let error = ship.run("ls").unwrap_err();
        assert!(error.contains("'nonsense' is no name of") && error.contains(like), "{error}");
    }
}
