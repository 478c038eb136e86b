//! Which ranks of a communicator share a node, and plans of some of its ranks.
//!
//! All ranks know the same of this, so that they may choose by it.

use super::plan::{Plan, Span};

/// The ranks of a communicator by nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    of_rank: Vec<u32>,
    members: Vec<Vec<u32>>,
}

impl Nodes {
    /// Of the ranks whose nodes these are, in order; numbers may be any. Nodes are counted here by their first ranks.
    pub fn new(of_ranks: impl IntoIterator<Item = u32>) -> Self {
        let mut known = std::collections::HashMap::new();
        let (mut of_rank, mut members) = (Vec::new(), Vec::<Vec<u32>>::new());
        for (rank, name) in (0..).zip(of_ranks) {
            let node = *known.entry(name).or_insert_with(|| {
                members.push(Vec::new());
                members.len() - 1
            });
            members[node].push(rank);
            of_rank.push(node as u32);
        }
        Self { of_rank, members }
    }

    /// How many nodes there are.
    pub fn count(&self) -> u32 {
        self.members.len() as u32
    }

    /// Ranks of the node that has the most.
    pub fn most(&self) -> u32 {
        self.members.iter().map(Vec::len).max().unwrap_or(0) as u32
    }

    /// Whether there are several, one with several ranks: two kinds of ways between ranks.
    pub fn are_layers(&self) -> bool {
        self.members.len() > 1 && self.members.len() < self.of_rank.len()
    }

    /// Whether the ranks of each node follow each other.
    pub fn are_consecutive(&self) -> bool {
        self.of_rank.is_sorted()
    }

    /// The node of a rank.
    pub fn node(&self, rank: u32) -> u32 {
        self.of_rank[rank as usize]
    }

    /// The ranks of a node, in order.
    pub fn members(&self, node: u32) -> &[u32] {
        &self.members[node as usize]
    }

    /// The number of a rank among those of its node.
    pub fn index(&self, rank: u32) -> u32 {
        self.members(self.node(rank)).partition_point(|&member| member < rank) as u32
    }
}

/// The plan of some ranks, as one of all of them; its phases are behind some of that.
#[derive(Debug)]
pub struct Among<'a, P, R> {
    plan: &'a mut P,
    rank: R,
    phase: Option<u8>,
}

impl<'a, P: Plan, R: Fn(u32) -> u32> Among<'a, P, R> {
    /// Of the ranks that `rank` names, from `phase` on.
    pub fn new(plan: &'a mut P, phase: u8, rank: R) -> Self {
        plan.phase(phase);
        Self { plan, rank, phase: Some(phase) }
    }

    /// The same all in the phase of that plan: for algorithms that name their messages in one order at both ends, also
    /// one algorithm after the other.
    pub fn in_its_phase(plan: &'a mut P, rank: R) -> Self {
        Self { plan, rank, phase: None }
    }
}

impl<P: Plan, R: Fn(u32) -> u32> Plan for Among<'_, P, R> {
    type Error = P::Error;

    fn send(&mut self, to: u32, from: Span) -> Result<(), P::Error> {
        self.plan.send((self.rank)(to), from)
    }

    fn recv(&mut self, from: u32, into: Span) -> Result<(), P::Error> {
        self.plan.recv((self.rank)(from), into)
    }

    fn wait(&mut self) -> Result<(), P::Error> {
        self.plan.wait()
    }

    fn copy(&mut self, from: Span, into: Span) {
        self.plan.copy(from, into);
    }

    fn reduce(&mut self, left: Span, right: Span) {
        self.plan.reduce(left, right);
    }

    fn phase(&mut self, phase: u8) {
        if let Some(first) = self.phase {
            self.plan.phase(first + phase);
        }
    }

    fn track(&mut self, track: u8) -> Result<(), P::Error> {
        self.plan.track(track)
    }

    fn join(&mut self) -> Result<(), P::Error> {
        self.plan.join()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_counted_by_their_first_ranks() {
        let nodes = Nodes::new([7, 7, 3, 7, 3, 9]);
        assert_eq!((nodes.count(), nodes.most()), (3, 3));
        assert_eq!((nodes.members(0), nodes.members(1)), (&[0, 1, 3][..], &[2, 4][..]));
        assert_eq!((nodes.node(5), nodes.index(3), nodes.index(4)), (2, 2, 1));
        assert!(nodes.are_layers() && !nodes.are_consecutive());
        assert!(Nodes::new([5, 5, 1, 1, 1, 0]).are_consecutive());
        assert!(!Nodes::new([4; 5]).are_layers() && !Nodes::new(0..5).are_layers());
    }
}
