//! Agents that break the rules of the conversation: the launcher says which rule, and leaves nothing behind.

use crate::harness::{Ended, Job, marked, wait_until};

fn lied(lie: &str) -> Ended {
    let mut job = Job::on_hosts("a", &["-n", "1", "true"]);
    job.command().env("BOWLINE_TEST_LIE", lie);
    let mut running = job.start();
    let ended = running.end();
    let mark = running.mark();
    assert!(wait_until(|| marked(&mark).is_empty()), "left behind: {:?}", marked(&mark));
    ended
}

fn says(ended: &Ended, why: &str) {
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert_eq!(ended.sentences().len(), 1, "{ended:?}");
    let sentence = ended.sentences()[0];
    assert!(sentence.contains("host a") && sentence.contains(why), "{ended:?}");
}

#[test]
fn a_rank_leaves_once() {
    says(&lied("leaves-twice"), "that a rank has left, a second time");
}

/// What a barrier may have is counted from the barrier before.
#[test]
fn what_is_put_is_limited_by_barrier() {
    let ended = lied("puts-in-two-barriers");
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    says(&lied("puts-in-one-barrier"), "more keys and values than a barrier may have");
}
