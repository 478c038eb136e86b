//! Recursive multiplying on a simulated network with the published parameters, by the engine itself: it takes what the
//! model says. (M. Ruefenacht, thesis, Edinburgh 2020, tables 4.1 and 5.3.)

use crate::common::within_two_minutes;
use bowline::mpi::Sum;
use bowline::simulate::{self, SimulatedJob};
use bowline_model::choice::{Reading, time};
use bowline_model::cost::Pipelining;
use bowline_model::schedule::Schedule;

/// What was fitted on a Cray XC30, in ns.
const ARCHER: Pipelining = Pipelining { pipelining: 880.0, required: 380.0 };

/// Virtual ns of so many allreduces of 8 bytes, with start and end of the job.
fn virtual_time(ranks: u32, schedule: &Schedule, count: u32) -> u64 {
    let mut job = SimulatedJob::new(ranks, 1);
    job.network.latency_ns = ARCHER.pipelining as u64;
    job.network.gap_ns = ARCHER.required as u64;
    job.network.byte_ps = 0;
    job.config.set_text("BOWLINE_ALLREDUCE", &schedule.to_string()).expect("a schedule");
    let report = simulate::run(&job, |world| {
        for round in 0..i64::from(count) {
            let mut sum = [0];
            let mine = i64::from(world.rank()) + round;
            world.allreduce(&[mine], &mut sum, Sum).expect("all ranks live");
            let n = i64::from(ranks);
            assert_eq!(sum[0], n * (n - 1) / 2 + n * round);
        }
    });
    let report = report.expect("ranks start");
    assert_eq!(report.stuck, None);
    report.now_ns
}

/// Of one allreduce among many: ranks that are folded away in recursive doubling are ahead by a call.
fn each(ranks: u32, schedule: &Schedule) -> f64 {
    let (few, many) = (virtual_time(ranks, schedule, 5), virtual_time(ranks, schedule, 25));
    (many - few) as f64 / 20.0
}

#[test]
fn published_schedules_take_what_the_model_says_and_less_than_doubling() {
    within_two_minutes("schedules", || {
        for (ranks, text) in [
            (4, "a4"),
            (6, "a6"),
            (8, "a2,a4"),
            (12, "a3,a4"),
            (16, "a4,a4"),
            (24, "a4,a6"),
            (7, "m1g2a3,n1g3a2"),
        ] {
            let schedule = Schedule::parse(ranks, text).expect("a published schedule");
            let (taken, model) = (each(ranks, &schedule), time(&schedule, ARCHER, Reading::Groups));
            let off = (taken / model - 1.0).abs();
            assert!(off < 0.1, "{ranks} ranks, {text}: {taken}, and {model} by the model");
            // The least gain that was published is 8 %.
            let doubling = each(ranks, &Schedule::doubling(ranks));
            let gain = 100.0 * (1.0 - taken / doubling);
            assert!(gain >= 8.0, "{ranks} ranks, {text}: {gain} % less than doubling");
        }
    });
}
