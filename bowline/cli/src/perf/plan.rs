//! How much is measured: fixed before ranks start, from the arguments alone, so that all ranks
//! agree without talking.

use super::{Args, Kind, Test, Transport, name_of};

/// The measurement of one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) test: Test,
    pub(crate) transport: Transport,
    /// Number of ranks.
    pub(crate) ranks: u32,
    /// Whether ranks are threads.
    pub(crate) threads: bool,
    /// Payload, bytes.
    pub(crate) size: usize,
    /// Round trips, windows or operations to time.
    pub(crate) iterations: u64,
    /// The same before.
    pub(crate) warmup: u64,
    /// How many of them make one sample.
    pub(crate) batch: u64,
    /// Messages of a window; 1 where there are no windows.
    pub(crate) window: usize,
    /// Windows that are sent before the answer to an earlier one has come.
    pub(crate) ahead: u64,
}

/// Payload up to which reading the clock is a noticeable part of an operation.
const SHORT: usize = 4096;

/// Messages up to this length have slots for a whole window: slots for longer ones would measure the
/// memory behind the caches. Benchmarks of C programs post all receives of a window into one buffer.
const OWN_SLOT: usize = 8 << 10;

/// Bytes of the slots of longer ones, where several are received at once.
const SLOT_BYTES: usize = 512 << 10;

/// Operations of a sample up to there.
const BATCH: u64 = 8;

impl Plan {
    pub(crate) fn new(args: &Args, size: usize) -> Self {
        let kind = args.test.kind();
        let step = [SHORT, 64 << 10, 1 << 20].iter().filter(|&&limit| size > limit).count();
        let by_size = |steps: [u64; 4]| steps[step];
        // About a quarter of a second each on a machine of 2020.
        let usual = match kind {
            Kind::Latency => by_size([80_000, 8000, 1000, 100]),
            Kind::Windows => by_size([40_000, 1500, 250, 120]),
            Kind::Collective => by_size([8000, 1000, 200, 40]),
            Kind::Jobs => 10,
            Kind::Deaths => 20,
        };
        let iterations = args.iterations.unwrap_or(usual);
        let batch = match kind {
            Kind::Latency | Kind::Collective if size <= SHORT => BATCH.min(iterations),
            _ => 1,
        };
        let window = match kind {
            Kind::Windows => args.window.unwrap_or(by_size([64, 64, 16, 4])) as usize,
            _ => 1,
        };
        Self {
            test: args.test,
            transport: args.transport(),
            ranks: args.ranks(),
            threads: args.threads,
            size,
            iterations: iterations - iterations % batch,
            warmup: args.warmup.unwrap_or(iterations.div_ceil(10)),
            batch,
            window,
            ahead: u64::from(args.test.runs_ahead() && size <= OWN_SLOT),
        }
    }

    /// Messages of a window that are received at the same time, each into a slot of its own.
    ///
    /// From shared memory long ones are received one after the other into one slot. Over a network
    /// each would then wait for the answer to the one before, so some receives are posted ahead.
    pub(crate) fn slots(&self) -> usize {
        match self.transport {
            // Each is received when it has come.
            _ if self.test.receives_late() => 1,
            _ if self.size <= OWN_SLOT => self.window,
            Transport::Shm | Transport::Itself => 1,
            _ => (SLOT_BYTES / self.size).clamp(1, self.window),
        }
    }

    /// Bytes that one operation moves, for a rate.
    pub(crate) fn moved(&self) -> u64 {
        let blocks = match self.test {
            Test::Alltoall | Test::Allgather => u64::from(self.ranks.saturating_sub(1)).max(1),
            _ => 1,
        };
        blocks * self.size as u64
    }

    pub(crate) const fn kind(&self) -> Kind {
        self.test.kind()
    }

    pub(crate) fn test_name(&self) -> String {
        name_of(&self.test)
    }

    pub(crate) fn transport_name(&self) -> String {
        name_of(&self.transport)
    }

    /// Messages that are received in all, where there are windows.
    pub(crate) const fn messages(&self) -> u64 {
        // A window before and one behind, that are compared whole.
        (self.warmup + self.iterations + 2) * self.window as u64
    }

    /// Samples to take.
    pub(crate) const fn samples(&self) -> u64 {
        self.iterations / self.batch
    }
}
