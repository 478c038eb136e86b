//! The operations of a rank's stage, and what may not be touched before it ends.

use std::collections::{BTreeMap, BTreeSet};

use crate::coll::plan::{Space, Span};

/// Sends and receives of a stage.
#[derive(Debug, Default)]
pub(super) struct Stage {
    /// Operations that were started.
    started: u32,
    /// Those of them that are not matched yet.
    unmatched: u32,
    /// Ends of what is received into, by first byte, for each space. They are disjoint.
    receives: [BTreeMap<usize, usize>; 3],
    /// First bytes and ends of what is sent. The input is never written, so that what is sent of it needs no care.
    sends: [BTreeSet<(usize, usize)>; 3],
    /// The longest of these in each space.
    longest: [usize; 3],
}

impl Stage {
    /// Whether nothing was started.
    pub(super) const fn is_empty(&self) -> bool {
        self.started == 0
    }

    /// Whether all that was started is matched.
    pub(super) const fn is_matched(&self) -> bool {
        self.unmatched == 0
    }

    pub(super) fn send(&mut self, span: Span) {
        self.started += 1;
        self.unmatched += 1;
        if span.len > 0 && span.space != Space::Input {
            let space = span.space as usize;
            self.sends[space].insert((span.at, span.at + span.len));
            self.longest[space] = self.longest[space].max(span.len);
        }
    }

    pub(super) fn receive(&mut self, span: Span) {
        self.started += 1;
        self.unmatched += 1;
        if span.len > 0 {
            self.receives[span.space as usize].insert(span.at, span.at + span.len);
        }
    }

    /// An operation is matched.
    pub(super) const fn matched(&mut self) {
        self.unmatched -= 1;
    }

    /// The stage ends.
    pub(super) fn end(&mut self) {
        if self.started > 0 {
            self.started = 0;
            self.receives.iter_mut().for_each(BTreeMap::clear);
            self.sends.iter_mut().for_each(BTreeSet::clear);
            self.longest = [0; 3];
        }
    }

    /// Whether a span may not be used now.
    pub(super) fn forbids(&self, span: Span, write: bool) -> bool {
        let (space, end) = (span.space as usize, span.at + span.len);
        if self.is_empty() || span.len == 0 {
            return false;
        }
        let last = self.receives[space].range(..end).next_back();
        if last.is_some_and(|(_, &behind)| behind > span.at) {
            return true;
        }
        let from = (span.at.saturating_sub(self.longest[space]), 0);
        write && self.sends[space].range(from..(end, 0)).any(|&(_, behind)| behind > span.at)
    }
}
