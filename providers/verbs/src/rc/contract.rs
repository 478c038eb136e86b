//! The transport contract, over reliable connections.

use std::os::fd::{AsFd, BorrowedFd};

use bowline_base::buffer::RecvBuf;
use bowline_base::doorbell::Doorbell;
use bowline_base::view::View;
use bowline_uct::{
    AmHeader, AmId, Armed, Desc, EpId, Iface, IfaceAttr, KeptArrivals, LocalSlice, MdAttr,
    MemError, MemHandle, MemoryDomain, OpenError, PeerFailure, PostError, Posted, RkeyId,
    SignalSafe, Sink, Source, TagOffload, Token, Unreachable, Wakeup, forward, lacks,
};

use super::RcIface;
use crate::addr::{Address, KEY_BYTES};

impl MemoryDomain for RcIface {
    lacks! { mem_expose puts_end_last }

    fn md_attr(&self) -> MdAttr {
        MdAttr {
            can_alloc: true,
            can_register: true,
            rkey_bytes: KEY_BYTES,
            // Assumed: a system call, and the pinning of 4 KiB pages at some 100 ns each.
            register_cost_ns: (5000.0, 0.025),
        }
    }

    fn mem_alloc(&mut self, len: usize) -> Result<MemHandle, MemError> {
        self.domain.alloc(len)
    }

    fn mem_register(&mut self, memory: RecvBuf) -> Result<MemHandle, MemError> {
        self.domain.register(memory)
    }

    fn mem_lend(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        self.domain.lend_out(bytes)
    }

    fn mem_view(&self, handle: MemHandle) -> Option<View<'_>> {
        self.domain.view(handle)
    }

    fn mem_release(&mut self, handle: MemHandle) -> Result<Option<RecvBuf>, MemError> {
        self.domain.release(handle)
    }

    fn rkey_pack(&self, handle: MemHandle) -> Result<Vec<u8>, MemError> {
        self.domain.pack(handle)
    }

    fn rkey_unpack(&mut self, ep: EpId, packed: &[u8]) -> Result<RkeyId, MemError> {
        let peer = self.peers.get(ep.0 as usize).filter(|peer| peer.open);
        let peer = peer.ok_or(MemError::NoSuch)?;
        if let Some(how) = peer.failed {
            return Err(MemError::Peer(how));
        }
        let uid = peer.uid();
        self.domain.open(ep.0, uid, packed)
    }

    fn rkey_ptr(&self, _: RkeyId, _: u64, _: usize) -> Option<View<'_>> {
        None
    }

    fn rkey_release(&mut self, rkey: RkeyId) {
        self.domain.close(rkey);
    }

    fn rkey_of(&self, start: u64, len: usize, out: &mut [u8]) -> Option<usize> {
        self.domain.key_of(start, len, out)
    }
}

// SAFETY: completions are those of the device, or come behind the error state of its queue pair, which ends
// what the device does; queue pairs are destroyed before the memory is given back.
unsafe impl Iface for RcIface {
    lacks! { explain }

    fn attr(&self) -> &IfaceAttr {
        &self.attr
    }

    fn address(&self) -> Vec<u8> {
        self.own.encode()
    }

    fn reachable(&self, address: &[u8]) -> Result<(), Unreachable> {
        match self.read_address(address) {
            Ok(_) => Ok(()),
            Err(OpenError::Unreachable(reason)) => Err(reason),
            Err(error) => Err(Unreachable::because(error.to_string())),
        }
    }

    fn connect(&mut self, address: &[u8]) -> Result<EpId, OpenError> {
        self.open_endpoint(address)
    }

    fn source_of(&self, address: &[u8]) -> Option<Source> {
        let address = Address::decode(address).ok()?;
        self.by_uid.get(&address.uid).map(|number| Source(*number))
    }

    fn disconnect(&mut self, ep: EpId) {
        self.close_endpoint(ep);
    }

    fn all_sent(&mut self) -> bool {
        self.is_idle()
    }

    fn am_short(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[u8],
    ) -> Result<(), PostError> {
        self.post_short(ep, id, header, payload)
    }

    fn am_bcopy(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
    ) -> Result<usize, PostError> {
        self.post_bcopy(ep, id, header, max_len, pack)
    }

    fn am_zcopy(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[LocalSlice],
        token: Token,
    ) -> Result<Posted, PostError> {
        self.post_zcopy(ep, id, header, payload, token)
    }

    fn flush(&mut self, ep: EpId, token: Token) -> Result<Posted, PostError> {
        self.flush_endpoint(ep, token)
    }

    fn flush_all(&mut self, token: Token) -> Result<Posted, PostError> {
        self.flush_everything(token)
    }

    fn fence(&mut self) -> Result<(), PostError> {
        self.fence_all();
        Ok(())
    }

    fn want_writable(&mut self, ep: EpId) {
        self.want(ep);
    }

    fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        self.make_progress(sink, budget)
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
    fn doorbell(&self) -> Option<&Doorbell> {
        None
    }

    fn arm(&mut self, _descriptor: bool) -> Armed {
        self.control.sleeping(true);
        self.cq.request_event();
        // What came before the request rings nobody: look once more.
        self.read_completions();
        // Every buffer is posted before a sleep, which may be long.
        if let Err(error) = self.post_receives(true) {
            tracing::error!(%error, "receive buffers cannot be posted again");
        }
        self.look_at_clock();
        if self.has_events() || self.control.pending_after_sleeping() {
            self.control.sleeping(false);
            return Armed::Busy;
        }
        Armed::Ready
    }

    fn disarm(&mut self) {
        self.control.sleeping(false);
        self.cq.take_events();
        // The thread that makes connections wakes a sleeper to look at the clock.
        self.look_at_clock();
    }

    fn event_fd(&mut self) -> Result<BorrowedFd<'_>, OpenError> {
        if self.poller.is_none() {
            let act = "make a descriptor to sleep on";
            let poller = self.make_poller().map_err(|source| OpenError::System { act, source })?;
            self.poller = Some(poller);
        }
        Ok(self.poller.as_ref().expect("made just now").as_fd())
    }
}

impl KeptArrivals for RcIface {
    forward! { [this => this.receive] release }

    fn desc_view(&self, desc: Desc) -> Option<View<'_>> {
        self.receive.payload(desc)
    }
}

impl TagOffload for RcIface {
    lacks! { tag_send tag_recv tag_cancel tag_limits }
}

impl SignalSafe for RcIface {
    lacks! { progress_signal_safe }
}
