//! How far the C library of MPI checks arguments.

use bowline_base::config::{Config, Setting};

bowline_base::settings! {
    /// Settings of the C library of MPI.
    pub const SETTINGS = [
        /// Whether functions of MPI in C check for errors of arguments that take time to find: buffers
        /// that are nowhere, datatypes that were not committed, and, before a wait for several requests,
        /// handles that are none. Without, a program that makes such an error may crash.
        pub MPI_CHECKS: bool = Setting::<bool>::switch("BOWLINE_MPI_CHECKS", true)
            .cost("a few instructions for each message, and a test of each request of a list")
            .change("off for programs that are known to be right");
    ];
}

/// Whether they do.
pub fn wanted(config: &Config) -> bool {
    config.get(MPI_CHECKS)
}
