//! What waits to be given to code of the user, once no lane and no borrow is in the way.

use bowline_base::slab::Key;
use bowline_uct::PeerFailure;

use crate::peer::Ep;
use crate::status::OpStatus;
use crate::wire::Rts;

/// An active message that waits for its handler to be called.
#[derive(Debug)]
pub(crate) struct AmArrival {
    /// The sender. An endpoint and no index, since the message may be with the user while that
    /// becomes another's.
    pub(crate) from: Ep,
    pub(crate) id: u16,
    /// Bytes of header, the first of `payload`.
    pub(crate) header: u32,
    /// Header, and the data that came with it.
    pub(crate) payload: Vec<u8>,
    /// Where the data is, if it did not.
    pub(crate) remote: Option<Box<Rts>>,
}

impl AmArrival {
    #[inline]
    pub(crate) fn header(&self) -> &[u8] {
        &self.payload[..self.header as usize]
    }

    #[inline]
    pub(crate) fn data(&self) -> Option<&[u8]> {
        match self.remote {
            None => Some(&self.payload[self.header as usize..]),
            Some(_) => None,
        }
    }

    pub(crate) fn len(&self) -> u64 {
        match &self.remote {
            None => self.payload.len() as u64 - u64::from(self.header),
            Some(rts) => rts.length,
        }
    }
}

/// What a callback is called with.
#[derive(Debug)]
pub struct RequestCompletion {
    /// How the operation ended.
    pub status: OpStatus,
    /// The bytes that its buffer owned.
    pub buffer: Option<Vec<u8>>,
}

/// A callback whose request is complete.
#[derive(Debug)]
pub(crate) struct Completed {
    /// The callback, as the worker keeps it.
    pub(crate) callback: Key,
    pub(crate) completion: RequestCompletion,
}

/// What waits to be given to code of the user once no lane and no borrow is in the way.
#[derive(Debug)]
pub(crate) enum Delivery {
    Am(AmArrival),
    Completed(Box<Completed>),
    /// A peer has failed or closed; behind its messages.
    End(Ep, PeerFailure),
}
