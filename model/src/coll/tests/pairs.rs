//! Algorithms with a message for each pair of ranks, at numbers of ranks above those at which all variants are proven.
//!
//! Where all ranks do the same under other numbers, one is followed in place of all. Where they do not, all ranks are
//! followed at few numbers always, and at every one in tests that are ignored by default; [`sampled`] follows some ranks
//! there.

use super::*;

/// The ranks whose plans are compared with rank 0's: all of up to 1024, and 64 of more.
fn compared(size: u32) -> impl Iterator<Item = u32> + std::fmt::Debug {
    let step = if size <= 1024 { 1 } else { size / 64 };
    (0..size).rev().step_by(step as usize)
}

#[test]
fn allgathers() {
    many::often().for_each(allgathers_of);
}

pub(super) fn allgathers_of(size: u32) {
    for how in [Allgather::Bruck, Allgather::Ring, Allgather::Direct] {
        proven!(alike::allgather(size, how, 3, compared(size)));
    }
}

#[test]
fn alltoalls() {
    many::often().for_each(alltoalls_of);
}

pub(super) fn alltoalls_of(size: u32) {
    for how in PARTNERS.map(Alltoall::Staged).into_iter().chain([Alltoall::Bruck]) {
        proven!(alike::alltoall(size, how, 2, compared(size)));
    }
}

#[test]
fn reduce_scatters() {
    many::often().for_each(reduce_scatters_of);
}

pub(super) fn reduce_scatters_of(size: u32) {
    proven!(alike::pairwise(size, 2, compared(size)));
}

/// What was counted for one rank holds for all.
#[test]
fn one_rank_stands_for_all() {
    for size in [1, 2, 5, 8, 12] {
        let all = proven!(alltoall(size, Alltoall::Staged(3), 2));
        assert_eq!(proven!(alike::alltoall(size, Alltoall::Staged(3), 2, 0..size)), all);
        let all = proven!(allgather(size, Allgather::Ring, 2, false));
        assert_eq!(proven!(alike::allgather(size, Allgather::Ring, 2, 0..size)), all);
    }
}

/// Follows all ranks.
fn every_rank(size: u32) {
    let roots = [size / 2, size - 1];
    proven!(alike::bcast(size, Bcast::ScatterAllgather, roots, 3 * size as usize + 1));
    proven!(reduce_scatter(&offsets(size, |_| 2), ReduceScatter::Direct, true));
    let (counts, displacements, total) = scattered(size);
    let blocks = placed(Space::Output, &counts, &displacements);
    for how in [Allgather::Bruck, Allgather::Ring, Allgather::Direct] {
        holds(prove::allgatherv(&blocks, how, total), format_args!("{size} {how:?}"));
    }
    for partners in PARTNERS {
        let len = |from: u32, to: u32| ((from * 3 + to * 7) % 5) as usize;
        holds(prove::alltoallv(size, partners, len), format_args!("{size} {partners}"));
    }
    for how in [ReduceScatter::Pairwise, ReduceScatter::Direct] {
        proven!(reduce_scatter(&offsets(size, uneven), how, allows(how, size, false)));
    }
}

/// Some numbers: the next ones, and those around a power of two.
fn some() -> impl Iterator<Item = u32> {
    (34..=40).chain([127, 128, 129])
}

#[test]
fn every_pair_of_ranks_has_its_message() {
    some().for_each(every_rank);
}

#[test]
#[ignore = "takes minutes: cargo test -p bowline-model -- --ignored"]
fn every_pair_of_ranks_at_every_number() {
    let done: Vec<u32> = some().collect();
    let all = many::WIDE.chain([1000, 1024]).filter(|size| !done.contains(size));
    on_all_processors(all, every_rank);
}
