//! Registered buffers of one size: those on their way out, and those that arrivals come in.

use std::io;
use std::sync::Arc;

use bowline_base::view::View;

use crate::sys::{Access, Memory, Pd, RECEIVE_BATCH, Sge};

/// Buffers that are taken and given back.
#[derive(Debug)]
pub(crate) struct SendPool {
    memory: Memory,
    bytes: usize,
    free: Vec<u32>,
}

impl SendPool {
    pub(crate) fn new(pd: &Arc<Pd>, count: u32, bytes: usize) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(64);
        let memory = Memory::new(pd, count as usize * bytes, Access::Local)?;
        Ok(Self { memory, bytes, free: (0..count).rev().collect() })
    }

    /// A free buffer.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Whether there is one.
    #[inline]
    pub(crate) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Gives one back.
    #[inline]
    pub(crate) fn give(&mut self, buffer: u32) {
        self.free.push(buffer);
    }

    /// Its bytes.
    #[inline]
    pub(crate) fn view(&self, buffer: u32) -> View<'_> {
        let view = self.memory.view().slice(buffer as usize * self.bytes, self.bytes);
        view.expect("buffers lie in the memory")
    }

    /// The first `len` bytes of it, for a request.
    #[inline]
    pub(crate) fn piece(&self, buffer: u32, len: usize) -> Sge {
        self.memory.piece(buffer as usize * self.bytes, len)
    }
}

/// Buffers for arrivals. Each is in one place at a time: posted, about to be posted, or being
/// read.
#[derive(Debug)]
pub(crate) struct ReceivePool {
    memory: Memory,
    bytes: usize,
    /// To be posted with the next batch.
    due: Vec<(u64, Sge)>,
}

impl ReceivePool {
    /// `count` buffers of `bytes`, all due at once.
    pub(crate) fn new(pd: &Arc<Pd>, count: u32, bytes: usize) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(64);
        let memory = Memory::new(pd, count as usize * bytes, Access::Local)?;
        let mut pool = Self { memory, bytes, due: Vec::with_capacity(count as usize) };
        for buffer in 0..count {
            pool.again(buffer);
        }
        Ok(pool)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory.view().len()
    }

    /// Has `buffer` posted again with the next batch.
    #[inline]
    pub(crate) fn again(&mut self, buffer: u32) {
        let piece = self.memory.piece(buffer as usize * self.bytes, self.bytes);
        self.due.push((u64::from(buffer), piece));
    }

    /// Hands full batches to `post`, or all that is due.
    #[inline]
    pub(crate) fn post_due(
        &mut self,
        all: bool,
        mut post: impl FnMut(&[(u64, Sge)]) -> io::Result<()>,
    ) -> io::Result<u32> {
        let mut calls = 0;
        while self.due.len() >= RECEIVE_BATCH || all && !self.due.is_empty() {
            let from = self.due.len().saturating_sub(RECEIVE_BATCH);
            post(&self.due[from..])?;
            self.due.truncate(from);
            calls += 1;
        }
        Ok(calls)
    }

    /// The first `len` bytes of a buffer.
    #[inline]
    pub(crate) fn view(&self, buffer: u32, len: usize) -> View<'_> {
        let view = self.memory.view().slice(buffer as usize * self.bytes, len.min(self.bytes));
        view.expect("buffers lie in the memory")
    }
}

/// Words for the results of atomics. The first one belongs to those whose result nobody wants.
#[derive(Debug)]
pub(crate) struct Results {
    memory: Memory,
    free: Vec<u32>,
}

impl Results {
    /// `count` words.
    pub(crate) fn new(pd: &Arc<Pd>, count: u32) -> io::Result<Self> {
        let memory = Memory::new(pd, (count as usize + 1) * 8, Access::Local)?;
        Ok(Self { memory, free: (1..=count).rev().collect() })
    }

    /// The word into which results go that are not wanted.
    pub(crate) const DISCARDED: u32 = 0;

    /// A free word.
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Gives one back.
    pub(crate) fn give(&mut self, word: u32) {
        if word != Self::DISCARDED {
            self.free.push(word);
        }
    }

    /// The word for a request.
    pub(crate) fn piece(&self, word: u32) -> Sge {
        self.memory.piece(word as usize * 8, 8)
    }

    /// What the device wrote into it.
    pub(crate) fn read(&self, word: u32) -> u64 {
        let mut bytes = [0; 8];
        let view = self.memory.view().slice(word as usize * 8, 8).expect("words lie inside");
        view.copy_out(&mut bytes);
        u64::from_ne_bytes(bytes)
    }
}
