//! Tables of algorithms: what was written is read, and bytes that nobody wrote as a table are refused or harmless.

use bowline_model::coll::tuned::{Cell, Tuned};
use bowline_model::coll::wanted::Wanted;
use proptest::prelude::*;

/// Cells of different numbers of ranks, so that none meets another.
fn cells() -> impl Strategy<Value = Vec<Cell>> {
    let words =
        ["auto", "flat", "binomial", "chain", "multiplying:2", "staged", "a2,a2", "halving"];
    let cell = (0..Wanted::COLLECTIVES.len(), 0..words.len(), 1_u32..9, 0_u32..30, 0_u32..10);
    prop::collection::vec((cell, "\\PC{0,9}"), 0..20).prop_map(move |all| {
        type Drawn = ((usize, usize, u32, u32, u32), String);
        let cell = |(((collective, word, nodes, from, doubles), note), ranks): (Drawn, u32)| {
            let lengths = (if from == 0 { 0 } else { (1 << from) + 1 }, 1 << (from + 1 + doubles));
            let collective = Wanted::COLLECTIVES[collective];
            // Some of these words are none of their collective.
            Cell::new(collective, (ranks, nodes), lengths, words[word], &note).ok()
        };
        all.into_iter().zip(8..).filter_map(cell).collect()
    })
}

/// Parses it, and what was read once more after it was written.
fn read(bytes: &[u8]) -> Option<Tuned> {
    match Tuned::parse(bytes) {
        Ok(table) => {
            assert_eq!(Tuned::parse(table.to_string().as_bytes()).as_ref(), Ok(&table));
            Some(table)
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

proptest! {
    #[test]
    fn what_was_written_is_read(cells in cells()) {
        let mut table = Tuned::default();
        table.learn(cells.clone());
        prop_assert_eq!(read(table.to_string().as_bytes()), Some(table.clone()));
        for cell in &cells {
            let line = cell.to_string();
            let mut words = line.split(' ').skip(1);
            let mut number = || words.next().unwrap();
            let (ranks, nodes) = (number().parse().unwrap(), number().parse().unwrap());
            let (from, upto) = number().split_once('-').unwrap();
            let upto: usize = upto.parse().unwrap();
            let found = table.of(ranks, nodes);
            let of = |bytes| found.cell(cell.collective(), bytes);
            let named = (cell.algorithm() != "auto").then_some(cell);
            prop_assert_eq!((of(upto), of(from.parse().unwrap())), (named, named));
            prop_assert_eq!(of(upto + 1), None);
        }
    }

    #[test]
    fn damage_is_refused_or_harmless(
        cells in cells(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let mut table = Tuned::default();
        table.learn(cells);
        let mut bytes = table.to_string().into_bytes();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        read(&bytes);
    }

    #[test]
    fn lines_of_any_kind_do_no_harm(line in "[a-z_]{0,9}( [0-9a,-]{0,20}){0,6}", bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read(format!("{}{line}", Tuned::default()).as_bytes());
        read(&[Tuned::default().to_string().as_bytes(), &bytes].concat());
    }
}
