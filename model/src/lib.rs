//! Models of collective communication: what each rank does, whether that is right, and what it costs.
//!
//! | what | where |
//! |---|---|
//! | the cost of short messages that overlap | [`cost`] |
//! | what a transport's operations cost, and how that is known | [`transport`] |
//! | which of several protocols is the cheapest at each size | [`cheapest`] |
//! | schedules of allreduce in the notation of recursive multiplying | [`schedule`] |
//! | what one rank does in a schedule | [`stages`] |
//! | the proof that a schedule is an allreduce | [`check`] |
//! | which schedule to take | [`choice`] |
//! | the steps of all collectives | [`coll`] |
//! | a simulator of programs of such tasks | [`fennel`] |
//! | what other libraries choose by fixed tables | [`fixed`] |
//! | the parameters of that cost from times that were measured | [`fit`] |
//!
//! Nothing here communicates: figures of transports are numbers beside their names. Source of the models of
//! collectives: M. Ruefenacht, "Towards Larger Scale Collective Operations in the Message Passing Interface",
//! thesis, Edinburgh 2020, cited as *thesis*.

#![forbid(unsafe_code)]

pub mod cheapest;
pub mod check;
pub mod choice;
pub mod coll;
pub mod cost;
pub mod fennel;
pub mod fit;
pub mod fixed;
pub mod schedule;
pub mod stages;
pub mod transport;
