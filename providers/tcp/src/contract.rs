//! The contract's two traits, implemented by the parts beside this file, and sleep.

use std::os::fd::BorrowedFd;

use bowline_base::doorbell::{Doorbell, Sleep};
use bowline_uct::{
    Armed, EpId, Iface, IfaceAttr, MdAttr, MemError, MemHandle, MemoryDomain, OpenError,
    PeerFailure, PostError, RkeyId, SignalSafe, Source, Wakeup, forward, lacks,
};
use rustix::event::epoll::EventFlags;

use crate::iface::{TcpIface, tag};
use crate::md::{ATTR, KEY_BYTES, Packed};
use crate::peer::State;
use crate::watcher::Watcher;

impl MemoryDomain for TcpIface {
    lacks! { rkey_ptr puts_end_last }

    forward! {
        [this => this.domain] mem_alloc mem_register mem_expose mem_lend mem_view mem_release
    }

    fn md_attr(&self) -> MdAttr {
        ATTR
    }

    fn rkey_pack(&self, handle: MemHandle) -> Result<Vec<u8>, MemError> {
        self.packed_key(handle).map(Vec::from).ok_or(MemError::NoSuch)
    }

    fn rkey_unpack(&mut self, ep: EpId, packed: &[u8]) -> Result<RkeyId, MemError> {
        let peer = self.peer(ep.0).filter(|peer| peer.has_ep).ok_or(MemError::NoSuch)?;
        if let State::Failed(how) = peer.state {
            return Err(MemError::Peer(how));
        }
        let key = Packed::parse(packed).ok_or(MemError::BadKey)?;
        // The uid of a request's server is only known to its handshake; the owner checks the
        // handle at every access anyway.
        if peer.uid != 0 && key.uid != peer.uid {
            return Err(MemError::BadKey);
        }
        let serial = peer.serial;
        let Packed { handle, address, len, .. } = key;
        Ok(self.rkeys.insert((ep.0, serial), address, len, handle))
    }

    fn rkey_release(&mut self, rkey: RkeyId) {
        self.rkeys.remove(rkey);
    }

    fn rkey_of(&self, start: u64, len: usize, out: &mut [u8]) -> Option<usize> {
        let packed = self.packed_key(self.domain.allocation_of(start, len)?)?;
        out.get_mut(..packed.len())?.copy_from_slice(&packed);
        Some(packed.len())
    }
}

// SAFETY: slices are touched by the calls of this interface alone, while their operation is in the queue of a
// connection; it leaves the queue before its completion is reported, and all queues go with the interface.
unsafe impl Iface for TcpIface {
    // Its own methods of these names.
    forward! {
        [this => this] reachable connect disconnect all_sent am_short am_bcopy am_zcopy flush flush_all
        want_writable progress check
    }

    fn attr(&self) -> &IfaceAttr {
        &self.attr
    }

    fn address(&self) -> Vec<u8> {
        self.address_here().pack()
    }

    fn explain(&self, address: &[u8]) -> Vec<String> {
        match Self::explain(self, address) {
            Ok(routes) => routes.iter().map(ToString::to_string).collect(),
            Err(error) => vec![error.to_string()],
        }
    }

    fn source_of(&self, address: &[u8]) -> Option<Source> {
        self.known(address).map(Source)
    }

    fn fence(&mut self) -> Result<(), PostError> {
        // A stream is in order, and its target carries everything out in that order.
        Ok(())
    }

    fn invalidate(&mut self, ep: EpId) {
        if self.peer(ep.0).is_some_and(|peer| peer.has_ep) {
            self.fail(ep.0, PeerFailure::Died);
        }
    }
}

impl Wakeup for TcpIface {
    fn doorbell(&self) -> Option<&Doorbell> {
        Some(&self.bell)
    }

    fn arm(&mut self, descriptor: bool) -> Armed {
        match self.prepare_sleep(descriptor) {
            Ok(Armed::Ready) => {
                self.sleep_logged = false;
                Armed::Ready
            }
            Ok(Armed::Busy) => {
                self.disarm();
                Armed::Busy
            }
            Err(error) => {
                // Nobody could wake the caller: it must not sleep.
                if !std::mem::replace(&mut self.sleep_logged, true) {
                    tracing::warn!(
                        %error,
                        "cannot prepare for sleep; polling until that works (raise ulimit -n or -u)"
                    );
                }
                self.disarm();
                Armed::Busy
            }
        }
    }

    fn disarm(&mut self) {
        if self.own_bell {
            self.bell.disarm();
        }
        if let Some(watcher) = &self.watcher {
            watcher.disarm();
        }
    }

    fn event_fd(&mut self) -> Result<BorrowedFd<'_>, OpenError> {
        self.watch_bell()?;
        Ok(self.epoll_fd())
    }
}

impl SignalSafe for TcpIface {
    lacks! { SignalSafe }
}

impl TcpIface {
    fn packed_key(&self, handle: MemHandle) -> Option<[u8; KEY_BYTES]> {
        let (address, len) = self.domain.place(handle)?;
        Some(Packed { uid: self.uid, handle: handle.0.to_wire(), address, len }.pack())
    }

    /// Lets the event descriptor hear the doorbell too, where it is ours.
    fn watch_bell(&mut self) -> Result<(), OpenError> {
        if self.bell_watched || !self.own_bell {
            return Ok(());
        }
        let act = "make the event descriptor of the tcp transport";
        let fd = self.bell.event_fd().map_err(|source| OpenError::System { act, source })?;
        self.watch(fd, tag::BELL, 0, EventFlags::IN)?;
        self.bell_watched = true;
        Ok(())
    }

    fn prepare_sleep(&mut self, descriptor: bool) -> Result<Armed, OpenError> {
        if self.has_work() {
            return Ok(Armed::Busy);
        }
        if descriptor {
            self.watch_bell()?;
        } else if self.watcher.is_none() {
            let watcher = Watcher::start(self.epoll_fd(), self.bell.clone()).map_err(|source| {
                OpenError::System { act: "start the thread that wakes a futex sleeper", source }
            })?;
            self.watcher = Some(watcher);
        }
        if self.own_bell {
            self.bell.arm(if descriptor { Sleep::Fd } else { Sleep::Futex });
        }
        if let (false, Some(watcher)) = (descriptor, &self.watcher) {
            watcher.arm(self.epoll_fd()).map_err(|source| OpenError::System {
                act: "arm the thread that wakes a futex sleeper",
                source,
            })?;
        }
        // What has come already makes the descriptor readable: a sleep on it ends at once, without another poll here.
        let busy = !descriptor && self.kernel_has_work();
        Ok(if busy { Armed::Busy } else { Armed::Ready })
    }
}
