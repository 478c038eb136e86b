//! A transport whose other side is a script: what arrives, what completes and what is refused is
//! decided by the fuzz input. Its local side keeps the contract, since only peers are hostile.

use std::collections::{HashSet, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_base::buffer::RecvBuf;
use bowline_base::doorbell::Doorbell;
use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{
    AmHeader, AmId, Armed, Arrival, AtomicOps, Caps, EpId, Iface, IfaceAttr, Limits, LocalSlice,
    MdAttr, MemError, MemHandle, MemoryDomain, OneSided, OpLimits, OpenError, PeerFailure,
    PostError, Posted, RemoteSlice, RkeyId, SignalSafe, Sink, Source, Token, Unreachable, Wakeup,
    lacks,
};

/// Name and only device of the transport.
pub(crate) const PROVIDER: &str = "script";

/// Longest payload in one message.
pub(crate) const MESSAGE_MAX: usize = 256;

/// Words of sent messages that are remembered, so that a script can send them back.
const HEARD_MAX: usize = 32;

/// What the script lets happen in the next progress.
pub(crate) enum Event {
    /// A message from a peer.
    Arrives(Source, AmId, AmHeader, Vec<u8>),
    /// The oldest operation in flight ends.
    Completes(Result<u64, PeerFailure>),
    /// Senders that wait for space may go on.
    Writable,
    /// A peer fails.
    Fails(Source, PeerFailure),
}

/// What script and transport share.
#[derive(Default)]
pub(crate) struct Wire {
    /// What happens next.
    pub(crate) events: VecDeque<Event>,
    /// Posts that are refused for want of a resource.
    pub(crate) refuse: u32,
    /// Words of the messages that were sent.
    pub(crate) heard: VecDeque<u64>,
    in_flight: VecDeque<Token>,
    want_writable: VecDeque<EpId>,
    endpoints: u32,
    keys: u32,
    lent: HashSet<MemHandle>,
    loans: u64,
}

impl Wire {
    fn post(&mut self, header: &AmHeader, payload: &[u8]) -> Result<(), PostError> {
        self.reserve()?;
        let words = payload.chunks_exact(8).take(3);
        let words = words.map(|w| u64::from_le_bytes(w.try_into().expect("eight bytes")));
        for word in header.iter().copied().take(2).chain(words) {
            self.heard.push_back(word);
            if self.heard.len() > HEARD_MAX {
                self.heard.pop_front();
            }
        }
        Ok(())
    }

    fn reserve(&mut self) -> Result<(), PostError> {
        if self.refuse > 0 {
            self.refuse -= 1;
            return Err(PostError::NoResource);
        }
        Ok(())
    }

    fn fly(&mut self, token: Token) -> Result<Posted, PostError> {
        self.reserve()?;
        if token != Token::NONE {
            self.in_flight.push_back(token);
        }
        Ok(Posted::InFlight)
    }
}

/// The transport.
pub(crate) struct ScriptLane {
    attr: IfaceAttr,
    wire: Arc<Mutex<Wire>>,
}

impl ScriptLane {
    /// A transport over `wire`. `puts`: it has puts, and lends memory to those of peers, who write nothing.
    pub(crate) fn new(wire: Arc<Mutex<Wire>>, puts: bool) -> Self {
        let op = OpLimits { max_short: 64, max_bcopy: MESSAGE_MAX, ..OpLimits::default() };
        let zcopy = OpLimits { max_zcopy: usize::MAX, max_iov: 1, ..op };
        let caps = Caps::AM_SHORT
            | Caps::AM_BCOPY
            | Caps::AM_ORDERED
            | Caps::GET_ZCOPY
            | Caps::RMA_REGISTERED
            | Caps::PEER_FAILURE;
        let attr = IfaceAttr {
            provider: PROVIDER,
            device: "input".into(),
            caps: if puts { caps | Caps::PUT_ZCOPY | Caps::LEND } else { caps },
            limits: Limits { am: op, put: zcopy, get: zcopy },
            atomics: AtomicOps::empty(),
            max_endpoints: 1 << 10,
            receive_bytes: 0,
        };
        Self { attr, wire }
    }

    fn wire(&self) -> MutexGuard<'_, Wire> {
        // A panic is the fuzzer's finding, not the lock's.
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryDomain for ScriptLane {
    lacks! { mem_expose puts_end_last }

    fn md_attr(&self) -> MdAttr {
        MdAttr { rkey_bytes: 8, ..MdAttr::default() }
    }

    fn mem_alloc(&mut self, _: usize) -> Result<MemHandle, MemError> {
        Err(MemError::Unsupported("allocate"))
    }

    fn mem_register(&mut self, _: RecvBuf) -> Result<MemHandle, MemError> {
        Err(MemError::Unsupported("register"))
    }

    fn mem_lend(&mut self, _: LocalSlice) -> Result<MemHandle, MemError> {
        if !self.attr.caps.contains(Caps::LEND) {
            return Err(MemError::Unsupported("lend"));
        }
        let mut wire = self.wire();
        wire.loans += 1;
        let memory = MemHandle(Key::from_wire(wire.loans));
        wire.lent.insert(memory);
        Ok(memory)
    }

    fn mem_view(&self, _: MemHandle) -> Option<View<'_>> {
        None
    }

    fn mem_release(&mut self, memory: MemHandle) -> Result<Option<RecvBuf>, MemError> {
        if self.wire().lent.remove(&memory) { Ok(None) } else { Err(MemError::NoSuch) }
    }

    fn rkey_pack(&self, memory: MemHandle) -> Result<Vec<u8>, MemError> {
        let lent = self.wire().lent.contains(&memory);
        if lent { Ok(memory.0.to_wire().to_le_bytes().to_vec()) } else { Err(MemError::NoSuch) }
    }

    fn rkey_unpack(&mut self, _: EpId, packed: &[u8]) -> Result<RkeyId, MemError> {
        if packed.len() > 8 {
            return Err(MemError::BadKey);
        }
        let mut wire = self.wire();
        wire.keys += 1;
        Ok(RkeyId(Key::from_wire(u64::from(wire.keys))))
    }

    fn rkey_ptr(&self, _: RkeyId, _: u64, _: usize) -> Option<View<'_>> {
        None
    }

    fn rkey_release(&mut self, _: RkeyId) {}

    fn rkey_of(&self, _: u64, _: usize, _: &mut [u8]) -> Option<usize> {
        None
    }
}

#[allow(unsafe_code)]
// SAFETY: nothing here touches slices after the call that posts.
unsafe impl Iface for ScriptLane {
    lacks! { explain am_zcopy }

    fn attr(&self) -> &IfaceAttr {
        &self.attr
    }

    fn address(&self) -> Vec<u8> {
        vec![0]
    }

    fn reachable(&self, address: &[u8]) -> Result<(), Unreachable> {
        if address.len() == 1 { Ok(()) } else { Err(Unreachable::because("not of this wire")) }
    }

    fn connect(&mut self, address: &[u8]) -> Result<EpId, OpenError> {
        self.reachable(address)?;
        let mut wire = self.wire();
        wire.endpoints += 1;
        Ok(EpId(wire.endpoints - 1))
    }

    fn source_of(&self, address: &[u8]) -> Option<Source> {
        // The peer with the address [n] sends as source n.
        match address {
            [n] if n % 2 == 0 => Some(Source(u32::from(*n))),
            _ => None,
        }
    }

    fn disconnect(&mut self, _: EpId) {}

    fn am_short(
        &mut self,
        _: EpId,
        _: AmId,
        header: &AmHeader,
        payload: &[u8],
    ) -> Result<(), PostError> {
        if payload.len() > self.attr.limits.am.max_short {
            return Err(PostError::TooLong);
        }
        self.wire().post(header, payload)
    }

    fn am_bcopy(
        &mut self,
        _: EpId,
        _: AmId,
        header: &AmHeader,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
    ) -> Result<usize, PostError> {
        if max_len > MESSAGE_MAX {
            return Err(PostError::TooLong);
        }
        self.wire().reserve()?;
        let mut buffer = RecvBuf::owned(vec![0; max_len]);
        let packed = pack(buffer.view());
        assert!(packed <= max_len, "more was packed than there was space for");
        let payload = buffer.into_owned().expect("it was owned");
        self.wire().post(header, &payload[..packed])?;
        Ok(packed)
    }

    fn flush(&mut self, _: EpId, _: Token) -> Result<Posted, PostError> {
        Ok(Posted::Done)
    }

    fn flush_all(&mut self, _: Token) -> Result<Posted, PostError> {
        Ok(Posted::Done)
    }

    fn fence(&mut self) -> Result<(), PostError> {
        Ok(())
    }

    fn want_writable(&mut self, ep: EpId) {
        self.wire().want_writable.push_back(ep);
    }

    fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut count = 0;
        while count < budget {
            // The lock is not held while the sink works.
            let Some(event) = self.wire().events.pop_front() else {
                break;
            };
            match event {
                Event::Arrives(source, id, header, payload) => {
                    let mut payload = RecvBuf::owned(payload);
                    let payload = payload.view();
                    let arrival = Arrival { source, id, header, payload };
                    let _ = sink.am(arrival);
                }
                Event::Completes(result) => {
                    let token = self.wire().in_flight.pop_front();
                    if let Some(token) = token {
                        sink.completed(token, result);
                    }
                }
                Event::Writable => {
                    let ep = self.wire().want_writable.pop_front();
                    if let Some(ep) = ep {
                        sink.writable(ep);
                    }
                }
                Event::Fails(source, how) => sink.failed(Some(source), None, how),
            }
            count += 1;
        }
        count
    }

    fn check(&mut self, _: EpId) -> Result<(), PostError> {
        Ok(())
    }

    fn invalidate(&mut self, _: EpId) {}

    fn all_sent(&mut self) -> bool {
        true
    }
}

impl OneSided for ScriptLane {
    lacks! { put_short put_bcopy put_notify get_bcopy atomic }

    fn put_zcopy(
        &mut self,
        _: EpId,
        _: &[LocalSlice],
        _: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        if !self.attr.caps.contains(Caps::PUT_ZCOPY) {
            return Err(PostError::Unsupported);
        }
        self.wire().fly(token)
    }

    fn get_zcopy(
        &mut self,
        _: EpId,
        _: &[LocalSlice],
        _: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        self.wire().fly(token)
    }
}

impl Wakeup for ScriptLane {
    fn doorbell(&self) -> Option<&Doorbell> {
        None
    }

    fn arm(&mut self, _: bool) -> Armed {
        Armed::Busy
    }

    fn disarm(&mut self) {}

    fn event_fd(&mut self) -> Result<BorrowedFd<'_>, OpenError> {
        Err(OpenError::Unreachable(Unreachable::because("a script has no descriptor")))
    }
}

impl SignalSafe for ScriptLane {
    lacks! { SignalSafe }
}
