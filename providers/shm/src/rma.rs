//! One-sided operations: direct loads and stores where the key is a mapping, the kernel's copies
//! where it is a range of the peer's process.
//!
//! All of them are complete in the call. The exception is a transfer that stops in the middle
//! (the peer died, or a part of the range is not mapped): something has happened then, so it is
//! *in flight*, and its completion carries the failure. One without a token is remembered and
//! reported by the next flush.
//!
//! When the kernel refuses a peer that it allowed before, the endpoint remembers it and every
//! later operation answers `Unsupported`, so that protocols copy instead, message by message.

use std::os::fd::AsFd;

use bowline_base::copy::copy_overlapping;
use bowline_base::copy::{copy_to_shared, overwrites_lines};
use bowline_base::sync::LINE;
use bowline_base::sync::atomic::{AtomicU64, Ordering, fence};
use bowline_base::view::{View, prefetch_to_write};
use bowline_uct::runtime::{KeyTable, check_len};
use bowline_uct::{
    AmHeader, AmId, AtomicOp, AtomicWidth, EpId, LocalSlice, MemError, OneSided, PeerFailure,
    PostError, Posted, RemoteSlice, RkeyId, Token, WHOLE_PROCESS,
};

use crate::cma::{self, Direction, Reason, Stopped, Target};
use crate::endpoint::{Cma, Condition, Endpoint};
use crate::iface::ShmIface;
use crate::lent::{Held, NotHeld};
use crate::rkey::{self, Access};

impl ShmIface {
    pub(crate) fn open_key(&mut self, ep: EpId, packed: &[u8]) -> Result<RkeyId, MemError> {
        let index = ep.0 as usize;
        let e = self.eps.get(index).ok_or(MemError::NoSuch)?;
        match e.condition {
            Condition::Open => {}
            Condition::Failed(how) => return Err(MemError::Peer(how)),
            Condition::Dormant | Condition::Over(_) | Condition::Vacant => {
                return Err(MemError::NoSuch);
            }
        }
        let serial = e.serial;
        if packed == WHOLE_PROCESS {
            // One key per endpoint for its life, so that a protocol may ask for it each time.
            if let Some(known) = self.process_rkeys[index] {
                return Ok(known);
            }
            let key = self.rkeys.insert(serial, 0, u64::MAX, Access::Process);
            self.process_rkeys[index] = Some(key);
            return Ok(key);
        }
        let access = rkey::unpack(packed, &self.me.process, &e.process, &mut self.mappings)?;
        Ok(self.rkeys.insert(serial, 0, u64::MAX, access))
    }

    pub(crate) fn close_key(&mut self, rkey: RkeyId) {
        let of_process =
            self.rkeys.get(rkey).is_some_and(|access| matches!(access, Access::Process));
        if !of_process {
            self.rkeys.remove(rkey);
            self.mappings.evict();
        }
    }

    /// The endpoint and the key of an operation, if they fit.
    #[inline]
    fn operands(&self, ep: EpId, rkey: RkeyId) -> Result<(&Endpoint, &Access), PostError> {
        operands(&self.eps, &self.rkeys, ep, rkey)
    }

    /// The first `len` bytes of the staging buffer, for the kernel to read or write.
    fn staged(&mut self, len: usize) -> LocalSlice {
        let staging =
            self.staging.get_mut(..len).expect("packed lengths fit in the staging buffer");
        // SAFETY: the buffer lives as long as the interface, and each caller is done with the piece
        // before the buffer is used again.
        unsafe { LocalSlice::from_raw(staging.as_mut_ptr(), len) }
    }

    /// Puts (`Write`) or gets (`Read`) from or to where the bytes lie.
    #[inline(never)]
    pub(crate) fn move_bytes(
        &mut self,
        direction: Direction,
        ep: EpId,
        local: &[LocalSlice],
        remote: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        let Some(stopped) = self.transfer(direction, ep, local, remote)? else {
            return Ok(Posted::Done);
        };
        if stopped.reason == Reason::Gone {
            // Nothing else may have noticed it yet: the failure follows the answer.
            let _ = self.check(ep);
        }
        if stopped.moved == 0 {
            return Err(refusal(stopped.reason));
        }
        let how = match stopped.reason {
            Reason::Gone => PeerFailure::Died,
            Reason::Refused | Reason::Fault | Reason::Other => PeerFailure::Refused,
        };
        if token == Token::NONE {
            self.eps[ep.0 as usize].lost = Some(how);
            return Ok(Posted::Done);
        }
        self.deferred.push_back((token, Err(how)));
        self.due();
        Ok(Posted::InFlight)
    }

    /// The copy itself: `None` when it is complete.
    fn transfer(
        &mut self,
        direction: Direction,
        ep: EpId,
        local: &[LocalSlice],
        remote: RemoteSlice,
    ) -> Result<Option<Stopped>, PostError> {
        let len = local.iter().map(LocalSlice::len).sum::<usize>();
        let (e, access) = operands(&self.eps, &self.rkeys, ep, remote.rkey)?;
        if let Some(view) = access.mapped(remote.address, len) {
            copy_pieces(direction, local, view);
            return Ok(None);
        }
        reachable(e, access, remote.address, len)?;
        if len == 0 {
            return Ok(None);
        }
        let target = match (e.cma, &e.pidfd) {
            (Cma::Here, _) if e.refuse_after.is_none() => {
                let held = held(e, remote.address, len, direction)?;
                self.counters.here_bytes += len as u64;
                copy_pieces(direction, local, held.view());
                return Ok(None);
            }
            (Cma::Allowed(pid), Some(pidfd)) => Target::Watched(pid, pidfd.as_fd()),
            (Cma::Allowed(pid), None) => Target::Process(pid),
            (Cma::Refused, _) => return Err(PostError::Unsupported),
            // Only where a test has the refusal of a kernel imitated: the transfer goes by the kernel, if the
            // table permits it.
            (Cma::Here, _) => {
                held(e, remote.address, len, direction)?;
                Target::Process(rustix::process::getpid())
            }
        };
        // A member is marked dead before its pid can be anybody else's, where a launcher holds it.
        let dead = e.pidfd.is_none() && e.area.job().is_dead(e.area.local());
        let outcome = match e.refuse_after {
            _ if dead => Err(Stopped { moved: 0, reason: Reason::Gone }),
            Some(0) => Err(Stopped { moved: 0, reason: Reason::Refused }),
            _ => cma::transfer(direction, target, local, remote.address, &mut self.bounce),
        };
        self.counters.cma_transfers += 1;
        let e = &mut self.eps[ep.0 as usize];
        if let Some(left) = &mut e.refuse_after {
            *left = left.saturating_sub(1);
        }
        match outcome {
            Ok(()) => {
                self.counters.cma_bytes += len as u64;
                Ok(None)
            }
            Err(stopped) => {
                if stopped.reason == Reason::Refused {
                    tracing::debug!(
                        pid = e.process.pid,
                        "the kernel refuses the peer's memory; large messages are copied from now on"
                    );
                    e.cma = Cma::Refused;
                    self.counters.cma_refused += 1;
                }
                Ok(Some(stopped))
            }
        }
    }

    pub(crate) fn flush(&mut self, ep: EpId, token: Token) -> Result<Posted, PostError> {
        let e = self.eps.get_mut(ep.0 as usize).ok_or(PostError::BadEndpoint)?;
        if let Some(error) = e.refusal() {
            return Err(error);
        }
        // SeqCst: stores to mapped memory leave the store buffer before anything that the caller
        // loads after the flush. Pairs with the fence in the flush of another rank that does the
        // same: one of the two sees the other's store.
        fence(Ordering::SeqCst);
        let lost = e.lost.take();
        self.flushed(lost, token)
    }

    pub(crate) fn flush_all(&mut self, token: Token) -> Result<Posted, PostError> {
        // SeqCst: as in `flush_one`.
        fence(Ordering::SeqCst);
        let mut lost = None;
        for e in &mut self.eps {
            lost = e.lost.take().or(lost);
        }
        self.flushed(lost, token)
    }

    fn flushed(&mut self, lost: Option<PeerFailure>, token: Token) -> Result<Posted, PostError> {
        match lost {
            None => Ok(Posted::Done),
            Some(_) if token == Token::NONE => Err(PostError::PeerFailed),
            Some(how) => {
                self.deferred.push_back((token, Err(how)));
                self.due();
                Ok(Posted::InFlight)
            }
        }
    }
}

/// Whether the kernel may be asked for the range.
fn reachable(e: &Endpoint, access: &Access, remote: u64, len: usize) -> Result<(), PostError> {
    if !access.stands(&e.area, remote, len) {
        return Err(PostError::BadRemote);
    }
    if e.cma == Cma::Refused { Err(PostError::Unsupported) } else { Ok(()) }
}

/// Memory of a thread rank, if that has lent it for this.
fn held(e: &Endpoint, start: u64, len: usize, direction: Direction) -> Result<Held, PostError> {
    let table = e.lent.as_ref().ok_or(PostError::Unsupported)?;
    table.hold(start, len, direction).map_err(|why| match why {
        NotHeld::Nothing => PostError::BadRemote,
        NotHeld::Busy => PostError::NoResource,
    })
}

/// The endpoint and the key of an operation, if they fit.
#[inline]
fn operands<'a>(
    eps: &'a [Endpoint],
    rkeys: &'a KeyTable<u64, Access>,
    ep: EpId,
    rkey: RkeyId,
) -> Result<(&'a Endpoint, &'a Access), PostError> {
    let e = eps.get(ep.0 as usize).ok_or(PostError::BadEndpoint)?;
    if let Some(error) = e.refusal() {
        return Err(error);
    }
    Ok((e, &rkeys.of(e.serial, rkey)?.key))
}

/// The error of a transfer that moved nothing.
fn refusal(reason: Reason) -> PostError {
    match reason {
        Reason::Refused | Reason::Other => PostError::Unsupported,
        Reason::Fault => PostError::BadRemote,
        Reason::Gone => PostError::PeerFailed,
    }
}

fn piece_view(piece: &LocalSlice) -> View<'_> {
    // SAFETY: the piece lies in a buffer that its owner, here the interface's staging buffer,
    // keeps and does not use until the view is gone.
    unsafe { View::from_raw(piece.as_ptr(), piece.len()) }
}

fn copy_pieces(direction: Direction, local: &[LocalSlice], there: View<'_>) {
    let mut at = there.as_ptr();
    for piece in local {
        // SAFETY: the view is as long as all pieces together, and mapped; the pieces lie in
        // buffers whose handles the caller keeps. They may overlap: a rank may move bytes within
        // its own allocation.
        unsafe {
            match direction {
                Direction::Read => copy_overlapping(at, piece.as_ptr(), piece.len()),
                Direction::Write => put_in_place(piece.as_ptr(), at, piece.len()),
            }
        }
        at = at.wrapping_add(piece.len());
    }
}

/// Longest put that is worth its own copy: beyond, the library's knows better.
const PLACED: usize = 64 << 10;

/// Copies a put to where it belongs, its last word last.
///
/// # Safety
/// As for [`copy_overlapping`].
#[inline]
unsafe fn put_in_place(from: *const u8, to: *mut u8, n: usize) {
    // What is left when the last word is to be stored by itself.
    let front = match n.checked_sub(WORD) {
        Some(front) if front >= WORD && to.wrapping_add(front).cast::<u64>().is_aligned() => front,
        // SAFETY: promised by the caller.
        _ => return unsafe { copy_overlapping(from, to, n) },
    };
    // SAFETY: `front + WORD` bytes may be read and written, as promised by the caller, and the word
    // of the target is aligned as was just checked; a thread that reads it meanwhile does so by atomic
    // loads, as the contract of `puts_end_last` says. The last word is read before anything is
    // written, in case the ranges overlap.
    unsafe {
        let last = from.add(front).cast::<u64>().read_unaligned();
        let apart = from.addr().abs_diff(to.addr()) >= n;
        if apart && !overwrites_lines(front) {
            copy_to_shared(from, to, front);
        } else if apart && n <= PLACED {
            prefetch_to_write(to.add(front));
            // A string instruction waits at its end for a line that it fills only in part.
            let lines = front - (front.min((to.addr() + front) % LINE));
            copy_to_shared(from, to, lines);
            copy_to_shared(from.add(lines), to.add(lines), front - lines);
        } else {
            copy_overlapping(from, to, front);
        }
        // Release: pairs with the Acquire load of the thread that waits for the put, which then finds what was
        // copied above.
        AtomicU64::from_ptr(to.add(front).cast()).store(last, Ordering::Release);
    }
}

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

impl OneSided for ShmIface {
    fn put_short(&mut self, ep: EpId, bytes: &[u8], to: RemoteSlice) -> Result<(), PostError> {
        let (_, access) = self.operands(ep, to.rkey)?;
        check_len(bytes.len(), self.area.parameters().max_bcopy as usize)?;
        if let Some(view) = access.mapped(to.address, bytes.len()) {
            // SAFETY: the view is inside a mapping that the key keeps; `bytes` may lie in the
            // same mapping, which the copy allows.
            unsafe { put_in_place(bytes.as_ptr(), view.as_ptr(), bytes.len()) };
            return Ok(());
        }
        // SAFETY: `bytes` is borrowed until the copy below has ended, and a write only reads it.
        let piece = unsafe { LocalSlice::from_raw(bytes.as_ptr().cast_mut(), bytes.len()) };
        self.move_bytes(Direction::Write, ep, &[piece], to, Token::NONE).map(|_| ())
    }

    fn put_bcopy(
        &mut self,
        ep: EpId,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
        to: RemoteSlice,
    ) -> Result<usize, PostError> {
        check_len(max_len, self.area.parameters().max_bcopy as usize)?;
        let (e, access) = self.operands(ep, to.rkey)?;
        if let Some(view) = access.mapped(to.address, max_len) {
            return Ok(pack(view).min(max_len));
        }
        // Nothing is packed when the call fails, so what can be known is asked first.
        reachable(e, access, to.address, max_len)?;
        // SAFETY: the staging buffer is only used through the view until `pack` has returned,
        // and is longer than `max_len`.
        let space = unsafe { View::from_raw(self.staging.as_mut_ptr(), max_len) };
        let len = pack(space).min(max_len);
        let piece = self.staged(len);
        self.move_bytes(Direction::Write, ep, &[piece], to, Token::NONE).map(|_| len)
    }

    fn put_zcopy(
        &mut self,
        ep: EpId,
        from: &[LocalSlice],
        to: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        self.move_bytes(Direction::Write, ep, from, to, token)
    }

    fn put_notify(
        &mut self,
        ep: EpId,
        bytes: &[u8],
        to: RemoteSlice,
        id: AmId,
        header: &AmHeader,
    ) -> Result<(), PostError> {
        self.post_put_notify(ep, bytes, to, id, header)
    }

    fn get_bcopy(
        &mut self,
        ep: EpId,
        from: RemoteSlice,
        len: usize,
        unpack: &mut dyn FnMut(View<'_>),
    ) -> Result<(), PostError> {
        check_len(len, self.area.parameters().max_bcopy as usize)?;
        let (_, access) = self.operands(ep, from.rkey)?;
        if let Some(view) = access.mapped(from.address, len) {
            unpack(view);
            return Ok(());
        }
        let piece = self.staged(len);
        match self.transfer(Direction::Read, ep, &[piece], from)? {
            // What was read before it stopped is in our own buffer, so nothing has happened.
            Some(stopped) => Err(refusal(stopped.reason)),
            None => {
                unpack(piece_view(&piece));
                Ok(())
            }
        }
    }

    /// Gets bytes to where they belong.
    #[inline]
    fn get_zcopy(
        &mut self,
        ep: EpId,
        to: &[LocalSlice],
        from: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        // What is short goes from mapped memory to one piece, as a rule; the rest knows all cases.
        if let [piece] = to
            && let Ok((_, access)) = self.operands(ep, from.rkey)
            && let Some(view) = access.mapped(from.address, piece.len())
        {
            // SAFETY: the view is as long as the piece, and inside a mapping that the key keeps; the
            // piece lies in a buffer whose handle the caller keeps. They may overlap.
            unsafe { copy_overlapping(view.as_ptr(), piece.as_ptr(), piece.len()) };
            return Ok(Posted::Done);
        }
        self.move_bytes(Direction::Read, ep, to, from, token)
    }

    fn atomic(
        &mut self,
        ep: EpId,
        op: AtomicOp,
        width: AtomicWidth,
        at: RemoteSlice,
        _token: Token,
    ) -> Result<Option<u64>, PostError> {
        let len = width.bytes();
        let (e, access) = self.operands(ep, at.rkey)?;
        if let Some(word) = access.mapped(at.address, len) {
            return op.perform(word, width).map(Some).ok_or(PostError::BadArgument);
        }
        reachable(e, access, at.address, len)?;
        if e.cma != Cma::Here {
            // The kernel copies bytes; it has no atomics to offer.
            return Err(PostError::Unsupported);
        }
        // It changes the word, whatever it fetches.
        let held = held(e, at.address, len, Direction::Write)?;
        op.perform(held.view(), width).map(Some).ok_or(PostError::BadArgument)
    }
}
