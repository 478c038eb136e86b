//! Reads and atomics that their transport mostly ends in the call: nothing is allocated for them unless
//! it does not. The rules are those of [`super`].

use bowline_base::buffer::RecvBuf;
use bowline_base::slab::Key;
use bowline_uct::{AtomicOp, AtomicWidth, EpId, Iface, PostError, Posted, RemoteSlice, Token};

use super::{Kind, Progress, Task, op_error};
use crate::error::OpError;
use crate::loan;
use crate::request::{Body, OneSided, RequestId, Status, token};
use crate::worker::Inner;

/// How a post that was tried at once ended.
enum Tried {
    Done(u64),
    InFlight,
}

/// What the caller of an atomic with a result gets.
fn fetched(progress: Progress) -> Result<Result<u64, RequestId>, OpError> {
    match progress {
        Progress::Done(old) => old.map(Ok),
        Progress::Pending(id) => Ok(Err(id)),
    }
}

impl Inner {
    /// Begins an atomic whose old value is wanted. Of memory that is mapped it is there in the call,
    /// after as little as can be: the word's own way to this processor is most of what it takes.
    #[inline]
    pub(crate) fn fetch_at_once(
        &mut self,
        lane: usize,
        ep: EpId,
        at: RemoteSlice,
        (op, width): (AtomicOp, AtomicWidth),
        served: Option<Key>,
    ) -> Result<Result<u64, RequestId>, OpError> {
        if self.engine.one_sided.is_empty() {
            self.engine.counters.atomics += 1;
            let (key, _) = self.engine.requests.acquire();
            let old = self.lanes[lane].iface.atomic_fetch(ep, op, width, at, token(key));
            if let Ok(Some(old)) = old {
                self.engine.requests.release(key);
                return Ok(Ok(old));
            }
            let task = Task { lane, ep, at, kind: Kind::Fetch(op, width), served };
            let tried = old.map(|_| Tried::InFlight);
            let one = OneSided { rest: 1, ..OneSided::default() };
            return fetched(self.go_on(key, task, tried, one));
        }
        let task = Task { lane, ep, at, kind: Kind::Fetch(op, width), served };
        fetched(self.begin_one_sided(task, OneSided::default()))
    }

    /// Begins an atomic without result.
    #[inline]
    pub(crate) fn change_at_once(&mut self, task: Task) -> Progress {
        if !self.engine.one_sided.is_empty() {
            return self.begin_one_sided(task, OneSided::default());
        }
        self.engine.counters.atomics += 1;
        let Task { lane, ep, at, kind, .. } = task;
        let (key, tried) = self.try_at_once(lane, |iface, _| match kind {
            Kind::Change(op, width) => {
                iface.atomic_post(ep, op, width, at).map(|()| Tried::Done(0))
            }
            Kind::Put | Kind::Get | Kind::Fetch(..) => Err(PostError::BadArgument),
        });
        match tried {
            Ok(Tried::Done(old)) => self.ended_at_once(key, Ok(old)),
            tried => self.go_on(key, task, tried, OneSided { rest: 1, ..OneSided::default() }),
        }
    }

    /// Begins a read into memory that lies in one piece and is the caller's; gives the buffer back where
    /// it is for the general way.
    #[inline]
    pub(crate) fn begin_read(
        &mut self,
        task: Task,
        mut buffer: RecvBuf,
    ) -> Result<Progress, RecvBuf> {
        let longest = self.lanes[task.lane].iface.attr().limits.get.max_zcopy;
        let length = buffer.len();
        if !self.engine.one_sided.is_empty() || buffer.is_owned() || length > longest {
            return Err(buffer);
        }
        let Some(to) = loan::of_recv(&mut buffer, 0, length) else { return Err(buffer) };
        if length == 0 {
            return Err(buffer);
        }
        self.engine.counters.get_zcopy += 1;
        let Task { lane, ep, at, .. } = task;
        let (key, tried) = self.try_at_once(lane, |iface, token| {
            Ok(match iface.get_zcopy(ep, &[to], at, token)? {
                Posted::Done => Tried::Done(0),
                Posted::InFlight => Tried::InFlight,
            })
        });
        if matches!(tried, Ok(Tried::Done(_))) {
            return Ok(self.ended_at_once(key, Ok(0)));
        }
        if task.served.is_some() && matches!(tried, Err(PostError::Unsupported)) {
            self.engine.requests.release(key);
            return Err(buffer);
        }
        let one = OneSided { rest: length, receive: Some(buffer), ..OneSided::default() };
        Ok(self.go_on(key, task, tried, one))
    }

    /// Tries a post under the token of a request that is empty yet.
    #[inline]
    fn try_at_once(
        &mut self,
        lane: usize,
        post: impl FnOnce(&mut dyn Iface, Token) -> Result<Tried, PostError>,
    ) -> (Key, Result<Tried, PostError>) {
        let (key, _) = self.engine.requests.acquire();
        (key, post(&mut *self.lanes[lane].iface, token(key)))
    }

    #[inline]
    fn ended_at_once(&mut self, key: Key, outcome: Result<u64, OpError>) -> Progress {
        self.engine.requests.release(key);
        Progress::Done(outcome)
    }

    /// Makes the request that a post needs which was not complete in the call.
    #[cold]
    fn go_on(
        &mut self,
        key: Key,
        task: Task,
        tried: Result<Tried, PostError>,
        mut one: OneSided,
    ) -> Progress {
        match tried {
            Ok(_) => (one.rest, one.in_flight) = (0, 1),
            Err(PostError::NoResource) => {
                self.lanes[task.lane].iface.want_writable(task.ep);
                self.engine.one_sided.push_back(key);
            }
            // It is posted as the others are, and handed to the memory's owner by that.
            Err(PostError::Unsupported) if task.served.is_some() => {
                self.engine.requests.release(key);
                return self.begin_one_sided(task, OneSided::default());
            }
            Err(error) => return self.ended_at_once(key, Err(op_error(error))),
        }
        one.task = Some(task);
        if let Some(request) = self.engine.requests.get_mut(key) {
            request.body = Body::OneSided(Box::new(one));
            request.status = Status::NONE;
            (request.done, request.detached) = (false, false);
        }
        Progress::Pending(RequestId(key))
    }
}
