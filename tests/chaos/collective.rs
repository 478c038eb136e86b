//! Collectives with their results computed by hand.

use bowline::mpi::{Communicator, MpiError, commutative, ordered};

use crate::content::words;
use crate::plan::Which;

/// `x -> a x + b` over wrapping words: composition is associative and does not commute.
type Affine = [u64; 2];

fn compose(first: Affine, second: Affine) -> Affine {
    let (a, b) = (first[0].wrapping_mul(second[0]), first[1].wrapping_mul(second[0]));
    [a, b.wrapping_add(second[1])]
}

fn affine(words: &[u64]) -> Vec<Affine> {
    // Odd factors, so that nothing becomes zero.
    words.iter().map(|&word| [word | 1, word.rotate_left(20)]).collect()
}

fn sum(seed: u64, ranks: std::ops::Range<usize>, len: usize) -> Vec<u64> {
    let mut sum = vec![0_u64; len];
    for rank in ranks {
        for (to, word) in sum.iter_mut().zip(words(seed, rank, len)) {
            *to = to.wrapping_add(word);
        }
    }
    sum
}

fn composed(seed: u64, ranks: usize, len: usize) -> Vec<Affine> {
    let mut all = affine(&words(seed, 0, len));
    for rank in 1..ranks {
        for (to, next) in all.iter_mut().zip(affine(&words(seed, rank, len))) {
            *to = compose(*to, next);
        }
    }
    all
}

/// This rank's part of a collective of `len` words for each rank.
pub(crate) fn run(
    comm: &Communicator,
    which: Which,
    root: usize,
    len: usize,
    seed: u64,
) -> Result<(), MpiError> {
    let (me, n) = (comm.rank() as usize, comm.size() as usize);
    let (at_root, root_rank) = (me == root, root as i32);
    let mine = words(seed, me, len);
    let everybody = || (0..n).flat_map(|rank| words(seed, rank, len)).collect::<Vec<u64>>();
    let same = |what: &str, got: &[u64], expected: &[u64]| {
        assert!(got == expected, "oracle: {what} of {len} words gives another result");
    };
    match which {
        Which::Barrier => comm.barrier()?,
        Which::Bcast => {
            let mut items = if at_root { mine } else { vec![0; len] };
            comm.bcast(&mut items, root_rank)?;
            same("bcast", &items, &words(seed, root, len));
        }
        Which::Reduce => {
            let mut got = vec![0; if at_root { len } else { 0 }];
            comm.reduce(&mine, &mut got, wrapping(), root_rank)?;
            if at_root {
                same("reduce", &got, &sum(seed, 0..n, len));
            }
        }
        Which::ReduceOrdered => {
            let mut got = vec![[0; 2]; if at_root { len } else { 0 }];
            comm.reduce(&affine(&mine), &mut got, ordered(compose), root_rank)?;
            assert!(!at_root || got == composed(seed, n, len), "oracle: an ordered reduce");
        }
        Which::Allreduce => {
            let mut got = vec![0; len];
            comm.allreduce(&mine, &mut got, wrapping())?;
            same("allreduce", &got, &sum(seed, 0..n, len));
        }
        Which::AllreduceOrdered => {
            let mut got = vec![[0; 2]; len];
            comm.allreduce(&affine(&mine), &mut got, ordered(compose))?;
            assert!(got == composed(seed, n, len), "oracle: an ordered allreduce of {len}");
        }
        Which::Gather => {
            let mut got = vec![0; if at_root { len * n } else { 0 }];
            comm.gather(&mine, &mut got, root_rank)?;
            if at_root {
                same("gather", &got, &everybody());
            }
        }
        Which::Scatter => {
            let all = if at_root { everybody() } else { Vec::new() };
            let mut got = vec![0; len];
            comm.scatter(&all, &mut got, root_rank)?;
            same("scatter", &got, &mine);
        }
        Which::Allgather => {
            let mut got = vec![0; len * n];
            comm.allgather(&mine, &mut got)?;
            same("allgather", &got, &everybody());
        }
        Which::Alltoall => {
            let out = words(seed, me, len * n);
            let mut got = vec![0; len * n];
            comm.alltoall(&out, &mut got)?;
            let block = |from| words(seed, from, len * n)[me * len..][..len].to_vec();
            same("alltoall", &got, &(0..n).flat_map(block).collect::<Vec<u64>>());
        }
        Which::Scan => {
            let mut got = vec![0; len];
            comm.scan(&mine, &mut got, wrapping())?;
            same("scan", &got, &sum(seed, 0..me + 1, len));
        }
        Which::Exscan => {
            let mut got = vec![0; len];
            comm.exscan(&mine, &mut got, wrapping())?;
            if me > 0 {
                same("exscan", &got, &sum(seed, 0..me, len));
            }
        }
        Which::ReduceScatter => {
            let out = words(seed, me, len * n);
            let mut got = vec![0; len];
            comm.reduce_scatter_block(&out, &mut got, wrapping())?;
            same("reduce_scatter", &got, &sum(seed, 0..n, len * n)[me * len..][..len]);
        }
    }
    Ok(())
}

/// Sums that may overflow; those of the library may not.
fn wrapping() -> impl bowline::mpi::Operation<u64> {
    commutative(u64::wrapping_add)
}
