//! A rank is killed while collectives of every kind are under way, nonblocking and persistent ones, at a step that a
//! seed says: each that cannot end without it fails at every survivor, all that fail do so with one class, none hangs,
//! and what needs survivors alone goes on. Over shared memory, over tcp, and by algorithms in layers with the ranks on two
//! hosts, of which agents on this machine stand for each.

mod kinds;

use std::cell::RefCell;
use std::rc::Rc;

use bowline::mpi::{ANY_SOURCE, CollectiveRequest, Communicator, ErrorClass, MpiError, Sum, World};

use self::kinds::{ALLREDUCE, KINDS, One};
use crate::Case;
use crate::kill::{die, in_layers, launch_on_hosts};

const RANKS: u32 = 4;

/// Words of a block: short, packed, and long enough for many steps and for offers of memory.
const LENGTHS: [usize; 3] = [1, 700, 60_000];

/// The next number of a sequence.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    *state >> 33
}

/// An end that is allowed: well, unless it cannot be, or the one class of errors.
fn judge(what: &str, outcome: Result<(), MpiError>, must_fail: bool) {
    match outcome {
        Ok(()) => assert!(!must_fail, "{what} ended well without a rank that it needs"),
        Err(error) => assert_eq!(error.class(), ErrorClass::ProcFailed, "{what}: {error}"),
    }
}

/// Kinds and lengths in an order of the seed's.
fn shuffled(state: &mut u64) -> Vec<One> {
    let mut kinds: Vec<usize> = (0..KINDS).collect();
    (1..KINDS).rev().for_each(|at| kinds.swap(at, next(state) as usize % (at + 1)));
    kinds.into_iter().map(|kind| One::new(kind, LENGTHS[next(state) as usize % 3])).collect()
}

/// Ends this process after some polls of what is under way.
fn die_after(world: &World, polls: u64) -> ! {
    for _ in 0..polls {
        world.progress();
    }
    die()
}

/// All ranks, each of which is a neighbour of all.
fn neighbours(world: &World) -> Communicator {
    let all: Vec<i32> = (0..RANKS as i32).collect();
    let made = world.dist_graph_create_adjacent((&all, None), (&all, None), false);
    made.expect("all live")
}

/// The victim lives until all have come here, and have ended what it took part in.
fn victim_waits(world: &World, victim: usize) {
    if world.rank() as usize != victim {
        return world.send(&[0_u8], victim as i32, 5).expect("it waits for this");
    }
    for rank in (0..RANKS as i32).filter(|&rank| rank as usize != victim) {
        world.recv(&mut [0_u8], rank, 5).expect("the others live");
    }
}

/// All kinds at once, and a duplicate. The victim starts some of them, polls a few times, and is gone.
fn nonblocking(world: &World, victim: usize, seed: u64) {
    let (me, mut state) = (world.rank() as usize, seed);
    let mut all = shuffled(&mut state);
    let (started, polls) = (next(&mut state) as usize % (KINDS + 1), next(&mut state) % 200);
    // The collective in front of which the duplicate is started.
    let place = next(&mut state) as usize % KINDS;
    let comm = neighbours(world);
    let alive = world.split(i32::from(me == victim), 0).expect("all live").expect("a colour");
    victim_waits(world, victim);
    // What is between survivors, on the communicator that fails.
    let survivors: Vec<usize> = (0..RANKS as usize).filter(|&rank| rank != victim).collect();
    let partner = match survivors.iter().position(|&rank| rank == me) {
        Some(0) => survivors[1] as i32,
        Some(1) => survivors[0] as i32,
        _ => me as i32,
    };
    let (mut mail, mut sum) = ([0_u64; 5000], [0_u64; 5000]);
    let kinds: Vec<(usize, usize, bool)> =
        all.iter().map(|one| (one.kind, one.len, one.needs_all())).collect();
    comm.scope(|scope| {
        let receive = scope.irecv(&comm, &mut mail[..], partner, 77)?;
        let (mut duplicate, made) = (None, Rc::new(RefCell::new(None)));
        let others = match me {
            _ if me == victim => None,
            _ => Some(scope.iallreduce(&alive, &[3; 5000], &mut sum[..], Sum)?),
        };
        let mut requests = Vec::new();
        for (number, one) in all.iter_mut().enumerate() {
            if number == place {
                let made = Rc::clone(&made);
                duplicate = Some(comm.start_dup(&[], move |new| *made.borrow_mut() = Some(new)));
            }
            if me == victim && number == started {
                die_after(world, polls);
            }
            // A start may meet the failure itself.
            requests.push(one.begin(scope, &comm));
        }
        if me == victim {
            die_after(world, polls);
        }
        for (number, (request, &(kind, len, needs))) in requests.into_iter().zip(&kinds).enumerate()
        {
            let outcome = request.and_then(CollectiveRequest::wait);
            judge(&format!("kind {kind} of {len}"), outcome, needs && number >= started);
        }
        let outcome = duplicate.expect("it is in front of a collective").and_then(|mut request| {
            let mut end = None;
            comm.wait_until(|| {
                end = request.poll();
                end.is_some()
            });
            end.and_then(|end| end.error).map_or(Ok(()), Err)
        });
        // It may end well at a rank that had all it needs of the victim, as any collective, and is there then.
        let made = made.take();
        assert_eq!(made.is_some(), outcome.is_ok(), "a duplicate is there when it has ended well");
        judge("a duplicate", outcome, place > started);
        if let Some(made) = made {
            assert_eq!(made.size() as u32, RANKS);
            judge("a barrier of the duplicate", made.barrier(), true);
        }
        others.expect("this one lives").wait().expect("its members live");
        comm.send(&[me as u64; 5000], partner, 77)?;
        let got = receive.wait()?;
        assert_eq!(got.items, [partner as u64; 5000]);
        Ok(())
    })
    .expect("messages between survivors pass");
    assert_eq!(sum, [9; 5000]);
    after(world, &alive, victim);
}

/// All kinds are made, and started twice; the victim starts some a second time.
fn persistent(world: &World, victim: usize, seed: u64) {
    let (me, mut state) = (world.rank() as usize, seed);
    let all = shuffled(&mut state);
    let (started, polls) = (next(&mut state) as usize % (KINDS + 1), next(&mut state) % 200);
    let alive = world.split(i32::from(me == victim), 0).expect("all live").expect("a colour");
    let kinds: Vec<(usize, usize, bool)> =
        all.iter().map(|one| (one.kind, one.len, one.needs_all())).collect();
    let comm = neighbours(world);
    let mut made: Vec<_> =
        all.into_iter().map(|one| one.make(&comm).expect("nothing is sent")).collect();
    for one in &mut made {
        one.start().expect("it is inactive");
    }
    made.iter_mut().for_each(|one| one.wait().expect("all live"));
    victim_waits(world, victim);
    if me == victim {
        for one in &mut made[..started] {
            one.start().expect("it is inactive");
        }
        die_after(world, polls);
    }
    for one in &mut made {
        one.start().expect("it is inactive");
    }
    for (number, (one, &(kind, len, needs))) in made.iter_mut().zip(&kinds).enumerate() {
        let outcome = match number % 2 {
            0 => one.wait(),
            _ => loop {
                match one.test() {
                    Ok(false) => {}
                    ended => break ended.map(drop),
                }
            },
        };
        judge(&format!("persistent kind {kind} of {len}"), outcome, needs && number >= started);
        assert!(!one.is_active(), "it is inactive after an error too");
    }
    // Started again, it fails again; its buffers come back.
    let reduction = kinds.iter().position(|&(kind, ..)| kind == ALLREDUCE);
    let reduction = reduction.expect("it is among them");
    let mut again = made.swap_remove(reduction);
    again.start().expect("it is inactive");
    judge("one that is started after the death", again.wait(), true);
    assert!(again.gives_back(), "it is inactive");
    drop(made);
    after(world, &alive, victim);
}

/// What holds after the death.
fn after(world: &World, alive: &Communicator, victim: usize) {
    let failed = world.barrier().expect_err("a member is dead");
    assert_eq!(failed.class(), ErrorClass::ProcFailed);
    let any = world.recv(&mut [0_u8], ANY_SOURCE, 9).expect_err("it may have been the dead one's");
    assert_eq!(any.class(), ErrorClass::ProcFailed);
    let mut sum = [0_u32];
    alive.allreduce(&[1], &mut sum, Sum).expect("its members live");
    assert_eq!(sum, [RANKS - 1]);
    assert_eq!(world.failed(), [victim as i32]);
}

/// Runs the rank program of this name, if there is one: `background::WAY::VICTIM::SEED`.
pub(crate) fn rank(name: &str) -> bool {
    let mut parts = name.split("::");
    if parts.next() != Some("background") {
        return false;
    }
    let way = parts.next();
    let mut number = || parts.next().and_then(|part| part.parse().ok()).expect("a number");
    let (victim, seed) = (number() as usize, number());
    let world = bowline::init().expect("the launcher started this rank");
    match way {
        Some("nonblocking") => nonblocking(&world, victim, seed),
        _ => persistent(&world, victim, seed),
    }
    true
}

pub(crate) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for way in ["nonblocking", "persistent"] {
        for transports in ["self,shm", "self,tcp"] {
            let name = format!("background::{way}_over_{transports}");
            all.push(Case::new(name, move || {
                let settings = [("BOWLINE_TRANSPORTS", transports)];
                (0..8).try_for_each(|seed| launch(way, "", &settings, 2, seed))
            }));
        }
        all.push(Case::new(format!("background::{way}_in_layers"), move || {
            // The first rank of the other node, one behind it, the root, and the first rank of all.
            (0..).zip([2, 3, 1, 0]).try_for_each(|(seed, victim)| {
                launch(way, "a,b", &in_layers(seed as usize), victim, seed)
            })
        }));
    }
    all
}

fn launch(
    way: &str,
    hosts: &str,
    settings: &[(&str, &str)],
    victim: i32,
    seed: u64,
) -> Result<(), String> {
    let name = format!("background::{way}::{victim}::{seed}");
    launch_on_hosts(hosts, RANKS, name, settings, |rank| rank == victim)
        .map_err(|why| format!("seed {seed}: {why}"))
}
