//! Ranks of which one gives another length than the others: the call ends at every rank, with an error of one class
//! wherever the failure comes to, and what follows on the communicator works. Plans that go through messages; those
//! through shared memory are in `staged.rs`.

use bowline_mpi::{Communicator, ErrorClass, MpiError, Sum, World};

use super::start::ranks_with;

/// Algorithms through messages, in which the failure has some stages to go.
const BY_MESSAGES: [(&str, &str); 4] = [
    ("BOWLINE_ALLREDUCE", "doubling"),
    ("BOWLINE_ALLGATHER", "ring"),
    ("BOWLINE_BCAST", "chain"),
    ("BOWLINE_GATHER", "linear"),
];

/// Of these lengths the first is sent at once, and the second lies with its sender until it is received.
const LENGTHS: [usize; 2] = [6, 200_000];

const RANKS: usize = 5;

fn is_count(outcome: Result<(), MpiError>) -> bool {
    match outcome {
        Ok(()) => false,
        Err(error) => {
            assert_eq!(error.class(), ErrorClass::Count, "{error}");
            true
        }
    }
}

/// What of the failed call was left behind would show here.
fn works(comm: &Communicator, length: usize) {
    let (mine, mut sum) = (vec![comm.rank() as u64 + 1; length], vec![0_u64; length]);
    comm.allreduce(&mine, &mut sum, Sum).unwrap();
    let ranks = comm.size() as u64;
    assert!(sum.iter().all(|&sum| sum == ranks * (ranks + 1) / 2));
    let mut all = vec![0_u64; length * comm.size() as usize];
    comm.allgather(&mine, &mut all).unwrap();
    for (rank, block) in (1..).zip(all.chunks(length)) {
        assert!(block.iter().all(|&word| word == rank));
    }
    comm.barrier().unwrap();
}

/// Runs `call` at each rank, as the one that differs, with its length; gives which ranks have failed.
fn differs(call: impl Fn(&World, usize) -> Result<(), MpiError> + Sync) -> Vec<(i32, Vec<bool>)> {
    let mut all = Vec::new();
    for length in LENGTHS {
        for odd in 0..RANKS as i32 {
            let failed = ranks_with(RANKS, &BY_MESSAGES, |world| {
                let own = if world.rank() == odd { length + 2 } else { length };
                let failed = is_count(call(world, own));
                works(world, length);
                failed
            });
            all.push((odd, failed));
        }
    }
    all
}

fn allreduce(world: &World, length: usize) -> Result<(), MpiError> {
    world.allreduce(&vec![1_u64; length], &mut vec![0; length], Sum)
}

fn iallreduce(world: &World, length: usize) -> Result<(), MpiError> {
    let (input, mut output) = (vec![1_u64; length], vec![0; length]);
    world.scope(|s| s.iallreduce(world, &input, &mut output, Sum)?.wait())
}

#[test]
fn all_ranks_of_an_allreduce_fail() {
    for (odd, failed) in differs(allreduce).into_iter().chain(differs(iallreduce)) {
        assert_eq!(failed, [true; RANKS], "rank {odd} differs");
    }
}

#[test]
fn an_allgather_ends_everywhere() {
    let blocking = |world: &World, length: usize| {
        world.allgather(&vec![1_u64; length], &mut vec![0; length * RANKS])
    };
    let background = |world: &World, length: usize| {
        let (input, mut output) = (vec![1_u64; length], vec![0; length * RANKS]);
        world.scope(|s| s.iallgather(world, &input, &mut output)?.wait())
    };
    for (odd, failed) in differs(blocking).into_iter().chain(differs(background)) {
        // Around the ring the failure comes to each rank.
        assert_eq!(failed, [true; RANKS], "rank {odd} differs");
    }
}

#[test]
fn behind_the_one_that_differs_a_chain_fails() {
    let blocking = |world: &World, length: usize| world.bcast(&mut vec![1_u64; length], 0);
    let background = |world: &World, length: usize| {
        let mut items = vec![1_u64; length];
        world.scope(|s| s.ibcast(world, &mut items, 0)?.wait())
    };
    for (odd, failed) in differs(blocking).into_iter().chain(differs(background)) {
        // Those in front of it have all that they need; of a root the next rank is the first that sees it.
        let expected: Vec<_> = (0..RANKS as i32).map(|rank| rank >= odd.max(1)).collect();
        assert_eq!(failed, expected, "rank {odd} differs");
    }
}

#[test]
fn senders_to_a_root_that_fails_have_their_buffers_back() {
    let gather = |world: &World, length: usize| {
        let mut all = if world.rank() == 1 { vec![0; length * RANKS] } else { Vec::new() };
        world.gather(&vec![1_u64; length], &mut all, 1)
    };
    for (odd, failed) in differs(gather) {
        let expected: Vec<_> = (0..RANKS).map(|rank| rank == 1).collect();
        assert_eq!(failed, expected, "rank {odd} differs");
    }
}

#[test]
fn a_persistent_one_fails_at_each_start_and_nobody_waits() {
    for length in LENGTHS {
        ranks_with(RANKS, &BY_MESSAGES, |world| {
            let own = if world.rank() == 3 { length + 1 } else { length };
            let mut sum = world.allreduce_init(vec![1_u64; own], vec![0; own], Sum).unwrap();
            let mut data = world.bcast_init(vec![1_u64; own], 0).unwrap();
            for _ in 0..3 {
                sum.start().unwrap();
                data.start().unwrap();
                assert!(is_count(sum.wait()));
                assert_eq!(is_count(data.wait()), world.rank() >= 3);
            }
            works(world, length);
        });
    }
}
