use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::code::generator;
use super::layout::Layout;
use super::*;
use crate::gf256::{exp, mul};

/// The layout by its description, as lists of places.
fn codewords(n: usize, words: usize) -> Vec<Vec<usize>> {
    let fits = |d: &usize| n.div_ceil(*d) + 2 * (2 * words).div_ceil(*d) <= 255;
    let depth = (1..).find(fits).unwrap();
    let mut codewords: Vec<Vec<usize>> = (0..depth).map(|c| (c..n).step_by(depth).collect()).collect();
    let share = |c: usize| 2 * (2 * words / depth) + if c < 2 * words % depth { 2 } else { 0 };
    let mut at = n;
    for round in 0..255 {
        for (c, codeword) in codewords.iter_mut().enumerate().filter(|(c, _)| round < share(*c)) {
            codeword.push(at);
            at += 1;
            assert!(codeword.len() <= 255, "codeword {c}");
        }
    }
    assert_eq!(at, n + 4 * words);
    codewords
}

/// Parity by schoolbook division.
fn parity(data: &[u8], parity: usize) -> Vec<u8> {
    let generator = generator(parity);
    let mut rest = [data, &vec![0; parity]].concat();
    for n in 0..data.len() {
        let factor = rest[n];
        for (m, g) in generator.iter().rev().enumerate() {
            rest[n + m] ^= mul(factor, *g);
        }
    }
    rest[data.len()..].to_vec()
}

fn random(len: usize, rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rng.fill_bytes(&mut bytes);
    bytes
}

fn encoded(code: &Interleaved, rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut coded = random(code.coded_len(), rng);
    let (data, parity) = coded.split_at_mut(code.data_len());
    code.encode(data, parity).unwrap();
    coded
}

/// So many different numbers below `end`.
fn choose(count: usize, end: usize, rng: &mut ChaCha8Rng) -> Vec<usize> {
    let mut all: Vec<usize> = (0..end).collect();
    for n in 0..count {
        let other = n + rng.next_u32() as usize % (end - n);
        all.swap(n, other);
    }
    all.truncate(count);
    all
}

#[test]
fn generators_have_their_roots() {
    for parity in [0, 2, 4, 32, 254] {
        let generator = generator(parity);
        assert_eq!((generator.len(), generator[parity]), (parity + 1, 1));
        for root in 1..=parity as u8 {
            assert_eq!(generator.iter().rev().fold(0, |sum, g| mul(sum, exp(root)) ^ g), 0);
        }
    }
    // (x - 2) (x - 4)
    assert_eq!(generator(2), [8, 6, 1]);
}

#[test]
fn layout_is_as_described() {
    let lens = [0, 1, 2, 40, 251, 252, 253, 254, 255, 256, 1460, 1500, 9000, MAX_DATA];
    for (n, words) in lens.into_iter().flat_map(|n| [1, 2, 8, 16, 63, 64, 96, 511].map(|words| (n, words))) {
        let layout = Layout::new(n, words).unwrap();
        let described = codewords(n, usize::from(words));
        assert_eq!(layout.depth, described.len(), "{n} and {words}");
        for (c, positions) in described.iter().enumerate() {
            assert_eq!(layout.len(c), positions.len());
            for (symbol, position) in positions.iter().enumerate() {
                assert_eq!(layout.position(c, symbol), *position, "{n} and {words}");
                assert_eq!(layout.symbol_at(*position), Some((c, symbol)), "{n} and {words}");
            }
        }
        assert_eq!(layout.symbol_at(n + 4 * usize::from(words)), None);
        let kinds: Vec<_> = layout.kinds().collect();
        assert_eq!(kinds.iter().map(|(_, _, count)| count).sum::<usize>(), layout.depth);
        assert_eq!(kinds.iter().map(|(len, _, count)| len * count).sum::<usize>(), n + 4 * usize::from(words));
    }
}

/// What another implementation gives, written from the description in another language.
#[test]
fn parity_on_the_wire() {
    let parity = |data: &[u8], words| {
        let code = Interleaved::new(data.len(), words).unwrap();
        let mut parity = vec![0; code.parity_len()];
        code.encode(data, &mut parity).unwrap();
        parity
    };
    assert_eq!(parity(&(0..20).collect::<Vec<_>>(), 1), [0x03, 0xaa, 0xbd, 0x10]);
    // Three codewords, of which the first has four symbols of parity and the others two.
    let data: Vec<_> = (0..600).map(|n| (7 * n + n / 256) as u8).collect();
    assert_eq!(parity(&data, 2), [0xa4, 0x36, 0xc3, 0x79, 0x08, 0xbf, 0x42, 0x2f]);
}

#[test]
fn what_there_is_no_code_for() {
    assert_eq!(Interleaved::new(MAX_DATA + 1, 1).unwrap_err(), LayoutError::Data(MAX_DATA + 1));
    assert_eq!(Interleaved::new(10, MAX_WORDS + 1).unwrap_err(), LayoutError::Words(MAX_WORDS + 1));
    let code = Interleaved::new(10, 1).unwrap();
    assert_eq!(code.encode(&[0; 9], &mut [0; 4]), Err(LengthError { given: 9, wanted: 10 }));
    assert_eq!(code.encode(&[0; 10], &mut [0; 5]), Err(LengthError { given: 5, wanted: 4 }));
    assert_eq!(code.correct(&mut [0; 13]), Err(LengthError { given: 13, wanted: 14 }.into()));
    let none = Interleaved::new(10, 0).unwrap();
    assert_eq!((none.codewords(), none.parity_len(), none.codeword_of(3)), (0, 0, None));
    assert_eq!(none.correct(&mut [7; 10]), Ok(Corrected { symbols: 0 }));
}

#[test]
fn parity_is_that_of_long_division() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for (n, words) in
        [(0, 1), (1, 1), (7, 1), (200, 3), (251, 1), (1460, 4), (1460, 8), (1500, 8), (1500, 96), (300, 511)]
    {
        let code = Interleaved::new(n, words).unwrap();
        let coded = encoded(&code, &mut rng);
        for (c, positions) in codewords(n, usize::from(words)).iter().enumerate() {
            let symbols: Vec<u8> = positions.iter().map(|position| coded[*position]).collect();
            let data = code.layout.data(c);
            assert_eq!(
                symbols[data..],
                parity(&symbols[..data], symbols.len() - data),
                "{n} and {words}, codeword {c}"
            );
        }
    }
}

/// Up to the bound of each codeword everything is corrected, errors and erasures mixed as they come.
#[test]
fn corrects_up_to_the_bound() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for (n, words) in [(0, 1), (5, 1), (251, 1), (100, 4), (1460, 4), (1460, 16), (1500, 96), (300, 511), (9000, 20)] {
        let code = Interleaved::new(n, words).unwrap();
        for _ in 0..20 {
            let coded = encoded(&code, &mut rng);
            let (mut damaged, mut erased, mut wrong) = (coded.clone(), Vec::new(), 0);
            for (c, positions) in codewords(n, usize::from(words)).iter().enumerate() {
                let parity = code.layout.parity(c);
                let erasures = rng.next_u32() as usize % (parity + 1);
                let errors = (parity - erasures) / 2;
                for (m, at) in choose(erasures + errors, positions.len(), &mut rng).into_iter().enumerate() {
                    let flip = if m < erasures { rng.next_u32() as u8 } else { 1 + (rng.next_u32() % 255) as u8 };
                    damaged[positions[at]] ^= flip;
                    wrong += usize::from(flip != 0);
                    erased.extend((m < erasures).then_some(positions[at]));
                }
            }
            erased.extend([0, usize::MAX, code.coded_len()].iter().filter(|at| code.codeword_of(**at).is_none()));
            assert_eq!(code.correct_erased(&mut damaged, &erased), Ok(Corrected { symbols: wrong }), "{n} and {words}");
            assert_eq!(damaged, coded);
        }
    }
}

#[test]
fn a_burst_is_dealt_out() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let code = Interleaved::new(1460, 8).unwrap();
    assert_eq!(code.codewords(), 6);
    let coded = encoded(&code, &mut rng);
    // Two wrong symbols in each of six codewords, wherever it begins.
    for start in 0..code.coded_len() - 12 {
        let mut damaged = coded.clone();
        damaged[start..start + 12].iter_mut().for_each(|byte| *byte = !*byte);
        assert_eq!(code.correct(&mut damaged), Ok(Corrected { symbols: 12 }), "from {start}");
        assert_eq!(damaged, coded);
    }
}

#[test]
fn what_cannot_be_corrected_is_left_and_the_rest_corrected() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let code = Interleaved::new(1396, 16).unwrap();
    assert_eq!(code.codewords(), 6);
    let coded = encoded(&code, &mut rng);
    let mut refused = 0;
    for _ in 0..200 {
        let mut damaged = coded.clone();
        // Codeword 2 beyond repair, codeword 3 with one error.
        (0..40).for_each(|n| damaged[2 + 6 * n] = rng.next_u32() as u8);
        let hopeless = damaged.clone();
        damaged[3] ^= 1;
        if let Err(error) = code.correct(&mut damaged) {
            assert_eq!(error, CorrectError::Uncorrectable { codewords: 1, symbols: 1 });
            assert_eq!(damaged, hopeless);
            refused += 1;
        }
    }
    // t = 5 or 6: one of 120 at most is taken for another codeword.
    assert!(refused >= 190, "{refused}");
}

/// The study that set the targets dealt parity out one symbol at a time, to 6 codewords of a block of 1460 bytes, parity
/// included; in pairs it does better.
#[test]
fn residual_is_that_of_the_study_and_better() {
    for (words, study) in [(4, 9.6e-2), (8, 4.3e-3), (12, 1.1e-5), (16, 3.6e-7)] {
        let right = 8.0 * f64::ln_1p(-1e-4);
        let kinds = (0..6).map(|c| ((1460 + 5 - c) / 6, (4 * words + 5 - c) / 6));
        let kinds = kinds.map(|(len, parity)| (-residual::tail(len, parity / 2, right)).ln_1p());
        let single = -kinds.sum::<f64>().exp_m1();
        let ours = residual(1460 - 4 * words, words as u16, 1e-4);
        println!("{words} words: {study:e} in the study, {single:.3e} one symbol at a time, {ours:.3e} ours");
        assert!((single / study - 1.0).abs() < 0.05, "{words} words: {single}");
        assert!(ours < single * 1.01, "{words} words: {ours}");
    }
}

#[test]
fn residual_at_its_limits() {
    assert_eq!((residual(1460, 8, 0.0), residual(1460, 0, 0.0), residual(0, 0, 0.5)), (0.0, 0.0, 0.0));
    assert_eq!((residual(1460, 8, 1.0), residual(1460, 0, 1.0)), (1.0, 1.0));
    for ber in [-1.0, 1.1, f64::NAN, f64::INFINITY] {
        assert_eq!(residual(1460, 8, ber), 1.0, "{ber}");
    }
    assert_eq!(residual(MAX_DATA + 1, 8, 0.0), 1.0);
    // Without parity all bits have to be right; with a word of it one byte of five may be wrong.
    assert!((residual(100, 0, 1e-3) - (1.0 - 0.999_f64.powi(800))).abs() < 1e-12);
    let right = 0.99_f64.powi(8);
    let five = right.powi(5) + 5.0 * right.powi(4) * (1.0 - right);
    let five = five + 10.0 * right.powi(3) * (1.0 - right).powi(2);
    assert!((residual(1, 1, 0.01) - (1.0 - five)).abs() < 1e-12);
    // Far below what 1 - x can tell apart from 1.
    assert!(residual(1400, 32, 1e-5) > 0.0 && residual(1400, 32, 1e-5) < 1e-20);
    assert_eq!(words_for(1460, 0.0, 0.0), Some(0));
    assert_eq!(words_for(1460, 0.4, 1e-3), None);
    let words = words_for(1460, 1e-4, 1e-3).unwrap();
    assert!(residual(1460, words, 1e-4) <= 1e-3 && residual(1460, words - 1, 1e-4) > 1e-3);
    println!("1460 bytes at 1e-4: {words} words for 1e-3, {:?} for 1e-6", words_for(1460, 1e-4, 1e-6));
}

/// Real packets with real errors fail as often as the formula says, within three standard deviations.
#[test]
fn simulation_agrees_with_the_formula() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for (words, ber, packets) in [(4, 1e-4, 4_000), (8, 1e-4, 20_000), (12, 3e-4, 20_000), (16, 1e-3, 1_000)] {
        let code = Interleaved::new(1460 - 4 * usize::from(words), words).unwrap();
        let coded = encoded(&code, &mut rng);
        let bits = 8 * coded.len() as u64;
        let (mut failures, mut at, mut damaged) = (0, 0, coded.clone());
        for packet in 0..packets {
            // Gaps between independent errors are geometric.
            loop {
                let uniform = (f64::from(rng.next_u32()) + 0.5) / 2f64.powi(32);
                let next = at + (uniform.ln() / f64::ln_1p(-ber)) as u64;
                if next >= (packet + 1) * bits {
                    break;
                }
                damaged[(next % bits / 8) as usize] ^= 1 << (next % 8);
                at = next + 1;
            }
            at = (packet + 1) * bits;
            failures += u32::from(code.correct(&mut damaged).is_err() || damaged != coded);
            damaged.copy_from_slice(&coded);
        }
        let expected = packets as f64 * code.residual(ber);
        println!("{words} words at {ber:e}: {failures} of {packets} fail, {expected:.1} expected");
        assert!((f64::from(failures) - expected).abs() <= 3.0 * expected.sqrt() + 1.0, "{words} words");
    }
}

proptest! {
    /// Whatever comes in: no panic, and what is called corrected is a codeword.
    #[test]
    fn what_is_corrected_is_a_codeword(
        n in 0..700usize,
        words in 0..40u16,
        noise in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..20),
        erased in proptest::collection::vec(0..900usize, 0..20),
        seed in any::<u64>(),
    ) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let code = Interleaved::new(n, words).unwrap();
        let coded = encoded(&code, &mut rng);
        let mut damaged = coded.clone();
        if !coded.is_empty() {
            noise.iter().for_each(|(at, value)| damaged[at.index(coded.len())] ^= value);
        }
        let before = damaged.clone();
        match code.correct_erased(&mut damaged, &erased) {
            Ok(corrected) => {
                prop_assert_eq!(corrected.symbols, damaged.iter().zip(&before).filter(|(a, b)| a != b).count());
                let mut parity = vec![0; code.parity_len()];
                code.encode(&damaged[..n], &mut parity).unwrap();
                prop_assert_eq!(&parity, &damaged[n..]);
            }
            Err(CorrectError::Uncorrectable { codewords, symbols }) => {
                prop_assert!(0 < codewords && codewords <= code.codewords());
                prop_assert_eq!(symbols, damaged.iter().zip(&before).filter(|(a, b)| a != b).count());
            }
            Err(error) => prop_assert!(false, "{}", error),
        }
    }

    #[test]
    fn residual_is_a_chance_and_grows_with_the_error_rate(
        n in 0..3000usize,
        words in 0..100u16,
        low in 0.0..0.02f64,
        more in 0.0..0.02f64,
    ) {
        let (low, high) = (residual(n, words, low), residual(n, words, low + more));
        prop_assert!((0.0..=1.0).contains(&low) && low <= high + 1e-12 && high <= 1.0);
    }
}
