//! Messages in pieces and behind callbacks, by every protocol over every transport, against plain ones.

mod layout;
mod world;

use std::sync::{Arc, Mutex};

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_ucp::{
    AmKept, Envelope, Handle, MatchSpec, OpError, RequestId, SendMode, Sent, StreamReceived,
    StreamWant,
};
use layout::{Layout, Packer, UNTOUCHED, Unpacker, content, cut, layouts, pattern};
use proptest::prelude::*;
use world::{SPACE, TRANSPORTS, Transport, World};

/// Settings that lead to each protocol, where the transport has it.
const SETTINGS: [&[(&str, &str)]; 9] = [
    &[],
    &[("BOWLINE_RNDV_THRESHOLD", "64m"), ("BOWLINE_EAGER_SHARE_FIRST", "1g")],
    &[("BOWLINE_RNDV_THRESHOLD", "0"), ("BOWLINE_RNDV_SCHEME", "auto")],
    &[("BOWLINE_RNDV_THRESHOLD", "0"), ("BOWLINE_RNDV_SCHEME", "get")],
    &[("BOWLINE_RNDV_THRESHOLD", "0"), ("BOWLINE_RNDV_SCHEME", "put")],
    &[("BOWLINE_RNDV_THRESHOLD", "0"), ("BOWLINE_RNDV_SCHEME", "copy")],
    &[("BOWLINE_RNDV_THRESHOLD", "0"), ("BOWLINE_RNDV_SCHEME", "rtr")],
    &[("BOWLINE_RNDV_THRESHOLD", "32k"), ("BOWLINE_COOPERATE", "64k")],
    &[
        ("BOWLINE_RNDV_THRESHOLD", "64m"),
        ("BOWLINE_EAGER_SHARE_FIRST", "1g"),
        ("BOWLINE_ZCOPY_THRESHOLD", "1"),
    ],
];

const fn envelope(tag: u64) -> Envelope {
    Envelope { space: SPACE, source: 0, tag }
}

const fn exactly(tag: u64) -> MatchSpec {
    MatchSpec { space: SPACE, source: Some(0), tag, tag_mask: u64::MAX }
}

/// One message of a case.
#[derive(Clone, Debug)]
struct Message {
    len: usize,
    from: Layout,
    to: Layout,
    /// The capacity is longer or shorter by this.
    slack: isize,
    early: bool,
    synchronous: bool,
    /// Another receive is posted beside it and cancelled.
    cancel: bool,
}

impl Message {
    fn capacity(&self) -> usize {
        self.len.saturating_add_signed(self.slack)
    }
}

fn messages() -> impl Strategy<Value = Message> {
    let len = prop_oneof![
        3 => 0..70_usize,
        2 => 1000..20_000_usize,
        2 => 60_000..300_000_usize,
        1 => Just(1_500_000_usize),
    ];
    let slack = prop_oneof![3 => Just(0_isize), 1 => 1..5000_isize, 1 => -5000..0_isize];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (len, layouts(), layouts(), slack, flags).prop_map(
        |(len, from, to, slack, (early, synchronous, cancel))| Message {
            len,
            from,
            to,
            slack,
            early,
            synchronous,
            cancel,
        },
    )
}

/// What is in the buffer, and how the receive ended.
#[track_caller]
fn check(message: &Message, data: &[u8], world: &World, id: RequestId) {
    let (status, handle) = world.receiver().take_with_handle(id).expect("it is complete");
    let (capacity, fits) = (message.capacity(), message.capacity().min(message.len));
    let truncated = OpError::Truncated { message: message.len as u64, capacity: capacity as u64 };
    let outcome = if fits < message.len { Err(truncated) } else { Ok(()) };
    assert_eq!((status.outcome, status.length), (outcome, message.len as u64));
    let found = content(&message.to, handle);
    assert_eq!(found.len(), capacity);
    assert!(found[..fits] == data[..fits], "the bytes changed");
    assert!(found[fits..].iter().all(|&byte| byte == UNTOUCHED), "more was written than came");
}

fn exchange(transport: Transport, settings: &[(&str, &str)], messages: &[Message]) {
    let world = World::new(transport, settings);
    let (sender, receiver) = (world.sender(), world.receiver());
    let mut open = Vec::new();
    for (tag, message) in (0..).zip(messages) {
        let data = pattern(message.len, tag);
        let post = || receiver.recv(exactly(tag), message.to.to_receive(message.capacity()));
        let idle = message.cancel.then(|| {
            let buffer = message.to.to_receive(message.capacity());
            receiver.recv(exactly(tag + 1000), buffer).expect("posted")
        });
        let early = message.early.then(|| post().expect("posted"));
        let mode = if message.synchronous { SendMode::Synchronous } else { SendMode::Standard };
        let buffer = message.from.to_send(&data);
        let sent = sender.send(world.to, envelope(tag), buffer, mode).expect("sent");
        (0..tag % 4).for_each(|_| world.step());
        let receive = early.unwrap_or_else(|| post().expect("posted"));
        if let Some(id) = idle {
            receiver.cancel(id);
            world.complete(receiver, id);
            let (status, handle) = receiver.take_with_handle(id).expect("complete");
            assert_eq!(status.outcome, Err(OpError::Cancelled));
            let untouched = |&byte: &u8| byte == UNTOUCHED;
            // An announced one has ended with its buffer, which is not handed out.
            if handle.is_some() {
                assert!(content(&message.to, handle).iter().all(untouched));
            }
        }
        open.push((message, data, receive, sent));
    }
    for (message, data, receive, sent) in open {
        world.complete(receiver, receive);
        check(message, &data, &world, receive);
        if let Sent::Pending(id) = sent {
            world.complete(sender, id);
            assert_eq!(sender.take(id).expect("complete").outcome, Ok(()));
        }
    }
    drop(world);
    layout::free();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    /// Several messages under way at once, of random layouts on both sides.
    #[test]
    fn any_layout_arrives_by_any_protocol(
        transport in 0..TRANSPORTS.len(),
        settings in 0..SETTINGS.len(),
        messages in proptest::collection::vec(messages(), 1..8),
    ) {
        exchange(TRANSPORTS[transport], SETTINGS[settings], &messages);
    }
}

/// Every pair of layouts by every protocol over every transport, each once.
#[test]
fn every_pair_of_layouts() {
    let layouts = [
        Layout::Whole,
        Layout::Pieces(vec![3000; 30]),
        Layout::Callbacks,
        Layout::Laid { block: 8, stride: 16 },
        Layout::Laid { block: 5000, stride: -6000 },
    ];
    for transport in TRANSPORTS {
        for settings in SETTINGS {
            let mut messages = Vec::new();
            for (from, to) in layouts.iter().flat_map(|f| layouts.iter().map(move |t| (f, t))) {
                for len in [33, 9000, 200_000] {
                    let (from, to) = (from.clone(), to.clone());
                    let (slack, synchronous, cancel) = (0, false, false);
                    let early = len != 9000;
                    messages.push(Message { len, from, to, slack, early, synchronous, cancel });
                }
            }
            exchange(transport, settings, &messages);
        }
    }
}

/// The protocols are those that are meant: long pieces are read and written where they lie, short ones
/// and callbacks go in fragments.
#[test]
fn pieces_go_the_way_that_suits_them() {
    let long = Layout::Pieces(vec![4000; 20]);
    let short = Layout::Pieces(vec![100; 1000]);
    let sim = Transport::Sim { whole_process: true, one_sided: true };
    let cases = [
        (sim, SETTINGS[3], Layout::Whole, long.clone(), [1, 0, 0]),
        (sim, SETTINGS[3], long.clone(), long.clone(), [0, 0, 1]),
        (sim, SETTINGS[3], Layout::Whole, short.clone(), [0, 0, 1]),
        (sim, SETTINGS[4], long.clone(), Layout::Whole, [0, 1, 0]),
        (sim, SETTINGS[4], short, Layout::Whole, [0, 0, 1]),
        (sim, SETTINGS[4], Layout::Callbacks, Layout::Whole, [0, 0, 1]),
        (sim, SETTINGS[3], Layout::Whole, Layout::Callbacks, [0, 0, 1]),
        (Transport::Shm, SETTINGS[4], long.clone(), Layout::Whole, [0, 1, 0]),
        (Transport::Shm, SETTINGS[3], Layout::Whole, long, [1, 0, 0]),
    ];
    for (transport, settings, from, to, expected) in cases {
        let world = World::new(transport, settings);
        let (data, len) = (pattern(150_000, 1), 150_000);
        let receive = world.receiver().recv(exactly(1), to.to_receive(len)).expect("posted");
        let buffer = from.to_send(&data);
        let sent = world.sender().send(world.to, envelope(1), buffer, SendMode::Standard);
        world.complete(world.receiver(), receive);
        let (_, handle) = world.receiver().take_with_handle(receive).expect("complete");
        assert!(content(&to, handle) == data);
        drop(sent);
        let counters = world.receiver().counters();
        let found = [counters.fetched, counters.landed, counters.copied];
        assert_eq!(found, expected, "{transport:?} {settings:?} {from:?} to {to:?}");
    }
}

/// Eager messages go from where they lie, where the transport can and the message is in few pieces.
#[test]
fn eager_messages_go_from_where_they_lie() {
    let few = Layout::Pieces(vec![2000; 3]);
    let many = Layout::Pieces(vec![1100; 6]);
    let cases = [
        (Transport::Tcp, Layout::Whole, 1),
        (Transport::Tcp, few.clone(), 1),
        (Transport::Tcp, Layout::Callbacks, 0),
        (Transport::Itself, Layout::Whole, 1),
        // Its receiver sees the sender's own memory, which is one piece.
        (Transport::Itself, few.clone(), 0),
        (TRANSPORTS[5], Layout::Whole, 1),
        (TRANSPORTS[5], few.clone(), 1),
        (TRANSPORTS[5], many, 1),
        (TRANSPORTS[5], Layout::Pieces(vec![100; 20]), 0),
        (Transport::Shm, Layout::Whole, 0),
        (Transport::Shm, few, 0),
    ];
    for (transport, layout, lent) in cases {
        for settings in [SETTINGS[8], &[SETTINGS[8], &[("BOWLINE_ZCOPY_THRESHOLD", "1g")]].concat()]
        {
            let world = World::new(transport, settings);
            let lent = if settings.len() == 3 { lent } else { 0 };
            let data = pattern(8000, 2);
            for tag in 0..3 {
                let receive =
                    || world.receiver().recv(exactly(tag), Layout::Whole.to_receive(8000));
                let early = (tag == 1).then(receive);
                let buffer = layout.to_send(&data);
                let sent = world.sender().send(world.to, envelope(tag), buffer, SendMode::Standard);
                match sent.expect("sent") {
                    Sent::Done => assert_eq!(lent, 0, "one that is lent has a request"),
                    Sent::Pending(id) => {
                        world.complete(world.sender(), id);
                        assert_eq!(world.sender().take(id).expect("complete").outcome, Ok(()));
                    }
                }
                let id = early.unwrap_or_else(receive).expect("posted");
                world.complete(world.receiver(), id);
                let (status, bytes) = world.receiver().take_with_buffer(id).expect("complete");
                assert_eq!((status.outcome, bytes), (Ok(()), Some(data.clone())));
            }
            let counted = world.sender().counters().sent_zcopy;
            assert_eq!(counted, 3 * lent, "{transport:?} {layout:?} {settings:?}");
        }
    }
}

/// A peer that dies with a message under way that is lent: the send ends, by the transport's report, and
/// its buffer comes back.
#[test]
fn a_lent_message_ends_with_its_peer() {
    for steps in 0..6 {
        let world = World::new(TRANSPORTS[3], SETTINGS[8]);
        let data = pattern(8000, 2);
        let first =
            world.sender().send(world.to, envelope(0), SendBuf::owned(vec![1]), SendMode::Standard);
        drop(first.expect("sent"));
        let sent: Vec<_> = (0..20)
            .map(|tag| {
                let buffer = SendBuf::owned(data.clone());
                world.sender().send(world.to, envelope(tag), buffer, SendMode::Standard)
            })
            .collect();
        (0..steps).for_each(|_| world.step());
        world.kill(1);
        for sent in sent {
            let Ok(Sent::Pending(id)) = sent else { panic!("one that is lent has a request") };
            world.complete(world.sender(), id);
            let (status, bytes) = world.sender().take_with_buffer(id).expect("complete");
            assert!(matches!(status.outcome, Ok(()) | Err(OpError::PeerFailed(_))));
            assert_eq!(bytes, Some(data.clone()));
        }
        assert!(world.sender().counters().sent_zcopy > 0);
    }
}

/// A callback that refuses, or panics, fails its receive alone; the sender is done, and the next message
/// arrives.
#[test]
fn a_callback_that_refuses_fails_its_receive() {
    for transport in TRANSPORTS {
        for settings in SETTINGS {
            for (len, next) in [(4000, 0), (4000, 1), (150_000, 0), (150_000, 1)] {
                let world = World::new(transport, settings);
                // The one that has taken a byte before it began panics when it gets the first.
                let unpacker = Unpacker { buffer: vec![0; len], next, picky: true };
                let buffer = RecvBuf::unpacked_by(Box::new(unpacker));
                let failing = world.receiver().recv(exactly(1), buffer).expect("posted");
                let send = |tag| {
                    let buffer = SendBuf::owned(pattern(len, tag));
                    world.sender().send(world.to, envelope(tag), buffer, SendMode::Standard)
                };
                let sent = [send(1), send(2)].map(|sent| sent.expect("sent"));
                let fine = world.receiver().recv(exactly(2), RecvBuf::owned(vec![0; len]));
                let fine = fine.expect("posted");
                world.complete(world.receiver(), failing);
                world.complete(world.receiver(), fine);
                let status = world.receiver().take(failing).expect("complete");
                assert_eq!(status.outcome, Err(OpError::NotUnpacked), "{transport:?} {settings:?}");
                let (status, bytes) = world.receiver().take_with_buffer(fine).expect("complete");
                assert_eq!((status.outcome, bytes), (Ok(()), Some(pattern(len, 2))));
                for sent in sent {
                    if let Sent::Pending(id) = sent {
                        world.complete(world.sender(), id);
                        assert_eq!(world.sender().take(id).expect("complete").outcome, Ok(()));
                    }
                }
            }
        }
    }
}

/// The buffer of a send comes back as it was given.
#[test]
fn a_sent_layout_comes_back() {
    let world = World::new(TRANSPORTS[3], SETTINGS[2]);
    let data = pattern(50_000, 3);
    let receive = |len| world.receiver().recv(exactly(1), RecvBuf::owned(vec![0; len]));
    for layout in [Layout::Pieces(vec![10, 0, 20_000]), Layout::Callbacks] {
        let receive = receive(data.len()).expect("posted");
        let buffer = layout.to_send(&data);
        let sent = world.sender().send(world.to, envelope(1), buffer, SendMode::Standard);
        let Ok(Sent::Pending(id)) = sent else { panic!("a rendezvous is not done at once") };
        world.complete(world.sender(), id);
        world.complete(world.receiver(), receive);
        let (_, handle) = world.sender().take_with_handle(id).expect("complete");
        let Some(Handle::Send(buffer)) = handle else { panic!("a send's handle") };
        match &layout {
            Layout::Pieces(lengths) => assert_eq!(buffer.into_pieces(), Some(cut(&data, lengths))),
            _ => assert!(buffer.into_pieces().is_none()),
        }
        world.receiver().take(receive).expect("complete");
    }
}

#[test]
fn active_messages_take_layouts() {
    let layouts = [Layout::Whole, Layout::Pieces(vec![0, 2000, 7, 30_000]), Layout::Callbacks];
    for transport in TRANSPORTS {
        for settings in SETTINGS {
            let world = World::new(transport, settings);
            let kept: Arc<Mutex<Vec<AmKept>>> = Arc::default();
            let log = Arc::clone(&kept);
            let keep = Box::new(move |_: &_, message: bowline_ucp::AmMessage<'_>| {
                log.lock().expect("not poisoned").push(message.keep());
            });
            world.receiver().am_handler(7, keep);
            for (from, to) in layouts.iter().flat_map(|f| layouts.iter().map(move |t| (f, t))) {
                for len in [5, 3000, 120_000] {
                    let data = pattern(len, 9);
                    let sent = world.sender().am_send(world.to, 7, b"head", from.to_send(&data));
                    let sent = sent.expect("sent");
                    let arrived = || !kept.lock().expect("not poisoned").is_empty();
                    world.until("the handler runs", arrived);
                    let message = kept.lock().expect("not poisoned").pop().expect("there is one");
                    assert_eq!((message.header(), message.len()), (&b"head"[..], len as u64));
                    let id = world.receiver().am_recv(message, to.to_receive(len)).expect("posted");
                    world.complete(world.receiver(), id);
                    let (status, handle) = world.receiver().take_with_handle(id).expect("complete");
                    assert_eq!(status.outcome, Ok(()));
                    assert!(
                        content(to, handle) == data,
                        "{transport:?} {settings:?} {from:?} {to:?}"
                    );
                    if let Sent::Pending(id) = sent {
                        world.complete(world.sender(), id);
                    }
                }
            }
        }
    }
}

#[test]
fn streams_take_pieces() {
    let pieces = Layout::Pieces(vec![3, 0, 5000, 40_000]);
    for transport in TRANSPORTS {
        for settings in SETTINGS {
            let world = World::new(transport, settings);
            let data = pattern(100_000, 4);
            let mut at = 0;
            for (len, layout) in [(20, &pieces), (60_000, &pieces), (39_980, &Layout::Callbacks)] {
                let part = layout.to_send(&data[at..at + len]);
                drop(world.sender().stream_send(world.to, part).expect("sent"));
                at += len;
            }
            let mut all = Vec::new();
            for len in [1000, 70_000, 29_000] {
                let buffer = pieces.to_receive(len);
                let got = world.receiver().stream_recv(world.back, buffer, StreamWant::ALL);
                let buffer = match got.expect("the stream is there") {
                    StreamReceived::Done(n, buffer) => {
                        assert_eq!(n, len as u64);
                        Some(Handle::Receive(buffer))
                    }
                    StreamReceived::Pending(id) => {
                        world.complete(world.receiver(), id);
                        world.receiver().take_with_handle(id).expect("complete").1
                    }
                };
                all.extend(content(&pieces, buffer));
            }
            assert!(all == data, "{transport:?} {settings:?}");
            let buffer = Layout::Callbacks.to_receive(10);
            let refused = world.receiver().stream_recv(world.back, buffer, StreamWant::SOME);
            assert!(matches!(refused, Err(OpError::Unsupported)), "{refused:?}");
        }
    }
}

#[test]
fn puts_and_gets_take_pieces() {
    let pieces = Layout::Pieces(vec![3, 0, 5000, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 40_000]);
    for transport in &TRANSPORTS[..5] {
        let world = World::new(*transport, &[]);
        let (sender, receiver) = (world.sender(), world.receiver());
        let memory = receiver.mem_register(RecvBuf::owned(vec![UNTOUCHED; 60_000]));
        let memory = memory.expect("memory can be registered");
        let base = receiver.mem_view(memory, |view| view.as_ptr().addr() as u64).expect("there");
        let packed = receiver.rkey_pack(memory).expect("there");
        let key = sender.rkey_unpack(world.to, &packed).expect("it opens");
        let data = pattern(50_000, 8);
        let wait = |sent: Result<Sent, OpError>| match sent.expect("posted") {
            Sent::Done => None,
            Sent::Pending(id) => {
                world.complete(sender, id);
                let (status, handle) = sender.take_with_handle(id).expect("complete");
                assert_eq!(status.outcome, Ok(()));
                handle
            }
        };
        drop(wait(sender.put(key, base + 100, pieces.to_send(&data))));
        let flushed = sender.flush_ep(world.to).expect("a flush begins");
        drop(wait(Ok(flushed)));
        let handle = wait(sender.get(key, base, pieces.to_receive(60_000)));
        let found = content(&pieces, handle);
        assert!(found[100..50_100] == data[..], "{transport:?}");
        assert!(found[..100].iter().chain(&found[50_100..]).all(|&byte| byte == UNTOUCHED));
        let packer = SendBuf::packed_by(Box::new(Packer(vec![1; 10], 0)));
        assert!(matches!(sender.put(key, base, packer), Err(OpError::Unsupported)));
        let refused = receiver.mem_register(pieces.to_receive(10));
        assert!(refused.is_err(), "{refused:?}");
    }
}
