//! The receiving side of a lane: what each form of queue has to do, and what they share.
//!
//! A form is a state machine of its own in a file of its own: `counted`, `promoting`, `rings`, `checksummed`. It owns what it
//! knows of the queue's memory. The memory, the links and the senders are the lane's, which every call gets.

use bowline_base::buffer::RecvBuf;
use bowline_base::scmp;
use bowline_base::words::ViewWords;
use bowline_uct::{AmId, Arrival, Iface, MemHandle, Sink, Source};

use super::fifo::parts;
use super::lane_core::LaneCore;
use super::link::SenderEntry;

/// The receiving side of a form.
pub(super) trait Inbox: Send {
    /// Hands out at most `budget` messages; returns how many.
    fn receive(&mut self, lane: &mut LaneCore, sink: &mut dyn Sink, budget: u32) -> u32;

    /// Whether messages are there, or a half to be flipped.
    fn has_messages(&mut self, lane: &LaneCore) -> bool;

    /// Skips what dead senders have left in the queue, and reports the ends of peers that are due.
    fn settle(&mut self, lane: &mut LaneCore);

    /// The generation under which senders reserve now; of no use where they do not.
    fn generation(&self) -> u32 {
        0
    }

    /// The sender behind `link` whose words have the number `status` has another number from now on.
    fn renumbered(&mut self, lane: &LaneCore, link: u32, status: u32) {
        let _ = (lane, link, status);
    }
}

/// What became of an arrival.
pub(super) enum Taken {
    Handed,
    /// No known sender has the number, or the mark is not its own.
    Unknown,
    /// No handler has this number.
    Damaged,
}

/// A piece of the memory that the lane shows to its peers.
pub(super) fn words_at(
    inner: &dyn Iface,
    memory: MemHandle,
    at: usize,
    len: usize,
) -> ViewWords<'_> {
    let view = inner.mem_view(memory);
    let words = view.and_then(|view| ViewWords::new(view.slice(at, len)?));
    words.expect("the lane's memory is kept until it is dropped")
}

pub(super) fn hand_out(
    sink: &mut dyn Sink,
    senders: &[SenderEntry],
    staging: &mut RecvBuf,
    arrival: &scmp::QueuedMessage<'_, ViewWords<'_>>,
) -> Taken {
    let Some(sender) = senders.get(usize::from(arrival.source)) else { return Taken::Unknown };
    if sender.link == SenderEntry::NO_LINK || parts(arrival.mark).0 != sender.cookie {
        return Taken::Unknown;
    }
    let Some(id) = AmId::from_wire(arrival.id) else { return Taken::Damaged };
    if arrival.len > staging.len() {
        return Taken::Damaged;
    }
    let (source, header) = (Source(sender.link), arrival.header);
    let payload = match arrival.in_place() {
        Some(payload) => payload,
        None => {
            let mut at = 0;
            for piece in arrival.pieces() {
                at += staging.copy_at(at, piece);
            }
            let Some(payload) = staging.view().slice(0, arrival.len) else {
                return Taken::Damaged;
            };
            payload
        }
    };
    let _ = sink.am(Arrival { source, id, header, payload });
    Taken::Handed
}
