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
                // Each size has its parameters or the reason why it has none.
                assert_ne!(size["rejected"].is_null(), size["factor_cap"].is_null(), "{size}");
            }
        }
    }
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
    assert!(costs.starts_with("tcp,pipelining=880.0,required=380.0,"), "{setting}");
    let mut explain = command(["explain", "--collective", "allreduce", "-n", "48", "--size", "8"]);
    explain.env(name, costs);
    let told = finish(explain).success();
    assert!(told.contains("tcp,pipelining=880,required=380,") && told.contains("+ "), "{told}");
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
    // Over shared memory the model holds at some size, if the machine is not too busy for any; else nothing is kept.
    let ended = run("fit --threads --size 8..1k -n 5 --keep --reps 50");
    if ended.code != Some(0) {
        assert!(ended.err.contains("nothing was kept"), "{ended:?}");
        return assert_eq!(show()["entries"][0]["sizes"][0]["origin"], "assumed");
    }
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
