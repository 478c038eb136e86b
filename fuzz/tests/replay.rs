//! Runs every target over its seeds, over every beginning of them, and over each of them with one
//! byte changed, on any compiler.

use std::path::PathBuf;

fn seeds(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    let entries = std::fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{} has no seeds: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

fn replay(target: &str) {
    let seeds = seeds(target);
    assert!(!seeds.is_empty(), "{target} has no seeds");
    for (path, bytes) in seeds {
        println!("{}", path.display());
        bowline_fuzz::run(target, &bytes);
        // Long seeds are cut and changed in steps, so that a replay takes seconds.
        let step = bytes.len().div_ceil(200).max(1);
        for at in (0..bytes.len()).step_by(step) {
            bowline_fuzz::run(target, &bytes[..at]);
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            bowline_fuzz::run(target, &changed);
        }
    }
}

macro_rules! replays {
    ($($target:ident)*) => {
        $(
            #[test]
            fn $target() {
                replay(stringify!($target));
            }
        )*

        #[test]
        fn no_target_is_left_out() {
            let replayed = [$(stringify!($target)),*];
            for (name, _) in bowline_fuzz::TARGETS {
                assert!(replayed.contains(name), "{name} is not replayed");
                let program = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz_targets");
                let program = format!("{program}/{name}.rs");
                assert!(std::path::Path::new(&program).is_file(), "{program} is missing");
            }
        }
    };
}

replays! {
    addr_reader
    agent_messages
    config
    introduction
    multirail
    ofi_address
    ofi_message
    ofi_rkey
    pmi_client
    pmi_server
    process_mapping
    published_values
    queue_address
    queue_introduction
    programs
    records
    ring_consumer
    scmp_consumer
    shared_offer
    shm_address
    shm_guest
    shm_rkey
    tables
    tcp_frames
    tcp_handshake
    verbs_address
    verbs_control
    verbs_messages
    ucp_arrivals
    ucp_rkey
    worker_address
}
