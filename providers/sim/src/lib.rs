//! A simulated network: interfaces in one process, joined by links with virtual time and by faults
//! that all come from one seed. The same seed and the same calls give the same trace.
//!
//! # What it is for
//! ucp runs on it unchanged, so that thousands of workers run in one thread; blocking programs
//! run on it with a thread for each rank of which one runs at a time (`bowline::simulate`). What
//! goes wrong once goes wrong again.
//!
//! # Quick start
//! ```
//! use bowline_sim::{Network, NetworkOptions};
//! use bowline_uct::Iface as _;
//!
//! let network = Network::new(NetworkOptions { seed: 7, ..NetworkOptions::default() });
//! let (mut a, b) = (network.open(), network.open());
//! let ep = a.connect(&b.address()).expect("everybody reaches everybody");
//! a.am_short(ep, bowline_uct::AmId::new(1), &[1, 2, 3], b"hello").expect("there is space");
//! while network.advance() {}
//! assert_eq!(network.now(), 1000 + 380);
//! ```
//!
//! # Time
//! A message of n bytes leaves its sender's interface `gap_ns + n * byte_ps / 1000` after the
//! message in front of it, and arrives `latency_ns` later: the pipelining model
//! `T(b, n) = latency + b (gap + n beta)`. Both may also be given by size ([`TimesOfSize`]), what a byte
//! of a get takes apart from them, and either may change ([`Network::set_byte_times`]). Nothing else takes time. Time moves only when somebody
//! calls [`Network::advance`], or, with [`Drive::OnIdle`], when an interface finds nothing to do.
//!
//! # Faults
//! | what | [`LinkMode::Reliable`] | [`LinkMode::Raw`] |
//! |---|---|---|
//! | loss | the message comes later, by a retransmission | it never comes |
//! | duplication | dropped at the receiver | it comes twice |
//! | reordering | later messages wait for it | later messages pass it |
//! | partition | messages wait for the heal, or the peers give each other up | they are lost |
//! | death, at a time or at an operation | reported after a time-out | the same |
//!
//! One-sided operations are executed at the target's interface without the target's progress,
//! each with a moment of its own; only fences, flushes and, by option, atomics behind puts order
//! them. Receive buffers are finite, so senders are refused and have to wait.
//!
//! # Thread safety
//! An interface belongs to one thread at a time; the network is shared behind one lock, since
//! speed is not what it is for.
//!
//! # Resource cleanup
//! A dropped interface notifies its peers that it has closed, after what it sent before. No pointer
//! to a caller's buffer is kept by the network beyond that.

mod caps;
mod iface;
mod net;
mod network;
mod options;
mod payload;
mod random;
mod trace;
mod wire;

pub use iface::{IdleHook, SimIface};
pub use net::{Ended, SimCounters};
pub use network::Network;
pub use options::{
    Death, Drive, Faults, LinkMode, Moment, NetworkOptions, NetworkPartition, TimesOfSize,
};
pub use random::Random;
