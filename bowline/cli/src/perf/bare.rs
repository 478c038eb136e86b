//! Active messages on the bare transport, without the protocol engine: what the engine adds is
//! the difference to `am_lat`.

use anyhow::{Context as _, Result, bail, ensure};
use bowline::stack;
use bowline::uct::{
    AmHeader, AmId, Arrival, EpId, Iface, PeerFailure, PostError, Sink, Source, Token, Verdict,
};

use super::drive::{self, PingPong};
use super::figure::Figure;
use super::payload::{self, Buffer};
use super::plan::Plan;
use super::site::Site;

/// The only active message.
const ID: AmId = AmId::new(1);
const HEADER: AmHeader = [1, 2, 3];

/// Events per progress call.
const BUDGET: u32 = 64;

/// Measures. There are no figures where another rank reports why.
///
/// # Errors
/// When the transport does not open, the peer fails, or a payload is damaged.
pub(crate) fn measure(mut site: Site, plans: &[Plan], yielding: bool) -> Result<Vec<Figure>> {
    let wanted = plans.first().map(Plan::transport_name).unwrap_or_default();
    let all = stack::transports(site.place(), site.config())?;
    let found = all.into_iter().find(|iface| iface.attr().provider == wanted);
    let longest = plans.iter().map(|plan| plan.size).max().unwrap_or(0);
    let fitting = found
        .with_context(|| {
            format!("there is no transport `{wanted}`; `bowline info --transports` lists them")
        })
        .and_then(|iface| {
            let limit = iface.attr().limits.am.max_bcopy;
            ensure!(
                longest <= limit,
                "the bare transport carries at most {limit} bytes, not {longest}"
            );
            Ok(iface)
        });
    let Some(mut iface) = site.together(fitting)? else { return Ok(Vec::new()) };
    let addresses = site.swap(&iface.address())?;
    let ep = iface.connect(&addresses[site.peer() as usize])?;
    let yields = yielding || site.shares_processors();
    let mut side = Side { iface, ep, inbox: Inbox::default(), out: Buffer::new(0), yields };
    let rank = site.rank();
    let figures = plans
        .iter()
        .map(|plan| {
            side.resize(plan.size);
            // Each starts where the other one has space for its messages.
            site.swap(&[])?;
            Ok(Figure::new(plan, &drive::ping_pong(plan, rank, &mut side)?))
        })
        .collect::<Result<_>>()?;
    site.swap(&[])?;
    Ok(figures)
}

/// What has arrived. It stays in its buffer until the next message.
#[derive(Default)]
struct Inbox {
    messages: u64,
    taken: u64,
    data: Vec<u8>,
    length: usize,
    failed: Option<PeerFailure>,
}

impl Sink for Inbox {
    #[inline]
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        self.length = arrival.payload.copy_out(&mut self.data);
        if arrival.id == ID && arrival.header == HEADER {
            self.messages += 1;
        }
        Verdict::Consumed
    }

    fn completed(&mut self, _: Token, _: Result<u64, PeerFailure>) {}

    fn writable(&mut self, _: EpId) {}

    fn failed(&mut self, _: Option<Source>, _: Option<EpId>, how: PeerFailure) {
        self.failed = Some(how);
    }
}

struct Side {
    iface: Box<dyn Iface>,
    ep: EpId,
    inbox: Inbox,
    out: Buffer,
    yields: bool,
}

impl Side {
    fn resize(&mut self, size: usize) {
        self.out = Buffer::new(size);
        self.inbox.data = vec![0; size];
    }

    fn progress(&mut self) -> Result<()> {
        let events = self.iface.progress(&mut self.inbox, BUDGET);
        if events == 0 && self.yields {
            std::thread::yield_now();
        }
        match self.inbox.failed {
            Some(how) => bail!("{how}"),
            None => Ok(()),
        }
    }
}

impl PingPong for Side {
    #[inline]
    fn outgoing(&mut self) -> &mut [u8] {
        self.out.bytes_mut()
    }

    #[inline]
    fn send(&mut self) -> Result<()> {
        let short = self.iface.attr().limits.am.max_short;
        loop {
            let bytes = self.out.bytes();
            let posted = if bytes.len() <= short {
                self.iface.am_short(self.ep, ID, &HEADER, bytes)
            } else {
                let mut pack = |space: bowline_base::view::View<'_>| space.copy_in(bytes);
                self.iface.am_bcopy(self.ep, ID, &HEADER, bytes.len(), &mut pack).map(drop)
            };
            match posted {
                Err(PostError::NoResource) => self.progress()?,
                posted => return Ok(posted?),
            }
        }
    }

    #[inline]
    fn receive(&mut self) -> Result<()> {
        while self.inbox.messages == self.inbox.taken {
            self.progress()?;
        }
        self.inbox.taken += 1;
        Ok(())
    }

    #[inline]
    fn is_stamped(&mut self, sequence: u64) -> bool {
        payload::is_stamped(&self.inbox.data[..self.inbox.length], sequence)
    }

    fn check_pattern(&mut self, seed: u64) -> Result<()> {
        ensure!(self.inbox.length == self.out.bytes().len(), "a message has another length");
        payload::check(&self.inbox.data[..self.inbox.length], seed)
    }
}
