//! A network of nodes with several ranks each: messages inside of a node cost something else than those across.
//!
//! Inside, a receiver copies out of memory that both share: a message keeps its sender busy for what it takes to say so,
//! and its bytes delay its arrival. So a sender's data is copied by all its receivers at once. What receiving takes there
//! is charged to the sender, for it is not what receiving from another node takes.

use super::network::{NetworkModel, Transfer};
use super::priced::PricedNetwork;

/// Ranks on nodes, so many in a row on each.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "two networks and a number")]
pub struct TwoLevelNetwork {
    /// Ranks on a node, at least 1.
    pub each: u32,
    /// Messages inside of a node.
    pub inside: PricedNetwork,
    /// Messages across nodes; the receivers of all messages are busy as long as theirs.
    pub across: PricedNetwork,
}

impl TwoLevelNetwork {
    fn transfer(&mut self, (by, with): (u32, u32), bytes: usize, start: f64) -> Transfer {
        if by / self.each != with / self.each {
            return self.across.put(by, with, bytes, start);
        }
        let start = start + self.inside.receive(with);
        let Transfer { local, .. } = self.inside.put(by, with, 0, start);
        let Transfer { arrived, .. } = self.inside.put(by, with, bytes, start);
        Transfer { local, arrived }
    }
}

impl NetworkModel for TwoLevelNetwork {
    fn put(&mut self, from: u32, to: u32, bytes: usize, start: f64) -> Transfer {
        self.transfer((from, to), bytes, start)
    }

    fn get(&mut self, by: u32, from: u32, bytes: usize, start: f64) -> Transfer {
        self.transfer((by, from), bytes, start)
    }

    fn receive(&mut self, process: u32) -> f64 {
        self.across.receive(process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coll::price::Costs;

    #[test]
    fn bytes_keep_senders_busy_across_nodes_only() {
        let network = |pipelining, required, receive| {
            PricedNetwork(Costs { pipelining, required, receive, byte: 0.5, ..Costs::TCP })
        };
        let mut nodes = TwoLevelNetwork {
            each: 4,
            inside: network(50.0, 7.0, 3.0),
            across: network(500.0, 100.0, 30.0),
        };
        assert_eq!(nodes.put(4, 7, 100, 1.0), Transfer { local: 11.0, arrived: 111.0 });
        assert_eq!(nodes.put(3, 4, 100, 1.0), Transfer { local: 151.0, arrived: 651.0 });
        assert_eq!(nodes.get(8, 9, 0, 0.0), Transfer { local: 10.0, arrived: 60.0 });
        assert_eq!(nodes.receive(8), 30.0);
    }
}
