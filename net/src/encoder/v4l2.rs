//! An encoder of the kernel's (V4L2), such as a Raspberry Pi's, through its controls: bit rate and "make a key frame".
//!
//! The device may be open in another program, which takes the pictures from it: controls are the device's, not the
//! program's. A new bit rate costs such encoders nothing, so they are told often: at once when it falls by 3 %, after 200 ms
//! when it rises by 5 %.
//!
//! It is not told when frames had better not be encoded: its pictures come from the other program. What it makes then is left out
//! behind it.
#![allow(unsafe_code, reason = "ioctl has no safe form")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::sleep;

use super::sleep_until;
use super::steps::{StepConfig, Steps};
use crate::node::CameraRequest;

const STEPS: StepConfig = StepConfig {
    down_after: Duration::from_millis(20),
    up_after: Duration::from_millis(200),
    down_share: 0.03,
    up_share: 0.05,
    an_hour: u32::MAX,
    overshoot: 1.0,
    settles: Duration::ZERO,
};
/// A device that is not there, or refuses, is tried again after this.
const RETRY: Duration = Duration::from_secs(2);

/// `V4L2_CID_CODEC_BASE` is 0x00990900 (linux/v4l2-controls.h).
const BITRATE: u32 = 0x0099_0900 + 207;
const FORCE_KEY_FRAME: u32 = 0x0099_0900 + 229;

/// `struct v4l2_control` (linux/videodev2.h).
#[repr(C)]
struct Control {
    id: u32,
    value: i32,
}

// VIDIOC_S_CTRL is _IOWR('V', 28, struct v4l2_control).
nix::ioctl_readwrite!(set_control, b'V', 28, Control);

pub(super) async fn serve(path: PathBuf, mut requests: mpsc::Receiver<CameraRequest>) {
    let mut wanted = Wanted::new();
    let mut is_broken = false;
    let mut device = None;
    loop {
        let mut request = tokio::select! {
            biased;
            request = requests.recv() => match request {
                Some(request) => Some(request),
                None => return,
            },
            () = sleep_until(wanted.due()) => None,
        };
        while let Some(next) = request {
            wanted.note(next);
            request = requests.try_recv().ok();
        }
        let done =
            open(&mut device, &path).and_then(|device| wanted.say(Instant::now(), |id, value| set(device, id, value)));
        match done {
            Ok(()) if is_broken => tracing::info!(path = %path.display(), "the encoder does as asked again"),
            Err(error) => {
                if !is_broken {
                    tracing::warn!(path = %path.display(), %error, "the encoder does not do as asked; trying on");
                }
                device = None;
                wanted.on_failure();
                is_broken = true;
                sleep(RETRY).await;
                continue;
            }
            Ok(()) => {}
        }
        is_broken = false;
    }
}

/// What the encoder is to do, and what of it it has been told.
#[derive(Debug)]
struct Wanted {
    rate: Steps,
    /// Until it has been asked for with success.
    key_frame: bool,
    /// As far as is known.
    has_key_frames: bool,
}

impl Wanted {
    fn new() -> Self {
        Self { rate: Steps::new(STEPS), key_frame: false, has_key_frames: true }
    }

    fn note(&mut self, request: CameraRequest) {
        match request {
            CameraRequest::Rate { target, .. } => self.rate.want(target),
            CameraRequest::RecoveryPoint { .. } => self.key_frame = self.has_key_frames,
            // Pictures come from the other program.
            CameraRequest::Hold(_) => {}
        }
    }

    fn due(&self) -> Option<Instant> {
        self.rate.due().into_iter().chain(self.key_frame.then(Instant::now)).min()
    }

    /// Sets the controls that are to be set now. What fails is still wanted, after [`Wanted::on_failure`] the rate as well.
    fn say(&mut self, now: Instant, set: impl Fn(u32, i32) -> io::Result<()>) -> io::Result<()> {
        if let Some(rate) = self.rate.poll(now) {
            set(BITRATE, i32::try_from(rate.0).unwrap_or(i32::MAX))?;
        }
        if self.key_frame {
            match set(FORCE_KEY_FRAME, 1) {
                Err(error) if error.raw_os_error() == Some(nix::libc::EINVAL) => {
                    tracing::warn!("the encoder cannot be asked for a key frame");
                    self.has_key_frames = false;
                }
                done => done?,
            }
            self.key_frame = false;
        }
        Ok(())
    }

    fn on_failure(&mut self) {
        // The next time it may be another one, which has been told nothing.
        self.rate.on_doubt();
        self.has_key_frames = true;
    }
}

fn open<'a>(device: &'a mut Option<File>, path: &PathBuf) -> io::Result<&'a File> {
    if device.is_none() {
        *device = Some(OpenOptions::new().read(true).write(true).open(path)?);
    }
    device.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
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
    use std::cell::RefCell;

    use tokio::time::timeout;

    use aquila_proto::Bitrate;

    use super::*;

    fn rate(rate: u64) -> CameraRequest {
        CameraRequest::Rate { target: Bitrate(rate), asked: Bitrate(rate) }
    }

    #[test]
    fn numbers_are_those_of_the_kernel() {
        assert_eq!((BITRATE, FORCE_KEY_FRAME, size_of::<Control>()), (0x0099_09cf, 0x0099_09e5, 8));
        let null = File::options().read(true).write(true).open("/dev/null").unwrap();
        assert_eq!(set(&null, BITRATE, 1).unwrap_err().raw_os_error(), Some(nix::libc::ENOTTY));
    }

    /// What it is told, by a device that answers key frames with this error.
    fn said(wanted: &mut Wanted, now: Instant, error: Option<i32>) -> (Vec<u32>, bool) {
        let told = RefCell::new(Vec::new());
        let done = wanted.say(now, |id, _| {
            told.borrow_mut().push(id);
            let error = error.filter(|_| id == FORCE_KEY_FRAME).map(io::Error::from_raw_os_error);
            error.map_or(Ok(()), Err)
        });
        (told.into_inner(), done.is_ok())
    }

    #[test]
    fn a_key_frame_is_wanted_until_it_is_made() {
        let start = Instant::now();
        let mut wanted = Wanted::new();
        wanted.note(rate(1_000_000));
        wanted.note(CameraRequest::RecoveryPoint { flow: 0 });
        for tries in 0..3 {
            let now = start + RETRY * tries;
            assert_eq!(said(&mut wanted, now, Some(nix::libc::EBUSY)), (vec![BITRATE, FORCE_KEY_FRAME], false));
            wanted.on_failure();
            assert!(wanted.due().is_some_and(|due| due <= Instant::now()), "nobody has to ask for it again");
        }
        let now = start + RETRY * 3;
        assert_eq!(said(&mut wanted, now, None), (vec![BITRATE, FORCE_KEY_FRAME], true));
        assert_eq!((said(&mut wanted, now, None), wanted.due()), ((vec![], true), None), "once");
    }

    #[test]
    fn an_encoder_without_that_control_is_told_rates_and_not_asked_again() {
        let start = Instant::now();
        let mut wanted = Wanted::new();
        wanted.note(CameraRequest::RecoveryPoint { flow: 0 });
        assert_eq!(said(&mut wanted, start, Some(nix::libc::EINVAL)), (vec![FORCE_KEY_FRAME], true));
        wanted.note(CameraRequest::RecoveryPoint { flow: 0 });
        wanted.note(rate(1_000_000));
        assert_eq!(said(&mut wanted, start, Some(nix::libc::EINVAL)), (vec![BITRATE], true));
        // The next device may have it.
        wanted.on_failure();
        wanted.note(CameraRequest::RecoveryPoint { flow: 0 });
        assert_eq!(said(&mut wanted, start + RETRY, None), (vec![BITRATE, FORCE_KEY_FRAME], true));
    }

    #[tokio::test]
    async fn what_is_no_encoder_does_not_end_anything() {
        let (sender, requests) = mpsc::channel(8);
        let task = tokio::spawn(serve("/dev/null".into(), requests));
        sender.send(rate(1_000_000)).await.unwrap();
        sender.send(CameraRequest::RecoveryPoint { flow: 0 }).await.unwrap();
        sleep(Duration::from_millis(50)).await;
        drop(sender);
        timeout(Duration::from_secs(5), task).await.expect("it ends with the node").unwrap();
    }
}
