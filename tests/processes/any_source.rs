//! Receives from any source for which senders raise flags, by ranks that are processes: a master and its workers, over each
//! transport. One of them is killed while it works; the receiver is killed while senders hold messages for it; a sender is
//! killed that the receiver has chosen and lent its buffer to. What waits for the dead fails, and the others go on.

use bowline::mpi::{ANY_SOURCE, ANY_TAG, MpiError, Request, World};
use rustix::process::{Pid, Signal, getpid, kill_process};

use crate::Case;
use crate::announced::count;
use crate::kill::{dead, die, launch_with_deaths, until_dead};
use crate::transports::{Settings, TRANSPORTS, case_of, in_guest};

/// Ranks of a job.
const RANKS: u32 = 4;

/// Results of each worker.
fn results() -> u32 {
    if in_guest() { 40 } else { 200 }
}

/// The one that receives from any source at first.
const RECEIVER: i32 = 0;

/// The sender that is killed.
const VICTIM: i32 = 2;

/// Its results.
fn of_victim() -> u32 {
    results() * 3 / 10
}

/// The sender that meets a receive that is lent to another one. It sends by flags in every case.
const OTHER: i32 = 3;

const DATA: i32 = 1;
const END: i32 = 2;
/// What is said beside the data.
const WORD: i32 = 3;
/// Nobody sends by it.
const NOTHING: i32 = 4;

struct AnySource {
    name: &'static str,
    program: fn(&World),
    killed: Option<i32>,
}

const CASES: [AnySource; 6] = [
    AnySource { name: "all_live", program: |world| work(world, false), killed: None },
    AnySource {
        name: "a_worker_is_killed",
        program: |world| work(world, true),
        killed: Some(VICTIM),
    },
    AnySource {
        name: "the_receiver_is_killed_when_flags_are_raised",
        program: |world| receiver_dies(world, false),
        killed: Some(RECEIVER),
    },
    AnySource {
        name: "the_receiver_is_killed_when_it_has_asked",
        program: |world| receiver_dies(world, true),
        killed: Some(RECEIVER),
    },
    AnySource {
        name: "a_chosen_sender_is_killed",
        program: |world| chosen_dies(world, false),
        killed: Some(VICTIM),
    },
    AnySource {
        name: "a_chosen_sender_is_killed_whose_receive_has_met_another_message",
        program: |world| chosen_dies(world, true),
        killed: Some(VICTIM),
    },
];

fn full_name(case: &AnySource) -> String {
    format!("any_source::{}", case.name)
}

pub(crate) fn rank(name: &str) -> bool {
    let named = |case: &&AnySource| case_of(name) == Some(&full_name(case));
    let Some(case) = CASES.iter().find(named) else { return false };
    let world = bowline::init().expect("the launcher started this rank");
    (case.program)(&world);
    true
}

/// No case waits for what a killed rank has sent: it is killed when the others have received all that they count on.
pub(crate) fn cases() -> Vec<Case> {
    let over = |case: &'static AnySource| {
        TRANSPORTS.iter().map(move |over| {
            over.case(&full_name(case), move |name, settings| run(name, case, settings))
        })
    };
    CASES.iter().flat_map(over).collect()
}

fn run(name: &str, case: &AnySource, transport: Settings) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let report = directory.path().join("report");
    let mut settings = transport.to_vec();
    settings.extend([
        ("BOWLINE_ANY_SOURCE", "flags"),
        ("BOWLINE_RNDV_THRESHOLD", "32k"),
        ("BOWLINE_REPORT", report.to_str().ok_or("a path that is no text")?),
    ]);
    launch_with_deaths(RANKS, name.to_owned(), &settings, |rank| case.killed == Some(rank))?;
    let text = std::fs::read_to_string(&report).map_err(|error| error.to_string())?;
    match count(&text, OTHER, "sent", "rndv/any") {
        0 => Err(format!("rank {OTHER} has sent nothing by a flag:\n{text}")),
        _ => Ok(()),
    }
}

fn work(world: &World, killed: bool) {
    // Otherwise all may be sent before the first of them is asked for.
    enable(world);
    match world.rank() {
        RECEIVER => collect(world, &[1, 2, 3], killed),
        _ => supply(world, RECEIVER, killed),
    }
}

/// Words of a result: most are written, some are too short, some too long for that.
const fn words(number: u32) -> usize {
    [1, 100, 1500, 6000, 12_000][number as usize % 5]
}

fn supply(world: &World, to: i32, killed: bool) {
    let rank = world.rank();
    for number in 0..results() {
        if killed && rank == VICTIM && number == of_victim() {
            die();
        }
        let word = (rank as u32) << 16 | number;
        world.send(&vec![word; words(number)], to, DATA).expect("the receiver lives");
    }
    world.send(&[results()], to, END).expect("the receiver lives");
}

/// Receives the results of `workers`, among whom the victim may be killed.
fn collect(world: &World, workers: &[i32], killed: bool) {
    let mut next = [0; RANKS as usize];
    let mut ended = [true; RANKS as usize];
    workers.iter().for_each(|&rank| ended[rank as usize] = false);
    let mut items = vec![0_u32; 12_000];
    while !ended.iter().all(|ended| *ended) {
        // Now and then of any tag, too: results come before the end of their worker.
        let tag = if next[OTHER as usize] % 7 == 3 { ANY_TAG } else { DATA };
        let at_end = (0..RANKS as usize).all(|rank| ended[rank] || next[rank] == results());
        let status = match world.recv(&mut items, ANY_SOURCE, if at_end { END } else { tag }) {
            Ok(status) => status,
            Err(MpiError::PeerFailed(_) | MpiError::MemberFailed { .. }) if killed => {
                world.acknowledge_failures();
                let victim = VICTIM as usize;
                assert!(next[victim] <= of_victim(), "it was killed before");
                // What it had sent may still come.
                ended[victim] = true;
                continue;
            }
            Err(error) => panic!("a receive from any source fails: {error}"),
        };
        let rank = status.source() as usize;
        if status.tag() == END {
            assert_eq!(next[rank], results(), "results overtaken by the end");
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

/// What a rank sends by a flag.
fn flagged(rank: i32) -> [u32; 100] {
    [7 + rank as u32; 100]
}

/// All have an entry for the receiver's next receives: it has received one message of each from any source.
fn enable(world: &World) {
    let mut word = [0_u8];
    let rank = world.rank();
    if rank != RECEIVER {
        world.send(&word, RECEIVER, WORD).expect("all live still");
        for _ in 0..2 {
            world.recv(&mut word, RECEIVER, WORD).expect("all live still");
        }
        world.send(&flagged(rank), RECEIVER, DATA).expect("all live still");
        world.recv(&mut word, RECEIVER, WORD).expect("all live still");
        return;
    }
    // Those who are not connected yet are not asked.
    for rank in 1..RANKS as i32 {
        world.recv(&mut word, rank, WORD).expect("all live still");
        world.send(&word, rank, WORD).expect("all live still");
    }
    for rank in 1..RANKS as i32 {
        let mut items = flagged(0);
        world
            .scope(|scope| {
                let receive = scope.irecv(world, &mut items, ANY_SOURCE, DATA)?;
                world.send(&word, rank, WORD)?;
                assert_eq!(receive.wait()?.status.source(), rank);
                Ok(())
            })
            .expect("all live still");
        assert_eq!(items, flagged(rank));
    }
    for rank in 1..RANKS as i32 {
        world.send(&word, rank, WORD).expect("all live still");
    }
}

/// The receiver has seen the flags of these ranks when it returns: each acknowledges the word behind its flag. No receive waits
/// that could be lent.
fn await_flags(world: &World, of: &[i32]) {
    for &rank in of {
        world.ssend(&[0_u8], rank, WORD).expect("all live still");
    }
}

/// The other side: the send waits, since no receive was there for it, when `then` is called.
fn hold(world: &World, then: impl FnOnce()) -> Result<(), MpiError> {
    let mine = flagged(world.rank());
    let end: Result<_, MpiError> = world.scope(|scope| {
        let mut send = scope.isend(world, &mine, RECEIVER, DATA)?;
        assert!(send.test()?.is_none(), "it goes without having been asked for");
        world.recv(&mut [0_u8], RECEIVER, WORD)?;
        then();
        Ok(send.wait())
    });
    end.expect("the receiver dies when it has seen all flags")
}

/// The receiver is killed while all others hold a send for it: before it asks for any, or as soon as it has asked one of them.
/// The others go on among themselves.
fn receiver_dies(world: &World, asks: bool) {
    const COLLECTOR: i32 = 1;
    enable(world);
    let rank = world.rank();
    if rank == RECEIVER {
        await_flags(world, &[1, 2, 3]);
        if asks {
            let mut items = flagged(0);
            let asked: Result<(), MpiError> = world.scope(|scope| {
                let mut receive = scope.irecv(world, &mut items, ANY_SOURCE, DATA)?;
                receive.test()?;
                die();
            });
            asked.expect("all others live");
        }
        die();
    }
    let end = hold(world, || ());
    // The one that was asked may have written.
    let written = u32::from(asks && end.is_ok());
    if written == 0 {
        dead(end);
    }
    until_dead(|| world.send(&flagged(rank), RECEIVER, DATA));
    if rank != COLLECTOR {
        world.send(&[written], COLLECTOR, WORD).expect("the collector lives");
        return supply(world, COLLECTOR, false);
    }
    let mut all = written;
    for other in [VICTIM, OTHER] {
        let mut theirs = [0];
        world.recv(&mut theirs, other, WORD).expect("both live");
        all += theirs[0];
    }
    assert!(all <= 1, "{all} have written to a receiver that has asked one");
    until_dead(|| world.recv(&mut [0_u8], ANY_SOURCE, NOTHING));
    world.acknowledge_failures();
    collect(world, &[VICTIM, OTHER], false);
}

/// The only sender that has raised a flag is lent the receive, and is killed before it makes another call. The receive fails,
/// unless the message of another sender has met it meanwhile.
fn chosen_dies(world: &World, met: bool) {
    enable(world);
    let rank = world.rank();
    match rank {
        RECEIVER => choose(world, met),
        VICTIM => {
            let own = getpid().as_raw_nonzero().get();
            world.send(&[own], RECEIVER, WORD).expect("all live still");
            let end = hold(world, || {
                loop {
                    std::thread::park();
                }
            });
            unreachable!("it ends when it is killed: {end:?}");
        }
        OTHER if met => {
            let mine = flagged(OTHER);
            world.recv(&mut [0_u8], RECEIVER, WORD).expect("the receiver lives");
            world
                .scope(|scope| {
                    // A synchronous one waits for no flag.
                    let send = scope.issend(world, &mine, RECEIVER, DATA)?;
                    world.send(&[0_u8], RECEIVER, WORD)?;
                    send.wait()
                })
                .expect("the receiver lives");
        }
        _ => {}
    }
    if rank == RECEIVER {
        for living in [1, OTHER] {
            world.send(&[0_u8], living, WORD).expect("both live");
        }
        return collect(world, &[1, OTHER], false);
    }
    // Not before: another flag would be raised.
    world.recv(&mut [0_u8], RECEIVER, WORD).expect("the receiver lives");
    supply(world, RECEIVER, false);
}

/// The receiver of [`chosen_dies`], until it has acknowledged the death.
fn choose(world: &World, met: bool) {
    let mut process = [0_i32];
    world.recv(&mut process, VICTIM, WORD).expect("all live still");
    await_flags(world, &[VICTIM]);
    let mut items = flagged(0);
    let end: Result<_, MpiError> = world.scope(|scope| {
        let mut receive = scope.irecv(world, &mut items, ANY_SOURCE, DATA)?;
        if met {
            world.send(&[0_u8], OTHER, WORD)?;
            world.recv(&mut [0_u8], OTHER, WORD)?;
        }
        assert!(receive.test()?.is_none(), "its buffer is lent to one that makes no call");
        let victim = Pid::from_raw(process[0]).expect("the number of a process");
        kill_process(victim, Signal::KILL)
            .expect("it is one of this job, which its launcher has not reaped");
        Ok(receive.wait().map(|received| received.status.source()))
    });
    match end.expect("what is posted before the death has no error") {
        Ok(source) => {
            assert!(met && source == OTHER, "a message of rank {source}");
            assert_eq!(items, flagged(OTHER));
        }
        failed if met => panic!("a message that has met the receive is lost: {failed:?}"),
        failed => dead(failed),
    }
    until_dead(|| world.recv(&mut [0_u8], ANY_SOURCE, NOTHING));
    world.acknowledge_failures();
}
