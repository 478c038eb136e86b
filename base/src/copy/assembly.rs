//! The copies of [`super`] by the instructions of x86-64: whole lines, overwritten or past the caches.
//!
//! No tool sees what assembly reads and writes, so this file is left out under Miri and sanitizers.

use std::cell::Cell;
use std::time::Instant;

use crate::sync::LINE;
use crate::view::copy_small;

/// How many lines ahead a long read asks.
const AHEAD: usize = 24 * LINE;

/// Long copies from one that is timed to the next.
const BETWEEN: u32 = 128;

/// Picoseconds for a byte from which copies through the caches are dearer than past them: some 35 and
/// 130 were measured where the processors share a core or a cache, 350 to 500 where they are far apart.
const DEAR: u64 = 220;

/// What this thread's long copies cost.
#[derive(Clone, Copy)]
struct Price {
    /// Copies to go until one is timed.
    left: u32,
    /// Picoseconds for a byte through the caches, when it was last timed.
    through: u64,
}

thread_local! {
    /// Of the thread, not of a pair of processors: who talks to many at different distances pays the
    /// wrong price for some, as a fixed choice would.
    static PRICE: Cell<Price> = const { Cell::new(Price { left: 0, through: 0 }) };
}

/// Whether the processor says that its string instructions move whole lines ("enhanced REP
/// MOVSB"). The library asks it once.
#[inline]
pub(super) fn has_fast_strings() -> bool {
    std::arch::is_x86_feature_detected!("ermsb")
}

/// Copies a line; in assembly, since the compiler would make a call of the library's copy of a loop
/// of it. The stores are those of the instruction that is named.
macro_rules! copy_line {
    ($store:literal, $from:expr, $to:expr) => {
        std::arch::asm!(
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            concat!($store, " [{to}], {a}"),
            concat!($store, " [{to} + 16], {b}"),
            concat!($store, " [{to} + 32], {c}"),
            concat!($store, " [{to} + 48], {d}"),
            from = in(reg) $from,
            to = in(reg) $to,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack, preserves_flags),
        )
    };
}

/// Copies line by line, by plain stores.
///
/// # Safety
/// As for [`copy_small`].
#[inline]
pub(super) unsafe fn copy_lines(from: *const u8, to: *mut u8, n: usize) {
    let mut at = 0;
    while n - at >= LINE {
        // SAFETY: a line from `at` on lies inside both ranges.
        unsafe { copy_line!("movups", from.add(at), to.add(at)) };
        at += LINE;
    }
    // SAFETY: what is left of both ranges.
    unsafe { copy_small(from.add(at), to.add(at), n - at) }
}

/// Copies the way that the last timed copy asks for, or is that one.
///
/// # Safety
/// As for [`copy_small`].
#[inline(never)]
pub(super) unsafe fn copy_long(from: *const u8, to: *mut u8, n: usize) {
    let Price { left, through } = PRICE.get();
    if left == 0 {
        let start = Instant::now();
        // SAFETY: as promised by the caller.
        unsafe { copy_through(from, to, n) };
        let picoseconds =
            u64::try_from(start.elapsed().as_nanos()).unwrap_or(0).saturating_mul(1000);
        PRICE.set(Price { left: BETWEEN, through: picoseconds / n as u64 });
        return;
    }
    PRICE.set(Price { left: left - 1, through });
    // SAFETY: as promised by the caller.
    unsafe { if through < DEAR { copy_through(from, to, n) } else { copy_past(from, to, n) } }
}

/// Copies through the caches. Plain stores ask for the lines, several at once, and wait until each
/// has come, only to overwrite it. A string instruction knows that it will fill whole lines and only has
/// the other copies dropped. It needs lines that were not asked for ahead, and whole ones.
///
/// # Safety
/// As for [`copy_small`].
unsafe fn copy_through(from: *const u8, to: *mut u8, n: usize) {
    if !has_fast_strings() {
        // SAFETY: as promised by the caller.
        return unsafe { copy_lines(from, to, n) };
    }
    let lead = to.align_offset(LINE).min(n);
    // SAFETY: `lead` bytes and then the rest lie inside both ranges, which the caller promised. The
    // direction flag is clear, as the calling convention has it.
    unsafe {
        copy_small(from, to, lead);
        std::arch::asm!(
            "rep movsb",
            inout("rcx") n - lead => _,
            inout("rsi") from.add(lead) => _,
            inout("rdi") to.add(lead) => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Copies past the caches: whole lines; what is left at the ends goes through them.
///
/// # Safety
/// As for [`copy_small`].
pub(super) unsafe fn copy_past(from: *const u8, to: *mut u8, n: usize) {
    let mut at = to.align_offset(LINE).min(n);
    // SAFETY: `at` bytes lie inside both ranges.
    unsafe { copy_small(from, to, at) };
    while n - at >= LINE {
        // SAFETY: a line from `at` on lies inside both ranges, and starts one of the target's, so that
        // the stores are aligned as they must be.
        unsafe { copy_line!("movntps", from.add(at), to.add(at)) };
        at += LINE;
    }
    // SAFETY: what is left of both ranges. The fence has no operands: stores past the caches are
    // seen before what is stored behind it, which no Release says of them.
    unsafe {
        copy_small(from.add(at), to.add(at), n - at);
        std::arch::asm!("sfence", options(nostack, preserves_flags));
    }
}

/// Copies line by line, and asks for those that follow.
///
/// # Safety
/// As for [`copy_small`].
#[inline(never)]
pub(super) unsafe fn copy_ahead(from: *const u8, to: *mut u8, n: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch of any address has no effect that a program can see.
    let ask = |at: usize| unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(at).cast()) };
    (0..n.min(AHEAD)).step_by(LINE).for_each(ask);
    let mut at = 0;
    while n - at >= LINE {
        if at + AHEAD < n {
            ask(at + AHEAD);
        }
        // SAFETY: a line from `at` on lies inside both ranges.
        unsafe { copy_line!("movups", from.add(at), to.add(at)) };
        at += LINE;
    }
    // SAFETY: what is left of both ranges.
    unsafe { copy_small(from.add(at), to.add(at), n - at) }
}

#[cfg(test)]
mod tests {
    use super::super::LONG;
    use super::super::tests::{Copy, check};
    use super::*;

    #[test]
    fn both_ways_are_exact_whatever_they_cost() {
        for copy in [copy_through as Copy, copy_past] {
            check(copy, &[64, 65, 127, 128, LONG, 2 * LONG + 33]);
        }
        for through in [0, DEAR - 1, DEAR] {
            PRICE.set(Price { left: BETWEEN, through });
            check(copy_long, &[LONG, 2 * LONG, 2 * LONG + 70]);
            assert_eq!(PRICE.get().through, through);
        }
        // The next one is timed.
        PRICE.set(Price { left: 0, through: u64::MAX });
        check(copy_long, &[2 * LONG]);
        assert!(PRICE.get().through < u64::MAX);
    }
}
