//! The operations of a rank's stage, and what may not be touched before it ends.

use std::ops::ControlFlow;

use super::sorted::Sorted;
use crate::coll::plan::{Space, Span};

/// Sends and receives of a stage.
#[derive(Debug, Default)]
pub(super) struct Stage {
    /// Operations that were started.
    started: u32,
    /// Those of them that are not matched yet.
    unmatched: u32,
    /// Ends of what is received into, by first byte, for each space. They are disjoint.
    receives: [Sorted<usize, usize>; 3],
    /// First bytes and ends of what is sent. The input is never written, so that what is sent of it needs no care.
    sends: [Sorted<(usize, usize), ()>; 3],
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
            self.sends[space].insert((span.at, span.at + span.len), ());
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
            self.receives.iter_mut().for_each(Sorted::clear);
            self.sends.iter_mut().for_each(Sorted::clear);
            self.longest = [0; 3];
        }
    }

    /// Whether a span may not be used now.
    pub(super) fn forbids(&self, span: Span, write: bool) -> bool {
        let (space, end) = (span.space as usize, span.at + span.len);
        if self.is_empty() || span.len == 0 {
            return false;
        }
        // Receives are disjoint, so that only the last one before the end can reach into the span.
        let reached =
            self.receives[space].visit(end - 1, end, |_, &behind| match behind > span.at {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            });
        if reached.is_break() {
            return true;
        }
        let from = (span.at.saturating_sub(self.longest[space]), 0);
        let sent = |(_, behind): (usize, usize), (): &()| match behind > span.at {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        write && self.sends[space].visit(from, (end, 0), sent).is_break()
    }
}
