//! Collectives of every kind with their buffers, as a test starts all of them at once. Blocks have one length everywhere, so
//! that partitions are even; those of different types are words and numbers in turn.

use bowline::mpi::{
    Block, BlockMut, CollectiveRequest, Communicator, MpiError, OwnedBlock, Partition,
    PersistentCollective, PersistentExchange, Scope, Sum,
};

use super::RANKS;

pub(super) const KINDS: usize = 22;

/// A reduction of which all get the result.
pub(super) const ALLREDUCE: usize = 10;

/// Who reduces, gathers and deals out.
const ROOT: i32 = 1;

/// A kind with its buffers.
pub(super) struct One {
    pub(super) kind: usize,
    pub(super) len: usize,
    input: Vec<u64>,
    output: Vec<u64>,
    /// As many numbers, for blocks of another type.
    numbers: (Vec<f32>, Vec<f32>),
    counts: Vec<usize>,
    places: Vec<usize>,
}

/// Whether the block between two ranks is one of words.
fn has_words(me: i32, other: usize) -> bool {
    (me as usize + other).is_multiple_of(2)
}

impl One {
    pub(super) fn new(kind: usize, len: usize) -> Self {
        let n = RANKS as usize;
        let counts = vec![len; n];
        let places = (0..n).map(|rank| rank * len).collect();
        let (reads, writes) = match kind {
            0 => (0, 0),
            1 | 9 | 10 | 13 | 14 => (len, len),
            2 | 4 | 6 | 7 | 16 | 18 => (len, n * len),
            3 | 5 | 11 | 12 => (n * len, len),
            _ => (n * len, n * len),
        };
        let typed = if kind >= 20 { n * len } else { 0 };
        Self {
            kind,
            len,
            input: vec![1; reads],
            output: vec![0; writes],
            numbers: (vec![1.0; typed], vec![0.0; typed]),
            counts,
            places,
        }
    }

    /// Whether no rank can end it without something from every other one.
    pub(super) fn needs_all(&self) -> bool {
        matches!(self.kind, 0 | 6..=8 | 10..=12 | 15..)
    }

    pub(super) fn begin<'scope>(
        &'scope mut self,
        scope: &'scope Scope<'scope, '_>,
        comm: &'scope Communicator,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        let (input, output) = (&self.input[..], &mut self.output[..]);
        let parts = Partition::new(&self.counts, &self.places);
        match self.kind {
            0 => scope.ibarrier(comm),
            1 => scope.ibcast(comm, output, ROOT),
            2 => scope.igather(comm, input, output, ROOT),
            3 => scope.iscatter(comm, input, output, ROOT),
            4 => scope.igatherv(comm, input, output, parts, ROOT),
            5 => scope.iscatterv(comm, input, parts, output, ROOT),
            6 => scope.iallgather(comm, input, output),
            7 => scope.iallgatherv(comm, input, output, parts),
            8 => scope.ialltoall(comm, input, output),
            9 => scope.ireduce(comm, input, output, Sum, ROOT),
            ALLREDUCE => scope.iallreduce(comm, input, output, Sum),
            11 => scope.ireduce_scatter_block(comm, input, output, Sum),
            12 => scope.ireduce_scatter(comm, input, output, &self.counts, Sum),
            13 => scope.iscan(comm, input, output, Sum),
            14 => scope.iexscan(comm, input, output, Sum),
            15 => scope.ialltoallv(comm, input, parts, output, parts),
            16 => scope.ineighbor_allgather(comm, input, output),
            17 => scope.ineighbor_alltoall(comm, input, output),
            18 => scope.ineighbor_allgatherv(comm, input, output, parts),
            19 => scope.ineighbor_alltoallv(comm, input, parts, output, parts),
            kind => {
                let (me, len) = (comm.rank(), self.len);
                let (given, taken) = (&self.numbers.0[..], &mut self.numbers.1[..]);
                let sent = input.chunks(len).zip(given.chunks(len)).enumerate();
                let sent = sent.map(|(rank, (words, numbers))| -> Block<'_> {
                    if has_words(me, rank) { words.into() } else { numbers.into() }
                });
                let received = output.chunks_mut(len).zip(taken.chunks_mut(len)).enumerate();
                let received = received.map(|(rank, (words, numbers))| -> BlockMut<'_> {
                    if has_words(me, rank) { words.into() } else { numbers.into() }
                });
                match kind {
                    20 => scope.ialltoallw(comm, sent, received),
                    _ => scope.ineighbor_alltoallw(comm, sent, received),
                }
            }
        }
    }

    pub(super) fn make(self, comm: &Communicator) -> Result<Made, MpiError> {
        let Self { kind, len, input, output, counts, places, .. } = self;
        let parts = Partition::new(&counts, &places);
        let made = match kind {
            0 => return comm.barrier_init().map(Made::Barrier),
            1 => comm.bcast_init(output, ROOT),
            2 => comm.gather_init(input, output, ROOT),
            3 => comm.scatter_init(input, output, ROOT),
            4 => comm.gatherv_init(input, output, parts, ROOT),
            5 => comm.scatterv_init(input, parts, output, ROOT),
            6 => comm.allgather_init(input, output),
            7 => comm.allgatherv_init(input, output, parts),
            8 => comm.alltoall_init(input, output),
            9 => comm.reduce_init(input, output, Sum, ROOT),
            ALLREDUCE => comm.allreduce_init(input, output, Sum),
            11 => comm.reduce_scatter_block_init(input, output, Sum),
            12 => comm.reduce_scatter_init(input, output, &counts, Sum),
            13 => comm.scan_init(input, output, Sum),
            14 => comm.exscan_init(input, output, Sum),
            15 => comm.alltoallv_init(input, parts, output, parts),
            16 => comm.neighbor_allgather_init(input, output),
            17 => comm.neighbor_alltoall_init(input, output),
            18 => comm.neighbor_allgatherv_init(input, output, parts),
            19 => comm.neighbor_alltoallv_init(input, parts, output, parts),
            _ => {
                let block = |rank: usize| -> OwnedBlock {
                    match has_words(comm.rank(), rank) {
                        true => vec![1_u64; len].into(),
                        false => vec![1_f32; len].into(),
                    }
                };
                let blocks = || (0..RANKS as usize).map(block).collect();
                let made = match kind {
                    20 => comm.alltoallw_init(blocks(), blocks()),
                    _ => comm.neighbor_alltoallw_init(blocks(), blocks()),
                };
                return made.map(Made::Blocks);
            }
        };
        made.map(Made::Words)
    }
}

/// A persistent collective.
pub(super) enum Made {
    Barrier(PersistentCollective<u8>),
    Words(PersistentCollective<u64>),
    Blocks(PersistentExchange),
}

macro_rules! each {
    ($made:expr, $one:ident => $call:expr) => {
        match $made {
            Made::Barrier($one) => $call,
            Made::Words($one) => $call,
            Made::Blocks($one) => $call,
        }
    };
}

impl Made {
    pub(super) fn start(&mut self) -> Result<(), MpiError> {
        each!(self, one => one.start())
    }

    pub(super) fn wait(&mut self) -> Result<(), MpiError> {
        each!(self, one => one.wait())
    }

    pub(super) fn test(&mut self) -> Result<bool, MpiError> {
        each!(self, one => one.test())
    }

    pub(super) fn is_active(&self) -> bool {
        each!(self, one => one.is_active())
    }

    /// Whether its buffers come back.
    pub(super) fn gives_back(self) -> bool {
        match self {
            Self::Barrier(one) => one.into_buffers().is_ok(),
            Self::Words(one) => one.into_buffers().is_ok(),
            Self::Blocks(one) => one.into_blocks().is_ok(),
        }
    }
}
