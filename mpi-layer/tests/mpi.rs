//! The MPI layer on real transports, with threads as ranks: every call, small sizes, all roots,
//! and what happens when arguments or partners are wrong. Nothing here measures time.

#[path = "mpi/collectives.rs"]
mod collectives;
#[path = "mpi/communicators.rs"]
mod communicators;
#[path = "mpi/deaths.rs"]
mod deaths;
#[path = "mpi/messages.rs"]
mod messages;
#[path = "mpi/ordering.rs"]
mod ordering;
#[path = "mpi/probes.rs"]
mod probes;
#[path = "mpi/reductions.rs"]
mod reductions;
#[path = "mpi/requests.rs"]
mod requests;
#[path = "mpi/start.rs"]
mod start;
