//! Operations on vectors in memory: the loops under typed reductions and under those of datatypes that
//! are known at run time only.
//!
//! A vector is an address and a number of elements side by side. Nothing needs to be aligned, and
//! nothing is taken as a reference: the memory may be a C program's. The loops are plain, so that the
//! compiler makes vector instructions of the common ones.

/// An operation on two elements.
pub(crate) trait Pairwise<T> {
    /// `left OP right`, in which `left` comes from lower ranks.
    fn of(left: T, right: T) -> T;
}

/// `right[i] = left[i] OP right[i]` for vectors of `count` elements.
pub type Kernel = unsafe fn(left: *const u8, right: *mut u8, count: usize);

/// The kernel of an operation on elements of one type.
///
/// # Safety
/// `count` values of `T` at `left`, to be read, and at `right`, to be written as well; both initialised,
/// and neither written by anybody else during the call. They do not overlap. They may be misaligned.
#[inline]
pub(crate) unsafe fn each<T: Copy, O: Pairwise<T>>(left: *const u8, right: *mut u8, count: usize) {
    let (left, right) = (left.cast::<T>(), right.cast::<T>());
    for index in 0..count {
        // SAFETY: the element `index` is there in both, as the caller promises, and needs no alignment.
        unsafe {
            let place = right.add(index);
            let value = O::of(left.add(index).read_unaligned(), place.read_unaligned());
            place.write_unaligned(value);
        }
    }
}

/// A value and where it was found, side by side.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Found<V, L> {
    value: V,
    location: L,
}

/// The kernel that keeps of two pairs the one with the better value, and among equals the one with the
/// least location. `GREATEST` says which is better.
///
/// # Safety
/// As for [`each`], with a value and a location side by side as elements.
pub(crate) unsafe fn locate<V, L, const GREATEST: bool>(
    left: *const u8,
    right: *mut u8,
    count: usize,
) where
    V: PartialOrd + Copy,
    L: PartialOrd + Copy,
{
    let (left, right) = (left.cast::<Found<V, L>>(), right.cast::<Found<V, L>>());
    for index in 0..count {
        // SAFETY: as in `each`; the type is packed, so that it is aligned everywhere.
        unsafe {
            let (ours, place) = (left.add(index).read(), right.add(index));
            let theirs = place.read();
            let (a, b) = (ours.value, theirs.value);
            let better = if GREATEST { a > b } else { a < b };
            if better || a == b && { ours.location } < { theirs.location } {
                place.write(ours);
            }
        }
    }
}

/// The kernel that brings the left vector to the right.
///
/// # Safety
/// As for [`each`], with elements of `SIZE` bytes.
pub(crate) unsafe fn replace<const SIZE: usize>(left: *const u8, right: *mut u8, count: usize) {
    // SAFETY: the caller promises so many bytes, apart from each other.
    unsafe { right.copy_from_nonoverlapping(left, count * SIZE) };
}

/// The kernel that leaves the right vector as it is.
///
/// # Safety
/// None: nothing is touched.
pub(crate) unsafe fn nothing(_left: *const u8, _right: *mut u8, _count: usize) {}
