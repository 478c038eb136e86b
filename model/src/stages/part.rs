//! Parts of a vector.

use std::ops::Range;

/// One of `of` parts of a vector, as equal as whole elements allow. Of vectors with fewer elements than parts, some
/// parts are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_structs, reason = "a fraction")]
pub struct Part {
    /// Its number, from 0.
    pub index: u32,
    /// Parts of the vector.
    pub of: u32,
}

impl Default for Part {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl Part {
    /// The whole vector.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// One of `factor` parts of this one.
    #[must_use]
    pub const fn cut(self, factor: u32, index: u32) -> Self {
        Self { index: self.index * factor + index, of: self.of * factor }
    }

    /// Its elements in a vector of so many.
    #[inline]
    pub fn elements(self, count: usize) -> Range<usize> {
        if self.of == 1 {
            return 0..count;
        }
        let at = |index: u32| (count as u128 * index as u128 / self.of as u128) as usize;
        at(self.index)..at(self.index + 1)
    }

    /// Its elements in a vector that has one for each of `cells` parts; `cells` is a multiple of the number of parts.
    pub(crate) fn cells(self, cells: u32) -> Range<usize> {
        debug_assert!(cells.is_multiple_of(self.of), "{self:?} in {cells} cells");
        self.elements(cells as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_parts_are_parts() {
        for count in [0, 1, 5, 12, 1000, 1 << 40] {
            for outer in 0..3 {
                let part = Part::WHOLE.cut(3, outer);
                let whole = part.elements(count);
                let inner: Vec<_> = (0..4).map(|i| part.cut(4, i).elements(count)).collect();
                assert_eq!((inner[0].start, inner[3].end), (whole.start, whole.end));
                assert!(inner.windows(2).all(|pair| pair[0].end == pair[1].start));
                let lengths = inner.iter().map(Range::len);
                assert!(lengths.clone().max().unwrap() - lengths.min().unwrap() <= 1);
            }
        }
    }
}
