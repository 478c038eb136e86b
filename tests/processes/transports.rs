//! What the ranks of a job talk over, and over nothing else: shared memory, sockets, libfabric's sockets, and RDMA devices. Not
//! here: cases over several of them, or over rails.
//!
//! A case over what this build or this machine lacks says so and is skipped. Devices are those of the guest of `cargo xtask guest`,
//! where they must be there.

use bowline_uct::conformance::skipped;

use crate::Case;

pub(crate) type Settings = &'static [(&'static str, &'static str)];

#[derive(Debug)]
pub(crate) struct Transport {
    /// By which the names of its cases end.
    name: &'static str,
    settings: Settings,
    /// Why nothing runs over it here, if so.
    missing: fn() -> Option<&'static str>,
    /// Whether what a rank has sent arrives if the rank is killed right after that. A device has what was posted to it until it goes
    /// out, and drops it with the queue pairs of a process that ends.
    pub(crate) arrives_after_death: bool,
}

pub(crate) const TRANSPORTS: &[Transport] = &[
    Transport {
        name: "shm",
        settings: &[("BOWLINE_TRANSPORTS", "self,shm")],
        missing: || None,
        arrives_after_death: true,
    },
    Transport {
        name: "tcp",
        settings: &[("BOWLINE_TRANSPORTS", "self,tcp")],
        missing: || None,
        arrives_after_death: true,
    },
    Transport {
        name: "ofi",
        settings: &[("BOWLINE_TRANSPORTS", "self,ofi"), ("BOWLINE_OFI_PROVIDER", "tcp")],
        missing: || {
            (!cfg!(feature = "ofi"))
                .then_some("this build has no libfabric; build with --features ofi")
        },
        arrives_after_death: true,
    },
    Transport {
        name: "verbs",
        settings: &[("BOWLINE_TRANSPORTS", "self,verbs")],
        missing: || {
            if !cfg!(feature = "verbs") {
                return Some("this build has no verbs; build with --features verbs");
            }
            (!in_guest()).then_some("it is for the guest, which has two RDMA devices")
        },
        arrives_after_death: false,
    },
];

/// Whether this is the guest, whose emulated processors are slow: programs with many rounds have fewer there.
pub(crate) fn in_guest() -> bool {
    std::env::var_os("BOWLINE_TEST_GUEST").is_some()
}

impl Transport {
    /// The case of this name over this transport.
    pub(crate) fn case(
        &'static self,
        name: &str,
        run: impl Fn(&str, Settings) -> Result<(), String> + 'static,
    ) -> Case {
        let name = format!("{name}_over_{}", self.name);
        Case::new(name.clone(), move || match (self.missing)() {
            Some(why) => {
                skipped(why);
                Ok(())
            }
            None => run(&name, self.settings),
        })
    }
}

/// The case of a name that [`Transport::case`] has made.
pub(crate) fn case_of(name: &str) -> Option<&str> {
    TRANSPORTS.iter().find_map(|over| name.strip_suffix(over.name)?.strip_suffix("_over_"))
}
