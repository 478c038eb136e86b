//! What a worker counts, and to whom it is reported at the worker's end.

use crate::select::MeansEstimate;

bowline_base::counters! {
    /// What a worker counts.
    pub struct Counters {
        /// Tagged messages sent by the short path.
        sent_short,
        /// Active messages sent by it.
        am_short,
        /// Sends of streams by it.
        stream_short,
        /// Tagged messages sent in one bcopy piece.
        sent_bcopy,
        /// Messages sent eagerly from where they lie.
        sent_zcopy,
        /// Tagged messages sent in several pieces.
        sent_multi,
        /// Tagged messages offered for fetching.
        sent_rndv,
        /// Tagged messages written to receives that had been announced.
        sent_rtr,
        /// Announced receives that could not be relied on, because of what had been sent meanwhile.
        rtr_declined,
        /// Messages written to announced receives of which their receivers had to hear before they were whole.
        rtr_taken,
        /// Tagged messages written to receives from any source that were lent for a flag.
        sent_any,
        /// Messages that waited because the transport was full.
        send_waited,
        /// Messages that went as an envelope because eager credit was used up.
        credit_exhausted,
        /// Arrivals that found their receive posted.
        matched,
        /// Arrivals that had to wait for a receive.
        unexpected,
        /// Times that the matching engine of a space has grown its index, of spaces that are closed too.
        index_grown,
        /// Rendezvous messages fetched from the sender's memory.
        fetched,
        /// Those of them that were copied from memory that both map.
        mapped,
        /// Rendezvous messages that their senders have written here.
        landed,
        /// Receives announced to their senders.
        rtr,
        /// Those of them that an ordinary message has met.
        rtr_missed,
        /// Receives lent to senders that had raised a flag.
        any_asked,
        /// Those of them that nothing was written to.
        any_missed,
        /// Those of them that were met by another message than the one written to them, which was copied.
        any_copied,
        /// Rendezvous messages whose senders were asked to help.
        shared,
        /// Pieces of such messages that this side has written as their sender.
        helped,
        /// Rendezvous messages copied through the transport, since fetching was refused.
        copied,
        /// Puts that were complete in their call.
        put_short,
        /// Puts from where their bytes lie.
        put_zcopy,
        /// Gets.
        get_zcopy,
        /// Atomic operations.
        atomics,
        /// Puts, gets and atomics that the owner of the memory carried out.
        emulated,
        /// User's active messages received.
        am_received,
        /// Arrivals that no handler or peer was known for.
        stray,
        /// Peers that failed.
        peers_failed,
        /// Checks of silent peers' lives.
        asked_after,
    }
}

/// What a worker was asked to report at its end.
#[derive(Default)]
pub(crate) struct AtEnd(pub(crate) Option<EndReport>);

impl std::fmt::Debug for AtEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AtEnd").field(&self.0.is_some()).finish()
    }
}

/// What is called when a worker ends: with its counters, and what it has measured of long messages from each rank.
pub type EndReport = Box<dyn FnOnce(&Counters, &[(u32, MeansEstimate)]) + Send>;
