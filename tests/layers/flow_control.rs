//! Programs that are legal and that a careless flow control would hang or drown: each under a
//! watchdog.

use crate::common::within_two_minutes;
use bowline::mpi::{ANY_SOURCE, ANY_TAG};

#[test]
fn a_million_messages_before_the_one_received_first() {
    within_two_minutes("a million unexpected messages", || {
        const COUNT: u64 = 1_000_000;
        bowline::threads(2, |world| {
            if world.rank() == 0 {
                for i in 0..COUNT {
                    world.send(&[i], 1, 1).expect("rank 1 lives");
                }
                world.send(&[COUNT], 1, 2).expect("rank 1 lives");
            } else {
                let mut word = [0u64];
                world.recv(&mut word, 0, 2).expect("rank 0 lives");
                assert_eq!(word, [COUNT]);
                for i in 0..COUNT {
                    world.recv(&mut word, 0, 1).expect("rank 0 lives");
                    assert_eq!(word, [i], "messages of one tag keep their order");
                }
            }
        })
        .expect("two ranks fit into memory");
    });
}

#[test]
fn both_send_until_their_queues_are_full_and_only_then_receive() {
    within_two_minutes("mutual sends with full queues", || {
        // 24 bytes are never refused; more than any queue holds.
        const COUNT: usize = 20_000;
        bowline::threads(2, |world| {
            let other = 1 - world.rank();
            for i in 0..COUNT {
                world.send(&[i, i, i], other, 5).expect("the other lives");
            }
            let mut words = [0usize; 3];
            for i in 0..COUNT {
                world.recv(&mut words, other, 5).expect("the other lives");
                assert_eq!(words, [i; 3]);
            }
        })
        .expect("two ranks fit into memory");
    });
}

#[test]
fn unmatched_medium_messages_stay_within_the_budget_and_arrive() {
    within_two_minutes("a flood of medium messages", || {
        // 64 MB of payload against a share of half a megabyte: most of it must stay with the
        // sender, whose sends are nonblocking.
        const COUNT: usize = 16_000;
        bowline::threads(2, |world| {
            if world.rank() == 0 {
                let payload = vec![3u8; 4096];
                world
                    .scope(|scope| {
                        let mut sends = Vec::new();
                        for _ in 0..COUNT {
                            sends.push(scope.isend(&world, &payload[..], 1, 1)?);
                        }
                        world.send(&[9u8], 1, 2)?;
                        for send in sends {
                            send.wait()?;
                        }
                        Ok::<_, bowline::mpi::MpiError>(())
                    })
                    .expect("rank 1 lives");
            } else {
                let mut control = [0u8];
                world.recv(&mut control, 0, 2).expect("rank 0 lives");
                assert_eq!(control, [9]);
                let mut payload = vec![0u8; 4096];
                for _ in 0..COUNT {
                    world.recv(&mut payload, 0, 1).expect("rank 0 lives");
                    assert!(payload.iter().all(|&b| b == 3));
                }
            }
        })
        .expect("two ranks fit into memory");
    });
}

#[test]
fn a_flood_of_many_to_one_with_a_control_message_behind_it() {
    within_two_minutes("64 to 1", || {
        const RANKS: usize = 64;
        const EACH: usize = 500;
        bowline::threads(RANKS, |world| {
            let me = world.rank();
            if me == 0 {
                // The control messages are asked for first, behind all the others.
                for rank in 1..RANKS as i32 {
                    let mut control = [0i32];
                    world.recv(&mut control, rank, 99).expect("the sender lives");
                    assert_eq!(control, [rank]);
                }
                let mut next = [0usize; RANKS];
                let mut words = [0usize; 16];
                for _ in 0..(RANKS - 1) * EACH {
                    let status = world.recv(&mut words, ANY_SOURCE, ANY_TAG).expect("they live");
                    let from = status.source() as usize;
                    assert_eq!(words, [next[from]; 16], "order of rank {from}");
                    next[from] += 1;
                }
                assert!(next[1..].iter().all(|&n| n == EACH));
            } else {
                let rows: Vec<[usize; 16]> = (0..EACH).map(|i| [i; 16]).collect();
                world
                    .scope(|scope| {
                        let mut sends = Vec::new();
                        for row in &rows {
                            sends.push(scope.isend(&world, &row[..], 0, 1)?);
                        }
                        world.send(&[me], 0, 99)?;
                        for send in sends {
                            send.wait()?;
                        }
                        Ok::<_, bowline::mpi::MpiError>(())
                    })
                    .expect("rank 0 lives");
            }
        })
        .expect("64 ranks fit into memory");
    });
}

#[test]
fn ranks_asleep_in_a_barrier_are_woken_by_the_last() {
    within_two_minutes("barriers with a late rank", || {
        const RANKS: i32 = 5;
        bowline::threads(RANKS as usize, |world| {
            for round in 0..25 {
                if world.rank() == round % RANKS {
                    // Long enough for the others to have stopped yielding.
                    std::thread::sleep(std::time::Duration::from_millis(30));
                }
                world.barrier().expect("all live");
                let mut sum = [0i32; 2];
                world.allreduce(&[round, 1], &mut sum, bowline::mpi::Sum).expect("all live");
                assert_eq!(sum, [round * RANKS, RANKS]);
            }
        })
        .expect("five ranks fit into memory");
    });
}
