//! What an interface says of itself.

use bowline_uct::{AtomicOps, Caps, IfaceAttr, Limits, OpLimits};

use crate::options::{LinkMode, NetworkOptions};

/// Most pieces of an operation.
pub(crate) const MAX_IOV: usize = 16;

/// No buffer of a Rust program is larger, so this is the limit of an operation without one.
const ANY: usize = isize::MAX as usize;

/// Payload of the copied flavours of put.
const COPIED_BYTES: usize = 64 << 10;

/// Most endpoints: as many as there can be nodes.
const MAX_ENDPOINTS: u32 = 1 << 24;

pub(crate) fn attr(options: &NetworkOptions) -> IfaceAttr {
    let mut caps = Caps::AM_SHORT
        | Caps::AM_BCOPY
        | Caps::AM_ZCOPY
        | Caps::WAKEUP
        | Caps::EVENT_FD
        | Caps::INTER_NODE;
    caps.set(Caps::PEER_FAILURE, options.reports_deaths);
    caps.set(Caps::EP_CHECK, options.checks);
    caps.set(Caps::AM_ORDERED, options.link == LinkMode::Reliable);
    let mut limits = Limits {
        am: OpLimits {
            max_short: options.max_short.min(options.max_bcopy),
            max_bcopy: options.max_bcopy,
            min_zcopy: 0,
            max_zcopy: options.max_bcopy,
            max_iov: MAX_IOV,
            opt_align: 1,
        },
        ..Limits::default()
    };
    let mut atomics = AtomicOps::empty();
    if options.one_sided {
        // A get is never complete in its call, so there is no bcopy flavour of it.
        caps |= Caps::PUT_SHORT
            | Caps::PUT_BCOPY
            | Caps::PUT_ZCOPY
            | Caps::PUT_NOTIFY
            | Caps::GET_ZCOPY
            | Caps::ATOMIC_CPU
            | Caps::RMA_REGISTERED
            | Caps::LEND;
        caps.set(Caps::PUT_BEFORE_ATOMIC, options.put_before_atomic);
        caps.set(Caps::PUT_BEFORE_AM, options.put_before_am);
        caps.set(Caps::EXPOSE, options.exposes);
        atomics = AtomicOps::all();
        let zcopy =
            OpLimits { max_zcopy: ANY, max_iov: MAX_IOV, opt_align: 1, ..OpLimits::default() };
        limits.put = OpLimits { max_short: COPIED_BYTES, max_bcopy: COPIED_BYTES, ..zcopy };
        limits.get = zcopy;
    }
    IfaceAttr {
        provider: "sim",
        device: "virtual".to_owned(),
        caps,
        limits,
        atomics,
        max_endpoints: MAX_ENDPOINTS,
        receive_bytes: options.slots as usize * options.max_bcopy,
    }
}
