//! Memory that collectives use again and again.

use bowline_base::sync::CacheLine;
use bowline_model::coll::plan::Span;
use bowline_ucp::{Ep, RequestId};

/// Memory that collectives use again and again.
#[derive(Default, Debug)]
pub(crate) struct Workspace {
    /// Lines, so that scratch is aligned for every datatype.
    pub(crate) scratch: Vec<CacheLine<[u8; 64]>>,
    pub(crate) flights: Vec<Flight>,
}

/// An operation under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) id: RequestId,
    pub(crate) span: Span,
    pub(crate) tag: u64,
    pub(crate) partner: Partner,
    /// The track that waits for it.
    pub(crate) track: u8,
}

/// Where a message of a plan goes to or comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Partner {
    /// It is sent to this endpoint.
    To(Ep),
    /// It is received from this rank of the communicator, or from any.
    From(Option<u32>),
}

impl Flight {
    /// Where the bytes that come are put, if it is a receive.
    #[inline]
    pub(crate) const fn received(&self) -> Option<Span> {
        match self.partner {
            Partner::From(_) => Some(self.span),
            Partner::To(_) => None,
        }
    }
}
