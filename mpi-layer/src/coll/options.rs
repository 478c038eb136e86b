//! What a user may ask of collectives.

use bowline_base::config::{Config, Setting};
use bowline_model::coll::wanted::{WantedAllreduce, WantedError};
use bowline_model::stages::Stage;

bowline_base::settings! {
    /// Settings of collectives.
    pub const SETTINGS = [
        /// The algorithm of allreduces: auto, what Bowline chooses; doubling, halving, flat or reduce-bcast;
        /// multiplying, or multiplying:RATIO for a network whose latency is RATIO times what a message costs
        /// its sender; or a schedule of recursive multiplying, such as a4,a2 for 8 ranks, which communicators
        /// of other sizes do without. Alike on all ranks.
        pub ALLREDUCE: String = Setting::<String>::text("BOWLINE_ALLREDUCE", "auto")
            .cost("nothing")
            .change("to compare algorithms on a network, or where one of them was measured to be the quickest");
    ];
}

/// What a user asks of collectives. Must be alike at all ranks of a world.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CollOptions {
    /// How allreduces are done.
    pub(crate) allreduce: WantedAllreduce,
}

/// A setting of collectives that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {source}")]
pub struct CollOptionsError {
    setting: &'static str,
    source: WantedError,
}

impl CollOptions {
    /// What the settings ask for.
    ///
    /// # Errors
    /// When an algorithm is named that does not exist.
    pub fn from_config(config: &Config) -> Result<Self, CollOptionsError> {
        let refused = |source| CollOptionsError { setting: ALLREDUCE.name(), source };
        Ok(Self { allreduce: config.get(ALLREDUCE).parse().map_err(refused)? })
    }
}

/// What this rank does in an allreduce by recursive multiplying.
#[derive(Debug)]
pub(crate) struct Multiplying {
    pub(crate) stages: Vec<Stage>,
    /// Contributions are combined in the order of ranks.
    pub(crate) ordered: bool,
}

impl Multiplying {
    /// That of a rank in a communicator, if it is wanted.
    pub(crate) fn wanted(options: &CollOptions, ranks: u32, rank: u32) -> Option<Self> {
        let schedule = options.allreduce.schedule(ranks)?;
        Some(Self { stages: schedule.stages(rank), ordered: schedule.keeps_order() })
    }
}
