//! One ring that is being read: how a message is taken from it, and how many in one call.

use bowline_base::ring;
use bowline_base::ring::promote::END_ID;
use bowline_base::words::DirectWords;
use bowline_uct::{AmId, Arrival, Sink, Source, Verdict};

/// A ring that is being read.
#[derive(Debug)]
pub(crate) struct ActiveRing {
    pub(crate) number: u32,
    pub(crate) source: u32,
    /// Messages since the last comparison with the busiest sources of the queue.
    pub(crate) taken: u32,
    /// Messages that one call takes behind the first; see [`ActiveRing::take_more`].
    pub(crate) window: u32,
    /// Whether the last call found all that it polled for.
    pub(crate) filled: bool,
    /// Its owner was asked to give it back.
    pub(crate) evicted: bool,
    pub(crate) consumer: ring::Consumer<DirectWords>,
}

/// Outcome of one poll of a ring.
pub(crate) enum Taken {
    /// A message, and what it counts where a call is bounded.
    Message(u32),
    /// A message, behind which the sink wants no other one in this call.
    Last,
    Nothing,
    End,
    Bad,
}

/// Largest window of a ring.
const MAX_WINDOW: u32 = 32;

/// Bytes of a message that count as much as another one: the receiver of a long message, whose next
/// receive is posted when the call has returned, must not find that all that follows has been taken
/// to other places meanwhile.
const COUNTED: usize = 1 << 10;

impl ActiveRing {
    pub(crate) fn new(number: u32, source: u32, consumer: ring::Consumer<DirectWords>) -> Self {
        Self { number, source, taken: 0, window: 1, filled: false, evicted: false, consumer }
    }

    /// Hands out what is behind a first message, at most `budget` and at most a window that grows
    /// while it is filled.
    ///
    /// To poll behind the last message costs a miss: the next slot lies in its sender's cache. A
    /// reply would wait for that, so a ring whose messages come one by one is not polled twice
    /// in a call. Only when a ring had a message in the last call, too, there may be more, and
    /// then the poll is paid by the next message.
    #[inline(never)]
    pub(crate) fn take_more(&mut self, sink: &mut dyn Sink, budget: u32) -> (u32, Taken) {
        let most = self.window.min(budget);
        let (mut taken, mut counted) = (0, 0);
        while counted < most {
            self.consumer.prefetch();
            match self.take(sink) {
                Taken::Message(count) => {
                    taken += 1;
                    counted += count;
                }
                Taken::Last => {
                    taken += 1;
                    self.taken = self.taken.wrapping_add(taken);
                    return (taken, Taken::Last);
                }
                Taken::Nothing => {
                    self.window = counted.max(1);
                    self.filled = false;
                    break;
                }
                end => return (taken, end),
            }
        }
        self.taken = self.taken.wrapping_add(taken);
        if counted >= self.window {
            self.window = (self.window * 2).min(MAX_WINDOW);
        }
        (taken, Taken::Message(counted))
    }

    /// A first message was taken, behind which there is none to be taken in this call.
    #[inline]
    pub(crate) const fn note_last(&mut self) {
        self.taken = self.taken.wrapping_add(1);
        self.filled = true;
    }

    /// Hands out the next message, if there is one.
    #[inline]
    pub(crate) fn take(&mut self, sink: &mut dyn Sink) -> Taken {
        let source = Source(self.source);
        let outcome = self.consumer.receive(|message| {
            let Some(id) = AmId::from_wire(message.id) else {
                return if message.id == END_ID { Taken::End } else { Taken::Bad };
            };
            let verdict =
                sink.am(Arrival { source, id, header: message.header, payload: message.payload() });
            // `Enough` of a message that lies in a slot counts as `Consumed`: to ask for it would cost each short message two
            // instructions, and what is behind such a one is seldom long.
            match verdict {
                Verdict::Enough if message.in_data() => Taken::Last,
                _ => Taken::Message(1 + (message.len / COUNTED) as u32),
            }
        });
        match outcome {
            Ok(Some(taken)) => taken,
            Ok(None) => Taken::Nothing,
            Err(ring::Damaged) => Taken::Bad,
        }
    }
}
