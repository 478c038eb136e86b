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
//! Rules. (1) *Trials are paid for.* A choice has a budget, in nanoseconds:
//!
//! ```text
//!   budget = Σ time / 50  −  Σ max(0, time − usual)
//!            all messages    messages by the means tried last, or by another in its place
//!   usual    what the best means is known to cost for that length
//! ```
//!
//! - A trial begins where the budget holds what the trial is expected to cost. It ends where the budget is below zero.
//! - So at any time, also before anything is known, trials have cost at most a fiftieth of the time of all messages, and one
//!   message more. In a window it is those that were under way. Until a change of prices is known, the bound is by the prices before.
//! - A trial that succeeded before, of any peer at the same price, is a reason to begin one where the budget is zero ([`results`]).
//! - All means have had a trial after some 200 messages for each. One that takes n times as long as the best needs 50 n more.
//!
//! (2) *What a trial shows.* Its first message finds its memory in the wrong cache. It is judged only if no other came.
//!
//! - Of the next ones the cheaper half counts, since disturbances only make messages longer. That half lies below the mean. So it
//!   shows that a means is dear, but not that it is cheaper.
//! - One that looks cheaper has CONFIRM messages more, whose mean counts. A trial that has used up the budget before shows nothing cheaper.
//! - It has to be cheaper than two prices of the means in use. Its *estimate* follows the last messages, and is below the true price
//!   as often as above: alone it would let a dearer means win. Its *steady* price is the mean of more messages. That begins anew where the
//!   estimate has left it by half of it, since the machine has changed then.
//! - Of a window all messages count. Several may end at once, where both sides copy whole ones. What they took is in the time of the
//!   one before: so each gives back what it took less than usual, up to what its trial was charged.
//!
//! (3) *What replaces.* A means is replaced by one that is cheaper by a tenth, so that equals do not alternate.
//!
//! (4) *Who chooses.* The receiver decides, the sender obeys: SELECT says whether messages of a class are to come in pieces or as an
//! offer. A message may always come otherwise, for want of credit for instance. What counts is how it came.
//!
//! (5) *Sampling.* Two reads of the clock are to take at most a two-hundredth of a message's time. Where they take more, one of several
//! messages is timed, in runs of eight: in a window a message's time begins at the end of the one before. Those of trials always are.
//! The others count, and pay what they are expected to take.
//!
//! (6) *Unexpected messages.* A tagged message that comes before its receive costs otherwise: in pieces it is copied twice, offered it waits.
//! So there are two choices, one for such messages and one for the others. The sender does not know which kind its message is. It obeys the
//! choice of the kind that prevails ([`prevailing`]), and only that choice begins trials. A message of the other kind pays into its budget, and
//! takes from it what a trial has made that message take longer.
//!
//! (7) *Streams.* Some sends of a stream are copied into their receives untimed: those that nobody waits for, and those behind
//! what is being read. They pay nothing. They take what they took longer, with that copy as it is predicted. A trial ends with the first of
//! them, and shows nothing.
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
    futile: u8,
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
        futile: u8::MAX,
    };

    /// Whether the next message is to be timed (rule 5).
    pub(crate) fn is_timed(&mut self) -> bool {
        if self.every <= 1 || self.is_at_trial() {
            return true;
        }
        self.nth = self.nth.wrapping_add(1);
        (self.nth / RUN).is_multiple_of(u32::from(self.every))
    }

    /// Sets which part of the messages is timed (rule 5). `clock_cost`: nanoseconds of two reads of the clock; `nanoseconds`: of one
    /// message.
    pub(crate) fn set_sampling(&mut self, clock_cost: u64, nanoseconds: u64) {
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
                    self.futile = trial.means;
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
            self.futile = trial.means;
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
        let is = |means: u8| means != self.best && means != self.futile && able & 1 << means != 0;
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
        if means != self.futile {
            self.futile = u8::MAX;
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
