//! What one-sided operations cost that the transport carries out; `crate::one_sided` posts them.

use bowline_model::cheapest::Line;
use bowline_uct::Caps;

use super::Protocol;
use super::table::{LENDING, Op, STAGING};

/// Copied in the call, into the peer's memory or the transport's.
pub(crate) static PUT_SHORT: Protocol = Protocol::priced("put/short", |op, context| {
    let copy = context.copy();
    let line = if context.maps() { copy } else { context.put().plus(copy) };
    let able = op == Op::Put && context.caps.contains(Caps::PUT_SHORT);
    able.then_some((line.plus_constant(STAGING), 0, context.limits.put.max_short as u64))
});

/// Written from where it lies.
pub(crate) static PUT_ZCOPY: Protocol = Protocol::priced("put/zcopy", |op, context| {
    let able = op == Op::Put && context.caps.contains(Caps::PUT_ZCOPY);
    able.then(|| (context.put().plus_constant(LENDING), 0, u64::MAX))
});

/// Read to where it belongs.
pub(crate) static GET_ZCOPY: Protocol = Protocol::priced("get/zcopy", |op, context| {
    let able = op == Op::Get && context.caps.contains(Caps::GET_ZCOPY);
    able.then(|| (context.get().plus_constant(LENDING), 0, u64::MAX))
});

/// By the transport.
pub(crate) static ATOMIC: Protocol = Protocol::priced("atomic/native", |op, context| {
    let get = &context.costs.get;
    let line = if context.maps() {
        Line::constant(STAGING, &[])
    } else {
        Line::constant(get.time(1.0, 0.0), &get.figures()).plus_constant(LENDING)
    };
    let native = Caps::ATOMIC_CPU | Caps::ATOMIC_DEVICE;
    (op == Op::Atomic && context.caps.intersects(native)).then_some((line, 4, 8))
});
