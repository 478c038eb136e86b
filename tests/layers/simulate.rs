//! Blocking programs on a simulated network: they run unchanged and repeat exactly, deadlocks are
//! explained, deaths reach everybody; and thousands of workers run in one thread.

use std::panic::resume_unwind;

use crate::common::within_two_minutes;
use bowline::mpi::{ANY_SOURCE, MpiError, Request as _, Sum, World};
use bowline::simulate::{self, Death, End, Faults, Moment, SimulatedJob, Why};

fn storm(job: &mut SimulatedJob) {
    job.network.jitter_ns = 5000;
    job.network.slots = 4;
    job.network.faults = Faults {
        loss: 50_000,
        retransmit_ns: 20_000,
        duplicate: 50_000,
        reorder: 100_000,
        reorder_ns: 20_000,
    };
}

fn ring(world: World) -> i32 {
    let (me, n) = (world.rank(), world.size());
    let mut token = [0];
    if me == 0 {
        world.send(&[1], 1 % n, 3).expect("rank 1 lives");
        world.recv(&mut token, n - 1, 3).expect("the last lives");
    } else {
        world.recv(&mut token, me - 1, 3).expect("the one before lives");
        world.send(&[token[0] + 1], (me + 1) % n, 3).expect("the next lives");
    }
    let mut sum = [0];
    world.allreduce(&[token[0]], &mut sum, Sum).expect("all live");
    sum[0]
}

#[test]
fn a_blocking_program_runs_and_repeats_exactly() {
    within_two_minutes("rings", || {
        let mut hashes = std::collections::BTreeSet::new();
        for seed in 0..10 {
            let mut job = SimulatedJob::new(6, seed);
            storm(&mut job);
            let first = simulate::run(&job, ring).expect("six ranks start");
            let second = simulate::run(&job, ring).expect("six ranks start");
            assert!(
                first.ends.iter().all(|end| *end == End::Returned(6 + 1 + 2 + 3 + 4 + 5)),
                "{:?}",
                first.ends
            );
            assert_eq!(first.stuck, None);
            assert_eq!((first.trace_hash, first.now_ns), (second.trace_hash, second.now_ns));
            hashes.insert(first.trace_hash);
        }
        assert_eq!(hashes.len(), 10, "another seed, another trace");
    });
}

#[test]
fn messages_of_every_size_cross_the_network() {
    within_two_minutes("sizes", || {
        for (threshold, whole_process) in
            [("auto", true), ("auto", false), ("0", true), ("0", false), ("64m", true)]
        {
            let mut job = SimulatedJob::new(2, 5);
            storm(&mut job);
            job.network.whole_process = whole_process;
            job.config.set_text("BOWLINE_RNDV_THRESHOLD", threshold).expect("a good value");
            let report = simulate::run(&job, |world| {
                for len in [0, 1, 64, 65, 128, 129, 8192, 8193, 100_000, 1_000_000, 5_000_000] {
                    let data: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
                    if world.rank() == 0 {
                        world.send(&data, 1, 1).expect("rank 1 lives");
                        world.ssend(&data, 1, 2).expect("rank 1 lives");
                    } else {
                        for tag in [1, 2] {
                            let mut got = vec![0; len];
                            let status = world.recv(&mut got, 0, tag).expect("rank 0 lives");
                            assert_eq!(status.bytes(), len as u64);
                            assert!(got == data, "{len} bytes with tag {tag} changed");
                        }
                    }
                }
            });
            let report = report.expect("two ranks start");
            assert_eq!(report.stuck, None);
            assert_eq!(report.ends, [End::Returned(()), End::Returned(())]);
        }
    });
}

#[test]
fn a_deadlock_is_an_error_that_says_what_every_rank_waits_for() {
    within_two_minutes("a deadlock", || {
        let report = simulate::run(&SimulatedJob::new(3, 1), |world| {
            let mut byte = [0u8];
            match world.rank() {
                0 => world.recv(&mut byte, 1, 5).map(drop),
                1 => world.ssend(&[1u8; 100], 2, 6),
                _ => world.recv(&mut byte, ANY_SOURCE, 7).map(drop),
            }
        });
        let report = report.expect("three ranks start");
        let stuck = report.stuck.expect("it is a deadlock");
        assert_eq!(stuck.why, Why::Deadlock);
        let text = stuck.to_string();
        for words in [
            "rank 0: a message with tag 0x5 from rank 1",
            "rank 1: a send of 100 bytes to rank 2",
            "rank 2: a message with tag 0x7 from anyone",
        ] {
            assert!(text.contains(words), "{words:?} is not in: {text}");
        }
        for end in &report.ends {
            assert!(matches!(end, End::Returned(Err(_))), "every call ends: {end:?}");
        }
    });
}

/// Decision 22 says why this is no error at once.
#[test]
fn collectives_that_do_not_match_are_named_by_those_who_wait() {
    within_two_minutes("a barrier of two kinds", || {
        let report = simulate::run(&SimulatedJob::new(2, 1), |world| match world.rank() {
            0 => world.scope(|scope| scope.ibarrier(&world)?.wait()),
            _ => world.barrier(),
        });
        let text = report.expect("two ranks start").stuck.expect("it is a deadlock").to_string();
        for words in [
            "rank 0: a message of nonblocking collective 0 (phase 0) from rank 1",
            "while a message of blocking collective 0 (phase 1) from rank 1 is not received",
            "rank 1: a message of blocking collective 0 (phase 1) from rank 0",
            "while a message of nonblocking collective 0 (phase 0) from rank 0 is not received",
            "(the last collective that it called is barrier)",
        ] {
            assert!(text.contains(words), "{words:?} is not in: {text}");
        }
    });
    within_two_minutes("a broadcast of two roots", || {
        let report = simulate::run(&SimulatedJob::new(2, 1), |world| {
            let mut bytes = [0_u8; 100_000];
            world.scope(|scope| scope.ibcast(&world, &mut bytes, 1 - world.rank())?.wait())
        });
        let text = report.expect("two ranks start").stuck.expect("it is a deadlock").to_string();
        let words = "a message of nonblocking collective 0 (phase 0) from rank 0";
        assert!(text.contains(words) && text.contains("called is bcast)"), "{text}");
    });
}

#[test]
fn polling_for_what_never_comes_is_a_deadlock_too() {
    within_two_minutes("vain polling", || {
        let report = simulate::run(&SimulatedJob::new(2, 1), |world| {
            if world.rank() == 0 {
                return world.recv(&mut [0u8], 1, 1).map(drop);
            }
            let mut request = world.irecv_owned(vec![0u8; 1], 0, 1)?;
            while request.test()?.is_none() {}
            Ok(())
        });
        let report = report.expect("two ranks start");
        let stuck = report.stuck.expect("it is a deadlock");
        assert_eq!(stuck.why, Why::Deadlock);
        assert_eq!(stuck.ranks[1], "polls again and again");
        assert!(report.ends.iter().all(|end| matches!(end, End::Returned(Err(_)))));
    });
}

#[test]
fn virtual_time_has_a_limit() {
    within_two_minutes("an endless program", || {
        let mut job = SimulatedJob::new(2, 1);
        job.limit_ns = 10_000_000;
        let report = simulate::run(&job, |world| -> Result<(), MpiError> {
            let mut byte = [0u8];
            loop {
                world.sendrecv(&[1u8], 1 - world.rank(), 1, &mut byte, 1 - world.rank(), 1)?;
            }
        });
        let report = report.expect("two ranks start");
        assert_eq!(report.stuck.expect("it never ends").why, Why::TimeLimit);
        assert!(report.ends.iter().all(|end| matches!(end, End::Returned(Err(_)))));
    });
}

#[test]
fn a_rank_that_waits_for_one_that_has_ended_gets_an_error() {
    let report = simulate::run(&SimulatedJob::new(2, 1), |world| {
        if world.rank() == 0 { world.recv(&mut [0u8], 1, 1).map(drop) } else { Ok(()) }
    });
    let report = report.expect("two ranks start");
    // The two never met, so that no transport could report it.
    assert_eq!(report.stuck.expect("it is a deadlock").ranks[1], "has ended");
    assert!(matches!(report.ends[0], End::Returned(Err(MpiError::MemberFailed { rank: 1 }))));
}

fn until_dead(world: &World) -> Result<(), MpiError> {
    let mut sum = [0];
    for round in 0..1000 {
        world.allreduce(&[round], &mut sum, Sum)?;
        assert_eq!(sum, [round * world.size()]);
    }
    Ok(())
}

#[test]
fn a_death_at_any_operation_ends_a_collective_at_everybody() {
    within_two_minutes("deaths", || {
        for operation in 1..60 {
            let mut job = SimulatedJob::new(5, operation);
            storm(&mut job);
            let when = Moment::Operation(operation);
            job.network.deaths = vec![Death { node: 2, when }];
            let report = simulate::run(&job, |world| {
                let error = until_dead(&world).expect_err("rank 2 dies");
                assert!(
                    matches!(error, MpiError::PeerFailed(_) | MpiError::MemberFailed { .. }),
                    "{error}"
                );
                // As a program would that cannot go on.
                resume_unwind(Box::new("gave up"));
            });
            let report = report.expect("five ranks start");
            assert_eq!(report.stuck, None, "operation {operation}");
            for (rank, end) in report.ends.iter().enumerate() {
                let expected =
                    if rank == 2 { End::<()>::Killed } else { End::Panicked("gave up".to_owned()) };
                assert_eq!(*end, expected, "rank {rank}, operation {operation}");
            }
        }
    });
}

#[test]
fn a_death_at_a_time_wakes_those_asleep() {
    within_two_minutes("a death", || {
        let mut job = SimulatedJob::new(2, 0);
        job.network.deaths = vec![Death { node: 1, when: Moment::At(50_000) }];
        let report = simulate::run(&job, |world| world.recv(&mut [0u8], 1 - world.rank(), 1));
        let report = report.expect("two ranks start");
        assert_eq!(report.stuck, None);
        assert_eq!(report.ends[1], End::Killed);
        assert!(matches!(report.ends[0], End::Returned(Err(_))));
        assert_eq!(report.now_ns, 50_000 + job.network.detect_ns);
    });
}
