//! The rendezvous protocols over a simulated network and over shared memory, in one thread: what is
//! sent arrives, whichever protocol carries it and in whatever order things happen, and each of
//! them may be aborted at every step.

mod aborts;
mod any;
mod any_random;
mod matching;
mod put;
pub(crate) mod ranks;
mod rtr;
