//! Barrier and small reductions of ranks that share memory and processors: one counter, one
//! result, no messages.
//!
//! Where ranks share processors, a collective costs as many turns on a processor as ranks must
//! have one after the other. So each rank writes its contribution into a place of its own and
//! counts itself; the last to arrive combines all contributions, in order of rank, and publishes
//! the result. A rank needs one turn. The last one's part must be short: the scheduler is fair, so
//! that whatever one rank does more than the others in its turn, all others are given as well,
//! and waste by yielding. Hence small contributions lie side by side, and sleepers are counted.
//!
//! ```text
//!   line 0        word 0: ranks that have arrived; word 1: ranks that sleep, or mean to
//!   line 1        collectives finished so far: the generation
//!   line 2        the result of the last one
//!   then          a word for each rank: whether it sleeps
//!   then          contributions in order of rank, in whole words, without gaps
//! ```
//! Rules: (1) a rank writes its contribution before it counts itself (release of the addition),
//! and the last one reads all of them after its own addition (acquire). (2) The last one writes
//! the result and clears the counter before it stores the generation (release); who sees the new
//! generation (acquire) sees both. (3) Nobody contributes to the next collective before it has
//! read the result of this one, so nothing is overwritten while it is read. (4) A rank that wants
//! to sleep sets its flag, counts itself as a sleeper, looks at the generation again, and then
//! waits for an empty message. Whoever swaps the flag back decides, and takes the sleeper out of
//! the count: the last rank, which then sends that message, or the sleeper itself, to which none
//! comes. The last rank looks at the flags only if sleepers are counted. (5) A dead member's
//! arrival may be missing for ever, so nobody counts itself in once it knows of a death, and
//! sleepers learn of it as every receive of a collective does.
//!
//! The memory is rank 0's, reached by its key through ucp; ranks on other nodes make the
//! communicator go on by messages.

use bowline_base::buffer::SendBuf;
use bowline_base::sync::atomic::{AtomicU64, Ordering, fence};
use bowline_base::view::View;
use bowline_ucp::{Envelope, Ep, Memory, RemoteKey, RmaError, SendMode, Sent, Worker};

use super::engine::Combine;
use super::plan::Span;
use crate::comm::{CommInner, Communicator};
use crate::datatype::Datatype;
use crate::error::MpiError;
use crate::op::Operation;
use crate::tags;

const LINE: usize = 64;
const WORD: usize = 8;
const ARRIVED: usize = 0;
const SLEEPERS: usize = WORD;
const GENERATION: usize = LINE;
const RESULT: usize = 2 * LINE;
const FLAGS: usize = 3 * LINE;

/// Longest contribution, in bytes.
pub(crate) const MAX_BYTES: usize = LINE - WORD;

/// Bytes of memory for a communicator of `ranks`.
pub(crate) const fn bytes(ranks: u32) -> usize {
    contribution(ranks, ranks, MAX_BYTES)
}

/// Where the flag of `rank` is.
const fn flag(rank: u32) -> usize {
    FLAGS + rank as usize * WORD
}

/// Where the contribution of `rank`, one of `ranks`, is when all are `len` bytes long.
const fn contribution(ranks: u32, rank: u32, len: usize) -> usize {
    let start = (flag(ranks)).next_multiple_of(LINE);
    start + rank as usize * len.next_multiple_of(WORD)
}

/// Bytes of contributions that the last rank copies out at once.
const BATCH: usize = 8 * LINE;

/// How this rank reaches the memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Home {
    /// It is this rank's.
    Own(Memory),
    /// It is rank 0's, at this address.
    Peer(RemoteKey, u64),
}

/// The shared memory of a communicator, as one rank sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared {
    pub(crate) home: Home,
}

/// The word at `offset` of memory that is as long as the protocol says.
fn word(view: View<'_>, offset: usize) -> &AtomicU64 {
    view.word(offset).expect("the memory holds a place for each rank and is aligned to lines")
}

fn piece(view: View<'_>, offset: usize, len: usize) -> View<'_> {
    view.slice(offset, len).expect("the memory holds a place for each rank")
}

impl Shared {
    fn with<R>(
        &self,
        worker: &Worker,
        ranks: u32,
        act: impl FnOnce(View<'_>) -> R,
    ) -> Result<R, MpiError> {
        let done = match self.home {
            Home::Own(memory) => worker.mem_view(memory, act),
            Home::Peer(key, address) => worker.remote_view(key, address, bytes(ranks), act),
        };
        done.map_err(|error| {
            // The key stays open as long as the communicator does.
            tracing::error!(%error, "the shared memory of a communicator is gone");
            MpiError::Protocol(bowline_ucp::OpError::BadRemote)
        })
    }

    /// Gives the memory, or the key, back.
    pub(crate) fn release(&self, worker: &Worker) {
        match self.home {
            Home::Own(memory) => drop(worker.mem_release(memory)),
            Home::Peer(key, _) => worker.rkey_release(key),
        }
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
        // Rule 5.
        worker.check(&comm.collective_spec(sequence))?;
        let own = contribution(comm.size, comm.rank, input.len());
        let (before, last) = self.with(worker, comm.size, |view| {
            // Relaxed: it cannot change before this rank has arrived.
            let before = word(view, GENERATION).load(Ordering::Relaxed);
            piece(view, own, input.len()).copy_in(input);
            // Rule 1: pairs with the same addition of the other ranks.
            let arrived = word(view, ARRIVED).fetch_add(1, Ordering::AcqRel) + 1;
            (before, arrived == u64::from(comm.size))
        })?;
        if last {
            self.finish(comm, sequence, before, output, combine)
        } else {
            self.wait(comm, sequence, before)?;
            self.with(worker, comm.size, |view| {
                piece(view, RESULT, output.len()).copy_out(output);
            })
        }
    }

    /// The last rank's part.
    fn finish(
        &self,
        comm: &CommInner,
        sequence: u32,
        before: u64,
        output: &mut [u8],
        combine: Option<Combine<'_>>,
    ) -> Result<(), MpiError> {
        let worker = &comm.process.worker;
        let len = output.len();
        if let Some(combine) = combine.filter(|_| len > 0) {
            self.combine(comm, output, combine)?;
        }
        let sleepers = self.with(worker, comm.size, |view| {
            piece(view, RESULT, len).copy_in(output);
            // Relaxed: published by the generation.
            word(view, ARRIVED).store(0, Ordering::Relaxed);
            // Rule 2: pairs with the loads of the waiting ranks.
            word(view, GENERATION).store(before.wrapping_add(1), Ordering::Release);
            // Rule 4: pairs with the fence of a rank that is about to sleep.
            fence(Ordering::SeqCst);
            // Relaxed: the fence orders it.
            if word(view, SLEEPERS).load(Ordering::Relaxed) == 0 {
                return Vec::new();
            }
            let asleep = (0..comm.size).filter(|&rank| wakes(view, rank));
            asleep.collect::<Vec<u32>>()
        })?;
        for rank in sleepers {
            let space = comm.collective_space();
            let tag = tags::collective(comm.generation, sequence);
            let envelope = Envelope { space, source: comm.rank, tag };
            let ep = comm.endpoint(rank)?;
            match worker.send(ep, envelope, SendBuf::empty(), SendMode::Standard)? {
                Sent::Done => {}
                Sent::Pending(id) => worker.detach(id),
            }
        }
        Ok(())
    }

    /// Combines all contributions into `output`, in order of rank.
    fn combine(
        &self,
        comm: &CommInner,
        output: &mut [u8],
        combine: Combine<'_>,
    ) -> Result<(), MpiError> {
        let len = output.len();
        let stride = len.next_multiple_of(WORD);
        // A row's length is a multiple of its type's alignment, so that in lines all are aligned.
        let mut batch = bowline_base::sync::Line([0; BATCH]);
        let mut behind = comm.size;
        while behind > 0 {
            let first = behind.saturating_sub((BATCH / stride) as u32);
            let rows = &mut batch[..(behind - first) as usize * stride];
            // Copied out first: the operation is the user's code, which may call back in.
            self.with(&comm.process.worker, comm.size, |view| {
                let start = contribution(comm.size, first, len);
                piece(view, start, rows.len()).copy_out(rows);
            })?;
            let mut lefts = rows.chunks_exact(stride).rev().map(|row| &row[..len]);
            if behind == comm.size {
                output.copy_from_slice(lefts.next().expect("a communicator has a rank"));
            }
            for left in lefts {
                combine(left, output);
            }
            behind = first;
        }
        Ok(())
    }

    /// Waits for the generation after `before`.
    fn wait(&self, comm: &CommInner, sequence: u32, before: u64) -> Result<(), MpiError> {
        let worker = &comm.process.worker;
        let arrived = |view: View<'_>| {
            // Rule 2: pairs with the store of the last rank.
            word(view, GENERATION).load(Ordering::Acquire) != before
        };
        let looks = || self.with(worker, comm.size, arrived).unwrap_or(true);
        if worker.yield_until(looks) {
            return Ok(());
        }
        let awake = self.with(worker, comm.size, |view| {
            // Relaxed, both: ordered by the fence.
            word(view, flag(comm.rank)).store(1, Ordering::Relaxed);
            word(view, SLEEPERS).fetch_add(1, Ordering::Relaxed);
            // Rule 4: pairs with the fence of the last rank.
            fence(Ordering::SeqCst);
            arrived(view) && wakes(view, comm.rank)
        })?;
        if awake {
            return Ok(());
        }
        let spec = comm.collective_spec(sequence);
        worker.recv_blocking(spec, bowline_base::buffer::RecvBuf::empty())?;
        Ok(())
    }
}

/// Rule 4: takes `rank`, if it sleeps, out of the sleepers; whether the caller was the one to do so.
fn wakes(view: View<'_>, rank: u32) -> bool {
    let flag = word(view, flag(rank));
    // Relaxed: the fences order what must be; the swap alone decides.
    let first = flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::Relaxed) != 0;
    if first {
        // Relaxed: a count that publishes nothing.
        word(view, SLEEPERS).fetch_sub(1, Ordering::Relaxed);
    }
    first
}

impl Communicator {
    /// The shared memory of this communicator, where its ranks share memory and processors. Made
    /// at the first call, which is collective.
    #[inline]
    pub(crate) fn shared(&self) -> Result<Option<&Shared>, MpiError> {
        if !self.shape().shares_memory() {
            return Ok(None);
        }
        match self.inner.shared.get() {
            Some(shared) => Ok(shared.as_ref()),
            None => self.make_shared(),
        }
    }

    #[cold]
    fn make_shared(&self) -> Result<Option<&Shared>, MpiError> {
        let made = self.agree_on_shared()?;
        Ok(self.inner.shared.get_or_init(|| made).as_ref())
    }

    /// Rank 0 makes the memory and tells its key; it is used if every rank could open it.
    fn agree_on_shared(&self) -> Result<Option<Shared>, MpiError> {
        let inner = &*self.inner;
        let worker = &inner.process.worker;
        // One node: the greatest id is the smallest as well.
        let node = inner.process.node_id;
        let mut ids = [node, !node];
        self.everybody(&mut ids, &crate::Max)?;
        if ids[0] != !ids[1] {
            return Ok(None);
        }
        let mut offer = [0u8; OFFER];
        let mut own = None;
        if inner.rank == 0 {
            own = make(worker, inner.size, &mut offer);
        }
        self.bcast(&mut offer, 0)?;
        let home = match own {
            Some(memory) => Some(Home::Own(memory)),
            None if inner.rank == 0 => None,
            None => open(worker, inner.endpoint(0)?, &offer, inner.size),
        };
        let mut able = [i32::from(home.is_some())];
        self.everybody(&mut able, &crate::Min)?;
        let shared = home.map(|home| Shared { home });
        if able == [1] {
            return Ok(shared);
        }
        if let Some(shared) = shared {
            shared.release(worker);
        }
        Ok(None)
    }

    /// A reduction by messages, in place.
    fn everybody<T: Datatype>(
        &self,
        items: &mut [T],
        op: &impl Operation<T>,
    ) -> Result<(), MpiError> {
        let own = Span::output(size_of_val(items));
        self.allreduce_by_messages(&[], own, items, op)
    }
}

/// What rank 0 tells of the memory: its address, the length of its key, the key.
const OFFER: usize = 256;

/// Makes the memory and writes what opens it to `offer`; on failure, which is logged, the offer
/// stays empty and everybody goes on by messages.
fn make(worker: &Worker, ranks: u32, offer: &mut [u8; OFFER]) -> Option<Memory> {
    let attempt = || {
        let memory = worker.mem_alloc(bytes(ranks))?;
        let key = worker.rkey_pack(memory)?;
        let address = worker.mem_view(memory, |view| view.as_ptr() as u64)?;
        Ok::<_, RmaError>((memory, key, address))
    };
    match attempt() {
        Ok((memory, key, address)) if key.len() <= OFFER - 16 => {
            offer[..8].copy_from_slice(&address.to_le_bytes());
            offer[8..16].copy_from_slice(&(key.len() as u64).to_le_bytes());
            offer[16..16 + key.len()].copy_from_slice(&key);
            Some(memory)
        }
        Ok((memory, ..)) => {
            let _ = worker.mem_release(memory);
            None
        }
        Err(error) => {
            tracing::debug!(%error, "no shared memory for a communicator; it uses messages");
            None
        }
    }
}

/// Opens the memory that `offer` tells of.
fn open(worker: &Worker, root: Ep, offer: &[u8; OFFER], ranks: u32) -> Option<Home> {
    let number = |at: usize| {
        let bytes = offer[at..at + 8].try_into().expect("eight bytes");
        u64::from_le_bytes(bytes)
    };
    let (address, len) = (number(0), number(8));
    let key = offer[16..].get(..usize::try_from(len).ok()?).filter(|key| !key.is_empty())?;
    let key = worker.rkey_unpack(root, key).ok()?;
    // It must be mapped here: words in it are polled.
    match worker.remote_view(key, address, bytes(ranks), |_| ()) {
        Ok(()) => Some(Home::Peer(key, address)),
        Err(_) => {
            worker.rkey_release(key);
            None
        }
    }
}
