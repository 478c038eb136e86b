//! The choice of transports, as settings have it. They are opened in [`stack`](crate::stack).

use bowline_base::config::{Config, Setting};

bowline_base::settings! {
    /// Settings of the choice of transports.
    pub const CHOICE = [
        /// Transports to open, the preferred first, separated by commas: self, shm, tcp, and in
        /// builds with these features ofi (libfabric) and verbs. Empty: self and shm, and tcp if the job has ranks on other hosts.
        pub TRANSPORTS: String = Setting::<String>::text("BOWLINE_TRANSPORTS", "")
            .cost("a network transport that is open is polled now and then, by a system call")
            .change("leave one out to see whether it is at fault, or to measure another");
        /// Transports that carry the messages to a peer together, the preferred first, separated by
        /// commas: tcp, tcp:eth1 for a network interface by its name, ofi, verbs, and verbs:mlx5_1 for a device by its name. Messages go by the
        /// first that works and leads to the peer, long ones are read by all at the same time, and when
        /// one fails the others go on. What is named twice has two connections. Alike on all ranks but for
        /// the names of interfaces and devices. Empty: none.
        pub RAILS: String = Setting::<String>::text("BOWLINE_RAILS", "")
            .cost("16 bytes more for each message, an acknowledgement now and then, and up to 1 MiB for each peer of what it has not acknowledged")
            .change("name two networks of your hosts where one is too slow, or must be allowed to fail: tcp:eth0,tcp:eth1");
    ];
}

/// The transports of this build, as [`TRANSPORTS`] names them.
pub const TRANSPORT_NAMES: &str = match (cfg!(feature = "ofi"), cfg!(feature = "verbs")) {
    (false, false) => "self, shm and tcp",
    (true, false) => "self, shm, tcp and ofi",
    (false, true) => "self, shm, tcp and verbs",
    (true, true) => "self, shm, tcp, ofi and verbs",
};

/// The names of the transports that a rank opens.
pub(crate) fn names(spread: bool, config: &Config) -> Vec<String> {
    let chosen = config.get(TRANSPORTS);
    let usual = if spread { "self,shm,tcp" } else { "self,shm" };
    let names = if chosen.trim().is_empty() { usual } else { &chosen };
    names.split(',').map(|name| name.trim().to_owned()).collect()
}

/// The transports that carry messages within a node, and between nodes or else within it as well: the first of those that
/// can, as [`worker`](crate::stack::worker) has them in order. Rails go by the first of their paths.
pub(crate) fn carriers(spread: bool, config: &Config) -> Option<[&'static str; 2]> {
    const CARRIERS: [&str; 4] = ["shm", "tcp", "ofi", "verbs"];
    let of = |names: Vec<String>| -> Vec<&'static str> {
        let transport = |name: &String| name.split(':').next().map(str::to_owned);
        let known = |name: String| CARRIERS.into_iter().find(|carrier| *carrier == name);
        names.iter().filter_map(transport).filter_map(known).collect()
    };
    let (mut all, rails) = (of(names(spread, config)), of(rail_names(config)));
    if !rails.is_empty() {
        let first = all.iter().position(|name| *name != "shm").unwrap_or(all.len());
        all.splice(first..first, rails);
    }
    let near = *all.first()?;
    let far = all.iter().copied().find(|name| *name != "shm");
    Some([near, if spread { far? } else { near }])
}

/// Whether ranks of one node have memory that they share.
pub fn shares_memory(config: &Config) -> bool {
    names(false, config).iter().any(|name| name == "shm")
}

/// Whether a transport will be opened that wants to know whether ranks share processors.
pub(crate) fn asks_for_processors(spread: bool, config: &Config) -> bool {
    let of_rails = rail_names(config);
    let all = names(spread, config);
    cfg!(feature = "ofi") && all.iter().chain(&of_rails).any(|name| name == "ofi")
}

/// The transports that are to carry messages together.
pub(crate) fn rail_names(config: &Config) -> Vec<String> {
    let value = config.get(RAILS);
    if value.trim().is_empty() {
        return Vec::new();
    }
    value.split(',').map(|name| name.trim().to_owned()).collect()
}
