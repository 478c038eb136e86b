//! What the tests of this crate share: a sink that records, jobs of a few ranks, a watchdog.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bowline_base::job::{JobMemory, JobSpec};
use bowline_shm::{ShmIface, ShmOptions};
use bowline_uct::{
    AmHeader, AmId, Arrival, EpId, Iface, PeerFailure, PostError, Sink, Source, Token, Verdict,
};

/// A message as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) source: u32,
    pub(crate) id: u8,
    pub(crate) header: AmHeader,
    pub(crate) payload: Vec<u8>,
}

/// Records everything that is reported to it.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) messages: Vec<Message>,
    pub(crate) completed: Vec<(Token, Result<u64, PeerFailure>)>,
    pub(crate) writable: Vec<EpId>,
    pub(crate) failed: Vec<(Option<Source>, Option<EpId>, PeerFailure)>,
}

impl Sink for Recorder {
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        self.messages.push(Message {
            source: arrival.source.0,
            id: arrival.id.get(),
            header: arrival.header,
            payload: arrival.payload.to_vec(),
        });
        Verdict::Consumed
    }
    fn completed(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        self.completed.push((token, result));
    }
    fn writable(&mut self, ep: EpId) {
        self.writable.push(ep);
    }
    fn failed(&mut self, source: Option<Source>, ep: Option<EpId>, how: PeerFailure) {
        self.failed.push((source, ep, how));
    }
}

pub(crate) const ID: AmId = AmId::new(3);

/// The defaults, changed. (The options cannot be built field by field outside of their crate.)
pub(crate) fn with(change: impl FnOnce(&mut ShmOptions)) -> ShmOptions {
    let mut options = ShmOptions::default();
    change(&mut options);
    options
}

/// Thread ranks' memory.
pub(crate) fn private_job(ranks: u32, options: &ShmOptions) -> JobMemory {
    JobMemory::create_private(&spec(ranks, options)).unwrap()
}

pub(crate) fn spec(ranks: u32, options: &ShmOptions) -> JobSpec {
    JobSpec { job_id: 7, ranks, first_rank: 0, area_bytes: options.area_bytes() }
}

/// All interfaces of a job, for tests in one thread.
pub(crate) fn interfaces(job: &JobMemory, options: &ShmOptions) -> Vec<ShmIface> {
    (0..job.ranks())
        .map(|local| ShmIface::open(job.clone(), local, options.clone()).unwrap())
        .collect()
}

/// Ends the process when a test hangs: no test waits for time, and none waits for ever.
pub(crate) struct Watchdog(std::sync::Arc<AtomicBool>);

impl Watchdog {
    pub(crate) fn new(seconds: u64) -> Self {
        let over = std::sync::Arc::new(AtomicBool::new(false));
        let seen = over.clone();
        let name = std::thread::current().name().unwrap_or("?").to_owned();
        std::thread::spawn(move || {
            let end = Instant::now() + Duration::from_secs(seconds);
            while Instant::now() < end {
                if seen.load(Ordering::Acquire) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            eprintln!("watchdog: {name} hangs");
            std::process::abort();
        });
        Self(over)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Posts until there is space, making progress on the same interface meanwhile.
pub(crate) fn send(
    iface: &mut ShmIface,
    sink: &mut Recorder,
    ep: EpId,
    header: &AmHeader,
    payload: &[u8],
) -> Result<(), PostError> {
    loop {
        let posted = if payload.len() <= iface.attr().limits.am.max_short {
            iface.am_short(ep, ID, header, payload)
        } else {
            iface
                .am_bcopy(ep, ID, header, payload.len(), &mut |space| space.copy_in(payload))
                .map(|_| ())
        };
        match posted {
            Err(PostError::NoResource) => {
                iface.progress(sink, 64);
                std::thread::yield_now();
            }
            other => return other,
        }
    }
}

/// A payload that says its sender, number and length.
pub(crate) fn pattern(source: u32, number: u64, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u64 * 31 + number * 7 + u64::from(source) * 131) as u8).collect()
}
