//! The three ways to call a collective: blocking, nonblocking in a scope, and persistent.

use std::borrow::Cow;

use bowline::mpi::{
    BitXor, Block, BlockMut, CollectiveRequest, Communicator, MpiError, OwnedBlock, Partition,
    PersistentCollective, PersistentExchange, Scope, commutative, ordered,
};

use crate::collective::{Blocks, Collective, Combine, Content, UNTOUCHED, Which, compose};
use crate::neighbors::Member;

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

    /// The blocks of an exchange, of which some are pairs of words: the other end may have the words one by one.
    fn sent<'a>(&self, words: &'a [u64]) -> Vec<Block<'a>> {
        let block = |number| match &words[self.block(number)] {
            block if in_pairs(number, block.len()) => block.as_chunks::<2>().0.into(),
            block => block.into(),
        };
        (0..self.counts.len()).map(block).collect()
    }

    fn received<'a>(&self, words: &'a mut [u64]) -> Vec<BlockMut<'a>> {
        let (mut left, mut all) = (words, Vec::new());
        for (number, &count) in self.counts.iter().enumerate() {
            // One word, which nothing may write, separates a block from the next one.
            let (block, rest) = left.split_at_mut(count);
            all.push(match in_pairs(number, count) {
                true => block.as_chunks_mut::<2>().0.into(),
                false => block.into(),
            });
            left = &mut rest[1..];
        }
        all
    }

    fn owned(&self, words: &[u64]) -> Vec<OwnedBlock> {
        let block = |number| match &words[self.block(number)] {
            block if in_pairs(number, block.len()) => block.as_chunks::<2>().0.to_vec().into(),
            block => block.to_vec().into(),
        };
        (0..self.counts.len()).map(block).collect()
    }
}

/// Whether so many words of a block are pairs.
const fn in_pairs(number: usize, words: usize) -> bool {
    number % 2 == 1 && words.is_multiple_of(2)
}

impl Collective {
    fn partitions(&self, member: Member<'_>) -> (Blocks, Blocks, Blocks) {
        let (to, from) = self.exchanged(member);
        (self.blocks(member.n), to, from)
    }

    /// The blocking call.
    pub(crate) fn block(
        &self,
        comm: &Communicator,
        member: Member<'_>,
        input: &[u64],
        output: &mut [u64],
    ) -> Result<(), MpiError> {
        let root = self.root as i32;
        let (blocks, to, from) = self.partitions(member);
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
            Which::Alltoallw => comm.alltoallw(to.sent(input), from.received(output)),
            Which::NeighborAllgather => comm.neighbor_allgather(input, output),
            Which::NeighborAllgatherv => comm.neighbor_allgatherv(input, output, from.partition()),
            Which::NeighborAlltoall => comm.neighbor_alltoall(input, output),
            Which::NeighborAlltoallv => {
                comm.neighbor_alltoallv(input, to.partition(), output, from.partition())
            }
            Which::NeighborAlltoallw => {
                comm.neighbor_alltoallw(to.sent(input), from.received(output))
            }
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
        (comm, member): (&'scope Communicator, Member<'_>),
        input: &'scope [u64],
        output: &'scope mut [u64],
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        let root = self.root as i32;
        let (blocks, to, from) = self.partitions(member);
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
            Which::Alltoallw => scope.ialltoallw(comm, to.sent(input), from.received(output)),
            Which::NeighborAllgather => scope.ineighbor_allgather(comm, input, output),
            Which::NeighborAllgatherv => {
                scope.ineighbor_allgatherv(comm, input, output, from.partition())
            }
            Which::NeighborAlltoall => scope.ineighbor_alltoall(comm, input, output),
            Which::NeighborAlltoallv => {
                scope.ineighbor_alltoallv(comm, input, to.partition(), output, from.partition())
            }
            Which::NeighborAlltoallw => {
                scope.ineighbor_alltoallw(comm, to.sent(input), from.received(output))
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
        member: Member<'_>,
        content: Content,
    ) -> Result<Persistent, MpiError> {
        let root = self.root as i32;
        let (blocks, to, from) = self.partitions(member);
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
            Which::Alltoallw | Which::NeighborAlltoallw => {
                let (send, receive) = (to.owned(&input), from.owned(&output));
                let exchange = match self.which {
                    Which::Alltoallw => comm.alltoallw_init(send, receive),
                    _ => comm.neighbor_alltoallw_init(send, receive),
                };
                return Ok(Persistent::Blocks { exchange: exchange?, to, from });
            }
            Which::NeighborAllgather => comm.neighbor_allgather_init(input, output),
            Which::NeighborAllgatherv => {
                comm.neighbor_allgatherv_init(input, output, from.partition())
            }
            Which::NeighborAlltoall => comm.neighbor_alltoall_init(input, output),
            Which::NeighborAlltoallv => {
                comm.neighbor_alltoallv_init(input, to.partition(), output, from.partition())
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
    Blocks { exchange: PersistentExchange, to: Blocks, from: Blocks },
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
            Self::Blocks { exchange, to, .. } => {
                for number in 0..to.counts.len() {
                    let block = &content.input[to.block(number)];
                    let into = if in_pairs(number, block.len()) {
                        exchange
                            .input_mut::<[u64; 2]>(number)?
                            .map(|pairs| pairs.as_flattened_mut())
                    } else {
                        exchange.input_mut(number)?
                    };
                    into.expect("a block of this type").copy_from_slice(block);
                }
                exchange.start()
            }
        }
    }

    pub(crate) fn wait(&mut self) -> Result<(), MpiError> {
        match self {
            Self::Barrier(barrier) => barrier.wait(),
            Self::Words(words) => words.wait(),
            Self::Blocks { exchange, .. } => exchange.wait(),
        }
    }

    pub(crate) fn test(&mut self) -> Result<bool, MpiError> {
        match self {
            Self::Barrier(barrier) => barrier.test(),
            Self::Words(words) => words.test(),
            Self::Blocks { exchange, .. } => exchange.test(),
        }
    }

    /// What it gave.
    pub(crate) fn output(&self) -> Result<Cow<'_, [u64]>, MpiError> {
        match self {
            Self::Barrier(_) => Ok(Cow::Borrowed(&[])),
            Self::Words(words) => words.output().map(Cow::Borrowed),
            Self::Blocks { exchange, from, .. } => {
                let mut all = vec![UNTOUCHED; from.extent()];
                for (number, &count) in from.counts.iter().enumerate() {
                    let block = if in_pairs(number, count) {
                        exchange.output::<[u64; 2]>(number)?.map(|pairs| pairs.as_flattened())
                    } else {
                        exchange.output(number)?
                    };
                    all[from.block(number)].copy_from_slice(block.expect("a block of this type"));
                }
                Ok(Cow::Owned(all))
            }
        }
    }
}
