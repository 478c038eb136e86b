//! Receives from any source for which senders raise flags, by ranks that are processes: a master and its workers, over each
//! transport, and one of them is killed while it works.

use bowline::mpi::{ANY_SOURCE, ANY_TAG, MpiError, World};

use crate::Case;
use crate::kill::{die, launch_with_deaths};

/// Ranks of a job.
const RANKS: u32 = 4;

/// Results of each worker.
const RESULTS: u32 = 200;

/// The one that is killed, and its last result.
const VICTIM: i32 = 2;
const LAST: u32 = 60;

const DATA: i32 = 1;
const END: i32 = 2;

/// By name: over which transport, and whether a worker is killed.
const CASES: [(&str, &str, bool); 4] = [
    ("any_source::over_shared_memory", "self,shm", false),
    ("any_source::over_tcp", "self,tcp", false),
    ("any_source::a_worker_is_killed", "self,shm", true),
    ("any_source::a_worker_is_killed_over_tcp", "self,tcp", true),
];

pub(crate) fn rank(name: &str) -> bool {
    let Some((.., killed)) = CASES.iter().find(|(known, ..)| *known == name) else { return false };
    let world = bowline::init().expect("the launcher started this rank");
    match world.rank() {
        0 => collect(&world, *killed),
        _ => supply(&world, *killed),
    }
    true
}

pub(crate) fn cases() -> Vec<Case> {
    let case = |&(name, transports, killed): &(&'static str, &'static str, bool)| {
        Case::new(name.to_owned(), move || {
            let settings = [
                ("BOWLINE_TRANSPORTS", transports),
                ("BOWLINE_ANY_SOURCE", "flags"),
                ("BOWLINE_RNDV_THRESHOLD", "32k"),
            ];
            launch_with_deaths(RANKS, name.to_owned(), &settings, |rank| killed && rank == VICTIM)
        })
    };
    CASES.iter().map(case).collect()
}

/// Words of a result: most are written, some are too short, some too long for that.
const fn words(number: u32) -> usize {
    [1, 100, 1500, 6000, 12_000][number as usize % 5]
}

fn supply(world: &World, killed: bool) {
    let rank = world.rank();
    for number in 0..RESULTS {
        if killed && rank == VICTIM && number == LAST {
            die();
        }
        let word = (rank as u32) << 16 | number;
        world.send(&vec![word; words(number)], 0, DATA).expect("rank 0 lives");
    }
    world.send(&[RESULTS], 0, END).expect("rank 0 lives");
}

fn collect(world: &World, killed: bool) {
    let mut next = [0; RANKS as usize];
    let mut ended = [false; RANKS as usize];
    ended[0] = true;
    let mut items = vec![0_u32; 12_000];
    while !ended.iter().all(|ended| *ended) {
        // Now and then of any tag, too: results come before the end of their worker.
        let tag = if next[1] % 7 == 3 { ANY_TAG } else { DATA };
        let at_end = (1..RANKS as usize).all(|rank| ended[rank] || next[rank] == RESULTS);
        let status = match world.recv(&mut items, ANY_SOURCE, if at_end { END } else { tag }) {
            Ok(status) => status,
            Err(MpiError::PeerFailed(_) | MpiError::MemberFailed { .. }) if killed => {
                world.acknowledge_failures();
                let victim = VICTIM as usize;
                assert!(next[victim] <= LAST, "it was killed before");
                // What it had sent may still come.
                ended[victim] = true;
                continue;
            }
            Err(error) => panic!("a receive from any source fails: {error}"),
        };
        let rank = status.source() as usize;
        if status.tag() == END {
            assert_eq!(next[rank], RESULTS, "results overtaken by the end");
            ended[rank] = true;
            continue;
        }
        let number = next[rank];
        let word = (rank as u32) << 16 | number;
        assert_eq!(status.count::<u32>(), Some(words(number)), "of result {number} of {rank}");
        assert!(items[..words(number)].iter().all(|&item| item == word), "other bytes");
        next[rank] += 1;
    }
}
