//! Agents that `ssh` starts, as it does by default: a real client and a real server, with keys,
//! configuration and port of their own. What is missing is named, and the tests do nothing then.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use bowline_uct::conformance::skipped;

use crate::harness::{Job, Running, marked, probe, wait_until};

/// A server on a port of the loopback device, which its user may enter as himself with one key.
/// Dropping it ends the server.
struct Sshd {
    _server: Running,
    directory: tempfile::TempDir,
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Daemons are not in the path of every user.
    let all = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    all.map(|directory| directory.join(program)).find(|file| file.is_file())
}

/// A new key in `file`; its public half.
fn key(file: &Path) -> String {
    let mut make = Command::new("ssh-keygen");
    let made = make.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file).status().unwrap();
    assert!(made.success());
    fs::read_to_string(file.with_extension("pub")).unwrap()
}

impl Sshd {
    /// Starts it; `None`, with the reason printed, when that is not possible here.
    fn start() -> Option<Self> {
        for (program, package) in [
            ("sshd", "openssh-server"),
            ("ssh", "openssh-client"),
            ("ssh-keygen", "openssh-client"),
            ("unshare", "util-linux"),
        ] {
            if find(program).is_none() {
                skipped(format_args!("{program} is not installed (Debian: {package})"));
                return None;
            }
        }
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let host_key = key(&at.join("host"));
        fs::write(at.join("authorized"), key(&at.join("user"))).unwrap();
        key(&at.join("outsider"));
        // The port is free until the server takes it, a moment later.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let path = |file: &str| at.join(file).display().to_string();
        let server = [
            format!("ListenAddress 127.0.0.1:{port}"),
            format!("HostKey {}", path("host")),
            format!("AuthorizedKeysFile {}", path("authorized")),
            "PidFile none".to_owned(),
            // The files are in a directory that others may write to, if not into these.
            "StrictModes no".to_owned(),
            "UsePAM no".to_owned(),
            "PasswordAuthentication no".to_owned(),
            "KbdInteractiveAuthentication no".to_owned(),
            "PermitRootLogin prohibit-password".to_owned(),
        ];
        fs::write(at.join("server"), server.join("\n") + "\n").unwrap();
        fs::write(at.join("known"), format!("[127.0.0.1]:{port} {host_key}")).unwrap();
        let client = |hosts: &str, key: &str| {
            format!(
                "Host {hosts}\nHostName 127.0.0.1\nPort {port}\nIdentityFile {}\n\
                 IdentitiesOnly yes\nUserKnownHostsFile {}\nStrictHostKeyChecking yes\n",
                path(key),
                path("known")
            )
        };
        let client = client("one two", "user") + &client("outsider", "outsider");
        fs::write(at.join("client"), client).unwrap();
        // The user's own configuration is left alone: the first `ssh` of the path reads this one.
        let ssh = find("ssh").unwrap();
        let script = format!("#!/bin/sh\nexec {} -F {} \"$@\"\n", ssh.display(), path("client"));
        fs::create_dir(at.join("bin")).unwrap();
        fs::write(at.join("bin/ssh"), script).unwrap();
        fs::set_permissions(at.join("bin/ssh"), PermissionsExt::from_mode(0o755)).unwrap();
        let sshd = find("sshd").unwrap().display().to_string();
        let run = format!("exec {sshd} -D -e -f {}", path("server"));
        let mut job = if rustix::process::geteuid().is_root() {
            // As root it wants a directory in /run, which only it sees here.
            let mut job = Job::of("unshare");
            let own = "mount -t tmpfs none /run && mkdir -m 755 /run/sshd";
            job.command().args(["--mount", "sh", "-c", &format!("{own} && {run}")]);
            job
        } else {
            let mut job = Job::of("sh");
            job.command().args(["-c", &run]);
            job
        };
        job.command().stdin(std::process::Stdio::null());
        let mut server = job.start();
        let mut ended = false;
        let listens = wait_until(|| {
            ended = server.child.try_wait().unwrap().is_some();
            ended || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        if ended {
            skipped(format_args!("sshd does not start here: {}", server.end().stderr.trim()));
            return None;
        }
        assert!(listens, "the server does not listen");
        Some(Self { _server: server, directory })
    }

    /// The launcher with agents on these hosts, started by its default command.
    fn launch(&self, hosts: &str, words: &[&str]) -> Job {
        let mut job = Job::launch(&["--hosts", hosts]);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let first = self.directory.path().join("bin");
        let all = std::iter::once(first).chain(std::env::split_paths(&path));
        job.command().args(words).env("PATH", std::env::join_paths(all).unwrap());
        job
    }
}

fn nothing_left(mark: &str) {
    assert!(wait_until(|| marked(mark).is_empty()), "left behind: {:?}", marked(mark));
}

#[test]
fn ranks_on_hosts_that_ssh_reaches_join_and_hear_of_deaths() {
    let Some(sshd) = Sshd::start() else { return };
    let mut running = sshd.launch("one:2,two:2", &["-n", "4", probe(), "join"]).start();
    let mark = running.mark();
    let ended = running.end();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let line = |rank| {
        let local = rank % 2;
        format!("rank {rank} of 4 local {local} of 2 watches 0 by Bowline")
    };
    assert_eq!(ended.sorted_lines(), [line(0), line(1), line(2), line(3)], "{ended:?}");
    nothing_left(&mark);
    let mut running =
        sshd.launch("one,two", &["-n", "4", "--continue", probe(), "die", "3"]).start();
    let mark = running.mark();
    let ended = running.end();
    assert_eq!(ended.code(), Some(137), "{ended:?}");
    let knows = |rank| format!("rank {rank} knows that rank 3 is dead");
    assert_eq!(ended.sorted_lines(), [knows(0), knows(1), knows(2)], "{ended:?}");
    nothing_left(&mark);
    let script = "if [ $PMI_RANK = 1 ]; then exit 7; fi; sleep 1000";
    let mut running = sshd.launch("one,two", &["-n", "2", "sh", "-c", script]).start();
    let mark = running.mark();
    let ended = running.end();
    assert_eq!(ended.code(), Some(7), "{ended:?}");
    assert!(ended.sentences()[0].contains("on host two"), "{ended:?}");
    nothing_left(&mark);
}

/// The words of the agent's command line pass through a shell on the host.
#[test]
fn an_agent_may_have_any_path_there() {
    let Some(sshd) = Sshd::start() else { return };
    let agent = sshd.directory.path().join("it's \"here\" $HOME");
    symlink(probe(), &agent).unwrap();
    let agent = agent.to_str().unwrap();
    let ended = sshd.launch("one", &["--agent-program", agent, "-n", "1", "echo", "ran"]).run();
    assert_eq!((ended.code(), &*ended.stdout), (Some(0), "ran\n"), "{ended:?}");
}

#[test]
fn a_host_that_refuses_the_key_is_named() {
    let Some(sshd) = Sshd::start() else { return };
    let mut running = sshd.launch("one,outsider", &["-n", "2", probe(), "join"]).start();
    let mark = running.mark();
    let ended = running.end();
    assert_ne!(ended.code(), Some(0), "{ended:?}");
    assert!(ended.stderr.contains("Permission denied"), "{ended:?}");
    assert!(ended.sentences().iter().any(|said| said.contains("outsider")), "{ended:?}");
    nothing_left(&mark);
}
