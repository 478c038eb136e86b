//! One-sided operations: memory that peers may reach, its keys, put, get and atomics.
//!
//! Memory belongs to one lane: the first that can allocate or register it, or to the worker where none
//! can. The key says which provider opens it; a peer unpacks it on its own lane of that provider. Where
//! it has none that leads there, the owner carries the operations out ([`crate::emulate`]).

use bowline_base::buffer::{MemoryLayout, RecvBuf, SendBuf};
use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{
    AddrReader, AddrWriter, AtomicOp, AtomicWidth, Caps, EpId, MemError, MemHandle, PostError,
    Posted, RemoteSlice, RkeyId, WHOLE_PROCESS,
};
use thiserror::Error;

use crate::address::SERVES;
use crate::error::OpError;
use crate::one_sided::{Progress, op_error};
use crate::peer::{Ep, KeyUse};
use crate::request::{Kind, OneSided, RequestId, Sent, Task};
use crate::state::emulation::{Opened, ServedMemory, What};
use crate::worker::Worker;

/// Any flavour of putting.
const PUTS: Caps = Caps::PUT_SHORT.union(Caps::PUT_BCOPY).union(Caps::PUT_ZCOPY);

/// Local memory that peers may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryHandle {
    lane: usize,
    handle: MemHandle,
    /// Its name among those of the worker.
    id: Key,
}

/// In place of a lane: the worker itself.
const NO_LANE: usize = usize::MAX;

/// A peer's memory, opened here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteKey {
    lane: usize,
    ep: EpId,
    rkey: RkeyId,
    /// For what the transport lacks, where the owner would carry it out.
    served: Option<Key>,
}

impl RemoteKey {
    /// An operation at `remote`.
    const fn task(self, remote: u64, kind: Kind) -> Task {
        let Self { lane, ep, rkey, served } = self;
        Task { lane, ep, at: RemoteSlice { address: remote, rkey }, kind, served }
    }
}

/// Why memory could not be made reachable or a key not be opened.
#[derive(Error)]
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

bowline_base::debug_by_display!(RmaError);

impl Worker {
    /// Allocates `len` zeroed bytes that peers reach: without a system call where the preferred
    /// transport can allocate.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn mem_alloc(&self, len: usize) -> Result<MemoryHandle, RmaError> {
        let inner = &mut *self.inner.borrow_mut();
        let able = |iface: &dyn bowline_uct::Iface| iface.md_attr().can_alloc;
        match inner.first_lane(able) {
            Some(lane) => {
                let handle = inner.lanes[lane].iface.mem_alloc(len)?;
                Ok(inner.on_lane(lane, handle))
            }
            None => {
                let mut bytes = Vec::new();
                bytes.try_reserve_exact(len).map_err(|error| MemError::System {
                    act: "allocate memory",
                    source: std::io::Error::new(std::io::ErrorKind::OutOfMemory, error),
                })?;
                bytes.resize(len, 0);
                Ok(inner.on_worker(RecvBuf::owned(bytes)))
            }
        }
    }

    /// Makes memory of the caller reachable.
    ///
    /// # Errors
    /// When the system refuses, and for memory that is not in one piece.
    pub fn mem_register(&self, memory: RecvBuf) -> Result<MemoryHandle, RmaError> {
        if memory.shape() != MemoryLayout::Whole {
            return Err(MemError::Unsupported("register pieces; do so with each").into());
        }
        let inner = &mut *self.inner.borrow_mut();
        // Where nobody can put, memory would be open to half of the operations.
        let able = |iface: &dyn bowline_uct::Iface| {
            iface.md_attr().can_register && iface.attr().caps.intersects(PUTS)
        };
        match inner.first_lane(able) {
            Some(lane) => {
                let handle = inner.lanes[lane].iface.mem_register(memory)?;
                Ok(inner.on_lane(lane, handle))
            }
            None => Ok(inner.on_worker(memory)),
        }
    }

    /// Hands a view of the memory to `read`, which must not call the worker; peers may write it
    /// meanwhile. Its start, as a number, is the address by which peers name the first byte
    /// ([`Worker::put`]).
    ///
    /// # Errors
    /// When it was released.
    pub fn mem_view<R>(
        &self,
        memory: MemoryHandle,
        read: impl FnOnce(View<'_>) -> R,
    ) -> Result<R, RmaError> {
        if memory.lane == NO_LANE {
            let inner = &mut *self.inner.borrow_mut();
            return match inner.engine.emulation.served.get_mut(memory.id) {
                Some(ServedMemory::Own(buffer)) => Ok(read(buffer.view())),
                _ => Err(MemError::NoSuch.into()),
            };
        }
        let inner = self.inner.borrow();
        let view = inner.lanes[memory.lane].iface.mem_view(memory.handle);
        Ok(read(view.ok_or(MemError::NoSuch)?))
    }

    /// Ends reachability. Registered memory comes back.
    ///
    /// # Errors
    /// When it was released before.
    pub fn mem_release(&self, memory: MemoryHandle) -> Result<Option<RecvBuf>, RmaError> {
        let inner = &mut *self.inner.borrow_mut();
        match inner.engine.emulation.served.remove(memory.id) {
            None => Err(MemError::NoSuch.into()),
            Some(ServedMemory::Own(buffer)) => Ok(Some(buffer)),
            Some(ServedMemory::Lane(lane, handle)) => {
                Ok(inner.lanes[lane].iface.mem_release(handle)?)
            }
        }
    }

    /// The key that opens the memory to peers, as bytes.
    ///
    /// # Errors
    /// When it was released.
    pub fn rkey_pack(&self, memory: MemoryHandle) -> Result<Vec<u8>, RmaError> {
        let inner = self.inner.borrow();
        let mut out = AddrWriter::new();
        match inner.engine.emulation.served.get(memory.id) {
            None => return Err(MemError::NoSuch.into()),
            Some(ServedMemory::Own(_)) => out.bytes(&[]).bytes(&[]),
            Some(ServedMemory::Lane(lane, handle)) => {
                let iface = &inner.lanes[*lane].iface;
                let key = iface.rkey_pack(*handle)?;
                out.bytes(iface.attr().provider.as_bytes()).bytes(&key)
            }
        };
        out.u64(memory.id.to_wire());
        Ok(out.finish())
    }

    /// Opens a key that came from the peer `ep`. Where none of this worker's transports leads to the
    /// memory, its owner will carry the operations out, in its own progress.
    ///
    /// # Errors
    /// When the key is damaged, or no transport leads to its memory and the peer is of a version that
    /// does not carry operations out.
    pub fn rkey_unpack(&self, ep: Ep, packed: &[u8]) -> Result<RemoteKey, RmaError> {
        let mut reader = AddrReader::new(packed);
        let provider = reader.bytes().map_err(|_| RmaError::BadKey)?;
        let key = reader.bytes().map_err(|_| RmaError::BadKey)?;
        // A worker of an older version gives none.
        let memory = match reader.rest() {
            [] => None,
            _ => Some(reader.u64().map_err(|_| RmaError::BadKey)?),
        };
        let inner = &mut *self.inner.borrow_mut();
        let index = inner.engine.index_of(ep)?;
        let peer = &inner.engine.peers[index as usize];
        if let Some(how) = peer.failure() {
            return Err(OpError::from(how).into());
        }
        let serves = peer.address.features & SERVES != 0;
        let theirs = peer.address.lanes.iter().find(|l| l.provider.as_bytes() == provider);
        let address = theirs.map(|lane| lane.address.clone());
        if address.is_none() && !provider.is_empty() {
            return Err(RmaError::BadKey);
        }
        let named = |iface: &dyn bowline_uct::Iface| iface.attr().provider.as_bytes() == provider;
        if let Some(lane) = inner.first_lane(named)
            && let Some(address) = address
        {
            let iface = &mut inner.lanes[lane].iface;
            match iface.connect(&address) {
                Ok(ep) => {
                    let rkey = iface.rkey_unpack(ep, key)?;
                    let used = inner.keys_open.entry((lane, ep));
                    let used = used.or_insert(KeyUse { open: 0, peer: index });
                    used.open += 1;
                    used.peer = index;
                    inner.poll_lane(lane);
                    // Atomics of a device and those of a processor do not mix.
                    let mixes = !inner.lanes[lane].iface.attr().caps.contains(Caps::ATOMIC_DEVICE);
                    let opened = memory.filter(|_| serves && mixes);
                    let opened = opened.map(|memory| Opened { peer: index, memory, used: false });
                    let served = opened.map(|opened| inner.engine.emulation.open(opened));
                    return Ok(RemoteKey { lane, ep, rkey, served });
                }
                Err(error) => tracing::debug!(%error, "no one-sided path to a peer"),
            }
        }
        let Some(memory) = memory.filter(|_| serves) else {
            return Err(RmaError::NoLane("open this key"));
        };
        let opened = Opened { peer: index, memory, used: true };
        let opened = inner.engine.emulation.open(opened);
        let (ep, rkey) = (EpId(u32::MAX), RkeyId(opened));
        Ok(RemoteKey { lane: NO_LANE, ep, rkey, served: Some(opened) })
    }

    /// A key for all memory of the process of the peer `ep`, on this node, where a transport copies from there in the call.
    /// Whether the system allows that shows at the first operation, and any address is checked by it.
    ///
    /// # Errors
    /// When no transport has such keys, or none leads to the peer.
    pub fn rkey_of_process(&self, ep: Ep) -> Result<RemoteKey, RmaError> {
        let copies = |iface: &dyn bowline_uct::Iface| {
            let caps = iface.attr().caps;
            caps.contains(Caps::GET_ZCOPY | Caps::RKEY_PTR)
                && !caps.intersects(Caps::EXPOSE | Caps::LENT_ONLY | Caps::CARRIES)
        };
        let inner = self.inner.borrow();
        let lane = inner.first_lane(copies).ok_or(RmaError::NoLane("read a process's memory"))?;
        let mut packed = AddrWriter::new();
        packed.bytes(inner.lanes[lane].iface.attr().provider.as_bytes()).bytes(&WHOLE_PROCESS);
        drop(inner);
        self.rkey_unpack(ep, &packed.finish())
    }

    /// Hands a view of `len` bytes of the peer's memory at `remote` to `read`, where the transport
    /// has them mapped. Others may write them meanwhile. `read` must not call the worker.
    ///
    /// # Errors
    /// When the range is outside of the key, or the memory is not mapped here.
    #[inline]
    pub fn remote_view<R>(
        &self,
        key: RemoteKey,
        remote: u64,
        len: usize,
        read: impl FnOnce(View<'_>) -> R,
    ) -> Result<R, RmaError> {
        let inner = self.inner.borrow();
        let lane = inner.lanes.get(key.lane);
        let view = lane.and_then(|lane| lane.iface.rkey_ptr(key.rkey, remote, len));
        Ok(read(view.ok_or(RmaError::NoLane("map this memory"))?))
    }

    /// Whether a put by this key ends with its last word, so that its target needs no other signal:
    /// who finds the last 8 aligned bytes of a put of at least 16 changed, by a load with Acquire,
    /// finds all of it. So it is with memory that the transport has mapped; else a put of a word
    /// behind a [`fence`](Self::fence) says that those before it are there.
    pub fn puts_end_last(&self, key: RemoteKey) -> bool {
        let inner = self.inner.borrow();
        inner.lanes.get(key.lane).is_some_and(|lane| lane.iface.puts_end_last(key.rkey))
    }

    /// Closes a key.
    pub fn rkey_release(&self, key: RemoteKey) {
        let inner = &mut *self.inner.borrow_mut();
        if let Some(served) = key.served {
            inner.engine.emulation.close(served);
        }
        let Some(lane) = inner.lanes.get_mut(key.lane) else { return };
        lane.iface.rkey_release(key.rkey);
        inner.key_released(key.lane, key.ep);
    }

    /// Writes `buffer` to the address `remote` in the peer's memory: the one that the memory has for
    /// its owner ([`Worker::mem_view`]). Complete means that the buffer is free; [`Worker::flush`] says
    /// when the bytes are visible.
    ///
    /// # Errors
    /// When the address is outside of the key or the peer has failed, and for a buffer of callbacks.
    #[inline]
    pub fn put(&self, key: RemoteKey, remote: u64, buffer: SendBuf) -> Result<Sent, OpError> {
        let inner = &mut *self.inner.borrow_mut();
        let to = RemoteSlice { address: remote, rkey: key.rkey };
        let Some(lane) = inner.lanes.get_mut(key.lane) else {
            let one = OneSided { send: Some(buffer), ..OneSided::default() };
            return inner.emulate(key.rkey.0, remote, What::Put, one).sent();
        };
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
        let one = OneSided { send: Some(buffer), ..OneSided::default() };
        inner.begin_one_sided(key.task(remote, Kind::Put), one).sent()
    }

    /// Reads from `remote` in the peer's memory into `buffer`. One that owns its bytes comes back by
    /// [`Worker::take_with_buffer`]: such a read is a request even if it is complete at once.
    ///
    /// # Errors
    /// As for [`Worker::put`].
    #[inline]
    pub fn get(&self, key: RemoteKey, remote: u64, mut buffer: RecvBuf) -> Result<Sent, OpError> {
        let inner = &mut *self.inner.borrow_mut();
        let from = RemoteSlice { address: remote, rkey: key.rkey };
        let tried = inner.try_read(key.lane, key.ep, from, &mut buffer);
        if matches!(tried, Some(Ok(Posted::Done))) {
            return Ok(Sent::Done);
        }
        inner.go_on_reading(key, remote, tried, buffer)
    }

    /// An atomic operation whose old value is wanted: at once, or as `length` of the request's
    /// status. What the transport cannot do to this memory, its owner does in its own progress.
    ///
    /// # Errors
    /// When the address is misaligned or outside of the key, or the peer has failed.
    #[inline]
    pub fn atomic_fetch(
        &self,
        key: RemoteKey,
        remote: u64,
        op: AtomicOp,
        width: AtomicWidth,
    ) -> Result<Result<u64, RequestId>, OpError> {
        let inner = &mut *self.inner.borrow_mut();
        if key.lane != NO_LANE {
            let at = RemoteSlice { address: remote, rkey: key.rkey };
            return inner.fetch_at_once(key.lane, key.ep, at, (op, width), key.served);
        }
        match inner.emulate(key.rkey.0, remote, What::Atomic(op, width), OneSided::default()) {
            Progress::Done(old) => old.map(Ok),
            Progress::Pending(id) => Ok(Err(id)),
        }
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
        let progress = if key.lane == NO_LANE {
            inner.emulate(key.rkey.0, remote, What::Atomic(op, width), OneSided::default())
        } else {
            let at = RemoteSlice { address: remote, rkey: key.rkey };
            inner.change_at_once(key.lane, key.ep, at, (op, width), key.served)
        };
        match progress {
            Progress::Done(outcome) => outcome.map(drop),
            Progress::Pending(id) => {
                // Nobody waits for it; a failure is the peer's, which the flush reports.
                inner.engine.detach(id);
                Ok(())
            }
        }
    }
}

impl crate::engine::Inner {
    /// A read that was not complete in the call.
    #[cold]
    fn go_on_reading(
        &mut self,
        key: RemoteKey,
        remote: u64,
        tried: Option<Result<Posted, PostError>>,
        buffer: RecvBuf,
    ) -> Result<Sent, OpError> {
        let one = OneSided { receive: Some(buffer), ..OneSided::default() };
        if key.lane == NO_LANE {
            return self.emulate(key.rkey.0, remote, What::Get, one).sent();
        }
        self.go_on(key.task(remote, Kind::Get), tried, one).sent()
    }

    /// Memory of a lane, with its name.
    fn on_lane(&mut self, lane: usize, handle: MemHandle) -> MemoryHandle {
        let id = self.engine.emulation.served.insert(ServedMemory::Lane(lane, handle));
        MemoryHandle { lane, handle, id }
    }

    /// Memory that no lane takes.
    fn on_worker(&mut self, memory: RecvBuf) -> MemoryHandle {
        let id = self.engine.emulation.served.insert(ServedMemory::Own(memory));
        MemoryHandle { lane: NO_LANE, handle: MemHandle(id), id }
    }

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
}
