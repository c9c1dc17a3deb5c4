use super::*;
use crate::aerotp::header::{Flags, Port, Seq, TransferMode};

/// What one end has sealed.
#[derive(Clone)]
struct Segment {
    header: Header,
    extension: Vec<u8>,
    sealed: Vec<u8>,
    association: u64,
    number: u64,
}

fn identity(seed: u8) -> Arc<Identity> {
    Arc::new(Identity::from_seed([seed; 32]))
}

/// One end of life `life`. Randomness differs from life to life.
fn end(initiates: bool, life: u64, accepted: Option<u64>) -> Security {
    let (us, peer) = if initiates { (1, 2) } else { (2, 1) };
    let config = SecurityConfig { identity: identity(us), peer: identity(peer).public(), initiates, life, accepted };
    Security::new(config, SeededBytes::new(&[life as u8; 32], if initiates { "a" } else { "b" })).unwrap()
}

fn seal(end: &mut Security, now: Instant, text: &[u8]) -> Segment {
    let mut header = Header::new(Port(5), Port(6), TransferMode::Reliable, Seq(7), Flags::PUSH);
    let mut sealed = text.to_vec();
    let (extension, association, number) = {
        let done = end.seal(now, &mut header, &mut sealed).unwrap();
        (done.extension.to_vec(), done.association, done.number)
    };
    Segment { header, extension, sealed, association, number }
}

/// The plaintext, and what else is told, as text to compare.
fn open(end: &mut Security, now: Instant, segment: &Segment) -> Result<Told, OpenError> {
    let mut sealed = segment.sealed.clone();
    let opened = end.open(now, &segment.header, &segment.extension, &mut sealed)?;
    assert_eq!((opened.number, opened.association), (segment.number, segment.association));
    Ok(Told { text: opened.plaintext.to_vec(), early: opened.early, repeated: opened.repeated, news: opened.news })
}

#[derive(Debug, PartialEq)]
struct Told {
    text: Vec<u8>,
    early: bool,
    repeated: bool,
    news: Option<News>,
}

#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
fn start() -> Instant {
    Instant::now()
}

#[test]
fn first_flight_reply_and_confirmation() {
    let now = start();
    let (mut a, mut b) = (end(true, 3, None), end(false, 9, None));
    assert!(!a.can_seal() && !b.can_seal());
    a.begin(now);
    assert!(a.wants_to_send());
    assert_eq!(a.overhead(), 76);

    let first = seal(&mut a, now, b"hello");
    assert_eq!((first.header.phase, first.extension.len(), first.sealed.len()), (0, 60, 5 + 16));
    let told = open(&mut b, now, &first).unwrap();
    let counter = 3 << 20;
    let news = News::Associated { counter, peer_life: 3, restarted: false };
    assert_eq!(told, Told { text: b"hello".into(), early: true, repeated: false, news: Some(news) });
    assert_eq!(b.snapshot(), Some(counter));
    assert_eq!(b.snapshot(), None);
    assert!(b.wants_to_send() && b.can_seal() && !b.is_established());

    let reply = seal(&mut b, now, b"hi");
    assert_eq!((reply.header.phase, reply.extension.len()), (phase(counter), 60));
    let told = open(&mut a, now, &reply).unwrap();
    let news = News::Associated { counter, peer_life: 9, restarted: false };
    assert_eq!(told, Told { text: b"hi".into(), early: false, repeated: false, news: Some(news) });
    assert!(a.is_established() && a.wants_to_send());
    assert_eq!(a.overhead(), 16);

    let second = seal(&mut a, now, b"well");
    assert!(open(&mut b, now, &second).is_ok_and(|told| !told.early && told.news.is_none()));
    assert!(b.is_established());
    assert_eq!((b.overhead(), a.overhead()), (16, 16));
    assert!(open(&mut b, now, &second).unwrap().repeated);
}
