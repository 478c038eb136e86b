//! The list of all protocols.

use super::eager as unasked;
use super::{any, coop, fragments, get, put, rtr};
use crate::engine::life::{Life, Protocols};
use crate::protocol::{Protocol, eager, one_sided};

/// Makes of the list of protocols what follows from it.
macro_rules! registry {
    ($($value:path $(, life $life:path)? $(, keeps $keeps:ty)?;)*) => {
        /// All protocols. Of two that cost the same the one that comes first is taken; of two that can bring a message
        /// that was offered, as well, unless one of them is predicted or measured to be the cheaper one.
        pub static ALL: &[&Protocol] = &[$(&$value),*];

        /// The protocols of a worker, and what it keeps for them.
        pub(crate) fn all() -> Protocols {
            let mut protocols = Protocols::default();
            $(
                protocols.add(&$value, [$(&$life as &'static dyn Life)?].first().copied());
                $(protocols.kept.add(&$value, Box::<$keeps>::default());)?
            )*
            protocols
        }
    };
}

registry! {
    eager::SHORT;
    eager::BCOPY;
    eager::ZCOPY;
    // The life of all four. The first one, as `select` numbers the means.
    eager::MULTI, life unasked::Eager, keeps unasked::Transfers;
    coop::COOP, life coop::Coop, keeps coop::Queues;
    get::GET, life get::Get;
    put::PUT, life put::Writes;
    fragments::FRAGMENTS, life fragments::Fragments;
    // Before the announced ones: what waits for a flag may have to go before a message that is written to those.
    any::ANY, life any::Flagged, keeps any::FlagTable;
    rtr::RTR, life rtr::Announces, keeps rtr::Announcer;
    one_sided::PUT_SHORT;
    one_sided::PUT_ZCOPY;
    one_sided::GET_ZCOPY;
    one_sided::ATOMIC;
}
