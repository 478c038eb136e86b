//! Records of jobs: what they come to as a program, and what is refused.

use bowline_model::coll::forms::Barrier;
use bowline_model::coll::{barrier, plan::Place};
use bowline_model::fennel::instrument::Bandwidth;
use bowline_model::fennel::job::{BlockRow, Collective, Job, JobRecordError, Lengths, RankRecord};
use bowline_model::fennel::machine::{Machine, RunError};
use bowline_model::fennel::network::{Fixed, Pipelined};
use bowline_model::fennel::source::{Stated, StepSource, Walk};

fn head(rank: u32, size: u32) -> String {
    format!("{{\"format\":\"bowline record\",\"version\":3,\"rank\":{rank},\"size\":{size}}}\n")
}

const WORLD: &str = "{\"comm\":0,\"generation\":0,\"members\":[0,1]}\n";

fn rank(number: u32, lines: &str) -> RankRecord {
    RankRecord::parse(&format!("{}{WORLD}{lines}", head(number, 2))).unwrap()
}

fn barriers(call: &Collective) -> Result<Box<dyn StepSource>, String> {
    if call.name != "barrier" {
        return Err(format!("{} is not simulated", call.name));
    }
    let run = |plan: &mut Walk<'_>, place: Place| barrier::run(plan, place, Barrier::Dissemination);
    Ok(Box::new(Stated::new(call.ranks, run)))
}

#[test]
fn a_job_takes_what_its_messages_and_its_computing_take() {
    // Rank 0 computes 1000, sends, and waits in a barrier; rank 1 receives and computes 300.
    let zero = rank(
        0,
        "{\"at\":1000,\"till\":1100,\"send\":1,\"comm\":0,\"tag\":7,\"bytes\":0}
         {\"at\":1100,\"till\":9000,\"coll\":\"barrier\",\"how\":\"Shared\",\"comm\":0,\"bytes\":0,\"root\":0,\"later\":false}
         {\"end\":9100}",
    );
    let one = rank(
        1,
        "{\"at\":0,\"till\":5000,\"recv\":0,\"comm\":0,\"tag\":7,\"bytes\":0}
         {\"at\":5300,\"till\":8000,\"coll\":\"barrier\",\"how\":\"Shared\",\"comm\":0,\"bytes\":0,\"root\":0,\"later\":false}
         {\"at\":8000,\"till\":8500,\"wait\":true}",
    );
    let job = Job::new(vec![one, zero]).unwrap();
    let counts = job.counts();
    assert_eq!((counts.messages, counts.bytes, counts.collectives), (1, 0, 2));
    assert_eq!((counts.computing, job.time(), job.size()), (1300.0, 9000.0, 2));
    let program = job.program(&mut barriers).unwrap();
    let mut machine = Machine { network: Pipelined::CHAPTER_5, compute: Fixed(10.0) };
    let mut bandwidth = Bandwidth::default();
    let end = machine.run(&program, &mut [&mut bandwidth]).unwrap();
    // The message is there at 1600, the barrier of rank 1 begins at 1900 and its message takes 600.
    assert_eq!((end, bandwidth.messages), (2500.0, 3));
}

/// As exchanges between neighbours are recorded: each rank sends first, and is in the call till both messages are there.
#[test]
fn exchanges_between_neighbours_are_messages() {
    let of = |other: u32, at: u32| {
        let edge = |at: u32, word: &str| {
            format!(
                "{{\"at\":{at},\"till\":9000,\"{word}\":{other},\"comm\":0,\"tag\":4294967295,\"bytes\":0,\"of\":\"neighbor_alltoall\"}}"
            )
        };
        format!("{}\n{}\n{{\"end\":9000}}", edge(at, "send"), edge(9000, "recv"))
    };
    let job = Job::new(vec![rank(0, &of(1, 1000)), rank(1, &of(0, 1300))]).unwrap();
    let counts = job.counts();
    assert_eq!((counts.messages, counts.computing), (2, 2300.0));
    let mut machine = Machine { network: Pipelined::CHAPTER_5, compute: Fixed(10.0) };
    // The message of rank 1 leaves at 1300 and takes 600.
    let end = machine.run(&job.program(&mut barriers).unwrap(), &mut []).unwrap();
    assert_eq!(end, 1900.0);
}

#[test]
fn communicators_with_one_number_are_distinguished() {
    let mut records = Vec::new();
    for own in 0..4_u32 {
        // Pairs of neighbours, whose communicators have number 1 everywhere and one generation.
        let (first, other) = (own / 2 * 2, own ^ 1);
        let send = format!(
            "{{\"at\":0,\"till\":0,\"send\":{other},\"comm\":1,\"tag\":0,\"bytes\":{own}}}\n"
        );
        let recv = format!(
            "{{\"at\":0,\"till\":0,\"recv\":{},\"comm\":1,\"tag\":0,\"bytes\":{other}}}\n",
            other - first
        );
        let comms = format!(
            "{{\"comm\":0,\"generation\":0,\"members\":[0,1,2,3]}}\n\
             {{\"comm\":1,\"generation\":5,\"members\":[{first},{}]}}\n",
            first + 1
        );
        records.push(RankRecord::parse(&format!("{}{comms}{send}{recv}", head(own, 4))).unwrap());
    }
    let program = Job::new(records).unwrap().program(&mut barriers).unwrap();
    let mut machine = Machine { network: Pipelined::CHAPTER_5, compute: Fixed(10.0) };
    assert!(machine.run(&program, &mut []).is_ok());
}

#[test]
fn what_is_no_record_says_why() {
    let error = |text: &str| RankRecord::parse(text).unwrap_err();
    assert_eq!(error(""), JobRecordError::Empty);
    assert_eq!(error("\n"), JobRecordError::Empty);
    assert_eq!(error("Chapter 1"), JobRecordError::Foreign);
    assert_eq!(error(&head(0, 2).replace("bowline record", "x")), JobRecordError::Foreign);
    let of_version = |number| head(0, 2).replace("\"version\":3", &format!("\"version\":{number}"));
    assert_eq!(error(&of_version(9)), JobRecordError::Version { found: 9 });
    assert!((1..3).all(|number| RankRecord::parse(&of_version(number)).is_ok()));
    assert!(error(&head(2, 2)).to_string().contains("rank 2 of 2"));
    assert!(error(&head(0, u32::MAX)).to_string().contains("1048576"));
    let start = "{\"at\":0,\"till\":0,\"coll\":\"barrier\",\"how\":\"\",\"comm\":0,\"bytes\":0,\"root\":0,\"later\":true,\"run\":3}\n";
    for (line, wanted) in [
        (&*start.repeat(2), "run 3 is not one that starts"),
        (&start.replace("true", "false"), "run 3 is not one that starts"),
        ("{\"at\":0,\"till\":0,\"done\":3}", "run 3 is not under way"),
        ("{\"dance\":1}", "nothing that a rank does"),
        ("{\"at\":0,\"till\":0,\"send\":2,\"comm\":0,\"tag\":7,\"bytes\":0}", "rank 2 is not in"),
        ("{\"at\":0,\"till\":0,\"send\":1,\"comm\":1,\"tag\":7,\"bytes\":0}", "no communicator 1"),
        ("{\"at\":0,\"till\":0,\"recv\":2,\"comm\":0,\"tag\":7,\"bytes\":0}", "no rank 2"),
        ("{\"at\":5,\"till\":4,\"wait\":true}", "from 5 till 4"),
        (
            "{\"at\":5,\"till\":9,\"wait\":true}\n{\"at\":8,\"till\":9,\"wait\":true}",
            "lasted till 9",
        ),
        (
            "{\"at\":0,\"till\":0,\"send\":1,\"comm\":0,\"tag\":7,\"bytes\":9999999999999}",
            "terabyte",
        ),
        ("{\"comm\":7,\"generation\":0,\"members\":[0]}", "communicator 7"),
        ("{\"comm\":1,\"generation\":0,\"members\":[1]}", "rank 0 is not among"),
        ("{\"comm\":1,\"generation\":0,\"members\":[0,0]}", "different ranks"),
        ("{\"comm\":1,\"generation\":0,\"members\":[0,9]}", "different ranks"),
        ("{\"at\":0,\"till\":9,\"wait\":true}\n{\"end\":5}", "ends at 5"),
        (
            "{\"at\":0,\"till\":0,\"coll\":\"bcast\",\"how\":\"\",\"comm\":0,\"bytes\":1,\"root\":2,\"later\":false}",
            "no root 2",
        ),
        (&call(0, "alltoallv", "\"later\":false,\"to\":[1,2,3]"), "3 blocks for 2 ranks"),
        (&call(0, "alltoallv", "\"later\":false,\"to\":[9999999999999]"), "terabyte"),
        (&call(0, "bcast", "\"later\":false,\"own\":1"), "bcast has no such blocks"),
    ] {
        let reported = error(&format!("{}{WORLD}{line}\n", head(0, 2))).to_string();
        assert!(reported.contains(wanted), "{line}: {reported}");
    }
}

#[test]
fn records_that_do_not_belong_together_are_refused() {
    let job = |records| Job::new(records).unwrap_err().to_string();
    assert!(job(vec![]).contains("0 of 0"));
    assert!(job(vec![rank(1, "")]).contains("rank 0 is missing"));
    assert!(job(vec![rank(0, "")]).contains("1 of 2"));
    assert!(job(vec![rank(0, ""), rank(0, "")]).contains("twice"));
    let three = RankRecord::parse(&head(1, 3)).unwrap();
    assert!(job(vec![rank(0, ""), three]).contains("another one 3"));
    let call = |name: &str| {
        let line = "{\"at\":0,\"till\":0,\"coll\":\"NAME\",\"how\":\"\",\"comm\":0,\"bytes\":0,\"root\":0,\"later\":false}";
        line.replace("NAME", name)
    };
    let job = Job::new(vec![rank(0, &call("barrier")), rank(1, &call("bcast"))]).unwrap();
    let error = job.program(&mut barriers).unwrap_err().to_string();
    assert!(error.contains("call barrier") && error.contains("bcast"), "{error}");
    let job = Job::new(vec![rank(0, &call("dance")), rank(1, &call("dance"))]).unwrap();
    assert!(job.program(&mut barriers).unwrap_err().to_string().contains("not simulated"));
}

/// What a program of two ranks takes with the parameters of chapter 5, or why it does not end.
fn simulated(zero: &str, one: &str) -> Result<f64, RunError> {
    let job = Job::new(vec![rank(0, zero), rank(1, one)]).unwrap();
    let mut machine = Machine { network: Pipelined::CHAPTER_5, compute: Fixed(10.0) };
    machine.run(&job.program(&mut barriers).unwrap(), &mut [])
}

/// A message between the ranks that is recorded at one time.
fn message(at: u32, word: &str, other: u32) -> String {
    format!("{{\"at\":{at},\"till\":{at},\"{word}\":{other},\"comm\":0,\"tag\":7,\"bytes\":0}}\n")
}

fn done(at: u32, run: u32) -> String {
    format!("{{\"at\":{at},\"till\":{at},\"done\":{run}}}\n")
}

#[test]
fn what_was_started_runs_beside_what_its_rank_does() {
    let start = |run: u32| call(0, "barrier", &format!("\"later\":true,\"run\":{run}"));
    // Rank 0 starts the barrier before it sends what rank 1 waits for before it starts it.
    let zero = start(0) + &message(0, "send", 1) + &done(0, 0);
    let one = message(0, "recv", 0) + &start(4) + &done(0, 4);
    // Behind the barrier's message, that of rank 0 is there at 700; then rank 1 sends its own.
    assert_eq!(simulated(&zero, &one), Ok(1300.0));
    // Without a number it ends in the call, as it did in records of version 1.
    let old = |text: &str| text.replace(",\"run\":0", "").replace(",\"run\":4", "");
    let (zero, one) = (old(&zero), old(&one));
    let without = |text: &str| {
        text.lines().filter(|line| !line.contains("done")).collect::<Vec<_>>().join("\n")
    };
    assert!(matches!(simulated(&without(&zero), &without(&one)), Err(RunError::Stuck { .. })));
    // Two that end in the reverse order, while both ranks compute 1000 ns and then 500: behind two sends of 100.
    let zero = start(0) + &start(1) + &done(1000, 1) + &done(1500, 0);
    let one = start(0) + &start(1) + &done(1000, 0) + &done(1500, 1);
    let both = simulated(&zero, &one).unwrap();
    assert_eq!(both, 1700.0);
    // A start that is never waited for is carried out too.
    assert_eq!(simulated(&start(0), &start(0)), Ok(600.0));
}

fn call(at: u32, name: &str, rest: &str) -> String {
    format!(
        "{{\"at\":{at},\"till\":{at},\"coll\":\"{name}\",\"how\":\"\",\"comm\":0,\"bytes\":0,\"root\":0,{rest}}}\n"
    )
}

/// What a collective with these lines of the two ranks is asked as.
fn asked(of: [&str; 2], version: u32) -> Collective {
    let record = |rank: u32, line: &str| {
        let head = head(rank, 2).replace("\"version\":3", &format!("\"version\":{version}"));
        RankRecord::parse(&format!("{head}{WORLD}{line}")).unwrap()
    };
    let job = Job::new(vec![record(0, of[0]), record(1, of[1])]).unwrap();
    let mut asked = None;
    let mut steps = |call: &Collective| {
        asked = Some(call.clone());
        let run = |_: &mut Walk<'_>, _: Place| Ok(());
        Ok(Box::new(Stated::new(call.ranks, run)) as Box<dyn StepSource>)
    };
    job.program(&mut steps).unwrap();
    asked.unwrap()
}

#[test]
fn lengths_of_blocks_are_those_of_all_members() {
    let line = |name: &str, bytes: u32, rest: &str| {
        let line = call(0, name, &format!("\"later\":false{rest}"));
        line.replace("\"bytes\":0", &format!("\"bytes\":{bytes}"))
    };
    let two = |name: &str, [a, b]: [u32; 2], [c, d]: [&str; 2], version| {
        let asked = asked([&line(name, a, c), &line(name, b, d)], version);
        (asked.bytes, asked.lengths, asked.how.is_some())
    };
    // The mean is rounded up.
    let of = |lengths: &[usize]| Lengths::Members(lengths.to_vec());
    assert_eq!(two("gatherv", [5, 10], [""; 2], 3), (8, of(&[5, 10]), true));
    assert_eq!(two("gatherv", [5, 10], [""; 2], 2), (8, of(&[5, 10]), false));
    let own = [",\"own\":7", ",\"own\":1"];
    assert_eq!(two("reduce_scatter", [8, 8], own, 3), (8, of(&[7, 1]), true));
    assert_eq!(two("reduce_scatter", [8, 8], [""; 2], 2), (8, Lengths::Even, false));
    let sent = [",\"to\":[4]", ",\"to\":[2,0]"];
    let pairs = Lengths::Pairs(vec![BlockRow::Same(4), BlockRow::Each(vec![2, 0])]);
    assert_eq!(two("alltoallv", [8, 2], sent, 3), (5, pairs, true));
    assert_eq!(two("alltoallv", [8, 2], [sent[0], ""], 3), (5, Lengths::Even, true));
    assert_eq!(two("bcast", [8, 8], [""; 2], 3), (8, Lengths::Even, true));
}

/// Ranks call collectives of different series, and start persistent ones, in different orders.
#[test]
fn collectives_meet_within_their_series() {
    let (blocking, later) = ("\"later\":false", "\"later\":true");
    let one = |number: u32| format!("{later},\"persistent\":{number}");
    let lines = |order: [usize; 4]| {
        let all = [(blocking, "barrier"), (later, "bcast"), (&one(0), "scan"), (&one(1), "reduce")];
        let line = |index: usize| call(0, all[index].1, all[index].0);
        // Each persistent one is started twice.
        order.map(line).concat() + &line(2) + &line(3)
    };
    let job = Job::new(vec![rank(0, &lines([0, 1, 2, 3])), rank(1, &lines([3, 1, 0, 2]))]).unwrap();
    let mut met = Vec::new();
    let mut steps = |call: &Collective| {
        met.push((call.name.clone(), call.persistent));
        let run = |_: &mut Walk<'_>, _: Place| Ok(());
        Ok(Box::new(Stated::new(call.ranks, run)) as Box<dyn StepSource>)
    };
    job.program(&mut steps).unwrap();
    met.sort();
    let named = |name: &str, persistent| (name.to_owned(), persistent);
    let (scan, reduce) = (named("scan", Some(0)), named("reduce", Some(1)));
    let wanted =
        [named("barrier", None), named("bcast", None), reduce.clone(), reduce, scan.clone(), scan];
    assert_eq!(met, wanted);
}

#[test]
fn a_job_whose_records_break_off_goes_as_far_as_it_has_partners() {
    let barrier = |at| call(at, "barrier", "\"later\":false");
    // Rank 1 was killed in its second message, of which half a line is there. Rank 0 has received it, and went on.
    let (send, recv) = (|at| message(at, "send", 0), |at| message(at, "recv", 1));
    let zero =
        format!("{}{}{}{}{{\"end\":9}}", recv(1), barrier(2), recv(3), message(4, "send", 1));
    let one = format!("{}{}{}", send(1), barrier(2), &send(3)[..30]);
    let job = |zero: &str, one: &str| Job::new(vec![rank(0, zero), rank(1, one)]).unwrap();
    let mut cut = job(&zero, &one);
    assert_eq!(cut.unended(), [1]);
    assert_eq!(cut.cut(), 2);
    let counts = cut.counts();
    assert_eq!((counts.messages, counts.collectives), (1, 2));
    let mut machine = Machine { network: Pipelined::CHAPTER_5, compute: Fixed(10.0) };
    assert!(machine.run(&cut.program(&mut barriers).unwrap(), &mut []).is_ok());
    // Nobody comes to the barrier but rank 0.
    assert_eq!(job(&zero, &send(1)).cut(), 3);
    // Rank 1 has not come to the second of what rank 0 started; it is left out with its end, and what came after that.
    let start = |at, run: u32| call(at, "barrier", &format!("\"later\":true,\"run\":{run}"));
    let more = start(1, 0) + &start(2, 1) + &done(3, 0) + &recv(4) + &done(5, 1) + &barrier(6);
    let mut cut = job(&more, &(start(1, 0) + &send(2) + &done(3, 0)));
    assert_eq!(cut.cut(), 3);
    assert_eq!((cut.counts().messages, cut.counts().later), (1, 2));
    assert!(machine.run(&cut.program(&mut barriers).unwrap(), &mut []).is_ok());
    // What is whole stays whole.
    let one = format!("{}{}{}{}", send(1), barrier(2), send(3), message(4, "recv", 0));
    let mut whole = job(&zero, &one);
    assert_eq!((whole.unended(), whole.cut()), (vec![1], 0));
}
