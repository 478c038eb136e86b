//! The connection of an interface to itself: for users that need an operation of the device on its
//! own memory, as a consumer does whose atomics must not be mixed with its processor's.
//!
//! It is two pairs of the interface that are connected to each other. Both ends are here, so there
//! is nothing to agree on: the thread that makes connections does not know of it, asks nobody
//! whether the peer is there, and goes on to drop datagrams that claim to come from this interface.
//!
//! ```text
//!   operations ──► link.pair ── device ──► link.far ──► shared receive queue, own memory
//! ```
//!
//! **Rules.**
//! 1. Requests are posted to `pair` only, so completions of requests are its own; messages arrive on
//!    `far`, whose number leads to the peer. Nothing else distinguishes this peer from others.
//! 2. The connection is made in `connect`, whatever the options say, and stays when the endpoint is
//!    closed. It is made anew by the `connect` after it has broken and the endpoint was closed.
//! 3. Its end is not announced: no last message is sent, since the closer itself would read it.
//!
//! `reachable` says no nevertheless: it is what a layer above asks when it searches for a transport for
//! messages, and to oneself there is a better one.

use std::io;

use bowline_uct::{EpId, OpenError};

use super::{Peer, RcIface};
use crate::control::table::Pairs as _;

impl RcIface {
    /// Whether a peer is this interface itself.
    pub(super) fn is_own(&self, peer: &Peer) -> bool {
        peer.uid() == self.own.uid
    }

    /// The endpoint to the interface itself, with its connection.
    pub(super) fn open_own_endpoint(&mut self) -> Result<EpId, OpenError> {
        let own = self.own;
        let number = self.peer_with(&own)?;
        let peer = &mut self.peers[number as usize];
        // One that has failed stays failed until it is closed.
        if !peer.open {
            if peer.link.is_none() {
                let act = "connect two queue pairs of the device to each other";
                self.connect_own(number).map_err(|source| OpenError::System { act, source })?;
            }
            let peer = &mut self.peers[number as usize];
            peer.failed = None;
            peer.open = true;
            // A failure that was not reported yet belongs to the endpoint that was closed.
            self.failed.retain(|(failed, _)| *failed != number);
        }
        Ok(EpId(number))
    }

    fn connect_own(&mut self, number: u32) -> io::Result<()> {
        let (own, pairs) = (self.own, &mut self.state.own_pairs);
        let (mut pair, here) = pairs.make(&own)?;
        let (mut far, there) = pairs.make(&own)?;
        // The receiving end first: it is there when the first request can be posted.
        pairs.connect(&mut far, there, &own, here)?;
        pairs.connect(&mut pair, here, &own, there)?;
        self.link_up(number, pair, Some(far));
        Ok(())
    }
}
