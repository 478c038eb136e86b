//! The locked queue as an interface: messages over the puts and atomics of another interface, into a queue that
//! senders lock one after the other. It is what the forms of receive queue are compared with.
//!
//! It is for measurements only. It has no answer to the death of a peer, no one-sided operations of its own,
//! wakes nobody, and needs atomics that are coherent with the processor's.
//!
//! As in M. Rüfenacht's thesis, one word holds all that a sender must know, so that the operation that takes
//! the lock also says where to put:
//!
//! ```text
//!   word 0    63 .. 32 generation, whose lowest bit is the half | 31 .. 16 holder + 1, 0 is free | 15 .. 0 next slot
//!   line 1    L slots of half 0, then L slots of half 1
//!   slot      word 0: length | id << 32 | sender << 48, words 1-3: header, payload from byte 32 on
//!
//!   free{g, o} ──sender, compare-and-swap──► held{g, o, sender}
//!     ▲  │                                        │ its slots are put, ordered
//!     │  │            free{g, o + slots} ◄──compare-and-swap──┘
//!     │  └──receiver: the other half is empty, o > 0 ──► free{g + 1, 0}
//! ```
//!
//! 1. A sender swaps what it believes the word to be, free, for the same with its number. If it was wrong, the
//!    answer says what the word is, and it tries again at its next progress: it spins over the network.
//! 2. It locks only where its slots fit. Where they do not fit, it reads the word until the generation is
//!    another one.
//! 3. A sender that has just released the lock knows the word, and would win against all that have to learn it
//!    first. After some locks in a row it waits for the answer to its release, and then tries with an
//!    old word. A sender that finds the lock free where it did not expect that takes the new word by lot, else
//!    senders in step with each other would come in the same order for ever.
//!
//! The thesis locks by fetch-or, which needs no guess. RDMA has no fetch-or.

mod contract;
mod send;

use std::collections::VecDeque;

use bowline_base::buffer::RecvBuf;
use bowline_base::sync::LINE;
use bowline_base::sync::atomic::Ordering;
use bowline_uct::{
    AddrWriter, AmHeader, AmId, Arrival, AtomicOps, Caps, EpId, Iface, IfaceAttr, Limits, MemError,
    MemHandle, OpLimits, OpenError, PeerFailure, PostError, RkeyId, Sink, Source, Token, Verdict,
};

/// Slots of the messages that wait at a sender for one peer.
const WAITING: usize = 256;

/// Longest message, in bytes.
const LONGEST: usize = 8192;

/// Bytes of a slot in front of the payload.
const FRONT: usize = 32;

const HOLDER_AT: u32 = 16;
const HOLDER: u64 = 0xffff << HOLDER_AT;

const fn held(free: u64, sender: u16) -> u64 {
    free | (sender as u64 + 1) << HOLDER_AT
}

const fn free(word: u64) -> u64 {
    word & !HOLDER
}

const fn offset(word: u64) -> u32 {
    word as u32 & 0xffff
}

const fn generation(word: u64) -> u32 {
    (word >> 32) as u32
}

/// Where a slot of the half of `word` is.
fn slot_at(word: u64, slots: u32, slot: u32) -> usize {
    let half = (generation(word) & 1) * slots;
    (1 + half + slot) as usize * LINE
}

const fn slots_for(len: usize) -> usize {
    (FRONT + len).div_ceil(LINE)
}

/// Where the sending to a peer stands: what is posted next, or whose answer is waited for (*-ing).
#[derive(Clone, Copy, Debug)]
enum Step {
    Ready,
    /// For so many messages.
    Locking(usize),
    /// The bytes behind the first `done`.
    Put {
        done: usize,
    },
    Order,
    Ordering,
    Unlock,
    Reread,
    Rereading,
    Broken,
}

/// A peer.
#[derive(Debug)]
struct Link {
    below: EpId,
    rkey: RkeyId,
    base: u64,
    slots: u32,
    waiting: VecDeque<Vec<u8>>,
    /// The messages that the lock is held for.
    batch: Vec<u8>,
    step: Step,
    /// The word when it was last seen free; while the lock is held, as it was before.
    known: u64,
    /// The word of the last lock, which its release has to find.
    held: u64,
    /// Whether the last release is unanswered.
    releasing: bool,
    locks: u32,
    backoff: u32,
    /// Whether the queue was full since nothing waited here.
    backs_off: bool,
    asked: bool,
    /// Where the word is read to.
    word: RecvBuf,
}

#[derive(Debug)]
enum Note {
    Completed(Token, Result<u64, PeerFailure>),
    Failed(Option<EpId>, PeerFailure),
}

#[derive(Debug, Default)]
struct Notes(Vec<Note>);

impl Sink for Notes {
    fn am(&mut self, _: Arrival<'_>) -> Verdict {
        Verdict::Consumed
    }
    fn completed(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        self.0.push(Note::Completed(token, result));
    }
    // What was refused is tried again at each progress.
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, ep: Option<EpId>, how: PeerFailure) {
        self.0.push(Note::Failed(ep, how));
    }
}

/// An interface that carries active messages by a locked queue, and nothing else.
pub(crate) struct LockedLane {
    /// First: it is dropped before the words that it may still read to.
    below: Box<dyn Iface>,
    attr: IfaceAttr,
    memory: MemHandle,
    own_address: Vec<u8>,
    /// Different for every lane of a job.
    number: u16,
    slots: u32,
    put_short: usize,
    put_max: usize,
    links: Vec<Link>,
    notes: Notes,
    /// Space for a message that is packed.
    packed: RecvBuf,
    /// Attempts to lock, from which lots are drawn.
    attempts: u64,
    /// The word of the half that is emptied, its next slot and its end.
    emptied: u64,
    next: u32,
    end: u32,
}

impl std::fmt::Debug for LockedLane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockedLane").field("attr", &self.attr).finish_non_exhaustive()
    }
}

impl LockedLane {
    /// Puts a locked queue with halves of `slots` over `below`. `number` is different for every lane.
    pub(crate) fn open(
        mut below: Box<dyn Iface>,
        slots: u32,
        number: u16,
    ) -> Result<Self, OpenError> {
        let has = below.attr().clone();
        let wants = Caps::PUT_SHORT | Caps::PUT_BCOPY | Caps::ATOMIC_CPU;
        if !has.caps.contains(wants) || !has.atomics.contains(AtomicOps::CSWAP) {
            return Err(OpenError::Limit(format!("{} has no locked queues", has.provider)));
        }
        let no_memory = |error: MemError| OpenError::Limit(error.to_string());
        let bytes = (1 + 2 * slots as usize) * LINE;
        let memory = if below.md_attr().can_alloc {
            below.mem_alloc(bytes)
        } else {
            below.mem_register(RecvBuf::owned(vec![0; bytes]))
        };
        let memory = memory.map_err(no_memory)?;
        let key = below.rkey_pack(memory).map_err(no_memory)?;
        let view = below.mem_view(memory).ok_or_else(|| OpenError::Limit("no memory".into()))?;
        let mut address = AddrWriter::new();
        address.u64(view.as_ptr().addr() as u64).u32(slots).u32(number.into());
        address.bytes(&key).bytes(&below.address());
        let longest = LONGEST.min(slots as usize / 2 * LINE - FRONT);
        let mut attr = has.clone();
        attr.device = format!("{} by locked queue", has.device);
        attr.caps =
            has.caps & Caps::INTER_NODE | Caps::AM_SHORT | Caps::AM_BCOPY | Caps::AM_ORDERED;
        let am =
            OpLimits { max_short: 128.min(longest), max_bcopy: longest, ..OpLimits::default() };
        attr.limits = Limits { am, ..Limits::default() };
        attr.atomics = AtomicOps::empty();
        attr.receive_bytes += bytes;
        Ok(Self {
            put_short: has.limits.put.max_short,
            put_max: has.limits.put.max_bcopy.max(has.limits.put.max_short),
            below,
            attr,
            memory,
            own_address: address.finish(),
            number,
            slots,
            links: Vec::new(),
            notes: Notes::default(),
            packed: RecvBuf::owned(vec![0; longest]),
            attempts: 0,
            emptied: 0,
            next: 0,
            end: 0,
        })
    }

    fn link(&self, ep: EpId) -> Result<&Link, PostError> {
        let link = self.links.get(ep.0 as usize).ok_or(PostError::BadEndpoint)?;
        if matches!(link.step, Step::Broken) { Err(PostError::PeerFailed) } else { Ok(link) }
    }

    /// Whether a message of `len` bytes finds space.
    fn admit(&mut self, ep: EpId, len: usize) -> Result<(), PostError> {
        let link = self.link(ep)?;
        if len > self.attr.limits.am.max_bcopy {
            return Err(PostError::TooLong);
        }
        let waiting: usize = link.waiting.iter().map(Vec::len).sum();
        if waiting / LINE + slots_for(len) <= WAITING { Ok(()) } else { Err(PostError::NoResource) }
    }

    fn accept(&mut self, ep: EpId, id: AmId, header: &AmHeader, payload: &[u8]) {
        let mut bytes = vec![0; slots_for(payload.len()) * LINE];
        let first = payload.len() as u64 | u64::from(id.get()) << 32 | u64::from(self.number) << 48;
        let front = [first, header[0], header[1], header[2]];
        for (at, word) in front.into_iter().enumerate() {
            bytes[8 * at..8 * at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        bytes[FRONT..FRONT + payload.len()].copy_from_slice(payload);
        self.links[ep.0 as usize].waiting.push_back(bytes);
        self.drive(ep.0 as usize);
    }

    /// Hands out at most `budget` messages; returns how many.
    fn receive(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let Some(view) = self.below.mem_view(self.memory) else { return 0 };
        if self.next == self.end {
            let Some(word) = view.word(0) else { return 0 };
            // Acquire: pairs with the exchanges of the holder and of those before it.
            let old = word.load(Ordering::Acquire);
            let new = u64::from(generation(old).wrapping_add(1)) << 32;
            // AcqRel. Acquire: pairs with the release of the last sender's exchange, and all its slots are
            // there. Release: pairs with the next senders' exchanges; the other half was read before.
            if offset(old) == 0
                || free(old) != old
                || word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_err()
            {
                return 0;
            }
            (self.emptied, self.next, self.end) = (old, 0, offset(old));
        }
        let mut handed = 0;
        while handed < budget && self.next < self.end {
            let at = slot_at(self.emptied, self.slots, self.next);
            let mut front = [0; FRONT];
            view.slice(at, FRONT).expect("slots lie in the queue").copy_out(&mut front);
            let [first, header @ ..] = [0, 8, 16, 24]
                .map(|at| u64::from_ne_bytes(front[at..at + 8].try_into().expect("8 bytes")));
            let len = first as u32 as usize;
            let payload = view.slice(at + FRONT, len).expect("messages lie in the queue");
            let source = Source((first >> 48) as u32);
            let id = AmId::from_wire((first >> 32) as u8).expect("an id that was sent");
            let _ = sink.am(Arrival { source, id, header, payload });
            self.next += slots_for(len) as u32;
            handed += 1;
        }
        handed
    }
}

#[cfg(test)]
mod tests;
