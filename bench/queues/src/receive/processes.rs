//! Many to one between real processes: the lanes of the engine over shared memory, in every form.
//!
//! Each sender is this program again. Its standard input is the memory of the job, its standard
//! output a few lines in which both sides say where they are. The receiver has a processor of its own;
//! the senders share the others, and where they are more than those, a row says so.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use bowline_base::job::{JobMemory, JobSpec};
use bowline_base::region::Region;
use bowline_base::sync::LINE;
use bowline_base::sync::atomic::Ordering;
use bowline_base::words::{DirectWords, LineWords as _, Words as _};
use bowline_receive_queue::{QueueForm, QueueLane, QueueOptions};
use bowline_shm::{ShmIface, ShmOptions};
use bowline_uct::{
    AmId, Arrival, EpId, Iface, PeerFailure, PostError, Sink, Source, Token, Verdict,
};

use super::latency::{Memory, pin};
use super::locked_lane::LockedLane;
use crate::clock::median;
use crate::table::{Cell, Chart, Table, Unit};
use crate::{Context, Named};

/// What carries the messages.
#[derive(Clone, Copy)]
enum Form {
    /// The transport's own messages.
    Messages,
    Queue(QueueForm),
    /// The queue to compare with.
    Locked,
}

/// All of them, by the number that travels to the senders.
const FORMS: [(&str, Form); 6] = [
    ("messages", Form::Messages),
    ("ring", Form::Queue(QueueForm::Ring)),
    ("scmp-seq", Form::Queue(QueueForm::ScmpSeq)),
    ("scmp-rings", Form::Queue(QueueForm::ScmpRings)),
    ("scmp", Form::Queue(QueueForm::Scmp)),
    ("locked", Form::Locked),
];

/// The one that latencies are compared with.
const RING: usize = 1;
const SEQ: usize = 2;

/// Slots of a half, or of a ring.
const SLOTS: u32 = 512;

/// Senders.
const SENDERS: [usize; 5] = [1, 2, 4, 8, 16];

/// Round trips of a sample.
const BLOCK: u32 = 50;

/// When a side gives up on the other one.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);

/// Lines of the board: the command and the receiver's address, then those of each sender.
pub(super) const PAGE: usize = 16 * LINE;

/// Longest address, in bytes.
const MAX_ADDRESS: usize = PAGE - 2 * LINE;

/// What a sender is to do, in the first word of the board: number, kind, count.
const STREAM: u64 = 1;
const ECHO: u64 = 2;
const END: u64 = 3;

/// Counts and checks what comes.
#[derive(Debug, Default)]
pub(super) struct Counter {
    pub(super) count: u64,
    pub(super) sum: u64,
    pub(super) failed: Option<PeerFailure>,
}

impl Sink for Counter {
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        let mut bytes = [0; 8];
        arrival.payload.copy_out(&mut bytes);
        self.count += 1;
        self.sum = self.sum.wrapping_add(u64::from_ne_bytes(bytes));
        Verdict::Consumed
    }
    fn completed(&mut self, _: Token, _: Result<u64, PeerFailure>) {}
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, _: Option<EpId>, how: PeerFailure) {
        self.failed = Some(how);
    }
}

/// Both sides' words.
pub(super) struct Board(pub(super) Memory);

impl Board {
    pub(super) fn page(&self, rank: usize) -> DirectWords {
        self.0.words(rank * PAGE, PAGE)
    }

    pub(super) fn show_address(&self, rank: usize, address: &[u8]) -> Result<()> {
        ensure!(address.len() <= MAX_ADDRESS, "the address is too long for the board");
        let page = self.page(rank);
        let view = page.bytes(2, MAX_ADDRESS).expect("the page is that long");
        view.copy_in(address);
        // Release: pairs with the Acquire load in `address`.
        page.line(1).store(0, address.len() as u64, Ordering::Release);
        Ok(())
    }

    pub(super) fn address(&self, rank: usize) -> Result<Vec<u8>> {
        let page = self.page(rank);
        let mut len = 0;
        wait("an address", || {
            // Acquire: pairs with the Release store in `show_address`.
            len = page.line(1).load(0, Ordering::Acquire) as usize;
            len > 0
        })?;
        let view = page.bytes(2, len.min(MAX_ADDRESS)).expect("the page is that long");
        Ok(view.to_vec())
    }

    fn command(&self, number: u64, kind: u64, count: u32) {
        let word = number << 40 | kind << 32 | u64::from(count);
        // Release: pairs with the Acquire load in `sender`.
        self.page(0).line(0).store(0, word, Ordering::Release);
    }
}

/// Yields until `done`, or until patience ends.
pub(super) fn wait(what: &str, mut done: impl FnMut() -> bool) -> Result<()> {
    let start = Instant::now();
    while !done() {
        std::thread::yield_now();
        if start.elapsed() > PATIENCE {
            bail!("the other side does not come with {what}");
        }
    }
    Ok(())
}

fn open(job: JobMemory, rank: usize, form: usize, peers: u32) -> Result<Box<dyn Iface>> {
    let iface = Box::new(ShmIface::open(job, rank as u32, ShmOptions::default())?);
    Ok(match FORMS[form].1 {
        Form::Messages => iface,
        Form::Queue(form) => {
            let options = QueueOptions { form, slots: SLOTS, peers: peers + 2, rings: 16 };
            Box::new(QueueLane::open(iface, &options, rank as u64)?)
        }
        Form::Locked => Box::new(LockedLane::open(iface, SLOTS, rank as u16)?),
    })
}

/// Sends one message, and makes progress until there is space for it.
pub(super) fn send(
    lane: &mut dyn Iface,
    ep: EpId,
    sink: &mut Counter,
    value: u64,
    crowded: bool,
) -> Result<()> {
    loop {
        match lane.am_short(ep, AmId::new(1), &[1, 2, 3], &value.to_ne_bytes()) {
            Ok(()) => return Ok(()),
            Err(PostError::NoResource) => {
                lane.progress(sink, 16);
                if crowded {
                    std::thread::yield_now();
                }
            }
            Err(error) => bail!("a message was refused: {error}"),
        }
        ensure!(sink.failed.is_none(), "the peer has failed: {:?}", sink.failed);
    }
}

/// A sender, `FORM:RANK:SENDERS:PROCESSOR`.
pub(crate) fn sender(what: &str) -> Result<()> {
    let mut numbers = what.split(':').map(str::parse::<usize>);
    let mut next = || numbers.next().context("a number is missing")?.context("no number");
    let (form, rank, senders, cpu) = (next()?, next()?, next()?, next()?);
    ensure!(form < FORMS.len(), "no such form");
    pin(cpu);
    let crowded = cpu == 0 || senders > 1;
    let own = |fd: BorrowedFd<'_>| fd.try_clone_to_owned();
    let board = Board(Memory::open(own(std::io::stdout().as_fd())?)?);
    let job: OwnedFd = own(std::io::stdin().as_fd())?;
    let mut lane = open(JobMemory::open(job)?, rank, form, senders as u32)?;
    board.show_address(rank, &lane.address())?;
    let ep = lane.connect(&board.address(0)?)?;
    let mut sink = Counter::default();
    let mut last = 0;
    loop {
        let mut word = 0;
        let start = Instant::now();
        loop {
            // Acquire: pairs with the Release store in `command`.
            word = u64::max(word, board.page(0).line(0).load(0, Ordering::Acquire));
            if word >> 40 > last {
                break;
            }
            // What was accepted, and numbers and rings, may need progress.
            lane.progress(&mut sink, 16);
            std::thread::yield_now();
            ensure!(start.elapsed() < PATIENCE, "the receiver says nothing");
        }
        last = word >> 40;
        let count = word as u32;
        match word >> 32 & 0xff {
            STREAM => {
                for number in 0..u64::from(count) {
                    send(&mut *lane, ep, &mut sink, number, crowded)?;
                }
            }
            ECHO => {
                let before = sink.count;
                let mut answered = 0;
                let start = Instant::now();
                while answered < u64::from(count) {
                    lane.progress(&mut sink, 16);
                    while answered < sink.count - before {
                        answered += 1;
                        send(&mut *lane, ep, &mut sink, answered, crowded)?;
                    }
                    ensure!(start.elapsed() < PATIENCE, "the receiver sends nothing");
                }
            }
            _ => return Ok(()),
        }
    }
}

/// A receiver and its senders.
struct Job {
    children: Vec<Child>,
    board: Board,
    lane: Box<dyn Iface>,
    eps: Vec<EpId>,
    sink: Counter,
    number: u64,
}

impl Drop for Job {
    fn drop(&mut self) {
        self.number += 1;
        self.board.command(self.number, END, 0);
        let start = Instant::now();
        for child in &mut self.children {
            while matches!(child.try_wait(), Ok(None)) {
                // They may have messages to get rid of.
                self.lane.progress(&mut self.sink, 16);
                if start.elapsed() > Duration::from_secs(5) {
                    // Nothing can be done where even that is refused.
                    let _ = child.kill();
                    let _ = child.wait();
                }
                std::thread::yield_now();
            }
        }
    }
}

impl Job {
    fn start(form: usize, senders: usize, cpus: usize) -> Result<Self> {
        pin(0);
        let options = ShmOptions::default();
        let ranks = senders as u32 + 1;
        let spec = JobSpec { job_id: 1, ranks, first_rank: 0, area_bytes: options.area_bytes() };
        let memory = JobMemory::create_memfd(&spec)?;
        let board = Board(Memory::make((senders + 1) * PAGE)?);
        let fd = |region: &Region| -> Result<OwnedFd> {
            let fd = region.fd().ok_or_else(|| anyhow!("the memory has no descriptor"))?;
            Ok(fd.try_clone_to_owned()?)
        };
        let job_fd = fd(memory.region())?;
        let lane = open(memory, 0, form, senders as u32)?;
        board.show_address(0, &lane.address())?;
        let (children, eps) = (Vec::new(), Vec::new());
        let mut job = Self { children, board, lane, eps, sink: Counter::default(), number: 0 };
        let program = std::env::current_exe().context("cannot find this program")?;
        for rank in 1..=senders {
            let cpu = if cpus > 1 { 1 + (rank - 1) % (cpus - 1) } else { 0 };
            let child = Command::new(&program)
                .arg("--sender")
                .arg(format!("{form}:{rank}:{senders}:{cpu}"))
                .stdin(Stdio::from(job_fd.try_clone()?))
                .stdout(Stdio::from(fd(job.board.0.region())?))
                .spawn()
                .context("cannot start a sender")?;
            job.children.push(child);
        }
        for rank in 1..=senders {
            let address = job.board.address(rank)?;
            job.eps.push(job.lane.connect(&address)?);
        }
        Ok(job)
    }

    /// Progress until so many messages have come.
    fn receive(&mut self, until: u64) -> Result<()> {
        let (mut polls, start) = (0_u32, Instant::now());
        while self.sink.count < until {
            if self.lane.progress(&mut self.sink, 64) == 0 {
                polls = polls.wrapping_add(1);
                if polls.is_multiple_of(1 << 14) {
                    ensure!(start.elapsed() < PATIENCE, "messages do not come");
                    ensure!(self.sink.failed.is_none(), "a sender has failed");
                }
            }
        }
        Ok(())
    }

    /// Nanoseconds for each message, of which every sender sends `count` as fast as it can.
    fn stream(&mut self, count: u32) -> Result<f64> {
        let (before, sum) = (self.sink.count, self.sink.sum);
        let all = u64::from(count) * self.eps.len() as u64;
        self.number += 1;
        let start = Instant::now();
        self.board.command(self.number, STREAM, count);
        self.receive(before + all)?;
        let ns = start.elapsed().as_nanos() as f64 / all as f64;
        let each = u64::from(count) * (u64::from(count) - 1) / 2;
        let want = each * self.eps.len() as u64;
        ensure!(self.sink.sum.wrapping_sub(sum) == want, "messages were lost or changed");
        Ok(ns)
    }

    /// Nanoseconds of a message one way, half of a round trip with the only sender; a sample for each
    /// block.
    fn latency(&mut self, blocks: u32) -> Result<Vec<f64>> {
        self.number += 1;
        self.board.command(self.number, ECHO, BLOCK * (blocks + 1));
        let ep = self.eps[0];
        let mut samples = Vec::new();
        for block in 0..=blocks {
            let start = Instant::now();
            for number in 0..u64::from(BLOCK) {
                let before = self.sink.count;
                send(&mut *self.lane, ep, &mut self.sink, number, false)?;
                self.receive(before + 1)?;
            }
            // The first block starts before the other side has read its command.
            if block > 0 {
                samples.push(start.elapsed().as_nanos() as f64 / f64::from(2 * BLOCK));
            }
        }
        Ok(samples)
    }
}

fn processes(context: &Context) -> Result<Table> {
    let mut columns = vec!["what", "senders", "cpus"];
    columns.extend(FORMS.iter().map(|(name, _)| *name));
    let mut table = Table::new(
        "queue-processes",
        "the engine's lanes between processes over shared memory: time for each message of 8 bytes",
        &columns,
    );
    let cpus = context.cpus;
    let (rounds, blocks, count) = if context.quick { (3, 40, 4000) } else { (9, 200, 40_000) };
    let most = if context.quick { 8 } else { 16 };
    let mut chart =
        Chart::new("senders", Unit::None, "time for each message received", Unit::Nanoseconds);
    let rows: Vec<_> =
        std::iter::once(0).chain(SENDERS).filter(|&senders| senders <= most).collect();
    let mut ratio = None;
    for row in context.progress("queue-processes", rows) {
        let (one_way, senders) = (row == 0, row.max(1));
        let jobs = (0..FORMS.len()).map(|form| Job::start(form, senders, cpus));
        let mut jobs = jobs.collect::<Result<Vec<_>>>()?;
        let mut samples = vec![Vec::new(); FORMS.len()];
        for round in 0..=rounds {
            for nth in 0..FORMS.len() {
                let form = (round + nth) % FORMS.len();
                let job = &mut jobs[form];
                let sample = if one_way {
                    median(&job.latency(blocks)?)
                } else {
                    job.stream(count / senders as u32)?
                };
                // The first is for numbers of senders, and for rings to be offered.
                if round > 0 {
                    samples[form].push(sample);
                }
            }
        }
        let medians: Vec<f64> = samples.iter().map(|samples| median(samples)).collect();
        if one_way {
            let pairs = samples[SEQ].iter().zip(&samples[RING]);
            ratio = Some(median(&pairs.map(|(seq, ring)| seq / ring).collect::<Vec<_>>()));
        } else {
            for ((name, _), ns) in FORMS.iter().zip(&medians) {
                chart.point(name, senders as f64, *ns);
            }
        }
        let enough = if senders < cpus { "enough" } else { "too few" };
        let mut cells: Vec<Cell> = vec![
            if one_way { "one way" } else { "stream" }.into(),
            Cell::count(senders as u64),
            enough.into(),
        ];
        cells.extend(medians.into_iter().map(Cell::time));
        table.row(cells);
    }
    table.chart = Some(chart);
    table.note(format!(
        "There are {cpus} processors. The receiver has one, the senders share the others: where \
         they are too few, only as many senders as those run at a time, and a row shows how the queue \
         does when most of its senders have lost their processor, not how it scales."
    ));
    table.note(
        "one way: half of a round trip, of one sender. stream: every sender sends as fast as it can; \
         the receiver's time for each message. messages: the transport's own, by a ring in shared \
         memory; the others: its puts and atomics alone.",
    );
    if let Some(ratio) = ratio {
        table.goal(
            "8 bytes one way: scmp-seq at most 1.3 x the ring over the same puts",
            format!("{ratio:.2} x"),
            ratio <= 1.3,
        );
    }
    Ok(table)
}

/// The tables of this module.
pub(crate) const TABLES: &[Named] =
    &[("queue-processes", "many to one between processes, through the engine's lanes", processes)];
