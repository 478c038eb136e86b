//! Random programs against a model: messages between three members, and one-sided operations on
//! a window. A failing program is reduced to a short one and printed.

use std::collections::{HashMap, VecDeque};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::harness::{Flavour, ReceivedAm, World, header_of, pattern};
use super::rma::{MemoryKind, RmaFlavour, Window, fetch, flush, post};
use super::{Subject, not_applicable};
use crate::{AmId, AtomicOp, AtomicWidth, Caps, PostError};

/// Members of a message program.
const MEMBERS: usize = 3;

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() })
}

/// A step of a message program.
#[derive(Clone, Debug)]
enum Step {
    Send { from: usize, to: usize, flavour: usize, len: usize },
    Progress { member: usize, budget: u32 },
    Enough { member: usize, on: bool },
    Ask { from: usize, to: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let member = 0..MEMBERS;
    let len = prop_oneof![0_usize..70, 0_usize..3000, Just(usize::MAX)];
    prop_oneof![
        12 => (member.clone(), member.clone(), 0_usize..3, len).prop_map(
            |(from, to, flavour, len)| Step::Send { from, to, flavour, len }
        ),
        5 => (member.clone(), 0_u32..9)
            .prop_map(|(member, budget)| Step::Progress { member, budget }),
        1 => (member.clone(), any::<bool>()).prop_map(|(member, on)| Step::Enough { member, on }),
        1 => (member.clone(), member).prop_map(|(from, to)| Step::Ask { from, to }),
    ]
}

/// What must still arrive, by direction.
#[derive(Default)]
struct Expected {
    streams: HashMap<(usize, usize), VecDeque<u64>>,
    ordered: bool,
    next: u64,
}

impl Expected {
    /// A seed says from whom and to whom a message goes.
    const fn seed(from: usize, to: usize, sequence: u64) -> u64 {
        sequence << 8 | (from as u64) << 4 | to as u64
    }

    fn arrived(&mut self, member: usize, message: &ReceivedAm) -> Result<(), TestCaseError> {
        message.verify();
        let [sequence, seed, _] = message.header;
        let (from, to) = ((seed >> 4 & 15) as usize, (seed & 15) as usize);
        prop_assert!(member == to, "a message to {} arrived at {}", to, member);
        let stream = self.streams.entry((from, to)).or_default();
        let place = stream.iter().position(|&expected| expected == sequence);
        prop_assert!(place.is_some(), "message {} was not expected (any more)", sequence);
        prop_assert!(!self.ordered || place == Some(0), "message {} is out of order", sequence);
        stream.remove(place.unwrap_or(0));
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.streams.values().all(VecDeque::is_empty)
    }
}

fn collect(world: &mut World, expected: &mut Expected) -> Result<(), TestCaseError> {
    // A loopback provider has one interface, whose messages say for which member they are.
    for place in 0..world.peers.len() {
        for message in world.peer(place).seen.take() {
            let member =
                if world.of().loopback { (message.header[1] & 15) as usize } else { place };
            expected.arrived(member, &message)?;
        }
    }
    Ok(())
}

/// Rounds in a row in which nothing happens, after which what is missing counts as lost.
const LOST_AFTER: u32 = 3_000_000;

fn run_messages(of: Subject, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut world = World::new(of, MEMBERS);
    let attr = world.attr();
    let flavours = Flavour::offered(&attr);
    let mut expected =
        Expected { ordered: attr.caps.contains(Caps::AM_ORDERED), ..Expected::default() };
    for step in steps {
        match *step {
            Step::Send { from, to, flavour, len } => {
                if from == to && !of.loopback {
                    continue;
                }
                let flavour = flavours[flavour % flavours.len()];
                let len = flavour.fit(&attr, len.min(40_000));
                let sequence = expected.next;
                let seed = Expected::seed(from, to, sequence);
                let (payload, header) = (pattern(seed, len), header_of(sequence, seed, len));
                match world.post(from, to, flavour, AmId::new(4), &header, &payload) {
                    Ok(()) => {
                        expected.streams.entry((from, to)).or_default().push_back(sequence);
                        expected.next += 1;
                    }
                    Err(PostError::NoResource) => {}
                    Err(error) => {
                        let failed = &world.peer(from).seen.failed;
                        prop_assert!(false, "{flavour:?} of {len} bytes: {error}; {failed:?}");
                    }
                }
            }
            Step::Progress { member, budget } => {
                world.peer(member).progress(budget);
                collect(&mut world, &mut expected)?;
            }
            Step::Enough { member, on } => world.peer(member).seen.enough = on,
            Step::Ask { from, to } => {
                if from != to || of.loopback {
                    let ep = world.ep(from, to);
                    world.peer(from).iface.want_writable(ep);
                }
            }
        }
    }
    // Everything comes. So many rounds in a row without an arrival are more than any transport needs: what is missing was lost.
    let mut idle = 0;
    while !expected.is_empty() {
        idle = if world.round() == 0 { idle + 1 } else { 0 };
        collect(&mut world, &mut expected)?;
        prop_assert!(idle < LOST_AFTER, "accepted messages never came: {:?}", expected.streams);
    }
    let settled = |w: &mut World| w.peers.iter().flatten().all(|peer| peer.lent.is_empty());
    world.until(settled);
    world.rounds(10);
    collect(&mut world, &mut expected)
}

/// Random programs of sends, progress with small budgets, receivers that have enough: every
/// accepted message arrives once, unchanged and in order.
pub fn messages(of: Subject) {
    let program = prop::collection::vec(step(), 1..400);
    let outcome = runner(48).run(&program, |steps| run_messages(of, &steps));
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

/// A step of a memory program.
#[derive(Clone, Debug)]
enum Access {
    Put { flavour: usize, offset: usize, len: usize, seed: u64 },
    Get { flavour: usize, offset: usize, len: usize },
    Atomic { op: u8, wide: bool, word: usize, operand: u64, fetched: bool },
    Owner { offset: usize, len: usize, seed: u64 },
}

/// Bytes of the window of a memory program.
const WINDOW: usize = 2048;

fn access() -> impl Strategy<Value = Access> {
    let range = (0..WINDOW, 0_usize..300);
    prop_oneof![
        (0_usize..3, range.clone(), any::<u64>()).prop_map(|(flavour, (offset, len), seed)| {
            Access::Put { flavour, offset, len, seed }
        }),
        (0_usize..2, range.clone()).prop_map(|(flavour, (offset, len))| Access::Get {
            flavour,
            offset,
            len
        }),
        (0_u8..6, any::<bool>(), 0_usize..WINDOW / 8, any::<u64>(), any::<bool>()).prop_map(
            |(op, wide, word, operand, fetched)| Access::Atomic {
                op,
                wide,
                word,
                operand,
                fetched
            }
        ),
        (range, any::<u64>()).prop_map(|((offset, len), seed)| Access::Owner { offset, len, seed }),
    ]
}

fn run_memory(
    of: Subject,
    kind: MemoryKind,
    atomics: bool,
    steps: &[Access],
) -> Result<(), TestCaseError> {
    let mut world = World::new(of, 2);
    let attr = world.attr();
    let window = Window::open(&mut world, kind, WINDOW);
    let mut model = vec![0_u8; WINDOW];
    let fits = |limits: Option<(usize, usize)>, len| {
        limits.is_some_and(|(min, max)| (min..=max).contains(&len))
    };
    for step in steps {
        match *step {
            Access::Put { flavour, offset, len, seed } => {
                let len = len.min(WINDOW - offset);
                let flavour = [RmaFlavour::Short, RmaFlavour::Bcopy, RmaFlavour::Zcopy][flavour];
                if !fits(flavour.put_limits(&world), len) {
                    continue;
                }
                let bytes = pattern(seed, len);
                let put = flavour.put(&mut world, &bytes, window.at(offset));
                prop_assert_eq!(put, Ok(()));
                model[offset..offset + len].copy_from_slice(&bytes);
            }
            Access::Get { flavour, offset, len } => {
                let len = len.min(WINDOW - offset);
                let flavour = [RmaFlavour::Bcopy, RmaFlavour::Zcopy][flavour];
                if !fits(flavour.get_limits(&world), len) {
                    continue;
                }
                // A get may overtake a put unless a flush stands between them.
                flush(&mut world);
                let found = flavour.get(&mut world, window.at(offset), len);
                prop_assert!(found.as_deref() == Ok(&model[offset..offset + len]), "{:?}", step);
            }
            Access::Atomic { op, wide, word, operand, fetched } => {
                let offset = word * 8;
                let bytes = &mut model[offset..offset + if wide { 8 } else { 4 }];
                let old = match *bytes {
                    [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
                    [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
                    _ => unreachable!("a word has 4 or 8 bytes"),
                };
                let (op, new) = match op {
                    0 => (AtomicOp::Add(operand), old.wrapping_add(operand)),
                    1 => (AtomicOp::And(operand), old & operand),
                    2 => (AtomicOp::Or(operand), old | operand),
                    3 => (AtomicOp::Xor(operand), old ^ operand),
                    4 => (AtomicOp::Swap(operand), operand),
                    _ => (AtomicOp::Cswap { compare: old, new: operand }, operand),
                };
                if !attr.atomics.contains(op.kind()) || !atomics {
                    continue;
                }
                flush(&mut world);
                let width = if wide { AtomicWidth::W64 } else { AtomicWidth::W32 };
                if fetched {
                    prop_assert_eq!(fetch(&mut world, op, width, window.at(offset)), Ok(old));
                } else {
                    prop_assert_eq!(post(&mut world, op, width, window.at(offset)), Ok(()));
                }
                match bytes.len() {
                    4 => bytes.copy_from_slice(&(new as u32).to_ne_bytes()),
                    _ => bytes.copy_from_slice(&new.to_ne_bytes()),
                }
            }
            Access::Owner { offset, len, seed } => {
                let len = len.min(WINDOW - offset);
                let bytes = pattern(seed, len);
                flush(&mut world);
                let view = window.view(&mut world).slice(offset, len);
                view.expect("inside").copy_in(&bytes);
                model[offset..offset + len].copy_from_slice(&bytes);
            }
        }
    }
    flush(&mut world);
    prop_assert!(window.view(&mut world).to_vec() == model, "the window differs from the model");
    Ok(())
}

/// Random programs of puts, gets, atomics and the owner's own writes: the window holds what a
/// plain array of bytes would.
pub fn memory(of: Subject) {
    let kinds = MemoryKind::reached(&mut World::new(of, 2));
    let caps = World::new(of, 2).attr().caps;
    if !caps.intersects(Caps::PUT_SHORT | Caps::PUT_BCOPY | Caps::PUT_ZCOPY) {
        return not_applicable(of, "no put");
    }
    let with_atomics = MemoryKind::with_atomics(&mut World::new(of, 2));
    for kind in kinds {
        let atomics = with_atomics.contains(&kind);
        let program = prop::collection::vec(access(), 1..150);
        let outcome = runner(32).run(&program, |steps| run_memory(of, kind, atomics, &steps));
        if let Err(error) = outcome {
            panic!("{kind:?}: {error}");
        }
    }
}
