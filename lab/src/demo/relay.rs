//! The emulated cellular link in real time: a UDP relay between the two ends, with a [`Link`] deciding.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aquila_emu::{Change, Direction, Link, Outage, Profile};
use aquila_proto::Side;
use tokio::net::UdpSocket;

/// Bytes that IPv4 and UDP put around a payload.
const IP_UDP: usize = 28;

/// What the link is like now, for the display, and what has happened to it.
#[derive(Debug, Clone, Default)]
pub struct LinkView {
    /// Rate of the direction from the aircraft, bit/s; `None` without limit.
    pub up_bps: Option<u64>,
    /// Propagation delay, from and to the aircraft, at first and since each change.
    pub delays: [Vec<(Instant, Duration)>; 2],
    /// Outages: begin, and end if it has ended.
    pub outages: Vec<(Instant, Option<Instant>)>,
    /// Address changes.
    pub address_changes: Vec<Instant>,
    /// Bytes that came out on the ground.
    pub delivered_up: u64,
}

impl LinkView {
    /// Propagation delay of what a side sent and could leave at `at`.
    pub fn propagation(&self, from: Side, at: Instant) -> Duration {
        let delays = &self.delays[from as usize];
        let in_force = delays.iter().rev().find(|(since, _)| *since <= at).or(delays.first());
        in_force.map_or(Duration::ZERO, |(_, delay)| *delay)
    }

    /// The time that something sent at `sent` and arrived at `arrived` took beyond what the link itself takes: over
    /// propagation, counted from when it could leave.
    pub fn over_propagation(&self, from: Side, sent: Instant, arrived: Instant) -> Duration {
        let left = self.sendable_at(sent);
        arrived.saturating_duration_since(left).saturating_sub(self.propagation(from, left))
    }

    /// Whether the link is out now.
    pub fn is_out(&self) -> bool {
        self.outages.last().is_some_and(|(_, end)| end.is_none())
    }

    /// Begin and end of the longest outage that has ended; the first of those alike.
    pub fn longest_outage(&self) -> Option<(Instant, Instant)> {
        let ended = self.outages.iter().filter_map(|(begin, end)| Some((*begin, (*end)?)));
        ended.reduce(|longest, other| if other.1 - other.0 > longest.1 - longest.0 { other } else { longest })
    }

    /// What was sent a while before this has had the time to arrive: now, or the begin of an outage that is going on or ended
    /// less than that while ago.
    pub fn horizon(&self, now: Instant, while_ago: Duration) -> Instant {
        let earlier = |horizon: Instant, (begin, end): &(Instant, Option<Instant>)| match end {
            Some(end) if *end + while_ago <= horizon => horizon,
            _ => horizon.min(*begin),
        };
        self.outages.iter().rev().fold(now, earlier)
    }

    /// When something sent at `sent` could leave at the earliest: at once, or at the end of the outage.
    pub fn sendable_at(&self, sent: Instant) -> Instant {
        let within = |(begin, end): &&(Instant, Option<Instant>)| *begin <= sent && end.is_none_or(|end| sent < end);
        self.outages.iter().find(within).and_then(|(_, end)| *end).unwrap_or(sent)
    }
}

/// The relay's view, shared with the display.
pub type SharedView = Arc<Mutex<LinkView>>;

/// A relay that is set up but not running.
#[derive(Debug)]
pub struct Relay {
    /// Plays the ground station towards the aircraft.
    towards_air: UdpSocket,
    /// Plays the aircraft towards the ground station; replaced when its address changes.
    towards_ground: UdpSocket,
    ground: SocketAddr,
    air: Option<SocketAddr>,
    profile: Profile,
    seed: u64,
    view: SharedView,
}

impl Relay {
    /// A relay to `ground`.
    ///
    /// # Errors
    /// If the machine has no free port.
    pub async fn new(ground: SocketAddr, profile: Profile, seed: u64) -> std::io::Result<Self> {
        let view = LinkView {
            up_bps: profile.up.rate_bps,
            delays: [profile.up.delay, profile.down.delay].map(|delay| vec![(Instant::now(), delay)]),
            ..LinkView::default()
        };
        Ok(Self {
            towards_air: UdpSocket::bind("127.0.0.1:0").await?,
            towards_ground: UdpSocket::bind("127.0.0.1:0").await?,
            ground,
            air: None,
            profile,
            seed,
            view: Arc::new(Mutex::new(view)),
        })
    }

    /// Where the aircraft finds the ground station.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.towards_air.local_addr()
    }

    /// What happens on the link, as it happens.
    pub fn view(&self) -> SharedView {
        self.view.clone()
    }

    /// Relays until it is dropped.
    pub async fn run(mut self) {
        let mut link: Link<Vec<u8>> = Link::new(&self.profile, self.seed, Instant::now());
        let (mut up, mut down) = (vec![0; 2048], vec![0; 2048]);
        loop {
            let deadline = link.next_deadline().unwrap_or_else(|| Instant::now() + Duration::from_secs(1));
            tokio::select! {
                Ok((len, from)) = self.towards_air.recv_from(&mut up) => {
                    self.air = Some(from);
                    self.catch_up(&mut link).await;
                    // A full queue or bad luck: what a link does.
                    let _ = link.up.push(Instant::now(), len + IP_UDP, up[..len].to_vec());
                }
                Ok((len, _)) = self.towards_ground.recv_from(&mut down) => {
                    self.catch_up(&mut link).await;
                    let _ = link.down.push(Instant::now(), len + IP_UDP, down[..len].to_vec());
                }
                () = tokio::time::sleep_until(deadline.into()) => {}
            }
            self.catch_up(&mut link).await;
        }
    }

    /// Carries out what is due.
    async fn catch_up(&mut self, link: &mut Link<Vec<u8>>) {
        let now = Instant::now();
        while let Some((at, change)) = link.poll_change(now) {
            self.on_change(at, change).await;
        }
        while let Some(packet) = link.up.pop(now) {
            self.lock().delivered_up += packet.len() as u64 + IP_UDP as u64;
            let _ = self.towards_ground.send_to(&packet, self.ground).await;
        }
        while let Some(packet) = link.down.pop(now) {
            if let Some(air) = self.air {
                let _ = self.towards_air.send_to(&packet, air).await;
            }
        }
    }

    async fn on_change(&mut self, at: Instant, change: Change) {
        match change {
            Change::Rate(Direction::Up, rate) => self.lock().up_bps = rate,
            Change::Delay(Direction::Up, delay) => self.lock().delays[Side::Air as usize].push((at, delay)),
            Change::Delay(Direction::Down, delay) => self.lock().delays[Side::Ground as usize].push((at, delay)),
            Change::OutageBegin(Outage::Drop | Outage::Hold) => self.lock().outages.push((at, None)),
            Change::OutageEnd => {
                if let Some((_, end)) = self.lock().outages.last_mut() {
                    *end = Some(at);
                }
            }
            Change::AddressChange => {
                // The modem has a new address: what is on its way to the old one is lost.
                match UdpSocket::bind("127.0.0.1:0").await {
                    Ok(socket) => {
                        self.towards_ground = socket;
                        self.lock().address_changes.push(at);
                    }
                    Err(error) => tracing::warn!(%error, "no port for the new address"),
                }
            }
            Change::Rate(Direction::Down, _) | Change::Loss(..) => {}
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LinkView> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_in_an_outage_can_leave_at_its_end() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut view = LinkView { outages: vec![(at(100), Some(at(300))), (at(900), None)], ..LinkView::default() };
        assert_eq!(view.sendable_at(at(99)), at(99));
        assert_eq!(view.sendable_at(at(100)), at(300));
        assert_eq!(view.sendable_at(at(300)), at(300));
        assert_eq!(view.sendable_at(at(950)), at(950), "not known yet");
        assert!(view.is_out());
        view.outages.pop();
        assert!(!view.is_out());
    }

    #[test]
    fn what_an_outage_holds_is_not_missing_yet() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let second = Duration::from_secs(1);
        let mut view = LinkView { outages: vec![(at(2_000), Some(at(4_000)))], ..LinkView::default() };
        assert_eq!(view.horizon(at(6_000), second), at(6_000));
        assert_eq!(view.horizon(at(4_500), second), at(2_000));
        view.outages.push((at(4_800), None));
        assert_eq!(view.horizon(at(9_000), second), at(2_000), "between the two there was not time enough");
        view.outages[1].0 = at(5_000);
        assert_eq!(view.horizon(at(9_000), second), at(5_000));
        assert_eq!(LinkView::default().horizon(at(100), second), at(100));
    }

    #[test]
    fn the_longest_outage_is_the_one_to_tell() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let outage = |begin, end| (at(begin), Some(at(end)));
        let mut view = LinkView::default();
        assert_eq!(view.longest_outage(), None);
        view.outages = vec![outage(0, 2), outage(100, 300), outage(500, 700), (at(800), None)];
        assert_eq!(view.longest_outage(), Some((at(100), at(300))));
    }

    #[test]
    fn propagation_is_what_it_was_when_the_packet_left() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let at = |time| start + ms(time);
        let up = vec![(at(0), ms(30)), (at(1_000), ms(90))];
        let view = LinkView {
            outages: vec![(at(900), Some(at(1_100)))],
            delays: [up, vec![(at(0), ms(20))]],
            ..LinkView::default()
        };
        assert_eq!(view.over_propagation(Side::Air, at(500), at(535)), ms(5));
        assert_eq!(view.over_propagation(Side::Air, at(950), at(1_200)), ms(10), "it could leave at 1,100");
        assert_eq!(view.over_propagation(Side::Ground, at(1_500), at(1_521)), ms(1));
        assert_eq!(view.over_propagation(Side::Ground, at(1_500), at(1_510)), ms(0));
    }
}
