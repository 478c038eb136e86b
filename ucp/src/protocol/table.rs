//! The choice among protocols by cost.
//!
//! What a message costs by a protocol is a line over the size ([`bowline_model::transport`] has the model). For each
//! operation and lane the lower envelope of these lines is a table of ranges, made once when the worker is made.
//! The short path does not read it: it compares with one limit.
//!
//! What a cost means: nanoseconds from the call that sends to the message lying in the buffer of a
//! receive that was posted before, both sides waiting. A setting that names a threshold takes
//! protocols out of consideration; it does not change what is predicted.

use std::fmt;

use bowline_model::cheapest::{self, Candidate, Line, cheapest};
use bowline_model::transport::TransportCosts;
use bowline_uct::{Caps, IfaceAttr, Limits};

use super::{Protocol, one_sided};

/// Operations whose protocol is chosen by cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sending a tagged message.
    TagSend,
    /// Sending a user's active message.
    AmSend,
    /// Appending to a stream.
    StreamSend,
    /// Reading, by its receiver, a message that was offered to it.
    Fetch,
    /// Writing into a peer's memory.
    Put,
    /// Reading a peer's memory.
    Get,
    /// An atomic operation on a word of a peer's, whose old value is wanted.
    Atomic,
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::TagSend,
        Self::AmSend,
        Self::StreamSend,
        Self::Fetch,
        Self::Put,
        Self::Get,
        Self::Atomic,
    ];

    /// Whether the peer takes no part.
    pub(crate) const fn is_one_sided(self) -> bool {
        matches!(self, Self::Put | Self::Get | Self::Atomic)
    }

    /// Whether a message is sent.
    pub(crate) const fn is_send(self) -> bool {
        matches!(self, Self::TagSend | Self::AmSend | Self::StreamSend)
    }

    /// Its name, as commands take it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TagSend => "tag_send",
            Self::AmSend => "am_send",
            Self::StreamSend => "stream_send",
            Self::Fetch => "fetch",
            Self::Put => "put",
            Self::Get => "get",
            Self::Atomic => "atomic",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Messages of up to this many bytes go eagerly wherever one buffer of the transport holds them,
/// whatever a rendezvous would cost: programs count on short ones being on their way when the send
/// returns, above all those to the own rank. A threshold of the user's stands, also below it.
pub(crate) const BUFFERED: u64 = 4096;

/// Nanoseconds of leaving the short path.
pub(crate) const STAGING: f64 = 40.0;

/// Nanoseconds of a message that stays with its sender until the transport has it: a request, and the
/// report of its end.
pub(crate) const LENDING: f64 = 300.0;

/// What a choice depends on beside capabilities and costs: thresholds that the user has set, and how many
/// ranks there are for the processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Longest message that goes eagerly.
    pub rndv_threshold: Option<u64>,
    /// Shortest message that both sides copy.
    pub cooperate: Option<u64>,
    /// Shortest eager message that is sent from where it lies; not 0.
    pub zcopy: Option<u64>,
    /// Whether the ranks of this machine share processors.
    pub oversubscribed: bool,
    /// Whether a thread or a signal handler makes progress while the rank computes. A receiver that reads needs nobody
    /// else then.
    pub asynchronous: bool,
}

/// What a choice depends on, and what parts of protocols cost there.
#[derive(Clone, Copy, Debug)]
pub struct SelectionContext<'a> {
    pub(crate) caps: Caps,
    pub(crate) limits: Limits,
    pub(crate) costs: &'a TransportCosts,
    pub(crate) conditions: Conditions,
}

impl SelectionContext<'_> {
    /// The longest message that goes eagerly, unless another limit is lower.
    pub(crate) fn eager_end(&self) -> u64 {
        self.conditions.rndv_threshold.unwrap_or(u64::MAX)
    }

    /// The longest that is copied on its way. A threshold of the user's leaves nothing but what is lent beyond it.
    pub(crate) fn copied_end(&self, op: Op) -> u64 {
        match self.conditions.zcopy {
            Some(from) if self.lends(op) => self.eager_end().min(from - 1),
            _ => self.eager_end(),
        }
    }

    /// The shortest message that may be offered.
    pub(crate) fn rndv_start(&self, op: Op) -> u64 {
        match self.conditions.rndv_threshold {
            _ if op == Op::Fetch => 0,
            Some(end) => end.saturating_add(1),
            None => (self.limits.am.max_bcopy as u64).min(BUFFERED) + 1,
        }
    }

    /// Whether a receiver can read from its sender's memory.
    pub(crate) fn reads(&self, op: Op) -> bool {
        self.caps.contains(Caps::GET_ZCOPY | Caps::RMA_REGISTERED) && !op.is_one_sided()
    }

    /// Whether messages are sent from where they lie.
    pub(crate) fn lends(&self, op: Op) -> bool {
        self.caps.contains(Caps::AM_ZCOPY) && op != Op::StreamSend
    }

    /// Whether a processor reaches the peer's memory by itself, since it has mapped that.
    pub(crate) fn maps(&self) -> bool {
        self.caps.contains(Caps::RKEY_PTR)
    }

    /// Whether a read of what its sender has not registered goes through the kernel, page by page. Processors that copy pieces
    /// are ahead of that, if both ranks have one and wait.
    pub(crate) fn reads_by_pages(&self) -> bool {
        let Conditions { oversubscribed, asynchronous, .. } = self.conditions;
        self.maps()
            && !self.caps.intersects(Caps::LENT_ONLY | Caps::LOOPBACK)
            && !oversubscribed
            && !asynchronous
    }

    /// A message of the transport.
    pub(crate) fn message(&self) -> Line {
        let message = &self.costs.message;
        Line::constant(message.time(1.0, 0.0), &message.figures())
    }

    /// An envelope in front of what the receiver does; it is not what a receiver pays that has it already.
    pub(crate) fn envelope(&self, op: Op) -> Line {
        if op == Op::Fetch { Line::ZERO } else { self.message() }
    }

    /// A copy by a processor.
    pub(crate) fn copy(&self) -> Line {
        Line::slope(self.costs.copy.value, &[("copy", self.costs.copy)])
    }

    /// The bytes of a message, with so many copies.
    pub(crate) fn byte(&self, copies: f64) -> Line {
        let (copy, message) = (self.costs.copy, &self.costs.message);
        let copied = Line::slope(copies * copy.value, &[("copy", copy)]);
        copied.plus(Line::slope(message.per_byte.value, &message.figures()))
    }

    /// A message in pieces of at most `max` bytes.
    pub(crate) fn pieces(&self, max: u64) -> Line {
        self.in_pieces(max, self.byte(1.0))
    }

    /// The same where one piece is copied out while the next one is copied in: a byte takes what the dearer of both takes.
    pub(crate) fn overlapped_pieces(&self, max: u64) -> Line {
        let slower = self.costs.copy.value > self.costs.message.per_byte.value;
        self.in_pieces(max, if slower { self.copy() } else { self.byte(0.0) })
    }

    /// Each piece takes its part of the processor, each byte what is given, and the last piece is copied out alone.
    fn in_pieces(&self, max: u64, byte: Line) -> Line {
        let (copy, message) = (self.costs.copy, &self.costs.message);
        let each = message.required.value / max.max(1) as f64;
        Line::slope(each, &message.figures())
            .plus(byte)
            .plus(Line::constant(max as f64 * copy.value, &[("copy", copy)]))
    }

    /// A read of the peer's memory.
    pub(crate) fn get(&self) -> Line {
        let get = &self.costs.get;
        let fixed = Line::constant(get.time(1.0, 0.0), &get.figures());
        fixed.plus(Line::slope(get.per_byte.value, &get.figures()))
    }

    /// A write to it.
    pub(crate) fn put(&self) -> Line {
        let put = &self.costs.put;
        let fixed = Line::constant(put.time(1.0, 0.0), &put.figures());
        fixed.plus(Line::slope(put.per_byte.value, &put.figures()))
    }
}

/// Sizes that go by one protocol.
pub type ProtocolRange = cheapest::SizeRange<&'static Protocol>;

/// The choice of protocols of one operation on one lane: ranges that follow each other from 0 on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    ranges: Vec<ProtocolRange>,
}

impl Table {
    /// The cheapest of the protocols for each size. Sizes that none can carry are in no range.
    pub(crate) fn among(
        protocols: &[&'static Protocol],
        op: Op,
        attr: &IfaceAttr,
        costs: &TransportCosts,
        conditions: Conditions,
    ) -> Self {
        let context = SelectionContext { caps: attr.caps, limits: attr.limits, costs, conditions };
        Self { ranges: cheapest(&candidates(protocols, op, &context)) }
    }

    /// The ranges in order.
    pub fn ranges(&self) -> &[ProtocolRange] {
        &self.ranges
    }

    /// What a message of `bytes` goes by.
    pub fn pick(&self, bytes: u64) -> Option<&'static Protocol> {
        let found = self.ranges.iter().find(|range| bytes <= range.to)?;
        (found.from <= bytes).then_some(found.protocol)
    }

    /// The shortest message that goes by `protocol`, if any does.
    pub fn first(&self, protocol: &Protocol) -> Option<u64> {
        self.ranges.iter().find(|range| *range.protocol == *protocol).map(|range| range.from)
    }
}

/// Those of the protocols that can be used for `op`.
fn candidates(
    protocols: &[&'static Protocol],
    op: Op,
    context: &SelectionContext<'_>,
) -> Vec<Candidate<&'static Protocol>> {
    let candidate = |protocol: &'static Protocol| {
        let (line, from, to) = (protocol.price)(op, context)?;
        (from <= to).then_some(Candidate { protocol, line, from, to })
    };
    protocols.iter().copied().filter_map(candidate).collect()
}

/// The tables of one lane.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    pub(crate) costs: TransportCosts,
    pub(crate) conditions: Conditions,
    pub(crate) tag_send: Table,
    pub(crate) am_send: Table,
    pub(crate) stream_send: Table,
    pub(crate) fetch: Table,
    pub(crate) put: Table,
    /// The longest put that is copied in the call, if any is.
    pub(crate) put_short_to: Option<usize>,
    pub(crate) get: Table,
    pub(crate) atomic: Table,
}

impl Choices {
    pub(crate) fn new(
        protocols: &[&'static Protocol],
        attr: &IfaceAttr,
        costs: TransportCosts,
        conditions: Conditions,
    ) -> Self {
        let table = |op| Table::among(protocols, op, attr, &costs, conditions);
        let (fetch, put) = (table(Op::Fetch), table(Op::Put));
        let short = put.ranges().iter().rfind(|range| *range.protocol == one_sided::PUT_SHORT);
        let put_short_to = short.map(|range| usize::try_from(range.to).unwrap_or(usize::MAX));
        Self {
            stream_send: table(Op::StreamSend),
            put,
            put_short_to,
            get: table(Op::Get),
            atomic: table(Op::Atomic),
            tag_send: table(Op::TagSend),
            am_send: table(Op::AmSend),
            fetch,
            costs,
            conditions,
        }
    }

    /// What messages are predicted to cost by a protocol, and the shortest and the longest for which it is used, whether it is
    /// the cheapest or not. `None`: it is used for none.
    pub(crate) fn priced(
        &self,
        protocol: &Protocol,
        op: Op,
        attr: &IfaceAttr,
    ) -> Option<(Line, u64, u64)> {
        let (caps, limits, conditions) = (attr.caps, attr.limits, self.conditions);
        let context = SelectionContext { caps, limits, costs: &self.costs, conditions };
        (protocol.price)(op, &context)
    }

    /// The same of one message of `bytes`.
    pub(crate) fn predicted(
        &self,
        protocol: &Protocol,
        op: Op,
        attr: &IfaceAttr,
        bytes: u64,
    ) -> Option<f64> {
        let (line, from, to) = self.priced(protocol, op, attr)?;
        (from..=to).contains(&bytes).then(|| line.at(bytes))
    }

    pub(crate) const fn of(&self, op: Op) -> &Table {
        match op {
            Op::TagSend => &self.tag_send,
            Op::AmSend => &self.am_send,
            Op::StreamSend => &self.stream_send,
            Op::Fetch => &self.fetch,
            Op::Put => &self.put,
            Op::Get => &self.get,
            Op::Atomic => &self.atomic,
        }
    }
}

#[cfg(test)]
mod tests;
