//! Atomic operations: of libfabric where it has all of them and works over a network, else by a message
//! that the target's progress serves.
//!
//! An interface does one or the other, never both, since words that are changed in two ways at
//! once would not be atomic: [`Caps::ATOMIC_DEVICE`](bowline_uct::Caps::ATOMIC_DEVICE) says
//! libfabric, [`Caps::ATOMIC_CPU`](bowline_uct::Caps::ATOMIC_CPU) the target's processor. All
//! interfaces of a job need the same setting, as every peer's key would say otherwise.

use bowline_uct::{AtomicOp, AtomicWidth, EpId, PostError, RemoteSlice, Token};
use libfabric_sys as sys;

use crate::iface::OfiIface;
use crate::peer::Work;
use crate::post::context_of;
use crate::wire::{ATOMIC, HEADER, Header, Kind, Outcome, Request};

/// Places of the three words in a send buffer.
const OPERAND: usize = 0;
const COMPARE: usize = 16;
const RESULT: usize = 32;

impl OfiIface {
    /// Posts an atomic operation.
    pub(crate) fn post_atomic(
        &mut self,
        ep: EpId,
        op: AtomicOp,
        width: AtomicWidth,
        at: RemoteSlice,
        token: Token,
    ) -> Result<(), PostError> {
        let index = self.open_peer(ep)?;
        self.rkeys.open_word(index, at, width)?;
        let remote = self.remote(index, at, width.bytes())?;
        if self.must_wait(index) {
            return Err(self.refuse());
        }
        if self.native_atomics {
            self.atomic_native(index, op, width, remote, token)?;
        } else {
            self.atomic_asked(index, op, width, (remote.key, at.address), token)?;
        }
        self.counters.atomics += 1;
        Ok(())
    }

    fn atomic_native(
        &mut self,
        index: u32,
        op: AtomicOp,
        width: AtomicWidth,
        remote: crate::net::Remote,
        token: Token,
    ) -> Result<(), PostError> {
        let Some(buffer) = self.tx.take() else {
            return Err(self.refuse());
        };
        let (code, operand, compare) = match op {
            AtomicOp::Add(by) => (sys::FI_SUM, by, None),
            AtomicOp::And(by) => (sys::FI_BAND, by, None),
            AtomicOp::Or(by) => (sys::FI_BOR, by, None),
            AtomicOp::Xor(by) => (sys::FI_BXOR, by, None),
            AtomicOp::Swap(by) => (sys::FI_ATOMIC_WRITE, by, None),
            AtomicOp::Cswap { compare, new } => (sys::FI_CSWAP, new, Some(compare)),
        };
        let (wide, kind) = match width {
            AtomicWidth::W32 => (false, sys::FI_UINT32),
            AtomicWidth::W64 => (true, sys::FI_UINT64),
        };
        let store = |place: usize, value: u64| {
            let space = self.tx.view(buffer).slice(place, 8).expect("inside a buffer");
            // A word of the width stands at its own address, whatever the order of bytes.
            if wide {
                space.copy_in(&value.to_ne_bytes())
            } else {
                space.copy_in(&(value as u32).to_ne_bytes())
            };
        };
        store(OPERAND, operand);
        store(COMPARE, compare.unwrap_or(0));
        let word = |place| self.tx.piece(buffer, place, 8);
        let words = [
            Some(word(OPERAND)),
            compare.map(|_| word(COMPARE)),
            // A comparison always has a result, whether or not somebody wants it.
            (token != Token::NONE || compare.is_some()).then(|| word(RESULT)),
        ];
        let epoch = self.peers[index as usize].flushes.begin();
        let work = Work::Atomic { buffer, token, wide, epoch };
        let number = self.ops.insert(index, work, None);
        // SAFETY: the words are in a buffer that belongs to the operation until its completion
        // gives it back; the pool outlives the endpoint.
        let posted = unsafe { self.net.atomic(remote, (kind, code), words, context_of(number)) };
        match self.posted(number, posted) {
            Ok(()) => Ok(()),
            Err(refused) => {
                self.tx.give(buffer);
                self.peers[index as usize].flushes.end(epoch);
                Err(self.refusal(index, refused))
            }
        }
    }

    /// The old value that libfabric wrote.
    pub(crate) fn atomic_result(&self, buffer: u32, wide: bool) -> u64 {
        let view = self.tx.view(buffer).slice(RESULT, 8).expect("inside a buffer");
        let mut bytes = [0; 8];
        view.copy_out(&mut bytes);
        if wide {
            u64::from_ne_bytes(bytes)
        } else {
            u64::from(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        }
    }

    /// Asks the target for it by a message.
    fn atomic_asked(
        &mut self,
        index: u32,
        op: AtomicOp,
        width: AtomicWidth,
        (key, address): (u64, u64),
        token: Token,
    ) -> Result<(), PostError> {
        let peer = &self.peers[index as usize];
        if !peer.is_open() || peer.credit() == 0 {
            return Err(self.refuse());
        }
        let epoch = self.peers[index as usize].flushes.begin();
        let work = Work::Asked { token, epoch };
        let request = self.ops.insert(index, work, None);
        let peer = &mut self.peers[index as usize];
        let (source, taken, place) = (peer.number, peer.taken, peer.place);
        let stamp = peer.stamps.ours;
        let head = Header { kind: Kind::Atomic, id: 0, source, stamp, taken }.pack();
        let mut message = [0; ATOMIC];
        message[..HEADER].copy_from_slice(&head);
        message[HEADER..].copy_from_slice(&Request { request, op, width, key, address }.pack());
        // SAFETY: an array of our own.
        let sent = unsafe { self.net.inject(place, message.as_ptr(), message.len()) };
        match self.posted(request, sent) {
            Ok(()) => {
                let peer = &mut self.peers[index as usize];
                peer.sent = peer.sent.wrapping_add(1);
                peer.reported = taken;
                peer.taken_due = false;
                Ok(())
            }
            Err(refused) => {
                self.peers[index as usize].flushes.end(epoch);
                Err(self.refusal(index, refused))
            }
        }
    }

    /// Serves a peer's request.
    pub(crate) fn serve(&mut self, source: u32, request: &Request) {
        let Request { request, op, width, key, address } = *request;
        let word = self.memories.reach(key, address, width.bytes());
        let old = word.and_then(|word| op.perform(word, width));
        if old.is_none() {
            self.counters.refused_accesses += 1;
        }
        self.peers[source as usize].results.push_back(Outcome { request, old });
        self.make_busy(source);
    }
}
