//! The simulator against what can be computed by hand, and against the published runs.

use bowline_model::fennel::draw::timeline;
use bowline_model::fennel::generate::{allreduce, allreduce_after, multicast, ping_pong};
use bowline_model::fennel::instrument::{Bandwidth, Recorder, Skew, Utilisation};
use bowline_model::fennel::machine::{Machine, RunError};
use bowline_model::fennel::network::{Fixed, LogGp, Noisy, PerByte, Pipelined};
use bowline_model::fennel::program::{Act, Program};
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
    let mut blocking = Machine {
        network: Pipelined { blocking: true, ..Pipelined::CHAPTER_5 },
        compute: Fixed(0.0),
    };
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

/// Section 5.4: 8 and 7 ranks; the times were computed apart from this code.
#[test]
fn the_published_runs_come_out() {
    let run = |ranks, text: &str| {
        let schedule = Schedule::parse(ranks, text).unwrap();
        let mut skew = Skew::new(ranks);
        let time = CHAPTER_5.clone().run(&allreduce(&schedule, 8), &mut [&mut skew]).unwrap();
        (time, skew.spread())
    };
    let (doubling, skew) = run(8, "a2,a2,a2");
    assert!(near(doubling, 1839.6) && near(skew, 0.0), "{doubling} {skew}");
    let (at_once, skew) = run(8, "a8");
    assert!(near(at_once, 1232.4) && near(skew, 0.0), "{at_once} {skew}");
    let (split, skew) = run(7, "c6m2,a2,a2,e6m2");
    assert!(near(split, 2452.8), "{split}");
    // Published as 700; it depends on what of a process that is done with sending counts.
    assert!((510.0..=1010.0).contains(&skew), "{skew}");
    let (merged, skew) = run(7, "m1g2a3,n1g3a2");
    assert!(near(merged, 1432.8) && skew <= 113.5, "{merged} {skew}");
    // Published: 41.8 % shorter.
    assert!((100.0 * (1.0 - merged / split) - 41.6).abs() < 0.1);
    let (merged, skew) = run(7, "m3g2a2,n3g2a2");
    assert!((1432.0..=1453.5).contains(&merged) && skew <= 217.0, "{merged} {skew}");
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
    let mut recorder = Recorder::default();
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
    let mut recorder = Recorder::default();
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
    let (mut recorder, mut busy) = (Recorder::default(), Utilisation::new(4));
    CHAPTER_5.clone().run(&program, &mut [&mut recorder, &mut busy]).unwrap();
    let svg = timeline(4, &recorder.tasks);
    assert_eq!(svg.matches("<rect").count(), 16, "8 messages and 8 computations");
    assert_eq!(svg.matches("stroke-opacity").count(), 8);
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
    let mut recorder = Recorder::default();
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
