//! The progress modes: messages move while their receiver computes, nothing is damaged by polls at
//! every possible place, and a poll allocates nothing: this program's allocator ends it otherwise.

#[cfg(feature = "verbs")]
#[path = "../layers/alone.rs"]
mod alone;
mod collectives;
#[path = "../layers/common.rs"]
mod common;
#[cfg(feature = "verbs")]
mod devices;
mod lent;
mod served;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bowline::mpi::{CollectiveRequest, Max, Sum, World};
use bowline::progress::{in_signal_handler, poll_count, timer_calls};
use bowline_base::config::Config;
use common::within_two_minutes;

/// Does not allow polls to allocate or to free.
struct NotInHandlers;

fn check() {
    if in_signal_handler() {
        const TEXT: &[u8] = b"a poll has allocated or freed\n";
        // SAFETY: writes a constant; async-signal-safe.
        unsafe { libc::write(2, TEXT.as_ptr().cast(), TEXT.len()) };
        std::process::abort();
    }
}

// SAFETY: all is done by the system's allocator.
unsafe impl GlobalAlloc for NotInHandlers {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        check();
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        check();
        // SAFETY: as the caller promises.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: NotInHandlers = NotInHandlers;

/// One test at a time: polls are counted for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs `body` as ranks; returns how many polls there were meanwhile.
fn ranks(n: usize, settings: &[(&str, &str)], body: impl Fn(World) + Send + Sync + 'static) -> u64 {
    let settings: Vec<(String, String)> =
        settings.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = poll_count();
    let what = format!("{settings:?}");
    within_two_minutes(&what, move || {
        // What goes eagerly needs nobody, or space in the receiver's queue. From where on it does not is
        // measured on each machine, unless it is said.
        let threshold = [("BOWLINE_RNDV_THRESHOLD", "8KiB")];
        let pairs = settings.iter().map(|(a, b)| (a.as_str(), b.as_str())).chain(threshold);
        let config = Config::from_pairs(pairs, bowline::stack::SETTINGS).expect("good settings");
        bowline::threads_with(n, &config, body).expect("the ranks start");
    });
    poll_count() - before
}

/// The same, and how many indexes the matching of each rank has grown, as the rank reports at its end.
fn ranks_and_indexes(
    n: usize,
    settings: &[(&str, &str)],
    body: impl Fn(World) + Send + Sync + 'static,
) -> (u64, Vec<u64>) {
    let directory = tempfile::tempdir().expect("a directory for reports");
    let report = directory.path().join("report");
    let reports = [("BOWLINE_REPORT", report.to_str().expect("a path that is text"))];
    let polls = ranks(n, &[settings, &reports].concat(), body);
    let text = std::fs::read_to_string(&report).expect("every rank reports");
    let mut indexes = vec![0; n];
    for line in text.lines() {
        if let ["rank", rank, "matching", "index", count] =
            line.split_whitespace().collect::<Vec<_>>()[..]
        {
            indexes[rank.parse::<usize>().expect("a rank")] = count.parse().expect("a number");
        }
    }
    (polls, indexes)
}

/// As often as a timer can: a signal every few microseconds, or as often as leaves the rank most of
/// its time.
const HAMMER: &[(&str, &str)] = &[
    ("BOWLINE_PROGRESS", "pef"),
    ("BOWLINE_PEF_PHASE", "1us"),
    ("BOWLINE_PEF_PERIOD", "5us"),
    ("BOWLINE_PEF_DECAY", "1"),
    ("BOWLINE_PEF_MAX_POLLS", "1000000"),
    ("BOWLINE_PEF_WORTH", "0"),
];

/// Eight bytes at a time, each different from its neighbours.
fn message(seed: u32, bytes: usize) -> Vec<u8> {
    let words = (0..bytes as u64 / 8 + 1)
        .map(|at| (at + u64::from(seed) * 0x1_0001).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut all: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    all.truncate(bytes);
    all
}

/// A generator of Marsaglia's, for sizes and orders.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Every rank sends to every other and receives from it, in sizes of every protocol, with
/// computations that allocate in between; every byte is compared.
fn traffic(world: &World, rounds: u32) {
    const SIZES: [usize; 8] = [8, 200, 5000, 9000, 40_000, 140_000, 700_000, 3_000_000];
    let (me, n) = (world.rank(), world.size());
    for round in 0..rounds {
        // The same on both sides of each pair.
        let size = |a: i32, b: i32| {
            let mut random = Random(u64::from(round) * 64 + a as u64 * 8 + b as u64 + 1);
            random.below(1000);
            SIZES[random.below(SIZES.len() as u64) as usize] + random.below(64) as usize
        };
        let seed = |a: i32, b: i32| round * 100 + a as u32 * 10 + b as u32;
        let others: Vec<i32> = (0..n).filter(|&other| other != me).collect();
        let mut mine = Random(u64::from(round) << 8 | me as u64 | 1 << 40);
        let out: Vec<Vec<u8>> =
            others.iter().map(|&to| message(seed(me, to), size(me, to))).collect();
        let mut into: Vec<Vec<u8>> = others.iter().map(|&from| vec![0; size(from, me)]).collect();
        let sends_first = mine.below(2) == 0;
        world
            .scope(|s| {
                let mut sends = Vec::new();
                if sends_first {
                    for (buffer, &to) in out.iter().zip(&others) {
                        sends.push(s.isend(world, buffer, to, 3)?);
                    }
                }
                let mut receives = Vec::new();
                for (buffer, &from) in into.iter_mut().zip(&others) {
                    receives.push(s.irecv(world, buffer, from, 3)?);
                }
                compute_for(SIGNALS, &mut mine);
                if !sends_first {
                    for (buffer, &to) in out.iter().zip(&others) {
                        sends.push(s.isend(world, buffer, to, 3)?);
                    }
                }
                compute_for(SIGNALS, &mut mine);
                for receive in receives {
                    receive.wait()?;
                }
                sends.into_iter().try_for_each(|send| send.wait())
            })
            .expect("nobody fails");
        for (buffer, &from) in into.iter().zip(&others) {
            let whole = *buffer == message(seed(from, me), buffer.len());
            assert!(whole, "round {round}: {} bytes from {from} to {me}", buffer.len());
        }
    }
    world.barrier().expect("nobody fails");
}

/// In which some signals come, where each takes some tens of microseconds, as under some hypervisors.
const SIGNALS: Duration = Duration::from_micros(400);

fn compute_for(least: Duration, random: &mut Random) {
    let begin = Instant::now();
    while begin.elapsed() < least {
        compute(random);
    }
}

/// Allocates and frees, so that polls come upon the allocator.
fn compute(random: &mut Random) {
    let mut kept: Vec<Vec<u64>> = Vec::new();
    for _ in 0..random.below(300) {
        kept.push(vec![random.below(9); 1 + random.below(200) as usize]);
        if kept.len() > 20 {
            kept.swap_remove(random.below(20) as usize);
        }
    }
    std::hint::black_box(&kept);
}

#[test]
fn payloads_are_whole_while_signals_come_at_every_place() {
    let polls = ranks(2, HAMMER, |world| traffic(&world, 300));
    println!("{polls} polls");
    assert!(polls > 100, "only {polls} polls: the test has tested nothing");
}

#[test]
fn payloads_are_whole_among_more_ranks_than_processors() {
    ranks(5, HAMMER, |world| traffic(&world, 20));
}

#[test]
fn payloads_are_whole_beside_a_helper() {
    ranks(2, &[("BOWLINE_PROGRESS", "thread")], |world| traffic(&world, 60));
    ranks(4, &[("BOWLINE_PROGRESS", "thread")], |world| traffic(&world, 10));
}

#[test]
fn payloads_are_whole_without_help_of_the_sender() {
    let settings = [HAMMER, &[("BOWLINE_COOPERATE", "1GiB")]].concat();
    ranks(2, &settings, |world| traffic(&world, 60));
}

/// The receiver makes no call between posting and the end of the sender's blocking send, which ends
/// only when the message was read.
fn moves_while_the_receiver_computes(settings: &[(&str, &str)], bytes: usize) {
    static SENT: AtomicU32 = AtomicU32::new(0);
    SENT.store(0, Ordering::SeqCst);
    let data = message(7, bytes);
    ranks(2, settings, move |world| {
        let mut into = vec![0; bytes];
        for round in 0..6 {
            let mut word = [0u8];
            if world.rank() == 1 {
                world.recv(&mut word, 0, 1).expect("rank 0 lives");
                world.send(&data, 0, 2).expect("rank 0 lives");
                SENT.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            into.fill(0);
            world
                .scope(|s| {
                    let receive = s.irecv(&world, &mut into, 1, 2)?;
                    world.send(&word, 1, 1)?;
                    let begin = Instant::now();
                    // The first message of a peer is fetched by a call, which opens its memory.
                    while round > 0 && SENT.load(Ordering::SeqCst) <= round {
                        std::hint::spin_loop();
                        let hangs = begin.elapsed() > Duration::from_secs(60);
                        assert!(!hangs, "round {round}: nothing moves while the receiver computes");
                    }
                    receive.wait().map(drop)
                })
                .expect("rank 1 lives");
            assert!(into == data, "round {round}: {bytes} bytes are not as they were sent");
        }
    });
}

/// As the defaults are, but for the number of polls: the other rank may have no processor for long.
const PATIENT: &[(&str, &str)] = &[
    ("BOWLINE_PROGRESS", "pef"),
    ("BOWLINE_PEF_DECAY", "1"),
    ("BOWLINE_PEF_PERIOD", "50us"),
    ("BOWLINE_PEF_MAX_POLLS", "1000000"),
];

#[test]
fn long_messages_move_while_the_receiver_computes() {
    for settings in [PATIENT, &[("BOWLINE_PROGRESS", "thread")]] {
        for bytes in [20_000, 100_000, 1_000_000, 8_000_000] {
            moves_while_the_receiver_computes(settings, bytes);
        }
    }
}

/// Each rank starts the collective and makes no call before all others have waited for its end, of which none can
/// come before this rank has taken later stages: the next to wait is a rank that computes until then.
fn collectives_move_while_ranks_compute(n: usize, settings: &[(&str, &str)], count: usize) {
    static ENDED: AtomicU32 = AtomicU32::new(0);
    ENDED.store(0, Ordering::SeqCst);
    ranks(n, settings, move |world| {
        let (me, size) = (world.rank() as u32, world.size() as u32);
        for round in 0..8 {
            let input: Vec<u64> = (0..count as u64).map(|i| i + u64::from(me)).collect();
            let (mut sum, mut max) = (vec![0; count], vec![0; count]);
            let blocks = vec![u64::from(me); count * size as usize];
            let mut dealt = vec![0; count * size as usize];
            let ended = world.scope(|s| {
                let requests = [
                    s.iallreduce(&world, &input, &mut sum, Sum)?,
                    s.ialltoall(&world, &blocks, &mut dealt)?,
                    s.ireduce(&world, &input, &mut max, Max, 0)?,
                    s.ibarrier(&world)?,
                ];
                if me == round % size {
                    let begin = Instant::now();
                    while ENDED.load(Ordering::SeqCst) < (round + 1) * (size - 1) {
                        std::hint::spin_loop();
                        let hangs = begin.elapsed() > Duration::from_secs(60);
                        assert!(!hangs, "round {round}: nothing moves while rank {me} computes");
                    }
                }
                requests.into_iter().try_for_each(CollectiveRequest::wait)?;
                if me != round % size {
                    ENDED.fetch_add(1, Ordering::SeqCst);
                }
                Ok(())
            });
            ended.expect("all ranks live");
            let all = u64::from(size);
            let term = all * (all - 1) / 2;
            assert!(sum.iter().enumerate().all(|(i, sum)| *sum == i as u64 * all + term));
            assert!(dealt.iter().enumerate().all(|(i, from)| *from == (i / count) as u64));
            assert!(me > 0 || max.iter().enumerate().all(|(i, max)| *max == i as u64 + all - 1));
        }
    });
}

#[test]
fn collectives_move_beside_a_helper_while_their_ranks_compute() {
    let thread = ("BOWLINE_PROGRESS", "thread");
    for transports in ["self,shm", "self,tcp"] {
        for (n, count) in [(2, 1), (2, 100_000), (3, 2000), (5, 40)] {
            let settings = [thread, ("BOWLINE_TRANSPORTS", transports)];
            collectives_move_while_ranks_compute(n, &settings, count);
        }
    }
}

/// An operation of the program's is called by the rank's own thread alone, and the rank that sleeps for the result
/// is woken for it.
#[test]
fn operations_of_programs_stay_in_their_thread_beside_a_helper() {
    ranks(3, &[("BOWLINE_PROGRESS", "thread")], |world| {
        let own = std::thread::current().id();
        for round in 0..200_u64 {
            let op = bowline::mpi::commutative(move |left: u64, right: u64| {
                assert_eq!(std::thread::current().id(), own);
                left + right
            });
            let (input, mut output) = (vec![round + world.rank() as u64; 500], vec![0; 500]);
            world
                .scope(|s| s.iallreduce(&world, &input, &mut output, op)?.wait())
                .expect("all ranks live");
            assert!(output.iter().all(|value| *value == round * 3 + 3));
        }
    });
}

/// The scenarios that need nobody get nobody: blocking receives, messages that are there already, and
/// receives that no rendezvous can match.
#[test]
fn polls_are_made_only_for_receives_that_need_them() {
    static THERE: AtomicBool = AtomicBool::new(false);
    THERE.store(false, Ordering::SeqCst);
    // What is there and takes long to copy is watched: so that no message takes so long here, whatever a signal takes.
    let settings = [HAMMER, &[("BOWLINE_PEF_WORTH", "1000000")]].concat();
    let polls = ranks(2, &settings, |world| {
        let mut long = vec![0u8; 300_000];
        let mut short = [0u8; 64];
        for _ in 0..20 {
            if world.rank() == 1 {
                world.send(&long, 0, 1).expect("rank 0 lives");
                world.recv(&mut short, 0, 2).expect("rank 0 lives");
                // Sender first: the envelope is there when the receive is posted.
                world
                    .scope(|s| {
                        let send = s.isend(&world, &long, 0, 3)?;
                        world.send(&[1u8], 0, 4)?;
                        send.wait()
                    })
                    .expect("rank 0 lives");
                world.send(&short, 0, 5).expect("rank 0 lives");
                continue;
            }
            world.recv(&mut long, 1, 1).expect("rank 1 lives");
            world.send(&short, 1, 2).expect("rank 1 lives");
            let mut word = [0u8];
            world.recv(&mut word, 1, 4).expect("rank 1 lives");
            world
                .scope(|s| s.irecv(&world, &mut long, 1, 3)?.wait().map(drop))
                .expect("no failure");
            world
                .scope(|s| {
                    let receive = s.irecv(&world, &mut short, 1, 5)?;
                    compute(&mut Random(77));
                    receive.wait().map(drop)
                })
                .expect("rank 1 lives");
        }
    });
    assert_eq!(polls, 0, "polls that nobody needed");
}

/// A call that waits makes progress itself: the timer stands still, however long the message takes.
#[test]
fn a_call_that_waits_gets_no_polls() {
    const ROUNDS: u64 = 10;
    let polls = ranks(2, HAMMER, |world| {
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
    // A few come between the receive and the wait; it would be hundreds in a round.
    assert!(polls < 20 * ROUNDS, "{polls} polls in {ROUNDS} waits");
}

/// A caller that waits has no use for signals: neither blocking receives, whatever else waits in their space and
/// however many receives do, nor collectives set a timer. The calls to the system are counted, not the polls: a
/// timer that is set and stopped again costs as much.
#[test]
fn calls_that_wait_set_no_timer() {
    let calls = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(u64::MAX));
    let counted = calls.clone();
    // Collectives by messages, which two threads would not need.
    let by_messages = [
        ("BOWLINE_BCAST", "binomial"),
        ("BOWLINE_ALLREDUCE", "doubling"),
        ("BOWLINE_ALLTOALL", "direct"),
        ("BOWLINE_ALLGATHER", "ring"),
    ];
    let (_, indexes) = ranks_and_indexes(2, &[HAMMER, &by_messages].concat(), move |world| {
        const LONG: usize = 300_000;
        let (me, other) = (world.rank(), 1 - world.rank());
        let before = timer_calls();
        let (out, mut into) = (vec![me as u8; LONG], vec![0_u8; LONG]);
        // Receives that no rendezvous can match, so many that the queue grows an index.
        let mut waiting = [[0_u8; 16]; 300];
        world
            .scope(|s| {
                let mut receives = Vec::new();
                for (tag, buffer) in (100..).zip(&mut waiting) {
                    receives.push(s.irecv(&world, buffer, other, tag)?);
                }
                for round in 0..20 {
                    if me == 0 {
                        world.send(&out, 1, 1)?;
                        world.recv(&mut into, 1, 2)?;
                    } else {
                        world.recv(&mut into, 0, 1)?;
                        world.send(&out, 0, 2)?;
                    }
                    world.sendrecv(&out, other, round, &mut into, other, round)?;
                    // Its message was there, and is moved by the call.
                    world.bcast(&mut into, round % 2)?;
                    let mut sum = vec![0_u64; LONG / 8];
                    world.allreduce(&vec![1_u64; LONG / 8], &mut sum, Sum)?;
                    assert_eq!(sum[LONG / 8 - 1], 2);
                    world.alltoall(&vec![me as u8; 2 * LONG], &mut vec![0_u8; 2 * LONG])?;
                    world.allgather(&out, &mut vec![0_u8; 2 * LONG])?;
                }
                for tag in (100..).take(300) {
                    world.send(&[9_u8; 16], other, tag)?;
                }
                receives.into_iter().try_for_each(|receive| receive.wait().map(drop))
            })
            .expect("both ranks live");
        world.barrier().expect("both ranks live");
        counted.store(timer_calls() - before, Ordering::SeqCst);
    });
    assert_eq!(calls.load(Ordering::SeqCst), 0, "a call that waits has set a timer");
    assert!(indexes.iter().all(|&grown| grown > 0), "{indexes:?}: no index has grown");
    let armed = timer_calls();
    ranks(2, HAMMER, |world| traffic(&world, 2));
    assert!(timer_calls() > armed, "receives that others may move count nothing");
}

/// Receives of collectives in the background set none either where processors copy: their next stages wait for a call.
#[test]
fn collectives_in_the_background_set_no_timer_where_processors_copy() {
    let calls = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(u64::MAX));
    let counted = calls.clone();
    let settings = [HAMMER, &[("BOWLINE_TRANSPORTS", "self,shm")]].concat();
    ranks(2, &settings, move |world| {
        const LONG: usize = 300_000;
        let before = timer_calls();
        let (input, mut sum) = (vec![1_u64; LONG], vec![0_u64; LONG]);
        let mut dealt = vec![0_u64; LONG];
        for _ in 0..10 {
            world
                .scope(|s| {
                    let reduction = s.iallreduce(&world, &input, &mut sum, Sum)?;
                    let exchange = s.ialltoall(&world, &input, &mut dealt)?;
                    compute(&mut Random(7));
                    reduction.wait()?;
                    exchange.wait()
                })
                .expect("both ranks live");
            assert!(sum.iter().all(|sum| *sum == 2));
        }
        world.barrier().expect("both ranks live");
        counted.store(timer_calls() - before, Ordering::SeqCst);
    });
    assert_eq!(calls.load(Ordering::SeqCst), 0, "a collective has set a timer");
}

/// Where ranks share processors a copy takes the processor from a rank, also when a handler makes it: no receive over shared memory sets a
/// timer, unless copies are worth it always.
#[test]
fn ranks_that_share_processors_set_no_timer_for_what_processors_copy() {
    let n = bowline::wait::processors() + 1;
    let sets = |worth| {
        let calls = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
        let counted = calls.clone();
        let of_memory = [
            ("BOWLINE_PROGRESS", "pef"),
            ("BOWLINE_PEF_PHASE", "1us"),
            ("BOWLINE_PEF_WORTH", worth),
            ("BOWLINE_TRANSPORTS", "self,shm"),
        ];
        ranks(n, &of_memory, move |world| {
            let before = timer_calls();
            traffic(&world, 5);
            counted.fetch_max(timer_calls() - before, Ordering::SeqCst);
        });
        calls.load(Ordering::SeqCst)
    };
    assert_eq!(sets("1"), 0, "a timer for a copy that takes a processor from another rank");
    assert!(sets("0") > 0, "copies that are worth it always set no timer");
}

/// A queue that has grown an index is no obstacle, whichever index it is, nor is a list: the receiver makes no call while all
/// messages but the first ones come, in the order in which a list would search longest for each. Handlers grow no index,
/// so that one which has grown did so before, and it stays while receives wait.
#[test]
fn long_messages_move_among_many_receives_with_every_engine() {
    const MANY: usize = 300;
    const BYTES: usize = 10_000;
    // So many searches to the end of the list make any engine but the list itself grow its index.
    const FIRST: usize = 100;
    static SENT: AtomicU32 = AtomicU32::new(0);
    for engine in ["auto", "list", "array", "four_d", "hashed", "nd"] {
        SENT.store(0, Ordering::SeqCst);
        let settings = [PATIENT, &[("BOWLINE_MATCHING", engine)]].concat();
        let (polls, indexes) = ranks_and_indexes(2, &settings, move |world| {
            if world.rank() == 1 {
                for tag in (0..MANY).rev() {
                    if tag + FIRST + 1 == MANY {
                        world.recv(&mut [0_u8], 0, 1).expect("rank 0 lives");
                    }
                    let data = message(tag as u32, BYTES);
                    world.ssend(&data, 0, 1000 + tag as i32).expect("rank 0 lives");
                    SENT.fetch_add(1, Ordering::SeqCst);
                }
                return;
            }
            let mut into = vec![vec![0; BYTES]; MANY];
            world
                .scope(|s| {
                    let mut receives = Vec::new();
                    for (tag, buffer) in (1000..).zip(&mut into) {
                        receives.push(s.irecv(&world, buffer, 1, tag)?);
                    }
                    for receive in receives.drain(MANY - FIRST..) {
                        receive.wait()?;
                    }
                    world.send(&[0_u8], 1, 1)?;
                    let begin = Instant::now();
                    while SENT.load(Ordering::SeqCst) < MANY as u32 {
                        std::hint::spin_loop();
                        let hangs = begin.elapsed() > Duration::from_secs(60);
                        let sent = SENT.load(Ordering::SeqCst);
                        assert!(!hangs, "{engine}: {sent} were sent, and no more moves");
                    }
                    receives.into_iter().try_for_each(|receive| receive.wait().map(drop))
                })
                .expect("rank 1 lives");
            for (tag, buffer) in (0..).zip(&into) {
                assert!(*buffer == message(tag, BYTES), "{engine}: message {tag}");
            }
        });
        assert!(polls > 0, "{engine}: nobody has polled");
        assert_eq!(indexes[0] > 0, engine != "list", "{engine}: {indexes:?} have grown");
    }
}
