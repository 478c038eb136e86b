//! The way out: what a link posts, step by step. The steps are drawn at [`Step`].
//!
//! Nothing here runs inside of the progress of the transport below. Each operation is posted at
//! most once: where there is no room for it, the link stays in its step and stands in the list of
//! those that try again.

use bowline_base::scmp::published::{self, R_BYTE, solo};
use bowline_uct::PeerFailure;

use super::address::Introduction;
use super::lane::LaneCore;
use super::link::{Sending, Step};
use super::remote::Outcome;
use super::token::What;

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

impl LaneCore {
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
            Ok(_) => {
                match self.links[index as usize].sending {
                    Sending::Sealed(_) => self.confirmed(index),
                    _ => self.end_reservation(index),
                }
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
        if self.links[index as usize].failed.is_some()
            && let Some(instead) = self.finish(index)
        {
            return instead;
        }
        match self.links[index as usize].step {
            Step::TakeSeat => self.take_seat(index),
            Step::Introduce { done } => self.introduce(index, done),
            Step::OrderRecord => match self.order(index) {
                Outcome::Done(true) => self.go_to(index, Step::Ready),
                Outcome::Done(false) => self.wait_in(index, Step::OrderingRecord),
                Outcome::Next(next) => next,
            },
            Step::Ready => self.reserve(index),
            Step::Put { .. } => self.put(index),
            Step::Order { .. } => self.order_slots(index),
            Step::Finalise { .. } => self.finalise(index),
            Step::GiveBack { .. } => self.give_back(index),
            Step::Void { .. } => self.put_void(index),
            Step::Look { tag } => self.look(index, tag),
            Step::Leave => self.leave_ring(index),
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

    /// What is left to do for a link that has failed, instead of a step: it ends what it has reserved. `None`: the
    /// next step belongs to that.
    #[cold]
    fn finish(&mut self, index: u32) -> Option<Next> {
        let link = &self.links[index as usize];
        if !link.finishing {
            return Some(Next::Wait);
        }
        if !matches!(link.step, Step::Ready | Step::Look { .. } | Step::Looking { .. }) {
            return None;
        }
        if link.settling {
            return Some(Next::Wait);
        }
        if link.is_unsure() {
            // Some transports end what is under way when a peer is left.
            match self.confirm(index) {
                Next::Go => {}
                next => return Some(next),
            }
        }
        if !self.links[index as usize].is_unsure() {
            self.finish_ending(index);
        }
        Some(Next::Wait)
    }

    fn take_seat(&mut self, index: u32) -> Next {
        let at = self.links[index as usize].shape.seats_at();
        match self.fetch_add(index, at, 1, What::Step) {
            Outcome::Done(Some(seat)) => self.seated(index, seat),
            Outcome::Done(None) => self.wait_in(index, Step::TakingSeat),
            Outcome::Next(next) => next,
        }
    }

    /// Has the slots that were put come before what counts them.
    fn order_slots(&mut self, index: u32) -> Next {
        let ready = match self.order(index) {
            Outcome::Done(ready) => ready,
            Outcome::Next(next) => return next,
        };
        let link = &mut self.links[index as usize];
        let Step::Order { ticket } = std::mem::replace(&mut link.step, Step::Ready) else {
            return Next::Wait;
        };
        if ready {
            link.step = Step::Finalise { ticket };
            return Next::Go;
        }
        link.step = Step::Ordering { ticket };
        Next::Wait
    }

    /// Counts the slots of a reservation, or publishes them in the link's ring.
    fn finalise(&mut self, index: u32) -> Next {
        let link = &self.links[index as usize];
        let Step::Finalise { ticket } = &link.step else { return Next::Wait };
        if link.settling {
            return Next::Wait;
        }
        let polite = link.polite;
        let done = match link.sending.ring() {
            Some(ring) => {
                let tail = ring.after(ticket, link.shape.slots);
                self.publish(index, ring, tail)
            }
            None => {
                let (at, slots) = (published::settled_byte(ticket.half()), ticket.slots());
                self.count(index, at, slots, Step::Ready)
            }
        };
        match done {
            Next::Go if polite => Next::Later,
            next => next,
        }
    }

    /// Counts the slots of a reservation that did not fit.
    fn give_back(&mut self, index: u32) -> Next {
        let link = &self.links[index as usize];
        let Step::GiveBack { failed, tag } = &link.step else { return Next::Wait };
        if link.settling {
            return Next::Wait;
        }
        let (at, slots, tag) = (published::failed_byte(failed.half()), failed.slots(), *tag);
        self.count(index, at, slots, Step::Look { tag })
    }

    /// Reads R, or the head of the link's ring.
    fn look(&mut self, index: u32, tag: u32) -> Next {
        if let Next::Later = self.confirm(index) {
            return Next::Later;
        }
        let link = &self.links[index as usize];
        let ring = link.sending.ring();
        let head = ring.map(|ring| link.shape.ring_at(ring.number) + solo::HEAD_BYTE);
        match self.read_word(index, head.unwrap_or(R_BYTE), What::Step) {
            Outcome::Done(Some(value)) => self.looked(index, tag, value),
            Outcome::Done(None) => self.wait_in(index, Step::Looking { tag }),
            Outcome::Next(next) => next,
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

    pub(super) fn wait_in(&mut self, index: u32, step: Step) -> Next {
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
        if let Sending::Ring(ring) = &mut link.sending {
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
}
