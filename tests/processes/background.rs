//! A rank is killed while collectives of every kind are under way, nonblocking and persistent ones, at a step that a
//! seed says: each that cannot end without it fails at every survivor, all that fail do so with one class, none hangs,
//! and what needs survivors alone goes on.

use std::cell::RefCell;
use std::rc::Rc;

use bowline::mpi::{
    ANY_SOURCE, CollectiveRequest, Communicator, ErrorClass, MpiError, Partition,
    PersistentCollective, Scope, Sum, World,
};

use crate::Case;
use crate::kill::{die, launch_with_deaths};

const RANKS: u32 = 4;
const VICTIM: usize = 2;
const KINDS: usize = 18;

/// Words of a block: short, packed, and long enough for many steps and for offers of memory.
const LENGTHS: [usize; 3] = [1, 700, 60_000];

/// The next number of a sequence.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    *state >> 33
}

/// A kind with its buffers; blocks of all ranks have one length, so that partitions are even.
struct One {
    kind: usize,
    len: usize,
    input: Vec<u64>,
    output: Vec<u64>,
    counts: Vec<usize>,
    places: Vec<usize>,
}

impl One {
    fn new(kind: usize, len: usize) -> Self {
        let n = RANKS as usize;
        let counts = vec![len; n];
        let places = (0..n).map(|rank| rank * len).collect();
        let (reads, writes) = match kind {
            0 => (0, 0),
            1 | 9 | 10 | 13 | 14 => (len, len),
            2 | 4 | 6 | 7 | 16 => (len, n * len),
            3 | 5 | 11 | 12 => (n * len, len),
            _ => (n * len, n * len),
        };
        Self { kind, len, input: vec![1; reads], output: vec![0; writes], counts, places }
    }

    /// Whether no rank can end it without something from every other one.
    fn needs_all(&self) -> bool {
        matches!(self.kind, 0 | 6..=8 | 10..=12 | 15..)
    }

    fn begin<'scope>(
        &'scope mut self,
        scope: &'scope Scope<'scope, '_>,
        comm: &'scope Communicator,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        let (input, output) = (&self.input[..], &mut self.output[..]);
        let parts = Partition::new(&self.counts, &self.places);
        match self.kind {
            0 => scope.ibarrier(comm),
            1 => scope.ibcast(comm, output, 1),
            2 => scope.igather(comm, input, output, 1),
            3 => scope.iscatter(comm, input, output, 1),
            4 => scope.igatherv(comm, input, output, parts, 1),
            5 => scope.iscatterv(comm, input, parts, output, 1),
            6 => scope.iallgather(comm, input, output),
            7 => scope.iallgatherv(comm, input, output, parts),
            8 => scope.ialltoall(comm, input, output),
            9 => scope.ireduce(comm, input, output, Sum, 1),
            10 => scope.iallreduce(comm, input, output, Sum),
            11 => scope.ireduce_scatter_block(comm, input, output, Sum),
            12 => scope.ireduce_scatter(comm, input, output, &self.counts, Sum),
            13 => scope.iscan(comm, input, output, Sum),
            14 => scope.iexscan(comm, input, output, Sum),
            15 => scope.ialltoallv(comm, input, parts, output, parts),
            16 => scope.ineighbor_allgather(comm, input, output),
            _ => scope.ineighbor_alltoall(comm, input, output),
        }
    }

    /// A barrier has no words: a reduction of none stands for it.
    fn make(self, comm: &Communicator) -> Result<PersistentCollective<u64>, MpiError> {
        let Self { kind, input, output, counts, places, .. } = self;
        let parts = Partition::new(&counts, &places);
        match kind {
            0 => comm.allreduce_init(vec![1], vec![0], Sum),
            1 => comm.bcast_init(output, 1),
            2 => comm.gather_init(input, output, 1),
            3 => comm.scatter_init(input, output, 1),
            4 => comm.gatherv_init(input, output, parts, 1),
            5 => comm.scatterv_init(input, parts, output, 1),
            6 => comm.allgather_init(input, output),
            7 => comm.allgatherv_init(input, output, parts),
            8 => comm.alltoall_init(input, output),
            9 => comm.reduce_init(input, output, Sum, 1),
            10 => comm.allreduce_init(input, output, Sum),
            11 => comm.reduce_scatter_block_init(input, output, Sum),
            12 => comm.reduce_scatter_init(input, output, &counts, Sum),
            13 => comm.scan_init(input, output, Sum),
            14 => comm.exscan_init(input, output, Sum),
            15 => comm.alltoallv_init(input, parts, output, parts),
            16 => comm.neighbor_allgather_init(input, output),
            _ => comm.neighbor_alltoall_init(input, output),
        }
    }
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
fn victim_waits(world: &World) {
    if world.rank() as usize != VICTIM {
        return world.send(&[0_u8], VICTIM as i32, 5).expect("it waits for this");
    }
    for rank in (0..RANKS as i32).filter(|&rank| rank as usize != VICTIM) {
        world.recv(&mut [0_u8], rank, 5).expect("the others live");
    }
}

/// All kinds at once, and a duplicate. The victim starts some of them, polls a few times, and is gone.
fn nonblocking(world: &World, seed: u64) {
    let (me, mut state) = (world.rank() as usize, seed);
    let mut all = shuffled(&mut state);
    let (started, polls) = (next(&mut state) as usize % (KINDS + 1), next(&mut state) % 200);
    // The collective in front of which the duplicate is started.
    let place = next(&mut state) as usize % KINDS;
    let comm = neighbours(world);
    let alive = world.split(i32::from(me == VICTIM), 0).expect("all live").expect("a colour");
    victim_waits(world);
    // What is between survivors, on the communicator that fails.
    let partner = [1, 0, 0, 3][me];
    let (mut mail, mut sum) = ([0_u64; 5000], [0_u64; 5000]);
    let kinds: Vec<(usize, usize, bool)> =
        all.iter().map(|one| (one.kind, one.len, one.needs_all())).collect();
    comm.scope(|scope| {
        let receive = scope.irecv(&comm, &mut mail[..], partner, 77)?;
        let (mut duplicate, made) = (None, Rc::new(RefCell::new(None)));
        let others = match me {
            VICTIM => None,
            _ => Some(scope.iallreduce(&alive, &[3; 5000], &mut sum[..], Sum)?),
        };
        let mut requests = Vec::new();
        for (number, one) in all.iter_mut().enumerate() {
            if number == place {
                let made = Rc::clone(&made);
                duplicate = Some(comm.start_dup(&[], move |new| *made.borrow_mut() = Some(new)));
            }
            if me == VICTIM && number == started {
                die_after(world, polls);
            }
            // A start may meet the failure itself.
            requests.push(one.begin(scope, &comm));
        }
        if me == VICTIM {
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
    after(world, &alive);
}

/// All kinds are made, and started twice; the victim starts some a second time.
fn persistent(world: &World, seed: u64) {
    let (me, mut state) = (world.rank() as usize, seed);
    let all = shuffled(&mut state);
    let (started, polls) = (next(&mut state) as usize % (KINDS + 1), next(&mut state) % 200);
    let alive = world.split(i32::from(me == VICTIM), 0).expect("all live").expect("a colour");
    let kinds: Vec<(usize, usize, bool)> =
        all.iter().map(|one| (one.kind, one.len, one.needs_all())).collect();
    let comm = neighbours(world);
    let mut made: Vec<_> =
        all.into_iter().map(|one| one.make(&comm).expect("nothing is sent")).collect();
    for one in &mut made {
        one.start().expect("it is inactive");
    }
    made.iter_mut().for_each(|one| one.wait().expect("all live"));
    victim_waits(world);
    if me == VICTIM {
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
    let reduction = kinds.iter().position(|&(kind, ..)| kind == 10).expect("it is among them");
    let mut again = made.swap_remove(reduction);
    again.start().expect("it is inactive");
    judge("one that is started after the death", again.wait(), true);
    again.into_buffers().expect("it is inactive");
    drop(made);
    after(world, &alive);
}

/// What holds after the death.
fn after(world: &World, alive: &Communicator) {
    let failed = world.barrier().expect_err("a member is dead");
    assert_eq!(failed.class(), ErrorClass::ProcFailed);
    let any = world.recv(&mut [0_u8], ANY_SOURCE, 9).expect_err("it may have been the dead one's");
    assert_eq!(any.class(), ErrorClass::ProcFailed);
    let mut sum = [0_u32];
    alive.allreduce(&[1], &mut sum, Sum).expect("its members live");
    assert_eq!(sum, [RANKS - 1]);
    assert_eq!(world.failed(), [VICTIM as i32]);
}

/// Runs the rank program of this name, if there is one: `background::WAY::SEED`.
pub(crate) fn rank(name: &str) -> bool {
    let mut parts = name.split("::");
    if parts.next() != Some("background") {
        return false;
    }
    let (way, seed) = (parts.next(), parts.next());
    let seed = seed.and_then(|seed| seed.parse().ok()).expect("a seed");
    let world = bowline::init().expect("the launcher started this rank");
    match way {
        Some("nonblocking") => nonblocking(&world, seed),
        _ => persistent(&world, seed),
    }
    true
}

pub(crate) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for way in ["nonblocking", "persistent"] {
        for transports in ["self,shm", "self,tcp"] {
            let name = format!("background::{way}_over_{transports}");
            all.push(Case::new(name, move || {
                (0..8).try_for_each(|seed| launch(way, transports, seed))
            }));
        }
    }
    all
}

fn launch(way: &str, transports: &str, seed: u64) -> Result<(), String> {
    let name = format!("background::{way}::{seed}");
    let dies = |rank| rank == VICTIM as i32;
    launch_with_deaths(RANKS, name, &[("BOWLINE_TRANSPORTS", transports)], dies)
        .map_err(|why| format!("seed {seed}: {why}"))
}
