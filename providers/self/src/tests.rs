//! The conformance suite, and what only this provider promises.

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::config::Config;
use bowline_uct::conformance::Provider;
use bowline_uct::conformance::harness::Recorder;
use bowline_uct::{
    AmId, EpId, Iface, LocalSlice, MemoryDomain, OneSided, PeerFailure, PostError, Posted,
    RemoteSlice, Token,
};

use crate::{BUFFERS, SETTINGS, SelfConfig, SelfIface};

struct SelfProvider;

impl Provider for SelfProvider {
    type Iface = SelfIface;
    const NAME: &'static str = "self";
    const LOOPBACK: bool = true;

    fn open(size: usize) -> (Self, Vec<SelfIface>) {
        assert_eq!(size, 1, "a group of a loopback provider is one interface");
        (Self, vec![SelfIface::open(SelfConfig::default()).expect("memory for the pool")])
    }
}

bowline_uct::conformance!(SelfProvider);

const ID: AmId = AmId::new(3);

fn open(slots: u32, buffers: u32) -> (SelfIface, EpId) {
    let config = SelfConfig { slots, buffers, buffer_bytes: 256 };
    let mut iface = SelfIface::open(config).unwrap();
    let address = iface.address();
    let ep = iface.connect(&address).unwrap();
    (iface, ep)
}

#[test]
fn sizes_come_from_the_configuration() {
    let mut config = Config::from_pairs([("BOWLINE_SELF_SLOTS", "16")], &[SETTINGS]).unwrap();
    config.set(BUFFERS, 4).unwrap();
    let sizes = SelfConfig::of(&config);
    assert_eq!(sizes, SelfConfig { slots: 16, buffers: 4, buffer_bytes: 8192 });
    let mut iface = SelfIface::open(sizes).unwrap();
    let address = iface.address();
    let ep = iface.connect(&address).unwrap();
    for _ in 0..16 {
        iface.am_short(ep, ID, &[0; 3], &[]).unwrap();
    }
    assert_eq!(iface.am_short(ep, ID, &[0; 3], &[]), Err(PostError::NoResource));
}

#[test]
fn a_lent_message_completes_after_it_has_arrived_whatever_the_budget() {
    let (mut iface, ep) = open(4, 2);
    let buffer = SendBuf::owned(vec![7; 100_000]);
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let slice = unsafe { LocalSlice::of_send(&buffer, 0, buffer.len()) }.unwrap();
    let posted = iface.am_zcopy(ep, ID, &[0; 3], &[slice], Token(5));
    assert_eq!(posted, Ok(Posted::InFlight));
    let mut seen = Recorder::default();
    assert_eq!(iface.progress(&mut seen, 1), 1);
    assert_eq!((seen.messages.len(), seen.completed.len()), (1, 0));
    assert_eq!(seen.messages[0].payload, buffer.contiguous().expect("in one piece"));
    assert_eq!(iface.progress(&mut seen, 1), 1);
    assert_eq!(seen.completed, [(Token(5), Ok(0))]);
    assert_eq!(iface.progress(&mut seen, 1), 0);
}

#[test]
fn a_lent_message_of_a_failed_endpoint_is_not_read_any_more() {
    let (mut iface, ep) = open(8, 2);
    let address = iface.address();
    let other = iface.connect(&address).unwrap();
    let buffer = SendBuf::owned(vec![7; 300]);
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let slice = unsafe { LocalSlice::of_send(&buffer, 0, 300) }.unwrap();
    let posts = [(ep, Token(1)), (other, Token(2)), (ep, Token(3)), (ep, Token::NONE)];
    for (ep, token) in posts {
        assert_eq!(iface.am_zcopy(ep, ID, &[token.0; 3], &[slice], token), Ok(Posted::InFlight));
    }
    let mut seen = Recorder::default();
    // The first has arrived already, its completion is still to come.
    assert_eq!(iface.progress(&mut seen, 1), 1);
    iface.invalidate(ep);
    while iface.progress(&mut seen, 1) > 0 {}
    assert_eq!(seen.messages.len(), 2, "the first, and that of the other endpoint");
    assert_eq!(seen.messages[1].header[0], 2);
    let died = Err(PeerFailure::Died);
    assert_eq!(seen.completed, [(Token(3), died), (Token(1), Ok(0)), (Token(2), Ok(0))]);
    assert_eq!(seen.failed, [(None, Some(ep), PeerFailure::Died)]);
}

#[test]
fn an_endpoint_made_anew_is_not_taken_for_the_one_before() {
    let (mut iface, ep) = open(8, 2);
    let buffer = SendBuf::owned(vec![7; 10]);
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let slice = unsafe { LocalSlice::of_send(&buffer, 0, 10) }.unwrap();
    assert_eq!(iface.am_zcopy(ep, ID, &[0; 3], &[slice], Token(1)), Ok(Posted::InFlight));
    iface.disconnect(ep);
    let address = iface.address();
    assert_eq!(iface.connect(&address).unwrap(), ep, "numbers are used again");
    iface.invalidate(ep);
    let mut seen = Recorder::default();
    while iface.progress(&mut seen, 8) > 0 {}
    assert_eq!(seen.completed, [(Token(1), Ok(0))], "the earlier endpoint's operation goes on");
}

#[test]
fn who_waits_for_a_buffer_keeps_its_place_before_who_asked_later() {
    let (mut iface, first) = open(8, 2);
    let address = iface.address();
    let (second, third) = (iface.connect(&address).unwrap(), iface.connect(&address).unwrap());
    let mut pack = |space: bowline_base::view::View<'_>| space.copy_in(&[1; 100]);
    let mut seen = Recorder::default();
    for _ in 0..2 {
        iface.am_bcopy(first, ID, &[0; 3], 100, &mut pack).unwrap();
    }
    for ep in [first, second] {
        let refused = iface.am_bcopy(ep, ID, &[0; 3], 100, &mut pack);
        assert_eq!(refused, Err(PostError::NoResource), "both buffers are under way");
        iface.want_writable(ep);
    }
    // There are slots, so an endpoint that needs no buffer is reported.
    iface.want_writable(third);
    iface.progress(&mut seen, 1);
    assert_eq!((std::mem::take(&mut seen.writable), seen.messages.len()), (vec![third], 0));
    while seen.writable.len() < 2 {
        assert!(iface.progress(&mut seen, 1) > 0);
    }
    assert_eq!((seen.writable, seen.messages.len()), (vec![first, second], 2));
}

#[test]
fn released_memory_and_keys_of_others_reach_nothing() {
    let (mut iface, ep) = open(8, 2);
    let handle = iface.mem_alloc(64).unwrap();
    let start = iface.mem_view(handle).unwrap().as_ptr() as u64;
    let packed = iface.rkey_pack(handle).unwrap();
    let rkey = iface.rkey_unpack(ep, &packed).unwrap();
    let at = RemoteSlice { address: start, rkey };
    iface.put_short(ep, &[1; 8], at).unwrap();
    iface.mem_release(handle).unwrap();
    assert_eq!(iface.put_short(ep, &[1; 8], at), Err(PostError::BadRemote));
    assert!(iface.rkey_unpack(ep, &packed).is_err(), "a key of released memory opens");
    let (mut other, other_ep) = open(8, 2);
    let theirs = other.mem_register(RecvBuf::owned(vec![0; 64])).unwrap();
    let packed = other.rkey_pack(theirs).unwrap();
    assert!(iface.rkey_unpack(ep, &packed).is_err(), "another interface's key opens");
    assert!(other.rkey_unpack(other_ep, &packed).is_ok());
}

#[test]
fn a_notification_that_finds_no_slot_puts_nothing() {
    let (mut iface, ep) = open(2, 2);
    let handle = iface.mem_alloc(64).unwrap();
    let address = iface.mem_view(handle).unwrap().as_ptr() as u64;
    let packed = iface.rkey_pack(handle).unwrap();
    let at = RemoteSlice { address, rkey: iface.rkey_unpack(ep, &packed).unwrap() };
    for _ in 0..2 {
        iface.am_short(ep, ID, &[0; 3], &[]).unwrap();
    }
    let refused = iface.put_notify(ep, &[9; 8], at, ID, &[0; 3]);
    assert_eq!(refused, Err(PostError::NoResource));
    assert_eq!(iface.mem_view(handle).unwrap().to_vec(), [0; 64]);
}
