//! Five programs in small (figures 3.8 and 3.9 of the thesis): the communication of BT, CG, LU, MG and SP of the NAS
//! benchmarks on a grid of 2 x 2 ranks, with loops in place of their computations.
//!
//! | program | in each iteration |
//! |---|---|
//! | BT | three sweeps; in each the receive is posted before half of the work and waited for behind it |
//! | SP | the same, with shorter messages and a third of the work |
//! | CG | two exchanges with nothing but the send between receive and wait, then the work |
//! | MG | on three levels, each shorter than the one before, both neighbours' receives, packing, sends and waits; then the work |
//! | LU | two sweeps across the grid of blocking receives and sends, so that no mode can help |
//!
//! *Wait* is the time in waits and blocking receives, *communication* that in all calls.

use std::time::{Duration, Instant};

use anyhow::Result;
use bowline::mpi::World;

use crate::ranks::{Lane, MODES, Scope, Work, median, run};
use crate::table::{Cell, Table};

/// Ranks of a program.
const RANKS: u32 = 4;

/// The work of an iteration.
const WORK: Duration = Duration::from_micros(600);

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
    /// A part of the work.
    third: Work,
}

type Program = fn(&World, &mut Buffers, &mut Spent) -> Result<()>;

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
    let Buffers { out, into: [first, second], work, third } = buffers;
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
    let Buffers { out, into: [into, _], work, .. } = buffers;
    let me = world.rank();
    for corner in [0, 3] {
        // Ranks nearer to the corner come before.
        let near = me ^ corner;
        for axis in [1, 2] {
            if near & axis != 0 {
                spent.wait(|| world.recv(into, me ^ axis, axis))?;
            }
        }
        work.go();
        for axis in [1, 2] {
            if near & axis == 0 {
                spent.call(|| world.send(out, me ^ axis, axis))?;
            }
        }
    }
    Ok(())
}

/// Microseconds of waits and of all communication in an iteration.
fn measure(world: &World, program: Program, bytes: usize, count: usize) -> Result<[f64; 2]> {
    let mut buffers = Buffers {
        out: vec![1; bytes],
        into: [vec![0; bytes], vec![0; bytes]],
        work: Work::of(WORK),
        third: Work::of(WORK / 3),
    };
    let mut times = [Vec::new(), Vec::new()];
    world.barrier()?;
    for _ in 0..count {
        let mut spent = Spent::default();
        program(world, &mut buffers, &mut spent)?;
        for (times, spent) in times.iter_mut().zip([spent.waits, spent.all]) {
            times.push(spent.as_secs_f64() * 1e6);
        }
    }
    Ok(times.map(|mut times| median(times.split_off(count / 10))))
}

/// The programs, with what was published of the parasite flow and of the thread.
const PROGRAMS: [(&str, Program, &str, &str); 5] = [
    ("BT", bt, "less; at 25 processes more than thread", "less"),
    ("CG", cg, "as thread", "less"),
    ("LU", lu, "+0.2 % at most (4 processes), +0.9 % (32)", "+8 % and more (4), +22 % (32)"),
    ("MG", mg, "less than thread", "less"),
    ("SP", sp, "as thread", "less"),
];

pub(crate) fn tables(scope: &Scope) -> Result<Vec<Table>> {
    let (rounds, count) = if scope.quick { (2, 30) } else { (6, 100) };
    let mut table = Table::new(
        "applications",
        format!("us of an iteration in {RANKS} ranks, mean of them; change beside mode none"),
        &[
            "lane",
            "program",
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
        let bytes = if lane == Lane::Shm { 1 << 20 } else { 100 << 10 };
        for (name, program, pef, thread) in PROGRAMS {
            let mut found = vec![[Vec::new(), Vec::new()]; MODES.len()];
            for _ in 0..rounds {
                for (mode, found) in MODES.iter().zip(&mut found) {
                    let ranks =
                        run(RANKS, lane, mode, |world| measure(world, program, bytes, count))?;
                    for (kind, found) in found.iter_mut().enumerate() {
                        let sum: f64 = ranks.iter().map(|rank| rank[kind]).sum();
                        found.push(sum / f64::from(RANKS));
                    }
                }
            }
            let found: Vec<_> = found.into_iter().map(|kinds| kinds.map(median)).collect();
            for (kind, time) in ["wait", "communication"].into_iter().enumerate() {
                let change = |mode: usize| {
                    let (us, none) = (found[mode][kind], found[0][kind]);
                    Cell::from(format!("{us:.0} ({:+.1} %)", (us / none - 1.0) * 100.0))
                };
                table.row(vec![
                    lane.name().into(),
                    name.into(),
                    Cell::count(bytes as u64),
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
    table.note(
        "published: figure 3.8, LU of the NAS benchmarks on 4 and on 32 processors; figure 3.9, BT, CG, MG and \
         SP on 4 to 32, of which its text has no figures. Ours are loops in place of the benchmarks, and four ranks \
         where there are as many processors only on some machines.",
    );
    Ok(vec![table])
}
