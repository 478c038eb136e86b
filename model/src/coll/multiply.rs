//! Allreduce by recursive multiplying: the [stages](crate::stages) of a rank, on vectors.
//!
//! A stage is done in three steps. All messages are started at once, so that they overlap. When all values are
//! there, they are combined in the order that the schedule gives, and not in that of their arrival, so that all
//! ranks of a group get the same bits. The new value is where the last operand was, since an operation writes over
//! its right operand; nothing is copied between stages.

use super::plan::{Plan, Space, Span, Vectors};
use crate::stages::{Operand, Stage};

/// Vectors of scratch that the stages of a rank need: for the most values that it receives in one of them, and for
/// its own.
pub fn places(stages: &[Stage]) -> usize {
    stages.iter().map(|stage| stage.receives().count()).max().map_or(0, |most| most + 1)
}

/// Brings the reduction of all inputs to everybody's output, in stages that are those of this rank.
///
/// # Errors
/// Those of the plan.
pub fn run<P: Plan>(plan: &mut P, stages: &[Stage], vectors: Vectors) -> Result<(), P::Error> {
    let mut value = vectors.input;
    for stage in stages {
        for (from, place) in stage.receives().zip(free(vectors, value)) {
            plan.recv(from, place)?;
        }
        for &to in &stage.sends {
            plan.send(to, value)?;
        }
        plan.wait()?;
        value = combine(plan, stage, value, vectors);
    }
    plan.copy(value, vectors.output);
    Ok(())
}

/// The places in scratch at which a value does not stand.
fn free(vectors: Vectors, value: Span) -> impl Iterator<Item = Span> {
    // A value of no bytes stands everywhere and nowhere.
    (0..)
        .map(move |index| vectors.place(index))
        .filter(move |place| *place != value || place.len == 0)
}

/// Combines what a stage has received with the value. Where the result is.
fn combine<P: Plan>(plan: &mut P, stage: &Stage, value: Span, vectors: Vectors) -> Span {
    let received = stage.combines.iter().filter(|operand| **operand != Operand::Own).count();
    // Receives have taken the free places in the order of the operands, so the last one comes first here.
    let mut arrived = received;
    let mut result = None;
    for operand in stage.combines.iter().rev() {
        let left = match operand {
            Operand::Own => value,
            Operand::Of(_) => {
                arrived -= 1;
                free(vectors, value).nth(arrived).expect("places have no end")
            }
        };
        match result {
            Some(right) => plan.reduce(left, right),
            None if left.space == Space::Input => {
                // The user's input is never written. Its output is free until the end.
                plan.copy(left, vectors.output);
                result = Some(vectors.output);
            }
            None => result = Some(left),
        }
    }
    result.unwrap_or(value)
}
