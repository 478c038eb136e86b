//! Swaps and exchanges of few ranks: what is compared, and each flaw that is found.

use super::super::contributions::Combined;
use super::*;
use crate::coll::plan::Plan;

const LEN: usize = 4;

/// Two of many ranks swap their vectors by a plan that `wrong` changes at rank 1.
fn swap(
    wrong: impl Fn(&mut PlanRecorder<Infallible>) -> Result<(), Infallible>,
    chosen: &[u32],
) -> Result<Sampled, PlanFlaw> {
    let piece = |rank: u32| MemoryPiece {
        len: LEN,
        element: u64::from(rank) * 100,
        combined: Combined::DATA,
    };
    Sample { size: 1000, chosen }.follow(
        |plan, place| {
            if place.rank == 1 {
                return wrong(plan);
            }
            let peer = place.rank ^ 1;
            plan.recv(peer, Span::output(LEN))?;
            plan.send(peer, Span::input(LEN))?;
            plan.wait()
        },
        |rank, _| Spaces {
            input: SymbolicMemory::of(&[piece(rank)]),
            output: SymbolicMemory::new(LEN),
            scratch: LEN,
        },
        |arrival, _| vec![MemoryPiece { len: arrival.into.len, ..piece(arrival.from) }],
    )
}

fn right(plan: &mut PlanRecorder<Infallible>) -> Result<(), Infallible> {
    plan.send(0, Span::input(LEN))?;
    plan.recv(0, Span::output(LEN))?;
    plan.wait()
}

#[test]
fn pairs_are_compared_where_both_are_chosen() {
    assert_eq!(swap(right, &[0, 1]).unwrap().compared, 2);
    assert_eq!(swap(right, &[0, 2]).unwrap().compared, 0);
    let outcome = swap(right, &[1, 700, 701]).unwrap();
    assert_eq!(outcome.compared, 2);
    let first = outcome.outputs[0].read(0, LEN).unwrap();
    assert_eq!(first, [MemoryPiece { len: LEN, element: 0, combined: Combined::DATA }]);
}

#[test]
fn what_differs_is_found() {
    let late = swap(
        |plan| {
            plan.recv(0, Span::output(LEN))?;
            plan.wait()?;
            plan.send(0, Span::input(LEN))?;
            plan.wait()
        },
        &[0, 1],
    );
    assert_eq!(late.unwrap_err(), PlanFlaw::Deadlock { ranks: 1, first: 0 });
    let short = swap(
        |plan| {
            plan.recv(0, Span::output(LEN))?;
            plan.send(0, Span::input(LEN - 1))?;
            plan.wait()
        },
        &[0, 1],
    );
    let lengths = PlanFlaw::Lengths { from: 1, to: 0, sent: LEN - 1, received: LEN };
    assert_eq!(short.unwrap_err(), lengths);
    let other = swap(
        |plan| {
            plan.recv(0, Span::output(LEN))?;
            plan.wait()?;
            plan.recv(0, Span::scratch(0, LEN))?;
            plan.wait()
        },
        &[0, 1],
    );
    assert_eq!(other.unwrap_err(), PlanFlaw::Deadlock { ranks: 1, first: 1 });
    let twice = swap(
        |plan| {
            right(plan)?;
            plan.send(0, Span::input(LEN))?;
            plan.wait()
        },
        &[0, 1],
    );
    assert_eq!(twice.unwrap_err(), PlanFlaw::NotAwaited(1));
    let garbage = swap(
        |plan| {
            plan.recv(0, Span::output(LEN))?;
            plan.send(0, Span::scratch(0, LEN))?;
            plan.wait()
        },
        &[0, 1],
    );
    assert_eq!(garbage.unwrap_err(), PlanFlaw::Unwritten(1, Span::scratch(0, LEN)));
    let unasked = swap(|plan| plan.wait(), &[0, 1]);
    assert_eq!(unasked.unwrap_err(), PlanFlaw::Deadlock { ranks: 1, first: 0 });
    let back = swap(
        |plan| {
            plan.recv(0, Span::output(LEN))?;
            plan.wait()?;
            plan.send(2, Span::output(LEN))?;
            plan.wait()?;
            plan.send(0, Span::output(LEN))
        },
        &[1],
    );
    assert_eq!(back.unwrap_err(), PlanFlaw::NotAwaited(1));
}

/// Rank 0 gets a vector from rank 1 and gives it back in the next layer.
fn back_and_forth(
    second: impl Fn(&mut PlanRecorder<Infallible>) -> Result<(), Infallible>,
) -> Result<Sampled, PlanFlaw> {
    let piece = MemoryPiece { len: LEN, element: 0, combined: Combined::DATA };
    Sample { size: 2, chosen: &[0, 1] }.follow(
        |plan, place| {
            if place.rank == 1 {
                return second(plan);
            }
            plan.recv(1, Span::output(LEN))?;
            plan.wait()?;
            plan.phase(PHASES);
            plan.send(1, Span::output(LEN))?;
            plan.wait()
        },
        |_, _| Spaces {
            input: SymbolicMemory::of(&[piece]),
            output: SymbolicMemory::new(LEN),
            scratch: LEN,
        },
        |_, _| vec![piece],
    )
}

#[test]
fn layers_have_times_of_their_own() {
    let together = back_and_forth(|plan| {
        plan.send(0, Span::input(LEN))?;
        plan.phase(PHASES);
        plan.recv(0, Span::output(LEN))?;
        plan.wait()
    });
    assert_eq!(together.unwrap().compared, 2);
    let apart = back_and_forth(|plan| {
        plan.send(0, Span::input(LEN))?;
        plan.wait()?;
        plan.phase(PHASES);
        plan.recv(0, Span::output(LEN))?;
        plan.wait()
    });
    assert_eq!(apart.unwrap().compared, 2);
    let late = back_and_forth(|plan| {
        plan.send(0, Span::input(LEN))?;
        plan.phase(PHASES);
        plan.recv(0, Span::scratch(0, LEN))?;
        plan.wait()?;
        plan.recv(0, Span::output(LEN))?;
        plan.wait()
    });
    assert_eq!(late.unwrap_err(), PlanFlaw::Deadlock { ranks: 1, first: 1 });
}

#[test]
fn what_is_sent_must_be_what_has_to_arrive() {
    let echo = swap(
        |plan| {
            plan.copy(Span::input(LEN), Span::scratch(0, LEN));
            plan.recv(0, Span::output(LEN))?;
            plan.send(0, Span::scratch(0, LEN))?;
            plan.wait()
        },
        &[0, 1],
    );
    assert_eq!(echo.unwrap().compared, 2);
    let sample = Sample { size: 2, chosen: &[0, 1] };
    let all = |element| vec![MemoryPiece { len: LEN, element, combined: Combined::DATA }];
    let wrong = sample.follow(
        |plan, place| {
            plan.recv(place.rank ^ 1, Span::output(LEN))?;
            plan.send(place.rank ^ 1, Span::input(LEN))?;
            plan.wait()
        },
        |_, _| Spaces {
            input: SymbolicMemory::of(&all(0)),
            output: SymbolicMemory::new(LEN),
            ..Spaces::default()
        },
        |arrival, _| all(u64::from(arrival.to)),
    );
    assert_eq!(wrong.unwrap_err(), PlanFlaw::Wrong { rank: 1, at: 0 });
}
