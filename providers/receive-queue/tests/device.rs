//! Receive queues where the transport's atomics are not coherent with the processor's: the
//! consumer flips by a connection to itself; and the end of that connection.

use super::bare::{Own, OwnEnd, WithoutMessages};
use bowline_receive_queue::{QueueForm, QueueLane, QueueOptions};
use bowline_sim::{Drive, Network, NetworkOptions, SimIface};
use bowline_uct::conformance::harness::{Recorder, header_of, pattern};
use bowline_uct::conformance::{Provider, Watchdog};
use bowline_uct::{AmId, EpId, Iface as _, PeerFailure, PostError};

macro_rules! form {
    ($module:ident, $name:literal, $form:expr) => {
        mod $module {
            use super::*;

            struct Form(Network);

            impl Provider for Form {
                type Iface = QueueLane;
                const NAME: &'static str = $name;
                const CAN_KILL: bool = true;

                fn open(size: usize) -> (Self, Vec<QueueLane>) {
                    let options = NetworkOptions {
                        seed: 4,
                        jitter_ns: 5000,
                        drive: Drive::OnIdle,
                        ..NetworkOptions::default()
                    };
                    let network = Network::new(options);
                    let queue = QueueOptions { form: $form, slots: 64, peers: 16, rings: 2 };
                    let lanes = (0..size as u64).map(|number| {
                        let bare = WithoutMessages::with_device_atomics(network.open());
                        let lane =
                            QueueLane::open(Box::new(bare), &queue, number).expect("it opens");
                        assert!(lane.attr().caps.contains(bowline_uct::Caps::ATOMIC_DEVICE));
                        lane
                    });
                    let lanes = lanes.collect();
                    (Self(network), lanes)
                }

                fn kill(&mut self, index: usize, iface: QueueLane) {
                    self.0.kill(index as u32);
                    drop(iface);
                }

                fn step(&mut self) {
                    self.0.advance();
                }
            }

            bowline_uct::conformance!(Form);
        }
    };
}

form!(scmp, "queues over sim, flipped by the device", QueueForm::Scmp);
form!(ring, "rings over sim, atomics of the device", QueueForm::Ring);
form!(seq, "checksummed queues over sim, flipped by the device", QueueForm::ScmpSeq);
form!(scmp_rings, "queues with rings over sim, flipped by the device", QueueForm::ScmpRings);

/// What becomes of a receiver's connection to itself.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// It fails, with what is under way.
    Fails,
    /// What is posted to it is refused, and its end is not reported.
    Refuses(PostError),
}

/// A receiver whose connection to itself ends, and senders.
struct World {
    network: Network,
    lanes: Vec<QueueLane>,
    seen: Vec<Recorder>,
    own: Own,
}

impl World {
    fn new(form: QueueForm, senders: usize) -> Self {
        let network = Network::new(NetworkOptions { seed: 9, ..NetworkOptions::default() });
        let bare = WithoutMessages::with_device_atomics(network.open());
        let own = bare.own();
        let mut world = Self { network, lanes: Vec::new(), seen: Vec::new(), own };
        world.add(bare, form);
        for _ in 0..senders {
            world.join(form);
        }
        world
    }

    fn add(&mut self, bare: WithoutMessages<SimIface>, form: QueueForm) {
        let queue = QueueOptions { form, slots: 16, peers: 8, rings: 1 };
        let number = self.lanes.len() as u64;
        self.lanes.push(QueueLane::open(Box::new(bare), &queue, number).expect("it opens"));
        self.seen.push(Recorder::default());
    }

    /// Another sender, with its endpoint.
    fn join(&mut self, form: QueueForm) -> (usize, EpId) {
        self.add(WithoutMessages::with_device_atomics(self.network.open()), form);
        let to = self.lanes[0].address();
        let number = self.lanes.len() - 1;
        (number, self.lanes[number].connect(&to).expect("reachable"))
    }

    fn round(&mut self) {
        for (lane, seen) in self.lanes.iter_mut().zip(&mut self.seen) {
            lane.progress(seen, 16);
        }
        self.network.advance();
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        for _ in 0..100_000 {
            self.round();
            if done(self) {
                return;
            }
        }
        panic!("{what} never happened");
    }

    fn send(&mut self, sender: usize, ep: EpId, number: u64) -> Result<(), PostError> {
        let (header, payload) = (header_of(number, number, 8), pattern(number, 8));
        self.lanes[sender].am_short(ep, AmId::new(sender as u8), &header, &payload)
    }

    /// The numbers of the messages that came from a sender.
    fn from(&self, sender: usize) -> Vec<u64> {
        let its = self.seen[0].messages.iter().filter(|one| usize::from(one.id.get()) == sender);
        its.map(|one| one.header[0]).collect()
    }
}

/// The connection ends after so many rounds, whatever its owner is doing then: the queue is closed, and
/// everybody hears of it once, with what was received before in order.
fn ends(form: QueueForm, fate: Fate, rounds: u32) {
    let what = format!("{form:?}, {fate:?} after {rounds} rounds");
    let mut world = World::new(form, 2);
    let mut next = [0, 0, 0];
    let ep = EpId(1);
    let sends = |world: &mut World, next: &mut [u64; 3]| {
        for (sender, next) in next.iter_mut().enumerate().skip(1) {
            match world.send(sender, ep, *next) {
                Ok(()) => *next += 1,
                // It may hear of the end right after.
                Err(error) => {
                    assert!(matches!(error, PostError::NoResource | PostError::PeerFailed));
                }
            }
        }
    };
    for _ in 0..rounds {
        sends(&mut world, &mut next);
        world.round();
    }
    assert!(world.seen.iter().all(|seen| seen.failed.is_empty()), "{what}");
    world.own.end(match fate {
        Fate::Fails => OwnEnd::Fail,
        Fate::Refuses(error) => OwnEnd::Refuse(error),
    });
    world.until(&format!("{what}: the end for everybody"), |world| {
        sends(world, &mut next);
        world.seen[0].failed.len() == 2
            && world.seen[1..].iter().all(|seen| !seen.failed.is_empty())
    });
    let (late, late_ep) = {
        // It is reported to later ones, too.
        let (late, ep) = world.join(form);
        world.send(late, ep, 0).expect("it waits at its sender");
        (late, ep)
    };
    world.until(&format!("{what}: the end for a late one"), |world| {
        !world.seen[late].failed.is_empty()
    });
    assert_eq!(world.send(late, late_ep, 1), Err(PostError::PeerFailed), "{what}");
    for _ in 0..1000 {
        world.round();
    }
    for (lane, seen) in world.seen.iter().enumerate() {
        let all = if lane == 0 { 3 } else { 1 };
        assert_eq!(seen.failed.len(), all, "{what}, {lane}: {:?}", seen.failed);
        for failed in &seen.failed {
            assert_eq!(failed.2, PeerFailure::Unreachable, "{what}, {lane}");
        }
    }
    for sender in 1..3 {
        let came = world.from(sender);
        assert!(came.iter().copied().eq(0..came.len() as u64), "{what}: {came:?}");
        assert_eq!(world.send(sender, ep, 0), Err(PostError::PeerFailed), "{what}");
    }
    world.seen[0].messages.iter().for_each(|message| message.verify());
    let to = world.lanes[1].address();
    let refused = world.lanes[0].connect(&to).expect_err("it has no queue for answers");
    assert!(refused.to_string().contains("closed"), "{refused}");
}

#[test]
fn the_connection_of_a_receiver_to_itself_fails() {
    let _watchdog = Watchdog::start("queues", "the_connection_of_a_receiver_to_itself_fails");
    for form in [QueueForm::Scmp, QueueForm::ScmpSeq, QueueForm::ScmpRings] {
        for rounds in (0..40).chain([100, 177, 300]) {
            ends(form, Fate::Fails, rounds);
            if rounds % 7 == 0 {
                ends(form, Fate::Refuses(PostError::PeerFailed), rounds);
                ends(form, Fate::Refuses(PostError::Unsupported), rounds);
            }
        }
    }
}

/// Who has a ring needs no flip: its messages are received, until somebody else needs the queue.
#[test]
fn a_ring_is_read_without_flips() {
    let _watchdog = Watchdog::start("queues", "a_ring_is_read_without_flips");
    let mut world = World::new(QueueForm::ScmpRings, 1);
    let mut next = 0;
    let ep = EpId(1);
    world.until("a ring", |world| {
        next += u64::from(world.send(1, ep, next).is_ok());
        world.lanes[0].stats().promoted > 0
    });
    world.until("all of it", |world| world.from(1).len() as u64 == next);
    world.own.end(OwnEnd::Fail);
    for _ in 0..200 {
        next += u64::from(world.send(1, ep, next).is_ok());
        world.round();
    }
    world.until("all by the ring", |world| world.from(1).len() as u64 == next);
    assert!(world.seen.iter().all(|seen| seen.failed.is_empty()));
    let (other, other_ep) = world.join(QueueForm::ScmpRings);
    world.until("the end for all", |world| {
        for (sender, ep) in [(1, ep), (other, other_ep)] {
            let _ = world.send(sender, ep, next);
        }
        world.seen.iter().all(|seen| !seen.failed.is_empty())
    });
    for seen in &world.seen {
        assert!(seen.failed.iter().all(|failed| failed.2 == PeerFailure::Unreachable));
    }
}

/// A sender leaves as soon as all is sent, and the receiver polls at odd times: the notice of the end
/// may come while the swap that flips the queue is under way, its answer not yet there. The messages
/// come first.
fn leaves(form: QueueForm, before: u32, between: u32, count: u64) {
    let what = format!("{form:?}, {count} messages, polls after {before} and {between} events");
    let mut world = World::new(form, 1);
    let ep = EpId(1);
    world.send(1, ep, 0).expect("there is space");
    world.until(&what, |world| world.from(1) == [0]);
    for number in 1..=count {
        world.send(1, ep, number).expect("there is space");
    }
    while !world.lanes[1].all_sent() {
        world.lanes[1].progress(&mut world.seen[1], 16);
        world.network.advance();
    }
    drop(world.lanes.pop());
    let wait = |world: &World, events| {
        for _ in 0..events {
            world.network.advance();
        }
    };
    wait(&world, before);
    world.until(&what, |world| {
        wait(world, between);
        !world.seen[0].failed.is_empty()
    });
    assert_eq!(world.seen[0].before, [count as usize + 1], "{what}");
    assert!(world.from(1).into_iter().eq(0..=count), "{what}");
}

#[test]
fn a_sender_leaves_while_the_queue_is_flipped() {
    let _watchdog = Watchdog::start("queues", "a_sender_leaves_while_the_queue_is_flipped");
    for form in [QueueForm::Scmp, QueueForm::ScmpSeq, QueueForm::ScmpRings] {
        for before in 0..25 {
            for between in 0..25 {
                leaves(form, before, between, 1 + u64::from(between % 3));
            }
        }
    }
}
