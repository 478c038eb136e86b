//! Connections by socket address: a server listens, a client asks with private data, the server
//! accepts or rejects with private data of its own.
//!
//! ```text
//!   client                                          server
//!                                                   listen(address)
//!   connect_addr(address, private) ──────────────►  next_request() = {from, private}
//!   dial_outcome(dial) = (endpoint, private) ◄────  accept(request, private) = endpoint
//!                      = rejected(private)   ◄────  reject(request, private)
//! ```
//! The two exchange the addresses of their workers, and no more: what they send each other then goes
//! over the best lane, shared memory where they are on one host. The exchange itself is an
//! [`Introducer`]'s, which the worker is given and looks at now and then: ucp has no socket.
//!
//! What comes from a stranger is bounded and checked: [`Introduction`] by itself, the number of
//! strangers and their time by the introducer.
//!
//! An endpoint made so is one like any other: `close` tells the other side.

use core::net::SocketAddr;
use std::collections::HashMap;

use bowline_base::doorbell::WakeSet;
use bowline_uct::{AddrReader, AddrWriter};
use thiserror::Error;

use crate::error::ConnectError;
use crate::peer::Ep;
use crate::worker::{Inner, Worker};

/// In front of the private data of both sides.
const MAGIC: u32 = u32::from_le_bytes(*b"BWLI");
const VERSION: u16 = 1;

/// A listener, as the introducer numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId(pub u32);

/// A request to a listener, as the introducer numbers it; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IncomingId(pub u64);

/// A request of ours, as the introducer numbers it; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DialId(pub u64);

/// What an introducer has to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Somebody asks.
    Request {
        /// Names it in the answer.
        id: IncomingId,
        /// Where it came in.
        listener: ListenerId,
        /// Whence it came.
        from: SocketAddr,
        /// What came along.
        data: Vec<u8>,
    },
    /// A request of ours was answered, or failed.
    Outcome {
        /// Which.
        id: DialId,
        /// What was answered.
        answer: Answer,
    },
}

/// How a request of ours ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Accepted, with this data.
    Accepted(Vec<u8>),
    /// Rejected, with this data.
    Rejected(Vec<u8>),
    /// Not answered; why.
    Failed(String),
}

/// Who carries requests between hosts. It has to bound what strangers cost, in number, bytes and time.
pub trait Introducer: Send {
    /// Most bytes that a request and an answer carry.
    fn max_data(&self) -> usize;
    /// Listens at `at`; port 0 takes any. Returns where.
    fn listen(&mut self, at: SocketAddr) -> Result<(ListenerId, SocketAddr), String>;
    /// Ends that.
    fn close_listener(&mut self, listener: ListenerId);
    /// Asks the listener at `to`.
    fn dial(&mut self, to: SocketAddr, data: &[u8]) -> Result<DialId, String>;
    /// Answers a request. An error says that the client has given up.
    fn answer(&mut self, id: IncomingId, accept: bool, data: &[u8]) -> Result<(), String>;
    /// Makes progress: at most `budget` news are handed to `tell`.
    fn progress(&mut self, budget: u32, tell: &mut dyn FnMut(News));
    /// Adds what becomes readable when there may be news.
    fn add_to(&mut self, set: &mut WakeSet) -> Result<(), String>;
    /// Prepares for sleep; whether there are news already.
    fn arm(&mut self) -> bool;
    /// The sleeper is awake.
    fn disarm(&mut self);
}

/// Why a request by socket address came to nothing.
#[derive(Error)]
#[non_exhaustive]
pub enum DialError {
    /// The worker has no introducer.
    #[error("this worker was given nothing to listen or dial with; give it an introducer first")]
    NoIntroducer,
    /// Too much private data.
    #[error("{given} bytes of private data exceed the {limit} that a request may carry")]
    TooLong {
        /// What was given.
        given: usize,
        /// What fits beside the worker's address.
        limit: usize,
    },
    /// The introducer's reason.
    #[error("cannot {act}: {reason}")]
    Introducer {
        /// What was tried.
        act: &'static str,
        /// Why not.
        reason: String,
    },
    /// The server said no.
    #[error("the server rejected the request")]
    Rejected {
        /// What it sent along.
        private: Vec<u8>,
    },
    /// The server cannot be reached, or ended.
    #[error("the request was not answered: {0}")]
    Failed(String),
    /// What the other side sent is no introduction.
    #[error("the other side's introduction is damaged, or of another version")]
    Damaged,
    /// No such request.
    #[error("no such request: it was answered, or its outcome taken, before")]
    NoSuch,
    /// No transport leads to the other side.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

bowline_base::debug_by_display!(DialError);

/// A request that came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionRequest {
    /// Names it in the answer.
    pub id: IncomingId,
    /// Where it came in.
    pub listener: ListenerId,
    /// Whence it came.
    pub from: SocketAddr,
    /// What the client sent along.
    pub private: Vec<u8>,
}

/// What both sides send first: the address of a worker, and private data.
///
/// Layout (little endian): magic `BWLI`, version u16, the address with a 16-bit length, the rest is
/// private.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// Of the worker.
    pub address: Vec<u8>,
    /// The user's.
    pub private: Vec<u8>,
}

impl Introduction {
    /// Bytes beside address and private data.
    pub const FIXED: usize = 8;

    /// The bytes that travel.
    pub fn pack(&self) -> Vec<u8> {
        let mut writer = AddrWriter::new();
        writer.u32(MAGIC).u16(VERSION).bytes(&self.address);
        let mut out = writer.finish();
        out.extend_from_slice(&self.private);
        out
    }

    /// Reads bytes of a stranger; `None` for those that are no introduction.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = AddrReader::new(bytes);
        if reader.u32().ok()? != MAGIC || reader.u16().ok()? != VERSION {
            return None;
        }
        let address = reader.bytes().ok()?.to_vec();
        let private = bytes.get(Self::FIXED + address.len()..)?.to_vec();
        Some(Self { address, private })
    }
}

/// What a worker knows of requests.
#[derive(Default)]
pub(crate) struct Introductions {
    introducer: Option<Box<dyn Introducer>>,
    /// Requests that nobody has asked for yet.
    incoming: std::collections::VecDeque<ConnectionRequest>,
    /// Addresses of clients that wait for their answer.
    waiting: HashMap<IncomingId, Vec<u8>>,
    /// Our own requests; an answer once there is one.
    dials: HashMap<DialId, Option<Answer>>,
}

impl std::fmt::Debug for Introductions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Introductions")
            .field("waiting", &self.waiting.len())
            .field("dials", &self.dials.len())
            .finish_non_exhaustive()
    }
}

impl Introductions {
    /// Most news in one look.
    const BUDGET: u32 = 64;

    /// Most requests that wait for the user to ask for them; others are rejected.
    const WAITING: usize = 4096;

    /// Looks; returns how many news there were.
    fn look(&mut self) -> u32 {
        let Self { introducer: Some(introducer), incoming, waiting, dials } = self else {
            return 0;
        };
        let mut refused = Vec::new();
        let mut count = 0;
        introducer.progress(Self::BUDGET, &mut |news| {
            count += 1;
            match news {
                News::Request { id, listener, from, data } => match Introduction::parse(&data) {
                    Some(_) if incoming.len() >= Self::WAITING => refused.push(id),
                    Some(Introduction { address, private }) => {
                        waiting.insert(id, address);
                        incoming.push_back(ConnectionRequest { id, listener, from, private });
                    }
                    None => {
                        tracing::warn!(%from, "a stranger's introduction is damaged");
                        refused.push(id);
                    }
                },
                News::Outcome { id, answer } => {
                    dials.insert(id, Some(answer));
                }
            }
        });
        for id in refused {
            // It may have given up by itself.
            let _ = introducer.answer(id, false, &[]);
        }
        count
    }
}

impl Inner {
    /// Looks for requests and answers, where the worker has an introducer.
    #[inline]
    pub(crate) fn look_for_introductions(&mut self) -> u32 {
        match self.introductions.introducer {
            Some(_) => self.introductions.look(),
            None => 0,
        }
    }

    pub(crate) fn has_introducer(&self) -> bool {
        self.introductions.introducer.is_some()
    }

    /// Before a sleep: whether there are news.
    pub(crate) fn introducer_is_busy(&mut self) -> bool {
        match &mut self.introductions.introducer {
            Some(introducer) => introducer.arm() || self.introductions.look() > 0,
            None => false,
        }
    }

    pub(crate) fn disarm_introducer(&mut self) {
        if let Some(introducer) = &mut self.introductions.introducer {
            introducer.disarm();
        }
    }

    /// Adds what tells of requests to what is slept on. Whether that is possible.
    pub(crate) fn add_introducer(&mut self, set: &mut WakeSet) -> bool {
        let Some(introducer) = &mut self.introductions.introducer else { return true };
        match introducer.add_to(set) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(error, "no descriptor for requests; sleeps are short");
                false
            }
        }
    }

    /// The introducer, and our introduction with `private`.
    fn introduce(&mut self, private: &[u8]) -> Result<(&mut Introductions, Vec<u8>), DialError> {
        let address = self.own_address.clone();
        let Some(introducer) = &self.introductions.introducer else {
            return Err(DialError::NoIntroducer);
        };
        let limit = introducer.max_data().saturating_sub(Introduction::FIXED + address.len());
        if private.len() > limit {
            return Err(DialError::TooLong { given: private.len(), limit });
        }
        let packed = Introduction { address, private: private.to_vec() }.pack();
        Ok((&mut self.introductions, packed))
    }
}

impl Worker {
    /// Gives the worker what it listens and dials with, in place of what it had.
    pub fn introduced_by(&self, introducer: Box<dyn Introducer>) {
        let inner = &mut *self.inner.borrow_mut();
        inner.introductions = Introductions { introducer: Some(introducer), ..Default::default() };
        inner.descriptors = None;
    }

    /// Listens for requests at `at`; port 0 takes any that is free. Returns where.
    ///
    /// # Errors
    /// When the worker has no introducer, or the address cannot be listened at.
    pub fn listen(&self, at: SocketAddr) -> Result<(ListenerId, SocketAddr), DialError> {
        let inner = &mut *self.inner.borrow_mut();
        let introducer = inner.introductions.introducer.as_mut().ok_or(DialError::NoIntroducer)?;
        let listening = introducer.listen(at);
        listening.map_err(|reason| DialError::Introducer { act: "listen", reason })
    }

    /// Stops listening. Requests that came in before stay.
    pub fn close_listener(&self, listener: ListenerId) {
        let inner = &mut *self.inner.borrow_mut();
        if let Some(introducer) = &mut inner.introductions.introducer {
            introducer.close_listener(listener);
        }
    }

    /// The next request that nobody was told of, oldest first.
    pub fn next_request(&self) -> Option<ConnectionRequest> {
        let inner = &mut *self.inner.borrow_mut();
        inner.look_for_introductions();
        inner.introductions.incoming.pop_front()
    }

    /// Accepts a request, with private data for the client. The endpoint can be used at once. Where no
    /// transport leads to the client, it is rejected, and the error says why.
    ///
    /// # Errors
    /// When the request was answered before, the client cannot be reached or has given up, or the
    /// private data are too long; only after the last may it be answered again.
    pub fn accept(&self, id: IncomingId, private: &[u8]) -> Result<Ep, DialError> {
        let address = {
            let inner = &mut *self.inner.borrow_mut();
            inner.introduce(private)?;
            inner.introductions.waiting.remove(&id).ok_or(DialError::NoSuch)?
        };
        let ep = self.connect(&address);
        let inner = &mut *self.inner.borrow_mut();
        let (introductions, packed) = inner.introduce(private)?;
        let introducer = introductions.introducer.as_mut().ok_or(DialError::NoIntroducer)?;
        let data: &[u8] = if ep.is_ok() { &packed } else { &[] };
        let said = introducer.answer(id, ep.is_ok(), data);
        let ep = ep?;
        said.map_err(|reason| DialError::Introducer { act: "answer a request", reason })?;
        Ok(ep)
    }

    /// Rejects a request, with private data for the client, the reason for instance.
    ///
    /// # Errors
    /// As for [`Worker::accept`].
    pub fn reject(&self, id: IncomingId, private: &[u8]) -> Result<(), DialError> {
        let inner = &mut *self.inner.borrow_mut();
        let introductions = &mut inner.introductions;
        let introducer = introductions.introducer.as_mut().ok_or(DialError::NoIntroducer)?;
        let limit = introducer.max_data();
        if private.len() > limit {
            return Err(DialError::TooLong { given: private.len(), limit });
        }
        introductions.waiting.remove(&id).ok_or(DialError::NoSuch)?;
        let said = introducer.answer(id, false, private);
        said.map_err(|reason| DialError::Introducer { act: "answer a request", reason })
    }

    /// Asks the listener at `to` for a connection, with private data for its user.
    /// [`Worker::dial_outcome`] says what became of it.
    ///
    /// # Errors
    /// When the worker has no introducer, or the private data are too long.
    pub fn connect_addr(&self, to: SocketAddr, private: &[u8]) -> Result<DialId, DialError> {
        let inner = &mut *self.inner.borrow_mut();
        let (introductions, packed) = inner.introduce(private)?;
        let introducer = introductions.introducer.as_mut().ok_or(DialError::NoIntroducer)?;
        let dialled = introducer.dial(to, &packed);
        let id = dialled.map_err(|reason| DialError::Introducer { act: "connect", reason })?;
        introductions.dials.insert(id, None);
        Ok(id)
    }

    /// What became of a request: the endpoint and the server's private data. `None` while it is under
    /// way. Tells each outcome once.
    pub fn dial_outcome(&self, id: DialId) -> Option<Result<(Ep, Vec<u8>), DialError>> {
        let answer = {
            let inner = &mut *self.inner.borrow_mut();
            inner.look_for_introductions();
            match inner.introductions.dials.get_mut(&id) {
                None => return Some(Err(DialError::NoSuch)),
                Some(answer) => answer.take()?,
            }
        };
        self.inner.borrow_mut().introductions.dials.remove(&id);
        Some(match answer {
            Answer::Failed(reason) => Err(DialError::Failed(reason)),
            Answer::Rejected(private) => Err(DialError::Rejected { private }),
            Answer::Accepted(data) => match Introduction::parse(&data) {
                None => Err(DialError::Damaged),
                Some(Introduction { address, private }) => {
                    self.connect(&address).map(|ep| (ep, private)).map_err(DialError::from)
                }
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_bytes_of_an_introduction() {
        let introduction = Introduction { address: vec![1, 2, 3], private: vec![9, 8] };
        let bytes = [b'B', b'W', b'L', b'I', 1, 0, 3, 0, 1, 2, 3, 9, 8];
        assert_eq!(introduction.pack(), bytes);
        assert_eq!(Introduction::parse(&bytes), Some(introduction));
        for cut in 0..11 {
            assert_eq!(Introduction::parse(&bytes[..cut]), None, "cut at {cut}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(introduction) = Introduction::parse(&bytes) {
                prop_assert_eq!(introduction.pack(), bytes);
            }
        }

        #[test]
        fn introductions_survive(
            address in proptest::collection::vec(any::<u8>(), 0..300),
            private in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let introduction = Introduction { address, private };
            prop_assert_eq!(Introduction::parse(&introduction.pack()), Some(introduction));
        }
    }
}
