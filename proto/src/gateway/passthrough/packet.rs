//! IP packets with TCP in them, as a TUN device gives and takes them: read with all their checks, and made.

use std::net::{IpAddr, SocketAddr};

use etherparse::{IpNumber, IpSlice, Ipv4Header, Ipv6FlowLabel, Ipv6Header, TcpHeader, TcpOptionElement, TcpSlice};

/// A TCP segment and whom it is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packet<'a> {
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement, if it carries one.
    pub ack: Option<u32>,
    pub flags: Flags,
    /// As it is on the wire.
    pub window: u16,
    /// Longest segment that its sender takes (RFC 9293 §3.7.1); on SYN only.
    pub mss: Option<u16>,
    /// Its sender's windows are to be shifted so far left (RFC 7323 §2); on SYN only.
    pub scale: Option<u8>,
    pub payload: &'a [u8],
}

/// Those that mean something here. PSH is set with each payload, URG is not known: urgent bytes are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Flags {
    pub syn: bool,
    pub fin: bool,
    pub rst: bool,
}

/// Why a packet is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dropped {
    /// A piece of a packet: TCP sends none, as its segments fit.
    Fragment,
    /// Something else than TCP.
    Other,
    /// Its lengths, addresses, ports or flags make no sense.
    Malformed,
    /// A checksum is wrong.
    Checksum,
}

/// What an IP and a TCP header take without options.
pub(super) const fn headers(v6: bool) -> usize {
    if v6 { 60 } else { 40 }
}

const HOPS: u8 = 64;
/// Window scales beyond it count as it (RFC 7323 §2.3).
const MAX_SCALE: u8 = 14;

impl<'a> Packet<'a> {
    /// The TCP segment in a packet.
    ///
    /// # Errors
    /// If there is none, or what comes is not as it was sent.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Dropped> {
        let ip = IpSlice::from_slice(bytes).map_err(|_| Dropped::Malformed)?;
        let length = match &ip {
            IpSlice::Ipv4(v4) => usize::from(v4.header().total_len()),
            IpSlice::Ipv6(v6) => usize::from(v6.header().payload_length()) + Ipv6Header::LEN,
        };
        if length != bytes.len() {
            // A device gives packets whole, and nothing behind them; a wrong length could go with a checksum that fits.
            return Err(Dropped::Malformed);
        }
        if ip.is_fragmenting_payload() {
            return Err(Dropped::Fragment);
        }
        if let Some(v4) = ip.ipv4()
            && folded(v4.header().slice()) != u16::MAX
        {
            return Err(Dropped::Checksum);
        }
        if ip.payload_ip_number() != IpNumber::TCP {
            return Err(Dropped::Other);
        }
        let tcp = TcpSlice::from_slice(ip.payload().payload).map_err(|_| Dropped::Malformed)?;
        let (from, to) = (ip.source_addr(), ip.destination_addr());
        if is_of_many(from) || is_of_many(to) || tcp.source_port() == 0 || tcp.destination_port() == 0 {
            return Err(Dropped::Malformed);
        }
        let sum = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => tcp.calc_checksum_ipv4(from.octets(), to.octets()),
            (IpAddr::V6(from), IpAddr::V6(to)) => tcp.calc_checksum_ipv6(from.octets(), to.octets()),
            _ => return Err(Dropped::Malformed),
        };
        if sum != Ok(tcp.checksum()) {
            return Err(Dropped::Checksum);
        }
        let flags = Flags { syn: tcp.syn(), fin: tcp.fin(), rst: tcp.rst() };
        if u8::from(flags.syn) + u8::from(flags.fin) + u8::from(flags.rst) > 1 {
            return Err(Dropped::Malformed);
        }
        let mut packet = Self {
            from: SocketAddr::new(from, tcp.source_port()),
            to: SocketAddr::new(to, tcp.destination_port()),
            seq: tcp.sequence_number(),
            ack: tcp.ack().then(|| tcp.acknowledgment_number()),
            flags,
            window: tcp.window_size(),
            mss: None,
            scale: None,
            payload: tcp.payload(),
        };
        if flags.syn {
            for option in tcp.options_iterator() {
                match option {
                    Ok(TcpOptionElement::MaximumSegmentSize(mss)) => packet.mss = Some(mss),
                    Ok(TcpOptionElement::WindowScale(scale)) => packet.scale = Some(scale.min(MAX_SCALE)),
                    // What is not understood is not agreed on: selective acknowledgements and timestamps neither.
                    Ok(_) => {}
                    // RFC 9293 §3.1: malformed options are ignored, here with what follows.
                    Err(_) => break,
                }
            }
        }
        Ok(packet)
    }

    /// Puts its bytes into `out`. What is longer than a packet may be is cut.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.clear();
        let payload = &self.payload[..self.payload.len().min(MAX_PAYLOAD)];
        let mut tcp = TcpHeader::new(self.from.port(), self.to.port(), self.seq, self.window);
        tcp.acknowledgment_number = self.ack.unwrap_or(0);
        (tcp.ack, tcp.syn, tcp.fin, tcp.rst) = (self.ack.is_some(), self.flags.syn, self.flags.fin, self.flags.rst);
        tcp.psh = !payload.is_empty();
        let mut options = Vec::with_capacity(8);
        if let Some(mss) = self.mss {
            options.extend_from_slice(&[2, 4]);
            options.extend_from_slice(&mss.to_be_bytes());
        }
        if let Some(scale) = self.scale {
            options.extend_from_slice(&[1, 3, 3, scale]);
        }
        // Eight bytes at most always fit.
        let _ = tcp.set_options_raw(&options);
        let length = tcp.header_len() + payload.len();
        // No checksum is too long: the payload has been cut.
        match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let (from, to) = (from.octets(), to.octets());
                tcp.checksum = tcp.calc_checksum_ipv4_raw(from, to, payload).unwrap_or(0);
                if let Ok(mut ip) = Ipv4Header::new(length as u16, HOPS, IpNumber::TCP, from, to) {
                    ip.dont_fragment = true;
                    ip.header_checksum = ip.calc_header_checksum();
                    out.extend_from_slice(&ip.to_bytes());
                }
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let (source, destination) = (from.octets(), to.octets());
                tcp.checksum = tcp.calc_checksum_ipv6_raw(source, destination, payload).unwrap_or(0);
                let ip = Ipv6Header {
                    traffic_class: 0,
                    flow_label: Ipv6FlowLabel::ZERO,
                    payload_length: length as u16,
                    next_header: IpNumber::TCP,
                    hop_limit: HOPS,
                    source,
                    destination,
                };
                out.extend_from_slice(&ip.to_bytes());
            }
            // Flows have two addresses of one family.
            _ => return,
        }
        out.extend_from_slice(&tcp.to_bytes());
        out.extend_from_slice(payload);
    }

    /// What it takes of the sequence.
    pub fn length(&self) -> u32 {
        self.payload.len() as u32 + u32::from(self.flags.syn) + u32::from(self.flags.fin)
    }

    /// The answer to a packet that belongs to nothing (RFC 9293 §3.10.7.1); none to a reset.
    pub fn refusal(&self) -> Option<Packet<'static>> {
        let (seq, ack) = match self.ack {
            Some(ack) => (ack, None),
            None => (0, Some(self.seq.wrapping_add(self.length()))),
        };
        let flags = Flags { rst: true, ..Flags::default() };
        let (from, to) = (self.to, self.from);
        let refusal = Packet { from, to, seq, ack, flags, window: 0, mss: None, scale: None, payload: &[] };
        (!self.flags.rst).then_some(refusal)
    }
}

/// Longer than any device's packets.
const MAX_PAYLOAD: usize = 65_000;

/// The sum of RFC 1071; all ones over what includes its checksum. Over the bytes as they are, reserved ones too.
fn folded(bytes: &[u8]) -> u16 {
    let pairs = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low)));
    let sum: u32 = pairs.sum();
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

/// Nobody in particular can be there, or is.
fn is_of_many(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    ip.is_multicast() || ip.is_unspecified() || broadcast
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_packet() -> impl Strategy<Value = (Packet<'static>, Vec<u8>)> {
        let addresses = (any::<bool>(), any::<[u8; 16]>(), any::<[u8; 16]>(), 1..u16::MAX, 1..u16::MAX);
        let rest = (any::<u32>(), any::<Option<u32>>(), 0..4u8, any::<u16>(), any::<Option<u16>>());
        (addresses, rest, proptest::option::of(0..=14u8), proptest::collection::vec(any::<u8>(), 0..100)).prop_map(
            |((v6, from, to, source, destination), (seq, ack, flag, window, mss), scale, payload)| {
                let ip = |bytes: [u8; 16]| match v6 {
                    true => IpAddr::from([0xfd, bytes[0], 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, bytes[1], 1]),
                    false => IpAddr::from([10, bytes[0], bytes[1], 1]),
                };
                let flags = Flags { syn: flag == 1, fin: flag == 2, rst: flag == 3 };
                let packet = Packet {
                    from: (ip(from), source).into(),
                    to: (ip(to), destination).into(),
                    seq,
                    ack,
                    flags,
                    window,
                    mss: mss.filter(|_| flags.syn),
                    scale: scale.filter(|_| flags.syn),
                    payload: &[],
                };
                (packet, payload)
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read((packet, payload) in any_packet()) {
            let packet = Packet { payload: &payload, ..packet };
            let mut bytes = Vec::new();
            packet.write(&mut bytes);
            prop_assert_eq!(Packet::parse(&bytes), Ok(packet));
            bytes.push(0);
            prop_assert_eq!(Packet::parse(&bytes), Err(Dropped::Malformed));
        }

        #[test]
        fn a_wrong_bit_is_seen((packet, payload) in any_packet(), at in any::<proptest::sample::Index>(), bit in 0..8u8) {
            let packet = Packet { payload: &payload, ..packet };
            let mut bytes = Vec::new();
            packet.write(&mut bytes);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let read = Packet::parse(&bytes);
            // IPv6 has no check of its class, flow label and hop limit, which mean nothing to us.
            let unchecked = packet.from.is_ipv6() && (at < 4 || at == 7);
            prop_assert!(read.is_err() || (unchecked && read == Ok(packet)), "{at}: {read:?}");
        }

        #[test]
        fn any_bytes_are_a_packet_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = Packet::parse(&bytes);
        }
    }

    #[test]
    fn what_is_no_segment_of_two_is_dropped() {
        let packet = Packet {
            from: "10.0.0.1:5".parse().unwrap(),
            to: "10.0.0.2:6".parse().unwrap(),
            seq: 1,
            ack: None,
            flags: Flags { syn: true, ..Flags::default() },
            window: 100,
            mss: Some(1400),
            scale: Some(3),
            payload: b"",
        };
        let written = |packet: Packet<'_>| {
            let mut bytes = Vec::new();
            packet.write(&mut bytes);
            bytes
        };
        let with = |bytes: &mut Vec<u8>, at: usize, value: u8| {
            bytes[at] = value;
            let header: [u8; 20] = bytes[..20].try_into().unwrap();
            let sum = Ipv4Header::from_slice(&header).unwrap().0.calc_header_checksum();
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        };
        assert!(Packet::parse(&written(packet)).is_ok());
        let mut icmp = written(packet);
        with(&mut icmp, 9, 1);
        assert_eq!(Packet::parse(&icmp), Err(Dropped::Other));
        let mut fragment = written(packet);
        with(&mut fragment, 6, 0x20);
        assert_eq!(Packet::parse(&fragment), Err(Dropped::Fragment));
        let both = Packet { flags: Flags { syn: true, fin: true, rst: false }, ..packet };
        assert_eq!(Packet::parse(&written(both)), Err(Dropped::Malformed));
        let many = Packet { from: "224.0.0.1:5".parse().unwrap(), ..packet };
        assert_eq!(Packet::parse(&written(many)), Err(Dropped::Malformed));
        for cut in 0..written(packet).len() {
            assert_eq!(Packet::parse(&written(packet)[..cut]), Err(Dropped::Malformed), "{cut}");
        }
    }

    #[test]
    fn what_belongs_to_nothing_is_refused_where_it_stands() {
        let syn = Packet {
            from: "10.0.0.1:5".parse().unwrap(),
            to: "10.0.0.2:6".parse().unwrap(),
            seq: u32::MAX,
            ack: None,
            flags: Flags { syn: true, ..Flags::default() },
            window: 100,
            mss: None,
            scale: None,
            payload: b"",
        };
        let refusal = syn.refusal().unwrap();
        assert_eq!((refusal.seq, refusal.ack, refusal.from), (0, Some(0), syn.to));
        let data = Packet { ack: Some(77), flags: Flags::default(), ..syn };
        assert_eq!(data.refusal().map(|refusal| (refusal.seq, refusal.ack)), Some((77, None)));
        assert_eq!(refusal.refusal(), None);
    }
}
