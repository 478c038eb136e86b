//! Context ids: small numbers that keep the messages of communicators apart.
//!
//! Each communicator has one id at all its members, and its two spaces are `2 id` and `2 id + 1`.
//! Ids are agreed by a reduction over the parent: every member says which it has free, the least
//! id free at all of them is taken. So ids stay dense, which lets the protocol layer index by
//! them, and disjoint communicators share them. A freed id is used again at once; what keeps old
//! messages out is the generation (see [`tags`](crate::tags)).

use crate::op::Operation;

/// The id of the world. Space 0 belongs to the protocol layer's own tag matching, so ids start
/// at 1.
pub(crate) const WORLD: u32 = 1;
/// The id of a rank alone.
pub(crate) const OWN: u32 = 2;
/// One more than the last id; two spaces each keep below 65536.
const END: u32 = 1 << 15;

/// Ids in one round of agreement: 64 bytes, which is hardly more than an empty message.
const WINDOW: u32 = 512;
const WORDS: usize = (WINDOW / 64) as usize;

/// A member's offer and, after the reduction, the offer of all: free ids of a window, the greatest
/// generation so far, and whether anybody is oversubscribed.
pub(crate) type Offer = [u64; WORDS + 2];
const GENERATION: usize = WORDS;
const OVERSUBSCRIBED: usize = WORDS + 1;

/// What the members of a new communicator have agreed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreed {
    pub(crate) context: u32,
    pub(crate) generation: u32,
    pub(crate) oversubscribed: bool,
}

/// Merges offers.
#[derive(Debug)]
pub(crate) struct Merge;

impl Operation<Offer> for Merge {
    fn is_commutative(&self) -> bool {
        true
    }

    fn combine(&self, left: &[Offer], right: &mut [Offer]) {
        for (left, right) in left.iter().zip(right) {
            for word in 0..WORDS {
                right[word] &= left[word];
            }
            right[GENERATION] = right[GENERATION].max(left[GENERATION]);
            right[OVERSUBSCRIBED] |= left[OVERSUBSCRIBED];
        }
    }
}

/// The ids that this rank has in use.
#[derive(Debug)]
pub(crate) struct ContextIds {
    /// One bit for each id, set while taken; grows with the greatest id taken.
    taken: Vec<u64>,
    generation: u32,
}

impl ContextIds {
    /// How many windows there are to try.
    pub(crate) const WINDOWS: u32 = END / WINDOW;

    pub(crate) fn new() -> Self {
        let mut ids = Self { taken: Vec::new(), generation: 0 };
        // 0 is never handed out.
        ids.take(0);
        ids
    }

    /// What this rank has free in a window.
    pub(crate) fn offer(&self, window: u32, oversubscribed: bool) -> Offer {
        let mut offer = [0; WORDS + 2];
        let first = window as usize * WORDS;
        for (word, free) in offer[..WORDS].iter_mut().enumerate() {
            *free = !self.taken.get(first + word).copied().unwrap_or(0);
        }
        offer[GENERATION] = u64::from(self.generation);
        offer[OVERSUBSCRIBED] = u64::from(oversubscribed);
        offer
    }

    /// What follows from the merged offers; `None` when no id of the window is free everywhere.
    /// Notes the new generation, takes nothing yet.
    pub(crate) fn agree(&mut self, window: u32, merged: &Offer) -> Option<Agreed> {
        let (word, bits) = merged[..WORDS].iter().enumerate().find(|(_, bits)| **bits != 0)?;
        let context = window * WINDOW + word as u32 * 64 + bits.trailing_zeros();
        self.generation = (merged[GENERATION] as u32).wrapping_add(1);
        let oversubscribed = merged[OVERSUBSCRIBED] != 0;
        Some(Agreed { context, generation: self.generation, oversubscribed })
    }

    pub(crate) fn take(&mut self, context: u32) {
        let word = context as usize / 64;
        if word >= self.taken.len() {
            self.taken.resize(word + 1, 0);
        }
        self.taken[word] |= 1 << (context % 64);
    }

    pub(crate) fn free(&mut self, context: u32) {
        self.taken[context as usize / 64] &= !(1 << (context % 64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_id_free_at_all_members_is_taken_and_generations_grow() {
        let mut a = ContextIds::new();
        let mut b = ContextIds::new();
        for id in 1..700 {
            a.take(id);
        }
        b.take(700);
        a.free(5);
        b.take(5);
        b.generation = 9;
        let mut agree = |window| {
            let mut merged = [b.offer(window, true)];
            Merge.combine(&[a.offer(window, false)], &mut merged);
            (a.agree(window, &merged[0]), b.agree(window, &merged[0]))
        };
        assert!(agree(0).0.is_none());
        let (at_a, at_b) = agree(1);
        let (at_a, at_b) = (at_a.unwrap(), at_b.unwrap());
        assert_eq!((at_a.context, at_a.generation, at_a.oversubscribed), (701, 10, true));
        assert_eq!((at_b.context, at_b.generation), (701, 10));
        assert_eq!(agree(1).0.unwrap().generation, 11);
        assert_eq!(ContextIds::WINDOWS * WINDOW * 2, 65536);
    }
}
