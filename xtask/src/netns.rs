//! `cargo xtask netns`: jobs on several hosts, which are network namespaces of this machine.
//!
//! ```text
//!   namespace of the task ── bridge ─┬─ veth ══ eth0, namespace host1
//!        (the launcher)   .254       ├─ veth ══ eth0, namespace host2
//!                                    └─ ...
//! ```
//!
//! The task runs itself once more in network, mount and process namespaces of its own
//! (`unshare`): what it makes there ends with it, whatever becomes of it, and it needs root only
//! where the kernel does not let users make namespaces. Hosts share kernel and file system, so
//! what is tested is the network between them and nothing else. One case has hosts of its own, with the
//! relay of `bowline-bench` between them, which delays packets; loss is made in `cargo xtask guest`, whose
//! kernel can.

mod cases;
mod door;
mod net;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::needs;
use crate::workspace::Workspace;

/// Set in the run inside of the namespaces: where the programs are, and whether they were built
/// with libfabric.
const INSIDE: &str = "NETNS_PROGRAMS";
const INSIDE_OFI: &str = "NETNS_PROGRAMS_OFI";

/// Packages that a build with libfabric needs.
const OF_LIBFABRIC: &[&str] = &["libfabric-dev", "pkg-config", "libclang-dev"];

/// What to run.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// How many hosts
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=4))]
    hosts: u8,
    /// Only the cases whose names have this in them
    #[arg(long, default_value = "")]
    only: String,
    /// Take the programs as they are
    #[arg(long, hide = true)]
    built: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

/// What this program does for itself.
#[derive(clap::Subcommand, Debug)]
enum Role {
    /// Start programs for clients that connect
    #[command(hide = true)]
    Door {
        /// Where to listen
        address: String,
    },
    /// Run a program behind a door
    #[command(hide = true)]
    Knock {
        /// The host
        host: String,
        /// The program and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
}

/// How it went.
pub(crate) enum Outcome {
    /// So many cases passed.
    Passed(usize),
    /// Nothing was run, for this reason.
    Skipped(String),
}

/// Where the programs are that the cases run.
#[derive(Clone, Debug)]
struct Programs {
    directory: PathBuf,
    /// Whether they were built with libfabric.
    ofi: bool,
}

impl Programs {
    fn bowline(&self) -> PathBuf {
        self.directory.join("bowline")
    }
    fn probe(&self) -> PathBuf {
        self.directory.join("bowline-launch-probe")
    }
    fn example(&self, name: &str) -> PathBuf {
        self.directory.join("examples").join(name)
    }
}

/// Plays one of the roles that this program has for itself, if it was asked to.
pub(crate) fn play(options: &Options) -> Option<Result<()>> {
    Some(match options.role.as_ref()? {
        Role::Door { address } => door::open(address),
        Role::Knock { host, command } => door::knock(host, command),
    })
}

/// Runs the task.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    match std::env::var_os(INSIDE) {
        Some(directory) => {
            let ofi = std::env::var_os(INSIDE_OFI).is_some_and(|ofi| ofi == "1");
            inside(options, &Programs { directory: directory.into(), ofi })
        }
        None => match outside(workspace, options)? {
            Outcome::Passed(cases) => {
                println!("netns: {cases} cases passed");
                Ok(())
            }
            Outcome::Skipped(why) => {
                println!("netns: skipped: {why}");
                Ok(())
            }
        },
    }
}

/// The step of the ladder: two hosts, every case.
pub(crate) fn step(workspace: &Workspace) -> Result<Outcome> {
    outside(workspace, &Options { hosts: 2, only: String::new(), built: true, role: None })
}

/// Builds the programs and runs this one again in namespaces.
fn outside(workspace: &Workspace, options: &Options) -> Result<Outcome> {
    let mut enter = Command::new("unshare");
    let user = std::fs::metadata("/proc/self").context("cannot ask for the user")?.uid();
    if user != 0 {
        enter.arg("--map-root-user");
    }
    enter.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    // Whether that is allowed at all, asked before anything is built.
    let mut attempt = Command::new("unshare");
    attempt.args(enter.get_args()).args(["sh", "-c", &format!("{} && ip netns add x", net::RUN)]);
    let attempt = attempt.stdin(Stdio::null()).output();
    match attempt {
        Err(error) => return Ok(Outcome::Skipped(format!("no unshare (util-linux): {error}"))),
        Ok(output) if !output.status.success() => {
            let said = String::from_utf8_lossy(&output.stderr);
            let why = said.trim().replace('\n', "; ");
            return Ok(Outcome::Skipped(format!("network namespaces cannot be made here: {why}")));
        }
        Ok(_) => {}
    }
    let missing = needs::missing(needs::OF_TESTS);
    let ofi = !missing.iter().any(|need| OF_LIBFABRIC.contains(&need.package));
    if !ofi {
        println!("netns: cases over libfabric are left out: {}", needs::explain(&missing));
    }
    if !options.built {
        build(workspace, ofi)?;
    }
    let directory = workspace.metadata.target_directory.as_std_path().join("debug");
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let log = directory.join("netns.cases");
    let _ = std::fs::remove_file(&log);
    let status = enter
        .arg(own)
        .args(["netns", "--hosts", &options.hosts.to_string(), "--only", &options.only])
        .env(INSIDE, &directory)
        .env(INSIDE_OFI, if ofi { "1" } else { "0" })
        .status()
        .context("cannot start unshare")?;
    if !status.success() {
        bail!("a job on several hosts did not do what it should");
    }
    let cases = std::fs::read_to_string(&log).context("cannot read how many cases passed")?;
    Ok(Outcome::Passed(cases.trim().parse().context("a number of cases")?))
}

/// Builds what the cases run.
fn build(workspace: &Workspace, ofi: bool) -> Result<()> {
    let packages = ["-p", "bowline", "-p", "bowline-cli", "-p", "bowline-tests", "--bins"];
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "-q"])
        .args(packages)
        .args(if ofi { &["--features", "bowline-cli/ofi"][..] } else { &[] })
        .args(["--example", "until_error", "--example", "ring", "--example", "hidden"])
        .current_dir(&workspace.root)
        .status()
        .context("cannot start cargo")?;
    ensure!(built.success(), "the programs do not build");
    Ok(())
}

/// Makes the hosts and runs the cases.
fn inside(options: &Options, programs: &Programs) -> Result<()> {
    let net = net::Net::make(options.hosts)?;
    let passed = cases::run(&net, programs, &options.only)?;
    ensure!(passed > 0, "no case has {:?} in its name", options.only);
    write_count(&programs.directory.join("netns.cases"), passed)
}

fn write_count(path: &Path, passed: usize) -> Result<()> {
    std::fs::write(path, passed.to_string()).with_context(|| format!("cannot write {path:?}"))
}
