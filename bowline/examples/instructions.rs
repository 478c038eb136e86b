//! One operation, a given number of times, for an instruction counter: `cargo xtask bench
//! instructions` runs each mode under callgrind and divides what `measured_*` collected by the
//! number of calls. Nothing here takes a time.
//!
//! Usage: `instructions MODE CALLS [BYTES]`. Two workers live in one process, so the message is always
//! present when it is received, and no empty poll is counted.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;

use bowline::stack::{self, RankPlace};
use bowline::ucp::{
    Envelope, Ep, MatchSpec, Members, RemoteKey, RequestId, SendMode, Sent, SpaceOptions,
    StreamReceived, StreamWant, Worker,
};
use bowline::uct::{
    AmId, Arrival, AtomicOp, AtomicWidth, EpId, Iface, PeerFailure, Sink, Source, Token, Verdict,
};
use bowline::wait::SystemWaiter;
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::config::Config;
use bowline_base::job::{JobMemory, JobSpec};
use bowline_base::sync::atomic::{AtomicU64, Ordering};

/// Messages sent before they are received: one, as in a ping-pong. With more, the first receive
/// would pay for taking all of them in.
const BATCH: u64 = 1;

fn main() {
    let mut args = std::env::args().skip(1);
    let mode = args.next().unwrap_or_else(|| "tag_send".into());
    let calls: u64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(1000);
    match mode.as_str() {
        "uct_post" | "uct_receive" => uct(calls),
        "tag_send" | "tag_recv" => tagged(calls),
        "tag_window" => windows(calls),
        "am_send" | "am_recv" => active(calls, false),
        "am_in_place" => active(calls, true),
        "stream_send" | "stream_recv" => streams(calls),
        "poll" => polls(calls),
        "put" | "get" | "fadd" => one_sided(calls),
        "rtr_taken" | "rtr_send" | "rtr_recv" => announced(calls),
        "mpi_send" | "mpi_recv" => mpi(calls),
        other => {
            eprintln!(
                "no mode {other:?}; there are uct_post, uct_receive, tag_send, tag_recv, \
                 tag_window, am_send, am_recv, am_in_place, stream_send, stream_recv, poll, put, get, fadd, rtr_taken, rtr_send, \
                 rtr_recv, mpi_send and mpi_recv"
            );
            std::process::exit(2);
        }
    }
}

fn places() -> [RankPlace; 2] {
    let config = stack::config_from_env().expect("the settings are good");
    let spec =
        JobSpec { job_id: 1, ranks: 2, first_rank: 0, area_bytes: stack::area_bytes(&config) };
    let job = JobMemory::create_private(&spec).expect("two ranks fit into memory");
    [0, 1].map(|rank| {
        job.attach(rank).expect("the place is free");
        RankPlace::of_thread(&job, rank)
    })
}

/// Counts arrivals.
struct Count(u64);

impl Sink for Count {
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        let mut word = [0; 8];
        arrival.payload.copy_out(&mut word);
        self.0 += 1;
        black_box(word);
        Verdict::Consumed
    }
    fn completed(&mut self, _: Token, _: Result<u64, PeerFailure>) {}
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, _: Option<EpId>, how: PeerFailure) {
        panic!("nobody failed, yet: {how}");
    }
}

#[inline(never)]
fn measured_uct_post(iface: &mut dyn Iface, ep: EpId, word: &[u8; 8]) {
    let posted = iface.am_short(ep, AmId::new(1), &[1, 2, 3], word);
    posted.expect("the queue has space");
}

#[inline(never)]
fn measured_uct_receive(iface: &mut dyn Iface, sink: &mut Count) {
    iface.progress(sink, 64);
}

fn uct(calls: u64) {
    let config = stack::config_from_env().expect("the settings are good");
    let [mut a, mut b] = places().map(|place| {
        let mut lanes = stack::transports(&place, &config).expect("transports open");
        lanes.pop().expect("the last lane is the memory between ranks")
    });
    let ep = a.connect(&b.address()).expect("they share memory");
    let mut sink = Count(0);
    for _ in 0..200 {
        while a.am_short(ep, AmId::new(1), &[0; 3], &[0; 8]).is_err() {
            b.progress(&mut sink, 64);
        }
        b.progress(&mut sink, 64);
    }
    while b.progress(&mut sink, 64) > 0 {}
    let before = sink.0;
    for round in 0..calls / BATCH {
        while b.progress(&mut sink, 64) > 0 {}
        for i in 0..BATCH {
            measured_uct_post(&mut *a, ep, &(round + i).to_le_bytes());
        }
        for _ in 0..BATCH {
            measured_uct_receive(&mut *b, &mut sink);
        }
    }
    assert_eq!(sink.0 - before, calls / BATCH * BATCH, "every message arrived");
}

#[inline(never)]
fn measured_tag_send(worker: &Worker, ep: Ep, word: &[u8; 8]) {
    // SAFETY: an eager send is complete in the call, which is asserted, so the borrow suffices.
    let buffer = unsafe { SendBuf::borrowed(word.as_ptr(), word.len()) };
    let envelope = Envelope { space: 0, source: 0, tag: 7 };
    match worker.send(ep, envelope, buffer, SendMode::Standard) {
        Ok(Sent::Done) => {}
        other => panic!("a short message is complete at once, yet: {other:?}"),
    }
}

#[inline(never)]
fn measured_tag_recv(worker: &Worker, word: &mut [u8; 8]) {
    // SAFETY: the request is waited for below, so the buffer outlives it.
    let buffer = unsafe { RecvBuf::borrowed(word.as_mut_ptr(), word.len()) };
    let spec = MatchSpec { space: 0, source: Some(0), tag: 7, tag_mask: u64::MAX };
    worker.recv_blocking(spec, buffer).expect("the space is open and the message fits");
}

#[inline(never)]
fn measured_am_send(worker: &Worker, ep: Ep, bytes: &[u8]) {
    // SAFETY: an eager send is complete in the call, which is asserted, so the borrow suffices.
    let buffer = unsafe { SendBuf::borrowed(bytes.as_ptr(), bytes.len()) };
    match worker.am_send(ep, 1, &[], buffer) {
        Ok(Sent::Done) => {}
        other => panic!("a short message is complete at once, yet: {other:?}"),
    }
}

#[inline(never)]
fn measured_am_recv(worker: &Worker) {
    worker.progress();
}

#[inline(never)]
fn measured_am_in_place(worker: &Worker) {
    // Not the same code as that of `measured_am_recv`, with which it would be merged.
    black_box(worker.progress());
}

fn active(calls: u64, in_place: bool) {
    let [a, b] = workers();
    let ep = a.connect(&b.address()).expect("they share memory");
    let bytes = vec![7; size()];
    let came = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&came);
    b.am_handler(
        1,
        Box::new(move |_, message| {
            black_box(message.data());
            // Relaxed: one thread.
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }),
    );
    if in_place {
        let count = Arc::clone(&came);
        b.am_handler_in_place(
            1,
            Box::new(move |message| {
                let mut word = [0; 8];
                message.data.copy_out(&mut word);
                black_box(word);
                // Relaxed: one thread.
                count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }),
        );
    }
    for round in 0..calls + 200 {
        poll_until_empty(&b);
        measured_am_send(&a, ep, &bytes);
        if in_place {
            measured_am_in_place(&b);
        } else {
            measured_am_recv(&b);
        }
        while came.load(Ordering::Relaxed) <= round {
            b.progress();
        }
        // Credit comes back.
        if round % 16 == 0 {
            a.progress();
        }
    }
}

#[inline(never)]
fn measured_put(worker: &Worker, key: RemoteKey, at: u64, bytes: &[u8]) {
    // SAFETY: a put to mapped memory is complete in the call, which is asserted.
    let buffer = unsafe { SendBuf::borrowed(bytes.as_ptr(), bytes.len()) };
    assert!(matches!(worker.put(key, at, buffer), Ok(Sent::Done)), "complete at once");
}

#[inline(never)]
fn measured_get(worker: &Worker, key: RemoteKey, at: u64, memory: &mut [u8]) {
    // SAFETY: a get from mapped memory is complete in the call, which is asserted.
    let buffer = unsafe { RecvBuf::borrowed(memory.as_mut_ptr(), memory.len()) };
    assert!(matches!(worker.get(key, at, buffer), Ok(Sent::Done)), "complete at once");
}

#[inline(never)]
fn measured_fadd(worker: &Worker, key: RemoteKey, at: u64) -> u64 {
    let old = worker.atomic_fetch(key, at, AtomicOp::Add(1), AtomicWidth::W64);
    old.expect("native").expect("complete at once")
}

fn one_sided(calls: u64) {
    let [a, b] = workers();
    let ep = a.connect(&b.address()).expect("they share memory");
    let bytes = vec![7; size()];
    let memory = b.mem_alloc(4096 + bytes.len()).expect("memory");
    let at = b.mem_view(memory, |view| view.as_ptr().addr() as u64).expect("it is mapped");
    let key = b.rkey_pack(memory).and_then(|key| a.rkey_unpack(ep, &key)).expect("a key");
    let mut memory = vec![0; bytes.len()];
    for round in 0..calls {
        measured_put(&a, key, at + 64, &bytes);
        measured_get(&a, key, at + 64, &mut memory);
        assert_eq!(measured_fadd(&a, key, at), round);
    }
    assert!(calls == 0 || memory == bytes, "what was put is what was got");
}

/// Bytes of a message, where a mode lets one choose: the third argument.
fn size() -> usize {
    std::env::args().nth(3).and_then(|n| n.parse().ok()).unwrap_or(8)
}

fn workers() -> [Worker; 2] {
    workers_with(&stack::config_from_env().expect("the settings are good"))
}

fn workers_with(config: &Config) -> [Worker; 2] {
    places().map(|place| {
        let waiter = SystemWaiter::new(config);
        let worker = stack::worker(&place, config, waiter).expect("a worker");
        worker.open_space(0, SpaceOptions::default()).expect("space 0 is new");
        worker
    })
}

/// A receiver that waits has polled in vain before its message comes; one that had a message in its last
/// poll, too, polls for more.
fn poll_until_empty(worker: &Worker) {
    while worker.progress() > 0 {}
}

#[inline(never)]
fn measured_poll(worker: &Worker) {
    assert_eq!(worker.progress(), 0, "nothing is there");
}

/// Polls that find nothing, with the one ring that a ping-pong has.
fn polls(calls: u64) {
    let [a, b] = workers();
    let ep = a.connect(&b.address()).expect("they share memory");
    let mut word = [0; 8];
    for _ in 0..200 {
        measured_tag_send(&a, ep, &word);
        measured_tag_recv(&b, &mut word);
    }
    poll_until_empty(&b);
    for _ in 0..calls {
        measured_poll(&b);
    }
}

#[inline(never)]
fn measured_stream_send(worker: &Worker, ep: Ep, bytes: &[u8]) {
    // SAFETY: an eager send is complete in the call, which is asserted, so the borrow suffices.
    let buffer = unsafe { SendBuf::borrowed(bytes.as_ptr(), bytes.len()) };
    assert!(matches!(worker.stream_send(ep, buffer), Ok(Sent::Done)), "complete at once");
}

#[inline(never)]
fn measured_stream_recv(worker: &Worker, from: Ep, memory: &mut [u8]) {
    // SAFETY: the request is waited for, so that the buffer outlives it.
    let buffer = unsafe { RecvBuf::borrowed(memory.as_mut_ptr(), memory.len()) };
    match worker.stream_recv(from, buffer, StreamWant::ALL).expect("the stream is open") {
        StreamReceived::Done(..) => {}
        StreamReceived::Pending(id) => {
            worker.wait(id);
        }
    }
}

fn streams(calls: u64) {
    let [a, b] = workers();
    let ep = a.connect(&b.address()).expect("they share memory");
    let from = b.connect(&a.address()).expect("they share memory");
    let bytes = vec![7; size()];
    let mut memory = vec![0; size()];
    for round in 0..calls + 200 {
        poll_until_empty(&b);
        measured_stream_send(&a, ep, &bytes);
        measured_stream_recv(&b, from, &mut memory);
        // Credit comes back.
        if round % 16 == 0 {
            a.progress();
        }
    }
    assert_eq!(memory, bytes, "the bytes have come");
}

fn tagged(calls: u64) {
    let [a, b] = workers();
    let ep = a.connect(&b.address()).expect("they share memory");
    let mut word = [0; 8];
    for _ in 0..200 {
        measured_tag_send(&a, ep, &word);
        measured_tag_recv(&b, &mut word);
    }
    for round in 0..calls / BATCH {
        poll_until_empty(&b);
        for i in 0..BATCH {
            measured_tag_send(&a, ep, &(round + i).to_le_bytes());
        }
        for i in 0..BATCH {
            measured_tag_recv(&b, &mut word);
            assert_eq!(u64::from_le_bytes(word), round + i);
        }
    }
}

/// Messages of a window.
const WINDOW: usize = 64;

/// Waits for the oldest receive of a window and starts the next one.
#[inline(never)]
fn measured_tag_window(worker: &Worker, open: &mut VecDeque<RequestId>, memory: *mut u8) {
    let oldest = open.pop_front().expect("a window is open");
    worker.wait(oldest).outcome.expect("the message fits");
    open.push_back(start_receive(worker, memory));
}

#[inline(always)]
fn start_receive(worker: &Worker, memory: *mut u8) -> RequestId {
    // SAFETY: the buffer has eight bytes and outlives the worker; nobody reads what is received.
    let buffer = unsafe { RecvBuf::borrowed(memory, 8) };
    let spec = MatchSpec { space: 0, source: Some(0), tag: 7, tag_mask: u64::MAX };
    worker.recv(spec, buffer).expect("the space is open")
}

/// Receives that are all posted before the first message comes.
fn windows(calls: u64) {
    let mut words = vec![0u64; WINDOW];
    let words = words.as_mut_ptr();
    let [a, b] = workers();
    let ep = a.connect(&b.address()).expect("they share memory");
    let buffer = |place: u64| {
        // SAFETY: within the buffers, which outlive the workers; the address is only handed on.
        unsafe { words.add(place as usize % WINDOW) }.cast::<u8>()
    };
    let mut open: VecDeque<_> =
        (0..WINDOW as u64).map(|at| start_receive(&b, buffer(at))).collect();
    for _ in 0..(calls / WINDOW as u64).max(8) {
        for word in 0..WINDOW as u64 {
            measured_tag_send(&a, ep, &word.to_le_bytes());
        }
        for at in 0..WINDOW as u64 {
            measured_tag_window(&b, &mut open, buffer(at));
        }
        a.progress();
    }
    for id in open {
        b.cancel(id);
    }
}

/// Every rank of the job, in its order.
#[derive(Debug)]
struct Everybody;

impl Members for Everybody {
    fn rank_of(&self, job_rank: u32) -> Option<u32> {
        Some(job_rank)
    }
}

/// Takes in the announcement of a receive.
#[inline(never)]
fn measured_rtr_taken(worker: &Worker) {
    // The function is not to be merged with another one that only progresses.
    assert_ne!(black_box(worker.progress()), u32::MAX);
}

/// Sends a message that is written.
#[inline(never)]
fn measured_rtr_send(worker: &Worker, ep: Ep, word: &[u8; 8]) {
    // SAFETY: the send is waited for below, so the borrow suffices.
    let buffer = unsafe { SendBuf::borrowed(word.as_ptr(), word.len()) };
    let envelope = Envelope { space: 1, source: 0, tag: 7 };
    if let Sent::Pending(id) =
        worker.send(ep, envelope, buffer, SendMode::Standard).expect("the peer is there")
    {
        worker.wait(id).outcome.expect("the message fits");
    }
}

/// Waits for the oldest of the announced receives, and announces one more.
#[inline(never)]
fn measured_rtr_recv(worker: &Worker, open: &mut VecDeque<RequestId>, memory: *mut u8) {
    let oldest = open.pop_front().expect("one is announced");
    worker.wait(oldest).outcome.expect("the message fits");
    open.push_back(announce(worker, memory));
}

fn announce(worker: &Worker, memory: *mut u8) -> RequestId {
    // SAFETY: the memory has eight bytes and is released after the receive.
    let buffer = unsafe { RecvBuf::borrowed(memory, 8) };
    let spec = MatchSpec { space: 1, source: Some(0), tag: 7, tag_mask: u64::MAX };
    worker.recv(spec, buffer).expect("the space is open")
}

/// Messages that are written to receives which their senders know of, with four of them posted.
fn announced(calls: u64) {
    const AHEAD: usize = 4;
    let mut config = stack::config_from_env().expect("the settings are good");
    for (name, text) in [("BOWLINE_RNDV_SCHEME", "rtr"), ("BOWLINE_RTR_MIN", "1")] {
        config.set_text(name, text).expect("it is a setting");
    }
    let [a, b] = workers_with(&config);
    for worker in [&a, &b] {
        let members: Option<Arc<dyn Members>> = Some(Arc::new(Everybody));
        let options = SpaceOptions { members, ..SpaceOptions::default() };
        worker.open_space(1, options).expect("space 1 is new");
    }
    let ep = a.connect(&b.address()).expect("they share memory");
    let back = b.connect(&a.address()).expect("they share memory");
    let mut word = [0; 8];
    measured_tag_send(&a, ep, &word);
    measured_tag_recv(&b, &mut word);
    measured_tag_send(&b, back, &word);
    let memory = b.mem_alloc(64 * AHEAD).expect("memory is left");
    let at = b.mem_view(memory, |view| view.as_ptr()).expect("it was allocated");
    let place = |nth: usize| {
        // SAFETY: within the memory; the address is only handed on.
        unsafe { at.add(nth % AHEAD * 64) }
    };
    let mut open: VecDeque<_> = (0..AHEAD).map(|nth| announce(&b, place(nth))).collect();
    poll_until_empty(&a);
    for round in 0..calls + 200 {
        if round > 0 {
            measured_rtr_taken(&a);
        }
        poll_until_empty(&a);
        measured_rtr_send(&a, ep, &round.to_le_bytes());
        measured_rtr_recv(&b, &mut open, place(round as usize));
    }
    assert!(a.counters().sent_rtr >= calls, "the messages were written");
    for id in open {
        b.cancel(id);
    }
}

#[inline(never)]
fn measured_mpi_send(world: &bowline::mpi::World, word: &[u64; 1]) {
    world.send(word, 1, 7).expect("rank 1 is there");
}

#[inline(never)]
fn measured_mpi_recv(world: &bowline::mpi::World, word: &mut [u64; 1]) {
    world.recv(word, 0, 7).expect("rank 0 is there");
}

fn mpi(calls: u64) {
    // One thread after the other: a batch is there before it is received.
    let both = std::sync::Barrier::new(2);
    bowline::threads(2, |world| {
        let mut word = [0];
        for round in 0..calls / BATCH + 8 {
            if world.rank() == 0 {
                for i in 0..BATCH {
                    measured_mpi_send(&world, &[round + i]);
                }
            }
            both.wait();
            if world.rank() == 1 {
                for i in 0..BATCH {
                    measured_mpi_recv(&world, &mut word);
                    assert_eq!(word[0], round + i);
                }
            }
            both.wait();
        }
    })
    .expect("two ranks fit into memory");
}
