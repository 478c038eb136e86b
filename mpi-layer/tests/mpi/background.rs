//! Nonblocking collectives of scopes: random programs of several at once, with messages and blocking collectives
//! between, beside what the blocking ones of the same names give.

use bowline_mpi::{CollectiveRequest, MpiError, Operation, Partition, Sum, World};
use proptest::prelude::*;

use super::start::{both_ways, both_ways_with};

/// Random numbers that all ranks draw alike.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        // Knuth's constants.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// The maps x -> ax + b modulo a prime, in one number: associative, not commutative.
#[derive(Clone, Copy)]
struct Compose;

impl Operation<u64> for Compose {
    fn is_commutative(&self) -> bool {
        false
    }

    fn combine(&self, left: &[u64], right: &mut [u64]) {
        const PRIME: u64 = 2_147_483_647;
        for (left, right) in left.iter().zip(right) {
            let ((a, b), (c, d)) =
                ((left >> 32, left & 0xffff_ffff), (*right >> 32, *right & 0xffff_ffff));
            *right = ((a * c % PRIME) << 32) | ((c * b + d) % PRIME);
        }
    }
}

/// One collective of a program: which, of how many elements, at which root, and its buffers.
struct One {
    kind: usize,
    len: usize,
    root: i32,
    counts: Vec<usize>,
    places: Vec<usize>,
    input: Vec<u64>,
    output: Vec<u64>,
    wanted: Vec<u64>,
}

const KINDS: usize = 16;

impl One {
    fn new(world: &World, dice: &mut Dice) -> Self {
        let (me, size) = (world.rank() as usize, world.size() as usize);
        let len = [0, 1, 3, 70, 4000][dice.below(5)];
        let counts: Vec<usize> = (0..size).map(|_| [0, 1, 5, 300][dice.below(4)]).collect();
        let places: Vec<usize> =
            counts.iter().scan(0, |at, &count| Some(std::mem::replace(at, *at + count))).collect();
        let total = counts.iter().sum::<usize>().max(len * size);
        let input = (0..total).map(|i| (me * 1_000_003 + i * 7 + 1) as u64 | 3 << 32).collect();
        let (kind, root) = (dice.below(KINDS), dice.below(size) as i32);
        let output = vec![u64::MAX; total];
        Self { kind, len, root, counts, places, input, wanted: output.clone(), output }
    }

    fn parts(&self) -> Partition<'_> {
        Partition::new(&self.counts, &self.places)
    }

    /// What the blocking call gives.
    fn want(&mut self, world: &World) {
        let (me, all) = (world.rank() as usize, self.len * world.size() as usize);
        let (len, own, sum) = (self.len, self.counts[me], self.counts.iter().sum());
        let parts = Partition::new(&self.counts, &self.places);
        let (input, output, root) = (&*self.input, &mut *self.wanted, self.root);
        match self.kind {
            0 => world.barrier(),
            1 => {
                output[..len].copy_from_slice(&input[..len]);
                world.bcast(&mut output[..len], root)
            }
            2 => world.gather(&input[..len], &mut output[..all], root),
            3 => world.scatter(&input[..all], &mut output[..len], root),
            4 => world.gatherv(&input[..own], &mut output[..sum], parts, root),
            5 => world.scatterv(&input[..sum], parts, &mut output[..own], root),
            6 => world.allgather(&input[..len], &mut output[..all]),
            7 => world.allgatherv(&input[..own], &mut output[..sum], parts),
            8 => world.alltoall(&input[..all], &mut output[..all]),
            9 => world.reduce(&input[..len], &mut output[..len], Sum, root),
            10 => world.allreduce(&input[..len], &mut output[..len], Compose),
            11 => world.reduce_scatter_block(&input[..all], &mut output[..len], Compose),
            12 => world.reduce_scatter(&input[..sum], &mut output[..own], &self.counts, Sum),
            13 => world.scan(&input[..len], &mut output[..len], Compose),
            14 => world.exscan(&input[..len], &mut output[..len], Compose),
            _ => world.allreduce(&input[..len], &mut output[..len], Sum),
        }
        .unwrap();
    }
}

fn program(world: &World, dice: &mut Dice) {
    let mut all: Vec<One> = (0..1 + dice.below(9)).map(|_| One::new(world, dice)).collect();
    all.iter_mut().for_each(|one| one.want(world));
    let (me, size) = (world.rank() as usize, world.size() as usize);
    let blocking = dice.below(3);
    let order = dice.below(100) + me;
    for one in &mut all {
        if one.kind == 1 {
            one.output[..one.len].copy_from_slice(&one.input[..one.len]);
        }
    }
    let done = world.scope(|s| {
        let mut requests: Vec<CollectiveRequest<'_>> = Vec::new();
        for (index, one) in all.iter_mut().enumerate() {
            let (everything, sum) = (one.len * size, one.counts.iter().sum());
            let (len, own, root) = (one.len, one.counts[me], one.root);
            let parts = Partition::new(&one.counts, &one.places);
            let (input, output) = (&*one.input, &mut *one.output);
            requests.push(match one.kind {
                0 => s.ibarrier(world),
                1 => s.ibcast(world, &mut output[..len], root),
                2 => s.igather(world, &input[..len], &mut output[..everything], root),
                3 => s.iscatter(world, &input[..everything], &mut output[..len], root),
                4 => s.igatherv(world, &input[..own], &mut output[..sum], parts, root),
                5 => s.iscatterv(world, &input[..sum], parts, &mut output[..own], root),
                6 => s.iallgather(world, &input[..len], &mut output[..everything]),
                7 => s.iallgatherv(world, &input[..own], &mut output[..sum], parts),
                8 => s.ialltoall(world, &input[..everything], &mut output[..everything]),
                9 => s.ireduce(world, &input[..len], &mut output[..len], Sum, root),
                10 => s.iallreduce(world, &input[..len], &mut output[..len], Compose),
                11 => s.ireduce_scatter_block(
                    world,
                    &input[..everything],
                    &mut output[..len],
                    Compose,
                ),
                12 => s.ireduce_scatter(world, &input[..sum], &mut output[..own], &one.counts, Sum),
                13 => s.iscan(world, &input[..len], &mut output[..len], Compose),
                14 => s.iexscan(world, &input[..len], &mut output[..len], Compose),
                _ => s.iallreduce(world, &input[..len], &mut output[..len], Sum),
            }?);
            if index % 3 == blocking {
                let mut sum = [0];
                world.allreduce(&[me as u64], &mut sum, Sum)?;
                assert_eq!(sum[0] as usize, size * (size - 1) / 2);
            }
            // Around the ring, by calls that block.
            let (right, left) = ((me + 1) % size, (me + size - 1) % size);
            let mut word = [0_u64];
            world.sendrecv(&[me as u64], right as i32, 3, &mut word, left as i32, 3)?;
            assert_eq!(word[0] as usize, left);
        }
        // In an order of one's own; the rest is the scope's.
        while requests.len() > 2 {
            let request = requests.swap_remove(order % requests.len());
            request.wait()?;
        }
        Ok::<(), MpiError>(())
    });
    done.unwrap();
    for one in &all {
        assert!(one.output == one.wanted, "kind {} of {} elements", one.kind, one.len);
        assert_eq!(one.parts().counts.len(), size);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn collectives_in_scopes_give_what_blocking_ones_do(size in 1_usize..=8, seed in any::<u64>()) {
        both_ways(size, |world| {
            let mut dice = Dice(seed);
            (0..4).for_each(|_| program(world, &mut dice));
        });
    }

    #[test]
    fn they_do_beside_a_helper(size in 1_usize..=6, seed in any::<u64>()) {
        both_ways_with(size, &[("BOWLINE_PROGRESS", "thread")], |world| {
            let mut dice = Dice(seed);
            (0..4).for_each(|_| program(world, &mut dice));
        });
    }
}
