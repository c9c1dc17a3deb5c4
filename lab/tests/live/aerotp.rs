//! AeroTP on sockets, over a link that flips bits.

use std::time::Duration;

use aquila_lab::aerotp::live::{LiveScheme, run};
use aquila_lab::aerotp::ours::Ours;
use aquila_lab::aerotp::{Channel, Task};
use aquila_lab::live::Sandbox;

/// How fast it is depends on the machine, what it costs does not. In virtual time it is 4.38 Mbit/s, of UDP 30 % arrive whole and 68 % damaged.
pub fn aerotp_delivers_where_bits_are_wrong(sandbox: &Sandbox) {
    let task = Task { limit: Duration::from_secs(20), ..Task::new(Channel::airborne(1e-4)) };
    let reliable = run(sandbox, LiveScheme::Ours(Ours::ADAPTIVE), &task, 1).unwrap();
    println!("reliable {:.3} Mbit/s, overhead {:.3}", reliable.goodput() / 1e6, reliable.overhead());
    assert!(reliable.is_complete && reliable.overhead() < 0.25, "{} of {}", reliable.delivered, reliable.written);
    let quasi = run(sandbox, LiveScheme::Ours(Ours::QUASI), &task, 1).unwrap();
    println!("quasi-reliable: {} of {} segments lost", quasi.lost, quasi.segments);
    assert!(quasi.lost * 50 < quasi.segments, "{} of {}", quasi.lost, quasi.segments);
    let udp = run(sandbox, LiveScheme::Udp { checksum: false }, &task, 1).unwrap();
    println!("UDP: {} delivered whole, {} damaged, of {}", udp.delivered, udp.damaged, udp.written);
    assert!(udp.damaged > udp.delivered && udp.delivered > udp.written / 6, "{} {}", udp.delivered, udp.damaged);
}
