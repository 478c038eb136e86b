//! Algorithms that communicators are asked for, and members that differ in what they choose by.

use bowline_mpi::{Communicator, MpiError, Sum, World};

use super::start::{both_ways, ranks_that_differ, ranks_with};

/// A sum of four numbers in which the order of additions shows: 0 in pairs, 1 one after the other.
fn sum(comm: &Communicator) -> f64 {
    let number = [1.0, 1e16, -1e16, 1.0][comm.rank() as usize];
    let mut sum = [0.0_f64];
    comm.allreduce(&[number], &mut sum, Sum).unwrap();
    sum[0]
}

#[test]
fn a_communicator_does_as_it_is_asked_and_others_do_not() {
    ranks_with(4, &[("BOWLINE_ALLREDUCE", "doubling")], |world| {
        let other = world.dup_with_algorithms(&[("allreduce", "a4"), ("bcast", "chain")]).unwrap();
        assert_eq!((sum(world), sum(&other)), (0.0, 1.0));
        assert_eq!(other.algorithms()[1], ("bcast", "chain".to_owned()));
        // What a duplicate is asked for is not its copies'.
        assert_eq!(sum(&other.dup().unwrap()), 0.0);

        // As often as one likes, and what is not named stays.
        for (name, expected) in [("doubling", 0.0), ("a4", 1.0), ("a4", 1.0), ("halving", 0.0)] {
            other.set_algorithms(&[("allreduce", name)]).unwrap();
            assert_eq!(sum(&other), expected, "{name}");
            assert_eq!(other.algorithms()[1].1, "chain");
        }
        world.set_algorithms(&[("allreduce", "a4")]).unwrap();
        assert_eq!(sum(world), 1.0);
        world.set_algorithms(&[]).unwrap();
        assert_eq!(sum(world), 1.0);
        world.set_algorithms(&[("allreduce", "auto")]).unwrap();
        assert_eq!(world.algorithms()[3], ("allreduce", "auto".to_owned()));
        // One that is for other numbers of ranks.
        world.set_algorithms(&[("allreduce", "a5")]).unwrap();
        sum(world);
    });
}

#[test]
fn members_that_ask_for_different_algorithms_all_get_an_error() {
    both_ways(5, |world| {
        let last = world.rank() == world.size() - 1;
        let asked = [("bcast", if last { "chain" } else { "flat" })];
        assert_eq!(world.set_algorithms(&asked).unwrap_err(), MpiError::ChoicesDiffer);
        assert_eq!(world.dup_with_algorithms(&asked).unwrap_err(), MpiError::ChoicesDiffer);
        // One that does not exist is reported to those that named it.
        let asked = [("bcast", if last { "fastest" } else { "flat" })];
        let own = match last {
            true => MpiError::UnknownAlgorithm { collective: "bcast" },
            false => MpiError::ChoicesDiffer,
        };
        assert_eq!(world.set_algorithms(&asked).unwrap_err(), own);
        assert_eq!(world.dup_with_algorithms(&asked).unwrap_err(), own);
        let all = world.set_algorithms(&[("bcast", "fastest")]).unwrap_err();
        assert_eq!(all, MpiError::UnknownAlgorithm { collective: "bcast" });
        let nothing = world.dup_with_algorithms(&[("sort", "quick")]).unwrap_err();
        assert!(matches!(nothing, MpiError::UnknownAlgorithm { .. }));

        // Nothing has changed.
        assert_eq!(world.algorithms()[1].1, "auto");
        let mut item = [world.rank()];
        world.dup().unwrap().bcast(&mut item, 2).unwrap();
        assert_eq!(item, [2]);
    });
}

/// What each of them says of a communicator that is made.
fn made(world: &World) -> Vec<MpiError> {
    let group = world.group();
    let outcomes = [
        world.dup().map(Some),
        world.split(0, 0),
        world.create(&group),
        world.create_group(&group, 3),
        world.create_from_group(&group, b"all").map(Some),
    ];
    outcomes.into_iter().filter_map(Result::err).collect()
}

#[test]
fn no_communicator_is_made_of_ranks_whose_settings_differ() {
    for shared in [false, true] {
        let all = [
            ("BOWLINE_BCAST", ["flat", "flat", "chain", "flat", "flat"]),
            ("BOWLINE_ALLREDUCE", ["auto", "a5", "a5", "a5", "a5"]),
            ("BOWLINE_COLL_COSTS", ["tcp", "tcp", "tcp", "tcp", "tcp,byte=0.31"]),
        ];
        for (setting, values) in all {
            let errors = ranks_that_differ(shared, setting, &values, made);
            assert_eq!(errors, vec![vec![MpiError::ChoicesDiffer; 5]; 5], "{setting}");
        }
        let errors = ranks_that_differ(shared, "BOWLINE_BCAST", &["chain"; 5], made);
        assert!(errors.iter().all(Vec::is_empty));
    }
}
