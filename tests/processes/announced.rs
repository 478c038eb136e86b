//! Receives that are announced to their senders, by ranks that are processes: in the order receive, barrier, send all messages
//! are written, whatever carries the barrier, and each rank's report says so. In the order send, barrier, receive none is.

use bowline::mpi::World;

use crate::Case;
use crate::kill::launch_with_deaths;

/// Messages of a job.
const MESSAGES: u32 = 200;

/// Those that go before the sender knows that its peer announces.
const FIRST: u32 = 2;

const BYTES: usize = 64 << 10;

/// By name: the barrier, and whether the receive is first.
const CASES: [(&str, &str, bool); 4] = [
    ("announced::before_a_barrier_in_memory", "auto", true),
    ("announced::before_a_barrier_by_messages", "dissemination", true),
    ("announced::after_a_barrier_in_memory", "auto", false),
    ("announced::after_a_barrier_by_messages", "dissemination", false),
];

pub(crate) fn rank(name: &str) -> bool {
    let Some((_, _, early)) = CASES.iter().find(|(known, ..)| *known == name) else { return false };
    let world = bowline::init().expect("the launcher started this rank");
    for number in 0..MESSAGES {
        exchange(&world, number as u8, *early);
    }
    true
}

/// A message from rank 0 to rank 1, whose receive is posted before or after a barrier.
fn exchange(world: &World, number: u8, early: bool) {
    let receiver = world.rank() == 1;
    let mut bytes = vec![if receiver { !number } else { number }; BYTES];
    if receiver == early {
        world
            .scope(|scope| {
                if receiver {
                    let request = scope.irecv(world, &mut bytes, 0, 1)?;
                    world.barrier()?;
                    request.wait().map(drop)
                } else {
                    let request = scope.isend(world, &bytes, 1, 1)?;
                    world.barrier()?;
                    request.wait()
                }
            })
            .expect("both live");
    } else {
        world.barrier().expect("both live");
        match receiver {
            true => drop(world.recv(&mut bytes, 0, 1).expect("rank 0 lives")),
            false => world.send(&bytes, 1, 1).expect("rank 1 lives"),
        }
    }
    assert!(bytes.iter().all(|byte| *byte == number), "message {number} is damaged");
}

pub(crate) fn cases() -> Vec<Case> {
    let case = |&(name, barrier, early): &(&'static str, &'static str, bool)| {
        Case::new(name.to_owned(), move || run(name, barrier, early))
    };
    CASES.iter().map(case).collect()
}

fn run(name: &str, barrier: &str, early: bool) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let report = directory.path().join("report");
    let settings = [
        ("BOWLINE_RNDV_SCHEME", "rtr"),
        ("BOWLINE_RNDV_THRESHOLD", "8k"),
        ("BOWLINE_BARRIER", barrier),
        ("BOWLINE_REPORT", report.to_str().ok_or("a path that is no text")?),
    ];
    launch_with_deaths(2, name.to_owned(), &settings, |_| false)?;
    let text = std::fs::read_to_string(&report).map_err(|error| error.to_string())?;
    let written = count(&text, 0, "sent", "rndv/rtr");
    let good = if early { written >= MESSAGES - FIRST } else { written == 0 };
    good.then_some(()).ok_or_else(|| format!("{written} of {MESSAGES} were written:\n{text}"))
}

/// What a rank has counted of a protocol, as its report says.
pub(crate) fn count(report: &str, rank: i32, side: &str, protocol: &str) -> u32 {
    let of = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, who, what, by, number] = words[..] else { return None };
        let counted = who.parse() == Ok(rank) && (what, by) == (side, protocol);
        counted.then(|| number.parse().ok()).flatten()
    };
    report.lines().find_map(of).unwrap_or(0)
}
