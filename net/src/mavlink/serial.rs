//! Serial lines. The device may be missing, be unplugged and come back; a link under /dev/serial/by-id finds it again under
//! another number.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serial2_tokio::SerialPort;
use tokio::time::sleep;

use super::stream::{self, Manner};
use super::{Door, StateLog, hint};

/// Serves the device for as long as the program runs.
pub(super) async fn run(door: Door, path: PathBuf, baud: u32) {
    door.until_stopped(serve(&door, &path, baud)).await;
}

async fn serve(door: &Door, path: &Path, baud: u32) {
    let Ok((endpoint, mut backlog)) = door.only_endpoint().await else { return };
    let mut log = StateLog::new(&endpoint.label);
    loop {
        match open(path, baud) {
            Ok(port) => {
                backlog.discard();
                log.up(&door.meter);
                let line_rate = is_real_line(path).then_some(baud);
                let manner = Manner { quiet: Some(QUIET), stall: None, gather: 1, line_rate };
                let (reader, writer) = tokio::io::split(port);
                let ended = stream::run(&endpoint, &door.events, &mut backlog, reader, writer, manner).await;
                if matches!(ended, stream::Ended::Stopped) {
                    return;
                }
                log.down(&door.meter, &ended);
            }
            Err(error) => log.down(&door.meter, &format_args!("{error}{}", hint(&error))),
        }
        sleep(RETRY).await;
    }
}

fn open(path: &Path, baud: u32) -> io::Result<SerialPort> {
    let port = SerialPort::open(path, baud)?;
    // What the driver has kept is from before we were there.
    port.discard_buffers()?;
    Ok(port)
}

/// Whether the baud rate means anything: USB devices that only look like serial lines, and terminals, take what they get.
fn is_real_line(path: &Path) -> bool {
    let device = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = device.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("tty") && !name.starts_with("ttyACM")
}

const RETRY: Duration = Duration::from_millis(500);
/// Four times what the longest frame takes at 57,600 baud (49 ms).
const QUIET: Duration = Duration::from_millis(200);
