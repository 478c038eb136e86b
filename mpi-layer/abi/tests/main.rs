//! The C library under C programs: the compiler of the system makes each file below `c` into a program,
//! which runs as a job. A program says on its own what is wrong and ends with a code then.
//!
//! This program starts itself as the launcher of a job, so its main function is its own and not that of
//! the test harness, whose arguments for filtering it knows: words, `--exact`, `--skip WORD` and
//! `--list`.

mod cases;
mod every;
mod job;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use bowline_launch::run::OnFailure;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first().map(|(w, ws)| (w.as_str(), ws)) {
        Some((job::LAUNCH, words)) => return job::launch(words, OnFailure::Abort),
        Some((job::LAUNCH_ON, words)) => return job::launch(words, OnFailure::Continue),
        _ => {}
    }
    let (mut words, mut skipped, mut exact) = (Vec::new(), Vec::new(), false);
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--exact" => exact = true,
            "--skip" => skipped.extend(rest.next().map(String::as_str)),
            "--test-threads" => drop(rest.next()),
            other => match (other.strip_prefix("--skip="), other.starts_with('-')) {
                (Some(word), _) => skipped.push(word),
                (None, true) => {}
                (None, false) => words.push(other),
            },
        }
    }
    let wanted = |name: &str| {
        let matches = |word: &&str| if exact { name == *word } else { name.contains(*word) };
        (words.is_empty() || words.iter().any(matches)) && !skipped.iter().any(matches)
    };
    let (cases, others): (Vec<_>, Vec<_>) =
        cases::all().into_iter().partition(|case| wanted(case.name));
    if arguments.iter().any(|word| word == "--list") {
        cases.iter().for_each(|case| println!("{}: test", case.name));
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", cases.len());
    let (began, mut failed) = (Instant::now(), Vec::new());
    for case in &cases {
        // A panic has been printed.
        if catch_unwind(AssertUnwindSafe(case.run)).is_ok() {
            println!("test {} ... ok", case.name);
        } else {
            println!("test {} ... FAILED", case.name);
            failed.push(case.name);
        }
    }
    if !failed.is_empty() {
        println!("\nfailures:");
        failed.iter().for_each(|name| println!("    {name}"));
    }
    println!(
        "\ntest result: {}. {} passed; {} failed; 0 ignored; 0 measured; {} filtered out; \
         finished in {:.2}s\n",
        if failed.is_empty() { "ok" } else { "FAILED" },
        cases.len() - failed.len(),
        failed.len(),
        others.len(),
        began.elapsed().as_secs_f64(),
    );
    // As the test harness ends.
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(101) }
}
