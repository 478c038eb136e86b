//! What happened, as a number that two equal runs share, and as text for a person who reads one.

use std::collections::VecDeque;

/// A kind of entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mark {
    Open = 1,
    Post,
    Refuse,
    Ask,
    Depart,
    Arrive,
    Lose,
    Duplicate,
    Apply,
    Deliver,
    Complete,
    Fail,
    Kill,
    Close,
    Choice,
}

/// Entries so far.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    kept: usize,
    lines: VecDeque<String>,
}

impl Trace {
    /// Keeps the last `kept` entries as text.
    pub(crate) const fn new(kept: usize) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, kept, lines: VecDeque::new() }
    }

    /// Adds an entry. `detail` must not depend on an address of memory.
    pub(crate) fn note(&mut self, at: u64, mark: Mark, from: u32, to: u32, detail: [u64; 2]) {
        for word in [at, mark as u64, u64::from(from) << 32 | u64::from(to), detail[0], detail[1]] {
            // FNV-1a over words, with a shift since words carry much in their upper halves.
            self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
            self.hash ^= self.hash >> 29;
        }
        if self.kept == 0 {
            return;
        }
        if self.lines.len() == self.kept {
            self.lines.pop_front();
        }
        let [first, second] = detail;
        self.lines.push_back(format!("{at:>12} ns  {mark:?} {from} -> {to}  {first} {second:#x}"));
    }

    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.iter().cloned().collect()
    }
}
