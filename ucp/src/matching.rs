//! Matching of arrivals with receives, by source and tag within one space.
//!
//! A matching engine keeps two queues of the same kind of entry: receives that were posted and
//! wait (the PRQ) and messages that arrived and wait (the UMQ). Its rules are those of the MPI
//! standard (section "Semantics of Point-to-Point Communication"): an arrival takes the first
//! posted receive that fits it, a receive takes the first arrival that fits it. Engines differ in
//! how they search, never in what they find.
//!
//! | engine | search | for |
//! |---|---|---|
//! | [`ListEngine`] | from the oldest entry on | short queues; the reference |
//! | [`Indexed`]`<`[`ArrayIndex`]`>` | a slot for each rank | comparison: memory grows with the ranks |
//! | [`Indexed`]`<`[`CubeIndex`]`>` | four dimensions of rank | many ranks, little memory |
//! | [`Indexed`]`<`[`TreeIndex`]`>` | as many dimensions as pay | many ranks, memory bounded by them |
//! | [`Indexed`]`<`[`HashIndex`]`>` | a hash of rank and tag | many tags |
//! | [`Grown`] | a list first, one of the others when searches become long | everything |
//!
//! [`Engine`] is the one that a space has: a [`Grown`] whose index is chosen by [`EngineKind`].

mod any;
mod chains;
mod choice;
mod count;
mod grown;
mod index;
mod indexed;
mod list;
mod pool;

use std::fmt::Debug;

pub use choice::{Engine, EngineKind};
pub use count::{Count, Off, QueueKind, Searches, Tally};
pub use grown::{Grown, Grows, Growth};
pub use index::{ArrayIndex, CubeIndex, HashIndex, TreeIndex, TreeShape};
pub use indexed::{ANY_SOURCE, ANY_TAG, Class, Index, Indexed, Leaf};
pub use list::ListEngine;
pub use pool::EntryPool;

/// A posted receive as its engine numbers it, for [`MatchEngine::remove_posted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemId(u32);

impl ItemId {
    /// No receive.
    pub const NONE: Self = Self(u32::MAX);
}

/// What a message says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The matching space: a communicator's context, or 0 for plain tagged messages.
    pub space: u32,
    /// The sender's rank within the space.
    pub source: u32,
    /// The tag.
    pub tag: u64,
}

/// What a receive or a probe asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchSpec {
    /// The matching space.
    pub space: u32,
    /// A sender's rank, or anyone.
    pub source: Option<u32>,
    /// The tag.
    pub tag: u64,
    /// Bits of the tag that count.
    pub tag_mask: u64,
}

/// A specification as engines compare it: a set bit in a mask counts. The two words of the tag are apart,
/// so that they are copied one by one: a load of both behind a store of each would wait until these are
/// in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Want {
    /// The tag.
    pub tag: u64,
    /// Sender's rank.
    pub source: u32,
    /// All ones, or zero for anyone.
    pub source_mask: u32,
    /// Bits of the tag that count.
    pub tag_mask: u64,
}

impl Want {
    /// Whether a message from `source` with `tag` fits.
    #[inline]
    pub const fn fits(&self, source: u32, tag: u64) -> bool {
        ((self.source ^ source) & self.source_mask) as u64 | ((self.tag ^ tag) & self.tag_mask) == 0
    }
}

impl MatchSpec {
    /// The specification as engines compare it.
    #[inline]
    pub const fn want(&self) -> Want {
        let (source, source_mask) = match self.source {
            Some(rank) => (rank, u32::MAX),
            None => (0, 0),
        };
        Want { source, source_mask, tag: self.tag, tag_mask: self.tag_mask }
    }
}

/// A matching engine. `value` is what the layer above wants back: a request's or a message's key.
///
/// An engine remembers where a search that found nothing has ended. [`MatchEngine::post`] after a
/// [`MatchEngine::take_unexpected`] of the same, and [`MatchEngine::add_unexpected`] after a
/// [`MatchEngine::arrive`] of the same, insert there without a search.
pub trait MatchEngine: Send + Debug {
    /// Appends a receive.
    fn post(&mut self, want: Want, value: u64) -> ItemId;
    /// Takes the first posted receive that fits an arrival.
    fn arrive(&mut self, source: u32, tag: u64) -> Option<u64>;
    /// The same without allocating or freeing anything, for signal handlers. What an engine does beside when
    /// it has become empty, it does later.
    fn arrive_quietly(&mut self, source: u32, tag: u64) -> Option<u64>;
    /// Appends a message that no receive fitted.
    fn add_unexpected(&mut self, source: u32, tag: u64, value: u64);
    /// Takes the first waiting message that fits.
    fn take_unexpected(&mut self, want: &Want) -> Option<u64>;
    /// Finds the first waiting message that fits.
    fn find_unexpected(&mut self, want: &Want) -> Option<u64>;
    /// Takes back the first waiting message from `source` with `tag` for whose value `which` says so.
    fn remove_unexpected(
        &mut self,
        source: u32,
        tag: u64,
        which: &mut dyn FnMut(u64) -> bool,
    ) -> Option<u64>;
    /// Takes back the receive `item`, if it still is the one with `value`. Whether it was there.
    fn remove_posted(&mut self, item: ItemId, value: u64) -> bool;
    /// Takes back every posted receive for which `which` says so and appends their values to
    /// `out`, oldest first.
    fn remove_posted_where(&mut self, which: &mut dyn FnMut(&Want) -> bool, out: &mut Vec<u64>);
    /// Waiting messages.
    fn unexpected_len(&self) -> usize;
    /// Posted receives.
    fn posted_len(&self) -> usize;
    /// Whether nothing waits. Quick; may say no although nothing does.
    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.posted_len() == 0 && self.unexpected_len() == 0
    }
    /// Every waiting message's value, oldest first.
    fn unexpected_values(&self, out: &mut Vec<u64>);
}

#[cfg(test)]
mod tests;
