//! What somebody makes up who means harm: refused by name, and nothing is written outside the folder.

use std::os::unix::fs::symlink;

use aquila_proto::transfer::{Chunk, Kind, Manifest, ManifestError, StoreId};
use ring::signature::Ed25519KeyPair;

use super::kills::sound;
use super::*;
use crate::pack::{self, Entry};
use crate::{Refusal, Row};

/// An object made by hand.
struct Made {
    manifest: Manifest,
    parts: Vec<Vec<u8>>,
}

impl Made {
    /// Of one plain chunk, or none.
    fn new(number: u64, kind: Kind, path: &str, content: &[u8]) -> Self {
        let parts: Vec<Vec<u8>> = content.chunks(Chunk::MAX as usize).map(<[u8]>::to_vec).collect();
        let chunk = |part: &Vec<u8>| Chunk { hash: Hash::of(part), len: part.len() as u32, compressed: 0 };
        let manifest = Manifest {
            kind,
            source: StoreId(*b"made up "),
            key: key(SHIP),
            number,
            priority: 0,
            created_s: 1,
            deadline_s: 0,
            expires_s: 0,
            destination: String::new(),
            path: path.into(),
            modified_ns: 1_000_000_000,
            hash: Hash::of(content),
            chunks: parts.iter().map(chunk).collect(),
        };
        Self { manifest, parts }
    }

    fn signed(&self) -> Vec<u8> {
        self.manifest.sign(&identity(SHIP)).unwrap().to_vec()
    }

    /// Gives it to a store, which takes it.
    fn give(&self, to: &mut Depot) -> ObjectId {
        let bytes = self.signed();
        let object = ObjectId(Hash::of(&bytes));
        let verdict = to.on_manifest(&key(SHIP), &object, &bytes).unwrap();
        assert!(matches!(verdict, Verdict::WantChunks { .. }), "{verdict:?}");
        for (bytes, part) in self.parts.iter().zip(1..) {
            assert!(to.store(&object, part, bytes).unwrap().good);
        }
        assert_eq!(to.commit().unwrap().custody, [object]);
        object
    }
}

/// Signs bytes that no manifest is made of.
fn signed_anyhow(mut bytes: Vec<u8>) -> Vec<u8> {
    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(identity(SHIP).pkcs8()).unwrap();
    bytes.truncate(bytes.len() - 64);
    let signature = pair.sign(&[b"aquila manifest 1\0", &bytes[..]].concat());
    bytes.extend_from_slice(signature.as_ref());
    bytes
}

fn judged(depot: &mut Depot, bytes: &[u8]) -> Verdict {
    depot.on_manifest(&key(SHIP), &ObjectId(Hash::of(bytes)), bytes).unwrap()
}

fn only(depot: &Depot, object: &ObjectId) -> Row {
    depot.list(crate::Filter::default()).map(Result::unwrap).find(|row| row.object == *object).unwrap()
}

#[test]
fn manifests_are_refused_by_name() {
    let temp = Temp::new();
    let mut shore = open(&temp, SHORE);
    let made = Made::new(1, Kind::File, "xx/passwd", b"content");
    let bytes = made.signed();
    let refused = |refusal| Verdict::Refuse(refusal);

    let wrong_name = shore.on_manifest(&key(SHIP), &ObjectId(Hash::of(b"another")), &bytes).unwrap();
    assert_eq!(wrong_name, refused(Refusal::Another));
    // What could not be written by us, with a signature that is right.
    let at = bytes.windows(9).position(|window| window == b"xx/passwd").unwrap();
    for path in [b"../passwd", b"/x/passwd", b"xx/../pas", b"xx//passw", b"xx\\passwd", b"xx/pass\0d", b"xx/pass:d"] {
        let mut evil = bytes.clone();
        evil[at..at + 9].copy_from_slice(path);
        let verdict = judged(&mut shore, &signed_anyhow(evil));
        assert_eq!(verdict, refused(Refusal::Manifest(ManifestError::Path)), "{path:?}");
    }
    let mut later = bytes.clone();
    later[3] = b'2';
    assert_eq!(judged(&mut shore, &signed_anyhow(later)), refused(Refusal::Manifest(ManifestError::Version('2'))));
    let mut forged = bytes.clone();
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(judged(&mut shore, &forged), refused(Refusal::Manifest(ManifestError::Signature)));
    assert_eq!(judged(&mut shore, b""), refused(Refusal::Manifest(ManifestError::Length)));
    assert_eq!(judged(&mut shore, &[b'x'; 300]), refused(Refusal::Manifest(ManifestError::NotOne)));
    let endless = vec![b'x'; Manifest::MAX_LEN + 1];
    assert_eq!(judged(&mut shore, &endless), refused(Refusal::Manifest(ManifestError::TooLong)));
    // A chunk of 512 MiB: its length takes four bytes in place of one.
    let mut huge = bytes[..bytes.len() - 66].to_vec();
    huge.extend([0xa0, 0, 0, 0, 0]);
    huge.extend([0; 64]);
    assert_eq!(judged(&mut shore, &signed_anyhow(huge)), refused(Refusal::Manifest(ManifestError::Chunks)));
    let whys = [ManifestError::Path, ManifestError::Version('2'), ManifestError::Signature, ManifestError::Chunks];
    let said = whys.map(|why| Refusal::Manifest(why).to_string()).join("; ");
    for word in ["lead out of", "version, '2'", "signature", "absurd"] {
        assert!(said.contains(word), "{word}: {said}");
    }

    let stranger = made.manifest.sign(&identity(77)).unwrap();
    assert_eq!(judged(&mut shore, &stranger), refused(Refusal::Source));
    let ours = Manifest { source: shore.store_id(), ..made.manifest.clone() };
    assert_eq!(judged(&mut shore, &ours.sign(&identity(SHIP)).unwrap()), refused(Refusal::Ours));
    let old = Manifest { expires_s: 2, ..made.manifest.clone() };
    assert_eq!(judged(&mut shore, &old.sign(&identity(SHIP)).unwrap()), refused(Refusal::Expired));
    let long = Manifest { path: "x".repeat(300), ..made.manifest.clone() };
    assert_eq!(judged(&mut shore, &long.sign(&identity(SHIP)).unwrap()), refused(Refusal::Absurd));
    let chunk = Chunk { hash: Hash::of(b"x"), len: Chunk::MAX, compressed: 1 };
    for (kind, count) in [(Kind::Pack, 5), (Kind::Bundle, 65)] {
        let huge = Manifest { kind, path: String::new(), chunks: vec![chunk; count], ..made.manifest.clone() };
        assert_eq!(judged(&mut shore, &huge.sign(&identity(SHIP)).unwrap()), refused(Refusal::Absurd), "{kind:?}");
    }
    made.give(&mut shore);
    let twice = Made::new(1, Kind::File, "another", b"other content");
    assert_eq!(judged(&mut shore, &twice.signed()), refused(Refusal::Number));
    assert_eq!(judged(&mut shore, &bytes), Verdict::HaveCustody);
    let offer = Offer {
        object: ObjectId(Hash::of(b"?")),
        manifest_len: u32::MAX,
        wire_len: u64::MAX,
        priority: 255,
        deadline_s: u64::MAX,
    };
    let too_long = refused(Refusal::Manifest(ManifestError::TooLong));
    assert_eq!(shore.on_offer(&key(SHIP), &offer).unwrap(), too_long);
    sound(&shore);
}

#[test]
fn chunks_that_are_not_what_they_should_be_are_not_kept() {
    let temp = Temp::new();
    let mut plane = open(&temp, PLANE);
    let mut made = Made::new(1, Kind::File, "x", &vec![7; 200_000]);
    let frame = zstd::bulk::compress(&made.parts[0], 3).unwrap();
    made.manifest.chunks[0].compressed = frame.len() as u32;
    let bytes = made.signed();
    let object = ObjectId(Hash::of(&bytes));
    assert!(matches!(judged(&mut plane, &bytes), Verdict::WantChunks { .. }));
    // A bomb, and a frame that says of itself that it is long, cut or filled up to the length that is awaited.
    let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 19).unwrap();
    for wrong in [bomb, zstd::bulk::compress(&vec![7; 200_001], 3).unwrap(), noise(1, 100), Vec::new()] {
        let mut wrong = wrong;
        wrong.resize(frame.len(), 0);
        let stored = plane.store(&object, 1, &wrong).unwrap();
        assert!(!stored.good && !stored.was_there);
    }
    assert!(!plane.store(&object, 1, &made.parts[0]).unwrap().good, "plain though compressed was said");
    assert!(plane.store(&object, 2, &frame).is_err() && plane.store(&object, 0, &frame).is_err());
    assert!(plane.store(&object, u64::MAX, &frame).is_err());
    assert!(plane.commit().unwrap().custody.is_empty() && !plane.is_complete(&object).unwrap());
    assert!(plane.store(&object, 1, &frame).unwrap().good);
    assert!(plane.store(&object, 1, b"").unwrap().was_there);
    assert_eq!(plane.commit().unwrap().custody, [object]);
    sound(&plane);
}

#[test]
fn lies_about_content_are_refused_and_leave_nothing() {
    let temp = Temp::new();
    let mut shore = open(&temp, SHORE);
    // All chunks are right, the whole is not.
    let mut lie = Made::new(1, Kind::File, "lie", b"content");
    lie.manifest.hash = Hash::of(b"something else");
    let mut pack = pack::write(&[Entry { path: "good", modified_ns: 0, content: b"x" }]).unwrap();
    let at = pack.windows(4).position(|window| window == b"good").unwrap();
    pack[at..at + 4].copy_from_slice(b"../x");
    let evil = Made::new(2, Kind::Pack, "", &pack);
    let mut pack = pack::write(&[Entry { path: "good", modified_ns: 0, content: b"x" }]).unwrap();
    pack[3] = b'2';
    let later = Made::new(3, Kind::Pack, "", &pack);
    let empty = Made::new(4, Kind::Pack, "", b"");
    let made: Vec<_> = [lie, evil, later, empty].iter().map(|made| made.give(&mut shore)).collect();
    let mut bundle = Made::new(5, Kind::Bundle, "", b"bundle");
    bundle.manifest.hash = Hash::of(b"something else");
    let bundle = bundle.give(&mut shore);
    assert!(shore.whole(&bundle).is_err());
    let good = Made::new(6, Kind::File, "good", b"good").give(&mut shore);
    let delivered = shore.deliver(100).unwrap();
    assert_eq!(delivered.iter().map(|delivered| delivered.object).collect::<Vec<_>>(), [good]);
    for object in made.iter().chain([&bundle]) {
        let row = only(&shore, object);
        assert!(row.state == State::Refused && !row.reason.is_empty(), "{row:?}");
    }
    assert_eq!(tree(&temp.join("ashore")), [("good".to_owned(), b"good".to_vec())]);
    assert!(!temp.join("x").exists());
    let receipts = shore.receipts_for(&key(SHIP)).unwrap();
    let receipts = receipts.iter().map(|bytes| aquila_proto::transfer::Receipt::parse(bytes).unwrap());
    let delivery = receipts.filter(|receipt| receipt.confirms == aquila_proto::transfer::Confirms::Delivery);
    assert_eq!(delivery.map(|receipt| receipt.numbers.count()).sum::<u64>(), 1, "for what was delivered only");
    sound(&shore);
}

#[test]
fn links_in_the_folder_lead_nowhere() {
    let temp = Temp::new();
    let mut shore = open(&temp, SHORE);
    let outside = temp.file("outside/file", b"precious");
    let ashore = temp.join("ashore");
    symlink(temp.join("outside"), ashore.join("folder")).unwrap();
    symlink(&outside, ashore.join("leaf")).unwrap();
    symlink(temp.join("outside/new"), ashore.join("dangling")).unwrap();
    symlink("..", ashore.join("up")).unwrap();
    fs::create_dir(ashore.join("a-folder")).unwrap();
    fs::write(ashore.join("somebodys"), b"not ours").unwrap();
    let paths =
        ["folder/file", "folder/new/deep", "leaf", "dangling", "up/evil", "a-folder", "somebodys", "somebodys/x"];
    for (path, number) in paths.iter().zip(1..) {
        Made::new(number, Kind::File, path, path.as_bytes()).give(&mut shore);
    }
    assert_eq!(shore.deliver(100).unwrap().len(), paths.len());
    assert_eq!(tree(&temp.join("outside")), [("file".to_owned(), b"precious".to_vec())]);
    assert!(!temp.join("evil").exists() && !temp.join("outside/new").exists());
    assert_eq!(fs::read(ashore.join("somebodys")).unwrap(), b"not ours");
    for there in [
        "folder~6d616465/file",
        "folder~6d616465/new/deep",
        "leaf~6d616465",
        "dangling~6d616465",
        "up~6d616465/evil",
        "a-folder~6d616465",
        "somebodys~6d616465",
    ] {
        assert!(ashore.join(there).symlink_metadata().unwrap().is_file(), "{there}");
    }
    // The name beside it is taken by then.
    assert_eq!(fs::read(ashore.join("somebodys~6d616465")).unwrap(), b"somebodys");
    assert_eq!(fs::read(ashore.join("somebodys~6d616465-2/x")).unwrap(), b"somebodys/x");
}

#[test]
fn what_was_written_before_the_power_was_cut_is_taken_for_what_it_is() {
    let temp = Temp::new();
    let mut shore = open(&temp, SHORE);
    let made = Made::new(1, Kind::File, "a/b", b"content");
    made.give(&mut shore);
    fs::create_dir(temp.join("ashore/a")).unwrap();
    fs::write(temp.join("ashore/a/b"), b"content").unwrap();
    assert_eq!(shore.deliver(9).unwrap()[0].files, ["a/b"]);
    // A next version takes its place.
    Made::new(2, Kind::File, "a/b", b"changed").give(&mut shore);
    assert_eq!(shore.deliver(9).unwrap()[0].files, ["a/b"]);
    assert_eq!(tree(&temp.join("ashore")), [("a/b".to_owned(), b"changed".to_vec())]);
}

#[test]
fn a_folder_of_a_later_version_is_left_alone() {
    let temp = Temp::new();
    drop(open(&temp, SHIP));
    let db = rusqlite::Connection::open(temp.join("store-2/state.db")).unwrap();
    db.pragma_update(None, "user_version", 3).unwrap();
    let error = Depot::open(temp.join("store-2"), config(SHIP)).unwrap_err();
    assert!(error.to_string().contains("version 3"), "{error}");
    assert!(crate::View::open(&temp.join("store-2")).is_err());
}
