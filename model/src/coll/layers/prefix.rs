//! Prefix reductions in layers, where nodes are consecutive: within each node, then among the last ranks of nodes, which
//! have what their nodes have in all, then each rank puts what the nodes in front of its own have before its own prefix.

use super::super::nodes::{Among, Nodes};
use super::super::plan::{Place, Plan, Span};
use super::super::{bcast, forms::Scan, forms::Tree, scan as flat};
use super::{Layered, PHASES, bcast_within, inside};

/// A prefix reduction within a node.
pub const fn scan_within(how: Tree) -> Scan {
    match how {
        Tree::Linear => Scan::Chain,
        Tree::Binomial => Scan::Doubling,
    }
}

/// Bytes in front of the two vectors of scratch that the layers share.
fn behind(how: Layered<Scan>, len: usize) -> usize {
    flat::scratch(scan_within(how.within), len).max(flat::scratch(how.among, len))
}

/// Bytes of scratch that [`scan()`] needs for vectors of `len` bytes.
pub fn scan_scratch(how: Layered<Scan>, len: usize) -> usize {
    behind(how, len) + 2 * len
}

/// Brings the reduction of the inputs of all ranks up to this one to `output`; when `exclusive`, of those below it, and
/// rank 0's output is left alone. Nodes are consecutive.
///
/// # Errors
/// Those of the plan.
pub fn scan<P: Plan>(
    plan: &mut P,
    place: Place,
    nodes: &Nodes,
    how: Layered<Scan>,
    exclusive: bool,
    (input, output): (Span, Span),
) -> Result<(), P::Error> {
    let (members, inner) = inside(nodes, place.rank);
    let rank = |index: u32| members[index as usize];
    let (len, last) = (input.len, inner.size - 1);
    let at = behind(how, len);
    let (total, before) = (Span::scratch(at, len), Span::scratch(at + len, len));
    let mut within = Among::new(plan, 0, rank);
    flat::run(&mut within, inner, scan_within(how.within), exclusive, input, output)?;
    let node = Place { rank: nodes.node(place.rank), size: nodes.count() };
    if inner.rank == last {
        let of_node = match exclusive {
            false => output,
            true if last == 0 => input,
            true => {
                plan.copy(input, total);
                plan.reduce(output, total);
                total
            }
        };
        let last_of = |node| *nodes.members(node).last().expect("a node has a rank");
        let mut among = Among::new(plan, PHASES, last_of);
        flat::run(&mut among, node, how.among, true, of_node, before)?;
    }
    if node.rank == 0 {
        return Ok(());
    }
    let mut within = Among::new(plan, 2 * PHASES, rank);
    bcast::run(&mut within, inner, bcast_within(how.within), last, before)?;
    if exclusive && inner.rank == 0 {
        plan.copy(before, output);
    } else {
        plan.reduce(before, output);
    }
    Ok(())
}
