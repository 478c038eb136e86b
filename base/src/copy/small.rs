//! Copies within what this process alone uses, and of up to a few lines, in which the routes of [`super`] do not pay.

use super::copy_plain;

/// Copies `n` bytes; the sizes of a short message without a call, long ones as [`super`] says of aliased ranges.
///
/// # Safety
/// `from` must be readable and `to` writable for `n` bytes, and they must not overlap.
#[inline]
pub unsafe fn copy_bytes(from: *const u8, to: *mut u8, n: usize) {
    // Two overlapping moves cover 8..=16, 17..=32 and 33..=64 bytes: no loop, no call, few branches.
    // SAFETY: every access below is of `n` bytes or less from the start or the end of the two
    // ranges, which the caller promised.
    unsafe {
        if n == 8 {
            to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned());
        } else if n > 64 {
            copy_plain(from, to, n);
        } else if n > 32 {
            let head = from.cast::<[u64; 4]>().read_unaligned();
            let tail = from.add(n - 32).cast::<[u64; 4]>().read_unaligned();
            to.cast::<[u64; 4]>().write_unaligned(head);
            to.add(n - 32).cast::<[u64; 4]>().write_unaligned(tail);
        } else if n > 16 {
            let head = from.cast::<[u64; 2]>().read_unaligned();
            let tail = from.add(n - 16).cast::<[u64; 2]>().read_unaligned();
            to.cast::<[u64; 2]>().write_unaligned(head);
            to.add(n - 16).cast::<[u64; 2]>().write_unaligned(tail);
        } else if n > 8 {
            let head = from.cast::<u64>().read_unaligned();
            let tail = from.add(n - 8).cast::<u64>().read_unaligned();
            to.cast::<u64>().write_unaligned(head);
            to.add(n - 8).cast::<u64>().write_unaligned(tail);
        } else if n >= 4 {
            let head = from.cast::<u32>().read_unaligned();
            let tail = from.add(n - 4).cast::<u32>().read_unaligned();
            to.cast::<u32>().write_unaligned(head);
            to.add(n - 4).cast::<u32>().write_unaligned(tail);
        } else {
            for i in 0..n {
                to.add(i).write(from.add(i).read());
            }
        }
    }
}

/// The same where the ranges may overlap.
///
/// # Safety
/// `from` must be readable and `to` writable for `n` bytes.
#[inline]
pub unsafe fn copy_overlapping(from: *const u8, to: *mut u8, n: usize) {
    // Up to 64 bytes are loaded before they are stored, except below 4, where single bytes move.
    if (4..=64).contains(&n) || from.addr().abs_diff(to.addr()) >= n {
        // SAFETY: as promised by the caller; the ranges lie apart, or overlap does not matter at these lengths.
        unsafe { copy_bytes(from, to, n) }
    } else {
        // SAFETY: as promised by the caller; `copy` allows overlap.
        unsafe { std::ptr::copy(from, to, n) }
    }
}
