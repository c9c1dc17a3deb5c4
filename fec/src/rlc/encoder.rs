//! The side that sends.

use std::collections::VecDeque;

use thiserror::Error;

use super::{Coefficients, Limits, MAX_PACKET, MAX_WINDOW, RepairHeader};
use crate::gf256::Kernel;

/// Numbers packets and makes repairs of the last ones.
#[derive(Debug)]
pub struct Encoder {
    limits: Limits,
    kernel: Kernel,
    /// Symbols without their zeros, the newest last.
    window: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Number of the next packet.
    next: u32,
    /// Key of the next repair.
    key: u16,
    /// A buffer of a packet that has left the window.
    spare: Vec<u8>,
}

/// A packet is longer than [`MAX_PACKET`].
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("a packet of {0} bytes is longer than {MAX_PACKET}")]
pub struct TooLong(pub usize);

impl Encoder {
    /// The first packet will have the number `first`.
    pub fn new(limits: Limits, first: u32) -> Self {
        let (window, spare) = (VecDeque::new(), Vec::new());
        Self { limits, kernel: Kernel::best(), window, bytes: 0, next: first, key: 0, spare }
    }

    /// The same with this kernel, for tests and benchmarks.
    pub fn with_kernel(self, kernel: Kernel) -> Self {
        Self { kernel, ..self }
    }

    /// Takes a packet into the window, which lets go of the oldest if it has to, and returns its number. It is kept
    /// whatever its length, alone if need be.
    pub fn push(&mut self, packet: &[u8]) -> Result<u32, TooLong> {
        let Some(len) = u16::try_from(packet.len()).ok() else { return Err(TooLong(packet.len())) };
        let mut symbol = std::mem::take(&mut self.spare);
        symbol.clear();
        symbol.extend_from_slice(&len.to_be_bytes());
        symbol.extend_from_slice(packet);
        self.bytes += symbol.len();
        self.window.push_back(symbol);
        while self.window.len() > self.limits.packets() as usize
            || self.bytes > self.limits.bytes && self.window.len() > 1
        {
            self.pop();
        }
        let number = self.next;
        self.next = number.wrapping_add(1);
        Ok(number)
    }

    /// Number of the next packet.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Packets in the window.
    pub fn window(&self) -> usize {
        self.window.len()
    }

    /// Lets go of packets before this number: they have arrived, or are of no use any more.
    pub fn forget_before(&mut self, number: u32) {
        // Distances, since numbers wrap.
        while self.next.wrapping_sub(number) < self.window.len() as u32 {
            self.pop();
        }
    }

    /// Writes a repair of the whole window to `coded`, in place of what was there. `None` if the window is empty.
    pub fn repair(&mut self, coded: &mut Vec<u8>) -> Option<RepairHeader> {
        self.repair_of(MAX_WINDOW, coded)
    }

    /// The same of the last `count` packets, or of all if they are fewer.
    pub fn repair_of(&mut self, count: usize, coded: &mut Vec<u8>) -> Option<RepairHeader> {
        let count = count.min(self.window.len());
        self.repair_between(self.next.wrapping_sub(count as u32), self.next, coded)
    }

    /// The same of the packets from `first` on and before `end`, as far as they are in the window. For packets that are
    /// known to be lost: a repair of one packet is that packet again.
    pub fn repair_between(&mut self, first: u32, end: u32, coded: &mut Vec<u8>) -> Option<RepairHeader> {
        // Distances, since numbers wrap.
        if end.wrapping_sub(first) > u32::MAX / 2 {
            return None;
        }
        let back = |number: u32| self.next.wrapping_sub(number) as usize;
        let len = self.window.len();
        let (from, to) = (len - back(first).min(len), len.checked_sub(back(end))?);
        let symbols = self.window.range(from..to.max(from));
        let longest = symbols.clone().map(Vec::len).max()?;
        let count = symbols.len();
        let key = self.key;
        self.key = key.wrapping_add(1);
        coded.clear();
        coded.resize(longest, 0);
        let mut sources: [&[u8]; MAX_WINDOW] = [&[]; MAX_WINDOW];
        let mut coefficients = [0; MAX_WINDOW];
        for (n, (symbol, coefficient)) in symbols.zip(Coefficients::new(key)).enumerate() {
            (sources[n], coefficients[n]) = (symbol, coefficient);
        }
        self.kernel.product(&mut [&mut coded[..]], &sources[..count], &coefficients[..count]);
        Some(RepairHeader { first: self.next.wrapping_sub((len - from) as u32), count: count as u16, key })
    }

    fn pop(&mut self) {
        if let Some(symbol) = self.window.pop_front() {
            self.bytes -= symbol.len();
            self.spare = symbol;
        }
    }
}
