//! What several tests put in the place of something real: waiters that never wait, a space of all ranks, workers of one
//! lane, and an interface that differs in a point from the one below it. What a test checks is its own.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_base::buffer::RecvBuf;
use bowline_base::config::Config;
use bowline_sim::Network;
use bowline_ucp::{Clock, Ep, Idle, Members, SpaceOptions, Stages, Waiter, Worker, WorkerParts};
use bowline_uct::{
    EpId, Iface, IfaceAttr, LocalSlice, MemError, MemHandle, MemoryDomain, OneSided, PostError,
    Posted, RemoteSlice, SignalSafe, Sink, Token, Wakeup, forward,
};

/// For tests that make progress themselves, with the clock of a network if there is one.
pub(crate) struct Never(pub(crate) Option<Network>);

impl Waiter for Never {
    fn stages(&self) -> Stages {
        Stages { spins: 0, yields: 0 }
    }
    fn clock(&self) -> Option<Clock> {
        let network = self.0.clone()?;
        Some(Box::new(move || Duration::from_nanos(network.now())))
    }
    fn yield_now(&mut self) {}
    fn sleep(&mut self, idle: Idle<'_>) {
        panic!("these tests call nothing that blocks, yet a worker waits for {}", idle.waits);
    }
}

/// Ranks of the space are those of the job.
#[derive(Debug)]
pub(crate) struct Everybody;

impl Members for Everybody {
    fn rank_of(&self, world_rank: u32) -> Option<u32> {
        Some(world_rank)
    }
}

/// A space of which every rank is a member.
pub(crate) fn of_everybody() -> SpaceOptions {
    SpaceOptions { members: Some(Arc::new(Everybody)), ..SpaceOptions::default() }
}

/// Settings of a worker.
pub(crate) fn config(settings: &[(&str, &str)]) -> Config {
    let config = Config::from_pairs(settings.iter().copied(), &[bowline_ucp::SETTINGS]);
    config.expect("the settings are good")
}

/// The parts of the worker of a rank of job 1, which never waits and hears of no death.
pub(crate) fn parts(rank: u32, lane: Box<dyn Iface>, config: &Config) -> WorkerParts {
    WorkerParts {
        job: 1,
        rank,
        incarnation: 0,
        uid: u64::from(rank) + 1,
        lanes: vec![lane],
        waiter: Box::new(Never(None)),
        failures: None,
        config: config.clone(),
    }
}

/// A worker with a space.
pub(crate) fn opened(parts: WorkerParts, space: u32, options: SpaceOptions) -> Worker {
    let worker = Worker::new(parts).expect("one lane is enough");
    worker.open_space(space, options).expect("the space is new");
    worker
}

/// The endpoint of each of two workers to the other.
pub(crate) fn joined(workers: &[Worker; 2]) -> [Ep; 2] {
    [0, 1].map(|rank: usize| {
        workers[rank].connect(&workers[1 - rank].address()).expect("they reach each other")
    })
}

/// Progress of all; time moves on when none had anything to do. Whether anything happened.
pub(crate) fn step(network: &Network, workers: &[Worker]) -> bool {
    let events: u32 = workers.iter().map(Worker::progress).sum();
    events > 0 || network.advance()
}

/// Steps until `done`.
#[track_caller]
pub(crate) fn until(network: &Network, workers: &[Worker], done: impl Fn() -> bool) {
    while !done() {
        let moved = step(network, workers);
        assert!(moved || done(), "nothing is under way, yet it is not done");
    }
}

/// What an interface has lent to peers' writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loans(Arc<Mutex<(HashSet<MemHandle>, u32)>>);

impl Loans {
    fn note(&self, memory: MemHandle, by_handler: bool) {
        let (standing, by_handlers) = &mut *self.0.lock().expect("nobody panics with it");
        standing.insert(memory);
        *by_handlers += u32::from(by_handler);
    }

    fn end(&self, memory: MemHandle) {
        self.0.lock().expect("nobody panics with it").0.remove(&memory);
    }

    /// Those that were not taken back.
    pub(crate) fn standing(&self) -> usize {
        self.0.lock().expect("nobody panics with it").0.len()
    }

    /// Those that signal handlers have made.
    pub(crate) fn by_handlers(&self) -> u32 {
        self.0.lock().expect("nobody panics with it").1
    }
}

/// How often an interface was polled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Polls(Arc<AtomicU32>);

impl Polls {
    /// Since the last call.
    pub(crate) fn take(&self) -> u32 {
        // Relaxed: one thread.
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// An interface with other attributes than the one below, whose reads may find no resources, and which notes what it
/// lends and how often it is polled.
pub(crate) struct Altered<I> {
    iface: I,
    loans: Loans,
    polls: Polls,
    attr: IfaceAttr,
    may_read: fn(u32) -> bool,
    reads: u32,
}

impl<I: Iface> Altered<I> {
    /// `may_read` says it of each read, counted from 1.
    pub(crate) fn new(iface: I, alter: fn(&mut IfaceAttr), may_read: fn(u32) -> bool) -> Self {
        let mut attr = iface.attr().clone();
        alter(&mut attr);
        Self { iface, loans: Loans::default(), polls: Polls::default(), attr, may_read, reads: 0 }
    }

    pub(crate) fn loans(&self) -> Loans {
        self.loans.clone()
    }

    pub(crate) fn polls(&self) -> Polls {
        self.polls.clone()
    }
}

macro_rules! below {
    ($($name:ident)+) => { forward! { [this => this.iface] $($name)+ } };
}

impl<I: Iface> MemoryDomain for Altered<I> {
    below! { md_attr mem_alloc mem_register mem_expose mem_view }
    below! { rkey_pack rkey_unpack rkey_ptr puts_end_last rkey_release rkey_of }

    fn mem_lend(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        self.iface.mem_lend(bytes).inspect(|memory| self.loans.note(*memory, false))
    }

    fn mem_release(&mut self, handle: MemHandle) -> Result<Option<RecvBuf>, MemError> {
        self.loans.end(handle);
        self.iface.mem_release(handle)
    }
}

// SAFETY: all operations are those of the interface below, which keeps the rules, or are not begun.
unsafe impl<I: Iface> Iface for Altered<I> {
    below! { address reachable explain connect source_of disconnect all_sent }
    below! { am_short am_bcopy am_zcopy flush flush_all fence want_writable check invalidate }

    fn attr(&self) -> &IfaceAttr {
        &self.attr
    }

    fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        // Relaxed: one thread.
        self.polls.0.fetch_add(1, Ordering::Relaxed);
        self.iface.progress(sink, budget)
    }
}

impl<I: Iface> OneSided for Altered<I> {
    below! { put_short put_bcopy put_zcopy put_notify get_bcopy atomic }

    fn get_zcopy(
        &mut self,
        ep: EpId,
        to: &[LocalSlice],
        from: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        self.reads += 1;
        if !(self.may_read)(self.reads) {
            return Err(PostError::NoResource);
        }
        self.iface.get_zcopy(ep, to, from, token)
    }
}

impl<I: Iface> Wakeup for Altered<I> {
    below! { doorbell arm disarm event_fd }
}

impl<I: Iface> SignalSafe for Altered<I> {
    below! {
        progress_signal_safe can_post_signal_safe prepare unprepare rkey_unpack_signal_safe get_prepared
    }

    fn lend_signal_safe(&mut self, bytes: LocalSlice) -> Option<MemHandle> {
        self.iface.lend_signal_safe(bytes).inspect(|memory| self.loans.note(*memory, true))
    }
}
