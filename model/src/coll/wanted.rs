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

/// What a user asks for, of each collective. Where it is `None`, an algorithm is chosen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Of barriers.
    pub barrier: Option<Barrier>,
    /// Of broadcasts.
    pub bcast: Option<Bcast>,
    /// Of reductions.
    pub reduce: Option<Reduce>,
    /// Of allreduces.
    pub allreduce: WantedAllreduce,
    /// Of gathers of blocks of one length.
    pub gather: Option<Tree>,
    /// Of scatters of blocks of one length.
    pub scatter: Option<Tree>,
    /// Of allgathers.
    pub allgather: Option<Allgather>,
    /// Of all-to-alls.
    pub alltoall: Option<Alltoall>,
    /// Of reductions that are scattered.
    pub reduce_scatter: Option<ReduceScatter>,
    /// Of prefix reductions.
    pub scan: Option<Scan>,
}

/// The form that a word names, or `None` for `auto`.
fn form<F: Form>(word: &str) -> Result<Option<F>, WantedError> {
    if word == "auto" {
        return Ok(None);
    }
    let names: Vec<_> = F::NAMED.iter().map(|(name, _)| *name).collect();
    let wrong = || WantedError {
        word: word.to_owned(),
        collective: F::COLLECTIVE,
        known: format!("auto, {}", names.join(", ")),
    };
    F::of_name(word).map(Some).ok_or_else(wrong)
}

/// The word for a form.
fn word<F: Form>(form: Option<F>) -> String {
    form.map_or("auto", |form| form.name().unwrap_or("?")).to_owned()
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
            "barrier" => self.barrier = form(word)?,
            "bcast" => self.bcast = form(word)?,
            "reduce" => self.reduce = form(word)?,
            "allreduce" => self.allreduce = word.parse()?,
            "gather" => self.gather = form(word)?,
            "scatter" => self.scatter = form(word)?,
            "allgather" => self.allgather = form(word)?,
            "alltoall" => self.alltoall = form(word)?,
            "reduce_scatter" => self.reduce_scatter = form(word)?,
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
            word(self.barrier),
            word(self.bcast),
            word(self.reduce),
            self.allreduce.to_string(),
            word(self.gather),
            word(self.scatter),
            word(self.allgather),
            word(self.alltoall),
            word(self.reduce_scatter),
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
            known: "auto, doubling, halving, flat, reduce-bcast, multiplying, multiplying:RATIO and schedules \
                    such as a4,a2"
                .to_owned(),
        }
        };
        if let Some(form) = Allreduce::of_name(text) {
            return Ok(Self::Form(form));
        }
        Ok(match text {
            "auto" => Self::Auto,
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
    /// Whether nothing is asked for.
    #[inline]
    pub fn is_auto(&self) -> bool {
        matches!(self, Self::Auto)
    }

    /// The schedule for so many ranks, if one is wanted and there is one. For operations that are not commutative it
    /// [keeps the order of ranks](Schedule::keeps_order): one that does not is none for them.
    pub fn schedule(&self, ranks: u32, commutative: bool) -> Option<Schedule> {
        let schedule = match self {
            Self::Auto | Self::Form(_) => return None,
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
        assert_eq!(wanted.bcast, None);
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
