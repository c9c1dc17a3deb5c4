//! The whole way of a picture: rendered, encoded, in packets, out of them, decoded.

use aquila_proto::Bitrate;

use super::*;

fn encoder(kbps: u64, idr_period: u32) -> Encoder {
    Encoder::new(EncoderConfig { bitrate: Bitrate(kbps * 1_000), idr_period, ..EncoderConfig::default() }).unwrap()
}

/// Encodes as many pictures as a camera gives in so many seconds, from number `first` on.
fn film(scene: &Scene, encoder: &mut Encoder, first: u32, seconds: u32) -> Vec<EncodedFrame> {
    (first..first + seconds * Scene::FRAME_RATE).map(|n| encoder.encode(&scene.render(n)).unwrap().unwrap()).collect()
}

fn kbps(frames: &[EncodedFrame]) -> f64 {
    let bits: usize = frames.iter().map(|frame| frame.annex_b.len() * 8).sum();
    bits as f64 / (frames.len() as f64 / f64::from(Scene::FRAME_RATE)) / 1_000.0
}

fn nal_types(frame: &EncodedFrame) -> Vec<u8> {
    let starts = frame.annex_b.windows(3).enumerate().filter(|(_, window)| *window == [0, 0, 1]);
    starts.map(|(at, _)| frame.annex_b[at + 3] & 0x1F).collect()
}

#[test]
fn a_picture_goes_all_the_way_and_is_recognised() {
    let scene = Scene::default();
    let mut encoder = encoder(2_000, 60);
    let mut packetizer = Packetizer::new(PacketizerConfig::default());
    let mut depacketizer = Depacketizer::new();
    let mut decoder = Decoder::new().unwrap();
    for n in 0..90 {
        let picture = scene.render(n);
        let frame = encoder.encode(&picture).unwrap().unwrap();
        let timestamp = n * Packetizer::CLOCK_RATE / Scene::FRAME_RATE;
        for packet in packetizer.packetize(&frame.annex_b, timestamp) {
            assert!(packet.len() <= 1_200);
            depacketizer.handle_packet(&packet);
        }
        let unit = depacketizer.poll_access_unit().unwrap();
        assert_eq!((unit.timestamp, unit.is_complete, unit.is_idr), (timestamp, true, n % 60 == 0));
        assert_eq!(unit.annex_b, frame.annex_b);
        let decoded = decoder.decode(&unit.annex_b).unwrap().expect("no picture is held back");
        assert_eq!(read_frame_number(&decoded), Some(n));
        let psnr = psnr_luma_db(&picture, &decoded).unwrap();
        assert!((34.0..55.0).contains(&psnr), "{psnr} dB");
    }
}

#[test]
fn the_number_survives_a_low_rate() {
    for rate in [80, 200] {
        let scene = Scene::default();
        let mut encoder = encoder(rate, 60);
        let mut decoder = Decoder::new().unwrap();
        for n in 4_000_000..4_000_150 {
            let frame = encoder.encode(&scene.render(n)).unwrap().unwrap();
            let decoded = decoder.decode(&frame.annex_b).unwrap().unwrap();
            assert_eq!(read_frame_number(&decoded), Some(n), "at {rate} kbit/s");
        }
    }
}

#[test]
fn the_rate_follows_the_target_within_three_seconds() {
    let scene = Scene::default();
    let mut encoder = encoder(1_000, 60);
    let mut n = 0;
    for target in [1_000, 3_000, 600, 250, 4_000, 1_500] {
        encoder.set_bitrate(Bitrate(target * 1_000));
        let frames = film(&scene, &mut encoder, n, 3);
        n += 3 * Scene::FRAME_RATE;
        let share = kbps(&frames) / target as f64;
        assert!((0.75..1.25).contains(&share), "{target} kbit/s wanted, {:.0} got", kbps(&frames));
    }
}

#[test]
fn a_target_out_of_range_is_clamped() {
    let mut encoder = encoder(0, 60);
    assert_eq!(encoder.bitrate(), Bitrate(20_000));
    encoder.set_bitrate(Bitrate(u64::MAX));
    assert_eq!(encoder.bitrate(), Bitrate(50_000_000));
    encoder.encode(&Scene::default().render(0)).unwrap().unwrap();
    encoder.set_bitrate(Bitrate(0));
    encoder.encode(&Scene::default().render(1)).unwrap().unwrap();
}

#[test]
fn a_better_rate_gives_a_better_picture() {
    let scene = Scene::default();
    let quality = |rate| {
        let mut encoder = encoder(rate, 60);
        let mut decoder = Decoder::new().unwrap();
        let decibels = (0..60).map(|n| {
            let picture = scene.render(n);
            let frame = encoder.encode(&picture).unwrap().unwrap();
            psnr_luma_db(&picture, &decoder.decode(&frame.annex_b).unwrap().unwrap()).unwrap()
        });
        decibels.sum::<f64>() / 60.0
    };
    let [low, middle, high] = [200, 1_000, 4_000].map(quality);
    assert!(low > 25.0 && middle > low + 2.0 && high > middle + 2.0, "{low:.1}, {middle:.1}, {high:.1} dB");
}

#[test]
fn recovery_points_come_on_request_with_their_parameter_sets() {
    let scene = Scene::default();
    let mut encoder = encoder(1_000, 0);
    encoder.request_idr(); // the first picture is one anyway
    let mut idr = Vec::new();
    for n in 0..40 {
        if n == 20 {
            encoder.request_idr();
        }
        let frame = encoder.encode(&scene.render(n)).unwrap().unwrap();
        assert_eq!(frame.is_idr, nal_types(&frame).contains(&5));
        if frame.is_idr {
            idr.push(n);
            assert_eq!(nal_types(&frame), [7, 8, 5], "parameter sets, then one slice");
        } else {
            assert_eq!(nal_types(&frame), [1], "one slice");
        }
    }
    assert_eq!(idr, [0, 20]);
}

#[test]
fn a_change_of_rate_needs_no_recovery_point() {
    let scene = Scene::default();
    let mut encoder = encoder(1_000, 0);
    for n in 0..60 {
        encoder.set_bitrate(Bitrate(500_000 + u64::from(n % 7) * 300_000));
        assert_eq!(encoder.encode(&scene.render(n)).unwrap().unwrap().is_idr, n == 0);
    }
}

#[test]
fn after_a_loss_the_next_recovery_point_mends_the_picture() {
    let scene = Scene::default();
    let mut encoder = encoder(1_500, 0);
    let mut decoder = Decoder::new().unwrap();
    for n in 0..40 {
        if n == 20 {
            encoder.request_idr();
        }
        let frame = encoder.encode(&scene.render(n)).unwrap().unwrap();
        if n == 10 {
            continue; // lost
        }
        let decoded = decoder.decode(&frame.annex_b);
        if (11..20).contains(&n) {
            assert!(decoded.is_err(), "no damaged picture is shown");
        } else {
            assert_eq!(read_frame_number(&decoded.unwrap().unwrap()), Some(n));
        }
    }
}

#[test]
fn a_decoder_that_joins_late_waits_for_a_recovery_point() {
    let scene = Scene::default();
    let mut encoder = encoder(1_000, 30);
    let mut decoder = Decoder::new().unwrap();
    for n in 0..60 {
        let frame = encoder.encode(&scene.render(n)).unwrap().unwrap();
        if n < 15 {
            continue;
        }
        let shown = decoder.decode(&frame.annex_b).ok().flatten().and_then(|picture| read_frame_number(&picture));
        assert_eq!(shown, (n >= 30).then_some(n));
    }
}

#[test]
fn damaged_bytes_are_survived() {
    let scene = Scene::default();
    let mut encoder = encoder(1_000, 10);
    let mut decoder = Decoder::new().unwrap();
    for n in 0..60usize {
        let mut frame = encoder.encode(&scene.render(n as u32)).unwrap().unwrap();
        if n < 50 {
            let len = frame.annex_b.len();
            (0..5).for_each(|k| frame.annex_b[(n * 7_919 + k * 104_729) % len] ^= 0x55);
        }
        let decoded = decoder.decode(&frame.annex_b);
        if n >= 50 {
            assert_eq!(read_frame_number(&decoded.unwrap().unwrap()), Some(n as u32));
        }
    }
}
