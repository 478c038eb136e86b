//! Transport over libfabric.

mod addr;
mod atomics;
mod buffers;
mod contract;
mod failure;
mod flushes;
mod iface;
mod info;
mod life;
mod md;
mod net;
mod options;
mod peer;
mod post;
mod progress;
mod receive;
mod rma;
mod tag;
mod wait;
mod wire;

pub use iface::{OfiCounters, OfiIface};
pub use info::{OfiOffer, list};
pub use options::{
    ATOMICS, Atomics, BUFFER_BYTES, DOMAIN, LOST_AFTER, OPERATIONS, OfiOptions, PROVIDER,
    REGISTRATION, RX_BUFFERS, Registration, SETTINGS, TAGS, TX_BUFFERS, WAKEUP, WINDOW,
};

/// Decoders of foreign bytes, for the fuzz target.
#[doc(hidden)]
pub mod fuzz {
    pub use crate::addr::fuzz_address as address;
    pub use crate::md::fuzz_rkey as rkey;
    pub use crate::wire::fuzz_message as message;
}
