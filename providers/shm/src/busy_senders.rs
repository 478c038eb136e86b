//! Who sends most by the shared queue, in a few bytes: what decides whether a ring changes hands.
//! It counts; who gets a ring is decided in [`crate::receive`].

/// Which sources send most by the queue: a table of fixed size in which a newcomer takes the
/// place of the least one and its count (the *space saving* sketch of Metwally, Agrawal and
/// El Abbadi, 2005), so that a source which sends more than its share is always in it.
#[derive(Debug)]
pub(crate) struct BusySenders {
    entries: [(u32, u32); Self::ENTRIES],
    seen: u32,
}

impl BusySenders {
    const ENTRIES: usize = 8;
    /// Messages of the queue between two comparisons with the rings.
    const PERIOD: u32 = 1024;
    const EMPTY: (u32, u32) = (u32::MAX, 0);

    pub(crate) fn new() -> Self {
        Self { entries: [Self::EMPTY; Self::ENTRIES], seen: 0 }
    }

    #[inline]
    pub(crate) fn count(&mut self, source: u32) {
        self.seen += 1;
        if self.entries[0].0 == source {
            self.entries[0].1 += 1;
            return;
        }
        let at = self.entries.iter().position(|entry| entry.0 == source).unwrap_or_else(|| {
            let least = (0..Self::ENTRIES).min_by_key(|&i| self.entries[i].1).unwrap_or(0);
            self.entries[least].0 = source;
            least
        });
        self.entries[at].1 += 1;
        // The busiest tends to the front.
        if at > 0 && self.entries[at].1 > self.entries[at - 1].1 {
            self.entries.swap(at, at - 1);
        }
    }

    pub(crate) fn forget(&mut self, source: u32) {
        for entry in &mut self.entries {
            if entry.0 == source {
                *entry = Self::EMPTY;
            }
        }
    }

    /// Whether a period is over.
    #[inline]
    pub(crate) fn due(&self) -> bool {
        self.seen >= Self::PERIOD
    }

    pub(crate) fn busiest(&self) -> Option<(u32, u32)> {
        self.entries.iter().copied().max_by_key(|entry| entry.1).filter(|entry| entry.1 > 0)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_above_its_share_is_found_among_many() {
        let mut senders = BusySenders::new();
        for round in 0..200u32 {
            senders.count(7);
            // Twenty others, each with a twentieth of the rest.
            senders.count(100 + round % 20);
        }
        let (source, count) = senders.busiest().unwrap();
        assert_eq!(source, 7);
        assert!(count >= 200);
        senders.forget(7);
        assert_ne!(senders.busiest().unwrap().0, 7);
    }
}
