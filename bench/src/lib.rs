//! Bowline's comparisons with other libraries, in one run on the same two cores.
//!
//! What it is: a harness that installs the peers (UCX, MPICH, Open MPI, Intel MPI), starts each
//! with settings that suit it, measures latency, rate, bandwidth, collectives with more ranks than
//! cores and start-up time, and puts the results beside Bowline's own and beside yardsticks: what
//! two processes reach with bare cache lines, bare `sched_yield` and bare futexes.
//!
//! [`run_networks`] does the same over TCP: through the loopback device, and between two network
//! namespaces with a veth pair between them.
//!
//! [`run_selection`] forces each means by which a long message may come, and sets Bowline's own choice beside them.
//!
//! What it is not: a check that can fail. Wall-clock figures of a shared machine report, they do not judge; each
//! row therefore carries its spread over the rounds, and the report carries the background load.
//!
//! Invariants: a peer that cannot be installed, started or parsed appears in the report with the
//! reason; a run over a network counts only if the device's counters show its messages; payloads of MPI peers are checked by the benchmark program; every started process has a
//! time limit and is ended by its id.
//!
//! ```no_run
//! # fn main() -> Result<(), bowline_bench::BenchError> {
//! let options = bowline_bench::PeersOptions { quick: true, ..Default::default() };
//! let report = bowline_bench::run(&options)?;
//! println!("{}", report.table());
//! report.plot("peers.png".as_ref())?;
//! # Ok(())
//! # }
//! ```

mod build;
mod choices;
mod command;
mod context;
mod delayed;
mod error;
mod hosts;
mod jobs;
mod load;
mod metric;
mod options;
mod plan;
mod plot;
mod report;
mod run;
mod selection;
mod source;
mod table;
mod traffic;
mod venv;
mod veth;

pub use delayed::{DelayedNetwork, Forwarded, HOSTS_MAX, Ping, RelayOptions};
pub use error::BenchError;
pub use jobs::{Amount, Contestant, Figures, Jobs, Order, Rounds, wheels};
pub use load::RoundLoad;
pub use metric::{Metric, Sample, Test, Unit, Wire};
pub use options::PeersOptions;
pub use plot::font::register as register_font;
pub use report::{Machine, Missing, PeersReport, Role, Row, SourceNote};
pub use run::{run, run_collectives, run_grid, run_networks, run_selection};
pub use selection::{Measure, SelectionCell};
