//! PageRank of a graph that is spread over the ranks.
//!
//! Every vertex has an owner, chosen by a hash of its id; a rank keeps the edges that lead to its
//! vertices. In each iteration it receives the contributions of exactly those vertices that its
//! edges come from: which ones is agreed once, before the first iteration. Contributions are
//! added in order of the sources' ids and global sums are taken in fixed point, so the result
//! does not depend on the number of ranks, to the last bit.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use bowline::mpi::{MpiError, Sum, World};

use super::graph::{self, Edge, Step, fixed, float};
use super::{Ranks, lines, parts, progress};
use crate::output;
use crate::start::{RankResult, together};

/// Largest difference to the sequential program that `--check` accepts.
const TOLERANCE: f64 = 1e-12;

/// Compute the PageRank of the vertices of a graph.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
EDGES has two whole numbers per line, `FROM TO`; what follows a # is a comment. An edge that
occurs twice counts twice.

Example:
  bowline demo pagerank examples/data/links.txt -n 4 --top 5 --check")]
pub(crate) struct Args {
    /// The file with the edges.
    edges: PathBuf,
    /// Iterations.
    #[arg(long, value_name = "N", default_value_t = 50)]
    iterations: u32,
    /// How likely a step follows an edge instead of jumping to any vertex.
    #[arg(long, value_name = "D", default_value_t = 0.85, value_parser = damping)]
    damping: f64,
    /// How many of the first vertices to print.
    #[arg(long, value_name = "K", default_value_t = 10)]
    top: usize,
    /// Compute the same on one processor too, and fail if the results differ.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    pub(super) ranks: Ranks,
}

fn damping(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| format!("`{text}` is no probability: it must be from 0 to 1"))
}

impl Args {
    fn cannot_read(&self) -> String {
        format!("cannot read {}", self.edges.display())
    }

    pub(super) fn check(&self) -> anyhow::Result<()> {
        let file = File::open(&self.edges).with_context(|| self.cannot_read())?;
        if !file.metadata()?.is_file() {
            bail!("{}: it is not a regular file", self.cannot_read());
        }
        Ok(())
    }
}

/// The vertices of one rank and what they need.
struct Share {
    /// Ids of the own vertices, in order.
    ids: Vec<i64>,
    /// Edges that leave each of them.
    degrees: Vec<u64>,
    /// For each own vertex, where its contributions stand in what arrives. In order of the
    /// sources' ids.
    sources: Vec<Vec<u32>>,
    /// Own vertices whose contributions go out, in the order of the receivers.
    wanted: Vec<u32>,
    /// How many of them go to each rank.
    outgoing: Vec<usize>,
    /// How many contributions come from each rank.
    incoming: Vec<usize>,
}

/// The work of one rank.
pub(super) fn pagerank(world: &World, args: &Args) -> RankResult {
    let share = Share::new(world, read(world, args)?)?;
    let mut vertices = [0];
    world.allreduce(&[share.ids.len() as u64], &mut vertices, Sum)?;
    let found = match vertices[0] {
        0 => Err(anyhow!("{} holds no edges", args.edges.display())),
        some => Ok(some),
    };
    let vertices = together(world, found)?;

    let bar = progress::bar(world, "iterating", args.iterations.into(), false);
    let mut ranks = vec![1.0 / vertices as f64; share.ids.len()];
    let mut change = 0;
    for _ in 0..args.iterations {
        change = share.iterate(world, &mut ranks, vertices, args.damping)?;
        bar.inc(1);
    }
    bar.finish_and_clear();

    if world.rank() == 0 {
        output::print(&format!(
            "{vertices} vertices, {} iterations\nthe last iteration changed the ranks by {:.3e} in sum",
            args.iterations,
            float(change)
        ))?;
    }
    let mut own: Vec<(i64, f64)> = share.ids.into_iter().zip(ranks).collect();
    let checked = if args.check { compare(world, args, &own)? } else { Ok(()) };
    best_first(&mut own);
    own.truncate(args.top);
    let mut best = gather(world, &own)?;
    if world.rank() == 0 {
        best_first(&mut best);
        let line = |(id, rank): &(i64, f64)| format!("{id:>20}  {rank:.12}\n");
        output::print(&best.iter().take(args.top).map(line).collect::<String>())?;
    }
    together(world, checked)
}

fn best_first(ranks: &mut [(i64, f64)]) {
    ranks.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
}

/// The pairs of all ranks at rank 0.
fn gather(world: &World, pairs: &[(i64, f64)]) -> Result<Vec<(i64, f64)>, MpiError> {
    let packed: Vec<u64> =
        pairs.iter().flat_map(|(id, rank)| [id.cast_unsigned(), rank.to_bits()]).collect();
    let all = parts::collect(world, &packed)?;
    let unpack = |pair: &[u64]| (pair[0].cast_signed(), f64::from_bits(pair[1]));
    Ok(all.chunks_exact(2).map(unpack).collect())
}

/// The edges in this rank's part of the file.
fn read(world: &World, args: &Args) -> RankResult<Vec<Edge>> {
    let (rank, ranks) = (world.rank() as u64, world.size() as u64);
    let size = std::fs::metadata(&args.edges).map_or(0, |file| file.len());
    let bar = progress::bar(world, "reading", size / ranks, true);
    let text = lines::read_part(&args.edges, rank, ranks, |bytes| bar.inc(bytes));
    let text = together(world, text.with_context(|| args.cannot_read()))?;
    let parsed = graph::parse(&text);
    bar.finish_and_clear();
    // The number of a line is known only when all ranks have counted theirs.
    let mut counts = vec![0; ranks as usize];
    world.allgather(&[parsed.lines], &mut counts)?;
    let before: u64 = counts[..rank as usize].iter().sum();
    together(
        world,
        match parsed.bad {
            None => Ok(parsed.edges),
            Some(bad) => {
                let line = before + bad.line + 1;
                Err(anyhow!("{}, line {line}: {}", args.edges.display(), bad.what))
            }
        },
    )
}

/// The rank that owns a vertex. Ids are often consecutive or multiples of something, so they are
/// scattered by a multiplication (Fibonacci hashing).
fn owner(id: i64, ranks: usize) -> usize {
    let scattered = id.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(scattered) * ranks as u128) >> 64) as usize
}

/// `items` grouped by the rank that owns `id(item)`, and the length of each group.
fn by_owner<T: Copy>(items: &[T], ranks: usize, id: impl Fn(&T) -> i64) -> (Vec<T>, Vec<usize>) {
    let mut grouped = items.to_vec();
    grouped.sort_by_key(|item| owner(id(item), ranks));
    let mut counts = vec![0; ranks];
    for item in items {
        counts[owner(id(item), ranks)] += 1;
    }
    (grouped, counts)
}

impl Share {
    fn new(world: &World, edges: Vec<Edge>) -> Result<Self, MpiError> {
        let ranks = world.size() as usize;
        // Owners of the sources count the edges that leave.
        let (leaving, counts) = by_owner(&edges, ranks, |[from, _]| *from);
        let leaving: Vec<i64> = leaving.into_iter().map(|[from, _]| from).collect();
        let (leaving, _) = parts::exchange(world, &leaving, &counts)?;
        // Owners of the targets keep the edges.
        let (arriving, counts) = by_owner(&edges, ranks, |[_, to]| *to);
        drop(edges);
        let (mut arriving, _) = parts::exchange(world, &arriving, &counts)?;
        arriving.sort_unstable_by_key(|[from, to]| (*to, *from));

        let mut ids: Vec<i64> = arriving.iter().map(|[_, to]| *to).collect();
        ids.extend(&leaving);
        ids.sort_unstable();
        ids.dedup();
        let places: HashMap<i64, u32> = ids.iter().copied().zip(0..).collect();
        let mut degrees = vec![0; ids.len()];
        for from in &leaving {
            degrees[places[from] as usize] += 1;
        }

        // Each rank asks the owners once for the sources of its edges.
        let mut needed: Vec<i64> = arriving.iter().map(|[from, _]| *from).collect();
        needed.sort_unstable();
        needed.dedup();
        let (needed, incoming) = by_owner(&needed, ranks, |id| *id);
        let (asked, outgoing) = parts::exchange(world, &needed, &incoming)?;
        let wanted = asked.iter().map(|id| places[id]).collect();

        let columns: HashMap<i64, u32> = needed.iter().copied().zip(0..).collect();
        let mut sources = vec![Vec::new(); ids.len()];
        for [from, to] in &arriving {
            sources[places[to] as usize].push(columns[from]);
        }
        Ok(Self { ids, degrees, sources, wanted, outgoing, incoming })
    }

    /// One iteration; returns the sum of all changes in fixed point.
    fn iterate(
        &self,
        world: &World,
        ranks: &mut [f64],
        vertices: u64,
        damping: f64,
    ) -> Result<u128, MpiError> {
        let lost = ranks.iter().zip(&self.degrees).filter(|(_, degree)| **degree == 0);
        let own = [lost.map(|(rank, _)| fixed(*rank)).sum::<u128>()];
        let mut dangling = [0];
        world.allreduce(&own, &mut dangling, Sum)?;
        let step = Step::new(vertices, damping, dangling[0]);

        let give = |&place: &u32| ranks[place as usize] / self.degrees[place as usize] as f64;
        let given: Vec<f64> = self.wanted.iter().map(give).collect();
        let mut taken = vec![0.0; self.incoming.iter().sum()];
        parts::deliver(world, &given, &self.outgoing, &mut taken, &self.incoming)?;

        let mut change = 0;
        for (rank, sources) in ranks.iter_mut().zip(&self.sources) {
            let mut sum = 0.0;
            for &column in sources {
                sum += taken[column as usize];
            }
            let new = step.apply(sum);
            change += fixed((new - *rank).abs());
            *rank = new;
        }
        let mut all = [0];
        world.allreduce(&[change], &mut all, Sum)?;
        Ok(all[0])
    }
}

/// Compares the result with that of the sequential program, at rank 0.
fn compare(world: &World, args: &Args, own: &[(i64, f64)]) -> RankResult<anyhow::Result<()>> {
    let mut all = gather(world, own)?;
    if world.rank() != 0 {
        return Ok(Ok(()));
    }
    all.sort_unstable_by_key(|(id, _)| *id);
    let mut text = Vec::new();
    let read = File::open(&args.edges).and_then(|mut file| file.read_to_end(&mut text));
    if let Err(error) = read {
        return Ok(Err(error).with_context(|| args.cannot_read()));
    }
    if !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    let expected = graph::sequential(&graph::parse(&text).edges, args.iterations, args.damping);
    let same = expected.len() == all.len()
        && expected.iter().zip(&all).all(|(expected, found)| expected.0 == found.0);
    if !same {
        return Ok(Err(anyhow!("the sequential program finds other vertices")));
    }
    let pairs = expected.iter().zip(&all);
    let difference = pairs.map(|(a, b)| (a.1 - b.1).abs()).fold(0.0, f64::max);
    let shown = format!("largest difference to the sequential program: {difference:e}");
    if let Err(error) = output::print(&shown) {
        return Ok(Err(error));
    }
    Ok(if difference <= TOLERANCE {
        Ok(())
    } else {
        Err(anyhow!("the result differs from the sequential program by more than {TOLERANCE:e}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_ranks_and_consecutive_ids_are_spread() {
        let mut counts = [0; 7];
        for id in -5000..5000 {
            counts[owner(id, 7)] += 1;
        }
        assert!(counts.iter().all(|&count| count > 1000), "{counts:?}");
        assert_eq!(owner(i64::MAX, 1), 0);
    }

    #[test]
    fn groups_follow_owners() {
        let ids = [5, 4, 3, 2, 1, 0];
        let (grouped, counts) = by_owner(&ids, 3, |id| *id);
        let expected: Vec<usize> = (0..3).flat_map(|k| vec![k; counts[k]]).collect();
        assert_eq!(grouped.iter().map(|&id| owner(id, 3)).collect::<Vec<_>>(), expected);
    }
}
