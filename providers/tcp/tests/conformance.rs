//! The conformance suite, with usual and with tiny buffers, by IPv4 and by IPv6.

use bowline_tcp::{TcpIface, TcpOptions};
use bowline_uct::conformance::Provider;

macro_rules! form {
    ($module:ident, $name:literal, $change:expr) => {
        mod $module {
            use super::*;

            struct Form;

            impl Provider for Form {
                type Iface = TcpIface;
                const NAME: &'static str = $name;
                const CAN_KILL: bool = true;

                fn open(size: usize) -> (Self, Vec<TcpIface>) {
                    let mut options = TcpOptions::with_secret([0x42; 32]);
                    let change: fn(&mut TcpOptions) = $change;
                    change(&mut options);
                    let open = |_| TcpIface::open(options.clone()).expect("loopback is there");
                    (Self, (0..size).map(open).collect())
                }

                fn kill(&mut self, _index: usize, iface: TcpIface) {
                    iface.abandon();
                }
            }

            bowline_uct::conformance!(Form);
        }
    };
}

form!(usual, "tcp", |_| {});

// Every queue is full after a few messages, and every message comes in pieces.
form!(tiny, "tcp with tiny buffers", |options| {
    options.max_bcopy = 2048;
    options.queue = 1024;
    options.sndbuf = Some(4096);
    options.rcvbuf = Some(4096);
});
