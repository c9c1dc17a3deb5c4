//! Packs of small files: nothing makes the reader panic, no path that is read leads out of a folder, and what is read is written and
//! read again as it was.

use std::collections::BTreeSet;

use aquila_depot::pack;
use aquila_proto::transfer::is_safe;

/// The input is a pack.
pub fn pack(data: &[u8]) {
    let Ok(entries) = pack::parse(data) else { return };
    assert!(!entries.is_empty() && entries.len() <= pack::MAX_FILES);
    let paths: BTreeSet<_> = entries.iter().map(|entry| entry.path).collect();
    assert_eq!(paths.len(), entries.len());
    for path in paths {
        assert!(is_safe(path) && pack::fits(path));
        assert!(path.split('/').all(|part| !matches!(part, "" | "." | "..") && part.len() <= pack::MAX_PART));
    }
    let content: usize = entries.iter().map(|entry| entry.content.len()).sum();
    assert!(content < data.len());
    let written = pack::write(&entries).expect("what was read can be written");
    // Lengths may have been written longer than need be.
    assert!(written.len() <= data.len());
    assert_eq!(pack::parse(&written).as_deref(), Ok(&entries[..]));
}
