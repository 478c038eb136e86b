//! The cases: what a job on several hosts does, and what it does when one of them goes.
//!
//! Each has a watchdog, which is no limit of the test: whatever has not ended by then hangs.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bowline_bench::{DelayedNetwork, RelayOptions};

use super::Programs;
use super::net::Net;

const WATCHDOG: Duration = Duration::from_secs(120);

/// Where a case runs.
struct Stage<'a> {
    net: &'a Net,
    programs: &'a Programs,
}

type Case = (&'static str, fn(&Stage<'_>) -> Result<()>);

/// Over libfabric between hosts and shared memory inside of them; a network that does not answer
/// counts as lost after two seconds.
const OFI: &[(&str, &str)] =
    &[("BOWLINE_TRANSPORTS", "self,shm,ofi"), ("BOWLINE_OFI_LOST_AFTER", "2s")];

const CASES: &[Case] = &[
    ("probe_joins_directly", probe_joins_directly),
    ("probe_joins_by_the_network", probe_joins_by_the_network),
    ("unplugged_host_is_lost", unplugged_host_is_lost),
    ("mpi_ring", mpi_ring),
    ("mpi_transfers", mpi_transfers),
    ("mpi_death_is_known_everywhere", mpi_death_is_known_everywhere),
    ("mpi_unplugged_ranks_get_errors", mpi_unplugged_ranks_get_errors),
    ("mpi_healed_network_writes_nothing_late", mpi_healed_network_writes_nothing_late),
    ("mpi_unplugged_job_ends", mpi_unplugged_job_ends),
    ("mpi_transfers_with_delay", mpi_transfers_with_delay),
    ("mpi_messages_move_while_ranks_compute", mpi_messages_move_while_ranks_compute),
    ("rails_transfers", rails_transfers),
    ("rails_survive_a_pulled_plug", rails_survive_a_pulled_plug),
];

/// Those that want a build with libfabric.
const CASES_OF_OFI: &[Case] = &[
    ("ofi_ring", ofi_ring),
    ("ofi_transfers", ofi_transfers),
    ("ofi_transfers_without_memory", ofi_transfers_without_memory),
    ("ofi_death_is_known_everywhere", ofi_death_is_known_everywhere),
    ("ofi_unplugged_ranks_get_errors", ofi_unplugged_ranks_get_errors),
    ("ofi_healed_network_writes_nothing_late", ofi_healed_network_writes_nothing_late),
];

/// Runs the cases that have `only` in their names; returns how many.
pub(super) fn run(net: &Net, programs: &Programs, only: &str) -> Result<usize> {
    let stage = Stage { net, programs };
    let mut passed = 0;
    let of_ofi = if programs.ofi { CASES_OF_OFI } else { &[] };
    let cases = CASES.iter().chain(of_ofi);
    for (name, case) in cases.filter(|(name, _)| name.contains(only)) {
        let start = Instant::now();
        case(&stage).with_context(|| format!("netns case {name}"))?;
        println!("netns: {name} ok, {:.1} s", start.elapsed().as_secs_f64());
        passed += 1;
    }
    Ok(passed)
}

/// A job that runs, with its output in a file.
struct Job {
    child: Child,
    said: File,
    path: std::path::PathBuf,
}

impl Stage<'_> {
    fn ranks(&self) -> u32 {
        2 * self.net.hosts.len() as u32
    }

    /// Starts `bowline run` on all hosts, two ranks on each.
    fn start(&self, agents: &str, words: &[&str], program: &Path, args: &[&str]) -> Result<Job> {
        self.start_with(&[], agents, words, program, args)
    }

    /// The same with variables of the environment.
    fn start_with(
        &self,
        variables: &[(&str, &str)],
        agents: &str,
        words: &[&str],
        program: &Path,
        args: &[&str],
    ) -> Result<Job> {
        self.start_on(&self.net.hosts, self.ranks(), variables, agents, words, program, args)
    }

    /// The same on other hosts.
    #[expect(clippy::too_many_arguments, reason = "each is a part of one command line")]
    fn start_on(
        &self,
        hosts: &[String],
        ranks: u32,
        variables: &[(&str, &str)],
        agents: &str,
        words: &[&str],
        program: &Path,
        args: &[&str],
    ) -> Result<Job> {
        let path = self.programs.directory.join("netns.out");
        let said = File::create(&path).context("cannot make a file for output")?;
        let child = Command::new(self.programs.bowline())
            .args(["run", "--hosts", &hosts.join(","), "--agent-command", agents])
            .args(["-n", &ranks.to_string()])
            .args(words)
            .arg("--")
            .arg(program)
            .args(args)
            .env("BOWLINE_TCP_TIMEOUT", "2s")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said.try_clone()?)
            .spawn()
            .context("cannot start bowline")?;
        Ok(Job { child, said, path })
    }

    /// Runs a job that is to end well; returns what it said.
    fn run(&self, agents: &str, program: &Path, args: &[&str]) -> Result<String> {
        self.run_with(&[], agents, program, args)
    }

    /// The same with variables of the environment.
    fn run_with(
        &self,
        variables: &[(&str, &str)],
        agents: &str,
        program: &Path,
        args: &[&str],
    ) -> Result<String> {
        let words = ["--bind", "none"];
        let words = if variables.is_empty() { &[][..] } else { &words[..] };
        let (code, said) = self.start_with(variables, agents, words, program, args)?.end()?;
        ensure!(code == Some(0), "ended with {code:?}:\n{said}");
        Ok(said)
    }
}

impl Job {
    fn said(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&std::fs::read(&self.path)?).into_owned())
    }

    /// Waits until every one of `count` ranks has said `word`.
    fn wait_for(&mut self, word: &str, count: usize) -> Result<()> {
        let start = Instant::now();
        while self.said()?.matches(word).count() < count {
            if let Some(status) = self.child.try_wait()? {
                bail!("ended early, {status}:\n{}", self.said()?);
            }
            ensure!(start.elapsed() < WATCHDOG, "hangs; it has said:\n{}", self.said()?);
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Waits for the end: exit code and output.
    fn end(mut self) -> Result<(Option<i32>, String)> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.said.sync_all()?;
                return Ok((status.code(), self.said()?));
            }
            ensure!(start.elapsed() < WATCHDOG, "hangs; it has said:\n{}", self.said()?);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn joined(stage: &Stage<'_>, said: &str) -> Result<()> {
    let mut lines: Vec<&str> = said.lines().filter(|line| line.starts_with("rank ")).collect();
    lines.sort_unstable();
    let size = stage.ranks();
    let line =
        |rank: u32| format!("rank {rank} of {size} local {} of 2 watches 0 by Bowline", rank % 2);
    let expected: Vec<String> = (0..size).map(line).collect();
    ensure!(lines == expected, "the ranks have said:\n{said}");
    Ok(())
}

fn probe_joins_directly(stage: &Stage<'_>) -> Result<()> {
    let said = stage.run(&stage.net.direct(), &stage.programs.probe(), &["join"])?;
    joined(stage, &said)
}

fn probe_joins_by_the_network(stage: &Stage<'_>) -> Result<()> {
    let said = stage.run(&stage.net.by_door()?, &stage.programs.probe(), &["join"])?;
    joined(stage, &said)
}

/// Numbers of the processes whose command line has these words.
fn running(words: &[&str]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let entry = entry?;
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if words.iter().all(|word| line.contains(word)) {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(found)
}

/// The launcher reaches its agents by the network; the last host is unplugged. The others' ranks
/// learn that its ranks are dead, and its agent ends them.
fn unplugged_host_is_lost(stage: &Stage<'_>) -> Result<()> {
    let host = stage.net.hosts.last().context("a host")?;
    let victim = (stage.ranks() - 1).to_string();
    let words = ["--host-timeout", "2", "--on-failure", "continue"];
    let probe = stage.programs.probe();
    let mut job = stage.start(&stage.net.by_door()?, &words, &probe, &["outlive", &victim])?;
    job.wait_for("ready", stage.ranks() as usize)?;
    stage.net.unplug(host)?;
    let ended = job.end();
    // On the unplugged host the agent hears nothing and ends its ranks.
    let start = Instant::now();
    let gone = loop {
        if running(&["bowline-launch-probe", "outlive"])?.is_empty() {
            break true;
        }
        if start.elapsed() > WATCHDOG {
            break false;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    stage.net.plug(host)?;
    let (code, said) = ended?;
    ensure!(code == Some(1), "ended with {code:?}:\n{said}");
    ensure!(gone, "ranks of the unplugged host still run");
    let lost = format!("on host {host} are lost: nothing was heard for 2s");
    ensure!(said.contains(&lost), "no word of the loss:\n{said}");
    for rank in 0..stage.ranks() - 2 {
        let knows = format!("rank {rank} knows that rank {victim} is dead");
        ensure!(said.contains(&knows), "rank {rank} does not know:\n{said}");
    }
    Ok(())
}

fn mpi_ring(stage: &Stage<'_>) -> Result<()> {
    stage.run(&stage.net.direct(), &stage.programs.example("ring"), &[])?;
    Ok(())
}

/// Messages of all lengths between ranks of one host and of two, with their contents checked.
fn mpi_transfers(stage: &Stage<'_>) -> Result<()> {
    transfers(stage, &[])
}

fn transfers(stage: &Stage<'_>, variables: &[(&str, &str)]) -> Result<()> {
    let program = stage.programs.example("until_error");
    let said = stage.run_with(variables, &stage.net.direct(), &program, &["20"])?;
    let done = said.matches("has done 20 rounds").count();
    ensure!(done == stage.ranks() as usize, "not all ranks are done:\n{said}");
    Ok(())
}

/// Three hosts of their own, whose packets take half a millisecond and a little more, now and then: all
/// messages arrive, and nothing of them by a shorter route.
fn mpi_transfers_with_delay(stage: &Stage<'_>) -> Result<()> {
    let options = RelayOptions {
        delay: Duration::from_micros(500),
        jitter: Duration::from_micros(100),
        ..RelayOptions::default()
    };
    let network = DelayedNetwork::make(3, &[0], &options)?;
    let ping = network.ping(10)?;
    ensure!(ping.min_ns >= 1e6, "a datagram took less than the delay there and back: {ping:?}");
    let before = network.forwarded();
    let agents = format!("{} {{host}}", network.script().display());
    let program = stage.programs.example("until_error");
    let variables = [("BOWLINE_TRANSPORTS", "self,tcp")];
    let words = ["--bind", "none"];
    let job = stage.start_on(network.names(), 3, &variables, &agents, &words, &program, &["10"])?;
    let (code, said) = job.end()?;
    ensure!(code == Some(0), "ended with {code:?}:\n{said}");
    let done = said.matches("has done 10 rounds").count();
    ensure!(done == 3, "not all ranks are done:\n{said}");
    let after = network.forwarded();
    ensure!(after.packets > before.packets, "nothing crossed the network: {after:?}");
    ensure!(after.dropped == 0, "the relay has dropped packets: {after:?}");
    Ok(())
}

/// Ranks on two hosts compute, and ask once whether their messages have moved meanwhile: none has without anybody beside them.
/// How many have otherwise depends on the processors.
fn mpi_messages_move_while_ranks_compute(stage: &Stage<'_>) -> Result<()> {
    let network = DelayedNetwork::make(2, &[0, 1], &RelayOptions::default())?;
    let agents = format!("{} {{host}}", network.script().display());
    let program = stage.programs.example("hidden");
    for (mode, transports, moves) in [
        ("none", "self,tcp", false),
        ("pef", "self,tcp", true),
        // Memory that handlers poll, beside a network that a thread serves.
        ("pef", "self,shm,tcp", true),
        ("thread", "self,tcp", true),
    ] {
        let variables = [("BOWLINE_PROGRESS", mode), ("BOWLINE_TRANSPORTS", transports)];
        let words = ["--bind", "none"];
        let job =
            stage.start_on(network.names(), 2, &variables, &agents, &words, &program, &["20"])?;
        let (code, said) = job.end()?;
        ensure!(code == Some(0), "{mode}, {transports}: ended with {code:?}:\n{said}");
        let none = said.matches(": 0 of 20 messages came").count();
        let all = said.matches("messages came while both ranks computed").count();
        ensure!(all == 2, "{mode}, {transports}: not both ranks are done:\n{said}");
        let as_due = if moves { none == 0 } else { none == 2 };
        ensure!(as_due, "{mode}, {transports}: another number of messages was due:\n{said}");
    }
    Ok(())
}

/// A rank is killed. Those on other hosts, which wait for it directly or in a collective, learn of
/// it by the launcher.
fn mpi_death_is_known_everywhere(stage: &Stage<'_>) -> Result<()> {
    death_is_known(stage, &[])
}

fn death_is_known(stage: &Stage<'_>, variables: &[(&str, &str)]) -> Result<()> {
    let program = stage.programs.example("until_error");
    let words = ["--on-failure", "continue", "--bind", "none"];
    let mut job = stage.start_with(variables, &stage.net.direct(), &words, &program, &[])?;
    job.wait_for("goes on", stage.ranks() as usize)?;
    let victim = stage.ranks() - 1;
    let mark = format!("PMI_RANK={victim}");
    let is_victim = |pid: &&String| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&b| b == 0).any(|variable| variable == mark.as_bytes())
    };
    let pids = running(&["examples/until_error"])?;
    let pid = pids.iter().find(is_victim).context("the rank to kill")?;
    let killed = Command::new("sh").args(["-c", &format!("kill -KILL {pid}")]).status()?;
    ensure!(killed.success(), "cannot kill {pid}");
    let (code, said) = job.end()?;
    // The first failure that the launcher hears of decides. Hosts report at their own pace: on a busy machine
    // a rank that has ended because of the death is reported before the death.
    ensure!(matches!(code, Some(137 | 1)), "ended with {code:?}:\n{said}");
    for rank in 0..victim {
        let error = format!("rank {rank} got an error");
        ensure!(said.contains(&error), "rank {rank} got none:\n{said}");
    }
    Ok(())
}

/// The launcher still reaches every agent, so only the transport can notice: every rank that
/// waits for one behind the pulled plug gets an error, on both sides.
fn mpi_unplugged_ranks_get_errors(stage: &Stage<'_>) -> Result<()> {
    unplugged_ranks_get_errors(stage, &[])
}

fn unplugged_ranks_get_errors(stage: &Stage<'_>, variables: &[(&str, &str)]) -> Result<()> {
    let host = stage.net.hosts.last().context("a host")?;
    let program = stage.programs.example("until_error");
    let words = ["--on-failure", "continue", "--bind", "none"];
    let mut job = stage.start_with(variables, &stage.net.direct(), &words, &program, &[])?;
    job.wait_for("goes on", stage.ranks() as usize)?;
    stage.net.unplug(host)?;
    let ended = job.end();
    stage.net.plug(host)?;
    let (code, said) = ended?;
    ensure!(code.is_some_and(|code| code != 0), "ended with {code:?}:\n{said}");
    for rank in 0..stage.ranks() {
        let error = format!("rank {rank} got an error");
        ensure!(said.contains(&error), "rank {rank} got none:\n{said}");
    }
    Ok(())
}

fn mpi_healed_network_writes_nothing_late(stage: &Stage<'_>) -> Result<()> {
    healed_network_writes_nothing_late(stage, &[])
}

/// A plug is pulled for longer than peers are waited for, and put in again: no rank finds anything in memory
/// that it has had back since the error.
fn healed_network_writes_nothing_late(stage: &Stage<'_>, variables: &[(&str, &str)]) -> Result<()> {
    let host = stage.net.hosts.last().context("a host")?;
    let program = stage.programs.example("until_error");
    let words = ["--on-failure", "continue", "--bind", "none"];
    let direct = stage.net.direct();
    let mut job = stage.start_with(variables, &direct, &words, &program, &["late"])?;
    job.wait_for("goes on", stage.ranks() as usize)?;
    stage.net.unplug(host)?;
    let shown = job.wait_for("got an error", stage.ranks() as usize);
    stage.net.plug(host)?;
    shown?;
    let (code, said) = job.end()?;
    ensure!(code.is_some_and(|code| code != 0), "ended with {code:?}:\n{said}");
    let whole = said.matches("has its memory to itself").count();
    ensure!(whole == stage.ranks() as usize, "somebody has written:\n{said}");
    Ok(())
}

/// The launcher reaches its agents by the network: it notices, and ends the job.
fn mpi_unplugged_job_ends(stage: &Stage<'_>) -> Result<()> {
    let host = stage.net.hosts.last().context("a host")?;
    let program = stage.programs.example("until_error");
    let words = ["--host-timeout", "1"];
    let mut job = stage.start(&stage.net.by_door()?, &words, &program, &[])?;
    job.wait_for("goes on", stage.ranks() as usize)?;
    stage.net.unplug(host)?;
    let ended = job.end();
    stage.net.plug(host)?;
    let (code, said) = ended?;
    ensure!(code.is_some_and(|code| code != 0), "ended with {code:?}:\n{said}");
    ensure!(said.contains("bowline: rank"), "no sentence of the launcher:\n{said}");
    Ok(())
}

/// Two interfaces of each host together.
const RAILS: &[(&str, &str)] = &[("BOWLINE_RAILS", "tcp:eth0,tcp:eth1")];

fn rails_transfers(stage: &Stage<'_>) -> Result<()> {
    let _second = stage.net.second()?;
    transfers(stage, RAILS)
}

/// The interface that carries the messages of a host goes down in the middle of a flood: the job ends
/// well nevertheless, every message checked, by the other one.
///
/// That it went by the other one is known from when it went: with the plug out, and for as long as it
/// takes until the end, no rank was near its last round, and every round needs both hosts.
fn rails_survive_a_pulled_plug(stage: &Stage<'_>) -> Result<()> {
    let _second = stage.net.second()?;
    let host = stage.net.hosts.last().context("a host")?;
    let program = stage.programs.example("until_error");
    let words = ["--on-failure", "continue", "--bind", "none"];
    let direct = stage.net.direct();
    let mut job = stage.start_with(RAILS, &direct, &words, &program, &["25"])?;
    job.wait_for("goes on", stage.ranks() as usize)?;
    stage.net.unplug(host)?;
    // What was said before arrives here, and nobody moves on yet: a silent host has two seconds.
    std::thread::sleep(Duration::from_millis(500));
    let then = job.said()?;
    let late = ["begins round 22", "begins round 23", "begins round 24", "has done"];
    ensure!(
        !late.iter().any(|word| then.contains(word)),
        "the plug was pulled too late to show anything:\n{then}"
    );
    let ended = job.end();
    stage.net.plug(host)?;
    let (code, said) = ended?;
    ensure!(code == Some(0), "ended with {code:?}:\n{said}");
    let done = said.matches("has done 25 rounds").count();
    ensure!(done == stage.ranks() as usize, "not all ranks are done:\n{said}");
    Ok(())
}

fn ofi_ring(stage: &Stage<'_>) -> Result<()> {
    stage.run_with(OFI, &stage.net.direct(), &stage.programs.example("ring"), &[])?;
    Ok(())
}

fn ofi_transfers(stage: &Stage<'_>) -> Result<()> {
    transfers(stage, OFI)
}

/// libfabric inside of hosts, too.
fn ofi_transfers_without_memory(stage: &Stage<'_>) -> Result<()> {
    transfers(stage, &[("BOWLINE_TRANSPORTS", "self,ofi")])
}

fn ofi_death_is_known_everywhere(stage: &Stage<'_>) -> Result<()> {
    death_is_known(stage, OFI)
}

/// libfabric does not notice a pulled plug, so the transport asks the kernel.
fn ofi_unplugged_ranks_get_errors(stage: &Stage<'_>) -> Result<()> {
    unplugged_ranks_get_errors(stage, OFI)
}

fn ofi_healed_network_writes_nothing_late(stage: &Stage<'_>) -> Result<()> {
    healed_network_writes_nothing_late(stage, OFI)
}
