//! One-sided operations that are not complete in their call: those that go in pieces, that a
//! transport has in flight, or that wait until it has space.
//!
//! ```text
//!            ┌── no space ──► Queued ── writable ──┐
//!   begin ──►│◄──────────────────────────────────-┘
//!            └── all pieces posted ──► in flight ── last completion ──► done
//! ```
//! Rules: (1) an operation is posted in pieces of what the transport takes at once. (2) While one
//! is queued for an endpoint, what is begun for the same endpoint queues behind it. (3) The first
//! error ends the posting; the request is complete when nothing of it is in flight any more, since
//! the transport may use its buffer until then. (4) A flush and a fence wait until nothing is
//! queued: both are about what was begun before them.

mod at_once;

use bowline_base::buffer::{MemoryLayout, RecvBuf, SendBuf};
use bowline_base::slab::Key;
use bowline_uct::{EpId, LocalSlice, PeerFailure, PostError, Posted, RemoteSlice, Token};

use crate::engine::{Engine, Inner};
use crate::error::OpError;
use crate::loan;
use crate::pack::RUNS;
use crate::request::{self, Body, Kind, OneSided, RequestId, Sent, Task, token};
use crate::status::OpStatus;

/// How far an operation came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Complete; the request has been freed.
    Done(Result<u64, OpError>),
    /// The transport or the queue has it.
    Pending(RequestId),
}

impl Progress {
    /// The same to the caller of an operation without a value.
    pub(crate) fn sent(self) -> Result<Sent, OpError> {
        match self {
            Self::Done(outcome) => outcome.map(|_| Sent::Done),
            Self::Pending(id) => Ok(Sent::Pending(id)),
        }
    }
}

/// How one post ended.
enum Step {
    Done(u64),
    InFlight,
}

/// What a post error means for a one-sided operation.
pub(crate) fn op_error(error: PostError) -> OpError {
    match error {
        PostError::BadRemote | PostError::BadArgument => OpError::BadRemote,
        PostError::BadEndpoint => OpError::BadEndpoint,
        PostError::TooLong => OpError::TooLong,
        PostError::PeerFailed => OpError::PeerFailed(PeerFailure::Died),
        _ => OpError::Unsupported,
    }
}

impl Inner {
    /// Begins an operation.
    pub(crate) fn begin_one_sided(&mut self, task: Task, mut one: OneSided) -> Progress {
        let shapes =
            (one.send.as_ref().map(SendBuf::shape), one.receive.as_ref().map(RecvBuf::shape));
        if shapes.0.or(shapes.1) == Some(MemoryLayout::Callbacks) {
            return Progress::Done(Err(OpError::Unsupported));
        }
        one.rest = match task.kind {
            Kind::Put => one.send.as_ref().map_or(0, |buffer| buffer.len()),
            Kind::Get => one.receive.as_ref().map_or(0, |buffer| buffer.len()),
            Kind::Fetch(..) | Kind::Change(..) => 1,
        };
        one.task = Some(task);
        let counters = &mut self.engine.counters;
        *match task.kind {
            Kind::Put => &mut counters.put_zcopy,
            Kind::Get => &mut counters.get_zcopy,
            Kind::Fetch(..) | Kind::Change(..) => &mut counters.atomics,
        } += 1;
        let key = request::begin(&mut self.engine.requests, Body::OneSided(Box::new(one)));
        if self.engine.one_sided_waits_for(task.lane, task.ep) {
            self.engine.one_sided.push_back(key);
            return Progress::Pending(RequestId(key));
        }
        self.post_pieces(key);
        let Some(one) = self.engine.one_sided_mut(key) else {
            return Progress::Done(Err(OpError::Cancelled));
        };
        if one.rest > 0 || one.in_flight > 0 {
            return Progress::Pending(RequestId(key));
        }
        let outcome = one.outcome.map(|()| one.value);
        // A buffer that owns what was read into it is given back with the request.
        if outcome.is_ok() && one.receive.as_ref().is_some_and(RecvBuf::is_owned) {
            self.engine.settle_one_sided(key);
            return Progress::Pending(RequestId(key));
        }
        request::end(&mut self.engine.requests, key);
        Progress::Done(outcome)
    }

    /// Posts what is left of an operation; what finds no space is queued.
    fn post_pieces(&mut self, key: Key) {
        while let Some(one) = self.engine.one_sided_mut(key)
            && let Some(task) = one.task
        {
            if one.outcome.is_err() {
                // Rule 3.
                one.rest = 0;
            }
            if one.rest == 0 {
                return;
            }
            let iface = &mut *self.lanes[task.lane].iface;
            let limits = iface.attr().limits;
            let mut runs = [LocalSlice::EMPTY; RUNS];
            let (len, posted) = match task.kind {
                Kind::Put => {
                    let Some(buffer) = &one.send else { return };
                    let len = one.rest.min(limits.put.max_zcopy.max(1));
                    let done = buffer.len() - one.rest;
                    let from = &mut runs[..limits.put.max_iov.clamp(1, RUNS)];
                    let (count, len) = loan::runs_of_send(buffer, done, len, from);
                    let to = behind(task.at, done);
                    let posted = iface.put_zcopy(task.ep, &from[..count], to, token(key));
                    (len, posted.map(step))
                }
                Kind::Get => {
                    let Some(buffer) = &mut one.receive else { return };
                    let len = one.rest.min(limits.get.max_zcopy.max(1));
                    let done = buffer.len() - one.rest;
                    let to = &mut runs[..limits.get.max_iov.clamp(1, RUNS)];
                    let (count, len) = loan::runs_of_recv(buffer, done, len, to);
                    let from = behind(task.at, done);
                    let posted = iface.get_zcopy(task.ep, &to[..count], from, token(key));
                    (len, posted.map(step))
                }
                Kind::Fetch(op, width) => {
                    let posted = iface.atomic(task.ep, op, width, task.at, token(key));
                    (1, posted.map(|old| old.map_or(Step::InFlight, Step::Done)))
                }
                Kind::Change(op, width) => {
                    let posted = iface.atomic(task.ep, op, width, task.at, Token::NONE);
                    (1, posted.map(|_| Step::Done(0)))
                }
            };
            match posted {
                Ok(Step::Done(value)) => {
                    one.value = value;
                    one.rest -= len;
                }
                Ok(Step::InFlight) => {
                    one.in_flight += 1;
                    one.rest -= len;
                }
                Err(PostError::NoResource) => {
                    iface.want_writable(task.ep);
                    self.engine.one_sided.push_back(key);
                    return;
                }
                Err(PostError::Unsupported) if task.served.is_some() => {
                    return self.hand_to_owner(key, task);
                }
                Err(error) => one.outcome = Err(op_error(error)),
            }
        }
    }

    /// Goes on with what is queued, each endpoint's in order until it has no more space.
    #[cold]
    pub(crate) fn resume_one_sided(&mut self) {
        let mut full = Vec::new();
        for key in std::mem::take(&mut self.engine.one_sided) {
            if self.engine.one_sided_mut(key).is_some_and(|one| !one.flush.is_empty()) {
                if self.engine.flush_waits(key) {
                    self.engine.one_sided.push_back(key);
                } else {
                    self.post_flush(key);
                    self.engine.settle_one_sided(key);
                }
                continue;
            }
            let Some(task) = self.engine.one_sided_mut(key).and_then(|one| one.task) else {
                continue;
            };
            if full.contains(&(task.lane, task.ep)) {
                self.engine.one_sided.push_back(key);
                continue;
            }
            self.post_pieces(key);
            if self.engine.one_sided.back() == Some(&key) {
                full.push((task.lane, task.ep));
            } else {
                self.engine.settle_one_sided(key);
            }
        }
    }
}

impl Engine {
    pub(crate) fn one_sided_mut(&mut self, key: Key) -> Option<&mut OneSided> {
        match &mut self.requests.get_mut(key)?.body {
            Body::OneSided(one) => Some(one),
            _ => None,
        }
    }

    /// Rule 2: whether something is queued for an endpoint.
    fn one_sided_waits_for(&self, lane: usize, ep: EpId) -> bool {
        self.one_sided.iter().any(|key| {
            let request = self.requests.get(*key);
            request.is_some_and(|request| match &request.body {
                Body::OneSided(one) => one.task.is_some_and(|t| t.lane == lane && t.ep == ep),
                _ => false,
            })
        })
    }

    /// Rule 4: whether something that a flush is about is queued.
    pub(crate) fn flush_waits(&self, key: Key) -> bool {
        let Some(Body::OneSided(flush)) = self.requests.get(key).map(|request| &request.body)
        else {
            return false;
        };
        flush.flush.iter().any(|&(lane, ep)| match ep {
            Some(ep) => self.one_sided_waits_for(lane, ep),
            None => self.one_sided.iter().any(|key| {
                let request = self.requests.get(*key);
                request.is_some_and(|request| match &request.body {
                    Body::OneSided(one) => one.task.is_some_and(|task| task.lane == lane),
                    _ => false,
                })
            }),
        })
    }

    /// Ends what is queued for these endpoints. What the transport has in flight goes on.
    pub(crate) fn cancel_one_sided(&mut self, endpoints: &[(usize, Option<EpId>)]) {
        for key in std::mem::take(&mut self.one_sided) {
            let theirs = self.one_sided_mut(key).is_some_and(|one| {
                one.task.is_some_and(|task| endpoints.contains(&(task.lane, Some(task.ep))))
            });
            if !theirs {
                self.one_sided.push_back(key);
                continue;
            }
            if let Some(one) = self.one_sided_mut(key) {
                one.rest = 0;
                one.outcome = Err(OpError::Cancelled);
            }
            self.settle_one_sided(key);
        }
    }

    /// The transport has completed a piece.
    pub(crate) fn one_sided_completed(&mut self, key: Key, result: Result<u64, PeerFailure>) {
        let Some(one) = self.one_sided_mut(key) else { return };
        one.in_flight = one.in_flight.saturating_sub(1);
        match result {
            Ok(value) => one.value = value,
            Err(how) => one.outcome = Err(how.into()),
        }
        self.settle_one_sided(key);
    }

    /// Completes a request of which nothing is left.
    pub(crate) fn settle_one_sided(&mut self, key: Key) {
        let Some(one) = self.one_sided_mut(key) else { return };
        if one.in_flight > 0 || one.rest > 0 {
            return;
        }
        let (length, outcome) = (one.value, one.outcome);
        self.finish(key, OpStatus { length, outcome, ..OpStatus::NONE });
    }
}

const fn step(posted: Posted) -> Step {
    match posted {
        Posted::Done => Step::Done(0),
        Posted::InFlight => Step::InFlight,
    }
}

/// The remote memory `skip` bytes behind `at`. An address that wraps is refused by the transport.
const fn behind(at: RemoteSlice, skip: usize) -> RemoteSlice {
    RemoteSlice { address: at.address.wrapping_add(skip as u64), rkey: at.rkey }
}
