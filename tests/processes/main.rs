//! Processes that are killed, that meet by socket address, whose networks end, that fork or lack resources.
//!
//! This program starts itself: as the ranks of a job, and as clients of a server. It is one thing or
//! the other by its environment, so its main function is its own and not that of the test harness,
//! whose arguments for filtering it knows: words, `--exact`, `--skip WORD` and `--list`. One case runs
//! at a time, since a launcher takes the signals of its whole process.

#[path = "../layers/alone.rs"]
mod alone;
mod announced;
mod any_source;
mod background;
#[path = "../layers/common.rs"]
mod common;
mod computing;
mod conditions;
mod kill;
#[path = "../chaos/layers.rs"]
mod layers;
mod meeting;
mod rails;
mod shared;
mod streams;
mod transports;
mod written;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

/// A case, which says why it failed.
pub(crate) struct Case {
    /// The module and the name in it.
    pub(crate) name: String,
    pub(crate) run: Box<dyn Fn() -> Result<(), String>>,
}

impl Case {
    pub(crate) fn new(name: String, run: impl Fn() -> Result<(), String> + 'static) -> Self {
        Self { name, run: Box::new(run) }
    }
}

/// What the arguments ask for.
#[derive(Default)]
struct Wanted {
    words: Vec<String>,
    skipped: Vec<String>,
    exact: bool,
    list: bool,
}

impl Wanted {
    fn parse(args: impl Iterator<Item = String>) -> Self {
        let (mut wanted, mut args) = (Self::default(), args);
        while let Some(word) = args.next() {
            match word.as_str() {
                "--exact" => wanted.exact = true,
                "--list" => wanted.list = true,
                "--skip" => wanted.skipped.extend(args.next()),
                "--test-threads" => drop(args.next()),
                other => match other.strip_prefix("--skip=") {
                    Some(skipped) => wanted.skipped.push(skipped.to_owned()),
                    None if other.starts_with('-') => {}
                    None => wanted.words.push(word),
                },
            }
        }
        wanted
    }

    fn has(&self, name: &str) -> bool {
        let matches =
            |word: &String| if self.exact { name == word } else { name.contains(word.as_str()) };
        (self.words.is_empty() || self.words.iter().any(matches))
            && !self.skipped.iter().any(matches)
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    if std::env::var_os("BOWLINE_JOB_FD").is_some() {
        let name = args.next().expect("the launcher says which program a rank runs");
        let known = kill::rank(&name)
            || background::rank(&name)
            || announced::rank(&name)
            || any_source::rank(&name)
            || written::rank(&name)
            || shared::rank(&name)
            || rails::rank(&name)
            || computing::rank(&name)
            || conditions::rank(&name);
        assert!(known, "there is no rank program {name}");
        return ExitCode::SUCCESS;
    }
    if let Some(code) = meeting::play().or_else(streams::play).or_else(conditions::play) {
        return code;
    }
    let wanted = Wanted::parse(args);
    let all = [
        kill::cases(),
        background::cases(),
        announced::cases(),
        any_source::cases(),
        written::cases(),
        shared::cases(),
        rails::cases(),
        meeting::cases(),
        streams::cases(),
        computing::cases(),
        conditions::cases(),
    ];
    let (cases, others): (Vec<Case>, Vec<Case>) =
        all.into_iter().flatten().partition(|case| wanted.has(&case.name));
    if wanted.list {
        cases.iter().for_each(|case| println!("{}: test", case.name));
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", cases.len());
    let (began, mut failed) = (Instant::now(), Vec::new());
    for Case { name, run } in &cases {
        // A panic has been printed.
        let outcome = catch_unwind(AssertUnwindSafe(run));
        match outcome.unwrap_or_else(|_| Err("it panicked".to_owned())) {
            Ok(()) => println!("test {name} ... ok"),
            Err(why) => {
                println!("test {name} ... FAILED: {why}");
                failed.push(name);
            }
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
