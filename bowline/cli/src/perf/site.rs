//! A rank without MPI: its place in the job, and what it needs to find its peers. This is how a
//! program that uses the protocol engine or a transport directly gets started.

use std::process::ExitCode;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use bowline::stack::{self, RankPlace};
use bowline::ucp::Worker;
use bowline::wait::SystemWaiter;
use bowline_base::config::Config;
use bowline_base::job::{JobMemory, JobSpec};
use bowline_launch::bootstrap::{Bootstrap, Need, bootstrap};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A rank that has joined its job.
pub(crate) struct Site {
    place: RankPlace,
    ranks: u32,
    config: Config,
    board: Board,
}

/// Where ranks exchange what they need to know at the start.
enum Board {
    /// The launcher's store, and how often it was used.
    Launcher(Box<Bootstrap>, u32),
    /// A table of this process.
    Threads(Arc<Table>),
}

impl Site {
    /// Joins the job that the launcher started.
    ///
    /// # Errors
    /// When the launcher does not answer as it should.
    pub(crate) fn of_process(config: &Config) -> Result<Self> {
        let boot = bootstrap(&Need::area(stack::area_bytes(config)))?;
        let place = RankPlace {
            job: boot.job.clone(),
            local: boot.local_rank,
            rank: boot.rank,
            spread: boot.local_size != boot.size,
            shared: false,
            secret: boot.secret,
        };
        let ranks = boot.size;
        let board = Board::Launcher(Box::new(boot), 0);
        let mut site = Self { place, ranks, config: config.clone(), board };
        // Ranks share processors if there are fewer in all their affinity masks together, which
        // the node's memory adds up.
        site.place.job.add_processors(own_numbers()?);
        site.publish(&[])?;
        site.place.shared = site.place.job.ranks() > site.place.job.processors();
        Ok(site)
    }

    pub(crate) fn rank(&self) -> u32 {
        self.place.rank
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The rank on the other side; of one rank, itself.
    pub(crate) fn peer(&self) -> u32 {
        (self.rank() + 1) % self.ranks
    }

    pub(crate) fn job(&self) -> &JobMemory {
        &self.place.job
    }

    pub(crate) fn place(&self) -> &RankPlace {
        &self.place
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Whether ranks share processors.
    pub(crate) fn shares_processors(&self) -> bool {
        self.place.shared
    }

    /// A worker for this rank; one can be made.
    ///
    /// # Errors
    /// When a transport does not open.
    pub(crate) fn worker(&self) -> Result<Worker> {
        let waiter = SystemWaiter::new(&self.config);
        waiter.policy().share_processors(self.place.shared);
        let worker = stack::worker(&self.place, &self.config, waiter)?;
        worker.share_processors(self.place.shared);
        Ok(worker)
    }

    /// Publishes `mine`; all ranks have published when it returns. Collective.
    ///
    /// # Errors
    /// When a rank or the launcher has gone.
    pub(crate) fn publish(&mut self, mine: &[u8]) -> Result<Round> {
        match &mut self.board {
            Board::Launcher(boot, round) => {
                *round += 1;
                boot.kvs.put(&key(*round, self.place.rank), mine)?;
                boot.kvs.barrier()?;
                Ok(Round(*round))
            }
            Board::Threads(table) => table.publish(self.place.rank, mine),
        }
    }

    /// What a rank has published.
    ///
    /// # Errors
    /// When the launcher has gone.
    pub(crate) fn published(&mut self, round: Round, rank: u32) -> Result<Vec<u8>> {
        match &mut self.board {
            Board::Launcher(boot, _) => Ok(boot.kvs.get(&key(round.0, rank))?),
            Board::Threads(table) => Ok(table.published(round, rank)),
        }
    }

    /// Makes the failure of any rank one of all: the lowest that failed gets its error, the others nothing. So it is
    /// reported once. Collective.
    ///
    /// # Errors
    /// `mine`, at the lowest rank that has one; or when a rank or the launcher has gone.
    pub(crate) fn together<T>(&mut self, mine: Result<T>) -> Result<Option<T>> {
        let failed: &[u8] = if mine.is_err() { b"failed" } else { b"" };
        let outcomes = self.swap(failed)?;
        match outcomes.iter().position(|outcome| !outcome.is_empty()) {
            None => mine.map(Some),
            Some(first) if first == self.rank() as usize => mine.map(Some),
            Some(_) => Ok(None),
        }
    }

    /// Gives all ranks `mine`; returns what each gave, by rank. Collective.
    ///
    /// # Errors
    /// When a rank or the launcher has gone.
    pub(crate) fn swap(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let round = self.publish(mine)?;
        (0..self.ranks).map(|rank| self.published(round, rank)).collect()
    }
}

/// One collective publication.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round(u32);

fn key(round: u32, rank: u32) -> String {
    format!("perf-{round}-{rank}")
}

/// Runs `rank_main` as threads of this process.
///
/// # Errors
/// The first failure of a rank.
///
/// # Panics
/// When a rank panicked.
pub(crate) fn threads(
    ranks: u32,
    config: &Config,
    rank_main: impl Fn(Site) -> Result<ExitCode> + Sync,
) -> Result<ExitCode> {
    let spec = JobSpec {
        job_id: u64::from(std::process::id()),
        ranks,
        first_rank: 0,
        area_bytes: stack::area_bytes(config),
    };
    let job = JobMemory::create_private(&spec)?;
    let table = Arc::new(Table::new(ranks));
    let shared = ranks as usize > bowline::wait::processors();
    let run = |rank| {
        let leaving = Leaving { job: &job, table: &table, rank, in_order: false };
        bind(rank, ranks)?;
        job.attach(rank)?;
        let site = Site {
            place: RankPlace { shared, ..RankPlace::of_thread(&job, rank) },
            ranks,
            config: config.clone(),
            board: Board::Threads(Arc::clone(&table)),
        };
        leaving.after(rank_main(site))
    };
    std::thread::scope(|scope| {
        let run = &run;
        let started: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || run(rank))).collect();
        let ended: Vec<_> = started.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        let mut code = ExitCode::SUCCESS;
        for result in ended {
            code = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok(code)
    })
}

/// A rank that ends otherwise than in order is dead to the others.
struct Leaving<'a> {
    job: &'a JobMemory,
    table: &'a Table,
    rank: u32,
    in_order: bool,
}

impl Leaving<'_> {
    fn after<T>(mut self, result: Result<T>) -> Result<T> {
        self.in_order = result.is_ok();
        result
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if self.in_order {
            self.job.finalize(self.rank);
        } else {
            self.job.mark_dead(self.rank);
            self.table.abandon();
        }
    }
}

/// What threads exchange.
struct Table {
    entries: Mutex<Entries>,
    changed: Condvar,
}

struct Entries {
    /// What each rank has said, in order.
    said: Vec<Vec<Vec<u8>>>,
    /// How often each rank has asked.
    asked: Vec<usize>,
    abandoned: bool,
}

impl Table {
    fn new(ranks: u32) -> Self {
        let said = vec![Vec::new(); ranks as usize];
        let entries = Entries { said, asked: vec![0; ranks as usize], abandoned: false };
        Self { entries: Mutex::new(entries), changed: Condvar::new() }
    }

    fn publish(&self, rank: u32, mine: &[u8]) -> Result<Round> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let round = entries.asked[rank as usize];
        entries.asked[rank as usize] += 1;
        entries.said[rank as usize].push(mine.to_vec());
        self.changed.notify_all();
        while entries.said.iter().any(|said| said.len() <= round) {
            if entries.abandoned {
                bail!("another rank has failed");
            }
            entries = self.changed.wait(entries).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(Round(round as u32))
    }

    fn published(&self, round: Round, rank: u32) -> Vec<u8> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.said[rank as usize][round.0 as usize].clone()
    }

    fn abandon(&self) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).abandoned = true;
        self.changed.notify_all();
    }
}

/// Binds this thread to the processor of its rank, if there are enough of them for all ranks.
///
/// # Errors
/// When the system refuses.
pub(crate) fn bind(rank: u32, ranks: u32) -> Result<()> {
    let allowed = own_numbers()?;
    if ranks as usize > allowed.len() {
        return Ok(());
    }
    let mut own = CpuSet::new();
    own.set(allowed[rank as usize]);
    sched_setaffinity(None, &own).context("cannot bind a rank to its processor")
}

fn own_numbers() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("cannot learn the processors of this process")?;
    Ok((0..CpuSet::MAX_CPU).filter(|&number| set.is_set(number)).collect())
}
