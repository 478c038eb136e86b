//! The contract of transports over a locked queue: messages, and nothing else.

use bowline_base::buffer::RecvBuf;
use bowline_base::doorbell::Doorbell;
use bowline_base::view::View;
use bowline_uct::{
    AddrReader, AmHeader, AmId, Armed, BorrowedFd, EpId, Iface, IfaceAttr, MdAttr, MemError,
    MemHandle, MemoryDomain, OneSided, OpenError, PostError, Posted, RkeyId, SignalSafe, Sink,
    Source, Token, Unreachable, Wakeup, lacks,
};
use std::collections::VecDeque;

use super::{Link, LockedLane, Note, Step};

impl MemoryDomain for LockedLane {
    lacks! { mem_expose mem_lend puts_end_last }

    fn md_attr(&self) -> MdAttr {
        MdAttr::default()
    }

    fn mem_alloc(&mut self, _: usize) -> Result<MemHandle, MemError> {
        Err(MemError::Unsupported("allocate memory"))
    }

    fn mem_register(&mut self, _: RecvBuf) -> Result<MemHandle, MemError> {
        Err(MemError::Unsupported("register memory"))
    }

    fn mem_view(&self, _: MemHandle) -> Option<View<'_>> {
        None
    }

    fn mem_release(&mut self, _: MemHandle) -> Result<Option<RecvBuf>, MemError> {
        Err(MemError::NoSuch)
    }

    fn rkey_pack(&self, _: MemHandle) -> Result<Vec<u8>, MemError> {
        Err(MemError::NoSuch)
    }

    fn rkey_unpack(&mut self, _: EpId, _: &[u8]) -> Result<RkeyId, MemError> {
        Err(MemError::Unsupported("open keys"))
    }

    fn rkey_ptr(&self, _: RkeyId, _: u64, _: usize) -> Option<View<'_>> {
        None
    }

    fn rkey_release(&mut self, _: RkeyId) {}

    fn rkey_of(&self, _: u64, _: usize, _: &mut [u8]) -> Option<usize> {
        None
    }
}

/// Where a lane is reached.
struct Address<'a> {
    /// Start of its memory.
    base: u64,
    /// Slots of a half.
    slots: u32,
    number: u32,
    key: &'a [u8],
    /// The address of the interface below.
    below: &'a [u8],
}

impl<'a> Address<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut r = AddrReader::new(bytes);
        let (base, slots, number) = (r.u64().ok()?, r.u32().ok()?, r.u32().ok()?);
        Some(Self { base, slots, number, key: r.bytes().ok()?, below: r.bytes().ok()? })
    }
}

// SAFETY: the only slices that are lent come from here, and their completions are those of the interface below.
unsafe impl Iface for LockedLane {
    lacks! { explain am_zcopy }

    fn attr(&self) -> &IfaceAttr {
        &self.attr
    }

    fn address(&self) -> Vec<u8> {
        self.own_address.clone()
    }

    fn reachable(&self, address: &[u8]) -> Result<(), Unreachable> {
        let theirs = Address::parse(address);
        let theirs = theirs.ok_or_else(|| Unreachable::because("no locked queue"))?;
        self.below.reachable(theirs.below)
    }

    fn connect(&mut self, address: &[u8]) -> Result<EpId, OpenError> {
        let bad = || OpenError::BadAddress("no locked queue".to_owned());
        let Address { base, slots, key, below, .. } = Address::parse(address).ok_or_else(bad)?;
        let below = self.below.connect(below)?;
        let rkey = self.below.rkey_unpack(below, key).map_err(|_| bad())?;
        self.links.push(Link {
            below,
            rkey,
            base,
            slots,
            waiting: VecDeque::new(),
            batch: Vec::new(),
            step: Step::Ready,
            known: 0,
            held: 0,
            releasing: false,
            locks: 0,
            backoff: 0,
            backs_off: false,
            asked: false,
            word: RecvBuf::owned(vec![0; 8]),
        });
        Ok(EpId(self.links.len() as u32 - 1))
    }

    fn source_of(&self, address: &[u8]) -> Option<Source> {
        Some(Source(Address::parse(address)?.number))
    }

    fn disconnect(&mut self, _: EpId) {}

    fn all_sent(&mut self) -> bool {
        let quiet = |link: &Link| {
            let idle = matches!(link.step, Step::Ready | Step::Broken);
            idle && link.waiting.is_empty() && !link.releasing
        };
        self.links.iter().all(quiet) && self.below.all_sent()
    }

    fn am_short(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[u8],
    ) -> Result<(), PostError> {
        self.admit(ep, payload.len())?;
        self.accept(ep, id, header, payload);
        Ok(())
    }

    fn am_bcopy(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
    ) -> Result<usize, PostError> {
        self.admit(ep, max_len)?;
        let len = pack(self.packed.view()).min(max_len);
        let mut bytes = vec![0; len];
        self.packed.view().copy_out(&mut bytes);
        self.accept(ep, id, header, &bytes);
        Ok(len)
    }

    fn flush(&mut self, _: EpId, _: Token) -> Result<Posted, PostError> {
        Err(PostError::Unsupported)
    }

    fn flush_all(&mut self, _: Token) -> Result<Posted, PostError> {
        Err(PostError::Unsupported)
    }

    fn fence(&mut self) -> Result<(), PostError> {
        Err(PostError::Unsupported)
    }

    fn want_writable(&mut self, ep: EpId) {
        if let Some(link) = self.links.get_mut(ep.0 as usize) {
            link.asked = true;
        }
    }

    fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        self.below.progress(&mut self.notes, 64);
        for note in std::mem::take(&mut self.notes.0) {
            match note {
                Note::Completed(token, result) => self.answered(token, result),
                Note::Failed(ep, how) => {
                    let link = self.links.iter().position(|link| Some(link.below) == ep);
                    if let Some(index) = link {
                        self.links[index].step = Step::Broken;
                        sink.failed(None, Some(EpId(index as u32)), how);
                    }
                }
            }
        }
        let mut events = 0;
        for index in 0..self.links.len() {
            self.drive(index);
            let link = &mut self.links[index];
            if link.waiting.is_empty() && std::mem::take(&mut link.asked) {
                sink.writable(EpId(index as u32));
                events += 1;
            }
        }
        events + self.receive(sink, budget)
    }

    fn check(&mut self, _: EpId) -> Result<(), PostError> {
        Err(PostError::Unsupported)
    }

    fn invalidate(&mut self, ep: EpId) {
        if let Some(link) = self.links.get_mut(ep.0 as usize) {
            link.step = Step::Broken;
        }
    }
}

impl OneSided for LockedLane {
    lacks! { OneSided }
}

impl Wakeup for LockedLane {
    fn doorbell(&self) -> Option<&Doorbell> {
        None
    }

    fn arm(&mut self, _: bool) -> Armed {
        Armed::Busy
    }

    fn disarm(&mut self) {}

    fn event_fd(&mut self) -> Result<BorrowedFd<'_>, OpenError> {
        Err(OpenError::Limit("a locked queue wakes nobody".to_owned()))
    }
}

impl SignalSafe for LockedLane {
    lacks! { SignalSafe }
}
