//! A few workers of one job in one thread, with a space of which all are members.

use std::sync::Arc;

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::job::{JobMemory, JobSpec};
use bowline_base::sync::atomic::{AtomicU32, Ordering};
use bowline_shm::{ShmIface, ShmOptions};
use bowline_sim::{Network, NetworkOptions};
use bowline_ucp::{
    CloseMode, Envelope, Ep, FailureSource, MatchSpec, OpError, OpStatus, RequestId, SendMode,
    Sent, Worker, WorkerParts,
};
use bowline_uct::Iface;

use crate::doubles::{config, of_everybody, opened, parts};

/// The space of the tests.
pub(crate) const SPACE: u32 = 3;

/// The dead, one bit for each rank.
#[derive(Clone, Default)]
pub(crate) struct Dead(Arc<AtomicU32>);

impl Dead {
    pub(crate) fn report(&self, rank: u32) {
        // Relaxed: one thread.
        self.0.fetch_or(1 << rank, Ordering::Relaxed);
    }
}

impl FailureSource for Dead {
    fn generation(&self) -> u32 {
        // Relaxed: one thread.
        self.0.load(Ordering::Relaxed)
    }
    fn dead(&self, out: &mut Vec<u32>) {
        out.extend((0..32).filter(|rank| self.generation() >> rank & 1 == 1));
    }
}

/// The workers, and what is between them.
pub(crate) struct Ranks {
    pub(crate) network: Option<Network>,
    job: Option<JobMemory>,
    dead: Dead,
    pub(crate) workers: Vec<Option<Worker>>,
    eps: Vec<Vec<Ep>>,
}

impl Ranks {
    /// Over a simulated network.
    pub(crate) fn simulated(
        count: u32,
        options: NetworkOptions,
        settings: &[(&str, &str)],
    ) -> Self {
        let network = Network::new(options);
        let lanes = (0..count).map(|_| Box::new(network.open()) as Box<dyn Iface>).collect();
        let mut ranks = Self::over(lanes, settings);
        ranks.network = Some(network);
        ranks
    }

    /// Over shared memory.
    pub(crate) fn shared(count: u32, settings: &[(&str, &str)]) -> Self {
        let options = ShmOptions::default();
        let area_bytes = options.area_bytes();
        let spec = JobSpec { job_id: 1, ranks: count, first_rank: 0, area_bytes };
        let job = JobMemory::create_private(&spec).expect("a few ranks fit into memory");
        let open = |rank| {
            job.attach(rank).expect("the place is free");
            let lane = ShmIface::open(job.clone(), rank, options.clone()).expect("a fresh rank");
            Box::new(lane) as Box<dyn Iface>
        };
        let mut ranks = Self::over((0..count).map(open).collect(), settings);
        ranks.job = Some(job);
        ranks
    }

    fn over(lanes: Vec<Box<dyn Iface>>, settings: &[(&str, &str)]) -> Self {
        let config = config(settings);
        let (dead, count) = (Dead::default(), lanes.len());
        let workers: Vec<Worker> = (0..)
            .zip(lanes)
            .map(|(rank, lane)| {
                let failures: Box<dyn FailureSource> = Box::new(dead.clone());
                let parts = WorkerParts { failures: Some(failures), ..parts(rank, lane, &config) };
                opened(parts, SPACE, of_everybody())
            })
            .collect();
        let eps = (0..count)
            .map(|from| {
                let to = |to: usize| workers[from].connect(&workers[to].address());
                (0..count).map(|peer| to(peer).expect("they reach each other")).collect()
            })
            .collect();
        let workers = workers.into_iter().map(Some).collect();
        Self { network: None, job: None, dead, workers, eps }
    }

    pub(crate) fn worker(&self, rank: usize) -> &Worker {
        self.workers[rank].as_ref().expect("it lives")
    }

    /// Sends; `None` when it is complete.
    pub(crate) fn send(
        &self,
        from: usize,
        to: usize,
        tag: u64,
        data: Vec<u8>,
    ) -> Option<RequestId> {
        self.send_as(from, to, tag, data, SendMode::Standard)
    }

    pub(crate) fn send_as(
        &self,
        from: usize,
        to: usize,
        tag: u64,
        data: Vec<u8>,
        mode: SendMode,
    ) -> Option<RequestId> {
        self.try_send(from, to, tag, data, mode).expect("sent")
    }

    /// The same where it may fail at once.
    pub(crate) fn try_send(
        &self,
        from: usize,
        to: usize,
        tag: u64,
        data: Vec<u8>,
        mode: SendMode,
    ) -> Result<Option<RequestId>, OpError> {
        let envelope = Envelope { space: SPACE, source: from as u32, tag };
        let buffer = SendBuf::owned(data);
        Ok(match self.worker(from).send(self.eps[from][to], envelope, buffer, mode)? {
            Sent::Done => None,
            Sent::Pending(id) => Some(id),
        })
    }

    /// Sends a short active message.
    pub(crate) fn am(&self, from: usize, to: usize, id: u16, data: Vec<u8>) {
        let sent = self.worker(from).am_send(self.eps[from][to], id, &[], SendBuf::owned(data));
        if let Sent::Pending(id) = sent.expect("sent") {
            self.worker(from).detach(id);
        }
    }

    /// Posts a receive; no tag is any.
    pub(crate) fn receive(
        &self,
        rank: usize,
        source: Option<u32>,
        tag: Option<u64>,
        capacity: usize,
    ) -> RequestId {
        self.try_receive(rank, source, tag, capacity).expect("posted")
    }

    /// The same where it may fail at once.
    pub(crate) fn try_receive(
        &self,
        rank: usize,
        source: Option<u32>,
        tag: Option<u64>,
        capacity: usize,
    ) -> Result<RequestId, OpError> {
        let (tag, tag_mask) = tag.map_or((0, 0), |tag| (tag, u64::MAX));
        let spec = MatchSpec { space: SPACE, source, tag, tag_mask };
        self.worker(rank).recv(spec, RecvBuf::owned(vec![0; capacity]))
    }

    /// One poll of everybody who lives. How much happened.
    pub(crate) fn round(&self) -> u32 {
        self.workers.iter().flatten().map(Worker::progress).sum()
    }

    /// Polls of all, and time, until `done`. `false` when it never is.
    pub(crate) fn run(&self, done: impl Fn() -> bool) -> bool {
        for idle in 0.. {
            if done() {
                return true;
            }
            let moved = match &self.network {
                Some(network) => {
                    // Time moves on beside what is busy, too.
                    let busy = self.round() > 0;
                    let moved = (!busy || idle % 4 == 0) && network.advance();
                    moved || busy
                }
                None => {
                    self.round();
                    idle < 20_000
                }
            };
            // Deaths are polled for now and then, and some of what waits is.
            if !moved && (0..200).all(|_| self.round() == 0) {
                return done();
            }
            if idle > 3_000_000 {
                return false;
            }
        }
        false
    }

    #[track_caller]
    pub(crate) fn until(&self, done: impl Fn() -> bool) {
        assert!(self.run(done), "nothing is under way, yet it is not done");
    }

    /// Until both ends of a message are complete.
    #[track_caller]
    pub(crate) fn through(
        &self,
        sender: usize,
        send: Option<RequestId>,
        to: usize,
        receive: RequestId,
    ) {
        self.until(|| {
            send.is_none_or(|send| self.worker(sender).is_complete(send))
                && self.worker(to).is_complete(receive)
        });
    }

    pub(crate) fn received(&self, rank: usize, id: RequestId) -> (OpStatus, Vec<u8>) {
        let (status, bytes) = self.worker(rank).take_with_buffer(id).expect("complete");
        (status, bytes.expect("the buffer was owned"))
    }

    /// A crash: nothing is closed, and every peer is notified.
    pub(crate) fn kill(&mut self, rank: usize) {
        if let Some(network) = &self.network {
            network.kill(rank as u32);
        }
        if let Some(job) = &self.job {
            job.mark_dead(rank as u32);
        }
        std::mem::forget(self.workers[rank].take());
        self.report_death(rank);
    }

    /// The launcher reports a death, of which no transport knows anything yet.
    pub(crate) fn report_death(&self, rank: usize) {
        self.dead.report(rank as u32);
    }

    /// Closes the endpoint of a worker to another; `None` when it was not in use.
    pub(crate) fn close(&self, from: usize, to: usize, mode: CloseMode) -> Option<RequestId> {
        match self.worker(from).close(self.eps[from][to], mode).expect("it is open") {
            Sent::Done => None,
            Sent::Pending(id) => Some(id),
        }
    }
}

/// Bytes that are hardly repeated.
pub(crate) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let word = |i: usize| (i as u64 ^ seed << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    (0..len).map(|i| word(i) as u8).collect()
}
