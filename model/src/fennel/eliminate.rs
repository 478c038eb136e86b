//! Allreduces by elimination, for numbers of ranks that are no powers of two. (Rabenseifner and Träff 2004; thesis,
//! section 5.1, describes them as a baseline.)
//!
//! ```text
//!   2-1   of two ranks, one gives its value to the other and takes no further part
//!   3-2   of three ranks, one gives its value to both others, which exchange theirs in the same stage
//! ```
//! A rank that was eliminated is sent the result in the last stage. Values stay in the order of ranks.

use crate::stages::{Operand, Stage};

/// When ranks are eliminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the two published variants")]
pub enum Elimination {
    /// All in the first stage, down to a power of two: 3-2 where that suffices, and 2-1 for the others.
    First,
    /// Wherever a stage has an odd number of groups: 3-2, so that no stage is there for eliminations alone.
    Overlapping,
}

/// Stages under construction.
#[derive(Debug)]
struct Ranks(Vec<Vec<Stage>>);

impl Ranks {
    /// Begins a stage, in which nobody does anything yet.
    fn begin(&mut self) {
        self.0.iter_mut().for_each(|stages| stages.push(Stage::default()));
    }

    fn stage(&mut self, rank: u32) -> &mut Stage {
        self.0[rank as usize].last_mut().expect("a stage was begun")
    }

    /// `givers`, which stand in the order of their values, send theirs to `taker`, which may be one of them.
    fn combine(&mut self, givers: &[u32], taker: u32) {
        for &giver in givers.iter().filter(|giver| **giver != taker) {
            self.stage(giver).sends.push(taker.into());
        }
        self.stage(taker).combines = givers
            .iter()
            .map(|&giver| if giver == taker { Operand::Own } else { Operand::Of(giver) })
            .collect();
    }

    /// Two ranks exchange their values.
    fn exchange(&mut self, one: u32, other: u32) {
        self.combine(&[one, other], one);
        self.combine(&[one, other], other);
    }

    /// The third of three ranks is eliminated while the others exchange.
    fn three_two(&mut self, [one, other, third]: [u32; 3]) {
        self.combine(&[one, other, third], one);
        self.combine(&[one, other, third], other);
    }

    /// Results go back to those that were eliminated.
    fn give_back(&mut self, pairs: &[(u32, u32)]) {
        if pairs.is_empty() {
            return;
        }
        self.begin();
        for &(giver, taker) in pairs {
            self.combine(&[giver], taker);
        }
    }
}

/// The stages of an allreduce on each of so many ranks.
pub fn eliminate(ranks: u32, how: Elimination) -> Vec<Vec<Stage>> {
    let stages = Ranks(vec![Vec::new(); ranks as usize]);
    match how {
        _ if ranks < 2 => stages.0,
        Elimination::First => first(stages, ranks),
        Elimination::Overlapping => overlapping(stages, ranks),
    }
}

fn first(mut stages: Ranks, ranks: u32) -> Vec<Vec<Stage>> {
    let power = 1 << ranks.ilog2();
    let rest = ranks - power;
    // With t threes and p pairs that are eliminated, t + p = rest and 3 t + 2 p is at most the number of ranks.
    let threes = rest.min(ranks - 2 * rest);
    let pairs = rest - threes;
    let mut back = Vec::new();
    // Those that go on, next to each other where they have exchanged already.
    let mut going: Vec<u32> = Vec::new();
    if rest > 0 {
        stages.begin();
    }
    for first in (0..threes).map(|three| 3 * three) {
        stages.three_two([first, first + 1, first + 2]);
        back.push((first, first + 2));
        going.extend([first, first + 1]);
    }
    let mut exchanged = going.len();
    for first in (0..pairs).map(|pair| 3 * threes + 2 * pair) {
        stages.combine(&[first, first + 1], first + 1);
        back.push((first + 1, first));
        going.push(first + 1);
    }
    let others = 3 * threes + 2 * pairs..ranks;
    if rest > 0 && pairs == 0 {
        // The others need not wait for a stage of their own.
        for first in others.clone().step_by(2) {
            stages.exchange(first, first + 1);
        }
        exchanged = power as usize;
    }
    going.extend(others);
    let mut apart = 1;
    while apart < power as usize {
        let mut lower = (0..going.len())
            .filter(|place| place & apart == 0 && (apart > 1 || *place >= exchanged))
            .peekable();
        if lower.peek().is_some() {
            stages.begin();
        }
        for place in lower {
            stages.exchange(going[place], going[place + apart]);
        }
        apart *= 2;
    }
    stages.give_back(&back);
    stages.0
}

fn overlapping(mut stages: Ranks, ranks: u32) -> Vec<Vec<Stage>> {
    // Groups of ranks with one value, all groups as large.
    let mut groups: Vec<Vec<u32>> = (0..ranks).map(|rank| vec![rank]).collect();
    let mut gone: Vec<u32> = Vec::new();
    while groups.len() > 1 {
        stages.begin();
        let third = if groups.len() % 2 == 1 { groups.pop() } else { None };
        let last = groups.len() / 2 - 1;
        let mut joined: Vec<Vec<u32>> = Vec::new();
        for (index, pair) in groups.chunks_exact(2).enumerate() {
            let others = third.as_ref().filter(|_| index == last);
            for (place, (&one, &other)) in pair[0].iter().zip(&pair[1]).enumerate() {
                match others {
                    Some(third) => stages.three_two([one, other, third[place]]),
                    None => stages.exchange(one, other),
                }
            }
            joined.push(pair.concat());
        }
        gone.extend(third.into_iter().flatten());
        groups = joined;
    }
    // More than half of the ranks have stayed, so each gives the result to one other at most.
    let back: Vec<(u32, u32)> = groups[0].iter().copied().zip(gone).collect();
    stages.give_back(&back);
    stages.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::follow;
    use crate::stages::Piece;

    #[test]
    fn every_number_of_ranks_is_reduced_in_order_in_few_stages() {
        for ranks in 1..=130_u32 {
            let least = ranks.next_power_of_two().ilog2() as usize;
            for how in [Elimination::First, Elimination::Overlapping] {
                let stages = eliminate(ranks, how);
                assert!(stages.iter().all(|own| own.len() == stages[0].len()));
                // The published bound.
                assert!(stages[0].len() <= least + 1, "{ranks} {how:?}: {}", stages[0].len());
                if how == Elimination::Overlapping {
                    assert_eq!(stages[0].len(), least, "{ranks}");
                }
                let proof = follow(stages).unwrap_or_else(|flaw| panic!("{ranks} {how:?}: {flaw}"));
                assert!(proof.in_order(), "{ranks} {how:?}: in the order of ranks");
            }
        }
    }

    #[test]
    fn a_power_of_two_needs_no_elimination() {
        for how in [Elimination::First, Elimination::Overlapping] {
            let stages = eliminate(8, how);
            let sends = |stage: &Stage| stage.sends.iter().map(|to| to.rank).collect::<Vec<_>>();
            assert_eq!(
                stages[5].iter().map(sends).collect::<Vec<_>>(),
                [vec![4], vec![7], vec![1]]
            );
        }
    }

    #[test]
    fn six_ranks_are_two_threes_first() {
        let stages = eliminate(6, Elimination::First);
        assert_eq!(stages[2][0].sends, [0, 1].map(Piece::from));
        assert_eq!(stages[0][0].combines, [Operand::Own, Operand::Of(1), Operand::Of(2)]);
        assert_eq!(
            (&stages[0][1].sends, &stages[1][1].sends),
            (&vec![Piece::from(3)], &vec![Piece::from(4)])
        );
        assert_eq!(stages[2][2].combines, [Operand::Of(0)]);
    }
}
