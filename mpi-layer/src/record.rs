//! What a rank communicates, written down as it happens: for a simulator that runs it again on another network.
//!
//! A record is lines of JSON, one file for each rank; `bowline_model::fennel::job` has the format and reads it. Times are
//! nanoseconds since the world was made. Rules:
//! 1. A rank that is not recorded pays a predictable branch for each operation, and nothing in the short way of a send:
//!    a recorded rank keeps its endpoints elsewhere, so that this way is not taken.
//! 2. A receive is written down when the program learns of its end. Whoever waits says so first, so that waiting is not
//!    taken for computing.
//! 3. Nothing that goes wrong with a file disturbs the job.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::{Debug, Display};
use std::io::{BufWriter, Write};
use std::time::Instant;

use bowline_ucp::{Envelope, Ep, MatchSpec, RequestId};

use crate::comm::CommInner;
use crate::consts::{ANY_SOURCE, ANY_TAG};
use crate::tags;

/// The record of a rank.
pub(crate) struct Record(RefCell<Inner>);

struct Inner {
    /// None once it could not be written.
    out: Option<BufWriter<Box<dyn Write>>>,
    began: Instant,
    /// When the program came for what is not written down yet.
    entered: Option<u64>,
    /// The communicators so far, by context and generation, with their numbers here.
    comms: HashMap<(u32, u32), u32>,
    /// Whom endpoints lead to, and which endpoint leads to whom.
    ranks: HashMap<Ep, u32>,
    endpoints: HashMap<u32, Ep>,
    /// Receives under way, with their communicators.
    posted: HashMap<RequestId, u32>,
    /// Collectives that the rank is inside of; their waits are theirs.
    nested: u32,
}

/// Guard of one call of a collective. Its line is written when this is dropped, but for calls inside of another
/// collective.
pub(crate) struct Told<'a> {
    comm: &'a CommInner,
    what: &'static str,
    how: How,
}

enum How {
    /// By an algorithm.
    Collective { how: String, bytes: usize, root: u32, later: bool },
    /// Messages to neighbours and from them: ranks and bytes.
    Edges { sends: Vec<(u32, usize)>, receives: Vec<(u32, usize)> },
}

/// The tag of messages between neighbours; those of programs are less.
const NEIGHBORS: u32 = u32::MAX;

impl Record {
    /// A record that goes to `out`.
    pub(crate) fn new(out: Box<dyn Write>, rank: u32, size: u32) -> Self {
        let mut inner = Inner {
            out: Some(BufWriter::with_capacity(1 << 16, out)),
            began: Instant::now(),
            entered: None,
            comms: HashMap::new(),
            ranks: HashMap::new(),
            endpoints: HashMap::new(),
            posted: HashMap::new(),
            nested: 0,
        };
        inner.line(format_args!(
            "{{\"format\":\"bowline record\",\"version\":1,\"rank\":{rank},\"size\":{size}}}"
        ));
        Self(RefCell::new(inner))
    }

    /// The program has come to communicate.
    pub(crate) fn enter(&self) {
        let mut inner = self.0.borrow_mut();
        if inner.nested == 0 {
            let now = inner.now();
            inner.entered.get_or_insert(now);
        }
    }

    /// The program goes on. What it came for is written down, or has only taken time.
    pub(crate) fn leave(&self) {
        let mut inner = self.0.borrow_mut();
        if inner.nested == 0 && inner.entered.is_some() {
            inner.event("\"wait\":true");
        }
    }

    /// A communicator is there.
    pub(crate) fn opened(&self, comm: &CommInner) {
        let mut inner = self.0.borrow_mut();
        let number = inner.comms.len() as u32;
        inner.comms.insert((comm.context(), comm.generation), number);
        let members: Vec<String> = comm.group.world_ranks().map(|rank| rank.to_string()).collect();
        let (generation, members) = (comm.generation, members.join(","));
        inner.line(format_args!(
            "{{\"comm\":{number},\"generation\":{generation},\"members\":[{members}]}}"
        ));
    }

    /// The endpoint of a rank of the world, which is kept here.
    pub(crate) fn endpoint(&self, world_rank: u32) -> Option<Ep> {
        self.0.borrow().endpoints.get(&world_rank).copied()
    }

    /// A rank of the world has an endpoint.
    pub(crate) fn connected(&self, world_rank: u32, ep: Ep) {
        let mut inner = self.0.borrow_mut();
        inner.ranks.insert(ep, world_rank);
        inner.endpoints.insert(world_rank, ep);
    }

    /// A message of the program's was sent.
    pub(crate) fn sent(&self, ep: Ep, envelope: &Envelope, bytes: usize) {
        let mut inner = self.0.borrow_mut();
        let Some(comm) = inner.program(envelope.space, envelope.tag) else { return };
        let to = inner.ranks.get(&ep).copied().unwrap_or(u32::MAX);
        let tag = tags::user(envelope.tag);
        inner.event(format_args!("\"send\":{to},\"comm\":{comm},\"tag\":{tag},\"bytes\":{bytes}"));
    }

    /// A receive of the program's is under way.
    pub(crate) fn posted(&self, id: RequestId, spec: &MatchSpec) {
        let mut inner = self.0.borrow_mut();
        if let Some(comm) = inner.program(spec.space, spec.tag) {
            inner.posted.insert(id, comm);
        }
    }

    /// An operation has ended; if it is a receive of the program's, it is written down.
    pub(crate) fn ended(&self, id: RequestId, status: &bowline_ucp::Status) {
        let mut inner = self.0.borrow_mut();
        if let Some(comm) = inner.posted.remove(&id)
            && status.outcome.is_ok()
        {
            inner.received(comm, status.source, status.tag, status.length);
        }
    }

    /// A message was received for which nothing was under way.
    pub(crate) fn received(&self, spec: &MatchSpec, source: u32, tag: u64, length: u64) {
        let mut inner = self.0.borrow_mut();
        if let Some(comm) = inner.program(spec.space, tag) {
            inner.received(comm, source, tag, length);
        }
    }

    /// The rank leaves.
    pub(crate) fn finish(&self) {
        let mut inner = self.0.borrow_mut();
        let now = inner.now();
        inner.line(format_args!("{{\"end\":{now}}}"));
        if let Some(out) = &mut inner.out
            && let Err(error) = out.flush()
        {
            tracing::warn!(%error, "the end of a record could not be written");
        }
    }
}

impl Inner {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The number of the communicator whose point-to-point messages are in a space; none where collectives or the
    /// library itself use it.
    fn program(&self, space: u32, tag: u64) -> Option<u32> {
        let context = space.is_multiple_of(2).then_some(space / 2)?;
        self.comms.get(&(context, tags::generation(tag))).copied()
    }

    fn received(&mut self, comm: u32, source: u32, tag: u64, length: u64) {
        let tag = tags::user(tag);
        self.event(format_args!(
            "\"recv\":{source},\"comm\":{comm},\"tag\":{tag},\"bytes\":{length}"
        ));
    }

    /// Something that ends now.
    fn event(&mut self, what: impl Display) {
        let now = self.now();
        let at = self.entered.take().unwrap_or(now);
        self.line(format_args!("{{\"at\":{at},\"till\":{now},{what}}}"));
    }

    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        let Some(out) = &mut self.out else { return };
        if let Err(error) = writeln!(out, "{text}") {
            tracing::warn!(%error, "a record cannot be written, and ends here");
            self.out = None;
        }
    }
}

impl CommInner {
    /// A receive of a message that was claimed is under way.
    pub(crate) fn claimed(&self, id: RequestId) {
        if let Some(record) = self.process.record()
            && let Some(spec) = self.accepted(ANY_SOURCE, ANY_TAG)
        {
            record.posted(id, &spec);
        }
    }

    /// Begins a collective, if this rank is recorded: it is written down when what this gives is dropped. `later`: the
    /// call only makes or starts it.
    #[inline]
    pub(crate) fn told(
        &self,
        what: &'static str,
        how: &dyn Debug,
        (bytes, root): (usize, u32),
        later: bool,
    ) -> Option<Told<'_>> {
        let record = self.process.record()?;
        record.enter();
        record.0.borrow_mut().nested += 1;
        let how = How::Collective { how: format!("{how:?}"), bytes, root, later };
        Some(Told { comm: self, what, how })
    }

    /// Begins an exchange between neighbours, which is written down as the messages that this rank sends and receives:
    /// others do not know the edges.
    pub(crate) fn told_edges(
        &self,
        what: &'static str,
        sends: impl Iterator<Item = (u32, usize)>,
        receives: impl Iterator<Item = (u32, usize)>,
    ) -> Option<Told<'_>> {
        let record = self.process.record()?;
        record.enter();
        record.0.borrow_mut().nested += 1;
        let how = How::Edges { sends: sends.collect(), receives: receives.collect() };
        Some(Told { comm: self, what, how })
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        let Self { comm, what, how } = self;
        let Some(record) = comm.process.record() else { return };
        let mut inner = record.0.borrow_mut();
        inner.nested -= 1;
        if inner.nested > 0 {
            // A part of another one.
            return;
        }
        let Some(&number) = inner.comms.get(&(comm.context(), comm.generation)) else { return };
        match how {
            How::Collective { how, bytes, root, later } => {
                // Names of algorithms have letters, digits and brackets only, but a schedule is a list of structures.
                let how: String =
                    how.chars().filter(|letter| !matches!(letter, '"' | '\\')).take(80).collect();
                inner.event(format_args!(
                    "\"coll\":\"{what}\",\"how\":\"{how}\",\"comm\":{number},\"bytes\":{bytes},\"root\":{root},\"later\":{later}"
                ));
            }
            How::Edges { sends, receives } => {
                // The first line has the time of the call, which is communication and no computing.
                for &(to, bytes) in &*sends {
                    let to = comm.group.world_rank(to).unwrap_or(u32::MAX);
                    inner.event(format_args!(
                        "\"send\":{to},\"comm\":{number},\"tag\":{NEIGHBORS},\"bytes\":{bytes},\"of\":\"{what}\""
                    ));
                }
                for &(from, bytes) in &*receives {
                    inner.event(format_args!(
                        "\"recv\":{from},\"comm\":{number},\"tag\":{NEIGHBORS},\"bytes\":{bytes},\"of\":\"{what}\""
                    ));
                }
                if sends.is_empty() && receives.is_empty() {
                    inner.event("\"wait\":true");
                }
            }
        }
    }
}
