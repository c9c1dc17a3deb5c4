//! The side that receives.

use std::collections::VecDeque;

use super::{Coefficients, LENGTH, Limits, MAX_PACKET, MAX_WINDOW, RepairHeader};
use crate::gf256::{Kernel, inverse};

/// Gets lost packets back from repairs.
///
/// What it keeps: of each packet of its window what arrived, and repairs that say something about packets that did not, as
/// a system of equations that is always solved as far as it goes (Gauss and Jordan's elimination, one equation at a time).
/// So a packet comes out with the very repair, or packet, that determines it. Repairs that cover nothing that is missing
/// are dropped on sight: without losses there is no arithmetic.
///
/// The window ends with the newest packet it has heard of, of itself or from a repair. Memory is bounded by its
/// [`Limits`]: 256 bytes for each repair that waits, of which there are no more than packets missing, come on top.
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    kernel: Kernel,
    /// Whether anything came.
    started: bool,
    /// The oldest number in the window, and the one after the newest.
    oldest: u32,
    next: u32,
    /// Symbols, without their zeros, at their numbers modulo [`MAX_WINDOW`].
    known: Vec<Option<Vec<u8>>>,
    equations: Vec<Equation>,
    /// Of `known` and `equations`.
    bytes: usize,
    /// Recovered and not given out.
    recovered: VecDeque<u32>,
    statistics: Statistics,
}

/// What a decoder has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets that came.
    pub packets: u64,
    /// Packets that were known when they came, from a copy or from repairs.
    pub duplicates: u64,
    /// Packets and repairs of packets that have left the window.
    pub late: u64,
    /// Repairs that came.
    pub repairs: u64,
    /// Of them, those that said nothing new.
    pub redundant: u64,
    /// What no encoder makes: repairs and packets of impossible lengths, contradictions, windows far ahead.
    pub refused: u64,
    /// Packets that came from repairs.
    pub recovered: u64,
}

/// The sum of `coefficients` times the symbols is `sum`.
#[derive(Debug)]
struct Equation {
    /// Place of the oldest packet in it: its coefficient is 1, and 0 in all other equations.
    pivot: usize,
    /// At the numbers modulo [`MAX_WINDOW`]. Only of packets that are missing.
    coefficients: [u8; MAX_WINDOW],
    sum: Vec<u8>,
}

impl Decoder {
    /// Of nothing yet: its window ends with the first packet or repair that comes.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            kernel: Kernel::best(),
            started: false,
            oldest: 0,
            next: 0,
            known: (0..MAX_WINDOW).map(|_| None).collect(),
            equations: Vec::new(),
            bytes: 0,
            recovered: VecDeque::new(),
            statistics: Statistics::default(),
        }
    }

    /// The same with this kernel, for tests and benchmarks.
    pub fn with_kernel(self, kernel: Kernel) -> Self {
        Self { kernel, ..self }
    }

    /// A packet came. Returns whether it was unknown: if not, it was given out before, or is too old to tell.
    pub fn handle_packet(&mut self, number: u32, packet: &[u8]) -> bool {
        let Ok(len) = u16::try_from(packet.len()) else {
            self.statistics.refused += 1;
            return false;
        };
        self.statistics.packets += 1;
        self.start_at(number);
        if ahead(number, self.next) {
            self.advance_to(number.wrapping_add(1));
        } else if ahead(self.oldest, number.wrapping_add(1)) {
            self.statistics.late += 1;
            return false;
        }
        if self.known[place(number)].is_some() {
            self.statistics.duplicates += 1;
            return false;
        }
        let mut symbol = Vec::with_capacity(LENGTH + packet.len());
        symbol.extend_from_slice(&len.to_be_bytes());
        symbol.extend_from_slice(packet);
        self.learn(number, symbol);
        self.bound();
        true
    }

    /// A repair came. Then [`Self::poll_recovered`] may have something.
    pub fn handle_repair(&mut self, header: RepairHeader, coded: &[u8]) {
        self.statistics.repairs += 1;
        let RepairHeader { first, count, key } = header;
        let lens = LENGTH..=LENGTH + MAX_PACKET;
        if count == 0 || u32::from(count) > self.limits.packets() || !lens.contains(&coded.len()) {
            self.statistics.refused += 1;
            return;
        }
        self.start_at(first);
        let end = first.wrapping_add(u32::from(count));
        if ahead(self.oldest, first.wrapping_add(1)) {
            self.statistics.late += 1;
            return;
        }
        if ahead(end, self.next) {
            // A packet may be anywhere, but a repair belongs to packets that are near.
            if end.wrapping_sub(self.next) > self.limits.packets() {
                self.statistics.refused += 1;
                return;
            }
            self.advance_to(end);
        }
        let numbers = (0..u32::from(count)).map(|n| first.wrapping_add(n));
        if numbers.clone().all(|number| self.known[place(number)].is_some()) {
            self.statistics.redundant += 1;
            return;
        }
        match self.equation(numbers, key, coded) {
            Some(equation) => self.insert(equation),
            None => self.statistics.refused += 1,
        }
        self.give_out();
        self.bound();
    }

    /// A packet that repairs brought back, and its number. Take all after each packet and each repair: what leaves the
    /// window is forgotten. They come in the order in which they became known.
    pub fn poll_recovered(&mut self) -> Option<(u32, &[u8])> {
        let number = self.recovered.pop_front()?;
        self.known[place(number)].as_deref().map(|symbol| (number, &symbol[LENGTH..]))
    }

    /// A packet of the window, if it came or was recovered.
    pub fn packet(&self, number: u32) -> Option<&[u8]> {
        let is_within = number.wrapping_sub(self.oldest) < self.next.wrapping_sub(self.oldest);
        self.known[place(number)].as_deref().filter(|_| is_within).map(|symbol| &symbol[LENGTH..])
    }

    /// Counts since the beginning.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Bytes that are kept, at most those of the limits; see [`Decoder`] for what comes on top.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn start_at(&mut self, number: u32) {
        if !self.started {
            // What was before it is missing, as far as the window goes: repairs may cover it.
            (self.started, self.oldest, self.next) = (true, number.wrapping_sub(self.limits.packets()), number);
        }
    }

    /// What a repair says about the packets that are missing. `None` if that cannot be.
    fn equation(&self, numbers: impl Iterator<Item = u32>, key: u16, coded: &[u8]) -> Option<Equation> {
        let mut equation = Equation { pivot: 0, coefficients: [0; MAX_WINDOW], sum: coded.to_vec() };
        let mut sources: [&[u8]; MAX_WINDOW] = [&[]; MAX_WINDOW];
        let mut factors = [0; MAX_WINDOW];
        let mut count = 0;
        for (number, coefficient) in numbers.zip(Coefficients::new(key)) {
            match &self.known[place(number)] {
                Some(symbol) if symbol.len() > coded.len() => return None,
                Some(symbol) => {
                    (sources[count], factors[count]) = (symbol, coefficient);
                    count += 1;
                }
                None => equation.coefficients[place(number)] = coefficient,
            }
        }
        self.kernel.product(&mut [&mut equation.sum[..]], &sources[..count], &factors[..count]);
        Some(equation)
    }

    /// Solves an equation as far as it goes, and the others by it.
    fn insert(&mut self, mut equation: Equation) {
        for other in &self.equations {
            let factor = equation.coefficients[other.pivot];
            equation.add(self.kernel, other, factor);
        }
        let mut numbers = (0..self.next.wrapping_sub(self.oldest)).map(|n| place(self.oldest.wrapping_add(n)));
        let Some(pivot) = numbers.find(|place| equation.coefficients[*place] != 0) else {
            let contradiction = equation.sum.iter().any(|byte| *byte != 0);
            self.statistics.refused += u64::from(contradiction);
            self.statistics.redundant += u64::from(!contradiction);
            return;
        };
        equation.pivot = pivot;
        let factor = inverse(equation.coefficients[pivot]);
        self.kernel.mul(&mut equation.coefficients, factor);
        self.kernel.mul(&mut equation.sum, factor);
        for other in &mut self.equations {
            let (factor, before) = (other.coefficients[pivot], other.sum.len());
            other.add(self.kernel, &equation, factor);
            self.bytes += other.sum.len() - before;
        }
        self.bytes += equation.sum.len();
        self.equations.push(equation);
    }

    fn remove(&mut self, at: usize) -> Equation {
        let equation = self.equations.swap_remove(at);
        self.bytes -= equation.sum.len();
        equation
    }

    /// A packet is not missing any more.
    fn learn(&mut self, number: u32, symbol: Vec<u8>) {
        let place = place(number);
        let mut without_pivot = None;
        let mut at = 0;
        while at < self.equations.len() {
            let equation = &mut self.equations[at];
            let factor = std::mem::take(&mut equation.coefficients[place]);
            if factor != 0 && symbol.len() > equation.sum.len() {
                self.statistics.refused += 1;
                self.remove(at);
                continue;
            }
            self.kernel.mul_add(&mut equation.sum, &symbol, factor);
            if factor != 0 && equation.pivot == place {
                without_pivot = Some(self.remove(at));
                continue;
            }
            at += 1;
        }
        self.bytes += symbol.len();
        self.known[place] = Some(symbol);
        if let Some(equation) = without_pivot {
            self.insert(equation);
        }
        self.give_out();
    }

    /// Moves what is solved from the equations to the packets.
    fn give_out(&mut self) {
        let mut at = 0;
        while at < self.equations.len() {
            if self.equations[at].coefficients.iter().filter(|c| **c != 0).count() > 1 {
                at += 1;
                continue;
            }
            let Equation { pivot, mut sum, .. } = self.remove(at);
            let len = sum.first_chunk().map_or(usize::MAX, |len| usize::from(u16::from_be_bytes(*len)));
            // Sums may be longer than the packet, but only by zeros.
            if len > sum.len() - LENGTH || sum[LENGTH + len..].iter().any(|byte| *byte != 0) {
                self.statistics.refused += 1;
                continue;
            }
            sum.truncate(LENGTH + len);
            sum.shrink_to_fit();
            self.bytes += sum.len();
            self.known[pivot] = Some(sum);
            let from_oldest = (pivot as u32).wrapping_sub(self.oldest) % MAX_WINDOW as u32;
            self.recovered.push_back(self.oldest.wrapping_add(from_oldest));
            self.statistics.recovered += 1;
        }
    }

    /// Moves the window's end forward, and its beginning if it has to.
    fn advance_to(&mut self, next: u32) {
        let oldest = next.wrapping_sub(self.limits.packets());
        if ahead(oldest, self.next) {
            // Nothing of the old window is in the new one.
            self.known.iter_mut().for_each(|known| *known = None);
            self.equations.clear();
            self.recovered.clear();
            self.bytes = 0;
            self.oldest = oldest;
        }
        while ahead(oldest, self.oldest.wrapping_add(1)) {
            self.forget_oldest();
        }
        self.next = next;
    }

    /// Lets go of the oldest packet.
    fn forget_oldest(&mut self) {
        let number = self.oldest;
        let place = place(number);
        self.oldest = number.wrapping_add(1);
        self.recovered.retain(|recovered| *recovered != number);
        if let Some(symbol) = self.known[place].take() {
            self.bytes -= symbol.len();
        } else if let Some(at) = self.equations.iter().position(|equation| equation.pivot == place) {
            // The only one that has it: pivots are the oldest of their equations, and in no other.
            self.remove(at);
        }
    }

    /// Lets go of what the limits have no room for.
    fn bound(&mut self) {
        while self.bytes > self.limits.bytes && self.oldest != self.next {
            self.forget_oldest();
        }
    }
}

impl Equation {
    /// Adds a multiple of another one.
    fn add(&mut self, kernel: Kernel, other: &Self, factor: u8) {
        if factor == 0 {
            return;
        }
        kernel.mul_add(&mut self.coefficients, &other.coefficients, factor);
        if self.sum.len() < other.sum.len() {
            self.sum.resize(other.sum.len(), 0);
        }
        kernel.mul_add(&mut self.sum, &other.sum, factor);
    }
}

/// Where a number has its place; numbers wrap at a multiple of it.
fn place(number: u32) -> usize {
    number as usize % MAX_WINDOW
}

/// Whether `a` is `b` or comes after it.
fn ahead(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) < 1 << 31
}
