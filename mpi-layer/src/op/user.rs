//! The program's own operations on elements that lie as a layout says.
//!
//! Vectors travel packed. An operation of the program's gets elements as it would find them in its own
//! memory: an extent apart, with space before and behind as the bounds of the type want it, aligned as
//! memory of the system is. So where a layout has gaps, the operands are laid out before the call and
//! packed after it, some elements at a time.

use std::cell::RefCell;
use std::sync::Arc;

use bowline_base::layout::{Layout, pack, unpack};
use bowline_base::sync::CacheLine;

use crate::op::operands::Operands;

/// Bytes of memory with gaps that one call of the program's function takes, unless an element has more.
const BYTES_AT_ONCE: usize = 64 << 10;

/// A function of the program's: `right[i] = left[i] OP right[i]` for a number of elements.
pub type UserFunction<'a> = Box<dyn Fn(*const u8, *mut u8, usize) + 'a>;

/// Memory with the alignment of any type.
type Lines = Vec<CacheLine<[u8; 64]>>;

/// An operation of the program's on elements of a layout.
pub struct LaidOut<'a> {
    layout: Arc<Layout>,
    function: UserFunction<'a>,
    /// The two operands, laid out.
    space: RefCell<(Lines, Lines)>,
}

impl std::fmt::Debug for LaidOut<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("LaidOut").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl<'a> LaidOut<'a> {
    /// The operation `function` on elements of `layout`.
    pub fn new(layout: Arc<Layout>, function: UserFunction<'a>) -> Self {
        Self { layout, function, space: RefCell::default() }
    }

    /// Combines two vectors of packed elements.
    pub fn combine(&self, operands: &Operands<'_>) {
        let size = self.layout.size();
        let count = operands.len().checked_div(size).unwrap_or(0);
        if count == 0 {
            return;
        }
        // Asked for two, since a single element may be one piece and have a gap behind it.
        if self.layout.one_block(2) == Some((0, 2 * size)) {
            return (self.function)(operands.left(), operands.right(), count);
        }
        // Taken out: nothing is borrowed while the program's code runs.
        let (mut left, mut right) = self.space.take();
        let extent = self.layout.extent().unsigned_abs() as usize;
        let at_once =
            BYTES_AT_ONCE.checked_div(extent).map_or(count, |number| number.clamp(1, count));
        let mut done = 0;
        while done < count {
            let now = at_once.min(count - done);
            let at = done * size;
            let (from, into) =
                (operands.left().wrapping_add(at), operands.right().wrapping_add(at));
            let a = place(&mut left, &self.layout, now);
            let b = place(&mut right, &self.layout, now);
            // SAFETY: the operands hold `now` elements from `at` on; `place` has made space for as many,
            // laid out. The two are apart, and nothing else uses the second.
            unsafe {
                unpack(&self.layout, a, now, 0, from, now * size);
                unpack(&self.layout, b, now, 0, into, now * size);
            }
            (self.function)(a, b, now);
            // SAFETY: as above.
            unsafe { pack(&self.layout, b, now, 0, into, now * size) };
            done += now;
        }
        self.space.replace((left, right));
    }
}

/// Where `count` elements are placed in memory that has space for them and is aligned.
fn place(lines: &mut Lines, layout: &Layout, count: usize) -> *mut u8 {
    let line = size_of::<CacheLine<[u8; 64]>>();
    let (_, low, high) = layout.message(count).expect("a part of what was counted already");
    // A function that copies whole elements writes their gaps as well, also those at the ends.
    let gap = layout.extent().unsigned_abs() as i64;
    let (low, high) = (low.min(0) - gap, high.max(0) + gap);
    // The memory begins `low` behind the place, which is to stand on a line.
    let ahead = low.rem_euclid(line as i64) as usize;
    let wanted = (ahead + (high - low) as usize).div_ceil(line);
    if lines.len() < wanted {
        lines.resize_with(wanted, || CacheLine([0; 64]));
    }
    lines.as_mut_ptr().cast::<u8>().wrapping_add(ahead).wrapping_offset(-low as isize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_sees_elements_where_their_type_has_them() {
        // An `i32` 4 bytes before the place and one 12 behind it, 24 bytes from element to element.
        let int = Layout::bytes(4).unwrap();
        let layout = Layout::listed([(-4, 1, &int), (12, 1, &int)]).unwrap().with_extent(24);
        let calls = RefCell::new(Vec::new());
        let function = |left: *const u8, right: *mut u8, count: usize| {
            assert!(left.addr().is_multiple_of(16) && right.addr().is_multiple_of(16));
            calls.borrow_mut().push(count);
            for index in 0..count {
                for at in [-4, 12] {
                    let at = at + 24 * index as isize;
                    // SAFETY: the layout has a number there.
                    unsafe {
                        let left = left.offset(at).cast::<i32>().read();
                        let right = right.offset(at).cast::<i32>();
                        right.write(left * 10 + right.read());
                    }
                }
            }
        };
        let op = LaidOut::new(Arc::new(layout), Box::new(function));
        let bytes =
            |numbers: &[i32]| numbers.iter().flat_map(|n| n.to_ne_bytes()).collect::<Vec<_>>();
        let (left, mut right) = (bytes(&[1, 2, 3, 4]), bytes(&[5, 6, 7, 8]));
        op.combine(&Operands::of(&left, &mut right));
        assert_eq!(right, bytes(&[15, 26, 37, 48]));
        assert_eq!(calls.take(), [2]);
        // More than fits at once.
        let many: Vec<i32> = (0..10_000).collect();
        let (left, mut right) = (bytes(&many), bytes(&many));
        op.combine(&Operands::of(&left, &mut right));
        assert_eq!(right, bytes(&many.iter().map(|n| n * 11).collect::<Vec<_>>()));
        assert_eq!(calls.borrow().iter().sum::<usize>(), 5_000);
        assert!(calls.borrow().len() > 1);
    }

    #[test]
    fn the_gap_behind_a_single_element_is_there() {
        // 12 bytes in one piece, in 16.
        let layout = Layout::bytes(12).unwrap().with_extent(16);
        let function = |left: *const u8, right: *mut u8, count: usize| {
            assert_eq!((count, left.addr() % 16, right.addr() % 16), (1, 0, 0));
            // SAFETY: an element takes 16 bytes in memory.
            unsafe { right.cast::<[u64; 2]>().write(left.cast::<[u64; 2]>().read()) };
        };
        let (left, mut right) = ([7; 12], [1; 13]);
        LaidOut::new(Arc::new(layout), Box::new(function))
            .combine(&Operands::of(&left, &mut right[..12]));
        assert_eq!((&right[..12], right[12]), (&left[..], 1));
    }

    #[test]
    fn dense_elements_are_combined_where_they_are() {
        let layout = Layout::bytes(2).unwrap();
        let seen = std::cell::Cell::new(None);
        let function =
            |left: *const u8, right: *mut u8, count: usize| seen.set(Some((left, right, count)));
        let (left, mut right) = ([0; 6], [0; 6]);
        let (a, b) = (left.as_ptr(), right.as_mut_ptr());
        LaidOut::new(Arc::new(layout), Box::new(function))
            .combine(&Operands::of(&left, &mut right));
        assert_eq!(seen.get(), Some((a, b, 3)));
    }
}
