//! The numbers of the collectives of a communicator that are done in the background, by which their messages are kept
//! apart. Blocking ones have no such list: a rank is in one of them at a time.
//!
//! There are 2^22 for each kind ([`tags`]), and then they come again. Rules:
//! 1. A rank takes them in the order in which it starts nonblocking collectives, or makes persistent ones, which is the
//!    same at all members. What fails once its arguments have been found right has taken its number, too.
//! 2. A number is in use at a rank for as long as its collective may send or receive there: that of a nonblocking one
//!    until it has ended, that of a persistent one until it is freed.
//! 3. A collective whose number is in use at this rank is refused there, and sends nothing.
//!
//! So messages of two collectives with one number never mix, although ranks end and free them at times of their own
//! and agree on nothing. At each rank the first has ended before the second begins (rule 3). Hence a rank has sent
//! all that it sends another one in the first before it sends anything in the second, and the other has posted its
//! receives in that order, too; and messages of one tag from one rank match in their order.
//!
//! A rank that still has the first is refused where another one, which has freed it, is not. That one waits for it then, as
//! in every collective that is refused at one member.

use std::cell::RefCell;

use super::CommInner;
use crate::comm::Communicator;
use crate::error::MpiError;
use crate::tags::{self, Kind};

/// The numbers of one kind.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    next: u32,
    /// A bit for each number that was ever taken: it is in use.
    used: Vec<u64>,
}

impl Numbers {
    /// Takes the next number (rules 1 and 3).
    fn take(&mut self) -> Result<u32, MpiError> {
        let number = self.next;
        self.next = (number + 1) % tags::NUMBERS;
        let (word, bit) = Self::place(number);
        if word >= self.used.len() {
            self.used.resize(word + 1, 0);
        }
        if self.used[word] & bit != 0 {
            return Err(MpiError::NumberInUse);
        }
        self.used[word] |= bit;
        Ok(number)
    }

    /// Its collective neither sends nor receives any more (rule 2).
    fn free(&mut self, number: u32) {
        let (word, bit) = Self::place(number);
        debug_assert!(self.used[word] & bit != 0, "a number is freed once");
        self.used[word] &= !bit;
    }

    const fn place(number: u32) -> (usize, u64) {
        ((number / 64) as usize, 1 << (number % 64))
    }
}

impl CommInner {
    /// The tag of the collective that is made now, to be done in the background once or, if `again`, as often as
    /// one likes. Its number is in use until [`free_tag`](Self::free_tag).
    ///
    /// # Errors
    /// [`MpiError::NumberInUse`].
    pub(crate) fn next_tag(&self, again: bool) -> Result<u64, MpiError> {
        if !self.collecting.get() {
            self.begin_collecting();
        }
        let kind = if again { Kind::Persistent } else { Kind::Nonblocking };
        let number = self.numbers().borrow_mut()[usize::from(again)].take()?;
        Ok(tags::collective_of(kind, self.generation, number))
    }

    /// The collective with this tag neither sends nor receives any more.
    pub(crate) fn free_tag(&self, again: bool, tag: u64) {
        self.numbers().borrow_mut()[usize::from(again)].free(tags::number(tag));
    }

    fn numbers(&self) -> &RefCell<[Numbers; 2]> {
        self.numbers.get_or_init(Box::default)
    }
}

impl Communicator {
    /// For tests, called by all members: as if so many collectives of each kind had been done in the background, and
    /// none were there any more.
    #[doc(hidden)]
    pub fn skip_background_numbers(&self, count: u32) {
        for numbers in &mut *self.inner.numbers().borrow_mut() {
            numbers.next = (numbers.next + count % tags::NUMBERS) % tags::NUMBERS;
        }
    }
}
