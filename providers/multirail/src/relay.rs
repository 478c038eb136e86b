//! The sink of one path: hands messages on as they come, within the transport's call, and notes the
//! rest.

use bowline_uct::runtime::NumberTable;
use bowline_uct::{Arrival, EpId, PeerFailure, Sink, Source, Token, Verdict};

use super::RailStats;
use super::link::{self, Link, Links};
use super::wire::{ACK, Address, DATA, Front, HELLO};

/// What is to be done when the transport has returned.
#[derive(Debug)]
pub(super) enum Note {
    Completed(Token, Result<u64, PeerFailure>),
    Writable(usize, EpId),
    /// The path, the link of the source that failed or nobody, the endpoint.
    Failed(usize, Option<u32>, Option<EpId>, PeerFailure),
    /// A peer has greeted; its paths are to be made.
    Greeted(u32),
    /// A link has something to post, or hears of paths that its peer has given up.
    Work(u32),
    Damaged(u32),
}

/// See the module's text.
pub(super) struct Relay<'a> {
    pub(super) path: usize,
    pub(super) own: u64,
    pub(super) sources: &'a mut NumberTable,
    pub(super) links: &'a mut Links,
    pub(super) notes: &'a mut Vec<Note>,
    pub(super) stats: &'a mut RailStats,
    pub(super) above: &'a mut dyn Sink,
    /// Messages handed on.
    pub(super) events: u32,
}

impl Relay<'_> {
    /// A greeting: from now on, messages of this source on this path are that peer's.
    fn hello(&mut self, arrival: &Arrival<'_>) -> Option<()> {
        let address = Address::parse(&arrival.payload.to_vec())?;
        if address.uid != arrival.header[0] || address.uid == self.own {
            return None;
        }
        let at = arrival.source.0;
        let (known, bound) = (self.links.find(address.uid), self.sources.get(at));
        if bound.is_some() && known != bound {
            // One source is one peer, so that no peer makes links without end.
            return None;
        }
        if self.links.was_dropped(address.uid) {
            return Some(());
        }
        let index = known.unwrap_or_else(|| self.links.insert(Link::new(address)));
        let link = &mut self.links[index as usize];
        // Rule 4.
        if link.paths[self.path].down || link.failed.is_some() {
            return Some(());
        }
        self.sources.set(at, index);
        self.notes.push(Note::Greeted(index));
        Some(())
    }

    /// `None`: it means nothing.
    fn take(&mut self, arrival: &Arrival<'_>) -> Option<()> {
        if arrival.id == HELLO {
            return self.hello(arrival);
        }
        let index = self.sources.get(arrival.source.0)?;
        let link = self.links.get_mut(index as usize)?;
        if link.failed.is_some() {
            return Some(());
        }
        link.quiet = 0;
        let (down, verdict) = match arrival.id {
            ACK => {
                let ack = u32::try_from(arrival.header[0]).ok().and_then(|ack| link.log.ack(ack));
                let down = u8::try_from(arrival.header[1]).ok();
                let fine = ack.is_some() && down.is_some();
                let verdict = if fine { None } else { Some(link::Verdict::Damaged) };
                (down.unwrap_or(0), verdict)
            }
            DATA => match Front::parse(&arrival.header, arrival.payload) {
                None => (0, Some(link::Verdict::Damaged)),
                Some((front, payload)) => {
                    let verdict = link.classify(&front, payload.len());
                    if verdict == link::Verdict::Deliver {
                        let source = Source(index);
                        let (id, header) = (front.id, front.header);
                        let (Verdict::Consumed | Verdict::Enough) =
                            self.above.am(Arrival { source, id, header, payload });
                        self.events += 1;
                    }
                    (front.down, Some(verdict))
                }
            },
            _ => return None,
        };
        match verdict {
            Some(link::Verdict::Damaged) => self.notes.push(Note::Damaged(index)),
            Some(link::Verdict::Duplicate) => self.stats.duplicates += 1,
            Some(link::Verdict::Deliver) | None => {}
        }
        let news = down & !link.peer_down != 0;
        link.peer_down |= down;
        if news || link.due || link.log.waits() {
            self.notes.push(Note::Work(index));
        }
        Some(())
    }
}

impl Sink for Relay<'_> {
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        if self.take(&arrival).is_none() {
            self.stats.stray += 1;
        }
        Verdict::Consumed
    }

    fn completed(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        self.notes.push(Note::Completed(token, result));
    }

    fn writable(&mut self, ep: EpId) {
        self.notes.push(Note::Writable(self.path, ep));
    }

    fn failed(&mut self, source: Option<Source>, ep: Option<EpId>, how: PeerFailure) {
        // The number may become another peer's, which greets before the note is read.
        let link = source.and_then(|source| self.sources.clear(source.0));
        self.notes.push(Note::Failed(self.path, link, ep, how));
    }
}
