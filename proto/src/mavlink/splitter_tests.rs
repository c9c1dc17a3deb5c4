use proptest::prelude::*;

use super::*;
use crate::mavlink::testkit::{known, v2, vectors};

fn drain(splitter: &mut Splitter) -> Vec<Frame> {
    std::iter::from_fn(|| splitter.next_frame()).collect()
}

fn split(chunks: &[&[u8]]) -> (Vec<Frame>, SplitterStats) {
    let mut splitter = Splitter::new();
    let mut frames = Vec::new();
    for chunk in chunks {
        splitter.feed(chunk);
        frames.extend(drain(&mut splitter));
        assert!(splitter.pending() < Frame::MAX_LEN);
    }
    (frames, splitter.stats())
}

fn all_vectors() -> Vec<u8> {
    vectors().into_iter().flat_map(|v| v.bytes).collect()
}

#[test]
fn a_clean_stream_is_cut_into_its_frames_wherever_it_is_read() {
    let stream = all_vectors();
    let (whole, stats) = split(&[&stream]);
    assert_eq!(whole.len(), vectors().len());
    assert_eq!(stats, SplitterStats { frames: whole.len() as u64, unverified: 5, ..Default::default() });
    assert_eq!(whole.iter().flat_map(|f| f.bytes().to_vec()).collect::<Vec<_>>(), stream);
    for cut in 0..stream.len() {
        assert_eq!(split(&[&stream[..cut], &stream[cut..]]), (whole.clone(), stats), "cut at {cut}");
    }
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(split(&bytes), (whole, stats));
}

#[test]
fn a_broken_frame_is_counted_once_and_its_neighbours_survive() {
    let heartbeat = known("HEARTBEAT", 2);
    let mut stream = [heartbeat.bytes(), heartbeat.bytes(), heartbeat.bytes(), heartbeat.bytes()].map(|b| b.to_vec());
    stream[1][12] ^= 0x10;
    stream[2][13] ^= 0x10;
    let (frames, stats) = split(&[&stream.concat()]);
    assert_eq!(frames.len(), 2);
    assert_eq!(stats, SplitterStats { frames: 2, unverified: 0, bad_checksum: 2, skipped_bytes: 42 });
}

#[test]
fn a_frame_inside_a_false_start_is_found() {
    let heartbeat = known("HEARTBEAT", 2);
    // Looks like the header of a known v1 frame of 40 bytes.
    let mut stream = vec![0xfe, 40, 0, 1, 1, 30];
    stream.extend_from_slice(heartbeat.bytes());
    stream.extend_from_slice(heartbeat.bytes());
    let (frames, stats) = split(&[&stream]);
    assert_eq!(frames, [heartbeat.clone(), heartbeat]);
    assert_eq!(stats.skipped_bytes, 6);
}

#[test]
fn unverifiable_frames_are_believed_only_in_their_place() {
    let (heartbeat, unknown) = (known("HEARTBEAT", 2), v2(1, 1, 40_000, &[9; 10]));
    let (h, u) = (heartbeat.bytes(), unknown.bytes());
    // At the beginning, after a frame, before a frame, at the end of what has arrived.
    assert_eq!(split(&[&[&u[..], h].concat()]).0.len(), 2);
    assert_eq!(split(&[&[&h[..], u].concat()]).0.len(), 2);
    assert_eq!(split(&[&[&h[..], u, u, h].concat()]).0.len(), 4);
    // After garbage: lost, until a known frame shows where frames begin.
    let (frames, stats) = split(&[&[b"\x55", &u[..], h, u].concat()]);
    assert_eq!(frames, [heartbeat.clone(), unknown.clone()]);
    assert_eq!(stats.skipped_bytes, 1 + u.len() as u64);
    // Before garbage that has arrived with it.
    assert_eq!(split(&[&[&h[..], u, b"\x55"].concat()]).0, [heartbeat]);
}

#[test]
fn a_quiet_line_ends_the_wait_for_a_false_start() {
    let heartbeat = known("HEARTBEAT", 2);
    let mut stream = vec![0xfe, 255, 0, 1, 1, 30];
    stream.extend_from_slice(heartbeat.bytes());
    let mut splitter = Splitter::new();
    splitter.feed(&stream);
    assert_eq!(splitter.next_frame(), None);
    splitter.flush();
    assert_eq!(drain(&mut splitter), std::slice::from_ref(&heartbeat));
    assert_eq!(splitter.pending(), 0);
    // What comes after the pause begins anew; half a frame does not survive it.
    splitter.feed(&heartbeat.bytes()[..10]);
    assert_eq!(splitter.next_frame(), None);
    splitter.flush();
    assert_eq!(splitter.next_frame(), None);
    splitter.feed(v2(1, 1, 40_000, &[9; 10]).bytes());
    assert_eq!(drain(&mut splitter).len(), 1);
}

#[test]
fn datagrams_may_cut_frames_but_a_lost_half_costs_only_itself() {
    let (heartbeat, attitude) = (known("HEARTBEAT", 2), known("ATTITUDE", 2));
    let mut splitter = Splitter::new();
    // A serial bridge cuts where it likes.
    splitter.feed_datagram(&attitude.bytes()[..15]);
    assert_eq!(splitter.next_frame(), None);
    splitter.feed_datagram(&attitude.bytes()[15..]);
    assert_eq!(drain(&mut splitter), std::slice::from_ref(&attitude));
    // The second half is lost: the next datagram is not swallowed.
    splitter.feed_datagram(&attitude.bytes()[..15]);
    assert_eq!(splitter.next_frame(), None);
    splitter.feed_datagram(heartbeat.bytes());
    assert_eq!(drain(&mut splitter), [heartbeat]);
    assert_eq!(splitter.stats().skipped_bytes, 15);
    // An unknown message in a datagram of its own, after one of garbage.
    splitter.feed_datagram(&[0x55; 100]);
    assert_eq!(splitter.next_frame(), None);
    splitter.feed_datagram(v2(1, 1, 40_000, &[9; 10]).bytes());
    assert_eq!(drain(&mut splitter).len(), 1);
}

#[test]
fn memory_stays_bounded_even_if_nobody_takes_the_frames() {
    let mut splitter = Splitter::new();
    for _ in 0..10_000 {
        splitter.feed(known("HEARTBEAT", 2).bytes());
    }
    assert!(splitter.pending() <= Splitter::MAX_PENDING + 21);
    assert!(splitter.stats().skipped_bytes > 100_000);
    assert!(!drain(&mut splitter).is_empty());
}

#[test]
fn noise_hardly_ever_becomes_a_frame() {
    use rand_chacha::rand_core::{Rng, SeedableRng};
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(7);
    let mut noise = vec![0; 1 << 20];
    rng.fill_bytes(&mut noise);
    let chunks: Vec<&[u8]> = noise.chunks(512).collect();
    let (frames, stats) = split(&chunks);
    // 8,192 magic bytes are in there.
    assert!(frames.len() < 3, "{stats:?}");
    assert!(frames.iter().all(|f| f.bytes().len() < 300));
}

/// Frames of the vectors with garbage between some of them.
fn dirty_stream() -> impl Strategy<Value = (Vec<u8>, usize)> {
    let piece = (0..vectors().len(), prop::option::weighted(0.3, prop::collection::vec(any::<u8>(), 1..40)));
    prop::collection::vec(piece, 1..20).prop_map(|pieces| {
        let all = vectors();
        let mut stream = Vec::new();
        let mut known = 0;
        for (i, garbage) in pieces {
            stream.extend(garbage.into_iter().flatten());
            stream.extend_from_slice(&all[i].bytes);
            known += usize::from(all[i].kind != "unknown");
        }
        // Long enough to end every false start.
        for _ in 0..14 {
            stream.extend_from_slice(&all[0].bytes);
        }
        (stream, known + 14)
    })
}

proptest! {
    #[test]
    fn every_known_frame_survives_garbage_between_frames((stream, known) in dirty_stream(), step in 1usize..600) {
        let chunks: Vec<&[u8]> = stream.chunks(step).collect();
        let (frames, stats) = split(&chunks);
        let verified = frames.len() as u64 - stats.unverified;
        // Noise may take the place of an unverifiable frame, and swallow at most what its length says.
        if stats.unverified == 0 {
            prop_assert!(verified as usize >= known);
        }
        let bytes: u64 = frames.iter().map(|f| f.bytes().len() as u64).sum();
        prop_assert!(bytes + stats.skipped_bytes <= stream.len() as u64);
    }

    #[test]
    fn random_bytes_never_panic_and_never_pile_up(chunks: Vec<Vec<u8>>, flush: bool) {
        let mut splitter = Splitter::new();
        let mut fed = 0;
        for chunk in &chunks {
            fed += chunk.len() as u64;
            splitter.feed_datagram(chunk);
            if flush {
                splitter.flush();
            }
            let mut out = 0;
            while let Some(frame) = splitter.next_frame() {
                out += frame.bytes().len();
            }
            prop_assert!(splitter.pending() < Frame::MAX_LEN);
            prop_assert!(out as u64 + splitter.stats().skipped_bytes <= fed);
        }
    }
}
