//! Atomics: the right arithmetic in both widths, nothing beside the word, and one order for
//! everybody who touches it.

use bowline_base::sync::atomic::{AtomicU64, Ordering};

use super::effort::{Effort, Idle};
use super::harness::{Random, World};
use super::rma::{MemoryKind, Window, fetch, post};
use super::{Subject, not_applicable};
use crate::{AtomicOp, AtomicOps, AtomicWidth, Caps, PostError, RemoteSlice, Token};

const WIDTHS: [AtomicWidth; 2] = [AtomicWidth::W32, AtomicWidth::W64];

fn has_atomics(of: Subject) -> bool {
    let attr = World::new(of, 2).attr();
    let some = !attr.atomics.is_empty();
    if !some {
        not_applicable(of, "no atomics");
    }
    some
}

const fn mask(width: AtomicWidth) -> u64 {
    match width {
        AtomicWidth::W32 => 0xffff_ffff,
        AtomicWidth::W64 => u64::MAX,
    }
}

/// What `op` makes of `old`.
const fn model(op: AtomicOp, width: AtomicWidth, old: u64) -> u64 {
    let mask = mask(width);
    let new = match op {
        AtomicOp::Add(by) => old.wrapping_add(by),
        AtomicOp::And(by) => old & by,
        AtomicOp::Or(by) => old | by,
        AtomicOp::Xor(by) => old ^ by,
        AtomicOp::Swap(by) => by,
        AtomicOp::Cswap { compare, new } => {
            if old & mask == compare & mask {
                new
            } else {
                old
            }
        }
    };
    new & mask
}

fn operations(random: &mut Random, old: u64) -> [AtomicOp; 8] {
    let mut word = || random.word();
    [
        AtomicOp::Add(word()),
        AtomicOp::Add(u64::MAX),
        AtomicOp::And(word()),
        AtomicOp::Or(word()),
        AtomicOp::Xor(word()),
        AtomicOp::Swap(word()),
        AtomicOp::Cswap { compare: old, new: word() },
        AtomicOp::Cswap { compare: !old, new: word() },
    ]
}

/// Puts `value` into the word of `width` at `offset`, as the owner.
fn store(world: &mut World, window: &Window, offset: usize, width: AtomicWidth, value: u64) {
    let view = window.view(world).slice(offset, 8).expect("inside");
    match width {
        AtomicWidth::W32 => view.copy_in(&(value as u32).to_ne_bytes()),
        AtomicWidth::W64 => view.copy_in(&value.to_ne_bytes()),
    };
}

fn load(world: &mut World, window: &Window, offset: usize, width: AtomicWidth) -> u64 {
    let mut bytes = [0; 8];
    window.view(world).slice(offset, 8).expect("inside").copy_out(&mut bytes);
    match width {
        AtomicWidth::W32 => u64::from(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
        AtomicWidth::W64 => u64::from_ne_bytes(bytes),
    }
}

/// Every kind of operation, with and without a result, in both widths, against a model.
pub fn every_operation(of: Subject) {
    if !has_atomics(of) {
        return;
    }
    let mut world = World::new(of, 2);
    let attr = world.attr();
    let mut random = Random::new(31);
    for kind in MemoryKind::with_atomics(&mut world) {
        let window = Window::open(&mut world, kind, 4096);
        for width in WIDTHS {
            for round in 0..20 {
                let offset = [0, 8, 4088, 64][round % 4];
                let old = random.word() & mask(width);
                for op in operations(&mut random, old) {
                    if attr.atomics.contains(op.kind()) {
                        store(&mut world, &window, offset, width, old);
                        post(&mut world, op, width, window.at(offset)).expect("inside");
                        let new = load(&mut world, &window, offset, width);
                        assert_eq!(
                            new,
                            model(op, width, old),
                            "{kind:?} {width:?} {op:?} of {old:#x}"
                        );
                        store(&mut world, &window, offset, width, old);
                        let found =
                            fetch(&mut world, op, width, window.at(offset)).expect("inside");
                        assert_eq!(found, old, "the old value of {kind:?} {width:?} {op:?}");
                        let new = load(&mut world, &window, offset, width);
                        assert_eq!(
                            new,
                            model(op, width, old),
                            "{kind:?} {width:?} {op:?} of {old:#x}"
                        );
                    }
                }
            }
        }
    }
}

/// An operation of 32 bits leaves the other half of the word alone.
pub fn neighbours_are_untouched(of: Subject) {
    if !has_atomics(of) {
        return;
    }
    let mut world = World::new(of, 2);
    let attr = world.attr();
    let mut random = Random::new(37);
    for kind in MemoryKind::with_atomics(&mut world) {
        let window = Window::open(&mut world, kind, 64);
        for width in WIDTHS {
            let bytes = if width == AtomicWidth::W32 { 4 } else { 8 };
            for offset in (0..64).step_by(bytes) {
                for op in operations(&mut random, 0x5555_5555_5555_5555) {
                    window.view(&mut world).copy_in(&[0x55; 64]);
                    if attr.atomics.contains(op.kind()) {
                        post(&mut world, op, width, window.at(offset)).expect("inside");
                    }
                    let mut found = window.view(&mut world).to_vec();
                    found[offset..offset + bytes].fill(0x55);
                    assert_eq!(found, [0x55; 64], "{width:?} {op:?} at {offset}");
                }
            }
        }
    }
}

/// Misaligned and out-of-range words are refused, and nothing changes.
pub fn bad_operands_are_refused(of: Subject) {
    if !has_atomics(of) {
        return;
    }
    let mut world = World::new(of, 2);
    let attr = world.attr();
    let ep = world.ep(0, 1);
    for kind in MemoryKind::with_atomics(&mut world) {
        let window = Window::open(&mut world, kind, 64);
        let start = window.at(0).address;
        let refuse = |world: &mut World, width, address, expected| {
            let at = RemoteSlice { address, rkey: window.at(0).rkey };
            if attr.atomics.contains(AtomicOps::ADD) {
                for token in [Token::NONE, Token(77)] {
                    let op = AtomicOp::Add(1);
                    let refused = world.peer(0).iface.atomic(ep, op, width, at, token);
                    assert_eq!(refused, Err(expected), "{width:?} at {address:#x}");
                }
            }
        };
        for (width, bytes) in WIDTHS.into_iter().zip([4, 8]) {
            for offset in 1..bytes {
                refuse(&mut world, width, start + offset, PostError::BadArgument);
            }
            for address in [start - bytes, start + 64, start + (1 << 40), 0, u64::MAX - bytes + 1] {
                refuse(&mut world, width, address, PostError::BadRemote);
            }
        }
        world.rounds(20);
        assert!(world.peer(0).seen.completed.is_empty(), "a refused operation completed");
        assert_eq!(window.view(&mut world).to_vec(), [0; 64], "a refused operation changed memory");
    }
}

/// Two initiators and the owner's own atomics add to one word: every step is counted once, and no
/// two see the same old value.
pub fn contention_with_the_owner(of: Subject) {
    const STEPS: u64 = 20_000;
    // Of those that need a processor of the owner each, which on a machine with other work takes its time.
    const STEPS_SERVED: u64 = 2_000;
    const LEAST_SERVED: u64 = 100;
    let mut world = World::new(of, 3);
    let attr = world.attr();
    let add = AtomicOps::ADD;
    if !attr.caps.contains(Caps::ATOMIC_CPU) || !attr.atomics.contains(add) {
        return not_applicable(of, "no fetching addition that is coherent with the processor");
    }
    for kind in MemoryKind::with_atomics(&mut world) {
        let window = Window::open(&mut world, kind, 64);
        let packed = world.packed_key(&window);
        let word = std::ptr::from_ref(window.word(&mut world, 8)) as usize;
        let address = window.at(8).address;
        // Members 0 and 2 on threads of their own; a loopback provider has the one.
        let (ep_0, ep_2) = (world.ep(0, 1), world.ep(2, 1));
        let mut places: Vec<_> = world.peers.iter_mut().map(Option::as_mut).collect();
        let second = if of.loopback { None } else { places[2].take() };
        let first = places[0].take();
        let mut seen: Vec<u64> = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (peer, ep) in [(first, ep_0), (second, ep_2)] {
                let Some(peer) = peer else { continue };
                let packed = &packed;
                threads.push(scope.spawn(move || {
                    let rkey = peer.iface.rkey_unpack(ep, packed).expect("a whole key opens");
                    let at = RemoteSlice { address, rkey };
                    let (mut seen, mut effort) = (Vec::new(), Effort::new(STEPS, STEPS));
                    let mut idle = Idle::default();
                    while effort.goes_on(seen.len() as u64) {
                        let token = peer.token();
                        let op = AtomicOp::Add(1);
                        match peer.iface.atomic(ep, op, AtomicWidth::W64, at, token) {
                            Ok(Some(old)) => seen.push(old),
                            Ok(None) => {
                                if seen.is_empty() {
                                    effort = Effort::new(LEAST_SERVED, STEPS_SERVED);
                                }
                                while peer.seen.completed.is_empty() {
                                    let events = peer.progress(16);
                                    idle.after(events);
                                }
                                let (_, result) = peer.seen.completed.remove(0);
                                seen.push(result.expect("the operation succeeds"));
                            }
                            Err(PostError::NoResource) => {
                                peer.progress(16);
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                    peer.iface.rkey_release(rkey);
                    seen
                }));
            }
            // The owner's processor, on this thread.
            // SAFETY: an aligned word of the window, which is released after the scope; it is only
            // accessed by atomics.
            let word = unsafe { AtomicU64::from_ptr(word as *mut u64) };
            let mut seen = Vec::new();
            while seen.len() < STEPS as usize || threads.iter().any(|thread| !thread.is_finished())
            {
                if seen.len() < STEPS as usize {
                    // Relaxed: only the count matters.
                    seen.push(word.fetch_add(1, Ordering::Relaxed));
                }
                // An owner whose transport serves atomics by its progress does that here.
                let served = match places.get_mut(1) {
                    Some(Some(owner)) => owner.progress(16),
                    _ => 0,
                };
                // Initiators that share its processor would get one step done in each time slice of it; and it
                // would get one done in each of theirs, did it give the processor away after every step.
                if served == 0 && (seen.len() == STEPS as usize || seen.len().is_multiple_of(256)) {
                    std::thread::yield_now();
                }
            }
            for thread in threads {
                seen.extend(thread.join().expect("no panic"));
            }
            seen
        });
        seen.sort_unstable();
        let all = seen.len() as u64;
        assert!(all >= STEPS + LEAST_SERVED, "two at least take part");
        assert!(seen.iter().copied().eq(0..all), "{kind:?}: a step was lost or seen twice");
        assert_eq!(load(&mut world, &window, 8, AtomicWidth::W64), all);
    }
}
