//! What an interface says of itself, and that it means it.

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::slab::Key;

use super::harness::{Flavour, World};
use super::{Subject, not_applicable};
use crate::{
    AmId, AtomicOp, AtomicOps, AtomicWidth, Caps, LocalSlice, PostError, RemoteSlice, RkeyId, Token,
};

/// Limits are zero exactly where a flavour is missing, and agree with each other.
pub fn limits_and_bits_agree(of: Subject) {
    let mut world = World::new(of, 2);
    let attr = world.attr();
    assert!(!attr.provider.is_empty() && !attr.device.is_empty(), "an interface has a name");
    assert!(attr.max_endpoints > 0, "an interface that carries no endpoint is of no use");
    let (am, put, get) = (attr.limits.am, attr.limits.put, attr.limits.get);
    // An empty message is a message, so a limit of zero says nothing about the am flavours.
    for (bit, limit, what) in [
        (Caps::PUT_SHORT, put.max_short, "put short"),
        (Caps::PUT_BCOPY, put.max_bcopy, "put bcopy"),
        (Caps::PUT_ZCOPY, put.max_zcopy, "put zcopy"),
        (Caps::GET_BCOPY, get.max_bcopy, "get bcopy"),
        (Caps::GET_ZCOPY, get.max_zcopy, "get zcopy"),
        (Caps::AM_BCOPY, am.max_bcopy, "am bcopy"),
        (Caps::AM_ZCOPY, am.max_zcopy, "am zcopy"),
    ] {
        assert_eq!(attr.caps.contains(bit), limit > 0, "{what}: bit and limit {limit} disagree");
    }
    for (bit, limits, what) in
        [(Caps::AM_ZCOPY, am, "am"), (Caps::PUT_ZCOPY, put, "put"), (Caps::GET_ZCOPY, get, "get")]
    {
        if attr.caps.contains(bit) {
            assert!(limits.min_zcopy <= limits.max_zcopy, "{what}: zcopy has no length");
            assert!(limits.max_iov > 0, "{what}: zcopy takes no piece");
        }
    }
    let atomics = !attr.atomics.is_empty();
    let coherent = attr.caps.intersects(Caps::ATOMIC_CPU | Caps::ATOMIC_DEVICE);
    assert_eq!(atomics, coherent, "atomics come with the domain in which they are coherent");
    let peer = world.peer(0);
    assert_eq!(attr.caps.contains(Caps::WAKEUP), peer.iface.doorbell().is_some());
    let md = peer.iface.md_attr();
    let one_sided = Caps::PUT_SHORT | Caps::PUT_BCOPY | Caps::PUT_ZCOPY | Caps::GET_BCOPY;
    if attr.caps.intersects(one_sided | Caps::GET_ZCOPY) || atomics {
        assert!(md.can_alloc || md.can_register, "one-sided operations need memory");
        assert!(md.rkey_bytes > 0, "one-sided operations need keys");
    }
    assert!(!attr.caps.contains(Caps::RMA_REGISTERED) || md.can_register);
}

/// An operation whose bit is not set answers `Unsupported`, and so do kinds of atomics that are
/// not listed.
pub fn missing_operations_say_so(of: Subject) {
    let mut world = World::new(of, 2);
    let (caps, ep) = (world.attr().caps, world.ep(0, 1));
    let kinds = world.attr().atomics;
    let none = RemoteSlice { address: 0, rkey: RkeyId(Key::NONE) };
    let (id, header) = (AmId::new(0), [0; 3]);
    let iface = &mut world.peer(0).iface;
    let sent = SendBuf::owned(vec![1; 8]);
    let mut space = RecvBuf::owned(vec![0; 8]);
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let out = unsafe { LocalSlice::of_send(&sent, 0, 8) }.expect("all of it");
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let into = unsafe { LocalSlice::of_recv(&mut space, 0, 8) }.expect("all of it");
    let mut answers = Vec::new();
    let mut expect = |bit: Caps, what, answer: &mut dyn FnMut() -> Option<PostError>| {
        if !caps.contains(bit) {
            answers.push((what, answer()));
        }
    };
    let mut never = |_: bowline_base::view::View<'_>| unreachable!("nothing to pack or unpack");
    expect(Caps::AM_SHORT, "am_short", &mut || iface.am_short(ep, id, &header, &[]).err());
    expect(Caps::AM_BCOPY, "am_bcopy", &mut || {
        iface
            .am_bcopy(ep, id, &header, 1, &mut |view| {
                never(view);
                0
            })
            .err()
    });
    expect(Caps::AM_ZCOPY, "am_zcopy", &mut || {
        iface.am_zcopy(ep, id, &header, &[out], Token(1)).err()
    });
    expect(Caps::PUT_SHORT, "put_short", &mut || iface.put_short(ep, &[1], none).err());
    expect(Caps::PUT_BCOPY, "put_bcopy", &mut || {
        iface
            .put_bcopy(
                ep,
                1,
                &mut |view| {
                    never(view);
                    0
                },
                none,
            )
            .err()
    });
    expect(Caps::PUT_ZCOPY, "put_zcopy", &mut || iface.put_zcopy(ep, &[out], none, Token(2)).err());
    expect(Caps::GET_BCOPY, "get_bcopy", &mut || iface.get_bcopy(ep, none, 1, &mut never).err());
    expect(Caps::GET_ZCOPY, "get_zcopy", &mut || {
        iface.get_zcopy(ep, &[into], none, Token(3)).err()
    });
    expect(Caps::PUT_NOTIFY, "put_notify", &mut || {
        iface.put_notify(ep, &[1], none, id, &header).err()
    });
    for op in [
        AtomicOp::Add(1),
        AtomicOp::And(1),
        AtomicOp::Or(1),
        AtomicOp::Xor(1),
        AtomicOp::Swap(1),
        AtomicOp::Cswap { compare: 0, new: 1 },
    ] {
        for width in [AtomicWidth::W32, AtomicWidth::W64] {
            for token in [Token::NONE, Token(4)] {
                if !kinds.contains(op.kind()) {
                    answers.push(("atomic", iface.atomic(ep, op, width, none, token).err()));
                }
            }
        }
    }
    for (what, answer) in answers {
        assert_eq!(answer, Some(PostError::Unsupported), "{what} is not among the capabilities");
    }
    assert!(AtomicOps::all().contains(kinds), "kinds of atomics that do not exist");
}

/// Receive memory does not grow with the number of peers.
pub fn memory_is_constant_in_peers(of: Subject) {
    let few = World::new(of, 2).attr().receive_bytes;
    let many = World::new(of, 6).attr().receive_bytes;
    assert!(few > 0, "an interface that receives has memory for it");
    assert_eq!(few, many, "bytes of receive memory with 2 and with 6 members");
}

/// Endpoints are numbered so that their user keeps what belongs to them in a table by number, and
/// endpoints that are open at one time have different numbers.
pub fn numbers_of_endpoints_are_small(of: Subject) {
    const SIZE: usize = 8;
    let world = World::new(of, SIZE);
    let from = if of.loopback { 0..1 } else { 0..SIZE };
    for from in from {
        let others = (0..SIZE).filter(|&to| of.loopback || to != from);
        let mut numbers: Vec<u32> = others.map(|to| world.ep(from, to).0).collect();
        numbers.sort_unstable();
        assert!(numbers.iter().all(|&number| number < 4 * SIZE as u32), "{numbers:?} are small");
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?} are different");
    }
}

/// Where the interface says beforehand under which number a peer's messages arrive, they do; and
/// different peers have different numbers.
pub fn sources_are_known_beforehand(of: Subject) {
    let mut world = World::new(of, 4);
    let known: Vec<_> = (1..4).map(|from| world.source(0, from)).collect();
    let flavour = Flavour::offered(&world.attr())[0];
    let len = flavour.fit(&world.attr(), 8);
    let mut arrived = Vec::new();
    for (from, known) in (1..4).zip(known) {
        for sequence in 0..3 {
            world.send(from, 0, flavour, sequence, len);
            let message = world.receive(0, 1).remove(0);
            message.verify();
            if let Some(known) = known {
                assert_eq!(message.source, known, "the source that was known beforehand");
            }
            arrived.push((from, message.source));
        }
    }
    if of.loopback {
        not_applicable(of, "a loopback interface has one source");
        return;
    }
    for (a, source_a) in &arrived {
        for (b, source_b) in &arrived {
            assert_eq!(a == b, source_a == source_b, "one number for each peer");
        }
    }
}
