//! What the events of a job mean: which failure counts, who is notified, when the job ends. Pure: it
//! gets what happens and what time it is, and answers with orders.
//!
//! # Phases
//!
//! ```text
//!   Running ──first failure (Abort), abort request, time-out──► Ending ──second SIGINT──► Killed
//!      └──second SIGINT──────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! 1. In `Running` the job goes on, whatever has failed before (`OnFailure::Continue`).
//! 2. In `Ending` every living rank was sent SIGTERM, and each node kills its own when the grace
//!    is over; in `Killed` they were killed.
//! 3. Only what happens in `Running` can be the job's failure: deaths afterwards are our doing.
//! 4. A rank that has left the job while another waits for it in a barrier may be about to say why:
//!    its end is waited for, [`LAST_WORDS`] at most. A failed end is the job's failure then.

use std::io;
use std::time::{Duration, Instant};

use super::end::{Failure, RankEnd, harmless};
use super::node::Report;
use super::{OnFailure, RunOptions, say};

/// Exit code of a job that ran out of time, as `timeout` has it.
const TIMED_OUT: i32 = 124;

/// How long a rank may run on after it left the job while another rank waits for it in a barrier.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A rank that waits in a barrier for one that has left the job.
#[derive(Clone, Copy, Debug)]
struct Stuck {
    gone: u32,
    waiting: u32,
    /// When the wait for the end of `gone` is over. It is set when the clock is read next, which is at once.
    until: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Ending,
    Killed,
}

/// What is to be done on every node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Send this signal to every rank.
    Signal(i32),
    /// Stop every rank and the launcher, and go on when that is continued.
    Stop,
    /// Ask every rank to end, and kill it when the grace is over.
    End,
    /// Kill every rank.
    Kill,
    /// This rank is dead: nodes that did not see it themselves are to be notified.
    Dead(u32),
}

/// Where a rank runs, for sentences.
#[derive(Clone, Debug, Default)]
struct Whereabouts {
    pid: u32,
    host: Option<usize>,
}

/// The judge of one job.
#[derive(Debug)]
pub(super) struct Policy {
    on_failure: OnFailure,
    prints_failure: bool,
    began: Instant,
    limit: Duration,
    deadline: Option<Instant>,
    phase: Phase,
    interrupted: bool,
    failure: Option<Failure>,
    /// A barrier that cannot be completed, while the process that left is still running.
    stuck: Option<Stuck>,
    ranks: Vec<Whereabouts>,
    hosts: Vec<String>,
    ends: Vec<Option<RankEnd>>,
}

impl Policy {
    pub(super) fn new(options: &RunOptions, size: u32, now: Instant) -> Self {
        let size = size as usize;
        Self {
            on_failure: options.on_failure,
            prints_failure: options.prints_failure,
            began: now,
            limit: options.timeout.unwrap_or_default(),
            // A time beyond what the clock can count is no limit.
            deadline: options.timeout.and_then(|limit| now.checked_add(limit)),
            phase: Phase::Running,
            interrupted: false,
            failure: None,
            stuck: None,
            ranks: vec![Whereabouts::default(); size],
            hosts: Vec::new(),
            ends: vec![None; size],
        }
    }

    /// The process of a rank.
    pub(super) fn runs_as(&mut self, rank: u32, pid: u32) {
        if let Some(place) = self.ranks.get_mut(rank as usize) {
            place.pid = pid;
        }
    }

    /// The host of some ranks.
    pub(super) fn runs_on(&mut self, ranks: std::ops::Range<u32>, host: &str) {
        self.hosts.push(host.into());
        for rank in ranks {
            self.ranks[rank as usize].host = Some(self.hosts.len() - 1);
        }
    }

    /// Something has happened on a node. A rank must exist, and ends once.
    pub(super) fn on_report(&mut self, report: Report, orders: &mut Vec<Order>) {
        match report {
            Report::Ended { rank, end } => {
                self.ends[rank as usize] = Some(end);
                if end.is_failure() {
                    orders.push(Order::Dead(rank));
                    let failure = self.of_rank(rank, end.code(), &end.to_string());
                    self.rank_failed(failure, orders);
                }
                if let Some(stuck) = self.stuck.filter(|stuck| stuck.gone == rank) {
                    self.is_stuck(stuck, orders);
                }
            }
            Report::Aborted { rank, code, message } => {
                let what = match message.as_str() {
                    "" => format!("has aborted the job with code {code}"),
                    message => format!("has aborted the job with code {code}: {message}"),
                };
                let failure = self.of_rank(rank, code, &what);
                self.fail(failure);
                self.end_job(orders);
            }
            Report::Misbehaved { rank, what } => {
                let failure = self.of_rank(rank, 1, &format!("was ended: {what}"));
                self.rank_failed(failure, orders);
            }
            Report::Stuck { gone, waiting } => {
                let until = self.stuck.and_then(|stuck| stuck.until);
                let stuck = Stuck { gone, waiting, until };
                if self.has_ended(gone) {
                    self.is_stuck(stuck, orders);
                } else {
                    self.stuck = Some(stuck);
                }
            }
            Report::Left { .. } | Report::AllIn => {}
        }
    }

    /// A host is lost, and with it those of its ranks that had not ended.
    pub(super) fn lost(
        &mut self,
        host: &str,
        ranks: std::ops::Range<u32>,
        why: &str,
        orders: &mut Vec<Order>,
    ) {
        let living: Vec<u32> = ranks.filter(|rank| self.ends[*rank as usize].is_none()).collect();
        for rank in &living {
            self.ends[*rank as usize] = Some(RankEnd::Lost);
            orders.push(Order::Dead(*rank));
        }
        let who = match living[..] {
            [] => return,
            [rank] => format!("rank {rank} on host {host} is lost"),
            [first, .., last] => format!("ranks {first} to {last} on host {host} are lost"),
        };
        let sentence = format!("{who}: {why}");
        let failure = Failure { rank: living.first().copied(), code: 1, sentence };
        self.rank_failed(failure, orders);
    }

    /// A host cannot start its ranks; none of them runs.
    pub(super) fn refused(
        &mut self,
        host: &str,
        ranks: std::ops::Range<u32>,
        code: i32,
        why: &str,
        orders: &mut Vec<Order>,
    ) {
        for rank in ranks {
            self.ends[rank as usize].get_or_insert(RankEnd::Lost);
        }
        let sentence = format!("host {host}: {why}");
        self.fail(Failure { rank: None, code: code.clamp(1, 255), sentence });
        self.end_job(orders);
    }

    /// Nobody reads the output of a job whose ranks cannot find that out themselves, since they
    /// write elsewhere.
    pub(super) fn nobody_reads(&mut self, orders: &mut Vec<Order>) {
        self.fail(Failure {
            rank: None,
            code: 128 + libc::SIGPIPE,
            sentence: "the job was ended, since nobody reads its output".into(),
        });
        self.end_job(orders);
    }

    /// The output cannot be written, and some of it is lost. It is reported even if ranks failed before, or because of it.
    pub(super) fn unwritten(&mut self, error: &io::Error) {
        let sentence = format!("some output of the job is lost, it cannot be written: {error}");
        match &self.failure {
            Some(_) if self.prints_failure => say(&sentence),
            Some(_) => {}
            None => self.fail(Failure { rank: None, code: 1, sentence }),
        }
    }

    /// The launcher got a signal.
    pub(super) fn signal(&mut self, number: i32, orders: &mut Vec<Order>) {
        match number {
            libc::SIGTSTP => orders.push(Order::Stop),
            libc::SIGINT if self.interrupted => {
                self.fail(Failure {
                    rank: None,
                    code: 128 + number,
                    sentence: "the job was killed by a second SIGINT".into(),
                });
                self.phase = Phase::Killed;
                orders.push(Order::Kill);
            }
            _ => {
                self.interrupted |= number == libc::SIGINT;
                orders.push(Order::Signal(number));
            }
        }
    }

    /// When [`check_timers`](Self::check_timers) has something to do.
    pub(super) fn next_poll(&self) -> Option<Instant> {
        let stuck = self.stuck.map(|stuck| stuck.until.unwrap_or(self.began));
        let next = [self.deadline, stuck].into_iter().flatten().min();
        next.filter(|_| self.phase == Phase::Running)
    }

    pub(super) fn check_timers(&mut self, now: Instant, orders: &mut Vec<Order>) {
        if self.phase != Phase::Running {
            return;
        }
        if let Some(stuck) = &mut self.stuck {
            let until = *stuck.until.get_or_insert(now + LAST_WORDS);
            if until <= now {
                let stuck = *stuck;
                self.is_stuck(stuck, orders);
            }
        }
        if self.phase == Phase::Running && self.deadline.is_some_and(|at| at <= now) {
            let limit = self.limit;
            self.fail(Failure {
                rank: None,
                code: TIMED_OUT,
                sentence: format!("the job has not ended within {limit:?}, its time limit"),
            });
            self.end_job(orders);
        }
    }

    /// Whether every rank has ended.
    pub(super) fn is_over(&self) -> bool {
        self.ends.iter().all(Option::is_some)
    }

    pub(super) fn has_ended(&self, rank: u32) -> bool {
        self.ends[rank as usize].is_some()
    }

    pub(super) fn end_of(&self, rank: u32) -> Option<RankEnd> {
        self.ends[rank as usize]
    }

    /// The first failure, and how each rank ended.
    pub(super) fn verdict(self) -> (Option<Failure>, Vec<RankEnd>) {
        let ends = self.ends.into_iter().map(|end| end.unwrap_or(RankEnd::Unknown));
        (self.failure, ends.collect())
    }

    fn of_rank(&self, rank: u32, code: i32, what: &str) -> Failure {
        let place = &self.ranks[rank as usize];
        let host = place.host.map(|host| self.hosts[host].as_str());
        Failure::of_rank(rank, place.pid, host, code, what)
    }

    /// Notes the first failure and prints it, unless that is not wanted.
    fn fail(&mut self, mut failure: Failure) {
        // Ranks and agents have a say in it.
        failure.sentence = harmless(&failure.sentence);
        if self.failure.is_none() && self.phase == Phase::Running {
            if self.prints_failure {
                say(&failure.sentence);
            }
            self.failure = Some(failure);
        }
    }

    /// Nobody can complete a barrier. The failure of the rank that left, if it has one, was noted
    /// before and is the reason.
    fn is_stuck(&mut self, stuck: Stuck, orders: &mut Vec<Order>) {
        let Stuck { gone, waiting, .. } = stuck;
        self.stuck = None;
        let what = format!("has left the job while rank {waiting} waits for it in a barrier");
        let failure = self.of_rank(gone, 1, &what);
        self.fail(failure);
        // Those who wait would wait for ever, whatever the user wants of failures.
        self.end_job(orders);
    }

    fn rank_failed(&mut self, failure: Failure, orders: &mut Vec<Order>) {
        self.fail(failure);
        if self.on_failure == OnFailure::Abort {
            self.end_job(orders);
        }
    }

    /// Every rank is asked to end, unless that was done.
    pub(super) fn end_job(&mut self, orders: &mut Vec<Order>) {
        if self.phase == Phase::Running {
            self.phase = Phase::Ending;
            orders.push(Order::End);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(on_failure: OnFailure) -> Policy {
        let mut options = RunOptions::new(4, "x");
        options.on_failure = on_failure;
        options.timeout = Some(Duration::from_secs(10));
        let mut policy = Policy::new(&options, 4, Instant::now());
        policy.runs_on(0..2, "a");
        policy.runs_on(2..4, "b");
        policy.runs_as(2, 77);
        policy
    }

    #[test]
    fn the_first_failure_counts_and_ends_the_job() {
        let mut policy = policy(OnFailure::Abort);
        let mut orders = Vec::new();
        policy.on_report(Report::Ended { rank: 2, end: RankEnd::Killed(9) }, &mut orders);
        assert_eq!(orders, [Order::Dead(2), Order::End]);
        orders.clear();
        policy.on_report(Report::Ended { rank: 0, end: RankEnd::Exited(3) }, &mut orders);
        policy.lost("b", 2..4, "it is silent", &mut orders);
        assert_eq!(orders, [Order::Dead(0), Order::Dead(3)]);
        policy.on_report(Report::Ended { rank: 1, end: RankEnd::Exited(0) }, &mut orders);
        assert!(policy.is_over());
        let (failure, ends) = policy.verdict();
        let failure = failure.unwrap();
        assert_eq!((failure.rank, failure.code), (Some(2), 137));
        assert_eq!(failure.sentence, "rank 2 (pid 77 on host b) was killed by signal 9 (SIGKILL)");
        assert_eq!(ends[2..], [RankEnd::Killed(9), RankEnd::Lost]);
    }

    #[test]
    fn a_lost_host_takes_its_ranks_along() {
        let mut policy = policy(OnFailure::Continue);
        let mut orders = Vec::new();
        policy.lost("b", 2..4, "nothing was heard of it for 10s", &mut orders);
        assert_eq!(orders, [Order::Dead(2), Order::Dead(3)]);
        assert!(!policy.is_over() && policy.has_ended(3) && !policy.has_ended(1));
        policy.lost("b", 2..4, "again", &mut orders);
        assert_eq!(orders.len(), 2);
        let (failure, _) = policy.verdict();
        let sentence = failure.unwrap().sentence;
        assert!(sentence.starts_with("ranks 2 to 3 on host b are lost: nothing"), "{sentence}");
    }

    #[test]
    fn words_of_others_do_nothing_to_a_terminal() {
        let mut policy = policy(OnFailure::Abort);
        let message = "all\x1b]0;is\x07 well\r\nbowline: rank 3\u{9b}2J".into();
        policy.on_report(Report::Aborted { rank: 2, code: 1, message }, &mut Vec::new());
        let (failure, _) = policy.verdict();
        let sentence = failure.unwrap().sentence;
        assert!(!sentence.chars().any(char::is_control), "{sentence:?}");
        assert!(sentence.contains("all\\u{1b}]0;is\\u{7} well\\r\\nbowline"), "{sentence}");
    }

    #[test]
    fn who_leaves_during_a_barrier_may_say_why() {
        let stuck = Report::Stuck { gone: 0, waiting: 1 };
        let now = Instant::now();
        let ends = |end: Option<RankEnd>, on_failure| {
            let mut policy = policy(on_failure);
            let mut orders = Vec::new();
            policy.on_report(stuck.clone(), &mut orders);
            assert!(policy.next_poll().is_some_and(|at| at <= Instant::now()));
            policy.check_timers(now, &mut orders);
            assert_eq!((orders.len(), policy.next_poll()), (0, Some(now + LAST_WORDS)));
            match end {
                Some(end) => policy.on_report(Report::Ended { rank: 0, end }, &mut orders),
                None => policy.check_timers(now + LAST_WORDS, &mut orders),
            }
            assert_eq!(orders.last(), Some(&Order::End));
            assert_eq!(policy.next_poll(), None);
            policy.verdict().0.unwrap().sentence
        };
        for how in [OnFailure::Abort, OnFailure::Continue] {
            let failed = ends(Some(RankEnd::Exited(3)), how);
            assert!(failed.contains("exited with code 3"), "{failed}");
            for end in [Some(RankEnd::Exited(0)), None] {
                let left = ends(end, how);
                assert!(left.contains("while rank 1 waits for it in a barrier"), "{left}");
            }
        }
    }

    #[test]
    fn signals_and_time() {
        let mut policy = policy(OnFailure::Abort);
        let mut orders = Vec::new();
        policy.signal(libc::SIGINT, &mut orders);
        policy.signal(libc::SIGTSTP, &mut orders);
        policy.signal(libc::SIGINT, &mut orders);
        assert_eq!(orders, [Order::Signal(libc::SIGINT), Order::Stop, Order::Kill]);
        orders.clear();
        let late = Instant::now() + Duration::from_secs(60);
        policy.check_timers(late, &mut orders);
        assert_eq!((orders.len(), policy.next_poll()), (0, None));
        assert_eq!(policy.verdict().0.unwrap().code, 130);
    }
}
