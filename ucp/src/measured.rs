//! Measuring long messages for the choice of [`crate::select`]: where their times are taken, and what is kept for a peer.
//!
//! Only lanes are measured on which processors copy: there the price of a byte is not the network's, and depends on where the
//! two processors are. Where the user has set a threshold of eager messages or a scheme, or ranks share processors, nothing is measured, and
//! static costs choose, as with `BOWLINE_SELECT=static`. The shortest message that is shared is a limit of one means, and the choice among
//! the others stays.
//!
//! The sender's part is one bit for each choice, which SELECT brings: in pieces or as an offer; and two marks on each long
//! message ([`Marks`]).

use bowline_base::slab::Key;
use bowline_uct::Caps;

use crate::action::Action;
use crate::address::SELECTS;
use crate::engine::life::{Life, Protocols};
use crate::engine::{Engine, Inner};
use crate::lanes::Lane;
use crate::peer::{Peer, PeerIndex};
use crate::proto::fragments::FRAGMENTS;
use crate::protocol::{Choices, Op, Protocol, eager};
use crate::select::{
    CLASSES, Choice, EAGER, Estimate, FirstGuess, Guess, LaneMeter, MEANS, Marks, MeansEstimate,
    Measure, MessageKind, Meter, PLACES, Selection, Traffic, TrialResults, choice_index, place,
    shortest, tried_after,
};
use crate::settings::{Options, RndvScheme, Select};
use crate::wait::Clock;
use crate::wire;

/// What a worker measures with: nothing where it has no clock, or the user has chosen.
pub(crate) fn meter(clock: Option<Clock>, options: &Options) -> Meter {
    let wanted = options.select == Select::Measured && options.rndv_scheme == RndvScheme::Auto;
    Meter::with(clock.filter(|_| wanted))
}

/// Finds out what can be measured on the lanes.
pub(crate) fn prepare(meter: &mut Meter, lanes: &[Lane], protocols: &Protocols) {
    meter.lanes = lanes.iter().map(|lane| lane_meter(lane, protocols)).collect();
    meter.results.resize_with(lanes.len(), TrialResults::default);
}

/// What is known of a lane, if it is measured.
fn lane_meter(lane: &Lane, protocols: &Protocols) -> Option<Box<LaneMeter>> {
    let (attr, conditions) = (lane.iface.attr(), lane.choices.conditions);
    let copied = Caps::GET_ZCOPY | Caps::RMA_REGISTERED | Caps::RKEY_PTR;
    let free = conditions.rndv_threshold.is_none() && conditions.zcopy.is_none();
    if !attr.caps.contains(copied) || lane.loopback || conditions.oversubscribed || !free {
        return None;
    }
    const NEVER: (u64, u64) = (1, 0);
    let mut spans = [NEVER; MEANS];
    for (life, span) in protocols.lives.iter().zip(&mut spans) {
        if let Some((_, from, to)) = lane.choices.priced(life.protocol(), Op::Fetch, attr) {
            *span = (from.max(1), to);
        }
    }
    // It is asked before there is an offer.
    spans[usize::from(EAGER)] = (attr.limits.am.max_bcopy as u64 + 1, eager::MOST_BYTES);
    let mut guesses = [[[0; MEANS]; CLASSES]; MessageKind::ALL.len()];
    for (kind, guesses) in MessageKind::ALL.iter().zip(&mut guesses) {
        for (class, guess) in guesses.iter_mut().enumerate() {
            *guess = first_guess(lane, protocols, *kind, shortest(class));
        }
    }
    let copy = (lane.choices.costs.copy.value * 1e6) as u32;
    Some(Box::new(LaneMeter { spans, guesses, copy }))
}

/// What each means is predicted to cost for messages of `bytes`, in picoseconds for a byte: by costs that were
/// calibrated, or are assumed.
fn first_guess(lane: &Lane, protocols: &Protocols, kind: MessageKind, bytes: u64) -> Guess {
    let op = kind.op();
    let price = |protocol: &Protocol| {
        // Pieces of a stream go on where those of messages end, and are predicted to cost as much for a byte as there.
        let bytes = if std::ptr::eq(protocol, &raw const eager::MULTI) {
            bytes.min(eager::MOST_BYTES)
        } else {
            bytes
        };
        let predicted = lane.choices.predicted(protocol, op, lane.iface.attr(), bytes);
        predicted.map_or(0, |nanoseconds| (nanoseconds * 1000.0 / bytes as f64) as u32)
    };
    let mut guess = [0; MEANS];
    for (life, guess) in protocols.lives.iter().zip(&mut guess) {
        let protocol = life.protocol();
        let in_fragments = std::ptr::eq(protocol, &raw const FRAGMENTS)
            && lane.choices.priced(protocol, op, lane.iface.attr()).is_some();
        *guess = match (price(protocol), price(&eager::MULTI)) {
            // Known costs do not offer what may go in pieces: a fragment takes what a piece takes that nobody has asked for.
            (0, piece @ 1..) if in_fragments => piece + 1,
            (price, _) => price,
        };
    }
    if kind == MessageKind::Unexpected && guess[usize::from(EAGER)] > 0 {
        // Into memory of the engine first.
        guess[usize::from(EAGER)] += (lane.choices.costs.copy.value * 1000.0) as u32;
    }
    guess
}

/// Whether messages begin with a means: none by which they can come is predicted to be cheaper.
fn is_first(guess: &Guess, able: u8, means: u8) -> bool {
    let known = |&(other, price): &(usize, &u32)| able & 1 << other != 0 && *price > 0;
    let least = guess.iter().enumerate().filter(known).min_by_key(|&(_, price)| *price);
    least.is_some_and(|(least, _)| least == usize::from(means))
}

/// What a sender does with a long message whose receiver measures.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Selected {
    /// Whether it is to be offered, where the receiver has said so and it can be sent eagerly or as an offer.
    pub(crate) offered: Option<bool>,
    /// What it says of the message; `None` to a receiver that does not measure it.
    pub(crate) marks: Option<Marks>,
}

/// How a message to the peer is to be sent that lies at `address`.
pub(crate) fn selected_for(
    peer: &mut Peer,
    meter: &Meter,
    kind: MessageKind,
    bytes: u64,
    address: u64,
) -> Selected {
    let able = meter
        .clock
        .as_ref()
        .and_then(|_| meter.able(peer.lane, Traffic { kind, ..Traffic::NONE }, bytes));
    let Some(able) = able.filter(|_| peer.address.features & SELECTS != 0) else {
        return Selected::default();
    };
    let selection = peer.selection.get_or_insert_with(|| Box::new(Selection::new()));
    let window = selection.heard == Some(peer.rx_sequence);
    selection.heard = Some(peer.rx_sequence);
    let marks = Marks { window, fresh: selection.recent.is_fresh(address) };
    let traffic = Traffic { kind, marks };
    let able = meter.able(peer.lane, traffic, bytes).unwrap_or(able);
    let both = able & 1 << EAGER != 0 && able != 1 << EAGER;
    let place = place(traffic, bytes);
    let ordered = place.and_then(|place| selection.wanted.get(place));
    Selected { offered: ordered.filter(|_| both).map(|eager| !eager), marks: Some(marks) }
}

impl Engine {
    /// A long message of a peer has its receive from now on.
    pub(crate) fn begin_measure(
        &mut self,
        peer: PeerIndex,
        kind: MessageKind,
        marks: Marks,
        bytes: u64,
    ) -> Measure {
        let peer = &mut self.peers[peer as usize];
        let traffic = Traffic { kind, marks };
        if self.meter.able(peer.lane, traffic, bytes).is_none() {
            return Measure::NONE;
        }
        let known = peer.selection.as_mut().filter(|known| known.at_trial.is_none());
        let choice = known.and_then(|known| known.known_choice(traffic, bytes));
        if choice.is_some_and(|choice| !choice.is_timed()) {
            return Measure { begun: Measure::UNTIMED, traffic, partly: false };
        }
        let begun = self.meter.now();
        begun.map_or(Measure::NONE, |begun| Measure { begun, traffic, partly: false })
    }

    /// It is complete, and came by `means`; `first` of its bytes were there at its begin.
    pub(crate) fn end_measure(
        &mut self,
        index: PeerIndex,
        measure: Measure,
        means: u8,
        bytes: u64,
        first: u64,
    ) {
        let Measure { begun, traffic, partly } = measure;
        if begun == 0 {
            return;
        }
        let now = if begun == Measure::UNTIMED { None } else { self.meter.now() };
        let (last, outdated) = self.note_end(index, now);
        let took = now.filter(|_| !outdated || !traffic.marks.window).map(|now| {
            let nanoseconds = now.saturating_sub(begun.max(last));
            if begun < last || first >= bytes {
                return nanoseconds;
            }
            // What its sender took for the first piece is not seen.
            nanoseconds.saturating_mul(bytes) / (bytes - first)
        });
        match took.filter(|_| partly) {
            Some(took) => self.note_partly(index, traffic, means, bytes, took),
            None => self.note_took(index, traffic, means, bytes, (took, self.meter.clock_cost)),
        }
    }

    /// A send of a stream has come by `means`, and is here but for a copy that is not timed: it is paid for, and shows nothing.
    fn note_partly(
        &mut self,
        index: PeerIndex,
        traffic: Traffic,
        means: u8,
        bytes: u64,
        took: u64,
    ) {
        let peer = &mut self.peers[index as usize];
        let Some(able) = self.meter.able(peer.lane, traffic, bytes) else { return };
        let guess = *self.meter.guess(peer.lane, traffic.kind, bytes).unwrap_or(&[0; MEANS]);
        let took = took.saturating_add(self.meter.copied(peer.lane, bytes));
        let Some((selection, at)) = peer.selection.as_mut().zip(choice_index(traffic, bytes))
        else {
            return;
        };
        let Some(choice) = selection.known_choice(traffic, bytes) else { return };
        choice.note_partly(means, bytes, took);
        let (wanted, ended) = (choice.wanted(), !choice.is_at_trial());
        if ended && selection.at_trial == Some(at) {
            selection.at_trial = None;
        }
        if able & 1 << EAGER != 0 {
            self.order(index, traffic, bytes, (wanted, &guess, able));
        }
    }

    /// A long message of a peer is complete now; `None`: it was not timed. When the last timed one was, and whether it was not the
    /// last one.
    fn note_end(&mut self, index: PeerIndex, now: Option<u64>) -> (u64, bool) {
        let peer = &mut self.peers[index as usize];
        let selection = peer.selection.get_or_insert_with(|| Box::new(Selection::new()));
        let outdated = std::mem::replace(&mut selection.outdated, now.is_none());
        let last = selection.last;
        selection.last = now.unwrap_or(last);
        (last, outdated)
    }

    /// The unexpected message that has come in pieces is in its receive's buffer now; `spent`: nanoseconds for its pieces and the last
    /// copy, as in [`Measure::begun`].
    pub(crate) fn end_unexpected(
        &mut self,
        index: PeerIndex,
        marks: Marks,
        bytes: u64,
        (spent, now): (u64, Option<u64>),
    ) {
        if spent == 0 {
            return;
        }
        let took = (spent != Measure::UNTIMED).then_some(spent);
        let _ = self.note_end(index, now.filter(|_| took.is_some()));
        let lane = self.peers[index as usize].lane;
        // Beside that of its begin and its end, there is a reading for each piece.
        let reads = self.meter.pieces(lane, bytes) + 2;
        let clock = self.meter.clock_cost * reads / 2;
        let traffic = Traffic { kind: MessageKind::Unexpected, marks };
        self.note_took(index, traffic, EAGER, bytes, (took, clock));
    }

    /// A message has come by `means`, and took so many nanoseconds, if it was timed; to read the clock for one takes `clock`.
    fn note_took(
        &mut self,
        index: PeerIndex,
        traffic: Traffic,
        means: u8,
        bytes: u64,
        (took, clock): (Option<u64>, u64),
    ) {
        let peer = &mut self.peers[index as usize];
        let Some(able) = self.meter.able(peer.lane, traffic, bytes) else { return };
        let selection = peer.selection.get_or_insert_with(|| Box::new(Selection::new()));
        // What is always offered needs no sender that obeys.
        let in_pieces = able & 1 << EAGER != 0;
        let (kind, changed) = match in_pieces {
            true => selection.prevailing.note(traffic, bytes),
            false => (traffic.kind, false),
        };
        let obeyed = Traffic { kind, ..traffic };
        if took.is_none() && obeyed == traffic && !changed {
            // What was not timed changes no choice, so that its receive does not wait for the rest.
            if let Some(choice) = selection.choice_mut(traffic, bytes) {
                choice.pass(means, bytes);
            }
            return;
        }
        let Some(at) = choice_index(obeyed, bytes) else { return };
        let settled = selection.choice(obeyed, bytes).and_then(Choice::settled);
        let Some(choice) = selection.choice_mut(traffic, bytes) else { return };
        let guess = *self.meter.guess(peer.lane, kind, bytes).unwrap_or(&[0; MEANS]);
        let results = self.meter.results.get_mut(peer.lane as usize);
        let window = traffic.marks.window;
        let judged = match took {
            _ if obeyed != traffic => {
                let price = choice.note_aside(means, bytes, took, settled == Some(means));
                let obeyed = selection.known_choice(obeyed, bytes);
                obeyed.and_then(|choice| choice.charge_aside(means, price, window))
            }
            None => {
                choice.pass(means, bytes);
                None
            }
            Some(took) => {
                let known = results.as_deref().zip(choice.settled_price());
                let better =
                    known.and_then(|(results, (means, price))| results.better(at, means, price));
                choice.note(means, able, bytes, took, (window, &guess, better))
            }
        };
        if let Some((results, judged)) = results.zip(judged) {
            results.note(at, judged);
        }
        if let Some((choice, took)) = selection.known_choice(traffic, bytes).zip(took) {
            choice.set_sampling(clock, took);
        }
        if changed {
            selection.leave_other_trial(obeyed, bytes);
        }
        let choice = selection.choice(obeyed, bytes);
        let wanted = choice.and_then(Choice::wanted);
        if choice.is_some_and(Choice::is_at_trial) {
            selection.at_trial = Some(at);
        } else if selection.at_trial == Some(at) {
            selection.at_trial = None;
        }
        if in_pieces {
            self.order(index, obeyed, bytes, (wanted, &guess, able));
        }
    }

    /// Says to the sender what it is to do, where that is something else than before.
    fn order(
        &mut self,
        index: PeerIndex,
        traffic: Traffic,
        bytes: u64,
        (wanted, guess, able): (Option<u8>, &Guess, u8),
    ) {
        let peer = &mut self.peers[index as usize];
        let Some((selection, place)) = peer.selection.as_mut().zip(place(traffic, bytes)) else {
            return;
        };
        let ordered = selection.ordered.get(place);
        let unexpected = traffic.kind == MessageKind::Unexpected;
        let eager = match (wanted, ordered) {
            (Some(wanted), _) => wanted == EAGER,
            // It was for unexpected messages, and nothing is known of the others.
            (None, Some(_)) if !unexpected => is_first(guess, able, EAGER),
            _ => return,
        };
        if ordered != Some(eager) && peer.address.features & SELECTS != 0 {
            selection.ordered.set(place, eager);
            self.actions.push(Action::Select { peer: index, place: place as u8, eager });
        }
    }

    /// A peer says how messages of a class are to go to it. `None`: there is no such class.
    pub(crate) fn selected(&mut self, index: PeerIndex, words: [u64; 2]) -> Option<()> {
        let place = usize::try_from(words[0]).ok().filter(|place| *place < PLACES)?;
        let eager = match words[1] {
            0 => false,
            1 => true,
            _ => return None,
        };
        let selection = &mut self.peers[index as usize].selection;
        selection.get_or_insert_with(|| Box::new(Selection::new())).wanted.set(place, eager);
        Some(())
    }

    /// The estimates for messages from a peer: of each means by which those of a class that there were could come.
    pub(crate) fn estimates(&self, index: PeerIndex) -> Vec<MeansEstimate> {
        let peer = &self.peers[index as usize];
        let Some(selection) = &peer.selection else { return Vec::new() };
        let some = |choice: &Choice| choice.estimates.iter().any(|estimate| estimate.count > 0);
        let of = |(traffic, class, choice): (Traffic, usize, &Choice)| {
            let from = shortest(class);
            let able = self.meter.able(peer.lane, traffic, from).unwrap_or(0);
            let guess = *self.meter.guess(peer.lane, traffic.kind, from).unwrap_or(&[0; MEANS]);
            let shown = |&(means, estimate): &(usize, &Estimate)| {
                estimate.count > 0 || able & 1 << means != 0
            };
            let row = |(means, estimate): (usize, &Estimate)| MeansEstimate {
                kind: traffic.kind,
                from,
                window: traffic.marks.window,
                fresh: traffic.marks.fresh,
                protocol: self.protocols.means(means).name,
                nanoseconds: f64::from(estimate.price) * 1.024e-3,
                count: estimate.count,
                age: estimate.age,
                used: choice.settled() == Some(means as u8),
                reason: choice.reason(means as u8, able, from, &guess),
            };
            choice.estimates.iter().enumerate().filter(shown).map(row).collect::<Vec<_>>()
        };
        selection.choices().filter(|(.., choice)| some(choice)).flat_map(of).collect()
    }

    /// How long messages begin on a lane, before any was measured; nothing where none is.
    pub(crate) fn first_guesses(&self, lane: u32, choices: &Choices) -> Vec<FirstGuess> {
        let mut rows = Vec::new();
        if self.meter.clock.is_none() {
            return rows;
        }
        for kind in MessageKind::SENT {
            let traffic = Traffic { kind, ..Traffic::NONE };
            for from in (0..CLASSES).map(shortest) {
                let (able, guess) =
                    (self.meter.able(lane, traffic, from), self.meter.guess(lane, kind, from));
                let (Some(able), Some(guess)) = (able, guess) else { continue };
                let picked = choices.of(kind.op()).pick(from);
                let is = |means: &usize| able & 1 << means != 0 && guess[*means] > 0;
                let means: Vec<usize> = (0..MEANS).filter(is).collect();
                let first =
                    means.iter().find(|&&means| picked == Some(self.protocols.means(means)));
                let Some(&first) = first else { continue };
                rows.extend(means.iter().map(|&means| FirstGuess {
                    kind,
                    from,
                    protocol: self.protocols.means(means).name,
                    nanoseconds: f64::from(guess[means]) * from as f64 / 1000.0,
                    tried_after: (means != first).then(|| tried_after(guess[first], guess[means])),
                }));
            }
        }
        rows
    }
}

impl Engine {
    /// An offered message is whole: what it took.
    pub(crate) fn note_fetched(&mut self, key: Key) {
        let request = self.requests.get(key);
        let found =
            request.and_then(|request| Some((request.fetched_from()?, request.protocol()?)));
        let Some(((peer, wanted, measure), protocol)) = found else { return };
        let lives = &self.protocols.lives;
        let Some(means) = lives.iter().position(|life| life.protocol() == protocol) else { return };
        if means < MEANS {
            self.end_measure(peer, measure, means as u8, wanted, 0);
        }
    }
}

impl Protocols {
    /// The protocol of a means.
    fn means(&self, means: usize) -> &'static Protocol {
        self.lives[means].protocol()
    }
}

impl MessageKind {
    /// The operation that sends one.
    pub const fn op(self) -> Op {
        match self {
            Self::Tagged | Self::Unexpected => Op::TagSend,
            Self::Active => Op::AmSend,
            Self::Stream => Op::StreamSend,
        }
    }
}

impl Inner {
    /// The protocol by which an offered message is to come, by what others took.
    pub(crate) fn preferred(&self, key: Key) -> Option<&'static dyn Life> {
        let (peer, wanted, measure) = self.engine.requests.get(key)?.fetched_from()?;
        let selection = self.engine.peers[peer as usize].selection.as_ref()?;
        if measure.begun == 0 || measure.partly {
            return None;
        }
        let choice = selection.choice(measure.traffic, wanted)?;
        let means = choice.wanted().filter(|means| *means != EAGER)?;
        self.engine.protocols.lives.get(usize::from(means)).copied()
    }

    /// Says to a sender how messages of a class are to come.
    pub(crate) fn report_selection(&mut self, peer: PeerIndex, place: u8, eager: bool) {
        self.control(peer, wire::SELECT, [u64::from(place), u64::from(eager)], &[]);
    }
}
