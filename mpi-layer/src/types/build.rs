//! Types of other types.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use bowline_base::layout::{Layout, Overflow};
use thiserror::Error;

use super::bounds::{Bounds, Gathered};
use super::elements::TypeSignature;
use super::origin::TypeContents;
use super::{Inner, Type};

/// Why a type cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TypeError {
    /// Its size, bounds or depth cannot be counted.
    #[error("the size, the bounds or the depth of the datatype are beyond what can be counted")]
    Overflow,
    /// An argument that the standard does not allow.
    #[error("{0}")]
    Invalid(&'static str),
}

impl From<Overflow> for TypeError {
    fn from(_: Overflow) -> Self {
        Self::Overflow
    }
}

/// Some elements of a type, an extent apart.
#[derive(Clone, Copy, Debug)]
pub struct TypeBlock<'a> {
    /// Where the first lies.
    pub at: i64,
    /// How many.
    pub count: usize,
    /// What they are.
    pub of: &'a Type,
}

/// Where the last of `count` lies, each `stride` behind the one before.
fn last(count: usize, stride: i64) -> Result<i64, Overflow> {
    let steps = i64::try_from(count.saturating_sub(1)).map_err(|_| Overflow)?;
    steps.checked_mul(stride).ok_or(Overflow)
}

impl Type {
    pub(super) fn of_parts(layout: &Layout, elements: TypeSignature, bounds: Bounds) -> Self {
        Self(Rc::new(Inner {
            layout: Arc::new(layout.with_extent(bounds.extent())),
            elements,
            bounds,
            committed: Cell::new(false),
            predefined: None,
            pair: None,
            origin: None,
            kept: false,
        }))
    }

    /// The same with the call that made it. The type is one that was just made: what else refers to it
    /// does not see the change.
    #[must_use]
    pub fn with_origin(self, origin: TypeContents) -> Self {
        let Inner { layout, elements, bounds, committed, predefined, pair, kept, .. } = &*self.0;
        Self(Rc::new(Inner {
            layout: Arc::clone(layout),
            elements: elements.clone(),
            bounds: *bounds,
            committed: committed.clone(),
            predefined: *predefined,
            pair: *pair,
            origin: Some(origin),
            kept: *kept,
        }))
    }

    /// The same type once more, committed or not as this one is. It is no predefined one.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        let Inner { layout, elements, bounds, committed, pair, .. } = &*self.0;
        Self(Rc::new(Inner {
            layout: Arc::clone(layout),
            elements: elements.clone(),
            bounds: *bounds,
            committed: committed.clone(),
            predefined: None,
            pair: *pair,
            origin: None,
            kept: false,
        }))
    }

    /// As [`duplicate`](Self::duplicate), of a type that the program cannot free.
    #[must_use]
    pub fn kept_with_origin(&self, origin: TypeContents) -> Self {
        let Inner { layout, elements, bounds, .. } = &*self.0;
        Self(Rc::new(Inner {
            layout: Arc::clone(layout),
            elements: elements.clone(),
            bounds: *bounds,
            committed: Cell::new(true),
            predefined: None,
            pair: None,
            origin: Some(origin),
            kept: true,
        }))
    }

    /// `count` elements one after the other.
    ///
    /// # Errors
    /// When the type cannot be counted.
    pub fn contiguous(count: usize, of: &Self) -> Result<Self, TypeError> {
        Self::strided(count, of.extent(), 1, of)
    }

    /// `count` blocks of `blocklength` elements, `stride` bytes apart.
    ///
    /// # Errors
    /// When the type cannot be counted.
    pub fn strided(
        count: usize,
        stride: i64,
        blocklength: usize,
        of: &Self,
    ) -> Result<Self, TypeError> {
        let block = of.layout().repeated(blocklength, of.extent())?;
        let layout = block.repeated(count, stride)?;
        let all = count.checked_mul(blocklength).ok_or(Overflow);
        let mut gathered = Gathered::new(0);
        if count > 0 && blocklength > 0 {
            let (rows, row) = (last(count, stride)?, last(blocklength, of.extent())?);
            let low = rows.min(0).checked_add(row.min(0)).ok_or(Overflow)?;
            let high = rows.max(0).checked_add(row.max(0)).ok_or(Overflow)?;
            gathered.add(&of.0.bounds, low, high)?;
        }
        // There are as many as can be counted unless they have no bytes.
        let elements = if layout.size() > 0 { all? } else { 0 };
        let elements = of.elements().repeated(elements)?;
        Ok(Self::of_parts(&layout, elements, gathered.bounds(&layout)?))
    }

    /// Blocks anywhere, one after the other in the message.
    ///
    /// # Errors
    /// When the type cannot be counted.
    pub fn blocks<'a>(
        blocks: impl Iterator<Item = TypeBlock<'a>> + Clone,
    ) -> Result<Self, TypeError> {
        let blocks = blocks.filter(|block| block.count > 0);
        let layouts = blocks.clone().map(|TypeBlock { at, count, of }| (at, count, &**of.layout()));
        let layout = Layout::listed(layouts)?;
        let mut gathered = Gathered::new(0);
        let mut elements = Vec::new();
        // Blocks of one type in a row are one run of its elements.
        let mut run: Option<(&Self, usize)> = None;
        for TypeBlock { at, count, of } in blocks {
            let end = last(count, of.extent())?;
            let low = at.checked_add(end.min(0)).ok_or(Overflow)?;
            let high = at.checked_add(end.max(0)).ok_or(Overflow)?;
            gathered.add(&of.0.bounds, low, high)?;
            if of.size() == 0 {
                continue;
            }
            match &mut run {
                // The bytes of all of them were counted.
                Some((before, more)) if before.is(of) => *more += count,
                _ => {
                    if let Some((before, count)) = run.replace((of, count)) {
                        elements.push(before.elements().repeated(count)?);
                    }
                }
            }
        }
        if let Some((before, count)) = run {
            elements.push(before.elements().repeated(count)?);
        }
        let elements = TypeSignature::list(elements)?;
        Ok(Self::of_parts(&layout, elements, gathered.bounds(&layout)?))
    }

    /// The same elements with other bounds.
    ///
    /// # Errors
    /// When the upper bound cannot be counted.
    pub fn resized(&self, lb: i64, extent: i64) -> Result<Self, TypeError> {
        let bounds = Bounds::given(lb, extent, self.0.bounds.align)?;
        Ok(Self::of_parts(self.layout(), self.elements().clone(), bounds))
    }

    /// Whether both are the same object.
    fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}
