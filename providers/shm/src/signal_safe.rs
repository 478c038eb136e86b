//! Messages handed out in a signal handler. What is rare (deaths, guests, space, rings that
//! end or are asked back, halves of the queue that are to be turned over) waits for `progress`.
//!
//! Nothing here allocates: the table of active rings has space for all, and the staging buffers are
//! those of `progress`, which is not running.

use bowline_base::ring::promote::{SWITCH_ID, read_switch};
use bowline_base::scmp;
use bowline_base::words::DirectWords;
use bowline_uct::{AmId, Arrival, SignalSink, Source};

use crate::accept::Inner;
use crate::iface::ShmIface;
use crate::receive::Receiver;

impl ShmIface {
    pub(crate) fn progress_signal_safe(&mut self, sink: &mut dyn SignalSink, budget: u32) -> u32 {
        self.receiver.take_signal_safe(sink, budget)
    }
}

impl Receiver {
    fn take_signal_safe(&mut self, sink: &mut dyn SignalSink, budget: u32) -> u32 {
        let mut given = 0;
        for ring in &mut self.active {
            let source = Source(ring.source);
            while given < budget {
                let taken = ring.consumer.offer(|message| {
                    let payload = message.payload();
                    AmId::from_wire(message.id).is_some_and(|id| {
                        let header = message.header;
                        sink.offer(&Arrival { source, id, header, payload })
                    })
                });
                // What is damaged is found again, by `progress`.
                if !matches!(taken, Ok(true)) {
                    break;
                }
                ring.taken = ring.taken.wrapping_add(1);
                given += 1;
            }
        }
        // While a ring is asked back, the queue is read with more care than a signal handler has.
        let evicting = self.active.iter().any(|ring| ring.evicted);
        if evicting || self.poisoned || self.finding.is_some() || self.held_any() {
            return given;
        }
        let (queue, mut inner) = self.parts();
        while given < budget {
            inner.given = 0;
            if !queue.offer(|message| inner.offer(&message, sink)) {
                break;
            }
            given += inner.given;
        }
        given
    }
}

impl Inner<'_> {
    /// Whether a message of the queue was taken.
    fn offer(
        &mut self,
        message: &scmp::QueuedMessage<'_, DirectWords>,
        sink: &mut dyn SignalSink,
    ) -> bool {
        let source = u32::from(message.source);
        let known = source < self.sources && !self.ignored.contains(&source);
        if !known || self.active.iter().any(|ring| ring.source == source) {
            return false;
        }
        let Some(id) = AmId::from_wire(message.id) else {
            if message.id != SWITCH_ID {
                return false;
            }
            let number = read_switch(&message.header, self.free.len() as u32);
            let ring = number.and_then(|number| self.free.get(number as usize)?.as_ref());
            let fits = ring.is_some_and(|ring| ring.owner() == Some(source));
            if fits {
                self.switch(source, &message.header);
            }
            return fits;
        };
        let Some(payload) = self.payload(message) else { return false };
        let header = message.header;
        let arrival = Arrival { source: Source(source), id, header, payload };
        if !sink.offer(&arrival) {
            return false;
        }
        self.given += 1;
        self.busy_senders.count(source);
        true
    }
}
