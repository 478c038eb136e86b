//! Elements of Rust types, and operations on them, as the untyped collectives take them.
//!
//! For collectives in the background: those of [`scope`](crate::scope), and persistent ones. It promises nothing about
//! how long the memory stays; that is the callers' part.

use std::rc::Rc;
use std::sync::Arc;

use bowline_base::layout::Layout;

use super::calls::Partition;
use super::raw::{Data, ReduceOp};
use crate::datatype::{Datatype, items_of, items_of_mut};
use crate::op::Operation;
use crate::op::operands::Operands;

/// The elements of a slice that is read.
pub(crate) fn read<T: Datatype>(items: &[T]) -> Data {
    data(items.as_ptr().cast_mut(), items.len())
}

/// The elements of a slice that is written.
pub(crate) fn written<T: Datatype>(items: &mut [T]) -> Data {
    data(items.as_mut_ptr(), items.len())
}

/// `count` elements from `start` on.
pub(crate) fn data<T: Datatype>(start: *mut T, count: usize) -> Data {
    let layout = Layout::bytes(size_of::<T>()).expect("a type of the language has a layout");
    Data { start: start.cast(), count, layout: Arc::new(layout) }
}

/// The first of as many blocks as there are ranks.
pub(crate) fn first(all: Data, ranks: u32) -> Data {
    Data { count: all.count / ranks as usize, ..all }
}

/// One block for each rank.
pub(crate) fn cut<T: Datatype>(all: &Data, parts: Partition<'_>) -> Vec<Data> {
    let part = |(&count, &at): (&usize, &usize)| {
        // An empty block may stand anywhere, beyond the buffer too.
        let at = if count == 0 { 0 } else { at };
        Data { start: all.start.cast::<T>().wrapping_add(at).cast(), count, ..all.clone() }
    };
    parts.counts.iter().zip(parts.displacements).map(part).collect()
}

/// The operation as a run has it.
pub(crate) fn combine<T: Datatype>(op: impl Operation<T> + 'static) -> ReduceOp {
    let commutative = op.is_commutative();
    if let Some(own) = op.own_loop() {
        // SAFETY: it is made for elements of `T`.
        return unsafe { ReduceOp::of_kernel(own.kernel, size_of::<T>(), commutative, op.class()) };
    }
    let combine = move |operands: &Operands<'_>| {
        let (left, right, len) = (operands.left(), operands.right(), operands.len());
        // SAFETY: the operands are there for the call, the left one to be read, the right one to be written,
        // and do not overlap, by the promise of their maker. They are parts of slices of `T`, or of scratch,
        // which is initialised memory with lines' alignment.
        let (left, right) = unsafe { Operands::new(left, right, len).slices() };
        op.combine(items_of(left), items_of_mut(right));
    };
    ReduceOp::new(size_of::<T>(), commutative, Rc::new(combine))
}
