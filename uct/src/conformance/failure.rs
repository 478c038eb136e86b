//! Ends: closed endpoints, closed peers, dead peers. Every operation gets an answer, every
//! failure is reported once, and no other peer is disturbed.

use std::collections::HashSet;

use super::harness::{Flavour, ReceivedAm, World, header_of, pattern};
use super::{Member, Subject, in_sequence, not_applicable};
use crate::{AmHeader, AmId, Caps, EpId, PostError, Token};

const HEADER: AmHeader = [0; 3];

/// Posts of member `from` to `to` until they are refused; returns the final error.
/// Operations accepted before are counted by `accepted`.
#[track_caller]
fn until_refused(world: &mut World, from: usize, to: usize) -> PostError {
    let attr = world.attr();
    let flavour = Flavour::offered(&attr)[0];
    let payload = pattern(1, flavour.fit(&attr, 8));
    let mut last = None;
    world.until(|world| {
        match world.post(from, to, flavour, AmId::new(1), &HEADER, &payload) {
            Ok(()) | Err(PostError::NoResource) => {}
            Err(error) => last = Some(error),
        }
        last.is_some()
    });
    last.expect("set above")
}

/// All operations on `ep`, which must refuse them.
#[track_caller]
fn all_refused(iface: &mut dyn Member, ep: EpId, expected: PostError, caps: Caps) {
    let id = AmId::new(0);
    let short = iface.am_short(ep, id, &HEADER, &[]);
    let packed = iface.am_bcopy(ep, id, &HEADER, 0, &mut |_| unreachable!("nothing to pack"));
    let lent = iface.am_zcopy(ep, id, &HEADER, &[], Token(5));
    for (bit, answer, what) in [
        (Caps::AM_SHORT, short.err(), "am_short"),
        (Caps::AM_BCOPY, packed.err(), "am_bcopy"),
        (Caps::AM_ZCOPY, lent.err(), "am_zcopy"),
        (Caps::EP_CHECK, iface.check(ep).err(), "check"),
        (Caps::empty(), iface.flush(ep, Token(6)).err(), "flush"),
    ] {
        if caps.contains(bit) {
            assert_eq!(answer, Some(expected), "{what} on {ep:?}");
        }
    }
    assert!(iface.rkey_unpack(ep, &[]).is_err(), "a key from nobody");
}

/// Endpoints that were never made or are closed refuse everything, and asking after them does no
/// harm.
pub fn bad_endpoints_are_refused(of: Subject) {
    let mut world = World::new(of, 3);
    let caps = world.attr().caps;
    let closed = world.ep(0, 1);
    world.peer(0).iface.disconnect(closed);
    let iface = &mut world.peer(0).iface;
    for ep in [closed, EpId(1 << 20), EpId(u32::MAX), EpId(i32::MAX as u32)] {
        all_refused(&mut **iface, ep, PostError::BadEndpoint, caps);
        iface.want_writable(ep);
        iface.invalidate(ep);
        iface.disconnect(ep);
    }
    world.rounds(50);
    assert_eq!(world.peer(0).seen.events, 0, "something was said of endpoints that are not there");
    let flavour = Flavour::offered(&world.attr())[0];
    let len = flavour.fit(&world.attr(), 8);
    world.send(0, 2, flavour, 1, len);
    world.receive(2, 1)[0].verify();
}

/// An invalidated endpoint fails once, after its operations in flight have been answered, refuses
/// everything, and the other endpoints go on.
pub fn invalidated_endpoints_fail_once(of: Subject) {
    let mut world = World::new(of, 3);
    let attr = world.attr();
    let flavours = Flavour::offered(&attr);
    let ep = world.ep(0, 1);
    // Operations in flight, and a wish to post.
    for &flavour in &flavours {
        for sequence in 0..3 {
            let len = flavour.fit(&attr, 900);
            let (payload, header) = (pattern(sequence, len), header_of(sequence, sequence, len));
            match world.post(0, 1, flavour, AmId::new(1), &header, &payload) {
                Ok(()) | Err(PostError::NoResource) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    let in_flight: HashSet<Token> = world.peer(0).lent.keys().copied().collect();
    world.peer(0).iface.want_writable(ep);
    world.peer(0).iface.invalidate(ep);
    world.peer(0).iface.invalidate(ep);
    all_refused(&mut *world.peer(0).iface, ep, PostError::PeerFailed, attr.caps);
    world.until(|w| w.peer(0).seen.failures_of(ep, None) > 0);
    // `Peer::progress` frees a lent buffer when its token completes: all have by now.
    assert!(world.peer(0).lent.is_empty(), "the failure came before its operations' answers");
    let done: Vec<Token> = world.peer(0).seen.completed.iter().map(|(token, _)| *token).collect();
    assert_eq!(done.len(), in_flight.len(), "each operation is answered once");
    assert_eq!(done.iter().copied().collect::<HashSet<_>>(), in_flight);
    world.rounds(100);
    assert_eq!(world.peer(0).seen.failures_of(ep, None), 1, "a failure is reported once");
    all_refused(&mut *world.peer(0).iface, ep, PostError::PeerFailed, attr.caps);
    world.peer(2).seen.take();
    let flavour = flavours[0];
    world.send(0, 2, flavour, 7, flavour.fit(&attr, 8));
    world.receive(2, 1)[0].verify();
    // Closed and connected anew it works, where the peer itself is well.
    world.peer(0).iface.disconnect(ep);
    all_refused(&mut *world.peer(0).iface, ep, PostError::BadEndpoint, attr.caps);
}

/// An endpoint can be closed and made again many times; what was complete locally before the
/// close arrives.
pub fn disconnected_and_connected_again(of: Subject) {
    const ROUNDS: u64 = 300;
    let mut world = World::new(of, 2);
    let attr = world.attr();
    let flavours: Vec<Flavour> =
        Flavour::offered(&attr).into_iter().filter(|&f| f != Flavour::Zcopy).collect();
    let Some(&first) = flavours.first() else {
        return not_applicable(of, "no operation is complete in the call");
    };
    let address = world.peer(1).iface.address();
    for round in 0..ROUNDS {
        let flavour = if round % 2 == 0 { first } else { flavours[flavours.len() - 1] };
        world.send(0, 1, flavour, 2 * round, flavour.fit(&attr, 100));
        world.send(0, 1, flavour, 2 * round + 1, flavour.fit(&attr, 10));
        let ep = world.ep(0, 1);
        world.peer(0).iface.want_writable(ep);
        world.peer(0).iface.disconnect(ep);
        let arrived = world.receive(1, 2);
        arrived.iter().for_each(ReceivedAm::verify);
        let stream = arrived.iter().map(|message| message.header[0]).collect();
        in_sequence(of, &attr, stream, 2 * round, 2);
        let ep = world.peer(0).iface.connect(&address).expect("the peer is still there");
        world.set_ep(0, 1, ep);
    }
    assert!(world.peer(0).seen.writable.is_empty(), "a closed endpoint was said to be writable");
    assert!(world.peer(0).seen.failed.is_empty(), "closing is no failure of the peer");
    assert!(world.peer(1).seen.failed.is_empty(), "a closed endpoint is no failure of its peer");
}

/// A peer that closes in order is noticed: its failure is reported once, and posts end with an error.
pub fn closed_peers_are_noticed(of: Subject) {
    if of.loopback {
        return not_applicable(of, "a loopback interface does not outlive its peer");
    }
    let mut world = World::new(of, 3);
    let attr = world.attr();
    let flavour = Flavour::offered(&attr)[0];
    world.send(0, 1, flavour, 1, flavour.fit(&attr, 8));
    world.receive(1, 1);
    let (ep, source) = (world.ep(0, 1), world.source(0, 1));
    world.close(1);
    assert_eq!(until_refused(&mut world, 0, 1), PostError::PeerFailed);
    world.until(|w| w.peer(0).seen.failures_of(ep, source) > 0);
    world.rounds(200);
    assert_eq!(world.peer(0).seen.failures_of(ep, source), 1, "reported once");
    world.send(0, 2, flavour, 7, flavour.fit(&attr, 8));
    world.receive(2, 1)[0].verify();
    world.peer(0).iface.disconnect(ep);
}

/// A member that leaves when all is sent leaves nothing behind, although the queue was full when the last of
/// it was posted. Its end is reported after its messages.
pub fn nothing_is_lost_by_leaving(of: Subject) {
    if of.loopback {
        return not_applicable(of, "a loopback interface does not outlive its peer");
    }
    let mut world = World::new(of, 5);
    let attr = world.attr();
    let flavour = Flavour::offered(&attr)[0];
    let len = flavour.fit(&attr, 8);
    for from in 1..5 {
        // The receiver knows its sender.
        world.send(from, 0, flavour, 0, len);
        world.receive(0, 1)[0].verify();
        let source = world.source(0, from);
        let posted = if from == 1 {
            world.fill(from, 0, flavour, 1, len)
        } else {
            world.send(from, 0, flavour, 1, len);
            1
        };
        // As far as it goes without the receiver, who then finds messages and their sender's end.
        world.rounds_of(from, 200);
        world.until(|world| world.peer(from).iface.all_sent());
        world.close(from);
        world.until(|world| world.peer(0).seen.messages.len() >= posted);
        let messages = world.peer(0).seen.take();
        messages.iter().for_each(ReceivedAm::verify);
        let order = messages.iter().map(|message| message.header[0]).collect();
        in_sequence(of, &attr, order, 1, posted as u64);
        let seen = &world.peer(0).seen;
        let reported = seen.failed.iter().position(|failed| source.is_some() && failed.0 == source);
        if let Some(reported) = reported {
            assert_eq!(
                seen.before[reported], posted,
                "the end is reported before the last messages"
            );
        }
    }
}

fn can_kill(of: Subject) -> bool {
    if !of.can_kill {
        not_applicable(of, "the provider cannot stage a death");
    }
    of.can_kill
}

/// A dead peer's failure is reported once to each survivor, and what is posted to it is refused.
pub fn death_is_reported_once(of: Subject) {
    if !can_kill(of) {
        return;
    }
    let mut world = World::to_kill(of, 3);
    let caps = world.attr().caps;
    let flavour = Flavour::offered(&world.attr())[0];
    let len = flavour.fit(&world.attr(), 8);
    world.send(1, 0, flavour, 1, len);
    world.receive(0, 1)[0].verify();
    let known: Vec<_> = [0, 2].map(|m| (world.ep(m, 1), world.source(m, 1))).into();
    world.kill(1);
    for (member, (ep, source)) in [0, 2].into_iter().zip(known) {
        world.until(|w| w.peer(member).seen.failures_of(ep, source) > 0);
        world.rounds(200);
        assert_eq!(world.peer(member).seen.failures_of(ep, source), 1, "reported once");
        all_refused(&mut *world.peer(member).iface, ep, PostError::PeerFailed, caps);
        world.peer(member).iface.disconnect(ep);
    }
}

/// Operations in flight to a peer that dies are answered, before its failure is reported.
pub fn death_ends_operations_in_flight(of: Subject) {
    if !can_kill(of) {
        return;
    }
    let mut world = World::to_kill(of, 2);
    let attr = world.attr();
    let (ep, source) = (world.ep(0, 1), world.source(0, 1));
    // A few of each flavour, zcopy first, so that some are in flight when the queue is full.
    for flavour in Flavour::offered(&attr).into_iter().rev() {
        let len = flavour.fit(&attr, 4000);
        for sequence in 0..4 {
            let (payload, header) = (pattern(sequence, len), header_of(sequence, sequence, len));
            match world.post(0, 1, flavour, AmId::new(1), &header, &payload) {
                Ok(()) | Err(PostError::NoResource) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    let first = Flavour::offered(&attr)[0];
    world.fill(0, 1, first, 0, first.fit(&attr, 8));
    let flush = world.peer(0).token();
    let flushing = world.peer(0).iface.flush(ep, flush);
    let mut in_flight: HashSet<Token> = world.peer(0).lent.keys().copied().collect();
    if flushing == Ok(crate::Posted::InFlight) {
        in_flight.insert(flush);
    }
    let before: Vec<Token> = world.peer(0).seen.completed.drain(..).map(|(t, _)| t).collect();
    assert!(before.iter().all(|token| !in_flight.contains(token)));
    world.kill(1);
    world.until(|w| w.peer(0).seen.failures_of(ep, source) > 0);
    let done: Vec<Token> = world.peer(0).seen.completed.iter().map(|(token, _)| *token).collect();
    let distinct: HashSet<Token> = done.iter().copied().collect();
    assert_eq!(done.len(), distinct.len(), "an operation was answered twice");
    assert_eq!(distinct, in_flight, "each operation is answered before the failure is reported");
    world.rounds(100);
    assert_eq!(world.peer(0).seen.completed.len(), done.len(), "an answer after the failure");
}

/// A sender that waits for space with a peer that dies is not left waiting.
pub fn death_of_a_full_peer(of: Subject) {
    if !can_kill(of) {
        return;
    }
    let mut world = World::to_kill(of, 3);
    let attr = world.attr();
    let flavour = Flavour::offered(&attr)[0];
    let (ep, source) = (world.ep(0, 1), world.source(0, 1));
    world.fill(0, 1, flavour, 0, flavour.fit(&attr, 8));
    world.peer(0).iface.want_writable(ep);
    world.kill(1);
    world.until(|w| w.peer(0).seen.failures_of(ep, source) > 0);
    assert_eq!(until_refused(&mut world, 0, 1), PostError::PeerFailed);
}

/// The messages of survivors are neither lost nor held up by a death in the midst of a stream to
/// the same receiver.
pub fn survivors_go_on(of: Subject) {
    const LATER: u64 = 1000;
    if !can_kill(of) {
        return;
    }
    let mut world = World::to_kill(of, 4);
    let attr = world.attr();
    let flavour = Flavour::offered(&attr)[0];
    let len = flavour.fit(&attr, 8);
    for sequence in 0..20 {
        for from in 1..4 {
            world.send(from, 0, flavour, sequence, len);
        }
    }
    let living = world.source(0, 1);
    world.kill(2);
    for sequence in 20..LATER {
        world.send(1, 0, flavour, sequence, len);
        world.send(3, 0, flavour, sequence, len);
    }
    let by_seed = |from: u64| move |sequence: u64| sequence ^ (from << 48);
    let sent_by = |messages: &[ReceivedAm], from: u64| -> Vec<u64> {
        let its = |message: &&ReceivedAm| message.header[1] == by_seed(from)(message.header[0]);
        messages.iter().filter(its).map(|message| message.header[0]).collect()
    };
    world.until(|w| {
        let messages = &w.peer(0).seen.messages;
        [1, 3].into_iter().all(|from| sent_by(messages, from).len() as u64 >= LATER)
    });
    let messages = world.peer(0).seen.take();
    messages.iter().for_each(ReceivedAm::verify);
    for from in [1, 3] {
        in_sequence(of, &attr, sent_by(&messages, from), 0, LATER);
    }
    if let Some(living) = living {
        assert!(messages.iter().any(|message| message.source == living));
        assert!(world.peer(0).seen.failed.iter().all(|failed| failed.0 != Some(living)));
    }
}
