//! How a long message comes, by what messages have just taken: the estimates of one peer, and the choice.
//!
//! Costs that are known before ([`crate::protocol`]) cannot say how far apart two processors are, nor whether memory is in a
//! cache. So the receiver, who sees the end of every message, measures: from the moment at which it has both the message's first
//! part and the receive, or the end of the peer's message before, to the message's end. It keeps the price of a byte for each
//! class of sizes and each *means*: eager pieces, and the protocols by which an offered message is received. Tagged and active
//! messages and sends of streams are kept apart. So are windows and single messages, and memory that the sender has used
//! last and other memory, which may be in no cache: the sender says that in two bits of the message's length ([`Marks`]).
//!
//! ```text
//!              a message came by the best           the budget pays for a trial, or
//!              means: its price moves               another means is known to be cheaper
//!   Settled ──────────────────────────────► Settled ────────────────────────────────────► Trial(means)
//!      ▲                                                                                     │ TRIAL messages by it, and CONFIRM more
//!      └─────────────────────────────────────────────────────────────────────────────────────┘ where it looks cheaper: the cheaper one is best
//!                            no message came by it for TRIAL_WAIT messages, or the budget is used up: it ends
//! ```
//! Rules. (1) *Regret*: every message pays a fiftieth of its time into a budget, and each message by the means tried last, or by another since that could not
//! be, takes from it what it took longer than the best means would have. A trial begins only where the budget holds what it is expected to cost, and
//! ends where the budget is used up. So at any time, also before anything is known, trials have taken at most a fiftieth of the time of all
//! messages and one message more, however dear the means are; in windows those more that were under way. What the best means would have taken is what it is
//! known to cost: until a change of prices is known the bound is by those before. Where an
//! earlier trial, of any peer, has shown a means to be cheaper than the one in use at its price ([`results`]), a trial of that begins where nothing is owed. Within
//! some 200 messages for each means, and 50 more for each time that a dear one takes longer than the best, all have had a trial.
//! (2) The first message of a trial is not
//! judged, unless it was the only one: it finds its memory in the wrong cache. Of the others the cheaper half counts, since disturbances only make
//! messages longer. Where times have a spread, that half lies under the mean of an equal means: it shows that a means is dear, but not that it is
//! cheaper. So one that looks cheaper has CONFIRM messages more, whose mean counts, and a trial that has used up the budget before shows nothing cheaper.
//! The estimate of the means in use follows its last messages, and is above what it costs as often as below: a trial then would find a dearer means
//! cheaper. So it has to be cheaper than that estimate and than the *steady* price, the mean of more messages. That begins anew where the estimate has left it by half
//! of it, since the machine has changed then.
//! Of a window all count: several of its messages may end at once, where both sides copy whole ones, and what they took is in
//! the time of the one before, so that they pay back what others of the trial were charged. (3) A means is replaced by one that is cheaper
//! by a tenth, so that equals do not take turns. (4) The
//! receiver decides, the sender obeys: SELECT says whether messages of a class are to come in pieces or as an offer. A
//! message may always come otherwise (for want of credit, say): what counts is how it came.
//!
//! (5) Where two reads of the clock take more than a two-hundredth of a message's time, one of several messages is timed, in runs of
//! eight, since in a window a message's time begins at the end of the one before; trials always are. The others count, and pay what they are expected to take.
//!
//! (6) A tagged message that comes before its receive costs otherwise: in pieces it is copied twice, offered it waits. So there is a choice for such
//! messages, and one for the others; the sender, who does not know which of them its message is, obeys the choice for those that prevail
//! ([`prevailing`]), and only that one begins trials. A message of the other kind pays into its budget and takes from it what a trial has made it take longer.
//!
//! (7) Of sends of streams that nobody waits for, or that come behind what is being read, the copy into their receives is not timed. They pay nothing, but take
//! what they took longer, with that copy as it is predicted; and a trial ends with the first of them, and shows nothing.
//!
//! The module has no clock, and chooses alike for the same times.

mod meter;
mod prevailing;
mod results;
#[cfg(test)]
mod tests;
mod traffic;
mod trial;

pub use meter::{FirstGuess, MeansEstimate, MeansReason};
pub(crate) use meter::{LaneMeter, Measure, Meter, PieceTimes, Selection, choice_index, place};
pub(crate) use results::{Judged, TrialResults};
pub use traffic::MessageKind;
pub(crate) use traffic::{CHOICES, Marks, PLACES, Recent, Traffic, class, shortest};
use trial::{TRIAL, Trial};

/// Classes of sizes: from 16 KB each up to twice as long, the last without an end.
pub(crate) const CLASSES: usize = 9;
/// The binary logarithm of the first class.
const FIRST: u32 = 14;

/// The shortest message that is measured. What there is to gain by shorter ones has not been shown.
pub(crate) const SHORTEST: u64 = 64 << 10;

/// Means: the first lives of the registry, in its order, in which the eager one is the first.
pub(crate) const MEANS: usize = 6;
/// That of messages that come in pieces without being asked for.
pub(crate) const EAGER: u8 = 0;

/// Messages after which the price of the means in use says what others have found out at such a price.
const SETTLES: u32 = 8;
/// Messages without one by the means that is tried, after which the trial is left.
const TRIAL_WAIT: u8 = 64;
/// An estimate moves by one of so many parts of a difference.
const QUICK: u8 = 8;
/// The steady price moves by one of up to so many. Times that differ evenly by up to 80 % have a standard deviation of 46 %, which leaves 4 % of it in
/// the steady price, and 12 % in an estimate.
const STEADY: u8 = 64;
/// The part of the time that trials may take.
const SHARE: u64 = 50;
/// The part of the time that reading the clock may take.
const CLOCK_SHARE: u64 = 200;
/// Messages that are timed in a row, where not all are.
const RUN: u32 = 8;
/// At most one of so many is timed.
const RAREST: u64 = 32;

/// Prices for a byte in one nanosecond.
const UNIT: u64 = 1_000_000;

/// What a byte cost of so many.
fn price_of(nanoseconds: u64, bytes: u64) -> u32 {
    let exact = nanoseconds.saturating_mul(UNIT) / bytes.max(1);
    u32::try_from(exact).unwrap_or(u32::MAX).max(1)
}

/// Nanoseconds that so many bytes take at a price.
fn taken_at(price: u32, bytes: u64) -> u64 {
    u64::from(price).saturating_mul(bytes) / UNIT
}

/// What each means is predicted to cost for messages of one class, in picoseconds for a byte: the first guess of
/// what has never been tried. Only how they compare counts. 0: nobody knows.
pub(crate) type Guess = [u32; MEANS];

/// What is known of one means in one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Estimate {
    /// Femtoseconds for a byte ([`UNIT`]); 0 before the first message. Where processors share a cache there are some 20 picoseconds for a byte, and
    /// what moves a price is an eighth of a difference.
    pub(crate) price: u32,
    /// Messages that came by it.
    pub(crate) count: u32,
    /// Messages of the class since the last one.
    pub(crate) age: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Settled,
    Trial(Trial),
}

/// The choice among the means of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) estimates: [Estimate; MEANS],
    best: u8,
    /// What it costs by many more messages than its estimate goes by (rule 2); 0 before the first.
    steady: u32,
    /// It moves by one of so many parts of a difference.
    steady_part: u8,
    state: State,
    /// Nanoseconds that trials may take.
    budget: i64,
    /// The means that was tried last.
    tried: u8,
    /// A trial has begun once: from then on the choice is not the sender's any more.
    compared: bool,
    /// Messages since the choice is timed in runs.
    nth: u32,
    /// One of so many is timed; 0 or 1: all.
    every: u8,
    /// The means by which no message came in a trial, until another one is tried; or none.
    vain: u8,
}

impl Choice {
    /// Before any message: the first ones show which means the static costs take.
    pub(crate) const NEW: Self = Self {
        estimates: [Estimate { price: 0, count: 0, age: 0 }; MEANS],
        best: u8::MAX,
        steady: 0,
        steady_part: QUICK,
        state: State::Settled,
        budget: 0,
        tried: 0,
        compared: false,
        nth: 0,
        every: 1,
        vain: u8::MAX,
    };

    /// Whether the next message is to be timed (rule 5).
    pub(crate) fn is_timed(&mut self) -> bool {
        if self.every <= 1 || self.is_at_trial() {
            return true;
        }
        self.nth = self.nth.wrapping_add(1);
        (self.nth / RUN).is_multiple_of(u32::from(self.every))
    }

    /// Has so many of the messages timed that reads of the clock, two of which take so many nanoseconds, take a small part of
    /// what `nanoseconds` for one message are.
    pub(crate) fn space(&mut self, clock_cost: u64, nanoseconds: u64) {
        let every = (clock_cost * CLOCK_SHARE).div_ceil(nanoseconds.max(1)).min(RAREST);
        self.every = every as u8;
    }

    /// A message of `bytes` has come by `means` that was not timed: it is taken to have cost what they do.
    pub(crate) fn pass(&mut self, means: u8, bytes: u64) {
        let price = self.estimates[usize::from(means)].price;
        self.count(means);
        self.charge(means, bytes, taken_at(price, bytes), false);
    }

    /// A message has come by `means`.
    fn count(&mut self, means: u8) {
        self.estimates
            .iter_mut()
            .for_each(|estimate| estimate.age = estimate.age.saturating_add(1));
        let estimate = &mut self.estimates[usize::from(means)];
        (estimate.count, estimate.age) = (estimate.count.saturating_add(1), 0);
    }

    /// Whether a message has come by `means` for a trial: the one that is tried, or one that came in its place since an offered message
    /// could not come by that.
    fn is_charged(&self, means: u8) -> bool {
        let instead = self.is_at_trial() && self.tried != EAGER && means != EAGER;
        means != self.best && self.best != u8::MAX && (means == self.tried || instead)
    }

    /// What a message pays, and takes (rule 1).
    fn charge(&mut self, means: u8, bytes: u64, nanoseconds: u64, window: bool) {
        let paid = i64::try_from(nanoseconds / SHARE).unwrap_or(i64::MAX);
        self.budget = self.budget.saturating_add(paid);
        if self.is_charged(means) {
            let usual = taken_at(self.estimates[usize::from(self.best)].price, bytes);
            let excess = i64::try_from(nanoseconds.saturating_sub(usual)).unwrap_or(i64::MAX);
            self.budget = self.budget.saturating_sub(excess);
            if let State::Trial(trial) = &mut self.state {
                // What others of its window took less was in the time of the one before.
                let less = i64::try_from(usual.saturating_sub(nanoseconds)).unwrap_or(i64::MAX);
                let back = if window { less.min(trial.charged) } else { 0 };
                self.budget = self.budget.saturating_add(back);
                trial.charged = trial.charged.saturating_add(excess) - back;
            }
        }
    }

    /// The means that the next message is to come by, if it can; `None` where static costs are to say.
    pub(crate) fn wanted(&self) -> Option<u8> {
        match self.state {
            State::Trial(trial) => Some(trial.means),
            State::Settled => self.compared.then_some(self.best),
        }
    }

    /// Whether a means is being tried.
    pub(crate) fn is_at_trial(&self) -> bool {
        self.state != State::Settled
    }

    /// The means in use beside trials.
    pub(crate) fn settled(&self) -> Option<u8> {
        (self.best != u8::MAX).then_some(self.best)
    }

    /// The means in use and its price, once that has settled.
    pub(crate) fn settled_price(&self) -> Option<(u8, u32)> {
        let best = self.settled()?;
        let estimate = self.estimates[usize::from(best)];
        (estimate.count >= SETTLES).then_some((best, estimate.price))
    }

    /// A message of `bytes` has come by `means` in so many nanoseconds. `able`: the means that messages of the class can
    /// come by, as bits. `better`: one that was cheaper than the one in use where that cost as much. How a trial has ended, if one
    /// has.
    pub(crate) fn note(
        &mut self,
        means: u8,
        able: u8,
        bytes: u64,
        nanoseconds: u64,
        (window, guess, better): (bool, &Guess, Option<u8>),
    ) -> Option<Judged> {
        let price = price_of(nanoseconds, bytes);
        self.count(means);
        if !self.compared {
            // As static costs choose, which the first messages may not follow for want of credit.
            self.put_in_use(means);
        }
        if means == self.best {
            self.move_price(means, price);
        }
        self.charge(means, bytes, nanoseconds, window);
        match &mut self.state {
            State::Trial(trial) if trial.means == means => {
                let best = self.estimates[usize::from(self.best)].price.min(self.steady);
                trial.add(price, best);
                if self.budget < 0 || trial.is_decided(window, best) {
                    let trial = *trial;
                    return Some(self.judge(trial, window));
                }
            }
            State::Trial(trial) => {
                trial.waited += 1;
                if trial.waited >= TRIAL_WAIT || self.budget < 0 {
                    self.vain = trial.means;
                    self.state = State::Settled;
                }
            }
            State::Settled => self.consider(able, bytes, guess, better),
        }
        None
    }

    /// A message has come by `means` that this choice had no part in (rule 6); `None`: it was not timed. `usual`: it is no
    /// trial of the other choice. Returns what it is taken to have cost, and how much more that is than by the best means.
    pub(crate) fn note_aside(
        &mut self,
        means: u8,
        bytes: u64,
        nanoseconds: Option<u64>,
        usual: bool,
    ) -> (u64, u64) {
        self.count(means);
        if !self.compared && (usual || self.best == u8::MAX) {
            self.put_in_use(means);
        }
        let of = |price: u32| taken_at(price, bytes);
        if let Some(nanoseconds) = nanoseconds.filter(|_| means == self.best) {
            self.move_price(means, price_of(nanoseconds, bytes));
        }
        let took = nanoseconds.unwrap_or_else(|| of(self.estimates[usize::from(means)].price));
        let best = self.estimates[usize::from(self.best)].price;
        let excess = if means == self.best { 0 } else { took.saturating_sub(of(best)) };
        (took, excess)
    }

    /// A message of the other kind has come by `means` (rule 6): it pays, and takes what it took longer for a trial here.
    pub(crate) fn charge_aside(
        &mut self,
        means: u8,
        (nanoseconds, excess): (u64, u64),
        window: bool,
    ) -> Option<Judged> {
        let paid = i64::try_from(nanoseconds / SHARE).unwrap_or(i64::MAX);
        self.budget = self.budget.saturating_add(paid);
        if !self.is_charged(means) {
            return None;
        }
        self.budget = self.budget.saturating_sub(i64::try_from(excess).unwrap_or(i64::MAX));
        match self.state {
            State::Trial(trial) if self.budget < 0 => {
                self.state = State::Settled;
                (trial.seen > 0).then(|| self.judge(trial, window))
            }
            _ => None,
        }
    }

    /// A message has come by `means` of which not all was measured (rule 7).
    pub(crate) fn note_partly(&mut self, means: u8, bytes: u64, nanoseconds: u64) {
        if self.best == u8::MAX {
            return;
        }
        self.count(means);
        if !self.is_charged(means) {
            return;
        }
        let usual = taken_at(self.estimates[usize::from(self.best)].price, bytes);
        let excess = i64::try_from(nanoseconds.saturating_sub(usual)).unwrap_or(i64::MAX);
        self.budget = self.budget.saturating_sub(excess);
        if let State::Trial(trial) = self.state {
            self.vain = trial.means;
            self.state = State::Settled;
        }
    }

    /// The sender does not obey this choice any more: a trial ends, and shows nothing.
    pub(crate) fn leave_trial(&mut self) {
        self.state = State::Settled;
    }

    /// The prices of the means in use follow what its messages take.
    fn move_price(&mut self, means: u8, price: u32) {
        let known = &mut self.estimates[usize::from(means)].price;
        *known = moved(*known, price, QUICK);
        let quick = *known;
        if quick.abs_diff(self.steady) > self.steady / 2 {
            (self.steady, self.steady_part) = (quick, QUICK);
        } else {
            self.steady_part = (self.steady_part + 1).min(STEADY);
            self.steady = moved(self.steady, price, self.steady_part);
        }
    }

    /// Messages come by `means` from now on, but for trials.
    fn put_in_use(&mut self, means: u8) {
        if self.best != means {
            self.best = means;
            (self.steady, self.steady_part) = (self.estimates[usize::from(means)].price, QUICK);
        }
    }

    /// A trial has ended (rules 2 and 3).
    fn judge(&mut self, trial: Trial, window: bool) -> Judged {
        let (means, price) = (trial.means, trial.price(window));
        self.estimates[usize::from(means)].price = price;
        let best = self.estimates[usize::from(self.best)].price;
        let won = trial.is_whole() && cheaper(price, best.min(self.steady));
        let judged = Judged { of: self.best, price: best, tried: means, won };
        if won {
            self.put_in_use(means);
        }
        self.state = State::Settled;
        judged
    }

    /// Begins the next trial if the budget pays for it (rule 1). The budget holds no more than that: after a long time
    /// without trials there is no burst.
    fn consider(&mut self, able: u8, bytes: u64, guess: &Guess, better: Option<u8>) {
        let is = |means: u8| means != self.best && means != self.vain && able & 1 << means != 0;
        let better = better.filter(|&means| is(means));
        if let Some(means) = better.filter(|_| self.budget >= 0) {
            return self.try_means(means);
        }
        let Some((means, cost)) = self.next_trial(able, bytes, guess) else {
            self.budget = self.budget.min(0);
            return;
        };
        if cost <= self.budget {
            self.budget = cost;
            self.try_means(means);
        }
    }

    fn try_means(&mut self, means: u8) {
        (self.tried, self.compared) = (means, true);
        if means != self.vain {
            self.vain = u8::MAX;
        }
        self.state = State::Trial(Trial::of(means));
    }

    /// The means that is tried next, and nanoseconds that its trial is expected to cost.
    fn next_trial(&self, able: u8, bytes: u64, guess: &Guess) -> Option<(u8, i64)> {
        let best = self.estimates[usize::from(self.best)].price;
        let other = |&means: &u8| means != self.best && able & 1 << means != 0;
        let means = (1..=MEANS as u8).map(|step| (self.tried + step) % MEANS as u8).find(other)?;
        let longer = match self.estimates[usize::from(means)].price {
            0 => guessed(best, guess[usize::from(self.best)], guess[usize::from(means)]),
            known => known.saturating_sub(best),
        };
        let cost = trial_cost(best, longer).saturating_mul(bytes) / UNIT;
        Some((means, i64::try_from(cost).unwrap_or(i64::MAX)))
    }

    /// Why the next message comes by a means, or not.
    pub(crate) fn reason(&self, means: u8, able: u8, bytes: u64, guess: &Guess) -> MeansReason {
        if self.best == means {
            return if self.compared { MeansReason::Cheapest } else { MeansReason::Predicted };
        }
        if matches!(self.state, State::Trial(trial) if trial.means == means) {
            return MeansReason::OnTrial;
        }
        let next = self.settled().and_then(|_| self.next_trial(able, bytes, guess));
        let Some((_, cost)) = next.filter(|&(next, _)| next == means && !self.is_at_trial()) else {
            return MeansReason::Later;
        };
        let best = self.estimates[usize::from(self.best)].price;
        let pays = (taken_at(best, bytes) / SHARE).max(1);
        let left = u64::try_from(cost.saturating_sub(self.budget)).unwrap_or(0).div_ceil(pays);
        MeansReason::TriedIn(u32::try_from(left).unwrap_or(u32::MAX))
    }
}

/// A price, after a message that took another one: one of `part` of the difference further. One that took very long moves it no further than one that
/// took four times as long.
fn moved(known: u32, price: u32, part: u8) -> u32 {
    if known == 0 {
        return price;
    }
    let capped = i64::from(price.min(known.saturating_mul(4)));
    let moved = i64::from(known) + (capped - i64::from(known)) / i64::from(part);
    u32::try_from(moved).unwrap_or(u32::MAX).max(1)
}

/// Whether a means that costs `price` is to replace one that costs `best` (rule 3).
fn cheaper(price: u32, best: u32) -> bool {
    u64::from(price) * 10 < u64::from(best) * 9
}

/// How much dearer than the best means one is expected to be that was never tried: as much as predicted, but no more than
/// twice as dear, since predictions are what is to be tried.
fn guessed(best: u32, of_best: u32, of_other: u32) -> u32 {
    if of_best == 0 || of_other == 0 {
        return best;
    }
    let price = u64::from(best) * u64::from(of_other) / u64::from(of_best);
    u32::try_from(price).unwrap_or(u32::MAX).saturating_sub(best).min(best)
}

/// What a trial is expected to cost for each byte of a message, by how much dearer the means is than the best. One that is expected to
/// be no dearer is taken for a quarter dearer: that may be a mistake. A dear one is tried for one message: if it has become
/// cheap the others are no dearer than the best.
fn trial_cost(best: u32, longer: u32) -> u64 {
    let longer = longer.max(best / 4);
    u64::from(longer) + u64::from(TRIAL - 1) * u64::from(longer.min(best))
}

/// After how many messages by the means that costs choose a means is tried, by what both are predicted to cost.
pub(crate) fn tried_after(of_best: u32, of_other: u32) -> u32 {
    let cost = trial_cost(of_best, guessed(of_best, of_best, of_other)) * SHARE;
    u32::try_from(cost.div_ceil(u64::from(of_best.max(1)))).unwrap_or(u32::MAX)
}
