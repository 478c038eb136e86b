//! The multicasts that are timed, and what their receivers do meanwhile.
//!
//! For each size: receivers clear their windows and say so; messages go to and fro between ranks 0 and 1; rank 0
//! multicasts, all widths in turn and that many times over, so that what disturbs a machine for a while disturbs all
//! widths; receivers compare their windows with what was put. While they wait they sleep, or serve puts where the
//! transport has none of its own.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use bowline::ucp::{
    Envelope, Ep, MatchSpec, Members, MemoryHandle, RemoteKey, RequestId, SendMode, Sent,
    SpaceOptions, Worker,
};
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::view::View;
use bowline_model::fit::{Multicast, PingPong, Samples};

use super::super::perf::site::Site;

/// The matching space of the messages beside the puts.
const SPACE: u32 = 0;

/// Their tags.
const READY: u64 = 1;
pub(super) const PING: u64 = 2;
const DONE: u64 = 3;
const CHECKED: u64 = 4;

/// Size above which a quarter of the repetitions is enough.
const SHORT: usize = 8 << 10;

/// What is measured. All ranks have the same.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Bytes of a message, in order.
    pub(super) sizes: Vec<usize>,
    /// Ranks, the root among them.
    pub(super) ranks: u32,
    /// Timed multicasts of each width.
    pub(super) reps: usize,
    /// Whether each put is flushed by itself.
    pub(super) blocking: bool,
}

impl Plan {
    /// Rounds that are not timed, and those that are.
    pub(super) fn rounds(&self, size: usize) -> (usize, usize) {
        let reps = if size > SHORT { self.reps.div_ceil(4) } else { self.reps };
        (reps.div_ceil(10), reps)
    }

    /// The longest message.
    fn longest(&self) -> usize {
        self.sizes.iter().copied().max().unwrap_or(0)
    }
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) samples: Samples,
    /// What the clock takes of the time of a multicast.
    pub(super) clock_ns: f64,
}

/// A rank with its worker, and its endpoints of others.
pub(super) struct Side {
    pub(super) worker: Worker,
    rank: u32,
    eps: Vec<Option<Ep>>,
    window: MemoryHandle,
}

/// All ranks are members by their numbers, so that a receive from one that has gone fails.
#[derive(Debug)]
struct Everybody;

impl Members for Everybody {
    fn rank_of(&self, world_rank: u32) -> Option<u32> {
        Some(world_rank)
    }
}

impl Side {
    /// A rank that can be put to.
    pub(super) fn new(worker: Worker, rank: u32, plan: &Plan) -> Result<Self> {
        let members: Option<Arc<dyn Members>> = Some(Arc::new(Everybody));
        worker.open_space(SPACE, SpaceOptions { members, ..SpaceOptions::default() })?;
        let window = worker.mem_alloc(plan.longest())?;
        Ok(Self { worker, rank, eps: Vec::new(), window })
    }

    /// Where its window begins, and the key of it.
    pub(super) fn published(&self) -> Result<Vec<u8>> {
        let start = self.worker.mem_view(self.window, |view| view.as_ptr().addr() as u64)?;
        let mut published = start.to_le_bytes().to_vec();
        published.extend(self.worker.rkey_pack(self.window)?);
        Ok(published)
    }

    /// Makes the endpoints of the root to all others, or of another one to the root.
    pub(super) fn connect(&mut self, addresses: &[Vec<u8>]) -> Result<()> {
        for (rank, address) in (0..).zip(addresses) {
            let wanted = rank != self.rank && (rank == 0 || self.rank == 0);
            let ep = wanted.then(|| self.worker.connect(address)).transpose()?;
            self.eps.push(ep);
        }
        Ok(())
    }

    fn ep(&self, rank: u32) -> Result<Ep> {
        self.eps
            .get(rank as usize)
            .copied()
            .flatten()
            .with_context(|| format!("no endpoint of rank {rank}"))
    }

    /// Starts to send bytes that stay as they are.
    pub(super) fn begin_send(&self, rank: u32, tag: u64, bytes: &'static [u8]) -> Result<Sent> {
        let envelope = Envelope { space: SPACE, source: self.rank, tag };
        Ok(self.worker.send(self.ep(rank)?, envelope, lent(bytes), SendMode::Standard)?)
    }

    /// Starts to receive into `buffer`.
    pub(super) fn begin_receive(&self, rank: u32, tag: u64, buffer: Vec<u8>) -> Result<RequestId> {
        let wanted = MatchSpec { space: SPACE, source: Some(rank), tag, tag_mask: u64::MAX };
        Ok(self.worker.recv(wanted, RecvBuf::owned(buffer))?)
    }

    /// What a receive that is complete has brought.
    pub(super) fn received(&self, id: RequestId) -> Result<Vec<u8>> {
        let Some((status, Some(buffer))) = self.worker.take_with_buffer(id) else {
            bail!("a request that owned its buffer came back without it");
        };
        status.outcome?;
        Ok(buffer)
    }

    /// Sends; returns when the bytes have left.
    fn send(&self, rank: u32, tag: u64, bytes: &'static [u8]) -> Result<()> {
        finish(&self.worker, self.begin_send(rank, tag, bytes)?)
    }

    /// Waits for a message into `buffer`, which it gives back.
    fn receive(&self, rank: u32, tag: u64, buffer: Vec<u8>) -> Result<Vec<u8>> {
        let id = self.begin_receive(rank, tag, buffer)?;
        self.worker.wait_until(|| self.worker.is_complete(id));
        self.received(id)
    }

    /// Clears as many bytes of the window as the next size has.
    pub(super) fn clear(&self, size: usize) -> Result<()> {
        let zeros = vec![0; size];
        let buffer = self
            .worker
            .mem_view(self.window, |view| view.slice(0, size).map(|v| v.copy_in(&zeros)))?;
        buffer.map(drop).context("a window is shorter than it was made")
    }

    /// Compares the window with what was put.
    pub(super) fn check(&self, payload: &[u8]) -> Result<()> {
        let seen = self
            .worker
            .mem_view(self.window, |view| view.slice(0, payload.len()).map(View::to_vec))?;
        let seen = seen.context("a window is shorter than it was made")?;
        let wrong = seen.iter().zip(payload).position(|(seen, put)| seen != put);
        match wrong {
            None => Ok(()),
            Some(at) => bail!(
                "byte {at} of a multicast of {} bytes is damaged at rank {}",
                payload.len(),
                self.rank
            ),
        }
    }

    /// What a receiver does for one size.
    fn receive_size(&self, plan: &Plan, size: usize, payload: &'static [u8]) -> Result<()> {
        self.clear(size)?;
        self.send(0, READY, &[])?;
        if self.rank == 1 {
            let (warmup, reps) = plan.rounds(size);
            let mut buffer = vec![0; size];
            for _ in 0..warmup + reps {
                buffer = self.receive(0, PING, buffer)?;
                self.send(0, PING, payload)?;
            }
        }
        self.receive(0, DONE, Vec::new())?;
        self.check(payload)?;
        self.send(0, CHECKED, &[])
    }
}

fn finish(worker: &Worker, sent: Sent) -> Result<()> {
    match sent {
        Sent::Pending(id) => Ok(worker.wait(id).outcome.map(drop)?),
        _ => Ok(()),
    }
}

/// Bytes none of which is 0, to be sent and put for the rest of the process.
pub(super) fn payload(len: usize) -> &'static [u8] {
    Vec::leak((0..len).map(|i| (i * 31 + i / 251) as u8 | 1).collect())
}

/// A handle of such bytes.
fn lent(bytes: &'static [u8]) -> SendBuf {
    // SAFETY: they are lent for the rest of the process, and nobody may write what a shared reference of that life
    // refers to.
    unsafe { SendBuf::borrowed(bytes.as_ptr(), bytes.len()) }
}

/// Rank 0, which has the clock.
pub(super) struct Root<'a> {
    side: &'a Side,
    /// Keys and addresses of the receivers' windows, by rank from 1 on.
    targets: Vec<(RemoteKey, u64)>,
    blocking: bool,
    /// The time now, ns.
    clock: &'a dyn Fn() -> f64,
}

impl<'a> Root<'a> {
    /// Opens the windows of the others, by rank, the root's own among them.
    pub(super) fn open(
        side: &'a Side,
        published: &[Vec<u8>],
        plan: &Plan,
        clock: &'a dyn Fn() -> f64,
    ) -> Result<Self> {
        let mut targets = Vec::new();
        for (rank, published) in (0..).zip(published).skip(1) {
            let (start, key) = published
                .split_first_chunk()
                .with_context(|| format!("rank {rank} sent no key"))?;
            targets
                .push((side.worker.rkey_unpack(side.ep(rank)?, key)?, u64::from_le_bytes(*start)));
        }
        Ok(Self { side, targets, blocking: plan.blocking, clock })
    }

    /// One multicast: the time until all is handed over, and until all is complete.
    fn multicast(
        &self,
        width: usize,
        bytes: &'static [u8],
        open: &mut Vec<RequestId>,
    ) -> Result<(f64, f64)> {
        let worker = &self.side.worker;
        let start = (self.clock)();
        for &(key, remote) in &self.targets[..width] {
            if let Sent::Pending(id) = worker.put(key, remote, lent(bytes))? {
                open.push(id);
            }
            if self.blocking {
                wait_all(worker, open)?;
                worker.flush()?;
            }
        }
        let issued = (self.clock)();
        wait_all(worker, open)?;
        worker.flush()?;
        Ok((issued - start, (self.clock)() - start))
    }

    /// All multicasts of one size.
    pub(super) fn multicasts(&self, plan: &Plan, bytes: &'static [u8]) -> Result<Vec<Multicast>> {
        let (warmup, reps) = plan.rounds(bytes.len());
        let of_width = |width| Multicast {
            size: bytes.len() as u64,
            width,
            complete: Vec::with_capacity(reps),
            issued: Vec::with_capacity(reps),
        };
        let mut all: Vec<Multicast> = (1..plan.ranks).map(of_width).collect();
        let mut open = Vec::with_capacity(all.len());
        for round in 0..warmup + reps {
            for of_width in &mut all {
                let (issued, complete) =
                    self.multicast(of_width.width as usize, bytes, &mut open)?;
                if round >= warmup {
                    of_width.issued.push(issued);
                    of_width.complete.push(complete);
                }
            }
        }
        Ok(all)
    }

    /// Messages to and fro between the root and rank 1. `exchange` sends one, and waits for the answer into the buffer.
    pub(super) fn ping_pongs(
        &self,
        plan: &Plan,
        bytes: &'static [u8],
        mut exchange: impl FnMut(Vec<u8>) -> Result<Vec<u8>>,
    ) -> Result<PingPong> {
        let (warmup, reps) = plan.rounds(bytes.len());
        let (mut buffer, mut one_way) = (vec![0; bytes.len()], Vec::with_capacity(reps));
        for round in 0..warmup + reps {
            let start = (self.clock)();
            buffer = exchange(buffer)?;
            let time = (self.clock)() - start;
            if round >= warmup {
                one_way.push(time / 2.0);
            }
        }
        ensure!(buffer == bytes, "a message of {} bytes came back damaged", bytes.len());
        Ok(PingPong { size: bytes.len() as u64, one_way })
    }

    /// What the three readings of the clock take that a multicast has, from the first to the last; the least of some tries.
    pub(super) fn clock_ns(&self) -> f64 {
        let readings = |_| {
            let start = (self.clock)();
            let issued = std::hint::black_box((self.clock)());
            (issued - start).max((self.clock)() - start)
        };
        (0..1000).map(readings).fold(f64::INFINITY, f64::min)
    }

    /// What the root does for one size.
    fn measure_size(
        &self,
        plan: &Plan,
        payload: &'static [u8],
        samples: &mut Samples,
    ) -> Result<()> {
        for rank in 1..plan.ranks {
            self.side.receive(rank, READY, Vec::new())?;
        }
        samples.ping_pongs.push(self.ping_pongs(plan, payload, |buffer| {
            self.side.send(1, PING, payload)?;
            self.side.receive(1, PING, buffer)
        })?);
        samples.multicasts.extend(self.multicasts(plan, payload)?);
        for rank in 1..plan.ranks {
            self.side.send(rank, DONE, &[])?;
        }
        for rank in 1..plan.ranks {
            self.side.receive(rank, CHECKED, Vec::new())?;
        }
        Ok(())
    }
}

fn wait_all(worker: &Worker, open: &mut Vec<RequestId>) -> Result<()> {
    open.drain(..).try_for_each(|id| Ok(worker.wait(id).outcome.map(drop)?))
}

/// Takes part as a rank; the root has what came of it.
///
/// # Errors
/// When a transport does not open, a rank fails, or a payload is damaged.
pub(super) fn rank(mut site: Site, plan: &Plan) -> Result<Option<Measured>> {
    let mut side = Side::new(site.worker()?, site.rank(), plan)?;
    let addresses = site.swap(&side.worker.address())?;
    side.connect(&addresses)?;
    let published = site.swap(&side.published()?)?;
    let bytes = payload(plan.longest());
    let mut measured = None;
    if site.rank() == 0 {
        let begin = Instant::now();
        let clock = || begin.elapsed().as_nanos() as f64;
        let root = Root::open(&side, &published, plan, &clock)?;
        let mut samples = Samples::default();
        let clock_ns = root.clock_ns();
        for &size in &plan.sizes {
            root.measure_size(plan, &bytes[..size], &mut samples)?;
        }
        measured = Some(Measured { samples, clock_ns });
    } else {
        for &size in &plan.sizes {
            side.receive_size(plan, size, &bytes[..size])?;
        }
    }
    // Nobody leaves in order while another one still needs answers.
    site.publish(&[])?;
    side.worker.drain();
    Ok(measured)
}
