//! `bowline info`.

use crate::common::{bowline, command, finish};
use serde_json::Value;

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&bowline(args).success()).unwrap()
}

#[test]
fn the_machine_is_described() {
    let report = json(&["info", "--json"]);
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    let machine = &report["machine"];
    assert!(machine["kernel"].as_str().unwrap().starts_with("Linux "));
    assert!(!machine["processors_allowed"].as_array().unwrap().is_empty());
    assert!(machine["memory_bytes"].as_u64().unwrap() > 0);
    assert!(machine["membarrier"].is_boolean());
    let cma = machine["cross_memory_attach"].as_str().unwrap();
    assert!(cma == "works" || cma.starts_with("refused: "), "{cma}");
    assert!(report["settings"].is_null());

    let text = bowline(["info"]).success();
    for part in ["kernel", "processors allowed", "membarrier", "transport shm", "transport self"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn transports_show_their_limits() {
    let report = json(&["info", "--transports", "--json"]);
    let transports = report["transports"].as_array().unwrap();
    let names: Vec<_> = transports.iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(names[..3], ["self", "shm", "tcp"]);
    for transport in transports {
        let open = &transport["open"];
        assert!(open["active_messages"]["max_short"].as_u64().unwrap() >= 8, "{transport}");
        let can = open["capabilities"].as_array().unwrap();
        assert!(can.iter().any(|name| name == "am_short"), "{transport}");
    }
    let text = bowline(["info", "--transports"]).success();
    assert!(text.contains("active messages") && !text.contains("kernel"), "{text}");
}

#[test]
fn a_transport_that_cannot_open_says_why() {
    // It is enough for what is printed, and not for the memory of one rank.
    let mut limited = std::process::Command::new("sh");
    let bowline = env!("CARGO_BIN_EXE_bowline");
    limited.args(["-c", &format!("ulimit -f 1000; exec {bowline} info --transports --json")]);
    let report: Value = serde_json::from_str(&finish(limited).success()).unwrap();
    let shm = &report["transports"][1];
    assert_eq!(shm["name"], "shm");
    let reason = shm["absent"]["reason"].as_str().unwrap();
    assert!(reason.contains("file size limit"), "{reason}");
}

#[test]
fn settings_have_value_origin_form_and_cost() {
    let mut asked = command(["info", "--config", "--json"]);
    asked.env("BOWLINE_WAIT_YIELDS", "17").env("BOWLINE_WAIT_YELDS", "18");
    let report: Value = serde_json::from_str(&finish(asked).success()).unwrap();
    let settings = report["settings"].as_array().unwrap();
    let of = |name: &str| settings.iter().find(|s| s["name"] == name).unwrap();
    let yields = of("BOWLINE_WAIT_YIELDS");
    assert_eq!(yields["value"], "17");
    assert_eq!(yields["origin"], "environment");
    assert_eq!(of("BOWLINE_WAIT_SPINS")["origin"], "default");
    for setting in settings {
        for key in ["form", "meaning", "cost", "change"] {
            assert!(!setting[key].as_str().unwrap().is_empty(), "{key} of {setting}");
        }
        // A text may be empty.
        for key in ["value", "default"] {
            let shown = setting[key].as_str().unwrap();
            assert!(!shown.is_empty() || setting["form"] == "text", "{key} of {setting}");
        }
    }
    let unknown = report["unknown"][0].as_str().unwrap();
    assert!(unknown.contains("BOWLINE_WAIT_YELDS"), "{unknown}");
    assert!(bowline(["info", "--config"]).success().contains("cost: "));
}

#[test]
fn unknown_options_are_refused() {
    let err = bowline(["info", "--verbose"]).failure(2);
    assert!(err.contains("--verbose"), "{err}");
}

#[test]
fn negative_numbers_are_refused_as_values() {
    for line in [
        "run -n -2 true",
        "perf tag_lat --size -4",
        "perf tag_lat --iterations -1",
        "explain --size -3",
        "fennel allreduce -n -1",
        "demo sort words.txt -n -4",
    ] {
        let err = bowline(line.split(' ')).failure(2);
        assert!(err.contains("invalid value '-"), "{line}: {err}");
    }
}

#[test]
fn a_program_has_its_negative_arguments() {
    let said = bowline(["run", "-n", "1", "echo", "-5", "--size", "-6"]).success();
    assert!(said.contains("-5 --size -6"), "{said}");
}
