//! `--count ENGINE --matches N`: that many matches to be counted by callgrind, with an empty queue, or
//! with a receive from each of `--queued Q` ranks, which are posted and then met from the last one on; or, with
//! `--comms C`, one round of so many communicators of `--ranks R` ranks, whose misses of caches callgrind simulates.

use std::hint::black_box;

use anyhow::{Result, bail};
use bowline_base::config::Choice as _;
use bowline_ucp::matching::{Engine, EngineKind, ListEngine, MatchEngine, Off, Want};

use crate::matching::jobs::{Each, Job, Order, Place, Queue, Shared, play};

/// The name of the list without an engine around it.
const BARE: &str = "bare-list";

/// The name of lists for each communicator.
const LISTS: &str = "lists";

/// In front of the name of an engine that is to have no list before its index.
const PURE: &str = "pure-";

/// One match: a receive is posted, its message arrives. The name is what callgrind searches for.
#[inline(never)]
fn measured_match(engine: &mut impl MatchEngine, want: &Want, tag: u64) {
    if black_box(engine.take_unexpected(want)).is_none() {
        engine.post(*want, tag);
    }
    black_box(engine.arrive(want.source, tag));
}

fn matches(engine: &mut impl MatchEngine, matches: u64) {
    for k in 0..matches {
        let (source, tag) = (black_box(3 + (k % 16) as u32), black_box(7));
        let want = Want { source, source_mask: u32::MAX, tag, tag_mask: u64::MAX };
        measured_match(engine, &want, tag);
    }
    let left = engine.posted_len() + engine.unexpected_len();
    assert_eq!(left, 0, "each message found its receive");
}

/// A receive. Apart from the message, since others come between: the names are what callgrind searches for.
#[inline(never)]
fn measured_match_post(engine: &mut impl MatchEngine, want: &Want) {
    if black_box(engine.take_unexpected(want)).is_none() {
        engine.post(*want, want.source.into());
    }
}

/// Its message.
#[inline(never)]
fn measured_match_arrive(engine: &mut impl MatchEngine, want: &Want) -> Option<u64> {
    black_box(engine.arrive(want.source, want.tag))
}

/// Rounds that are not counted, after which an engine that has grown stays so for longer than it is
/// counted: it tries a list again ever more rarely.
const SETTLING: u64 = 2100;

/// `rounds` rounds in which a receive from each of `queued` ranks is posted and its message arrives, that
/// of the last one first.
fn deep_matches(engine: &mut impl MatchEngine, queued: u32, rounds: u64, settling: u64) {
    let want = |source| {
        let (source, tag) = black_box((source, 7));
        Want { source, source_mask: u32::MAX, tag, tag_mask: u64::MAX }
    };
    for _ in 0..settling {
        for source in 0..queued {
            let want = want(source);
            if engine.take_unexpected(&want).is_none() {
                engine.post(want, source.into());
            }
        }
        for source in (0..queued).rev() {
            engine.arrive(source, 7);
        }
    }
    for _ in 0..rounds {
        for source in 0..queued {
            measured_match_post(engine, &want(source));
        }
        for source in (0..queued).rev() {
            let found = measured_match_arrive(engine, &want(source));
            assert_eq!(found, Some(source.into()), "its own receive");
        }
    }
}

/// A round of all communicators. The name is what callgrind searches for.
#[inline(never)]
fn measured_caches(place: &mut impl Place, job: &Job) {
    black_box(play(place, job));
}

/// Messages of each rank that wait at once while misses are counted.
const PENDING: u32 = 5;

/// Rounds before the one that is counted: then an engine that grows has an index and keeps it.
const WARM: u32 = 9;

/// One round in `comms` communicators of `ranks` ranks, whose posted receives are met from the last one on, after some that are
/// not counted. The list is one for all communicators, as published, and `lists` is one for each.
pub(crate) fn caches(name: &str, comms: u16, ranks: u32) -> Result<()> {
    let job =
        Job::communicators(Queue::Posted, comms, Order::Reverse, Order::Reverse, ranks, PENDING);
    if name == EngineKind::List.name() {
        let mut place = Shared(Engine::new(EngineKind::List, u32::MAX));
        measured_caches(&mut place, &job);
        return Ok(());
    }
    let (make, kind) = match name {
        LISTS => (Engine::new as Make, EngineKind::List),
        _ => engine(name)?,
    };
    let mut place = Each((0..comms).map(|_| make(kind, ranks)).collect());
    for _ in 0..WARM {
        black_box(play(&mut place, &job));
    }
    measured_caches(&mut place, &job);
    Ok(())
}

/// Makes an engine for so many ranks.
type Make = fn(EngineKind, u32) -> Engine;

/// How an engine of this name is made.
fn engine(name: &str) -> Result<(Make, EngineKind)> {
    let pure = name.strip_prefix(PURE);
    let called = pure.unwrap_or(name);
    let Some(&kind) = EngineKind::VALUES.iter().find(|kind| kind.name() == called) else {
        let names = EngineKind::NAMES.join(", ");
        bail!("no engine {name:?}; there are {BARE}, {names}, and {PURE} before one of these");
    };
    Ok((if pure.is_some() { Engine::without_list } else { Engine::new }, kind))
}

/// Does `count` matches with the engine `name` of a communicator of 512 ranks, of which `queued` have
/// messages to come; 0: one at a time.
pub(crate) fn run(name: &str, count: u64, queued: u32) -> Result<()> {
    if name == BARE {
        let mut list = ListEngine::<Off>::new();
        match queued {
            0 => matches(&mut list, count),
            _ => deep_matches(&mut list, queued, count / u64::from(queued), 0),
        }
        return Ok(());
    }
    let (make, kind) = engine(name)?;
    let mut engine = make(kind, 512);
    match queued {
        0 => matches(&mut engine, count),
        _ => {
            let settling = if kind == EngineKind::List { 0 } else { SETTLING };
            deep_matches(&mut engine, queued, count / u64::from(queued), settling);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_engine_can_be_counted() {
        let engines = ["auto", "list", "array", "four_d", "hashed", "nd"];
        let pure = engines.map(|name| format!("pure-{name}"));
        for name in engines.into_iter().chain(pure.iter().map(String::as_str)).chain(["bare-list"])
        {
            super::run(name, 100, 0).unwrap();
            super::run(name, 128, 64).unwrap();
        }
        assert!(super::run("none", 1, 0).is_err());
        for name in ["list", "lists", "auto", "pure-array"] {
            super::caches(name, 3, 64).unwrap();
        }
        assert!(super::caches("none", 3, 64).is_err());
    }
}
