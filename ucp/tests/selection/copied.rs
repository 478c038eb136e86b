//! The simulated network as a transport on which processors copy: its gets take a time of their own, which may change while
//! workers are at it. What it allocates is mapped by nobody, and no sender helps to copy.

use bowline_sim::SimIface;
use bowline_uct::{
    Caps, Iface, IfaceAttr, KeptArrivals, MemoryDomain, OneSided, SignalSafe, TagOffload, Wakeup,
    forward,
};

pub(super) struct Copied {
    iface: SimIface,
    attr: IfaceAttr,
}

impl Copied {
    pub(super) fn new(iface: SimIface) -> Self {
        let mut attr = iface.attr().clone();
        attr.caps |= Caps::RKEY_PTR;
        attr.caps -= Caps::ATOMIC_CPU;
        Self { iface, attr }
    }
}

macro_rules! below {
    ($($name:ident)+) => { forward! { [this => this.iface] $($name)+ } };
}

impl MemoryDomain for Copied {
    below! { md_attr mem_alloc mem_register mem_expose mem_lend mem_view mem_release }
    below! { rkey_pack rkey_unpack rkey_ptr puts_end_last rkey_release rkey_of }
}

// SAFETY: all operations are those of the interface below, which keeps the rules.
unsafe impl Iface for Copied {
    below! { address reachable explain connect source_of disconnect all_sent }
    below! { am_short am_bcopy am_zcopy flush flush_all fence want_writable progress check invalidate }

    fn attr(&self) -> &IfaceAttr {
        &self.attr
    }
}

impl OneSided for Copied {
    below! { put_short put_bcopy put_zcopy put_notify get_bcopy get_zcopy atomic }
}

impl Wakeup for Copied {
    below! { doorbell arm disarm event_fd }
}

impl KeptArrivals for Copied {
    below! { release desc_view }
}

impl TagOffload for Copied {
    below! { tag_send tag_recv tag_cancel tag_limits }
}

impl SignalSafe for Copied {
    below! { progress_signal_safe }
}
