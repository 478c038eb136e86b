//! Communicators and groups on real ranks.

use std::cell::Cell;
use std::rc::Rc;

use bowline_mpi::raw::RawRequest;
use bowline_mpi::{
    ANY_SOURCE, ANY_TAG, Communicator, Comparison, MpiError, Request, Status, Sum, UNDEFINED,
    wait_any,
};

use super::start::{both_ways, both_ways_with, ranks};

#[test]
fn messages_stay_in_their_communicator() {
    ranks(2, |world| {
        let other = 1 - world.rank();
        let copy = world.dup().unwrap();
        assert_eq!(world.compare(&copy), Comparison::Congruent);
        assert_eq!(world.compare(world.communicator()), Comparison::Identical);
        world.send(&[1u8], other, 0).unwrap();
        copy.send(&[2u8], other, 0).unwrap();
        let mut into = [0u8];
        copy.recv(&mut into, ANY_SOURCE, ANY_TAG).unwrap();
        assert_eq!(into, [2]);
        world.recv(&mut into, ANY_SOURCE, ANY_TAG).unwrap();
        assert_eq!(into, [1]);
    });
}

#[test]
fn a_split_orders_by_key_and_then_by_rank() {
    for size in 1..=9 {
        ranks(size, |world| {
            let (rank, size) = (world.rank(), world.size());
            let part = world.split(rank % 3, -(rank / 3)).unwrap().unwrap();
            let expected: Vec<_> = (0..size).filter(|r| r % 3 == rank % 3).rev().collect();
            assert_eq!(part.size() as usize, expected.len());
            assert_eq!(expected[part.rank() as usize], rank);
            let mut sum = [0];
            part.allreduce(&[rank], &mut sum, Sum).unwrap();
            assert_eq!(sum[0], expected.iter().sum::<i32>());

            let same_key = world.split(0, 7).unwrap().unwrap();
            assert_eq!((same_key.rank(), same_key.size()), (rank, size));
            let halves = world.split(if rank % 2 == 0 { 4 } else { UNDEFINED }, 0).unwrap();
            assert_eq!(halves.is_some(), rank % 2 == 0);
            assert_eq!(world.split(-5, 0).unwrap_err(), MpiError::InvalidColor { color: -5 });
            // One that gives no colour fails at all of them, and leaves the communicator as it was.
            let invalid = MpiError::InvalidColor { color: -2 };
            let (color, expected) =
                if rank == 0 { (-2, invalid) } else { (rank % 2, MpiError::MemberGaveUp) };
            assert_eq!(world.split(color, 0).unwrap_err(), expected);
            assert_eq!(world.split(0, 0).unwrap().unwrap().size(), size);
        });
    }
}

#[test]
fn ranks_of_one_machine_share_memory() {
    ranks(3, |world| {
        let node = world.split_shared(-world.rank()).unwrap();
        assert_eq!(node.size(), 3);
        assert_eq!(node.rank(), 2 - world.rank());
    });
}

#[test]
fn a_communicator_is_made_of_a_group() {
    ranks(5, |world| {
        let group = world.group().include(&[4, 0, 2]).unwrap();
        let part = world.create(&group).unwrap();
        let position = [4, 0, 2].iter().position(|&rank| rank == world.rank());
        assert_eq!(part.as_ref().map(|part| part.rank() as usize), position);
        if let Some(part) = part {
            assert_eq!(part.group(), group);
            let mut all = [0; 3];
            part.allgather(&[world.rank()], &mut all).unwrap();
            assert_eq!(all, [4, 0, 2]);
            // The whole world is more than the part.
            let error = part.create(&world.group()).unwrap_err();
            assert_eq!(error, MpiError::InvalidGroup { rank: 1, size: 3 });
        }
    });
}

#[test]
fn a_group_makes_a_communicator_among_itself() {
    ranks(5, |world| {
        // Groups that overlap, in an order that only the tag keeps apart, while rank 3 calls nothing.
        let one = world.group().include(&[4, 0, 2, 1]).unwrap();
        let other = world.group().include(&[2, 4]).unwrap();
        let first = |tag| (world.rank() != 3).then(|| world.create_group(&one, tag).unwrap());
        let a = first(1).flatten();
        let b = world.create_group(&other, 1).unwrap();
        let c = first(7).flatten();
        assert_eq!(b.is_some(), world.rank() % 4 == 0 && world.rank() > 0 || world.rank() == 2);
        for made in [&a, &c].into_iter().flatten() {
            let mut all = [0; 4];
            made.allgather(&[world.rank()], &mut all).unwrap();
            assert_eq!(all, [4, 0, 2, 1]);
        }
        assert_eq!(a.is_some(), world.rank() != 3);
        assert!(matches!(world.create_group(&one, -1), Err(MpiError::InvalidTag { tag: -1 })));
        if let Some(pair) = b {
            let mut all = [0; 2];
            pair.allgather(&[world.rank()], &mut all).unwrap();
            assert_eq!(all, [2, 4]);
            assert!(pair.create_group(&one, 0).is_err());
        }
    });
}

#[test]
fn a_group_of_the_world_needs_no_communicator_in_common() {
    ranks(3, |world| {
        let pair = world.group().include(&[2, 0]).unwrap();
        if world.rank() == 1 {
            let error = world.own().create_from_group(&pair, b"x").unwrap_err();
            assert_eq!(error, MpiError::InvalidGroup { rank: 1, size: 2 });
            return;
        }
        for text in [b"a", b"b"] {
            let made = world.own().create_from_group(&pair, text).unwrap();
            let mut all = [0; 2];
            made.allgather(&[world.rank()], &mut all).unwrap();
            assert_eq!(all, [2, 0]);
        }
    });
}

#[test]
fn members_with_different_ids_in_use_agree() {
    ranks(3, |world| {
        // Each rank has as many communicators of its own as its number says, so that windows differ.
        let own: Vec<_> = (0..700 * world.rank()).map(|_| world.own().dup().unwrap()).collect();
        let all = world.dup().unwrap();
        let text = format!("{all:?}");
        assert!(text.contains("context: 1403"), "{text}");
        drop(own);
        let next = all.dup().unwrap();
        let text = format!("{next:?}");
        assert!(text.contains("context: 3,") || text.contains("context: 3 "), "{text}");
        next.barrier().unwrap();
    });
}

#[test]
fn contexts_are_used_again_and_old_messages_stay_out() {
    ranks(2, |world| {
        let other = 1 - world.rank();
        for round in 0..50u32 {
            let comm = world.dup().unwrap();
            let text = format!("{comm:?}");
            assert!(text.contains("context: 3"), "ids stay dense: {text}");
            // One message is never received; the next communicator has the same id.
            comm.send(&[round], other, 1).unwrap();
            comm.send(&[round + 1000], other, 1).unwrap();
            let mut into = [0];
            comm.recv(&mut into, other, ANY_TAG).unwrap();
            assert_eq!(into, [round]);
            comm.barrier().unwrap();
        }
    });
}

#[test]
fn many_communicators_at_once_keep_apart() {
    ranks(3, |world| {
        let (right, left) = ((world.rank() + 1) % 3, (world.rank() + 2) % 3);
        let comms: Vec<_> = (0..600).map(|_| world.dup().unwrap()).collect();
        for (item, comm) in (0u32..).zip(&comms) {
            comm.send(&[item], right, 0).unwrap();
        }
        for (item, comm) in (0u32..600).zip(&comms).rev() {
            let mut into = [0];
            comm.recv(&mut into, left, 0).unwrap();
            assert_eq!(into, [item]);
        }
    });
}

#[test]
fn parts_of_parts_work_while_their_parents_are_gone() {
    ranks(8, |world| {
        let half = world.split(world.rank() / 4, 0).unwrap().unwrap();
        let quarter = half.split(half.rank() / 2, 0).unwrap().unwrap();
        drop(half);
        let mut sum = [0];
        quarter.allreduce(&[world.rank()], &mut sum, Sum).unwrap();
        assert_eq!(sum[0], world.rank() / 2 * 4 + 1);
        assert_eq!(quarter.size(), 2);
    });
}

#[test]
fn clones_are_the_same_communicator_and_the_last_one_closes_it() {
    ranks(2, |world| {
        let comm = world.dup().unwrap();
        let clone = comm.clone();
        drop(comm);
        clone.barrier().unwrap();
        assert!(clone.failed().is_empty());
        clone.acknowledge_failures();
        assert_eq!(clone.group().world_ranks().collect::<Vec<_>>(), [0, 1]);
    });
}

/// Waits for a duplicate.
pub(crate) fn made(comm: &Communicator, request: &mut RawRequest) -> Result<(), MpiError> {
    let mut end = None;
    comm.wait_until(|| {
        end = end.or_else(|| request.poll());
        end.is_some()
    });
    end.and_then(|end| end.error).map_or(Ok(()), Err)
}

#[test]
fn duplicates_are_made_in_the_background_beside_other_collectives() {
    const MANY: usize = 4;
    for (size, threshold) in [(1, "auto"), (2, "0"), (3, "auto"), (5, "0"), (6, "auto"), (8, "0")] {
        both_ways_with(size, &[("BOWLINE_RNDV_THRESHOLD", threshold)], |world| {
            let (mut sums, one) = ([[0_u32]; MANY], [1_u32]);
            let mut comms = Vec::new();
            let done = world.scope(|scope| {
                let (mut duplicates, mut reductions) = (Vec::new(), Vec::new());
                for sum in &mut sums {
                    let place = Rc::new(Cell::new(None));
                    let into = Rc::clone(&place);
                    let request = world.start_dup(&[], move |comm| into.set(Some(comm)))?;
                    duplicates.push((request, place));
                    reductions.push(scope.iallreduce(world, &one, sum, Sum)?);
                }
                // One that waits while all are under way, and ends that go back where ranks are odd.
                world.barrier()?;
                let mut order: Vec<usize> = (0..MANY).collect();
                if world.rank() % 2 == 1 {
                    order.reverse();
                }
                for number in order {
                    made(world, &mut duplicates[number].0)?;
                }
                comms = duplicates.iter().map(|(_, place)| place.take().unwrap()).collect();
                reductions.into_iter().try_for_each(|one| one.wait())
            });
            done.unwrap();
            assert_eq!(sums, [[size as u32]; MANY]);
            // Messages of each are its own.
            let (rank, size) = (world.rank(), world.size());
            let (next, last) = ((rank + 1) % size, (rank + size - 1) % size);
            for (number, comm) in comms.iter().enumerate() {
                assert_eq!(world.compare(comm), Comparison::Congruent);
                let mut got = [MANY];
                comm.sendrecv(&[number], next, 0, &mut got, last, 0).unwrap();
                assert_eq!(got, [number]);
            }
        });
    }
}

#[test]
fn duplicates_stand_beside_other_requests() {
    both_ways(3, |world| {
        let (one, mut sum) = ([1_u32], [0]);
        let mut dropped = world.idup().unwrap();
        let other = world
            .scope(|scope| {
                let mut duplicate = world.idup()?;
                let mut total = scope.iallreduce(world, &one, &mut sum, Sum)?;
                let mut all: [&mut dyn Request; 3] = [&mut total, &mut duplicate, &mut dropped];
                let mut found = Vec::new();
                while let Some((which, outcome)) = wait_any(&mut all) {
                    assert_eq!(outcome, Ok(Status::EMPTY));
                    found.push(which);
                }
                found.sort_unstable();
                assert_eq!(found, [0, 1, 2]);
                assert!(!duplicate.is_active());
                duplicate.wait()
            })
            .unwrap();
        drop(dropped);
        assert_eq!((sum, world.compare(&other)), ([3], Comparison::Congruent));
        other.barrier().unwrap();
    });
}

#[test]
fn duplicates_that_would_choose_differently_fail_at_all_members() {
    ranks(3, |world| {
        let name = ["flat", "chain", "flat"][world.rank() as usize];
        let mut request = world.start_dup(&[("bcast", name)], |_| unreachable!()).unwrap();
        assert_eq!(made(world, &mut request), Err(MpiError::ChoicesDiffer));
        let mut request = world.idup_with_algorithms(&[("bcast", name)]).unwrap();
        assert_eq!(request.complete(), Err(MpiError::ChoicesDiffer));
        assert_eq!(request.wait().unwrap_err(), MpiError::ChoicesDiffer);
        let mut request = world.start_dup(&[("bcast", "flat")], drop).unwrap();
        made(world, &mut request).unwrap();
    });
}
