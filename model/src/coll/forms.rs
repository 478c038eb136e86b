//! The forms of each collective: one for each algorithm that carries it out, and the names that users know them by.

/// Algorithms of one collective, with names. Every algorithm has one, and the name of one names it.
pub trait Form: Copy + PartialEq + std::fmt::Debug + 'static {
    /// The collective.
    const COLLECTIVE: &'static str;
    /// Every algorithm that has a name of its own, and those with the numbers that are usual.
    const NAMED: &'static [(&'static str, Self)];
    /// How names with other numbers are made.
    const NUMBERED: &'static [Numbered];

    /// The algorithm with a name.
    fn of_name(name: &str) -> Option<Self> {
        let known = Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, form)| *form);
        known.or_else(|| {
            let (word, numbers) = name.split_once(':')?;
            let (first, second) = match numbers.split_once(':') {
                Some((first, second)) => (first, Some(number(second)?)),
                None => (numbers, None),
            };
            Self::numbered(word, number(first)?, second)
        })
    }

    /// The algorithm with a word and numbers, from 1, behind it.
    fn numbered(word: &str, first: u32, second: Option<u32>) -> Option<Self>;

    /// Its name.
    fn name(self) -> String;
}

/// How names with numbers are made, and which numbers they take.
#[derive(Clone, Copy, Debug)]
pub struct Numbered {
    word: &'static str,
    /// What the numbers are.
    hint: &'static str,
    least: u32,
    most: u32,
    /// Whether a second number follows, which is not above the first.
    pair: bool,
}

impl std::fmt::Display for Numbered {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { word, hint, least, most, pair } = self;
        let second = if *pair { " and the second not above the first" } else { "" };
        write!(out, "{word}:{hint} ({least} to {most}{second})")
    }
}

/// A number from 1, in digits.
fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|letter| letter.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number > 0)
}

/// Most stages, and other numbers of which nobody needs more. Algorithms take no more stages than their ranks can have.
const STAGES: u32 = 32;
/// Most kilobytes of a piece.
const KILOBYTES: u32 = 1 << 20;
/// Most partners at a time.
const PARTNERS: u32 = 1 << 16;

/// Gives the algorithms of a collective their names: first those of their own, then words for those with a number, the
/// least and the greatest one, then a word for those with two numbers, of which the second one is not above the first and may be
/// left out where it equals that.
macro_rules! named {
    (
        $form:ident, $collective:literal: $($name:literal = $value:expr),+ $(,)?
        $(; numbers: $($word:literal $hint:literal = $one:ident from $least:literal to $most:expr),+)?
        $(; pairs: $both:literal $both_hint:literal = $two:ident)?
    ) => {
        impl Form for $form {
            const COLLECTIVE: &'static str = $collective;
            const NAMED: &'static [(&'static str, Self)] = &[$(($name, $value)),+];
            const NUMBERED: &'static [Numbered] = &[
                $($(Numbered { word: $word, hint: $hint, least: $least, most: $most, pair: false },)+)?
                $(Numbered { word: $both, hint: $both_hint, least: 1, most: STAGES, pair: true },)?
            ];

            fn numbered(word: &str, first: u32, second: Option<u32>) -> Option<Self> {
                let last = second.unwrap_or(first);
                $($(
                    if word == $word && second.is_none() && ($least..=$most).contains(&last) {
                        return Some(Self::$one(last));
                    }
                )+)?
                $(
                    if word == $both && last <= first && first <= STAGES {
                        return Some(Self::$two(first, last));
                    }
                )?
                let _ = (word, last);
                None
            }

            fn name(self) -> String {
                $($(
                    if let Self::$one(number) = self
                        && Self::NAMED.iter().all(|(_, form)| *form != self)
                    {
                        return format!("{}:{number}", $word);
                    }
                )+)?
                $(
                    if let Self::$two(first, second) = self {
                        let second = if first == second { String::new() } else { format!(":{second}") };
                        return format!("{}:{first}{second}", $both);
                    }
                )?
                let known = Self::NAMED.iter().find(|(_, form)| *form == self);
                known.map_or_else(|| format!("{self:?}"), |(name, _)| (*name).to_owned())
            }
        }
    };
}

named!(
    Barrier, "barrier":
    "dissemination" = Self::Dissemination,
    "flat" = Self::Flat,
    "multiplying:1" = Self::Multiplying(1),
    "multiplying:2" = Self::Multiplying(2),
    "multiplying:3" = Self::Multiplying(3),
    "multiplying:4" = Self::Multiplying(4),
    ; numbers: "multiplying" "STAGES" = Multiplying from 1 to STAGES
);
named!(
    Bcast, "bcast":
    "flat" = Self::Flat,
    "binomial" = Self::Binomial,
    "scatter-allgather" = Self::ScatterAllgather,
    "chain" = Self::Chain,
    "two-trees:4" = Self::TwoTrees(4),
    "two-trees:16" = Self::TwoTrees(16),
    "two-trees:64" = Self::TwoTrees(64),
    "multiplying:1" = Self::Multiplying(1),
    "multiplying:2" = Self::Multiplying(2),
    "multiplying:3" = Self::Multiplying(3),
    "multiplying:4" = Self::Multiplying(4),
    "split:1" = Self::Split(1, 1),
    "split:2" = Self::Split(2, 2),
    "split:3" = Self::Split(3, 3),
    "split:4" = Self::Split(4, 4),
    ; numbers: "two-trees" "KILOBYTES" = TwoTrees from 1 to KILOBYTES, "multiplying" "STAGES" = Multiplying from 1 to STAGES
    ; pairs: "split" "STAGES:SPLITTING" = Split
);
named!(
    Reduce, "reduce":
    "flat" = Self::Flat,
    "binomial" = Self::Binomial,
    "ordered" = Self::Ordered,
    "halving" = Self::Halving,
    "chain" = Self::Chain,
    "two-trees:4" = Self::TwoTrees(4),
    "two-trees:16" = Self::TwoTrees(16),
    "two-trees:64" = Self::TwoTrees(64),
    "multiplying:1" = Self::Multiplying(1),
    "multiplying:2" = Self::Multiplying(2),
    "multiplying:3" = Self::Multiplying(3),
    "multiplying:4" = Self::Multiplying(4),
    "split:1" = Self::Split(1, 1),
    "split:2" = Self::Split(2, 2),
    "split:3" = Self::Split(3, 3),
    "split:4" = Self::Split(4, 4),
    ; numbers: "two-trees" "KILOBYTES" = TwoTrees from 1 to KILOBYTES, "multiplying" "STAGES" = Multiplying from 1 to STAGES
    ; pairs: "split" "STAGES:SPLITTING" = Split
);
named!(
    Allreduce, "allreduce":
    "doubling" = Self::Doubling,
    "halving" = Self::Halving,
    "flat" = Self::Flat,
    "reduce-bcast" = Self::ReduceBcast,
);
named!(Tree, "gather and scatter": "linear" = Self::Linear, "binomial" = Self::Binomial);
named!(
    Allgather, "allgather":
    "doubling" = Self::Doubling,
    "bruck" = Self::Bruck,
    "ring" = Self::Ring,
    "direct" = Self::Direct,
    "gather-bcast" = Self::GatherBcast,
    "multiplying:1" = Self::Multiplying(1),
    "multiplying:2" = Self::Multiplying(2),
    "multiplying:3" = Self::Multiplying(3),
    "multiplying:4" = Self::Multiplying(4),
    ; numbers: "multiplying" "STAGES" = Multiplying from 1 to STAGES
);
named!(
    Alltoall, "alltoall":
    "bruck" = Self::Bruck,
    "direct" = Self::Staged(64),
    "pairwise" = Self::Staged(1),
    ; numbers: "partners" "NUMBER" = Staged from 1 to PARTNERS
);
named!(
    ReduceScatter, "reduce_scatter":
    "via-root" = Self::ViaRoot,
    "halving" = Self::Halving,
    "pairwise" = Self::Pairwise,
    "direct" = Self::Direct,
    "multiplying:1" = Self::Multiplying(1),
    "multiplying:2" = Self::Multiplying(2),
    "multiplying:3" = Self::Multiplying(3),
    "multiplying:4" = Self::Multiplying(4),
    "ordered:2" = Self::Ordered(2),
    "ordered:3" = Self::Ordered(3),
    "ordered:4" = Self::Ordered(4),
    ; numbers: "multiplying" "STAGES" = Multiplying from 1 to STAGES, "ordered" "STAGES" = Ordered from 2 to STAGES
);
named!(Scan, "scan": "doubling" = Self::Doubling, "chain" = Self::Chain);

/// See [`barrier`](super::barrier).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Barrier {
    /// In round k, each rank sends to the one 2^k to its right.
    Dissemination,
    /// All report to rank 0, which releases all.
    Flat,
    /// By multiplying, in so many [stages](super::levels).
    Multiplying(u32),
}

/// See [`bcast`](super::bcast).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bcast {
    /// The root sends to everybody.
    Flat,
    /// Down a binomial tree.
    Binomial,
    /// The root's data is scattered, and its parts gathered by all.
    ScatterAllgather,
    /// From rank to rank, in pieces.
    Chain,
    /// Down [two trees](super::two_trees), in pieces of so many kilobytes.
    TwoTrees(u32),
    /// By multiplying, in so many [stages](super::levels).
    Multiplying(u32),
    /// By multiplying, in so many stages each way. The data is split in so many of them, and its parts are gathered by
    /// all.
    Split(u32, u32),
}

/// See [`reduce`](super::reduce).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduce {
    /// Everybody sends to the root.
    Flat,
    /// Up a binomial tree. For commutative operations, or root 0.
    Binomial,
    /// Up a binomial tree to rank 0, which passes the result to the root.
    Ordered,
    /// Recursive halving, and a gather.
    Halving,
    /// From rank to rank, in pieces. For commutative operations, or root 0.
    Chain,
    /// Up [two trees](super::two_trees), in pieces of so many kilobytes. For commutative operations.
    TwoTrees(u32),
    /// Up a tree, by multiplying, in so many [stages](super::levels). For commutative operations, or root 0.
    Multiplying(u32),
    /// By multiplying, in so many stages each way. The vector is split in so many of them, and its parts are gathered.
    /// For commutative operations.
    Split(u32, u32),
}

impl Reduce {
    /// Whether it combines in the order of ranks, for every root.
    pub const fn keeps_order(self) -> bool {
        matches!(self, Self::Flat | Self::Ordered | Self::Halving)
    }
}

/// See [`allreduce`](super::allreduce).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Allreduce {
    /// Recursive doubling.
    Doubling,
    /// Recursive halving, and the same way back.
    Halving,
    /// A reduction and a broadcast, in both of which rank 0 deals with all others itself.
    Flat,
    /// A reduction and a broadcast.
    ReduceBcast,
}

/// See [`gather`](super::gather) and [`scatter`](super::scatter).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tree {
    /// The root deals with all others itself.
    Linear,
    /// A binomial tree.
    Binomial,
}

/// See [`allgather`](super::allgather).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Allgather {
    /// Recursive doubling. For powers of two and even blocks.
    Doubling,
    /// As doubling, counted from the own rank, for any number of ranks.
    Bruck,
    /// Blocks go from rank to rank.
    Ring,
    /// Everybody sends to everybody.
    Direct,
    /// A gather and a broadcast. For even blocks.
    GatherBcast,
    /// By multiplying, in so many [stages](super::levels). For even blocks.
    Multiplying(u32),
}

impl Allgather {
    /// Whether it is for blocks of different lengths.
    pub const fn takes_any_blocks(self) -> bool {
        matches!(self, Self::Bruck | Self::Ring | Self::Direct)
    }
}

/// See [`alltoall`](super::alltoall).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alltoall {
    /// In round k, all blocks whose distance has bit k set. For even blocks.
    Bruck,
    /// With so many partners at a time.
    Staged(u32),
}

impl Alltoall {
    /// Partners at a time, if it is for blocks of different lengths.
    pub const fn partners(self) -> Option<u32> {
        match self {
            Self::Staged(partners) => Some(partners),
            Self::Bruck => None,
        }
    }
}

/// See [`reduce_scatter`](super::reduce_scatter).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceScatter {
    /// A reduction to rank 0, which scatters the result.
    ViaRoot,
    /// Recursive halving. For powers of two and commutative operations.
    Halving,
    /// One partner after the other. For commutative operations.
    Pairwise,
    /// Everybody sends to everybody.
    Direct,
    /// By multiplying, in so many [stages](super::levels). For commutative operations.
    Multiplying(u32),
    /// The same in the [order of ranks](super::levels), in more than one stage. For numbers of ranks that the factors divide.
    Ordered(u32),
}

/// See [`scan`](super::scan).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scan {
    /// In round k, ranks that differ in bit k swap.
    Doubling,
    /// From rank to rank.
    Chain,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_limits_and_one_spelling() {
        assert_eq!(Bcast::of_name("split:5:2"), Some(Bcast::Split(5, 2)));
        assert_eq!(Bcast::of_name("split:5"), Some(Bcast::Split(5, 5)));
        assert_eq!(Bcast::Split(5, 5).name(), "split:5");
        assert_eq!(Bcast::TwoTrees(8).name(), "two-trees:8");
        assert_eq!(Alltoall::of_name("partners:64"), Some(Alltoall::Staged(64)));
        assert_eq!(Alltoall::Staged(64).name(), "direct");
        for wrong in [
            "split:2:5",
            "split:0",
            "split:33",
            "split:5:0",
            "split:+5",
            "split",
            "split:",
            "split:5:2:1",
            "multiplying:2:2",
            "multiplying:4294967296",
            "two-trees:1048577",
            "chain:1",
            "ordered:2",
        ] {
            assert_eq!(Bcast::of_name(wrong), None, "{wrong}");
        }
        // In one stage it would keep no order, so that no call could be by it.
        assert_eq!(ReduceScatter::of_name("ordered:1"), None);
        assert_eq!(ReduceScatter::of_name("ordered:2"), Some(ReduceScatter::Ordered(2)));
    }

    #[test]
    fn what_is_said_of_numbers_is_what_they_can_be() {
        fn check<F: Form>() {
            for Numbered { word, least, most, .. } in F::NUMBERED {
                for (number, known) in
                    [(least - 1, false), (*least, true), (*most, true), (most + 1, false)]
                {
                    let name = format!("{word}:{number}");
                    assert_eq!(F::of_name(&name).is_some(), known, "{} {name}", F::COLLECTIVE);
                }
            }
        }
        check::<Barrier>();
        check::<Bcast>();
        check::<Reduce>();
        check::<Allgather>();
        check::<Alltoall>();
        check::<ReduceScatter>();
        let split = Bcast::NUMBERED.last().unwrap().to_string();
        assert_eq!(split, "split:STAGES:SPLITTING (1 to 32 and the second not above the first)");
    }
}
