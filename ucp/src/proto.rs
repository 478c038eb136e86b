//! The registry of protocols, and what each of them is.
//!
//! A protocol is a value: its name, and its life ([`Life`]). Each has a file, with what it costs ([`Life::probe`]), its
//! part of a request as one state type, and what it does with its messages. What is common to all knows none by name:
//! it asks the registry. So a new protocol is its own file and a line in [`ALL`].
//!
//! Which one a message takes is a matter of costs; [`table`] has the choice.

pub(crate) mod coop;
pub(crate) mod eager;
pub(crate) mod fragments;
pub(crate) mod get;
pub(crate) mod one_sided;
pub(crate) mod put;
pub(crate) mod rendezvous;
pub(crate) mod rtr;
pub(crate) mod table;

use std::fmt;

use bowline_model::cheapest::Line;

pub(crate) use table::Choices;
pub use table::{Conditions, Op, Range, SelectionContext, Table};

/// A protocol.
pub struct Protocol {
    pub(crate) name: &'static str,
    /// Whether an envelope goes first and the receiver has the data brought.
    pub(crate) rendezvous: bool,
    pub(crate) life: &'static dyn Life,
}

/// The life of a protocol.
pub(crate) trait Life: Sync {
    /// What it would cost for `op`, and for which sizes it can be used, from the first to the last; `None` when it cannot
    /// be used there, or is not chosen by cost.
    fn probe(&self, _: Op, _: &SelectionContext<'_>) -> Option<(Line, u64, u64)> {
        None
    }

    /// How many processors copy a message by it at the same time, where processors do.
    fn copiers(&self) -> f64 {
        1.0
    }
}

/// All protocols. Of two that cost the same the one that comes first is taken.
pub static ALL: [&Protocol; 13] = [
    &eager::SHORT,
    &eager::BCOPY,
    &eager::ZCOPY,
    &eager::MULTI,
    &coop::COOP,
    &get::GET,
    &put::PUT,
    &fragments::FRAGMENTS,
    &rtr::RTR,
    &one_sided::PUT_SHORT,
    &one_sided::PUT_ZCOPY,
    &one_sided::GET_ZCOPY,
    &one_sided::ATOMIC,
];

impl Protocol {
    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// A protocol is equal to itself alone.
impl PartialEq for Protocol {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
