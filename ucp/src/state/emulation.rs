//! What a worker knows of operations that the owners of memory carry out, as their caller and as an owner. The rules are
//! in [`crate::emulate`].

use std::collections::{HashMap, VecDeque};

use bowline_base::buffer::RecvBuf;
use bowline_base::slab::{Key, Slab};
use bowline_uct::{AtomicOp, AtomicWidth, MemHandle};

use crate::peer::PeerIndex;
use crate::wire::Remote;

/// Unanswered pieces of a peer.
pub(crate) const WINDOW: usize = 16;

/// Where memory lies that was made reachable.
#[derive(Debug)]
pub(crate) enum ServedMemory {
    /// With a lane.
    Lane(usize, MemHandle),
    /// Here: no lane takes any.
    Own(RecvBuf),
}

/// A key of memory that its owner serves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    /// The owner.
    pub(crate) peer: PeerIndex,
    /// The memory, as the owner named it.
    pub(crate) memory: u64,
    /// The owner was asked for something by it, or will be for everything.
    pub(crate) used: bool,
}

/// What is asked of the owner.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Put,
    Get,
    Atomic(AtomicOp, AtomicWidth),
    /// To answer, behind everything before it.
    Flush,
}

/// An operation of which something is to be posted.
#[derive(Debug)]
pub(crate) struct WaitingOperation {
    pub(crate) key: Key,
    pub(crate) what: What,
    pub(crate) memory: u64,
    /// Of the whole operation's first byte.
    pub(crate) at: u64,
    /// The part of it that is to be posted.
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// A piece without answer.
#[derive(Debug)]
pub(crate) struct Piece {
    /// `None`: nobody wants it any more.
    pub(crate) key: Option<Key>,
    pub(crate) what: What,
    pub(crate) memory: u64,
    pub(crate) at: u64,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// What is under way with a peer.
#[derive(Debug, Default)]
pub(crate) struct Side {
    pub(crate) waiting: VecDeque<WaitingOperation>,
    pub(crate) sent: VecDeque<Piece>,
}

/// Something that a peer asks for.
#[derive(Debug)]
pub(crate) struct AskedOperation {
    pub(crate) peer: PeerIndex,
    pub(crate) memory: u64,
    pub(crate) address: u64,
    pub(crate) what: Remote,
    pub(crate) data: Vec<u8>,
}

/// What a worker knows of such operations, as their caller and as owner of memory.
#[derive(Debug, Default)]
pub(crate) struct Emulation {
    pub(crate) served: Slab<ServedMemory>,
    pub(crate) keys: Slab<Opened>,
    pub(crate) sides: HashMap<PeerIndex, Side>,
    pub(crate) asked: VecDeque<AskedOperation>,
    /// Open keys by which owners are asked for operations.
    pub(crate) used: usize,
}

impl Emulation {
    /// Notes a key.
    pub(crate) fn open(&mut self, opened: Opened) -> Key {
        self.used += usize::from(opened.used);
        self.keys.insert(opened)
    }

    /// Forgets it.
    pub(crate) fn close(&mut self, key: Key) {
        if let Some(opened) = self.keys.remove(key) {
            self.used -= usize::from(opened.used);
        }
    }

    /// An owner is asked for an operation.
    pub(crate) fn use_key(&mut self, key: Key) {
        if let Some(opened) = self.keys.get_mut(key)
            && !std::mem::replace(&mut opened.used, true)
        {
            self.used += 1;
        }
    }

    /// Whether a fence has to order what owners do: something is under way with one, or may be asked of
    /// one behind it.
    pub(crate) fn is_used(&self) -> bool {
        self.used > 0 || !self.busy().is_empty()
    }

    /// Peers with which something is under way.
    pub(crate) fn busy(&self) -> Vec<PeerIndex> {
        let busy = |side: &Side| !side.waiting.is_empty() || !side.sent.is_empty();
        self.sides.iter().filter(|(_, side)| busy(side)).map(|(&peer, _)| peer).collect()
    }

    /// Peers whose memory is open here, with which something is under way, or that wait for an answer.
    pub(crate) fn peers(&self) -> impl Iterator<Item = PeerIndex> {
        let opened = self.keys.iter().map(|(_, opened)| opened.peer);
        let asked = self.asked.iter().map(|asked| asked.peer);
        opened.chain(self.busy()).chain(asked)
    }

    /// A peer with which nothing is under way is forgotten.
    pub(crate) fn forget(&mut self, peer: PeerIndex) {
        self.sides.remove(&peer);
    }

    /// Whether this is one of them.
    pub(crate) fn is_busy(&self, peer: PeerIndex) -> bool {
        let side = self.sides.get(&peer);
        side.is_some_and(|side| !side.waiting.is_empty() || !side.sent.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_order_owners_as_long_as_a_key_of_theirs_is_open() {
        let mut emulation = Emulation::default();
        let opened = |used| Opened { peer: 0, memory: 1, used };
        let lane = emulation.open(opened(false));
        assert!(!emulation.is_used(), "the transport has carried out everything");
        emulation.use_key(lane);
        emulation.use_key(lane);
        let owner = emulation.open(opened(true));
        emulation.close(lane);
        assert!(emulation.is_used());
        emulation.close(owner);
        assert!(!emulation.is_used());
        emulation.close(owner);
        assert!(!emulation.is_used());
    }
}
