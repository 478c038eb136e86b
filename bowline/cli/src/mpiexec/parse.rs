//! From the words of a command line to a job. Nothing is started and no file but those that an
//! option names is read.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bowline_launch::run::{Bind, Host};

use super::table::{Known, Meaning, find};
use crate::numbers;

/// What a command line asks for.
#[derive(Debug)]
pub(super) enum Asked {
    Help,
    Version,
    Job(Box<Job>),
}

/// A program, as far as it was read.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    pub(super) ranks: Option<u32>,
    /// The program and its arguments.
    pub(super) words: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) directory: Option<PathBuf>,
    /// Hosts that stand beside this program.
    pub(super) hosts: Option<Vec<Host>>,
}

/// A job, as far as it was read.
#[derive(Debug, Default)]
pub(super) struct Job {
    pub(super) programs: Vec<Program>,
    /// Variables for all programs.
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) directory: Option<PathBuf>,
    pub(super) per_host: Option<u32>,
    pub(super) bind: Option<Bind>,
    pub(super) oversubscribe: bool,
    pub(super) label: bool,
    pub(super) recover: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) agent_command: Option<String>,
    pub(super) agent_program: Option<OsString>,
    /// What is reported about options that are not followed.
    pub(super) words: Vec<String>,
}

/// Reads the words behind the command's name.
///
/// # Errors
/// In words for the user.
pub(super) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Asked> {
    let mut job = Job::default();
    let mut words = words.into_iter().peekable();
    loop {
        let mut program = Program::default();
        if let Some(asked) = options(&mut words, &mut job, &mut program)? {
            return Ok(asked);
        }
        while let Some(word) = words.next_if(|word| word != ":") {
            program.words.push(word);
        }
        let from_file = !job.programs.is_empty() && program.words.is_empty();
        if from_file && words.peek().is_none() {
            break;
        }
        ensure!(
            !program.words.is_empty(),
            "a program is missing; `mpiexec --help` shows how to name it"
        );
        job.programs.push(program);
        if words.next().is_none() {
            break;
        }
        ensure!(words.peek().is_some(), "a program is missing behind the last `:`");
    }
    Ok(Asked::Job(Box::new(job)))
}

/// Reads the options in front of a program.
fn options(
    words: &mut std::iter::Peekable<impl Iterator<Item = OsString>>,
    job: &mut Job,
    program: &mut Program,
) -> Result<Option<Asked>> {
    while let Some(word) = words.next_if(|word| word.as_bytes().starts_with(b"-")) {
        if word == "--" {
            break;
        }
        let Some(text) = word.to_str() else {
            bail!("unknown option {word:?}; `mpiexec --help` lists those that there are");
        };
        let bare = text.strip_prefix("--").or_else(|| text.strip_prefix('-')).unwrap_or(text);
        let (name, first) = match bare.split_once('=') {
            Some((name, value)) => (name, Some(OsString::from(value))),
            None => (bare, None),
        };
        let Some(known) = find(name) else {
            bail!("unknown option `{text}`; `mpiexec --help` lists those that there are");
        };
        let mut values: Vec<OsString> = first.into_iter().collect();
        ensure!(values.len() <= known.values, "option `-{name}` takes no value");
        while values.len() < known.values {
            let Some(value) = words.next() else {
                bail!("option `{text}` wants {} that follows it", amount(known.values));
            };
            // `-genv NAME=VALUE` is one word.
            let whole = known.values == 2
                && values.is_empty()
                && matches!(known.meaning, Meaning::EnvOfAll | Meaning::EnvOfOne)
                && value.as_bytes().contains(&b'=');
            values.push(value);
            if whole {
                break;
            }
        }
        match known.meaning {
            Meaning::Help => return Ok(Some(Asked::Help)),
            Meaning::Version => return Ok(Some(Asked::Version)),
            Meaning::ConfigFile => config_file(&values[0], job)?,
            _ => apply(text, known, &values, job, program)?,
        }
    }
    Ok(None)
}

fn amount(values: usize) -> &'static str {
    if values == 1 { "a value" } else { "two values" }
}

fn apply(
    option: &str,
    known: &Known,
    values: &[OsString],
    job: &mut Job,
    program: &mut Program,
) -> Result<()> {
    let first = || values[0].to_str().with_context(|| format!("{option} {:?}: no text", values[0]));
    match known.meaning {
        Meaning::Ranks => program.ranks = Some(count(option, first()?)?),
        Meaning::Hosts => program.hosts = Some(merged(Host::list(first()?)?)),
        Meaning::HostFile => program.hosts = Some(merged(host_file(&values[0])?)),
        Meaning::PerHost => job.per_host = Some(count(option, first()?)?),
        Meaning::EnvOfAll => job.env.push(variable(option, values)?),
        Meaning::EnvOfOne => program.env.push(variable(option, values)?),
        Meaning::Export => match split(&values[0]) {
            Some(pair) => job.env.push(pair),
            None if std::env::var_os(&values[0]).is_some() => {}
            None => {
                job.words.push(format!("{option} {}: there is no such variable here", first()?))
            }
        },
        Meaning::Directory => program.directory = Some(values[0].clone().into()),
        Meaning::DirectoryOfAll => job.directory = Some(values[0].clone().into()),
        Meaning::Bind => match first()?.split(':').next().unwrap_or_default() {
            "none" => job.bind = Some(Bind::None),
            "core" | "hwthread" => job.bind = Some(Bind::Core),
            other => job.words.push(format!(
                "{option} {other} is not followed: ranks are bound to one processor each (core) or \
                 not at all (none)"
            )),
        },
        Meaning::BindCore => job.bind = Some(Bind::Core),
        Meaning::BindNone => job.bind = Some(Bind::None),
        Meaning::Oversubscribe => job.oversubscribe = true,
        Meaning::Label => job.label = true,
        Meaning::Timeout => job.timeout = Some(seconds(option, first()?)?),
        Meaning::Recover => job.recover = true,
        Meaning::Launcher => match first()? {
            "ssh" => job.agent_command = None,
            "rsh" => job.agent_command = Some("rsh {host}".into()),
            // Hosts are names then, and all is started here.
            "fork" => job.agent_command = Some("env".into()),
            other => bail!(
                "{option} {other}: there are ssh, rsh and fork; any other command can be given with -agent-command"
            ),
        },
        Meaning::LauncherProgram => job.agent_command = Some(format!("{} {{host}}", first()?)),
        Meaning::AgentCommand => job.agent_command = Some(first()?.to_owned()),
        Meaning::AgentProgram => job.agent_program = Some(values[0].clone()),
        Meaning::Stdin => ensure!(
            first()? == "0",
            "{option} {}: the input goes to rank 0, and to no other",
            first()?
        ),
        Meaning::AsEver => {}
        Meaning::Ignored(why) => job.words.push(format!("{option} is not followed: {why}")),
        Meaning::Refused(why) => bail!("{option}: {why}"),
        Meaning::ConfigFile | Meaning::Version | Meaning::Help => {
            unreachable!("read by the caller")
        }
    }
    Ok(())
}

fn count(option: &str, text: &str) -> Result<u32> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.with_context(|| format!("{option} {text}: a whole number from 1 on is expected"))
}

/// Seconds of `--timeout`, or of the variable that MPICH and Open MPI read too.
pub(super) fn seconds(option: &str, text: &str) -> Result<Duration> {
    numbers::seconds(text).map_err(|why| anyhow::anyhow!("{option} {text}: {why}"))
}

/// `NAME=VALUE` in two.
fn split(word: &OsStr) -> Option<(OsString, OsString)> {
    let bytes = word.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=')?;
    let part = |bytes| OsStr::from_bytes(bytes).to_owned();
    Some((part(&bytes[..at]), part(&bytes[at + 1..])))
}

fn variable(option: &str, values: &[OsString]) -> Result<(OsString, OsString)> {
    let pair = match values {
        [name, value] => Some((name.clone(), value.clone())),
        [whole] => split(whole),
        _ => None,
    };
    let pair = pair.filter(|(name, _)| !name.is_empty() && !name.as_bytes().contains(&b'='));
    pair.with_context(|| format!("{option} wants a name and a value"))
}

/// A host that is named several times has as many slots, as for Open MPI.
fn merged(hosts: Vec<Host>) -> Vec<Host> {
    let mut merged: Vec<Host> = Vec::new();
    for host in hosts {
        match merged.iter_mut().find(|other| other.name == host.name) {
            Some(other) => {
                other.slots =
                    Some(other.slots.unwrap_or(1).saturating_add(host.slots.unwrap_or(1)));
            }
            None => merged.push(host),
        }
    }
    merged
}

fn host_file(path: &OsStr) -> Result<Vec<Host>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the host file {path:?}"))?;
    let hosts = Host::file(&text).with_context(|| format!("{path:?}"))?;
    ensure!(!hosts.is_empty(), "the host file {path:?} names no host");
    Ok(hosts)
}

/// Programs from a file: each line has what stands between two `:` on a command line.
fn config_file(path: &OsStr, job: &mut Job) -> Result<()> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path:?}"))?;
    let before = job.programs.len();
    for (number, line) in (1..).zip(text.lines()) {
        let failed = || format!("line {number} of {path:?}");
        let mut words = quoted(line).with_context(failed)?;
        words.pop_if(|last| last == ":");
        if words.is_empty() {
            continue;
        }
        let mut words = words.into_iter().map(OsString::from).peekable();
        let mut program = Program::default();
        if options(&mut words, job, &mut program).with_context(failed)?.is_some() {
            bail!("{}: no option for help stands in a file", failed());
        }
        program.words = words.collect();
        if !program.words.is_empty() {
            job.programs.push(program);
        }
    }
    ensure!(job.programs.len() > before, "{path:?} names no program");
    Ok(())
}

/// The words of a line: blanks divide them, quotes keep blanks, `#` begins a comment.
pub(super) fn quoted(line: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    ensure!(quote.is_none(), "a quote is open at the end of the line");
    words.extend(word);
    Ok(words)
}
