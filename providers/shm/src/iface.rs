//! The interface: one rank's shared memory transport.
//!
//! This file holds the structure, its opening and closing. What the contract asks of it stands in
//! [`crate::contract`], which names the files that do the work.

use std::collections::VecDeque;
use std::os::fd::AsRawFd;

use bowline_base::doorbell::Doorbell;
use bowline_base::job::{JobError, JobMemory, RankState};
use bowline_base::sync::atomic::{AtomicU32, Ordering, fence};
use bowline_base::{ring, scmp};
use bowline_uct::runtime::{KeyTable, WritableList};
use bowline_uct::{
    AtomicOps, Caps, EpId, IfaceAttr, Limits, OpLimits, OpenError, PeerFailure, RkeyId, Token,
};

use crate::addr::{Address, NO_FD, Process};
use crate::area::Area;
use crate::cma::BounceBuffer;
use crate::endpoint::{Endpoint, Membership, SharedWord};
use crate::foreign::Foreign;
use crate::layout::{Parameters, guest, state};
use crate::md::Memories;
use crate::message::MAX_SHORT;
use crate::options::ShmOptions;
use crate::receive::Receiver;
use crate::rkey::{Access, Mappings};
use crate::source::{FailureReport, Guest, LostSource, Presence};
use crate::watch::Watch;

bowline_base::counters! {
    /// What a shared memory interface counts.
    pub struct ShmCounters {
        /// Active messages sent by a ring.
        am_ring,
        /// Active messages sent by a peer's shared queue.
        am_queue,
        /// Posts refused because a queue was full.
        refused,
        /// Rings of peers that this rank came to own.
        rings_taken,
        /// Rings of peers that were given back to their receivers.
        rings_left,
        /// Own rings that were asked back from their owners for hotter senders.
        rings_evicted,
        /// Transfers by cross memory attach.
        cma_transfers,
        /// Bytes moved by cross memory attach.
        cma_bytes,
        /// Bytes copied between thread ranks from or to memory that was lent.
        here_bytes,
        /// Transfers that the kernel refused; later ones to the same peer are not tried.
        cma_refused,
        /// Peers found dead, closed or damaged.
        peers_lost,
        /// Peers rung out of their sleep because they waited for space.
        space_rings,
    }
}

/// The shared memory transport of one rank. See the crate's text for how to open one.
///
/// Fields that are made of shared memory come before `area`, which keeps the mapping.
#[derive(Debug)]
pub struct ShmIface {
    pub(crate) eps: Vec<Endpoint>,
    pub(crate) receiver: Receiver,
    /// Something rare is to be done by the next `progress`.
    pub(crate) todo: bool,
    /// A peer may want its ring back.
    pub(crate) rings_asked: bool,
    /// The next `progress` polls the queue before the rings.
    pub(crate) queue_first: bool,
    pub(crate) seen_attention: u32,
    pub(crate) seen_deaths: u32,
    /// Calls of `progress`.
    pub(crate) polls: u32,
    pub(crate) counters: ShmCounters,
    pub(crate) options: ShmOptions,
    /// Where packed messages lie that go through slots, and reads that are handed to `unpack`.
    pub(crate) staging: Box<[u8]>,
    /// For copies by the kernel between aliased addresses.
    pub(crate) bounce: BounceBuffer,
    /// Completions for the next `progress`.
    pub(crate) deferred: VecDeque<(Token, Result<u64, PeerFailure>)>,
    pub(crate) wants: WritableList,
    pub(crate) failures: VecDeque<FailureReport>,
    /// Peers that are gone, whose last messages are being read.
    pub(crate) lost: Vec<LostSource>,
    /// What is known of each source, by number.
    pub(crate) gone: Vec<Presence>,
    /// The serial of the newest endpoint.
    pub(crate) serial: u64,
    /// Some endpoint may be over.
    pub(crate) over: bool,
    /// Some guest's process is not watched for want of descriptors.
    pub(crate) unwatched: bool,
    pub(crate) guests: Vec<Option<Guest>>,
    pub(crate) watch: Watch,
    /// Node memories of others.
    pub(crate) nodes: Vec<Foreign>,
    pub(crate) memories: Memories,
    /// Opened keys, by the serial of the endpoint. What a key opens is checked where its memory is reached.
    pub(crate) rkeys: KeyTable<u64, Access>,
    pub(crate) process_rkeys: Vec<Option<RkeyId>>,
    pub(crate) mappings: Mappings,
    /// Whether this rank waits for space in a peer's queue while it sleeps.
    pub(crate) waits_for_space: bool,
    /// The event descriptor could not be made when it was last asked for.
    pub(crate) polls_for_fd: bool,
    pub(crate) attr: IfaceAttr,
    pub(crate) bell: Doorbell,
    /// Into our own area and control block: words that every `progress` reads.
    pub(crate) attention: SharedWord<AtomicU32>,
    pub(crate) space_wanted: SharedWord<AtomicU32>,
    pub(crate) me: Address,
    /// Read by peers through the kernel; see `addr`.
    _probe: Box<u64>,
    /// Whether `open` attached the rank to its job, so that closing finalises it.
    attached: bool,
    pub(crate) area: Area,
}

impl ShmIface {
    /// Opens the interface of local rank `local` of `job`. Attaches the rank to its job, unless
    /// this process has done so before.
    ///
    /// # Errors
    /// When there is no such rank, its area is too small for `options` or was used before, or
    /// the process cannot be identified.
    pub fn open(job: JobMemory, local: u32, options: ShmOptions) -> Result<Self, OpenError> {
        let parameters = Parameters::of_options(&options);
        let process = Process::current()
            .map_err(|source| OpenError::System { act: "identify this process", source })?;
        let sources = job.ranks() + parameters.guests;
        if sources > u32::from(u16::MAX) {
            return Err(OpenError::Limit(format!(
                "{} ranks and BOWLINE_SHM_GUESTS={} exceed the 65535 senders that a queue distinguishes; \
                 lower the number of guests",
                job.ranks(),
                parameters.guests
            )));
        }
        let identity = job.control(local).and_then(|control| control.identity());
        let (instance, attached) = match identity {
            Some(known) if known.pid == process.pid && known.state == RankState::Attached => {
                (known.instance, false)
            }
            _ => (job.attach(local).map_err(attach_error)?, true),
        };
        let area = Area::create(&job, local, parameters)?;
        let queue = scmp::seq::init(area.scmp_words(), parameters.scmp_slots, local as u16)
            .map_err(|e| OpenError::Limit(e.to_string()))?;
        let rings = (0..parameters.rings)
            .filter_map(|number| Some((number, area.ring_words(number)?)))
            .map(|(number, words)| ring::init(words, parameters.shape(number)))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| OpenError::Limit(e.to_string()))?;
        let longest = scmp::max_message_bytes(parameters.scmp_slots);
        let bell = Doorbell::of_job(&job, local)
            .ok_or_else(|| OpenError::Limit(format!("there is no local rank {local}")))?;
        let probe = Box::new(instance ^ job.node_id().rotate_left(32));
        let me = Address {
            process,
            instance,
            node: job.node_id(),
            fd: job.region().fd().map_or(NO_FD, |fd| fd.as_raw_fd() as u32),
            local,
            probe_at: (&raw const *probe) as u64,
            probe_word: *probe,
        };
        let control = job
            .control(local)
            .ok_or_else(|| OpenError::Limit(format!("there is no local rank {local}")))?;
        // SAFETY: both words lie in the node memory, which the interface's `area` keeps mapped.
        let (attention, space_wanted) = unsafe {
            (SharedWord::new(&area.attention().word), SharedWord::new(&*control.space_wanted))
        };
        let attr = attributes(&options, &parameters, &area, me.fd == NO_FD);
        // What died before now is reported by the first `progress`.
        let seen_deaths = job.death_generation().wrapping_sub(1);
        let iface = Self {
            eps: Vec::new(),
            receiver: Receiver::new(queue, rings, sources, longest),
            todo: false,
            rings_asked: false,
            queue_first: false,
            seen_attention: 0,
            seen_deaths,
            polls: 0,
            counters: ShmCounters::default(),
            // The longest packed message, and the slack of its last slot.
            staging: vec![0; parameters.max_bcopy as usize + 2 * scmp::MORE_BYTES].into(),
            bounce: BounceBuffer::new(),
            options,
            deferred: VecDeque::with_capacity(16),
            wants: WritableList::default(),
            failures: VecDeque::new(),
            lost: Vec::new(),
            gone: vec![Presence::There; sources as usize],
            serial: 0,
            over: false,
            unwatched: false,
            guests: (0..parameters.guests).map(|_| None).collect(),
            watch: Watch::default(),
            nodes: Vec::new(),
            memories: Memories::new(instance, me.fd == NO_FD),
            rkeys: KeyTable::default(),
            process_rkeys: Vec::new(),
            mappings: Mappings::default(),
            waits_for_space: false,
            polls_for_fd: false,
            attr,
            bell,
            attention,
            space_wanted,
            me,
            _probe: probe,
            attached,
            area,
        };
        iface.area.open();
        Ok(iface)
    }

    /// What the interface has counted since it was opened.
    pub fn counters(&self) -> &ShmCounters {
        &self.counters
    }

    /// Whether large messages to the peer of `ep` can be moved by the kernel; `None` for an
    /// unknown endpoint.
    pub fn has_cma(&self, ep: EpId) -> Option<bool> {
        self.eps.get(ep.0 as usize).map(|e| e.cma != crate::endpoint::Cma::Refused)
    }

    /// The next `progress` has something rare to do.
    #[inline]
    pub(crate) fn due(&mut self) {
        self.todo = true;
    }

    /// Ranks of this node memory; sources from here on are guests.
    #[inline]
    pub(crate) fn ranks(&self) -> u32 {
        self.area.job().ranks()
    }
}

fn attach_error(error: JobError) -> OpenError {
    match error {
        JobError::System { act, source } => OpenError::System { act, source },
        other => OpenError::Limit(other.to_string()),
    }
}

fn attributes(
    options: &ShmOptions,
    parameters: &Parameters,
    area: &Area,
    private: bool,
) -> IfaceAttr {
    let mut caps = Caps::MESSAGES
        | Caps::PUTS
        | Caps::GET_BCOPY
        | Caps::GET_ZCOPY
        | Caps::ATOMIC_CPU
        | Caps::PUT_BEFORE_ATOMIC
        | Caps::PUT_BEFORE_AM
        | Caps::PUT_NOTIFY
        | Caps::PEER_FAILURE
        | Caps::EP_CHECK
        | Caps::WAKEUP
        | Caps::EVENT_FD
        | Caps::RKEY_PTR
        | Caps::SIGNAL_SAFE;
    if options.cma != Some(false) {
        caps |= Caps::RMA_REGISTERED;
        caps.set(Caps::LENT_ONLY, private);
    }
    let max_bcopy = parameters.max_bcopy as usize;
    let one_sided = OpLimits {
        max_short: max_bcopy,
        max_bcopy,
        min_zcopy: 0,
        max_zcopy: isize::MAX as usize,
        max_iov: 1024,
        opt_align: 64,
    };
    IfaceAttr {
        provider: "shm",
        device: "memory".to_owned(),
        caps,
        limits: Limits {
            am: OpLimits { max_short: MAX_SHORT, max_bcopy, ..OpLimits::default() },
            put: one_sided,
            get: OpLimits { max_short: 0, ..one_sided },
        },
        atomics: AtomicOps::all(),
        max_endpoints: u32::MAX,
        receive_bytes: area.receive_bytes(),
    }
}

impl Drop for ShmIface {
    fn drop(&mut self) {
        // A forked child has this value but not the mapping.
        if std::process::id() != self.me.process.pid {
            return;
        }
        // Guests leave first: a host that saw the interface closed before that could give the entry, which it
        // takes for free when it has read everything, to another guest, who would seem to leave then.
        for e in &self.eps {
            if let Membership::Guest(entry) = e.membership
                && let Some(entry) = e.area.guest(entry)
            {
                // Release pairs with the Acquire in `check_guests`: our last messages.
                entry.state.store(guest::LEFT, Ordering::Release);
            }
        }
        // Release pairs with the Acquire of the reader: all that we sent is before it.
        self.area.header().state.store(state::CLOSED, Ordering::Release);
        let job = self.area.job().clone();
        job.mark_left(self.me.local);
        // SeqCst: pairs with the fence in `connect_to`, rule 1 of `Senders`.
        fence(Ordering::SeqCst);
        for e in &self.eps {
            match e.membership {
                Membership::Guest(_) => {
                    e.area.bump_attention();
                    e.bell.ring();
                }
                Membership::Member => e.bell.ring(),
            }
        }
        // Ranks that this one never spoke to wait for nothing of it; they see that it has left when
        // they next poll.
        for local in self.area.known().below(job.ranks()) {
            if let Some(bell) = Doorbell::of_job(&job, local) {
                bell.ring();
            }
        }
        for guest in self.guests.iter().flatten() {
            guest.call();
        }
        if self.attached {
            job.finalize(self.me.local);
        }
    }
}
