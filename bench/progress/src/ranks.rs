//! Two ranks, threads of this program, each on a processor of its own, over one of the lanes and in
//! one of the modes; and what a rank computes.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use bowline::mpi::{CollOptions, Directory, DirectoryError, World, WorldParts};
use bowline::progress;
use bowline::stack::{self, RankPlace, SETTINGS, area_bytes};
use bowline::wait::SystemWaiter;
use bowline_base::config::Config;
use bowline_base::job::{JobMemory, JobSpec};
use bowline_bench::{DelayedNetwork, RelayOptions};
use bowline_receive_queue::with_messages;
use bowline_shm::{ShmIface, ShmOptions};
use bowline_ucp::{Counters, Worker, WorkerParts};
use bowline_uct::Iface;
use rustix::io::Errno;
use rustix::thread::{ClockId, CpuSet, Timespec, clock_nanosleep_absolute};
use rustix::time::clock_gettime;

use crate::carrier::{Carrier, CarrierOptions};

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// A thread that stands for a network card reads on its own.
    Carrier,
    /// The same, which writes, too.
    Writer,
    /// The processors of the ranks copy.
    Shm,
    /// Sockets of this machine.
    Tcp,
    /// The same between two hosts, whose packets take a time to each other.
    Hosts,
    /// The same, for ranks whose computation takes no processor: packets and their delay take one.
    HostsElsewhere,
    /// libfabric, by its provider of sockets.
    Ofi,
    /// RDMA devices, one for each rank where there are several.
    Verbs,
    /// The same, for ranks whose computation takes no processor: what an emulated device does takes one.
    VerbsElsewhere,
}

/// What is measured, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// Fewer rounds and sizes.
    pub(crate) quick: bool,
    /// Over these, of the thesis' experiments.
    pub(crate) lanes: Vec<Lane>,
}

impl Scope {
    /// The lanes of what has no computation that could be elsewhere.
    pub(crate) fn lanes_here(&self) -> impl Iterator<Item = Lane> {
        self.lanes.iter().copied().filter(|lane| !lane.is_elsewhere())
    }
}

impl Lane {
    /// Those of the thesis' experiments where nobody asks for others.
    pub(crate) const USUAL: [Self; 2] = [Self::Carrier, Self::Shm];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Carrier => "carrier",
            Self::Writer => "carrier that writes",
            Self::Shm => "shm",
            Self::Tcp => "tcp",
            Self::Hosts => "hosts",
            Self::HostsElsewhere => "hosts, elsewhere",
            Self::Ofi => "ofi",
            Self::Verbs => "verbs",
            Self::VerbsElsewhere => "verbs, elsewhere",
        }
    }

    pub(crate) const fn is_verbs(self) -> bool {
        matches!(self, Self::Verbs | Self::VerbsElsewhere)
    }

    /// Whether the ranks' computation takes no processor.
    pub(crate) const fn is_elsewhere(self) -> bool {
        matches!(self, Self::HostsElsewhere | Self::VerbsElsewhere)
    }

    /// Whether its ranks are on two hosts.
    pub(crate) const fn joins_hosts(self) -> bool {
        matches!(self, Self::Hosts | Self::HostsElsewhere)
    }

    /// Whether what carries a message takes none of the ranks' time for its bytes.
    pub(crate) const fn carries(self) -> bool {
        matches!(self, Self::Carrier | Self::Writer) || self.is_verbs()
    }

    /// How long the computation is that hides a message. An emulated device, on emulated processors, takes ten times as
    /// long as others for one.
    pub(crate) const fn computed(self) -> Duration {
        if self.is_verbs() { Duration::from_millis(10) } else { Duration::from_millis(1) }
    }

    /// That computation.
    pub(crate) fn work(self) -> Work {
        match self {
            lane if lane.is_elsewhere() => Work::Elsewhere(lane.computed()),
            lane => Work::of(lane.computed()),
        }
    }
}

/// The modes, the one that is compared with first.
pub(crate) const MODES: [&str; 3] = ["none", "pef", "thread"];

/// The card: far slower than memory, so that its copies, which a real one would not take a processor
/// for, take little of the ranks' time.
pub(crate) const CARD: CarrierOptions =
    CarrierOptions { latency: Duration::from_micros(5), bandwidth: 0.25e9, writes: false };

/// Messages are offered from here on, as in the thesis (chapter 3, the platform of figures 3.6 to 3.9).
pub(crate) const THRESHOLD: &str = "9180";

#[derive(Debug, Default)]
struct Addresses {
    known: Mutex<HashMap<u32, Vec<u8>>>,
    changed: Condvar,
}

impl Addresses {
    fn publish(&self, rank: u32, address: Vec<u8>) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(rank, address);
        self.changed.notify_all();
    }
}

#[derive(Debug)]
struct Book(Arc<Addresses>);

impl Directory for Book {
    fn address(&self, rank: u32) -> Result<Vec<u8>, DirectoryError> {
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(address) = known.get(&rank) {
                return Ok(address.clone());
            }
            let waited = self.0.changed.wait_timeout(known, Duration::from_secs(10));
            let (next, end) = waited.unwrap_or_else(PoisonError::into_inner);
            if end.timed_out() {
                return Err(format!("rank {rank} did not start").into());
            }
            known = next;
        }
    }
}

/// In place of a mode: none, and a message is copied by its receiver alone.
pub(crate) const ALONE: &str = "alone";

/// Runs `body` as ranks of one job and returns what they return.
pub(crate) fn run<R: Send>(
    ranks: u32,
    lane: Lane,
    mode: &str,
    body: impl Fn(&World) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    run_with(ranks, (lane, None), mode, &[], body)
}

/// The same with some settings more, and each rank on a host of its own where there is a network of them.
pub(crate) fn run_with<R: Send>(
    ranks: u32,
    places: (Lane, Option<&DelayedNetwork>),
    mode: &str,
    more: &[(&'static str, &str)],
    body: impl Fn(&World) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let counted = run_counted(ranks, places, mode, more, body)?;
    Ok(counted.into_iter().map(|(result, _)| result).collect())
}

/// The same, and what the worker of each rank has counted in all.
pub(crate) fn run_counted<R: Send>(
    ranks: u32,
    (lane, network): (Lane, Option<&DelayedNetwork>),
    mode: &str,
    more: &[(&'static str, &str)],
    body: impl Fn(&World) -> Result<R> + Sync,
) -> Result<Vec<(R, Counters)>> {
    let mut settings = vec![("BOWLINE_PROGRESS", mode), ("BOWLINE_RNDV_THRESHOLD", THRESHOLD)];
    settings.extend_from_slice(more);
    if mode == ALONE {
        settings[0].1 = MODES[0];
        settings.push(("BOWLINE_COOPERATE", "1GiB"));
    }
    match lane {
        Lane::Tcp | Lane::Hosts | Lane::HostsElsewhere => {
            settings.push(("BOWLINE_TRANSPORTS", "self,tcp"));
        }
        Lane::Ofi => {
            let sockets = [("BOWLINE_TRANSPORTS", "self,ofi"), ("BOWLINE_OFI_PROVIDER", "tcp")];
            settings.extend(sockets);
        }
        Lane::Verbs | Lane::VerbsElsewhere => {
            settings.push(("BOWLINE_TRANSPORTS", "self,verbs"));
        }
        Lane::Carrier | Lane::Writer | Lane::Shm => {}
    }
    let own_network = match (lane.joins_hosts(), network) {
        (true, None) => {
            let all: Vec<usize> = (0..bowline::wait::processors()).collect();
            let options = RelayOptions::default();
            Some(DelayedNetwork::make(ranks as usize, &all, &options).context("no hosts")?)
        }
        _ => None,
    };
    let network = own_network.as_ref().or(network);
    let devices = if lane.is_verbs() { devices()? } else { Vec::new() };
    if devices.iter().any(|device| device.starts_with(SOFT_ROCE)) {
        settings.extend([("BOWLINE_WAIT_SPINS", "0"), ("BOWLINE_WAIT_YIELDS", "0")]);
    }
    let config = Config::from_pairs(settings, SETTINGS)?;
    let job_id = u64::from(std::process::id());
    let area_bytes = area_bytes(&config);
    let job = JobMemory::create_private(&JobSpec { job_id, ranks, first_rank: 0, area_bytes })?;
    let addresses = Arc::new(Addresses::default());
    let own_config = |rank: u32| -> Result<Config> {
        let mut own = config.clone();
        if !devices.is_empty() {
            let device = &devices[rank as usize % devices.len()];
            own.set_text("BOWLINE_VERBS_DEVICE", device).context("this build has no verbs")?;
        }
        Ok(own)
    };
    let (own_config, addresses, body, job) = (&own_config, &addresses, &body, &job);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks)
            .map(|rank| {
                scope.spawn(move || {
                    if let Some(network) = network {
                        network.enter(rank as usize)?;
                    }
                    let (world, counted) =
                        join(rank, ranks, lane, &own_config(rank)?, addresses, job)?;
                    world.barrier()?;
                    let result = body(&world)?;
                    world.barrier()?;
                    drop(world);
                    let counters = counted.try_recv().context("a worker has not ended")?;
                    Ok((result, counters))
                })
            })
            .collect();
        let ended = |thread: std::thread::ScopedJoinHandle<'_, Result<(R, Counters)>>| {
            thread.join().unwrap_or_else(|_| Err(anyhow!("a rank has panicked")))
        };
        threads.into_iter().map(ended).collect()
    })
}

/// How devices are called whose work the kernel does, on the ranks' processors: a rank that polled while it waits would
/// take from its device what it waits for.
const SOFT_ROCE: &str = "rxe";

/// The machine's RDMA devices.
fn devices() -> Result<Vec<String>> {
    let listed = std::fs::read_dir("/sys/class/infiniband").context("there is no RDMA device")?;
    let mut names = Vec::new();
    for entry in listed {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    ensure!(!names.is_empty(), "there is no RDMA device");
    Ok(names)
}

/// A rank, and where its worker leaves what it has counted when the world is dropped.
fn join(
    rank: u32,
    size: u32,
    lane: Lane,
    config: &Config,
    addresses: &Arc<Addresses>,
    job: &JobMemory,
) -> Result<(World, mpsc::Receiver<Counters>)> {
    let shared = size as usize > bowline::wait::processors();
    job.attach(rank)?;
    let waiter = SystemWaiter::new(config);
    waiter.policy().share_processors(shared);
    let worker = match lane {
        Lane::Tcp
        | Lane::Hosts
        | Lane::HostsElsewhere
        | Lane::Ofi
        | Lane::Verbs
        | Lane::VerbsElsewhere => {
            bind(rank as usize);
            let spread = lane.joins_hosts();
            let place = RankPlace { shared, spread, ..RankPlace::of_thread(job, rank) };
            stack::worker(&place, config, waiter)?
        }
        Lane::Shm | Lane::Carrier | Lane::Writer => {
            let shm = Box::new(ShmIface::open(job.clone(), rank, ShmOptions::from_config(config))?);
            let lane: Box<dyn Iface> = match lane {
                Lane::Carrier | Lane::Writer => {
                    let writes = lane == Lane::Writer;
                    Box::new(Carrier::open(shm, CarrierOptions { writes, ..CARD })?)
                }
                _ => shm,
            };
            // Behind the card, which may be anywhere, and before a helper, which stays with its rank.
            bind(rank as usize);
            let uid = job.node_id() ^ u64::from(rank + 1);
            let worker = Worker::new(WorkerParts {
                job: job.id(),
                rank,
                incarnation: 0,
                uid,
                lanes: vec![with_messages(lane, config, uid)?],
                waiter: Box::new(waiter),
                failures: None,
                config: config.clone(),
            })?;
            progress::attend(&worker, config, false)?;
            worker
        }
    };
    let (counts, counted) = mpsc::channel();
    worker.at_end(Box::new(move |counters, _| {
        // Nobody receives where the rank has failed.
        let _ = counts.send(counters.clone());
    }));
    addresses.publish(rank, worker.address());
    let directory = Box::new(Book(Arc::clone(addresses)));
    let node_id = job.node_id();
    let parts = WorldParts {
        worker,
        rank,
        size,
        directory,
        node_id,
        oversubscribed: shared,
        collectives: CollOptions::from_config(config)?,
        finalizer: None,
    };
    let world = World::from_parts(parts).context("cannot make the world")?;
    Ok((world, counted))
}

fn bind(rank: usize) {
    let mut set = CpuSet::new();
    set.set(rank % bowline::wait::processors());
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        eprintln!("cannot bind rank {rank} to a processor: {error}");
    }
}

/// A computation of a known length, which calls nothing of the library.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// On the rank's processor.
    Loops(u64),
    /// On another one, for which the rank's thread sleeps.
    Elsewhere(Duration),
}

impl Work {
    /// As many loops as take `time` on an idle processor.
    pub(crate) fn of(time: Duration) -> Self {
        const PROBE: u64 = 2_000_000;
        let timed = || {
            let start = Instant::now();
            Self::Loops(PROBE).go();
            start.elapsed()
        };
        let fastest = (0..20).map(|_| timed()).min().unwrap_or(Duration::ZERO);
        Self::Loops((PROBE as f64 * time.as_secs_f64() / fastest.as_secs_f64().max(1e-9)) as u64)
    }

    pub(crate) fn go(self) {
        let loops = match self {
            Self::Loops(loops) => loops,
            Self::Elsewhere(time) => return sleep(time),
        };
        let mut value = 1u64;
        for _ in 0..loops {
            value = std::hint::black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (value >> 29));
        }
    }
}

/// Sleeps until then, whatever signal handlers do meanwhile: the time that they take is not added.
fn sleep(time: Duration) {
    let now = clock_gettime(ClockId::Monotonic);
    let nanoseconds = now.tv_nsec + time.as_nanos() as i64;
    let end = Timespec {
        tv_sec: now.tv_sec + nanoseconds / 1_000_000_000,
        tv_nsec: nanoseconds % 1_000_000_000,
    };
    while clock_nanosleep_absolute(ClockId::Monotonic, &end) == Err(Errno::INTR) {}
}

/// The median.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
