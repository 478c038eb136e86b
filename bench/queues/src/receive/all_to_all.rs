//! What a process takes of memory when all send to all, as the thesis measures it: its resident memory after a message
//! of every other process, less that before it had a queue.
//!
//! Each process is this program again. They talk by TCP, so that no memory of one is another's, as it would be in shared
//! memory: by the transport's messages, by SCMP, by SCMP with rings for some, and by a mailbox for each process.
//! There is one node, so that mailboxes of nodes would be one for all here; they are in `queue-memory`.
//!
//! The thesis asks `getrusage` (`ru_maxrss`, which is `VmHWM` of `/proc/self/status`). Linux counts that on each
//! processor by itself and adds up now and then, so that it is wrong by up to 32 pages for each processor. Hence the
//! memory that a process has to itself is taken from its page tables too (`Private_Dirty` of `/proc/self/smaps_rollup`).

use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use bowline_base::sync::atomic::Ordering;
use bowline_base::words::{LineWords as _, Words as _};
use bowline_receive_queue::{QueueForm, QueueLane, QueueOptions};
use bowline_tcp::{TcpIface, TcpOptions};
use bowline_uct::Iface;

use super::forms::SLOTS;
use super::latency::Memory;
use super::memory::PER_NODE;
use super::processes::{Board, Counter, PAGE, PATIENCE, send, wait};
use crate::clock::median;
use crate::table::{Cell, Chart, Table, Unit};
use crate::{Context, Named};

/// What carries the messages, by the number that travels.
const FORMS: [(&str, Option<QueueForm>); 4] = [
    ("messages", None),
    ("scmp", Some(QueueForm::Scmp)),
    ("scmp-rings", Some(QueueForm::ScmpRings)),
    ("mailboxes", Some(QueueForm::Ring)),
];

const SCMP: usize = 1;
const MAILBOXES: usize = 3;

/// Slots of a mailbox.
const MAILBOX: u32 = 128;

fn open(form: usize, rank: usize, size: usize) -> Result<Box<dyn Iface>> {
    let tcp = Box::new(TcpIface::open(TcpOptions::with_secret([0x2a; 32]))?);
    let Some(form) = FORMS[form].1 else { return Ok(tcp) };
    let options = options(form, size as u32);
    Ok(Box::new(QueueLane::open(tcp, &options, rank as u64)?))
}

/// A lane of so many processes.
fn options(form: QueueForm, size: u32) -> QueueOptions {
    match form {
        QueueForm::Ring => QueueOptions { form, slots: MAILBOX, peers: size, rings: 0 },
        _ => QueueOptions { form, slots: SLOTS, peers: 1 << 16, rings: 16 },
    }
}

/// Memory of this process, in KB.
#[derive(Clone, Copy, Debug)]
struct Resident {
    /// Written pages that nobody else has.
    private: u64,
    /// The most that was ever resident.
    most: u64,
}

impl Resident {
    fn now() -> Result<Self> {
        let line = |file: &str, name: &str| -> Result<u64> {
            let text = std::fs::read_to_string(file)?;
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next());
            Ok(number.with_context(|| format!("there is no {name} in {file}"))?.parse()?)
        };
        Ok(Self {
            private: line("/proc/self/smaps_rollup", "Private_Dirty:")?,
            most: line("/proc/self/status", "VmHWM:")?,
        })
    }
}

/// A process, `FORM:RANK:SIZE`.
pub(crate) fn member(what: &str) -> Result<()> {
    let mut numbers = what.split(':').map(str::parse::<usize>);
    let mut next = || numbers.next().context("a number is missing")?.context("no number");
    let (form, rank, size) = (next()?, next()?, next()?);
    ensure!(form < FORMS.len() && rank < size, "no such form or rank");
    let fd: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned()?;
    let board = Board(Memory::open(fd)?);
    let before = Resident::now()?;
    let mut lane = open(form, rank, size)?;
    board.show_address(rank, &lane.address())?;
    let mut eps = Vec::new();
    for peer in (1..size).map(|step| (rank + step) % size) {
        let address = board.address(peer)?;
        eps.push(lane.connect(&address)?);
    }
    let mut sink = Counter::default();
    for ep in eps {
        send(&mut *lane, ep, &mut sink, 1, true)?;
    }
    // Acquire: pairs with the Release addition below.
    let done = |board: &Board| board.page(0).line(0).load(0, Ordering::Acquire);
    let mut said = false;
    let all = wait("its messages", || {
        lane.progress(&mut sink, 64);
        if !said && sink.count == size as u64 - 1 && lane.all_sent() {
            said = true;
            // Release: pairs with the Acquire load in `done`; only the count is passed.
            board.page(0).line(0).fetch_add(0, 1, Ordering::Release);
        }
        // Acquire in `done`. Others may need this one's progress until all are done.
        done(&board) >= size as u64
    });
    all.with_context(|| {
        let (count, sent) = (sink.count, lane.all_sent());
        format!(
            "rank {rank}: {count} messages of {}, all sent: {sent}, {:?}",
            size - 1,
            sink.failed
        )
    })?;
    ensure!(sink.sum == size as u64 - 1, "messages were lost or changed");
    let page = board.page(rank);
    let line = page.line(1);
    let after = Resident::now()?;
    let grown = [after.private.saturating_sub(before.private), after.most - before.most];
    for (word, grown) in grown.into_iter().enumerate() {
        // Relaxed: the parent reads it after the process has ended.
        line.store(1 + word, grown, Ordering::Relaxed);
    }
    Ok(())
}

/// By how many KB a process has grown, in pages of its own and in the most that was resident: medians.
fn measure(form: usize, size: usize) -> Result<[f64; 2]> {
    let board = Board(Memory::make(size * PAGE)?);
    let fd = board.0.region().fd().ok_or_else(|| anyhow!("the memory has no descriptor"))?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let start = Instant::now();
    let mut children: Vec<Child> = Vec::new();
    for rank in 0..size {
        let child = Command::new(&program)
            .arg("--member")
            .arg(format!("{form}:{rank}:{size}"))
            .stdin(Stdio::from(fd.try_clone_to_owned()?))
            .spawn();
        match child {
            Ok(child) => children.push(child),
            Err(error) => {
                end(&mut children);
                return Err(error).context("cannot start a process");
            }
        }
    }
    let mut running = children.len();
    let mut failed = false;
    while running > 0 && !failed {
        std::thread::sleep(std::time::Duration::from_millis(2));
        running = 0;
        for child in &mut children {
            match child.try_wait()? {
                None => running += 1,
                Some(status) => failed |= !status.success(),
            }
        }
        failed |= start.elapsed() > 2 * PATIENCE;
    }
    end(&mut children);
    if failed {
        bail!("a process has failed, or did not end: {} of {size}", FORMS[form].0);
    }
    Ok([1, 2].map(|word| {
        // Relaxed: the processes have ended.
        let of = |rank| board.page(rank).line(1).load(word, Ordering::Relaxed) as f64;
        median(&(0..size).map(of).collect::<Vec<_>>())
    }))
}

/// Ends those that run yet.
fn end(children: &mut [Child]) {
    for child in children {
        // Nothing can be done where that is refused.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Bytes of the memory in which a form receives of so many peers, and what it keeps of them.
fn computed(form: QueueForm, peers: u32) -> Result<usize> {
    let receive = options(form, peers + 1).receive_bytes(peers);
    let receive = receive.context("the lane has numbers for all")?;
    Ok(receive + peers as usize * QueueOptions::bytes_of_a_peer())
}

fn all_to_all(context: &Context) -> Result<Table> {
    let mut columns = vec!["processes"];
    columns.extend(FORMS.iter().map(|form| form.0));
    columns.extend([
        "scmp adds",
        "ru_maxrss",
        "computed",
        "mailboxes add",
        "ru_maxrss",
        "computed",
    ]);
    let mut table = Table::new(
        "queue-all-to-all",
        "growth of a process's resident memory when all send to all, over TCP",
        &columns,
    );
    let mut chart = Chart::new("processes", Unit::None, "growth of resident memory", Unit::Bytes);
    let sizes: &[usize] = if context.quick { &[2, 8, 32] } else { &[2, 4, 8, 16, 32, 64, 128] };
    let (rounds, mut even) = (if context.quick { 1 } else { 3 }, None);
    for size in context.progress("queue-all-to-all", sizes.to_vec()) {
        let mut samples = vec![[Vec::new(), Vec::new()]; FORMS.len()];
        for _ in 0..rounds {
            for (form, samples) in samples.iter_mut().enumerate() {
                let grown = measure(form, size)?;
                samples.iter_mut().zip(grown).for_each(|(samples, kb)| samples.push(kb));
            }
        }
        let grown: Vec<[f64; 2]> =
            samples.iter().map(|samples| [0, 1].map(|at| median(&samples[at]))).collect();
        let mut cells = vec![Cell::count(size as u64)];
        for (grown, (name, _)) in grown.iter().zip(FORMS) {
            chart.point(name, size as f64, grown[0] * 1024.0);
            cells.push(Cell::number(grown[0], 0, " KB"));
        }
        for (at, form) in [(SCMP, QueueForm::Scmp), (MAILBOXES, QueueForm::Ring)] {
            cells.extend(
                [0, 1].map(|kind| Cell::number(grown[at][kind] - grown[0][kind], 0, " KB")),
            );
            cells.push(Cell::number(computed(form, size as u32 - 1)? as f64 / 1024.0, 0, " KB"));
        }
        if grown[SCMP][0] < grown[MAILBOXES][0] {
            even = even.or(Some(size));
        }
        table.row(cells);
    }
    table.chart = Some(chart);
    table.note(format!(
        "One message of every process to every other one; medians over the processes and {rounds} rounds. The first \
         columns are pages that the process has written and has to itself. messages: TCP's own. mailboxes: a ring of {MAILBOX} \
         slots for each process. adds: what the queue adds to the same connections. ru_maxrss: the same by getrusage, which Linux \
         knows to 32 pages for each processor only. computed: all bytes that peers reach, and what is kept of peers; of these, pages \
         are resident when they were written, so that one message does not show all of a mailbox or of a half."
    ));
    let mailbox = computed(QueueForm::Ring, 2)? - computed(QueueForm::Ring, 1)?;
    let own = computed(QueueForm::Scmp, 0)?;
    let each = (computed(QueueForm::Scmp, SLOTS)? - own) / SLOTS as usize;
    table.note(format!(
        "SCMP takes less than mailboxes from {} processes on as measured; from {} on by formula 6.1 with these sizes, in which a \
         peer takes {each} bytes by SCMP, which has {own} without one, and {mailbox} by mailboxes. By formula 6.2 with nodes of \
         {PER_NODE}: from {}. Published, by the same formulas: 56 and 73, with mailboxes of other sizes.",
        even.map_or_else(|| "more".to_owned(), |size| size.to_string()),
        own.div_ceil(mailbox - each),
        own.div_ceil(mailbox) * PER_NODE as usize + 1,
    ));
    table.note(
        "Published (chapter 6, its memory): smsg holds far more than msgq, and that more than the lock and SCMP, which are flat but for a \
         step where a pool of the matching engine is enlarged; by up to thousands of processes of 24 a node, whose \
         memory was counted with the whole MPI library.",
    );
    Ok(table)
}

/// The tables of this module.
pub(crate) const TABLES: &[Named] =
    &[("queue-all-to-all", "memory of processes that all send to all", all_to_all)];
