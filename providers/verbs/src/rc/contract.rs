//! The transport contract, over reliable connections.

use bowline_uct::{
    Armed, EpId, Iface, MdAttr, MemError, MemoryDomain, OpenError, PeerFailure, PostError, RkeyId,
    SignalSafe, Wakeup, forward, lacks,
};

use super::RcIface;
use crate::addr::{Address, KEY_BYTES};

impl RcIface {
    /// The peer of an endpoint, whose keys are to be opened.
    fn uid_of(&self, ep: EpId) -> Result<u64, MemError> {
        let peer = self.peers.get(ep.0 as usize).filter(|peer| peer.open);
        let peer = peer.ok_or(MemError::NoSuch)?;
        peer.failed.map_or(Ok(peer.uid()), |how| Err(MemError::Peer(how)))
    }
}

impl MemoryDomain for RcIface {
    lacks! { rkey_ptr puts_end_last }

    forward! {
        [this => this.state.domain] mem_alloc mem_register mem_expose mem_lend mem_view mem_release rkey_pack rkey_of
    }

    fn md_attr(&self) -> MdAttr {
        MdAttr {
            can_alloc: true,
            can_register: true,
            rkey_bytes: KEY_BYTES,
            // Assumed: a system call, and the pinning of 4 KiB pages at some 100 ns each.
            register_cost_ns: (5000.0, 0.025),
        }
    }

    fn rkey_unpack(&mut self, ep: EpId, packed: &[u8]) -> Result<RkeyId, MemError> {
        let uid = self.uid_of(ep)?;
        self.state.domain.open_and_reserve(ep.0, uid, packed)
    }

    fn rkey_release(&mut self, rkey: RkeyId) {
        self.state.domain.opened.remove(rkey);
    }
}

// SAFETY: completions are those of the device, or come behind the error state of its queue pair, which ends
// what the device does; queue pairs are destroyed before the memory is given back.
unsafe impl Iface for RcIface {
    lacks! { explain }

    // Its own methods of these names.
    forward! {
        [this => this] attr address reachable source_of disconnect all_sent am_short am_bcopy am_zcopy flush
        flush_all want_writable progress
    }

    fn connect(&mut self, address: &[u8]) -> Result<EpId, OpenError> {
        if Address::decode(address) == Ok(self.own) {
            return self.open_own_endpoint();
        }
        self.open_endpoint(address)
    }

    fn fence(&mut self) -> Result<(), PostError> {
        self.fence_all();
        Ok(())
    }

    fn check(&mut self, ep: EpId) -> Result<(), PostError> {
        let number = self.open_peer(ep)?;
        self.probe(number);
        Ok(())
    }

    fn invalidate(&mut self, ep: EpId) {
        if self.open_peer(ep).is_ok() {
            self.drain_then_break(ep.0, PeerFailure::Unreachable);
        }
    }
}

impl Wakeup for RcIface {
    lacks! { doorbell }

    forward! { [this => this] event_fd }

    fn arm(&mut self, _descriptor: bool) -> Armed {
        self.control.sleeping(true);
        self.cq.request_event();
        // What came before the request rings nobody: poll once more.
        self.read_completions();
        // Every buffer is posted before a sleep, which may be long.
        if let Err(error) = self.post_receives(true) {
            tracing::error!(%error, "receive buffers cannot be posted again");
        }
        self.check_clock();
        if self.has_events() || self.control.pending_after_sleeping() {
            self.control.sleeping(false);
            return Armed::Busy;
        }
        Armed::Ready
    }

    fn disarm(&mut self) {
        self.control.sleeping(false);
        self.cq.take_events();
        // The thread that makes connections wakes a sleeper to read the clock.
        self.check_clock();
    }
}

impl SignalSafe for RcIface {
    forward! { [this => this] progress_signal_safe can_post_signal_safe get_prepared }

    forward! { [this => this.state.domain] prepare unprepare }

    lacks! { lend_signal_safe }

    fn rkey_unpack_signal_safe(&mut self, ep: EpId, packed: &[u8]) -> Option<RkeyId> {
        let uid = self.uid_of(ep).ok()?;
        self.state.domain.open_signal_safe(ep.0, uid, packed)
    }
}
