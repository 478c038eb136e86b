//! Operations of a lane's own on its peers' memory, and what their refusals mean.

use bowline_base::buffer::RecvBuf;
use bowline_uct::{
    AtomicOp, AtomicWidth, Caps, EpId, Iface, LocalSlice, PeerFailure, PostError, Posted,
    RemoteSlice,
};

use super::extents::LinkWord;
use super::lane_core::LaneCore;
use super::layout::ENTRY_BYTES;
use super::link::Link;
use super::token::{What, own};

/// What follows from one step.
pub(super) enum Next {
    /// Another step can be taken at once.
    Go,
    /// An answer has to come first.
    Wait,
    /// To be tried again at the next progress.
    Later,
    /// The link is of no use any more.
    Break(PeerFailure),
}

/// What became of a post.
pub(super) enum Outcome<T> {
    Done(T),
    Next(Next),
}

impl<T> Outcome<T> {
    fn map<U>(self, with: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Self::Done(value) => Outcome::Done(with(value)),
            Self::Next(next) => Outcome::Next(next),
        }
    }
}

pub(super) const fn refused(error: PostError) -> Next {
    match error {
        PostError::NoResource => Next::Later,
        // The transport below will report how.
        PostError::PeerFailed => Next::Wait,
        _ => Next::Break(PeerFailure::Refused),
    }
}

impl LaneCore {
    /// Makes what was put visible before later atomics. `true`: it is so.
    pub(super) fn order(&mut self, index: u32) -> Outcome<bool> {
        if self.attr.caps.contains(Caps::PUT_BEFORE_ATOMIC) {
            return Outcome::Done(true);
        }
        let link = &self.links[index as usize];
        let Some(ep) = link.inner else { return Outcome::Next(Next::Wait) };
        match self.inner.flush(ep, own(What::Step, index, link.generation)) {
            Ok(posted) => {
                self.stats.orders += 1;
                Outcome::Done(posted == Posted::Done)
            }
            Err(error) => Outcome::Next(refused(error)),
        }
    }

    /// Fetch-and-adds to a word of the peer's memory. `Some`: the answer is there.
    pub(super) fn fetch_add(
        &mut self,
        index: u32,
        at: usize,
        value: u64,
        what: What,
    ) -> Outcome<Option<u64>> {
        self.fetch(index, at, AtomicOp::Add(value), what)
    }

    /// Does a fetching atomic operation on a word of the peer's memory, likewise.
    pub(super) fn fetch(
        &mut self,
        index: u32,
        at: usize,
        op: AtomicOp,
        what: What,
    ) -> Outcome<Option<u64>> {
        let link = &self.links[index as usize];
        let Some((ep, at)) = place(link, at) else { return Outcome::Next(Next::Wait) };
        let token = own(what, index, link.generation);
        match self.inner.atomic(ep, op, AtomicWidth::W64, at, token) {
            Ok(answer) => Outcome::Done(answer),
            Err(error) => Outcome::Next(refused(error)),
        }
    }

    pub(super) fn put_bytes(&mut self, index: u32, at: usize, bytes: &[u8]) -> Outcome<()> {
        let to = place(&self.links[index as usize], at);
        self.put_to(to, bytes)
    }

    /// Puts bytes into a peer's memory, if it is known where.
    pub(super) fn put_to(&mut self, to: Option<(EpId, RemoteSlice)>, bytes: &[u8]) -> Outcome<()> {
        let Some((ep, at)) = to else { return Outcome::Next(Next::Wait) };
        match put_from(&mut *self.inner, self.put_short, ep, bytes, at) {
            Ok(()) => Outcome::Done(()),
            Err(error) => Outcome::Next(refused(error)),
        }
    }

    /// Reads a word of the peer's memory: `Some` when it is there, else it will be in the link's
    /// word.
    pub(super) fn read_word(&mut self, index: u32, at: usize) -> Outcome<Option<u64>> {
        let from = place(&self.links[index as usize], at);
        let read = self.read::<8>(index, from, What::Step, |link| &mut link.word);
        read.map(|bytes| bytes.map(u64::from_ne_bytes))
    }

    /// Reads an entry of the peer's directory likewise, else into the link's entry.
    pub(super) fn read_entry(
        &mut self,
        index: u32,
        extent: usize,
    ) -> Outcome<Option<[u8; ENTRY_BYTES]>> {
        let link = &self.links[index as usize];
        let from = place(link, link.shape.directory_at(extent));
        self.read(index, from, What::Step, |link| &mut link.entry)
    }

    /// Reads bytes of the peer's memory: `Some` when they are there, else they will be in that buffer of the link.
    fn read<const N: usize>(
        &mut self,
        index: u32,
        from: Option<(EpId, RemoteSlice)>,
        what: What,
        buffer: fn(&mut Link) -> &mut Option<RecvBuf>,
    ) -> Outcome<Option<[u8; N]>> {
        let Some((ep, from)) = from else { return Outcome::Next(Next::Wait) };
        let link = &mut self.links[index as usize];
        let token = own(what, index, link.generation);
        let mut bytes = [0; N];
        if self.attr.caps.contains(Caps::GET_BCOPY) {
            let mut unpack = |view: bowline_base::view::View<'_>| {
                view.copy_out(&mut bytes);
            };
            return match self.inner.get_bcopy(ep, from, N, &mut unpack) {
                Ok(()) => Outcome::Done(Some(bytes)),
                Err(error) => Outcome::Next(refused(error)),
            };
        }
        let buffer = buffer(link).get_or_insert_with(|| RecvBuf::owned(vec![0; N]));
        let Some(to) = slice_of(buffer) else { return Outcome::Next(Next::Wait) };
        match self.inner.get_zcopy(ep, &[to], from, token) {
            Ok(Posted::Done) => {
                buffer.view().copy_out(&mut bytes);
                Outcome::Done(Some(bytes))
            }
            Ok(Posted::InFlight) => Outcome::Done(None),
            Err(error) => Outcome::Next(refused(error)),
        }
    }

    /// Reads the status word `number` of the peer of `index` for a settlement. `Ok(None)`: it
    /// will be answered; `Err`: to be tried again, unless the peer ends.
    pub(super) fn ask_status(&mut self, index: u32, number: u32) -> Result<Option<u64>, ()> {
        let from = self.peers_word(index, number, LinkWord::Status);
        match self.read::<8>(index, from, What::Status, |link| &mut link.status_word) {
            Outcome::Done(answer) => Ok(answer.map(u64::from_ne_bytes)),
            Outcome::Next(_) => Err(()),
        }
    }
}

/// A link's word, for a transport to read into.
#[allow(unsafe_code)]
fn slice_of(word: &mut RecvBuf) -> Option<LocalSlice> {
    // SAFETY: the buffer stays until the transport below is dropped. A link that makes space for another
    // leaves its words to the lane (`replace_link`), and a lane drops the transport before its links and
    // those words. Nobody reads the bytes before the completion.
    unsafe { LocalSlice::of_recv(word, 0, word.len()) }
}

/// The endpoint of a link and a place in its peer's memory.
pub(super) fn place(link: &Link, at: usize) -> Option<(EpId, RemoteSlice)> {
    Some((link.inner?, RemoteSlice { address: link.base + at as u64, rkey: link.rkey? }))
}

/// Puts bytes by the flavour that takes as many.
pub(super) fn put_from(
    inner: &mut dyn Iface,
    short: usize,
    ep: EpId,
    bytes: &[u8],
    to: RemoteSlice,
) -> Result<(), PostError> {
    if bytes.len() <= short {
        return inner.put_short(ep, bytes, to);
    }
    inner.put_bcopy(ep, bytes.len(), &mut |space| space.copy_in(bytes), to).map(|_| ())
}
