//! Models of collective communication: what each rank does, whether that is right, and what it costs.
//!
//! | what | where |
//! |---|---|
//! | the cost of short messages that overlap | [`cost`] |
//! | schedules of allreduce in the notation of recursive multiplying | [`schedule`] |
//! | what one rank does in a schedule | [`stages`] |
//! | the proof that a schedule is an allreduce | [`check`] |
//! | which schedule to take | [`choice`] |
//! | the steps of all collectives | [`coll`] |
//! | a simulator of programs of such tasks | [`fennel`] |
//! | what other libraries choose by fixed tables | [`fixed`] |
//! | the parameters of that cost from times that were measured | [`fit`] |
//!
//! Nothing here communicates, and nothing knows of transports. Source of all of it: M. Ruefenacht, "Towards Larger
//! Scale Collective Operations in the Message Passing Interface", thesis, Edinburgh 2020, cited as *thesis*.

#![forbid(unsafe_code)]

pub mod check;
pub mod choice;
pub mod coll;
pub mod cost;
pub mod fennel;
pub mod fit;
pub mod fixed;
pub mod schedule;
pub mod stages;
