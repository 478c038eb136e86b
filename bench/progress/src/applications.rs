//! Two programs in small (figures 3.8 and 3.9 of the thesis): one like LU, which receives blocking only, so
//! that no mode can help; one like CG, which exchanges by nonblocking operations and computes meanwhile.

use std::time::{Duration, Instant};

use anyhow::Result;
use bowline::mpi::{Sum, World};

use crate::ranks::{Lane, MODES, Work, median, run};
use crate::table::{Cell, Table};

/// Microseconds of communication in an iteration: all that is not computation.
fn blocking(world: &World, size: usize, count: usize) -> Result<f64> {
    let work = Work::of(Duration::from_micros(200));
    let mut buffer = vec![1u8; size];
    let mut times = Vec::new();
    for _ in 0..count {
        let mut spent = Duration::ZERO;
        for sweep in 0..2 {
            let start = Instant::now();
            if world.rank() != sweep {
                world.recv(&mut buffer, sweep, 1)?;
            }
            spent += start.elapsed();
            work.go();
            let start = Instant::now();
            if world.rank() == sweep {
                world.send(&buffer, 1 - sweep, 1)?;
            }
            spent += start.elapsed();
        }
        times.push(spent.as_secs_f64() * 1e6);
    }
    Ok(median(times.split_off(count / 10)))
}

/// The same; the time that the computation takes longer counts as communication.
fn nonblocking(world: &World, size: usize, count: usize) -> Result<f64> {
    let computed = Duration::from_micros(1000);
    let work = Work::of(computed);
    let (out, mut into) = (vec![1u8; size], vec![0u8; size]);
    let other = 1 - world.rank();
    let mut times = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        world.scope(|s| {
            let receive = s.irecv(world, &mut into, other, 1)?;
            let send = s.isend(world, &out, other, 1)?;
            work.go();
            receive.wait()?;
            send.wait()
        })?;
        let mut sum = [0.0];
        world.allreduce(&[1.0], &mut sum, Sum)?;
        times.push((start.elapsed().as_secs_f64() - computed.as_secs_f64()) * 1e6);
    }
    Ok(median(times.split_off(count / 10)))
}

pub(crate) fn tables(quick: bool) -> Result<Vec<Table>> {
    let (rounds, count) = if quick { (2, 30) } else { (6, 100) };
    let mut table = Table::new(
        "applications",
        "communication in us of an iteration, slower rank; change beside mode none",
        &["lane", "program", "bytes", "none", "pef", "thread", "published pef", "published thread"],
    );
    for lane in Lane::ALL {
        let size = if lane == Lane::Carrier { 100 << 10 } else { 1 << 20 };
        type Program = fn(&World, usize, usize) -> Result<f64>;
        let programs: [(&str, Program, &str, &str); 2] = [
            (
                "like LU, blocking",
                blocking,
                "+0.2 % at most (4 processes), +0.9 % (32)",
                "+8 % and more (4), +22 % (32)",
            ),
            // Of figure 3.9 the text has no percentages.
            ("like CG, nonblocking", nonblocking, "as thread", "less"),
        ];
        for (name, program, pef, thread) in programs {
            let mut found = vec![Vec::new(); MODES.len()];
            for _ in 0..rounds {
                for (mode, found) in MODES.iter().zip(&mut found) {
                    let both = run(2, lane, mode, |world| program(world, size, count))?;
                    found.push(both.into_iter().fold(0.0, f64::max));
                }
            }
            let times: Vec<f64> = found.into_iter().map(median).collect();
            let change = |mode: usize| {
                Cell::from(format!(
                    "{:.1} ({:+.1} %)",
                    times[mode],
                    (times[mode] / times[0] - 1.0) * 100.0
                ))
            };
            table.row(vec![
                lane.name().into(),
                name.into(),
                Cell::count(size as u64),
                Cell::number(times[0], 1, ""),
                change(1),
                change(2),
                pef.into(),
                thread.into(),
            ]);
        }
    }
    table.note(
        "published: figure 3.8, LU of the NAS benchmarks on 4 and on 32 processors; figure 3.9, BT, CG, MG and \
         SP on 4 to 32, which has no figures in its text. Ours are two ranks, and loops in place of the \
         benchmarks.",
    );
    Ok(vec![table])
}
