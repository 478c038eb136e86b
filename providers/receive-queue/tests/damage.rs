//! A receive queue whose control word was overwritten is closed: its owner and every sender hear of
//! it, and nobody waits for ever.

use super::bare::WithoutMessages;
use super::bring_out;
use bowline_base::ring::promote::{SWITCH_ID, switch_header};
use bowline_base::scmp::{Message, counted};
use bowline_receive_queue::{QueueForm, QueueLane, QueueOptions};
use bowline_sim::{Network, NetworkOptions, SimIface};
use bowline_uct::conformance::Watchdog;
use bowline_uct::conformance::harness::{Recorder, header_of, pattern};
use bowline_uct::{
    AddrReader, AmId, AtomicOp, AtomicWidth, EpId, Iface, MemoryDomain as _, OneSided, PeerFailure,
    PostError, RemoteSlice, RkeyId, Token,
};

/// Where the queue's control word is in the lane's memory.
const WORD: u64 = 64;

/// What the address of a lane says: where its memory is, its key, the transport's address.
fn parts(address: &[u8]) -> (u64, Vec<u8>, Vec<u8>) {
    let mut r = AddrReader::new(address);
    let head = (r.u32(), r.u8(), r.u8(), r.u32(), r.u32(), r.u32());
    assert!(matches!(head, (Ok(_), Ok(4), Ok(1..=5), Ok(_), Ok(_), Ok(_))), "{head:?}");
    let (base, _) = (r.u64().expect("base"), r.u64().expect("nonce"));
    let key = r.bytes().expect("key").to_vec();
    (base, key, r.bytes().expect("inner").to_vec())
}

struct World {
    network: Network,
    lanes: Vec<QueueLane>,
    seen: Vec<Recorder>,
    ep: EpId,
}

impl Drop for World {
    fn drop(&mut self) {
        bring_out(&self.network, &mut self.lanes);
    }
}

impl World {
    /// A receiver and a sender that has sent it a message.
    fn new(form: QueueForm) -> Self {
        let network = Network::new(NetworkOptions::default());
        let options = QueueOptions { form, slots: 16, peers: 4, rings: 2 };
        let open = |number| {
            let bare = WithoutMessages::new(network.open());
            QueueLane::open(Box::new(bare), &options, number).expect("it opens")
        };
        let mut lanes: Vec<QueueLane> = (0..2).map(open).collect();
        let receiver = lanes[0].address();
        let ep = lanes[1].connect(&receiver).expect("reachable");
        let seen = vec![Recorder::default(), Recorder::default()];
        let mut world = Self { network, lanes, seen, ep };
        world.send(0).expect("there is space");
        world.until("the first message", |world| world.seen[0].messages.len() == 1);
        world
    }

    fn send(&mut self, number: u64) -> Result<(), PostError> {
        self.send_from(1, self.ep, number)
    }

    fn send_from(&mut self, sender: usize, ep: EpId, number: u64) -> Result<(), PostError> {
        let (header, payload) = (header_of(number, number, 8), pattern(number, 8));
        self.lanes[sender].am_short(ep, AmId::new(sender as u8), &header, &payload)
    }

    /// Another sender, which has a connection to the receiver.
    fn join(&mut self) -> (usize, EpId) {
        let options = QueueOptions { form: QueueForm::Ring, slots: 16, peers: 4, rings: 2 };
        let bare = WithoutMessages::new(self.network.open());
        let number = self.lanes.len();
        let mut lane = QueueLane::open(Box::new(bare), &options, number as u64).expect("it opens");
        let ep = lane.connect(&self.lanes[0].address()).expect("reachable");
        self.lanes.push(lane);
        self.seen.push(Recorder::default());
        (number, ep)
    }

    /// Messages that came from `sender`.
    fn count(&self, sender: usize) -> usize {
        self.seen[0].messages.iter().filter(|one| usize::from(one.id.get()) == sender).count()
    }

    fn round(&mut self) {
        for (lane, seen) in self.lanes.iter_mut().zip(&mut self.seen) {
            lane.progress(seen, 16);
        }
        self.network.advance();
    }

    fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        for _ in 0..100_000 {
            self.round();
            if done(self) {
                return;
            }
        }
        panic!("{what} never happened");
    }

    /// Somebody who has the key of the receiver's memory writes `word` over its control word.
    fn overwrite(&mut self, word: u64) {
        Vandal::new(self).atomic(WORD, AtomicOp::Swap(word));
    }
}

/// One who has the key of the receiver's memory, and means harm.
struct Vandal {
    network: Network,
    iface: SimIface,
    base: u64,
    ep: EpId,
    rkey: RkeyId,
}

impl Vandal {
    fn new(world: &World) -> Self {
        let (base, key, inner) = parts(&world.lanes[0].address());
        let mut iface = world.network.open();
        let ep = iface.connect(&inner).expect("reachable");
        let rkey = iface.rkey_unpack(ep, &key).expect("the key fits");
        Self { network: world.network.clone(), iface, base, ep, rkey }
    }

    /// Does something to the word at `at`; what it was. Nobody else makes progress meanwhile.
    fn atomic(&mut self, at: u64, op: AtomicOp) -> u64 {
        let at = RemoteSlice { address: self.base + at, rkey: self.rkey };
        let posted = self.iface.atomic(self.ep, op, AtomicWidth::W64, at, Token(1));
        assert_eq!(posted, Ok(None), "it is under way");
        let mut seen = Recorder::default();
        for _ in 0..10_000 {
            self.iface.progress(&mut seen, 4);
            self.network.advance();
            if let Some((_, result)) = seen.completed.first() {
                return result.expect("the word is there");
            }
        }
        panic!("the word was never written");
    }

    fn write(&mut self, at: u64, words: &[u64]) {
        for (place, &word) in words.iter().enumerate() {
            self.atomic(at + 8 * place as u64, AtomicOp::Swap(word));
        }
    }
}

/// Where slot `index` of the first half is.
fn slot(index: u64) -> u64 {
    let ticket = counted::ticket(1 << 32 | index, 1, 16).expect("it is within the half");
    counted::slot_byte(&ticket, 16) as u64
}

fn is_closed_by(form: QueueForm, word: u64) {
    let mut world = World::new(form);
    world.overwrite(word);
    let failed = |world: &World| world.seen.iter().all(|seen| !seen.failed.is_empty());
    for number in 1..100_000 {
        match world.send(number) {
            Ok(()) | Err(PostError::NoResource) => {}
            Err(error) => assert_eq!(error, PostError::PeerFailed),
        }
        world.round();
        if failed(&world) {
            break;
        }
    }
    for seen in &world.seen {
        assert_eq!(seen.failed.len(), 1, "{form:?} {word:x}: {:?}", seen.failed);
        let how = seen.failed[0].2;
        assert!(
            matches!(how, PeerFailure::Damaged | PeerFailure::Died | PeerFailure::Closed),
            "{form:?} {word:x}: {how:?}"
        );
    }
    for message in &world.seen[0].messages {
        message.verify();
    }
}

#[test]
fn a_generation_that_never_was() {
    let _watchdog = Watchdog::start("queues", "a_generation_that_never_was");
    for form in [QueueForm::Scmp, QueueForm::ScmpSeq] {
        is_closed_by(form, 77 << 32 | 3);
    }
}

#[test]
fn a_word_that_says_closed() {
    let _watchdog = Watchdog::start("queues", "a_word_that_says_closed");
    for form in [QueueForm::Scmp, QueueForm::ScmpSeq] {
        is_closed_by(form, 3 << 32 | 1 << 31);
    }
}

/// A ring's damage is its sender's alone.
#[test]
fn a_tail_that_cannot_be() {
    let _watchdog = Watchdog::start("queues", "a_tail_that_cannot_be");
    let mut world = World::new(QueueForm::Ring);
    let (other, ep) = world.join();
    world.send_from(other, ep, 0).expect("there is space");
    world.until("its first message", |world| world.count(other) == 1);
    world.overwrite(1 << 40);
    world.until("the end of the damaged one", |world| !world.seen[0].failed.is_empty());
    for number in 1..100 {
        while world.send_from(other, ep, number).is_err() {
            world.round();
        }
    }
    world.until("all of the other's messages", |world| world.count(other) == 100);
    assert_eq!((world.count(1), world.seen[0].failed.len()), (1, 1));
    assert_eq!(world.seen[0].failed[0].2, PeerFailure::Damaged);
    assert!(world.seen[other].failed.is_empty());
}

/// There are as many rings as the receiver wants: who comes later hears of it.
#[test]
fn a_sender_beyond_the_budget_is_refused() {
    let _watchdog = Watchdog::start("queues", "a_sender_beyond_the_budget_is_refused");
    let mut world = World::new(QueueForm::Ring);
    // The receiver has four.
    for _ in 0..4 {
        let (sender, ep) = world.join();
        world.send_from(sender, ep, 0).expect("it waits at its sender");
        world.until("a message or a refusal", |world| {
            world.count(sender) == 1 || !world.seen[sender].failed.is_empty()
        });
    }
    for sender in 1..=4 {
        assert_eq!((world.count(sender), world.seen[sender].failed.len()), (1, 0), "{sender}");
    }
    let (source, ep, how) = world.seen[5].failed[0];
    assert!(source.is_none() && ep.is_some());
    assert_eq!(how, PeerFailure::Refused);
    world.send(1).expect("the others go on");
    world.until("another message", |world| world.count(1) == 2);
}

/// The marker of a change to a ring, in another's name: nobody was offered that ring. The one named is
/// not believed any more, no ring is read, and the others go on.
#[test]
fn a_switch_that_nobody_was_asked_for() {
    let _watchdog = Watchdog::start("queues", "a_switch_that_nobody_was_asked_for");
    for ring in [0, 1, 7, u32::MAX] {
        let mut world = World::new(QueueForm::ScmpRings);
        let (other, ep) = world.join();
        world.send_from(other, ep, 0).expect("there is space");
        world.until("its first message", |world| world.count(other) == 1);
        let mut vandal = Vandal::new(&world);
        // The mark of the first message, which nobody has put over since: it was slot 0.
        let mark = vandal.atomic(slot(0) + 8, AtomicOp::Add(0)) >> 16;
        let old = vandal.atomic(WORD, AtomicOp::Add(1));
        let ticket = counted::ticket(old, 1, 16).expect("there is space");
        let header = switch_header(ring);
        let marker = Message { id: SWITCH_ID, flags: 0, header: &header, payload: &[] };
        let mut words = counted::image(&marker, 0, 0);
        words[1] |= mark << 16;
        vandal.write(counted::slot_byte(&ticket, 16) as u64, &words);
        vandal.atomic(counted::settled_byte(ticket.half()) as u64, AtomicOp::Add(1));
        world.until("the end of the one named", |world| !world.seen[0].failed.is_empty());
        assert_eq!(world.seen[0].failed[0].2, PeerFailure::Damaged, "ring {ring}");
        for number in 1..100 {
            while world.send_from(other, ep, number).is_err() {
                world.round();
            }
        }
        world.until("all of the other's messages", |world| world.count(other) == 100);
        assert_eq!((world.count(1), world.seen[0].failed.len()), (1, 1), "ring {ring}");
        assert!(world.seen[other].failed.is_empty());
        for message in &world.seen[0].messages {
            message.verify();
        }
    }
}

/// A checksummed message is changed before it is read: it is never handed out, its source is named, and the
/// others, who come behind it, go on.
#[test]
fn a_checksummed_slot_that_was_changed() {
    let _watchdog = Watchdog::start("queues", "a_checksummed_slot_that_was_changed");
    for word in 1..8 {
        let mut world = World::new(QueueForm::ScmpSeq);
        let (other, ep) = world.join();
        world.send(1).expect("there is space");
        // It lands while its receiver does not poll.
        for _ in 0..1000 {
            world.lanes[1].progress(&mut world.seen[1], 16);
            world.network.advance();
        }
        Vandal::new(&world).atomic(slot(1) + 8 * word, AtomicOp::Xor(1 << 40));
        world.send_from(other, ep, 0).expect("there is space");
        world.until("the end of the changed one", |world| !world.seen[0].failed.is_empty());
        assert_eq!(world.seen[0].failed[0].2, PeerFailure::Damaged, "word {word}");
        for number in 1..100 {
            while world.send_from(other, ep, number).is_err() {
                world.round();
            }
        }
        world.until("all of the other's messages", |world| world.count(other) == 100);
        assert_eq!((world.count(1), world.seen[0].failed.len()), (1, 1), "word {word}");
        assert!(world.seen[other].failed.is_empty());
        for message in &world.seen[0].messages {
            message.verify();
        }
    }
}

/// Slots that seem to be of a message under way, in a queue where nobody has: they are passed
/// over by the sender that reserves them, whatever was in them.
#[test]
fn slots_that_were_scribbled_over_before_their_use() {
    let name = "slots_that_were_scribbled_over_before_their_use";
    let _watchdog = Watchdog::start("queues", name);
    let mut world = World::new(QueueForm::ScmpSeq);
    let mut vandal = Vandal::new(&world);
    for index in 1..16 {
        // STARTs under the right tag: of sender 1, of numbers that nobody has, and too long.
        let source = [0, 3, 0xffff][index as usize % 3] << 48;
        let len = [0, 8, 0x7000][index as usize % 3] << 32;
        vandal.write(slot(index), &[source | len | 1, 1, 2, 3]);
    }
    for number in 1..100 {
        while world.send(number).is_err() {
            world.round();
        }
    }
    world.until("all messages", |world| world.count(1) == 100);
    assert!(world.seen[0].failed.is_empty() && world.seen[1].failed.is_empty());
    for message in &world.seen[0].messages {
        message.verify();
    }
}

/// A message that vanishes, or names a sender that there is not, and nobody has died: the queue is closed, and
/// everybody hears of it.
#[test]
fn a_checksummed_slot_that_vanished() {
    let _watchdog = Watchdog::start("queues", "a_checksummed_slot_that_vanished");
    for word in [0, 0xffff << 48 | 8 << 32 | 1, 3 << 48 | 8 << 32 | 1] {
        vanishes(word);
    }
}

fn vanishes(word: u64) {
    let mut world = World::new(QueueForm::ScmpSeq);
    world.send(1).expect("there is space");
    for _ in 0..1000 {
        world.lanes[1].progress(&mut world.seen[1], 16);
        world.network.advance();
    }
    Vandal::new(&world).write(slot(1), &[word]);
    world.until("the end, for the receiver", |world| !world.seen[0].failed.is_empty());
    assert_eq!((world.count(1), world.seen[0].failed.len()), (1, 1));
    // Its sender hears of it at the next message.
    world.send(2).expect("it waits at its sender");
    world.until("the end, for its sender", |world| !world.seen[1].failed.is_empty());
    assert_eq!(world.seen[1].failed[0].2, PeerFailure::Damaged);
    assert_eq!((world.count(1), world.send(3)), (1, Err(PostError::PeerFailed)));
}
