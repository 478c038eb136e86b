//! The sender's side: what a link posts, step by step, and what the answers mean. The rules are in `locked_lane`.

use bowline_base::sync::LINE;
use bowline_base::view::View;
use bowline_uct::{
    AtomicOp, AtomicWidth, Caps, LocalSlice, PeerFailure, PostError, Posted, RemoteSlice, Token,
};

use super::{LockedLane, Step, free, generation, held, offset, slot_at};

/// Locks in a row after which a sender lets others in front.
const LOCKS: u32 = 8;

/// How often a sender that has had all its locks in a row leaves a free lock to others.
const BACKOFF: u32 = 8;

impl LockedLane {
    /// Lets a link go on as far as it can.
    pub(super) fn drive(&mut self, index: usize) {
        loop {
            match self.step(index) {
                Ok(true) => {}
                Ok(false) | Err(PostError::NoResource) => return,
                Err(_) => return self.links[index].step = Step::Broken,
            }
        }
    }

    /// Takes the next step of a link; whether another one can be taken at once.
    fn step(&mut self, index: usize) -> Result<bool, PostError> {
        let link = &mut self.links[index];
        match link.step {
            Step::Ready => self.lock(index),
            Step::Put { done } if done == link.batch.len() => {
                link.step = Step::Order;
                Ok(true)
            }
            Step::Put { done } => {
                let piece = &link.batch[done..link.batch.len().min(done + self.put_max)];
                let at = link.base + slot_at(link.known, link.slots, offset(link.known)) as u64;
                let to = RemoteSlice { address: at + done as u64, rkey: link.rkey };
                if piece.len() <= self.put_short {
                    self.below.put_short(link.below, piece, to)?;
                } else {
                    let mut pack = |space: View<'_>| space.copy_in(piece);
                    self.below.put_bcopy(link.below, piece.len(), &mut pack, to)?;
                }
                link.step = Step::Put { done: done + piece.len() };
                Ok(true)
            }
            Step::Order => {
                let ordered = self.below.attr().caps.contains(Caps::PUT_BEFORE_ATOMIC);
                let done = ordered
                    || self.below.flush(link.below, Self::token(index, false))? == Posted::Done;
                link.step = if done { Step::Unlock } else { Step::Ordering };
                Ok(done)
            }
            Step::Unlock => self.release(index),
            Step::Reread => self.begin_reread(index),
            Step::Locking(_) | Step::Ordering | Step::Rereading | Step::Broken => Ok(false),
        }
    }

    /// Never [`Token::NONE`].
    const fn token(index: usize, release: bool) -> Token {
        Token((index as u64 + 1) << 1 | release as u64)
    }

    fn swap(
        &mut self,
        index: usize,
        compare: u64,
        new: u64,
        release: bool,
    ) -> Result<Option<u64>, PostError> {
        let link = &self.links[index];
        let at = RemoteSlice { address: link.base, rkey: link.rkey };
        let (op, token) = (AtomicOp::Cswap { compare, new }, Self::token(index, release));
        self.below.atomic(link.below, op, AtomicWidth::W64, at, token)
    }

    fn lock(&mut self, index: usize) -> Result<bool, PostError> {
        let link = &mut self.links[index];
        if link.waiting.is_empty() {
            link.backs_off = false;
            return Ok(false);
        }
        // No more than half of a half, so that one link leaves space for others; a small part of it where
        // the queue was full before.
        let most = (link.slots / if link.backs_off { 8 } else { 2 }) as usize;
        let (mut count, mut slots) = (0, 0);
        for message in &link.waiting {
            let with = slots + message.len() / LINE;
            if count > 0 && with > most {
                break;
            }
            (count, slots) = (count + 1, with);
        }
        if offset(link.known) as usize + slots > link.slots as usize {
            (link.backs_off, link.step) = (true, Step::Reread);
            return Ok(true);
        }
        if link.releasing && link.locks >= LOCKS {
            return Ok(false);
        }
        let known = link.known;
        match self.swap(index, known, held(known, self.number), false)? {
            Some(old) => Ok(self.locked(index, count, old)),
            None => {
                self.links[index].step = Step::Locking(count);
                Ok(false)
            }
        }
    }

    /// The word was `old` when the link tried to lock for `count` messages; whether it goes on.
    fn locked(&mut self, index: usize, count: usize, old: u64) -> bool {
        self.attempts += 1;
        let lot = self.attempts ^ u64::from(self.number) << 48;
        let lot = lot.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63;
        let link = &mut self.links[index];
        if old == link.known {
            link.batch.clear();
            link.waiting.drain(..count).for_each(|message| link.batch.extend(message));
            link.step = Step::Put { done: 0 };
            return true;
        }
        link.locks = 0;
        if free(old) != old {
            link.known = free(old);
        } else if link.backoff > 0 {
            link.backoff -= 1;
        } else if lot == 0 {
            link.known = old;
        }
        link.step = Step::Ready;
        false
    }

    fn release(&mut self, index: usize) -> Result<bool, PostError> {
        let link = &self.links[index];
        if link.releasing {
            return Ok(false);
        }
        let held = held(link.known, self.number);
        let new = link.known + (link.batch.len() / LINE) as u64;
        let answer = self.swap(index, held, new, true)?;
        let link = &mut self.links[index];
        (link.step, link.held, link.releasing) = (Step::Ready, held, true);
        link.locks += 1;
        if link.locks == LOCKS {
            link.backoff = BACKOFF;
        }
        if link.locks < LOCKS {
            link.known = new;
        }
        if let Some(old) = answer {
            self.released(index, old);
        }
        Ok(!self.links[index].backs_off)
    }

    fn released(&mut self, index: usize, old: u64) {
        let link = &mut self.links[index];
        link.releasing = false;
        if old != link.held {
            link.step = Step::Broken;
        }
    }

    /// Reads the word of a queue that was full.
    fn begin_reread(&mut self, index: usize) -> Result<bool, PostError> {
        let link = &mut self.links[index];
        let from = RemoteSlice { address: link.base, rkey: link.rkey };
        if self.below.attr().caps.contains(Caps::GET_BCOPY) {
            let mut bytes = [0; 8];
            let mut unpack = |view: View<'_>| {
                view.copy_out(&mut bytes);
            };
            self.below.get_bcopy(link.below, from, 8, &mut unpack)?;
            return Ok(self.reread(index, u64::from_ne_bytes(bytes)));
        }
        // SAFETY: a link and its buffer stay until the lane is dropped, which drops the interface below
        // first, and nobody reads the bytes before the completion.
        let to = unsafe { LocalSlice::of_recv(&mut link.word, 0, 8) }.ok_or(PostError::TooLong)?;
        match self.below.get_zcopy(link.below, &[to], from, Self::token(index, false))? {
            Posted::Done => Ok(self.read(index)),
            Posted::InFlight => {
                link.step = Step::Rereading;
                Ok(false)
            }
        }
    }

    fn read(&mut self, index: usize) -> bool {
        let mut bytes = [0; 8];
        self.links[index].word.view().copy_out(&mut bytes);
        self.reread(index, u64::from_ne_bytes(bytes))
    }

    fn reread(&mut self, index: usize, word: u64) -> bool {
        let link = &mut self.links[index];
        let flipped = generation(word) != generation(link.known);
        if flipped {
            link.known = free(word);
        }
        link.step = if flipped { Step::Ready } else { Step::Reread };
        flipped
    }

    pub(super) fn answered(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        let index = (token.0 >> 1) as usize - 1;
        let Ok(value) = result else { return self.links[index].step = Step::Broken };
        if token.0 & 1 == 1 {
            self.released(index, value);
            return self.drive(index);
        }
        let go_on = match self.links[index].step {
            Step::Locking(count) => self.locked(index, count, value),
            Step::Ordering => {
                self.links[index].step = Step::Unlock;
                true
            }
            Step::Rereading => self.read(index),
            _ => false,
        };
        if go_on {
            self.drive(index);
        }
    }
}
