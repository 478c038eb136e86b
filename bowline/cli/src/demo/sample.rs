//! Splitting sorted lines among ranks by samples; the pure part of the distributed sort.
//!
//! Lines are ordered by their bytes, then by the rank and the place where they were before. The
//! second part of the order makes all lines different, so that a line which occurs a million
//! times is spread over the ranks instead of landing on one.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io::{self, Write};

/// Bytes of a line that a sample keeps. A shortened sample is still a point in the order.
const SAMPLE_MAX: usize = 128;

/// A point in the order of all lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sample {
    bytes: Vec<u8>,
    rank: u32,
    place: u64,
}

/// Takes a sample from every `stride` bytes of this rank's sorted lines, so that each sample
/// stands for equally many bytes of the whole.
pub(crate) fn samples(lines: &[&[u8]], rank: u32, stride: u64) -> Vec<Sample> {
    let mut taken = Vec::new();
    let mut passed = 0;
    for (line, place) in lines.iter().zip(0..) {
        passed += line.len() as u64 + 1;
        while passed >= stride {
            passed -= stride;
            let bytes = line[..line.len().min(SAMPLE_MAX)].to_vec();
            taken.push(Sample { bytes, rank, place });
        }
    }
    taken
}

/// Samples as bytes: rank, place, length, bytes.
pub(crate) fn pack(samples: &[Sample]) -> Vec<u8> {
    let mut out = Vec::new();
    for sample in samples {
        out.extend(sample.rank.to_le_bytes());
        out.extend(sample.place.to_le_bytes());
        out.push(sample.bytes.len() as u8);
        out.extend(&sample.bytes);
    }
    out
}

/// The samples that `packed` holds, or `None` when it is damaged.
pub(crate) fn unpack(mut packed: &[u8]) -> Option<Vec<Sample>> {
    let mut samples = Vec::new();
    while !packed.is_empty() {
        let (rank, rest) = packed.split_first_chunk()?;
        let (place, rest) = rest.split_first_chunk()?;
        let (&length, rest) = rest.split_first()?;
        let (bytes, rest) = rest.split_at_checked(length.into())?;
        samples.push(Sample {
            bytes: bytes.to_vec(),
            rank: u32::from_le_bytes(*rank),
            place: u64::from_le_bytes(*place),
        });
        packed = rest;
    }
    Some(samples)
}

/// Where each rank's share of this rank's sorted lines ends, given the samples of all ranks. The
/// last end is the number of lines.
pub(crate) fn shares(lines: &[&[u8]], rank: u32, all: &mut [Sample], ranks: usize) -> Vec<usize> {
    all.sort_unstable();
    let splitter = |k: usize| all.get(k * all.len() / ranks);
    let end = |k| splitter(k).map_or(lines.len(), |at| lines_before(lines, rank, at));
    (1..ranks).map(end).chain([lines.len()]).collect()
}

/// How many of the sorted lines come before `at`.
fn lines_before(lines: &[&[u8]], rank: u32, at: &Sample) -> usize {
    let is_before = |place: usize| {
        let own = (rank, place as u64);
        lines[place].cmp(&at.bytes).then(own.cmp(&(at.rank, at.place))) == Ordering::Less
    };
    let (mut low, mut high) = (0, lines.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Bytes between two reports of progress.
const REPORT: u64 = 1 << 20;

/// Writes the lines of several sorted texts as one sorted text. `progress` is called with the bytes, now
/// and then.
///
/// # Errors
/// Those of `out`.
pub(crate) fn merge<'a>(
    runs: impl IntoIterator<Item = &'a [u8]>,
    out: &mut impl Write,
    mut progress: impl FnMut(u64),
) -> io::Result<()> {
    let mut rest: Vec<_> = runs.into_iter().map(super::lines::lines).collect();
    let first = |(run, lines): (usize, &mut _)| Some(Reverse((Iterator::next(lines)?, run)));
    let mut heads: BinaryHeap<_> = rest.iter_mut().enumerate().filter_map(first).collect();
    let mut untold = 0;
    while let Some(mut head) = heads.peek_mut() {
        let Reverse((line, run)) = *head;
        out.write_all(line)?;
        out.write_all(b"\n")?;
        untold += line.len() as u64 + 1;
        if untold >= REPORT {
            progress(std::mem::take(&mut untold));
        }
        match rest[run].next() {
            Some(next) => *head = Reverse((next, run)),
            None => {
                std::collections::binary_heap::PeekMut::pop(head);
            }
        }
    }
    progress(untold);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lines_are_spread() {
        let line: &[u8] = b"the same";
        let lines = [line; 1000];
        let mut all: Vec<_> = (0..4).flat_map(|rank| samples(&lines, rank, 900)).collect();
        let mut received = [0; 4];
        for rank in 0..4 {
            let mut begin = 0;
            for (count, end) in received.iter_mut().zip(shares(&lines, rank, &mut all, 4)) {
                *count += end - begin;
                begin = end;
            }
            assert_eq!(begin, 1000);
        }
        assert!(received.iter().all(|&count| (900..=1100).contains(&count)), "{received:?}");
    }

    #[test]
    fn shares_of_different_ranks_do_not_overlap_in_order() {
        let texts: [&[&[u8]]; 2] = [&[b"a", b"c", b"c", b"e"], &[b"", b"c", b"d", b"z"]];
        let mut all: Vec<_> = samples(texts[0], 0, 2);
        all.extend(samples(texts[1], 1, 2));
        let ends: Vec<_> = (0..2).map(|r| shares(texts[r], r as u32, &mut all, 3)).collect();
        let mut last: &[u8] = b"";
        for k in 0..3 {
            let begin = |rank: usize| if k == 0 { 0 } else { ends[rank][k - 1] };
            let mut share: Vec<_> =
                (0..2).flat_map(|rank| texts[rank][begin(rank)..ends[rank][k]].to_vec()).collect();
            share.sort_unstable();
            for line in share {
                assert!(last <= line);
                last = line;
            }
        }
    }

    #[test]
    fn without_samples_the_last_rank_takes_all() {
        assert_eq!(shares(&[b"a"], 0, &mut [], 3), [1, 1, 1]);
        assert_eq!(shares(&[], 0, &mut [], 1), [0]);
    }

    #[test]
    fn samples_survive_packing_and_damage_is_seen() {
        let long = [7; 500];
        let lines: [&[u8]; 3] = [b"", b"x", &long];
        let taken = samples(&lines, 3, 1);
        assert!(taken.iter().all(|sample| sample.bytes.len() <= SAMPLE_MAX));
        let packed = pack(&taken);
        assert_eq!(unpack(&packed), Some(taken));
        assert_eq!(unpack(&packed[..packed.len() - 1]), None);
    }

    #[test]
    fn merging_keeps_bytes_below_the_newline_in_order() {
        let mut out = Vec::new();
        let mut counted = 0;
        merge([&b"a\na\t\nb\n"[..], b"", b"\na\nc\n"], &mut out, |bytes| counted += bytes).unwrap();
        assert_eq!(out, b"\na\na\na\t\nb\nc\n");
        assert_eq!(counted, out.len() as u64);
    }
}
