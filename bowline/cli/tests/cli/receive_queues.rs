//! Real processes whose messages go by receive queues, over every transport that this build and
//! this machine have: `bowline perf` compares every payload.

use crate::common::{command, finish};
use bowline_uct::conformance::skipped;
use serde_json::Value;

/// Sizes in every range in which layers change the protocol.
const SIZES: &str = "8,100,6000,100000";

fn queued(args: &[&str], settings: &[(&str, &str)]) -> String {
    let mut command = command(args);
    command.env("BOWLINE_RECV_QUEUE", "scmp").envs(settings.iter().copied());
    finish(command).success()
}

fn perf(settings: &[(&str, &str)]) {
    // The queue is there, and it is what leads to the peer.
    let said = queued(&["explain"], settings);
    let form = settings.iter().find(|(name, _)| *name == "BOWLINE_RECV_QUEUE");
    let form = form.map_or("scmp", |(_, form)| form);
    assert!(said.contains(&format!("receive queue ({form},")), "{settings:?}: {said}");
    for test in ["mpi_lat", "mpi_bw"] {
        let args = ["perf", test, "--size", SIZES, "--iterations", "20", "--warmup", "2", "--json"];
        let figures: Value = serde_json::from_str(&queued(&args, settings)).unwrap();
        assert_eq!(figures.as_array().unwrap().len(), 4, "{settings:?} {test}: {figures}");
    }
}

#[test]
fn over_shared_memory() {
    perf(&[("BOWLINE_TRANSPORTS", "self,shm")]);
}

#[test]
fn over_shared_memory_by_small_queues() {
    perf(&[("BOWLINE_TRANSPORTS", "self,shm"), ("BOWLINE_RECV_QUEUE_SLOTS", "16")]);
}

#[test]
fn over_shared_memory_by_rings() {
    perf(&[("BOWLINE_TRANSPORTS", "self,shm"), ("BOWLINE_RECV_QUEUE", "ring")]);
}

#[test]
fn over_shared_memory_by_queues_with_rings() {
    perf(&[("BOWLINE_TRANSPORTS", "self,shm"), ("BOWLINE_RECV_QUEUE", "scmp-rings")]);
}

#[test]
fn over_shared_memory_by_sealed_queues() {
    perf(&[("BOWLINE_TRANSPORTS", "self,shm"), ("BOWLINE_RECV_QUEUE", "scmp-seq")]);
    perf(&[
        ("BOWLINE_TRANSPORTS", "self,shm"),
        ("BOWLINE_RECV_QUEUE", "scmp-seq"),
        ("BOWLINE_RECV_QUEUE_SLOTS", "16"),
    ]);
}

#[test]
fn over_tcp() {
    for form in ["scmp", "ring", "scmp-rings", "scmp-seq"] {
        perf(&[("BOWLINE_TRANSPORTS", "self,tcp"), ("BOWLINE_RECV_QUEUE", form)]);
    }
}

/// With atomics by the target's progress, and with libfabric's own, which are not coherent with the
/// processor's: the consumer flips through a connection to itself then.
#[test]
fn over_libfabric() {
    if !cfg!(feature = "ofi") {
        return skipped("this build has no libfabric; build with --features ofi");
    }
    for provider in ["tcp", "shm"] {
        for (atomics, form) in [
            ("emulated", "scmp"),
            ("auto", "scmp"),
            ("auto", "ring"),
            ("auto", "scmp-rings"),
            ("emulated", "scmp-seq"),
            ("auto", "scmp-seq"),
        ] {
            let settings = [
                ("BOWLINE_RECV_QUEUE", form),
                ("BOWLINE_TRANSPORTS", "self,ofi"),
                ("BOWLINE_OFI_ATOMICS", atomics),
                ("BOWLINE_OFI_PROVIDER", provider),
            ];
            perf(&settings);
        }
    }
}
