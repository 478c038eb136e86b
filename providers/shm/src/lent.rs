//! Memory of this process that its thread ranks may copy from and to each other.
//!
//! Between processes the kernel checks every address. Between threads of one process nobody does, so
//! an address that came from a peer is searched for here first: each interface of thread ranks has a
//! table of what it has registered, exposed or lent, and a peer copies only what it finds there.
//!
//! 1. A piece is *entered* before any peer knows of it, with its length and whether peers may write.
//! 2. A copy *holds* the piece that it finds: it has a share of its reference count until it ends.
//!    The table's lock is held for the lookup alone, never during a copy.
//! 3. A piece is *removed* in two steps: it is taken out of the table, so that no later copy finds it,
//!    and then everybody who holds it is waited for. A copy makes no call that waits, so that ends.
//!    After it the memory is its owner's alone.
//! 4. A lookup may happen in a signal handler that has interrupted a thread with the lock. So it tries
//!    the lock a limited number of times and then says that it is busy, which is an operation without
//!    resources for its caller. It allocates nothing, and frees nothing: only the remover does.
//! 5. A signal handler enters pieces in the same way, of which there are [`OF_HANDLERS`] at most: they stand in a
//!    list of their own, for which there is space from the start, and their remover keeps them for the next ones.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use bowline_base::sync::yield_now;
use bowline_base::view::View;

use crate::cma::Direction;

/// The tables of all interfaces of thread ranks in this process, by instance.
static TABLES: Mutex<Vec<(u64, Weak<Lent>)>> = Mutex::new(Vec::new());

/// How often a lookup tries the lock before it says that it is busy. Who has it does a lookup of its own
/// or enters a piece; only a holder that lost its processor makes somebody try twice.
const TRIES: u32 = 256;

/// Pieces that signal handlers have entered, at most. One is a long message under way.
pub(crate) const OF_HANDLERS: usize = 16;

/// What one interface has lent to the thread ranks of its process.
#[derive(Debug)]
pub(crate) struct Lent {
    instance: u64,
    pieces: Mutex<Pieces>,
}

#[derive(Debug)]
struct Pieces {
    /// By start and number: the same memory may be lent several times.
    by_start: BTreeMap<(u64, u64), Arc<Piece>>,
    next: u64,
    /// Rule 5: the same, in no order, and the pieces that nobody has entered.
    of_handlers: Vec<((u64, u64), Arc<Piece>)>,
    unused: Vec<Arc<Piece>>,
}

impl Pieces {
    fn new() -> Self {
        let piece = || Arc::new(Piece { len: 0, writable: false });
        Self {
            by_start: BTreeMap::new(),
            next: 0,
            of_handlers: Vec::with_capacity(OF_HANDLERS),
            unused: std::iter::repeat_with(piece).take(OF_HANDLERS).collect(),
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// One piece of memory.
#[derive(Debug)]
struct Piece {
    len: u64,
    /// Whether peers may write it.
    writable: bool,
}

/// Names a piece to its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entered {
    start: u64,
    number: u64,
}

/// Memory of a peer for the time of a copy; see rule 2.
#[derive(Debug)]
pub(crate) struct Held {
    start: u64,
    len: usize,
    _piece: Arc<Piece>,
}

/// Why nothing is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotHeld {
    /// The peer has not lent that, or not for writing.
    Nothing,
    /// Somebody else is at the table, rule 4.
    Busy,
}

impl Lent {
    /// The table of a new interface.
    pub(crate) fn new(instance: u64) -> Arc<Self> {
        let table = Arc::new(Self { instance, pieces: Mutex::new(Pieces::new()) });
        let mut all = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((instance, Arc::downgrade(&table)));
        table
    }

    /// The table of the peer with this instance, if it is a thread rank of this process.
    pub(crate) fn of(instance: u64) -> Option<Arc<Self>> {
        let all = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|(known, _)| *known == instance).and_then(|(_, table)| table.upgrade())
    }

    /// Rule 1.
    ///
    /// # Safety
    /// The `len` bytes at `start` stay mapped, and reached by views and copies only, until
    /// [`remove`](Self::remove) has returned; if `writable`, they may be written that long.
    pub(crate) unsafe fn enter(&self, start: u64, len: usize, writable: bool) -> Entered {
        let mut pieces = self.lock();
        let number = pieces.number();
        pieces.by_start.insert((start, number), Arc::new(Piece { len: len as u64, writable }));
        Entered { start, number }
    }

    /// Rule 5: as [`enter`](Self::enter), for writes, too. `None`: all pieces are in use, or somebody else is at the table.
    ///
    /// # Safety
    /// As for `enter`, with `writable`.
    pub(crate) unsafe fn enter_signal_safe(&self, start: u64, len: usize) -> Option<Entered> {
        let mut pieces = self.try_lock()?;
        let mut piece = pieces.unused.pop()?;
        // Nobody holds what is in no table.
        *Arc::get_mut(&mut piece)? = Piece { len: len as u64, writable: true };
        let number = pieces.number();
        // There is space: a piece is in one of the two lists.
        pieces.of_handlers.push(((start, number), piece));
        Some(Entered { start, number })
    }

    /// Rule 3.
    pub(crate) fn remove(&self, entered: Entered) {
        let name = (entered.start, entered.number);
        let mut pieces = self.lock();
        let removed = pieces.by_start.remove(&name);
        let at = pieces.of_handlers.iter().position(|(other, _)| *other == name);
        let of_handler = at.map(|at| pieces.of_handlers.swap_remove(at).1);
        drop(pieces);
        let recycled = of_handler.is_some();
        let Some(mut piece) = removed.or(of_handler) else { return };
        while Arc::get_mut(&mut piece).is_none() {
            yield_now();
        }
        if recycled {
            self.lock().unused.push(piece);
        }
    }

    /// Rule 2: the `len` bytes at `start`, if the owner has lent them for this.
    pub(crate) fn hold(
        &self,
        start: u64,
        len: usize,
        direction: Direction,
    ) -> Result<Held, NotHeld> {
        let end = start.checked_add(len as u64).ok_or(NotHeld::Nothing)?;
        let pieces = self.try_lock().ok_or(NotHeld::Busy)?;
        let up_to = (Bound::Unbounded, Bound::Included((start, u64::MAX)));
        // Pieces that begin behind `start` do not hold it. The last that begins in front of it does,
        // as a rule; one inside another may hide that.
        let fits = |begins: u64, piece: &Piece| {
            end - begins <= piece.len && (piece.writable || direction == Direction::Read)
        };
        let mut before = pieces.by_start.range(up_to).rev();
        let found =
            before.find(|((begins, _), piece)| fits(*begins, piece)).map(|(_, piece)| piece);
        let of_handler = || {
            let mut all = pieces.of_handlers.iter();
            let found = all.find(|((begins, _), piece)| *begins <= start && fits(*begins, piece));
            found.map(|(_, piece)| piece)
        };
        let piece = found.or_else(of_handler).ok_or(NotHeld::Nothing)?;
        Ok(Held { start, len, _piece: Arc::clone(piece) })
    }

    fn lock(&self) -> MutexGuard<'_, Pieces> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Pieces>> {
        for _ in 0..TRIES {
            match self.pieces.try_lock() {
                Ok(pieces) => return Some(pieces),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => yield_now(),
            }
        }
        None
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut all = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(instance, _)| *instance != self.instance);
    }
}

impl Held {
    /// The bytes. Others may read and write them meanwhile, as with all memory of peers.
    pub(crate) fn view(&self) -> View<'_> {
        // SAFETY: the range lies in a piece that its owner keeps readable, and writable where it was
        // asked for, until `remove` has returned (rule 1), which waits for the share of the piece's
        // count that `self` has (rule 3). The view ends before `self` does.
        unsafe { View::from_raw(self.start as usize as *mut u8, self.len) }
    }
}

#[cfg(test)]
mod tests;
