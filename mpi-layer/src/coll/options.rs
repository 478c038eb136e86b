//! What a user may ask of collectives.

use bowline_base::config::{Config, Setting};
use bowline_model::coll::price::{Costs, CostsError};
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
        /// What messages cost, by which the algorithms of collectives are chosen: auto, a table of limits
        /// that suits one machine; shm or tcp, with changes behind it in nanoseconds, such as
        /// tcp,pipelining=100000 for a network whose messages take 100 microseconds. Rank 0's is every rank's.
        pub COLL_COSTS: String = Setting::<String>::text("BOWLINE_COLL_COSTS", "auto")
            .cost("nothing; the first collective of a communicator makes its table, in about a millisecond")
            .change("for networks that are slow beside their processors");
    ];
}

/// What a user asks of collectives. Must be alike at all ranks of a world.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CollOptions {
    /// How allreduces are done.
    pub(crate) allreduce: WantedAllreduce,
    /// What messages cost, where that is known.
    pub(crate) costs: Option<Box<JobCosts>>,
}

/// What messages cost in a job, and how its ranks share processors.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JobCosts {
    pub(crate) costs: Costs,
    /// Ranks for each processor of a node, where they share processors.
    pub(crate) share: f64,
}

/// A setting of collectives that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {source}")]
pub struct CollOptionsError {
    setting: &'static str,
    source: Meaningless,
}

/// Why a setting means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Meaningless {
    #[error(transparent)]
    Allreduce(#[from] WantedError),
    #[error(transparent)]
    Costs(#[from] CostsError),
}

impl CollOptions {
    /// What the settings ask for.
    ///
    /// # Errors
    /// When an algorithm is named that does not exist.
    pub fn from_config(config: &Config) -> Result<Self, CollOptionsError> {
        let refused = |setting, source| CollOptionsError { setting, source };
        let wanted: Result<WantedAllreduce, _> = config.get(ALLREDUCE).parse();
        let allreduce = wanted.map_err(|error| refused(ALLREDUCE.name(), error.into()))?;
        let costs = match config.get(COLL_COSTS).as_str() {
            "auto" => None,
            text => {
                let costs = text.parse::<Costs>();
                let costs = costs.map_err(|error| refused(COLL_COSTS.name(), error.into()))?;
                Some(Box::new(JobCosts { costs, share: 1.0 }))
            }
        };
        Ok(Self { allreduce, costs })
    }

    /// What rank 0 has of the costs, for the others to [take](Self::agree_on_costs).
    pub fn costs_of_job(&self) -> String {
        self.costs.as_ref().map_or_else(|| "auto".to_owned(), |job| job.costs.to_string())
    }

    /// Takes the costs of rank 0, and how many ranks share each processor, as rank 0 found it.
    ///
    /// # Errors
    /// When the text is no cost.
    pub fn agree_on_costs(&mut self, of_rank_0: &str, share: f64) -> Result<(), CollOptionsError> {
        self.costs = match of_rank_0 {
            "auto" => None,
            text => {
                let costs = text.parse::<Costs>();
                let costs = costs.map_err(|error| CollOptionsError {
                    setting: COLL_COSTS.name(),
                    source: error.into(),
                })?;
                Some(Box::new(JobCosts { costs, share: 1.0 }))
            }
        };
        self.share_processors(share);
        Ok(())
    }

    /// So many ranks share each processor. Must be alike at all ranks.
    pub fn share_processors(&mut self, share: f64) {
        if let Some(job) = &mut self.costs {
            job.share = share.max(1.0);
        }
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
