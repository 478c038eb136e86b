//! The steps of one rank in the staging memory: what it writes into slots and cells, and what it waits for before it
//! reads those of others.
//!
//! The rules are in [`staged`](super). Not here: the memory itself, and how a call ends there.

use bowline_base::staging::{Geometry, StagingMember, StagingProgress};
use bowline_base::sync::LINE;
use bowline_base::words::ViewWords;

use super::{
    CallCells, Fits, LEN_MASK, POLLS_APART, PUBLISH_EVERY, Passage, SLOT_BYTES, Slot, Sources,
    Transfer, Until, sleepers, wake_tag,
};
use crate::coll::shared::{Broken, StrayWrite, wait, wake};
use crate::shared_memory::Staging;

impl<'a> Passage<'a> {
    pub(in crate::coll::shared) fn staging(&self) -> &'a Staging {
        self.staging
    }

    /// Does something that may be what others sleep for.
    #[inline]
    pub(super) fn publish(&self, act: impl FnOnce(&mut StagingMember, &ViewWords<'_>) -> bool) {
        if self.staging.act(act) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        let sleepers = self.staging.act(|member, memory| sleepers(self.comm, member, memory));
        wake(self.comm, wake_tag(self.comm), sleepers);
    }

    fn until(&self, what: StagingProgress, begins: bool) -> Until<'_> {
        Until { staging: self.staging, what, begins: begins.then_some(self.terms) }
    }

    pub(super) fn wait(&self, what: StagingProgress) -> Result<(), Broken> {
        self.wait_for(&self.until(what, false))
    }

    fn wait_for(&self, until: &Until<'_>) -> Result<(), Broken> {
        let is_there = || self.staging.act(|member, memory| member.is_there(memory, until.what));
        let polls = if self.staging.geometry.apart { POLLS_APART } else { 0 };
        for _ in 0..polls {
            std::hint::spin_loop();
            if is_there()? {
                return Ok(());
            }
        }
        // It ends early at damage, which is found here.
        while !is_there()? {
            wait::wait(self.comm, wake_tag(self.comm), until)?;
        }
        Ok(())
    }

    /// Where the data of a step begins in its slot. Steps that use a part of a slot use the next part each time that the
    /// slot is used again, if ranks have a processor each. [`SLOTS_APART`] has the reason.
    fn base(&self, step: u64) -> usize {
        let Geometry { apart, slots, .. } = self.staging.geometry;
        if !apart {
            return 0;
        }
        let parts = (SLOT_BYTES / self.extent) as u64;
        (step / u64::from(slots) % parts) as usize * self.extent
    }

    /// What follows uses up to so many bytes of each step's slot.
    pub(super) fn uses(&mut self, extent: usize) {
        self.extent = extent.next_multiple_of(LINE).clamp(LINE, SLOT_BYTES);
    }

    /// Puts bytes into this step's slot.
    pub(in crate::coll::shared) fn put(
        &self,
        step: usize,
        at: usize,
        bytes: &[u8],
    ) -> Result<(), Broken> {
        let step = self.first + step as u64;
        let at = self.base(step) + at;
        self.staging.act(|member, memory| member.put(memory, step, at, bytes));
        Ok(())
    }

    /// Puts several pieces into this step's slot.
    pub(in crate::coll::shared) fn fill(
        &self,
        step: usize,
        act: impl FnOnce(&Slot<'_, '_>),
    ) -> Result<(), Broken> {
        let step = self.first + step as u64;
        let base = self.base(step);
        self.staging.act(|member, memory| act(&Slot { member, memory, step, base }));
        Ok(())
    }

    /// Takes several pieces out of this step's slot: `act` is called until it says that nothing is missing, else who has
    /// yet to write.
    pub(in crate::coll::shared) fn drain(
        &self,
        step: usize,
        mut act: impl FnMut(&Slot<'_, '_>) -> Result<Option<u32>, StrayWrite>,
    ) -> Result<(), Broken> {
        let step = self.first + step as u64;
        let base = self.base(step);
        let mut all = |member: &mut StagingMember, memory: &ViewWords<'_>| {
            act(&Slot { member, memory, step, base })
        };
        while let Some(from) = self.staging.act(&mut all)? {
            self.wait(StagingProgress::Written(from, step))?;
        }
        Ok(())
    }

    /// Takes bytes out of this step's slot, when `from` has written them.
    pub(in crate::coll::shared) fn take(
        &self,
        step: usize,
        from: u32,
        at: usize,
        out: &mut [u8],
    ) -> Result<(), Broken> {
        let step = self.first + step as u64;
        let at = self.base(step) + at;
        let what = StagingProgress::Written(from, step);
        loop {
            let act = |member: &mut StagingMember, memory: &ViewWords<'_>| {
                let is_there = member.is_there(memory, what)?;
                if is_there {
                    member.get(memory, step, at, out);
                }
                Ok::<_, StrayWrite>(is_there)
            };
            if self.staging.act(act)? {
                return Ok(());
            }
            self.wait(what)?;
        }
    }

    /// This rank needs nothing more of the steps before `read` of this part.
    pub(super) fn finish(&self, read: usize, published: &mut usize) {
        if read == *published {
            return;
        }
        *published = read;
        let step = self.first + read as u64 - 1;
        self.publish(|member, memory| member.finish(memory, step));
    }

    /// This rank has put what it writes in a step.
    pub(super) fn written(&self, step: u64, reads: bool) -> Result<(), Broken> {
        if !self.staging.act(|member, _| member.has_stated()) {
            self.state(|_| {})?;
        }
        self.publish(|member, memory| {
            let sleepers = member.write(memory, step);
            // Who reads nothing has finished what it has written.
            if reads { sleepers } else { member.finish(memory, step) | sleepers }
        });
        Ok(())
    }

    /// States what this rank takes the call to be; `put` puts data into its cell.
    #[inline]
    pub(in crate::coll::shared) fn state(
        &self,
        put: impl FnOnce(&CallCells<'_, '_>),
    ) -> Result<(), Broken> {
        while let Some(what) = self.staging.act(|member, memory| member.holds_up_call(memory))? {
            self.wait(what)?;
        }
        let descriptor = self.terms.descriptor();
        self.publish(|member, memory| {
            put(&CallCells { member, memory });
            member.state(memory, descriptor)
        });
        Ok(())
    }

    /// Reads the cells of those that have stated the call.
    #[inline]
    pub(in crate::coll::shared) fn cells<R>(
        &self,
        read: impl FnOnce(&CallCells<'_, '_>) -> R,
    ) -> R {
        self.staging.act(|member, memory| read(&CallCells { member, memory }))
    }

    /// Rule 2: waits for those whose data this rank reads, and compares what they state.
    #[inline]
    pub(in crate::coll::shared) fn compare(&self, sources: Sources) -> Result<(), Broken> {
        let mut next = 0;
        let fits = |member: &mut StagingMember, memory: &ViewWords<'_>| {
            self.fits(member, memory, sources, &mut next)
        };
        let mut fits = fits;
        loop {
            match self.staging.act(&mut fits)? {
                Fits::All => return Ok(()),
                Fits::Missing(what) => {
                    let all = !matches!(sources, Sources::One(_));
                    self.wait_for(&self.until(what, all))?;
                }
                Fits::Not => return self.differ(sources),
            }
        }
    }

    /// Whether those whose data this rank reads state the same, as far as they have stated it; `next` is the first that
    /// is not known to.
    #[inline]
    fn fits(
        &self,
        member: &mut StagingMember,
        memory: &ViewWords<'_>,
        sources: Sources,
        next: &mut u32,
    ) -> Result<Fits, StrayWrite> {
        let (call, wanted) = (member.call(), self.terms.descriptor());
        let one = |member: &StagingMember, rank| {
            let what = StagingProgress::Stated(rank, call);
            Ok(match member.is_there(memory, what)? {
                false => Fits::Missing(what),
                true if member.stated(memory, rank) == wanted => Fits::All,
                true => Fits::Not,
            })
        };
        if let Sources::One(rank) = sources {
            return one(member, rank);
        }
        while *next < self.comm.size {
            if *next != self.comm.rank {
                match one(member, *next)? {
                    Fits::All => {}
                    other => return Ok(other),
                }
            }
            *next += 1;
        }
        member.all_have_stated();
        Ok(Fits::All)
    }

    /// The error when others state something else.
    #[cold]
    fn differ(&self, sources: Sources) -> Result<(), Broken> {
        let only = if let Sources::One(rank) = sources { Some(rank) } else { None };
        let (mut other, mut most, mut least) = (None, 0, usize::MAX);
        let call = self.staging.member.borrow().call();
        let ranks = (0..self.comm.size)
            .filter(|&rank| only.is_none_or(|only| only == rank) && rank != self.comm.rank);
        for rank in ranks {
            self.wait_for(&self.until(StagingProgress::Stated(rank, call), only.is_none()))?;
            let descriptor = self.staging.act(|member, memory| member.stated(memory, rank));
            if descriptor != self.terms.descriptor() {
                let len = (descriptor & LEN_MASK) as usize;
                if !self.terms.agrees_with(descriptor) {
                    // Another collective, or no collective at all.
                    return Err(StrayWrite::call().into());
                }
                let steps = (self.steps_of)(len);
                (most, least) = (most.max(steps), least.min(steps));
                other = Some(len);
            }
        }
        let other = other.ok_or(StrayWrite::call())?;
        let own = (self.steps_of)(self.terms.len);
        let steps = match sources {
            Sources::One(_) => Some(most),
            Sources::AllAlike => Some(most.max(own)),
            _ => (most == own && least == own).then_some(own),
        };
        if sources == Sources::AllAlike && steps != Some(0) {
            // Some may wait for a result of this step. A call in cells has none: that number is a step of a later call.
            self.publish(|member, memory| member.combined(memory, self.first));
        }
        Err(Broken::Unequal { other, steps })
    }

    /// Waits until nothing holds up that this rank writes a step.
    pub(super) fn wait_for_slot(&self, step: u64) -> Result<(), Broken> {
        let holds_up =
            |member: &mut StagingMember, memory: &ViewWords<'_>| member.holds_up(memory, step);
        while let Some(what) = self.staging.act(holds_up)? {
            self.wait(what)?;
        }
        Ok(())
    }

    /// Goes through the steps of one part.
    pub(in crate::coll::shared) fn go(
        &mut self,
        transfer: &mut impl Transfer,
    ) -> Result<(), Broken> {
        let (steps, sources) = (transfer.steps(), transfer.sources());
        let reads = sources != Sources::Nobody;
        let slots = self.staging.geometry.slots as usize;
        self.uses(transfer.extent());
        let (mut written, mut read, mut published) = (0, 0, 0);
        let is_first = self.staging.act(|member, _| member.next() == self.first);
        if !transfer.writes() {
            written = steps;
        }
        while written < steps || (reads && read < steps) {
            // It does not overwrite what it has yet to read itself.
            if written < steps && !(reads && written - read >= slots) {
                let step = self.first + written as u64;
                let holds_up = |member: &mut StagingMember, memory: &ViewWords<'_>| {
                    member.holds_up(memory, step)
                };
                match self.staging.act(holds_up)? {
                    None => {
                        transfer.write(self, written)?;
                        self.written(step, reads)?;
                        written += 1;
                        continue;
                    }
                    Some(what) if !reads || read == written => {
                        self.finish(read, &mut published);
                        self.wait(what)?;
                        continue;
                    }
                    Some(_) => {}
                }
            }
            if read == 0 && is_first {
                self.compare(sources)?;
            }
            transfer.read(self, read)?;
            read += 1;
            if read - published >= PUBLISH_EVERY {
                self.finish(read, &mut published);
            }
        }
        self.finish(read, &mut published);
        self.first += steps as u64;
        Ok(())
    }

    /// A part of one step in which all ranks write `own`, each at its number times `stride`, and one of them, which
    /// finds that all have, has `combine` make the result of it.
    pub(in crate::coll::shared) fn combine(
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
            if self.staging.act(|member, memory| member.claims(memory, step))? {
                self.compare(Sources::AllAlike)?;
                combine(self, out)?;
                self.put(0, result, out)?;
                self.publish(|member, memory| member.combined(memory, step));
                break;
            }
            let what = StagingProgress::Combined(step);
            if self.staging.act(|member, memory| member.is_there(memory, what))? {
                self.compare(Sources::AllAlike)?;
                let at = self.base(step) + result;
                self.staging.act(|member, memory| member.get(memory, step, at, out));
                break;
            }
            wait::wait(self.comm, wake_tag(self.comm), &self.until(what, true))?;
        }
        self.first += 1;
        Ok(())
    }
}
