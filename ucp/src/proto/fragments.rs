//! The rendezvous in which the sender sends fragments through the transport, since its receiver cannot read the message
//! and it cannot write it. It is never refused.

use bowline_model::cheapest::Line;

use super::table::{Op, SelectionContext};
use super::{Life, Protocol};

/// The receiver asks for fragments.
pub(crate) static FRAGMENTS: Protocol =
    Protocol { name: "rndv/copy", rendezvous: true, life: &Fragments };

struct Fragments;

impl Life for Fragments {
    fn probe(&self, op: Op, context: &SelectionContext<'_>) -> Option<(Line, u64, u64)> {
        let max = context.limits.am.max_bcopy as u64;
        let message = context.message();
        let line = context.envelope(op).plus(message).plus(message).plus(context.pieces(max));
        // Where reading can be had, this is what is left when the kernel refuses it.
        let is_priced = max > 0 && !context.reads(op) && !op.is_one_sided();
        is_priced.then(|| (line, context.rndv_start(op), u64::MAX))
    }
}
