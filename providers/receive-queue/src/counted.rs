//! The receiving side of the counting form: a half is flipped, and its messages are handed out when all that was
//! reserved in it is counted. The queue is [`bowline_base::scmp::counted`]; what the dead leave is in `settle`.

use bowline_base::scmp::counted::{self, Consumer};
use bowline_base::scmp::{Fault, QueuedMessage};
use bowline_base::words::ViewWords;
use bowline_uct::{OpenError, Sink};

use super::fifo::parts;
use super::inbox::{Inbox, Taken, hand_out, words_at};
use super::lane_core::LaneCore;
use super::link::SenderEntry;

/// What is to be done with a message.
pub(super) enum Choice {
    /// It is handed out.
    Take,
    /// It is for the lane itself.
    Skip,
    /// It is the next one again later.
    Later,
    Damaged,
}

/// Messages that were handed out, and a source that has damaged a slot.
pub(super) struct Polled {
    pub(super) handed: u32,
    pub(super) damaged: Option<u16>,
}

/// Where the queue stands.
#[derive(Clone, Copy)]
pub(super) struct Standing {
    /// The generation under which senders reserve.
    pub(super) generation: u32,
    /// Whether the half that was flipped last has been handed out.
    pub(super) drained: bool,
    /// Whether something in it is reserved and not counted.
    pub(super) stalled: bool,
}

/// The counting form.
pub(super) struct CountedInbox {
    /// Always there between two calls.
    consumer: Option<Consumer<()>>,
}

impl CountedInbox {
    /// A new queue in zeroed memory.
    pub(super) fn new(words: ViewWords<'_>, slots: u32) -> Result<Self, OpenError> {
        let made = counted::init(words, slots, 0);
        let mut made = made.map_err(|error| OpenError::Limit(error.to_string()))?.rehome(());
        made.flip_by_hand();
        Ok(Self { consumer: Some(made) })
    }

    /// Flips, if the last half is drained and something was reserved in the other one.
    pub(super) fn flip(&self, lane: &mut LaneCore) {
        let drained = self.consumer.as_ref().filter(|consumer| consumer.is_drained());
        if let Some(consumer) = drained.filter(|_| lane.is_reserved()) {
            lane.flip(consumer.flip_word());
        }
    }

    /// Hands out at most `budget` messages, as `choose` says.
    pub(super) fn poll(
        &mut self,
        lane: &mut LaneCore,
        sink: &mut dyn Sink,
        budget: u32,
        mut choose: impl FnMut(&[SenderEntry], &QueuedMessage<'_, ViewWords<'_>>) -> Choice,
    ) -> Polled {
        let mut polled = Polled { handed: 0, damaged: None };
        let Some(consumer) = self.consumer.take() else { return polled };
        let words = words_at(&*lane.inner, lane.memory, 0, lane.shape.queue_bytes());
        let mut consumer = consumer.rehome(words);
        let flipped = lane.flip_answer.take().map_or(Ok(()), |old| consumer.flipped(old));
        let (senders, staging) = (&lane.senders, &mut lane.staging);
        let mut unknown_senders = 0;
        let result = consumer.poll_while(budget, |arrival| {
            match choose(senders, &arrival) {
                Choice::Take => match hand_out(sink, senders, staging, &arrival) {
                    Taken::Handed => polled.handed += 1,
                    Taken::Unknown => unknown_senders += 1,
                    Taken::Damaged => polled.damaged = Some(arrival.source),
                },
                Choice::Skip => {}
                Choice::Later => return false,
                Choice::Damaged => polled.damaged = Some(arrival.source),
            }
            true
        });
        self.consumer = Some(consumer.rehome(()));
        lane.stats.received += u64::from(polled.handed);
        lane.count_unknown_senders(unknown_senders);
        match flipped.and(result) {
            Ok(_) => {}
            Err(Fault::Source { source_id }) => polled.damaged = Some(source_id),
            Err(Fault::Poisoned(damage)) => lane.poison(damage),
        }
        polled
    }

    /// Where the queue stands; `None` while it is polled.
    pub(super) fn standing(&mut self, lane: &LaneCore) -> Option<Standing> {
        let words = words_at(&*lane.inner, lane.memory, 0, lane.shape.queue_bytes());
        let consumer = self.consumer.take()?.rehome(words);
        let standing = Standing {
            generation: consumer.producers_tag(),
            drained: consumer.is_drained(),
            stalled: consumer.stalled(),
        };
        self.consumer = Some(consumer.rehome(()));
        Some(standing)
    }

    /// All reservations of the living in the half have ended: it goes on past what is missing. `finished` says
    /// whether all that a sender has reserved is known to be counted.
    pub(super) fn resolve(
        &mut self,
        lane: &mut LaneCore,
        finished: impl Fn(&LaneCore, usize) -> bool,
    ) {
        let Some(consumer) = self.consumer.take() else { return };
        let words = words_at(&*lane.inner, lane.memory, 0, lane.shape.queue_bytes());
        let mut consumer = consumer.rehome(words);
        let count = lane.senders.iter().filter(|sender| lane.is_gone(sender)).count() as u64;
        // A reservation is at most half of a half, or one message, which is no longer.
        let accounted = count * u64::from(lane.shape.slots);
        let mut last: Vec<(u16, u16)> = Vec::new();
        let result = consumer.resolve(accounted, |source, mark| {
            let Some(sender) =
                lane.senders.get(usize::from(source)).filter(|sender| lane.is_gone(sender))
            else {
                return false;
            };
            if finished(lane, usize::from(source)) {
                return false;
            }
            let (cookie, reservation) = parts(mark);
            if cookie != sender.cookie {
                // Its second word has not come: it is of the last reservation.
                return true;
            }
            match last.iter().find(|(known, _)| *known == source) {
                Some((_, highest)) => *highest == reservation,
                None => {
                    last.push((source, reservation));
                    true
                }
            }
        });
        self.consumer = Some(consumer.rehome(()));
        lane.settlement.running = None;
        lane.stats.settlements += 1;
        if let Err(Fault::Poisoned(damage)) = result {
            lane.poison(damage);
        }
    }
}

impl Inbox for CountedInbox {
    fn receive(&mut self, lane: &mut LaneCore, sink: &mut dyn Sink, budget: u32) -> u32 {
        self.flip(lane);
        // After the flip: a sender with a message in the half has introduced itself before it reserved, so that
        // its record is there now, and need not have been before.
        lane.read_introductions(self);
        let polled = self.poll(lane, sink, budget, |_, _| Choice::Take);
        if let Some(source) = polled.damaged {
            lane.distrust(source);
        }
        polled.handed
    }

    fn has_messages(&mut self, lane: &LaneCore) -> bool {
        let Some(standing) = self.standing(lane) else { return false };
        if standing.drained { lane.is_reserved() && !lane.flipping } else { !standing.stalled }
    }

    fn settle(&mut self, lane: &mut LaneCore) {
        if lane.settlement.ending.is_empty() {
            return;
        }
        let Some(Standing { generation, drained, stalled }) = self.standing(lane) else { return };
        if stalled {
            if lane.settlement.begins(generation) {
                lane.read_introductions(self);
            }
            if lane.ask_the_living(generation) {
                self.resolve(lane, |_, _| false);
            }
            return;
        }
        lane.settlement.running = None;
        if drained && !lane.flip_is_under_way() {
            let reserved = lane.is_reserved();
            lane.report_ends(generation, |_, _, flipped| flipped || !reserved);
        }
    }

    fn generation(&self) -> u32 {
        self.consumer.as_ref().map_or(0, Consumer::producers_tag)
    }
}
