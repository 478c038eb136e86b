//! What a sender holds for a flag goes on by this protocol alone.

use bowline_base::buffer::{RecvBuf, SendBuf};

use super::held::Enabled;
use crate::peer::Peer;
use crate::proto::peer_offers::Offers;
use crate::proto::rtr::RTR;
use crate::proto::tests::pair_of;
use crate::{Envelope, MatchSpec, SendMode, Sent};

#[test]
fn held_sends_go_on_without_the_announcing_protocol() {
    let (network, workers, ep) = pair_of(&[("BOWLINE_ANY_SOURCE", "flags")], |_| {});
    for worker in &workers {
        let protocols = &mut worker.inner.borrow_mut().engine.protocols;
        protocols.lives.retain(|life| life.protocol() != &RTR);
    }
    let spec = MatchSpec { space: 0, source: Some(0), tag: 7, tag_mask: u64::MAX };
    let receive = || workers[1].recv(spec, RecvBuf::owned(vec![0; 100])).expect("it is open");
    let send = || {
        let envelope = Envelope { space: 0, source: 0, tag: 7 };
        let buffer = SendBuf::owned(vec![1; 100]);
        workers[0].send(ep, envelope, buffer, SendMode::Standard).expect("the peer is there")
    };
    let step = || {
        let events = workers[0].progress() + workers[1].progress();
        assert!(events > 0 || network.advance(), "nothing is under way, yet it is not done");
    };
    let first = receive();
    assert!(matches!(send(), Sent::Done));
    while !workers[1].is_complete(first) {
        step();
    }
    let of = |what: &mut dyn FnMut(&mut Peer)| {
        what(&mut workers[0].inner.borrow_mut().engine.peers[ep.index() as usize]);
    };
    of(&mut |peer| {
        let next = peer.tx_sequence;
        let flags = &mut peer.watches.make(|| Offers::new(next, None)).flags;
        let (entry, mask) = (1, u64::MAX);
        flags.entries.push(Enabled { entry, space: 0, tag: 7, mask, least: 1, raised: Some(7) });
        peer.recompute_short_limit();
    });
    let Sent::Pending(sent) = send() else { panic!("it waits for the flag") };
    of(&mut |peer| {
        let flags = &mut peer.watches.of_mut::<Offers>().expect("they were made").flags;
        assert_eq!(flags.held.len(), 1);
        // As where the lane was full.
        flags.going = 1;
    });
    workers[0].inner.borrow_mut().resume(ep.index());
    let second = receive();
    while !workers[0].is_complete(sent) || !workers[1].is_complete(second) {
        step();
    }
    assert_eq!(workers[1].wait(second).outcome, Ok(()));
}
