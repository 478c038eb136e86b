//! Which flushes are complete: those for which every operation posted before has ended.
//!
//! Operations end in any order, so they are counted by *epoch*: a flush ends the present epoch and
//! is complete when that and all epochs before it have no operation left.

use std::collections::VecDeque;

use bowline_uct::runtime::CompletionOf;

/// The operations of one peer, by epoch.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    /// Epochs that a flush has ended, oldest first.
    ended: VecDeque<(u32, CompletionOf)>,
    /// Number of the oldest epoch in `ended`, or of the present one.
    first: u32,
    /// Operations of the present epoch.
    open: u32,
    /// Operations of all epochs.
    total: u32,
}

impl Flushes {
    /// Whether no operation is under way.
    #[inline]
    pub(crate) const fn is_quiet(&self) -> bool {
        self.total == 0
    }

    /// An operation begins; returns its epoch.
    #[inline]
    pub(crate) fn begin(&mut self) -> u32 {
        self.open += 1;
        self.total += 1;
        self.first.wrapping_add(self.ended.len() as u32)
    }

    pub(crate) fn end(&mut self, epoch: u32) {
        self.total -= 1;
        let age = epoch.wrapping_sub(self.first) as usize;
        match self.ended.get_mut(age) {
            Some((left, _)) => *left -= 1,
            None => self.open -= 1,
        }
    }

    /// Waits for all that is under way; not to be called when that is nothing.
    pub(crate) fn wait(&mut self, waiter: CompletionOf) {
        self.ended.push_back((self.open, waiter));
        self.open = 0;
    }

    /// A flush that has become complete.
    pub(crate) fn complete(&mut self) -> Option<CompletionOf> {
        match self.ended.front() {
            Some((0, waiter)) => {
                let waiter = *waiter;
                self.ended.pop_front();
                self.first = self.first.wrapping_add(1);
                Some(waiter)
            }
            _ => None,
        }
    }

    /// Forgets everything; returns who waited.
    pub(crate) fn abandon(&mut self) -> impl Iterator<Item = CompletionOf> + use<> {
        self.first = self.first.wrapping_add(self.ended.len() as u32).wrapping_add(1);
        (self.open, self.total) = (0, 0);
        std::mem::take(&mut self.ended).into_iter().map(|(_, waiter)| waiter)
    }
}

#[cfg(test)]
mod tests {
    use bowline_uct::Token;

    use super::*;

    #[test]
    fn a_flush_waits_for_what_was_before_it_only() {
        let mut flushes = Flushes::default();
        let (a, b) = (flushes.begin(), flushes.begin());
        flushes.wait(CompletionOf::Token(Token(1)));
        let c = flushes.begin();
        flushes.wait(CompletionOf::Token(Token(2)));
        let d = flushes.begin();
        flushes.end(c);
        flushes.end(d);
        flushes.end(a);
        assert_eq!(flushes.complete(), None);
        flushes.end(b);
        assert_eq!(flushes.complete(), Some(CompletionOf::Token(Token(1))));
        assert_eq!(flushes.complete(), Some(CompletionOf::Token(Token(2))));
        assert_eq!(flushes.complete(), None);
        assert!(flushes.is_quiet());
        let e = flushes.begin();
        flushes.wait(CompletionOf::Token(Token(3)));
        flushes.end(e);
        assert_eq!(flushes.complete(), Some(CompletionOf::Token(Token(3))));
    }
}
