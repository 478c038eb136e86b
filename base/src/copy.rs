//! Long copies to memory that another processor has read, and from memory that one has written.
//!
//! Lines of such memory lie in the other processor's cache. What a copy costs is how it asks for
//! them, and that depends on how far apart the two are, which the library does not know, and which
//! changes under a virtual machine. Nanoseconds for 8 KB (AMD EPYC, one message after the other
//! without waiting / each waited for):
//!
//! | to shared memory | one core's two threads | same cache | far apart |
//! |---|---|---|---|
//! | through the caches | 430 / 630 | 1100 / 1650 | 3700 / 6200 |
//! | past the caches | 740 / 1390 | 650 / 1600 | 670 / 2100 |
//!
//! Through the caches: the other copies of a line are dropped, and who writes waits for that. Past
//! the caches: a line is given to the memory, and nobody waits; it must come from there, which takes
//! half the time if lines are asked for further ahead than a processor does by itself. Messages have
//! more to do than copies, and gain by the second order only where the processors are far apart, there
//! two to five times. So a copy through the caches is timed now and then, and the next ones take the route
//! that its price asks for. A single copy does not show the price of a change of routes: after copies past the caches
//! the first one through them is slow wherever the processors are, since its lines are in the memory. So several copies
//! through the caches are made in a row before they are judged, and again from time to time.
//!
//! A string instruction (`rep movsb`, by which the C library and the kernel copy too) is far slower where the target lies
//! less than a line behind the source in the low 12 bits of the addresses: each load meets a store before it that agrees
//! in these bits, and waits for it ("4K aliasing"). On the same machine it moves 2 GB/s then, and 40 to 60 otherwise. Two
//! arrays of some 100 KB that a program has allocated one after the other lie so to each other: 16 bytes apart. Such
//! ranges are copied by plain loads and stores ([`is_aliased`]). Elsewhere it is also the quicker one of what another processor has
//! written, since more lines are under way: single messages of 64 KB took 3.6 us for 4.7 far apart, windows of them moved 25.5 GB/s for
//! 19.0, and 55 for 44 near (AMD EPYC).
//!
//! Copies of up to a few lines, in which nothing of this pays, are [`copy_bytes`]'s. Under
//! Miri and the sanitizers, which do not see what assembly does, all copies are of that kind.

#[cfg(all(target_arch = "x86_64", not(any(miri, bowline_sanitize))))]
mod assembly;
mod small;

use crate::sync::LINE;

pub use small::{copy_bytes, copy_overlapping};

/// Bytes of a page, the low bits of whose addresses a processor compares to order loads behind stores.
const PAGE: usize = 4096;

/// Bytes from which a copy to shared memory overwrites lines. Below, what it costs to start is more
/// than it saves.
const LONG: usize = 3072;

/// Bytes from which the C library copies by a string instruction, at the earliest.
const STRING: usize = 2048;

/// Whether a string instruction copies from the one address to the other slowly; see the module's text.
#[inline]
pub const fn is_aliased(from: usize, to: usize) -> bool {
    let behind = to.wrapping_sub(from) % PAGE;
    behind != 0 && behind < LINE
}

/// Copies more than a few lines within what this process alone uses.
///
/// # Safety
/// As for [`copy_bytes`].
#[inline]
pub(crate) unsafe fn copy_plain(from: *const u8, to: *mut u8, n: usize) {
    if n >= STRING && is_aliased(from.addr(), to.addr()) {
        #[cfg(all(target_arch = "x86_64", not(any(miri, bowline_sanitize))))]
        // SAFETY: as promised by the caller.
        return unsafe { assembly::copy_aliased(from, to, n) };
    }
    // SAFETY: as promised by the caller.
    unsafe { std::ptr::copy_nonoverlapping(from, to, n) }
}

/// Copies as many bytes as both slices have.
///
/// # Panics
/// Where they are not of one length.
#[inline]
pub fn copy_slice(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "a copy keeps the length");
    // SAFETY: both slices have as many bytes, and lie apart, since one of them is borrowed mutably.
    unsafe { copy_bytes(from.as_ptr(), to.as_mut_ptr(), from.len()) }
}

/// Whether a copy of `n` bytes to shared memory overwrites lines without asking for what they hold.
/// Then they must not be asked for ahead either: a line that has come is one that it has to keep.
#[inline]
pub fn overwrites_lines(n: usize) -> bool {
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, bowline_sanitize)))))]
    let has_fast_strings = || false;
    #[cfg(all(target_arch = "x86_64", not(any(miri, bowline_sanitize))))]
    use assembly::has_fast_strings;
    n >= LONG && has_fast_strings()
}

/// Copies `n` bytes to memory that another processor has read. A reader that sees a word that is stored
/// with Release behind the copy sees the copy, whichever instructions made it.
///
/// # Safety
/// As for [`copy_bytes`].
#[inline]
pub unsafe fn copy_to_shared(from: *const u8, to: *mut u8, n: usize) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, bowline_sanitize))))]
    if n >= LINE {
        if n >= LONG {
            // SAFETY: as promised by the caller.
            return unsafe { assembly::copy_long(from, to, n) };
        }
        // SAFETY: as promised by the caller.
        return unsafe { assembly::copy_lines(from, to, n) };
    }
    // SAFETY: as promised by the caller.
    unsafe { copy_bytes(from, to, n) }
}

/// Copies `n` bytes from memory that another processor has written.
///
/// # Safety
/// As for [`copy_bytes`].
#[inline]
pub unsafe fn copy_from_shared(from: *const u8, to: *mut u8, n: usize) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, bowline_sanitize))))]
    if n >= LONG {
        // SAFETY: as promised by the caller.
        return unsafe { assembly::copy_written(from, to, n) };
    }
    // SAFETY: as promised by the caller.
    unsafe { copy_bytes(from, to, n) }
}

/// Copies `n` bytes that another processor has written to memory of which so much is written that nobody will find it
/// in a cache: past the caches, which then keep what is read again.
///
/// # Safety
/// As for [`copy_bytes`].
#[inline]
pub unsafe fn copy_from_shared_past(from: *const u8, to: *mut u8, n: usize) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, bowline_sanitize))))]
    if n >= LONG {
        // SAFETY: as promised by the caller.
        return unsafe { assembly::copy_past(from, to, n) };
    }
    // SAFETY: as promised by the caller.
    unsafe { copy_from_shared(from, to, n) }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) type Copy = unsafe fn(*const u8, *mut u8, usize);

    pub(super) fn check(copy: Copy, lengths: &[usize]) {
        let longest = lengths.iter().max().unwrap();
        let from: Vec<u8> = (0..longest + 64).map(|i| (1 + i * 7 + i / 251) as u8 | 1).collect();
        for &n in lengths {
            for skip in [0, 1, 3, 63] {
                let mut to = vec![0u8; n + 200];
                // SAFETY: both have more than `n` bytes behind their starts, apart from each other.
                unsafe { copy(from.as_ptr().add(skip), to.as_mut_ptr().add(skip), n) };
                assert_eq!(&to[skip..skip + n], &from[skip..skip + n], "{n} from {skip}");
                let mut beside = to[..skip].iter().chain(&to[skip + n..]);
                assert!(beside.all(|&byte| byte == 0), "{n} from {skip} spilled");
            }
        }
    }

    #[test]
    fn copies_of_every_length_are_exact() {
        let short: Vec<usize> = (0..=140).collect();
        let long = [511, 512, 575, 1600, LONG - 1, LONG, LONG + 200, 8192, 8192 + 77];
        for copy in [copy_to_shared as Copy, copy_from_shared, copy_from_shared_past, copy_bytes] {
            check(copy, &short);
            check(copy, &long);
        }
    }

    #[test]
    fn addresses_alias_up_to_a_line_behind_the_source() {
        for (from, to, aliased) in [
            (0x1000, 0x5001, true),
            (0x1010, 0x7020, true),
            (0x1fff, 0x403e, true),
            (0x1010, 0x7010, false),
            (0x1010, 0x7000, false),
            (0x1000, 0x7040, false),
        ] {
            assert_eq!(is_aliased(from, to), aliased, "{from:#x} to {to:#x}");
        }
    }

    #[test]
    fn copies_between_aliased_ranges_are_exact() {
        let longest = 3 * PAGE;
        let from: Vec<u8> = (0..longest).map(|i| (1 + i * 7 + i / 251) as u8 | 1).collect();
        for behind in [1, 16, 62, LINE - 1] {
            for n in [STRING - 1, STRING, LONG, 2 * PAGE + 77] {
                for copy in
                    [copy_to_shared as Copy, copy_from_shared, copy_from_shared_past, copy_bytes]
                {
                    let mut to = vec![0u8; longest + PAGE];
                    let start = to.as_ptr().addr();
                    let skip = (from.as_ptr().addr() + behind).wrapping_sub(start) % PAGE;
                    assert!(is_aliased(from.as_ptr().addr(), start + skip));
                    // SAFETY: both have more than `n` bytes behind their starts, apart from each other.
                    unsafe { copy(from.as_ptr(), to.as_mut_ptr().add(skip), n) };
                    assert_eq!(&to[skip..skip + n], &from[..n], "{n}, {behind} behind");
                    let mut beside = to[..skip].iter().chain(&to[skip + n..]);
                    assert!(beside.all(|&byte| byte == 0), "{n}, {behind} behind, spilled");
                }
            }
        }
    }
}
