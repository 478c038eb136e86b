//! A rank writes where it must not: into the memory in which ranks that share processors meet. Every
//! member ends with the error that says so, and none with a wrong result.

use std::sync::Barrier;
use std::time::Duration;

use bowline_mpi::{MpiError, Sum, World};
use bowline_uct::conformance::skipped;

use super::start::ranks;

const RANKS: usize = 5;
const ROUNDS: u32 = 3;

// Words of the memory, as `bowline_base::barrier` draws it.
const ARRIVED: usize = 0;
const SLEEPERS: usize = 8;
const RESULT: usize = 64;
const SUM: usize = RESULT + 8;
const STATES: usize = 128;

/// Whether there is such a memory: not where ranks have no shared memory among their transports.
fn is_there() -> bool {
    let there = ranks(RANKS, |world| sum(world) && world.overwrite_shared(ARRIVED, |count| count));
    if !there[0] {
        skipped("ranks without shared memory meet by messages");
    }
    there[0]
}

/// The sum of all ranks' numbers; whether there was one.
fn sum(world: &World) -> bool {
    let mut sum = [0_i64];
    match world.allreduce(&[i64::from(world.rank()) + 1], &mut sum, Sum) {
        Ok(()) => {
            assert_eq!(sum, [15], "a wrong result");
            true
        }
        Err(error) => {
            assert_eq!(error, MpiError::MemoryOverwritten);
            assert_eq!(world.barrier(), Err(error), "and so from now on");
            false
        }
    }
}

/// Changes a word between two rounds; which ranks had an error in the rounds after that.
fn between_rounds(offset: usize, change: fn(u64) -> u64) -> Vec<bool> {
    let together = Barrier::new(RANKS);
    ranks(RANKS, |world| {
        assert!(sum(world) && sum(world));
        together.wait();
        if world.rank() == 1 {
            assert!(world.overwrite_shared(offset, change), "there is such a memory");
        }
        together.wait();
        !(0..ROUNDS).all(|_| sum(world))
    })
}

#[test]
fn an_arrival_too_many_is_an_error_for_everybody() {
    if !is_there() {
        return;
    }
    assert_eq!(between_rounds(ARRIVED, |count| count + 1), [true; RANKS]);
}

#[test]
fn a_lost_arrival_is_an_error_for_everybody() {
    if !is_there() {
        return;
    }
    assert_eq!(between_rounds(ARRIVED, |count| count - 1), [true; RANKS]);
    assert_eq!(between_rounds(ARRIVED, |_| 0), [true; RANKS]);
}

#[test]
fn a_forged_end_of_a_round_is_an_error_for_everybody() {
    if !is_there() {
        return;
    }
    assert_eq!(between_rounds(RESULT, |word| word + 1), [true; RANKS]);
    assert_eq!(between_rounds(RESULT, |word| word + (1 << 42)), [true; RANKS]);
}

#[test]
fn words_that_are_written_anew_harm_nobody() {
    if !is_there() {
        return;
    }
    assert_eq!(between_rounds(STATES + 16, |_| 77), [false; RANKS]);
    assert_eq!(between_rounds(SUM, |_| 77), [false; RANKS]);
    // Only how many sleepers are searched for depends on it.
    assert_eq!(between_rounds(SLEEPERS, |_| 3), [false; RANKS]);
}

/// Changes a word while all others wait in the round, most of them asleep.
fn in_a_round(offset: usize, change: fn(u64) -> u64) -> Vec<bool> {
    ranks(RANKS, |world| {
        assert!(sum(world) && sum(world));
        if world.rank() == 4 {
            // They need not be asleep for the test to be right.
            std::thread::sleep(Duration::from_millis(100));
            assert!(world.overwrite_shared(offset, change), "there is such a memory");
        }
        !(0..ROUNDS).all(|_| sum(world))
    })
}

#[test]
fn sleepers_find_that_nobody_is_on_the_way() {
    if !is_there() {
        return;
    }
    assert_eq!(in_a_round(ARRIVED, |count| count.wrapping_sub(1)), [true; RANKS]);
}

#[test]
fn sleepers_find_their_own_state_changed() {
    if !is_there() {
        return;
    }
    assert_eq!(in_a_round(STATES, |_| 0), [true; RANKS]);
}

#[test]
fn sleepers_that_nobody_counts_wake_up() {
    if !is_there() {
        return;
    }
    assert_eq!(in_a_round(SLEEPERS, |_| 0), [false; RANKS]);
}

/// By messages some would learn of it, and others wait: the standard asks for equal counts.
#[test]
fn different_counts_are_reported_to_everybody() {
    if !is_there() {
        return;
    }
    ranks(RANKS, |world| {
        assert!(sum(world));
        let count = if world.rank() == 2 { 2 } else { 1 };
        let mut out = vec![0_u64; count];
        let error = world.allreduce(&vec![1_u64; count], &mut out, Sum).unwrap_err();
        let (expected, got) = if count == 2 { (16, 8) } else { (8, 16) };
        assert_eq!(error, MpiError::CountMismatch { expected, got });
        assert!(sum(world), "the next one is as good as any");
    });
}
