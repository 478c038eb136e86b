//! The interface as its users see it: one type for both modes, chosen by the options.

use bowline_uct::{Iface, MemoryDomain, OneSided, OpenError, SignalSafe, Wakeup, forward};

use crate::options::{VerbsMode, VerbsOptions};
use crate::rc::RcIface;
use crate::ud::UdIface;

/// An interface over an RDMA device.
#[derive(Debug)]
#[non_exhaustive]
pub enum VerbsIface {
    /// Over reliable connections.
    Rc(Box<RcIface>),
    /// Over datagrams.
    Ud(Box<UdIface>),
}

impl VerbsIface {
    /// Opens an interface of the mode, and on the device, that the options name.
    ///
    /// # Errors
    /// When there is no such device, or it cannot give what the options ask for.
    pub fn open(options: &VerbsOptions) -> Result<Self, OpenError> {
        Ok(match options.mode {
            VerbsMode::Rc => Self::Rc(Box::new(RcIface::open(options)?)),
            VerbsMode::Ud => Self::Ud(Box::new(UdIface::open(options)?)),
        })
    }

    /// Whether every endpoint has its connection, or the news that there is none. Connections
    /// are made when they are first used, unless the options say otherwise.
    pub fn is_settled(&self) -> bool {
        match self {
            Self::Rc(iface) => iface.is_settled(),
            Self::Ud(iface) => iface.is_settled(),
        }
    }

    /// Ends the interface as a crash of its process would: no peer is notified.
    #[doc(hidden)]
    pub fn abandon(self) {
        match self {
            Self::Rc(iface) => iface.abandon(),
            Self::Ud(iface) => iface.abandon(),
        }
    }
}

/// Methods that are those of the mode.
macro_rules! by_mode {
    ($($name:ident)+) => {
        forward! { [Self::Rc(iface) => iface, Self::Ud(iface) => iface] $($name)+ }
    };
}

impl MemoryDomain for VerbsIface {
    by_mode! { md_attr mem_alloc mem_register mem_expose mem_lend mem_view mem_release }
    by_mode! { rkey_pack rkey_unpack rkey_ptr puts_end_last rkey_release rkey_of }
}

// SAFETY: all operations are those of the interface inside, which keeps the rules.
unsafe impl Iface for VerbsIface {
    by_mode! { attr address reachable explain connect source_of disconnect all_sent }
    by_mode! { am_short am_bcopy am_zcopy flush flush_all fence want_writable progress check invalidate }
}

impl OneSided for VerbsIface {
    by_mode! { put_short put_bcopy put_zcopy put_notify get_bcopy get_zcopy atomic }
}

impl Wakeup for VerbsIface {
    by_mode! { doorbell arm disarm event_fd }
}

impl SignalSafe for VerbsIface {
    by_mode! {
        progress_signal_safe can_post_signal_safe prepare unprepare rkey_unpack_signal_safe get_prepared lend_signal_safe
    }
}
