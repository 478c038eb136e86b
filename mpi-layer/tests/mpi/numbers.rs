//! Collectives in the background when all numbers of their kind were taken: one is used again, unless it is that of a
//! collective that is still there.

use bowline_mpi::{ErrorClass, MpiError, Sum, World};

use super::start::both_ways;

/// Collectives of a kind that have numbers of their own.
const NUMBERS: u32 = 1 << 22;

fn total(world: &World) -> u64 {
    (0..world.size() as u64).sum()
}

#[test]
fn a_persistent_one_never_gets_the_number_of_one_that_is_kept() {
    both_ways(3, |world| {
        let me = world.rank() as u64;
        let make = |items: u64| world.allreduce_init(vec![me + items; 9], vec![0; 9], Sum);
        let mut first = make(0).unwrap();
        world.skip_background_numbers(NUMBERS - 2);
        let mut last = make(10).unwrap();
        let refused = make(20).unwrap_err();
        assert_eq!((refused, refused.class()), (MpiError::NumberInUse, ErrorClass::Other));
        // What was refused has taken its number: this one has the next one at all members.
        let mut next = make(30).unwrap();
        // At some ranks in one order, at others in the other one.
        let mut all = [&mut first, &mut last, &mut next];
        all.rotate_left(me as usize);
        all.iter_mut().for_each(|one| one.start().unwrap());
        all.iter_mut().for_each(|one| one.wait().unwrap());
        for (one, more) in [(&first, 0), (&last, 30), (&next, 90)] {
            assert_eq!(one.output().unwrap(), [total(world) + more; 9]);
        }
        // Freed, its number is used again.
        drop(first);
        world.skip_background_numbers(NUMBERS - 2);
        let mut again = make(40).unwrap();
        again.start().unwrap();
        again.wait().unwrap();
        assert_eq!(again.output().unwrap(), [total(world) + 120; 9]);
    });
}

/// The root frees one and starts another one of its number before the others have received anything of the first.
#[test]
fn members_need_not_free_a_number_at_the_same_time() {
    for len in [1, 700, 60_000] {
        both_ways(3, |world| {
            let me = world.rank();
            let mut sent = Vec::new();
            for round in 0..4_u64 {
                let items = if me == 0 { vec![round + 1; len] } else { vec![0; len] };
                let mut bcast = world.bcast_init(items, 0).unwrap();
                world.skip_background_numbers(NUMBERS - 1);
                if me > 0 && round == 0 {
                    // The root is as far ahead as it comes.
                    for _ in 0..2000 {
                        world.progress();
                    }
                }
                bcast.start().unwrap();
                bcast.wait().unwrap();
                sent.push(bcast.output().unwrap()[len - 1]);
            }
            assert_eq!(sent, [1, 2, 3, 4]);
        });
    }
}

#[test]
fn a_nonblocking_one_never_gets_the_number_of_one_that_is_under_way() {
    both_ways(2, |world| {
        let (me, mut sum) = (world.rank() as u64, [0]);
        world
            .scope(|s| {
                if me == 0 {
                    let first = s.ibarrier(world)?;
                    world.skip_background_numbers(NUMBERS - 1);
                    assert_eq!(s.ibarrier(world).err(), Some(MpiError::NumberInUse));
                    world.send(&[1_u8], 1, 1)?;
                    first.wait()?;
                } else {
                    world.recv(&mut [0_u8], 0, 1)?;
                    s.ibarrier(world)?.wait()?;
                    // As many numbers as the other one has taken.
                    world.skip_background_numbers(NUMBERS);
                }
                s.iallreduce(world, &[5_u64], &mut sum, Sum)?.wait()?;
                // That of the first is free at its end, although the scope goes on.
                world.skip_background_numbers(NUMBERS - 2);
                s.ibarrier(world)?.wait()
            })
            .unwrap();
        assert_eq!(sum, [10]);
    });
}
