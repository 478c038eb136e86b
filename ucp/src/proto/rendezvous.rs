//! Which way an offered message comes: the kinds there are, and the one place where one is chosen.
//!
//! The receiver chooses, who alone knows both the message and the buffer. A kind that is refused
//! while it is under way is struck out, and the choice made anew among what is left: fragments are
//! never refused.

use bowline_uct::Caps;

use crate::peer::Peer;
use crate::settings::RndvScheme;

/// How the payload of an offered message comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RndvKind {
    /// The receiver copies it from memory of the sender's that both map.
    Mapped,
    /// The receiver reads it: [`crate::proto::get`].
    Get,
    /// Both copy it: [`crate::proto::coop`].
    Shared,
    /// The sender writes it: [`crate::proto::put`].
    Put,
    /// The sender sends it in fragments.
    Copy,
}

/// What decides about a [`RndvKind`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct RndvFacts {
    /// The message's memory is mapped here.
    pub(crate) mapped: bool,
    /// A key that opens it to reads is at hand, and reading was not refused.
    pub(crate) get: bool,
    /// The sender could help.
    pub(crate) shared: bool,
    /// The sender can write here, and was not refused.
    pub(crate) put: bool,
}

impl RndvKind {
    /// The kind that `scheme` asks for, or, where it cannot be had, the best that can.
    pub(crate) const fn choose(scheme: RndvScheme, facts: RndvFacts) -> Self {
        let RndvFacts { mapped, get, shared, put } = facts;
        match scheme {
            RndvScheme::Copy => Self::Copy,
            RndvScheme::Put | RndvScheme::Rtr if put => Self::Put,
            RndvScheme::Get if get && mapped => Self::Mapped,
            RndvScheme::Get if get => Self::Get,
            _ if get && shared => Self::Shared,
            _ if get && mapped => Self::Mapped,
            _ if get => Self::Get,
            _ if put => Self::Put,
            _ => Self::Copy,
        }
    }
}

impl RndvScheme {
    /// Whether no message is read under it, where senders can write or not (`put`).
    pub(crate) const fn reads_nothing(self, put: bool) -> bool {
        match self {
            Self::Copy => true,
            Self::Put | Self::Rtr => put,
            Self::Auto | Self::Get => false,
        }
    }
}

/// Whether a transport's puts and gets reach all memory of a peer, by a processor's copy in the
/// call, with the key that names no memory in particular.
pub(crate) fn reaches_all(caps: Caps) -> bool {
    let needed = Caps::GET_ZCOPY | Caps::PUT_ZCOPY | Caps::RMA_REGISTERED | Caps::RKEY_PTR;
    caps.contains(needed) && !caps.intersects(Caps::EXPOSE | Caps::LEND | Caps::LOOPBACK)
}

/// Whether `peer` can write a message into memory of this worker's by a lane with these abilities.
pub(crate) fn can_land(caps: Caps, peer: &Peer) -> bool {
    caps.contains(Caps::PUT_ZCOPY)
        && (caps.contains(Caps::LEND) || reaches_all(caps))
        && peer.address.features & crate::address::PUTS != 0
        && !peer.put_refused
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is asked for and whatever there is, what is chosen can be had.
    #[test]
    fn what_is_chosen_can_be_had() {
        let schemes =
            [RndvScheme::Auto, RndvScheme::Get, RndvScheme::Put, RndvScheme::Copy, RndvScheme::Rtr];
        for scheme in schemes {
            for bits in 0..16_u8 {
                let bit = |nth: u8| bits >> nth & 1 == 1;
                let facts = RndvFacts { mapped: bit(0), get: bit(1), shared: bit(2), put: bit(3) };
                let kind = RndvKind::choose(scheme, facts);
                let there = match kind {
                    RndvKind::Mapped => facts.get && facts.mapped,
                    RndvKind::Get => facts.get,
                    RndvKind::Shared => facts.get && facts.shared,
                    RndvKind::Put => facts.put,
                    RndvKind::Copy => true,
                };
                assert!(there, "{scheme:?} with {facts:?} chose {kind:?}");
                let forced = match scheme {
                    RndvScheme::Auto => true,
                    RndvScheme::Get => {
                        !facts.get || matches!(kind, RndvKind::Get | RndvKind::Mapped)
                    }
                    RndvScheme::Put | RndvScheme::Rtr => !facts.put || kind == RndvKind::Put,
                    RndvScheme::Copy => kind == RndvKind::Copy,
                };
                assert!(forced, "{scheme:?} with {facts:?} chose {kind:?}");
                let idle = kind == RndvKind::Copy && scheme != RndvScheme::Copy;
                assert!(!idle || !facts.get && !facts.put, "{scheme:?} with {facts:?}");
            }
        }
    }
}
