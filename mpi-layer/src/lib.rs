//! The MPI layer of Bowline: communicators, point-to-point messages and collectives, with the
//! semantics of the MPI standard (version 5.0) and the manners of Rust.
//!
//! It is thin: matching, protocols and waiting are those of `bowline-ucp`; no transport is named
//! here. A program gets its [`World`] from the `bowline` crate, which finds the transports and
//! starts ranks as processes or as threads.
//!
//! # Quick start
//! ```no_run
//! use bowline::mpi::{ANY_SOURCE, Sum};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let world = bowline::init()?;
//!     let mut total = [0u64];
//!     world.allreduce(&[world.rank() as u64], &mut total, Sum)?;
//!
//!     if world.rank() == 0 {
//!         let mut greeting = [0u8; 64];
//!         for _ in 1..world.size() {
//!             let status = world.recv(&mut greeting, ANY_SOURCE, 7)?;
//!             let length = status.count::<u8>().unwrap_or(0);
//!             println!("{}", String::from_utf8_lossy(&greeting[..length]));
//!         }
//!     } else {
//!         world.send(format!("rank {} says hello", world.rank()).as_bytes(), 0, 7)?;
//!     }
//!     Ok(world.barrier()?)
//! }
//! ```
//!
//! # What is where
//! | subject | items |
//! |---|---|
//! | ranks and communicators | [`World`], [`Communicator`], [`Group`] |
//! | what may travel | [`Datatype`] and its derive, [`Located`] |
//! | blocking messages | [`Communicator::send`], [`recv`](Communicator::recv), [`sendrecv`](Communicator::sendrecv) |
//! | nonblocking messages | [`Communicator::scope`]; owning ones: [`Communicator::isend_owned`], [`Communicator::irecv_owned`] |
//! | nonblocking collectives | [`Scope::ibarrier`], [`Scope::iallreduce`] and others; [`CollectiveRequest`] |
//! | persistent collectives | [`Communicator::allreduce_init`] and others; [`PersistentCollective`], [`PersistentExchange`] |
//! | collectives in place | [`Communicator::allreduce_in_place`] and others, [`Scope::iallreduce_in_place`] and others, [`Communicator::allreduce_in_place_init`] and others |
//! | communicators made in the background | [`Communicator::idup`], [`CommRequest`] |
//! | several requests | [`wait_any`], [`wait_some`], [`wait_all`], [`test_any`], [`test_some`], [`test_all`] |
//! | probes | [`Communicator::probe`], [`iprobe`](Communicator::iprobe), [`improbe`](Communicator::improbe) |
//! | collectives | methods of [`Communicator`]; operations in [`op`] |
//! | process topologies | [`Communicator::cart_create`] and others; [`Topology`], [`dims_create`] |
//! | between neighbours | [`Communicator::neighbor_alltoall`] and others, [`Scope::ineighbor_alltoall`] and others |
//!
//! # Errors
//! Every call that can fail returns [`MpiError`]; nothing aborts the job. An argument that is
//! wrong is reported before anything is sent. When a process dies, calls that wait for it fail, and
//! collectives fail at every member.
//!
//! # Thread safety
//! A [`World`] and all that comes from it belong to the thread of their rank: they are neither
//! `Send` nor `Sync`, as in MPI's thread level "serialized on one thread". Ranks may be threads of
//! one process.
//!
//! # Resource cleanup
//! A rank leaves when the last of its communicators is dropped. No operation outlives the buffer
//! that it uses, by construction; see [`Communicator::scope`].

mod choices;
mod coll;
mod coll_options;
mod comm;
mod consts;
mod context;
mod datatype;
mod error;
mod group;
mod handles;
mod idup;
mod later;
pub mod op;
mod owned;
mod p2p;
mod parts;
mod persistent;
mod probe;
mod process;
pub mod raw;
mod record;
mod request;
mod scope;
mod shared_memory;
mod status;
mod steps;
mod tags;
mod topo;
mod topology;
pub mod types;
mod unwinding;
mod workspace;
mod world;

pub use bowline_mpi_derive::Datatype;
pub use coll::calls::Partition;
pub use coll::mixed::{Block, BlockMut, OwnedBlock};
pub use coll::priced::is_algorithm;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use coll::shared::fuzz;
pub use coll_options::{COLL_COSTS, CollOptions, CollOptionsError, SETTINGS as COLL_SETTINGS};
pub use comm::Communicator;
pub use consts::{ANY_SOURCE, ANY_TAG, PROC_NULL, TAG_UB, UNDEFINED};
pub use datatype::{Datatype, Located};
pub use error::{ErrorClass, MpiError};
pub use group::{Comparison, Group};
pub use idup::CommRequest;
#[cfg(feature = "complex")]
pub use num_complex::Complex;
pub use op::{
    BitAnd, BitOr, BitXor, LogicalAnd, LogicalOr, LogicalXor, Max, MaxLoc, Min, MinLoc, Operation,
    Prod, Sum, UserOperation, commutative, ordered,
};
pub use owned::{OwnedRecv, OwnedSend};
pub use parts::{Directory, DirectoryError, WorldParts};
pub use persistent::{PersistentCollective, PersistentExchange};
pub use probe::ClaimedMessage;
pub use request::{Outcome, Request, test_all, test_any, test_some, wait_all, wait_any, wait_some};
pub use scope::{AnyRequest, CollectiveRequest, Received, RecvRequest, Scope, SendRequest};
pub use status::Status;
pub use topology::{Cart, DistGraph, Graph, Topology, dims_create};
pub use world::World;
