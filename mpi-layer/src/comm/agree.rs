//! How processes agree on what a new communicator is known by.
//!
//! Members of a communicator do it by a reduction over it. Processes that make one among themselves,
//! while others of their communicator do something else or where there is none, do it by messages of
//! the *process space*: it has the ranks of the world, and is no communicator's. What keeps two such
//! agreements apart is a key, which says what is made by whom.

use std::hash::{DefaultHasher, Hash, Hasher};

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_ucp::{Envelope, MatchSpec, OpError, RequestId, SendMode, Sent};

use super::Communicator;
use crate::context::{Agreed, ContextIds, Member, Merge, Offer};
use crate::error::MpiError;
use crate::group::Group;
use crate::handles;
use crate::process::Process;
use crate::unwinding::without_unwinding;

/// The space of messages between processes, whatever communicators they are in.
pub(crate) const PROCESS_SPACE: u32 = 1;

impl Communicator {
    /// Agrees with the other members on a context for a new communicator, whose algorithms are chosen by what has
    /// this hash.
    pub(crate) fn agree(&self, choice: u64) -> Result<Agreed, MpiError> {
        self.agree_after(choice, false)
    }

    /// Compares what the ranks of the world choose algorithms by, before the first communicator is made of it by other
    /// collectives. Nobody has compared that before: each rank had it from the code that started it. The algorithm
    /// depends on nothing that ranks may see differently, so that a difference is an error at all of them and no deadlock.
    pub(crate) fn compare_choices(&self) -> Result<(), MpiError> {
        let process = &self.inner.process;
        if process.chooses_as_others.get() || !self.inner.is_world() {
            return Ok(());
        }
        let (choice, shares) = (process.collectives.hash(), u64::from(self.inner.oversubscribed));
        // Where all have one number, the greatest is the least as well.
        let mut all = [choice, !choice, shares, !shares];
        self.agree_by_messages(&mut all, &crate::Max)?;
        if all[0] != !all[1] || all[2] != !all[3] {
            return Err(MpiError::ChoicesDiffer);
        }
        process.chooses_as_others.set(true);
        Ok(())
    }

    /// [`agree`](Self::agree) after a part of the call that may have failed here. All others wait for this member,
    /// so it takes part in either case; where one gives up, that is an error at every member.
    pub(super) fn agree_after(&self, choice: u64, gives_up: bool) -> Result<Agreed, MpiError> {
        self.compare_choices()?;
        let own = Member { oversubscribed: self.inner.oversubscribed, choice, gives_up };
        ContextIds::agree(&self.inner.process.contexts, own, |offer| {
            let mut merged = [offer];
            self.agree_in_place(&mut merged, &Merge, true)?;
            Ok(merged[0])
        })
    }

    /// Finds whether all members choose algorithms by what has this hash.
    pub(crate) fn agree_on_choice(&self, choice: u64) -> Result<(), MpiError> {
        self.compare_choices()?;
        // As above.
        let mut hashes = [choice, !choice];
        self.agree_in_place(&mut hashes, &crate::Max, true)?;
        if hashes[0] == !hashes[1] { Ok(()) } else { Err(MpiError::ChoicesDiffer) }
    }
}

/// Agrees with the members of a group, this process among them, on a context. They all give the same
/// words for what they make.
pub(super) fn agree_among(
    process: &Process,
    group: &Group,
    what: &impl Hash,
    oversubscribed: bool,
) -> Result<Agreed, MpiError> {
    let tag = key(group, what);
    let own = group.position(process.world_rank).expect("the caller is in the group");
    let choice = process.collectives.hash();
    let member = Member { oversubscribed, choice, gives_up: false };
    ContextIds::agree(&process.contexts, member, |offer| spread(process, group, own, tag, offer))
}

/// The tag of what a group makes.
fn key(group: &Group, what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    group.size().hash(&mut hasher);
    group.world_ranks().for_each(|rank| rank.hash(&mut hasher));
    hasher.finish()
}

/// Merges the offers of all members: in round `k` each gives what it knows to the member `2^k` after
/// it. Since to merge twice changes nothing, any number of members will do.
fn spread(
    process: &Process,
    group: &Group,
    own: u32,
    tag: u64,
    offer: Offer,
) -> Result<Offer, MpiError> {
    let (size, mut known) = (u64::from(group.size()), offer);
    let mut distance = 1;
    while distance < size {
        let own = u64::from(own);
        let at = |position: u64| {
            let rank = group.world_rank((position % size) as u32);
            rank.expect("the position is below the size")
        };
        let (to, from) = (at(own + distance), at(own + size - distance));
        let got = swap(process, group, (to, from), tag, &known)?;
        Merge::merge(&got, &mut known);
        distance *= 2;
    }
    Ok(known)
}

/// Sends to one process and receives from another one.
fn swap(
    process: &Process,
    group: &Group,
    (to, from): (u32, u32),
    tag: u64,
    known: &Offer,
) -> Result<Offer, MpiError> {
    let worker = &process.worker;
    let ep = process.endpoint(to)?;
    let envelope = Envelope { space: PROCESS_SPACE, source: process.world_rank, tag };
    let spec = MatchSpec { space: PROCESS_SPACE, source: Some(from), tag, tag_mask: u64::MAX };
    let mut bytes = [0_u8; size_of::<Offer>()];
    let out: Vec<u8> = known.iter().flat_map(|word| word.to_le_bytes()).collect();
    let complete = |id| worker.is_complete(id);
    // A member that has died gives up, and so does each that would wait for what it does not send then.
    let dead = || worker.failures().into_iter().find_map(|rank| group.position(rank));
    let end = |id: RequestId| {
        process.wait_until(|| complete(id) || dead().is_some());
        if !complete(id) {
            worker.cancel(id);
        }
        handles::complete(process, id)
    };
    let (received, sent) = without_unwinding(|| {
        // SAFETY: `bytes` outlives the operation: no way out of this block leads past its end, and
        // nothing unwinds out of it.
        let into = unsafe { RecvBuf::borrowed(bytes.as_mut_ptr(), bytes.len()) };
        // SAFETY: the same holds for `out`, which nobody writes.
        let from = unsafe { SendBuf::borrowed(out.as_ptr(), out.len()) };
        let received = worker.recv_awaited(spec, into);
        let sent = match worker.send(ep, envelope, from, SendMode::Standard) {
            Ok(Sent::Done) => Ok(()),
            Ok(Sent::Pending(id)) => end(id).outcome,
            Err(error) => Err(error),
        };
        let received = received.and_then(|id| {
            let status = end(id);
            status.outcome.map(|()| status.length)
        });
        (received, sent)
    });
    let failed = |error: OpError| match (error, dead()) {
        (OpError::Cancelled, Some(rank)) => MpiError::MemberFailed { rank },
        (error, _) => error.into(),
    };
    sent.map_err(failed)?;
    let length = received.map_err(failed)?;
    if length != bytes.len() as u64 {
        return Err(MpiError::CountMismatch { expected: bytes.len() as u64, got: length });
    }
    let mut got = *known;
    for (word, bytes) in got.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    }
    Ok(got)
}
