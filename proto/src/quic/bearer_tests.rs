//! Strangers and mismatches, between two bearers joined without any link.

use std::sync::Mutex;

use super::super::tickets::MemoryTickets;
use super::*;

const SERVER: &str = "203.0.113.1:9400";
const CLIENT: &str = "198.51.100.7:40001";
const STRANGER: &str = "192.0.2.66:666";

fn identity(n: u8) -> Arc<Identity> {
    Arc::new(Identity::from_seed([n; 32]))
}

fn bearer(identity: Arc<Identity>, peer: PublicKey, listen: bool, seed: u8) -> QuicBearer {
    let tickets = Arc::new(MemoryTickets::default());
    let config = QuicConfig { bearer: BearerId::FIRST, identity, peer, mtu: 1200, tickets, resumption: None, listen };
    QuicBearer::new(config, &mut SeededBytes::new(&[seed; 32], "test")).unwrap()
}

fn server() -> QuicBearer {
    bearer(identity(1), identity(2).public(), true, 1)
}

fn client() -> QuicBearer {
    bearer(identity(2), identity(1).public(), false, 2)
}

/// Makes a client greet as if it were `client` calling `server`.
fn forge_greeting(bearer: &mut QuicBearer, client: &Identity, server: &Identity) {
    let greeting = Greeting::new(&client.public(), &server.public());
    let random = Mutex::new(SeededBytes::new(&[9; 32], "forged"));
    bearer
        .client_config
        .initial_dst_cid_provider(Arc::new(move || greeting.make(&mut random.lock().unwrap(), BearerId::FIRST)));
}

fn start() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
    Instant::now()
}

/// Carries packets between a server and clients at their addresses for `time`, without delay; gives the number of packets
/// that the server sent.
fn carry(now: &mut Instant, time: Duration, server: &mut QuicBearer, clients: &mut [(&str, &mut QuicBearer)]) -> usize {
    let until = *now + time;
    let (mut out, mut answers) = (Vec::new(), 0);
    while *now < until {
        *now += Duration::from_millis(1);
        for (address, client) in clients.iter_mut() {
            client.handle_timeout(*now);
            while client.poll_transmit(*now, &mut out).is_some() {
                server.handle_datagram(*now, address.parse().unwrap(), None, None, BytesMut::from(&out[..]));
            }
        }
        server.handle_timeout(*now);
        while let Some(transmit) = server.poll_transmit(*now, &mut out) {
            answers += 1;
            let to = transmit.destination.to_string();
            if let Some((_, client)) = clients.iter_mut().find(|(address, _)| *address == to) {
                client.handle_datagram(*now, SERVER.parse().unwrap(), None, None, BytesMut::from(&out[..]));
            }
        }
    }
    answers
}

fn events(bearer: &mut QuicBearer) -> Vec<BearerEvent> {
    std::iter::from_fn(|| bearer.poll_event()).collect()
}

fn is_connected(events: &[BearerEvent]) -> bool {
    events.iter().any(|event| matches!(event, BearerEvent::Connected { .. }))
}

fn disconnect(events: &[BearerEvent]) -> Option<&DisconnectReason> {
    events.iter().find_map(|event| match event {
        BearerEvent::Disconnected(reason) => Some(reason),
        _ => None,
    })
}

#[test]
fn a_pair_that_knows_each_other_connects() {
    let (mut now, mut server, mut client) = (start(), server(), client());
    client.connect(now, SERVER.parse().unwrap()).unwrap();
    carry(&mut now, Duration::from_millis(100), &mut server, &mut [(CLIENT, &mut client)]);
    assert!(is_connected(&events(&mut server)) && is_connected(&events(&mut client)));
    assert!(server.is_ready() && client.is_ready());
}

#[test]
fn a_stranger_is_not_answered_at_all() {
    let (mut now, mut server) = (start(), server());
    // It knows whom it calls, but not who may call.
    let mut stranger = bearer(identity(3), identity(1).public(), false, 3);
    stranger.connect(now, SERVER.parse().unwrap()).unwrap();
    let answers = carry(&mut now, Duration::from_secs(3), &mut server, &mut [(STRANGER, &mut stranger)]);
    assert_eq!((answers, server.connections.len()), (0, 0));
    let events = events(&mut server);
    assert!(!events.is_empty());
    assert!(events.iter().all(|event| matches!(event, BearerEvent::Unknown(peer) if !peer.handshake)));
}

#[test]
fn a_stranger_who_knows_both_public_keys_fails_the_handshake() {
    let (mut now, mut server) = (start(), server());
    let mut stranger = bearer(identity(3), identity(1).public(), false, 3);
    forge_greeting(&mut stranger, &identity(2), &identity(1));
    stranger.connect(now, SERVER.parse().unwrap()).unwrap();
    carry(&mut now, Duration::from_secs(1), &mut server, &mut [(STRANGER, &mut stranger)]);
    let seen = events(&mut server);
    assert!(!is_connected(&seen) && !server.is_ready());
    assert!(seen.iter().any(|event| matches!(event, BearerEvent::Unknown(peer) if peer.handshake)), "{seen:?}");
    assert!(matches!(disconnect(&events(&mut stranger)), Some(DisconnectReason::Identity(_))));
}

#[test]
fn an_impostor_of_the_server_is_refused() {
    let mut now = start();
    let mut impostor = bearer(identity(4), identity(2).public(), true, 4);
    // It has the greeting key of the real one, since public keys are public.
    impostor.greeting = Greeting::new(&identity(2).public(), &identity(1).public());
    let mut client = client();
    client.connect(now, SERVER.parse().unwrap()).unwrap();
    carry(&mut now, Duration::from_secs(1), &mut impostor, &mut [(CLIENT, &mut client)]);
    let seen = events(&mut client);
    assert!(!is_connected(&seen));
    assert!(matches!(disconnect(&seen), Some(DisconnectReason::Identity(_))), "{seen:?}");
}

#[test]
fn ends_without_a_common_version_tell_each_other() {
    let (mut now, mut server, mut client) = (start(), server(), client());
    let clock = SharedClock::default();
    let mut newer = tls::client(
        Arc::new(rustls::crypto::ring::default_provider()),
        &identity(2),
        identity(1).public(),
        &clock,
        Resumption::disabled(),
    )
    .unwrap();
    newer.alpn_protocols = vec![b"aquila/2".to_vec()];
    client.client_config = ClientConfig::new(Arc::new(tls::quic_client(Arc::new(newer))));
    forge_greeting(&mut client, &identity(2), &identity(1));
    client.connect(now, SERVER.parse().unwrap()).unwrap();
    carry(&mut now, Duration::from_secs(1), &mut server, &mut [(CLIENT, &mut client)]);
    let there = events(&mut client);
    let said = disconnect(&there).expect("the client is told").to_string();
    assert!(said.contains("update the older of the two"), "{said}");
    let here = events(&mut server);
    let logged = here.iter().find_map(|event| match event {
        BearerEvent::Unknown(peer) => Some(peer.reason.clone()),
        _ => None,
    });
    let logged = logged.expect("the server logs it");
    assert!(logged.contains("aquila/2") && logged.contains("aquila/1"), "{logged}");
}

/// Someone who knows both public keys floods us with first packets from forged addresses while the link is up.
#[test]
fn a_flood_of_handshakes_is_bounded_and_the_link_goes_on() {
    let (mut now, mut server, mut client) = (start(), server(), client());
    client.connect(now, SERVER.parse().unwrap()).unwrap();
    carry(&mut now, Duration::from_millis(100), &mut server, &mut [(CLIENT, &mut client)]);
    events(&mut client);
    events(&mut server);
    let mut out = Vec::new();
    for n in 0..2_000u32 {
        let mut stranger = bearer(identity(3), identity(1).public(), false, 3);
        let greeting = Greeting::new(&identity(2).public(), &identity(1).public());
        let random = Mutex::new(SeededBytes::new(&[9; 32], &format!("flood {n}")));
        stranger
            .client_config
            .initial_dst_cid_provider(Arc::new(move || greeting.make(&mut random.lock().unwrap(), BearerId::FIRST)));
        stranger.connect(now, SERVER.parse().unwrap()).unwrap();
        while stranger.poll_transmit(now, &mut out).is_some() {
            let from = format!("192.0.2.{}:{}", n % 250, 1000 + n);
            server.handle_datagram(now, from.parse().unwrap(), None, None, BytesMut::from(&out[..]));
        }
        assert!(server.connections.len() <= MAX_CONNECTIONS && server.responses.len() <= MAX_CONNECTIONS);
    }
    client.send_message(b"\x03arm", &[], 100, 7).unwrap();
    carry(&mut now, Duration::from_millis(200), &mut server, &mut [(CLIENT, &mut client)]);
    assert!(events(&mut server).iter().any(|event| matches!(event, BearerEvent::Message { .. })));
    assert!(events(&mut client).iter().any(|event| matches!(event, BearerEvent::Acknowledged { token: 7 })));
    // The half-open ones time out: the server is not filled up for good.
    carry(&mut now, Duration::from_secs(60), &mut server, &mut [(CLIENT, &mut client)]);
    assert_eq!(server.connections.len(), 1);
}

/// noq-proto 1.4.0 never returns from serving a probe timer that is late by more than 65,536 times its base: 6 minutes on a
/// short path, which a laptop sleeps easily.
#[test]
fn a_machine_that_slept_goes_on() {
    for asleep in [5, 100, 500, 5_000] {
        let (mut now, mut server, mut client) = (start(), server(), client());
        client.connect(now, SERVER.parse().unwrap()).unwrap();
        carry(&mut now, Duration::from_millis(100), &mut server, &mut [(CLIENT, &mut client)]);
        client.send_message(b"\x03arm", &[], 100, 7).unwrap();
        let mut out = Vec::new();
        while client.poll_transmit(now, &mut out).is_some() {}
        events(&mut client);
        now += Duration::from_secs(asleep);
        client.handle_timeout(now);
        let ended = disconnect(&events(&mut client)).cloned();
        assert_eq!(ended.is_some(), asleep > 20, "{asleep} s: {ended:?}");
        client.connect(now, SERVER.parse().unwrap()).unwrap();
        carry(&mut now, Duration::from_millis(500), &mut server, &mut [(CLIENT, &mut client)]);
        assert!(is_connected(&events(&mut client)), "after {asleep} s");
    }
}
