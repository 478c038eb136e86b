//! What an interface knows of another one, and of its own endpoints and operations.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use bowline_uct::{EpId, LocalSlice, PeerFailure, Token};

use crate::flushes::Flushes;
use crate::liveness::Liveness;
use crate::net::{Mr, Place};
use crate::sockets::Ends;
use crate::wire::{Outcome, REFUSAL, UNNUMBERED};

/// Messages that may wait for a peer's greeting; a peer that does not answer shall not hold all
/// send buffers.
pub(crate) const EARLY: u32 = 16;

/// How a peer is. `Well` -> `Failing` when something is wrong with it -> `Failed` when every
/// operation to it has been answered and its failure reported; never back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Health {
    Well,
    /// Operations are on their way back.
    Failing {
        how: PeerFailure,
        since: Instant,
        /// Polls of the queue that found nothing since.
        quiet: u32,
        /// What has been polled since its last message.
        silence: Silence,
        /// When to check again whether its connections have ended.
        next: Instant,
    },
    Failed(PeerFailure),
}

/// Polls since the last message of a peer that is failing, or since that began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Silence {
    pub(crate) since: Instant,
    pub(crate) polls: u32,
    /// Those of them that found nothing.
    pub(crate) empty: u32,
}

impl Silence {
    pub(crate) fn begin() -> Self {
        Self { since: Instant::now(), polls: 0, empty: 0 }
    }

    /// The queue may have been polled once more, and found empty.
    pub(crate) fn note(&mut self, polled: bool, empty: bool) {
        self.polls = self.polls.saturating_add(u32::from(polled));
        self.empty = self.empty.saturating_add(u32::from(empty));
    }
}

/// A message that libfabric has not taken yet.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Send buffer that begins with the header.
    pub(crate) buffer: u32,
    /// Bytes in the buffer.
    pub(crate) len: usize,
    /// Pieces of the user's memory behind them, and the token that frees those.
    pub(crate) lent: Option<(Vec<LocalSlice>, Token)>,
}

/// Another interface. Its place in the table is also the number under which its messages arrive.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) place: Place,
    pub(crate) instance: u64,
    /// What its messages carry, and what ours to it do.
    pub(crate) stamps: Stamps,
    pub(crate) liveness: Liveness,
    /// A network is in between, so it is asked now and then whether it is still there.
    pub(crate) asked: bool,
    /// Where it listens, if that is a socket.
    pub(crate) at: Option<SocketAddr>,
    pub(crate) health: Health,
    /// Its connections that were ended because it failed.
    pub(crate) cut: Vec<Ends>,
    /// The endpoint that leads to it.
    pub(crate) ep: Option<EpId>,
    /// The number by which it knows us; UNNUMBERED until it has greeted.
    pub(crate) number: u32,
    /// Our greeting is under way.
    pub(crate) greeted: bool,
    pub(crate) greeting_due: bool,
    /// The interface is being closed and has not said so yet.
    pub(crate) close_due: bool,
    /// Messages under credit that it lets us have under way.
    pub(crate) window: u32,
    /// Messages under credit that libfabric has taken, and how many of them the peer has.
    pub(crate) sent: u32,
    pub(crate) answered: u32,
    /// Messages under credit that came, and how many of them were said to the peer.
    pub(crate) taken: u32,
    pub(crate) reported: u32,
    /// It has to be said in a message of its own.
    pub(crate) taken_due: bool,
    /// Since when libfabric takes nothing for it though nothing is under way to it.
    pub(crate) blocked_since: Option<Instant>,
    pub(crate) pending: VecDeque<Pending>,
    /// Results of its atomic operations that have to go back.
    pub(crate) results: VecDeque<Outcome>,
    /// Operations that libfabric or the peer has to answer.
    pub(crate) under_way: u32,
    pub(crate) flushes: Flushes,
    /// The interface's fence up to which this peer's operations are ordered.
    pub(crate) fenced: u32,
    /// Stands in the interface's queue of those with something to hand over.
    pub(crate) busy: bool,
}

/// The stamps of messages between an interface and a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamps {
    pub(crate) theirs: u32,
    pub(crate) ours: u32,
}

impl Peer {
    pub(crate) fn new(
        place: Place,
        instance: u64,
        stamps: Stamps,
        window: u32,
        liveness: Liveness,
        fenced: u32,
    ) -> Self {
        Self {
            place,
            instance,
            stamps,
            liveness,
            asked: false,
            at: None,
            health: Health::Well,
            cut: Vec::new(),
            ep: None,
            number: UNNUMBERED,
            greeted: false,
            greeting_due: false,
            close_due: false,
            window,
            sent: 0,
            answered: 0,
            taken: 0,
            reported: 0,
            taken_due: false,
            blocked_since: None,
            pending: VecDeque::new(),
            results: VecDeque::new(),
            under_way: 0,
            flushes: Flushes::default(),
            fenced,
            busy: false,
        }
    }

    #[inline]
    pub(crate) const fn is_well(&self) -> bool {
        matches!(self.health, Health::Well)
    }

    /// Whether a message may go to libfabric now, as far as order is concerned.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.number != UNNUMBERED && self.pending.is_empty()
    }

    /// Whether everything that was sent to it has been taken, and every operation answered.
    pub(crate) const fn is_quiet(&self) -> bool {
        self.sent == self.answered && self.under_way == 0
    }

    /// Messages under credit that may still be posted.
    #[inline]
    pub(crate) fn credit(&self) -> u32 {
        let limit = if self.number == UNNUMBERED { EARLY.min(self.window) } else { self.window };
        let used = self.sent.wrapping_sub(self.answered) + self.pending.len() as u32;
        limit.saturating_sub(used)
    }
}

/// What an operation under way is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Free,
    /// A message from a send buffer.
    Send {
        buffer: u32,
    },
    /// A message whose payload is the user's.
    SendLent {
        buffer: u32,
        token: Token,
    },
    /// A write, from a send buffer or from the user's memory.
    Put {
        buffer: Option<u32>,
        token: Token,
        epoch: u32,
    },
    /// A read into the user's memory.
    Get {
        token: Token,
        epoch: u32,
    },
    /// An atomic operation of libfabric; its words are in a send buffer.
    Atomic {
        buffer: u32,
        token: Token,
        wide: bool,
        epoch: u32,
    },
    /// An atomic operation that the peer was asked for.
    Asked {
        token: Token,
        epoch: u32,
    },
    /// Its peer is gone and its token answered; libfabric may still say something of it.
    Orphan {
        buffer: Option<u32>,
    },
}

impl Work {
    /// Whether libfabric may read or write the user's memory for it.
    const fn names_memory(self) -> bool {
        match self {
            Self::SendLent { .. } | Self::Put { buffer: None, .. } | Self::Get { .. } => true,
            Self::Free | Self::Send { .. } | Self::Put { buffer: Some(_), .. } => false,
            Self::Atomic { .. } | Self::Asked { .. } | Self::Orphan { .. } => false,
        }
    }
}

#[derive(Debug)]
struct Op {
    work: Work,
    peer: u32,
    /// Registrations of the user's memory for the time of the operation.
    local: Option<Box<[Mr]>>,
}

/// Operations under way, by number.
#[derive(Debug, Default)]
pub(crate) struct Ops {
    all: Vec<Op>,
    free: Vec<u32>,
}

impl Ops {
    /// Operations under way.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }

    #[inline]
    pub(crate) fn insert(&mut self, peer: u32, work: Work, local: Option<Box<[Mr]>>) -> u32 {
        let op = Op { work, peer, local };
        if let Some(index) = self.free.pop() {
            self.all[index as usize] = op;
            return index;
        }
        self.all.push(op);
        self.free.reserve(self.all.len());
        self.all.len() as u32 - 1
    }

    /// What operation `index` is, and whose.
    pub(crate) fn get(&self, index: u32) -> Option<(Work, u32)> {
        self.all.get(index as usize).map(|op| (op.work, op.peer))
    }

    /// Takes an operation out; ends its registrations.
    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> (Work, u32) {
        let op = &mut self.all[index as usize];
        let work = std::mem::replace(&mut op.work, Work::Free);
        op.local = None;
        let peer = op.peer;
        if work != Work::Free {
            self.free.push(index);
        }
        (work, peer)
    }

    /// Makes orphans of the operations of `peer`; returns what they were. Those that only the
    /// peer would have answered are taken out.
    pub(crate) fn orphan(&mut self, peer: u32) -> Vec<Work> {
        let mut out = Vec::new();
        for (index, op) in self.all.iter_mut().enumerate().filter(|(_, op)| op.peer == peer) {
            let buffer = match op.work {
                Work::Free | Work::Orphan { .. } => continue,
                Work::Asked { .. } => {
                    out.push(std::mem::replace(&mut op.work, Work::Free));
                    self.free.push(index as u32);
                    continue;
                }
                Work::Send { buffer }
                | Work::SendLent { buffer, .. }
                | Work::Atomic { buffer, .. } => Some(buffer),
                Work::Put { buffer, .. } => buffer,
                Work::Get { .. } => None,
            };
            out.push(std::mem::replace(&mut op.work, Work::Orphan { buffer }));
        }
        out
    }

    /// Whether libfabric has an operation of `peer` that names the user's memory.
    pub(crate) fn holds_memory_for(&self, peer: u32) -> bool {
        self.all.iter().any(|op| op.peer == peer && op.work.names_memory())
    }
}

/// A refusal on its way.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) place: Place,
    pub(crate) message: [u8; REFUSAL],
    pub(crate) until: Instant,
}

/// What an interface knows of those who do not know the secret.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    pub(crate) going: Vec<Refusal>,
    pub(crate) made: u32,
    pub(crate) logged: bool,
}

impl Refusals {
    /// Whether there is something to send.
    #[inline]
    pub(crate) const fn wait(&self) -> bool {
        !self.going.is_empty()
    }
}
