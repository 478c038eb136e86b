//! A lane that moves data by itself, in real time: the messages of another transport between threads
//! of one process, and a thread that stands for a network card, which carries out its reads, and its writes if it is to.
//!
//! ```text
//!   get_zcopy, put_zcopy: slot FREE ─► POSTED ── the card: latency + bytes / bandwidth later, copies ──► DONE
//!                         ▲                                                                                        │
//!                         └──────────────────── progress, or a signal handler: the completion is reported ◄──────────────────────┘
//! ```
//! It is for experiments about who makes progress while a rank computes. Everything else is the
//! other transport's. The card sleeps while it has nothing to do, and when it has, it takes the
//! processor for the copy itself, which a real one would not: choose a bandwidth far below that of
//! memory. Operations of one card go one after the other. The kernel checks every address.
//!
//! Only for ranks that are threads of this process: a peer's address is read in this one.

use std::sync::Arc;
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use bowline_base::doorbell::Doorbell;
use bowline_base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use bowline_uct::{
    Armed, AtomicOps, Caps, EpId, Iface, IfaceAttr, LocalSlice, MemoryDomain, OneSided, OpenError,
    PeerFailure, PostError, Posted, RemoteSlice, SignalSafe, SignalSink, Sink, Token, Wakeup,
    forward, lacks,
};

/// Operations under way at once.
const SLOTS: usize = 64;

const FREE: u32 = 0;
const POSTED: u32 = 1;
const DONE: u32 = 2;
const FAILED: u32 = 3;

/// How fast the card is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CarrierOptions {
    /// From the moment that a read is next to its first byte.
    pub(crate) latency: Duration,
    /// Bytes in a second.
    pub(crate) bandwidth: f64,
    /// Whether it writes, too, to memory that a peer lends.
    pub(crate) writes: bool,
}

/// A read or a write. Its words belong to the lane while it is free, to the card while it is posted, and to the
/// lane again when it is done; `state` hands them over.
#[derive(Debug, Default)]
struct Slot {
    state: AtomicU32,
    token: AtomicU64,
    /// Where it lies here, and at the peer.
    local: AtomicU64,
    remote: AtomicU64,
    len: AtomicU64,
    /// Whether it is a write.
    writes: AtomicBool,
    /// When it is complete, in ns since the card's start.
    due: AtomicU64,
}

#[derive(Debug)]
struct Card {
    slots: [Slot; SLOTS],
    begin: Instant,
    stop: AtomicBool,
    /// Operations that are done, reported or not.
    done: AtomicU32,
}

/// The lane. See the module's text.
pub(crate) struct Carrier {
    below: Box<dyn Iface>,
    attr: IfaceAttr,
    options: CarrierOptions,
    card: Arc<Card>,
    wake: Thread,
    thread: Option<JoinHandle<()>>,
    /// When the last operation that was posted is complete, in ns since the card's start.
    busy_until: u64,
    /// Where to search for a free slot first.
    next: usize,
    /// Operations that were reported of.
    reported: u32,
}

impl std::fmt::Debug for Carrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Carrier").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Carrier {
    /// Puts a card before `below`, which has to connect threads of this process.
    ///
    /// # Errors
    /// When `below` cannot open the memory of a whole process, or there is no thread to be had.
    pub(crate) fn open(below: Box<dyn Iface>, options: CarrierOptions) -> Result<Self, OpenError> {
        let mut attr = below.attr().clone();
        if !attr.caps.contains(Caps::GET_ZCOPY | Caps::RMA_REGISTERED) {
            let why = format!("{} cannot read any memory of a peer", attr.provider);
            return Err(OpenError::Limit(why));
        }
        // Messages are not to be copied by the processors of both sides.
        attr.caps -= Caps::ATOMIC_CPU | Caps::RKEY_PTR;
        if options.writes {
            attr.caps |= Caps::LEND;
        } else {
            attr.caps -= Caps::PUT_ZCOPY;
        }
        attr.caps |= Caps::CARRIES;
        attr.atomics = AtomicOps::empty();
        attr.provider = "carrier";
        let card = Arc::new(Card {
            slots: std::array::from_fn(|_| Slot::default()),
            begin: Instant::now(),
            stop: AtomicBool::new(false),
            done: AtomicU32::new(0),
        });
        let (mine, bell) = (Arc::clone(&card), below.doorbell().cloned());
        let thread = std::thread::Builder::new()
            .name("card".to_owned())
            .spawn(move || mine.run(bell.as_ref()))
            .map_err(|source| OpenError::System { act: "start the card's thread", source })?;
        let wake = thread.thread().clone();
        let thread = Some(thread);
        Ok(Self { below, attr, options, card, wake, thread, busy_until: 0, next: 0, reported: 0 })
    }

    fn post(
        &mut self,
        local: &LocalSlice,
        remote: u64,
        writes: bool,
        token: Token,
    ) -> Result<Posted, PostError> {
        let slots = &self.card.slots;
        // Acquire: pairs with the Release of `complete`, in this thread or the one before it.
        let is_free = |at: &usize| slots[*at].state.load(Ordering::Acquire) == FREE;
        let at = (0..SLOTS).map(|i| (self.next + i) % SLOTS).find(is_free);
        let Some(at) = at else { return Err(PostError::NoResource) };
        self.next = (at + 1) % SLOTS;
        let now = self.card.now();
        let carried = local.len() as f64 / self.options.bandwidth * 1e9;
        let due =
            now.max(self.busy_until) + self.options.latency.as_nanos() as u64 + carried as u64;
        self.busy_until = due;
        let slot = &slots[at];
        // Relaxed, all: handed over by the store of the state.
        slot.token.store(token.0, Ordering::Relaxed);
        slot.local.store(local.as_ptr().expose_provenance() as u64, Ordering::Relaxed);
        slot.remote.store(remote, Ordering::Relaxed);
        slot.len.store(local.len() as u64, Ordering::Relaxed);
        slot.writes.store(writes, Ordering::Relaxed);
        slot.due.store(due, Ordering::Relaxed);
        // Release: pairs with the Acquire in `Card::run`.
        slot.state.store(POSTED, Ordering::Release);
        self.wake.unpark();
        Ok(Posted::InFlight)
    }

    /// Reports operations that are done, as long as `report` takes them.
    fn complete(
        &mut self,
        budget: u32,
        mut report: impl FnMut(Token, Result<u64, PeerFailure>) -> bool,
    ) -> u32 {
        let mut reported = 0;
        if !self.has_completions() {
            return reported;
        }
        for slot in &self.card.slots {
            // Acquire: pairs with the Release in `Card::run`; the bytes are there.
            let state = slot.state.load(Ordering::Acquire);
            if reported == budget || (state != DONE && state != FAILED) {
                continue;
            }
            // Relaxed: the lane's own now.
            let token = Token(slot.token.load(Ordering::Relaxed));
            let result = if state == DONE { Ok(0) } else { Err(PeerFailure::Refused) };
            if token == Token::NONE || report(token, result) {
                // Release: pairs with the Acquire in `post`.
                slot.state.store(FREE, Ordering::Release);
                reported += 1;
            }
        }
        self.reported = self.reported.wrapping_add(reported);
        reported
    }

    /// Whether the card has a write that it has not carried out.
    fn writes_now(&self) -> bool {
        self.card.slots.iter().any(|slot| {
            // Acquire: pairs with the Release in `Card::run`; what was written is visible.
            let posted = slot.state.load(Ordering::Acquire) == POSTED;
            // Relaxed: the lane has written it itself.
            posted && slot.writes.load(Ordering::Relaxed)
        })
    }

    fn has_completions(&self) -> bool {
        // Acquire: pairs with the Release in `Card::run`; the state of the slot is seen.
        self.card.done.load(Ordering::Acquire) != self.reported
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `Card::run`.
        self.card.stop.store(true, Ordering::Release);
        self.wake.unpark();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            report_panic();
        }
    }
}

#[cold]
fn report_panic() {
    eprintln!("the thread that stands for a network card has panicked");
}

impl Card {
    fn now(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    fn run(&self, bell: Option<&Doorbell>) {
        bowline_base::short_slice::request();
        // SAFETY: changes how exactly this thread's sleeps end, and no memory.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0, 0, 0) };
        // Acquire: pairs with the Release in `Drop`; nothing posted before it is left out.
        while !self.stop.load(Ordering::Acquire) {
            // Acquire: pairs with the Release in `Carrier::post`.
            let posted = |slot: &&Slot| slot.state.load(Ordering::Acquire) == POSTED;
            // Relaxed: the card's own while it is posted.
            let due = |slot: &&Slot| slot.due.load(Ordering::Relaxed);
            let Some(slot) = self.slots.iter().filter(posted).min_by_key(due) else {
                std::thread::park();
                continue;
            };
            let left = due(&slot).saturating_sub(self.now());
            if left > 0 {
                std::thread::park_timeout(Duration::from_nanos(left));
                continue;
            }
            let state = if slot.carry() { DONE } else { FAILED };
            // Release: pairs with the Acquire in `Carrier::complete`.
            slot.state.store(state, Ordering::Release);
            // Release: pairs with the Acquire in `Carrier::has_completions`.
            self.done.fetch_add(1, Ordering::Release);
            if let Some(bell) = bell {
                bell.ring();
            }
        }
    }
}

impl Slot {
    /// Copies. Whether all of it was there.
    fn carry(&self) -> bool {
        // Relaxed, all: the card's own while it is posted.
        let mut len = self.len.load(Ordering::Relaxed) as usize;
        let (mut here, mut there) =
            (self.local.load(Ordering::Relaxed), self.remote.load(Ordering::Relaxed));
        let writes = self.writes.load(Ordering::Relaxed);
        while len > 0 {
            let place = |at: u64| libc::iovec {
                iov_base: std::ptr::with_exposed_provenance_mut(at as usize),
                iov_len: len,
            };
            let (local, remote) = (place(here), place(there));
            // SAFETY: the local range lies in a buffer that the operation's owner keeps until its completion
            // was reported, which comes after this; the remote one is only an address, which the kernel
            // checks, and to which its owner lends writes.
            let n = unsafe {
                let (pid, local, remote) = (libc::getpid(), &raw const local, &raw const remote);
                if writes {
                    libc::process_vm_writev(pid, local, 1, remote, 1, 0)
                } else {
                    libc::process_vm_readv(pid, local, 1, remote, 1, 0)
                }
            };
            let Ok(moved @ 1..) = usize::try_from(n) else { return false };
            len -= moved;
            here += moved as u64;
            there += moved as u64;
        }
        true
    }
}

impl MemoryDomain for Carrier {
    forward! {
        [this => this.below] md_attr mem_alloc mem_register mem_expose mem_lend mem_view mem_release
        rkey_pack rkey_unpack rkey_release
    }

    // All messages are read where they lie, by the card.
    lacks! { rkey_ptr puts_end_last rkey_of }
}

// SAFETY: operations are those of the interface inside; one that the thread carries out is reported when
// the thread is through with it, and the thread ends with the carrier.
unsafe impl Iface for Carrier {
    forward! {
        [this => this.below] address reachable explain connect source_of disconnect all_sent am_short
        am_bcopy am_zcopy fence want_writable check invalidate
    }

    // Writes of the card have to be complete first.
    fn flush(&mut self, ep: EpId, token: Token) -> Result<Posted, PostError> {
        if self.writes_now() { Err(PostError::NoResource) } else { self.below.flush(ep, token) }
    }

    fn flush_all(&mut self, token: Token) -> Result<Posted, PostError> {
        if self.writes_now() { Err(PostError::NoResource) } else { self.below.flush_all(token) }
    }

    fn attr(&self) -> &IfaceAttr {
        &self.attr
    }

    fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let reported = self.complete(budget, |token, result| {
            sink.completed(token, result);
            true
        });
        reported + self.below.progress(sink, budget - reported)
    }
}

impl OneSided for Carrier {
    forward! { [this => this.below] put_short put_bcopy put_notify get_bcopy }

    lacks! { atomic }

    fn put_zcopy(
        &mut self,
        ep: EpId,
        from: &[LocalSlice],
        to: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        match from {
            _ if !self.options.writes => Err(PostError::Unsupported),
            [from] => self.post(from, to.address, true, token),
            _ => self.below.put_zcopy(ep, from, to, token),
        }
    }

    fn get_zcopy(
        &mut self,
        ep: EpId,
        to: &[LocalSlice],
        from: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        match to {
            [to] => self.post(to, from.address, false, token),
            _ => self.below.get_zcopy(ep, to, from, token),
        }
    }
}

impl Wakeup for Carrier {
    forward! { [this => this.below] doorbell disarm event_fd }

    fn arm(&mut self, descriptor: bool) -> Armed {
        if self.below.arm(descriptor) == Armed::Busy {
            return Armed::Busy;
        }
        if self.has_completions() {
            self.below.disarm();
            return Armed::Busy;
        }
        Armed::Ready
    }
}

impl SignalSafe for Carrier {
    forward! { [this => this.below] can_post_signal_safe }

    // The card reads without either.
    lacks! { prepare unprepare rkey_unpack_signal_safe get_prepared lend_signal_safe }

    fn progress_signal_safe(&mut self, sink: &mut dyn SignalSink, budget: u32) -> u32 {
        let reported = self.complete(budget, |token, result| sink.offer_completion(token, result));
        reported + self.below.progress_signal_safe(sink, budget - reported)
    }
}
