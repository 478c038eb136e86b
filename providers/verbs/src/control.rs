//! Connections are agreed on by a thread of its own, which sleeps unless a datagram arrives or
//! something is due. So a peer that computes is connected to without its help, and one that does
//! not answer is gone rather than busy.
//!
//! ```text
//!   interface (its thread)                    this thread                      peer's thread
//!   Command ── channel, eventfd ──► Table ── datagram queue pair ── network ── ..
//!   Event ◄── channel, flag, eventfd ─┘
//! ```
//!
//! The decisions are in [`table`], what travels in [`wire`]. No message of the user goes through it.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bowline_base::sync::atomic::{AtomicBool, Ordering};
use bowline_uct::Secret;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::addr::Address;
use crate::device_context::DeviceContext;
use crate::options::{MAX_ENDPOINTS, VerbsMode, VerbsOptions};
use crate::sys::{Access, Ah, Bytes, Connection, Cq, Memory, PairSizes, Qp, Request, Wc, Work};
use table::{Pairs, PeerTable};
use wire::{Datagram, PairEnd};

pub mod table;
pub mod wire;

/// What the interface asks of the thread.
#[derive(Debug)]
pub(crate) enum Command {
    /// An endpoint to the peer was made.
    Watch(Address),
    /// The endpoint was closed.
    Forget(u64),
    /// A connection is wanted.
    Ask(Address),
    /// The connection of this pair is over.
    End { uid: u64, number: u32, in_order: bool },
    /// The interface is closed; `quiet`: as if its process had died.
    Stop { quiet: bool },
}

pub(crate) use table::TableEvent;

/// Words and descriptors that both sides use.
#[derive(Debug)]
struct Shared {
    /// There may be events. Set after an event was queued, cleared before the queue is read.
    pending: AtomicBool,
    /// The interface sleeps on its descriptor.
    asleep: AtomicBool,
    /// Wakes the interface.
    bell: OwnedFd,
    /// Wakes the thread.
    wake: OwnedFd,
}

impl Shared {
    /// Says that an event was queued.
    fn announce(&self) {
        // SeqCst: publishes the event, and pairs with the interface's store of `asleep` and load
        // of `pending`: one of the two sides sees the other's word.
        self.pending.store(true, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            ring(&self.bell);
        }
    }
}

/// The interface's side. `P` is a connection's pair: a queue pair, or the number that stands for
/// one between datagrams.
#[derive(Debug)]
pub(crate) struct Control<P> {
    shared: Arc<Shared>,
    commands: Sender<Command>,
    events: Receiver<TableEvent<P>>,
    thread: Option<JoinHandle<()>>,
}

/// Bytes in front of a received datagram: space for the global route header.
pub(crate) const GRH_BYTES: usize = 40;

/// How often, in each time-out, an interface checks whether its peers are still there: while it is
/// awake by itself, while it sleeps because the thread wakes it.
pub(crate) const POLLS: u32 = 4;

const RECEIVES: u32 = 64;
const SENDS: u32 = 32;
const SLOT: usize = 256;
const _: () = assert!(GRH_BYTES + wire::LONGEST + bowline_uct::MAC_BYTES <= SLOT);

impl<P: Send + 'static> Control<P> {
    /// Starts the thread, which makes pairs with `pairs` for peers that know the secret; returns the
    /// interface's address, too. `data` is the queue pair of the interface's datagrams. Where there are
    /// such, peers with a connection are asked whether they are there, as well.
    pub(crate) fn start(
        context: &Arc<DeviceContext>,
        options: &VerbsOptions,
        (mode, uid, data): (VerbsMode, u64, u32),
        longest: usize,
        pairs: impl Pairs<Pair = P> + Send + 'static,
    ) -> io::Result<(Self, Address)> {
        let timeout = options.peer_timeout;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let shared = Arc::new(Shared {
            pending: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            bell: eventfd(0, flags)?,
            wake: eventfd(0, flags)?,
        });
        let port = Port::open(context)?;
        let own = Address {
            mode,
            uid,
            gid: context.gid,
            lid: context.lid,
            ethernet: context.ethernet,
            mtu: context.mtu,
            pair: port.pair.number(),
            data,
            qkey: context.qkey,
            longest: longest as u32,
        };
        let (commands, incoming) = channel();
        let (outgoing, events) = channel();
        let worker = Worker {
            port,
            context: Arc::clone(context),
            table: PeerTable::new(own, timeout, MAX_ENDPOINTS, mode == VerbsMode::Ud),
            pairs,
            shared: Arc::clone(&shared),
            commands: incoming,
            events: outgoing,
            address_handles: HashMap::new(),
            secret: options.secret.clone(),
            unauthenticated: 0,
            timeout,
        };
        let thread = std::thread::Builder::new()
            .name("bowline-verbs".to_owned())
            .spawn(move || worker.run())?;
        Ok((Self { shared, commands, events, thread: Some(thread) }, own))
    }

    /// Gives the thread something to do.
    pub(crate) fn command(&self, command: Command) {
        // The thread ends only when asked to; after that nobody asks for anything.
        let _ = self.commands.send(command);
        ring(&self.shared.wake);
    }

    /// Whether there may be events.
    #[inline]
    pub(crate) fn pending(&self) -> bool {
        // Relaxed: the queue itself publishes the events; a poll that comes too early is repeated.
        self.shared.pending.load(Ordering::Relaxed)
    }

    /// The next event.
    pub(crate) fn event(&self) -> Option<TableEvent<P>> {
        if self.shared.pending.load(Ordering::Relaxed) {
            // AcqRel: pairs with the thread's Release after it has queued an event, so that an
            // event whose flag is cleared here is found below.
            self.shared.pending.swap(false, Ordering::AcqRel);
        }
        let event = self.events.try_recv().ok();
        if event.is_some() {
            // There may be more; only a poll of an empty queue leaves the flag cleared.
            self.shared.pending.store(true, Ordering::Relaxed);
        }
        event
    }

    /// Waits for the next event until `end`.
    pub(crate) fn wait(&self, end: Instant) -> Option<TableEvent<P>> {
        self.events.recv_timeout(end.saturating_duration_since(Instant::now())).ok()
    }

    /// The descriptor that becomes readable when the thread wants the interface awake.
    pub(crate) fn bell(&self) -> impl AsFd + '_ {
        &self.shared.bell
    }

    /// Says whether the interface sleeps. Before it does it must read `pending` again.
    pub(crate) fn sleeping(&self, asleep: bool) {
        if !asleep {
            drain(&self.shared.bell);
        }
        // SeqCst: pairs with the thread's exchange of `pending` and load of `asleep`: one of the
        // two sides sees the other's word.
        self.shared.asleep.store(asleep, Ordering::SeqCst);
    }

    /// Whether an event came while `sleeping` was said.
    pub(crate) fn pending_after_sleeping(&self) -> bool {
        // SeqCst: pairs with the thread's store, as for `sleeping`.
        self.shared.pending.load(Ordering::SeqCst)
    }

    /// Ends the thread.
    pub(crate) fn stop(&mut self, quiet: bool) {
        self.command(Command::Stop { quiet });
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that makes connections had panicked");
        }
    }
}

fn ring(fd: &OwnedFd) {
    // A counter that is full is readable, which is what is wanted.
    let _ = rustix::io::write(fd, &1_u64.to_ne_bytes());
}

fn drain(fd: &OwnedFd) {
    let mut count = [0; 8];
    // Nothing there is no error.
    let _ = rustix::io::read(fd, &mut count);
}

/// The datagram queue pair and its buffers.
#[derive(Debug)]
struct Port {
    pair: Qp,
    cq: Arc<Cq>,
    memory: Memory,
    /// Send buffers that are free.
    free: Vec<u32>,
}

impl Port {
    fn open(context: &DeviceContext) -> io::Result<Self> {
        let cq = Cq::new(context.pd.context(), RECEIVES + SENDS)?;
        let sizes = PairSizes { sends: SENDS, receives: RECEIVES, send_pieces: 1, inline_bytes: 0 };
        let pair = Qp::datagrams(&context.pd, &cq, sizes)?;
        let memory = Memory::new(&context.pd, (RECEIVES + SENDS) as usize * SLOT, Access::Local)?;
        pair.start_datagrams(context.port, context.qkey)?;
        let port = Self { pair, cq, memory, free: (RECEIVES..RECEIVES + SENDS).collect() };
        for slot in 0..RECEIVES {
            port.post(slot)?;
        }
        Ok(port)
    }

    fn post(&self, slot: u32) -> io::Result<()> {
        let piece = self.memory.piece(slot as usize * SLOT, SLOT);
        self.pair.post_receives(&[(u64::from(slot), piece)])
    }

    /// Sends; what finds no buffer is lost, as any datagram may be.
    fn send(&mut self, handle: &Ah, to: &Address, bytes: &[u8]) {
        let Some(slot) = self.free.pop() else { return };
        let offset = slot as usize * SLOT;
        let space = self.memory.view().slice(offset, SLOT).expect("a slot of the memory");
        space.copy_in(bytes);
        let piece = [self.memory.piece(offset, bytes.len())];
        let request = Request {
            id: u64::from(slot),
            work: Work::Datagram { to: handle, pair: to.pair, key: to.qkey },
            bytes: Bytes::Registered(&piece),
            signalled: true,
            fenced: false,
        };
        if let Err(error) = self.pair.post(&request) {
            tracing::debug!(%error, "a datagram was not sent");
            self.free.push(slot);
        }
    }
}

#[derive(Debug)]
pub(crate) struct ReliablePairs(pub(crate) Arc<DeviceContext>);

impl Pairs for ReliablePairs {
    type Pair = Qp;

    fn make(&mut self, _: &Address) -> io::Result<(Qp, PairEnd)> {
        let pair = self.0.make_pair()?;
        let end = PairEnd { pair: pair.number(), psn: self.0.random_psn() };
        Ok((pair, end))
    }

    fn connect(
        &mut self,
        pair: &mut Qp,
        ours: PairEnd,
        peer: &Address,
        theirs: PairEnd,
    ) -> io::Result<()> {
        pair.connect(&Connection {
            route: self.0.route_to(peer),
            pair: theirs.pair,
            their_psn: theirs.psn,
            our_psn: ours.psn,
            mtu: u32::from(self.0.mtu.min(peer.mtu)),
            timeout: self.0.timeout,
            reads: self.0.reads,
        })
    }
}

/// Says whose a pair is as soon as it is made: a message may come in the moment in which it is
/// connected, before this thread gets to report that.
struct Announced<'a, M: Pairs> {
    pairs: &'a mut M,
    events: &'a Sender<TableEvent<M::Pair>>,
    shared: &'a Shared,
}

impl<M: Pairs> Pairs for Announced<'_, M> {
    type Pair = M::Pair;

    fn make(&mut self, peer: &Address) -> io::Result<(M::Pair, PairEnd)> {
        let (pair, end) = self.pairs.make(peer)?;
        // An interface that is being closed hears nothing more.
        let _ = self.events.send(TableEvent::Made { peer: *peer, number: end.pair });
        self.shared.announce();
        Ok((pair, end))
    }

    fn connect(
        &mut self,
        pair: &mut M::Pair,
        ours: PairEnd,
        peer: &Address,
        theirs: PairEnd,
    ) -> io::Result<()> {
        self.pairs.connect(pair, ours, peer, theirs)
    }
}

struct Worker<M: Pairs> {
    port: Port,
    context: Arc<DeviceContext>,
    table: PeerTable<M::Pair>,
    pairs: M,
    shared: Arc<Shared>,
    commands: Receiver<Command>,
    events: Sender<TableEvent<M::Pair>>,
    /// Address handles of peers, by their uid.
    address_handles: HashMap<u64, Ah>,
    secret: Secret,
    /// Datagrams without the job's proof.
    unauthenticated: u64,
    timeout: Duration,
}

impl<M: Pairs> Worker<M> {
    fn run(mut self) {
        let begin = Instant::now();
        // From here on the table knows whether it is called late.
        self.table.tick(begin);
        let mut next_bell = begin + self.timeout / POLLS;
        loop {
            // Asked for before the queue is polled, so that nothing comes in between unseen.
            self.port.cq.request_event();
            self.receive();
            drain(&self.shared.wake);
            while let Ok(command) = self.commands.try_recv() {
                if let Command::Stop { quiet } = command {
                    if !quiet {
                        self.table.leave();
                        self.flush();
                    }
                    return;
                }
                self.obey(command);
            }
            let now = Instant::now();
            let next = self.table.tick(now);
            self.prune();
            self.report_events();
            self.flush();
            if now >= next_bell {
                next_bell = now + self.timeout / POLLS;
                // A sleeper checks its connections, too.
                // SeqCst: pairs with the store in `sleeping`, as a hint only; the interface's own loads are in order.
                if self.shared.asleep.load(Ordering::SeqCst) {
                    ring(&self.shared.bell);
                }
            }
            self.sleep(next.min(next_bell).saturating_duration_since(now));
        }
    }

    fn sleep(&self, time: Duration) {
        let time = time.max(Duration::from_millis(1));
        let timeout =
            Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        let completions = self.port.cq.fd();
        let mut fds = [
            PollFd::new(&completions, PollFlags::IN),
            PollFd::new(&self.shared.wake, PollFlags::IN),
        ];
        // An interrupted sleep is a short one.
        let _ = poll(&mut fds, Some(&timeout));
        self.port.cq.take_events();
    }

    fn obey(&mut self, command: Command) {
        let now = Instant::now();
        match command {
            Command::Watch(peer) => self.table.watch(&peer, now),
            Command::Forget(uid) => self.table.forget(uid),
            Command::Ask(peer) => {
                let Self { table, pairs, events, shared, .. } = self;
                table.ask(&peer, now, &mut Announced { pairs, events, shared });
            }
            Command::End { uid, number, in_order } => self.table.end(uid, number, in_order),
            Command::Stop { .. } => unreachable!("handled by the loop"),
        }
    }

    fn receive(&mut self) {
        let mut completions = [Wc::default(); 16];
        loop {
            let count = self.port.cq.poll(&mut completions);
            for completion in &completions[..count] {
                let slot = completion.wr_id as u32;
                if slot >= RECEIVES {
                    self.port.free.push(slot);
                    continue;
                }
                self.take(slot, completion);
                // Answers leave at once. Each call into the kernel may last long where it does the devices' work of
                // others, and a peer that waits for an answer takes this one for dead.
                self.flush();
                if let Err(error) = self.port.post(slot) {
                    tracing::error!(%error, "a buffer for connection datagrams is lost");
                }
            }
            if count < completions.len() {
                return;
            }
        }
    }

    fn take(&mut self, slot: u32, completion: &Wc) {
        let length = completion.byte_len as usize;
        if completion.status != crate::sys::ffi::WC_SUCCESS || length > SLOT {
            return;
        }
        let Some(length) = length.checked_sub(GRH_BYTES) else { return };
        let mut bytes = [0; SLOT];
        let view = self.port.memory.view().slice(slot as usize * SLOT + GRH_BYTES, length);
        let Some(view) = view else { return };
        view.copy_out(&mut bytes);
        let Some(datagram) = wire::unseal(&self.secret, &bytes[..length]) else {
            return self.drop_unauthenticated();
        };
        match Datagram::decode(datagram) {
            Ok(datagram) => {
                let Self { table, pairs, events, shared, .. } = self;
                let mut announced = Announced { pairs, events, shared };
                table.arrived(&datagram, Instant::now(), &mut announced);
            }
            Err(error) => tracing::debug!(%error, "a datagram of somebody else"),
        }
    }

    /// A datagram of somebody who does not know the secret. Nothing is kept of it and nothing answered.
    #[cold]
    fn drop_unauthenticated(&mut self) {
        if self.unauthenticated == 0 {
            tracing::warn!(
                "dropped a datagram that is not of this job: its sender does not know the job's \
                 secret; others are dropped without another line here"
            );
        }
        self.unauthenticated += 1;
    }

    /// Gives the address handles of forgotten peers back, when there are many of them: by then what was sent to those
    /// has left.
    fn prune(&mut self) {
        if self.address_handles.len() > 64 + 2 * self.table.len() {
            let table = &self.table;
            self.address_handles.retain(|&uid, _| table.knows(uid));
        }
    }

    /// Sends what the table wants sent.
    fn flush(&mut self) {
        for (to, datagram) in std::mem::take(&mut self.table.outgoing) {
            if !self.address_handles.contains_key(&to.uid) {
                match Ah::new(&self.context.pd, &self.context.route_to(&to)) {
                    Ok(handle) => drop(self.address_handles.insert(to.uid, handle)),
                    Err(error) => {
                        tracing::debug!(%error, "there is no way to a peer");
                        continue;
                    }
                }
            }
            let handle = &self.address_handles[&to.uid];
            self.port.send(handle, &to, &wire::seal(&self.secret, datagram.encode()));
        }
    }

    /// Reports the events of the table to the interface.
    fn report_events(&mut self) {
        if self.table.events.is_empty() {
            return;
        }
        for event in std::mem::take(&mut self.table.events) {
            // An interface that is being closed hears nothing more.
            let _ = self.events.send(event);
        }
        self.shared.announce();
    }
}
