//! Algorithms that communicators are asked for, and members that differ in what they choose by.

use bowline_mpi::{CollOptions, Communicator, MpiError, Sum, World};

use super::start::{both_ways, ranks_that_differ, ranks_that_see, ranks_with};

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

/// All calls that make a communicator of the world, or compare what its ranks choose by.
type Call = (&'static str, fn(&World) -> Option<MpiError>);
const CALLS: [Call; 6] = [
    ("dup", |world| world.dup().err()),
    ("split", |world| world.split(world.rank() % 2, 0).err()),
    ("create", |world| world.create(&world.group()).err()),
    ("set_algorithms", |world| world.set_algorithms(&[("bcast", "flat")]).err()),
    ("dist_graph_create", |world| world.dist_graph_create(&[0], &[1], (&[1], None), false).err()),
    ("start_dup", |world| {
        let mut request = world.start_dup(&[], drop).unwrap();
        super::communicators::made(world, &mut request).err()
    }),
];

/// Each of the calls is an error at all of four ranks, as the first call of all and once more.
fn none_is_made(
    shared: impl Fn(u32) -> bool + Sync,
    see: impl Fn(u32, &mut CollOptions) + Sync,
    what: &str,
) {
    for (name, call) in CALLS {
        let errors = ranks_that_see(4, &shared, &see, |world| [call(world), call(world)]);
        assert_eq!(errors, vec![[Some(MpiError::ChoicesDiffer); 2]; 4], "{what}: {name}");
    }
}

/// Algorithms in layers at some ranks would wait for messages that the others never send.
#[test]
fn ranks_that_see_other_nodes_get_an_error_and_wait_for_nobody() {
    let nodes = |rank: u32, all: &mut CollOptions| match rank {
        2 => all.set_nodes([0, 0, 0, 1]),
        _ => all.set_nodes([0, 0, 1, 1]),
    };
    none_is_made(|_| false, nodes, "one rank elsewhere");
    none_is_made(|_| true, nodes, "one rank elsewhere, processors shared");
    let some = |rank: u32, all: &mut CollOptions| {
        if rank > 0 {
            all.set_nodes([0, 1, 0, 1]);
        }
    };
    none_is_made(|_| false, some, "one node at rank 0");
    // Of groups, too.
    let errors = ranks_that_see(4, |_| false, nodes, made);
    assert_eq!(errors, vec![vec![MpiError::ChoicesDiffer; 5]; 4]);
}

#[test]
fn ranks_that_see_other_shares_of_processors_get_an_error_and_wait_for_nobody() {
    let shares = |rank: u32, all: &mut CollOptions| {
        all.share_processors(if rank == 3 { 4.0 } else { 2.0 });
    };
    none_is_made(|_| true, shares, "another share");
    // Shared memory and flat trees at some ranks, doubling at the others.
    none_is_made(|rank| rank == 1, |_, _| {}, "shared at one rank");
    none_is_made(|rank| rank != 0, |_, _| {}, "shared at all but rank 0");
}

#[test]
fn ranks_that_see_the_same_make_communicators() {
    let same = |_, all: &mut CollOptions| {
        all.set_nodes([0, 0, 1, 1]);
        all.share_processors(2.0);
    };
    let errors = ranks_that_see(4, |_| true, same, made);
    assert!(errors.iter().all(Vec::is_empty), "{errors:?}");
}
