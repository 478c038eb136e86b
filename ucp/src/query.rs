//! What a request is doing: for programs that supervise and for people who want to know.
//!
//! A query frees nothing and moves nothing on. It reads the engine's tables when it is asked and
//! costs nothing before.

use std::fmt;

use bowline_base::slab::Key;

use crate::engine::Engine;
use crate::peer::PeerIndex;
use crate::request::{Body, Request, RequestId, SendKind, SendPhase};
use crate::state::wakeup::POLL_INTERVAL;
use crate::status::{OpStatus, WaitsFor};
use crate::worker::Worker;

/// What a request was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationKind {
    /// Sending a tagged message.
    TagSend,
    /// Sending an active message.
    AmSend,
    /// Sending bytes of a stream.
    StreamSend,
    /// Receiving a tagged message, or the data of a message that was found.
    Receive,
    /// Receiving bytes of a stream.
    StreamReceive,
    /// A put, a get, an atomic operation or a flush.
    OneSided,
}

/// What a query says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// What it was made for.
    pub operation: OperationKind,
    /// The peer's rank in its job, where there is one peer so far.
    pub rank: Option<u32>,
    /// Bytes of the buffer; of a message to receive, once it is known, its length.
    pub length: u64,
    /// Bytes that were moved, as far as the engine knows before the end.
    pub moved: u64,
    /// What it waits for.
    pub waits_for: WaitsFor,
    /// How it ended, if it has.
    pub status: Option<OpStatus>,
}

impl fmt::Display for RequestInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.operation {
            OperationKind::TagSend => "a send",
            OperationKind::AmSend => "a send of an active message",
            OperationKind::StreamSend => "a send to a stream",
            OperationKind::Receive => "a receive",
            OperationKind::StreamReceive => "a receive of a stream",
            OperationKind::OneSided => "a one-sided operation",
        };
        write!(f, "{what} of {} bytes", self.length)?;
        if let Some(rank) = self.rank {
            write!(f, ", rank {rank} of the job")?;
        }
        let waits = match self.waits_for {
            WaitsFor::Nothing => {
                return match self.status.map(|status| status.outcome) {
                    Some(Err(error)) => write!(f, ": {error}"),
                    _ => f.write_str(": complete"),
                };
            }
            WaitsFor::Arrival => "what it is to receive",
            WaitsFor::Resource => "space or credit",
            WaitsFor::Receiver => "its receiver",
            WaitsFor::Data => "the rest of its bytes",
            WaitsFor::Transport => "the transport",
        };
        write!(f, ": {} moved, waits for {waits}", self.moved)
    }
}

impl Worker {
    /// Whether something is still on its way to a living peer: sends, also such as are complete
    /// because their buffer was copied, or answers that peers wait for. A worker that is dropped
    /// meanwhile gives it a short time, and then takes it with it; so who leaves in peace waits until
    /// this is `false`: see [`drain`](Self::drain).
    pub fn has_unsent(&self) -> bool {
        let inner = &mut *self.inner.borrow_mut();
        let engine = &inner.engine;
        !engine.actions.is_empty()
            || engine.peers.iter().any(|peer| peer.failure().is_none() && !peer.pending.is_empty())
            || !inner.lanes.iter_mut().all(|lane| lane.iface.all_sent())
    }

    /// Waits until nothing is unsent ([`has_unsent`](Self::has_unsent)), however long living peers
    /// take: what a rank does before it drops its worker and goes.
    pub fn drain(&self) {
        self.wait_until_within(POLL_INTERVAL, || !self.has_unsent());
    }
}

impl Worker {
    /// What a request is doing; `None` when there is no such request.
    pub fn query(&self, id: RequestId) -> Option<RequestInfo> {
        let inner = self.inner.borrow();
        let engine = &inner.engine;
        engine.requests.get(id.0).and_then(|request| engine.describe(id.0, request))
    }
}

impl Engine {
    fn describe(&self, key: Key, request: &Request) -> Option<RequestInfo> {
        let rank = |peer: PeerIndex| Some(self.peers[peer as usize].address.rank);
        let (operation, rank, length, moved, waits_for) = match &request.body {
            Body::Send(send) => {
                let operation = match send.kind {
                    SendKind::Tagged(_) => OperationKind::TagSend,
                    SendKind::Am { .. } => OperationKind::AmSend,
                    SendKind::Stream => OperationKind::StreamSend,
                };
                let (moved, waits) = match &send.phase {
                    SendPhase::Queued { offset } => (*offset, WaitsFor::Resource),
                    SendPhase::Offered => (0, WaitsFor::Receiver),
                    SendPhase::Moving(sender) => sender.describe(),
                };
                (operation, rank(send.peer), send.buffer.len() as u64, moved, waits)
            }
            Body::Receive(receive) => match &receive.fetch {
                Some(fetch) => {
                    let (length, done) = (fetch.rts.length, fetch.done);
                    (OperationKind::Receive, rank(fetch.peer), length, done, WaitsFor::Data)
                }
                None => {
                    let capacity = receive.buffer.len() as u64;
                    let lives = &self.protocols.lives;
                    match lives.iter().find_map(|life| life.arriving(self, key)) {
                        Some((peer, moved)) => {
                            let length = request.status.length;
                            (OperationKind::Receive, rank(peer), length, moved, WaitsFor::Data)
                        }
                        None => (OperationKind::Receive, None, capacity, 0, WaitsFor::Arrival),
                    }
                }
            },
            Body::Stream(receive) => {
                let (filled, capacity) = Self::stream_capacity(receive);
                let rank = rank(receive.peer);
                (
                    OperationKind::StreamReceive,
                    rank,
                    capacity as u64,
                    filled as u64,
                    WaitsFor::Arrival,
                )
            }
            Body::OneSided(one) => {
                let buffers = (one.send.as_ref(), one.receive.as_ref());
                let length = match buffers {
                    (Some(buffer), _) => buffer.len(),
                    (_, Some(buffer)) => buffer.len(),
                    _ => 0,
                };
                let moved = length.saturating_sub(one.rest) as u64;
                let waits = if one.rest > 0 { WaitsFor::Resource } else { WaitsFor::Transport };
                (OperationKind::OneSided, one.emulated.and_then(rank), length as u64, moved, waits)
            }
            Body::Expecting(expecting) => {
                let (rank, capacity) = (rank(expecting.peer()), expecting.buffer().len() as u64);
                (OperationKind::Receive, rank, capacity, 0, WaitsFor::Arrival)
            }
            Body::Free => return None,
        };
        let status = request.done.then_some(request.status);
        let waits_for = if request.done { WaitsFor::Nothing } else { waits_for };
        let length = status.map_or(length, |status| status.length.max(length));
        let moved =
            if status.is_some_and(|status| status.outcome.is_ok()) { length } else { moved };
        Some(RequestInfo { operation, rank, length, moved, waits_for, status })
    }
}
