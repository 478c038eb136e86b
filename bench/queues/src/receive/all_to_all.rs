//! What a process takes of memory when all send to all, as the thesis measures it: its resident memory after a message
//! of every other process, less that before it had a queue.
//!
//! Each process is this program again. They talk by TCP, so that no memory of one is another's, as it would be in shared
//! memory: by the transport's messages, by SCMP, by SCMP with rings for some, by a mailbox for each process, and by a
//! mailbox for each node (the thesis's msgq; `leaders.rs`), where some of the processes count as a node.
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
use super::leaders::{Place, Waiting};
use super::memory::PER_NODE;
use super::processes::{Board, Counter, PAGE, PATIENCE, send, wait};
use crate::clock::median;
use crate::table::{Cell, Chart, Table, Unit};
use crate::{Context, Named};

/// What carries the messages.
struct Form {
    name: &'static str,
    /// None: the transport's own.
    queue: Option<QueueForm>,
    /// Whether one process of each node sends for all that are there.
    by_leaders: bool,
}

const fn form(name: &'static str, queue: Option<QueueForm>, by_leaders: bool) -> Form {
    Form { name, queue, by_leaders }
}

/// All of them, by the number that travels.
const FORMS: [Form; 6] = [
    form("messages", None, false),
    form("scmp", Some(QueueForm::Scmp), false),
    form("scmp-rings", Some(QueueForm::ScmpRings), false),
    form("mailboxes", Some(QueueForm::Ring), false),
    form("by leaders", None, true),
    form("nodes", Some(QueueForm::Ring), true),
];

const MESSAGES: usize = 0;
const SCMP: usize = 1;
const MAILBOXES: usize = 3;
const BY_LEADERS: usize = 4;
const NODES: usize = 5;

/// Slots of a mailbox.
const MAILBOX: u32 = 128;

fn open(form: &Form, rank: usize, size: usize) -> Result<Box<dyn Iface>> {
    let tcp = Box::new(TcpIface::open(TcpOptions::with_secret([0x2a; 32]))?);
    let Some(queue) = form.queue else { return Ok(tcp) };
    // A leader sends to all.
    let leads = rank.is_multiple_of(PER_NODE as usize);
    let peers = if form.by_leaders && !leads { nodes(size) } else { size };
    Ok(Box::new(QueueLane::open(tcp, &options(queue, peers as u32), rank as u64)?))
}

const fn nodes(size: usize) -> usize {
    size.div_ceil(PER_NODE as usize)
}

/// A lane of so many peers.
fn options(form: QueueForm, peers: u32) -> QueueOptions {
    match form {
        QueueForm::Ring => QueueOptions { form, slots: MAILBOX, peers, rings: 0 },
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
    let form = &FORMS[form];
    let mut lane = open(form, rank, size)?;
    board.show_address(rank, &lane.address())?;
    let per_node = if form.by_leaders { PER_NODE as usize } else { 1 };
    let place = Place { board: &board, rank, size, per_node };
    let eps = place.connect(&mut *lane)?;
    let mut sink = Counter::default();
    let mut waiting = Waiting::default();
    for peer in place.others() {
        match eps.get(&peer) {
            Some(&ep) => send(&mut *lane, ep, &mut sink, 1, true)?,
            None => waiting.add(peer),
        }
    }
    // Acquire: pairs with the Release addition below.
    let done = |board: &Board| board.page(0).line(0).load(0, Ordering::Acquire);
    let (mut said, mut refused) = (false, Ok(()));
    let all = wait("its messages", || {
        lane.progress(&mut sink, 64);
        if refused.is_ok() {
            refused = place.serve(&mut *lane, &eps, &mut sink);
        }
        let handed = place.hand_over(&mut waiting);
        if !said && handed && sink.count == size as u64 - 1 && lane.all_sent() {
            said = true;
            // Release: pairs with the Acquire load in `done`; only the count is passed.
            board.page(0).line(0).fetch_add(0, 1, Ordering::Release);
        }
        // Acquire in `done`. Others may need this one's progress until all are done.
        refused.is_err() || done(&board) >= size as u64
    });
    refused?;
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
        bail!("a process has failed, or did not end: {} of {size}", FORMS[form].name);
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

/// Bytes of the memory in which a queue receives of so many senders, and what it keeps of them.
fn computed(form: QueueForm, senders: u32) -> Result<usize> {
    let receive = options(form, senders + 1).receive_bytes(senders);
    let receive = receive.context("the lane has numbers for all")?;
    Ok(receive + senders as usize * QueueOptions::bytes_of_a_peer())
}

fn all_to_all(context: &Context) -> Result<Table> {
    let mut columns = vec!["processes"];
    columns.extend(FORMS.iter().map(|form| form.name));
    for adds in ["scmp adds", "mailboxes add", "nodes add"] {
        columns.extend([adds, "ru_maxrss", "computed"]);
    }
    let mut table = Table::new(
        "queue-all-to-all",
        "growth of a process's resident memory when all send to all, over TCP",
        &columns,
    );
    let mut chart = Chart::new("processes", Unit::None, "growth of resident memory", Unit::Bytes);
    let sizes: &[usize] = if context.quick { &[2, 8, 32] } else { &[2, 4, 8, 16, 32, 64, 128] };
    let rounds = if context.quick { 1 } else { 3 };
    // From how many processes on SCMP adds less than mailboxes of processes, and than those of nodes.
    let mut even = [None; 2];
    for size in context.progress("queue-all-to-all", sizes.to_vec()) {
        let mut samples = [const { [Vec::new(), Vec::new()] }; FORMS.len()];
        for _ in 0..rounds {
            for (form, samples) in samples.iter_mut().enumerate() {
                let grown = measure(form, size)?;
                samples.iter_mut().zip(grown).for_each(|(samples, kb)| samples.push(kb));
            }
        }
        let grown = samples.map(|samples| samples.map(|samples| median(&samples)));
        let mut cells = vec![Cell::count(size as u64)];
        for (grown, form) in grown.iter().zip(&FORMS) {
            chart.point(form.name, size as f64, grown[0] * 1024.0);
            cells.push(Cell::number(grown[0], 0, " KB"));
        }
        let adds =
            |form: usize, beside: usize| [0, 1].map(|kind| grown[form][kind] - grown[beside][kind]);
        let added = [adds(SCMP, MESSAGES), adds(MAILBOXES, MESSAGES), adds(NODES, BY_LEADERS)];
        let peers = size as u32 - 1;
        let computed = [
            computed(QueueForm::Scmp, peers)?,
            computed(QueueForm::Ring, peers)?,
            computed(QueueForm::Ring, nodes(size) as u32)?,
        ];
        for (added, computed) in added.iter().zip(computed) {
            cells.extend(added.map(|kb| Cell::number(kb, 0, " KB")));
            cells.push(Cell::number(computed as f64 / 1024.0, 0, " KB"));
        }
        for (even, others) in even.iter_mut().zip(&added[1..]) {
            let less = added[0][0] < others[0];
            *even = if less { even.or(Some(size)) } else { None };
        }
        table.row(cells);
    }
    table.chart = Some(chart);
    table.note(format!(
        "One message of every process to every other one; medians over the processes and {rounds} rounds. The first \
         columns are pages that the process has written and has to itself. messages: TCP's own. mailboxes: a ring of {MAILBOX} \
         slots for each process. by leaders, nodes: the first of {PER_NODE} processes has all connections and sends for them; what they \
         hand to it lies in memory that is not counted; nodes have a ring for each node, as the thesis's msgq. adds: what the queue adds to the same connections. ru_maxrss: the same by getrusage, which Linux \
         knows to 32 pages for each processor only. computed: all bytes that peers reach, and what is kept of peers; of these, pages \
         are resident when they were written, so that one message does not show all of a mailbox or of a half."
    ));
    let mailbox = computed(QueueForm::Ring, 2)? - computed(QueueForm::Ring, 1)?;
    let own = computed(QueueForm::Scmp, 0)?;
    let each = (computed(QueueForm::Scmp, SLOTS)? - own) / SLOTS as usize;
    let [even, even_nodes] = even.map(|even| even.map_or("more".to_owned(), |n| n.to_string()));
    table.note(format!(
        "SCMP takes less than mailboxes from {even} processes on as measured; from {} on by formula 6.1 with these sizes, in which a \
         peer takes {each} bytes by SCMP, which has {own} without one, and {mailbox} by mailboxes. It takes less than mailboxes of nodes of \
         {PER_NODE} from {even_nodes} on as measured, from {} on by formula 6.2, which leaves out what peers take. Published, by the same \
         formulas: 56 and 73, with mailboxes of other sizes.",
        own.div_ceil(mailbox - each),
        own.div_ceil(mailbox) * PER_NODE as usize + 1,
    ));
    table.note(
        "Published (chapter 6, the measurement to which figure 6.8 is compared): smsg holds far more than msgq, and that more than the lock and SCMP, which are flat but for a \
         step where a pool of the matching engine is enlarged; by up to thousands of processes of 24 a node, whose \
         memory was counted with the whole MPI library.",
    );
    Ok(table)
}

/// The tables of this module.
pub(crate) const TABLES: &[Named] =
    &[("queue-all-to-all", "memory of processes that all send to all", all_to_all)];
