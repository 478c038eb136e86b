//! What a sender leaves that dies between its reservation and its finalise.
//!
//! The queue's memory holds no intents: each would cost a put or two per message, for a case that
//! hardly ever comes. Instead the consumer asks, when a half does not settle and an introduced
//! peer has ended.
//!
//! 1. The transport below reports the end of a peer when nothing of that peer is under way any more. So
//!    what it left is all there.
//! 2. Every link has a *status word* in the memory of the sender: reservations begun, and those of
//!    them not known to have ended (by the answer to the add to S or F). It is stored before a
//!    reservation is posted, and after its add was answered. One add is unanswered at a time, so
//!    that those that have ended are a prefix of those begun.
//! 3. The half was flipped before, so that the reservations in question were begun before. The
//!    consumer reads the status word of every living sender with a get, in which the sender takes
//!    no part. If as many have ended as were begun, nothing of it is missing. Else it reads again
//!    until what was begun at the first reading has ended, or the sender has, too.
//! 4. What is missing then was left by the dead. A dead one had one reservation at most that was
//!    not ended: its last, whose number stands in the mark of its messages. The messages of the
//!    highest number of each dead sender are dropped; its last words may be lost although they
//!    were finalised, but never come in pieces.
//! 5. The end of a peer is reported when the half that was active at the notice has been drained:
//!    its messages come before. While a flip by the device is under way no end is reported, since R and
//!    what the consumer knows of it do not belong together; and which half was active at a notice
//!    that came meanwhile is known only after it, when it is taken to be the later one.
//! 6. Where messages are checksummed, reservations end with the answer to a flush, or to a later atomic; a
//!    dead sender may have left several; and rule 4 is replaced by the checksum, which shows what is
//!    whole. See `checksummed`.

use super::lane_core::LaneCore;
use super::link::{SenderEntry, Status};

impl LaneCore {
    /// The end of `link` is to be reported when its last messages have been handed out. Senders reserve under
    /// `generation`, if no flip is under way.
    pub(super) fn wait_for_the_last(&mut self, link: u32, generation: u32) {
        let known = (!self.flip_is_under_way()).then_some(generation);
        self.settlement.ending.push((link, known));
    }

    /// Reports the ends whose time has come, as `due` says. It gets the link, and whether the queue was flipped
    /// since the notice. Senders reserve under `generation`.
    pub(super) fn report_ends(
        &mut self,
        generation: u32,
        mut due: impl FnMut(&Self, u32, bool) -> bool,
    ) {
        let mut at = 0;
        while let Some((link, noticed)) = self.settlement.ending.get_mut(at) {
            let (link, noticed) = (*link, *noticed.get_or_insert(generation));
            if due(self, link, noticed != generation) {
                self.settlement.ending.swap_remove(at);
                self.report_failure(link);
            } else {
                at += 1;
            }
        }
    }

    /// Reports all ends: nothing is handed out any more.
    pub(super) fn report_all_ends(&mut self) {
        self.settlement.running = None;
        for (link, _) in std::mem::take(&mut self.settlement.ending) {
            self.report_failure(link);
        }
    }

    /// Asks the living, one after the other, in the settlement that is under way. Whether all that they had
    /// reserved before the flip has ended.
    pub(super) fn ask_the_living(&mut self, generation: u32) -> bool {
        while self.settlement.asking.is_none() {
            let Some(sender) = self.senders.get(self.settlement.sender).copied() else {
                return true;
            };
            if sender.link == SenderEntry::NO_LINK || self.is_gone(&sender) {
                self.next_sender();
                continue;
            }
            match self.ask_status(sender.link, sender.status) {
                Ok(Some(word)) => {
                    if !self.heard(word) {
                        return false;
                    }
                }
                Ok(None) => self.settlement.asking = Some((sender.link, generation)),
                // No resources, or it has ended, which will be reported.
                Err(()) => return false,
            }
        }
        false
    }

    /// Whether a known sender has the number, and is gone.
    pub(super) fn is_gone(&self, sender: &SenderEntry) -> bool {
        sender.link != SenderEntry::NO_LINK && self.links[sender.link as usize].gone
    }

    fn next_sender(&mut self) {
        self.settlement.sender += 1;
        self.settlement.first = None;
    }

    /// A status word of the sender in question. Whether that sender is done with.
    fn heard(&mut self, word: u64) -> bool {
        let Some(status) = Status::read(word) else { return false };
        let done = status.ended_since(*self.settlement.first.get_or_insert(status));
        if done {
            self.next_sender();
        }
        done
    }

    /// The get of a status word was answered.
    pub(super) fn status_answered(&mut self, link: u32, good: bool) {
        let Some((asked, generation)) = self.settlement.asking.filter(|asked| asked.0 == link)
        else {
            return;
        };
        self.settlement.asking = None;
        if self.settlement.running != Some(generation) {
            return;
        }
        let word = self.links.get_mut(asked as usize).and_then(|link| link.status_word.as_mut());
        if let Some(word) = word.filter(|_| good) {
            let mut bytes = [0; 8];
            word.view().copy_out(&mut bytes);
            self.heard(u64::from_ne_bytes(bytes));
        }
    }
}
