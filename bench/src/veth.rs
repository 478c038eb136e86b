//! Two hosts on this machine: namespaces that a veth pair joins.
//!
//! ```text
//!   host 1: CPU first, eth0 10.78.0.1 ════ veth pair ════ eth0 10.78.0.2, CPU second: host 2
//! ```
//!
//! Each host is what one sleeping process holds open: a network namespace, a mount namespace
//! (libraries list devices in `/sys`, which must show this network), and a host name of its own
//! (launchers take equal names for one machine). Nothing is given a name on the machine, so that
//! the kernel removes everything when the two sleepers end, however the harness itself ends.
//! Making them needs root.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::BenchError;
use crate::command::{Launch, Running};
use crate::error::file;

/// The device of a host.
pub(crate) const DEVICE: &str = "eth0";

/// Names and addresses of the hosts.
pub(crate) const HOSTS: [&str; 2] = ["bench1", "bench2"];
pub(crate) const ADDRESSES: [&str; 2] = ["10.78.0.1", "10.78.0.2"];

const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The two hosts. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Veth {
    sleepers: [Running; 2],
    /// Holds the script.
    directory: TempDir,
}

impl Veth {
    /// Makes the hosts; `cpus` are theirs.
    pub(crate) fn make(cpus: [usize; 2]) -> Result<Self, BenchError> {
        if !rustix::process::geteuid().is_root() {
            return Err(missing("only root may make them; run as root".to_owned()));
        }
        let start = |name: &str| {
            Launch::new("unshare", TIME_LIMIT)
                .args(["--net", "--mount", "--uts", "sh", "-c"])
                .args([format!(
                    "mount -t sysfs none /sys && hostname {name} && exec sleep infinity"
                )])
                .way_out("install util-linux")
                .start()
        };
        let mut sleepers = [start(HOSTS[0])?, start(HOSTS[1])?];
        for sleeper in &mut sleepers {
            let comm = format!("/proc/{}/comm", sleeper.id());
            wait_for("the namespaces", || {
                if sleeper.has_ended() {
                    return Err(missing("the kernel refused to make them".to_owned()));
                }
                Ok(fs::read_to_string(&comm).is_ok_and(|name| name.trim() == "sleep"))
            })?;
        }
        let [first, second] = [sleepers[0].id(), sleepers[1].id()];
        Launch::new("ip", TIME_LIMIT)
            .args(["link", "add", DEVICE, "netns"])
            .args([first.to_string()])
            .args(["type", "veth", "peer", "name", DEVICE, "netns"])
            .args([second.to_string()])
            .way_out("install iproute2")
            .run()?;
        let directory = tempfile::tempdir().map_err(file("create", std::env::temp_dir()))?;
        let veth = Self { sleepers, directory };
        write_script(&veth.script(), &script(cpus, [first, second]))?;
        for (host, address) in HOSTS.into_iter().zip(ADDRESSES) {
            let commands = format!(
                "ip link set lo up && ip addr add {address}/24 dev {DEVICE} && \
                 ip link set {DEVICE} up"
            );
            Launch::new(veth.script(), TIME_LIMIT).args([host.to_owned(), commands]).run()?;
        }
        // A device that is set up has its link a moment later, and libraries ask for that.
        for side in 0..2 {
            let state = veth.statistics(side).with_file_name("operstate");
            wait_for("the link of the veth pair", || {
                Ok(fs::read_to_string(&state).is_ok_and(|state| state.trim() == "up"))
            })?;
        }
        Ok(veth)
    }

    /// The script that runs a command line on a host: `SCRIPT [-OPTION]... HOST WORD...`, as
    /// launchers call ssh.
    pub(crate) fn script(&self) -> PathBuf {
        self.directory.path().join("on-host")
    }

    /// What starts `launch` on host `side`.
    pub(crate) fn on(&self, side: usize, launch: Launch) -> Launch {
        launch.behind(&self.script(), HOSTS[side])
    }

    /// Where the counters of the device of host `side` are.
    pub(crate) fn statistics(&self, side: usize) -> PathBuf {
        let id = self.sleepers[side].id();
        format!("/proc/{id}/root/sys/class/net/{DEVICE}/statistics").into()
    }

    /// The tables of TCP connections of host `side`.
    pub(crate) fn tcp_tables(&self, side: usize) -> [String; 2] {
        let id = self.sleepers[side].id();
        ["tcp", "tcp6"].map(|name| format!("/proc/{id}/net/{name}"))
    }
}

/// The error of hosts that are not there.
pub(crate) fn missing(way_out: String) -> BenchError {
    BenchError::Missing { what: "a pair of network namespaces".to_owned(), way_out }
}

fn wait_for(
    what: &str,
    mut ready: impl FnMut() -> Result<bool, BenchError>,
) -> Result<(), BenchError> {
    let deadline = Instant::now() + TIME_LIMIT;
    while !ready()? {
        if Instant::now() > deadline {
            return Err(missing(format!("{what} did not come up in time; try again")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn script(cpus: [usize; 2], sleepers: [u32; 2]) -> String {
    let mut text = String::from(
        "#!/bin/sh\nwhile case $1 in -*) true ;; *) false ;; esac; do shift; done\ncase $1 in\n",
    );
    for side in 0..2 {
        let (name, address) = (HOSTS[side], ADDRESSES[side]);
        let (id, cpu) = (sleepers[side], cpus[side]);
        text.push_str(&format!("{name}|{address}) id={id} cpu={cpu} ;;\n"));
    }
    text.push_str(
        "*) echo \"error: there is no host $1\" >&2; exit 1 ;;\nesac\nshift\n\
         exec taskset -c $cpu nsenter --net=/proc/$id/ns/net --uts=/proc/$id/ns/uts \
         --mount=/proc/$id/ns/mnt --wd=\"$PWD\" sh -c \"$*\"\n",
    );
    text
}

/// Closed before anybody runs it: a file that is open for writing cannot be executed.
fn write_script(path: &Path, text: &str) -> Result<(), BenchError> {
    let mut script = fs::File::create(path).map_err(file("create", path))?;
    script.write_all(text.as_bytes()).map_err(file("write", path))?;
    script.set_permissions(fs::Permissions::from_mode(0o755)).map_err(file("change", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_knows_hosts_by_name_and_address() {
        let text = script([3, 5], [70, 71]);
        assert!(text.contains("bench1|10.78.0.1) id=70 cpu=3 ;;"), "{text}");
        assert!(text.contains("bench2|10.78.0.2) id=71 cpu=5 ;;"), "{text}");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("on-host");
        write_script(&path, &text).unwrap();
        let error = Launch::new(path, TIME_LIMIT).args(["-x", "elsewhere"]).run().unwrap_err();
        assert!(error.to_string().contains("no host elsewhere"), "{error}");
    }

    #[test]
    fn hosts_reach_each_other_and_go_with_their_owner() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root may make network namespaces");
            return;
        }
        let veth = match Veth::make([0, 0]) {
            Ok(veth) => veth,
            Err(error) => {
                println!("skipped: {error}");
                return;
            }
        };
        let name = veth.on(1, Launch::new("uname", TIME_LIMIT).args(["-n"])).run().unwrap();
        assert_eq!(name.stdout.trim(), HOSTS[1]);
        let spaced = veth.on(0, Launch::new("echo", TIME_LIMIT).args(["a  'b' $c"])).run().unwrap();
        assert_eq!(spaced.stdout, "a  'b' $c\n");
        let route = ["route", "get", ADDRESSES[1]];
        let route = veth.on(0, Launch::new("ip", TIME_LIMIT).args(route)).run().unwrap();
        assert!(route.stdout.contains(DEVICE), "{}", route.stdout);
        let (script, first) = (veth.script(), veth.sleepers[0].id());
        drop(veth);
        assert!(!script.exists());
        assert!(!Path::new(&format!("/proc/{first}/ns/net")).exists());
    }
}
