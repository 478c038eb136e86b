//! Arrivals that the receiver keeps: see [`Verdict::Keep`](crate::Verdict::Keep).

use bowline_base::view::View;

use crate::sink::Desc;

/// Buffers of the transport that its user has kept. A transport that never names one in an arrival lacks this
/// part.
pub trait KeptArrivals {
    /// Gives a kept descriptor back.
    fn release(&mut self, desc: Desc);

    /// The bytes of a kept descriptor (payload as in the arrival).
    fn desc_view(&self, desc: Desc) -> Option<View<'_>>;
}
