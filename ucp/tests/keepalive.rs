//! Asking after silent peers, in a network that reports no deaths.

use std::sync::Arc;

use crate::sides::Sides;
use bowline_base::sync::atomic::{AtomicU32, Ordering};
use bowline_sim::NetworkOptions;
use bowline_ucp::{CloseMode, EpOptions, ErrorMode, OpError, PeerFailure, SendMode};

const SECOND: u64 = 1_000_000_000;

fn quiet(checks: bool) -> NetworkOptions {
    NetworkOptions { reports_deaths: false, checks, ..NetworkOptions::default() }
}

/// Virtual time passes: something is under way from worker 0 to itself all the time, as a stand-in for
/// whatever else goes on.
fn pass(sides: &Sides, ns: u64) {
    let end = sides.network.now() + ns;
    let to = sides.connect(0, 2);
    while sides.network.now() < end {
        let _ = sides.send(0, to, vec![], SendMode::Standard);
        let receive = sides.recv(2, 0);
        sides.rounds(80);
        sides.workers[2].cancel(receive);
        let _ = sides.workers[2].take(receive);
    }
}

/// A network on which each message takes a tenth of a second, so that seconds pass in few rounds.
fn slow(checks: bool) -> NetworkOptions {
    NetworkOptions { latency_ns: SECOND / 10, detect_ns: SECOND / 2, ..quiet(checks) }
}

/// The death of a silent peer is noticed within the interval, by a check of the transport or by a
/// probe; without keep-alive it is not.
#[test]
fn a_silent_death_is_noticed() {
    for (checks, mode, noticed) in
        [(true, "auto", true), (false, "auto", true), (true, "off", false), (false, "off", false)]
    {
        let settings = [("BOWLINE_KEEPALIVE", mode), ("BOWLINE_KEEPALIVE_INTERVAL", "5s")];
        let sides = Sides::new(3, slow(checks), &settings);
        let reported = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&reported);
        let options = EpOptions {
            errors: if noticed { ErrorMode::Peer } else { ErrorMode::None },
            on_error: Some(Box::new(move |_, _, how| {
                assert_eq!(how, PeerFailure::Died);
                // Relaxed: one thread.
                count.fetch_add(1, Ordering::Relaxed);
            })),
        };
        let ep = sides.workers[0].connect_with(&sides.workers[1].address(), options);
        let ep = ep.expect("reachable");
        let receive = sides.recv(1, 1);
        let sent = sides.send(0, ep, vec![1], SendMode::Standard);
        sides.end(0, sent).outcome.expect("it is there");
        sides.until(|| sides.workers[1].is_complete(receive));
        sides.network.kill(1);
        pass(&sides, 20 * SECOND);
        // Relaxed: one thread.
        assert_eq!(reported.load(Ordering::Relaxed), u32::from(noticed), "{checks} {mode}");
        assert_eq!(sides.workers[0].counters().asked_after > 0, noticed);
        if noticed {
            let sent = sides.send(0, ep, vec![1], SendMode::Standard);
            assert!(matches!(sent, Err(OpError::PeerFailed(PeerFailure::Died))), "{sent:?}");
        }
    }
}

/// A peer that computes for a long time, and polls nothing, is not declared dead.
#[test]
fn a_computing_peer_is_left_alone() {
    for checks in [true, false] {
        let settings = [("BOWLINE_KEEPALIVE_INTERVAL", "2s")];
        let sides = Sides::new(3, slow(checks), &settings);
        let ep = sides.connect(0, 1);
        let sent = sides.send(0, ep, vec![1], SendMode::Standard);
        sides.end(0, sent).outcome.expect("it is there");
        let computing = &sides.workers[1];
        computing.progress();
        let other = sides.connect(0, 2);
        let end = sides.network.now() + 60 * SECOND;
        while sides.network.now() < end {
            // Nobody calls progress of worker 1.
            let _ = sides.send(0, other, vec![], SendMode::Standard);
            for _ in 0..80 {
                sides.workers[0].progress();
                sides.workers[2].progress();
            }
            sides.network.advance();
        }
        assert!(sides.workers[0].counters().asked_after >= 10);
        assert_eq!(sides.workers[0].counters().peers_failed, 0);
        let receive = sides.recv(1, 1);
        sides.until(|| sides.workers[1].is_complete(receive));
        let closed = sides.workers[0].close(ep, CloseMode::Flush);
        assert_eq!(sides.end(0, closed).outcome, Ok(()));
    }
}

/// Where nothing would notice a death, an endpoint that demands it is refused, with the reason.
#[test]
fn what_cannot_be_noticed_is_not_promised() {
    let sides = Sides::new(2, quiet(true), &[("BOWLINE_KEEPALIVE_INTERVAL", "0")]);
    let options = || EpOptions { errors: ErrorMode::Peer, on_error: None };
    let refused = sides.workers[0].connect_with(&sides.workers[1].address(), options());
    let reason = refused.expect_err("nobody would notice").to_string();
    assert!(reason.contains("BOWLINE_KEEPALIVE_INTERVAL"), "{reason}");
    let sides = Sides::new(2, NetworkOptions::default(), &[("BOWLINE_KEEPALIVE", "off")]);
    let fine = sides.workers[0].connect_with(&sides.workers[1].address(), options());
    assert!(fine.is_ok(), "the transport notices: {fine:?}");
}

/// A round asks after no more than a batch of peers in one call, and after all of them in the end.
#[test]
fn a_round_goes_in_batches() {
    let settings = [("BOWLINE_KEEPALIVE_INTERVAL", "1s"), ("BOWLINE_KEEPALIVE_BATCH", "4")];
    let sides = Sides::new(34, slow(true), &settings);
    for to in 1..34 {
        let ep = sides.connect(0, to);
        let sent = sides.send(0, ep, vec![1], SendMode::Standard);
        sides.end(0, sent).outcome.expect("it is there");
    }
    let mut seen = sides.workers[0].counters().asked_after;
    while sides.network.now() < 4 * SECOND {
        let _ = sides.send(0, sides.connect(0, 1), vec![], SendMode::Standard);
        for _ in 0..64 {
            sides.workers[0].progress();
        }
        sides.workers[1].progress();
        let now = sides.workers[0].counters().asked_after;
        assert!(now - seen <= 4, "{} in one turn", now - seen);
        seen = now;
        sides.network.advance();
    }
    assert!(seen >= 33, "only {seen} were asked after");
}
