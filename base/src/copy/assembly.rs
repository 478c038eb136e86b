//! The copies of [`super`] by the instructions of x86-64: whole lines, overwritten or past the caches.
//!
//! No tool sees what assembly reads and writes, so this file is left out under Miri and sanitizers.

use std::cell::Cell;
use std::time::Instant;

use super::{copy_bytes, is_aliased};
use crate::sync::LINE;

/// How many lines ahead a long read asks.
const AHEAD: usize = 24 * LINE;

/// Picoseconds for a byte from which copies through the caches are dearer than past them: some 35 and
/// 130 were measured where the processors share a core or a cache, 350 to 500 where they are far apart.
const DEAR: u64 = 220;

/// Bytes of long copies through the caches from one that is timed to the next.
const BETWEEN: usize = 1 << 20;

/// Bytes that go through the caches before copies of a trial are timed, and of those that are timed. The first bring the lines
/// back into the caches: as many as staging memory has, which is more than a ring.
const WARMING: usize = 4 << 20;
const TIMING: usize = 1 << 20;

/// Bytes that go past the caches before a trial. The number doubles with each trial that fails, from the first to the last, so
/// that trials take a hundredth of the time where processors stay far apart.
const PAUSE: usize = 64 << 20;
const LONGEST_PAUSE: usize = 2 << 30;

/// How the long copies of a thread go.
///
/// ```text
///            the timed copy is dear           as much as WARMING          all of TIMING are dear
///   Through ────────────────────────► Warming ──────────────────► Timing ───────────────────────► Past
///      ▲                                 ▲                          │                              │
///      │                                 └──────────────────────────┼──────────────────────────────┘
///      └────────────────────────────────────────────────────────────┘      the pause is over
///            one timed copy is not dear
/// ```
/// A single copy says nothing of copies through the caches: it is dear where an interrupt comes, where the memory is
/// fresh, and behind copies past the caches, since its lines are in the memory then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Through,
    Warming,
    Timing,
    Past,
}

/// What one copy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Through,
    Timed,
    Past,
}

/// What a thread knows of its long copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Routing {
    route: Route,
    /// Bytes to go on this route.
    left: usize,
    /// The next pause.
    pause: usize,
}

impl Routing {
    const NEW: Self = Self { route: Route::Through, left: BETWEEN, pause: PAUSE };

    /// The next copy, of `n` bytes.
    #[inline]
    fn next(&mut self, n: usize) -> Step {
        if self.left < n {
            return self.at_end(n);
        }
        self.left -= n;
        match self.route {
            Route::Through | Route::Warming => Step::Through,
            Route::Timing => Step::Timed,
            Route::Past => Step::Past,
        }
    }

    #[cold]
    fn at_end(&mut self, n: usize) -> Step {
        let (route, bytes, step) = match self.route {
            // What it takes decides what follows.
            Route::Through => return Step::Timed,
            Route::Past => (Route::Warming, WARMING, Step::Through),
            Route::Warming => (Route::Timing, TIMING, Step::Timed),
            Route::Timing => (Route::Past, self.pause, Step::Past),
        };
        if route == Route::Past {
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
        (self.route, self.left) = (route, bytes.saturating_sub(n));
        step
    }

    /// A copy was timed, in picoseconds for a byte.
    #[cold]
    fn timed(&mut self, price: u64) {
        if price < DEAR {
            *self = Self::NEW;
        } else if self.route == Route::Through {
            (self.route, self.left) = (Route::Warming, WARMING);
        }
    }
}

thread_local! {
    /// Of the thread, not of a pair of processors: who talks to many at different distances pays the
    /// wrong price for some, as a fixed choice would.
    static ROUTING: Cell<Routing> = const { Cell::new(Routing::NEW) };
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
/// As for [`copy_bytes`].
#[inline]
pub(super) unsafe fn copy_lines(from: *const u8, to: *mut u8, n: usize) {
    let mut at = 0;
    while n - at >= LINE {
        // SAFETY: a line from `at` on lies inside both ranges.
        unsafe { copy_line!("movups", from.add(at), to.add(at)) };
        at += LINE;
    }
    // SAFETY: what is left of both ranges.
    unsafe { copy_bytes(from.add(at), to.add(at), n - at) }
}

/// The same for ranges between which a string instruction would be slow.
///
/// # Safety
/// As for [`copy_bytes`].
#[cold]
#[inline(never)]
pub(super) unsafe fn copy_aliased(from: *const u8, to: *mut u8, n: usize) {
    // SAFETY: as promised by the caller.
    unsafe { copy_lines(from, to, n) }
}

/// Copies by the route that is the cheaper one.
///
/// # Safety
/// As for [`copy_bytes`].
#[inline(never)]
pub(super) unsafe fn copy_long(from: *const u8, to: *mut u8, n: usize) {
    let mut routing = ROUTING.get();
    let step = routing.next(n);
    match step {
        // SAFETY: as promised by the caller.
        Step::Past => unsafe { copy_past(from, to, n) },
        // SAFETY: as promised by the caller.
        Step::Through => unsafe { copy_through(from, to, n) },
        Step::Timed => {
            let start = Instant::now();
            // SAFETY: as promised by the caller.
            unsafe { copy_through(from, to, n) };
            let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(0);
            routing.timed(nanoseconds.saturating_mul(1000) / n as u64);
        }
    }
    ROUTING.set(routing);
}

/// Copies through the caches what another processor will read. Plain stores ask for the lines, several at once, and wait until
/// each has come, only to overwrite it. A string instruction knows that it will fill whole lines and only has
/// the other copies dropped.
///
/// # Safety
/// As for [`copy_bytes`].
unsafe fn copy_through(from: *const u8, to: *mut u8, n: usize) {
    if are_strings_fast(from, to) {
        // SAFETY: as promised by the caller.
        unsafe { copy_string(from, to, n) }
    } else {
        // SAFETY: as promised by the caller.
        unsafe { copy_lines(from, to, n) }
    }
}

/// Copies through the caches what another processor has written. A string instruction has more lines under way than plain loads
/// that ask ahead: pieces of 16 KB and longer take 0.7 of the time where processors are far apart, and 0.8 near.
///
/// # Safety
/// As for [`copy_bytes`].
#[inline]
pub(super) unsafe fn copy_written(from: *const u8, to: *mut u8, n: usize) {
    if are_strings_fast(from, to) {
        // SAFETY: as promised by the caller.
        unsafe { copy_string(from, to, n) }
    } else {
        // SAFETY: as promised by the caller.
        unsafe { copy_ahead(from, to, n) }
    }
}

/// Whether a string instruction is the quicker copy.
#[inline]
fn are_strings_fast(from: *const u8, to: *mut u8) -> bool {
    has_fast_strings() && !is_aliased(from.addr(), to.addr())
}

/// Copies by a string instruction. It needs lines that were not asked for ahead, and whole ones.
///
/// # Safety
/// As for [`copy_bytes`].
unsafe fn copy_string(from: *const u8, to: *mut u8, n: usize) {
    let lead = to.align_offset(LINE).min(n);
    // SAFETY: `lead` bytes and then the rest lie inside both ranges, which the caller promised. The
    // direction flag is clear, as the calling convention has it.
    unsafe {
        copy_bytes(from, to, lead);
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
/// As for [`copy_bytes`].
pub(super) unsafe fn copy_past(from: *const u8, to: *mut u8, n: usize) {
    let mut at = to.align_offset(LINE).min(n);
    // SAFETY: `at` bytes lie inside both ranges.
    unsafe { copy_bytes(from, to, at) };
    while n - at >= LINE {
        // SAFETY: a line from `at` on lies inside both ranges, and starts one of the target's, so that
        // the stores are aligned as they must be.
        unsafe { copy_line!("movntps", from.add(at), to.add(at)) };
        at += LINE;
    }
    // SAFETY: what is left of both ranges. The fence has no operands: stores past the caches are
    // seen before what is stored behind it, which no Release says of them.
    unsafe {
        copy_bytes(from.add(at), to.add(at), n - at);
        std::arch::asm!("sfence", options(nostack, preserves_flags));
    }
}

/// Copies line by line, and asks for those that follow.
///
/// # Safety
/// As for [`copy_bytes`].
#[inline(never)]
unsafe fn copy_ahead(from: *const u8, to: *mut u8, n: usize) {
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
    unsafe { copy_bytes(from.add(at), to.add(at), n - at) }
}

#[cfg(test)]
mod tests {
    use super::super::LONG;
    use super::super::tests::{Copy, check};
    use super::*;

    #[test]
    fn both_ways_are_exact_whatever_they_cost() {
        for copy in [copy_through as Copy, copy_past, copy_written, copy_ahead] {
            check(copy, &[64, 65, 127, 128, LONG, 2 * LONG + 33]);
        }
        for route in [Route::Through, Route::Warming, Route::Timing, Route::Past] {
            ROUTING.set(Routing { route, left: LONG, pause: PAUSE });
            check(copy_long, &[LONG, 2 * LONG, 2 * LONG + 70]);
        }
    }

    /// How many copies of a length take each step, of which each has a price through the caches if it is timed.
    fn steps(
        routing: &mut Routing,
        (copies, n): (usize, usize),
        price: impl Fn(usize) -> u64,
    ) -> [usize; 3] {
        let mut count = [0; 3];
        for copy in 0..copies {
            let step = routing.next(n);
            if step == Step::Timed {
                routing.timed(price(copy));
            }
            count[step as usize] += 1;
        }
        count
    }

    #[test]
    fn one_dear_copy_leaves_copies_in_the_caches() {
        let mut routing = Routing::NEW;
        let n = 1 << 14;
        let first = BETWEEN / n;
        let once = |copy| if copy == first { 10 * DEAR } else { DEAR - 1 };
        let copies = 10 * WARMING / n;
        let [through, timed, past] = steps(&mut routing, (copies, n), once);
        assert_eq!((through + timed, past), (copies, 0));
        assert!(timed >= 30, "one of each {BETWEEN} bytes is timed: {timed}");
    }

    #[test]
    fn copies_that_stay_dear_go_past_the_caches_but_for_few_trials() {
        for n in [LONG, 1 << 20, 3 * WARMING] {
            let mut routing = Routing::NEW;
            let all = 10 * LONGEST_PAUSE / n;
            let [through, timed, past] = steps(&mut routing, (all, n), |_| DEAR);
            assert!(timed > 0 && through > 0);
            assert!(past > all - all / 50, "{through} through, {timed} timed, {past} past");
            // The processors have moved: it is found out within a pause, and stays.
            steps(&mut routing, ((LONGEST_PAUSE + 2 * WARMING) / n + 4, n), |_| DEAR - 1);
            assert_eq!((routing.route, routing.pause), (Route::Through, PAUSE), "{n}");
        }
    }

    #[test]
    fn a_trial_that_begins_dear_ends_in_the_caches() {
        let n = 1 << 14;
        let mut routing = Routing { route: Route::Past, left: 0, pause: PAUSE };
        let copies = (WARMING + TIMING) / n;
        // Only the last copy of the trial finds its lines.
        let price = |copy| if copy == copies - 1 { DEAR - 1 } else { DEAR };
        let [through, timed, past] = steps(&mut routing, (copies, n), price);
        assert_eq!((through, timed, past), (WARMING / n, TIMING / n, 0));
        assert_eq!(routing, Routing::NEW);
    }
}
