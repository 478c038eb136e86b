//! The MPI layer on real transports, and what the compiler refuses of it. `cargo test -p bowline-mpi
//! --test main mpi::` runs the first part alone, for instance over other transports.

mod compile_fail;
mod mpi;
