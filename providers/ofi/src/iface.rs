//! The interface: what it owns, how it is opened and closed, whom it accepts.

use std::collections::{HashMap, VecDeque};
use std::mem::ManuallyDrop;
use std::time::Instant;

use bowline_uct::runtime::{EpTable, EventQueue, KeyTable, WritableList};
use bowline_uct::{
    AtomicOps, Caps, EpId, IfaceAttr, Limits, OpLimits, OpenError, Secret, Unreachable,
};

use crate::addr::{Address, Home, new_instance, stays_here};
use crate::buffers::Buffers;
use crate::info::{Offers, Traits};
use crate::link_check::LinkChecks;
use crate::liveness::{ASK_FIRST, Liveness, Presence, Watch};
use crate::md::{Memories, Opened};
use crate::net::{MAX_PIECES, Net, Remote};
use crate::options::{Atomics, OfiOptions};
use crate::peer::{Health, Ops, Peer, Refusals};
use crate::remains::Remains;
use crate::wait_set::WaitSet;
use crate::wire::{ACTIVE, ATOMIC, GREETING};

/// Most peers of an interface; `shm` of libfabric has space for fewer.
const MAX_PEERS: u32 = 1 << 16;
const MAX_PEERS_SHM: u32 = 255;
/// Longest one-sided operation: longer ones are cut by the layers above.
const LONGEST: usize = 1 << 30;

bowline_base::counters! {
    /// What an interface of the libfabric transport counts.
    pub struct OfiCounters {
        /// Active messages sent by copy in the call.
        am_short,
        /// Active messages packed by the caller.
        am_bcopy,
        /// Active messages sent from where they lie.
        am_zcopy,
        /// Arrivals handed to the sink.
        received,
        /// Operations refused for want of credit, of a buffer or of a place.
        refused,
        /// Operations that libfabric did not take at once and that went out later.
        delayed,
        /// Messages that had nothing but the number taken in them.
        credits,
        /// Endpoints reported as writable.
        writable,
        /// Puts of all flavours.
        puts,
        /// Gets.
        gets,
        /// Atomic operations.
        atomics,
        /// Atomic operations of peers that were refused: no such memory, or no such word in it.
        refused_accesses,
        /// Messages from nobody that is known, or damaged ones.
        unknown_senders,
        /// Peers that failed or closed.
        failures,
    }
}

/// A packed put that libfabric did not take at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LatePut {
    pub(crate) index: u32,
    pub(crate) buffer: u32,
    pub(crate) len: usize,
    pub(crate) remote: Remote,
    pub(crate) epoch: u32,
}

/// An interface over one libfabric endpoint.
#[derive(Debug)]
pub struct OfiIface {
    pub(crate) attr: IfaceAttr,
    far: bool,
    pid: u32,
    pub(crate) home: Home,
    pub(crate) address: Address,
    pub(crate) packed: Vec<u8>,
    pub(crate) secret: Secret,
    pub(crate) refusals: Refusals,
    presence: Presence,
    pub(crate) native_atomics: bool,
    pub(crate) most_operations: usize,
    /// Peers by number; never used again, so that a late message finds nobody else.
    pub(crate) peers: Vec<Peer>,
    pub(crate) by_instance: HashMap<u64, u32>,
    /// The peers of endpoints.
    pub(crate) endpoints: EpTable<u32>,
    pub(crate) waiters: WritableList,
    pub(crate) ops: Ops,
    pub(crate) events: EventQueue,
    /// Completions that were read while arming: context and length.
    pub(crate) stash: VecDeque<(usize, usize)>,
    /// Peers with something to hand over; each at most once.
    pub(crate) busy: VecDeque<u32>,
    pub(crate) late_puts: VecDeque<LatePut>,
    pub(crate) failing: Vec<u32>,
    /// The connections of a lost peer could not be examined, for want of descriptors.
    pub(crate) cut_failed: bool,
    /// Endpoints that were made to fail, which is reported when the operations under way are answered.
    pub(crate) invalid: Vec<EpId>,
    /// Fences so far.
    pub(crate) fences: u32,
    /// Messages after which a peer gets the number taken, if nothing else is sent to it.
    pub(crate) report_after: u32,
    /// Receive buffers that are not posted.
    pub(crate) idle_rx: Vec<u32>,
    /// Receive buffers that libfabric has.
    pub(crate) posted: usize,
    /// By the index of the peer.
    pub(crate) rkeys: KeyTable<u32, Opened>,
    pub(crate) watch: Watch,
    /// Peers whose processes are to be watched as soon as there are descriptors for that.
    pub(crate) unwatched: Vec<u32>,
    /// Greetings, with their stamps, of peers for whom there was no descriptor.
    pub(crate) greetings: Vec<(Vec<u8>, u32)>,
    /// Peers in this process.
    pub(crate) here: Vec<u32>,
    /// Those that are asked now and then whether they are still there.
    pub(crate) asked_peers: u32,
    pub(crate) link_checks: LinkChecks,
    pub(crate) link_check_next: Instant,
    pub(crate) lost_after: std::time::Duration,
    pub(crate) ask_next: Instant,
    pub(crate) ask_every: std::time::Duration,
    pub(crate) polls: u32,
    pub(crate) counters: OfiCounters,
    /// Before `net`, whose queue's descriptor it watches.
    pub(crate) wait_set: Option<WaitSet>,
    // Taken out by `drop`, together.
    pub(crate) memories: ManuallyDrop<Memories>,
    pub(crate) rx: ManuallyDrop<Buffers>,
    pub(crate) tx: ManuallyDrop<Buffers>,
    pub(crate) net: ManuallyDrop<Net>,
}

// SAFETY: the only parts that are not `Send` by themselves are the pieces of waiting messages, which
// point into the user's memory, whose handles are `Send`.
unsafe impl Send for OfiIface {}

impl OfiIface {
    /// Opens an interface.
    ///
    /// # Errors
    /// When libfabric has no provider as `options` want it, when the provider lacks what this
    /// transport needs, or when a resource runs out.
    pub fn open(options: OfiOptions) -> Result<Self, OpenError> {
        let offer = Offers::choose(&options)?;
        let mut net = Net::open(&offer, options.wakeup)?;
        let traits = net.traits.clone();
        if traits.inject < ATOMIC || !traits.ordered {
            return Err(OpenError::Limit(format!(
                "the libfabric provider {} sends {} bytes at once and {} order; {ATOMIC} bytes in \
                 order are needed",
                traits.provider,
                traits.inject,
                if traits.ordered { "in" } else { "out of" }
            )));
        }
        // Through memory it is the target's progress in any case, and libfabric takes answers in the
        // order of the questions: one that a dead peer owes holds back those of all others.
        let wanted = match options.atomics {
            Atomics::Auto => !traits.shares_memory,
            Atomics::Native => true,
            Atomics::Emulated => false,
        };
        let native_atomics = wanted && net.has_all_atomics();
        if options.atomics == Atomics::Native && !native_atomics {
            return Err(OpenError::Limit(format!(
                "the libfabric provider {} lacks atomic operations; set BOWLINE_OFI_ATOMICS to \
                 auto or emulated",
                traits.provider
            )));
        }
        let system = |act| move |source| OpenError::System { act, source };
        let home = Home::current().map_err(system("name this process"))?;
        let name = net.name()?;
        let address = Address {
            home,
            instance: new_instance(&home),
            window: options.window,
            format: traits.address_format,
            within_host: stays_here(&traits.provider, traits.address_format, &name),
            provider: traits.provider.clone(),
            name,
        };
        let packed = address.pack();
        if GREETING + packed.len() > options.buffer_bytes {
            return Err(OpenError::Limit(
                "a buffer does not hold an address; raise BOWLINE_OFI_BUFFER_BYTES".into(),
            ));
        }
        let rx = Buffers::new(&mut net, options.rx_buffers, options.buffer_bytes)?;
        let tx = Buffers::new(&mut net, options.tx_buffers, options.buffer_bytes)?;
        let watch = Watch::new().map_err(system("make a descriptor for peers' processes"))?;
        let wait_set = WaitSet::open(&net, watch.fd())?;
        let attr = attr(&traits, &options, &address, native_atomics, wait_set.is_some(), &rx);
        let mut iface = Self {
            attr,
            far: options.far,
            pid: std::process::id(),
            home,
            presence: Presence::new(address.instance),
            packed,
            secret: options.secret.clone(),
            refusals: Refusals::default(),
            native_atomics,
            most_operations: options.operations.min(traits.tx_size.max(8) as u32) as usize
                + options.tx_buffers as usize,
            peers: Vec::new(),
            by_instance: HashMap::new(),
            endpoints: EpTable::default(),
            waiters: WritableList::default(),
            ops: Ops::default(),
            events: EventQueue::with_capacity(64),
            stash: VecDeque::new(),
            busy: VecDeque::new(),
            late_puts: VecDeque::new(),
            failing: Vec::new(),
            cut_failed: false,
            invalid: Vec::new(),
            fences: 0,
            report_after: (options.window / 2).max(1),
            posted: 0,
            idle_rx: (0..options.rx_buffers).rev().collect(),
            rkeys: KeyTable::default(),
            watch,
            unwatched: Vec::new(),
            greetings: Vec::new(),
            here: Vec::new(),
            asked_peers: 0,
            link_checks: LinkChecks::default(),
            link_check_next: Instant::now(),
            lost_after: options.lost_after,
            ask_next: Instant::now() + ASK_FIRST,
            ask_every: ASK_FIRST,
            polls: 0,
            counters: OfiCounters::default(),
            wait_set,
            memories: ManuallyDrop::new(Memories::new(address.instance, traits.virtual_addresses)),
            address,
            rx: ManuallyDrop::new(rx),
            tx: ManuallyDrop::new(tx),
            net: ManuallyDrop::new(net),
        };
        iface.repost(true);
        Ok(iface)
    }

    /// What was counted.
    pub const fn counters(&self) -> &OfiCounters {
        &self.counters
    }

    /// Whether every endpoint has been greeted by its peer, so that messages leave at once.
    pub fn is_settled(&self) -> bool {
        self.endpoints.iter_open().all(|(_, &peer)| {
            let peer = &self.peers[peer as usize];
            peer.is_open() && peer.greeted
        })
    }

    /// Closes the interface as a crash would: nobody is notified, except that peers in this process
    /// find it gone. For tests.
    #[doc(hidden)]
    pub fn crash(mut self) {
        self.presence.crash();
        // A forked child must not send a Close in its parent's name; neither must this one.
        self.pid = 0;
    }

    /// Whether a peer with this address can be talked to.
    pub(crate) fn accepts(&self, other: &Address) -> Result<(), Unreachable> {
        let own = &self.address;
        if other.provider != own.provider || other.format != own.format {
            return Err(Unreachable::because(format!(
                "it uses the libfabric provider {} and this interface {}; set \
                 BOWLINE_OFI_PROVIDER alike",
                other.provider, own.provider
            )));
        }
        // What goes through memory asks for one host, a loopback address for one network.
        let near = match self.net.traits.shares_memory {
            true => own.home.host == other.home.host,
            false => own.home.inside(&other.home),
        };
        if (own.within_host || other.within_host) && !near {
            return Err(Unreachable::because(format!(
                "the libfabric address of one of the two leads only to its own host ({})",
                own.provider
            )));
        }
        if !self.net.is_name(&other.name, &own.name) {
            return Err(Unreachable::because("the libfabric name in the address is malformed"));
        }
        Ok(())
    }

    /// How it is known whether the peer with `address` lives, and whether it is asked for it now and
    /// then.
    pub(crate) fn watch_liveness(
        &mut self,
        address: &Address,
    ) -> Result<(Liveness, bool), OpenError> {
        let liveness = if self.far {
            Liveness::Far
        } else {
            Liveness::watch(&self.home, &address.home, address.instance)
                .map_err(OpenError::PeerFailed)?
        };
        let asked = matches!(liveness, Liveness::Far) || !self.home.inside(&address.home);
        Ok((liveness, asked))
    }

    pub(crate) fn connect(&mut self, address: &[u8]) -> Result<EpId, OpenError> {
        let address =
            Address::unpack(address).map_err(|error| OpenError::BadAddress(error.to_string()))?;
        self.accepts(&address)?;
        let index = self.acquaint(&address)?;
        let peer = &mut self.peers[index as usize];
        if let Health::Failing { how, .. } | Health::Failed(how) = peer.health {
            return Err(OpenError::of_failed_peer(how));
        }
        // A failed endpoint keeps its number until it is closed; this one gets another.
        if let Some(ep) = peer.ep
            && self.endpoints.open(ep).is_ok()
        {
            return Ok(ep);
        }
        if !peer.greeted {
            peer.greeting_due = true;
        }
        let ep = self.endpoints.insert(index);
        self.peers[index as usize].ep = Some(ep);
        self.make_busy(index);
        self.hand_over_all();
        Ok(ep)
    }
}

fn attr(
    traits: &Traits,
    options: &OfiOptions,
    address: &Address,
    native_atomics: bool,
    wakeup: bool,
    rx: &Buffers,
) -> IfaceAttr {
    let mut caps = Caps::MESSAGES
        | Caps::PUTS
        | Caps::GET_ZCOPY
        | Caps::RMA_REGISTERED
        | Caps::EXPOSE
        | Caps::LEND;
    let packed = options.buffer_bytes - ACTIVE;
    let pieces = traits.iov.min(MAX_PIECES);
    let lent = pieces - 1;
    caps.set(Caps::AM_ZCOPY, lent > 0);
    caps.set(Caps::ATOMIC_DEVICE, native_atomics);
    caps.set(Caps::ATOMIC_CPU, !native_atomics);
    caps.set(Caps::EVENT_FD, wakeup);
    // By messages, which the target serves: so does libfabric with puts, and one comes after them.
    caps.set(Caps::RMA_WAKES, wakeup && !native_atomics);
    caps.set(Caps::INTER_NODE, !address.within_host);
    // Elsewhere a peer on another host may die without anybody hearing of it.
    let connected = |layer: &str| ["shm", "sm2", "tcp", "net"].contains(&layer);
    let noticed = traits.provider.split(';').any(connected);
    caps.set(Caps::PEER_FAILURE | Caps::EP_CHECK, noticed);
    let longest = traits.longest.min(LONGEST);
    let one_sided = OpLimits {
        max_short: options.buffer_bytes,
        max_bcopy: options.buffer_bytes,
        min_zcopy: 0,
        max_zcopy: longest,
        max_iov: pieces,
        opt_align: 1,
    };
    IfaceAttr {
        provider: "ofi",
        device: format!("{}/{}", traits.provider, traits.domain),
        caps,
        limits: Limits {
            am: OpLimits {
                max_short: (traits.inject - ACTIVE).min(packed),
                max_bcopy: packed,
                min_zcopy: 0,
                max_zcopy: if lent > 0 { packed } else { 0 },
                max_iov: lent,
                opt_align: 1,
            },
            put: one_sided,
            get: OpLimits { max_short: 0, max_bcopy: 0, ..one_sided },
        },
        atomics: AtomicOps::all(),
        max_endpoints: if traits.provider.contains("shm") { MAX_PEERS_SHM } else { MAX_PEERS },
        receive_bytes: rx.bytes(),
    }
}

impl Drop for OfiIface {
    fn drop(&mut self) {
        if std::process::id() == self.pid {
            self.announce_close();
            self.drain();
        }
        // The watch over the queue's descriptor goes before the queue.
        self.wait_set = None;
        // SAFETY: `drop` runs once, and nobody uses the four after it.
        let remains = unsafe {
            Remains {
                memories: ManuallyDrop::take(&mut self.memories),
                rx: ManuallyDrop::take(&mut self.rx),
                tx: ManuallyDrop::take(&mut self.tx),
                net: ManuallyDrop::take(&mut self.net),
            }
        };
        if remains.net.traits.shares_memory {
            self.presence.leave(remains);
        }
    }
}
