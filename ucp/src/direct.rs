//! The receive that its caller waits for on the spot, kept out of the queues.
//!
//! Most receives are waited for where they are posted. Such a receive needs no request and no
//! entry in a matching engine: it lies in the engine's one [`Direct`] place, where an eager
//! arrival finds it by one comparison.
//!
//! ```text
//!            arm (space has no posted receive, no waiting message fits)
//!   Empty ─────────────► Armed ── an eager message fits ──► Done ─► Empty
//!     ▲                    │
//!     └──── Moved ◄────────┘ anything else that has to do with posted receives
//! ```
//! Rules: (1) while armed it is the oldest receive of its space: it was armed when the space had
//! none, so what is posted later stands behind it. (2) Whatever is not a plain eager message
//! moves it into the queues first, as their oldest entry, and then goes its usual way. (3) There
//! is one place; a nested blocking receive takes the usual way.

use bowline_base::buffer::{RecvBuf, Shape};
use bowline_base::slab::Key;
use bowline_base::view::View;

use crate::engine::Engine;
use crate::error::{OpError, ReceiveError};
use crate::matching::{Envelope, MatchEngine as _, MatchSpec, Want};
use crate::request::{self, Body, RequestId, Status};
use crate::tagged::MessageInfo;
use crate::worker::{Inner, Worker};

/// Where the direct receive stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Empty,
    Armed,
    Done,
    Moved(Key),
}

/// The one place. See the module's text.
#[derive(Debug)]
pub(crate) struct Direct {
    pub(crate) stage: Stage,
    space: u32,
    want: Want,
    buffer: RecvBuf,
    message: Taken,
}

/// What came, when the stage is `Done`. Single words, since what is loaded in wider pieces than it
/// was stored in a moment before stalls.
#[derive(Debug)]
struct Taken {
    length: u64,
    source: u32,
    tag: u64,
    copied: usize,
}

impl Taken {
    #[inline(always)]
    fn result(&self, buffer: &RecvBuf) -> Result<MessageInfo, ReceiveError> {
        let Self { length, source, tag, copied } = *self;
        if copied as u64 != length {
            return Err(self.cut(buffer));
        }
        Ok(MessageInfo { source, tag, length })
    }

    #[cold]
    #[inline(never)]
    fn cut(&self, buffer: &RecvBuf) -> ReceiveError {
        let Self { length, source, tag, copied } = *self;
        let error = match buffer.failed() {
            true => OpError::NotUnpacked,
            false => OpError::Truncated { message: length, room: copied as u64 },
        };
        Status { source, tag, length, outcome: Err(error) }.into()
    }
}

impl Direct {
    pub(crate) const EMPTY: Self = Self {
        stage: Stage::Empty,
        space: 0,
        want: Want { source: 0, source_mask: 0, tag: 0, tag_mask: 0 },
        buffer: RecvBuf::empty(),
        message: Taken { length: 0, source: 0, tag: 0, copied: 0 },
    };

    /// The space in which the receive in this place waits, and for what.
    pub(crate) fn waits_for(&self) -> Option<(u32, Want)> {
        (self.stage == Stage::Armed).then_some((self.space, self.want))
    }

    /// Whether an arrival is for the receive in this place.
    #[inline]
    pub(crate) fn fits(&self, envelope: &Envelope) -> bool {
        self.stage == Stage::Armed
            && self.space == envelope.space
            && self.want.fits(envelope.source, envelope.tag)
    }

    /// Takes a whole message.
    #[inline]
    pub(crate) fn deliver(&mut self, envelope: &Envelope, payload: View<'_>) {
        let copied = self.buffer.copy_at(0, payload);
        let Envelope { source, tag, .. } = *envelope;
        self.message = Taken { length: payload.len() as u64, source, tag, copied };
        self.stage = Stage::Done;
    }
}

impl Engine {
    /// Rule 2: the direct receive becomes the oldest posted one of its space.
    pub(crate) fn park_direct(&mut self) {
        if self.direct.stage != Stage::Armed {
            return;
        }
        let key = self.request_of_direct();
        let (space, want) = (self.direct.space, self.direct.want);
        let Some(space) = self.spaces.get_mut(space) else {
            return self.fail(key, OpError::BadSpace(space));
        };
        let item = space.engine.post_first(want, key.to_wire());
        if let Some(request) = self.requests.get_mut(key)
            && let Body::Receive(receive) = &mut request.body
        {
            receive.item = item;
        }
    }

    /// Takes the direct receive for an arrival that fits it but needs a request.
    pub(crate) fn take_direct(&mut self, envelope: &Envelope) -> Option<Key> {
        self.direct.fits(envelope).then(|| self.request_of_direct())
    }

    fn request_of_direct(&mut self) -> Key {
        let buffer = std::mem::replace(&mut self.direct.buffer, RecvBuf::empty());
        let callbacks = buffer.shape() == Shape::Callbacks;
        self.attendance.callbacks |= callbacks;
        let (key, _) = request::begin_receive(&mut self.requests, buffer, self.direct.space);
        self.direct.stage = Stage::Moved(key);
        key
    }
}

impl Worker {
    /// Posts a receive and waits for it: the shortest way to receive.
    ///
    /// # Errors
    /// When the space is not open, or a dead process keeps the receive from ever completing; when
    /// the message is longer than the buffer, which then holds what fits; the peer's failure.
    #[inline(always)]
    pub fn recv_blocking(
        &self,
        spec: MatchSpec,
        buffer: RecvBuf,
    ) -> Result<MessageInfo, ReceiveError> {
        let mut inner = self.inner.borrow_mut();
        let engine = &mut inner.engine;
        let Some(space) = engine.spaces.get_mut(spec.space).filter(|space| space.open) else {
            return Err(OpError::BadSpace(spec.space).into());
        };
        let usual =
            !space.engine.is_empty() || space.careful || engine.direct.stage != Stage::Empty;
        if usual {
            drop(inner);
            return self.recv_and_wait(spec, buffer);
        }
        engine.direct.space = spec.space;
        engine.direct.want = spec.want();
        engine.direct.buffer = buffer;
        engine.direct.stage = Stage::Armed;
        let ended = |inner: &mut Inner| {
            let direct = &mut inner.engine.direct;
            match direct.stage {
                Stage::Done => {
                    direct.stage = Stage::Empty;
                    let result = direct.message.result(&direct.buffer);
                    direct.buffer = RecvBuf::empty();
                    Some(result)
                }
                Stage::Moved(key) => {
                    let status = inner.engine.take_or_gone(key)?;
                    inner.engine.direct.stage = Stage::Empty;
                    Some(status.message())
                }
                Stage::Armed | Stage::Empty => None,
            }
        };
        self.wait_loop(inner, true, ended, || None)
    }

    #[inline(never)]
    fn recv_and_wait(&self, spec: MatchSpec, buffer: RecvBuf) -> Result<MessageInfo, ReceiveError> {
        let id = self.recv(spec, buffer)?;
        self.wait_for_message(id)
    }

    fn wait_for_message(&self, id: RequestId) -> Result<MessageInfo, ReceiveError> {
        self.wait(id).message()
    }
}
