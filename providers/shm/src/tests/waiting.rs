//! Sleep of a rank that waits for space, with the steps of both sides in an order of the test's.

use bowline_base::doorbell::Sleep;
use bowline_base::doorbell::space::{self, Sleeper};
use bowline_uct::{Armed, Wakeup};

use super::*;
use crate::wait::Going;

/// A rank on its way to sleep, whose receiver makes progress just before it arms its doorbell.
struct Overtaken<'a, F> {
    going: Going<'a>,
    before_arming: F,
}

impl<F: FnMut()> Sleeper for Overtaken<'_, F> {
    fn has_work(&mut self) -> bool {
        self.going.has_work()
    }
    fn ask(&mut self) -> bool {
        self.going.ask()
    }
    fn arm(&mut self) -> bool {
        (self.before_arming)();
        self.going.arm()
    }
    fn stands(&mut self) -> bool {
        self.going.stands()
    }
    fn disarm(&mut self) {
        self.going.disarm();
    }
}

/// A receiver that checks who waits before the sender's doorbell is armed rings in vain. The sender
/// must not sleep then, since nobody rings when the space comes.
#[test]
fn a_sender_whose_question_was_answered_too_early_does_not_sleep() {
    let options = ShmOptions { rings: 0, scmp_slots: 64, max_bcopy: 256, ..ShmOptions::default() };
    let job = job(2, &options);
    let mut receiver = ShmIface::open(job.clone(), 0, options.clone()).unwrap();
    let mut sender = ShmIface::open(job, 1, options).unwrap();
    let ep = sender.connect(&receiver.address()).unwrap();
    let (mut seen, mut mine) = (Seen::default(), Seen::default());
    let mut number = 0;
    while sender.am_short(ep, ID, &[number, 0, 0], &[]).is_ok() {
        number += 1;
        assert!(number < 1000, "a queue of so few slots is full at some time");
    }
    sender.want_writable(ep);
    while sender.progress(&mut mine, 8) > 0 {}
    assert!(mine.writable.is_empty(), "there is no space");

    // One message, which makes no space: the half is turned over as a whole.
    let before_arming = || assert_eq!(receiver.progress(&mut seen, 1), 1);
    let going = Going { iface: &mut sender, kind: Sleep::Futex, armed: false };
    let sleeps = space::prepare(&mut Overtaken { going, before_arming });
    // Now all the space that there is, and nobody else to ring.
    while receiver.progress(&mut seen, 64) > 0 {}
    for _ in 0..200 {
        receiver.progress(&mut seen, 64);
    }
    assert!(!sleeps || sender.bell.is_rung(), "it sleeps, and nobody rings");
    sender.disarm();
    sender.progress(&mut mine, 8);
    assert_eq!(mine.writable, [ep]);
}

/// The same without anything in between: the sender sleeps, and is rung when there is space.
#[test]
fn a_sender_that_sleeps_is_rung_when_there_is_space() {
    let options = ShmOptions { rings: 0, scmp_slots: 64, max_bcopy: 256, ..ShmOptions::default() };
    let job = job(2, &options);
    let mut receiver = ShmIface::open(job.clone(), 0, options.clone()).unwrap();
    let mut sender = ShmIface::open(job, 1, options).unwrap();
    let ep = sender.connect(&receiver.address()).unwrap();
    let (mut seen, mut mine) = (Seen::default(), Seen::default());
    while sender.am_short(ep, ID, &[0; 3], &[]).is_ok() {}
    sender.want_writable(ep);
    while sender.progress(&mut mine, 8) > 0 {}
    assert_eq!(sender.arm(false), Armed::Ready);
    assert!(!sender.bell.is_rung());
    while !sender.bell.is_rung() {
        receiver.progress(&mut seen, 64);
    }
    sender.disarm();
    sender.progress(&mut mine, 8);
    assert_eq!(mine.writable, [ep]);
}
