//! A sender that dies at any step of any message leaves a queue that goes on: the messages of the
//! others are whole and in order, its own are a beginning of what it sent, and its end is reported
//! once, after them.
//!
//! The simulator kills the victim in place of its n-th operation, for every n, so that every step
//! of the protocol is met: taking a number, the introduction, the reservation, each put, the order,
//! the addition at the end, and the read of a full queue.

use std::collections::HashMap;

use super::bare::WithoutMessages;
use bowline_receive_queue::{QueueForm, QueueLane, QueueOptions};
use bowline_sim::{Death, Faults, Moment, Network, NetworkOptions};
use bowline_uct::conformance::Watchdog;
use bowline_uct::conformance::harness::{Random, Recorder, header_of, pattern};
use bowline_uct::{AmId, EpId, Iface, PostError, Source};

const SENDERS: usize = 3;
const VICTIM: usize = 2;

/// One run.
#[derive(Clone, Copy, Debug)]
struct Run {
    seed: u64,
    form: QueueForm,
    /// The operation of the victim at which it dies; 0 for none.
    at: u64,
    ordered: bool,
    /// Longest put, in bytes.
    puts: usize,
    /// Slots of half a queue.
    slots: u32,
    /// Messages of each sender before and after the death.
    messages: u64,
    /// Whether the receiver has connected to the senders by itself.
    connected: bool,
    /// Rings for those who send most, where there are such.
    rings: u32,
    /// Whether the senders send alternately, so that now one and now the other is hot.
    alternates: bool,
}

/// What came of it.
#[derive(Debug, Default)]
struct Outcome {
    settlements: u64,
    refused: u64,
    /// Operations that the victim has posted.
    victims: u64,
    reported: bool,
    promoted: u64,
    evictions: u64,
}

struct World {
    run: Run,
    network: Network,
    lanes: Vec<QueueLane>,
    seen: Vec<Recorder>,
    eps: Vec<EpId>,
    /// Messages that each sender has posted.
    posted: Vec<u64>,
    random: Random,
    rounds: usize,
}

/// The payload and header of message `number` of `sender`.
fn message(sender: usize, number: u64) -> ([u64; 3], Vec<u8>) {
    let seed = number ^ (sender as u64) << 48;
    let len = [0, 8, 24, 25, 90, 300][Random::new(seed).below(6)];
    (header_of(number, seed, len), pattern(seed, len))
}

impl World {
    fn new(run: Run) -> Self {
        let deaths =
            (run.at > 0).then_some(Death { node: VICTIM as u32, when: Moment::Operation(run.at) });
        let network = Network::new(NetworkOptions {
            seed: run.seed,
            jitter_ns: 3000,
            faults: Faults { reorder: 200_000, reorder_ns: 9000, ..Faults::default() },
            deaths: deaths.into_iter().collect(),
            detect_ns: 40_000,
            detect_jitter_ns: 40_000,
            puts_ordered: run.ordered,
            put_before_atomic: run.ordered,
            ..NetworkOptions::default()
        });
        let options = QueueOptions { form: run.form, slots: run.slots, peers: 8, rings: run.rings };
        let open = |number| {
            let bare = WithoutMessages::with_puts_of(network.open(), run.puts);
            QueueLane::open(Box::new(bare), &options, number).expect("it opens")
        };
        let mut lanes: Vec<QueueLane> = (0..=SENDERS as u64).map(open).collect();
        let receiver = lanes[0].address();
        let mut eps = vec![EpId(u32::MAX)];
        for sender in 1..=SENDERS {
            eps.push(lanes[sender].connect(&receiver).expect("reachable"));
            if run.connected {
                let address = lanes[sender].address();
                lanes[0].connect(&address).expect("reachable");
            }
        }
        let seen = (0..=SENDERS).map(|_| Recorder::default()).collect();
        let random = Random::new(run.seed ^ 77);
        Self { run, network, lanes, seen, eps, posted: vec![0; SENDERS + 1], random, rounds: 0 }
    }

    fn is_alive(&self, node: usize) -> bool {
        self.network.is_alive(node as u32)
    }

    /// Progress of everybody, in a random order, and then of the network.
    fn round(&mut self, until: u64) {
        self.rounds += 1;
        let active = self.rounds / 60 % SENDERS + 1;
        let first = self.random.below(SENDERS + 1);
        for place in 0..=SENDERS {
            let node = (first + place) % (SENDERS + 1);
            if !self.is_alive(node) {
                continue;
            }
            if node > 0 && (!self.run.alternates || node == active) {
                self.post(node, until);
            }
            self.lanes[node].progress(&mut self.seen[node], 5);
        }
        for _ in 0..=self.random.below(4) {
            self.network.advance();
        }
    }

    fn post(&mut self, sender: usize, until: u64) {
        for _ in 0..self.random.below(4) {
            let number = self.posted[sender];
            if number >= until {
                return;
            }
            let (header, payload) = message(sender, number);
            let (lane, ep) = (&mut self.lanes[sender], self.eps[sender]);
            let id = AmId::new(sender as u8);
            let result =
                lane.am_bcopy(ep, id, &header, payload.len(), &mut |space| space.copy_in(&payload));
            match result {
                Ok(_) => self.posted[sender] += 1,
                Err(PostError::NoResource) => return,
                Err(error) => {
                    assert!(!self.is_alive(sender), "{:?}: sender {sender}: {error}", self.run);
                    return;
                }
            }
        }
    }

    /// Messages received of each sender, by the handler that it sends to.
    fn counts(&self) -> [u64; SENDERS + 1] {
        let mut counts = [0; SENDERS + 1];
        for message in &self.seen[0].messages {
            counts[usize::from(message.id.get())] += 1;
        }
        counts
    }

    fn rounds_until(&mut self, until: u64, what: &str, done: impl Fn(&Self) -> bool) {
        for _ in 0..200_000 {
            self.round(until);
            if done(self) {
                return;
            }
        }
        let (run, counts) = (self.run, self.counts());
        panic!("{run:?}: {what} never happened; received {counts:?} of {:?}", self.posted);
    }

    fn survivors_are_through(&self, until: u64) -> bool {
        let counts = self.counts();
        (1..=SENDERS).filter(|&node| self.is_alive(node)).all(|node| counts[node] >= until)
    }
}

fn play(run: Run) -> Outcome {
    let mut world = World::new(run);
    let half = run.messages;
    world.rounds_until(half, "the first half", |w| w.survivors_are_through(half));
    // The end is reported where the receiver can know the victim.
    let known = |w: &World| run.connected || w.counts()[VICTIM] > 0;
    let reported = |w: &World| w.is_alive(VICTIM) || !known(w) || !w.seen[0].failed.is_empty();
    world.rounds_until(half, "the notice of the end", reported);
    world.rounds_until(2 * half, "the second half", |w| w.survivors_are_through(2 * half));
    world.rounds_until(2 * half, "the notice of the end", reported);
    for _ in 0..200 {
        world.round(2 * half);
    }
    // It may have died in these, by an operation that nothing waited for.
    world.rounds_until(2 * half, "the notice of the end", reported);
    let died = !world.is_alive(VICTIM);

    let mut streams: HashMap<u8, Vec<u64>> = HashMap::new();
    let mut sources: HashMap<Source, u8> = HashMap::new();
    for message in &world.seen[0].messages {
        message.verify();
        let sender = message.id.get();
        streams.entry(sender).or_default().push(message.header[0]);
        let known = *sources.entry(message.source).or_insert(sender);
        assert_eq!(known, sender, "{run:?}: one source for two senders");
    }
    for (sender, stream) in streams {
        // In order, without a gap: of the victim perhaps fewer than it posted.
        let all = 0..stream.len() as u64;
        assert!(stream.iter().copied().eq(all), "{run:?}: sender {sender}: {stream:?}");
        if usize::from(sender) != VICTIM || !died {
            assert_eq!(stream.len() as u64, 2 * half, "{run:?}: sender {sender}");
        }
    }
    let failed = &world.seen[0].failed;
    assert_eq!(failed.len(), usize::from(died && !failed.is_empty()), "{run:?}: {failed:?}");
    assert!(!died || !known(&world) || failed.len() == 1, "{run:?}: the end was not reported");
    for node in (1..=SENDERS).filter(|&node| node != VICTIM) {
        assert!(world.seen[node].failed.is_empty(), "{run:?}: {:?}", world.seen[node].failed);
    }
    let refused = world.lanes[1].stats().refused + world.lanes[3].stats().refused;
    let victim = world.lanes[VICTIM].stats();
    Outcome {
        settlements: world.lanes[0].stats().settlements,
        refused,
        victims: victim.reservations
            + victim.puts
            + victim.settled
            + victim.orders
            + victim.rereads,
        reported: !failed.is_empty(),
        promoted: world.lanes[0].stats().promoted,
        evictions: world.lanes[0].stats().evictions,
    }
}

/// Every operation of the victim, one after the other, until it does not die any more.
fn at_every_step(shape: Run) -> (u64, u64) {
    let (mut settlements, mut refused) = (0, 0);
    let operations = play(Run { at: 0, ..shape }).victims;
    for at in 1..operations + 20 {
        let outcome = play(Run { at, ..shape });
        settlements += outcome.settlements;
        refused += outcome.refused;
        assert!(!shape.connected || outcome.reported || at > operations, "{shape:?} at {at}");
    }
    (settlements, refused)
}

#[test]
fn dying_at_every_step_with_ordered_puts() {
    let _watchdog = Watchdog::start("queues", "dying_at_every_step_with_ordered_puts");
    ordered_puts(QueueForm::Scmp);
}

#[test]
fn dying_at_every_step_with_checksums() {
    let _watchdog = Watchdog::start("queues", "dying_at_every_step_with_checksums");
    ordered_puts(QueueForm::ScmpSeq);
}

#[test]
fn dying_at_every_step_with_checksums_and_puts_that_overtake() {
    let name = "dying_at_every_step_with_checksums_and_puts_that_overtake";
    let _watchdog = Watchdog::start("queues", name);
    overtaking_puts(QueueForm::ScmpSeq);
}

fn ordered_puts(form: QueueForm) {
    let mut all = (0, 0);
    for connected in [false, true] {
        let shape = Run {
            seed: 1,
            form,
            at: 0,
            ordered: true,
            puts: 64,
            slots: 16,
            messages: 12,
            connected,
            rings: 2,
            alternates: false,
        };
        let (settlements, refused) = at_every_step(shape);
        all = (all.0 + settlements, all.1 + refused);
    }
    assert!(all.0 > 20, "only {} deaths left anything to settle", all.0);
    assert!(all.1 > 0, "the queue was never full");
}

#[test]
fn dying_at_every_step_with_a_ring() {
    let _watchdog = Watchdog::start("queues", "dying_at_every_step_with_a_ring");
    for (connected, ordered) in [(false, true), (true, true), (false, false)] {
        let form = QueueForm::Ring;
        let shape = Run {
            seed: 5,
            form,
            at: 0,
            ordered,
            puts: 64,
            slots: 16,
            messages: 12,
            connected,
            rings: 2,
            alternates: false,
        };
        let (settlements, refused) = at_every_step(shape);
        assert_eq!(settlements, 0, "there is nothing to settle");
        assert!(refused > 0, "no ring was ever full");
    }
}

#[test]
fn dying_at_every_step_with_puts_that_overtake() {
    let _watchdog = Watchdog::start("queues", "dying_at_every_step_with_puts_that_overtake");
    overtaking_puts(QueueForm::Scmp);
}

fn overtaking_puts(form: QueueForm) {
    let shape = Run {
        seed: 2,
        form,
        at: 0,
        ordered: false,
        puts: 64,
        slots: 32,
        messages: 12,
        connected: false,
        rings: 2,
        alternates: false,
    };
    let (settlements, _) = at_every_step(shape);
    assert!(settlements > 10, "only {settlements} deaths left anything to settle");
}

/// The victim is offered a ring, changes to it, uses it, is asked to leave and leaves, and dies in each
/// of its operations; so do the others, who live.
#[test]
fn dying_at_every_step_of_promotion_and_eviction() {
    let name = "dying_at_every_step_of_promotion_and_eviction";
    let _watchdog = Watchdog::start("queues", name);
    for (ordered, alternates, rings, slots) in
        [(true, true, 1, 32), (false, true, 1, 64), (true, false, 2, 16)]
    {
        let shape = Run {
            seed: 7,
            form: QueueForm::ScmpRings,
            at: 0,
            ordered,
            puts: 64,
            slots,
            messages: 60,
            connected: ordered,
            rings,
            alternates,
        };
        let whole = play(shape);
        assert!(whole.promoted > 0, "{shape:?}: nobody was promoted");
        assert!(!alternates || whole.evictions > 0, "{shape:?}: nobody was evicted");
        at_every_step(shape);
    }
}

/// Random shapes and moments. `BOWLINE_QUEUE_SEED` repeats one, `BOWLINE_QUEUE_COUNT` runs more.
#[test]
fn dying_at_random() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let one = number("BOWLINE_QUEUE_SEED");
    let count = one.map_or(number("BOWLINE_QUEUE_COUNT").unwrap_or(250), |_| 1);
    let first = one.unwrap_or(1000);
    let _watchdog = (count <= 250).then(|| Watchdog::start("queues", "dying_at_random"));
    let mut settlements = 0;
    for seed in first..first + count {
        let mut random = Random::new(seed);
        let ordered = random.below(2) == 0;
        settlements += play(Run {
            seed,
            form: [
                QueueForm::Scmp,
                QueueForm::Ring,
                QueueForm::ScmpRings,
                QueueForm::ScmpRings,
                QueueForm::ScmpSeq,
                QueueForm::ScmpSeq,
            ][random.below(6)],
            at: random.below(140) as u64,
            ordered,
            puts: [64, 128, 4096][random.below(3)],
            slots: [16, 32, 128][random.below(3)],
            messages: 5 + random.below(25) as u64,
            connected: random.below(2) == 0,
            rings: 1 + random.below(3) as u32,
            alternates: random.below(2) == 0,
        })
        .settlements;
    }
    assert!(count < 100 || settlements > 10, "only {settlements} deaths to settle");
}
