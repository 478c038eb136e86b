//! What a peer has sent before it closed or was given up is read first, however late. Networks that heal: what comes late from a peer that was given up reaches no memory that was given
//! back.

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_uct::{
    Iface, LocalSlice, MemoryDomain as _, OneSided, PeerFailure, Posted, RemoteSlice, Token,
};

use super::{Side, options, pair, until, watchdog};
use crate::handshake::Stage;
use crate::hello::Kind;
use crate::peer::State;

/// Longer than the kernel's buffers.
const LEN: usize = 32 << 20;
const PATTERN: u8 = 0xaa;

/// Both sides go on; the one that was given up sends what it has.
fn heal(a: &mut Side, b: &mut Side) {
    until(&mut [a, b], |sides| sides[1].seen.failed.len() == 1);
    for _ in 0..1000 {
        a.progress();
        b.progress();
    }
}

#[test]
fn a_late_answer_to_a_read_reaches_no_memory_that_was_given_back() {
    let _dog = watchdog("a_late_answer_to_a_read_reaches_no_memory_that_was_given_back");
    for how in [PeerFailure::Unreachable, PeerFailure::Damaged, PeerFailure::Closed] {
        for begun in [false, true] {
            let (mut a, mut b, ep) = pair();
            let window = b.iface.mem_alloc(LEN).unwrap();
            b.iface.mem_view(window).unwrap().copy_in(&vec![7; LEN]);
            let start = b.iface.mem_view(window).unwrap().as_ptr() as u64;
            until(&mut [&mut a, &mut b], |sides| {
                sides[0].iface.peer(ep.0).is_some_and(|peer| peer.state == State::Open)
                    && sides[1].iface.open == 1
            });
            let packed = b.iface.rkey_pack(window).unwrap();
            let rkey = a.iface.rkey_unpack(ep, &packed).unwrap();
            let mut memory = RecvBuf::owned(vec![0; LEN]);
            // SAFETY: the memory stays where it is until the operation was answered or its interface is gone.
            let into = unsafe { LocalSlice::of_recv(&mut memory, 0, LEN) }.unwrap();
            let there = RemoteSlice { address: start, rkey };
            let posted = a.iface.get_zcopy(ep, &[into], there, Token(1));
            assert_eq!(posted, Ok(Posted::InFlight));
            let mut byte = [0];
            while begun && byte[0] == 0 {
                a.progress();
                b.progress();
                memory.view().slice(0, 1).unwrap().copy_out(&mut byte);
            }
            a.iface.fail(ep.0, how);
            until(&mut [&mut a], |sides| sides[0].seen.failed.len() == 1);
            assert_eq!(a.seen.completed, [(Token(1), Err(how))]);
            let mut memory = memory.into_owned().unwrap();
            assert_eq!(memory[LEN - 1], 0, "the read had ended before");
            memory.fill(PATTERN);
            heal(&mut a, &mut b);
            assert!(memory.iter().all(|&byte| byte == PATTERN), "written after the failure");
        }
    }
}

#[test]
fn the_rest_of_a_peers_write_reaches_no_memory_that_was_given_back() {
    let _dog = watchdog("the_rest_of_a_peers_write_reaches_no_memory_that_was_given_back");
    let (mut a, mut b, ep) = pair();
    a.post(ep, 1);
    until(&mut [&mut a, &mut b], |sides| !sides[1].seen.messages.is_empty());
    let back = b.iface.connect(&a.iface.address()).unwrap();
    let memory = RecvBuf::owned(vec![0; LEN]);
    let address = memory.address();
    let handle = a.iface.mem_register(memory).unwrap();
    let packed = a.iface.rkey_pack(handle).unwrap();
    let rkey = b.iface.rkey_unpack(back, &packed).unwrap();
    let bytes = SendBuf::owned(vec![7; LEN]);
    // SAFETY: the memory stays where it is until the operation was answered or its interface is gone.
    let from = unsafe { LocalSlice::of_send(&bytes, 0, LEN) }.unwrap();
    let there = RemoteSlice { address, rkey };
    assert_eq!(b.iface.put_zcopy(back, &[from], there, Token(1)), Ok(Posted::InFlight));
    let mut byte = [0];
    while byte[0] == 0 {
        a.progress();
        b.progress();
        a.iface.mem_view(handle).unwrap().slice(0, 1).unwrap().copy_out(&mut byte);
    }
    a.iface.fail(ep.0, PeerFailure::Unreachable);
    until(&mut [&mut a], |sides| sides[0].seen.failed.len() == 1);
    let mut memory = a.iface.mem_release(handle).unwrap().unwrap().into_owned().unwrap();
    assert_eq!(memory[LEN - 1], 0, "the write had ended before");
    memory.fill(PATTERN);
    heal(&mut a, &mut b);
    assert!(memory.iter().all(|&byte| byte == PATTERN), "written after the failure");
}

/// A key of a peer that has gone opens nothing of the one that has its number now.
#[test]
fn a_key_of_a_former_peer_opens_nothing() {
    let _dog = watchdog("a_key_of_a_former_peer_opens_nothing");
    let (mut a, mut b, ep) = pair();
    let window = b.iface.mem_alloc(4096).unwrap();
    let address = b.iface.mem_view(window).unwrap().as_ptr() as u64;
    let packed = b.iface.rkey_pack(window).unwrap();
    a.post(ep, 1);
    until(&mut [&mut a, &mut b], |sides| !sides[1].seen.messages.is_empty());
    let rkey = a.iface.rkey_unpack(ep, &packed).unwrap();
    drop(b);
    until(&mut [&mut a], |sides| !sides[0].seen.failed.is_empty());
    a.iface.disconnect(ep);
    let mut c = Side::open(options());
    let again = a.iface.connect(&c.iface.address()).unwrap();
    assert_eq!(again, ep, "the number is used again");
    a.post(again, 2);
    until(&mut [&mut a, &mut c], |sides| !sides[1].seen.messages.is_empty());
    let there = RemoteSlice { address, rkey };
    let posted = a.iface.put_short(again, &[1; 8], there);
    assert_eq!(posted, Err(bowline_uct::PostError::BadArgument));
}

/// Neither the time-out of a host that was lost nor anything else comes before what lies in the kernel.
#[test]
fn what_a_lost_host_has_sent_comes_first() {
    let _dog = watchdog("what_a_lost_host_has_sent_comes_first");
    for closes in [false, true] {
        let (mut a, mut b, ep) = pair();
        a.post(ep, 0);
        until(&mut [&mut a, &mut b], |sides| !sides[1].seen.messages.is_empty());
        let back = b.iface.connect(&a.iface.address()).unwrap();
        for number in 0..40 {
            b.post(back, number);
        }
        let left = if closes {
            drop(b);
            None
        } else {
            Some(b)
        };
        a.iface.mark_broken(ep.0, PeerFailure::Unreachable);
        assert!(
            a.iface.am_short(ep, super::ID, &[0; 3], &[]).is_err(),
            "nothing is posted any more"
        );
        while a.seen.failed.is_empty() {
            a.iface.progress(&mut a.seen, 1);
        }
        let numbers: Vec<u64> = a.seen.messages.iter().map(|message| message.header[0]).collect();
        assert_eq!(numbers, (0..40).collect::<Vec<_>>());
        let how = if closes { PeerFailure::Closed } else { PeerFailure::Unreachable };
        assert_eq!(a.seen.failed[0].2, how);
        drop(left);
    }
}

/// One that leaves before it has read the answer to its handshake has not died.
#[test]
fn a_client_that_closes_in_a_handshake_has_closed() {
    let _dog = watchdog("a_client_that_closes_in_a_handshake_has_closed");
    for read_before in [false, true] {
        let (mut a, mut b, _) = pair();
        let waits = |side: &Side| {
            let answers = Stage::Await(Kind::Answer);
            side.iface.handshakes.iter().flatten().any(|handshake| handshake.stage == answers)
        };
        while !waits(&a) {
            a.progress();
            if !waits(&a) {
                b.progress();
            }
        }
        while read_before && b.iface.open == 0 {
            b.progress();
        }
        assert!(waits(&a), "the answer is not read");
        drop(a);
        until(&mut [&mut b], |sides| !sides[0].seen.failed.is_empty());
        assert_eq!(b.seen.failed[0].2, PeerFailure::Closed, "{read_before}");
    }
}
