//! Chapter: operations of reductions, those of the standard and the program's own.

use std::ffi::{c_int, c_void};
use std::rc::Rc;
use std::sync::Arc;

use bowline_mpi::raw::{LaidOut, Operands, Predefined, ReduceOp, reduce_local};

use crate::arg::Out;
use crate::elements::Buffer;
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Count, Datatype, Op, PREDEFINED};
use crate::library::Library;
use crate::library::ops::{Function, Operation, Reduced, UserOp};

/// A function of the program's, with a count of either width.
type UserFunction<C> =
    Option<unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut C, *mut Datatype)>;

mpi! {
    fn MPI_Op_create(user_fn: UserFunction<c_int>, commute: c_int, op: Out<Op>) |mpi| {
        create(mpi, user_fn.map(Function::Small), commute, op)
    }

    fn MPI_Op_create_c(user_fn: UserFunction<Count>, commute: c_int, op: Out<Op>) |mpi| {
        create(mpi, user_fn.map(Function::Large), commute, op)
    }

    fn MPI_Op_free(op: Out<Op>) |mpi| {
        let handle = op.get()?;
        match mpi.op(handle)? {
            Operation::Predefined(_) => {
                return Err(fault(MPI_ERR_OP, "a predefined operation cannot be freed"));
            }
            Operation::User(_) => mpi.ops.borrow_mut().remove(handle.0),
        };
        op.set(MPI_OP_NULL)
    }

    fn MPI_Op_commutative(op: Op, commute: Out<c_int>) |mpi| {
        let commutative = match mpi.op(op)? {
            Operation::Predefined(op) => op.is_commutative(),
            Operation::User(op) => op.commutative,
        };
        commute.set(commutative.into())
    }

    fn MPI_Reduce_local(inbuf: *const c_void, inoutbuf: *mut c_void, count: c_int,
                        datatype: Datatype, op: Op) |mpi| {
        local(mpi, inbuf, inoutbuf, count.into(), datatype, op)
    }

    fn MPI_Reduce_local_c(inbuf: *const c_void, inoutbuf: *mut c_void, count: Count,
                          datatype: Datatype, op: Op) |mpi| {
        local(mpi, inbuf, inoutbuf, count, datatype, op)
    }
}

fn create(
    mpi: &Library,
    function: Option<Function>,
    commute: c_int,
    op: Out<Op>,
) -> Result<(), Fault> {
    let function = function.ok_or_else(|| fault(MPI_ERR_ARG, "the function is a null pointer"))?;
    if op.is_null() {
        return Err(fault(MPI_ERR_ARG, "there is no address for the operation"));
    }
    let new = Rc::new(UserOp { function, commutative: commute != 0 });
    let made = mpi.ops.borrow_mut().insert(new);
    op.set(made.map(Op).ok_or_else(|| fault(MPI_ERR_OTHER, "there are too many operations"))?)
}

fn local(
    mpi: &Library,
    inbuf: *const c_void,
    inoutbuf: *mut c_void,
    count: i64,
    datatype: Datatype,
    op: Op,
) -> Result<(), Fault> {
    let left = mpi.buffer(inbuf, count, datatype)?;
    let right = mpi.buffer(inoutbuf, count, datatype)?;
    Buffer::apart((&left, 1), (&right, 1))?;
    let op = mpi.reduction(op, datatype, &right)?;
    // SAFETY: the program answers for the memory.
    Ok(unsafe { reduce_local(left.data(), right.data(), &op) }?)
}

impl Library {
    /// The operation of a handle.
    pub(crate) fn op(&self, op: Op) -> Result<Operation, Fault> {
        Ok(Operation::Predefined(match op {
            MPI_SUM => Predefined::Sum,
            MPI_MIN => Predefined::Min,
            MPI_MAX => Predefined::Max,
            MPI_PROD => Predefined::Prod,
            MPI_BAND => Predefined::BitAnd,
            MPI_BOR => Predefined::BitOr,
            MPI_BXOR => Predefined::BitXor,
            MPI_LAND => Predefined::LogicalAnd,
            MPI_LOR => Predefined::LogicalOr,
            MPI_LXOR => Predefined::LogicalXor,
            MPI_MINLOC => Predefined::MinLoc,
            MPI_MAXLOC => Predefined::MaxLoc,
            MPI_REPLACE => Predefined::Replace,
            MPI_NO_OP => Predefined::Nothing,
            _ => {
                let found = self.ops.borrow().get(op.0).cloned();
                return found.map(Operation::User).ok_or_else(|| not_an_op(op));
            }
        }))
    }

    /// The handle whose number in C is this one.
    pub(crate) fn op_from_int(&self, low: usize) -> Op {
        Op(self.ops.borrow().complete(low))
    }

    /// The predefined operation that was used last, if it is this one on this type: programs reduce the same
    /// again and again.
    #[inline(always)]
    pub(crate) fn reduced_before(&self, op: Op, datatype: Datatype) -> Option<Reduced> {
        self.reduced.get().filter(|last| last.op == op && last.datatype == datatype)
    }

    /// The operation of a handle on elements of the type of `buffer`, whose handle is `datatype`.
    #[inline]
    pub(crate) fn reduction(
        &self,
        handle: Op,
        datatype: Datatype,
        buffer: &Buffer,
    ) -> Result<ReduceOp, Fault> {
        let of = &buffer.of;
        match self.op(handle)? {
            Operation::Predefined(op) => {
                let kernel = op.kernel(of).filter(|_| op.reduces());
                let kernel = kernel.ok_or_else(|| not_for_the_type(op, datatype))?;
                let size = of.size();
                let (commutative, class) = (op.is_commutative(), op.class(of));
                let reduced = Reduced { op: handle, datatype, kernel, size, commutative, class };
                self.reduced.set(Some(reduced));
                // SAFETY: the kernel is one for elements of this type.
                Ok(unsafe { ReduceOp::of_kernel(kernel, size, commutative, class) })
            }
            Operation::User(op) => {
                let commutative = op.commutative;
                let elements = (datatype, of.extent());
                let function = move |left: *const u8, right: *mut u8, count: usize| {
                    op.call(left, right, count, elements);
                };
                let laid_out = LaidOut::new(Arc::clone(of.layout()), Box::new(function));
                let combine = move |operands: &Operands<'_>| laid_out.combine(operands);
                Ok(ReduceOp::new(of.size(), commutative, Rc::new(combine)))
            }
        }
    }
}

#[cold]
fn not_for_the_type(op: Predefined, datatype: Datatype) -> Fault {
    fault(MPI_ERR_OP, format!("the operation {op:?} does not know the datatype {:#x}", datatype.0))
}

#[cold]
fn not_an_op(op: Op) -> Fault {
    let text = match op {
        MPI_OP_NULL => "the operation is MPI_OP_NULL".into(),
        Op(value) if value < PREDEFINED => format!("{value:#x} is no operation"),
        Op(value) => format!("{value:#x} is no operation, or one that was freed"),
    };
    fault(MPI_ERR_OP, text)
}
