//! The contract's suite, over every libfabric provider that this machine has: one module for
//! each. A provider that is not here says so in place of its tests.
//!
//! `BOWLINE_TEST_OFI_PROVIDER` and `BOWLINE_TEST_OFI_DOMAIN` name what the module `named` opens
//! instead of `verbs;ofi_rxm`, for instance on a machine with a network of its own.

use std::sync::OnceLock;

use bowline_ofi::{Atomics, OfiIface, OfiOptions, Registration};
use bowline_uct::conformance::{Exclusion, Provider};

/// Why no interface opens with these options; asked once for each form.
fn unavailable(known: &'static OnceLock<Option<String>>, options: &OfiOptions) -> Option<String> {
    known
        .get_or_init(|| OfiIface::open(options.clone()).err().map(|error| error.to_string()))
        .clone()
}

macro_rules! form {
    ($module:ident, $name:literal, $provider:expr, $change:expr, [$($excluded:expr),*]) => {
        mod $module {
            use super::*;

            struct Form;

            impl Form {
                fn options() -> OfiOptions {
                    let mut options = OfiOptions::default();
                    options.provider = Some($provider.to_string());
                    let change: fn(&mut OfiOptions) = $change;
                    change(&mut options);
                    options
                }
            }

            impl Provider for Form {
                type Iface = OfiIface;
                const NAME: &'static str = concat!("ofi, ", $name);
                const CAN_KILL: bool = true;
                const EXCLUDED: &'static [Exclusion] = &[$($excluded),*];

                fn unavailable() -> Option<String> {
                    static KNOWN: OnceLock<Option<String>> = OnceLock::new();
                    unavailable(&KNOWN, &Self::options())
                }

                fn settled(iface: &OfiIface) -> bool {
                    iface.is_settled()
                }

                fn open(size: usize) -> (Self, Vec<OfiIface>) {
                    let open = |_| OfiIface::open(Self::options()).expect("it opened before");
                    (Self, (0..size).map(open).collect())
                }

                fn kill(&mut self, _index: usize, iface: OfiIface) {
                    iface.crash();
                }
            }

            bowline_uct::conformance!(Form);
        }
    };
}

/// What the module `named` opens.
fn named() -> String {
    std::env::var("BOWLINE_TEST_OFI_PROVIDER").unwrap_or_else(|_| "verbs;ofi_rxm".into())
}

fn named_domain() -> Option<String> {
    std::env::var("BOWLINE_TEST_OFI_DOMAIN").ok()
}

/// Unexpected tagged messages of `net`, which exists in libfabric 1.16 and 1.17 only.
const NET_UNEXPECTED: Exclusion = Exclusion {
    test: "tags::matched_by_tag_and_mask",
    reason: "libfabric's net does not go on after tagged messages that came before their receives \
             were posted in another order",
};

/// Masks of `udp;ofi_rxd`.
const RXD_MASKS: Exclusion = Exclusion {
    test: "tags::matched_by_tag_and_mask",
    reason: "receives with a mask do not complete in libfabric's ofi_rxd",
};

form!(tcp, "tcp", "tcp", |options| options.wakeup = true, []);
form!(net, "net", "net", |options| options.wakeup = true, [NET_UNEXPECTED]);
form!(shm, "shm", "shm", |_| (), []);
form!(rxd, "udp;ofi_rxd", "udp;ofi_rxd", |options| options.wakeup = true, [RXD_MASKS]);
form!(
    named,
    "as named",
    named(),
    |options| {
        options.domain = named_domain();
        options.wakeup = true;
    },
    []
);
form!(
    emulated,
    "shm, atomics by messages",
    "shm",
    |options| options.atomics = Atomics::Emulated,
    []
);
form!(
    small,
    "tcp, small queues, no registration",
    "tcp",
    |options| {
        options.window = 4;
        options.rx_buffers = 16;
        options.tx_buffers = 16;
        options.buffer_bytes = 1 << 10;
        options.operations = 8;
        options.atomics = Atomics::Emulated;
        options.registration = Registration::Scalable;
    },
    []
);
