//! `--count ENGINE --matches N`: that many matches with an empty queue, to be counted by callgrind.

use std::hint::black_box;

use anyhow::{Result, bail};
use bowline_base::config::Choice as _;
use bowline_ucp::matching::{Engine, EngineKind, ListEngine, MatchEngine, Off, Want};

/// The name of the list without an engine around it.
const BARE: &str = "bare-list";

/// In front of the name of an engine that is to have no list before its index.
const PURE: &str = "pure-";

/// One match: a receive is posted, its message arrives. The name is what callgrind looks for.
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

/// Does `count` matches with the engine `name` of a communicator of 512 ranks.
pub(crate) fn run(name: &str, count: u64) -> Result<()> {
    if name == BARE {
        matches(&mut ListEngine::<Off>::new(), count);
        return Ok(());
    }
    let pure = name.strip_prefix(PURE);
    let called = pure.unwrap_or(name);
    let Some(&kind) = EngineKind::VALUES.iter().find(|kind| kind.name() == called) else {
        let names = EngineKind::NAMES.join(", ");
        bail!("no engine {name:?}; there are {BARE}, {names}, and {PURE} before one of these");
    };
    let make = if pure.is_some() { Engine::without_list } else { Engine::new };
    matches(&mut make(kind, 512), count);
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
            super::run(name, 100).unwrap();
        }
        assert!(super::run("none", 1).is_err());
    }
}
