//! Sleeping and waking: whatever arrives after `arm` said `Ready` wakes, by doorbell and by
//! descriptor.

use std::time::Duration;

use bowline_base::sync::atomic::{AtomicU64, Ordering};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::effort::Effort;
use super::harness::{Flavour, Peer, Random, World, header_of, pattern};
use super::{Member, Subject, not_applicable};
use crate::{AmId, Armed, Caps, PostError};

fn can_sleep(of: Subject, bit: Caps) -> bool {
    let can = World::new(of, 2).attr().caps.contains(bit);
    if !can {
        not_applicable(of, "no wakeup of this kind");
    }
    can
}

/// Arms; the descriptor is made before, as by a program that hands it to `poll`.
fn arm(iface: &mut dyn Member, descriptor: bool) -> Armed {
    if descriptor {
        iface.event_fd().expect("the capability says that there is one");
    }
    iface.arm(descriptor)
}

/// Sleeps on what was armed. The caller says by `armed` that it was `Ready`.
fn sleep(iface: &mut dyn Member, descriptor: bool) {
    if descriptor {
        let fd = iface.event_fd().expect("the capability says that there is one");
        loop {
            match poll(&mut [PollFd::new(&fd, PollFlags::IN)], None) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(error) => panic!("poll: {error}"),
            }
        }
    } else {
        let doorbell = iface.doorbell().expect("the capability says that there is one").clone();
        let _ = doorbell.wait(None);
    }
    iface.disarm();
}

/// Sleeps until `done`, making progress whenever awake.
fn sleep_until(peer: &mut Peer, descriptor: bool, done: impl Fn(&Peer) -> bool) {
    loop {
        while peer.progress(16) > 0 {}
        if done(peer) {
            return;
        }
        match arm(&mut *peer.iface, descriptor) {
            Armed::Busy => {}
            Armed::Ready => sleep(&mut *peer.iface, descriptor),
        }
    }
}

/// A message that is there makes `arm` busy, or wakes at once; an idle interface is `Ready`, again
/// and again.
pub fn armed_or_busy(of: Subject) {
    for (bit, descriptor) in [(Caps::WAKEUP, false), (Caps::EVENT_FD, true)] {
        if !can_sleep(of, bit) {
            continue;
        }
        let mut world = World::new(of, 2);
        let flavour = Flavour::offered(&world.attr())[0];
        let len = flavour.fit(&world.attr(), 8);
        for sequence in 0..50 {
            world.until(|world| world.round() == 0);
            for _ in 0..3 {
                assert_eq!(arm(&mut *world.peer(1).iface, descriptor), Armed::Ready, "idle");
                world.peer(1).iface.disarm();
            }
            // Sent before the receiver arms.
            world.send(0, 1, flavour, sequence, len);
            sleep_until(world.peer(1), descriptor, |peer| !peer.seen.messages.is_empty());
            world.receive(1, 1)[0].verify();
            // Sent after the receiver has armed.
            let before = arm(&mut *world.peer(1).iface, descriptor);
            world.send(0, 1, flavour, sequence, len);
            if before == Armed::Ready {
                sleep(&mut *world.peer(1).iface, descriptor);
            }
            sleep_until(world.peer(1), descriptor, |peer| !peer.seen.messages.is_empty());
            world.receive(1, 1)[0].verify();
        }
    }
}

/// A receiver that has enough leaves messages where they lie: it does not sleep before it has seen all.
pub fn nobody_sleeps_on_what_is_left(of: Subject) {
    for (bit, descriptor) in [(Caps::WAKEUP, false), (Caps::EVENT_FD, true)] {
        if !can_sleep(of, bit) {
            continue;
        }
        let mut world = World::new(of, 2);
        world.peer(1).seen.enough = true;
        let flavour = Flavour::offered(&world.attr())[0];
        let len = flavour.fit(&world.attr(), 100);
        // Some have more messages than make a sender a frequent one, where that is served otherwise.
        for sent in 1..30 {
            for sequence in 0..sent {
                world.send(0, 1, flavour, sequence, len);
            }
            while world.peer(0).progress(16) > 0 {}
            let mut seen = world.peer(1).seen.take().len() as u64;
            while seen < sent {
                world.peer(1).progress(16);
                seen += world.peer(1).seen.take().len() as u64;
                // A sender whose lane was full has the rest to send.
                while world.peer(0).progress(16) > 0 {}
                if seen < sent && arm(&mut *world.peer(1).iface, descriptor) == Armed::Ready {
                    sleep(&mut *world.peer(1).iface, descriptor);
                }
            }
            world.until(|world| world.round() == 0);
        }
    }
}

/// Another thread may ring the doorbell, with nothing behind it, and a sleeper wakes; a timed
/// sleep ends by itself.
pub fn rung_by_hand(of: Subject) {
    for (bit, descriptor) in [(Caps::WAKEUP, false), (Caps::EVENT_FD, true)] {
        if !can_sleep(of, bit) {
            continue;
        }
        let mut world = World::new(of, 2);
        if world.peer(1).iface.doorbell().is_none() {
            not_applicable(of, "nothing to ring by hand: it wakes by its own descriptor alone");
            continue;
        }
        world.until(|world| world.round() == 0);
        for round in 0..200_u64 {
            let doorbell = world.peer(1).iface.doorbell().expect("it wakes").clone();
            let armed = arm(&mut *world.peer(1).iface, descriptor);
            assert_eq!(armed, Armed::Ready, "idle");
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    if round % 3 == 0 {
                        std::thread::yield_now();
                    }
                    doorbell.ring();
                });
                sleep(&mut *world.peer(1).iface, descriptor);
            });
        }
    }
    if can_sleep(of, Caps::WAKEUP) {
        let mut world = World::new(of, 2);
        world.until(|world| world.round() == 0);
        assert_eq!(world.peer(1).iface.arm(false), Armed::Ready, "idle");
        let doorbell = world.peer(1).iface.doorbell().expect("it wakes").clone();
        let _ = doorbell.wait(Some(Duration::from_millis(2)));
        world.peer(1).iface.disarm();
    }
}

/// A sender and a sleeper race; the sender waits for each message to be received, so that a
/// single lost wakeup stops the test.
fn race(of: Subject, bit: Caps, descriptor: bool, most: u64) {
    const LEAST: u64 = 150;
    if of.loopback {
        return not_applicable(of, "a loopback interface is not asleep while it sends");
    }
    if !can_sleep(of, bit) {
        return;
    }
    let mut world = World::new(of, 2);
    let attr = world.attr();
    let flavours = Flavour::offered(&attr);
    let ep = world.ep(0, 1);
    let received = AtomicU64::new(0);
    // The last round, as soon as the sender knows.
    let last = AtomicU64::new(u64::MAX);
    let [Some(sender), Some(receiver)] = &mut world.peers[..] else { unreachable!("two members") };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1.. {
                sleep_until(receiver, descriptor, |peer| !peer.seen.messages.is_empty());
                let message = receiver.seen.take().remove(0);
                message.verify();
                assert_eq!(message.header[0], round);
                // Release: pairs with the sender's acquire; only the count is passed.
                received.store(round, Ordering::Release);
                // Relaxed: it was stored before the message was posted that has come.
                if round == last.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let mut random = Random::new(41);
        let effort = Effort::new(LEAST, most);
        for round in 1.. {
            let goes_on = effort.goes_on(round);
            if !goes_on {
                // Relaxed: the receiver loads it after a message that is posted below.
                last.store(round, Ordering::Relaxed);
            }
            let flavour = flavours[random.below(flavours.len())];
            let len = flavour.fit(&attr, 8);
            let (payload, header) = (pattern(round, len), header_of(round, round, len));
            // Different moments at which the receiver goes to sleep.
            for _ in 0..random.below(400) {
                std::hint::spin_loop();
            }
            if random.below(4) == 0 {
                std::thread::yield_now();
            }
            loop {
                match sender.post(ep, flavour, AmId::new(0), &header, &payload) {
                    Ok(()) => break,
                    Err(PostError::NoResource) => {
                        sender.progress(16);
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            // Acquire: pairs with the receiver's release.
            while received.load(Ordering::Acquire) < round {
                sender.progress(16);
                std::thread::yield_now();
            }
            if !goes_on {
                break;
            }
        }
    });
}

/// Thousands of races between a sender and a receiver asleep on its doorbell.
pub fn no_wakeup_is_lost_on_the_doorbell(of: Subject) {
    race(of, Caps::WAKEUP, false, 5000);
}

/// As many between a sender and a receiver asleep on its event descriptor.
pub fn no_wakeup_is_lost_on_the_descriptor(of: Subject) {
    race(of, Caps::EVENT_FD, true, 3000);
}

/// What a worker sends to itself after it has armed wakes it.
pub fn own_messages_wake(of: Subject) {
    if !of.loopback {
        return not_applicable(of, "members do not send to themselves");
    }
    for (bit, descriptor) in [(Caps::WAKEUP, false), (Caps::EVENT_FD, true)] {
        if !can_sleep(of, bit) {
            continue;
        }
        let mut world = World::new(of, 1);
        for flavour in Flavour::offered(&world.attr()) {
            for sequence in 0..100 {
                assert_eq!(arm(&mut *world.peer(0).iface, descriptor), Armed::Ready, "idle");
                world.send(0, 0, flavour, sequence, flavour.fit(&world.attr(), 8));
                sleep(&mut *world.peer(0).iface, descriptor);
                world.receive(0, 1)[0].verify();
                world.until(|world| world.round() == 0);
            }
        }
    }
}
