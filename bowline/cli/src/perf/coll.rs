//! Collectives of the MPI layer, as rank 0 sees them. Every result is checked at its first and
//! its last element.

use std::time::Duration;

use anyhow::{Result, ensure};
use bowline::mpi::{Max, Sum, World};
use rustix::time::{ClockId, clock_gettime};

use super::Test;
use super::drive;
use super::figure::Figure;
use super::payload::{self, Buffer};
use super::plan::Plan;
use super::stats::Samples;

/// Measures.
///
/// # Errors
/// When a rank fails or a result is wrong.
pub(crate) fn measure(world: &World, plan: &Plan) -> Result<Figure> {
    let samples = match plan.test {
        Test::Allreduce => allreduce(world, plan)?,
        Test::Bcast => bcast(world, plan)?,
        Test::Alltoall => alltoall(world, plan)?,
        Test::Allgather => allgather(world, plan)?,
        Test::Reduce => reduce(world, plan)?,
        _ => barrier(world, plan)?,
    };
    Ok(Figure::new(plan, &samples))
}

/// Nanoseconds on the clock that all processes of the machine share.
fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn barrier(world: &World, plan: &Plan) -> Result<Samples> {
    // Nobody may leave before the last one has come: another rank is late each time.
    for late in 0..4 {
        if world.rank() == late % world.size() {
            std::thread::sleep(Duration::from_micros(200));
        }
        let came = now();
        world.barrier()?;
        let left = now();
        let mut latest = [0; 2];
        world.allreduce(&[came, -left], &mut latest, Max)?;
        let [last_came, first_left] = [latest[0], -latest[1]];
        ensure!(first_left >= last_came, "a rank left a barrier before another one had come");
    }
    drive::operations(plan, 1, || Ok(world.barrier()?))
}

fn allreduce(world: &World, plan: &Plan) -> Result<Samples> {
    let (rank, ranks) = (i64::from(world.rank()), i64::from(world.size()));
    let count = plan.size / 8;
    let (mut mine, mut sums) = (vec![0i64; count], vec![0i64; count]);
    let mut sequence = 0;
    drive::operations(plan, 1, || {
        sequence += 1;
        mine[0] = sequence + rank;
        mine[count - 1] = sequence + rank;
        world.allreduce(&mine, &mut sums, Sum)?;
        let expected = sequence * ranks + ranks * (ranks - 1) / 2;
        ensure!(sums[0] == expected && sums[count - 1] == expected, "an allreduce is wrong");
        Ok(())
    })
}

/// The root changes with each operation: with one root, which waits for nobody, the others would
/// only show how far it is ahead.
fn bcast(world: &World, plan: &Plan) -> Result<Samples> {
    let mut data = Buffer::new(plan.size);
    let mut sequence = 0;
    drive::operations(plan, 1, || {
        sequence += 1;
        let root = (sequence % world.size() as u64) as i32;
        if world.rank() == root {
            payload::stamp(data.bytes_mut(), sequence);
        }
        world.bcast(data.bytes_mut(), root)?;
        ensure!(payload::is_stamped(data.bytes(), sequence), "a broadcast is wrong");
        Ok(())
    })
}

/// The root changes with each operation, as in [`bcast`].
fn reduce(world: &World, plan: &Plan) -> Result<Samples> {
    let (rank, ranks) = (i64::from(world.rank()), i64::from(world.size()));
    let count = plan.size / 8;
    let (mut mine, mut sums) = (vec![0i64; count], vec![0i64; count]);
    let mut sequence = 0;
    drive::operations(plan, 1, || {
        sequence += 1;
        let root = (sequence % ranks) as i32;
        mine[0] = sequence + rank;
        mine[count - 1] = sequence + rank;
        world.reduce(&mine, &mut sums, Sum, root)?;
        let expected = sequence * ranks + ranks * (ranks - 1) / 2;
        let right = sums[0] == expected && sums[count - 1] == expected;
        ensure!(right || world.rank() != root, "a reduction is wrong");
        Ok(())
    })
}

/// Blocks carry the operation's number and the rank that they come from.
fn allgather(world: &World, plan: &Plan) -> Result<Samples> {
    let (rank, ranks) = (world.rank() as u64, world.size() as usize);
    let size = plan.size;
    let mut out = Buffer::new(size);
    let mut into = Buffer::new(size * ranks);
    let mark = |sequence: u64, from: u64| (sequence << 16) ^ from;
    let mut sequence = 0;
    drive::operations(plan, 1, || {
        sequence += 1;
        payload::stamp(out.bytes_mut(), mark(sequence, rank));
        world.allgather(out.bytes(), into.bytes_mut())?;
        let mut blocks = into.bytes().chunks_exact(size.max(1)).zip(0..);
        let whole = blocks.all(|(block, from)| payload::is_stamped(block, mark(sequence, from)));
        ensure!(whole, "an allgather is wrong");
        Ok(())
    })
}

/// Blocks carry the operation's number and the ranks that they go between.
fn alltoall(world: &World, plan: &Plan) -> Result<Samples> {
    let (rank, ranks) = (world.rank() as u64, world.size() as usize);
    let size = plan.size;
    let mut out = Buffer::new(size * ranks);
    let mut into = Buffer::new(size * ranks);
    let mark = |sequence: u64, from: u64, to: u64| (sequence << 32) ^ (from << 16) ^ to;
    let mut sequence = 0;
    drive::operations(plan, 1, || {
        sequence += 1;
        for (block, to) in out.bytes_mut().chunks_exact_mut(size.max(1)).zip(0..) {
            payload::stamp(block, mark(sequence, rank, to));
        }
        world.alltoall(out.bytes(), into.bytes_mut())?;
        let mut blocks = into.bytes().chunks_exact(size.max(1)).zip(0..);
        let whole =
            blocks.all(|(block, from)| payload::is_stamped(block, mark(sequence, from, rank)));
        ensure!(whole, "an alltoall is wrong");
        Ok(())
    })
}
