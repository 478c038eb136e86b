//! Members on threads of their own, as processes would be: streams, round trips, many to one.
//!
//! Where the members' threads share processors with other work, each message may take a time slice of
//! everybody. So the number of messages is bounded by an [`Effort`], too.

use bowline_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::effort::Effort;
use super::harness::{Flavour, Peer, Random, World, header_of, pattern};
use super::{Subject, not_applicable};
use crate::{AmId, Caps, EpId, IfaceAttr, PostError, Posted};

/// No number of messages: more may come.
const OPEN: u64 = u64::MAX;

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

/// Makes progress until `taken` says that it has all, which gets what has come.
fn receive_until(peer: &mut Peer, mut taken: impl FnMut(Vec<super::harness::ReceivedAm>) -> bool) {
    let mut tries = 0_u32;
    while !taken(peer.seen.take()) {
        peer.progress(32);
        tries += 1;
        if tries.is_multiple_of(16) {
            std::thread::yield_now();
        }
    }
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
    const LEAST: u64 = 1000;
    const MOST: u64 = 30_000;
    if of.loopback {
        return not_applicable(of, "a loopback interface has one thread");
    }
    let mut world = World::new(of, 2);
    let (attr, ep) = (world.attr(), world.ep(0, 1));
    let flavours = Flavour::offered(&attr);
    let [Some(sender), Some(receiver)] = &mut world.peers[..] else { unreachable!("two members") };
    let unsettled = AtomicUsize::new(1);
    let sent = AtomicU64::new(OPEN);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new(43);
            let (effort, mut sequence) = (Effort::new(LEAST, MOST), 0);
            while effort.goes_on(sequence) {
                let flavour = flavours[random.below(flavours.len())];
                send(sender, ep, flavour, sequence, length(flavour, &attr, &mut random));
                sequence += 1;
            }
            // Relaxed: the count says nothing of other memory.
            sent.store(sequence, Ordering::Relaxed);
            settle(sender, &unsettled);
        });
        let mut sequences = Vec::new();
        receive_until(receiver, |messages| {
            for message in messages {
                message.verify();
                sequences.push(message.header[0]);
            }
            // Relaxed: as above.
            sequences.len() as u64 >= sent.load(Ordering::Relaxed)
        });
        attend(receiver, &unsettled);
        if !attr.caps.contains(Caps::AM_ORDERED) {
            sequences.sort_unstable();
        }
        // Relaxed: as above.
        let all = 0..sent.load(Ordering::Relaxed);
        assert!(sequences.into_iter().eq(all), "lost, doubled or out of order");
    });
}

/// Round trips between two threads.
pub fn ping_pong(of: Subject) {
    const LEAST: u64 = 200;
    const MOST: u64 = 4000;
    if of.loopback {
        return not_applicable(of, "a loopback interface has one thread");
    }
    let mut world = World::new(of, 2);
    let (attr, there, back) = (world.attr(), world.ep(0, 1), world.ep(1, 0));
    let flavours = Flavour::offered(&attr);
    let [Some(a), Some(b)] = &mut world.peers[..] else { unreachable!("two members") };
    let unsettled = AtomicUsize::new(2);
    // Round trips, as soon as the first member knows.
    let count = AtomicU64::new(OPEN);
    let ping_pong = |peer: &mut Peer, ep, first: bool, seed| {
        let mut random = Random::new(seed);
        let effort = Effort::new(LEAST, MOST);
        for sequence in 0.. {
            if first && !effort.goes_on(sequence + 1) {
                // Release: pairs with the Acquire load below, which comes after the arrival of the message that
                // is sent after this; transports order the two, and so does the time between.
                count.store(sequence + 1, Ordering::Release);
            }
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
            // Acquire: pairs with the Release store above.
            if sequence + 1 == count.load(Ordering::Acquire) {
                break;
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
    const LEAST: u64 = 300;
    const MOST: u64 = 6000;
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
    // What each has sent in all.
    let sent: Vec<_> = (0..SENDERS).map(|_| AtomicU64::new(OPEN)).collect();
    std::thread::scope(|scope| {
        for (((index, sender), ep), sent) in senders.iter_mut().enumerate().zip(eps).zip(&sent) {
            let (attr, flavours, unsettled) = (&attr, &flavours, &unsettled);
            let sender = sender.as_mut().expect("alive");
            scope.spawn(move || {
                let mut random = Random::new(59 + index as u64);
                let (effort, mut sequence) = (Effort::new(LEAST, MOST), 0);
                while effort.goes_on(sequence) {
                    let flavour = flavours[random.below(flavours.len())];
                    send(sender, ep, flavour, sequence, length(flavour, attr, &mut random));
                    sequence += 1;
                }
                // Relaxed: the count says nothing of other memory.
                sent.store(sequence, Ordering::Relaxed);
                settle(sender, unsettled);
            });
        }
        let mut streams = std::collections::HashMap::<_, Vec<u64>>::new();
        let mut received = 0;
        receive_until(receiver, |messages| {
            for message in messages {
                message.verify();
                streams.entry(message.source).or_default().push(message.header[0]);
                received += 1;
            }
            // Relaxed: as above.
            let all = sent.iter().map(|sent| sent.load(Ordering::Relaxed));
            all.fold(0, u64::saturating_add) == received
        });
        attend(receiver, &unsettled);
        assert_eq!(streams.len(), SENDERS, "sources");
        // Which source is which sender is not known: there are as many streams of each length as were sent.
        // Relaxed: as above.
        let mut lengths: Vec<u64> = sent.iter().map(|sent| sent.load(Ordering::Relaxed)).collect();
        for mut stream in streams.into_values() {
            if !attr.caps.contains(Caps::AM_ORDERED) {
                stream.sort_unstable();
            }
            let all = stream.len() as u64;
            assert!(stream.into_iter().eq(0..all), "lost, doubled or out of order");
            let known = lengths.iter().position(|&length| length == all);
            lengths.swap_remove(known.expect("as long as what one of them has sent"));
        }
    });
}
