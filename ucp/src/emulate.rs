//! Puts, gets and atomics that the owner of the memory carries out: for memory that no transport of
//! the caller's reaches, since it is another's (that of shared memory, from another host), the own
//! worker's, or that of a worker whose transports have no one-sided operations at all.
//!
//! ```text
//!   caller                                            owner of the memory
//!   waiting ──(a piece posted, WINDOW at most)──► REMOTE ──► put, read or changed by its progress
//!      ▲ sent                                                            │
//!      └──── all answered: done ◄─────────────── REMOTE_DONE ◄───────────┘
//! ```
//! Rules. (1) Operations of one peer go in order, in pieces of what a message of the transport holds,
//! and are answered in order: the oldest piece that was sent is the one that an answer is about. (2) At
//! most [`WINDOW`] pieces of a peer are unanswered, so that neither side queues more than that for the
//! other. (3) A flush sends a question behind the operations, whose answer says that they are done. (4)
//! The owner takes a memory by an index with a generation, as it gave it out in the packed key, and
//! checks every place: what does not fit changes nothing, and fails the caller's operation. (5) Its
//! atomics are those of its processor, as are those of transports that map memory.

use bowline_base::buffer::{MemoryLayout, RecvBuf, SendBuf};
use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::AmHeader;

use crate::action::Action;
use crate::engine::{Engine, Inner};
use crate::error::OpError;
use crate::one_sided::Progress;
use crate::peer::PeerIndex;
use crate::request::{self, Body, Kind, OneSided, RequestId, Task};
use crate::state::emulation::{
    AskedOperation, Opened, Piece, ServedMemory, WINDOW, WaitingOperation, What,
};
use crate::wire::{self, Remote};

impl Inner {
    /// Begins an operation on memory that its owner serves.
    #[cold]
    pub(crate) fn emulate(
        &mut self,
        opened: Key,
        at: u64,
        what: What,
        mut one: OneSided,
    ) -> Progress {
        let Some(&Opened { peer, memory, .. }) = self.engine.emulation.keys.get(opened) else {
            return Progress::Done(Err(OpError::BadRemote));
        };
        if let Err(error) = self.ready(peer) {
            return Progress::Done(Err(error));
        }
        if self.engine.peers[peer as usize].end.is_some() {
            return Progress::Done(Err(OpError::EndpointClosed));
        }
        let shapes =
            (one.send.as_ref().map(SendBuf::shape), one.receive.as_ref().map(RecvBuf::shape));
        if shapes.0.or(shapes.1) == Some(MemoryLayout::Callbacks) {
            return Progress::Done(Err(OpError::Unsupported));
        }
        let to = match what {
            What::Put => one.send.as_ref().map_or(0, SendBuf::len),
            What::Get => one.receive.as_ref().map_or(0, RecvBuf::len),
            What::Atomic(..) | What::Flush => 1,
        };
        self.engine.counters.emulated += 1;
        self.engine.emulation.use_key(opened);
        if to == 0 {
            if !one.receive.as_ref().is_some_and(RecvBuf::is_owned) {
                return Progress::Done(Ok(0));
            }
            // A buffer that owns its bytes is given back with its request.
            let key = request::begin(&mut self.engine.requests, Body::OneSided(Box::new(one)));
            self.engine.settle_one_sided(key);
            return Progress::Pending(RequestId(key));
        }
        // What waits here counts as in flight, beside its pieces.
        (one.rest, one.in_flight, one.emulated) = (to, 1, Some(peer));
        let key = request::begin(&mut self.engine.requests, Body::OneSided(Box::new(one)));
        let entry = WaitingOperation { key, what, memory, at, from: 0, to };
        self.engine.emulation.sides.entry(peer).or_default().waiting.push_back(entry);
        self.post_emulated(peer);
        Progress::Pending(RequestId(key))
    }

    /// Has the owner do what is left of an operation that a transport has begun and cannot go on with.
    #[cold]
    pub(crate) fn hand_to_owner(&mut self, key: Key, task: Task) {
        let opened = task.served.and_then(|served| self.engine.emulation.keys.get(served).copied());
        let unable = match opened {
            None => Some(OpError::BadRemote),
            Some(Opened { peer, .. }) => self.ready(peer).err(),
        };
        let Some(one) = self.engine.one_sided_mut(key) else { return };
        let (Some(Opened { peer, memory, .. }), None) = (opened, unable) else {
            (one.rest, one.outcome) = (0, Err(unable.unwrap_or(OpError::Unsupported)));
            return self.engine.settle_one_sided(key);
        };
        let (what, to) = match task.kind {
            Kind::Put => (What::Put, one.send.as_ref().map_or(0, SendBuf::len)),
            Kind::Get => (What::Get, one.receive.as_ref().map_or(0, RecvBuf::len)),
            Kind::Fetch(op, width) | Kind::Change(op, width) => (What::Atomic(op, width), 1),
        };
        one.in_flight += 1;
        one.emulated = Some(peer);
        let entry =
            WaitingOperation { key, what, memory, at: task.at.address, from: to - one.rest, to };
        self.engine.counters.emulated += 1;
        if let Some(served) = task.served {
            self.engine.emulation.use_key(served);
        }
        self.engine.emulation.sides.entry(peer).or_default().waiting.push_back(entry);
        self.post_emulated(peer);
    }

    /// Has a flush wait for what is under way with `peer`.
    #[cold]
    pub(crate) fn flush_emulated(&mut self, key: Key, peer: PeerIndex) {
        let Some(one) = self.engine.one_sided_mut(key) else { return };
        one.in_flight += 1;
        let entry = WaitingOperation { key, what: What::Flush, memory: 0, at: 0, from: 0, to: 0 };
        self.engine.emulation.sides.entry(peer).or_default().waiting.push_back(entry);
        self.post_emulated(peer);
    }

    /// Posts pieces of what a peer carries out on its memory, while there is space in the window.
    #[cold]
    pub(crate) fn post_emulated(&mut self, index: PeerIndex) {
        while let Some(side) = self.engine.emulation.sides.get_mut(&index)
            && side.sent.len() < WINDOW
            && let Some(entry) = side.waiting.front_mut()
        {
            let lane = self.engine.peers[index as usize].lane as usize;
            let most = self.lanes[lane].iface.attr().limits.am.max_bcopy;
            let key = entry.key;
            let one = match self.engine.requests.get_mut(key).map(|request| &mut request.body) {
                Some(Body::OneSided(one)) if one.outcome.is_ok() => one,
                _ => {
                    // Refused at an earlier piece: nothing more is asked for.
                    let what = entry.what;
                    side.waiting.pop_front();
                    self.engine.answered(key, what, None);
                    continue;
                }
            };
            let WaitingOperation { what, memory, at, from, to, .. } = *entry;
            let mut len = to - from;
            let mut payload = Vec::new();
            match what {
                What::Flush => Remote::Flush.pack(&mut payload),
                What::Atomic(op, width) => Remote::Atomic(op, width).pack(&mut payload),
                What::Get => {
                    len = len.min(most);
                    Remote::Get(len as u64).pack(&mut payload);
                }
                What::Put => {
                    len = len.min(most.saturating_sub(Remote::FRONT).max(1));
                    Remote::Put.pack(&mut payload);
                    payload.resize(Remote::FRONT + len, 0);
                    if let Some(buffer) = &mut one.send {
                        buffer.pack_into(from, &mut payload[Remote::FRONT..]);
                    }
                }
            }
            let next = from + len;
            side.sent.push_back(Piece { key: Some(key), what, memory, at, from, to: next });
            if !matches!(what, What::Flush) {
                one.rest -= len;
            }
            if next < to {
                entry.from = next;
                one.in_flight += 1;
            } else {
                // Its place among those that wait becomes that of the piece.
                side.waiting.pop_front();
            }
            let address = at.wrapping_add(from as u64);
            self.control(index, wire::REMOTE, [memory, address], &payload);
        }
    }

    /// Does what peers ask for.
    #[cold]
    pub(crate) fn serve_remotes(&mut self) {
        while let Some(asked) = self.engine.emulation.asked.pop_front() {
            let peer = asked.peer;
            let lane = self.engine.peers[peer as usize].lane as usize;
            let most = self.lanes[lane].iface.attr().limits.am.max_bcopy;
            let (words, data) = match self.serve(asked, most) {
                Some((value, data)) => ([0, value], data),
                None => ([1, 0], Vec::new()),
            };
            self.control(peer, wire::REMOTE_DONE, words, &data);
        }
    }

    /// One of them; `None` where the memory is not there, or the place not in it.
    fn serve(&mut self, asked: AskedOperation, most: usize) -> Option<(u64, Vec<u8>)> {
        let AskedOperation { memory, address, what, data, .. } = asked;
        if matches!(what, Remote::Flush) {
            return Some((0, Vec::new()));
        }
        let view = match self.engine.emulation.served.get_mut(Key::from_wire(memory))? {
            ServedMemory::Lane(lane, handle) => self.lanes[*lane].iface.mem_view(*handle)?,
            ServedMemory::Own(buffer) => buffer.view(),
        };
        let at = address.checked_sub(view.as_ptr().addr() as u64)?;
        let at = usize::try_from(at).ok()?;
        match what {
            Remote::Flush => None,
            Remote::Put => {
                view.slice(at, data.len())?.copy_in(&data);
                Some((0, Vec::new()))
            }
            Remote::Get(length) => {
                let whole = view.slice(at, usize::try_from(length).ok()?)?;
                // What does not fit is asked for again.
                Some((0, whole.slice(0, whole.len().min(most))?.to_vec()))
            }
            Remote::Atomic(op, width) => {
                let word = view.slice(at, width.bytes())?;
                op.perform(word, width).map(|old| (old, Vec::new()))
            }
        }
    }
}

impl Engine {
    /// A peer asks for an operation on memory of this worker.
    #[cold]
    pub(crate) fn remote(
        &mut self,
        peer: PeerIndex,
        header: &AmHeader,
        payload: View<'_>,
    ) -> Option<()> {
        let bytes = payload.to_vec();
        let (what, data) = Remote::parse(&bytes)?;
        let (memory, address, data) = (header[0], header[1], data.to_vec());
        let asks = &mut self.peers[peer as usize].remotes;
        if usize::from(*asks) >= WINDOW {
            // Rule 2.
            return None;
        }
        *asks += 1;
        self.emulation.asked.push_back(AskedOperation { peer, memory, address, what, data });
        self.actions.push(Action::ServeRemotes);
        Some(())
    }

    /// A peer has answered the oldest piece.
    #[cold]
    pub(crate) fn remote_done(
        &mut self,
        peer: PeerIndex,
        header: &AmHeader,
        payload: View<'_>,
    ) -> Option<()> {
        let side = self.emulation.sides.get_mut(&peer)?;
        let Piece { key, what, memory, at, from, to } = side.sent.pop_front()?;
        let done = header[0] == 0;
        let expected = if done && matches!(what, What::Get) { 1..to - from + 1 } else { 0..1 };
        if header[0] > 1 || !expected.contains(&payload.len()) {
            return None;
        }
        if let Some(key) = key
            && let Some(one) = self.one_sided_mut(key)
        {
            if !done {
                one.outcome = Err(OpError::BadRemote);
            } else if let What::Atomic(..) = what {
                one.value = header[1];
            } else if let Some(buffer) = &mut one.receive {
                buffer.copy_at(from, payload);
                let next = from + payload.len();
                if next < to {
                    one.rest += to - next;
                    one.in_flight += 1;
                    let entry = WaitingOperation { key, what, memory, at, from: next, to };
                    self.emulation.sides.entry(peer).or_default().waiting.push_front(entry);
                }
            }
            self.answered(key, what, None);
        }
        self.actions.push(Action::PostEmulated(peer));
        Some(())
    }

    /// One part of an operation is over; with an error, all of it will be.
    fn answered(&mut self, key: Key, what: What, error: Option<OpError>) {
        let Some(one) = self.one_sided_mut(key) else { return };
        one.in_flight = one.in_flight.saturating_sub(1);
        if let Some(error) = error {
            one.outcome = Err(error);
        }
        if one.outcome.is_err() && !matches!(what, What::Flush) {
            one.rest = 0;
        }
        self.settle_one_sided(key);
    }

    /// Ends what is under way with a peer that will not answer any more.
    #[cold]
    pub(crate) fn lose_emulated(&mut self, peer: PeerIndex, error: OpError) {
        self.cancel_emulated(peer, error);
        self.emulation.sides.remove(&peer);
    }

    /// Ends what is under way with a peer that may still answer.
    #[cold]
    pub(crate) fn cancel_emulated(&mut self, peer: PeerIndex, error: OpError) {
        let Some(side) = self.emulation.sides.get_mut(&peer) else { return };
        let waiting = side.waiting.drain(..).map(|entry| (entry.key, entry.what));
        let sent = side.sent.iter_mut().filter_map(|piece| Some((piece.key.take()?, piece.what)));
        let over: Vec<_> = waiting.chain(sent).collect();
        for (key, what) in over {
            self.answered(key, what, Some(error));
        }
    }
}
