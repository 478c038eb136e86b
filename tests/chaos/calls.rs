//! The three ways to call a collective: blocking, nonblocking in a scope, and persistent.

use bowline::mpi::{
    BitXor, CollectiveRequest, Communicator, MpiError, Partition, PersistentCollective, Scope,
    commutative, ordered,
};

use crate::collective::{Blocks, Collective, Combine, Content, Which, compose};

/// The expression with the operation that is meant.
macro_rules! combining {
    ($combine:expr, |$op:ident| $call:expr) => {
        match $combine {
            Combine::Add => {
                let $op = commutative(u64::wrapping_add);
                $call
            }
            Combine::Xor => {
                let $op = BitXor;
                $call
            }
            Combine::Compose => {
                let $op = ordered(compose);
                $call
            }
        }
    };
}

impl Blocks {
    fn partition(&self) -> Partition<'_> {
        Partition::new(&self.counts, &self.places)
    }
}

impl Collective {
    fn partitions(&self, comm: &Communicator) -> (Blocks, Blocks, Blocks) {
        let (me, n) = (comm.rank() as usize, comm.size() as usize);
        let (to, from) = self.exchanged(me, n);
        (self.blocks(n), to, from)
    }

    /// The blocking call.
    pub(crate) fn block(
        &self,
        comm: &Communicator,
        input: &[u64],
        output: &mut [u64],
    ) -> Result<(), MpiError> {
        let root = self.root as i32;
        let (blocks, to, from) = self.partitions(comm);
        let parts = blocks.partition();
        match self.which {
            Which::Barrier => comm.barrier(),
            Which::Bcast => comm.bcast(output, root),
            Which::Gather => comm.gather(input, output, root),
            Which::Gatherv => comm.gatherv(input, output, parts, root),
            Which::Scatter => comm.scatter(input, output, root),
            Which::Scatterv => comm.scatterv(input, parts, output, root),
            Which::Allgather => comm.allgather(input, output),
            Which::Allgatherv => comm.allgatherv(input, output, parts),
            Which::Alltoall => comm.alltoall(input, output),
            Which::Alltoallv => comm.alltoallv(input, to.partition(), output, from.partition()),
            Which::Reduce => {
                combining!(self.combine, |op| comm.reduce(input, output, op, root))
            }
            Which::Allreduce => combining!(self.combine, |op| comm.allreduce(input, output, op)),
            Which::ReduceScatterBlock => {
                combining!(self.combine, |op| comm.reduce_scatter_block(input, output, op))
            }
            Which::ReduceScatter => {
                combining!(self.combine, |op| comm.reduce_scatter(
                    input,
                    output,
                    &blocks.counts,
                    op
                ))
            }
            Which::Scan => combining!(self.combine, |op| comm.scan(input, output, op)),
            Which::Exscan => combining!(self.combine, |op| comm.exscan(input, output, op)),
        }
    }

    /// The nonblocking call.
    pub(crate) fn begin<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        comm: &'scope Communicator,
        input: &'scope [u64],
        output: &'scope mut [u64],
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        let root = self.root as i32;
        let (blocks, to, from) = self.partitions(comm);
        let parts = blocks.partition();
        match self.which {
            Which::Barrier => scope.ibarrier(comm),
            Which::Bcast => scope.ibcast(comm, output, root),
            Which::Gather => scope.igather(comm, input, output, root),
            Which::Gatherv => scope.igatherv(comm, input, output, parts, root),
            Which::Scatter => scope.iscatter(comm, input, output, root),
            Which::Scatterv => scope.iscatterv(comm, input, parts, output, root),
            Which::Allgather => scope.iallgather(comm, input, output),
            Which::Allgatherv => scope.iallgatherv(comm, input, output, parts),
            Which::Alltoall => scope.ialltoall(comm, input, output),
            Which::Alltoallv => {
                scope.ialltoallv(comm, input, to.partition(), output, from.partition())
            }
            Which::Reduce => {
                combining!(self.combine, |op| scope.ireduce(comm, input, output, op, root))
            }
            Which::Allreduce => {
                combining!(self.combine, |op| scope.iallreduce(comm, input, output, op))
            }
            Which::ReduceScatterBlock => {
                combining!(self.combine, |op| scope.ireduce_scatter_block(comm, input, output, op))
            }
            Which::ReduceScatter => {
                let counts = &blocks.counts;
                combining!(self.combine, |op| scope
                    .ireduce_scatter(comm, input, output, counts, op))
            }
            Which::Scan => combining!(self.combine, |op| scope.iscan(comm, input, output, op)),
            Which::Exscan => combining!(self.combine, |op| scope.iexscan(comm, input, output, op)),
        }
    }

    /// The call that makes it persistent.
    pub(crate) fn make(
        &self,
        comm: &Communicator,
        content: Content,
    ) -> Result<Persistent, MpiError> {
        let root = self.root as i32;
        let (blocks, to, from) = self.partitions(comm);
        let parts = blocks.partition();
        let Content { input, output, .. } = content;
        let made = match self.which {
            Which::Barrier => return comm.barrier_init().map(Persistent::Barrier),
            Which::Bcast => comm.bcast_init(output, root),
            Which::Gather => comm.gather_init(input, output, root),
            Which::Gatherv => comm.gatherv_init(input, output, parts, root),
            Which::Scatter => comm.scatter_init(input, output, root),
            Which::Scatterv => comm.scatterv_init(input, parts, output, root),
            Which::Allgather => comm.allgather_init(input, output),
            Which::Allgatherv => comm.allgatherv_init(input, output, parts),
            Which::Alltoall => comm.alltoall_init(input, output),
            Which::Alltoallv => {
                comm.alltoallv_init(input, to.partition(), output, from.partition())
            }
            Which::Reduce => {
                combining!(self.combine, |op| comm.reduce_init(input, output, op, root))
            }
            Which::Allreduce => {
                combining!(self.combine, |op| comm.allreduce_init(input, output, op))
            }
            Which::ReduceScatterBlock => {
                combining!(self.combine, |op| comm.reduce_scatter_block_init(input, output, op))
            }
            Which::ReduceScatter => {
                let counts = &blocks.counts;
                combining!(self.combine, |op| comm.reduce_scatter_init(input, output, counts, op))
            }
            Which::Scan => combining!(self.combine, |op| comm.scan_init(input, output, op)),
            Which::Exscan => combining!(self.combine, |op| comm.exscan_init(input, output, op)),
        };
        made.map(Persistent::Words)
    }
}

/// A persistent collective.
#[derive(Debug)]
pub(crate) enum Persistent {
    Barrier(PersistentCollective<u8>),
    Words(PersistentCollective<u64>),
}

impl Persistent {
    /// Starts it with new contents.
    pub(crate) fn start(&mut self, content: &Content) -> Result<(), MpiError> {
        match self {
            Self::Barrier(barrier) => barrier.start(),
            Self::Words(words) => {
                words.input_mut()?.copy_from_slice(&content.input);
                words.output_mut()?.copy_from_slice(&content.output);
                words.start()
            }
        }
    }

    pub(crate) fn wait(&mut self) -> Result<(), MpiError> {
        match self {
            Self::Barrier(barrier) => barrier.wait(),
            Self::Words(words) => words.wait(),
        }
    }

    pub(crate) fn test(&mut self) -> Result<bool, MpiError> {
        match self {
            Self::Barrier(barrier) => barrier.test(),
            Self::Words(words) => words.test(),
        }
    }

    /// What it gave.
    pub(crate) fn output(&self) -> Result<&[u64], MpiError> {
        match self {
            Self::Barrier(_) => Ok(&[]),
            Self::Words(words) => words.output(),
        }
    }
}
