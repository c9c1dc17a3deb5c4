//! Serial lines, played by pseudo terminals.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serial2_tokio::SerialPort;

use super::*;

/// The far end of a line, and a stable name for the near end, like a link under /dev/serial/by-id.
struct Line {
    link: PathBuf,
    far: SerialPort,
    /// Kept open, so that the far end is not hung up before the endpoint opens the device.
    _near: SerialPort,
}

impl Line {
    fn plugged_in(name: &str) -> Self {
        let (far, near, device) = pseudo_terminal();
        let link = std::env::temp_dir().join(format!("aquila-test-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(device, &link).unwrap();
        Self { link, far, _near: near }
    }

    fn spec(&self) -> String {
        format!("serial:{}:921600", self.link.display())
    }

    async fn write(&mut self, bytes: &[u8]) {
        within(self.far.write_all(bytes)).await.unwrap();
    }

    /// Reads until there are `n` frames.
    async fn read(&mut self, n: usize) -> Vec<Frame> {
        let mut bytes = Vec::new();
        let mut chunk = [0; 4096];
        while frames(&bytes).len() < n {
            let n = within(self.far.read(&mut chunk)).await.unwrap();
            bytes.extend_from_slice(&chunk[..n]);
        }
        frames(&bytes)
    }
}

/// Both ends of a pseudo terminal, and the device of the near one: the terminal that we have open and had not before.
fn pseudo_terminal() -> (SerialPort, SerialPort, PathBuf) {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let open = || -> BTreeSet<PathBuf> {
        let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let names = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        names.filter(|name| name.starts_with("/dev/pts") && !name.ends_with("ptmx")).collect()
    };
    let before = open();
    let (far, near) = SerialPort::pair().unwrap();
    let device = open().difference(&before).next().cloned().expect("a new terminal");
    (far, near, device)
}

impl Drop for Line {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.link);
    }
}

#[tokio::test]
async fn frames_pass_both_ways_between_garbage() {
    let mut line = Line::plugged_in("garbage");
    let mut bench = Bench::new(&[&line.spec()]).await;
    let endpoint = bench.added().await;
    until(&endpoint, EndpointState::Up).await;
    line.write(b"\x00\xffboot loader says hello\r\n").await;
    line.write(heartbeat(1).bytes()).await;
    assert_eq!(bench.frame().await, (endpoint.id(), heartbeat(1)));
    // A false start is given up when the line goes quiet, and what hides behind it comes through.
    line.write(&[&[0xfd, 200, 0, 0][..], heartbeat(2).bytes()].concat()).await;
    assert_eq!(bench.frame().await, (endpoint.id(), heartbeat(2)));
    let mut broken = heartbeat(3).bytes().to_vec();
    broken[12] ^= 1;
    line.write(&[&broken[..], heartbeat(4).bytes()].concat()).await;
    assert_eq!(bench.frame().await, (endpoint.id(), heartbeat(4)));

    endpoint.send(attitude(1), Class::Telemetry).unwrap();
    endpoint.send(heartbeat(5), Class::Control).unwrap();
    assert_eq!(line.read(2).await.len(), 2);

    let status = bench.status(0);
    assert_eq!((status.frames_in, status.bad_checksum, status.frames_out), (3, 1, 2));
    assert_eq!(status.skipped_bytes, 26 + 4 + 21);
}

#[tokio::test]
async fn a_parameter_burst_is_complete_both_ways() {
    let mut line = Line::plugged_in("burst");
    let mut bench = Bench::new(&[&line.spec()]).await;
    let endpoint = bench.added().await;
    until(&endpoint, EndpointState::Up).await;
    for frame in parameters() {
        endpoint.send(frame, Class::Telemetry).unwrap();
    }
    assert_eq!(line.read(1348).await, parameters());
    assert_eq!(endpoint.status().dropped_out, 0);
    let burst: Vec<u8> = parameters().iter().flat_map(|frame| frame.bytes().to_vec()).collect();
    let writing = async { line.write(&burst).await };
    let reading = async {
        for expected in parameters() {
            assert_eq!(bench.frame().await.1, expected);
        }
    };
    tokio::join!(writing, reading);
}

#[tokio::test]
async fn unplugged_and_plugged_in_it_goes_on_under_the_same_id_without_what_was_missed() {
    let line = Line::plugged_in("replug");
    let mut bench = Bench::new(&[&line.spec()]).await;
    let endpoint = bench.added().await;
    until(&endpoint, EndpointState::Up).await;
    drop(line);
    until(&endpoint, EndpointState::Down).await;
    assert_eq!(endpoint.send(heartbeat(1), Class::Control), Err(Refused::Down));
    // The system may give it another device number; the link leads there.
    let mut line = Line::plugged_in("replug");
    until(&endpoint, EndpointState::Up).await;
    endpoint.send(heartbeat(2), Class::Control).unwrap();
    assert_eq!(line.read(1).await, [heartbeat(2)]);
    line.write(heartbeat(3).bytes()).await;
    assert_eq!(bench.frame().await, (endpoint.id(), heartbeat(3)));
    assert_eq!(endpoint.status().dropped_out, 1);
}

#[tokio::test]
async fn a_device_that_is_missing_at_first_is_found_later() {
    let link = std::env::temp_dir().join(format!("aquila-test-{}-late", std::process::id()));
    let mut bench = Bench::new(&[&format!("serial:{}:57600", link.display())]).await;
    let endpoint = bench.added().await;
    assert_eq!(endpoint.status().state, EndpointState::Down);
    let mut line = Line::plugged_in("late");
    until(&endpoint, EndpointState::Up).await;
    line.write(heartbeat(1).bytes()).await;
    assert_eq!(bench.frame().await.1, heartbeat(1));
}

#[tokio::test]
async fn noise_costs_nothing_but_counters() {
    let mut line = Line::plugged_in("noise");
    let mut bench = Bench::new(&[&line.spec()]).await;
    let endpoint = bench.added().await;
    until(&endpoint, EndpointState::Up).await;
    for seed in 0..20 {
        line.write(&noise(seed, 2000)).await;
    }
    // Quiet ends whatever the noise began.
    tokio::time::sleep(Duration::from_millis(600)).await;
    line.write(heartbeat(1).bytes()).await;
    within(async { while bench.frame().await.1 != heartbeat(1) {} }).await;
    let status = endpoint.status();
    assert_eq!(status.bytes_in, 40_000 + 21);
    assert!(status.skipped_bytes > 39_000, "{status:?}");
}

#[tokio::test]
async fn a_reader_that_stops_costs_drops_not_memory_and_recovers_without_old_frames() {
    let mut line = Line::plugged_in("stopped");
    let mut bench = Bench::new(&[&line.spec()]).await;
    let endpoint = bench.added().await;
    until(&endpoint, EndpointState::Up).await;
    // Nobody reads the far end: the terminal's buffer fills, then the queue.
    let mut refused = 0;
    for n in 0..8000u32 {
        if endpoint.send(attitude(n as u8), Class::Telemetry).is_err() {
            refused += 1;
        }
        if n % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    assert!(refused > 2000, "{refused}");
    let status = endpoint.status();
    assert_eq!((status.dropped_out, status.state), (refused, EndpointState::Up));
    assert!(status.queued <= 4097);
    // Older than a second, a command must not come out.
    endpoint.send(heartbeat(1), Class::Control).unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    endpoint.send(heartbeat(2), Class::Control).unwrap();
    let mut seen = Vec::new();
    while !seen.contains(&heartbeat(2)) {
        seen.extend(line.read(1).await);
    }
    assert!(!seen.contains(&heartbeat(1)));
    bench.events.close();
}
