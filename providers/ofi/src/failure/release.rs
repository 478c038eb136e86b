//! How the user's memory is got back from libfabric when a peer is lost that may still live: rules 3
//! and 4 of [`crate::failure`].

use std::time::{Duration, Instant};

use bowline_uct::PeerFailure;

use crate::disconnect::{Which, any_open};
use crate::iface::OfiIface;
use crate::peer::{Health, Peer};

/// Time between polls of the connections of a peer that failed.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

impl OfiIface {
    /// Whether libfabric touches no memory of the user's for a peer that may live; does what rules 3
    /// and 4 say to get there.
    pub(super) fn let_go(
        &mut self,
        index: u32,
        how: PeerFailure,
        waited: Duration,
        silent: bool,
    ) -> bool {
        let holds = self.ops.holds_memory_for(index);
        let closed = how == PeerFailure::Closed;
        if closed && !holds {
            return silent || self.peers[index as usize].under_way == 0;
        }
        if (!closed || silent) && !self.net.is_closed() {
            self.cut(index, !closed, holds && waited >= self.lost_after);
        }
        let peer = &mut self.peers[index as usize];
        if !holds && !self.cut_failed && !any_open(&peer.cut) && (silent || peer.under_way == 0) {
            return true;
        }
        if waited >= 2 * self.lost_after {
            if !holds {
                // A connection that the peer made anew, or whose socket libfabric keeps; what was
                // under way on it has ended.
                return true;
            }
            return self.close_for(index);
        }
        if let Health::Failing { next, .. } = &mut peer.health {
            *next = Instant::now() + POLL_INTERVAL;
        }
        false
    }

    /// Ends the connections to a peer; the accepted ones of its host, too, if `whole` and all peers
    /// there have failed, or if it is `late`.
    fn cut(&mut self, index: u32, whole: bool, late: bool) {
        let Some(peer) = self.peers[index as usize].at else { return };
        let own = crate::addr::socket_of(self.address.format, &self.address.name);
        let Some(own) = own else { return };
        let there = |other: &&Peer| other.at.is_some_and(|at| at.ip() == peer.ip());
        let none_well = || !self.peers.iter().filter(there).any(Peer::is_well);
        let which = Which { peer, own, accepted: late || whole && none_well() };
        let mut cut = std::mem::take(&mut self.peers[index as usize].cut);
        let examined = which.cut(&mut cut);
        if let Err(error) = &examined
            && !self.cut_failed
        {
            tracing::warn!(
                %error,
                "cannot examine the connections of a lost peer; raise ulimit -n, or its operations \
                 wait for libfabric"
            );
        }
        self.cut_failed = examined.is_err();
        self.peers[index as usize].cut = cut;
    }

    /// Closes the endpoint, since libfabric does not answer what was under way to a peer. Returns
    /// whether it is closed.
    #[cold]
    fn close_for(&mut self, index: u32) -> bool {
        let traits = &self.net.traits;
        if traits.shares_memory || traits.bind_memory {
            return false;
        }
        if !self.net.is_closed() {
            tracing::warn!(
                peer = index,
                "libfabric does not answer operations to a lost peer; closing the endpoint, which \
                 ends the connections to all peers"
            );
            if !self.net.close_endpoint() {
                return false;
            }
            self.break_down(libc::ESHUTDOWN);
        }
        true
    }
}
