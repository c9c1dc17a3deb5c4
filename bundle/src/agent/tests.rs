//! Agents against each other on loopback. Time on the wall is not tested, but for generous ends.

use std::collections::BTreeMap;

use super::*;
use crate::Draft;

fn config(node: &str) -> AgentConfig {
    let mut config = AgentConfig::new(node.parse().expect("a node"));
    config.backoff = (Duration::from_millis(20), Duration::from_millis(100));
    config
}

fn to(address: SocketAddr) -> Route {
    Route { pattern: Pattern::any(), address: address.to_string(), ignore_transfer_mru: false }
}

fn bundle(n: u64, len: usize) -> Bytes {
    let (source, destination) = ("dtn://a/out".parse().expect("a name"), "dtn://b/in".parse().expect("a name"));
    let draft = Draft { sequence: n, ..Draft::new(source, destination, now_ms(), Duration::from_secs(60)) };
    draft.build(&vec![n as u8; len]).expect("a bundle").into()
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// A caller that answers all questions: gives `give`, stores or refuses by `verdict`.
async fn serve(
    requests: &mut mpsc::UnboundedReceiver<Request>,
    mut give: Vec<Offer>,
    verdict: impl Fn(&Arrival) -> Verdict,
    mut until: impl FnMut(&BTreeMap<u64, Outcome>, &[Arrival]) -> bool,
) -> (BTreeMap<u64, Outcome>, Vec<Arrival>) {
    let (mut done, mut stored) = (BTreeMap::new(), Vec::new());
    while !until(&done, &stored) {
        let next = tokio::time::timeout(Duration::from_secs(20), requests.recv()).await.expect("something happens");
        match next.expect("the agent lives") {
            Request::Store { arrival, answer } => {
                let verdict = verdict(&arrival);
                if verdict == Verdict::Stored {
                    stored.push(*arrival);
                }
                let _ = answer.send(verdict);
            }
            Request::Next { answer, .. } => {
                let _ = answer.send(give.pop());
            }
            Request::Done { token, outcome, .. } => drop(done.insert(token, outcome)),
        }
    }
    (done, stored)
}

#[tokio::test]
async fn bundles_go_from_one_to_the_other() {
    let (listener, address) = listener().await;
    let (b, mut from_b) = Agent::start(config("dtn://b/"), Some(listener)).expect("starts");
    let mut sender = config("dtn://a/");
    sender.routes.push(to(address));
    let (a, mut from_a) = Agent::start(sender, None).expect("starts");
    let bundles: Vec<Bytes> = (0..10).map(|n| bundle(n, 1 << (2 * n))).collect();
    let offer = |(n, bytes): (usize, &Bytes)| Offer { token: n as u64, pieces: vec![bytes.clone()], from: None };
    let give: Vec<Offer> = bundles.iter().enumerate().map(offer).collect();
    let ((done, _), (_, stored)) = tokio::join!(
        serve(&mut from_a, give, |_| Verdict::Refused, |done, _| done.len() == 10),
        serve(&mut from_b, Vec::new(), |_| Verdict::Stored, |_, stored| stored.len() == 10),
    );
    assert!(done.values().all(|outcome| *outcome == Outcome::Delivered));
    for (arrival, bytes) in stored.iter().zip(bundles.iter().rev()) {
        assert_eq!((&arrival.bundle, arrival.from.to_string().as_str()), (bytes, "dtn://a/"));
        assert_eq!(arrival.summary.sequence, arrival.bundle[arrival.summary.payload.start].into());
    }
    assert_eq!((b.stats().stored, a.stats().delivered, a.stats().sessions), (10, 10, 1));
    tokio::join!(a.close(), b.close());
    assert_eq!(b_requests_left(&mut from_b), 0);
}

fn b_requests_left(requests: &mut mpsc::UnboundedReceiver<Request>) -> usize {
    std::iter::from_fn(|| requests.try_recv().ok()).count()
}

#[tokio::test]
async fn what_is_refused_is_told_and_named() {
    let (listener, address) = listener().await;
    let mut taker = config("dtn://b/");
    taker.limits.bundle = 4000;
    taker.session.transfer = 10_000;
    let (b, mut from_b) = Agent::start(taker, Some(listener)).expect("starts");
    let mut sender = config("dtn://a/");
    sender.routes.push(to(address));
    let (_a, mut from_a) = Agent::start(sender, None).expect("starts");
    let b_node = "dtn://b/".parse().ok();
    let give = vec![
        Offer { token: 0, pieces: vec![bundle(0, 10)], from: b_node },
        Offer { token: 1, pieces: vec![Bytes::from_static(b"no bundle")], from: None },
        Offer { token: 2, pieces: vec![bundle(2, 20_000)], from: None },
        Offer { token: 3, pieces: vec![bundle(3, 5000)], from: None },
        Offer { token: 4, pieces: vec![bundle(4, 11)], from: None },
        Offer { token: 5, pieces: vec![bundle(5, 12)], from: None },
        Offer { token: 6, pieces: vec![bundle(6, 13)], from: "dtn://c/".parse().ok() },
    ];
    let decide = |arrival: &Arrival| match arrival.summary.sequence {
        4 => Verdict::Later,
        5 => Verdict::Refused,
        _ => Verdict::Stored,
    };
    let serving = serve(&mut from_b, Vec::new(), decide, |_, _| false);
    let (done, _) = tokio::select! {
        _ = serving => unreachable!("goes on"),
        done = serve(&mut from_a, give, |_| Verdict::Refused, |done, _| done.len() == 7) => done,
    };
    let not_acceptable = Outcome::Refused(Refusal::NotAcceptable);
    let expected = [
        Outcome::Loop,
        not_acceptable.clone(),
        Outcome::TooLarge(10_000),
        not_acceptable.clone(),
        Outcome::Later("no resources".into()),
        not_acceptable,
        Outcome::Delivered,
    ];
    assert_eq!(done.into_values().collect::<Vec<_>>(), expected);
    let refused = b.stats().refused;
    assert_eq!(refused.values().sum::<u64>(), 4, "{refused:?}");
    assert!(refused.keys().any(|reason| reason.starts_with("not a bundle")), "{refused:?}");
}

#[tokio::test]
async fn it_dials_until_somebody_is_there_and_again_after_a_cut() {
    let (listener, address) = listener().await;
    drop(listener);
    let mut sender = config("dtn://a/");
    sender.routes.push(to(address));
    let (_a, mut from_a) = Agent::start(sender, None).expect("starts");
    let offer = || Offer { token: 7, pieces: vec![bundle(7, 100_000)], from: None };
    let mut later = 0;
    let mut listening = None;
    loop {
        let next = tokio::time::timeout(Duration::from_secs(20), from_a.recv()).await.expect("something happens");
        match next.expect("the agent lives") {
            Request::Next { answer, .. } => drop(answer.send(Some(offer()))),
            Request::Done { outcome: Outcome::Later(_), .. } => later += 1,
            Request::Done { outcome, .. } => {
                assert_eq!(outcome, Outcome::Delivered);
                break;
            }
            Request::Store { .. } => unreachable!("nothing comes"),
        }
        if later == 3 && listening.is_none() {
            // Somebody who closes each connection, and at last one who takes it.
            let silent = bind(&address.to_string()).await.expect("the port again");
            listening = Some(tokio::spawn(async move {
                for _ in 0..2 {
                    drop(silent.accept().await.expect("a connection"));
                }
                let (b, mut from_b) = Agent::start(config("dtn://b/"), Some(silent)).expect("starts");
                serve(&mut from_b, Vec::new(), |_| Verdict::Stored, |_, stored| stored.len() == 1).await;
                b.close().await;
            }));
        }
    }
    assert!(later >= 5);
}

#[tokio::test]
async fn memory_is_bounded_over_all_sessions() {
    let (listener, address) = listener().await;
    let mut taker = config("dtn://b/");
    taker.memory = 300_000;
    let (_b, mut from_b) = Agent::start(taker, Some(listener)).expect("starts");
    let mut sender = config("dtn://a/");
    sender.routes.push(to(address));
    let (_a, mut from_a) = Agent::start(sender, None).expect("starts");
    let give = vec![
        Offer { token: 0, pieces: vec![bundle(0, 200_000)], from: None },
        Offer { token: 1, pieces: vec![bundle(1, 400_000)], from: None },
    ];
    let serving = serve(&mut from_b, Vec::new(), |_| Verdict::Stored, |_, _| false);
    let (done, _) = tokio::select! {
        _ = serving => unreachable!("goes on"),
        done = serve(&mut from_a, give, |_| Verdict::Refused, |done, _| done.len() == 2) => done,
    };
    assert_eq!(done.into_values().collect::<Vec<_>>(), [Outcome::Delivered, Outcome::Later("no resources".into())]);
}

#[test]
fn the_closest_route_counts() {
    let mut config = config("dtn://a/");
    for pattern in ["*", "dtn://shore/*", "ipn:5.*", "dtn://shore/in", "dtn://shore/in"] {
        let pattern = pattern.parse().expect(pattern);
        config.routes.push(Route { pattern, address: String::new(), ignore_transfer_mru: false });
    }
    let route = |name: &str| config.route(&name.parse().expect(name)).map(|route| route.0);
    assert_eq!((route("dtn://shore/in"), route("dtn://shore/x")), (Some(3), Some(1)));
    assert_eq!((route("ipn:5.9"), route("ipn:6.9")), (Some(2), Some(0)));
    config.routes.remove(0);
    assert_eq!(config.route(&"ipn:6.9".parse().expect("a name")), None);
}
