//! What `bowline explain` shows of collectives.

use crate::common::{bowline, command, finish};
use serde_json::Value;

fn shown(arguments: &[&str], costs: Option<&str>) -> Value {
    let mut command = command([&["explain", "--json", "--collective"], arguments].concat());
    command.envs(costs.map(|costs| ("BOWLINE_COLL_COSTS", costs)));
    // What this machine's user has fitted is not read.
    command.env("BOWLINE_MODEL", "off");
    serde_json::from_str(&finish(command).success()).unwrap()
}

/// The names of the algorithms for the first size, and the one that is taken.
fn algorithms(shown: &Value) -> (Vec<String>, String) {
    let all = shown["sizes"][0]["algorithms"].as_array().unwrap();
    // Of prices that differ by less than 2 % the first one need not be the least.
    let times: Vec<_> = all.iter().filter_map(|one| one["time_ns"].as_f64()).collect();
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(times[1..].is_sorted() && times[0] <= least * 1.02, "{times:?}");
    let name = |one: &Value| one["name"].as_str().unwrap().to_owned();
    let taken: Vec<_> = all.iter().filter(|one| one["taken"] == true).map(name).collect();
    assert_eq!(taken.len(), 1, "{shown}");
    (all.iter().map(name).collect(), taken[0].clone())
}

#[test]
fn the_cheapest_algorithm_is_taken_where_costs_are_known() {
    let far = shown(&["allreduce", "--ranks", "16", "--size", "8"], Some("tcp,pipelining=1000000"));
    let (all, taken) = algorithms(&far);
    assert_eq!(taken, all[0]);
    assert_eq!(taken, "a16");
    assert_eq!((&far["source"], &far["chosen_by"]), (&"given".into(), &"costs".into()));
}

/// What is shown may be asked for, and is taken then.
#[test]
fn names_that_are_shown_are_those_of_settings() {
    for (collective, setting, first) in [
        ("bcast", "BOWLINE_BCAST", "multiplying:5"),
        ("allreduce", "BOWLINE_ALLREDUCE", "doubling"),
        ("gather", "BOWLINE_GATHER", "binomial"),
        ("scatter", "BOWLINE_SCATTER", "binomial"),
        ("scan", "BOWLINE_SCAN", "doubling"),
        ("allgatherv", "BOWLINE_ALLGATHER", "ring"),
    ] {
        let arguments = [collective, "-n", "48", "--size", "8", "--nodes", "6"];
        let (all, _) = algorithms(&shown(&arguments, None));
        assert!(all.iter().any(|name| name == first), "{all:?}");
        let layers = all.iter().filter(|name| name.starts_with("nodes:")).take(2);
        assert_eq!(layers.clone().count(), 2, "{all:?}");
        for name in all.iter().take(5).chain(layers) {
            let line = [&["explain", "--json", "--collective"][..], &arguments].concat();
            let mut command = command(line);
            command.env("BOWLINE_MODEL", "off").env(setting, name);
            let asked: Value = serde_json::from_str(&finish(command).success()).unwrap();
            assert_eq!(asked["chosen_by"], "setting");
            assert_eq!(&algorithms(&asked).1, name);
        }
    }
}

/// A setting may name what costs do not choose from: a job takes it if the call allows it, and only then is it shown.
#[test]
fn names_that_costs_do_not_list_are_taken_where_a_call_allows_them() {
    let shown = |line: &str, setting: &str, name: &str| {
        let line = format!("explain --json --size 64 --collective {line}");
        let mut command = command(line.split_whitespace());
        command.env("BOWLINE_MODEL", "off").env(setting, name);
        serde_json::from_str::<Value>(&finish(command).success()).unwrap()
    };
    let time = |found: &Value, name: &str| {
        let all = found["sizes"][0]["algorithms"].as_array().unwrap();
        let one = all.iter().find(|one| one["name"] == name);
        one.map(|one| one["time_ns"].as_f64())
    };
    for (line, setting, name) in [
        ("reduce -n 8", "BOWLINE_REDUCE", "ordered"),
        ("barrier -n 8", "BOWLINE_BARRIER", "multiplying:1"),
        ("bcast -n 8", "BOWLINE_BCAST", "two-trees:8"),
        ("allgather -n 8", "BOWLINE_ALLGATHER", "multiplying:1"),
        ("allgatherv -n 8", "BOWLINE_ALLGATHER", "multiplying:1"),
        ("alltoall -n 8", "BOWLINE_ALLTOALL", "partners:2"),
        ("alltoallv -n 8", "BOWLINE_ALLTOALL", "partners:2"),
    ] {
        let found = shown(line, setting, name);
        let of_call = if line.starts_with("allgatherv") { None } else { Some(name) };
        assert_eq!(algorithms(&found).1 == name, of_call.is_some(), "{line}: {found}");
        assert_eq!(time(&found, name).flatten().is_some(), of_call.is_some(), "{line}");
    }
    // Both trees within nodes may be asked for; costs choose from the better one.
    for name in ["nodes:linear:binomial", "nodes:binomial:binomial", "nodes:linear:two-trees:8"] {
        let found = shown("bcast -n 48 --nodes 6", "BOWLINE_BCAST", name);
        assert_eq!(algorithms(&found).1, name, "{found}");
    }
    for name in ["nodes:linear:ring", "nodes:binomial:ring", "nodes:binomial:direct"] {
        let found = shown("allgatherv -n 48 --nodes 6", "BOWLINE_ALLGATHER", name);
        assert_eq!(
            (algorithms(&found).1.as_str(), &found["collective"]),
            (name, &"allgatherv".into())
        );
    }
    // Nodes have blocks of different lengths together, and a rank knows its own blocks only.
    for (line, setting, name) in [
        ("allgatherv -n 48 --nodes 6", "BOWLINE_ALLGATHER", "nodes:linear:doubling"),
        ("alltoallv -n 48 --nodes 6", "BOWLINE_ALLTOALL", "nodes:linear:direct"),
    ] {
        let found = shown(line, setting, name);
        assert!(algorithms(&found).1 != name && time(&found, name).is_none(), "{line}: {found}");
    }
    let found = shown("alltoallv -n 48 --nodes 6", "BOWLINE_ALLTOALL", "auto");
    assert!(found["note"].as_str().unwrap().contains("exchange lengths first"), "{found}");
    let found = shown("bcast -n 48 --nodes 6", "BOWLINE_BCAST", "nodes:linear:two-trees:8");
    assert_eq!(time(&found, "nodes:linear:two-trees:8"), Some(None));
    // Ranks of one node have no layers, and what keeps no order is not taken where order counts.
    for (line, setting, name) in [
        ("bcast -n 8", "BOWLINE_BCAST", "nodes:linear:binomial"),
        ("reduce -n 8 --ordered", "BOWLINE_REDUCE", "binomial"),
    ] {
        let found = shown(line, setting, name);
        assert!(algorithms(&found).1 != name && time(&found, name).is_none(), "{line}: {found}");
    }
}

#[test]
fn elements_wider_than_a_part_of_a_slot_do_not_go_through_shared_memory() {
    let shown = |width: &str| {
        let line = ["explain", "--json", "--collective", "reduce", "-n", "8", "--size", "1m"];
        let mut command = command([&line[..], &["--width", width]].concat());
        command.env("BOWLINE_MODEL", "off");
        algorithms(&serde_json::from_str(&finish(command).success()).unwrap()).0
    };
    assert!(shown("8").iter().any(|name| name == "staged"));
    assert!(shown("65536").iter().all(|name| name != "staged"));
}

#[test]
fn more_nodes_than_ranks_are_refused() {
    let err = bowline(["explain", "--collective", "bcast", "-n", "8", "--nodes", "9"]).failure(1);
    assert!(err.contains("--nodes 9: there are 8 ranks"), "{err}");
}

#[test]
fn options_that_mean_nothing_are_refused() {
    for (line, code, wanted) in [
        ("--collective bcast --class pairs", 1, "--class: this collective has no operation"),
        ("--collective alltoall --width 4", 1, "--width: "),
        ("--collective barrier --ordered", 1, "--ordered: "),
        ("--collective bcast --rank 1", 2, "--rank"),
        ("--width 4", 2, "--collective"),
    ] {
        let err = bowline(["explain"].into_iter().chain(line.split_whitespace())).failure(code);
        assert!(err.contains(wanted), "{line}: {err}");
    }
}

#[test]
fn costs_are_assumed_where_nobody_has_fitted_them() {
    let shown = shown(&["allreduce", "-n", "16", "--size", "8,1m"], None);
    assert_eq!((&shown["source"], &shown["chosen_by"]), (&"assumed".into(), &"costs".into()));
    assert_eq!(shown["sizes"].as_array().unwrap().len(), 2);
}

#[test]
fn the_table_decides_where_nothing_is_known() {
    let mut command =
        command(["explain", "--json", "--collective", "allreduce", "-n", "16", "--size", "8"]);
    command.env("BOWLINE_TRANSPORTS", "self");
    let shown: Value = serde_json::from_str(&finish(command).success()).unwrap();
    assert_eq!(shown["chosen_by"], "table");
    assert_eq!(algorithms(&shown).1, "doubling");
}

/// Costs of libfabric and verbs are assumed, and a fit that is kept of them goes before.
#[test]
fn devices_have_costs_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("model.json");
    let of = || {
        let mut command = command(["explain", "--json", "--collective", "bcast", "-n", "4"]);
        command.env("BOWLINE_TRANSPORTS", "self,verbs").env("BOWLINE_MODEL", &file);
        serde_json::from_str::<Value>(&finish(command).success()).unwrap()
    };
    let shown = of();
    assert_eq!((&shown["source"], &shown["chosen_by"]), (&"assumed".into(), &"costs".into()));
    assert_eq!(shown["assumed"][0]["parameters"].as_array().unwrap().len(), 17, "{shown}");
    let fitted = "rdma,pipelining=7000,required=41000,byte=2";
    let costs = bowline::model_file::text([(&*bowline::costs::site(), "verbs", fitted.into())]);
    std::fs::write(bowline::model_file::costs_file(&file), costs).unwrap();
    let shown = of();
    assert_eq!(shown["source"], "fitted");
    assert_eq!(shown["assumed"][0]["parameters"].as_array().unwrap().len(), 14, "{shown}");
    assert!(shown["costs"].as_str().unwrap().contains("required=41000"), "{shown}");
}

/// Shared memory is an algorithm among the others on one node, and taken when a setting says so.
#[test]
fn memory_that_ranks_share_has_a_price() {
    let of = |arguments: &[&str], asked: Option<&str>| {
        let all = [&["explain", "--json", "--size", "64k", "--collective"], arguments].concat();
        let mut command = command(all);
        command.envs(asked.map(|asked| ("BOWLINE_ALLGATHER", asked)));
        let shown: Value = serde_json::from_str(&finish(command).success()).unwrap();
        let (all, taken) = algorithms(&shown);
        (all.iter().any(|name| name == "staged"), taken)
    };
    let ranks = ["allgather", "-n", "8", "--share", "4"];
    assert_eq!(of(&ranks, Some("staged")), (true, "staged".to_owned()));
    assert_eq!(of(&ranks, Some("ring")), (true, "ring".to_owned()));
    assert!(of(&ranks, None).0);
    assert!(!of(&[&ranks[..], &["--nodes", "2"]].concat(), None).0);
    assert!(!of(&["allgather", "-n", "65"], None).0);
}

#[test]
fn every_collective_is_known_for_any_number_of_ranks() {
    let all = [
        "barrier",
        "bcast",
        "reduce",
        "allreduce",
        "gather",
        "gatherv",
        "scatter",
        "scatterv",
        "allgather",
        "allgatherv",
        "alltoall",
        "alltoallv",
        "reduce-scatter",
        "scan",
        "exscan",
    ];
    for collective in all {
        for (ranks, share) in [("1", "1"), ("2", "2"), ("7", "4"), ("100000", "4")] {
            for costs in [None, Some("shm")] {
                algorithms(&shown(&[collective, "-n", ranks, "--share", share], costs));
            }
        }
    }
}

/// A setting that a call does not allow leaves the choice to costs; lengths that a rank alone knows do not decide.
#[test]
fn blocks_of_different_lengths_and_prefix_reductions_are_chosen_by_costs() {
    let of = |arguments: &[&str], setting: (&str, &str)| {
        let mut command = command([&["explain", "--json", "--collective"], arguments].concat());
        command.env("BOWLINE_COLL_COSTS", "tcp").env(setting.0, setting.1);
        algorithms(&serde_json::from_str(&finish(command).success()).unwrap())
    };
    let gathered = ["allgatherv", "-n", "8", "--size", "8"];
    assert_eq!(of(&gathered, ("BOWLINE_ALLGATHER", "ring")).1, "ring");
    let (all, taken) = of(&gathered, ("BOWLINE_ALLGATHER", "doubling"));
    assert!(taken == all[0] && all.len() == 3 && !all.contains(&"doubling".into()), "{all:?}");
    for size in ["8", "1m"] {
        let exchanged = ["alltoallv", "-n", "100", "--size", size];
        assert_eq!(of(&exchanged, ("BOWLINE_ALLTOALL", "bruck")).1, "direct");
    }
    let prefixes = ["exscan", "-n", "64", "--size", "8"];
    assert_eq!(of(&prefixes, ("BOWLINE_SCAN", "auto")).1, "doubling");
    assert_eq!(of(&prefixes, ("BOWLINE_SCAN", "chain")).1, "chain");
    let two = ["scan", "-n", "2", "--size", "1k"];
    assert_eq!(of(&two, ("BOWLINE_SCAN", "auto")).1, "chain");
}

/// Only the root knows their lengths, so there is one algorithm, which no setting changes.
#[test]
fn gathers_and_scatters_of_blocks_of_different_lengths_have_one_algorithm() {
    for (collective, of_even) in [("gatherv", "gather"), ("scatterv", "scatter")] {
        let line = ["-n", "48", "--nodes", "6", "--size", "1k"];
        let mut command =
            command([&["explain", "--json", "--collective", collective], &line[..]].concat());
        command.env("BOWLINE_COLL_COSTS", "shm/tcp").env("BOWLINE_GATHER", "binomial");
        let found: Value = serde_json::from_str(&finish(command).success()).unwrap();
        assert_eq!(algorithms(&found), (vec!["linear".to_owned()], "linear".to_owned()));
        assert_eq!(
            (&found["collective"], &found["chosen_by"]),
            (&collective.into(), &"nothing".into())
        );
        assert!(found["note"].as_str().unwrap().contains("one algorithm"), "{found}");
        // It is what blocks of one length take by the same algorithm.
        let even = shown(&[&[of_even], &line[..]].concat(), Some("shm/tcp"));
        let all = even["sizes"][0]["algorithms"].as_array().unwrap();
        let linear = all.iter().find(|one| one["name"] == "linear").unwrap();
        assert_eq!(linear["time_ns"], found["sizes"][0]["algorithms"][0]["time_ns"]);
    }
    let text = bowline(["explain", "--collective", "scatterv", "-n", "8"]).success();
    assert!(text.contains("scatterv of 8 ranks") && text.contains("nothing to choose"), "{text}");
    let refused = bowline("model tune --collective gatherv".split(' ')).failure(1);
    assert!(refused.contains("nothing to tune"), "{refused}");
}

/// Of a slow operation a rank does as little as it can; elements are not cut.
#[test]
fn operations_and_elements_decide() {
    let costs =
        Some("shm,pipelining=0,required=0,receive=0,mark=0,byte=0.1,copy=0,reduce=0,scalar=9");
    let taken = |more: &[&str]| {
        let arguments = [&["allreduce", "-n", "8", "--size", "64k"], more].concat();
        let shown = shown(&arguments, costs);
        (shown["operation"].clone(), algorithms(&shown).1)
    };
    let (operation, fast) = taken(&[]);
    assert_eq!((&operation["class"], &operation["width"]), (&"vector".into(), &8.into()));
    assert!(operation.get("priced_width").is_none(), "{operation}");
    for (width, priced) in [("3", 8), ("100", 128)] {
        let (operation, _) = taken(&["--width", width]);
        let given = width.parse::<u64>().unwrap();
        assert_eq!(operation["width"], given, "{operation}");
        assert_eq!(operation["priced_width"], priced, "{operation}");
    }
    let (operation, slow) = taken(&["--class", "scalar", "--width", "16", "--ordered"]);
    assert_eq!((&operation["class"], &operation["commutative"]), (&"scalar".into(), &false.into()));
    assert!(slow == "halving" || slow.starts_with('s'), "{slow} beside {fast}");
    let (_, whole) = taken(&["--class", "scalar", "--width", "65536"]);
    assert!(whole != "halving" && !whole.starts_with('s'), "{whole}");
}

/// Blocks whose lengths one rank knows leave no choice, and that is said.
#[test]
fn gathers_say_what_uneven_blocks_do() {
    assert!(shown(&["gather", "-n", "8"], None)["note"].as_str().unwrap().contains("root alone"));
    assert!(shown(&["bcast", "-n", "8"], None).get("note").is_none());
}

#[test]
fn what_costs_leave_open_is_called_assumed() {
    let far = shown(&["bcast", "-n", "8", "--nodes", "2"], Some("shm,mark=50/tcp,at8=9/1,copy=0"));
    let of = |place: usize| far["assumed"][place]["parameters"].as_array().unwrap().clone();
    let has = |place, name: &str| of(place).contains(&Value::from(name));
    assert!(!has(0, "mark") && has(0, "pipelining") && has(0, "copy"), "{far}");
    assert!(!has(1, "copy") && !has(1, "required") && has(1, "receive"), "{far}");
}

#[test]
fn wrong_arguments_are_refused() {
    for (arguments, costs, code, wanted) in [
        (&["--collective", "gossip"][..], "auto", 2, "allgather"),
        (&["--collective", "bcast", "--share", "0.5"], "auto", 1, "--share"),
        (&["--collective", "bcast", "--share", "1e9"], "auto", 1, "all 2 ranks"),
        (&["--share", "2"], "auto", 2, "--collective"),
        (&["--collective", "bcast"], "fast", 1, "BOWLINE_COLL_COSTS"),
    ] {
        let mut command = command([&["explain"], arguments].concat());
        command.env("BOWLINE_COLL_COSTS", costs);
        let error = finish(command).failure(code);
        assert!(error.contains(wanted), "{arguments:?}: {error}");
    }
}
