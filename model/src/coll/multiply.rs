//! Allreduce by recursive multiplying: the [stages](crate::stages) of a rank, on vectors.
//!
//! A stage is done in three steps. All messages are started at once, so that they overlap. When all values are
//! there, they are combined in the order that the schedule gives, and not in that of their arrival, so that all
//! ranks of a group get the same bits. The new value is where the last operand was, since an operation writes over
//! its right operand; nothing is copied between stages.
//!
//! A value stands in the input, in the output or in the first vector of scratch, a part of it where that part of the
//! vector is. What is the last operand arrives in one of these that is free; the others lie packed behind them. Parts
//! without elements are not sent.

use super::plan::{Plan, Space, Span, Vectors};
use crate::stages::{Operand, Part, Stage};

/// Bytes of scratch that the stages of a rank need for vectors of `len` bytes in elements of `width`.
pub fn scratch(stages: &[Stage], len: usize, width: usize) -> usize {
    let packed = |stage: &Stage| {
        let values =
            stage.combines.iter().rev().skip(1).filter(|operand| **operand != Operand::Own);
        values.count() * bytes(stage.part, len, width).1
    };
    match stages.iter().map(packed).max() {
        Some(packed) => len + packed,
        None => 0,
    }
}

/// Where a part of a vector is, and its length.
fn bytes(part: Part, len: usize, width: usize) -> (usize, usize) {
    if part == Part::WHOLE || width == 0 {
        return (0, len);
    }
    let elements = part.elements(len / width);
    (elements.start * width, elements.len() * width)
}

/// Brings the reduction of all inputs to everybody's output, in stages that are those of this rank.
///
/// # Errors
/// Those of the plan.
pub fn run<P: Plan>(plan: &mut P, stages: &[Stage], vectors: Vectors) -> Result<(), P::Error> {
    let mut value = Value { whole: vectors.input, newer: None, vectors };
    for stage in stages {
        value.stage(plan, stage)?;
    }
    plan.copy(value.whole, vectors.output);
    Ok(())
}

/// The value of a rank.
struct Value {
    /// The vector that it stands in.
    whole: Span,
    /// A part that has been combined already, while others have not.
    newer: Option<(Part, Span)>,
    vectors: Vectors,
}

impl Value {
    /// A part of a vector.
    fn part(&self, vector: Span, part: Part) -> Span {
        let (at, len) = bytes(part, self.vectors.len(), self.vectors.width);
        vector.part(at, len)
    }

    /// Where a part of the value stands.
    fn find(&self, part: Part) -> Span {
        match self.newer {
            Some((newer, vector)) if newer == part => self.part(vector, part),
            _ => self.part(self.whole, part),
        }
    }

    /// A vector that may be written.
    fn free(&self) -> Span {
        let Vectors { output, .. } = self.vectors;
        if self.whole == output { self.vectors.place(0) } else { output }
    }

    fn stage<P: Plan>(&mut self, plan: &mut P, stage: &Stage) -> Result<(), P::Error> {
        let target = self.part(self.free(), stage.part);
        let mut packed = self.vectors.scratch + self.vectors.len();
        let last = stage.combines.len().saturating_sub(1);
        for (index, operand) in stage.combines.iter().enumerate() {
            if let Operand::Of(from) = *operand
                && target.len > 0
            {
                let into = if index == last { target } else { Span::scratch(packed, target.len) };
                packed += if index == last { 0 } else { target.len };
                plan.recv(from, into)?;
            }
        }
        for piece in &stage.takes {
            let into = self.part(self.vectors.output, piece.part);
            if into.len > 0 {
                plan.recv(piece.rank, into)?;
            }
        }
        for piece in &stage.sends {
            let from = self.find(piece.part);
            if from.len > 0 {
                plan.send(piece.rank, from)?;
            }
        }
        plan.wait()?;
        self.combine(plan, stage, target, packed);
        if let Some(given) = stage.sends.first().filter(|_| !stage.takes.is_empty()) {
            // What this rank has joins what it has taken.
            let own = self.find(given.part);
            plan.copy(own, self.part(self.vectors.output, given.part));
            (self.whole, self.newer) = (self.vectors.output, None);
        }
        Ok(())
    }

    /// Combines what a stage has received with the value. Received values end at `packed`, but for the last operand.
    fn combine<P: Plan>(&mut self, plan: &mut P, stage: &Stage, target: Span, mut packed: usize) {
        let Some((last, others)) = stage.combines.split_last() else { return };
        let own = self.find(stage.part);
        let vector = match last {
            Operand::Of(_) => self.free(),
            Operand::Own if self.whole.space == Space::Input => {
                // The user's input is never written. Its output is free until the end.
                plan.copy(own, target);
                self.free()
            }
            Operand::Own => self.whole,
        };
        let result = self.part(vector, stage.part);
        for operand in others.iter().rev().filter(|_| result.len > 0) {
            let left = match operand {
                Operand::Own => own,
                Operand::Of(_) => {
                    packed -= result.len;
                    Span::scratch(packed, result.len)
                }
            };
            plan.reduce(left, result);
        }
        if stage.keeps == stage.part {
            (self.whole, self.newer) = (vector, None);
        } else {
            self.newer = Some((stage.part, vector));
        }
    }
}
