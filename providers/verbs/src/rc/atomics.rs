//! Atomics. The device has two, both of 64 bits: fetch-and-add and compare-and-swap. Everything
//! else (and, or, exclusive or, swap; all of 32 bits) is a loop of compare-and-swaps of this side
//! on the aligned 64-bit word around the operand:
//!
//! ```text
//!   guess 0 ─► swap (guess, f(guess)) ─► old == guess: done, old is the result
//!                     ▲                  f(old) == old: done, nothing to write
//!                     └───────── else: guess = old ◄─┘
//! ```
//!
//! Each round is one atomic step of the same device, so emulated operations and native ones of any
//! initiators mix. The loop is lock-free: a round fails only because somebody else's succeeded.
//! They are coherent with the target's own processor only where the device says so, which is the
//! difference between `ATOMIC_CPU` and `ATOMIC_DEVICE`.

use bowline_base::slab::Key;
use bowline_uct::{AtomicOp, AtomicWidth, EpId, PeerFailure, PostError, RemoteSlice, Token};

use super::RcIface;
use super::peer::{Holds, Op};
use crate::pool::Results;
use crate::sys::{Bytes, Work};

/// An operation made of several requests.
#[derive(Debug)]
pub(super) struct Emulated {
    peer: u32,
    token: Token,
    op: AtomicOp,
    width: AtomicWidth,
    /// Of the 64-bit word.
    address: u64,
    key: u32,
    /// Bits that the operand stands to the left in the word.
    shift: u32,
    guess: u64,
    /// Where the device writes what it found.
    word: u32,
}

impl Emulated {
    /// The operand's bits of `word`.
    const fn field(&self, word: u64) -> u64 {
        match self.width {
            AtomicWidth::W64 => word,
            AtomicWidth::W32 => word >> self.shift & 0xffff_ffff,
        }
    }

    /// What the operation makes of `word`.
    const fn apply(&self, word: u64) -> u64 {
        let old = self.field(word);
        let new = match self.op {
            AtomicOp::Add(by) => old.wrapping_add(by),
            AtomicOp::And(by) => old & by,
            AtomicOp::Or(by) => old | by,
            AtomicOp::Xor(by) => old ^ by,
            AtomicOp::Swap(by) => by,
            AtomicOp::Cswap { compare, new } => {
                if old == self.field(compare << self.shift) {
                    new
                } else {
                    old
                }
            }
        };
        match self.width {
            AtomicWidth::W64 => new,
            AtomicWidth::W32 => {
                let mask = 0xffff_ffff << self.shift;
                word & !mask | (new & 0xffff_ffff) << self.shift
            }
        }
    }
}

impl RcIface {
    pub(super) fn post_atomic(
        &mut self,
        ep: EpId,
        op: AtomicOp,
        width: AtomicWidth,
        at: RemoteSlice,
        token: Token,
    ) -> Result<(), PostError> {
        if !self.attr.atomics.contains(op.kind()) {
            return Err(PostError::Unsupported);
        }
        let number = self.open_peer(ep)?;
        self.state.domain.opened.open_word(number, at, width)?;
        let address = at.address & !7;
        // The whole word must be the peer's to share, or the device refuses it.
        let key = self.state.domain.opened.open(number, RemoteSlice { address, ..at }, 8)?.key;
        self.space_or_refuse(number)?;
        let native = match (op, width) {
            (AtomicOp::Add(by), AtomicWidth::W64) => Some(Work::FetchAdd { address, key, by }),
            (AtomicOp::Cswap { compare, new }, AtomicWidth::W64) => {
                Some(Work::CompareSwap { address, key, compare, new })
            }
            _ => None,
        };
        match native {
            Some(work) if token == Token::NONE => {
                let piece = [self.state.results.piece(Results::DISCARDED)];
                let op = Op { reads: true, ..Op::NOTHING };
                self.push(number, work, Bytes::Registered(&piece), op, false)
            }
            Some(work) => {
                let Some(word) = self.state.results.take() else { return Err(self.refuse()) };
                let piece = [self.state.results.piece(word)];
                let op = Op { token, holds: Holds::Result(word), reads: true };
                let pushed = self.push(number, work, Bytes::Registered(&piece), op, true);
                if pushed.is_err() {
                    self.state.results.give(word);
                }
                pushed
            }
            None => {
                let Some(word) = self.state.results.take() else { return Err(self.refuse()) };
                let key = self.state.emulated.insert(Emulated {
                    peer: number,
                    token,
                    op,
                    width,
                    address,
                    key,
                    shift: if at.address & 4 == 0 { 0 } else { 32 },
                    guess: 0,
                    word,
                });
                let pushed = self.emulated_round(key);
                if pushed.is_err() {
                    self.state.emulated.remove(key);
                    self.state.results.give(word);
                }
                pushed
            }
        }
    }

    fn emulated_round(&mut self, key: Key) -> Result<(), PostError> {
        let Some(round) = self.state.emulated.get(key) else { return Err(PostError::BadArgument) };
        let work = Work::CompareSwap {
            address: round.address,
            key: round.key,
            compare: round.guess,
            new: round.apply(round.guess),
        };
        let piece = [self.state.results.piece(round.word)];
        let op = Op { token: Token::NONE, holds: Holds::Emulated(key), reads: true };
        let number = round.peer;
        self.push(number, work, Bytes::Registered(&piece), op, true)
    }

    /// A round is complete: the operation is, too, or the next round is posted into the buffer that
    /// this one had.
    pub(super) fn emulated_done(&mut self, key: Key, result: Result<u64, PeerFailure>) {
        let Some(round) = self.state.emulated.get_mut(key) else { return };
        let mut result = result;
        if result.is_ok() {
            let old = self.state.results.read(round.word);
            if old != round.guess && round.apply(old) != old {
                round.guess = old;
                let number = round.peer;
                match self.emulated_round(key) {
                    Ok(()) => return self.flushes_follow(number),
                    Err(_) => result = Err(PeerFailure::Unreachable),
                }
            } else {
                result = Ok(round.field(old));
            }
        }
        if let Some(done) = self.state.emulated.remove(key) {
            self.state.results.give(done.word);
            self.events.complete(done.token, result);
        }
    }
}
