//! Programs of known algorithms.

use super::program::{Act, Program, TaskId};
use super::source::StepSource;
use crate::coll::plan::TRACKS;
use crate::coll::record::Step;
use crate::schedule::Schedule;
use crate::stages::Stage;

/// Two processes send each other `bytes`, `rounds` times there and back.
pub fn ping_pong(rounds: u32, bytes: usize) -> Program {
    let mut program = Program::new(2);
    let mut last = program.add(0, Act::Start, &[]);
    program.add(1, Act::Start, &[]);
    for _ in 0..rounds {
        for process in [0, 1] {
            let put = program.add(process, Act::Put { to: 1 - process, bytes }, &[last]);
            last = program.add(1 - process, Act::Proxy, &[put]);
        }
    }
    program
}

/// Process 0 sends `bytes` to each of `width` others.
pub fn multicast(width: u32, bytes: usize) -> Program {
    let mut program = Program::new(width + 1);
    let mut last = program.add(0, Act::Start, &[]);
    for to in 1..=width {
        last = program.add(0, Act::Put { to, bytes }, &[last]);
        program.add(to, Act::Proxy, &[last]);
    }
    program
}

/// How often a process computes in a stage in which it combines values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the two readings of the published programs")]
pub enum Computes {
    /// Once, when all values are there: what the published figure of a program shows.
    Once,
    /// Once for each value that arrives, in the order in which they arrive.
    EachValue,
}

/// An allreduce of `bytes` by a schedule. In each stage a process sends what it has, and computes once when all
/// that it combines is there. An element is a byte.
pub fn allreduce(schedule: &Schedule, bytes: usize) -> Program {
    allreduce_after(schedule, bytes, |_| 0.0)
}

/// The same where a process computes as `computes` says.
pub fn allreduce_with(schedule: &Schedule, bytes: usize, computes: Computes) -> Program {
    stages_with(&of_all(schedule), bytes, |_| 0.0, computes)
}

/// The same when each process begins `delay` nanoseconds late.
pub fn allreduce_after(schedule: &Schedule, bytes: usize, delay: impl Fn(u32) -> f64) -> Program {
    stages(&of_all(schedule), bytes, delay)
}

fn of_all(schedule: &Schedule) -> Vec<Vec<Stage>> {
    (0..schedule.ranks()).map(|rank| schedule.stages(rank)).collect()
}

/// The stages of ranks, whose values have `bytes`, when each begins `delay` nanoseconds late.
pub fn stages(stages: &[Vec<Stage>], bytes: usize, delay: impl Fn(u32) -> f64) -> Program {
    stages_with(stages, bytes, delay, Computes::Once)
}

fn stages_with(
    stages: &[Vec<Stage>],
    bytes: usize,
    delay: impl Fn(u32) -> f64,
    computes: Computes,
) -> Program {
    let ranks = stages.len() as u32;
    let mut program = Program::new(ranks);
    // What each process did last, and what it must have done before it sends its value.
    let mut last: Vec<TaskId> = (0..ranks)
        .map(|rank| {
            let start = program.add(rank, Act::Start, &[]);
            match delay(rank) {
                late if late > 0.0 => program.add(rank, Act::Sleep(late), &[start]),
                _ => start,
            }
        })
        .collect();
    for stage in 0..stages.first().map_or(0, Vec::len) {
        let mut arrivals: Vec<Vec<TaskId>> = vec![Vec::new(); stages.len()];
        for (rank, stages) in stages.iter().enumerate() {
            for piece in &stages[stage].sends {
                let (to, bytes) = (piece.rank, piece.part.elements(bytes).len());
                let put = program.add(rank as u32, Act::Put { to, bytes }, &[last[rank]]);
                arrivals[to as usize].push(put);
                last[rank] = put;
            }
        }
        for (rank, mut before) in arrivals.into_iter().enumerate() {
            if before.is_empty() {
                continue;
            }
            let combines = !stages[rank][stage].combines.is_empty();
            let part = stages[rank][stage].part.elements(bytes).len();
            let (process, sent) = (rank as u32, last[rank]);
            if combines && computes == Computes::EachValue {
                for arrival in &mut before {
                    *arrival = program.add(process, Act::Compute(part), &[*arrival, sent]);
                }
            }
            before.push(sent);
            let once = combines && computes == Computes::Once;
            let act = if once { Act::Compute(part) } else { Act::Proxy };
            last[rank] = program.add(process, act, &before);
        }
    }
    program
}

/// The steps of ranks as a graph: what [`run_steps`](super::machine::Machine::run_steps) runs without one.
pub fn steps(source: &(impl StepSource + ?Sized)) -> Program {
    let mut program = Program::new(source.ranks());
    for rank in 0..source.ranks() {
        let start = program.add(rank, Act::Start, &[]);
        rank_steps(&mut program, (rank, start), source, rank, &mut |peer, phase| {
            (peer, phase.into())
        });
    }
    program
}

/// Adds the steps of a rank behind a task of a process; the last task. `name` says which process a rank is, and which tag
/// a phase has.
pub(super) fn rank_steps(
    program: &mut Program,
    (process, start): (u32, TaskId),
    source: &(impl StepSource + ?Sized),
    rank: u32,
    name: &mut dyn FnMut(u32, u8) -> (u32, u32),
) -> TaskId {
    // The last task of each track, and what its wait will take.
    let mut tracks = [(); TRACKS as usize].map(|()| (start, Vec::new()));
    let mut track = 0_u8;
    source.steps(rank, 0, &mut |step| {
        match step {
            Step::Track(other) => track = other,
            Step::Join => {
                for (last, started) in &mut tracks {
                    started.drain(..).for_each(|act| *last = program.add(process, act, &[*last]));
                }
                let mut lasts = tracks.each_ref().map(|(last, _)| *last).to_vec();
                lasts.sort_unstable();
                lasts.dedup();
                // Something of no length that comes after all of them.
                let joined = program.add(process, Act::Compute(0), &lasts);
                tracks.iter_mut().for_each(|(last, _)| *last = joined);
                track = 0;
            }
            _ => {}
        }
        let (last, started) = &mut tracks[usize::from(track)];
        let mut then = |act| *last = program.add(process, act, &[*last]);
        match step {
            Step::Send { to, from, phase } => {
                let (to, tag) = name(to, phase);
                then(Act::Send { to, bytes: from.len, tag });
            }
            Step::Recv { from, phase, .. } => {
                let (from, tag) = name(from, phase);
                started.push(Act::Recv { from, tag });
            }
            Step::Wait => started.drain(..).for_each(then),
            Step::Copy { from, into } if from != into && from.len > 0 => {
                then(Act::Copy(from.len));
            }
            Step::Reduce { left, .. } if left.len > 0 => then(Act::Compute(left.len)),
            Step::Copy { .. } | Step::Reduce { .. } | Step::Track(_) | Step::Join => {}
        }
        true
    });
    tracks[0].0
}
