//! `bowline model`: measurements of few repetitions on every transport, whose fits are there; on the simulated network
//! they are the network's own parameters.

use crate::common::bowline;
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
