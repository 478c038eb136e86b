//! The algorithms of collectives that a user asks for, in place of those that are chosen.
//!
//! Nothing here knows whether a call allows the algorithm: where it does not, what is chosen is taken.

use std::fmt;
use std::str::FromStr;

use super::forms::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Form, Reduce, ReduceScatter, Scan, Tree,
};
use super::price::{Algorithm, NODES};
use crate::choice::{FactorOrder, choose, choose_in_order};
use crate::cost::Pipelining;
use crate::schedule::{JointStage, Schedule};

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
    pub barrier: Asked<Algorithm<Barrier>>,
    /// Of broadcasts.
    pub bcast: Asked<Algorithm<Bcast>>,
    /// Of reductions.
    pub reduce: Asked<Algorithm<Reduce>>,
    /// Of allreduces.
    pub allreduce: WantedAllreduce,
    /// Of gathers of blocks of one length.
    pub gather: Asked<Algorithm<Tree>>,
    /// Of scatters of blocks of one length.
    pub scatter: Option<Algorithm<Tree>>,
    /// Of allgathers.
    pub allgather: Asked<Algorithm<Allgather>>,
    /// Of all-to-alls.
    pub alltoall: Asked<Algorithm<Alltoall>>,
    /// Of reductions that are scattered.
    pub reduce_scatter: Asked<Algorithm<ReduceScatter>>,
    /// Of prefix reductions.
    pub scan: Option<Algorithm<Scan>>,
}

/// A word that names no form, with those that there are.
fn wrong<F: Form>(word: &str, others: &[&str]) -> WantedError {
    let names = others.iter().copied().chain(F::NAMED.iter().map(|(name, _)| *name));
    let numbered = F::NUMBERED.iter().map(ToString::to_string);
    let known: Vec<_> = names.map(str::to_owned).chain(numbered).collect();
    WantedError {
        word: word.to_owned(),
        collective: F::COLLECTIVE,
        why: None,
        known: known.join(", "),
    }
}

/// The word for algorithms in layers, in what is said of others.
const LAYERS: &str = "nodes:TREE:NAME";

/// The algorithm that a word names, or `None` for `auto`.
fn algorithm<F: Form>(word: &str) -> Result<Option<Algorithm<F>>, WantedError> {
    match word {
        "auto" => Ok(None),
        _ => Algorithm::of_name(word).map(Some).ok_or_else(|| wrong::<F>(word, &["auto", LAYERS])),
    }
}

/// The same where shared memory has a word too.
fn asked<F: Form>(word: &str) -> Result<Asked<Algorithm<F>>, WantedError> {
    match word {
        "auto" => Ok(Asked::Auto),
        STAGED => Ok(Asked::Staged),
        _ => Algorithm::of_name(word)
            .map(Asked::Form)
            .ok_or_else(|| wrong::<F>(word, &["auto", STAGED, LAYERS])),
    }
}

/// The word for what is asked for.
fn word<F>(asked: Asked<F>, name: impl Fn(F) -> String) -> String {
    match asked {
        Asked::Auto => "auto".to_owned(),
        Asked::Staged => STAGED.to_owned(),
        Asked::Form(form) => name(form),
    }
}

fn algorithm_word<F: Form>(asked: Asked<Algorithm<F>>) -> String {
    word(asked, |algorithm| algorithm.name())
}

fn only_algorithm_word<F: Form>(algorithm: Option<Algorithm<F>>) -> String {
    algorithm_word(algorithm.map_or(Asked::Auto, Asked::Form))
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
            "scatter" => self.scatter = algorithm(word)?,
            "allgather" => self.allgather = asked(word)?,
            "alltoall" => self.alltoall = asked(word)?,
            "reduce_scatter" => self.reduce_scatter = asked(word)?,
            "scan" => self.scan = algorithm(word)?,
            _ => {
                return Err(WantedError {
                    word: collective.to_owned(),
                    collective: "any collective",
                    why: None,
                    known: Self::COLLECTIVES.join(", "),
                });
            }
        }
        Ok(())
    }

    /// What is asked for of each collective, by its name.
    pub fn words(&self) -> [(&'static str, String); 10] {
        let words = [
            algorithm_word(self.barrier),
            algorithm_word(self.bcast),
            algorithm_word(self.reduce),
            self.allreduce.to_string(),
            algorithm_word(self.gather),
            only_algorithm_word(self.scatter),
            algorithm_word(self.allgather),
            algorithm_word(self.alltoall),
            algorithm_word(self.reduce_scatter),
            only_algorithm_word(self.scan),
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
    Schedule(Vec<JointStage>),
    /// In layers.
    Layered {
        /// Within nodes.
        within: Tree,
        /// Among them; a form, multiplying or a schedule.
        among: Box<Self>,
    },
}

/// Words that ask for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedError {
    word: String,
    collective: &'static str,
    /// What is wrong with it, where more can be said than that nothing has this name.
    why: Option<String>,
    known: String,
}

impl fmt::Display for WantedError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { word, collective, why, known } = self;
        write!(out, "{word:?} is no algorithm of {collective}: ")?;
        if let Some(why) = why {
            write!(out, "{why}; ")?;
        }
        write!(out, "there are {known}")
    }
}

impl std::error::Error for WantedError {}

impl FromStr for WantedAllreduce {
    type Err = WantedError;

    fn from_str(text: &str) -> Result<Self, WantedError> {
        let wrong_as = |why: Option<String>| {
            WantedError {
            word: text.to_owned(),
            collective: Allreduce::COLLECTIVE,
            why,
            known: "auto, staged, doubling, halving, flat, reduce-bcast, multiplying, multiplying:RATIO (a finite number \
                    above 0), schedules such as a4,a2, and nodes:TREE:NAME"
                .to_owned(),
        }
        };
        let wrong = || wrong_as(None);
        if let Some(form) = Allreduce::of_name(text) {
            return Ok(Self::Form(form));
        }
        if let Some(layers) = text.strip_prefix(NODES) {
            let (within, among) = layers.split_once(':').ok_or_else(wrong)?;
            let within = Tree::of_name(within).ok_or_else(wrong)?;
            let among = among.parse().map_err(|error: WantedError| wrong_as(error.why))?;
            return match among {
                Self::Form(_) | Self::Multiplying { .. } | Self::Schedule(_) => {
                    Ok(Self::Layered { within, among: Box::new(among) })
                }
                Self::Auto | Self::Staged | Self::Layered { .. } => Err(wrong()),
            };
        }
        Ok(match text {
            "auto" => Self::Auto,
            STAGED => Self::Staged,
            "multiplying" => Self::Multiplying { ratio: Pipelining::ARCHER.ratio() },
            _ => match text.strip_prefix("multiplying:") {
                Some(ratio) => {
                    let ratio: f64 = ratio.parse().map_err(|_| wrong())?;
                    // Without a latency there is nothing to overlap, and no factor above 2 is worth its messages: that
                    // is recursive doubling, which has a name of its own.
                    if !(ratio.is_finite() && ratio > 0.0) {
                        return Err(wrong_as(Some(format!(
                            "RATIO, a latency over what a message costs its sender, is not {ratio}"
                        ))));
                    }
                    Self::Multiplying { ratio }
                }
                None => {
                    let tokens = text.split(',').map(|word| word.trim().parse());
                    let tokens: Vec<_> = tokens.collect::<Result<_, _>>().map_err(|_| wrong())?;
                    // One that is for no number of ranks would never be taken.
                    let schedule = Schedule::of_stages(tokens);
                    let schedule = schedule.map_err(|error| wrong_as(Some(error.to_string())))?;
                    Self::Schedule(schedule.tokens().to_vec())
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
            Self::Form(form) => write!(out, "{}", form.name()),
            Self::Layered { within, among } => write!(out, "{NODES}{}:{among}", within.name()),
            Self::Multiplying { ratio } if *ratio == Pipelining::ARCHER.ratio() => {
                write!(out, "multiplying")
            }
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
    /// [keeps the order of ranks](Schedule::keeps_order): one that does not is none for them. Those in layers have none
    /// for all ranks.
    pub fn schedule(&self, ranks: u32, commutative: bool) -> Option<Schedule> {
        let schedule = match self {
            Self::Auto | Self::Staged | Self::Form(_) | Self::Layered { .. } => return None,
            Self::Multiplying { ratio } if commutative => {
                choose(ranks, *ratio, FactorOrder::ByCost)
            }
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
    use crate::coll::layers::Layered;
    use crate::coll::price::Priced;

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

    /// What is priced, and so what `bowline explain` shows, has a name that asks for nothing else.
    #[test]
    fn every_candidate_has_a_name_that_asks_for_it() {
        use crate::coll::price::{AllreduceForm, Crew, JobCosts, Layers, OpClass, Prices};

        fn same<W: PartialEq + std::fmt::Debug>(
            collective: &str,
            algorithms: Vec<(W, String)>,
            of: impl Fn(&Wanted) -> Option<W>,
        ) {
            assert!(!algorithms.is_empty());
            for (algorithm, name) in algorithms {
                let mut wanted = Wanted::default();
                wanted.set(collective, &name).unwrap();
                assert_eq!(of(&wanted), Some(algorithm), "{collective} {name}");
                let words = wanted.words().into_iter().find(|(known, _)| *known == collective);
                assert_eq!(words.unwrap().1, name);
            }
        }
        fn algorithms<F: Form>(all: Vec<Priced<Algorithm<F>>>) -> Vec<(Algorithm<F>, String)> {
            all.into_iter().map(|priced| (priced.form, priced.form.name())).collect()
        }
        for ranks in [1, 2, 3, 4, 7, 8, 12, 16, 40, 64, 100, 512, 1000, 4096] {
            for (costs, nodes) in
                [("shm", 1), ("tcp,pipelining=100000,skew=5000", 1), ("shm/tcp", 2), ("shm/tcp", 8)]
            {
                if ranks < nodes {
                    continue;
                }
                let most = ranks / nodes;
                let layers = (nodes > 1).then_some(Layers { nodes, most, consecutive: true });
                let costs: JobCosts = costs.parse().unwrap();
                let prices = Prices { crew: Crew { ranks, share: 1.0 }, costs, layers };
                same("barrier", algorithms(prices.barriers()), |all| all.barrier.form());
                for bytes in [0, 8, 4096, 1 << 20] {
                    same("bcast", algorithms(prices.bcasts(bytes)), |all| all.bcast.form());
                    same("allgather", algorithms(prices.allgathers(bytes)), |all| {
                        all.allgather.form()
                    });
                    same("gather", algorithms(prices.gathers(bytes)), |all| all.gather.form());
                    same("scatter", algorithms(prices.scatters(bytes)), |all| all.scatter);
                    same("alltoall", algorithms(prices.alltoalls(bytes)), |all| {
                        all.alltoall.form()
                    });
                    let all = algorithms(prices.scans(bytes, false, OpClass::Vector));
                    same("scan", all, |all| all.scan);
                    for commutative in [false, true] {
                        let all = algorithms(prices.reduces(bytes, commutative));
                        same("reduce", all, |all| all.reduce.form());
                        let all = algorithms(prices.reduce_scatters(bytes, commutative));
                        same("reduce_scatter", all, |all| all.reduce_scatter.form());
                        let of = |wanted: &WantedAllreduce, ranks| match wanted.form() {
                            Some(form) => Some(AllreduceForm::Form(form)),
                            None => {
                                wanted.schedule(ranks, commutative).map(AllreduceForm::Multiplying)
                            }
                        };
                        let all = prices.allreduces(bytes, commutative).into_iter();
                        let all = all.map(|Priced { form, .. }| {
                            let name = form.name_by(AllreduceForm::name);
                            (form, name)
                        });
                        same("allreduce", all.collect(), |all| match &all.allreduce {
                            WantedAllreduce::Layered { within, among } => {
                                let among = of(among, nodes)?;
                                Some(Algorithm::Layered(Layered { within: *within, among }))
                            }
                            wanted => of(wanted, ranks).map(Algorithm::Form),
                        });
                    }
                }
            }
        }
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
        let doubling = wanted("multiplying:0.1").unwrap();
        let of = |commutative| doubling.schedule(7, commutative).unwrap().to_string();
        assert_eq!((of(true), of(false)), ("m3g2a2,n3g2a2".into(), "o3g2a2,n3g2a2".into()));
        assert_eq!(wanted("s4r,g4r").unwrap().schedule(4, false), None);
        let fixed = wanted("m1g2a3, n1g3a2").unwrap();
        assert_eq!(fixed.schedule(7, false).unwrap().to_string(), "m1g2a3,n1g3a2");
        assert_eq!((fixed.schedule(8, true), fixed.form()), (None, None));
        for wrong in [
            "",
            "fast",
            "a",
            "nodes:flat:a2",
            "nodes:linear:auto",
            "nodes:linear",
            "multiplying:-1",
            "multiplying:0",
            "multiplying:-0",
            "multiplying:inf",
            "multiplying:NaN",
            "nodes:linear:multiplying:0",
            "a1",
            "a2,a0",
            "c6m2,a2",
            "a65536,a65536",
            "nodes:linear:a1",
            "multiplying:x",
            "a4,,a2",
        ] {
            let error = wanted(wrong).unwrap_err().to_string();
            assert!(error.contains("doubling") && error.contains(&format!("{wrong:?}")), "{error}");
        }
        let error = |text| wanted(text).unwrap_err().to_string();
        assert!(
            error("multiplying:0").contains("is not 0; there are"),
            "{}",
            error("multiplying:0")
        );
        assert!(error("a1").contains("the numbers of a1 do not fit together"), "{}", error("a1"));
    }
}
