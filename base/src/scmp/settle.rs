//! Who accounts for reservations that were never finished. Cold: it runs after a death, or when
//! a hole has stood for long.
//!
//! It takes a snapshot of the unfinished intents on one queue, then watches each until it has
//! changed or its producer is dead. It does not read slots; the queue forms do, and say why
//! the snapshot covers everything that can be missing.

use super::{Intent, Producers};

/// A producer that died with an unfinished intent on this queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dead {
    /// Its number, which is the source in its messages.
    pub(super) producer: u32,
    /// Slots that it had announced.
    pub(super) slots: u32,
}

/// One settlement: from the snapshot to the list of the dead.
#[derive(Debug, Default)]
pub(super) struct Settlement {
    begun: bool,
    /// Unfinished intents at the snapshot whose producers live, as far as we know.
    waiting: Vec<(u32, u64)>,
    /// Those whose producers died without changing them.
    dead: Vec<Dead>,
}

impl Settlement {
    /// Forgets the snapshot.
    pub(super) fn clear(&mut self) {
        self.begun = false;
        self.waiting.clear();
        self.dead.clear();
    }

    /// Takes the snapshot, if there is none yet, and reads those intents again. `None`: somebody alive
    /// is still at work. Otherwise the dead, who alone can account for what is missing now.
    pub(super) fn advance<P: Producers>(&mut self, producers: &P, queue: u16) -> Option<&[Dead]> {
        if !self.begun {
            self.begun = true;
            for producer in 0..producers.count() {
                let word = producers.intent(producer);
                if Intent::from_word(word).concerns(queue) {
                    self.waiting.push((producer, word));
                }
            }
        }
        let dead = &mut self.dead;
        self.waiting.retain(|&(producer, word)| {
            // First whether it is dead, then what it left: a producer that still lived at the
            // first question may have finished before the second.
            let is_dead = producers.is_dead(producer);
            if producers.intent(producer) != word {
                return false;
            }
            if is_dead {
                dead.push(Dead { producer, slots: Intent::from_word(word).slots() });
            }
            !is_dead
        });
        self.waiting.is_empty().then_some(self.dead.as_slice())
    }

    /// Slots for which the dead account at most.
    pub(super) fn accounted(dead: &[Dead]) -> u32 {
        dead.iter().fold(0, |sum, one| sum.saturating_add(one.slots))
    }
}
