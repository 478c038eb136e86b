//! Two workers of which each reaches the other by another lane, and one leaves or dies: what it had sent is received, though
//! the lane to it fails before the lane from it is read.

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_sim::{Network, NetworkOptions};
use bowline_ucp::{Envelope, Ep, MatchSpec, OpError, PeerFailure, SendMode, Sent, Worker};
use bowline_uct::{Iface, IfaceAttr};

use crate::doubles::{Altered, config, joined, of_everybody, opened, parts};
use crate::pair::pattern;

const FROM_1: MatchSpec = MatchSpec { space: 0, source: Some(1), tag: 7, tag_mask: u64::MAX };

/// An interface of each network, under names that differ.
fn lanes(networks: &[Network; 2]) -> [Box<dyn Iface>; 2] {
    let names: [fn(&mut IfaceAttr); 2] =
        [|attr| attr.provider = "first", |attr| attr.provider = "second"];
    [0, 1].map(|at| {
        Box::new(Altered::new(networks[at].open(), names[at], |_| true)) as Box<dyn Iface>
    })
}

/// Rank 0 reaches rank 1 by the first network, and rank 1 reaches rank 0 by the second.
fn workers(networks: &[Network; 2]) -> [Worker; 2] {
    let config = config(&[]);
    [0, 1].map(|rank| {
        let [first, second] = lanes(networks);
        let (by, other) = if rank == 0 { (first, second) } else { (second, first) };
        let mut parts = parts(rank, by, &config);
        parts.lanes.push(other);
        opened(parts, 0, of_everybody())
    })
}

fn send(worker: &Worker, ep: Ep, source: u32, len: usize) {
    let envelope = Envelope { space: 0, source, tag: 7 };
    let buffer = SendBuf::owned(pattern(len, source as u8));
    let sent = worker.send(ep, envelope, buffer, SendMode::Standard);
    assert!(matches!(sent, Ok(Sent::Done)), "a short message is sent at once");
}

/// Time passes on both networks; whether anything was under way.
fn advance(networks: &[Network; 2]) -> bool {
    networks.iter().fold(false, |passed, network| network.advance() | passed)
}

#[test]
fn what_a_peer_sent_by_another_lane_comes_before_its_end() {
    for how in [PeerFailure::Closed, PeerFailure::Died] {
        let networks = [0, 1].map(|_| Network::new(NetworkOptions::default()));
        let [here, there] = workers(&networks);
        let workers = [here, there];
        let [to_1, to_0] = joined(&workers);
        let [here, there] = workers;
        send(&here, to_1, 0, 10);
        while here.progress() + there.progress() > 0 || advance(&networks) {}

        let receives = [(); 2]
            .map(|()| here.recv(FROM_1, RecvBuf::owned(vec![0; 100])).expect("the space is open"));
        send(&there, to_0, 1, 100);
        // The message is there, and rank 0 has not read it, when rank 1 ends on both networks.
        while there.progress() > 0 || advance(&networks) {}
        if how == PeerFailure::Died {
            networks.iter().for_each(|network| network.kill(1));
        }
        drop(there);
        while advance(&networks) {}

        while here.progress() > 0 || advance(&networks) {}
        let (status, bytes) = here.take_with_buffer(receives[0]).expect("its message has come");
        assert_eq!((status.outcome, bytes), (Ok(()), Some(pattern(100, 1))), "{how}");
        let status = here.take(receives[1]).expect("nobody sends to it any more");
        assert_eq!(status.outcome, Err(OpError::MemberFailed { rank: 1 }), "{how}");
    }
}
