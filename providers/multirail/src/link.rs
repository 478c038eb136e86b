//! A peer as several transports together see it: its paths, what was sent to it, what is expected of it. State only; what is
//! done with it is in `drive`.

use bowline_uct::{EpId, PeerFailure};

use super::log::Log;
use super::split::MAX_PATHS;
use super::wire::{Address, Front};

/// Messages after which what has arrived is acknowledged, and bytes. A log holds several times as much,
/// so that no sender waits for an acknowledgement that is not due.
const DUE_MESSAGES: u32 = 64;
const DUE_BYTES: usize = 128 << 10;

/// What a transport has for the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathState {
    /// There is none.
    None,
    /// An endpoint of the transport.
    Up(EpId),
    Down,
}

/// One path of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkPath {
    pub(super) state: PathState,
    /// Which of the peer's paths it leads to.
    pub(super) theirs: u8,
    /// The greeting is posted.
    pub(super) greeted: bool,
    /// It has refused a post, and will say when it takes one.
    pub(super) full: bool,
}

impl LinkPath {
    const NONE: Self = Self { state: PathState::None, theirs: 0, greeted: false, full: false };

    pub(super) fn endpoint(&self) -> Option<EpId> {
        match self.state {
            PathState::Up(ep) => Some(ep),
            PathState::None | PathState::Down => None,
        }
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
            failed: None,
            reported: false,
        }
    }

    /// The first path that is up.
    pub(super) fn first_up(&self) -> Option<(usize, EpId)> {
        self.paths.iter().enumerate().find_map(|(at, path)| Some((at, path.endpoint()?)))
    }

    /// A bit for each own path that was given up.
    pub(super) fn down(&self) -> u8 {
        let bits = self.paths.iter().enumerate().filter(|(_, path)| path.state == PathState::Down);
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
