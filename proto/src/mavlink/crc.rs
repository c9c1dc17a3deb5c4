//! CRC-16/MCRF4XX, MAVLink's frame checksum.

/// The checksum of `bytes`, in reading order, then of `seed` (a message's CRC_EXTRA).
pub(super) fn checksum(bytes: &[u8], seed: u8) -> u16 {
    step(bytes.iter().fold(0xffff, |crc, &byte| step(crc, byte)), seed)
}

fn step(crc: u16, byte: u8) -> u16 {
    (crc >> 8) ^ TABLE[usize::from((crc as u8) ^ byte)]
}

/// Polynomial 0x1021, reflected.
static TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u16;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x8408 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_value_of_the_catalogue() {
        // CRC-16/MCRF4XX of "123456789" is 0x6f91; the seed is one more byte.
        assert_eq!(checksum(b"12345678", b'9'), 0x6f91);
    }
}
