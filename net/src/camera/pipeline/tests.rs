//! A real pipeline with GStreamer's test picture. What is not installed is skipped by name.

use super::*;

fn has(element: &str) -> bool {
    gst::init().is_ok() && gst::ElementFactory::find(element).is_some()
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
    let camera = GstCamera::start(&description, socket.local_addr().unwrap(), gate, receiver).unwrap();
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
    let error = described("videotestsrc ! jpegenc").unwrap_err().to_string();
    assert!(error.contains("x264enc") && error.contains("v4l2src"), "{error}");
    assert!(described("a ! x265enc name=enc bitrate=3").unwrap().0.contains("rtph265pay"));
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
