//! What copies and reductions take for each byte on this machine: the library's own loops, on vectors that caches hold.
//!
//! | cost | what is timed |
//! |---|---|
//! | `copy` | a copy |
//! | `reduce` | sums of doubles |
//! | `pairs` | the least of doubles with their places |
//! | `scalar` | sums of `long double`, where there are some, or else of floating-point numbers of 2 bytes |
//! | `function` | a function that is called for each pair of doubles, which may not be inlined |
//!
//! Lengths and operations are interleaved, so that what disturbs the machine for a while disturbs all of them. A job's
//! vectors often come from caches of other processors, which the costs of messages and of staging memory are for.

use std::hint::black_box;
use std::time::Instant;

use bowline::mpi::raw::{Kernel, Predefined};
use bowline::mpi::types::{Basic, TypeClass};
use bowline::mpi::{Located, MinLoc, Operation, Sum, ordered};
use bowline_model::fit::operations::Timed;

/// Bytes of the vectors: two of the longest are in a processor's own caches.
const LENGTHS: [usize; 4] = [4 << 10, 16 << 10, 32 << 10, 64 << 10];
/// Bytes of the calls that are timed together, since one call may be as short as a reading of the clock.
const TOGETHER: usize = 128 << 10;
/// Repetitions, at most.
const MOST: usize = 100;

/// An operation on vectors of bytes.
struct Case {
    cost: &'static str,
    run: Box<dyn FnMut(usize)>,
}

/// Vectors of elements.
fn vectors<T: Clone>(left: T, right: T) -> (Vec<T>, Vec<T>) {
    let count = LENGTHS.into_iter().max().unwrap_or(0) / size_of::<T>();
    (vec![left; count], vec![right; count])
}

/// An operation on elements, of vectors of bytes.
fn of<T: bowline::mpi::Datatype + 'static>(
    cost: &'static str,
    values: (T, T),
    operation: impl Operation<T> + 'static,
) -> Case {
    let (left, mut right) = vectors(values.0, values.1);
    let run = move |bytes: usize| {
        let count = bytes / size_of::<T>();
        operation.combine(black_box(&left[..count]), black_box(&mut right[..count]));
    };
    Case { cost, run: Box::new(run) }
}

/// Sums of the numbers that processors have no vector instructions for, as bits of 0.
fn scalar() -> Option<Case> {
    let of = |class, size| -> Option<(Kernel, usize)> {
        let basic = Basic { class, size, external: size };
        Some((Predefined::Sum.kernel_of(basic)?, size.into()))
    };
    let (kernel, size) = of(TypeClass::LongDouble, 16).or_else(|| of(TypeClass::Float, 2))?;
    // Aligned for any of them.
    let (left, mut right) = vectors(0_u128, 0);
    let run = move |bytes: usize| {
        let (left, right) = (black_box(left.as_ptr()), black_box(right.as_mut_ptr()));
        // SAFETY: both vectors have the longest length in bytes, of which `bytes` is one; all bits are values of such
        // numbers; nobody else has the vectors.
        unsafe { kernel(left.cast(), right.cast(), bytes / size) };
    };
    Some(Case { cost: "scalar", run: Box::new(run) })
}

fn cases() -> Vec<Case> {
    let (from, mut into) = vectors(1_u8, 2);
    let copy = move |bytes: usize| {
        black_box(&mut into[..bytes]).copy_from_slice(black_box(&from[..bytes]));
    };
    let pair = |value, location| Located { value, location };
    // Not inlined, as the program's own may not be.
    let add: fn(f64, f64) -> f64 = black_box(|left, right| left + right);
    let mut all = vec![
        Case { cost: "copy", run: Box::new(copy) },
        of("reduce", (1.0_f64, 2.0), Sum),
        of("pairs", (pair(1.0_f64, 1_i64), pair(1.0, 2)), MinLoc),
        of("function", (1.0_f64, 2.0), ordered(add)),
    ];
    all.extend(scalar());
    all
}

/// Times each operation at each length so many times, and 100 times at most.
pub(super) fn measure(repetitions: usize) -> Vec<Timed> {
    let mut cases = cases();
    let timed = |case: &Case| {
        LENGTHS.map(|bytes| Timed {
            cost: case.cost.into(),
            bytes: bytes as u64,
            times: Vec::new(),
        })
    };
    let mut all: Vec<_> = cases.iter().map(timed).collect();
    for repetition in 0..=repetitions.min(MOST) {
        for (case, timed) in cases.iter_mut().zip(&mut all) {
            for (bytes, timed) in LENGTHS.into_iter().zip(timed) {
                // Others had the caches meanwhile.
                (case.run)(bytes);
                let calls = TOGETHER / bytes;
                let start = Instant::now();
                (0..calls).for_each(|_| (case.run)(bytes));
                let time = start.elapsed().as_nanos() as f64 / calls as f64;
                if repetition > 0 {
                    timed.times.push(time);
                }
            }
        }
    }
    all.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_model::coll::price::Costs;

    #[test]
    fn every_operation_has_times_of_each_length() {
        let all = measure(2);
        for cost in Costs::OPERATIONS {
            let of: Vec<_> = all.iter().filter(|timed| timed.cost == cost).collect();
            assert_eq!(of.len(), LENGTHS.len(), "{cost}");
            assert!(of.iter().all(|timed| timed.times.len() == 2), "{of:?}");
        }
    }
}
