//! Shared memory between the ranks of one host: Bowline's default transport.
//!
//! # Opening
//!
//! The memory of all ranks of a node is made once, by the launcher or by a thread job, and each
//! rank opens its interface in it:
//!
//! ```
//! use bowline_base::job::{JobMemory, JobSpec};
//! use bowline_shm::{ShmIface, ShmOptions};
//! use bowline_uct::Iface as _;
//!
//! let options = ShmOptions::default();
//! let spec = JobSpec { job_id: 1, ranks: 2, first_rank: 0, area_bytes: options.area_bytes() };
//! let job = JobMemory::create_private(&spec)?;       // threads; processes: `create_memfd`
//! let mut a = ShmIface::open(job.clone(), 0, options.clone())?;
//! let b = ShmIface::open(job, 1, options)?;
//! let ep = a.connect(&b.address())?;
//! assert_eq!(b.source_of(&a.address()), Some(bowline_uct::Source(0)));
//! # let _ = ep;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A rank of another node memory on the same host (spawned or connected later) is reached by the
//! same `connect`: its memory is opened by its descriptor, without its help.
//!
//! # What moves how
//!
//! | message | route |
//! |---|---|
//! | up to 32 bytes | one cache line: a slot of a ring (hot peers) or of the receiver's shared queue |
//! | packed, up to `BOWLINE_SHM_MAX_BCOPY` | the ring's data area, or several slots of the queue |
//! | larger | not here: protocols above read or write the peer's buffer |
//! | put, get, atomics on memory allocated here | plain loads and stores on the mapping |
//! | put, get on other memory | `process_vm_readv`, `process_vm_writev`; between threads a plain copy |
//!
//! [`WHOLE_PROCESS`](bowline_uct::WHOLE_PROCESS) is the packed key under which a rank's whole memory is read and written by the
//! kernel's copies, with no registration: unpack it once per endpoint. Threads of one process have
//! no kernel between them: there it opens what its owner has registered, exposed or lent.
//!
//! # Limits that a user meets
//!
//! One interface per rank and node memory, for the life of the rank. Peers in other network or
//! pid namespaces are refused with the reason. Large messages need the kernel's consent for each
//! pair (same user, ptrace policy); without it operations on unallocated memory answer
//! `Unsupported` and protocols copy instead.
//!
//! # Cleanup
//!
//! Nothing has a name, so nothing is left after a kill. Dropping the interface closes it: peers
//! see [`PeerFailure::Closed`](bowline_uct::PeerFailure::Closed) after its last message.

mod accept;
mod addr;
mod area;
mod busy_senders;
mod cma;
mod connect;
mod contract;
mod endpoint;
mod foreign;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod guests;
mod iface;
mod layout;
mod lent;
mod md;
mod message;
mod options;
mod post;
mod progress;
mod receive;
mod ring_table;
mod rkey;
mod rma;
mod signal_safe;
mod slow_path;
mod source;
mod wait;
mod watch;

#[cfg(test)]
mod tests;

pub use cma::read_own;
pub use iface::{ShmCounters, ShmIface};
pub use options::{
    CMA, FIRST_RING_DATA, GUESTS, MAX_BCOPY, PROMOTE_AFTER, REGISTRATIONS, RING_DATA, RING_SLOTS,
    RINGS, SCMP_SLOTS, SETTINGS, ShmOptions,
};
