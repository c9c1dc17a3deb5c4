//! Writes the hand-made seeds of the corpus; what libFuzzer found lies beside them.
//!
//!     cargo run --no-default-features --example seeds
//!
//! Those of `mavlink` come from `tools/gen_mavlink_table.py`.

use std::path::Path;

use aquila_proto::Usage;
use aquila_proto::aerotp::{Flags, Header, InnerOption, OptionsWriter, Port, Seq, TransferMode};
use aquila_proto::mavlink::{Address, Frame, MessageId, RadioStatus, Version};
use aquila_proto::signing::Place;
use aquila_proto::wire::datagram::{BulkPiece, BulkWindow, DatagramHeader, Heartbeat, RecoveryRequest};
use aquila_proto::wire::feedback::{Arrival, Feedback};
use aquila_proto::wire::flow;
use aquila_proto::wire::message::{Hello, MessageHeader, put_copy};
use aquila_proto::wire::receipt::Receipt;

fn main() {
    wire();
    video();
    router();
    texts();
    restart();
    quic();
    trace();
    score();
    fec();
    aerotp();
    passthrough();
    plan();
    transfer();
    cast();
    bundle();
    tcpcl();
    pack();
}

fn cast() {
    use aquila_proto::transfer::cast::{Block, CastKey, Piece, Sealer};
    use aquila_proto::transfer::{Hash, ObjectId, StoreId};
    let object = ObjectId(Hash::of(&[1]));
    let piece = |block, len, id| {
        let mut bytes = Vec::new();
        Piece { object, block, len, id, symbol: vec![5; 40].into() }.put(&mut bytes);
        bytes
    };
    let two = [piece(Block::Manifest(0), 80, 1), piece(Block::Chunks(2), 4_000, 99)].concat();
    seed("cast", "pieces", &[&[0], &two[..]].concat());
    let other = Sealer::new(&CastKey::new([9; 32]), StoreId([3; 8]), [4; 4], 1).seal(&two).expect("a counter");
    seed("cast", "other_key", &[&[1], &other[..]].concat());
    // A manifest is wanted; blocks of it and of chunks become whole, of chunks of 1, 101 and 201 bytes; one of them is wrong.
    let many =
        |object: u8, chunks: u8, len: [u8; 2]| [object, 4, 6, 0, chunks, len[0], len[1], 0, 7, 19, 0, 0, 0, 0, 40];
    let lens = [1, 2, 3, 0, 0];
    let steps =
        [&many(1, 0, [0, 79])[..], &many(1, 1, [1, 46]), &lens, &many(1, 1, [1, 46]), &[1, 4, 3, 255], &[1, 1, 2]];
    seed("cast", "steps", &[&[2], &steps.concat()[..]].concat());
}

fn bundle() {
    use aquila_bundle::{Draft, Part, PartOf};
    let [source, destination] = ["dtn://a/out", "ipn:5.1"].map(|name| name.parse().expect("a name"));
    // Four days from the time at which it is read: carried as it is.
    let draft = Draft::new(source, destination, 1_795_376_000_000, std::time::Duration::from_secs(345_600));
    seed("bundle", "hops", &[&[0], &draft.build(b"payload").expect("a bundle")[..]].concat());
    let no_clock = Draft { created_ms: None, hop_limit: None, ..draft.clone() };
    seed("bundle", "age", &[&[0], &no_clock.build(b"payload").expect("a bundle")[..]].concat());
    let plain = Draft { hop_limit: None, ..draft };
    seed("bundle", "plain", &[&[0], &plain.build(&[7; 300]).expect("a bundle")[..]].concat());
    // As dtn7 0.21 sent it: previous node and hop count, no checksums.
    let dtn7 = b"\x9f\x88\x07\x1a\x00\x02\x00\x04\x00\x82\x01\x68//two/in\x82\x01\x68//one/in\x82\x01\x68//one/in\
        \x82\x1b\x00\x00\x00\xc5\x99\xfd\x94\xc9\x00\x1a\x00\x36\xee\x80\x85\x06\x03\x00\x00\x49\x82\x01\x66//one/\
        \x85\x0a\x02\x00\x00\x44\x82\x18\x20\x01\x85\x01\x01\x00\x00\x45hello\xff";
    seed("bundle", "dtn7", &[&[0], &dtn7[..]].concat());
    // The same with the hop count covered by an integrity block, and by a confidentiality block (RFC 9172 §3.6).
    let (head, tail) = dtn7.split_at(dtn7.len() - 12);
    for (name, kind) in [("integrity", 11), ("confidentiality", 12)] {
        let block =
            [&[0x85, kind, 4, 1, 0, 0x50][..], b"\x81\x02\x18\x63\x00\x82\x02\x82\x01\x01\x81\x81\x82\x00\x41\x00"];
        seed("bundle", name, &[&[0], head, &block.concat(), tail].concat());
    }
    let of = PartOf { object: [1; 32], total: 900, hash: [2; 32], path: "ctd/cast.cnv".into() };
    let part = Part { of, offset: 100, data: &[3; 200] };
    seed("bundle", "part", &[&[1], &part.encode().expect("a piece")[..]].concat());
    let mut pieces = vec![2];
    for (which, from, len) in
        [(1u8, 0u16, 300u16), (2, 500, 600), (1, 200, 400), (2, 0, 550), (3, 0, 100), (2, 1100, 100)]
    {
        pieces.extend([which, 0, 0]);
        pieces.extend(from.to_be_bytes());
        pieces.extend(len.to_be_bytes());
        pieces.push(0);
    }
    seed("bundle", "pieces", &pieces);
}

fn tcpcl() {
    use aquila_bundle::tcpcl::{Extension, Message, Refusal, TermReason, TransferId};
    let node = "dtn://a/".into();
    let init = Message::SessInit { keepalive: 30, segment_mru: 500, transfer_mru: 4000, node, extensions: vec![] };
    // Each piece of what is said behind its length, as a step.
    let said = |pieces: &[&[u8]]| -> Vec<u8> {
        pieces.iter().flat_map(|piece| [&[2, piece.len() as u8], *piece].concat()).collect()
    };
    let contact: &[u8] = b"dtn!\x04\x00";
    let keepalive = Message::Keepalive.encode();
    let contacts = said(&[contact, &init.encode(), &keepalive]);
    seed("tcpcl", "passive", &[&[0], &contacts[..]].concat());
    seed("tcpcl", "active", &[&[1], &contacts[..], &[0, 0, 4, 0]].concat());
    let length = Extension { critical: true, kind: 1, value: 300u64.to_be_bytes().to_vec().into() };
    let segment = |start, end, id, len| {
        let extensions = if start { vec![length.clone()] } else { vec![] };
        Message::Segment { start, end, id: TransferId(id), extensions, len }.encode()
    };
    let (data, whole) = ([5; 200], segment(true, true, 8, 200));
    let transfer =
        said(&[&segment(true, false, 7, 200), &data, &segment(false, true, 7, 100), &data[..100], &whole, &data]);
    let accept = [0, 3];
    let term = Message::Term { reply: false, reason: TermReason::IdleTimeout }.encode();
    seed("tcpcl", "transfers", &[&[2], &transfer[..], &accept, &said(&[&term])].concat());
    // Two bundles of ours; one is acknowledged, the other refused.
    let answers = said(&[
        &Message::Ack { flags: 3, id: TransferId(0), len: 90 }.encode(),
        &Message::Refuse { reason: Refusal::NoResources, id: TransferId(1) }.encode(),
        &[99],
    ]);
    seed("tcpcl", "answers", &[&[2, 0, 0, 0, 90, 0, 0, 1, 44], &answers[..]].concat());
    // Contact, then bundles both ways, accepted and refused; time goes on; the end.
    let all = |n: u8| [n, 0xff, 0xff];
    let exchange = [all(4), all(5), all(4), all(5)].concat();
    let bundles = [0, 0, 2, 0, 0, 0, 7, 0, 1, 0, 1, 99, 1, 0, 0, 9];
    let decide = [1, 3, 1, 3, 0, 5];
    let end = [0, 7];
    let two =
        [&[3][..], &exchange, &bundles, &exchange, &decide, &exchange, &[2, 200], &decide, &exchange, &end, &exchange];
    seed("tcpcl", "two", &two.concat());
}

fn transfer() {
    use aquila_proto::identity::Identity;
    use aquila_proto::transfer::{Chunk, Confirms, Hash, Kind, Manifest, Ranges, Receipt, StoreId};
    let identity = Identity::from_seed([7; 32]);
    let manifest = Manifest {
        kind: Kind::File,
        source: StoreId([1; 8]),
        key: identity.public(),
        number: 1,
        priority: 3,
        created_s: 1_790_000_000,
        deadline_s: 0,
        expires_s: 0,
        destination: "shore".into(),
        path: "ctd/cast.cnv".into(),
        modified_ns: 1,
        hash: Hash::of(b"all"),
        chunks: (1..4).map(|n| Chunk { hash: Hash::of(&[n]), len: 70_000, compressed: 1_000 * u32::from(n) }).collect(),
    };
    let manifest = manifest.sign(&identity).expect("a manifest that can be read");
    seed("transfer", "manifest", &[&[0], &manifest[..]].concat());
    let receipt = Receipt {
        confirms: Confirms::Delivery,
        issuer: identity.public(),
        source: StoreId([1; 8]),
        numbers: Ranges::of(1, 70),
    };
    seed("transfer", "receipt", &[&[1], &receipt.sign(&identity)[..]].concat());
    // A contact, a hello, three objects on offer; the other side wants them, loses parcels, and takes them over.
    let mut give = vec![2, 0, 0, 0, 3, 9];
    (0..3).for_each(|n| give.extend([0, 2, 5 + n, n]));
    (1..4).for_each(|handle| give.extend([handle, 4, handle, 0]));
    give.extend([0, 7]);
    (1..4).for_each(|handle| give.extend([handle, 4, handle + 10, 1, handle, 5, 0, 2, 2, 2, 1, 9]));
    (0..30).for_each(|n| give.extend([0, 14, n, n & 1]));
    give.extend([1, 6, 3, 0, 4, 0, 200, 250, 9, 0, 15, 200, 0, 13, 0, 3, 8, 0, 0, 0, 15, 255]);
    (1..4).for_each(|handle| give.extend([handle, 4, handle + 20, 2]));
    seed("transfer", "giving", &give);
    // The other side has two objects: a manifest comes, then chunks; one is wrong; the contact is lost and comes again.
    let mut take = vec![2, 0, 0, 0, 3, 9];
    (1..3).for_each(|handle| take.extend([handle, 8, 0, 100, 0, 0, 0, 9, 3]));
    take.extend([1, 11, 0, 1, 9, 1, 100, 0, 0, 0, 1, 11, 1, 3, 0, 0]);
    (0..2).for_each(|part| take.extend([1, 9, 1, 1, part, 0, 0, 1, 9, 0, 2, part + 1, 0, 2]));
    take.extend([1, 12, 1, 1, 1, 12, 2, 0, 0, 1, 0, 0, 0, 15, 100, 1, 11, 2, 2, 11, 3, 0, 10, 3, 1, 2, 3]);
    seed("transfer", "taking", &take);
}

fn pack() {
    use aquila_depot::pack::{Entry, write};
    let entry = |path, content| Entry { path, modified_ns: 1_790_000_000_000_000_000, content };
    let put = |name: &str, entries: &[Entry<'_>]| {
        seed("pack", name, &write(entries).expect("a pack that can be read"));
    };
    put("one", &[entry("a", b"1")]);
    put(
        "some",
        &[entry("ctd/cast 7.cnv", b"depth 1"), entry("ctd/empty", b""), entry("log/\u{f8}.txt", b"two\nlines")],
    );
    let paths: Vec<_> = (0..80).map(|n| format!("f{n:02}")).collect();
    put("many", &paths.iter().map(|path| entry(path, path.as_bytes())).collect::<Vec<_>>());
    // What leads out, and what promises more than there is.
    let evil = |path: &[u8], len: &[u8]| [&b"aqP1\x01"[..], &[path.len() as u8], path, len, &[0; 8], b"x"].concat();
    seed("pack", "leads_out", &evil(b"../x", &[1]));
    seed("pack", "too_long", &evil(b"x", &[0xff; 8]));
}

fn seed(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join(name), bytes).expect("a file");
}

fn wire() {
    let codec = |codec: u8, name: &str, write: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = vec![codec];
        write(&mut bytes);
        seed("wire", name, &bytes);
    };
    let header = MessageHeader {
        epoch: 200_000_000,
        seq: 70_000,
        origin_us: 9,
        max_age_ms: 10_000,
        slot: None,
        telemetry: true,
        place: None,
    };
    let setpoint = MessageHeader { slot: Some(3), max_age_ms: 300, ..header };
    let placed = MessageHeader { place: Some(Place { control: 70_000, telemetry: Some(3), counted: true }), ..header };
    let arrival = |n: u32| (n % 7 != 3).then_some(Arrival { at_us: 1_000_000 + n * 2400, ecn: (n % 4) as u8 });
    let feedback = Feedback { sent_us: 1_000_000, first_seq: 65_530, arrivals: (0..40).map(arrival).collect() };
    codec(0, "varint", &|out| out.extend([0x25, 0x7b, 0xbd, 0x9d, 0x7f, 0x3e, 0x7d, 0xc2, 0x19, 0x7c, 0x5e, 0xff]));
    codec(1, "datagram", &|out| DatagramHeader { flow: flow::VIDEO + 3, seq: 65_535, sent_us: Some(7) }.put(out));
    codec(2, "heartbeat", &|out| {
        Heartbeat {
            echo: Some((5, 5_000_000_000)),
            frames_received: 70_000,
            frames_lost: 1,
            frames_stale: 1,
            picture_age_ms: Some(40),
            bulk: Some(BulkWindow { stream: 1, limit: 1 << 20 }),
        }
        .put(out);
    });
    codec(3, "recovery", &|out| RecoveryRequest { video: 1, frame: 70_000 }.put(out));
    codec(4, "feedback", &|out| {
        let mut report = Vec::new();
        feedback.put(&mut report);
        out.extend_from_slice(&report[1..]);
    });
    codec(5, "message", &|out| {
        header.put(out);
        out.extend_from_slice(b"frames");
    });
    codec(5, "setpoint", &|out| setpoint.put(out));
    codec(5, "signed", &|out| placed.put(out));
    codec(6, "copies", &|out| {
        put_copy(out, &header, b"arm");
        put_copy(out, &setpoint, b"");
    });
    codec(8, "receipt", &|out| Receipt { epoch: 1001, newest: 70, before: 0b1011 }.put(out));
    codec(9, "bulk", &|out| {
        BulkPiece { stream: 257, offset: 1 << 20 }.put(out);
        out.extend_from_slice(b"piece");
    });
    codec(7, "hello", &|out| {
        let mut hello = Vec::new();
        Hello {
            revision: 3,
            air: true,
            version: "0.1.0".into(),
            epoch: 1001,
            usage: Usage::Metered,
            bearer: "wwan0".into(),
        }
        .put_on_stream(&mut hello);
        out.extend_from_slice(&hello[1..]);
    });
}

/// An RTP packet behind its length.
fn rtp(marker: bool, sequence: u16, timestamp: u32, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![(12 + payload.len()) as u8, 0x80, 96 | u8::from(marker) << 7];
    packet.extend(sequence.to_be_bytes());
    packet.extend(timestamp.to_be_bytes());
    packet.extend([0, 0, 0, 7]);
    packet.extend(payload);
    packet
}

fn video() {
    let h264: [&[u8]; 4] = [&[0x67, 0x64, 0, 0x28, 0xac, 0xd9], &[0x68, 0xeb], &[0x7c, 0x85, 1, 2], &[0x41, 0x9a, 3]];
    let h265: [&[u8]; 4] = [
        &[0x40, 1, 0x0c, 1, 0xff, 0xff, 1, 0x60],
        &[0x42, 1, 1, 1, 0x60, 0, 0, 3],
        &[0x62, 1, 0x93, 7],
        &[0, 1, 0xd0, 7],
    ];
    let stap: [&[u8]; 2] = [&[0x78, 0, 6, 0x67, 0x42, 0xc0, 0x1e, 1, 2, 0, 1, 0x68], &[0x61, 7]];
    // A recovery point message behind another one, which has an emulation prevention byte.
    let refresh264: [&[u8]; 2] = [&[0x06, 5, 4, 0, 0, 3, 1, 9, 6, 3, 0x02, 0x7c, 0x40, 0x80], &[0x41, 0x9a, 3]];
    let refresh265: [&[u8]; 2] = [&[0x4e, 1, 5, 0xff, 1, 6, 2, 0x84, 0x80, 0x80], &[2, 1, 0xd0, 7]];
    let refreshes = [("refresh264", &refresh264[..]), ("refresh265", &refresh265)];
    for (name, units) in [("h264", &h264[..]), ("h265", &h265), ("stap", &stap)].into_iter().chain(refreshes) {
        let packets = units.iter().enumerate().map(|(n, unit)| rtp(n + 1 == units.len(), n as u16, 3000, unit));
        seed("rtp", name, &packets.collect::<Vec<_>>().concat());
        // The same through the queue: each packet pushed (step 1), then fragments taken (8) and received (6).
        let mut steps = vec![0];
        for (n, unit) in units.iter().enumerate() {
            steps.push(1);
            steps.extend(rtp(n + 1 == units.len(), n as u16, 3000, unit));
        }
        steps.extend([8, 30, 8, 30, 6, 6, 0, 200, 8, 30, 6]);
        seed("video_queue", name, &steps);
    }
    let mut steps = vec![4];
    for n in 0..12u8 {
        steps.extend([15, 2 | (n % 2) | ((n % 4) << 2), 3, n, n, n, 9, 12, 7]);
    }
    steps.extend([5, 4, 3, 0, 90, 8, 100, 6, 6, 6, 0, 255, 2, 8, 100]);
    seed("video_queue", "own", &steps);
    seed("rtp", "rtcp-and-noise", &[8, 0x80, 200, 0, 1, 0, 0, 0, 0, 3, 0x47, 1, 2, 14, 0xb0, 0xe0]);
    // Whole frames, then one of two fragments out of order, a loss, an abandoned one, a jump and a new start.
    let whole = |n: u8| [4, 0x11, n, 3, 2, 7, 7];
    let mut steps = vec![0];
    (0..3).for_each(|n| steps.extend(whole(n)));
    steps.extend([4, 0x51, 4, 3, 9, 9, 9, 4, 0x10, 4, 4, 6, 5, 5, 5, 4, 0x18, 6, 0, 0, 200]);
    steps.extend([2, 0, 0, 20, 0]);
    (0..6).for_each(|n| steps.extend(whole(n)));
    steps.extend([
        0, 250, 2, 0, 0, 0, 0, 0, 250, 4, 0x13, 0, 3, 2, 7, 7, 4, 0x13, 1, 3, 2, 7, 7, 4, 0x13, 2, 3, 2, 7, 7,
    ]);
    seed("reassembly", "own", &steps);
    steps[0] = 1;
    seed("reassembly", "small", &steps);
}

fn router() {
    // Two local endpoints, a group of two, the link; then frames of every kind from each.
    let mut steps = vec![0, 0, 0, 1, 1, 1, 0x4d, 2, 2, 0x4d, 0, 3, 0, 1, 4, 0x35, 2, 3];
    for from in 0..5u8 {
        for kind in 0..10u8 {
            steps.extend([5, from, kind, from << 1, 12, 1, 2, 3, 4, 2 - from % 3, 3, 7, 8, 9, 10, 11, 1]);
        }
        steps.extend([4, 200, 3, from]);
    }
    seed("router", "own", &steps);
    steps[0] = 3;
    seed("router", "all-allowed", &steps);
    let heartbeat = Frame::build(Version::V1, 1, Address::new(1, 1), MessageId(0), &[1; 9]).expect("a known message");
    let mut steps = vec![0, 0, 0, 1, 0, 1, 1, 5, 0, 10, heartbeat.bytes().len() as u8];
    steps.extend_from_slice(heartbeat.bytes());
    seed("router", "parsed", &steps);
}

fn texts() {
    for (name, text) in [
        ("key", "aq1:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"),
        ("serial", "serial:/dev/serial/by-path/platform-fd500000.pcie-pci-0000:01:00.0-usb-0:1.3:1.0:921600"),
        ("udpin", "udpin:[fe80::1%eth0]:14550"),
        ("tcpout", "tcpout:autopilot.local:5760"),
        ("video", "rtp://239.1.2.3:5600?codec=h265&flow=15"),
        ("video-here", ":5600?flow=0"),
        ("remote", "[2001:db8::7]:9400"),
        ("mtu", "1392"),
        ("message", "MANUAL_CONTROL"),
    ] {
        seed("texts", name, text.as_bytes());
    }
    // The sample with its defaults taken as written, less what excludes each other.
    let sample = include_str!("../../packaging/aquila.toml");
    let uncommented = sample.lines().map(|line| match line.strip_prefix('#') {
        Some(key) if !key.starts_with(' ') => key,
        _ => line,
    });
    let mut seen = std::collections::BTreeSet::new();
    let keys = uncommented.filter(|line| {
        let key = line.split('=').next().unwrap_or_default();
        !line.is_empty()
            && !line.starts_with('#')
            && !line.starts_with("connect")
            && (seen.insert(key) || key.starts_with('['))
    });
    seed("config", "every-key", keys.collect::<Vec<_>>().join("\n").as_bytes());
    seed("config", "overrides", b"[identity]\npeer='aq1:00'\n[mavlink.overrides]\nATTITUDE = 'command'\n42000='state'");
    seed("config", "mistake", b"[link]\nmtuu = 1200\n\xc3\xa9 = [");
}

fn restart() {
    let (replay, tickets) = aquila_fuzz::seeds::stored_by_a_real_client();
    // Without the digest at their end, which the targets add.
    let body = |stored: &[u8]| stored[..stored.len() - 32].to_vec();
    seed("replay_window", "real", &body(&replay));
    seed("resumption", "real", &body(&tickets));
    let mut used = body(&tickets);
    let last = used.len() - 1;
    used[last] = 1;
    used.push(0);
    seed("resumption", "used", &used);
    let mut record = vec![0, 0, 0, 0, 0, 0, 0, 5];
    record.extend((replay.len() as u16).to_be_bytes());
    record.extend_from_slice(&replay);
    record.resize(8192, 0);
    let mut files = vec![0, 3];
    files.extend(b"123");
    files.extend((record.len() as u16).to_be_bytes());
    files.extend(record);
    seed("store", "real", &files);
    seed("store", "torn", &[0, 2, b'-', b'1', 0, 12, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 1, 2]);
}

fn quic() {
    // A handshake packet by packet, undamaged, then with damage; noise; forged first packets.
    let exchange = [2, 0, 4, 0, 2, 0, 4, 0, 0, 40, 2, 0, 4, 0];
    seed("bearer", "handshake", &[&[1][..], &exchange, &exchange, &[8, 3, 1, 2, 3], &exchange].concat());
    seed("bearer", "damaged", &[&[1][..], &[2, 1, 0, 30, 255, 2, 0, 4, 2, 0, 9, 1, 2, 200, 7], &exchange].concat());
    seed(
        "bearer",
        "noise",
        &[6, 1, 0, 9, 0xc0, 0, 0, 0, 1, 20, 1, 2, 3, 6, 2, 0, 12, 0x40, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9],
    );
    seed(
        "bearer",
        "forged",
        &[7, 1, 0, 0, 7, 2, 0x20, 0, 9, 1, 0, 7, 3, 1, 0, 6, 6, 0, 0x40, 2, 3, 3, 1, 7, 4, 2, 9, 1, 0],
    );
    // One step of each kind on a connection, for both roles.
    let steps: &[&[u8]] = &[
        &[0, 100],
        &[8, 1, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 3],
        &[3, 0, 1, 39, 16, 0],
        &[3, 0, 1, 39, 16, 0],
        &[3, 0x10, 2, 1, 44, 0],
        &[4, 2, 0, 3, 39, 16, 0x20, 4, 39, 16, 2, 1, 2],
        &[5, 3, 3, 1, 2],
        &[6, 200, 7, 0],
        &[15, 128, 1, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 0],
        &[7, 0, 0, 1, 0, 0, 0, 6, 4, 8, 12, 3, 9, 13],
        &[8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4],
        &[9, 0, 0, 0, 0, 5],
        &[10, 16, 10, 0x11, 0, 0, 0, 1, 0, 2, 7, 7, 9],
        &[10, 2, 12, 0xfe, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0],
        &[11, 3, b'0', b'.', b'1', 1, 1],
        &[12, 5, 1, 2, 3, 4, 5, 1],
        &[13, 9, 3],
        &[14, 3, 3, 1, 2, 3, 255],
        &[14, 1, 2, 1, 2, 255],
        &[14, 4, 2, 1, 2, 1],
        &[0, 200, 0, 20, 16, 5, 1, 0, 17, 1, 14, 3, 3, 1, 2, 3, 255, 0, 240, 17, 0, 0, 30],
        &[18, 1, 18, 2, 9, 0, 60, 18, 3, 0, 60, 18, 0, 0, 200, 19, 0, 100],
    ];
    for (name, listens) in [("listens", 1), ("connects", 0)] {
        seed("session", name, &[&[listens][..], &steps.concat()].concat());
        for (n, step) in steps.iter().enumerate() {
            seed("session", &format!("{name}-{n:02}"), &[&[listens][..], step, &[0, 100]].concat());
        }
    }
}

fn trace() {
    let lines = |lines: &[&str]| lines.join("\n");
    let mahimahi = ["# source: by hand", "# kind: capacity", "0", "1", "1", "7", "1500", "2004"];
    seed("trace", "mahimahi", lines(&mahimahi).as_bytes());
    let paper = ["time_s,rate_mbps,delay_ms,ccq_percent,note", "0,26,3,91.5,a", "1,19.5,3.25,74,b", "2,0,4,0,c"];
    seed("trace", "ccq", lines(&paper).as_bytes());
    let uneven = ["TIME_MS , rate_kbps,loss\r", "1000,800, 0.25\r", "1000.5,0,1\r", "1750,2500,0\r"];
    seed("trace", "uneven", lines(&uneven).as_bytes());
    seed("trace", "delay", b"\xef\xbb\xbftime_s,delay_us\n1763740800,20000\n1763740801.000001,35000.5");
}

/// Of each kind of recording a small one; iperf 2's are what the lab's tests have of it.
fn score() {
    seed("score", "iperf2-csv", include_bytes!("../../lab/src/score/fixtures/two.csv"));
    seed("score", "iperf2-csv-parallel", include_bytes!("../../lab/src/score/fixtures/parallel.csv"));
    seed("score", "iperf2-csv-tcp", include_bytes!("../../lab/src/score/fixtures/tcp.csv"));
    seed("score", "iperf2-text", include_bytes!("../../lab/src/score/fixtures/two.txt"));
    seed("score", "iperf2-text-dates", include_bytes!("../../lab/src/score/fixtures/two-e.txt"));
    seed("score", "iperf2-text-outage", include_bytes!("../../lab/src/score/fixtures/outage.txt"));
    let test = |at: u64| {
        let interval = |n: u32| format!(r#"{{"sum":{{"start":{n},"end":{},"bits_per_second":9.5e6}}}}"#, n + 1);
        let intervals = [interval(0), interval(1)].join(",");
        format!(r#"{{"start":{{"timestamp":{{"timesecs":{at}}}}},"intervals":[{intervals}]}}"#)
    };
    seed("score", "iperf3", format!("{}\n{}\n", test(1_000), test(1_004)).as_bytes());
    seed("score", "iperf3-list", format!("[{}]", test(1_000)).as_bytes());
    let links = "variant,contender,seed,link,direction,time_s,capacity_bps,offered_bytes,delivered_bytes,lost_bytes,\
                 dropped_bytes,outage_bytes,queue_ms,is_out\n1,udp,1,lte,up,0.5,,0,7000,0,0,0,0,0\n1,udp,1,lte,up,1.0,,0,9000,0,0,0,0,0\n";
    seed("score", "links", links.as_bytes());
    seed("score", "radio-log", b"time_s,rate_mbps,ccq_percent\n0,20,50\n1,20,50\n2,10,100\n");
}

fn fec() {
    let packet: Vec<u8> = (0..200).collect();
    let long = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
    // A packet of 200 bytes with 4 words, coded; two symbols wrong, one erased.
    let errors = [1, 0, 7, 9, 0, 99, 255, 0, 3, 0];
    seed("correct", "within-reach", &[&[0, 200, 0, 4][..], &long(&packet), &errors].concat());
    seed("correct", "no-codeword", &[&[0, 200, 0, 4][..], &long(&packet), &[0]].concat());
    seed("correct", "many-codewords", &[&[7, 255, 1, 255][..], &long(&packet), &[1, 3, 3, 3]].concat());
    // Two and three copies of it, wrong in different bits.
    seed("copies", "two", &[&[2, 2][..], &long(&packet), &[0, 0, 7, 1, 1, 0, 0, 2, 2]].concat());
    seed("copies", "three", &[&[0, 3][..], &long(&packet), &[0, 0, 7, 1, 1, 0, 2, 2, 2, 0, 3, 3]].concat());
    seed("copies", "cut", &[&[0, 2][..], &long(&packet), &[5, 0, 0]].concat());
    // Eight packets, four repairs; some of both arrive, and something made up.
    let mut steps = vec![31, 255, 255, 255, 255, 255, 252, 16];
    (0..8).for_each(|n| steps.extend([0, 3, n, n, n]));
    (0..4).for_each(|_| steps.extend([1, 16]));
    steps.extend([2, 0, 2, 3, 2, 4, 2, 5, 2, 6, 3, 0, 3, 1, 3, 2, 3, 3]);
    seed("window", "honest", &steps);
    steps.extend([4, 255, 255, 255, 255, 0, 9, 0, 1, 4, 1, 2, 3, 4, 5, 0, 0, 0, 9, 1, 1, 3, 0]);
    seed("window", "made-up", &steps);
}

fn aerotp() {
    let payload: Vec<u8> = (0..120).collect();
    let long = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
    // A segment of 120 bytes with a CRC and some parity, in two or three copies with wrong bits.
    let recipe = |crc: u8, words: u8, flips: &[u8]| {
        let head = [0, 0, 1, 0, 5, 0, 6, 0, 0, 0, 7, crc, 0, words, 0xaa, 3];
        [&head[..], &long(&payload), flips].concat()
    };
    seed("segment", "plain", &recipe(1, 0, &[0]));
    seed("segment", "two-copies", &recipe(1, 0, &[0, 0, 0, 60, 1, 1, 0, 90, 2]));
    seed("segment", "parity", &recipe(1, 8, &[0, 0, 0, 4, 1, 0, 0, 90, 2, 1, 0, 99, 3]));
    seed("segment", "parity-without-crc", &recipe(0, 8, &[1, 2, 0, 4, 1]));
    // The header of a segment of 16 bytes of payload, and those bytes.
    let header =
        Header { payload_len: 16, ..Header::new(Port(5), Port(6), TransferMode::Reliable, Seq(7), Flags::SYN) };
    seed("segment", "raw", &[&[1, 0, 8, 1][..], &header.encode(), &[7; 16]].concat());

    let mut options = Vec::new();
    let mut writer = OptionsWriter::new(&mut options);
    writer.push(&InnerOption::Echo { timestamp: 1, held_us: 2 });
    writer.push(&InnerOption::Window(Seq(9)));
    writer.push_snack([(Seq(3), 4), (Seq(9), 1)]);
    writer.push_eln([Seq(7)]);
    writer.push(&InnerOption::Block { first: 1, count: 8, key: 3 });
    writer.push(&InnerOption::Custody(77));
    options.extend_from_slice(b"data");
    seed("inner_options", "several", &options);
    seed("inner_options", "unknown", &[9, 77, 1, 5, 9, 4, 0, 0, 1, 0, 42]);

    // Frames, cut ones and false sync words, a radio's report in the middle, pauses.
    let report = RadioStatus { rssi: 200, remrssi: 190, txbuf: 77, noise: 40, remnoise: 0, rxerrors: 3, fixed: 9 };
    let report = report.frame(Version::V1, 5);
    let short = |bytes: &[u8]| [&[bytes.len() as u8], bytes].concat();
    let frame = |cut: u8| [&[2][..], &short(b"payload of a segment"), &[cut]].concat();
    seed("deframer", "frames", &[frame(0), frame(1), frame(0), vec![0, 200], frame(2), frame(0)].concat());
    seed("deframer", "false-sync", &[vec![1, 4, 3, 0xff, 0x01, 0x02, 1], frame(0), vec![1, 1, 0, 90]].concat());
    let radio = [&[4][..], &short(report.bytes())].concat();
    seed("deframer", "radio", &[radio, frame(0), vec![4, 6, 0xfe, 9, 0, 0x33, 0x44, 0x6d], frame(0)].concat());

    // The initiator begins and seals; it is heard, answered and heard again.
    let text = |from: u8| [&[6, from][..], &short(b"text")].concat();
    let shake = [vec![1], text(0), vec![12, 1, 0], text(1), vec![12, 0, 0], text(0), vec![12, 1, 0]].concat();
    seed("association", "handshake", &shake);
    seed("association", "rekey", &[&shake[..], &[2], &shake[1..]].concat());
    seed("association", "restarts", &[&shake[..], &[3], &shake, &[4, 0, 255], &shake, &[12, 1, 9, 12, 0, 8]].concat());
    seed("association", "stranger", &[&shake[..], &[5], &text(2), &[12, 1, 0, 12, 0, 0, 12, 2, 1]].concat());
    seed("association", "tampered", &[&shake[..], &[10, 1, 0, 0, 3, 0, 10, 0, 1, 0, 9, 1, 11, 1, 0, 2]].concat());
}

/// The steps of a connection from the TUN device: SYN, the other side's word, data both ways, and an end. The bytes are those
/// that the target reads off.
fn passthrough() {
    let syn = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    let wait = [9, 40];
    let connected = [6, 0, 0, 5, 0, 0x10, 0, 0, 0];
    let data = [1, 0, 0, 200, 3, 0, 0, 0, 1, 0, 3, 0xff, 0xff];
    let taken = [6, 0, 0, 5, 3, 1, 0, 0x10, 0, 0, 0];
    let answer = [6, 0, 20, 5, 0, 0x10, 0, 0, 0];
    let ack = [1, 0, 0, 200, 1, 0, 0, 0, 3, 0xff, 0xff];
    let fin = [1, 0, 0, 200, 5, 0, 0, 0, 3, 0xff, 0xff];
    let reset = [1, 0, 0, 200, 6, 0, 0, 0, 3, 0, 0];
    let open = [&wait[..], &syn, &wait, &connected, &wait, &ack].concat();
    seed("passthrough", "talk", &[&open[..], &data, &wait, &taken, &answer, &wait, &ack, &fin, &wait].concat());
    seed("passthrough", "reset", &[&open[..], &data, &wait, &reset, &wait].concat());
    let called = [&wait[..], &[5, 0, 1, 0, 0, 7, 0, 1, 0, 0], &wait].concat();
    seed("passthrough", "called", &[&called[..], &[1, 0, 0, 200, 8, 0, 0, 0, 0, 0xff, 0xff], &data, &wait].concat());
}

/// What a flight is planned from.
fn plan() {
    let home = "QGC WPL 110\n0\t1\t0\t16\t0\t0\t0\t0\t63.62\t9.72\t0\t1\n";
    let circle = "1\t0\t3\t22\t15\t0\t0\t0\t0\t0\t100\t1\n2\t0\t3\t18\t3\t0\t-400\t1\t63.62\t9.72\t300\t1\n3\t0\t3\t20\t0\t0\t0\t0\t0\t0\t0\t1\n";
    let legs = "1 0 3 16 0 0 0 0 63.625 9.72 100 1\n2 0 0 178 0 25 0 0 0 0 0 1\n3 0 3 16 0 0 0 0 63.625 9.73 120 1\n\
                4 0 3 19 60 0 80 0 63.63 9.73 120 1\n5 0 0 177 1 2 0 0 0 0 0 1\n6 0 3 31 0 70 0 0 63.62 9.72 40 1\n7 0 3 21 0 0 0 0 63.62 9.72 0 1\n";
    seed("mission", "circle", format!("{home}{circle}").as_bytes());
    seed("mission", "legs", format!("{home}{legs}").as_bytes());
    let item = |command: u16, id: u32, rest: &str| {
        format!(
            r#"{{"type":"SimpleItem","command":{command},"frame":3,"autoContinue":true,"doJumpId":{id},"params":[{rest}]}}"#
        )
    };
    let items = [
        item(22, 1, "15,0,0,null,63.62,9.72,50"),
        item(17, 4, "0,0,200,null,63.63,9.72,150"),
        format!(
            r#"{{"type":"ComplexItem","complexItemType":"survey","TransectStyleComplexItem":{{"Items":[{}]}}}}"#,
            item(16, 7, "0,0,0,null,63.64,9.7,90")
        ),
        item(177, 9, "4,2,0,0,0,0,0"),
    ];
    let plan = format!(
        r#"{{"fileType":"Plan","version":1,"mission":{{"plannedHomePosition":[63.62,9.72,2],"items":[{}]}}}}"#,
        items.join(",")
    );
    seed("mission", "plan", plan.as_bytes());
    let mut tlog = Vec::new();
    for n in 0..4u8 {
        let stamp = (1_700_000_000_000_000 + u64::from(n) * 1_000_000).to_be_bytes();
        let mut position = vec![0u8; 28];
        position[4..8].copy_from_slice(&(636_200_000 + i32::from(n) * 1_500).to_le_bytes());
        position[8..12].copy_from_slice(&97_200_000i32.to_le_bytes());
        position[12..16].copy_from_slice(&250_000i32.to_le_bytes());
        let mut attitude = vec![0u8; 28];
        attitude[4..8].copy_from_slice(&0.1f32.to_le_bytes());
        for (message, extra, payload) in [(33u8, 104u8, &position), (30, 39, &attitude)] {
            let one = [&[0xfe, 28, n, 1, 1, message], payload.as_slice()].concat();
            let two = [&[0xfd, 28, 0, 0, n, 1, 1, message, 0, 0], payload.as_slice()].concat();
            let frame = if n % 2 == 0 { one } else { two };
            tlog.extend(stamp);
            let sum = x25(frame[1..].iter().copied().chain([extra]));
            tlog.extend(frame);
            tlog.extend(sum.to_le_bytes());
        }
    }
    seed("flight_log", "tlog", &tlog);
    let mut bin = Vec::new();
    let formats = [
        (128u8, 89u8, "FMT", "BBnNZ", "Type,Length,Name,Format,Columns"),
        (1, 23, "POS", "QLLf", "TimeUS,Lat,Lng,Alt"),
        (2, 17, "ATT", "QccC", "TimeUS,Roll,Pitch,Yaw"),
    ];
    for (number, length, name, kinds, labels) in formats {
        bin.extend([0xa3, 0x95, 128, number, length]);
        for (text, size) in [(name, 4), (kinds, 16), (labels, 64)] {
            let mut field = text.as_bytes().to_vec();
            field.resize(size, 0);
            bin.extend(field);
        }
    }
    for n in 0..3u64 {
        let at = (n * 1_000_000).to_le_bytes();
        let place = [636_200_000i32, 97_200_000].map(i32::to_le_bytes).concat();
        bin.extend([&[0xa3, 0x95, 1][..], &at, &place, &200f32.to_le_bytes()].concat());
        bin.extend([&[0xa3, 0x95, 2][..], &at, &[0x10, 0x02, 0, 0, 0x28, 0x23]].concat());
    }
    seed("flight_log", "dataflash", &bin);
    seed(
        "tables",
        "radio",
        b"# airOS\ntime_s,signal_dbm,noise_dbm,rate_mbps,ccq_percent\n0,-70,-95,65,91\n1,-72.5,-95,,\n",
    );
    seed("tables", "pattern", b"elevation_deg,gain_dbi\n-90,-20\n0,6\n45,-3\n90,-20\n");
    seed(
        "tables",
        "terrain",
        b"ncols 3\nnrows 2\nxllcorner 10\nyllcorner 63\ncellsize 0.5\nNODATA_value -9999\n0 200 -9999\n1 2 350.5\n",
    );
    let scenario = "title = \"ship\"\nterrain = \"x\"\n[node]\nlatitude_deg = 63.62\nlongitude_deg = 9.72\nheading_deg = 40\n\
        [[node.obstacle]]\nfrom_deg = 290\nto_deg = 70\ntop_deg = 32\ndistance_m = 6\n[aircraft]\nairspeed_mps = 18\n\
        [aircraft.antenna]\nkind = \"patch\"\ngain_dbi = 6\nbeamwidth_deg = 90\nbearing_deg = 90\nelevation_deg = -20\n\
        [wind]\nspeed_mps = 5\nfrom_deg = 200\n[radio]\nbandwidth_mhz = 10\nloss = \"1-ccq\"\nccq = \"airtime\"\n\
        [model]\nseed = 3\nseeds = 5\n[model.path_loss]\nexponent = 2.2\n[model.sea]\npolarisation = \"horizontal\"\n\
        [model.shadowing]\ndeviation_db = 4\n[[flight]]\nname = \"a\"\nloiter = { altitude_m = 200, radius_m = 300, clockwise = false }\n\
        [[flight]]\nmission = \"m\"\nhorizon_s = 60\n[[file]]\nname = \"f\"\nsize_mb = 40\ncount = 3\n\
        [sweep]\naltitude_m = [100, 200]\n";
    seed("scenario", "ship", scenario.replace("terrain = \"x\"\n", "").as_bytes());
    seed("scenario", "names", scenario.as_bytes());
}

/// CRC-16/MCRF4XX, bit by bit.
fn x25(bytes: impl Iterator<Item = u8>) -> u16 {
    bytes.fold(0xffff, |crc, byte| {
        (0..8).fold(crc ^ u16::from(byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x8408 } else { crc >> 1 })
    })
}
