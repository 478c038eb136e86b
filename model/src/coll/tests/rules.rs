//! Plans that break a rule are refused, each for its own reason.

use std::convert::Infallible;

use crate::coll::blocks::{Blocks, Even};
use crate::coll::plan::{Place, Plan, Space, Span};
use crate::coll::record::PlanRecorder;
use crate::coll::verify::{
    Alike, Combined, ContributionTable, Elements, MemoryPiece, PlanFlaw, Spaces, SymbolicMemory,
    Symmetry, follow, moving, record,
};

/// What is wrong with two ranks' plans of two tracks each.
fn flaw_of(
    plan: impl Fn(&mut PlanRecorder<Infallible>, u32) -> Result<(), Infallible>,
) -> PlanFlaw {
    let steps = record(2, |recorder, place| plan(recorder, place.rank)).unwrap();
    let memory =
        || SymbolicMemory::of(&[MemoryPiece { len: 16, element: 0, combined: Combined::DATA }]);
    let spaces =
        |_, _: &mut ContributionTable| Spaces { input: memory(), output: memory(), scratch: 0 };
    follow(steps, spaces).expect_err("there is a flaw")
}

#[test]
fn tracks_that_meet_before_they_are_joined_are_refused() {
    let (front, back) = (Span::output(8), Span::new(Space::Output, 8, 8));
    let two = |first: Span, second: Span, phase: u8, joined: bool| {
        move |plan: &mut PlanRecorder<Infallible>, rank: u32| {
            for (track, phase, span) in [(1, 0, first), (2, phase, second)] {
                plan.track(track)?;
                plan.phase(phase);
                if rank == 0 {
                    plan.send(1, Span::input(8))?;
                } else {
                    plan.recv(0, span)?;
                }
                plan.wait()?;
                if joined {
                    plan.join()?;
                }
            }
            plan.join()
        }
    };
    let last = front.part(4, 4);
    assert_eq!(flaw_of(two(front, last, 1, false)), PlanFlaw::Shared(1, last));
    assert_eq!(flaw_of(two(front, front, 1, false)), PlanFlaw::Shared(1, front));
    assert_eq!(flaw_of(two(front, back, 0, false)), PlanFlaw::SharedPhase(1, 0));
    // With a join between them, one comes after the other.
    let steps = record(2, |plan, place| two(front, front, 0, true)(plan, place.rank)).unwrap();
    let memory =
        || SymbolicMemory::of(&[MemoryPiece { len: 16, element: 0, combined: Combined::DATA }]);
    let spaces =
        |_, _: &mut ContributionTable| Spaces { input: memory(), output: memory(), scratch: 0 };
    assert!(follow(steps, spaces).is_ok());
}

/// Tracks that only come to an end in another order than the one in which they were stated are no way for a rank that
/// is in a blocking call.
#[test]
fn tracks_have_to_end_in_the_order_in_which_they_are_stated() {
    let flaw = flaw_of(|plan, rank| {
        for track in [1, 2] {
            plan.track(track)?;
            // Each rank begins with another message.
            let phase = if rank == 0 { track } else { 3 - track };
            plan.phase(phase);
            let span = Span::new(Space::Output, 8 * usize::from(phase - 1), 8);
            if (rank == 0) == (phase == 1) {
                plan.send(1 - rank, Span::input(8))?;
            } else {
                plan.recv(1 - rank, span)?;
            }
            plan.wait()?;
        }
        plan.join()
    });
    assert_eq!(flaw, PlanFlaw::Deadlock { ranks: 2, first: 0 });
}

/// Follows plans of two ranks that swap their vectors of 4 bytes, which `change` makes wrong for rank 0.
fn two_ranks(
    change: impl Fn(&mut PlanRecorder<Infallible>) -> Result<(), Infallible>,
) -> Result<(), PlanFlaw> {
    let steps = record(2, |plan, place: Place| {
        if place.rank == 0 {
            return change(plan);
        }
        plan.recv(0, Span::output(4))?;
        plan.send(0, Span::input(4))?;
        plan.wait()
    })?;
    let outcome = follow(steps, |rank, contributions| Spaces {
        input: SymbolicMemory::of(&[MemoryPiece {
            len: 4,
            element: 0,
            combined: contributions.of(rank),
        }]),
        output: SymbolicMemory::new(4),
        scratch: 8,
    });
    outcome.map(drop)
}

#[test]
fn what_breaks_a_rule_is_found() {
    let (input, output, scratch) = (Span::input(4), Span::output(4), Span::scratch(0, 4));
    let swap = |plan: &mut PlanRecorder<Infallible>, into| {
        plan.send(1, input)?;
        plan.recv(1, into)?;
        plan.wait()
    };
    assert_eq!(two_ranks(|plan| swap(plan, output)), Ok(()));
    assert_eq!(two_ranks(|plan| swap(plan, input)), Err(PlanFlaw::InputWritten(0, input)));
    let outside = Span::scratch(5, 4);
    assert_eq!(two_ranks(|plan| swap(plan, outside)), Err(PlanFlaw::Outside(0, outside)));
    let short = Span::output(3);
    let lengths = PlanFlaw::Lengths { from: 1, to: 0, sent: 4, received: 3 };
    assert_eq!(two_ranks(|plan| swap(plan, short)), Err(lengths));
    assert_eq!(two_ranks(|plan| plan.wait()), Err(PlanFlaw::Deadlock { ranks: 1, first: 1 }));
    let silent = two_ranks(|plan| {
        plan.send(1, input)?;
        plan.recv(1, output)
    });
    assert_eq!(silent, Err(PlanFlaw::NotAwaited(0)));
    let unmatched = two_ranks(|plan| {
        swap(plan, output)?;
        plan.send(1, input)
    });
    assert_eq!(unmatched, Err(PlanFlaw::NotAwaited(0)));
    let touched = two_ranks(|plan| {
        plan.recv(1, output)?;
        plan.copy(output, scratch);
        plan.wait()
    });
    assert_eq!(touched, Err(PlanFlaw::InUse(0, output)));
    let overwritten = two_ranks(|plan| {
        plan.copy(input, scratch);
        plan.recv(1, output)?;
        plan.send(1, Span::scratch(0, 4))?;
        plan.copy(input, Span::scratch(2, 4));
        plan.wait()
    });
    assert_eq!(overwritten, Err(PlanFlaw::InUse(0, Span::scratch(2, 4))));
    let empty = two_ranks(|plan| {
        plan.copy(output, scratch);
        plan.wait()
    });
    assert_eq!(empty, Err(PlanFlaw::Unwritten(0, output)));
    let mixed = two_ranks(|plan| {
        plan.copy(input.part(1, 3), scratch.part(0, 3));
        plan.reduce(input.part(0, 3), scratch.part(0, 3));
        plan.wait()
    });
    assert_eq!(mixed, Err(PlanFlaw::Mixed(0, input.part(0, 3), scratch.part(0, 3))));
    let overlap = two_ranks(|plan| {
        plan.copy(output.part(0, 3), output.part(1, 3));
        plan.wait()
    });
    assert_eq!(overlap, Err(PlanFlaw::Overlap(0, output.part(0, 3), output.part(1, 3))));
    for peer in [0, 2] {
        assert_eq!(two_ranks(|plan| plan.send(peer, input)), Err(PlanFlaw::NoPeer(0, peer)));
    }
}

/// Follows four ranks that have the same plans under other numbers, with a block of 2 bytes for each in the output.
fn four_alike(
    symmetry: Symmetry,
    plan: impl Fn(&mut PlanRecorder<Infallible>, Place) -> Result<(), Infallible>,
) -> Result<(), PlanFlaw> {
    let moving = moving(&[Space::Output]);
    let alike = Alike { size: 4, symmetry, block: 2, moving, elements: Elements::Blocks };
    let data = MemoryPiece { len: 2, element: 0, combined: Combined::DATA };
    let spaces = |_: &mut ContributionTable| Spaces {
        input: SymbolicMemory::of(&[data]),
        output: SymbolicMemory::new(8),
        scratch: 2,
    };
    let outcome = alike.follow(plan, 0..4, spaces)?;
    // Rank 0 has the block of the rank before it.
    let has = outcome.outputs[0].read(6, 2);
    assert_eq!(has, Some(vec![MemoryPiece { element: 6, ..data }]));
    Ok(())
}

#[test]
fn ranks_that_differ_do_not_stand_for_each_other() {
    let block = |rank| Even { space: Space::Output, len: 2 }.span(rank);
    let shift = |odd: u32, into: fn(Place) -> u32| {
        move |plan: &mut PlanRecorder<Infallible>, place: Place| {
            plan.recv(place.left(1), block(into(place)))?;
            let distance = if place.rank == odd { 2 } else { 1 };
            plan.send(place.right(distance), Span::input(2))?;
            plan.wait()
        }
    };
    let left = |place: Place| place.left(1);
    // Nobody has the number 9.
    assert_eq!(four_alike(Symmetry::Rotation, shift(9, left)), Ok(()));
    assert_eq!(four_alike(Symmetry::Exchange, shift(9, left)), Err(PlanFlaw::NotAlike(1)));
    for odd in 0..4 {
        let flaw = four_alike(Symmetry::Rotation, shift(odd, left));
        // Where it is rank 0, the others are the ones that differ.
        assert_eq!(flaw, Err(PlanFlaw::NotAlike(odd.max(1))));
    }
    // Always the same block, which is another one for each rank.
    let fixed = four_alike(Symmetry::Rotation, shift(9, |_| 3));
    assert_eq!(fixed, Err(PlanFlaw::NotAlike(1)));
}

#[test]
fn one_rank_that_stands_for_all_keeps_the_rules() {
    let own = |place: Place| Even { space: Space::Output, len: 2 }.span(place.rank);
    let four = |plan: fn(&mut PlanRecorder<Infallible>, Place, Span) -> Result<(), Infallible>| {
        four_alike(Symmetry::Rotation, move |recorder, place| plan(recorder, place, own(place)))
    };
    let deadlock = Err(PlanFlaw::Deadlock { ranks: 4, first: 0 });
    let unsent = four(|plan, place, own| {
        plan.recv(place.left(1), own)?;
        plan.wait()
    });
    assert_eq!(unsent, deadlock);
    let unreceived = four(|plan, place, _| {
        plan.send(place.right(1), Span::input(2))?;
        plan.wait()
    });
    assert_eq!(unreceived, deadlock);
    // All ranks send in one stage and receive in the next, which only buffers would allow.
    let later = four(|plan, place, own| {
        plan.send(place.right(1), Span::input(2))?;
        plan.wait()?;
        plan.recv(place.left(1), own)?;
        plan.wait()
    });
    assert_eq!(later, deadlock);
    let wrong_algorithm = four(|plan, place, own| {
        plan.send(place.right(1), Span::input(2))?;
        plan.recv(place.right(1), own)?;
        plan.wait()
    });
    assert_eq!(wrong_algorithm, deadlock);
    let phases = four(|plan, place, own| {
        plan.send(place.right(1), Span::input(2))?;
        plan.phase(1);
        plan.recv(place.left(1), own)?;
        plan.wait()
    });
    assert_eq!(phases, deadlock);
    let short = four(|plan, place, own| {
        plan.send(place.right(1), Span::input(2))?;
        plan.recv(place.left(1), own.part(0, 1))?;
        plan.wait()
    });
    assert_eq!(short, Err(PlanFlaw::Lengths { from: 3, to: 0, sent: 2, received: 1 }));
    let touched = four(|plan, place, own| {
        plan.send(place.right(1), Span::input(2))?;
        plan.recv(place.left(1), own)?;
        plan.copy(own, Span::scratch(0, 2));
        plan.wait()
    });
    assert!(matches!(touched, Err(PlanFlaw::InUse(0, _))), "{touched:?}");
    let silent = four(|plan, place, own| {
        plan.send(place.right(1), Span::input(2))?;
        plan.recv(place.left(1), own)
    });
    assert_eq!(silent, Err(PlanFlaw::NotAwaited(0)));
    let outside = four(|plan, place, _| {
        plan.send(place.right(1), Span::input(2))?;
        plan.recv(place.left(1), Span::new(Space::Output, 8, 2))?;
        plan.wait()
    });
    assert_eq!(outside, Err(PlanFlaw::NotAlike(0)));
}
