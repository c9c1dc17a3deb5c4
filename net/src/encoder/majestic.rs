//! OpenIPC's majestic, over HTTP: `GET /api/v1/set?video0.bitrate=KBITS` and `GET /request/idr`.
//!
//! It lets nobody but root set anything (basic authentication, RFC 7617, by the camera's own accounts), unless its `system.unsafe` is set.
//!
//! Each set is written to the camera's flash (`/etc/majestic.yaml`), so they are few: down by a tenth at least and at most once a second,
//! if that was wanted for 0.3 s; up by a quarter at least, to the least that was wanted in 10 s; 120 in an hour, of which 20 may be made
//! at once and the others come one every 36 s. It is told a share of what lasts, not what works off the queue of the moment: a
//! recovery point of a camera that makes one each second is such a queue. A camera that does not answer within 2 s, or answers with an
//! error, is asked again; that is logged once until it does as asked. What it has surely not done, since it was not reached or has refused (4xx),
//! does not count; what it may have done (no answer, 5xx) does, and is asked again less and less often, down to every 36 s.
//!
//! It cannot pause, and is not told when frames had better not be encoded: what it makes then is left out behind it.

use std::fmt;
use std::time::{Duration, Instant};

use aquila_proto::Bitrate;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tokio::net::lookup_host;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::sleep_until;
use super::steps::{StepConfig, Steps};
use crate::node::CameraWishes;

/// When majestic is told another rate.
pub const STEPS: StepConfig = StepConfig {
    down_after: Duration::from_secs(1),
    up_after: Duration::from_secs(10),
    lower_for: Duration::from_millis(300),
    higher_for: Duration::from_secs(10),
    down_share: 0.1,
    up_share: 0.25,
    an_hour: 120,
    overshoot: 1.0,
    settles: Duration::ZERO,
};
/// A picture that can be decoded alone is asked for at most this often.
const IDR_AFTER: Duration = Duration::from_millis(500);
/// Where that failed, after this.
const IDR_AGAIN: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(2);
/// Of it, for the connection: what fails by then has not been asked for. Long enough for a SYN to be repeated.
const CONNECT_PATIENCE: Duration = Duration::from_millis(1500);
/// Of an answer, more than any is long.
const MAX_ANSWER: u64 = 64 << 10;

/// As whom to speak to a camera.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    user: String,
    password: String,
}

impl Login {
    /// Reads `USER:PASSWORD`; `None` if it is not that, or has what RFC 7617 does not allow, or is an address with a scheme.
    pub fn read(text: &str) -> Option<Self> {
        let (user, password) = text.split_once(':')?;
        let is_allowed = !user.is_empty() && !user.contains('/') && !text.chars().any(char::is_control);
        is_allowed.then(|| Self { user: user.to_owned(), password: password.to_owned() })
    }

    fn header(&self) -> String {
        format!("Basic {}", BASE64_STANDARD.encode(format!("{}:{}", self.user, self.password)))
    }
}

/// The user alone.
impl fmt::Display for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:...", self.user)
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({self})")
    }
}

/// A camera at a host, with a port if it is not 80.
struct Camera {
    host: String,
    /// What is sent with each request.
    authorization: Option<String>,
    agent: ureq::Agent,
}

/// `host` with a port if it is not 80.
pub(super) async fn serve(host: String, login: Option<Login>, mut camera: watch::Receiver<CameraWishes>) {
    let asks = Camera::new(host, login.as_ref(), PATIENCE, CONNECT_PATIENCE);
    let host = &asks.host;
    let mut steps = Steps::new(STEPS);
    let mut heard = CameraWishes::default();
    let (mut idr, mut idr_from) = (false, Instant::now());
    let mut is_silent = [false; 2];
    loop {
        let due = steps.due().into_iter().chain(idr.then_some(idr_from)).min();
        tokio::select! {
            biased;
            changed = camera.changed() => if changed.is_err() { return },
            () = sleep_until(due) => {}
        }
        let wishes = *camera.borrow_and_update();
        idr |= wishes.recovery_points_since(&heard).next().is_some();
        if let Some(rate) = wishes.rate {
            steps.want(Instant::now(), rate.seldom);
        }
        heard = wishes;
        let now = Instant::now();
        let mut asked = Vec::new();
        if let Some(rate) = steps.poll(now) {
            asked.push((set_bitrate(rate), Asked::Rate));
        }
        if idr && now >= idr_from {
            (idr, idr_from) = (false, now + IDR_AFTER);
            asked.push(("request/idr".to_owned(), Asked::Idr));
        }
        for (path, what) in asked {
            let answer = asks.get(&path).await;
            match (&answer, what) {
                (Ok(()), _) => {}
                (Err(error), Asked::Rate) if was_surely_not_done(error) => steps.on_refusal(),
                (Err(_), Asked::Rate) => steps.on_doubt(),
                // It has no such thing, and would say so each time.
                (Err(ureq::Error::StatusCode(400..500)), Asked::Idr) => {}
                (Err(_), Asked::Idr) => (idr, idr_from) = (true, Instant::now() + IDR_AGAIN),
            }
            let is_silent = &mut is_silent[what as usize];
            match &answer {
                Ok(()) if *is_silent => tracing::info!(host, path, "the camera does as asked again"),
                Err(ureq::Error::StatusCode(401 | 403)) if !*is_silent => tracing::warn!(
                    host,
                    path,
                    with_a_login = login.is_some(),
                    "the camera lets only its root do that: write majestic:root:PASSWORD@HOST, with the password of its SSH; trying on"
                ),
                Err(error) if !*is_silent => {
                    tracing::warn!(host, path, %error, "the camera does not do as asked; trying on")
                }
                _ => {}
            }
            *is_silent = answer.is_err();
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Asked {
    Rate,
    Idr,
}

fn set_bitrate(rate: Bitrate) -> String {
    format!("api/v1/set?video0.bitrate={}", (rate.0 / 1000).max(1))
}

impl Camera {
    fn new(host: String, login: Option<&Login>, patience: Duration, connect_patience: Duration) -> Self {
        let config = ureq::Agent::config_builder().timeout_global(Some(patience));
        let config = config.timeout_connect(Some(connect_patience)).max_redirects(0);
        Self { host, authorization: login.map(Login::header), agent: config.build().new_agent() }
    }

    async fn get(&self, path: &str) -> Result<(), ureq::Error> {
        if !is_found(&self.host).await {
            return Err(ureq::Error::HostNotFound);
        }
        let mut request = self.agent.get(format!("http://{}/{path}", self.host));
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let ask = move || -> Result<(), ureq::Error> {
            let mut response = request.call()?;
            // So that the connection can be used again.
            let _ = response.body_mut().with_config().limit(MAX_ANSWER).read_to_vec();
            Ok(())
        };
        spawn_blocking(ask).await.unwrap_or_else(|error| Err(std::io::Error::other(error).into()))
    }
}

/// Whether its name is known. Looked up apart: else a request that was not sent for want of it could not be told from one that
/// was lost.
async fn is_found(host: &str) -> bool {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    let address = if has_port { host.to_owned() } else { format!("{host}:80") };
    matches!(timeout(CONNECT_PATIENCE, lookup_host(address)).await, Ok(Ok(_)))
}

/// The camera was not reached, or has refused. Of all other failures, its own among them, it is not known: it may have been written.
fn was_surely_not_done(error: &ureq::Error) -> bool {
    use std::io::ErrorKind::{AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable};
    match error {
        ureq::Error::StatusCode(..500) | ureq::Error::HostNotFound | ureq::Error::BadUri(_) => true,
        ureq::Error::Timeout(ureq::Timeout::Connect) => true,
        ureq::Error::Io(error) => {
            matches!(error.kind(), AddrNotAvailable | ConnectionRefused | HostUnreachable | NetworkUnreachable)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use socket2::{Domain, Socket, Type};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::node::CameraRate;
    use crate::testkit::Log;

    fn tell(camera: &watch::Sender<CameraWishes>, rate: u64) {
        let rate = CameraRate { asked: Bitrate(1), lasting: Bitrate(2), seldom: Bitrate(rate) };
        camera.send_modify(|wishes| wishes.rate = Some(rate));
    }

    fn ask(camera: &watch::Sender<CameraWishes>) {
        camera.send_modify(|wishes| wishes.ask_recovery_point(0));
    }

    /// The request line of the next request, which is answered with this.
    async fn answer(listener: &TcpListener, with: &str) -> String {
        answer_all(listener, with).await.lines().next().unwrap_or_default().to_owned()
    }

    /// All of it.
    async fn answer_all(listener: &TcpListener, with: &str) -> String {
        let (mut stream, _) = timeout(Duration::from_secs(10), listener.accept()).await.expect("a request").unwrap();
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if stream.read(&mut byte).await.unwrap_or(0) == 0 {
                break;
            }
            text.push(byte[0]);
        }
        let _ = stream.write_all(with.as_bytes()).await;
        String::from_utf8_lossy(&text).into_owned()
    }

    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    const ERROR: &str = "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

    #[tokio::test]
    async fn a_camera_is_told_and_told_again_if_it_refuses() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (sender, camera) = watch::channel(CameraWishes::default());
        let task = tokio::spawn(serve(host, None, camera));
        tell(&sender, 1_450_700);
        let line = answer(&listener, ERROR).await;
        assert_eq!(line, "GET /api/v1/set?video0.bitrate=1450 HTTP/1.1");
        assert_eq!(answer(&listener, OK).await, line, "again, after a second");
        ask(&sender);
        assert_eq!(answer(&listener, OK).await, "GET /request/idr HTTP/1.1");
        tell(&sender, 1_400_000);
        ask(&sender);
        assert_eq!(answer(&listener, OK).await, "GET /request/idr HTTP/1.1", "the rate is not worth a write");
        drop(sender);
        timeout(Duration::from_secs(5), task).await.expect("it ends with the node").unwrap();
    }

    #[tokio::test]
    async fn a_camera_is_told_who_asks_and_a_refusal_says_what_to_do() {
        let log = Log::begin();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (sender, camera) = watch::channel(CameraWishes::default());
        let login = Login::read("Aladdin:open sesame");
        let task = tokio::spawn(serve(host, login, camera));
        tell(&sender, 1_000_000);
        for with in ["HTTP/1.1 401 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", OK] {
            let request = answer_all(&listener, with).await.to_ascii_lowercase();
            // The example of RFC 7617, section 2.
            assert!(request.contains("authorization: basic qwxhzgrpbjpvcgvuihnlc2ftzq=="), "{request}");
        }
        drop(sender);
        timeout(Duration::from_secs(5), task).await.expect("it ends with the node").unwrap();
        let lines = log.lines();
        let hints = lines.iter().filter(|line| line.contains("majestic:root:PASSWORD@HOST")).count();
        assert!(hints == 1 && !lines.iter().any(|line| line.contains("sesame")), "{lines:?}");
    }

    #[tokio::test]
    async fn a_recovery_point_is_asked_for_until_it_is_made() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (sender, camera) = watch::channel(CameraWishes::default());
        let task = tokio::spawn(serve(host, None, camera));
        ask(&sender);
        let line = answer(&listener, ERROR).await;
        assert_eq!(line, "GET /request/idr HTTP/1.1");
        assert_eq!(answer(&listener, OK).await, line, "again");
        // One that has no such thing is not asked again, but the next time.
        ask(&sender);
        assert_eq!(answer(&listener, &ERROR.replace("500 Oh", "404 What")).await, line);
        assert!(timeout(2 * IDR_AGAIN, listener.accept()).await.is_err(), "nothing more");
        drop(sender);
        timeout(Duration::from_secs(5), task).await.expect("it ends with the node").unwrap();
    }

    #[tokio::test]
    async fn what_was_surely_not_done_is_told_from_what_may_have_been() {
        let camera =
            |host: &str| Camera::new(host.to_owned(), None, Duration::from_millis(400), Duration::from_millis(200));
        let ask = async |listener: &TcpListener| {
            let host = listener.local_addr().unwrap().to_string();
            camera(&host).get(&set_bitrate(Bitrate::mbps(1))).await.expect_err("it fails")
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let refusal = ERROR.replace("500 Oh", "403 No");
        let (_, error) = tokio::join!(answer(&listener, &refusal), ask(&listener));
        assert!(was_surely_not_done(&error), "{error}");
        // It has failed, perhaps with the rate in its flash.
        let (_, error) = tokio::join!(answer(&listener, ERROR), ask(&listener));
        assert!(!was_surely_not_done(&error), "{error}");
        // It is cut off before it answers, and has perhaps done it.
        let (_, error) = tokio::join!(answer(&listener, ""), ask(&listener));
        assert!(!was_surely_not_done(&error), "{error}");
        let error = ask(&listener).await;
        assert!(matches!(error, ureq::Error::Timeout(_)) && !was_surely_not_done(&error), "{error}");
        let host = listener.local_addr().unwrap().to_string();
        drop(listener);
        for nowhere in [&host, "no.such.host.invalid", "no.such.host.invalid:80"] {
            let error = camera(nowhere).get("").await.expect_err("nobody is there");
            assert!(was_surely_not_done(&error), "{error}");
        }
    }

    #[tokio::test]
    async fn a_camera_that_cannot_be_reached_has_done_nothing() {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        socket.listen(0).unwrap();
        let host = socket.local_addr().unwrap().as_socket().unwrap();
        // Once as many wait as there is room for, nobody is let in.
        let connect = || std::net::TcpStream::connect_timeout(&host, Duration::from_millis(50)).ok();
        let waiting: Vec<_> = std::iter::from_fn(connect).collect();
        let camera = Camera::new(host.to_string(), None, Duration::from_millis(400), Duration::from_millis(200));
        let error = camera.get("").await.expect_err("it does not answer");
        assert!(was_surely_not_done(&error), "{error}, behind {}", waiting.len());
    }

    #[tokio::test]
    async fn hosts_are_found_with_and_without_a_port() {
        for host in ["127.0.0.1", "127.0.0.1:8080", "[::1]", "[::1]:8080"] {
            assert!(is_found(host).await, "{host}");
        }
    }

    #[tokio::test]
    async fn a_camera_that_hung_is_told_the_newest_only_when_it_answers_again() {
        let log = Log::begin();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (sender, camera) = watch::channel(CameraWishes::default());
        let task = tokio::spawn(serve(host, None, camera));
        tell(&sender, 1_000_000);
        // Each is taken and never answered, until the other end gives up; meanwhile this is wanted.
        let hang = async |wanted: &[u64]| {
            let (mut stream, _) =
                timeout(Duration::from_secs(20), listener.accept()).await.expect("a request").unwrap();
            for kbps in wanted {
                tell(&sender, kbps * 1000);
                tokio::task::yield_now().await;
            }
            let mut text = Vec::new();
            timeout(Duration::from_secs(10), stream.read_to_end(&mut text)).await.expect("it gives up").unwrap();
            String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned()
        };
        assert_eq!(hang(&[1500, 300, 2000, 700]).await, "GET /api/v1/set?video0.bitrate=1000 HTTP/1.1");
        assert_eq!(hang(&[900, 600]).await, "GET /api/v1/set?video0.bitrate=700 HTTP/1.1");
        ask(&sender);
        // It is there again. Nothing of before comes, and no more than the one.
        let line = answer(&listener, OK).await;
        let (idr, rate) = ("GET /request/idr HTTP/1.1", "GET /api/v1/set?video0.bitrate=600 HTTP/1.1");
        let other = if line == idr { rate } else { idr };
        assert!([idr, rate].contains(&line.as_str()), "{line}");
        assert_eq!(answer(&listener, OK).await, other);
        assert!(timeout(2 * PATIENCE, listener.accept()).await.is_err(), "nothing more");
        let lines = log.lines();
        let count = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
        assert_eq!(
            [count("does not do as asked"), count("timeout"), count("does as asked again")],
            [1; 3],
            "{lines:?}"
        );
        drop(sender);
        timeout(Duration::from_secs(5), task).await.expect("it ends with the node").unwrap();
    }

    #[tokio::test]
    async fn a_camera_that_hangs_does_not_hold_anybody_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (sender, camera) = watch::channel(CameraWishes::default());
        let task = tokio::spawn(serve(listener.local_addr().unwrap().to_string(), None, camera));
        for n in 0..100 {
            tell(&sender, 1_000_000 + n);
            tokio::task::yield_now().await;
        }
        drop(sender);
        timeout(Duration::from_secs(8), task).await.expect("it gives up").unwrap();
    }
}
