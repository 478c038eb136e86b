//! How an operation sets out: whether there is space, when it leaves, when it is due, what happens
//! to it on the way.

use bowline_base::slab::Key;
use bowline_uct::{PostError, Token};

use super::op::{Class, Kind, Op};
use super::{Net, State, What};
use crate::options::{Death, Drive, LinkMode, Moment};
use crate::payload::Payload;
use crate::trace::Mark;

impl Net {
    /// Whether `from` may post to `to` now; counts the attempt, at which it may have to die.
    pub(crate) fn admit(&mut self, from: u32, to: u32, am: bool) -> Result<(), PostError> {
        let node = &mut self.nodes[from as usize];
        if node.state != State::Alive {
            return Err(PostError::PeerFailed);
        }
        node.posts += 1;
        let posts = node.posts;
        let dies = |death: &Death| death.node == from && death.when == Moment::Operation(posts);
        if self.options.deaths.iter().any(dies) {
            self.kill(from);
            return Err(PostError::PeerFailed);
        }
        if self.links.get(&(from, to)).is_some_and(|link| link.failed.is_some()) {
            return Err(PostError::PeerFailed);
        }
        if !self.has_space(from, to, am) {
            self.counters.refused += 1;
            self.note(Mark::Refuse, from, to, [posts, 0]);
            return Err(PostError::NoResource);
        }
        Ok(())
    }

    pub(crate) fn has_space(&self, from: u32, to: u32, am: bool) -> bool {
        if am {
            self.nodes[to as usize].reserved < self.options.slots
        } else {
            self.nodes[from as usize].outstanding < self.options.outstanding
        }
    }

    /// Posts an operation that was admitted; gives its number on the link.
    pub(crate) fn post(
        &mut self,
        from: u32,
        to: u32,
        token: Token,
        kind: Kind,
        len: usize,
        after: Option<u64>,
    ) -> u64 {
        self.counters.posted += 1;
        self.ask_after(from, to);
        let class = kind.class();
        let raw = self.options.link == LinkMode::Raw && matches!(kind, Kind::Am { .. });
        if matches!(kind, Kind::Am { .. }) {
            self.nodes[to as usize].reserved += 1;
        }
        if kind.one_sided() {
            self.nodes[from as usize].outstanding += 1;
        }
        // A flush that waits for acknowledgements sends nothing.
        let sends = !(matches!(kind, Kind::Flush { .. }) && self.options.acknowledged);
        let departs = if sends {
            self.departure(from, len)
        } else {
            self.nodes[from as usize].nic_free.max(self.now)
        };
        let borrows = kind.borrows() && !matches!(kind, Kind::Get { .. });
        let op =
            Op { from, to, seq: 0, token, departs, lost: false, copy: false, result: Ok(0), kind };
        let key = self.ops.insert(op);
        let seq = self.link(from, to).enter(key, class, after);
        self.note(Mark::Post, from, to, [seq, (class as u64) << 48 | len as u64]);
        let (wire, lost) = if sends { self.wire_time(raw, len) } else { (0, false) };
        let twice = sends && self.random.chance(self.options.faults.duplicate);
        if let Some(op) = self.ops.get_mut(key) {
            op.seq = seq;
            op.lost = lost;
        }
        if borrows {
            self.event(departs, What::Depart(key));
        }
        self.event(departs + wire, What::Arrive(key));
        if self.options.drive == Drive::OnIdle {
            // The sleeper there is the one to move time.
            self.nodes[to as usize].doorbell.ring();
        }
        if twice {
            self.double(key, (raw, len), departs);
        }
        seq
    }

    /// When an operation of `len` bytes leaves `from`.
    fn departure(&mut self, from: u32, len: usize) -> u64 {
        let (_, gap) = self.options.times(len);
        let node = &mut self.nodes[from as usize];
        let departs = node.nic_free.max(self.now) + gap;
        node.nic_free = departs;
        departs
    }

    /// How long a transmission of `len` bytes takes with its faults, and whether it never arrives.
    fn wire_time(&mut self, raw: bool, len: usize) -> (u64, bool) {
        let faults = self.options.faults;
        let mut wire = self.options.times(len).0 + self.random.below(self.options.jitter_ns + 1);
        if self.random.chance(faults.reorder) {
            self.counters.reordered += 1;
            wire += self.random.below(faults.reorder_ns + 1);
        }
        let mut lost = self.random.chance(faults.loss);
        self.counters.lost += u64::from(lost);
        // A bound, so that a loss of everything still ends.
        let mut tries = 0;
        while lost && !raw && tries < 16 {
            wire += faults.retransmit_ns.max(1);
            lost = self.random.chance(faults.loss);
            self.counters.lost += u64::from(lost);
            tries += 1;
        }
        (wire, lost && raw)
    }

    /// A second arrival of the operation.
    fn double(&mut self, key: Key, (raw, len): (bool, usize), departs: u64) {
        self.counters.duplicated += 1;
        let (wire, lost) = self.wire_time(raw, len);
        let copied = self.ops.get(key).and_then(|op| match &op.kind {
            Kind::Am { id, header, payload } if raw => Some(Op {
                from: op.from,
                to: op.to,
                seq: 0,
                token: Token::NONE,
                departs,
                lost,
                copy: true,
                result: Ok(0),
                kind: Kind::Am {
                    id: *id,
                    header: *header,
                    payload: Payload::Owned(payload.copy()),
                },
            }),
            _ => None,
        });
        let Some(copy) = copied else {
            // A reliable link knows the number and drops what comes twice.
            return self.event(departs + wire, What::Arrive(key));
        };
        let (from, to) = (copy.from, copy.to);
        self.note(Mark::Duplicate, from, to, [0, 0]);
        let key = self.ops.insert(copy);
        let seq = self.link(from, to).enter(key, Class::Am, None);
        if let Some(op) = self.ops.get_mut(key) {
            op.seq = seq;
        }
        self.event(departs + wire, What::Arrive(key));
    }
}
