//! Shared memory that has no resources for most copies, as that of thread ranks has none while somebody else is at the
//! table of what was lent.

use bowline_shm::ShmIface;
use bowline_uct::{
    EpId, Iface, KeptArrivals, LocalSlice, MemoryDomain, OneSided, PostError, Posted, RemoteSlice,
    SignalSafe, TagOffload, Token, Wakeup, forward,
};

/// The interface, and how often it was asked to copy.
pub(super) struct Starved {
    iface: ShmIface,
    asked: u32,
}

impl Starved {
    pub(super) fn new(iface: ShmIface) -> Self {
        Self { iface, asked: 0 }
    }

    /// Two of three copies are refused.
    fn has_resources(&mut self) -> Result<(), PostError> {
        self.asked += 1;
        if self.asked.is_multiple_of(3) { Ok(()) } else { Err(PostError::NoResource) }
    }
}

macro_rules! below {
    ($($name:ident)+) => { forward! { [this => this.iface] $($name)+ } };
}

impl MemoryDomain for Starved {
    below! { md_attr mem_alloc mem_register mem_expose mem_lend mem_view mem_release }
    below! { rkey_pack rkey_unpack rkey_ptr puts_end_last rkey_release rkey_of }
}

// SAFETY: all operations are those of the interface below, which keeps the rules, or are not begun.
unsafe impl Iface for Starved {
    below! { attr address reachable explain connect source_of disconnect all_sent }
    below! { am_short am_bcopy am_zcopy flush flush_all fence want_writable progress check invalidate }
}

impl OneSided for Starved {
    below! { put_short put_bcopy put_zcopy put_notify get_bcopy atomic }

    fn get_zcopy(
        &mut self,
        ep: EpId,
        to: &[LocalSlice],
        from: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        self.has_resources()?;
        self.iface.get_zcopy(ep, to, from, token)
    }
}

impl Wakeup for Starved {
    below! { doorbell arm disarm event_fd }
}

impl KeptArrivals for Starved {
    below! { release desc_view }
}

impl TagOffload for Starved {
    below! { tag_send tag_recv tag_cancel tag_limits }
}

impl SignalSafe for Starved {
    below! { progress_signal_safe }
}
