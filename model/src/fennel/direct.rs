//! Runs the steps of ranks without a graph of tasks, for collectives of millions of ranks.
//!
//! ```text
//!   ready ──(its next wait lacks a message)──► blocked ──(the message is sent)──► ready ──(no more steps)──► done
//! ```
//! Each rank is run as far as it comes, on a clock of its own, and not in the order of time: what a message takes
//! depends on its sender alone, which is a rule of [`NetworkModel`]. So a rank is touched once for each message that it
//! lacks, nothing is sorted, and what is kept is a clock for each rank and the messages that nobody has taken yet.
//!
//! Rules, which those of [`plan`](crate::coll::plan) imply:
//! 1. Messages from one rank to another in one phase are taken in the order in which they are sent.
//! 2. A rank takes messages in `Wait` and `Join` only, in the order in which it has named their senders.
//! 3. Tracks of a rank go in the order in which they were stated, as a rank does that is in a blocking call: a wait of
//!    one takes what that track has named, and a join what any has.
//! 4. A send keeps its rank busy and is complete then; who lends its memory meanwhile does not matter to time.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use super::instrument::{Instrument, Ran};
use super::machine::{Machine, RunError, report_late};
use super::network::{Compute, NetworkModel, Transfer};
use super::program::{Act, Task};
use super::random::mix;
use super::source::StepSource;
use crate::coll::record::Step;

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RunOutcome {
    /// When each rank was done.
    pub ends: Vec<f64>,
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl RunOutcome {
    /// When the last rank was done.
    pub fn end(&self) -> f64 {
        self.ends.iter().copied().fold(0.0, f64::max)
    }

    /// From the first end to the last.
    pub fn spread(&self) -> f64 {
        let first = self.ends.iter().copied().fold(f64::INFINITY, f64::min);
        if self.ends.is_empty() { 0.0 } else { self.end() - first }
    }
}

/// A message that is on its way or there.
#[derive(Clone, Copy, Debug)]
struct Message {
    arrived: f64,
    len: usize,
}

/// A message that a rank waits for.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    from: u32,
    phase: u8,
    track: u8,
    len: usize,
}

#[derive(Debug, Default)]
struct Rank {
    clock: f64,
    /// The number of its next step.
    next: usize,
    /// What its wait still lacks, the first one last; empty unless it is blocked.
    wanted: Vec<Wanted>,
    /// What other tracks have named, in order.
    later: Vec<Wanted>,
    /// The track that it goes on in.
    track: u8,
}

/// Sender, receiver and phase.
type Key = (u64, u8);

const fn key(from: u32, to: u32, phase: u8) -> Key {
    ((from as u64) << 32 | to as u64, phase)
}

/// Hashes keys, which nobody chooses in order to do harm.
#[derive(Debug, Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u8(byte));
    }

    fn write_u8(&mut self, byte: u8) {
        self.0 = mix(self.0 ^ u64::from(byte));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 ^= mix(word);
    }
}

/// Messages of one key that nobody has taken; mostly it is one.
#[derive(Debug)]
enum Queue {
    One(Message),
    More(VecDeque<Message>),
}

/// All that nobody has taken.
#[derive(Debug, Default)]
struct Mail(HashMap<Key, Queue, BuildHasherDefault<Mixer>>);

impl Mail {
    fn put(&mut self, key: Key, message: Message) {
        let Some(queue) = self.0.get_mut(&key) else {
            self.0.insert(key, Queue::One(message));
            return;
        };
        match queue {
            Queue::One(first) => *queue = Queue::More([*first, message].into()),
            Queue::More(queue) => queue.push_back(message),
        }
    }

    fn take(&mut self, key: Key) -> Option<Message> {
        if let Queue::More(queue) = self.0.get_mut(&key)?
            && queue.len() > 1
        {
            return queue.pop_front();
        }
        match self.0.remove(&key)? {
            Queue::One(message) => Some(message),
            Queue::More(mut queue) => queue.pop_front(),
        }
    }
}

/// A run under way.
struct Run<'a, 'b, N, C> {
    machine: &'a mut Machine<N, C>,
    instruments: &'a mut [&'b mut dyn Instrument],
    ranks: Vec<Rank>,
    mail: Mail,
    /// Ranks that are ready, the next one last: what was sent last is still in the processor's cache.
    ready: Vec<u32>,
    messages: u64,
    bytes: u64,
    error: Option<RunError>,
}

impl<N: NetworkModel, C: Compute> Machine<N, C> {
    /// Runs the steps of ranks from time 0 and reports to the instruments all that takes time, rank by rank and not in
    /// the order of time.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run_steps(
        &mut self,
        source: &(impl StepSource + ?Sized),
        instruments: &mut [&mut dyn Instrument],
    ) -> Result<RunOutcome, RunError> {
        self.run_steps_late(source, &[], instruments)
    }

    /// The same where each rank comes so many nanoseconds late, in the order of the ranks; those without a number
    /// come in time.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run_steps_late(
        &mut self,
        source: &(impl StepSource + ?Sized),
        late: &[f64],
        instruments: &mut [&mut dyn Instrument],
    ) -> Result<RunOutcome, RunError> {
        let mut ranks: Vec<Rank> = (0..source.ranks()).map(|_| Rank::default()).collect();
        ranks.iter_mut().zip(late).for_each(|(rank, &late)| rank.clock = late);
        report_late(&late[..late.len().min(ranks.len())], instruments);
        let mut run = Run {
            machine: self,
            instruments,
            ranks,
            mail: Mail::default(),
            ready: Vec::new(),
            messages: 0,
            bytes: 0,
            error: None,
        };
        for rank in 0..source.ranks() {
            run.ready.push(rank);
            while let Some(rank) = run.ready.pop() {
                run.advance(rank, source);
                if let Some(error) = run.error {
                    return Err(error);
                }
            }
        }
        let left = run.ranks.iter().filter(|rank| !rank.wanted.is_empty()).count();
        if left > 0 {
            return Err(RunError::Stuck { left });
        }
        if let Some(&(pair, _)) = run.mail.0.keys().min() {
            return Err(RunError::NotReceived { from: (pair >> 32) as u32, to: pair as u32 });
        }
        let ends = run.ranks.iter().map(|rank| rank.clock).collect();
        Ok(RunOutcome { ends, messages: run.messages, bytes: run.bytes })
    }
}

impl<N: NetworkModel, C: Compute> Run<'_, '_, N, C> {
    /// Runs a rank until it is blocked or done.
    fn advance(&mut self, me: u32, source: &(impl StepSource + ?Sized)) {
        let mut wanted = std::mem::take(&mut self.ranks[me as usize].wanted);
        let mut later = std::mem::take(&mut self.ranks[me as usize].later);
        let Rank { mut clock, mut next, mut track, .. } = self.ranks[me as usize];
        source.steps(me, next, &mut |step| {
            next += 1;
            match step {
                Step::Recv { from, into, phase } => {
                    if from == me || from as usize >= self.ranks.len() {
                        self.error = Some(RunError::NoSuchPeer { process: me, peer: from });
                        return false;
                    }
                    later.push(Wanted { from, phase, track, len: into.len });
                }
                Step::Send { to, from, phase } => {
                    if to == me || to as usize >= self.ranks.len() {
                        self.error = Some(RunError::NoSuchPeer { process: me, peer: to });
                        return false;
                    }
                    clock = self.send(me, to, from.len, phase, clock);
                }
                Step::Track(other) => track = other,
                Step::Wait | Step::Join => {
                    let all = step == Step::Join;
                    match wanted.is_empty() && later.iter().all(|one| all || one.track == track) {
                        // Of exchanges among many ranks this is most of what is kept: it is there once.
                        true => std::mem::swap(&mut wanted, &mut later),
                        false => {
                            wanted.extend(later.extract_if(.., |one| all || one.track == track));
                        }
                    }
                    if all {
                        track = 0;
                    }
                    wanted.reverse();
                    self.take(me, &mut wanted, &mut clock);
                    return wanted.is_empty() && self.error.is_none();
                }
                Step::Copy { from, into } => {
                    if from != into && from.len > 0 {
                        clock = self.compute(me, Act::Copy(from.len), clock);
                    }
                }
                Step::Reduce { left, .. } => {
                    if left.len > 0 {
                        clock = self.compute(me, Act::Compute(left.len), clock);
                    }
                }
            }
            true
        });
        self.ranks[me as usize] = Rank { clock, next, wanted, later, track };
    }

    /// Takes what is there of the messages that a rank wants; the clock stands when the last of them was taken.
    fn take(&mut self, me: u32, wanted: &mut Vec<Wanted>, clock: &mut f64) {
        while let Some(&Wanted { from, phase, len, .. }) = wanted.last() {
            let Some(message) = self.mail.take(key(from, me, phase)) else { return };
            if message.len != len {
                self.differ(from, me, message.len, len);
            }
            *clock = self.arrive(me, from, phase, clock.max(message.arrived));
            wanted.pop();
        }
    }

    /// Takes a message that is there at `start`; when it is taken.
    fn arrive(&mut self, me: u32, from: u32, phase: u8, start: f64) -> f64 {
        let end = start + self.machine.network.receive(me);
        self.report(me, Act::Recv { from, tag: phase.into() }, start, end, end);
        end
    }

    fn differ(&mut self, from: u32, to: u32, sent: usize, wanted: usize) {
        self.error = Some(RunError::Lengths { from, to, sent, wanted });
    }

    /// Sends a message; when its sender may go on. A receiver that waits for it is handed it at once.
    fn send(&mut self, me: u32, to: u32, len: usize, phase: u8, start: f64) -> f64 {
        let Transfer { local, arrived } = self.machine.network.put(me, to, len, start);
        self.messages += 1;
        self.bytes += len as u64;
        self.report(me, Act::Send { to, bytes: len, tag: phase.into() }, start, local, arrived);
        let message = Message { arrived, len };
        let waits = self.ranks[to as usize].wanted.last();
        let Some(&Wanted { len: wanted, .. }) =
            waits.filter(|wanted| (wanted.from, wanted.phase) == (me, phase))
        else {
            self.mail.put(key(me, to, phase), message);
            return local;
        };
        if wanted != len {
            self.differ(me, to, len, wanted);
        }
        // Nothing of this key is in the mail, or the receiver would have taken that.
        let rank = &mut self.ranks[to as usize];
        rank.wanted.pop();
        let clock = rank.clock.max(arrived);
        let mut left = std::mem::take(&mut rank.wanted);
        let mut clock = self.arrive(to, me, phase, clock);
        self.take(to, &mut left, &mut clock);
        if left.is_empty() {
            self.ready.push(to);
        }
        let rank = &mut self.ranks[to as usize];
        (rank.clock, rank.wanted) = (clock, left);
        local
    }

    fn compute(&mut self, me: u32, act: Act, start: f64) -> f64 {
        let end = start
            + match act {
                Act::Copy(bytes) => self.machine.compute.copy(me, bytes),
                Act::Compute(bytes) => self.machine.compute.take(me, bytes),
                _ => 0.0,
            };
        self.report(me, act, start, end, end);
        end
    }

    fn report(&mut self, process: u32, act: Act, start: f64, local: f64, arrived: f64) {
        let task = Task { process, act, any: 0, concurrent: false };
        let ran = Ran { id: None, task, start, local, arrived };
        self.instruments.iter_mut().for_each(|instrument| instrument.ran(&ran));
    }
}
