//! A stack in each rank's memory, from which the other ranks steal by one-sided operations.
//!
//! ```text
//!   state ── head (32 bits), tail (32 bits): the nodes head .. tail are free to be taken
//!   fetched  how many stolen nodes have been copied away
//!   active, arrived, seen ── of rank 0 alone: who works, and barriers
//!   slots    a ring of nodes
//! ```
//! 1. A rank that takes nodes changes `state` by compare-and-swap: the owner takes from the tail, a thief
//!    from the head. What a thief has taken so it copies by a get, and then adds to `fetched`.
//! 2. Head and tail only say what is free, so a thief that was asleep does no harm: if `state` is what
//!    it has read, those nodes are free now, whatever happened in between.
//! 3. The owner writes nodes behind the tail, then moves the tail. It writes no slot that a thief may
//!    still copy: it goes round the ring only as far as it has seen all that was stolen fetched. It
//!    reads `fetched` before `state`; since `fetched` never runs ahead of the head, equal values mean
//!    that nothing is under way.
//! 4. `active` counts the ranks that have nodes or are about to take some: a thief adds itself before
//!    it swaps. So when it is 0 there is no node anywhere, and there never will be.
//!
//! The owner changes its own memory by the processor's atomics, which is right wherever the
//! transport's are the processor's as well: in shared memory, and where the owner's library carries
//! them out (tcp). A network card's own atomics would have to be used by the owner too.

use anyhow::{Context as _, Result, bail, ensure};
use bowline::Member;
use bowline::base::buffer::RecvBuf;
use bowline::base::view::View;
use bowline::ucp::{MemoryHandle, RemoteKey, Sent, Worker};
use bowline::uct::{AtomicOp, AtomicWidth};

use crate::tree::NODE_BYTES;

/// Words, each on a line of its own.
const STATE: u64 = 0;
const FETCHED: u64 = 64;
const ACTIVE: u64 = 128;
const ARRIVED: u64 = 192;
const SEEN: u64 = 256;
const SLOTS: u64 = 320;

/// Nodes that fit into the ring.
const CAPACITY: u32 = 1 << 14;

/// Nodes that one theft takes at most.
const MOST: u32 = 64;

/// Changes nothing and reads.
const READ: AtomicOp = AtomicOp::Add(0);

const fn packed(head: u32, tail: u32) -> u64 {
    (tail as u64) << 32 | head as u64
}

const fn unpacked(state: u64) -> (u32, u32) {
    (state as u32, (state >> 32) as u32)
}

/// The stacks of all ranks, as one of them reaches them.
#[derive(Debug)]
pub(crate) struct Stacks<'a> {
    member: &'a Member,
    own: MemoryHandle,
    /// Where each rank's memory begins, and its key; none for this rank.
    others: Vec<Option<(u64, RemoteKey)>>,
    /// Below this index nothing of the ring is under way to a thief.
    floor: u32,
    meetings: u64,
}

impl<'a> Stacks<'a> {
    /// Makes this rank's stack and opens those of the others.
    pub(crate) fn open(member: &'a Member) -> Result<Self> {
        let worker = member.worker();
        let bytes = SLOTS as usize + CAPACITY as usize * NODE_BYTES;
        let own = worker.mem_alloc(bytes).context("no memory that other ranks can reach")?;
        let base = worker.mem_view(own, |view| view.as_ptr().addr() as u64)?;
        let mut published = base.to_le_bytes().to_vec();
        published.extend(worker.rkey_pack(own)?);
        let mut others = Vec::new();
        for (rank, published) in (0..).zip(member.exchange(&published)?) {
            if rank == member.rank() {
                others.push(None);
                continue;
            }
            let (base, key) = published.split_first_chunk().context("a rank's key is too short")?;
            let key = worker
                .rkey_unpack(member.connect(rank)?, key)
                .with_context(|| format!("cannot open the memory of rank {rank}"))?;
            others.push(Some((u64::from_le_bytes(*base), key)));
        }
        Ok(Self { member, own, others, floor: 0, meetings: 0 })
    }

    fn worker(&self) -> &'a Worker {
        self.member.worker()
    }

    /// An atomic operation on a word of a rank; the value before.
    fn fetch(&self, rank: u32, word: u64, op: AtomicOp) -> Result<u64> {
        let worker = self.worker();
        let Some((base, key)) = self.others[rank as usize] else {
            let done = self.in_own(word, |view| op.perform(view, AtomicWidth::W64))?;
            return done.context("the words are aligned");
        };
        let fetched = match worker.atomic_fetch(key, base + word, op, AtomicWidth::W64) {
            Ok(Ok(old)) => Ok(old),
            Ok(Err(id)) => {
                let status = worker.wait(id);
                status.outcome.map(|()| status.length)
            }
            Err(error) => Err(error),
        };
        fetched.with_context(|| format!("cannot reach the memory of rank {rank}"))
    }

    /// This rank's memory from `offset` on.
    fn in_own<R>(&self, offset: u64, read: impl FnOnce(View<'_>) -> R) -> Result<R> {
        let read_from = |view: View<'_>| {
            let len = view.len() - offset as usize;
            read(view.slice(offset as usize, len).expect("the offset is one of the memory"))
        };
        Ok(self.worker().mem_view(self.own, read_from)?)
    }

    const fn slot(index: u32) -> u64 {
        SLOTS + (index % CAPACITY) as u64 * NODE_BYTES as u64
    }

    /// Whether others find little here.
    pub(crate) fn is_low(&self) -> Result<bool> {
        let (head, tail) = unpacked(self.fetch(self.member.rank(), STATE, READ)?);
        Ok(tail.wrapping_sub(head) < MOST)
    }

    /// Offers nodes to the others, as many as there is space for; the rest stays.
    pub(crate) fn share(&mut self, nodes: &mut Vec<u64>, many: usize) -> Result<()> {
        let rank = self.member.rank();
        let fetched = self.fetch(rank, FETCHED, READ)? as u32;
        let (head, tail) = unpacked(self.fetch(rank, STATE, READ)?);
        if fetched == head {
            self.floor = head;
        }
        let space = CAPACITY - tail.wrapping_sub(self.floor).min(CAPACITY);
        let many = many.min(nodes.len()).min(space as usize);
        // The oldest ones, which are nearest to the root.
        for (index, node) in (0..).zip(nodes.drain(..many)) {
            let slot = Self::slot(tail.wrapping_add(index));
            self.in_own(slot, |view| view.copy_in(&node.to_le_bytes()))?;
        }
        self.move_state(rank, |head, tail| Some((head, tail.wrapping_add(many as u32))))?;
        Ok(())
    }

    /// Changes a rank's state as `change` says, until nobody else came in between. Head and tail
    /// before, or none when `change` does not want to.
    fn move_state(
        &self,
        rank: u32,
        change: impl Fn(u32, u32) -> Option<(u32, u32)>,
    ) -> Result<Option<(u32, u32)>> {
        let mut state = self.fetch(rank, STATE, READ)?;
        loop {
            let (head, tail) = unpacked(state);
            let Some((new_head, new_tail)) = change(head, tail) else { return Ok(None) };
            let op = AtomicOp::Cswap { compare: state, new: packed(new_head, new_tail) };
            let found = self.fetch(rank, STATE, op)?;
            if found == state {
                return Ok(Some((head, tail)));
            }
            state = found;
        }
    }

    /// Takes some of its own nodes back. Whether there were any.
    pub(crate) fn take_back(&self, nodes: &mut Vec<u64>) -> Result<bool> {
        let many = |head: u32, tail: u32| tail.wrapping_sub(head).min(MOST);
        let change = |head: u32, tail: u32| {
            let many = many(head, tail);
            (many != 0).then(|| (head, tail.wrapping_sub(many)))
        };
        let Some((head, tail)) = self.move_state(self.member.rank(), change)? else {
            return Ok(false);
        };
        for index in 0..many(head, tail) {
            let mut node = [0; NODE_BYTES];
            let slot = Self::slot(tail.wrapping_sub(index + 1));
            self.in_own(slot, |view| view.copy_out(&mut node))?;
            nodes.push(u64::from_le_bytes(node));
        }
        Ok(true)
    }

    /// Steals half of a rank's nodes. This rank counts as active when there were any.
    pub(crate) fn steal(&self, victim: u32, nodes: &mut Vec<u64>) -> Result<bool> {
        let (head, tail) = unpacked(self.fetch(victim, STATE, READ)?);
        if head == tail {
            return Ok(false);
        }
        self.fetch(0, ACTIVE, AtomicOp::Add(1))?;
        // Half, and not beyond the end of the ring, so that it is one get.
        let many = |head: u32, tail: u32| {
            tail.wrapping_sub(head).div_ceil(2).min(MOST).min(CAPACITY - head % CAPACITY)
        };
        let change = |head: u32, tail: u32| {
            let many = many(head, tail);
            (many != 0).then(|| (head.wrapping_add(many), tail))
        };
        let Some((head, tail)) = self.move_state(victim, change)? else {
            self.rest()?;
            return Ok(false);
        };
        let many = many(head, tail);
        let bytes = self.get(victim, Self::slot(head), many as usize * NODE_BYTES)?;
        self.fetch(victim, FETCHED, AtomicOp::Add(many.into()))?;
        let (chunks, _) = bytes.as_chunks();
        nodes.extend(chunks.iter().map(|bytes| u64::from_le_bytes(*bytes)));
        Ok(true)
    }

    fn get(&self, rank: u32, offset: u64, len: usize) -> Result<Vec<u8>> {
        let worker = self.worker();
        let (base, key) = self.others[rank as usize].context("nobody steals from itself")?;
        let failed = || format!("cannot read the memory of rank {rank}");
        let buffer = RecvBuf::owned(vec![0; len]);
        match worker.get(key, base + offset, buffer).with_context(failed)? {
            Sent::Done => bail!("a get into a buffer of its own is a request"),
            Sent::Pending(id) => {
                worker.wait_until(|| worker.is_complete(id));
                let (status, bytes) = worker.take_with_buffer(id).context("it is complete")?;
                status.outcome.with_context(failed)?;
                bytes.context("the buffer was given to the get")
            }
        }
    }

    /// This rank has nodes again.
    pub(crate) fn work(&self) -> Result<()> {
        self.fetch(0, ACTIVE, AtomicOp::Add(1)).map(drop)
    }

    /// This rank has no nodes left.
    pub(crate) fn rest(&self) -> Result<()> {
        self.fetch(0, ACTIVE, AtomicOp::Add(u64::MAX)).map(drop)
    }

    /// Whether no rank has nodes, and none will get some.
    pub(crate) fn all_rest(&self) -> Result<bool> {
        Ok(self.fetch(0, ACTIVE, READ)? == 0)
    }

    /// Lets others get at this rank's memory, where that wants its help, and checks whether all live.
    pub(crate) fn attend(&self) -> Result<()> {
        self.worker().progress();
        let dead = self.worker().failures();
        ensure!(
            dead.is_empty(),
            "ranks {dead:?} have died with a part of the tree; start the job again"
        );
        Ok(())
    }

    /// Waits for all ranks, and helps those that still reach for this one's memory.
    pub(crate) fn meet(&mut self) -> Result<()> {
        self.meetings += 1;
        let all = u64::from(self.member.size());
        self.fetch(0, ARRIVED, AtomicOp::Add(1))?;
        while self.fetch(0, ARRIVED, READ)? < self.meetings * all {
            self.attend()?;
            std::thread::yield_now();
        }
        // From here on nobody wants anything but to know this. Rank 0 stays until all do.
        self.fetch(0, SEEN, AtomicOp::Add(1))?;
        while self.member.rank() == 0 && self.fetch(0, SEEN, READ)? < self.meetings * all {
            self.attend()?;
            std::thread::yield_now();
        }
        Ok(())
    }
}
