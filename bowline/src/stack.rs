//! Putting the layers together: from a rank's place in a job to its worker.

use bowline_base::config::{Config, ConfigError, Descriptor, Setting};
use bowline_base::job::JobMemory;
use bowline_model::transport::Costs;
use bowline_multirail::{MultiRail, Rail};
use bowline_receive_queue::{QueueError, with_messages};
use bowline_self::{SelfConfig, SelfIface};
use bowline_shm::{ShmIface, ShmOptions};
use bowline_tcp::{TcpIface, TcpOptions};
use bowline_ucp::{FailureSource, Worker, WorkerError, WorkerParts};
use bowline_uct::{Caps, Iface, OpenError};
use thiserror::Error;

use crate::wait::SystemWaiter;

bowline_base::settings! {
    /// Settings of the choice of transports.
    pub const CHOICE = [
        /// Transports to open, the preferred first, separated by commas: self, shm, tcp, and in
        /// builds with these features ofi (libfabric) and verbs. Empty: self and shm, and tcp if the job has ranks on other hosts.
        pub TRANSPORTS: String = Setting::<String>::text("BOWLINE_TRANSPORTS", "")
            .cost("a network transport that is open is looked at now and then, by a system call")
            .change("leave one out to see whether it is at fault, or to measure another");
        /// Transports that carry the messages to a peer together, the preferred first, separated by
        /// commas: tcp, tcp:eth1 for a network interface by its name, ofi and verbs. Messages go by the
        /// first that works and leads to the peer, long ones are read by all at the same time, and when
        /// one fails the others go on. Alike on all ranks but for the interfaces' names. Empty: none.
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

/// All settings of all layers.
pub const SETTINGS: &[&[Descriptor]] = &[
    bowline_self::SETTINGS,
    bowline_shm::SETTINGS,
    bowline_tcp::SETTINGS,
    #[cfg(feature = "ofi")]
    bowline_ofi::SETTINGS,
    #[cfg(feature = "verbs")]
    bowline_verbs::SETTINGS,
    CHOICE,
    bowline_receive_queue::SETTINGS,
    bowline_ucp::SETTINGS,
    crate::costs::SETTINGS,
    crate::model_file::SETTINGS,
    crate::coll_table::SETTINGS,
    crate::wait::SETTINGS,
    crate::progress::SETTINGS,
    crate::log::SETTINGS,
    crate::report::SETTINGS,
    crate::record::SETTINGS,
    crate::checks::SETTINGS,
    bowline_mpi::COLL_SETTINGS,
];

/// The settings as the environment has them, checked as far as that is possible before transports
/// are opened. The log begins here. Names that mean nothing are warned of once: by the launcher, by rank
/// 0 where the launcher is another's, else here.
///
/// # Errors
/// When a variable has a value that cannot be used; the error names all of them.
pub fn config_from_env() -> Result<Config, ConfigError> {
    restore_signals();
    let config = Config::from_env(SETTINGS)?;
    crate::log::start(&config)?;
    if !bowline_launch::bootstrap::is_started() {
        warn_of_unknown(&config);
    }
    Ok(config)
}

/// Warns of names that mean nothing, once in a process.
pub(crate) fn warn_of_unknown(config: &Config) {
    static WARNED: std::sync::Once = std::sync::Once::new();
    WARNED.call_once(|| {
        for unknown in config.unknown() {
            tracing::warn!("{unknown}");
        }
    });
}

/// Checks the settings whose values are names: those of transports, and paths. What transports are on
/// this machine is seen when they are opened.
///
/// # Errors
/// The first that is bad.
pub fn check(config: &Config) -> Result<(), StackError> {
    check_names(config, |name| {
        let left_out =
            [("ofi", cfg!(not(feature = "ofi"))), ("verbs", cfg!(not(feature = "verbs")))];
        !left_out.contains(&(name, true))
    })?;
    check_paths(config)
}

/// [`check`] for a launcher, before it starts ranks: their program may have been built with more
/// transports, and only if all of them are `here` are the paths those of this machine.
///
/// # Errors
/// As for [`check`].
pub fn check_job(config: &Config, here: bool) -> Result<(), StackError> {
    check_names(config, |_| true)?;
    if here { check_paths(config) } else { Ok(()) }
}

/// `built` says whether a transport that exists is in the build.
fn check_names(config: &Config, built: impl Fn(&str) -> bool) -> Result<(), StackError> {
    let known = |name: &str| ["self", "shm", "tcp", "ofi", "verbs"].contains(&name) && built(name);
    if let Some(name) = names(true, config).into_iter().find(|name| !known(name)) {
        return Err(StackError::NoSuchTransport(name));
    }
    bowline_mpi::CollOptions::from_config(config)?;
    let rails = rail_names(config);
    let is_rail = |name: &str| match name.split_once(':') {
        Some((transport, _)) => transport == "tcp",
        None => !matches!(name, "self" | "shm") && known(name),
    };
    match rails.iter().find(|name| !is_rail(name)) {
        Some(name) => Err(StackError::NoSuchRail(name.clone())),
        None => Ok(()),
    }
}

fn check_paths(config: &Config) -> Result<(), StackError> {
    crate::report::check(config)?;
    crate::record::check(config)?;
    Ok(crate::costs::check(config)?)
}

/// Puts the system's handling of signals back where a library of a network has replaced it by being
/// loaded, so that the launcher hears of the signal that ends a rank.
pub fn restore_signals() {
    #[cfg(feature = "ofi")]
    bowline_ofi::restore_signals();
}

/// Bytes of node memory that each local rank needs.
pub fn area_bytes(config: &Config) -> usize {
    ShmOptions::from_config(config).area_bytes()
}

/// Why a worker could not be put together.
#[derive(Error)]
#[non_exhaustive]
pub enum StackError {
    /// A transport did not open.
    #[error("cannot open the transport {transport}: {source}")]
    Transport {
        /// Its name.
        transport: &'static str,
        /// Why.
        source: OpenError,
    },
    /// A setting has a bad value.
    #[error(transparent)]
    Setting(#[from] ConfigError),
    /// The choice of transports names one that does not exist.
    #[error("BOWLINE_TRANSPORTS names `{0}`; this build has {known}", known = TRANSPORT_NAMES)]
    NoSuchTransport(String),
    /// What is to carry messages together cannot.
    #[error("BOWLINE_RAILS is `{value}`: {source}")]
    Rails {
        /// The setting.
        value: String,
        /// Why.
        source: OpenError,
    },
    /// The setting names a transport that does not carry messages to peers, or does not exist.
    #[error(
        "BOWLINE_RAILS names `{0}`; it takes tcp, tcp:INTERFACE, and ofi and verbs in builds with them"
    )]
    NoSuchRail(String),
    /// An algorithm of collectives does not exist.
    #[error(transparent)]
    Collectives(#[from] bowline_mpi::CollOptionsError),
    /// The table of algorithms cannot be read.
    #[error("BOWLINE_COLL_TABLE: {path}: {why}")]
    Table {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// A transport without messages, or one that was to have a receive queue.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The protocol engine.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// Progress beside the rank.
    #[error(transparent)]
    Progress(#[from] crate::progress::ProgressError),
    /// Where a record is to go.
    #[error(
        "BOWLINE_RECORD: cannot write {path}: {source}; it takes the name of a file, to which each rank adds its number"
    )]
    Record {
        /// The file.
        path: String,
        /// Why it cannot be written.
        source: std::io::Error,
    },
    /// Where reports are to go.
    #[error(
        "BOWLINE_REPORT names {path}, which cannot be appended to: {source}; it takes stderr or a file"
    )]
    Report {
        /// The setting.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// What the transports cost is in a file that is something else.
    #[error(transparent)]
    Costs(#[from] crate::costs::FileError),
    /// What was fitted is in a file that is something else.
    #[error(transparent)]
    Fits(#[from] crate::model_file::FitsError),
    /// No randomness to be had.
    #[error("cannot draw a random number for the worker's identity: {0}")]
    Random(std::io::Error),
}

bowline_base::debug_by_display!(StackError);

/// A rank's place.
#[derive(Clone, Debug)]
pub struct Place {
    /// The node's memory, to which the rank has attached.
    pub job: JobMemory,
    /// Its number on the node.
    pub local: u32,
    /// Its number in the job.
    pub rank: u32,
    /// Whether the job has ranks on other nodes.
    pub spread: bool,
    /// Whether ranks of the node share processors, so that those that wait should sleep.
    pub shared: bool,
    /// By which ranks of the job know each other on a network.
    pub secret: [u8; 32],
}

impl Place {
    /// The place of a rank that is a thread: all of the job are in this process, which draws a
    /// secret once. It has a processor of its own until somebody says otherwise.
    pub fn of_thread(job: &JobMemory, rank: u32) -> Self {
        static SECRET: std::sync::OnceLock<[u8; 32]> = std::sync::OnceLock::new();
        let secret = SECRET.get_or_init(|| {
            let mut secret = [0; 32];
            rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())
                .expect("the system has random numbers");
            secret
        });
        let job = job.clone();
        Self { job, local: rank, rank, spread: false, shared: false, secret: *secret }
    }
}

/// Opens the transports of a rank, the preferred first.
///
/// # Errors
/// When one does not open, or [`TRANSPORTS`] names one that does not exist.
pub fn transports(place: &Place, config: &Config) -> Result<Vec<Box<dyn Iface>>, StackError> {
    names(place.spread, config).iter().map(|name| open(name, place, config)).collect()
}

/// The names of the transports that a rank opens.
fn names(spread: bool, config: &Config) -> Vec<String> {
    let chosen = config.get(TRANSPORTS);
    let usual = if spread { "self,shm,tcp" } else { "self,shm" };
    let names = if chosen.trim().is_empty() { usual } else { &chosen };
    names.split(',').map(|name| name.trim().to_owned()).collect()
}

/// The transports that carry messages within a node, and between nodes or else within it as well: the first of those that
/// can, as [`worker`] has them in order. Rails go by the first of their paths.
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
fn rail_names(config: &Config) -> Vec<String> {
    let value = config.get(RAILS);
    if value.trim().is_empty() {
        return Vec::new();
    }
    value.split(',').map(|name| name.trim().to_owned()).collect()
}

fn open(name: &str, place: &Place, config: &Config) -> Result<Box<dyn Iface>, StackError> {
    let opened: (_, Result<Box<dyn Iface>, _>) = match name {
        "self" => ("self", SelfIface::open(SelfConfig::of(config)).map(|lane| Box::new(lane) as _)),
        "shm" => {
            let options = ShmOptions::from_config(config);
            let lane = ShmIface::open(place.job.clone(), place.local, options);
            ("shm", lane.map(|lane| Box::new(lane) as _))
        }
        "tcp" => {
            let options = TcpOptions::from_config(config, place.secret);
            ("tcp", TcpIface::open(options).map(|lane| Box::new(lane) as _))
        }
        #[cfg(feature = "ofi")]
        "ofi" => {
            let options = bowline_ofi::OfiOptions::from_config(config, place.shared, place.secret);
            ("ofi", bowline_ofi::OfiIface::open(options).map(|lane| Box::new(lane) as _))
        }
        #[cfg(feature = "verbs")]
        "verbs" => {
            let options = bowline_verbs::VerbsOptions::from_config(config, place.secret);
            ("verbs", bowline_verbs::VerbsIface::open(&options).map(|lane| Box::new(lane) as _))
        }
        _ => return Err(StackError::NoSuchTransport(name.to_owned())),
    };
    let (transport, lane) = opened;
    lane.map_err(|source| StackError::Transport { transport, source })
}

/// The transports that carry messages together, if the setting names some.
fn rails(
    place: &Place,
    config: &Config,
    uid: u64,
    costs: &Costs,
) -> Result<Option<MultiRail>, StackError> {
    let value = config.get(RAILS);
    let names = rail_names(config);
    if names.is_empty() {
        return Ok(None);
    }
    let mut all = Vec::new();
    for name in &names {
        let iface: Box<dyn Iface> = match name.split_once(':') {
            Some(("tcp", interface)) => {
                let mut options = TcpOptions::from_config(config, place.secret);
                interface.clone_into(&mut options.interfaces);
                let failed = |source| StackError::Transport { transport: "tcp", source };
                Box::new(TcpIface::open(options).map_err(failed)?)
            }
            None if matches!(name.as_str(), "tcp" | "ofi" | "verbs") => open(name, place, config)?,
            _ => return Err(StackError::NoSuchRail(name.clone())),
        };
        let network = iface.attr().caps.contains(Caps::INTER_NODE);
        all.push(Rail { costs: costs.of(iface.attr().provider, network), iface });
    }
    let opened = MultiRail::open(all, uid);
    opened.map(Some).map_err(|source| StackError::Rails { value: value.clone(), source })
}

/// Makes a rank's worker.
///
/// # Errors
/// When a transport does not open.
pub fn worker(place: &Place, config: &Config, waiter: SystemWaiter) -> Result<Worker, StackError> {
    crate::log::start(config)?;
    check(config)?;
    let mut uid = [0; 8];
    rustix::rand::getrandom(&mut uid, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| StackError::Random(error.into()))?;
    let uid = u64::from_ne_bytes(uid);
    let mut costs = crate::costs::known(config, place.job.ranks(), place.shared);
    let mut lanes = transports(place, config)?;
    if let Some(rails) = rails(place, config, uid, &costs)? {
        rails.learn(&mut costs);
        // In front of each transport that may be a path of theirs, which stays for one-sided
        // operations.
        let mut each = lanes.iter().map(|lane| lane.attr());
        let first = each.position(|attr| attr.caps.contains(Caps::INTER_NODE));
        lanes.insert(first.unwrap_or(lanes.len()), Box::new(rails));
    }
    let lanes = lanes.into_iter().map(|lane| with_messages(lane, config, uid));
    let lanes = lanes.collect::<Result<_, _>>()?;
    let parts = WorkerParts {
        job: place.job.id(),
        rank: place.rank,
        incarnation: 0,
        uid,
        lanes,
        waiter: Box::new(waiter),
        failures: Some(Box::new(JobDeaths(place.job.clone()))),
        config: config.clone(),
    };
    let worker = Worker::with_costs(parts, &costs)?;
    crate::progress::attend(&worker, config)?;
    crate::report::attend(&worker, place.rank, config);
    Ok(worker)
}

/// The deaths that the node's memory records.
#[derive(Debug)]
struct JobDeaths(JobMemory);

impl FailureSource for JobDeaths {
    #[inline]
    fn generation(&self) -> u32 {
        self.0.death_generation()
    }

    fn dead(&self, out: &mut Vec<u32>) {
        for local in self.0.dead() {
            if let Some(identity) = self.0.control(local).and_then(|c| c.identity()) {
                out.push(identity.world_rank);
            }
        }
        out.extend(self.0.dead_elsewhere());
    }
}
