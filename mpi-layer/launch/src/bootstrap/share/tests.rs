//! Every route to the memory's descriptor, and what is said where one fails. Giver and taker are
//! one process; ranks of a whole job are started by the tests of the crate.

use bowline_base::job::JobSpec;

use super::*;

fn job() -> JobMemory {
    let spec = JobSpec { job_id: 3, ranks: 2, first_rank: 0, area_bytes: 100 };
    JobMemory::create_memfd(&spec).unwrap()
}

#[test]
fn every_route_leads_to_the_memory() {
    let job = job();
    let _giver = Giver::start(&job).unwrap();
    let offer = Offer::of(&job).unwrap().to_bytes();
    for route in [Route::Any, Route::Proc, Route::Pidfd, Route::Socket] {
        let taken = take(&offer, 0, route).unwrap_or_else(|e| panic!("{route:?}: {e}"));
        assert_eq!(taken.node_id(), job.node_id());
    }
}

#[test]
fn what_is_wrong_is_reported_for_each_route() {
    let job = job();
    let good = Offer::of(&job).unwrap();
    let refused = |offer: Offer, route| {
        take(&offer.to_bytes(), 4, route).map(|_| ()).unwrap_err().to_string()
    };
    let text = refused(Offer { pid_namespace: 1, ..good }, Route::Any);
    assert!(text.contains("rank 4") && text.contains("pid namespace"), "{text}");
    assert!(text.contains("socket: "), "no thread serves the socket: {text}");
    let text = refused(Offer { start_time: 1, ..good }, Route::Pidfd);
    assert!(text.contains("another one by now"), "{text}");
    let text = refused(Offer { fd: 0, ..good }, Route::Proc);
    assert!(text.contains("/proc: "), "{text}");
    let text = refused(Offer { node_id: 1, ..good }, Route::Proc);
    assert!(text.contains("another job"), "{text}");
    for damaged in [&b""[..], b"1 2 3", b"1 2 3 4 5 6", b"\xff"] {
        assert!(take(damaged, 0, Route::Any).is_err());
    }
}

#[test]
fn a_host_has_one_name() {
    assert_eq!(host().unwrap(), host().unwrap());
    assert!(host().unwrap().len() > 36);
}
