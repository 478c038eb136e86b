//! Tests of what progress does and other calls leave to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bowline_base::buffer::SendBuf;
use bowline_uct::PeerFailure;

use crate::action::Action;
use crate::proto::tests::pair;
use crate::state::keepalive::Watched;
use crate::{AmInPlace, Sent};

/// Other calls carry out what the last round of progress has left, and poll nothing: their callers may hold what handlers in
/// place use.
#[test]
fn a_failure_that_is_left_polls_in_progress_alone() {
    let (network, workers, ep) = pair();
    let seen = Arc::new(AtomicU32::new(0));
    let handled = Arc::clone(&seen);
    let handler = move |_: AmInPlace<'_>| {
        // Relaxed, here and below: one thread.
        handled.fetch_add(1, Ordering::Relaxed);
    };
    workers[1].am_handler_in_place(9, Box::new(handler));
    let sent = || {
        let sent = workers[0].am_send(ep, 9, &[], SendBuf::owned(vec![1; 8]));
        assert!(matches!(sent, Ok(Sent::Done)), "a short message is sent at once");
        network.run_until_quiet();
    };
    sent();
    while workers[1].progress() > 0 || network.advance() {}
    assert_eq!(seen.load(Ordering::Relaxed), 1);
    sent();
    let peer = 0;
    let failure = || workers[1].inner.borrow().engine.peers[peer as usize].failure();
    let lost = Action::Lost { peer, how: PeerFailure::Died };
    workers[1].inner.borrow_mut().engine.actions.push(lost);
    workers[1].close_space(0);
    assert_eq!((seen.load(Ordering::Relaxed), failure()), (1, None));
    workers[1].progress();
    assert_eq!((seen.load(Ordering::Relaxed), failure()), (2, Some(PeerFailure::Died)));
}

/// A check that finds nobody says nothing of how the peer has ended: it may have closed behind messages that were not read.
#[test]
fn a_peer_that_was_asked_after_has_closed_behind_its_messages() {
    let (network, [sender, receiver], ep) = pair();
    let seen = Arc::new(AtomicU32::new(0));
    let handled = Arc::clone(&seen);
    let handler = move |_: AmInPlace<'_>| {
        // Relaxed, here and below: one thread.
        handled.fetch_add(1, Ordering::Relaxed);
    };
    receiver.am_handler_in_place(9, Box::new(handler));
    let send = || {
        let sent = sender.am_send(ep, 9, &[], SendBuf::owned(vec![1; 8]));
        assert!(matches!(sent, Ok(Sent::Done)), "a short message is sent at once");
    };
    send();
    network.run_until_quiet();
    while receiver.progress() > 0 || sender.progress() > 0 || network.advance() {}
    assert_eq!(seen.load(Ordering::Relaxed), 1);
    send();
    send();
    drop(sender);
    network.run_until_quiet();
    let peer = 0;
    let failure = || receiver.inner.borrow().engine.peers[peer as usize].failure();
    let asked = {
        let inner = &mut *receiver.inner.borrow_mut();
        let heard = inner.engine.peers[peer as usize].rx_sequence;
        inner.rounds.clock = Some(Box::new(|| Duration::from_secs(1)));
        inner.rounds.due = Some(Duration::ZERO);
        inner.rounds.watched.push(Watched { peer, heard });
        inner.keep_alive()
    };
    assert_eq!((asked, failure()), (1, None), "its messages come first");
    receiver.progress();
    assert_eq!(seen.load(Ordering::Relaxed), 3);
    assert_eq!(failure(), Some(PeerFailure::Closed));
    assert!(receiver.inner.borrow().engine.dead.is_empty(), "it has not died");
}
