//! The endpoints of an interface.
//!
//! ```text
//!   free ──insert──► open ──fail──► failed
//!     ▲               │               │
//!     └────remove─────┴────remove─────┘
//! ```
//! A number that is free is given out again, the latest first, so that numbers stay small.

use crate::error::PostError;
use crate::ids::EpId;

#[derive(Debug)]
enum Slot<T> {
    Free,
    Open(T),
    Failed(T),
}

/// Endpoints by number, with what a transport keeps for each.
#[derive(Debug)]
pub struct EpTable<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Default for EpTable<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> EpTable<T> {
    /// Endpoints that are open or failed.
    pub const fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many numbers have been given out: all numbers are below.
    pub const fn numbers(&self) -> usize {
        self.slots.len()
    }

    /// A new endpoint, open.
    pub fn insert(&mut self, value: T) -> EpId {
        if let Some(number) = self.free.pop() {
            self.slots[number as usize] = Slot::Open(value);
            return EpId(number);
        }
        self.slots.push(Slot::Open(value));
        // So that `remove` does not allocate.
        self.free.reserve(self.slots.len() - self.free.len());
        EpId(self.slots.len() as u32 - 1)
    }

    /// The endpoint, if it may take operations.
    #[inline]
    pub fn open(&self, ep: EpId) -> Result<&T, PostError> {
        match self.slots.get(ep.0 as usize) {
            Some(Slot::Open(value)) => Ok(value),
            Some(Slot::Failed(_)) => Err(PostError::PeerFailed),
            Some(Slot::Free) | None => Err(PostError::BadEndpoint),
        }
    }

    /// The same, to be changed.
    #[inline]
    pub fn open_mut(&mut self, ep: EpId) -> Result<&mut T, PostError> {
        match self.slots.get_mut(ep.0 as usize) {
            Some(Slot::Open(value)) => Ok(value),
            Some(Slot::Failed(_)) => Err(PostError::PeerFailed),
            Some(Slot::Free) | None => Err(PostError::BadEndpoint),
        }
    }

    /// The endpoint, open or failed.
    #[inline]
    pub fn get(&self, ep: EpId) -> Option<&T> {
        match self.slots.get(ep.0 as usize)? {
            Slot::Open(value) | Slot::Failed(value) => Some(value),
            Slot::Free => None,
        }
    }

    /// From now on the endpoint takes no operations. Returns what is kept for it, if it was open.
    pub fn fail(&mut self, ep: EpId) -> Option<&mut T> {
        let slot = self.slots.get_mut(ep.0 as usize)?;
        match std::mem::replace(slot, Slot::Free) {
            Slot::Open(value) => {
                *slot = Slot::Failed(value);
                match slot {
                    Slot::Failed(value) => Some(value),
                    _ => None,
                }
            }
            other => {
                *slot = other;
                None
            }
        }
    }

    /// Frees the number; returns what was kept.
    pub fn remove(&mut self, ep: EpId) -> Option<T> {
        let slot = self.slots.get_mut(ep.0 as usize)?;
        match std::mem::replace(slot, Slot::Free) {
            Slot::Open(value) | Slot::Failed(value) => {
                self.free.push(ep.0);
                Some(value)
            }
            Slot::Free => None,
        }
    }

    /// The endpoints that may take operations.
    pub fn iter_open(&self) -> impl Iterator<Item = (EpId, &T)> {
        (0..).zip(&self.slots).filter_map(|(number, slot)| match slot {
            Slot::Open(value) => Some((EpId(number), value)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_endpoint_lives_as_drawn() {
        let mut table = EpTable::default();
        let (a, b) = (table.insert('a'), table.insert('b'));
        assert_eq!((table.open(a), table.open(b)), (Ok(&'a'), Ok(&'b')));
        assert_eq!(table.fail(a), Some(&mut 'a'));
        assert_eq!(table.fail(a), None, "it fails once");
        assert_eq!((table.open(a), table.get(a)), (Err(PostError::PeerFailed), Some(&'a')));
        assert_eq!((table.remove(a), table.remove(a)), (Some('a'), None));
        assert_eq!((table.open(a), table.get(a)), (Err(PostError::BadEndpoint), None));
        assert_eq!(table.open(EpId(7)), Err(PostError::BadEndpoint));
        assert_eq!((table.insert('c'), table.len(), table.numbers()), (a, 2, 2));
        assert_eq!(table.iter_open().collect::<Vec<_>>(), [(a, &'c'), (b, &'b')]);
    }

    proptest! {
        /// Whatever is opened and closed: different endpoints have different numbers, and there are no
        /// more numbers than endpoints were open at one time.
        #[test]
        fn numbers_are_different_and_few(steps in prop::collection::vec(any::<(bool, u8)>(), 1..200)) {
            let mut table = EpTable::default();
            let (mut open, mut most) = (Vec::new(), 0);
            for (step, (opens, which)) in steps.into_iter().enumerate() {
                if opens || open.is_empty() {
                    open.push((table.insert(step), step));
                } else {
                    let (ep, step) = open.swap_remove(usize::from(which) % open.len());
                    prop_assert_eq!(table.remove(ep), Some(step));
                }
                most = most.max(open.len());
                prop_assert!(open.iter().all(|(ep, step)| table.open(*ep) == Ok(step)));
                prop_assert_eq!((table.len(), table.numbers()), (open.len(), most));
            }
        }
    }
}
