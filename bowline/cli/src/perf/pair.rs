//! Two ranks on the protocol engine, and what its tests share: worker, endpoint, blocking calls.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use anyhow::{Result, bail};
use bowline::ucp::{
    Envelope, Ep, MatchSpec, Members, OpStatus, RequestId, SendMode, Sent, SpaceOptions, Worker,
};
use bowline_base::buffer::{RecvBuf, SendBuf};

use super::figure::Figure;
use super::payload::Buffer;
use super::plan::Plan;
use super::site::Site;
use super::{Kind, Test, active, drive, onesided, posted, streams, tagged};

/// The matching space of the measurements.
const SPACE: u32 = 0;

/// Tags.
pub(crate) const DATA: u64 = 1;
pub(crate) const ANSWER: u64 = 2;
const MEETING: u64 = 3;

/// This rank's worker and its endpoint of the peer.
pub(crate) struct Pair {
    pub(crate) worker: Worker,
    pub(crate) ep: Ep,
    pub(crate) rank: u32,
    pub(crate) peer: u32,
    /// Whether polling gives the processor away.
    pub(crate) yields: bool,
    /// Buffers of measurements that have ended. Declared behind the worker, hence dropped after
    /// it: where a measurement failed, operations of the worker may still name them.
    retired: RefCell<Vec<Buffer>>,
}

/// A buffer that outlives the operations that were given its address, whether they completed or
/// not: it goes back to its pair, which frees it when all have completed or after the worker.
pub(crate) struct Lent<'a> {
    pair: &'a Pair,
    buffer: Buffer,
}

impl Deref for Lent<'_> {
    type Target = Buffer;

    #[inline]
    fn deref(&self) -> &Buffer {
        &self.buffer
    }
}

impl DerefMut for Lent<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Buffer {
        &mut self.buffer
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.pair.retired.borrow_mut().push(std::mem::take(&mut self.buffer));
    }
}

/// All ranks are members by their numbers, so that a receive from one that has gone fails.
#[derive(Debug)]
struct Everybody;

impl Members for Everybody {
    fn rank_of(&self, world_rank: u32) -> Option<u32> {
        Some(world_rank)
    }
}

/// Measures.
///
/// # Errors
/// When a transport does not open, the peer fails, or a payload is damaged.
pub(crate) fn measure(mut site: Site, plans: &[Plan], yielding: bool) -> Result<Vec<Figure>> {
    let worker = site.worker()?;
    let addresses = site.swap(&worker.address())?;
    let members: Arc<dyn Members> = Arc::new(Everybody);
    worker.open_space(SPACE, SpaceOptions { members: Some(members), ..SpaceOptions::default() })?;
    let ep = worker.connect(&addresses[site.peer() as usize])?;
    let yields = yielding || site.shares_processors();
    let pair = Pair {
        worker,
        ep,
        rank: site.rank(),
        peer: site.peer(),
        yields,
        retired: RefCell::default(),
    };
    // A rank that fails leaves at once, by which the other one learns of it.
    let figures = plans.iter().map(|plan| pair.measure(plan)).collect::<Result<_>>()?;
    // Nobody leaves in order while the other one still needs answers.
    pair.meet()?;
    pair.worker.drain();
    Ok(figures)
}

impl Pair {
    fn measure(&self, plan: &Plan) -> Result<Figure> {
        self.meet()?;
        let samples = match plan.test {
            Test::AmLat => drive::ping_pong(plan, self.rank, &mut active::Side::new(self, plan))?,
            Test::AmBw => drive::stream(plan, self.rank, &mut active::Side::new(self, plan))?,
            Test::StreamLat => {
                drive::ping_pong(plan, self.rank, &mut streams::Side::new(self, plan))?
            }
            Test::StreamBw => drive::stream(plan, self.rank, &mut streams::Side::new(self, plan))?,
            Test::PutLat | Test::PutBw | Test::GetLat | Test::GetBw => {
                onesided::transfers(self, plan)?
            }
            Test::FaddLat | Test::CswapLat => onesided::atomics(self, plan)?,
            Test::TagPostedLat => {
                let mut side = posted::Side::new(self, plan, true)?;
                let samples = drive::ping_pong(plan, self.rank, &mut side)?;
                side.close()?;
                samples
            }
            Test::TagPostedBw => {
                let mut side = posted::Side::new(self, plan, self.rank == 1)?;
                let samples = drive::stream(plan, self.rank, &mut side)?;
                side.close()?;
                samples
            }
            _ if plan.kind() == Kind::Windows => {
                drive::stream(plan, self.rank, &mut tagged::Side::new(self, plan))?
            }
            _ => drive::ping_pong(plan, self.rank, &mut tagged::Side::new(self, plan))?,
        };
        // Every loop waits for its operations before it ends in order.
        self.retired.borrow_mut().clear();
        Ok(Figure::new(plan, &samples))
    }

    /// A buffer for operations of this worker.
    pub(crate) fn buffer(&self, len: usize) -> Lent<'_> {
        Lent { pair: self, buffer: Buffer::new(len) }
    }

    /// Waits for the peer to come here too.
    pub(crate) fn meet(&self) -> Result<()> {
        self.exchange(&[]).map(drop)
    }

    /// Sends the peer `mine` and returns what the peer sends.
    pub(crate) fn exchange(&self, mine: &[u8]) -> Result<Vec<u8>> {
        // Longer than anything that is exchanged: keys and sizes.
        let id = self.worker.recv(self.wanted(MEETING), RecvBuf::owned(vec![0; 4096]))?;
        let sent = self.send(MEETING, SendBuf::owned(mine.to_vec()))?;
        self.finish(sent)?;
        self.worker.wait_until(|| self.worker.is_complete(id));
        let Some((status, Some(mut bytes))) = self.worker.take_with_buffer(id) else {
            bail!("a request that owned its buffer came back without it");
        };
        status.outcome?;
        bytes.truncate(status.length as usize);
        Ok(bytes)
    }

    /// What a receive of the peer's messages with `tag` asks for.
    pub(crate) fn wanted(&self, tag: u64) -> MatchSpec {
        MatchSpec { space: SPACE, source: Some(self.peer), tag, tag_mask: u64::MAX }
    }

    /// Starts to send.
    #[inline]
    pub(crate) fn send(&self, tag: u64, buffer: SendBuf) -> Result<Sent> {
        let envelope = Envelope { space: SPACE, source: self.rank, tag };
        Ok(self.worker.send(self.ep, envelope, buffer, SendMode::Standard)?)
    }

    /// Waits until the buffer of a send is free.
    #[inline]
    pub(crate) fn finish(&self, sent: Sent) -> Result<()> {
        match sent {
            Sent::Pending(id) => self.wait(id).map(drop),
            _ => Ok(()),
        }
    }

    /// Waits until a message with `tag` has come, or its first part, and leaves it there.
    pub(crate) fn await_arrival(&self, tag: u64) -> Result<()> {
        let (worker, spec) = (&self.worker, self.wanted(tag));
        let mut death = Ok(());
        worker.wait_until(|| {
            if worker.probe(&spec).is_some() {
                return true;
            }
            death = worker.check(&spec);
            death.is_err()
        });
        Ok(death?)
    }

    /// Waits for a request.
    #[inline]
    pub(crate) fn wait(&self, id: RequestId) -> Result<OpStatus> {
        let status = self.worker.wait(id);
        status.outcome?;
        Ok(status)
    }
}
