//! Reads of a peer's memory by several paths at the same time.
//!
//! A read is split once, by what the paths cost. Each path asks for its range from the front, a chunk at
//! a time and two of them at once; one that is through with its own takes from the end of the longest
//! that is left and was not asked for, in proportion to the two paths' speeds, so that a wrong figure costs
//! little. What a failed path had left, or had asked for without an answer, is for the path that asks next.

use bowline_base::slab::Key;
use bowline_uct::runtime::bytes_of;
use bowline_uct::{Caps, EpId, LocalSlice, PeerFailure, PostError, Posted, RemoteSlice, Token};

use super::MultiRail;
use super::memory::Keys;
use super::split::{self, MAX_PATHS, MIN_PART};

/// Bytes asked for at once.
const CHUNK: u64 = 512 << 10;

/// Parts of one read that a path has under way.
const DEPTH: u8 = 2;

/// Reads under way; beyond, posts are refused.
pub(super) const MOST: usize = 4096;

/// Bytes of a read, by their place in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    at: u64,
    end: u64,
}

impl Span {
    const fn len(self) -> u64 {
        self.end - self.at
    }

    /// Takes at most `bytes` from the front.
    fn take_front(&mut self, bytes: u64) -> Self {
        let cut = self.at + self.len().min(bytes);
        let front = Self { at: self.at, end: cut };
        self.at = cut;
        front
    }

    /// Takes at most `bytes` from the end.
    fn take_back(&mut self, bytes: u64) -> Self {
        let cut = self.end - self.len().min(bytes);
        let back = Self { at: cut, end: self.end };
        self.end = cut;
        back
    }
}

/// A read that is not answered.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) link: u32,
    token: Token,
    to: LocalSlice,
    address: u64,
    keys: Keys,
    /// Bytes that have not arrived.
    left: u64,
    /// What each path is to ask for, and whether it was given anything.
    own: [Span; MAX_PATHS],
    takes_part: [bool; MAX_PATHS],
    /// What failed paths have left.
    again: Vec<Span>,
    in_flight: [u8; MAX_PATHS],
    failed: Option<PeerFailure>,
    /// A path has refused, and none is left that did not.
    refused: bool,
    /// It is queued among those that are tried again.
    pub(super) waits: bool,
}

/// What a transport has in flight and will answer for.
#[derive(Debug)]
pub(super) enum Asked {
    Part(Part),
    /// A flush of its own: see `flush`.
    Flush,
}

/// A part of a read.
#[derive(Debug)]
pub(super) struct Part {
    read: Key,
    path: usize,
    span: Span,
}

impl Read {
    /// What path `at` asks for next, at most `limit` bytes. `speed` is bytes in a nanosecond by path.
    fn next(&mut self, at: usize, limit: u64, speed: impl Fn(usize) -> f64) -> Option<Span> {
        if let Some(mut span) = self.again.pop() {
            let taken = span.take_front(limit);
            if span.len() > 0 {
                self.again.push(span);
            }
            return Some(taken);
        }
        if self.own[at].len() > 0 {
            return Some(self.own[at].take_front(limit));
        }
        if !self.takes_part[at] || self.in_flight[at] > 0 {
            return None;
        }
        let longest = (0..MAX_PATHS).max_by_key(|&other| self.own[other].len())?;
        if self.own[longest].len() < MIN_PART {
            return None;
        }
        let span = &mut self.own[longest];
        let fair = speed(at) / (speed(at) + speed(longest));
        let bytes = (span.len() as f64 * fair) as u64 & !63;
        (bytes >= MIN_PART).then(|| span.take_back(bytes.min(limit)))
    }

    fn is_quiet(&self) -> bool {
        self.in_flight == [0; MAX_PATHS]
    }

    /// Path `at` reads nothing of this any more: neither what it was to ask for nor `span`, which it
    /// refused.
    fn refuse(&mut self, at: usize, span: Span) {
        self.leave(at);
        self.again.push(span);
        self.keys[at] = None;
        self.refused = true;
    }

    /// A path is gone: what it was to ask for is everybody's.
    pub(super) fn leave(&mut self, at: usize) {
        let span = std::mem::take(&mut self.own[at]);
        if span.len() > 0 {
            self.again.push(span);
        }
    }
}

impl MultiRail {
    /// Begins a read of a peer's memory by all paths.
    pub(super) fn begin_read(
        &mut self,
        ep: EpId,
        to: &[LocalSlice],
        from: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        if !self.attr.caps.contains(Caps::GET_ZCOPY) {
            return Err(PostError::Unsupported);
        }
        let index = self.open_link(ep)?;
        let length = bytes_of(to, &self.attr.limits.get)?;
        let keys = self.keys.open(self.links[index as usize].uid, from, length)?.key;
        let Some(to) = to.first().filter(|to| !to.is_empty()) else { return Ok(Posted::Done) };
        if self.reads.len() >= MOST {
            return Err(PostError::NoResource);
        }
        let read = self.split_read(index, keys, *to, from.address, token)?;
        // The peer is to notice our end, as we notice its own: rule 8.
        self.queue(index);
        self.post_first(read, length as u64)
    }

    /// Makes a read whose bytes are split among the paths that are up; nothing of it is asked for yet.
    fn split_read(
        &mut self,
        index: u32,
        keys: Keys,
        to: LocalSlice,
        address: u64,
        token: Token,
    ) -> Result<Key, PostError> {
        let length = to.len() as u64;
        let link = &mut self.links[index as usize];
        let costs: [_; MAX_PATHS] = std::array::from_fn(|at| {
            let usable = link.paths[at].endpoint().is_some() && keys[at].is_some();
            self.paths.get(at).filter(|_| usable).map(|path| path.cost)
        });
        let split = split::split(length, &costs).ok_or(PostError::Unsupported)?;
        link.used = true;
        link.reads += 1;
        let mut own = [Span::default(); MAX_PATHS];
        let mut rest = Span { at: 0, end: length };
        for (span, &part) in own.iter_mut().zip(&split.parts) {
            *span = rest.take_front(part);
        }
        let takes_part = own.map(|span| span.len() > 0);
        if takes_part.iter().filter(|&&takes_part| takes_part).count() > 1 {
            self.stats.split_reads += 1;
        }
        Ok(self.reads.insert(Read {
            link: index,
            token,
            to,
            address,
            keys: std::array::from_fn(|at| keys[at].filter(|_| costs[at].is_some())),
            left: length,
            own,
            takes_part,
            again: Vec::new(),
            in_flight: [0; MAX_PATHS],
            failed: None,
            refused: false,
            waits: false,
        }))
    }

    /// Asks for the first parts of a read of `length` bytes, and answers for the call that has begun it.
    fn post_first(&mut self, key: Key, length: u64) -> Result<Posted, PostError> {
        loop {
            let refusal = self.post_parts(key);
            let Some(read) = self.reads.get(key) else { return Ok(Posted::InFlight) };
            let (left, index) = (read.left, read.link);
            if left > 0 && !read.is_quiet() {
                return Ok(Posted::InFlight);
            }
            let refused = refusal.is_some_and(|error| error != PostError::NoResource);
            if left > 0 && refused && self.has_path(key) {
                // By the paths that are left.
                continue;
            }
            if left > 0 && left < length {
                // It goes on, or fails, in the next progress.
                self.try_again(key);
                return Ok(Posted::InFlight);
            }
            // Complete, or nothing of it was done and nothing is under way: it was not begun.
            self.reads.remove(key);
            self.links[index as usize].reads -= 1;
            self.report_failure(index);
            return if left == 0 {
                Ok(Posted::Done)
            } else {
                Err(refusal.unwrap_or(PostError::Unsupported))
            };
        }
    }

    /// Whether a path is left that may read what is missing.
    fn has_path(&self, key: Key) -> bool {
        let Some(read) = self.reads.get(key) else { return false };
        let paths = &self.links[read.link as usize].paths;
        (0..MAX_PATHS).any(|at| read.keys[at].is_some() && paths[at].endpoint().is_some())
    }

    /// Asks for what the paths take. The error of a part that was refused, if one was.
    fn post_parts(&mut self, key: Key) -> Option<PostError> {
        let mut refusal = None;
        for at in 0..self.paths.len() {
            while let Some(read) = self.reads.get_mut(key) {
                let endpoint = self.links[read.link as usize].paths[at].endpoint();
                let (Some(ep), Some(rkey)) = (endpoint, read.keys[at]) else { break };
                if read.failed.is_some() || read.in_flight[at] >= DEPTH {
                    break;
                }
                let limit = self.paths[at].iface.attr().limits.get.max_zcopy as u64;
                let paths = &self.paths;
                let speed = |path: usize| 1.0 / paths[path].cost.per_byte.max(1e-6);
                let Some(span) = read.next(at, CHUNK.min(limit.max(1)), speed) else { break };
                let Some(to) = read.to.slice(span.at as usize, span.len() as usize) else { break };
                let from = RemoteSlice { address: read.address + span.at, rkey };
                let part = Part { read: key, path: at, span };
                let part = self.parts.insert(Asked::Part(part));
                let token = Token(part.to_wire());
                let error = match self.paths[at].iface.get_zcopy(ep, &[to], from, token) {
                    Ok(Posted::InFlight) => {
                        read.in_flight[at] += 1;
                        continue;
                    }
                    Ok(Posted::Done) => {
                        self.parts.remove(part);
                        read.left -= span.len();
                        self.paths[at].read_bytes += span.len();
                        continue;
                    }
                    Err(error) => error,
                };
                self.parts.remove(part);
                refusal = Some(error);
                match error {
                    PostError::NoResource => {
                        read.again.push(span);
                        self.try_again(key);
                        break;
                    }
                    PostError::BadRemote
                    | PostError::BadArgument
                    | PostError::TooLong
                    | PostError::Unsupported => {
                        read.refuse(at, span);
                        self.try_again(key);
                    }
                    _ => {
                        read.again.push(span);
                        let link = read.link;
                        self.path_down(link, at, PeerFailure::Died);
                        self.try_again(key);
                    }
                }
            }
        }
        refusal
    }

    /// A transport has answered.
    pub(super) fn answered(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        let key = Key::from_wire(token.0);
        match self.parts.remove(key) {
            Some(Asked::Part(part)) => self.part_answered(&part, result),
            Some(Asked::Flush) => self.path_flushed(key, result),
            None => {}
        }
    }

    fn part_answered(&mut self, part: &Part, result: Result<u64, PeerFailure>) {
        let Some(read) = self.reads.get_mut(part.read) else { return };
        read.in_flight[part.path] -= 1;
        let link = read.link;
        match result {
            Ok(_) => {
                read.left -= part.span.len();
                self.paths[part.path].read_bytes += part.span.len();
            }
            Err(PeerFailure::Refused) => read.refuse(part.path, part.span),
            Err(how) => {
                // Rule 5: the transport has done with it.
                read.again.push(part.span);
                self.stats.moved_parts += 1;
                self.path_down(link, part.path, how);
            }
        }
        self.go_on_reading(part.read);
    }

    /// Has a read tried again by the next progress.
    pub(super) fn try_again(&mut self, key: Key) {
        if let Some(read) = self.reads.get_mut(key)
            && !std::mem::replace(&mut read.waits, true)
        {
            self.refused.push(key);
        }
    }

    /// Moves a read on, and ends it where nothing is left to do.
    pub(super) fn go_on_reading(&mut self, key: Key) {
        let _ = self.post_parts(key);
        let Some(read) = self.reads.get_mut(key) else { return };
        let index = read.link;
        let link = &mut self.links[index as usize];
        let usable = || (0..MAX_PATHS).filter(|&at| read.keys[at].is_some());
        if read.left > 0 && !usable().any(|at| link.paths[at].endpoint().is_some()) {
            let last = if read.refused { PeerFailure::Refused } else { PeerFailure::Unreachable };
            read.failed = read.failed.or(link.failed).or(Some(last));
        }
        if !read.is_quiet() || read.left > 0 && read.failed.is_none() {
            return;
        }
        let result = match read.failed {
            Some(how) if read.left > 0 => Err(how),
            _ => Ok(0),
        };
        let token = read.token;
        self.reads.remove(key);
        link.reads -= 1;
        self.events.complete(token, result);
        self.report_failure(index);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the order in which paths ask, lose and leave: each byte is asked for exactly once,
        /// but for what failed.
        #[test]
        fn every_byte_once(
            parts in proptest::array::uniform4(0_u64..3 << 20),
            steps in proptest::collection::vec((0_usize..4, 0_u8..10), 0..400),
        ) {
            let length: u64 = parts.iter().sum();
            let mut rest = Span { at: 0, end: length };
            let own = parts.map(|part| rest.take_front(part));
            let mut read = Read {
                link: 0,
                token: Token::NONE,
                to: LocalSlice::EMPTY,
                address: 0,
                keys: [None; MAX_PATHS],
                left: length,
                own,
                takes_part: own.map(|span| span.len() > 0),
                again: Vec::new(),
                in_flight: [0; MAX_PATHS],
                failed: None,
                refused: false,
                waits: false,
            };
            let speeds = [1.0, 10.0, 0.1, 5.0];
            let mut asked: Vec<Span> = Vec::new();
            for (path, what) in steps {
                match what {
                    0 => read.leave(path),
                    1 => {
                        // A part fails.
                        if let Some(span) = asked.pop() {
                            read.again.push(span);
                        }
                    }
                    _ => asked.extend(read.next(path, CHUNK, |path| speeds[path])),
                }
            }
            for path in 0..MAX_PATHS {
                while let Some(span) = read.next(path, CHUNK, |path| speeds[path]) {
                    asked.push(span);
                }
            }
            prop_assert!(asked.iter().all(|span| span.len() > 0 && span.len() <= CHUNK));
            asked.sort_by_key(|span| span.at);
            let mut at = 0;
            for span in asked {
                prop_assert_eq!(span.at, at);
                at = span.end;
            }
            prop_assert_eq!(at, length);
        }
    }
}
