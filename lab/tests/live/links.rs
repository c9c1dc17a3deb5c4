//! What a link does to packets.

use std::net::UdpSocket;
use std::thread::sleep;
use std::time::{Duration, Instant};

use aquila_emu::{
    BitErrors, Change, Direction, DropReason, Ecn, HalfDuplex, Loss, MarkAt, Marking, Outage, Path, PathConfig,
    Profile, Queue, Step,
};
use aquila_lab::live::{Addresses, Cells, End, Event, Fate, HealthBounds, LinkSpec, Record, Sandbox, World};

use super::harness::{expect_no_stall, expect_punctual, ms};
use super::traffic::{HEADERS, Receiver, Span, echo, link, median, ping, send, socket, two_nodes};

/// What a wake-up of a thread may take besides the emulator's own lateness.
const WAKE: Duration = ms(2);
/// Of a thousand packets may be late what the bound on lateness allows.
const PER_CENT: usize = 10;
const SECOND: Duration = Duration::from_secs(1);

fn delay(ms: u64) -> PathConfig {
    PathConfig { delay: Duration::from_millis(ms), ..PathConfig::default() }
}

pub fn an_empty_world(sandbox: &Sandbox) {
    let world = sandbox.world().build().unwrap();
    assert!(world.health().unwrap().verdict.is_valid());
}

pub fn echo_takes_two_delays(sandbox: &Sandbox) {
    let mut builder = sandbox.world();
    let (a, b, link) = two_nodes(&mut builder, delay(30));
    let world = builder.build().unwrap();
    let (here, there) = (world.addresses(link, End::A), world.addresses(link, End::B));
    for (from, to) in [
        (socket(&world, a, here.v4, 0), echo(&world, b, there.v4)),
        (socket(&world, a, here.v6, 0), echo(&world, b, there.v6)),
    ] {
        let times = ping(&from, to, 25, SECOND);
        println!("  {to}: median {:?}", median(&times));
        assert!(times.iter().all(|time| time.is_some_and(|time| time >= ms(60))), "early or lost: {times:?}");
        expect_punctual(&world);
        assert!(median(&times) <= ms(60) + 2 * WAKE, "{times:?}");
    }
}

pub fn four_links_at_once(sandbox: &Sandbox) {
    let mut builder = sandbox.world();
    let (a, b) = (builder.node("air"), builder.node("ground"));
    let links: Vec<_> = (0..4_u8)
        .map(|number| {
            let path = || Path::new(delay(10 + 10 * u64::from(number)), u64::from(number));
            link(&mut builder, &format!("bearer{number}"), (a, b), number, Cells::duplex(path(), path()))
        })
        .collect();
    let world = builder.build().unwrap();
    std::thread::scope(|scope| {
        let world = &world;
        let threads: Vec<_> = links
            .iter()
            .map(|link| {
                let to = echo(world, b, world.addresses(*link, End::B).v4);
                let from = socket(world, a, world.addresses(*link, End::A).v4, 0);
                scope.spawn(move || ping(&from, to, 30, SECOND))
            })
            .collect();
        let medians: Vec<Duration> = threads.into_iter().map(|thread| median(&thread.join().unwrap())).collect();
        println!("  {medians:?}");
        expect_punctual(world);
        for (number, median) in medians.iter().enumerate() {
            let least = ms(20 + 20 * number as u64);
            assert!((least..=least + 2 * WAKE).contains(median), "{medians:?}");
        }
    });
}

pub fn a_saturated_link_follows_its_trace(sandbox: &Sandbox) {
    const MBIT: [u64; 12] = [10, 30, 5, 20, 2, 15, 40, 8, 25, 12, 3, 35];
    let mut builder = sandbox.world();
    // The queue outlasts what a busy machine keeps the sender from its work.
    let queue = Queue::bytes(1_000_000);
    let first = PathConfig { rate_bps: Some(MBIT[0] * 1_000_000), queue, ..delay(3) };
    let (a, b, link) = two_nodes(&mut builder, first);
    let world = builder.build().unwrap();
    let receiver = Receiver::new(&world, b, world.addresses(link, End::B).v4);
    let from = socket(&world, a, world.addresses(link, End::A).v4, 0);
    // The queue fills before the first second begins.
    let start = Instant::now() + ms(300);
    for (second, mbit) in MBIT.into_iter().enumerate() {
        let at = start + SECOND * second as u32;
        world.change(link, at, move |now, up, _| up.set_rate(now, Some(mbit * 1_000_000))).unwrap();
    }
    world.reset_health().unwrap();
    let to = receiver.address;
    let sender = world.thread_in(a, "send", move || send(&from, to, 1500, 60_000_000, start + SECOND * 12 + ms(50)));
    sender.unwrap().join().unwrap();
    let received = receiver.finish(ms(100));
    let carried = MBIT.iter().enumerate().map(|(second, mbit)| {
        let begin = start + ms(3) + SECOND * second as u32;
        let packets = received.iter().filter(|(at, _)| (begin..begin + SECOND).contains(at)).count();
        (*mbit as f64, packets as f64 * 1500.0 * 8.0 / 1e6)
    });
    let rows: Vec<(f64, f64)> = carried.collect();
    let error = rows.iter().map(|(want, got)| (want - got).abs()).sum::<f64>();
    let share = error / rows.iter().map(|(want, _)| want).sum::<f64>();
    println!("  per second: MAE {:.2} % of the mean", share * 100.0);
    expect_no_stall(&world);
    assert!(share <= 0.01, "{rows:?}");
}

pub fn what_the_path_lost_is_missing(sandbox: &Sandbox) {
    let lossy = PathConfig { loss: Loss::Independent(0.1), ..delay(5) };
    let mut builder = sandbox.world();
    let (a, b, link) = two_nodes(&mut builder, lossy);
    let world = builder.build().unwrap();
    let receiver = Receiver::new(&world, b, world.addresses(link, End::B).v4);
    let from = socket(&world, a, world.addresses(link, End::A).v4, 0);
    let before = world.stats().unwrap()[0][0];
    let sent = send(&from, receiver.address, 200, 3_200_000, Instant::now() + ms(1500)).len() as u64;
    let received = receiver.finish(ms(200)).len() as u64;
    let after = world.stats().unwrap()[0][0];
    let offered = after.input.packets - before.input.packets;
    let lost = after.dropped.loss.packets - before.dropped.loss.packets;
    println!("  sent {sent}, lost {lost}, received {received}");
    assert_eq!((offered, received), (sent, sent - lost));
    assert!((0.08..0.12).contains(&(lost as f64 / sent as f64)), "{lost} of {sent}");
}

pub fn two_runs_meet_the_same_luck(sandbox: &Sandbox) {
    let lossy = PathConfig { loss: Loss::Independent(0.2), ..delay(5) };
    let mut builder = sandbox.world();
    // Room for less than what the runs leave inside all together.
    builder.buffer_budget(400 * 1504);
    let (a, b, link) = two_nodes(&mut builder, lossy);
    let world = builder.build().unwrap();
    let from = socket(&world, a, world.addresses(link, End::A).v4, 0);
    let receiver = Receiver::new(&world, b, world.addresses(link, End::B).v4);
    let mut runs: Vec<Vec<u64>> = Vec::new();
    let mut begins = Vec::new();
    // It is done after what was told before.
    let settle = || world.inspect(link, |_, _, _| ()).unwrap();
    for _ in 0..4 {
        let slow = Path::new(PathConfig { rate_bps: Some(0), ..lossy }, 5);
        world.replace(link, Instant::now(), Cells::duplex(slow, Path::new(lossy, 6))).unwrap();
        settle();
        let inside = send(&from, receiver.address, 200, 8_000_000, Instant::now() + ms(40));
        assert!(inside.len() > 100, "{}", inside.len());
        world.replace(link, Instant::now(), Cells::duplex(Path::new(lossy, 5), Path::new(lossy, 6))).unwrap();
        settle();
        begins.push(Instant::now());
        let sent = send(&from, receiver.address, 200, 1_600_000, Instant::now() + ms(300));
        assert!(sent.len() > 250);
        sleep(ms(50));
    }
    let received = receiver.finish(ms(50));
    for (run, begin) in begins.iter().enumerate() {
        let end = begins.get(run + 1).copied().unwrap_or(Instant::now());
        let numbers = received.iter().filter(|(at, _)| (*begin..end).contains(at)).map(|(_, number)| *number);
        runs.push(numbers.filter(|number| *number < 250).collect());
    }
    assert!(runs[0].len() > 150 && runs[0].len() < 240, "{}", runs[0].len());
    assert!(runs.iter().all(|run| *run == runs[0]), "{runs:?}");
    assert_eq!(world.health().unwrap().overruns, 0, "buffers came back");
}

/// Between which times a packet was sent, and when it arrived.
type Trip = (Span, Option<Instant>);

/// Sends 1 packet a millisecond for 1 s, with an outage from 300 to 600 ms. Gives when each was sent and got, and the
/// outage.
fn through_an_outage(sandbox: &Sandbox, outage: Outage) -> (Vec<Trip>, [Instant; 2], World) {
    // 10 Mbit/s, so that what is held comes out in 24 ms.
    let mut builder = sandbox.world();
    let path = PathConfig { rate_bps: Some(10_000_000), queue: Queue::bytes(1_000_000), ..delay(10) };
    let (a, b, link) = two_nodes(&mut builder, path);
    let world = builder.build().unwrap();
    let receiver = Receiver::new(&world, b, world.addresses(link, End::B).v4);
    let from = socket(&world, a, world.addresses(link, End::A).v4, 0);
    let (begin, end) = (Instant::now() + ms(300), Instant::now() + ms(600));
    world.change(link, begin, move |now, up, _| up.begin_outage(now, outage)).unwrap();
    world.change(link, end, |now, up, _| up.end_outage(now)).unwrap();
    let sent = send(&from, receiver.address, 100, 800_000, Instant::now() + SECOND);
    let received = receiver.finish(ms(200));
    let fates = sent.iter().enumerate().map(|(number, sent)| {
        let got = received.iter().find(|(_, other)| *other == number as u64);
        (*sent, got.map(|(at, _)| *at))
    });
    (fates.collect(), [begin, end], world)
}

pub fn an_outage_loses_what_was_sent_in_it(sandbox: &Sandbox) {
    let (packets, [begin, end], world) = through_an_outage(sandbox, Outage::Drop);
    expect_punctual(&world);
    let (mut lost, mut passed, mut odd) = (0, 0, 0);
    for ((before, after), got) in packets {
        if before > begin && after + WAKE < end {
            lost += 1;
            odd += usize::from(got.is_some());
        } else if after + WAKE < begin || before > end {
            passed += 1;
            odd += usize::from(got.is_none());
        }
    }
    println!("  {lost} lost, {passed} passed, {odd} did otherwise");
    assert!(lost > 200 && passed > 400 && odd <= PER_CENT, "{lost} lost, {passed} passed, {odd} did otherwise");
}

pub fn a_handover_delays_what_was_sent_in_it(sandbox: &Sandbox) {
    let (packets, [begin, end], world) = through_an_outage(sandbox, Outage::Hold);
    expect_punctual(&world);
    let (mut held, mut passed, mut odd) = (0, 0, 0);
    for ((before, after), got) in packets {
        let got = got.expect("nothing is lost");
        assert!(got >= before + ms(10), "early");
        if before > begin && after + WAKE < end {
            held += 1;
            assert!(got >= end + ms(10), "{:?} before the end", end + ms(10) - got);
            odd += usize::from(got > end + ms(10) + ms(24) + 2 * WAKE);
        } else if after + WAKE < begin {
            passed += 1;
            odd += usize::from(got > after + ms(10) + 2 * WAKE);
        }
    }
    println!("  {held} held, {passed} passed, {odd} late");
    assert!(held > 200 && passed > 200 && odd <= PER_CENT, "{held} held, {passed} passed, {odd} late");
}

pub fn a_profile_is_played(sandbox: &Sandbox) {
    let mut builder = sandbox.world();
    let (_, _, link) = two_nodes(&mut builder, delay(1));
    let world = builder.build().unwrap();
    let step = |at, change| Step { at: ms(at), change };
    let profile = Profile {
        name: "test",
        summary: "a rate, an address and an outage",
        up: delay(1),
        down: delay(1),
        cycle: ms(200),
        steps: vec![
            step(10, Change::Rate(Direction::Up, Some(1_000_000))),
            step(20, Change::AddressChange),
            step(30, Change::OutageBegin(Outage::Hold)),
        ],
    };
    let start = Instant::now();
    world.play(link, &profile, start, start + ms(300), End::B).unwrap();
    sleep(ms(400));
    let (rate, outage) = world.inspect(link, |_, up, _| (up.rate(), up.outage())).unwrap();
    assert_eq!((rate, outage), (Some(1_000_000), Some(Outage::Hold)));
    assert_eq!(world.addresses(link, End::B), Addresses::numbered(0)[1].next().next(), "in two cycles");
    assert!(world.event_faults().is_empty());
}

pub fn half_duplex_links_take_turns(sandbox: &Sandbox) {
    let mut builder = sandbox.world();
    let (a, b) = (builder.node("air"), builder.node("ground"));
    let path = PathConfig { rate_bps: Some(8_000_000), ..delay(1) };
    let cells = Cells::half_duplex(HalfDuplex::new(path, path, Duration::ZERO, 1));
    let link = link(&mut builder, "radio", (a, b), 0, cells);
    let world = builder.build().unwrap();
    let addresses = [End::A, End::B].map(|end| world.addresses(link, end).v4);
    let receivers = [(a, addresses[0]), (b, addresses[1])].map(|(node, at)| Receiver::new(&world, node, at));
    let until = Instant::now() + SECOND * 2;
    std::thread::scope(|scope| {
        for (node, from, to) in [(a, addresses[0], receivers[1].address), (b, addresses[1], receivers[0].address)] {
            let from = socket(&world, node, from, 0);
            scope.spawn(move || send(&from, to, 1000, 12_000_000, until));
        }
    });
    let [down, up] = receivers.map(|receiver| receiver.finish(ms(100)).len() as f64 * 1000.0 * 8.0 / 2e6);
    println!("  {up:.2} Mbit/s up, {down:.2} down");
    expect_punctual(&world);
    // 8 Mbit/s together, half of it each; the queues of 60 kB are emptied after the end.
    assert!((7.8..8.6).contains(&(up + down)) && (up - down).abs() < 0.4, "{up} up, {down} down");
}

pub fn a_new_address_replaces_the_old_one(sandbox: &Sandbox) {
    let mut builder = sandbox.world();
    let (a, b, link) = two_nodes(&mut builder, delay(1));
    let world = builder.build().unwrap();
    let to = echo(&world, b, world.addresses(link, End::B).v4);
    let old = socket(&world, a, world.addresses(link, End::A).v4, 0);
    let before = ping(&old, to, 3, SECOND);
    assert!(before.iter().all(Option::is_some), "{before:?}");
    world.at(Instant::now() + ms(50), Event::NextAddress(link, End::A));
    sleep(ms(150));
    assert!(world.event_faults().is_empty());
    let new = world.addresses(link, End::A);
    assert_eq!(new, Addresses::numbered(0)[0].next());
    assert!(ping(&old, to, 2, ms(100)).iter().all(Option::is_none), "the old address still works");
    // The other end does not reach it either.
    let stranger = socket(&world, b, world.addresses(link, End::B).v4, 0);
    stranger.send_to(b"lost", old.local_addr().unwrap()).unwrap();
    old.set_read_timeout(Some(ms(100))).unwrap();
    assert!(old.recv(&mut [0; 8]).is_err());
    for (from, to) in [
        (socket(&world, a, new.v4, 0), to),
        (socket(&world, a, new.v6, 0), echo(&world, b, world.addresses(link, End::B).v6)),
    ] {
        let after = ping(&from, to, 3, SECOND);
        assert!(after.iter().all(Option::is_some), "{to}: {after:?}");
    }
    assert!(world.change_address(link, End::A, Addresses::numbered(9)[0]).is_err(), "another network");
}

pub fn an_address_serves_as_soon_as_it_is_there(sandbox: &Sandbox) {
    let mut builder = sandbox.world();
    let (a, _, link) = two_nodes(&mut builder, delay(1));
    let world = builder.build().unwrap();
    // Alternately two addresses, neither of which the other end has.
    let two = [Addresses::numbered(0)[0].next(), Addresses::numbered(0)[0].next().next()];
    for (number, new) in two.into_iter().cycle().take(500).enumerate() {
        world.change_address(link, End::A, new).unwrap();
        let bound = world.run_in(a, move || (UdpSocket::bind((new.v4, 0)), UdpSocket::bind((new.v6, 0))));
        assert!(matches!(bound, (Ok(_), Ok(_))), "change {number}: {bound:?}");
    }
}

pub fn a_link_goes_down_and_up(sandbox: &Sandbox) {
    let mut builder = sandbox.world();
    let (a, b, link) = two_nodes(&mut builder, delay(1));
    let world = builder.build().unwrap();
    let there = world.addresses(link, End::B);
    let targets = [echo(&world, b, there.v4), echo(&world, b, there.v6)];
    let works = |expected: bool| {
        for to in targets {
            let any: &str = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let from = world.run_in(a, move || UdpSocket::bind(any)).unwrap();
            let times = ping(&from, to, 3, ms(200));
            assert_eq!(times.iter().any(Option::is_some), expected, "{to}: {times:?}");
        }
    };
    works(true);
    for end in [End::A, End::B] {
        world.set_up(link, end, false).unwrap();
        works(false);
        world.set_up(link, end, true).unwrap();
        works(true);
    }
    let refused = world.health().unwrap().refused;
    assert!(refused.down > 0, "{refused:?}");
}

pub fn marks_and_bit_errors_arrive(sandbox: &Sandbox) {
    let mut builder = sandbox.world();
    builder.record(Some(100));
    // Marks everything that has to wait.
    let marking = Marking { at: MarkAt::Bytes(0), drop_not_capable: false };
    let path = PathConfig {
        rate_bps: Some(10_000_000),
        queue: Queue { discipline: aquila_emu::Discipline::Mark(marking), ..Queue::bytes(60_000) },
        ..delay(1)
    };
    let (a, b, link) = two_nodes(&mut builder, path);
    let world = builder.build().unwrap();
    let records = world.take_records().unwrap();
    let receiver = Receiver::new(&world, b, world.addresses(link, End::B).v4);
    let from = socket(&world, a, world.addresses(link, End::A).v4, 0);
    nix::sys::socket::setsockopt(&from, nix::sys::socket::sockopt::Ipv4Tos, &2).unwrap();
    let sent = send(&from, receiver.address, 500, 4_000_000, Instant::now() + ms(200)).len();
    sleep(ms(50));
    // A header of 20 bytes at 1 % is hit four times of five, a version field of 4 bits once in 25.
    world
        .change(link, Instant::now(), |_, up, _| up.set_bit_errors(BitErrors { rate: 0.01, spared_bytes: 0 }))
        .unwrap();
    sleep(ms(10));
    let damaged = send(&from, receiver.address, 500, 8_000_000, Instant::now() + ms(500)).len();
    let received = receiver.finish(ms(100));
    let refused = world.health().unwrap().refused;
    drop(world);
    println!("  {sent} marked, {damaged} damaged; received {}, refused {refused:?}", received.len());
    assert!(received.len() >= sent, "a mark must not damage a header: {sent} sent, {} got", received.len());
    assert!(received.len() < sent + damaged / 2);
    assert!(refused.not_ip > 0, "{refused:?}");
    let (mut marked, mut flipped) = (0, 0);
    for record in records {
        let Record::Packets(batch) = record else { continue };
        for entry in &batch.entries {
            let first = batch.data(entry);
            match entry.fate {
                Fate::Delivered { flipped_bits: 0, .. } if entry.ecn == Ecn::Ce && first[0] == 0x45 => {
                    assert_eq!(first[1] & 3, 3);
                    marked += 1;
                }
                Fate::Delivered { flipped_bits: 1.., .. } => flipped += 1,
                _ => {}
            }
        }
    }
    assert!(marked >= sent && flipped > damaged / 2, "{marked} marked, {flipped} flipped");
}

pub fn records_account_for_every_packet(sandbox: &Sandbox) {
    let mut builder = sandbox.world();
    builder.record(Some(40));
    let path = PathConfig {
        rate_bps: Some(5_000_000),
        queue: Queue::bytes(30_000),
        loss: Loss::Independent(0.05),
        ..delay(2)
    };
    let (a, b, link) = two_nodes(&mut builder, path);
    let world = builder.build().unwrap();
    let records = world.take_records().unwrap();
    assert!(world.take_records().is_none());
    let reader = std::thread::spawn(move || records.into_iter().collect::<Vec<Record>>());
    let receiver = Receiver::new(&world, b, world.addresses(link, End::B).v4);
    let from = socket(&world, a, world.addresses(link, End::A).v4, 0);
    send(&from, receiver.address, 1000, 10_000_000, Instant::now() + SECOND);
    let received = receiver.finish(ms(200));
    let stats = world.stats().unwrap()[0][0];
    assert_eq!(world.health().unwrap().lost_records, 0);
    drop(world);
    let records = reader.join().unwrap();
    let (mut offered, mut delivered, mut dropped, mut rows, mut waited) = (0, 0, 0, 0, 0);
    let (mut logged, mut full, mut lost) = (0, 0, 0);
    for record in &records {
        match record {
            Record::Interval(row) if row.direction == Direction::Up => {
                assert!(row.link == link && row.begin < row.end && row.queue_bytes <= 31_000, "{row:?}");
                offered += row.offered.packets;
                delivered += row.delivered.packets;
                dropped += row.dropped.total().packets;
                waited += usize::from(row.queue_delay > ms(40));
                rows += 1;
            }
            Record::Interval(_) => {}
            Record::Packets(batch) => {
                for entry in batch.entries.iter().filter(|entry| entry.direction == Direction::Up) {
                    assert!(entry.at >= entry.sent && batch.data(entry).len() == entry.wire_bytes.min(40));
                    match entry.fate {
                        Fate::Delivered { due, .. } => {
                            assert!(entry.at >= due, "early");
                            logged += 1;
                        }
                        Fate::Dropped(DropReason::QueueFull) => full += 1,
                        Fate::Dropped(DropReason::Loss) => lost += 1,
                        ref other => panic!("{other:?}"),
                    }
                }
            }
        }
    }
    assert_eq!(
        (offered, delivered, dropped),
        (stats.input.packets, stats.output.packets, stats.dropped.total().packets)
    );
    assert_eq!((logged, full), (delivered, stats.dropped.queue_full.packets));
    assert_eq!(lost, stats.dropped.loss.packets);
    assert!(received.len() as u64 <= delivered && full > 0 && lost > 0);
    assert!((10..=16).contains(&rows) && waited >= 5, "{rows} rows, {waited} of them with a full queue");
    let bytes = received.len() * 1000;
    assert!(bytes > 550_000, "{bytes}: {HEADERS} bytes of headers are counted");
}

pub fn a_late_emulator_says_so(sandbox: &Sandbox) {
    let mut builder = sandbox.world();
    builder.health_bounds(HealthBounds { late_p99: Duration::from_nanos(1), ..HealthBounds::default() });
    let (a, b, link) = two_nodes(&mut builder, delay(1));
    let world = builder.build().unwrap();
    let to = echo(&world, b, world.addresses(link, End::B).v4);
    let from = socket(&world, a, world.addresses(link, End::A).v4, 0);
    ping(&from, to, 5, SECOND);
    let health = world.health().unwrap();
    assert!(!health.verdict.is_valid() && health.to_string().contains("INVALID"), "{health}");
    assert!(health.deliveries >= 10 && health.late_max >= health.late_p50, "{health}");
    // A change that blocks the thread makes it late in earnest.
    world.change(link, Instant::now(), |_, _, _| sleep(ms(50))).unwrap();
    let times = ping(&from, to, 1, SECOND);
    assert!(times[0].is_some());
    world.reset_health().unwrap();
    assert_eq!(world.health().unwrap().deliveries, 0);
}

pub fn impossible_worlds_are_refused(sandbox: &Sandbox) {
    let cells = || Cells::duplex(Path::new(PathConfig::default(), 1), Path::new(PathConfig::default(), 2));
    let attempt = |change: &dyn Fn(&mut LinkSpec)| {
        let mut builder = sandbox.world();
        let (a, b) = (builder.node("a"), builder.node("b"));
        let mut spec =
            LinkSpec { name: "x".into(), a, b, mtu: 1500, addresses: Addresses::numbered(1), cells: cells() };
        change(&mut spec);
        builder.link(spec);
        builder.build().map(drop).map_err(|error| error.to_string())
    };
    attempt(&|_| {}).unwrap();
    attempt(&|spec| spec.mtu = 576).unwrap();
    for (change, word) in [
        (&(|spec: &mut LinkSpec| spec.name = "longer than 15 letters".into()) as &dyn Fn(&mut LinkSpec), "letters"),
        (&|spec| spec.name = "a/b".into(), "letters"),
        (&|spec| spec.name = String::new(), "letters"),
        (&|spec| spec.name = "lo".into(), "system"),
        (&|spec| spec.b = spec.a, "two of the nodes"),
        (&|spec| spec.mtu = 60, "MTU"),
        (&|spec| spec.addresses[1] = spec.addresses[0], "addresses"),
        (&|spec| spec.addresses[1] = Addresses::numbered(2)[1], "addresses"),
    ] {
        let error = attempt(change).unwrap_err();
        assert!(error.contains(word), "{error}");
    }
    let mut builder = sandbox.world();
    builder.node("same");
    builder.node("same");
    assert!(builder.build().is_err());
}
