//! Schedules for ranks that are late for their stages: the model's order against the simulator's.

use bowline_model::choice::{FactorOrder, Reading, choose, choose_under_skew, time_under_skew};
use bowline_model::cost::Pipelining;
use bowline_model::fennel::generate::allreduce_after;
use bowline_model::fennel::machine::Machine;
use bowline_model::fennel::network::{Compute, Pipelined};
use bowline_model::fennel::random::Streams;
use bowline_model::schedule::Schedule;

/// Nanoseconds: what was published for messages of 8 bytes.
const COST: Pipelining = Pipelining { pipelining: 880.0, required: 380.0 };

/// Each computation is an exponential time of its own.
struct Late {
    mean: f64,
    streams: Streams,
}

impl Compute for Late {
    fn take(&mut self, process: u32, _: usize) -> f64 {
        -self.mean * self.streams.unit(process).ln()
    }
}

/// The mean time of many runs in which each rank is late for each stage, the first one too.
fn simulated(schedule: &Schedule, mean: f64) -> f64 {
    const RUNS: u32 = 200;
    let run = |seed| {
        let mut late = Late { mean, streams: Streams::new(seed) };
        let begins: Vec<f64> = (0..schedule.ranks()).map(|rank| late.take(rank, 0)).collect();
        let program = allreduce_after(schedule, 8, |rank| begins[rank as usize]);
        let network = Pipelined { cost: COST, byte: 0.0 };
        Machine { network, compute: late }.run(&program, &mut []).unwrap()
    };
    (0..u64::from(RUNS)).map(run).sum::<f64>() / f64::from(RUNS)
}

#[test]
fn late_ranks_want_fewer_stages_in_the_model_and_in_the_simulator() {
    let skew = 3000.0;
    // At 64 ranks the published measurement had fewer stages than the model without skew.
    for (ranks, prompt, late) in [(64, "a4,a4,a4", "a8,a8"), (81, "a3,a3,a3,a3", "a9,a9")] {
        assert_eq!(choose(ranks, COST.ratio(), FactorOrder::ByCost).to_string(), prompt);
        let chosen = choose_under_skew(ranks, COST.ratio(), skew / COST.required);
        assert_eq!(chosen.to_string(), late, "{ranks}");
        let [few, many] = [late, prompt].map(|text| Schedule::parse(ranks, text).unwrap());
        let model = |schedule, skew| time_under_skew(schedule, COST, Reading::Groups, skew);
        assert!(model(&many, 0.0) < model(&few, 0.0));
        assert!(model(&few, skew) < model(&many, skew));
        let (quick, slow) = (simulated(&many, 0.0), simulated(&few, 0.0));
        assert!(quick < slow, "{ranks} ranks that are prompt: {quick:.0} {slow:.0}");
        let (quick, slow) = (simulated(&few, skew), simulated(&many, skew));
        assert!(quick < slow, "{ranks} ranks that are late: {quick:.0} {slow:.0}");
    }
}
