//! Datatypes that are known at run time: what a message's elements are, and where their bytes lie.
//!
//! ```text
//!   Type ── Layout     where the bytes lie (base): what messages need
//!     │     Elements   which basic elements they are: what reductions, counts and conversions need
//!     │     bounds     from one element of a message to the next
//!     └──── Origin     the call that made it, as the program wants it back
//! ```
//! A type never changes, but for the mark that it is committed. A clone is another reference to it, so
//! that a type lives as long as a message, an operation or another type uses it.
//!
//! Unstable, as all that skins use; see [`raw`](crate::raw).

mod arrays;
mod basic;
mod bounds;
mod build;
mod elements;
mod external;
mod origin;
mod predefined;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use bowline_base::layout::Layout;

pub use arrays::{Dealt, DimensionPart, Distribution, Order};
pub use basic::{Basic, Pair, TypeClass};
use bounds::Bounds;
pub use build::{TypeBlock, TypeError};
pub use elements::TypeSignature;
pub use external::Unrepresentable;
pub use origin::{Combiner, TypeContents};
pub use predefined::{VALUES, dense_size};

/// A datatype. (MPI: Datatypes.)
#[derive(Clone, Debug)]
pub struct Type(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    layout: Arc<Layout>,
    elements: TypeSignature,
    bounds: Bounds,
    committed: Cell<bool>,
    /// Its value in the ABI.
    predefined: Option<u16>,
    pair: Option<Pair>,
    /// `None` for predefined types.
    origin: Option<TypeContents>,
    /// Whether it is one that programs cannot free.
    kept: bool,
}

impl Type {
    /// Bytes of one element in a message.
    #[inline]
    pub fn size(&self) -> usize {
        self.0.layout.size()
    }

    /// The lower bound.
    #[inline]
    pub fn lb(&self) -> i64 {
        self.0.bounds.lb
    }

    /// From one element to the next in memory.
    #[inline]
    pub fn extent(&self) -> i64 {
        self.0.layout.extent()
    }

    /// Where the first byte lies.
    pub fn true_lb(&self) -> i64 {
        self.0.layout.true_bounds().0
    }

    /// From the first byte to the end of the last.
    pub fn true_extent(&self) -> i64 {
        let (low, high) = self.0.layout.true_bounds();
        // Checked when the type was made.
        high - low
    }

    /// The alignment of its basic elements that is greatest.
    pub fn align(&self) -> usize {
        usize::from(self.0.bounds.align).max(1)
    }

    /// The call that made it; `None` for a type that has a name.
    pub fn origin(&self) -> Option<&TypeContents> {
        self.0.origin.as_ref()
    }

    /// Whether it is predefined, with a name or without, so that programs cannot free it.
    pub fn is_kept(&self) -> bool {
        self.0.kept
    }

    /// Ends this reference, and hands out the types that it was made of if it was the last.
    fn into_types(self) -> Vec<Self> {
        match Rc::try_unwrap(self.0) {
            Ok(Inner { origin: Some(mut origin), .. }) => std::mem::take(&mut origin.types),
            _ => Vec::new(),
        }
    }

    /// Where the bytes lie.
    #[inline]
    pub fn layout(&self) -> &Arc<Layout> {
        &self.0.layout
    }

    /// The place and the bytes of a message of `count` elements, if it lies in one piece; for counts
    /// that [`Layout::message`] can count.
    #[inline]
    pub fn one_block(&self, count: usize) -> Option<(i64, usize)> {
        self.0.layout.one_block(count)
    }

    /// Whether the elements of any message lie side by side from its address on, so that a message is
    /// `count * size` bytes there.
    #[inline]
    pub fn is_dense(&self) -> bool {
        self.0.layout.one_block(2) == Some((0, 2 * self.size()))
    }

    /// The basic elements.
    pub fn elements(&self) -> &TypeSignature {
        &self.0.elements
    }

    /// The basic element, if there is only one kind of them. For a pair see [`pair`](Self::pair).
    pub fn basic(&self) -> Option<Basic> {
        self.0.elements.only()
    }

    /// A predefined pair of a value and an index.
    pub fn pair(&self) -> Option<Pair> {
        self.0.pair
    }

    /// Whether it may be used for messages.
    #[inline]
    pub fn is_committed(&self) -> bool {
        self.0.committed.get()
    }

    /// Allows its use for messages. There is no work left to do: a layout is made small while it is put
    /// together.
    pub fn commit(&self) {
        self.0.committed.set(true);
    }

    /// The value in the ABI, for a predefined type.
    #[inline]
    pub fn abi(&self) -> Option<u16> {
        self.0.predefined
    }
}
