//! One wait of a worker: when it looks again, gives the processor away and sleeps.

use super::Worker;

/// The stages of one wait.
pub(crate) struct Waiting<'a> {
    worker: &'a Worker,
    round: u32,
    stages: Option<crate::wait::Stages>,
}

impl<'a> Waiting<'a> {
    #[inline]
    pub(crate) fn new(worker: &'a Worker) -> Self {
        Self { worker, round: 0, stages: None }
    }

    #[inline]
    pub(crate) fn busy(&mut self) {
        self.round = 0;
    }

    /// Progress found nothing; whether to look again at once.
    #[inline]
    pub(crate) fn spins(&mut self) -> bool {
        let worker = self.worker;
        let stages = *self.stages.get_or_insert_with(|| worker.waiter.borrow().stages());
        self.round = self.round.saturating_add(1);
        self.round <= stages.spins
    }

    /// Progress found nothing: looks again, gives the processor away or sleeps.
    #[inline]
    pub(crate) fn idle(&mut self) {
        // No pause instruction: a look at the queues takes longer than a pause is meant to, and
        // on recent processors a pause alone costs more than half of a message's latency.
        if !self.spins() {
            self.rest();
        }
    }

    /// After [`Waiting::spins`] said no: gives the processor away or sleeps.
    pub(crate) fn rest(&mut self) {
        if let Some(stages) = self.stages
            && self.round > stages.spins
        {
            self.long(stages);
        }
    }

    #[cold]
    fn long(&mut self, stages: crate::wait::Stages) {
        if self.round <= stages.spins.saturating_add(stages.yields) {
            let mut waiter = self.worker.waiter.borrow_mut();
            waiter.yield_now();
            let asked = waiter.stages();
            // Where yields do not pay any more, the next round is the first that sleeps.
            self.round = self.round.min(asked.spins.saturating_add(asked.yields));
            self.stages = Some(asked);
        } else {
            // The first one since something happened: the count begins anew with that.
            let before = stages.spins.saturating_add(stages.yields);
            if !self.worker.sleep(self.round == before.saturating_add(1)) {
                // Something has happened, which the next look need not find: a helper may have dealt with it.
                self.round = before;
            }
        }
    }
}
