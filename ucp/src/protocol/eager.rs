//! Eager protocols: the data goes with the envelope, without being asked for. What they cost; `crate::send` posts them.

use super::Protocol;
use super::table::{BUFFERED, LENDING, Op, STAGING};

/// Pieces of an eager message, and its bytes where that is less: what is longer fills the memory that a receiver sets
/// apart for messages that it does not expect yet, and the caches of both.
const MOST_PIECES: u64 = 16;
pub(crate) const MOST_BYTES: u64 = 128 << 10;
/// Where a processor does not reach the memory of its peer, a rendezvous waits for two more messages, which take
/// the longer the farther the peer is. Where ranks share processors, messages of all come at once, and few of them
/// to a receive that is posted.
const MOST_BYTES_FAR: u64 = 1 << 20;
const MOST_BYTES_FAR_SHARED: u64 = 512 << 10;

/// Copied into the call's own slot of the transport.
pub(crate) static SHORT: Protocol = Protocol::priced("eager/short", |op, context| {
    let most = context.limits.am.max_short as u64;
    let line = context.message().plus(context.byte(2.0));
    (op.is_send() && most > 0).then(|| (line, 0, context.copied_end(op).min(most)))
});

/// Copied into one buffer of the transport.
pub(crate) static BCOPY: Protocol = Protocol::priced("eager/bcopy", |op, context| {
    let most = context.limits.am.max_bcopy as u64;
    let line = context.message().plus_constant(STAGING).plus(context.byte(2.0));
    (op.is_send() && most > 0).then(|| (line, 0, context.copied_end(op).min(most)))
});

/// Sent whole from where it lies.
pub(crate) static ZCOPY: Protocol = Protocol::priced("eager/zcopy", |op, context| {
    let am = &context.limits.am;
    let start = context.conditions.zcopy.unwrap_or(BUFFERED + 1).max(am.min_zcopy as u64);
    // One message of the transport: what a receiver of pieces would hold anyway.
    let end = context.eager_end().min(am.max_bcopy as u64).min(am.max_zcopy as u64);
    let line = context.message().plus_constant(LENDING).plus(context.byte(1.0));
    (op.is_send() && context.lends(op)).then_some((line, start, end))
});

/// Most bytes that go in pieces of `max` bytes to a receiver that has not asked for them, where processors copy.
pub(crate) fn most_in_pieces(max: u64) -> u64 {
    (MOST_PIECES * max).min(MOST_BYTES)
}

/// Copied in several pieces, which receiver and sender copy at the same time.
pub(crate) static MULTI: Protocol = Protocol::priced("eager/multi", |op, context| {
    let max = context.limits.am.max_bcopy as u64;
    // Pieces of a stream stop where their credit does.
    let most = match op {
        Op::StreamSend => u64::MAX,
        // Behind the pieces that the receiver's memory has space for, its processor is needed
        // for every other one. A message that it reads at once costs it one round of progress.
        _ if context.conditions.oversubscribed && context.reads(op) && context.maps() => max,
        _ if context.maps() => most_in_pieces(max),
        _ if context.conditions.oversubscribed => (MOST_PIECES * max).min(MOST_BYTES_FAR_SHARED),
        _ => (MOST_PIECES * max).min(MOST_BYTES_FAR),
    };
    let end = context.conditions.rndv_threshold.unwrap_or(most);
    let line = context.message().plus_constant(STAGING).plus(context.pieces(max));
    (op.is_send() && max > 0).then_some((line, max + 1, end))
});
