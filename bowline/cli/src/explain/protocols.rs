//! The part of `bowline explain` about protocols: which one a message of a size takes, what that is
//! predicted to cost, and, after messages were really sent, which one carried them.

use std::fmt::Write;

use anyhow::{Context, Result};
use bowline::ucp::proto::{Op, ProtocolRange};
use bowline::ucp::{Envelope, Ep, LaneChoices, MatchSpec, RequestId, SendMode, Sent, Used, Worker};
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::config::show_bytes;
use serde::{Deserialize, Serialize};

/// The protocols of one lane.
#[derive(Debug, Serialize)]
pub(super) struct Protocols {
    transport: &'static str,
    /// What the choice was made from.
    figures: Vec<Known>,
    operations: Vec<Operation>,
    /// How long messages begin that go by what the last ones took.
    measured: Vec<First>,
}

/// A means of long messages, before any was measured.
#[derive(Debug, Serialize)]
struct First {
    operation: &'static str,
    from: u64,
    protocol: &'static str,
    /// Predicted for a message of `from` bytes.
    predicted_ns: f64,
    /// Messages that pay for its first trial; none for the one that is used at first.
    tried_after: Option<u32>,
}

#[derive(Debug, Serialize)]
struct Known {
    figure: String,
    /// Nanoseconds, or nanoseconds per byte.
    value: f64,
    origin: &'static str,
}

#[derive(Debug, Serialize)]
struct Operation {
    operation: &'static str,
    ranges: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    protocol: &'static str,
    from: u64,
    /// The last size; none where there is no end.
    to: Option<u64>,
    /// Predicted nanoseconds: this much, and more for each byte.
    fixed_ns: f64,
    per_byte_ns: f64,
    origin: &'static str,
}

impl Row {
    fn of(range: &ProtocolRange) -> Self {
        Self {
            protocol: range.protocol.name(),
            from: range.from,
            to: (range.to != u64::MAX).then_some(range.to),
            fixed_ns: range.fixed,
            per_byte_ns: range.per_byte,
            origin: range.origin.name(),
        }
    }
}

impl Protocols {
    /// Of these lanes, for one operation or all.
    pub(super) fn of(lane: &LaneChoices, only: Option<Op>) -> Self {
        let wanted = |op: Op| only.is_none_or(|only| only == op);
        let guesses = lane.first_guesses.iter().filter(|guess| wanted(guess.kind.op()));
        let measured = guesses.map(|guess| First {
            operation: guess.kind.op().name(),
            from: guess.from,
            protocol: guess.protocol,
            predicted_ns: guess.nanoseconds,
            tried_after: guess.tried_after,
        });
        let figures = lane.costs.figures().into_iter();
        let tables = lane.tables.iter().filter(|(op, _)| wanted(*op));
        Self {
            transport: lane.provider,
            measured: measured.collect(),
            figures: figures
                .map(|(figure, f)| Known { figure, value: f.value, origin: f.origin.name() })
                .collect(),
            operations: tables
                .map(|(op, table)| Operation {
                    operation: op.name(),
                    ranges: table.ranges().iter().map(Row::of).collect(),
                })
                .collect(),
        }
    }

    /// As a person reads it.
    pub(super) fn text(&self, out: &mut String) -> std::fmt::Result {
        for Operation { operation, ranges } in &self.operations {
            writeln!(out, "  {operation} over {}", self.transport)?;
            if ranges.is_empty() {
                writeln!(out, "      this transport carries none")?;
            }
            for row in ranges {
                let to = row.to.map_or_else(|| "on".to_owned(), |to| format!("to {to}"));
                let sizes = format!("{} {to}", row.from);
                let Row { protocol, fixed_ns, per_byte_ns, origin, .. } = row;
                writeln!(
                    out,
                    "      {sizes:<22} {protocol:<13} {fixed_ns:>8.0} ns + {per_byte_ns:.4} ns/byte  {origin}"
                )?;
            }
            self.measured_text(operation, out)?;
        }
        Ok(())
    }

    /// How long messages of an operation begin, and go on.
    fn measured_text(&self, operation: &str, out: &mut String) -> std::fmt::Result {
        let mut rows = self.measured.iter().filter(|row| row.operation == operation).peekable();
        if rows.peek().is_some() {
            writeln!(
                out,
                "      long ones begin alike to near and far ranks, then come by what takes least there; in brackets, how many pay for a first trial"
            )?;
        }
        while let Some(first) = rows.next() {
            let mut line = format!("      {:<22}", format!("{} on", first.from));
            let mut row = first;
            loop {
                let First { protocol, predicted_ns, .. } = row;
                write!(line, " {protocol} {predicted_ns:.0} ns")?;
                match row.tried_after {
                    None => write!(line, " at first")?,
                    Some(messages) => write!(line, " ({messages})")?,
                }
                match rows.next_if(|next| next.from == first.from) {
                    Some(next) => {
                        line.push(',');
                        row = next;
                    }
                    None => break,
                }
            }
            writeln!(out, "{line}")?;
        }
        Ok(())
    }
}

/// What carried one message.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Carried {
    size: u64,
    /// What the sender and the receiver counted.
    counted: Vec<String>,
}

impl Carried {
    pub(super) fn text(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "  sent {:>6}: {}", show_bytes(self.size), self.counted.join(", "))
    }
}

/// Where the messages of a try go.
const TAG: u64 = 1;

/// Where the message goes that is sent before them and counted by nobody: the first one to a peer takes
/// another transport than all that follow.
const GREETING: u64 = 2;

/// Answers to windows of messages.
const ANSWER: u64 = 3;

/// What is sent in a try.
#[derive(Clone, Debug)]
pub(super) struct Messages {
    /// Bytes, of one message or of so many as are repeated.
    pub(super) sizes: Vec<u64>,
    /// How many there are of each size.
    pub(super) repeat: u32,
    /// How many are sent before the first of them is answered.
    pub(super) window: u32,
}

impl Messages {
    /// How many each window of a size has.
    fn windows(&self) -> impl Iterator<Item = u32> + use<> {
        let (all, window) = (self.repeat, self.window);
        (0..all).step_by(window as usize).map(move |sent| window.min(all - sent))
    }

    /// Memory for the longest, never given back: where a wait fails, the operation may still name it.
    fn memory(&self) -> Result<&'static mut [u8]> {
        let longest = usize::try_from(self.sizes.iter().copied().max().unwrap_or(0))?;
        Ok(vec![0; longest].leak())
    }
}

/// The sender's part of a try: messages of each size, and what its counters say of them. All of a size are
/// sent from the same memory.
///
/// # Errors
/// When the peer has gone.
pub(super) fn send(
    worker: &Worker,
    ep: Ep,
    [own, peer]: [u32; 2],
    messages: &Messages,
) -> Result<Vec<Carried>> {
    let greeting = Envelope { space: 0, source: own, tag: GREETING };
    let buffer = SendBuf::owned(vec![0; 8]);
    if let Sent::Pending(id) = worker.send(ep, greeting, buffer, SendMode::Synchronous)? {
        worker.wait(id).outcome?;
    }
    let memory: &'static [u8] = messages.memory()?;
    let answer = MatchSpec { space: 0, source: Some(peer), tag: ANSWER, tag_mask: u64::MAX };
    let mut all = Vec::new();
    for &size in &messages.sizes {
        let before = worker.counters().protocols();
        let envelope = Envelope { space: 0, source: own, tag: TAG };
        let bytes = &memory[..usize::try_from(size)?];
        for window in messages.windows() {
            let mut pending = Vec::new();
            for _ in 0..window {
                // SAFETY: the memory is never given back, and nobody writes it.
                let buffer = unsafe { SendBuf::borrowed(bytes.as_ptr(), bytes.len()) };
                if let Sent::Pending(id) = worker.send(ep, envelope, buffer, SendMode::Standard)? {
                    pending.push(id);
                }
            }
            for id in pending {
                worker.wait(id).outcome?;
            }
            if messages.repeat > 1 {
                let id = worker.recv(answer, RecvBuf::empty())?;
                worker.wait(id).outcome?;
            }
        }
        all.push(Carried { size, counted: counted(worker, &before, "sender", |_| true) });
    }
    Ok(all)
}

/// The receiver's part. Receives of a window are posted before the window before is answered.
///
/// # Errors
/// When the sender has gone.
pub(super) fn receive(
    worker: &Worker,
    ep: Ep,
    [own, peer]: [u32; 2],
    messages: &Messages,
) -> Result<Vec<Carried>> {
    let from = |tag| MatchSpec { space: 0, source: Some(peer), tag, tag_mask: u64::MAX };
    let id = worker.recv(from(GREETING), RecvBuf::owned(vec![0; 8]))?;
    worker.wait(id).outcome?;
    let slots = (0..messages.window).map(|_| messages.memory());
    let mut slots = slots.collect::<Result<Vec<&'static mut [u8]>>>()?;
    let mut all = Vec::new();
    for &size in &messages.sizes {
        let before = worker.counters().protocols();
        let size_here = usize::try_from(size)?;
        let mut post = |window: u32| {
            let slots = slots.iter_mut().take(window as usize);
            let post = |slot: &mut &'static mut [u8]| {
                let to = &mut slot[..size_here];
                // SAFETY: the memory is never given back, nobody else reads or writes it, and the receive before
                // into this slot was waited for: windows are posted one after the other.
                let buffer = unsafe { RecvBuf::borrowed(to.as_mut_ptr(), to.len()) };
                Ok(worker.recv(from(TAG), buffer)?)
            };
            slots.map(post).collect::<Result<Vec<RequestId>>>()
        };
        let mut windows = messages.windows();
        let mut open = windows.next().map_or_else(|| Ok(Vec::new()), &mut post)?;
        while !open.is_empty() {
            for id in open {
                worker.wait(id).outcome?;
            }
            open = windows.next().map_or_else(|| Ok(Vec::new()), &mut post)?;
            if messages.repeat > 1 {
                let envelope = Envelope { space: 0, source: own, tag: ANSWER };
                let sent = worker.send(ep, envelope, SendBuf::empty(), SendMode::Standard)?;
                if let Sent::Pending(id) = sent {
                    worker.wait(id).outcome?;
                }
            }
        }
        // What it sends are answers.
        let is_theirs = |used: &Used| used.side == "received";
        all.push(Carried { size, counted: counted(worker, &before, "receiver", is_theirs) });
    }
    Ok(all)
}

/// Both sides' parts together.
///
/// # Errors
/// When what the peer sent is damaged.
pub(super) fn join(mut mine: Vec<Carried>, theirs: &[u8]) -> Result<Vec<Carried>> {
    let theirs: Vec<Carried> =
        serde_json::from_slice(theirs).context("a peer's answer is damaged")?;
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        mine.counted.extend(theirs.counted);
    }
    Ok(mine)
}

/// The protocols that have carried something since `before`, by the names that the table has.
fn counted(
    worker: &Worker,
    before: &[Used],
    side: &str,
    wanted: impl Fn(&Used) -> bool,
) -> Vec<String> {
    let now = worker.counters().protocols().into_iter().filter(wanted);
    let more = now.filter_map(|used| {
        let same = |old: &&Used| (old.side, old.protocol) == (used.side, used.protocol);
        let count = used.count - before.iter().find(same).map_or(0, |old| old.count);
        (count > 0).then(|| format!("{count} {} ({side})", used.protocol))
    });
    more.collect()
}
