//! A helper beside a worker's thread, driven by hand: what it must not sleep over.

use std::convert::Infallible;

use crate::sides::Sides;
use bowline_base::doorbell::Doorbell;
use bowline_sim::NetworkOptions;
use bowline_ucp::{Attendant, Attendants, SendMode, SideDoor, Watched};

/// Does nothing: the test has the side door.
struct ByHand;

impl Attendant for ByHand {
    fn watch(&mut self, _: Watched) {}
    fn pause(&mut self) {}
    fn resume(&mut self) {}
}

#[test]
fn what_a_call_leaves_between_the_last_look_and_the_nap_is_looked_at() {
    let sides = Sides::new(2, NetworkOptions::default(), &[("BOWLINE_RNDV_THRESHOLD", "100")]);
    let mut door = None;
    let helper = Attendants::Helper(Doorbell::private());
    let attended = sides.workers[1].attend(helper, |side| {
        door = Some(side);
        Ok::<_, Infallible>(Box::new(ByHand))
    });
    attended.expect("nothing is refused");
    let door: SideDoor = door.expect("a worker makes its attendant");
    let naps = || {
        let mut slept = false;
        door.sleep(|_, _, _| slept = true);
        slept
    };
    let ep = sides.connect(0, 1);
    let sent = sides.send(0, ep, vec![1; 1000], SendMode::Standard).expect("it begins");
    for _ in 0..100 {
        sides.workers[0].progress();
        door.serve();
        sides.network.advance();
    }
    while door.serve() > 0 {}
    assert!(naps(), "the message waits for its receive");
    // The word is read from now on. No lane wakes the helper for it.
    let receive = sides.recv(1, 1000);
    assert!(!naps(), "the receive has left something to do");
    while door.serve() > 0 {}
    assert!(naps(), "it has looked since");
    sides.until(|| sides.workers[1].is_complete(receive));
    sides.end(0, Ok(sent));
}
