//! The way from one interface to another: what is under way on it, and what has to wait for what.
//!
//! Rules of order between two operations of a link, the earlier one not applied yet: (1) an active
//! message waits for earlier ones, unless the link is raw, and for earlier puts, if the network says so; (2) an operation waits for those of
//! earlier epochs, which fences divide; (3) a put waits for earlier puts, and an atomic for earlier
//! puts, each if the network says so; (4) a notification waits for its put; (5) a flush and a close wait for everything. What
//! need not wait is applied as soon as it arrives.

use std::collections::{BTreeMap, BTreeSet};

use bowline_base::slab::Key;
use bowline_uct::PeerFailure;

use super::op::Class;

/// An operation that was not applied yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) op: Key,
    pub(crate) class: Class,
    pub(crate) epoch: u64,
    /// The put in front of a notification.
    pub(crate) after: Option<u64>,
    pub(crate) arrived: bool,
}

/// What the network promises beyond the least.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promises {
    pub(crate) am_ordered: bool,
    pub(crate) puts_ordered: bool,
    pub(crate) put_before_atomic: bool,
    pub(crate) put_before_am: bool,
}

/// One direction between two nodes.
#[derive(Debug, Default)]
pub(crate) struct Link {
    pub(crate) next_seq: u64,
    pub(crate) epoch: u64,
    pub(crate) pending: BTreeMap<u64, Pending>,
    /// Applied, the initiator not notified yet.
    pub(crate) done: BTreeSet<Key>,
    /// Given up.
    pub(crate) failed: Option<PeerFailure>,
}

impl Link {
    /// Enters an operation; returns its number.
    pub(crate) fn enter(&mut self, op: Key, class: Class, after: Option<u64>) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        let pending = Pending { op, class, epoch: self.epoch, after, arrived: false };
        self.pending.insert(seq, pending);
        seq
    }

    /// Takes out what can be applied now, in order.
    pub(crate) fn take_ready(&mut self, promises: Promises) -> Vec<Key> {
        let mut ready = Vec::new();
        let mut taken = Vec::new();
        // What stays and stands in front of the entry in question.
        let (mut am, mut put, mut oldest) = (false, false, None::<u64>);
        for (&seq, entry) in &self.pending {
            let stays_in_front =
                |after: u64| self.pending.contains_key(&after) && !taken.contains(&after);
            let waits = oldest.is_some_and(|epoch| epoch < entry.epoch)
                || entry.after.is_some_and(stays_in_front)
                || match entry.class {
                    Class::Am => am && promises.am_ordered || put && promises.put_before_am,
                    Class::Atomic => put && promises.put_before_atomic,
                    Class::Barrier => oldest.is_some(),
                    Class::Put => put && promises.puts_ordered,
                    Class::Get => false,
                };
            if entry.arrived && !waits {
                ready.push(entry.op);
                taken.push(seq);
                continue;
            }
            am |= entry.class == Class::Am;
            put |= entry.class == Class::Put;
            oldest = oldest.or(Some(entry.epoch));
        }
        for seq in taken {
            self.pending.remove(&seq);
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Promises = Promises {
        am_ordered: true,
        puts_ordered: true,
        put_before_atomic: true,
        put_before_am: true,
    };
    const NONE: Promises = Promises {
        am_ordered: false,
        puts_ordered: false,
        put_before_atomic: false,
        put_before_am: false,
    };

    fn key(word: u64) -> Key {
        Key::from_wire(word)
    }

    fn arrive(link: &mut Link, seq: u64) {
        link.pending.get_mut(&seq).expect("entered").arrived = true;
    }

    #[test]
    fn messages_wait_for_earlier_ones_unless_the_link_is_raw() {
        for (promises, first) in [(ALL, vec![]), (NONE, vec![key(2)])] {
            let mut link = Link::default();
            let a = link.enter(key(1), Class::Am, None);
            let b = link.enter(key(2), Class::Am, None);
            arrive(&mut link, b);
            assert_eq!(link.take_ready(promises), first);
            arrive(&mut link, a);
            let rest = link.take_ready(promises);
            assert_eq!(rest.len() + first.len(), 2);
            assert_eq!(rest[0], key(1));
        }
    }

    #[test]
    fn fences_divide_and_barriers_wait_for_all() {
        let mut link = Link::default();
        let put = link.enter(key(1), Class::Put, None);
        link.epoch += 1;
        let later = link.enter(key(2), Class::Put, None);
        let flush = link.enter(key(3), Class::Barrier, None);
        arrive(&mut link, later);
        arrive(&mut link, flush);
        assert_eq!(link.take_ready(ALL), []);
        arrive(&mut link, put);
        assert_eq!(link.take_ready(ALL), [key(1), key(2), key(3)]);
    }

    #[test]
    fn atomics_wait_for_puts_only_where_that_is_promised() {
        for (promises, early) in [(ALL, 0), (NONE, 1)] {
            let mut link = Link::default();
            link.enter(key(1), Class::Put, None);
            let atomic = link.enter(key(2), Class::Atomic, None);
            arrive(&mut link, atomic);
            assert_eq!(link.take_ready(promises).len(), early);
        }
    }

    #[test]
    fn notifications_wait_for_their_put() {
        let mut link = Link::default();
        let put = link.enter(key(1), Class::Put, None);
        let am = link.enter(key(2), Class::Am, Some(put));
        arrive(&mut link, am);
        assert_eq!(link.take_ready(NONE), []);
        arrive(&mut link, put);
        assert_eq!(link.take_ready(NONE), [key(1), key(2)]);
    }
}
