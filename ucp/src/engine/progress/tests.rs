//! Tests of what progress does and other calls leave to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bowline_base::buffer::SendBuf;
use bowline_uct::PeerFailure;

use crate::action::Action;
use crate::proto::tests::pair;
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
