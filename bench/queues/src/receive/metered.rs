//! An interface that counts the memory which is asked for to be reached by peers, and is the interface below
//! otherwise: what a lane over it holds is known from below, whatever the lane says of itself.

use std::sync::Arc;

use bowline_base::buffer::RecvBuf;
use bowline_base::sync::atomic::{AtomicUsize, Ordering};
use bowline_uct::{
    Iface, LocalSlice, MemError, MemHandle, MemoryDomain, OneSided, SignalSafe, Wakeup, forward,
};

/// Bytes that were asked for. Relaxed everywhere: one thread asks and reads.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked(Arc<AtomicUsize>);

impl Asked {
    pub(super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn add<T>(&self, bytes: usize, answer: Result<T, MemError>) -> Result<T, MemError> {
        if answer.is_ok() {
            self.0.fetch_add(bytes, Ordering::Relaxed);
        }
        answer
    }
}

/// The interface.
#[derive(Debug)]
pub(super) struct Metered<I> {
    below: I,
    asked: Asked,
}

impl<I: Iface> Metered<I> {
    pub(super) fn new(below: I) -> (Self, Asked) {
        let asked = Asked::default();
        (Self { below, asked: asked.clone() }, asked)
    }
}

macro_rules! below {
    ($($name:ident)+) => { forward! { [this => this.below] $($name)+ } };
}

impl<I: Iface> MemoryDomain for Metered<I> {
    below! { md_attr mem_view mem_release }
    below! { rkey_pack rkey_unpack rkey_ptr puts_end_last rkey_release rkey_of }

    fn mem_alloc(&mut self, len: usize) -> Result<MemHandle, MemError> {
        let answer = self.below.mem_alloc(len);
        self.asked.add(len, answer)
    }

    fn mem_register(&mut self, memory: RecvBuf) -> Result<MemHandle, MemError> {
        let len = memory.len();
        let answer = self.below.mem_register(memory);
        self.asked.add(len, answer)
    }

    fn mem_expose(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        let answer = self.below.mem_expose(bytes);
        self.asked.add(bytes.len(), answer)
    }

    fn mem_lend(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        let answer = self.below.mem_lend(bytes);
        self.asked.add(bytes.len(), answer)
    }
}

// SAFETY: all operations are those of the interface below, which keeps the rules.
unsafe impl<I: Iface> Iface for Metered<I> {
    below! { attr address reachable explain connect source_of disconnect all_sent }
    below! { am_short am_bcopy am_zcopy flush flush_all fence want_writable progress check invalidate }
}

impl<I: Iface> OneSided for Metered<I> {
    below! { put_short put_bcopy put_zcopy put_notify get_bcopy get_zcopy atomic }
}

impl<I: Iface> Wakeup for Metered<I> {
    below! { doorbell arm disarm event_fd }
}

impl<I: Iface> SignalSafe for Metered<I> {
    below! {
        progress_signal_safe can_post_signal_safe prepare unprepare rkey_unpack_signal_safe get_prepared lend_signal_safe
    }
}
