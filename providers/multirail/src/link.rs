//! A peer as several transports together see it: its paths, what was sent to it, what is expected of it. State only; what is
//! done with it is in `drive`.

use std::collections::{HashMap, VecDeque};
use std::ops::{Deref, DerefMut};

use bowline_uct::{EpId, PeerFailure};

use super::log::Log;
use super::split::MAX_PATHS;
use super::wire::{Address, Front};

/// Messages after which what has arrived is acknowledged, and bytes. A log holds several times as much,
/// so that no sender waits for an acknowledgement that is not due.
const DUE_MESSAGES: u32 = 64;
const DUE_BYTES: usize = 128 << 10;

#[derive(Clone, Copy, Debug)]
pub(super) struct LinkPath {
    /// The endpoint of the transport, if it has one for the peer.
    pub(super) ep: Option<EpId>,
    pub(super) down: bool,
    /// Which of the peer's paths it leads to.
    pub(super) theirs: u8,
    /// The greeting is posted.
    pub(super) greeted: bool,
    /// It has refused a post, and will say when it takes one.
    pub(super) full: bool,
    /// No endpoint was made since the peer was gone by then: what it has sent may not be read yet.
    pub(super) unread: bool,
}

impl LinkPath {
    const NONE: Self =
        Self { ep: None, down: false, theirs: 0, greeted: false, full: false, unread: false };

    /// The endpoint of a path that is up.
    pub(super) fn endpoint(&self) -> Option<EpId> {
        self.ep.filter(|_| !self.down)
    }
}

/// What becomes of a message that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is the next.
    Deliver,
    /// It was here before.
    Duplicate,
    /// One in front of it is missing, or it acknowledges what was never sent.
    Damaged,
}

/// A peer.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) uid: u64,
    /// Where it is; taken once its paths are made.
    pub(super) address: Option<Address>,
    /// The endpoint of the user.
    pub(super) ep: Option<EpId>,
    pub(super) paths: [LinkPath; MAX_PATHS],
    pub(super) log: Log,
    /// The path in use.
    pub(super) active: Option<usize>,
    /// Something was or is to be said: all paths are greeted.
    pub(super) used: bool,
    /// It is queued among those that have something to post.
    pub(super) queued: bool,
    /// Number of the message that is expected.
    pub(super) expected: u32,
    /// What has arrived and was not acknowledged.
    owed_messages: u32,
    owed_bytes: usize,
    /// An acknowledgement is to go even if it travels alone.
    pub(super) due: bool,
    /// Paths that the peer has given up, by its own numbers.
    pub(super) peer_down: u8,
    /// Reads that are not answered.
    pub(super) reads: u32,
    /// Rounds since its last message, while it is ending.
    pub(super) quiet: u32,
    /// It has said goodbye on a path.
    pub(super) closed: bool,
    pub(super) failed: Option<PeerFailure>,
    /// The failure was reported.
    pub(super) reported: bool,
}

impl Link {
    pub(super) fn new(address: Address) -> Self {
        Self {
            uid: address.uid,
            address: Some(address),
            ep: None,
            paths: [LinkPath::NONE; MAX_PATHS],
            log: Log::default(),
            active: None,
            used: false,
            queued: false,
            expected: 0,
            owed_messages: 0,
            owed_bytes: 0,
            due: false,
            peer_down: 0,
            reads: 0,
            quiet: 0,
            closed: false,
            failed: None,
            reported: false,
        }
    }

    /// What stands at a number that is nobody's.
    fn gone() -> Self {
        let mut link = Self::new(Address { uid: 0, paths: Vec::new() });
        link.address = None;
        link.failed = Some(PeerFailure::Closed);
        link.reported = true;
        link
    }

    /// The first path that is up.
    pub(super) fn first_up(&self) -> Option<(usize, EpId)> {
        self.paths.iter().enumerate().find_map(|(at, path)| Some((at, path.endpoint()?)))
    }

    /// A bit for each own path that was given up.
    pub(super) fn down(&self) -> u8 {
        let bits = self.paths.iter().enumerate().filter(|(_, path)| path.down);
        bits.fold(0, |bits, (at, _)| bits | 1 << at)
    }

    /// Rule 3: what becomes of an arrival.
    pub(super) fn classify(&mut self, front: &Front, bytes: usize) -> Verdict {
        if self.log.ack(front.ack).is_none() {
            return Verdict::Damaged;
        }
        match front.number.wrapping_sub(self.expected) {
            0 => {
                self.expected = self.expected.wrapping_add(1);
                self.owed_messages += 1;
                self.owed_bytes += bytes;
                self.due |= self.owed_messages >= DUE_MESSAGES || self.owed_bytes >= DUE_BYTES;
                Verdict::Deliver
            }
            behind if behind > u32::MAX / 2 => {
                self.due = true;
                Verdict::Duplicate
            }
            _ => Verdict::Damaged,
        }
    }

    /// What has arrived was acknowledged.
    pub(super) fn acknowledged(&mut self) {
        (self.owed_messages, self.owed_bytes, self.due) = (0, 0, false);
    }
}

/// Peers whose links were dropped that are remembered.
const REMEMBERED: usize = 1024;

/// All peers, by the number that they have as sources.
///
/// **Bound.** A link is dropped, and its number given to another peer, when it has failed, the user has
/// heard of that and has no endpoint, and nothing of it is under way. So there are no more links than
/// peers that live and endpoints that are open. A peer that was given up though it lives may still greet; it
/// is known from its name, as are the last [`REMEMBERED`] that were dropped.
#[derive(Debug, Default)]
pub(super) struct Links {
    list: Vec<Link>,
    by_uid: HashMap<u64, u32>,
    free: Vec<u32>,
    dropped: VecDeque<u64>,
}

impl Links {
    /// The link of a worker.
    pub(super) fn find(&self, uid: u64) -> Option<u32> {
        self.by_uid.get(&uid).copied()
    }

    /// Whether a worker had a link that was dropped.
    pub(super) fn was_dropped(&self, uid: u64) -> bool {
        self.dropped.contains(&uid)
    }

    /// The link to a worker that is not known yet. Its paths are to be made.
    pub(super) fn insert(&mut self, link: Link) -> u32 {
        let uid = link.uid;
        let index = match self.free.pop() {
            Some(index) => {
                self.list[index as usize] = link;
                index
            }
            None => {
                self.list.push(link);
                self.list.len() as u32 - 1
            }
        };
        self.by_uid.insert(uid, index);
        index
    }

    /// Takes back a link of which no peer has heard.
    pub(super) fn take_back(&mut self, index: u32) {
        self.by_uid.remove(&self.list[index as usize].uid);
        // What goes through all links finds one that has failed, and does nothing for it.
        self.list[index as usize] = Link::gone();
        self.free.push(index);
    }

    /// Drops a link.
    pub(super) fn drop_gone(&mut self, index: u32) {
        if self.dropped.len() == REMEMBERED {
            self.dropped.pop_front();
        }
        self.dropped.push_back(self.list[index as usize].uid);
        self.take_back(index);
    }
}

impl Deref for Links {
    type Target = [Link];

    fn deref(&self) -> &[Link] {
        &self.list
    }
}

impl DerefMut for Links {
    fn deref_mut(&mut self) -> &mut [Link] {
        &mut self.list
    }
}

#[cfg(test)]
mod tests {
    use bowline_uct::AmId;

    use super::super::log;
    use super::*;

    fn front(number: u32, ack: u32) -> Front {
        Front { number, id: AmId::new(1), header: [0; 3], down: 0, ack }
    }

    #[test]
    fn the_next_is_handed_on_and_no_other() {
        let mut link = Link::new(Address { uid: 1, paths: Vec::new() });
        link.expected = u32::MAX;
        assert_eq!(link.classify(&front(u32::MAX, 0), 1), Verdict::Deliver);
        assert_eq!(link.classify(&front(u32::MAX, 0), 1), Verdict::Duplicate);
        assert!(link.due, "a sender that repeats has not heard");
        assert_eq!(link.classify(&front(1, 0), 1), Verdict::Damaged);
        assert_eq!(link.classify(&front(0, 0), 1), Verdict::Deliver);
        assert_eq!(link.classify(&front(1, 1), 1), Verdict::Damaged, "nothing was sent");
    }

    /// A sender whose log is full has heard, or will hear, of messages that are there.
    #[test]
    fn acknowledgements_are_due_long_before_a_log_is_full() {
        const { assert!(DUE_MESSAGES as usize * 4 <= log::MESSAGES && DUE_BYTES * 4 <= log::BYTES) };
        let mut link = Link::new(Address { uid: 1, paths: Vec::new() });
        for number in 0..DUE_MESSAGES {
            assert!(!link.due);
            link.classify(&front(number, 0), 1);
        }
        assert!(link.due);
        link.acknowledged();
        link.classify(&front(DUE_MESSAGES, 0), DUE_BYTES);
        assert!(link.due);
    }
}
