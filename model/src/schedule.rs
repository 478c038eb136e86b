//! Schedules of an allreduce by recursive multiplying, as a list of stages. (Thesis, section 5.3.)
//!
//! ```text
//!   aF        groups of F ranks exchange everything they have
//!   cTmB      the first T ranks collapse: of each B, the last one gets the values of the others
//!   eTmB      they expand again: the last one of each B passes the result on
//!   mRgGaF    R ranks are merged into the G groups of F of the first stage
//!   nRgGaF    R ranks get the result from the G groups of F of the last stage
//! ```
//! Written `a4,a2` or `c6m2,a2,a2,e6m2` or `m1g2a3,n1g3a2`. Recursive doubling is `a2,a2,...`.

use std::fmt;
use std::str::FromStr;

/// A stage that all ranks go through together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Token {
    /// Groups of `factor` ranks exchange what they have.
    Exchange {
        /// Ranks in a group.
        factor: u32,
    },
    /// The first `threshold` ranks are made fewer.
    Collapse {
        /// Ranks that take part.
        threshold: u32,
        /// Ranks that become one.
        base: u32,
    },
    /// What a collapse has left out gets the result.
    Expand {
        /// Ranks that take part.
        threshold: u32,
        /// Ranks that were made one.
        base: u32,
    },
    /// An exchange that takes in the values of ranks which are no more than that.
    Merge(Merged),
    /// An exchange that gives them the result.
    InverseMerge(Merged),
}

/// An exchange with ranks beside its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the three numbers of the published notation")]
pub struct Merged {
    /// Ranks beside the groups: the first ones.
    pub remainder: u32,
    /// Groups.
    pub groups: u32,
    /// Ranks in a group.
    pub factor: u32,
}

/// What all ranks do, stage by stage, for some number of ranks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schedule {
    ranks: u32,
    tokens: Vec<Token>,
}

/// Why a list of stages is no schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleError {
    /// A word that is no stage.
    Word(String),
    /// A stage with a number that it cannot have.
    Number(Token),
    /// A stage that stands where it cannot.
    Place(Token),
    /// A collapse without its expansion, or a merge without its inverse.
    Unpaired(Token),
    /// The factors make another number of ranks.
    Ranks {
        /// The product of the factors.
        product: u64,
        /// The ranks that exchange.
        working: u32,
    },
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => {
                write!(out, "{word:?} is no stage: aF, cTmB, eTmB, mRgGaF and nRgGaF are")
            }
            Self::Number(token) => write!(out, "the numbers of {token} do not fit together"),
            Self::Place(token) => write!(
                out,
                "{token} cannot stand there: collapses and merges begin a schedule, expansions and \
                 inverse merges end it"
            ),
            Self::Unpaired(token) => write!(out, "{token} has no counterpart at the other end"),
            Self::Ranks { product, working } => {
                write!(out, "the factors are for {product} ranks, and {working} exchange")
            }
        }
    }
}

impl std::error::Error for ScheduleError {}

impl Schedule {
    /// The schedule with these stages.
    ///
    /// # Errors
    /// [`ScheduleError`], when they are no allreduce of so many ranks.
    pub fn new(ranks: u32, tokens: Vec<Token>) -> Result<Self, ScheduleError> {
        check(ranks, &tokens)?;
        Ok(Self { ranks, tokens })
    }

    /// The schedule that is written so.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn parse(ranks: u32, text: &str) -> Result<Self, ScheduleError> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        Self::new(ranks, words.map(str::parse).collect::<Result<_, _>>()?)
    }

    /// Exchanges with these factors, whose product is the number of ranks.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn of_factors(factors: &[u32]) -> Result<Self, ScheduleError> {
        let product = factors.iter().fold(1_u64, |product, &f| product.saturating_mul(f.into()));
        let ranks = u32::try_from(product)
            .map_err(|_| ScheduleError::Ranks { product, working: u32::MAX })?;
        Self::new(ranks, factors.iter().map(|&factor| Token::Exchange { factor }).collect())
    }

    /// Exchanges with these factors, of which the first and the last one serve `remainder` ranks more.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn merged(factors: &[u32], remainder: u32) -> Result<Self, ScheduleError> {
        let product = factors.iter().fold(1_u64, |product, &f| product.saturating_mul(f.into()));
        let core = u32::try_from(product).ok().filter(|core| core.checked_add(remainder).is_some());
        let core = core.ok_or(ScheduleError::Ranks { product, working: u32::MAX })?;
        let last = factors.len().saturating_sub(1);
        let merged = |factor: u32| Merged { remainder, groups: core / factor.max(1), factor };
        let token = |(index, &factor): (usize, &u32)| match index {
            0 => Token::Merge(merged(factor)),
            index if index == last => Token::InverseMerge(merged(factor)),
            _ => Token::Exchange { factor },
        };
        Self::new(core + remainder, factors.iter().enumerate().map(token).collect())
    }

    /// Recursive doubling, with what is beyond a power of two collapsed in pairs.
    pub fn doubling(ranks: u32) -> Self {
        let core = 1 << ranks.max(1).ilog2();
        let rest = ranks - core;
        let mut tokens = vec![Token::Exchange { factor: 2 }; core.ilog2() as usize];
        if rest > 0 {
            let threshold = 2 * rest;
            tokens.insert(0, Token::Collapse { threshold, base: 2 });
            tokens.push(Token::Expand { threshold, base: 2 });
        }
        Self { ranks, tokens }
    }

    /// Ranks that it is for.
    pub const fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Its stages.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Whether contributions are combined in the order of ranks, so that an operation need not be commutative.
    pub fn keeps_order(&self) -> bool {
        self.remainder() <= 1
    }

    /// Ranks that are merged.
    pub(crate) fn remainder(&self) -> u32 {
        match self.tokens.first() {
            Some(Token::Merge(merged)) => merged.remainder,
            _ => 0,
        }
    }

    /// Threshold and base of its collapse; of none, 0 and 1.
    pub(crate) fn collapse(&self) -> (u32, u32) {
        match self.tokens.first() {
            Some(&Token::Collapse { threshold, base }) => (threshold, base),
            _ => (0, 1),
        }
    }
}

fn check(ranks: u32, tokens: &[Token]) -> Result<(), ScheduleError> {
    let last = tokens.len().saturating_sub(1);
    let mut working = ranks;
    for (index, &token) in tokens.iter().enumerate() {
        match token {
            Token::Exchange { factor } if factor >= 2 => {}
            Token::Collapse { threshold, base } | Token::Expand { threshold, base } => {
                let parts = base >= 2 && threshold >= base && threshold.is_multiple_of(base);
                if !parts || threshold > ranks {
                    return Err(ScheduleError::Number(token));
                }
                let other = match token {
                    Token::Collapse { .. } => (0, Token::Expand { threshold, base }),
                    _ => (last, Token::Collapse { threshold, base }),
                };
                paired(tokens, index, token, other.0, |found| found == other.1)?;
                working = ranks - threshold + threshold / base;
            }
            Token::Merge(merged) | Token::InverseMerge(merged) => {
                let Merged { remainder, groups, factor } = merged;
                let core = u64::from(groups) * u64::from(factor);
                if remainder == 0 || factor < 2 || core + u64::from(remainder) != u64::from(ranks) {
                    return Err(ScheduleError::Number(token));
                }
                let first = matches!(token, Token::Merge(_));
                let place = if first { 0 } else { last };
                paired(tokens, index, token, place, |found| match (first, found) {
                    (true, Token::InverseMerge(other)) | (false, Token::Merge(other)) => {
                        other.remainder == remainder
                    }
                    _ => false,
                })?;
                working = ranks - remainder;
            }
            Token::Exchange { .. } => return Err(ScheduleError::Number(token)),
        }
    }
    let factors = tokens.iter().filter_map(|token| token.factor());
    let product = factors.fold(1_u64, |product, factor| product.saturating_mul(factor.into()));
    if product != u64::from(working) {
        return Err(ScheduleError::Ranks { product, working });
    }
    Ok(())
}

/// Fails where a stage does not stand at `place`, or where what stands at the other end is not its counterpart.
fn paired(
    tokens: &[Token],
    index: usize,
    token: Token,
    place: usize,
    fits: impl Fn(Token) -> bool,
) -> Result<(), ScheduleError> {
    let last = tokens.len() - 1;
    if index != place {
        return Err(ScheduleError::Place(token));
    }
    if last == 0 || !fits(tokens[last - place]) {
        return Err(ScheduleError::Unpaired(token));
    }
    Ok(())
}

impl Token {
    /// The ranks that exchange in a group.
    pub(crate) const fn factor(self) -> Option<u32> {
        match self {
            Self::Exchange { factor } => Some(factor),
            Self::Merge(merged) | Self::InverseMerge(merged) => Some(merged.factor),
            Self::Collapse { .. } | Self::Expand { .. } => None,
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut merged = |letter, Merged { remainder, groups, factor }: Merged| {
            write!(out, "{letter}{remainder}g{groups}a{factor}")
        };
        match *self {
            Self::Merge(numbers) => merged('m', numbers),
            Self::InverseMerge(numbers) => merged('n', numbers),
            Self::Exchange { factor } => write!(out, "a{factor}"),
            Self::Collapse { threshold, base } => write!(out, "c{threshold}m{base}"),
            Self::Expand { threshold, base } => write!(out, "e{threshold}m{base}"),
        }
    }
}

impl FromStr for Token {
    type Err = ScheduleError;

    fn from_str(word: &str) -> Result<Self, ScheduleError> {
        let unknown = || ScheduleError::Word(word.into());
        let number = |text: &str| text.parse::<u32>().map_err(|_| unknown());
        let first = word.chars().next().ok_or_else(unknown)?;
        let rest = word.get(first.len_utf8()..).unwrap_or("");
        let two = |separator: char| {
            let (one, two) = rest.split_once(separator).ok_or_else(unknown)?;
            Ok((number(one)?, two))
        };
        let merged = || {
            let (remainder, rest) = two('g')?;
            let (groups, factor) = rest.split_once('a').ok_or_else(unknown)?;
            Ok(Merged { remainder, groups: number(groups)?, factor: number(factor)? })
        };
        Ok(match first {
            'a' => Self::Exchange { factor: number(rest)? },
            'c' | 'e' => {
                let (threshold, base) = two('m')?;
                let base = number(base)?;
                match first {
                    'c' => Self::Collapse { threshold, base },
                    _ => Self::Expand { threshold, base },
                }
            }
            'm' => Self::Merge(merged()?),
            'n' => Self::InverseMerge(merged()?),
            _ => return Err(unknown()),
        })
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, token) in self.tokens.iter().enumerate() {
            write!(out, "{}{token}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let written = [
            (8, "a2,a2,a2"),
            (7, "c6m2,a2,a2,e6m2"),
            (7, "m1g2a3,n1g3a2"),
            (7, "m3g2a2,n3g2a2"),
            (12, "a3,a4"),
            (1, ""),
        ];
        for (ranks, text) in written {
            let schedule = Schedule::parse(ranks, text).unwrap();
            assert_eq!((schedule.to_string(), schedule.ranks()), (text.into(), ranks));
        }
        assert_eq!(Schedule::doubling(7).to_string(), "c6m2,a2,a2,e6m2");
        assert_eq!(Schedule::doubling(8).to_string(), "a2,a2,a2");
        assert_eq!(Schedule::doubling(1).to_string(), "");
        assert_eq!(Schedule::merged(&[3, 2], 1).unwrap().to_string(), "m1g2a3,n1g3a2");
    }

    #[test]
    fn what_is_no_schedule_says_why() {
        let error = |ranks, text| Schedule::parse(ranks, text).unwrap_err();
        for word in ["b2", "a", "a-1", "c4", "m1g2", "m1a2g3", "4", "ä2"] {
            assert_eq!(error(4, word), ScheduleError::Word(word.into()), "{word}");
        }
        for (ranks, text) in [(1, "a1"), (7, "c5m2,a2,a2,e5m2"), (7, "m2g2a3,n2g3a2"), (4, "a0")] {
            assert!(matches!(error(ranks, text), ScheduleError::Number(_)), "{text}");
        }
        assert!(matches!(error(7, "a2,c6m2,a2,e6m2"), ScheduleError::Place(_)));
        assert!(matches!(error(7, "c6m2,a2,a2"), ScheduleError::Unpaired(_)));
        assert!(matches!(error(7, "m1g2a3,a2"), ScheduleError::Unpaired(_)));
        assert!(matches!(error(5, "m1g1a4"), ScheduleError::Unpaired(_)));
        assert_eq!(error(9, "a2,a4"), ScheduleError::Ranks { product: 8, working: 9 });
        let huge = Schedule::of_factors(&[1 << 20, 1 << 20]).unwrap_err();
        assert!(matches!(huge, ScheduleError::Ranks { product: 0x100_0000_0000, .. }));
    }
}
