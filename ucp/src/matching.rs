//! Matching of arrivals with receives, by source and tag within one space.
//!
//! A matching engine keeps two queues of the same kind of entry: receives that were posted and
//! wait (the PRQ) and messages that arrived and wait (the UMQ). Its rules are those of the MPI
//! standard (section "Semantics of Point-to-Point Communication"): an arrival takes the first
//! posted receive that fits it, a receive takes the first arrival that fits it. Engines differ in
//! how they search, never in what they find.

mod list;

use std::fmt::Debug;

pub(crate) use list::ListEngine;

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

/// A specification as engines compare it: a set bit in a mask counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Sender's rank.
    pub source: u32,
    /// All ones, or zero for anyone.
    pub source_mask: u32,
    /// The tag.
    pub tag: u64,
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
pub trait MatchEngine: Send + Debug {
    /// Appends a receive.
    fn post(&mut self, want: Want, value: u64);
    /// Puts a receive in front of all that are posted.
    fn post_first(&mut self, want: Want, value: u64);
    /// Takes the first posted receive that fits an arrival.
    fn arrive(&mut self, source: u32, tag: u64) -> Option<u64>;
    /// Appends a message that no receive fitted.
    fn add_unexpected(&mut self, source: u32, tag: u64, value: u64);
    /// Takes the first waiting message that fits.
    fn take_unexpected(&mut self, want: &Want) -> Option<u64>;
    /// Looks for the first waiting message that fits.
    fn find_unexpected(&self, want: &Want) -> Option<u64>;
    /// Takes back a posted receive. Whether it was there.
    fn remove_posted(&mut self, value: u64) -> bool;
    /// Takes back every posted receive for which `which` says so and appends their values to
    /// `out`, oldest first.
    fn remove_posted_where(&mut self, which: &mut dyn FnMut(&Want) -> bool, out: &mut Vec<u64>);
    /// Waiting messages.
    fn unexpected_len(&self) -> usize;
    /// Posted receives.
    fn posted_len(&self) -> usize;
    /// Every waiting message's value, oldest first.
    fn unexpected_values(&self, out: &mut Vec<u64>);
}
