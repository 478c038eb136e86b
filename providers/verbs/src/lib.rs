//! RDMA devices: InfiniBand, RoCE, and the kernel's imitation of them.
//!
//! # Opening
//!
//! ```no_run
//! use bowline_uct::Iface as _;
//! use bowline_verbs::{VerbsIface, VerbsOptions};
//!
//! let mut iface = VerbsIface::open(&VerbsOptions::default())?;
//! // The address goes to the peers by any means that the job has; theirs come back.
//! let address = iface.address();
//! # let peers_address = address.clone();
//! let ep = iface.connect(&peers_address)?;
//! # let _ = ep;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An address is enough to connect. The queue pairs behind it are made when they are first used,
//! by a thread of each interface that sleeps otherwise, so a peer that computes can be connected
//! to, and one whose thread does not answer is gone.
//!
//! # Two modes
//!
//! | | `rc` | `ud` |
//! |---|---|---|
//! | queue pairs | one for each peer that is talked to | one |
//! | messages | `SEND` to a shared receive queue; short ones inline | datagrams of at most a packet |
//! | put, get, atomics | the device's | none |
//! | acknowledgements, repetition | the device's | by windows in `ud::window` |
//! | a dead peer is noticed by | the device's retries; probes of idle connections | the threads' pings |
//!
//! Receive memory is constant in the number of peers in both. While a receiver takes no messages, senders pause
//! (`rc`: the device's "receiver not ready"; `ud`: repetition).
//!
//! # What is promised of memory
//!
//! Puts are visible after `flush` in the sense that `rc::rma` explains; atomics are coherent among
//! all that go through the same device, and with its processor only where the device says so;
//! operations that the device lacks are loops of compare-and-swap (`rc::atomics`). No registration
//! outlives the handles and the operations that keep its memory mapped (`domain`).
//!
//! # Signal handlers
//!
//! In `rc`, progress in a signal handler takes messages, reads into memory that an ordinary call has prepared, and
//! reports the end of such reads (`rc::signal_safe`).
//!
//! # An interface to itself
//!
//! In `rc`, `connect` takes the interface's own address: two queue pairs of it are connected to each
//! other (`rc::own`), so that an owner can use atomics of the device on its own memory where these
//! are not coherent with the processor's. `reachable` still refuses it, since there are better transports
//! for messages.
//!
//! # Limits that a user meets
//!
//! All ranks use the same mode, link layer and longest packed message; an address says what
//! differs. Locked memory is limited by `ulimit -l`. A put by a key that its owner has withdrawn
//! ends the connection as `Refused`, since the device answers so. After a `fork` the child must
//! not use the interface.
//!
//! # Without a device
//!
//! libibverbs is loaded when an interface is opened, so programs with this transport run
//! everywhere; opening says what is missing. Tests run in the guest of `cargo xtask guest`.

mod addr;
mod control;
mod device_context;
mod domain;
mod iface;
mod options;
mod pool;
mod rc;
mod service;
mod sys;
mod ud;
mod wire;

pub use iface::VerbsIface;
pub use options::{
    CONNECT, ConnectWhen, DEVICE, INLINE, MAX_BCOPY, MODE, PEER_TIMEOUT, RECEIVE_BUFFERS,
    SEND_BUFFERS, SEND_DEPTH, SETTINGS, UD_WINDOW, VerbsMode, VerbsOptions,
};
pub use rc::{RcCounters, RcIface, Reliable};
pub use service::ServiceIface;
pub use ud::{Datagrams, UdCounters, UdIface};

/// What reads bytes of peers, and the state machine behind it: for fuzzing only.
#[doc(hidden)]
pub mod decoders {
    pub use crate::addr::{Address, BadBytes, PackedKey};
    pub use crate::control::{table, wire as datagram};
    pub use crate::ud::{window, wire as head};
    pub use crate::wire::{HEADER_BYTES, Parsed, encode, encode_close, parse};
}
