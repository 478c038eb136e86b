//! The list engine against a plain model: two vectors searched from the front.

use super::*;
use proptest::prelude::*;

#[derive(Default)]
struct Model {
    posted: Vec<(Want, u64)>,
    unexpected: Vec<(u32, u64, u64)>,
}

#[derive(Clone, Debug)]
enum Step {
    Receive { source: Option<u32>, tag: Option<u64> },
    Arrive { source: u32, tag: u64 },
    Probe { source: Option<u32>, tag: Option<u64> },
    Cancel(usize),
}

fn want(source: Option<u32>, tag: Option<u64>) -> Want {
    Want {
        source: source.unwrap_or(0),
        source_mask: if source.is_some() { u32::MAX } else { 0 },
        tag: tag.unwrap_or(0),
        tag_mask: if tag.is_some() { u64::MAX } else { 0 },
    }
}

fn step() -> impl Strategy<Value = Step> {
    let source = proptest::option::weighted(0.7, 0u32..4);
    let tag = proptest::option::weighted(0.7, 0u64..4);
    prop_oneof![
        4 => (source.clone(), tag.clone()).prop_map(|(source, tag)| Step::Receive { source, tag }),
        4 => (0u32..4, 0u64..4).prop_map(|(source, tag)| Step::Arrive { source, tag }),
        1 => (source, tag).prop_map(|(source, tag)| Step::Probe { source, tag }),
        1 => (0usize..8).prop_map(Step::Cancel),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn finds_what_the_model_finds(steps in proptest::collection::vec(step(), 1..80)) {
        let mut model = Model::default();
        let mut engine = ListEngine::new();
        for (value, step) in (0u64..).zip(steps) {
            match step {
                Step::Receive { source, tag } => {
                    let want = want(source, tag);
                    let at = model.unexpected.iter().position(|&(s, t, _)| want.fits(s, t));
                    let expected = at.map(|at| model.unexpected.remove(at).2);
                    prop_assert_eq!(engine.take_unexpected(&want), expected);
                    if expected.is_none() {
                        model.posted.push((want, value));
                        engine.post(want, value);
                    }
                }
                Step::Arrive { source, tag } => {
                    let at = model.posted.iter().position(|(want, _)| want.fits(source, tag));
                    let expected = at.map(|at| model.posted.remove(at).1);
                    prop_assert_eq!(engine.arrive(source, tag), expected);
                    if expected.is_none() {
                        model.unexpected.push((source, tag, value));
                        engine.add_unexpected(source, tag, value);
                    }
                }
                Step::Probe { source, tag } => {
                    let want = want(source, tag);
                    let expected =
                        model.unexpected.iter().find(|&&(s, t, _)| want.fits(s, t)).map(|u| u.2);
                    prop_assert_eq!(engine.find_unexpected(&want), expected);
                }
                Step::Cancel(at) => {
                    if at < model.posted.len() {
                        let (_, value) = model.posted.remove(at);
                        prop_assert!(engine.remove_posted(value));
                        prop_assert!(!engine.remove_posted(value));
                    }
                }
            }
            prop_assert_eq!(engine.posted_len(), model.posted.len());
            prop_assert_eq!(engine.unexpected_len(), model.unexpected.len());
        }
    }
}
