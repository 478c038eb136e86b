//! What one rank does in a schedule: whom it sends which part of its value, of whom it receives, and in which order it
//! combines. (Thesis, algorithms 2 to 6.)
//!
//! The printed algorithms do not work as they stand. Repaired here: a rank's translation asks for its own group
//! number and adds the merged ranks; merged ranks take no part in the stages between; a stage receives of one
//! rank less than the group has; the last rank of a collapsed block receives of all others of it.
//!
//! Ranks that take part in a stage are numbered without gaps; collapses and merges number them anew, and each keeps how
//! (`numbering`). `mask` is the product of the stages that are done: so many ranks that follow each other have been
//! through the same groups, and a group is made of ranks that are `mask` apart.

mod numbering;
mod part;

use numbering::Fold;
pub use part::Part;

use crate::schedule::{Cut, JointStage, Merged, Schedule};

/// A stage of one rank. Its value is sent as it was when the stage began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "who sends, who receives and what becomes of it: always"
)]
pub struct Stage {
    /// Who gets which part of this rank's value, in the order in which it is sent.
    pub sends: Vec<Piece>,
    /// What a part of the new value is combined of, from left to right; nothing where the value stays.
    pub combines: Vec<Operand>,
    /// The part that is combined.
    pub part: Part,
    /// Parts that ranks give, which this rank takes as they are.
    pub takes: Vec<Piece>,
    /// The part of the vector that this rank has a value of afterwards, if it combines or takes anything.
    pub keeps: Part,
}

/// A part of a vector that goes to a rank or comes from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_structs, reason = "what a message has")]
pub struct Piece {
    /// The rank.
    pub rank: u32,
    /// The part.
    pub part: Part,
}

impl From<u32> for Piece {
    /// The whole vector.
    fn from(rank: u32) -> Self {
        Self { rank, part: Part::WHOLE }
    }
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
    /// What it receives: to be combined, then to be taken.
    pub fn receives(&self) -> impl Iterator<Item = Piece> {
        let operands = self.combines.iter().filter_map(|operand| match operand {
            Operand::Own => None,
            Operand::Of(rank) => Some(Piece { rank: *rank, part: self.part }),
        });
        operands.chain(self.takes.iter().copied())
    }
}

/// A stage that is not closed yet.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// The product of the stages before it.
    mask: u32,
    /// This rank's number before it.
    number: Option<u32>,
    /// What this rank had a value of before it.
    part: Part,
    /// How ranks are numbered inside it, if it leaves some out.
    fold: Option<Fold>,
}

/// A rank on its way through a schedule.
struct Walk {
    rank: u32,
    /// Its number among those that take part, if it is one of them.
    number: Option<u32>,
    mask: u32,
    /// The part of the vector that it has a value of.
    part: Part,
    open: Vec<Open>,
    stages: Vec<Stage>,
}

impl Schedule {
    /// What a rank does, stage by stage; takes time for its own messages only.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn stages(&self, rank: u32) -> Vec<Stage> {
        assert!(rank < self.ranks(), "rank {rank} of {}", self.ranks());
        let (number, part) = (Some(rank), Part::WHOLE);
        let mut walk = Walk { rank, number, mask: 1, part, open: Vec::new(), stages: Vec::new() };
        for (token, length) in self.with_lengths() {
            walk.step(token, length);
        }
        walk.stages
    }
}

/// The ranks of a group, by their numbers.
#[derive(Clone, Copy, Debug)]
struct Group {
    first: u32,
    mask: u32,
    factor: u32,
    /// The place of this rank among them.
    own: u32,
}

impl Group {
    const fn of(number: u32, mask: u32, factor: u32) -> Self {
        let block = number / (factor * mask) * factor * mask;
        let first = block + (number - block) % mask;
        Self { first, mask, factor, own: (number - first) / mask }
    }

    const fn member(self, index: u32) -> u32 {
        self.first + index * self.mask
    }

    fn members(self) -> impl Iterator<Item = u32> {
        (0..self.factor).map(move |index| self.member(index))
    }

    /// The places of the others, each a step further round, so that not all send to the same one first.
    fn others(self) -> impl Iterator<Item = u32> {
        (1..self.factor).map(move |step| (self.own + step) % self.factor)
    }

    /// The place that many steps before this rank's, around the end.
    const fn before(self, steps: u32) -> u32 {
        (self.own + self.factor - steps % self.factor) % self.factor
    }
}

impl Walk {
    /// The rank with a number.
    fn rank_of(&self, number: u32) -> u32 {
        let folds = self.open.iter().rev().filter_map(|open| open.fold);
        folds.fold(number, |number, fold| fold.leave(number))
    }

    /// The rank with a number outside of the stage that was opened last.
    fn outer_rank_of(&self, number: u32) -> u32 {
        let folds = self.open.iter().rev().skip(1).filter_map(|open| open.fold);
        folds.fold(number, |number, fold| fold.leave(number))
    }

    fn operand(&self, rank: u32) -> Operand {
        if rank == self.rank { Operand::Own } else { Operand::Of(rank) }
    }

    /// The value goes to a rank.
    fn piece(&self, rank: u32) -> Piece {
        Piece { rank, part: self.part }
    }

    /// The value is combined of what ranks have.
    fn combined(&self, sends: Vec<Piece>, combines: Vec<Operand>) -> Stage {
        Stage { sends, combines, part: self.part, keeps: self.part, ..Stage::default() }
    }

    fn step(&mut self, token: JointStage, length: u32) {
        match token {
            JointStage::Exchange { factor } => {
                let stage = self.number.map(|number| self.exchange(number, self.mask, factor));
                self.stages.push(stage.unwrap_or_default());
                self.mask *= factor;
            }
            JointStage::Collapse { base, .. } => {
                let outside = self.number;
                self.enter(token, length);
                let stage = outside.map(|number| self.collapse(number, base)).unwrap_or_default();
                self.stages.push(stage);
            }
            JointStage::Merge(merged) | JointStage::OrderedMerge(merged) => {
                let outside = self.number;
                self.enter(token, length);
                let stage = outside.map(|number| self.merge(number, merged)).unwrap_or_default();
                self.stages.push(stage);
                self.mask *= merged.factor;
            }
            JointStage::Split(cut) => {
                self.enter(token, length);
                match self.number {
                    Some(number) => self.split(number, cut),
                    None => self.idle(cut.rounds()),
                }
                self.mask *= cut.factor;
            }
            JointStage::Gather(cut) => {
                let open = self.open.pop().expect("a schedule closes what is open");
                match self.number {
                    Some(number) => self.gather(number, open, cut),
                    None => self.idle(cut.rounds()),
                }
                self.part = open.part;
            }
            JointStage::Expand { base, .. } => {
                let open = *self.open.last().expect("a schedule closes what is open");
                let stage = open.number.map(|number| self.expand(number, base));
                self.leave(stage, length);
            }
            JointStage::InverseMerge(merged) => {
                let open = *self.open.last().expect("a schedule closes what is open");
                let stage = open.number.map(|number| self.inverse_merge(number, open, merged));
                self.leave(stage, length);
            }
        }
    }

    fn idle(&mut self, rounds: u32) {
        let all = self.stages.len() + rounds as usize;
        self.stages.resize_with(all, Stage::default);
    }

    fn enter(&mut self, token: JointStage, length: u32) {
        let Self { mask, number, part, .. } = *self;
        let fold = Fold::of(token, mask, length);
        self.open.push(Open { mask, number, part, fold });
        if let Some(fold) = fold {
            self.number = number.and_then(|number| fold.enter(number));
        }
    }

    /// Those that were left out are numbered again.
    fn leave(&mut self, stage: Option<Stage>, length: u32) {
        let open = self.open.pop().expect("a schedule closes what is open");
        self.stages.push(stage.unwrap_or_default());
        self.number = open.number;
        self.mask = open.mask * length;
    }

    fn exchange(&self, number: u32, mask: u32, factor: u32) -> Stage {
        let group = Group::of(number, mask, factor);
        let sends = group.others().map(|other| self.piece(self.rank_of(group.member(other))));
        let operands = group.members().map(|member| self.operand(self.rank_of(member)));
        self.combined(sends.collect(), operands.collect())
    }

    /// The ranks of a block that becomes one, by their numbers outside; the last one leads it.
    fn block(&self, number: u32, fold: Fold, base: u32) -> Vec<u32> {
        let at = fold.outside(number);
        let first = at.unit / base * base;
        (first..first + base).map(|unit| self.outer_rank_of(fold.outer(at, unit))).collect()
    }

    /// A collapse, which has been entered, or its expansion: the block of a number outside, if it is in one.
    fn block_of(&self, number: u32, base: u32) -> Option<Vec<u32>> {
        let fold = self.open.last().and_then(|open| open.fold)?;
        fold.collapses(number).then(|| self.block(number, fold, base))
    }

    fn collapse(&self, number: u32, base: u32) -> Stage {
        let Some(block) = self.block_of(number, base) else { return Stage::default() };
        match block.last() {
            Some(&leader) if leader != self.rank => {
                Stage { sends: vec![self.piece(leader)], ..Stage::default() }
            }
            _ => {
                let operands = block.iter().map(|&rank| self.operand(rank)).collect();
                self.combined(Vec::new(), operands)
            }
        }
    }

    fn expand(&self, number: u32, base: u32) -> Stage {
        let Some(block) = self.block_of(number, base) else { return Stage::default() };
        match block.split_last() {
            Some((&leader, _)) if leader != self.rank => {
                self.combined(Vec::new(), vec![Operand::Of(leader)])
            }
            Some((_, others)) => {
                let sends = others.iter().map(|&rank| self.piece(rank)).collect();
                Stage { sends, ..Stage::default() }
            }
            None => Stage::default(),
        }
    }

    fn merge(&self, outside: u32, merged: Merged) -> Stage {
        let Merged { factor, .. } = merged;
        let fold = self.open.last().and_then(|open| open.fold).expect("a merge leaves ranks out");
        let Some(number) = self.number else {
            let at = fold.outside(outside);
            let first = fold.merged(at.unit).0 * factor;
            let members = (first..first + factor).map(|unit| self.rank_of(fold.inner(at, unit)));
            let sends = members.map(|rank| self.piece(rank)).collect();
            return Stage { sends, ..Stage::default() };
        };
        let mut stage = self.exchange(number, self.mask, factor);
        let at = fold.inside(number);
        let taken = fold.taken_by(at.unit / factor);
        let taken = taken.map(|unit| Operand::Of(self.outer_rank_of(fold.outer(at, unit))));
        stage.combines.splice(0..0, taken);
        stage
    }

    fn inverse_merge(&self, outside: u32, open: Open, merged: Merged) -> Stage {
        let Merged { remainder, groups, factor } = merged;
        let fold = open.fold.expect("a merge leaves ranks out");
        let Some(number) = self.number else {
            // Its own value is in the result already.
            let at = fold.outside(outside);
            let group = fold.merged(at.unit).1 % groups;
            let members = (0..factor).map(|index| fold.inner(at, group + index * groups));
            let operands = members.map(|member| Operand::Of(self.rank_of(member))).collect();
            return self.combined(Vec::new(), operands);
        };
        let mut stage = self.exchange(number, self.mask, factor);
        let at = fold.inside(number);
        let served = (at.unit % groups..remainder).step_by(groups as usize);
        let served = served
            .map(|number| self.piece(self.outer_rank_of(fold.outer(at, fold.merged_unit(number)))));
        stage.sends.extend(served);
        stage
    }

    fn split(&mut self, number: u32, cut: Cut) {
        let Cut { factor, ring } = cut;
        let (group, whole) = (Group::of(number, self.mask, factor), self.part);
        let part = |index| whole.cut(factor, index);
        let rank = |index| self.rank_of(group.member(index));
        let rounds: Vec<_> = if ring {
            // In each round a part goes to the right that has come from the left, and this rank's value is in it.
            let (left, right) = (rank(group.before(1)), rank((group.own + 1) % factor));
            let round = |step: u32| {
                let last = step == factor - 1;
                Stage {
                    sends: vec![Piece { rank: right, part: part(group.before(step)) }],
                    combines: vec![Operand::Own, Operand::Of(left)],
                    part: part(group.before(step + 1)),
                    keeps: if last { part(group.own) } else { whole },
                    ..Stage::default()
                }
            };
            (1..factor).map(round).collect()
        } else {
            let sends = group.others().map(|index| Piece { rank: rank(index), part: part(index) });
            let operands = group.members().map(|member| self.operand(self.rank_of(member)));
            vec![Stage {
                sends: sends.collect(),
                combines: operands.collect(),
                part: part(group.own),
                keeps: part(group.own),
                ..Stage::default()
            }]
        };
        self.stages.extend(rounds);
        self.part = whole.cut(factor, group.own);
    }

    fn gather(&mut self, number: u32, open: Open, cut: Cut) {
        let Cut { factor, ring } = cut;
        let (group, whole) = (Group::of(number, open.mask, factor), open.part);
        let piece = |of, index| Piece {
            rank: self.rank_of(group.member(of)),
            part: whole.cut(factor, index),
        };
        let rounds: Vec<_> = if ring {
            let (left, right) = (group.before(1), (group.own + 1) % factor);
            let round = |step: u32| Stage {
                sends: vec![piece(right, group.before(step - 1))],
                takes: vec![piece(left, group.before(step))],
                keeps: whole,
                ..Stage::default()
            };
            (1..factor).map(round).collect()
        } else {
            vec![Stage {
                sends: group.others().map(|index| piece(index, group.own)).collect(),
                takes: group.others().map(|index| piece(index, index)).collect(),
                keeps: whole,
                ..Stage::default()
            }]
        };
        self.stages.extend(rounds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole<const N: usize>(ranks: [u32; N]) -> [Piece; N] {
        ranks.map(Piece::from)
    }

    #[test]
    fn groups_of_the_second_stage_are_apart() {
        let schedule = Schedule::parse(12, "a3,a4").unwrap();
        let stages = schedule.stages(4);
        assert_eq!(stages[0].sends, whole([5, 3]));
        assert_eq!(stages[0].combines, [Operand::Of(3), Operand::Own, Operand::Of(5)]);
        assert_eq!(stages[1].sends, whole([7, 10, 1]));
        let order = [Operand::Of(1), Operand::Own, Operand::Of(7), Operand::Of(10)];
        assert_eq!(stages[1].combines, order);
    }

    #[test]
    fn merged_ranks_are_dealt_out_to_the_groups() {
        let schedule = Schedule::parse(7, "m3g2a2,n3g2a2").unwrap();
        assert_eq!(schedule.stages(0)[0].sends, whole([3, 4]));
        assert_eq!(schedule.stages(1)[0].sends, whole([5, 6]));
        assert_eq!(schedule.stages(2)[0].sends, whole([3, 4]));
        let of_3 = schedule.stages(3);
        let order = [Operand::Of(0), Operand::Of(2), Operand::Own, Operand::Of(4)];
        assert_eq!(of_3[0].combines, order);
        assert_eq!(of_3[1].sends, whole([5, 0, 2]));
        assert_eq!(schedule.stages(2)[1].combines, [Operand::Of(3), Operand::Of(5)]);
    }

    #[test]
    fn merged_ranks_stand_in_front_of_their_groups() {
        // The groups are 0, 1 with 2, 3 and 4 with 5, 6.
        let schedule = Schedule::parse(7, "o3g2a2,n3g2a2").unwrap();
        assert_eq!(schedule.stages(1)[0].sends, whole([2, 3]));
        assert_eq!(schedule.stages(4)[0].sends, whole([5, 6]));
        let order = [Operand::Of(0), Operand::Of(1), Operand::Own, Operand::Of(3)];
        assert_eq!(schedule.stages(2)[0].combines, order);
        assert_eq!(schedule.stages(2)[1].sends, whole([5, 0, 4]));
        assert_eq!(schedule.stages(4)[1].combines, [Operand::Of(2), Operand::Of(5)]);
    }

    #[test]
    fn a_ring_passes_parts_on() {
        let stages = Schedule::parse(4, "s4r,g4r").unwrap().stages(1);
        let part = |index| Part { index, of: 4 };
        let sent: Vec<_> = stages.iter().map(|stage| stage.sends[0].part.index).collect();
        assert_eq!(sent, [0, 3, 2, 1, 0, 3]);
        assert!(stages.iter().all(|stage| stage.sends[0].rank == 2));
        assert_eq!((stages[2].part, stages[2].keeps), (part(1), part(1)));
        assert_eq!(stages[5].takes, [Piece { rank: 0, part: part(2) }]);
    }
}
