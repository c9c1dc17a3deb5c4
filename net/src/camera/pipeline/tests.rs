//! A real pipeline with GStreamer's test picture. What is not installed is skipped by name.

use super::*;

fn has(element: &str) -> bool {
    gst::init().is_ok() && gst::ElementFactory::find(element).is_some()
}

fn setup(pipeline: &str) -> CameraSetup {
    CameraSetup { pipeline: pipeline.to_owned(), sizes: None, h265: false }
}

/// Films for a while against a node that answers `rate`; gives packets of each tenth of a second, in bytes.
fn film(encoder: &str, rate: impl Fn(usize) -> Option<Bitrate>, tenths: usize) -> Option<Vec<usize>> {
    let needed = ["videotestsrc", "videoconvert", encoder, "rtph264pay", "rtph265pay", "appsink"];
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
    let (requests, receiver) = mpsc::channel(8);
    let description = format!(
        "videotestsrc is-live=true pattern=snow ! video/x-raw,width=320,height=240,framerate=30/1 ! videoconvert ! {encoder}"
    );
    let camera = GstCamera::start(&setup(&description), socket.local_addr().unwrap(), gate, receiver).unwrap();
    let (began, mut bytes, mut buffer) = (Instant::now(), vec![0; tenths], [0; 2048]);
    loop {
        let tenth = began.elapsed().as_millis() as usize / 100;
        if tenth >= tenths {
            break;
        }
        *answer.lock().unwrap() = rate(tenth);
        if tenth == tenths / 2 {
            let _ = requests.try_send(CameraRequest::RecoveryPoint { flow: 0 });
        }
        if let Ok(len) = socket.recv(&mut buffer) {
            assert!((12..=1200).contains(&len) && buffer[0] >> 6 == 2, "RTP");
            bytes[tenth] += len;
        }
    }
    drop(camera);
    Some(bytes)
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
    let Some(bytes) = film("x264enc", rate, 60) else { return };
    let sum = |tenths: std::ops::Range<usize>| bytes[tenths].iter().sum::<usize>();
    assert!(sum(5..20) > 50_000, "{bytes:?}");
    assert!(sum(22..30) < 2_000, "{bytes:?}");
    assert!(sum(45..60) > 10_000 && sum(45..60) < 300_000, "{bytes:?}");
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
