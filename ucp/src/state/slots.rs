//! Which slots in the table of peers are nobody's. The rules are in [`crate::reuse`].

use std::collections::VecDeque;

use crate::peer::PeerIndex;

/// The slots that are nobody's.
#[derive(Debug, Default)]
pub(crate) struct FreeSlots {
    /// The one that was left first is taken first.
    pub(crate) free: VecDeque<PeerIndex>,
    /// Peers that have come since the tables were gone through.
    pub(crate) came: usize,
    /// How many will have come when that is done again.
    pub(crate) due: usize,
    /// Rule 5.
    pub(crate) wanted: bool,
}
