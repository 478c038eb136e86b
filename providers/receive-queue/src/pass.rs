//! Operations of the user that the transport below carries out, by its own numbers of endpoints and with
//! tokens that are not ours.

use bowline_uct::{EpId, Iface, PostError, Posted, Token};

use super::lane_core::LaneCore;

impl LaneCore {
    /// An operation of the user, by the endpoint below.
    pub(super) fn pass<T>(
        &mut self,
        ep: EpId,
        post: impl FnOnce(&mut dyn Iface, EpId) -> Result<T, PostError>,
    ) -> Result<T, PostError> {
        let below = self.below_of(ep)?;
        let result = post(&mut *self.inner, below);
        if matches!(result, Err(PostError::NoResource)) {
            self.links[ep.0 as usize].below_full = true;
        }
        result
    }

    /// The same with a token.
    pub(super) fn pass_with<T>(
        &mut self,
        ep: EpId,
        token: Token,
        post: impl FnOnce(&mut dyn Iface, EpId, Token) -> Result<T, PostError>,
        in_flight: impl FnOnce(&T) -> bool,
    ) -> Result<T, PostError> {
        let lent = self.odd.lend(token);
        let result = self.pass(ep, |inner, below| post(inner, below, lent));
        if !matches!(&result, Ok(posted) if in_flight(posted)) {
            self.odd.owner(lent);
        }
        result
    }
}

/// Whether an operation is under way.
pub(super) fn is_in_flight(posted: &Posted) -> bool {
    *posted == Posted::InFlight
}
