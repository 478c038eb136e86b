//! Ping-pong of short messages between two pinned processes, by this transport and by a bare loop
//! of libfabric calls, in alternating blocks of one run: their ratio is what the transport adds.
//!
//! ```text
//! cargo run --release -p bowline-ofi --example ofi_pingpong -- [provider] [bytes] [round trips per block] [blocks]
//! ```
//!
//! Our side takes its settings from the environment; with `BOWLINE_OFI_WAKEUP=on` it opens the
//! descriptor to sleep on, which the bare loop does not have. The bare loop is that of `fi_pingpong`: a receive is posted, the queue is read until it has
//! completed, the next one is posted, and the answer is injected (or sent from a buffer where it
//! is too long for that). Times of a shared machine wander; the ratio within a run says more than
//! either of them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Instant;

use bowline_base::config::Config;
use bowline_ofi::{OfiIface, OfiOptions, SETTINGS};
use bowline_uct::{
    AmId, Arrival, EpId, Iface, PeerFailure, PostError, Sink, Source, Token, Verdict,
};
use libfabric_sys as sys;
use rustix::thread::{CpuSet, sched_setaffinity};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Counts arrivals.
#[derive(Default)]
struct Counter(u64);

impl Sink for Counter {
    #[inline]
    fn am(&mut self, _: Arrival<'_>) -> Verdict {
        self.0 += 1;
        Verdict::Consumed
    }
    fn completed(&mut self, _: Token, _: Result<u64, PeerFailure>) {}
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, _: Option<EpId>, _: PeerFailure) {}
}

/// A bare endpoint with one receive posted.
struct Bare {
    ep: *mut sys::fid_ep,
    cq: *mut sys::fid_cq,
    av: *mut sys::fid_av,
    peer: sys::fi_addr_t,
    inject: usize,
    rx: Box<[u8]>,
    tx: Box<[u8]>,
}

fn check(what: &str, error: impl TryInto<i32>) -> Outcome<()> {
    match error.try_into().unwrap_or(-1) {
        0 => Ok(()),
        error => Err(format!("{what}: {}", sys::error_text(error)).into()),
    }
}

impl Bare {
    fn new(provider: &str, bytes: usize) -> Outcome<Self> {
        let (mut fabric, mut domain) = (std::ptr::null_mut(), std::ptr::null_mut());
        let (mut cq, mut av, mut ep) =
            (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        let null = std::ptr::null_mut();
        let name = std::ffi::CString::new(provider)?;
        // SAFETY: every object is open before it is used, since each failure returns; attributes
        // live through their calls. Nothing is closed: the process ends.
        unsafe {
            let hints = sys::fi_allocinfo();
            (*hints).caps = sys::FI_MSG;
            (*(*hints).ep_attr).type_ = sys::FI_EP_RDM;
            (*(*hints).domain_attr).mr_mode =
                (sys::FI_MR_VIRT_ADDR | sys::FI_MR_ALLOCATED | sys::FI_MR_PROV_KEY) as i32;
            (*(*hints).domain_attr).threading = sys::FI_THREAD_DOMAIN;
            (*(*hints).fabric_attr).prov_name = libc::strdup(name.as_ptr());
            let mut info = std::ptr::null_mut();
            let version = sys::fi_version_of(1, 17);
            let nobody = std::ptr::null();
            check("fi_getinfo", sys::fi_getinfo(version, nobody, nobody, 0, hints, &raw mut info))?;
            check("fi_fabric", sys::fi_fabric((*info).fabric_attr, &raw mut fabric, null))?;
            check("fi_domain", sys::fi_domain(fabric, info, &raw mut domain, null))?;
            let mut attr: sys::fi_cq_attr = std::mem::zeroed();
            attr.format = sys::FI_CQ_FORMAT_CONTEXT;
            check("fi_cq_open", sys::fi_cq_open(domain, &raw mut attr, &raw mut cq, null))?;
            let mut attr: sys::fi_av_attr = std::mem::zeroed();
            attr.type_ = sys::FI_AV_TABLE;
            check("fi_av_open", sys::fi_av_open(domain, &raw mut attr, &raw mut av, null))?;
            check("fi_endpoint", sys::fi_endpoint(domain, info, &raw mut ep, null))?;
            check("fi_ep_bind", sys::fi_ep_bind(ep, av.cast(), 0))?;
            check("fi_ep_bind", sys::fi_ep_bind(ep, cq.cast(), sys::FI_TRANSMIT | sys::FI_RECV))?;
            check("fi_enable", sys::fi_enable(ep))?;
            let inject = (*(*info).tx_attr).inject_size;
            let (rx, tx) = (vec![0; bytes].into(), vec![7; bytes].into());
            let mut bare = Self { ep, cq, av, peer: 0, inject, rx, tx };
            bare.post()?;
            Ok(bare)
        }
    }

    fn name(&self) -> Outcome<Vec<u8>> {
        let mut name = vec![0; 512];
        let mut len = name.len();
        // SAFETY: the endpoint is open and `len` bytes are writable.
        let error =
            unsafe { sys::fi_getname(self.ep.cast(), name.as_mut_ptr().cast(), &raw mut len) };
        check("fi_getname", error)?;
        name.truncate(len);
        Ok(name)
    }

    fn connect(&mut self, name: &[u8]) -> Outcome<()> {
        // SAFETY: the vector is open; the name came from an endpoint of the same provider.
        let inserted = unsafe {
            let null = std::ptr::null_mut();
            sys::fi_av_insert(self.av, name.as_ptr().cast(), 1, &raw mut self.peer, 0, null)
        };
        if inserted == 1 { Ok(()) } else { Err("fi_av_insert".into()) }
    }

    #[inline]
    fn post(&mut self) -> Outcome<()> {
        // SAFETY: the buffer lives as long as the process, and is not read while it is posted.
        let error = unsafe {
            sys::fi_recv(
                self.ep,
                self.rx.as_mut_ptr().cast(),
                self.rx.len(),
                std::ptr::null_mut(),
                sys::FI_ADDR_UNSPEC,
                std::ptr::without_provenance_mut(1),
            )
        };
        check("fi_recv", error)
    }

    /// Reads the queue until something with this context has completed.
    #[inline]
    fn wait(&mut self, context: usize) -> Outcome<()> {
        loop {
            let mut entry = std::mem::MaybeUninit::<sys::fi_cq_entry>::uninit();
            // SAFETY: the queue is open and has entries of this form.
            let read = unsafe { sys::fi_cq_read(self.cq, entry.as_mut_ptr().cast(), 1) };
            if read == 1 {
                // SAFETY: one entry was written.
                if unsafe { entry.assume_init() }.op_context as usize == context {
                    return Ok(());
                }
            } else if read != -(sys::FI_EAGAIN as isize) {
                check("fi_cq_read", read)?;
            }
        }
    }

    #[inline]
    fn send(&mut self) -> Outcome<()> {
        loop {
            let (bytes, len) = (self.tx.as_ptr().cast(), self.tx.len());
            // SAFETY: the buffer lives as long as the process and is never written.
            let error = unsafe {
                if len <= self.inject {
                    sys::fi_inject(self.ep, bytes, len, self.peer)
                } else {
                    let context = std::ptr::without_provenance_mut(2);
                    sys::fi_send(self.ep, bytes, len, std::ptr::null_mut(), self.peer, context)
                }
            };
            if error != -(sys::FI_EAGAIN as isize) {
                return check("fi_inject", error);
            }
            // Connecting: progress is made by reading.
            let mut entry = std::mem::MaybeUninit::<sys::fi_cq_entry>::uninit();
            // SAFETY: as in `wait`; nothing has completed yet.
            unsafe { sys::fi_cq_read(self.cq, entry.as_mut_ptr().cast(), 0) };
        }
    }

    fn round(&mut self, first: bool, trips: u64) -> Outcome<()> {
        for _ in 0..trips {
            if first {
                self.send()?;
            }
            self.wait(1)?;
            self.post()?;
            if !first {
                self.send()?;
            }
        }
        Ok(())
    }
}

struct Side {
    bare: Bare,
    ours: OfiIface,
    ep: EpId,
    seen: Counter,
    bytes: usize,
}

impl Side {
    fn new(provider: &str, bytes: usize, cpu: usize) -> Outcome<Self> {
        let mut cpus = CpuSet::new();
        cpus.set(cpu);
        sched_setaffinity(None, &cpus)?;
        let mut options = OfiOptions::from_config(&Config::from_env(&[SETTINGS])?, false, [0; 32]);
        options.provider = Some(provider.into());
        let ours = OfiIface::open(options)?;
        let bare = Bare::new(provider, bytes)?;
        Ok(Self { bare, ours, ep: EpId(0), seen: Counter(0), bytes })
    }

    fn address(&self) -> Outcome<String> {
        let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let (bare, ours): (String, String) = (hex(self.bare.name()?), hex(self.ours.address()));
        Ok(format!("{bare} {ours}\n"))
    }

    fn connect(&mut self, line: &str) -> Outcome<()> {
        let hex = |text: &str| -> Outcome<Vec<u8>> {
            (0..text.len() / 2)
                .map(|i| Ok(u8::from_str_radix(&text[2 * i..2 * i + 2], 16)?))
                .collect()
        };
        let (bare, ours) = line.trim().split_once(' ').ok_or("two addresses")?;
        self.bare.connect(&hex(bare)?)?;
        self.ep = self.ours.connect(&hex(ours)?)?;
        Ok(())
    }

    #[inline]
    fn send(&mut self) -> Outcome<()> {
        let payload = &self.bare.tx;
        loop {
            let (id, header) = (AmId::new(1), [1, 2, 3]);
            let sent = if self.bytes <= self.ours.attr().limits.am.max_short {
                self.ours.am_short(self.ep, id, &header, payload)
            } else {
                let mut pack = |space: bowline_base::view::View<'_>| space.copy_in(payload);
                self.ours.am_bcopy(self.ep, id, &header, self.bytes, &mut pack).map(|_| ())
            };
            match sent {
                Ok(()) => return Ok(()),
                Err(PostError::NoResource) => {
                    self.ours.progress(&mut self.seen, 16);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    #[inline]
    fn wait(&mut self) {
        let before = self.seen.0;
        while self.seen.0 == before {
            self.ours.progress(&mut self.seen, 16);
        }
    }

    fn round(&mut self, first: bool, trips: u64) -> Outcome<()> {
        for _ in 0..trips {
            if first {
                self.send()?;
            }
            self.wait();
            if !first {
                self.send()?;
            }
        }
        Ok(())
    }

    /// Half a round trip of each, in nanoseconds.
    fn block(&mut self, first: bool, trips: u64) -> Outcome<[f64; 2]> {
        let half = |start: Instant| start.elapsed().as_nanos() as f64 / (2 * trips) as f64;
        let start = Instant::now();
        self.bare.round(first, trips)?;
        let bare = half(start);
        let start = Instant::now();
        self.round(first, trips)?;
        Ok([bare, half(start)])
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Outcome<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let echo = args.first().is_some_and(|first| first == "--echo");
    if echo {
        args.remove(0);
    }
    let mut args = args.into_iter();
    let provider = args.next().unwrap_or_else(|| "tcp".into());
    let mut number = |default: u64| args.next().map_or(Ok(default), |text| text.parse());
    let (bytes, trips, blocks) = (number(8)? as usize, number(2000)?, number(25)?);
    let allowed = rustix::thread::sched_getaffinity(None)?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    if echo {
        let cpu = number(0)? as usize;
        let mut side = Side::new(&provider, bytes, cpu)?;
        print!("{}", side.address()?);
        std::io::stdout().flush()?;
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line)?;
        side.connect(&line)?;
        for _ in 0..=blocks {
            side.block(false, trips)?;
        }
        return Ok(());
    }
    let [mine, theirs, ..] = cpus[..] else {
        return Err("a ping-pong needs two processors".into());
    };
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--echo", &provider, &bytes.to_string(), &trips.to_string()])
        .args([blocks.to_string(), theirs.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut side = Side::new(&provider, bytes, mine)?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("piped")?).read_line(&mut line)?;
    child.stdin.take().ok_or("piped")?.write_all(side.address()?.as_bytes())?;
    side.connect(&line)?;
    let (mut bare, mut ours, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for block in 0..=blocks {
        let [a, b] = side.block(true, trips)?;
        // The first block connects and warms up.
        if block > 0 {
            bare.push(a);
            ours.push(b);
            ratios.push(b / a);
        }
    }
    child.wait()?;
    println!(
        "{} {bytes} B: bare {:.0} ns, ours {:.0} ns, ratio {:.3} (medians of {blocks} blocks of {trips} round trips)",
        side.ours.attr().device,
        median(&mut bare),
        median(&mut ours),
        median(&mut ratios)
    );
    Ok(())
}
