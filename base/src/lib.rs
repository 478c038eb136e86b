//! The ground every layer of Bowline stands on.
//!
//! What is here: the seam between `std` and `loom` atomics ([`sync`]), views of memory that
//! another process may write ([`view`]) and copies to and from it ([`copy`]), handles of user buffers ([`buffer`]), also of those in pieces
//! or behind callbacks ([`scatter`]), how elements lie that are not in one piece ([`layout`]), the queue
//! algorithms over plain memory ([`words`], [`scmp`], [`ring`]), pieces that two sides claim from both
//! ends ([`cursor`]), a barrier with a small reduction ([`barrier`]), the lock of a worker ([`worker_lock`]), a value with repeated work ([`repeat`]), a helper thread that is wanted after a time ([`alarm`]), the memory of a job ([`region`],
//! [`job`]), doorbells ([`doorbell`]), the last rounds of what is dropped ([`drain`]), a clock for short times ([`short_clock`]), threads that run soon ([`short_slice`]) and of the library's own ([`helper_thread`]), generation-checked slabs ([`slab`]), counters
//! ([`mod@counters`]) and configuration ([`config`]).
//!
//! What is not: any protocol, any transport, any policy. Nothing here depends on another crate
//! of the workspace.

pub mod alarm;
pub mod barrier;
pub mod buffer;
pub mod config;
pub mod copy;
pub mod counters;
pub mod cursor;
pub mod doorbell;
mod doorbell_word;
pub mod drain;
pub mod error;
pub mod helper_thread;
pub mod job;
pub mod layout;
pub mod region;
pub mod repeat;
pub mod ring;
pub mod scatter;
pub mod scmp;
pub mod short_clock;
pub mod short_slice;
pub mod slab;
pub mod staging;
pub mod sync;
pub mod view;
pub mod words;
pub mod worker_lock;
