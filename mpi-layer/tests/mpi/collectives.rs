//! Collectives that move data: every call, sizes 1 to 9, all roots, with and without shared
//! processors, blocks from nothing to more than a rendezvous.

use bowline_mpi::{Complex, Datatype, MpiError, Partition};

use super::start::{both_ways, ranks};

/// Elements in a block: nothing, one, some, and as many as cross every limit.
const LENGTHS: [usize; 5] = [0, 1, 3, 700, 40_000];

fn item(from: i32, to: i32, index: usize) -> u32 {
    from as u32 * 1_000_000 + to as u32 * 100_000 + index as u32
}

fn block(from: i32, to: i32, len: usize) -> Vec<u32> {
    (0..len).map(|index| item(from, to, index)).collect()
}

fn for_all_sizes(body: impl Fn(&bowline_mpi::World) + Sync) {
    for size in 1..=9 {
        both_ways(size, &body);
    }
}

#[test]
fn barriers_let_nobody_through_early() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    for size in 1..=9 {
        let entered = AtomicUsize::new(0);
        both_ways(size, |world| {
            let before = entered.load(Ordering::SeqCst) / (100 * size) * (100 * size);
            world.barrier().unwrap();
            for round in 1..=100 {
                entered.fetch_add(1, Ordering::SeqCst);
                world.barrier().unwrap();
                assert!(entered.load(Ordering::SeqCst) >= before + round * size);
                world.barrier().unwrap();
            }
        });
    }
}

#[test]
fn broadcasts_reach_everybody_from_every_root() {
    for_all_sizes(|world| {
        for root in 0..world.size() {
            for len in [0, 1, 5, 3000, 20_000] {
                let expected = block(root, 0, len);
                let mut items = if world.rank() == root { expected.clone() } else { vec![0; len] };
                world.bcast(&mut items, root).unwrap();
                assert_eq!(items, expected);
            }
        }
    });
}

#[test]
fn large_broadcasts_take_their_own_ways() {
    for size in [2, 5, 6] {
        both_ways(size, |world| {
            for len in [100_000, 300_000] {
                let expected = block(1, 0, len);
                let mut items = if world.rank() == 1 { expected.clone() } else { vec![0; len] };
                world.bcast(&mut items, 1).unwrap();
                assert_eq!(items, expected);
            }
        });
    }
}

#[test]
fn gathers_and_scatters_are_inverse_for_every_root() {
    for_all_sizes(|world| {
        let (rank, size) = (world.rank(), world.size());
        for root in 0..size {
            for len in LENGTHS {
                let mine = block(rank, 0, len);
                let mut all = vec![0; if rank == root { len * size as usize } else { 0 }];
                world.gather(&mine, &mut all, root).unwrap();
                if rank == root {
                    let expected: Vec<_> = (0..size).flat_map(|r| block(r, 0, len)).collect();
                    assert_eq!(all, expected);
                }
                let mut back = vec![0; len];
                world.scatter(&all, &mut back, root).unwrap();
                assert_eq!(back, mine);
            }
        }
    });
}

/// Counts that differ, and displacements that run backwards with gaps.
fn backwards(size: i32, unit: usize) -> (Vec<usize>, Vec<usize>, usize) {
    let counts: Vec<_> = (0..size as usize).map(|rank| (rank * 5 + 2) % 4 * unit).collect();
    let mut displacements = vec![0; size as usize];
    let mut at = 2;
    for rank in (0..size as usize).rev() {
        displacements[rank] = at;
        at += counts[rank] + 1;
    }
    (counts, displacements, at)
}

#[test]
fn blocks_of_different_lengths_go_where_the_partition_says() {
    for_all_sizes(|world| {
        let (rank, size) = (world.rank(), world.size());
        for unit in [1, 9000] {
            let (counts, displacements, total) = backwards(size, unit);
            let partition = Partition::new(&counts, &displacements);
            let mine = block(rank, 0, counts[rank as usize]);
            let mut expected = vec![u32::MAX; total];
            for r in 0..size as usize {
                expected[displacements[r]..displacements[r] + counts[r]]
                    .copy_from_slice(&block(r as i32, 0, counts[r]));
            }
            for root in 0..size {
                let mut all = vec![u32::MAX; total];
                world.gatherv(&mine, &mut all, partition, root).unwrap();
                if rank == root {
                    assert_eq!(all, expected);
                }
                let mut back = vec![0; mine.len()];
                world.scatterv(&all, partition, &mut back, root).unwrap();
                assert_eq!(back, mine);
            }
            let mut all = vec![u32::MAX; total];
            world.allgatherv(&mine, &mut all, partition).unwrap();
            assert_eq!(all, expected);
        }
    });
}

#[test]
fn allgathers_give_everybody_everything() {
    for_all_sizes(|world| {
        let (rank, size) = (world.rank(), world.size());
        for len in LENGTHS {
            let expected: Vec<_> = (0..size).flat_map(|r| block(r, 0, len)).collect();
            let mut all = vec![0; expected.len()];
            world.allgather(&block(rank, 0, len), &mut all).unwrap();
            assert_eq!(all, expected);

            let mut all = vec![0; expected.len()];
            let at = rank as usize * len;
            all[at..at + len].copy_from_slice(&block(rank, 0, len));
            world.allgather_in_place(&mut all).unwrap();
            assert_eq!(all, expected);
        }
    });
}

#[test]
fn alltoalls_make_rows_columns() {
    for_all_sizes(|world| {
        let (rank, size) = (world.rank(), world.size());
        for len in LENGTHS {
            let out: Vec<_> = (0..size).flat_map(|to| block(rank, to, len)).collect();
            let mut into = vec![0; out.len()];
            world.alltoall(&out, &mut into).unwrap();
            let expected: Vec<_> = (0..size).flat_map(|from| block(from, rank, len)).collect();
            assert_eq!(into, expected);
        }
        for unit in [1, 9000] {
            let len = |from: i32, to: i32| (from * 3 + to * 7) as usize % 4 * unit;
            let layout = |lengths: Vec<usize>| {
                let displacements: Vec<_> = lengths
                    .iter()
                    .scan(0, |sum, len| {
                        *sum += len;
                        Some(*sum - len)
                    })
                    .collect();
                (lengths, displacements)
            };
            let (send, send_at) = layout((0..size).map(|to| len(rank, to)).collect());
            let (recv, recv_at) = layout((0..size).map(|from| len(from, rank)).collect());
            let out: Vec<_> = (0..size).flat_map(|to| block(rank, to, len(rank, to))).collect();
            let expected: Vec<_> =
                (0..size).flat_map(|from| block(from, rank, len(from, rank))).collect();
            let mut into = vec![0; expected.len()];
            let (send, recv) = (Partition::new(&send, &send_at), Partition::new(&recv, &recv_at));
            world.alltoallv(&out, send, &mut into, recv).unwrap();
            assert_eq!(into, expected);
        }
    });
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Datatype)]
#[repr(C)]
struct Particle {
    position: [f64; 3],
    charge: Complex<f32>,
    kind: u32,
    id: u32,
}

#[test]
fn derived_structs_travel() {
    ranks(3, |world| {
        let particle = |rank: i32| Particle {
            position: [f64::from(rank), 0.5, -1.0],
            charge: Complex::new(0.0, rank as f32),
            kind: 7,
            id: rank as u32,
        };
        let mut all = [Particle::default(); 3];
        world.allgather(&[particle(world.rank())], &mut all).unwrap();
        assert_eq!(all, [particle(0), particle(1), particle(2)]);
        let (right, left) = ((world.rank() + 1) % 3, (world.rank() + 2) % 3);
        let mut into = [Particle::default(); 2];
        let status =
            world.sendrecv(&[particle(world.rank())], right, 0, &mut into, left, 0).unwrap();
        assert_eq!(status.count::<Particle>(), Some(1));
        assert_eq!(into[0], particle(left));
    });
}

#[test]
fn wrong_arguments_are_reported_before_anything_is_sent() {
    ranks(2, |world| {
        let mut two = [0u8; 2];
        for root in [-1, 2, i32::MIN] {
            let wrong = Err(MpiError::InvalidRoot { root, size: 2 });
            assert_eq!(world.bcast(&mut two, root), wrong);
            assert_eq!(world.gather(&[0u8], &mut two, root), wrong);
            assert_eq!(world.scatter(&two.clone(), &mut two[..1], root), wrong);
        }
        let length = |what, expected, got| Err(MpiError::InvalidLength { what, expected, got });
        assert_eq!(
            world.allgather(&two.clone(), &mut two),
            length("the output of allgather", 4, 2)
        );
        assert_eq!(world.alltoall(&[0u8; 3], &mut [0u8; 3]), length("the input of alltoall", 2, 3));
        assert_eq!(world.alltoall(&[0u8; 4], &mut two), length("the output of alltoall", 4, 2));
        let bad = [
            Partition::new(&[1], &[0, 1]),
            Partition::new(&[1, 1], &[0]),
            Partition::new(&[1, 1], &[0, 2]),
            Partition::new(&[1, 1], &[0, usize::MAX]),
            Partition::new(&[1, 1], &[1, 1]),
            Partition::new(&[2, 1], &[0, 1]),
        ];
        for partition in bad {
            let error = world.allgatherv(&[0u8], &mut two, partition).unwrap_err();
            assert!(
                matches!(
                    error,
                    MpiError::InvalidLength { .. }
                        | MpiError::BlockOutOfRange { .. }
                        | MpiError::BlocksOverlap { .. }
                ),
                "{partition:?}: {error}"
            );
        }
        let overlap = world.allgatherv(&[0u8], &mut two, Partition::new(&[1, 1], &[1, 1]));
        let what = "the partition of allgatherv";
        assert_eq!(overlap, Err(MpiError::BlocksOverlap { what, first: 0, second: 1 }));
        // Nor does a call that is refused count where its rank alone makes it.
        if world.rank() == 0 {
            world.gather(&[0u8; 2], &mut two, 0).unwrap_err();
            world.bcast(&mut two, 7).unwrap_err();
            world.allgather(&[0u8; 2], &mut two).unwrap_err();
        }
        // After all that, collectives still work.
        let mut both = [0; 2];
        world.allgather(&[world.rank() as u8 + 3], &mut both).unwrap();
        assert_eq!(both, [3, 4]);
    });
}

#[test]
fn counts_that_do_not_agree_are_reported() {
    ranks(2, |world| {
        let mut items = vec![0u32; if world.rank() == 0 { 3 } else { 5 }];
        let result = world.bcast(&mut items, 0);
        if world.rank() == 0 {
            assert_eq!(result, Ok(()));
        } else {
            assert_eq!(result, Err(MpiError::CountMismatch { expected: 20, got: 12 }));
        }
        let mut items = vec![0u32; if world.rank() == 0 { 5 } else { 3 }];
        let result = world.bcast(&mut items, 0);
        if world.rank() == 1 {
            assert_eq!(result, Err(MpiError::CountMismatch { expected: 12, got: 20 }));
        }
        world.barrier().unwrap();
    });
}
