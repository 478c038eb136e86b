//! Collective communication. (MPI: Collective Communication.)
//!
//! What each rank sends, receives, copies and reduces is stated by the algorithms of [`bowline_model::coll`], which
//! also chooses one. Here is what carries it out: the [`engine`], at once, and a [`run`], in the background. The
//! calls that users make are in [`calls`] and [`reductions`].

pub(crate) mod arena;
pub(crate) mod calls;
pub(crate) mod engine;
pub(crate) mod in_place;
pub(crate) mod items;
pub(crate) mod mixed;
pub(crate) mod priced;
pub(crate) mod raw;
pub(crate) mod reductions;
pub(crate) mod run;
pub(crate) mod shared;
pub(crate) mod spans;
