//! One rank's area, mapped here: its own or a peer's.
//!
//! An [`Area`] knows the layout (computed here, see [`crate::layout`]) and hands out references
//! to atomics and the memory of queues. It keeps the mapping alive, so whatever is made of its
//! memory must be dropped before it; the structures that hold both order their fields so.

use bowline_base::job::JobMemory;
use bowline_base::sync::LINE;
use bowline_base::sync::atomic::{AtomicU64, Ordering};
use bowline_base::view::View;
use bowline_base::words::DirectWords;
use bowline_uct::{OpenError, PeerFailure};

use crate::layout::{
    Attention, GuestEntry, Header, Layout, MAGIC, Parameters, Senders, Shared, VERSION, state,
};

/// A mapped area.
#[derive(Clone, Debug)]
pub(crate) struct Area {
    job: JobMemory,
    local: u32,
    layout: Layout,
}

impl Area {
    /// Claims the area of `local` for an interface and fills in the header, without opening it.
    pub(crate) fn create(
        job: &JobMemory,
        local: u32,
        parameters: Parameters,
    ) -> Result<Self, OpenError> {
        let layout = Layout::new(parameters);
        let bytes = job.area(local).map_or(0, View::len);
        if bytes < layout.total {
            return Err(OpenError::Limit(format!(
                "rank {local} has {bytes} bytes in the node memory, the settings BOWLINE_SHM_* \
                 ask for {}; start all ranks and the launcher with the same settings",
                layout.total
            )));
        }
        let area = Self { job: job.clone(), local, layout };
        let header = area.header();
        // AcqRel: of two interfaces of one rank, the exchange lets one in. `OPENING` publishes
        // nothing, `join` only refuses it. Acquire pairs with the Release stores of the other
        // interface, in `open` and in the drop of `ShmIface`.
        if header
            .state
            .compare_exchange(state::EMPTY, state::OPENING, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            return Err(OpenError::Limit(format!(
                "the area of local rank {local} is or was in use by another interface; a rank \
                 opens one shared memory interface in its life"
            )));
        }
        parameters.write(header);
        // Relaxed: published by `open`.
        header.version.store(VERSION, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Relaxed);
        Ok(area)
    }

    /// Lets peers in. The queues have been made.
    pub(crate) fn open(&self) {
        // Release pairs with the Acquire in `join`: publishes parameters and queues.
        self.header().state.store(state::OPEN, Ordering::Release);
    }

    /// Whether the owner has closed its interface.
    pub(crate) fn is_closed(&self) -> bool {
        // Acquire pairs with the Release of the closing: its last messages come before.
        self.header().state.load(Ordering::Acquire) == state::CLOSED
    }

    /// The area of a peer.
    pub(crate) fn join(job: &JobMemory, local: u32) -> Result<Self, OpenError> {
        let view = job.area(local).ok_or_else(|| {
            OpenError::BadAddress(format!(
                "it names local rank {local}, the node memory has {}",
                job.ranks()
            ))
        })?;
        if view.len() < size_of::<Header>() {
            return Err(damaged(local, "too small"));
        }
        let mut area = Self { job: job.clone(), local, layout: Layout::header_only() };
        let header = area.header();
        // Acquire pairs with the Release in `open`.
        match header.state.load(Ordering::Acquire) {
            state::OPEN => {}
            state::EMPTY | state::OPENING => {
                return Err(OpenError::Limit(format!(
                    "local rank {local} has not opened its interface yet; exchange addresses \
                     after opening"
                )));
            }
            state::CLOSED => return Err(OpenError::PeerFailed(PeerFailure::Closed)),
            _ => return Err(damaged(local, "its state cannot be")),
        }
        // Relaxed: published by the state.
        if header.magic.load(Ordering::Relaxed) != MAGIC {
            return Err(damaged(local, "another program's memory"));
        }
        let version = header.version.load(Ordering::Relaxed);
        if version != VERSION {
            return Err(OpenError::BadAddress(format!(
                "the peer speaks version {version} of the shared memory protocol, this program \
                 version {VERSION}; use one version of Bowline for all ranks"
            )));
        }
        let parameters =
            Parameters::of_header(header).ok_or_else(|| damaged(local, "its sizes cannot be"))?;
        let layout = Layout::new(parameters);
        if layout.total > view.len() {
            return Err(damaged(local, "its sizes exceed its memory"));
        }
        area.layout = layout;
        Ok(area)
    }

    pub(crate) fn job(&self) -> &JobMemory {
        &self.job
    }

    pub(crate) fn local(&self) -> u32 {
        self.local
    }

    pub(crate) fn parameters(&self) -> &Parameters {
        &self.layout.parameters
    }

    /// Bytes of queues and rings, which do not depend on the number of peers.
    pub(crate) fn receive_bytes(&self) -> usize {
        self.layout.scmp_bytes + self.layout.rings_bytes()
    }

    pub(crate) fn header(&self) -> &Header {
        self.at(0)
    }

    pub(crate) fn attention(&self) -> &Attention {
        self.at(size_of::<Header>())
    }

    /// Makes the owner check what is rare. The caller rings its doorbell afterwards.
    pub(crate) fn bump_attention(&self) {
        // Release pairs with the Acquire in the owner's progress: publishes what changed.
        self.attention().word.fetch_add(1, Ordering::Release);
    }

    /// Ranks that have connected to the owner.
    pub(crate) fn known(&self) -> &Senders {
        self.at(self.layout.known)
    }

    /// Senders that the owner does not listen to.
    pub(crate) fn refused(&self) -> &Senders {
        self.at(self.layout.refused)
    }

    pub(crate) fn guest(&self, index: u32) -> Option<&GuestEntry> {
        (index < self.parameters().guests)
            .then(|| self.at(self.layout.guests + index as usize * size_of::<GuestEntry>()))
    }

    /// The generation word of a registration.
    pub(crate) fn registration(&self, index: u32) -> Option<&AtomicU64> {
        (index < self.parameters().registrations)
            .then(|| self.at(self.layout.registrations + index as usize * size_of::<AtomicU64>()))
    }

    /// The memory of the shared receive queue.
    pub(crate) fn scmp_words(&self) -> DirectWords {
        self.words(self.layout.scmp, self.layout.scmp_bytes)
    }

    /// The memory of a ring.
    pub(crate) fn ring_words(&self, ring: u32) -> Option<DirectWords> {
        self.layout.ring(ring).map(|(offset, bytes)| self.words(offset, bytes))
    }

    fn view(&self) -> View<'_> {
        self.job.area(self.local).expect("the local index was checked when the area was made")
    }

    fn words(&self, offset: usize, len: usize) -> DirectWords {
        let view = self.view().slice(offset, len).expect("a queue lies within its area");
        // SAFETY: every structure that keeps such words also keeps an `Area`, which keeps the
        // mapping, and drops it after them. Offset and length are those of one queue, which
        // honest peers use as the same queue; the areas do not overlap.
        unsafe { DirectWords::from_view(view) }.expect("queues start on lines")
    }

    fn at<T: Shared>(&self, offset: usize) -> &T {
        let view = self.view().slice(offset, size_of::<T>()).expect("a word lies within its area");
        debug_assert_eq!(offset % align_of::<T>().min(LINE), 0);
        // SAFETY: inside the mapping, which `self.job` keeps for the lifetime of the reference.
        // Areas are page-aligned and every offset of a layout is a multiple of the type's
        // alignment. `Shared` promises atomics only, valid for every bit pattern and sharable
        // with writers in other processes.
        unsafe { &*view.as_ptr().cast::<T>() }
    }
}

fn damaged(local: u32, what: &str) -> OpenError {
    OpenError::BadAddress(format!("the area of local rank {local} is damaged: {what}"))
}
