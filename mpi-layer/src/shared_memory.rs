//! Memory that the ranks of a communicator share, as one of them has it: that of small collectives, and staging memory.
//!
//! It is rank 0's, reached by its key through ucp. What collectives do in it is in [`shared`](crate::coll::shared) and
//! below that.

use std::cell::{Cell, OnceCell, RefCell};

use bowline_base::barrier::BarrierMember;
use bowline_base::staging::{Geometry, StagingMember};
use bowline_base::sync::atomic::Ordering;
use bowline_base::sync::{CacheLine, LINE};
use bowline_base::view::View;
use bowline_base::words::ViewWords;
use bowline_ucp::{MemoryHandle, RemoteKey, Worker};

use crate::error::MpiError;

const WORD: usize = 8;

/// How this rank reaches the memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Home {
    /// It is this rank's.
    Own(MemoryHandle),
    /// It is rank 0's, at this address.
    Peer(RemoteKey, u64),
}

/// The shared memory of a communicator, as one rank sees it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) home: Home,
    pub(crate) member: Cell<BarrierMember>,
    /// Rule 3.
    pub(crate) damaged: Cell<bool>,
}

impl Home {
    pub(crate) fn with<R>(
        self,
        worker: &Worker,
        len: usize,
        act: impl FnOnce(View<'_>) -> R,
    ) -> Result<R, MpiError> {
        let done = match self {
            Self::Own(memory) => worker.mem_view(memory, act),
            Self::Peer(key, address) => worker.remote_view(key, address, len, act),
        };
        done.map_err(|error| {
            // The key stays open as long as the communicator does.
            tracing::error!(%error, "the shared memory of a communicator is gone");
            MpiError::Protocol(bowline_ucp::OpError::BadRemote)
        })
    }

    /// Changes the word at `offset`; whether there is one. For tests.
    pub(crate) fn overwrite(
        self,
        worker: &Worker,
        offset: usize,
        change: impl FnOnce(u64) -> u64,
    ) -> bool {
        let done = self.with(worker, offset + WORD, |view| {
            let word = view.word(offset)?;
            // Relaxed: a stray write keeps no order.
            let before = word.load(Ordering::Relaxed);
            word.store(change(before), Ordering::Relaxed);
            Some(())
        });
        matches!(done, Ok(Some(())))
    }

    /// Gives the memory, or the key, back.
    pub(crate) fn release(self, worker: &Worker) {
        match self {
            Self::Own(memory) => drop(worker.mem_release(memory)),
            Self::Peer(key, _) => worker.rkey_release(key),
        }
    }
}

impl Shared {
    pub(crate) const fn new(home: Home, rank: u32, ranks: u32) -> Self {
        let member = Cell::new(BarrierMember::new(rank, ranks));
        Self { home, member, damaged: Cell::new(false) }
    }

    /// Gives the memory, or the key, back.
    pub(crate) fn release(&self, worker: &Worker) {
        self.home.release(worker);
    }
}

/// Memory for contributions that are copied out, on lines.
type Scratch = Vec<CacheLine<[u8; LINE]>>;

/// The staging memory of a communicator, as one rank sees it.
#[derive(Debug)]
pub(crate) struct Staging {
    pub(crate) home: Home,
    /// Where it begins here.
    start: *mut u8,
    pub(crate) geometry: Geometry,
    pub(crate) member: RefCell<StagingMember>,
    pub(crate) damaged: Cell<bool>,
    scratch: RefCell<Scratch>,
    /// How ranks read each other's memory, where that was asked for.
    pub(crate) reads: OnceCell<Reads>,
}

impl Staging {
    pub(crate) fn new(
        worker: &Worker,
        home: Home,
        rank: u32,
        geometry: Geometry,
    ) -> Result<Self, MpiError> {
        let start = home.with(worker, geometry.bytes(), |view| view.as_ptr())?;
        let member = RefCell::new(StagingMember::new(rank, geometry));
        let (damaged, scratch, reads) = (Cell::new(false), RefCell::default(), OnceCell::new());
        Ok(Self { home, start, geometry, member, damaged, scratch, reads })
    }

    /// Gives the memory, or the key, back.
    pub(crate) fn release(&self, worker: &Worker) {
        self.home.release(worker);
        if let Some(reads) = self.reads.get() {
            reads.release(worker);
        }
    }

    /// Does something in the memory.
    #[inline]
    pub(crate) fn act<R>(&self, act: impl FnOnce(&mut StagingMember, &ViewWords<'_>) -> R) -> R {
        // SAFETY: the memory is as long as was asked for when its start was, and stays mapped until `release`, which is
        // called when the communicator is dropped. No slice of it is ever made.
        let view = unsafe { View::from_raw(self.start, self.geometry.bytes()) };
        let memory = ViewWords::new(view).expect("memory that starts on a line was opened");
        act(&mut self.member.borrow_mut(), &memory)
    }

    /// What reads the memory of the other ranks, if that is known to work.
    pub(crate) fn reads(&self) -> Option<&Reads> {
        self.reads.get().filter(|reads| reads.work())
    }

    /// Lends memory of at least `len` bytes, on lines.
    pub(crate) fn with_scratch<R>(&self, len: usize, act: impl FnOnce(&mut [u8]) -> R) -> R {
        // Taken out, since what is done with it may call back in.
        let mut scratch = self.scratch.take();
        if scratch.len() * LINE < len {
            scratch.resize_with(len.div_ceil(LINE), || CacheLine([0; LINE]));
        }
        let start = scratch.as_mut_ptr().cast::<u8>();
        // SAFETY: lines of bytes lie side by side in the vector, which is ours until it is put back.
        let done = act(unsafe { std::slice::from_raw_parts_mut(start, scratch.len() * LINE) });
        self.scratch.replace(scratch);
        done
    }
}

/// Keys of the memory of all other ranks, if every rank can read that of every other one; else none.
#[derive(Debug)]
pub(crate) struct Reads {
    pub(crate) keys: Vec<Option<RemoteKey>>,
}

impl Reads {
    /// Whether every rank can read the memory of every other one.
    pub(crate) fn work(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Gives the keys back.
    pub(crate) fn release(&self, worker: &Worker) {
        self.keys.iter().flatten().for_each(|&key| worker.rkey_release(key));
    }
}
