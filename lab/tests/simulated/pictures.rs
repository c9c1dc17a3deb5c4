//! Pictures, cameras and encoders, when the link changes and cameras do what they like.

use aquila_emu::Outage;
use aquila_lab::frames;
use aquila_lab::pair::{FrameOut, Pair, PairConfig, Source};
use aquila_proto::cc::EncoderRange;
use aquila_proto::{Bitrate, Side};

use crate::ms;
use crate::one_link::*;

#[test]
fn a_lost_frame_brings_a_request_for_a_recovery_point() {
    let mut pair = connected(11, 0.01);
    video(&mut pair, 1, ms(10_000));
    pair.run_until(ms(11_000));
    let stats = pair.stats(Side::Ground);
    assert!(stats.frames_lost > 3, "{}", stats.frames_lost);
    let (_, wanted) = pair.encoder();
    assert!(wanted > 0 && wanted <= stats.frames_lost, "{wanted} wanted, {} lost", stats.frames_lost);
    let sent = pair.stats(Side::Air).frames_sent;
    assert_eq!(pair.frames.len() as u64 + stats.frames_lost, sent, "each frame shown or known lost");
    assert!(pair.frames.is_sorted_by_key(|frame| frame.index));
}

#[test]
fn the_encoder_is_told_what_the_link_carries() {
    let mut pair = connected(13, 0.0);
    video(&mut pair, 3, ms(20_000));
    pair.run_until(ms(8_000));
    let rate = pair.encoder().0.last().unwrap().1;
    assert!((2.5..4.0).contains(&rate.as_mbps()), "{rate:?} of 4 Mbit/s");
    pair.set_up_rate(Bitrate::mbps(1));
    pair.run_until(ms(10_000));
    let rate = pair.encoder().0.last().unwrap().1;
    assert!((0.1..1.0).contains(&rate.as_mbps()), "{rate:?} of 1 Mbit/s");
}

/// A camera that takes the newest rate when it films, and whose frame comes 12 ms later, is told what waits then and not what waits when it is
/// told: in between much of the frame before leaves.
#[test]
fn an_encoder_that_does_not_ask_is_told_what_its_next_frame_will_meet() {
    let told_every = ms(10);
    let encoder = EncoderRange { most: Bitrate::mbps(10), told_every, ..EncoderRange::default() };
    let mut pair = Pair::new(PairConfig { encoder, ..config(19, 0.0) });
    pair.connect();
    let (mut made, mut sequence) = (Vec::new(), 0);
    for frame in 0..450u32 {
        let filmed = ms(500) + ms(1000) * frame / 30;
        pair.run_until(filmed);
        let rate = pair.encoder().0.last().map_or(Bitrate::kbps(600), |(_, rate)| *rate);
        pair.run_until(filmed + ms(12));
        let mut left = (rate.0 / 240) as usize;
        while left > 0 {
            let len = left.clamp(frames::RTP_MIN, 1200);
            left = left.saturating_sub(len);
            pair.send_video(&frames::rtp(sequence, frame, len, left == 0));
            sequence = sequence.wrapping_add(1);
        }
        made.push(rate.as_mbps() / 4.0);
    }
    pair.run_until(ms(16_500));
    let mean = made[150..].iter().sum::<f64>() / 300.0;
    let (least, most) =
        made[150..].iter().fold((f64::MAX, 0f64), |(least, most), &rate| (least.min(rate), most.max(rate)));
    assert!((0.8..0.95).contains(&mean) && least > 0.6 && most < 1.0, "{mean:.3} of the link, {least:.3} to {most:.3}");
    let came_late = |frame: &&FrameOut| frame.arrived > ms(512) + ms(1000) * frame.index / 30 + PROPAGATION + ms(60);
    let late = pair.frames.iter().filter(|frame| frame.index >= 150).filter(came_late).count();
    assert!(pair.frames.len() > 440 && late < 15, "{late} late of {}", pair.frames.len());
}

/// No picture is older than half a second when it is given out.
fn assert_no_old_picture(pair: &Pair) {
    // The age is told in whole milliseconds, and counts from the fastest packet, which is a short one.
    let most = ms(500) + ms(3);
    let old: Vec<_> = pair.frames.iter().filter(|frame| frame.arrived - frame.sent > most).collect();
    assert!(old.is_empty(), "{} of {}, the first {:?}", old.len(), pair.frames.len(), old[0]);
}

/// What the network holds through an outage is not shown after it: not what left before, nor what waited at the sender.
#[test]
fn no_picture_older_than_half_a_second_is_given_out_after_an_outage() {
    for (seed, mbps) in [(1, 1), (2, 3), (3, 3)] {
        let mut pair = connected(seed, 0.0);
        video(&mut pair, mbps, ms(12_000));
        pair.run_until(ms(5_000) + ms(seed * 7));
        pair.begin_outage(Outage::Hold);
        pair.run_until(ms(6_500) + ms(seed * 7));
        let (before, wanted) = (pair.frames.len(), pair.encoder().1);
        pair.end_outage(false);
        pair.run_until(ms(12_000));
        assert_no_old_picture(&pair);
        let stats = pair.stats(Side::Ground);
        assert!(stats.frames_stale > 0, "what was held came in the end");
        assert!(pair.encoder().1 > wanted, "a recovery point is asked for");
        let again = pair.frames[before].arrived;
        assert!(again < ms(6_500 + seed * 7 + 200), "the picture is back at {again:?}");
        let there = pair.stats(Side::Air);
        assert_eq!(there.frames_stale_there, stats.frames_stale);
        assert!(there.picture_age_there.is_some_and(|age| age < ms(250)), "{:?}", there.picture_age_there);
    }
}

/// Two cameras, and after the aircraft's restart one: the age of the picture is that of the one that is left. Until it films, it is
/// that of what stands on the screens.
#[test]
fn after_a_restart_with_fewer_cameras_no_picture_of_a_former_one_grows_old() {
    let mut pair = Pair::new(PairConfig { cameras: 2, ..config(1, 0.0) });
    pair.connect();
    pair.run_until(ms(500));
    let film = |pair: &mut Pair, cameras: usize, until: u64| {
        for seq in 0.. {
            if pair.elapsed() >= ms(until) {
                break;
            }
            let now = pair.now();
            for camera in 0..cameras {
                pair.session(Side::Air).send_video(now, camera, &frames::rtp(seq, u32::from(seq), 900, true));
                pair.settle(Side::Air);
            }
            let next = pair.elapsed() + ms(33);
            pair.run_until(next);
        }
        pair.stats(Side::Ground).picture_age.expect("a picture is shown")
    };
    assert!(film(&mut pair, 2, 2_000) < ms(100));
    pair.restart(Side::Air);
    assert!(film(&mut pair, 0, 2_500) > ms(400));
    let age = film(&mut pair, 1, 5_000);
    assert!(age < ms(100), "{age:?}");
    pair.run_until(ms(8_000));
    let age = pair.stats(Side::Ground).picture_age;
    assert!(age.is_some_and(|age| age > ms(2_900)), "the one that is left stands still: {age:?}");
}

/// A link that falls to a trickle with a full queue in front of it.
#[test]
fn no_picture_older_than_half_a_second_is_given_out_through_a_trickle() {
    for kbps in [40, 100, 300] {
        let mut pair = connected(4, 0.0);
        video(&mut pair, 3, ms(20_000));
        pair.run_until(ms(5_000));
        pair.set_up_rate(Bitrate::kbps(kbps));
        pair.run_until(ms(13_000));
        pair.set_up_rate(Bitrate::mbps(4));
        pair.run_until(ms(20_000));
        assert_no_old_picture(&pair);
        let last = pair.frames.last().expect("frames").arrived;
        assert!(last > ms(19_800), "{kbps} kbit/s: the last picture came at {last:?}");
    }
}

/// Encoders that do not ask before each frame are told to pause when the link is out, and to go on when it is back.
#[test]
fn encoders_are_told_to_pause_while_the_link_does_not_carry_their_frames() {
    let mut pair = connected(5, 0.0);
    assert!(!pair.stats(Side::Air).held);
    video(&mut pair, 1, ms(9_000));
    pair.run_until(ms(5_000));
    let holds = pair.stats(Side::Air).counters.holds;
    pair.begin_outage(Outage::Drop);
    pair.run_until(ms(5_350));
    assert!(pair.stats(Side::Air).held);
    pair.run_until(ms(6_000));
    pair.end_outage(false);
    pair.run_until(ms(6_400));
    let stats = pair.stats(Side::Air);
    assert!(!stats.held);
    assert_eq!(stats.counters.holds, holds + 1, "once");
}

/// A network that keeps what it is given both ways, and carries it slowly before anything newer: encoders wait until that is
/// through, though the first word of the other end is of before.
#[test]
fn encoders_wait_for_what_a_network_has_kept() {
    let mut pair = connected(7, 0.0);
    commands(&mut pair, ms(10_000));
    video(&mut pair, 3, ms(5_100));
    pair.run_until(ms(5_000));
    pair.begin_outage(Outage::Hold);
    pair.run_until(ms(7_000));
    pair.add_source(Source::Video { rate: Bitrate::kbps(300), packet: 1200 }, ms(10_000));
    pair.set_up_rate(Bitrate::kbps(600));
    pair.end_outage(false);
    for at in (7_050..=7_400).step_by(10) {
        pair.run_until(ms(at));
        assert!(pair.stats(Side::Air).held, "at {at} ms");
    }
    pair.run_until(ms(8_300));
    assert!(!pair.stats(Side::Air).held);
}

/// A packet of a camera that began anew: other SSRC, other numbers.
fn with_ssrc(mut packet: Vec<u8>, ssrc: u32) -> Vec<u8> {
    packet[8..12].copy_from_slice(&ssrc.to_be_bytes());
    packet
}

/// A camera that begins anew in the middle of a frame, with other numbers and times and pictures of another size, sends garbage,
/// and makes ten times what it is asked for: commands do not notice, memory stays bounded, and its pictures come again.
#[test]
fn a_camera_may_do_what_it_likes() {
    let mut pair = connected(6, 0.0);
    commands(&mut pair, ms(10_000));
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    // Pictures of a life: garbage that looks like one has no such number.
    let shown =
        |pair: &Pair, life: usize| pair.frames.iter().filter(|frame| frame.index as usize / 1000 == life).count();
    let mut seq = 65_000u16;
    // Lives of the camera: SSRC, size, packets a frame, whether it spits garbage in between.
    let (small, large) = ((640, 360), (1280, 720));
    for (life, (ssrc, size, packets, garbage)) in
        [(1, large, 4, false), (2, large, 9, false), (2, small, 2, true), (0, large, 40, false), (3, large, 4, false)]
            .into_iter()
            .enumerate()
    {
        seq = seq.wrapping_add(next() as u16);
        for frame in 0..40u32 {
            if frame == 0 {
                let sets = frames::h264_parameter_sets(seq, 1000 * life as u32, size);
                pair.send_video(&with_ssrc(sets, ssrc));
                seq = seq.wrapping_add(1);
            }
            for packet in 0..packets {
                // Each life but the first ends in the middle of a frame.
                let last = packet + 1 == packets && frame < 39;
                let rtp = frames::h264(seq, frame + 1000 * life as u32, 1000, last, frame == 0);
                pair.send_video(&with_ssrc(rtp, ssrc));
                seq = seq.wrapping_add(1);
            }
            for _ in 0..if garbage { 8 } else { 0 } {
                let len = (next() % 1500) as usize;
                let mut packet: Vec<u8> = (0..len).map(|_| next() as u8).collect();
                if let Some(first) = packet.first_mut().filter(|_| next() % 2 == 0) {
                    *first = 0x80 | *first & 0x3f;
                }
                pair.send_video(&packet);
            }
            let stats = pair.stats(Side::Air);
            let video = &stats.classes[2];
            assert!(video.queued <= 512 && video.queued_bytes <= 2 << 20, "{video:?}");
            let later = pair.elapsed() + ms(33);
            pair.run_until(later);
        }
        // 39, since the last is not at its end; and 14 of the one that makes 9.7 Mbit/s whatever it is asked for: 4 Mbit/s carry 16
        // of its pictures meanwhile, 15 at a use of 0.9.
        let (shown, least) = (shown(&pair, life), if packets > 9 { 13 } else { 38 });
        assert!(shown >= least, "life {life}: {shown}");
    }
    pair.run_until(ms(11_000));
    // The rest of what waited came as well: 18 of that one, and all of the others.
    let all = [0, 1, 2, 3, 4].map(|life| shown(&pair, life));
    assert!(matches!(all, [40, 40, 40, flood, 40] if flood >= 17), "{all:?}");
    assert_each_once(&pair);
    let latest = pair.latencies(Side::Ground, ms(0)).into_iter().max();
    assert!(latest <= Some(PROPAGATION + ms(40)), "{latest:?}");
}

/// A stream of which each picture is another's: none can be shown before a recovery point comes, and none does. It is asked for one at the rate of
/// its own pictures otherwise.
#[test]
fn a_camera_of_which_nothing_can_be_shown_is_not_asked_for_recovery_points_without_end() {
    let mut pair = connected(8, 0.0);
    let began = pair.encoder().1;
    for frame in 0..300u16 {
        let first = frame.wrapping_mul(977);
        for packet in 0..2 {
            let rtp = frames::h264(first + packet, u32::from(frame), 1000, packet == 1, false);
            pair.send_video(&with_ssrc(rtp, u32::from(frame / 2)));
        }
        let later = pair.elapsed() + ms(33);
        pair.run_until(later);
    }
    let asked = pair.encoder().1 - began;
    assert!((30..=8 + 40).contains(&asked), "{asked} in ten seconds");
}

/// A camera that makes its pictures smaller and larger in one stream, as with `sizes`: the new parameter sets and the recovery point that
/// they come with are pictures like any other. All are shown, in order, none is dropped, and nothing is asked of the camera.
#[test]
fn a_camera_that_changes_its_resolution_is_shown_on() {
    let mut pair = connected(7, 0.0);
    let (mut seq, mut index) = (65_500u16, 0);
    let wanted = pair.encoder().1;
    // Size, and packets in a picture; a recovery point is three times as large.
    for (size, packets) in [((1280, 720), 5), ((640, 360), 2), ((640, 360), 2), ((1920, 1080), 7), ((960, 540), 3)] {
        for frame in 0..40 {
            let is_recovery = frame == 0;
            if is_recovery {
                pair.send_video(&frames::h264_parameter_sets(seq, index, size));
                seq = seq.wrapping_add(1);
            }
            let count = if is_recovery { 3 * packets } else { packets };
            for packet in 1..=count {
                pair.send_video(&frames::h264(seq, index, 1000, packet == count, is_recovery));
                seq = seq.wrapping_add(1);
            }
            index += 1;
            let later = pair.elapsed() + ms(33);
            pair.run_until(later);
        }
    }
    pair.run_until(pair.elapsed() + ms(500));
    let shown: Vec<u32> = pair.frames.iter().map(|frame| frame.index).collect();
    assert_eq!(shown, (0..index).collect::<Vec<_>>());
    assert_eq!(pair.encoder().1, wanted, "no recovery point is wanted");
    assert_eq!(pair.stats(Side::Ground).counters.recovery_requests, 0);
    assert_eq!(pair.stats(Side::Air).frames_dropped, 0);
}
