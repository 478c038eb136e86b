//! The provider for messages of a worker to itself.
//!
//! A rank that sends to its own number, or reads its own window, goes through the same contract
//! as to any other peer, so no layer above needs a special case. Messages wait in a bounded
//! queue until `progress` hands them to the sink; one-sided operations are complete in the call.
//!
//! **Cost.** A short message is one copy into a preallocated entry and one to the receiver;
//! nothing on that path allocates, locks or enters the kernel. Memory is constant: the queue and
//! a pool of buffers, both set at opening ([`SETTINGS`]).
//!
//! **Thread safety.** The interface belongs to one thread at a time. Its doorbell may be rung by
//! any.
//! **Cleanup.** Dropping the interface drops what is queued and gives registered memory back to
//! its allocator.
//!
//! It reaches nobody else: addresses of other workers are refused with the reason.

mod caps;
mod iface;
mod md;
mod queue;
mod wire;

#[cfg(test)]
mod tests;

pub use caps::{BUFFER_BYTES, BUFFERS, SETTINGS, SLOTS, SelfConfig};
pub use iface::{SelfCounters, SelfIface};
