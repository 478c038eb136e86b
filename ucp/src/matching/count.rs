//! What a matching engine can count while it works: pointers followed, depths of searches, lengths
//! of queues, bytes of structure.
//!
//! Engines are generic over [`Count`]. With [`Off`] nothing of it is in the program; with [`Tally`]
//! the figures are those by which J. A. Zounmevo's thesis (Queen's University 2014, chapter 4)
//! compares message queues.

use std::fmt::Debug;

/// The two queues of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// Posted receives that wait.
    Posted,
    /// Messages that wait.
    Unexpected,
}

/// What is called with what an engine does.
pub trait Count: Default + Debug + Send {
    /// `pointers` were followed.
    fn visit(&mut self, pointers: u32);
    /// A search of `queue`, which had `length` entries, is over.
    fn searched(&mut self, queue: QueueKind, length: usize);
    /// `bytes` of structure beside the entries came into use.
    fn allocated(&mut self, bytes: usize);
    /// `bytes` of structure beside the entries went out of use.
    fn freed(&mut self, bytes: usize);
}

/// Counts nothing and costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Off;

impl Count for Off {
    #[inline(always)]
    fn visit(&mut self, _: u32) {}
    #[inline(always)]
    fn searched(&mut self, _: QueueKind, _: usize) {}
    #[inline(always)]
    fn allocated(&mut self, _: usize) {}
    #[inline(always)]
    fn freed(&mut self, _: usize) {}
}

/// Searches of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Searches {
    /// How many there were.
    pub searches: u64,
    /// Pointers followed in all of them.
    pub visits: u64,
    /// Most pointers followed in one.
    pub deepest: u64,
    /// Lengths of the queue at each search, added up.
    pub lengths: u64,
    /// Greatest length at a search (the thesis's MQL).
    pub longest: u64,
}

/// Counts everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Searches among posted receives.
    pub posted: Searches,
    /// Searches among waiting messages.
    pub unexpected: Searches,
    /// Pointers followed in the last finished search.
    pub last: u64,
    /// Bytes of structure in use beside the entries.
    pub bytes: u64,
    /// Most bytes of structure at any time.
    pub peak_bytes: u64,
    /// Bytes of structure at each search, added up.
    pub sum_bytes: u64,
    visits: u64,
}

impl Tally {
    /// Bytes of structure at the average search.
    pub fn average_bytes(&self) -> f64 {
        self.sum_bytes as f64 / (self.posted.searches + self.unexpected.searches).max(1) as f64
    }
}

impl Count for Tally {
    fn visit(&mut self, pointers: u32) {
        self.visits += u64::from(pointers);
    }

    fn searched(&mut self, queue: QueueKind, length: usize) {
        self.last = std::mem::take(&mut self.visits);
        self.sum_bytes += self.bytes;
        let of = match queue {
            QueueKind::Posted => &mut self.posted,
            QueueKind::Unexpected => &mut self.unexpected,
        };
        of.searches += 1;
        of.visits += self.last;
        of.deepest = of.deepest.max(self.last);
        of.lengths += length as u64;
        of.longest = of.longest.max(length as u64);
    }

    fn allocated(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.peak_bytes = self.peak_bytes.max(self.bytes);
    }

    fn freed(&mut self, bytes: usize) {
        self.bytes -= bytes as u64;
    }
}
