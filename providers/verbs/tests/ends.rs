//! The order of what a peer has sent and the news of its end: messages that had arrived before come
//! before, those of a new connection of the same peer come after.

use crate::common::{has_device, options};
use bowline_uct::conformance::Watchdog;
use bowline_uct::{
    AmId, Arrival, EpId, Iface, PeerFailure, PostError, Posted, Sink, Source, Token, Verdict,
};
use bowline_verbs::{ConnectWhen, VerbsIface, VerbsMode};

const ID: AmId = AmId::new(3);

/// Writes down what is reported to it, in order.
#[derive(Debug, Default)]
struct Reported {
    /// A message's first header word, or the failure.
    events: Vec<Result<u64, PeerFailure>>,
    done: Vec<Token>,
}

impl Sink for Reported {
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        self.events.push(Ok(arrival.header[0]));
        Verdict::Consumed
    }
    fn completed(&mut self, token: Token, _: Result<u64, PeerFailure>) {
        self.done.push(token);
    }
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, _: Option<EpId>, how: PeerFailure) {
        self.events.push(Err(how));
    }
}

struct Sides {
    sender: VerbsIface,
    receiver: VerbsIface,
    to_receiver: EpId,
    said: Reported,
    reported: Reported,
}

impl Sides {
    fn open(mode: VerbsMode) -> Self {
        let open = |device| {
            let mut options = options(device);
            options.mode = mode;
            options.connect = ConnectWhen::AtOnce;
            VerbsIface::open(&options).expect("there is a device")
        };
        let (mut sender, mut receiver) = (open(0), open(1));
        let to_receiver = sender.connect(&receiver.address()).expect("they reach each other");
        receiver.connect(&sender.address()).expect("they reach each other");
        Self {
            sender,
            receiver,
            to_receiver,
            said: Reported::default(),
            reported: Reported::default(),
        }
    }

    fn until(&mut self, mut done: impl FnMut(&Self) -> bool) {
        while !done(self) {
            self.sender.progress(&mut self.said, 16);
            self.receiver.progress(&mut self.reported, 16);
            std::thread::yield_now();
        }
    }

    /// Sends, with progress of the sender only.
    fn send(&mut self, numbers: std::ops::Range<u64>) {
        for number in numbers {
            while let Err(error) =
                self.sender.am_short(self.to_receiver, ID, &[number, 0, 0], &[7; 8])
            {
                assert_eq!(error, PostError::NoResource);
                self.sender.progress(&mut self.said, 16);
            }
        }
    }
}

const MODES: [VerbsMode; 2] = [VerbsMode::Rc, VerbsMode::Ud];

#[test]
fn what_a_peer_sent_comes_before_its_end() {
    const NAME: &str = "what_a_peer_sent_comes_before_its_end";
    if !has_device(NAME) {
        return;
    }
    let _watchdog = Watchdog::start("verbs", NAME);
    for mode in MODES {
        // With a budget of one, messages wait while the news of the end is there.
        for budget in [1, 16] {
            let mut sides = Sides::open(mode);
            sides.send(0..1);
            sides.until(|sides| sides.reported.events.len() == 1);
            sides.send(1..24);
            let Sides { sender, mut receiver, mut reported, .. } = sides;
            // Both are taken in by the receiver's device, without the receiver's progress.
            drop(sender);
            while !reported.events.iter().any(Result::is_err) {
                receiver.progress(&mut reported, budget);
                std::thread::yield_now();
            }
            let mut all: Vec<_> = (0..24).map(Ok).collect();
            all.push(Err(PeerFailure::Closed));
            assert_eq!(reported.events, all, "{mode:?}, budget {budget}");
        }
    }
}

#[test]
fn a_peer_that_comes_anew_is_reported_in_order() {
    const NAME: &str = "a_peer_that_comes_anew_is_reported_in_order";
    if !has_device(NAME) {
        return;
    }
    let _watchdog = Watchdog::start("verbs", NAME);
    for mode in MODES {
        let mut sides = Sides::open(mode);
        sides.send(0..1);
        sides.until(|sides| sides.reported.events.len() == 1);
        sides.send(1..9);
        if mode == VerbsMode::Rc {
            // The device's acknowledgement says that they have arrived.
            let token = Token(1);
            if sides.sender.flush(sides.to_receiver, token) == Ok(Posted::InFlight) {
                while sides.said.done.is_empty() {
                    sides.sender.progress(&mut sides.said, 16);
                }
            }
        } else {
            // Datagrams on a cable without losses arrive in no time.
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        sides.sender.invalidate(sides.to_receiver);
        sides.sender.disconnect(sides.to_receiver);
        let address = sides.receiver.address();
        // The receiver's thread answers, whether it makes progress or not.
        sides.to_receiver = sides.sender.connect(&address).expect("it is still there");
        sides.send(100..104);
        sides.until(|sides| sides.reported.events.last() == Some(&Ok(103)));
        let before = (0..9).map(Ok);
        let after = (100..104).map(Ok);
        let failure = [Err(PeerFailure::Unreachable)];
        let all: Vec<_> = before.chain(failure).chain(after).collect();
        assert_eq!(sides.reported.events, all, "{mode:?}");
    }
}
