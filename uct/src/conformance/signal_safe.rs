//! Progress as in a signal handler. No signal is raised: these tests call what a handler would, from outside of all other
//! methods. Within [`in_signal_safe_call`] a test program's allocator can see that nothing is allocated or freed.

use std::cell::Cell;
use std::collections::HashMap;

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::slab::Key;

use super::harness::{Flavour, Random, World, header_of, pattern};
use super::rma::{MemoryKind, Window};
use super::{Subject, not_applicable};
use crate::{
    AmHeader, AmId, Arrival, Caps, LocalSlice, MemError, PeerFailure, PostError, Posted,
    PreparedId, RemoteSlice, SignalSink, Source, Token,
};

thread_local! {
    /// Constant and without destructor: reading it runs no code.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is in a call that must keep to the rule of [`SignalSafe`](crate::SignalSafe). For allocators
/// of test programs.
pub fn in_signal_safe_call() -> bool {
    INSIDE.get()
}

/// Runs `call` by the rule.
fn by_the_rule<R>(call: impl FnOnce() -> R) -> R {
    INSIDE.set(true);
    let result = call();
    INSIDE.set(false);
    result
}

/// Takes some of the messages, without allocating, and the completion of one token.
struct Picky {
    /// Which of the next offers are taken, by bit; offers beyond the last bit are refused.
    takes: u64,
    offers: u32,
    taken: Vec<(Source, AmHeader)>,
    token: Token,
    completed: Option<Result<u64, PeerFailure>>,
}

impl Picky {
    fn new() -> Self {
        let taken = Vec::with_capacity(64);
        Self { takes: 0, offers: 0, taken, token: Token::NONE, completed: None }
    }

    /// A call of a handler's, in which offers are taken as `takes` says.
    fn progress(&mut self, world: &mut World, member: usize, takes: u64, budget: u32) -> u32 {
        (self.takes, self.offers) = (takes, 0);
        let had = self.completed.is_some();
        self.taken.clear();
        let iface = &mut world.peer(member).iface;
        let events = by_the_rule(|| iface.progress_signal_safe(self, budget));
        assert!(events <= budget, "{events} events with a budget of {budget}");
        let completions = u32::from(!had && self.completed.is_some());
        assert_eq!(events, self.taken.len() as u32 + completions, "what was taken is counted");
        events
    }
}

impl SignalSink for Picky {
    fn offer(&mut self, arrival: &Arrival<'_>) -> bool {
        let bit = self.takes.checked_shr(self.offers).unwrap_or(0) & 1;
        self.offers += 1;
        let takes = bit == 1 && self.taken.len() < self.taken.capacity();
        if takes {
            self.taken.push((arrival.source, arrival.header));
        }
        takes
    }

    fn offer_completion(&mut self, token: Token, result: Result<u64, PeerFailure>) -> bool {
        let takes = token == self.token;
        if takes {
            self.completed = Some(result);
        }
        takes
    }
}

/// Has member 0 and 1 hear of each other, so that there is a connection.
fn meet(world: &mut World) {
    for (from, to) in [(0, 1), (1, 0)] {
        world.send(from, to, Flavour::Short, 0, 8);
        world.receive(to, 1);
    }
}

/// Messages that a handler takes, and those that it leaves to `progress`, come once each and in the order of their sender.
pub fn messages_come_once_and_in_order(of: Subject) {
    const COUNT: u64 = 400;
    let mut world = World::new(of, 3);
    if !world.attr().caps.contains(Caps::SIGNAL_SAFE) {
        world.send(0, 2, Flavour::Short, 0, 8);
        let mut sink = Picky::new();
        assert_eq!(sink.progress(&mut world, 2, u64::MAX, 8), 0, "it has no such progress");
        return not_applicable(of, "no progress in signal handlers");
    }
    let (mut random, mut sink) = (Random::new(5), Picky::new());
    let mut seen: HashMap<Source, u64> = HashMap::new();
    let mut note = |source, header: &AmHeader| {
        let next = seen.entry(source).or_insert(0);
        assert_eq!(header[0], *next, "lost, doubled or out of order");
        *next += 1;
    };
    let (mut sent, mut by_handlers, mut by_calls) = ([0; 2], 0, 0);
    while by_handlers + by_calls < 2 * COUNT {
        for (from, sent) in sent.iter_mut().enumerate() {
            let len = [0, 8, 300][random.below(3)];
            let (bytes, header) = (pattern(*sent, len), header_of(*sent, *sent, len));
            let flavour = if len > 8 { Flavour::Bcopy } else { Flavour::Short };
            if *sent < COUNT && world.post(from, 2, flavour, AmId::new(1), &header, &bytes).is_ok()
            {
                *sent += 1;
            }
            world.rounds_of(from, 1);
        }
        // All are taken, none, or some.
        let takes = [u64::MAX, 0, random.word()][random.below(3)];
        sink.progress(&mut world, 2, takes, 1 + random.below(32) as u32);
        for (source, header) in &sink.taken {
            note(*source, header);
            by_handlers += 1;
        }
        if random.below(4) == 0 {
            world.rounds_of(2, 1);
            for message in world.peer(2).seen.take() {
                message.verify();
                note(message.source, &message.header);
                by_calls += 1;
            }
        }
    }
    assert!(by_handlers > 0 && by_calls > 0, "{by_handlers} by handlers, {by_calls} by calls");
    world.rounds(20);
    assert_eq!(world.peer(2).seen.messages.len(), 0, "more than was sent");
}

/// What a handler answers is sent by it.
pub fn a_handler_answers(of: Subject) {
    let mut world = World::new(of, 2);
    let ep = world.ep(1, 0);
    if !world.attr().caps.contains(Caps::SIGNAL_SAFE) {
        assert!(!world.peer(1).iface.can_post_signal_safe(ep));
        return not_applicable(of, "no progress in signal handlers");
    }
    meet(&mut world);
    let mut sink = Picky::new();
    for number in 0..50 {
        world.send(0, 1, Flavour::Short, number, 8);
        while sink.progress(&mut world, 1, u64::MAX, 1) == 0 {
            world.rounds_of(0, 1);
        }
        let iface = &mut world.peer(1).iface;
        let posted = by_the_rule(|| {
            assert!(iface.can_post_signal_safe(ep), "an endpoint that works can be posted to");
            iface.am_short(ep, AmId::new(2), &[number, 0, 0], &[])
        });
        assert_eq!(posted, Ok(()), "there is space for one message");
        while world.peer(0).seen.messages.is_empty() {
            world.rounds_of(0, 1);
        }
        assert_eq!(world.peer(0).seen.take()[0].header[0], number);
        // Space that only ordinary calls give back.
        world.rounds_of(1, 1);
    }
    let ep = world.ep(1, 0);
    world.peer(1).iface.invalidate(ep);
    assert!(!world.peer(1).iface.can_post_signal_safe(ep), "it has failed");
}

/// A handler reads into memory that was prepared, while neither side makes another call; and nowhere else.
pub fn prepared_memory_is_read_into(of: Subject) {
    const BYTES: usize = 100_000;
    // Before the world, so that it outlives what a failed test has under way.
    let mut buffer = RecvBuf::owned(vec![0; BYTES]);
    let mut world = World::new(of, 2);
    let attr = world.attr();
    // SAFETY: the buffer is kept, and left alone while something may write to it, until all operations have ended.
    let into = unsafe { LocalSlice::of_recv(&mut buffer, 0, BYTES) }.expect("all of it");
    if !attr.caps.contains(Caps::GET_PREPARED) {
        let ep = world.ep(0, 1);
        let iface = &mut world.peer(0).iface;
        assert!(matches!(iface.prepare(into), Err(MemError::Unsupported(_))));
        assert_eq!(iface.rkey_unpack_signal_safe(ep, &[1]), None);
        let from = RemoteSlice { address: 0, rkey: crate::RkeyId(Key::NONE) };
        let posted = iface.get_prepared(ep, PreparedId(Key::NONE), into, from, Token(1));
        assert_eq!(posted, Err(PostError::Unsupported));
        return not_applicable(of, "no gets by signal handlers");
    }
    assert!(attr.caps.contains(Caps::SIGNAL_SAFE | Caps::GET_ZCOPY), "they are for its progress");
    meet(&mut world);
    let window = Window::open(&mut world, MemoryKind::Allocated, BYTES);
    let bytes = pattern(3, BYTES);
    window.view(&mut world).copy_in(&bytes);
    let (ep, packed) = (world.ep(0, 1), world.packed_key(&window));
    let prepared = world.peer(0).iface.prepare(into).expect("memory can be prepared");
    let mut sink = Picky::new();
    // Twice, so that what the first one has taken is there again; the longest and a part.
    for (from, len) in [(0, BYTES), (777, 4096), (BYTES - 1, 1)] {
        let token = world.peer(0).token();
        sink.token = token;
        sink.completed = None;
        let part = into.slice(from, len).expect("a part of it");
        let iface = &mut world.peer(0).iface;
        let rkey = by_the_rule(|| iface.rkey_unpack_signal_safe(ep, &packed)).expect("space");
        let at = RemoteSlice { address: window.at(from).address, rkey };
        let posted = by_the_rule(|| iface.get_prepared(ep, prepared, part, at, token));
        assert_eq!(posted, Ok(Posted::InFlight), "{len} bytes");
        while sink.completed.is_none() {
            sink.progress(&mut world, 0, 0, 4);
        }
        assert_eq!(sink.completed, Some(Ok(0)));
        let read = &buffer.view().to_vec()[from..from + len];
        assert!(
            read == &bytes[from..from + len],
            "{len} bytes at {from} are not those of the peer"
        );
        // Ordinary operations go on beside.
        world.peer(0).iface.rkey_release(rkey);
        world.send(0, 1, Flavour::Bcopy, from as u64, 100);
        world.receive(1, 1);
    }
    outside_of_it_nothing_is_read(&mut world, &window, prepared, into);
    world.peer(0).iface.unprepare(prepared);
    let posted = world.peer(0).iface.get_prepared(ep, prepared, into, window.at(0), Token(99));
    assert_eq!(posted, Err(PostError::BadArgument), "it is not prepared any more");
    world.rounds(20);
    assert!(world.peer(0).seen.completed.is_empty(), "a completion was reported twice");
}

/// What a handler has lent is written by a peer until an ordinary call takes it back; nobody else's bytes are. Where
/// nothing has to be lent, or no handler does, none does it.
pub fn a_handler_lends(of: Subject) {
    const BYTES: usize = 10_000;
    // Before the world, so that it outlives what a failed test has lent.
    let mut buffer = RecvBuf::owned(vec![0; BYTES]);
    let mut world = World::new(of, 2);
    let caps = world.attr().caps;
    // SAFETY: the buffer is kept, and read by views only, until all that is lent is taken back.
    let bytes = unsafe { LocalSlice::of_recv(&mut buffer, 0, BYTES) }.expect("all of it");
    if !caps.contains(Caps::SIGNAL_SAFE | Caps::LENT_ONLY) {
        assert_eq!(world.peer(0).iface.lend_signal_safe(bytes), None);
        return not_applicable(of, "no handler has to lend");
    }
    meet(&mut world);
    let ep = world.ep(1, 0);
    for round in 0..3 {
        // As many at once as there is space for.
        let iface = &mut world.peer(0).iface;
        let mut all = Vec::with_capacity(1000);
        let lends = || iface.lend_signal_safe(bytes);
        by_the_rule(|| all.extend(std::iter::from_fn(lends).take(1000)));
        assert!((1..1000).contains(&all.len()), "{} loans", all.len());
        let packed = world.peer(0).iface.rkey_pack(all[0]).expect("a handle has a key");
        let rkey = world.peer(1).iface.rkey_unpack(ep, &packed).expect("a whole key opens");
        let put = |world: &mut World, offset: u64, data: Vec<u8>| {
            let data = SendBuf::owned(data);
            let len = data.len();
            // SAFETY: the put ends in its call, or is refused in it.
            let from = unsafe { LocalSlice::of_send(&data, 0, len) }.expect("all of it");
            let at = RemoteSlice { address: bytes.as_ptr().addr() as u64 + offset, rkey };
            world.peer(1).iface.put_zcopy(ep, &[from], at, Token::NONE)
        };
        let data = pattern(round, 5000);
        for (nth, handle) in all.into_iter().enumerate() {
            assert_eq!(put(&mut world, 1, data.clone()), Ok(Posted::Done), "{nth} are taken back");
            world.peer(0).iface.mem_release(handle).expect("it stands");
        }
        assert!(buffer.view().to_vec()[1..5001] == data, "the bytes of the peer");
        assert_eq!(put(&mut world, 1, vec![0; 5000]), Err(PostError::BadRemote));
        assert!(buffer.view().to_vec()[1..5001] == data, "it was taken back");
        world.peer(1).iface.rkey_release(rkey);
    }
}

fn outside_of_it_nothing_is_read(
    world: &mut World,
    window: &Window,
    prepared: PreparedId,
    into: LocalSlice,
) {
    let ep = world.ep(0, 1);
    // SAFETY: nothing is posted that would write there.
    let beyond = unsafe { LocalSlice::from_raw(into.as_ptr(), into.len() + 1) };
    // SAFETY: as before.
    let before = unsafe { LocalSlice::from_raw(into.as_ptr().wrapping_sub(1), 1) };
    let iface = &mut world.peer(0).iface;
    let mut get =
        |prepared, to, from| by_the_rule(|| iface.get_prepared(ep, prepared, to, from, Token(98)));
    let part = into.slice(0, 1).expect("a part of it");
    assert_eq!(get(prepared, before, window.at(0)), Err(PostError::BadArgument));
    assert_eq!(get(PreparedId(Key::NONE), part, window.at(0)), Err(PostError::BadArgument));
    assert_eq!(get(prepared, part, window.at(into.len())), Err(PostError::BadRemote));
    assert_eq!(get(prepared, beyond, window.at(0)), Err(PostError::BadRemote), "so is the window");
}

/// What ends in a handler and what has to wait for an ordinary call are each reported once, in whatever order they come.
pub fn reads_complete_once(of: Subject) {
    const BYTES: usize = 5000;
    // Before the world, as above.
    let mut buffers: Vec<RecvBuf> = (0..4).map(|_| RecvBuf::owned(vec![0; BYTES])).collect();
    let mut world = World::new(of, 2);
    let attr = world.attr();
    if !attr.caps.contains(Caps::GET_PREPARED) {
        return not_applicable(of, "no gets by signal handlers");
    }
    meet(&mut world);
    let window = Window::open(&mut world, MemoryKind::Allocated, BYTES);
    let bytes = pattern(9, BYTES);
    window.view(&mut world).copy_in(&bytes);
    let ep = world.ep(0, 1);
    let (mut random, mut sink) = (Random::new(11), Picky::new());
    for round in 0..60 {
        // One by a handler, among others of memory that is registered for them alone.
        let which = random.below(4);
        for buffer in &mut buffers {
            buffer.view().copy_in(&[0; BYTES]);
        }
        let mut tokens = Vec::new();
        let mut prepared = None;
        for (number, buffer) in buffers.iter_mut().enumerate() {
            let token = world.peer(0).token();
            // SAFETY: the buffer is kept, and left alone, until the operation has ended.
            let into = unsafe { LocalSlice::of_recv(buffer, 0, BYTES) }.expect("all of it");
            let iface = &mut world.peer(0).iface;
            if number == which {
                let id = iface.prepare(into).expect("memory can be prepared");
                prepared = Some(id);
                sink.token = token;
                sink.completed = None;
                let at = window.at(0);
                let posted = by_the_rule(|| iface.get_prepared(ep, id, into, at, token));
                assert_eq!(posted, Ok(Posted::InFlight));
            } else {
                let posted = iface.get_zcopy(ep, &[into], window.at(0), token);
                assert_eq!(posted, Ok(Posted::InFlight));
                tokens.push(token);
            }
        }
        // By handlers alone where it is the first; by some, and then by calls, of each other one.
        let handlers = if which == 0 { usize::MAX } else { random.below(30) };
        for _ in 0..handlers {
            if sink.completed.is_some() {
                break;
            }
            sink.progress(&mut world, 0, 0, 4);
        }
        if sink.completed.is_none() {
            tokens.push(sink.token);
        }
        for token in tokens {
            assert_eq!(world.wait(0, token), Ok(0), "round {round}");
        }
        for buffer in &mut buffers {
            assert!(buffer.view().to_vec() == bytes, "round {round}");
        }
        world.peer(0).iface.unprepare(prepared.expect("one of them was"));
        assert!(world.peer(0).seen.completed.is_empty(), "more completions than reads");
    }
}
