//! Two sides that take the pieces of one thing from its two ends until they meet.
//!
//! ```text
//!   claims   63 .. 32 pieces claimed from the back | 31 .. 0 pieces claimed from the front
//!   done     pieces from the back that are done
//!
//!   0 1 2 3 4 5 6 7 8 9
//!   F F F . . . . B B B       front 3, back 3 of 10
//! ```
//! 1. A claim adds one to its half by compare and swap, and only while the halves together are less
//!    than the pieces. So each piece is claimed once, by one side, and a side that has found
//!    nothing will find nothing later.
//! 2. The back counts each piece that it has done, and reads the claims afterwards. The front,
//!    when nothing is left to claim, reads what is done. Both have a sequentially consistent
//!    fence in between. So of the two one notices that everything is done: the front sees all that
//!    the back has claimed counted, or the back sees that all was claimed and can notify the front.
//!
//! 3. The other side may be broken, and change the words in any way for as long as it likes. An honest
//!    one changes the claims once for each piece at most, so a side that has lost more exchanges than
//!    that stops: the word is damaged, and counts as full, with more claimed from the back than
//!    there is.
//!
//! It knows neither what the pieces are nor who the sides are. The words lie where both reach them.

use crate::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(bowline_loom))]
use crate::view::View;

/// From which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorEnd {
    /// From piece 0 on.
    Front,
    /// From the last piece on.
    Back,
}

/// The two words. See the module's text.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    claims: &'a AtomicU64,
    done: &'a AtomicU64,
}

impl<'a> Cursor<'a> {
    /// Bytes of the two words, one behind the other.
    pub const BYTES: usize = 16;

    /// Claimed from the back, as far as a side can say that has met with a broken one: more than there
    /// is, so that nothing is ever settled.
    pub const DAMAGED: u32 = u32::MAX;

    /// The cursor in two words.
    pub const fn at(claims: &'a AtomicU64, done: &'a AtomicU64) -> Self {
        Self { claims, done }
    }

    /// The cursor at `offset` of `view`, if it lies inside and is aligned.
    #[cfg(not(bowline_loom))]
    pub fn in_view(view: View<'a>, offset: usize) -> Option<Self> {
        Some(Self::at(view.word(offset)?, view.word(offset + 8)?))
    }

    /// Nothing is claimed.
    pub fn reset(self) {
        // Relaxed: the other side loads it after it got the cursor, which orders the two.
        self.claims.store(0, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
    }

    /// Pieces claimed from the front and from the back.
    pub fn claimed(self) -> (u32, u32) {
        // Relaxed: asked when the other side claims no more, which a message has said.
        let word = self.claims.load(Ordering::Relaxed);
        (word as u32, (word >> 32) as u32)
    }

    /// The back has done one more piece. Whether everything is claimed, so that the front may be
    /// waiting.
    pub fn back_did_one(self, pieces: u32) -> bool {
        // Release: pairs with the Acquire load in `is_settled`; who sees the piece counted sees it
        // done.
        self.done.fetch_add(1, Ordering::Release);
        // SeqCst: rule 2, with the fence in `is_settled`.
        fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence.
        let word = self.claims.load(Ordering::Relaxed);
        u64::from(word as u32) + (word >> 32) >= u64::from(pieces)
    }

    /// Whether the back has done all of the `back` pieces that it has claimed.
    pub fn is_settled(self, back: u32) -> bool {
        // SeqCst: rule 2, with the fence in `back_did_one`; the claims of this side came before.
        fence(Ordering::SeqCst);
        // Acquire: pairs with the Release addition in `back_did_one`.
        self.done.load(Ordering::Acquire) == u64::from(back)
    }

    /// Claims one of `pieces`: how many this side had claimed before.
    ///
    /// # Errors
    /// When all are claimed: how many of them from the back. That is final. [`DAMAGED`](Self::DAMAGED)
    /// when the other side does not keep the rules.
    pub fn claim(self, pieces: u32, side: CursorEnd) -> Result<u32, u32> {
        self.change(pieces, |front, back| match side {
            CursorEnd::Front => (front, (front + 1, back)),
            CursorEnd::Back => (back, (front, back + 1)),
        })
    }

    /// Claims all that is left from the front, so that the other side finds nothing. How many were
    /// claimed from the back, or [`DAMAGED`](Self::DAMAGED).
    pub fn claim_all(self, pieces: u32) -> u32 {
        match self.change(pieces, |_, back| (back, (pieces - back, back))) {
            Ok(back) | Err(back) => back,
        }
    }

    /// Replaces the claims, if there are less than `pieces`, by what `change` makes of front and back.
    /// Its first answer; or, when all are claimed, how many from the back.
    fn change<R>(
        self,
        pieces: u32,
        change: impl Fn(u32, u32) -> (R, (u32, u32)),
    ) -> Result<R, u32> {
        // Relaxed: a first guess, which the exchange checks; all claimed is final.
        let mut word = self.claims.load(Ordering::Relaxed);
        // Rule 3.
        for _ in 0..=pieces {
            let (front, back) = (word as u32, (word >> 32) as u32);
            if u64::from(front) + u64::from(back) >= u64::from(pieces) {
                return Err(back);
            }
            let (answer, (front, back)) = change(front, back);
            let next = u64::from(front) | u64::from(back) << 32;
            // Relaxed: a claim publishes nothing; that each is one change of one word is enough.
            match self.claims.compare_exchange(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(answer),
                Err(now) => word = now,
            }
        }
        Err(Self::DAMAGED)
    }
}

#[cfg(all(test, not(bowline_loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_claimed_once_whatever_the_order() {
        for pieces in 0..12u32 {
            for rounds in 0..1u32 << 12 {
                let (claims, done) = (AtomicU64::new(0), AtomicU64::new(0));
                let cursor = Cursor::at(&claims, &done);
                let mut seen = vec![false; pieces as usize];
                for round in 0.. {
                    let side = if rounds >> (round % 12) & 1 == 0 {
                        CursorEnd::Front
                    } else {
                        CursorEnd::Back
                    };
                    let piece = match (cursor.claim(pieces, side), side) {
                        (Ok(nth), CursorEnd::Front) => nth,
                        (Ok(nth), CursorEnd::Back) => {
                            let (front, back) = cursor.claimed();
                            assert!(!cursor.is_settled(back));
                            assert_eq!(cursor.back_did_one(pieces), front + back == pieces);
                            pieces - 1 - nth
                        }
                        (Err(back), _) => {
                            assert_eq!(back, cursor.claimed().1);
                            assert!(cursor.is_settled(back));
                            break;
                        }
                    };
                    assert!(!std::mem::replace(&mut seen[piece as usize], true));
                }
                assert!(seen.iter().all(|&seen| seen));
                assert_eq!(cursor.claim_all(pieces), cursor.claimed().1);
            }
        }
    }

    /// A broken side sets the word back between each load of ours and its exchange, for as long as we
    /// try: the change stands for it, since it runs between the two.
    #[test]
    fn a_side_that_never_stops_changing_the_word_stops_nobody() {
        const PIECES: u32 = 9;
        let (claims, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let cursor = Cursor::at(&claims, &done);
        let loads = std::cell::Cell::new(0);
        let changed = cursor.change(PIECES, |front, back| {
            loads.set(loads.get() + 1);
            claims.store(loads.get() % 2, Ordering::Relaxed);
            ((), (front + 2, back))
        });
        assert_eq!((changed, loads.get()), (Err(Cursor::DAMAGED), u64::from(PIECES) + 1));
        // The same from another thread, on the public methods; they return, whatever they answer.
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    claims.store(0, Ordering::Relaxed);
                }
            });
            for _ in 0..1000 {
                cursor.claim_all(1 << 20);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_side_alone_gets_everything() {
        let (claims, done) = (AtomicU64::new(77), AtomicU64::new(78));
        let cursor = Cursor::at(&claims, &done);
        cursor.reset();
        assert_eq!(
            (0..5).map(|_| cursor.claim(5, CursorEnd::Back)).collect::<Vec<_>>(),
            [Ok(0), Ok(1), Ok(2), Ok(3), Ok(4)]
        );
        assert_eq!(cursor.claim(5, CursorEnd::Front), Err(5));
        // A word that somebody has damaged is full, never a piece that does not exist.
        let claims = AtomicU64::new(u64::MAX);
        assert_eq!(Cursor::at(&claims, &done).claim(5, CursorEnd::Front), Err(u32::MAX));
    }
}

#[cfg(all(test, bowline_loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// Both sides until nothing is left; or the front gives up by taking all, or the back goes away
    /// after its first piece. The front always learns of the end.
    #[test]
    fn loom_both_sides_claim_everything_once() {
        for (front_gives_up, back_goes) in [(false, false), (true, false), (false, true)] {
            loom::model(move || {
                const PIECES: u32 = 2;
                let words = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
                let others = Arc::clone(&words);
                let back = loom::thread::spawn(move || {
                    let cursor = Cursor::at(&others.0, &others.1);
                    let (mut mine, mut ended) = (0, false);
                    while !ended && cursor.claim(PIECES, CursorEnd::Back).is_ok() {
                        mine += 1;
                        ended = cursor.back_did_one(PIECES);
                        if back_goes {
                            break;
                        }
                    }
                    (mine, ended)
                });
                let cursor = Cursor::at(&words.0, &words.1);
                let mut mine = 0;
                let theirs = if front_gives_up {
                    cursor.claim_all(PIECES)
                } else {
                    loop {
                        match cursor.claim(PIECES, CursorEnd::Front) {
                            Ok(nth) => {
                                assert_eq!(nth, mine);
                                mine += 1;
                            }
                            Err(back) => break back,
                        }
                    }
                };
                let settled = cursor.is_settled(theirs);
                let (back, ended) = back.join().unwrap();
                // Final as soon as it is said: it is what the other side counts in the end.
                assert_eq!(back, theirs);
                assert!(settled || ended, "nobody notices the end");
                let (front, back) = cursor.claimed();
                assert_eq!((front + back, back), (PIECES, theirs));
                assert!(front_gives_up || front == mine);
            });
        }
    }
}
