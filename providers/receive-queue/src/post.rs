//! Sending: how a link is introduced to its peer, drawn at [`Step`], and then follows the state machine of the
//! peer's form ([`Sending`]).
//!
//! Nothing here runs inside of the progress of the transport below. Each operation is posted at
//! most once: where there are no resources for it, the link stays in its step and stands in the list of
//! those that try again.

use bowline_uct::{PeerFailure, RemoteSlice};

use super::address::{ExtentEntry, Introduction};
use super::lane_core::LaneCore;
use super::layout::{ENTRY_BYTES, Place, RECORDS};
use super::link::Step;
use super::remote::{Next, Outcome, place};
use super::sending::Sending;
use super::token::What;

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
                match &self.links[index as usize].sending {
                    Sending::Checksummed(checksums) => self.confirmed(index, checksums.confirming),
                    _ => self.end_reservation(index),
                }
                self.drive(index);
            }
            Err(how) => self.answered_badly(index, how),
        }
    }

    /// An operation of ours has failed. The transport below reports the peer's end; where it says
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
            Step::TakeNumber => self.take_number(index),
            Step::FindRecord => self.find_record(index),
            Step::Introduce { done } => self.introduce(index, done),
            Step::OrderRecord => match self.order(index) {
                Outcome::Done(true) => self.go_to(index, Step::Introduced),
                Outcome::Done(false) => self.wait_in(index, Step::OrderingRecord),
                Outcome::Next(next) => next,
            },
            Step::Introduced => self.send(index, None),
            Step::Fresh
            | Step::TakingNumber
            | Step::FindingRecord
            | Step::OrderingRecord
            | Step::Broken => Next::Wait,
        }
    }

    /// Takes the next step of sending, or the `answer` to the last one.
    fn send(&mut self, index: u32, answer: Option<u64>) -> Next {
        // The state is not in its link meanwhile.
        let mut sending = std::mem::take(&mut self.links[index as usize].sending);
        let next = match &mut sending {
            Sending::Counted(counted) => self.send_counted(index, counted, u32::MAX, answer),
            Sending::Ring(ring) => self.send_by_ring(index, ring, answer),
            Sending::Promoting(promoting) => self.send_promoting(index, promoting, answer),
            Sending::Checksummed(checksums) => self.send_checksummed(index, checksums, answer),
        };
        self.links[index as usize].sending = sending;
        next
    }

    /// What is left to do for a link that has failed, instead of a step: it ends what it has reserved. `None`: the
    /// next step belongs to that.
    #[cold]
    fn finish(&mut self, index: u32) -> Option<Next> {
        let link = &self.links[index as usize];
        if !link.finishing {
            return Some(Next::Wait);
        }
        if !link.rests() {
            return None;
        }
        if link.settling {
            return Some(Next::Wait);
        }
        if link.is_unsure() {
            // Some transports end what is under way when a peer is left.
            match self.confirm_last(index) {
                Next::Go => {}
                next => return Some(next),
            }
        }
        if !self.links[index as usize].is_unsure() {
            self.finish_ending(index);
        }
        Some(Next::Wait)
    }

    fn take_number(&mut self, index: u32) -> Next {
        let at = self.links[index as usize].shape.numbers_at();
        match self.fetch_add(index, at, 1, What::Step) {
            Outcome::Done(Some(sender)) => self.numbered(index, sender),
            Outcome::Done(None) => self.wait_in(index, Step::TakingNumber),
            Outcome::Next(next) => next,
        }
    }

    /// What the answer to a step means.
    fn take_answer(&mut self, index: u32, value: u64) -> Next {
        match self.links[index as usize].step {
            Step::TakingNumber => self.numbered(index, value),
            Step::FindingRecord => {
                let mut bytes = [0; ENTRY_BYTES];
                let entry = self.links[index as usize].entry.as_mut();
                entry.map(|entry| entry.view().copy_out(&mut bytes));
                self.found_record(index, &bytes)
            }
            Step::OrderingRecord => self.go_to(index, Step::Introduced),
            Step::Introduced => self.send(index, Some(value)),
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

    fn numbered(&mut self, index: u32, sender: u64) -> Next {
        let link = &mut self.links[index as usize];
        if sender >= u64::from(link.shape.peers) {
            tracing::warn!(
                "a peer's receive queue has no sender number left: it gives out \
                 BOWLINE_RECV_QUEUE_PEERS of them there, at most 65536 in its life"
            );
            return Next::Break(PeerFailure::Refused);
        }
        link.sender = sender as u16;
        if let Sending::Ring(ring) = &mut link.sending {
            ring.number = sender as u32;
        }
        link.step = match RECORDS.place(sender as u32) {
            Place::Own(_) => Step::Introduce { done: 0 },
            Place::Extent { .. } => Step::FindRecord,
        };
        Next::Go
    }

    /// Reads where the extent with the record of our number is.
    fn find_record(&mut self, index: u32) -> Next {
        let sender = u32::from(self.links[index as usize].sender);
        let Place::Extent { number, .. } = RECORDS.place(sender) else {
            return self.go_to(index, Step::Introduce { done: 0 });
        };
        match self.read_entry(index, number) {
            Outcome::Done(Some(bytes)) => self.found_record(index, &bytes),
            Outcome::Done(None) => self.wait_in(index, Step::FindingRecord),
            Outcome::Next(next) => next,
        }
    }

    /// The directory says this of the extent.
    fn found_record(&mut self, index: u32, entry: &[u8]) -> Next {
        let Some(entry) = ExtentEntry::parse(entry) else {
            // The peer makes it when it makes progress.
            self.links[index as usize].step = Step::FindRecord;
            return Next::Later;
        };
        let link = &mut self.links[index as usize];
        let Place::Extent { at, .. } = RECORDS.place(u32::from(link.sender)) else {
            return self.go_to(index, Step::Introduce { done: 0 });
        };
        if entry == ExtentEntry::REFUSED {
            tracing::warn!("a peer's receive queue has no memory for another sender");
            return Next::Break(PeerFailure::Refused);
        }
        let Some(ep) = link.inner else { return Next::Wait };
        let opened = self.inner.rkey_unpack(ep, &entry.key);
        let address = entry.base.checked_add(at as u64);
        let (Ok(rkey), Some(address)) = (opened, address) else {
            return Next::Break(PeerFailure::Damaged);
        };
        link.record = Some(RemoteSlice { address, rkey });
        self.go_to(index, Step::Introduce { done: 0 })
    }

    /// Writes who we are into the record of our number.
    fn introduce(&mut self, index: u32, done: usize) -> Next {
        let link = &self.links[index as usize];
        let introduction = Introduction {
            cookie: link.cookie,
            status: index,
            extent: self.extent_of_words(index),
            address: self.own_address.clone(),
        };
        let to = match RECORDS.place(u32::from(link.sender)) {
            Place::Own(at) => place(link, link.shape.records_at() + at + done),
            Place::Extent { .. } => link.inner.zip(link.record).map(|(ep, record)| {
                // What is in the extent does not wrap around, as its start did not.
                (ep, RemoteSlice { address: record.address.wrapping_add(done as u64), ..record })
            }),
        };
        let record = introduction.pack();
        let rest = &record[done..];
        if rest.is_empty() {
            return self.go_to(index, Step::OrderRecord);
        }
        let piece = &rest[..rest.len().min(self.put_max)];
        match self.put_to(to, piece) {
            Outcome::Done(()) => self.go_to(index, Step::Introduce { done: done + piece.len() }),
            Outcome::Next(next) => next,
        }
    }
}
