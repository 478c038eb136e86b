//! What is particular to memory behind a network card: withdrawn keys, registrations that end
//! with their operations, atomics of several initiators.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{Pair, has_device};
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_uct::conformance::Watchdog;
use bowline_uct::{
    AtomicOp, AtomicWidth, Iface, LocalSlice, MemoryDomain, OneSided, PeerFailure, PostError,
    Posted, RemoteSlice, Token,
};
use bowline_verbs::{ConnectWhen, VerbsIface};

fn connected() -> Pair {
    Pair::open(|options| options.connect = ConnectWhen::AtOnce)
}

fn registrations(iface: &VerbsIface) -> usize {
    match iface {
        VerbsIface::Rc(iface) => iface.transient_registrations(),
        _ => 0,
    }
}

/// A withdrawn key fails the operation and the connection, as `Refused`, writes nothing, and a
/// new connection works.
#[test]
fn a_withdrawn_key_is_refused() {
    if !has_device("a_withdrawn_key_is_refused") {
        return;
    }
    let _watchdog = Watchdog::start("verbs", "a_withdrawn_key_is_refused");
    let mut pair = connected();
    let handle = pair.b.mem_register(RecvBuf::owned(vec![0; 4096])).expect("it registers");
    let address = pair.b.mem_view(handle).expect("it is held").as_ptr() as u64;
    let packed = pair.b.rkey_pack(handle).expect("it has a key");
    let rkey = pair.a.rkey_unpack(pair.to_b, &packed).expect("a whole key opens");
    let to = RemoteSlice { address, rkey };
    let back = pair.b.mem_release(handle).expect("it was held").expect("it was registered");
    pair.a.put_short(pair.to_b, &[7; 8], to).expect("nobody knows yet");
    let flushed = pair.a.flush(pair.to_b, Token(5));
    assert_eq!(flushed, Ok(Posted::InFlight));
    pair.until(|pair| !pair.seen_a.failed.is_empty());
    assert_eq!(pair.seen_a.failed, [PeerFailure::Refused]);
    assert_eq!(pair.seen_a.completed, [(Token(5), Err(PeerFailure::Refused))]);
    assert_eq!(back.into_owned(), Some(vec![0; 4096]), "written nevertheless");
    assert_eq!(pair.a.put_short(pair.to_b, &[7; 8], to), Err(PostError::PeerFailed));
    // Anew, after the other side has heard of it.
    pair.until(|pair| !pair.seen_b.failed.is_empty());
    pair.a.disconnect(pair.to_b);
    pair.b.disconnect(pair.to_a);
    let address = pair.b.address();
    pair.to_b = pair.a.connect(&address).expect("the peer is well");
    let id = bowline_uct::AmId::new(3);
    pair.a.am_short(pair.to_b, id, &[1, 2, 3], b"again").expect("it is connected");
    pair.until(|pair| !pair.seen_b.messages.is_empty());
    assert_eq!(pair.seen_b.messages[0], (id, [1, 2, 3], b"again".to_vec()));
}

/// Memory that was lent to an operation is registered while that is under way and no longer;
/// memory of a handle is not registered again.
#[test]
fn registrations_end_with_their_operations() {
    if !has_device("registrations_end_with_their_operations") {
        return;
    }
    let _watchdog = Watchdog::start("verbs", "registrations_end_with_their_operations");
    let mut pair = connected();
    let window = pair.b.mem_alloc(1 << 16).expect("there is memory");
    let address = pair.b.mem_view(window).expect("it is held").as_ptr() as u64;
    let packed = pair.b.rkey_pack(window).expect("it has a key");
    let rkey = pair.a.rkey_unpack(pair.to_b, &packed).expect("a whole key opens");
    let to = RemoteSlice { address, rkey };
    let lent = SendBuf::owned(vec![5; 1 << 16]);
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let slice = unsafe { LocalSlice::of_send(&lent, 0, lent.len()) }.expect("all of it");
    for token in 1..=3 {
        let posted = pair.a.put_zcopy(pair.to_b, &[slice], to, Token(token));
        assert_eq!(posted, Ok(Posted::InFlight));
    }
    assert!(registrations(&pair.a) <= 1, "the same bytes are registered once");
    pair.until(|pair| pair.seen_a.completed.len() == 3);
    assert_eq!(registrations(&pair.a), 0, "a registration outlived its operations");
    // A handle of its own: nothing to register.
    let own = pair.a.mem_alloc(4096).expect("there is memory");
    let view = pair.a.mem_view(own).expect("it is held");
    let mut borrowed = {
        // SAFETY: the allocation stays until the end of the test and is used by nobody else.
        unsafe { RecvBuf::borrowed(view.as_ptr(), view.len()) }
    };
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let slice = unsafe { LocalSlice::of_recv(&mut borrowed, 0, 4096) }.expect("all of it");
    let posted = pair.a.get_zcopy(pair.to_b, &[slice], to, Token(9));
    assert_eq!(posted, Ok(Posted::InFlight));
    assert_eq!(registrations(&pair.a), 0, "registered twice");
    pair.until(|pair| pair.seen_a.completed.len() == 4);
    assert_eq!(pair.a.mem_view(own).expect("it is held").to_vec(), vec![5; 4096]);
}

/// Memory that is exposed is read where it lies, also where the program itself may not write it, and written by nobody.
/// Who exposes the same bytes shares their registration, which ends with the last of them.
#[test]
fn exposed_bytes_share_a_registration() {
    /// Mapped for reading from the program's file.
    static TEXT: [u8; 1 << 16] = [9; 1 << 16];
    if !has_device("exposed_bytes_share_a_registration") {
        return;
    }
    let _watchdog = Watchdog::start("verbs", "exposed_bytes_share_a_registration");
    let mut pair = connected();
    let own = SendBuf::owned((0..1 << 16).map(|at| at as u8).collect());
    let expected: Vec<u8> = (0..1 << 16).map(|at| at as u8).collect();
    // SAFETY: a static stays, and is never written.
    let text = unsafe { SendBuf::borrowed(TEXT.as_ptr(), TEXT.len()) };
    for (token, sent, expected) in [(1, &own, &expected[..]), (10, &text, &TEXT[..])] {
        // SAFETY: both buffers are kept, and left alone, until the test ends.
        let slice = unsafe { LocalSlice::of_send(sent, 0, sent.len()) }.expect("all of it");
        let handles = [(); 2].map(|()| pair.b.mem_expose(slice).expect("it can be exposed"));
        assert_eq!(registrations(&pair.b), 1, "the same bytes are registered once");
        for (place, handle) in handles.into_iter().enumerate() {
            let token = Token(token + place as u64);
            let packed = pair.b.rkey_pack(handle).expect("it has a key");
            let rkey = pair.a.rkey_unpack(pair.to_b, &packed).expect("a whole key opens");
            let from = RemoteSlice { address: slice.as_ptr() as u64, rkey };
            let mut into = RecvBuf::owned(vec![0; 1 << 16]);
            // SAFETY: the buffer is kept, and left alone, until the operation has ended.
            let to = unsafe { LocalSlice::of_recv(&mut into, 0, 1 << 16) }.expect("all of it");
            let posted = pair.a.get_zcopy(pair.to_b, &[to], from, token);
            assert_eq!(posted, Ok(Posted::InFlight));
            pair.until(|pair| !pair.seen_a.completed.is_empty());
            assert_eq!(std::mem::take(&mut pair.seen_a.completed), [(token, Ok(0))]);
            assert_eq!((registrations(&pair.a), registrations(&pair.b)), (0, 1));
            assert!(into.into_owned().as_deref() == Some(expected), "other bytes were read");
            assert!(matches!(pair.b.mem_release(handle), Ok(None)), "it stays its owner's");
            pair.a.rkey_release(rkey);
        }
        assert_eq!(registrations(&pair.b), 0, "a registration outlived its last loan");
    }
}

/// A key of exposed memory does not open it to writes, and after the release not to reads.
#[test]
fn exposed_bytes_are_not_written_and_their_release_shuts_them() {
    if !has_device("exposed_bytes_are_not_written_and_their_release_shuts_them") {
        return;
    }
    let _watchdog =
        Watchdog::start("verbs", "exposed_bytes_are_not_written_and_their_release_shuts_them");
    for release in [false, true] {
        let mut pair = connected();
        let sent = SendBuf::owned(vec![5; 4096]);
        // SAFETY: the buffer is kept, and left alone, until the test ends.
        let slice = unsafe { LocalSlice::of_send(&sent, 0, sent.len()) }.expect("all of it");
        let exposed = pair.b.mem_expose(slice).expect("it can be exposed");
        let packed = pair.b.rkey_pack(exposed).expect("it has a key");
        let rkey = pair.a.rkey_unpack(pair.to_b, &packed).expect("a whole key opens");
        let at = RemoteSlice { address: slice.as_ptr() as u64, rkey };
        let mut into = RecvBuf::owned(vec![0; 4096]);
        let posted = if release {
            assert!(matches!(pair.b.mem_release(exposed), Ok(None)));
            // SAFETY: the buffer is kept, and left alone, until the operation has ended.
            let to = unsafe { LocalSlice::of_recv(&mut into, 0, 4096) }.expect("all of it");
            pair.a.get_zcopy(pair.to_b, &[to], at, Token(6))
        } else {
            pair.a.put_short(pair.to_b, &[7; 8], at).expect("nobody knows yet");
            pair.a.flush(pair.to_b, Token(6))
        };
        assert_eq!(posted, Ok(Posted::InFlight));
        pair.until(|pair| !pair.seen_a.failed.is_empty());
        assert_eq!(pair.seen_a.failed, [PeerFailure::Refused]);
        assert_eq!(pair.seen_a.completed, [(Token(6), Err(PeerFailure::Refused))]);
        assert_eq!(sent.into_owned(), Some(vec![5; 4096]), "written nevertheless");
        assert_eq!(into.into_owned(), Some(vec![0; 4096]), "read nevertheless");
    }
}

/// Two initiators work on one word with operations that the device has and ones that it lacks:
/// no step is lost.
#[test]
fn atomics_of_several_initiators_mix() {
    const STEPS: u64 = 300;
    if !has_device("atomics_of_several_initiators_mix") {
        return;
    }
    let _watchdog = Watchdog::start("verbs", "atomics_of_several_initiators_mix");
    let mut pair = connected();
    let mut third = {
        let mut options = crate::common::options(0);
        options.connect = ConnectWhen::AtOnce;
        VerbsIface::open(&options).expect("there is a device")
    };
    let window = pair.b.mem_alloc(64).expect("there is memory");
    let address = pair.b.mem_view(window).expect("it is held").as_ptr() as u64;
    let packed = pair.b.rkey_pack(window).expect("it has a key");
    let from_third = third.connect(&pair.b.address()).expect("they reach each other");
    let over = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let work = |iface: &mut VerbsIface, ep, op: AtomicOp, width, offset| {
            let rkey = iface.rkey_unpack(ep, &packed).expect("a whole key opens");
            let at = RemoteSlice { address: address + offset, rkey };
            let mut seen = crate::common::Seen::default();
            let mut posted = 0;
            while (seen.completed.len() as u64) < STEPS {
                if posted < STEPS && iface.atomic(ep, op, width, at, Token(posted + 1)).is_ok() {
                    posted += 1;
                }
                iface.progress(&mut seen, 16);
                std::thread::yield_now();
            }
            assert!(seen.completed.iter().all(|(_, result)| result.is_ok()));
            // Relaxed: only the count matters.
            over.fetch_add(1, Ordering::Relaxed);
        };
        // The upper half of the word by 32-bit additions, which are emulated; all of it by the
        // device's own, which carry into the upper half only from far below.
        let (a, to_b) = (&mut pair.a, pair.to_b);
        let other = work;
        scope.spawn(move || other(a, to_b, AtomicOp::Add(1), AtomicWidth::W32, 4));
        work(&mut third, from_third, AtomicOp::Add(1), AtomicWidth::W64, 0);
    });
    let mut word = [0; 8];
    pair.b.mem_view(window).expect("it is held").copy_out(&mut word);
    assert_eq!(u64::from_ne_bytes(word), STEPS << 32 | STEPS, "a step was lost");
    assert_eq!(over.into_inner(), 2);
}
