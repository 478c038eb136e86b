//! Members on threads of their own, as processes would be: streams, round trips, many to one.

use bowline_base::sync::atomic::{AtomicUsize, Ordering};

use super::harness::{Flavour, Peer, Random, World, header_of, pattern};
use super::{Subject, not_applicable};
use crate::{AmId, Caps, EpId, IfaceAttr, PostError, Posted};

/// Sends message `sequence`, making progress while there is no space.
fn send(peer: &mut Peer, ep: EpId, flavour: Flavour, sequence: u64, len: usize) {
    let (payload, header) = (pattern(sequence, len), header_of(sequence, sequence, len));
    let id = AmId::new((sequence % 32) as u8);
    let mut tries = 0_u32;
    loop {
        match peer.post(ep, flavour, id, &header, &payload) {
            Ok(()) => return,
            Err(PostError::NoResource) => {
                peer.progress(32);
                tries += 1;
                if tries.is_multiple_of(16) {
                    std::thread::yield_now();
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Makes progress until there are messages; takes them.
fn receive(peer: &mut Peer) -> Vec<super::harness::ReceivedAm> {
    let mut tries = 0_u32;
    while peer.seen.messages.is_empty() {
        peer.progress(32);
        tries += 1;
        if tries.is_multiple_of(16) {
            std::thread::yield_now();
        }
    }
    peer.seen.take()
}

/// A sender stops making progress when what it posted is out of its hands, and that of the others
/// of `unsettled` too: where a processor acknowledges, one waits for the other's progress.
fn settle(peer: &mut Peer, unsettled: &AtomicUsize) {
    let token = peer.token();
    let mut flushed = loop {
        match peer.iface.flush_all(token) {
            Ok(posted) => break posted == Posted::Done,
            Err(PostError::NoResource) => {
                peer.progress(32);
            }
            Err(error) => panic!("flush_all: {error}"),
        }
    };
    while !peer.lent.is_empty() || !flushed {
        peer.progress(32);
        flushed |= peer.seen.completed.iter().any(|(done, _)| *done == token);
        std::thread::yield_now();
    }
    // Relaxed: the count says nothing of other memory.
    unsettled.fetch_sub(1, Ordering::Relaxed);
    attend(peer, unsettled);
}

/// Makes progress until nobody is unsettled.
fn attend(peer: &mut Peer, unsettled: &AtomicUsize) {
    // Relaxed: as in `settle`.
    while unsettled.load(Ordering::Relaxed) > 0 {
        peer.progress(32);
        std::thread::yield_now();
    }
}

fn length(flavour: Flavour, attr: &IfaceAttr, random: &mut Random) -> usize {
    let wanted = [8, 8, 60, 300, 3000, 9000][random.below(6)];
    flavour.fit(attr, random.below(wanted + 1))
}

/// A long stream of mixed messages between two threads.
pub fn streams(of: Subject) {
    const COUNT: u64 = 30_000;
    if of.loopback {
        return not_applicable(of, "a loopback interface has one thread");
    }
    let mut world = World::new(of, 2);
    let (attr, ep) = (world.attr(), world.ep(0, 1));
    let flavours = Flavour::offered(&attr);
    let [Some(sender), Some(receiver)] = &mut world.peers[..] else { unreachable!("two members") };
    let unsettled = AtomicUsize::new(1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new(43);
            for sequence in 0..COUNT {
                let flavour = flavours[random.below(flavours.len())];
                send(sender, ep, flavour, sequence, length(flavour, &attr, &mut random));
            }
            settle(sender, &unsettled);
        });
        let mut sequences = Vec::new();
        while sequences.len() < COUNT as usize {
            for message in receive(receiver) {
                message.verify();
                sequences.push(message.header[0]);
            }
        }
        attend(receiver, &unsettled);
        if !attr.caps.contains(Caps::AM_ORDERED) {
            sequences.sort_unstable();
        }
        assert!(sequences.into_iter().eq(0..COUNT), "lost, doubled or out of order");
    });
}

/// Round trips between two threads.
pub fn ping_pong(of: Subject) {
    const COUNT: u64 = 4000;
    if of.loopback {
        return not_applicable(of, "a loopback interface has one thread");
    }
    let mut world = World::new(of, 2);
    let (attr, there, back) = (world.attr(), world.ep(0, 1), world.ep(1, 0));
    let flavours = Flavour::offered(&attr);
    let [Some(a), Some(b)] = &mut world.peers[..] else { unreachable!("two members") };
    let unsettled = AtomicUsize::new(2);
    let ping_pong = |peer: &mut Peer, ep, first: bool, seed| {
        let mut random = Random::new(seed);
        for sequence in 0..COUNT {
            let flavour = flavours[random.below(flavours.len())];
            let len = length(flavour, &attr, &mut random);
            if first {
                send(peer, ep, flavour, sequence, len);
            }
            let message = receive(peer).remove(0);
            message.verify();
            assert_eq!(message.header[0], sequence);
            if !first {
                send(peer, ep, flavour, sequence, len);
            }
        }
        settle(peer, &unsettled);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| ping_pong(a, there, true, 47));
        ping_pong(b, back, false, 53);
    });
}

/// Four threads send to one; each stream is whole and in order.
pub fn many_to_one(of: Subject) {
    const SENDERS: usize = 4;
    const COUNT: u64 = 6000;
    if of.loopback {
        return not_applicable(of, "a loopback interface has one thread");
    }
    let mut world = World::new(of, SENDERS + 1);
    let attr = world.attr();
    let flavours = Flavour::offered(&attr);
    let eps: Vec<EpId> = (1..=SENDERS).map(|from| world.ep(from, 0)).collect();
    let (receiver, senders) = world.peers.split_first_mut().expect("five members");
    let receiver = receiver.as_mut().expect("alive");
    let unsettled = AtomicUsize::new(SENDERS);
    std::thread::scope(|scope| {
        for ((index, sender), ep) in senders.iter_mut().enumerate().zip(eps) {
            let (attr, flavours, unsettled) = (&attr, &flavours, &unsettled);
            let sender = sender.as_mut().expect("alive");
            scope.spawn(move || {
                let mut random = Random::new(59 + index as u64);
                for sequence in 0..COUNT {
                    let flavour = flavours[random.below(flavours.len())];
                    send(sender, ep, flavour, sequence, length(flavour, attr, &mut random));
                }
                settle(sender, unsettled);
            });
        }
        let mut streams = std::collections::HashMap::<_, Vec<u64>>::new();
        let mut received = 0;
        while received < SENDERS * COUNT as usize {
            for message in receive(receiver) {
                message.verify();
                streams.entry(message.source).or_default().push(message.header[0]);
                received += 1;
            }
        }
        attend(receiver, &unsettled);
        assert_eq!(streams.len(), SENDERS, "sources");
        for mut stream in streams.into_values() {
            if !attr.caps.contains(Caps::AM_ORDERED) {
                stream.sort_unstable();
            }
            assert!(stream.into_iter().eq(0..COUNT), "lost, doubled or out of order");
        }
    });
}
