//! Facts of this machine and this process that decide what Bowline can do.
//!
//! Each is read from where the kernel has it; one that cannot be learnt is shown as unknown, and
//! nothing is assumed in its place.

use std::fs;
use std::path::Path;

use anyhow::bail;
use bowline_base::doorbell;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CpuSet, sched_getaffinity};
use serde::Serialize;

use super::probe;
use crate::numbers::about;

/// The facts.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    kernel: String,
    architecture: String,
    processor: Option<String>,
    /// Processors of the machine that are in use.
    processors_online: Option<u32>,
    /// Those that this process may use, by number.
    processors_allowed: Vec<usize>,
    /// Whether sleepers can be noticed without a fence per message.
    membarrier: bool,
    /// Whether a rank may read another one's memory, or why not.
    cross_memory_attach: String,
    /// The ptrace restriction of the Yama security module, if there is one.
    yama_ptrace_scope: Option<u32>,
    /// Bytes that the process may lock; `None` is no limit.
    memlock_bytes: Option<u64>,
    memory_bytes: Option<u64>,
    memory_available_bytes: Option<u64>,
    /// The least memory limit of the control groups above this process, with its group.
    cgroup_memory_limit: Option<GroupLimit>,
}

/// A limit of a control group.
#[derive(Debug, Serialize)]
struct GroupLimit {
    group: String,
    bytes: u64,
}

impl Machine {
    pub(super) fn here() -> Self {
        let system = rustix::system::uname();
        let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        let allowed = sched_getaffinity(None).unwrap_or_default();
        let meminfo = read("/proc/meminfo").unwrap_or_default();
        Self {
            kernel: format!("{} {}", text(system.sysname()), text(system.release())),
            architecture: text(system.machine()),
            processor: read("/proc/cpuinfo").and_then(|text| field(&text, "model name")),
            processors_online: read("/sys/devices/system/cpu/online").and_then(|t| count(&t)),
            processors_allowed: (0..CpuSet::MAX_CPU).filter(|&n| allowed.is_set(n)).collect(),
            membarrier: !doorbell::light_fence_needed(),
            cross_memory_attach: match probe::between_siblings() {
                Ok(()) => "works".to_owned(),
                Err(why) => format!("refused: {why:#}"),
            },
            yama_ptrace_scope: read("/proc/sys/kernel/yama/ptrace_scope")
                .and_then(|text| text.trim().parse().ok()),
            memlock_bytes: getrlimit(Resource::Memlock).current,
            memory_bytes: kilobytes(&meminfo, "MemTotal"),
            memory_available_bytes: kilobytes(&meminfo, "MemAvailable"),
            cgroup_memory_limit: read("/proc/self/cgroup").and_then(|groups| group_limit(&groups)),
        }
    }

    /// Names and values, as a person reads them.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let unknown = || "unknown".to_owned();
        let bytes = |bytes: Option<u64>| bytes.map_or_else(unknown, about);
        let yama = match self.yama_ptrace_scope {
            None => "not present".to_owned(),
            Some(0) => "0: processes of one user may read each other".to_owned(),
            Some(1) => "1: only descendants may be read".to_owned(),
            Some(other) => format!("{other}: only privileged processes may read others"),
        };
        let numbers: Vec<_> = self.processors_allowed.iter().map(ToString::to_string).collect();
        vec![
            ("kernel", format!("{}, {}", self.kernel, self.architecture)),
            ("processor", self.processor.clone().unwrap_or_else(unknown)),
            ("processors online", self.processors_online.map_or_else(unknown, |n| n.to_string())),
            (
                "processors allowed",
                format!("{} ({})", self.processors_allowed.len(), numbers.join(" ")),
            ),
            (
                "membarrier",
                match self.membarrier {
                    true => "works: no fence per message for sleepers".to_owned(),
                    false => "absent: each message costs a fence".to_owned(),
                },
            ),
            ("cross memory attach", self.cross_memory_attach.clone()),
            ("ptrace scope (Yama)", yama),
            ("locked memory limit", self.memlock_bytes.map_or("none".to_owned(), about)),
            ("memory", bytes(self.memory_bytes)),
            ("memory available", bytes(self.memory_available_bytes)),
            (
                "cgroup memory limit",
                self.cgroup_memory_limit.as_ref().map_or("none".to_owned(), |limit| {
                    format!("{} ({})", about(limit.bytes), limit.group)
                }),
            ),
        ]
    }
}

/// Whether this machine has so many bytes of memory for processes that push no others out, and this process's limit
/// of addresses allows them. Where the system says neither, they are assumed to be there.
///
/// # Errors
/// When there are fewer: what takes them, as `what` says, and both figures.
pub(crate) fn has_memory(needed: u64, what: impl FnOnce() -> String) -> anyhow::Result<()> {
    let available = read("/proc/meminfo").and_then(|meminfo| kilobytes(&meminfo, "MemAvailable"));
    if let Some(available) = available.filter(|available| needed > *available) {
        let (needed, available) = (about(needed), about(available));
        bail!("{} {needed}, and this machine has {available} of memory available", what());
    }
    let taken = || kilobytes(&read("/proc/self/status")?, "VmSize");
    let limit = getrlimit(Resource::As).current;
    let allowed = limit.map(|limit| limit.saturating_sub(taken().unwrap_or(0)));
    if let Some(allowed) = allowed.filter(|allowed| needed > *allowed) {
        let (needed, allowed) = (about(needed), about(allowed));
        bail!("{} {needed}, and the limit of this process (ulimit -v) leaves {allowed}", what());
    }
    Ok(())
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// The value behind `name` and a colon.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// A value of `/proc/meminfo`, as bytes.
fn kilobytes(meminfo: &str, name: &str) -> Option<u64> {
    let value = field(meminfo, name)?;
    value.strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// How many numbers a list such as `0-3,7` has.
fn count(list: &str) -> Option<u32> {
    list.trim().split(',').try_fold(0, |sum, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        Some(sum + last.checked_sub(first)? + 1)
    })
}

/// The least limit of the groups from this process' own up to the root, both versions.
fn group_limit(groups: &str) -> Option<GroupLimit> {
    let mut least: Option<GroupLimit> = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (mount, file) = if controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.max")
        } else if controllers.split(',').any(|controller| controller == "memory") {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            continue;
        };
        let own = Path::new(mount).join(path.trim_start_matches('/'));
        for group in own.ancestors().take_while(|group| group.starts_with(mount)) {
            let Some(bytes) = read(group.join(file)).and_then(|text| limit(&text)) else {
                continue;
            };
            if least.as_ref().is_none_or(|least| bytes < least.bytes) {
                least = Some(GroupLimit { group: group.display().to_string(), bytes });
            }
        }
    }
    least
}

/// A limit as the kernel writes it. Version 1 says "no limit" by a number beyond any machine.
fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|&bytes: &u64| bytes < 1 << 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_texts_are_read() {
        assert_eq!(count("0-3,7\n"), Some(5));
        assert_eq!(count("0"), Some(1));
        assert_eq!(count("3-1"), None);
        assert_eq!(kilobytes("MemTotal:   12 kB\n", "MemTotal"), Some(12288));
        assert_eq!(kilobytes("MemTotal:   12\n", "MemTotal"), None);
        assert_eq!(field("a : b\nmodel name\t: X Y\n", "model name"), Some("X Y".to_owned()));
        assert_eq!(limit("max\n"), None);
        assert_eq!(limit("9223372036854771712\n"), None);
        assert_eq!(limit("4096\n"), Some(4096));
    }

    #[test]
    fn this_machine_has_processors_and_memory() {
        let text = read("/proc/meminfo").unwrap();
        assert!(kilobytes(&text, "MemTotal").is_some_and(|bytes| bytes > 0));
        assert!(!sched_getaffinity(None).unwrap().is_set(CpuSet::MAX_CPU - 1));
    }
}
