//! Endpoints that wait for space.
//!
//! **Fairness.** (1) An endpoint stands in the list at most once. (2) Those that are ready are reported in the
//! order of asking. (3) One that is not ready, or for which the budget does not reach, keeps its place. (4) One
//! that is reported and asks again stands at the end. So no endpoint is passed by another one twice
//! while it is ready.

use std::collections::VecDeque;

use crate::ids::EpId;
use crate::sink::Sink;

/// Endpoints that asked for [`Sink::writable`], each at most once, in the order of asking.
#[derive(Debug, Default)]
pub struct WritableList {
    order: VecDeque<EpId>,
    /// By number: whether it stands in `order`.
    listed: Vec<bool>,
}

impl WritableList {
    /// Makes space for endpoints whose numbers are below `numbers`: then they ask without an allocation.
    pub fn reserve(&mut self, numbers: usize) {
        if numbers > self.listed.len() {
            self.listed.resize(numbers, false);
        }
        self.order.reserve(self.listed.len() - self.order.len());
    }

    /// Whether no endpoint waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The endpoints that wait, in order.
    pub fn iter(&self) -> impl Iterator<Item = EpId> + '_ {
        self.order.iter().copied()
    }

    /// The endpoint waits from now on.
    pub fn ask(&mut self, ep: EpId) {
        let number = ep.0 as usize;
        if number >= self.listed.len() {
            self.listed.resize(number + 1, false);
        }
        if !std::mem::replace(&mut self.listed[number], true) {
            self.order.push_back(ep);
        }
    }

    /// The endpoint waits no longer: it has failed or is closed.
    pub fn cancel(&mut self, ep: EpId) {
        if let Some(listed) = self.listed.get_mut(ep.0 as usize)
            && std::mem::take(listed)
        {
            self.order.retain(|&waiting| waiting != ep);
        }
    }

    /// Reports endpoints that are `ready`, at most `budget`. Returns how many. `ready` is asked once for each
    /// endpoint while the budget lasts; what it says yes to is reported.
    pub fn report(
        &mut self,
        sink: &mut dyn Sink,
        budget: u32,
        mut ready: impl FnMut(EpId) -> bool,
    ) -> u32 {
        let mut reported = 0;
        let mut kept = 0;
        for _ in 0..self.order.len() {
            if reported == budget {
                break;
            }
            let Some(ep) = self.order.pop_front() else { break };
            if ready(ep) {
                self.listed[ep.0 as usize] = false;
                sink.writable(ep);
                reported += 1;
            } else {
                self.order.push_back(ep);
                kept += 1;
            }
        }
        // Those that were asked and stay keep their places before the others.
        self.order.rotate_right(kept);
        reported
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::PeerFailure;
    use crate::ids::{Source, Token};
    use crate::sink::{Arrival, Verdict};

    #[derive(Default)]
    struct Reported(Vec<u32>);

    impl Sink for Reported {
        fn am(&mut self, _: Arrival<'_>) -> Verdict {
            unreachable!("a list of endpoints has no messages")
        }
        fn completed(&mut self, _: Token, _: Result<u64, PeerFailure>) {
            unreachable!("a list of endpoints completes nothing")
        }
        fn writable(&mut self, ep: EpId) {
            self.0.push(ep.0);
        }
        fn failed(&mut self, _: Option<Source>, _: Option<EpId>, _: PeerFailure) {
            unreachable!("a list of endpoints fails nobody")
        }
    }

    /// What is reported, with `ready` by number.
    fn report(list: &mut WritableList, budget: u32, ready: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut sink = Reported::default();
        let count = list.report(&mut sink, budget, |ep| ready(ep.0));
        assert_eq!(count as usize, sink.0.len());
        sink.0
    }

    #[test]
    fn asking_twice_is_answered_once() {
        let mut list = WritableList::default();
        list.reserve(2);
        for number in [1, 0, 1, 5] {
            list.ask(EpId(number));
        }
        list.cancel(EpId(5));
        list.cancel(EpId(9));
        assert_eq!(report(&mut list, 8, |_| true), [1, 0]);
        assert!(list.is_empty() && report(&mut list, 8, |_| true).is_empty());
        list.ask(EpId(5));
        assert_eq!(list.iter().collect::<Vec<_>>(), [EpId(5)], "it may ask again");
    }

    proptest! {
        /// Against the plain model: a list without duplicates, of which the first that are ready leave.
        #[test]
        fn the_ready_are_reported_in_order(
            steps in prop::collection::vec((any::<u8>(), 0..6_u32, 0..4_u32), 1..200),
        ) {
            let (mut list, mut model) = (WritableList::default(), Vec::new());
            for (kind, number, budget) in steps {
                match kind % 4 {
                    0 | 1 => {
                        list.ask(EpId(number));
                        if !model.contains(&number) {
                            model.push(number);
                        }
                    }
                    2 => {
                        list.cancel(EpId(number));
                        model.retain(|&other| other != number);
                    }
                    _ => {
                        let ready = |of: u32| kind & (4 << of) != 0;
                        let reported = report(&mut list, budget, ready);
                        let first = model.iter().copied().filter(|&of| ready(of));
                        let expected: Vec<u32> = first.take(budget as usize).collect();
                        prop_assert_eq!(&reported, &expected);
                        model.retain(|of| !reported.contains(of));
                    }
                }
                let waiting: Vec<u32> = list.iter().map(|ep| ep.0).collect();
                prop_assert_eq!(&waiting, &model);
            }
        }
    }
}
