//! What is said of a failure at the end of a run: its name, what it printed about itself (a seed
//! above all), and the command that repeats it.

use std::fmt;
use std::path::{Path, PathBuf};

/// Lines shown of what a failed test has printed, before those that say how to repeat it.
const SHOWN: usize = 12;

/// Lines that say how to repeat a failure.
const TELLING: &[&str] =
    &["seed", "SEED", "replay", "repeat", "minimal failing", "watchdog", "hangs"];

/// Something that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// Of which step, and what.
    pub(super) name: String,
    /// What it has printed.
    pub(super) said: Vec<String>,
    /// The command that repeats it.
    pub(super) command: String,
    /// Where all of its output is.
    pub(super) log: PathBuf,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {}", self.name)?;
        for line in &self.said {
            writeln!(f, "    | {line}")?;
        }
        writeln!(f, "    repeat it: {}", self.command)?;
        write!(f, "    its output: {}", self.log.display())
    }
}

/// The failures of a step, as an error.
#[derive(Debug)]
pub(super) struct Failed(pub(super) Vec<Failure>);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|failure| failure.name.as_str()).collect();
        f.write_str(&names.join("; "))
    }
}

impl std::error::Error for Failed {}

/// What failed in the output of a test program, by the harness's list; `whole` where there is none,
/// because the program ended otherwise. `command` makes the command for the test of a name.
pub(super) fn of_output(
    whole: &str,
    lines: &[String],
    log: &Path,
    command: impl Fn(Option<&str>) -> String,
) -> Vec<Failure> {
    let names = names(lines);
    if names.is_empty() {
        let said = telling(lines, lines.len().saturating_sub(SHOWN));
        let log = log.to_owned();
        return vec![Failure { name: whole.to_owned(), said, command: command(None), log }];
    }
    let failure = |name: &str| {
        let own = section(lines, name);
        Failure {
            name: format!("{whole}: {name}"),
            said: telling(own, 0),
            command: command(Some(name)),
            log: log.to_owned(),
        }
    };
    names.into_iter().map(failure).collect()
}

/// The names that the harness lists at its end, of every program in the output.
fn names(lines: &[String]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    let mut listed = false;
    for line in lines {
        match line.strip_prefix("    ") {
            _ if line == "failures:" => listed = true,
            Some(name) if listed && !names.contains(&name) => names.push(name),
            Some(_) => {}
            None if line.is_empty() => {}
            None => listed = false,
        }
    }
    names
}

/// What the harness has kept of a test, or the line of one that keeps nothing.
fn section<'a>(lines: &'a [String], name: &str) -> &'a [String] {
    let head = format!("---- {name} stdout ----");
    let Some(start) = lines.iter().position(|line| *line == head) else {
        let own = format!("test {name} ... FAILED");
        let place = lines.iter().position(|line| line.starts_with(&own));
        return place.map_or(&[], |place| &lines[place..=place]);
    };
    let rest = &lines[start + 1..];
    let end = rest.iter().position(|line| line.starts_with("---- ") || line == "failures:");
    &rest[..end.unwrap_or(rest.len())]
}

/// The lines from `first` on, as many as are shown, and those elsewhere that say how to repeat it.
fn telling(lines: &[String], first: usize) -> Vec<String> {
    let shown = first..(first + SHOWN).min(lines.len());
    let mut said: Vec<String> = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        let telling = TELLING.iter().any(|word| line.contains(word));
        if !line.trim().is_empty() && (shown.contains(&place) || telling) && said.len() < 3 * SHOWN
        {
            said.push(line.clone());
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_test_its_words_and_its_command_are_found() {
        let text = "running 2 tests\ntest a::b ... FAILED\ntest c ... ok\n\nfailures:\n\n\
            ---- a::b stdout ----\nthread 'a::b' panicked at x.rs:1:\nlost\nseed 17: it differs\n\n\n\
            failures:\n    a::b\n\ntest result: FAILED. 1 passed; 1 failed\n";
        let command = |name: Option<&str>| format!("run {}", name.unwrap_or("all"));
        let failures = of_output("tests: p lib", &lines(text), Path::new("/l"), command);
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert_eq!(failures[0].name, "tests: p lib: a::b");
        assert_eq!(failures[0].command, "run a::b");
        assert!(failures[0].said.contains(&"seed 17: it differs".to_owned()), "{failures:?}");
        let shown = failures[0].to_string();
        assert!(shown.contains("repeat it: run a::b"), "{shown}");
    }

    #[test]
    fn a_program_that_ended_otherwise_is_a_failure_as_a_whole() {
        let text = "running 1 tests\nwatchdog: x did not end\n";
        let failures = of_output("p", &lines(text), Path::new("/l"), |name| {
            assert_eq!(name, None);
            "run".to_owned()
        });
        assert_eq!(failures[0].said, ["running 1 tests", "watchdog: x did not end"]);
    }

    #[test]
    fn a_program_without_the_harness_has_its_words_in_its_line() {
        let text = "test k::a ... ok\ntest k::b, shm ... FAILED: rank 1 ended\n\nfailures:\n    k::b, shm\n\n";
        let failures = of_output("p", &lines(text), Path::new("/l"), |_| String::new());
        assert_eq!(failures[0].said, ["test k::b, shm ... FAILED: rank 1 ended"]);
    }
}
