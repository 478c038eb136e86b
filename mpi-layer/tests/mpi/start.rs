//! Starts ranks as threads, like `bowline::threads`, but lets a test say whether the ranks are
//! taken to share processors, since collectives choose other algorithms then.

use std::io::Write as _;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use bowline::stack::{self, RankPlace};
use bowline::wait::SystemWaiter;
use bowline_base::config::Config;
use bowline_base::job::{JobMemory, JobSpec};
use bowline_model::coll::tuned::Tuned;
use bowline_mpi::{CollOptions, Directory, DirectoryError, MpiError, World, WorldParts};
use bowline_ucp::PeerFailure;

/// No test comes near it; a deadlock ends the run with a message instead of a hang.
const WATCHDOG: Duration = Duration::from_secs(180);

/// What a rank records.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Runs `body` as `size` ranks and returns the results in order of rank.
pub(crate) fn ranks<R: Send>(size: usize, body: impl Fn(&World) -> R + Sync) -> Vec<R> {
    ranks_sharing(size, size > 2, &[], body)
}

/// [`ranks`] that have processors of their own, with some settings beside those of the environment.
pub(crate) fn ranks_with<R: Send>(
    size: usize,
    settings: &[(&str, &str)],
    body: impl Fn(&World) -> R + Sync,
) -> Vec<R> {
    ranks_sharing(size, false, settings, body)
}

/// [`ranks`] with and without shared processors.
pub(crate) fn both_ways(size: usize, body: impl Fn(&World) + Sync) {
    both_ways_with(size, &[], body);
}

/// The same with some settings.
pub(crate) fn both_ways_with(size: usize, settings: &[(&str, &str)], body: impl Fn(&World) + Sync) {
    for shared in [false, true] {
        ranks_sharing(size, shared, settings, &body);
    }
}

/// What a rank says that dies in [`ranks_with_death`].
pub(crate) const DEATH: &str = "dies on purpose";

/// [`ranks`] of which one ends by a panic that says [`DEATH`]. A panic of another one fails the test.
pub(crate) fn ranks_with_death(size: usize, victim: usize, body: impl Fn(&World) + Sync) {
    let config = config(&[]);
    let collectives = |_| CollOptions::from_config(&config).expect("settings of collectives");
    let ends = ends_of(size, (|_| size > 2, false), &config, collectives, body);
    for (rank, end) in ends.into_iter().enumerate() {
        match end {
            Err(panic) if rank == victim => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or(panic.downcast_ref::<&str>().copied());
                assert_eq!(text, Some(DEATH), "the victim ended otherwise");
            }
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => assert_ne!(rank, victim, "the victim lives"),
        }
    }
}

fn ranks_sharing<R: Send>(
    size: usize,
    shared: bool,
    settings: &[(&str, &str)],
    body: impl Fn(&World) -> R + Sync,
) -> Vec<R> {
    let config = config(settings);
    let collectives = |_| CollOptions::from_config(&config).expect("settings of collectives");
    ranks_asking(size, shared, &config, collectives, body)
}

fn config(settings: &[(&str, &str)]) -> Config {
    let mut config = stack::config_from_env().expect("the environment has no bad settings");
    for (name, value) in settings {
        config.set_text(name, value).expect("a setting of a test");
    }
    config
}

/// Ranks of which each has a setting of collectives of its own, where none must have.
pub(crate) fn ranks_that_differ<R: Send>(
    shared: bool,
    setting: &str,
    values: &[&str],
    body: impl Fn(&World) -> R + Sync,
) -> Vec<R> {
    let of_rank = |rank: u32| {
        let config = config(&[(setting, values[rank as usize])]);
        CollOptions::from_config(&config).expect("settings of collectives")
    };
    ranks_asking(values.len(), shared, &config(&[]), of_rank, body)
}

/// Ranks with a table of algorithms each.
pub(crate) fn ranks_with_tables<R: Send>(
    size: usize,
    shared: bool,
    table: impl Fn(u32) -> Tuned + Sync,
    body: impl Fn(&World) -> R + Sync,
) -> Vec<R> {
    let config = config(&[]);
    let of_rank = |rank: u32| {
        let mut all = CollOptions::from_config(&config).expect("settings of collectives");
        all.set_table(table(rank));
        all
    };
    ranks_asking(size, shared, &config, of_rank, body)
}

/// Ranks of which each is said something of its own, where none must be: whether ranks share processors, and by what
/// algorithms are chosen, which are costs of two kinds of messages at all of them.
pub(crate) fn ranks_that_see<R: Send>(
    size: usize,
    shared: impl Fn(u32) -> bool + Sync,
    see: impl Fn(u32, &mut CollOptions) + Sync,
    body: impl Fn(&World) -> R + Sync,
) -> Vec<R> {
    let config = config(&[("BOWLINE_COLL_COSTS", "shm/tcp")]);
    let collectives = |rank| {
        let mut all = CollOptions::from_config(&config).expect("settings of collectives");
        see(rank, &mut all);
        all
    };
    let ends = ends_of(size, (shared, true), &config, collectives, body).into_iter();
    ends.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
}

/// Ranks that take themselves to be on these nodes, with some settings.
pub(crate) fn ranks_on_nodes<R: Send>(
    shared: bool,
    nodes: &[u32],
    settings: &[(&str, &str)],
    body: impl Fn(&World) -> R + Sync,
) -> Vec<R> {
    let config = config(settings);
    let collectives = |_| {
        let mut all = CollOptions::from_config(&config).expect("settings of collectives");
        all.set_nodes(nodes);
        all
    };
    ranks_asking(nodes.len(), shared, &config, collectives, body)
}

fn ranks_asking<R: Send>(
    size: usize,
    shared: bool,
    config: &Config,
    collectives: impl Fn(u32) -> CollOptions + Sync,
    body: impl Fn(&World) -> R + Sync,
) -> Vec<R> {
    let ends = ends_of(size, (|_| shared, false), config, collectives, body).into_iter();
    ends.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
}

/// How each rank ends, in order of rank; whether it takes ranks to share processors, and whether ranks may choose
/// algorithms differently, so that collectives of the world need not end.
fn ends_of<R: Send>(
    size: usize,
    (shared, differ): (impl Fn(u32) -> bool + Sync, bool),
    config: &Config,
    collectives: impl Fn(u32) -> CollOptions + Sync,
    body: impl Fn(&World) -> R + Sync,
) -> Vec<std::thread::Result<R>> {
    let spec = JobSpec {
        job_id: 1,
        ranks: size as u32,
        first_rank: 0,
        area_bytes: stack::area_bytes(config),
    };
    let job = JobMemory::create_private(&spec).expect("memory for the ranks");
    let addresses = Arc::new(Mutex::new(vec![Vec::new(); size]));
    let published = Barrier::new(size);
    let watchdog = Watchdog::start();
    let ends = std::thread::scope(|scope| {
        let start = |rank: u32| {
            let (job, addresses) = (job.clone(), Arc::clone(&addresses));
            let (published, collectives, body) = (&published, &collectives, &body);
            let shared = shared(rank);
            move || {
                job.attach(rank).expect("each rank attaches once");
                let _obituary = Obituary { job: job.clone(), rank };
                let waiter = SystemWaiter::new(config);
                waiter.policy().share_processors(true);
                let place = RankPlace { shared: true, ..RankPlace::of_thread(&job, rank) };
                let worker = stack::worker(&place, config, waiter).expect("a worker");
                addresses.lock().unwrap()[rank as usize] = worker.address();
                published.wait();
                let node_id = job.node_id();
                let finalizer = move || job.finalize(rank);
                let world = World::from_parts(WorldParts {
                    worker,
                    rank,
                    size: size as u32,
                    directory: Box::new(Table(addresses)),
                    node_id,
                    oversubscribed: shared,
                    collectives: collectives(rank),
                    finalizer: Some(Box::new(finalizer)),
                })
                .expect("a world");
                let result = body(&world);
                // As at the end of a program: nobody leaves while others still send to it.
                if differ {
                    published.wait();
                    return result;
                }
                let left = world.barrier();
                let known = left.is_ok()
                    || !world.failed().is_empty()
                    || left == Err(MpiError::MemoryOverwritten)
                    // A thread that panics closes its side before its obituary is written.
                    || left == Err(MpiError::PeerFailed(PeerFailure::Closed));
                assert!(known, "a barrier failed for no reason: {left:?}");
                result
            }
        };
        let threads: Vec<_> = (0..size as u32).map(|rank| scope.spawn(start(rank))).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    drop(watchdog);
    ends
}

/// Notifies the others when this rank panics, so that they do not wait for it.
struct Obituary {
    job: JobMemory,
    rank: u32,
}

impl Drop for Obituary {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.job.mark_dead(self.rank);
        }
    }
}

#[derive(Debug)]
struct Table(Arc<Mutex<Vec<Vec<u8>>>>);

impl Directory for Table {
    fn address(&self, world_rank: u32) -> Result<Vec<u8>, DirectoryError> {
        Ok(self.0.lock().unwrap()[world_rank as usize].clone())
    }
}

/// Ends the process when it is not dropped in time.
struct Watchdog(Option<std::sync::mpsc::Sender<()>>);

impl Watchdog {
    fn start() -> Self {
        let (alive, dropped) = std::sync::mpsc::channel::<()>();
        let test = std::thread::current().name().unwrap_or("?").to_owned();
        std::thread::spawn(move || {
            if dropped.recv_timeout(WATCHDOG) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                // Not `eprintln`, which the harness hides from a reader who wants to know the reason.
                let _ = writeln!(std::io::stderr(), "{test} hangs: no end after {WATCHDOG:?}");
                std::process::abort();
            }
        });
        Self(Some(alive))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}
