//! Tagged messages, matched by libfabric. They are under no credit of ours and carry no header.

use bowline_uct::runtime::check_len;
use bowline_uct::{
    CUT, EpId, LocalSlice, OpLimits, PostError, Posted, TagMatch, TagOffload, Token, WITHDRAWN,
};
use libfabric_sys as sys;

use crate::iface::OfiIface;
use crate::net::{MAX_PIECES, Piece, Refused};
use crate::peer::Work;
use crate::post::context_of;

/// In place of a peer: a receive takes messages of all.
pub(crate) const ANYBODY: u32 = u32::MAX;

/// Receives that may be posted at the same time.
const MOST_RECEIVES: usize = 4096;

impl OfiIface {
    /// Sends to a peer, or receives from anybody.
    fn tagged(
        &mut self,
        peer: Option<u32>,
        which: TagMatch,
        pieces: &[LocalSlice],
        token: Token,
    ) -> Result<Posted, PostError> {
        let limits = self.tag_limits();
        if limits.max_iov == 0 {
            return Err(PostError::Unsupported);
        }
        if pieces.len() > limits.max_iov.min(MAX_PIECES) {
            return Err(PostError::BadArgument);
        }
        let len = pieces.iter().fold(0_usize, |sum, piece| sum.saturating_add(piece.len()));
        check_len(len, limits.max_zcopy)?;
        let full = match peer {
            Some(peer) => self.must_wait(peer),
            None => self.tagged_receives >= MOST_RECEIVES,
        };
        if full {
            return Err(self.refuse());
        }
        let none = Piece { start: std::ptr::null_mut(), len: 0, desc: std::ptr::null_mut() };
        let mut list = [none; MAX_PIECES];
        let local = match self.localize(pieces, &mut list) {
            Ok(local) => local,
            Err(refused) => return Err(self.tagged_refusal(peer, refused)),
        };
        let work = Work::Tagged { token, receive: peer.is_none() };
        let op = self.ops.insert(peer.unwrap_or(ANYBODY), work, local);
        let place = peer.map_or(sys::FI_ADDR_UNSPEC, |peer| self.peers[peer as usize].place);
        let (tags, list) = ((which.tag, which.ignore), &list[..pieces.len()]);
        // SAFETY: the user's pieces stay valid until the token has been reported, before which
        // libfabric is done with them (see `failure`).
        let posted = unsafe { self.net.tagged(peer.is_some(), place, tags, list, context_of(op)) };
        match self.posted(op, posted) {
            Ok(()) => {
                self.tagged_receives += usize::from(peer.is_none());
                Ok(Posted::InFlight)
            }
            Err(refused) => Err(self.tagged_refusal(peer, refused)),
        }
    }

    fn tagged_refusal(&mut self, peer: Option<u32>, refused: Refused) -> PostError {
        match (peer, refused) {
            (Some(peer), refused) => self.refusal(peer, refused),
            (None, Refused::Again) => self.refuse(),
            (None, Refused::Failed(error)) => {
                tracing::debug!("libfabric refused a receive: {}", sys::error_text(error));
                PostError::BadArgument
            }
        }
    }

    /// A receive has ended with an error: withdrawn, or with a message longer than its buffer.
    pub(crate) fn receive_ended_badly(&mut self, token: Token, error: i32) {
        if error == sys::FI_ECANCELED {
            self.complete(token, Ok(WITHDRAWN));
        } else if error == sys::FI_ETRUNC as i32 {
            self.complete(token, Ok(CUT));
        } else {
            tracing::debug!("libfabric: a tagged receive failed: {}", sys::error_text(error));
            self.complete(token, Err(bowline_uct::PeerFailure::Unreachable));
        }
    }
}

impl TagOffload for OfiIface {
    fn tag_send(
        &mut self,
        ep: EpId,
        tag: u64,
        payload: &[LocalSlice],
        token: Token,
    ) -> Result<Posted, PostError> {
        let peer = self.open_peer(ep)?;
        self.tagged(Some(peer), TagMatch { tag, ignore: 0 }, payload, token)
    }

    fn tag_recv(
        &mut self,
        which: TagMatch,
        space: &[LocalSlice],
        token: Token,
    ) -> Result<Posted, PostError> {
        self.tagged(None, which, space, token)
    }

    fn tag_cancel(&mut self, token: Token) -> Result<(), PostError> {
        if !self.net.traits.tagged {
            return Err(PostError::Unsupported);
        }
        let op = self.ops.tagged_receive(token).ok_or(PostError::BadArgument)?;
        self.net.cancel(context_of(op));
        Ok(())
    }

    fn tag_limits(&self) -> OpLimits {
        if !self.net.traits.tagged {
            return OpLimits::default();
        }
        OpLimits { max_short: 0, max_bcopy: 0, ..self.attr.limits.put }
    }
}
