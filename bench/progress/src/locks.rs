//! What the lock of a worker costs in each of its modes where nobody contends for it: a lock and unlock, and a message
//! of 8 bytes, sent and received by one thread that has both workers.

use std::hint::black_box;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use bowline::stack::{self, RankPlace};
use bowline::wait::SystemWaiter;
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::job::{JobMemory, JobSpec};
use bowline_base::worker_lock::{Driven, SharedLock, WorkerLock};
use bowline_ucp::{
    DriverKind, Envelope, Ep, LeftToWatch, MatchSpec, ProgressDriver, RequestId, SendMode, Sent,
    SharedWorker, SpaceOptions, WatchedReceive, Worker,
};

use crate::ranks::{Scope, median};
use crate::table::{Cell, Table};

/// Calls of one measurement.
const CALLS: u32 = 100_000;

/// A progress thread or signal handler that never comes: what is left is the lock.
struct Absent;

impl ProgressDriver for Absent {
    fn watch(&mut self, _: WatchedReceive) {}
    fn serve(&mut self) {}
    fn copies_always(&self) -> bool {
        false
    }
    fn pause(&mut self) {}
    fn resume(&mut self, _: LeftToWatch) {}
}

/// A number that threads share.
struct Number(WorkerLock<u64>);

impl Driven for Number {
    type Value = u64;
    type Key = ();
    type ArmedSleep = ();

    fn lock(&self) -> &WorkerLock<u64> {
        &self.0
    }
    fn progress(&mut self) -> u32 {
        0
    }
    fn is_there(&mut self, (): &(), _: bool) -> bool {
        true
    }
    fn arm_sleep(&mut self) -> Option<()> {
        None
    }
    fn end_sleep(&mut self) {}
}

/// The median of some measurements, in ns for a call.
fn each(rounds: usize, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..=rounds {
        let start = Instant::now();
        for _ in 0..CALLS {
            call()?;
        }
        times.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS));
    }
    // The first one warms up.
    Ok(median(times.split_off(1)))
}

fn workers() -> Result<[Worker; 2]> {
    let config = stack::config_from_env()?;
    let area_bytes = stack::area_bytes(&config);
    let job =
        JobMemory::create_private(&JobSpec { job_id: 1, ranks: 2, first_rank: 0, area_bytes })?;
    let make = |rank| {
        job.attach(rank)?;
        let place = RankPlace::of_thread(&job, rank);
        let worker = stack::worker(&place, &config, SystemWaiter::new(&config))?;
        worker.open_space(0, SpaceOptions::default())?;
        anyhow::Ok(worker)
    };
    Ok([make(0)?, make(1)?])
}

fn send(worker: &Worker, to: Ep, word: &[u8; 8]) -> Result<()> {
    // SAFETY: the callers keep the word longer than the worker, and do not touch it after an error.
    let buffer = unsafe { SendBuf::borrowed(word.as_ptr(), word.len()) };
    let envelope = Envelope { space: 0, source: 0, tag: 7 };
    match worker.send(to, envelope, buffer, SendMode::Standard)? {
        Sent::Done => Ok(()),
        other => bail!("a short message is complete at once, yet: {other:?}"),
    }
}

fn receive(worker: &Worker, word: &mut [u8; 8]) -> Result<RequestId> {
    // SAFETY: the callers wait for the request before they touch the word or return.
    let buffer = unsafe { RecvBuf::borrowed(word.as_mut_ptr(), word.len()) };
    let spec = MatchSpec { space: 0, source: Some(0), tag: 7, tag_mask: u64::MAX };
    Ok(worker.recv(spec, buffer)?)
}

/// A message between workers that this thread has.
fn owned(rounds: usize, has_driver: bool) -> Result<f64> {
    let mut word = [1; 8];
    let [a, b] = workers()?;
    let to_b = a.connect(&b.address())?;
    if has_driver {
        for worker in [&a, &b] {
            worker.install_progress(DriverKind::Signal, |_| anyhow::Ok(Box::new(Absent)))?;
        }
    }
    each(rounds, || {
        send(&a, to_b, &word)?;
        let id = receive(&b, &mut word)?;
        b.wait(id).outcome.context("the message is lost")
    })
}

/// A message between workers that several threads may use.
fn shared(rounds: usize) -> Result<f64> {
    let mut word = [1; 8];
    let [a, b] = workers()?.map(SharedWorker::of);
    let to_b = a.with(|a| a.connect(&b.with(Worker::address)))?;
    each(rounds, || {
        a.with(|a| send(a, to_b, &word))?;
        let id = b.with(|b| receive(b, &mut word))?;
        b.wait(id).outcome.context("the message is lost")
    })
}

pub(crate) fn tables(scope: &Scope) -> Result<Vec<Table>> {
    let rounds = if scope.quick { 5 } else { 25 };
    let lock = WorkerLock::new(0_u64);
    let enter = |lock: &WorkerLock<u64>| {
        *black_box(lock).borrow_mut() += 1;
        Ok(())
    };
    let alone = each(rounds, || enter(&lock))?;
    let handle = lock.remote();
    let beside = each(rounds, || enter(&lock))?;
    let remote = each(rounds, || {
        *black_box(&handle).enter() += 1;
        Ok(())
    })?;
    drop(handle);
    let several = SharedLock::new(Number(lock), || {});
    let claim = each(rounds, || {
        black_box(&several).inspect(|number| *number.0.borrow_mut() += 1);
        Ok(())
    })?;
    let mutex = Mutex::new(0_u64);
    let standard = each(rounds, || {
        *black_box(&mutex).lock().unwrap_or_else(std::sync::PoisonError::into_inner) += 1;
        Ok(())
    })?;
    let mut table = Table::new(
        "locks",
        "the lock of a worker where nobody contends for it, in ns",
        &["who uses the worker", "lock and unlock", "message of 8 bytes, sent and received"],
    );
    let message = |ns: Result<f64>| ns.map(Cell::time);
    table.row(vec!["its owner alone".into(), Cell::time(alone), message(owned(rounds, false))?]);
    table.row(vec![
        "its owner, with a progress thread or signal handler beside".into(),
        Cell::time(beside),
        message(owned(rounds, true))?,
    ]);
    table.row(vec!["that thread or handler".into(), Cell::time(remote), Cell::none()]);
    table.row(vec!["several threads".into(), Cell::time(claim), message(shared(rounds))?]);
    table.row(vec!["std's mutex, to compare".into(), Cell::time(standard), Cell::none()]);
    Ok(vec![table])
}
