//! The collectives whose algorithms have prices, as commands name them.

use bowline_model::coll::price::Staged;
use clap::ValueEnum;

/// A collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Collective {
    Barrier,
    Bcast,
    Reduce,
    Allreduce,
    Gather,
    Allgather,
    Alltoall,
    ReduceScatter,
}

impl Collective {
    /// Its name in settings and tables.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Bcast => "bcast",
            Self::Reduce => "reduce",
            Self::Allreduce => "allreduce",
            Self::Gather => "gather",
            Self::Allgather => "allgather",
            Self::Alltoall => "alltoall",
            Self::ReduceScatter => "reduce_scatter",
        }
    }

    /// The length by which prices and tables know a call with vectors, or blocks where each rank has one, of `bytes`.
    pub(crate) const fn length(self, ranks: u32, bytes: usize) -> usize {
        match self {
            Self::Barrier => 0,
            Self::ReduceScatter => bytes.saturating_mul(ranks as usize),
            _ => bytes,
        }
    }

    /// What it is through shared memory.
    pub(crate) const fn staged(self) -> Staged {
        match self {
            Self::Barrier => Staged::Barrier,
            Self::Bcast => Staged::Bcast,
            Self::Reduce => Staged::Reduce,
            Self::Allreduce => Staged::Allreduce,
            Self::Gather => Staged::Gather,
            Self::Allgather => Staged::Allgather,
            Self::Alltoall => Staged::Alltoall,
            Self::ReduceScatter => Staged::ReduceScatter,
        }
    }
}
