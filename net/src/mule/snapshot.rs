//! What a store and its links show.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use aquila_depot::{Health, Total};
use serde::{Deserialize, Serialize};

use super::cast::CastSnapshot;
use crate::status::Shown;
use crate::status::page::{Column, Page, count, flag};

/// A store and its links. Bytes of objects are bytes on the way, compressed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MuleSnapshot {
    /// Version of this program.
    pub version: String,
    /// Seconds since 1970.
    pub at_s: u64,
    /// Objects by state, in the order in which they pass through them.
    pub states: Vec<StateSnapshot>,
    /// Why nothing more can be stored, if nothing can.
    pub full: Option<String>,
    /// Bytes that are stored.
    pub used_bytes: u64,
    /// Bytes that the disk has free.
    pub free_bytes: u64,
    /// Incomplete objects that have to wait for room.
    pub waiting: u64,
    /// Objects that were put here of which a chunk cannot be read any more.
    pub damaged: u64,
    /// Objects of others that were refused since the program started, and why.
    #[serde(default)]
    pub refused: Vec<RefusedSnapshot>,
    /// Links to other stores.
    pub contacts: Vec<ContactSnapshot>,
    /// Casts that are sent and heard.
    #[serde(default)]
    pub casts: Vec<CastSnapshot>,
}

/// Objects that were refused for one reason. One that is offered by several, or again after a restart of theirs, counts each time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RefusedSnapshot {
    /// The reason.
    pub why: String,
    /// How many.
    pub objects: u64,
}

/// Objects in one state.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StateSnapshot {
    /// The state's name.
    pub state: String,
    /// How many there are.
    pub objects: u64,
    /// Bytes of their content.
    pub bytes: u64,
}

/// A link to another store.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ContactSnapshot {
    /// What it is called.
    pub store: String,
    /// Fingerprint of its key.
    pub peer: String,
    /// Whether there is contact.
    pub up: bool,
    /// Bytes of parts that it was given, since the program started.
    pub bytes_given: u64,
    /// Bytes that were taken from it.
    pub bytes_taken: u64,
    /// Bytes that came though they were there.
    pub bytes_again: u64,
    /// Bytes sent that were lost.
    pub bytes_lost: u64,
    /// Rate of giving, bit/s, smoothed.
    pub given_bps: f64,
    /// Rate of taking.
    pub taken_bps: f64,
    /// Bytes given and taken in this contact.
    pub this_contact: u64,
    /// Bytes that a contact is expected to carry.
    pub expected_bytes: Option<u64>,
    /// Bytes of them that are left of this one; 0 if it has carried more.
    pub forecast: Option<u64>,
    /// Files that it is given, if it is given any: all that wait for it, whether they are on offer or not.
    pub files: Option<PassSnapshot>,
    /// Objects that are taken from it, if any are: those that it has on offer. How many files a pack holds is not known before it is there.
    pub objects: Option<PassSnapshot>,
    /// Objects that it is being given, in the order in which they are sent.
    pub giving: Vec<ObjectSnapshot>,
    /// Objects that are being taken, in the order in which they should come.
    pub taking: Vec<ObjectSnapshot>,
}

/// How much a contact brings across in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PassSnapshot {
    /// What is across since the contact began.
    pub done: u64,
    /// What is expected to be when it ends, `done` included; nothing if nothing is known, or if more was carried than was expected.
    pub expected: Option<u64>,
    /// What there is, `done` included.
    pub all: u64,
    /// Bytes on the way of what is not across.
    pub bytes_left: u64,
}

/// An object that is on its way.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ObjectSnapshot {
    /// Its name, in hexadecimal.
    pub object: String,
    /// Bytes on the way.
    pub bytes: u64,
    /// Share of it that the taker has confirmed, 0 to 1.
    pub done: f64,
}

impl From<&Total> for StateSnapshot {
    fn from(total: &Total) -> Self {
        Self { state: total.state.name().to_owned(), objects: total.objects, bytes: total.size }
    }
}

impl MuleSnapshot {
    /// A store without links.
    pub fn new(totals: &[Total], health: &Health) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            at_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            states: totals.iter().map(StateSnapshot::from).collect(),
            full: health.full.map(|why| why.to_string()),
            used_bytes: health.used,
            free_bytes: health.disk_free,
            waiting: health.paused,
            damaged: health.damaged,
            ..Self::default()
        }
    }
}

impl Shown for MuleSnapshot {
    fn summary(&self) -> String {
        let mut out = String::with_capacity(1024);
        // Writing to a string cannot fail.
        let _ = write_summary(&mut out, self);
        out
    }

    fn metrics(&self) -> String {
        let mut page = Page::new();
        page.describe("aquila_info", "Always 1; the labels say what runs here.");
        page.sample("aquila_info", &[("version", self.version.as_str()), ("side", "mule")], 1.0);
        page.table(&WHOLE, &[(vec![], self)]);
        let states: Vec<_> = self.states.iter().map(|state| (vec![("state", state.state.clone())], state)).collect();
        page.table(&STATE, &states);
        let refused: Vec<_> =
            self.refused.iter().map(|refused| (vec![("why", refused.why.clone())], refused)).collect();
        page.table(&REFUSED, &refused);
        let contacts: Vec<_> =
            self.contacts.iter().map(|contact| (vec![("store", contact.store.clone())], contact)).collect();
        page.table(&CONTACT, &contacts);
        let labels = |cast: &CastSnapshot| {
            let way = if cast.sends { "sent" } else { "heard" };
            vec![("cast", cast.name.clone()), ("way", way.to_owned())]
        };
        let casts: Vec<_> = self.casts.iter().map(|cast| (labels(cast), cast)).collect();
        page.table(&CAST, &casts);
        page.into_text()
    }
}

const WHOLE: [Column<MuleSnapshot>; 5] = [
    ("aquila_mule_full", "Whether nothing more can be stored.", |s| Some(flag(s.full.is_some()))),
    ("aquila_mule_stored_bytes", "Bytes of chunks.", |s| count(s.used_bytes)),
    ("aquila_mule_disk_free_bytes", "Bytes that the disk has free.", |s| count(s.free_bytes)),
    ("aquila_mule_waiting_objects", "Incomplete objects that have to wait for room.", |s| count(s.waiting)),
    ("aquila_mule_damaged_objects", "Objects put here of which a chunk cannot be read.", |s| count(s.damaged)),
];

const STATE: [Column<StateSnapshot>; 2] = [
    ("aquila_mule_objects", "Objects, by state.", |s| count(s.objects)),
    ("aquila_mule_object_bytes", "Bytes of their content.", |s| count(s.bytes)),
];

const REFUSED: [Column<RefusedSnapshot>; 1] =
    [("aquila_mule_refused_total", "Objects of others that were refused, by reason.", |r| count(r.objects))];

const CONTACT: [Column<ContactSnapshot>; 14] = [
    ("aquila_mule_contact", "Whether there is contact with another store.", |c| Some(flag(c.up))),
    ("aquila_mule_given_bytes_total", "Bytes that it was given.", |c| count(c.bytes_given)),
    ("aquila_mule_taken_bytes_total", "Bytes that were taken from it.", |c| count(c.bytes_taken)),
    ("aquila_mule_again_bytes_total", "Bytes that came though they were there.", |c| count(c.bytes_again)),
    ("aquila_mule_lost_bytes_total", "Bytes sent that were lost.", |c| count(c.bytes_lost)),
    ("aquila_mule_giving_objects", "Objects that it is being given.", |c| count(c.giving.len() as u64)),
    ("aquila_mule_taking_objects", "Objects that are being taken from it.", |c| count(c.taking.len() as u64)),
    ("aquila_mule_forecast_bytes", "Bytes expected in what is left of this contact.", |c| c.forecast.and_then(count)),
    ("aquila_mule_contact_files", "Files for it, those given in this contact included.", |c| count(c.files?.all)),
    ("aquila_mule_contact_files_given", "Of them, those given in this contact.", |c| count(c.files?.done)),
    ("aquila_mule_contact_files_expected", "Of them, those given by its end.", |c| count(c.files?.expected?)),
    ("aquila_mule_contact_objects", "Objects it offers, and those taken in this contact.", |c| count(c.objects?.all)),
    ("aquila_mule_contact_objects_taken", "Of them, those taken.", |c| count(c.objects?.done)),
    ("aquila_mule_contact_objects_expected", "Of them, those taken by its end.", |c| count(c.objects?.expected?)),
];

const CAST: [Column<CastSnapshot>; 10] = [
    ("aquila_mule_cast_datagrams_total", "Datagrams of a cast, sent, or heard and opened.", |c| count(c.datagrams)),
    ("aquila_mule_cast_refused_total", "Datagrams that came and were refused.", |c| count(c.refused)),
    ("aquila_mule_cast_wrong_key_total", "Of them, those not sealed with our key.", |c| count(c.wrong_key)),
    ("aquila_mule_cast_symbols_total", "Symbols sent, or heard that brought something.", |c| count(c.symbols)),
    ("aquila_mule_cast_unneeded_total", "Symbols heard of what was there.", |c| count(c.unneeded)),
    ("aquila_mule_cast_no_room_total", "Symbols heard that there was no room for.", |c| count(c.no_room)),
    ("aquila_mule_cast_blocks_total", "Blocks that were made whole.", |c| count(c.blocks)),
    ("aquila_mule_cast_blocks_dropped_total", "Blocks that were wrong, or given up.", |c| count(c.dropped)),
    ("aquila_mule_cast_objects_total", "Rounds of objects sent, or objects taken.", |c| count(c.objects)),
    ("aquila_mule_cast_held_bytes", "Memory for what is not whole.", |c| count(c.held_bytes)),
];

fn write_summary(out: &mut String, snapshot: &MuleSnapshot) -> std::fmt::Result {
    writeln!(out, "Aquila {}, files", snapshot.version)?;
    if let Some(full) = &snapshot.full {
        writeln!(out, "\nFULL: {full}; {} objects wait", snapshot.waiting)?;
    }
    if snapshot.damaged > 0 {
        writeln!(out, "\n{} objects are damaged: put them again", snapshot.damaged)?;
    }
    for RefusedSnapshot { why, objects } in &snapshot.refused {
        writeln!(out, "\n{objects} objects of others were refused: {why}")?;
    }
    writeln!(out, "\n{:<12}{:>10}{:>14}", "state", "objects", "bytes")?;
    for state in &snapshot.states {
        writeln!(out, "{:<12}{:>10}{:>14}", state.state, state.objects, bytes(state.bytes))?;
    }
    writeln!(out, "stored {}, {} free", bytes(snapshot.used_bytes), bytes(snapshot.free_bytes))?;
    for contact in &snapshot.contacts {
        write!(out, "\n{}  {}  ", contact.store, contact.peer)?;
        match contact.up {
            true => writeln!(
                out,
                "in contact: giving {:.2} Mbit/s, taking {:.2} Mbit/s, {} so far",
                contact.given_bps / 1e6,
                contact.taken_bps / 1e6,
                bytes(contact.this_contact)
            )?,
            false => writeln!(out, "out of contact")?,
        }
        writeln!(out, "  given {}, taken {}", bytes(contact.bytes_given), bytes(contact.bytes_taken))?;
        write_pass(out, contact)?;
    }
    for cast in &snapshot.casts {
        let CastSnapshot { name, key, datagrams, symbols, objects, under_way, refused, .. } = cast;
        match cast.sends {
            true => writeln!(
                out,
                "\ncast {name}, key {key}: {datagrams} datagrams, {objects} rounds of objects, {under_way} objects go round"
            )?,
            false => {
                writeln!(
                    out,
                    "\nheard {name}, key {key}: {datagrams} datagrams, {objects} objects, {under_way} begun"
                )?;
                writeln!(
                    out,
                    "  {symbols} symbols, {} blocks, {} not whole; {refused} datagrams refused",
                    cast.blocks,
                    bytes(cast.held_bytes)
                )?;
            }
        }
    }
    Ok(())
}

/// What a contact brings across, and what it is expected to.
fn write_pass(out: &mut String, contact: &ContactSnapshot) -> std::fmt::Result {
    if !contact.up {
        return match contact.files.filter(|files| files.all > 0) {
            Some(files) => writeln!(out, "  {} files wait for it, {}", files.all, bytes(files.bytes_left)),
            None => Ok(()),
        };
    }
    match (contact.expected_bytes, contact.forecast) {
        (Some(expected), Some(0)) => {
            writeln!(
                out,
                "  more than the {} that were expected: how much is still to come is not known",
                bytes(expected)
            )?;
        }
        (Some(expected), Some(left)) => {
            writeln!(out, "  {} expected in this contact, {} of it still to come", bytes(expected), bytes(left))?;
        }
        _ => {}
    }
    let kinds = [(contact.files, "files", "given"), (contact.objects, "objects on offer (a pack is one)", "taken")];
    for (pass, what, how) in kinds {
        let Some(PassSnapshot { done, expected, all, bytes_left }) = pass.filter(|pass| pass.all > 0) else { continue };
        match expected {
            Some(expected) => write!(out, "  expected: {expected} of {all} {what}, {done} of them {how}")?,
            None => write!(out, "  {how}: {done} of {all} {what}")?,
        }
        writeln!(out, "; {} left", bytes(bytes_left))?;
    }
    Ok(())
}

/// As people write it.
pub fn bytes(n: u64) -> String {
    match n {
        0..10_000 => format!("{n} B"),
        10_000..10_000_000 => format!("{:.1} kB", n as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", n as f64 / 1e6),
        _ => format!("{:.1} GB", n as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(done: u64, expected: Option<u64>, all: u64, bytes_left: u64) -> Option<PassSnapshot> {
        Some(PassSnapshot { done, expected, all, bytes_left })
    }

    fn shown(contact: ContactSnapshot) -> (String, String) {
        let snapshot = MuleSnapshot { contacts: vec![contact], ..MuleSnapshot::default() };
        (snapshot.summary(), snapshot.metrics())
    }

    #[test]
    fn text_and_metrics_tell_the_same_forecast() {
        let contact = ContactSnapshot {
            store: "ship".into(),
            up: true,
            expected_bytes: Some(120_000_000),
            forecast: Some(30_000_000),
            files: pass(5, Some(7), 12, 40_000_000),
            objects: pass(1, Some(3), 4, 2_000_000),
            ..ContactSnapshot::default()
        };
        let (text, metrics) = shown(contact);
        for line in [
            "  120.0 MB expected in this contact, 30.0 MB of it still to come\n",
            "  expected: 7 of 12 files, 5 of them given; 40.0 MB left\n",
            "  expected: 3 of 4 objects on offer (a pack is one), 1 of them taken; 2000.0 kB left\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        for line in [
            "aquila_mule_contact_files{store=\"ship\"} 12\n",
            "aquila_mule_contact_files_given{store=\"ship\"} 5\n",
            "aquila_mule_contact_files_expected{store=\"ship\"} 7\n",
            "aquila_mule_contact_objects_expected{store=\"ship\"} 3\n",
        ] {
            assert!(metrics.contains(line), "{line}{metrics}");
        }
    }

    #[test]
    fn a_contact_that_carries_more_than_expected_does_not_say_that_nothing_more_comes() {
        let contact = ContactSnapshot {
            up: true,
            expected_bytes: Some(10_000_000),
            forecast: Some(0),
            files: pass(3, None, 7, 12_000_000),
            ..ContactSnapshot::default()
        };
        let (text, metrics) = shown(contact);
        assert!(text.contains("  more than the 10.0 MB that were expected"), "{text}");
        assert!(text.contains("  given: 3 of 7 files; 12.0 MB left\n"), "{text}");
        assert!(!text.contains("0 of 7") && !metrics.contains("files_expected{"), "{text}{metrics}");
    }

    #[test]
    fn what_waits_is_told_without_contact_and_nothing_where_there_is_nothing() {
        let apart = ContactSnapshot { files: pass(0, None, 12, 34_000_000), ..ContactSnapshot::default() };
        assert!(shown(apart).0.contains("  12 files wait for it, 34.0 MB\n"));
        let taker = ContactSnapshot { up: true, objects: pass(0, None, 0, 0), ..ContactSnapshot::default() };
        let text = shown(taker).0;
        assert!(!text.contains(" 0 of 0"), "{text}");
    }
}
