//! The staging memory of a communicator, and how a rank goes through the steps of one collective in it.
//!
//! The words and slots are the business of [`bowline_base::staging`]; what is brought in each step that of
//! [`transfers`](super::transfers). Rules. (1) A rank writes as many steps ahead as slots are free, then it reads: so
//! ranks that share processors need few changes between them. (2) In the first step each rank that writes states what it
//! takes the collective to be. Who reads compares that with its own call before it reads anything, so that
//! different lengths are an error and no byte is misplaced. After that error all that can learn of it
//! go on behind the longest of the calls; where some cannot, the memory is used never again. (3) Sleepers, damage and deaths
//! are as [`shared`](super) has them, but a sleeper's message has one tag in all collectives, since it may be
//! sent by a rank that is further.

pub(super) mod chain;

use std::cell::{Cell, RefCell};

use bowline_base::staging::{Geometry, Member, Progress};
use bowline_base::sync::{LINE, Line};
use bowline_base::words::ViewWords;
use bowline_ucp::Worker;

use super::{Broken, Damaged, Home, unequal, wait, wake};
use crate::comm::{CommInner, Communicator};
use crate::error::MpiError;
use crate::tags;

/// Slots: how many steps a writer may be ahead.
const SLOTS: u32 = 16;

/// Bytes of a slot. All together are twice what a second-level cache holds.
const SLOT_BYTES: usize = 128 << 10;

/// How finished steps are told: each one would cost as much as a short copy.
const TELL_EVERY: usize = 4;

/// Memory for contributions that are copied out, on lines.
type Scratch = Vec<Line<[u8; LINE]>>;

/// The staging memory of a communicator, as one rank sees it.
#[derive(Debug)]
pub(crate) struct Staging {
    home: Home,
    geometry: Geometry,
    member: Cell<Member>,
    damaged: Cell<bool>,
    scratch: RefCell<Scratch>,
}

/// What a rank takes a collective to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) kind: u8,
    pub(super) root: u32,
    /// Bytes that all ranks have to agree on.
    pub(super) len: usize,
}

impl Terms {
    fn descriptor(self) -> u64 {
        u64::from(self.kind) << 60
            | u64::from(self.root & 0xffff) << 44
            | self.len as u64 & LEN_MASK
    }

    /// Whether a descriptor is of the same collective, of whatever length.
    fn agrees_with(self, descriptor: u64) -> bool {
        let len = (descriptor & LEN_MASK) as usize;
        (Self { len, ..self }).descriptor() == descriptor
    }
}

const LEN_MASK: u64 = (1 << 44) - 1;

/// Whose data a rank reads in a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sources {
    /// Nobody's: it only writes.
    Nobody,
    /// That of one rank, which reads nothing.
    One(u32),
    /// That of all, and all others read too.
    AllAlike,
    /// That of all, who read nothing.
    All,
}

/// A part of a collective, in steps that are numbered from 0 on.
pub(super) trait Transfer {
    /// Steps.
    fn steps(&self) -> usize;

    /// Whether this rank writes in each of them.
    fn writes(&self) -> bool {
        true
    }

    /// Whose data this rank reads.
    fn sources(&self) -> Sources;

    /// Puts this rank's data of a step.
    fn write(&mut self, at: &Passage<'_>, step: usize) -> Result<(), Broken>;

    /// Takes the others' data of a step.
    fn read(&mut self, at: &Passage<'_>, step: usize) -> Result<(), Broken>;
}

/// One rank on its way through a collective.
pub(super) struct Passage<'a> {
    staging: &'a Staging,
    pub(super) comm: &'a CommInner,
    terms: Terms,
    /// The steps that a call has with some length.
    steps_of: &'a dyn Fn(usize) -> usize,
    /// The first step of the part that is under way.
    first: u64,
    /// That part is the first one, and it has not begun.
    is_first: bool,
}

/// The slot of a step.
pub(super) struct Slot<'a, 'v> {
    member: &'a Member,
    memory: &'a ViewWords<'v>,
    step: u64,
}

impl Slot<'_, '_> {
    /// Puts bytes.
    pub(super) fn put(&self, at: usize, bytes: &[u8]) {
        self.member.put(self.memory, self.step, at, bytes);
    }

    /// Takes bytes that `from` writes, past the caches if nobody will read them soon; whether they are there.
    pub(super) fn take(
        &self,
        from: u32,
        at: usize,
        out: &mut [u8],
        past: bool,
    ) -> Result<bool, Damaged> {
        let is_there = self.member.is_there(self.memory, Progress::Written(from, self.step))?;
        match is_there {
            true if past => self.member.get_past(self.memory, self.step, at, out),
            true => self.member.get(self.memory, self.step, at, out),
            false => {}
        }
        Ok(is_there)
    }
}

/// Something that is waited for.
struct Until<'a> {
    staging: &'a Staging,
    comm: &'a CommInner,
    what: Progress,
    /// The call and its first step, which all write and this rank has not finished, so that its slot is not used again.
    begins: Option<(Terms, u64)>,
}

impl Until<'_> {
    /// Another collective of a member that has written the first step is an error, whoever has yet to write it.
    fn contradicted(&self, member: &Member, memory: &ViewWords<'_>) -> Result<(), Damaged> {
        let Some((terms, first)) = self.begins else { return Ok(()) };
        for rank in (0..self.comm.size).filter(|&rank| rank != self.comm.rank) {
            if member.is_there(memory, Progress::Written(rank, first))?
                && !terms.agrees_with(member.descriptor(memory, first, rank))
            {
                return Err(Damaged::call());
            }
        }
        Ok(())
    }
}

impl wait::Awaited for Until<'_> {
    fn of(&self) -> Option<u32> {
        match self.what {
            Progress::Written(rank, _) | Progress::Finished(rank, _) => Some(rank),
            Progress::Combined(_) => None,
        }
    }

    fn is_over(&self) -> bool {
        let is_there =
            self.staging.act(self.comm, |member, memory| member.is_there(memory, self.what));
        // Damage is found by the next one that looks.
        matches!(is_there, Ok(Ok(true) | Err(_)) | Err(_))
    }

    fn look(&self) -> Result<bool, Broken> {
        let act = |member: &mut Member, memory: &ViewWords<'_>| {
            member.look(memory)?;
            self.contradicted(member, memory)?;
            let is_there = member.is_there(memory, self.what)?;
            match self.what {
                // The claim was overwritten.
                Progress::Combined(step) if !is_there => member.can_claim(memory, step),
                _ => Ok(is_there),
            }
        };
        Ok(self.staging.act(self.comm, act)??)
    }

    fn announce(&self) -> Result<(), MpiError> {
        self.staging.act(self.comm, |member, memory| member.announce_sleep(memory, self.what))
    }

    fn withdraw(&self) -> Result<bool, MpiError> {
        self.staging.act(self.comm, |member, memory| member.withdraw_sleep(memory))
    }
}

impl Staging {
    fn new(home: Home, rank: u32, geometry: Geometry) -> Self {
        let member = Cell::new(Member::new(rank, geometry));
        Self { home, geometry, member, damaged: Cell::new(false), scratch: RefCell::default() }
    }

    /// Gives the memory, or the key, back.
    pub(crate) fn release(&self, worker: &Worker) {
        self.home.release(worker);
    }

    /// Does something in the memory.
    fn act<R>(
        &self,
        comm: &CommInner,
        act: impl FnOnce(&mut Member, &ViewWords<'_>) -> R,
    ) -> Result<R, MpiError> {
        self.home.with(&comm.process.worker, self.geometry.bytes(), |view| {
            let memory = ViewWords::new(view).expect("memory that starts on a line was opened");
            let mut member = self.member.get();
            let done = act(&mut member, &memory);
            self.member.set(member);
            done
        })
    }

    /// Does one collective of `steps` steps, or of `steps_of` a length where others have another one.
    pub(super) fn collective(
        &self,
        comm: &CommInner,
        terms: Terms,
        steps_of: &dyn Fn(usize) -> usize,
        act: impl FnOnce(&mut Passage<'_>) -> Result<(), Broken>,
    ) -> Result<(), MpiError> {
        let worker = &comm.process.worker;
        let sequence = comm.next_sequence();
        worker.check(&comm.collective_spec(sequence))?;
        if self.damaged.get() {
            return Err(MpiError::MemoryOverwritten);
        }
        let first = self.member.get().next();
        let mut passage = Passage { staging: self, comm, terms, steps_of, first, is_first: true };
        let unwinding = Unwinding { staging: self, comm };
        let done = act(&mut passage);
        std::mem::forget(unwinding);
        let (outcome, steps) = match done {
            Ok(()) => (Ok(()), steps_of(terms.len)),
            Err(Broken::Unequal { other, steps: Some(steps) }) => {
                (Err(unequal(terms.len, other)), steps)
            }
            Err(Broken::Unequal { other, steps: None }) => {
                self.abandon(comm);
                return Err(unequal(terms.len, other));
            }
            Err(Broken::Other(error)) => return Err(error),
            Err(Broken::Memory(damaged)) => return Err(self.give_up(comm, damaged)),
        };
        passage.tell(|member, memory| member.end(memory, steps as u64))?;
        outcome
    }

    #[cold]
    fn give_up(&self, comm: &CommInner, damaged: Damaged) -> MpiError {
        tracing::error!(%damaged, "the staging memory of a communicator is of no further use");
        self.abandon(comm);
        MpiError::MemoryOverwritten
    }

    /// Lets all know that the memory is used never again.
    #[cold]
    fn abandon(&self, comm: &CommInner) {
        self.damaged.set(true);
        let sleepers = self.act(comm, |member, memory| {
            member.fail(memory);
            sleepers(comm, member, memory)
        });
        wake(comm, wake_tag(comm), sleepers.unwrap_or_default());
    }

    /// Lends memory of at least `len` bytes, on lines.
    pub(super) fn with_scratch<R>(&self, len: usize, act: impl FnOnce(&mut [u8]) -> R) -> R {
        // Taken out, since what is done with it may call back in.
        let mut scratch = self.scratch.take();
        if scratch.len() * LINE < len {
            scratch.resize_with(len.div_ceil(LINE), || Line([0; LINE]));
        }
        let start = scratch.as_mut_ptr().cast::<u8>();
        // SAFETY: lines of bytes lie side by side in the vector, which is ours until it is put back.
        let done = act(unsafe { std::slice::from_raw_parts_mut(start, scratch.len() * LINE) });
        self.scratch.replace(scratch);
        done
    }
}

/// An operation of the program's may unwind in the midst of a collective. The steps of this rank are out of line with those
/// of the others then, so the memory is of no further use.
struct Unwinding<'a> {
    staging: &'a Staging,
    comm: &'a CommInner,
}

impl Drop for Unwinding<'_> {
    fn drop(&mut self) {
        self.staging.abandon(self.comm);
    }
}

/// The bytes of a slot for each of some ranks, in whole lines.
pub(super) const fn share(ranks: u32) -> usize {
    SLOT_BYTES / ranks as usize / LINE * LINE
}

/// Bytes of a slot.
pub(super) const fn slot_bytes() -> usize {
    SLOT_BYTES
}

fn wake_tag(comm: &CommInner) -> u64 {
    tags::collective_of(tags::Kind::Wake, comm.generation, 0)
}

/// The sleepers that the caller has to wake.
fn sleepers(comm: &CommInner, member: &Member, memory: &ViewWords<'_>) -> Vec<u32> {
    (0..comm.size).filter(|&rank| member.wakes(memory, rank)).collect()
}

impl<'a> Passage<'a> {
    pub(super) fn staging(&self) -> &'a Staging {
        self.staging
    }

    /// Does something that may be what others sleep for.
    fn tell(&self, act: impl FnOnce(&mut Member, &ViewWords<'_>) -> bool) -> Result<(), MpiError> {
        let sleepers = self.staging.act(self.comm, |member, memory| {
            if act(member, memory) { sleepers(self.comm, member, memory) } else { Vec::new() }
        })?;
        if !sleepers.is_empty() {
            wake(self.comm, wake_tag(self.comm), sleepers);
        }
        Ok(())
    }

    fn until(&self, what: Progress, begins: bool) -> Until<'_> {
        let begins = (begins && self.is_first).then_some((self.terms, self.first));
        Until { staging: self.staging, comm: self.comm, what, begins }
    }

    fn wait(&self, what: Progress) -> Result<(), Broken> {
        self.wait_for(&self.until(what, false))
    }

    fn wait_for(&self, until: &Until<'_>) -> Result<(), Broken> {
        let is_there =
            |member: &mut Member, memory: &ViewWords<'_>| member.is_there(memory, until.what);
        // It ends early at damage, which is found here.
        while !self.staging.act(self.comm, is_there)?? {
            wait::wait(self.comm, wake_tag(self.comm), until)?;
        }
        Ok(())
    }

    /// Puts bytes into this step's slot.
    pub(super) fn put(&self, step: usize, at: usize, bytes: &[u8]) -> Result<(), Broken> {
        let step = self.first + step as u64;
        Ok(self.staging.act(self.comm, |member, memory| member.put(memory, step, at, bytes))?)
    }

    /// Puts several pieces into this step's slot.
    pub(super) fn fill(&self, step: usize, act: impl FnOnce(&Slot<'_, '_>)) -> Result<(), Broken> {
        let step = self.first + step as u64;
        Ok(self.staging.act(self.comm, |member, memory| act(&Slot { member, memory, step }))?)
    }

    /// Takes several pieces out of this step's slot: `act` is called until it says that nothing is missing, else who has
    /// yet to write.
    pub(super) fn drain(
        &self,
        step: usize,
        mut act: impl FnMut(&Slot<'_, '_>) -> Result<Option<u32>, Damaged>,
    ) -> Result<(), Broken> {
        let step = self.first + step as u64;
        let mut all =
            |member: &mut Member, memory: &ViewWords<'_>| act(&Slot { member, memory, step });
        while let Some(from) = self.staging.act(self.comm, &mut all)?? {
            self.wait(Progress::Written(from, step))?;
        }
        Ok(())
    }

    /// Takes bytes out of this step's slot, when `from` has written them.
    pub(super) fn take(
        &self,
        step: usize,
        from: u32,
        at: usize,
        out: &mut [u8],
    ) -> Result<(), Broken> {
        let step = self.first + step as u64;
        let what = Progress::Written(from, step);
        loop {
            let act = |member: &mut Member, memory: &ViewWords<'_>| {
                let is_there = member.is_there(memory, what)?;
                if is_there {
                    member.get(memory, step, at, out);
                }
                Ok::<_, Damaged>(is_there)
            };
            if self.staging.act(self.comm, act)?? {
                return Ok(());
            }
            self.wait(what)?;
        }
    }

    /// This rank needs nothing more of the steps before `read` of this part.
    fn finish(&self, read: usize, told: &mut usize) -> Result<(), MpiError> {
        if read == *told {
            return Ok(());
        }
        *told = read;
        let step = self.first + read as u64 - 1;
        self.tell(|member, memory| member.finish(memory, step))
    }

    /// This rank has put what it writes in a step.
    fn written(&self, step: u64, reads: bool) -> Result<(), MpiError> {
        let terms = (self.is_first && step == self.first).then_some(self.terms);
        self.tell(|member, memory| {
            if let Some(terms) = terms {
                member.describe(memory, step, terms.descriptor());
            }
            let sleepers = member.write(memory, step);
            // Who reads nothing has finished what it has written.
            if reads { sleepers } else { member.finish(memory, step) | sleepers }
        })
    }

    /// Rule 2: waits for those that write in the first step, and compares what they say of it.
    fn compare(&self, sources: Sources) -> Result<(), Broken> {
        let (only, step) =
            (if let Sources::One(rank) = sources { Some(rank) } else { None }, self.first);
        let wanted = self.terms.descriptor();
        let (mut other, mut most, mut least) = (None, 0, usize::MAX);
        let mut ranks = (0..self.comm.size)
            .filter(|&rank| only.is_none_or(|only| only == rank) && rank != self.comm.rank)
            .peekable();
        // As many at once as have written.
        let mut look = |member: &mut Member, memory: &ViewWords<'_>| {
            while let Some(&rank) = ranks.peek() {
                if !member.is_there(memory, Progress::Written(rank, step))? {
                    return Ok::<_, Damaged>(Some(rank));
                }
                let descriptor = member.descriptor(memory, step, rank);
                if descriptor != wanted {
                    if !self.terms.agrees_with(descriptor) {
                        // Another collective, or no collective at all.
                        return Err(Damaged::call());
                    }
                    let len = (descriptor & LEN_MASK) as usize;
                    let steps = (self.steps_of)(len);
                    (most, least) = (most.max(steps), least.min(steps));
                    other = Some(len);
                }
                ranks.next();
            }
            Ok(None)
        };
        while let Some(rank) = self.staging.act(self.comm, &mut look)?? {
            self.wait_for(&self.until(Progress::Written(rank, step), only.is_none()))?;
        }
        let Some(other) = other else { return Ok(()) };
        let own = (self.steps_of)(self.terms.len);
        let steps = match sources {
            Sources::One(_) => Some(most),
            Sources::AllAlike => Some(most.max(own)),
            _ => (most == own && least == own).then_some(own),
        };
        if sources == Sources::AllAlike {
            // Some may wait for a result of this step.
            self.tell(|member, memory| member.combined(memory, step))?;
        }
        Err(Broken::Unequal { other, steps })
    }

    /// Waits until nothing holds up that this rank writes a step.
    fn wait_for_slot(&self, step: u64) -> Result<(), Broken> {
        let holds_up = |member: &mut Member, memory: &ViewWords<'_>| member.holds_up(memory, step);
        while let Some(what) = self.staging.act(self.comm, holds_up)?? {
            self.wait(what)?;
        }
        Ok(())
    }

    /// Goes through the steps of one part.
    pub(super) fn go(&mut self, transfer: &mut impl Transfer) -> Result<(), Broken> {
        let (steps, sources) = (transfer.steps(), transfer.sources());
        let reads = sources != Sources::Nobody;
        let (mut written, mut read, mut told) = (0, 0, 0);
        if !transfer.writes() {
            written = steps;
        }
        while written < steps || (reads && read < steps) {
            // It does not overwrite what it has yet to read itself.
            if written < steps && !(reads && written - read >= SLOTS as usize) {
                let step = self.first + written as u64;
                let holds_up =
                    |member: &mut Member, memory: &ViewWords<'_>| member.holds_up(memory, step);
                match self.staging.act(self.comm, holds_up)?? {
                    None => {
                        transfer.write(self, written)?;
                        self.written(step, reads)?;
                        written += 1;
                        continue;
                    }
                    Some(what) if !reads || read == written => {
                        self.finish(read, &mut told)?;
                        self.wait(what)?;
                        continue;
                    }
                    Some(_) => {}
                }
            }
            if read == 0 && self.is_first {
                self.compare(sources)?;
            }
            transfer.read(self, read)?;
            read += 1;
            if read - told >= TELL_EVERY {
                self.finish(read, &mut told)?;
            }
        }
        self.finish(read, &mut told)?;
        self.first += steps as u64;
        self.is_first = false;
        Ok(())
    }

    /// A part of one step in which all ranks write `own`, each at its number times `stride`, and one of them, which
    /// finds that all have, has `combine` make the result of it.
    pub(super) fn combine(
        &mut self,
        own: &[u8],
        stride: usize,
        out: &mut [u8],
        mut combine: impl FnMut(&Self, &mut [u8]) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        let step = self.first;
        self.wait_for_slot(step)?;
        self.put(0, self.comm.rank as usize * stride, own)?;
        self.written(step, true)?;
        let result = self.comm.size as usize * stride;
        loop {
            if self.staging.act(self.comm, |member, memory| member.claims(memory, step))?? {
                self.compare(Sources::AllAlike)?;
                combine(self, out)?;
                self.put(0, result, out)?;
                self.tell(|member, memory| member.combined(memory, step))?;
                break;
            }
            let what = Progress::Combined(step);
            if self.staging.act(self.comm, |member, memory| member.is_there(memory, what))?? {
                self.compare(Sources::AllAlike)?;
                self.staging
                    .act(self.comm, |member, memory| member.get(memory, step, result, out))?;
                break;
            }
            wait::wait(self.comm, wake_tag(self.comm), &self.until(what, true))?;
        }
        self.first += 1;
        self.is_first = false;
        Ok(())
    }
}

impl Communicator {
    /// The staging memory of this communicator, if its ranks share some. Made at the first call that chooses it, which
    /// is collective; of at most as many ranks as such a choice allows.
    #[inline]
    pub(crate) fn staging(&self) -> Result<Option<&Staging>, MpiError> {
        match self.inner.staging.get() {
            Some(staging) => Ok(staging.as_deref()),
            None => self.make_staging(),
        }
    }

    #[cold]
    fn make_staging(&self) -> Result<Option<&Staging>, MpiError> {
        let (ranks, apart) = (self.inner.size, !self.inner.oversubscribed);
        let geometry = Geometry { ranks, slots: SLOTS, slot_bytes: SLOT_BYTES, apart };
        let home = self.agree_on_memory(geometry.bytes())?;
        let made = home.map(|home| Box::new(Staging::new(home, self.inner.rank, geometry)));
        Ok(self.inner.staging.get_or_init(|| made).as_deref())
    }

    /// Changes the word at `offset` of the staging memory, as a stray write of this process would; whether there is one.
    /// For tests.
    #[doc(hidden)]
    pub fn overwrite_staging(&self, offset: usize, change: impl FnOnce(u64) -> u64) -> bool {
        let Some(Some(staging)) = self.inner.staging.get() else { return false };
        staging.home.overwrite(&self.inner.process.worker, offset, change)
    }
}
