//! Communicators that are made in the background.
//!
//! A call must not wait for the other members, who may wait for something else of this rank before they
//! come to theirs, and nobody may have to call anything again for the others' sake. So in its call each
//! member sends all others what they need of it, by messages of the process space, and is done when it
//! has theirs.
//!
//! Several may be under way at once, in different orders at different ranks and with other communicators
//! made meanwhile. So the id is not looked for among what is free everywhere: the first member gives one
//! that only it gives, and that it has not in use. Generations are agreed as ever.

use std::rc::Rc;

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_ucp::{Envelope, MatchSpec, RequestId, SendMode, Sent};

use super::agree::{PROCESS_SPACE, key};
use super::context::Agreed;
use super::{CommInner, Communicator};
use crate::error::MpiError;
use crate::group::Group;
use crate::process::Process;
use crate::topo::Placed;
use bowline_model::coll::wanted::Wanted;

/// What members tell each other: marks, the generation, the id that the first one gives, and the hash of what
/// algorithms are chosen by.
type Word = [u64; 4];
const BYTES: usize = size_of::<Word>();
const OVERSUBSCRIBED: u64 = 1;
/// A member chooses algorithms by something else than this one.
const DIFFERENT: u64 = 2;

/// A duplicate that is under way.
#[derive(Debug)]
pub(crate) struct Duplication {
    process: Rc<Process>,
    group: Group,
    tag: u64,
    /// Members of which not all has come.
    missing: u32,
    /// Messages of theirs that are on their way.
    arriving: Vec<RequestId>,
    merged: Word,
    /// What this rank has offered.
    generation: u32,
    /// The algorithms that it asks for.
    wanted: Result<Option<Wanted>, MpiError>,
    topology: Option<Rc<Placed>>,
    over: bool,
}

impl Communicator {
    /// Begins to make a duplicate that asks for algorithms. Collective, and does not wait.
    pub(crate) fn begin_dup(&self, asked: &[(&str, &str)]) -> Result<Duplication, MpiError> {
        let inner = &*self.inner;
        let process = &inner.process;
        let number = inner.duplicates.get();
        inner.duplicates.set(number.wrapping_add(1));
        let what = (3_u8, inner.context(), inner.generation, number);
        let tag = key(&inner.group, &what);
        let first = inner.rank == 0;
        let own =
            first.then(|| process.contexts.borrow_mut().name(process.world_rank, process.size()));
        // 0 is no such id: where the first member has none left, all members find none in what they merge and fail.
        let id = own.flatten().unwrap_or(0);
        let (wanted, choice) = self.asked_with(asked);
        let generation = process.contexts.borrow_mut().begin();
        let marks = if inner.oversubscribed { OVERSUBSCRIBED } else { 0 };
        let duplication = Duplication {
            process: Rc::clone(process),
            group: inner.group.clone(),
            tag,
            missing: inner.size - 1,
            arriving: Vec::new(),
            merged: [marks, u64::from(generation), u64::from(id), choice],
            generation,
            wanted,
            topology: self.inherited_topology(),
            over: false,
        };
        duplication.tell()?;
        Ok(duplication)
    }
}

impl Duplication {
    /// Sends what this rank has to all others.
    fn tell(&self) -> Result<(), MpiError> {
        let process = &self.process;
        let bytes: Vec<u8> = self.merged.iter().flat_map(|word| word.to_le_bytes()).collect();
        for rank in self.group.world_ranks().filter(|&rank| rank != process.world_rank) {
            let ep = process.endpoint(rank)?;
            let envelope =
                Envelope { space: PROCESS_SPACE, source: process.world_rank, tag: self.tag };
            let buffer = SendBuf::owned(bytes.clone());
            if let Sent::Pending(id) =
                process.worker.send(ep, envelope, buffer, SendMode::Standard)?
            {
                process.worker.detach(id);
            }
        }
        Ok(())
    }

    /// The new communicator, when all have come so far. Moves nothing on; asked once more after that, it
    /// has nothing.
    pub(crate) fn look(&mut self) -> Option<Result<Communicator, MpiError>> {
        if self.over {
            return None;
        }
        let outcome = match self.hear() {
            Ok(()) if self.missing > 0 => {
                let failed = self.process.worker.failures();
                let rank = failed.into_iter().find_map(|rank| self.group.position(rank))?;
                Err(MpiError::MemberFailed { rank })
            }
            Ok(()) => self.open(),
            Err(error) => Err(error),
        };
        self.over = true;
        Some(outcome)
    }

    /// Takes in what has come.
    fn hear(&mut self) -> Result<(), MpiError> {
        let worker = &self.process.worker;
        let spec =
            MatchSpec { space: PROCESS_SPACE, source: None, tag: self.tag, tag_mask: u64::MAX };
        let damaged = |got| MpiError::CountMismatch { expected: BYTES as u64, got };
        while (self.arriving.len() as u32) < self.missing
            && let Some((info, message)) = worker.claim(&spec)
        {
            let id = worker.recv_claimed(message, RecvBuf::owned(vec![0; BYTES]))?;
            self.arriving.push(id);
            if info.length != BYTES as u64 {
                return Err(damaged(info.length));
            }
        }
        // Where settings say so, even short messages are fetched from the sender first.
        let mut index = 0;
        while let Some(&id) = self.arriving.get(index) {
            let Some((status, bytes)) = worker.take_with_buffer(id) else {
                index += 1;
                continue;
            };
            self.arriving.swap_remove(index);
            let bytes = bytes.ok_or(damaged(0))?;
            status.outcome?;
            let mut words = bytes.chunks_exact(8);
            let mut next = || {
                let bytes = words.next().unwrap_or_default();
                bytes.iter().rev().fold(0_u64, |word, &byte| word << 8 | u64::from(byte))
            };
            let [marks, generation, id, choice] = [next(), next(), next(), next()];
            if choice != self.merged[3] {
                self.merged[0] |= DIFFERENT;
            }
            self.merged[0] |= marks;
            self.merged[1] = self.merged[1].max(generation);
            self.merged[2] = self.merged[2].max(id);
            self.missing -= 1;
        }
        Ok(())
    }

    fn open(&self) -> Result<Communicator, MpiError> {
        let [marks, generation, id, _] = self.merged;
        let wanted = self.wanted.clone()?;
        if marks & DIFFERENT != 0 {
            return Err(MpiError::ChoicesDiffer);
        }
        let context = u32::try_from(id).ok();
        let mut contexts = self.process.contexts.borrow_mut();
        let context = context.filter(|&id| contexts.may_be_named(id));
        let context = context.ok_or(MpiError::TooManyCommunicators)?;
        let generation = contexts.next_after(generation as u32);
        drop(contexts);
        let oversubscribed = marks & OVERSUBSCRIBED != 0;
        let agreed = Agreed { context, generation, oversubscribed };
        let made = CommInner::open(&self.process, self.group.clone(), agreed)?;
        made.take_algorithms(wanted);
        made.inherit_topology(self.topology.as_ref());
        Ok(made)
    }
}

impl Drop for Duplication {
    fn drop(&mut self) {
        self.arriving.drain(..).for_each(|id| self.process.worker.detach(id));
        self.process.contexts.borrow_mut().end(self.generation);
    }
}
