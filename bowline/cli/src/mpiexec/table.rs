//! The options of `mpiexec`: how each is written, how many values follow, what it means. Names stand
//! here without dashes: one dash and two mean the same, as they do for MPICH, and `--name=value`
//! is read too.

/// What an option means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Ranks,
    Hosts,
    HostFile,
    PerHost,
    /// Name and value, for all programs.
    EnvOfAll,
    /// Name and value, for one program.
    EnvOfOne,
    /// `NAME=VALUE`, or a name whose value is passed on anyway.
    Export,
    Directory,
    DirectoryOfAll,
    Bind,
    BindCore,
    BindNone,
    Oversubscribe,
    Label,
    Timeout,
    Recover,
    Launcher,
    LauncherProgram,
    AgentCommand,
    AgentProgram,
    Stdin,
    ConfigFile,
    Version,
    Help,
    /// Nothing has to be done for it.
    AsEver,
    /// It is taken and not followed; why is reported.
    Ignored(&'static str),
    /// The job would be another one without it; it is refused with these words.
    Refused(&'static str),
}

/// A row of the table.
#[derive(Debug)]
pub(super) struct Known {
    /// How it is written; the first is the name that messages use.
    pub(super) forms: &'static [&'static str],
    /// Words that follow.
    pub(super) values: usize,
    pub(super) meaning: Meaning,
    /// For `--help`; empty where it is not listed.
    pub(super) help: &'static str,
}

const fn known(
    forms: &'static [&'static str],
    values: usize,
    meaning: Meaning,
    help: &'static str,
) -> Known {
    Known { forms, values, meaning, help }
}

const NO_MCA: &str = "Bowline's settings are variables of the environment (BOWLINE_...)";
const PLACED: &str = "ranks go to the hosts in blocks, in the order of the hosts";
const NO_DISPLAY: &str = "nothing is printed about it; see `bowline info` and BOWLINE_LOG=debug";
const NO_FILES: &str = "output goes to the standard streams of mpiexec";
const NO_CHECKPOINT: &str = "there are no checkpoints";

/// Every option that is known.
pub(super) const OPTIONS: &[Known] = &[
    known(&["n", "np", "c"], 1, Meaning::Ranks, "N  ranks of this program (default 1)"),
    known(&["host", "hosts", "H"], 1, Meaning::Hosts, "A,B:2,...  hosts, with slots"),
    known(
        &["hostfile", "f", "machinefile", "machine", "default-hostfile"],
        1,
        Meaning::HostFile,
        "FILE  hosts, one a line: NAME, NAME:SLOTS or NAME slots=N",
    ),
    known(&["ppn", "perhost", "npernode", "N"], 1, Meaning::PerHost, "N  slots of each host"),
    known(&["genv"], 2, Meaning::EnvOfAll, "NAME VALUE  a variable for all programs"),
    known(&["env"], 2, Meaning::EnvOfOne, "NAME VALUE  a variable for this program"),
    known(&["x"], 1, Meaning::Export, "NAME[=VALUE]  a variable for all programs"),
    known(
        &["genvall", "envall", "genvlist-all"],
        0,
        Meaning::AsEver,
        "pass the whole environment on, which is done anyway",
    ),
    known(&["genvlist", "envlist"], 1, Meaning::Ignored("all variables are passed on"), ""),
    known(
        &["genvnone", "envnone", "genvexcl", "envexcl"],
        0,
        Meaning::Refused(
            "variables cannot be held back; run mpiexec itself under `env -i` or `env -u`",
        ),
        "",
    ),
    known(&["wdir", "wd"], 1, Meaning::Directory, "DIR  where this program starts"),
    known(&["gwdir"], 1, Meaning::DirectoryOfAll, "DIR  where all programs start"),
    known(&["bind-to", "binding"], 1, Meaning::Bind, "none|core  processors of a rank"),
    known(&["bind-to-core", "bind-to-hwthread"], 0, Meaning::BindCore, ""),
    known(&["bind-to-none"], 0, Meaning::BindNone, ""),
    known(&["map-by", "rank-by", "membind"], 1, Meaning::Ignored(PLACED), ""),
    known(
        &["cpus-per-proc", "cpus-per-rank"],
        1,
        Meaning::Ignored("a bound rank has one processor"),
        "",
    ),
    known(&["bynode", "byslot", "bycore", "grr", "rr", "nolocal"], 0, Meaning::Ignored(PLACED), ""),
    known(&["order-nodes"], 1, Meaning::Ignored(PLACED), ""),
    known(
        &["oversubscribe"],
        0,
        Meaning::Oversubscribe,
        "let hosts take more ranks than they have slots",
    ),
    known(&["nooversubscribe", "use-hwthread-cpus", "allow-run-as-root"], 0, Meaning::AsEver, ""),
    known(
        &["label", "l", "tag-output", "prepend-rank"],
        0,
        Meaning::Label,
        "begin each line of output with its rank",
    ),
    known(&["timeout"], 1, Meaning::Timeout, "SECONDS  end the job after that"),
    known(
        &["disable-auto-cleanup", "enable-recovery"],
        0,
        Meaning::Recover,
        "let others go on when a rank fails",
    ),
    known(
        &["launcher", "bootstrap"],
        1,
        Meaning::Launcher,
        "ssh|rsh|fork  what starts the agents on hosts",
    ),
    known(
        &["launcher-exec", "bootstrap-exec"],
        1,
        Meaning::LauncherProgram,
        "PATH  a program that is called as ssh is",
    ),
    known(&["agent-command"], 1, Meaning::AgentCommand, "COMMAND  as for `bowline run`"),
    known(&["agent-program"], 1, Meaning::AgentProgram, "PATH  as for `bowline run`"),
    known(&["stdin", "s"], 1, Meaning::Stdin, "0  which rank reads the input"),
    known(&["configfile", "app"], 1, Meaning::ConfigFile, "FILE  programs, one a line"),
    known(&["version", "V", "info"], 0, Meaning::Version, "print the version"),
    known(&["help", "h"], 0, Meaning::Help, "print this"),
    known(&["v", "verbose", "vv", "d"], 0, Meaning::Ignored("BOWLINE_LOG=debug shows more"), ""),
    known(&["q", "quiet"], 0, Meaning::Ignored("only failures are reported"), ""),
    known(
        &[
            "report-bindings",
            "display-map",
            "display-allocation",
            "print-rank-map",
            "print-all-exitcodes",
        ],
        0,
        Meaning::Ignored(NO_DISPLAY),
        "",
    ),
    known(&["display"], 1, Meaning::Ignored(NO_DISPLAY), ""),
    known(&["mca", "gmca", "omca", "prtemca", "pmixmca"], 2, Meaning::Ignored(NO_MCA), ""),
    known(&["am", "tune"], 1, Meaning::Ignored(NO_MCA), ""),
    known(
        &["iface", "rmk", "topolib", "demux", "prefix", "usize", "localhost"],
        1,
        Meaning::Ignored("Bowline has no use for it"),
        "",
    ),
    known(
        &["disable-hostname-propagation", "enable-x", "disable-x"],
        0,
        Meaning::Ignored("Bowline has no use for it"),
        "",
    ),
    known(
        &["output-filename", "outfile-pattern", "errfile-pattern", "output"],
        1,
        Meaning::Ignored(NO_FILES),
        "",
    ),
    known(
        &["ckpoint-interval", "ckpoint-prefix", "ckpoint-num", "ckpointlib"],
        1,
        Meaning::Ignored(NO_CHECKPOINT),
        "",
    ),
    known(
        &["gdb", "debug", "tv"],
        0,
        Meaning::Refused(
            "no debugger is started; run the debugger as the program: mpiexec -n 2 xterm -e gdb ./a.out",
        ),
        "",
    ),
];

/// The row of an option, by its name without dashes.
pub(super) fn find(name: &str) -> Option<&'static Known> {
    OPTIONS.iter().find(|known| known.forms.contains(&name))
}

/// The lines of `--help` about the options.
pub(super) fn help() -> String {
    let listed = OPTIONS.iter().filter(|known| !known.help.is_empty());
    let line = |known: &Known| {
        let (value, text) = known.help.split_once("  ").unwrap_or(("", known.help));
        let forms = known.forms.iter().map(|form| format!("-{form}")).collect::<Vec<_>>();
        let head = format!("{} {value}", forms.join(", "));
        match head.trim_end() {
            short if short.len() < 34 => format!("  {short:34}{text}\n"),
            long => format!("  {long}\n  {:34}{text}\n", ""),
        }
    };
    listed.map(line).collect()
}
