//! The protocol engine of Bowline: tagged messages, active messages and one-sided operations over
//! any transport that keeps the contract of `bowline-uct`.
//!
//! # How it is built
//! A [`Worker`] owns its lanes (transport interfaces, in order of preference) and an engine. The
//! engine is the lanes' `Sink`: while a lane progresses it matches arrivals with receives and
//! notes what is to be posted in a bounded list of actions; after the lane has returned, the
//! worker carries the actions out. So no transport is ever re-entered.
//!
//! The crate has no clock, thread or socket of its own and forbids `unsafe`: buffers come as
//! handles of `bowline-base`, waiting goes through a [`Waiter`], knowledge of deaths through a
//! [`FailureSource`].
//!
//! # Protocols
//! | name | when |
//! |---|---|
//! | `eager/short` | the payload fits the transport's short flavour |
//! | `eager/bcopy` | it fits one bcopy message |
//! | `eager/multi` | it fits a few of them and is below the rendezvous threshold |
//! | `rndv/get` | the receiver reads it from the sender's memory |
//! | `rndv/copy` | the same where the kernel refuses reading: fragments through the transport |
//!
//! # Thread safety
//! A worker is `Send` and not `Sync`: it belongs to one thread at a time.
//!
//! # Resource cleanup
//! Dropping a worker drops its lanes, which peers see as a closed peer. Requests still under way
//! are dropped with their buffer handles; whoever built a borrowed handle must have waited.
#![forbid(unsafe_code)]

mod action;
mod address;
mod am;
mod direct;
mod engine;
mod error;
mod lanes;
mod matching;
mod one_sided;
mod peer;
mod request;
mod rma;
mod send;
mod settings;
mod space;
mod tagged;
mod unexpected;
mod wait;
mod waits;
mod wire;
mod worker;

pub use address::{AddressError, LaneAddress, WorkerAddress};
pub use am::{AmHandler, AmMessage};
pub use bowline_uct::PeerFailure;
pub use engine::Counters;
pub use error::{ConnectError, OpError, SpaceError, WorkerError};
pub use matching::{Envelope, MatchEngine, MatchSpec};
pub use peer::Ep;
pub use request::{RequestId, Status};
pub use rma::{Memory, RemoteKey, RmaError};
pub use settings::SETTINGS;
pub use space::{Members, SpaceOptions};
pub use tagged::{Message, MessageInfo, SendMode, Sent};
pub use wait::{FailureSource, Idle, Stages, Waiter};
pub use waits::Waits;
pub use worker::{LaneReport, Worker, WorkerParts};
