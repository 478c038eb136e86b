//! Registrations of memory that somebody lends for a time, shared by all who lend the same bytes for the same purpose
//! meanwhile.
//!
//! **Rules.** (1) A lender keeps the bytes mapped from `lend` to `give_back`. (2) A registration is made by the first
//! loan of its bytes and ends with the last one that is given back. So there is always a loan while it exists, and by
//! (1) its bytes have been mapped all the time: it is never one of memory that was unmapped and mapped anew. (3) Bytes
//! that peers may write are not lent here: each lender must be able to shut them at once.
//!
//! There are no more registrations than loans, and each loan is an operation or a handle, so nothing needs a bound of
//! its own.

use std::collections::BTreeMap;

use bowline_base::slab::{Key, Slab};

use crate::sys::Access;

/// What is lent, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bytes {
    pub(super) start: u64,
    pub(super) len: usize,
    pub(super) access: Access,
}

#[derive(Debug)]
struct Loan<R> {
    registration: R,
    bytes: Bytes,
    lenders: u32,
}

/// Registrations of lent memory. `R` is what ends one when it is dropped.
#[derive(Debug)]
pub(super) struct Loans<R> {
    loans: Slab<Loan<R>>,
    by_bytes: BTreeMap<Bytes, Key>,
}

impl<R> Default for Loans<R> {
    fn default() -> Self {
        Self { loans: Slab::default(), by_bytes: BTreeMap::new() }
    }
}

impl<R> Loans<R> {
    /// Lends `bytes`, which are registered if nobody else lends them.
    pub(super) fn lend<E>(
        &mut self,
        bytes: Bytes,
        register: impl FnOnce() -> Result<R, E>,
    ) -> Result<Key, E> {
        debug_assert!(bytes.access != Access::Remote, "rule 3");
        if let Some(key) = self.by_bytes.get(&bytes)
            && let Some(loan) = self.loans.get_mut(*key)
        {
            loan.lenders += 1;
            return Ok(*key);
        }
        let loan = Loan { registration: register()?, bytes, lenders: 1 };
        let key = self.loans.insert(loan);
        self.by_bytes.insert(bytes, key);
        Ok(key)
    }

    /// The registration of a loan.
    pub(super) fn of(&self, key: Key) -> Option<&R> {
        self.loans.get(key).map(|loan| &loan.registration)
    }

    /// Ends a loan; with the last one of its bytes their registration.
    pub(super) fn give_back(&mut self, key: Key) {
        let Some(loan) = self.loans.get_mut(key) else { return };
        loan.lenders -= 1;
        if loan.lenders == 0
            && let Some(loan) = self.loans.remove(key)
        {
            self.by_bytes.remove(&loan.bytes);
        }
    }

    /// Registrations.
    pub(super) fn len(&self) -> usize {
        self.loans.len()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;
    use std::rc::Rc;

    use proptest::prelude::*;

    use super::*;

    /// A registration: the mappings of its pages when it was made. Counts those that there are.
    struct Pinned {
        pages: Vec<u32>,
        alive: Rc<Cell<usize>>,
    }

    impl Pinned {
        fn new(pages: &[u32], alive: &Rc<Cell<usize>>) -> Self {
            alive.set(alive.get() + 1);
            Self { pages: pages.to_vec(), alive: Rc::clone(alive) }
        }
    }

    impl Drop for Pinned {
        fn drop(&mut self) {
            self.alive.set(self.alive.get() - 1);
        }
    }

    const PAGES: usize = 8;

    #[derive(Clone, Debug)]
    enum Step {
        /// Lends pages.
        Lend { from: usize, len: usize, access: Access },
        /// Gives back one of the loans.
        GiveBack(usize),
        /// Unmaps a page and maps another one at its address, if nobody lends it.
        Remap(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let access = prop_oneof![Just(Access::Read), Just(Access::Local), Just(Access::Exposed)];
        prop_oneof![
            4 => (0..PAGES, 1..=3_usize, access)
                .prop_map(|(from, len, access)| Step::Lend { from, len, access }),
            4 => (0..64_usize).prop_map(Step::GiveBack),
            2 => (0..PAGES).prop_map(Step::Remap),
        ]
    }

    proptest! {
        /// The registration of every loan is of the pages that are mapped now, is one for all who lend the same bytes
        /// for the same purpose, and does not outlive the last of them.
        #[test]
        fn no_loan_has_a_registration_of_pages_that_are_gone(
            steps in prop::collection::vec(step(), 1..200)
        ) {
            let alive = Rc::new(Cell::new(0));
            let mut loans = Loans::default();
            // What is mapped where, each mapping with a number of its own, and who lends what.
            let mut mapped: [u32; PAGES] = std::array::from_fn(|page| page as u32);
            let mut next = PAGES as u32;
            let mut lenders: Vec<(Key, Bytes)> = Vec::new();
            let pages = |bytes: &Bytes| {
                let from = bytes.start as usize / 4096;
                from..from + bytes.len / 4096
            };
            for step in steps {
                match step {
                    Step::Lend { from, len, access } => {
                        let len = len.min(PAGES - from);
                        let bytes = Bytes { start: from as u64 * 4096, len: len * 4096, access };
                        let register =
                            || Ok::<_, Infallible>(Pinned::new(&mapped[pages(&bytes)], &alive));
                        let Ok(key) = loans.lend(bytes, register);
                        lenders.push((key, bytes));
                    }
                    Step::GiveBack(at) if !lenders.is_empty() => {
                        let (key, _) = lenders.swap_remove(at % lenders.len());
                        loans.give_back(key);
                    }
                    Step::GiveBack(_) => {}
                    Step::Remap(page) => {
                        if !lenders.iter().any(|(_, bytes)| pages(bytes).contains(&page)) {
                            mapped[page] = next;
                            next += 1;
                        }
                    }
                }
                let mut distinct: Vec<Bytes> = lenders.iter().map(|(_, bytes)| *bytes).collect();
                distinct.sort_unstable();
                distinct.dedup();
                prop_assert_eq!((loans.len(), alive.get()), (distinct.len(), distinct.len()));
                for (key, bytes) in &lenders {
                    let pinned = loans.of(*key).expect("it is lent");
                    prop_assert_eq!(&pinned.pages[..], &mapped[pages(bytes)]);
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_registered_leaves_no_trace() {
        let mut loans = Loans::default();
        let bytes = Bytes { start: 4096, len: 10, access: Access::Exposed };
        assert_eq!(
            loans.lend(bytes, || Err("no memory may be locked")),
            Err("no memory may be locked")
        );
        assert_eq!(loans.len(), 0);
        let key = loans.lend(bytes, || Ok::<_, ()>(7)).expect("this time it can");
        assert_eq!(loans.of(key), Some(&7));
        loans.give_back(key);
        loans.give_back(key);
        assert_eq!((loans.of(key), loans.len()), (None, 0), "a second end does nothing");
    }
}
