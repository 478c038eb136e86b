//! Copies between a message's bytes side by side and where its layout has them.
//!
//! Small blocks an even stride apart are what most layouts are made of. They are copied in loops that know
//! their length (1, 2, 4, 8 or 16 bytes), as integers that need not be aligned, or many at once: see [`wide`].

#[cfg(all(target_arch = "x86_64", not(any(miri, bowline_sanitize))))]
use super::wide;
use super::{Kind, Layout, Node, Part, Piece};
use crate::copy::copy_bytes;
use crate::copy::{copy_from_shared, copy_to_shared};

/// Bytes of a block from which on it is copied as a message of its own. Shorter ones begin and end within
/// lines that other blocks share, which are slow to go past the caches.
const LONG: usize = 8192;

/// Bytes side by side that are still to be copied.
struct Line {
    start: *mut u8,
    left: usize,
}

/// # Safety
/// `len` bytes at both places, the one that is written apart from the other.
#[inline]
unsafe fn block<const PACK: bool>(laid: *mut u8, line: &mut Line, len: usize) {
    // SAFETY: promised by the caller.
    unsafe {
        if !PACK {
            copy_from_shared(line.start, laid, len);
        } else if len >= LONG {
            copy_to_shared(laid, line.start, len);
        } else {
            copy_bytes(laid, line.start, len);
        }
    }
    line.start = line.start.wrapping_add(len);
    line.left -= len;
}

/// Copies `count` blocks of the size of `T`, `stride` apart.
///
/// # Safety
/// As for [`block`], for each of them.
#[inline]
unsafe fn strided<T: Copy, const PACK: bool>(
    laid: *mut u8,
    line: &mut Line,
    count: usize,
    stride: i64,
) {
    let size = size_of::<T>();
    let stride = stride as isize;
    let mut laid = laid;
    let mut flat = line.start;
    let copy = |laid: *mut u8, flat: *mut u8| {
        // SAFETY: promised by the caller; unaligned access asks for nothing more. `T` is an integer, which
        // has no bytes between.
        unsafe {
            if PACK {
                flat.cast::<T>().write_unaligned(laid.cast::<T>().read_unaligned());
            } else {
                laid.cast::<T>().write_unaligned(flat.cast::<T>().read_unaligned());
            }
        }
    };
    // Four in one round of the loop: a processor may store two of them at once, but counts one round at a time.
    for _ in 0..count / 4 {
        for nth in 0..4 {
            copy(laid.wrapping_offset(stride * nth), flat.wrapping_add(size * nth as usize));
        }
        laid = laid.wrapping_offset(4 * stride);
        flat = flat.wrapping_add(4 * size);
    }
    for _ in 0..count % 4 {
        copy(laid, flat);
        laid = laid.wrapping_offset(stride);
        flat = flat.wrapping_add(size);
    }
    line.start = flat;
    line.left -= size * count;
}

/// Copies as many of the blocks as wide instructions are there and good for. Returns how many.
///
/// # Safety
/// As for [`blocks`].
#[cfg(all(target_arch = "x86_64", not(any(miri, bowline_sanitize))))]
#[inline]
unsafe fn wide<const PACK: bool>(
    laid: *mut u8,
    line: &mut Line,
    len: usize,
    count: usize,
    stride: i64,
) -> usize {
    let (stride, flat) = (stride as isize, (line.start, len as isize));
    let done = match len {
        // SAFETY: promised by the caller.
        4 | 8 | 16 | 32 if stride == 2 * flat.1 => unsafe {
            wide::halves::<PACK>(laid, line.start, len, count)
        },
        LONG.. => 0,
        _ => {
            let laid = (laid, stride);
            // SAFETY: promised by the caller.
            let all = unsafe {
                if PACK {
                    wide::blocks((laid.0.cast_const(), stride), flat, len, count)
                } else {
                    wide::blocks((flat.0.cast_const(), flat.1), laid, len, count)
                }
            };
            if all { count } else { 0 }
        }
    };
    line.start = line.start.wrapping_add(done * len);
    line.left -= done * len;
    done
}

/// No wide instructions are there, or none that tools would see.
///
/// # Safety
/// Nothing is asked.
#[cfg(not(all(target_arch = "x86_64", not(any(miri, bowline_sanitize)))))]
unsafe fn wide<const PACK: bool>(_: *mut u8, _: &mut Line, _: usize, _: usize, _: i64) -> usize {
    0
}

/// Copies `count` whole blocks of `len` bytes.
///
/// # Safety
/// As for [`block`], for each of them.
unsafe fn blocks<const PACK: bool>(
    laid: *mut u8,
    line: &mut Line,
    len: usize,
    count: usize,
    stride: i64,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let done = wide::<PACK>(laid, line, len, count, stride);
        let laid = laid.wrapping_offset((done as isize).wrapping_mul(stride as isize));
        let count = count - done;
        match len {
            1 => strided::<u8, PACK>(laid, line, count, stride),
            2 => strided::<u16, PACK>(laid, line, count, stride),
            4 => strided::<u32, PACK>(laid, line, count, stride),
            8 => strided::<u64, PACK>(laid, line, count, stride),
            16 => strided::<u128, PACK>(laid, line, count, stride),
            _ => {
                let mut laid = laid;
                for _ in 0..count {
                    block::<PACK>(laid, line, len);
                    laid = laid.wrapping_offset(stride as isize);
                }
            }
        }
    }
}

/// Copies `count` nodes, `stride` apart, from the byte at `skip` on, as far as the line goes.
///
/// # Safety
/// The bytes of these nodes at `laid` are there, as are those of the line, apart from each other.
unsafe fn nodes<const PACK: bool>(
    node: &Node,
    laid: *mut u8,
    line: &mut Line,
    mut skip: usize,
    count: usize,
    stride: i64,
) {
    let mut done = 0;
    if skip != 0 {
        // A division for each node would cost more than copying a small one.
        (done, skip) = (skip / node.size, skip % node.size);
    }
    let is_flat = matches!(node.kind, Kind::Block | Kind::Pieces(_));
    while done < count && line.left > 0 {
        let place = laid.wrapping_offset((done as i64).wrapping_mul(stride) as isize);
        let whole =
            if is_flat && skip == 0 { (line.left / node.size).min(count - done) } else { 0 };
        if whole > 0 {
            // SAFETY: so many nodes are there, and as many bytes are left.
            unsafe {
                match &node.kind {
                    Kind::Pieces(list) => lists::<PACK>(list, place, line, whole, stride),
                    _ => blocks::<PACK>(place, line, node.size, whole, stride),
                }
            }
            done += whole;
            continue;
        }
        // SAFETY: the node is one of those that the caller promised.
        unsafe { one::<PACK>(node, place, line, skip) };
        skip = 0;
        done += 1;
    }
}

/// Copies pieces of a list from the byte at `skip` on, as far as the line goes.
///
/// # Safety
/// As for [`nodes`], of the list.
unsafe fn pieces<const PACK: bool>(list: &[Piece], laid: *mut u8, line: &mut Line, skip: usize) {
    let (first, begin) = if skip == 0 { (0, 0) } else { Piece::of(list, skip) };
    let (mut inside, mut begin) = (skip - begin, begin);
    for &Piece { at, end } in &list[first..] {
        let len = (end - begin - inside).min(line.left);
        let place = laid.wrapping_offset(at as isize).wrapping_add(inside);
        // SAFETY: a part of a piece of the list, and no more than is left.
        unsafe { block::<PACK>(place, line, len) };
        if line.left == 0 {
            return;
        }
        (inside, begin) = (0, end);
    }
}

/// Copies all pieces of a list, `count` times.
///
/// # Safety
/// As for [`nodes`], of all of them.
unsafe fn lists<const PACK: bool>(
    list: &[Piece],
    laid: *mut u8,
    line: &mut Line,
    count: usize,
    stride: i64,
) {
    let mut laid = laid;
    for _ in 0..count {
        let mut begin = 0;
        for &Piece { at, end } in list {
            let place = laid.wrapping_offset(at as isize);
            // SAFETY: promised by the caller.
            unsafe { block::<PACK>(place, line, end - begin) };
            begin = end;
        }
        laid = laid.wrapping_offset(stride as isize);
    }
}

/// Copies one node from the byte at `skip` on, as far as the line goes. It is inside.
///
/// # Safety
/// As for [`nodes`].
unsafe fn one<const PACK: bool>(node: &Node, laid: *mut u8, line: &mut Line, skip: usize) {
    match &node.kind {
        Kind::Block => {
            let len = (node.size - skip).min(line.left);
            // SAFETY: the part of the block behind `skip`, and no more than is left.
            unsafe { block::<PACK>(laid.wrapping_add(skip), line, len) };
        }
        Kind::Repeat { count, stride, of } => {
            let laid = laid.wrapping_offset(of.at as isize);
            // SAFETY: the nodes are what this one is made of.
            unsafe { nodes::<PACK>(&of.node, laid, line, skip, *count, *stride) };
        }
        Kind::Pieces(list) => {
            // SAFETY: the pieces are what this node is made of.
            unsafe { pieces::<PACK>(list, laid, line, skip) };
        }
        Kind::List(list) => {
            let (first, begin) = Part::of(list, skip);
            let mut skip = skip - begin;
            for part in &list[first..] {
                if line.left == 0 {
                    return;
                }
                let place = laid.wrapping_offset(part.placed.at as isize);
                // SAFETY: the part is what this node is made of.
                unsafe { one::<PACK>(&part.placed.node, place, line, skip) };
                skip = 0;
            }
        }
    }
}

/// Copies a part of a message, from `offset` on, between its layout at `base` and the line. Returns the
/// bytes copied.
///
/// # Safety
/// As for [`nodes`], of the elements of the message.
unsafe fn transfer<const PACK: bool>(
    (layout, base, count): (&Layout, *mut u8, usize),
    offset: usize,
    mut line: Line,
) -> usize {
    let Some(placed) = &layout.node else { return 0 };
    let laid = base.wrapping_offset(placed.at as isize);
    let len = line.left;
    // SAFETY: promised by the caller; the walk ends with the message or with the line.
    unsafe { nodes::<PACK>(&placed.node, laid, &mut line, offset, count, layout.extent) };
    len - line.left
}

/// Copies the bytes of a message of `count` elements at `base`, from `offset` on, to `len` bytes at `out`.
/// Returns the bytes copied: fewer at the end of the message.
///
/// # Safety
/// The bytes of these elements must be readable and unwritten, but not what lies between them. `out` must
/// be writable for `len` bytes, and apart from them.
pub unsafe fn pack(
    layout: &Layout,
    base: *const u8,
    count: usize,
    offset: usize,
    out: *mut u8,
    len: usize,
) -> usize {
    // SAFETY: promised by the caller; packing does not write to the layout's bytes.
    unsafe {
        transfer::<true>((layout, base.cast_mut(), count), offset, Line { start: out, left: len })
    }
}

/// Copies `len` bytes at `from` to where a message of `count` elements at `base` has them, from `offset`
/// on. Returns the bytes copied: fewer at the end of the message. What lies between is left alone.
///
/// # Safety
/// The bytes of these elements must be writable and nobody else's, but not what lies between them. `from`
/// must be readable for `len` bytes, and apart from them; it may change meanwhile.
pub unsafe fn unpack(
    layout: &Layout,
    base: *mut u8,
    count: usize,
    offset: usize,
    from: *const u8,
    len: usize,
) -> usize {
    // SAFETY: promised by the caller; unpacking does not write to `from`.
    unsafe {
        let line = Line { start: from.cast_mut(), left: len };
        transfer::<false>((layout, base, count), offset, line)
    }
}

/// Copies a message from one layout into another, without bytes side by side between. Each is a layout, an
/// address and a count. Returns the bytes copied: those of the shorter message.
///
/// # Safety
/// As for [`pack`] of the one and [`unpack`] of the other, which must be apart. Both are messages that
/// [`Layout::message`] can count.
pub unsafe fn copy_between(
    (from, source, from_count): (&Layout, *const u8, usize),
    (to, target, to_count): (&Layout, *mut u8, usize),
) -> usize {
    let all = (from.size() * from_count).min(to.size() * to_count);
    // The side with longer pieces is walked piece by piece, and the other copied into or out of them.
    let by_target = to.pieces(to_count) <= from.pieces(from_count);
    let (walked, count) = if by_target { (to, to_count) } else { (from, from_count) };
    let mut done = 0;
    for (at, len) in walked.runs(count, 0..all) {
        // SAFETY: the piece is one of the caller's, and the part of the other message inside of it.
        unsafe {
            if by_target {
                pack(from, source, from_count, done, target.wrapping_offset(at as isize), len);
            } else {
                unpack(to, target, to_count, done, source.wrapping_offset(at as isize), len);
            }
        }
        done += len;
    }
    done
}
