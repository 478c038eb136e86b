//! What the tests with devices share: options, a sink that writes down, and whether this machine
//! can run them at all.

#![allow(dead_code, reason = "`network` uses a part of it")]

use std::time::Duration;

use bowline_uct::conformance::skipped;
use bowline_uct::{
    AmHeader, AmId, Arrival, EpId, Iface, PeerFailure, Sink, Source, Token, Verdict,
};
use bowline_verbs::{VerbsIface, VerbsOptions};

/// Set in the guest, where devices must be there.
pub(crate) const GUEST: &str = "BOWLINE_TEST_GUEST";

/// Whether there is a device. Where there is none the reason is printed, and in the guest it is a
/// failure.
pub(crate) fn has_device(_test: &str) -> bool {
    match VerbsIface::open(&VerbsOptions::default()) {
        Ok(_) => true,
        Err(error) if std::env::var_os(GUEST).is_none() => {
            skipped(error);
            false
        }
        Err(error) => panic!("the guest has devices, and yet: {error}"),
    }
}

/// Options for tests: small pools, and failures that are noticed within seconds.
pub(crate) fn options(device: usize) -> VerbsOptions {
    let mut options = VerbsOptions::default();
    if std::env::var_os(GUEST).is_some() {
        options.device = format!("rxe{}", device % 2);
    }
    options.receive_buffers = 128;
    options.send_buffers = 64;
    options.peer_timeout = Duration::from_secs(3);
    options
}

/// Writes down what is reported to it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) messages: Vec<(AmId, AmHeader, Vec<u8>)>,
    pub(crate) completed: Vec<(Token, Result<u64, PeerFailure>)>,
    pub(crate) failed: Vec<PeerFailure>,
}

impl Sink for Seen {
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        self.messages.push((arrival.id, arrival.header, arrival.payload.to_vec()));
        Verdict::Consumed
    }
    fn completed(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        self.completed.push((token, result));
    }
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, _: Option<EpId>, how: PeerFailure) {
        self.failed.push(how);
    }
}

/// Two interfaces that are connected to each other, with endpoints both ways.
pub(crate) struct Pair {
    pub(crate) a: VerbsIface,
    pub(crate) b: VerbsIface,
    pub(crate) to_b: EpId,
    pub(crate) to_a: EpId,
    pub(crate) seen_a: Seen,
    pub(crate) seen_b: Seen,
}

impl Pair {
    pub(crate) fn open(change: impl Fn(&mut VerbsOptions)) -> Self {
        let open = |device| {
            let mut options = options(device);
            change(&mut options);
            VerbsIface::open(&options).expect("there is a device")
        };
        let (mut a, mut b) = (open(0), open(1));
        let to_b = a.connect(&b.address()).expect("they reach each other");
        let to_a = b.connect(&a.address()).expect("they reach each other");
        Self { a, b, to_b, to_a, seen_a: Seen::default(), seen_b: Seen::default() }
    }

    /// Progress of both until `done`; the test's watchdog ends what never is.
    pub(crate) fn until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        while !done(self) {
            let events =
                self.a.progress(&mut self.seen_a, 16) + self.b.progress(&mut self.seen_b, 16);
            if events == 0 {
                std::thread::yield_now();
            }
        }
    }
}
