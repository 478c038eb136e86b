//! What a transport's operations cost: the figures from which protocols are chosen and reads are split, and
//! where each of them comes from. No clock is here: figures are measured elsewhere and come as values.
//!
//! The model is the pipelining one (Rüfenacht 2020, chapter 4): `b` operations of `n` bytes each,
//! begun one after the other, take
//!
//! ```text
//! T(b, n) = pipelining + b · (required + n · per_byte)
//! ```
//!
//! where `pipelining` may overlap with other operations and `required` keeps the processor. Only
//! the initiator prices and its decision travels with the message, so that two hosts whose figures
//! differ still understand each other.

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CostOrigin {
    /// It came with the library: true of some machine, not of this one.
    Assumed,
    /// Measured on this machine by one process.
    Probed,
    /// Measured on this machine between two ranks, by `bowline calibrate`.
    Calibrated,
}

impl CostOrigin {
    /// One word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Assumed => "assumed",
            Self::Probed => "probed",
            Self::Calibrated => "calibrated",
        }
    }
}

/// A figure: nanoseconds, or nanoseconds per byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// How much.
    pub value: f64,
    /// From where.
    pub origin: CostOrigin,
}

impl Figure {
    /// One that nobody has measured here.
    pub const fn assumed(value: f64) -> Self {
        Self { value, origin: CostOrigin::Assumed }
    }

    /// Replaces the figure by one of the same or a better origin. What is no cost (negative, not a
    /// number) is not taken: a fit through noise can give it.
    pub fn learn(&mut self, value: f64, origin: CostOrigin) {
        if value.is_finite() && value >= 0.0 && origin >= self.origin {
            *self = Self { value, origin };
        }
    }
}

/// The cost of a class of operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pipe {
    /// Nanoseconds, once for a series, until the far side has it.
    pub pipelining: Figure,
    /// Nanoseconds of the initiator's processor, for each operation.
    pub required: Figure,
    /// Nanoseconds for each byte.
    pub per_byte: Figure,
}

impl Pipe {
    const fn assumed(pipelining: f64, required: f64, per_byte: f64) -> Self {
        Self {
            pipelining: Figure::assumed(pipelining),
            required: Figure::assumed(required),
            per_byte: Figure::assumed(per_byte),
        }
    }

    /// Nanoseconds of `count` operations that move `bytes` together.
    pub const fn time(&self, count: f64, bytes: f64) -> f64 {
        self.pipelining.value + count * self.required.value + bytes * self.per_byte.value
    }

    /// The figures by name.
    pub const fn figures(&self) -> [(&'static str, Figure); 3] {
        [("pipelining", self.pipelining), ("required", self.required), ("per_byte", self.per_byte)]
    }

    /// The figure of this name.
    fn figure_mut(&mut self, name: &str) -> Option<&mut Figure> {
        Some(match name {
            "pipelining" => &mut self.pipelining,
            "required" => &mut self.required,
            "per_byte" => &mut self.per_byte,
            _ => return None,
        })
    }
}

/// What the operations of one transport cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransportCosts {
    /// Messages; a byte's cost is that of its way from one processor or host to the other.
    pub message: Pipe,
    /// One copy of a byte by a processor, into or out of the transport's memory.
    pub copy: Figure,
    /// Reads of a peer's memory.
    pub get: Pipe,
    /// Writes to it.
    pub put: Pipe,
}

/// Names of the classes of operations.
const PIPES: [&str; 3] = ["message", "get", "put"];

impl TransportCosts {
    /// What is assumed of a provider's transport, which leads to other hosts if it is a `network`: medians
    /// of a two-processor virtual machine (Xeon, 2.1 GHz) for those that it had, but for the answers that reads and writes
    /// over tcp wait for, which come from another host; for others what a network of 100 Gbit/s is sold with.
    pub fn assumed(provider: &str, network: bool) -> Self {
        let copy = Figure::assumed(0.03);
        let of = |message, get, put| Self { message, copy, get, put };
        match provider {
            "self" => of(
                Pipe::assumed(5.0, 15.0, 0.0),
                Pipe::assumed(0.0, 20.0, 0.03),
                Pipe::assumed(0.0, 20.0, 0.03),
            ),
            "shm" => of(
                Pipe::assumed(150.0, 45.0, 0.12),
                Pipe::assumed(0.0, 1100.0, 0.045),
                Pipe::assumed(0.0, 1100.0, 0.045),
            ),
            "tcp" => of(
                Pipe::assumed(2600.0, 1000.0, 0.10),
                // Both wait for an answer, over a network as `coll::price::Costs::TCP` has it.
                Pipe::assumed(40_000.0, 1500.0, 0.11),
                Pipe::assumed(40_000.0, 1500.0, 0.11),
            ),
            _ if network => of(
                Pipe::assumed(1000.0, 200.0, 0.08),
                Pipe::assumed(2000.0, 200.0, 0.08),
                Pipe::assumed(1200.0, 200.0, 0.08),
            ),
            _ => of(
                Pipe::assumed(300.0, 100.0, 0.1),
                Pipe::assumed(300.0, 300.0, 0.05),
                Pipe::assumed(300.0, 300.0, 0.05),
            ),
        }
    }

    /// Every figure under its name, such as `get.required`.
    pub fn figures(&self) -> Vec<(String, Figure)> {
        let mut all = Vec::new();
        for (class, pipe) in PIPES.iter().zip([self.message, self.get, self.put]) {
            all.extend(pipe.figures().map(|(name, figure)| (format!("{class}.{name}"), figure)));
        }
        all.push(("copy".to_owned(), self.copy));
        all
    }

    /// The figure with this name; `None` when there is none.
    pub fn figure_mut(&mut self, name: &str) -> Option<&mut Figure> {
        let Some((class, figure)) = name.split_once('.') else {
            return (name == "copy").then_some(&mut self.copy);
        };
        let pipe = match class {
            "message" => &mut self.message,
            "get" => &mut self.get,
            "put" => &mut self.put,
            _ => return None,
        };
        pipe.figure_mut(figure)
    }
}

/// What is known of the transports of a machine beside what is assumed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownCosts {
    /// Provider, name of the figure, the figure.
    known: Vec<(String, String, Figure)>,
}

impl KnownCosts {
    /// Takes note of a figure of a provider, by the names of [`TransportCosts::figures`].
    pub fn learn(&mut self, provider: &str, name: &str, figure: Figure) {
        self.known.push((provider.to_owned(), name.to_owned(), figure));
    }

    /// All that was taken note of: provider, name, figure.
    pub fn known(&self) -> &[(String, String, Figure)] {
        &self.known
    }

    /// What the operations of a provider's transport cost, as far as is known, and what is assumed of the
    /// rest ([`TransportCosts::assumed`]).
    pub fn of(&self, of: &str, network: bool) -> TransportCosts {
        let mut costs = TransportCosts::assumed(of, network);
        for (provider, name, figure) in &self.known {
            if provider == of
                && let Some(known) = costs.figure_mut(name)
            {
                known.learn(figure.value, figure.origin);
            }
        }
        costs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_in_an_example() {
        let pipe = Pipe::assumed(880.0, 380.0, 0.5);
        assert_eq!(pipe.time(1.0, 8.0), 880.0 + 380.0 + 4.0);
        // Operations of a series overlap but for what they require.
        assert_eq!(pipe.time(4.0, 0.0), 880.0 + 4.0 * 380.0);
    }

    #[test]
    fn better_figures_replace_worse_ones_only() {
        let mut costs = KnownCosts::default();
        let figure = |value, origin| Figure { value, origin };
        costs.learn("shm", "get.required", figure(700.0, CostOrigin::Calibrated));
        costs.learn("shm", "get.required", figure(300.0, CostOrigin::Probed));
        costs.learn("shm", "copy", figure(-1.0, CostOrigin::Calibrated));
        costs.learn("shm", "put.per_byte", figure(f64::NAN, CostOrigin::Calibrated));
        costs.learn("shm", "no.such", figure(1.0, CostOrigin::Calibrated));
        costs.learn("tcp", "copy", figure(9.0, CostOrigin::Probed));
        let of = costs.of("shm", false);
        assert_eq!(of.get.required, figure(700.0, CostOrigin::Calibrated));
        assert_eq!(of.copy.origin, CostOrigin::Assumed);
        assert_eq!(of.put, TransportCosts::assumed("shm", false).put);
        assert_eq!(costs.of("tcp", true).copy, figure(9.0, CostOrigin::Probed));
    }

    #[test]
    fn every_figure_is_found_by_its_name() {
        let mut costs = TransportCosts::assumed("shm", false);
        let names: Vec<String> = costs.figures().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), 10);
        for (at, name) in names.iter().enumerate() {
            costs.figure_mut(name).unwrap().learn(at as f64, CostOrigin::Probed);
        }
        let values: Vec<f64> = costs.figures().into_iter().map(|(_, f)| f.value).collect();
        assert_eq!(values, (0..names.len()).map(|at| at as f64).collect::<Vec<_>>());
    }
}
