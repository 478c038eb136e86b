//! What trials have shown, kept for a whole lane: which means was cheaper than one that took so much for a byte.
//!
//! How far two processors are apart cannot be asked for, but what the means in use takes for a byte says it: pieces through a
//! cache that both share take half of what they take otherwise. So a result is kept by the means that was in use and its price,
//! beside the class and the group of the messages. It serves peers that are new, classes of which a peer sends few
//! messages, and a pair whose processors were moved back to where they have been.
//!
//! Rules. (1) A result is a reason to try a means at once, not to use it: the trial is paid for as every other (rule 1 of
//! [`super`]). (2) A trial that shows the contrary takes the result away.

use super::CHOICES;

/// Results that are kept for each class of a group: prices of a near peer, of a far one, and of what disturbs them.
const KEPT: usize = 4;

/// How a trial has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    /// The means that was in use, and its price.
    pub(crate) of: u8,
    pub(crate) price: u32,
    /// The one that was tried.
    pub(crate) tried: u8,
    /// Whether it was cheaper, by as much as it has to be to be used.
    pub(crate) won: bool,
}

/// Where `of` costs about `price`, `better` is cheaper. There is none with a price of 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TrialResult {
    price: u32,
    of: u8,
    better: u8,
}

impl TrialResult {
    /// Whether it is about a means at such a price: a quarter more or less is the same distance, twice is another.
    fn is_about(&self, of: u8, price: u32) -> bool {
        let (a, b) = (u64::from(self.price), u64::from(price));
        self.of == of && a > 0 && a * 4 <= b * 5 && b * 4 <= a * 5
    }
}

/// The results of one lane; made for the first.
#[derive(Debug, Default)]
pub(crate) struct TrialResults(Option<Box<[Kept; CHOICES]>>);

#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    all: [TrialResult; KEPT],
    next: u8,
}

impl TrialResults {
    /// The means that was cheaper than `of` at about this price.
    pub(crate) fn better(&self, place: usize, of: u8, price: u32) -> Option<u8> {
        let kept = &self.0.as_ref()?[place];
        kept.all.iter().find(|result| result.is_about(of, price)).map(|result| result.better)
    }

    /// Takes note of how a trial has ended.
    pub(crate) fn note(&mut self, place: usize, judged: Judged) {
        let Judged { of, price, tried, won } = judged;
        if !won && self.0.is_none() {
            return;
        }
        let kept = &mut self.0.get_or_insert_with(|| Box::new([Kept::default(); CHOICES]))[place];
        let known = kept.all.iter().position(|result| result.is_about(of, price));
        match known {
            Some(at) if won => kept.all[at] = TrialResult { price, of, better: tried },
            Some(at) if kept.all[at].better == tried => kept.all[at] = TrialResult::default(),
            None if won => {
                let free = kept.all.iter().position(|result| result.price == 0);
                let at = free.unwrap_or(usize::from(kept.next));
                kept.all[at] = TrialResult { price, of, better: tried };
                kept.next = (at as u8 + 1) % KEPT as u8;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WON: Judged = Judged { of: 0, price: 100, tried: 2, won: true };

    #[test]
    fn a_result_is_found_at_about_its_price_and_taken_away_by_the_contrary() {
        let mut results = TrialResults::default();
        results.note(7, Judged { won: false, ..WON });
        assert!(results.0.is_none(), "nothing is kept of a means that was not cheaper");
        results.note(7, WON);
        for (of, price, better) in [
            (0, 100, Some(2)),
            (0, 80, Some(2)),
            (0, 125, Some(2)),
            (0, 79, None),
            (0, 126, None),
            (1, 100, None),
        ] {
            assert_eq!(results.better(7, of, price), better, "{of} at {price}");
        }
        assert_eq!(results.better(8, 0, 100), None, "another class");
        results.note(7, Judged { tried: 1, won: false, ..WON });
        assert_eq!(results.better(7, 0, 100), Some(2), "that was about another means");
        results.note(7, Judged { won: false, ..WON });
        assert_eq!(results.better(7, 0, 100), None);
    }

    #[test]
    fn the_oldest_leaves_when_there_are_too_many() {
        let mut results = TrialResults::default();
        for step in 0..=KEPT as u32 {
            results.note(0, Judged { price: 100 << step, ..WON });
        }
        let known: Vec<_> =
            (0..=KEPT as u32).map(|step| results.better(0, 0, 100 << step).is_some()).collect();
        assert_eq!(known, [false, true, true, true, true]);
        results.note(0, Judged { price: 200, tried: 3, ..WON });
        assert_eq!(results.better(0, 0, 200), Some(3), "the newest about a price counts");
    }
}
