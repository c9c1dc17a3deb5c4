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
    /// Links to other stores.
    pub contacts: Vec<ContactSnapshot>,
    /// Casts that are sent and heard.
    #[serde(default)]
    pub casts: Vec<CastSnapshot>,
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
    /// Bytes that are expected to be carried in what is left of it.
    pub forecast: Option<u64>,
    /// Of the objects in `giving`, how many of them that finishes.
    pub fits: Option<u64>,
    /// Objects that it is being given.
    pub giving: Vec<ObjectSnapshot>,
    /// Objects that it has and that are being taken.
    pub taking: Vec<String>,
}

/// An object that is being given.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ObjectSnapshot {
    /// Its name, in hexadecimal.
    pub object: String,
    /// Bytes on the way.
    pub bytes: u64,
    /// Share of it that the other side has confirmed, 0 to 1.
    pub done: f64,
}

impl From<&Total> for StateSnapshot {
    fn from(total: &Total) -> Self {
        Self { state: total.state.name().to_owned(), objects: total.objects, bytes: total.size }
    }
}

impl MuleSnapshot {
    pub(super) fn new(
        totals: &[Total],
        health: &Health,
        contacts: Vec<ContactSnapshot>,
        casts: Vec<CastSnapshot>,
    ) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            at_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            states: totals.iter().map(StateSnapshot::from).collect(),
            full: health.full.map(|why| why.to_string()),
            used_bytes: health.used,
            free_bytes: health.disk_free,
            waiting: health.paused,
            damaged: health.damaged,
            contacts,
            casts,
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

const CONTACT: [Column<ContactSnapshot>; 8] = [
    ("aquila_mule_contact", "Whether there is contact with another store.", |c| Some(flag(c.up))),
    ("aquila_mule_given_bytes_total", "Bytes that it was given.", |c| count(c.bytes_given)),
    ("aquila_mule_taken_bytes_total", "Bytes that were taken from it.", |c| count(c.bytes_taken)),
    ("aquila_mule_again_bytes_total", "Bytes that came though they were there.", |c| count(c.bytes_again)),
    ("aquila_mule_lost_bytes_total", "Bytes sent that were lost.", |c| count(c.bytes_lost)),
    ("aquila_mule_giving_objects", "Objects that it is being given.", |c| count(c.giving.len() as u64)),
    ("aquila_mule_taking_objects", "Objects that are being taken from it.", |c| count(c.taking.len() as u64)),
    ("aquila_mule_forecast_bytes", "Bytes expected in what is left of this contact.", |c| c.forecast.and_then(count)),
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
        if let (Some(forecast), Some(fits)) = (contact.forecast, contact.fits) {
            let of = contact.giving.len();
            writeln!(out, "  {} more expected in this contact: {fits} of {of} objects", bytes(forecast))?;
        }
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

/// As people write it.
pub fn bytes(n: u64) -> String {
    match n {
        0..10_000 => format!("{n} B"),
        10_000..10_000_000 => format!("{:.1} kB", n as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", n as f64 / 1e6),
        _ => format!("{:.1} GB", n as f64 / 1e9),
    }
}
