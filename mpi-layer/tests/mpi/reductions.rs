//! Collectives that reduce: predefined and user operations, in rank order, at all sizes.

use bowline_mpi::{
    BitXor, Communicator, Complex, Located, Max, MaxLoc, Min, MinLoc, MpiError, Operation, Prod,
    Sum, World, commutative, ordered,
};

use super::start::{both_ways, ranks};

const LENGTHS: [usize; 5] = [0, 1, 3, 900, 30_000];

/// A 2x2 matrix modulo a prime: multiplication is associative and not commutative, so that a
/// wrong order gives a wrong result.
type Matrix = [u32; 4];
const PRIME: u64 = 1_000_003;

fn multiply(a: Matrix, b: Matrix) -> Matrix {
    let [a, b] = [a, b].map(|matrix| matrix.map(u64::from));
    let cell = |row: usize, column: usize| {
        ((a[2 * row] * b[column] + a[2 * row + 1] * b[2 + column]) % PRIME) as u32
    };
    [cell(0, 0), cell(0, 1), cell(1, 0), cell(1, 1)]
}

fn matrices(rank: i32, len: usize) -> Vec<Matrix> {
    let matrix = |index| {
        let seed = rank as u32 * 97 + index as u32 * 13;
        [seed + 1, seed % 7, seed % 11 + 2, seed % 5 + 1]
    };
    (0..len).map(matrix).collect()
}

/// The product of the matrices of a range of ranks, in order.
fn product(ranks: std::ops::Range<i32>, len: usize) -> Vec<Matrix> {
    let one = vec![[1, 0, 0, 1]; len];
    ranks.fold(one, |product, rank| {
        let next = matrices(rank, len);
        product.into_iter().zip(next).map(|(a, b)| multiply(a, b)).collect()
    })
}

fn sums(rank: i32, len: usize) -> Vec<i64> {
    (0..len as i64).map(|index| index * 3 + i64::from(rank)).collect()
}

fn summed(ranks: std::ops::Range<i32>, len: usize) -> Vec<i64> {
    let ranks: Vec<_> = ranks.map(i64::from).collect();
    let (count, sum) = (ranks.len() as i64, ranks.iter().sum::<i64>());
    (0..len as i64).map(|index| index * 3 * count + sum).collect()
}

fn for_all_sizes(body: impl Fn(&World) + Sync) {
    for size in 1..=9 {
        both_ways(size, &body);
    }
}

#[test]
fn reductions_to_every_root() {
    for_all_sizes(|world| {
        let (rank, size) = (world.rank(), world.size());
        for root in 0..size {
            for len in LENGTHS {
                let capacity = if rank == root { len } else { 0 };
                let mut sum = vec![0; capacity];
                world.reduce(&sums(rank, len), &mut sum, Sum, root).unwrap();
                assert_eq!(sum, summed(0..size, capacity));
                let mut result = vec![[0; 4]; capacity];
                world.reduce(&matrices(rank, len), &mut result, ordered(multiply), root).unwrap();
                assert_eq!(result, product(0..size, capacity));
            }
        }
    });
}

#[test]
fn allreductions_of_all_lengths() {
    for_all_sizes(|world| {
        let (rank, size) = (world.rank(), world.size());
        for len in LENGTHS {
            let mut sum = vec![0; len];
            world.allreduce(&sums(rank, len), &mut sum, Sum).unwrap();
            assert_eq!(sum, summed(0..size, len));
            let mut items = sums(rank, len);
            world.allreduce_in_place(&mut items, Sum).unwrap();
            assert_eq!(items, sum);
            let mut result = vec![[0; 4]; len];
            world.allreduce(&matrices(rank, len), &mut result, ordered(multiply)).unwrap();
            assert_eq!(result, product(0..size, len));
            let mut items = matrices(rank, len);
            world.allreduce_in_place(&mut items, ordered(multiply)).unwrap();
            assert_eq!(items, result);
        }
    });
}

#[test]
fn reduce_scatters_of_even_and_uneven_blocks() {
    for_all_sizes(|world| {
        let (rank, size) = (world.rank(), world.size());
        let me = rank as usize;
        for len in LENGTHS {
            let total = len * size as usize;
            let mut mine = vec![0; len];
            world.reduce_scatter_block(&sums(rank, total), &mut mine, Sum).unwrap();
            assert_eq!(mine, summed(0..size, total)[me * len..(me + 1) * len]);

            let counts: Vec<_> = (0..size as usize).map(|r| (r * 5 + 2) % 4 * len / 3).collect();
            let total = counts.iter().sum();
            let at = counts[..me].iter().sum::<usize>();
            let mut mine = vec![0; counts[me]];
            world.reduce_scatter(&sums(rank, total), &mut mine, &counts, Sum).unwrap();
            assert_eq!(mine, summed(0..size, total)[at..at + counts[me]]);
            let mut mine = vec![[0; 4]; counts[me]];
            let op = ordered(multiply);
            world.reduce_scatter(&matrices(rank, total), &mut mine, &counts, op).unwrap();
            assert_eq!(mine, product(0..size, total)[at..at + counts[me]]);
        }
    });
}

#[test]
fn scans_with_and_without_the_own_contribution() {
    for_all_sizes(|world| {
        let rank = world.rank();
        for len in LENGTHS {
            let mut result = vec![[9; 4]; len];
            world.scan(&matrices(rank, len), &mut result, ordered(multiply)).unwrap();
            assert_eq!(result, product(0..rank + 1, len));
            let mut result = vec![[9; 4]; len];
            world.exscan(&matrices(rank, len), &mut result, ordered(multiply)).unwrap();
            let expected = if rank == 0 { vec![[9; 4]; len] } else { product(0..rank, len) };
            assert_eq!(result, expected);
            let mut sum = vec![0; len];
            world.scan(&sums(rank, len), &mut sum, Sum).unwrap();
            assert_eq!(sum, summed(0..rank + 1, len));
        }
    });
}

#[test]
fn predefined_operations_on_several_types() {
    ranks(5, |world| {
        let rank = world.rank();
        let mut out = [0.0f64];
        world.allreduce(&[f64::from(rank) + 0.5], &mut out, Max).unwrap();
        assert_eq!(out, [4.5]);
        let mut out = [0u8];
        world.allreduce(&[rank as u8 + 3], &mut out, Min).unwrap();
        assert_eq!(out, [3]);
        let mut out = [0u64];
        world.allreduce(&[1 << rank], &mut out, BitXor).unwrap();
        assert_eq!(out, [31]);
        let mut out = [Complex::new(0.0f64, 0.0)];
        world.allreduce(&[Complex::new(0.0, 1.0)], &mut out, Prod).unwrap();
        assert_eq!(out, [Complex::new(0.0, 1.0)]);
        let value = [3, 8, 1, 8, 1][rank as usize];
        let located = [Located { value, location: rank }];
        let mut out = located;
        world.allreduce(&located, &mut out, MaxLoc).unwrap();
        assert_eq!(out, [Located { value: 8, location: 1 }]);
        world.allreduce(&located, &mut out, MinLoc).unwrap();
        assert_eq!(out, [Located { value: 1, location: 2 }]);
    });
}

#[test]
fn floating_point_sums_are_bitwise_the_same_everywhere_and_always() {
    both_ways(7, |world| {
        let mine: Vec<_> =
            (0..5000).map(|i| 0.1 + f64::from(i) / f64::from(world.rank() + 3)).collect();
        let mut first: Option<Vec<u64>> = None;
        for _ in 0..3 {
            let mut sum = vec![0.0; mine.len()];
            world.allreduce(&mine, &mut sum, Sum).unwrap();
            let bits: Vec<_> = sum.iter().map(|value| value.to_bits()).collect();
            let mut from_zero = bits.clone();
            world.bcast(&mut from_zero, 0).unwrap();
            assert_eq!(bits, from_zero);
            assert_eq!(*first.get_or_insert_with(|| bits.clone()), bits);
        }
    });
}

/// An operation that communicates itself, on another communicator.
struct Talking<'a>(&'a World);

impl Operation<u32> for Talking<'_> {
    fn is_commutative(&self) -> bool {
        true
    }

    fn combine(&self, left: &[u32], right: &mut [u32]) {
        let own = self.0.own();
        let mut sum = [0];
        own.allreduce(&[left[0] + right[0]], &mut sum, Sum).unwrap();
        own.send(&sum, 0, 1).unwrap();
        own.recv(right, 0, 1).unwrap();
    }
}

#[test]
fn user_operations_may_call_back() {
    both_ways(6, |world| {
        let mut sum = [0];
        world.allreduce(&[world.rank() as u32], &mut sum, Talking(world)).unwrap();
        assert_eq!(sum, [15]);
        let mut longest = [0u64];
        let op = commutative(|a: u64, b: u64| a.max(b));
        world.allreduce(&[world.rank() as u64 * 2], &mut longest, op).unwrap();
        assert_eq!(longest, [10]);
    });
}

/// An operation whose second rank waits for a message that the first one sends behind another collective, and which begins
/// a collective itself.
struct Waiting(Communicator);

impl Operation<u32> for Waiting {
    fn is_commutative(&self) -> bool {
        true
    }

    fn combine(&self, left: &[u32], right: &mut [u32]) {
        if self.0.rank() == 1 {
            self.0.send(&[0_u8], 0, 8).unwrap();
            self.0.recv(&mut [0_u8], 0, 9).unwrap();
            self.0.scope(|scope| scope.ibarrier(&self.0)?.wait()).unwrap();
        }
        right[0] += left[0];
    }
}

#[test]
fn collectives_go_on_while_an_operation_of_another_waits() {
    both_ways(2, |world| {
        let called = |name| world.dup_with_algorithms(&[("allreduce", name)]).unwrap();
        let (before, during, behind) = (called("reduce-bcast"), called("doubling"), called("auto"));
        let talk = world.dup().unwrap();
        let (one, mut sums) = ([1], [[0], [0], [0]]);
        let [first, second, third] = &mut sums;
        world
            .scope(|scope| {
                if world.rank() == 1 {
                    let first = scope.iallreduce(&before, &one, first, Sum)?;
                    let second = scope.iallreduce(&during, &one, second, Waiting(talk.clone()))?;
                    let third = scope.iallreduce(&behind, &one, third, Sum)?;
                    second.wait()?;
                    third.wait()?;
                    return first.wait();
                }
                let second = scope.iallreduce(&during, &one, second, Waiting(talk.clone()))?;
                talk.recv(&mut [0_u8], 1, 8)?;
                // What rank 1, which combines, does next for this one it does inside of its operation.
                scope.iallreduce(&before, &one, first, Sum)?.wait()?;
                talk.send(&[0_u8], 1, 9)?;
                scope.ibarrier(&talk)?.wait()?;
                let third = scope.iallreduce(&behind, &one, third, Sum)?;
                second.wait()?;
                third.wait()
            })
            .unwrap();
        assert_eq!(sums, [[2]; 3]);
    });
}

#[test]
fn a_panic_in_a_user_operation_passes_through() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    ranks(1, |world| {
        let panicking = ordered(|_: u8, _: u8| -> u8 { panic!("on purpose") });
        // One rank has nothing to combine.
        world.allreduce(&[1u8], &mut [0u8], panicking).unwrap();
    });
    ranks(2, |world| {
        let result = catch_unwind(AssertUnwindSafe(|| {
            let op = ordered(|_: u8, _: u8| -> u8 { panic!("on purpose") });
            world.allreduce(&[1u8], &mut [0u8], op)
        }));
        assert!(result.is_err());
        world.barrier().unwrap();
    });
}

#[test]
fn lengths_that_do_not_fit_are_reported() {
    ranks(2, |world| {
        let wrong = |what, expected, got| Err(MpiError::InvalidLength { what, expected, got });
        let result = world.allreduce(&[1u8; 2], &mut [0u8; 3], Sum);
        assert_eq!(result, wrong("the output of allreduce", 2, 3));
        let result = world.reduce_scatter_block(&[1u8; 3], &mut [0u8; 2], Sum);
        assert_eq!(result, wrong("the input of reduce_scatter_block", 4, 3));
        let result = world.reduce_scatter(&[1u8; 3], &mut [0u8; 1], &[1, 1], Sum);
        assert_eq!(result, wrong("the input of reduce_scatter", 2, 3));
        let result = world.reduce_scatter(&[1u8; 3], &mut [0u8; 1], &[1], Sum);
        assert_eq!(result, wrong("the counts of reduce_scatter", 2, 1));
        assert_eq!(
            world.reduce(&[1u8], &mut [0u8], Sum, 2),
            Err(MpiError::InvalidRoot { root: 2, size: 2 })
        );
        world.barrier().unwrap();
    });
}

/// Places `depth` bytes on the stack before it reduces, so that no alignment is by luck.
#[inline(never)]
fn reduce_from_depth(world: &World, depth: usize) {
    fn below<const N: usize>(world: &World) {
        let filler = std::hint::black_box([1u8; N]);
        let rank = world.rank() as u128;
        let mut wide = [0u128; 2];
        world.allreduce(&[rank, u128::from(filler[0])], &mut wide, Sum).unwrap();
        let size = world.size() as u128;
        assert_eq!(wide, [size * (size - 1) / 2, size]);
        let mut narrow = [0u8; 3];
        world.allreduce(&[1, 2, filler[N - 1]], &mut narrow, Max).unwrap();
        assert_eq!(narrow, [1, 2, 1]);
    }
    match depth % 4 {
        0 => below::<1>(world),
        1 => below::<7>(world),
        2 => below::<20>(world),
        _ => below::<29>(world),
    }
}

#[test]
fn items_of_every_alignment_are_combined() {
    both_ways(5, |world| (0..4).for_each(|depth| reduce_from_depth(world, depth)));
}
