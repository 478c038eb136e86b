//! The conformance suite put to the test: a sound transport passes all of it, and each fault that
//! one can order is noticed by the test that is there for it. A suite that lets a fault pass is
//! worth nothing to the providers that rely on it.

mod hub;

use std::panic::{AssertUnwindSafe, catch_unwind};

use bowline_uct::conformance::{
    Provider, Subject, am, closing, failure, flow, model, run, threads, wakeup,
};
use bowline_uct::{LocalSlice, MemoryDomain};
use hub::Hub;

/// A hub without fault.
type Sound = Hub<{ hub::NONE }>;

bowline_uct::conformance!(Sound);

/// Fails unless `test` fails.
#[track_caller]
fn noticed<P: Provider>(test: fn(Subject)) {
    let outcome = catch_unwind(AssertUnwindSafe(|| test(Subject::of::<P>())));
    assert!(outcome.is_err(), "the suite let the fault pass");
}

#[test]
fn messages_out_of_order_are_noticed() {
    noticed::<Hub<{ hub::REORDER }>>(am::order_across_flavours);
    noticed::<Hub<{ hub::REORDER }>>(threads::streams);
    noticed::<Hub<{ hub::REORDER }>>(model::messages);
}

#[test]
fn damaged_payloads_are_noticed() {
    noticed::<Hub<{ hub::DAMAGE }>>(am::bcopy_lengths);
    noticed::<Hub<{ hub::DAMAGE }>>(am::zcopy_lengths);
    noticed::<Hub<{ hub::DAMAGE }>>(flow::refused_bcopy_is_unobservable);
}

#[test]
fn damaged_headers_are_noticed() {
    noticed::<Hub<{ hub::HEADER }>>(am::every_id);
}

#[test]
fn refused_messages_that_arrive_are_noticed() {
    noticed::<Hub<{ hub::LEAK }>>(flow::refused_short_is_unobservable);
    noticed::<Hub<{ hub::LEAK }>>(flow::refused_bcopy_is_unobservable);
    noticed::<Hub<{ hub::LEAK }>>(flow::refused_zcopy_is_unobservable);
}

#[test]
fn the_wrong_order_of_asking_is_noticed() {
    noticed::<Hub<{ hub::REVERSE }>>(flow::writable_in_order_of_asking);
}

#[test]
fn an_overdrawn_budget_is_noticed() {
    noticed::<Hub<{ hub::OVERDRAW }>>(flow::budget_is_respected);
}

#[test]
fn a_failure_reported_twice_is_noticed() {
    noticed::<Hub<{ hub::TELL_TWICE }>>(failure::death_is_reported_once);
    noticed::<Hub<{ hub::TELL_TWICE }>>(failure::invalidated_endpoints_fail_once);
}

#[test]
fn operations_left_without_an_answer_are_noticed() {
    noticed::<Hub<{ hub::FORGET_TOKENS }>>(failure::death_ends_operations_in_flight);
    noticed::<Hub<{ hub::FORGET_TOKENS }>>(failure::invalidated_endpoints_fail_once);
}

#[test]
fn messages_that_are_dropped_at_a_close_are_noticed() {
    noticed::<Hub<{ hub::DROP_UNREAD }>>(closing::messages_arrive_however_late);
    noticed::<Hub<{ hub::DROP_UNREAD }>>(closing::messages_arrive_after_a_check);
    noticed::<Hub<{ hub::DROP_UNREAD }>>(closing::messages_arrive_after_posts);
}

#[test]
fn a_close_that_is_called_a_death_is_noticed() {
    noticed::<Hub<{ hub::CALL_DEAD }>>(closing::messages_arrive_however_late);
    noticed::<Hub<{ hub::CALL_DEAD }>>(closing::messages_arrive_of_one_not_connected_to);
}

/// What the watchdog has to end. Run by `hangs_are_ended_by_the_watchdog` in a process of its own.
#[test]
#[ignore = "hangs by design"]
fn hang_by_a_lost_message() {
    let name = "am::order_across_flavours";
    run::<Hub<{ hub::LOSE }>>(name, &[name], am::order_across_flavours);
}

/// As above.
#[test]
#[ignore = "hangs by design"]
fn hang_by_a_lost_wakeup() {
    type Early = Hub<{ hub::RING_EARLY }>;
    let name = "wakeup::no_wakeup_is_lost_on_the_doorbell";
    run::<Early>(name, &[name], wakeup::no_wakeup_is_lost_on_the_doorbell);
}

#[test]
fn hangs_are_ended_by_the_watchdog() {
    for test in ["hang_by_a_lost_message", "hang_by_a_lost_wakeup"] {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", test])
            .env("BOWLINE_TEST_SECONDS", "3")
            .output()
            .unwrap();
        assert!(!output.status.success(), "{test} ended well");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("hangs: no end after 3 s"), "{test}: {text}");
    }
}

#[test]
fn an_error_names_what_an_interface_lacks() {
    let (_network, mut ifaces) = <Sound as Provider>::open(1);
    let exposed = ifaces[0].mem_expose(LocalSlice::EMPTY).expect_err("a hub has no memory");
    assert_eq!(exposed.to_string(), "this transport cannot lend memory to the reads of peers");
    let lent = ifaces[0].mem_lend(LocalSlice::EMPTY).expect_err("a hub has no memory");
    assert_eq!(lent.to_string(), "this transport cannot lend memory to the writes of peers");
}
