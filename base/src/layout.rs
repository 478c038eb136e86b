//! Where the bytes of an element lie that is not in one piece, in a form that is as small as the element
//! is regular.
//!
//! ```text
//!   Layout ── node ──► Block  one piece
//!     │                Repeat the same node again and again, a stride apart
//!     │                Pieces pieces at places that follow no rule, and where each ends in the message
//!     └ extent         List   the same of nodes
//! ```
//! A message is a number of elements, an extent apart. Nothing here grows with that number: a message is
//! an address, a layout and a count. Its bytes are found by their offset in the message, in any order, at
//! the price of one division or binary search per level of the layout.
//!
//! Rules. (1) The order of the bytes in a message is the order in which a layout was put together: nothing
//! is sorted, nothing is left out that occurs twice. (2) All sums are checked; a layout that cannot be
//! counted is an error when it is made. (3) What lies between the pieces is never read and never written.
//! (4) Addresses are counted without a base: a layout may lie before its message's address as well, or at
//! absolute places behind the address 0.

mod compile;
mod copy;
#[cfg(test)]
mod tests;
mod walk;
#[cfg(all(target_arch = "x86_64", not(any(miri, bowline_sanitize))))]
mod wide;

use std::sync::Arc;

pub use copy::{copy_between, pack, unpack};
pub use walk::Runs;

/// A layout whose sizes or places cannot be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a layout whose size, bounds or depth are beyond what can be counted")]
pub struct Overflow;

/// How the bytes of one element lie in memory.
#[derive(Clone, Debug)]
pub struct Layout {
    /// `None` where there are no bytes.
    node: Option<Placed>,
    /// From one element of a message to the next.
    extent: i64,
}

/// A node and where it lies.
#[derive(Clone, Debug)]
struct Placed {
    at: i64,
    node: Arc<Node>,
}

/// A part of a layout, seen from its own place.
#[derive(Debug)]
struct Node {
    kind: Kind,
    /// Bytes in a message; never 0.
    size: usize,
    /// Pieces that it is made of.
    runs: usize,
    /// Where its first byte lies, and the end of its last.
    low: i64,
    high: i64,
    /// Levels below it.
    depth: u32,
}

#[derive(Debug)]
enum Kind {
    /// As many bytes as the node has, in one piece.
    Block,
    /// At least two of a node.
    Repeat { count: usize, stride: i64, of: Placed },
    /// At least two pieces, each apart from the next.
    Pieces(Box<[Piece]>),
    /// At least two parts, not all of them pieces.
    List(Box<[Part]>),
}

/// A piece of a list of pieces.
#[derive(Clone, Copy, Debug)]
struct Piece {
    at: i64,
    /// The offset in the message behind its last byte.
    end: usize,
}

#[derive(Debug)]
struct Part {
    placed: Placed,
    /// The offset in the message behind its last byte.
    end: usize,
}

impl Layout {
    /// Bytes of one element in a message.
    #[inline]
    pub fn size(&self) -> usize {
        self.node.as_ref().map_or(0, |placed| placed.node.size)
    }

    /// From one element of a message to the next.
    #[inline]
    pub fn extent(&self) -> i64 {
        self.extent
    }

    /// Where the first byte of an element lies, and the end of its last; both 0 where there is none.
    pub fn true_bounds(&self) -> (i64, i64) {
        // The sums were checked when the layout was made.
        self.node.as_ref().map_or((0, 0), |Placed { at, node }| (at + node.low, at + node.high))
    }

    /// Pieces of one element.
    pub fn runs_of_one(&self) -> usize {
        self.node.as_ref().map_or(0, |placed| placed.node.runs)
    }

    /// Levels of the compiled form: what it costs to find a byte.
    pub fn depth(&self) -> u32 {
        self.node.as_ref().map_or(0, |placed| placed.node.depth)
    }

    /// Pieces of a message of `count` elements, one that [`message`](Self::message) can count.
    pub fn pieces(&self, count: usize) -> usize {
        match self.one_block(count) {
            Some(_) => 1,
            None => self.runs_of_one().saturating_mul(count),
        }
    }

    /// The place of a message that lies in one piece, and its bytes; for counts as in
    /// [`pieces`](Self::pieces).
    pub fn one_block(&self, count: usize) -> Option<(i64, usize)> {
        let Placed { at, node } = self.node.as_ref()?;
        let dense = matches!(node.kind, Kind::Block)
            && (count == 1 || usize::try_from(self.extent) == Ok(node.size));
        (dense && count > 0).then(|| (*at, node.size * count))
    }

    /// What a message of `count` elements takes: its bytes, where its first lies, and the end of its last.
    ///
    /// # Errors
    /// When one of them cannot be counted.
    pub fn message(&self, count: usize) -> Result<(usize, i64, i64), Overflow> {
        let Some(Placed { at, node }) = &self.node else { return Ok((0, 0, 0)) };
        if count == 0 {
            return Ok((0, 0, 0));
        }
        let bytes = compile::counted(node.size.checked_mul(count))?;
        let last = compile::last(count, self.extent)?;
        let low = (at + node.low).checked_add(last.min(0)).ok_or(Overflow)?;
        let high = (at + node.high).checked_add(last.max(0)).ok_or(Overflow)?;
        Ok((bytes, low, high))
    }
}
