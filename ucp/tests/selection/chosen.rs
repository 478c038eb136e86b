//! Which settings are a choice of the user's, so that nothing is measured, and which one is not.

use super::*;

/// What rank 1 has measured of some messages, and how many of them were offered.
fn measured(set: (&str, &str)) -> (Vec<MeansEstimate>, u64) {
    let pair = Pair::with(50, NEAR, &[set]);
    pair.singles(MessageKind::Tagged, 100, LEN);
    let all = pair.workers[1].estimates(pair.eps[1]).expect("an endpoint");
    (all, pair.workers[0].counters().sent_rndv)
}

#[test]
fn what_the_user_has_chosen_is_not_measured() {
    for set in [
        ("BOWLINE_SELECT", "static"),
        ("BOWLINE_RNDV_THRESHOLD", "100k"),
        ("BOWLINE_ZCOPY_THRESHOLD", "1g"),
        ("BOWLINE_RNDV_SCHEME", "get"),
    ] {
        let (all, _) = measured(set);
        assert!(all.is_empty(), "{set:?}: {all:?}");
    }
}

/// It says for which messages sharing the copy is one of the means. The others are measured as without it.
#[test]
fn the_shortest_message_that_is_shared_is_no_choice() {
    let without = measured(("BOWLINE_SELECT", "measured"));
    assert!(without.0.iter().filter(|estimate| estimate.count > 0).count() >= 2, "{without:?}");
    for bytes in ["64k", "1g"] {
        assert_eq!(measured(("BOWLINE_COOPERATE", bytes)), without, "{bytes}");
    }
}
