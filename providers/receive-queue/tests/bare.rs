//! A transport with its active messages taken away: puts, gets and atomics are left.

use std::sync::{Arc, Mutex};

use bowline_base::buffer::RecvBuf;
use bowline_base::view::View;
use bowline_uct::{
    AtomicOp, AtomicWidth, Caps, EpId, Iface, IfaceAttr, LocalSlice, MemError, MemHandle,
    MemoryDomain, OneSided, OpLimits, OpenError, PeerFailure, PostError, Posted, RemoteSlice,
    SignalSafe, Sink, Token, Wakeup, forward, lacks,
};

/// What happens beside a lane, right before its n-th access to its memory from now on.
pub(crate) type Beside = Arc<Mutex<Option<(u32, Box<dyn FnOnce() + Send>)>>>;

/// Whether a lane is dead: nothing is reported to it then, and nothing of it goes out.
pub(crate) type Dead = Arc<Mutex<bool>>;

/// How an interface's connection to itself ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OwnEnd {
    /// It fails.
    Fail,
    /// Atomics are refused.
    Refuse(PostError),
}

/// By which an interface's connection to itself is made to end.
#[derive(Clone, Default)]
pub(crate) struct Own(Arc<Mutex<Option<OwnEnd>>>);

impl Own {
    pub(crate) fn end(&self, how: OwnEnd) {
        *self.0.lock().expect("no panic beside") = Some(how);
    }

    fn how(&self) -> Option<OwnEnd> {
        *self.0.lock().expect("no panic beside")
    }
}

/// `I` without messages.
pub(crate) struct WithoutMessages<I> {
    /// Always there, but while it is dropped.
    inner: Option<I>,
    attr: IfaceAttr,
    beside: Beside,
    dead: Dead,
    /// How it ends where it is dead.
    crash: Option<fn(I)>,
    /// Endpoints.
    eps: Vec<EpId>,
    /// The one to itself.
    own_ep: Option<EpId>,
    own: Own,
    /// Pieces of memory that it still has.
    pieces: u32,
}

impl<I: Iface> WithoutMessages<I> {
    pub(crate) fn new(inner: I) -> Self {
        let mut attr = inner.attr().clone();
        attr.caps.remove(
            Caps::AM_SHORT | Caps::AM_BCOPY | Caps::AM_ZCOPY | Caps::AM_ORDERED | Caps::PUT_NOTIFY,
        );
        attr.limits.am = OpLimits::default();
        let (beside, dead) = (Beside::default(), Dead::default());
        let (eps, own) = (Vec::new(), Own::default());
        let inner = Some(inner);
        let pieces = u32::MAX;
        Self { inner, attr, beside, dead, crash: None, eps, own_ep: None, own, pieces }
    }

    fn inner(&self) -> &I {
        self.inner.as_ref().expect("it is there until it is dropped")
    }

    fn take_piece(&mut self) -> Result<(), MemError> {
        let none = MemError::Unsupported("find more memory");
        self.pieces = self.pieces.checked_sub(1).ok_or(none)?;
        Ok(())
    }

    fn inner_mut(&mut self) -> &mut I {
        self.inner.as_mut().expect("it is there until it is dropped")
    }

    fn is_dead(&self) -> bool {
        *self.dead.lock().expect("no panic beside")
    }

    /// The same for a lane that can die: when what is returned is set, the lane hears that all others have
    /// failed, so that it sends nothing more, and `crash` ends what is below.
    pub(crate) fn mortal(inner: I, crash: fn(I)) -> (Self, Dead) {
        let mut this = Self::new(inner);
        this.crash = Some(crash);
        let dead = Arc::clone(&this.dead);
        (this, dead)
    }

    /// By which something is made to happen beside.
    pub(crate) fn beside(&self) -> Beside {
        Arc::clone(&self.beside)
    }

    /// By which its connection to itself is made to end.
    pub(crate) fn own(&self) -> Own {
        self.own.clone()
    }

    /// The same where atomics are coherent among themselves only.
    pub(crate) fn with_device_atomics(inner: I) -> Self {
        let mut this = Self::new(inner);
        this.attr.caps.remove(Caps::ATOMIC_CPU);
        this.attr.caps.insert(Caps::ATOMIC_DEVICE);
        this
    }

    /// The same where a descriptor wakes, and no doorbell does.
    pub(crate) fn without_doorbell(inner: I) -> Self {
        let mut this = Self::new(inner);
        assert!(this.attr.caps.contains(Caps::EVENT_FD | Caps::RMA_WAKES));
        this.attr.caps.remove(Caps::WAKEUP);
        this
    }

    /// The same where no put is longer than `bytes`, so that messages travel in many.
    /// With memory for so many pieces, and no more.
    pub(crate) fn with_pieces(inner: I, pieces: u32) -> Self {
        let mut this = Self::new(inner);
        this.pieces = pieces;
        this
    }

    pub(crate) fn with_puts_of(inner: I, bytes: usize) -> Self {
        let mut this = Self::new(inner);
        this.attr.limits.put.max_short = bytes;
        this.attr.limits.put.max_bcopy = bytes;
        this
    }
}

impl<I> Drop for WithoutMessages<I> {
    fn drop(&mut self) {
        let dead = self.dead.lock().is_ok_and(|dead| *dead);
        if let (true, Some(crash)) = (dead, self.crash)
            && let Some(inner) = self.inner.take()
        {
            crash(inner);
        }
    }
}

/// Methods that are passed on as they are.
macro_rules! passed {
    ($($name:ident)+) => { forward! { [this => this.inner()] $($name)+ } };
}

/// The same, of those that change something.
macro_rules! passed_mut {
    ($($name:ident)+) => { forward! { [this => this.inner_mut()] $($name)+ } };
}

/// Those that post something: the dead post nothing.
macro_rules! posted {
    ($( fn $name:ident(&mut self $(, $arg:ident: $type:ty)* $(,)?) -> $result:ty; )*) => {
        $( fn $name(&mut self $(, $arg: $type)*) -> $result {
            if self.is_dead() {
                return Err(PostError::NoResource);
            }
            self.inner_mut().$name($($arg),*)
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
        self.inner().mem_view(handle)
    }

    passed! { md_attr rkey_pack rkey_ptr puts_end_last rkey_of }

    passed_mut! { mem_expose mem_lend mem_release rkey_unpack rkey_release }

    fn mem_alloc(&mut self, len: usize) -> Result<MemHandle, MemError> {
        self.take_piece()?;
        self.inner_mut().mem_alloc(len)
    }

    fn mem_register(&mut self, memory: RecvBuf) -> Result<MemHandle, MemError> {
        self.take_piece()?;
        self.inner_mut().mem_register(memory)
    }
}

// SAFETY: all operations are those of the interface inside.
unsafe impl<I: Iface> Iface for WithoutMessages<I> {
    fn attr(&self) -> &IfaceAttr {
        &self.attr
    }

    lacks! { am_short am_bcopy am_zcopy }

    passed! { address reachable explain source_of }

    fn connect(&mut self, address: &[u8]) -> Result<EpId, OpenError> {
        let ep = self.inner_mut().connect(address)?;
        self.eps.push(ep);
        if address == self.inner().address() {
            self.own_ep = Some(ep);
        }
        Ok(ep)
    }

    fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        if let Some(OwnEnd::Fail) = self.own.how()
            && let Some(ep) = self.own_ep.take()
        {
            self.inner_mut().invalidate(ep);
        }
        if !self.is_dead() {
            return self.inner_mut().progress(sink, budget);
        }
        let reported = self.eps.len().min(budget as usize);
        for ep in self.eps.drain(..reported) {
            sink.failed(None, Some(ep), PeerFailure::Died);
        }
        reported as u32
    }

    posted! {
        fn flush(&mut self, ep: EpId, token: Token) -> Result<Posted, PostError>;
        fn flush_all(&mut self, token: Token) -> Result<Posted, PostError>;
        fn fence(&mut self) -> Result<(), PostError>;
        fn check(&mut self, ep: EpId) -> Result<(), PostError>;
    }

    passed_mut! { disconnect all_sent want_writable invalidate }
}

impl<I: Iface> OneSided for WithoutMessages<I> {
    lacks! { put_notify }

    fn atomic(
        &mut self,
        ep: EpId,
        op: AtomicOp,
        width: AtomicWidth,
        at: RemoteSlice,
        token: Token,
    ) -> Result<Option<u64>, PostError> {
        if let Some(OwnEnd::Refuse(error)) = self.own.how()
            && self.own_ep == Some(ep)
        {
            return Err(error);
        }
        if self.is_dead() {
            return Err(PostError::NoResource);
        }
        self.inner_mut().atomic(ep, op, width, at, token)
    }

    posted! {
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
    }
}

impl<I: Iface> Wakeup for WithoutMessages<I> {
    passed! { doorbell }

    passed_mut! { arm disarm event_fd }
}

impl<I: Iface> SignalSafe for WithoutMessages<I> {
    passed! { can_post_signal_safe }

    passed_mut! { progress_signal_safe prepare unprepare rkey_unpack_signal_safe get_prepared lend_signal_safe }
}
