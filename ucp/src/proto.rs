//! The protocols by which messages go and are received, each in a file: its price, its part of a request as one
//! state type for each side (`Receiving`, `Sending`), and its life (`Life`), with what it does with its messages.
//!
//! What is common to all knows none of them by name: actions, failures, cancelling, closing, queries and signal-safe
//! progress ask the life of a request's protocol. A new protocol is its own file, a line of the registry and a `mod`, and
//! what it wants of these: numbers of its messages in `wire` with a bit of the features in `address`, a place among the means of
//! `select`, a row of the table in `loan`, a counter and its row in `explain`, a value of `RndvScheme`. The prices of eager
//! messages, which lanes ask for, and of one-sided operations, which others post, are in `crate::protocol`.

mod announced;
pub(crate) mod any;
pub(crate) mod coop;
pub(crate) mod eager;
pub(crate) mod fragments;
pub(crate) mod get;
mod peer_offers;
pub(crate) mod put;
mod registry;
pub(crate) mod rendezvous;
mod reports;
pub(crate) mod rtr;

pub use crate::protocol::{Conditions, Op, Protocol, ProtocolRange, SelectionContext, Table};
pub use registry::ALL;
pub(crate) use registry::all;

#[cfg(test)]
pub(crate) mod tests;
