//! Finding what is wrong with a codeword: syndromes, Berlekamp and Massey's algorithm with erasures, Chien's search,
//! Forney's formula (Blahut, "Algebraic Codes for Data Transmission", 2003, chapters 6 and 7).

use crate::gf256::{Kernel, LOG, POWERS, exp, inverse, mul};

/// What to add to a codeword.
pub(crate) struct Errors {
    count: usize,
    /// Powers of x, and values other than 0.
    list: [(u8, u8); 255],
}

impl Errors {
    pub fn iter(&self) -> impl Iterator<Item = (u8, u8)> {
        self.list[..self.count].iter().copied()
    }

    /// Corrects the symbols of a codeword.
    pub fn correct(&self, symbols: &mut [u8]) {
        let last = symbols.len() - 1;
        self.iter().for_each(|(power, value)| symbols[last - usize::from(power)] ^= value);
    }

    fn push(&mut self, power: usize, value: u8) {
        if value != 0 {
            self.list[self.count] = (power as u8, value);
            self.count += 1;
        }
    }
}

/// A polynomial, the constant term first.
type Polynomial = [u8; 256];

/// What is wrong with a codeword of `len` symbols, whose remainder by the generator is `remainder`, the highest power
/// first, and in which the powers of x that `erased` has, each once, are doubtful. `None` if there are more errors than can be
/// found: with t the length of `remainder`, more than (t - erasures) / 2.
pub(super) fn decode(remainder: &[u8], len: usize, erased: &[u8]) -> Option<Errors> {
    let parity = remainder.len();
    let mut errors = Errors { count: 0, list: [(0, 0); 255] };
    if remainder.iter().all(|symbol| *symbol == 0) {
        return Some(errors);
    }
    let kernel = Kernel::best();
    let syndromes = syndromes(kernel, remainder);
    let (locator, degree) = locator(kernel, &syndromes[..parity], erased)?;
    let evaluator = evaluator(&syndromes[..parity], &locator[..=degree]);
    let mut root = |power: usize| {
        let at = exp(((255 - power) % 255) as u8);
        errors.push(power, mul(value(&evaluator[..degree], at), inverse(slope(&locator[..=degree], at))));
    };
    if degree == 1 {
        let power = usize::from(LOG[usize::from(locator[1])]);
        (power < len).then(|| root(power))?;
        return Some(errors);
    }
    let values = values(kernel, &locator[..=degree]);
    let mut roots = 0;
    for power in (0..len).filter(|power| values[(255 - power) % 255] == 0) {
        root(power);
        roots += 1;
    }
    (roots == degree).then_some(errors)
}

/// Most symbols between whose values [`choices`] chooses, and most choices that it gives.
pub(super) const MAX_CHOICES: usize = 12;
const MAX_FOUND: usize = 4;

/// Which of the changes, powers of x and what to add there, together make a codeword of one with this remainder. All
/// subsets in the order of a Gray code, each by one addition, since syndromes are linear; by 16 syndromes at most, for
/// more the packet's check has the last word.
pub(super) fn choices(remainder: &[u8], changes: &[(u8, u8)]) -> Vec<Errors> {
    let mut found = Vec::new();
    if changes.len() > MAX_CHOICES {
        return found;
    }
    let count = remainder.len().min(16);
    let mut effects = [0; MAX_CHOICES];
    for (effect, (power, value)) in effects.iter_mut().zip(changes) {
        let syndromes = POWERS[usize::from(*power)][1..=count].iter().map(|root| mul(*root, *value));
        *effect = syndromes.fold(0, |word, syndrome| word << 8 | u128::from(syndrome));
    }
    let start = syndromes(Kernel::best(), remainder);
    let mut left = start[..count].iter().fold(0, |word, syndrome| word << 8 | u128::from(*syndrome));
    let mut taken = 0u32;
    for step in 1..=1u32 << changes.len() {
        if left == 0 {
            let mut errors = Errors { count: 0, list: [(0, 0); 255] };
            let taken = changes.iter().enumerate().filter(|(n, _)| taken >> n & 1 != 0);
            taken.for_each(|(_, (power, value))| errors.push(usize::from(*power), *value));
            found.push(errors);
            if found.len() == MAX_FOUND {
                break;
            }
        }
        if let Some(effect) = effects[..changes.len()].get(step.trailing_zeros() as usize) {
            left ^= effect;
            taken ^= 1 << step.trailing_zeros();
        }
    }
    found
}

/// The values at α, α², ..., of which there are as many as the remainder has symbols: those of the remainder are those
/// of the codeword.
fn syndromes(kernel: Kernel, remainder: &[u8]) -> Polynomial {
    let mut syndromes = [0; 256];
    let parity = remainder.len();
    for (power, symbol) in remainder.iter().rev().enumerate().filter(|(_, symbol)| **symbol != 0) {
        kernel.mul_add(&mut syndromes[..parity], &POWERS[power][1..=parity], *symbol);
    }
    syndromes
}

/// The polynomial whose roots are the inverses of the places that are wrong or erased, and its degree.
fn locator(kernel: Kernel, syndromes: &[u8], erased: &[u8]) -> Option<(Polynomial, usize)> {
    let parity = syndromes.len();
    let mut locator = [0; 256];
    locator[0] = 1;
    let erasures = erased.len();
    if erasures > parity {
        return None;
    }
    for (before, power) in erased.iter().enumerate() {
        for n in (1..=before + 1).rev() {
            locator[n] ^= mul(locator[n - 1], exp(*power));
        }
    }
    let mut degree = erasures;
    let mut before = locator;
    for n in erasures..parity {
        before.copy_within(..parity, 1);
        before[0] = 0;
        let discrepancy = (0..=degree.min(n)).fold(0, |sum, i| sum ^ mul(locator[i], syndromes[n - i]));
        if discrepancy == 0 {
            continue;
        }
        let last = locator;
        kernel.mul_add(&mut locator[..=parity], &before[..=parity], discrepancy);
        if 2 * degree <= n + erasures {
            degree = n + 1 + erasures - degree;
            before = last;
            kernel.mul(&mut before[..=parity], inverse(discrepancy));
        }
    }
    let top = locator[..=parity].iter().rposition(|coefficient| *coefficient != 0)?;
    (top == degree && degree > 0 && 2 * (degree - erasures) <= parity - erasures).then_some((locator, degree))
}

/// Syndromes times locator, below the degree of the locator; above it there is nothing if all is well.
fn evaluator(syndromes: &[u8], locator: &[u8]) -> Polynomial {
    let mut product = [0; 256];
    for n in 0..locator.len() - 1 {
        product[n] = (0..=n).fold(0, |sum, i| sum ^ mul(locator[i], syndromes[n - i]));
    }
    product
}

/// The values at α^0, α^1, ..., α^254.
fn values(kernel: Kernel, polynomial: &[u8]) -> Polynomial {
    let mut values = [0; 256];
    polynomial.iter().zip(&POWERS).for_each(|(coefficient, powers)| kernel.mul_add(&mut values, powers, *coefficient));
    values
}

fn value(polynomial: &[u8], at: u8) -> u8 {
    polynomial.iter().rev().fold(0, |sum, coefficient| mul(sum, at) ^ coefficient)
}

/// The derivative's value: in this field only odd powers have one.
fn slope(polynomial: &[u8], at: u8) -> u8 {
    let square = mul(at, at);
    let odd = polynomial.iter().skip(1).step_by(2);
    odd.rev().fold(0, |sum, coefficient| mul(sum, square) ^ coefficient)
}
