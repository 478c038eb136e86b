//! Context ids: small numbers that keep the messages of communicators apart.
//!
//! Each communicator has one id at all its members, and its two spaces are `2 id` and `2 id + 1`.
//! A freed id is used again at once; what keeps old messages out is the generation (see
//! [`tags`](crate::tags)).
//!
//! # Agreement
//! Every member offers what it has free, and the offers are merged, which does not depend on their
//! order. Two rounds are enough, however many ids are taken:
//! 1. Each offers the first window of ids in which it has a free one. If all offer the same window,
//!    as members do that have made the same communicators, the least id that all have free is it.
//! 2. Else each offers the greatest window of the first round; the least id that all have free is it.
//!    Where there is none, it is the id above all that any of them has taken.
//!
//! So ids stay dense, which lets the protocol layer index by them, and disjoint communicators share
//! them.

use std::cell::RefCell;
use std::collections::HashSet;

use crate::error::MpiError;
use crate::op::Operation;

/// The id of the world. The space 0 belongs to the protocol layer's own tag matching and the space 1
/// to the process (see [`agree`](crate::comm::agree)), so ids start at 1.
pub(crate) const WORLD: u32 = 1;
/// The id of a rank alone.
pub(crate) const OWN: u32 = 2;
/// One more than the last id that is agreed on.
const END: u32 = NAMED;
/// The first of the ids that one rank gives (see [`later`](crate::later)), each from a range of its own.
const NAMED: u32 = 1 << 30;
/// How many there are of them; the numbers of spaces have 32 bits.
const NAMES: u32 = 1 << 30;

/// Ids in one window: 64 bytes, so that an offer is hardly more than an empty message.
const WINDOW: u32 = 512;
const WORDS: usize = (WINDOW / 64) as usize;

/// A member's offer, or several merged: the free ids of a window, then the numbers below.
pub(crate) type Offer = [u64; WORDS + 5];
/// Which window it is.
const NUMBER: usize = WORDS;
/// The marks below.
const MARKS: usize = WORDS + 1;
/// One more than the greatest id taken.
const ABOVE: usize = WORDS + 2;
/// The greatest generation so far.
const GENERATION: usize = WORDS + 3;
/// What the algorithms of collectives are chosen by, as a hash.
const CHOICE: usize = WORDS + 4;

/// A member's processors have more ranks than it can run at once.
const OVERSUBSCRIBED: u64 = 1;
/// Members have offered different windows: the ids are those of only some of them.
const MIXED: u64 = 2;
/// Members would choose algorithms by different things.
const DIFFERENT: u64 = 4;
/// A member has given up before, and takes part only so that the others learn of it.
const GIVEN_UP: u64 = 8;

/// What the members of a new communicator have agreed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreed {
    pub(crate) context: u32,
    pub(crate) generation: u32,
    pub(crate) oversubscribed: bool,
}

/// What a member says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    /// Its processors have more ranks than it can run at once.
    pub(crate) oversubscribed: bool,
    /// The hash of what algorithms of collectives are chosen by.
    pub(crate) choice: u64,
    /// It has failed before: nothing is made.
    pub(crate) gives_up: bool,
}

/// Merges offers. To merge one twice changes nothing.
#[derive(Debug)]
pub(crate) struct Merge;

impl Merge {
    pub(crate) fn merge(left: &Offer, right: &mut Offer) {
        right[MARKS] |= left[MARKS];
        right[ABOVE] = right[ABOVE].max(left[ABOVE]);
        right[GENERATION] = right[GENERATION].max(left[GENERATION]);
        if left[CHOICE] != right[CHOICE] {
            right[MARKS] |= DIFFERENT;
        }
        if left[NUMBER] == right[NUMBER] {
            for word in 0..WORDS {
                right[word] &= left[word];
            }
            return;
        }
        right[MARKS] |= MIXED;
        if left[NUMBER] > right[NUMBER] {
            right[..=NUMBER].copy_from_slice(&left[..=NUMBER]);
        }
    }
}

impl Operation<Offer> for Merge {
    fn is_commutative(&self) -> bool {
        true
    }

    fn combine(&self, left: &[Offer], right: &mut [Offer]) {
        for (left, right) in left.iter().zip(right) {
            Self::merge(left, right);
        }
    }
}

/// Words in a piece of the table of ids.
const PIECE: usize = 512;

/// The ids that this rank has in use.
#[derive(Debug)]
pub(crate) struct ContextIds {
    /// One bit for each id, set while taken. Pieces that no id was ever taken of are not there.
    taken: Vec<Option<Box<[u64; PIECE]>>>,
    /// The first word with a free id.
    first: usize,
    /// One more than the greatest id taken.
    above: u32,
    generation: u32,
    /// Those in use that a rank has given.
    named: HashSet<u32>,
    /// How many this rank has given.
    given: u32,
    /// The generations that this rank has offered for what is made in the background.
    begun: Vec<u32>,
}

impl ContextIds {
    pub(crate) fn new() -> Self {
        let mut ids = Self {
            taken: Vec::new(),
            first: 0,
            above: 0,
            generation: 0,
            named: HashSet::new(),
            given: 0,
            begun: Vec::new(),
        };
        // 0 is never handed out.
        ids.take(0);
        ids
    }

    /// Agrees on an id by two rounds at most. `merged` gives an offer merged with those of all
    /// others, the same at all members. Takes nothing yet. Where choices differ, or a member gives up, the outcome is
    /// an error at every member.
    pub(crate) fn agree(
        ids: &RefCell<Self>,
        own: Member,
        mut merged: impl FnMut(Offer) -> Result<Offer, MpiError>,
    ) -> Result<Agreed, MpiError> {
        let first = ids.borrow().first / WORDS;
        let offer = |window| {
            let mut offer = ids.borrow().offer(window, own.oversubscribed);
            offer[CHOICE] = own.choice;
            offer[MARKS] |= if own.gives_up { GIVEN_UP } else { 0 };
            offer
        };
        let mut all = merged(offer(first))?;
        if all[MARKS] & GIVEN_UP != 0 {
            return Err(MpiError::MemberGaveUp);
        }
        if all[MARKS] & DIFFERENT != 0 {
            return Err(MpiError::ChoicesDiffer);
        }
        if all[MARKS] & MIXED != 0 || least(&all).is_none() {
            // A number from others leads no further than to an error.
            let window = usize::try_from(all[NUMBER]).unwrap_or(usize::MAX);
            if window >= (END / WINDOW) as usize {
                return Err(MpiError::TooManyCommunicators);
            }
            all = merged(offer(window))?;
        }
        ids.borrow_mut().settle(&all).ok_or(MpiError::TooManyCommunicators)
    }

    /// What this rank has free in a window.
    fn offer(&self, window: usize, oversubscribed: bool) -> Offer {
        let mut offer = [0; WORDS + 5];
        for (at, free) in offer[..WORDS].iter_mut().enumerate() {
            *free = !self.word(window * WORDS + at);
        }
        offer[NUMBER] = window as u64;
        offer[MARKS] = if oversubscribed { OVERSUBSCRIBED } else { 0 };
        offer[ABOVE] = u64::from(self.above);
        offer[GENERATION] = u64::from(self.generation);
        offer
    }

    /// What follows from the offers of the last round; `None` when no id is left. Notes the new
    /// generation.
    fn settle(&mut self, all: &Offer) -> Option<Agreed> {
        let context = least(all).or_else(|| u32::try_from(all[ABOVE]).ok())?;
        if context >= END {
            return None;
        }
        let generation = self.next_after(all[GENERATION] as u32);
        let oversubscribed = all[MARKS] & OVERSUBSCRIBED != 0;
        Some(Agreed { context, generation, oversubscribed })
    }

    /// The generation that follows the greatest one of the members, which this rank has now or had before.
    pub(crate) fn next_after(&mut self, greatest: u32) -> u32 {
        let next = greatest.wrapping_add(1);
        if (next.wrapping_sub(self.generation) as i32) > 0 {
            self.generation = next;
        }
        next
    }

    /// Something is made in the background: what this rank offers as its greatest generation.
    pub(crate) fn begin(&mut self) -> u32 {
        self.begun.push(self.generation);
        self.generation
    }

    /// What was begun with this offer has ended.
    pub(crate) fn end(&mut self, offered: u32) {
        if let Some(at) = self.begun.iter().position(|&begun| begun == offered) {
            self.begun.swap_remove(at);
        }
    }

    /// An id that only this rank gives and that is not in use here; none is left where there is none.
    pub(crate) fn name(&mut self, rank: u32, ranks: u32) -> Option<u32> {
        let own = NAMES / ranks.max(1);
        for _ in 0..=self.named.len() {
            let id = NAMED + rank * own + self.given.checked_rem(own)?;
            self.given = self.given.wrapping_add(1);
            if !self.named.contains(&id) {
                return Some(id);
            }
        }
        None
    }

    /// Whether a rank may have given an id.
    pub(crate) fn may_be_named(&self, id: u32) -> bool {
        (NAMED..NAMED + NAMES).contains(&id) && !self.named.contains(&id)
    }

    /// Whether an id is in use.
    pub(crate) fn is_taken(&self, context: u32) -> bool {
        if context >= NAMED {
            return self.named.contains(&context);
        }
        self.word(context as usize / 64) >> (context % 64) & 1 == 1
    }

    /// Whether communicators that this rank may still open can have a generation.
    pub(crate) fn is_to_come(&self, generation: u32) -> bool {
        // They are compared as they go round. What is made in the background is newer than the offer.
        let newer = |than: u32| (generation.wrapping_sub(than) as i32) > 0;
        newer(self.generation) || self.begun.iter().any(|&offered| newer(offered))
    }

    /// The word `at` of the bits.
    fn word(&self, at: usize) -> u64 {
        let piece = self.taken.get(at / PIECE).and_then(Option::as_deref);
        piece.map_or(0, |piece| piece[at % PIECE])
    }

    pub(crate) fn take(&mut self, context: u32) {
        if context >= NAMED {
            self.named.insert(context);
            return;
        }
        let at = context as usize / 64;
        if at / PIECE >= self.taken.len() {
            self.taken.resize_with(at / PIECE + 1, || None);
        }
        let piece = self.taken[at / PIECE].get_or_insert_with(|| Box::new([0; PIECE]));
        piece[at % PIECE] |= 1 << (context % 64);
        self.above = self.above.max(context + 1);
        while self.word(self.first) == u64::MAX {
            self.first += 1;
        }
    }

    pub(crate) fn free(&mut self, context: u32) {
        if context >= NAMED {
            self.named.remove(&context);
            return;
        }
        let at = context as usize / 64;
        if let Some(Some(piece)) = self.taken.get_mut(at / PIECE) {
            piece[at % PIECE] &= !(1 << (context % 64));
        }
        self.first = self.first.min(at);
        // What is walked over here was walked over by ids that were taken.
        while self.above > 0 {
            let last = self.above - 1;
            let below = self.word(last as usize / 64) & (u64::MAX >> (63 - last % 64));
            if below != 0 {
                self.above = (last / 64 * 64) + 64 - below.leading_zeros();
                break;
            }
            self.above = last / 64 * 64;
        }
    }
}

/// The least id that is free by an offer.
fn least(offer: &Offer) -> Option<u32> {
    let (at, bits) = offer[..WORDS].iter().enumerate().find(|(_, bits)| **bits != 0)?;
    let first = u32::try_from(offer[NUMBER]).ok()?.checked_mul(WINDOW)?;
    first.checked_add(at as u32 * 64 + bits.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBER: Member = Member { oversubscribed: true, choice: 5, gives_up: false };

    /// What members agree on, and in how many rounds: each round merges all offers of that round.
    fn agree(members: &[RefCell<ContextIds>]) -> (Agreed, usize) {
        // The offers of a round are those of all members that got the same merged offers before.
        let mut history: Vec<Offer> = Vec::new();
        loop {
            let mut offers = Vec::new();
            let mut outcome = None;
            for member in members {
                let before = ContextIds { generation: member.borrow().generation, ..copy(member) };
                let before = RefCell::new(before);
                let mut round = 0;
                let agreed = ContextIds::agree(&before, MEMBER, |offer| {
                    round += 1;
                    match history.get(round - 1) {
                        Some(merged) => Ok(*merged),
                        None => {
                            offers.push(offer);
                            Err(MpiError::Cancelled)
                        }
                    }
                });
                if let Ok(agreed) = agreed {
                    member.borrow_mut().generation = before.borrow().generation;
                    if let Some((first, _)) = outcome.replace((agreed, round)) {
                        let first: Agreed = first;
                        assert_eq!(
                            (first.context, first.generation),
                            (agreed.context, agreed.generation)
                        );
                    }
                }
            }
            if let Some(outcome) = outcome {
                assert!(offers.is_empty(), "some are done and others are not");
                return outcome;
            }
            let mut merged = offers[0];
            for offer in &offers {
                Merge.combine(&[*offer], std::slice::from_mut(&mut merged));
            }
            history.push(merged);
        }
    }

    fn copy(ids: &RefCell<ContextIds>) -> ContextIds {
        let ids = ids.borrow();
        let (taken, first, above) = (ids.taken.clone(), ids.first, ids.above);
        ContextIds { taken, first, above, generation: ids.generation, ..ContextIds::new() }
    }

    fn with(taken: impl IntoIterator<Item = u32>) -> RefCell<ContextIds> {
        let mut ids = ContextIds::new();
        taken.into_iter().for_each(|id| ids.take(id));
        RefCell::new(ids)
    }

    #[test]
    fn the_least_id_free_at_all_members_is_taken_and_generations_grow() {
        let members = [with(1..700), with([700])];
        members[0].borrow_mut().free(5);
        members[1].borrow_mut().take(5);
        members[1].borrow_mut().generation = 9;
        let (agreed, rounds) = agree(&members);
        assert_eq!((agreed.generation, agreed.oversubscribed), (10, true));
        assert_eq!((agreed.context, rounds), (701, 2));
        assert_eq!(agree(&members).0.generation, 11);
    }

    #[test]
    fn a_member_that_chooses_by_something_else_is_found_however_offers_are_merged() {
        let offer = |choice| {
            let mut offer = ContextIds::new().offer(0, false);
            offer[CHOICE] = choice;
            offer
        };
        for choices in [[5, 5, 6], [5, 6, 5], [6, 5, 5]] {
            let offers = choices.map(offer);
            let mut merged = offers[0];
            // Each more than once, as rounds of swaps do.
            for other in offers.iter().chain(&offers) {
                Merge::merge(other, &mut merged);
            }
            let ids = RefCell::new(ContextIds::new());
            let agreed = ContextIds::agree(&ids, MEMBER, |_| Ok(merged));
            assert_eq!(agreed.map(|agreed| agreed.context), Err(MpiError::ChoicesDiffer));
        }
        let mut alike = offer(5);
        Merge::merge(&offer(5), &mut alike);
        let ids = RefCell::new(ContextIds::new());
        assert!(ContextIds::agree(&ids, MEMBER, |_| Ok(alike)).is_ok());
        let mut given_up = offer(5);
        given_up[MARKS] |= GIVEN_UP;
        Merge::merge(&given_up, &mut alike);
        let agreed = ContextIds::agree(&ids, MEMBER, |_| Ok(alike));
        assert_eq!(agreed.map(|agreed| agreed.context), Err(MpiError::MemberGaveUp));
    }

    #[test]
    fn members_with_the_same_ids_agree_in_one_round_however_many() {
        for count in [1, 511, 512, 70_000, 1_000_000] {
            let members = [with(1..count), with(1..count), with(1..count)];
            let (agreed, rounds) = agree(&members);
            assert_eq!((agreed.context, rounds), (count.max(1), 1), "{count}");
        }
    }

    #[test]
    fn two_rounds_are_enough_where_no_window_has_an_id_for_all() {
        // Even ids here and odd ones there, up to different ends.
        let members = [with((0..2000).step_by(2)), with((1..3000).step_by(2))];
        let (agreed, rounds) = agree(&members);
        assert_eq!(rounds, 2);
        assert_eq!(agreed.context, 3000);
        for member in &members {
            assert_eq!(member.borrow().word(3000 / 64) >> (3000 % 64) & 1, 0);
        }
    }

    #[test]
    fn only_newer_generations_are_to_come() {
        let mut ids = ContextIds::new();
        ids.generation = u32::MAX;
        for (generation, expected) in
            [(u32::MAX, false), (7, true), (0, true), (u32::MAX - 3, false)]
        {
            assert_eq!(ids.is_to_come(generation), expected, "{generation}");
        }
        ids.take(70);
        assert!(ids.is_taken(0) && ids.is_taken(70) && !ids.is_taken(69) && !ids.is_taken(END - 1));
    }

    #[test]
    fn each_rank_gives_ids_of_its_own() {
        let mut ids = ContextIds::new();
        let ranks = 1000;
        let own = |rank| NAMED + rank * (NAMES / ranks)..NAMED + (rank + 1) * (NAMES / ranks);
        let first = ids.name(999, ranks).unwrap();
        ids.take(first);
        assert!(own(999).contains(&first) && ids.is_taken(first) && !ids.may_be_named(first));
        assert_eq!(ids.above, 1, "ids that are agreed on stay dense");
        // It goes round past what is in use.
        ids.given = 0;
        assert_eq!(ids.name(999, ranks), Some(first + 1));
        ids.free(first);
        assert!(ids.may_be_named(first) && !ids.may_be_named(NAMED - 1));
        assert!(!ids.may_be_named(u32::MAX));
        // With as many ranks as ids each has one.
        let mut last = ContextIds::new();
        let id = last.name(NAMES - 1, NAMES).unwrap();
        assert_eq!(id, NAMED + NAMES - 1);
        last.take(id);
        assert_eq!(last.name(NAMES - 1, NAMES), None);
    }

    #[test]
    fn what_is_made_in_the_background_is_to_come() {
        let mut ids = ContextIds::new();
        let offered = ids.begin();
        assert_eq!(ids.next_after(99), 100);
        assert!(ids.is_to_come(offered + 1), "its generation may be less than what came since");
        ids.end(offered);
        assert!(!ids.is_to_come(offered + 1) && ids.is_to_come(101));
        assert_eq!(ids.next_after(7), 8);
        assert_eq!(ids.generation, 100, "it does not go back");
    }

    #[test]
    fn ids_at_the_end_cost_little_memory_and_none_is_beyond() {
        let far = with([END - 1]);
        let pieces = far.borrow().taken.iter().flatten().count();
        assert_eq!(pieces, 2);
        let mut ids = far.borrow_mut();
        assert_eq!(ids.above, END);
        let mut offer = ids.offer(0, false);
        offer[..WORDS].fill(0);
        assert!(ids.settle(&offer).is_none(), "nothing is above the last id");
        ids.free(END - 1);
        assert_eq!(ids.above, 1);
        // What others say is bounded.
        offer[NUMBER] = u64::MAX;
        offer[0] = 1;
        assert!(least(&offer).is_none());
    }

    #[test]
    fn what_is_taken_and_freed_in_any_order_is_counted_right() {
        let mut ids = ContextIds::new();
        let mut taken = std::collections::BTreeSet::from([0_u32]);
        let mut state = 1_u64;
        for _ in 0..5000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let id = 1 + (state >> 40) as u32 % 1500;
            if taken.remove(&id) {
                ids.free(id);
            } else {
                taken.insert(id);
                ids.take(id);
            }
            assert_eq!(ids.above, taken.last().map_or(0, |last| last + 1));
            let free = (0..).find(|id| !taken.contains(id)).unwrap_or(0);
            assert_eq!(ids.first, free as usize / 64);
        }
    }
}
