//! Runs a case and judges it.
//!
//! Without trouble every rank must reach the end, and every check before it hold. With it, a rank
//! may end with an error, which must be about a failed process; it then dies, as a program would
//! that cannot go on, so that others who wait for it learn of it. What must never be: a rank that
//! waits for ever, a wrong result before the end, an error of another kind, or a rank that passes
//! the last barrier although somebody died before it.

use std::fmt::Write as _;
use std::sync::Mutex;

use bowline::mpi::{ErrorClass, MpiError};
use bowline::simulate::{self, End};

use crate::case::{Case, Trouble};
use crate::program;

/// What came of a case.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    /// Or why it is not legal.
    pub(crate) outcome: Result<(), String>,
    pub(crate) trace_hash: u64,
    /// Where each rank ended.
    pub(crate) story: String,
}

/// Where a rank stands.
#[derive(Clone, Debug, Default)]
struct Progress {
    steps: usize,
    error: Option<MpiError>,
}

/// Runs a case, and keeps the last `log` entries of its trace.
pub(crate) fn run(case: &Case, log: usize) -> Verdict {
    let ranks = case.job.ranks as usize;
    let progress = Mutex::new(vec![Progress::default(); ranks]);
    let mut job = case.job.clone();
    job.network.log = log;
    let report = simulate::run(&job, |world| {
        let me = world.rank() as usize;
        let note = |change: &dyn Fn(&mut Progress)| {
            change(&mut progress.lock().expect("nobody panics with it")[me]);
        };
        let reached = |steps| note(&|progress| progress.steps = steps);
        if program::run(case, &world, &reached).is_err() {
            let error = program::first_error();
            note(&|progress| progress.error = error);
        }
    });
    let report = report.expect("ranks can start");
    let progress = progress.into_inner().expect("nobody panics with it");
    let total = case.plan.steps.len();
    let mut story = String::new();
    for line in &report.log {
        let _ = writeln!(story, "{line}");
    }
    for (rank, (end, progress)) in report.ends.iter().zip(&progress).enumerate() {
        let Progress { steps, error } = progress;
        let _ = writeln!(story, "rank {rank}: {end:?} after {steps} of {total} steps, {error:?}");
    }
    let _ = writeln!(story, "{} ns, {:?}", report.now_ns, report.counters);
    let judged = judge(case, &report, &progress, total);
    let outcome = judged.map_err(|why| format!("{why}\n{story}"));
    Verdict { outcome, trace_hash: report.trace_hash, story }
}

fn judge(
    case: &Case,
    report: &simulate::Report<()>,
    progress: &[Progress],
    total: usize,
) -> Result<(), String> {
    if let Some(stuck) = &report.stuck {
        return Err(stuck.to_string());
    }
    // The last step is a barrier of all. Somebody may have entered it, helped the others through,
    // and died before it could leave.
    let all_entered_the_last = progress.iter().all(|progress| progress.steps + 1 >= total);
    for (rank, (end, progress)) in report.ends.iter().zip(progress).enumerate() {
        if let End::Panicked(text) = end {
            return Err(format!("rank {rank} panicked: {text}"));
        }
        if let Some(error) = progress.error {
            if case.trouble == Trouble::None {
                return Err(format!("rank {rank} got an error where nothing fails: {error}"));
            }
            // The same class at every member, whatever the member was in.
            if error.class() != ErrorClass::ProcFailed {
                return Err(format!("rank {rank} got an error of another kind: {error}"));
            }
        }
        if *end == End::Returned(()) && !all_entered_the_last {
            return Err(format!("rank {rank} passed a barrier that others never reached"));
        }
    }
    Ok(())
}
