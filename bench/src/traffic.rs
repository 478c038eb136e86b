//! Proof that messages crossed a network device: its counters before and after a run.
//!
//! A library that is asked to use TCP may ignore that and stay in shared memory, which gives fine
//! figures for the wrong thing. So every run over a network must have moved at least what its
//! figures say it moved. Other users of the loopback device count too: the proof is good on an
//! otherwise quiet device, and always good between hosts of ours, which nobody else knows.

use std::fs;
use std::path::PathBuf;

use crate::BenchError;
use crate::context::Context;
use crate::metric::{Metric, Test, Wire};

/// The counters of one device at the start of a run.
#[derive(Debug)]
pub(crate) struct Meter {
    directory: PathBuf,
    /// Loopback counts everything in both directions.
    both_directions: bool,
    start: Counters,
}

/// Since the device was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counters {
    packets: u64,
    bytes: u64,
}

impl Meter {
    /// Of the device of `wire`; `None` where there is none.
    pub(crate) fn start(context: &Context, wire: Wire) -> Result<Option<Self>, BenchError> {
        let directory = match wire {
            Wire::Memory => return Ok(None),
            Wire::Loopback => PathBuf::from("/sys/class/net/lo/statistics"),
            Wire::Veth | Wire::Delayed => match context.hosts(wire)? {
                Some(hosts) => hosts.statistics(0),
                None => return Ok(None),
            },
        };
        let mut meter =
            Self { directory, both_directions: wire != Wire::Loopback, start: Counters::default() };
        meter.start = meter.counters();
        Ok(Some(meter))
    }

    fn counters(&self) -> Counters {
        let read = |name: &str| -> u64 {
            let text = fs::read_to_string(self.directory.join(name)).unwrap_or_default();
            text.trim().parse().unwrap_or(0)
        };
        let sent = if self.both_directions { ["tx_packets", "tx_bytes"].map(read) } else { [0, 0] };
        Counters { packets: read("rx_packets") + sent[0], bytes: read("rx_bytes") + sent[1] }
    }

    /// Fails unless the device has moved what `figures` need: metrics, each with the number of
    /// its messages.
    pub(crate) fn check(
        &self,
        program: &str,
        figures: impl IntoIterator<Item = (Metric, u64)>,
    ) -> Result<(), BenchError> {
        let now = self.counters();
        let moved = Counters {
            packets: now.packets.saturating_sub(self.start.packets),
            bytes: now.bytes.saturating_sub(self.start.bytes),
        };
        judge(program, moved, needed(figures))
    }
}

/// What the messages of `figures` need of the first rank. Many messages of a window fit into one packet;
/// those of a ping-pong do not, nor do those of two collectives that keep all ranks together.
fn needed(figures: impl IntoIterator<Item = (Metric, u64)>) -> Counters {
    figures.into_iter().fold(Counters::default(), |sum, (metric, messages)| Counters {
        packets: sum.packets + if apart(metric) { messages } else { 0 },
        bytes: sum.bytes + messages * metric.size,
    })
}

/// Whether no two messages of a metric fit into one packet.
fn apart(metric: Metric) -> bool {
    match metric.test {
        Test::Bcast | Test::Reduce => false,
        test if test.is_collective() => true,
        _ => metric.window() == 1,
    }
}

fn judge(program: &str, moved: Counters, needed: Counters) -> Result<(), BenchError> {
    if moved.packets >= needed.packets && moved.bytes >= needed.bytes {
        return Ok(());
    }
    Err(BenchError::NotOnTheWire {
        program: program.to_owned(),
        packets: moved.packets,
        bytes: moved.bytes,
        needed_packets: needed.packets,
        needed_bytes: needed.bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_stayed_in_memory_is_found_out() {
        let lat = Metric::pair(Test::TagLat, 8).over(Wire::Loopback);
        let bw = Metric::pair(Test::TagBw, 1 << 20).over(Wire::Loopback);
        let needed = needed([(lat, 100), (bw, 32)]);
        assert_eq!(needed, Counters { packets: 100, bytes: 800 + (32 << 20) });
        assert!(judge("x", needed, needed).is_ok());
        for less in
            [Counters { packets: 99, ..needed }, Counters { bytes: needed.bytes - 1, ..needed }]
        {
            assert!(matches!(judge("x", less, needed), Err(BenchError::NotOnTheWire { .. })));
        }
    }
}
