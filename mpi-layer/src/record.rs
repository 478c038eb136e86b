//! What a rank communicates, written down as it happens: for a simulator that runs it again on another network.
//!
//! A record is lines of JSON, one file for each rank; `bowline_model::fennel::job` has the format and reads it. Times are
//! nanoseconds since the world was made. Rules:
//! 1. A rank that is not recorded pays a predictable branch for each operation, and nothing in the short path of a send:
//!    a recorded rank keeps its endpoints elsewhere, so that this path is not taken.
//! 2. A receive is written down when the program learns of its end. A wait is noted first, so that waiting is not
//!    taken for computing.
//! 3. A blocking collective is written down when it has ended, another one at each of its starts, with a number, and when
//!    the program has learned of its end. What such an exchange between neighbours sends stands at its start, and what it
//!    receives at its end.
//! 4. Lines are written out whole, at the first line or call that comes `KEPT_NS` after they were last written out: the
//!    record of a rank that is killed lacks at most the lines of so long a time.
//! 5. Nothing that goes wrong with a file disturbs the job.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::{Display, Write as _};
use std::io::{BufWriter, Write};
use std::time::Instant;

use bowline_ucp::{Envelope, Ep, MatchSpec, RequestId};

use crate::group::Group;
use crate::tags;

/// The record of a rank.
pub(crate) struct Record(RefCell<Inner>);

struct Inner {
    /// None once it could not be written.
    out: Option<BufWriter<Box<dyn Write>>>,
    /// The line that is being made.
    text: String,
    began: Instant,
    /// When lines were last written out.
    flushed: u64,
    /// When the program came for what is not written down yet.
    entered: Option<u64>,
    /// The communicators so far, by context and generation, with their numbers here.
    comms: HashMap<(u32, u32), u32>,
    /// Whom endpoints lead to, and which endpoint leads to whom.
    ranks: HashMap<Ep, u32>,
    endpoints: HashMap<u32, Ep>,
    /// Receives under way, with their communicators.
    posted: HashMap<RequestId, u32>,
    /// Blocking collectives that the rank is inside of; their waits are theirs.
    nested: u32,
    /// Collectives that were started.
    started: u32,
}

/// Nanoseconds after which lines are written out. So a system call takes a thousandth of a rank's time at most.
const KEPT_NS: u64 = 1_000_000;

/// A collective, as it is written down.
#[derive(Debug)]
pub(crate) struct Call {
    what: &'static str,
    how: How,
}

#[derive(Debug)]
enum How {
    /// By an algorithm, which has a name that settings take.
    Algorithm { how: String, bytes: usize, root: u32, blocks: Blocks },
    /// Messages to neighbours and from them, ranks and bytes: other ranks do not know the edges.
    Edges { sends: Vec<(u32, usize)>, receives: Vec<(u32, usize)> },
}

/// What a rank says of its blocks beside their bytes.
#[derive(Debug)]
enum Blocks {
    /// Nothing: its block has the bytes of the call, or all have one length.
    Even,
    /// Its own block has so many bytes.
    Own(usize),
    /// Those that it sends to each rank; a single length where all have that.
    To(Vec<usize>),
}

/// Which collectives of a communicator it is numbered among.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Series {
    Blocking,
    Nonblocking,
    /// The starts of one persistent collective, which has a number.
    Persistent(u32),
}

/// A communicator, as a record names it.
#[derive(Clone, Copy)]
pub(crate) struct Within<'a> {
    pub(crate) context: u32,
    pub(crate) generation: u32,
    pub(crate) group: &'a Group,
}

/// The tags of messages between neighbours go down from here; those of programs are less.
const NEIGHBORS: u32 = u32::MAX;

impl Call {
    /// One that goes by the algorithm of this name. Its root is 0 where it has none.
    pub(crate) fn new(what: &'static str, how: String, bytes: usize, root: u32) -> Self {
        Self { what, how: How::Algorithm { how, bytes, root, blocks: Blocks::Even } }
    }

    /// The same of blocks of different lengths, of which this rank's has `own` bytes.
    pub(crate) fn with_own(self, own: usize) -> Self {
        self.with(Blocks::Own(own))
    }

    /// The same of blocks of different lengths, of which this rank sends one to each rank.
    pub(crate) fn with_sent(self, lengths: impl Iterator<Item = usize>) -> Self {
        let mut lengths: Vec<usize> = lengths.collect();
        if lengths.windows(2).all(|pair| pair[0] == pair[1]) {
            lengths.truncate(1);
        }
        self.with(Blocks::To(lengths))
    }

    fn with(mut self, of: Blocks) -> Self {
        if let How::Algorithm { blocks, .. } = &mut self.how {
            *blocks = of;
        }
        self
    }

    /// An exchange between neighbours.
    pub(crate) fn edges(
        what: &'static str,
        sends: impl Iterator<Item = (u32, usize)>,
        receives: impl Iterator<Item = (u32, usize)>,
    ) -> Self {
        Self { what, how: How::Edges { sends: sends.collect(), receives: receives.collect() } }
    }
}

impl Series {
    /// The tag of messages between neighbours. Numbers of persistent collectives have 22 bits.
    const fn tag(self) -> u32 {
        match self {
            Self::Blocking => NEIGHBORS,
            Self::Nonblocking => NEIGHBORS - 1,
            Self::Persistent(number) => NEIGHBORS - 2 - number,
        }
    }
}

impl Display for Series {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Blocking => out.write_str("\"later\":false"),
            Self::Nonblocking => out.write_str("\"later\":true"),
            Self::Persistent(number) => write!(out, "\"later\":true,\"persistent\":{number}"),
        }
    }
}

impl Display for Blocks {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Even => Ok(()),
            Self::Own(own) => write!(out, ",\"own\":{own}"),
            // A list is shown as JSON has it.
            Self::To(lengths) => write!(out, ",\"to\":{lengths:?}"),
        }
    }
}

impl Record {
    /// A record that goes to `out`.
    pub(crate) fn new(out: Box<dyn Write>, rank: u32, size: u32) -> Self {
        let mut inner = Inner {
            out: Some(BufWriter::with_capacity(1 << 16, out)),
            text: String::new(),
            began: Instant::now(),
            flushed: 0,
            entered: None,
            comms: HashMap::new(),
            ranks: HashMap::new(),
            endpoints: HashMap::new(),
            posted: HashMap::new(),
            nested: 0,
            started: 0,
        };
        inner.line(format_args!(
            "{{\"format\":\"bowline record\",\"version\":3,\"rank\":{rank},\"size\":{size}}}"
        ));
        // The file says from now on whose it is.
        inner.flush();
        Self(RefCell::new(inner))
    }

    /// The program has come to communicate.
    pub(crate) fn enter(&self) {
        let mut inner = self.0.borrow_mut();
        if inner.nested == 0 {
            let now = inner.now();
            inner.entered.get_or_insert(now);
            inner.flush_old(now);
        }
    }

    /// The program goes on. What it came for is written down, or has only taken time.
    pub(crate) fn leave(&self) {
        let mut inner = self.0.borrow_mut();
        if inner.nested == 0 {
            inner.passed();
        }
    }

    /// A communicator is there.
    pub(crate) fn opened(&self, comm: Within<'_>) {
        let mut inner = self.0.borrow_mut();
        let number = inner.comms.len() as u32;
        inner.comms.insert((comm.context, comm.generation), number);
        let members: Vec<String> = comm.group.world_ranks().map(|rank| rank.to_string()).collect();
        let (generation, members) = (comm.generation, members.join(","));
        inner.line(format_args!(
            "{{\"comm\":{number},\"generation\":{generation},\"members\":[{members}]}}"
        ));
    }

    /// A blocking collective begins.
    pub(crate) fn begin_blocking(&self) {
        self.enter();
        self.0.borrow_mut().nested += 1;
    }

    /// A blocking collective has ended: it is written down unless it is part of another one.
    pub(crate) fn end_blocking(&self, comm: Within<'_>, call: &Call) {
        let mut inner = self.0.borrow_mut();
        inner.nested -= 1;
        inner.blocking(comm, call);
    }

    /// A collective was started. The number that its end has, where it is written down.
    pub(crate) fn start(&self, comm: Within<'_>, call: &Call, series: Series) -> Option<u32> {
        self.0.borrow_mut().start(comm, call, series)
    }

    /// A collective that was started has ended.
    pub(crate) fn end(&self, comm: Within<'_>, call: &Call, series: Series, run: u32) {
        self.0.borrow_mut().end(comm, call, series, run);
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
    pub(crate) fn ended(&self, id: RequestId, status: &bowline_ucp::OpStatus) {
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
        inner.flush();
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
        self.text.clear();
        // A string takes whatever is written to it.
        let _ = writeln!(self.text, "{text}");
        // Never in parts: the buffer is written out before a line for which it has no space.
        let written = out.write_all(self.text.as_bytes());
        self.keep(written);
        self.flush_old(self.now());
    }

    fn flush_old(&mut self, now: u64) {
        if now.saturating_sub(self.flushed) >= KEPT_NS {
            self.flushed = now;
            self.flush();
        }
    }

    fn flush(&mut self) {
        let flushed = self.out.as_mut().map_or(Ok(()), |out| out.flush());
        self.keep(flushed);
    }

    /// Ends the record where it could not be written.
    fn keep(&mut self, written: std::io::Result<()>) {
        if let Err(error) = written {
            tracing::warn!(%error, "a record cannot be written, and ends here");
            self.out = None;
        }
    }

    /// The number of a communicator here; none where what happens in it is a part of another collective.
    fn outermost(&self, comm: Within<'_>) -> Option<u32> {
        let number = self.comms.get(&(comm.context, comm.generation)).copied();
        number.filter(|_| self.nested == 0)
    }

    /// Writes down a blocking collective, which has ended.
    fn blocking(&mut self, comm: Within<'_>, call: &Call) {
        let Some(number) = self.outermost(comm) else { return };
        match &call.how {
            How::Algorithm { .. } => self.algorithm((number, call), Series::Blocking, ""),
            How::Edges { .. } => {
                // The first line has the time of the call, which is communication and no computing.
                self.sends(comm, (number, call), Series::Blocking);
                self.receives((number, call), Series::Blocking);
            }
        }
        self.passed();
    }

    /// Writes down the start of a collective. The number that its end has.
    fn start(&mut self, comm: Within<'_>, call: &Call, series: Series) -> Option<u32> {
        let number = self.outermost(comm)?;
        let run = self.started;
        self.started += 1;
        match &call.how {
            How::Algorithm { .. } => {
                self.algorithm((number, call), series, format_args!(",\"run\":{run}"));
            }
            How::Edges { .. } => self.sends(comm, (number, call), series),
        }
        self.passed();
        Some(run)
    }

    /// Writes down the end of a collective that was started.
    fn end(&mut self, comm: Within<'_>, call: &Call, series: Series, run: u32) {
        let Some(number) = self.outermost(comm) else { return };
        match &call.how {
            How::Algorithm { .. } => self.event(format_args!("\"done\":{run}")),
            How::Edges { .. } => self.receives((number, call), series),
        }
        self.passed();
    }

    /// The call is over, and the time since the program came for it was no computing.
    fn passed(&mut self) {
        if self.entered.is_some() {
            self.event("\"wait\":true");
        }
    }

    fn algorithm(&mut self, (comm, call): (u32, &Call), series: Series, run: impl Display) {
        let How::Algorithm { how, bytes, root, blocks } = &call.how else { return };
        let what = call.what;
        self.event(format_args!(
            "\"coll\":\"{what}\",\"how\":\"{how}\",\"comm\":{comm},\"bytes\":{bytes}{blocks},\"root\":{root}{run},{series}"
        ));
    }

    fn sends(&mut self, within: Within<'_>, (comm, call): (u32, &Call), series: Series) {
        let How::Edges { sends, .. } = &call.how else { return };
        let (what, tag) = (call.what, series.tag());
        for &(to, bytes) in sends {
            let to = within.group.world_rank(to).unwrap_or(u32::MAX);
            self.event(format_args!(
                "\"send\":{to},\"comm\":{comm},\"tag\":{tag},\"bytes\":{bytes},\"of\":\"{what}\""
            ));
        }
    }

    fn receives(&mut self, (comm, call): (u32, &Call), series: Series) {
        let How::Edges { receives, .. } = &call.how else { return };
        let (what, tag) = (call.what, series.tag());
        for &(from, bytes) in receives {
            self.event(format_args!(
                "\"recv\":{from},\"comm\":{comm},\"tag\":{tag},\"bytes\":{bytes},\"of\":\"{what}\""
            ));
        }
    }
}
