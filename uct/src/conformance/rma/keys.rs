//! Keys and the memory behind them: damaged, closed, released.

use bowline_base::buffer::SendBuf;

use super::super::harness::{Random, World, pattern};
use super::super::{Subject, not_applicable};
use super::{MemoryKind, RmaFlavour, Window, any_put, flush};
use crate::{Caps, LocalSlice, MemError, MemHandle, PostError, RemoteSlice, WHOLE_PROCESS};

/// Truncated keys, keys with a changed bit and bytes that are no key are refused.
pub fn damaged_keys_are_refused(of: Subject) {
    let mut world = World::new(of, 2);
    let ep = world.ep(0, 1);
    for kind in MemoryKind::reached(&mut world) {
        let window = Window::open(&mut world, kind, 4096);
        let packed = world.peer(1).iface.rkey_pack(window.handle).expect("a handle has a key");
        let mut damaged: Vec<Vec<u8>> =
            (0..packed.len()).map(|cut| packed[..cut].to_vec()).collect();
        damaged.extend((0..packed.len() * 8).map(|bit| {
            let mut changed = packed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            changed
        }));
        let mut random = Random::new(23);
        damaged.extend((0..50).map(|_| (0..packed.len()).map(|_| random.word() as u8).collect()));
        for bytes in damaged {
            let opened = world.peer(0).iface.rkey_unpack(ep, &bytes);
            assert!(matches!(opened, Err(MemError::BadKey)), "{kind:?} {bytes:02x?}: {opened:?}");
        }
        let rkey = world.peer(0).iface.rkey_unpack(ep, &packed).expect("the whole key opens");
        world.peer(0).iface.rkey_release(rkey);
    }
    let unknown = MemHandle(bowline_base::slab::Key::from_wire(u64::MAX));
    assert!(world.peer(1).iface.rkey_pack(unknown).is_err(), "a key of no memory");
    assert!(world.peer(1).iface.mem_view(unknown).is_none(), "a view of no memory");
    assert!(world.peer(1).iface.mem_release(unknown).is_err(), "released no memory");
}

/// The key of a peer's whole memory is the key of no other memory. A transport refuses it as it does any
/// bytes that are no key, or reads by it what the peer has registered.
pub fn the_key_of_a_whole_process(of: Subject) {
    let mut world = World::new(of, 2);
    let (ep, kinds) = (world.ep(0, 1), MemoryKind::reached(&mut world));
    let rkey = match world.peer(0).iface.rkey_unpack(ep, &WHOLE_PROCESS) {
        Ok(rkey) => rkey,
        Err(MemError::BadKey | MemError::Unsupported(_)) => {
            return not_applicable(of, "no key opens the whole memory of a peer");
        }
        Err(error) => panic!("refused as no key is: {error}"),
    };
    for kind in kinds.into_iter().filter(|&kind| kind != MemoryKind::Lent) {
        let window = Window::open(&mut world, kind, 4096);
        assert_ne!(world.packed_key(&window), WHOLE_PROCESS, "{kind:?} has a key of its own");
        if kind == MemoryKind::Registered && RmaFlavour::Zcopy.get_limits(&world).is_some() {
            let content = pattern(29, 4096);
            window.view(&mut world).copy_in(&content);
            let from = RemoteSlice { address: window.start, rkey };
            let read = RmaFlavour::Zcopy.get(&mut world, from, 4096);
            assert!(read.expect("registered memory is open") == content, "what was read");
        }
    }
    world.peer(0).iface.rkey_release(rkey);
}

/// A closed key opens nothing, and closing it does not close another key of the same memory.
pub fn closed_keys_open_nothing(of: Subject) {
    let mut world = World::new(of, 2);
    let ep = world.ep(0, 1);
    let Some(flavour) = any_put(&world) else {
        return not_applicable(of, "no put");
    };
    let len = flavour.put_limits(&world).map_or(8, |(min, _)| min.max(8));
    for kind in MemoryKind::reached(&mut world) {
        let window = Window::open(&mut world, kind, 4096.max(len));
        let packed = world.peer(1).iface.rkey_pack(window.handle).expect("a handle has a key");
        let second = world.peer(0).iface.rkey_unpack(ep, &packed).expect("a key opens twice");
        world.peer(0).iface.rkey_release(window.rkey);
        let closed = flavour.put(&mut world, &vec![1; len], window.at(0));
        assert_eq!(closed, Err(PostError::BadArgument), "a closed key");
        // Again, which must not take the second one's place.
        world.peer(0).iface.rkey_release(window.rkey);
        let open = RemoteSlice { address: window.start, rkey: second };
        flavour.put(&mut world, &vec![2; len], open).expect("the other key is open");
        flush(&mut world);
        assert_eq!(window.view(&mut world).to_vec()[..len], vec![2; len]);
    }
}

/// Memory that was released is not written by those who still hold a key, not even when its
/// place is used again.
pub fn released_memory_is_out_of_reach(of: Subject) {
    let mut world = World::new(of, 2);
    let Some(flavour) = any_put(&world) else {
        return not_applicable(of, "no put");
    };
    let len = flavour.put_limits(&world).map_or(8, |(min, _)| min.max(8));
    if !MemoryKind::reached(&mut world).contains(&MemoryKind::Allocated) {
        return not_applicable(of, "no memory is allocated");
    }
    for _ in 0..20 {
        let old = Window::open(&mut world, MemoryKind::Allocated, 8192.max(len));
        let released = world.peer(1).iface.mem_release(old.handle).expect("it was held");
        assert!(released.is_none(), "allocated memory has no owner to go back to");
        assert!(world.peer(1).iface.mem_view(old.handle).is_none(), "released memory has a view");
        assert!(world.peer(1).iface.mem_release(old.handle).is_err(), "released twice");
        let new = Window::open(&mut world, MemoryKind::Allocated, 8192.max(len));
        // An error of the sender's own, or a write to what nobody uses.
        let _ = flavour.put(&mut world, &vec![0xdd; len], old.at(0));
        let _ = flavour.put(&mut world, &vec![0xdd; len], old.at(old.len - len));
        flush(&mut world);
        let found = new.view(&mut world).to_vec();
        assert!(found.iter().all(|&byte| byte == 0), "an old key wrote somebody else's memory");
        world.peer(1).iface.mem_release(new.handle).expect("it was held");
    }
}

/// Registered memory comes back to its owner with what was put into it.
pub fn registered_memory_comes_back(of: Subject) {
    let mut world = World::new(of, 2);
    let Some(flavour) = any_put(&world) else {
        return not_applicable(of, "no put");
    };
    if !MemoryKind::reached(&mut world).contains(&MemoryKind::Registered) {
        return not_applicable(of, "no memory is registered");
    }
    let (min, max) = flavour.put_limits(&world).expect("chosen for it");
    let len = 600.clamp(min, max);
    let window = Window::open(&mut world, MemoryKind::Registered, len);
    flavour.put(&mut world, &pattern(1, len), window.at(0)).expect("inside");
    flush(&mut world);
    let back = world.peer(1).iface.mem_release(window.handle).expect("it was held");
    let bytes = back.expect("registered memory comes back").into_owned();
    assert_eq!(bytes, Some(pattern(1, len)));
}

/// A direct view shows the owner's memory, within the bounds.
pub fn direct_views(of: Subject) {
    let mut world = World::new(of, 2);
    if !world.attr().caps.contains(Caps::RKEY_PTR) {
        return not_applicable(of, "no direct views");
    }
    let window = Window::open(&mut world, MemoryKind::Allocated, 4096);
    let content = pattern(8, 4096);
    window.view(&mut world).copy_in(&content);
    let iface = &world.peer(0).iface;
    let view = iface.rkey_ptr(window.rkey, window.start + 100, 200).expect("inside");
    assert_eq!(view.to_vec(), content[100..300]);
    view.copy_in(b"written directly");
    for (address, len) in [
        (window.start - 1, 1),
        (window.start, 4097),
        (window.start + 4096, 1),
        (window.start + 1, usize::MAX),
        (u64::MAX, 2),
    ] {
        assert!(iface.rkey_ptr(window.rkey, address, len).is_none(), "{address:#x} {len}");
    }
    let mut expected = content;
    expected[100..116].copy_from_slice(b"written directly");
    assert!(window.view(&mut world).to_vec() == expected);
}

/// The owner has a view of what it may write, and of nothing that it has lent to reads alone: safe code would write
/// a send buffer by it.
pub fn memory_has_a_view_unless_it_is_exposed(of: Subject) {
    let mut world = World::new(of, 2);
    for kind in MemoryKind::reached(&mut world) {
        let window = Window::open(&mut world, kind, 100);
        assert_eq!(window.view(&mut world).len(), 100, "{kind:?}");
    }
    if !world.attr().caps.contains(Caps::EXPOSE) {
        return not_applicable(of, "no memory is exposed");
    }
    let buffer = SendBuf::owned(vec![1; 100]);
    // SAFETY: the buffer outlives the loan, which ends below, and is given to `mem_expose` alone.
    let bytes = unsafe { LocalSlice::of_send(&buffer, 0, 100) }.expect("all of it");
    let owner = &mut world.peer(1).iface;
    let exposed = owner.mem_expose(bytes).expect("memory can be exposed");
    assert!(owner.mem_view(exposed).is_none(), "a view of memory that nobody may write");
    assert!(matches!(owner.mem_release(exposed), Ok(None)), "it stays its owner's");
}

/// The key of an allocation is found from any piece of it, and of nothing else.
pub fn keys_of_allocations(of: Subject) {
    let mut world = World::new(of, 2);
    if !world.peer(1).iface.md_attr().can_alloc {
        return not_applicable(of, "no memory is allocated");
    }
    let window = Window::open(&mut world, MemoryKind::Allocated, 8192);
    let mut out = vec![0; world.peer(1).iface.md_attr().rkey_bytes];
    for (offset, len) in [(0, 8192), (0, 1), (8191, 1), (100, 1000)] {
        let start = window.start + offset;
        let written = world.peer(1).iface.rkey_of(start, len, &mut out).expect("inside");
        let ep = world.ep(0, 1);
        let opened = world.peer(0).iface.rkey_unpack(ep, &out[..written]);
        let rkey = opened.expect("a whole key opens");
        world.peer(0).iface.rkey_release(rkey);
    }
    let on_stack = 0_u64;
    for (start, len) in [
        (window.start - 1, 2),
        (window.start, 8193),
        (window.start + 8192, 1),
        (window.start + 1, usize::MAX),
        (&raw const on_stack as u64, 8),
        (0, 1),
    ] {
        assert!(world.peer(1).iface.rkey_of(start, len, &mut out).is_none(), "{start:#x} {len}");
    }
    assert!(world.peer(1).iface.rkey_of(window.start, 8, &mut []).is_none(), "no space");
    world.peer(1).iface.mem_release(window.handle).expect("it was held");
    assert!(world.peer(1).iface.rkey_of(window.start, 8, &mut out).is_none(), "released");
}
