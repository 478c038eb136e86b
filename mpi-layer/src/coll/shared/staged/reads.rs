//! All-to-alls of long blocks, which stay where they are: each rank reads what it wants from the memory of the others.
//!
//! The system copies it (cross memory attach), so that a byte is copied once, not into a slot and out of it. Each rank
//! states where its blocks begin, in the cell of the call, and all wait at the end until nobody reads any more.
//!
//! Rules. (1) Reads are used only when each rank can read the memory of each other one. That is found out after
//! the first call that is long enough: each rank reads a word of every other one, and they agree. That call,
//! and all others where the system forbids such reads or where ranks are threads, go through slots. (2) A call that
//! reads has one step, which a rank finishes when it has read all that it wants. It returns when all others have finished
//! the step, too: only then may its own data change. (3) An address is the word of another rank. The system
//! checks it, so a wrong one is an error, which ends the use of the memory at all ranks. (4) A rank that fails because
//! another one has died may leave while others read its memory. What they read then is worth nothing, but they
//! wait for the dead rank and fail as well.

use bowline_base::buffer::RecvBuf;
use bowline_base::staging::StagingProgress;
use bowline_model::coll::blocks::{Blocks, Even};
use bowline_model::coll::plan::{Space, Span};
use bowline_model::coll::price::Staged;
use bowline_ucp::{OpError, Sent};

use super::{Passage, Sources, StrayWrite};
use crate::coll::arena::Buffers;
use crate::coll::shared::Broken;
use crate::comm::{CommInner, Communicator};
use crate::datatype::{bytes_of, bytes_of_mut};
use crate::error::MpiError;
use crate::shared_memory::{Reads, Staging};

/// What a rank reads of each other one to find out whether it can, beside their numbers.
const WORD: u64 = 0x626f_776c_696e_6500;

/// Bytes of an address in a cell.
const ADDRESS: usize = size_of::<u64>();

impl Reads {
    /// Reads from `address` in the memory of `rank`.
    fn read(
        &self,
        comm: &CommInner,
        rank: u32,
        address: u64,
        out: &mut [u8],
    ) -> Result<(), OpError> {
        let key = self.keys[rank as usize].ok_or(OpError::Unsupported)?;
        // SAFETY: the bytes are borrowed until the operation has ended, which is waited for.
        let buffer = unsafe { RecvBuf::borrowed(out.as_mut_ptr(), out.len()) };
        match comm.process.worker.get(key, address, buffer)? {
            Sent::Done => Ok(()),
            Sent::Pending(id) => comm.process.wait(id).outcome,
        }
    }
}

impl Communicator {
    /// Rule 1: behind an all-to-all of blocks of `bytes`, finds out whether ranks can read each other's memory, if they
    /// would have and that is not known. Collective.
    #[inline]
    pub(crate) fn find_reads(&self, staging: &Staging, bytes: usize) -> Result<(), MpiError> {
        if Staged::Alltoall.reads(self.inner.size, bytes) && staging.reads.get().is_none() {
            let reads = self.make_reads(staging)?;
            staging.reads.set(reads).expect("it was not known");
        }
        Ok(())
    }

    #[cold]
    fn make_reads(&self, staging: &Staging) -> Result<Reads, MpiError> {
        let inner = &*self.inner;
        let worker = &inner.process.worker;
        let word = Box::new(WORD | u64::from(inner.rank));
        let own = [(&raw const *word).expose_provenance() as u64];
        let mut addresses = vec![0_u64; inner.size as usize];
        addresses[inner.rank as usize] = own[0];
        let blocks = Even { space: Space::Output, len: ADDRESS };
        let mut buffers = Buffers::of(bytes_of(&own), bytes_of_mut(&mut addresses));
        staging.gather(inner, &mut buffers, Span::input(ADDRESS), &blocks, None)?;
        let open = |rank| worker.rkey_of_process(inner.endpoint(rank).ok()?).ok();
        let keys = (0..inner.size).map(|rank| if rank == inner.rank { None } else { open(rank) });
        let mut reads = Reads { keys: keys.collect() };
        let can_read = |rank: u32| {
            let mut found = [0_u64];
            let outcome =
                reads.read(inner, rank, addresses[rank as usize], bytes_of_mut(&mut found));
            outcome.is_ok() && found[0] == WORD | u64::from(rank)
        };
        let able = (0..inner.size).all(|rank| rank == inner.rank || can_read(rank));
        let mut able = [i32::from(able)];
        // All have read the word when this ends.
        self.agree_in_place(&mut able, &crate::Min, false)?;
        drop(word);
        if able != [1] {
            tracing::debug!("ranks cannot read each other's memory; long collectives use slots");
            reads.release(worker);
            reads.keys.clear();
        }
        Ok(reads)
    }
}

/// Brings each rank its block of each other one; the own one is in its place.
pub(in super::super) fn alltoall(
    passage: &mut Passage<'_>,
    buffers: &mut Buffers<'_>,
    reads: &Reads,
    from: &impl Blocks,
    into: &impl Blocks,
) -> Result<(), Broken> {
    let (rank, ranks) = (passage.comm.rank, passage.comm.size);
    let start = buffers.bytes(from.span(0)).as_ptr().expose_provenance() as u64;
    passage.state(|cell| cell.put(0, &start.to_ne_bytes()))?;
    passage.compare(Sources::AllAlike)?;
    // All have blocks of one length, at the same places.
    let place = (from.span(rank).at - from.span(0).at) as u64;
    for source in (1..ranks).map(|distance| (rank + ranks - distance) % ranks) {
        let mut start = [0; ADDRESS];
        passage.cells(|cell| cell.get(source, 0, &mut start));
        let address = u64::from_ne_bytes(start).wrapping_add(place);
        let out = buffers.bytes_mut(into.span(source));
        match reads.read(passage.comm, source, address, out) {
            Ok(()) => {}
            Err(error @ (OpError::PeerFailed(_) | OpError::MemberFailed { .. })) => {
                return Err(MpiError::from(error).into());
            }
            Err(_) => {
                // Rule 4: the data of a rank that knows of a death may be gone.
                let worker = &passage.comm.process.worker;
                worker.check(&passage.comm.collective_spec(0)).map_err(MpiError::from)?;
                // Rule 3.
                return Err(StrayWrite::data().into());
            }
        }
    }
    passage.close()
}

impl Passage<'_> {
    /// Rule 2: returns when all have finished the only step of this part.
    fn close(&mut self) -> Result<(), Broken> {
        self.finish(1, &mut 0);
        for other in (0..self.comm.size).filter(|&other| other != self.comm.rank) {
            self.wait(StagingProgress::Finished(other, self.first))?;
        }
        self.first += 1;
        Ok(())
    }
}
