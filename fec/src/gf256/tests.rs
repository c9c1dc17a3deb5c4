use proptest::prelude::*;

use super::tables::product;
use super::*;

/// `len` bytes in which every value comes up.
fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|n| ((n + seed) * 167 + (n + seed) / 256 * 31) as u8).collect()
}

#[test]
fn tables_agree_with_the_polynomial() {
    for a in 0..=255 {
        for b in 0..=255 {
            assert_eq!(mul(a, b), product(a, b), "{a} * {b}");
        }
        assert_eq!(mul(a, inverse(a)), u8::from(a != 0), "1 / {a}");
    }
    assert_eq!((exp(0), exp(1), exp(8), exp(254), exp(255)), (1, 2, 0x1d, inverse(2), 1));
    for i in [0, 1, 7, 254, 255] {
        let powers = (0..255).scan(1, |power, _| Some(std::mem::replace(power, product(*power, exp(i)))));
        assert!(POWERS[usize::from(i)].iter().copied().take(255).eq(powers), "powers of α^{i}");
    }
}

#[test]
fn every_kernel_multiplies_by_every_constant_at_any_length_and_alignment() {
    let src = bytes(400, 1);
    for kernel in Kernel::all() {
        for c in 0..=255 {
            for (offset, len) in
                [(0, 256), (1, 255), (3, 97), (5, 64), (7, 33), (0, 31), (2, 17), (1, 15), (0, 1), (9, 0)]
            {
                let mut dst = bytes(400, 2);
                let mut want = dst.clone();
                want[offset..offset + len].iter_mut().zip(&src[11..]).for_each(|(dst, src)| *dst ^= product(c, *src));
                kernel.mul_add(&mut dst[offset..offset + len], &src[11..], c);
                assert_eq!(dst, want, "{kernel:?}: {c}, {len} bytes at {offset}");
                want[offset..offset + len].iter_mut().for_each(|dst| *dst = product(c, *dst));
                kernel.mul(&mut dst[offset..offset + len], c);
                assert_eq!(dst, want, "{kernel:?}: times {c}, {len} bytes at {offset}");
            }
        }
    }
}

#[test]
fn nothing_is_nothing() {
    for kernel in Kernel::all() {
        kernel.product(&mut [], &[], &[]);
        kernel.product(&mut [], &[&[1, 2]], &[]);
        let mut dst = [7; 100];
        kernel.product(&mut [&mut dst], &[], &[]);
        kernel.product(&mut [&mut dst], &[&[1; 100]], &[]);
        kernel.product(&mut [&mut dst], &[&[]], &[3]);
        assert_eq!(dst, [7; 100]);
    }
}

proptest! {
    #[test]
    fn every_kernel_gives_the_product_of_matrices(
        rows in 0..10usize,
        lens in proptest::collection::vec(0..200usize, 0..70),
        dst_len in 0..200usize,
        even in any::<bool>(),
        seed in 0..256usize,
    ) {
        let lens: Vec<_> = lens.iter().map(|len| if even { dst_len } else { *len }).collect();
        let src: Vec<_> = lens.iter().enumerate().map(|(n, len)| bytes(*len, seed + 3 * n)).collect();
        let src: Vec<_> = src.iter().map(Vec::as_slice).collect();
        let coefficients = bytes(rows * src.len(), seed);
        let start: Vec<_> = (0..rows).map(|n| bytes(dst_len, seed + n)).collect();
        let mut want = start.clone();
        for (i, want) in want.iter_mut().enumerate() {
            for (j, src) in src.iter().enumerate() {
                let c = coefficients[i * lens.len() + j];
                want.iter_mut().zip(*src).for_each(|(dst, src)| *dst ^= product(c, *src));
            }
        }
        for kernel in Kernel::all() {
            let mut dst = start.clone();
            let mut rows: Vec<_> = dst.iter_mut().map(Vec::as_mut_slice).collect();
            kernel.product(&mut rows, &src, &coefficients);
            prop_assert_eq!(&dst, &want, "{:?}", kernel);
        }
    }
}
