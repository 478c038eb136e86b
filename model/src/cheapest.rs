//! Which of several protocols is the cheapest at each size, where each costs a line over the size and can be
//! used for a range of sizes: the lower envelope of these lines.
//!
//! What a protocol is, and what it costs, is said by those who ask.

use crate::transport::{CostOrigin, Figure};

/// A cost over the size of a message, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "a line has two coefficients")]
pub struct Line {
    /// Of a message without bytes.
    pub fixed: f64,
    /// For each byte.
    pub per_byte: f64,
    /// The least sure of the figures in it.
    pub origin: CostOrigin,
}

impl Line {
    /// Nothing.
    pub const ZERO: Self = Self { fixed: 0.0, per_byte: 0.0, origin: CostOrigin::Calibrated };

    /// `fixed` at every size, which was computed from `figures`.
    pub fn constant(fixed: f64, figures: &[(&str, Figure)]) -> Self {
        Self { fixed, per_byte: 0.0, origin: least_sure(figures) }
    }

    /// `per_byte` for each byte, which was computed from `figures`.
    pub fn slope(per_byte: f64, figures: &[(&str, Figure)]) -> Self {
        Self { fixed: 0.0, per_byte, origin: least_sure(figures) }
    }

    /// Both costs, one after the other.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            fixed: self.fixed + other.fixed,
            per_byte: self.per_byte + other.per_byte,
            origin: self.origin.min(other.origin),
        }
    }

    /// The same with `fixed` more, a constant of the library that says nothing of where figures are from.
    #[must_use]
    pub fn plus_constant(self, fixed: f64) -> Self {
        Self { fixed: self.fixed + fixed, ..self }
    }

    /// The cost of `bytes`.
    pub fn at(&self, bytes: u64) -> f64 {
        self.fixed + bytes as f64 * self.per_byte
    }

    /// The last size at which this line is not above `other`, if they cross.
    fn crossing(&self, other: &Self) -> Option<u64> {
        let at = (other.fixed - self.fixed) / (self.per_byte - other.per_byte);
        (at.is_finite() && at >= 0.0 && at < u64::MAX as f64).then_some(at as u64)
    }
}

fn least_sure(figures: &[(&str, Figure)]) -> CostOrigin {
    figures.iter().map(|(_, figure)| figure.origin).min().unwrap_or(CostOrigin::Assumed)
}

/// A protocol that can be used for sizes `from..=to`.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "those who ask make it")]
pub struct Candidate<P> {
    /// The protocol.
    pub protocol: P,
    /// What it costs.
    pub line: Line,
    /// The first size, in bytes.
    pub from: u64,
    /// The last; `u64::MAX` for no end.
    pub to: u64,
}

/// Sizes that go by one protocol.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SizeRange<P> {
    /// The protocol.
    pub protocol: P,
    /// The first size, in bytes.
    pub from: u64,
    /// The last; `u64::MAX` for no end.
    pub to: u64,
    /// Predicted nanoseconds of a message without bytes.
    pub fixed: f64,
    /// And for each byte.
    pub per_byte: f64,
    /// The least sure of the figures in the prediction.
    pub origin: CostOrigin,
}

impl<P> SizeRange<P> {
    /// Predicted nanoseconds of a message of `bytes`.
    pub fn cost(&self, bytes: u64) -> f64 {
        self.fixed + bytes as f64 * self.per_byte
    }
}

/// The cheapest candidate for each size, in order of the sizes; of two that cost the same the one that comes
/// first. Sizes that no candidate has are in no range.
pub fn cheapest<P: Copy + PartialEq>(candidates: &[Candidate<P>]) -> Vec<SizeRange<P>> {
    // Between two neighbouring cuts the cheapest stays the same.
    let mut cuts = vec![0];
    for (at, candidate) in candidates.iter().enumerate() {
        cuts.extend([Some(candidate.from), candidate.to.checked_add(1)].into_iter().flatten());
        for other in &candidates[at + 1..] {
            // One on either side: which of the two lines is lower there is asked below.
            if let Some(crossing) = candidate.line.crossing(&other.line) {
                cuts.extend([crossing, crossing.saturating_add(1)]);
            }
        }
    }
    cuts.sort_unstable();
    cuts.dedup();
    let mut ranges: Vec<SizeRange<P>> = Vec::new();
    for (at, &from) in cuts.iter().enumerate() {
        let to = cuts.get(at + 1).map_or(u64::MAX, |next| next - 1);
        let able = candidates.iter().filter(|one| one.from <= from && to <= one.to);
        let best = able.reduce(
            |best, next| {
                if next.line.at(from) < best.line.at(from) { next } else { best }
            },
        );
        let Some(best) = best else { continue };
        match ranges.last_mut() {
            Some(last)
                if last.protocol == best.protocol && last.to.checked_add(1) == Some(from) =>
            {
                last.to = to;
            }
            _ => ranges.push(SizeRange {
                protocol: best.protocol,
                from,
                to,
                fixed: best.line.fixed,
                per_byte: best.line.per_byte,
                origin: best.line.origin,
            }),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steep_line_is_left_where_a_flat_one_crosses_it() {
        let line = |fixed, per_byte| Line { fixed, per_byte, origin: CostOrigin::Assumed };
        let all = [
            Candidate { protocol: 'a', line: line(10.0, 1.0), from: 0, to: 500 },
            Candidate { protocol: 'b', line: line(110.5, 0.5), from: 0, to: 1000 },
            Candidate { protocol: 'c', line: line(0.0, 0.0), from: 2000, to: u64::MAX },
        ];
        let found: Vec<_> =
            cheapest(&all).iter().map(|range| (range.protocol, range.from, range.to)).collect();
        assert_eq!(found, [('a', 0, 201), ('b', 202, 1000), ('c', 2000, u64::MAX)]);
    }

    #[test]
    fn constants_of_the_library_leave_the_origin_as_it_is() {
        let measured = Line { origin: CostOrigin::Calibrated, ..Line::ZERO };
        let assumed = Line { fixed: 1.0, per_byte: 0.0, origin: CostOrigin::Assumed };
        assert_eq!(measured.plus_constant(7.0).origin, CostOrigin::Calibrated);
        assert_eq!(measured.plus(assumed).plus_constant(7.0).at(1), 8.0);
        assert_eq!(measured.plus(assumed).origin, CostOrigin::Assumed);
    }
}
