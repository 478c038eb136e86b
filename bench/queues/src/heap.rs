//! The allocator of this program. It counts what a thread has of it, so that what a structure takes is known from
//! outside, whatever the structure counts of itself: the bytes that were asked for, without those to which the system's
//! allocator rounds a block up.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread has allocated, less those that it has freed.
    static HELD: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator, counted.
struct Counting;

fn count(before: usize, now: usize) {
    // A thread that ends has nobody any more who would ask.
    let _ = HELD.try_with(|held| held.set(held.get() + now as i64 - before as i64));
}

// SAFETY: every method passes its arguments on to the system's allocator, whose promises are those of the
// trait, and returns what it returns; the counting touches no memory of theirs and allocates none.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that `System` asks for.
        let start = unsafe { System.alloc(layout) };
        count(0, if start.is_null() { 0 } else { layout.size() });
        start
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for `alloc`.
        let start = unsafe { System.alloc_zeroed(layout) };
        count(0, if start.is_null() { 0 } else { layout.size() });
        start
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as for `alloc`; the block came from `System`.
        let moved = unsafe { System.realloc(start, layout, bytes) };
        count(layout.size(), if moved.is_null() { layout.size() } else { bytes });
        moved
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: as for `alloc`; the block came from `System`.
        unsafe { System.dealloc(start, layout) }
        count(layout.size(), 0);
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes of heap that what `make` returns takes, beside its own size.
pub(crate) fn held_by<T>(make: impl FnOnce() -> T) -> i64 {
    let held = || HELD.with(Cell::get);
    let before = held();
    let made = make();
    let bytes = held() - before;
    drop(made);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted_and_what_was_given_back_is_not() {
        assert_eq!(held_by(|| [0_u8; 100]), 0);
        assert_eq!(held_by(|| vec![1_u8; 100]), 100);
        assert_eq!(held_by(|| vec![0_u64; 100]), 800);
        let grown = || {
            let mut bytes = Vec::<u8>::with_capacity(16);
            bytes.reserve_exact(1000);
            drop(vec![1_u8; 5000]);
            bytes
        };
        assert_eq!(held_by(grown), 1000);
    }
}
