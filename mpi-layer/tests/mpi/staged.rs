//! Collectives through staging memory, of ranks that share processors and of two that do not: slots that are used again and again,
//! calls that do not fit together, and stray writes.

use std::sync::Barrier;

use bowline_mpi::{MpiError, Sum, World, ordered};
use bowline_uct::conformance::skipped;

use super::start::ranks;

const RANKS: usize = 5;

/// Whether there is such a memory: not where ranks have no shared memory among their transports.
fn is_there() -> bool {
    let there = ranks(RANKS, |world| bcast(world, 8, 0) && world.overwrite_staging(0, |word| word));
    if !there[0] {
        skipped("ranks without shared memory bring each other data by messages");
    }
    there[0]
}

/// A broadcast of `len` bytes; whether it ended well.
fn bcast(world: &World, len: usize, root: i32) -> bool {
    let mut data = vec![if world.rank() == root { 7_u8 } else { 0 }; len];
    match world.bcast(&mut data, root) {
        Ok(()) => {
            assert!(data.iter().all(|&byte| byte == 7), "a wrong byte");
            true
        }
        Err(error) => {
            assert_eq!(error, MpiError::MemoryOverwritten);
            false
        }
    }
}

/// One digit for each rank, so that the order of ranks shows.
fn join(left: u64, right: u64) -> u64 {
    left * 10_u64.pow(right.to_string().len() as u32) + right
}

/// A rank that is ahead must not write over what others, or it itself, have yet to read.
#[test]
fn slots_are_used_again_and_again() {
    for size in [2, 3, 4, 5, 7] {
        // Another number in each word, so that no part can stand for another one.
        let word = |rank: u64, index: usize| 10 * (index as u64 % 9) + rank;
        let sum = |index| (1..=size as u64).map(|rank| word(rank, index)).sum::<u64>();
        let joined = |index| (1..=size as u64).map(|rank| word(rank, index)).fold(0, join);
        let all = |out: &[u64], right: &dyn Fn(usize) -> u64| {
            out.iter().enumerate().all(|(index, &found)| found == right(index))
        };
        for len in [100, 5000, 30_000, 400_000] {
            ranks(size, |world| {
                let mine: Vec<_> =
                    (0..len).map(|index| word(1 + world.rank() as u64, index)).collect();
                let mut out = vec![0; len];
                world.allreduce(&mine, &mut out, Sum).unwrap();
                assert!(all(&out, &sum), "{size} {len}");
                world.allreduce(&mine, &mut out, ordered(join)).unwrap();
                assert!(all(&out, &joined), "{size} {len}");
                let nothing = |_| 0;
                for root in 0..size as i32 {
                    out.fill(0);
                    world.reduce(&mine, &mut out, Sum, root).unwrap();
                    let is_root = world.rank() == root;
                    assert!(
                        all(&out, if is_root { &sum } else { &nothing }),
                        "{size} {len} {root}"
                    );
                }
                out.fill(0);
                world.reduce(&mine, &mut out, ordered(join), 1).unwrap();
                let is_root = world.rank() == 1;
                assert!(all(&out, if is_root { &joined } else { &nothing }), "{size} {len}");
            });
        }
    }
}

/// Every rank writes another number into every word, in calls of all lengths one after the other.
#[test]
fn blocks_of_all_lengths_arrive() {
    let number =
        |from: i32, to: i32, index: usize| (from as u64) << 48 | (to as u64) << 32 | index as u64;
    let run = |world: &World| {
        let (rank, size) = (world.rank(), world.size());
        let ranks = size as usize;
        for len in [0, 1, 7, 100, 3000, 40_000, 2] {
            let block = |from, to| (0..len).map(move |index| number(from, to, index));
            let sent: Vec<_> = (0..size).flat_map(|to| block(rank, to)).collect();
            let mut got = vec![0; len * ranks];
            world.alltoall(&sent, &mut got).unwrap();
            assert!((0..size).flat_map(|from| block(from, rank)).eq(got.iter().copied()), "{len}");
            let mine: Vec<_> = block(rank, 0).collect();
            world.allgather(&mine, &mut got).unwrap();
            assert!((0..size).flat_map(|from| block(from, 0)).eq(got.iter().copied()), "{len}");
            for root in 0..size {
                let mut all = vec![0; if rank == root { len * ranks } else { 0 }];
                world.gather(&mine, &mut all, root).unwrap();
                let expected = (0..size).flat_map(|from| block(from, 0));
                assert!(rank != root || expected.eq(all.iter().copied()), "{len}");
                assert!(bcast(world, len, root), "nothing is damaged");
            }
        }
    };
    ranks(2, run);
    ranks(RANKS, run);
}

/// All that read the others' calls learn that one has another length, and the next call is as good as any.
#[test]
fn different_lengths_are_reported() {
    if !is_there() {
        return;
    }
    let lengths = [(100, 50), (100, 60_000), (60_000, 100)];
    for (size, (usual, other)) in
        [2, RANKS].into_iter().flat_map(|size| lengths.map(|len| (size, len)))
    {
        ranks(size, |world| {
            let len = if world.rank() == size as i32 / 2 { other } else { usual };
            let bytes = |len: usize| 8 * len as u64;
            let (expected, got) = if len == other {
                (bytes(other), bytes(usual))
            } else {
                (bytes(usual), bytes(other))
            };
            let mismatch = Err(MpiError::CountMismatch { expected, got });
            let mine = vec![1_u64; len];
            let mut all = vec![0; len * size];
            assert_eq!(world.allreduce(&mine, &mut vec![0; len], Sum), mismatch, "allreduce");
            assert_eq!(world.allgather(&mine, &mut all), mismatch, "allgather");
            assert_eq!(world.alltoall(&all.clone(), &mut all), mismatch, "alltoall");
            let mut sums = [0; 100];
            assert_eq!(world.allreduce(&[1_u64; 100], &mut sums, Sum), Ok(()));
            assert_eq!(sums, [size as u64; 100], "the step behind a call that had none");
            let outcome = world.bcast(&mut vec![0_u64; len], 0);
            assert_eq!(outcome, if len == usual { Ok(()) } else { mismatch }, "bcast");
            assert!(bcast(world, 300_000, 0), "the next one is as good as any");
        });
    }
}

/// A root learns it; where the others cannot, the memory is used never again.
#[test]
fn different_lengths_are_reported_to_a_root() {
    if !is_there() {
        return;
    }
    for other in [50, 60_000] {
        ranks(RANKS, |world| {
            let len = if world.rank() == 2 { other } else { 100 };
            let outcome = world.reduce(&vec![1_u64; len], &mut vec![0; len], Sum, 0);
            if world.rank() == 0 {
                let (expected, got) = (800, 8 * other as u64);
                assert_eq!(outcome, Err(MpiError::CountMismatch { expected, got }));
            }
            let again = (0..20).filter(|step| bcast(world, 8, step % 2)).count();
            assert_eq!(again == 20, other == 50, "{outcome:?}");
        });
    }
}

/// Counts whose sum is the same cut the vectors in other steps at one rank.
#[test]
fn counts_that_differ_are_an_error_for_everybody() {
    if !is_there() {
        return;
    }
    for counts in [[5, 5, 1, 1, 0], [40_000, 0, 0, 0, 0]] {
        let total: usize = counts.iter().sum();
        ranks(RANKS, |world| {
            let even = [total / 5, total / 5, total / 5, total / 5, total - total / 5 * 4];
            let counts = if world.rank() == 1 { counts } else { even };
            let mut own = vec![0; counts[world.rank() as usize]];
            let outcome = world.reduce_scatter(&vec![1_u64; total], &mut own, &counts, Sum);
            assert_eq!(outcome, Err(MpiError::MemoryOverwritten), "{counts:?}");
        });
    }
}

/// The other collective is found although the rank that is waited for first has called none.
#[test]
fn another_collective_is_found_while_a_rank_is_missing() {
    if !is_there() {
        return;
    }
    let together = Barrier::new(RANKS);
    ranks(RANKS, |world| {
        assert!((0..3).all(|root| bcast(world, 100_000, root)));
        if world.rank() == 1 {
            together.wait();
        }
        let (mine, mut out) = (vec![1_u64; 200 * RANKS], vec![0; 200 * RANKS]);
        let outcome = match world.rank() {
            3 => world.alltoall(&mine, &mut out),
            _ => world.allgather(&mine[..200], &mut out),
        };
        if world.rank() != 1 {
            together.wait();
        }
        assert_eq!(outcome, Err(MpiError::MemoryOverwritten));
    });
}

/// Ranks that have left a collective in the midst of its steps must not take its data for that of the next.
#[test]
fn an_operation_that_panics_ends_the_use_of_the_memory() {
    if !is_there() {
        return;
    }
    for len in [100, 100_000] {
        ranks(RANKS, |world| {
            let mine = vec![1_u64; len];
            let mut out = vec![0; len];
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let op = ordered(|_: u64, _: u64| -> u64 { panic!("on purpose") });
                world.allreduce(&mine, &mut out, op)
            }));
            // A rank that has nothing to combine, or waits for one that has panicked, learns of it.
            assert!(matches!(outcome, Err(_) | Ok(Err(MpiError::MemoryOverwritten))));
            let next = world.allreduce(&mine, &mut out, Sum);
            assert_eq!(next, Err(MpiError::MemoryOverwritten), "{len}");
        });
    }
}

/// Words of the memory, as `bowline_base::staging` draws it: those of rank 1.
const WRITTEN: usize = 64 + 8;
const FINISHED: usize = 128 + 8;

/// Rank 0 needs the changed word before its owner stores it anew, and all others need rank 0.
#[test]
fn changed_progress_is_an_error_for_everybody() {
    if !is_there() {
        return;
    }
    let changes: [fn(u64) -> u64; 3] = [|word| word + 1, |word| word + (1 << 16), |_| 77];
    for (offset, root) in [(WRITTEN, 1), (FINISHED, 0)] {
        for change in changes {
            let together = Barrier::new(RANKS);
            ranks(RANKS, |world| {
                assert!((0..3).all(|root| bcast(world, 100_000, root)));
                together.wait();
                if world.rank() == 1 {
                    assert!(world.overwrite_staging(offset, change), "there is such a memory");
                }
                together.wait();
                // All make as many calls, and the others make theirs later.
                if world.rank() != 0 {
                    together.wait();
                }
                let ended_well = (0..40).filter(|_| bcast(world, 100_000, root)).count();
                if world.rank() == 0 {
                    together.wait();
                }
                assert!(ended_well < 40, "{offset}: not found");
                assert!(!bcast(world, 8, 0), "and so from now on");
            });
        }
    }
}

/// The word of rank 1 that says that it has stated a call.
const fn stated(call: usize) -> usize {
    64 * (4 + 16 * (1 + 2048) + (call % 8 * RANKS + 1) * 65)
}

/// Whatever is written over while ranks wait for each other, all of them end.
#[test]
fn nobody_waits_for_ever() {
    if !is_there() {
        return;
    }
    let words = [WRITTEN - 8, WRITTEN, FINISHED, FINISHED + 16];
    for (offset, len) in
        words.map(|word| (word, 5000)).into_iter().chain([20, 21, 24].map(|call| (stated(call), 8)))
    {
        ranks(RANKS, |world| {
            for step in 0..60 {
                if world.rank() == 1 && step == 20 {
                    assert!(world.overwrite_staging(offset, |word| word ^ 1 << 30));
                }
                bcast(world, len, step % RANKS as i32);
            }
        });
    }
}
