//! The senders of a lane: the numbers that were taken, and the records in which senders introduce themselves.

use bowline_base::sync::atomic::Ordering;
use bowline_uct::PeerFailure;

use super::address::{Address, Introduction};
use super::inbox::Inbox;
use super::lane_core::LaneCore;
use super::layout::RECORD_BYTES;
use super::link::{Link, SenderEntry, Step, Trust};

impl LaneCore {
    /// Numbers that were taken.
    fn numbers_taken(&self) -> u32 {
        let view = self.inner.mem_view(self.memory);
        let Some(word) = view.and_then(|view| view.word(self.shape.numbers_at())) else { return 0 };
        // Acquire: pairs with the transport's addition, as far as it says that they mix.
        word.load(Ordering::Acquire).min(u64::from(self.shape.peers)) as u32
    }

    /// Makes the extents in which those who have taken a number wait for their records: for a form that does not read
    /// introductions in every round.
    pub(super) fn make_records(&mut self) {
        let taken = self.numbers_taken();
        if taken as usize > self.senders.len() {
            self.extend_records(taken - 1);
        }
    }

    /// Reads the records of numbers that were taken since the last poll.
    pub(super) fn read_introductions(&mut self, inbox: &mut dyn Inbox) {
        let taken = self.numbers_taken();
        let seen = self.senders.len() as u32;
        if taken == seen && self.unread.is_empty() {
            return;
        }
        for sender in seen..taken {
            if self.extend_records(sender) {
                self.unread.push(sender);
            }
        }
        self.senders.resize(taken.max(seen) as usize, SenderEntry::EMPTY);
        let mut at = 0;
        while let Some(&sender) = self.unread.get(at) {
            match self.read_record(sender) {
                Some(introduction) => {
                    self.unread.remove(at);
                    self.admit(inbox, sender, introduction);
                }
                None => at += 1,
            }
        }
    }

    fn read_record(&self, sender: u32) -> Option<Introduction> {
        let view = self.own_record(sender)?;
        // Acquire: pairs with no release, since the record comes by puts. It is a hint that some of
        // it is there; the checksum says whether all is.
        if view.word(0)?.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut record = [0; RECORD_BYTES];
        view.copy_out(&mut record);
        Introduction::parse(&record)
    }

    /// Somebody has introduced itself. The endpoint to it is how its end will be noticed.
    fn admit(&mut self, inbox: &mut dyn Inbox, sender: u32, introduction: Introduction) {
        let Introduction { cookie, status, extent, address } = introduction;
        let theirs = match Address::parse(&address) {
            Ok(theirs) if status < theirs.shape.peers => theirs,
            _ => {
                self.refuse(sender, cookie);
                return tracing::warn!(
                    sender,
                    "a peer introduced itself by no address; it is ignored"
                );
            }
        };
        let link = self.link_of_sender(&address, &theirs, inbox.generation());
        let Some(link) = link else {
            self.refuse(sender, cookie);
            return tracing::warn!(sender, "no place for another peer; it is ignored");
        };
        if !self.links[link as usize].note_extent(status, extent) {
            self.refuse(sender, cookie);
            return tracing::warn!(
                sender,
                "a peer does not say where its words are; it is ignored"
            );
        }
        inbox.renumbered(self, link, status);
        self.links[link as usize].introduced = true;
        self.senders[sender as usize] =
            SenderEntry { link, cookie, status, next: 0, trust: Trust::Known };
        if let Some(why) = self.closed {
            self.break_link(link, why.failure());
        }
    }

    /// The sender in this slot is not known; its messages are dropped.
    fn refuse(&mut self, sender: u32, cookie: u32) {
        self.stats.unknown_senders += 1;
        self.senders[sender as usize] =
            SenderEntry { cookie, trust: Trust::Known, ..SenderEntry::EMPTY };
    }

    /// The link of one that has introduced itself. If it cannot be reached, it has ended or is
    /// ending: messages that it has sent are still delivered.
    fn link_of_sender(&mut self, address: &[u8], theirs: &Address, generation: u32) -> Option<u32> {
        let known = self.links.iter().position(|link| link.address == address);
        if let Some(known) = known {
            return Some(known as u32);
        }
        match self.link_to(address, theirs, false) {
            Ok(link) => Some(link),
            Err(error) => {
                tracing::debug!(%error, "a peer that introduced itself cannot be reached");
                let place = self.free_place().ok()?;
                let mut link = Link::new(0, address.to_vec(), theirs.base, theirs.shape);
                link.failed = Some(PeerFailure::Closed);
                link.step = Step::Broken;
                link.gone = true;
                link.introduced = true;
                if place == self.links.len() {
                    self.links.push(link);
                } else {
                    self.replace_link(place, link);
                }
                self.wait_for_the_last(place as u32, generation);
                Some(place as u32)
            }
        }
    }
}
