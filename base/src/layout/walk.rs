//! The pieces of a message, found by the offset of their bytes in it.

use std::ops::Range;

use super::{Kind, Layout, Node, Part, Piece};

impl Piece {
    /// As [`Part::of`].
    #[inline]
    pub(super) fn of(list: &[Self], offset: usize) -> (usize, usize) {
        let at = list.partition_point(|piece| piece.end <= offset);
        (at, if at == 0 { 0 } else { list[at - 1].end })
    }
}

impl Part {
    /// The part of a list that has the byte at `offset`, and where it begins in the message. The offset
    /// is inside.
    #[inline]
    pub(super) fn of(list: &[Self], offset: usize) -> (usize, usize) {
        let at = list.partition_point(|part| part.end <= offset);
        (at, if at == 0 { 0 } else { list[at - 1].end })
    }
}

impl Node {
    /// Where the byte at `offset` lies, and how many follow it in its piece. The offset is inside.
    fn run(&self, mut offset: usize) -> (i64, usize) {
        let (mut node, mut place) = (self, 0_i64);
        loop {
            // No sum can be too large: all places lie within bounds that were checked.
            match &node.kind {
                Kind::Block => return (place + offset as i64, node.size - offset),
                Kind::Repeat { stride, of, .. } => {
                    place += (offset / of.node.size) as i64 * stride + of.at;
                    offset %= of.node.size;
                    node = &of.node;
                }
                Kind::Pieces(list) => {
                    let (at, begin) = Piece::of(list, offset);
                    return (place + list[at].at + (offset - begin) as i64, list[at].end - offset);
                }
                Kind::List(list) => {
                    let (at, begin) = Part::of(list, offset);
                    place += list[at].placed.at;
                    offset -= begin;
                    node = &list[at].placed.node;
                }
            }
        }
    }
}

impl Layout {
    /// Where the byte at `offset` of a message of `count` elements lies, seen from the message's address,
    /// and how many follow it in the same piece, itself included. `None` behind the end. The message must
    /// be one that [`message`](Self::message) can count.
    #[inline]
    pub fn run(&self, count: usize, offset: usize) -> Option<(i64, usize)> {
        if let Some((at, len)) = self.one_block(count) {
            return (offset < len).then(|| (at + offset as i64, len - offset));
        }
        let placed = self.node.as_ref()?;
        let element = offset / placed.node.size;
        if element >= count {
            return None;
        }
        let (at, len) = placed.node.run(offset % placed.node.size);
        Some((element as i64 * self.extent + placed.at + at, len))
    }

    /// The pieces of a part of a message, in the message's order.
    pub fn runs(&self, count: usize, part: Range<usize>) -> Runs<'_> {
        Runs { layout: self, count, part }
    }
}

/// The pieces of a part of a message: where each lies, and its bytes.
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    layout: &'a Layout,
    count: usize,
    part: Range<usize>,
}

impl Iterator for Runs<'_> {
    type Item = (i64, usize);

    fn next(&mut self) -> Option<Self::Item> {
        if self.part.is_empty() {
            return None;
        }
        let (at, len) = self.layout.run(self.count, self.part.start)?;
        let len = len.min(self.part.len());
        self.part.start += len;
        Some((at, len))
    }
}
