//! Staging memory under the model checker: data are loom cells, so that bytes that are read before they are
//! published, or overwritten before they were read, are a reported race. Then sleepers, and stray writes.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::sync::atomic::AtomicU32;
use crate::sync::check_orders;
use crate::words::LoomWords;

/// One line of data in a slot: a word for each member, and one for a result.
const fn geometry(ranks: u32, slots: u32) -> Geometry {
    Geometry { ranks, slots, slot_bytes: LINE, apart: false, cell_bytes: 8 }
}

const RESULT: usize = 7 * 8;

/// What a member writes: different for each step and rank.
const fn number(step: u64, rank: u32) -> u64 {
    100 * step + 10 * rank as u64 + 1
}

/// Waits, which ends in every fair order; `false` when somebody has found damage.
fn wait(
    member: &StagingMember,
    memory: &LoomWords,
    what: StagingProgress,
) -> Result<(), StrayWrite> {
    while !member.is_there(memory, what)? {
        thread::yield_now();
    }
    Ok(())
}

fn put(member: &StagingMember, memory: &LoomWords, step: u64, value: u64) {
    member.put(memory, step, member.rank as usize * 8, &value.to_le_bytes());
}

fn get(member: &StagingMember, memory: &LoomWords, step: u64, at: usize) -> u64 {
    let mut out = [0; 8];
    member.get(memory, step, at, &mut out);
    u64::from_le_bytes(out)
}

/// Two threads, of which the calling one is member 0.
fn two(slots: u32, run: fn(StagingMember, &LoomWords)) {
    let memory = LoomWords::new(geometry(2, slots).bytes());
    let other = {
        let memory = memory.clone();
        thread::spawn(move || run(StagingMember::new(1, geometry(2, slots)), &memory))
    };
    run(StagingMember::new(0, geometry(2, slots)), &memory);
    other.join().unwrap();
}

/// Both write and read in each of two steps, which have one slot; `waits` is what a member does before it writes.
fn exchange(waits: fn(&mut StagingMember, &LoomWords, u64)) {
    let run = move |mut member: StagingMember, memory: &LoomWords| {
        let other = 1 - member.rank;
        for step in 1..=2 {
            waits(&mut member, memory, step);
            put(&member, memory, step, number(step, member.rank));
            let _ = member.write(memory, step);
            wait(&member, memory, Written(other, step)).unwrap();
            assert_eq!(get(&member, memory, step, other as usize * 8), number(step, other));
            let _ = member.finish(memory, step);
        }
    };
    check_orders(2, move || {
        let memory = LoomWords::new(geometry(2, 1).bytes());
        let other = {
            let memory = memory.clone();
            thread::spawn(move || run(StagingMember::new(1, geometry(2, 1)), &memory))
        };
        run(StagingMember::new(0, geometry(2, 1)), &memory);
        other.join().unwrap();
    });
}

fn until_free(member: &mut StagingMember, memory: &LoomWords, step: u64) {
    while member.holds_up(memory, step).unwrap().is_some() {
        thread::yield_now();
    }
}

#[test]
fn loom_staging_exchanges_data() {
    exchange(until_free);
}

/// The model must be able to fail: a member that writes over what the other one may still read.
#[test]
#[should_panic(expected = "Causality violation")]
fn loom_staging_slots_must_be_free_before_they_are_written() {
    exchange(|_, _, _| {});
}

#[test]
fn loom_staging_lets_a_writer_run_ahead() {
    check_orders(2, || {
        two(2, |mut member, memory| {
            for step in 1..=3 {
                if member.rank == 0 {
                    until_free(&mut member, memory, step);
                    put(&member, memory, step, number(step, 0));
                    let _ = member.write(memory, step);
                } else {
                    wait(&member, memory, Written(0, step)).unwrap();
                    assert_eq!(get(&member, memory, step, 0), number(step, 0));
                }
                let _ = member.finish(memory, step);
            }
        });
    });
}

/// Three calls with two cells; `writes` says who brings something, `waits` is what a member does before it states a call.
fn state(writes: fn(u32, u64) -> bool, waits: fn(&mut StagingMember, &LoomWords)) {
    check_orders(2, move || {
        let run = move |rank, memory: &LoomWords| {
            let (mut member, other) = (StagingMember::new(rank, geometry(2, 1)), 1 - rank);
            for call in 1..=3 {
                if writes(rank, call) {
                    waits(&mut member, memory);
                    member.put_cell(memory, 0, &number(call, rank).to_le_bytes());
                    let _ = member.state(memory, 10 + call);
                }
                if writes(other, call) {
                    wait(&member, memory, Stated(other, call)).unwrap();
                    assert_eq!(member.stated(memory, other), 10 + call);
                    let mut out = [0; 8];
                    member.get_cell(memory, other, 0, &mut out);
                    assert_eq!(u64::from_le_bytes(out), number(call, other));
                }
                let _ = member.end_call(memory);
            }
        };
        let memory = LoomWords::new(geometry(2, 1).bytes());
        let other = {
            let memory = memory.clone();
            thread::spawn(move || run(1, &memory))
        };
        run(0, &memory);
        other.join().unwrap();
    });
}

fn until_stated(member: &mut StagingMember, memory: &LoomWords) {
    while member.holds_up_call(memory).unwrap().is_some() {
        thread::yield_now();
    }
}

#[test]
fn loom_cells_bring_data() {
    state(|_, _| true, until_stated);
    state(|rank, _| rank == 0, until_stated);
    state(|rank, call| u64::from(rank) == call % 2, until_stated);
}

/// The model must be able to fail: a member that writes its cell while the other one may still read it.
#[test]
#[should_panic(expected = "Causality violation")]
fn loom_cells_must_be_free_before_they_are_written() {
    state(|rank, _| rank == 0, |_, _| {});
}

/// One member after the other adds its number to what is in the slot, where it lies, and all read the sum; two steps
/// with one slot. `waits` is what a member does before it adds.
fn add_in_place(ranks: u32, waits: fn(&StagingMember, &LoomWords, u64)) {
    let run = move |rank, memory: &LoomWords| {
        let mut member = StagingMember::new(rank, geometry(ranks, 1));
        for step in 1..=2 {
            let before = if rank == 0 {
                until_free(&mut member, memory, step);
                0
            } else {
                waits(&member, memory, step);
                get(&member, memory, step, 0)
            };
            let sum = before + number(step, rank);
            member.put(memory, step, 0, &sum.to_le_bytes());
            let _ = member.write(memory, step);
            wait(&member, memory, Written(ranks - 1, step)).unwrap();
            let sum = (0..ranks).map(|rank| number(step, rank)).sum();
            assert_eq!(get(&member, memory, step, 0), sum, "a wrong result");
            let _ = member.finish(memory, step);
        }
    };
    check_orders(2, move || {
        let memory = LoomWords::new(geometry(ranks, 1).bytes());
        let start = |rank| {
            let memory = memory.clone();
            thread::spawn(move || run(rank, &memory))
        };
        let others: Vec<_> = (1..ranks).map(start).collect();
        run(0, &memory);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn loom_staging_adds_in_place() {
    add_in_place(2, |member, memory, step| {
        wait(member, memory, Written(member.rank - 1, step)).unwrap();
    });
}

/// The model must be able to fail: a member that does not wait for the one before it.
#[test]
#[should_panic(expected = "Causality violation")]
fn loom_staging_adds_only_to_what_was_written() {
    add_in_place(2, |_, _, _| {});
}

/// All members write, one combines, all read; `claims` is how a member decides that it is the one.
fn combine(ranks: u32, preemptions: usize, claims: fn(&StagingMember, &LoomWords) -> bool) {
    let run = move |rank, memory: &LoomWords| {
        let mut member = StagingMember::new(rank, geometry(ranks, 1));
        put(&member, memory, 1, number(1, rank));
        let _ = member.write(memory, 1);
        if claims(&member, memory) {
            let sum =
                (0..ranks).map(|rank| get(&member, memory, 1, rank as usize * 8)).sum::<u64>();
            member.put(memory, 1, RESULT, &sum.to_le_bytes());
            let _ = member.combined(memory, 1);
        }
        let is_there = member.is_there(memory, Combined(1)).unwrap();
        if is_there {
            let sum = (0..ranks).map(|rank| number(1, rank)).sum();
            assert_eq!(get(&member, memory, 1, RESULT), sum, "a wrong result");
        }
        is_there
    };
    check_orders(preemptions, move || {
        let memory = LoomWords::new(geometry(ranks, 1).bytes());
        let start = |rank| {
            let memory = memory.clone();
            thread::spawn(move || run(rank, &memory))
        };
        let others: Vec<_> = (1..ranks).map(start).collect();
        let first = run(0, &memory);
        let found = others.into_iter().map(|other| other.join().unwrap());
        assert!(found.fold(first, |some, found| some | found), "nobody has combined");
    });
}

#[test]
fn loom_staging_has_one_member_combine() {
    let claims = |member: &StagingMember, memory: &LoomWords| member.claims(memory, 1).unwrap();
    combine(2, 3, claims);
    combine(3, 2, claims);
}

/// The model must be able to fail: each member that finds that all have written combines.
#[test]
#[should_panic(expected = "Causality violation")]
fn loom_staging_steps_must_be_claimed() {
    combine(2, 3, |member, memory| member.is_there(memory, Written(1 - member.rank, 1)).unwrap());
}

/// One member announces that it sleeps, by `announce`, and polls once more.
fn no_sleeper_is_forgotten(announce: fn(&StagingMember, &LoomWords) -> bool) {
    check_orders(3, move || {
        let memory = LoomWords::new(geometry(2, 1).bytes());
        let woken = Arc::new(AtomicU32::new(0));
        let other = {
            let (memory, woken) = (memory.clone(), Arc::clone(&woken));
            thread::spawn(move || {
                let mut member = StagingMember::new(1, geometry(2, 1));
                put(&member, &memory, 1, number(1, 1));
                if member.write(&memory, 1) && member.wakes(&memory, 0) {
                    woken.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let member = StagingMember::new(0, geometry(2, 1));
        let asleep = announce(&member, &memory);
        other.join().unwrap();
        let woken = woken.load(Ordering::Relaxed);
        assert!(woken <= 1, "woken twice");
        if asleep {
            assert_eq!(woken, 1, "asleep, and nobody wakes it");
        }
        assert_eq!(member.is_there(&memory, Written(1, 1)), Ok(true));
        assert_eq!(get(&member, &memory, 1, 8), number(1, 1));
    });
}

#[test]
fn loom_staging_wakes_its_sleepers() {
    no_sleeper_is_forgotten(|member, memory| {
        member.announce_sleep(memory, Written(1, 1));
        // Who finds what it waits for and takes the announcement back is awake; else a wake-up comes.
        !(member.is_there(memory, Written(1, 1)).unwrap() && member.withdraw_sleep(memory))
    });
}

/// The model must be able to fail: a member that polls before it announces its sleep.
#[test]
#[should_panic(expected = "asleep, and nobody wakes it")]
fn loom_staging_sleepers_must_poll_after_they_announce() {
    no_sleeper_is_forgotten(|member, memory| {
        let awake = member.is_there(memory, Written(1, 1)).unwrap();
        member.announce_sleep(memory, Written(1, 1));
        !(awake && member.withdraw_sleep(memory))
    });
}

/// Polls of a member beside a stray write. After them it takes what it has not found as not there.
const POLLS: u32 = 3;

#[test]
fn loom_staging_takes_no_stray_write_for_progress() {
    check_orders(2, || {
        let memory = LoomWords::new(geometry(2, 1).bytes());
        let (line, at) = StagingMember::new(1, geometry(2, 1)).table_at(0, 1);
        let stray = {
            let memory = memory.clone();
            thread::spawn(move || memory.line(line).add(at, 1 << CHECK_BITS, Ordering::Relaxed))
        };
        let writer = {
            let memory = memory.clone();
            thread::spawn(move || {
                let mut member = StagingMember::new(1, geometry(2, 1));
                put(&member, &memory, 1, number(1, 1));
                let _ = member.write(&memory, 1);
                member.poll(&memory)
            })
        };
        let mut member = StagingMember::new(0, geometry(2, 1));
        for _ in 0..POLLS {
            match member.is_there(&memory, Written(1, 1)) {
                Ok(true) => {
                    assert_eq!(get(&member, &memory, 1, 8), number(1, 1));
                    break;
                }
                Ok(false) => thread::yield_now(),
                Err(_) => {
                    member.fail(&memory);
                    break;
                }
            }
        }
        stray.join().unwrap();
        let _ = writer.join().unwrap();
        // In the end it is there, or everybody finds the damage.
        if member.is_there(&memory, Written(1, 1)) != Ok(true) {
            assert!(member.poll(&memory).is_err(), "lost, and nobody finds it");
        }
    });
}
