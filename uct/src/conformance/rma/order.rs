//! When what was put can be seen: after a flush, in the order of a fence, before a notification,
//! an atomic or a message.

use bowline_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::super::harness::{Random, World, pattern};
use super::super::{Subject, not_applicable};
use super::{MemoryKind, RMA_FLAVOURS, RmaFlavour, Window, any_put, flush, retry};
use crate::{AmId, AtomicOp, AtomicOps, AtomicWidth, Caps, LocalSlice, PostError, Posted, Token};

/// A put with notification is visible when the notification arrives.
pub fn put_with_notification(of: Subject) {
    let mut world = World::new(of, 2);
    if !world.attr().caps.contains(Caps::PUT_NOTIFY) {
        return not_applicable(of, "no notification");
    }
    let (ep, id) = (world.ep(0, 1), AmId::new(17));
    let longest = world.attr().limits.put.max_short.min(4096);
    for kind in MemoryKind::reached(&mut world) {
        let window = Window::open(&mut world, kind, 4096);
        for round in 0..500_u64 {
            let (bytes, header) = (pattern(round, 1 + round as usize % longest), [round, 1, 2]);
            retry(&mut world, |w| {
                w.peer(0).iface.put_notify(ep, &bytes, window.at(0), id, &header)
            })
            .expect("inside");
            let message = world.receive(1, 1).remove(0);
            assert_eq!((message.id, message.header), (id, header));
            assert!(message.payload.is_empty(), "a notification has no payload");
            assert!(window.view(&mut world).to_vec()[..bytes.len()] == bytes, "not visible yet");
        }
        let bad = window.at(window.len);
        let refused = world.peer(0).iface.put_notify(ep, &[1], bad, id, &[0; 3]);
        assert_eq!(refused, Err(PostError::BadRemote));
        world.rounds(20);
        assert!(world.peer(1).seen.messages.is_empty(), "a notification of nothing");
    }
}

/// After a flush, of the endpoint or of all, what was put before is in the target's memory.
pub fn flushed_puts_are_visible(of: Subject) {
    let mut world = World::new(of, 2);
    let mut random = Random::new(29);
    for kind in MemoryKind::reached(&mut world) {
        let window = Window::open(&mut world, kind, 1 << 16);
        let mut expected = vec![0; 1 << 16];
        for round in 0..200 {
            for _ in 0..=random.below(5) {
                let flavour = RMA_FLAVOURS[random.below(3)];
                let Some((min, max)) = flavour.put_limits(&world) else {
                    continue;
                };
                let len = random.below(3000).clamp(min, max);
                let offset = random.below((1 << 16) - len);
                let bytes = pattern(random.word(), len);
                flavour.put(&mut world, &bytes, window.at(offset)).expect("inside");
                expected[offset..offset + len].copy_from_slice(&bytes);
            }
            if round % 2 == 0 {
                flush(&mut world);
            } else {
                let token = world.peer(0).token();
                let posted = retry(&mut world, |w| w.peer(0).iface.flush_all(token));
                world.finish(0, token, posted);
            }
            assert!(window.view(&mut world).to_vec() == expected, "{kind:?}: round {round}");
        }
    }
}

/// Where the interface says so, what was put is there when a later message is delivered, without a flush.
pub fn puts_are_visible_before_messages(of: Subject) {
    const LONGEST: usize = 1 << 18;
    let mut world = World::new(of, 2);
    if !world.attr().caps.contains(Caps::PUT_BEFORE_AM) {
        return not_applicable(of, "puts and messages are not ordered");
    }
    let (ep, id) = (world.ep(0, 1), AmId::new(18));
    let mut random = Random::new(31);
    for kind in MemoryKind::reached(&mut world) {
        let window = Window::open(&mut world, kind, LONGEST);
        for round in 0..300_u64 {
            let flavour = RMA_FLAVOURS[random.below(3)];
            let Some((min, max)) = flavour.put_limits(&world) else { continue };
            // Most are short, and some do not go in one piece.
            let longest = [64, 5000, LONGEST][random.below(9) / 4];
            let len = random.below(longest).clamp(min, max.min(LONGEST));
            let (bytes, to) = (pattern(random.word(), len), window.at(0));
            let token = world.peer(0).token();
            let posted = match flavour {
                RmaFlavour::Zcopy => retry(&mut world, |world| {
                    // SAFETY: the bytes are kept, and left alone, until the operation has ended.
                    let slice = unsafe { LocalSlice::from_raw(bytes.as_ptr().cast_mut(), len) };
                    world.peer(0).iface.put_zcopy(ep, &[slice], to, token)
                }),
                _ => flavour.put(&mut world, &bytes, to).map(|()| Posted::Done),
            };
            let sent =
                retry(&mut world, |world| world.peer(0).iface.am_short(ep, id, &[round; 3], &[]));
            sent.expect("it fits");
            let message = world.receive(1, 1).remove(0);
            assert_eq!((message.id, message.header), (id, [round; 3]));
            assert!(
                window.view(&mut world).to_vec()[..len] == bytes,
                "{kind:?} {flavour:?}: {len} bytes came behind the message"
            );
            world.finish(0, token, posted);
        }
    }
}

/// A word that holds a number of rounds and grows by one byte with each round. A transport may
/// write a word byte by byte, and of this one whatever is seen is what some round wrote.
fn word_of(round: u64) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| {
        u8::try_from((round + 7 - byte as u64) / 8).expect("few rounds")
    }))
}

/// How many rounds a word holds.
fn rounds_of(word: u64) -> u64 {
    word.to_le_bytes().into_iter().map(u64::from).sum()
}

/// Drives member 0 to write a value and then a flag, both of them the round's word, while a thread
/// of the owner watches: it must never see a flag without its value.
fn watched(
    of: Subject,
    kinds: fn(&mut World) -> Vec<MemoryKind>,
    write: impl Fn(&mut World, &Window, u64),
) {
    // As many as the bytes of a word can count.
    const ROUNDS: u64 = 8 * u8::MAX as u64;
    let mut world = World::new(of, 2);
    for kind in kinds(&mut world) {
        let window = Window::open(&mut world, kind, 4096);
        let value = window.word(&mut world, 64).as_ptr() as usize;
        let flag = window.word(&mut world, 1024).as_ptr() as usize;
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                // SAFETY: the words lie in the window, which is released after the scope; they are
                // aligned and only accessed by atomics and copies through views.
                let (value, flag) = unsafe {
                    (AtomicU64::from_ptr(value as *mut u64), AtomicU64::from_ptr(flag as *mut u64))
                };
                let mut polls = 0_u64;
                // Relaxed: the flag only ends the loop.
                while !over.load(Ordering::Relaxed) {
                    // Acquire: pairs with the release of the flag's put or atomic.
                    let flag = rounds_of(flag.load(Ordering::Acquire));
                    // Relaxed: ordered after the flag by the acquire.
                    let value = rounds_of(value.load(Ordering::Relaxed));
                    assert!(value >= flag, "flag {flag} came before its value, which is {value}");
                    polls += 1;
                    if polls.is_multiple_of(64) {
                        std::thread::yield_now();
                    }
                }
            });
            for round in 1..=ROUNDS {
                if watcher.is_finished() {
                    break;
                }
                write(&mut world, &window, round);
                if round % 16 == 0 {
                    flush(&mut world);
                }
            }
            flush(&mut world);
            // Relaxed: the flag only ends the loop.
            over.store(true, Ordering::Relaxed);
        });
        // Relaxed: the flush made both visible to this thread.
        assert_eq!(window.word(&mut world, 64).load(Ordering::Relaxed), word_of(ROUNDS));
        assert_eq!(window.word(&mut world, 1024).load(Ordering::Relaxed), word_of(ROUNDS));
        world.peer(1).iface.mem_release(window.handle).expect("it was held");
    }
}

/// What is put after a fence is never seen before what was put ahead of it.
pub fn fenced_puts_keep_their_order(of: Subject) {
    let Some(flavour) = ({
        let world = World::new(of, 2);
        RMA_FLAVOURS.into_iter().find(|flavour| {
            flavour.put_limits(&world).is_some_and(|(min, max)| (min..=max).contains(&8))
        })
    }) else {
        return not_applicable(of, "no put of 8 bytes");
    };
    watched(of, MemoryKind::reached, |world, window, round| {
        flavour.put(world, &word_of(round).to_ne_bytes(), window.at(64)).expect("inside");
        retry(world, |world| world.peer(0).iface.fence()).expect("a fence is always possible");
        flavour.put(world, &word_of(round).to_ne_bytes(), window.at(1024)).expect("inside");
    });
}

/// Where the interface says so, a put is seen before a later atomic without a fence.
pub fn puts_are_visible_before_atomics(of: Subject) {
    let (attr, flavour) = {
        let world = World::new(of, 2);
        (world.attr(), any_put(&world))
    };
    let cpu = Caps::PUT_BEFORE_ATOMIC | Caps::ATOMIC_CPU;
    let Some(flavour) =
        flavour.filter(|_| attr.caps.contains(cpu) && attr.atomics.contains(AtomicOps::ADD))
    else {
        return not_applicable(of, "puts and atomics are not ordered");
    };
    watched(of, MemoryKind::with_atomics, |world, window, round| {
        flavour.put(world, &word_of(round).to_ne_bytes(), window.at(64)).expect("inside");
        let (ep, at, step) = (world.ep(0, 1), window.at(1024), word_of(round) - word_of(round - 1));
        retry(world, |world| {
            let op = AtomicOp::Add(step);
            world.peer(0).iface.atomic(ep, op, AtomicWidth::W64, at, Token::NONE)
        })
        .expect("inside");
    });
}
