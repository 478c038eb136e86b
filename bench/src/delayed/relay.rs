//! The relay: takes packets from devices and gives each to the device of its destination when its delay
//! is over. It has a thread for each processor of the hosts, which takes the packets of that processor's hosts: to wake
//! a thread of another processor costs both of them ten times as much.
//!
//! Rules:
//! 1. A packet leaves no sooner than `delay` after it was read.
//! 2. Packets from one device to another leave in the order in which they were read, whatever the jitter.
//! 3. A thread sleeps until a packet comes or the next one is due. It shares the hosts' processors, and has one timer,
//!    which is set only where the next packet changes: it costs more of them than anything else here. For a packet that
//!    is due within [`SOON`] no timer is set, and the devices are polled meanwhile.
//! 4. At most [`PACKETS_MAX`] packets wait in a thread; further ones are dropped and counted, as routers do.
//! 5. What is no IPv4 packet to one of the hosts goes nowhere, and is not counted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bowline_base::sync::atomic::{AtomicU64, Ordering};
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use serde::Serialize;

/// Packets that wait at most.
const PACKETS_MAX: usize = 8192;
/// Packets that are read from one device before the others and the queue are read.
const BATCH: usize = 16;
/// A packet that is due so soon is waited for without sleep. On a virtual machine a timer that is set anew and wakes the
/// thread takes 13 to 19 us of a processor.
const SOON: Duration = Duration::from_micros(15);
/// No IPv4 packet is longer.
const PACKET_BYTES_MAX: usize = 65_536;

/// What a network is like.
#[derive(Debug, Clone)]
pub struct RelayOptions {
    /// How long each packet takes.
    pub delay: Duration,
    /// A packet takes up to so much longer, evenly distributed.
    pub jitter: Duration,
    /// From which the jitter is drawn.
    pub seed: u64,
    /// The longest packet, bytes, 1280 to 65,535: long ones keep the relay's work small.
    pub mtu: u32,
}

impl Default for RelayOptions {
    fn default() -> Self {
        Self { delay: Duration::from_micros(100), jitter: Duration::ZERO, seed: 1, mtu: 65_000 }
    }
}

/// What a relay has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Forwarded {
    /// Packets given to a device.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that found a full queue here or at a device.
    pub dropped: u64,
    /// Whether the kernel gave the relay a real-time priority.
    pub real_time: bool,
}

/// Counters of the threads. All Relaxed: numbers for people, which publish nothing.
#[derive(Debug, Default)]
struct Counts {
    packets: AtomicU64,
    bytes: AtomicU64,
    dropped: AtomicU64,
    real_time: AtomicU64,
}

/// The relay's threads. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Relay {
    stop: Arc<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
    counts: Arc<Counts>,
}

impl Relay {
    /// Starts the threads. Device `i` is that of the host whose address ends with `i + 1`; hosts use `cpus` in turn.
    pub(super) fn start(
        devices: Vec<OwnedFd>,
        cpus: &[usize],
        options: &RelayOptions,
    ) -> io::Result<Self> {
        let counts = Arc::new(Counts::default());
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let mut relay = Self { stop, threads: Vec::new(), counts };
        let devices: Arc<[OwnedFd]> = devices.into();
        for (first, &cpu) in cpus.iter().enumerate().take(devices.len()) {
            let own = (first..devices.len()).step_by(cpus.len()).collect();
            let mut work = Work::new(Arc::clone(&devices), own, options, Arc::clone(&relay.counts));
            let heard = Arc::clone(&relay.stop);
            let thread = std::thread::Builder::new().name("relay".to_owned()).spawn(move || {
                let mut set = CpuSet::new();
                set.set(cpu);
                // Where it is not allowed, a packet costs more.
                let _ = sched_setaffinity(None, &set);
                // Relaxed: see `Counts`.
                work.counts.real_time.store(u64::from(ask_for_real_time()), Ordering::Relaxed);
                work.run(&heard);
            })?;
            relay.threads.push(thread);
        }
        Ok(relay)
    }

    pub(super) fn forwarded(&self) -> Forwarded {
        // Relaxed: see `Counts`.
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Forwarded {
            packets: read(&self.counts.packets),
            bytes: read(&self.counts.bytes),
            dropped: read(&self.counts.dropped),
            real_time: read(&self.counts.real_time) != 0,
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // It stays readable, for all of them.
        if rustix::io::write(&*self.stop, &1_u64.to_ne_bytes()).is_ok() {
            for thread in self.threads.drain(..) {
                let _ = thread.join();
            }
        }
    }
}

/// Ranks that share the relay's processors must not keep packets waiting for a time slice.
fn ask_for_real_time() -> bool {
    let parameter = libc::sched_param { sched_priority: 10 };
    // SAFETY: the call reads the structure behind the pointer, which lives until it returns; 0 means the
    // calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter) == 0 }
}

/// The number of the timer's events.
const TIMER: u64 = u64::MAX;

/// Has the timer go off in `left`, which is not zero. Whether it will.
fn set_timer(timer: &OwnedFd, left: Duration) -> bool {
    let it_value = Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(left.subsec_nanos()),
    };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &once).is_ok()
}

/// Space for any packet.
type Buffer = Box<[u8]>;

/// A packet that waits.
struct Waiting {
    due: Instant,
    /// Which came first, of those that are due at once.
    number: u64,
    to: usize,
    /// The packet is the first `bytes` of it; the rest of the buffer is unused.
    buffer: Buffer,
    bytes: usize,
}

impl Waiting {
    fn key(&self) -> (Instant, u64) {
        (self.due, self.number)
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// What a thread has.
struct Work {
    devices: Arc<[OwnedFd]>,
    /// The places of those whose packets it takes.
    own: Vec<usize>,
    delay: Duration,
    jitter_ns: u64,
    random: u64,
    queue: BinaryHeap<Reverse<Waiting>>,
    /// When the last packet from one device to another is due, by from * devices + to: rule 2.
    last_due: Vec<Option<Instant>>,
    number: u64,
    /// Buffers for packets to come.
    spare: Vec<Buffer>,
    counts: Arc<Counts>,
}

impl Work {
    fn new(
        devices: Arc<[OwnedFd]>,
        own: Vec<usize>,
        options: &RelayOptions,
        counts: Arc<Counts>,
    ) -> Self {
        let pairs = devices.len() * devices.len();
        Self {
            devices,
            own,
            delay: options.delay,
            jitter_ns: u64::try_from(options.jitter.as_nanos()).unwrap_or(u64::MAX),
            random: options.seed,
            queue: BinaryHeap::new(),
            last_due: vec![None; pairs],
            number: 0,
            spare: Vec::new(),
            counts,
        }
    }

    fn run(&mut self, stop: &OwnedFd) {
        let Ok((events, timer)) = self.watch_all(stop) else { return };
        let nothing = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut found = [nothing; 64];
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        // What the timer is set to.
        let mut set = None;
        loop {
            let now = Instant::now();
            while self.queue.peek().is_some_and(|Reverse(next)| next.due <= now) {
                let Some(Reverse(waiting)) = self.queue.pop() else { break };
                self.release(waiting);
            }
            let due = self.queue.peek().map(|Reverse(next)| next.due);
            // Rule 3.
            let sleeps = due.is_none_or(|due| {
                let left = due.saturating_duration_since(Instant::now());
                left > SOON && (set == Some(due) || set_timer(&timer, left))
            });
            if sleeps {
                set = due;
            }
            let count = match epoll::wait(&events, &mut found[..], (!sleeps).then_some(&none)) {
                Ok(count) => count,
                Err(Errno::INTR) => 0,
                // Nothing else can happen to descriptors that are open; the network is silent then.
                Err(_) => return,
            };
            for event in &found[..count] {
                match event.data.u64() {
                    TIMER => set = None,
                    number => match usize::try_from(number) {
                        Ok(from) if from < self.devices.len() => self.take(from),
                        _ => return,
                    },
                }
            }
        }
    }

    /// The epoll instance and the timer. An event's number is that of a device with packets, or [`TIMER`]; any other
    /// stands for the end.
    fn watch_all(&self, stop: &OwnedFd) -> io::Result<(OwnedFd, OwnedFd)> {
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let own = self.own.iter().map(|&number| (number, &self.devices[number]));
        for (number, descriptor) in own.chain([(self.devices.len(), stop)]) {
            let data = EventData::new_u64(number as u64);
            epoll::add(&events, descriptor, data, EventFlags::IN)?;
        }
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        // Once for each time that it has gone off: it is never read.
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&events, &timer, EventData::new_u64(TIMER), flags)?;
        Ok((events, timer))
    }

    /// Reads what device `from` has.
    fn take(&mut self, from: usize) {
        for _ in 0..BATCH {
            let fresh = || vec![0; PACKET_BYTES_MAX].into_boxed_slice();
            let mut buffer = self.spare.pop().unwrap_or_else(fresh);
            match rustix::io::read(&self.devices[from], &mut buffer[..]) {
                Ok(bytes) => self.keep(from, buffer, bytes),
                Err(_) => return self.spare.push(buffer),
            }
        }
    }

    /// Queues a packet from device `from`.
    fn keep(&mut self, from: usize, buffer: Buffer, bytes: usize) {
        let to = destination(&buffer[..bytes]).filter(|&to| to < self.devices.len());
        let Some(to) = to else {
            return self.spare.push(buffer);
        };
        if self.queue.len() >= PACKETS_MAX {
            // Relaxed: see `Counts`.
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            return self.spare.push(buffer);
        }
        let due = Instant::now() + self.delay + self.jitter();
        let last = &mut self.last_due[from * self.devices.len() + to];
        let due = last.map_or(due, |last| due.max(last));
        *last = Some(due);
        self.number += 1;
        self.queue.push(Reverse(Waiting { due, number: self.number, to, buffer, bytes }));
    }

    /// Gives a packet to its device.
    fn release(&mut self, waiting: Waiting) {
        let Waiting { to, buffer, bytes, .. } = waiting;
        // Relaxed: see `Counts`.
        match rustix::io::write(&self.devices[to], &buffer[..bytes]) {
            Ok(bytes) => {
                self.counts.packets.fetch_add(1, Ordering::Relaxed);
                self.counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            Err(_) => {
                self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.spare.push(buffer);
    }

    fn jitter(&mut self) -> Duration {
        if self.jitter_ns == 0 {
            return Duration::ZERO;
        }
        // SplitMix64 (Steele, Lea, Flood 2014).
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        Duration::from_nanos(bits % (self.jitter_ns + 1))
    }
}

/// Which device an IPv4 packet is for.
fn destination(packet: &[u8]) -> Option<usize> {
    let (&first, address) = (packet.first()?, packet.get(16..20)?);
    let host = usize::from(address[3]);
    (first >> 4 == 4).then_some(host)?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_read_from_headers() {
        let mut packet = [0_u8; 28];
        packet[0] = 0x45;
        packet[16..20].copy_from_slice(&[10, 79, 0, 3]);
        assert_eq!(destination(&packet), Some(2));
        assert_eq!(destination(&packet[..19]), None);
        packet[19] = 0;
        assert_eq!(destination(&packet), None);
        packet[0] = 0x65;
        assert_eq!(destination(&packet), None);
        assert_eq!(destination(&[]), None);
    }

    #[test]
    fn a_seed_gives_the_same_jitter_again() {
        let options = RelayOptions { jitter: Duration::from_micros(50), ..RelayOptions::default() };
        let draw = || {
            let mut work = Work::new(Arc::new([]), Vec::new(), &options, Arc::default());
            (0..100).map(|_| work.jitter()).collect::<Vec<_>>()
        };
        let jitter = draw();
        assert_eq!(jitter, draw());
        assert!(jitter.iter().all(|&one| one <= options.jitter));
        assert!(jitter.iter().any(|&one| one > Duration::ZERO));
    }
}
