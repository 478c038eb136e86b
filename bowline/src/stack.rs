//! Putting the layers together: from a rank's place in a job to its worker.

use bowline_base::config::{Config, ConfigError, Descriptor};
use bowline_base::job::JobMemory;
use bowline_model::transport::KnownCosts;
use bowline_multirail::{MultiRail, Rail};
use bowline_receive_queue::with_messages;
use bowline_self::{SelfConfig, SelfIface};
use bowline_shm::{ShmIface, ShmOptions};
use bowline_tcp::{TcpIface, TcpOptions};
use bowline_ucp::{FailureSource, Worker, WorkerParts};
use bowline_uct::{Caps, Iface};

use crate::choice::{names, rail_names};
use crate::wait::SystemWaiter;

pub(crate) use crate::choice::asks_for_processors;
pub use crate::choice::{CHOICE, RAILS, TRANSPORT_NAMES, TRANSPORTS, shares_memory};
pub use crate::error::StackError;

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
    let mut named = names(true, config);
    if let Some(name) = named.iter().find(|name| !known(name)) {
        return Err(StackError::NoSuchTransport(name.clone()));
    }
    named.sort_unstable();
    if let Some(pair) = named.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(StackError::TransportTwice(pair[0].clone()));
    }
    bowline_mpi::CollOptions::from_config(config)?;
    let rails = rail_names(config);
    let is_rail = |name: &str| match name.split_once(':') {
        Some((transport, _)) => matches!(transport, "tcp" | "verbs") && known(transport),
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

/// A rank's place.
#[derive(Clone, Debug)]
pub struct RankPlace {
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

impl RankPlace {
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
pub fn transports(place: &RankPlace, config: &Config) -> Result<Vec<Box<dyn Iface>>, StackError> {
    names(place.spread, config).iter().map(|name| open(name, place, config)).collect()
}

fn open(name: &str, place: &RankPlace, config: &Config) -> Result<Box<dyn Iface>, StackError> {
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
    place: &RankPlace,
    config: &Config,
    uid: u64,
    costs: &KnownCosts,
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
                options.interfaces_setting = RAILS.name();
                let failed = |source| StackError::Transport { transport: "tcp", source };
                Box::new(TcpIface::open(options).map_err(failed)?)
            }
            #[cfg(feature = "verbs")]
            Some(("verbs", device)) => {
                let mut options = bowline_verbs::VerbsOptions::from_config(config, place.secret);
                device.clone_into(&mut options.device);
                let failed = |source| StackError::Transport { transport: "verbs", source };
                Box::new(bowline_verbs::VerbsIface::open(&options).map_err(failed)?)
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
pub fn worker(
    place: &RankPlace,
    config: &Config,
    waiter: SystemWaiter,
) -> Result<Worker, StackError> {
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
    crate::progress::attend(&worker, config, place.spread)?;
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
