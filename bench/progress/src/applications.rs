//! Five programs in small (figures 3.8 and 3.9 of the thesis): the communication of BT, CG, LU, MG and SP of the NAS
//! benchmarks on a grid of 2 x 2 ranks, with loops in place of their computations.
//!
//! | program | in each iteration |
//! |---|---|
//! | BT | three sweeps; in each the receive is posted before half of the work and waited for behind it |
//! | SP | the same, with messages half as long and a third of the work |
//! | CG | two exchanges with nothing but the send between receive and wait, then the work |
//! | MG | on three levels, each shorter than the one before, both neighbours' receives, packing, sends and waits; then the work |
//! | LU | two sweeps across the grid, plane by plane, of short blocking receives and sends, then an exchange with both neighbours |
//!
//! Messages are as long as those of classes B and C among four ranks ([`PROGRAMS`] says of what); the loops are scaled
//! to this machine, and grow from B to C as the benchmarks' work does. Ranks are processes under the launcher over shared
//! memory and tcp, and threads over the other lanes: the card stands in this process.
//!
//! *Wait* is the time in waits and blocking receives, *communication* that in all calls.

mod processes;

use std::time::{Duration, Instant};

use anyhow::Result;
use bowline::mpi::World;

use crate::ranks::{Lane, MODES, Scope, Work, median, run};
use crate::table::{Cell, Table};

/// Ranks of a program.
const RANKS: u32 = 4;

/// The work of an iteration, of class B.
const WORK: Duration = Duration::from_micros(600);

/// Planes of a sweep of LU. The benchmark has 102 and 162, each with less to compute.
const PLANES: usize = 8;

/// Bytes of a row of cells in a plane of LU, of five values each: those of class B and of class C.
const ROWS: [usize; 2] = [51 * 40, 81 * 40];

/// How long a rank was in calls, in one iteration.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    all: Duration,
    waits: Duration,
}

impl Spent {
    fn call<R>(&mut self, call: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = call();
        self.all += start.elapsed();
        result
    }

    fn wait<R>(&mut self, call: impl FnOnce() -> R) -> R {
        let before = self.all;
        let result = self.call(call);
        self.waits += self.all - before;
        result
    }
}

/// What a rank sends and where it receives.
struct Buffers {
    out: Vec<u8>,
    into: [Vec<u8>; 2],
    work: Work,
    /// Parts of the work.
    third: Work,
    plane: Work,
    /// Bytes of a short message.
    row: usize,
}

type Body = fn(&World, &mut Buffers, &mut Spent) -> Result<()>;

/// A sweep in each of the three directions of BT and SP.
fn sweeps(world: &World, buffers: &mut Buffers, work: Work, spent: &mut Spent) -> Result<()> {
    let Buffers { out, into: [into, _], .. } = buffers;
    for direction in 1..4 {
        let other = world.rank() ^ direction;
        world.scope(|s| {
            let receive = spent.call(|| s.irecv(world, into, other, direction))?;
            let send = spent.call(|| s.isend(world, out, other, direction))?;
            work.go();
            spent.wait(|| receive.wait())?;
            spent.wait(|| send.wait())
        })?;
    }
    Ok(())
}

fn bt(world: &World, buffers: &mut Buffers, spent: &mut Spent) -> Result<()> {
    let work = buffers.work;
    sweeps(world, buffers, work, spent)
}

fn sp(world: &World, buffers: &mut Buffers, spent: &mut Spent) -> Result<()> {
    let work = buffers.third;
    buffers.out.truncate(buffers.into[0].len() / 2);
    sweeps(world, buffers, work, spent)
}

fn cg(world: &World, buffers: &mut Buffers, spent: &mut Spent) -> Result<()> {
    let Buffers { out, into: [into, _], work, .. } = buffers;
    for partner in [1, 2] {
        let other = world.rank() ^ partner;
        world.scope(|s| {
            let receive = spent.call(|| s.irecv(world, into, other, 1))?;
            spent.call(|| world.send(out, other, 1))?;
            spent.wait(|| receive.wait().map(drop))
        })?;
    }
    work.go();
    Ok(())
}

fn mg(world: &World, buffers: &mut Buffers, spent: &mut Spent) -> Result<()> {
    let Buffers { out, into: [first, second], work, third, .. } = buffers;
    let (a, b) = (world.rank() ^ 1, world.rank() ^ 2);
    for level in 0..3 {
        let bytes = out.len() >> (2 * level);
        let out = &out[..bytes];
        world.scope(|s| {
            let from_a = spent.call(|| s.irecv(world, &mut first[..bytes], a, 1))?;
            let from_b = spent.call(|| s.irecv(world, &mut second[..bytes], b, 1))?;
            third.go();
            spent.call(|| world.send(out, a, 1))?;
            spent.call(|| world.send(out, b, 1))?;
            spent.wait(|| from_a.wait())?;
            spent.wait(|| from_b.wait().map(drop))
        })?;
    }
    work.go();
    Ok(())
}

fn lu(world: &World, buffers: &mut Buffers, spent: &mut Spent) -> Result<()> {
    let Buffers { out, into: [first, second], plane, row, .. } = buffers;
    let me = world.rank();
    for corner in [0, 3] {
        // Ranks nearer to the corner come before.
        let near = me ^ corner;
        for _ in 0..PLANES {
            for axis in [1, 2] {
                if near & axis != 0 {
                    spent.wait(|| world.recv(&mut first[..*row], me ^ axis, axis))?;
                }
            }
            plane.go();
            for axis in [1, 2] {
                if near & axis == 0 {
                    spent.call(|| world.send(&out[..*row], me ^ axis, axis))?;
                }
            }
        }
    }
    for (axis, into) in [(1, first), (2, second)] {
        world.scope(|s| {
            let receive = spent.call(|| s.irecv(world, into, me ^ axis, axis))?;
            spent.call(|| world.send(out, me ^ axis, axis))?;
            spent.wait(|| receive.wait().map(drop))
        })?;
    }
    Ok(())
}

/// What a rank is asked to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Order {
    /// Place in [`PROGRAMS`].
    program: usize,
    /// Place in its classes.
    class: usize,
    /// Iterations.
    count: usize,
}

/// Microseconds of waits and of all communication in an iteration.
fn measure(world: &World, order: Order) -> Result<[f64; 2]> {
    let program = &PROGRAMS[order.program];
    let Class { bytes, times, .. } = program.classes[order.class];
    let work = WORK.mul_f64(times);
    let mut buffers = Buffers {
        out: vec![1; bytes],
        into: [vec![0; bytes], vec![0; bytes]],
        work: Work::of(work),
        third: Work::of(work / 3),
        plane: Work::of(work / PLANES as u32),
        row: ROWS[order.class],
    };
    let mut times = [Vec::new(), Vec::new()];
    world.barrier()?;
    for _ in 0..order.count {
        let mut spent = Spent::default();
        (program.body)(world, &mut buffers, &mut spent)?;
        for (times, spent) in times.iter_mut().zip([spent.waits, spent.all]) {
            times.push(spent.as_secs_f64() * 1e6);
        }
    }
    Ok(times.map(|mut times| median(times.split_off(order.count / 10))))
}

/// A size of a benchmark's problem.
#[derive(Clone, Copy, Debug)]
struct Class {
    name: &'static str,
    /// Of a long message.
    bytes: usize,
    /// The work, in that of class B.
    times: f64,
}

const fn classes(b: usize, c: usize, times: f64) -> [Class; 2] {
    [Class { name: "B", bytes: b, times: 1.0 }, Class { name: "C", bytes: c, times }]
}

struct Program {
    name: &'static str,
    body: Body,
    classes: [Class; 2],
    /// What was published of the parasite flow and of the thread.
    published: [&'static str; 2],
}

/// The programs. BT, SP: a face of a cell, of five values for each of 51 x 51 and 81 x 81 points. CG: half of a vector of
/// 75,000 and 150,000 values; work by the nonzeros of its matrix. LU: two layers of five values for 51 x 102 and 81 x 162
/// points. MG: a face of 128 x 256 and 256 x 512 values on the finest level.
const PROGRAMS: [Program; 5] = [
    Program {
        name: "BT",
        body: bt,
        classes: classes(51 * 51 * 40, 81 * 81 * 40, 4.0),
        published: ["less; at 25 processes more than thread", "less"],
    },
    Program {
        name: "CG",
        body: cg,
        classes: classes(75_000 / 2 * 8, 150_000 / 2 * 8, 2.6),
        published: ["as thread", "less"],
    },
    Program {
        name: "LU",
        body: lu,
        classes: classes(2 * 40 * 51 * 102, 2 * 40 * 81 * 162, 4.0),
        published: ["+0.2 % at most (4 processes), +0.9 % (32)", "+8 % and more (4), +22 % (32)"],
    },
    Program {
        name: "MG",
        body: mg,
        classes: classes(128 * 256 * 8, 256 * 512 * 8, 8.0),
        published: ["less than thread", "less"],
    },
    Program {
        name: "SP",
        body: sp,
        classes: classes(51 * 51 * 40, 81 * 81 * 40, 4.0),
        published: ["as thread", "less"],
    },
];

/// Whether ranks over a lane are processes.
const fn has_processes(lane: Lane) -> bool {
    matches!(lane, Lane::Shm | Lane::Tcp)
}

/// Microseconds of waits and of all communication in an iteration, mean of the ranks.
fn job(lane: Lane, mode: &str, order: Order) -> Result<[f64; 2]> {
    if has_processes(lane) {
        return processes::measure(lane, mode, order);
    }
    let ranks = run(RANKS, lane, mode, |world| measure(world, order))?;
    Ok([0, 1].map(|kind| ranks.iter().map(|rank| rank[kind]).sum::<f64>() / f64::from(RANKS)))
}

pub(crate) fn tables(scope: &Scope) -> Result<Vec<Table>> {
    if processes::be_a_rank()? {
        return Ok(Vec::new());
    }
    let (rounds, count) = if scope.quick { (2, 30) } else { (5, 60) };
    let mut table = Table::new(
        "applications",
        format!("us of an iteration in {RANKS} ranks, mean of them; change beside mode none"),
        &[
            "lane",
            "ranks",
            "program",
            "class",
            "bytes",
            "time",
            "none",
            "pef",
            "thread",
            "published pef",
            "published thread",
        ],
    );
    for lane in scope.lanes_here() {
        for (place, program) in PROGRAMS.iter().enumerate() {
            for (class, Class { name, bytes, .. }) in program.classes.iter().enumerate() {
                eprintln!("applications: {} of class {name} over {}", program.name, lane.name());
                let order = Order { program: place, class, count };
                let mut found = vec![[Vec::new(), Vec::new()]; MODES.len()];
                for _ in 0..rounds {
                    for (mode, found) in MODES.iter().zip(&mut found) {
                        let times = job(lane, mode, order)?;
                        for (found, us) in found.iter_mut().zip(times) {
                            found.push(us);
                        }
                    }
                }
                let found: Vec<_> = found.into_iter().map(|kinds| kinds.map(median)).collect();
                for (kind, time) in ["wait", "communication"].into_iter().enumerate() {
                    let change = |mode: usize| {
                        let (us, none) = (found[mode][kind], found[0][kind]);
                        Cell::from(format!("{us:.0} ({:+.1} %)", (us / none - 1.0) * 100.0))
                    };
                    let [pef, thread] = program.published;
                    table.row(vec![
                        lane.name().into(),
                        if has_processes(lane) { "processes" } else { "threads" }.into(),
                        program.name.into(),
                        (*name).into(),
                        Cell::count(*bytes as u64),
                        time.into(),
                        Cell::number(found[0][kind], 0, ""),
                        change(1),
                        change(2),
                        pef.into(),
                        thread.into(),
                    ]);
                }
            }
        }
    }
    table.note(
        "published: figure 3.8, LU of the NAS benchmarks on 4 and on 32 processors; figure 3.9, BT, CG, MG and \
         SP on 4 to 32, of which its text has no figures. Ours are loops in place of the benchmarks, and four ranks \
         where there are as many processors only on some machines.",
    );
    Ok(vec![table])
}
