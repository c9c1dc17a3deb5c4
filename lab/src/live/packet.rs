//! IP packets in buffers that are used again.

use aquila_emu::{Ecn, Payload};

/// An IP packet as the kernel gave it.
#[derive(Debug)]
pub struct IpPacket {
    buffer: Box<[u8]>,
    len: usize,
    /// The ECN field as it came.
    ecn: Ecn,
}

impl IpPacket {
    pub(super) fn new(buffer: Box<[u8]>, len: usize) -> Self {
        let ecn = ecn_of(&buffer[..len]);
        Self { buffer, len, ecn }
    }

    /// The packet, from its IP header on.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// The ECN field as the sender had it.
    pub fn ecn(&self) -> Ecn {
        self.ecn
    }

    /// Writes the ECN field that the path decided on into the header, if it is another one than came.
    pub(super) fn mark(&mut self, ecn: Ecn) {
        if ecn != self.ecn {
            write_ecn(&mut self.buffer[..self.len], ecn);
        }
    }

    pub(super) fn into_buffer(self) -> Box<[u8]> {
        self.buffer
    }
}

impl Payload for IpPacket {
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.len]
    }
}

/// Not ECN-capable if it is no IP packet.
fn ecn_of(packet: &[u8]) -> Ecn {
    match packet {
        [first, second, ..] if first >> 4 == 4 => Ecn::from_bits(*second),
        [first, second, ..] if first >> 4 == 6 => Ecn::from_bits(second >> 4),
        _ => Ecn::NotEct,
    }
}

/// An IPv4 header's checksum is brought up to date as RFC 1624 §3 says (equation 3), so that one that was wrong stays
/// wrong.
fn write_ecn(packet: &mut [u8], ecn: Ecn) {
    match packet {
        [first, second, rest @ ..] if *first >> 4 == 4 && rest.len() >= 18 => {
            let old = u16::from_be_bytes([*first, *second]);
            *second = *second & !0b11 | ecn.bits();
            let new = u16::from_be_bytes([*first, *second]);
            let checksum = u16::from_be_bytes([rest[8], rest[9]]);
            let mut sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
            sum = (sum & 0xffff) + (sum >> 16);
            sum = (sum & 0xffff) + (sum >> 16);
            rest[8..10].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        }
        [first, second, ..] if *first >> 4 == 6 => *second = *second & !0b0011_0000 | ecn.bits() << 4,
        _ => {}
    }
}

/// Buffers of one size. In steady state none is made or freed.
#[derive(Debug)]
pub(super) struct Pool {
    free: Vec<Box<[u8]>>,
    size: usize,
    made: usize,
    most: usize,
}

impl Pool {
    /// At most `budget` bytes of buffers of `size`; `ready` of them are made now.
    pub(super) fn new(size: usize, budget: usize, ready: usize) -> Self {
        let most = (budget / size).max(1);
        let ready = ready.min(most);
        Self { free: (0..ready).map(|_| buffer(size)).collect(), size, made: ready, most }
    }

    /// `None`: the budget is used up.
    pub(super) fn take(&mut self) -> Option<Box<[u8]>> {
        self.free.pop().or_else(|| {
            (self.made < self.most).then(|| {
                self.made += 1;
                buffer(self.size)
            })
        })
    }

    /// So many buffers will not come back.
    pub(super) fn forget(&mut self, buffers: usize) {
        self.made = self.made.saturating_sub(buffers);
    }

    pub(super) fn give(&mut self, buffer: Box<[u8]>) {
        self.free.push(buffer);
    }
}

fn buffer(size: usize) -> Box<[u8]> {
    vec![0; size].into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of a header from RFC 1071's folklore: its checksum is right.
    const V4: [u8; 20] =
        [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];

    fn sum(header: &[u8]) -> u16 {
        let words = header.chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    fn packet(bytes: &[u8]) -> IpPacket {
        IpPacket::new(bytes.into(), bytes.len())
    }

    #[test]
    fn marking_an_ipv4_packet_keeps_its_checksum_right() {
        assert_eq!(sum(&V4), 0xffff);
        for tos in 0..=255 {
            let mut bytes = V4;
            bytes[1] = tos;
            bytes[10..12].fill(0);
            let checksum = !sum(&bytes);
            bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
            for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
                let mut marked = packet(&bytes);
                assert_eq!(marked.ecn(), Ecn::from_bits(tos));
                marked.mark(ecn);
                assert_eq!(sum(marked.bytes()), 0xffff, "{tos} {ecn:?}");
                assert_eq!(marked.bytes()[1], tos & !3 | ecn.bits());
            }
        }
    }

    #[test]
    fn marking_an_ipv6_packet_leaves_the_rest_of_the_traffic_class() {
        let mut bytes = [0xff; 40];
        bytes[0] = 0x6a;
        bytes[1] = 0b1010_0101;
        let mut marked = packet(&bytes);
        assert_eq!(marked.ecn(), Ecn::Ect0);
        marked.mark(Ecn::Ce);
        assert_eq!(marked.bytes()[..2], [0x6a, 0b1011_0101]);
        assert_eq!(marked.bytes()[2..], bytes[2..]);
    }

    #[test]
    fn what_is_no_ip_packet_is_left_alone() {
        for bytes in [&[][..], &[0x45], &[0x45, 1, 2], &[0x15; 30]] {
            let mut odd = packet(bytes);
            odd.mark(Ecn::Ce);
            if bytes.len() < 20 || bytes[0] >> 4 != 4 {
                assert_eq!(odd.bytes(), bytes);
            }
        }
    }

    #[test]
    fn a_pool_makes_no_more_than_its_budget() {
        let mut pool = Pool::new(100, 350, 1);
        let taken: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(taken.len(), 3);
        taken.into_iter().for_each(|buffer| pool.give(buffer));
        assert_eq!(std::iter::from_fn(|| pool.take()).count(), 3);
        pool.forget(2);
        assert_eq!(std::iter::from_fn(|| pool.take()).count(), 2);
    }
}
