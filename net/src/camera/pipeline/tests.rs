//! A real pipeline with GStreamer's test picture. What is not installed is skipped by name.

use aquila_proto::video::{Classifier, Codec, PacketKind, RtpPacket};

use super::*;
use crate::encoder::Sizes;

fn has(element: &str) -> bool {
    gst::init().is_ok() && gst::ElementFactory::find(element).is_some()
}

fn setup(pipeline: &str) -> CameraSetup {
    CameraSetup { pipeline: pipeline.to_owned(), sizes: Sizes::Same, h265: false, intra_refresh: false }
}

/// What came in each tenth of a second.
#[derive(Debug, Clone, Default)]
struct Tenth {
    bytes: usize,
    recovery_points: usize,
    /// Packets of IDR pictures (H.264).
    idr_packets: usize,
}

/// Films for a while against a node that answers `rate`, and asks for a recovery point at half time.
fn film(encoder: &str, rate: impl Fn(usize) -> Option<Bitrate>, tenths: usize) -> Option<Vec<Tenth>> {
    film_with(encoder, false, rate, tenths)
}

fn film_with(
    encoder: &str,
    intra_refresh: bool,
    rate: impl Fn(usize) -> Option<Bitrate>,
    tenths: usize,
) -> Option<Vec<Tenth>> {
    let factory = words(encoder).next().unwrap();
    let needed = ["videotestsrc", "videoconvert", factory, "rtph264pay", "rtph265pay", "appsink"];
    if let Some(absent) = needed.iter().find(|element| !has(element)) {
        eprintln!("skipped: there is no {absent}");
        return None;
    }
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let answer = Arc::new(Mutex::new(rate(0)));
    let gate = FrameGate::answering({
        let answer = answer.clone();
        move || *answer.lock().unwrap()
    });
    let (wishes, receiver) = watch::channel(CameraWishes::default());
    let description = format!(
        "videotestsrc is-live=true pattern=snow ! video/x-raw,width=320,height=240,framerate=30/1 ! videoconvert ! {encoder}"
    );
    let setup = CameraSetup { intra_refresh, ..setup(&description) };
    let camera = GstCamera::start(&setup, socket.local_addr().unwrap(), gate, receiver).unwrap();
    let (mut classifier, mut recovering, mut half_time) = (Classifier::new(Codec::Auto), None, Some(tenths / 2));
    let (began, mut came, mut buffer) = (Instant::now(), vec![Tenth::default(); tenths], [0; 2048]);
    let mut before: Option<(u32, u32)> = None;
    loop {
        let tenth = began.elapsed().as_millis() as usize / 100;
        if tenth >= tenths {
            break;
        }
        *answer.lock().unwrap() = rate(tenth);
        if half_time.take_if(|half_time| tenth >= *half_time).is_some() {
            wishes.send_modify(|wishes| wishes.ask_recovery_point(0));
        }
        if let Ok(len) = socket.recv(&mut buffer) {
            let packet = RtpPacket::parse(&buffer[..len]).filter(|_| len <= 1200).expect("RTP");
            came[tenth].bytes += len;
            // One stream, whose clock goes on, in steps below 1.5 s (of 90 kHz).
            let (ssrc, at) = before.replace((packet.ssrc, packet.timestamp)).unwrap_or((packet.ssrc, packet.timestamp));
            assert_eq!(packet.ssrc, ssrc);
            assert!(packet.timestamp.wrapping_sub(at) < 135_000, "{} after {at}", packet.timestamp);
            came[tenth].idr_packets += usize::from(is_idr(packet.payload));
            let is_recovery = classifier.handle_packet(&packet) == PacketKind::Recovery;
            if is_recovery && recovering.replace(packet.timestamp) != Some(packet.timestamp) {
                came[tenth].recovery_points += 1;
            }
        }
    }
    drop(camera);
    Some(came)
}

#[test]
fn a_pipeline_without_an_encoder_is_refused_with_those_that_are_known() {
    let error = chosen(&setup("videotestsrc ! jpegenc")).unwrap_err().to_string();
    assert!(error.contains("x264enc") && error.contains("v4l2src"), "{error}");
    let (text, known) = chosen(&setup("a ! x265enc name=enc bitrate=3")).unwrap();
    assert!(described(&text, known, false).contains("rtph265pay"));
    let text = described(&text, known, true);
    assert!(
        text.starts_with("a ! videorate") && text.contains("capsfilter name=aquila-size ! x265enc name=enc"),
        "{text}"
    );
}

#[test]
fn pictures_are_left_out_before_they_are_encoded_and_rates_are_followed() {
    let rate = |tenth: usize| match tenth {
        0..20 => Some(Bitrate::mbps(2)),
        20..30 => None,
        _ => Some(Bitrate::kbps(400)),
    };
    // Each picture of snow would be another scene, and each second one of them a recovery point.
    let Some(came) = film("x264enc option-string=scenecut=0", rate, 60) else { return };
    let sum = |tenths: std::ops::Range<usize>| came[tenths].iter().map(|tenth| tenth.bytes).sum::<usize>();
    assert!(sum(5..20) > 50_000, "{came:?}");
    assert!(sum(22..30) < 2_000, "{came:?}");
    assert!(sum(45..60) > 10_000 && sum(45..60) < 300_000, "{came:?}");
    assert_eq!(recovery_points(&came, 5..60), 1, "when it was asked for: {came:?}");
    assert_eq!(recovery_points(&came, 30..34), 1, "{came:?}");
}

fn recovery_points(came: &[Tenth], tenths: std::ops::Range<usize>) -> usize {
    came[tenths].iter().map(|tenth| tenth.recovery_points).sum()
}

/// Of H.264, a slice by itself or a piece of one (RFC 6184 §5.6, §5.8).
fn is_idr(payload: &[u8]) -> bool {
    match *payload {
        [single, ..] if single & 0x1f == 5 => true,
        [cut, piece, ..] => cut & 0x1f == 28 && piece & 0x1f == 5,
        _ => false,
    }
}

#[test]
fn a_picture_is_refreshed_bit_by_bit_where_that_is_wanted_and_the_encoder_can() {
    for (encoder, intra_refresh, refreshes) in [
        ("x264enc option-string=scenecut=0", true, true),
        ("x264enc option-string=scenecut=0", false, false),
        // The text goes before what is set.
        ("x264enc option-string=scenecut=0 intra-refresh=false", true, false),
        ("openh264enc", true, false),
    ] {
        let Some(came) = film_with(encoder, intra_refresh, |_| Some(Bitrate::mbps(2)), 30) else { continue };
        // Parameter sets in front of the next picture as well would look like another one.
        assert_eq!(recovery_points(&came, 15..20), 1, "{encoder}: {came:?}");
        assert_eq!(recovery_points(&came, 5..30), 1, "{encoder}: {came:?}");
        let is_refresh = came[15..20].iter().all(|tenth| tenth.idr_packets == 0);
        assert_eq!(is_refresh, refreshes, "{encoder}: {came:?}");
    }
}

#[test]
fn an_encoder_that_begins_anew_is_told_a_fall_at_once_and_little_at_recovery_points() {
    let rate = |tenth: usize| match tenth {
        0..10 => Some(Bitrate::mbps(2)),
        10..30 => Some(Bitrate::kbps(500)),
        _ => Some(Bitrate::kbps(520)),
    };
    let Some(came) = film("x265enc", rate, 50) else { return };
    assert_eq!(recovery_points(&came, 10..16), 1, "the fall: {came:?}");
    assert_eq!(recovery_points(&came, 16..50), 1, "when it was asked for: {came:?}");
}

/// How many kilobytes an encoder with our settings makes of each picture of a moving pattern, as fast as it can, if it is told such a
/// rate with picture `n`: in virtual time, so to speak. Nothing of one that it leaves out.
fn kilobytes(encoder: &str, pictures: usize, kbps: impl Fn(usize) -> u64 + Send + Sync + 'static) -> Option<Vec<f64>> {
    let factory = words(encoder).next().unwrap();
    if let Some(absent) = ["videotestsrc", "videoconvert", factory].iter().find(|element| !has(element)) {
        eprintln!("skipped: there is no {absent}");
        return None;
    }
    let text = format!(
        "videotestsrc num-buffers={pictures} pattern=zone-plate kx2=30 ky2=30 kt=30 kxt=40 ! video/x-raw,width=640,height=360,framerate=30/1 ! videoconvert ! {encoder} name=encoder ! fakesink"
    );
    let pipeline = gst::parse::launch(&text).unwrap().downcast::<gst::Pipeline>().unwrap();
    let encoder = pipeline.by_name("encoder").unwrap();
    let known = Encoder::of(factory).unwrap();
    let set = Settings::new(&encoder, known, &text, false);
    let (weak, filmed) = (encoder.downgrade(), AtomicU64::new(0));
    let sink = encoder.static_pad("sink").unwrap();
    let feeding = set.feeding(&sink);
    feeding.clone().unwrap_or(sink).add_probe(gst::PadProbeType::BUFFER, move |_, _| {
        let n = filmed.fetch_add(1, Ordering::Relaxed) as usize;
        if n == 0 || kbps(n) != kbps(n - 1) {
            set.rate(&weak.upgrade().unwrap(), feeding.as_ref(), Bitrate::kbps(kbps(n)));
        }
        gst::PadProbeReturn::Ok
    });
    let made = Arc::new(Mutex::new(vec![0.0; pictures]));
    encoder.static_pad("src").unwrap().add_probe(gst::PadProbeType::BUFFER, {
        let made = made.clone();
        move |pad, info| {
            let buffer = info.buffer().unwrap();
            // They count from where they like, and say so in the segment.
            let segment = pad.sticky_event::<gst::event::Segment>(0).unwrap();
            let segment = segment.segment().clone().downcast::<gst::ClockTime>().unwrap();
            let at = segment.to_running_time(buffer.pts()).unwrap().mseconds();
            let n = (at as f64 * 30.0 / 1000.0).round() as usize;
            made.lock().unwrap()[n] += buffer.size() as f64 / 1000.0;
            gst::PadProbeReturn::Ok
        }
    });
    pipeline.set_state(gst::State::Playing).unwrap();
    let ends = [gst::MessageType::Eos, gst::MessageType::Error];
    let end = pipeline.bus().unwrap().timed_pop_filtered(gst::ClockTime::from_seconds(60), &ends);
    pipeline.set_state(gst::State::Null).unwrap();
    assert!(matches!(end.expect("an end").view(), gst::MessageView::Eos(_)));
    let made = made.lock().unwrap().clone();
    Some(made)
}

/// What it makes of what it is told, over some pictures.
fn share(made: &[f64], kbps: f64) -> f64 {
    made.iter().sum::<f64>() * 8.0 * 30.0 / made.len() as f64 / kbps
}

#[test]
fn openh264_comes_down_to_a_sixth_since_it_may_leave_pictures_out() {
    let Some(made) = kilobytes("openh264enc", 150, |n| if n < 60 { 3000 } else { 500 }) else { return };
    assert!((0.8..1.2).contains(&share(&made[30..60], 3000.0)), "{made:?}");
    // 1.3 and 0.4. If it may not: 15 and 14, on and on.
    assert!(share(&made[60..75], 500.0) < 2.0, "{made:?}");
    assert!((0.2..1.1).contains(&share(&made[75..], 500.0)), "{made:?}");
}

#[test]
fn openh264_makes_a_recovery_point_when_asked_though_it_leaves_pictures_out() {
    let Some(came) = film("openh264enc", |_| Some(Bitrate::kbps(400)), 60) else { return };
    assert_eq!(recovery_points(&came, 5..30), 0, "{came:?}");
    assert_eq!(recovery_points(&came, 30..60), 1, "{came:?}");
}

#[test]
fn the_recovery_point_of_x265_with_another_rate_fits_a_buffer_of_that_rate() {
    let Some(made) = kilobytes("x265enc", 150, |n| if (60..120).contains(&n) { 500 } else { 3000 }) else { return };
    // 1.5 and 1.7 times the rate. Without a buffer 4.7 and 2.3, and 1.3 to 1.5 for seconds after.
    assert!(share(&made[60..65], 500.0) < 2.2, "{made:?}");
    assert!(share(&made[120..125], 3000.0) < 2.0, "{made:?}");
    // Nor does the buffer of another rate hold it down.
    assert!((0.8..1.15).contains(&share(&made[75..120], 500.0)), "{made:?}");
    assert!((0.8..1.15).contains(&share(&made[125..], 3000.0)), "{made:?}");
}

#[test]
fn a_camera_that_was_started_again_sends_from_the_same_port() {
    let needed = ["videotestsrc", "x264enc", "rtph264pay", "appsink"];
    if let Some(absent) = needed.iter().find(|element| !has(element)) {
        eprintln!("skipped: there is no {absent}");
        return;
    }
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let (_wishes, receiver) = watch::channel(CameraWishes::default());
    let description = setup("videotestsrc num-buffers=10 ! video/x-raw,width=320,height=240,framerate=30/1 ! x264enc");
    let gate = FrameGate::answering(|| Some(Bitrate::mbps(1)));
    let camera = GstCamera::start(&description, socket.local_addr().unwrap(), gate, receiver).unwrap();
    let mut buffer = [0; 2048];
    let mut next = || {
        let (len, from) = socket.recv_from(&mut buffer).expect("video");
        (RtpPacket::parse(&buffer[..len]).expect("RTP").ssrc, from)
    };
    let (first, from) = next();
    let (_, from_again) = std::iter::repeat_with(&mut next).find(|(stream, _)| *stream != first).unwrap();
    assert_eq!(from_again, from);
    drop(camera);
}

#[test]
fn a_camera_that_is_not_there_yet_films_once_it_is() {
    let needed = ["filesrc", "y4mdec", "y4menc", "videotestsrc", "x264enc", "rtph264pay", "appsink"];
    if let Some(absent) = needed.iter().find(|element| !has(element)) {
        eprintln!("skipped: there is no {absent}");
        return;
    }
    let [film, made] = ["film", "made"]
        .map(|name| std::env::temp_dir().join(format!("aquila-camera-{name}-{}.y4m", std::process::id())));
    let _ = std::fs::remove_file(&film);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let (_wishes, receiver) = watch::channel(CameraWishes::default());
    let description = setup(&format!("filesrc location={} ! y4mdec ! videoconvert ! x264enc", film.display()));
    let gate = FrameGate::answering(|| Some(Bitrate::mbps(1)));
    let camera = GstCamera::start(&description, socket.local_addr().unwrap(), gate, receiver).expect("it waits for it");
    let caps = "video/x-raw,format=I420,width=64,height=64,framerate=30/1";
    let text = format!("videotestsrc num-buffers=30 ! {caps} ! y4menc ! filesink location={}", made.display());
    let making = gst::parse::launch(&text).unwrap();
    making.set_state(gst::State::Playing).unwrap();
    let ended = making.bus().unwrap().timed_pop_filtered(gst::ClockTime::from_seconds(10), &[gst::MessageType::Eos]);
    making.set_state(gst::State::Null).unwrap();
    assert!(ended.is_some());
    std::fs::rename(made, &film).unwrap();
    let mut buffer = [0; 2048];
    let (len, _) = socket.recv_from(&mut buffer).expect("video");
    assert!(RtpPacket::parse(&buffer[..len]).is_some());
    drop(camera);
    let _ = std::fs::remove_file(&film);
}

#[test]
fn a_camera_ends_while_its_encoder_begins_anew() {
    if let Some(absent) = ["videotestsrc", "x265enc", "rtph265pay", "appsink"].iter().find(|element| !has(element)) {
        eprintln!("skipped: there is no {absent}");
        return;
    }
    // Its first picture brings it another rate than it was opened with.
    let description = setup("videotestsrc ! video/x-raw,width=64,height=64,framerate=30/1 ! x265enc");
    for ms in 0..20 {
        let (_wishes, receiver) = watch::channel(CameraWishes::default());
        let gate = FrameGate::answering(|| Some(Bitrate::kbps(300)));
        let camera = GstCamera::start(&description, ([127, 0, 0, 1], 9).into(), gate, receiver).unwrap();
        std::thread::sleep(Duration::from_millis(ms));
        drop(camera);
    }
}

#[test]
fn a_change_is_told_if_it_is_worth_it() {
    let kbps = |told: Option<Bitrate>| told.map(|rate| rate.0 / 1000);
    let mut teller = Teller::new(Encoder::of("x264enc").unwrap());
    let told = [1000, 1009, 1010, 500].map(|rate| kbps(teller.told(Bitrate::kbps(rate), false)));
    assert_eq!(told, [Some(1000), None, Some(1010), Some(500)]);
    // Of one that begins anew a single dip is none, and a fall is followed with the next picture.
    let mut teller = Teller::new(Encoder::of("x265enc").unwrap());
    let mut told = |rate, recovery| kbps(teller.told(Bitrate::kbps(rate), recovery));
    assert_eq!(told(1000, false), Some(1000));
    assert!((0..20).all(|picture| told(if picture == 10 { 750 } else { 1050 }, false).is_none()));
    assert!(told(1050, true).is_some_and(|told| (1000..1050).contains(&told)), "a recovery point brings the mean");
    assert!((0..10).all(|_| told(1050, false).is_none()));
    assert_eq!(told(400, false), Some(400));
}

#[test]
fn an_encoder_is_chosen_where_the_text_leaves_that_open() {
    if let Some(absent) = ["x264enc", "x265enc"].iter().find(|element| !has(element)) {
        eprintln!("skipped: there is no {absent}");
        return;
    }
    let open = |h265| CameraSetup { h265, ..setup("videotestsrc ! encoder ") };
    let of = |h265| chosen(&open(h265)).unwrap();
    let (text, known) = of(true);
    assert!(known.is_h265 && text == format!("videotestsrc ! {}", known.factory), "{text}");
    assert!(!of(false).1.is_h265);
    for h265 in [true, false] {
        let made = open(h265).chosen().unwrap();
        assert_eq!((made.kind(), made.pipeline.as_str()), (of(h265).1.kind(), of(h265).0.as_str()));
        assert_eq!(made.clone().chosen().unwrap().pipeline, made.pipeline, "it stays");
    }
    assert!(chosen(&setup("videotestsrc ! my-encoder")).is_err());
}

#[test]
fn pictures_become_smaller_in_front_of_the_encoder() {
    if let Some(absent) = ["videotestsrc", "videorate", "videoscale", "x264enc"].iter().find(|element| !has(element)) {
        eprintln!("skipped: there is no {absent}");
        return;
    }
    let known = Encoder::of("x264enc").unwrap();
    let source =
        "videotestsrc num-buffers=90 ! video/x-raw,width=320,height=180,framerate=30/1 ! x264enc tune=zerolatency";
    let pipeline = gst::parse::launch(&described(source, known, true)).unwrap().downcast::<gst::Pipeline>().unwrap();
    let is_it = |element: &gst::Element| element.factory().is_some_and(|factory| factory.name() == known.factory);
    let encoder = pipeline.iterate_elements().into_iter().flatten().find(is_it).unwrap();
    // Nobody takes what comes out.
    pipeline.by_name(OUT).unwrap().set_property("wait-on-eos", false);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (filter, noted) = (pipeline.by_name(SIZE).unwrap(), seen.clone());
    let rungs = ["320x180@30:500", "160x90@15:0"].map(|rung| rung.parse::<Rung>().unwrap());
    filter.set_property("caps", caps(rungs[0]));
    let sink = encoder.static_pad("sink").unwrap();
    sink.add_probe(gst::PadProbeType::BUFFER, move |pad, _| {
        let caps = pad.current_caps().unwrap();
        let now = caps.structure(0).unwrap();
        let mut noted = noted.lock().unwrap();
        noted.push((now.get::<i32>("width").unwrap(), now.get::<gst::Fraction>("framerate").unwrap().numer()));
        if noted.len() == 30 {
            filter.set_property("caps", super::caps(rungs[1]));
        }
        gst::PadProbeReturn::Ok
    });
    pipeline.set_state(gst::State::Playing).unwrap();
    let end = pipeline
        .bus()
        .unwrap()
        .timed_pop_filtered(gst::ClockTime::from_seconds(20), &[gst::MessageType::Eos, gst::MessageType::Error]);
    pipeline.set_state(gst::State::Null).unwrap();
    assert!(matches!(end.unwrap().view(), gst::MessageView::Eos(_)));
    let seen = seen.lock().unwrap();
    assert_eq!((seen[0], *seen.last().unwrap()), ((320, 30), (160, 15)), "{seen:?}");
    // 30 large ones, and half of the other 60.
    assert!((55..=65).contains(&seen.len()), "{}", seen.len());
}

#[test]
fn an_encoder_that_needs_it_is_told_what_its_pictures_are_like_unless_the_text_says_so() {
    let level = "! video/x-h264,level=(string)4 ! h264parse";
    let text = |pipeline: &str, has_sizes| {
        let text = described(pipeline, Encoder::in_text(pipeline).unwrap(), has_sizes);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for has_sizes in [false, true] {
        assert!(text("v4l2src ! v4l2h264enc", has_sizes).contains(&format!("v4l2h264enc {level}")));
        assert!(
            text("filesrc ! video/x-h264 ! decodebin!v4l2h264enc x=y", has_sizes)
                .contains(&format!("v4l2h264enc x=y {level}"))
        );
    }
    assert!(
        text("v4l2src ! v4l2h264enc ! video/x-h264,level=(string)5", false).contains("level=(string)5 ! h264parse")
    );
    assert!(text("v4l2src ! x264enc", false).contains("x264enc ! h264parse"));
}

#[test]
fn a_pipeline_that_stands_still_is_found_and_one_that_is_told_to_wait_is_not() {
    let began = Instant::now();
    let at = |seconds: u64| began + Duration::from_secs(seconds);
    let mut watch = Watch::new(began);
    assert_eq!([watch.look(at(9), [0; 3]), watch.look(at(10), [0; 3])], [None, Some(Ended::NotFilming)]);
    // Thirty a second; for a minute none is given to the encoder, then it makes nothing of them.
    let mut watch = Watch::new(began);
    for second in 0..30 {
        assert_eq!(watch.look(at(second), [30 * second, 30 * second, 90 * second]), None);
    }
    for second in 30..90 {
        assert_eq!(watch.look(at(second), [30 * second, 870, 2610]), None, "{second}");
    }
    let said: Vec<_> =
        (90..100).filter_map(|second| watch.look(at(second), [30 * second, 870 + 30 * (second - 89), 2610])).collect();
    assert_eq!(said.len(), 7, "after a hundred pictures: {said:?}");
}

#[test]
fn one_that_hangs_in_an_element_is_waited_for_aside() {
    gst::init().unwrap();
    // It sleeps behind each picture, and nothing wakes it.
    let text = "videotestsrc is-live=true ! identity sleep-time=4000000 ! fakesink";
    let pipeline = gst::parse::launch(text).unwrap().downcast::<gst::Pipeline>().unwrap();
    pipeline.set_state(gst::State::Playing).unwrap();
    let began = Instant::now();
    let playing = Playing { pipeline, began, passed: Arc::default(), watch: Watch::new(began) };
    std::thread::sleep(Duration::from_millis(500));
    let mut stopping = Stopping::begin(playing).unwrap();
    assert!(stopping.lasts() && !stopping.is_told);
    while stopping.lasts() {
        std::thread::sleep(TICK);
        assert!(began.elapsed() < Duration::from_secs(30));
    }
    assert!(stopping.is_told);
}
