//! The way out: what a link posts, step by step. The steps are drawn at [`Step`].
//!
//! Nothing here runs inside of the progress of the transport below. Each operation is posted at
//! most once: where there is no room for it, the link stays in its step and stands in the list of
//! those that try again.

use bowline_base::scmp::published::{self, R_BYTE, solo};
use bowline_base::scmp::seq::POISON;
use bowline_base::sync::LINE;
use bowline_base::sync::atomic::Ordering;
use bowline_uct::{Caps, PeerFailure, RemoteSlice};

use super::address::Introduction;
use super::fifo::{Stamp, mark};
use super::lane::QueueLane;
use super::link::Step;
use super::locked::free;
use super::options::QueueForm;
use super::promote::HOT;
use super::remote::{Outcome, put_from, refused};
use super::token::What;

/// Slots that a sender who was never offered a ring reserves in small parts.
const FIRST_SLOTS: u64 = 64;

/// What follows from one step.
pub(super) enum Next {
    /// Another step can be taken at once.
    Go,
    /// An answer has to come first.
    Wait,
    /// To be tried again at the next progress.
    Later,
    /// The link is of no use any more.
    Break(PeerFailure),
}

impl QueueLane {
    /// Puts a link into the list of those that have something to post.
    pub(super) fn list(&mut self, index: u32) {
        let link = &mut self.links[index as usize];
        if !std::mem::replace(&mut link.listed, true) {
            self.work.push_back(index);
        }
    }

    /// Lets every link in the list go on, once.
    pub(super) fn drive_all(&mut self) {
        for _ in 0..self.work.len() {
            let Some(index) = self.work.pop_front() else { return };
            self.links[index as usize].listed = false;
            self.drive(index);
        }
    }

    /// Lets a link go on as far as it can.
    pub(super) fn drive(&mut self, index: u32) {
        loop {
            match self.step(index) {
                Next::Go => {}
                Next::Wait => return,
                Next::Later => return self.list(index),
                Next::Break(how) => return self.break_link(index, how),
            }
        }
    }

    /// An operation of a link's step was answered.
    pub(super) fn step_answered(&mut self, index: u32, result: Result<u64, PeerFailure>) {
        match result {
            Ok(value) => {
                let next = self.take_answer(index, value);
                match next {
                    Next::Go => self.drive(index),
                    Next::Wait => {}
                    Next::Later => self.list(index),
                    Next::Break(how) => self.break_link(index, how),
                }
            }
            Err(how) => self.answered_badly(index, how),
        }
    }

    /// An add to S or F was answered.
    pub(super) fn settle_answered(&mut self, index: u32, result: Result<u64, PeerFailure>) {
        match result {
            Ok(old) if self.links[index as usize].known.is_some() => {
                match self.released(index, old) {
                    Next::Break(how) => self.break_link(index, how),
                    _ => self.drive(index),
                }
            }
            Ok(_) if self.links[index as usize].shape.form == QueueForm::ScmpSeq => {
                self.confirmed(index);
                self.drive(index);
            }
            Ok(_) => {
                self.end_reservation(index);
                self.drive(index);
            }
            Err(how) => self.answered_badly(index, how),
        }
    }

    /// An operation of ours has failed. Of the peer's end the transport below tells; where it says
    /// no such thing, the link is ended here.
    fn answered_badly(&mut self, index: u32, how: PeerFailure) {
        match how {
            PeerFailure::Died | PeerFailure::Closed | PeerFailure::Unreachable => {
                self.links[index as usize].step = Step::Broken;
            }
            _ => self.break_link(index, how),
        }
    }

    /// Takes the next step of a link.
    fn step(&mut self, index: u32) -> Next {
        let link = &mut self.links[index as usize];
        if link.failed.is_some() {
            let between =
                matches!(link.step, Step::Ready | Step::Look { .. } | Step::Looking { .. });
            if link.finishing && between && !link.settling {
                if link.is_unsure() {
                    // Some transports end what is under way when a peer is left.
                    match self.confirm(index) {
                        Next::Go => {}
                        next => return next,
                    }
                }
                let link = &self.links[index as usize];
                if !link.is_unsure() {
                    self.finish_ending(index);
                }
            }
            let link = &self.links[index as usize];
            if !link.finishing || between {
                return Next::Wait;
            }
        }
        let link = &mut self.links[index as usize];
        match &link.step {
            Step::TakeSeat => {
                let at = link.shape.seats_at();
                match self.fetch_add(index, at, 1, What::Step) {
                    Outcome::Done(Some(seat)) => self.seated(index, seat),
                    Outcome::Done(None) => self.wait_in(index, Step::TakingSeat),
                    Outcome::Next(next) => next,
                }
            }
            Step::Introduce { done } => {
                let done = *done;
                self.introduce(index, done)
            }
            Step::OrderRecord => match self.order(index) {
                Outcome::Done(true) => self.go_to(index, Step::Ready),
                Outcome::Done(false) => self.wait_in(index, Step::OrderingRecord),
                Outcome::Next(next) => next,
            },
            Step::Ready => self.reserve(index),
            Step::Put { .. } => self.put(index),
            Step::Order { .. } => match self.order(index) {
                Outcome::Done(ready) => {
                    let link = &mut self.links[index as usize];
                    let Step::Order { ticket } = std::mem::replace(&mut link.step, Step::Ready)
                    else {
                        return Next::Wait;
                    };
                    if ready {
                        link.step = Step::Finalise { ticket };
                        return Next::Go;
                    }
                    link.step = Step::Ordering { ticket };
                    Next::Wait
                }
                Outcome::Next(next) => next,
            },
            Step::Finalise { ticket } => {
                if link.settling {
                    return Next::Wait;
                }
                let (at, slots) = (published::settled_byte(ticket.half()), ticket.slots());
                let polite = link.polite;
                let done = match (link.known, link.ring) {
                    (Some(known), _) => self.release(index, known, slots),
                    (None, Some(ring)) => {
                        let (shape, number) = (link.shape, ring.number);
                        let tail = ring.after(ticket, shape.slots);
                        let more = (tail - ring.tail) as u32;
                        let at = shape.ring_at(number) + solo::TAIL_BYTE;
                        let next = self.count(index, at, more, Step::Ready);
                        if let (Next::Go, Some(ring)) =
                            (&next, &mut self.links[index as usize].ring)
                        {
                            ring.tail = tail;
                        }
                        next
                    }
                    (None, None) => self.count(index, at, slots, Step::Ready),
                };
                match done {
                    Next::Go if polite => Next::Later,
                    next => next,
                }
            }
            Step::GiveBack { failed, tag } => {
                if link.settling {
                    return Next::Wait;
                }
                let (at, slots) = (published::failed_byte(failed.half()), failed.slots());
                let tag = *tag;
                self.count(index, at, slots, Step::Look { tag })
            }
            Step::Void { ticket, words } => {
                let (words, tag) = (*words, ticket.tag());
                let at = published::slot_byte(ticket, link.shape.slots);
                self.put_void(index, at, words, tag)
            }
            Step::Look { tag } => {
                let tag = *tag;
                if let Next::Later = self.confirm(index) {
                    return Next::Later;
                }
                let link = &self.links[index as usize];
                let ring = link.ring.map(|ring| link.shape.ring_at(ring.number) + solo::HEAD_BYTE);
                match self.read_word(index, ring.unwrap_or(R_BYTE), What::Step) {
                    Outcome::Done(Some(value)) => self.looked(index, tag, value),
                    Outcome::Done(None) => self.wait_in(index, Step::Looking { tag }),
                    Outcome::Next(next) => next,
                }
            }
            Step::Leave => {
                let Some(ring) = link.ring.filter(|_| !link.settling) else { return Next::Wait };
                let at = link.shape.ring_at(ring.number) + solo::TAIL_BYTE;
                match self.fetch_add(index, at, solo::ENDED, What::Step) {
                    Outcome::Done(Some(_)) => self.left_ring(index),
                    Outcome::Done(None) => self.wait_in(index, Step::Leaving),
                    Outcome::Next(next) => next,
                }
            }
            Step::Fresh
            | Step::TakingSeat
            | Step::OrderingRecord
            | Step::Reserving { .. }
            | Step::Ordering { .. }
            | Step::Looking { .. }
            | Step::Leaving
            | Step::Broken => Next::Wait,
        }
    }

    /// What the answer to a step means.
    fn take_answer(&mut self, index: u32, value: u64) -> Next {
        let link = &mut self.links[index as usize];
        match &link.step {
            Step::TakingSeat => self.seated(index, value),
            Step::Leaving => self.left_ring(index),
            Step::OrderingRecord => self.go_to(index, Step::Ready),
            Step::Reserving { slots } => {
                let slots = *slots;
                self.reserved(index, slots, value)
            }
            Step::Ordering { .. } => {
                if let Step::Ordering { ticket } = std::mem::replace(&mut link.step, Step::Ready) {
                    link.step = Step::Finalise { ticket };
                }
                Next::Go
            }
            Step::Looking { tag } => {
                let tag = *tag;
                // A get leaves its value where it was told to.
                let mut bytes = [0; 8];
                link.word.as_mut().map(|word| word.view().copy_out(&mut bytes));
                self.looked(index, tag, u64::from_ne_bytes(bytes))
            }
            _ => Next::Wait,
        }
    }

    fn go_to(&mut self, index: u32, step: Step) -> Next {
        self.links[index as usize].step = step;
        Next::Go
    }

    fn wait_in(&mut self, index: u32, step: Step) -> Next {
        self.links[index as usize].step = step;
        Next::Wait
    }

    fn seated(&mut self, index: u32, seat: u64) -> Next {
        let link = &mut self.links[index as usize];
        if seat >= u64::from(link.shape.peers) {
            tracing::warn!(
                "a peer's receive queue has no seat left; raise BOWLINE_RECV_QUEUE_PEERS there"
            );
            return Next::Break(PeerFailure::Refused);
        }
        link.seat = seat as u16;
        if let Some(ring) = &mut link.ring {
            ring.number = seat as u32;
        }
        link.step = Step::Introduce { done: 0 };
        Next::Go
    }

    /// Writes who we are into the record of our seat.
    fn introduce(&mut self, index: u32, done: usize) -> Next {
        let link = &self.links[index as usize];
        let introduction =
            Introduction { cookie: link.cookie, status: index, address: self.own_address.clone() };
        let at = link.shape.record_at(u32::from(link.seat)) + done;
        let record = introduction.pack();
        let rest = &record[done..];
        if rest.is_empty() {
            return self.go_to(index, Step::OrderRecord);
        }
        let piece = &rest[..rest.len().min(self.put_max)];
        match self.put_bytes(index, at, piece) {
            Outcome::Done(()) => self.go_to(index, Step::Introduce { done: done + piece.len() }),
            Outcome::Next(next) => next,
        }
    }

    fn reserve(&mut self, index: u32) -> Next {
        if let Some(instead) = self.look_at_way(index) {
            return instead;
        }
        let link = &mut self.links[index as usize];
        if link.fifo.is_empty() {
            link.polite = false;
            return match self.confirm(index) {
                Next::Go => Next::Wait,
                next => next,
            };
        }
        if link.is_unsure() && !self.attr.caps.contains(Caps::PUT_BEFORE_ATOMIC) {
            // If there is no room for it now: after the next put.
            self.confirm(index);
        }
        let link = &mut self.links[index as usize];
        if let Some(ring) = link.ring {
            return self.take_slots(index, ring);
        }
        // No more than half of a half, so that one link leaves room for others; a small part of it
        // where the queue was full before, and then the others' turn.
        let part = if link.polite { 8 } else { 2 };
        let mut most = link.shape.slots / part;
        if link.shape.promotes() && link.offer == 0 && link.fifo.counts().1 < FIRST_SLOTS {
            // So that the receiver sees what it is before much has gone by the queue.
            most = most.min(HOT);
        }
        let slots = link.fifo.batch(most);
        if let Some(known) = link.known {
            return self.take_lock(index, known, slots);
        }
        link.begun = link.begun.wrapping_add(1);
        self.show_status(index);
        match self.fetch_add(index, R_BYTE, u64::from(slots), What::Step) {
            Outcome::Done(Some(old)) => self.reserved(index, slots, old),
            Outcome::Done(None) => self.wait_in(index, Step::Reserving { slots }),
            Outcome::Next(next) => {
                // Nothing has happened.
                let link = &mut self.links[index as usize];
                link.begun = link.begun.wrapping_sub(1);
                self.show_status(index);
                next
            }
        }
    }

    fn reserved(&mut self, index: u32, slots: u32, old: u64) -> Next {
        let link = &mut self.links[index as usize];
        if link.known.is_some() {
            return self.lock_answered(index, slots, old);
        }
        if link.shape.form == QueueForm::ScmpSeq {
            return self.sealed_reserved(index, slots, old);
        }
        self.stats.reservations += 1;
        if old as u32 >= POISON {
            return Next::Break(PeerFailure::Damaged);
        }
        link.step = match published::ticket(old, slots, link.shape.slots) {
            Ok(ticket) => {
                let mark = mark(link.cookie, link.begun as u16);
                link.fifo.stamp(slots, Stamp { seat: link.seat, mark });
                Step::Put { ticket, done: 0 }
            }
            Err(failed) => {
                self.stats.refused += 1;
                link.polite = true;
                Step::GiveBack { failed, tag: (old >> 32) as u32 }
            }
        };
        Next::Go
    }

    fn put(&mut self, index: u32) -> Next {
        loop {
            let link = &mut self.links[index as usize];
            let Step::Put { ticket, done } = &link.step else { return Next::Wait };
            let (done, slots) = (*done, ticket.slots());
            if done == slots {
                let messages = link.fifo.pop(slots);
                self.stats.messages += u64::from(messages);
                let step = std::mem::replace(&mut link.step, Step::Ready);
                if link.shape.form == QueueForm::ScmpSeq {
                    return if link.polite { Next::Later } else { Next::Go };
                }
                if let Step::Put { ticket, .. } = step {
                    link.step = Step::Order { ticket };
                }
                return Next::Go;
            }
            let ring = link.ring.map_or(0, |ring| link.shape.ring_at(ring.number));
            let at = ring + published::slot_byte(ticket, link.shape.slots) + done as usize * LINE;
            let most = (slots - done).min((self.put_max / LINE) as u32);
            let (Some(ep), Some(rkey)) = (link.inner, link.rkey) else { return Next::Wait };
            let run = link.fifo.run(done, most);
            let to = RemoteSlice { address: link.base + at as u64, rkey };
            let posted = put_from(&mut *self.inner, self.put_short, ep, run, to);
            let slots_put = (run.len() / LINE) as u32;
            match posted {
                Ok(()) => {
                    self.stats.puts += 1;
                    if let Step::Put { done, .. } = &mut link.step {
                        *done += slots_put;
                    }
                }
                Err(error) => match refused::<()>(error) {
                    Outcome::Next(next) => return next,
                    Outcome::Done(()) => return Next::Later,
                },
            }
        }
    }

    /// Adds `slots` to the counter at `at`, which ends the reservation, and goes to `then`.
    fn count(&mut self, index: u32, at: usize, slots: u32, then: Step) -> Next {
        match self.fetch_add(index, at, u64::from(slots), What::Settle) {
            Outcome::Done(answer) => {
                self.stats.settled += 1;
                let link = &mut self.links[index as usize];
                link.step = then;
                link.settling = true;
                if answer.is_some() {
                    self.end_reservation(index);
                }
                Next::Go
            }
            Outcome::Next(next) => next,
        }
    }

    /// The slots of a reservation are known to be counted.
    pub(super) fn end_reservation(&mut self, index: u32) {
        let link = &mut self.links[index as usize];
        link.settling = false;
        link.ended = link.ended.wrapping_add(1);
        self.show_status(index);
    }

    /// Writes the status word of a link, for the peer's settlement.
    pub(super) fn show_status(&mut self, index: u32) {
        let at = self.shape.status_at(index);
        let word = self.inner.mem_view(self.memory).and_then(|view| view.word(at));
        if let Some(word) = word {
            // Release: pairs with the peer's get, which acquires as far as its transport does: who
            // reads that a reservation has ended, has its slots counted. The begin is stored before
            // the reservation is posted, and posting does not overtake stores.
            word.store(self.links[index as usize].status(), Ordering::Release);
        }
    }

    /// R was read, whose half was full under `tag`.
    fn looked(&mut self, index: u32, tag: u32, value: u64) -> Next {
        if self.links[index as usize].ring.is_some() {
            return self.head_read(index, value);
        }
        self.stats.looks += 1;
        let link = &mut self.links[index as usize];
        if value as u32 >= POISON {
            return Next::Break(PeerFailure::Damaged);
        }
        if (value >> 32) as u32 != tag {
            link.known = link.known.map(|_| free(value));
            link.step = Step::Ready;
            return Next::Go;
        }
        link.step = Step::Look { tag };
        Next::Later
    }
}
