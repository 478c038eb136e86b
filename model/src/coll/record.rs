//! Plans that are written down: the steps of a rank, 16 bytes each.
//!
//! No algorithm depends on data or on how an operation ends, so the steps of a rank are known before anything is
//! sent. The MPI layer carries them out bit by bit, and the checker and the simulator read them.

use std::marker::PhantomData;

use super::plan::{Plan, Space, Span, TRACKS};

/// A step of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A send is started.
    Send {
        /// The receiver.
        to: u32,
        /// What is sent.
        from: Span,
        /// The phase that its message belongs to.
        phase: u8,
    },
    /// A receive is started.
    Recv {
        /// The sender.
        from: u32,
        /// Where the message goes.
        into: Span,
        /// The phase that its message belongs to.
        phase: u8,
    },
    /// The stage ends.
    Wait,
    /// Bytes are copied.
    Copy {
        /// What is copied.
        from: Span,
        /// Where it goes.
        into: Span,
    },
    /// `right = left OP right`.
    Reduce {
        /// The left operand.
        left: Span,
        /// The right operand, and the result.
        right: Span,
    },
    /// The steps from here on belong to this track.
    Track(u8),
    /// The stages of all tracks end; track 0 goes on.
    Join,
}

/// A [`Step`] as it is stored.
///
/// ```text
///   bits from 0   3     2      2      1     40                40        40
///   message       kind  space  -      -     at                length    peer (32), phase (8)
///   local         kind  space  space  -     at of the first   length    at of the second
///   track         kind  -      -      -     track             -         -
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stored([u64; 2]);

/// A million ranks have some 40 million steps of an allreduce.
const _: () = assert!(size_of::<Stored>() == 16);

/// One byte more than what a recorded span can reach.
pub const REACH: u64 = 1 << 40;

const SEND: u8 = 0;
const RECV: u8 = 1;
const WAIT: u8 = 2;
const COPY: u8 = 3;
const REDUCE: u8 = 4;
const TRACK: u8 = 5;
const JOIN: u8 = 6;

impl Stored {
    /// `None` where a number is too great.
    fn of(step: Step) -> Option<Self> {
        match step {
            Step::Send { to, from, phase } => Self::message(SEND, to, from, phase),
            Step::Recv { from, into, phase } => Self::message(RECV, from, into, phase),
            Step::Wait => Some(Self([u64::from(WAIT), 0])),
            Step::Copy { from, into } => Self::local(COPY, from, into),
            Step::Reduce { left, right } => Self::local(REDUCE, left, right),
            Step::Track(track) => Some(Self([u64::from(TRACK) | u64::from(track) << 8, 0])),
            Step::Join => Some(Self([u64::from(JOIN), 0])),
        }
    }

    fn message(kind: u8, peer: u32, span: Span, phase: u8) -> Option<Self> {
        Self::pack(kind, span, Space::Input, u64::from(peer) | u64::from(phase) << 32)
    }

    fn local(kind: u8, first: Span, second: Span) -> Option<Self> {
        assert_eq!(first.len, second.len, "copies and reductions have one length");
        let at = u64::try_from(second.at).ok().filter(|at| *at < REACH)?;
        Self::pack(kind, first, second.space, at)
    }

    fn pack(kind: u8, span: Span, other: Space, last: u64) -> Option<Self> {
        let at = u64::try_from(span.at).ok().filter(|at| *at < REACH)?;
        let len = u64::try_from(span.len).ok().filter(|len| *len < REACH)?;
        let head = u128::from(kind | (span.space as u8) << 3 | (other as u8) << 5);
        let all = head | u128::from(at) << 8 | u128::from(len) << 48 | u128::from(last) << 88;
        Some(Self([all as u64, (all >> 64) as u64]))
    }

    fn step(self) -> Step {
        let all = u128::from(self.0[0]) | u128::from(self.0[1]) << 64;
        let field = |from: u32| (all >> from) as u64 & (REACH - 1);
        let space = |from: u32| match (all >> from) as u8 & 3 {
            0 => Space::Input,
            1 => Space::Output,
            _ => Space::Scratch,
        };
        let (len, last) = (field(48) as usize, field(88));
        let first = Span::new(space(3), field(8) as usize, len);
        let second = Span::new(space(5), last as usize, len);
        let (peer, phase) = (last as u32, (last >> 32) as u8);
        match all as u8 & 7 {
            SEND => Step::Send { to: peer, from: first, phase },
            RECV => Step::Recv { from: peer, into: first, phase },
            WAIT => Step::Wait,
            COPY => Step::Copy { from: first, into: second },
            TRACK => Step::Track(first.at as u8),
            JOIN => Step::Join,
            _ => Step::Reduce { left: first, right: second },
        }
    }
}

/// The steps of a rank.
#[derive(Clone, PartialEq, Eq)]
pub struct Steps {
    all: Vec<Stored>,
    tracks: u8,
}

impl Default for Steps {
    fn default() -> Self {
        Self { all: Vec::new(), tracks: 1 }
    }
}

impl Steps {
    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// One more than the highest track.
    #[inline]
    pub fn tracks(&self) -> u8 {
        self.tracks
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The step with this number, if there are so many.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Step> {
        self.all.get(index).map(|step| step.step())
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Step> + '_ {
        self.all.iter().map(|step| step.step())
    }
}

impl std::fmt::Debug for Steps {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_list().entries(self.iter()).finish()
    }
}

/// A plan that is written down. `E` is what its user calls an error.
#[derive(Debug)]
pub struct PlanRecorder<E> {
    steps: Steps,
    /// A step has not been written down, because a number in it is too great.
    too_great: bool,
    track: u8,
    phase: u8,
    /// The last phase of each track.
    phases: [u8; TRACKS as usize],
    error: PhantomData<E>,
}

impl<E> Default for PlanRecorder<E> {
    fn default() -> Self {
        Self {
            steps: Steps::default(),
            too_great: false,
            track: 0,
            phase: 0,
            phases: [0; TRACKS as usize],
            error: PhantomData,
        }
    }
}

impl<E> PlanRecorder<E> {
    /// What was recorded. `None` where a span reaches beyond a terabyte.
    pub fn finish(self) -> Option<Steps> {
        (!self.too_great).then_some(self.steps)
    }

    fn push(&mut self, step: Step) {
        match Stored::of(step) {
            Some(step) => self.steps.all.push(step),
            None => self.too_great = true,
        }
    }
}

impl<E> Plan for PlanRecorder<E> {
    type Error = E;

    fn send(&mut self, to: u32, from: Span) -> Result<(), E> {
        self.push(Step::Send { to, from, phase: self.phase });
        Ok(())
    }

    fn recv(&mut self, from: u32, into: Span) -> Result<(), E> {
        self.push(Step::Recv { from, into, phase: self.phase });
        Ok(())
    }

    fn wait(&mut self) -> Result<(), E> {
        self.push(Step::Wait);
        Ok(())
    }

    fn copy(&mut self, from: Span, into: Span) {
        self.push(Step::Copy { from, into });
    }

    fn reduce(&mut self, left: Span, right: Span) {
        self.push(Step::Reduce { left, right });
    }

    fn phase(&mut self, phase: u8) {
        let last = &mut self.phases[self.track as usize];
        assert!(phase >= *last, "phases go forward, or a message could match an earlier one");
        *last = phase;
        self.phase = phase;
    }

    fn track(&mut self, track: u8) -> Result<(), E> {
        assert!(track < TRACKS, "there is no track {track}");
        self.track = track;
        self.steps.tracks = self.steps.tracks.max(track + 1);
        self.push(Step::Track(track));
        Ok(())
    }

    fn join(&mut self) -> Result<(), E> {
        self.track = 0;
        self.push(Step::Join);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span() -> impl Strategy<Value = (Space, usize)> {
        let space = prop_oneof![Just(Space::Input), Just(Space::Output), Just(Space::Scratch)];
        (space, prop_oneof![0..100_usize, 0..1_usize << 40])
    }

    fn step() -> impl Strategy<Value = Step> {
        let len = prop_oneof![0..100_usize, 0..1_usize << 40];
        (0..7, any::<u32>(), any::<u8>(), span(), span(), len).prop_map(
            |(kind, peer, phase, first, second, len)| {
                let (first, second) =
                    (Span::new(first.0, first.1, len), Span::new(second.0, second.1, len));
                match kind {
                    0 => Step::Send { to: peer, from: first, phase },
                    1 => Step::Recv { from: peer, into: first, phase },
                    2 => Step::Wait,
                    3 => Step::Copy { from: first, into: second },
                    4 => Step::Track(phase),
                    5 => Step::Join,
                    _ => Step::Reduce { left: first, right: second },
                }
            },
        )
    }

    proptest! {
        #[test]
        fn a_step_comes_out_as_it_went_in(step in step()) {
            prop_assert_eq!(Stored::of(step).unwrap().step(), step);
        }
    }

    #[test]
    fn what_lies_beyond_a_terabyte_is_refused() {
        let mut recorder = PlanRecorder::<()>::default();
        recorder.copy(Span::input(8), Span::output(8));
        recorder.send(1, Span::new(Space::Input, 1 << 40, 8)).unwrap();
        assert_eq!(recorder.finish(), None);
    }
}
