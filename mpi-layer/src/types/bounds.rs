//! Where an element begins and ends for those that lie beside it.

use bowline_base::layout::{Layout, Overflow};

/// Bounds of a type, and what they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) lb: i64,
    pub(super) ub: i64,
    /// Whether the lower bound was given, so that bytes no longer decide it; the same for the upper one.
    pub(super) lb_given: bool,
    pub(super) ub_given: bool,
    /// The greatest alignment of the basic elements.
    pub(super) align: u8,
}

/// Bounds of a type that is being put together of others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gathered {
    lb: Option<i64>,
    ub: Option<i64>,
    align: u8,
}

impl Gathered {
    pub(super) const fn new(align: u8) -> Self {
        Self { lb: None, ub: None, align }
    }

    /// Bounds of the elements that were added, whose bytes have this layout.
    ///
    /// Bounds that were given count alone, if there are any; else the bytes do, and the end is moved up to
    /// where the next element is aligned.
    pub(super) fn bounds(self, layout: &Layout) -> Result<Bounds, Overflow> {
        let (low, high) = layout.true_bounds();
        let lb = self.lb.unwrap_or(low);
        let ub = match self.ub {
            Some(ub) => ub,
            None => {
                let extent = high.checked_sub(lb).ok_or(Overflow)?;
                let align = i64::from(self.align.max(1));
                let short = extent.rem_euclid(align);
                let more = if short == 0 { 0 } else { align - short };
                high.checked_add(more).ok_or(Overflow)?
            }
        };
        ub.checked_sub(lb).ok_or(Overflow)?;
        Ok(Bounds {
            lb,
            ub,
            lb_given: self.lb.is_some(),
            ub_given: self.ub.is_some(),
            align: self.align,
        })
    }
}
