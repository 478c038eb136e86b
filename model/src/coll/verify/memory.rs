//! A space of a rank as intervals: which elements its bytes are, and what they were combined of.

use std::ops::ControlFlow;

use super::contributions::Combined;
use super::sorted::Sorted;

/// Bytes that are consecutive elements, all combined of the same ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what is known of bytes")]
pub struct MemoryPiece {
    /// How many.
    pub len: usize,
    /// The number of the first.
    pub element: u64,
    /// What they were combined of.
    pub combined: Combined,
}

impl MemoryPiece {
    /// The piece without its first `at` bytes.
    const fn after(self, at: usize) -> Self {
        Self { len: self.len - at, element: self.element + at as u64, ..self }
    }

    /// Its first `len` bytes.
    pub(super) const fn first(self, len: usize) -> Self {
        Self { len, ..self }
    }

    /// Whether `next` goes on where this one ends.
    fn goes_on(self, next: Self) -> bool {
        self.element + self.len as u64 == next.element && self.combined == next.combined
    }
}

/// Takes `len` bytes off the front of pieces.
pub(super) fn split_front(pieces: &mut Vec<MemoryPiece>, len: usize) {
    let front = pieces.last_mut().expect("there are as many bytes");
    if front.len == len {
        pieces.pop();
    } else {
        *front = front.after(len);
    }
}

/// A space. Bytes that were never written belong to no piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SymbolicMemory {
    len: usize,
    /// By their first byte; neighbours do not go on where the other ends.
    pieces: Sorted<usize, MemoryPiece>,
}

impl SymbolicMemory {
    /// So many bytes that were never written.
    pub fn new(len: usize) -> Self {
        Self { len, pieces: Sorted::default() }
    }

    /// Exactly these pieces.
    pub fn of(pieces: &[MemoryPiece]) -> Self {
        let mut memory = Self::new(pieces.iter().map(|piece| piece.len).sum());
        memory.write(0, pieces);
        memory
    }

    /// Bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no byte.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What `len` bytes from `at` on are. `None` where some were never written.
    pub fn read(&self, at: usize, len: usize) -> Option<Vec<MemoryPiece>> {
        let (mut found, mut next, end) = (Vec::new(), at, at + len);
        let read = self.pieces.visit(at, end, |start, &piece| {
            if start + piece.len <= at || next == end {
                return ControlFlow::Continue(());
            }
            if start > next {
                return ControlFlow::Break(());
            }
            let rest = piece.after(next - start);
            let part = rest.first(rest.len.min(end - next));
            next += part.len;
            found.push(part);
            ControlFlow::Continue(())
        });
        (read.is_continue() && next == end).then_some(found)
    }

    /// The same where they are at least one byte, and all of one piece.
    pub(super) fn read_one(&self, at: usize, len: usize) -> Option<MemoryPiece> {
        let one = self.pieces.visit(at, at + len, |start, &piece| match start + piece.len {
            behind if len > 0 && start <= at && behind >= at + len => {
                ControlFlow::Break(piece.after(at - start))
            }
            _ => ControlFlow::Continue(()),
        });
        one.break_value().map(|piece| piece.first(len))
    }

    /// Writes pieces from `at` on.
    pub fn write(&mut self, at: usize, pieces: &[MemoryPiece]) {
        let len: usize = pieces.iter().map(|piece| piece.len).sum();
        if len == 0 {
            return;
        }
        self.clear(at, at + len);
        let mut at = at;
        for &piece in pieces.iter().filter(|piece| piece.len > 0) {
            self.insert(at, piece);
            at += piece.len;
        }
        // What comes next may go on where the last one ends.
        if let Some(behind) = self.pieces.remove(at) {
            self.insert(at, behind);
        }
    }

    fn insert(&mut self, at: usize, piece: MemoryPiece) {
        if let Some((start, before)) = self.pieces.last_below(at)
            && start + before.len == at
            && before.goes_on(piece)
        {
            before.len += piece.len;
            return;
        }
        self.pieces.insert(at, piece);
    }

    fn clear(&mut self, at: usize, end: usize) {
        if let Some((start, piece)) = self.pieces.last_below(at)
            && start + piece.len > at
        {
            let whole = *piece;
            *piece = whole.first(at - start);
            if start + whole.len > end {
                self.pieces.insert(end, whole.after(end - start));
            }
        }
        while let Some((start, &piece)) = self.pieces.first_from(at)
            && start < end
        {
            self.pieces.remove(start);
            if start + piece.len > end {
                self.pieces.insert(end, piece.after(end - start));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against bytes one by one.
        #[test]
        fn intervals_are_bytes(
            writes in prop::collection::vec((0..40_usize, prop::collection::vec((0..6_usize, 0..8_u64), 0..4)), 0..20),
            at in 0..60_usize, len in 0..20_usize,
        ) {
            let mut memory = SymbolicMemory::new(80);
            let mut bytes = [None; 80];
            for (at, pieces) in writes {
                let pieces: Vec<_> = pieces
                    .into_iter()
                    .map(|(len, element)| MemoryPiece { len, element, combined: Combined::DATA })
                    .collect();
                memory.write(at, &pieces);
                let elements = pieces.iter().flat_map(|p| p.element..p.element + p.len as u64);
                for (byte, element) in bytes[at..].iter_mut().zip(elements) {
                    *byte = Some(element);
                }
            }
            let expected: Option<Vec<u64>> = bytes[at..at + len].iter().copied().collect();
            let read = memory.read(at, len).map(|pieces| {
                pieces.iter().flat_map(|p| p.element..p.element + p.len as u64).collect::<Vec<_>>()
            });
            prop_assert_eq!(read, expected);
            if let Some(pieces) = memory.read(at, len) {
                let one = memory.read_one(at, len);
                prop_assert_eq!(one.as_slice(), if pieces.len() == 1 { &*pieces } else { &[] });
            }
            let mut neighbours = Vec::new();
            let _ = memory.pieces.visit(0, 80, |start, piece| {
                neighbours.push((start, *piece));
                ControlFlow::<()>::Continue(())
            });
            for pair in neighbours.windows(2) {
                let ((one, first), (other, second)) = (pair[0], pair[1]);
                prop_assert!(one + first.len < other || one + first.len == other && !first.goes_on(second));
            }
        }
    }
}
