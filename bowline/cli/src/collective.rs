//! The collectives whose algorithms have prices, as commands name them.

use bowline_model::coll::price::{OpClass, Staged};
use clap::ValueEnum;

/// A collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Collective {
    Barrier,
    Bcast,
    Reduce,
    Allreduce,
    Gather,
    /// Blocks may have different lengths, which the root alone knows; priced for blocks of one length.
    Gatherv,
    Scatter,
    /// As gatherv.
    Scatterv,
    Allgather,
    /// Blocks may have different lengths; priced for blocks of one length.
    Allgatherv,
    Alltoall,
    /// Blocks may have different lengths, which do not decide: a rank knows those of its own blocks only. For the same reason
    /// no algorithm is in layers.
    Alltoallv,
    ReduceScatter,
    Scan,
    Exscan,
}

/// The class of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Class {
    Vector,
    Pairs,
    Scalar,
    Function,
}

impl From<Class> for OpClass {
    fn from(class: Class) -> Self {
        match class {
            Class::Vector => Self::Vector,
            Class::Pairs => Self::Pairs,
            Class::Scalar => Self::Scalar,
            Class::Function => Self::Function,
        }
    }
}

impl Collective {
    /// Whether it has an operation.
    pub(crate) const fn reduces(self) -> bool {
        matches!(
            self,
            Self::Reduce | Self::Allreduce | Self::ReduceScatter | Self::Scan | Self::Exscan
        )
    }

    /// Its name in commands.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value().expect("no collective is hidden");
        value.get_name().to_owned()
    }

    /// Whether it has one algorithm, which neither settings nor tables name.
    pub(crate) const fn has_no_choice(self) -> bool {
        matches!(self, Self::Gatherv | Self::Scatterv)
    }

    /// The collective whose algorithms settings and tables name for this one, if they name any.
    pub(crate) const fn setting(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Bcast => "bcast",
            Self::Reduce => "reduce",
            Self::Allreduce => "allreduce",
            Self::Gather => "gather",
            Self::Gatherv => "gatherv",
            Self::Scatter => "scatter",
            Self::Scatterv => "scatterv",
            Self::Allgather | Self::Allgatherv => "allgather",
            Self::Alltoall | Self::Alltoallv => "alltoall",
            Self::ReduceScatter => "reduce_scatter",
            Self::Scan | Self::Exscan => "scan",
        }
    }

    /// Whether tables have cells of it; the others take the algorithms of one that has, or have one algorithm.
    pub(crate) const fn has_cells(self) -> bool {
        !self.has_no_choice() && !matches!(self, Self::Allgatherv | Self::Alltoallv | Self::Exscan)
    }

    /// The length by which prices and tables know a call with vectors, or blocks where each rank has one, of `bytes`.
    pub(crate) const fn length(self, ranks: u32, bytes: usize) -> usize {
        match self {
            Self::Barrier => 0,
            Self::ReduceScatter => bytes.saturating_mul(ranks as usize),
            _ => bytes,
        }
    }

    /// What it is through shared memory, if anything goes there.
    pub(crate) const fn staged(self) -> Option<Staged> {
        Some(match self {
            Self::Scatter | Self::Scan | Self::Exscan => return None,
            Self::Gatherv | Self::Scatterv | Self::Allgatherv | Self::Alltoallv => return None,
            Self::Barrier => Staged::Barrier,
            Self::Bcast => Staged::Bcast,
            Self::Reduce => Staged::Reduce,
            Self::Allreduce => Staged::Allreduce,
            Self::Gather => Staged::Gather,
            Self::Allgather => Staged::Allgather,
            Self::Alltoall => Staged::Alltoall,
            Self::ReduceScatter => Staged::ReduceScatter,
        })
    }
}
