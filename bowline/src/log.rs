//! The setting of the log. Events go through `tracing`; who listens is up to the program. The
//! `bowline` command listens itself and filters by this setting.

use bowline_base::config::Setting;

bowline_base::settings! {
    /// Settings of the log.
    pub const SETTINGS = [
        /// Which events the `bowline` command and the ranks that it runs itself write to their
        /// standard error stream: off, error, warn, info, debug, trace, or a list such as
        /// `warn,bowline_ucp=debug`.
        pub LOG: String = Setting::<String>::text("BOWLINE_LOG", "warn")
            .cost("time for every event that is written")
            .change("when something does not go as expected");
    ];
}
