//! Tables of the field, made by the compiler.

/// x^8 + x^4 + x^3 + x^2 + 1, in which x is primitive (RFC 5510 §8.1).
const POLYNOMIAL: u16 = 0x11d;

/// `EXP[n]` is α^n, for n up to 509, so that the sum of two logarithms needs no reduction.
pub(crate) static EXP: [u8; 512] = exp();

/// `LOG[a]` is n with α^n = a, for a other than 0. `LOG[0]` means nothing.
pub(crate) static LOG: [u8; 256] = log();

/// `PRODUCTS[c]`: the products of c and 0 to 15, then those of c and 0, 16, ..., 240. A product by c is one of each,
/// added: two lookups, or two byte shuffles of a vector (Plank, Greenan and Miller, "Screaming fast Galois field
/// arithmetic using Intel SIMD instructions", FAST 2013).
pub(crate) static PRODUCTS: [Products; 256] = products();

/// `POWERS[i][j]` is α^(ij), for j up to 254.
pub(crate) static POWERS: [[u8; 256]; 256] = powers();

/// Aligned, so that no table crosses a line of the cache.
#[repr(align(32))]
#[derive(Clone, Copy)]
pub(crate) struct Products(pub(crate) [u8; 32]);

const fn exp() -> [u8; 512] {
    let mut table = [0; 512];
    let mut value = 1u16;
    let mut n = 0;
    while n < 512 {
        table[n] = value as u8;
        value <<= 1;
        if value & 0x100 != 0 {
            value ^= POLYNOMIAL;
        }
        n += 1;
    }
    table
}

const fn log() -> [u8; 256] {
    let exp = exp();
    let mut table = [0; 256];
    let mut n = 0;
    while n < 255 {
        table[exp[n] as usize] = n as u8;
        n += 1;
    }
    table
}

const fn products() -> [Products; 256] {
    let mut tables = [Products([0; 32]); 256];
    let mut c = 0;
    while c < 256 {
        let mut n = 0;
        while n < 16 {
            tables[c].0[n] = product(c as u8, n as u8);
            tables[c].0[16 + n] = product(c as u8, (n as u8) << 4);
            n += 1;
        }
        c += 1;
    }
    tables
}

const fn powers() -> [[u8; 256]; 256] {
    let exp = exp();
    let mut table = [[0; 256]; 256];
    let mut i = 0;
    while i < 256 {
        let mut log = 0;
        let mut j = 0;
        while j < 256 {
            table[i][j] = exp[log];
            log = (log + i) % 255;
            j += 1;
        }
        i += 1;
    }
    table
}

/// By shifts and additions, which no table enters.
pub(super) const fn product(a: u8, b: u8) -> u8 {
    let (mut a, mut b, mut sum) = (a as u16, b, 0);
    while b != 0 {
        if b & 1 != 0 {
            sum ^= a;
        }
        a <<= 1;
        if a & 0x100 != 0 {
            a ^= POLYNOMIAL;
        }
        b >>= 1;
    }
    sum as u8
}
