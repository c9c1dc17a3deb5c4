//! Random steps, beside a model that fits on a page.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::kills::sound;
use super::*;
use crate::Source;

#[derive(Debug, Clone)]
enum Step {
    /// Puts files, of these names and contents.
    Put(Vec<(u8, u8)>),
    /// Promises what was put.
    Commit,
    /// The ship's process is killed.
    Restart,
    ShipMeetsPlane,
    PlaneMeetsShore,
    ShipMeetsShore,
    Deliver,
    /// The plane's process is killed.
    RestartPlane,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => prop::collection::vec((0..6u8, 0..8u8), 1..4).prop_map(Step::Put),
        4 => Just(Step::Commit),
        1 => Just(Step::Restart),
        2 => Just(Step::ShipMeetsPlane),
        2 => Just(Step::PlaneMeetsShore),
        1 => Just(Step::ShipMeetsShore),
        2 => Just(Step::Deliver),
        1 => Just(Step::RestartPlane),
    ];
    prop::collection::vec(step, 1..40)
}

/// Contents that have parts in common with each other, long and short ones.
fn content(which: u8) -> Vec<u8> {
    match which {
        0 => Vec::new(),
        1..4 => log(which.into(), 3_000 * usize::from(which)),
        _ => [noise(1, 200_000), noise(which.into(), 50_000), noise(2, 200_000)].concat(),
    }
}

fn name(which: u8) -> String {
    ["a", "b/c", "b/d", "e", "f/g/h", "i"][usize::from(which)].into()
}

/// What should be so.
#[derive(Debug, Default)]
struct Model {
    /// Newest versions that were promised, and those that were put since.
    promised: BTreeMap<String, u8>,
    put: Vec<(String, u8)>,
    numbers: BTreeSet<u64>,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn what_was_promised_comes_ashore_and_nothing_else(steps in steps()) {
        let temp = Temp::new();
        let (mut ship, mut plane, mut shore) = (open(&temp, SHIP), open(&temp, PLANE), open(&temp, SHORE));
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Put(files) => put_some(&temp, &mut ship, &mut model, &files)?,
                Step::Commit => {
                    let committed = ship.commit().unwrap();
                    prop_assert!(committed.lost.is_empty());
                    let put = std::mem::take(&mut model.put);
                    model.promised.extend(put);
                }
                Step::Restart => {
                    drop(ship);
                    ship = open(&temp, SHIP);
                    model.put.clear();
                }
                Step::RestartPlane => {
                    drop(plane);
                    plane = open(&temp, PLANE);
                }
                Step::ShipMeetsPlane => drop(meet(&mut ship, &mut plane)),
                Step::PlaneMeetsShore => drop(meet(&mut plane, &mut shore)),
                Step::ShipMeetsShore => drop(meet(&mut ship, &mut shore)),
                Step::Deliver => drop(shore.deliver(100).unwrap()),
            }
            [&ship, &plane, &shore].into_iter().for_each(sound);
        }
        drop(ship);
        ship = open(&temp, SHIP);
        for _ in 0..2 {
            meet(&mut ship, &mut plane);
            meet(&mut plane, &mut shore);
            shore.deliver(1_000).unwrap();
        }
        meet(&mut plane, &mut shore);
        meet(&mut ship, &mut plane);
        let there: BTreeMap<_, _> = tree(&temp.join("ashore")).into_iter().collect();
        let wanted: BTreeMap<_, _> = model.promised.into_iter().map(|(path, which)| (path, content(which))).collect();
        prop_assert!(there == wanted, "{:?} and not {:?}", there.keys(), wanted.keys());
        for depot in [&ship, &plane, &shore] {
            prop_assert!(depot.summary().unwrap().iter().all(|total| total.state == State::Released));
            sound(depot);
        }
    }
}

fn put_some(temp: &Temp, ship: &mut Depot, model: &mut Model, files: &[(u8, u8)]) -> Result<(), TestCaseError> {
    let sources: Vec<_> = files
        .iter()
        .zip(0..)
        .map(|((path, which), n)| Source { file: temp.file(&format!("put/{n}"), &content(*which)), path: name(*path) })
        .collect();
    // Long files of a batch are put before its packs: a name comes only once in each.
    let names: BTreeSet<_> = sources.iter().map(|source| source.path.clone()).collect();
    if names.len() < files.len() {
        return Ok(());
    }
    for ((path, which), put) in files.iter().zip(ship.put_many(&sources, &PutOptions::default())) {
        let put = put.unwrap();
        let newest = model.put.iter().rev().find(|(name_of, _)| *name_of == name(*path)).map(|(_, which)| *which);
        let newest = newest.or(model.promised.get(&name(*path)).copied());
        prop_assert_eq!(put.is_new, newest.is_none_or(|newest| content(newest) != content(*which)));
        prop_assert!(!put.is_new || model.numbers.insert(put.number) || files.len() > 1);
        model.put.push((name(*path), *which));
    }
    Ok(())
}
