//! Reads and atomics that their transport mostly ends in the call: they have no request unless it does not.
//! Such a post has the token that the next request will have, and if it stays in flight that request is made.
//! The rules are those of [`super`].

use bowline_base::buffer::RecvBuf;
use bowline_base::slab::Key;
use bowline_uct::{AtomicOp, AtomicWidth, EpId, PostError, Posted, RemoteSlice, Token};

use super::{Progress, op_error};
use crate::engine::Inner;
use crate::error::OpError;
use crate::loan;
use crate::request::{Body, Kind, OneSided, RequestId, Task, token};
use crate::status::OpStatus;

/// What the caller of an atomic with a result gets.
fn fetched(progress: Progress) -> Result<Result<u64, RequestId>, OpError> {
    match progress {
        Progress::Done(old) => old.map(Ok),
        Progress::Pending(id) => Ok(Err(id)),
    }
}

impl Inner {
    /// Begins an atomic whose old value is wanted. Of memory that is mapped it is there in the call,
    /// after as little as can be: the transfer of the word's line to this processor is most of what it takes.
    #[inline]
    pub(crate) fn fetch_at_once(
        &mut self,
        lane: usize,
        ep: EpId,
        at: RemoteSlice,
        (op, width): (AtomicOp, AtomicWidth),
        served: Option<Key>,
    ) -> Result<Result<u64, RequestId>, OpError> {
        let tried = self.may_try().then(|| {
            self.engine.counters.atomics += 1;
            let token = token(self.engine.requests.upcoming());
            self.lanes[lane].iface.atomic(ep, op, width, at, token)
        });
        if let Some(Ok(Some(old))) = tried {
            return Ok(Ok(old));
        }
        let tried = tried.map(|tried| tried.map(|_| Posted::InFlight));
        let kind = Kind::Fetch(op, width);
        fetched(self.go_on(Task { lane, ep, at, kind, served }, tried, OneSided::default()))
    }

    /// Begins an atomic without result.
    #[inline]
    pub(crate) fn change_at_once(
        &mut self,
        lane: usize,
        ep: EpId,
        at: RemoteSlice,
        (op, width): (AtomicOp, AtomicWidth),
        served: Option<Key>,
    ) -> Progress {
        let tried = self.may_try().then(|| {
            self.engine.counters.atomics += 1;
            self.lanes[lane].iface.atomic(ep, op, width, at, Token::NONE).map(|_| Posted::Done)
        });
        if let Some(Ok(_)) = tried {
            return Progress::Done(Ok(0));
        }
        let kind = Kind::Change(op, width);
        self.go_on(Task { lane, ep, at, kind, served }, tried, OneSided::default())
    }

    /// Tries a read into memory that lies in one piece and is the caller's. `None`: it was not tried.
    #[inline]
    pub(crate) fn try_read(
        &mut self,
        lane: usize,
        ep: EpId,
        from: RemoteSlice,
        buffer: &mut RecvBuf,
    ) -> Option<Result<Posted, PostError>> {
        let iface = &mut *self.lanes.get_mut(lane)?.iface;
        let length = buffer.len();
        if !self.engine.one_sided.is_empty() || buffer.is_owned() || length == 0 {
            return None;
        }
        let to = loan::of_recv(buffer, 0, length)?;
        if length > iface.attr().limits.get.max_zcopy {
            return None;
        }
        self.engine.counters.get_zcopy += 1;
        let token = token(self.engine.requests.upcoming());
        Some(iface.get_zcopy(ep, &[to], from, token))
    }

    /// Whether a post may be tried under the token of the next request, which is made only if the
    /// post does not end in the call. Nothing may be queued, by rule 2.
    #[inline]
    fn may_try(&self) -> bool {
        self.engine.one_sided.is_empty()
    }

    /// Makes the request that a post needs which was not complete in the call, or was not `tried`.
    #[cold]
    pub(crate) fn go_on(
        &mut self,
        task: Task,
        tried: Option<Result<Posted, PostError>>,
        mut one: OneSided,
    ) -> Progress {
        one.rest = match tried {
            Some(Ok(Posted::Done)) => return Progress::Done(Ok(0)),
            Some(Ok(Posted::InFlight)) => 0,
            Some(Err(PostError::NoResource)) => one.receive.as_ref().map_or(1, RecvBuf::len),
            // One that the transport lacks is posted as the others are, and handed to the memory's owner by that.
            None => return self.begin_one_sided(task, one),
            Some(Err(PostError::Unsupported)) if task.served.is_some() => {
                return self.begin_one_sided(task, one);
            }
            Some(Err(error)) => return Progress::Done(Err(op_error(error))),
        };
        // It has the name that the post was given as its token: nothing has made a request since.
        let (key, request) = self.engine.requests.acquire();
        one.task = Some(task);
        let queued = one.rest > 0;
        one.in_flight = u32::from(!queued);
        request.body = Body::OneSided(Box::new(one));
        request.status = OpStatus::NONE;
        (request.done, request.detached) = (false, false);
        if queued {
            self.lanes[task.lane].iface.want_writable(task.ep);
            self.engine.one_sided.push_back(key);
        }
        Progress::Pending(RequestId(key))
    }
}
