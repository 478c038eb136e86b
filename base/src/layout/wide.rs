//! Blocks an even stride apart, by the wide instructions of x86-64 processors that have them (AVX-512).
//!
//! A loop over small blocks moves one of them at a time, and is done when a processor has stored so many:
//! half of what its caches could take. Here a load or a store moves all blocks of a line at once, under a
//! mask: what lies between the blocks is neither read nor written.
//!
//! No tool sees what assembly reads and writes, so this file is left out under Miri and sanitizers.

use std::arch::asm;

/// Bytes of a register, and of a line.
const WIDE: usize = 64;

/// Fewest bytes that are worth the start of a loop.
const FEWEST: usize = 2 * WIDE;

/// Whether the processor has the instructions. The library asks it once.
#[inline]
fn is_there() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
}

/// How blocks lie that are as far from each other as they are long, by words of four bytes.
#[repr(C, align(64))]
struct Halves {
    /// Which words of two lines have the blocks.
    gather: [u32; 16],
    /// Which words of the blocks go to the first line, and which to the second. Those between are masked.
    low: [u32; 16],
    high: [u32; 16],
    /// The words of a line that belong to blocks.
    mask: u32,
}

impl Halves {
    const fn of(words: usize) -> Self {
        let mut made = Self { gather: [0; 16], low: [0; 16], high: [0; 16], mask: 0 };
        let mut word = 0;
        while word < 16 {
            let (block, inside) = (word / words, word % words);
            made.gather[word] = (2 * block * words + inside) as u32;
            // Word of a line: blocks are the even ones of its pieces.
            if block.is_multiple_of(2) {
                let nth = block / 2 * words + inside;
                made.low[word] = nth as u32;
                made.high[word] = (nth + 8) as u32;
                made.mask |= 1 << word;
            }
            word += 1;
        }
        made
    }
}

/// For blocks of 4, 8, 16 and 32 bytes.
static HALVES: [Halves; 4] = [Halves::of(1), Halves::of(2), Halves::of(4), Halves::of(8)];

/// Copies blocks of `len` bytes that are `2 * len` apart at `laid`, from or to bytes side by side at `flat`: at
/// most `count`, in whole lines. Returns how many: none where the processor or the length is another.
///
/// # Safety
/// The blocks must be readable and the bytes writable, or the other way round, and apart from each other.
#[inline]
pub(super) unsafe fn halves<const PACK: bool>(
    laid: *mut u8,
    flat: *mut u8,
    len: usize,
    count: usize,
) -> usize {
    let rounds = count * len / WIDE;
    if !matches!(len, 4 | 8 | 16 | 32) || rounds * WIDE < FEWEST || !is_there() {
        return 0;
    }
    let table = &HALVES[len.trailing_zeros() as usize - 2];
    // SAFETY: each round reads or writes a line at `flat` and, of two at `laid`, the words of the mask, which are
    // those of `WIDE / len` blocks; all rounds together stay within what the caller promised. The instructions
    // are there, and the table has what is loaded from it.
    unsafe {
        if PACK {
            asm!(
                "kmovw k1, {mask:e}",
                "vmovdqa32 zmm0, [{table}]",
                "2:",
                "vmovdqu32 zmm1{{k1}}{{z}}, [{laid}]",
                "vmovdqu32 zmm2{{k1}}{{z}}, [{laid} + 64]",
                "vpermt2d zmm1, zmm0, zmm2",
                "vmovdqu32 [{flat}], zmm1",
                "add {laid}, 128",
                "add {flat}, 64",
                "dec {rounds}",
                "jnz 2b",
                "vzeroupper",
                mask = in(reg) table.mask,
                table = in(reg) table.gather.as_ptr(),
                laid = inout(reg) laid => _,
                flat = inout(reg) flat => _,
                rounds = inout(reg) rounds => _,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("k1") _,
                options(nostack),
            );
        } else {
            asm!(
                "kmovw k1, {mask:e}",
                "vmovdqa32 zmm0, [{table}]",
                "vmovdqa32 zmm3, [{table} + 64]",
                "2:",
                "vmovdqu32 zmm1, [{flat}]",
                "vpermd zmm2, zmm0, zmm1",
                "vpermd zmm1, zmm3, zmm1",
                "vmovdqu32 [{laid}]{{k1}}, zmm2",
                "vmovdqu32 [{laid} + 64]{{k1}}, zmm1",
                "add {laid}, 128",
                "add {flat}, 64",
                "dec {rounds}",
                "jnz 2b",
                "vzeroupper",
                mask = in(reg) table.mask,
                table = in(reg) table.low.as_ptr(),
                laid = inout(reg) laid => _,
                flat = inout(reg) flat => _,
                rounds = inout(reg) rounds => _,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("k1") _,
                options(nostack),
            );
        }
    }
    rounds * WIDE / len
}

/// Copies `count` blocks of `len` bytes from places that are `from_stride` apart to places that are `to_stride`
/// apart. Whether it was done: not where the processor is another, or the blocks are no whole lines. (The rest
/// of a line would need a mask. What a mask leaves out of the next page can cost as much as a fault of it.)
///
/// # Safety
/// The blocks must be readable at `from` and writable at `to`, apart from each other.
#[inline]
pub(super) unsafe fn blocks(
    (from, from_stride): (*const u8, isize),
    (to, to_stride): (*mut u8, isize),
    len: usize,
    count: usize,
) -> bool {
    if len == 0 || !len.is_multiple_of(WIDE) || count == 0 || !is_there() {
        return false;
    }
    // SAFETY: each round copies a block, line by line; all rounds together are what the caller promised. The
    // instructions are there.
    unsafe {
        asm!(
            "2:",
            "xor {at:e}, {at:e}",
            "3:",
            "vmovdqu64 zmm0, [{from} + {at}]",
            "vmovdqu64 [{to} + {at}], zmm0",
            "add {at}, 64",
            "cmp {at}, {len}",
            "jb 3b",
            "add {from}, {from_stride}",
            "add {to}, {to_stride}",
            "dec {count}",
            "jnz 2b",
            "vzeroupper",
            at = out(reg) _,
            len = in(reg) len,
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            from_stride = in(reg) from_stride,
            to_stride = in(reg) to_stride,
            count = inout(reg) count => _,
            out("xmm0") _,
            options(nostack),
        );
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_takes_every_other_piece() {
        let pairs = Halves::of(2);
        assert_eq!(pairs.gather[..6], [0, 1, 4, 5, 8, 9]);
        assert_eq!(pairs.mask, 0x3333);
        let at = |table: &[u32; 16]| {
            (0..16).filter(|w| pairs.mask >> w & 1 == 1).map(|w| table[w]).collect()
        };
        let (low, high): (Vec<_>, Vec<_>) = (at(&pairs.low), at(&pairs.high));
        assert_eq!(low, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(high, [8, 9, 10, 11, 12, 13, 14, 15]);
    }

    /// Bytes that differ from each other and from 0.
    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 7 + i / 251) as u8 | 1).collect()
    }

    #[test]
    fn every_other_block_is_copied_and_nothing_else() {
        if !is_there() {
            return;
        }
        for len in [4, 8, 16, 32] {
            for count in [1, 128 / len, 200 / len, 1000 / len] {
                for skip in [0, 1, 60] {
                    let mut laid = bytes(skip + 2 * len * count);
                    let mut flat = vec![0; skip + len * count];
                    let start = laid.as_mut_ptr().wrapping_add(skip);
                    // SAFETY: both have the bytes behind `skip`. The last gap is a part of the vector, too.
                    let n =
                        unsafe { halves::<true>(start, flat.as_mut_ptr().add(skip), len, count) };
                    assert!(n <= count && (count - n) * len < FEWEST, "{n} of {count}");
                    for (at, &byte) in flat[skip..].iter().enumerate() {
                        let expected = skip + at / len * 2 * len + at % len;
                        assert_eq!(byte, if at < n * len { laid[expected] } else { 0 });
                    }
                    let mut back = vec![0; laid.len()];
                    // SAFETY: as above.
                    let same = unsafe {
                        let to = back.as_mut_ptr().add(skip);
                        halves::<false>(to, flat.as_mut_ptr().add(skip), len, count)
                    };
                    assert_eq!(same, n);
                    for (at, &byte) in back.iter().enumerate() {
                        let inside = at >= skip && (at - skip) / len % 2 == 0;
                        let copied = inside && (at - skip) / (2 * len) < n;
                        assert_eq!(
                            byte,
                            if copied { laid[at] } else { 0 },
                            "{len} {count} at {at}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn blocks_of_whole_lines_are_copied() {
        if !is_there() {
            return;
        }
        for len in [64, 128, 192, 640] {
            let (count, gap) = (5, 5);
            let from = bytes((len + gap) * count);
            let mut to = vec![0; len * count + 1];
            let stride = (len + gap) as isize;
            // SAFETY: both have so many blocks.
            let done = unsafe {
                blocks((from.as_ptr(), stride), (to.as_mut_ptr(), len as isize), len, count)
            };
            assert!(done);
            for block in 0..count {
                let (there, here) = (block * (len + gap), block * len);
                assert_eq!(to[here..here + len], from[there..there + len], "{len}, block {block}");
            }
            assert_eq!(to.last(), Some(&0), "{len}");
        }
    }
}
