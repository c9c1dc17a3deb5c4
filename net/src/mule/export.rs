//! A file on its way out as bundles, piece by piece: see docs/bundles.md, "An object as bundles".

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use aquila_bundle::{Draft, Eid, Part, PartOf, parts};
use aquila_depot::{Depot, DepotError, pack};
use aquila_proto::transfer::{Hash, Kind, Manifest, ObjectId};

/// How long a bundle of ours is wanted, where its file does not say.
const LIFETIME: Duration = Duration::from_secs(30 * 86_400);

/// An object whose files leave as bundles. What has left is not remembered over a restart: then all of it leaves again, under the same
/// names.
#[derive(Debug)]
pub(super) struct Export {
    object: ObjectId,
    created_s: u64,
    expires_s: u64,
    files: Vec<File>,
    /// Pieces that are to be given.
    left: VecDeque<Piece>,
    /// Pieces that are neither to be given nor acknowledged.
    under_way: usize,
}

#[derive(Debug)]
struct File {
    of: PartOf,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// Where the object's chunks end, in bytes of content.
    Chunks(Vec<u64>),
    /// Of a file in a pack.
    Bytes(Vec<u8>),
}

/// A piece: which file of the object, and where it begins and ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    file: usize,
    range: Range<u64>,
}

/// Why something cannot leave.
#[derive(Debug)]
pub(super) enum Fault {
    /// It may later.
    Now(DepotError),
    /// It never can.
    Useless(String),
}

impl From<DepotError> for Fault {
    fn from(error: DepotError) -> Self {
        Self::Now(error)
    }
}

impl Export {
    /// Reads an object, a file or a pack, and checks that it is what its source says.
    pub fn open(depot: &mut Depot, object: ObjectId) -> Result<Self, Fault> {
        let useless = |why: &str| Fault::Useless(why.to_owned());
        let manifest = Manifest::parse(&depot.load(&object, 0)?).map_err(|error| useless(&error.to_string()))?;
        let total = manifest.chunks.iter().map(|chunk| u64::from(chunk.len)).sum();
        let files = match manifest.kind {
            Kind::File => {
                depot.check(&object)?;
                let of = PartOf { object: object.0.0, total, hash: manifest.hash.0, path: manifest.path };
                let ends = manifest.chunks.iter().scan(0, |end, chunk| {
                    *end += u64::from(chunk.len);
                    Some(*end)
                });
                vec![File { of, content: Content::Chunks(ends.collect()) }]
            }
            Kind::Pack => {
                let whole = depot.whole(&object)?;
                let entries = pack::parse(&whole).map_err(|_| useless("a pack that is none"))?;
                let file = |entry: &pack::Entry<'_>| File {
                    of: PartOf {
                        object: Hash::of(&[&object.0.0, entry.path.as_bytes()].concat()).0,
                        total: entry.content.len() as u64,
                        hash: Hash::of(entry.content).0,
                        path: entry.path.to_owned(),
                    },
                    content: Content::Bytes(entry.content.to_vec()),
                };
                entries.iter().map(file).collect()
            }
            Kind::Bundle => return Err(useless("a bundle is no file")),
        };
        let pieces = |(at, file): (usize, &File)| parts(file.of.total).map(move |range| Piece { file: at, range });
        let left = files.iter().enumerate().flat_map(pieces).collect();
        let Manifest { created_s, expires_s, .. } = manifest;
        Ok(Self { object, created_s, expires_s, files, left, under_way: 0 })
    }

    /// The next piece that is to be given; then [`Export::bundle`] is it.
    pub fn next(&mut self) -> Option<Piece> {
        let piece = self.left.pop_front()?;
        self.under_way += 1;
        Some(piece)
    }

    /// A piece was acknowledged. Whether that was the last.
    pub fn on_delivered(&mut self) -> bool {
        self.under_way = self.under_way.saturating_sub(1);
        self.under_way == 0 && self.left.is_empty()
    }

    /// A piece was not acknowledged.
    pub fn again(&mut self, piece: Piece) {
        self.under_way = self.under_way.saturating_sub(1);
        self.left.push_front(piece);
    }

    /// The bundle of a piece. It has the same name each time: of source, time and a number that follows from what it holds.
    pub fn bundle(
        &self,
        depot: &mut Depot,
        piece: &Piece,
        source: Eid,
        destination: Eid,
        now_ms: u64,
    ) -> Result<Vec<u8>, Fault> {
        let Piece { file, range } = piece;
        let File { of, content } =
            self.files.get(*file).ok_or_else(|| Fault::Useless("a piece of no file".to_owned()))?;
        let read;
        let data = match content {
            Content::Bytes(bytes) => bytes.get(range.start as usize..range.end as usize).unwrap_or_default(),
            Content::Chunks(ends) => {
                read = read_range(depot, &self.object, ends, range)?;
                &read
            }
        };
        let payload = Part { of: of.clone(), offset: range.start, data }.encode();
        let payload = payload.map_err(|error| Fault::Useless(error.to_string()))?;
        // A clock that goes wrong on the ship must not make a bundle of tomorrow.
        let created_ms = self.created_s.saturating_mul(1_000).min(now_ms);
        let since = Duration::from_millis(now_ms.saturating_sub(created_ms));
        let lifetime = match self.expires_s {
            0 => since + LIFETIME,
            expires_s => Duration::from_millis(expires_s.saturating_mul(1_000).saturating_sub(created_ms)),
        };
        let mut draft = Draft::new(source, destination, created_ms, lifetime);
        let name = Hash::of(&[&of.object[..], &range.start.to_be_bytes()].concat()).0;
        draft.sequence = name.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        draft.build(&payload).map_err(|error| Fault::Useless(error.to_string()))
    }
}

/// Content of a file between two places, from the chunks that it lies in.
fn read_range(depot: &mut Depot, object: &ObjectId, ends: &[u64], range: &Range<u64>) -> Result<Vec<u8>, DepotError> {
    let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
    let first = ends.partition_point(|end| *end <= range.start);
    let mut begin = if first == 0 { 0 } else { ends[first - 1] };
    for (at, end) in ends.iter().enumerate().skip(first) {
        if begin >= range.end {
            break;
        }
        let content = depot.content(object, at as u64 + 1)?;
        let (from, to) = (range.start.max(begin) - begin, range.end.min(*end) - begin);
        bytes.extend_from_slice(content.get(from as usize..to as usize).unwrap_or_default());
        begin = *end;
    }
    Ok(bytes)
}
