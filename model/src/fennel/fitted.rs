//! A network whose parameters depend on the size of a message, as fits of measurements have them.

use std::cell::Cell;
use std::rc::Rc;

use super::network::{NetworkModel, Transfer};
use crate::cost::Pipelining;
use crate::fit::sizes::BySize;

/// The pipelining model with alpha_p and alpha_r as functions of the size.
///
/// A fit may not hold for long messages. Those that it does not hold for take no time, and [`Beyond`] counts them:
/// who runs such a network reads it before it believes the times.
#[derive(Clone, Debug)]
pub struct Fitted {
    by_size: BySize,
    beyond: Beyond,
}

/// The least message for which a fit did not hold, if there was one.
#[derive(Clone, Debug, Default)]
pub struct Beyond(Rc<Cell<Option<usize>>>);

impl Beyond {
    /// Its bytes.
    pub fn least(&self) -> Option<usize> {
        self.0.get()
    }

    fn note(&self, bytes: usize) {
        let least = self.least().map_or(bytes, |least| least.min(bytes));
        self.0.set(Some(least));
    }
}

impl Fitted {
    /// A network with these parameters.
    pub fn new(by_size: BySize) -> Self {
        Self { by_size, beyond: Beyond::default() }
    }

    /// Its parameters.
    pub const fn by_size(&self) -> &BySize {
        &self.by_size
    }

    /// Counts messages that the fit does not hold for.
    pub fn beyond(&self) -> Beyond {
        self.beyond.clone()
    }

    fn transfer(&self, bytes: usize, start: f64) -> Transfer {
        let cost = self.by_size.at(bytes as u64).unwrap_or_else(|| {
            self.beyond.note(bytes);
            Pipelining { pipelining: 0.0, required: 0.0 }
        });
        let local = start + cost.required;
        Transfer { local, arrived: local + cost.pipelining }
    }
}

impl NetworkModel for Fitted {
    fn put(&mut self, _: u32, _: u32, bytes: usize, start: f64) -> Transfer {
        self.transfer(bytes, start)
    }

    fn get(&mut self, _: u32, _: u32, bytes: usize, start: f64) -> Transfer {
        self.transfer(bytes, start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::CostError;

    #[test]
    fn a_message_takes_what_its_size_does() {
        let cost = |pipelining, required| Pipelining { pipelining, required };
        let points = vec![(8, cost(880.0, 380.0)), (1000, cost(900.0, 880.0))];
        let mut by_size = BySize::through(points).unwrap();
        by_size.rejected =
            vec![(9000, CostError::Unphysical { pipelining: -1.0, required: 10_000.0 })];
        let mut network = Fitted::new(by_size);
        let beyond = network.beyond();
        let half = network.put(0, 1, 504, 10.0);
        assert_eq!(half, Transfer { local: 640.0, arrived: 640.0 + 890.0 });
        assert_eq!(network.get(0, 1, 8, 0.0), Transfer { local: 380.0, arrived: 1260.0 });
        assert_eq!(beyond.least(), None);
        network.put(0, 1, 10_000, 0.0);
        network.put(0, 1, 9000, 0.0);
        assert_eq!(beyond.least(), Some(9000));
    }
}
