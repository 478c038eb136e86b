//! Steps that are run directly against the same steps as a graph of tasks, and against what goes wrong.

use bowline_model::coll::forms::{Allgather, Allreduce, Alltoall, Barrier, Bcast};
use bowline_model::coll::plan::{Place, Plan, Span, Vectors};
use bowline_model::coll::{allgather, allreduce, alltoall, barrier, bcast, blocks, multiply, plan};
use bowline_model::fennel::generate;
use bowline_model::fennel::instrument::{Bandwidth, Skew, Utilisation};
use bowline_model::fennel::machine::{Machine, RunError};
use bowline_model::fennel::network::{
    Compute, Fixed, LogGp, NetworkModel, Noisy, PerByte, Pipelined,
};
use bowline_model::fennel::source::{Stated, StepSource, Stopped, Walk, write_down};
use bowline_model::schedule::Schedule;

/// Runs both ways, which must come to the same, and says when all was done.
fn both<N: NetworkModel + Clone, C: Compute + Clone>(
    machine: &Machine<N, C>,
    source: &(impl StepSource + ?Sized),
) -> f64 {
    let ranks = source.ranks();
    let (mut skew, mut bandwidth, mut busy) =
        (Skew::new(ranks), Bandwidth::default(), Utilisation::new(ranks));
    let graph = generate::steps(source);
    let end = machine
        .clone()
        .run(&graph, &mut [&mut skew, &mut bandwidth, &mut busy])
        .expect("algorithms end");
    let (mut again, mut reported) = (Skew::new(ranks), Utilisation::new(ranks));
    let outcome = machine.clone().run_steps(source, &mut [&mut again, &mut reported]).unwrap();
    assert_eq!(outcome.end(), end);
    assert_eq!(outcome.ends, skew.ends());
    assert_eq!(outcome.ends, again.ends());
    assert_eq!(outcome.spread(), skew.spread());
    assert_eq!((outcome.messages, outcome.bytes), (bandwidth.messages, bandwidth.bytes));
    assert_eq!(reported.busy().len(), busy.busy().len());
    for (one, other) in reported.busy().iter().zip(busy.busy()) {
        assert!((one - other).abs() < 1e-6, "{one} {other}");
    }
    end
}

/// What an algorithm states, both stated again and again and written down.
fn on_all_machines(ranks: u32, algorithm: impl Fn(&mut Walk<'_>, Place) -> Result<(), Stopped>) {
    let stated = Stated::new(ranks, algorithm);
    let written = write_down(&stated).unwrap();
    let plain = Machine { network: Pipelined::CHAPTER_5, compute: Fixed(10.0) };
    assert_eq!(both(&plain, &stated), both(&plain, &written[..]));
    let gaps = LogGp::new(ranks, 1000.0, 50.0, 200.0, 0.3);
    both(&Machine { network: gaps, compute: PerByte(0.1) }, &stated);
    let network = Noisy::new(Pipelined::CHAPTER_5, 0.3, 11);
    let noisy = Machine { network, compute: Noisy::new(PerByte(0.1), 0.3, 12) };
    assert_eq!(both(&noisy, &stated), both(&noisy, &written[..]));
}

fn vectors(len: usize) -> Vectors {
    Vectors { input: Span::input(len), output: Span::output(len), width: 8, scratch: 0 }
}

#[test]
fn steps_take_as_long_as_their_graph() {
    for ranks in [1, 2, 3, 7, 8, 12, 33] {
        for how in
            [Allreduce::Doubling, Allreduce::Halving, Allreduce::Flat, Allreduce::ReduceBcast]
        {
            on_all_machines(ranks, |plan, place| allreduce::run(plan, place, how, vectors(1000)));
        }
        for how in [Barrier::Dissemination, Barrier::Flat] {
            on_all_machines(ranks, |plan, place| barrier::run(plan, place, how));
        }
        for how in [Bcast::Flat, Bcast::Binomial, Bcast::ScatterAllgather, Bcast::Chain] {
            let data = Span::output(300_000);
            on_all_machines(ranks, |plan, place| bcast::run(plan, place, how, ranks / 2, data));
        }
        let [input, output] =
            [plan::Space::Input, plan::Space::Output].map(|space| blocks::Even { space, len: 40 });
        for how in [Allgather::Bruck, Allgather::Ring, Allgather::Direct] {
            on_all_machines(ranks, |plan, place| {
                allgather::even(plan, place, how, Span::input(40), output)
            });
        }
        for how in [Alltoall::Bruck, Alltoall::Staged(4)] {
            on_all_machines(ranks, |plan, place| alltoall::even(plan, place, how, input, output));
        }
    }
}

#[test]
fn schedules_take_as_long_as_their_program_does() {
    for (ranks, text) in [
        (8, "a2,a2,a2"),
        (8, "a8"),
        (12, "a3,a4"),
        (7, "c6m2,a2,a2,e6m2"),
        (7, "m1g2a3,n1g3a2"),
        (7, "m3g2a2,n3g2a2"),
        (1024, "a4,a4,a4,a4,a4"),
    ] {
        let schedule = Schedule::parse(ranks, text).unwrap();
        let source = Stated::new(ranks, |walk: &mut Walk<'_>, place| {
            multiply::run(walk, &schedule.stages(place.rank), vectors(8))
        });
        // The program of a schedule computes once in each stage, the steps once for each value: so here it is free.
        let machine = Machine { network: Pipelined::CHAPTER_5, compute: Fixed(0.0) };
        let program = generate::allreduce(&schedule, 8);
        assert_eq!(both(&machine, &source), machine.clone().run(&program, &mut []).unwrap());
    }
}

/// Section 5.4 of the thesis, computed apart from this code: what the engine carries out, stage by stage.
#[test]
fn doubling_takes_what_the_equation_says() {
    for bits in 1..=12 {
        let source = Stated::new(1 << bits, |walk: &mut Walk<'_>, place| {
            allreduce::run(walk, place, Allreduce::Doubling, vectors(8))
        });
        let mut machine = Machine { network: Pipelined::CHAPTER_5, compute: Fixed(10.0) };
        let outcome = machine.run_steps(&source, &mut []).unwrap();
        assert!(
            (outcome.end() - f64::from(bits) * 613.2).abs() < 0.05,
            "{bits}: {}",
            outcome.end()
        );
        assert_eq!(outcome.messages, bits as u64 * (1 << bits));
        assert!(outcome.spread() < 0.05);
    }
}

/// What comes of two ranks that do this.
fn of_two(plan: impl Fn(&mut Walk<'_>, Place) -> Result<(), Stopped>) -> Result<f64, RunError> {
    let mut machine = Machine { network: Pipelined::CHAPTER_5, compute: Fixed(10.0) };
    machine.run_steps(&Stated::new(2, plan), &mut []).map(|outcome| outcome.end())
}

#[test]
fn what_does_not_fit_is_an_error() {
    let data = Span::output(8);
    let stuck = of_two(|plan, place| {
        plan.recv(1 - place.rank, data)?;
        plan.wait()?;
        plan.send(1 - place.rank, data)
    });
    assert_eq!(stuck, Err(RunError::Stuck { left: 2 }));
    let left = of_two(|plan, place| if place.rank == 0 { plan.send(1, data) } else { Ok(()) });
    assert_eq!(left, Err(RunError::NotReceived { from: 0, to: 1 }));
    let nobody = of_two(|plan, _| plan.send(2, data));
    assert_eq!(nobody, Err(RunError::NoSuchPeer { process: 0, peer: 2 }));
    // The message or the rank that waits for it may come first.
    for first in [0, 1] {
        let lengths = of_two(|plan, place| {
            if place.rank == first {
                plan.send(1 - first, data)?;
            } else {
                plan.recv(first, Span::output(16))?;
            }
            plan.wait()
        });
        let to = 1 - first;
        assert_eq!(lengths, Err(RunError::Lengths { from: first, to, sent: 8, wanted: 16 }));
    }
    let phases = of_two(|plan, place| {
        plan.phase(place.rank as u8);
        if place.rank == 0 {
            plan.send(1, data)?
        } else {
            plan.recv(0, data)?
        }
        plan.wait()
    });
    assert_eq!(phases, Err(RunError::Stuck { left: 1 }), "phases do not match each other");
}

#[test]
fn messages_of_one_pair_are_taken_in_order() {
    // The second message is a long one: taken first, it would be of another length than expected.
    let outcome = of_two(|plan, place| {
        for len in [8, 1000, 16] {
            if place.rank == 0 {
                plan.send(1, Span::output(len))?;
            } else {
                plan.recv(0, Span::output(len))?;
            }
        }
        plan.wait()
    });
    let busy = 3.0 * 100.0 + 1024.0 * 0.4;
    assert!((outcome.unwrap() - busy - 500.0).abs() < 0.05);
}
