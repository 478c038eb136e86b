//! Which algorithms prices put first, and that those in layers are priced as their parts.

use super::*;

fn prices(layers: Option<Layers>) -> Prices {
    let crew = Crew { ranks: 64, share: 1.0 };
    Prices { crew, costs: JobCosts::ASSUMED, layers }
}

#[test]
fn layers_win_where_messages_between_nodes_are_dear() {
    let on = |nodes, most| Some(Layers { nodes, most, consecutive: true });
    for bytes in [8, 1024] {
        let layered = prices(on(8, 8));
        assert!(matches!(layered.bcasts(bytes)[0].form, Algorithm::Layered(_)));
        assert!(matches!(layered.allreduces(bytes, false)[0].form, Algorithm::Layered(_)));
        assert!(matches!(layered.reduces(bytes, true)[0].form, Algorithm::Layered(_)));
        assert!(matches!(layered.allgathers(bytes)[0].form, Algorithm::Layered(_)));
        let even = (64.0 * bytes as f64, bytes as f64);
        assert!(matches!(layered.allgathervs(even)[0].form, Algorithm::Layered(_)));
        assert!(matches!(layered.reduce_scatters(bytes, true)[0].form, Algorithm::Layered(_)));
        let scans = layered.scans(bytes, false, OpClass::Vector);
        assert!(matches!(scans[0].form, Algorithm::Layered(_)));
        assert!(matches!(layered.gathers(bytes)[0].form, Algorithm::Layered(_)));
        assert!(matches!(layered.scatters(bytes)[0].form, Algorithm::Layered(_)));
    }
    assert!(matches!(prices(on(8, 8)).alltoalls(8)[0].form, Algorithm::Layered(_)));
    assert!(matches!(prices(on(8, 8)).barriers()[0].form, Algorithm::Layered(_)));
    // The blocks of two nodes for each other are more than 32 bits count.
    let many = Prices { crew: Crew { ranks: 1 << 18, share: 1.0 }, ..prices(on(2, 1 << 17)) };
    assert!(matches!(many.alltoalls(8)[0].form, Algorithm::Form(_)));
    // On one node, or with a rank on each, there are none.
    for layers in [None, on(64, 1)] {
        let all = prices(layers).allreduces(8, true);
        assert!(all.iter().all(|one| matches!(one.form, Algorithm::Form(_))));
    }
}

/// Of blocks of one length both calls have the same price in layers, whatever their lengths could be.
#[test]
fn uneven_blocks_in_layers_cost_what_even_ones_do() {
    let layered = prices(Some(Layers { nodes: 8, most: 8, consecutive: true }));
    for bytes in [8_usize, 1000, 100_000] {
        let even = layered.allgathers(bytes);
        let uneven = layered.allgathervs((64.0 * bytes as f64, bytes as f64));
        let mut compared = 0;
        for one in &uneven {
            let Algorithm::Layered(_) = one.form else { continue };
            let same = even.iter().find(|other| other.form == one.form);
            let same = same.expect("allgathers have the same forms in layers");
            assert!((one.time / same.time - 1.0).abs() < 0.05, "{bytes}: {one:?} and {same:?}");
            compared += 1;
        }
        assert_eq!(compared, 3);
        // One rank has nearly all: a node has no more than that.
        let total = 64.0 * bytes as f64;
        let least = |all: Algorithms<Allgather>| {
            let layered = all.into_iter().filter(|one| matches!(one.form, Algorithm::Layered(_)));
            layered.map(|one| one.time).fold(f64::INFINITY, f64::min)
        };
        assert!(least(layered.allgathervs((total, total))) > 0.99 * least(uneven));
    }
}

/// Of prices that differ by less than costs are known, one that waits less is taken, in layers too.
#[test]
fn of_prices_that_are_alike_those_that_wait_least_win() {
    let (mut others, mut dearer) = (0, 0);
    for (ranks, nodes) in [(2, 1), (4, 1), (7, 1), (16, 1), (16, 4), (64, 8), (48, 6)] {
        let layers = Layers { nodes, most: ranks / nodes, consecutive: true };
        let layers = (nodes > 1).then_some(layers);
        for share in [1.0, 8.0] {
            let prices = Prices { crew: Crew { ranks, share }, ..prices(layers) };
            for bits in 0..24 {
                let all = prices.allreduces(1 << bits, true);
                let least = all.iter().map(|one| one.time).fold(f64::INFINITY, f64::min);
                let alike = all.iter().filter(|one| one.time <= least * 1.02);
                let least_waits = alike.map(|one| one.waits).fold(f64::INFINITY, f64::min);
                assert!(
                    all[0].waits <= least_waits + least * 0.02,
                    "{ranks} {nodes} {bits}: {all:?}"
                );
                others += u32::from(all[1..].iter().any(|one| one.waits > least_waits));
                dearer += u32::from(all[0].time > least);
                // Those on all ranks alone have the order of the crew.
                if layers.is_none() {
                    let of_crew = prices.crew.allreduces(&prices.costs.near, 1 << bits, true);
                    let forms = of_crew.into_iter().map(|one| Algorithm::Form(one.form));
                    assert!(all.into_iter().map(|one| one.form).eq(forms));
                }
            }
        }
    }
    assert!(others > 0 && dearer > 0, "the rule decides nothing here");
}

/// A schedule that is chosen in layers has the price that it has among others.
#[test]
fn schedules_in_layers_are_priced_as_choices_price_them() {
    let layered = prices(Some(Layers { nodes: 8, most: 8, consecutive: true }));
    let schedule: Schedule = Schedule::parse(8, "a8").expect("a schedule");
    let [one] = &layered.schedules_in_layers([schedule.clone()], 8, true)[..] else {
        panic!("one schedule")
    };
    let all = layered.allreduces(8, true);
    let same = all.iter().find(|other| other.form == one.form).expect("it is a candidate");
    assert_eq!(same, one);
    assert!(prices(None).schedules_in_layers([schedule], 8, true).is_empty());
}

#[test]
fn shared_memory_is_taken_where_it_is_cheaper() {
    for share in [1.0, 4.0] {
        let crew = Crew { ranks: 8, share };
        let prices = Prices { crew, ..prices(None) };
        let messages = prices.barriers()[0].time;
        assert!(
            prices.chooses_staged(Staged::Barrier, 0, true, messages),
            "{share} ranks a processor"
        );
        assert!(!prices.chooses_staged(Staged::Barrier, 0, true, 0.0));
    }
}

#[test]
fn nodes_whose_ranks_do_not_follow_each_other_keep_no_order() {
    let scattered = prices(Some(Layers { nodes: 8, most: 8, consecutive: false }));
    let layered = |all: &[Priced<Algorithm<AllreduceForm>>]| {
        all.iter().any(|one| matches!(one.form, Algorithm::Layered(_)))
    };
    assert!(layered(&scattered.allreduces(8, true)));
    assert!(!layered(&scattered.allreduces(8, false)));
    assert!(scattered.allgathers(8).iter().all(|one| matches!(one.form, Algorithm::Form(_))));
    let uneven = scattered.allgathervs((512.0, 64.0));
    assert!(uneven.iter().all(|one| matches!(one.form, Algorithm::Form(_))));
}
