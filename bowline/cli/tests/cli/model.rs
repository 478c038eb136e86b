//! `bowline model`: measurements of few repetitions on every transport, whose fits are there; on the simulated network
//! they are the network's own parameters.

use crate::common::{bowline, command, finish};
use serde_json::Value;

fn fit(line: &str) -> Value {
    let args = ["model", "fit", "--json"].into_iter().chain(line.split_whitespace());
    serde_json::from_str(&bowline(args).success()).unwrap()
}

fn refused(line: &str) -> String {
    bowline(["model", "fit"].into_iter().chain(line.split_whitespace())).failure(1)
}

#[test]
fn every_transport_is_measured() {
    for how in ["", "--threads", "--transport tcp", "--transport tcp --threads", "--blocking"] {
        let report = fit(&format!("{how} --size 8,5000,100k -n 4 --reps 3"));
        assert_eq!(report["ranks"], 4, "{report}");
        assert_eq!(report["blocking"], how == "--blocking");
        assert_eq!(report["threads"], how.ends_with("--threads"));
        for fitted in report["fits"].as_array().unwrap() {
            let sizes = fitted["sizes"].as_array().unwrap();
            assert_eq!(sizes.len(), 3);
            for size in sizes {
                let points = size["points"].as_array().unwrap();
                assert_eq!(points.len(), 3);
                assert!(points.iter().all(|point| point["ns"].as_f64().unwrap() >= 0.0), "{size}");
                // Each size has its widths or the reason why it has none.
                let reasons = ["rejected", "undetermined"].map(|name| !size[name].is_null());
                assert!(reasons != [true; 2], "{size}");
                assert_eq!(reasons == [false; 2], !size["factor_cap"].is_null(), "{size}");
            }
        }
    }
}

#[test]
fn messages_that_cost_their_sender_nothing_leave_widths_open() {
    let line = "model fit --transport sim --network 1000,0,0 --size 8 -n 5";
    let text = bowline(line.split_whitespace()).success();
    assert!(text.contains("leaves the ratio and all widths open"), "{text}");
    assert!(!text.contains("inf") && !text.contains("4294967295"), "{text}");
    let size = &fit("--transport sim --network 1000,0,0 --size 8 -n 5")["fits"][0]["sizes"][0];
    assert!(size["rejected"].is_null() && size["factor_cap"].is_null(), "{size}");
    assert!(size["ratio"].is_null() && !size["undetermined"].is_null(), "{size}");
}

#[test]
fn the_simulated_network_is_found_again_and_so_from_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("deep/out");
    let out = out.to_str().unwrap();
    let line = "--transport sim --network 880,380 --size 8,64 -n 17";
    // Pictures want a font, which a machine may lack; then nothing else is missing.
    let args = ["model", "fit", "--output", out].into_iter().chain(line.split_whitespace());
    let ended = bowline(args);
    assert!(ended.code == Some(0) || ended.err.contains("font"), "{ended:?}");
    let report = fit(line);
    for (at, fitted) in report["fits"].as_array().unwrap().iter().enumerate() {
        for size in fitted["sizes"].as_array().unwrap() {
            let (p, r) =
                (size["alpha_p_ns"].as_f64().unwrap(), size["alpha_r_ns"].as_f64().unwrap());
            assert!(
                (p / 880.0 - 1.0).abs() < 0.02 && (r / 380.0 - 1.0).abs() < 0.02,
                "{at}: {size}"
            );
            assert_eq!(size["factor_cap"], 9, "{size}");
        }
        assert!(fitted["per_process"]["least_at"].is_null(), "the curve falls: {fitted}");
    }
    // What it says for collectives is a setting that is understood.
    let setting = report["collectives"].as_str().unwrap();
    let (name, costs) = setting.split_once('=').unwrap();
    assert!(costs.starts_with("rdma,pipelining=880,required=380,"), "{setting}");
    let mut explain = command(["explain", "--collective", "allreduce", "-n", "48", "--size", "8"]);
    explain.env(name, costs);
    let shown = finish(explain).success();
    assert!(
        shown.contains("rdma,pipelining=880,rendezvous=0,required=380,") && shown.contains("+ "),
        "{shown}"
    );
    let again = fit(&format!("--from {out}/samples.json"));
    assert_eq!(again, report, "the same samples give the same fit");
    let kept: Value =
        serde_json::from_slice(&std::fs::read(format!("{out}/fit.json")).unwrap()).unwrap();
    assert_eq!(kept, report);
}

#[test]
fn what_cannot_be_done_is_said_before_anything_starts() {
    assert!(refused("--network 880,380").contains("--transport sim"));
    assert!(refused("--size 0").contains("sizes begin with 1"));
    assert!(refused("--from no/such/file").contains("no/such/file"));
    assert!(refused("--output /proc/nowhere").contains("/proc/nowhere"));
    let err = bowline(["model", "fit", "--transport", "sim", "--network", "881,380"]).failure(2);
    assert!(err.contains("halved"), "{err}");
}

#[test]
fn fits_are_kept_where_the_setting_says() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kept/model.json");
    let run = |line: &str| {
        let mut command = command(["model"].into_iter().chain(line.split_whitespace()));
        command.env("BOWLINE_MODEL", &file);
        finish(command)
    };
    let show = || serde_json::from_str::<Value>(&run("show --json").success()).unwrap();
    assert_eq!(show()["entries"][0]["sizes"][0]["origin"], "assumed");
    // Over shared memory the model holds at some size, unless other programs disturb all of them: then nothing is kept,
    // and it is measured again.
    let mut tries = 0..20;
    let kept = tries.any(|_| {
        let ended = run("fit --threads --size 8..1k -n 5 --keep --reps 50");
        if ended.code != Some(0) {
            assert!(ended.err.contains("nothing was kept"), "{ended:?}");
            assert_eq!(show()["entries"][0]["sizes"][0]["origin"], "assumed");
        }
        ended.code == Some(0)
    });
    assert!(kept, "the model held at no size in twenty measurements");
    let entry = &show()["entries"][0];
    assert_eq!((&entry["transport"], &entry["ranks"]), (&"shm".into(), &5.into()), "{entry}");
    assert_eq!(entry["sizes"][0]["origin"], "measured", "{entry}");
    assert!(run("show").success().contains("measured"));
    run("forget").success();
    assert!(run("show").success().contains("assumed"));
    // Not what no job can use.
    for line in ["fit --keep --blocking", "fit --keep --transport sim"] {
        assert!(run(line).code != Some(0), "{line}");
    }
    std::fs::write(&file, "Chapter 1").unwrap();
    let err = run("fit --keep --size 8").failure(1);
    assert!(err.contains("is left as it is"), "{err}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "Chapter 1");
}

/// Ranks that reach each other by different lanes in the two directions: each has the memory of one other rank, and tcp for
/// the rest. A rank that leaves in order fails nobody who has a message of it still to read.
#[test]
fn jobs_end_well_where_lanes_differ_by_direction() {
    let line = "model tune --nodes 4 --ranks 8 --size 8 --transport tcp --measure --collective bcast --reps 3 --best 1";
    for _ in 0..10 {
        let mut command = command(line.split(' '));
        command.env("BOWLINE_SHM_GUESTS", "1");
        finish(command).success();
    }
}

/// A job goes by the cell for its own nodes, and not by that of as many ranks elsewhere.
#[test]
fn jobs_take_the_cells_of_their_own_nodes() {
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path().join("table");
    let tune =
        format!("model tune --transport tcp --ranks 4 --size 8 --output {}", table.display());
    bowline(tune.split(' ')).success();
    let text = std::fs::read_to_string(&table).unwrap();
    let (title, _) = text.split_once('\n').unwrap();
    let cells = "bcast 4 1 0-64 chain\nbcast 4 2 0-64 nodes:binomial:flat\nbcast 4 4 0-64 binomial";
    std::fs::write(&table, format!("{title}\n{cells}\n")).unwrap();
    for (hosts, taken) in [
        ("node0:2,node1:2", "nodes:binomial:flat"),
        ("node0:1,node1:1,node2:1,node3:1", "binomial"),
    ] {
        let record = directory.path().join(hosts);
        let line = format!("run -n 4 --hosts {hosts} --agent-command env");
        let ranks = [env!("CARGO_BIN_EXE_bowline"), "--as-rank"];
        let ranks = ranks.into_iter().chain("perf bcast --ranks 4 --iterations 4".split(' '));
        let mut job = command(line.split(' ').chain(ranks));
        job.env("BOWLINE_COLL_TABLE", &table).env("BOWLINE_RECORD", &record);
        job.env("BOWLINE_COLL_COSTS", "shm/tcp");
        finish(job).success();
        let lines = std::fs::read_to_string(directory.path().join(format!("{hosts}.3"))).unwrap();
        let of_8 =
            |line: &&str| line.contains("\"coll\":\"bcast\"") && line.contains("\"bytes\":8,");
        let how = format!("\"how\":\"{taken}\"");
        let (of_cell, others): (Vec<_>, Vec<_>) =
            lines.lines().filter(of_8).partition(|line| line.contains(&how));
        assert!(!of_cell.is_empty() && others.is_empty(), "{hosts}: {lines}");
    }
}

/// Cells are for their distribution of ranks: algorithms in layers are tried, and jobs on as many nodes take them.
#[test]
fn tables_are_tuned_for_ranks_on_several_nodes() {
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path().join("table");
    let table = table.to_str().unwrap();
    let tune = |line: &str| {
        let args = ["model", "tune", "--output", table, "--json", "--transport", "tcp"];
        let mut command = command(args.into_iter().chain(line.split_whitespace()));
        command.env("BOWLINE_COLL_COSTS", "shm/tcp");
        serde_json::from_str::<Vec<Value>>(&finish(command).success()).unwrap()
    };
    let layered = |name: &Value| name.as_str().unwrap().starts_with("nodes:");
    let all =
        "barrier,bcast,reduce,allreduce,gather,scatter,allgather,alltoall,reduce-scatter,scan";
    for how in ["", "--simulate"] {
        // Of 7 ranks, 4 are on the first node and 3 on the second one.
        let cells =
            tune(&format!("{how} --nodes 2 --ranks 7,8 --size 8,1k --best 40 --collective {all}"));
        assert_eq!(cells.len(), 2 * 19);
        for cell in &cells {
            assert_eq!(cell["nodes"], 2, "{cell}");
            let (best, auto) = (cell["time_ns"].as_f64(), cell["auto_ns"].as_f64());
            assert!(best <= auto, "{cell}");
            let tried = cell["tried"].as_array().unwrap();
            assert!(tried.iter().any(|one| layered(&one["algorithm"])), "{cell}");
        }
    }
    // The short form for ranks with a node each, where nothing is in layers.
    let spread = tune("--spread --ranks 4 --size 8 --collective bcast");
    assert!(
        spread[0]["nodes"] == 4
            && spread == tune("--nodes 4 --ranks 4 --size 8 --collective bcast")
    );
    assert!(spread[0]["tried"].as_array().unwrap().iter().all(|one| !layered(&one["algorithm"])));

    let cells =
        tune("--measure --nodes 2 --ranks 4 --size 8 --collective bcast,allreduce --reps 3");
    assert_eq!(cells.len(), 2);
    for cell in cells {
        let tried = cell["tried"].as_array().unwrap();
        assert!(tried.iter().any(|one| layered(&one["algorithm"])), "{cell}");
        assert!(tried.iter().all(|one| one["found_ns"].as_f64() > Some(0.0)), "{cell}");
        assert!(cell["by"].as_str().unwrap().contains("nodes of one machine"), "{cell}");
    }
    let text = std::fs::read_to_string(table).unwrap();
    assert!(text.contains("\nbcast 8 2 ") && text.contains("\nbcast 4 4 "), "{text}");

    // A job goes by the cell for its own nodes, and not by that of as many ranks elsewhere.
    let (title, _) = text.split_once('\n').unwrap();
    let cells = "bcast 8 1 0-64 chain\nbcast 8 2 0-64 nodes:binomial:flat\nbcast 8 8 0-64 binomial";
    std::fs::write(table, format!("{title}\n{cells}\n")).unwrap();
    for (nodes, tuned) in [
        ("1", "chain".into()),
        ("2", "nodes:binomial:flat".into()),
        ("4", Value::Null),
        ("8", "binomial".into()),
    ] {
        let line = ["explain", "--json", "--collective", "bcast", "-n", "8", "--size", "8"];
        let mut command = command([&line[..], &["--nodes", nodes]].concat());
        command.env("BOWLINE_COLL_TABLE", table).env("BOWLINE_COLL_COSTS", "shm/tcp");
        let shown: Value = serde_json::from_str(&finish(command).success()).unwrap();
        let of_8 = &shown["sizes"][0];
        assert_eq!(of_8["tuned"], tuned, "{nodes} nodes");
        let all = of_8["algorithms"].as_array().unwrap();
        let taken = all.iter().find(|one| one["taken"] == true).unwrap();
        assert_eq!(taken["name"] == tuned, !tuned.is_null(), "{nodes} nodes: {shown}");
    }

    for (line, wanted) in [
        ("--nodes 2", "--transport tcp"),
        ("--nodes 5 --ranks 4 --transport tcp", "there are 4 ranks"),
        ("--nodes 4 --ranks 9 --transport tcp", "are on 3 nodes"),
        ("--nodes 3000 --ranks 6000 --transport tcp --simulate", "2048 nodes at most"),
        ("--nodes 65 --ranks 130 --transport tcp --measure --size 8", "64 nodes at most"),
    ] {
        let refused = bowline("model tune".split(' ').chain(line.split(' '))).failure(1);
        assert!(refused.contains(wanted), "{line}: {refused}");
    }
}

#[test]
fn tables_are_tuned_shown_and_taken_by_jobs() {
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path().join("table");
    let table = table.to_str().unwrap();
    let tune = |line: &str| {
        let args = ["model", "tune", "--output", table, "--json"];
        let found = bowline(args.into_iter().chain(line.split_whitespace())).success();
        serde_json::from_str::<Vec<Value>>(&found).unwrap()
    };
    // By costs and simulated, nothing is slower than what a job takes.
    for how in ["", "--simulate"] {
        let cells = tune(&format!("{how} --ranks 7 --size 8,1k --transport tcp"));
        assert_eq!(cells.len(), 8, "{cells:?}");
        for cell in cells {
            let (best, auto) = (cell["time_ns"].as_f64(), cell["auto_ns"].as_f64());
            assert!(best <= auto && cell["tried"][0]["algorithm"] == "auto", "{cell}");
            let few = cell["candidates"].as_u64() <= Some(20);
            assert!(cell["collective"] != "allreduce" || !few, "{cell}");
        }
    }
    let five = "allreduce,bcast,gather,scatter,scan";
    let cells =
        tune(&format!("--measure --ranks 2,3 --size 8 --collective {five} --best 3 --reps 3"));
    assert_eq!(cells.len(), 10);
    for cell in cells {
        let tried = cell["tried"].as_array().unwrap();
        let measured = tried.iter().all(|one| one["found_ns"].as_f64() > Some(0.0));
        assert!(tried.len() > 2 && measured, "{cell}");
    }
    // What was there before is still there.
    let text = std::fs::read_to_string(table).unwrap();
    assert_eq!(text.lines().count(), 1 + 18, "{text}");
    let refused = bowline("model tune --simulate".split(' ')).failure(1);
    assert!(refused.contains("--transport tcp"), "{refused}");

    let (title, _) = text.split_once('\n').unwrap();
    std::fs::write(table, format!("{title}\nallreduce 4 1 5-8 a2,a2 # by hand\n")).unwrap();
    let with_table = |args: &[&str]| {
        let mut command = command(args);
        command.env("BOWLINE_COLL_TABLE", table);
        command
    };
    let args = ["explain", "--collective", "allreduce", "--ranks", "4", "--size", "8,16"];
    let shown = finish(with_table(&args)).success();
    assert!(shown.contains("8: the table of BOWLINE_COLL_TABLE names a2,a2"), "{shown}");
    let json = [&args[..], &["--json"]].concat();
    let shown: Value = serde_json::from_str(&finish(with_table(&json)).success()).unwrap();
    let taken = |size: usize| {
        let all = shown["sizes"][size]["algorithms"].as_array().unwrap();
        let taken: Vec<_> = all.iter().filter(|one| one["taken"] == true).collect();
        assert_eq!(taken.len(), 1, "{shown}");
        taken[0]["name"].as_str().unwrap() == "a2,a2"
    };
    assert!(taken(0) && !taken(1) && shown["sizes"][0]["tuned"] == "a2,a2", "{shown}");
    assert!(shown["sizes"][1]["tuned"].is_null(), "{shown}");

    // A setting that such a call does not allow leaves it to the table.
    std::fs::write(table, format!("{title}\nalltoall 8 1 5-8 partners:2\n")).unwrap();
    for (setting, tuned, taken) in
        [("bruck", "partners:2".into(), "partners:2"), ("direct", Value::Null, "direct")]
    {
        let args = ["explain", "--collective", "alltoallv", "-n", "8", "--size", "8", "--json"];
        let mut command = with_table(&args);
        command.env("BOWLINE_ALLTOALL", setting);
        let shown: Value = serde_json::from_str(&finish(command).success()).unwrap();
        let of_8 = &shown["sizes"][0];
        let all = of_8["algorithms"].as_array().unwrap();
        let names: Vec<_> =
            all.iter().filter(|one| one["taken"] == true).map(|one| &one["name"]).collect();
        assert!(of_8["tuned"] == tuned && names == [taken], "{shown}");
    }
    std::fs::write(table, format!("{title}\nallreduce 4 1 5-8 a2,a2 # by hand\n")).unwrap();

    let record = directory.path().join("job");
    let mut job = with_table(&["perf", "allreduce", "--ranks", "4", "--iterations", "4"]);
    job.env("BOWLINE_RECORD", &record);
    finish(job).success();
    let lines = std::fs::read_to_string(directory.path().join("job.3")).unwrap();
    let of_8 = lines
        .lines()
        .filter(|line| line.contains("\"coll\":\"allreduce\"") && line.contains("\"bytes\":8,"));
    let (multiplied, others): (Vec<_>, Vec<_>) =
        of_8.partition(|line| line.contains("\"how\":\"a2,a2\""));
    assert!(!multiplied.is_empty() && others.is_empty(), "{lines}");

    std::fs::write(table, format!("{title}\nbcast 4 1 0-8 gossip\n")).unwrap();
    for args in [&args[..], &["perf", "barrier", "--ranks", "2"]] {
        let refused = finish(with_table(args));
        let says = refused.err.contains("table: line 2: ") && refused.err.contains("gossip");
        assert!(refused.code != Some(0) && says, "{refused:?}");
    }
}
