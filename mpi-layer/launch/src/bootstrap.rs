//! What a rank calls first: who it is, who is beside it, and the memory they share.
//!
//! ```text
//!   PMI_FD, BOWLINE_JOB_FD  bowline run: the memory is inherited, the launcher reports deaths
//!   PMI_FD                  another PMI-1 manager: the lowest rank of each node makes the memory,
//!                           the others take its descriptor; each watches the others' pidfds
//!   PMIX_NAMESPACE          a PMIx manager: the same, by libpmix, which is opened for it
//!   PMI_PORT                an error: calling the manager by TCP is not spoken
//!   none of them            a world of one rank
//! ```
//!
//! [`bootstrap`] attaches the rank to the memory. What the ranks exchange next (transport
//! addresses) goes through the [`Kvs`], and is sure to be seen after a barrier. It starts no
//! transport and prints nothing.

pub(crate) mod env;
mod error;
mod foreign;
mod kvs;
mod passing;
mod pidfds;
mod pmix;
pub(crate) mod secret;
mod share;
mod watch;

pub use error::BootError;
pub use kvs::Kvs;
pub use share::Route;
pub use watch::DeathWatch;

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use bowline_base::job::{JobMemory, JobSpec};
use bowline_base::sync::atomic::{AtomicBool, Ordering};
use rustix::io::FdFlags;

use crate::pmi::Client;
use env::Environment;
use kvs::LocalKvs;

/// Bytes that some rank has published, in the decoders of those who take them. Whatever they are,
/// what is read can be written and read again.
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub fn take_published(bytes: &[u8]) {
    pmix::take_any(bytes);
    share::take_any(bytes);
}

/// What the caller needs.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Need {
    /// Bytes of each rank's area; what the transport asks for.
    pub area_bytes: usize,
    /// How to take the memory's descriptor from the rank that made it, where nobody inherited it.
    pub route: Route,
}

impl Need {
    /// `area_bytes` for each rank, and any route.
    pub fn area(area_bytes: usize) -> Self {
        Self { area_bytes, route: Route::Any }
    }
}

/// By whom the rank was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartedBy {
    /// `bowline run`.
    Bowline,
    /// Another process manager, by PMI-1 or PMIx.
    Foreign,
    /// Nobody.
    Alone,
}

/// A rank that has joined its job. Dropping it leaves the job in order, except during a panic,
/// which peers are to see as this rank's death.
#[non_exhaustive]
pub struct Bootstrap {
    /// Rank in the whole job.
    pub rank: u32,
    /// Ranks of the whole job.
    pub size: u32,
    /// Rank among those of this node.
    pub local_rank: u32,
    /// Ranks on this node.
    pub local_size: u32,
    /// The ranks on this node, by local rank.
    pub locals: Vec<u32>,
    /// This rank's instance in the job's memory.
    pub instance: u64,
    /// The memory of this node's ranks.
    pub job: JobMemory,
    /// Known to the ranks of this job only, the same for all of them: they prove to each other by
    /// it who they are where a network lies between them. The launcher draws it, or rank 0 where
    /// the launcher is another's. It travels by the process manager and is never printed.
    pub secret: [u8; 32],
    /// What ranks exchange at the start.
    pub kvs: Box<dyn Kvs>,
    /// Present where no launcher marks the dead: the rank must call it now and then.
    pub death_watch: Option<DeathWatch>,
    /// By whom the rank was started.
    pub started_by: StartedBy,
    finished: bool,
    pid: u32,
}

/// Whether the environment speaks of a job that this process is to join, or says that it would if
/// the manager's language were spoken.
pub fn is_started() -> bool {
    let env = Environment::of_process();
    [env::PMI_FD, env::PMI_PORT, env::PMIX_NAMESPACE].into_iter().any(|name| env.has(name))
}

/// Joins the job that the environment speaks of. Once per process, from any thread.
///
/// Under `bowline run` the other ranks may not have attached yet when it returns; a barrier of
/// the [`Kvs`] after this call says that they have.
///
/// # Errors
/// When the environment is damaged, the manager or a peer does not answer as it should, or the
/// memory cannot be had. The rank is not part of the job then.
pub fn bootstrap(need: &Need) -> Result<Bootstrap, BootError> {
    static DONE: AtomicBool = AtomicBool::new(false);
    // Relaxed: decides between callers and publishes nothing.
    if DONE.swap(true, Ordering::Relaxed) {
        return Err(BootError::Twice);
    }
    let env = Environment::of_process();
    let pmix = env.has(env::PMIX_NAMESPACE);
    // A PMIx manager that runs as a rank of a PMI-1 manager passes its variables on, but not the
    // descriptor.
    if env.has(env::PMI_FD) && (!pmix || is_open_socket(&env)) {
        let client = Client::connect(take_descriptor(&env, env::PMI_FD)?)?;
        // A launcher that runs as a rank of `bowline run` passes on variables that are not meant
        // for its own ranks; whose they are is in the manager's key-value space.
        if env.has(env::JOB_FD) && client.kvsname() == env::kvsname(env.hex(env::JOB_ID)?) {
            inherited(&env, client, need)
        } else {
            foreign::join(&env, client, need)
        }
    } else if pmix {
        foreign::join_pmix(need)
    } else if env.has(env::PMI_PORT) {
        Err(BootError::Unsupported(
            "the process manager passes a port (PMI_PORT) instead of a descriptor; start the \
             program with bowline run, or with Hydra without -pmi-port",
        ))
    } else {
        alone(need)
    }
}

/// Whether the descriptor of the PMI-1 connection is a socket.
fn is_open_socket(env: &Environment) -> bool {
    let link = env.number::<i32>(env::PMI_FD).ok();
    let target = link.and_then(|fd| std::fs::read_link(format!("/proc/self/fd/{fd}")).ok());
    target.is_some_and(|target| target.to_string_lossy().starts_with("socket:"))
}

/// A rank of `bowline run`.
fn inherited(env: &Environment, mut client: Client, need: &Need) -> Result<Bootstrap, BootError> {
    let rank: u32 = env.number(env::PMI_RANK)?;
    let size: u32 = env.number(env::PMI_SIZE)?;
    let local_rank: u32 = env.number(env::LOCAL_RANK)?;
    let local_size: u32 = env.number(env::LOCAL_SIZE)?;
    let id = env.hex(env::JOB_ID)?;
    let job = JobMemory::open(take_descriptor(env, env::JOB_FD)?)?;
    if job.id() != id || job.ranks() != local_size {
        return Err(BootError::WrongMemory(format!(
            "the inherited memory is of job {:016x} with {} ranks, the environment speaks of job \
             {id:016x} with {local_size}",
            job.id(),
            job.ranks()
        )));
    }
    check_area(&job, need)?;
    let secret = secret::received(&mut client)?;
    let kvs = Box::new(client);
    // The launcher gives each node consecutive ranks.
    let first = rank.checked_sub(local_rank).filter(|_| local_rank < local_size);
    let first = first.filter(|first| first.checked_add(local_size).is_some_and(|end| end <= size));
    let first = first.ok_or_else(|| BootError::Environment {
        name: env::LOCAL_RANK,
        value: local_rank.to_string(),
        expected: "which does not go with rank and sizes",
    })?;
    let locals = (first..first + local_size).collect();
    let started_by = StartedBy::Bowline;
    Bootstrap::attach(Parts { rank, size, local_rank, locals, job, secret, kvs, started_by })
}

/// A rank that nobody started.
fn alone(need: &Need) -> Result<Bootstrap, BootError> {
    let mut id = [0; 8];
    rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| BootError::System { act: "draw a random job id", source: e.into() })?;
    let job = JobMemory::create_private(&JobSpec {
        job_id: u64::from_ne_bytes(id),
        ranks: 1,
        first_rank: 0,
        area_bytes: need.area_bytes,
    })?;
    Bootstrap::attach(Parts {
        rank: 0,
        size: 1,
        local_rank: 0,
        locals: vec![0],
        job,
        secret: secret::draw()
            .map_err(|e| BootError::System { act: "draw a random secret", source: e.into() })?,
        kvs: Box::new(LocalKvs::default()),
        started_by: StartedBy::Alone,
    })
}

/// What is known of a rank before it attaches.
struct Parts {
    rank: u32,
    size: u32,
    local_rank: u32,
    locals: Vec<u32>,
    job: JobMemory,
    secret: [u8; 32],
    kvs: Box<dyn Kvs>,
    started_by: StartedBy,
}

impl std::fmt::Debug for Bootstrap {
    /// All but the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bootstrap")
            .field("rank", &self.rank)
            .field("size", &self.size)
            .field("local_rank", &self.local_rank)
            .field("locals", &self.locals)
            .field("job", &self.job)
            .field("started_by", &self.started_by)
            .finish_non_exhaustive()
    }
}

impl Bootstrap {
    fn attach(parts: Parts) -> Result<Self, BootError> {
        let Parts { rank, size, local_rank, locals, job, secret, kvs, started_by } = parts;
        if let Some(control) = job.control(local_rank) {
            // Relaxed: published by the state that `attach` stores.
            control.identity.world_rank.store(rank, Ordering::Relaxed);
        }
        let instance = job.attach(local_rank)?;
        Ok(Self {
            rank,
            size,
            local_rank,
            local_size: job.ranks(),
            locals,
            instance,
            job,
            secret,
            kvs,
            death_watch: None,
            started_by,
            finished: false,
            pid: std::process::id(),
        })
    }

    /// Leaves the job in order: the memory first, then the process manager. In a forked child, which
    /// is no rank, it does nothing.
    ///
    /// # Errors
    /// When the process manager has gone. The rank has left the memory nevertheless.
    pub fn finalize(&mut self) -> Result<(), BootError> {
        if std::process::id() != self.pid || std::mem::replace(&mut self.finished, true) {
            return Ok(());
        }
        self.job.finalize(self.local_rank);
        Ok(self.kvs.finalize()?)
    }
}

impl Drop for Bootstrap {
    fn drop(&mut self) {
        // A panicking rank has died.
        if self.finished || std::thread::panicking() {
            return;
        }
        if let Err(error) = self.finalize() {
            tracing::warn!(%error, "cannot leave the job in order");
        }
    }
}

fn check_area(job: &JobMemory, need: &Need) -> Result<(), BootError> {
    if job.area_bytes() < need.area_bytes {
        return Err(BootError::WrongMemory(format!(
            "the launcher reserved {} bytes for each rank, this program needs {}; use one version \
             and one configuration of Bowline for the launcher and all ranks",
            job.area_bytes(),
            need.area_bytes
        )));
    }
    Ok(())
}

/// Takes over an inherited descriptor, which children of this rank do not inherit any more.
fn take_descriptor(env: &Environment, name: &'static str) -> Result<OwnedFd, BootError> {
    let fd: i32 = env.number(name)?;
    let closed = |_| BootError::Descriptor { name, fd };
    if fd < 0 {
        return Err(closed(rustix::io::Errno::BADF));
    }
    // SAFETY: the handle is used for one call, which fails on a descriptor that is not open.
    rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(fd) }, FdFlags::CLOEXEC)
        .map_err(closed)?;
    // SAFETY: the descriptor is open, was inherited for this purpose by the variable's contract,
    // and is taken once, since `bootstrap` runs once per process.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The region's descriptor of memory that was made for sharing.
fn memory_fd(job: &JobMemory) -> BorrowedFd<'_> {
    job.region().fd().expect("memory made by create_memfd has a descriptor")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_alone_is_a_world() {
        let mut boot = alone(&Need::area(5000)).unwrap();
        assert_eq!((boot.rank, boot.size, boot.local_rank, boot.local_size), (0, 1, 0, 1));
        assert_eq!(boot.started_by, StartedBy::Alone);
        assert!(boot.job.area(0).unwrap().len() >= 5000);
        assert_ne!(boot.secret, [0; 32]);
        assert!(!format!("{boot:?}").contains("secret"));
        boot.kvs.put("key", b"value").unwrap();
        boot.kvs.barrier().unwrap();
        assert_eq!(boot.kvs.get("key").unwrap(), b"value");
        assert!(boot.kvs.get("other").is_err());
        let job = boot.job.clone();
        drop(boot);
        let state = job.control(0).unwrap().state();
        assert_eq!(state, Some(bowline_base::job::RankState::Finalized));
    }

    #[test]
    fn a_panicking_rank_does_not_finalise() {
        let boot = alone(&Need::default()).unwrap();
        let job = boot.job.clone();
        std::thread::spawn(move || {
            let _boot = boot;
            panic!("as a failing rank does");
        })
        .join()
        .unwrap_err();
        let state = job.control(0).unwrap().state();
        assert_eq!(state, Some(bowline_base::job::RankState::Attached));
    }

    #[test]
    fn closed_descriptors_are_named() {
        let env = Environment::of([(env::PMI_FD, "987654")]);
        let error = take_descriptor(&env, env::PMI_FD).unwrap_err();
        assert!(matches!(error, BootError::Descriptor { name: "PMI_FD", fd: 987654 }));
        let env = Environment::of([(env::PMI_FD, "-1")]);
        assert!(take_descriptor(&env, env::PMI_FD).is_err());
    }
}
