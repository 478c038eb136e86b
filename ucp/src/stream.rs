//! Streams: the bytes that one worker sends to another, in order and without boundaries.
//!
//! ```text
//!   stream_send ─┬─ short, or in pieces while credit lasts ─► STREAM ──────┐
//!                └─ long ─────────────────────────────────► STREAM_RTS ──┤
//!                                                                        ▼
//!   stream_recv ─► receives, oldest first ◄── filled from ── chunks: here, or with the sender
//!   stream_recv_data ◄────────────────────────────────────── the first chunk
//! ```
//! Rules. (1) A byte takes its place in the stream when the message that brings it, or its
//! envelope, arrives: a peer's messages come in order. (2) A receive is filled from the first chunk
//! on, and nothing else while it is the oldest; it completes with a multiple of its unit, as soon as
//! it has one, or full if it waits for all. (3) A chunk that lies with its sender is read straight
//! into the receive if it is the whole of what the receive gets, else into memory of the engine
//! first; meanwhile the stream waits. (4) Every byte of a STREAM message uses the sender's credit,
//! however few they are, and the receiver gives it back when its user has taken it: a receiver that
//! does not read holds a bounded amount. A send without credit leaves the queue of what waits for
//! its peer's lane, so that it keeps nothing else back, and later sends of the stream stand behind
//! it. (5) What came before a peer's end can be received after it; then receives fail.

mod calls;
mod feed;

use bowline_base::buffer::RecvBuf;

use crate::request::RequestId;

/// How far a receive of a stream came in its call.
#[derive(Debug)]
#[must_use]
pub enum StreamReceived {
    /// Complete, with so many bytes.
    Done(u64, RecvBuf),
    /// Under way; `length` of its status will be the number of bytes.
    Pending(RequestId),
}
