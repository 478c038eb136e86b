//! What `bowline explain` tells of collectives.

use crate::common::{command, finish};
use serde_json::Value;

fn told(arguments: &[&str], costs: Option<&str>) -> Value {
    let mut command = command([&["explain", "--json", "--collective"], arguments].concat());
    command.envs(costs.map(|costs| ("BOWLINE_COLL_COSTS", costs)));
    serde_json::from_str(&finish(command).success()).unwrap()
}

/// The names of the algorithms for the first size, and the one that is taken.
fn algorithms(told: &Value) -> (Vec<String>, String) {
    let all = told["sizes"][0]["algorithms"].as_array().unwrap();
    let times: Vec<_> = all.iter().map(|one| one["time_ns"].as_f64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let name = |one: &Value| one["name"].as_str().unwrap().to_owned();
    let taken: Vec<_> = all.iter().filter(|one| one["taken"] == true).map(name).collect();
    assert_eq!(taken.len(), 1, "{told}");
    (all.iter().map(name).collect(), taken[0].clone())
}

#[test]
fn the_cheapest_algorithm_is_taken_where_costs_are_known() {
    let far = told(&["allreduce", "--ranks", "16", "--size", "8"], Some("tcp,pipelining=1000000"));
    let (all, taken) = algorithms(&far);
    assert_eq!(taken, all[0]);
    assert_eq!(taken, "multiplying a16");
    assert_eq!((&far["source"], &far["chosen_by"]), (&"given".into(), &"costs".into()));
}

#[test]
fn the_table_decides_where_they_are_not() {
    let told = told(&["allreduce", "-n", "16", "--size", "8,1m"], None);
    assert_eq!((&told["source"], &told["chosen_by"]), (&"assumed".into(), &"table".into()));
    assert_eq!(algorithms(&told).1, "doubling");
    assert_eq!(told["sizes"].as_array().unwrap().len(), 2);
}

#[test]
fn every_collective_is_known_for_any_number_of_ranks() {
    let all =
        ["barrier", "bcast", "reduce", "allreduce", "allgather", "alltoall", "reduce-scatter"];
    for collective in all {
        for ranks in ["1", "2", "7", "100000"] {
            for costs in [None, Some("shm")] {
                algorithms(&told(&[collective, "-n", ranks, "--share", "4"], costs));
            }
        }
    }
}

#[test]
fn wrong_arguments_are_refused() {
    for (arguments, costs, code, wanted) in [
        (&["--collective", "gossip"][..], "auto", 2, "allgather"),
        (&["--collective", "bcast", "--share", "0.5"], "auto", 1, "--share"),
        (&["--share", "2"], "auto", 2, "--collective"),
        (&["--collective", "bcast"], "fast", 1, "BOWLINE_COLL_COSTS"),
    ] {
        let mut command = command([&["explain"], arguments].concat());
        command.env("BOWLINE_COLL_COSTS", costs);
        let error = finish(command).failure(code);
        assert!(error.contains(wanted), "{arguments:?}: {error}");
    }
}
