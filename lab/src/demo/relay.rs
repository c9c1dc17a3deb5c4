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
    /// Times at which the demo cut the link: nothing passes, and what was on its way is lost.
    pub cuts: Vec<(Instant, Option<Instant>)>,
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

    /// Whether the link is out now.
    pub fn is_out(&self) -> bool {
        self.outages.last().is_some_and(|(_, end)| end.is_none())
    }

    /// Whether it is cut now.
    pub fn is_cut(&self) -> bool {
        self.cuts.last().is_some_and(|(_, end)| end.is_none())
    }

    /// Outages and cuts in order of time, as one where they meet.
    pub fn interruptions(&self) -> Vec<(Instant, Option<Instant>)> {
        let mut all = [&self.outages[..], &self.cuts[..]].concat();
        all.sort_by_key(|(begin, _)| *begin);
        let mut merged: Vec<(Instant, Option<Instant>)> = Vec::new();
        for (begin, end) in all {
            match merged.last_mut() {
                Some((_, last)) if last.is_none_or(|last| begin <= last) => {
                    *last = last.and_then(|last| Some(last.max(end?)));
                }
                _ => merged.push((begin, end)),
            }
        }
        merged
    }

    /// When something sent at `sent` could arrive at the earliest; `None` if that depends on when the link returns.
    pub fn earliest(&self, from: Side, sent: Instant) -> Option<Instant> {
        let mut left = sent;
        for (begin, end) in self.interruptions() {
            // An outage holds what comes; a cut takes also what is on its way.
            let lost = self.cuts.iter().any(|(cut, _)| *cut == begin) && begin < left + self.propagation(from, left);
            if (begin <= left || lost) && end.is_none_or(|end| left < end) {
                left = end?;
            }
        }
        Some(left + self.propagation(from, left))
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
    ahead: Duration,
    view: SharedView,
}

impl Relay {
    /// A relay to `ground`, which begins this far into the profile.
    ///
    /// # Errors
    /// If the machine has no free port.
    pub async fn new(ground: SocketAddr, profile: Profile, seed: u64, ahead: Duration) -> std::io::Result<Self> {
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
            ahead,
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
        let now = Instant::now();
        // A machine that has not run for so long yet begins at the profile's start.
        let start = now.checked_sub(self.ahead).unwrap_or(now);
        let mut link: Link<Vec<u8>> = Link::new(&self.profile, self.seed, start);
        self.catch_up(&mut link).await;
        // What the profile did before it was begun is no part of the run.
        self.lock().address_changes.clear();
        self.lock().outages.retain(|(_, end)| end.is_none());
        let (mut up, mut down) = (vec![0; 2048], vec![0; 2048]);
        loop {
            let deadline = link.next_deadline().unwrap_or_else(|| Instant::now() + Duration::from_secs(1));
            tokio::select! {
                Ok((len, from)) = self.towards_air.recv_from(&mut up) => {
                    self.air = Some(from);
                    self.catch_up(&mut link).await;
                    if !self.lock().is_cut() {
                        // A full queue or bad luck: what a link does.
                        let _ = link.up.push(Instant::now(), len + IP_UDP, up[..len].to_vec());
                    }
                }
                Ok((len, _)) = self.towards_ground.recv_from(&mut down) => {
                    self.catch_up(&mut link).await;
                    if !self.lock().is_cut() {
                        let _ = link.down.push(Instant::now(), len + IP_UDP, down[..len].to_vec());
                    }
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
        // A cut takes what is on its way, too.
        let cut = self.lock().is_cut();
        while let Some(packet) = link.up.pop(now) {
            if cut {
                continue;
            }
            self.lock().delivered_up += packet.len() as u64 + IP_UDP as u64;
            let _ = self.towards_ground.send_to(&packet, self.ground).await;
        }
        while let Some(packet) = link.down.pop(now) {
            if let Some(air) = self.air.filter(|_| !cut) {
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
        let earliest = |view: &LinkView, sent| view.earliest(Side::Air, at(sent));
        assert_eq!(earliest(&view, 99), Some(at(99)));
        assert_eq!(earliest(&view, 100), Some(at(300)));
        assert_eq!(earliest(&view, 300), Some(at(300)));
        assert_eq!(earliest(&view, 950), None, "not known yet");
        assert!(view.is_out());
        view.outages.pop();
        assert!(!view.is_out());
        view.cuts = vec![(at(250), Some(at(500)))];
        assert_eq!(view.interruptions(), [(at(100), Some(at(500)))]);
        assert_eq!(earliest(&view, 100), Some(at(500)));
    }

    #[test]
    fn a_cut_lets_nothing_pass_either_way_and_leaves_other_links_alone() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bind = || UdpSocket::bind("127.0.0.1:0");
            let (air, ground) = (bind().await.unwrap(), bind().await.unwrap());
            let clean = Profile::by_name("clean").unwrap();
            let to = ground.local_addr().unwrap();
            let first = Relay::new(to, clean.clone(), 1, Duration::ZERO).await.unwrap();
            let second = Relay::new(to, clean, 2, Duration::ZERO).await.unwrap();
            let addresses = [first.address().unwrap(), second.address().unwrap()];
            let view = first.view();
            let scenario = async {
                let mut buffer = [0; 16];
                let soon = Duration::from_millis(500);
                for address in addresses {
                    air.send_to(b"up", address).await.unwrap();
                    let (_, relay) = tokio::time::timeout(soon, ground.recv_from(&mut buffer)).await.unwrap().unwrap();
                    ground.send_to(b"down", relay).await.unwrap();
                    let (_, from) = tokio::time::timeout(soon, air.recv_from(&mut buffer)).await.unwrap().unwrap();
                    assert_eq!(from, address);
                }
                // The first link is cut while a packet is on its way.
                air.send_to(b"lost", addresses[0]).await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
                view.lock().unwrap().cuts.push((Instant::now(), None));
                air.send_to(b"lost", addresses[0]).await.unwrap();
                air.send_to(b"other", addresses[1]).await.unwrap();
                let (len, _) = tokio::time::timeout(soon, ground.recv_from(&mut buffer)).await.unwrap().unwrap();
                assert_eq!(&buffer[..len], b"other");
                assert!(tokio::time::timeout(soon, ground.recv_from(&mut buffer)).await.is_err(), "it was cut");
                view.lock().unwrap().cuts[0].1 = Some(Instant::now());
                air.send_to(b"again", addresses[0]).await.unwrap();
                let (len, _) = tokio::time::timeout(soon, ground.recv_from(&mut buffer)).await.unwrap().unwrap();
                assert_eq!(&buffer[..len], b"again");
            };
            tokio::select! {
                () = first.run() => {}
                () = second.run() => {}
                () = scenario => {}
            }
        });
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
}
