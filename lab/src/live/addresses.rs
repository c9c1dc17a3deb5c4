//! Addresses of the ends of links.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a new address is above the old one.
const NEXT_ADDRESS: u8 = 10;
const V4_PREFIX: u8 = 24;
const V6_PREFIX: u8 = 64;

/// The addresses of one end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Addresses {
    /// In a network of 256 addresses.
    pub v4: Ipv4Addr,
    /// In a network of 2⁶⁴ addresses. Not used if the MTU is below 1280 or the kernel has no IPv6.
    pub v6: Ipv6Addr,
}

impl Addresses {
    /// `10.77.<number>.1` and `fd77:<number>::1` at end A, `.2` and `::2` at end B.
    pub fn numbered(number: u8) -> [Self; 2] {
        [1, 2].map(|host| Self {
            v4: Ipv4Addr::new(10, 77, number, host),
            v6: Ipv6Addr::new(0xfd77, u16::from(number), 0, 0, 0, 0, 0, u16::from(host)),
        })
    }

    /// What the end gets when a network gives it a new address: the last byte of both 10 higher.
    #[must_use]
    pub fn next(self) -> Self {
        let [.., low] = self.v4.octets();
        // 1 to 254.
        let v4 = u32::from(self.v4) & !0xff | u32::from((u16::from(low) + u16::from(NEXT_ADDRESS) - 1) % 254 + 1);
        Self { v4: v4.into(), v6: (u128::from(self.v6) + u128::from(NEXT_ADDRESS)).into() }
    }

    pub(super) fn shares_networks_with(&self, other: &Self) -> bool {
        let v4 = (u32::from(self.v4) ^ u32::from(other.v4)) >> 8 == 0;
        v4 && (u128::from(self.v6) ^ u128::from(other.v6)) >> 64 == 0 && self.v4 != other.v4 && self.v6 != other.v6
    }

    /// With the lengths of their networks' prefixes.
    pub(super) fn all(self, with_v6: bool) -> impl Iterator<Item = (IpAddr, u8)> {
        let v6 = with_v6.then_some((IpAddr::V6(self.v6), V6_PREFIX));
        [(IpAddr::V4(self.v4), V4_PREFIX)].into_iter().chain(v6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_addresses_stay_in_the_network_and_differ() {
        let [mut a, b] = Addresses::numbered(3);
        assert_eq!(a.v4, Ipv4Addr::new(10, 77, 3, 1));
        assert_eq!(b.v6, "fd77:3::2".parse::<Ipv6Addr>().unwrap());
        for _ in 0..1000 {
            let next = a.next();
            assert_ne!(next.v4, a.v4);
            assert!((1..=254).contains(&next.v4.octets()[3]), "{next:?}");
            assert_eq!(next.v4.octets()[..3], [10, 77, 3]);
            a = next;
        }
        assert_eq!(Addresses::numbered(3)[0].next().v4, Ipv4Addr::new(10, 77, 3, 11));
    }
}
