//! Numbers of the ranks that take part in a stage: those that a collapse or a merge has left out have none.

use crate::schedule::{JointStage, Merged};

/// How the ranks of one collapse or merge are left out, and what the others are called inside it.
///
/// It repeats in segments of `length` units. A unit is `mask` ranks that have gone through the same stages, a lane of
/// it is a rank; all lanes do alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    kind: Kind,
    mask: u32,
    length: u32,
    /// Units of a segment that are not left out.
    pub(super) core: u32,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Collapse { threshold: u32, base: u32 },
    Merge(Merged),
    Ordered(Merged),
}

/// Where a number lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) segment: u32,
    /// The unit in the segment.
    pub(super) unit: u32,
    lane: u32,
}

impl Fold {
    /// That of a stage, if it leaves ranks out.
    pub(super) const fn of(token: JointStage, mask: u32, length: u32) -> Option<Self> {
        let (kind, core) = match token {
            JointStage::Collapse { threshold, base } => {
                (Kind::Collapse { threshold, base }, length - threshold / base * (base - 1))
            }
            JointStage::Merge(merged) => (Kind::Merge(merged), length - merged.remainder),
            JointStage::OrderedMerge(merged) => (Kind::Ordered(merged), length - merged.remainder),
            _ => return None,
        };
        Some(Self { kind, mask, length, core })
    }

    /// Where a number outside lies.
    pub(super) const fn outside(&self, number: u32) -> Spot {
        self.spot(number, self.length)
    }

    /// Where a number inside lies.
    pub(super) const fn inside(&self, number: u32) -> Spot {
        self.spot(number, self.core)
    }

    const fn spot(&self, number: u32, length: u32) -> Spot {
        let (unit, lane) = (number / self.mask, number % self.mask);
        Spot { segment: unit / length, unit: unit % length, lane }
    }

    /// The number outside of another unit of a segment, in the same lane.
    pub(super) const fn outer(&self, at: Spot, unit: u32) -> u32 {
        (at.segment * self.length + unit) * self.mask + at.lane
    }

    /// The number inside.
    pub(super) const fn inner(&self, at: Spot, unit: u32) -> u32 {
        (at.segment * self.core + unit) * self.mask + at.lane
    }

    /// Whether the unit of a number outside is in a block that becomes one.
    pub(super) const fn collapses(&self, number: u32) -> bool {
        match self.kind {
            Kind::Collapse { threshold, .. } => self.outside(number).unit < threshold,
            Kind::Merge(_) | Kind::Ordered(_) => false,
        }
    }

    /// What a number outside is called inside, if it is not left out.
    pub(super) fn enter(&self, number: u32) -> Option<u32> {
        let at = self.outside(number);
        let unit = match self.kind {
            Kind::Collapse { threshold, base } if at.unit < threshold => {
                (at.unit % base == base - 1).then_some(at.unit / base)
            }
            Kind::Collapse { threshold, base } => Some(at.unit - threshold / base * (base - 1)),
            Kind::Merge(merged) => at.unit.checked_sub(merged.remainder),
            Kind::Ordered(merged) => {
                let group = group_with(merged, at.unit);
                let before = group_start(merged, group) + share(merged, group);
                at.unit.checked_sub(before).map(|member| group * merged.factor + member)
            }
        };
        unit.map(|unit| self.inner(at, unit))
    }

    /// The number outside of a number inside.
    pub(super) const fn leave(&self, number: u32) -> u32 {
        let at = self.inside(number);
        let unit = match self.kind {
            Kind::Collapse { threshold, base } => {
                let blocks = threshold / base;
                if at.unit < blocks {
                    at.unit * base + base - 1
                } else {
                    at.unit + blocks * (base - 1)
                }
            }
            Kind::Merge(merged) => at.unit + merged.remainder,
            Kind::Ordered(merged) => {
                let group = at.unit / merged.factor;
                group_start(merged, group) + share(merged, group) + at.unit % merged.factor
            }
        };
        self.outer(at, unit)
    }

    /// The merged units, by number outside, that a group of the merge takes in.
    pub(super) fn taken_by(&self, group: u32) -> impl Iterator<Item = u32> {
        let (start, step, count) = match self.kind {
            Kind::Merge(merged) => (
                group,
                merged.groups,
                (group..merged.remainder).step_by(merged.groups as usize).len() as u32,
            ),
            Kind::Ordered(merged) => (group_start(merged, group), 1, share(merged, group)),
            Kind::Collapse { .. } => (0, 1, 0),
        };
        (0..count).map(move |index| start + index * step)
    }

    /// The group of the merge that takes in a unit, and the unit's number among all that are merged.
    pub(super) fn merged(&self, unit: u32) -> (u32, u32) {
        match self.kind {
            Kind::Ordered(merged) => {
                let group = group_with(merged, unit);
                (group, unit - group * merged.factor)
            }
            Kind::Merge(merged) => (unit % merged.groups, unit),
            Kind::Collapse { .. } => (0, unit),
        }
    }

    /// The unit, by number outside, that is the one with a number among all that are merged.
    pub(super) fn merged_unit(&self, number: u32) -> u32 {
        match self.kind {
            Kind::Ordered(merged) => {
                let (each, more) =
                    (merged.remainder / merged.groups, merged.remainder % merged.groups);
                let long = more * (each + 1);
                let group = if number < long {
                    number / (each + 1)
                } else {
                    more + (number - long) / each.max(1)
                };
                number + group * merged.factor
            }
            _ => number,
        }
    }
}

/// The merged units that stand in front of a group.
const fn share(merged: Merged, group: u32) -> u32 {
    let more = group < merged.remainder % merged.groups;
    merged.remainder / merged.groups + more as u32
}

/// The first unit of a group with what is merged into it.
const fn group_start(merged: Merged, group: u32) -> u32 {
    let (each, more) = (merged.remainder / merged.groups, merged.remainder % merged.groups);
    let longer = if group < more { group } else { more };
    group * (each + merged.factor) + longer
}

/// The group that a unit belongs to, merged or not.
const fn group_with(merged: Merged, unit: u32) -> u32 {
    let (each, more) = (merged.remainder / merged.groups, merged.remainder % merged.groups);
    let (short, long) = (each + merged.factor, each + merged.factor + 1);
    if unit < more * long { unit / long } else { more + (unit - more * long) / short }
}
