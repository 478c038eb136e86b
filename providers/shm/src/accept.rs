//! One message of the shared queue: to the sink, or, for the markers between the two routes and for
//! what cannot be, to where it belongs. The rules are in [`crate::receive`].

use bowline_base::ring;
use bowline_base::ring::promote::{SWITCH_ID, read_switch};
use bowline_base::scmp;
use bowline_base::view::View;
use bowline_base::words::DirectWords;
use bowline_uct::{AmHeader, AmId, Arrival, Sink, Source};

use crate::busy_senders::BusySenders;
use crate::message::{PADDED, TRAILER, VOID_ID};
use crate::ring_table::ActiveRing;

/// What a call found that is not a message for the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The source wrote what no correct peer writes.
    Damaged(u32),
    /// The shared queue is closed.
    Poisoned,
}

/// A message of the queue that waits for its source's ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) source: u32,
    pub(crate) id: u8,
    pub(crate) header: AmHeader,
    /// In the staging buffer.
    pub(crate) len: usize,
}

/// The parts of a receiver that a message of the queue touches, apart from the queue.
pub(crate) struct Inner<'a> {
    pub(crate) active: &'a mut Vec<ActiveRing>,
    pub(crate) free: &'a mut [Option<ring::Consumer<DirectWords>>],
    pub(crate) ignored: &'a [u32],
    pub(crate) busy_senders: &'a mut BusySenders,
    pub(crate) held: &'a mut Option<Held>,
    pub(crate) staging: &'a mut [u8],
    pub(crate) sources: u32,
    /// Messages given to the sink.
    pub(crate) given: u32,
    pub(crate) finding: Option<Finding>,
}

impl Inner<'_> {
    #[inline]
    pub(crate) fn accept(
        &mut self,
        message: &scmp::QueuedMessage<'_, DirectWords>,
        sink: &mut dyn Sink,
    ) {
        let source = u32::from(message.source);
        if source >= self.sources || !self.ignored.is_empty() && self.ignored.contains(&source) {
            return;
        }
        if self.active.iter().any(|ring| ring.source == source) {
            return self.hold(message);
        }
        let Some(id) = AmId::from_wire(message.id) else {
            match message.id {
                SWITCH_ID => self.switch(source, &message.header),
                VOID_ID => {}
                _ => self.finding = Some(Finding::Damaged(source)),
            }
            return;
        };
        let Some(payload) = self.payload(message) else {
            self.finding = Some(Finding::Damaged(source));
            return;
        };
        self.given += 1;
        self.busy_senders.count(source);
        let _ = sink.am(Arrival { source: Source(source), id, header: message.header, payload });
    }

    /// The payload of a message, where it lies if that is one piece, unless it cannot be. It is to be
    /// done with before the next message.
    #[inline]
    pub(crate) fn payload<'a>(
        &mut self,
        message: &scmp::QueuedMessage<'a, DirectWords>,
    ) -> Option<View<'a>> {
        match message.in_place() {
            Some(view) if message.flags & PADDED == 0 => Some(view),
            _ => {
                let len = self.stage(message)?;
                // SAFETY: the staging buffer lives as long as the receiver, and is longer than any
                // message of the queue; it is only used through the view until the sink has
                // returned, which comes before the next message.
                Some(unsafe { View::from_raw(self.staging.as_mut_ptr(), len) })
            }
        }
    }

    /// Copies a payload to the staging buffer; its length, unless that cannot be.
    fn stage(&mut self, message: &scmp::QueuedMessage<'_, DirectWords>) -> Option<usize> {
        let len = message.copy_to(self.staging);
        if message.flags & PADDED == 0 {
            return (len == message.len).then_some(len);
        }
        let content = self.staging.get(len.checked_sub(TRAILER)?..len)?;
        let said = u32::from_le_bytes(content.try_into().ok()?) as usize;
        (said <= len - TRAILER).then_some(said)
    }

    /// Keeps a message until its source's ring has been read to its end.
    #[cold]
    fn hold(&mut self, message: &scmp::QueuedMessage<'_, DirectWords>) {
        let source = u32::from(message.source);
        let evicted = self.active.iter().any(|ring| ring.source == source && ring.evicted);
        if !evicted || self.held.is_some() {
            // A ring ends only when it was asked to, and then one message is polled at once.
            self.finding = Some(Finding::Damaged(source));
            return;
        }
        let Some(len) = self.stage(message) else {
            self.finding = Some(Finding::Damaged(source));
            return;
        };
        *self.held = Some(Held { source, id: message.id, header: message.header, len });
    }

    /// The next messages of `source` come by the ring that the marker names.
    #[cold]
    pub(crate) fn switch(&mut self, source: u32, header: &AmHeader) {
        let number = read_switch(header, self.free.len() as u32);
        let place = number.and_then(|number| self.free.get_mut(number as usize));
        match (number, place) {
            (Some(number), Some(place))
                if place.as_ref().is_some_and(|ring| ring.owner() == Some(source)) =>
            {
                let consumer = place.take().expect("the guard saw that it is there");
                self.active.push(ActiveRing::new(number, source, consumer));
                self.busy_senders.forget(source);
            }
            // Not its ring, or one that is active already.
            _ => self.finding = Some(Finding::Damaged(source)),
        }
    }
}
