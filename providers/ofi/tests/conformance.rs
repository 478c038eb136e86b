//! The contract's suite, over every libfabric provider that this machine has: one module for
//! each. A provider that is not here says so in place of its tests.
//!
//! `BOWLINE_TEST_OFI_PROVIDER` and `BOWLINE_TEST_OFI_DOMAIN` name what the module `named` opens
//! instead of `verbs;ofi_rxm`, for instance on a machine with a network of its own. Where the first
//! is set, and in the guest of `cargo xtask guest`, it is a failure that nothing opens.

use std::sync::OnceLock;

use crate::common::Alone;
use bowline_ofi::{Atomics, OfiIface, OfiOptions, Registration};
use bowline_uct::conformance::{Exclusion, Provider};

/// Why no interface opens with these options; asked once for each form.
fn unavailable(known: &'static OnceLock<Option<String>>, options: &OfiOptions) -> Option<String> {
    known
        .get_or_init(|| OfiIface::open(options.clone()).err().map(|error| error.to_string()))
        .clone()
}

const DROPPED: Exclusion = Exclusion {
    test: "closing::messages_arrive_after_posts",
    reason: "where a send on a connection fails, libfabric's sockets drop what they have not read of it",
};

macro_rules! form {
    ($module:ident, $name:literal, $provider:expr, $change:expr, [$($excluded:expr),*]) => {
        mod $module {
            use super::*;

            struct Form {
                _alone: Option<Alone>,
            }

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
                    let why = unavailable(&KNOWN, &Self::options());
                    if let Some(why) = &why
                        && stringify!($module) == "named"
                        && must_open()
                    {
                        panic!("{} is to be there, and yet: {why}", named());
                    }
                    why
                }

                fn settled(iface: &OfiIface) -> bool {
                    iface.is_settled()
                }

                fn open(size: usize) -> (Self, Vec<OfiIface>) {
                    let alone = Alone::over(&$provider);
                    let open = |_| OfiIface::open(Self::options()).expect("it opened before");
                    (Self { _alone: alone }, (0..size).map(open).collect())
                }

                fn kill(&mut self, _index: usize, iface: OfiIface) {
                    iface.crash();
                }
            }

            bowline_uct::conformance!(Form);
        }
    };
}

/// Variables by which somebody says that the module `named` must open.
const MUST_OPEN: [&str; 2] = ["BOWLINE_TEST_GUEST", "BOWLINE_TEST_OFI_PROVIDER"];

pub(crate) fn must_open() -> bool {
    MUST_OPEN.iter().any(|variable| std::env::var_os(variable).is_some())
}

/// What the module `named` opens.
pub(crate) fn named() -> String {
    std::env::var("BOWLINE_TEST_OFI_PROVIDER").unwrap_or_else(|_| "verbs;ofi_rxm".into())
}

fn named_domain() -> Option<String> {
    std::env::var("BOWLINE_TEST_OFI_DOMAIN").ok()
}

form!(tcp, "tcp", "tcp", |options| options.wakeup = true, [DROPPED]);
form!(shm, "shm", "shm", |_| (), []);
form!(rxd, "udp;ofi_rxd", "udp;ofi_rxd", |options| options.wakeup = true, []);
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
    native,
    "shm, libfabric's own atomics",
    "shm",
    |options| options.atomics = Atomics::Native,
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
    [DROPPED]
);

/// What is much as another form, which `cargo xtask test --full` runs.
mod product {
    use super::*;

    form!(net, "net", "net", |options| options.wakeup = true, [DROPPED]);
}
