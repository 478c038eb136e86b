//! How a worker sleeps and how its peers wake it, at the price of one plain load per message: the word
//! of a doorbell, and the socket beside it. Its handle is [`doorbell`](crate::doorbell).
//!
//! # The word
//!
//! ```text
//!              arm(Futex)                 ring: swap, futex wake
//!   AWAKE ───────────────────► FUTEX ─────────────────────────────► AWAKE
//!     │        arm(Fd)                    ring: swap, one datagram
//!     └──────────────────────► FD ────────────────────────────────► AWAKE
//!                              FUTEX, FD ──disarm──► AWAKE
//!                              FD ◄──── the datagram was refused ──── AWAKE
//! ```
//!
//! 1. Only the owner (the worker) stores `FUTEX` or `FD`; anybody may take them back to `AWAKE`. The
//!    exception is rule 7.
//! 2. A sender publishes its message and then loads the word. Finding `AWAKE` it is done. Else it
//!    changes the word to `AWAKE` by one atomic operation, and the one that did that wakes the owner.
//! 3. The owner stores its state, makes the *heavy fence*, polls its queues once more, and
//!    only sleeps when they are empty. The futex call compares the word itself, so a ring between
//!    the poll and the call is not lost.
//! 4. Between a sender's publish and its load there must be a StoreLoad fence, or both sides may
//!    miss each other. It would cost every message half of a ring's throughput, so the owner pays
//!    for both: `membarrier(GLOBAL_EXPEDITED)` runs a fence on every processor that runs a
//!    registered process, 6 us when it sleeps instead of 20 ns per message.
//! 5. Where a *sender* cannot register for membarrier, [`light_fence`] is a real fence in it.
//!    Where an *owner* cannot call membarrier, it sets the bit `FENCED` beside the state: senders
//!    that find it make a real fence and load the word again. So does an owner whom hardly anybody
//!    rings: a private doorbell, or a rank that is alone on its node.
//! 6. A sender may die between taking the state back and waking. The process that marks it dead wakes
//!    every worker of the node without reading the word.
//! 7. A sender that has taken `FD` and is refused the datagram by the system (it has no descriptor or
//!    no memory left) puts `FD` back, unless the word has changed, so that the next ring tries again.
//!    If the owner has woken meanwhile, the word of one that is awake says `FD` until it arms or disarms
//!    again: it gets a datagram that it does not need, and its next sleep is short.
//!
//! What sleeps and for how long is not decided here, nor is anything read from a queue.

mod fence;
#[cfg(not(bowline_loom))]
mod socket;

#[cfg(not(bowline_loom))]
pub(crate) use fence::membarrier;
pub use fence::{heavy_fence, light_fence, light_fence_needed};
#[cfg(not(bowline_loom))]
pub use socket::report_refusal;
#[cfg(not(bowline_loom))]
pub(crate) use socket::{WakeSocket, note_refusal, prepare_to_wake};

#[cfg(not(bowline_loom))]
use rustix::thread::futex;

use crate::sync::atomic::{AtomicU32, Ordering, fence};

pub(crate) const AWAKE: u32 = 0;
pub(crate) const FUTEX: u32 = 1;
pub(crate) const FD: u32 = 2;
/// Beside the state: the owner makes no membarrier. Only ever set.
pub(crate) const FENCED: u32 = 4;

/// The shared words of a doorbell. Zero is awake.
#[derive(Debug, Default)]
#[repr(C)]
pub struct DoorbellWords {
    /// State of the owner; see the module's text.
    pub word: AtomicU32,
    /// 1 once the owner has a socket, so that a thread that wakes without loading the word knows
    /// that a datagram is wanted too.
    pub socket: AtomicU32,
}

/// On what the owner sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// On the word itself, by [`Doorbell::wait`](crate::doorbell::Doorbell::wait).
    Futex,
    /// On the event descriptor, by `poll` or `epoll` of the caller.
    Fd,
}

impl Sleep {
    const fn state(self) -> u32 {
        match self {
            Self::Futex => FUTEX,
            Self::Fd => FD,
        }
    }
}

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Woken {
    /// Somebody rang, or the doorbell was not armed.
    Rung,
    /// The time is over.
    TimedOut,
    /// A signal, or nothing in particular.
    Spurious,
}

/// The sender's half: after its publish. `wake` is called if the owner must be woken; it says whether
/// nothing is left to do.
#[inline]
pub(crate) fn ring_word(word: &AtomicU32, wake: impl FnOnce(Sleep) -> bool) {
    light_fence();
    // Relaxed: ordered after the publish by the fence; pairs with the store of `arm_word`.
    let seen = word.load(Ordering::Relaxed);
    if seen != AWAKE {
        ring_sleeper(word, seen, wake);
    }
}

#[cold]
fn ring_sleeper(word: &AtomicU32, seen: u32, wake: impl FnOnce(Sleep) -> bool) {
    if seen & FENCED != 0 {
        // Rule 5: pairs with the SeqCst fence of an owner that has no membarrier.
        fence(Ordering::SeqCst);
        if word.load(Ordering::Relaxed) & !FENCED == AWAKE {
            return;
        }
    }
    // Release pairs with the Acquire of `rung`, so that an owner which finds itself awake sees
    // the message; Acquire orders two ringers, of whom one wakes.
    let was = word.fetch_and(FENCED, Ordering::AcqRel);
    let woken = match was & !FENCED {
        FUTEX => wake(Sleep::Futex),
        FD => wake(Sleep::Fd),
        _ => true,
    };
    if !woken {
        // Rule 7. Release: the next to take the state, who wakes, passes on what this one has published.
        // Relaxed: one that is refused reads nothing.
        let _ = word.compare_exchange(was & FENCED, was, Ordering::Release, Ordering::Relaxed);
    }
}

/// Wakes the owner whatever its word says, after the death of a peer was published (rule 6): by the
/// futex, and by a datagram if it has a socket.
fn wake_whatever(words: &DoorbellWords, futex: impl FnOnce(), datagram: impl FnOnce() -> bool) {
    // Orders the caller's publish before the change of the word; pairs with the heavy fence of
    // `arm_word`, like the senders' light fence. The marker of a death need not be registered.
    fence(Ordering::SeqCst);
    // Release pairs with the Acquire of `rung`.
    let was = words.word.fetch_and(FENCED, Ordering::AcqRel);
    futex();
    // Acquire pairs with the Release of `announce_socket`.
    if (was & !FENCED == FD || words.socket.load(Ordering::Acquire) != 0) && !datagram() {
        // Rule 7, as in `ring_sleeper`.
        let _ = words.word.compare_exchange(
            was & FENCED,
            was & FENCED | FD,
            Ordering::Release,
            Ordering::Relaxed,
        );
    }
}

/// The owner's half: its socket can be sent to. Before it arms for a sleep on it.
pub(crate) fn announce_socket(words: &DoorbellWords) {
    // Release pairs with the Acquire of `wake_whatever`: the socket has its name.
    words.socket.store(1, Ordering::Release);
}

/// The owner's half: states the sleep. The owner must poll its queues afterwards.
pub(crate) fn arm_word(
    word: &AtomicU32,
    kind: Sleep,
    membarrier: impl FnOnce() -> bool,
    settle: impl FnOnce(),
) {
    // Relaxed: only the owner sets this bit.
    let fenced = word.load(Ordering::Relaxed) & FENCED;
    // Relaxed: the fence below orders it before the poll of the queues; pairs with the load of
    // `ring_word`. A swap, though nobody asks for the old value: models order it among the changes
    // of ringers, which they do not with a store, and who goes to sleep has the time.
    word.swap(kind.state() | fenced, Ordering::Relaxed);
    if fenced != 0 {
        // Pairs with the fence of `ring_sleeper`.
        fence(Ordering::SeqCst);
    } else if !membarrier() {
        // AcqRel: a ring since the store above is kept, and what it published is seen.
        word.fetch_or(FENCED, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        // A sender may have loaded the word before it had the bit, with its message still in the
        // store buffer. That lasts nanoseconds; the owner waits once, when the bit is new.
        settle();
    }
}

/// Whether the owner is awake by the word: somebody rang, or it never armed.
pub(crate) fn rung(word: &AtomicU32) -> bool {
    // Acquire pairs with the Release of `ring_sleeper`.
    word.load(Ordering::Acquire) & !FENCED == AWAKE
}

/// The owner is awake again. `drain` takes the datagrams out that have come: only afterwards, so that
/// one of a ring that the word has not kept away is among them or still to come.
pub(crate) fn disarm_word(word: &AtomicU32, drain: impl FnOnce()) {
    // Acquire pairs with the Release of `ring_sleeper`; keeps the bit of rule 5.
    word.fetch_and(FENCED, Ordering::Acquire);
    drain();
}

/// Before a rank attaches: registers the process, and has senders fence where it has no membarrier, or
/// is `alone` on its node, so that hardly anybody rings.
#[cfg(not(bowline_loom))]
pub(crate) fn prepare(words: &DoorbellWords, alone: bool) {
    if light_fence_needed() || alone {
        // Relaxed: published by the state that the rank stores when it attaches.
        words.word.fetch_or(FENCED, Ordering::Relaxed);
    }
}

/// Wakes a rank whatever its word says. For the death of a peer, which may have taken the sleep
/// state away without waking; see rule 6. `datagram` sends one to its socket, if it has one, and says
/// whether nothing is left to do.
#[cfg(not(bowline_loom))]
pub(crate) fn wake_always(words: &DoorbellWords, datagram: impl FnOnce() -> bool) {
    wake_whatever(words, || wake_futex(&words.word), datagram);
}

#[cfg(not(bowline_loom))]
pub(crate) fn wake_futex(word: &AtomicU32) {
    // Everybody: the threads of one worker may sleep on one word.
    if let Err(error) = futex::wake(word, futex::Flags::empty(), i32::MAX as u32) {
        // A signal handler may ring, which logs nothing.
        note_refusal(error);
    }
}

#[cfg(all(test, bowline_loom))]
pub(crate) mod loom_tests;
