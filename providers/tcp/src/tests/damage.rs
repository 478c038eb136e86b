//! Peers that proved themselves and then say what no correct peer says, or end in odd ways.

use std::net::Shutdown;

use bowline_base::buffer::RecvBuf;
use bowline_base::counters::CounterGroup as _;
use bowline_uct::{
    AmId, Iface, LocalSlice, MemoryDomain, OneSided, PeerFailure, Posted, RemoteSlice, Source,
    Token,
};

use super::{ID, Raw, Side, options, pair, until, watchdog, works};
use crate::frame::{Frame, HEADER_BYTES, MAX_RMA, Status};

fn lost(side: &Side) -> Vec<PeerFailure> {
    side.seen.failed.iter().map(|failed| failed.2).collect()
}

#[test]
fn damaged_frames_fail_their_sender_alone() {
    let _dog = watchdog("damaged_frames_fail_their_sender_alone");
    let mut a = Side::open(options());
    let mut good = Side::open(options());
    works(&mut good, &mut a);
    let mut wrong = Frame::am(ID, &[0; 3], 0).encode();
    wrong[0] = 99;
    let mut long = Frame::am(ID, &[0; 3], 0).encode();
    long[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let done = Status::Done;
    let cases: [Vec<u8>; 8] = [
        wrong.to_vec(),
        long.to_vec(),
        Frame::old(0, done, 1).encode().to_vec(),
        Frame::flushed(0).encode().to_vec(),
        Frame::data(0, done, true, 4).encode().to_vec(),
        Frame::data(0, done, false, MAX_RMA).encode().to_vec(),
        Frame::end(0, done).encode().to_vec(),
        vec![0xff; 4096],
    ];
    for (round, case) in cases.iter().enumerate() {
        let mut raw = Raw::join(&mut a);
        raw.say(&Frame::am(ID, &[1, 2, 3], 2).encode());
        raw.say(b"hi");
        raw.say(case);
        // Some cases need what follows them.
        raw.say(&[0; 64]);
        until(&mut [&mut a], |sides| sides[0].seen.failed.len() > round);
        assert_eq!(lost(&a)[round], PeerFailure::Damaged, "case {round}");
        let message = a.seen.messages.pop().expect("what came before is delivered");
        assert_eq!((message.header, &message.payload[..]), ([1, 2, 3], &b"hi"[..]));
        raw.dropped(&mut a);
        works(&mut good, &mut a);
    }
    assert_eq!(a.iface.counters().snapshot().value("damaged"), Some(cases.len() as u64));
}

#[test]
fn a_half_closed_connection_is_a_death() {
    let _dog = watchdog("a_half_closed_connection_is_a_death");
    let mut a = Side::open(options());
    let raw = Raw::join(&mut a);
    raw.stream.shutdown(Shutdown::Write).unwrap();
    until(&mut [&mut a], |sides| !sides[0].seen.failed.is_empty());
    assert_eq!(lost(&a), [PeerFailure::Died]);
    // With a goodbye before it is none.
    let mut raw = Raw::join(&mut a);
    raw.say(&Frame::bye().encode());
    raw.stream.shutdown(Shutdown::Write).unwrap();
    until(&mut [&mut a], |sides| sides[0].seen.failed.len() > 1);
    assert_eq!(lost(&a), [PeerFailure::Died, PeerFailure::Closed]);
    // In the midst of a frame.
    let mut raw = Raw::join(&mut a);
    raw.say(&Frame::am(ID, &[0; 3], 1000).encode());
    raw.say(&[1; 500]);
    drop(raw);
    until(&mut [&mut a], |sides| sides[0].seen.failed.len() > 2);
    assert_eq!(lost(&a)[2], PeerFailure::Died);
    assert!(a.seen.messages.is_empty(), "half a message is none");
}

#[test]
fn frames_in_single_bytes_are_put_together() {
    let _dog = watchdog("frames_in_single_bytes_are_put_together");
    let mut a = Side::open(options());
    let (mut first, mut second) = (Raw::join(&mut a), {
        let mut raw = Raw::connect(&a);
        raw.uid = 0xbeef;
        let hello = raw.hello(&a);
        raw.introduce(&mut a, &hello, super::SECRET, &[]);
        assert_eq!(raw.hear(&mut a, 56).unwrap()[8], 1);
        raw
    });
    let frame = |number: u64| {
        let mut bytes = Frame::am(AmId::new(1), &[number, 0, 0], 100).encode().to_vec();
        bytes.extend((0..100).map(|i| i ^ number as u8));
        bytes
    };
    // Two senders in turn, so that the receive buffer changes hands within each frame.
    for number in 0..3 {
        for (x, y) in frame(number).into_iter().zip(frame(number + 100)) {
            first.say(&[x]);
            a.progress();
            second.say(&[y]);
            a.progress();
            a.progress();
        }
    }
    until(&mut [&mut a], |sides| sides[0].seen.messages.len() == 6);
    for message in a.seen.messages.drain(..) {
        let number = message.header[0];
        assert!(message.payload.iter().zip(0..).all(|(byte, i)| *byte == i ^ number as u8));
        assert_eq!(message.source, Source(u32::from(number >= 100)));
    }
}

#[test]
fn who_asks_too_much_at_once_is_dropped() {
    let _dog = watchdog("who_asks_too_much_at_once_is_dropped");
    let mut small = options();
    (small.sndbuf, small.rcvbuf) = (Some(4096), Some(4096));
    let mut a = Side::open(small);
    let mut raw = Raw::join(&mut a);
    // Where nobody has set it, the kernel lets it grow to tens of megabytes for what is not read.
    rustix::net::sockopt::set_socket_recv_buffer_size(&raw.stream, 4096).unwrap();
    let flush = Frame::flush(1).encode();
    // Without reading an answer; the kernels' buffers hold some thousands.
    let mut rest: &[u8] = &[];
    until(&mut [&mut a], |sides| {
        use std::io::Write as _;
        if rest.is_empty() {
            rest = &flush;
        }
        if let Ok(sent) = raw.stream.write(rest) {
            rest = &rest[sent..];
        }
        !sides[0].seen.failed.is_empty()
    });
    assert_eq!(lost(&a), [PeerFailure::Damaged]);
}

#[test]
fn memory_released_while_it_is_read_is_an_error_of_the_reader() {
    let _dog = watchdog("memory_released_while_it_is_read_is_an_error_of_the_reader");
    const LEN: usize = 32 << 20;
    let (mut a, mut b, ep) = pair();
    let handle = b.iface.mem_register(RecvBuf::owned(vec![7; LEN])).unwrap();
    let address = b.iface.mem_view(handle).unwrap().as_ptr() as u64;
    let packed = b.iface.rkey_pack(handle).unwrap();
    let rkey = a.iface.rkey_unpack(ep, &packed).unwrap();
    works(&mut a, &mut b);
    let mut buffer = RecvBuf::owned(vec![0; LEN]);
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let piece = unsafe { LocalSlice::of_recv(&mut buffer, 0, LEN) }.unwrap();
    let at = RemoteSlice { address, rkey };
    assert_eq!(a.iface.get_zcopy(ep, &[piece], at, Token(9)), Ok(Posted::InFlight));
    // The first part is on its way, the rest does not fit into the kernel.
    until(&mut [&mut b], |sides| sides[0].iface.peers[0].as_ref().is_some_and(|peer| peer.blocked));
    assert!(b.iface.mem_release(handle).unwrap().is_some());
    a.post(ep, 5);
    until(&mut [&mut a, &mut b], |sides| !sides[0].seen.completed.is_empty());
    assert_eq!(a.seen.completed, [(Token(9), Err(PeerFailure::Refused))]);
    until(&mut [&mut a, &mut b], |sides| sides[1].seen.messages.len() == 1);
    // From the start.
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let piece = unsafe { LocalSlice::of_recv(&mut buffer, 0, 8) }.unwrap();
    assert_eq!(a.iface.get_zcopy(ep, &[piece], at, Token(10)), Ok(Posted::InFlight));
    until(&mut [&mut a, &mut b], |sides| sides[0].seen.completed.len() == 2);
    assert_eq!(a.seen.completed[1], (Token(10), Err(PeerFailure::Refused)));
    works(&mut a, &mut b);
    assert!(a.seen.failed.is_empty() && b.seen.failed.is_empty());
}

#[test]
fn long_puts_to_released_memory_go_nowhere() {
    let _dog = watchdog("long_puts_to_released_memory_go_nowhere");
    const LEN: usize = 8 << 20;
    let (mut a, mut b, ep) = pair();
    let handle = b.iface.mem_alloc(LEN).unwrap();
    let address = b.iface.mem_view(handle).unwrap().as_ptr() as u64;
    let packed = b.iface.rkey_pack(handle).unwrap();
    let rkey = a.iface.rkey_unpack(ep, &packed).unwrap();
    works(&mut a, &mut b);
    let buffer = bowline_base::buffer::SendBuf::owned(vec![1; LEN]);
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let piece = unsafe { LocalSlice::of_send(&buffer, 0, LEN) }.unwrap();
    let at = RemoteSlice { address, rkey };
    assert_eq!(a.iface.put_zcopy(ep, &[piece], at, Token(1)), Ok(Posted::InFlight));
    // Some of it arrives before the memory is gone.
    until(&mut [&mut b], |sides| {
        sides[0].iface.peers[0].as_ref().is_some_and(|peer| peer.direct.is_some())
    });
    b.iface.mem_release(handle).unwrap();
    until(&mut [&mut a, &mut b], |sides| sides[0].iface.am_short(ep, ID, &[3, 0, 0], &[]).is_ok());
    until(&mut [&mut a, &mut b], |sides| {
        !sides[1].seen.messages.is_empty() && !sides[0].seen.completed.is_empty()
    });
    assert_eq!(a.seen.completed, [(Token(1), Ok(0))], "complete locally");
    works(&mut a, &mut b);
}

#[test]
fn what_was_posted_before_a_drop_arrives() {
    let _dog = watchdog("what_was_posted_before_a_drop_arrives");
    // The connection is not even made when the sender is dropped.
    let (mut a, mut b, ep) = pair();
    for number in 0..500 {
        a.post(ep, number);
    }
    let receiver = std::thread::spawn(move || {
        until(&mut [&mut b], |sides| !sides[0].seen.failed.is_empty());
        b
    });
    drop(a);
    let b = receiver.join().unwrap();
    assert_eq!(lost(&b), [PeerFailure::Closed]);
    assert!(b.seen.messages.iter().map(|m| m.header[0]).eq(0..500));
}

/// A rank that computes does not receive; its host answers nevertheless.
#[test]
fn a_full_receiver_is_not_taken_for_a_dead_host() {
    let _dog = watchdog("a_full_receiver_is_not_taken_for_a_dead_host");
    let mut hasty = options();
    hasty.timeout = std::time::Duration::from_secs(1);
    let (mut a, mut b) = (Side::open(hasty.clone()), Side::open(hasty));
    works(&mut a, &mut b);
    let ep = a.iface.connect(&b.iface.address()).unwrap();
    let mut posted = 0;
    while a.iface.am_short(ep, ID, &[posted, 0, 0], &[1; 4000]).is_ok() {
        posted += 1;
    }
    // Several times the time-out, in which only the kernels talk.
    let start = std::time::Instant::now();
    while start.elapsed() < std::time::Duration::from_secs(5) {
        a.progress();
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(a.seen.failed.is_empty(), "{:?}", a.seen.failed);
    until(&mut [&mut a, &mut b], |sides| sides[1].seen.messages.len() as u64 == posted);
    assert!(b.seen.messages.iter().map(|message| message.header[0]).eq(0..posted));
}

#[test]
fn the_longest_frame_header_fits() {
    const { assert!(HEADER_BYTES == 32) };
    assert!(size_of::<crate::peer::Peer>() <= 512, "{}", size_of::<crate::peer::Peer>());
}
