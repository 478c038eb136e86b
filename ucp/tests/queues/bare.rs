//! A transport with its active messages taken away: puts, gets and atomics are left.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use bowline_base::buffer::RecvBuf;
use bowline_base::doorbell::Doorbell;
use bowline_base::view::View;
use bowline_uct::{
    AmHeader, AmId, Armed, AtomicOp, AtomicWidth, Caps, Desc, EpId, Iface, IfaceAttr, LocalSlice,
    MdAttr, MemError, MemHandle, MemoryDomain, OpLimits, OpenError, PostError, Posted, RemoteSlice,
    RkeyId, Sink, Source, Token, Unreachable,
};

/// What happens beside a lane, right before its n-th look at its memory from now on.
pub(crate) type Beside = Arc<Mutex<Option<(u32, Box<dyn FnOnce() + Send>)>>>;

/// `I` without messages.
pub(crate) struct WithoutMessages<I> {
    inner: I,
    attr: IfaceAttr,
    beside: Beside,
}

impl<I: Iface> WithoutMessages<I> {
    pub(crate) fn new(inner: I) -> Self {
        let mut attr = inner.attr().clone();
        attr.caps.remove(
            Caps::AM_SHORT
                | Caps::AM_BCOPY
                | Caps::AM_ZCOPY
                | Caps::AM_ORDERED
                | Caps::PUT_NOTIFY
                | Caps::TAG_OFFLOAD,
        );
        attr.limits.am = OpLimits::default();
        Self { inner, attr, beside: Beside::default() }
    }

    /// By which something is made to happen beside.
    #[allow(dead_code)] // Not every test binary wants it.
    pub(crate) fn beside(&self) -> Beside {
        Arc::clone(&self.beside)
    }

    /// The same where atomics are coherent among themselves only.
    #[allow(dead_code)] // Not every test binary wants it.
    pub(crate) fn with_device_atomics(inner: I) -> Self {
        let mut this = Self::new(inner);
        this.attr.caps.remove(Caps::ATOMIC_CPU);
        this.attr.caps.insert(Caps::ATOMIC_DEVICE);
        this
    }

    /// The same where a descriptor wakes, and no doorbell does.
    #[allow(dead_code)] // Not every test binary wants it.
    pub(crate) fn without_doorbell(inner: I) -> Self {
        let mut this = Self::new(inner);
        assert!(this.attr.caps.contains(Caps::EVENT_FD | Caps::RMA_WAKES));
        this.attr.caps.remove(Caps::WAKEUP);
        this
    }

    /// The same where no put is longer than `bytes`, so that messages travel in many.
    #[allow(dead_code)] // Not every test binary wants it.
    pub(crate) fn with_puts_of(inner: I, bytes: usize) -> Self {
        let mut this = Self::new(inner);
        this.attr.limits.put.max_short = bytes;
        this.attr.limits.put.max_bcopy = bytes;
        this
    }
}

/// Methods that are passed on as they are.
macro_rules! passed {
    ($( fn $name:ident(&self $(, $arg:ident: $type:ty)* $(,)?) $(-> $result:ty)?; )*) => {
        $( fn $name(&self $(, $arg: $type)*) $(-> $result)? {
            self.inner.$name($($arg),*)
        } )*
    };
}

/// The same, of those that change something.
macro_rules! passed_mut {
    ($( fn $name:ident(&mut self $(, $arg:ident: $type:ty)* $(,)?) $(-> $result:ty)?; )*) => {
        $( fn $name(&mut self $(, $arg: $type)*) $(-> $result)? {
            self.inner.$name($($arg),*)
        } )*
    };
}

impl<I: Iface> MemoryDomain for WithoutMessages<I> {
    fn mem_view(&self, handle: MemHandle) -> Option<View<'_>> {
        let mut beside = self.beside.lock().expect("no panic beside");
        let due = match &mut *beside {
            Some((0, _)) => beside.take(),
            Some((left, _)) => {
                *left -= 1;
                None
            }
            None => None,
        };
        drop(beside);
        if let Some((_, happen)) = due {
            happen();
        }
        self.inner.mem_view(handle)
    }

    passed! {
        fn md_attr(&self) -> MdAttr;
        fn rkey_pack(&self, handle: MemHandle) -> Result<Vec<u8>, MemError>;
        fn rkey_ptr(&self, rkey: RkeyId, remote: u64, len: usize) -> Option<View<'_>>;
        fn rkey_of(&self, start: u64, len: usize, out: &mut [u8]) -> Option<usize>;
    }

    passed_mut! {
        fn mem_alloc(&mut self, len: usize) -> Result<MemHandle, MemError>;
        fn mem_register(&mut self, memory: RecvBuf) -> Result<MemHandle, MemError>;
        fn mem_expose(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError>;
        fn mem_lend(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError>;
        fn mem_release(&mut self, handle: MemHandle) -> Result<Option<RecvBuf>, MemError>;
        fn rkey_unpack(&mut self, ep: EpId, packed: &[u8]) -> Result<RkeyId, MemError>;
        fn rkey_release(&mut self, rkey: RkeyId);
    }
}

impl<I: Iface> Iface for WithoutMessages<I> {
    fn attr(&self) -> &IfaceAttr {
        &self.attr
    }

    fn am_short(&mut self, _: EpId, _: AmId, _: &AmHeader, _: &[u8]) -> Result<(), PostError> {
        Err(PostError::Unsupported)
    }

    fn am_bcopy(
        &mut self,
        _: EpId,
        _: AmId,
        _: &AmHeader,
        _: usize,
        _: &mut dyn FnMut(View<'_>) -> usize,
    ) -> Result<usize, PostError> {
        Err(PostError::Unsupported)
    }

    passed! {
        fn address(&self) -> Vec<u8>;
        fn reachable(&self, address: &[u8]) -> Result<(), Unreachable>;
        fn source_of(&self, address: &[u8]) -> Option<Source>;
        fn desc_view(&self, desc: Desc) -> Option<View<'_>>;
        fn doorbell(&self) -> Option<&Doorbell>;
    }

    passed_mut! {
        fn connect(&mut self, address: &[u8]) -> Result<EpId, OpenError>;
        fn disconnect(&mut self, ep: EpId);
        fn put_short(&mut self, ep: EpId, bytes: &[u8], to: RemoteSlice) -> Result<(), PostError>;
        fn put_bcopy(
            &mut self,
            ep: EpId,
            max_len: usize,
            pack: &mut dyn FnMut(View<'_>) -> usize,
            to: RemoteSlice,
        ) -> Result<usize, PostError>;
        fn put_zcopy(
            &mut self,
            ep: EpId,
            from: &[LocalSlice],
            to: RemoteSlice,
            token: Token,
        ) -> Result<Posted, PostError>;
        fn get_bcopy(
            &mut self,
            ep: EpId,
            from: RemoteSlice,
            len: usize,
            unpack: &mut dyn FnMut(View<'_>),
        ) -> Result<(), PostError>;
        fn get_zcopy(
            &mut self,
            ep: EpId,
            to: &[LocalSlice],
            from: RemoteSlice,
            token: Token,
        ) -> Result<Posted, PostError>;
        fn atomic_post(
            &mut self,
            ep: EpId,
            op: AtomicOp,
            width: AtomicWidth,
            at: RemoteSlice,
        ) -> Result<(), PostError>;
        fn atomic_fetch(
            &mut self,
            ep: EpId,
            op: AtomicOp,
            width: AtomicWidth,
            at: RemoteSlice,
            token: Token,
        ) -> Result<Option<u64>, PostError>;
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
