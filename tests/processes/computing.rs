//! A rank is killed while its peer computes in mode `pef`: signal handlers poll for long messages of the dead, read its memory, or
//! have done so. What is not whole ends with the death, what is whole is right, and messages of others come as before.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bowline::mpi::{MpiError, World};
use bowline::progress::poll_count;

use crate::Case;
use crate::kill::{die, launch_with_deaths};

const BYTES: usize = 1 << 20;

/// Messages of a round.
const MESSAGES: usize = 6;

/// The round in which the sender dies. The first ones open its memory.
const LAST: u8 = 3;

const GO: i32 = 1;
const DATA: i32 = 2;

const VICTIM: i32 = 1;
const OTHER: i32 = 2;

/// By name: microseconds after which the sender dies, from the begin of its last round.
const CASES: [(&str, u64); 6] = [
    ("computing::killed_at_once", 0),
    ("computing::killed_after_100_us", 100),
    ("computing::killed_after_300_us", 300),
    ("computing::killed_after_700_us", 700),
    ("computing::killed_after_1500_us", 1500),
    ("computing::killed_after_4000_us", 4000),
];

pub(crate) fn rank(name: &str) -> bool {
    let Some(&(_, delay)) = CASES.iter().find(|(known, _)| *known == name) else { return false };
    let world = bowline::init().expect("the launcher started this rank");
    match world.rank() {
        VICTIM => send_and_die(&world, Duration::from_micros(delay)),
        OTHER => {
            for round in 0..2_u8 {
                world.recv(&mut [0u8], 0, GO).expect("rank 0 lives");
                world.send(&vec![round; BYTES], 0, DATA).expect("rank 0 lives");
            }
        }
        _ => compute_and_receive(&world),
    }
    true
}

pub(crate) fn cases() -> Vec<Case> {
    let case = |&(name, _): &(&'static str, u64)| {
        Case::new(name.to_owned(), move || {
            let settings = [
                ("BOWLINE_TRANSPORTS", "self,shm"),
                ("BOWLINE_RNDV_THRESHOLD", "8k"),
                ("BOWLINE_PROGRESS", "pef"),
                ("BOWLINE_PEF_PHASE", "1us"),
                ("BOWLINE_PEF_PERIOD", "20us"),
                ("BOWLINE_PEF_DECAY", "1"),
                ("BOWLINE_PEF_MAX_POLLS", "1000000"),
                ("BOWLINE_PEF_WORTH", "0"),
            ];
            launch_with_deaths(3, name.to_owned(), &settings, |rank| rank == VICTIM)
        })
    };
    CASES.iter().map(case).collect()
}

fn send_and_die(world: &World, delay: Duration) {
    for round in 0..=LAST {
        world.recv(&mut [0u8], 0, GO).expect("rank 0 lives");
        if round == LAST {
            std::thread::spawn(move || {
                std::thread::sleep(delay);
                die()
            });
        }
        for _ in 0..MESSAGES {
            world.send(&vec![round; BYTES], 0, DATA).expect("rank 0 lives");
        }
    }
    loop {
        std::thread::park();
    }
}

/// Some milliseconds without a call of the library.
fn compute() {
    let begin = Instant::now();
    let mut word = 1_u64;
    while begin.elapsed() < Duration::from_millis(3) {
        for _ in 0..1000 {
            word = black_box(word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7));
        }
    }
}

/// What became of each message of a round, from a rank that is asked to send when all receives are posted.
fn outcomes(world: &World, from: i32, into: &mut [Vec<u8>]) -> Vec<Result<(), MpiError>> {
    let all = world.scope(|scope| {
        let receives: Vec<_> =
            into.iter_mut().map(|buffer| scope.irecv(world, buffer, from, DATA)).collect();
        world.send(&[1u8], from, GO)?;
        compute();
        let ends = receives.into_iter().map(|receive| receive?.wait().map(drop));
        Ok(ends.collect())
    });
    all.expect("nobody was dead when the round began")
}

fn compute_and_receive(world: &World) {
    let mut into = vec![vec![0xff; BYTES]; MESSAGES];
    let mut lost = 0;
    for round in 0..=LAST {
        into.iter_mut().for_each(|buffer| buffer.fill(0xff));
        let ends = outcomes(world, VICTIM, &mut into);
        for (end, buffer) in ends.into_iter().zip(&into) {
            match end {
                Ok(()) => {
                    assert_eq!(lost, 0, "a message behind one that was lost");
                    assert!(buffer.iter().all(|&byte| byte == round), "round {round}: other bytes");
                }
                Err(MpiError::PeerFailed(_) | MpiError::MemberFailed { .. }) if round == LAST => {
                    lost += 1;
                }
                Err(error) => panic!("round {round}: {error}"),
            }
        }
    }
    // The next message of the dead will not come either.
    let after = world.recv(&mut into[0], VICTIM, DATA);
    assert!(
        matches!(after, Err(MpiError::PeerFailed(_) | MpiError::MemberFailed { .. })),
        "{after:?} of the dead"
    );
    for round in 0..2_u8 {
        let ends = outcomes(world, OTHER, &mut into[..1]);
        assert!(ends.iter().all(Result::is_ok), "{ends:?}: the other one lives");
        assert!(into[0].iter().all(|&byte| byte == round), "other bytes of the other one");
    }
    assert!(poll_count() > 0, "no handler has polled: nothing was tested");
}
