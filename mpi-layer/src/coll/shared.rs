//! Barrier and small reductions of ranks that share memory and processors: one counter, one
//! result, no messages.
//!
//! Where ranks share processors, a collective costs as many switches of a processor as ranks must
//! have one after the other. So each rank writes its contribution into a place of its own and
//! counts itself; the last to arrive combines all contributions, in order of rank, and publishes
//! the result. A rank needs a processor once. The last one's part must be short: the scheduler is fair, so
//! that whatever one rank does more than the others in its time slice, all others are given as well,
//! and waste by yielding. Hence small contributions lie side by side, and sleepers are counted.
//!
//! The words in the memory, and what is done against stray writes to them, are the business of
//! [`bowline_base::barrier`]; here is the waiting. Rules. (1) A rank that wants to sleep announces it,
//! posts a receive of an empty message, and checks the memory again. The rank that takes the announcement
//! back decides: the last rank, which then sends that message, or the sleeper itself, to which none
//! comes. (2) A sleeper checks everything once in [`CHECK_PERIOD`], and a rank that yields for long
//! once in [`CHECK_EVERY`] checks: the message makes a wake-up fast, and nothing depends on it. (3) Who
//! finds damage lets all know, wakes those that sleep, and uses the memory never again: every
//! barrier and small reduction of this communicator is an error from then on. (4) A dead member's
//! arrival may be missing for ever, so nobody counts itself in once it knows of a death, and
//! sleepers learn of it as every receive of a collective does.
//!
//! The memory is rank 0's, reached by its key through ucp; ranks on other nodes make the
//! communicator go on by messages.

mod cells;
mod offer;
pub(crate) mod staged;
pub(crate) mod transfers;
mod wait;

use bowline_base::barrier::{BarrierMember, BarrierOutcome, BarrierPart, StrayWrite};
pub(crate) use bowline_base::barrier::{MAX_BYTES, bytes};
use bowline_base::buffer::SendBuf;
use bowline_base::words::ViewWords;
use bowline_ucp::{Envelope, SendMode, Sent};

use crate::comm::{CommInner, Communicator};
use crate::error::MpiError;
use crate::op::operands::{Combine, Operands};
use crate::shared_memory::{Home, Shared};
use crate::tags;

const WORD: usize = 8;

// Prices know how long vectors in lines are.
const _: () = assert!(MAX_BYTES == bowline_model::coll::price::LINE_BYTES);

/// Bytes of contributions that the last rank copies out at once.
const BATCH: usize = 512;

/// Why a collective ends without a result.
enum Broken {
    /// The memory is damaged, which the others have to know.
    Memory(StrayWrite),
    /// Another rank's call has this length; whatever it is, all go on behind so many steps, if all know.
    Unequal {
        other: usize,
        steps: Option<usize>,
    },
    Other(MpiError),
}

impl From<StrayWrite> for Broken {
    fn from(damaged: StrayWrite) -> Self {
        Self::Memory(damaged)
    }
}

impl From<MpiError> for Broken {
    fn from(error: MpiError) -> Self {
        Self::Other(error)
    }
}

impl Shared {
    /// Does a step of the member in the memory.
    fn step<R>(
        &self,
        comm: &CommInner,
        act: impl FnOnce(&mut BarrierMember, &ViewWords<'_>) -> R,
    ) -> Result<R, MpiError> {
        self.home.with(&comm.process.worker, bytes(comm.size), |view| {
            let memory = ViewWords::new(view).expect("memory that starts on a line was opened");
            let mut member = self.member.get();
            let done = act(&mut member, &memory);
            self.member.set(member);
            done
        })
    }

    /// Contributes `input`, waits for everybody, and takes the result into `output`, which is as
    /// long. Both are empty for a barrier, which has nothing to combine.
    pub(crate) fn run(
        &self,
        comm: &CommInner,
        input: &[u8],
        output: &mut [u8],
        combine: Option<Combine<'_>>,
    ) -> Result<(), MpiError> {
        let worker = &comm.process.worker;
        let sequence = comm.next_sequence();
        // Rule 4.
        worker.check(&comm.collective_spec(sequence))?;
        // Rule 3.
        if self.damaged.get() {
            return Err(MpiError::MemoryOverwritten);
        }
        match self.attempt(comm, sequence, input, output, combine) {
            Ok(()) => Ok(()),
            Err(Broken::Other(error)) => Err(error),
            Err(Broken::Unequal { other, .. }) => Err(unequal(output.len(), other)),
            Err(Broken::Memory(damaged)) => Err(self.give_up(comm, sequence, damaged)),
        }
    }

    fn attempt(
        &self,
        comm: &CommInner,
        sequence: u32,
        input: &[u8],
        output: &mut [u8],
        combine: Option<Combine<'_>>,
    ) -> Result<(), Broken> {
        match self.step(comm, |member, memory| member.enter(memory, input))?? {
            BarrierPart::Last => self.finish(comm, sequence, output, combine),
            BarrierPart::Waits => {
                self.wait(comm, sequence)?;
                let mut out = [0; MAX_BYTES];
                match self.step(comm, |member, memory| member.take(memory, &mut out))?? {
                    BarrierOutcome::Result(len) if len == output.len() => {
                        output.copy_from_slice(&out[..len]);
                        Ok(())
                    }
                    BarrierOutcome::Result(len) => Err(unequal(output.len(), len).into()),
                    BarrierOutcome::Unequal(least, most) => {
                        Err(unequal_of(output.len(), least, most).into())
                    }
                }
            }
        }
    }

    /// The last rank's part.
    fn finish(
        &self,
        comm: &CommInner,
        sequence: u32,
        output: &mut [u8],
        combine: Option<Combine<'_>>,
    ) -> Result<(), Broken> {
        let (least, most) = self.step(comm, |member, memory| member.lengths(memory))??;
        let agree = least == most;
        if agree && let Some(combine) = combine.filter(|_| !output.is_empty()) {
            self.combine(comm, output, combine)?;
        }
        let sleepers = self.step(comm, |member, memory| {
            let some_sleep = match agree {
                true => member.publish(memory, output),
                false => member.publish_unequal(memory, least, most),
            };
            if some_sleep { sleepers(comm, member, memory) } else { Vec::new() }
        })?;
        wake(comm, tags::collective(comm.generation, sequence), sleepers);
        match agree {
            true => Ok(()),
            false => Err(unequal_of(output.len(), least, most).into()),
        }
    }

    /// Combines all contributions into `output`, in order of rank.
    fn combine(
        &self,
        comm: &CommInner,
        output: &mut [u8],
        combine: Combine<'_>,
    ) -> Result<(), Broken> {
        let len = output.len();
        let stride = len.next_multiple_of(WORD);
        // A row's length is a multiple of its type's alignment, so that in lines all are aligned.
        let mut batch = bowline_base::sync::CacheLine([0; BATCH]);
        let mut behind = comm.size;
        while behind > 0 {
            let first = behind.saturating_sub((BATCH / stride) as u32);
            let rows = &mut batch[..(behind - first) as usize * stride];
            // Copied out first: the operation is the user's code, which may call back in.
            self.step(comm, |member, memory| member.inputs(memory, first, len, rows))??;
            let mut lefts = rows.chunks_exact(stride).rev().map(|row| &row[..len]);
            if behind == comm.size {
                output.copy_from_slice(lefts.next().expect("a communicator has a rank"));
            }
            for left in lefts {
                combine(Operands::of(left, output));
            }
            behind = first;
        }
        Ok(())
    }

    /// Waits for the end of the round.
    fn wait(&self, comm: &CommInner, sequence: u32) -> Result<(), Broken> {
        wait::wait(comm, tags::collective(comm.generation, sequence), &Round { shared: self, comm })
    }

    /// Rule 3.
    #[cold]
    fn give_up(&self, comm: &CommInner, sequence: u32, damaged: StrayWrite) -> MpiError {
        tracing::error!(%damaged, "the shared memory of a communicator is of no further use");
        self.damaged.set(true);
        let sleepers = self.step(comm, |member, memory| {
            member.fail(memory);
            sleepers(comm, member, memory)
        });
        // Who cannot be woken by a message finds it at its next check.
        let tag = tags::collective(comm.generation, sequence);
        wake(comm, tag, sleepers.unwrap_or_default());
        MpiError::MemoryOverwritten
    }
}

/// The round that is under way.
struct Round<'a> {
    shared: &'a Shared,
    comm: &'a CommInner,
}

impl wait::Awaited for Round<'_> {
    fn is_over(&self) -> bool {
        self.shared.step(self.comm, |member, memory| member.has_ended(memory)).unwrap_or(true)
    }

    fn poll(&self) -> Result<bool, Broken> {
        Ok(self.shared.step(self.comm, |member, memory| member.poll(memory))??)
    }

    fn announce(&self) -> Result<(), MpiError> {
        self.shared.step(self.comm, |member, memory| member.announce_sleep(memory))
    }

    fn withdraw(&self) -> Result<bool, MpiError> {
        self.shared.step(self.comm, |member, memory| member.withdraw_sleep(memory))
    }
}

/// The sleepers that the caller has to wake.
fn sleepers(comm: &CommInner, member: &BarrierMember, memory: &ViewWords<'_>) -> Vec<u32> {
    (0..comm.size).filter(|&rank| member.wakes(memory, rank)).collect()
}

/// Rule 1: sends the message that ends a sleep. Where it cannot be sent, nothing is lost (rule 2): a
/// sleeper that was not woken for long has checked by itself, and may have left the job since.
fn wake(comm: &CommInner, tag: u64, sleepers: Vec<u32>) {
    let worker = &comm.process.worker;
    for rank in sleepers {
        let envelope = Envelope { space: comm.collective_space(), source: comm.rank, tag };
        let sent = comm
            .try_endpoint(rank)
            .and_then(|ep| Ok(worker.send(ep, envelope, SendBuf::empty(), SendMode::Standard)?));
        match sent {
            Ok(Sent::Done) => {}
            Ok(Sent::Pending(id)) => worker.detach(id),
            Err(error) => tracing::debug!(rank, "a sleeper is not woken: {error}"),
        }
    }
}

/// A rank that contributes `own` bytes, where one does that contributes `other`.
const fn unequal(own: usize, other: usize) -> MpiError {
    MpiError::CountMismatch { expected: own as u64, got: other as u64 }
}

fn unequal_of(own: usize, least: u8, most: u8) -> MpiError {
    let (least, most) = (usize::from(least), usize::from(most));
    unequal(own, if own == least { most } else { least })
}

impl Communicator {
    /// The shared memory of this communicator, if its ranks share some. Made at the first call that chooses it, which
    /// is collective.
    #[inline]
    pub(crate) fn shared(&self) -> Result<Option<&Shared>, MpiError> {
        match self.inner.shared.get() {
            Some(shared) => Ok(shared.as_deref()),
            None => self.make_shared(),
        }
    }

    #[cold]
    fn make_shared(&self) -> Result<Option<&Shared>, MpiError> {
        let made = self.agree_on_shared()?.map(Box::new);
        Ok(self.inner.shared.get_or_init(|| made).as_deref())
    }

    fn agree_on_shared(&self) -> Result<Option<Shared>, MpiError> {
        let home = self.agree_on_memory(bytes(self.inner.size))?;
        Ok(home.map(|home| Shared::new(home, self.inner.rank, self.inner.size)))
    }

    /// Rank 0 makes memory of `len` bytes and sends its key; it is used if every rank could open it.
    fn agree_on_memory(&self, len: usize) -> Result<Option<Home>, MpiError> {
        let inner = &*self.inner;
        let worker = &inner.process.worker;
        // One node: the greatest id is the smallest as well.
        let node = inner.process.node_id;
        let mut ids = [node, !node];
        self.agree_in_place(&mut ids, &crate::Max, false)?;
        if ids[0] != !ids[1] {
            return Ok(None);
        }
        let mut offer = [0u8; offer::BYTES];
        let mut own = None;
        if inner.rank == 0 {
            own = offer::make(worker, len, &mut offer);
        }
        // The others have only zeros.
        self.agree_in_place(&mut offer, &crate::Max, false)?;
        let home = match own {
            Some(memory) => Some(Home::Own(memory)),
            None if inner.rank == 0 => None,
            None => offer::open(worker, inner.endpoint(0)?, &offer, len),
        };
        let mut able = [i32::from(home.is_some())];
        self.agree_in_place(&mut able, &crate::Min, false)?;
        if able == [1] {
            return Ok(home);
        }
        if let Some(home) = home {
            home.release(worker);
        }
        Ok(None)
    }

    /// Changes the word at `offset` of the shared memory, as a stray write of this process would;
    /// whether there is one. For tests.
    #[doc(hidden)]
    pub fn overwrite_shared(&self, offset: usize, change: impl FnOnce(u64) -> u64) -> bool {
        let Some(Some(shared)) = self.inner.shared.get() else { return false };
        let worker = &self.inner.process.worker;
        shared.home.overwrite(worker, offset, change)
    }
}

/// What reads the offers of peers: for fuzzing only.
#[cfg(any(test, fuzzing))]
pub mod fuzz {
    use bowline_ucp::{Ep, MemoryHandle, Worker};

    use super::{bytes, offer};

    /// Bytes of an offer.
    pub const OFFER: usize = offer::BYTES;

    /// What rank 0 offers to `ranks` ranks, and its memory.
    pub fn make(worker: &Worker, ranks: u32) -> Option<(MemoryHandle, [u8; OFFER])> {
        let mut made = [0; OFFER];
        offer::make(worker, bytes(ranks), &mut made).map(|memory| (memory, made))
    }

    /// Takes an offer of `root`, and gives back what it opens; whether it opens anything.
    pub fn take(worker: &Worker, root: Ep, offer: &[u8; OFFER], ranks: u32) -> bool {
        let home = offer::open(worker, root, offer, bytes(ranks));
        home.map(|home| home.release(worker)).is_some()
    }
}
