//! What an operation combines: two vectors in memory.

use std::marker::PhantomData;

/// Two vectors in memory that are to become one: `right = left OP right`.
#[derive(Debug)]
pub struct Operands<'a> {
    left: *const u8,
    right: *mut u8,
    len: usize,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> Operands<'a> {
    /// The operands at two addresses.
    ///
    /// # Safety
    /// During `'a`, `len` bytes at `left` can be read and nobody writes them; `len` bytes at `right` can
    /// be read and written and nobody else uses them. They do not overlap.
    #[inline]
    pub unsafe fn new(left: *const u8, right: *mut u8, len: usize) -> Self {
        Self { left, right, len, memory: PhantomData }
    }

    /// The operands in two slices, which have one length.
    #[inline]
    pub(crate) fn of(left: &'a [u8], right: &'a mut [u8]) -> Self {
        let len = left.len().min(right.len());
        Self { left: left.as_ptr(), right: right.as_mut_ptr(), len, memory: PhantomData }
    }

    /// Where the contributions of lower ranks are.
    #[inline]
    pub fn left(&self) -> *const u8 {
        self.left
    }

    /// Where those of higher ranks are, and where the result goes.
    #[inline]
    pub fn right(&self) -> *mut u8 {
        self.right
    }

    /// Bytes of each: those of whole elements.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "nobody combines nothing")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The operands as slices.
    ///
    /// # Safety
    /// All bytes are initialised.
    #[inline]
    pub(crate) unsafe fn slices(self) -> (&'a [u8], &'a mut [u8]) {
        // SAFETY: the maker has promised that the memory is there for `'a`, that the left operand is only
        // read and the right one is nobody else's; the caller says that it is initialised.
        unsafe {
            let left = std::slice::from_raw_parts(self.left, self.len);
            (left, std::slice::from_raw_parts_mut(self.right, self.len))
        }
    }
}

/// A reduction on bytes.
pub(crate) type Combine<'a> = &'a dyn Fn(Operands<'_>);
