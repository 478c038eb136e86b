//! The asymmetric fence: nothing at the sender, a system call at the sleeper.
//!
//! `membarrier(GLOBAL_EXPEDITED)` (Linux 4.16) runs a full fence on every processor that
//! executes a thread of a process registered for it, so both must register, and every handle of
//! a doorbell does. It is not a way to order anything else. Under loom both sides are SeqCst
//! fences, which is what the pair amounts to.

#[cfg(bowline_loom)]
mod imp {
    use crate::sync::atomic::{Ordering, fence};

    /// A SeqCst fence.
    pub fn heavy_fence() {
        // Pairs with `light_fence` below: either the owner sees the message, or the sender sees
        // that it sleeps.
        fence(Ordering::SeqCst);
    }

    /// A SeqCst fence.
    pub fn light_fence() {
        // Pairs with `heavy_fence` above.
        fence(Ordering::SeqCst);
    }

    /// The model's senders always fence.
    pub fn light_fence_needed() -> bool {
        true
    }
}

#[cfg(not(bowline_loom))]
mod imp {
    use crate::sync::atomic::{AtomicU8, Ordering, compiler_fence, fence};

    const UNKNOWN: u8 = 0;
    const REGISTERED: u8 = 1;
    const REFUSED: u8 = 2;

    /// What this process knows of membarrier. Goes from `UNKNOWN` to one of the others, once.
    static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

    /// Makes the fence for this process and, as far as they have registered, for all others.
    /// Without membarrier it is a SeqCst fence of the caller alone.
    pub fn heavy_fence() {
        if !membarrier() {
            // Pairs with the real fences of senders. One that trusts membarrier makes none;
            // rule 5 of the doorbell is there for it.
            fence(Ordering::SeqCst);
        }
    }

    /// What a sender does between publishing and reading whether the receiver sleeps: nothing
    /// but keeping the compiler from exchanging the two, or a SeqCst fence where membarrier is
    /// missing. [`Doorbell::ring`](crate::doorbell::Doorbell::ring) includes it.
    #[inline]
    pub fn light_fence() {
        // Relaxed: a thread that does not see the registration yet makes a real fence.
        if STATE.load(Ordering::Relaxed) == REGISTERED {
            compiler_fence(Ordering::SeqCst);
        } else {
            slow_light_fence();
        }
    }

    #[cold]
    fn slow_light_fence() {
        light_fence_needed();
        // Pairs with the owner's fence in `arm_word`, be it membarrier or SeqCst: between the
        // sender's publish and its load of the word, as rule 4 of the doorbell wants it.
        fence(Ordering::SeqCst);
    }

    /// Whether the senders of this process have to fence each message. Registers the process on
    /// first use.
    pub fn light_fence_needed() -> bool {
        // Relaxed: the word carries no data, and the kernel orders the registration.
        if STATE.load(Ordering::Relaxed) == UNKNOWN {
            let registered = command(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
            let state = if registered { REGISTERED } else { REFUSED };
            if !registered {
                tracing::warn!(
                    "membarrier is refused by this system: every message costs a fence more"
                );
            }
            STATE.store(state, Ordering::Relaxed);
        }
        STATE.load(Ordering::Relaxed) != REGISTERED
    }

    /// The system call; false where it is missing or forbidden.
    pub(crate) fn membarrier() -> bool {
        !light_fence_needed() && command(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED)
    }

    fn command(command: libc::c_int) -> bool {
        // SAFETY: membarrier takes three integers and touches no memory of the caller.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }
}

pub use imp::{heavy_fence, light_fence, light_fence_needed};

#[cfg(not(bowline_loom))]
pub(crate) use imp::membarrier;
