//! The simulator against what can be computed by hand, and against the published runs.

use bowline_model::fennel::draw::timeline;
use bowline_model::fennel::eliminate::{Elimination, eliminate};
use bowline_model::fennel::generate::{
    Computes, allreduce, allreduce_after, allreduce_with, multicast, ping_pong, stages,
};
use bowline_model::fennel::instrument::{Bandwidth, Skew, TraceRecorder, Utilisation};
use bowline_model::fennel::latency::{Delayed, Latency, LatencyDistribution, RandomLatency};
use bowline_model::fennel::machine::{Machine, RunError};
use bowline_model::fennel::network::{Blocking, Fixed, Hockney, LogGp, Noisy, PerByte, Pipelined};
use bowline_model::fennel::program::{Act, Program};
use bowline_model::fennel::topology::{NetworkTopology, Placement, Wired};
use bowline_model::schedule::Schedule;

type Published = Machine<Pipelined, Fixed>;

/// What chapter 5 of the thesis computed with.
const CHAPTER_5: Published = Machine { network: Pipelined::CHAPTER_5, compute: Fixed(10.0) };

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() < 0.05
}

#[test]
fn a_ping_pong_takes_its_messages_one_after_the_other() {
    let time = CHAPTER_5.clone().run(&ping_pong(10, 8), &mut []).unwrap();
    assert!(near(time, 20.0 * 603.2), "{time}");
}

#[test]
fn a_multicast_takes_what_the_equation_says() {
    for width in [1, 2, 7, 100] {
        let mut skew = Skew::new(width + 1);
        let program = multicast(width, 0);
        CHAPTER_5.clone().run(&program, &mut [&mut skew]).unwrap();
        let last = skew.ends().iter().copied().fold(0.0, f64::max);
        assert!(near(last, Pipelined::CHAPTER_5.cost.multicast(width)), "{width}: {last}");
        assert!(near(skew.ends()[0], f64::from(width) * 100.0), "the sender goes on before");
    }
    let mut blocking = Machine { network: Blocking(Pipelined::CHAPTER_5), compute: Fixed(0.0) };
    assert!(near(blocking.run(&multicast(7, 0), &mut []).unwrap(), 7.0 * 600.0));
}

#[test]
fn recursive_doubling_takes_what_the_equation_says() {
    for bits in 1..=10 {
        let program = allreduce(&Schedule::doubling(1 << bits), 8);
        let (mut skew, mut bandwidth) = (Skew::new(1 << bits), Bandwidth::default());
        let time = CHAPTER_5.clone().run(&program, &mut [&mut skew, &mut bandwidth]).unwrap();
        assert!(near(time, f64::from(bits) * 613.2), "{bits}: {time}");
        assert!(near(skew.spread(), 0.0));
        assert_eq!(bandwidth.messages, bits as u64 * (1 << bits));
    }
}

/// The time, the end of each process, and which of them sent last of all.
fn published(
    ranks: u32,
    text: &str,
    bytes: usize,
    computes: Computes,
) -> (f64, Vec<f64>, Vec<bool>) {
    let schedule = Schedule::parse(ranks, text).unwrap();
    let (mut skew, mut recorder) = (Skew::new(ranks), TraceRecorder::default());
    let program = allreduce_with(&schedule, bytes, computes);
    let time = CHAPTER_5.clone().run(&program, &mut [&mut skew, &mut recorder]).unwrap();
    let mut sent_last = vec![false; ranks as usize];
    for ran in &recorder.tasks {
        let process = ran.task.process as usize;
        if near(ran.local, skew.ends()[process]) && ran.local > ran.start {
            sent_last[process] = ran.travelled().is_some();
        }
    }
    (time, skew.ends().to_vec(), sent_last)
}

/// From the first end to the last, both in whole nanoseconds.
fn apart(ends: &[f64]) -> f64 {
    let first = ends.iter().copied().fold(f64::INFINITY, f64::min);
    ends.iter().copied().fold(0.0, f64::max).round() - first.round()
}

/// Thesis, section 5.4: 41.8 %, about a microsecond, and ends at most 100 and 200 ns apart are what vectors of no length
/// give, when a process computes once in a stage.
#[test]
fn the_printed_figures_come_out() {
    let run = |text| published(7, text, 0, Computes::Once);
    let (split, ends, sent_last) = run("c6m2,a2,a2,e6m2");
    assert!(near(split, 2440.0) && near(apart(&ends), 1010.0), "{split} {ends:?}");
    // Without those that only have to send at last.
    let received: Vec<f64> =
        ends.iter().zip(sent_last).filter(|(_, sent)| !sent).map(|(end, _)| *end).collect();
    assert!(near(apart(&received), 610.0), "{received:?}");
    let (merged, ends, _) = run("m1g2a3,n1g3a2");
    assert!(near(merged, 1420.0) && near(apart(&ends), 100.0), "{merged} {ends:?}");
    assert!(near(split - merged, 1020.0) && near(100.0 * (1.0 - merged / split), 41.8));
    let (_, ends, _) = run("m3g2a2,n3g2a2");
    assert!(near(apart(&ends), 200.0), "{ends:?}");
}

/// The same runs with vectors of 8 bytes, which were computed apart from this code, in whole nanoseconds: with one
/// computation in a stage, and with one for each value that arrives.
#[test]
fn vectors_of_eight_bytes_give_what_was_computed_of_them() {
    use Computes::{EachValue, Once};
    let cases = [
        (8, "a2,a2,a2", Once, 1840.0, 0.0),
        (8, "a2,a2,a2", EachValue, 1840.0, 0.0),
        (8, "a8", Once, 1232.0, 0.0),
        (8, "a8", EachValue, 1232.0, 0.0),
        (7, "c6m2,a2,a2,e6m2", Once, 2453.0, 1010.0),
        (7, "c6m2,a2,a2,e6m2", EachValue, 2453.0, 1010.0),
        (7, "m1g2a3,n1g3a2", Once, 1433.0, 103.0),
        (7, "m1g2a3,n1g3a2", EachValue, 1443.0, 113.0),
        (7, "m3g2a2,n3g2a2", Once, 1433.0, 207.0),
        (7, "m3g2a2,n3g2a2", EachValue, 1453.0, 217.0),
    ];
    for (ranks, text, computes, time, spread) in cases {
        let (found, ends, _) = published(ranks, text, 8, computes);
        assert_eq!((found.round(), apart(&ends)), (time, spread), "{text} {computes:?} {ends:?}");
    }
    let saved = |computes| {
        let time = |text| published(7, text, 8, computes).0;
        100.0 * (1.0 - time("m1g2a3,n1g3a2") / time("c6m2,a2,a2,e6m2"))
    };
    assert!(near(saved(Once), 41.6) && near(saved(EachValue), 41.2));
}

#[test]
fn who_comes_late_is_waited_for() {
    let schedule = Schedule::doubling(4);
    let late = |rank| if rank == 3 { 5000.0 } else { 0.0 };
    let time = CHAPTER_5.clone().run(&allreduce_after(&schedule, 8, late), &mut []).unwrap();
    assert!(near(time, 5000.0 + 2.0 * 613.2), "{time}");
}

#[test]
fn any_begins_with_the_first_and_concurrent_does_not_occupy() {
    let mut program = Program::new(1);
    let start = program.add(0, Act::Start, &[]);
    let long = program.add_concurrent(0, Act::Sleep(1000.0), &[start]);
    let short = program.add_concurrent(0, Act::Sleep(10.0), &[start]);
    program.add_any(0, Act::Compute(0), 1, &[short, long]);
    let mut recorder = TraceRecorder::default();
    let time = CHAPTER_5.clone().run(&program, &mut [&mut recorder]).unwrap();
    assert!(near(time, 1000.0));
    let computed = recorder.tasks.iter().find(|ran| ran.task.act == Act::Compute(0)).unwrap();
    assert!(near(computed.start, 10.0), "{computed:?}");
}

#[test]
fn any_takes_the_first_to_end_whatever_was_looked_at_first() {
    let mut program = Program::new(1);
    let start = program.add(0, Act::Start, &[]);
    let long = program.add_concurrent(0, Act::Sleep(1000.0), &[start]);
    let short = program.add_concurrent(0, Act::Sleep(10.0), &[start]);
    program.add_any(0, Act::Compute(0), 1, &[long, short]);
    let mut recorder = TraceRecorder::default();
    CHAPTER_5.clone().run(&program, &mut [&mut recorder]).unwrap();
    let computed = recorder.tasks.iter().find(|ran| ran.task.act == Act::Compute(0)).unwrap();
    assert!(near(computed.start, 10.0), "{computed:?}");
}

#[test]
fn a_circle_is_an_error() {
    let mut program = Program::new(1);
    let start = program.add(0, Act::Start, &[]);
    let one = program.add(0, Act::Proxy, &[start]);
    let other = program.add(0, Act::Proxy, &[one]);
    program.order(other, one);
    assert_eq!(CHAPTER_5.clone().run(&program, &mut []), Err(RunError::Stuck { left: 2 }));
}

#[test]
fn a_get_is_of_use_when_it_is_there() {
    let mut program = Program::new(2);
    let get = program.add(0, Act::Get { from: 1, bytes: 0 }, &[]);
    program.add(0, Act::Compute(0), &[get]);
    assert!(near(CHAPTER_5.clone().run(&program, &mut []).unwrap(), 610.0));
}

#[test]
fn logp_keeps_its_gap() {
    // Messages every g, each there after 2 o + L.
    let mut machine =
        Machine { network: LogGp::new(5, 1000.0, 50.0, 200.0, 0.0), compute: PerByte(0.0) };
    let mut skew = Skew::new(5);
    machine.run(&multicast(4, 1), &mut [&mut skew]).unwrap();
    assert!(near(skew.ends()[4], 3.0 * 200.0 + 2.0 * 50.0 + 1000.0), "{:?}", skew.ends());
}

#[test]
fn noise_is_the_same_with_the_same_seed() {
    let program = allreduce(&Schedule::of_factors(&[4, 4]).unwrap(), 8);
    let run = |seed| {
        let network = Noisy::new(Pipelined::CHAPTER_5, 0.2, seed);
        let compute = Noisy::new(Fixed(10.0), 0.2, !seed);
        let mut skew = Skew::new(16);
        let time = Machine { network, compute }.run(&program, &mut [&mut skew]).unwrap();
        (time, skew.spread())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    let quiet = CHAPTER_5.clone().run(&program, &mut []).unwrap();
    assert!((1..50).all(|seed| run(seed).0 > quiet), "noise only makes it longer");
}

#[test]
fn a_picture_has_a_bar_for_each_task_and_a_line_for_each_message() {
    let program = allreduce(&Schedule::doubling(4), 8);
    let (mut recorder, mut busy) = (TraceRecorder::default(), Utilisation::new(4));
    CHAPTER_5.clone().run(&program, &mut [&mut recorder, &mut busy]).unwrap();
    // Beside what the legend has.
    let (svg, none) = (timeline("run", 4, &recorder.tasks).svg(), timeline("run", 4, &[]).svg());
    let more = |what: &str| svg.matches(what).count() - none.matches(what).count();
    assert_eq!(more("<rect"), 16, "8 messages and 8 computations");
    assert_eq!(more("stroke-opacity"), 8);
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(busy.busy().iter().all(|&time| near(time, 2.0 * 113.2)));
}

#[test]
fn messages_are_matched_in_order_by_pair_and_tag() {
    let mut program = Program::new(2);
    let send = |to, tag| Act::Send { to, bytes: 0, tag };
    let first = program.add(0, send(1, 7), &[]);
    let other = program.add(0, send(1, 8), &[first]);
    let second = program.add(0, send(1, 7), &[other]);
    // The sender goes on while its messages travel, and takes the answer.
    let answer = program.add(0, Act::Recv { from: 1, tag: 7 }, &[second]);
    let eighth = program.add(1, Act::Recv { from: 0, tag: 8 }, &[]);
    let seventh = program.add(1, Act::Recv { from: 0, tag: 7 }, &[eighth]);
    let last = program.add(1, Act::Recv { from: 0, tag: 7 }, &[seventh]);
    program.add(1, send(0, 7), &[last]);
    let mut recorder = TraceRecorder::default();
    let end = CHAPTER_5.clone().run(&program, &mut [&mut recorder]).unwrap();
    let start = |id| recorder.tasks.iter().find(|ran| ran.id == Some(id)).unwrap().start;
    assert!(near(start(eighth), 700.0) && near(start(seventh), 700.0) && near(start(last), 800.0));
    assert!(near(start(answer), 1400.0) && near(end, 1400.0), "{end}");
}

#[test]
fn messages_that_lack_an_end_are_errors() {
    let mut program = Program::new(2);
    let send = program.add(0, Act::Send { to: 1, bytes: 8, tag: 0 }, &[]);
    let run = |program: &Program| CHAPTER_5.clone().run(program, &mut []);
    assert_eq!(run(&program), Err(RunError::NotReceived { from: 0, to: 1 }));
    let recv = program.add(1, Act::Recv { from: 0, tag: 0 }, &[]);
    program.order(recv, send);
    assert_eq!(run(&program), Err(RunError::Stuck { left: 2 }), "each waits for the other");
    program.add(1, Act::Recv { from: 0, tag: 0 }, &[]);
    assert_eq!(run(&program), Err(RunError::NotSent { from: 0, to: 1 }));
}

/// Section 5.4: the eliminations of 6 and 7 ranks.
#[test]
fn eliminations_take_what_is_published() {
    let run = |ranks, how| {
        let mut skew = Skew::new(ranks);
        let program = stages(&eliminate(ranks, how), 8, |_| 0.0);
        let time = CHAPTER_5.clone().run(&program, &mut [&mut skew]).unwrap();
        (time, skew.spread())
    };
    // 7 ranks: about as long as the collapse and expansion, whose four stages it has too.
    let (time, _) = run(7, Elimination::First);
    assert!(near(time, 2452.8), "{time}");
    // 6 ranks: the elimination overlaps the exchange, so there are three stages and not four. Rank 1 has the third's
    // value one message later: 206.4 + 500, and the result is given back by rank 0, which has not waited for that.
    let (time, _) = run(6, Elimination::First);
    assert!(near(time, 3.0 * 613.2), "{time}");
    // Collapsed, 6 ranks have four stages, but those that were not collapsed are ahead of the others by one, so that
    // their values are there when they are wanted: the third stage takes its sender's time only.
    let split = Schedule::parse(6, "c4m2,a2,a2,e4m2").unwrap();
    let time = CHAPTER_5.clone().run(&allreduce(&split, 8), &mut []).unwrap();
    assert!(near(time, 3.0 * 613.2 + 113.2), "{time}");
    // Overlapping eliminations of 7 ranks, two of them on the longest way, each a message of 103.2 later.
    let (time, _) = run(7, Elimination::Overlapping);
    assert!(time > 3.0 * 613.2 && time <= 3.0 * 613.2 + 2.0 * 103.2 + 0.05, "{time}");
}

#[test]
fn hockney_overlaps_nothing() {
    let mut machine = Machine { network: Hockney::new(1000.0, 0.5), compute: Fixed(0.0) };
    assert!(near(machine.run(&multicast(4, 100), &mut []).unwrap(), 4.0 * 1050.0));
    // LogP takes no time for bytes: the second begins a gap later.
    let mut machine = Machine { network: LogGp::logp(3, 1000.0, 50.0, 200.0), compute: Fixed(0.0) };
    let mut skew = Skew::new(3);
    machine.run(&multicast(2, 1 << 20), &mut [&mut skew]).unwrap();
    assert!(near(skew.ends()[2], 200.0 + 50.0 + 1000.0 + 50.0), "{:?}", skew.ends());
}

#[test]
fn latencies_are_distributed_as_they_are_said_to_be() {
    let samples = LatencyDistribution::Samples([100.0, 300.0].into());
    let normal = LatencyDistribution::Normal { mean: 100.0, deviation: 20.0 };
    // What is drawn, its mean, its deviation, and the range that it is in.
    let infinite = f64::INFINITY;
    for (distribution, mean, deviation, low, high) in [
        (LatencyDistribution::Constant(70.0), 70.0, 0.0, 70.0, 70.0),
        (LatencyDistribution::Uniform(100.0, 400.0), 250.0, 300.0 / 12_f64.sqrt(), 100.0, 400.0),
        (LatencyDistribution::Exponential(200.0), 200.0, 200.0, 0.0, infinite),
        (normal, 100.0, 20.0, 0.0, infinite),
        // The half of a normal distribution: mean s sqrt(2/pi), variance s^2 (1 - 2/pi).
        (LatencyDistribution::Normal { mean: 0.0, deviation: 100.0 }, 79.79, 60.28, 0.0, infinite),
        (samples, 200.0, 100.0, 100.0, 300.0),
    ] {
        let mut latency = RandomLatency::new(distribution.clone().checked().unwrap(), 3);
        let drawn: Vec<f64> =
            (0..40_000).map(|i| latency.flight(i % 7, 0, 500.0) - 500.0).collect();
        let count = drawn.len() as f64;
        let average = drawn.iter().sum::<f64>() / count;
        let variance = drawn.iter().map(|time| (time - average).powi(2)).sum::<f64>() / count;
        // Four standard errors of each.
        assert!((average - mean).abs() <= 0.02 * deviation + 0.01, "{distribution:?}: {average}");
        assert!((variance.sqrt() - deviation).abs() <= 0.06 * deviation + 0.01, "{distribution:?}");
        assert!(drawn.iter().all(|time| (low - 1e-9..=high + 1e-9).contains(time)));
    }
    for wrong in [
        LatencyDistribution::Constant(-1.0),
        LatencyDistribution::Uniform(2.0, 1.0),
        LatencyDistribution::Exponential(f64::NAN),
        LatencyDistribution::Normal { mean: -1.0, deviation: 1.0 },
        LatencyDistribution::Samples([].into()),
    ] {
        assert!(wrong.clone().checked().is_err(), "{wrong:?}");
    }
}

#[test]
fn ranks_far_apart_wait_longer() {
    let torus: NetworkTopology = "torus:8".parse().unwrap();
    let wired = |each| {
        let placement = Placement::Block(each);
        let latency = Wired::new(8, Some(torus.clone()), placement, 50.0, 90.0).unwrap();
        let network = Delayed { network: Pipelined::CHAPTER_5, latency };
        let program = allreduce(&Schedule::doubling(8), 8);
        Machine { network, compute: Fixed(10.0) }.run(&program, &mut []).unwrap()
    };
    // Exchanges over 1, 2 and 4 hops.
    assert!(near(wired(1), 3.0 * 613.2 + 7.0 * 50.0), "{}", wired(1));
    // Two ranks on a node: one exchange inside of it, the others over 1 and 2 hops.
    assert!(near(wired(2), 3.0 * 613.2 - 410.0 + 3.0 * 50.0), "{}", wired(2));
    let mut program = Program::new(2);
    let get = program.add(0, Act::Get { from: 1, bytes: 0 }, &[]);
    program.add(0, Act::Compute(0), &[get]);
    let latency = RandomLatency::new(LatencyDistribution::Constant(30.0), 0);
    let network = Delayed { network: Pipelined::CHAPTER_5, latency };
    let time = Machine { network, compute: Fixed(10.0) }.run(&program, &mut []).unwrap();
    assert!(near(time, 610.0 + 2.0 * 30.0), "there and back: {time}");
}
