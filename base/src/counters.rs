//! Counters that are always compiled in: plain words owned by the thread that counts.
//!
//! A group is a struct made by [`counters!`](crate::counters!): one `u64` field per counter, with
//! a sentence that says what it counts. Counting is `self.counters.am_short += 1`: one add to a
//! line that its owner has in its cache anyway, so there is no level at which it is switched off.
//! A group belongs to one thread at a time, like the worker or interface that holds it; readers
//! take a [`Snapshot`] through their owner. It is not a place for times or distributions, and not
//! for words that several processes write.

use std::fmt;

/// Name and meaning of one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The field's name.
    pub name: &'static str,
    /// What it counts, in a sentence.
    pub doc: &'static str,
}

/// A struct of counters, implemented by [`counters!`](crate::counters!).
pub trait CounterGroup {
    /// The group's name, for instance `ShmCounters`.
    const GROUP: &'static str;
    /// Its counters, in the order of the fields.
    const COUNTERS: &'static [Counter];

    /// Shows each counter's value, in the order of [`CounterGroup::COUNTERS`].
    fn visit(&self, show: &mut dyn FnMut(u64));

    /// The values as they are now.
    fn snapshot(&self) -> Snapshot {
        let mut values = Vec::with_capacity(Self::COUNTERS.len());
        self.visit(&mut |value| values.push(value));
        Snapshot { group: Self::GROUP, counters: Self::COUNTERS, values }
    }
}

/// The values of a group at one moment.
///
/// `{}` prints one line `group.name = value` for each counter that is not zero; `{:#}` prints all
/// of them, with their sentences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    group: &'static str,
    counters: &'static [Counter],
    values: Vec<u64>,
}

impl Snapshot {
    /// The group's name.
    pub const fn group(&self) -> &'static str {
        self.group
    }

    /// Every counter with its value.
    pub fn rows(&self) -> impl Iterator<Item = (&'static Counter, u64)> + '_ {
        self.counters.iter().zip(self.values.iter().copied())
    }

    /// The value of the counter `name`, or `None` when the group has no such counter.
    pub fn value(&self, name: &str) -> Option<u64> {
        self.rows().find(|(counter, _)| counter.name == name).map(|(_, value)| value)
    }

    /// What was counted since `earlier`, a snapshot of the same group.
    ///
    /// # Panics
    /// When `earlier` is of another group.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        assert_eq!(self.group, earlier.group, "snapshots of different groups have no difference");
        let values = self.values.iter().zip(&earlier.values);
        let values = values.map(|(now, then)| now.wrapping_sub(*then)).collect();
        Self { group: self.group, counters: self.counters, values }
    }

    /// The sum of this and `other`, a snapshot of the same group on another worker.
    ///
    /// # Panics
    /// When `other` is of another group.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        assert_eq!(self.group, other.group, "snapshots of different groups have no sum");
        let values = self.values.iter().zip(&other.values);
        let values = values.map(|(a, b)| a.wrapping_add(*b)).collect();
        Self { group: self.group, counters: self.counters, values }
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (counter, value) in self.rows() {
            if f.alternate() {
                writeln!(f, "{}.{} = {value}  # {}", self.group, counter.name, counter.doc)?;
            } else if value != 0 {
                writeln!(f, "{}.{} = {value}", self.group, counter.name)?;
            }
        }
        Ok(())
    }
}

/// Declares a group of counters. Every counter needs a sentence.
///
/// ```
/// use bowline_base::counters::CounterGroup as _;
///
/// bowline_base::counters! {
///     /// What a queue counts.
///     pub struct QueueCounters {
///         /// Messages that were put in.
///         pushed,
///         /// Messages that were refused because the queue was full.
///         refused,
///     }
/// }
///
/// let mut counters = QueueCounters::default();
/// counters.pushed += 1;
/// assert_eq!(counters.snapshot().value("pushed"), Some(1));
/// assert_eq!(QueueCounters::COUNTERS[1].doc, "Messages that were refused because the queue was full.");
/// ```
#[macro_export]
macro_rules! counters {
    (
        $(#[$outer:meta])*
        $visibility:vis struct $group:ident {
            $( $(#[doc = $doc:literal])+ $name:ident ),+ $(,)?
        }
    ) => {
        $(#[$outer])*
        #[derive(Clone, Debug, Default)]
        $visibility struct $group {
            $( $(#[doc = $doc])+ pub $name: u64, )+
        }

        impl $crate::counters::CounterGroup for $group {
            const GROUP: &'static str = stringify!($group);
            const COUNTERS: &'static [$crate::counters::Counter] = &[
                $( $crate::counters::Counter {
                    name: stringify!($name),
                    doc: $crate::counters::sentence(concat!($($doc),+)),
                }, )+
            ];
            fn visit(&self, show: &mut dyn FnMut(u64)) {
                $( show(self.$name); )+
            }
        }
    };
}

/// A documentation comment as a sentence: without the blank after `///`. For the macros of this
/// crate.
#[doc(hidden)]
pub const fn sentence(doc: &'static str) -> &'static str {
    let doc = doc.trim_ascii();
    assert!(!doc.is_empty(), "a counter or setting needs a sentence that says what it is");
    doc
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::counters! {
        /// Counted here.
        struct Sample {
            /// The first thing,
            /// on two lines.
            first,
            /// The second thing.
            second,
        }
    }

    #[test]
    fn values_keep_their_names_and_differences_are_exact() {
        let mut counters = Sample::default();
        counters.first += 2;
        let before = counters.snapshot();
        counters.first += 3;
        counters.second += 1;
        let after = counters.snapshot();
        assert_eq!(after.value("first"), Some(5));
        assert_eq!(after.value("none such"), None);
        let between = after.since(&before);
        assert_eq!((between.value("first"), between.value("second")), (Some(3), Some(1)));
        assert_eq!(before.plus(&between), after);
    }

    #[test]
    fn zeros_are_shown_only_when_asked_for() {
        let counters = Sample { first: 0, second: 7 };
        let shown = counters.snapshot();
        assert_eq!(shown.to_string(), "Sample.second = 7\n");
        let all = format!("{shown:#}");
        assert!(all.contains("Sample.first = 0  # The first thing, on two lines."), "{all}");
    }

    #[test]
    fn a_group_is_no_larger_than_its_words() {
        assert_eq!(size_of::<Sample>(), 16);
    }
}
