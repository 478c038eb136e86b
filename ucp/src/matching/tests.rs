//! Every engine against a plain model: two vectors searched from the front.
//!
//! The same random programs of receives, arrivals, wildcards, probes and receives taken back run on
//! all engines, for communicators of 1 to 2^20 ranks; each must match what the model matches, in
//! the same order, step by step.

use super::*;
use proptest::prelude::*;

#[derive(Default)]
struct Model {
    posted: Vec<(Want, u64)>,
    unexpected: Vec<(u32, u64, u64)>,
}

#[derive(Clone, Debug)]
enum Step {
    Receive {
        source: Option<u32>,
        tag: Option<u64>,
    },
    Arrive {
        source: u32,
        tag: u64,
        /// As in a signal handler, which leaves what fits no receive to the next call.
        quietly: bool,
    },
    Probe {
        source: Option<u32>,
        tag: Option<u64>,
    },
    Claim {
        source: Option<u32>,
        tag: Option<u64>,
    },
    TakeBack(prop::sample::Index),
    TakeMessageBack(prop::sample::Index),
    TakeBackFrom {
        source: u32,
    },
    /// All receives are taken back, and all messages received, so that memory is given back.
    Empty,
    /// Receives or messages of many ranks at once, so that structures grow and shrink.
    Burst {
        /// Whether source and tag are named; none for messages.
        receives: Option<(bool, bool)>,
        first: u32,
        step: u32,
        many: u32,
        tags: u64,
        quietly: bool,
    },
}

fn want(source: Option<u32>, tag: Option<u64>) -> Want {
    Want {
        source: source.unwrap_or(0),
        source_mask: if source.is_some() { u32::MAX } else { 0 },
        tag: tag.unwrap_or(0),
        tag_mask: if tag.is_some() { u64::MAX } else { 0 },
    }
}

/// Ranks that often meet again, some of them spread over the communicator, and now and then one
/// that it does not have.
fn rank(ranks: u32) -> impl Strategy<Value = u32> {
    prop_oneof![
        6 => 0..ranks.min(4),
        3 => (0..8u32).prop_map(move |part| (u64::from(ranks - 1) * u64::from(part) / 7) as u32),
        2 => 0..ranks,
        1 => prop_oneof![Just(ranks), Just(u32::MAX), any::<u32>()],
    ]
}

fn step(ranks: u32) -> impl Strategy<Value = Step> {
    let source = move || proptest::option::weighted(0.7, rank(ranks));
    let tag = || proptest::option::weighted(0.7, 0u64..4);
    let receives = proptest::option::of((prop::bool::weighted(0.7), prop::bool::weighted(0.7)));
    let burst = (receives, rank(ranks), 0..3u32, 1..120u32, 1..60u64, any::<bool>());
    prop_oneof![
        8 => (source(), tag()).prop_map(|(source, tag)| Step::Receive { source, tag }),
        8 => (rank(ranks), 0u64..4, any::<bool>())
            .prop_map(|(source, tag, quietly)| Step::Arrive { source, tag, quietly }),
        2 => (source(), tag()).prop_map(|(source, tag)| Step::Probe { source, tag }),
        2 => (source(), tag()).prop_map(|(source, tag)| Step::Claim { source, tag }),
        2 => any::<prop::sample::Index>().prop_map(Step::TakeBack),
        2 => any::<prop::sample::Index>().prop_map(Step::TakeMessageBack),
        1 => rank(ranks).prop_map(|source| Step::TakeBackFrom { source }),
        1 => Just(Step::Empty),
        2 => burst.prop_map(|(receives, first, step, many, tags, quietly)| {
            Step::Burst { receives, first, step, many, tags, quietly }
        }),
    ]
}

fn program() -> impl Strategy<Value = (u32, Vec<Step>)> {
    let ranks = prop_oneof![
        Just(1u32),
        Just(2),
        3..300u32,
        Just(256),
        Just(257),
        Just(512),
        1000..70_000u32,
        Just(65_536),
        Just(1 << 20)
    ];
    ranks.prop_flat_map(|ranks| (Just(ranks), proptest::collection::vec(step(ranks), 1..60)))
}

/// An engine and its model.
struct Pair {
    name: &'static str,
    engine: Box<dyn MatchEngine>,
    model: Model,
    items: Vec<(ItemId, u64)>,
    value: u64,
}

impl Pair {
    fn receive(&mut self, want: Want) {
        self.value += 1;
        let (name, value) = (self.name, self.value);
        let at = self.model.unexpected.iter().position(|&(s, t, _)| want.fits(s, t));
        let expected = at.map(|at| self.model.unexpected.remove(at).2);
        assert_eq!(self.engine.take_unexpected(&want), expected, "{name}: receive {want:?}");
        if expected.is_some() {
            return;
        }
        self.model.posted.push((want, value));
        let item = self.engine.post(want, value);
        self.items.push((item, value));
    }

    fn arrive(&mut self, source: u32, tag: u64, quietly: bool) {
        self.value += 1;
        let (name, value) = (self.name, self.value);
        let at = self.model.posted.iter().position(|(want, _)| want.fits(source, tag));
        let expected = at.map(|at| self.model.posted.remove(at).1);
        let found = match quietly {
            true => self.engine.arrive_quietly(source, tag),
            false => self.engine.arrive(source, tag),
        };
        assert_eq!(found, expected, "{name}: from {source}, tag {tag}, quietly: {quietly}");
        if quietly && found.is_none() {
            assert_eq!(self.engine.arrive(source, tag), None, "{name}: asked again");
        }
        if expected.is_none() {
            self.model.unexpected.push((source, tag, value));
            self.engine.add_unexpected(source, tag, value);
        }
    }

    fn step(&mut self, step: &Step) {
        let name = self.name;
        match *step {
            Step::Receive { source, tag } => self.receive(want(source, tag)),
            Step::Arrive { source, tag, quietly } => self.arrive(source, tag, quietly),
            Step::Probe { source, tag } => {
                let want = want(source, tag);
                let fit = self.model.unexpected.iter().find(|&&(s, t, _)| want.fits(s, t));
                let expected = fit.map(|message| message.2);
                assert_eq!(self.engine.find_unexpected(&want), expected, "{name}: probe {want:?}");
            }
            Step::Claim { source, tag } => {
                let want = want(source, tag);
                let at = self.model.unexpected.iter().position(|&(s, t, _)| want.fits(s, t));
                let expected = at.map(|at| self.model.unexpected.remove(at).2);
                assert_eq!(self.engine.take_unexpected(&want), expected, "{name}: claim {want:?}");
            }
            Step::TakeBack(which) => {
                if self.items.is_empty() {
                    return;
                }
                let (item, value) = self.items.swap_remove(which.index(self.items.len()));
                let at = self.model.posted.iter().position(|&(_, v)| v == value);
                if let Some(at) = at {
                    self.model.posted.remove(at);
                }
                let removed = self.engine.remove_posted(item, value);
                assert_eq!(removed, at.is_some(), "{name}: take back {value}");
                assert!(!self.engine.remove_posted(item, value), "{name}: twice {value}");
            }
            Step::TakeMessageBack(which) => {
                if self.model.unexpected.is_empty() {
                    return;
                }
                let at = which.index(self.model.unexpected.len());
                let (source, tag, value) = self.model.unexpected.remove(at);
                let mut take = || self.engine.remove_unexpected(source, tag, &mut |v| v == value);
                assert_eq!(take(), Some(value), "{name}: take message {value} back");
                assert_eq!(take(), None, "{name}: twice");
            }
            Step::TakeBackFrom { source } => {
                let from = |want: &Want| want.source_mask != 0 && want.source == source;
                let (gone, stay): (Vec<_>, Vec<_>) =
                    self.model.posted.drain(..).partition(|(want, _)| from(want));
                self.model.posted = stay;
                let mut out = Vec::new();
                self.engine.remove_posted_where(&mut |want| from(want), &mut out);
                let gone: Vec<u64> = gone.into_iter().map(|(_, value)| value).collect();
                assert_eq!(out, gone, "{name}: take back all from {source}");
            }
            Step::Empty => {
                let mut out = Vec::new();
                self.engine.remove_posted_where(&mut |_| true, &mut out);
                let gone: Vec<u64> = self.model.posted.drain(..).map(|(_, value)| value).collect();
                assert_eq!(out, gone, "{name}: take back all");
                for (source, tag, value) in std::mem::take(&mut self.model.unexpected) {
                    let taken = self.engine.take_unexpected(&want(Some(source), Some(tag)));
                    assert_eq!(taken, Some(value), "{name}: receive all");
                }
            }
            Step::Burst { receives, first, step, many, tags, quietly } => {
                for k in 0..many {
                    let source = first.wrapping_add(k * step);
                    let tag = u64::from(k) % tags;
                    match receives {
                        Some((named, tagged)) => {
                            self.receive(want(named.then_some(source), tagged.then_some(tag)));
                        }
                        None => self.arrive(source, tag, quietly),
                    }
                }
            }
        }
    }

    fn check(&self) {
        let name = self.name;
        assert_eq!(self.engine.posted_len(), self.model.posted.len(), "{name}");
        assert_eq!(self.engine.unexpected_len(), self.model.unexpected.len(), "{name}");
        let mut values = Vec::new();
        self.engine.unexpected_values(&mut values);
        let expected: Vec<u64> = self.model.unexpected.iter().map(|m| m.2).collect();
        assert_eq!(values, expected, "{name}: what waits");
    }
}

fn engines(ranks: u32) -> Vec<Pair> {
    let of_kind = EngineKind::ALL.iter().map(|&kind| {
        let engine: Box<dyn MatchEngine> = Box::new(Engine::new(kind, ranks));
        (kind.name(), engine)
    });
    // Shapes that the cost would not choose, and the index of `nd` without the list before it.
    let shapes = [(1, 8), (8, 1), (5, 4), (2, 3)].map(|(dimensions, bits)| {
        let index = TreeIndex::with_shape(TreeShape { dimensions, bits });
        let engine: Box<dyn MatchEngine> = Box::new(Indexed::<_, Tally>::new(index));
        ("tree", engine)
    });
    // The published structures without the list before them.
    let pure = EngineKind::ALL.iter().map(|&kind| {
        let engine: Box<dyn MatchEngine> = Box::new(Engine::without_list(kind, ranks));
        (kind.name(), engine)
    });
    // Numbers that run out in the midst of it.
    let late: [Box<dyn MatchEngine>; 2] = [
        Box::new(Indexed::<_, Off>::nearly_numbered_up(HashIndex::new())),
        Box::new(Indexed::<_, Off>::nearly_numbered_up(CubeIndex::new(ranks))),
    ];
    let late = late.map(|engine| ("late numbers", engine));
    let pair = |(name, engine)| Pair {
        name,
        engine,
        model: Model::default(),
        items: Vec::new(),
        value: 0,
    };
    of_kind.chain(shapes).chain(pure).chain(late).map(pair).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn all_engines_match_what_the_model_matches((ranks, steps) in program()) {
        for mut pair in engines(ranks) {
            for step in &steps {
                pair.step(step);
            }
            pair.check();
        }
    }
}

/// The two examples of section 4.3.3 of the thesis behind the four-dimensional index: receives
/// posted for rank 0, rank 0, any rank, rank 0.
#[test]
fn wildcards_keep_their_place_among_named_sources() {
    for (sources, expected) in [([0, 0, 0, 0], [0, 1, 2, 3]), ([0, 8, 0, 0], [0, 2, 1, 3])] {
        for mut pair in engines(512) {
            for (value, source) in (0..).zip([Some(0), Some(0), None, Some(0)]) {
                pair.engine.post(want(source, Some(7)), value);
            }
            let matched = sources.map(|source| pair.engine.arrive(source, 7));
            assert_eq!(matched, expected.map(Some), "{}", pair.name);
        }
    }
}

/// Whatever waited in an engine, in whatever way it was emptied, it keeps memory for a short queue.
#[test]
fn an_empty_engine_gives_memory_back() {
    let many = 20 * pool::KEPT as u32;
    let pending = |kind: EngineKind| {
        let mut engine = Engine::new(kind, many);
        for rank in 0..many {
            engine.post(want(Some(rank), Some(7)), rank.into());
            engine.add_unexpected(many - rank, 9, rank.into());
        }
        assert!(engine.held() >= 2 * many as usize);
        engine
    };
    for &kind in EngineKind::ALL {
        for forward in [true, false] {
            let mut engine = pending(kind);
            // More than one period: an index that is trusted stays.
            for period in 0..5 {
                for k in 0..many {
                    let rank = if forward { k } else { many - 1 - k };
                    assert!(engine.arrive(rank, 7).is_some());
                    assert!(engine.take_unexpected(&want(None, Some(9))).is_some());
                }
                assert!(engine.held() <= pool::KEPT, "{}, {period}", kind.name());
                for rank in 0..many {
                    engine.post(want(Some(rank), Some(7)), 1);
                    engine.add_unexpected(rank, 9, 1);
                }
            }
        }
        let mut engine = pending(kind);
        for rank in 0..many {
            let taken =
                engine.remove_unexpected(many - rank, 9, &mut |value| value == u64::from(rank));
            assert_eq!(taken, Some(rank.into()));
        }
        engine.remove_posted_where(&mut |_| true, &mut Vec::new());
        assert!(engine.held() <= pool::KEPT, "{}: taken back", kind.name());
    }
}

/// A signal handler that takes the last entry frees nothing; the next receive does.
#[test]
fn what_signal_handlers_have_emptied_gives_memory_back_with_the_next_receive() {
    let many = 20 * pool::KEPT as u32;
    for &kind in EngineKind::ALL {
        let mut engine = Engine::new(kind, many);
        for period in 0..5 {
            for rank in 0..many {
                engine.post(want(Some(rank), Some(7)), rank.into());
            }
            assert!(engine.held() >= many as usize, "{}, {period}", kind.name());
            // A deep search, by which it grows.
            assert_eq!(engine.arrive(many - 1, 7), Some(u64::from(many - 1)));
            for rank in 0..many - 1 {
                assert_eq!(engine.arrive_quietly(rank, 7), Some(rank.into()), "{}", kind.name());
            }
            assert_eq!(engine.posted_len(), 0);
            engine.post(want(Some(3), Some(7)), 1);
            assert!(engine.held() <= pool::KEPT, "{}, {period}", kind.name());
            assert_eq!(engine.arrive(3, 7), Some(1));
        }
    }
}

/// The table of a hash is in the entries, and an entry is no larger because of it: the index itself is a number, which has
/// no place for a table. What full queues take of the heap is in `bench/queues/src/matching/counts.rs`.
#[test]
fn the_table_of_a_hash_is_in_the_entries() {
    assert_eq!((size_of::<pool::Item>(), size_of::<HashIndex>()), (40, 4));
    let ranks = 100_000;
    let mut engine = Indexed::<HashIndex, Tally>::new(HashIndex::new());
    for rank in 0..ranks {
        engine.post(want(Some(rank), Some(3)), rank.into());
        engine.add_unexpected(ranks + rank, 4, rank.into());
    }
    let mut compared = 0;
    for rank in (0..ranks).rev() {
        assert_eq!(engine.arrive(rank, 3), Some(rank.into()));
        compared += engine.counted().last;
        assert_eq!(engine.take_unexpected(&want(Some(ranks + rank), Some(4))), Some(rank.into()));
        compared += engine.counted().last;
    }
    // Two of them are the engine and the place of the ring.
    assert!(compared <= 5 * 2 * u64::from(ranks), "{compared} compared");
}

/// A list must not grow an index that would search as long as it did.
#[test]
fn wild_receives_do_not_grow_an_index() {
    let mut engine =
        Grown::<Indexed<TreeIndex>>::new(Indexed::new(TreeIndex::new(512)), Growth::Early);
    for round in 0..100 {
        for tag in 0..100 {
            assert_eq!(engine.take_unexpected(&want(None, Some(tag))), None);
            engine.post(want(None, Some(tag)), tag);
        }
        for tag in (0..100).rev() {
            assert_eq!(engine.arrive(3, tag), Some(tag), "round {round}");
        }
    }
    assert_eq!(engine.growths(), 0);
    // All receives are tested again when 32 times as many were compared in long searches, of 25 at least.
    let compared = 100 * 100 * 101 / 2;
    assert!((1..=compared / (32 * 25) + 1).contains(&engine.refusals()), "{}", engine.refusals());
}

/// One whose receives are wild in part grows an index that helps the others, and one that would not be
/// helped does so when its receives have changed.
#[test]
fn receives_of_named_sources_grow_an_index_among_wild_ones() {
    let mut engine =
        Grown::<Indexed<TreeIndex>>::new(Indexed::new(TreeIndex::new(512)), Growth::Early);
    let mut period = |named: u32| {
        for rank in 0..200 {
            let source = Some(rank).filter(|rank| rank % 4 < named);
            engine.post(want(source, Some(rank.into())), rank.into());
        }
        for rank in (0..200).rev() {
            assert_eq!(engine.arrive(rank, rank.into()), Some(rank.into()));
        }
        engine.growths()
    };
    // After the first period a list is tried again.
    assert_eq!([period(2), period(2)], [1, 2]);
    let mut growths = 2;
    for _ in 0..3 {
        growths = period(0);
    }
    // A list again, in which nothing is helped, asks rarely; then it is.
    let last = (0..4).map(|_| period(4)).last();
    assert!(last > Some(growths), "{last:?}");
}

/// Deep searches grow one; a list is tried again ever more rarely, and at once after a period of
/// short queues.
#[test]
fn deep_searches_grow_an_index_and_short_queues_a_list() {
    let mut engine =
        Grown::<Indexed<HashIndex>>::new(Indexed::new(HashIndex::new()), Growth::Weighed);
    let mut period = |ranks: u32| {
        for rank in 0..ranks {
            engine.post(want(Some(rank), Some(1)), u64::from(rank));
        }
        for rank in (0..ranks).rev() {
            assert_eq!(engine.arrive(rank, 1), Some(u64::from(rank)));
        }
        assert_eq!((engine.posted_len(), engine.unexpected_len()), (0, 0));
        engine.growths()
    };
    let growths: Vec<u64> = (0..15).map(|_| period(512)).collect();
    assert_eq!(growths, [1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4]);
    assert_eq!((period(4), period(4)), (4, 4));
    assert_eq!(period(512), 5);
}

/// A receive that names only the tag finds its message without comparing all of them, once that
/// has been done for a while; and the other way round.
#[test]
fn wildcards_are_searched_by_what_they_name() {
    let mut engine = Indexed::<HashIndex, Tally>::new(HashIndex::new());
    for tag in 0..1000 {
        engine.post(want(None, Some(tag)), tag);
        engine.post(want(Some(7), None), 5000 + tag);
    }
    for tag in (0..1000).rev() {
        assert_eq!(engine.arrive(9, tag), Some(tag));
        assert!(engine.counted().last < 100, "{} compared", engine.counted().last);
        assert_eq!(engine.arrive(7, 77_777), Some(5999 - tag));
    }
    for tag in 0..1000 {
        engine.add_unexpected(3, tag, tag);
        engine.add_unexpected(4 + tag as u32, 77_777, 5000 + tag);
    }
    for tag in (0..1000).rev() {
        assert_eq!(engine.take_unexpected(&want(None, Some(tag))), Some(tag));
        let source = 4 + tag as u32;
        assert_eq!(engine.take_unexpected(&want(Some(source), None)), Some(5000 + tag));
        let compared = engine.counted().last;
        assert!(tag > 900 || compared < 100, "{compared} compared");
    }
    assert!(engine.is_empty());
}

/// Chains take eight bytes for each entry, those by tag or source four more for each place of their table, and nothing
/// once the queue is empty.
#[test]
fn chains_take_what_they_say_and_give_it_back() {
    let mut engine = Indexed::<HashIndex, Tally>::new(HashIndex::new());
    let messages = 1000;
    for k in 0..messages {
        engine.add_unexpected(k, 7, k.into());
    }
    assert_eq!(engine.counted().bytes, 0);
    assert_eq!(engine.find_unexpected(&want(None, Some(8))), None);
    let links = 8 * u64::from(messages);
    assert_eq!(engine.counted().bytes, links + 4);
    for _ in 0..20 {
        assert_eq!(engine.find_unexpected(&want(None, Some(8))), None);
    }
    assert_eq!(engine.counted().bytes, 2 * links + 4 + 4 * 1024);
    engine.add_unexpected(0, 9, 5);
    // Both chains have grown, and what they have allocated beyond their links counts.
    let grown = 2 * (links + 8) + 4 + 4 * 1024..=4 * links + 4 + 4 * 1024;
    let bytes = engine.counted().bytes;
    assert!(grown.contains(&bytes), "{bytes} bytes, and {grown:?} are right");
    assert_eq!(engine.take_unexpected(&want(None, Some(9))), Some(5));
    for k in 0..messages {
        assert_eq!(engine.take_unexpected(&want(None, Some(7))), Some(k.into()));
    }
    super::grown::Grows::emptied(&mut engine);
    assert_eq!(engine.counted().bytes, 0);
}

/// Searches for the last of a full queue follow as many pointers as published (table 4.2).
#[test]
fn pointers_followed_are_those_of_the_publication() {
    for (ranks, four_d) in [(4096, 26), (65_536, 50), (1 << 20, 98)] {
        let last = ranks - 1;
        let mut list = ListEngine::<Tally>::new();
        let mut array = Indexed::<_, Tally>::new(ArrayIndex::new(ranks));
        let mut cubes = Indexed::<_, Tally>::new(CubeIndex::new(ranks));
        for rank in 0..ranks {
            let one = want(Some(rank), Some(0));
            list.post(one, u64::from(rank));
            array.post(one, u64::from(rank));
            cubes.post(one, u64::from(rank));
        }
        let expected = Some(u64::from(last));
        assert_eq!(list.arrive(last, 0), expected);
        assert_eq!(array.arrive(last, 0), expected);
        assert_eq!(cubes.arrive(last, 0), expected);
        let seen = [list.counted().last, array.counted().last, cubes.counted().last];
        assert_eq!(seen, [u64::from(last), 3, four_d], "{ranks} ranks");
    }
}

/// The structure of the four-dimensional index is as large as formula (4.20) says, at every
/// filling, and is given back.
#[test]
fn memory_is_what_the_formula_says() {
    for ranks in [256u32, 4096, 65_536] {
        let span = 1u32 << CubeIndex::bits_for(ranks);
        let mut engine = Indexed::<_, Tally>::new(CubeIndex::new(ranks));
        for filled in 1..=ranks {
            engine.post(want(Some(filled - 1), Some(0)), 1);
            let cubes = filled.div_ceil(span.pow(3)) as usize;
            let jumps = filled.div_ceil(span) as usize;
            let bytes =
                cubes * CubeIndex::cube_bytes(span as usize) + jumps * CubeIndex::JUMP_BYTES;
            assert_eq!(engine.counted().bytes, bytes as u64, "{filled} of {ranks}");
        }
        for rank in (0..ranks).rev() {
            assert_eq!(engine.arrive(rank, 0), Some(1));
        }
        assert_eq!(engine.counted().bytes, 0);
    }
}
