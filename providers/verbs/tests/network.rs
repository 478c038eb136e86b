//! Cables that lose, delay and break: what a device repeats must be invisible, and what it gives up
//! must be an answer to every operation and one failure of the peer.
//!
//! The tests change the guest's network, so they run in the guest only, one at a time. The guest
//! runs one test program at a time, too.

mod common;

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_base::buffer::SendBuf;
use bowline_uct::conformance::{Watchdog, skipped};
use bowline_uct::{
    AmId, Iface, LocalSlice, MemoryDomain, OneSided, PeerFailure, PostError, Posted, RemoteSlice,
    Token,
};
use bowline_verbs::{ConnectWhen, VerbsIface, VerbsMode, VerbsOptions};
use common::{GUEST, Pair, has_device, options};

const ID: AmId = AmId::new(4);
const MODES: [VerbsMode; 2] = [VerbsMode::Rc, VerbsMode::Ud];

/// The two ends of the guest's cable.
const ENDS: [&str; 2] = ["left", "right"];

/// Keeps the tests apart.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The cable with something wrong, which is mended when this is dropped.
struct Cable {
    _alone: MutexGuard<'static, ()>,
}

impl Cable {
    /// The cable, for one test at a time; `None` outside of the guest, with the reason printed.
    fn of_guest(test: &str) -> Option<Self> {
        if std::env::var_os(GUEST).is_none() {
            skipped("it changes the network, which only a guest may have done");
            return None;
        }
        assert!(has_device(test));
        Some(Self { _alone: alone() })
    }

    /// What `tc` calls the fault, in both directions.
    fn fault(&self, netem: &str) {
        for end in ENDS {
            tc(&["qdisc", "replace", "dev", end, "root", "netem"], netem);
        }
    }

    fn mend(&self) {
        for end in ENDS {
            // Errors: there was no fault.
            let _ = Command::new("tc").args(["qdisc", "del", "dev", end, "root"]).output();
        }
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.mend();
    }
}

fn tc(arguments: &[&str], rest: &str) {
    let output = Command::new("tc").args(arguments).args(rest.split(' ')).output();
    let output = output.expect("the guest has it");
    assert!(output.status.success(), "tc: {}", String::from_utf8_lossy(&output.stderr));
}

fn pair(mode: VerbsMode) -> Pair {
    Pair::open(|options| {
        options.mode = mode;
        options.connect = ConnectWhen::AtOnce;
    })
}

/// Posts until it is taken, with progress of both sides.
fn post(pair: &mut Pair, mut post: impl FnMut(&mut VerbsIface) -> Result<(), PostError>) {
    loop {
        match post(&mut pair.a) {
            Ok(()) => return,
            Err(PostError::NoResource) => {
                pair.a.progress(&mut pair.seen_a, 16);
                pair.b.progress(&mut pair.seen_b, 16);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn what_a_cable_loses_and_delays_is_invisible() {
    const NAME: &str = "what_a_cable_loses_and_delays_is_invisible";
    const COUNT: u64 = 600;
    let Some(cable) = Cable::of_guest(NAME) else { return };
    let _watchdog = Watchdog::start("verbs", NAME);
    for mode in MODES {
        let mut pair = pair(mode);
        cable.fault("loss 3% delay 1ms 500us");
        let ep = pair.to_b;
        for number in 0..COUNT {
            // Some are longer than a packet where that can be.
            let len = if number % 10 == 0 { 6000 } else { number as usize % 150 };
            let len = len.min(pair.a.attr().limits.am.max_bcopy);
            let byte = number as u8;
            post(&mut pair, |a| {
                let pack =
                    &mut |space: bowline_base::view::View<'_>| space.copy_in(&vec![byte; len]);
                a.am_bcopy(ep, ID, &[number, 0, 0], len, pack).map(drop)
            });
        }
        assert!(matches!(pair.a.flush(ep, Token(9)), Ok(Posted::InFlight | Posted::Done)));
        pair.until(|pair| pair.seen_b.messages.len() as u64 == COUNT);
        for (number, (id, header, bytes)) in pair.seen_b.messages.iter().enumerate() {
            assert_eq!((*id, header[0]), (ID, number as u64), "{mode:?}: order");
            assert!(bytes.iter().all(|byte| *byte == number as u8), "{mode:?}: contents");
        }
        assert!(pair.seen_a.failed.is_empty() && pair.seen_b.failed.is_empty(), "{mode:?}");
        cable.mend();
    }
}

#[test]
fn transfers_over_a_lossy_cable_are_whole() {
    const NAME: &str = "transfers_over_a_lossy_cable_are_whole";
    const LEN: usize = 200_000;
    let Some(cable) = Cable::of_guest(NAME) else { return };
    let _watchdog = Watchdog::start("verbs", NAME);
    let mut pair = pair(VerbsMode::Rc);
    let window = pair.b.mem_alloc(LEN).expect("there is memory");
    let address = pair.b.mem_view(window).expect("it is held").as_ptr() as u64;
    let packed = pair.b.rkey_pack(window).expect("it has a key");
    let rkey = pair.a.rkey_unpack(pair.to_b, &packed).expect("a whole key opens");
    cable.fault("loss 1%");
    for round in 0..5_u8 {
        let bytes: Vec<u8> = (0..LEN).map(|at| (at % 251) as u8 ^ round).collect();
        let buffer = SendBuf::owned(bytes.clone());
        // SAFETY: the buffer is kept, and left alone, until the operation has ended.
        let slice = unsafe { LocalSlice::of_send(&buffer, 0, LEN) }.expect("all of it");
        let token = Token(u64::from(round) + 1);
        let (ep, to) = (pair.to_b, RemoteSlice { address, rkey });
        post(&mut pair, |a| a.put_zcopy(ep, &[slice], to, token).map(drop));
        pair.until(|pair| pair.seen_a.completed.iter().any(|(done, _)| *done == token));
        assert_eq!(pair.seen_a.completed.pop(), Some((token, Ok(0))));
        let flush = Token(100);
        if pair.a.flush(ep, flush) == Ok(Posted::InFlight) {
            pair.until(|pair| pair.seen_a.completed.pop().is_some_and(|(done, _)| done == flush));
        }
        let arrived = pair.b.mem_view(window).expect("it is held").to_vec();
        assert!(arrived[..LEN] == bytes, "round {round}: damaged on its way");
    }
}

#[test]
fn a_cut_cable_answers_everything_and_a_mended_one_connects_anew() {
    const NAME: &str = "a_cut_cable_answers_everything_and_a_mended_one_connects_anew";
    let Some(cable) = Cable::of_guest(NAME) else { return };
    let _watchdog = Watchdog::start("verbs", NAME);
    for mode in MODES {
        let mut pair = pair(mode);
        let ep = pair.to_b;
        post(&mut pair, |a| a.am_short(ep, ID, &[0; 3], b"before"));
        pair.until(|pair| !pair.seen_b.messages.is_empty());
        cable.fault("loss 100%");
        for number in 0..4 {
            pair.a.am_short(ep, ID, &[number, 0, 0], b"lost").expect("there is space");
            assert_eq!(pair.a.flush(ep, Token(number + 1)), Ok(Posted::InFlight));
        }
        pair.until(|pair| !pair.seen_a.failed.is_empty() && !pair.seen_b.failed.is_empty());
        let answers: Vec<_> = pair.seen_a.completed.iter().map(|(token, _)| token.0).collect();
        assert_eq!(answers, [1, 2, 3, 4], "{mode:?}: each flush is answered once, in order");
        assert!(pair.seen_a.completed.iter().all(|(_, result)| result.is_err()));
        assert_eq!(pair.seen_a.failed, [PeerFailure::Unreachable], "{mode:?}");
        assert_eq!(pair.a.am_short(ep, ID, &[0; 3], b""), Err(PostError::PeerFailed));
        cable.mend();
        pair.a.disconnect(pair.to_b);
        pair.b.disconnect(pair.to_a);
        pair.seen_b.messages.clear();
        let address = pair.b.address();
        let ep = pair.a.connect(&address).expect("the cable is mended");
        post(&mut pair, |a| a.am_short(ep, ID, &[7; 3], b"after"));
        pair.until(|pair| !pair.seen_b.messages.is_empty());
        assert_eq!(pair.seen_b.messages, [(ID, [7; 3], b"after".to_vec())], "{mode:?}");
    }
}

/// A receiver without buffers, longer than the time after which a silent peer counts as dead: the
/// sender waits, since the receiver's device, or its thread, answers.
#[test]
fn a_full_receiver_is_slow_and_not_dead() {
    const NAME: &str = "a_full_receiver_is_slow_and_not_dead";
    if !has_device(NAME) {
        return;
    }
    // Others cut the cable.
    let _alone = alone();
    let _watchdog = Watchdog::start("verbs", NAME);
    for mode in MODES {
        let mut pair = Pair::open(|options: &mut VerbsOptions| {
            options.mode = mode;
            options.connect = ConnectWhen::AtOnce;
            options.receive_buffers = 32;
        });
        let timeout = options(0).peer_timeout;
        let ep = pair.to_b;
        let (mut sent, begin) = (0_u64, std::time::Instant::now());
        while begin.elapsed() < timeout * 2 {
            match pair.a.am_short(ep, ID, &[sent, 0, 0], &[1; 100]) {
                Ok(()) => sent += 1,
                Err(PostError::NoResource) => {}
                Err(error) => panic!("{mode:?}: after {sent} messages: {error}"),
            }
            pair.a.progress(&mut pair.seen_a, 16);
            std::thread::yield_now();
        }
        assert!(pair.seen_a.failed.is_empty(), "{mode:?}: a slow receiver was taken for dead");
        assert!(sent >= 32, "{mode:?}: only {sent} were taken");
        pair.until(|pair| pair.seen_b.messages.len() as u64 == sent);
        for (number, (_, header, _)) in pair.seen_b.messages.iter().enumerate() {
            assert_eq!(header[0], number as u64, "{mode:?}");
        }
    }
}
