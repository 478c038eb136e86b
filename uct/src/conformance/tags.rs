//! Matching by tag in the transport: the right message to the right receive, in order, and nothing to
//! a receive that was withdrawn.

use bowline_base::buffer::{RecvBuf, SendBuf};

use super::harness::{World, pattern};
use super::{Subject, not_applicable};
use crate::{Caps, LocalSlice, PostError, Posted, TagMatch, Token, WITHDRAWN};

fn has_tags(of: Subject) -> bool {
    let mut world = World::new(of, 2);
    if world.attr().caps.contains(Caps::TAG_OFFLOAD) {
        assert!(world.peer(0).iface.tag_limits().max_zcopy > 0, "tagged messages have a length");
        return true;
    }
    let ep = world.ep(0, 1);
    let iface = &mut world.peer(0).iface;
    let every = TagMatch { tag: 0, ignore: u64::MAX };
    assert_eq!(iface.tag_send(ep, 1, &[], Token(1)).err(), Some(PostError::Unsupported));
    assert_eq!(iface.tag_recv(every, &[], Token(2)).err(), Some(PostError::Unsupported));
    assert_eq!(iface.tag_cancel(Token(2)).err(), Some(PostError::Unsupported));
    assert_eq!(iface.tag_limits().max_zcopy, 0);
    not_applicable(of, "no matching by tag");
    false
}

/// Sends `payload` from member 0 to member 1 and waits until it may be used again.
fn send(world: &mut World, tag: u64, payload: Vec<u8>) {
    let buffer = SendBuf::owned(payload);
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let slice = unsafe { LocalSlice::of_send(&buffer, 0, buffer.len()) }.expect("all of it");
    let (ep, token) = (world.ep(0, 1), world.peer(0).token());
    let mut posted = None;
    world.until(|w| match w.peer(0).iface.tag_send(ep, tag, &[slice], token) {
        Ok(answer) => {
            posted = Some(answer);
            true
        }
        Err(PostError::NoResource) => false,
        Err(error) => panic!("tag {tag:#x}: {error}"),
    });
    if posted == Some(Posted::InFlight) {
        // Read by the transport until its completion, which is waited for at the end.
        world.peer(0).lent.insert(token, buffer);
    }
}

struct Receive {
    token: Token,
    space: RecvBuf,
}

fn receive(world: &mut World, which: TagMatch, len: usize) -> Receive {
    let mut space = RecvBuf::owned(vec![0xee; len]);
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let slice = unsafe { LocalSlice::of_recv(&mut space, 0, len) }.expect("all of it");
    let token = world.peer(1).token();
    world.until(|w| match w.peer(1).iface.tag_recv(which, &[slice], token) {
        Ok(posted) => {
            assert_eq!(posted, Posted::InFlight, "the completion of a receive has its length");
            true
        }
        Err(PostError::NoResource) => false,
        Err(error) => panic!("{which:?}: {error}"),
    });
    Receive { token, space }
}

#[track_caller]
fn finish(world: &mut World, receive: Receive) -> (u64, Vec<u8>) {
    let result = world.wait(1, receive.token).expect("the receive succeeds");
    (result, receive.space.into_owned().expect("it was owned"))
}

const fn exactly(tag: u64) -> TagMatch {
    TagMatch { tag, ignore: 0 }
}

/// Messages of several tags and lengths, sent in another order than that of the receives, which are
/// posted before them or after they may have come.
fn by_tag(world: &mut World, early: bool) {
    for len in [0, 1, 8, 100, 5000, 100_000] {
        let len = len.min(world.peer(0).iface.tag_limits().max_zcopy);
        let tags = [7, 0xffff_ffff_0000_0001, 1 << 63, 0];
        let mut receives = Vec::new();
        if early {
            receives.extend(tags.map(|tag| receive(world, exactly(tag), len)));
        }
        for &tag in tags.iter().rev() {
            send(world, tag, pattern(tag ^ len as u64, len));
        }
        if !early {
            world.rounds(20);
            receives.extend(tags.map(|tag| receive(world, exactly(tag), len)));
        }
        for (receive, tag) in receives.into_iter().zip(tags) {
            let (result, bytes) = finish(world, receive);
            assert_eq!(result, len as u64, "tag {tag:#x}");
            assert!(bytes == pattern(tag ^ len as u64, len), "tag {tag:#x}: {len} bytes");
        }
    }
    world.until(|w| w.peer(0).lent.is_empty());
}

/// Messages that come before their receives wait for the receive with their tag, whichever of them
/// is posted first.
pub fn matched_when_received_late(of: Subject) {
    if has_tags(of) {
        by_tag(&mut World::new(of, 2), false);
    }
}

/// Receives take the messages with their tags, and bits that do not matter do not.
pub fn matched_by_tag_and_mask(of: Subject) {
    if !has_tags(of) {
        return;
    }
    let mut world = World::new(of, 2);
    by_tag(&mut world, true);
    // The low half does not matter to the first receive, nothing of it to the second.
    let low = TagMatch { tag: 5 << 32, ignore: 0xffff_ffff };
    let (first, second) =
        (receive(&mut world, low, 8), receive(&mut world, TagMatch { tag: 0, ignore: !0 }, 8));
    send(&mut world, 6 << 32 | 9, pattern(1, 8));
    send(&mut world, 5 << 32 | 9, pattern(2, 8));
    assert_eq!(finish(&mut world, second), (8, pattern(1, 8)));
    assert_eq!(finish(&mut world, first), (8, pattern(2, 8)));
    world.until(|w| w.peer(0).lent.is_empty());
}

/// Messages of one tag come to the receives for it in the order of sending, whatever their length.
pub fn one_tag_keeps_its_order(of: Subject) {
    const COUNT: u64 = 300;
    if !has_tags(of) {
        return;
    }
    let mut world = World::new(of, 2);
    let longest = world.peer(0).iface.tag_limits().max_zcopy;
    let length = |sequence: u64| [8, 40_000, 100, 0, 3000][sequence as usize % 5].min(longest);
    // A transport may hold long messages at the sender until they are received, and few of them.
    let shorter = |sequence: u64, early: u64| {
        length(sequence).min(if sequence < early { usize::MAX } else { 3000 })
    };
    // All receives late, half of them early, all of them early.
    for early in [0, COUNT / 2, COUNT] {
        let mut receives: Vec<Receive> =
            (0..early).map(|_| receive(&mut world, exactly(3), 40_000)).collect();
        for sequence in 0..COUNT {
            send(&mut world, 3, pattern(sequence, shorter(sequence, early)));
        }
        receives.extend((early..COUNT).map(|_| receive(&mut world, exactly(3), 40_000)));
        for (sequence, receive) in (0..COUNT).zip(receives) {
            let (result, bytes) = finish(&mut world, receive);
            let len = shorter(sequence, early);
            assert_eq!(result, len as u64, "message {sequence}");
            assert!(bytes[..len] == pattern(sequence, len), "message {sequence} is out of order");
        }
    }
    world.until(|w| w.peer(0).lent.is_empty());
}

/// A message longer than its buffer is reported as such; a withdrawn receive takes no message; tagged messages and active ones do not meet.
pub fn withdrawn_receives(of: Subject) {
    if !has_tags(of) {
        return;
    }
    let mut world = World::new(of, 2);
    for round in 0..50 {
        let withdrawn = receive(&mut world, exactly(2), 8);
        let other = receive(&mut world, exactly(9), 8);
        world.peer(1).iface.tag_cancel(withdrawn.token).expect("it was posted");
        let (result, bytes) = finish(&mut world, withdrawn);
        assert_eq!((result, bytes), (WITHDRAWN, vec![0xee; 8]));
        let next = receive(&mut world, exactly(2), 8);
        send(&mut world, 2, pattern(round, 8));
        send(&mut world, 9, pattern(!round, 8));
        assert_eq!(finish(&mut world, next), (8, pattern(round, 8)));
        assert_eq!(finish(&mut world, other), (8, pattern(!round, 8)));
    }
    let never = world.peer(1).token();
    assert_eq!(world.peer(1).iface.tag_cancel(never), Err(PostError::BadArgument));
    world.until(|w| w.peer(0).lent.is_empty());
    assert!(world.peer(1).seen.messages.is_empty(), "a tagged message arrived as an active one");
}
