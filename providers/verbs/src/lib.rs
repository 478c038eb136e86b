//! InfiniBand verbs: messages, one-sided operations and atomics by the network card.

mod addr;
mod control;
mod domain;
mod options;
mod pool;
mod rails;
mod rc;
mod sys;
mod wire;

pub use options::{
    CONNECT, ConnectWhen, DEVICE, INLINE, MAX_BCOPY, MODE, Mode, PEER_TIMEOUT, RECEIVE_BUFFERS,
    SEND_BUFFERS, SEND_DEPTH, SETTINGS, SPARE_BUFFERS, UD_WINDOW, VerbsOptions,
};
pub use rc::{RcCounters, RcIface};

/// What reads bytes of peers, and the state machine behind it: for fuzzing only.
#[doc(hidden)]
pub mod decoders {
    pub use crate::addr::{Address, BadBytes, PackedKey};
    pub use crate::control::{table, wire as datagram};
    pub use crate::wire::{HEADER_BYTES, Parsed, encode, encode_close, parse};
}
