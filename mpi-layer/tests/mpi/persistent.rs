//! Persistent collectives that own their buffers: random programs of several that are started again and again, in
//! orders that differ between ranks, beside what the blocking ones of the same names give. Then what is refused.

use bowline_mpi::{ErrorClass, MpiError, Partition, PersistentCollective, Sum, World, ordered};
use proptest::prelude::*;

use super::start::{both_ways, ranks};

/// The maps x -> ax + b modulo 2^32, in one number: associative, not commutative.
fn compose(left: u64, right: u64) -> u64 {
    let ((a, b), (c, d)) = ((left >> 32, left as u32), (right >> 32, right as u32));
    let product = (a as u32).wrapping_mul(c as u32);
    u64::from(product) << 32 | u64::from((c as u32).wrapping_mul(b).wrapping_add(d))
}

const KINDS: usize = 16;

/// A collective of some kind: its lengths and its root.
struct One {
    kind: usize,
    len: usize,
    root: i32,
    counts: Vec<usize>,
    places: Vec<usize>,
}

impl One {
    fn new(kind: usize, seed: usize, size: usize) -> Self {
        let counts: Vec<usize> = (0..size).map(|rank| [0, 1, 5, 300][(seed + rank) % 4]).collect();
        let places = counts.iter().scan(0, |at, &count| Some(std::mem::replace(at, *at + count)));
        let places = places.collect();
        let len = [0, 1, 3, 70, 4000][seed % 5];
        Self { kind, len, root: (seed % size) as i32, counts, places }
    }

    /// Elements of input and output at a rank.
    fn lengths(&self, me: usize) -> (usize, usize) {
        let (len, all) = (self.len, self.len * self.counts.len());
        let (own, sum) = (self.counts[me], self.counts.iter().sum());
        match self.kind {
            0 => (0, 0),
            1 => (0, len),
            2 | 6 => (len, all),
            3 | 11 => (all, len),
            4 | 7 => (own, sum),
            5 | 12 => (sum, own),
            8 => (all, all),
            15 => (sum, sum),
            _ => (len, len),
        }
    }

    /// Every rank sends the same counts to all in the exchange of different lengths.
    fn exchanged(&self, me: usize) -> (Vec<usize>, Vec<usize>) {
        let size = self.counts.len();
        let into = vec![self.counts[me]; size];
        let places = (0..size).map(|rank| rank * self.counts[me]).collect();
        (into, places)
    }

    fn make(&self, world: &World) -> PersistentCollective<u64> {
        let me = world.rank() as usize;
        let (reads, mut writes) = self.lengths(me);
        let (into, places) = self.exchanged(me);
        if self.kind == 15 {
            writes = into.iter().sum();
        }
        let (input, output) = (vec![0; reads], vec![u64::MAX; writes]);
        let parts = Partition::new(&self.counts, &self.places);
        let (root, op) = (self.root, ordered(compose));
        match self.kind {
            1 => world.bcast_init(output, root),
            2 => world.gather_init(input, output, root),
            3 => world.scatter_init(input, output, root),
            4 => world.gatherv_init(input, output, parts, root),
            5 => world.scatterv_init(input, parts, output, root),
            6 => world.allgather_init(input, output),
            7 => world.allgatherv_init(input, output, parts),
            8 => world.alltoall_init(input, output),
            9 => world.reduce_init(input, output, Sum, root),
            10 => world.allreduce_init(input, output, op),
            11 => world.reduce_scatter_block_init(input, output, op),
            12 => world.reduce_scatter_init(input, output, &self.counts, op),
            13 => world.scan_init(input, output, op),
            14 => world.exscan_init(input, output, op),
            15 => world.alltoallv_init(input, parts, output, Partition::new(&into, &places)),
            _ => unreachable!("a barrier has no elements"),
        }
        .unwrap()
    }

    /// What the blocking call makes of the same buffers.
    fn block(&self, world: &World, input: &[u64], output: &mut [u64]) {
        let parts = Partition::new(&self.counts, &self.places);
        let (into, places) = self.exchanged(world.rank() as usize);
        let (root, op) = (self.root, ordered(compose));
        match self.kind {
            1 => world.bcast(output, root),
            2 => world.gather(input, output, root),
            3 => world.scatter(input, output, root),
            4 => world.gatherv(input, output, parts, root),
            5 => world.scatterv(input, parts, output, root),
            6 => world.allgather(input, output),
            7 => world.allgatherv(input, output, parts),
            8 => world.alltoall(input, output),
            9 => world.reduce(input, output, Sum, root),
            10 => world.allreduce(input, output, op),
            11 => world.reduce_scatter_block(input, output, op),
            12 => world.reduce_scatter(input, output, &self.counts, op),
            13 => world.scan(input, output, op),
            14 => world.exscan(input, output, op),
            15 => world.alltoallv(input, parts, output, Partition::new(&into, &places)),
            _ => unreachable!("a barrier has no elements"),
        }
        .unwrap();
    }
}

/// Some collectives, each started three times with new contents.
fn program(world: &World, seed: usize) {
    let (me, size) = (world.rank() as usize, world.size() as usize);
    let some: Vec<One> =
        (0..6).map(|n| One::new(1 + (seed / 7 + 5 * n) % (KINDS - 1), seed + n, size)).collect();
    let mut made: Vec<_> = some.iter().map(|one| one.make(world)).collect();
    let mut barrier = world.barrier_init().unwrap();
    for time in 0..3 {
        let mut wanted = Vec::new();
        for (one, collective) in some.iter().zip(&mut made) {
            let value = |at: usize| (me * 1_000_003 + time * 5003 + at * 7 + 1) as u64 | 3 << 32;
            let fill = |items: &mut [u64]| {
                items.iter_mut().enumerate().for_each(|(at, item)| *item = value(at));
            };
            fill(collective.input_mut().unwrap());
            fill(collective.output_mut().unwrap());
            let mut output = collective.output().unwrap().to_vec();
            one.block(world, collective.input().unwrap(), &mut output);
            wanted.push(output);
        }
        // Ranks start and end them in orders of their own.
        barrier.start().unwrap();
        (0..made.len()).for_each(|n| made[(n + me) % some.len()].start().unwrap());
        for n in 0..made.len() {
            let collective = &mut made[(2 * me + some.len() - 1 - n) % some.len()];
            if n % 2 == 0 {
                collective.wait().unwrap();
            } else {
                while !collective.test().unwrap() {}
            }
            assert!(!collective.is_active());
        }
        barrier.wait().unwrap();
        for ((one, collective), wanted) in some.iter().zip(&made).zip(wanted) {
            let output = collective.output().unwrap();
            assert!(output == wanted, "kind {} of {} elements, time {time}", one.kind, one.len);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn persistent_collectives_give_what_blocking_ones_do(size in 1_usize..=6, seed in 0_usize..100_000) {
        both_ways(size, |world| program(world, seed));
    }
}

#[test]
fn every_kind_of_persistent_collective_is_among_them() {
    both_ways(3, |world| (0..KINDS * 7).step_by(7).for_each(|seed| program(world, seed)));
}

#[test]
fn an_active_one_keeps_its_buffers_to_itself() {
    ranks(2, |world| {
        let mut sum = world.allreduce_init(vec![1_u32, 2], vec![0; 2], Sum).unwrap();
        assert_eq!(sum.test(), Ok(true), "inactive is ended");
        sum.wait().unwrap();
        if world.rank() == 1 {
            // Rank 0 cannot have the result before this rank starts.
            world.recv(&mut [0_u8], 0, 1).unwrap();
        }
        sum.start().unwrap();
        if world.rank() == 0 {
            assert!(sum.is_active());
            assert_eq!(sum.start(), Err(MpiError::CollectiveActive));
            assert_eq!(sum.input(), Err(MpiError::CollectiveActive));
            assert_eq!(sum.input_mut(), Err(MpiError::CollectiveActive));
            assert_eq!(sum.output(), Err(MpiError::CollectiveActive));
            assert_eq!(sum.output_mut(), Err(MpiError::CollectiveActive));
            assert_eq!(sum.test(), Ok(false));
            assert_eq!(MpiError::CollectiveActive.class(), ErrorClass::Request);
            sum = sum.into_buffers().unwrap_err();
            world.send(&[1_u8], 1, 1).unwrap();
        }
        sum.wait().unwrap();
        assert_eq!(sum.into_buffers().unwrap(), (vec![1, 2], vec![2, 4]));
    });
}

#[test]
fn a_dropped_one_is_carried_out_for_the_others() {
    ranks(3, |world| {
        let input = vec![world.rank() as u64; 5000];
        let mut sum = world.allreduce_init(input, vec![0; 5000], Sum).unwrap();
        sum.start().unwrap();
        if world.rank() == 1 {
            drop(sum);
            return;
        }
        sum.wait().unwrap();
        assert_eq!(sum.output().unwrap(), [3; 5000]);
    });
}

#[test]
fn wrong_lengths_are_refused_where_it_is_made() {
    ranks(2, |world| {
        let refused = |made: Result<PersistentCollective<u8>, MpiError>| made.unwrap_err().class();
        let three = || vec![0_u8; 3];
        assert_eq!(refused(world.allreduce_init(three(), vec![0; 2], Sum)), ErrorClass::Count);
        assert_eq!(refused(world.allgather_init(three(), vec![0; 5])), ErrorClass::Count);
        assert_eq!(refused(world.alltoall_init(three(), three())), ErrorClass::Count);
        assert_eq!(refused(world.bcast_init(three(), 2)), ErrorClass::Root);
        assert_eq!(
            refused(world.reduce_scatter_init(three(), vec![], &[1, 1], Sum)),
            ErrorClass::Count
        );
        let overlapping = Partition::new(&[2, 2], &[0, 1]);
        let made = world.allgatherv_init(vec![0; 2], three(), overlapping);
        assert_eq!(refused(made), ErrorClass::Arg);
        // Those that were refused leave nothing behind: the next ones are matched.
        let mut sum = world.allreduce_init(vec![1_u8], vec![0], Sum).unwrap();
        sum.start().unwrap();
        sum.wait().unwrap();
        assert_eq!(sum.output().unwrap(), [2]);
    });
}

/// A rank makes its own long before any other one does, while those wait for a message of it.
#[test]
fn to_make_one_waits_for_nobody() {
    ranks(4, |world| {
        let last = world.size() - 1;
        if world.rank() > 0 {
            world.recv(&mut [0_u8], world.rank() - 1, 3).unwrap();
        }
        let items = || vec![1_u64; 4000];
        let (block, counts) = (|| vec![1_u64; 1000], [1000; 4]);
        let parts = || Partition::new(&counts, &[0, 1000, 2000, 3000]);
        let mut barrier = world.barrier_init().unwrap();
        let mut all = [
            world.allreduce_init(items(), items(), Sum).unwrap(),
            world.bcast_init(items(), last).unwrap(),
            world.gather_init(block(), items(), last).unwrap(),
            world.gatherv_init(block(), items(), parts(), last).unwrap(),
            world.scatter_init(items(), block(), last).unwrap(),
            world.scatterv_init(items(), parts(), block(), last).unwrap(),
            world.allgather_init(block(), items()).unwrap(),
            world.allgatherv_init(block(), items(), parts()).unwrap(),
            world.alltoall_init(items(), items()).unwrap(),
            world.reduce_init(items(), items(), Sum, last).unwrap(),
            world.reduce_scatter_block_init(items(), block(), Sum).unwrap(),
            world.reduce_scatter_init(items(), block(), &counts, Sum).unwrap(),
            world.alltoallv_init(items(), parts(), items(), parts()).unwrap(),
            world.scan_init(items(), items(), Sum).unwrap(),
            world.exscan_init(items(), items(), Sum).unwrap(),
        ];
        if world.rank() < last {
            world.send(&[1_u8], world.rank() + 1, 3).unwrap();
        }
        barrier.start().unwrap();
        all.iter_mut().for_each(|one| one.start().unwrap());
        all.iter_mut().rev().for_each(|one| one.wait().unwrap());
        barrier.wait().unwrap();
    });
}

#[test]
fn one_outlives_its_communicator_and_its_world() {
    let sums = ranks(3, |world| {
        let part = world.dup().unwrap();
        let mut sum = part.allreduce_init(vec![world.rank()], vec![0], Sum).unwrap();
        drop(part);
        // Its context stays taken as long as it is there.
        let other = world.dup().unwrap();
        other.barrier().unwrap();
        sum.start().unwrap();
        drop(other);
        sum.wait().unwrap();
        sum.into_buffers().unwrap().1[0]
    });
    assert_eq!(sums, [3, 3, 3]);
}
