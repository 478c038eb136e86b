//! The contract's suite over RDMA devices: with connections made in `connect` and with the first
//! message, and with queues so small that every limit is met. In each form the members take turns
//! on the machine's devices, so that both ends of one device and two devices are met.
//!
//! Machines without a device print the reason in place of each test. In the guest of
//! `cargo xtask guest`, which has two, the absence of a device is a failure.

use std::sync::OnceLock;
use std::time::Duration;

use bowline_uct::conformance::{Exclusion, Provider};
use bowline_verbs::{ConnectWhen, VerbsIface, VerbsMode, VerbsOptions};

/// Set in the guest, where a device must be there.
const GUEST: &str = "BOWLINE_TEST_GUEST";

fn unavailable() -> Option<String> {
    static KNOWN: OnceLock<Option<String>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        VerbsIface::open(&VerbsOptions::default()).err().map(|error| error.to_string())
    });
    if let Some(reason) = known
        && std::env::var_os(GUEST).is_some()
    {
        panic!("the guest has devices, and yet: {reason}");
    }
    known.clone()
}

/// The device of a member: in the guest the two take turns.
fn device_of(member: usize) -> String {
    let two = std::env::var_os(GUEST).is_some();
    if two { format!("rxe{}", member % 2) } else { String::new() }
}

const RELEASED: Exclusion = Exclusion {
    test: "rma::released_memory_is_out_of_reach",
    reason: "a device answers an access by a withdrawn key with an error that ends the \
             connection, so the flush behind it fails, too; `one_sided.rs` tests that",
};

const ASLEEP: Exclusion = Exclusion {
    test: "wakeup::armed_or_busy",
    reason: "the first message to a peer waits for the connection and leaves by the sender's next \
             progress, which the test's sender does not make while the receiver sleeps",
};

/// How long peers may be silent in tests in which nobody dies: emulated processors on a busy machine are late by many
/// seconds.
const LIVING: Duration = Duration::from_secs(60);

/// The same where deaths are waited for.
const MORTAL: Duration = Duration::from_secs(6);

macro_rules! form {
    ($module:ident, $name:literal, $change:expr, [$($excluded:expr),*]) => {
        mod $module {
            use super::*;

            struct Form;

            impl Provider for Form {
                type Iface = VerbsIface;
                const NAME: &'static str = $name;
                const CAN_KILL: bool = true;
                const EXCLUDED: &'static [Exclusion] = &[$($excluded),*];

                fn unavailable() -> Option<String> {
                    super::unavailable()
                }

                fn settled(iface: &VerbsIface) -> bool {
                    iface.is_settled()
                }

                fn open(size: usize) -> (Self, Vec<VerbsIface>) {
                    Self::with_timeout(size, LIVING)
                }

                fn open_to_kill(size: usize) -> (Self, Vec<VerbsIface>) {
                    Self::with_timeout(size, MORTAL)
                }

                fn kill(&mut self, _index: usize, iface: VerbsIface) {
                    iface.abandon();
                }
            }

            impl Form {
                fn with_timeout(size: usize, timeout: Duration) -> (Self, Vec<VerbsIface>) {
                    let mut options = VerbsOptions::default();
                    options.receive_buffers = 512;
                    options.send_buffers = 256;
                    let change: fn(&mut VerbsOptions) = $change;
                    change(&mut options);
                    // Between datagrams an interface that is closed waits as long for peers that nobody drives.
                    options.peer_timeout =
                        if options.mode == VerbsMode::Ud { MORTAL } else { timeout };
                    let open = |member| {
                        options.device = device_of(member);
                        VerbsIface::open(&options).expect("it opened before")
                    };
                    (Self, (0..size).map(open).collect())
                }
            }

            bowline_uct::conformance!(Form);
        }
    };
}

form!(
    at_once,
    "verbs rc, connected at once",
    |options| options.connect = ConnectWhen::AtOnce,
    [RELEASED]
);

form!(first_use, "verbs rc, connected by the first message", |_| {}, [RELEASED, ASLEEP]);

form!(
    narrow,
    "verbs rc, narrow",
    |options| {
        options.connect = ConnectWhen::AtOnce;
        options.receive_buffers = 32;
        options.send_buffers = 32;
        options.send_depth = 8;
        options.max_bcopy = 512;
        options.inline = 64;
    },
    [RELEASED]
);

form!(
    datagrams,
    "verbs ud",
    |options| {
        options.mode = VerbsMode::Ud;
        options.connect = ConnectWhen::AtOnce;
    },
    []
);

form!(
    narrow_datagrams,
    "verbs ud, narrow",
    |options| {
        options.mode = VerbsMode::Ud;
        options.receive_buffers = 32;
        options.send_buffers = 32;
        options.max_bcopy = 512;
        options.ud_window = 4;
    },
    [ASLEEP]
);
