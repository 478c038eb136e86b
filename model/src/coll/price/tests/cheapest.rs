//! Which algorithm is cheapest: how that follows from costs, operations and ranks that come late.

use super::*;

#[test]
fn slow_operations_are_split_among_ranks_sooner() {
    let of = |class, bytes| {
        let operands = ReductionOperands::new(true, class, 8);
        alone(8).allreduces(&Costs::SHARED_MEMORY, bytes, operands).swap_remove(0)
    };
    let costs = Costs::SHARED_MEMORY;
    assert!(costs.combining(OpClass::Scalar).reduce > costs.reduce);
    // What makes a rank reduce least wins where that is dear.
    let splits = |form: &AllreduceForm| match form {
        AllreduceForm::Form(form) => *form == Allreduce::Halving,
        AllreduceForm::Multiplying(schedule) => schedule.splits(),
    };
    let first = |class| (0..24).find(|bits| splits(&of(class, 1 << bits).form)).unwrap();
    assert!(first(OpClass::Scalar) < first(OpClass::Vector));
    assert!(of(OpClass::Function, 1 << 20).time > of(OpClass::Vector, 1 << 20).time);
    // A vector of one element cannot be split.
    let whole = ReductionOperands::new(true, OpClass::Vector, 1 << 20);
    let chosen = alone(8).allreduces(&costs, 1 << 20, whole).swap_remove(0);
    assert!(!splits(&chosen.form), "{chosen:?}");
}

/// What is not known at all ranks does not decide: lengths do not change which is cheaper.
#[test]
fn exchanges_of_unknown_lengths_are_ordered_as_those_of_any_length() {
    for costs in [Costs::TCP, Costs::SHARED_MEMORY, COSTS] {
        for (ranks, share) in [2, 8, 64, 65, 300].into_iter().flat_map(|n| [(n, 1.0), (n, 4.0)]) {
            let crew = Crew { ranks, share };
            let unknown: Vec<_> = crew.alltoallvs(&costs).into_iter().map(|one| one.form).collect();
            for block in [8, 1024, 1 << 20] {
                let mut known = crew.alltoalls(&costs, block);
                known.retain(|one| one.form != Alltoall::Bruck);
                let gap = known[1].time - known[0].time;
                let known: Vec<_> = known.into_iter().map(|one| one.form).collect();
                assert!(known == unknown || gap < 1e-6 * block as f64, "{ranks} {share} {block}");
            }
        }
    }
}

#[test]
fn what_is_cheapest_follows_the_costs() {
    let ranks = 16;
    let near = Costs { pipelining: 0.0, ..COSTS };
    let far = Costs { pipelining: 100_000.0, ..COSTS };
    let first = |costs| alone(ranks).allreduces(costs, 8, true).swap_remove(0).form;
    // Without latency the fewest messages of a rank win, with much of it the fewest stages.
    assert_eq!(multiplied(&first(&far)), Some(1));
    assert!(multiplied(&first(&near)).is_none_or(|stages| stages >= 4));
    let long = alone(ranks).allreduces(&COSTS, 1 << 20, true).swap_remove(0).form;
    let cut = match &long {
        AllreduceForm::Form(form) => *form == Allreduce::Halving,
        AllreduceForm::Multiplying(schedule) => schedule.splits(),
    };
    assert!(cut, "{long:?}");
}

/// The stages of a schedule, if it is one.
fn multiplied(form: &AllreduceForm) -> Option<usize> {
    match form {
        AllreduceForm::Multiplying(schedule) => Some(schedule.tokens().len()),
        AllreduceForm::Form(_) => None,
    }
}

/// A root with a processor of its own is the only one that its bytes keep busy; where ranks share processors, those that take
/// them have as much to do. So long broadcasts from the root alone are not dearer there than down a tree.
#[test]
fn bytes_keep_both_ends_busy_where_ranks_share_processors() {
    let time = |crew: Crew, costs: &Costs, how| bcast(crew.ranks, how, 1 << 20).time(crew, costs);
    let shared = Crew { ranks: 8, share: 4.0 };
    let both = Costs { byte: 0.6, receive_byte: 0.6, interference: 0.0, ..Costs::TCP };
    let of_sender = Costs { byte: 1.2, receive_byte: 0.0, ..both };
    let free = Costs { receive_byte: 0.0, ..both };
    let tree = |crew, costs| time(crew, costs, Bcast::Binomial);
    assert_eq!(tree(alone(8), &both), tree(alone(8), &free));
    assert!(tree(shared, &both) > 1.5 * tree(shared, &free));
    assert!(
        time(shared, &of_sender, Bcast::Flat) > 1.5 * time(shared, &of_sender, Bcast::Binomial)
    );
    assert!(time(shared, &both, Bcast::Flat) < time(shared, &both, Bcast::Binomial));
}

/// What a rank does comes in part behind what others of its processor do, so that a root that does everything is dearer
/// than ranks that do as much together.
#[test]
fn interference_counts_where_ranks_share_processors() {
    let costs = |interference| Costs { interference, ..Costs::TCP };
    for how in [Allreduce::ReduceBcast, Allreduce::Halving] {
        let time = |crew: Crew, part| {
            Load::time(&allreduce(crew.ranks, how, (1 << 20, 8)), crew, &costs(part))
        };
        let shared = Crew { ranks: 4, share: 2.0 };
        assert_eq!(time(alone(4), 0.0), time(alone(4), 1.0));
        let [none, half, whole] = [0.0, 0.5, 1.0].map(|part| time(shared, part));
        assert!(none < half && half < whole && whole < 2.0 * none, "{none} {half} {whole}");
    }
}

#[test]
fn where_ranks_share_processors_few_messages_win_unless_they_come_from_afar() {
    let crew = Crew { ranks: 16, share: 8.0 };
    let first = |costs: &Costs| crew.allreduces(costs, 8, true).swap_remove(0).form;
    assert_eq!(first(&Costs::SHARED_MEMORY), AllreduceForm::Form(Allreduce::Flat));
    let far = Costs { pipelining: 1_000_000.0, ..Costs::TCP };
    assert_eq!(multiplied(&first(&far)), Some(1));
}

#[test]
fn operations_that_keep_order_get_what_keeps_it() {
    for ranks in 2..64 {
        for share in [1.0, 8.0] {
            let crew = Crew { ranks, share };
            for priced in crew.allreduces(&Costs::TCP, 8, false) {
                if let AllreduceForm::Multiplying(schedule) = priced.form {
                    assert!(schedule.keeps_order(), "{schedule}");
                }
            }
            let ordered = crew.reduces(&Costs::TCP, 8, false);
            assert!(ordered.iter().all(|priced| priced.form != Reduce::Binomial));
        }
    }
}

/// Vectors that are too short to be cut among all ranks are cut among some, and the parts reduced by wide stages.
#[test]
fn many_ranks_cut_short_vectors_a_little() {
    let ranks = 1 << 10;
    let found = alone(ranks).allreduces(&COSTS, 1024, true);
    let AllreduceForm::Multiplying(best) = &found[0].form else { panic!("{:?}", found[0]) };
    let exchanges = best.tokens().iter().any(|token| matches!(token, JointStage::Exchange { .. }));
    assert!(best.splits() && exchanges, "{best}");
    let doubling =
        Load::time(&allreduce(ranks, Allreduce::Doubling, (1024, 1)), alone(ranks), &COSTS);
    assert!(found[0].time < 0.8 * doubling);
    let mut wrong = Wrong::default();
    for priced in found.iter().filter(|priced| priced.time < doubling) {
        if let AllreduceForm::Multiplying(schedule) = &priced.form {
            let load = multiplying(schedule, (1024, 1));
            wrong.check(schedule, (ranks, 1024), load, 0.15, |plan, place| {
                multiply::run(plan, &schedule.stages(place.rank), vectors(1024))
            });
        }
    }
    wrong.is_empty();
}

/// Each stage waits for the last one of those that take part in it: few wide stages wait less than many narrow ones.
#[test]
fn ranks_that_come_late_get_few_stages() {
    let first = |skew| {
        let costs = Costs { skew, ..COSTS };
        alone(16).allreduces(&costs, 8, true).swap_remove(0)
    };
    assert!(multiplied(&first(0.0).form).is_none_or(|stages| stages > 1));
    let late = first(1e6);
    assert_eq!(multiplied(&late.form), Some(1));
    // The sixteenth of sixteen.
    let last: f64 = (1..=16).map(|rank| 1.0 / f64::from(rank)).sum();
    assert!((late.time / 1e6 - last).abs() < 0.01, "{}", late.time);
}
