//! One-sided operations: memory that peers may reach, its keys, put, get and atomics.
//!
//! Memory belongs to one lane: the first that can allocate or register it. The key says which
//! provider opens it; a peer unpacks it on its own lane of that provider.

use bowline_base::buffer::{RecvBuf, SendBuf, Shape};
use bowline_base::view::View;
use bowline_uct::{
    AddrReader, AddrWriter, AtomicOp, AtomicWidth, Caps, EpId, MemError, MemHandle, PostError,
    RemoteSlice, RkeyId,
};
use thiserror::Error;

use crate::close::KeyUse;
use crate::error::OpError;
use crate::one_sided::{Kind, Progress, Task, op_error};
use crate::peer::Ep;
use crate::request::{OneSided, RequestId};
use crate::tagged::Sent;
use crate::worker::Worker;

/// Any flavour of putting.
const PUTS: Caps = Caps::PUT_SHORT.union(Caps::PUT_BCOPY).union(Caps::PUT_ZCOPY);

/// Local memory that peers may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    lane: usize,
    handle: MemHandle,
}

/// A peer's memory, opened here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteKey {
    lane: usize,
    ep: EpId,
    rkey: RkeyId,
}

/// Why memory could not be made reachable or a key not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RmaError {
    /// The transport's reason.
    #[error(transparent)]
    Memory(#[from] MemError),
    /// No lane can.
    #[error("no transport of this worker can {0}")]
    NoLane(&'static str),
    /// The packed key is damaged.
    #[error("the packed key is damaged")]
    BadKey,
    /// The peer cannot be reached.
    #[error(transparent)]
    Peer(#[from] OpError),
}

impl Worker {
    /// Allocates `len` zeroed bytes that peers reach without a system call.
    ///
    /// # Errors
    /// When memory runs out or no lane allocates.
    pub fn mem_alloc(&self, len: usize) -> Result<Memory, RmaError> {
        let inner = &mut *self.inner.borrow_mut();
        let able = |iface: &dyn bowline_uct::Iface| iface.md_attr().can_alloc;
        let lane = inner.first_lane(able).ok_or(RmaError::NoLane("allocate memory"))?;
        let handle = inner.lanes[lane].iface.mem_alloc(len)?;
        Ok(Memory { lane, handle })
    }

    /// Makes memory of the caller reachable.
    ///
    /// # Errors
    /// When the system refuses or no lane registers, and for memory that is not in one piece.
    pub fn mem_register(&self, memory: RecvBuf) -> Result<Memory, RmaError> {
        if memory.shape() != Shape::Whole {
            return Err(MemError::Unsupported("register pieces; do so with each").into());
        }
        let inner = &mut *self.inner.borrow_mut();
        // Where nobody can put, memory would be open to half of the operations.
        let able = |iface: &dyn bowline_uct::Iface| {
            iface.md_attr().can_register && iface.attr().caps.intersects(PUTS)
        };
        let lane = inner.first_lane(able).ok_or(RmaError::NoLane("register memory"))?;
        let handle = inner.lanes[lane].iface.mem_register(memory)?;
        Ok(Memory { lane, handle })
    }

    /// Hands a view of the memory to `look`; peers may write it meanwhile.
    ///
    /// # Errors
    /// When it was released.
    pub fn mem_view<R>(
        &self,
        memory: Memory,
        look: impl FnOnce(View<'_>) -> R,
    ) -> Result<R, RmaError> {
        let inner = self.inner.borrow();
        let view = inner.lanes[memory.lane].iface.mem_view(memory.handle);
        Ok(look(view.ok_or(MemError::NoSuch)?))
    }

    /// Ends reachability. Registered memory comes back.
    ///
    /// # Errors
    /// When it was released before.
    pub fn mem_release(&self, memory: Memory) -> Result<Option<RecvBuf>, RmaError> {
        let inner = &mut *self.inner.borrow_mut();
        Ok(inner.lanes[memory.lane].iface.mem_release(memory.handle)?)
    }

    /// The key that opens the memory to peers, as bytes.
    ///
    /// # Errors
    /// When it was released.
    pub fn rkey_pack(&self, memory: Memory) -> Result<Vec<u8>, RmaError> {
        let inner = self.inner.borrow();
        let iface = &inner.lanes[memory.lane].iface;
        let key = iface.rkey_pack(memory.handle)?;
        let mut out = AddrWriter::new();
        out.bytes(iface.attr().provider.as_bytes()).bytes(&key);
        Ok(out.finish())
    }

    /// Opens a key that came from the peer `ep`.
    ///
    /// # Errors
    /// When the key is damaged, or its provider is none of this worker's, or does not reach the
    /// peer.
    pub fn rkey_unpack(&self, ep: Ep, packed: &[u8]) -> Result<RemoteKey, RmaError> {
        let mut reader = AddrReader::new(packed);
        let provider = reader.bytes().map_err(|_| RmaError::BadKey)?;
        let key = reader.bytes().map_err(|_| RmaError::BadKey)?;
        let inner = &mut *self.inner.borrow_mut();
        let index = ep.0;
        let peer = inner.engine.peers.get(index as usize).ok_or(OpError::BadEndpoint)?;
        if let Some(how) = peer.failure() {
            return Err(OpError::from(how).into());
        }
        let named = |iface: &dyn bowline_uct::Iface| iface.attr().provider.as_bytes() == provider;
        let lane = inner.first_lane(named).ok_or(RmaError::NoLane("open this key"))?;
        let theirs = peer.address.lanes.iter().find(|l| l.provider.as_bytes() == provider);
        let address = &theirs.ok_or(RmaError::BadKey)?.address;
        let iface = &mut inner.lanes[lane].iface;
        let ep = iface.connect(address).map_err(|error| {
            tracing::warn!(%error, "no one-sided way to a peer");
            OpError::Unsupported
        })?;
        let rkey = iface.rkey_unpack(ep, key)?;
        let used = inner.keys_open.entry((lane, ep)).or_insert(KeyUse { open: 0, peer: index });
        used.open += 1;
        used.peer = index;
        inner.poll_lane(lane);
        Ok(RemoteKey { lane, ep, rkey })
    }

    /// Hands a view of `len` bytes of the peer's memory at `remote` to `look`, where the transport
    /// has them mapped. Others may write them meanwhile.
    ///
    /// # Errors
    /// When the range is outside of the key, or the memory is not mapped here.
    #[inline]
    pub fn remote_view<R>(
        &self,
        key: RemoteKey,
        remote: u64,
        len: usize,
        look: impl FnOnce(View<'_>) -> R,
    ) -> Result<R, RmaError> {
        let inner = self.inner.borrow();
        let view = inner.lanes[key.lane].iface.rkey_ptr(key.rkey, remote, len);
        Ok(look(view.ok_or(RmaError::NoLane("map this memory"))?))
    }

    /// Whether a put by this key ends with its last word, so that its target needs no other signal:
    /// who finds the last 8 aligned bytes of a put of at least 16 changed, by a load with Acquire,
    /// finds all of it. So it is with memory that the transport has mapped; else a put of a word
    /// behind a [`fence`](Self::fence) says that those before it are there.
    pub fn puts_end_last(&self, key: RemoteKey) -> bool {
        self.inner.borrow().lanes[key.lane].iface.puts_end_last(key.rkey)
    }

    /// Closes a key.
    pub fn rkey_release(&self, key: RemoteKey) {
        let inner = &mut *self.inner.borrow_mut();
        inner.lanes[key.lane].iface.rkey_release(key.rkey);
        inner.key_released(key.lane, key.ep);
    }

    /// Writes `buffer` to `remote` in the peer's memory. Complete means that the buffer is free;
    /// [`Worker::flush`] says when the bytes are visible.
    ///
    /// # Errors
    /// When the address is outside of the key or the peer has failed, and for a buffer of callbacks.
    #[inline]
    pub fn put(&self, key: RemoteKey, remote: u64, buffer: SendBuf) -> Result<Sent, OpError> {
        let inner = &mut *self.inner.borrow_mut();
        let to = RemoteSlice { address: remote, rkey: key.rkey };
        let lane = &mut inner.lanes[key.lane];
        if inner.engine.one_sided.is_empty()
            && let Some(longest) = lane.choices.put_short_to
            && let Some(bytes) = buffer.contiguous()
            && bytes.len() <= longest
        {
            match lane.iface.put_short(key.ep, bytes, to) {
                Ok(()) => {
                    inner.engine.counters.put_short += 1;
                    return Ok(Sent::Done);
                }
                Err(PostError::TooLong | PostError::Unsupported | PostError::NoResource) => {}
                Err(error) => return Err(op_error(error)),
            }
        }
        inner.one_sided(key, to, Kind::Put, OneSided { send: Some(buffer), ..OneSided::default() })
    }

    /// Reads from `remote` in the peer's memory into `buffer`. One that owns its bytes comes back by
    /// [`Worker::take_with_buffer`]: such a read is a request even if it is complete at once.
    ///
    /// # Errors
    /// As for [`Worker::put`].
    pub fn get(&self, key: RemoteKey, remote: u64, buffer: RecvBuf) -> Result<Sent, OpError> {
        let inner = &mut *self.inner.borrow_mut();
        let from = RemoteSlice { address: remote, rkey: key.rkey };
        let task = Task { lane: key.lane, ep: key.ep, at: from, kind: Kind::Get };
        let buffer = match inner.begin_read(task, buffer) {
            Ok(Progress::Done(outcome)) => return outcome.map(|_| Sent::Done),
            Ok(Progress::Pending(id)) => return Ok(Sent::Pending(id)),
            Err(buffer) => buffer,
        };
        let one = OneSided { receive: Some(buffer), ..OneSided::default() };
        inner.one_sided(key, from, Kind::Get, one)
    }

    /// An atomic operation whose old value is wanted: at once, or as `length` of the request's
    /// status.
    ///
    /// # Errors
    /// When the address is misaligned or outside of the key, the operation is not native, or the
    /// peer has failed.
    pub fn atomic_fetch(
        &self,
        key: RemoteKey,
        remote: u64,
        op: AtomicOp,
        width: AtomicWidth,
    ) -> Result<Result<u64, RequestId>, OpError> {
        let inner = &mut *self.inner.borrow_mut();
        let at = RemoteSlice { address: remote, rkey: key.rkey };
        inner.fetch_at_once(key.lane, key.ep, at, op, width)
    }

    /// An atomic operation without result.
    ///
    /// # Errors
    /// As for [`Worker::atomic_fetch`].
    pub fn atomic_post(
        &self,
        key: RemoteKey,
        remote: u64,
        op: AtomicOp,
        width: AtomicWidth,
    ) -> Result<(), OpError> {
        let inner = &mut *self.inner.borrow_mut();
        let at = RemoteSlice { address: remote, rkey: key.rkey };
        let task = Task { lane: key.lane, ep: key.ep, at, kind: Kind::Change(op, width) };
        match inner.change_at_once(task) {
            Progress::Done(outcome) => outcome.map(drop),
            Progress::Pending(id) => {
                // Nobody waits for it; a failure is the peer's, which the flush reports.
                inner.engine.detach(id);
                Ok(())
            }
        }
    }
}

impl crate::worker::Inner {
    /// The first lane for which `able` says so.
    fn first_lane(&self, able: impl Fn(&dyn bowline_uct::Iface) -> bool) -> Option<usize> {
        // A loopback lane is of no use to others; it comes last.
        let loopback = |lane: &crate::lanes::Lane| lane.loopback;
        let fits = |wanted: bool| {
            let mut lanes = self.lanes.iter();
            lanes.position(|lane| loopback(lane) == wanted && able(&*lane.iface))
        };
        fits(false).or_else(|| fits(true))
    }

    /// Puts or gets.
    fn one_sided(
        &mut self,
        key: RemoteKey,
        at: RemoteSlice,
        kind: Kind,
        one: OneSided,
    ) -> Result<Sent, OpError> {
        match self.begin_one_sided(Task { lane: key.lane, ep: key.ep, at, kind }, one) {
            Progress::Done(outcome) => outcome.map(|_| Sent::Done),
            Progress::Pending(id) => Ok(Sent::Pending(id)),
        }
    }
}
