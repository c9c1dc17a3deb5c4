//! The pipeline. Its pictures come out as RTP and go to the node's own camera port, as any camera's do; what is in front of its
//! encoder asks the node for each picture whether to encode it, and at what rate.

use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aquila_proto::Bitrate;
use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app::{AppSink, AppSinkCallbacks};
use tokio::sync::watch;

use super::table::{ANY, CameraSetup, ENCODERS, Encoder, words};
use crate::encoder::{Ladder, Rekeying, Rung};
use crate::node::{CameraWishes, FrameGate};
use crate::pauses::Pauses;

/// Why there is no camera.
#[derive(Debug, thiserror::Error)]
pub enum CameraError {
    /// GStreamer's own words.
    #[error("the camera's pipeline cannot be made")]
    Pipeline(#[from] gst::glib::Error),
    /// No encoder that we know.
    #[error(
        "the camera's pipeline has no encoder that is known; it ends with one of {}, or with encoder for the best of them that there is, for example: v4l2src ! videoconvert ! x264enc",
        ENCODERS.map(|encoder| encoder.factory).join(", ")
    )]
    NoEncoder,
    /// None of those that we know is installed.
    #[error("there is no encoder of GStreamer's here: install gstreamer1.0-plugins-ugly for x264enc")]
    NoneInstalled,
    /// An element without the pad that it has to have.
    #[error("the encoder has no pad '{0}'")]
    NoPad(&'static str),
    /// It does not start, or not yet.
    #[error("the camera does not start: {0}")]
    Start(String),
    /// A socket or a thread.
    #[error("cannot start the camera")]
    Io(#[from] std::io::Error),
}

impl CameraSetup {
    /// The same with the name of an encoder in the text, so that its kind is known: the best that there is, if that was open.
    ///
    /// # Errors
    /// If the text has no encoder, or there is none here.
    pub fn chosen(self) -> Result<Self, CameraError> {
        gst::init()?;
        let (pipeline, _) = chosen(&self)?;
        Ok(Self { pipeline, ..self })
    }
}

/// A running camera; stops when dropped.
#[derive(Debug)]
pub struct GstCamera {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    skipped: Arc<AtomicU64>,
}

/// Encoders that take another rate from the next picture on hear of a change of a hundredth.
const SHARE: f64 = 0.01;
/// The bus and the requests are looked at this often.
const TICK: Duration = Duration::from_millis(5);
/// That there is nothing to film is told again after this.
const TOLD_AGAIN: Duration = Duration::from_secs(60);
/// A pipeline that is told to stop does so within this.
const GRACE: Duration = Duration::from_secs(3);

impl GstCamera {
    /// Starts this pipeline; RTP goes `to` there.
    ///
    /// A camera that is not there yet, or whose driver says no, is started as soon as it is: the link does not wait for it.
    ///
    /// # Errors
    /// If the pipeline cannot be made.
    pub fn start(
        setup: &CameraSetup,
        to: SocketAddr,
        gate: FrameGate,
        wishes: watch::Receiver<CameraWishes>,
    ) -> Result<Self, CameraError> {
        gst::init()?;
        let (stop, skipped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (description, known) = chosen(setup)?;
        let sizes = Arc::new(Mutex::new(setup.sizes.ladder(known.is_h265)));
        let recovery = Arc::new(AtomicBool::new(false));
        let socket = UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
        let intra_refresh = setup.intra_refresh;
        if intra_refresh && known.refresh.is_none() {
            tracing::info!(
                encoder = known.factory,
                "does not refresh its picture when asked to; its recovery points are IDR pictures"
            );
        }
        let film = Film {
            description,
            known,
            intra_refresh,
            sizes,
            socket,
            to,
            gate,
            wishes,
            recovery,
            skipped: skipped.clone(),
        };
        let mut pauses = Pauses::new();
        let first = match film.play() {
            Err(error @ CameraError::Start(_)) => Err(does_not_start(&error, &mut pauses)),
            playing => Ok(playing?),
        };
        let flag = stop.clone();
        let serve = move || film.serve(first, pauses, &flag);
        let thread = std::thread::Builder::new().name("camera".into()).spawn(serve)?;
        Ok(Self { stop, thread: Some(thread), skipped })
    }

    /// Pictures that were not encoded, since the link did not carry them.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }
}

impl Drop for GstCamera {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return };
        let asked = Instant::now();
        while !thread.is_finished() {
            if asked.elapsed() >= GRACE {
                // The driver's fault. The system ends it with the process.
                return tracing::warn!("the camera does not stop; leaving it to itself");
            }
            std::thread::sleep(TICK);
        }
        let _ = thread.join();
    }
}

/// How many pictures a pipeline has had so far.
#[derive(Debug, Default)]
struct Passed {
    /// From the camera to its encoder, those that were then left out included.
    filmed: AtomicU64,
    /// Encoded, or at least given to the encoder.
    begun: AtomicU64,
    /// Packets that came of them.
    made: AtomicU64,
}

struct Film {
    description: String,
    known: &'static Encoder,
    /// See [`CameraSetup::intra_refresh`].
    intra_refresh: bool,
    sizes: Arc<Mutex<Option<Ladder>>>,
    /// The same for each start: the node takes another port for another camera, and drops what comes from there until this one has been
    /// silent for a while, with the recovery point that a stream begins with.
    socket: UdpSocket,
    to: SocketAddr,
    gate: FrameGate,
    wishes: watch::Receiver<CameraWishes>,
    /// The next picture that is encoded has to be a recovery point.
    recovery: Arc<AtomicBool>,
    skipped: Arc<AtomicU64>,
}

/// A pipeline that plays; it stops when dropped.
struct Playing {
    pipeline: gst::Pipeline,
    began: Instant,
    passed: Arc<Passed>,
    watch: Watch,
}

impl Drop for Playing {
    fn drop(&mut self) {
        let _ = self.pipeline.set_state(gst::State::Null);
    }
}

impl Playing {
    /// Why it has ended, or might as well have.
    fn ended(&mut self) -> Option<Ended> {
        let Passed { filmed, begun, made } = &*self.passed;
        let passed = [filmed, begun, made].map(|count| count.load(Ordering::Relaxed));
        said(&self.pipeline).map(Ended::Said).or_else(|| self.watch.look(Instant::now(), passed))
    }
}

/// Why a pipeline is of no use any more.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ended {
    /// It says so.
    Said(String),
    /// No picture comes.
    NotFilming,
    /// The encoder makes nothing of those that come.
    NotEncoding,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said(reason) => f.write_str(reason),
            Self::NotFilming => f.write_str("no picture has come for 10 s"),
            Self::NotEncoding => f.write_str("the encoder makes nothing of what it is given"),
        }
    }
}

/// A pipeline that is being stopped. That lasts for as long as its driver or its encoder hangs, which only they can end: until then no other one is
/// begun, since it would find the camera in use.
struct Stopping {
    thread: JoinHandle<()>,
    since: Instant,
    is_told: bool,
}

impl Stopping {
    fn begin(playing: Playing) -> io::Result<Self> {
        let thread = std::thread::Builder::new().name("camera-stops".into()).spawn(move || drop(playing))?;
        Ok(Self { thread, since: Instant::now(), is_told: false })
    }

    /// Whether it lasts; where it lasts long the log tells of it.
    fn lasts(&mut self) -> bool {
        let lasts = !self.thread.is_finished();
        if lasts && self.since.elapsed() >= GRACE && !std::mem::replace(&mut self.is_told, true) {
            tracing::warn!("the camera does not stop, and is not started again before it has");
        }
        lasts
    }
}

impl Film {
    fn play(&self) -> Result<Playing, CameraError> {
        let known = self.known;
        let has_sizes = {
            let mut sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
            // Another pipeline knows of no size.
            sizes.iter_mut().for_each(Ladder::forget);
            sizes.is_some()
        };
        let text = described(&self.description, known, has_sizes);
        let pipeline = gst::parse::launch(&text)?;
        let pipeline = pipeline.downcast::<gst::Pipeline>().map_err(|_| CameraError::NoEncoder)?;
        let is_it = |element: &gst::Element| element.factory().is_some_and(|factory| factory.name() == known.factory);
        let encoder = pipeline.iterate_elements().into_iter().flatten().find(is_it).ok_or(CameraError::NoEncoder)?;
        let set = Settings::new(&encoder, known, &self.description, self.intra_refresh);
        let sink = encoder.static_pad("sink").ok_or(CameraError::NoPad("sink"))?;
        let source = encoder.static_pad("src").ok_or(CameraError::NoPad("src"))?;
        let (gate, skipped, recovery) = (self.gate.clone(), self.skipped.clone(), self.recovery.clone());
        let teller = Mutex::new(Teller::new(known));
        let weak = (encoder.downgrade(), source.downgrade());
        let (sizes, filter) = (self.sizes.clone(), pipeline.by_name(SIZE).map(|filter| filter.downgrade()));
        let passed = Arc::new(Passed::default());
        let seen = passed.clone();
        let feeding = set.feeding(&sink);
        let (asks, feeding) = (feeding.as_ref().unwrap_or(&sink).clone(), feeding.map(|pad| pad.downgrade()));
        let next = move || {
            seen.filmed.fetch_add(1, Ordering::Relaxed);
            let rate = gate.next_frame()?;
            seen.begun.fetch_add(1, Ordering::Relaxed);
            Some(rate)
        };
        asks.add_probe(gst::PadProbeType::BUFFER, move |_, info| match next() {
            Some(rate) => {
                if let Some(sizes) = &mut *sizes.lock().unwrap_or_else(PoisonError::into_inner) {
                    let now = Instant::now();
                    sizes.want(now, rate.lasting);
                    if let (Some(rung), Some(filter)) = (sizes.poll(now), filter.as_ref().and_then(|it| it.upgrade())) {
                        tracing::info!(%rung, "the camera's size");
                        filter.set_property("caps", caps(rung));
                    }
                }
                if let (Some(encoder), Some(source)) = (weak.0.upgrade(), weak.1.upgrade()) {
                    let recovery = recovery.swap(false, Ordering::Relaxed);
                    let told = teller.lock().unwrap_or_else(PoisonError::into_inner).told(rate.asked, recovery);
                    let feeding = feeding.as_ref().and_then(|pad| pad.upgrade());
                    told.into_iter().for_each(|rate| set.rate(&encoder, feeding.as_ref(), rate));
                    if recovery {
                        source.send_event(force_key_unit());
                    }
                }
                gst::PadProbeReturn::Ok
            }
            None => {
                skipped.fetch_add(1, Ordering::Relaxed);
                // Not `Drop`: the binding has let go of the buffer by then, and GStreamer complains.
                info.data = None;
                gst::PadProbeReturn::Handled
            }
        });
        // The parser has parameter sets in front of each IDR picture. Told that one was asked for it would put them in front of the next picture, too, which
        // is none where the encoder refreshes its picture in place of that.
        source.add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, |_, info| match info.event() {
            Some(event) if event.structure().is_some_and(|it| it.name() == FORCE_KEY_UNIT) => gst::PadProbeReturn::Drop,
            _ => gst::PadProbeReturn::Ok,
        });
        let out = pipeline.by_name(OUT).and_then(|out| out.downcast::<AppSink>().ok()).ok_or(CameraError::NoEncoder)?;
        let send = self.sender(passed.clone())?;
        out.set_callbacks(AppSinkCallbacks::builder().new_sample(send).build());
        let began = Instant::now();
        let playing = Playing { pipeline, began, passed, watch: Watch::new(began) };
        let started = playing.pipeline.set_state(gst::State::Playing);
        started.map_err(|error| CameraError::Start(said(&playing.pipeline).unwrap_or_else(|| error.to_string())))?;
        tracing::info!(encoder = known.factory, "camera started");
        Ok(playing)
    }

    /// What sends the packets of each sample to whoever listens to the camera.
    fn sender(
        &self,
        passed: Arc<Passed>,
    ) -> io::Result<impl Fn(&AppSink) -> Result<gst::FlowSuccess, gst::FlowError> + use<>> {
        let (socket, to) = (self.socket.try_clone()?, self.to);
        Ok(move |sink: &AppSink| {
            let sample = sink.pull_sample().map_err(|_| gst::FlowError::Eos)?;
            passed.made.fetch_add(1, Ordering::Relaxed);
            let send = |buffer: &gst::BufferRef| {
                if let Ok(packet) = buffer.map_readable() {
                    // A full buffer: what a camera's network does.
                    let _ = socket.send_to(&packet, to);
                }
            };
            if let Some(buffer) = sample.buffer() {
                send(buffer);
            }
            sample.buffer_list().into_iter().for_each(|list| list.iter().for_each(send));
            Ok(gst::FlowSuccess::Ok)
        })
    }

    /// Until told to stop: passes requests on, and starts the pipeline again when it has ended, or at that time, if it does not play yet.
    fn serve(mut self, first: Result<Playing, Instant>, mut pauses: Pauses, stop: &AtomicBool) {
        let mut again = first.as_ref().err().copied().unwrap_or_else(Instant::now);
        let mut playing = first.ok();
        let mut stopping: Option<Stopping> = None;
        let mut told_not_filming: Option<Instant> = None;
        let mut heard = CameraWishes::default();
        while !stop.load(Ordering::Relaxed) {
            // Rates and pauses it asks for itself.
            let wishes = *self.wishes.borrow_and_update();
            if wishes.recovery_points_since(&heard).next().is_some() {
                self.recovery.store(true, Ordering::Relaxed);
            }
            heard = wishes;
            if let Some(reason) = playing.as_mut().and_then(Playing::ended)
                && let Some(ended) = playing.take()
            {
                let now = Instant::now();
                // One that waits for pictures finds them as soon as they come, and may wait for hours.
                let pause = match reason {
                    Ended::NotFilming => Duration::ZERO,
                    _ => pauses.after(ended.began.elapsed()),
                };
                let is_new = |told: Instant| now.saturating_duration_since(told) >= TOLD_AGAIN;
                if reason != Ended::NotFilming || told_not_filming.is_none_or(is_new) {
                    tracing::warn!(%reason, ?pause, "the camera has ended; starting it again");
                    told_not_filming = (reason == Ended::NotFilming).then_some(now);
                }
                again = now + pause;
                match Stopping::begin(ended) {
                    Ok(begun) => stopping = Some(begun),
                    Err(error) => tracing::warn!(%error, "no thread to stop the camera on"),
                }
            }
            if stopping.as_mut().is_some_and(Stopping::lasts) {
                std::thread::sleep(TICK);
                continue;
            }
            stopping = None;
            if playing.is_none() && Instant::now() >= again {
                match self.play() {
                    Ok(started) => playing = Some(started),
                    Err(error) => again = does_not_start(&error, &mut pauses),
                }
            }
            std::thread::sleep(TICK);
        }
    }
}

/// Tells of it, and says when to try again.
fn does_not_start(error: &CameraError, pauses: &mut Pauses) -> Instant {
    let pause = pauses.after(Duration::ZERO);
    tracing::warn!(%error, ?pause, "the camera does not start; trying on");
    Instant::now() + pause
}

/// Sees when a pipeline stands still though nobody says so.
#[derive(Debug)]
struct Watch {
    /// Pictures filmed, and when that was another number.
    filmed: (u64, Instant),
    /// Packets made, when that was another number, and how many pictures the encoder had been given by then.
    made: (u64, Instant, u64),
}

/// A camera may take long to begin, and an encoder keeps pictures back; neither is known to do so for this long.
const STANDS: Duration = Duration::from_secs(10);
/// No encoder keeps so many.
const KEPT: u64 = 100;

impl Watch {
    fn new(began: Instant) -> Self {
        Self { filmed: (0, began), made: (0, began, 0) }
    }

    /// Takes how many pictures were filmed and given to the encoder by now, and packets made; says why the pipeline had better begin anew, if it had.
    fn look(&mut self, now: Instant, [filmed, begun, made]: [u64; 3]) -> Option<Ended> {
        if filmed != self.filmed.0 {
            self.filmed = (filmed, now);
        }
        if made != self.made.0 {
            self.made = (made, now, begun);
        }
        let stands = |since: Instant| now.saturating_duration_since(since) >= STANDS;
        if stands(self.filmed.1) {
            return Some(Ended::NotFilming);
        }
        let owes = begun - self.made.2 > KEPT && stands(self.made.1);
        owes.then_some(Ended::NotEncoding)
    }
}

const OUT: &str = "aquila-out";
const SIZE: &str = "aquila-size";
/// Property of encoders' that passes options on to their library.
const OPTIONS: &str = "option-string";

/// The text with the name of an encoder in it, and that one.
fn chosen(CameraSetup { pipeline, h265, .. }: &CameraSetup) -> Result<(String, &'static Encoder), CameraError> {
    if let Some(known) = Encoder::in_text(pipeline) {
        return Ok((pipeline.clone(), known));
    }
    let rest =
        pipeline.trim_end().strip_suffix(ANY).filter(|rest| rest.ends_with(|c: char| c.is_whitespace() || c == '!'));
    let rest = rest.ok_or(CameraError::NoEncoder)?;
    let is_there = |known: &&Encoder| gst::ElementFactory::find(known.factory).is_some();
    let known = Encoder::by_preference(*h265).find(is_there).ok_or(CameraError::NoneInstalled)?;
    Ok((format!("{rest}{}", known.factory), known))
}

/// The whole text of the pipeline. With sizes, pictures are made smaller and left out in front of the encoder.
fn described(description: &str, known: &Encoder, has_sizes: bool) -> String {
    let tail = match known.is_h265 {
        true => {
            "h265parse config-interval=-1 ! rtph265pay mtu=1200 config-interval=-1 aggregate-mode=zero-latency pt=96"
        }
        false => {
            "h264parse config-interval=-1 ! rtph264pay mtu=1200 config-interval=-1 aggregate-mode=zero-latency pt=96"
        }
    };
    let is_it = |element: &str| words(element).next() == Some(known.factory);
    // What is said of its pictures stands behind it.
    let behind = description.rsplit(known.factory).next().unwrap_or_default();
    let says_it = |caps: &str| caps.split_once(',').is_some_and(|(kind, _)| behind.contains(kind));
    let caps = known.caps.filter(|caps| !says_it(caps)).map_or_else(String::new, |caps| format!("! {caps} "));
    let elements = description.split('!').map(|element| match (has_sizes, is_it(element)) {
        (true, true) => format!(" videorate drop-only=true ! videoscale ! capsfilter name={SIZE} !{element} {caps}"),
        (false, true) => format!("{element} {caps}"),
        (_, false) => element.to_owned(),
    });
    let description = elements.collect::<Vec<_>>().join("!");
    format!("{description} ! {tail} ! appsink name={OUT} sync=false async=false max-buffers=4096 drop=true")
}

/// What a rung's pictures are like. Not more of them than are filmed.
fn caps(Rung { width, height, frames_per_second, .. }: Rung) -> gst::Caps {
    let (least, most) = (gst::Fraction::new(1, 1), gst::Fraction::new(frames_per_second.into(), 1));
    gst::Caps::builder("video/x-raw")
        .field("width", i32::from(width))
        .field("height", i32::from(height))
        .field("framerate", gst::FractionRange::new(least, most))
        .build()
}

/// What rate an encoder works for.
///
/// It is told what is wanted, and not less where it is known to make more at first ([`EncoderModel::overshoot`], by which programs
/// behind `exec:` are told less): the rate of each picture is asked for when all before it has been made, and what they were too large is
/// by then what waits, which that rate works off. Told less for it in addition, an encoder would fall twice for the same bytes; and
/// each picture that became large is such a fall, by half and more, that is over with the next one.
///
/// [`EncoderModel::overshoot`]: crate::encoder::EncoderModel::overshoot
#[derive(Debug)]
struct Teller {
    known: &'static Encoder,
    told: Option<Bitrate>,
    /// Of one that begins anew for another rate.
    rekeying: Option<Rekeying>,
}

impl Teller {
    fn new(known: &'static Encoder) -> Self {
        Self { known, told: None, rekeying: None }
    }

    /// What to tell it with the next picture, for which that rate is wanted, if it is worth it; `recovery`: that will be a recovery
    /// point.
    fn told(&mut self, rate: Bitrate, recovery: bool) -> Option<Bitrate> {
        let (rate, share) = match self.known.rekeys_on_change {
            true => (self.rekeying.get_or_insert_with(|| Rekeying::new(rate)).told(rate, recovery), 0.0),
            false => (rate, SHARE),
        };
        let is_little = |before: Bitrate| (rate.0.abs_diff(before.0) as f64) < (before.0 as f64 * share).max(1.0);
        if self.told.is_some_and(is_little) {
            return None;
        }
        self.told = Some(rate);
        Some(rate)
    }
}

/// What of an encoder's is ours to set, beside what the pipeline's text says.
struct Settings {
    known: &'static Encoder,
    /// Options in that text.
    own: String,
    has_options: bool,
}

impl Settings {
    /// Sets what is for all rates.
    fn new(encoder: &gst::Element, known: &'static Encoder, description: &str, intra_refresh: bool) -> Self {
        for (property, value) in known.preset.iter().chain(known.refresh.iter().filter(|_| intra_refresh)) {
            // Unless the user said otherwise: what is named in the text stays. Another version of the element may know neither name nor value.
            let known = encoder.find_property(property).filter(|_| !description.contains(&format!("{property}=")));
            if let Some(value) = known.and_then(|it| gst::glib::Value::deserialize(value, it.value_type()).ok()) {
                encoder.set_property_from_value(property, &value);
            }
        }
        let has_options = encoder.find_property(OPTIONS).is_some();
        let own = has_options.then(|| encoder.property::<Option<String>>(OPTIONS)).flatten().unwrap_or_default();
        Self { known, own, has_options }
    }

    /// Where the encoder's pictures come from, if it is to be told rates there; see [`Settings::rate`].
    fn feeding(&self, sink: &gst::Pad) -> Option<gst::Pad> {
        let reopens = self.has_options && self.known.options(&self.own, Bitrate::ZERO).is_some();
        // What a text links only once it runs (`decodebin`) is not there yet: told in front of its own pad the encoder has no buffer.
        sink.peer().filter(|_| reopens)
    }

    /// Tells the encoder another rate. One whose options depend on it hears of them only while it stands: between two pictures, in the
    /// thread that brings them, it is stopped and begins anew. That thread is at `feeding`, which then tells it again what pictures come.
    fn rate(&self, encoder: &gst::Element, feeding: Option<&gst::Pad>, rate: Bitrate) {
        let (options, sink) = (self.known.options(&self.own, rate), encoder.static_pad("sink"));
        let Some(((options, sink), feeding)) = options.zip(sink).zip(feeding) else {
            return self.set_rate(encoder, rate);
        };
        // What fails here fails with the picture as well, and the camera is started again.
        let _ = feeding.unlink(&sink);
        let _ = encoder.set_state(gst::State::Ready);
        encoder.set_property(OPTIONS, options);
        self.set_rate(encoder, rate);
        let _ = feeding.link(&sink);
        let _ = encoder.sync_state_with_parent();
    }

    fn set_rate(&self, encoder: &gst::Element, rate: Bitrate) {
        if encoder.find_property(self.known.rate.0).is_some() {
            encoder.set_property_from_str(self.known.rate.0, &self.known.value(rate));
        }
    }
}

/// Why the pipeline has ended, if it has.
fn said(pipeline: &gst::Pipeline) -> Option<String> {
    let bus = pipeline.bus()?;
    while let Some(message) = bus.pop() {
        match message.view() {
            gst::MessageView::Error(error) => return Some(error.error().to_string()),
            gst::MessageView::Eos(_) => return Some("its source is at its end".to_owned()),
            _ => {}
        }
    }
    None
}

const FORCE_KEY_UNIT: &str = "GstForceKeyUnit";

/// As `gst_video_event_new_upstream_force_key_unit` makes it.
fn force_key_unit() -> gst::Event {
    let structure = gst::Structure::builder(FORCE_KEY_UNIT)
        .field("running-time", gst::ClockTime::NONE)
        .field("all-headers", true)
        .field("count", 0u32)
        .build();
    gst::event::CustomUpstream::new(structure)
}

#[cfg(test)]
mod tests;
