//! What is to be reported: completions and failures, in the order in which they were noted, and flushes of
//! several endpoints, which complete once.

use std::collections::VecDeque;

use bowline_base::slab::{Key, Slab};

use crate::error::PeerFailure;
use crate::ids::{EpId, Posted, Source, Token};
use crate::signal_sink::SignalSink;
use crate::sink::Sink;

/// What a sink is to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// See [`Sink::completed`].
    Completed(Token, Result<u64, PeerFailure>),
    /// See [`Sink::failed`].
    Failed(Option<Source>, Option<EpId>, PeerFailure),
}

/// What waits for the end of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionOf {
    /// The operation of this token.
    Token(Token),
    /// One part of a group; see [`EventQueue::open_group`].
    Part(Key),
}

/// Parts that are under way, and how the first failed.
#[derive(Debug)]
struct Group {
    token: Token,
    left: usize,
    result: Result<u64, PeerFailure>,
}

/// Events on their way to the sink.
#[derive(Debug, Default)]
pub struct EventQueue {
    events: VecDeque<Event>,
    groups: Slab<Group>,
}

impl EventQueue {
    /// A queue that takes `events` before it allocates.
    pub fn with_capacity(events: usize) -> Self {
        Self { events: VecDeque::with_capacity(events), groups: Slab::default() }
    }

    /// Makes space, so that `events` more need no allocation.
    pub fn reserve(&mut self, events: usize) {
        self.events.reserve(events);
    }

    /// How many more events need no allocation.
    pub fn spare(&self) -> usize {
        self.events.capacity() - self.events.len()
    }

    /// Whether nothing is to be reported.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// How many events are to be reported.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// The operation of `token` is complete; [`Token::NONE`] asks for no event.
    #[inline]
    pub fn complete(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        if token != Token::NONE {
            self.events.push_back(Event::Completed(token, result));
        }
    }

    /// A peer has failed. The operations in flight to it have been completed before.
    pub fn fail(&mut self, source: Option<Source>, ep: Option<EpId>, how: PeerFailure) {
        self.events.push_back(Event::Failed(source, ep, how));
    }

    /// Completes what `waiter` names.
    pub fn answer(&mut self, waiter: CompletionOf, result: Result<u64, PeerFailure>) {
        let key = match waiter {
            CompletionOf::Token(token) => return self.complete(token, result),
            CompletionOf::Part(key) => key,
        };
        let Some(group) = self.groups.get_mut(key) else { return };
        group.left -= 1;
        group.result = group.result.and(result);
        if group.left == 0
            && let Some(group) = self.groups.remove(key)
        {
            self.complete(group.token, group.result.map(|_| 0));
        }
    }

    /// Begins an operation of several parts, which completes when all of them have: with the first failure,
    /// if there was one. It has a part of its own until [`EventQueue::close_group`], so that it does not
    /// complete before all parts are posted.
    pub fn open_group(&mut self, token: Token) -> Key {
        self.groups.insert(Group { token, left: 1, result: Ok(0) })
    }

    /// One more part: what is to be answered when it has ended.
    #[must_use]
    pub fn add_part(&mut self, key: Key) -> CompletionOf {
        if let Some(group) = self.groups.get_mut(key) {
            group.left += 1;
        }
        CompletionOf::Part(key)
    }

    /// All parts are posted. Where all have completed, the operation is done, and no event follows, unless
    /// one of them has failed.
    pub fn close_group(&mut self, key: Key) -> Posted {
        match self.groups.get(key) {
            Some(Group { left: 1, result: Ok(_), .. }) | None => {
                self.groups.remove(key);
                Posted::Done
            }
            Some(_) => {
                self.answer(CompletionOf::Part(key), Ok(0));
                Posted::InFlight
            }
        }
    }

    /// The endpoint is closed: nothing that is still to be reported names it.
    pub fn forget(&mut self, ep: EpId) {
        self.events.retain_mut(|event| match event {
            Event::Failed(source, of, _) if *of == Some(ep) => {
                *of = None;
                source.is_some()
            }
            _ => true,
        });
    }

    /// Forgets all events, which nobody will hear.
    pub fn clear(&mut self) {
        self.events.clear();
    }

    /// The next event, for a transport that has to read it on its way to the sink.
    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Offers the completions in front of the first failure, `budget` of which are taken at most; returns how many. By
    /// the rule of [`SignalSafe`](crate::SignalSafe).
    pub fn offer(&mut self, sink: &mut dyn SignalSink, budget: u32) -> u32 {
        let (mut at, mut taken) = (0, 0);
        while taken < budget
            && let Some(&Event::Completed(token, result)) = self.events.get(at)
        {
            if sink.offer_completion(token, result) {
                self.events.remove(at);
                taken += 1;
            } else {
                at += 1;
            }
        }
        taken
    }

    /// Reports at most `budget` events. Returns how many.
    pub fn report(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut reported = 0;
        while reported < budget
            && let Some(event) = self.events.pop_front()
        {
            match event {
                Event::Completed(token, result) => sink.completed(token, result),
                Event::Failed(source, ep, how) => sink.failed(source, ep, how),
            }
            reported += 1;
        }
        reported
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::{Arrival, Verdict};

    #[derive(Default)]
    struct Heard(Vec<Event>);

    impl Sink for Heard {
        fn am(&mut self, _: Arrival<'_>) -> Verdict {
            unreachable!("a queue of events has no messages")
        }
        fn completed(&mut self, token: Token, result: Result<u64, PeerFailure>) {
            self.0.push(Event::Completed(token, result));
        }
        fn writable(&mut self, _: EpId) {
            unreachable!("a queue of events lists no endpoints")
        }
        fn failed(&mut self, source: Option<Source>, ep: Option<EpId>, how: PeerFailure) {
            self.0.push(Event::Failed(source, ep, how));
        }
    }

    #[test]
    fn events_keep_their_order_and_the_budget() {
        let mut queue = EventQueue::default();
        queue.complete(Token(1), Ok(7));
        queue.complete(Token::NONE, Ok(8));
        queue.fail(Some(Source(2)), Some(EpId(3)), PeerFailure::Died);
        queue.complete(Token(4), Err(PeerFailure::Died));
        let mut heard = Heard::default();
        assert_eq!((queue.report(&mut heard, 0), queue.report(&mut heard, 2)), (0, 2));
        assert_eq!((queue.len(), queue.report(&mut heard, 9), queue.is_empty()), (1, 1, true));
        let failed = Event::Failed(Some(Source(2)), Some(EpId(3)), PeerFailure::Died);
        let last = Event::Completed(Token(4), Err(PeerFailure::Died));
        assert_eq!(heard.0, [Event::Completed(Token(1), Ok(7)), failed, last]);
    }

    /// Takes completions with odd tokens.
    #[derive(Default)]
    struct Odd(Vec<u64>);

    impl SignalSink for Odd {
        fn offer(&mut self, _: &Arrival<'_>) -> bool {
            unreachable!("a queue of events has no messages")
        }
        fn offer_completion(&mut self, token: Token, _: Result<u64, PeerFailure>) -> bool {
            let odd = token.0 % 2 == 1;
            if odd {
                self.0.push(token.0);
            }
            odd
        }
    }

    #[test]
    fn completions_before_a_failure_are_offered_and_others_keep_their_order() {
        let mut queue = EventQueue::with_capacity(8);
        let spare = queue.spare();
        assert!(spare >= 8);
        for token in [1, 2, 3, 4, 5] {
            queue.complete(Token(token), Ok(0));
        }
        queue.fail(None, Some(EpId(1)), PeerFailure::Died);
        queue.complete(Token(7), Ok(0));
        assert_eq!(queue.spare(), spare - 7);
        let mut sink = Odd::default();
        assert_eq!((queue.offer(&mut sink, 2), queue.offer(&mut sink, 9)), (2, 1));
        assert_eq!(sink.0, [1, 3, 5]);
        let left = [
            Event::Completed(Token(2), Ok(0)),
            Event::Completed(Token(4), Ok(0)),
            Event::Failed(None, Some(EpId(1)), PeerFailure::Died),
            Event::Completed(Token(7), Ok(0)),
        ];
        assert_eq!(std::array::from_fn(|_| queue.pop()), left.map(Some));
    }

    #[test]
    fn a_group_completes_once_with_its_first_failure() {
        let mut queue = EventQueue::default();
        let key = queue.open_group(Token(7));
        let (a, b) = (queue.add_part(key), queue.add_part(key));
        assert_eq!(queue.close_group(key), Posted::InFlight);
        queue.answer(a, Err(PeerFailure::Died));
        assert!(queue.is_empty(), "a part is under way");
        queue.answer(b, Err(PeerFailure::Closed));
        assert_eq!(queue.pop(), Some(Event::Completed(Token(7), Err(PeerFailure::Died))));
        queue.answer(b, Ok(5));
        assert_eq!(queue.pop(), None, "the group is over");
    }

    #[test]
    fn a_group_does_not_complete_before_it_is_closed() {
        let mut queue = EventQueue::default();
        let key = queue.open_group(Token(1));
        let part = queue.add_part(key);
        queue.answer(part, Ok(0));
        assert!(queue.is_empty());
        assert_eq!(queue.close_group(key), Posted::Done, "nothing is under way");
        assert!(queue.is_empty());
        let failed = queue.open_group(Token(2));
        let part = queue.add_part(failed);
        queue.answer(part, Err(PeerFailure::Died));
        assert_eq!(queue.close_group(failed), Posted::InFlight);
        assert_eq!(queue.pop(), Some(Event::Completed(Token(2), Err(PeerFailure::Died))));
        let silent = queue.open_group(Token::NONE);
        let part = queue.add_part(silent);
        assert_eq!(queue.close_group(silent), Posted::InFlight);
        queue.answer(part, Ok(0));
        queue.answer(CompletionOf::Token(Token::NONE), Ok(0));
        assert!(queue.is_empty(), "nobody asked");
    }

    #[test]
    fn what_is_closed_is_not_named() {
        let (mut queue, died) = (EventQueue::default(), PeerFailure::Died);
        queue.fail(None, Some(EpId(1)), died);
        queue.fail(Some(Source(5)), Some(EpId(1)), died);
        queue.fail(None, Some(EpId(2)), died);
        queue.complete(Token(1), Ok(0));
        queue.forget(EpId(1));
        let left: Vec<Event> = std::iter::from_fn(|| queue.pop()).collect();
        let (of_source, of_ep) = ((Some(Source(5)), None), (None, Some(EpId(2))));
        let expected = [of_source, of_ep].map(|(source, ep)| Event::Failed(source, ep, died));
        assert_eq!(left[..2], expected);
        assert_eq!(left[2..], [Event::Completed(Token(1), Ok(0))]);
    }
}
