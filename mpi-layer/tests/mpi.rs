//! The MPI layer on real transports, with threads as ranks: every call, small sizes, all roots,
//! and what happens when arguments or partners are wrong. Nothing here measures time.

mod asked;
mod background;
mod collectives;
mod communicators;
mod damage;
mod deaths;
mod in_place;
mod layers;
mod messages;
mod mismatch;
mod mixed;
mod multiplying;
mod neighbors;
mod numbers;
mod ordering;
mod persistent;
mod probes;
mod raw;
mod reductions;
mod requests;
mod staged;
mod start;
mod tuned;
