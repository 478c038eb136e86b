//! What a receiver's program does with its matching queues, as a list of events.
//!
//! Every job begins and ends with empty queues, so that it can run again and again on the same
//! engines, as the steps of a program do.

use bowline_ucp::matching::{MatchEngine, Want};

use crate::clock::Done;

/// Which queue becomes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Receives are posted first.
    Posted,
    /// Messages arrive first.
    Unexpected,
}

impl Queue {
    /// Both.
    pub(crate) const BOTH: [Self; 2] = [Self::Posted, Self::Unexpected];

    /// Its name in the literature.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Posted => "PRQ",
            Self::Unexpected => "UMQ",
        }
    }
}

/// In which order a queue is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// From its oldest entry on.
    Forward,
    /// From its newest entry on.
    Reverse,
}

impl Order {
    /// Both.
    pub(crate) const BOTH: [Self; 2] = [Self::Forward, Self::Reverse];

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Reverse => "reverse",
        }
    }

    /// `0..n` in this order.
    pub(crate) fn of(self, n: u32) -> impl Iterator<Item = u32> {
        (0..n).map(move |k| match self {
            Self::Forward => k,
            Self::Reverse => n - 1 - k,
        })
    }
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// The program posts a receive, or a message arrives.
    pub(crate) receive: bool,
    /// The receive is for anyone.
    pub(crate) any: bool,
    /// In which communicator.
    pub(crate) comm: u16,
    /// From whom.
    pub(crate) source: u32,
    /// The tag.
    pub(crate) tag: u32,
}

/// A job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Job {
    /// What happens.
    pub(crate) events: Vec<Event>,
}

/// Set in tags of messages that receives for anyone are to get, so that every message has its
/// receive whatever the order.
const ANY_TAG: u32 = 64;

impl Job {
    /// Appends an event.
    pub(crate) fn push(&mut self, receive: bool, any: bool, comm: u16, source: u32, tag: u32) {
        let tag = if any { tag | ANY_TAG } else { tag };
        self.events.push(Event { receive, any: any && receive, comm, source, tag });
    }

    /// One queue of `senders * pending` entries is filled and emptied. Of four senders, `any` are
    /// received from by receives for anyone. With `stride`, senders are that far apart.
    pub(crate) fn one_queue(
        queue: Queue,
        order: Order,
        senders: u32,
        stride: u32,
        pending: u32,
        any: u32,
    ) -> Self {
        let mut job = Self::default();
        let first = queue == Queue::Posted;
        for (receive, order) in [(first, Order::Forward), (!first, order)] {
            for k in order.of(senders * pending) {
                let (sender, tag) = (k / pending, k % pending);
                job.push(receive, sender % 4 < any, 0, sender * stride, tag);
            }
        }
        job
    }

    /// The same in many communicators: filled communicator by communicator, and emptied in the same
    /// or in the other order of communicators.
    pub(crate) fn communicators(
        queue: Queue,
        comms: u16,
        across: Order,
        order: Order,
        senders: u32,
        pending: u32,
    ) -> Self {
        let mut job = Self::default();
        let first = queue == Queue::Posted;
        for (receive, across, order) in
            [(first, Order::Forward, Order::Forward), (!first, across, order)]
        {
            for comm in across.of(u32::from(comms)) {
                for k in order.of(senders * pending) {
                    job.push(receive, false, comm as u16, k / pending, k % pending);
                }
            }
        }
        job
    }
}

/// Where the communicators' entries are.
pub(crate) trait Place {
    /// What the entries are in.
    type Engine: MatchEngine;

    /// The engine for messages of communicator `comm`, and their tag there.
    fn of(&mut self, comm: u16, tag: u32) -> (&mut Self::Engine, u64);
}

/// One communicator.
#[derive(Debug)]
pub(crate) struct One<E>(pub(crate) E);

impl<E: MatchEngine> Place for One<E> {
    type Engine = E;
    #[inline(always)]
    fn of(&mut self, _: u16, tag: u32) -> (&mut E, u64) {
        (&mut self.0, u64::from(tag))
    }
}

/// An engine for each communicator: what Bowline has.
#[derive(Debug)]
pub(crate) struct Each<E>(pub(crate) Vec<E>);

impl<E: MatchEngine> Place for Each<E> {
    type Engine = E;
    #[inline(always)]
    fn of(&mut self, comm: u16, tag: u32) -> (&mut E, u64) {
        (&mut self.0[usize::from(comm)], u64::from(tag))
    }
}

/// One engine for all communicators, which are in the tag: what the published list has.
#[derive(Debug)]
pub(crate) struct Shared<E>(pub(crate) E);

impl<E: MatchEngine> Place for Shared<E> {
    type Engine = E;
    #[inline(always)]
    fn of(&mut self, comm: u16, tag: u32) -> (&mut E, u64) {
        (&mut self.0, u64::from(comm) << 32 | u64::from(tag))
    }
}

/// Plays a job. The value of an entry is the number of the event that made it.
pub(crate) fn play(place: &mut impl Place, job: &Job) -> Done {
    let mut done = Done::default();
    for (event, number) in job.events.iter().zip(0u64..) {
        let (engine, tag) = place.of(event.comm, event.tag);
        step(engine, event.receive, event.any, event.source, tag, number, &mut done);
    }
    done
}

/// A receive or an arrival, as the layer above does it.
#[inline(always)]
pub(crate) fn step(
    engine: &mut impl MatchEngine,
    receive: bool,
    any: bool,
    source: u32,
    tag: u64,
    number: u64,
    done: &mut Done,
) {
    if receive {
        let source_mask = if any { 0 } else { u32::MAX };
        let source = source & source_mask;
        let want = Want { source, source_mask, tag, tag_mask: u64::MAX };
        match engine.take_unexpected(&want) {
            Some(value) => done.found(value),
            None => {
                engine.post(want, number);
            }
        }
    } else {
        match engine.arrive(source, tag) {
            Some(value) => done.found(value),
            None => engine.add_unexpected(source, tag, number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_ucp::matching::{Engine, EngineKind, ListEngine};

    #[test]
    fn jobs_end_with_empty_queues_and_all_engines_match_the_same() {
        let mut jobs = Vec::new();
        for queue in Queue::BOTH {
            for order in Order::BOTH {
                for any in 0..=4 {
                    jobs.push((Job::one_queue(queue, order, 64, 3, 5, any), 1));
                }
                for across in Order::BOTH {
                    jobs.push((Job::communicators(queue, 7, across, order, 16, 3), 7));
                }
            }
        }
        for (job, comms) in jobs {
            let mut list = Shared(ListEngine::<bowline_ucp::matching::Off>::new());
            let expected = play(&mut list, &job);
            assert_eq!(expected.work * 2, job.events.len() as u64, "everything is matched");
            assert!(list.0.is_empty());
            for &kind in EngineKind::ALL {
                let mut each = Each((0..comms).map(|_| Engine::new(kind, 200)).collect());
                assert_eq!(play(&mut each, &job), expected, "{}", kind.name());
                assert!(each.0.iter().all(MatchEngine::is_empty), "{}", kind.name());
            }
        }
    }
}
