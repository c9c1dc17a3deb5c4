//! An encoder of the kernel's (V4L2), such as a Raspberry Pi's, through its controls: bit rate and "make a key frame".
//!
//! The device may be open in another program, which takes the pictures from it: controls are the device's, not the
//! program's. A new bit rate costs such encoders nothing, so they are told often: at once when it falls by 3 %, after 200 ms
//! when it rises by 5 %.
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
    let mut steps = Steps::new(STEPS);
    let (mut wants_key_frame, mut is_broken) = (false, false);
    let mut device = None;
    loop {
        let mut request = tokio::select! {
            biased;
            request = requests.recv() => match request {
                Some(request) => Some(request),
                None => return,
            },
            () = sleep_until(steps.due()) => None,
        };
        while let Some(next) = request {
            match next {
                CameraRequest::Rate { target, .. } => steps.want(target),
                CameraRequest::RecoveryPoint { .. } => wants_key_frame = true,
                // Pictures come from the other program.
                CameraRequest::Hold(_) => {}
            }
            request = requests.try_recv().ok();
        }
        let rate = steps.poll(Instant::now());
        let done = open(&mut device, &path).and_then(|device| {
            if let Some(rate) = rate {
                set(device, BITRATE, i32::try_from(rate.0).unwrap_or(i32::MAX))?;
            }
            if wants_key_frame {
                set(device, FORCE_KEY_FRAME, 1)?;
            }
            Ok(())
        });
        wants_key_frame = false;
        match done {
            Ok(()) if is_broken => tracing::info!(path = %path.display(), "the encoder does as asked again"),
            Err(error) => {
                if !is_broken {
                    tracing::warn!(path = %path.display(), %error, "the encoder does not do as asked; trying on");
                }
                device = None;
                steps.on_doubt();
                is_broken = true;
                sleep(RETRY).await;
                continue;
            }
            Ok(()) => {}
        }
        is_broken = false;
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
