//! What a worker keeps for each of its features: plain data with its invariants, which knows neither the worker nor its
//! engine. What is done with it is in the module of the feature.

pub(crate) mod async_state;
pub(crate) mod counters;
pub(crate) mod emulation;
pub(crate) mod in_place;
pub(crate) mod inbox;
pub(crate) mod keepalive;
pub(crate) mod slots;
pub(crate) mod stream;
pub(crate) mod wakeup;
