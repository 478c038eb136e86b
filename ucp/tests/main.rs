//! The protocol engine over real and simulated transports. One program, so that what it stands on is
//! linked once; a file below is a module of it.

mod active;
mod beside;
mod churn;
mod clients;
mod closing;
mod continued;
mod cooperative;
mod datatypes;
mod directions;
mod doubles;
mod emulated;
mod first_use;
mod hostile;
mod in_place;
mod keepalive;
mod loopback;
mod mixed;
mod multirail;
mod pair;
mod polls;
mod rendezvous;
mod requests;
mod selection;
mod served;
mod shared;
mod sides;
mod simulated;
mod streams;
mod waiting;
