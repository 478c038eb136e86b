//! Rounds of threads over words on the heap, and every word of the memory overwritten in every stage.

use super::harness::{Outcome, Woken, enter, taken};
use super::*;
use crate::words::HeapWords;

const RANKS: u32 = 11;

/// What a wait may do besides reading the result's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// Checks everything each time, as after a long wait.
    Polls,
    /// Goes to sleep at once.
    Sleeps,
}

/// The member contributes `number` and waits for the sum of all.
fn sum(
    member: &mut BarrierMember,
    memory: &HeapWords,
    woken: &Woken,
    waiting: Waiting,
    number: u64,
) -> Result<Outcome, StrayWrite> {
    if let Some(sum) = enter(member, memory, woken, number)? {
        return Ok(Outcome::Sum(sum));
    }
    if waiting == Waiting::Sleeps {
        member.announce_sleep(memory);
        if !member.has_ended(memory) {
            return Ok(Outcome::Asleep);
        }
        member.withdraw_sleep(memory);
    }
    while !member.poll(memory)? {
        std::thread::yield_now();
    }
    taken(member, memory)
}

#[test]
fn threads_sum_in_many_rounds() {
    let memory = HeapWords::new(bytes(RANKS));
    let woken = Woken::new(0);
    std::thread::scope(|scope| {
        for rank in 0..RANKS {
            let (memory, woken) = (&memory, &woken);
            scope.spawn(move || {
                let mut member = BarrierMember::new(rank, RANKS);
                for round in 0..300_u64 {
                    let number = round << 8 | u64::from(rank);
                    let got = sum(&mut member, memory, woken, Waiting::Polls, number).unwrap();
                    let expected = ((u64::from(RANKS) * round) << 8) + 55;
                    assert_eq!(got, Outcome::Sum(expected), "round {round}");
                }
            });
        }
    });
}

/// One thread is all members: as far as each can go, in order.
struct Script {
    memory: HeapWords,
    members: Vec<BarrierMember>,
}

impl Script {
    fn new(ranks: u32) -> Self {
        let members = (0..ranks).map(|rank| BarrierMember::new(rank, ranks)).collect();
        Self { memory: HeapWords::new(bytes(ranks)), members }
    }

    fn enter(&mut self, rank: u32, input: &[u8]) -> Result<BarrierPart, StrayWrite> {
        let member = &mut self.members[rank as usize];
        let part = member.enter(&self.memory, input);
        if part.is_err() {
            member.fail(&self.memory);
        }
        part
    }

    /// The last member's part; the result is its own contribution.
    fn finish(&mut self, rank: u32, input: &[u8]) -> Result<(), StrayWrite> {
        let member = &mut self.members[rank as usize];
        let mut act = || {
            member.lengths(&self.memory)?;
            if !input.is_empty() {
                let mut rows = vec![0; member.ranks as usize * stride(input.len())];
                member.inputs(&self.memory, 0, input.len(), &mut rows)?;
            }
            let _ = member.publish(&self.memory, input);
            Ok(())
        };
        let outcome = act();
        if outcome.is_err() {
            member.fail(&self.memory);
        }
        outcome
    }

    /// A poll and, at the end of the round, the result.
    fn poll(&mut self, rank: u32, input: &[u8]) -> Result<bool, StrayWrite> {
        let member = &mut self.members[rank as usize];
        let mut act = || {
            if !member.poll(&self.memory)? {
                return Ok(false);
            }
            let mut out = [0; MAX_BYTES];
            let verdict = member.take(&self.memory, &mut out)?;
            assert_eq!(verdict, BarrierOutcome::Result(input.len()));
            assert_eq!(&out[..input.len()], input, "a wrong result");
            Ok(true)
        };
        let outcome = act();
        if outcome.is_err() {
            member.fail(&self.memory);
        }
        outcome
    }
}

/// Rounds of four members in which one word is changed at the step `when`; what every member has found in
/// the end. It must be an end for each.
fn damaged(len: usize, at: usize, when: u32, change: impl Fn(u64) -> u64) -> Vec<bool> {
    const MEMBERS: u32 = 4;
    let mut script = Script::new(MEMBERS);
    let mut step = 0;
    let mut strike = |script: &Script| {
        if step == when {
            let line = script.memory.line(at / LINE_WORDS);
            let value = line.load(at % LINE_WORDS, Ordering::Relaxed);
            line.store(at % LINE_WORDS, change(value), Ordering::Relaxed);
        }
        step += 1;
    };
    let mut failed = vec![false; MEMBERS as usize];
    for round in 0..3 {
        let input = |rank: u32| vec![(round * 16 + rank + 1) as u8; len];
        let (mut waiting, mut last) = (Vec::new(), None);
        for rank in (0..MEMBERS).filter(|&rank| !failed[rank as usize]).collect::<Vec<_>>() {
            strike(&script);
            match script.enter(rank, &input(rank)) {
                Ok(BarrierPart::Waits) => waiting.push(rank),
                // More than one may believe it; each has to find out.
                Ok(BarrierPart::Last) => {
                    strike(&script);
                    match script.finish(rank, &input(rank)) {
                        Ok(()) => last = Some(rank),
                        Err(_) => failed[rank as usize] = true,
                    }
                }
                Err(_) => failed[rank as usize] = true,
            }
        }
        for rank in waiting {
            strike(&script);
            // What a result must be, if there is one.
            let result = last.map_or(Vec::new(), input);
            match script.poll(rank, &result) {
                Ok(true) => {}
                // A member that sees others under way polls again, after they have polled.
                Ok(false) => failed[rank as usize] = script.poll(rank, &result).is_err(),
                Err(_) => failed[rank as usize] = true,
            }
        }
    }
    failed
}

#[test]
fn without_damage_nobody_fails() {
    for len in [0, 8, 20, MAX_BYTES] {
        assert_eq!(damaged(len, 0, u32::MAX, |word| word), [false; 4]);
    }
}

#[test]
fn a_changed_word_ends_with_an_error_for_everybody_or_with_the_right_result() {
    let words = bytes(4) / WORD;
    let changes: [fn(u64) -> u64; 6] = [
        |word| word.wrapping_add(1),
        |word| word.wrapping_sub(1),
        |_| 0,
        |_| u64::MAX,
        |word| word.wrapping_add(1 << ROUND_SHIFT),
        |word| word ^ 1 << STAGE_SHIFT,
    ];
    let mut found = 0;
    for len in [0, 8, 20, MAX_BYTES] {
        for at in 0..words {
            for when in 0..27 {
                for change in changes {
                    let failed = damaged(len, at, when, change);
                    let count = failed.iter().filter(|failed| **failed).count();
                    found += count;
                    // `poll` and `take` have asserted that no result was wrong. The last rounds
                    // end what is damaged for everybody but, at most, those whom nothing touched
                    // since: the damage came after they had left.
                    let late = when >= 16;
                    assert!(count == 0 || count == 4 || late, "{len} {at} {when}: {failed:?}");
                }
            }
        }
    }
    assert!(found > 1000, "damage is found: {found}");
}

#[test]
fn different_lengths_are_reported_to_all() {
    let mut script = Script::new(3);
    assert_eq!(script.enter(0, &[1; 8]), Ok(BarrierPart::Waits));
    assert_eq!(script.enter(1, &[1; 16]), Ok(BarrierPart::Waits));
    assert_eq!(script.enter(2, &[]), Ok(BarrierPart::Last));
    let last = &mut script.members[2];
    assert_eq!(last.lengths(&script.memory), Ok((0, 16)));
    assert!(!last.publish_unequal(&script.memory, 0, 16));
    for rank in 0..2 {
        let member = &mut script.members[rank];
        let verdict = member.take(&script.memory, &mut [0; MAX_BYTES]);
        assert_eq!(verdict, Ok(BarrierOutcome::Unequal(0, 16)));
    }
    // The next round is as if nothing had been.
    assert_eq!(script.enter(1, &[]), Ok(BarrierPart::Waits));
}

#[test]
fn members_on_the_way_are_waited_for() {
    let mut script = Script::new(2);
    assert_eq!(script.enter(0, &[]), Ok(BarrierPart::Waits));
    for _ in 0..3 {
        assert_eq!(script.members[0].poll(&script.memory), Ok(false));
    }
    // The other one has said that it comes, and was interrupted before it counted itself.
    let other =
        BarrierMember { own: word(1, ENTERED, 0, check(1, Some(1), &[])), ..script.members[1] };
    other.store_own(&script.memory, Ordering::Relaxed);
    assert_eq!(script.members[0].poll(&script.memory), Ok(false));
    assert_eq!(script.enter(1, &[]), Ok(BarrierPart::Last));
    assert_eq!(script.members[0].poll(&script.memory), Ok(false));
    assert_eq!(script.finish(1, &[]), Ok(()));
    assert_eq!(script.poll(0, &[]), Ok(true));
}

#[test]
fn sleepers_are_woken_once() {
    let memory = HeapWords::new(bytes(3));
    let woken = Woken::new(0);
    let mut members: Vec<_> = (0..3).map(|rank| BarrierMember::new(rank, 3)).collect();
    for member in &mut members[..2] {
        assert_eq!(sum(member, &memory, &woken, Waiting::Sleeps, 5), Ok(Outcome::Asleep));
    }
    assert!(members[0].withdraw_sleep(&memory) && !members[0].withdraw_sleep(&memory));
    assert_eq!(sum(&mut members[2], &memory, &woken, Waiting::Sleeps, 5), Ok(Outcome::Sum(15)));
    assert_eq!(woken.load(Ordering::Relaxed), 0b10);
    assert!(!members[1].withdraw_sleep(&memory));
}

#[test]
fn the_memory_has_a_place_for_each() {
    for ranks in [1, 2, 7, 8, 9, 64, 1000] {
        let memory = HeapWords::new(bytes(ranks));
        let mut last = BarrierMember::new(ranks - 1, ranks);
        let _ = last.enter(&memory, &[7; MAX_BYTES]);
        let mut row = [0; MAX_BYTES];
        last.inputs(&memory, ranks - 1, MAX_BYTES, &mut row).unwrap();
        assert_eq!(row, [7; MAX_BYTES]);
    }
}
