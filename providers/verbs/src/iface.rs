//! The interface as its users see it: one type for both modes, chosen by the options.

use std::os::fd::BorrowedFd;

use bowline_base::buffer::RecvBuf;
use bowline_base::doorbell::Doorbell;
use bowline_base::view::View;
use bowline_uct::{
    AmHeader, AmId, Armed, AtomicOp, AtomicWidth, Desc, EpId, Iface, IfaceAttr, LocalSlice, MdAttr,
    MemError, MemHandle, MemoryDomain, OpenError, PostError, Posted, RemoteSlice, RkeyId, Sink,
    Source, Token, Unreachable,
};

use crate::options::{Mode, VerbsOptions};
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
            Mode::Rc => Self::Rc(Box::new(RcIface::open(options)?)),
            Mode::Ud => Self::Ud(Box::new(UdIface::open(options)?)),
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

    /// Ends the interface as a crash of its process would: nobody is told anything.
    #[doc(hidden)]
    pub fn abandon(self) {
        match self {
            Self::Rc(iface) => iface.abandon(),
            Self::Ud(iface) => iface.abandon(),
        }
    }
}

/// Methods that do the same in the mode that there is.
macro_rules! by_mode {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)* $(,)?) $(-> $result:ty)?;)*) => {
        $(#[inline]
        fn $name(&self $(, $argument: $type)*) $(-> $result)? {
            match self {
                Self::Rc(iface) => iface.$name($($argument),*),
                Self::Ud(iface) => iface.$name($($argument),*),
            }
        })*
    };
    ($(fn $name:ident(&mut self $(, $argument:ident: $type:ty)* $(,)?) $(-> $result:ty)?;)*) => {
        $(#[inline]
        fn $name(&mut self $(, $argument: $type)*) $(-> $result)? {
            match self {
                Self::Rc(iface) => iface.$name($($argument),*),
                Self::Ud(iface) => iface.$name($($argument),*),
            }
        })*
    };
}

impl MemoryDomain for VerbsIface {
    by_mode! {
        fn md_attr(&self) -> MdAttr;
        fn mem_view(&self, handle: MemHandle) -> Option<View<'_>>;
        fn rkey_pack(&self, handle: MemHandle) -> Result<Vec<u8>, MemError>;
        fn rkey_ptr(&self, rkey: RkeyId, remote: u64, len: usize) -> Option<View<'_>>;
        fn rkey_of(&self, start: u64, len: usize, out: &mut [u8]) -> Option<usize>;
    }
    by_mode! {
        fn mem_alloc(&mut self, len: usize) -> Result<MemHandle, MemError>;
        fn mem_register(&mut self, memory: RecvBuf) -> Result<MemHandle, MemError>;
        fn mem_lend(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError>;
        fn mem_release(&mut self, handle: MemHandle) -> Result<Option<RecvBuf>, MemError>;
        fn rkey_unpack(&mut self, ep: EpId, packed: &[u8]) -> Result<RkeyId, MemError>;
        fn rkey_release(&mut self, rkey: RkeyId);
    }
}

// SAFETY: all operations are those of the interface inside, which keeps the rules.
unsafe impl Iface for VerbsIface {
    by_mode! {
        fn attr(&self) -> &IfaceAttr;
        fn address(&self) -> Vec<u8>;
        fn reachable(&self, address: &[u8]) -> Result<(), Unreachable>;
        fn source_of(&self, address: &[u8]) -> Option<Source>;
        fn desc_view(&self, desc: Desc) -> Option<View<'_>>;
        fn doorbell(&self) -> Option<&Doorbell>;
    }
    by_mode! {
        fn connect(&mut self, address: &[u8]) -> Result<EpId, OpenError>;
        fn disconnect(&mut self, ep: EpId);
        fn all_sent(&mut self) -> bool;
        fn am_short(&mut self, ep: EpId, id: AmId, header: &AmHeader, payload: &[u8]) -> Result<(), PostError>;
        fn am_bcopy(&mut self, ep: EpId, id: AmId, header: &AmHeader, max_len: usize, pack: &mut dyn FnMut(View<'_>) -> usize) -> Result<usize, PostError>;
        fn am_zcopy(&mut self, ep: EpId, id: AmId, header: &AmHeader, payload: &[LocalSlice], token: Token) -> Result<Posted, PostError>;
        fn put_short(&mut self, ep: EpId, bytes: &[u8], to: RemoteSlice) -> Result<(), PostError>;
        fn put_bcopy(&mut self, ep: EpId, max_len: usize, pack: &mut dyn FnMut(View<'_>) -> usize, to: RemoteSlice) -> Result<usize, PostError>;
        fn put_zcopy(&mut self, ep: EpId, from: &[LocalSlice], to: RemoteSlice, token: Token) -> Result<Posted, PostError>;
        fn put_notify(&mut self, ep: EpId, bytes: &[u8], to: RemoteSlice, id: AmId, header: &AmHeader) -> Result<(), PostError>;
        fn get_bcopy(&mut self, ep: EpId, from: RemoteSlice, len: usize, unpack: &mut dyn FnMut(View<'_>)) -> Result<(), PostError>;
        fn get_zcopy(&mut self, ep: EpId, to: &[LocalSlice], from: RemoteSlice, token: Token) -> Result<Posted, PostError>;
        fn atomic_post(&mut self, ep: EpId, op: AtomicOp, width: AtomicWidth, at: RemoteSlice) -> Result<(), PostError>;
        fn atomic_fetch(&mut self, ep: EpId, op: AtomicOp, width: AtomicWidth, at: RemoteSlice, token: Token) -> Result<Option<u64>, PostError>;
        fn flush(&mut self, ep: EpId, token: Token) -> Result<Posted, PostError>;
        fn flush_all(&mut self, token: Token) -> Result<Posted, PostError>;
        fn fence(&mut self) -> Result<(), PostError>;
        fn want_writable(&mut self, ep: EpId);
        fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32;
        fn release(&mut self, desc: Desc);
        fn check(&mut self, ep: EpId) -> Result<(), PostError>;
        fn arm(&mut self, descriptor: bool) -> Armed;
        fn disarm(&mut self);
        fn event_fd(&mut self) -> Result<BorrowedFd<'_>, OpenError>;
        fn invalidate(&mut self, ep: EpId);
    }
}
