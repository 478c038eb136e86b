//! Long messages that their senders write, as asked (`put`) and to receives that were announced (`rtr`): a rank is killed
//! among them, the one that writes or the one that is written to, over shared memory and over tcp. What the other one has
//! under way ends, whole or with an error.

use bowline::mpi::{MpiError, World};

use crate::Case;
use crate::kill::{self, LONG, dead, die, launch_with_deaths, until_dead};

/// The rank that is killed; the other one is rank 0.
const VICTIM: i32 = 1;

/// The tag of what is said beside the long messages.
const WORD: i32 = 100;

struct Written {
    name: &'static str,
    program: fn(&World),
    scheme: &'static str,
    /// What rank 0 must have counted: the side and the protocol.
    counted: [&'static str; 2],
}

const CASES: [Written; 6] = [
    Written {
        name: "killed_while_it_writes",
        program: kill::killed_while_read,
        scheme: "put",
        counted: ["received", "rndv/put"],
    },
    Written {
        name: "killed_while_it_is_written_to",
        program: kill::killed_while_reading,
        scheme: "put",
        counted: ["sent", "rndv"],
    },
    Written {
        name: "dies_before_it_writes_to_announced_receives",
        program: |world| announce(world, false),
        scheme: "rtr",
        counted: ["received", "rndv/put"],
    },
    Written {
        name: "killed_while_it_writes_to_announced_receives",
        program: |world| announce(world, true),
        scheme: "rtr",
        counted: ["received", "rndv/put"],
    },
    Written {
        name: "dies_before_its_announced_receives_are_written",
        program: |world| be_announced(world, false),
        scheme: "rtr",
        counted: ["sent", "rndv/rtr"],
    },
    Written {
        name: "killed_while_its_announced_receives_are_written",
        program: |world| be_announced(world, true),
        scheme: "rtr",
        counted: ["sent", "rndv/rtr"],
    },
];

const TRANSPORTS: [(&str, &str); 2] = [("shm", "self,shm"), ("tcp", "self,tcp")];

pub(crate) fn rank(name: &str) -> bool {
    let named = |case: &&Written| TRANSPORTS.iter().any(|(over, _)| full_name(case, over) == name);
    let Some(case) = CASES.iter().find(named) else { return false };
    let world = bowline::init().expect("the launcher started this rank");
    (case.program)(&world);
    true
}

fn full_name(case: &Written, over: &str) -> String {
    format!("written::{}_over_{over}", case.name)
}

pub(crate) fn cases() -> Vec<Case> {
    let over = |case: &'static Written| {
        TRANSPORTS.map(move |(over, transports)| {
            let name = full_name(case, over);
            Case::new(name.clone(), move || run(&name, case, transports))
        })
    };
    CASES.iter().flat_map(over).collect()
}

fn run(name: &str, case: &Written, transports: &str) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let report = directory.path().join("report");
    let settings = [
        ("BOWLINE_TRANSPORTS", transports),
        ("BOWLINE_RNDV_SCHEME", case.scheme),
        ("BOWLINE_RNDV_THRESHOLD", "64k"),
        ("BOWLINE_REPORT", report.to_str().ok_or("a path that is no text")?),
    ];
    launch_with_deaths(2, name.to_owned(), &settings, |rank| rank == VICTIM)?;
    let text = std::fs::read_to_string(&report).map_err(|error| error.to_string())?;
    let [side, protocol] = case.counted;
    let counted = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.len() == 5 && words[..4] == ["rank", "0", side, protocol]
    };
    let good = text.lines().any(counted);
    good.then_some(()).ok_or_else(|| format!("rank 0 has {side} nothing by {protocol}:\n{text}"))
}

/// Messages in both directions to receives that their senders know of, but for the first ones, before which they do not know
/// that their peers announce.
fn acquaint(world: &World) {
    for number in 0..4_u8 {
        for receiver in [VICTIM, 0] {
            let sender = VICTIM - receiver;
            if world.rank() == sender {
                world.recv(&mut [0_u8], receiver, WORD).expect("both live still");
                world.send(&vec![number; LONG.1], receiver, WORD).expect("both live still");
                continue;
            }
            let mut bytes = vec![!number; LONG.1];
            world
                .scope(|scope| {
                    let receive = scope.irecv(world, &mut bytes, sender, WORD)?;
                    world.send(&[0_u8], sender, WORD)?;
                    receive.wait().map(drop)
                })
                .expect("both live still");
            assert!(bytes.iter().all(|&byte| byte == number), "other bytes");
        }
    }
}

/// Rank 0 posts receives and says so, so that all announcements are with the other one, which is killed then, or when it
/// has written the first of its messages.
fn announce(world: &World, writes: bool) {
    let (count, length) = LONG;
    acquaint(world);
    if world.rank() == VICTIM {
        let mine: Vec<_> = (0..count).map(|at| vec![at as u8 + 1; length]).collect();
        world
            .scope(|scope| {
                world.recv(&mut [0_u8], 0, WORD)?;
                let mut sends = Vec::new();
                for (at, bytes) in (0..).zip(mine.iter().filter(|_| writes)) {
                    sends.push(scope.isend(world, bytes, 0, at)?);
                }
                sends.drain(..).next().map_or(Ok(()), |first| first.wait())?;
                die();
                #[allow(unreachable_code)]
                Ok(())
            })
            .expect("rank 0 lives");
    }
    let mut into: Vec<_> = (0..count).map(|_| vec![0_u8; length]).collect();
    let ends: Result<Vec<_>, MpiError> = world.scope(|scope| {
        let mut receives = Vec::new();
        for (at, bytes) in (0..).zip(&mut into) {
            receives.push(scope.irecv(world, &mut bytes[..], VICTIM, at)?);
        }
        world.send(&[0_u8], VICTIM, WORD)?;
        Ok(receives.into_iter().map(|receive| receive.wait().map(drop)).collect())
    });
    for ((at, bytes), end) in (1..).zip(&into).zip(ends.expect("it dies when it has heard of all"))
    {
        match end {
            Ok(()) => {
                assert!(writes && bytes.iter().all(|&byte| byte == at), "a message is not whole");
            }
            end => dead(end),
        }
    }
    dead(world.recv(&mut vec![0_u8; length], VICTIM, WORD));
}

/// The other way around: the one that dies posts receives and says so. It is killed at once, or when the first of them
/// was written.
fn be_announced(world: &World, written: bool) {
    let (count, length) = LONG;
    acquaint(world);
    if world.rank() == VICTIM {
        let mut into: Vec<_> = (0..count).map(|_| vec![0_u8; length]).collect();
        world
            .scope(|scope| {
                let mut receives = Vec::new();
                for (at, bytes) in (0..).zip(&mut into) {
                    receives.push(scope.irecv(world, &mut bytes[..], 0, at)?);
                }
                world.send(&[0_u8], 0, WORD)?;
                if written {
                    receives.remove(0).wait()?;
                }
                die();
                #[allow(unreachable_code)]
                Ok(())
            })
            .expect("rank 0 lives");
    }
    world.recv(&mut [0_u8], VICTIM, WORD).expect("it was sent before");
    let mine = vec![7_u8; length];
    let ends: Result<Vec<_>, MpiError> = world.scope(|scope| {
        let mut ends = Vec::new();
        let mut sends = Vec::new();
        for at in 0..count {
            match scope.isend(world, &mine, VICTIM, at) {
                Ok(send) => sends.push(send),
                Err(error) => ends.push(Err(error)),
            }
        }
        ends.extend(sends.into_iter().map(|send| send.wait().map(drop)));
        Ok(ends)
    });
    for end in ends.expect("each send has its own end") {
        if end.is_err() {
            dead(end);
        }
    }
    assert!(mine.iter().all(|&byte| byte == 7), "a message that was sent has changed");
    until_dead(|| world.send(&mine, VICTIM, WORD));
}
