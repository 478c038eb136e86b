//! Entries in the order of their keys: few in a list, many in a tree.
//!
//! Most spaces of a rank are one piece, and most stages have two operations. A tree allocates a node of some hundred bytes
//! for these, and searches longer.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Most entries of a list.
const FEW: usize = 16;

#[derive(Clone, Debug)]
pub(super) enum Sorted<K, V> {
    Few(Vec<(K, V)>),
    Many(BTreeMap<K, V>),
}

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

/// How many entries of a list have a lower key.
fn below<K: Ord, V>(few: &[(K, V)], key: &K) -> usize {
    few.iter().position(|(other, _)| other >= key).unwrap_or(few.len())
}

impl<K: Copy + Ord, V> Sorted<K, V> {
    /// Adds an entry, or replaces the one of the same key.
    pub(super) fn insert(&mut self, key: K, value: V) {
        match self {
            Self::Few(few) => {
                let at = below(few, &key);
                if let Some((other, old)) = few.get_mut(at)
                    && *other == key
                {
                    *old = value;
                } else if few.len() < FEW {
                    few.insert(at, (key, value));
                } else {
                    let mut many: BTreeMap<_, _> = std::mem::take(few).into_iter().collect();
                    many.insert(key, value);
                    *self = Self::Many(many);
                }
            }
            Self::Many(many) => drop(many.insert(key, value)),
        }
    }

    pub(super) fn remove(&mut self, key: K) -> Option<V> {
        match self {
            Self::Few(few) => {
                let at = below(few, &key);
                few.get(at).is_some_and(|(other, _)| *other == key).then(|| few.remove(at).1)
            }
            Self::Many(many) => many.remove(&key),
        }
    }

    pub(super) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        match self {
            Self::Few(few) => {
                few.iter_mut().find(|(other, _)| *other == key).map(|(_, value)| value)
            }
            Self::Many(many) => many.get_mut(&key),
        }
    }

    /// The entry with the greatest key below one.
    pub(super) fn last_below(&mut self, key: K) -> Option<(K, &mut V)> {
        match self {
            Self::Few(few) => {
                let at = below(few, &key).checked_sub(1)?;
                let (key, value) = &mut few[at];
                Some((*key, value))
            }
            Self::Many(many) => many.range_mut(..key).next_back().map(|(key, value)| (*key, value)),
        }
    }

    /// Goes through the entries from the last one whose key is at most `from` on, up to keys below `end`.
    pub(super) fn visit<B>(
        &self,
        from: K,
        end: K,
        mut each: impl FnMut(K, &V) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        match self {
            Self::Few(few) => {
                let behind = few.iter().position(|(key, _)| *key > from).unwrap_or(few.len());
                let mut rest = few[behind.saturating_sub(1)..].iter();
                rest.try_for_each(|(key, value)| {
                    if *key < end { each(*key, value) } else { ControlFlow::Continue(()) }
                })
            }
            Self::Many(many) => {
                let first = many.range(..=from).next_back().map_or(from, |(key, _)| *key);
                if first >= end {
                    return ControlFlow::Continue(());
                }
                many.range(first..end).try_for_each(|(key, value)| each(*key, value))
            }
        }
    }

    /// The entry with the least key that is at least this one.
    pub(super) fn first_from(&self, key: K) -> Option<(K, &V)> {
        match self {
            Self::Few(few) => few.get(below(few, &key)).map(|(key, value)| (*key, value)),
            Self::Many(many) => many.range(key..).next().map(|(key, value)| (*key, value)),
        }
    }

    pub(super) fn clear(&mut self) {
        match self {
            Self::Few(few) => few.clear(),
            Self::Many(_) => *self = Self::default(),
        }
    }
}

impl<K: Ord, V: PartialEq> PartialEq for Sorted<K, V> {
    fn eq(&self, other: &Self) -> bool {
        let same = |few: &[(K, V)], many: &BTreeMap<K, V>| {
            few.len() == many.len()
                && few.iter().zip(many).all(|(one, other)| (&one.0, &one.1) == other)
        };
        match (self, other) {
            (Self::Few(one), Self::Few(other)) => one == other,
            (Self::Many(one), Self::Many(other)) => one == other,
            (Self::Few(few), Self::Many(many)) | (Self::Many(many), Self::Few(few)) => {
                same(few, many)
            }
        }
    }
}

impl<K: Ord, V: Eq> Eq for Sorted<K, V> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a tree, with more entries than a list has.
        #[test]
        fn lists_and_trees_are_one(
            acts in prop::collection::vec((0..4_u8, 0..60_u32, any::<u8>()), 0..120),
            at in 0..60_u32, len in 0..30_u32,
        ) {
            let (mut sorted, mut tree) = (Sorted::default(), BTreeMap::new());
            for (act, key, value) in acts {
                if act == 0 {
                    prop_assert_eq!(sorted.remove(key), tree.remove(&key));
                } else {
                    sorted.insert(key, value);
                    tree.insert(key, value);
                }
                if value == 0 && act == 1 {
                    sorted.clear();
                    tree.clear();
                }
            }
            let of_tree = tree.range_mut(..at).next_back().map(|(key, value)| (*key, *value));
            prop_assert_eq!(sorted.last_below(at).map(|(key, value)| (key, *value)), of_tree);
            let of_tree = tree.range(at..).next().map(|(key, value)| (*key, *value));
            prop_assert_eq!(sorted.first_from(at).map(|(key, value)| (key, *value)), of_tree);
            prop_assert_eq!(sorted.get_mut(at).copied(), tree.get(&at).copied());
            let mut seen = Vec::new();
            let went = sorted.visit(at, at + len, |key, value| {
                seen.push((key, *value));
                ControlFlow::<()>::Continue(())
            });
            prop_assert!(went.is_continue());
            let first = tree.range(..=at).next_back().map_or(at, |(key, _)| *key);
            let wanted: Vec<_> = tree
                .iter()
                .filter(|(key, _)| **key >= first && **key < at + len)
                .map(|(key, value)| (*key, *value))
                .collect();
            prop_assert_eq!(seen, wanted);
            let (other, mut less) = (Sorted::Many(tree.clone()), tree);
            prop_assert!(sorted == other);
            prop_assert!(other == sorted);
            if less.pop_first().is_some() {
                prop_assert!(sorted != Sorted::Many(less));
            }
        }
    }
}
