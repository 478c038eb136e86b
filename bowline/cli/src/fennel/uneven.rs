//! Collectives of blocks of different lengths.

use anyhow::{Context, Result, ensure};
use bowline_model::coll::blocks::Blocks;
use bowline_model::coll::forms::{Alltoall, Form};
use bowline_model::coll::plan::{Space, Span};
use bowline_model::coll::price::{Algorithm, Prices};
use bowline_model::coll::{allgather, alltoall, gather, layers, scatter};

use super::super::numbers;
use super::programs::{Job, Ranks, nodes, pick, pick_algorithm, stated};

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Allgatherv,
    Alltoallv,
    Gatherv,
    Scatterv,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Allgatherv => "allgatherv",
            Self::Alltoallv => "alltoallv",
            Self::Gatherv => "gatherv",
            Self::Scatterv => "scatterv",
        }
    }
}

/// A collective whose blocks have different lengths.
#[derive(Debug, clap::Args)]
pub(super) struct Uneven {
    #[command(flatten)]
    pub(super) of: Ranks,
    /// Bytes of the blocks: of rank 0, rank 1 and so on, and from the first one on again. In an all-to-all, the block of rank
    /// I for rank J has those of rank I + J.
    #[arg(long, value_name = "BYTES,...", value_parser = numbers::size, value_delimiter = ',',
          default_value = "8")]
    sizes: Vec<usize>,
    /// The algorithm: auto, the cheapest on this network; or one by name. A wrong name lists them.
    #[arg(long, value_name = "NAME", default_value = "auto")]
    algorithm: String,
    /// The root of a gather or scatter.
    #[arg(long, value_name = "RANK", default_value_t = 0)]
    root: u32,
}

/// Where blocks lie, without gaps in the buffer of each rank.
pub(super) trait Lengths: 'static {
    /// The block of a rank among those of all, whose lengths all ranks know.
    fn block(&self, rank: u32, space: Space) -> Span;

    /// The block that a rank sends to another one.
    fn sent(&self, from: u32, to: u32) -> Span;

    /// The same at its receiver.
    fn received(&self, by: u32, from: u32) -> Span;
}

/// Blocks whose places a function gives.
struct At<F>(F);

impl<F: Fn(u32) -> Span> Blocks for At<F> {
    fn span(&self, rank: u32) -> Span {
        (self.0)(rank)
    }
}

/// The lengths of blocks, which come again and again.
struct Repeated {
    /// Of the blocks until they come again.
    each: Vec<usize>,
    /// Bytes before each of them, and of all.
    before: Vec<usize>,
}

impl Repeated {
    /// Of so many ranks, whose blocks fit into the address space.
    fn new(each: &[usize], ranks: u32) -> Result<Self> {
        let (mut before, mut sum) = (vec![0], Some(0_usize));
        for len in each {
            sum = sum.and_then(|sum| sum.checked_add(*len));
            before.push(sum.unwrap_or(0));
        }
        // In an all-to-all, ranks begin anywhere.
        let times = 2 * ranks as usize / each.len() + 2;
        sum.and_then(|sum| sum.checked_mul(times))
            .context("so many blocks of these sizes are beyond the address space")?;
        Ok(Self { each: each.to_vec(), before })
    }

    fn at(&self, index: usize) -> usize {
        self.each[index % self.each.len()]
    }

    /// Bytes of the blocks before one.
    fn before(&self, index: usize) -> usize {
        let count = self.each.len();
        index / count * self.before[count] + self.before[index % count]
    }

    /// A block, where the one of `first` lies at 0.
    fn from(&self, first: u32, rank: u32, space: Space) -> Span {
        let (first, index) = (first as usize, (first + rank) as usize);
        Span::new(space, self.before(index) - self.before(first), self.at(index))
    }
}

impl Lengths for Repeated {
    fn block(&self, rank: u32, space: Space) -> Span {
        self.from(0, rank, space)
    }

    fn sent(&self, from: u32, to: u32) -> Span {
        self.from(from, to, Space::Input)
    }

    fn received(&self, by: u32, from: u32) -> Span {
        self.from(by, from, Space::Output)
    }
}

/// Bytes of the block of a rank, in the mean.
fn mean(lengths: &impl Lengths, ranks: u32) -> usize {
    let all: usize = (0..ranks).map(|rank| lengths.block(rank, Space::Output).len).sum();
    all / ranks as usize
}

/// A collective of blocks of these lengths as a job, and the name of its algorithm.
///
/// # Errors
/// When there is no such algorithm.
pub(super) fn job(
    kind: Kind,
    lengths: impl Lengths,
    (ranks, root): (u32, u32),
    wanted: &str,
    prices: &Prices,
) -> Result<(Job, String)> {
    let (job, name) = match kind {
        Kind::Allgatherv => {
            let each = (0..ranks).map(|rank| lengths.block(rank, Space::Output).len);
            let (longest, total) = (each.clone().max().unwrap_or(0), each.sum::<usize>());
            let how = pick_algorithm(prices.allgathervs((total as f64, longest as f64)), wanted)?;
            let nodes = nodes(prices);
            let job = stated(ranks, move |plan, place| {
                let blocks = At(|rank| lengths.block(rank, Space::Output));
                let own = Span::input(blocks.len(place.rank));
                match how {
                    Algorithm::Form(how) => allgather::any(plan, place, how, own, &blocks),
                    Algorithm::Layered(how) => {
                        layers::allgatherv(plan, place, &nodes, how, own, &blocks)
                    }
                }
            });
            (job, how.name())
        }
        Kind::Alltoallv => {
            let how = pick(prices.alltoallvs(), wanted)?;
            let Alltoall::Staged(partners) = how else {
                anyhow::bail!("--algorithm {wanted}: blocks of one length only")
            };
            let job = stated(ranks, move |plan, place| {
                let input = At(|to| lengths.sent(place.rank, to));
                let output = At(|from| lengths.received(place.rank, from));
                alltoall::staged(plan, place, partners, &input, &output)
            });
            (job, how.name())
        }
        Kind::Gatherv => {
            let how = pick(vec![prices.gathervs(mean(&lengths, ranks))], wanted)?;
            let job = stated(ranks, move |plan, place| {
                let blocks = At(|rank| lengths.block(rank, Space::Output));
                let own = Span::input(blocks.len(place.rank));
                gather::linear(plan, place, root, own, &blocks)
            });
            (job, how.name())
        }
        Kind::Scatterv => {
            let how = pick(vec![prices.scattervs(mean(&lengths, ranks))], wanted)?;
            let job = stated(ranks, move |plan, place| {
                let blocks = At(|rank| lengths.block(rank, Space::Input));
                let own = Span::output(blocks.len(place.rank));
                scatter::linear(plan, place, root, &blocks, own)
            });
            (job, how.name())
        }
    };
    Ok((job?, name))
}

impl Uneven {
    /// Bytes of a block, in the mean.
    pub(super) fn mean(&self) -> usize {
        self.sizes.iter().fold(0_usize, |sum, len| sum.saturating_add(*len)) / self.sizes.len()
    }

    /// The bytes of the blocks, in words.
    pub(super) fn sizes(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(ToString::to_string).collect();
        sizes.join(",")
    }

    /// The collective as a job, and the name of its algorithm.
    ///
    /// # Errors
    /// When there is no such algorithm or root, or blocks are too long.
    pub(super) fn job(&self, kind: Kind, prices: &Prices) -> Result<(Job, String)> {
        let (ranks, root, wanted) = (self.of.ranks, self.root, self.algorithm.as_str());
        let rooted = matches!(kind, Kind::Gatherv | Kind::Scatterv);
        ensure!(rooted || root == 0, "--root {root}: this collective has no root");
        ensure!(root < ranks, "--root {root}: ranks are 0 to {}", ranks - 1);
        job(kind, Repeated::new(&self.sizes, ranks)?, (ranks, root), wanted, prices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lie_one_after_the_other_and_come_again() {
        let lengths = Repeated::new(&[3, 0, 5], 8).unwrap();
        for first in 0..4 {
            let mut at = 0;
            for rank in 0..8 {
                let len = [3, 0, 5][(first as usize + rank as usize) % 3];
                assert_eq!(lengths.received(first, rank), Span::new(Space::Output, at, len));
                at += len;
            }
        }
        assert!(Repeated::new(&[usize::MAX / 8], 8).is_err());
        assert!(Repeated::new(&[usize::MAX, 2], 1).is_err());
    }
}
