//! Where an element begins and ends for those that lie beside it.

use bowline_base::layout::{Layout, Overflow};

/// Bounds of a type, and what they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) lb: i64,
    pub(super) ub: i64,
    /// Whether they were given, so that bytes no longer decide them.
    pub(super) given: bool,
    /// The greatest alignment of the basic elements.
    pub(super) align: u8,
}

impl Bounds {
    /// Bounds that were given.
    pub(super) fn given(lb: i64, extent: i64, align: u8) -> Result<Self, Overflow> {
        let ub = lb.checked_add(extent).ok_or(Overflow)?;
        Ok(Self { lb, ub, given: true, align })
    }

    pub(super) const fn extent(&self) -> i64 {
        // Checked where the bounds were made.
        self.ub - self.lb
    }
}

/// Bounds of a type that is being put together of others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gathered {
    /// Of those that were given.
    given: Option<(i64, i64)>,
    /// The end of the last element whose bounds were not given, with what aligns its neighbour.
    end: Option<i64>,
    align: u8,
}

impl Gathered {
    pub(super) const fn new(align: u8) -> Self {
        Self { given: None, end: None, align }
    }

    /// Adds elements, the lowest of which is `low` away and the highest `high`.
    pub(super) fn add(&mut self, of: &Bounds, low: i64, high: i64) -> Result<(), Overflow> {
        self.align = self.align.max(of.align);
        if of.given {
            let lb = of.lb.checked_add(low).ok_or(Overflow)?;
            let ub = of.ub.checked_add(high).ok_or(Overflow)?;
            let (before, behind) = self.given.unwrap_or((lb, ub));
            self.given = Some((before.min(lb), behind.max(ub)));
        } else if of.ub != of.lb {
            let ub = of.ub.checked_add(high).ok_or(Overflow)?;
            self.end = Some(self.end.map_or(ub, |end| end.max(ub)));
        }
        Ok(())
    }

    /// Bounds of the elements that were added, whose bytes have this layout.
    ///
    /// Bounds that were given count alone, if there are any; else the bytes do, and the end is moved up to
    /// where the next element is aligned. An element that was aligned in this way keeps its end, so that elements
    /// at odd places lie in their neighbours as wholes: as in Open MPI, where the standard's sum over all basic
    /// elements would let the last one lose it.
    pub(super) fn bounds(self, layout: &Layout) -> Result<Bounds, Overflow> {
        let align = self.align;
        if let Some((lb, ub)) = self.given {
            ub.checked_sub(lb).ok_or(Overflow)?;
            return Ok(Bounds { lb, ub, given: true, align });
        }
        let (lb, end) = layout.true_bounds();
        let end = self.end.map_or(end, |last| last.max(end));
        let extent = end.checked_sub(lb).ok_or(Overflow)?;
        let aligned = rounded(extent, align)?;
        let ub = lb.checked_add(aligned).ok_or(Overflow)?;
        Ok(Bounds { lb, ub, given: false, align })
    }
}

/// A length that is moved up to a multiple.
fn rounded(len: i64, align: u8) -> Result<i64, Overflow> {
    match len.rem_euclid(i64::from(align.max(1))) {
        0 => Ok(len),
        over => len.checked_add(i64::from(align) - over).ok_or(Overflow),
    }
}
