//! Receive queues: active messages over transports that have none. A provider over another provider.
//!
//! A network that offers puts, gets and atomics on memory, and nothing else, still carries
//! messages: the receiver keeps a queue in memory that its peers reach, and they put messages
//! into it by themselves. [`QueueLane`] does that over any [`Iface`], and is
//! one itself, so that the engine above does not know the difference. The crate knows neither that engine
//! nor any transport; the program that opens both calls [`with_messages`].
//!
//! The queue is SCMP as published (M. Rüfenacht's thesis, Edinburgh 2020, chapter 6): see
//! [`bowline_base::scmp::counted`], whose steps are posted here one by one. Receive memory does
//! not grow with the number of peers. A message costs three operations: a fetch-and-add that
//! reserves, a put, an addition that finalises; messages that wait for each other share them.
//!
//! ```text
//!   am_short ─► fifo of the link ─► reserve ─► put ─► (order) ─► finalise        post, fifo, link
//!                                                                   │
//!   sink.am  ◄─ check source and mark ◄─ flip, S + F = r ◄──────────┘            counted, flip
//!                                          └── does not settle, a peer ended     settle
//! ```
//!
//! Those who send most get a ring of their own, of which there is a bounded number: see `promote`
//! and `route`. That is what a lane does unless the settings say otherwise.
//!
//! In another form messages are checksummed, so that there is nothing to finalise: two operations, and
//! nothing that has to stay in order between them. See `checksummed`.
//!
//! There is also a ring for each sender, see `rings`, in which there is nothing to settle. The receiver's
//! address says which form it has; numbers, order and introductions are the same.
//!
//! **Who sends.** Before its first message a sender takes a *number* by one fetch-and-add and writes
//! an *introduction* into the record of that number: its address, a random cookie, the place of
//! its status word. Records are independent of each other, so one that dies between taking a number
//! and filling the record costs that number and stops nobody. The receiver connects to each sender that has
//! introduced itself; by that endpoint the transport reports the sender's end. Number and cookie
//! stand in every message. What a receiver keeps of a sender is twenty bytes beside its
//! record and its link. Records, and the words that peers reach of a link, take memory for those that are there, not
//! for those that might come: see `extents`.
//!
//! **Order.** A link has one reservation under way at a time, and all that waits goes into the
//! next one: so messages of a sender keep their order. Where puts are not visible before later
//! atomics ([`PUT_BEFORE_ATOMIC`](bowline_uct::Caps::PUT_BEFORE_ATOMIC)), a flush stands between
//! put and finalise.
//!
//! **Coherence.** The consumer finds the queue empty by a load of the counter's offset, and flips
//! with an atomic of its processor where the transport's atomics are coherent with those
//! ([`ATOMIC_CPU`](bowline_uct::Caps::ATOMIC_CPU)). Where they are coherent among themselves only
//! ([`ATOMIC_DEVICE`](bowline_uct::Caps::ATOMIC_DEVICE)), it swaps the counter by a connection to
//! itself: a flip then costs a round trip to the own device. All other words that it writes (the
//! counters of a half that is settled, the headers of its slots) have no atomic under way. When that
//! connection fails, the queue is closed as soon as it would have to be flipped.
//!
//! **A full queue** refuses a reservation; its slots are added to the counter of failed ones, and
//! the sender reads the counter until it names another half: one read under way, no atomics.
//!
//! **Ends.** See the module `settle`: a queue goes on whatever step a sender dies in.
//!
//! **Damage.** Slots are checked as the queue says. A slot whose source or mark is wrong is
//! dropped and counted; one that cannot be is its source's fault, whose link fails; control words
//! that cannot be close the queue (see `damage`), which every sender reads out of its next ticket. A sender that has
//! the key of the queue can write all of it: a cookie keeps out the stale and the damaged, not a
//! peer that means harm to others.
//!
//! **Sleep.** A put wakes nobody where a device does it: there the lane does not claim to wake, and
//! a rank that waits polls now and then. Where the target's progress does it
//! ([`RMA_WAKES`](bowline_uct::Caps::RMA_WAKES)) the lane wakes as the transport below does.
//!
//! # Thread safety
//! A lane belongs to one thread at a time.
//!
//! # Resource cleanup
//! A lane that is dropped makes progress for a bounded time until its messages have left
//! ([`bowline_base::drain`]), and drops the transport below before the memory that this one may still read
//! into.
#![deny(unsafe_code)]

mod address;
mod checksum;
mod checksummed;
mod closed;
mod contract;
mod counted;
mod damage;
mod error;
mod extents;
mod fifo;
mod flip;
mod flush;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod inbox;
mod introductions;
mod lane;
mod lane_core;
mod layout;
mod link;
mod memory;
mod open;
mod options;
mod pass;
mod peers;
mod post;
mod promote;
mod promoting;
mod remote;
mod reserve;
mod rings;
mod route;
mod sending;
mod settle;
mod shown;
mod token;

pub use error::QueueError;
pub use lane::QueueLane;
pub use options::{QueueForm, QueueOptions, QueueStats, RecvQueue, SETTINGS};

use bowline_base::config::Config;
use bowline_uct::{Caps, Iface};

use options::RECV_QUEUE;

/// The interface that carries messages over `iface`: itself, or queues over it, as the settings say.
/// `uid` is different for every lane of a job, and `config` must hold [`SETTINGS`].
///
/// # Errors
/// When it has no active messages and lacks what queues need, or they find no memory.
pub fn with_messages(
    iface: Box<dyn Iface>,
    config: &Config,
    uid: u64,
) -> Result<Box<dyn Iface>, QueueError> {
    let attr = iface.attr();
    let has = attr.caps.contains(Caps::MESSAGES);
    let wanted = match config.get(RECV_QUEUE) {
        RecvQueue::Auto => !has,
        RecvQueue::Scmp | RecvQueue::Ring | RecvQueue::ScmpRings | RecvQueue::ScmpSeq => {
            !has || !attr.caps.contains(Caps::LOOPBACK)
        }
    };
    if !wanted {
        return Ok(iface);
    }
    let provider = attr.provider;
    let options = QueueOptions::from_config(config);
    if let Err(lacks) = QueueLane::fits(attr, options.form) {
        if has {
            tracing::warn!("no receive queues over {provider}: it lacks {lacks}");
            return Ok(iface);
        }
        return Err(QueueError::Lacks { transport: provider, lacks });
    }
    match QueueLane::open(iface, &options, uid) {
        Ok(lane) => Ok(Box::new(lane)),
        Err(source) => Err(QueueError::Open { transport: provider, source }),
    }
}
