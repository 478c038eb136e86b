//! The algorithms of collectives that a user asks for, in place of those that are chosen.
//!
//! Nothing here knows whether a call allows the algorithm: where it does not, what is chosen is taken.

use std::fmt;
use std::str::FromStr;

use super::forms::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Form, Reduce, ReduceScatter, Scan, Tree,
};
use crate::choice::{Order, choose, choose_in_order};
use crate::cost::Pipelining;
use crate::schedule::{Schedule, Token};

/// What a user asks for of a collective that shared memory can carry out too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the three kinds")]
pub enum Asked<F> {
    /// Nothing: an algorithm is chosen.
    #[default]
    Auto,
    /// One by messages.
    Form(F),
    /// Memory that the ranks share. A call that cannot go through it goes by the messages that are chosen.
    Staged,
}

impl<F> Asked<F> {
    /// The same with what `made` makes of an algorithm.
    pub fn map<G>(self, made: impl FnOnce(F) -> G) -> Asked<G> {
        match self {
            Self::Auto => Asked::Auto,
            Self::Form(form) => Asked::Form(made(form)),
            Self::Staged => Asked::Staged,
        }
    }

    /// The algorithm by messages, if one is asked for.
    #[inline]
    pub fn form(self) -> Option<F> {
        match self {
            Self::Form(form) => Some(form),
            Self::Auto | Self::Staged => None,
        }
    }
}

/// The word for memory that the ranks share.
pub const STAGED: &str = "staged";

/// What a user asks for, of each collective. Where it is `None` or `Auto`, an algorithm is chosen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Of barriers.
    pub barrier: Asked<Barrier>,
    /// Of broadcasts.
    pub bcast: Asked<Bcast>,
    /// Of reductions.
    pub reduce: Asked<Reduce>,
    /// Of allreduces.
    pub allreduce: WantedAllreduce,
    /// Of gathers of blocks of one length.
    pub gather: Asked<Tree>,
    /// Of scatters of blocks of one length.
    pub scatter: Option<Tree>,
    /// Of allgathers.
    pub allgather: Asked<Allgather>,
    /// Of all-to-alls.
    pub alltoall: Asked<Alltoall>,
    /// Of reductions that are scattered.
    pub reduce_scatter: Asked<ReduceScatter>,
    /// Of prefix reductions.
    pub scan: Option<Scan>,
}

/// A word that names no form, with those that there are.
fn wrong<F: Form>(word: &str, others: &[&str]) -> WantedError {
    let names = F::NAMED.iter().map(|(name, _)| *name);
    let known: Vec<_> = others.iter().copied().chain(names).collect();
    WantedError { word: word.to_owned(), collective: F::COLLECTIVE, known: known.join(", ") }
}

/// The form that a word names, or `None` for `auto`.
fn form<F: Form>(word: &str) -> Result<Option<F>, WantedError> {
    match word {
        "auto" => Ok(None),
        _ => F::of_name(word).map(Some).ok_or_else(|| wrong::<F>(word, &["auto"])),
    }
}

/// The same where shared memory has a word too.
fn asked<F: Form>(word: &str) -> Result<Asked<F>, WantedError> {
    match word {
        "auto" => Ok(Asked::Auto),
        STAGED => Ok(Asked::Staged),
        _ => F::of_name(word).map(Asked::Form).ok_or_else(|| wrong::<F>(word, &["auto", STAGED])),
    }
}

/// The word for a form.
fn word<F: Form>(form: Option<F>) -> String {
    form.map_or("auto", |form| form.name().unwrap_or("?")).to_owned()
}

fn asked_word<F: Form>(asked: Asked<F>) -> String {
    match asked {
        Asked::Staged => STAGED.to_owned(),
        Asked::Auto | Asked::Form(_) => word(asked.form()),
    }
}

impl Wanted {
    /// The collectives, in order.
    pub const COLLECTIVES: [&str; 10] = [
        "barrier",
        "bcast",
        "reduce",
        "allreduce",
        "gather",
        "scatter",
        "allgather",
        "alltoall",
        "reduce_scatter",
        "scan",
    ];

    /// Asks for an algorithm of one of the [collectives](Self::COLLECTIVES), by its name or with `auto`.
    ///
    /// # Errors
    /// When it has none of that name.
    pub fn set(&mut self, collective: &str, word: &str) -> Result<(), WantedError> {
        match collective {
            "barrier" => self.barrier = asked(word)?,
            "bcast" => self.bcast = asked(word)?,
            "reduce" => self.reduce = asked(word)?,
            "allreduce" => self.allreduce = word.parse()?,
            "gather" => self.gather = asked(word)?,
            "scatter" => self.scatter = form(word)?,
            "allgather" => self.allgather = asked(word)?,
            "alltoall" => self.alltoall = asked(word)?,
            "reduce_scatter" => self.reduce_scatter = asked(word)?,
            "scan" => self.scan = form(word)?,
            _ => {
                return Err(WantedError {
                    word: collective.to_owned(),
                    collective: "any collective",
                    known: Self::COLLECTIVES.join(", "),
                });
            }
        }
        Ok(())
    }

    /// What is asked for of each collective, by its name.
    pub fn words(&self) -> [(&'static str, String); 10] {
        let words = [
            asked_word(self.barrier),
            asked_word(self.bcast),
            asked_word(self.reduce),
            self.allreduce.to_string(),
            asked_word(self.gather),
            word(self.scatter),
            asked_word(self.allgather),
            asked_word(self.alltoall),
            asked_word(self.reduce_scatter),
            word(self.scan),
        ];
        let mut names = Self::COLLECTIVES.into_iter();
        words.map(|word| (names.next().unwrap_or_default(), word))
    }
}

/// As the setting has it: `bcast=flat`, one after the other, of those that are asked for.
impl fmt::Display for Wanted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (collective, word) in self.words().into_iter().filter(|(_, word)| word != "auto") {
            let space = if first { "" } else { " " };
            write!(out, "{space}{collective}={word}")?;
            first = false;
        }
        if first { write!(out, "auto") } else { Ok(()) }
    }
}

/// What a user asks for of allreduces.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum WantedAllreduce {
    /// What the table chooses.
    #[default]
    Auto,
    /// Memory that the ranks share, as [`Asked::Staged`].
    Staged,
    /// One of the forms.
    Form(Allreduce),
    /// Recursive multiplying, by the schedule that the published heuristic finds for this ratio of the model's
    /// parameters.
    Multiplying {
        /// alpha_p / alpha_r.
        ratio: f64,
    },
    /// A schedule, for as many ranks as it is one for.
    Schedule(Vec<Token>),
}

/// Words that ask for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedError {
    word: String,
    collective: &'static str,
    known: String,
}

impl fmt::Display for WantedError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { word, collective, known } = self;
        write!(out, "{word:?} is no algorithm of {collective}: there are {known}")
    }
}

impl std::error::Error for WantedError {}

impl FromStr for WantedAllreduce {
    type Err = WantedError;

    fn from_str(text: &str) -> Result<Self, WantedError> {
        let wrong = || {
            WantedError {
            word: text.to_owned(),
            collective: Allreduce::COLLECTIVE,
            known: "auto, staged, doubling, halving, flat, reduce-bcast, multiplying, multiplying:RATIO and schedules \
                    such as a4,a2"
                .to_owned(),
        }
        };
        if let Some(form) = Allreduce::of_name(text) {
            return Ok(Self::Form(form));
        }
        Ok(match text {
            "auto" => Self::Auto,
            STAGED => Self::Staged,
            "multiplying" => Self::Multiplying { ratio: Pipelining::ARCHER.ratio() },
            _ => match text.strip_prefix("multiplying:") {
                Some(ratio) => {
                    let ratio: f64 = ratio.parse().map_err(|_| wrong())?;
                    if !(ratio.is_finite() && ratio >= 0.0) {
                        return Err(wrong());
                    }
                    Self::Multiplying { ratio }
                }
                None => {
                    let tokens = text.split(',').map(|word| word.trim().parse());
                    Self::Schedule(tokens.collect::<Result<_, _>>().map_err(|_| wrong())?)
                }
            },
        })
    }
}

/// As [`FromStr`] reads it.
impl fmt::Display for WantedAllreduce {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => write!(out, "auto"),
            Self::Staged => write!(out, "{STAGED}"),
            Self::Form(form) => write!(out, "{}", form.name().unwrap_or("?")),
            Self::Multiplying { ratio } => write!(out, "multiplying:{ratio}"),
            Self::Schedule(tokens) => {
                let words: Vec<_> = tokens.iter().map(ToString::to_string).collect();
                write!(out, "{}", words.join(","))
            }
        }
    }
}

impl WantedAllreduce {
    /// The schedule for so many ranks, if one is wanted and there is one. For operations that are not commutative it
    /// [keeps the order of ranks](Schedule::keeps_order): one that does not is none for them.
    pub fn schedule(&self, ranks: u32, commutative: bool) -> Option<Schedule> {
        let schedule = match self {
            Self::Auto | Self::Staged | Self::Form(_) => return None,
            Self::Multiplying { ratio } if commutative => choose(ranks, *ratio, Order::ByCost),
            Self::Multiplying { ratio } => choose_in_order(ranks, *ratio),
            Self::Schedule(tokens) => Schedule::new(ranks, tokens.clone()).ok()?,
        };
        (commutative || schedule.keeps_order()).then_some(schedule)
    }

    /// The form, if one is wanted.
    #[inline]
    pub fn form(&self) -> Option<Allreduce> {
        match self {
            Self::Form(form) => Some(*form),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_collective_has_words_and_reads_them() {
        let mut wanted = Wanted::default();
        assert_eq!(wanted.to_string(), "auto");
        let words = [
            ("barrier", "flat"),
            ("bcast", "chain"),
            ("reduce", "ordered"),
            ("allreduce", "m1g2a3,n1g3a2"),
            ("gather", "linear"),
            ("scatter", "binomial"),
            ("allgather", "gather-bcast"),
            ("alltoall", "pairwise"),
            ("reduce_scatter", "via-root"),
            ("scan", "doubling"),
        ];
        for (collective, word) in words {
            let error = wanted.set(collective, "fast").unwrap_err().to_string();
            assert!(error.contains(word) || collective == "allreduce", "{error}");
            wanted.set(collective, word).unwrap();
        }
        assert_eq!(wanted.words().map(|(name, word)| (name, word)), {
            words.map(|(name, word)| (name, word.to_owned()))
        });
        assert!(wanted.to_string().starts_with("barrier=flat bcast=chain "));
        let mut again = Wanted::default();
        for (collective, word) in wanted.words() {
            again.set(collective, &word).unwrap();
        }
        assert_eq!(again, wanted);
        wanted.set("bcast", "auto").unwrap();
        assert_eq!(wanted.bcast, Asked::Auto);
        for collective in Wanted::COLLECTIVES {
            // Scatters and prefix reductions go by messages only.
            let apart = ["scatter", "scan"].contains(&collective);
            assert_eq!(wanted.set(collective, STAGED).is_err(), apart, "{collective}");
        }
        assert_eq!((wanted.bcast, &wanted.allreduce), (Asked::Staged, &WantedAllreduce::Staged));
        assert!(wanted.to_string().contains("gather=staged scatter=binomial allgather=staged"));
        assert!(wanted.set("sort", "auto").unwrap_err().to_string().contains("alltoall"));
    }

    #[test]
    fn words_name_algorithms() {
        let wanted = |text: &str| text.parse::<WantedAllreduce>();
        assert_eq!(wanted("auto"), Ok(WantedAllreduce::Auto));
        assert_eq!(wanted("halving").unwrap().form(), Some(Allreduce::Halving));
        assert_eq!(
            wanted("multiplying:2.911").unwrap().schedule(10, true).unwrap().to_string(),
            "a5,a2"
        );
        let doubling = wanted("multiplying:0").unwrap();
        let of = |commutative| doubling.schedule(7, commutative).unwrap().to_string();
        assert_eq!((of(true), of(false)), ("m3g2a2,n3g2a2".into(), "o3g2a2,n3g2a2".into()));
        assert_eq!(wanted("s4r,g4r").unwrap().schedule(4, false), None);
        let fixed = wanted("m1g2a3, n1g3a2").unwrap();
        assert_eq!(fixed.schedule(7, false).unwrap().to_string(), "m1g2a3,n1g3a2");
        assert_eq!((fixed.schedule(8, true), fixed.form()), (None, None));
        for wrong in
            ["", "fast", "a", "multiplying:-1", "multiplying:inf", "multiplying:x", "a4,,a2"]
        {
            let error = wanted(wrong).unwrap_err().to_string();
            assert!(error.contains("doubling") && error.contains(&format!("{wrong:?}")), "{error}");
        }
    }
}
