//! Spaces are found by their numbers, and receives in them whatever place they wait in.

use proptest::prelude::*;

use super::*;

#[test]
fn spaces_are_found_wherever_their_numbers_are() {
    let numbers = [0, 3, DENSE - 1, DENSE, DENSE + 5, 1 << 20, u32::MAX - 1, u32::MAX];
    let mut spaces = Spaces::default();
    for id in numbers {
        assert!(spaces.get_mut(id).is_none());
        // A message comes first for every second one.
        if id % 2 == 1 {
            spaces.make(id).engine.add_unexpected(1, 2, u64::from(id));
        }
    }
    assert_eq!((spaces.unopened(), spaces.early_messages()), (4, 4));
    for id in numbers {
        let early = usize::from(id % 2 == 1);
        assert_eq!(spaces.open(id).expect("it is not open").engine.unexpected_len(), early);
        assert!(spaces.open(id).is_none());
        assert!(spaces.get_mut(id).is_some_and(|space| space.open));
        assert!(spaces.make(id).open);
    }
    assert_eq!(spaces.unopened(), 0);
    let mut all: Vec<u32> = spaces.iter_mut().map(|(id, _)| id).collect();
    all.sort_unstable();
    assert_eq!(all, numbers);
    for id in numbers {
        assert!(spaces.remove(id).is_some());
        assert!(spaces.remove(id).is_none());
    }
    assert!(spaces.pieces.iter().all(Option::is_none), "empty pieces are given back");
    assert_eq!(spaces.iter_mut().count(), 0);
}

/// What a space has counted stays counted when its messages are dropped, and when it is closed or was never opened.
#[test]
fn growths_of_spaces_that_are_gone_count() {
    let mut spaces = Spaces::default();
    let grow = |spaces: &mut Spaces, id| {
        let space = spaces.make(id);
        space.engine = Engine::new(EngineKind::Hashed, 4);
        (0..100).for_each(|tag| space.engine.add_unexpected(1, tag, tag));
        let spec = MatchSpec { space: id, source: Some(1), tag: 99, tag_mask: u64::MAX };
        assert_eq!(space.engine.take_unexpected(&spec.want()), Some(99));
        assert_eq!(space.engine.growths(), 1);
    };
    let ids = [0, DENSE + 5, u32::MAX];
    for (id, before) in ids.into_iter().zip(0..) {
        assert!(spaces.open(id).is_some());
        grow(&mut spaces, id);
        assert_eq!(spaces.growths(), before + 1);
    }
    let mut waiting = Vec::new();
    spaces.get_mut(ids[1]).unwrap().drain_unexpected(&mut waiting);
    assert_eq!((waiting.len(), spaces.growths()), (99, 3));
    grow(&mut spaces, 9);
    for tag in 0..99 {
        spaces.get_mut(9).unwrap().engine.remove_unexpected(1, tag, &mut |_| true);
    }
    spaces.drop_unopened();
    assert_eq!((spaces.unopened(), spaces.growths()), (0, 4));
    ids.into_iter().for_each(|id| assert!(spaces.remove(id).is_some()));
    assert_eq!((spaces.iter_mut().count(), spaces.growths()), (0, 4));
}

#[test]
fn a_space_is_three_lines() {
    assert_eq!(size_of::<Space>(), 3 * 64);
}

#[derive(Clone, Debug)]
enum Step {
    Receive { space: u32, source: Option<u32>, tag: Option<u64> },
    Arrive { space: u32, source: u32, tag: u64, quietly: bool },
    TakeBack(prop::sample::Index),
    TakeBackFrom { space: u32, source: u32 },
}

/// Spaces, and vectors searched from the front.
#[derive(Default)]
struct Pair {
    spaces: Spaces,
    /// Space, receive, value.
    posted: Vec<(u32, Want, u64)>,
    /// Space, source, tag, value.
    unexpected: Vec<(u32, u32, u64, u64)>,
    all: Vec<(u32, ItemId, u64)>,
}

impl Pair {
    /// As a worker receives.
    fn receive(&mut self, spec: &MatchSpec, value: u64) {
        let (id, want) = (spec.space, spec.want());
        let fits = |m: &(u32, u32, u64, u64)| m.0 == id && want.fits(m.1, m.2);
        let expected = self.unexpected.iter().position(fits);
        let expected = expected.map(|at| self.unexpected.remove(at).3);
        let (space, single) = self.spaces.space_and_single(id).expect("it is open");
        let item = if space.posts_at_once() {
            assert_eq!(expected, None, "a message waits");
            let alone = space.is_alone(single);
            space.post_at_once(single, alone, spec, value)
        } else {
            let found = space.engine.take_unexpected(&want);
            assert_eq!(found, expected, "receive {spec:?}");
            if found.is_some() {
                return;
            }
            space.engine.post(want, value)
        };
        self.posted.push((id, want, value));
        self.all.push((id, item, value));
    }

    fn step(&mut self, step: &Step, value: u64) {
        match *step {
            Step::Receive { space, source, tag } => {
                let (tag, tag_mask) = tag.map_or((0, 0), |tag| (tag, u64::MAX));
                self.receive(&MatchSpec { space, source, tag, tag_mask }, value);
            }
            Step::Arrive { space, source, tag, quietly } => {
                let fits = |p: &(u32, Want, u64)| p.0 == space && p.1.fits(source, tag);
                let at = self.posted.iter().position(fits);
                let expected = at.map(|at| self.posted[at].2);
                let found = match quietly {
                    true => self.spaces.arrive_quietly(space, source, tag),
                    false => self.spaces.arrive(space, source, tag),
                };
                assert_eq!(found, expected, "{step:?}");
                if quietly && found.is_none() {
                    // It stays in its lane for a call that may do more.
                    return;
                }
                match at {
                    Some(at) => drop(self.posted.remove(at)),
                    None => {
                        self.unexpected.push((space, source, tag, value));
                        self.spaces.make(space).engine.add_unexpected(source, tag, value);
                    }
                }
            }
            Step::TakeBack(which) => {
                if self.all.is_empty() {
                    return;
                }
                let (space, item, value) = self.all.swap_remove(which.index(self.all.len()));
                let at = self.posted.iter().position(|p| p.2 == value);
                assert_eq!(self.spaces.withdraw(space, item, value), at.is_some(), "{value}");
                assert!(!self.spaces.withdraw(space, item, value), "{value} twice");
                at.map(|at| self.posted.remove(at));
            }
            Step::TakeBackFrom { space, source } => {
                let from = |want: &Want| want.source_mask != 0 && want.source == source;
                let is_it = |p: &(u32, Want, u64)| p.0 == space && from(&p.1);
                let gone: Vec<u64> = self.posted.iter().filter(|p| is_it(p)).map(|p| p.2).collect();
                self.posted.retain(|p| !is_it(p));
                let (mut single, mut out) = (self.spaces.take_single(), Vec::new());
                let there = self.spaces.get_mut(space).expect("it is open");
                there.remove_posted_where(space, &mut single, &mut |want| from(want), &mut out);
                self.spaces.put_single(single);
                assert_eq!(out, gone, "{step:?}");
            }
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let space = || prop_oneof![Just(0u32), Just(1), Just(DENSE + 1)];
    let source = || proptest::option::weighted(0.7, 0..3u32);
    let tag = || proptest::option::weighted(0.7, 0..3u64);
    prop_oneof![
        5 => (space(), source(), tag())
            .prop_map(|(space, source, tag)| Step::Receive { space, source, tag }),
        5 => (space(), 0..3u32, 0..3u64, any::<bool>())
            .prop_map(|(space, source, tag, quietly)| Step::Arrive { space, source, tag, quietly }),
        1 => any::<prop::sample::Index>().prop_map(Step::TakeBack),
        1 => (space(), 0..3u32).prop_map(|(space, source)| Step::TakeBackFrom { space, source }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    /// Receives are found in the order in which they were posted, the one that is posted alone among them.
    #[test]
    fn receives_are_found_in_their_order_wherever_they_wait(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let mut pair = Pair::default();
        for id in [0, 1, DENSE + 1] {
            assert!(pair.spaces.open(id).is_some());
        }
        for (value, step) in (1..).zip(&steps) {
            pair.step(step, value);
        }
    }
}
