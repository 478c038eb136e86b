//! The registry of protocols, and the choice among them by cost.
//!
//! A protocol is a small value: its name, when it can be used at all, for which sizes, and what a
//! message costs by it as a line over the size ([`bowline_model::transport`] has the model). For each
//! operation and lane the lower envelope of these lines is a table of ranges, made once when the worker is made.
//! The short path does not look at it: it compares with one limit.
//!
//! What a cost means: nanoseconds from the call that sends to the message lying in the buffer of a
//! receive that was posted before, both sides waiting. A setting that names a threshold takes
//! protocols out of consideration; it does not change what is predicted.

pub(crate) mod coop;
pub(crate) mod get;
pub(crate) mod put;
pub(crate) mod rendezvous;
pub(crate) mod rtr;

use std::fmt;

use bowline_model::cheapest::{self, Candidate, Line, cheapest};
use bowline_model::transport::TransportCosts;
use bowline_uct::{Caps, IfaceAttr, Limits};

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
    const fn is_one_sided(self) -> bool {
        matches!(self, Self::Put | Self::Get | Self::Atomic)
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

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Copied into the call's own slot of the transport.
    EagerShort,
    /// Copied into one buffer of the transport.
    EagerBcopy,
    /// Sent whole from where it lies.
    EagerZcopy,
    /// Copied in several pieces, which receiver and sender copy at the same time.
    EagerMulti,
    /// The receiver reads the message from the sender's memory.
    RndvGet,
    /// The same, and the sender writes from the back.
    RndvShared,
    /// The receiver asks for fragments.
    RndvCopy,
    /// Copied in the call, into the peer's memory or the transport's.
    PutShort,
    /// Written from where it lies.
    PutZcopy,
    /// Read to where it belongs.
    GetZcopy,
    /// By the transport.
    AtomicNative,
}

impl Protocol {
    /// All of them; of two that cost the same the one that comes first is taken.
    pub const ALL: [Self; 11] = [
        Self::EagerShort,
        Self::EagerBcopy,
        Self::EagerZcopy,
        Self::EagerMulti,
        Self::RndvGet,
        Self::RndvShared,
        Self::RndvCopy,
        Self::PutShort,
        Self::PutZcopy,
        Self::GetZcopy,
        Self::AtomicNative,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EagerShort => "eager/short",
            Self::EagerBcopy => "eager/bcopy",
            Self::EagerZcopy => "eager/zcopy",
            Self::EagerMulti => "eager/multi",
            Self::RndvGet => "rndv/get",
            Self::RndvShared => "rndv/shared",
            Self::RndvCopy => "rndv/copy",
            Self::PutShort => "put/short",
            Self::PutZcopy => "put/zcopy",
            Self::GetZcopy => "get/zcopy",
            Self::AtomicNative => "atomic/native",
        }
    }

    /// Whether an envelope goes first and the receiver has the data brought.
    pub const fn is_rendezvous(self) -> bool {
        matches!(self, Self::RndvGet | Self::RndvShared | Self::RndvCopy)
    }

    /// What it would cost at this context; `None` when it cannot be used for `op` there.
    fn candidate(self, op: Op, context: &SelectionContext<'_>) -> Option<Candidate<Self>> {
        let SelectionContext { caps, limits, costs, conditions } = context;
        let eager_end = conditions.rndv_threshold.unwrap_or(u64::MAX);
        let rndv_start = match conditions.rndv_threshold {
            _ if op == Op::Fetch => 0,
            Some(end) => end.saturating_add(1),
            None => (limits.am.max_bcopy as u64).min(BUFFERED) + 1,
        };
        let (max_short, max_bcopy) = (limits.am.max_short as u64, limits.am.max_bcopy as u64);
        let eager = matches!(op, Op::TagSend | Op::AmSend | Op::StreamSend);
        let message = Line::constant(costs.message.time(1.0, 0.0), &costs.message.figures());
        let byte = |copies: f64| {
            let copy = Line::slope(copies * costs.copy.value, &[("copy", costs.copy)]);
            copy.plus(Line::slope(costs.message.per_byte.value, &costs.message.figures()))
        };
        // An envelope in front of what the receiver does; it is not what a receiver pays that
        // has it already.
        let envelope = if op == Op::Fetch { Line::ZERO } else { message };
        let reads = caps.contains(Caps::GET_ZCOPY | Caps::RMA_REGISTERED) && !op.is_one_sided();
        let get = Line::constant(costs.get.time(1.0, 0.0), &costs.get.figures())
            .plus(Line::slope(costs.get.per_byte.value, &costs.get.figures()));
        let pieces = |max: u64| {
            let each = costs.message.required.value / max.max(1) as f64;
            Line::slope(each, &costs.message.figures())
                .plus(byte(1.0))
                .plus(Line::constant(max as f64 * costs.copy.value, &[("copy", costs.copy)]))
        };
        let lends = caps.contains(Caps::AM_ZCOPY) && op != Op::StreamSend;
        // What a processor does by itself to memory that it has mapped.
        let mapped = caps.contains(Caps::RKEY_PTR);
        let put = Line::constant(costs.put.time(1.0, 0.0), &costs.put.figures())
            .plus(Line::slope(costs.put.per_byte.value, &costs.put.figures()));
        let copy = Line::slope(costs.copy.value, &[("copy", costs.copy)]);
        // A threshold of the user's leaves nothing but that flavour beyond it.
        let copied_end = match conditions.zcopy {
            Some(from) if lends => eager_end.min(from - 1),
            _ => eager_end,
        };
        let (line, from, to) = match self {
            Self::EagerShort if eager && max_short > 0 => {
                (message.plus(byte(2.0)), 0, copied_end.min(max_short))
            }
            Self::EagerBcopy if eager && max_bcopy > 0 => {
                (message.plus_constant(STAGING).plus(byte(2.0)), 0, copied_end.min(max_bcopy))
            }
            Self::EagerZcopy if eager && lends => {
                let start =
                    conditions.zcopy.unwrap_or(BUFFERED + 1).max(limits.am.min_zcopy as u64);
                // One message of the transport: what a receiver of pieces would hold anyway.
                let end = eager_end.min(max_bcopy).min(limits.am.max_zcopy as u64);
                (message.plus_constant(LENDING).plus(byte(1.0)), start, end)
            }
            Self::EagerMulti if eager && max_bcopy > 0 => {
                // More of them would fill what a receiver sets apart for messages that it does
                // not expect yet. Pieces of a stream stop where their credit does.
                let most = match op {
                    Op::StreamSend => u64::MAX,
                    // Behind the pieces that the receiver's memory has room for, its processor is needed
                    // for every other one. A message that it reads at once costs it one turn.
                    _ if conditions.oversubscribed && reads && mapped => max_bcopy,
                    _ => MOST_PIECES * max_bcopy,
                };
                let end = conditions.rndv_threshold.unwrap_or(most);
                (message.plus_constant(STAGING).plus(pieces(max_bcopy)), max_bcopy + 1, end)
            }
            Self::RndvGet if reads => (envelope.plus(get), rndv_start, u64::MAX),
            Self::RndvShared if reads && can_share(*caps) => {
                let halves = Line { per_byte: get.per_byte * SHARE, ..get };
                let start = conditions.cooperate.unwrap_or(SMALLEST_SHARED);
                let line = envelope.plus(message).plus(halves).plus_constant(TURNS);
                (line, rndv_start.max(start), u64::MAX)
            }
            // Where reading can be had, this is what is left when the kernel refuses it.
            Self::RndvCopy if max_bcopy > 0 && !reads && !op.is_one_sided() => {
                let line = envelope.plus(message).plus(message).plus(pieces(max_bcopy));
                (line, rndv_start, u64::MAX)
            }
            Self::PutShort if op == Op::Put && caps.contains(Caps::PUT_SHORT) => {
                let line = if mapped {
                    copy.plus_constant(STAGING)
                } else {
                    put.plus(copy).plus_constant(STAGING)
                };
                (line, 0, limits.put.max_short as u64)
            }
            Self::PutZcopy if op == Op::Put && caps.contains(Caps::PUT_ZCOPY) => {
                (put.plus_constant(LENDING), 0, u64::MAX)
            }
            Self::GetZcopy if op == Op::Get && caps.contains(Caps::GET_ZCOPY) => {
                (get.plus_constant(LENDING), 0, u64::MAX)
            }
            Self::AtomicNative
                if op == Op::Atomic && caps.intersects(Caps::ATOMIC_CPU | Caps::ATOMIC_DEVICE) =>
            {
                let way = Line::constant(costs.get.time(1.0, 0.0), &costs.get.figures());
                let staging = Line::constant(STAGING, &[]);
                (if mapped { staging } else { way.plus_constant(LENDING) }, 4, 8)
            }
            _ => return None,
        };
        (from <= to).then_some(Candidate { protocol: self, line, from, to })
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What sharing a message needs of a lane: it reads and writes any memory of the peer by this
/// processor, and allocates memory that both map.
const SHARING: Caps = Caps::GET_ZCOPY
    .union(Caps::PUT_ZCOPY)
    .union(Caps::RMA_REGISTERED)
    .union(Caps::ATOMIC_CPU)
    .union(Caps::RKEY_PTR);

/// Whether messages over a lane with these capabilities can be copied by both sides.
pub(crate) fn can_share(caps: Caps) -> bool {
    caps.contains(SHARING) && !caps.intersects(Caps::EXPOSE | Caps::LOOPBACK)
}

/// Messages of up to this many bytes go eagerly wherever one buffer of the transport holds them,
/// whatever a rendezvous would cost: programs count on short ones being on their way when the send
/// returns, above all those to the own rank.
const BUFFERED: u64 = 4096;

/// Pieces of an eager message.
const MOST_PIECES: u64 = 16;

/// The shortest message worth sharing: two pieces.
const SMALLEST_SHARED: u64 = 128 << 10;

/// Part of a shared message's bytes that the slower side copies.
const SHARE: f64 = 0.55;

/// Nanoseconds of the engine's own work when two sides share a message: claims, and a look at other
/// traffic between pieces.
const TURNS: f64 = 900.0;

/// Nanoseconds of leaving the short path.
const STAGING: f64 = 40.0;

/// Nanoseconds of a message that stays with its sender until the transport has it: a request, and the
/// report of its end.
const LENDING: f64 = 300.0;

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
}

/// What a choice depends on.
#[derive(Clone, Copy, Debug)]
struct SelectionContext<'a> {
    caps: Caps,
    limits: Limits,
    costs: &'a TransportCosts,
    conditions: Conditions,
}

/// Sizes that go by one protocol.
pub type Range = cheapest::Range<Protocol>;

/// The choice of protocols of one operation on one lane: ranges that follow each other from 0 on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    ranges: Vec<Range>,
}

impl Table {
    /// The cheapest protocol for each size. Sizes that no protocol can carry are in no range.
    pub fn new(op: Op, attr: &IfaceAttr, costs: &TransportCosts, conditions: Conditions) -> Self {
        let context = SelectionContext { caps: attr.caps, limits: attr.limits, costs, conditions };
        let all = Protocol::ALL.iter();
        let able: Vec<_> = all.filter_map(|protocol| protocol.candidate(op, &context)).collect();
        Self { ranges: cheapest(&able) }
    }

    /// The ranges in order.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// What a message of `bytes` goes by.
    pub fn pick(&self, bytes: u64) -> Option<Protocol> {
        let found = self.ranges.iter().find(|range| bytes <= range.to)?;
        (found.from <= bytes).then_some(found.protocol)
    }

    /// The shortest message that goes by `protocol`, if any does.
    pub fn first(&self, protocol: Protocol) -> Option<u64> {
        self.ranges.iter().find(|range| range.protocol == protocol).map(|range| range.from)
    }
}

/// The tables of one lane.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    pub(crate) costs: TransportCosts,
    pub(crate) conditions: Conditions,
    pub(crate) tag_send: Table,
    pub(crate) am_send: Table,
    pub(crate) stream_send: Table,
    /// The shortest message that is shared with its sender; `u64::MAX` for none.
    pub(crate) shared_from: u64,
    pub(crate) fetch: Table,
    pub(crate) put: Table,
    /// The longest put that is copied in the call, if any is.
    pub(crate) put_short_to: Option<usize>,
    pub(crate) get: Table,
    pub(crate) atomic: Table,
}

impl Choices {
    pub(crate) fn new(attr: &IfaceAttr, costs: TransportCosts, conditions: Conditions) -> Self {
        let table = |op| Table::new(op, attr, &costs, conditions);
        let (fetch, put) = (table(Op::Fetch), table(Op::Put));
        let short = put.ranges().iter().rfind(|range| range.protocol == Protocol::PutShort);
        let put_short_to = short.map(|range| usize::try_from(range.to).unwrap_or(usize::MAX));
        Self {
            stream_send: table(Op::StreamSend),
            put,
            put_short_to,
            get: table(Op::Get),
            atomic: table(Op::Atomic),
            tag_send: table(Op::TagSend),
            am_send: table(Op::AmSend),
            shared_from: fetch.first(Protocol::RndvShared).unwrap_or(u64::MAX),
            fetch,
            costs,
            conditions,
        }
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
