//! MAVLink: single frames, and frames found in a stream.

use std::sync::LazyLock;

use aquila_proto::mavlink::{Frame, Policy, Splitter, StateKey, Version};

static POLICY: LazyLock<Policy> = LazyLock::new(Policy::default);

/// Any bytes, as one frame and as a stream cut in several ways.
pub fn mavlink(data: &[u8]) {
    if let Ok((frame, len)) = Frame::parse(data) {
        assert_eq!(frame.bytes()[..], data[..len]);
        assert_eq!(Frame::from_bytes(frame.bytes().clone()).as_ref(), Ok(&frame));
        look_at(&frame);
    }
    let _ = Frame::from_bytes(bytes::Bytes::copy_from_slice(data));
    for chunk in [data.len().max(1), 1, 11] {
        split(data, chunk, Splitter::feed);
        split(data, chunk, Splitter::feed_datagram);
    }
}

/// Every byte is either given out in a frame or counted as skipped.
fn split(data: &[u8], chunk: usize, feed: fn(&mut Splitter, &[u8])) {
    let mut splitter = Splitter::new();
    let mut given_out = 0;
    let mut drain = |splitter: &mut Splitter| {
        while let Some(frame) = splitter.next_frame() {
            given_out += frame.bytes().len() as u64;
            look_at(&frame);
        }
    };
    for piece in data.chunks(chunk) {
        feed(&mut splitter, piece);
        drain(&mut splitter);
        assert!(splitter.pending() < Frame::MAX_LEN);
    }
    splitter.flush();
    drain(&mut splitter);
    assert_eq!(splitter.pending(), 0);
    assert_eq!(given_out + splitter.stats().skipped_bytes, data.len() as u64);
}

/// Everything a link asks of a frame.
fn look_at(frame: &Frame) {
    assert!((8..=Frame::MAX_LEN).contains(&frame.bytes().len()));
    assert_eq!(frame.is_signed(), frame.signature().is_some());
    let _ = (frame.seq(), frame.version(), frame.incompat_flags(), frame.source(), frame.info());
    let _ = (frame.message_id().to_string(), frame.target(), frame.instance(), StateKey::of(frame));
    let _ = (frame.field::<4>(0), frame.field::<16>(usize::from(u8::MAX)), frame.field::<1>(usize::MAX));
    let _ = POLICY.treatment(frame.message_id());
    if frame.info().is_some() && frame.incompat_flags() == 0 {
        // What we would build of it ourselves is the same message.
        let parts = (frame.version(), frame.seq(), frame.source(), frame.message_id());
        if let Ok(built) = Frame::build(parts.0, parts.1, parts.2, parts.3, frame.payload()) {
            assert_eq!(Frame::from_bytes(built.bytes().clone()).as_ref(), Ok(&built));
            assert_eq!((built.message_id(), built.source()), (parts.3, parts.2));
            // In version 1 the extension fields are cut off, a target among them.
            assert!(frame.version() == Version::V1 || built.target() == frame.target());
        }
    }
}
