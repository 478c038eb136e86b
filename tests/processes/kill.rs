//! A rank is killed at each stage of what others wait for: every call of a survivor that waits
//! for it returns an error, nobody hangs, and the job's end is reported.

use std::time::{Duration, Instant};

use bowline::mpi::{ANY_SOURCE, MpiError, Sum, World};
use bowline_launch::run::{Host, OnFailure, RankEnd, RunOptions, run};
use bowline_uct::conformance::skipped;

use crate::Case;
use crate::layers::LAYERS;

/// A case: its name, its ranks, the rank that dies, and what each rank does.
struct Kill {
    name: &'static str,
    ranks: u32,
    victim: i32,
    program: fn(&World),
}

const CASES: &[Kill] = &[
    Kill { name: "receive_from_the_dead", ranks: 2, victim: 1, program: receive_from_the_dead },
    Kill { name: "receive_never_connected", ranks: 3, victim: 2, program: receive_never_connected },
    Kill { name: "receive_from_anyone", ranks: 3, victim: 2, program: receive_from_anyone },
    Kill { name: "what_was_sent_still_arrives", ranks: 2, victim: 1, program: still_arrives },
    Kill { name: "send_to_the_dead", ranks: 2, victim: 1, program: send_to_the_dead },
    Kill { name: "rendezvous_never_fetched", ranks: 2, victim: 1, program: never_fetched },
    Kill { name: "rendezvous_cannot_be_fetched", ranks: 2, victim: 1, program: cannot_be_fetched },
    Kill { name: "killed_in_a_flood", ranks: 4, victim: 3, program: killed_in_a_flood },
    Kill { name: "killed_before_a_barrier", ranks: 5, victim: 2, program: killed_before_a_barrier },
    Kill { name: "killed_between_reductions", ranks: 7, victim: 4, program: killed_in_reductions },
    Kill { name: "killed_in_a_large_reduction", ranks: 3, victim: 1, program: killed_in_large },
    Kill { name: "killed_in_the_background", ranks: 4, victim: 2, program: killed_in_background },
    Kill { name: "killed_beside_a_helper", ranks: 4, victim: 2, program: killed_in_background },
    Kill { name: "dies_beside_a_lane_thread", ranks: 4, victim: 2, program: killed_in_background },
    Kill {
        name: "dies_while_a_lane_thread_reads",
        ranks: 2,
        victim: 1,
        program: killed_while_read,
    },
    Kill {
        name: "dies_beside_a_lane_thread_of_ofi",
        ranks: 4,
        victim: 2,
        program: killed_in_background,
    },
    Kill {
        name: "dies_while_a_lane_thread_of_ofi_reads",
        ranks: 2,
        victim: 1,
        program: killed_while_read,
    },
    Kill { name: "killed_while_it_is_read", ranks: 2, victim: 1, program: killed_while_read },
    Kill { name: "killed_while_it_reads", ranks: 2, victim: 1, program: killed_while_reading },
    Kill {
        name: "killed_while_it_sends_fragments",
        ranks: 2,
        victim: 1,
        program: killed_while_read,
    },
    Kill {
        name: "killed_while_it_gets_fragments",
        ranks: 2,
        victim: 1,
        program: killed_while_reading,
    },
    Kill { name: "asleep_when_it_happens", ranks: 2, victim: 1, program: asleep },
    Kill { name: "a_child_communicator_works", ranks: 4, victim: 3, program: child_works },
];

pub(crate) fn die() -> ! {
    let own = rustix::process::getpid();
    rustix::process::kill_process(own, rustix::process::Signal::KILL)
        .expect("one may kill oneself");
    loop {
        std::thread::park();
    }
}

pub(crate) fn dead<T: std::fmt::Debug>(result: Result<T, MpiError>) {
    match result {
        Err(
            MpiError::PeerFailed(_) | MpiError::MemberFailed { .. } | MpiError::Unreachable { .. },
        ) => {}
        other => panic!("an error about the dead rank was due, yet: {other:?}"),
    }
}

/// Repeats `call` until it fails, which must be because of the dead rank.
pub(crate) fn until_dead<T: std::fmt::Debug>(mut call: impl FnMut() -> Result<T, MpiError>) {
    loop {
        if let Err(error) = call() {
            return dead::<()>(Err(error));
        }
    }
}

fn receive_from_the_dead(world: &World) {
    if world.rank() == 1 {
        world.send(&[1u8], 0, 1).expect("rank 0 lives");
        die();
    }
    let mut byte = [0u8];
    world.recv(&mut byte, 1, 1).expect("it was sent before");
    dead(world.recv(&mut byte, 1, 1));
    dead(world.recv(&mut byte, 1, 2));
}

fn receive_never_connected(world: &World) {
    if world.rank() == 2 {
        die();
    }
    dead(world.recv(&mut [0u8], 2, 1));
}

fn receive_from_anyone(world: &World) {
    match world.rank() {
        2 => die(),
        1 => {
            dead(world.recv(&mut [0u8], 2, 5));
            world.send(&[7u8], 0, 1).expect("rank 0 lives");
        }
        _ => {
            let mut byte = [0u8];
            until_dead(|| world.recv(&mut byte, ANY_SOURCE, 9));
            world.acknowledge_failures();
            world.recv(&mut byte, ANY_SOURCE, 1).expect("acknowledged; rank 1 sends");
            assert_eq!(byte, [7]);
        }
    }
}

fn still_arrives(world: &World) {
    const COUNT: u32 = 100;
    if world.rank() == 1 {
        for i in 0..COUNT {
            world.send(&[i; 200], 0, 1).expect("rank 0 lives");
        }
        die();
    }
    // Long enough for the death to be known before the first receive.
    std::thread::sleep(Duration::from_millis(300));
    let mut words = [0u32; 200];
    for i in 0..COUNT {
        world.recv(&mut words, 1, 1).expect("it was sent before the death");
        assert_eq!(words, [i; 200]);
    }
    dead(world.recv(&mut words, 1, 1));
}

fn send_to_the_dead(world: &World) {
    if world.rank() == 1 {
        world.recv(&mut [0u8], 0, 1).expect("rank 0 lives");
        die();
    }
    world.send(&[1u8], 1, 1).expect("rank 1 lives still");
    until_dead(|| world.send(&[0u64; 64], 1, 2));
    dead(world.send(&[0u8], 1, 2));
    dead(world.ssend(&[0u8], 1, 2));
}

fn never_fetched(world: &World) {
    if world.rank() == 1 {
        world.recv(&mut [0u8], 0, 1).expect("rank 0 lives");
        die();
    }
    world.send(&[1u8], 1, 1).expect("rank 1 lives still");
    dead(world.send(&vec![5u8; 4 << 20], 1, 2));
}

fn cannot_be_fetched(world: &World) {
    if world.rank() == 1 {
        let big = vec![3u8; 8 << 20];
        // The offer is posted; nobody takes it; the process ends under it.
        world
            .scope(|scope| {
                let _offer = scope.isend(world, &big, 0, 1)?;
                world.send(&[1u8], 0, 2)?;
                die();
                #[allow(unreachable_code)]
                Ok(())
            })
            .expect("unreachable");
    }
    world.recv(&mut [0u8], 1, 2).expect("it was sent before");
    dead(world.recv(&mut [0u8], 1, 3));
    dead(world.recv(&mut vec![0u8; 8 << 20], 1, 1));
}

fn killed_in_a_flood(world: &World) {
    let me = world.rank();
    if me == 3 {
        for i in 0.. {
            if i == 40_000 {
                die();
            }
            let sent = world.send(&vec![i as u8; i % 700], i as i32 % 3, 1);
            sent.expect("the others live");
        }
    }
    let mut bytes = [0u8; 700];
    until_dead(|| world.recv(&mut bytes, 3, 1));
    // The queues that the dead one wrote into still serve the living.
    let (next, previous) = ((me + 1) % 3, (me + 2) % 3);
    for i in 0..2000u32 {
        let mut got = [0u32];
        world.sendrecv(&[i], next, 7, &mut got, previous, 7).expect("neighbours live");
        assert_eq!(got, [i]);
    }
}

fn killed_before_a_barrier(world: &World) {
    // The victim may be gone before the others have left this one, which fails for them then.
    let left = world.barrier();
    if world.rank() == 2 {
        die();
    }
    if left.is_err() {
        dead(left);
    }
    until_dead(|| world.barrier());
}

fn killed_in_reductions(world: &World) {
    let mut sum = [0i64];
    for i in 0.. {
        if world.rank() == 4 && i == 200 {
            die();
        }
        if let Err(error) = world.allreduce(&[1i64], &mut sum, Sum) {
            return dead::<()>(Err(error));
        }
        assert_eq!(sum, [7]);
    }
}

fn killed_in_large(world: &World) {
    let mine = vec![1.0f64; 300_000];
    let mut sum = vec![0.0f64; 300_000];
    for i in 0.. {
        if world.rank() == 1 && i == 5 {
            die();
        }
        if let Err(error) = world.allreduce(&mine, &mut sum, Sum) {
            return dead::<()>(Err(error));
        }
        assert!(sum.iter().all(|&x| x == 3.0));
    }
}

/// While a reduction of several stages is under way, which helpers move on if there are any.
fn killed_in_background(world: &World) {
    let mine = vec![1.0f64; 100_000];
    let mut sum = vec![0.0f64; 100_000];
    for i in 0.. {
        let ended = world.scope(|scope| {
            let large = scope.iallreduce(world, &mine, &mut sum, Sum)?;
            let small = scope.ibarrier(world)?;
            if world.rank() == 2 && i == 5 {
                die();
            }
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(2) {
                std::hint::spin_loop();
            }
            // Whichever fails, the other one must end as well.
            let (large, small) = (large.wait(), small.wait());
            large.and(small)
        });
        if let Err(error) = ended {
            return dead::<()>(Err(error));
        }
        assert!(sum.iter().all(|&x| x == 4.0));
    }
}

/// Long messages that are under way when a rank dies, and their length.
pub(crate) const LONG: (i32, usize) = (4, 2 << 20);

/// The one that dies has offered them, in memory that is registered nowhere, and is killed as soon as the other one has
/// begun to receive: together they are longer than what a ring holds, so that not all that is asked for has been sent.
pub(crate) fn killed_while_read(world: &World) {
    let (count, length) = LONG;
    if world.rank() == 1 {
        let mine: Vec<_> = (0..count).map(|at| vec![at as u8 + 1; length]).collect();
        world
            .scope(|scope| {
                let mut offers = Vec::new();
                for (at, bytes) in (0..).zip(&mine) {
                    offers.push(scope.isend(world, bytes, 0, at)?);
                }
                world.recv(&mut [0u8], 0, count)?;
                die();
                #[allow(unreachable_code)]
                Ok(())
            })
            .expect("rank 0 lives");
    }
    world.recv(&mut vec![0u8; length], 1, 0).expect("its sender lives still");
    let mut rest: Vec<_> = (1..count).map(|_| vec![0u8; length]).collect();
    let ends: Result<Vec<_>, MpiError> = world.scope(|scope| {
        let mut receives = Vec::new();
        for (at, bytes) in (1..).zip(&mut rest) {
            receives.push(scope.irecv(world, &mut bytes[..], 1, at)?);
        }
        world.send(&[0u8], 1, count)?;
        Ok(receives.into_iter().map(|receive| receive.wait().map(drop)).collect())
    });
    let ends = ends.expect("the other one died after this was posted");
    for ((at, bytes), end) in (2..).zip(&rest).zip(ends) {
        match end {
            Ok(()) => assert!(bytes.iter().all(|&byte| byte == at), "a message is not whole"),
            end => dead(end),
        }
    }
    dead(world.recv(&mut vec![0u8; length], 1, count + 1));
}

/// The one that dies receives them, and is killed as soon as the first one is there.
pub(crate) fn killed_while_reading(world: &World) {
    let (count, length) = LONG;
    if world.rank() == 1 {
        let mut into: Vec<_> = (0..count).map(|_| vec![0u8; length]).collect();
        world
            .scope(|scope| {
                let mut receives = Vec::new();
                for (at, bytes) in (0..).zip(&mut into) {
                    receives.push(scope.irecv(world, &mut bytes[..], 0, at)?);
                }
                receives.remove(0).wait()?;
                die();
                #[allow(unreachable_code)]
                Ok(())
            })
            .expect("rank 0 lives");
    }
    let mine = vec![7u8; length];
    let ends: Result<Vec<_>, MpiError> = world.scope(|scope| {
        let mut sends = Vec::new();
        for at in 0..count {
            sends.push(scope.isend(world, &mine, 1, at)?);
        }
        Ok(sends.into_iter().map(|send| send.wait().map(drop)).collect())
    });
    for end in ends.expect("the other one dies when it has a message") {
        if end.is_err() {
            dead(end);
        }
    }
    assert!(mine.iter().all(|&byte| byte == 7), "a message that was sent has changed");
    until_dead(|| world.send(&mine, 1, count));
}

fn asleep(world: &World) {
    if world.rank() == 1 {
        // The other one has stopped yielding by then.
        std::thread::sleep(Duration::from_millis(500));
        die();
    }
    dead(world.recv(&mut [0u8], 1, 1));
}

fn child_works(world: &World) {
    let color = i32::from(world.rank() == 3);
    let child = world.split(color, 0).expect("all live").expect("everybody has a colour");
    if world.rank() == 3 {
        // Everybody must have left the split, which is a collective of all.
        for rank in 0..3 {
            world.recv(&mut [0u8], rank, 1).expect("the others live");
        }
        die();
    }
    world.send(&[0u8], 3, 1).expect("rank 3 waits for this");
    until_dead(|| world.barrier());
    let mut sum = [0i32];
    for _ in 0..100 {
        child.allreduce(&[1i32], &mut sum, Sum).expect("the members of this one live");
        assert_eq!(sum, [3]);
    }
}

/// Runs the rank program of this name, if there is one.
pub(crate) fn rank(name: &str) -> bool {
    let Some(kill) = CASES.iter().find(|kill| program_name(kill) == name) else { return false };
    let world = bowline::init().expect("the launcher started this rank");
    (kill.program)(&world);
    true
}

fn program_name(kill: &Kill) -> String {
    format!("kill::{}", kill.name)
}

pub(crate) fn cases() -> Vec<Case> {
    CASES.iter().map(|kill| Case::new(program_name(kill), || launch(kill))).collect()
}

fn launch(case: &Kill) -> Result<(), String> {
    if case.name.contains("_of_ofi") && !cfg!(feature = "ofi") {
        skipped("this build has no libfabric; build with --features ofi");
        return Ok(());
    }
    let helped: &[_] = match case.name {
        "killed_beside_a_helper" => &[("BOWLINE_PROGRESS", "thread")],
        "dies_beside_a_lane_thread" | "dies_while_a_lane_thread_reads" => &[
            ("BOWLINE_PROGRESS", "pef"),
            ("BOWLINE_TRANSPORTS", "self,tcp"),
            ("BOWLINE_RNDV_THRESHOLD", "8KiB"),
        ],
        "dies_beside_a_lane_thread_of_ofi" | "dies_while_a_lane_thread_of_ofi_reads" => &[
            ("BOWLINE_PROGRESS", "pef"),
            ("BOWLINE_TRANSPORTS", "self,ofi"),
            ("BOWLINE_OFI_PROVIDER", "tcp"),
            ("BOWLINE_RNDV_THRESHOLD", "8KiB"),
        ],
        // What is chosen depends on the processors of the machine.
        "killed_while_it_is_read" | "killed_while_it_reads" => &[("BOWLINE_RNDV_SCHEME", "get")],
        "killed_while_it_sends_fragments" | "killed_while_it_gets_fragments" => {
            &[("BOWLINE_RNDV_SCHEME", "copy")]
        }
        _ => &[],
    };
    // The thread leaves ranks of one host alone that compute for a short time.
    let hosts = if case.name.contains("lane_thread") { "one,two" } else { "" };
    launch_on_hosts(hosts, case.ranks, program_name(case), helped, |rank| rank == case.victim)
}

/// Runs a job of this program, with some settings: the ranks that `dies` says have to be killed, and all others to end
/// well.
pub(crate) fn launch_with_deaths(
    ranks: u32,
    program_name: String,
    settings: &[(&str, &str)],
    dies: impl Fn(i32) -> bool,
) -> Result<(), String> {
    launch_on_hosts("", ranks, program_name, settings, dies)
}

/// The same on the hosts between commas, if there are some, with as many ranks on each. All are this machine, where each has
/// an agent and is a node.
pub(crate) fn launch_on_hosts(
    hosts: &str,
    ranks: u32,
    program_name: String,
    settings: &[(&str, &str)],
    dies: impl Fn(i32) -> bool,
) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let config = bowline::config_from_env().map_err(|error| error.to_string())?;
    let mut options = RunOptions::new(ranks, program);
    options.args = vec![program_name.into()];
    options.area_bytes = bowline::stack::area_bytes(&config);
    options.env.extend(settings.iter().map(|&(name, value)| (name.into(), value.into())));
    if !hosts.is_empty() {
        options.hosts = Host::list(hosts).map_err(|error| error.to_string())?;
    }
    options.agent_command = "env BOWLINE_TEST_HOST={host}".to_owned();
    options.agent_program = Some(env!("CARGO_BIN_EXE_bowline-launch-probe").into());
    options.on_failure = OnFailure::Continue;
    options.timeout = Some(Duration::from_secs(120));
    let report = run(&options).map_err(|error| error.to_string())?;
    let killed = RankEnd::Killed(9);
    for (rank, &end) in (0..).zip(&report.ends) {
        if end != if dies(rank) { killed } else { RankEnd::Exited(0) } {
            return Err(format!("rank {rank} ended otherwise than it should: it {end}"));
        }
    }
    let due = if report.ends.contains(&killed) { killed.code() } else { 0 };
    match report.code {
        code if code == due => Ok(()),
        code => Err(format!("the job's code is {code}, {due} was due")),
    }
}

/// Settings for ranks on several nodes, whose collectives all go in layers: the n-th of the choices.
pub(crate) fn in_layers(choice: usize) -> Vec<(&'static str, &'static str)> {
    let mut settings = vec![("BOWLINE_TRANSPORTS", "self,shm,tcp")];
    settings.extend(LAYERS.map(|(name, some)| (name, some[choice % some.len()])));
    settings
}
