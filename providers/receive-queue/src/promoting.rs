//! The receiving side of the form with promotion: the counting form for all, and rings for those who send most.
//! Who gets one is in `promote`.

use bowline_base::words::ViewWords;
use bowline_uct::{OpenError, Sink};

use super::counted::{CountedInbox, Standing};
use super::inbox::Inbox;
use super::lane_core::LaneCore;
use super::layout::Shape;
use super::promote::Promotion;

/// SCMP for all, and a ring for each of those that send most.
pub(super) struct PromotingInbox {
    queue: CountedInbox,
    promotion: Promotion,
    /// Whether the rings are read before the queue in the next round.
    rings_first: bool,
}

impl PromotingInbox {
    /// A new queue in zeroed memory, and rings that are nobody's.
    pub(super) fn new(words: ViewWords<'_>, shape: Shape) -> Result<Self, OpenError> {
        let queue = CountedInbox::new(words, shape.slots)?;
        Ok(Self { queue, promotion: Promotion::new(shape.rings), rings_first: false })
    }

    fn receive_queue(&mut self, lane: &mut LaneCore, sink: &mut dyn Sink, budget: u32) -> u32 {
        self.queue.flip(lane);
        // After the flip, as in the counting form.
        lane.read_introductions(self);
        let Self { queue, promotion, .. } = self;
        let polled =
            queue.poll(lane, sink, budget, |senders, arrival| promotion.by_queue(senders, arrival));
        if let Some(source) = polled.damaged {
            promotion.blame(lane, source);
        }
        polled.handed
    }
}

impl Inbox for PromotingInbox {
    /// Which comes first, the queue or the rings, alternates.
    fn receive(&mut self, lane: &mut LaneCore, sink: &mut dyn Sink, budget: u32) -> u32 {
        let rings_first = self.rings_first;
        self.rings_first = !rings_first;
        let mut handed = 0;
        if rings_first {
            handed += self.promotion.receive(lane, sink, budget);
        }
        handed += self.receive_queue(lane, sink, budget - handed);
        if lane.closed.is_some() {
            // By that. The rings are closed, too.
            return handed;
        }
        handed += self.promotion.drain_first(lane, sink, budget - handed);
        if !rings_first {
            handed += self.promotion.receive(lane, sink, budget - handed);
        }
        self.promotion.promote(lane);
        handed
    }

    fn has_messages(&mut self, lane: &LaneCore) -> bool {
        self.promotion.has_work(lane) || self.queue.has_messages(lane)
    }

    fn settle(&mut self, lane: &mut LaneCore) {
        if lane.settlement.ending.is_empty() {
            return;
        }
        let standing = self.queue.standing(lane);
        let Some(Standing { generation, drained, stalled }) = standing else { return };
        if stalled {
            if lane.settlement.begins(generation) {
                lane.read_introductions(self);
            }
            if lane.ask_the_living(generation) {
                // Rule 5 of `promote`.
                let promotion = &self.promotion;
                self.queue.resolve(lane, |lane, sender| promotion.has_used_ring(lane, sender));
            }
            return;
        }
        lane.settlement.running = None;
        if drained && !lane.flip_is_under_way() {
            let (reserved, promotion) = (lane.is_reserved(), &mut self.promotion);
            lane.report_ends(generation, |lane, link, flipped| {
                let over = (flipped || !reserved) && promotion.is_over(lane, link);
                if over {
                    promotion.free(lane, link);
                }
                over
            });
        }
    }

    fn generation(&self) -> u32 {
        self.queue.generation()
    }

    fn renumbered(&mut self, lane: &LaneCore, link: u32, status: u32) {
        self.promotion.lose_rings_of(lane, link, status);
    }
}
