//! The receive that is posted while none waits in its space: most programs receive message by message.
//!
//! It waits in one place of the worker, beside the matching engine of its space, and is a request like every
//! other. What an arrival compares and the request that it finds are at addresses that do not depend on
//! the arrival: the processor has loaded all of it when the header comes, and copies the payload without a
//! chain of loads from the space to its list, its entry and its request.
//!
//! Rules: (1) it is older than every receive in the engine of its space, since it is posted only while that
//! has none; so it is compared first. (2) While it waits, other receives are posted to the engines.
//! (3) Whatever searches for posted receives asks [`Spaces`](super::Spaces) or [`Space`](super::Space), which know this
//! place; the number of its entry is [`ItemId::NONE`].

use crate::matching::{ItemId, MatchSpec, Want};

/// No space.
const NONE: u64 = u64::MAX;

/// The place. See the module's text.
#[derive(Debug)]
pub(crate) struct Single {
    /// Its space, [`NONE`] while no receive is here.
    space: u64,
    want: Want,
    value: u64,
}

impl Default for Single {
    fn default() -> Self {
        let want = Want { source: 0, source_mask: 0, tag: 0, tag_mask: 0 };
        Self { space: NONE, want, value: 0 }
    }
}

impl Single {
    #[inline(always)]
    pub(super) const fn is_free(&self) -> bool {
        self.space == NONE
    }

    /// Whether a receive of this space is here.
    pub(super) const fn is_in(&self, space: u32) -> bool {
        self.space == space as u64
    }

    /// Posts a receive here. The place is free, and the engine of the space has no receive.
    #[inline(always)]
    pub(super) const fn post(&mut self, spec: &MatchSpec, value: u64) -> ItemId {
        self.space = spec.space as u64;
        self.want = spec.want();
        self.value = value;
        ItemId::NONE
    }

    /// Takes the receive for an arrival, if it is for it.
    #[inline(always)]
    pub(super) const fn arrive(&mut self, space: u32, source: u32, tag: u64) -> Option<u64> {
        if self.space == space as u64 && self.want.fits(source, tag) {
            return Some(self.take());
        }
        None
    }

    /// Takes the receive back, if it is in this space and `which` says so.
    pub(super) fn remove_if(
        &mut self,
        space: u32,
        which: impl FnOnce(&Want, u64) -> bool,
    ) -> Option<u64> {
        let is_it = self.space == u64::from(space) && which(&self.want, self.value);
        is_it.then(|| self.take())
    }

    #[inline(always)]
    const fn take(&mut self) -> u64 {
        self.space = NONE;
        self.value
    }
}
