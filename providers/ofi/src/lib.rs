//! Transport over libfabric: one reliable datagram endpoint (FI_EP_RDM) for each interface.
//!
//! # Opening
//!
//! ```no_run
//! use bowline_ofi::{OfiIface, OfiOptions};
//! use bowline_uct::Iface as _;
//!
//! for offer in bowline_ofi::list()? {
//!     println!("{} on {}: {:?}", offer.provider, offer.domain, offer.unusable);
//! }
//! let mut options = OfiOptions::default();
//! options.provider = Some("tcp".into()); // BOWLINE_OFI_PROVIDER
//! let mut a = OfiIface::open(options.clone())?;
//! let b = OfiIface::open(options)?;
//! let ep = a.connect(&b.address())?; // messages wait until b has made progress once
//! # let _ = ep;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What moves how
//!
//! | operation | in libfabric |
//! |---|---|
//! | `am_short`, up to what the provider injects less 40 bytes | `fi_inject`, header and payload |
//! | `am_bcopy`, up to `BOWLINE_OFI_BUFFER_BYTES` less 40 | `fi_send` from a registered buffer |
//! | `am_zcopy` | `fi_sendmsg`: header, then the user's pieces |
//! | puts, gets | `fi_writemsg` with FI_DELIVERY_COMPLETE, `fi_readmsg` |
//! | atomics | libfabric's where it has all of them and is no shared memory (`ATOMIC_DEVICE`), else a message that the target's progress serves (`ATOMIC_CPU`); an interface does one or the other |
//!
//! Active messages are under credit: a peer has at most `BOWLINE_OFI_WINDOW` of them under way
//! (what was taken is said in the header of messages that go back, or in one of its own), so
//! libfabric's memory for messages that nobody has received is bounded, and a sender's refusals do
//! not depend on the provider. What libfabric does not take at once (FI_EAGAIN, a connection that is
//! being made) waits here, in order, and goes out in `progress`.
//!
//! # Providers
//!
//! | provider | tried | notes |
//! |---|---|---|
//! | `tcp` (1.17: `tcp;ofi_rxm`) | suite, processes | over hosts |
//! | `net` (1.16 and 1.17 only) | suite, processes | what `tcp` became in 1.18; atomics by messages |
//! | `shm` | suite, processes | one host; no descriptor to sleep on in 1.17 |
//! | `udp;ofi_rxd` | suite, processes | for tests, as libfabric says; see below |
//! | `verbs;ofi_rxm` | suite, in the guest with soft-RoCE | set FI_UNIVERSE_SIZE to the number of ranks on small devices; atomics by messages |
//!
//! Of registered memory a provider may ask for FI_MR_LOCAL, FI_MR_VIRT_ADDR, FI_MR_ALLOCATED,
//! FI_MR_PROV_KEY and FI_MR_ENDPOINT; raw keys and device memory are not supported, and libfabric
//! does not offer us providers that need them.
//!
//! **`udp;ofi_rxd`** does everything in the progress of the two sides: a put to a rank that computes
//! waits for its next call, and one to a rank that waits in something else (a file, a lock) for that
//! to end. For the same reason this transport does not notice a death on another host there: a
//! question of ours would be answered by the peer's progress only, so that a peer that computes for
//! longer than BOWLINE_OFI_LOST_AFTER would be taken for dead. Under `bowline run --hosts` the
//! launcher reports such deaths, and hosts that are silent; under other managers nobody does,
//! and a wait for the dead does not end. Nor does it check who sent a packet: an endpoint that gets the
//! port of one that has gone takes what the peers of that one still repeat for messages of its own
//! peers, and loses some of those, or libfabric crashes. So jobs that follow each other at once on one
//! host may harm each other, where one of the former has died.
//!
//! # Death
//!
//! A killed process of the same host is noticed by its pidfd, whatever the provider, without any
//! message; of another host by what libfabric reports, and a host that is silent by what the kernel
//! knows of the connections to it. The module `failure` has the details and what is not noticed, and
//! how long memory is kept from its user when a peer is lost that may still live: until libfabric has
//! let it go, and at most for twice BOWLINE_OFI_LOST_AFTER, when the endpoint is closed. Over shared
//! memory a peer that lives and does not answer keeps it until its process ends.
//!
//! libfabric's `shm` (seen with 1.17) guards a receiver's queue by a spin lock in shared memory. A
//! peer that is killed while it holds the lock, which is while it sends, leaves the survivor in the
//! library for ever (about one death in ten in the midst of a stream). It also takes the answers to puts and
//! atomics in the order in which they were asked for, so that none comes any more behind one of a peer that
//! has died or closed. With `BOWLINE_OFI_ATOMICS=auto` atomics go by messages there, which have no answers of
//! that kind; puts still have them. It is never chosen by itself;
//! ranks of one host have Bowline's own shared memory, which settles what a dead sender left.
//!
//! # Signals
//!
//! Builds of libfabric with PSM take SIGSEGV, SIGTERM and others when they are loaded, and end the
//! process with exit code 1. [`restore_signals`] puts the system's handling back; opening an
//! interface does so, too.
//!
//! # Registrations
//!
//! libfabric's cache of registrations stays off in the process, since what watches memory for it overwrites
//! code of the C library that other threads may run at that moment; the module `monitor` has the details.
//! So memory of the user that was not registered before is registered for each operation, where the
//! provider wants that. Who has no threads beside, or whose system lets users watch memory by userfaultfd, may
//! set `FI_MR_CACHE_MONITOR` to `memhooks` or `userfaultfd`, which is left as it is.
//!
//! # Memory
//!
//! `tcp;ofi_rxm` of 1.17 takes and clears 64 MB when an interface is opened, and 5 MB with
//! FI_OFI_RXM_MSG_TX_SIZE=128, FI_OFI_RXM_MSG_RX_SIZE=128 and FI_OFI_RXM_BUFFER_SIZE=8192 in the
//! environment.
//!
//! # Thread safety and cleanup
//!
//! An interface belongs to one thread at a time. Dropping it sends a Close to peers, waits up to
//! 0.2 s until what was sent has left, and closes endpoint, queue and domain in the order that
//! libfabric needs. libfabric's `shm` keeps names in `/dev/shm` while it runs and leaves them
//! behind after SIGKILL.

mod addr;
mod atomics;
mod buffers;
mod contract;
mod disconnect;
mod failure;
mod flushes;
mod iface;
mod info;
mod link_check;
mod liveness;
mod md;
mod monitor;
mod net;
mod options;
mod peer;
mod post;
mod progress;
mod receive;
mod refusal;
mod remains;
mod rma;
mod shortage;
mod signals;
mod sockets;
mod wait;
mod wait_set;
mod wire;

pub use iface::{OfiCounters, OfiIface};
pub use info::{OfiOffer, list};
pub use options::{
    ATOMICS, Atomics, BUFFER_BYTES, DOMAIN, LOST_AFTER, OPERATIONS, OfiOptions, PROVIDER,
    REGISTRATION, RX_BUFFERS, Registration, SETTINGS, TX_BUFFERS, WAKEUP, WINDOW, WakeupMode,
};
pub use signals::restore_signals;

/// Decoders of foreign bytes, for the fuzz target.
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz {
    pub use crate::addr::fuzz_address as address;
    pub use crate::md::fuzz_rkey as rkey;
    pub use crate::wire::fuzz_message as message;
}
