//! Doorbells: the handles by which workers sleep and their peers wake them.
//!
//! The rules of sleeping and waking, and the words that peers share, are in the module `doorbell_word`; how
//! a sender sleeps until a queue has space is in [`space`].

#[cfg(not(bowline_loom))]
mod handle;
#[cfg(not(bowline_loom))]
mod signal;
pub mod space;
#[cfg(not(bowline_loom))]
mod wake_fd;
mod wake_set;

#[cfg(not(bowline_loom))]
pub use crate::doorbell_word::report_refusal;
pub use crate::doorbell_word::{
    DoorbellWords, Sleep, Woken, heavy_fence, light_fence, light_fence_needed,
};
#[cfg(not(bowline_loom))]
pub use handle::{Doorbell, network_namespace};
#[cfg(not(bowline_loom))]
pub use signal::Signal;
#[cfg(not(bowline_loom))]
pub use wake_fd::{WakeFd, WakeSource};
pub use wake_set::WakeSet;

#[cfg(all(test, not(bowline_loom)))]
mod tests;
