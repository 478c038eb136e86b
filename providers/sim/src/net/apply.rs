//! What operations do where they arrive, and what their initiators learn of it.

use bowline_base::slab::Key;
use bowline_base::sync::atomic::Ordering;
use bowline_uct::{AtomicOp, AtomicWidth, PeerFailure, Token};

use super::node::Item;
use super::op::{Kind, Remote};
use super::{Group, Net, State, What};
use crate::payload::{Bytes, Payload};
use crate::trace::Mark;

impl Net {
    /// An operation happens at its target.
    pub(super) fn apply(&mut self, key: Key) {
        let Some(op) = self.ops.get_mut(key) else { return };
        let (from, to, seq) = (op.from, op.to, op.seq);
        let class = op.kind.class();
        // The content is taken out, since it is used with the network at hand.
        let kind = std::mem::replace(&mut op.kind, Kind::Close);
        self.note(Mark::Apply, from, to, [seq, class as u64]);
        let mut result = Ok(0);
        let kept = match kind {
            Kind::Am { id, header, payload } => {
                let node = &mut self.nodes[to as usize];
                node.known.insert(from);
                let payload = payload.into_bytes();
                node.inbox.push_back(Item::Am { from, id, header, payload });
                self.wake(to);
                Kind::Close
            }
            Kind::Put { at, payload } => {
                self.unload(from);
                result = self.write(to, at, payload);
                Kind::Close
            }
            Kind::Get { at, len, into, .. } => {
                self.unload(from);
                let data = self.read(to, at, len);
                result = data.as_ref().map(|_| 0).ok_or(PeerFailure::Refused);
                Kind::Get { at, len, into, data }
            }
            Kind::Atomic { at, op, width } => {
                self.unload(from);
                result = self.atomic(to, at, op, width);
                Kind::Close
            }
            Kind::Flush { group } => return self.flushed(key, group),
            Kind::Close => {
                self.ops.remove(key);
                return self.notice(to, from, PeerFailure::Closed);
            }
        };
        if let Some(op) = self.ops.get_mut(key) {
            op.kind = kept;
            op.result = result;
        }
        self.applied(key);
    }

    /// An operation has happened: it ends here, or when its initiator has learned of it.
    pub(super) fn applied(&mut self, key: Key) {
        let Some(op) = self.ops.get(key) else { return };
        if op.token == Token::NONE && !matches!(op.kind, Kind::Get { .. }) {
            self.ops.remove(key);
            return;
        }
        let (from, to) = (op.from, op.to);
        let mut back = match &op.kind {
            Kind::Get { len, .. } => self.options.read_time(*len),
            _ => 0,
        };
        if back > 0 && self.options.answers_queue {
            let free = &mut self.nodes[to as usize].nic_free;
            *free = self.now.max(*free) + back;
            back = *free - self.now;
        }
        let wire = self.options.latency_ns + self.random.below(self.options.jitter_ns + 1);
        self.link(from, to).done.insert(key);
        self.event(self.now + back + wire, What::Complete(key));
    }

    /// The initiator of an operation learns that it has happened.
    pub(super) fn complete(&mut self, key: Key) {
        let Some(op) = self.ops.remove(key) else { return };
        self.link(op.from, op.to).done.remove(&key);
        match op.kind {
            Kind::Get { into, data: Some(data), .. } => into.scatter(data.view()),
            Kind::Flush { group } => return self.end_group(group),
            _ => {}
        }
        self.report(op.from, op.token, op.result);
    }

    /// A one-sided operation is not under way any more.
    pub(super) fn unload(&mut self, from: u32) {
        let limit = self.options.outstanding;
        let node = &mut self.nodes[from as usize];
        let was_full = node.outstanding >= limit;
        node.outstanding = node.outstanding.saturating_sub(1);
        if was_full {
            self.wake(from);
        }
    }

    /// Everything in front of a flush has happened on one of its links.
    fn flushed(&mut self, key: Key, group: Key) {
        let Some(one) = self.groups.get_mut(group) else {
            self.ops.remove(key);
            return;
        };
        one.left -= 1;
        if one.left > 0 {
            self.ops.remove(key);
            return;
        }
        if let Some(op) = self.ops.get_mut(key) {
            op.kind = Kind::Flush { group };
            let (from, to) = (op.from, op.to);
            self.link(from, to).done.insert(key);
            self.event(self.now + self.options.latency_ns, What::Complete(key));
        }
    }

    /// A link of a flush failed before the flush was through.
    pub(super) fn flush_failed(&mut self, group: Key, how: PeerFailure) {
        let Some(one) = self.groups.get_mut(group) else { return };
        one.result = Err(how);
        one.left = one.left.saturating_sub(1);
        if one.left == 0 {
            self.end_group(group);
        }
    }

    pub(super) fn end_group(&mut self, group: Key) {
        if let Some(Group { node, token, result, .. }) = self.groups.remove(group) {
            self.report(node, token, result);
        }
    }

    /// Begins a flush of the links from `node` to `targets`. `false` when nothing is under way.
    pub(crate) fn flush(&mut self, node: u32, only: Option<u32>, token: Token) -> bool {
        let (first, last) = only.map_or((0, u32::MAX), |to| (to, to));
        let busy: Vec<u32> = self
            .links
            .range((node, first)..=(node, last))
            .filter(|(_, link)| !link.pending.is_empty())
            .map(|(&(_, to), _)| to)
            .collect();
        if busy.is_empty() {
            return false;
        }
        let left = busy.len() as u32;
        let group = self.groups.insert(Group { node, token, left, result: Ok(0) });
        for to in busy {
            self.post(node, to, Token::NONE, Kind::Flush { group }, 0, None);
        }
        true
    }

    /// What `node` posts from here on waits for what it posted before.
    pub(crate) fn fence(&mut self, node: u32) {
        for (_, link) in self.links.range_mut((node, 0)..=(node, u32::MAX)) {
            link.epoch += 1;
        }
    }

    fn write(&mut self, to: u32, at: Remote, payload: Payload) -> Result<u64, PeerFailure> {
        let bytes = payload.into_bytes();
        let node = &self.nodes[to as usize];
        let range = at.handle.and_then(|handle| node.memory.get(&handle)).filter(|r| r.writable);
        let place = range.and_then(|range| range.reach(at.address, bytes.len()));
        let place = place.filter(|_| node.state == State::Alive).ok_or(PeerFailure::Refused)?;
        put(&bytes, place);
        Ok(0)
    }

    fn read(&self, to: u32, at: Remote, len: usize) -> Option<Bytes> {
        let node = &self.nodes[to as usize];
        if node.state != State::Alive {
            return None;
        }
        match at.handle {
            Some(handle) => {
                let view = node.memory.get(&handle)?.reach(at.address, len)?;
                Some(Bytes::new(view.to_vec()))
            }
            None => read_checked(at.address, len).map(Bytes::new),
        }
    }

    fn atomic(
        &self,
        to: u32,
        at: Remote,
        op: AtomicOp,
        width: AtomicWidth,
    ) -> Result<u64, PeerFailure> {
        let node = &self.nodes[to as usize];
        let range = at.handle.and_then(|handle| node.memory.get(&handle)).filter(|r| r.writable);
        let place = range.and_then(|range| range.reach(at.address, width.bytes()));
        let place = place.filter(|_| node.state == State::Alive).ok_or(PeerFailure::Refused)?;
        op.perform(place, width).ok_or(PeerFailure::Refused)
    }
}

/// Writes a put: a whole word by one store, as an interface would, so that an observer sees all
/// of it or nothing; everything else by copying.
fn put(bytes: &Bytes, place: bowline_base::view::View<'_>) {
    if bytes.len() == 8
        && let Some(word) = place.word(0)
    {
        let mut value = [0; 8];
        bytes.view().copy_out(&mut value);
        // Release: what was put before it is visible to an observer that acquires the word.
        return word.store(u64::from_ne_bytes(value), Ordering::Release);
    }
    place.copy_in(&bytes.view().to_vec());
}

/// Reads this process's own memory by the kernel, which refuses addresses that are not there.
fn read_checked(address: u64, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0_u8; len];
    let mut done = 0;
    while done < len {
        let local =
            libc::iovec { iov_base: bytes[done..].as_mut_ptr().cast(), iov_len: len - done };
        let there = usize::try_from(address).ok()?.checked_add(done)?;
        let remote = libc::iovec {
            iov_base: std::ptr::without_provenance_mut::<libc::c_void>(there),
            iov_len: len - done,
        };
        // SAFETY: `local` describes `len - done` writable bytes of `bytes`. The kernel checks the
        // remote range itself and writes nothing else.
        let read = unsafe {
            libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
        };
        done += usize::try_from(read).ok().filter(|&n| n > 0)?;
    }
    Some(bytes)
}
