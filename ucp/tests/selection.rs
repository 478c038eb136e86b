//! Long messages choose how they travel by what the last ones took, in virtual time: two workers on a network whose costs
//! change while they are at it. The rules themselves are tested without workers in `src/select/tests.rs`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::scatter::{Unpack, UnpackRefused};
use bowline_sim::{Network, NetworkOptions};
use bowline_ucp::{
    AmMessage, Envelope, Ep, FailureSource, MatchSpec, MeansEstimate, MeansReason, MessageKind,
    OpError, RequestId, SendMode, Sent, StreamReceived, StreamWant, Worker, WorkerParts,
};

use bowline_uct::{Caps, IfaceAttr};

use crate::beside::by_hand;
use crate::doubles::{Altered, Never, config, joined, of_everybody, opened, parts, until};
use crate::rendezvous::ranks::Dead;

mod chosen;
mod windows;

/// The simulated network as a transport on which processors copy: its gets take a time of their own, which may change
/// while workers are at it. What it allocates is mapped by nobody, and no sender helps to copy.
fn copied(attr: &mut IfaceAttr) {
    attr.caps |= Caps::RKEY_PTR;
    attr.caps -= Caps::ATOMIC_CPU;
}

/// Rank 0, which sends long messages, and rank 1.
struct Pair {
    network: Network,
    workers: [Worker; 2],
    eps: [Ep; 2],
    /// What rank 1 receives, in order.
    received: Arc<Mutex<Vec<RequestId>>>,
    /// What rank 0 sends, for the whole life of the program.
    memory: Vec<*mut u8>,
    dead: Dead,
}

/// Picoseconds for a byte: through the network, and of a read. Processors that share a cache, and others.
const NEAR: (u64, u64) = (50, 150);
const FAR: (u64, u64) = (240, 140);

/// Picoseconds for a byte that is copied out of the memory in which a message has waited.
const COPY: u64 = 50;

/// A receive's memory into which copies take time while it is being posted.
struct CopiedOut(Network, Arc<AtomicBool>);

impl Unpack for CopiedOut {
    fn space(&self) -> usize {
        LEN
    }

    fn unpack(&mut self, _: usize, bytes: &[u8]) -> Result<(), UnpackRefused> {
        if self.1.load(Ordering::Relaxed) {
            self.0.pass_until(self.0.now() + bytes.len() as u64 * COPY / 1000);
        }
        Ok(())
    }
}

const ANY: MatchSpec = MatchSpec { space: 0, source: None, tag: 0, tag_mask: 0 };

impl Pair {
    fn new(costs: (u64, u64), select: &str) -> Self {
        Self::apart(50, costs, select)
    }

    /// With so many nanoseconds from one to the other.
    fn apart(latency_ns: u64, costs: (u64, u64), select: &str) -> Self {
        Self::with(latency_ns, costs, &[("BOWLINE_SELECT", select)])
    }

    /// With settings of the user's.
    fn with(latency_ns: u64, (byte_ps, read_ps): (u64, u64), set: &[(&str, &str)]) -> Self {
        let options = NetworkOptions {
            latency_ns,
            gap_ns: 5,
            byte_ps,
            read_ps: Some(read_ps),
            answers_queue: true,
            ..NetworkOptions::default()
        };
        let network = Network::new(options);
        let dead = Dead::default();
        let workers = [0, 1].map(|rank| Self::open(&network, rank, set, &dead));
        let eps = joined(&workers);
        let received = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&received);
        let handler = move |_: &Worker, message: AmMessage<'_>| {
            let buffer = RecvBuf::owned(vec![0; message.len() as usize]);
            log.lock().expect("one thread").push(message.recv(buffer).expect("its sender lives"));
        };
        workers[1].am_handler(1, Box::new(handler));
        let memory =
            (0..WINDOW).map(|_| Box::leak(vec![7; 200_000].into_boxed_slice()).as_mut_ptr());
        let memory = memory.collect();
        Self { network, workers, eps, received, memory, dead }
    }

    fn open(network: &Network, rank: u32, set: &[(&str, &str)], dead: &Dead) -> Worker {
        let settings = [set, &[("BOWLINE_EAGER_SHARE_FIRST", "64m")]].concat();
        let lane = Altered::new(network.open(), copied, |_| true);
        let parts = parts(rank, Box::new(lane), &config(&settings));
        let waiter = Box::new(Never(Some(network.clone())));
        let failures: Box<dyn FailureSource> = Box::new(dead.clone());
        opened(WorkerParts { waiter, failures: Some(failures), ..parts }, 0, of_everybody())
    }

    /// Another sender in place of the first one, which is returned.
    fn replace_sender(&mut self, rank: u32) -> Worker {
        let sender = Self::open(&self.network, rank, &[], &self.dead);
        let before = std::mem::replace(&mut self.workers[0], sender);
        self.eps = joined(&self.workers);
        before
    }

    fn set(&self, (byte_ps, read_ps): (u64, u64)) {
        self.network.set_byte_times(byte_ps, Some(read_ps));
    }

    /// Progress of both and time, until `done`.
    #[track_caller]
    fn until(&self, done: impl Fn() -> bool) {
        until(&self.network, &self.workers, done);
    }

    fn send(&self, rank: usize, kind: MessageKind, buffer: SendBuf) -> Option<RequestId> {
        let envelope = Envelope { space: 0, source: rank as u32, tag: 0 };
        let (worker, ep) = (&self.workers[rank], self.eps[rank]);
        let sent = match kind {
            MessageKind::Tagged | MessageKind::Unexpected => {
                worker.send(ep, envelope, buffer, SendMode::Standard)
            }
            MessageKind::Active => worker.am_send(ep, 1, &[], buffer),
            MessageKind::Stream => worker.stream_send(ep, buffer),
        };
        match sent {
            Ok(Sent::Done) => None,
            Ok(Sent::Pending(id)) => Some(id),
            Err(error) => panic!("{error}"),
        }
    }

    /// Has rank 1 receive a message; of active messages the handler does that. Whether it was whole at once.
    fn receive(&self, kind: MessageKind, len: usize) -> bool {
        let (worker, buffer) = (&self.workers[1], RecvBuf::owned(vec![0; len]));
        let request = match kind {
            MessageKind::Tagged | MessageKind::Unexpected => {
                worker.recv(ANY, buffer).expect("posted")
            }
            MessageKind::Active => return false,
            MessageKind::Stream => {
                match worker.stream_recv(self.eps[1], buffer, StreamWant::ALL).expect("posted") {
                    StreamReceived::Pending(id) => id,
                    StreamReceived::Done(got, _) => return got == len as u64,
                }
            }
        };
        self.received.lock().expect("one thread").push(request);
        false
    }

    /// Sends messages of these lengths, each of other memory, that begin with the numbers from `number` on, and checks what
    /// arrives, in order. `between`: after each message.
    fn transfer(&self, kind: MessageKind, number: u64, lens: &[usize], between: impl Fn(usize)) {
        lens.iter().for_each(|&len| assert!(!self.receive(kind, len), "nothing was sent"));
        let mut sent = Vec::new();
        for (nth, &len) in lens.iter().enumerate() {
            let memory = self.memory[nth];
            // SAFETY: the memory is nobody else's, long enough and never given back; the message before it was complete.
            let buffer = unsafe {
                memory.cast::<u64>().write_unaligned((number + nth as u64).to_le());
                SendBuf::borrowed(memory, len)
            };
            sent.extend(self.send(0, kind, buffer));
            between(nth);
        }
        let [sender, receiver] = &self.workers;
        let all = || self.received.lock().expect("one thread").clone();
        self.until(|| {
            all().len() == lens.len() && all().iter().all(|&id| receiver.is_complete(id))
        });
        self.until(|| sent.iter().all(|&id| sender.is_complete(id)));
        let received = std::mem::take(&mut *self.received.lock().expect("one thread"));
        for ((receive, len), number) in received.into_iter().zip(lens).zip(number..) {
            let (status, bytes) = receiver.take_with_buffer(receive).expect("complete");
            assert_eq!((status.outcome, status.length), (Ok(()), *len as u64));
            let bytes = bytes.expect("an own buffer");
            assert_eq!(
                bytes[..8],
                number.to_le_bytes(),
                "message {number} of {len} bytes, {kind:?}"
            );
        }
        sent.into_iter().for_each(|id| assert_eq!(sender.wait(id).outcome, Ok(())));
    }

    /// One message after the other from rank 0, each answered. Returns nanoseconds.
    fn singles(&self, kind: MessageKind, count: usize, len: usize) -> u64 {
        let begun = self.network.now();
        for _ in 0..count {
            self.transfer(kind, 7, &[len], |_| ());
            self.answer();
        }
        self.network.now() - begun
    }

    /// Rank 1 answers.
    fn answer(&self) {
        let answer = self.workers[0].recv(ANY, RecvBuf::owned(vec![0])).expect("posted");
        let sent = self.send(1, MessageKind::Tagged, SendBuf::owned(vec![1]));
        self.until(|| self.workers[0].is_complete(answer));
        assert!(sent.is_none(), "a short message is complete in its call");
        assert_eq!(self.workers[0].wait(answer).length, 1);
    }

    /// Has rank 1 receive a message of 64 KB into memory that takes time for what has waited.
    fn receive_copied(&self) -> RequestId {
        let posting = Arc::new(AtomicBool::new(true));
        let memory = CopiedOut(self.network.clone(), Arc::clone(&posting));
        let long = MatchSpec { tag_mask: u64::MAX, ..ANY };
        let buffer = RecvBuf::unpacked_by(Box::new(memory));
        let request = self.workers[1].recv(long, buffer).expect("posted");
        posting.store(false, Ordering::Relaxed);
        request
    }

    /// One message of 64 KB after the other, each answered, which are received as the bits of `late` say: before they are sent, or when a short one behind
    /// them has come. `copied`: what waits is copied, which takes time. Returns nanoseconds.
    fn mixed(&self, count: usize, copied: bool, late: impl Fn(usize) -> bool) -> u64 {
        let receiver = &self.workers[1];
        let begun = self.network.now();
        let short = MatchSpec { tag: 1, tag_mask: u64::MAX, ..ANY };
        for nth in 0..count {
            let behind = receiver.recv(short, RecvBuf::owned(vec![0])).expect("posted");
            let receive = || {
                if copied {
                    return self.receive_copied();
                }
                let long = MatchSpec { tag_mask: u64::MAX, ..ANY };
                receiver.recv(long, RecvBuf::owned(vec![0; LEN])).expect("posted")
            };
            let early = (!late(nth)).then(receive);
            // SAFETY: as in `transfer`.
            let buffer = unsafe { SendBuf::borrowed(self.memory[0], LEN) };
            let sent = self.send(0, MessageKind::Tagged, buffer);
            let envelope = Envelope { space: 0, source: 0, tag: 1 };
            let buffer = SendBuf::owned(vec![1]);
            let last = self.workers[0].send(self.eps[0], envelope, buffer, SendMode::Standard);
            self.until(|| receiver.is_complete(behind));
            assert_eq!(receiver.wait(behind).length, 1);
            let receive = early.unwrap_or_else(receive);
            self.until(|| receiver.is_complete(receive));
            assert_eq!(receiver.wait(receive).length, LEN as u64);
            self.until(|| sent.is_none_or(|id| self.workers[0].is_complete(id)));
            sent.into_iter().for_each(|id| assert_eq!(self.workers[0].wait(id).outcome, Ok(())));
            if let Ok(Sent::Pending(id)) = last {
                assert_eq!(self.workers[0].wait(id).outcome, Ok(()));
            }
            self.answer();
        }
        self.network.now() - begun
    }

    /// What rank 1 has measured of messages of 64 KB.
    fn estimates(&self, kind: MessageKind, window: bool, fresh: bool) -> Vec<MeansEstimate> {
        let all = self.workers[1].estimates(self.eps[1]).expect("an endpoint");
        let wanted = (kind, LEN as u64, window, fresh);
        all.into_iter().filter(|e| (e.kind, e.from, e.window, e.fresh) == wanted).collect()
    }

    /// Whether the means in use is one by which both sides copy: pieces, at once or when they are asked for, which cost the
    /// same here.
    fn copies(&self, kind: MessageKind, window: bool, fresh: bool) -> bool {
        match self.used(kind, window, fresh) {
            Some("eager/multi" | "rndv/copy") => true,
            Some("rndv/get") => false,
            other => panic!("{other:?} is in use"),
        }
    }

    fn used(&self, kind: MessageKind, window: bool, fresh: bool) -> Option<&'static str> {
        let estimates = self.estimates(kind, window, fresh);
        estimates.iter().find(|estimate| estimate.used).map(|estimate| estimate.protocol)
    }
}

const LEN: usize = 64 << 10;

const KINDS: [MessageKind; 3] = [MessageKind::Tagged, MessageKind::Active, MessageKind::Stream];

/// Messages of a window at most.
const WINDOW: usize = 40;

/// The processors are moved apart, together and apart again: some hundred messages later the others travel as is best there.
#[test]
fn the_choice_follows_the_costs() {
    for kind in KINDS {
        let pair = Pair::new(NEAR, "measured");
        pair.singles(kind, 600, LEN);
        for costs in [NEAR, FAR, NEAR, FAR] {
            pair.set(costs);
            pair.singles(kind, 500, LEN);
            assert_eq!(pair.copies(kind, false, false), costs == NEAR, "{kind:?}, {costs:?}");
            let before = pair.estimates(kind, false, false);
            pair.singles(kind, 200, LEN);
            for (after, before) in pair.estimates(kind, false, false).iter().zip(&before) {
                let came = after.count - before.count;
                assert!(
                    if after.used { came >= 180 } else { came <= 20 },
                    "{after:?}: {came} of 200"
                );
                assert!(if after.used { after.age < 20 } else { after.age < 700 }, "{after:?}");
            }
        }
    }
}

/// Rule 1 as a user sees it: beside the choice by known costs, where that is right, trials cost a fiftieth of the time and a
/// message, from the first message on; SELECT and what is sent before it arrives are in that.
#[test]
fn trials_cost_a_fiftieth_of_the_traffic() {
    for (kind, costs) in [75, 500, 4000]
        .map(|byte| (byte, 50))
        .into_iter()
        .flat_map(|costs| KINDS.map(|kind| (kind, costs)))
    {
        let (measured, known) = (Pair::new(costs, "measured"), Pair::new(costs, "static"));
        let (mut took, mut least) = (0, 0);
        for _ in 0..200 {
            took += measured.singles(kind, 5, LEN);
            least += known.singles(kind, 5, LEN);
            let dearest = costs.0 * LEN as u64 / 1000 + 500;
            assert!(
                took <= least + took / 50 + dearest,
                "{kind:?}, {costs:?}: {took} ns in place of {least}"
            );
        }
        assert_eq!(known.workers[0].counters().sent_rndv, 1000, "known costs choose to offer");
        assert_eq!(measured.used(kind, false, false), Some("rndv/get"));
        let estimates = measured.estimates(kind, false, false);
        let tried = estimates.iter().any(|e| !e.used && e.count > 0);
        assert!(tried, "{costs:?}: nothing was tried");
        let all = known.workers[1].estimates(known.eps[1]).expect("an endpoint");
        assert!(all.is_empty(), "static measures nothing");
    }
}

/// The same with receives that are posted late, always, in turns of 40 messages, or as it happens.
#[test]
fn trials_cost_a_fiftieth_of_the_traffic_where_receives_are_late() {
    let patterns: [fn(usize) -> bool; 4] =
        [|_| true, |nth| nth / 40 % 2 == 0, |nth| nth % 3 > 0, |nth| nth * 7919 % 13 < 6];
    let scenes = [((75, 50), false), ((500, 50), false), ((4000, 50), false), ((75, 50), true)];
    for (costs, copied) in scenes {
        for (nth, late) in patterns.into_iter().enumerate() {
            let (measured, known) = (Pair::new(costs, "measured"), Pair::new(costs, "static"));
            let (mut took, mut least) = (0, 0);
            for round in 0..200 {
                took += measured.mixed(5, copied, |message| late(5 * round + message));
                least += known.mixed(5, copied, |message| late(5 * round + message));
                // One message of a trial for each of the two kinds.
                let copy = if copied { COPY } else { 0 };
                let dearest = 2 * ((costs.0 + copy) * LEN as u64 / 1000 + 500);
                assert!(
                    took <= least + took / 50 + dearest,
                    "{costs:?}, pattern {nth}, round {round}: {took} ns in place of {least}"
                );
            }
            assert_eq!(known.workers[0].counters().sent_rndv, 1000, "known costs choose to offer");
            let all = measured.estimates(MessageKind::Unexpected, false, false);
            assert!(all.iter().any(|e| e.count > 300), "{all:?}");
        }
    }
}

/// What waits is copied once more if it has come in pieces: a program whose receives come late has its messages offered, one whose receives are early
/// has them in pieces, and one that changes is followed at once, when both are known.
#[test]
fn early_and_late_receives_have_each_their_own_choice() {
    // Fragments have to be asked for, which takes a fourth of their time here.
    let pair = Pair::apart(500, NEAR, "measured");
    let offered = || pair.workers[0].counters().sent_rndv;
    let in_pieces = |late: bool| {
        let before = offered();
        pair.mixed(100, true, |_| late);
        100 - (offered() - before)
    };
    for late in [false, true] {
        pair.mixed(600, true, |_| late);
    }
    for round in 0..4 {
        for late in [false, true] {
            pair.mixed(20, true, |_| late);
            let in_pieces = in_pieces(late);
            assert!(
                if late { in_pieces <= 10 } else { in_pieces >= 90 },
                "round {round}, late {late}: {in_pieces} of 100 came in pieces: {:#?}",
                pair.workers[1].estimates(pair.eps[1])
            );
        }
    }
    let used = |kind| pair.used(kind, false, false);
    assert_eq!(used(MessageKind::Unexpected), Some("rndv/copy"));
    assert_eq!(used(MessageKind::Tagged), Some("eager/multi"));
}

/// Where known costs are wrong, it takes 200 messages to find that out.
#[test]
fn a_better_means_is_found_within_two_hundred_messages() {
    let pair = Pair::new(NEAR, "measured");
    pair.singles(MessageKind::Tagged, 210, LEN);
    assert!(pair.copies(MessageKind::Tagged, false, false));
}

/// A new peer at a distance that another one has had, and one that is moved back to where it was: what was found there is tried at
/// once, in place of after a hundred messages and more.
#[test]
fn what_was_found_at_a_distance_serves_there_again() {
    for kind in KINDS {
        let mut pair = Pair::new(NEAR, "measured");
        pair.singles(kind, 400, LEN);
        assert!(pair.copies(kind, false, false), "{kind:?}");
        let first = pair.replace_sender(2);
        pair.singles(kind, 30, LEN);
        assert!(pair.copies(kind, false, false), "{kind:?}: 30 messages of another sender");
        for costs in [FAR, NEAR] {
            pair.set(costs);
            pair.singles(kind, 500, LEN);
        }
        pair.set(FAR);
        pair.singles(kind, 75, LEN);
        assert!(!pair.copies(kind, false, false), "{kind:?}: 75 messages, back where it was");
        drop(first);
    }
}

/// A receiver that something moves on while its rank computes needs nobody else: fragments, which are cheaper here, are not tried.
#[test]
fn who_has_a_helper_reads_what_is_offered() {
    for helped in [false, true] {
        let pair = Pair::new(NEAR, "measured");
        let door = helped.then(|| by_hand(&pair.workers[1]));
        pair.singles(MessageKind::Tagged, 400, 190_000);
        let copied = pair.workers[1].counters().copied;
        assert_eq!(copied > 0, !helped, "{copied} of 400 came in fragments");
        drop(door);
    }
}

/// Messages that known costs always offer: they are read or sent in fragments, by what is measured to be cheaper.
#[test]
fn offered_messages_come_as_is_cheaper() {
    const LONG: usize = 190_000;
    let used = |pair: &Pair, kind| {
        let all = pair.workers[1].estimates(pair.eps[1]).expect("an endpoint");
        let wanted = (kind, 128 << 10, false, false);
        let mut all = all.into_iter().filter(|e| (e.kind, e.from, e.window, e.fresh) == wanted);
        all.find(|estimate| estimate.used).map(|estimate| estimate.protocol)
    };
    for (costs, best) in [(NEAR, "rndv/copy"), (FAR, "rndv/get")] {
        let pair = Pair::new(costs, "measured");
        for kind in [MessageKind::Tagged, MessageKind::Active] {
            pair.singles(kind, 400, LONG);
            assert_eq!(used(&pair, kind), Some(best), "{kind:?}, {costs:?}");
        }
        assert_eq!(pair.workers[0].counters().sent_rndv, 800, "{costs:?}");
    }
}

/// Memory with a key is what known costs say, and what its messages take is no measure of others.
#[test]
fn memory_with_a_key_is_not_measured() {
    let mut pair = Pair::new(NEAR, "measured");
    let tagged = MessageKind::Tagged;
    pair.singles(tagged, 400, LEN);
    assert!(pair.copies(tagged, false, false));
    let offered = |pair: &Pair| pair.workers[0].counters().sent_rndv;
    let read = |pair: &Pair| offered(pair) - pair.workers[1].counters().copied;
    let (plain, before) = (pair.memory[0], read(&pair));
    pair.singles(tagged, 100, LEN);
    assert!(read(&pair) < before + 10, "copies are quicker, but for trials");
    let memory = pair.workers[0].mem_alloc(LEN).expect("the network has memory");
    pair.memory[0] = pair.workers[0].mem_view(memory, |view| view.as_ptr()).expect("it is there");
    let (all, before, known) = (offered(&pair), read(&pair), pair.estimates(tagged, false, false));
    pair.singles(tagged, 100, LEN);
    assert_eq!(offered(&pair), all + 100, "known costs offer messages of this length");
    assert_eq!(read(&pair), before + 100, "fragments are for other memory");
    assert_eq!(pair.estimates(tagged, false, false), known, "they were measured");
    pair.memory[0] = plain;
    pair.singles(tagged, 100, LEN);
    assert!(read(&pair) < before + 110, "the others come as before");
}

/// Messages of memory that was used before and of other memory, in turn: of each it is known what it takes.
#[test]
fn fresh_memory_is_kept_apart() {
    let mut pair = Pair::new(FAR, "measured");
    let tagged = MessageKind::Tagged;
    for _ in 0..300 {
        // As if what is in no cache were dearer to copy twice. All nine memories are fresh, and the last one is used once more.
        pair.set(FAR);
        pair.transfer(tagged, 0, &[LEN; 8], |_| pair.answer());
        pair.memory.swap(0, 8);
        pair.singles(tagged, 1, LEN);
        pair.set(NEAR);
        pair.singles(tagged, 1, LEN);
        pair.memory.swap(0, 8);
    }
    assert!(pair.copies(tagged, false, false));
    assert!(!pair.copies(tagged, false, true));
}

/// Windows of messages of all lengths, the tagged ones with the same tag, while what is best changes again and again: each receive gets the
/// message that was sent in its place, and the choice does change.
#[test]
fn no_message_is_out_of_order_while_ways_change() {
    for kind in KINDS {
        let pair = Pair::new(NEAR, "measured");
        let (mut number, mut changes, mut before) = (0, 0, None);
        for round in 0..200 {
            pair.set(if round / 25 % 2 == 0 { NEAR } else { FAR });
            let odd = |nth: usize| [8, 300, 9000, 200_000][nth / 8 % 4];
            let lens = (0..WINDOW).map(|nth| if nth % 8 == 7 { odd(nth) } else { LEN });
            let lens: Vec<usize> = lens.collect();
            pair.transfer(kind, number, &lens, |nth| {
                if nth % 3 == 0 {
                    // The choice may change between the messages of a window.
                    pair.workers[1].progress();
                    pair.network.advance();
                }
            });
            number += lens.len() as u64;
            let used = pair.used(kind, true, true);
            changes += u32::from(used != before && before.is_some());
            before = used.or(before);
        }
        assert!(changes >= 2, "{kind:?}: the choice has changed {changes} times");
        let rndv = pair.workers[0].counters().sent_rndv;
        assert!((1000..7000).contains(&rndv), "{kind:?}: {rndv} of 8000 were offered");
    }
}

/// One of the two dies while messages of a trial are under way, at each moment of one: what the other waits for ends, whole or with
/// the death, and its estimates are there yet.
#[test]
fn a_death_among_trials_ends_what_waits() {
    let tagged = MessageKind::Tagged;
    let (mut whole, mut dead) = (0, 0);
    for (victim, steps) in [0, 1].into_iter().flat_map(|rank| (0..14).map(move |n| (rank, n))) {
        let pair = Pair::new(NEAR, "measured");
        let on_trial = || {
            let all = pair.estimates(tagged, false, false);
            all.iter().any(|estimate| estimate.reason == MeansReason::OnTrial)
        };
        while !on_trial() {
            pair.singles(tagged, 1, LEN);
        }
        assert!(!pair.receive(tagged, LEN));
        let receive = pair.received.lock().expect("one thread")[0];
        // SAFETY: as in `transfer`; the memory is never given back.
        let buffer = unsafe { SendBuf::borrowed(pair.memory[0], LEN) };
        let send = pair.send(0, tagged, buffer);
        for _ in 0..steps {
            for worker in &pair.workers {
                worker.progress();
            }
            pair.network.advance();
        }
        pair.network.kill(victim);
        pair.dead.report(victim);
        let survivor = &pair.workers[1 - victim as usize];
        let waits = if victim == 0 { Some(receive) } else { send };
        for round in 0.. {
            assert!(round < 100_000, "rank {victim} died after {steps} steps, and the other waits");
            if waits.is_none_or(|id| survivor.is_complete(id)) {
                break;
            }
            survivor.progress();
            pair.network.advance();
        }
        match waits.map_or(Ok(()), |id| survivor.wait(id).outcome) {
            Ok(()) => whole += 1,
            Err(OpError::PeerFailed(_) | OpError::MemberFailed { .. }) => dead += 1,
            Err(error) => panic!("rank {victim} died after {steps} steps: {error}"),
        }
        if victim == 0 {
            let known = survivor.estimates(pair.eps[1]).expect("a failed peer keeps its place");
            assert!(!known.is_empty(), "what was measured has gone");
        }
        // The dead make no calls, not even their last.
        let Pair { workers: [first, second], .. } = pair;
        std::mem::forget(if victim == 0 { first } else { second });
    }
    assert!(whole > 0 && dead > 5, "{whole} were whole, {dead} ended with the death");
}
