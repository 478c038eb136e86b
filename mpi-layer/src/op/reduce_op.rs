//! Operations of reductions on elements whose type is known at run time only, for as long as they are needed.

use std::fmt;
use std::rc::Rc;

use bowline_model::coll::price::OpClass;

use crate::op::operands::Operands;
use crate::op::untyped::Kernel;

/// An operation, and the elements that it combines.
#[derive(Clone)]
pub struct ReduceOp {
    /// Bytes of an element; vectors are cut between elements only.
    pub(crate) width: usize,
    pub(crate) commutative: bool,
    pub(crate) class: OpClass,
    combine: Combination,
}

/// An operation on elements of so many bytes that needs no code of the program's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Predefined {
    kernel: Kernel,
    width: usize,
}

impl Predefined {
    /// `right = left OP right`.
    #[inline]
    pub(crate) fn call(self, operands: &Operands<'_>) {
        let count = operands.len() / self.width;
        // SAFETY: the operands are there for reading and writing, in whole elements; the kernel is one for
        // elements of this width, by the promise of the maker of the operation (`ReduceOp::of_kernel`).
        unsafe { (self.kernel)(operands.left(), operands.right(), count) };
    }
}

#[derive(Clone)]
enum Combination {
    Kernel(Kernel),
    Function(Rc<dyn Fn(&Operands<'_>)>),
}

impl ReduceOp {
    /// The operation of a kernel on its elements, of `width` bytes each. All ranks of a call give the same class.
    ///
    /// # Safety
    /// The kernel is one for elements of `width` bytes, which is not 0.
    #[inline]
    pub unsafe fn of_kernel(
        kernel: Kernel,
        width: usize,
        commutative: bool,
        class: OpClass,
    ) -> Self {
        Self { width, commutative, class, combine: Combination::Kernel(kernel) }
    }

    /// An operation on elements of `width` bytes.
    pub fn new(width: usize, commutative: bool, combine: Rc<dyn Fn(&Operands<'_>)>) -> Self {
        let class = OpClass::Function;
        Self { width, commutative, class, combine: Combination::Function(combine) }
    }

    /// `right = left OP right`.
    #[inline]
    pub(crate) fn call(&self, operands: &Operands<'_>) {
        match &self.combine {
            Combination::Kernel(kernel) => {
                Predefined { kernel: *kernel, width: self.width }.call(operands);
            }
            Combination::Function(combine) => combine(operands),
        }
    }

    /// What needs no code of the program's, if it is such a one.
    pub(crate) fn predefined(&self) -> Option<Predefined> {
        match self.combine {
            Combination::Kernel(kernel) => Some(Predefined { kernel, width: self.width }),
            Combination::Function(_) => None,
        }
    }

    /// Bytes of an element.
    #[inline]
    pub(crate) fn width(&self) -> usize {
        self.width
    }
}

impl fmt::Debug for ReduceOp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ReduceOp")
            .field("width", &self.width)
            .field("commutative", &self.commutative)
            .finish_non_exhaustive()
    }
}
