//! Operations behind handles: those of the standard and the program's own.

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use bowline_mpi::raw::{Kernel, OpClass, Predefined};

use crate::handle::{Count, Datatype, Op};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Function {
    Small(unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut c_int, *mut Datatype)),
    Large(unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut Count, *mut Datatype)),
}

/// An operation of the program's.
#[derive(Debug)]
pub(crate) struct UserOp {
    pub(crate) function: Function,
    pub(crate) commutative: bool,
}

/// An operation behind a handle.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Predefined(Predefined),
    User(Rc<UserOp>),
}

impl UserOp {
    /// Calls the program's function for `count` elements, in as many calls as its count needs.
    pub(crate) fn call(&self, left: *const u8, right: *mut u8, count: usize, of: (Datatype, i64)) {
        let (datatype, extent) = of;
        let most = match self.function {
            Function::Small(_) => c_int::MAX as usize,
            Function::Large(_) => Count::MAX as usize,
        };
        let mut done = 0;
        while done < count {
            let now = most.min(count - done);
            let at = (done as i64).wrapping_mul(extent) as isize;
            let left = left.cast_mut().wrapping_offset(at).cast();
            let right = right.wrapping_offset(at).cast();
            let mut datatype = datatype;
            // SAFETY: the program gave the function for this; there are so many elements at both
            // addresses, and the other two are of locals. The counts fit, by the choice of `most`.
            unsafe {
                match self.function {
                    Function::Small(function) => {
                        function(left, right, &mut (now as c_int), &mut datatype);
                    }
                    Function::Large(function) => {
                        function(left, right, &mut (now as Count), &mut datatype);
                    }
                }
            }
            done += now;
        }
    }
}

/// A predefined operation on a type that knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reduced {
    pub(crate) op: Op,
    pub(crate) datatype: Datatype,
    pub(crate) kernel: Kernel,
    /// Bytes of an element.
    pub(crate) size: usize,
    pub(crate) commutative: bool,
    pub(crate) class: OpClass,
}
