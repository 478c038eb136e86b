//! The scheduler: the threads of all ranks wait here but one.
//!
//! ```text
//!            drawn                          sleep: nothing to do, woken by the network
//!   Ready ──────────► Running ──┬─────────► Asleep ──┐
//!     ▲                         ├─ polled in vain ─► Polling (ready when time has moved)
//!     │                         └─ ended ──► Ended   │
//!     └──────────────────────────────────────────────┘
//! ```
//! Rules: (1) one rank runs; only it changes the network, so a run depends on the seed
//! alone. (2) It draws the next one when it stops. (3) Time moves when nobody is ready,
//! and by chance a little earlier. (4) When nobody is ready, nothing is under way and all pollers
//! have polled many times, nothing will ever happen: every sleeper is asked what it waits for,
//! then everybody is cut off from the network, which fails what they wait for.

use std::io::Write as _;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use bowline_sim::{Network, Random};

use super::SimulatedJob;

/// One of so many draws moves time although somebody is ready.
const SLOWNESS: u64 = 8;

/// Polls in vain after which a rank lets others run; the last one before a sleep counts.
const EMPTY_POLLS: u32 = 3;

/// Polls of pollers, with nothing else to run, after which they count as waiting for nothing.
const POLLS: u32 = 20_000;

/// Why a program does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// All ranks wait and nothing is under way.
    Deadlock,
    /// The limit of virtual time has passed.
    TimeLimit,
}

/// A program that does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Why.
    pub why: Why,
    /// The virtual time, in ns.
    pub at_ns: u64,
    /// What each rank waits for.
    pub ranks: Vec<String>,
}

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.why {
            Why::Deadlock => "all ranks wait and nothing is under way",
            Why::TimeLimit => "the limit of virtual time has passed",
        };
        write!(f, "at {} ns {what}", self.at_ns)?;
        for (rank, waits) in self.ranks.iter().enumerate() {
            write!(f, "\n  rank {rank}: {waits}")?;
        }
        Ok(())
    }
}

/// Where a rank stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Ready,
    Running,
    Polling,
    Asleep,
    Ended,
}

#[derive(Debug)]
struct Rank {
    place: Place,
    empty_polls: u32,
    /// What it waits for, once it was asked.
    waits: Option<String>,
}

#[derive(Debug)]
struct State {
    ranks: Vec<Rank>,
    running: Option<u32>,
    random: Random,
    woken: Vec<u32>,
    polls: u32,
    limit_ns: u64,
    /// Why nothing goes on, from when that was found.
    why: Option<(Why, u64)>,
    stuck: Option<Stuck>,
}

/// Which rank of a job runs.
#[derive(Debug)]
pub(super) struct Scheduler {
    label: String,
    network: Network,
    state: Mutex<State>,
    may_run: Vec<Condvar>,
}

impl Scheduler {
    pub(super) fn new(network: &Network, job: &SimulatedJob) -> Self {
        let rank = || Rank { place: Place::Ready, empty_polls: 0, waits: None };
        let state = State {
            ranks: (0..job.ranks).map(|_| rank()).collect(),
            running: None,
            // A sequence of its own, so that the network's does not depend on the order of ranks.
            random: Random::new(job.network.seed ^ 0x7475_726e_7300_0000),
            woken: Vec::new(),
            polls: 0,
            limit_ns: job.limit_ns,
            why: None,
            stuck: None,
        };
        Self {
            label: job.label.clone(),
            network: network.clone(),
            state: Mutex::new(state),
            may_run: (0..job.ranks).map(|_| Condvar::new()).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ranks will not take part.
    pub(super) fn without(&self, ranks: std::ops::Range<u32>) {
        let mut state = self.lock();
        for rank in ranks {
            self.network.kill(rank);
            state.ranks[rank as usize].place = Place::Ended;
        }
    }

    /// Lets the first rank run.
    pub(super) fn start(&self) {
        let mut state = self.lock();
        self.hand_over(&mut state);
    }

    /// Waits until a rank runs for the first time.
    pub(super) fn begin(&self, rank: u32) {
        let state = self.lock();
        drop(self.wait_to_run(state, rank));
    }

    /// A rank has ended.
    pub(super) fn finish(&self, rank: u32) {
        let mut state = self.lock();
        state.ranks[rank as usize].place = Place::Ended;
        self.hand_over(&mut state);
    }

    /// The progress of a rank found nothing.
    pub(super) fn polled_in_vain(&self, rank: u32) {
        let mut state = self.lock();
        if state.running != Some(rank) {
            // Not in its thread yet, or after its end.
            return;
        }
        let polls = &mut state.ranks[rank as usize].empty_polls;
        *polls += 1;
        if *polls >= EMPTY_POLLS {
            drop(state);
            self.poll(rank);
        }
    }

    /// Lets others run; the rank has not finished what it is about.
    pub(super) fn poll(&self, rank: u32) {
        let mut state = self.lock();
        state.ranks[rank as usize].empty_polls = 0;
        drop(self.let_others_run(state, rank, Place::Polling));
    }

    /// Lets others run until something happens to the rank. `waits` says what it waits for.
    pub(super) fn sleep(&self, rank: u32, waits: impl Fn() -> String) {
        let mut state = self.lock();
        state.ranks[rank as usize].empty_polls = 0;
        // It has just polled: what woke it before is seen to.
        self.wake(&mut state);
        loop {
            state = self.let_others_run(state, rank, Place::Asleep);
            if state.why.is_none() || state.ranks[rank as usize].waits.is_some() {
                return;
            }
            // Asked what it waits for. The lock is held: the answer needs the worker alone.
            state.ranks[rank as usize].waits = Some(waits());
        }
    }

    /// Why the program did not go on, if it did not.
    pub(super) fn stuck(&self) -> Option<Stuck> {
        self.lock().stuck.clone()
    }

    fn let_others_run<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        rank: u32,
        place: Place,
    ) -> MutexGuard<'a, State> {
        state.ranks[rank as usize].place = place;
        self.hand_over(&mut state);
        self.wait_to_run(state, rank)
    }

    fn wait_to_run<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        rank: u32,
    ) -> MutexGuard<'a, State> {
        while state.running != Some(rank) {
            let signal = &self.may_run[rank as usize];
            state = signal.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// Draws the next rank to run.
    fn hand_over(&self, state: &mut State) {
        state.running = self.next(state);
        if let Some(rank) = state.running {
            state.ranks[rank as usize].place = Place::Running;
            self.may_run[rank as usize].notify_one();
        }
    }

    /// Those to whom something happened are ready.
    fn wake(&self, state: &mut State) {
        self.network.take_woken(&mut state.woken);
        for node in state.woken.drain(..) {
            if let Some(rank) = state.ranks.get_mut(node as usize)
                && matches!(rank.place, Place::Asleep | Place::Polling)
            {
                rank.place = Place::Ready;
            }
        }
    }

    /// The next rank to run; `None` when all have ended.
    fn next(&self, state: &mut State) -> Option<u32> {
        loop {
            self.wake(state);
            let ready = state.at(Place::Ready);
            let under_way = self.network.next_event().is_some();
            if !ready.is_empty() && (!under_way || state.random.below(SLOWNESS) != 0) {
                return Some(self.draw(state, &ready));
            }
            if under_way {
                if self.network.now() > state.limit_ns && state.why.is_none() {
                    state.why = Some((Why::TimeLimit, self.network.now()));
                }
                if state.why.is_some() && state.stuck.is_none() {
                    if let Some(rank) = self.explain(state) {
                        return Some(rank);
                    }
                    continue;
                }
                self.network.advance();
                state.polls = 0;
                for rank in &mut state.ranks {
                    if rank.place == Place::Polling {
                        rank.place = Place::Ready;
                    }
                }
                continue;
            }
            let pollers = state.at(Place::Polling);
            if !pollers.is_empty() && state.polls < POLLS {
                state.polls += 1;
                return Some(self.draw(state, &pollers));
            }
            if state.ranks.iter().all(|rank| rank.place == Place::Ended) {
                return None;
            }
            if state.stuck.is_some() {
                give_up(&self.label, state);
            }
            state.why = state.why.or(Some((Why::Deadlock, self.network.now())));
            if let Some(rank) = self.explain(state) {
                return Some(rank);
            }
        }
    }

    fn draw(&self, state: &mut State, from: &[u32]) -> u32 {
        let rank = from[state.random.below(from.len() as u64) as usize];
        self.network.note_choice(rank, from.len() as u64);
        rank
    }

    /// Nothing goes on: lets a sleeper run that was not asked yet, or, when all have
    /// answered, cuts everybody off.
    fn explain(&self, state: &mut State) -> Option<u32> {
        let asleep = state.at(Place::Asleep);
        let unasked = asleep.into_iter().find(|&rank| state.ranks[rank as usize].waits.is_none());
        if unasked.is_some() {
            return unasked;
        }
        let (why, at_ns) = state.why.expect("set before");
        let words = |rank: &Rank| match (&rank.waits, rank.place) {
            (Some(waits), _) => waits.clone(),
            (None, Place::Ended) => "has ended".to_owned(),
            (None, Place::Polling) => "polls again and again".to_owned(),
            (None, _) => "runs".to_owned(),
        };
        let ranks = state.ranks.iter().map(words).collect();
        state.stuck = Some(Stuck { why, at_ns, ranks });
        state.polls = 0;
        for rank in 0..state.ranks.len() as u32 {
            self.network.cut_off(rank);
        }
        None
    }
}

impl State {
    fn at(&self, place: Place) -> Vec<u32> {
        let ranks = (0..).zip(&self.ranks);
        ranks.filter(|(_, rank)| rank.place == place).map(|(number, _)| number).collect()
    }
}

/// Everything has failed, and ranks still wait: a mistake of the library, or a program that
/// asks for ever. No error reaches them, and a hang must not be.
fn give_up(label: &str, state: &State) -> ! {
    // Not by a macro, whose output a test harness keeps and an abort would lose.
    let mut out = std::io::stderr();
    let what = "ranks go on waiting although all they can wait for has failed:";
    let _ = writeln!(out, "{label}: {what}");
    for (number, rank) in state.ranks.iter().enumerate() {
        let _ = writeln!(out, "  rank {number}: {:?}, {:?}", rank.place, rank.waits);
    }
    std::process::abort();
}
