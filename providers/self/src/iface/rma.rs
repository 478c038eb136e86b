//! One-sided operations, all complete in the call.

use bowline_base::copy::copy_overlapping;
use bowline_base::sync::atomic::{Ordering, fence};
use bowline_base::view::View;
use bowline_uct::runtime::{bytes_of, check_len};
use bowline_uct::{
    AmHeader, AmId, AtomicOp, AtomicWidth, EpId, LocalSlice, OneSided, PostError, Posted,
    RemoteSlice, Token,
};

use super::{Missing, SelfIface};

impl SelfIface {
    /// Orders the worker's writes to its own memory for readers on other threads.
    #[inline]
    pub(super) fn order_writes() {
        // Release: pairs with the acquire load of whatever such a reader waits for.
        fence(Ordering::Release);
    }
}

impl OneSided for SelfIface {
    fn put_short(&mut self, ep: EpId, bytes: &[u8], to: RemoteSlice) -> Result<(), PostError> {
        self.check_open(ep)?;
        check_len(bytes.len(), self.attr.limits.put.max_short)?;
        self.domain.reach(to, bytes.len())?.copy_in(bytes);
        self.counters.puts += 1;
        Ok(())
    }

    fn put_bcopy(
        &mut self,
        ep: EpId,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
        to: RemoteSlice,
    ) -> Result<usize, PostError> {
        self.check_open(ep)?;
        check_len(max_len, self.attr.limits.put.max_bcopy)?;
        // Packed where it belongs: there is no buffer between.
        let len = pack(self.domain.reach(to, max_len)?);
        assert!(len <= max_len, "pack returns how much of the space it was given it has filled");
        self.counters.puts += 1;
        Ok(len)
    }

    fn put_zcopy(
        &mut self,
        ep: EpId,
        from: &[LocalSlice],
        to: RemoteSlice,
        _token: Token,
    ) -> Result<Posted, PostError> {
        self.check_open(ep)?;
        let len = bytes_of(from, &self.attr.limits.put)?;
        let to = self.domain.reach(to, len)?;
        let mut offset = 0;
        for piece in from {
            // SAFETY: `offset + piece.len() <= len` bytes are inside `to`; the piece is readable
            // by the contract of zcopy. The two may
            // overlap, as memory of one process may.
            unsafe { copy_overlapping(piece.as_ptr(), to.as_ptr().add(offset), piece.len()) };
            offset += piece.len();
        }
        self.counters.puts += 1;
        Ok(Posted::Done)
    }

    fn put_notify(
        &mut self,
        ep: EpId,
        bytes: &[u8],
        to: RemoteSlice,
        id: AmId,
        header: &AmHeader,
    ) -> Result<(), PostError> {
        self.check_open(ep)?;
        // The slot of the notification first: a put without it would be observable.
        if self.queue.is_full() {
            return Err(self.refuse(ep, Missing::Slot));
        }
        self.put_short(ep, bytes, to)?;
        self.push_inline(id, header, &[]);
        Ok(())
    }

    fn get_bcopy(
        &mut self,
        ep: EpId,
        from: RemoteSlice,
        len: usize,
        unpack: &mut dyn FnMut(View<'_>),
    ) -> Result<(), PostError> {
        self.check_open(ep)?;
        check_len(len, self.attr.limits.get.max_bcopy)?;
        unpack(self.domain.reach(from, len)?);
        self.counters.gets += 1;
        Ok(())
    }

    fn get_zcopy(
        &mut self,
        ep: EpId,
        to: &[LocalSlice],
        from: RemoteSlice,
        _token: Token,
    ) -> Result<Posted, PostError> {
        self.check_open(ep)?;
        let len = bytes_of(to, &self.attr.limits.get)?;
        let from = self.domain.reach(from, len)?;
        let mut offset = 0;
        for piece in to {
            // SAFETY: `offset + piece.len() <= len` bytes are inside `from`; the piece is
            // writable by the contract of zcopy. The two may overlap.
            unsafe { copy_overlapping(from.as_ptr().add(offset), piece.as_ptr(), piece.len()) };
            offset += piece.len();
        }
        self.counters.gets += 1;
        Ok(Posted::Done)
    }

    fn atomic(
        &mut self,
        ep: EpId,
        op: AtomicOp,
        width: AtomicWidth,
        at: RemoteSlice,
        _token: Token,
    ) -> Result<Option<u64>, PostError> {
        self.check_open(ep)?;
        let word = self.domain.reach(at, width.bytes())?;
        let old = op.perform(word, width).ok_or(PostError::BadArgument)?;
        self.counters.atomics += 1;
        Ok(Some(old))
    }
}
