//! Which Rust types may travel, and their bytes.
//!
//! A [`Datatype`] is plain data: no padding, every bit pattern a value. Both together make a slice
//! of it and its bytes the same thing in both directions, so that a message is described by its
//! bytes alone. Not here: derived layouts with gaps (vectors, subarrays), which are packed by the
//! caller.

#[cfg(feature = "complex")]
use num_complex::Complex;

/// Types whose values can be sent and received as they lie in memory. (MPI: Datatypes.)
///
/// Implemented for integers, floating point numbers, complex numbers (feature `complex`), arrays of datatypes and
/// [`Located`] pairs; [`derive(Datatype)`](bowline_mpi_derive::Datatype) implements it for
/// `repr(C)` structs and proves at compile time what `# Safety` asks for. `bool` and `char` are
/// not datatypes, since not every bit pattern is one.
///
/// # Safety
/// - Every byte of a value must be initialised: no padding inside or at the end.
/// - Every bit pattern of the size of the type must be a valid value.
/// - The type must not hold pointers or references (`'static` does not exclude them).
pub unsafe trait Datatype: Copy + Send + Sync + 'static {}

macro_rules! plain {
    ($($type:ty)*) => {$(
        // SAFETY: numbers of the language have no padding and no invalid bit pattern.
        unsafe impl Datatype for $type {}
    )*};
}

plain!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

// SAFETY: `Complex` is `repr(C)` of two numbers of one type: no padding, every pattern valid.
#[cfg(feature = "complex")]
unsafe impl Datatype for Complex<f32> {}
// SAFETY: as for `Complex<f32>`.
#[cfg(feature = "complex")]
unsafe impl Datatype for Complex<f64> {}

// SAFETY: an array is its elements without gaps; what holds for each holds for all.
unsafe impl<T: Datatype, const N: usize> Datatype for [T; N] {}

/// A value and where it was found, for [`MaxLoc`](crate::op::MaxLoc) and
/// [`MinLoc`](crate::op::MinLoc). (MPI: Collective Communication, "MINLOC and MAXLOC".)
///
/// A datatype for the pairs without padding only; with `f64` values the location is an `i64`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Located<V, L> {
    /// What is compared.
    pub value: V,
    /// Where it is; the smallest wins among equal values.
    pub location: L,
}

macro_rules! located {
    ($(($value:ty, $location:ty))*) => {$(
        const _: () = assert!(
            size_of::<Located<$value, $location>>() == size_of::<$value>() + size_of::<$location>()
        );
        // SAFETY: `repr(C)` of two numbers; the assertion above excludes padding.
        unsafe impl Datatype for Located<$value, $location> {}
    )*};
}

located!((f32, i32)(f32, u32)(i32, i32)(u32, u32)(f64, i64)(f64, u64)(i64, i64)(u64, u64));

/// The bytes of a slice.
#[inline]
pub(crate) fn bytes_of<T: Datatype>(items: &[T]) -> &[u8] {
    // SAFETY: a `Datatype` has no padding, so all `size_of_val` bytes are initialised; bytes need
    // no alignment; the borrow is that of `items`.
    unsafe { std::slice::from_raw_parts(items.as_ptr().cast(), size_of_val(items)) }
}

/// The bytes of a slice, to be written.
#[inline]
pub(crate) fn bytes_of_mut<T: Datatype>(items: &mut [T]) -> &mut [u8] {
    let len = size_of_val(items);
    // SAFETY: as for `bytes_of`; in addition every bit pattern is a valid `T`, so whatever is
    // written leaves valid values behind.
    unsafe { std::slice::from_raw_parts_mut(items.as_mut_ptr().cast(), len) }
}

/// The items that `bytes` are.
///
/// # Panics
/// When the bytes are not aligned for `T` or not a whole number of items; both are decided by
/// this crate, never by a peer.
#[inline]
pub(crate) fn items_of<T: Datatype>(bytes: &[u8]) -> &[T] {
    let count = check::<T>(bytes.as_ptr(), bytes.len());
    // SAFETY: `check` proved alignment and that `count` items lie inside `bytes`; every bit
    // pattern is a valid `T`.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), count) }
}

/// The items that `bytes` are, to be written. Panics as [`items_of`] does.
#[inline]
pub(crate) fn items_of_mut<T: Datatype>(bytes: &mut [u8]) -> &mut [T] {
    let count = check::<T>(bytes.as_ptr(), bytes.len());
    // SAFETY: as for `items_of`; values of `T` have no padding, so the bytes stay initialised.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), count) }
}

#[inline]
fn check<T>(start: *const u8, len: usize) -> usize {
    assert!(start.cast::<T>().is_aligned(), "reduction buffers are aligned for their type");
    if size_of::<T>() == 0 {
        return 0;
    }
    assert!(len.is_multiple_of(size_of::<T>()), "reduction buffers hold whole items");
    len / size_of::<T>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_and_bytes_are_the_same_memory() {
        let mut items = [1u32, 2, 3];
        bytes_of_mut(&mut items)[4] = 9;
        assert_eq!(items, [1, 9, 3]);
        assert_eq!(items_of::<u32>(bytes_of(&items)), items);
        items_of_mut::<u32>(bytes_of_mut(&mut items))[2] = 7;
        assert_eq!(items[2], 7);
        assert!(bytes_of(&[[0u8; 0]; 5]).is_empty());
    }

    #[test]
    #[should_panic(expected = "whole items")]
    fn a_fraction_of_an_item_is_refused() {
        let items = [0u32; 2];
        items_of::<u32>(&bytes_of(&items)[..6]);
    }
}
