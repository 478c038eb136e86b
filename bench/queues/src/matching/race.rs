//! The engines beside each other on one job.

use anyhow::Result;
use bowline_ucp::matching::{Engine, EngineKind, MatchEngine};

use super::jobs::{Each, Job, One, Shared, play};
use crate::clock::{Contestant, Effort, Times, append, compare};
use crate::table::Cell;

/// Times of the engines on a job, in the order of [`EngineKind::ALL`].
#[derive(Debug)]
pub(crate) struct Race {
    times: Vec<Times>,
}

/// How often contestants are made.
const PLACES: usize = 5;

/// The contestant with a list for each communicator.
const LISTS: &str = "lists";

/// The published designs as they were published, without a list before them.
pub(crate) const PUBLISHED: [(&str, EngineKind); 2] =
    [("array*", EngineKind::Array), ("four_d*", EngineKind::FourD)];

/// Heads of the columns that [`Race::cells`] fills.
pub(crate) const COLUMNS: [&str; 12] = [
    "list",
    "+-",
    "array",
    "four_d",
    "hashed",
    "nd",
    "auto",
    "best",
    "auto/best",
    "array*",
    "four_d*",
    "array, 4D publ.",
];

impl Race {
    /// In one communicator of `ranks` ranks.
    pub(crate) fn one(effort: Effort, ranks: u32, job: &Job) -> Result<Self> {
        let contestants = || {
            let all = EngineKind::ALL.iter().map(|&kind| (kind.name(), Engine::new(kind, ranks)));
            let published =
                PUBLISHED.iter().map(|&(name, kind)| (name, Engine::without_list(kind, ranks)));
            let all = all.chain(published);
            all.map(|(name, engine)| contestant(name, One(engine), job)).collect()
        };
        Self::run(effort, contestants)
    }

    /// In `comms` communicators of `ranks` ranks. What is compared with is one list for all of
    /// them, as published; a list for each of them takes part as `lists`.
    pub(crate) fn many(effort: Effort, comms: u16, ranks: u32, job: &Job) -> Result<Self> {
        let each = |make: fn(EngineKind, u32) -> Engine, kind| {
            Each((0..comms).map(|_| make(kind, ranks)).collect())
        };
        let contestants = || {
            let mut all: Vec<Contestant<'_>> = EngineKind::ALL
                .iter()
                .map(|&kind| match kind {
                    EngineKind::List => {
                        contestant(kind.name(), Shared(Engine::new(kind, u32::MAX)), job)
                    }
                    kind => contestant(kind.name(), each(Engine::new, kind), job),
                })
                .collect();
            all.push(contestant(LISTS, each(Engine::new, EngineKind::List), job));
            for (name, kind) in PUBLISHED {
                all.push(contestant(name, each(Engine::without_list, kind), job));
            }
            all
        };
        Self::run(effort, contestants)
    }

    /// Where memory happens to lie can make a tenth of the time of a short match. So contestants of
    /// short jobs are made several times, at other places, and all rounds count.
    fn run<'a>(effort: Effort, make: impl Fn() -> Vec<Contestant<'a>>) -> Result<Self> {
        let part = Effort { rounds: effort.rounds.div_ceil(PLACES), ..effort };
        let mut alive = vec![make()];
        let mut times = compare(part, &mut alive[0])?;
        if times.iter().all(|times| times.rounds() == part.rounds) {
            for _ in 1..PLACES {
                let mut contestants = make();
                append(&mut times, compare(part, &mut contestants)?);
                alive.push(contestants);
            }
        }
        Ok(Self { times })
    }

    /// Times of one kind.
    pub(crate) fn of(&self, kind: EngineKind) -> &Times {
        let found = self.times.iter().find(|times| times.name == kind.name());
        found.expect("every kind takes part")
    }

    /// How many times as fast as the list a kind is.
    pub(crate) fn speedup(&self, kind: EngineKind) -> f64 {
        self.of(EngineKind::List).relative_to(self.of(kind))
    }

    /// The fastest of those that a user can ask for by name: of several communicators, each has
    /// its own engine.
    pub(crate) fn best(&self) -> &Times {
        let many = self.times.iter().any(|times| times.name == LISTS);
        let named = self.times.iter().filter(|times| {
            times.name != EngineKind::Auto.name()
                && PUBLISHED.iter().all(|(name, _)| *name != times.name)
                && !(many && times.name == EngineKind::List.name())
        });
        named.min_by(|a, b| a.median().total_cmp(&b.median())).expect("there are several kinds")
    }

    /// Time of the automatic choice as a part of that of the best.
    pub(crate) fn auto_to_best(&self) -> f64 {
        self.of(EngineKind::Auto).relative_to(self.best())
    }

    /// How many times as fast as one list for all communicators a list for each of them is.
    pub(crate) fn lists(&self) -> Cell {
        let lists = self.times.iter().find(|times| times.name == LISTS);
        lists.map_or_else(Cell::none, |lists| {
            Cell::times(self.of(EngineKind::List).relative_to(lists))
        })
    }

    /// The cells of [`COLUMNS`]: time of the list for each match, how many times as fast the others
    /// are, the best one, and what was published.
    pub(crate) fn cells(&self, published: &str) -> Vec<Cell> {
        let list = self.of(EngineKind::List);
        let mut cells =
            vec![Cell::time(list.median()), Cell::number(list.spread() * 100.0, 0, "%")];
        let others = [
            EngineKind::Array,
            EngineKind::FourD,
            EngineKind::Hashed,
            EngineKind::Nd,
            EngineKind::Auto,
        ];
        cells.extend(others.map(|kind| Cell::times(self.speedup(kind))));
        cells.push(self.best().name.into());
        cells.push(Cell::number(self.auto_to_best(), 2, ""));
        for (name, _) in PUBLISHED {
            let times = self.times.iter().find(|times| times.name == name);
            cells.push(times.map_or_else(Cell::none, |of| Cell::times(list.relative_to(of))));
        }
        cells.push(published.into());
        cells
    }
}

fn contestant<'a, P: super::jobs::Place + 'a>(
    name: &'static str,
    mut place: P,
    job: &'a Job,
) -> Contestant<'a>
where
    P::Engine: MatchEngine,
{
    Contestant { name, run: Box::new(move || play(&mut place, job)) }
}
