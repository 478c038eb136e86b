//! A rank dies (its thread panics): what waits for it fails at all others, nothing hangs, and
//! what does not need it goes on. Deaths of processes are tested with the launcher.

use bowline_mpi::{ANY_SOURCE, MpiError, Sum, World};

use super::start::{DEATH, ranks_with_death};

fn is_death(error: MpiError) -> bool {
    matches!(error, MpiError::PeerFailed(_) | MpiError::MemberFailed { .. })
}

/// Waits until the death is known here.
fn until_known(world: &World) {
    while world.failed().is_empty() {
        world.progress();
        std::thread::yield_now();
    }
}

fn large(world: &World) -> Result<(), MpiError> {
    let out = vec![world.rank(); 50_000 * world.size() as usize];
    world.alltoall(&out, &mut out.clone())
}

#[test]
fn a_collective_fails_at_those_who_were_in_it_and_those_who_come_later() {
    ranks_with_death(4, 0, |world| {
        assert!(world.rank() != 0, "{DEATH}");
        if world.rank() != 1 {
            // Rank 1 is in the exchange already, with large messages offered to all; what the
            // others try first is a receive from the dead, so they never ask for those.
            until_known(world);
        }
        assert!(is_death(large(world).unwrap_err()));
        for other in (1..4).filter(|&other| other != world.rank()) {
            let mut into = [0];
            world.sendrecv(&[world.rank()], other, 0, &mut into, other, 0).unwrap();
            assert_eq!(into, [other]);
        }
        assert!(is_death(world.barrier().unwrap_err()));
        let sum = world.allreduce(&[1u8], &mut [0u8], Sum);
        assert!(is_death(sum.unwrap_err()));
    });
}

#[test]
fn the_living_go_on_among_themselves() {
    ranks_with_death(3, 2, |world| {
        let pair = world.split(world.rank() / 2, 0).unwrap().unwrap();
        assert!(world.rank() != 2, "{DEATH}");
        until_known(world);
        let mut into = [0i32];
        assert!(is_death(world.recv(&mut into, 2, 0).unwrap_err()));
        // Another tag than below: a message that has come is received, although others are dead.
        assert!(is_death(world.recv(&mut into, ANY_SOURCE, 5).unwrap_err()));
        assert!(is_death(world.probe(2, 0).unwrap_err()));
        assert!(is_death(world.mprobe(ANY_SOURCE, 5).unwrap_err()));
        assert_eq!(world.failed(), [2]);

        world.acknowledge_failures();
        let other = 1 - world.rank();
        world.send(&[world.rank()], other, 0).unwrap();
        assert_eq!(world.recv(&mut into, ANY_SOURCE, 0).unwrap().source(), other);
        assert_eq!(into, [other]);

        let mut sum = [0];
        pair.allreduce(&[world.rank()], &mut sum, Sum).unwrap();
        assert_eq!(sum, [1]);
        assert!(pair.failed().is_empty());
    });
}

#[test]
fn a_duplicate_that_needs_the_dead_fails_at_all_others() {
    ranks_with_death(5, 2, |world| {
        assert!(world.rank() != 2, "{DEATH}");
        let begin = |_| world.start_dup(&[], |_| unreachable!("a member is dead")).unwrap();
        let mut requests: Vec<_> = (0..3).map(begin).collect();
        for request in &mut requests {
            let mut end = None;
            world.wait_until(|| {
                end = request.poll();
                end.is_some()
            });
            let error = end.and_then(|end| end.error).unwrap();
            let text = error.to_string();
            assert!(is_death(error), "{text}");
        }
        until_known(world);
        assert!(is_death(world.dup().unwrap_err()));
        // Nobody leaves before the others have come so far.
        for other in (0..5).filter(|&other| other != 2 && other != world.rank()) {
            world.sendrecv(&[0_u8], other, 0, &mut [0_u8], other, 0).unwrap();
        }
    });
}

#[test]
fn requests_that_wait_for_the_dead_fail_and_others_do_not() {
    ranks_with_death(3, 2, |world| {
        let other = 1 - world.rank();
        let (mut dead, mut alive) = ([0u8; 4], [0u8; 4]);
        if world.rank() == 2 {
            world.recv(&mut dead, 0, 1).unwrap();
            panic!("{DEATH}");
        }
        world
            .scope(|s| {
                let from_dead = s.irecv(world, &mut dead, 2, 0)?;
                let from_alive = s.irecv(world, &mut alive, other, 0)?;
                if world.rank() == 0 {
                    world.send(&[1u8], 2, 1)?;
                }
                assert!(is_death(from_dead.wait().unwrap_err()));
                world.send(&[7u8; 4], other, 0)?;
                assert_eq!(from_alive.wait()?.items, [7; 4]);
                Ok(())
            })
            .unwrap();
    });
}
