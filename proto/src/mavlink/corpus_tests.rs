//! Everything that reads bytes, on the fuzzer's seeds and on every mutation of one byte.

use super::router::{RouterConfig, Verdict};
use super::testkit::epoch;
use super::*;

fn split(chunks: impl Iterator<Item = impl AsRef<[u8]>>) -> (Vec<Frame>, SplitterStats) {
    let mut splitter = Splitter::new();
    let mut frames = Vec::new();
    for chunk in chunks {
        splitter.feed(chunk.as_ref());
        frames.extend(std::iter::from_fn(|| splitter.next_frame()));
        assert!(splitter.pending() < Frame::MAX_LEN);
    }
    splitter.flush();
    frames.extend(std::iter::from_fn(|| splitter.next_frame()));
    assert_eq!(splitter.pending(), 0);
    (frames, splitter.stats())
}

/// What a fuzz target does with its input.
fn read(input: &[u8]) {
    if let Ok((frame, len)) = Frame::parse(input) {
        assert_eq!(frame.bytes()[..], input[..len]);
        assert_eq!(Frame::from_bytes(frame.bytes().clone()), Ok(frame));
    }
    let (frames, stats) = split([input].into_iter());
    let bytes: usize = frames.iter().map(|frame| frame.bytes().len()).sum();
    assert_eq!(bytes as u64 + stats.skipped_bytes, input.len() as u64);

    let mut router = Router::new(RouterConfig::default());
    let (policy, now, mut out) = (Policy::new(), epoch(), Vec::new());
    for (id, kind) in [(EndpointId(0), EndpointKind::Local), (EndpointId(1), EndpointKind::Remote)] {
        router.add_endpoint(now, id, EndpointConfig::new(kind)).unwrap();
    }
    for frame in &frames {
        let verdict = router.route(now, EndpointId(0), frame, &mut out);
        assert_eq!(verdict == Verdict::Forward, out == [EndpointId(1)]);
        let _ = (policy.treatment(frame.message_id()), StateKey::of(frame), frame.signature());
    }
}

#[test]
fn seeds_and_their_neighbours() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/mavlink");
    let mut seeds = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let seed = std::fs::read(entry.unwrap().path()).unwrap();
        seeds += 1;
        read(&seed);
        let whole = split([&seed].into_iter()).0;
        // Known messages do not depend on how the stream was read.
        let known = |frames: Vec<Frame>| frames.into_iter().filter(|f| f.info().is_some()).collect::<Vec<_>>();
        assert_eq!(known(split(seed.chunks(1)).0).len(), known(whole).len());
        for at in 0..seed.len() {
            for flip in [1, 0x80, 0xff] {
                let mut changed = seed.clone();
                changed[at] ^= flip;
                read(&changed);
            }
        }
    }
    assert!(seeds >= 20, "{seeds}");
}
