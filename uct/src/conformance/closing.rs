//! Peers that send and close while nobody polls: everything that was out of their hands arrives, however
//! late and slowly it is polled for, and their end is reported behind it, once and as a close, by whichever
//! sign it was noticed first.

use std::time::Duration;

use super::harness::{Flavour, ReceivedAm, World};
use super::{Subject, in_sequence, not_applicable};
use crate::{AmId, Caps, IfaceAttr, PeerFailure};

/// How many messages are sent: fewer than any queue takes before its receiver polls, and as many as it takes,
/// up to a bound.
const MESSAGES: [usize; 2] = [2, 300];

/// For how long the receiver polls nothing: longer than an interface waits for more of a peer that it has
/// found gone.
const PAUSE: Duration = Duration::from_millis(25);

/// How the receiver notices first that the peer is gone.
#[derive(Clone, Copy, Debug)]
enum Sign {
    /// In progress.
    Progress,
    /// By asking for it.
    Check,
    /// By a post.
    Post,
}

/// Member 1 sends as many messages as are taken, or `most`, and closes when they are out of its hands. For that the
/// receiver, member 0, takes as few as it can. Returns how many there are.
#[track_caller]
fn send_and_close(world: &mut World, attr: &IfaceAttr, first: u64, most: usize) -> u64 {
    let flavour = Flavour::offered(attr)[0];
    let posted = world.fill_most(1, 0, flavour, first, flavour.fit(attr, 8), most);
    world.rounds_of(1, 200);
    while !world.peer(1).iface.all_sent() {
        world.one_event(0);
        world.rounds_of(1, 10);
    }
    world.close(1);
    posted as u64
}

/// The receiver polls late, one event at a time, until it hears of the peer's end. What has arrived by then.
#[track_caller]
fn take_slowly(world: &mut World) -> Vec<ReceivedAm> {
    let mut polls = 0;
    while world.peer(0).seen.failed.is_empty() {
        if polls < 3 {
            std::thread::sleep(PAUSE);
        }
        polls += 1;
        world.one_event(0);
    }
    let messages = world.peer(0).seen.take();
    messages.iter().for_each(ReceivedAm::verify);
    messages
}

/// The end was reported behind the messages `first..first + count`, once, and as a close; and other peers are well.
#[track_caller]
fn ended_in_order(world: &mut World, messages: &[ReceivedAm], first: u64, count: u64) {
    let (of, attr) = (world.of(), world.attr());
    let order = messages.iter().map(|message| message.header[0]).collect();
    in_sequence(of, &attr, order, first, count);
    let flavour = Flavour::offered(&attr)[0];
    world.send(2, 0, flavour, 7, flavour.fit(&attr, 8));
    world.receive(0, 1)[0].verify();
    world.rounds(200);
    let failed: Vec<PeerFailure> =
        world.peer(0).seen.failed.iter().map(|failed| failed.2).collect();
    assert_eq!(failed, [PeerFailure::Closed], "{}", of.name);
    assert_eq!(world.peer(0).seen.messages.len(), 0, "{}: a message behind the end", of.name);
}

/// Of a peer that the receiver is connected to, and that it has had a message of, or not.
fn messages_arrive(of: Subject, sign: Sign) {
    for (first, most) in [(0, MESSAGES[0]), (0, MESSAGES[1]), (1, MESSAGES[1])] {
        let mut world = World::new(of, 3);
        let attr = world.attr();
        let flavour = Flavour::offered(&attr)[0];
        let len = flavour.fit(&attr, 8);
        for sequence in 0..first {
            world.send(1, 0, flavour, sequence, len);
            world.receive(0, 1)[0].verify();
        }
        let ep = world.ep(0, 1);
        let count = send_and_close(&mut world, &attr, first, most);
        // What is answered depends on how much is known by then.
        match sign {
            Sign::Progress => {}
            Sign::Check => {
                let _ = world.peer(0).iface.check(ep);
            }
            Sign::Post => {
                for number in 0..3 {
                    let header = [number; 3];
                    let _ = world.post(0, 1, flavour, AmId::new(1), &header, &vec![1; len]);
                    // A peer's host answers the first post, and the next one finds the answer.
                    std::thread::sleep(PAUSE / 5);
                }
            }
        }
        let messages = take_slowly(&mut world);
        ended_in_order(&mut world, &messages, first, count);
    }
}

fn applies(of: Subject) -> bool {
    if of.loopback {
        not_applicable(of, "a loopback interface does not outlive its peer");
    }
    !of.loopback
}

/// The receiver does nothing but poll.
pub fn messages_arrive_however_late(of: Subject) {
    if applies(of) {
        messages_arrive(of, Sign::Progress);
    }
}

/// The receiver has asked whether the peer is there.
pub fn messages_arrive_after_a_check(of: Subject) {
    if !applies(of) {
        return;
    }
    if !World::new(of, 2).attr().caps.contains(Caps::EP_CHECK) {
        return not_applicable(of, "peers cannot be asked after");
    }
    messages_arrive(of, Sign::Check);
}

/// The receiver has sent something to the peer.
pub fn messages_arrive_after_posts(of: Subject) {
    if applies(of) {
        messages_arrive(of, Sign::Post);
    }
}

/// Of a peer that the receiver was not connected to when it closed. Its first message makes the receiver
/// connect to it. Whether that succeeds or not, the other messages arrive.
pub fn messages_arrive_of_one_not_connected_to(of: Subject) {
    if !applies(of) {
        return;
    }
    for (back, most) in [(false, MESSAGES[1]), (true, MESSAGES[0]), (true, MESSAGES[1])] {
        let mut world = World::connected(of, 3, |from, _| from != 0);
        let attr = world.attr();
        let address = world.peer(1).iface.address();
        let count = send_and_close(&mut world, &attr, 0, most);
        let heard = |world: &mut World| {
            let seen = &world.peer(0).seen;
            !seen.messages.is_empty() || !seen.failed.is_empty()
        };
        world.until_one_event(0, heard);
        if back {
            // It may be known by now that nobody is there.
            let _ = world.peer(0).iface.connect(&address);
        }
        let messages = take_slowly(&mut world);
        ended_in_order(&mut world, &messages, 0, count);
        let source = Some(messages[0].source);
        assert!(messages.iter().all(|message| Some(message.source) == source), "{}", of.name);
        assert_eq!(world.peer(0).seen.failed[0].0, source, "{}", of.name);
    }
}
