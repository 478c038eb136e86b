//! The vocabulary of collective algorithms.
//!
//! A plan is a sequence of stages. Within a stage sends and receives are merely started; `wait`
//! ends the stage. Rules that an algorithm keeps, and that both interpreters check:
//! 1. What a stage receives into is not touched otherwise before `wait`, and what it sends is not
//!    written before `wait`.
//! 2. Messages between two ranks match in the order in which both name them.
//! 3. Every span lies inside its space.
//!
//! **Tracks.** A plan may state several sequences of stages that have no order among each other, so that one sends
//! while another waits. Each step belongs to the track that was named last; a plan begins in track 0. `join` ends the
//! stages of all tracks and goes on in track 0: what is stated before it comes before all that is stated behind.
//!
//! ```text
//!   track 1   recv ─ wait ─ reduce ─ send ─ wait ─┐
//!   track 2   recv ─ wait ─ reduce ─ send ─ wait ─┴─ join ─ track 0 ...
//! ```
//! 4. `wait` ends the stage of its own track. An interpreter may carry out tracks in any order that keeps each track's,
//!    and the order in which they were stated is one of them: all ranks come to the end also if all go by that.
//! 5. Between two joins no track uses bytes that another one writes.
//! 6. Between two joins messages from one rank to another in one phase belong to one track on either side. A track
//!    names its phase anew whenever it goes on; its phases go forward.

/// The memories of a rank that a plan works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    /// The user's send buffer; never written.
    Input,
    /// The user's receive buffer.
    Output,
    /// Memory of the library.
    Scratch,
}

/// Some bytes of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The space.
    pub space: Space,
    /// The first byte.
    pub at: usize,
    /// Bytes.
    pub len: usize,
}

impl Span {
    /// Nothing at all.
    pub const EMPTY: Self = Self::new(Space::Scratch, 0, 0);

    /// `len` bytes from byte `at` on.
    #[inline]
    pub const fn new(space: Space, at: usize, len: usize) -> Self {
        Self { space, at, len }
    }

    /// The first `len` bytes of the input.
    #[inline]
    pub const fn input(len: usize) -> Self {
        Self::new(Space::Input, 0, len)
    }

    /// The first `len` bytes of the output.
    #[inline]
    pub const fn output(len: usize) -> Self {
        Self::new(Space::Output, 0, len)
    }

    /// `len` bytes of scratch.
    #[inline]
    pub const fn scratch(at: usize, len: usize) -> Self {
        Self::new(Space::Scratch, at, len)
    }

    /// `len` bytes that start `at` bytes into this span.
    #[inline]
    pub fn part(self, at: usize, len: usize) -> Self {
        debug_assert!(at + len <= self.len, "{len} at {at} leave {self:?}");
        Self::new(self.space, self.at + at, len)
    }

    /// Whether the two share a byte.
    #[inline]
    pub const fn overlaps(self, other: Self) -> bool {
        self.space as u8 == other.space as u8
            && self.at < other.at + other.len
            && other.at < self.at + self.len
    }
}

/// The vectors of a reduction on one rank.
#[derive(Clone, Copy, Debug)]
pub struct Vectors {
    /// This rank's contribution.
    pub input: Span,
    /// Where the result goes; as long as the input, and may be the same span.
    pub output: Span,
    /// Bytes of an element; vectors are cut between elements only.
    pub width: usize,
    /// Where the algorithm's scratch starts.
    pub scratch: usize,
}

impl Vectors {
    /// Bytes of a vector.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "it is three vectors, and no collection")]
    pub const fn len(&self) -> usize {
        self.input.len
    }

    /// The scratch vector with this number.
    #[inline]
    pub const fn place(&self, index: usize) -> Span {
        Span::scratch(self.scratch + index * self.input.len, self.input.len)
    }
}

/// What an algorithm talks to.
pub trait Plan {
    /// Why it cannot go on.
    type Error;

    /// Starts a send to a rank.
    fn send(&mut self, to: u32, from: Span) -> Result<(), Self::Error>;

    /// Starts a receive of exactly `into.len` bytes from a rank.
    fn recv(&mut self, from: u32, into: Span) -> Result<(), Self::Error>;

    /// Ends the stage: all that was started is complete.
    fn wait(&mut self) -> Result<(), Self::Error>;

    /// Copies; the spans have the same length and do not overlap, or are the same.
    fn copy(&mut self, from: Span, into: Span);

    /// `right = left OP right`. The spans have the same length and do not overlap.
    fn reduce(&mut self, left: Span, right: Span);

    /// Messages from here on do not match those of other phases.
    fn phase(&mut self, phase: u8);

    /// The steps from here on belong to a track below [`TRACKS`].
    fn track(&mut self, track: u8) -> Result<(), Self::Error>;

    /// Ends the stages of all tracks, and goes on in track 0.
    fn join(&mut self) -> Result<(), Self::Error>;
}

/// Tracks that a plan may have.
pub const TRACKS: u8 = 8;

/// Copies one after the other, of which those that adjoin on both sides are done as one.
#[derive(Debug, Default)]
pub struct Copies {
    pending: Option<(Span, Span)>,
}

impl Copies {
    /// Copies a span, now or with the next ones.
    #[inline]
    pub fn add<P: Plan>(&mut self, plan: &mut P, from: Span, into: Span) {
        let adjoin = |one: Span, next: Span| one.space == next.space && one.at + one.len == next.at;
        match &mut self.pending {
            Some((before, target)) if adjoin(*before, from) && adjoin(*target, into) => {
                before.len += from.len;
                target.len += into.len;
            }
            _ => {
                let full = self.pending.replace((from, into));
                Self { pending: full }.finish(plan);
            }
        }
    }

    /// Copies what is left.
    #[inline]
    pub fn finish<P: Plan>(self, plan: &mut P) {
        if let Some((from, into)) = self.pending {
            plan.copy(from, into);
        }
    }
}

impl<P: Plan> Plan for &mut P {
    type Error = P::Error;

    fn send(&mut self, to: u32, from: Span) -> Result<(), P::Error> {
        (**self).send(to, from)
    }

    fn recv(&mut self, from: u32, into: Span) -> Result<(), P::Error> {
        (**self).recv(from, into)
    }

    fn wait(&mut self) -> Result<(), P::Error> {
        (**self).wait()
    }

    fn copy(&mut self, from: Span, into: Span) {
        (**self).copy(from, into);
    }

    fn reduce(&mut self, left: Span, right: Span) {
        (**self).reduce(left, right);
    }

    fn phase(&mut self, phase: u8) {
        (**self).phase(phase);
    }

    fn track(&mut self, track: u8) -> Result<(), P::Error> {
        (**self).track(track)
    }

    fn join(&mut self) -> Result<(), P::Error> {
        (**self).join()
    }
}

/// What all algorithms need to know of the communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// This rank.
    pub rank: u32,
    /// Ranks, at least 1.
    pub size: u32,
}

impl Place {
    /// The rank `distance` steps to the right, around the end.
    #[inline]
    pub const fn right(self, distance: u32) -> u32 {
        let sum = self.rank as u64 + distance as u64;
        (sum % self.size as u64) as u32
    }

    /// The rank `distance` steps to the left, around the end; `distance` is at most the size.
    #[inline]
    pub const fn left(self, distance: u32) -> u32 {
        self.right(self.size - distance)
    }

    /// This rank's number when counting starts at `root`.
    #[inline]
    pub const fn relative(self, root: u32) -> u32 {
        Self { rank: self.rank, size: self.size }.left(root)
    }

    /// The rank that is `relative` when counting starts at `root`.
    #[inline]
    pub const fn absolute(self, relative: u32, root: u32) -> u32 {
        Self { rank: relative, size: self.size }.right(root)
    }
}
