//! Matching spaces: one engine per communicator context, found by number.
//!
//! Numbers below [`DENSE`] are an index, and greater ones an index in a table of two levels, whose
//! pieces come and go with the spaces in them. A message for a space that is not open yet waits in it:
//! the space exists from its first message on, apart from the others.

mod single;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use bowline_uct::PeerFailure;

use crate::error::OpError;
use crate::matching::{Engine, EngineKind, ItemId, MatchEngine as _, MatchSpec, Want};

pub(crate) use single::Single;

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
    /// How many ranks there are, as far as known: some matching engines make space for them.
    pub ranks: u32,
    /// The matching engine, if not the one of the setting `BOWLINE_MATCHING`.
    pub engine: Option<EngineKind>,
    /// Any member's death fails every receive of the space, so that a collective fails at each
    /// participant.
    pub collective: bool,
    /// Says of a tag in words which message it is, for reports of what a worker waits for.
    pub describe: Option<fn(u64) -> String>,
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

/// One space. It begins with a line of the cache, in which is what short queues need.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Space {
    pub(crate) engine: Engine,
    pub(crate) options: SpaceOptions,
    /// Members that have failed.
    pub(crate) dead: Vec<Lost>,
    /// How many of `dead` the user has acknowledged: receives from any source work again.
    pub(crate) acknowledged: u32,
    pub(crate) open: bool,
    /// Receives are checked before they are posted: members are dead, or protocols watch them.
    pub(crate) checks_receives: bool,
}

impl Space {
    fn closed() -> Self {
        Self {
            engine: Engine::new(EngineKind::Auto, 0),
            options: SpaceOptions::default(),
            open: false,
            dead: Vec::new(),
            checks_receives: false,
            acknowledged: 0,
        }
    }

    /// Whether a receive is posted without a check of anything else: most are.
    #[inline(always)]
    pub(crate) fn posts_at_once(&self) -> bool {
        self.open && !self.checks_receives && self.engine.is_plain()
    }

    /// Posts a receive then; `alone` says whether [`Self::is_alone`] did.
    #[inline(always)]
    pub(crate) fn post_at_once(
        &mut self,
        single: &mut Single,
        alone: bool,
        spec: &MatchSpec,
        value: u64,
    ) -> ItemId {
        if alone { single.post(spec, value) } else { self.engine.post_plain(spec.want(), value) }
    }

    /// Whether no receive waits in this space, and the place for one that is posted alone is free.
    #[inline(always)]
    pub(crate) fn is_alone(&self, single: &Single) -> bool {
        single.is_free() && self.engine.is_empty()
    }

    /// Takes back every posted receive of this space, which has the number `id`, for which `which` says so, and
    /// appends their values to `out`, oldest first.
    pub(crate) fn remove_posted_where(
        &mut self,
        id: u32,
        single: &mut Single,
        which: &mut dyn FnMut(&Want) -> bool,
        out: &mut Vec<u64>,
    ) {
        out.extend(single.remove_if(id, |want, _| which(want)));
        self.engine.remove_posted_where(which, out);
    }

    /// The dead member because of which nothing in it can succeed any more, if it is a collective
    /// one. Messages that wait for their receiver are refused then, or their senders would wait
    /// for receives that fail before they are posted.
    #[inline]
    pub(crate) fn failed_collective_member(&self) -> Option<u32> {
        self.dead.first().map(|lost| lost.rank).filter(|_| self.options.collective)
    }

    /// Forgets all waiting messages, whose keys are appended to `waiting`. Nothing is posted.
    #[cold]
    pub(crate) fn drain_unexpected(&mut self, waiting: &mut Vec<u64>) {
        self.engine.unexpected_values(waiting);
        self.engine = self.engine.renewed(self.options.ranks);
    }

    /// The failed member for which a receive from `source` cannot be posted, if any.
    #[cold]
    pub(crate) fn failed_member_for(&self, source: Option<u32>) -> Option<Lost> {
        match source {
            _ if self.options.collective => self.dead.first().copied(),
            Some(rank) => self.dead.iter().copied().find(|lost| lost.rank == rank),
            None => self.dead.get(self.acknowledged as usize).copied(),
        }
    }
}

/// Spaces in a piece of the table.
const PIECE: usize = 1 << 10;

/// Pieces of the table at most. Spaces beyond it, of which nobody has had so many, are searched for.
const PIECES: usize = 1 << 16;

/// A piece of the table.
#[derive(Debug)]
struct Piece {
    open: usize,
    spaces: [Option<Box<Space>>; PIECE],
}

/// All spaces of a worker.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    /// Open ones with numbers below [`DENSE`].
    dense: Vec<Option<Box<Space>>>,
    /// Open ones with greater numbers.
    pieces: Vec<Option<Box<Piece>>>,
    /// Open ones beyond the table.
    beyond: HashMap<u32, Box<Space>>,
    /// Spaces that exist because of a message and that nobody has opened.
    early: HashMap<u32, Box<Space>>,
    single: Single,
    /// How many times the engines of those that are gone have grown.
    growths: u64,
}

/// The piece of a number, if the table has it, and the place in it.
const fn place(id: u32) -> Option<(usize, usize)> {
    let at = id as usize;
    if at / PIECE < PIECES { Some((at / PIECE, at % PIECE)) } else { None }
}

impl Spaces {
    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Space> {
        self.space_and_single(id).map(|(space, _)| space)
    }

    /// The same, with the place of a receive that is posted alone.
    #[inline(always)]
    pub(crate) fn space_and_single(&mut self, id: u32) -> Option<(&mut Space, &mut Single)> {
        let Self { dense, pieces, beyond, early, single, .. } = self;
        let space = match dense.get_mut(id as usize) {
            Some(Some(space)) => space,
            _ => elsewhere(pieces, beyond, early, id)?,
        };
        Some((space, single))
    }

    /// [`Self::arrive`] where the receive is the oldest one of its space and found without a call; `None` says
    /// nothing of the others.
    #[inline(always)]
    pub(crate) fn arrive_first(&mut self, id: u32, source: u32, tag: u64) -> Option<u64> {
        if let found @ Some(_) = self.single.arrive(id, source, tag) {
            return found;
        }
        self.dense.get_mut(id as usize)?.as_mut()?.engine.arrive_first(source, tag)
    }

    /// Takes the first posted receive that fits an arrival.
    pub(crate) fn arrive(&mut self, id: u32, source: u32, tag: u64) -> Option<u64> {
        if let found @ Some(_) = self.single.arrive(id, source, tag) {
            return found;
        }
        self.get_mut(id)?.engine.arrive(source, tag)
    }

    /// The same where taking it out changes nothing else; see [`MatchEngine::arrive_quietly`](crate::matching::MatchEngine::arrive_quietly).
    pub(crate) fn arrive_quietly(&mut self, id: u32, source: u32, tag: u64) -> Option<u64> {
        if let found @ Some(_) = self.single.arrive(id, source, tag) {
            return found;
        }
        self.get_mut(id)?.engine.arrive_quietly(source, tag)
    }

    /// Whether a receive waits in a space.
    pub(crate) fn has_posted(&mut self, id: u32) -> bool {
        self.single.is_in(id) || self.get_mut(id).is_some_and(|s| s.engine.posted_len() > 0)
    }

    /// Takes a posted receive back, if it still waits. Whether it did.
    pub(crate) fn withdraw(&mut self, id: u32, item: ItemId, value: u64) -> bool {
        if self.single.remove_if(id, |_, here| here == value).is_some() {
            return true;
        }
        self.get_mut(id).is_some_and(|space| space.engine.remove_posted(item, value))
    }

    /// Takes the place of the receive that is posted alone out, for who goes through all spaces, until it is put back.
    pub(crate) fn take_single(&mut self) -> Single {
        std::mem::take(&mut self.single)
    }

    /// Puts it back.
    pub(crate) fn put_single(&mut self, single: Single) {
        self.single = single;
    }

    /// The space, which is made when it does not exist.
    pub(crate) fn make(&mut self, id: u32) -> &mut Space {
        if !self.is_open(id) {
            return self.early.entry(id).or_insert_with(|| Box::new(Space::closed()));
        }
        self.get_mut(id).expect("an open space is there")
    }

    fn is_open(&mut self, id: u32) -> bool {
        self.get_mut(id).is_some_and(|space| space.open)
    }

    /// The space, open from now on; `None` when it is open already.
    pub(crate) fn open(&mut self, id: u32) -> Option<&mut Space> {
        if self.is_open(id) {
            return None;
        }
        let mut space = self.early.remove(&id).unwrap_or_else(|| Box::new(Space::closed()));
        space.open = true;
        if id < DENSE {
            let index = id as usize;
            if index >= self.dense.len() {
                self.dense.resize_with(index + 1, || None);
            }
            return Some(self.dense[index].insert(space));
        }
        let Some((piece, at)) = place(id) else {
            return Some(self.beyond.entry(id).or_insert(space));
        };
        if piece >= self.pieces.len() {
            self.pieces.resize_with(piece + 1, || None);
        }
        let empty = || Box::new(Piece { open: 0, spaces: [const { None }; PIECE] });
        let piece = self.pieces[piece].get_or_insert_with(empty);
        piece.open += 1;
        Some(piece.spaces[at].insert(space))
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<Box<Space>> {
        let opened = if id < DENSE {
            self.dense.get_mut(id as usize).and_then(Option::take)
        } else if let Some((at, index)) = place(id) {
            self.take_of_piece(at, index)
        } else {
            self.beyond.remove(&id)
        };
        let removed = opened.or_else(|| self.early.remove(&id));
        self.growths += removed.as_ref().map_or(0, |space| space.engine.growths());
        removed
    }

    /// How many times matching engines have grown, with those of spaces that are gone.
    pub(crate) fn growths(&mut self) -> u64 {
        self.growths + self.iter_mut().map(|(_, space)| space.engine.growths()).sum::<u64>()
    }

    fn take_of_piece(&mut self, at: usize, index: usize) -> Option<Box<Space>> {
        let place = self.pieces.get_mut(at)?;
        let piece = place.as_deref_mut()?;
        let space = piece.spaces[index].take()?;
        piece.open -= 1;
        if piece.open == 0 {
            *place = None;
        }
        Some(space)
    }

    /// Spaces that nobody has opened.
    pub(crate) fn unopened(&self) -> usize {
        self.early.len()
    }

    /// Their messages.
    pub(crate) fn early_messages(&self) -> usize {
        self.early.values().map(|space| space.engine.unexpected_len()).sum()
    }

    /// Spaces that nobody has opened, and their numbers.
    pub(crate) fn early_mut(&mut self) -> impl Iterator<Item = (u32, &mut Space)> {
        self.early.iter_mut().map(|(&id, space)| (id, &mut **space))
    }

    /// Drops those of them in which nothing waits any more.
    pub(crate) fn drop_unopened(&mut self) {
        let growths = &mut self.growths;
        self.early.retain(|_, space| {
            let waits = space.engine.unexpected_len() > 0;
            *growths += if waits { 0 } else { space.engine.growths() };
            waits
        });
    }

    /// All of them, and their numbers.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Space)> {
        let dense = (0..).zip(&mut self.dense);
        let pieces = (0..).step_by(PIECE).zip(&mut self.pieces).filter_map(|(from, piece)| {
            let spaces = &mut piece.as_deref_mut()?.spaces;
            Some((from..).zip(spaces))
        });
        let table = dense.chain(pieces.flatten());
        let table = table.filter_map(|(id, space)| Some((id, space.as_deref_mut()?)));
        let others = self.beyond.iter_mut().chain(&mut self.early);
        table.chain(others.map(|(&id, space)| (id, &mut **space)))
    }
}

/// A space that is not among the first ones.
#[cold]
fn elsewhere<'a>(
    pieces: &'a mut [Option<Box<Piece>>],
    beyond: &'a mut HashMap<u32, Box<Space>>,
    early: &'a mut HashMap<u32, Box<Space>>,
    id: u32,
) -> Option<&'a mut Space> {
    let opened = match place(id) {
        Some((at, index)) => {
            pieces.get_mut(at).and_then(Option::as_mut).and_then(|p| p.spaces[index].as_mut())
        }
        None => beyond.get_mut(&id),
    };
    opened.or_else(|| early.get_mut(&id)).map(|space| &mut **space)
}
