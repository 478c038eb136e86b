//! Messages in: the rings that are in use, and the shared queue.
//!
//! A ring is read from its SWITCH marker, found in the queue, to its END marker; the rules are in
//! [`bowline_base::ring::promote`]. A message that the queue holds for a source whose ring is
//! still active waits in `held` until the ring has been read to its end, so that one call of
//! `progress` never hands out more than its budget. That happens only after an eviction.
//!
//! Payloads are handed out where they lie, except those of several slots of the queue, which are
//! copied to the staging buffer first. The payload of an arrival is the sink's until its call ends: a slot
//! is given back then.

use bowline_base::ring;
use bowline_base::ring::promote::SWITCH_ID;
use bowline_base::scmp::{Fault, seq};
use bowline_base::view::View;
use bowline_base::words::DirectWords;
use bowline_uct::{AmId, Arrival, Sink, Source};

use crate::accept::{Finding, Held, Inner};
use crate::busy_senders::BusySenders;
use crate::ring_table::{ActiveRing, Taken};

/// The receiving half of an interface.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) queue: seq::Consumer<DirectWords>,
    /// In use, in no order. Capacity for all is reserved.
    pub(crate) active: Vec<ActiveRing>,
    /// Free rings, by number.
    pub(crate) free: Vec<Option<ring::Consumer<DirectWords>>>,
    /// Damaged sources, whose messages are dropped. Empty in a healthy job.
    pub(crate) ignored: Vec<u32>,
    pub(crate) busy_senders: BusySenders,
    /// Sources below this are ranks or guests.
    pub(crate) sources: u32,
    /// How many active rings the next call leaves for later, since the last one ended with them.
    next_ring: usize,
    held: Option<Held>,
    staging: Box<[u8]>,
    pub(crate) poisoned: bool,
    /// What the last call of `poll_rings` or `poll_queue` stopped at, until it is taken.
    pub(crate) finding: Option<Finding>,
    /// Calls of `poll_queue` in a row that found nothing.
    pub(crate) silent: u32,
}

impl Receiver {
    pub(crate) fn new(
        queue: seq::Consumer<DirectWords>,
        rings: Vec<ring::Consumer<DirectWords>>,
        sources: u32,
        longest: usize,
    ) -> Self {
        Self {
            queue,
            active: Vec::with_capacity(rings.len()),
            busy_senders: BusySenders::new(),
            free: rings.into_iter().map(Some).collect(),
            ignored: Vec::new(),
            sources,
            next_ring: 0,
            held: None,
            staging: vec![0; longest].into_boxed_slice(),
            poisoned: false,
            finding: None,
            silent: 0,
        }
    }

    /// Hands out at most `budget` messages of the active rings; stops at a finding. Returns how
    /// many.
    #[inline]
    pub(crate) fn poll_rings(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        if self.next_ring != 0 || budget == 0 {
            if budget == 0 {
                return 0;
            }
            self.rotate();
        }
        let mut taken = 0;
        for (at, ring) in self.active.iter_mut().enumerate() {
            let mut outcome = ring.take(sink);
            if let Taken::Nothing = outcome {
                ring.filled = false;
                continue;
            }
            if let Taken::Last = outcome {
                ring.note_last();
                taken += 1;
            }
            if let Taken::Message(_) = outcome {
                taken += 1;
                ring.taken = ring.taken.wrapping_add(1);
                if !ring.filled {
                    ring.filled = true;
                } else {
                    let more;
                    (more, outcome) = ring.take_more(sink, budget - taken);
                    taken += more;
                }
            }
            match outcome {
                Taken::End | Taken::Bad => {
                    self.ring_ended(at, matches!(outcome, Taken::End));
                    break;
                }
                Taken::Last => {
                    self.begin_behind(at);
                    break;
                }
                Taken::Message(_) | Taken::Nothing if taken == budget => {
                    self.begin_behind(at);
                    break;
                }
                Taken::Message(_) | Taken::Nothing => {}
            }
        }
        taken
    }

    /// The next call begins with the rings behind the one in place `at`.
    pub(crate) const fn begin_behind(&mut self, at: usize) {
        self.next_ring = at + 1;
    }

    /// Begins behind the ring at which the last call ended.
    #[cold]
    #[inline(never)]
    fn rotate(&mut self) {
        let next_ring = std::mem::take(&mut self.next_ring).min(self.active.len());
        self.active.rotate_left(next_ring);
    }

    /// The ring in place `at` had its END read, or a message that cannot be.
    #[cold]
    #[inline(never)]
    pub(crate) fn ring_ended(&mut self, at: usize, orderly: bool) {
        let active = &self.active[at];
        let (source, evicted) = (active.source, active.evicted);
        if orderly {
            self.give_up(at);
        }
        if !orderly || !evicted {
            self.finding = Some(Finding::Damaged(source));
        }
    }

    /// Hands out at most `budget` messages of the shared queue; stops at a finding. Returns how
    /// many.
    pub(crate) fn poll_queue(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut given = 0;
        if self.held.is_some() {
            if budget == 0 || !self.deliver_held(sink) {
                self.poll_behind_held();
                return 0;
            }
            given = 1;
        }
        let (queue, mut inner) = self.parts();
        inner.given = given;
        // While somebody was asked to give a ring back, its messages may stand in the queue
        // before the ring is read to its end: one at a time, so that one can be held.
        let evicting = inner.active.iter().any(|ring| ring.evicted);
        let outcome = if evicting {
            let mut outcome = Ok(0);
            while inner.given < budget && inner.held.is_none() && inner.finding.is_none() {
                outcome = queue.poll(1, |message| inner.accept(&message, sink));
                if outcome != Ok(1) {
                    break;
                }
            }
            outcome
        } else {
            queue.poll(budget - given, |message| inner.accept(&message, sink))
        };
        let (given, finding) = (inner.given, inner.finding);
        match outcome {
            Ok(_) => {}
            Err(Fault::Source { source_id }) => {
                self.finding = Some(Finding::Damaged(source_id.into()));
            }
            Err(Fault::Poisoned(_)) if self.poisoned => {}
            Err(Fault::Poisoned(_)) => self.finding = Some(Finding::Poisoned),
        }
        if finding.is_some() {
            self.finding = finding;
        }
        given
    }

    /// The queue, and what its messages touch.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&mut seq::Consumer<DirectWords>, Inner<'_>) {
        let Self { queue, active, free, ignored, busy_senders, held, staging, sources, .. } = self;
        let sources = *sources;
        let (given, finding) = (0, None);
        let inner =
            Inner { active, free, ignored, busy_senders, held, staging, sources, given, finding };
        (queue, inner)
    }

    /// Whether a message of the queue waits for its source's ring.
    pub(crate) const fn held_any(&self) -> bool {
        self.held.is_some()
    }

    /// The held message cannot be handed out yet; a ring that ran dry without an end is damage.
    #[cold]
    fn poll_behind_held(&mut self) {
        let Some(held) = self.held else { return };
        let dry = self
            .active
            .iter()
            .find(|ring| ring.source == held.source)
            .is_some_and(|ring| ring.consumer.peek().is_none());
        // The end was stored before the message was, so an empty ring has none (rule 5 there).
        if dry {
            self.finding = Some(Finding::Damaged(held.source));
        }
    }

    /// Hands the held message out if its source's ring is not active any more.
    #[cold]
    fn deliver_held(&mut self, sink: &mut dyn Sink) -> bool {
        let Some(held) = self.held else { return true };
        if self.active.iter().any(|ring| ring.source == held.source) {
            return false;
        }
        self.held = None;
        let mut inner = Inner {
            active: &mut self.active,
            free: &mut self.free,
            ignored: &self.ignored,
            busy_senders: &mut self.busy_senders,
            held: &mut None,
            staging: &mut self.staging,
            sources: self.sources,
            given: 0,
            finding: None,
        };
        if held.id == SWITCH_ID {
            inner.switch(held.source, &held.header);
            self.finding = inner.finding;
        } else if let Some(id) = AmId::from_wire(held.id)
            && !inner.ignored.contains(&held.source)
        {
            // SAFETY: the staging buffer is only used through the view until `am` has returned,
            // and holds `len` bytes of the message since `accept` put them there.
            let payload = unsafe { View::from_raw(inner.staging.as_mut_ptr(), held.len) };
            let _ =
                sink.am(Arrival { source: Source(held.source), id, header: held.header, payload });
        }
        true
    }

    /// Takes a ring out of use and makes it free for the next sender.
    pub(crate) fn give_up(&mut self, at: usize) {
        let mut ring = self.active.swap_remove(at);
        ring.consumer.free();
        self.free[ring.number as usize] = Some(ring.consumer);
        self.next_ring = 0;
    }

    /// Frees whatever rings a dead or damaged source owns. Its messages have been read.
    pub(crate) fn free_rings_of(&mut self, source: u32) {
        while let Some(at) = self.active.iter().position(|ring| ring.source == source) {
            self.give_up(at);
        }
        for ring in self.free.iter_mut().flatten() {
            if ring.owner() == Some(source) {
                ring.free();
            }
        }
    }

    /// Stops listening to a source that wrote nonsense.
    pub(crate) fn ignore(&mut self, source: u32) {
        if !self.ignored.contains(&source) {
            self.ignored.push(source);
        }
        // The ring stays claimed, so that its owner does not get it again, and is not read; it is
        // free when the source has been read to its end. A sender by it finds that out at the head.
        while let Some(at) = self.active.iter().position(|ring| ring.source == source) {
            let mut ring = self.active.swap_remove(at);
            ring.consumer.refuse();
            self.free[ring.number as usize] = Some(ring.consumer);
        }
        self.next_ring = 0;
        if self.held.is_some_and(|held| held.source == source) {
            self.held = None;
        }
    }

    /// The source of a ring by which nothing can come any more.
    #[cold]
    pub(crate) fn broken_ring(&mut self) -> Option<u32> {
        self.active
            .iter_mut()
            .find_map(|ring| ring.consumer.check().is_err().then_some(ring.source))
    }

    /// Listens to a source number again: its owner is gone.
    pub(crate) fn unignore(&mut self, source: u32) {
        self.ignored.retain(|ignored| *ignored != source);
    }

    /// Whether messages of `source` wait in its ring or behind it.
    pub(crate) fn has_unread(&self, source: u32) -> bool {
        self.held.is_some_and(|held| held.source == source)
            || self
                .active
                .iter()
                .any(|ring| ring.source == source && ring.consumer.peek().is_some())
    }

    /// Whether `poll_queue` would find something.
    #[inline]
    pub(crate) fn queue_ready(&self) -> bool {
        self.held.is_some() || self.queue.ready()
    }

    /// Whether a call of `poll_rings` or `poll_queue` would find something.
    pub(crate) fn ready(&self) -> bool {
        self.held.is_some()
            || (!self.poisoned && self.queue.ready())
            || self.active.iter().any(|ring| ring.consumer.peek().is_some())
    }

    /// Shows all senders how far their rings are consumed.
    pub(crate) fn publish_heads(&mut self) {
        for ring in &mut self.active {
            ring.consumer.publish();
        }
    }

    /// Asks the owner of the ring that is used least for it, if a source of the queue sends more.
    /// Returns the owner.
    #[cold]
    pub(crate) fn evict_for_busier(&mut self) -> Option<u32> {
        let (source, seen) = self.busy_senders.busiest()?;
        let full = self.active.len() == self.free.len();
        let evicting = self.active.iter().any(|ring| ring.evicted);
        let mut owner = None;
        if full && !evicting && !self.active.iter().any(|ring| ring.source == source) {
            let least = self.active.iter_mut().min_by_key(|ring| ring.taken)?;
            // Twice as much, so that two equals do not take a ring from each other for ever.
            if u64::from(seen) > 2 * u64::from(least.taken) {
                least.evicted = true;
                least.consumer.evict();
                owner = Some(least.source);
            }
        }
        self.busy_senders.clear();
        for ring in &mut self.active {
            ring.taken = 0;
        }
        owner
    }
}
