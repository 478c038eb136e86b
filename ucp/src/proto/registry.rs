//! The list of all protocols, and what follows from it: the states that a request can be in, what a worker keeps for
//! protocols, and which of them a message belongs to.

use std::ops::{Deref, DerefMut};

use bowline_uct::AmId;

use super::{Protocol, Receiving, Sending, coop, eager, fragments, get, one_sided, put, rtr};
use crate::peer::PeerIndex;

/// What a worker keeps for a protocol, beside the requests.
pub(crate) trait Keeps {
    /// The peers that it names.
    fn peers(&self) -> Vec<PeerIndex> {
        Vec::new()
    }

    /// Makes room for what signal-safe progress may add.
    fn provide(&mut self) {}
}

/// One of the states of protocols.
macro_rules! states {
    ($(#[$doc:meta])* $name:ident of $state:ident { $($variant:ident($of:ty))* }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) enum $name {
            $($variant($of),)*
            /// Of a protocol that is not in the list.
            #[cfg_attr(not(test), expect(dead_code, reason = "registered by tests alone so far"))]
            Other(Box<dyn $state>),
        }

        impl Deref for $name {
            type Target = dyn $state;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Self::$variant(state) => state,)*
                    Self::Other(state) => &**state,
                }
            }
        }

        impl DerefMut for $name {
            fn deref_mut(&mut self) -> &mut Self::Target {
                match self {
                    $(Self::$variant(state) => state,)*
                    Self::Other(state) => &mut **state,
                }
            }
        }
    };
}

/// Makes of the list of protocols what follows from it.
macro_rules! registry {
    ($(
        $value:path
        $(, receiver $receiver:ident($receiving:ty))?
        $(, sender $sender:ident($sending:ty))?
        $(, keeps $kept:ident: $keeps:ty)?;
    )*) => {
        /// All protocols. Of two that cost the same the one that comes first is taken; of two that can bring a message
        /// that was offered, as well.
        pub static ALL: &[&Protocol] = &[$(&$value),*];

        states! {
            /// The protocol by which a message is received, and how far it came.
            Receiver of Receiving { $($($receiver($receiving))?)* }
        }
        states! {
            /// The protocol by which an offered message is sent, and how far it came.
            Sender of Sending { $($($sender($sending))?)* }
        }

        /// What a worker keeps for each protocol that wants it.
        #[derive(Debug, Default)]
        pub(crate) struct Kept {
            $($(pub(crate) $kept: $keeps,)?)*
        }

        impl Kept {
            /// The peers that protocols name.
            pub(crate) fn peers(&self) -> Vec<PeerIndex> {
                let mut all = Vec::new();
                $($(all.extend(Keeps::peers(&self.$kept));)?)*
                all
            }

            /// Makes room for what signal-safe progress may add.
            pub(crate) fn provide(&mut self) {
                $($(self.$kept.provide();)?)*
            }
        }
    };
}

registry! {
    eager::SHORT;
    eager::BCOPY;
    eager::ZCOPY;
    eager::MULTI;
    coop::COOP, receiver Coop(coop::Share), sender Coop(coop::Help), keeps coop: coop::Queues;
    get::GET, receiver Get(get::Read);
    put::PUT, receiver Put(put::Written), sender Put(put::Put);
    fragments::FRAGMENTS, receiver Fragments(fragments::Awaited), sender Fragments(fragments::Asked);
    rtr::RTR, keeps rtr: rtr::Announcer;
    one_sided::PUT_SHORT;
    one_sided::PUT_ZCOPY;
    one_sided::GET_ZCOPY;
    one_sided::ATOMIC;
}

/// Ids of active messages.
const IDS: usize = 32;

/// The protocols of one worker.
#[derive(Debug)]
pub(crate) struct Protocols {
    /// In the order in which a receiver asks them.
    pub(crate) all: Vec<&'static Protocol>,
    /// By the id of a message: whose it is.
    owners: [Option<&'static Protocol>; IDS],
    pub(crate) kept: Kept,
}

impl Protocols {
    pub(crate) fn new() -> Self {
        let mut protocols = Self { all: Vec::new(), owners: [None; IDS], kept: Kept::default() };
        ALL.iter().rev().for_each(|protocol| protocols.register(protocol));
        protocols
    }

    /// Adds a protocol, which is asked before all others.
    pub(crate) fn register(&mut self, protocol: &'static Protocol) {
        self.all.insert(0, protocol);
        for id in protocol.life.ids() {
            let before = self.owners[usize::from(id.get())].replace(protocol);
            debug_assert!(before.is_none(), "a message belongs to one protocol");
        }
    }

    /// The protocol that a message is of.
    pub(crate) fn of(&self, id: AmId) -> Option<&'static Protocol> {
        *self.owners.get(usize::from(id.get()))?
    }
}
