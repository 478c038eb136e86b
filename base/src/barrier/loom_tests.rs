//! The barrier under the model checker: contributions and results are loom cells, so that one that is
//! read before it is published is a reported race. Then sleepers, and a stray write at any moment.

use loom::sync::Arc;
use loom::thread;

use super::harness::{Outcome, Woken, enter, taken};
use super::*;
use crate::sync::atomic::AtomicU32;
use crate::sync::check_orders;
use crate::words::LoomWords;

#[derive(Clone)]
struct World {
    memory: LoomWords,
    woken: Arc<Woken>,
}

impl World {
    fn new(ranks: u32) -> Self {
        Self { memory: LoomWords::new(bytes(ranks)), woken: Arc::new(Woken::new(0)) }
    }

    fn is_woken(&self, rank: u32) -> bool {
        self.woken.load(Ordering::Relaxed) & 1 << rank != 0
    }
}

/// What a member contributes: different for each round and rank.
const fn number(round: u64, rank: u32) -> u64 {
    100 * round + 10 * rank as u64 + 1
}

fn total(round: u64, ranks: u32) -> u64 {
    (0..ranks).map(|rank| number(round, rank)).sum()
}

/// A member and how far it is.
struct Run {
    member: BarrierMember,
    ranks: u32,
    rounds: u64,
    /// It has entered a round that has not ended for it.
    waits: bool,
}

/// Polls of a waiting member beside the others. Models cannot wait in a loop: a member that has seen
/// nothing so often goes on when all threads have ended, and must then come to an end.
const POLLS: u32 = 2;

impl Run {
    const fn new(rank: u32, ranks: u32) -> Self {
        Self { member: BarrierMember::new(rank, ranks), ranks, rounds: 0, waits: false }
    }

    /// Goes on to the end of round `count`, or until nothing happens; whether it came so far.
    fn advance(&mut self, world: &World, count: u64) -> Result<bool, StrayWrite> {
        let outcome = self.attempt(world, count);
        if outcome.is_err() {
            self.member.fail(&world.memory);
        }
        outcome
    }

    fn attempt(&mut self, world: &World, count: u64) -> Result<bool, StrayWrite> {
        let memory = &world.memory;
        while self.rounds < count {
            if !self.waits {
                let number = number(self.rounds, self.member.rank);
                let part = enter(&mut self.member, memory, &world.woken, number)?;
                self.waits = part.is_none();
                if let Some(sum) = part {
                    self.ended(sum);
                    continue;
                }
            }
            let mut polls = 0..POLLS;
            while !self.member.poll(memory)? {
                if polls.next().is_none() {
                    return Ok(false);
                }
                thread::yield_now();
            }
            let Outcome::Sum(sum) = taken(&mut self.member, memory)? else { unreachable!() };
            self.waits = false;
            self.ended(sum);
        }
        Ok(true)
    }

    fn ended(&mut self, sum: u64) {
        assert_eq!(sum, total(self.rounds, self.ranks), "a wrong result");
        self.rounds += 1;
    }
}

/// Members that do `count` rounds, beside `stray`; whether each of them came through.
fn members(ranks: u32, count: u64, stray: Option<fn(&LoomWords)>) -> Vec<Result<(), StrayWrite>> {
    let world = World::new(ranks);
    let start = |rank| {
        let world = world.clone();
        thread::spawn(move || {
            let mut run = Run::new(rank, ranks);
            let outcome = run.advance(&world, count);
            (run, outcome)
        })
    };
    let threads: Vec<_> = (1..ranks).map(start).collect();
    let writer = stray.map(|stray| {
        let memory = world.memory.clone();
        thread::spawn(move || stray(&memory))
    });
    let mut first = Run::new(0, ranks);
    let outcome = first.advance(&world, count);
    let mut runs = vec![(first, outcome)];
    runs.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
    if let Some(writer) = writer {
        writer.join().unwrap();
    }
    // Each of these passes ends a round, or a member.
    for _ in 0..(count + 1) * u64::from(ranks) {
        for (run, outcome) in &mut runs {
            if *outcome == Ok(false) {
                *outcome = run.advance(&world, count);
            }
        }
    }
    let ended = |(_, outcome): (Run, Result<bool, StrayWrite>)| {
        outcome.map(|ended| assert!(ended, "a member waits, and none is under way"))
    };
    runs.into_iter().map(ended).collect()
}

#[test]
fn loom_barrier_gives_everybody_the_sum() {
    check_orders(2, || assert_eq!(members(2, 2, None), [Ok(()); 2]));
    check_orders(2, || assert_eq!(members(3, 1, None), [Ok(()); 3]));
}

/// One member announces that it sleeps, by `announce`, and polls once more.
fn no_sleeper_is_forgotten(announce: fn(&mut BarrierMember, &LoomWords) -> bool) {
    check_orders(3, move || {
        let world = World::new(2);
        let other = {
            let world = world.clone();
            thread::spawn(move || Run::new(1, 2).advance(&world, 1))
        };
        let mut member = BarrierMember::new(0, 2);
        let memory = &world.memory;
        let input = number(0, 0).to_le_bytes();
        let asleep = match member.enter(memory, &input).unwrap() {
            BarrierPart::Waits => announce(&mut member, memory),
            BarrierPart::Last => {
                member.lengths(memory).unwrap();
                let _ = member.publish(memory, &total(0, 2).to_le_bytes());
                false
            }
        };
        let _ = other.join().unwrap().unwrap();
        if asleep {
            assert!(world.is_woken(0), "asleep, and the round is over");
            assert_eq!(taken(&mut member, memory), Ok(Outcome::Sum(total(0, 2))));
        }
    });
}

#[test]
fn loom_barrier_wakes_its_sleepers() {
    no_sleeper_is_forgotten(|member, memory| {
        member.announce_sleep(memory);
        // Who finds the end and takes the announcement back is awake; else a wake-up comes.
        !(member.has_ended(memory) && member.withdraw_sleep(memory))
    });
}

/// The model must be able to fail: a member that polls before it announces its sleep.
#[test]
#[should_panic(expected = "asleep, and the round is over")]
fn loom_barrier_sleepers_must_poll_after_they_announce() {
    no_sleeper_is_forgotten(|member, memory| {
        let awake = member.has_ended(memory);
        member.announce_sleep(memory);
        !(awake && member.withdraw_sleep(memory))
    });
}

/// Whatever the moment of a stray write, every member ends, and none with a wrong result.
fn damage_is_found(preemptions: usize, rounds: u64, stray: fn(&LoomWords)) {
    check_orders(preemptions, move || drop(members(2, rounds, Some(stray))));
}

#[test]
fn loom_barrier_survives_an_arrival_too_many() {
    damage_is_found(2, 2, |memory| memory.line(CONTROL).add(ARRIVED, 1, Ordering::Relaxed));
}

#[test]
fn loom_barrier_survives_a_lost_arrival() {
    damage_is_found(2, 2, |memory| memory.line(CONTROL).add(ARRIVED, u64::MAX, Ordering::Relaxed));
}

#[test]
fn loom_barrier_survives_an_overwritten_state() {
    damage_is_found(1, 1, |memory| {
        let (line, at) = state_at(1);
        memory.line(line).store(at, 0, Ordering::Relaxed);
    });
    damage_is_found(1, 1, |memory| {
        let (line, at) = state_at(1);
        memory.line(line).add(at, 1 << STAGE_SHIFT, Ordering::Relaxed);
    });
}

/// A barrier without contributions, whose result's word is moved to the next round by a stray write:
/// nobody leaves before all have entered. `leaves` is how a member decides that it may.
fn nobody_leaves_early(leaves: fn(&mut BarrierMember, &LoomWords) -> bool) {
    check_orders(2, move || {
        let world = World::new(2);
        let entered = Arc::new(AtomicU32::new(0));
        let stray = {
            let memory = world.memory.clone();
            let add = |memory: &LoomWords| {
                memory.line(RESULT).add(0, 1 << ROUND_SHIFT, Ordering::Relaxed);
            };
            thread::spawn(move || add(&memory))
        };
        let meet = move |rank: u32, world: &World, entered: &AtomicU32| -> Result<(), StrayWrite> {
            let mut member = BarrierMember::new(rank, 2);
            entered.fetch_add(1, Ordering::SeqCst);
            match member.enter(&world.memory, &[])? {
                BarrierPart::Last => {
                    member.lengths(&world.memory)?;
                    let _ = member.publish(&world.memory, &[]);
                }
                BarrierPart::Waits => {
                    // A member that sees nothing in these polls is not one that leaves.
                    if !(0..POLLS).any(|_| member.poll(&world.memory) != Ok(false)) {
                        return Ok(());
                    }
                    if !leaves(&mut member, &world.memory) {
                        return Err(StrayWrite("the result"));
                    }
                }
            }
            assert_eq!(entered.load(Ordering::SeqCst), 2, "left before all had entered");
            Ok(())
        };
        let run = move |rank, world: &World, entered: &AtomicU32| {
            if meet(rank, world, entered).is_err() {
                BarrierMember::new(rank, 2).fail(&world.memory);
            }
        };
        let other = {
            let (world, entered) = (world.clone(), Arc::clone(&entered));
            thread::spawn(move || run(1, &world, &entered))
        };
        run(0, &world, &entered);
        other.join().unwrap();
        stray.join().unwrap();
    });
}

#[test]
fn loom_barrier_holds_against_a_forged_round() {
    nobody_leaves_early(|member, memory| member.take(memory, &mut [0; MAX_BYTES]).is_ok());
}

/// The model must be able to fail: a member that takes any change for the end of the round.
#[test]
#[should_panic(expected = "left before all had entered")]
fn loom_barrier_results_must_be_checked() {
    nobody_leaves_early(|member, memory| member.has_ended(memory));
}
