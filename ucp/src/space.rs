//! Matching spaces: one engine per communicator context, found by number.
//!
//! Numbers below [`DENSE`] are an index; others are looked up. A message for a space that is not
//! open yet waits in it: the space exists from its first message on and is merely not open.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use bowline_uct::PeerFailure;

use crate::error::OpError;
use crate::matching::{Engine, EngineKind, MatchEngine as _};

const DENSE: u32 = 1 << 16;

/// Turns a world rank into a rank of a space.
pub trait Members: Send + Sync + Debug {
    /// The rank in the space of the process with this rank in its job, if it is a member.
    fn rank_of(&self, world_rank: u32) -> Option<u32>;
}

/// How a space treats failures.
#[derive(Clone, Debug, Default)]
pub struct SpaceOptions {
    /// Who the members are. Without, the death of a process fails only what is addressed to its
    /// endpoint.
    pub members: Option<Arc<dyn Members>>,
    /// How many ranks there are, as far as known: some matching engines make room for them.
    pub ranks: u32,
    /// The matching engine, if not the one of the setting `BOWLINE_MATCHING`.
    pub engine: Option<EngineKind>,
    /// Any member's death fails every receive of the space, so that a collective fails at each
    /// participant.
    pub collective: bool,
}

/// A process that has failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    /// Its rank: in the job, or in a space.
    pub(crate) rank: u32,
    pub(crate) how: PeerFailure,
}

impl Lost {
    /// The error of a receive in a space that waits for this member.
    pub(crate) fn error(self) -> OpError {
        match self.how {
            // The program can do something about that, so it is said.
            PeerFailure::Overrun => OpError::TooManyUnexpected,
            _ => OpError::MemberFailed { rank: self.rank },
        }
    }
}

/// One space.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) engine: Engine,
    pub(crate) options: SpaceOptions,
    pub(crate) open: bool,
    /// Members that have failed.
    pub(crate) dead: Vec<Lost>,
    /// Receives are posted with care: members are dead, or receives are announced.
    pub(crate) careful: bool,
    /// How many of `dead` the user has acknowledged: receives from any source work again.
    pub(crate) acknowledged: usize,
}

impl Space {
    fn closed() -> Self {
        Self {
            engine: Engine::new(EngineKind::Auto, 0),
            options: SpaceOptions::default(),
            open: false,
            dead: Vec::new(),
            careful: false,
            acknowledged: 0,
        }
    }

    /// The dead member because of which nothing in it can succeed any more, if it is a collective
    /// one. Messages that wait for their receiver are refused then, or their senders would wait
    /// for receives that fail before they are posted.
    #[inline]
    pub(crate) fn condemned(&self) -> Option<u32> {
        self.dead.first().map(|lost| lost.rank).filter(|_| self.options.collective)
    }

    /// Forgets all waiting messages, whose keys are appended to `waiting`. Nothing is posted.
    #[cold]
    pub(crate) fn give_up(&mut self, waiting: &mut Vec<u64>) {
        self.engine.unexpected_values(waiting);
        self.engine = Engine::new(self.engine.kind(), self.options.ranks);
    }

    /// The failed member for which a receive from `source` cannot be posted, if any.
    #[cold]
    pub(crate) fn hindrance(&self, source: Option<u32>) -> Option<Lost> {
        match source {
            _ if self.options.collective => self.dead.first().copied(),
            Some(rank) => self.dead.iter().copied().find(|lost| lost.rank == rank),
            None => self.dead.get(self.acknowledged).copied(),
        }
    }
}

/// All spaces of a worker.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    dense: Vec<Option<Box<Space>>>,
    sparse: HashMap<u32, Box<Space>>,
    /// Spaces that exist because of a message and that nobody has opened.
    unopened: usize,
}

impl Spaces {
    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Space> {
        let Self { dense, sparse, .. } = self;
        match dense.get_mut(id as usize) {
            Some(space) => space.as_deref_mut(),
            None if id < DENSE => None,
            None => sparse.get_mut(&id).map(|space| &mut **space),
        }
    }

    /// The space, which is made when it does not exist.
    pub(crate) fn make(&mut self, id: u32) -> &mut Space {
        let unopened = &mut self.unopened;
        let closed = || {
            *unopened += 1;
            Box::new(Space::closed())
        };
        if id >= DENSE {
            return self.sparse.entry(id).or_insert_with(closed);
        }
        let index = id as usize;
        if index >= self.dense.len() {
            self.dense.resize_with(index + 1, || None);
        }
        self.dense[index].get_or_insert_with(closed)
    }

    /// The space, open from now on; `None` when it is open already.
    pub(crate) fn open(&mut self, id: u32) -> Option<&mut Space> {
        if self.make(id).open {
            return None;
        }
        self.unopened -= 1;
        let space = self.get_mut(id)?;
        space.open = true;
        Some(space)
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<Box<Space>> {
        let removed = if id >= DENSE {
            self.sparse.remove(&id)
        } else {
            self.dense.get_mut(id as usize)?.take()
        };
        self.unopened -= usize::from(removed.as_ref().is_some_and(|space| !space.open));
        removed
    }

    /// Spaces that nobody has opened.
    pub(crate) fn unopened(&self) -> usize {
        self.unopened
    }

    /// Drops those of them in which nothing waits any more.
    pub(crate) fn drop_unopened(&mut self) {
        let goes = |space: &Space| !space.open && space.engine.unexpected_len() == 0;
        for place in &mut self.dense {
            if place.as_deref().is_some_and(goes) {
                *place = None;
            }
        }
        self.sparse.retain(|_, space| !goes(space));
        let left = self.dense.iter().flatten().chain(self.sparse.values());
        self.unopened = left.filter(|space| !space.open).count();
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Space> {
        let dense = self.dense.iter_mut().flatten();
        dense.chain(self.sparse.values_mut()).map(|space| &mut **space)
    }
}
