//! Random programs of clients that come, send, are answered, close, are closed and die, against what
//! must come out: what the server gets under an endpoint is what one client has sent, in order, and what
//! a client gets was meant for it.

use std::collections::HashMap;

use bowline_base::buffer::SendBuf;
use bowline_sim::{Faults, NetworkOptions};
use bowline_ucp::{CloseMode, Envelope, Ep, MatchSpec, RequestId, SendMode, Sent};
use proptest::prelude::*;

use super::{Client, PLACES, Site};

/// Clients at once.
const SLOTS: usize = 3;

/// A step. The first number is a slot, where it has one.
#[derive(Clone, Debug)]
enum Do {
    /// A client of the server's job, or of another, if nobody has the slot.
    Arrive(usize, bool),
    Send(usize, usize),
    Am(usize, usize),
    /// The server sends to the endpoint of the client that has, or last had, the slot.
    Answer(usize, usize),
    /// It receives what has come, up to so many messages.
    Receive(usize),
    Close(usize, bool),
    CloseThere(usize, bool),
    Kill(usize),
    /// Its worker is dropped.
    Drop(usize),
    Steps(u8),
}

fn programs() -> impl Strategy<Value = Vec<Do>> {
    let slot = || 0..SLOTS;
    let len = || prop_oneof![3 => 0..40_usize, 2 => 100..9000_usize, 1 => 20_000..100_000_usize];
    let one = prop_oneof![
        6 => (slot(), prop::bool::weighted(0.1)).prop_map(|(s, own)| Do::Arrive(s, own)),
        4 => (slot(), len()).prop_map(|(s, n)| Do::Send(s, n)),
        4 => (slot(), len()).prop_map(|(s, n)| Do::Am(s, n)),
        3 => (slot(), len()).prop_map(|(s, n)| Do::Answer(s, n)),
        2 => (0..4_usize).prop_map(Do::Receive),
        2 => (slot(), any::<bool>()).prop_map(|(s, f)| Do::Close(s, f)),
        2 => (slot(), any::<bool>()).prop_map(|(s, f)| Do::CloseThere(s, f)),
        1 => slot().prop_map(Do::Kill),
        2 => slot().prop_map(Do::Drop),
        6 => (1..60_u8).prop_map(Do::Steps),
    ];
    proptest::collection::vec(one, 100..700)
}

/// A client as the oracle knows it.
#[derive(Default)]
struct Known {
    /// The server's endpoint of it, once it has heard of it.
    ep: Option<Ep>,
    sent: u64,
    ams: u32,
    /// How many of its messages the server has received, by either kind of handler.
    got: u64,
    got_ams: u32,
    /// Messages that were sent to it, and received there.
    answers: u64,
    heard: u64,
    /// It has closed without force, and everything that it sent has to arrive.
    in_order: bool,
    /// It was killed, dropped or closed by somebody with force: what it sent may be lost.
    cut: bool,
}

struct Program {
    site: Site,
    slots: Vec<Option<Client>>,
    /// Who had the slot last.
    last: [Option<u32>; SLOTS],
    known: Vec<Known>,
    by_ep: HashMap<Ep, u32>,
    seen: usize,
    /// Of clients: receives that wait for an answer.
    waiting: Vec<Option<RequestId>>,
    /// Of the server.
    receives: Vec<RequestId>,
    /// Sends of anybody, with the slot of a client.
    sends: Vec<(Option<usize>, RequestId)>,
}

const CAPACITY: usize = 100_000;

fn content(client: u32, number: u64, len: usize) -> Vec<u8> {
    let seed = u64::from(client) * 1009 + number;
    (0..len as u64).map(|at| (at.wrapping_mul(31) ^ seed) as u8).collect()
}

impl Program {
    fn new(options: NetworkOptions, settings: &[(&str, &str)]) -> Self {
        Self {
            site: Site::new(options, settings),
            slots: (0..SLOTS).map(|_| None).collect(),
            last: [None; SLOTS],
            known: Vec::new(),
            by_ep: HashMap::new(),
            seen: 0,
            waiting: vec![None; SLOTS],
            receives: Vec::new(),
            sends: Vec::new(),
        }
    }

    fn note(&mut self, slot: Option<usize>, sent: Result<Sent, bowline_ucp::OpError>) -> bool {
        if let Ok(Sent::Pending(id)) = sent {
            self.sends.push((slot, id));
        }
        sent.is_ok()
    }

    fn act(&mut self, step: &Do) {
        match *step {
            Do::Arrive(slot, own) if self.slots[slot].is_none() => {
                let number = self.known.len() as u32;
                let job = if own { 1 } else { u64::from(number) + 100 };
                let client = self.site.arrive_in(job, number);
                self.waiting[slot] = Some(super::receive(&client.worker, None, CAPACITY));
                self.slots[slot] = Some(client);
                self.last[slot] = Some(number);
                self.known.push(Known::default());
            }
            Do::Send(slot, len) => {
                let Some(client) = &self.slots[slot] else { return };
                let number = client.number;
                let known = &self.known[number as usize];
                let sent = client.send(known.sent, content(number, known.sent, len));
                if self.note(Some(slot), sent) {
                    self.known[number as usize].sent += 1;
                }
            }
            Do::Am(slot, len) => {
                let Some(client) = &self.slots[slot] else { return };
                let number = client.number;
                let sent = client.am(self.known[number as usize].ams, len);
                if self.note(Some(slot), sent) {
                    self.known[number as usize].ams += 1;
                }
            }
            Do::Answer(slot, len) => {
                let Some(number) = self.last[slot] else { return };
                let known = &self.known[number as usize];
                let Some(ep) = known.ep else { return };
                let envelope = Envelope { space: 0, source: number, tag: known.answers };
                let buffer = SendBuf::owned(content(number, known.answers, len));
                let sent = self.site.server.send(ep, envelope, buffer, SendMode::Standard);
                if self.note(None, sent) {
                    self.known[number as usize].answers += 1;
                }
            }
            Do::Receive(count) => {
                for _ in 0..count {
                    let any = MatchSpec { space: 0, source: None, tag: 0, tag_mask: 0 };
                    if self.site.server.probe(&any).is_none() {
                        return;
                    }
                    self.receives.push(super::receive(&self.site.server, None, CAPACITY));
                }
            }
            Do::Close(slot, force) => {
                let Some(client) = &self.slots[slot] else { return };
                let mode = if force { CloseMode::Force } else { CloseMode::Flush };
                let known = &mut self.known[client.number as usize];
                known.cut |= force;
                known.in_order = true;
                let closing = client.worker.close(client.to, mode);
                self.note(Some(slot), closing);
            }
            Do::CloseThere(slot, force) => {
                let Some(number) = self.last[slot] else { return };
                let Some(ep) = self.known[number as usize].ep else { return };
                let mode = if force { CloseMode::Force } else { CloseMode::Flush };
                // What the client sends from here on may find nobody.
                self.known[number as usize].cut = true;
                let closing = self.site.server.close(ep, mode);
                self.note(None, closing);
            }
            Do::Kill(slot) => {
                if let Some(client) = &self.slots[slot] {
                    self.site.network.kill(client.node);
                }
                self.leave(slot);
            }
            Do::Drop(slot) => self.leave(slot),
            Do::Steps(count) => (0..count).for_each(|_| _ = self.round()),
            Do::Arrive(..) => {}
        }
    }

    /// Drops the worker at a slot. One whose close is not complete, or that was not closed, may take
    /// messages with it.
    fn leave(&mut self, slot: usize) {
        let Some(client) = self.slots[slot].take() else { return };
        let open = self.sends.iter().any(|&(at, _)| at == Some(slot));
        let known = &mut self.known[client.number as usize];
        known.cut |= open || !known.in_order;
        self.sends.retain(|&(at, _)| at != Some(slot));
        self.waiting[slot] = None;
    }

    /// One poll of everybody, and of what has come.
    fn round(&mut self) -> bool {
        let clients: Vec<&Client> = self.slots.iter().flatten().collect();
        let moved = self.site.round(&clients);
        self.check_ams();
        self.check_receives();
        self.check_answers();
        let (site, slots) = (&self.site, &self.slots);
        self.sends.retain(|&(slot, id)| {
            let worker = match slot {
                Some(slot) => slots[slot].as_ref().map(|client| &client.worker),
                None => Some(&site.server),
            };
            worker.is_some_and(|worker| worker.take(id).is_none())
        });
        let peers = self.site.server.peer_count();
        let own = self.known.len();
        assert!(peers.slots <= PLACES + 2 * own.min(SLOTS) + own / 4, "{peers:?}");
        moved
    }

    /// Under one endpoint comes one client, and its messages in order.
    fn check_ams(&mut self) {
        let seen = self.site.seen.lock().expect("no test panics with it");
        for &(ep, client, number) in &seen[self.seen..] {
            let owner = *self.by_ep.entry(ep).or_insert(client);
            assert_eq!(owner, client, "an endpoint has had two owners");
            let known = &mut self.known[client as usize];
            assert_eq!(*known.ep.get_or_insert(ep), ep, "a client has two endpoints");
            // A close by force takes messages back that nobody has received.
            let next = known.got_ams;
            assert!(number == next || known.cut && number > next, "out of order, or lost");
            known.got_ams = number + 1;
        }
        self.seen = seen.len();
    }

    fn check_receives(&mut self) {
        let (server, known) = (&self.site.server, &mut self.known);
        self.receives.retain(|&id| {
            let Some((status, bytes)) = server.take_with_buffer(id) else { return true };
            if status.outcome.is_err() {
                // Its sender has ended while it was read; with that it counts as begun.
                return false;
            }
            let sender = &mut known[status.source as usize];
            // Receives may end in another order than that of their messages.
            assert!(status.tag < sender.sent, "never sent");
            sender.got += 1;
            let bytes = bytes.expect("owned");
            let expected = content(status.source, status.tag, status.length as usize);
            assert!(bytes[..status.length as usize] == expected, "of another message");
            false
        });
    }

    fn check_answers(&mut self) {
        for (slot, client) in self.slots.iter().enumerate() {
            let (Some(client), Some(id)) = (client, self.waiting[slot]) else { continue };
            let Some((status, bytes)) = client.worker.take_with_buffer(id) else { continue };
            let known = &mut self.known[client.number as usize];
            if status.outcome.is_ok() {
                assert_eq!(status.source, client.number, "it was meant for another");
                assert!(status.tag >= known.heard && status.tag < known.answers, "out of order");
                known.heard = status.tag + 1;
                let bytes = bytes.expect("owned");
                let expected = content(client.number, status.tag, status.length as usize);
                assert!(bytes[..status.length as usize] == expected, "of another message");
            }
            self.waiting[slot] = Some(super::receive(&client.worker, None, CAPACITY));
        }
    }

    /// Lets everything end, receives what is left, and checks who has lost what.
    fn finish(mut self) {
        let mut idle = 0;
        while idle < 70 {
            self.act(&Do::Receive(1));
            idle = if self.round() { 0 } else { idle + 1 };
        }
        for (number, known) in self.known.iter().enumerate() {
            if known.in_order && !known.cut {
                assert_eq!(known.got_ams, known.ams, "messages of client {number} are lost");
                assert_eq!(known.got, known.sent, "messages of client {number} are lost");
            }
        }
        // A client that comes now finds all that the others had.
        for slot in 0..SLOTS {
            self.leave(slot);
        }
        let next = self.known.len() as u32;
        self.site.others(next, 130);
        let peers = self.site.server.peer_count();
        assert!(peers.known <= PLACES + self.known.len() / 4, "{peers:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn endpoints_stay_with_their_clients(
        program in programs(),
        seed in any::<u64>(),
        slots in 2..40_u32,
        loss in prop_oneof![Just(0), Just(100_000)],
        threshold in prop_oneof![Just("0"), Just("8k"), Just("64m")],
    ) {
        let faults = Faults { loss, retransmit_ns: 5000, ..Faults::default() };
        let options = NetworkOptions { seed, slots, faults, ..NetworkOptions::default() };
        let mut run = Program::new(options, &[("BOWLINE_RNDV_THRESHOLD", threshold)]);
        program.iter().for_each(|step| run.act(step));
        run.finish();
    }
}
