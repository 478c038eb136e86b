//! Kept arrivals: their bytes stay, they pin nothing but a spare, and without spares the
//! transport stops before it loses anything.

use super::harness::{ENDLESS, Flavour, ReceivedAm, World, header_of, pattern};
use super::{Subject, not_applicable};
use crate::{AmId, Desc, PostError};

/// A world whose members 0 sends to 1 in a flavour that makes descriptors, with the payload
/// length that does; `None` where no arrival has one.
fn with_descriptors(of: Subject) -> Option<(World, Flavour, usize)> {
    let mut world = World::new(of, 2);
    let attr = world.attr();
    for flavour in Flavour::offered(&attr) {
        let len = flavour.fit(&attr, 1500);
        world.send(0, 1, flavour, 0, len);
        if world.receive(1, 1)[0].desc.is_some() {
            return Some((world, flavour, len));
        }
    }
    not_applicable(of, "no arrival comes in a descriptor");
    None
}

#[track_caller]
fn unchanged(world: &mut World, kept: &[ReceivedAm]) {
    for message in kept {
        let desc = message.desc.expect("kept messages have a descriptor");
        let view = world.peer(1).iface.desc_view(desc).expect("a kept descriptor has its bytes");
        assert_eq!(view.len(), message.payload.len(), "the length of a kept payload");
        assert!(view.to_vec() == message.payload, "a kept payload changed");
    }
}

/// Kept payloads stay as they are while thousands of messages come after them.
pub fn kept_payloads_stay(of: Subject) {
    const LATER: u64 = 4000;
    let Some((mut world, flavour, len)) = with_descriptors(of) else {
        return;
    };
    let mut kept = Vec::new();
    for (index, len) in [len, len / 2 + 1, len].into_iter().enumerate() {
        world.peer(1).seen.keep = true;
        world.send(0, 1, flavour, index as u64, len);
        let message = world.receive(1, 1).remove(0);
        message.verify();
        world.peer(1).seen.keep = false;
        if message.kept {
            kept.push(message);
        }
    }
    assert!(!kept.is_empty(), "messages like these had a descriptor before");
    for sequence in 0..LATER {
        world.send(0, 1, flavour, sequence, len);
        world.receive(1, 1)[0].verify();
        if sequence % 500 == 0 {
            unchanged(&mut world, &kept);
        }
    }
    unchanged(&mut world, &kept);
    for message in kept {
        world.peer(1).iface.release(message.desc.expect("kept"));
    }
    world.send(0, 1, flavour, 0, len);
    world.receive(1, 1)[0].verify();
}

/// A receiver that keeps everything comes to the end of the spares: the sender is refused, nobody
/// loses a message, and with each buffer given back it goes on.
pub fn without_spares_it_stops_and_goes_on(of: Subject) {
    /// Kept messages after which the transport counts as having spares without end.
    const MANY: usize = 8192;
    const MORE: usize = 200;
    let Some((mut world, flavour, len)) = with_descriptors(of) else {
        return;
    };
    world.peer(1).seen.keep = true;
    let (mut sent, mut arrived) = (0_usize, Vec::<ReceivedAm>::new());
    let mut kept = std::collections::VecDeque::new();
    let mut quiet = 0;
    let post = |world: &mut World, sent: &mut usize| {
        let sequence = *sent as u64;
        let (bytes, header) = (pattern(sequence, len), header_of(sequence, sequence, len));
        match world.post(0, 1, flavour, AmId::new(9), &header, &bytes) {
            Ok(()) => *sent += 1,
            Err(PostError::NoResource) => return false,
            Err(error) => panic!("{error}"),
        }
        assert!(*sent < ENDLESS, "every queue needs a bound");
        true
    };
    // The end has come when nothing was taken and nothing arrived for many rounds.
    while quiet < 200 {
        let accepted = post(&mut world, &mut sent);
        world.round();
        let new = world.peer(1).seen.take();
        quiet = if accepted || !new.is_empty() { 0 } else { quiet + 1 };
        for message in new {
            message.verify();
            if message.kept {
                kept.push_back(message.clone());
            }
            arrived.push(message);
        }
        if kept.len() > MANY {
            return not_applicable(of, "the transport has spares without end");
        }
        if arrived.len() > MANY * 4 {
            // Where inline copies take over there is no end to what can be kept.
            not_applicable(of, "arrivals go on without descriptors");
            break;
        }
    }
    assert!(!kept.is_empty(), "nothing was kept");
    unchanged(&mut world, kept.make_contiguous());
    // Each buffer given back lets the stream go on.
    let goal = sent + MORE;
    while arrived.len() < goal {
        if let Some(message) = kept.pop_front() {
            unchanged(&mut world, std::slice::from_ref(&message));
            world.peer(1).iface.release(message.desc.expect("kept"));
        }
        if sent < goal {
            post(&mut world, &mut sent);
        }
        world.rounds(2);
        for message in world.peer(1).seen.take() {
            message.verify();
            if message.kept {
                kept.push_back(message.clone());
            }
            arrived.push(message);
        }
    }
    let sequences: Vec<u64> = arrived.iter().map(|message| message.header[0]).collect();
    assert!(sequences.iter().copied().eq(0..goal as u64), "lost, doubled or out of order");
    unchanged(&mut world, kept.make_contiguous());
    for message in kept {
        world.peer(1).iface.release(message.desc.expect("kept"));
    }
}

/// Buffers may come back in any order, many times over.
pub fn released_in_any_order(of: Subject) {
    let Some((mut world, flavour, len)) = with_descriptors(of) else {
        return;
    };
    let mut random = super::harness::Random::new(17);
    world.peer(1).seen.keep = true;
    let mut kept: Vec<ReceivedAm> = Vec::new();
    for sequence in 0..2000 {
        let len = flavour.fit(&world.attr(), len - random.below(len.min(300)));
        world.send(0, 1, flavour, sequence, len);
        for message in world.receive(1, 1) {
            message.verify();
            if message.kept {
                kept.push(message);
            }
        }
        // A few are held all the time; every transport has at least two spares.
        while kept.len() > random.below(2) + 1 {
            let message = kept.swap_remove(random.below(kept.len()));
            unchanged(&mut world, std::slice::from_ref(&message));
            world.peer(1).iface.release(message.desc.expect("kept"));
        }
    }
    unchanged(&mut world, &kept);
}

/// A descriptor that was consumed, released or never given out names nothing, and releasing it
/// (again) takes nobody's buffer.
pub fn stale_descriptors_name_nothing(of: Subject) {
    let Some((mut world, flavour, len)) = with_descriptors(of) else {
        return;
    };
    world.send(0, 1, flavour, 1, len);
    let consumed = world.receive(1, 1)[0].desc;
    world.peer(1).seen.keep = true;
    world.send(0, 1, flavour, 2, len);
    let released = world.receive(1, 1)[0].desc.expect("messages like this have one");
    world.peer(1).iface.release(released);
    world.send(0, 1, flavour, 3, len);
    let kept = world.receive(1, 1);
    let never = Desc(bowline_base::slab::Key::from_wire(u64::MAX));
    let none = Desc(bowline_base::slab::Key::NONE);
    for stale in [consumed, Some(released), Some(never), Some(none)].into_iter().flatten() {
        if Some(stale) == kept[0].desc {
            panic!("a descriptor that was given back is given out again under the same name");
        }
        assert!(world.peer(1).iface.desc_view(stale).is_none(), "{stale:?} has bytes");
        world.peer(1).iface.release(stale);
    }
    world.peer(1).seen.keep = false;
    for sequence in 0..600 {
        world.send(0, 1, flavour, sequence, len);
        world.receive(1, 1)[0].verify();
    }
    unchanged(&mut world, &kept);
}

/// Keeping an arrival without a descriptor counts as having consumed it.
pub fn keeping_what_has_no_descriptor(of: Subject) {
    let mut world = World::new(of, 2);
    let attr = world.attr();
    for flavour in Flavour::offered(&attr) {
        let len = flavour.fit(&attr, 8);
        for sequence in 0..2000 {
            world.peer(1).seen.keep_blindly = true;
            world.send(0, 1, flavour, sequence, len);
            let message = world.receive(1, 1).remove(0);
            message.verify();
            if let Some(desc) = message.desc {
                world.peer(1).iface.release(desc);
            }
        }
    }
}
