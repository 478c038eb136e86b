//! Topologies: how far nodes are from each other, and which rank is on which node.
//!
//! A message to another node takes the latency of the network and a time for each hop; one to a rank of the same node
//! has a latency of its own. There is no congestion: messages do not share links.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::latency::Latency;

/// How nodes are wired. Hops are links on the shortest route.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkTopology {
    /// Switches in levels: so many nodes on each of the lowest switches, so many of these below each of the next
    /// level, and so on. A message goes up to the first switch above both nodes, and down again. (Leiserson 1985.)
    FatTree(Vec<u32>),
    /// Routers in groups. All routers of a group are linked, and all groups, each pair by one link between two of
    /// their routers, which take turns. (Kim, Dally, Scott and Abts 2008.)
    Dragonfly {
        /// Nodes on each router.
        nodes: u32,
        /// Routers in each group.
        routers: u32,
        /// Groups.
        groups: u32,
    },
    /// A grid whose lines are rings, with one node at each crossing, in any number of dimensions.
    Torus(Vec<u32>),
}

/// Why ranks have no place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopologyError {
    /// Words that describe no topology.
    Words(String),
    /// There are more nodes with ranks than the topology has.
    TooSmall {
        /// Nodes that are wanted.
        wanted: u32,
        /// Nodes that there are.
        nodes: u32,
    },
}

impl fmt::Display for TopologyError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => write!(
                out,
                "{words:?} is no topology: fat-tree:16,8,4 (nodes on a switch, switches below each of the next \
                 level, ...), dragonfly:4,8,9 (nodes on a router, routers in a group, groups) and torus:8,8,8 are"
            ),
            Self::TooSmall { wanted, nodes } => {
                write!(out, "the ranks are on {wanted} nodes, and the topology has {nodes}")
            }
        }
    }
}

impl std::error::Error for TopologyError {}

impl FromStr for NetworkTopology {
    type Err = TopologyError;

    fn from_str(text: &str) -> Result<Self, TopologyError> {
        let wrong = || TopologyError::Words(text.to_owned());
        let (kind, numbers) = text.split_once(':').ok_or_else(wrong)?;
        let numbers = numbers.split(',').map(|number| number.trim().parse::<u32>());
        let numbers: Vec<u32> = numbers.collect::<Result<_, _>>().map_err(|_| wrong())?;
        let nodes = numbers.iter().try_fold(1_u32, |product, &number| product.checked_mul(number));
        // Not too many to be counted, and not none.
        if nodes.is_none_or(|nodes| nodes == 0) {
            return Err(wrong());
        }
        match (kind, &numbers[..]) {
            ("fat-tree", _) => Ok(Self::FatTree(numbers)),
            ("torus", _) => Ok(Self::Torus(numbers)),
            ("dragonfly", &[nodes, routers, groups]) => {
                Ok(Self::Dragonfly { nodes, routers, groups })
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for NetworkTopology {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list =
            |numbers: &[u32]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        match self {
            Self::FatTree(numbers) => write!(out, "fat-tree:{}", list(numbers)),
            Self::Torus(numbers) => write!(out, "torus:{}", list(numbers)),
            Self::Dragonfly { nodes, routers, groups } => {
                write!(out, "dragonfly:{nodes},{routers},{groups}")
            }
        }
    }
}

impl NetworkTopology {
    /// How many nodes it has.
    pub fn nodes(&self) -> u32 {
        match self {
            Self::FatTree(numbers) | Self::Torus(numbers) => numbers.iter().product(),
            Self::Dragonfly { nodes, routers, groups } => nodes * routers * groups,
        }
    }

    /// Hops from one node to another: 0 for the same one.
    pub fn hops(&self, from: u32, to: u32) -> u32 {
        if from == to {
            return 0;
        }
        match self {
            Self::FatTree(numbers) => {
                let (mut from, mut to, mut up) = (from, to, 0);
                for number in numbers {
                    (from, to, up) = (from / number, to / number, up + 1);
                    if from == to {
                        break;
                    }
                }
                2 * up
            }
            Self::Dragonfly { nodes, routers, groups } => {
                2 + between_routers(*routers, *groups, from / nodes, to / nodes)
            }
            Self::Torus(numbers) => {
                let (mut from, mut to, mut hops) = (from, to, 0);
                for number in numbers {
                    let apart = (from % number).abs_diff(to % number);
                    hops += apart.min(number - apart);
                    (from, to) = (from / number, to / number);
                }
                hops
            }
        }
    }
}

/// Links from one router of a dragonfly to another.
fn between_routers(routers: u32, groups: u32, from: u32, to: u32) -> u32 {
    let (home, away) = (from / routers, to / routers);
    if home == away {
        return u32::from(from != to);
    }
    // The links of a group to the others are dealt out to its routers, so many to each.
    let each = (groups - 1).div_ceil(routers);
    let gateway = |here: u32, there: u32| {
        let link = if there < here { there } else { there - 1 };
        here * routers + link / each
    };
    u32::from(from != gateway(home, away)) + 1 + u32::from(to != gateway(away, home))
}

/// Which rank is on which node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// So many ranks on one node, then on the next. At least 1.
    Block(u32),
    /// One rank on each of so many nodes, then from the first one on again. At least 1.
    Cyclic(u32),
    /// The node of each rank.
    Listed(Arc<[u32]>),
}

impl Placement {
    /// The node of a rank.
    ///
    /// # Panics
    /// When a list has no such rank.
    pub fn node(&self, rank: u32) -> u32 {
        match self {
            Self::Block(ranks) => rank / ranks,
            Self::Cyclic(nodes) => rank % nodes,
            Self::Listed(nodes) => nodes[rank as usize],
        }
    }
}

/// The latency of ranks that are somewhere.
#[derive(Clone, Debug)]
pub struct Wired {
    /// `None` where all nodes are equally far from each other.
    topology: Option<NetworkTopology>,
    placement: Placement,
    hop: f64,
    inside: f64,
}

impl Wired {
    /// So many ranks on the nodes of a topology, or of a network without one. A hop takes `hop` nanoseconds beside
    /// the latency of the network, and a message inside of a node `inside`.
    ///
    /// # Errors
    /// [`TopologyError::TooSmall`].
    pub fn new(
        ranks: u32,
        topology: Option<NetworkTopology>,
        placement: Placement,
        hop: f64,
        inside: f64,
    ) -> Result<Self, TopologyError> {
        let highest = match &placement {
            Placement::Block(each) => ranks.saturating_sub(1) / each,
            Placement::Cyclic(nodes) => (*nodes).min(ranks).saturating_sub(1),
            Placement::Listed(nodes) => nodes.iter().copied().max().unwrap_or(0),
        };
        match topology.as_ref().map(NetworkTopology::nodes) {
            Some(nodes) if nodes <= highest => {
                Err(TopologyError::TooSmall { wanted: highest.saturating_add(1), nodes })
            }
            _ => Ok(Self { topology, placement, hop, inside }),
        }
    }
}

impl Latency for Wired {
    fn flight(&mut self, from: u32, to: u32, plain: f64) -> f64 {
        let (from, to) = (self.placement.node(from), self.placement.node(to));
        if from == to {
            return self.inside;
        }
        let hops = self.topology.as_ref().map_or(0, |topology| topology.hops(from, to));
        plain + f64::from(hops) * self.hop
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> NetworkTopology {
        let topology: NetworkTopology = text.parse().unwrap();
        assert_eq!(topology.to_string(), text);
        let nodes = 0..topology.nodes();
        for (a, b) in nodes.clone().flat_map(|a| nodes.clone().map(move |b| (a, b))) {
            assert_eq!(topology.hops(a, b), topology.hops(b, a), "{text}: {a} and {b}");
            assert_eq!(topology.hops(a, b) == 0, a == b);
        }
        topology
    }

    /// Hops of all pairs by breadth first over links that are written out.
    fn searched(nodes: usize, links: &[(usize, usize)]) -> Vec<Vec<u32>> {
        let mut hops = vec![vec![u32::MAX; nodes]; nodes];
        for (start, hops) in hops.iter_mut().enumerate() {
            let mut queue = std::collections::VecDeque::from([start]);
            hops[start] = 0;
            while let Some(node) = queue.pop_front() {
                for &(a, b) in links {
                    let other = if a == node { b } else { a };
                    if (a == node || b == node) && hops[other] == u32::MAX {
                        hops[other] = hops[node] + 1;
                        queue.push_back(other);
                    }
                }
            }
        }
        hops
    }

    #[test]
    fn a_fat_tree_goes_up_to_the_common_switch() {
        let tree = all("fat-tree:4,3,2");
        assert_eq!(tree.nodes(), 24);
        let hops: Vec<u32> = [1, 3, 4, 11, 12, 23].map(|to| tree.hops(0, to)).into();
        assert_eq!(hops, [2, 2, 4, 4, 6, 6]);
    }

    #[test]
    fn a_torus_takes_the_shorter_way_round() {
        let torus = all("torus:4,3,5");
        // Links between neighbours in each dimension.
        let at = |x: usize, y: usize, z: usize| x % 4 + 4 * (y % 3) + 12 * (z % 5);
        let mut links = Vec::new();
        for (x, y, z) in (0..60).map(|i| (i % 4, i / 4 % 3, i / 12)) {
            let here = at(x, y, z);
            links.extend([
                (here, at(x + 1, y, z)),
                (here, at(x, y + 1, z)),
                (here, at(x, y, z + 1)),
            ]);
        }
        for (a, row) in searched(60, &links).iter().enumerate() {
            for (b, &hops) in row.iter().enumerate() {
                assert_eq!(torus.hops(a as u32, b as u32), hops, "{a} {b}");
            }
        }
    }

    #[test]
    fn a_dragonfly_has_five_hops_at_most_and_each_pair_of_groups_one_link() {
        let fly = all("dragonfly:2,4,9");
        let far = (0..72).flat_map(|a| (0..72).map(move |b| (a, b)));
        let hops: Vec<u32> = far.map(|(a, b)| fly.hops(a, b)).collect();
        assert_eq!(hops.iter().max(), Some(&5));
        assert_eq!((fly.hops(0, 1), fly.hops(0, 2)), (2, 3), "one router, one group");
        // Pairs of routers of two groups that are linked, which have three hops: as many as pairs of groups.
        let routers = (0..36).flat_map(|a| (0..36).map(move |b| (a, b)));
        let linked = routers.filter(|(a, b)| a / 4 < b / 4 && fly.hops(2 * a, 2 * b) == 3);
        assert_eq!(linked.count(), 9 * 8 / 2);
    }

    #[test]
    fn what_is_no_topology_says_what_is_one() {
        for wrong in
            ["", "ring", "torus:", "torus:0", "dragonfly:1,2", "fat-tree:x", "torus:65536,65536"]
        {
            let error = wrong.parse::<NetworkTopology>().unwrap_err().to_string();
            assert!(error.contains("fat-tree:16,8,4"), "{error}");
        }
    }

    #[test]
    fn ranks_of_one_node_are_near() {
        let torus = || Some("torus:4".parse().unwrap());
        let mut wired = Wired::new(8, torus(), Placement::Block(2), 50.0, 90.0).unwrap();
        assert_eq!(wired.flight(0, 1, 500.0), 90.0);
        assert_eq!(wired.flight(0, 2, 500.0), 550.0);
        assert_eq!(wired.flight(0, 4, 500.0), 600.0);
        let mut wired = Wired::new(8, torus(), Placement::Cyclic(4), 50.0, 90.0).unwrap();
        assert_eq!((wired.flight(0, 4, 500.0), wired.flight(0, 1, 500.0)), (90.0, 550.0));
        let listed = Placement::Listed([0, 0, 3].into());
        let mut wired = Wired::new(3, torus(), listed, 50.0, 90.0).unwrap();
        assert_eq!((wired.flight(0, 1, 1.0), wired.flight(1, 2, 500.0)), (90.0, 550.0));
        let error = Wired::new(9, torus(), Placement::Block(2), 50.0, 90.0).unwrap_err();
        assert_eq!(error, TopologyError::TooSmall { wanted: 5, nodes: 4 });
    }
}
