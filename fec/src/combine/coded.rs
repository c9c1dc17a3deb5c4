//! Copies with parity: codeword by codeword, and only as a whole against the check.

use super::CombineError;
use crate::rs::{Errors, Interleaved};

/// Most packets that are put together and checked.
const MAX_TRIES: usize = 256;

/// Combines copies, at least two, of a packet that was coded with `code`, data and parity each, into `out`.
///
/// Each codeword is looked for in several ways:
///
/// - corrected alone, in each copy and as the majority of the copies;
/// - with the symbols on which copies disagree as erasures, of which there may be as many as there is parity, where there
///   may be half as many errors;
/// - as a choice between two copies where they disagree, in up to 12 symbols of the codeword, for which its parity is the
///   check: no symbol may be wrong in both, but then it hardly matters how little parity there is.
///
/// What is found is ordered by how many symbols of the copies it contradicts. The best of each
/// codeword together are the packet, if `check`, which is given data and parity, says so; otherwise it is the one of up to
/// 256 other choices for which it does, if there is just one.
///
/// On an error `out` has nothing of use.
pub fn combine_coded(
    code: &Interleaved,
    copies: &[&[u8]],
    mut check: impl FnMut(&[u8]) -> bool,
    out: &mut Vec<u8>,
) -> Result<(), CombineError> {
    if copies.len() < 2 {
        return Err(CombineError::TooFew(copies.len()));
    }
    if copies.iter().any(|copy| copy.len() != code.coded_len()) {
        return Err(CombineError::Lengths);
    }
    let majority = majority(copies);
    let mut found = Vec::with_capacity(code.codewords());
    for codeword in 0..code.codewords() {
        let mut words = Words { code, codeword, copies, found: Vec::new() };
        copies.iter().for_each(|copy| words.look(copy, &[]));
        words.look(&majority, &[]);
        let disagreed: Vec<_> = code.positions(codeword).filter(|at| disagree(copies, *at)).collect();
        words.look(&majority, &disagreed);
        for (n, a) in copies.iter().enumerate() {
            copies[..n].iter().for_each(|b| words.choose(a, b));
        }
        words.found.sort_by_key(|word| word.against);
        if words.found.is_empty() {
            return Err(CombineError::TooDifferent);
        }
        found.push(words.found);
    }
    // What is least likely goes first.
    while found
        .iter()
        .map(Vec::len)
        .try_fold(1, |tries: usize, len| tries.checked_mul(len))
        .is_none_or(|n| n > MAX_TRIES)
    {
        let worst = |words: &&mut Vec<Word>| words.len() > 1;
        let margin = |words: &&mut Vec<Word>| words[words.len() - 1].against - words[0].against;
        found.iter_mut().filter(worst).max_by_key(margin).map(Vec::pop);
    }
    out.clear();
    out.extend_from_slice(&majority);
    let tries = found.iter().map(Vec::len).product();
    let mut chosen = None;
    for number in 0..tries {
        put(code, &found, number, out);
        if check(out) {
            if chosen.replace(number).is_some() {
                return Err(CombineError::Ambiguous);
            }
            if number == 0 {
                break;
            }
        }
    }
    put(code, &found, chosen.ok_or(CombineError::NoChoice)?, out);
    Ok(())
}

/// One codeword, as it may have been sent.
struct Word {
    symbols: Vec<u8>,
    /// Symbols of the copies that it contradicts.
    against: usize,
}

struct Words<'a> {
    code: &'a Interleaved,
    codeword: usize,
    copies: &'a [&'a [u8]],
    found: Vec<Word>,
}

impl Words<'_> {
    /// Corrects this codeword of a packet.
    fn look(&mut self, coded: &[u8], erased: &[usize]) {
        if let Some(errors) = self.code.errors_in(self.codeword, coded, erased) {
            self.add(coded, &errors);
        }
    }

    /// Chooses between two packets.
    fn choose(&mut self, a: &[u8], b: &[u8]) {
        self.code.choices(self.codeword, a, b).iter().for_each(|errors| self.add(a, errors));
    }

    fn add(&mut self, coded: &[u8], errors: &Errors) {
        let of = |packet: &[u8]| self.code.positions(self.codeword).map(|at| packet[at]).collect::<Vec<_>>();
        let mut symbols = of(coded);
        errors.correct(&mut symbols);
        if self.found.iter().any(|word| word.symbols == symbols) {
            return;
        }
        let differ = |copy: &&[u8]| of(copy).iter().zip(&symbols).filter(|(a, b)| a != b).count();
        let against = self.copies.iter().map(differ).sum();
        self.found.push(Word { symbols, against });
    }
}

/// Puts choice `number` into `out`; number 0 is the best word of each.
fn put(code: &Interleaved, found: &[Vec<Word>], mut number: usize, out: &mut [u8]) {
    for (codeword, words) in found.iter().enumerate() {
        let word = &words[number % words.len()];
        number /= words.len();
        code.positions(codeword).zip(&word.symbols).for_each(|(at, symbol)| out[at] = *symbol);
    }
}

/// The most frequent value of each byte, of several the first copy's.
fn majority(copies: &[&[u8]]) -> Vec<u8> {
    let mut majority = copies[0].to_vec();
    for at in (0..majority.len()).filter(|at| disagree(copies, *at)) {
        let votes = |value: u8| copies.iter().filter(|copy| copy[at] == value).count();
        let values = copies.iter().rev().map(|copy| copy[at]);
        majority[at] = values.max_by_key(|value| votes(*value)).unwrap_or(majority[at]);
    }
    majority
}

/// Whether not all copies have the same byte there.
fn disagree(copies: &[&[u8]], at: usize) -> bool {
    copies.iter().any(|copy| copy[at] != copies[0][at])
}
