//! Interfaces of two jobs on one network: who does not know a job's secret is connected to nobody of that
//! job, and does not disturb those who are.

use bowline_uct::conformance::Watchdog;
use bowline_uct::{AmId, Iface, PeerFailure, Secret};
use bowline_verbs::{VerbsIface, VerbsMode};

use crate::common::{Seen, has_device, options};

const ID: AmId = AmId::new(2);

fn open(device: usize, mode: VerbsMode, secret: u8) -> VerbsIface {
    let mut options = options(device);
    options.mode = mode;
    options.secret = Secret::new([secret; 32]);
    VerbsIface::open(&options).expect("there is a device")
}

#[test]
fn who_does_not_know_the_secret_is_not_heard() {
    if !has_device("who_does_not_know_the_secret_is_not_heard") {
        return;
    }
    let _watchdog = Watchdog::start("verbs", "who_does_not_know_the_secret_is_not_heard");
    for mode in [VerbsMode::Rc, VerbsMode::Ud] {
        let mut server = open(0, mode, 1);
        let mut outsider = open(1, mode, 2);
        let mut friend = open(1, mode, 1);
        let (mut served, mut refused, mut heard) =
            (Seen::default(), Seen::default(), Seen::default());
        let to_server = outsider.connect(&server.address()).expect("the address is one");
        // One way, and the other: neither side's endpoint ever has a connection.
        let to_outsider = server.connect(&outsider.address()).expect("the address is one");
        outsider.am_short(to_server, ID, &[1, 0, 0], b"let me in").expect("it waits");
        server.am_short(to_outsider, ID, &[2, 0, 0], b"for friends").expect("it waits");
        let from_friend = friend.connect(&server.address()).expect("the address is one");
        friend.am_short(from_friend, ID, &[3, 0, 0], b"hello").expect("it waits");
        while refused.failed.is_empty() || served.failed.is_empty() || served.messages.is_empty() {
            server.progress(&mut served, 16);
            outsider.progress(&mut refused, 16);
            friend.progress(&mut heard, 16);
            std::thread::yield_now();
        }
        assert_eq!(refused.failed, [PeerFailure::Unreachable], "{mode:?}");
        assert_eq!(served.failed, [PeerFailure::Unreachable], "{mode:?}");
        assert!(refused.messages.is_empty() && heard.failed.is_empty(), "{mode:?}");
        let texts: Vec<_> = served.messages.iter().map(|(_, _, text)| &text[..]).collect();
        assert_eq!(texts, [&b"hello"[..]], "{mode:?}");
    }
}
