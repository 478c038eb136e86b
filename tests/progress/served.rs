//! Mode `pef` over lanes that no signal handler may poll, sockets and libfabric: messages move while either side
//! computes, and a rank that waits wakes nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bowline::mpi::{Sum, World};
use bowline::progress::{poll_count, timer_calls};

use super::{HAMMER, message, moves_while_the_receiver_computes, ranks, traffic};

type Settings = Vec<(&'static str, &'static str)>;

/// What the ranks talk over; no transport but these.
fn lanes() -> Vec<Settings> {
    let mut all = vec![vec![("BOWLINE_TRANSPORTS", "self,tcp")]];
    if cfg!(feature = "ofi") {
        all.push(vec![("BOWLINE_TRANSPORTS", "self,ofi"), ("BOWLINE_OFI_PROVIDER", "tcp")]);
    } else {
        println!("skipped over libfabric: this build has none; build with --features ofi");
    }
    all
}

/// The defaults of the mode, over each of the lanes.
fn each(test: impl Fn(&[(&str, &str)])) {
    for lane in lanes() {
        test(&[&[("BOWLINE_PROGRESS", "pef")], &lane[..]].concat());
    }
}

#[test]
fn long_messages_move_while_the_receiver_computes_beside_sockets() {
    each(|settings| {
        for bytes in [20_000, 1_000_000, 8_000_000] {
            moves_while_the_receiver_computes(settings, bytes);
        }
    });
}

/// The sender makes no call between posting and the end of the receiver's blocking receive.
fn moves_while_the_sender_computes(settings: &[(&str, &str)], bytes: usize) {
    let received = Arc::new(AtomicU32::new(0));
    let data = message(9, bytes);
    ranks(2, settings, move |world| {
        let mut into = vec![0; bytes];
        for round in 0..6 {
            if world.rank() == 1 {
                into.fill(0);
                world.recv(&mut into, 0, 2).expect("rank 0 lives");
                assert!(into == data, "round {round}: {bytes} bytes are not as they were sent");
                received.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            world
                .scope(|s| {
                    let send = s.isend(&world, &data, 1, 2)?;
                    let begin = Instant::now();
                    while received.load(Ordering::SeqCst) <= round {
                        std::hint::spin_loop();
                        let hangs = begin.elapsed() > Duration::from_secs(60);
                        assert!(!hangs, "round {round}: nothing moves while the sender computes");
                    }
                    send.wait()
                })
                .expect("rank 1 lives");
        }
    });
}

#[test]
fn long_messages_move_while_the_sender_computes_beside_sockets() {
    each(|settings| {
        for bytes in [20_000, 1_000_000, 8_000_000] {
            moves_while_the_sender_computes(settings, bytes);
        }
    });
}

/// Both compute until both have seen that the other's message is whole, which they read without a call: each round
/// ends only when the last byte of each has moved.
#[test]
fn long_messages_move_while_both_sides_compute_beside_sockets() {
    const BYTES: usize = 3_000_000;
    each(|settings| {
        let here = Arc::new(AtomicU32::new(0));
        let polls = ranks(2, settings, move |world| {
            let (me, other) = (world.rank(), 1 - world.rank());
            let out: Vec<u8> = vec![me as u8 + 1; BYTES];
            for round in 1..=5 {
                let mut into = vec![0_u8; BYTES];
                let last: *const u8 = &raw const into[BYTES - 1];
                world
                    .scope(|s| {
                        let receive = s.irecv(&world, &mut into, other, 4)?;
                        let send = s.isend(&world, &out, other, 4)?;
                        let begin = Instant::now();
                        // SAFETY: the byte is in the vector, which lives. That another thread writes it meanwhile is
                        // what is waited for; a volatile read of one byte sees the one or the other value.
                        while unsafe { last.read_volatile() } == 0 {
                            std::hint::spin_loop();
                            let hangs = begin.elapsed() > Duration::from_secs(60);
                            assert!(!hangs, "round {round}: nothing moves while both compute");
                        }
                        here.fetch_add(1, Ordering::SeqCst);
                        while here.load(Ordering::SeqCst) < 2 * round {
                            std::hint::spin_loop();
                            let hangs = begin.elapsed() > Duration::from_secs(60);
                            assert!(!hangs, "round {round}: the other one hears of nothing");
                        }
                        receive.wait()?;
                        send.wait()
                    })
                    .expect("both ranks live");
                assert!(into.iter().all(|byte| *byte == other as u8 + 1));
            }
        });
        assert!(polls > 0, "nobody has polled beside the ranks");
    });
}

#[test]
fn payloads_are_whole_beside_sockets() {
    for lane in lanes() {
        // A phase that is set is taken, also on one host.
        let settings = [HAMMER, &lane[..]].concat();
        let polls = ranks(2, &settings, |world| traffic(&world, 60));
        assert!(polls > 60, "{lane:?}: only {polls} polls: the test has tested nothing");
        ranks(5, &settings, |world| traffic(&world, 8));
    }
}

/// Ranks that reach each other by memory, and have sockets beside: handlers and the thread at once.
#[test]
fn payloads_are_whole_beside_memory_and_sockets() {
    for transports in ["self,shm,tcp", "self,tcp,shm"] {
        let settings = [HAMMER, &[("BOWLINE_TRANSPORTS", transports)]].concat();
        let polls = ranks(3, &settings, |world| traffic(&world, 40));
        assert!(polls > 40, "{transports}: only {polls} polls: the test has tested nothing");
    }
}

/// Blocking calls and collectives set no timer of the thread either, and it does not poll for them.
#[test]
fn calls_that_wait_wake_no_thread() {
    for lane in lanes() {
        let counts = Arc::new([AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX)]);
        let counted = Arc::clone(&counts);
        let settings = [&[("BOWLINE_PROGRESS", "pef")], &lane[..]].concat();
        ranks(2, &settings, move |world| {
            blocking_calls(&world, 2);
            let before = [timer_calls(), poll_count()];
            blocking_calls(&world, 10);
            counted[0].store(timer_calls() - before[0], Ordering::SeqCst);
            counted[1].store(poll_count() - before[1], Ordering::SeqCst);
        });
        let counts = counts.each_ref().map(|count| count.load(Ordering::SeqCst));
        assert_eq!(counts, [0, 0], "{lane:?}: timers that were set, and polls");
    }
}

fn blocking_calls(world: &World, rounds: i32) {
    const LONG: usize = 300_000;
    let (me, other) = (world.rank(), 1 - world.rank());
    let (out, mut into) = (vec![me as u8; LONG], vec![0_u8; LONG]);
    let mut all = || -> Result<(), bowline::mpi::MpiError> {
        for round in 0..rounds {
            if me == 0 {
                world.send(&out, 1, 1)?;
                world.recv(&mut into, 1, 2)?;
            } else {
                world.recv(&mut into, 0, 1)?;
                world.send(&out, 0, 2)?;
            }
            world.sendrecv(&out, other, round, &mut into, other, round)?;
            world.bcast(&mut into, round % 2)?;
            let mut sum = vec![0_u64; LONG / 8];
            world.allreduce(&vec![1_u64; LONG / 8], &mut sum, Sum)?;
            assert_eq!(sum[LONG / 8 - 1], 2);
            world.alltoall(&vec![me as u8; 2 * LONG], &mut vec![0_u8; 2 * LONG])?;
            world.allgather(&out, &mut vec![0_u8; 2 * LONG])?;
        }
        world.barrier()
    };
    all().expect("both ranks live");
}

/// A receive that is posted and waited for at once is over before the thread's time comes, or stops it.
#[test]
fn receives_that_are_waited_for_at_once_get_few_polls() {
    const ROUNDS: u64 = 10;
    each(|settings| {
        let settings = [settings, &[("BOWLINE_PEF_PHASE", "20us")]].concat();
        let polls = ranks(2, &settings, |world| {
            let mut long = vec![0u8; 300_000];
            for _ in 0..ROUNDS {
                if world.rank() == 1 {
                    std::thread::sleep(Duration::from_millis(20));
                    world.send(&long, 0, 1).expect("rank 0 lives");
                    continue;
                }
                world
                    .scope(|s| s.irecv(&world, &mut long, 1, 1)?.wait().map(drop))
                    .expect("rank 1 lives");
            }
        });
        // In the 20 ms of each round a thread that went on would poll at each millisecond, four times.
        assert!(polls < 8 * ROUNDS, "{polls} polls in {ROUNDS} waits");
    });
}
