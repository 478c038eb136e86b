//! The transport contract, over datagrams: messages, and `Unsupported` for the rest.

use bowline_base::view::View;
use bowline_uct::{
    AmHeader, AmId, Armed, EpId, Iface, MdAttr, MemoryDomain, OneSided, OpenError, PeerFailure,
    PostError, SignalSafe, Wakeup, forward, lacks,
};

use super::UdIface;

impl MemoryDomain for UdIface {
    lacks! { mem_alloc mem_register mem_expose mem_lend mem_view mem_release }
    lacks! { rkey_pack rkey_unpack rkey_ptr puts_end_last rkey_release rkey_of }

    fn md_attr(&self) -> MdAttr {
        MdAttr::default()
    }
}

// SAFETY: completions are those of the device, or come behind the reset of its queue pair, which ends what
// the device does; queue pairs are destroyed before the memory is given back.
unsafe impl Iface for UdIface {
    lacks! { explain am_zcopy }

    // Its own methods of these names.
    forward! {
        [this => this] attr address reachable source_of disconnect am_bcopy flush flush_all want_writable progress
    }

    fn connect(&mut self, address: &[u8]) -> Result<EpId, OpenError> {
        self.open_endpoint(address)
    }

    fn all_sent(&mut self) -> bool {
        Self::all_sent(self)
    }

    fn am_short(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[u8],
    ) -> Result<(), PostError> {
        let mut pack = |space: View<'_>| space.copy_in(payload);
        self.am_bcopy(ep, id, header, payload.len(), &mut pack).map(|_| ())
    }

    fn fence(&mut self) -> Result<(), PostError> {
        // Messages are in order, and there is nothing else.
        Ok(())
    }

    fn check(&mut self, ep: EpId) -> Result<(), PostError> {
        self.open_peer(ep).map(|_| ())
    }

    fn invalidate(&mut self, ep: EpId) {
        if self.open_peer(ep).is_ok() {
            self.break_link(ep.0, PeerFailure::Unreachable);
        }
    }
}

impl OneSided for UdIface {
    lacks! { OneSided }
}

impl Wakeup for UdIface {
    lacks! { doorbell }

    forward! { [this => this] event_fd }

    fn arm(&mut self, _descriptor: bool) -> Armed {
        self.control.sleeping(true);
        if self.prepare_to_sleep() {
            return Armed::Ready;
        }
        self.control.sleeping(false);
        Armed::Busy
    }

    fn disarm(&mut self) {
        self.control.sleeping(false);
        self.cq.take_events();
        // Setting it again takes back what has expired.
        self.set_clock(None);
    }
}

impl SignalSafe for UdIface {
    lacks! { SignalSafe }
}
