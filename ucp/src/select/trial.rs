//! What one trial has shown so far: the prices of its messages, and whether more of them are needed.
//!
//! Nothing is chosen here, and nothing paid: [`super::Choice`] does that.

use super::cheaper;

/// Messages by which a means has to look cheaper.
pub(super) const TRIAL: u8 = 4;
/// Messages that have to show it then, by their mean.
pub(super) const CONFIRM: u8 = 14;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trial {
    pub(super) means: u8,
    /// Prices of the first messages.
    prices: [u32; TRIAL as usize],
    /// Those of the others together.
    sum: u64,
    pub(super) seen: u8,
    /// Nanoseconds that its messages have taken from the budget.
    pub(super) charged: i64,
    /// Messages of the class since its last one.
    pub(super) waited: u8,
}

impl Trial {
    pub(super) const fn of(means: u8) -> Self {
        Self { means, prices: [0; TRIAL as usize], sum: 0, seen: 0, charged: 0, waited: 0 }
    }

    /// A message has come by the means that is tried, while the one in use costs `best`. One that took very long counts as in that
    /// one's price: for four.
    pub(super) fn add(&mut self, price: u32, best: u32) {
        match self.prices.get_mut(usize::from(self.seen)) {
            Some(place) => *place = price,
            None => self.sum += u64::from(price.min(best.saturating_mul(4))),
        }
        (self.seen, self.waited) = (self.seen + 1, 0);
    }

    /// Whether no message has to follow, where the means in use costs `best`.
    pub(super) fn is_decided(&self, window: bool, best: u32) -> bool {
        let dear = self.seen == TRIAL && !cheaper(self.price(window), best);
        dear || self.is_whole()
    }

    /// Whether there were as many messages as a means needs to replace another one.
    pub(super) const fn is_whole(&self) -> bool {
        self.seen >= TRIAL + CONFIRM
    }

    /// What the means costs by the messages that there were, one or more (rule 2).
    pub(super) fn price(&self, window: bool) -> u32 {
        if let Some(confirming @ 1..) = self.seen.checked_sub(TRIAL) {
            return mean(self.sum, usize::from(confirming));
        }
        let (mut prices, seen) = (self.prices, usize::from(self.seen));
        let judged = if window {
            &prices[..seen]
        } else {
            let judged = &mut prices[usize::from(seen > 1)..seen];
            judged.sort_unstable();
            &judged[..judged.len().div_ceil(2)]
        };
        mean(judged.iter().map(|&price| u64::from(price)).sum(), judged.len())
    }
}

fn mean(sum: u64, count: usize) -> u32 {
    u32::try_from(sum / (count as u64).max(1)).unwrap_or(u32::MAX)
}
