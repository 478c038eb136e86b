//! What is kept to measure long messages: by the worker, for each peer and for a message.
//!
//! Nothing is measured here: [`crate::measured`] takes the times.

use super::prevailing::Prevailing;
use super::traffic::GROUPS;
use super::{
    CLASSES, Choice, EAGER, Guess, MEANS, MessageKind, PLACES, Recent, SHORTEST, Traffic,
    TrialResults, class, taken_at,
};
use crate::wait::Clock;

/// What a worker needs to measure.
#[derive(Default)]
pub(crate) struct Meter {
    pub(crate) clock: Option<Clock>,
    /// Nanoseconds that two reads of it take.
    pub(crate) clock_cost: u64,
    /// `None` for a lane where nothing is measured.
    pub(crate) lanes: Vec<Option<Box<LaneMeter>>>,
    /// What trials over each lane have shown.
    pub(crate) results: Vec<TrialResults>,
}

/// What is known of a lane before anything was measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneMeter {
    /// The sizes, from the first to the last, of messages that come by each means.
    pub(crate) spans: [(u64, u64); MEANS],
    /// For each kind of messages and each class.
    pub(crate) guesses: [[Guess; CLASSES]; KINDS],
    /// Femtoseconds for a byte that is copied from memory of the engine.
    pub(crate) copy: u32,
}

/// Kinds of messages.
const KINDS: usize = MessageKind::ALL.len();

/// What is kept for a peer, once a long message has gone to it or come from it.
#[derive(Debug)]
pub(crate) struct Selection {
    /// For each group of messages by class; made for the first message.
    groups: [Option<Box<[Choice; CLASSES]>>; GROUPS],
    /// What the peer is to do as a sender, as SELECT said last.
    pub(crate) ordered: Orders,
    /// What this side is to do as a sender.
    pub(crate) wanted: Orders,
    /// How many messages of the peer this side had seen at its last long message to it.
    pub(crate) heard: Option<u32>,
    /// Which of its tagged messages are chosen for.
    pub(crate) prevailing: Prevailing,
    /// The memory of the last long messages to the peer.
    pub(crate) recent: Recent,
    /// When its last long message was complete, in nanoseconds.
    pub(crate) last: u64,
    /// It was not the last: that one was not timed.
    pub(crate) outdated: bool,
    /// The choice that is at a trial. Until its end all messages are timed: in a window, each that is not hides
    /// when the next one begins.
    pub(crate) at_trial: Option<usize>,
}

/// A bit for each choice that is known, and whether it is eager.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Orders {
    known: u128,
    eager: u128,
}

const _: () = assert!(PLACES <= 128, "a choice has a bit");

impl Orders {
    pub(crate) fn get(self, choice: usize) -> Option<bool> {
        (self.known >> choice & 1 != 0).then_some(self.eager >> choice & 1 != 0)
    }

    pub(crate) fn set(&mut self, choice: usize, eager: bool) {
        self.known |= 1 << choice;
        self.eager = self.eager & !(1 << choice) | u128::from(eager) << choice;
    }
}

/// A message whose time is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measure {
    /// When there were its first part and its receive, in nanoseconds; 0 where nothing is measured, [`Self::UNTIMED`]
    /// where it only counts.
    pub(crate) begun: u64,
    pub(crate) traffic: Traffic,
    /// Of a stream: not all of it goes straight into a receive, and the copy that follows is not timed.
    pub(crate) partly: bool,
}

impl Measure {
    pub(crate) const NONE: Self = Self { begun: 0, traffic: Traffic::NONE, partly: false };

    /// In place of a time.
    pub(crate) const UNTIMED: u64 = u64::MAX;
}

/// What the receiver takes for the pieces of an unexpected message. Time in which it takes none, since its program computes, is not part of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PieceTimes {
    /// When the last piece was here.
    last: u64,
    /// Nanoseconds for those behind the first one.
    spent: u64,
    gaps: u64,
}

impl PieceTimes {
    /// The first piece is here.
    pub(crate) const fn begun(now: u64) -> Self {
        Self { last: now, spent: 0, gaps: 0 }
    }

    /// Another one is: it took as long as since the one before, but no more than four of the others did.
    pub(crate) fn piece(&mut self, now: u64) {
        let gap = now.saturating_sub(self.last);
        let most = match self.gaps {
            0 => u64::MAX,
            gaps => (self.spent / gaps).saturating_mul(4).max(1),
        };
        self.spent = self.spent.saturating_add(gap.min(most));
        (self.last, self.gaps) = (now, self.gaps + 1);
    }

    /// There is a receive, into which those that are here were copied.
    pub(crate) fn copied(&mut self, begin: u64, end: u64) {
        self.spent = self.spent.saturating_add(end.saturating_sub(begin));
        self.last = end;
    }

    /// When the last one was here.
    pub(crate) const fn last(self) -> u64 {
        self.last
    }

    /// What all `total` bytes take, of which the `first` ones were not timed.
    pub(crate) fn of_all(self, first: u64, total: u64) -> u64 {
        match total.checked_sub(first) {
            Some(rest) if rest > 0 => self.spent.saturating_mul(total) / rest,
            _ => self.spent,
        }
    }
}

/// Why the next message of a class comes by a means, or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeansReason {
    /// It is in use: predicted to be the cheapest, and not compared yet.
    Predicted,
    /// It is in use: the cheapest of those that were tried, but for a tenth.
    Cheapest,
    /// It is being tried.
    OnTrial,
    /// It is tried next, when about so many messages have paid for that.
    TriedIn(u32),
    /// It is tried after others.
    Later,
}

/// What was measured of one means, for messages of one class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeansEstimate {
    /// What they are.
    pub kind: MessageKind,
    /// The shortest messages of the class, in bytes; the longest are less than twice as long.
    pub from: u64,
    /// Of windows, else of messages that are waited for one by one.
    pub window: bool,
    /// Of memory that their sender has not used just before.
    pub fresh: bool,
    /// The protocol.
    pub protocol: &'static str,
    /// Nanoseconds for 1024 bytes; 0 for one that was not tried.
    pub nanoseconds: f64,
    /// Messages that came by it.
    pub count: u32,
    /// Messages of the class since the last one.
    pub age: u32,
    /// Whether it is the one in use.
    pub used: bool,
    /// Why the next one comes by it, or does not.
    pub reason: MeansReason,
}

/// By what a long message may come, before any was measured: the same for a peer that is near and one that is far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FirstGuess {
    /// What it is.
    pub kind: MessageKind,
    /// The shortest messages of the class, in bytes.
    pub from: u64,
    /// The protocol.
    pub protocol: &'static str,
    /// What one of so many bytes is predicted to take, in nanoseconds.
    pub nanoseconds: f64,
    /// How many messages pay for its first trial, if it and they take as long as predicted; `None` for the one that they begin with.
    pub tried_after: Option<u32>,
}

impl Selection {
    pub(crate) fn new() -> Self {
        let none = Orders::default();
        Self {
            groups: [const { None }; GROUPS],
            ordered: none,
            wanted: none,
            heard: None,
            prevailing: Prevailing::default(),
            recent: Recent::default(),
            last: 0,
            outdated: false,
            at_trial: None,
        }
    }

    /// The choice for a message of so many bytes.
    pub(crate) fn choice(&self, traffic: Traffic, bytes: u64) -> Option<&Choice> {
        Some(&self.groups[traffic.group()].as_ref()?[class(bytes)?])
    }

    /// The same, to change it, if there was one before.
    pub(crate) fn known_choice(&mut self, traffic: Traffic, bytes: u64) -> Option<&mut Choice> {
        Some(&mut self.groups[traffic.group()].as_mut()?[class(bytes)?])
    }

    /// The same, made if it is the first.
    pub(crate) fn choice_mut(&mut self, traffic: Traffic, bytes: u64) -> Option<&mut Choice> {
        let group = &mut self.groups[traffic.group()];
        let group = group.get_or_insert_with(|| Box::new([Choice::NEW; CLASSES]));
        Some(&mut group[class(bytes)?])
    }

    /// The sender obeys the choice for `obeyed` from now on: there is no trial of the other kind any more.
    pub(crate) fn leave_other_trial(&mut self, obeyed: Traffic, bytes: u64) {
        let kind = match obeyed.kind {
            MessageKind::Tagged => MessageKind::Unexpected,
            kind => kind.sent(),
        };
        let other = Traffic { kind, ..obeyed };
        if let Some(choice) = self.known_choice(other, bytes) {
            choice.leave_trial();
        }
        if self.at_trial == choice_index(other, bytes) {
            self.at_trial = None;
        }
    }

    /// All choices, with their traffic and class.
    pub(crate) fn choices(&self) -> impl Iterator<Item = (Traffic, usize, &Choice)> {
        let groups = self.groups.iter().enumerate();
        let groups = groups.filter_map(|(group, choices)| Some((group, choices.as_deref()?)));
        groups.flat_map(|(group, choices)| {
            let all = choices.iter().enumerate();
            all.map(move |(class, choice)| (Traffic::of_group(group), class, choice))
        })
    }
}

/// The place of a choice among all.
pub(crate) fn choice_index(traffic: Traffic, bytes: u64) -> Option<usize> {
    Some(traffic.group() * CLASSES + class(bytes)?)
}

/// The place of a sender's choice, as SELECT names it.
pub(crate) fn place(traffic: Traffic, bytes: u64) -> Option<usize> {
    choice_index(Traffic { kind: traffic.kind.sent(), ..traffic }, bytes)
}

impl Meter {
    /// The means by which a message of this length can come, as bits; none where it is not measured.
    pub(crate) fn able(&self, lane: u32, traffic: Traffic, bytes: u64) -> Option<u8> {
        let known = self.lanes.get(lane as usize)?.as_ref().filter(|_| bytes >= SHORTEST)?;
        let spans = &known.spans;
        let able = |(means, (from, to)): &(usize, &(u64, u64))| {
            // Pieces of a stream stop where their credit does, and so have no end.
            let endless = *means == usize::from(EAGER) && traffic.kind == MessageKind::Stream;
            *from <= bytes && (bytes <= *to || endless && from <= to)
        };
        Some(spans.iter().enumerate().filter(able).fold(0, |bits, (means, _)| bits | 1 << means))
    }

    /// Pieces of a message of this length.
    pub(crate) fn pieces(&self, lane: u32, bytes: u64) -> u64 {
        let known = self.lanes.get(lane as usize).and_then(Option::as_ref);
        known.map_or(1, |known| bytes.div_ceil(known.spans[usize::from(EAGER)].0.max(2) - 1))
    }

    /// The first guess for messages of this length.
    pub(crate) fn guess(&self, lane: u32, kind: MessageKind, bytes: u64) -> Option<&Guess> {
        let known = self.lanes.get(lane as usize)?.as_ref()?;
        Some(&known.guesses[kind as usize][class(bytes)?])
    }

    /// What so many bytes take from memory of the engine, in nanoseconds.
    pub(crate) fn copied(&self, lane: u32, bytes: u64) -> u64 {
        let known = self.lanes.get(lane as usize).and_then(Option::as_ref);
        known.map_or(0, |known| taken_at(known.copy, bytes))
    }

    /// With a clock, and what it takes to read it.
    pub(crate) fn with(clock: Option<Clock>) -> Self {
        const READS: u64 = 32;
        let mut meter = Self { clock, ..Self::default() };
        // The clock may be a quicker one after a time, so that this is the most.
        let begin = meter.now();
        let end = (1..READS).fold(None, |end, _| meter.now().or(end));
        let took = end.zip(begin).map_or(0, |(end, begin)| end.saturating_sub(begin));
        meter.clock_cost = 2 * took / READS;
        meter
    }

    pub(crate) fn now(&self) -> Option<u64> {
        let clock = self.clock.as_ref()?;
        u64::try_from(clock().as_nanos()).ok().map(|now| now.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_receiver_does_between_pieces_is_no_time_of_theirs() {
        let mut times = PieceTimes::begun(1000);
        (1..4).for_each(|piece| times.piece(1000 + 100 * piece));
        // It computes, then is there again.
        times.piece(1_001_400);
        assert_eq!((times.spent, times.last()), (300 + 400, 1_001_400));
        times.copied(2_000_000, 2_000_050);
        times.piece(2_000_150);
        assert_eq!(times.spent, 700 + 50 + 100);
        assert_eq!(times.of_all(0, 800), 850);
        assert_eq!(times.of_all(400, 800), 1700, "the first piece took as long as the others");
        assert_eq!(times.of_all(800, 800), 850);
    }
}
