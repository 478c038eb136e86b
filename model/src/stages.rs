//! What one rank does in a schedule: whom it sends its value, of whom it receives, and in which order it combines.
//! (Thesis, algorithms 2 to 6.)
//!
//! The printed algorithms do not work as they stand. Repaired here: a rank's translation asks for its own group
//! number and adds the merged ranks; merged ranks take no part in the stages between; a stage receives of one
//! rank less than the group has; the last rank of a collapsed block receives of all others of it.

use crate::schedule::{Merged, Schedule, Token};

/// A stage of one rank. Its value is sent as it was when the stage began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "who sends, who receives and what becomes of it: always"
)]
pub struct Stage {
    /// Ranks that get this rank's value, in the order in which they are sent it.
    pub sends: Vec<u32>,
    /// What the new value is combined of, from left to right; nothing where the value stays.
    pub combines: Vec<Operand>,
}

/// A value that is combined with others, or takes the place of this rank's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a value is one's own or another's")]
pub enum Operand {
    /// This rank's value.
    Own,
    /// What this rank gives.
    Of(u32),
}

impl Stage {
    /// The ranks whose values it receives.
    pub fn receives(&self) -> impl Iterator<Item = u32> {
        self.combines.iter().filter_map(|operand| match operand {
            Operand::Own => None,
            Operand::Of(rank) => Some(*rank),
        })
    }
}

/// A rank's place in a schedule.
#[derive(Clone, Copy, Debug)]
struct Place {
    rank: u32,
    remainder: u32,
    threshold: u32,
    base: u32,
}

impl Place {
    /// This rank's number among those that exchange, if it is one of them.
    fn working(self) -> Option<u32> {
        if self.rank < self.remainder {
            return None;
        }
        if self.rank >= self.threshold {
            let left_out = self.threshold / self.base * (self.base - 1);
            return Some(self.rank - self.remainder - left_out);
        }
        (self.rank % self.base == self.base - 1).then_some(self.rank / self.base)
    }

    /// The rank with a number among those that exchange.
    fn rank_of(self, working: u32) -> u32 {
        let blocks = self.threshold / self.base;
        if working < blocks {
            working * self.base + self.base - 1
        } else {
            working + self.remainder + blocks * (self.base - 1)
        }
    }

    fn operand(self, rank: u32) -> Operand {
        if rank == self.rank { Operand::Own } else { Operand::Of(rank) }
    }
}

impl Schedule {
    /// What a rank does, stage by stage; takes time for its own messages only.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn stages(&self, rank: u32) -> Vec<Stage> {
        assert!(rank < self.ranks(), "rank {rank} of {}", self.ranks());
        let (threshold, base) = self.collapse();
        let place = Place { rank, remainder: self.remainder(), threshold, base };
        let mut mask = 1;
        let stage = |&token: &Token| match token {
            Token::Exchange { factor } => {
                let stage = exchange(place, mask, factor);
                mask *= factor;
                stage
            }
            Token::Merge(merged) => {
                mask = merged.factor;
                merge(place, merged)
            }
            Token::InverseMerge(merged) => inverse_merge(place, merged),
            Token::Collapse { .. } => collapse(place),
            Token::Expand { .. } => expand(place),
        };
        self.tokens().iter().map(stage).collect()
    }
}

/// The members of this rank's group, in order of rank; `mask` is the product of the factors before.
fn group(working: u32, mask: u32, factor: u32) -> impl Iterator<Item = u32> {
    let block = working / (factor * mask) * factor * mask;
    (0..factor).map(move |index| block + (working - block) % mask + index * mask)
}

/// The others of the group, each a step further round, so that not all send to the same one first.
fn peers(working: u32, mask: u32, factor: u32) -> impl Iterator<Item = u32> {
    let span = factor * mask;
    let block = working / span * span;
    (1..factor).map(move |step| block + (working - block + step * mask) % span)
}

fn exchange(place: Place, mask: u32, factor: u32) -> Stage {
    let Some(working) = place.working() else { return Stage::default() };
    let members = group(working, mask, factor);
    Stage {
        sends: peers(working, mask, factor).map(|peer| place.rank_of(peer)).collect(),
        combines: members.map(|member| place.operand(place.rank_of(member))).collect(),
    }
}

fn collapse(place: Place) -> Stage {
    let Place { rank, threshold, base, .. } = place;
    if rank >= threshold {
        return Stage::default();
    }
    let first = rank / base * base;
    let leader = first + base - 1;
    if rank < leader {
        return Stage { sends: vec![leader], combines: Vec::new() };
    }
    let combines = (first..=leader).map(|member| place.operand(member)).collect();
    Stage { sends: Vec::new(), combines }
}

fn expand(place: Place) -> Stage {
    let Place { rank, threshold, base, .. } = place;
    if rank >= threshold {
        return Stage::default();
    }
    let first = rank / base * base;
    let leader = first + base - 1;
    if rank < leader {
        return Stage { sends: Vec::new(), combines: vec![Operand::Of(leader)] };
    }
    Stage { sends: (first..leader).collect(), combines: Vec::new() }
}

/// The merged ranks that belong to a group: every so many of them.
fn merged_of(group: u32, Merged { remainder, groups, .. }: Merged) -> impl Iterator<Item = u32> {
    (group..remainder).step_by(groups as usize)
}

fn merge(place: Place, merged: Merged) -> Stage {
    let Merged { groups, factor, .. } = merged;
    let Some(working) = place.working() else {
        let group = place.rank % groups;
        let members = group * factor..(group + 1) * factor;
        return Stage { sends: members.map(|m| place.rank_of(m)).collect(), combines: Vec::new() };
    };
    let mut stage = exchange(place, 1, factor);
    let before = merged_of(working / factor, merged).map(Operand::Of);
    stage.combines = before.chain(stage.combines).collect();
    stage
}

fn inverse_merge(place: Place, merged: Merged) -> Stage {
    let Merged { groups, factor, .. } = merged;
    let Some(working) = place.working() else {
        // Its own value is in the result already.
        let members = group(place.rank % groups, groups, factor);
        let combines = members.map(|member| Operand::Of(place.rank_of(member))).collect();
        return Stage { sends: Vec::new(), combines };
    };
    let mut stage = exchange(place, groups, factor);
    stage.sends.extend(merged_of(working % groups, merged));
    stage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_the_second_stage_are_apart() {
        let schedule = Schedule::parse(12, "a3,a4").unwrap();
        let stages = schedule.stages(4);
        assert_eq!(stages[0].sends, [5, 3]);
        assert_eq!(stages[0].combines, [Operand::Of(3), Operand::Own, Operand::Of(5)]);
        assert_eq!(stages[1].sends, [7, 10, 1]);
        let order = [Operand::Of(1), Operand::Own, Operand::Of(7), Operand::Of(10)];
        assert_eq!(stages[1].combines, order);
    }

    #[test]
    fn merged_ranks_are_dealt_out_to_the_groups() {
        let schedule = Schedule::parse(7, "m3g2a2,n3g2a2").unwrap();
        assert_eq!(schedule.stages(0)[0].sends, [3, 4]);
        assert_eq!(schedule.stages(1)[0].sends, [5, 6]);
        assert_eq!(schedule.stages(2)[0].sends, [3, 4]);
        let of_3 = schedule.stages(3);
        let order = [Operand::Of(0), Operand::Of(2), Operand::Own, Operand::Of(4)];
        assert_eq!(of_3[0].combines, order);
        assert_eq!(of_3[1].sends, [5, 0, 2]);
        assert_eq!(schedule.stages(2)[1].combines, [Operand::Of(3), Operand::Of(5)]);
    }
}
