//! Those who send most get rings of a bounded number: soon, without a message out of order, and they
//! give them up to others.

use super::bare::WithoutMessages;
use super::bring_out;
use bowline_receive_queue::{QueueForm, QueueLane, QueueOptions};
use bowline_self::{SelfConfig, SelfIface};
use bowline_sim::{Faults, Network, NetworkOptions};
use bowline_uct::conformance::Watchdog;
use bowline_uct::conformance::harness::{Random, Recorder, header_of, pattern};
use bowline_uct::{AmId, EpId, Iface, PostError};

struct World {
    network: Network,
    /// The receiver first.
    lanes: Vec<QueueLane>,
    seen: Vec<Recorder>,
    eps: Vec<EpId>,
    posted: Vec<u64>,
}

impl Drop for World {
    fn drop(&mut self) {
        bring_out(&self.network, &mut self.lanes);
    }
}

impl World {
    fn new(senders: usize, rings: u32, slots: u32, network: NetworkOptions) -> Self {
        let network = Network::new(network);
        let options =
            QueueOptions { form: QueueForm::ScmpRings, slots, peers: senders as u32 + 2, rings };
        let open = |number| {
            let bare = WithoutMessages::new(network.open());
            QueueLane::open(Box::new(bare), &options, number).expect("it opens")
        };
        let mut lanes: Vec<QueueLane> = (0..=senders as u64).map(open).collect();
        let receiver = lanes[0].address();
        let mut eps = vec![EpId(u32::MAX)];
        eps.extend(lanes[1..].iter_mut().map(|lane| lane.connect(&receiver).expect("reachable")));
        let seen = (0..=senders).map(|_| Recorder::default()).collect();
        Self { network, lanes, seen, eps, posted: vec![0; senders + 1] }
    }

    /// Whether it was taken.
    fn post(&mut self, sender: usize, len: usize) -> bool {
        let number = self.posted[sender];
        let seed = number ^ (sender as u64) << 48;
        let (header, payload) = (header_of(number, seed, len), pattern(seed, len));
        let lane = &mut self.lanes[sender];
        let id = AmId::new(sender as u8);
        let mut pack = |space: bowline_base::view::View<'_>| space.copy_in(&payload);
        match lane.am_bcopy(self.eps[sender], id, &header, len, &mut pack) {
            Ok(_) => self.posted[sender] += 1,
            Err(PostError::NoResource) => return false,
            Err(error) => panic!("sender {sender}: {error}"),
        }
        true
    }

    fn round(&mut self) {
        for (lane, seen) in self.lanes.iter_mut().zip(&mut self.seen) {
            lane.progress(seen, 7);
        }
        self.network.advance();
    }

    fn received(&self) -> u64 {
        self.seen[0].messages.len() as u64
    }

    /// Until everything is there; then, that it came whole and in order.
    fn finish(&mut self, what: &str) {
        let all: u64 = self.posted.iter().sum();
        for _ in 0..2_000_000 {
            if self.received() == all {
                break;
            }
            self.round();
        }
        let mut next = vec![0; self.posted.len()];
        for message in &self.seen[0].messages {
            message.verify();
            let sender = usize::from(message.id.get());
            assert_eq!(message.header[0], next[sender], "{what}: sender {sender}");
            next[sender] += 1;
        }
        assert_eq!(next, self.posted, "{what}");
        assert_eq!(self.lanes[0].stats().unknown_senders, 0, "{what}");
    }
}

#[test]
fn a_hot_sender_has_a_ring_within_its_first_64_messages() {
    for (one_by_one, ordered) in [(true, true), (false, true), (true, false), (false, false)] {
        let network = NetworkOptions {
            put_before_atomic: ordered,
            puts_ordered: ordered,
            ..NetworkOptions::default()
        };
        let mut world = World::new(1, 2, 64, network);
        for _ in 0..200 {
            while !world.post(1, 8) {
                world.round();
            }
            while one_by_one && world.received() < world.posted[1] {
                world.round();
            }
        }
        world.finish("one sender");
        let stats = world.lanes[0].stats();
        let by_queue = stats.received - stats.promoted;
        assert!(by_queue <= 64, "{by_queue} messages by the queue, one by one: {one_by_one}");
        assert_eq!((stats.offers, stats.evictions), (1, 0));
    }
}

/// Endpoints of one interface to itself are several senders behind one link of their receiver.
#[test]
fn a_second_endpoint_to_itself_leaves_the_ring_of_the_first() {
    let inner = SelfIface::open(SelfConfig::default()).expect("it opens");
    let options = QueueOptions { form: QueueForm::ScmpRings, slots: 64, peers: 8, rings: 2 };
    let mut lane = super::lane(inner, &options, 0);
    let own = lane.address();
    let eps = [0; 3].map(|_| lane.connect(&own).expect("it reaches itself"));
    let mut seen = Recorder::default();
    let mut posted = [0_u64; 3];
    for round in 0..300 {
        // A new endpoint sends its first message when those before it have rings.
        for (place, &ep) in eps.iter().enumerate().take(1 + round / 100) {
            let header = [posted[place], 0, 0];
            lane.am_short(ep, AmId::new(place as u8), &header, &[]).expect("there is space");
            posted[place] += 1;
        }
        for _ in 0..20 {
            lane.progress(&mut seen, 8);
        }
    }
    assert!(lane.stats().offers >= 2, "senders had rings when another came: {:?}", lane.stats());
    let mut next = [0; 3];
    for message in &seen.messages {
        let place = usize::from(message.id.get());
        assert_eq!(message.header[0], next[place], "endpoint {place}");
        next[place] += 1;
    }
    assert_eq!(next, posted);
}

#[test]
fn a_message_by_a_ring_takes_two_operations() {
    let mut world = World::new(1, 1, 64, NetworkOptions::default());
    for round in 0..100 {
        let before = *world.lanes[1].stats();
        assert!(world.post(1, 8));
        while world.received() < world.posted[1] {
            world.round();
        }
        if round > 64 {
            let after = world.lanes[1].stats();
            assert_eq!(after.reservations, before.reservations, "nothing is reserved");
            assert_eq!((after.puts - before.puts, after.settled - before.settled), (1, 1));
        }
    }
}

/// More hot senders than rings, now one and now the other, over networks of all kinds.
/// `BOWLINE_QUEUE_SEED` repeats one run, `BOWLINE_QUEUE_COUNT` runs more.
#[test]
fn rings_go_round_and_order_stays() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let one = number("BOWLINE_QUEUE_SEED");
    let count = one.map_or(number("BOWLINE_QUEUE_COUNT").unwrap_or(60), |_| 1);
    let first = one.unwrap_or(1);
    let _watchdog = (count <= 60).then(|| Watchdog::start("queues", "rings_go_round"));
    let (mut promoted, mut evictions) = (0, 0);
    for seed in first..first + count {
        let mut random = Random::new(seed);
        let senders = 2 + random.below(5);
        let ordered = random.below(2) == 0;
        let network = NetworkOptions {
            seed,
            jitter_ns: 3000,
            faults: Faults { reorder: 200_000, reorder_ns: 9000, ..Faults::default() },
            puts_ordered: ordered,
            put_before_atomic: ordered,
            ..NetworkOptions::default()
        };
        let rings = 1 + random.below(3) as u32;
        let mut world = World::new(senders, rings, [16, 64][random.below(2)], network);
        for _ in 0..12 {
            // One of them, or all, for a while.
            let hot = random.below(senders + 1);
            for _ in 0..random.below(120) {
                for sender in 1..=senders {
                    let much = hot == 0 || hot == sender;
                    for _ in 0..if much { random.below(4) } else { 0 } {
                        let len = [0, 8, 24, 25, 90, 300][random.below(6)];
                        if !world.post(sender, len) {
                            break;
                        }
                    }
                }
                world.round();
            }
        }
        world.finish(&format!("seed {seed}"));
        promoted += world.lanes[0].stats().promoted;
        evictions += world.lanes[0].stats().evictions;
    }
    assert!(count < 20 || promoted > 1000 && evictions > 20, "{promoted} {evictions}");
}

/// One that is left in the midst of a reservation by its own user, or by the receiver's, and then
/// dies, stops nobody.
#[test]
fn an_endpoint_that_is_ended_with_a_reservation_stops_nobody() {
    let _watchdog = Watchdog::start("queues", "an_endpoint_that_is_ended");
    for form in [QueueForm::Scmp, QueueForm::ScmpRings] {
        for (steps, by_receiver) in (0..12).flat_map(|steps| [(steps, false), (steps, true)]) {
            let mut world = World::new(2, 1, 16, NetworkOptions::default());
            let what = format!("{form:?}, {steps} steps, by the receiver: {by_receiver}");
            if form != QueueForm::ScmpRings {
                let options = QueueOptions { form, slots: 16, peers: 4, rings: 0 };
                world.network = Network::new(NetworkOptions::default());
                let open = |number| {
                    let bare = WithoutMessages::new(world.network.open());
                    QueueLane::open(Box::new(bare), &options, number).expect("it opens")
                };
                world.lanes = (0..3).map(open).collect();
                let to = world.lanes[0].address();
                for sender in 1..=2 {
                    world.eps[sender] = world.lanes[sender].connect(&to).expect("reachable");
                }
            }
            // Both are known.
            assert!(world.post(1, 8) && world.post(2, 8));
            while world.received() < 2 {
                world.round();
            }
            for _ in 0..50 {
                world.round();
            }
            assert!(world.post(1, 90));
            for _ in 0..steps {
                world.lanes[1].progress(&mut world.seen[1], 7);
                world.network.advance();
            }
            if by_receiver {
                let address = world.lanes[1].address();
                let ep = world.lanes[0].connect(&address).expect("reachable");
                world.lanes[0].invalidate(ep);
                for _ in 0..50 {
                    world.lanes[0].progress(&mut world.seen[0], 7);
                    world.network.advance();
                }
                world.network.kill(1);
            } else {
                world.lanes[1].invalidate(world.eps[1]);
            }
            for _ in 0..40 {
                if world.post(2, 90) {
                    for _ in 0..20 {
                        world.lanes[0].progress(&mut world.seen[0], 7);
                        world.lanes[2].progress(&mut world.seen[2], 7);
                        if !by_receiver {
                            world.lanes[1].progress(&mut world.seen[1], 7);
                        }
                        world.network.advance();
                    }
                }
            }
            let mut rounds = 0;
            let from_2 = |world: &World| {
                world.seen[0].messages.iter().filter(|one| one.id.get() == 2).count() as u64
            };
            while from_2(&world) < world.posted[2] {
                rounds += 1;
                assert!(rounds < 20_000, "{what}: {} of {}", from_2(&world), world.posted[2]);
                world.lanes[0].progress(&mut world.seen[0], 7);
                world.lanes[2].progress(&mut world.seen[2], 7);
                if !by_receiver {
                    world.lanes[1].progress(&mut world.seen[1], 7);
                }
                world.network.advance();
            }
            assert!(world.posted[2] > 20, "{what}");
        }
    }
}
