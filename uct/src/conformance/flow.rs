//! Full queues: a refusal leaves no trace, nothing is lost, every sender is served.

use std::collections::VecDeque;

use super::harness::{Flavour, Random, Recorder, World, header_of, pattern};
use super::{Subject, not_applicable};
use crate::{AmId, Caps, EpId, PostError};

fn in_order(messages: &[super::harness::ReceivedAm], first: u64, ordered: bool) {
    let mut sequences: Vec<u64> = messages.iter().map(|message| message.header[0]).collect();
    if !ordered {
        sequences.sort_unstable();
    }
    let expected: Vec<u64> = (first..first + messages.len() as u64).collect();
    assert_eq!(sequences, expected, "lost, doubled or out of order");
    messages.iter().for_each(super::harness::ReceivedAm::verify);
}

fn refused(of: Subject, flavour: Flavour) {
    let mut world = World::new(of, 2);
    let attr = world.attr();
    if !attr.caps.contains(flavour.bit()) {
        return not_applicable(of, "no such flavour");
    }
    let ordered = attr.caps.contains(Caps::AM_ORDERED);
    for len in [flavour.fit(&attr, 8), flavour.fit(&attr, 2000)] {
        let taken = world.fill(0, 1, flavour, 0, len);
        assert!(taken > 0, "an empty queue takes a message");
        // Every flavour is refused again and again without a trace; `post` checks that nothing is
        // packed. What another flavour still has space for is taken and counted.
        let mut more = 0;
        for _ in 0..50 {
            for other in Flavour::offered(&attr) {
                let len = other.fit(&attr, len);
                let sequence = (taken + more) as u64;
                let (bytes, header) = (pattern(sequence, len), header_of(sequence, sequence, len));
                match world.post(0, 1, other, AmId::new(1), &header, &bytes) {
                    Ok(()) => more += 1,
                    Err(PostError::NoResource) => {}
                    Err(error) => world.must_not_fail(0, 1, error),
                }
            }
        }
        in_order(&world.receive(1, taken + more), 0, ordered);
        world.until(|w| w.peer(0).lent.is_empty());
        world.rounds(20);
        assert!(world.peer(1).seen.messages.is_empty(), "a refused message arrived");
        let mut tokens: Vec<u64> =
            world.peer(0).seen.completed.drain(..).map(|(token, _)| token.0).collect();
        let completions = tokens.len();
        tokens.sort_unstable();
        tokens.dedup();
        assert_eq!(tokens.len(), completions, "a token completed twice");
        assert!(completions <= taken + more, "a refused operation completed");
        assert!(world.peer(0).seen.writable.is_empty(), "nobody asked");
        // There is space again.
        world.send(0, 1, flavour, 0, len);
        in_order(&world.receive(1, 1), 0, ordered);
        world.until(|w| w.peer(0).lent.is_empty());
        world.peer(0).seen.completed.clear();
    }
}

/// A refused short message leaves no trace; what was accepted arrives.
pub fn refused_short_is_unobservable(of: Subject) {
    refused(of, Flavour::Short);
}

/// A refused packed message is not packed and leaves no trace; what was accepted arrives.
pub fn refused_bcopy_is_unobservable(of: Subject) {
    refused(of, Flavour::Bcopy);
}

/// A refused zcopy message never completes and leaves no trace; what was accepted arrives.
pub fn refused_zcopy_is_unobservable(of: Subject) {
    refused(of, Flavour::Zcopy);
}

/// Filling and draining many times finds the queue in every position.
pub fn filled_and_drained_again_and_again(of: Subject) {
    let mut world = World::new(of, 2);
    let attr = world.attr();
    let ordered = attr.caps.contains(Caps::AM_ORDERED);
    let flavours = Flavour::offered(&attr);
    let mut first = 0;
    for round in 0..25_u64 {
        let flavour = flavours[round as usize % flavours.len()];
        let taken = world.fill(0, 1, flavour, first, flavour.fit(&attr, 8 + round as usize));
        in_order(&world.receive(1, taken), first, ordered);
        world.until(|w| w.peer(0).lent.is_empty());
        first += taken as u64;
        // A few more, so that the next round does not begin where this one did.
        for _ in 0..=round % 7 {
            world.send(0, 1, flavours[0], first, flavours[0].fit(&attr, 1));
            world.receive(1, 1)[0].verify();
            first += 1;
        }
    }
}

/// Endpoints that asked are reported in the order of asking, and one that asks again comes last.
pub fn writable_in_order_of_asking(of: Subject) {
    let mut world = World::new(of, 4);
    let attr = world.attr();
    let flavour = Flavour::offered(&attr)[0];
    let len = flavour.fit(&attr, 8);
    for order in [[3, 1, 2], [2, 3, 1], [1, 2, 3]] {
        let mut posted = 0;
        for to in 1..4 {
            posted += world.fill(0, to, flavour, 0, len);
        }
        let asked: Vec<EpId> = order.iter().map(|&to| world.ep(0, to)).collect();
        for &ep in &asked {
            world.peer(0).iface.want_writable(ep);
        }
        world.peer(0).progress(0);
        assert!(world.peer(0).seen.writable.is_empty(), "no event without a budget");
        // The receivers drain before the sender polls, so that all may be reported at once.
        let mut received = 0;
        while received < posted {
            for to in 1..4 {
                if of.loopback {
                    world.round();
                } else {
                    world.peer(to).progress(64);
                }
                received += world.peer(to).seen.take().len();
            }
            if !of.loopback {
                // A transport with buffers on the sender's side empties them by its own progress;
                // without a budget, so that none is reported before all may be.
                world.peer(0).progress(0);
            }
        }
        world.until(|w| w.peer(0).seen.writable.len() == 3);
        assert_eq!(std::mem::take(&mut world.peer(0).seen.writable), asked, "asked {order:?}");
        world.until(|w| w.peer(0).lent.is_empty());
        world.rounds(10);
        assert!(world.peer(0).seen.writable.is_empty(), "reported twice");
    }
}

/// However often an endpoint asks, it is reported once.
pub fn writable_once_for_each_asking(of: Subject) {
    let mut world = World::new(of, 2);
    let attr = world.attr();
    let flavour = Flavour::offered(&attr)[0];
    let len = flavour.fit(&attr, 8);
    for _ in 0..3 {
        let taken = world.fill(0, 1, flavour, 0, len);
        let ep = world.ep(0, 1);
        for _ in 0..5 {
            world.peer(0).iface.want_writable(ep);
        }
        world.receive(1, taken);
        world.until(|w| !w.peer(0).seen.writable.is_empty());
        world.rounds(10);
        assert_eq!(std::mem::take(&mut world.peer(0).seen.writable), [ep]);
        // What was reported is true.
        world.send(0, 1, flavour, 0, len);
        world.receive(1, 1)[0].verify();
    }
}

/// Asking although there is space is answered too.
pub fn asking_with_space_is_answered(of: Subject) {
    let mut world = World::new(of, 2);
    let ep = world.ep(0, 1);
    world.peer(0).iface.want_writable(ep);
    world.until(|w| !w.peer(0).seen.writable.is_empty());
    assert_eq!(world.peer(0).seen.writable, [ep]);
}

/// Several senders flood one slow receiver, each posting only when it is reported as writable: while
/// all want to send, none falls far behind. Endpoints of one interface post as much as they can
/// in the order in which they are reported, as an engine does; separate interfaces post a few messages
/// each in an order drawn anew each round, as processes would.
pub fn nobody_starves(of: Subject) {
    flood(of, false);
}

/// The same of a receiver that has enough with each message.
pub fn nobody_starves_of_enough(of: Subject) {
    flood(of, true);
}

fn flood(of: Subject, enough: bool) {
    const SENDERS: usize = 4;
    const QUOTA: usize = 4000;
    let burst = if of.loopback { QUOTA } else { 4 };
    let mut world = World::new(of, SENDERS + 1);
    world.peer(0).seen.enough = enough;
    let attr = world.attr();
    let flavour = Flavour::offered(&attr)[0];
    let len = flavour.fit(&attr, 8);
    let eps: Vec<EpId> = (0..SENDERS).map(|sender| world.ep(sender + 1, 0)).collect();
    let mut sent = [0; SENDERS];
    // Who may post, in the order in which they were reported.
    let mut ready: VecDeque<usize> = (0..SENDERS).collect();
    let (mut received, mut random) = (0, Random::new(61));
    let mut behind = None;
    while received < SENDERS * QUOTA {
        let mut again = Vec::new();
        while let Some(sender) = ready.pop_front() {
            let (from, goal) = (sender + 1, QUOTA.min(sent[sender] + burst));
            let mut full = false;
            while sent[sender] < goal && !full {
                let sequence = sent[sender] as u64;
                let (bytes, header) = (pattern(sequence, len), header_of(sequence, sequence, len));
                match world.post(from, 0, flavour, AmId::new(sender as u8), &header, &bytes) {
                    Ok(()) => sent[sender] += 1,
                    Err(PostError::NoResource) => full = true,
                    Err(error) => world.must_not_fail(from, 0, error),
                }
            }
            if full {
                world.peer(from).iface.want_writable(eps[sender]);
            } else if sent[sender] < QUOTA {
                again.push(sender);
            }
        }
        for (place, peer) in world.peers.iter_mut().flatten().enumerate() {
            peer.progress(4);
            for ep in peer.seen.writable.drain(..) {
                let sender =
                    (0..SENDERS).find(|&sender| of.place(sender + 1) == place && eps[sender] == ep);
                ready.push_back(sender.expect("only an endpoint that asked is reported"));
            }
        }
        ready.extend(again);
        if !of.loopback {
            // Processes come in no order, and a fixed one would be in step with the queue.
            for place in (1..ready.len()).rev() {
                ready.swap(place, random.below(place + 1));
            }
        }
        received += world.peer(0).seen.take().len();
        world.nobody_failed();
        if behind.is_none() && sent.contains(&QUOTA) {
            behind = Some(sent);
        }
    }
    let behind = behind.expect("all have sent");
    let least = behind.iter().min().copied().unwrap_or(0);
    assert!(
        least >= QUOTA / 10,
        "when the first had sent its {QUOTA} messages, the others had sent {behind:?}"
    );
}

/// What a receiver leaves since it has enough comes in the next calls: each of them hands something out while anything
/// is there, and nothing is lost, doubled or out of order.
pub fn what_is_left_comes_later(of: Subject) {
    let mut world = World::new(of, 2);
    let attr = world.attr();
    let ordered = attr.caps.contains(Caps::AM_ORDERED);
    for flavour in Flavour::offered(&attr) {
        for len in [8, 100, 4000] {
            let taken = world.fill(0, 1, flavour, 0, flavour.fit(&attr, len));
            world.peer(1).seen.enough = true;
            in_order(&world.receive(1, taken), 0, ordered);
            world.peer(1).seen.enough = false;
            world.until(|w| w.peer(0).lent.is_empty());
        }
    }
}

/// `progress` reports no more events than its budget, and loses none by that.
pub fn budget_is_respected(of: Subject) {
    let mut world = World::new(of, 2);
    let attr = world.attr();
    for flavour in Flavour::offered(&attr) {
        for budget in [1, 2, 3, 7, 64] {
            let taken = world.fill(0, 1, flavour, 0, flavour.fit(&attr, 100)).min(500);
            let mut idle = Recorder::default();
            let iface = &mut world.peer(1).iface;
            assert_eq!(iface.progress(&mut idle, 0), 0, "no event without a budget");
            assert_eq!(idle.events, 0);
            // `Peer::progress` compares the events with the budget.
            let mut seen = 0;
            while seen < taken {
                world.peer(1).progress(budget);
                if !of.loopback {
                    world.peer(0).progress(budget);
                }
                seen += world.peer(1).seen.take().len();
            }
            world.rounds(20);
            world.until(|w| w.round() == 0);
            world.until(|w| w.peer(0).lent.is_empty());
            world.peer(1).seen.take();
        }
    }
}
