//! A camera of the kernel's (V4L2) that encodes what it films, through its controls: bit rate and "make a key frame".
//!
//! The device may be open in another program, which takes the pictures from it: a camera's controls are the device's, not the
//! program's. Those of an encoder that takes raw pictures from a program (memory to memory, as a Raspberry Pi's at /dev/video11) are the
//! program's own, and of no use to anybody else (kernel documentation, Video Memory-To-Memory Interface): such a device is refused, and
//! what to do instead is said. A new bit rate costs such cameras nothing, so they are told of each that the session tells of (ten in a second at
//! most, and changes of more than 4 %): of a lower one at once, of a higher one after 200 ms. One of which it is said that it makes a recovery point of
//! each change is told as seldom as a program that drives such a one.
//!
//! It is not told when frames had better not be encoded: its pictures come from the other program. What it makes then is left out
//! behind it.
//!
//! A driver may take its time, and a broken one does for ever: a thread of its own talks to it.
#![allow(unsafe_code, reason = "ioctl has no safe form")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use super::steps::{StepConfig, Steps};
use super::{EncoderKind, sleep_until};
use crate::node::CameraWishes;

const STEPS: StepConfig = StepConfig {
    down_after: Duration::from_millis(20),
    up_after: Duration::from_millis(200),
    lower_for: Duration::ZERO,
    higher_for: Duration::ZERO,
    down_share: 0.03,
    up_share: 0.05,
    an_hour: u32::MAX,
    overshoot: 1.0,
    settles: Duration::ZERO,
};
/// A device that is not there, or refuses, is tried again after this.
const RETRY: Duration = Duration::from_secs(2);
/// A driver that has not answered for so long is said to hang.
const PATIENCE: Duration = Duration::from_secs(2);

/// `V4L2_CID_CODEC_BASE` is 0x00990900 (linux/v4l2-controls.h).
const BITRATE: u32 = 0x0099_0900 + 207;
const FORCE_KEY_FRAME: u32 = 0x0099_0900 + 229;
/// `V4L2_CAP_VIDEO_M2M_MPLANE`, `V4L2_CAP_VIDEO_M2M` and `V4L2_CAP_DEVICE_CAPS` (linux/videodev2.h).
const MEMORY_TO_MEMORY: u32 = 0x4000 | 0x8000;
const HAS_OWN: u32 = 0x8000_0000;

/// `struct v4l2_control` (linux/videodev2.h).
#[repr(C)]
struct Control {
    id: u32,
    value: i32,
}

/// `struct v4l2_capability`.
#[repr(C)]
#[derive(Default)]
struct Capability {
    driver: [u8; 16],
    card: [u8; 32],
    bus_info: [u8; 32],
    version: u32,
    /// Of all of the hardware, and of this device of it.
    capabilities: u32,
    own: u32,
    reserved: [u32; 3],
}

// VIDIOC_S_CTRL is _IOWR('V', 28, struct v4l2_control), and VIDIOC_QUERYCAP _IOR('V', 0, struct v4l2_capability).
nix::ioctl_readwrite!(set_control, b'V', 28, Control);
nix::ioctl_read!(query_capability, b'V', 0, Capability);

pub(super) async fn serve(path: PathBuf, kind: EncoderKind, mut camera: watch::Receiver<CameraWishes>) {
    let mut device = match Device::start({
        let path = path.clone();
        move || open(&path)
    }) {
        Ok(device) => device,
        Err(error) => return tracing::error!(path = %path.display(), %error, "the encoder cannot be told anything"),
    };
    let mut wanted = Wanted::new(kind);
    let mut is_broken = false;
    loop {
        tokio::select! {
            biased;
            changed = camera.changed() => if changed.is_err() { return },
            () = sleep_until(wanted.due()) => {}
        }
        let now = Instant::now();
        wanted.note(now, *camera.borrow_and_update());
        let mut failed = None;
        let mut is_told = false;
        while let Some((control, value)) = wanted.next(now) {
            let done = device.set(control, value, PATIENCE).await;
            is_told = true;
            failed = wanted.on_set(now, control, done).err().or(failed);
        }
        match &failed {
            Some(error) if !is_broken => {
                tracing::warn!(path = %path.display(), %error, "the encoder does not do as asked; trying on");
            }
            None if is_broken && is_told => {
                tracing::info!(path = %path.display(), "the encoder does as asked again");
            }
            _ => {}
        }
        is_broken = failed.is_some() || is_broken && !is_told;
        if failed.is_some() {
            sleep(RETRY).await;
        }
    }
}

/// What the encoder is to do, and what of it it has been told.
#[derive(Debug)]
struct Wanted {
    rate: Steps,
    /// What was wanted last.
    heard: CameraWishes,
    /// Until it has been asked for with success: from when on.
    key_frame: Option<Instant>,
    /// As far as is known.
    has_key_frames: bool,
    /// That it has none has been said, and none has been made since.
    said_none: bool,
}

impl Wanted {
    fn new(kind: EncoderKind) -> Self {
        let model = kind.model();
        let steps = if model.rekeys_on_change { model.steps() } else { STEPS };
        let (rate, heard) = (Steps::new(steps), CameraWishes::default());
        Self { rate, heard, key_frame: None, has_key_frames: true, said_none: false }
    }

    fn note(&mut self, now: Instant, wishes: CameraWishes) {
        if let Some(rate) = wishes.rate {
            self.rate.want(now, rate.asked);
        }
        let is_asked = wishes.recovery_points_since(&self.heard).next().is_some();
        if is_asked && self.has_key_frames {
            self.key_frame.get_or_insert(now);
        }
        // Pictures come from the other program: it cannot be told to pause.
        self.heard = wishes;
    }

    fn due(&self) -> Option<Instant> {
        self.rate.due().into_iter().chain(self.key_frame).min()
    }

    /// The control to set now, and its value; [`Wanted::on_set`] is to be told what came of it. What fails is not among them for a while, so
    /// that neither keeps the other away.
    fn next(&mut self, now: Instant) -> Option<(u32, i32)> {
        if self.key_frame.is_some_and(|from| from <= now) {
            return Some((FORCE_KEY_FRAME, 1));
        }
        self.rate.poll(now).map(|rate| (BITRATE, i32::try_from(rate.0).unwrap_or(i32::MAX)))
    }

    /// What failed is still wanted.
    fn on_set(&mut self, now: Instant, control: u32, done: io::Result<()>) -> io::Result<()> {
        let is_key_frame = control == FORCE_KEY_FRAME;
        match done {
            Ok(()) => {
                self.key_frame = self.key_frame.filter(|_| !is_key_frame);
                self.said_none &= !is_key_frame;
                Ok(())
            }
            Err(error) if is_key_frame && error.raw_os_error() == Some(nix::libc::EINVAL) => {
                if !std::mem::replace(&mut self.said_none, true) {
                    tracing::warn!("the encoder cannot be asked for a key frame");
                }
                (self.has_key_frames, self.key_frame) = (false, None);
                Ok(())
            }
            Err(error) => {
                if is_key_frame {
                    self.key_frame = Some(now + RETRY);
                }
                // The next time it may be another device, which has been told nothing.
                self.rate.on_doubt();
                self.has_key_frames |= !is_key_frame;
                Err(error)
            }
        }
    }
}

/// A thread that sets controls. It ends with this, or, if its driver hangs, with the process.
struct Device {
    asks: std::sync::mpsc::Sender<Ask>,
    /// The answer to what the driver has been at for too long.
    late: Option<oneshot::Receiver<io::Result<()>>>,
}

struct Ask {
    control: u32,
    value: i32,
    done: oneshot::Sender<io::Result<()>>,
}

/// Sets a control.
type Set = Box<dyn Fn(u32, i32) -> io::Result<()>>;

impl Device {
    /// One that is opened by this: before the first control is set, and again after each failure.
    fn start(open: impl Fn() -> io::Result<Set> + Send + 'static) -> io::Result<Self> {
        let (asks, asked) = std::sync::mpsc::channel::<Ask>();
        std::thread::Builder::new().name("v4l2".into()).spawn(move || {
            let mut device = None;
            for Ask { control, value, done } in asked {
                let answer = match device.take().map_or_else(&open, Ok) {
                    Ok(set) => set(control, value).map(|()| device = Some(set)),
                    Err(error) => Err(error),
                };
                let _ = done.send(answer);
            }
        })?;
        Ok(Self { asks, late: None })
    }

    /// Waits for at most so long.
    async fn set(&mut self, control: u32, value: i32, patience: Duration) -> io::Result<()> {
        if let Some(mut late) = self.late.take()
            && timeout(patience, &mut late).await.is_err()
        {
            self.late = Some(late);
            return Err(io::ErrorKind::TimedOut.into());
        }
        let (done, mut answer) = oneshot::channel();
        self.asks.send(Ask { control, value, done }).map_err(|_| io::ErrorKind::BrokenPipe)?;
        match timeout(patience, &mut answer).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into())),
            Err(_) => {
                self.late = Some(answer);
                Err(io::ErrorKind::TimedOut.into())
            }
        }
    }
}

fn open(path: &Path) -> io::Result<Set> {
    let device = OpenOptions::new().read(true).write(true).open(path)?;
    let mut capability = Capability::default();
    // SAFETY: the descriptor is open, and the kernel writes one `v4l2_capability`, which lives until the call returns.
    unsafe { query_capability(device.as_raw_fd(), &raw mut capability) }?;
    if capability.is_memory_to_memory() {
        return Err(io::Error::other(
            "it encodes what a program gives it, and only that program can set its rate: let Aquila film (camera = \"... ! \
             v4l2h264enc\"), or write exec: and a command that tells that program",
        ));
    }
    Ok(Box::new(move |control, value| set(&device, control, value)))
}

impl Capability {
    fn is_memory_to_memory(&self) -> bool {
        let own = if self.capabilities & HAS_OWN != 0 { self.own } else { self.capabilities };
        own & MEMORY_TO_MEMORY != 0
    }
}

fn set(device: &File, id: u32, value: i32) -> io::Result<()> {
    let mut control = Control { id, value };
    // SAFETY: the descriptor is open, and the kernel reads and writes one `v4l2_control`, which lives until the call
    // returns.
    unsafe { set_control(device.as_raw_fd(), &raw mut control) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use aquila_proto::Bitrate;

    use super::*;
    use crate::node::CameraRate;

    fn wishes(rate: u64, recovery_points: u32) -> CameraWishes {
        let rate = CameraRate { asked: Bitrate(rate), lasting: Bitrate(1), seldom: Bitrate(1) };
        let mut wishes = CameraWishes::from(rate);
        (0..recovery_points).for_each(|_| wishes.ask_recovery_point(0));
        wishes
    }

    #[test]
    fn numbers_are_those_of_the_kernel() {
        assert_eq!((BITRATE, FORCE_KEY_FRAME, size_of::<Control>()), (0x0099_09cf, 0x0099_09e5, 8));
        assert_eq!(size_of::<Capability>(), 104);
        // VIDIOC_S_CTRL and VIDIOC_QUERYCAP of linux/videodev2.h, where the direction and the size are part of the number.
        let requests = (
            nix::request_code_readwrite!(b'V', 28, size_of::<Control>()),
            nix::request_code_read!(b'V', 0, size_of::<Capability>()),
        );
        assert_eq!(requests, (0xc008_561c, 0x8068_5600));
        let null = File::options().read(true).write(true).open("/dev/null").unwrap();
        assert_eq!(set(&null, BITRATE, 1).unwrap_err().raw_os_error(), Some(nix::libc::ENOTTY));
        assert_eq!(open("/dev/null".as_ref()).err().unwrap().raw_os_error(), Some(nix::libc::ENOTTY));
    }

    #[test]
    fn an_encoder_that_is_fed_by_a_program_is_told_from_a_camera() {
        let of = |capabilities, own| Capability { capabilities, own, ..Capability::default() }.is_memory_to_memory();
        // A Raspberry Pi's bcm2835-codec, and a UVC camera's picture and metadata devices.
        assert!(of(0x8420_4000, 0x0420_4000));
        assert!(!of(0x84a0_0001, 0x0420_0001) && !of(0x84a0_0001, 0x04a0_0000));
        assert!(of(0x0400_8000, 0), "before the kernel told of each device");
    }

    /// What it is told, by a device that answers this control with this error.
    fn said(wanted: &mut Wanted, now: Instant, fails: Option<(u32, i32)>) -> (Vec<u32>, bool) {
        let (mut told, mut done_all) = (Vec::new(), true);
        while let Some((control, _)) = wanted.next(now) {
            told.push(control);
            let error = fails.filter(|(failing, _)| *failing == control);
            let done = error.map_or(Ok(()), |(_, error)| Err(io::Error::from_raw_os_error(error)));
            done_all &= wanted.on_set(now, control, done).is_ok();
        }
        (told, done_all)
    }

    #[test]
    fn what_is_refused_is_wanted_until_it_is_done_and_keeps_nothing_else_away() {
        for failing in [FORCE_KEY_FRAME, BITRATE] {
            let start = Instant::now();
            let mut wanted = Wanted::new(EncoderKind::Unknown);
            wanted.note(start, wishes(1_000_000, 1));
            let busy = Some((failing, nix::libc::EBUSY));
            assert_eq!(said(&mut wanted, start, busy), (vec![FORCE_KEY_FRAME, BITRATE], false));
            for tries in 1..4 {
                // Of the one the rate falls further, of the other another key frame is needed.
                wanted.note(start, wishes(1_000_000 - 100_000 * u64::from(tries), tries + 1));
                let now = start + RETRY * tries;
                assert!(wanted.due().is_some_and(|due| due <= now), "nobody has to ask for it again");
                assert_eq!(said(&mut wanted, now, busy), (vec![FORCE_KEY_FRAME, BITRATE], false));
            }
            let now = start + RETRY * 4;
            let (told, done) = said(&mut wanted, now, None);
            assert!(done && told.contains(&failing));
            assert_eq!((said(&mut wanted, now, None), wanted.due()), ((vec![], true), None), "once");
        }
    }

    #[test]
    fn an_encoder_without_that_control_is_told_rates_and_not_asked_again() {
        let start = Instant::now();
        let mut wanted = Wanted::new(EncoderKind::Unknown);
        wanted.note(start, wishes(1_000_000, 1));
        let no_control = Some((FORCE_KEY_FRAME, nix::libc::EINVAL));
        assert_eq!(said(&mut wanted, start, no_control), (vec![FORCE_KEY_FRAME, BITRATE], true));
        wanted.note(start, wishes(800_000, 2));
        assert_eq!(said(&mut wanted, start + RETRY, no_control), (vec![BITRATE], true));
        assert!(wanted.said_none, "once");
        // The next device may have it.
        wanted.note(start, wishes(600_000, 2));
        assert!(!said(&mut wanted, start + 2 * RETRY, Some((BITRATE, nix::libc::ENODEV))).1);
        wanted.note(start, wishes(600_000, 3));
        assert_eq!(said(&mut wanted, start + 3 * RETRY, None), (vec![FORCE_KEY_FRAME, BITRATE], true));
        assert!(!wanted.said_none);
    }

    #[test]
    fn one_that_makes_a_key_frame_of_each_change_is_told_few() {
        let told = |kind| {
            let start = Instant::now();
            let mut wanted = Wanted::new(kind);
            // 5 % up and down, ten times a second.
            let told = (0..100).map(|tenth: u32| {
                let now = start + Duration::from_millis(100) * tenth;
                wanted.note(now, wishes(1_000_000 + 50_000 * u64::from(tenth % 2), 0));
                said(&mut wanted, now, None).0.len()
            });
            told.sum::<usize>()
        };
        assert_eq!(told(EncoderKind::Rekeying), 1, "the first");
        assert!(told(EncoderKind::Unknown) > 10);
    }

    #[tokio::test]
    async fn a_driver_that_hangs_holds_nobody_up_and_is_asked_again_when_it_is_back() {
        let (go_on, hangs) = std::sync::mpsc::channel::<()>();
        let hangs = std::sync::Mutex::new(hangs);
        let (told, heard) = std::sync::mpsc::channel();
        let hangs = std::sync::Arc::new(hangs);
        let mut device = Device::start(move || {
            let (told, hangs) = (told.clone(), hangs.clone());
            Ok(Box::new(move |control, value| {
                let _ = hangs.lock().unwrap().recv();
                let _ = told.send((control, value));
                Ok(())
            }))
        })
        .unwrap();
        let patience = Duration::from_millis(30);
        for value in 1..4 {
            let error = device.set(BITRATE, value, patience).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        }
        go_on.send(()).unwrap();
        go_on.send(()).unwrap();
        device.set(BITRATE, 4, Duration::from_secs(10)).await.unwrap();
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), [(BITRATE, 1), (BITRATE, 4)], "no more than one waits in it");
    }

    #[tokio::test]
    async fn what_is_no_encoder_does_not_end_anything() {
        let (sender, camera) = watch::channel(CameraWishes::default());
        let task = tokio::spawn(serve("/dev/null".into(), EncoderKind::Unknown, camera));
        sender.send_modify(|now| *now = wishes(1_000_000, 1));
        sleep(Duration::from_millis(50)).await;
        drop(sender);
        timeout(Duration::from_secs(5), task).await.expect("it ends with the node").unwrap();
    }
}
