//! What is known of messages whose pieces are arriving.

use bowline_base::slab::Key;

use super::Transfers;
use crate::peer::PeerIndex;
use crate::select::{Measure, MessageKind, PieceTimes};

/// A message whose pieces are arriving.
#[derive(Debug)]
pub(super) struct Assembly {
    pub(super) message: u64,
    pub(super) target: Target,
    pub(super) received: u64,
    pub(super) total: u64,
    /// Bytes of the first piece.
    pub(super) first: u64,
    pub(super) measure: Measure,
    /// Of an unexpected message.
    pub(super) times: PieceTimes,
}

impl Assembly {
    /// Whether its pieces are timed one by one.
    pub(super) fn is_timed(&self) -> bool {
        let Measure { begun, traffic, .. } = self.measure;
        traffic.kind == MessageKind::Unexpected && begun != 0 && begun != Measure::UNTIMED
    }

    /// What its pieces have taken, in place of a time as in [`Measure::begun`].
    pub(super) fn spent(&self) -> u64 {
        match self.is_timed() {
            true => self.times.of_all(self.first, self.total).max(1),
            false => self.measure.begun,
        }
    }
}

/// Where pieces go.
#[derive(Debug)]
pub(super) enum Target {
    /// A receive that was posted before.
    Receive(Key),
    /// A waiting message.
    Unexpected(Key),
    /// A user's active message: handler id, bytes of header, all bytes.
    Am(u16, u32, Vec<u8>),
    /// Nobody wants it any more.
    Discard,
}

impl Transfers {
    /// The messages of a peer whose pieces are arriving.
    pub(super) fn of(&mut self, peer: PeerIndex) -> &mut Vec<Assembly> {
        let at = peer as usize;
        if at >= self.arriving.len() {
            self.arriving.resize_with(at + 1, Vec::new);
        }
        &mut self.arriving[at]
    }

    /// Whose message is arriving in a receive, and how many bytes have come.
    pub(super) fn arriving_in(&self, receive: Key) -> Option<(PeerIndex, u64)> {
        let is_it = |a: &&Assembly| matches!(a.target, Target::Receive(key) if key == receive);
        let of = |(peer, all): (PeerIndex, &Vec<Assembly>)| {
            Some((peer, all.iter().find(is_it)?.received))
        };
        (0..).zip(&self.arriving).find_map(of)
    }

    /// The one that is kept as `message`.
    pub(super) fn kept_as(&mut self, peer: PeerIndex, message: Key) -> Option<&mut Assembly> {
        let is_it =
            |a: &&mut Assembly| matches!(a.target, Target::Unexpected(key) if key == message);
        self.arriving.get_mut(peer as usize)?.iter_mut().find(is_it)
    }
}
