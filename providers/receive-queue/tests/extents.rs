//! More peers than a lane's own memory has places for: what they need is found in extents, which are made when they
//! come, and the queue works as with few; also after a death, and where there is no memory for more.

use super::bare::WithoutMessages;
use super::bring_out;
use bowline_receive_queue::{QueueForm, QueueLane, QueueOptions};
use bowline_sim::{Death, Moment, Network, NetworkOptions};
use bowline_uct::conformance::Watchdog;
use bowline_uct::conformance::harness::{Recorder, header_of, pattern};
use bowline_uct::{AmId, EpId, Iface, PeerFailure, PostError};

/// Links of one lane, or senders to one, whose words and records do not all lie in the lane's own memory.
const MANY: usize = 70;

struct World {
    network: Network,
    lanes: Vec<QueueLane>,
    seen: Vec<Recorder>,
}

impl Drop for World {
    fn drop(&mut self) {
        bring_out(&self.network, &mut self.lanes);
    }
}

impl World {
    fn new(lanes: usize, options: &QueueOptions, network: NetworkOptions) -> Self {
        Self::with_pieces(lanes, options, network, u32::MAX)
    }

    /// The first lane's transport has memory for so many pieces.
    fn with_pieces(
        lanes: usize,
        options: &QueueOptions,
        network: NetworkOptions,
        pieces: u32,
    ) -> Self {
        let network = Network::new(network);
        let open = |number| {
            let pieces = if number == 0 { pieces } else { u32::MAX };
            let bare = WithoutMessages::with_pieces(network.open(), pieces);
            QueueLane::open(Box::new(bare), options, number as u64).expect("it opens")
        };
        let lanes: Vec<QueueLane> = (0..lanes).map(open).collect();
        let seen = lanes.iter().map(|_| Recorder::default()).collect();
        Self { network, lanes, seen }
    }

    fn connect(&mut self, from: usize, to: usize) -> EpId {
        let address = self.lanes[to].address();
        self.lanes[from].connect(&address).expect("reachable")
    }

    fn send(&mut self, from: usize, ep: EpId, number: u64) -> Result<(), PostError> {
        let seed = number ^ (from as u64) << 32;
        let (header, payload) = (header_of(number, seed, 8), pattern(seed, 8));
        self.lanes[from].am_short(ep, AmId::new(from as u8 % 32), &header, &payload)
    }

    fn round(&mut self) {
        for (node, (lane, seen)) in self.lanes.iter_mut().zip(&mut self.seen).enumerate() {
            if self.network.is_alive(node as u32) {
                lane.progress(seen, 16);
            }
        }
        self.network.advance();
    }

    fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        for _ in 0..100_000 {
            if done(self) {
                return;
            }
            self.round();
        }
        panic!("{what} never happened");
    }
}

const FORMS: [QueueForm; 4] =
    [QueueForm::Scmp, QueueForm::ScmpRings, QueueForm::ScmpSeq, QueueForm::Ring];

fn options(form: QueueForm) -> QueueOptions {
    QueueOptions { form, slots: 16, peers: 100, rings: 2 }
}

/// Everybody sends to one, who answers everybody. The memory is what it is said to be for as many.
#[test]
fn more_peers_than_the_lane_has_places_for() {
    let _watchdog = Watchdog::start("queues", "more_peers_than_the_lane_has_places_for");
    for form in FORMS {
        for ordered in [true, false] {
            let network = NetworkOptions {
                puts_ordered: ordered,
                put_before_atomic: ordered,
                jitter_ns: 3000,
                ..NetworkOptions::default()
            };
            let mut world = World::new(MANY + 1, &options(form), network);
            let before = world.lanes[0].attr().receive_bytes;
            let own = options(form).receive_bytes(0).expect("there is such a lane");
            for from in 1..=MANY {
                let ep = world.connect(from, 0);
                world.send(from, ep, 0).expect("it waits at its sender");
                let own = world.lanes[from].attr().receive_bytes;
                assert_eq!(own, before, "one peer is no reason for more memory");
            }
            world.until("all messages", |world| world.seen[0].messages.len() == MANY);
            for to in 1..=MANY {
                let ep = world.connect(0, to);
                while world.send(0, ep, 7).is_err() {
                    world.round();
                }
            }
            world.until("all answers", |world| {
                world.seen[1..].iter().all(|seen| seen.messages.len() == 1)
            });
            for seen in &world.seen {
                assert!(seen.failed.is_empty(), "{form:?}: {:?}", seen.failed);
                seen.messages.iter().for_each(|message| message.verify());
            }
            let grown = world.lanes[0].attr().receive_bytes - before;
            let said = options(form).receive_bytes(MANY as u32).expect("it has as many") - own;
            assert_eq!(grown, said, "{form:?}");
            assert!(grown > 0, "{form:?}");
        }
    }
}

/// A sender whose words for this receiver lie in an extent: it is asked after the death of another one, in the
/// midst of every step of that one's, and it is offered a ring.
#[test]
fn words_in_an_extent_are_read_and_written() {
    let _watchdog = Watchdog::start("queues", "words_in_an_extent_are_read_and_written");
    for form in [QueueForm::Scmp, QueueForm::ScmpRings, QueueForm::ScmpSeq] {
        let (mut settlements, mut promoted) = (0, 0);
        for at in 1..30 {
            let network = NetworkOptions {
                deaths: vec![Death { node: 2, when: Moment::Operation(at) }],
                detect_ns: 20_000,
                ..NetworkOptions::default()
            };
            let mut world = World::new(MANY + 3, &options(form), network);
            for idle in 3..MANY + 3 {
                world.connect(1, idle);
            }
            let (living, dying) = (world.connect(1, 0), world.connect(2, 0));
            assert!(living.0 as usize >= MANY, "its words are in an extent");
            let mut next = 0;
            for _ in 0..100_000 {
                if next < 200 && world.send(1, living, next).is_ok() {
                    next += 1;
                }
                if world.network.is_alive(2) {
                    let _ = world.send(2, dying, next);
                }
                world.round();
                let from_living = world.seen[0].messages.iter().filter(|one| one.id.get() == 1);
                if from_living.count() == 200 {
                    break;
                }
            }
            let from_living = world.seen[0].messages.iter().filter(|one| one.id.get() == 1);
            assert_eq!(from_living.count(), 200, "{form:?} at {at}");
            assert!(world.seen[1].failed.is_empty(), "{form:?} at {at}");
            settlements += world.lanes[0].stats().settlements;
            promoted += world.lanes[0].stats().promoted;
        }
        assert!(settlements > 0, "{form:?}: no death left anything to settle");
        assert!(promoted > 0 || form != QueueForm::ScmpRings, "nobody had a ring");
    }
}

/// There is memory for the queue, and for nothing more: those who come too late hear of it, and the others go on.
#[test]
fn no_memory_for_more_senders() {
    let _watchdog = Watchdog::start("queues", "no_memory_for_more_senders");
    for form in FORMS {
        let mut world = World::with_pieces(21, &options(form), NetworkOptions::default(), 1);
        let mut eps = vec![EpId(u32::MAX)];
        for from in 1..=20 {
            let ep = world.connect(from, 0);
            eps.push(ep);
            world.send(from, ep, 0).expect("it waits at its sender");
            world.until(&format!("{form:?}: a message or a refusal of {from}"), |world| {
                !world.seen[from].failed.is_empty() || world.seen[0].messages.len() == from
            });
        }
        for (from, seen) in world.seen.iter().enumerate().skip(1) {
            let refused: Vec<_> = seen.failed.iter().map(|failed| failed.2).collect();
            let want = if from <= 16 { &[][..] } else { &[PeerFailure::Refused] };
            assert_eq!(refused, want, "{form:?}: sender {from}");
        }
        for (from, &ep) in eps.iter().enumerate().take(17).skip(1) {
            world.send(from, ep, 1).expect("the others go on");
        }
        world.until("another message of each", |world| world.seen[0].messages.len() == 32);
    }
}
