//! What a user may ask of collectives.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bowline_base::config::{Config, Setting};
use bowline_model::coll::nodes::Nodes;
use bowline_model::coll::price::{CostsError, JobCosts};
use bowline_model::coll::tuned::{Tuned, TunedError};
use bowline_model::coll::wanted::{Wanted, WantedError};

bowline_base::settings! {
    /// Settings of collectives.
    pub const SETTINGS = [
        /// The algorithm of barriers: auto, what Bowline chooses; staged, through memory that the ranks of one node
        /// share, in calls that return at the end (others, and ranks without such memory, go by the messages that auto
        /// chooses); dissemination, flat, or multiplying:N (by N stages). Where ranks are on several nodes and costs are
        /// known, nodes:linear:NAME or nodes:binomial:NAME goes by the tree within nodes and by NAME among them;
        /// bowline explain shows such names for all collectives but all-to-alls, gathers and scatters of blocks of different
        /// lengths, which go straight between ranks; other all-to-alls have
        /// pairwise, direct or partners:N among nodes, and allgathers, scattered and prefix reductions need nodes whose
        /// ranks follow each other. A communicator's info key bowline_barrier goes before it. Alike on all ranks.
        pub BARRIER: String = Setting::<String>::text("BOWLINE_BARRIER", "auto")
            .cost("nothing")
            .change("to compare algorithms on a network, or where one of them was measured to be the quickest");
        /// The algorithm of broadcasts: auto, staged (to 64 ranks), flat, binomial, scatter-allgather, chain, two-trees:N (in pieces
        /// of N kilobytes), multiplying:N (by N stages), or split:N:M (the same, of which the first M split the data; split:N
        /// is split:N:N). Alike on all ranks.
        pub BCAST: String = Setting::<String>::text("BOWLINE_BCAST", "auto")
            .cost("nothing")
            .change("as for BOWLINE_BARRIER");
        /// The algorithm of reductions to one rank: auto, staged (to 64 ranks), flat, binomial, ordered, halving, chain, or two-trees,
        /// multiplying and split with numbers as for broadcasts. Operations that are not commutative are reduced
        /// as auto says unless it is flat, ordered or halving. Alike on all ranks.
        pub REDUCE: String = Setting::<String>::text("BOWLINE_REDUCE", "auto")
            .cost("nothing")
            .change("as for BOWLINE_BARRIER");
        /// The algorithm of allreduces: auto; staged (to 64 ranks beyond 56 bytes); doubling, halving, flat or reduce-bcast;
        /// multiplying, or multiplying:RATIO for a network whose latency is RATIO (above 0) times what a message costs
        /// its sender; or a schedule of recursive multiplying, such as a4,a2 or s4,a2,g4 for 8 ranks, which
        /// communicators
        /// of other sizes do without. Alike on all ranks.
        pub ALLREDUCE: String = Setting::<String>::text("BOWLINE_ALLREDUCE", "auto")
            .cost("nothing")
            .change("as for BOWLINE_BARRIER");
        /// The algorithm of gathers of blocks of one length: auto, staged (to 64 ranks), linear or binomial. Alike on all ranks.
        pub GATHER: String = Setting::<String>::text("BOWLINE_GATHER", "auto")
            .cost("nothing")
            .change("as for BOWLINE_BARRIER");
        /// The algorithm of scatters of blocks of one length: auto, linear or binomial. Alike on all ranks.
        pub SCATTER: String = Setting::<String>::text("BOWLINE_SCATTER", "auto")
            .cost("nothing")
            .change("as for BOWLINE_BARRIER");
        /// The algorithm of allgathers: auto, staged (to 64 ranks), doubling, bruck, ring, direct, gather-bcast, or
        /// multiplying:N. As auto says go blocks of different lengths where it is doubling, gather-bcast or
        /// multiplying, and numbers of ranks that are no
        /// power of two where it is doubling. Alike on all ranks.
        pub ALLGATHER: String = Setting::<String>::text("BOWLINE_ALLGATHER", "auto")
            .cost("nothing")
            .change("as for BOWLINE_BARRIER");
        /// The algorithm of all-to-alls: auto, staged (to 64 ranks), bruck, direct (with 64 partners at a time),
        /// pairwise (with one) or partners:N (with N).
        /// Blocks of different lengths go as auto says where it is bruck. Alike on all ranks.
        pub ALLTOALL: String = Setting::<String>::text("BOWLINE_ALLTOALL", "auto")
            .cost("nothing")
            .change("as for BOWLINE_BARRIER");
        /// The algorithm of reductions that are scattered: auto, staged (to 64 ranks), via-root, halving, pairwise, direct, or
        /// multiplying:N, or ordered:N (the same with N from 2, keeping the order of ranks).
        /// Operations that are not commutative go as auto says where it is halving, pairwise or multiplying, and so do
        /// numbers of ranks that are no power of two where it is halving, or that have no such factors where it is
        /// ordered. Alike on all ranks.
        pub REDUCE_SCATTER: String = Setting::<String>::text("BOWLINE_REDUCE_SCATTER", "auto")
            .cost("nothing")
            .change("as for BOWLINE_BARRIER");
        /// The algorithm of prefix reductions: auto, doubling or chain. Alike on all ranks.
        pub SCAN: String = Setting::<String>::text("BOWLINE_SCAN", "auto")
            .cost("nothing")
            .change("as for BOWLINE_BARRIER");
        /// What messages cost, by which the algorithms of collectives are chosen: auto, what bowline model fit --keep
        /// has kept of the job's transports on this machine (BOWLINE_MODEL), or else what is assumed of them, rdma of ofi
        /// and verbs; shm, tcp or rdma, with changes behind it in nanoseconds (but interference, a part from 0 to 1),
        /// such as tcp,pipelining=100000 for a network whose messages take 100 microseconds, or at1024=20000/3500
        /// for messages of one size as bowline model fit finds them, or skew=5000 where ranks come late for each stage;
        /// or two of these, shm/tcp, of messages
        /// within nodes and between them. Rank 0's is every rank's.
        pub COLL_COSTS: String = Setting::<String>::text("BOWLINE_COLL_COSTS", "auto")
            .cost("nothing; the first collective of a communicator makes its table, in about a millisecond")
            .change("for networks that are slow beside their processors");
    ];
}

/// The settings that name algorithms, in the order of [`Wanted::COLLECTIVES`].
const ALGORITHMS: [Setting<String>; 10] =
    [BARRIER, BCAST, REDUCE, ALLREDUCE, GATHER, SCATTER, ALLGATHER, ALLTOALL, REDUCE_SCATTER, SCAN];

/// What is between the costs of a job and its algorithms.
const BETWEEN: &str = "; ";

/// What a user asks of collectives. Must be alike at all ranks of a world.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CollOptions {
    /// The algorithms that are asked for.
    pub(crate) wanted: Wanted,
    /// What messages cost, where that is known.
    pub(crate) costs: Option<Box<Pricing>>,
    /// What was found to be the quickest before the job began.
    pub(crate) tuned: Arc<Tuned>,
    /// The node of each rank of the world, where there are several.
    nodes: Option<Arc<[u32]>>,
    /// Their hash.
    nodes_hash: u64,
}

/// What messages cost in a job, and how its ranks share processors.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pricing {
    pub(crate) costs: JobCosts,
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
    Algorithm(#[from] WantedError),
    #[error(transparent)]
    Costs(#[from] CostsError),
    #[error(transparent)]
    Tuned(#[from] TunedError),
    #[error(
        "this rank is asked for {own} and rank 0 for {rank_0}; BOWLINE_BCAST and the like must be alike on all ranks"
    )]
    Differ { own: String, rank_0: String },
}

impl CollOptions {
    /// What the settings ask for.
    ///
    /// # Errors
    /// When an algorithm is named that does not exist.
    pub fn from_config(config: &Config) -> Result<Self, CollOptionsError> {
        let refused = |setting, source| CollOptionsError { setting, source };
        let mut wanted = Wanted::default();
        for (collective, setting) in Wanted::COLLECTIVES.into_iter().zip(ALGORITHMS) {
            let asked = wanted.set(collective, &config.get(setting));
            asked.map_err(|error| refused(setting.name(), error.into()))?;
        }
        let costs = match config.get(COLL_COSTS).as_str() {
            "auto" => None,
            text => {
                let costs = text.parse::<JobCosts>();
                let costs = costs.map_err(|error| refused(COLL_COSTS.name(), error.into()))?;
                Some(Box::new(Pricing { costs, share: 1.0 }))
            }
        };
        Ok(Self { wanted, costs, tuned: Arc::default(), nodes: None, nodes_hash: 0 })
    }

    /// The algorithm that is asked for of each collective, by its name: `auto` where none is.
    pub fn algorithms(&self) -> [(&'static str, String); 10] {
        self.wanted.words()
    }

    /// A number that two ranks have in common only if they choose by the same.
    pub(crate) fn hash(&self) -> u64 {
        self.hash_with(&self.wanted)
    }

    /// The same where a communicator asks for other algorithms. Never 0.
    pub(crate) fn hash_with(&self, wanted: &Wanted) -> u64 {
        let mut hasher = DefaultHasher::new();
        if let Some(job) = &self.costs {
            job.costs.to_string().hash(&mut hasher);
            job.share.to_bits().hash(&mut hasher);
        }
        wanted.to_string().hash(&mut hasher);
        if !self.tuned.is_empty() {
            self.tuned.to_string().hash(&mut hasher);
        }
        self.nodes_hash.hash(&mut hasher);
        hasher.finish() | 1
    }

    /// What rank 0 has, for the others to [agree](Self::agree) with: its costs, the algorithms that it is asked for,
    /// and its table.
    pub fn of_job(&self) -> String {
        let costs = self.costs.as_ref().map(|job| job.costs.to_string());
        let costs = costs.as_deref().unwrap_or("auto");
        format!("{costs}{BETWEEN}{}{BETWEEN}{}", self.wanted, self.tuned)
    }

    /// Algorithms that were found to be the quickest before the job: they go before those that costs choose. For rank 0,
    /// whose table is every rank's.
    pub fn set_table(&mut self, table: Tuned) {
        self.tuned = Arc::new(table);
    }

    /// Takes the costs and the table of rank 0, and how many ranks share each processor, as rank 0 found it. The
    /// algorithms that the two are asked for must be the same.
    ///
    /// # Errors
    /// When they are not, or the text says nothing of costs or has a table that is none.
    pub fn agree(&mut self, of_rank_0: &str, share: f64) -> Result<(), CollOptionsError> {
        let mut parts = of_rank_0.splitn(3, BETWEEN);
        let (costs, algorithms) = (parts.next().unwrap_or("auto"), parts.next().unwrap_or("auto"));
        let tuned = Tuned::parse(parts.next().unwrap_or_default().as_bytes());
        self.tuned = Arc::new(tuned.map_err(|error| CollOptionsError {
            setting: "the table of rank 0",
            source: error.into(),
        })?);
        let own = self.wanted.to_string();
        if own != algorithms {
            let rank_0 = algorithms.to_owned();
            let source = Meaningless::Differ { own, rank_0 };
            return Err(CollOptionsError { setting: "algorithms of collectives", source });
        }
        self.costs = match costs {
            "auto" => None,
            text => {
                let costs = text.parse::<JobCosts>();
                let costs = costs.map_err(|error| CollOptionsError {
                    setting: COLL_COSTS.name(),
                    source: error.into(),
                })?;
                Some(Box::new(Pricing { costs, share: 1.0 }))
            }
        };
        self.share_processors(share);
        Ok(())
    }

    /// Where nothing is said of costs, these are assumed, as [`COLL_COSTS`] has them. For rank 0, whose are every
    /// rank's.
    ///
    /// # Errors
    /// When they are none.
    pub fn assume(&mut self, costs: &str) -> Result<(), CollOptionsError> {
        if self.costs.is_none() {
            let costs = costs.parse::<JobCosts>().map_err(|error| CollOptionsError {
                setting: COLL_COSTS.name(),
                source: error.into(),
            })?;
            self.costs = Some(Box::new(Pricing { costs, share: 1.0 }));
        }
        Ok(())
    }

    /// The node of each rank of the world, by any numbers; all ranks say the same.
    pub fn set_nodes(&mut self, nodes: impl Into<Arc<[u32]>>) {
        let nodes = nodes.into();
        let mut hasher = DefaultHasher::new();
        nodes.hash(&mut hasher);
        self.nodes_hash = hasher.finish();
        self.nodes = Some(nodes);
    }

    /// The nodes of some ranks of the world, where there are several.
    pub(crate) fn nodes(&self, world_ranks: impl Iterator<Item = u32>) -> Option<Nodes> {
        let nodes = self.nodes.as_deref()?;
        // A rank that nobody said anything of is on none of them.
        let node = |rank: u32| nodes.get(rank as usize).copied().unwrap_or(u32::MAX);
        Some(Nodes::new(world_ranks.map(node))).filter(|nodes| nodes.count() > 1)
    }

    /// So many ranks share each processor. Must be alike at all ranks.
    pub fn share_processors(&mut self, share: f64) {
        if let Some(job) = &mut self.costs {
            job.share = share.max(1.0);
        }
    }
}
