//! The transport contract, over datagrams: messages, and `Unsupported` for the rest.

use std::os::fd::{AsFd, BorrowedFd};

use bowline_base::buffer::RecvBuf;
use bowline_base::doorbell::Doorbell;
use bowline_base::view::View;
use bowline_uct::runtime::CompletionOf;
use bowline_uct::{
    AmHeader, AmId, Armed, Desc, EpId, Iface, IfaceAttr, KeptArrivals, MdAttr, MemError, MemHandle,
    MemoryDomain, OneSided, OpenError, PeerFailure, PostError, Posted, RkeyId, SignalSafe, Sink,
    Source, TagOffload, Token, Unreachable, Wakeup, lacks,
};

use super::UdIface;
use crate::addr::Address;

const NO_ACCESS: MemError = MemError::Unsupported("reach a peer's memory by datagrams");

impl MemoryDomain for UdIface {
    lacks! { mem_expose mem_lend puts_end_last }

    fn md_attr(&self) -> MdAttr {
        MdAttr::default()
    }

    fn mem_alloc(&mut self, _: usize) -> Result<MemHandle, MemError> {
        Err(NO_ACCESS)
    }

    fn mem_register(&mut self, _: RecvBuf) -> Result<MemHandle, MemError> {
        Err(NO_ACCESS)
    }

    fn mem_view(&self, _: MemHandle) -> Option<View<'_>> {
        None
    }

    fn mem_release(&mut self, _: MemHandle) -> Result<Option<RecvBuf>, MemError> {
        Err(NO_ACCESS)
    }

    fn rkey_pack(&self, _: MemHandle) -> Result<Vec<u8>, MemError> {
        Err(NO_ACCESS)
    }

    fn rkey_unpack(&mut self, _: EpId, _: &[u8]) -> Result<RkeyId, MemError> {
        Err(NO_ACCESS)
    }

    fn rkey_ptr(&self, _: RkeyId, _: u64, _: usize) -> Option<View<'_>> {
        None
    }

    fn rkey_release(&mut self, _: RkeyId) {}

    fn rkey_of(&self, _: u64, _: usize, _: &mut [u8]) -> Option<usize> {
        None
    }
}

// SAFETY: completions are those of the device, or come behind the reset of its queue pair, which ends what
// the device does; queue pairs are destroyed before the memory is given back.
unsafe impl Iface for UdIface {
    lacks! { explain am_zcopy }

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
        !self.peers.iter().any(super::Peer::is_busy)
    }

    fn am_short(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[u8],
    ) -> Result<(), PostError> {
        let mut pack = |room: View<'_>| room.copy_in(payload);
        self.post_message(ep, id, header, payload.len(), &mut pack).map(|_| ())
    }

    fn am_bcopy(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
    ) -> Result<usize, PostError> {
        self.post_message(ep, id, header, max_len, pack)
    }

    fn flush(&mut self, ep: EpId, token: Token) -> Result<Posted, PostError> {
        let number = self.open_peer(ep)?;
        Ok(match self.flush_link(number, CompletionOf::Token(token)) {
            true => Posted::InFlight,
            false => Posted::Done,
        })
    }

    fn flush_all(&mut self, token: Token) -> Result<Posted, PostError> {
        Ok(self.flush_everything(token))
    }

    fn fence(&mut self) -> Result<(), PostError> {
        // Messages are in order, and there is nothing else.
        Ok(())
    }

    fn want_writable(&mut self, ep: EpId) {
        self.want(ep);
    }

    fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        self.make_progress(sink, budget)
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
    lacks! { put_short put_bcopy put_zcopy put_notify get_bcopy get_zcopy atomic_post atomic_fetch }
}

impl Wakeup for UdIface {
    fn doorbell(&self) -> Option<&Doorbell> {
        None
    }

    fn arm(&mut self, _descriptor: bool) -> Armed {
        self.control.sleeping(true);
        if self.lie_down() {
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

    fn event_fd(&mut self) -> Result<BorrowedFd<'_>, OpenError> {
        if self.poller.is_none() {
            let act = "make a descriptor to sleep on";
            let poller = self.make_poller().map_err(|source| OpenError::System { act, source })?;
            self.poller = Some(poller);
        }
        let (poller, _) = self.poller.as_ref().expect("made just now");
        Ok(poller.as_fd())
    }
}

impl KeptArrivals for UdIface {
    fn release(&mut self, desc: Desc) {
        self.receive.release(desc);
        self.ask_again();
    }

    fn desc_view(&self, desc: Desc) -> Option<View<'_>> {
        self.receive.payload(desc)
    }
}

impl TagOffload for UdIface {
    lacks! { tag_send tag_recv tag_cancel tag_limits }
}

impl SignalSafe for UdIface {
    lacks! { progress_signal_safe }
}
