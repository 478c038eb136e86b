//! A network of the [costs](Costs) by which algorithms are chosen: a message takes what its price says of it.
//!
//! It is not the price of an algorithm: that is counted, and this is simulated. Costs of ranks that share a processor or
//! memory, and of ranks that come late, have no part in it.

use super::network::{NetworkModel, Transfer};
use crate::coll::price::Costs;

/// A message keeps its sender busy and is under way for as long as [`Costs`] say of its length: by size where they know
/// sizes, and with the handshake of long messages. Each keeps its receiver busy.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "costs, and no more")]
pub struct PricedNetwork(pub Costs);

impl PricedNetwork {
    fn transfer(&self, bytes: usize, start: f64) -> Transfer {
        let (pipelining, required) = self.0.message(bytes as f64);
        let local = start + required;
        Transfer { local, arrived: local + pipelining }
    }
}

impl NetworkModel for PricedNetwork {
    fn put(&mut self, _: u32, _: u32, bytes: usize, start: f64) -> Transfer {
        self.transfer(bytes, start)
    }

    fn get(&mut self, _: u32, _: u32, bytes: usize, start: f64) -> Transfer {
        self.transfer(bytes, start)
    }

    fn receive(&mut self, _: u32) -> f64 {
        self.0.receive
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_wait_for_their_handshake() {
        let costs = Costs { pipelining: 500.0, required: 100.0, byte: 0.5, ..Costs::TCP };
        let mut network = PricedNetwork(Costs { rendezvous: 4000.0, receive: 30.0, ..costs });
        let long = 1 << 21;
        let local = 100.0 + 0.5 * f64::from(long);
        let arrived = local + 4500.0;
        assert_eq!(network.put(0, 1, long as usize, 0.0), Transfer { local, arrived });
        assert_eq!(network.get(1, 0, 8, 1.0), Transfer { local: 105.0, arrived: 605.0 });
        assert_eq!(network.receive(1), 30.0);
    }

    #[test]
    fn sizes_that_were_measured_count() {
        let costs: Costs = "tcp,byte=3,at8=900/100,at64=950/128".parse().unwrap();
        let mut network = PricedNetwork(costs);
        assert_eq!(network.put(0, 1, 8, 0.0), Transfer { local: 100.0, arrived: 1000.0 });
        assert_eq!(network.put(0, 1, 36, 0.0), Transfer { local: 114.0, arrived: 1039.0 });
        assert_eq!(network.put(0, 1, 66, 0.0), Transfer { local: 134.0, arrived: 1084.0 });
    }
}
