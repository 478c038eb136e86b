//! What runs in the guest: first the transport alone, then the protocol engine over it, then MPI.

/// Something that belongs into the guest.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) package: &'static str,
    /// Cargo's arguments for features.
    pub(super) features: &'static [&'static str],
    /// Environment of its programs.
    pub(super) environment: &'static [(&'static str, &'static str)],
    pub(super) what: What,
}

/// What of a package runs.
#[derive(Debug)]
pub(super) enum What {
    /// Test programs; none named stands for all of them.
    Tests { names: &'static [&'static str], arguments: &'static [&'static str] },
    /// Shell commands with programs of the package, which cargo builds when it is asked to.
    Commands { build: &'static [&'static str], lines: &'static [&'static str] },
}

/// Nothing else leads from rank to rank then.
const OVER_VERBS: &[(&str, &str)] = &[("BOWLINE_TRANSPORTS", "self,verbs")];
const WITH_VERBS: &[&str] = &["--features", "bowline/verbs"];

/// What runs when nothing else is asked for.
pub(super) const USUAL: &[Entry] = &[
    Entry {
        package: "bowline-verbs",
        features: &[],
        environment: &[],
        what: What::Tests { names: &[], arguments: &["--test-threads=2"] },
    },
    // Several rails of which some are devices, and one that is cut off.
    Entry {
        package: "bowline-multirail",
        features: &[],
        environment: &[],
        what: What::Tests { names: &["main"], arguments: &["--test-threads=1", "devices::reads"] },
    },
    // The contract over libfabric's verbs provider, without the three tests that take half of the
    // two minutes of the suite. The devices have few queue pairs.
    Entry {
        package: "bowline-ofi",
        features: &[],
        environment: &[("FI_UNIVERSE_SIZE", "4"), ("BOWLINE_TEST_OFI_PROVIDER", "verbs;ofi_rxm")],
        what: What::Tests {
            names: &["main"],
            arguments: &[
                "--test-threads=2",
                "--skip=atomics::contention_with_the_owner",
                "--skip=model::",
                "conformance::named::",
                "openings::",
            ],
        },
    },
    // Each protocol of the engine, by the sizes between which the protocol changes; `perf` compares
    // every payload with what was sent. Ranks are processes.
    Entry {
        package: "bowline-cli",
        features: &["--features", "bowline-cli/verbs"],
        environment: OVER_VERBS,
        what: What::Commands {
            build: &[
                "--bin",
                "bowline",
                "--package",
                "bowline",
                "--example",
                "ring",
                "--example",
                "pi",
            ],
            lines: &[
                "./bowline perf am_lat --transport verbs --size 0,8,100,6000,100000 --iterations 20",
                "./bowline perf tag_lat --transport verbs --size 0,8,100,6000,100000,1500000 --iterations 20",
                "./bowline perf tag_bw --transport verbs --size 8,6000,100000,1500000 --iterations 3 --window 5",
                "./bowline perf put_lat --transport verbs --size 8,100,6000,100000 --iterations 20",
                "./bowline perf put_bw --transport verbs --size 100000,1500000 --iterations 3 --window 5",
                "./bowline perf get_lat --transport verbs --size 8,6000,100000 --iterations 20",
                "./bowline perf fadd_lat --transport verbs --iterations 50",
                "./bowline perf cswap_lat --transport verbs --iterations 50",
                "BOWLINE_VERBS_MODE=ud ./bowline perf am_lat --transport verbs --size 0,8,100,6000 --iterations 20",
                "BOWLINE_VERBS_MODE=ud ./bowline perf tag_lat --transport verbs --size 8,6000,100000 --iterations 20",
                // Long messages of memory that nobody has registered are read where they lie, unless they are to be written.
                "BOWLINE_REPORT=/tmp/read ./bowline perf tag_lat --transport verbs --size 100000,10000000 --iterations 5 && grep rndv/get /tmp/read",
                "BOWLINE_REPORT=/tmp/put BOWLINE_RNDV_SCHEME=put ./bowline perf tag_lat --transport verbs --size 100000,10000000 --iterations 5 && grep rndv/put /tmp/put",
                // By two devices together, and by a device and sockets: each carries a part of the bytes.
                "BOWLINE_RAILS=verbs:rxe0,verbs:rxe1 BOWLINE_LOG=bowline_multirail=debug BOWLINE_REPORT=/tmp/two ./bowline perf tag_lat --transport verbs --size 100000,3000000 --iterations 5 2>/tmp/two.log && grep rndv/get /tmp/two && grep 'rxe0.* bytes=[1-9]' /tmp/two.log && grep 'rxe1.* bytes=[1-9]' /tmp/two.log",
                "BOWLINE_RAILS=verbs,tcp BOWLINE_LOG=bowline_multirail=debug BOWLINE_REPORT=/tmp/mixed ./bowline perf tag_lat --transport verbs --size 3000000 --iterations 5 2>/tmp/mixed.log && grep rndv/get /tmp/mixed && grep 'rxe0.* bytes=[1-9]' /tmp/mixed.log && grep 'tcp.* bytes=[1-9]' /tmp/mixed.log",
                // Receives that are announced, and messages that are written to them.
                "BOWLINE_RNDV_SCHEME=rtr BOWLINE_RTR_MIN=1 ./bowline perf tag_posted_lat --transport verbs --size 4,100,6000,100000 --iterations 20",
                "BOWLINE_RNDV_SCHEME=rtr BOWLINE_RTR_MIN=1 ./bowline perf tag_posted_bw --transport verbs --size 4,6000,100000 --iterations 3 --window 5",
                // Receive queues over puts and atomics.
                "BOWLINE_RECV_QUEUE=scmp ./bowline perf tag_lat --transport verbs --size 8,6000,100000 --iterations 20",
                "BOWLINE_RECV_QUEUE=ring ./bowline perf tag_lat --transport verbs --size 8,6000,100000 --iterations 20",
                "BOWLINE_RECV_QUEUE=scmp-rings ./bowline perf tag_lat --transport verbs --size 8,6000,100000 --iterations 20",
                "BOWLINE_RECV_QUEUE=scmp-seq ./bowline perf tag_lat --transport verbs --size 8,6000,100000 --iterations 20",
                // The parameters of the network model, from multicasts to two receivers. Every payload is checked.
                "./bowline model fit --transport verbs --ranks 3 --reps 20 --size 8,1k",
                "./bowline run -n 4 ./ring",
                "./bowline run -n 3 ./pi 10000",
            ],
        },
    },
    // Ranks that are processes and are killed in the midst of things. The other cases want what a
    // rank has sent to arrive after it was killed, which a device does not promise. Of those with a
    // transport in their names that are much alike (long messages and short ones, early and late deaths)
    // one runs here, since starting the ranks of each takes seconds; all of them run with
    // `--package bowline-tests --test processes -- _over_verbs`.
    Entry {
        package: "bowline-tests",
        features: &["--features", "bowline-tests/verbs"],
        environment: OVER_VERBS,
        what: What::Tests {
            names: &["processes"],
            arguments: &[
                "kill::killed_",
                "_over_verbs",
                "--skip=::all_live_",
                "--skip=_when_flags_are_raised_",
                "--skip=::a_chosen_sender_is_killed_over_",
                "--skip=::dies_before_it_writes_",
                "--skip=::killed_while_it_writes_over_",
                "--skip=::killed_while_it_writes_short_",
                "--skip=::killed_while_its_announced_",
            ],
        },
    },
    // Reads that begin and end while their ranks compute.
    Entry {
        package: "bowline-tests",
        features: &["--features", "bowline-tests/verbs"],
        environment: &[],
        what: What::Tests { names: &["progress"], arguments: &["devices::"] },
    },
    // Messages of all kinds, collectives in the background, damage and deaths over MPI. The other MPI tests repeat
    // themselves for numbers of ranks, roots, layouts and algorithms, which nothing of the transport changes, and making
    // the connections anew for each takes minutes there: they run over tcp. All of them run with `--package bowline-mpi`.
    Entry {
        package: "bowline-mpi",
        features: WITH_VERBS,
        environment: OVER_VERBS,
        what: What::Tests {
            names: &["main"],
            arguments: &[
                "--test-threads=1",
                "mpi::background::",
                "mpi::damage::",
                "mpi::deaths::",
                "mpi::messages::",
                "mpi::mixed::",
                "mpi::persistent::",
                "mpi::probes::",
                "mpi::requests::",
            ],
        },
    },
];

/// The features and the environment with which the tests of `package` are run.
pub(super) fn of_package(package: &str) -> Option<&'static Entry> {
    let tests = |entry: &&Entry| matches!(entry.what, What::Tests { .. });
    USUAL.iter().filter(tests).find(|entry| entry.package == package)
}
