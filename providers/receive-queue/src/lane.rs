//! A lane of receive queues over a transport without active messages: its parts, and its round of
//! progress. How it is made is in `open`.
//!
//! What all forms have in common is the [`LaneCore`]: transport, memory, links and senders. The receiving side, which
//! differs, is an [`Inbox`]; what the sending side of a link does depends on its peer's form.

use bowline_base::drain::Drain;
use bowline_uct::{Iface, PeerFailure, Sink, Token};

use super::inbox::Inbox;
use super::lane_core::{LaneCore, Note};
use super::options::QueueStats;
use super::token::{Owner, What};

/// Events of the transport below in one round.
const NOTES: u32 = 64;

/// An interface that carries active messages by receive queues, over one that has puts, gets and
/// fetching atomics. What the transport below has beside that is passed through.
pub struct QueueLane {
    pub(super) core: LaneCore,
    pub(super) inbox: Box<dyn Inbox>,
}

impl std::fmt::Debug for QueueLane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueueLane").field("attr", &self.core.attr).finish_non_exhaustive()
    }
}

impl QueueLane {
    /// What was posted so far.
    pub const fn stats(&self) -> &QueueStats {
        &self.core.stats
    }

    /// The transport below.
    pub fn below(&self) -> &dyn Iface {
        &*self.core.inner
    }

    /// A round: see the contract.
    pub(super) fn advance(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let Self { core, inbox } = self;
        let mut reported = core.events.report(sink, budget);
        if core.events.len() < NOTES as usize {
            core.poll_below(&mut **inbox);
            if budget > reported && core.closed.is_none() {
                reported += inbox.receive(core, sink, budget - reported);
            } else if core.closed.is_some() {
                // A peer that connects from now on has to learn of it.
                core.mark_closed();
                core.read_introductions(&mut **inbox);
            }
            match core.closed {
                None => inbox.settle(core),
                Some(_) => core.report_all_ends(),
            }
        }
        reported += core.events.report(sink, budget - reported);
        reported += core.report_writable(sink, budget - reported);
        reported
    }

    /// Whether the next progress has something to do before anything comes from below.
    pub(super) fn has_work(&mut self) -> bool {
        let closed = self.core.closed.is_some();
        self.core.has_work() || !closed && self.inbox.has_messages(&self.core)
    }
}

impl LaneCore {
    /// One poll of the transport below, and what follows from it.
    fn poll_below(&mut self, inbox: &mut dyn Inbox) {
        self.inner.progress(&mut self.notes, NOTES);
        while let Some(note) = self.notes.list.pop_front() {
            match note {
                Note::Completed(token, result) => self.below_completed(token, result),
                Note::Writable(inner) => {
                    let index = self.by_inner.get(inner.0);
                    if let Some(link) = index.and_then(|i| self.links.get_mut(i as usize)) {
                        link.below_full = false;
                        link.asked_below = false;
                    }
                }
                Note::Failed(source, ep, how) => self.below_failed(inbox, source, ep, how),
            }
        }
        self.follow_next_route();
        self.drive_all();
        self.post_flushes();
    }

    fn below_completed(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        match self.odd.owner(token) {
            Owner::User(token) => self.events.complete(token, result),
            Owner::Own { what, link, generation } => {
                let known = self.links.get(link as usize).is_some_and(|known| {
                    known.generation & (super::token::GENERATIONS - 1) == generation
                        && (known.failed.is_none() || known.finishing)
                });
                let same = self.links.get(link as usize).is_some_and(|known| {
                    known.generation & (super::token::GENERATIONS - 1) == generation
                });
                match what {
                    What::Status => self.status_answered(link, same && result.is_ok()),
                    What::Step if known => self.step_answered(link, result),
                    What::Settle if known => self.settle_answered(link, result),
                    What::Flip => {
                        self.flipping = false;
                        match result {
                            Ok(old) => self.flip_answer = Some(old),
                            Err(how) => self.lose_flips(how),
                        }
                    }
                    What::Step | What::Settle => {}
                }
            }
            Owner::Nobody => {}
        }
    }
}

impl Drop for QueueLane {
    fn drop(&mut self) {
        // Messages that were accepted arrive, if their receivers let them.
        let Self { core, inbox } = self;
        let mut drain = Drain::default();
        let mut gone = core.gone();
        while !core.is_quiet() {
            core.poll_below(&mut **inbox);
            core.events.clear();
            let now = core.gone();
            if !drain.goes_on(now != gone) {
                return;
            }
            gone = now;
        }
    }
}
