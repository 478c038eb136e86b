//! Messages that their senders write, as asked (`put`) and to receives that were announced (`rtr`), of which short ones, too:
//! a rank is killed among them, the one that writes or the one that is written to, over each transport. What the others have under
//! way ends, whole or with an error, and what they have among themselves goes on.

mod windows;

use bowline::mpi::{MpiError, World};

use crate::Case;
use crate::announced::count;
use crate::kill::{self, LONG, dead, die, launch_with_deaths, until_dead};
use crate::transports::{Settings, TRANSPORTS, case_of};

/// The rank that is killed; rank 0 lives, and among three the last one.
const VICTIM: i32 = 1;

/// The tag of what is said beside the messages.
const WORD: i32 = 100;

/// Lengths of the messages that are under way when a rank dies.
type Lengths = [usize; LONG.0 as usize];

const OFFERED: Lengths = [LONG.1; LONG.0 as usize];
const SHORT: Lengths = [4, 100, 600, 1000];

struct Written {
    name: &'static str,
    ranks: u32,
    program: fn(&World),
    scheme: &'static str,
    /// Shortest message that is written.
    least: &'static str,
    /// What rank 0 must have counted: the side and the protocol.
    counted: &'static [(&'static str, &'static str)],
}

const fn of_announced(
    name: &'static str,
    least: &'static str,
    counted: &'static [(&'static str, &'static str)],
    program: fn(&World),
) -> Written {
    Written { name, ranks: 2, program, scheme: "rtr", least, counted }
}

const CASES: [Written; 11] = [
    Written {
        name: "killed_while_it_writes",
        ranks: 2,
        program: kill::killed_while_read,
        scheme: "put",
        least: "auto",
        counted: &[("received", "rndv/put")],
    },
    Written {
        name: "killed_while_it_is_written_to",
        ranks: 2,
        program: kill::killed_while_reading,
        scheme: "put",
        least: "auto",
        counted: &[("sent", "rndv")],
    },
    of_announced(
        "dies_before_it_writes_to_announced_receives",
        "auto",
        &[("received", "rndv/put")],
        |world| announce(world, &OFFERED, false),
    ),
    of_announced(
        "killed_while_it_writes_to_announced_receives",
        "auto",
        &[("received", "rndv/put")],
        |world| announce(world, &OFFERED, true),
    ),
    of_announced(
        "dies_before_its_announced_receives_are_written",
        "auto",
        &[("sent", "rndv/rtr")],
        |world| be_announced(world, &OFFERED, false),
    ),
    of_announced(
        "killed_while_its_announced_receives_are_written",
        "auto",
        &[("sent", "rndv/rtr")],
        |world| be_announced(world, &OFFERED, true),
    ),
    of_announced(
        "dies_before_it_writes_short_messages",
        "1",
        &[("received", "rndv/put")],
        |world| announce(world, &SHORT, false),
    ),
    of_announced(
        "killed_while_it_writes_short_messages",
        "1",
        &[("received", "rndv/put")],
        |world| announce(world, &SHORT, true),
    ),
    of_announced(
        "dies_before_its_short_receives_are_written",
        "1",
        &[("sent", "rndv/rtr")],
        |world| be_announced(world, &SHORT, false),
    ),
    of_announced(
        "killed_while_its_short_receives_are_written",
        "1",
        &[("sent", "rndv/rtr")],
        |world| be_announced(world, &SHORT, true),
    ),
    Written {
        name: "killed_among_short_messages",
        ranks: 3,
        program: windows::exchange,
        scheme: "rtr",
        least: "1",
        counted: &[("sent", "rndv/rtr"), ("received", "rndv/put")],
    },
];

/// In these the survivor waits for the last message of the rank that is killed, which not every transport delivers.
const WAIT_FOR_THE_DEAD: [&str; 2] = [
    "dies_before_its_announced_receives_are_written",
    "dies_before_its_short_receives_are_written",
];

pub(crate) fn rank(name: &str) -> bool {
    let named = |case: &&Written| case_of(name) == Some(&full_name(case));
    let Some(case) = CASES.iter().find(named) else { return false };
    let world = bowline::init().expect("the launcher started this rank");
    (case.program)(&world);
    true
}

fn full_name(case: &Written) -> String {
    format!("written::{}", case.name)
}

pub(crate) fn cases() -> Vec<Case> {
    let over = |case: &'static Written| {
        let waits = WAIT_FOR_THE_DEAD.contains(&case.name);
        let transports = TRANSPORTS.iter().filter(move |over| over.arrives_after_death || !waits);
        transports.map(move |over| {
            over.case(&full_name(case), move |name, settings| run(name, case, settings))
        })
    };
    CASES.iter().flat_map(over).collect()
}

fn run(name: &str, case: &Written, transport: Settings) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let report = directory.path().join("report");
    let mut settings = transport.to_vec();
    settings.extend([
        ("BOWLINE_RNDV_SCHEME", case.scheme),
        ("BOWLINE_RNDV_THRESHOLD", "64k"),
        ("BOWLINE_RTR_MIN", case.least),
        ("BOWLINE_REPORT", report.to_str().ok_or("a path that is no text")?),
    ]);
    launch_with_deaths(case.ranks, name.to_owned(), &settings, |rank| rank == VICTIM)?;
    let text = std::fs::read_to_string(&report).map_err(|error| error.to_string())?;
    for (side, protocol) in case.counted {
        if count(&text, 0, side, protocol) == 0 {
            return Err(format!("rank 0 has {side} nothing by {protocol}:\n{text}"));
        }
    }
    Ok(())
}

/// Messages in both directions to receives that their senders know of, but for the first ones, before which they do not know
/// that their peers announce.
fn acquaint(world: &World, lengths: &Lengths) {
    for (number, &length) in (0_u8..).zip(lengths) {
        for receiver in [VICTIM, 0] {
            let sender = VICTIM - receiver;
            if world.rank() == sender {
                world.recv(&mut [0_u8], receiver, WORD).expect("both live still");
                world.send(&vec![number; length], receiver, WORD).expect("both live still");
                continue;
            }
            let mut bytes = vec![!number; length];
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
fn announce(world: &World, lengths: &Lengths, writes: bool) {
    acquaint(world, lengths);
    if world.rank() == VICTIM {
        let mine: Vec<_> = (1_u8..).zip(lengths).map(|(at, &length)| vec![at; length]).collect();
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
    let mut into: Vec<_> = lengths.iter().map(|&length| vec![0_u8; length]).collect();
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
    dead(world.recv(&mut vec![0_u8; lengths[0]], VICTIM, WORD));
}

/// The other way around: the one that dies posts receives and says so. It is killed at once, or when the first of them
/// was written.
fn be_announced(world: &World, lengths: &Lengths, written: bool) {
    acquaint(world, lengths);
    if world.rank() == VICTIM {
        let mut into: Vec<_> = lengths.iter().map(|&length| vec![0_u8; length]).collect();
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
    let mine: Vec<_> = lengths.iter().map(|&length| vec![7_u8; length]).collect();
    let ends: Result<Vec<_>, MpiError> = world.scope(|scope| {
        let mut ends = Vec::new();
        let mut sends = Vec::new();
        for (at, bytes) in (0..).zip(&mine) {
            match scope.isend(world, bytes, VICTIM, at) {
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
    assert!(mine.iter().flatten().all(|&byte| byte == 7), "a message that was sent has changed");
    until_dead(|| world.send(&mine[0], VICTIM, WORD));
}
