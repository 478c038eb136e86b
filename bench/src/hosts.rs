//! Hosts on this machine: network namespaces that programs are started in.
//!
//! Each host is what one sleeping process holds open: a network namespace, a mount namespace
//! (libraries list devices in `/sys`, which must show this network), and a host name of its own
//! (launchers take equal names for one machine). Nothing is given a name on the machine, so that
//! the kernel removes everything when the sleepers end, however the harness itself ends. Making
//! them needs root. What joins them is not made here.

use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::thread::LinkNameSpaceType;
use tempfile::TempDir;

use crate::BenchError;
use crate::command::{Launch, Running};
use crate::error::file;

/// The device of a host.
pub(crate) const DEVICE: &str = "eth0";

pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Hosts. Dropping them ends them.
#[derive(Debug)]
pub(crate) struct Hosts {
    sleepers: Vec<Running>,
    /// Their names.
    pub(crate) names: Vec<String>,
    /// Their addresses on their devices.
    pub(crate) addresses: Vec<String>,
    /// Holds the script.
    directory: TempDir,
}

impl Hosts {
    /// Makes `count` hosts, `prefix1` and on, with addresses `subnet.1` and on; programs on them use
    /// the CPUs in turn.
    pub(crate) fn make(
        prefix: &str,
        subnet: &str,
        count: usize,
        cpus: &[usize],
    ) -> Result<Self, BenchError> {
        if !rustix::process::geteuid().is_root() {
            return Err(missing("only root may make them; run as root".to_owned()));
        }
        let names: Vec<String> = (1..=count).map(|number| format!("{prefix}{number}")).collect();
        let addresses = (1..=count).map(|number| format!("{subnet}.{number}")).collect();
        let start = |name: &String| {
            Launch::new("unshare", TIME_LIMIT)
                .args(["--net", "--mount", "--uts", "sh", "-c"])
                .args([format!(
                    "mount -t sysfs none /sys && hostname {name} && exec sleep infinity"
                )])
                .remedy("install util-linux")
                .start()
        };
        let mut sleepers: Vec<Running> = names.iter().map(start).collect::<Result<_, _>>()?;
        for sleeper in &mut sleepers {
            let comm = format!("/proc/{}/comm", sleeper.id());
            wait_for("the namespaces", || {
                if sleeper.has_ended() {
                    return Err(missing("the kernel refused to make them".to_owned()));
                }
                Ok(fs::read_to_string(&comm).is_ok_and(|name| name.trim() == "sleep"))
            })?;
        }
        let directory = tempfile::tempdir().map_err(file("create", std::env::temp_dir()))?;
        let hosts = Self { sleepers, names, addresses, directory };
        write_script(&hosts.script(), &hosts.script_text(cpus))?;
        Ok(hosts)
    }

    /// The process that holds host `side` open.
    pub(crate) fn id(&self, side: usize) -> u32 {
        self.sleepers[side].id()
    }

    /// The script that runs a command line on a host: `SCRIPT [-OPTION]... HOST WORD...`, as
    /// launchers call ssh.
    pub(crate) fn script(&self) -> PathBuf {
        self.directory.path().join("on-host")
    }

    /// What starts `launch` on host `side`.
    pub(crate) fn on(&self, side: usize, launch: Launch) -> Launch {
        launch.behind(&self.script(), &self.names[side])
    }

    /// What `act` gives in the network of host `side`; descriptors that it opens there stay there.
    pub(crate) fn inside<T: Send>(
        &self,
        side: usize,
        act: impl FnOnce() -> std::io::Result<T> + Send,
    ) -> Result<T, BenchError> {
        // A thread that has gone there ends there.
        std::thread::scope(|scope| {
            let work = scope.spawn(|| {
                self.enter(side)?;
                act().map_err(file("work in the network of", &self.names[side]))
            });
            work.join().expect("the closure does not panic")
        })
    }

    /// Moves the calling thread to the network of host `side`.
    pub(crate) fn enter(&self, side: usize) -> Result<(), BenchError> {
        let path = PathBuf::from(format!("/proc/{}/ns/net", self.id(side)));
        let network = fs::File::open(&path).map_err(file("open", &path))?;
        let kind = Some(LinkNameSpaceType::Network);
        let moved = rustix::thread::move_into_link_name_space(network.as_fd(), kind);
        moved.map_err(|error| file("enter", &path)(error.into()))
    }

    /// Gives the device of every host its address and sets it up; waits for its link, which comes a
    /// moment later, and libraries ask for that.
    pub(crate) fn set_up(&self) -> Result<(), BenchError> {
        for (side, (host, address)) in self.names.iter().zip(&self.addresses).enumerate() {
            let commands = format!(
                "ip link set lo up && ip addr add {address}/24 dev {DEVICE} && \
                 ip link set {DEVICE} up"
            );
            Launch::new(self.script(), TIME_LIMIT).args([host.clone(), commands]).run()?;
            let state = self.statistics(side).with_file_name("carrier");
            wait_for("the link of a host", || {
                Ok(fs::read_to_string(&state).is_ok_and(|state| state.trim() == "1"))
            })?;
        }
        Ok(())
    }

    /// Where the counters of the device of host `side` are.
    pub(crate) fn statistics(&self, side: usize) -> PathBuf {
        format!("/proc/{}/root/sys/class/net/{DEVICE}/statistics", self.id(side)).into()
    }

    /// The tables of TCP connections of host `side`.
    pub(crate) fn tcp_tables(&self, side: usize) -> [String; 2] {
        let id = self.id(side);
        ["tcp", "tcp6"].map(|name| format!("/proc/{id}/net/{name}"))
    }

    fn script_text(&self, cpus: &[usize]) -> String {
        let ids = self.sleepers.iter().map(Running::id);
        let hosts = self.names.iter().zip(&self.addresses).zip(ids);
        script(
            hosts
                .zip(cpus.iter().cycle())
                .map(|(((name, address), id), &cpu)| (name.as_str(), address.as_str(), id, cpu)),
        )
    }
}

/// The error of hosts that are not there.
pub(crate) fn missing(remedy: String) -> BenchError {
    BenchError::Missing { what: "hosts, which are network namespaces,".to_owned(), remedy }
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

fn script<'a>(hosts: impl Iterator<Item = (&'a str, &'a str, u32, usize)>) -> String {
    let mut text = String::from(
        "#!/bin/sh\nwhile case $1 in -*) true ;; *) false ;; esac; do shift; done\ncase $1 in\n",
    );
    for (name, address, id, cpu) in hosts {
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
        let hosts = [("bench1", "10.78.0.1", 70, 3), ("bench2", "10.78.0.2", 71, 5)];
        let text = script(hosts.into_iter());
        assert!(text.contains("bench1|10.78.0.1) id=70 cpu=3 ;;"), "{text}");
        assert!(text.contains("bench2|10.78.0.2) id=71 cpu=5 ;;"), "{text}");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("on-host");
        write_script(&path, &text).unwrap();
        let error = Launch::new(path, TIME_LIMIT).args(["-x", "elsewhere"]).run().unwrap_err();
        assert!(error.to_string().contains("no host elsewhere"), "{error}");
    }
}
