//! The interpreter of plans that proves: all ranks in one memory, bytes that know what they are.
//!
//! A byte is a symbol: which element of the vector it is, and whose contributions it holds, in
//! order. Sends are rendezvous: they complete when they are matched, so a plan that relies on
//! buffering deadlocks here. The rules of [`plan`](super::plan) are checked at each step.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;

use super::plan::{Place, Space, Span};
use super::record::Step;

/// A plan that is written down.
pub(super) type Recorder = super::record::Recorder<Infallible>;

/// A byte: its element, and the ranks whose contributions it combines, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) element: usize,
    pub(super) ranks: Vec<u32>,
}

impl Symbol {
    pub(super) fn of(element: usize, rank: u32) -> Self {
        Self { element, ranks: vec![rank] }
    }
}

/// What a byte is, if anything.
pub(super) type Byte = Option<Symbol>;

/// The memories of a rank at the start.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) input: Vec<Byte>,
    pub(super) output: Vec<Byte>,
    pub(super) scratch: usize,
}

#[derive(Debug)]
struct Rank {
    steps: Vec<Step>,
    next: usize,
    spaces: [Vec<Byte>; 3],
    /// Spans in use by operations under way; `true` for receives.
    flights: Vec<(Span, bool)>,
    sent: usize,
}

impl Rank {
    fn check(&self, span: Span, write: bool) {
        assert!(span.at + span.len <= self.spaces[span.space as usize].len(), "{span:?} outside");
        assert!(!(write && span.space == Space::Input && span.len > 0), "the input is written");
        for (other, receive) in &self.flights {
            let clash = other.overlaps(span) && (write || *receive);
            assert!(!clash, "{span:?} is used while {other:?} is under way");
        }
    }

    fn get(&self, span: Span) -> Vec<Byte> {
        self.spaces[span.space as usize][span.at..span.at + span.len].to_vec()
    }

    fn set(&mut self, span: Span, bytes: &[Byte]) {
        assert!(bytes.iter().all(Option::is_some), "bytes that were never written are moved");
        self.spaces[span.space as usize][span.at..span.at + span.len].clone_from_slice(bytes);
    }

    fn land(&mut self, span: Span, receive: bool) {
        let at = self.flights.iter().position(|flight| *flight == (span, receive));
        self.flights.swap_remove(at.expect("what is matched is under way"));
    }
}

/// How a simulation ended.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The output of each rank.
    pub(super) outputs: Vec<Vec<Byte>>,
    /// Messages sent by each rank.
    pub(super) sent: Vec<usize>,
}

/// Runs a plan on `size` ranks. Panics when a rule is broken, at a deadlock, and when messages
/// are left over.
pub(super) fn simulate(
    size: u32,
    memory: impl Fn(u32) -> Memory,
    algorithm: impl Fn(&mut Recorder, Place) -> Result<(), Infallible>,
) -> Outcome {
    let mut ranks: Vec<_> = (0..size)
        .map(|rank| {
            let mut recorder = Recorder::default();
            let Ok(()) = algorithm(&mut recorder, Place { rank, size });
            let Memory { input, output, scratch } = memory(rank);
            let spaces = [input, output, vec![None; scratch]];
            Rank {
                steps: recorder.finish().unwrap().iter().collect(),
                next: 0,
                spaces,
                flights: Vec::new(),
                sent: 0,
            }
        })
        .collect();

    // Unmatched sends and receives by (from, to, phase), in order.
    let mut sends: HashMap<(u32, u32, u8), VecDeque<Span>> = HashMap::new();
    let mut receives: HashMap<(u32, u32, u8), VecDeque<Span>> = HashMap::new();
    loop {
        let mut moved = false;
        for me in 0..size {
            moved |= advance(&mut ranks, me, &mut sends, &mut receives);
        }
        if !moved {
            break;
        }
    }

    for (me, rank) in ranks.iter().enumerate() {
        assert_eq!(rank.next, rank.steps.len(), "deadlock: rank {me} waits for {:?}", rank.flights);
        assert!(rank.flights.is_empty(), "rank {me} does not wait for {:?}", rank.flights);
    }
    assert!(sends.values().chain(receives.values()).all(VecDeque::is_empty), "messages are left");
    let sent = ranks.iter().map(|rank| rank.sent).collect();
    let outputs = ranks.into_iter().map(|rank| rank.spaces.into_iter().nth(1).unwrap()).collect();
    Outcome { outputs, sent }
}

type Waiting = HashMap<(u32, u32, u8), VecDeque<Span>>;

/// Runs one rank until it has to wait; whether it did anything.
fn advance(ranks: &mut [Rank], me: u32, sends: &mut Waiting, receives: &mut Waiting) -> bool {
    let start = ranks[me as usize].next;
    let size = ranks.len() as u32;
    loop {
        let rank = &mut ranks[me as usize];
        let Some(&step) = rank.steps.get(rank.next) else { break };
        match step {
            Step::Wait if !rank.flights.is_empty() => break,
            Step::Wait => {}
            Step::Copy { from, into } => {
                assert_eq!(from.len, into.len);
                if from != into {
                    assert!(!from.overlaps(into));
                    rank.check(from, false);
                    rank.check(into, true);
                    let bytes = rank.get(from);
                    rank.set(into, &bytes);
                }
            }
            Step::Reduce { left, right } => {
                assert_eq!(left.len, right.len);
                assert!(!left.overlaps(right));
                rank.check(left, false);
                rank.check(right, true);
                let merged: Vec<_> = rank
                    .get(left)
                    .into_iter()
                    .zip(rank.get(right))
                    .map(|(left, right)| {
                        let (left, right) = (left.expect("written"), right.expect("written"));
                        assert_eq!(left.element, right.element, "elements are mixed up");
                        let ranks = left.ranks.into_iter().chain(right.ranks).collect();
                        Some(Symbol { element: left.element, ranks })
                    })
                    .collect();
                rank.set(right, &merged);
            }
            Step::Send { to, from, phase } => {
                assert!(to < size && to != me, "rank {me} sends to {to}");
                rank.check(from, false);
                rank.flights.push((from, false));
                rank.sent += 1;
                sends.entry((me, to, phase)).or_default().push_back(from);
                deliver(ranks, (me, to, phase), sends, receives);
            }
            Step::Recv { from, into, phase } => {
                assert!(from < size && from != me, "rank {me} receives from {from}");
                rank.check(into, true);
                rank.flights.push((into, true));
                receives.entry((from, me, phase)).or_default().push_back(into);
                deliver(ranks, (from, me, phase), sends, receives);
            }
        }
        ranks[me as usize].next += 1;
    }
    ranks[me as usize].next > start
}

fn deliver(ranks: &mut [Rank], key: (u32, u32, u8), sends: &mut Waiting, receives: &mut Waiting) {
    let (Some(out), Some(into)) = (sends.get_mut(&key), receives.get_mut(&key)) else { return };
    while let (Some(&from), Some(&to)) = (out.front(), into.front()) {
        out.pop_front();
        into.pop_front();
        assert_eq!(from.len, to.len, "{key:?}: lengths differ");
        let bytes = ranks[key.0 as usize].get(from);
        ranks[key.1 as usize].set(to, &bytes);
        ranks[key.0 as usize].land(from, false);
        ranks[key.1 as usize].land(to, true);
    }
}
